"""What is wrong with a `ktx.yaml`, in our words and with its place in the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from pydantic import ValidationError

from ktx_cli.core import yaml
from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.text import did_you_mean, one_line

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Issue:
    """One error or warning. `keys` is the setting's path, `line` and `column` count from 1 (None: not in the file)."""

    keys: tuple[str, ...]
    message: str
    hint: str | None = None
    severity: Severity = "error"
    code: str = "invalid"
    line: int | None = None
    column: int | None = None

    @property
    def path(self) -> str:
        """Return the setting's path, dotted."""
        return ".".join(self.keys)

    def to_json(self) -> dict[str, Any]:
        """Return the issue as it stands in the envelope."""
        return {
            "path": self.path,
            "message": self.message,
            "hint": self.hint,
            "severity": self.severity,
            "code": self.code,
            "line": self.line,
            "column": self.column,
        }

    def to_warning(self) -> ResultWarning:
        """Return the issue as a warning of a command."""
        return ResultWarning(
            f"config_{self.code}", self.message, hint=self.hint, path=self.path, line=self.line, column=self.column
        )


def placed(issues: Iterable[Issue], text: bytes) -> tuple[Issue, ...]:
    """Return the issues with their places, errors first, then by place."""
    found = list(issues)
    root = yaml.compose(text, where="") if found else None
    located = [_with_place(issue, root) for issue in found]
    return tuple(sorted(located, key=lambda issue: (issue.severity, issue.line or 0, issue.column or 0)))


def _with_place(issue: Issue, root: yaml.Node | None) -> Issue:
    """Place an issue at the deepest of its keys that the file has; a mapping's entry stands at its key."""
    place: yaml.Node | None = None
    node = root
    for step in issue.keys:
        key, node = _child(node, step)
        if key is None:
            break
        place = key
    return issue if place is None else replace(issue, line=place.line + 1, column=place.column + 1)


def _child(node: yaml.Node | None, step: str) -> tuple[yaml.Node | None, yaml.Node | None]:
    if node is None:
        return None, None
    if node.kind == "sequence" and step.isdecimal() and int(step) < len(node.items):
        return node.items[int(step)], node.items[int(step)]
    for key, value in node.pairs:
        if key.kind == "scalar" and key_text(key.value) == step:
            return key, value
    return None, None


def key_text(key: Any) -> str:
    """Return a mapping's key as text: YAML reads `1:` as a number, other versions as a text."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)


def named(keys: Sequence[str]) -> str:
    """Return a setting's path as it stands in a message; a key may hold anything."""
    return f"`{one_line('.'.join(keys), 120)}`"


def errors_of(error: ValidationError) -> list[Issue]:
    """Return pydantic's errors in our words."""
    return [_issue(item) for item in error.errors(include_url=False)]


def _issue(item: Mapping[str, Any]) -> Issue:
    context = item.get("ctx") or {}
    keys = tuple(key_text(part) for part in item["loc"] if part != "[key]")
    if context.get("key"):
        keys = (*keys, context["key"])
    says, hint = _wording(item["type"], context, item["input"])
    if says is None:
        says = f"is not valid: {item['msg']}"
    return Issue(keys, f"{named(keys)} {says}", hint)


_KINDS: Final = {
    "string_type": "a text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}
_BOUNDS: Final = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def _wording(kind: str, context: Mapping[str, Any], value: Any) -> tuple[str | None, str | None]:
    """Return what follows the setting's name, and the hint."""
    if kind == "rule":
        return context["message"], context["hint"]
    if kind == "missing":
        return "is missing", "add it"
    if kind == "string_too_short":
        return "is empty", "give it a value"
    if kind == "literal_error":
        return _choice(re.findall(r"'([^']*)'", context["expected"]), value)
    if kind in _BOUNDS:
        limit, words = _BOUNDS[kind]
        return f"must be {words} {context[limit]:g}, not {value}", None
    if kind in _KINDS:
        return f"must be {_KINDS[kind]}, not {_kind_of(value)}", _kind_hint(kind, value)
    return None, None


def _choice(choices: Sequence[str], value: Any) -> tuple[str, str]:
    known = f"one of {', '.join(choices)}"
    if not isinstance(value, str):
        return f"must be {known}, not {_kind_of(value)}", f"write {known}"
    near = did_you_mean(value, choices)
    return (
        f"cannot be `{one_line(value, 60)}`; it is {known}",
        f"did you mean `{near}`?" if near else f"write {known}",
    )


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    kinds = {int: "a number", float: "a number", str: "a text", list: "a list", dict: "a mapping"}
    return kinds.get(type(value), "nothing")


def _kind_hint(kind: str, value: Any) -> str | None:
    if kind == "string_type" and isinstance(value, int | float):
        return "put the value in double quotes"
    if kind in ("int_type", "float_type"):
        return "write a number, without quotes" if isinstance(value, str) else "write a whole number"
    return {
        "bool_type": "write true or false, without quotes",
        "list_type": "write a list: [one, two]",
        "dict_type": "write `key: value` lines below it, indented",
        "model_type": "write `key: value` lines below it, indented",
    }.get(kind)
