"""References to composite keys, and polymorphic ones, whose table depends on another column or on the value itself."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import combinations, product
from math import log10, prod
from types import MappingProxyType
from typing import Any, Final

from ktx_cli.scan.relationships.columns import (
    Candidate,
    ColumnFacts,
    Family,
    NameIndex,
    TableFacts,
    is_blank,
    key_alike,
)
from ktx_cli.scan.relationships.hints import Ends
from ktx_cli.scan.relationships.keys import counts_rows, is_period, own_name
from ktx_cli.scan.relationships.names import phrase_alike, stem, tokens, word_set
from ktx_cli.scan.relationships.ranker import CLEAR_NAME, composite_probability, with_hints
from ktx_cli.scan.relationships.record import Check, KeyChoice
from ktx_cli.scan.stages import STRICT, Failures, Stage

Columns = tuple[ColumnFacts, ...]

TABLE_MATCH = 0.6
"""From this match on, a name refers to the parent's table."""
SAME_NAME = 0.9
"""From this match on, it is the name of the table."""


class Likeness(IntEnum):
    """How a column corresponds to a column of another table's composite key.

    `NAMED`: its name names the parent, or is the key column's own specific name. `SAME_KEY`: both refer to the same
    key. `WEAK`: both have a generic name, such as `line` or `number`, or the column's name is a role.
    """

    NAMED = 3
    SAME_KEY = 2
    WEAK = 1


def tails(column: ColumnFacts) -> set[str]:
    """Return the ends of a name by which it is indexed: its last word, and the last word that does not mean a key.

    A name without a meaning (`c1`) has none.
    """
    if not column.base and not column.keyed:
        return set()
    return {stem(words[-1]) for words in (column.parts, column.base) if words}


def likeness(
    other: ColumnFacts, member: ColumnFacts, refers: Mapping[ColumnFacts, Candidate], names: NameIndex
) -> Likeness | None:
    """Return how a column corresponds to a column of a key, or None if it does not."""
    mine, theirs = refers.get(other), refers.get(member)
    if _is_prefixed(other, member) or _is_called_after(other, member):
        return Likeness.NAMED
    if mine is not None and theirs is not None:
        return Likeness.SAME_KEY if mine.key is theirs.key else None
    if mine is not None and mine.key is not member:
        return None
    if _same_name(other, member):
        return Likeness.WEAK if counts_rows(member) or not member.base or not member.keyed else Likeness.NAMED
    return _by_table(other, member, names) if theirs is None else None


def _is_called_after(other: ColumnFacts, member: ColumnFacts) -> bool:
    """Return whether a column has the name of the parent's table: `purchase_item` next to `purchase_item_line`."""
    return len(member.table.words) > 1 and phrase_alike(other.base, member.table.words) >= SAME_NAME


def _same_name(other: ColumnFacts, member: ColumnFacts) -> bool:
    return key_alike(other, member) >= 0.7 or (other.parts == member.parts and bool(tails(member)))


def _is_prefixed(other: ColumnFacts, member: ColumnFacts) -> bool:
    """Return whether a column's name is the key column's name after the parent's name: `parcel_line`."""
    for words in {member.parts, member.base} - {()}:
        size = len(words)
        if len(other.parts) > size and other.parts[-size:] == words and _is_table(other.parts[:-size], member):
            return True
    return False


def _is_table(words: tuple[str, ...], member: ColumnFacts) -> bool:
    """Return whether words end with the name of the key column's table, possibly after a role."""
    name = member.table.words
    return max(phrase_alike(words, name), phrase_alike(words[-len(name) :], name)) >= TABLE_MATCH


def _by_table(other: ColumnFacts, member: ColumnFacts, names: NameIndex) -> Likeness | None:
    """Return how well a column named after the parent's table corresponds to the key column that numbers its rows."""
    may_refer = other.keyed or other.names_self or other.has_word("boss")
    if not may_refer or own_name(member) < TABLE_MATCH or counts_rows(other):
        return None
    number = member.table.number
    if names.tables_of(other).get(number, 0.0) >= TABLE_MATCH:
        return Likeness.NAMED
    return Likeness.WEAK if number in names.meant(other.base) else None


MAX_VIOLATIONS = 0.08
"""The maximum share of rows without a parent."""

TENANT_KEYS = 3
"""A key that is part of this many composite keys is that of a tenant; references to it are kept."""

MOST_MAPPINGS = 8
"""The maximum number of mappings of one table's columns to a key that are tried."""


