"""Tables and columns as inference sees them: names split, values counted, and the tables a name means."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from ktx_cli.privacy import ValueKind
from ktx_cli.scan.profile.profiler import ColumnProfile, SampledTable
from ktx_cli.scan.relationships.names import (
    Splitter,
    alike,
    concepts,
    key_base,
    local_key_words,
    own_prefix,
    phrase_alike,
    string_prefix,
    table_words,
    tokens,
    without_prefix,
    words,
)
from ktx_cli.scan.stages import STRICT, Failures, Stage
from ktx_cli.warehouses import Column, SemanticType, Table, TableKind

FAINTEST = 0.4
"""Below this a table is not what a name speaks of."""

OWN = 0.8
"""How clearly a column called `parent_id` or `reports_to` speaks of its own table."""

OTHER_KEY = 0.7
"""A key that is not its table's likeliest has to be called so much as the column is."""

MOST_TABLES = 12
"""How many tables a name may speak of."""


@dataclass(frozen=True, slots=True)
class Named:
    """How far a column's name speaks of a table, and of a key by the key's own name; both 0 to 1.

    `meaning`: whether column and table may stand for the same thing by other words (`rep` and `employee`).
    """

    table: float
    key: float
    meaning: bool = False

    @property
    def best(self) -> float:
        """The stronger of the two."""
        return max(self.table, self.key)


class NameIndex:
    """Answers which parents a column's name speaks of; `keys`: the columns that can be referred to."""

    def __init__(self, tables: Sequence[TableFacts], keys: Iterable[ColumnFacts]) -> None:
        self._by_word: dict[str, set[int]] = defaultdict(set)
        self._by_letter: dict[str, list[str]] = defaultdict(list)
        self._tables = tables
        for table in tables:
            for word in {*table.words, "".join(table.words), "".join(each[:1] for each in table.words)} - {""}:
                self._by_word[word].add(table.number)
        for word in self._by_word:
            self._by_letter[word[0]].append(word)
        self._by_parts: dict[tuple[str, ...], list[ColumnFacts]] = defaultdict(list)
        self._keys: dict[int, list[ColumnFacts]] = defaultdict(list)
        for key in keys:
            self._keys[key.table.number].append(key)
            if key.base:
                self._by_parts[key.parts].append(key)
        self._by_concept: dict[str, set[int]] = defaultdict(set)
        for table in tables:
            for concept in concepts(table.words):
                self._by_concept[concept].add(table.number)
        self._words: dict[str, set[int]] = {}
        self._bases: dict[tuple[str, ...], dict[int, float]] = {}
        self._parents: dict[tuple[tuple[str, ...], tuple[str, ...], bool], Mapping[ColumnFacts, Named]] = {}

    def parents(self, child: ColumnFacts) -> Mapping[ColumnFacts, Named]:
        """Return the keys the column's name speaks of, and how clearly."""
        if _speaks_of_own(child) or child in self._keys.get(child.table.number, ()):
            return self._find_parents(child)
        spelling = (child.parts, child.base, child.keyed)
        known = self._parents.get(spelling)
        if known is None:
            known = self._parents[spelling] = self._find_parents(child)
        return known

    def _find_parents(self, child: ColumnFacts) -> dict[ColumnFacts, Named]:
        found: dict[ColumnFacts, Named] = {}
        tables = self.tables_of(child)
        meant = self.meant(child.base)
        for number in dict.fromkeys([*tables, *meant]):
            likeliest: set[str] = set()
            for key in self._keys.get(number, ()):
                alike_key = key_alike(child, key)
                if key is child or (key.family in likeliest and alike_key < OTHER_KEY):
                    continue
                likeliest.add(key.family)
                found[key] = Named(tables.get(number, 0.0), alike_key, number in meant)
        for start in range(len(child.parts)):
            for key in self._by_parts.get(child.parts[start:], ()):
                if key is not child and key not in found:
                    found[key] = Named(tables.get(key.table.number, 0.0), key_alike(child, key))
        return found

    def meant(self, base: tuple[str, ...]) -> list[int]:
        """Return the tables that stand for what words may mean; none where there are many."""
        numbers = {number for concept in concepts(base) for number in self._by_concept.get(concept, ())}
        return sorted(numbers) if len(numbers) <= MOST_TABLES else []

    def named(self, child: ColumnFacts, key: ColumnFacts) -> Named:
        """Return how far the column's name speaks of one key."""
        meaning = key.table.number in self.meant(child.base)
        return Named(self.tables_of(child).get(key.table.number, 0.0), key_alike(child, key), meaning)

    def tables_of(self, child: ColumnFacts) -> dict[int, float]:
        """Return the tables a column speaks of: its own too, when it is called a parent or a manager."""
        tables = self.tables(child.base)
        if not _speaks_of_own(child):
            return tables
        return {**tables, child.table.number: max(OWN, tables.get(child.table.number, 0.0))}

    def tables(self, base: tuple[str, ...]) -> dict[int, float]:
        """Return number of table -> how far words speak of it, the clearest ones only."""
        known = self._bases.get(base)
        if known is None:
            known = self._bases[base] = self._find(base)
        return known

    def _find(self, base: tuple[str, ...]) -> dict[int, float]:
        if not base:
            return {}
        numbers: set[int] = set()
        for word in {*base, "".join(base)}:
            numbers |= self._matching(word)
        scores = {number: _alike_table(base, self._tables[number]) for number in numbers}
        kept = sorted((each for each in scores.items() if each[1] >= FAINTEST), key=lambda each: (-each[1], each[0]))
        return dict(kept[:MOST_TABLES])

    def _matching(self, word: str) -> set[int]:
        known = self._words.get(word)
        if known is None:
            near = [other for other in self._by_letter.get(word[:1], ()) if alike(word, other) > 0]
            known = self._words[word] = {number for other in near for number in self._by_word[other]}
        return known


