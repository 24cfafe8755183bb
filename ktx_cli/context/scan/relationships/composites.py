"""References by several columns at once: to the composite keys that were declared or found."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import product
from math import log10, prod
from types import MappingProxyType
from typing import Any

from ktx_cli.context.scan.relationships.facts import ColumnFacts, TableFacts
from ktx_cli.context.scan.relationships.hinted import Ends
from ktx_cli.context.scan.relationships.keys import counts_rows
from ktx_cli.context.scan.relationships.matching import NameIndex
from ktx_cli.context.scan.relationships.members import Likeness, likeness, tails
from ktx_cli.context.scan.relationships.model import Check, KeyChoice
from ktx_cli.context.scan.relationships.pairs import Pair
from ktx_cli.context.scan.relationships.ranker import with_hints

TOLERATED = 0.08
"""The share of rows that may find no row of the parent."""

SURE_CHANCE = 3.0
"""From so unlikely a coincidence on (minus the decimal logarithm) the rows alone speak for a reference."""

SHARED_BY = 3
"""A key that is part of so many composite keys is that of a tenant: references to it stay beside the composite ones."""

NAMED_ALONE = 0.6
"""The score of a reference of which only the names speak."""

MOST_MAPPINGS = 8


@dataclass(frozen=True, slots=True)
class CompositePair:
    """Columns of a table and the composite key they may refer to, in the key's order."""

    child: tuple[ColumnFacts, ...]
    key: tuple[ColumnFacts, ...]
    check: Check | None
    score: float
    replaces: tuple[Pair, ...] = ()
    """References of single columns that lead where this one leads too, by way of the parent."""
    sources: frozenset[str] = frozenset()
    """Who names it besides names and values."""


CheckRows = Callable[[Sequence[ColumnFacts], Sequence[ColumnFacts]], Check | None]
"""Says what all rows of the database say of a reference; None where it does not tell."""


def find_composites(
    tables: Sequence[TableFacts],
    keys: Mapping[TableFacts, KeyChoice],
    accepted: Sequence[Pair],
    names: NameIndex,
    check_rows: CheckRows,
    hinted: Mapping[Ends, Set[str]] = MappingProxyType({}),
) -> list[CompositePair]:
    """Return the composite references the rows bear out; `check_rows` for tables larger than their samples.

    A clearly named one whose rows could not be looked at, and a hinted one, are returned all the same.
    """
    return _Search(tables, keys, {pair.child: pair for pair in accepted}, names, check_rows, hinted).run()


