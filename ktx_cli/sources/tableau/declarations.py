"""Joins and keys of Tableau data sources as declarations, which scans read before they infer keys and joins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ktx_cli.documents import Snapshot
from ktx_cli.scan import Declarations, DeclaredJoin, DeclaredTable
from ktx_cli.semantic import Report, TableauData, TableauLink, read_data_sources

TOOL: Final = "tableau"


def declarations_of(snapshot: Snapshot) -> Declarations:
    """Return the tables of data sources, the keys that relationships state, and the joins on equal columns.

    The IDs of the tables are their names in the database. A join is declared in both directions, except if the data
    source states which side is unique.
    """
    sources = read_data_sources({path: file.text() for path, file in snapshot.files.items()}, Report())
    keys: dict[str, dict[tuple[str, ...], None]] = {}
    names: dict[str, tuple[str, ...]] = {}
    joins: dict[DeclaredJoin, None] = {}
    for source in sources:
        ids = _ids(source)
        for name, id in ids.items():
            names[id] = source.relations[name].parts
        for link in source.links:
            for join, is_key in _joins(link, ids):
                joins[join] = None
                if is_key:
                    keys.setdefault(join.parent, {})[join.parent_columns] = None
    tables = {
        id: DeclaredTable(parts[-1], parts[-2] if len(parts) > 1 else "", keys=tuple(keys.get(id, ())))
        for id, parts in names.items()
    }
    return Declarations(TOOL, tables, tuple(joins))


def _ids(source: TableauData) -> Mapping[str, str]:
    """Return the ID of each table of the database in a data source, by its name there."""
    tables = {name: each for name, each in source.relations.items() if each.parts and not each.sql and not each.why_not}
    return {name: each.table for name, each in tables.items()}


def _joins(link: TableauLink, ids: Mapping[str, str]) -> Iterator[tuple[DeclaredJoin, bool]]:
    """Yield a join in each direction that it can have, and whether the data source states that the parent is unique."""
    left, right = {pair[0][0] for pair in link.pairs}, {pair[1][0] for pair in link.pairs}
    if link.why_not or len(left) != 1 or len(right) != 1:
        return
    one, two = ids.get(left.pop()), ids.get(right.pop())
    own, other = tuple(pair[0][1] for pair in link.pairs), tuple(pair[1][1] for pair in link.pairs)
    if one is None or two is None or (one, own) == (two, other) or not all((*own, *other)):
        return
    is_unknown = not link.left_unique and not link.right_unique
    if link.right_unique or is_unknown:
        yield DeclaredJoin(one, own, two, other), link.right_unique
    if link.left_unique or is_unknown:
        yield DeclaredJoin(two, other, one, own), link.left_unique