def _speaks_of_own(child: ColumnFacts) -> bool:
    """Whether a column is called something only rows of its own table can be: a parent, of people a manager."""
    if child.says("self"):
        return len(child.base) <= 2
    return child.says("boss") and "person" in concepts(child.table.words)


def _alike_table(base: tuple[str, ...], table: TableFacts) -> float:
    score = table_alike(base, table.words)
    return score if table.numbered == table.words else max(score, table_alike(base, table.numbered))


def table_alike(base: tuple[str, ...], spoken: tuple[str, ...]) -> float:
    """Return how far a column's words speak of a table: wholly, behind a role (`billing address`), or by its head."""
    if not base or not spoken:
        return 0.0
    # Words that begin with different letters are not alike, which is sooner seen here than by a call.
    best, first, first_spoken = 0.0, base[0][:1], spoken[0][:1]
    for weight, letter, part in _parts(base):
        if letter == first_spoken and weight > best:
            best = max(best, weight * phrase_alike(part, spoken))
    for weight, letter, part in _parts_of_table(spoken, len(base)):
        if letter == first and weight > best:
            best = max(best, weight * phrase_alike(base, part))
    if len(base) > 1 and len(spoken) > 1 and best < 0.72:
        best = max(best, 0.72 * phrase_alike(base[-1:], spoken[-1:]))
    return best


@functools.lru_cache(maxsize=100_000)
def _parts(base: tuple[str, ...]) -> tuple[tuple[float, str, tuple[str, ...]], ...]:
    """Return a column's words whole, their ends and their beginnings: weight, first letter, words."""
    sizes = range(1, len(base))
    parts = [(1.0, base), *((0.92, base[-size:]) for size in sizes), *((0.8, base[:size]) for size in sizes)]
    return tuple((weight, part[0][:1], part) for weight, part in parts)


@functools.lru_cache(maxsize=100_000)
def _parts_of_table(spoken: tuple[str, ...], size: int) -> tuple[tuple[float, str, tuple[str, ...]], ...]:
    """Return the parts of a table's name that `size` words may mean: weight, first letter, words."""
    if len(spoken) == 1:
        return ()
    parts = [(0.82, spoken[-1:]), (0.7, spoken[:-1]), (0.5, spoken[:1])]
    if 1 < size < len(spoken):
        parts.append((0.85, spoken[-size:]))
    return tuple((weight, part[0][:1], part) for weight, part in parts)


def key_alike(child: ColumnFacts, key: ColumnFacts) -> float:
    """Return how far a column is called as the key is: `id` and `code` say nothing, `customer_id` does."""
    if not key.base:
        return 0.0
    if child.parts == key.parts or child.joined == key.joined:
        return 1.0
    size = len(key.parts)
    if len(child.parts) > size and child.parts[-size:] == key.parts:
        return 0.9
    if len(key.joined) >= 5 and child.joined.endswith(key.joined):
        return 0.85
    if child.base == key.base:
        return 0.9 if child.keyed else 0.7
    if child.base and child.keyed and key.keyed:
        return 0.9 * phrase_alike(child.base, key.base)
    return 0.0


LONGEST_KEY = 80
"""Texts longer than this, in characters, are prose and no keys."""


class Family(StrEnum):
    """What can be compared with what: a column refers only to one of its own family."""

    INTEGER = "integer"
    TEXT = "text"
    TIME = "time"
    OTHER = "other"