@dataclass(slots=True)
class _Search:
    tables: Sequence[TableFacts]
    keys: Mapping[TableFacts, KeyChoice]
    refers: Mapping[ColumnFacts, Pair]
    names: NameIndex
    check_rows: CheckRows
    hinted: Mapping[Ends, Set[str]]
    by_tail: dict[str, list[ColumnFacts]] = field(default_factory=lambda: defaultdict(list))
    by_key: dict[ColumnFacts, list[ColumnFacts]] = field(default_factory=lambda: defaultdict(list))
    by_table: dict[int, list[ColumnFacts]] = field(default_factory=lambda: defaultdict(list))

    def run(self) -> list[CompositePair]:
        parents = list(self._parents())
        self._index({column.table.number for columns in parents for column in columns})
        found: dict[tuple[ColumnFacts, ...], CompositePair] = {}
        for columns in parents:
            for mapping, how in self._mappings(columns):
                pair = self._checked(mapping, columns, how)
                if pair is not None and (mapping not in found or found[mapping].score < pair.score):
                    found[mapping] = pair
        for (mapping, columns), sources in self.hinted.items():
            pair = self._hinted(mapping, columns, frozenset(sources))
            if pair is not None:
                found[pair.child] = pair
        return self._without_shared(_nearest(list(found.values())), parents)

    def _parents(self) -> Iterable[tuple[ColumnFacts, ...]]:
        for table in self.tables:
            choice = self.keys.get(table)
            if choice is not None and len(choice.primary) > 1:
                yield tuple(table.column(name) for name in choice.primary)

    def _index(self, parents: set[int]) -> None:
        """Note columns by the ends of their names, by what they refer to, and by which of the parents they speak of."""
        for table in self.tables if parents else ():
            for column in table.columns:
                for tail in tails(column):
                    self.by_tail[tail].append(column)
                if column in self.refers:
                    self.by_key[self.refers[column].key].append(column)
                for number in self._spoken_of(column) & parents:
                    self.by_table[number].append(column)

    def _spoken_of(self, column: ColumnFacts) -> set[int]:
        return set(self.names.tables_of(column)) | set(self.names.meant(column.base)) if column.base else set()

    def _mappings(
        self, columns: tuple[ColumnFacts, ...]
    ) -> Iterable[tuple[tuple[ColumnFacts, ...], tuple[Likeness, ...]]]:
        """Yield columns of one table that may stand for the members of a key, and how each is like its member."""
        options = [self._counterparts(column) for column in columns]
        common = set.intersection(*({other.table for other in each} for each in options))
        for table in sorted(common, key=lambda table: table.number):
            mine = [[each for each in option.items() if each[0].table is table] for option in options]
            chosen = [each for each in product(*mine) if len({other for other, _ in each}) == len(each)]
            chosen.sort(key=lambda each: -sum(how.strength for _, how in each))
            for each in chosen[:MOST_MAPPINGS]:
                mapping = tuple(other for other, _ in each)
                if set(mapping) != set(columns):
                    yield mapping, tuple(how for _, how in each)

    def _counterparts(self, column: ColumnFacts) -> dict[ColumnFacts, Likeness]:
        own = self.refers.get(column)
        near = [other for tail in tails(column) for other in self.by_tail[tail]]
        near += self.by_table[column.table.number] + (self.by_key[own.key] if own is not None else [])
        found = {}
        for other in dict.fromkeys(near):
            how = likeness(other, column, self.refers, self.names)
            if how is not None and other.family is column.family and not other.empty:
                found[other] = how
        return found

    def _checked(
        self, mapping: tuple[ColumnFacts, ...], columns: tuple[ColumnFacts, ...], how: Sequence[Likeness]
    ) -> CompositePair | None:
        if _is_declared(mapping):
            return None
        mine = [row for row in _tuples(mapping) if None not in row]
        present = set(_tuples(columns))
        if not mine or not present:
            return None
        check = self._check(mapping, columns, mine, present)
        if check is None:
            return CompositePair(mapping, columns, None, NAMED_ALONE) if _is_named(how) else None
        nameless = any(
            each is Likeness.WEAK and not key.base and not counts_rows(key)
            for key, each in zip(columns, how, strict=True)
        )
        if check.violations > TOLERATED or (nameless and self._is_own_key(mapping)):
            return None
        if _points_the_other_way(mapping, columns, self.keys, set(mine), present):
            return None
        score = _score(check, _chance(set(mine), columns), how)
        return CompositePair(mapping, columns, check, score, self._implied(mapping, columns))

    def _is_own_key(self, mapping: Sequence[ColumnFacts]) -> bool:
        """Whether columns are their own table's key: `id` within a tenant counts alike everywhere."""
        choice = self.keys.get(mapping[0].table)
        return choice is not None and set(choice.primary) == {column.name for column in mapping}

    def _hinted(
        self, mapping: tuple[ColumnFacts, ...], columns: tuple[ColumnFacts, ...], sources: frozenset[str]
    ) -> CompositePair | None:
        """Return what a source names, whatever the names say, for a person to judge where rows do not bear it out."""
        if _is_declared(mapping):
            return None
        how = [
            likeness(own, key, self.refers, self.names) or Likeness.WEAK
            for own, key in zip(mapping, columns, strict=True)
        ]
        mine = [row for row in _tuples(mapping) if None not in row]
        check = self._check(mapping, columns, mine, set(_tuples(columns))) if mine else None
        score = (
            0.6 if check is None or check.violations > TOLERATED else _score(check, _chance(set(mine), columns), how)
        )
        return CompositePair(
            mapping, columns, check, with_hints(score, sources), self._implied(mapping, columns), sources
        )

    def _check(
        self,
        mapping: tuple[ColumnFacts, ...],
        columns: tuple[ColumnFacts, ...],
        mine: Sequence[tuple[Any, ...]],
        present: set[tuple[Any, ...]],
    ) -> Check | None:
        if columns[0].table.complete and mapping[0].table.complete:
            return Check(len(mine), sum(1 for row in mine if row not in present), exact=True)
        return self.check_rows(mapping, columns)

    def _implied(self, mapping: Sequence[ColumnFacts], columns: Sequence[ColumnFacts]) -> tuple[Pair, ...]:
        refers = self.refers
        return tuple(
            refers[own]
            for own, key in zip(mapping, columns, strict=True)
            if own in refers and (refers[own].key is key or (key in refers and refers[own].key is refers[key].key))
        )

    def _without_shared(
        self, found: Sequence[CompositePair], parents: Sequence[tuple[ColumnFacts, ...]]
    ) -> list[CompositePair]:
        """Return the references, and let those to a tenant stay that every row carries."""
        part_of = Counter(self.refers[column].key for columns in parents for column in columns if column in self.refers)
        shared = {key for key, count in part_of.items() if count >= SHARED_BY}
        return [
            replace(each, replaces=tuple(pair for pair in each.replaces if pair.key not in shared)) for each in found
        ]


def _nearest(found: Sequence[CompositePair]) -> list[CompositePair]:
    """Leave out the references that lead where a wider one of the same columns leads by way of its parent."""
    by_child = {each.child: each for each in found}
    return [each for each in found if not any(_is_behind(each, other, by_child) for other in found)]


def _is_behind(
    each: CompositePair, other: CompositePair, by_child: Mapping[tuple[ColumnFacts, ...], CompositePair]
) -> bool:
    if not set(each.child) < set(other.child):
        return False
    standing = dict(zip(other.child, other.key, strict=True))
    onward = by_child.get(tuple(standing[column] for column in each.child))
    return onward is not None and onward.key == each.key


def _score(check: Check, chance: float, how: Sequence[Likeness]) -> float:
    """Return how sure a reference is: by its rows where they cannot be so by chance, else by its names."""
    if _is_named(how):
        return 0.97 if chance >= SURE_CHANCE and not check.missing else 0.9
    return 0.9 if chance >= SURE_CHANCE and not (check.missing and Likeness.WEAK in how) else 0.6


def _is_named(how: Sequence[Likeness]) -> bool:
    """Whether the names alone say which key is meant."""
    return Likeness.WEAK not in how and Likeness.NAMED in how


def _is_declared(mapping: tuple[ColumnFacts, ...]) -> bool:
    names = {column.name for column in mapping}
    return any(set(key.columns) == names for key in mapping[0].table.table.foreign_keys)


def _tuples(columns: Sequence[ColumnFacts]) -> list[tuple[Any, ...]]:
    values = columns[0].table.sampled.values
    return list(zip(*(values[column.name] for column in columns), strict=True))


def _chance(mine: set[Any], columns: Sequence[ColumnFacts]) -> float:
    """Return how unlikely it is that so many combinations of the members' values all stand in the parent by chance."""
    density = columns[0].table.rows / max(1, prod(column.distinct for column in columns))
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
