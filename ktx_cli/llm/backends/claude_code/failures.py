"""What the SDK raises, as errors of ours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ktx_cli.core.errors import KtxError
from ktx_cli.llm.backends.claude.managed import forbids_own_servers, managed_servers_error
from ktx_cli.llm.errors import LlmError, llm_error

REFUSED_SCHEMA: Final = "--json-schema is not a valid"
"""In what the binary says on stderr of a schema it does not take."""

TOO_DEEP: Final = "maximum recursion depth exceeded"


def translate(error: Exception, *, backend: str, model: str, role: str, stderr: Iterable[str] = ()) -> KtxError:
    """Return the error for what a process or the SDK raised; its words, and the process's on stderr, go into `detail`
    alone."""
    if isinstance(error, KtxError):
        return error
    names: dict[str, Any] = {"backend": backend, "model": model, "role": role}
    words = "; ".join([describe(error), *stderr])
    if forbids_own_servers(words):
        return managed_servers_error(backend)
    if REFUSED_SCHEMA in words:
        return refused_schema(**names, detail=words)
    if isinstance(error, RecursionError) or TOO_DEEP in words:
        return too_deep(**names, detail=words)
    if type(error).__name__ == "CLINotFoundError":
        return llm_error("connection", **names, message="the `claude` binary cannot be started", detail=words)
    if "on_failure" in words or "too old" in words:
        message = "this Claude Code is too old to be guarded"
        return llm_error("isolation", **names, message=message, hint="claude update", detail=words)
    return llm_error("connection", **names, message="Claude Code ended unexpectedly", detail=words, hint="ktx doctor")


def refused_schema(*, backend: str, model: str, role: str, detail: str) -> LlmError:
    """Return the error of a call whose schema the binary does not take; its words are in `detail`."""
    return llm_error(
        "structured_output",
        backend=backend,
        model=model,
        role=role,
        message="Claude Code does not take the schema of the answer",
        hint=f"give the role an API backend: ktx config set llm.models.{role} anthropic:MODEL",
        detail=detail,
    )


def too_deep(*, backend: str, model: str, role: str, detail: str = "") -> LlmError:
    """Return the error of an answer whose JSON cannot be read for its depth."""
    return llm_error(
        "execution",
        backend=backend,
        model=model,
        role=role,
        message=f"the model `{model}` wrote JSON that is nested too deeply to be read",
        hint="rerun this command; the answer of the model is what is wrong",
        detail=detail,
    )


def describe(error: BaseException) -> str:
    """Return everything an error says, with what caused it."""
    said: list[str] = []
    found: BaseException | None = error
    while found is not None:
        said.append(f"{type(found).__name__}: {found}")
        found = found.__cause__
    return "; ".join(said)