@dataclass(frozen=True, slots=True)
class CompositeCandidate:
    """Columns of a table and the composite key that they may refer to, in the key's order."""

    child: Columns
    key: Columns
    check: Check | None
    probability: float
    replaces: tuple[Candidate, ...] = ()
    """The single-column references that this one implies, through the parent."""
    sources: frozenset[str] = frozenset()
    """The sources of hints that name it."""


CheckRows = Callable[[Sequence[ColumnFacts], Sequence[ColumnFacts]], Check | None]
"""Checks a reference on all rows of the database. Returns None if the database gave no answer."""


def find_composites(
    tables: Sequence[TableFacts],
    keys: Mapping[TableFacts, KeyChoice],
    accepted: Sequence[Candidate],
    names: NameIndex,
    check_rows: CheckRows,
    hinted: Mapping[Ends, Set[str]] = MappingProxyType({}),
) -> list[CompositeCandidate]:
    """Return the composite references that the rows confirm. `check_rows`: for tables larger than their samples.

    Clearly named references whose rows could not be checked, and hinted ones, are also returned.
    """
    return _Search(
        tables, keys, {candidate.child: candidate for candidate in accepted}, names, check_rows, hinted
    ).run()


@dataclass(slots=True)
class _Search:
    """The search for composite references. `child` and `key` are columns of two tables, in the order of the key."""

    tables: Sequence[TableFacts]
    keys: Mapping[TableFacts, KeyChoice]
    refers: Mapping[ColumnFacts, Candidate]
    names: NameIndex
    check_rows: CheckRows
    hinted: Mapping[Ends, Set[str]]
    by_tail: dict[str, list[ColumnFacts]] = field(default_factory=lambda: defaultdict(list))
    by_key: dict[ColumnFacts, list[ColumnFacts]] = field(default_factory=lambda: defaultdict(list))
    by_table: dict[int, list[ColumnFacts]] = field(default_factory=lambda: defaultdict(list))

    def run(self) -> list[CompositeCandidate]:
        parents = list(self._parents())
        self._index({column.table.number for key in parents for column in key})
        found: dict[Columns, CompositeCandidate] = {}
        for key in parents:
            for child, likenesses in self._children(key):
                candidate = self._checked(child, key, likenesses)
                if candidate is not None and (child not in found or found[child].probability < candidate.probability):
                    found[child] = candidate
        for (child, key), sources in self.hinted.items():
            candidate = self._hinted(child, key, frozenset(sources))
            if candidate is not None:
                found[candidate.child] = candidate
        return self._without_shared(_nearest(list(found.values())), parents)

    def _parents(self) -> Iterable[Columns]:
        for table in self.tables:
            choice = self.keys.get(table)
            if choice is not None and len(choice.primary) > 1:
                yield tuple(table.column(name) for name in choice.primary)

    def _index(self, parents: set[int]) -> None:
        """Index columns by the ends of their names, by what they refer to, and by the parents they name."""
        for table in self.tables if parents else ():
            for column in table.columns:
                for tail in tails(column):
                    self.by_tail[tail].append(column)
                if column in self.refers:
                    self.by_key[self.refers[column].key].append(column)
                for number in self._named_tables(column) & parents:
                    self.by_table[number].append(column)

    def _named_tables(self, column: ColumnFacts) -> set[int]:
        return set(self.names.tables_of(column)) | set(self.names.meant(column.base)) if column.base else set()

    def _children(self, key: Columns) -> Iterable[tuple[Columns, tuple[Likeness, ...]]]:
        """Yield columns of one table that may refer to a key together, and how each corresponds to its key column."""
        options = [self._counterparts(column) for column in key]
        common = set.intersection(*({other.table for other in each} for each in options))
        for table in sorted(common, key=lambda table: table.number):
            own = [[each for each in option.items() if each[0].table is table] for option in options]
            chosen = [each for each in product(*own) if len({other for other, _ in each}) == len(each)]
            chosen.sort(key=lambda each: -sum(like for _, like in each))
            for each in chosen[:MOST_MAPPINGS]:
                child = tuple(other for other, _ in each)
                if set(child) != set(key):
                    yield child, tuple(like for _, like in each)

    def _counterparts(self, column: ColumnFacts) -> dict[ColumnFacts, Likeness]:
        own = self.refers.get(column)
        near = [other for tail in tails(column) for other in self.by_tail[tail]]
        near += self.by_table[column.table.number] + (self.by_key[own.key] if own is not None else [])
        found = {}
        for other in dict.fromkeys(near):
            like = likeness(other, column, self.refers, self.names)
            if like is not None and other.family is column.family and not other.empty:
                found[other] = like
        return found

    def _checked(self, child: Columns, key: Columns, likenesses: Sequence[Likeness]) -> CompositeCandidate | None:
        if _is_declared(child):
            return None
        child_rows = _filled_rows(child)
        key_rows = set(_tuples(key))
        if not child_rows or not key_rows:
            return None
        check = self._check(child, key, child_rows, key_rows)
        if check is None:
            return (
                CompositeCandidate(child, key, None, composite_probability(None, named=True))
                if _is_named(likenesses)
                else None
            )
        if not self._is_entity(key) and not _mentions(child, key):
            return None
        weak = any(
            each is Likeness.WEAK and not counts_rows(member) for member, each in zip(key, likenesses, strict=True)
        )
        if (
            check.violations > MAX_VIOLATIONS
            or (weak and self._is_own_key(child))
            or _is_beside(child, key, likenesses)
        ):
            return None
        if _points_the_other_way(child, key, self.keys, set(child_rows), key_rows):
            return None
        probability = _probability(check, child_rows, key, likenesses)
        return CompositeCandidate(child, key, check, probability, self._implied(child, key))

    def _is_entity(self, key: Columns) -> bool:
        """Return whether rows with this key are things that others refer to: a column of it identifies or counts them.

        Links between tables, histories and dated rows are not: their columns refer elsewhere, or are points in time.
        """
        own = [column for column in key if column not in self.refers and not is_period(column)]
        return bool(own) and not any(is_period(column) for column in key)

    def _is_own_key(self, child: Sequence[ColumnFacts]) -> bool:
        """Return whether columns are their own table's key: `id` within a tenant is numbered alike in every table."""
        choice = self.keys.get(child[0].table)
        return choice is not None and set(choice.primary) == {column.name for column in child}

    def _hinted(self, child: Columns, key: Columns, sources: frozenset[str]) -> CompositeCandidate | None:
        """Return a hinted reference whatever its names. One that the rows do not confirm needs review."""
        if _is_declared(child):
            return None
        likenesses = [
            likeness(own, member, self.refers, self.names) or Likeness.WEAK
            for own, member in zip(child, key, strict=True)
        ]
        child_rows = _filled_rows(child)
        check = self._check(child, key, child_rows, set(_tuples(key))) if child_rows else None
        believed = None if check is None or check.violations > MAX_VIOLATIONS else check
        probability = with_hints(_probability(believed, child_rows, key, likenesses), sources)
        return CompositeCandidate(child, key, check, probability, self._implied(child, key), sources)

    def _check(
        self, child: Columns, key: Columns, child_rows: Sequence[tuple[Any, ...]], key_rows: set[tuple[Any, ...]]
    ) -> Check | None:
        if key[0].table.complete and child[0].table.complete:
            return Check(len(child_rows), sum(1 for row in child_rows if row not in key_rows), exact=True)
        return self.check_rows(child, key)

    def _implied(self, child: Sequence[ColumnFacts], key: Sequence[ColumnFacts]) -> tuple[Candidate, ...]:
        refers = self.refers
        return tuple(
            refers[own]
            for own, member in zip(child, key, strict=True)
            if own in refers
            and refers[own].name_match.best < CLEAR_NAME
            and refers[own].key in (member, refers[member].key if member in refers else member)
        )

    def _without_shared(
        self, found: Sequence[CompositeCandidate], parents: Sequence[Columns]
    ) -> list[CompositeCandidate]:
        """Return the references, keeping those to a tenant, which every table has."""
        part_of = Counter(self.refers[column].key for key in parents for column in key if column in self.refers)
        shared = {key for key, count in part_of.items() if count >= TENANT_KEYS}
        return [
            replace(each, replaces=tuple(candidate for candidate in each.replaces if candidate.key not in shared))
            for each in found
        ]


