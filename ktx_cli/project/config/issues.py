"""What is wrong with a `ktx.yaml`, and where in the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ktx_cli.core import ConfigError, Diagnostic, Location, ResultWarning, Severity, one_line, yaml
from ktx_cli.project.config.base import Block, Setting, settings_of
from ktx_cli.project.secrets import MASK, is_reference, redact_url

Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True, init=False)
class Issue(Diagnostic):
    """A diagnostic of a setting; the object of its location is the setting's dotted path."""

    keys: Keys
    """The path of the setting."""
    column: int | None
    """The column in the file, from 1; None: not in the file."""
    missing: bool
    """Whether the setting must be given, and is not."""
    refuses_text: bool
    """Whether it has a text where another kind of value is wanted."""
    is_rule: bool
    """Whether it breaks a rule of ours, rather than the type of the setting or its bounds."""

    def __init__(
        self,
        keys: Keys,
        message: str,
        hint: str | None = None,
        severity: Severity = Severity.ERROR,
        code: str = "invalid",
        location: Location | None = None,
        column: int | None = None,
        missing: bool = False,
        refuses_text: bool = False,
        is_rule: bool = False,
    ) -> None:
        Diagnostic.__init__(self, code, severity, message, location or Location(object=".".join(keys)), hint)
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "column", column)
        object.__setattr__(self, "missing", missing)
        object.__setattr__(self, "refuses_text", refuses_text)
        object.__setattr__(self, "is_rule", is_rule)

    @property
    def setting(self) -> str:
        """The path of the setting, dotted."""
        return ".".join(self.keys)

    def to_json(self) -> dict[str, Any]:
        """Return the issue as it stands in the envelope."""
        return {**self.select(_KEYS), "column": self.column}

    def to_warning(self) -> ResultWarning:
        """Return the issue as a warning of a command."""
        return ResultWarning.of(self, f"config_{self.code}", path=self.setting, line=self.line, column=self.column)


_KEYS: Final[Mapping[str, str]] = {
    "path": "object",
    **{name: name for name in ("message", "hint", "severity", "code", "line")},
}


class InvalidConfigError(ConfigError):
    """A `ktx.yaml`, or a part of one, that is not as it has to be; `issues` says it all, errors first."""

    def __init__(self, message: str, issues: Sequence[Issue], **details: Any) -> None:
        facts = {**details, "issues": [issue.to_json() for issue in issues]}
        super().__init__(message, hint=issues[0].hint, details=facts)
        self.issues = tuple(issues)


def placed(issues: Iterable[Issue], text: bytes) -> tuple[Issue, ...]:
    """Return the issues with their places, errors first, then by place."""
    found = list(issues)
    root = yaml.compose(text, where="") if found else None
    located = [_with_place(issue, root) for issue in found]
    return tuple(sorted(located, key=lambda issue: (-issue.severity.weight, issue.line or 0, issue.column or 0)))


def _with_place(issue: Issue, root: yaml.Node | None) -> Issue:
    """Place an issue at the deepest of its keys that the file has; a mapping's entry stands at its key."""
    place: yaml.Node | None = None
    node = root
    for step in issue.keys:
        key, node = _child(node, step)
        if key is None:
            break
        place = key
    return issue if place is None else _located(issue, place)


def _located(issue: Issue, place: yaml.Node) -> Issue:
    return replace(issue, location=replace(issue.location, line=place.line + 1), column=place.column + 1)


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


_SECRET_NAME: Final = re.compile(
    r"(?:password|passwd|pwd|passphrase|secret|token|(?:api|private|access)[_-]?key|credentials?(?:_json)?)(?:_?ref)?$",
    re.IGNORECASE,
)


def is_literal_secret(declared: Setting | None, key: str, value: str) -> bool:
    """Say whether a value is a secret in clear; an unknown key is judged by its name."""
    if is_reference(value) or not value.strip() or "://" in value:
        return False  # in a URL only the password is secret
    return declared.secret if declared is not None else _SECRET_NAME.search(key) is not None


def shown(value: Any, declared: Setting | None = None, key: str = "", *, reveal: bool = False) -> Any:
    """Return a value of a configuration as plain data by `ktx.yaml` key, defaults included, secrets masked.

    Settings without a value are left out. `reveal` leaves secrets as they are.
    """
    if isinstance(value, Block):
        return _shown_block(value, reveal=reveal)
    if isinstance(value, dict):
        return {name: shown(item, declared, name, reveal=reveal) for name, item in value.items()}
    if isinstance(value, list):
        return [shown(item, declared, key, reveal=reveal) for item in value]
    if isinstance(value, str) and not reveal:
        return MASK if is_literal_secret(declared, key, value) else redact_url(value)
    return value


def _shown_block(block: Block, *, reveal: bool) -> dict[str, Any]:
    result = {}
    for key, declared in settings_of(type(block)).items():
        value = getattr(block, declared.attribute)
        if value is not None:
            result[key] = shown(value, declared, key, reveal=reveal)
    for key, value in (block.model_extra or {}).items():
        result[key] = shown(value, None, key, reveal=reveal)
    return result
