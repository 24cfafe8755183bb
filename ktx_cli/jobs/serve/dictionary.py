"""Which columns hold a value, by the value lists of the scans; and why one that is in none may exist all the same."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ktx_cli.core import plural
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.project import KtxConfig, WorkingTree, read_state
from ktx_cli.protection import read_relations
from ktx_cli.scan import SearchedLists, ValueMatch, ValueMatches, find_values
from ktx_cli.search import Shown, listed_columns
from ktx_cli.semantic import Source, database_of, layer_ids

_LOOKED: Final = 500
"""Matches looked at for a value: those of columns that are not shown are left out."""


_Listed = Callable[[Shown, Source], frozenset[str]]


@dataclass(frozen=True, slots=True)
class Match:
    """A column that holds a value; `count`: in how many rows it was seen, None where they were not counted."""

    connection: str
    source: str
    column: str
    value: str | int | float | bool | None
    count: int | None
    kind: str


@dataclass(frozen=True, slots=True)
class Miss:
    """Why nothing was found in a database. `reason` is a word for programs, `message` says it."""

    connection: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ValueFound:
    """What was found for one value; `more`: there are other matches."""

    value: str
    matches: tuple[Match, ...]
    misses: tuple[Miss, ...]
    more: bool = False


def look_up(
    project: ServedProject, values: Sequence[str], connection: str | None, *, limit: int, privacy: bool
) -> tuple[ValueFound, ...]:
    """Return for each value where it stands; `UsageError` for a connection that is no database."""
    config = project.config()
    if connection is not None:
        database_of(config, connection)
    asked = [connection] if connection is not None else sorted(config.databases())
    hidden = _hidden(asked, config, privacy)
    if hidden:
        return tuple(ValueFound(each, (), hidden) for each in values)
    shown = {each: _shown(project, config, each) for each in asked if each in layer_ids(project.layout)}
    listed = _listed(project)
    return tuple(_found(project, listed, each, connection, shown, asked, limit) for each in values)


def _listed(project: ServedProject) -> _Listed:
    """Return what gives the columns of a source whose values may be listed; each is looked up once."""
    tree = WorkingTree(project.layout.root)
    scanned = functools.cache(functools.partial(read_relations, tree))
    found: dict[tuple[str, str], frozenset[str]] = {}

    def listed(layer: Shown, source: Source) -> frozenset[str]:
        key = (layer.model.connection, source.name)
        if key not in found:
            found[key] = listed_columns(layer, source, lambda: scanned(layer.model.connection))
        return found[key]

    return listed


def _hidden(asked: Sequence[str], config: KtxConfig, privacy: bool) -> tuple[Miss, ...]:
    if privacy:
        why = "this server was started with --privacy: values of rows stay on its machine"
        return tuple(Miss(each, "withheld", why) for each in asked)
    if config.scan.privacy == "strict":
        why = "scan.privacy is strict: no values are kept"
        return tuple(Miss(each, "strict", why) for each in asked)
    return ()


def _shown(project: ServedProject, config: KtxConfig, connection: str) -> Shown:
    return Shown(project.load_layer(project.layout, config, connection))


def _found(
    project: ServedProject,
    listed: _Listed,
    value: str,
    connection: str | None,
    shown: dict[str, Shown],
    asked: Sequence[str],
    limit: int,
) -> ValueFound:
    ask = functools.partial(find_values, text=value, connection=connection, limit=_LOOKED)
    found = read_state(project.layout, ask) or ValueMatches((), ())
    matches = [match for each in found.matches if each.connection in shown for match in _matches(listed, shown, each)]
    having = {each.connection for each in matches}
    searched = {each.connection: each for each in found.searched}
    misses = tuple(_miss(each, searched.get(each)) for each in asked if each not in having)
    return ValueFound(value, tuple(matches[:limit]), misses, found.more or len(matches) > limit)


def _matches(listed: _Listed, shown: dict[str, Shown], match: ValueMatch) -> Iterator[Match]:
    """Yield the columns of the semantic layer that a match is of, where they are shown."""
    layer = shown[match.connection]
    for source in layer.sources():
        name = _column(listed, layer, source, match)
        if name is not None:
            yield Match(match.connection, source.name, name, match.value, match.count, match.kind.value)


def _column(listed: _Listed, layer: Shown, source: Source, match: ValueMatch) -> str | None:
    if not source.table or source.table[-1].casefold() != match.ref.name.casefold() or not source.is_of(match.ref):
        return None
    folded = match.column.casefold()
    if folded not in listed(layer, source):
        return None
    return next(each.name for each in layer.columns(source) if each.name.casefold() == folded)


def _miss(connection: str, searched: SearchedLists | None) -> Miss:
    if searched is None:
        return Miss(connection, "no_scan", "its values were never listed: no scan has read its rows yet")
    if searched.privacy == "strict":
        return Miss(connection, "strict", "it was scanned with scan.privacy strict: no values were kept")
    partly = f", {searched.incomplete} of them in part" if searched.incomplete else ""
    hidden = f"; {plural(searched.hidden, 'column')} withheld because of what they hold" if searched.hidden else ""
    message = (
        f"not in the lists of {plural(searched.columns, 'column')}{partly}, as of {searched.finished}{hidden}; "
        "columns of many values have no list"
    )
    return Miss(connection, "not_listed", message)
