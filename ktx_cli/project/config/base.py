"""The base of the `ktx.yaml` model: how blocks and settings are declared, and how errors are located in the file."""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from ktx_cli.core import ConfigError, Diagnostic, Location, ResultWarning, Severity, one_line, yaml
from ktx_cli.project.secrets import MASK, is_reference, redact_url

Status = Literal["used", "later", "dead"]
"""`used`: this version reads it. `later`: parsed but not used yet. `dead`: known from other versions, never read."""

REQUIRED: Final = ...
"""Default of a required setting."""

STATUS_KEY: Final = "x-ktx-status"
REFERENCE_PATTERN: Final = r"\s*(?:env|file|keyring):"
"""Prefix pattern of a secret reference, for JSON Schema."""

SECRET_KEY: Final = "x-ktx-secret"
PATH_KEY: Final = "x-ktx-path"


class Block(BaseModel):
    """A mapping in `ktx.yaml`. Unknown keys are kept; a key without a value counts as not set."""

    model_config = ConfigDict(extra="allow", strict=True, defer_build=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: item for key, item in value.items() if item is not None}
        return value


def setting(
    default: Any,
    description: str,
    *,
    alias: str | None = None,
    status: Status = "used",
    secret: bool = False,
    path: bool = False,
    example: Any = None,
    **limits: Any,
) -> Any:
    """Declare one setting: its default (a factory for blocks, or `REQUIRED`), its description and its `ktx.yaml` key.

    `secret`: the value should be a secret reference, never plain text in a file in git. `path`: the value is a path or
    URL in which `file:` is not a secret reference. `example`: the value in `ktx.example.yaml` if the default is not
    instructive. `limits`: pydantic's `ge`, `gt`, `le` and `min_length`.
    """
    extra: dict[str, Any] = {STATUS_KEY: status}
    extra |= {key: True for key, given in ((SECRET_KEY, secret), (PATH_KEY, path)) if given}
    common: dict[str, Any] = {"description": description, "alias": alias, "json_schema_extra": extra, **limits}
    if example is not None:
        common["examples"] = [example]
    if isinstance(default, type):
        return Field(default_factory=default, **common)
    return Field(default, **common)


def wrong(
    message: str, *, hint: str | None = None, key: str | None = None, of_value: bool = False
) -> PydanticCustomError:
    """Return the validation error of one of ktx's own rules.

    `message` continues "`the.setting` ...". If the rule checks a whole block, `key` is the key in that block that the
    error is about. `of_value`: the message describes the expected value, so the actual value is added to it.
    """
    # pydantic cannot carry a lone surrogate, which a command-line argument may contain
    text = message.encode("utf-8", "backslashreplace").decode()
    context = {"message": text, "hint": hint, "key": key, "of_value": of_value}
    return PydanticCustomError("rule", "{message}", context)


