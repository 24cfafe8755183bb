"""The base of every block of `ktx.yaml`: its model, the declaration of a setting, the walk over settings."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

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
    if secret:
        extra[SECRET_KEY] = True
    if path:
        extra[PATH_KEY] = True
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
