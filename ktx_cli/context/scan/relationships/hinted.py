"""The hints of all sources, by the columns and keys they name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ktx_cli.connectors.port import TableRef
from ktx_cli.context.scan.relationships.facts import ColumnFacts, DatabaseFacts, TableFacts
from ktx_cli.context.scan.relationships.hints import Hint, HintSource
from ktx_cli.context.scan.relationships.keys import is_unique

Ends = tuple[tuple[ColumnFacts, ...], tuple[ColumnFacts, ...]]
"""Columns of a table, and those of another they may refer to."""


@dataclass(frozen=True, slots=True)
class Hints:
    """Hints for one column and its key, and for several columns and a key of several; each with its sources."""

    single: dict[tuple[ColumnFacts, ColumnFacts], set[str]] = field(default_factory=lambda: defaultdict(set))
    several: dict[Ends, set[str]] = field(default_factory=lambda: defaultdict(set))


def hints_of(sources: Iterable[HintSource], facts: DatabaseFacts, keys: Iterable[ColumnFacts]) -> Hints:
    """Return what sources say; hints whose ends are not known, or whose parent's columns repeat, are left out."""
    found, known = Hints(), set(keys)
    tables = {table.table.ref: table for table in facts.tables}
    for hint in (hint for source in sources for hint in source.hints(facts.relations)):
        child, key = _ends(hint, tables)
        if not child or len(child) != len(key) or child == key:
            continue
        if len(child) > 1:
            if _identify(key):
                found.several[child, key].add(hint.source)
        elif key[0] in known:
            found.single[child[0], key[0]].add(hint.source)
    return found


def _ends(hint: Hint, tables: dict[TableRef, TableFacts]) -> Ends:
    """Return the columns of both ends; none where one of them is not known."""
    if hint.child not in tables or hint.parent not in tables:
        return (), ()
    return _columns(tables[hint.child], hint.child_columns), _columns(tables[hint.parent], hint.parent_columns)


def _columns(table: TableFacts, names: Sequence[str]) -> tuple[ColumnFacts, ...]:
    by_name = {column.name: column for column in table.columns}
    found = tuple(by_name[name] for name in names if name in by_name)
    return found if len(found) == len(names) else ()


def _identify(key: Sequence[ColumnFacts]) -> bool:
    """Whether no combination of the columns' values stands twice in the sample."""
    rows = key[0].table.sampled.profile.rows
    return all(column.name in column.table.sampled.values for column in key) and is_unique(key, rows)