def _nearest(found: Sequence[CompositeCandidate]) -> list[CompositeCandidate]:
    """Drop the references that a wider one of the same columns implies through its parent."""
    by_child = {each.child: each for each in found}
    return [each for each in found if not any(_is_implied(each, other, by_child) for other in found)]


def _is_implied(
    each: CompositeCandidate, other: CompositeCandidate, by_child: Mapping[Columns, CompositeCandidate]
) -> bool:
    if not set(each.child) < set(other.child):
        return False
    parent_of = dict(zip(other.child, other.key, strict=True))
    onward = by_child.get(tuple(parent_of[column] for column in each.child))
    return onward is not None and onward.key == each.key


def _is_beside(child: Columns, key: Columns, likenesses: Sequence[Likeness]) -> bool:
    """Return whether a table's columns would refer to its own rows although they only refer to the same other table."""
    pairs = zip(child, key, likenesses, strict=True)
    return child[0].table is key[0].table and any(
        own is not member and like is Likeness.SAME_KEY for own, member, like in pairs
    )


def _probability(
    check: Check | None, child_rows: Sequence[tuple[Any, ...]], key: Columns, likenesses: Sequence[Likeness]
) -> float:
    improbability = 0.0 if check is None else _improbability(set(child_rows), key)
    return composite_probability(check, improbability, named=_is_named(likenesses), weak=Likeness.WEAK in likenesses)


