"""How a column stands for a member of another table's composite key: by what it refers to, or by its name."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import product
from math import log10, prod
from types import MappingProxyType
from typing import Any

from ktx_cli.scan.relationships.columns import Candidate, ColumnFacts, Family, NameIndex, TableFacts, key_alike
from ktx_cli.scan.relationships.hints import Ends
from ktx_cli.scan.relationships.keys import counts_rows, own_name
from ktx_cli.scan.relationships.names import phrase_alike, stem, tokens
from ktx_cli.scan.relationships.ranker import composite_probability, with_hints
from ktx_cli.scan.relationships.record import Check, KeyChoice
from ktx_cli.scan.stages import STRICT, Failures, Stage

Columns = tuple[ColumnFacts, ...]

CLEAR = 0.6
"""From so clear a name on a column speaks of the parent's table."""
CALLED = 0.9
"""From so clear a name on it is the table's."""


class Likeness(Enum):
    """`NAMED`: called after the parent, or as its member is by a name that says whose it is. `SAME_KEY`: both refer to
    the same key. `WEAK`: called alike by a word that says nothing, as `line` and `number`, or by a role."""

    NAMED = 3
    SAME_KEY = 2
    WEAK = 1

    @property
    def strength(self) -> int:
        """By what mappings are ordered."""
        return int(self.value)


def tails(column: ColumnFacts) -> set[str]:
    """Return the ends of a name by which it can be found: its last word, and the last that means no key.

    A name that says nothing (`c1`) has none.
    """
    if not column.base and not column.keyed:
        return set()
    return {stem(words[-1]) for words in (column.parts, column.base) if words}


def likeness(
    other: ColumnFacts, member: ColumnFacts, refers: Mapping[ColumnFacts, Candidate], names: NameIndex
) -> Likeness | None:
    """Return how a column is like a member of a key; None where it is not."""
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
    """Whether a column is called as the parent's table is: `purchase_item` beside `purchase_item_line`."""
    return len(member.table.words) > 1 and phrase_alike(other.base, member.table.words) >= CALLED


def _same_name(other: ColumnFacts, member: ColumnFacts) -> bool:
    return key_alike(other, member) >= 0.7 or (other.parts == member.parts and bool(tails(member)))


def _is_prefixed(other: ColumnFacts, member: ColumnFacts) -> bool:
    """Whether a column is called as the member is, with the parent's name before it: `parcel_line`."""
    for words in {member.parts, member.base} - {()}:
        size = len(words)
        if len(other.parts) > size and other.parts[-size:] == words and _is_table(other.parts[:-size], member):
            return True
    return False


def _is_table(words: tuple[str, ...], member: ColumnFacts) -> bool:
    """Whether words end with the name of the member's table: roles may stand before it."""
    spoken = member.table.words
    return max(phrase_alike(words, spoken), phrase_alike(words[-len(spoken) :], spoken)) >= CLEAR


def _by_table(other: ColumnFacts, member: ColumnFacts, names: NameIndex) -> Likeness | None:
    """Return the likeness of a column that speaks of the parent's table to the member that numbers its rows."""
    if own_name(member) < CLEAR or counts_rows(other) or not (other.keyed or other.says("self") or other.says("boss")):
        return None
    number = member.table.number
    if names.tables_of(other).get(number, 0.0) >= CLEAR:
        return Likeness.NAMED
    return Likeness.WEAK if number in names.meant(other.base) else None


TOLERATED = 0.08
"""The share of rows that may find no row of the parent."""

SHARED_BY = 3
"""A key that is part of so many composite keys is that of a tenant: references to it stay beside the composite ones."""

MOST_MAPPINGS = 8


@dataclass(frozen=True, slots=True)
class CompositeCandidate:
    """Columns of a table and the composite key they may refer to, in the key's order."""

    child: Columns
    key: Columns
    check: Check | None
    probability: float
    replaces: tuple[Candidate, ...] = ()
    """References of single columns that lead where this one leads too, by way of the parent."""
    sources: frozenset[str] = frozenset()
    """Who names it besides names and values."""


