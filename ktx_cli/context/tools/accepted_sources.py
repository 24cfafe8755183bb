"""What of a source's definition a new state drops or changes; a description where there was none changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from ktx_cli.context.semantic.model import Column, Join, Measure, Segment, Source

_SCALARS: Final = ("table", "sql", "grain", "keyed", "time_column", "visibility", "generated")


def redefined(old: Source, new: Source) -> Iterator[str]:
    """Yield what a composed source has no more, or otherwise, one line each."""
    for name in _SCALARS:
        before = getattr(old, name)
        if before is not None and before != getattr(new, name):
            yield f"`{name}` of `{old.name}`"
    if old.description and old.description != new.description:
        yield f"the description of `{old.name}`"
    yield from _named(old.name, "column", old.columns, new.columns)
    yield from _named(old.name, "measure", old.measures, new.measures)
    yield from _named(old.name, "segment", old.segments, new.segments)
    yield from _named(old.name, "parameter", old.parameters, new.parameters)
    yield from _all_there(old.name, "join", old.joins, new.joins)
    yield from _all_there(old.name, "policy", old.policies, new.policies)
    yield from _all_there(old.name, "test", old.tests, new.tests)


def dropped_items(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """Yield the places of a file's values that are gone or another; what was added is none of them."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key, value in old.items():
            place = f"{where}.{key}" if where else str(key)
            if key not in new:
                yield f"`{place}`"
            else:
                yield from dropped_items(value, new[key], place)
    elif isinstance(old, list) and isinstance(new, list):
        for item in old:
            yield from _dropped_item(item, new, where)
    elif old != new and old not in (None, "", [], {}):
        yield f"`{where}`"


def _dropped_item(item: Any, new: list[Any], where: str) -> Iterator[str]:
    name = item.get("name") if isinstance(item, Mapping) else None
    if name is None:
        if not any(not list(dropped_items(item, each)) for each in new):
            yield f"`{where}`: {item}"
        return
    same = [each for each in new if isinstance(each, Mapping) and each.get("name") == name]
    yield from dropped_items(item, same[0], f"{where}.{name}") if same else (f"`{where}.{name}`",)


def _named(source: str, what: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name, item in old.items():
        if name not in new or not _is_kept(item, new[name]):
            yield f"{what} `{name}` of `{source}`"


def _all_there(source: str, what: str, old: Iterable[Any], new: Iterable[Any]) -> Iterator[str]:
    now = list(new)
    for item in old:
        if not any(_is_kept(item, each) for each in now):
            yield f"{what} `{_name(item)}` of `{source}`"


def _name(item: Any) -> str:
    return item.alias or item.to if isinstance(item, Join) else str(item.name)


def _is_kept(old: Any, new: Any) -> bool:
    """Whether an item says what it said; a description may be new, and it may stand elsewhere."""
    if isinstance(old, Column | Measure | Segment) and type(old) is type(new):
        if old.description and old.description != new.description:
            return False
        return bool(replace(old, place=None, description=None) == replace(new, place=None, description=None))
    return bool(replace(old, place=None) == replace(new, place=None))
