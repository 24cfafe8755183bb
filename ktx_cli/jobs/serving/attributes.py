"""On whose behalf a server asks: the attributes of the caller for row policies. No question can change them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Final

from ktx_cli.context.semantic.errors import SemanticError
from ktx_cli.core.errors import UsageError

OPTION: Final = "--user-attribute"


def read_attributes(texts: Sequence[str] | None) -> dict[str, Any]:
    """Return the attributes of `NAME=TEXT` and `NAME:=JSON`; `UsageError` for anything else."""
    found: dict[str, Any] = {}
    for text in texts or ():
        name, equal, value = text.partition("=")
        if not equal or not name.strip():
            raise UsageError(f"{OPTION} takes NAME=VALUE, not `{text}`", hint=f"{OPTION} region=EU")
        name = name.strip()
        if not name.endswith(":"):
            found[name] = value
            continue
        try:
            found[name[:-1]] = json.loads(value)
        except ValueError as error:
            raise UsageError(
                f"the value after `:=` is not valid JSON: `{name}={value}` ({error})",
                hint=f"{OPTION} {name[:-1]}={value}",
            ) from error
    return found


def server_attributes(texts: Sequence[str] | None) -> dict[str, Any]:
    """Return the attributes a server is started with: texts, numbers and booleans; `UsageError` for anything else."""
    found = read_attributes(texts)
    for name, value in found.items():
        if not isinstance(value, str | int) and not (isinstance(value, float) and isfinite(value)):
            raise UsageError(
                f"the value of the attribute `{name}` must be a text, a number or a boolean",
                hint=f"for example: {OPTION} {name}=EU, or {OPTION} {name}:=7",
            )
    return found


@contextlib.contextmanager
def missing_attributes_told() -> Iterator[None]:
    """Let the hint of a policy that lacks an attribute say how a server gets it: no argument of a call gives it."""
    try:
        yield
    except SemanticError as error:
        name = error.details.get("attribute") if error.code == "policy" else None
        if name is not None:
            error.hint = (
                f"no argument gives it: whoever runs this server starts it with {OPTION} {name}=VALUE, "
                f"or sets mcp.user_attributes.{name} in ktx.yaml"
            )
        raise


def attributes_of_caller(of_project: Mapping[str, Any], of_server: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of every question: those of `ktx.yaml`, in place of which a server's own stand."""
    return {**of_project, **of_server}