CheckRows = Callable[[Sequence[ColumnFacts], Sequence[ColumnFacts]], Check | None]
"""Says what all rows of the database say of a reference; None where it does not tell."""


def find_composites(
    tables: Sequence[TableFacts],
    keys: Mapping[TableFacts, KeyChoice],
    accepted: Sequence[Candidate],
    names: NameIndex,
    check_rows: CheckRows,
    hinted: Mapping[Ends, Set[str]] = MappingProxyType({}),
) -> list[CompositeCandidate]:
    """Return the composite references the rows bear out; `check_rows` for tables larger than their samples.

    A clearly named one whose rows could not be looked at, and a hinted one, are returned all the same.
    """
    return _Search(
        tables, keys, {candidate.child: candidate for candidate in accepted}, names, check_rows, hinted
    ).run()


@dataclass(slots=True)
class _Search:
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
        self._index({column.table.number for columns in parents for column in columns})
        found: dict[Columns, CompositeCandidate] = {}
        for columns in parents:
            for mapping, how in self._mappings(columns):
                candidate = self._checked(mapping, columns, how)
                if candidate is not None and (
                    mapping not in found or found[mapping].probability < candidate.probability
                ):
                    found[mapping] = candidate
        for (mapping, columns), sources in self.hinted.items():
            candidate = self._hinted(mapping, columns, frozenset(sources))
            if candidate is not None:
                found[candidate.child] = candidate
        return self._without_shared(_nearest(list(found.values())), parents)

    def _parents(self) -> Iterable[Columns]:
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

    def _mappings(self, columns: Columns) -> Iterable[tuple[Columns, tuple[Likeness, ...]]]:
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

    def _checked(self, mapping: Columns, columns: Columns, how: Sequence[Likeness]) -> CompositeCandidate | None:
        if _is_declared(mapping):
            return None
        mine = [row for row in _tuples(mapping) if None not in row]
        present = set(_tuples(columns))
        if not mine or not present:
            return None
        check = self._check(mapping, columns, mine, present)
        if check is None:
            return (
                CompositeCandidate(mapping, columns, None, composite_probability(None, named=True))
                if _is_named(how)
                else None
            )
        nameless = any(
            each is Likeness.WEAK and not key.base and not counts_rows(key)
            for key, each in zip(columns, how, strict=True)
        )
        if check.violations > TOLERATED or (nameless and self._is_own_key(mapping)):
            return None
        if _points_the_other_way(mapping, columns, self.keys, set(mine), present):
            return None
        probability = _probability(check, mine, columns, how)
        return CompositeCandidate(mapping, columns, check, probability, self._implied(mapping, columns))

    def _is_own_key(self, mapping: Sequence[ColumnFacts]) -> bool:
        """Whether columns are their own table's key: `id` within a tenant counts alike everywhere."""
        choice = self.keys.get(mapping[0].table)
        return choice is not None and set(choice.primary) == {column.name for column in mapping}

    def _hinted(self, mapping: Columns, columns: Columns, sources: frozenset[str]) -> CompositeCandidate | None:
        """Return what a source names, whatever the names say, for a person to judge where rows do not bear it out."""
        if _is_declared(mapping):
            return None
        how = [
            likeness(own, key, self.refers, self.names) or Likeness.WEAK
            for own, key in zip(mapping, columns, strict=True)
        ]
        mine = [row for row in _tuples(mapping) if None not in row]
        check = self._check(mapping, columns, mine, set(_tuples(columns))) if mine else None
        believed = None if check is None or check.violations > TOLERATED else check
        probability = with_hints(_probability(believed, mine, columns, how), sources)
        return CompositeCandidate(mapping, columns, check, probability, self._implied(mapping, columns), sources)

    def _check(
        self, mapping: Columns, columns: Columns, mine: Sequence[tuple[Any, ...]], present: set[tuple[Any, ...]]
    ) -> Check | None:
        if columns[0].table.complete and mapping[0].table.complete:
            return Check(len(mine), sum(1 for row in mine if row not in present), exact=True)
        return self.check_rows(mapping, columns)

    def _implied(self, mapping: Sequence[ColumnFacts], columns: Sequence[ColumnFacts]) -> tuple[Candidate, ...]:
        refers = self.refers
        return tuple(
            refers[own]
            for own, key in zip(mapping, columns, strict=True)
            if own in refers and (refers[own].key is key or (key in refers and refers[own].key is refers[key].key))
        )

    def _without_shared(
        self, found: Sequence[CompositeCandidate], parents: Sequence[Columns]
    ) -> list[CompositeCandidate]:
        """Return the references, and let those to a tenant stay that every row carries."""
        part_of = Counter(self.refers[column].key for columns in parents for column in columns if column in self.refers)
        shared = {key for key, count in part_of.items() if count >= SHARED_BY}
        return [
            replace(each, replaces=tuple(candidate for candidate in each.replaces if candidate.key not in shared))
            for each in found
        ]