def _mentions(child: Columns, key: Columns) -> bool:
    """Return whether the child's table or a column of it names the parent's table, beyond the key's own names."""
    words, name = child[0].table.words, key[0].table.words
    inside = any(
        phrase_alike(words[start : start + len(name)], name) >= SAME_NAME for start in range(len(words) - len(name) + 1)
    )
    pairs = zip(child, key, strict=True)
    return inside or any(_is_prefixed(own, member) or _is_called_after(own, member) for own, member in pairs)


def _is_named(likenesses: Sequence[Likeness]) -> bool:
    """Return whether the names alone determine the key."""
    return Likeness.WEAK not in likenesses and Likeness.NAMED in likenesses


def _is_declared(child: Columns) -> bool:
    names = {column.name for column in child}
    return any(set(key.columns) == names for key in child[0].table.table.foreign_keys)


def _tuples(columns: Sequence[ColumnFacts]) -> list[tuple[Any, ...]]:
    values = columns[0].table.sampled.values
    return list(zip(*(values[column.name] for column in columns), strict=True))


def _filled_rows(columns: Sequence[ColumnFacts]) -> list[tuple[Any, ...]]:
    """Return the rows with a value in every column."""
    return [row for row in _tuples(columns) if None not in row and not any(map(is_blank, row))]


def _improbability(child_rows: set[Any], key: Sequence[ColumnFacts]) -> float:
    """Return -log10 of the probability that all combinations of values are in the parent by chance, at most 10."""
    density = key[0].table.rows / max(1, prod(column.distinct for column in key))
    return min(10.0, -len(child_rows) * log10(min(1.0, density))) if density < 1 else 0.0


def _points_the_other_way(
    child: Columns, key: Columns, keys: Mapping[TableFacts, KeyChoice], child_rows: set[Any], key_rows: set[Any]
) -> bool:
    """Return whether the child's columns are its own key and hold all values of the parent, so that the child is the
    parent.
    """
    choice = keys.get(child[0].table)
    is_own_key = choice is not None and set(choice.primary) == {column.name for column in child}
    if not is_own_key or not key_rows <= child_rows:
        return False
    one, other = ((len(each[0].table.columns), each[0].table.number) for each in (child, key))
    return one <= other


MOST_TYPES = 20
"""The maximum number of values of a discriminator."""

MIN_VALUE_MATCH = 0.6
"""The minimum match of a value with a table's name. One that only has the same meaning counts as this."""

CLEAR_VALUE_MATCH = 0.75
"""The minimum match of the only value of a discriminator with its table's name."""

FEWEST_VALUES = 5
"""The minimum number of distinct references with a value that names no table."""


@dataclass(frozen=True, slots=True)
class PolymorphicBranch:
    """One of the tables that a polymorphic column refers to, when `discriminator` has `value`."""

    child: ColumnFacts
    key: ColumnFacts
    discriminator: ColumnFacts
    value: Any
    check: Check
    name_match: float
    named: bool = True
    """Whether values of the discriminator name tables. Codes such as 1 and 2 name none, and a person has to decide."""


def find_branches(
    tables: Iterable[TableFacts], keys: Sequence[ColumnFacts], names: NameIndex, failures: Failures = STRICT
) -> list[PolymorphicBranch]:
    """Return the branches of every column whose values refer to different tables by the value of another column.

    The value of the discriminator must name the table, or only one table may hold the references with that value; of
    several tables, the one in the column's own schema wins. There must be at least two tables, unless the discriminator
    has a single value that names its table clearly. A table that fails unexpectedly has no branches and is noted in
    `failures`; the strict default raises the error.
    """
    by_table = _KeysOfTables(keys)
    found: list[PolymorphicBranch] = []
    for table in tables:
        with failures.stage(Stage.POLYMORPHIC, table.table.ref):
            found += _of_table(table, by_table, names)
    return found


