"""The work Metabase makes: a unit for each collection with cards that changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ktx_cli.context.sources.metabase.documents import card_path, collection_path, database_path
from ktx_cli.context.sources.metabase.fetching import USAGE_PATH
from ktx_cli.context.sources.model import Changes, Snapshot, WorkUnit
from ktx_cli.core.text import listing, one_line, plural
from ktx_cli.project.config.sources import MetabaseSource

CARDS_PER_UNIT: Final = 25
"""Cards of one unit; a collection with more has several, cut by id so that new cards do not move the others."""

_Cards = Mapping[str, Mapping[str, Any]]


def units(entry: MetabaseSource, snapshot: Snapshot, changes: Changes) -> tuple[WorkUnit, ...]:
    """Return the units, by the id of their collection."""
    touched = frozenset(path for path in changes.touched if path.startswith("cards/"))
    if not touched:
        return ()
    cards = {p: json.loads(file.read()) for p, file in snapshot.files.items() if p.startswith("cards/")}
    by_place: dict[int | None, list[str]] = {}
    for path in sorted(cards, key=lambda path: int(cards[path]["id"])):
        by_place.setdefault(cards[path].get("collection_id"), []).append(path)
    made = (
        _unit(entry, place, number, paths, [path for path in part if path in touched], cards, snapshot)
        for place, paths in sorted(by_place.items(), key=lambda item: (item[0] is not None, item[0] or 0))
        for number, part in enumerate(_parts(paths), start=1)
        if not touched.isdisjoint(part)
    )
    return tuple(made)


def _parts(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(paths), CARDS_PER_UNIT):
        yield paths[start : start + CARDS_PER_UNIT]


def _unit(
    entry: MetabaseSource,
    place: int | None,
    number: int,
    paths: Sequence[str],
    files: Sequence[str],
    cards: _Cards,
    snapshot: Snapshot,
) -> WorkUnit:
    own = collection_path(place)
    document = json.loads(snapshot.files[own].read()) if own in snapshot.files else {}
    label = one_line(str(document.get("name") or f"collection {place}"), 80)
    key = f"collection-{'root' if place is None else place}"
    known = [path for path in files if "text" in cards[path]["sql"]]
    return WorkUnit(
        key=key if number == 1 else f"{key}-part-{number}",
        label=label if number == 1 else f"{label} ({number})",
        files=tuple(files),
        dependencies=tuple(_dependencies(own, files, cards, snapshot)),
        peers=tuple(path for path in paths if path not in files),
        notes=_notes(entry, files, cards),
        semantic=bool(known),
        why_not="" if known else f"the SQL of {plural(len(files), 'card')} is not known",
    )


def _dependencies(own: str, files: Iterable[str], cards: _Cards, snapshot: Snapshot) -> Iterator[str]:
    """Yield what may be read besides: the collection, the databases, usage, and every card the files stand on."""
    databases = {database_path(cards[path]["database_id"]) for path in files if cards[path].get("database_id")}
    control = [own, *sorted(databases), USAGE_PATH]
    yield from (path for path in control if path in snapshot.files)
    yield from _references(files, cards)


def _references(files: Iterable[str], cards: _Cards) -> list[str]:
    first = list(files)
    seen, stack = set(first), first
    while stack:
        named = map(card_path, cards[stack.pop()]["references"])
        new = [path for path in named if path in cards and path not in seen]
        seen.update(new)
        stack = [*stack, *new]
    return sorted(seen - set(files), key=lambda path: int(cards[path]["id"]))


def _notes(entry: MetabaseSource, files: Iterable[str], cards: _Cards) -> str:
    connections = sorted({cards[path]["connection"] for path in files if cards[path].get("connection")})
    unknown = [f"{cards[path]['id']} ({cards[path]['sql']['why']})" for path in files if "why" in cards[path]["sql"]]
    lines = [f"Their tables are in: {', '.join(connections)}." if connections else ""]
    if unknown:
        lines.append(f"The SQL of these cards is not known, do not guess it: {listing(unknown, 10)}.")
    if entry.mappings.default_tag_names:
        lines.append(f"Pages get the tags: {', '.join(entry.mappings.default_tag_names)}.")
    return "\n".join(line for line in lines if line)