def _nearest(found: Sequence[CompositeCandidate]) -> list[CompositeCandidate]:
    """Leave out the references that lead where a wider one of the same columns leads by way of its parent."""
    by_child = {each.child: each for each in found}
    return [each for each in found if not any(_is_behind(each, other, by_child) for other in found)]


def _is_behind(
    each: CompositeCandidate, other: CompositeCandidate, by_child: Mapping[Columns, CompositeCandidate]
) -> bool:
    if not set(each.child) < set(other.child):
        return False
    standing = dict(zip(other.child, other.key, strict=True))
    onward = by_child.get(tuple(standing[column] for column in each.child))
    return onward is not None and onward.key == each.key


def _probability(
    check: Check | None, mine: Sequence[tuple[Any, ...]], columns: Columns, how: Sequence[Likeness]
) -> float:
    chance = 0.0 if check is None else _chance(set(mine), columns)
    return composite_probability(check, chance, named=_is_named(how), weak=Likeness.WEAK in how)


def _is_named(how: Sequence[Likeness]) -> bool:
    """Whether the names alone say which key is meant."""
    return Likeness.WEAK not in how and Likeness.NAMED in how


def _is_declared(mapping: Columns) -> bool:
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
    mapping: Columns, columns: Columns, keys: Mapping[TableFacts, KeyChoice], mine: set[Any], present: set[Any]
) -> bool:
    """Whether the child's columns are its own key too and hold no less than the parent's: then it is the parent."""
    choice = keys.get(mapping[0].table)
    own = choice is not None and set(choice.primary) == {column.name for column in mapping}
    if not own or not present <= mine:
        return False
    one, other = ((len(each[0].table.columns), each[0].table.number) for each in (mapping, columns))
    return one <= other


MOST_TYPES = 20
"""A discriminator has at most so many values."""

LEAST_NAMED = 0.6
"""How clearly a value has to name a table; one that only means the same counts as so clear."""

CLEARLY = 0.75
"""How clearly the only value of a discriminator has to name its table."""

FEWEST_VALUES = 5
"""So many different values have to stand beside a value that names no table."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One of the tables a polymorphic column refers to, when `discriminator` has `value`."""

    child: ColumnFacts
    key: ColumnFacts
    discriminator: ColumnFacts
    value: Any
    check: Check
    named: float


def find_branches(
    tables: Iterable[TableFacts], keys: Sequence[ColumnFacts], names: NameIndex, failures: Failures = STRICT
) -> list[Branch]:
    """Return the branches of every column whose values belong to different tables by the value of another column.

    A value of the discriminator has to name the table, or one table alone has to hold what stands beside the value; of
    several the one in the column's own schema. There must be at least two such tables, unless the discriminator has one
    value alone, which names its table clearly. A table that fails unexpectedly has none and is noted in `failures`;
    None: the error is raised.
    """
    by_table: dict[int, list[ColumnFacts]] = defaultdict(list)
    for key in keys:
        by_table[key.table.number].append(key)
    found: list[Branch] = []
    for table in tables:
        with failures.stage(Stage.POLYMORPHIC, table.table.ref):
            found += _of_table(table, by_table, names)
    return found


