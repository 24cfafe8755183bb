"""Protects accepted context: a capture may only add to it, and anything it would drop or change is listed line by line.

Accepted words must remain, in their order and visible; no program can determine whether an addition contradicts them.
If `ToolSession.accepted` is None, everything may be changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from ktx_cli.agent_tools.layers import Layers, OwnFile
from ktx_cli.agent_tools.session import ToolSession, page_artifact
from ktx_cli.core import ConfigError, one_line, yaml
from ktx_cli.project import RAW_NAME, SCHEMA_NAME, SEMANTIC_NAME, Tree, Workspace
from ktx_cli.protection import Refused
from ktx_cli.semantic import Column, Join, Measure, Model, Segment, Source
from ktx_cli.wiki import Page, hidden_markup, parse, place_of, without_fences, without_swallowed

_MOST_SHOWN: Final = 12
_LONGEST: Final = 160
_PUT_AWAY: Final = ("usage_mode", "stale_since", "archived_since")
"""Fields that keep a page from readers; only people set them."""


def check_kept(session: ToolSession, path: str, content: bytes | None) -> None:
    """Refuse a page that would lose accepted text; if `content` is None, the page would be removed."""
    place = place_of(path)
    if session.accepted is None or place is None:
        return
    reasons = refusal_of_changes(lost_of_page(path, session.accepted.read(path), content), page_artifact(*place))
    if reasons:
        raise Refused(reasons)


def changed_source(
    session: ToolSession,
    connection: str,
    name: str,
    trial: Workspace,
    old: OwnFile | None,
    new: Mapping[str, Any] | None,
) -> list[str]:
    """Return the accepted content that a write to a source would change, one sentence per change.

    Definitions from this session are not accepted yet.
    """
    if session.accepted is None:
        return []
    before = session.layers.model(session.accepted, connection)
    after = session.layers.model(trial, connection)
    accepted = None if old is None else session.accepted.read(old.path)
    if accepted is None or old is None:
        return _unlike(before, after, [name])
    if name not in before.sources:
        return [f"the file about `{name}` has errors: a person must correct it"]
    return list(dict.fromkeys([*lost_of_definition(old.path, accepted, new), *_unlike(before, after, [name])]))


def refusal_of_changes(lost: Iterable[str], artifact: str) -> str:
    """Return the text shown to the model if a write would change accepted content; otherwise an empty string."""
    distinct = list(dict.fromkeys(lost))
    if not distinct:
        return ""
    lines = "\n".join(f"- {each}" for each in distinct[:_MOST_SHOWN])
    more = f"\n- and {len(distinct) - _MOST_SHOWN} more" if len(distinct) > _MOST_SHOWN else ""
    return (
        f"Nothing was saved, because this would change accepted context:\n{lines}{more}\n"
        f"Keep all of it and add to it. If the text contradicts it, leave it unchanged and call record_contradiction "
        f"with a statement of the source `{artifact}` and one of the source `text`."
    )


def lost_in(accepted: Tree, after: Tree, paths: Iterable[str], layers: Layers) -> dict[str, list[str]]:
    """Return path -> the accepted content that is missing from a tree, for each path that lost any.

    New pages and new files about sources lose nothing; a capture must not change other files of the project.
    """
    found: dict[str, list[str]] = {}
    touched: dict[str, list[str]] = {}
    for path in paths:
        old, new = accepted.read(path), after.read(path)
        lost = _lost(path, old, new)
        if lost:
            found[path] = lost
        if path.startswith(f"{SEMANTIC_NAME}/") and path.count("/") > 1:
            touched.setdefault(path.split("/")[1], []).append(path)
    for connection, files in touched.items():
        if connection in layers.dialects:
            unlike = _unlike(layers.model(accepted, connection), layers.model(after, connection))
            found |= {files[0]: [*found.get(files[0], ()), *unlike]} if unlike else {}
    return found


def lost_of_page(path: str, old: bytes | None, new: bytes | None) -> list[str]:
    """Return the lines and fields of a page that would be removed, changed or hidden."""
    if old is None or old == new:
        return []
    place = place_of(path)
    pages = [parse(*place, each) for each in (old, new) if each is not None] if place else []
    if len(pages) < 2:
        return [f"the page {path} would be removed"]
    before, after = pages
    if not isinstance(before, Page) or not isinstance(after, Page):
        return [f"{path} cannot be read as a page: a person must correct it"]
    return [*_fields(before, after), *_body(before, after)]


def lost_of_definition(path: str, old: bytes | None, new: Mapping[str, Any] | None) -> list[str]:
    """Return the parts of a source's file that would be dropped or redefined; if `new` is None, the file would be
    removed.
    """
    if old is None:
        return []
    if new is None:
        return [f"{path} would be removed"]
    try:
        before = yaml.load(old, where=path)
    except ConfigError:
        return [f"{path} cannot be read: a person must correct it"]
    return list(dropped_items(before, new))


def _lost(path: str, old: bytes | None, new: bytes | None) -> list[str]:
    if path.startswith(f"{RAW_NAME}/"):
        return []
    if place_of(path) is not None:
        return lost_of_page(path, old, new)
    if path.startswith(f"{SEMANTIC_NAME}/") and f"/{SCHEMA_NAME}/" not in path:
        return lost_of_definition(path, old, None if new is None else _document(path, new))
    return [f"{path} is neither a page nor a definition"]


def _document(path: str, content: bytes) -> Mapping[str, Any]:
    try:
        found = yaml.load(content, where=path)
    except ConfigError:
        return {}
    return found if isinstance(found, dict) else {}


def _unlike(before: Model, after: Model, names: Iterable[str] | None = None) -> list[str]:
    """Return the parts of a model's sources that were dropped or changed; other checks report sources that are broken
    now.
    """
    found: list[str] = []
    for name in before.sources if names is None else names:
        if name in before.sources and name in after.sources:
            found += redefined(before.sources[name], after.sources[name])
        elif name in before.sources:
            found.append(f"source `{name}` would be removed")
    return found


def _fields(before: Page, after: Page) -> Iterator[str]:
    for name, value in before.fields.items():
        if value not in (None, "", [], {}) and not _holds(after.fields.get(name), value):
            yield f"`{name}` of `{before.key}`: {one_line(str(value), _LONGEST)}"
    for name in _PUT_AWAY:
        if after.fields.get(name) is not None and before.fields.get(name) is None:
            yield f"`{name}` would archive `{before.key}`"


def _holds(now: Any, accepted: Any) -> bool:
    """Whether a field keeps its value: it is equal, or is a list or mapping that contains every previous item."""
    if isinstance(accepted, list) and isinstance(now, list):
        return all(each in now for each in accepted)
    if isinstance(accepted, Mapping) and isinstance(now, Mapping):
        return all(key in now and _holds(now[key], value) for key, value in accepted.items())
    return bool(now == accepted)


def _body(before: Page, after: Page) -> Iterator[str]:
    for old, new, what in (
        (before.body, after.body, "the line"),
        (without_fences(before.body), without_fences(after.body), "hidden in a code block, the line"),
        (without_swallowed(before.body), without_swallowed(after.body), "hidden by surrounding markup, the line"),
    ):
        missing = _missing(old, new)
        if missing:
            yield from (f"{what}: {one_line(line, _LONGEST)}" for line in missing)
            return
    known = {spot.message for spot in hidden_markup(before.body)}
    for spot in hidden_markup(after.body):
        if spot.message not in known:
            yield f"{spot.message} next to accepted text, which it could hide"


def _missing(old: str, new: str) -> list[str]:
    """Return the lines of a text that are missing from another text, or are in a different order there."""
    rest = iter(_lines(new))
    missing = []
    for line in _lines(old):
        kept = []
        for each in rest:
            kept.append(each)
            if each == line:
                break
        else:
            missing.append(line)
            rest = iter(kept)
    return missing


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n") if line.strip()]


_SCALARS: Final = ("table", "sql", "grain", "keyed", "time_column", "visibility", "generated")


def redefined(old: Source, new: Source) -> Iterator[str]:
    """Yield the parts of a composed source that were dropped or changed, one line each."""
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
    """Yield the locations of values in a file that were removed or changed; added values do not count."""
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
    """Whether an item is unchanged; it may gain a description and move within the file."""
    if isinstance(old, Column | Measure | Segment) and type(old) is type(new):
        if old.description and old.description != new.description:
            return False
        return bool(replace(old, place=None, description=None) == replace(new, place=None, description=None))
    return bool(replace(old, place=None) == replace(new, place=None))