class _KeysOfTables:
    """The keys of each table, and the tables whose first key has a value."""

    def __init__(self, keys: Iterable[ColumnFacts]) -> None:
        self._by_table: dict[int, list[ColumnFacts]] = defaultdict(list)
        for key in keys:
            self._by_table[key.table.number].append(key)

    def of(self, number: int) -> Sequence[ColumnFacts]:
        """Return the keys of a table."""
        return self._by_table.get(number, ())

    @functools.cached_property
    def _holders(self) -> Mapping[Any, Sequence[ColumnFacts]]:
        found: dict[Any, list[ColumnFacts]] = defaultdict(list)
        for first, *_ in self._by_table.values():
            for value in first.counts if first.table.complete else ():
                found[value].append(first)
        return found

    def may_hold(self, group: Sequence[Any]) -> Iterable[ColumnFacts]:
        """Return the first keys of tables without those that lack too many of the values."""
        found: dict[ColumnFacts, None] = {}
        rows = 0
        for value, count in Counter(group).items():
            found |= dict.fromkeys(self._holders.get(value, ()))
            rows += count
            if rows > MAX_VIOLATIONS * len(group):  # A key that lacks all values so far lacks too many.
                break
        return found


def _of_table(table: TableFacts, by_table: _KeysOfTables, names: NameIndex) -> list[PolymorphicBranch]:
    found: list[PolymorphicBranch] = []
    for discriminator in filter(_is_discriminator, table.columns):
        for child in table.columns:
            if child is not discriminator and _belongs(child, discriminator):
                found += _branches(child, discriminator, by_table, names)
    return found


def _is_discriminator(column: ColumnFacts) -> bool:
    return (
        column.family in (Family.TEXT, Family.INTEGER)
        and 1 <= column.distinct <= MOST_TYPES
        and not column.without_repeats
        and column.has_word("discriminator")
    )


def _belongs(child: ColumnFacts, discriminator: ColumnFacts) -> bool:
    """Return whether both names have a common prefix (`owner_id`, `owner_type`), or the discriminator is `type`."""
    if child.family not in (Family.INTEGER, Family.TEXT) or child.without_repeats:
        return False
    first = [part for part in discriminator.parts if part not in ("type", "kind", "class", "name", "typ", "tipo")]
    if set(child.parts) & set(first):
        return child.keyed or child.family is Family.INTEGER
    return child.keyed and (not child.base or not first)


def _branches(
    child: ColumnFacts, discriminator: ColumnFacts, by_table: _KeysOfTables, names: NameIndex
) -> list[PolymorphicBranch]:
    values = child.table.sampled.values
    groups: dict[Any, list[Any]] = defaultdict(list)
    for kind, value in zip(values[discriminator.name], values[child.name], strict=True):
        if kind is not None and value is not None and not is_blank(kind) and not is_blank(value):
            groups[kind].append(value)
    found = []
    for kind, group in groups.items():
        branch = _branch(child, discriminator, kind, group, by_table, names)
        if branch is not None:
            found.append(branch)
    named = any(branch.name_match for branch in found)
    found = [replace(branch, named=named) for branch in found]
    alone = len(groups) == 1 and all(branch.name_match >= CLEAR_VALUE_MATCH for branch in found)
    return found if alone or len({branch.key.table.number for branch in found}) >= 2 else []


def _branch(
    child: ColumnFacts,
    discriminator: ColumnFacts,
    kind: Any,
    group: Sequence[Any],
    by_table: _KeysOfTables,
    names: NameIndex,
) -> PolymorphicBranch | None:
    words = tuple(word for word in tokens(str(kind)) if word)  # A sentinel text names nothing.
    named = {number: score for number, score in names.tables(words).items() if score >= MIN_VALUE_MATCH}
    for number in names.meant(words):
        named.setdefault(number, MIN_VALUE_MATCH)
    options = [(score, key) for number, score in named.items() for key in by_table.of(number)]
    for score, key in sorted(options, key=lambda each: (-each[0], not _is_in_own_schema(child, each[1]))):
        check = _check(child, key, group)
        if check is not None:
            return PolymorphicBranch(child, key, discriminator, kind, check, score)
    return None if named else _by_values(child, discriminator, kind, group, by_table)


