"""References by several columns at once: to the composite keys that were declared or found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import log10, prod
from typing import Any

from ktx_cli.context.scan.relationships.facts import ColumnFacts, TableFacts
from ktx_cli.context.scan.relationships.matching import key_alike
from ktx_cli.context.scan.relationships.model import Check, KeyChoice
from ktx_cli.context.scan.relationships.names import stem
from ktx_cli.context.scan.relationships.pairs import Pair

TOLERATED = 0.08
"""The share of rows that may find no row of the parent."""

SURE_CHANCE = 3.0
"""From so unlikely a coincidence on (minus the decimal logarithm) the rows alone speak for a reference."""

MOST_MAPPINGS = 8


@dataclass(frozen=True, slots=True)
class CompositePair:
    """Columns of a table and the composite key they may refer to, in the key's order."""

    child: tuple[ColumnFacts, ...]
    key: tuple[ColumnFacts, ...]
    check: Check
    score: float
    replaces: tuple[Pair, ...] = ()
    """References of single columns that lead where this one leads too, by way of the parent."""


CheckRows = Callable[[Sequence[ColumnFacts], Sequence[ColumnFacts]], Check | None]
"""Says what all rows of the database say of a reference; None where it does not tell."""


def find_composites(
    tables: Sequence[TableFacts],
    keys: Mapping[TableFacts, KeyChoice],
    accepted: Sequence[Pair],
    check_rows: CheckRows,
) -> list[CompositePair]:
    """Return the composite references the rows bear out; `check_rows` for tables larger than their samples."""
    refers = {pair.child: pair for pair in accepted}
    by_name: dict[str, list[ColumnFacts]] = defaultdict(list)
    for table in tables:
        for column in table.columns:
            if column.base or column.keyed:
                for name in {column.joined, "".join(column.base)}:
                    by_name[name].append(column)
    found: dict[tuple[ColumnFacts, ...], CompositePair] = {}
    for parent, columns in _parents(tables, keys):
        for child in _children(parent, columns, by_name, refers):
            for mapping in _mappings(child, columns, refers):
                pair = _checked(mapping, columns, keys, refers, check_rows)
                if pair is not None and (mapping not in found or found[mapping].score < pair.score):
                    found[mapping] = pair
    return list(found.values())


def _parents(
    tables: Iterable[TableFacts], keys: Mapping[TableFacts, KeyChoice]
) -> Iterable[tuple[TableFacts, tuple[ColumnFacts, ...]]]:
    for table in tables:
        choice = keys.get(table)
        if choice is not None and len(choice.primary) > 1:
            yield table, tuple(table.column(name) for name in choice.primary)


def _children(
    parent: TableFacts,
    columns: tuple[ColumnFacts, ...],
    by_name: Mapping[str, Sequence[ColumnFacts]],
    refers: Mapping[ColumnFacts, Pair],
) -> list[TableFacts]:
    """Return the tables that have a counterpart of every column: called the same, or referring to the same key."""
    sets: list[set[TableFacts]] = []
    for column in columns:
        own = refers.get(column)
        tables = {other.table for name in _called(column) for other in by_name.get(name, ())}
        if own is not None:
            tables |= {child.table for child, pair in refers.items() if pair.key is own.key}
        sets.append(tables)
    common = set.intersection(*sets) - {parent}
    return sorted(common, key=lambda table: table.number)


def _mappings(
    child: TableFacts, columns: tuple[ColumnFacts, ...], refers: Mapping[ColumnFacts, Pair]
) -> list[tuple[ColumnFacts, ...]]:
    options = []
    for column in columns:
        own = refers.get(column)
        fitting = [
            other
            for other in child.columns
            if other.family is column.family and (_same_name(other, column) or _same_parent(refers.get(other), own))
        ]
        options.append(fitting)
    mappings = [each for each in product(*options) if len(set(each)) == len(each)]
    return mappings[:MOST_MAPPINGS]


def _same_name(other: ColumnFacts, column: ColumnFacts) -> bool:
    """Whether a column is called as a member of the key is, with the parent's name before it or without."""
    if key_alike(other, column) >= 0.7 or other.parts == column.parts:
        return True
    return bool({other.joined, "".join(other.base)} & _called(column))


def _called(column: ColumnFacts) -> set[str]:
    """Return how a reference to a member of a key may be called: as the member, behind its table's name, or as both."""
    spoken = "".join(column.table.words)
    base = "".join(column.base)
    names = {column.joined, spoken + column.joined, "".join(column.table.words[-1:]) + column.joined}
    if base:
        names |= {base, spoken + base}
        if stem(base) == stem(spoken):
            names |= {spoken, stem(spoken)}
    return names


def _same_parent(one: Pair | None, other: Pair | None) -> bool:
    return one is not None and other is not None and one.key is other.key


def _checked(
    mapping: tuple[ColumnFacts, ...],
    columns: tuple[ColumnFacts, ...],
    keys: Mapping[TableFacts, KeyChoice],
    refers: Mapping[ColumnFacts, Pair],
    check_rows: CheckRows,
) -> CompositePair | None:
    if _is_declared(mapping):
        return None
    theirs = _tuples(columns)
    mine = [row for row in _tuples(mapping) if None not in row]
    if not mine or not theirs:
        return None
    present = set(theirs)
    if columns[0].table.complete and mapping[0].table.complete:
        check: Check | None = Check(len(mine), sum(1 for row in mine if row not in present), exact=True)
    else:
        check = check_rows(mapping, columns)
    if check is None or check.violations > TOLERATED:
        return None
    if _points_the_other_way(mapping, columns, keys, set(mine), present):
        return None
    chance = _chance(set(mine), columns, columns[0].table.rows)
    score = 0.97 if chance >= SURE_CHANCE and not check.missing else 0.9 if chance >= SURE_CHANCE else 0.6
    implied = tuple(
        refers[own]
        for own, key in zip(mapping, columns, strict=True)
        if own in refers and key in refers and refers[own].key is refers[key].key
    )
    return CompositePair(mapping, columns, check, score, implied)


def _is_declared(mapping: tuple[ColumnFacts, ...]) -> bool:
    names = {column.name for column in mapping}
    return any(set(key.columns) == names for key in mapping[0].table.table.foreign_keys)


def _tuples(columns: Sequence[ColumnFacts]) -> list[tuple[Any, ...]]:
    values = columns[0].table.sampled.values
    return list(zip(*(values[column.name] for column in columns), strict=True))


def _chance(mine: set[Any], columns: Sequence[ColumnFacts], rows: int) -> float:
    """Return how unlikely it is that so many combinations of the members' values all stand in the parent by chance."""
    density = rows / max(1, prod(column.distinct for column in columns))
    return min(10.0, -len(mine) * log10(min(1.0, density))) if density < 1 else 0.0


def _points_the_other_way(
    mapping: tuple[ColumnFacts, ...],
    columns: tuple[ColumnFacts, ...],
    keys: Mapping[TableFacts, KeyChoice],
    mine: set[Any],
    present: set[Any],
) -> bool:
    """Whether the child's columns are its own key too and hold no less than the parent's: then it is the parent."""
    choice = keys.get(mapping[0].table)
    own = choice is not None and set(choice.primary) == {column.name for column in mapping}
    if not own or not present <= mine:
        return False
    return (len(mapping[0].table.columns), mapping[0].table.number) <= (
        len(columns[0].table.columns),
        columns[0].table.number,
    )
