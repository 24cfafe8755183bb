"""Values for the parameters of a native query that are left when nobody fills in anything."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_STAND_INS: Final[Mapping[str, tuple[str, Any]]] = {
    "text": ("category", "ktx"),
    "number": ("number/=", 1),
    "date": ("date/single", "2000-01-01"),
    "boolean": ("boolean/=", True),
    "temporal-unit": ("temporal-unit", "month"),
}
"""Type of a parameter -> the type Metabase gives its value, and the value."""

_WIDGETS: Final[tuple[tuple[str, Any], ...]] = (
    ("date/range", "2000-01-01~2000-12-31"),
    ("date/relative", "past30days"),
    ("date/month-year", "2000-01"),
    ("date/quarter-year", "Q1-2000"),
    ("date/all-options", "2000-01-01~2000-12-31"),
    ("date", "2000-01-01"),
    ("number/between", [1, 2]),
    ("number", [1]),
    ("id", [1]),
    ("boolean", [True]),
)
"""How the widget of a field filter begins -> a value for it, the first that fits."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """`tags` and `parameters` as Metabase takes them; `values`: what was put in for whom."""

    tags: Mapping[str, Mapping[str, Any]]
    parameters: tuple[Mapping[str, Any], ...]
    values: Mapping[str, Any]


def parameters_for(names: Iterable[str], tags: Mapping[str, Mapping[str, Any]]) -> Parameters:
    """Return values for the named parameters: their defaults, else stand-ins.

    A field filter that need not be filled in gets none: Metabase writes a condition that always holds.
    """
    known: dict[str, Mapping[str, Any]] = {}
    given: list[Mapping[str, Any]] = []
    values: dict[str, Any] = {}
    for name in sorted(names):
        tag = tags.get(name, {"type": "text"})
        known[name] = {"id": str(uuid.uuid5(uuid.NAMESPACE_OID, name)), "display-name": name, **tag, "name": name}
        if tag.get("type") == "dimension" and not tag.get("required") and _is_unset(tag):
            continue
        kind, value = _value(tag)
        values[name] = value
        target = "dimension" if tag.get("type") == "dimension" else "variable"
        given.append({"type": kind, "target": [target, ["template-tag", name]], "value": value})
    return Parameters(known, tuple(given), values)


def _value(tag: Mapping[str, Any]) -> tuple[str, Any]:
    kind, stand_in = _STAND_INS.get(str(tag.get("type")), _STAND_INS["text"])
    if tag.get("type") == "dimension":
        kind = str(tag.get("widget-type") or "category")
        stand_in = next((value for start, value in _WIDGETS if kind.startswith(start)), ["ktx"])
    return kind, stand_in if _is_unset(tag) else tag["default"]


def _is_unset(tag: Mapping[str, Any]) -> bool:
    return tag.get("default") in (None, "", [])