def _by_values(
    child: ColumnFacts, discriminator: ColumnFacts, kind: Any, group: Sequence[Any], by_table: _KeysOfTables
) -> PolymorphicBranch | None:
    """Return the branch to the only table that holds the references with a value, or None if there are several."""
    if len(set(group)) < FEWEST_VALUES:
        return None
    found = [(key, _check(child, key, group)) for key in by_table.may_hold(group)]
    fitting = [(key, check) for key, check in found if check is not None]
    fitting = [each for each in fitting if _is_in_own_schema(child, each[0])] if len(fitting) > 1 else fitting
    if len(fitting) != 1:
        return None
    ((key, check),) = fitting
    return PolymorphicBranch(child, key, discriminator, kind, check, 0.0)


def _is_in_own_schema(child: ColumnFacts, key: ColumnFacts) -> bool:
    """Return whether a key is in the column's own schema."""
    return child.table.table.ref.schema == key.table.table.ref.schema


def _check(child: ColumnFacts, key: ColumnFacts, group: Sequence[Any]) -> Check | None:
    """Check a group of values against a key. Returns None if too many are missing from it."""
    if key.family is not child.family or not key.table.complete:
        return None
    missing = sum(1 for value in group if value not in key.counts)
    check = Check(len(group), missing, exact=child.table.complete)
    return check if check.violations <= MAX_VIOLATIONS else None


FEWEST_SHARED_OUT: Final = 4
"""The minimum number of distinct values of a column that two keys share out."""

_HOLDERS: Final = word_set("owner subject entity object target related parent holder resource record reference")
"""Words for whatever a row belongs to. Only columns with such a name may have integers that two keys share out, because
the ranges of two other keys often happen to be next to each other.
"""

SMALLEST_SHARE: Final = 0.2
"""The minimum share of the values that each of the two keys has."""

LARGEST_SHARE: Final = 1 - SMALLEST_SHARE

OWN_NUMBER: Final = 0.6
"""From this `own_name` on, a column is the number of its own table."""

PARTITION_PROBABILITY: Final = 0.8
"""The probability of both references."""


@dataclass(frozen=True, slots=True)
class PartialReference:
    """The rows of a column that refer to one of two tables. `other`: the key that the other rows refer to."""

    child: ColumnFacts
    key: ColumnFacts
    other: ColumnFacts
    check: Check
    probability: float = PARTITION_PROBABILITY


def find_partitions(
    columns: Iterable[ColumnFacts], keys: Sequence[ColumnFacts], taken: Collection[ColumnFacts]
) -> list[PartialReference]:
    """Return two references for each column whose values are all in one of two keys, and none in both.

    The column's name must mean a key, and no other two keys may share out its values. `taken`: columns that refer to
    something else.
    """
    whole = [key for key in keys if key is key.table.likeliest and key.table.complete and not key.empty]
    found: list[PartialReference] = []
    for child in columns:
        if child in taken or not _may_be_shared_out(child):
            continue
        parts = [(key, child.counts.keys() & key.counts.keys()) for key in whole if _is_comparable(child, key)]
        if any(len(part) > LARGEST_SHARE * child.distinct for _, part in parts):
            continue
        large = [(key, part) for key, part in parts if len(part) >= SMALLEST_SHARE * child.distinct]
        pairs = [
            (key, other)
            for (key, part), (other, rest) in combinations(large, 2)
            if not part & rest and len(part) + len(rest) == child.distinct
        ]
        if len(pairs) == 1:
            found += [_reference(child, key, other) for key, other in (pairs[0], pairs[0][::-1])]
    return found


def _may_be_shared_out(child: ColumnFacts) -> bool:
    named = child.keyed and own_name(child) < OWN_NUMBER
    fit = child.family is Family.TEXT or (child.family is Family.INTEGER and not _HOLDERS.isdisjoint(child.base))
    return named and fit and child.distinct >= FEWEST_SHARED_OUT and child.table.complete


def _is_comparable(child: ColumnFacts, key: ColumnFacts) -> bool:
    return key.family is child.family and key.table is not child.table


def _reference(child: ColumnFacts, key: ColumnFacts, other: ColumnFacts) -> PartialReference:
    missing = sum(count for value, count in child.counts.items() if value not in key.counts)
    return PartialReference(child, key, other, Check(child.filled, missing, exact=True))