_OBSERVED = {ValueKind.INTEGER: Family.INTEGER, ValueKind.TEXT: Family.TEXT, ValueKind.TIME: Family.TIME}
_DECLARED = {SemanticType.NUMBER: Family.INTEGER, SemanticType.STRING: Family.TEXT, SemanticType.TIME: Family.TIME}


@dataclass(slots=True, eq=False)
class ColumnFacts:
    """One column. `counts`: value -> rows of the sample, empty where nothing can be compared; `parts`: the words of its
    name, `joined` run together; `base`: without those that mean a key, of which `keyed` says whether there were any."""

    table: TableFacts
    column: Column
    profile: ColumnProfile
    counts: Mapping[Any, int]
    position: int
    family: Family
    parts: tuple[str, ...]
    base: tuple[str, ...]
    keyed: bool
    joined: str

    @property
    def name(self) -> str:
        """The column's name."""
        return self.column.name

    @property
    def distinct(self) -> int:
        """How many different values the sample holds."""
        return len(self.counts)

    @property
    def empty(self) -> bool:
        """Whether there is no value to look at."""
        return not self.counts

    @property
    def unique(self) -> bool:
        """Whether no value of the sample stands twice, and no row is without one."""
        return self.profile.unique and self.profile.nulls == 0

    def says(self, kind: str) -> bool:
        """Whether a word of its name is of a kind (`measure`, `flag` ...)."""
        return not words(kind).isdisjoint(self.parts)

    def __str__(self) -> str:
        return f"{self.table.table.ref}.{self.name}"


@dataclass(slots=True, eq=False)
class TableFacts:
    """One table; `words`: those of its name without layers and common prefixes; `numbered`: with the last number."""

    table: Table
    sampled: SampledTable
    words: tuple[str, ...]
    number: int
    columns: list[ColumnFacts] = field(default_factory=list)
    numbered: tuple[str, ...] = ()
    peculiar: frozenset[str] = frozenset()
    """Names of columns, run together, that few other tables have: `updated_at` everywhere says nothing."""
    spread: Mapping[str, int] = field(default_factory=dict)
    """Name of a column, run together -> how many tables of the database have one of that name."""
    likeliest: ColumnFacts | None = None
    """The unique column that is most plausible as its key; known once unique columns were looked for."""

    @property
    def rows(self) -> int:
        """How many rows the table has, as far as is known."""
        profile = self.sampled.profile
        return profile.rows if profile.row_count is None else profile.row_count

    @property
    def complete(self) -> bool:
        """Whether the sample is the whole table."""
        return self.sampled.profile.complete

    def column(self, name: str) -> ColumnFacts:
        """Return the facts of a column."""
        return next(each for each in self.columns if each.name == name)


@dataclass(eq=False)
class DatabaseFacts:
    """All tables that take part."""

    dialect: str
    tables: list[TableFacts]
    relations: tuple[Table, ...] = ()
    """All relations of the database, views too."""

    @cached_property
    def columns(self) -> list[ColumnFacts]:
        """All columns, table by table."""
        return [column for table in self.tables for column in table.columns]


def gather(
    dialect: str, tables: Iterable[Table], sampled: Iterable[SampledTable], failures: Failures = STRICT
) -> DatabaseFacts:
    """Return the facts of the tables that can take part; views only repeat what their tables hold.

    A table that fails unexpectedly takes no part and is noted in `failures`; the strict default raises the error.
    """
    candidates = [(table, sample) for table, sample in zip(tables, sampled, strict=True)]
    chosen = [candidate for candidate in candidates if candidate[0].kind is not TableKind.VIEW] or candidates
    names = [table.ref.name for table, _ in chosen]
    local = local_key_words(_first_keys(chosen))
    splitter = Splitter([*names, *(column.name for table, _ in chosen for column in table.columns)])
    spoken = table_words(names)
    found: list[TableFacts] = []
    for table, sample in chosen:
        with failures.stage(Stage.RELATIONSHIPS, table.ref):
            found.append(_table(table, sample, splitter.split(spoken[table.ref.name]), len(found), splitter, local))
    _mark_peculiar(found)
    return DatabaseFacts(dialect, found, tuple(table for table, _ in candidates))


def _first_keys(chosen: Sequence[tuple[Table, SampledTable]]) -> list[tuple[str, ...]]:
    """Return the words of the first column of each table that is unique in the sample."""
    found = []
    for _, sampled in chosen:
        first = next((profile for profile in sampled.profile.columns[:2] if profile.unique and not profile.nulls), None)
        if first is not None:
            found.append(tokens(first.name))
    return found