def checked(
    holds: Callable[[Any], bool], message: str, *, hint: str | None = None, of_value: bool = False
) -> AfterValidator:
    """Return a validator that rejects values for which `holds` is false."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise wrong(message, hint=hint, of_value=of_value)
        return value

    return AfterValidator(check)


@dataclass(frozen=True, slots=True)
class Setting:
    """One declared setting. `key` is its `ktx.yaml` key, `block` the model of a nested mapping."""

    key: str
    attribute: str
    field: FieldInfo
    block: type[Block] | None

    @property
    def status(self) -> Status:
        """Return whether this version reads the setting."""
        return self._extra(STATUS_KEY, "used")  # type: ignore[no-any-return]

    @property
    def secret(self) -> bool:
        """Return whether the value should be a secret reference."""
        return bool(self._extra(SECRET_KEY, False))

    @property
    def is_path(self) -> bool:
        """Return whether `file:` in the value is part of a path rather than a secret reference."""
        return bool(self._extra(PATH_KEY, False))

    @property
    def default(self) -> Any:
        """Return the default; None for a required setting."""
        return None if self.field.is_required() else self.field.get_default(call_default_factory=True)

    @property
    def description(self) -> str:
        """Return the description."""
        return self.field.description or ""

    def _extra(self, key: str, default: Any) -> Any:
        extra = self.field.json_schema_extra
        return extra.get(key, default) if isinstance(extra, dict) else default


@functools.cache
def settings_of(model: type[Block]) -> dict[str, Setting]:
    """Return the settings of a block by `ktx.yaml` key, in declaration order."""
    found = {}
    for attribute, field in model.model_fields.items():
        key = field.alias or attribute
        found[key] = Setting(key, attribute, field, _block_of(field.annotation))
    return found


def _block_of(annotation: Any) -> type[Block] | None:
    if isinstance(annotation, type) and issubclass(annotation, Block):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType):
        return next((block for part in get_args(annotation) if (block := _block_of(part))), None)
    return None


Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True, init=False)
class Issue(Diagnostic):
    """A diagnostic about a setting; the object of its location is the dotted path of the setting."""

    keys: Keys
    """Path of the setting."""
    column: int | None
    """Column in the file, starting at 1; None if the setting is not in the file."""
    missing: bool
    """Whether a required setting is missing."""
    refuses_text: bool
    """Whether the value is text although another type is expected."""
    is_rule: bool
    """Whether the value violates one of ktx's own rules rather than the type or the limits of the setting."""

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
        facts = {"keys": keys, "column": column, "missing": missing, "refuses_text": refuses_text, "is_rule": is_rule}
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    @property
    def setting(self) -> str:
        """Dotted path of the setting."""
        return ".".join(self.keys)

    def to_json(self) -> dict[str, Any]:
        """Return the issue as it appears in the JSON output."""
        return {**self.select(_KEYS), "column": self.column}

    def to_warning(self) -> ResultWarning:
        """Return the issue as a command warning."""
        return ResultWarning.of(self, f"config_{self.code}", path=self.setting, line=self.line, column=self.column)


_KEYS: Final[Mapping[str, str]] = {
    "path": "object",
    **{name: name for name in ("message", "hint", "severity", "code", "line")},
}


class InvalidConfigError(ConfigError):
    """An invalid `ktx.yaml`, or an invalid part of one; `issues` lists everything, errors first."""

    def __init__(self, message: str, issues: Sequence[Issue], **details: Any) -> None:
        facts = {**details, "issues": [issue.to_json() for issue in issues]}
        super().__init__(message, hint=issues[0].hint, details=facts)
        self.issues = tuple(issues)


def placed(issues: Iterable[Issue], text: bytes) -> tuple[Issue, ...]:
    """Return the issues with their locations, errors first, then by location."""
    found = list(issues)
    root = yaml.compose(text, where="") if found else None
    located = [_with_place(issue, root) for issue in found]
    return tuple(sorted(located, key=lambda issue: (-issue.severity.weight, issue.line or 0, issue.column or 0)))


def _with_place(issue: Issue, root: yaml.Node | None) -> Issue:
    """Locate an issue at its deepest key that exists in the file; an entry in a mapping is located at its key."""
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
    """Return a mapping key as text: YAML reads `1:` as a number, other versions as text."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)


def named(keys: Sequence[str]) -> str:
    """Return a setting's path as messages show it; a key may contain any character."""
    return f"`{one_line('.'.join(keys), 120)}`"


_SECRET_NAME: Final = re.compile(
    r"(?:password|passwd|pwd|passphrase|secret|token|(?:api|private|access)[_-]?key|credentials?(?:_json)?)(?:_?ref)?$",
    re.IGNORECASE,
)


def is_literal_secret(declared: Setting | None, key: str, value: str) -> bool:
    """Return whether a value is a plaintext secret; an unknown key is judged by its name."""
    if is_reference(value) or not value.strip() or "://" in value:
        return False  # only the password of a URL is secret
    return declared.secret if declared is not None else _SECRET_NAME.search(key) is not None


def shown(value: Any, declared: Setting | None = None, key: str = "", *, reveal: bool = False) -> Any:
    """Return a configuration value as plain data by `ktx.yaml` key, with defaults, and with secrets masked.

    Settings without a value are omitted. `reveal` keeps secrets unmasked.
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