def _of_table(table: TableFacts, by_table: Mapping[int, Sequence[ColumnFacts]], names: NameIndex) -> list[Branch]:
    found: list[Branch] = []
    for discriminator in filter(_is_discriminator, table.columns):
        for child in table.columns:
            if child is not discriminator and _belongs(child, discriminator):
                found += _branches(child, discriminator, by_table, names)
    return found


def _is_discriminator(column: ColumnFacts) -> bool:
    return (
        column.family in (Family.TEXT, Family.INTEGER)
        and 1 <= column.distinct <= MOST_TYPES
        and not column.profile.unique
        and column.says("discriminator")
    )


def _belongs(child: ColumnFacts, discriminator: ColumnFacts) -> bool:
    """Whether both are named alike (`owner_id`, `owner_type`), or the discriminator's name is nothing but `type`."""
    if child.family not in (Family.INTEGER, Family.TEXT) or child.profile.unique:
        return False
    first = [part for part in discriminator.parts if part not in ("type", "kind", "class", "name", "typ", "tipo")]
    if set(child.parts) & set(first):
        return child.keyed or child.family is Family.INTEGER
    return child.keyed and (not child.base or not first)


def _branches(
    child: ColumnFacts, discriminator: ColumnFacts, by_table: Mapping[int, Sequence[ColumnFacts]], names: NameIndex
) -> list[Branch]:
    values = child.table.sampled.values
    groups: dict[Any, list[Any]] = defaultdict(list)
    for kind, value in zip(values[discriminator.name], values[child.name], strict=True):
        if kind is not None and value is not None:
            groups[kind].append(value)
    found = []
    for kind, group in groups.items():
        branch = _branch(child, discriminator, kind, group, by_table, names)
        if branch is not None:
            found.append(branch)
    alone = len(groups) == 1 and all(branch.named >= CLEARLY for branch in found)
    return found if alone or len({branch.key.table.number for branch in found}) >= 2 else []


def _branch(
    child: ColumnFacts,
    discriminator: ColumnFacts,
    kind: Any,
    group: Sequence[Any],
    by_table: Mapping[int, Sequence[ColumnFacts]],
    names: NameIndex,
) -> Branch | None:
    words = tuple(word for word in tokens(str(kind)) if word)  # a blank text names nothing
    spoken = names.tables(words)
    named = {number: score for number, score in spoken.items() if score >= LEAST_NAMED}
    for number in names.meant(words):
        named.setdefault(number, LEAST_NAMED)
    options = [(score, key) for number, score in named.items() for key in by_table.get(number, ())]
    for score, key in sorted(options, key=lambda each: (-each[0], not _is_at_home(child, each[1]))):
        check = _check(child, key, group)
        if check is not None:
            return Branch(child, key, discriminator, kind, check, score)
    return None if named else _by_values(child, discriminator, kind, group, by_table)


def _by_values(
    child: ColumnFacts,
    discriminator: ColumnFacts,
    kind: Any,
    group: Sequence[Any],
    by_table: Mapping[int, Sequence[ColumnFacts]],
) -> Branch | None:
    """Return the branch to the one table that holds what stands beside a value that names none; None for several."""
    if len(set(group)) < FEWEST_VALUES:
        return None
    found = [(keys[0], _check(child, keys[0], group)) for keys in by_table.values() if keys]
    fitting = [(key, check) for key, check in found if check is not None]
    fitting = [each for each in fitting if _is_at_home(child, each[0])] if len(fitting) > 1 else fitting
    if len(fitting) != 1:
        return None
    ((key, check),) = fitting
    return Branch(child, key, discriminator, kind, check, 0.0)


def _is_at_home(child: ColumnFacts, key: ColumnFacts) -> bool:
    """Whether a key is in the column's own schema."""
    return child.table.table.ref.schema == key.table.table.ref.schema


def _check(child: ColumnFacts, key: ColumnFacts, group: Sequence[Any]) -> Check | None:
    """Return what the rows say of a group of values and a key; None where too many are not in it."""
    if key.family is not child.family or not key.table.complete:
        return None
    missing = sum(1 for value in group if value not in key.counts)
    check = Check(len(group), missing, exact=child.table.complete)
    return check if check.violations <= TOLERATED else None
