"""The base of `ktx.yaml`: blocks and settings as they are declared, and what is wrong with a file, and where."""

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
"""`used`: read by this version. `later`: parsed, without effect yet. `dead`: known from other versions, never read."""

REQUIRED: Final = ...
"""The default of a setting that must be given."""

STATUS_KEY: Final = "x-ktx-status"
REFERENCE_PATTERN: Final = r"\s*(?:env|file|keyring):"
"""How a secret reference begins, for JSON Schema."""

SECRET_KEY: Final = "x-ktx-secret"
PATH_KEY: Final = "x-ktx-path"


class Block(BaseModel):
    """A mapping of `ktx.yaml`. Unknown keys are kept; a key without a value counts as not given."""

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
    """Declare one setting: default (a factory for blocks, `REQUIRED`), meaning with its unit, `ktx.yaml` key.

    `secret`: belongs in a reference, never in a file in git. `path`: a path or URL in which `file:` is no secret
    reference. `example`: the value in `ktx.example.yaml` where the default says little. `limits`: `ge`, `gt`, `le`,
    `min_length` of pydantic.
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
    """Return the error of a rule of ours.

    `message` continues "`the.setting` ...". `key` is the key inside the block that the error is about, where the
    rule looks at the whole block. `of_value`: the message says what the value must be, and is told what it is.
    """
    # pydantic cannot carry a lone surrogate, which a word on the command line may hold
    text = message.encode("utf-8", "backslashreplace").decode()
    context = {"message": text, "hint": hint, "key": key, "of_value": of_value}
    return PydanticCustomError("rule", "{message}", context)


def checked(
    holds: Callable[[Any], bool], message: str, *, hint: str | None = None, of_value: bool = False
) -> AfterValidator:
    """Return a validator that refuses a value for which `holds` is false."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise wrong(message, hint=hint, of_value=of_value)
        return value

    return AfterValidator(check)


@dataclass(frozen=True, slots=True)
class Setting:
    """The facts of one declared setting. `key` is its `ktx.yaml` key, `block` the model of a nested mapping."""

    key: str
    attribute: str
    field: FieldInfo
    block: type[Block] | None

    @property
    def status(self) -> Status:
        """Say whether this version reads it."""
        return self._extra(STATUS_KEY, "used")  # type: ignore[no-any-return]

    @property
    def secret(self) -> bool:
        """Say whether its value belongs in a reference."""
        return bool(self._extra(SECRET_KEY, False))

    @property
    def is_path(self) -> bool:
        """Say whether `file:` in its value is no secret reference."""
        return bool(self._extra(PATH_KEY, False))

    @property
    def default(self) -> Any:
        """Return its default; None also where it must be given."""
        return None if self.field.is_required() else self.field.get_default(call_default_factory=True)

    @property
    def description(self) -> str:
        """Return what it means."""
        return self.field.description or ""

    def _extra(self, key: str, default: Any) -> Any:
        extra = self.field.json_schema_extra
        return extra.get(key, default) if isinstance(extra, dict) else default


@functools.cache
def settings_of(model: type[Block]) -> dict[str, Setting]:
    """Return the settings of a block by `ktx.yaml` key, in declared order."""
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
        facts = {"keys": keys, "column": column, "missing": missing, "refuses_text": refuses_text, "is_rule": is_rule}
        for name, value in facts.items():
            object.__setattr__(self, name, value)

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