def _mark_peculiar(tables: Sequence[TableFacts]) -> None:
    counts = Counter(name for table in tables for name in {column.joined for column in table.columns})
    most = max(2, len(tables) // 5)
    for table in tables:
        table.spread = counts
        table.peculiar = frozenset(column.joined for column in table.columns if counts[column.joined] <= most)


def _table(
    table: Table, sampled: SampledTable, spoken: tuple[str, ...], number: int, splitter: Splitter, local: frozenset[str]
) -> TableFacts:
    facts = TableFacts(table, sampled, spoken, number)
    last = tokens(table.ref.name)[-1]
    facts.numbered = (*spoken, last) if last.isdigit() and spoken[-1] != last else spoken
    prefix = own_prefix(column.name for column in table.columns)
    letters = string_prefix([column.name for column in table.columns])
    for position, (column, profile) in enumerate(zip(table.columns, sampled.profile.columns, strict=True)):
        parts = tokens(column.name)
        if len(parts) > len(prefix) and parts[: len(prefix)] == prefix:
            parts = parts[len(prefix) :]
        parts = splitter.split(without_prefix(parts, letters))
        base, keyed = key_base(parts, local)
        counts = sampled.counts.get(column.name, {})
        family = _family(column, profile)
        facts.columns.append(
            ColumnFacts(facts, column, profile, counts, position, family, parts, base, keyed, "".join(parts))
        )
    return facts


def _family(column: Column, profile: ColumnProfile) -> Family:
    if profile.problem is not None:
        return Family.OTHER
    if profile.kind is ValueKind.EMPTY:
        return _DECLARED.get(column.type, Family.OTHER)
    family = _OBSERVED.get(profile.kind, Family.OTHER)
    if family is Family.TEXT and (profile.longest or 0) > LONGEST_KEY:
        return Family.OTHER
    return family


@dataclass(frozen=True, slots=True)
class Overlap:
    """How the values of a column meet those of a key.

    `rows`, `missing`: rows of the child's sample (or of the probed values) with a value, and those that find none.
    `hits`: different values that are found. `exact`: both tables were looked at whole. `blank`: the value that stands
    for NULL, and counts as it; `blank_rows` of the child's sample have it.
    """

    rows: int
    missing: int
    distinct: int
    hits: int
    exact: bool
    blank: Any = None
    blank_rows: int = 0

    @property
    def violations(self) -> float:
        """The share of rows that find nothing."""
        return self.missing / self.rows if self.rows else 0.0


@dataclass(slots=True, eq=False)
class Candidate:
    """A column and a key it may refer to. `overlap` None: no values to compare, or they were not compared.

    `late`: that was for want of time. `odds`: what the ranker's first look gives, as log-odds.
    """

    child: ColumnFacts
    key: ColumnFacts
    named: Named
    sources: set[str] = field(default_factory=set)
    overlap: Overlap | None = None
    values: list[float] = field(default_factory=list)
    probability: float = 0.0
    odds: float = 0.0
    late: bool = False

    @property
    def empty(self) -> bool:
        """Whether one of the two has no values: no row can tell."""
        return self.child.empty or self.key.empty

    @property
    def only_orphans(self) -> bool:
        """Whether the column has values and the key none: no row finds its parent yet."""
        return self.key.empty and not self.child.empty


ALIKE = 0.8
"""The share of columns two tables have in common from which one may be the other's copy."""


def core(table: TableFacts) -> tuple[str, ...]:
    """Return the words of a table's name that say what it holds, without those that mark a copy."""
    return _core(table.words)


@functools.lru_cache(maxsize=100_000)
def _core(spoken: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in spoken if not _is_mark(word)) or spoken


def marks(table: TableFacts) -> frozenset[str]:
    """Return the words of a table's name that mark a copy or a layer."""
    return _marks(table.table.ref.name)


@functools.lru_cache(maxsize=100_000)
def _marks(name: str) -> frozenset[str]:
    return frozenset(word for word in tokens(name) if _is_mark(word) or word in words("layer"))


def _is_mark(word: str) -> bool:
    return word in words("copy") or (word.isdigit() and len(word) >= 4)


def are_alike(one: TableFacts, other: TableFacts) -> bool:
    """Whether two tables have nearly the same columns."""
    mine, theirs = ({column.name.lower() for column in table.columns} for table in (one, other))
    return len(mine & theirs) >= ALIKE * len(mine | theirs)


def originals(tables: Iterable[TableFacts]) -> Mapping[TableFacts, TableFacts]:
    """Return copy -> the table it repeats: the one of the same words with the fewest marks."""
    groups: dict[tuple[str, ...], list[TableFacts]] = defaultdict(list)
    for table in tables:
        groups[core(table)].append(table)
    found: dict[TableFacts, TableFacts] = {}
    for group in groups.values():
        first = min(group, key=lambda table: (len(marks(table)), table.number))
        found |= {each: first for each in group if marks(first) < marks(each) and are_alike(each, first)}
    return found
