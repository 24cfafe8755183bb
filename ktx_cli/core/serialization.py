"""Turns results into plain data for JSON, throughout the program, with `Record`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any, ClassVar


class Record:
    """A dataclass whose JSON consists of its fields.

    A dataclass that only has some of its fields in the JSON, or under other names, or computed values, lists them in
    `json_keys`. An entry is the name of an attribute, or `key=attribute` if they differ; the attribute may be a
    property, a method without arguments, or a path such as `edge.name`:

        @dataclass(frozen=True, slots=True)
        class Decision(Record):
            edge: Edge
            reason: str
            json_keys = ("edge=edge.name", "reason")
    """

    __slots__ = ()

    json_keys: ClassVar[tuple[str, ...]] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object for an envelope, a report or a file."""
        return picked(self, self.json_keys) if self.json_keys else _fields(self)


def picked(value: Any, keys: Iterable[str]) -> dict[str, Any]:
    """Return a value's attributes as a JSON object; `keys` has the form of `Record.json_keys`."""
    pairs = (entry.partition("=") for entry in keys)
    return {key: plain(_attribute(value, path or key)) for key, _, path in pairs}


def plain(value: Any) -> Any:
    """Return a value as JSON: dataclasses and mappings as objects, sequences as lists, enums by value.

    Uses the value's own `to_json` if it has one; numbers, text and None are unchanged.
    """
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return _fields(value) if is_dataclass(value) else value


def _fields(value: Any) -> dict[str, Any]:
    names = (field.name for field in fields(value) if not field.name.startswith("_"))
    return {name: plain(getattr(value, name)) for name in names}


def _attribute(value: Any, path: str) -> Any:
    for name in path.split("."):
        if value is None:
            return None
        value = getattr(value, name)
    return value() if callable(value) else value
