"""Tables and columns prepared for inference: split names, counted values, and the tables that a name refers to."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from ktx_cli.privacy import ValueKind
from ktx_cli.scan.profile.profiler import ColumnProfile, SampledTable
from ktx_cli.scan.relationships.names import (
    SAME_LETTERS,
    Lettered,
    Splitter,
    alike,
    alike_words,
    concepts,
    is_doer,
    key_base,
    lettered,
    local_key_phrases,
    local_key_words,
    names_actor,
    own_prefix,
    phrase_alike,
    skeleton,
    stem,
    string_prefix,
    table_words,
    tokens,
    without_prefix,
    words,
)
from ktx_cli.scan.stages import STRICT, Failures, Stage
from ktx_cli.warehouses import Column, SemanticType, Table, TableKind

MIN_MATCH = 0.4
"""A column does not refer to a table whose name matches less than this."""

OWN_TABLE_MATCH = 0.8
"""The match of a column named `parent_id` or `reports_to` with its own table."""

MIN_OTHER_KEY_MATCH = 0.7
"""The minimum match of a column's name with a key other than the likeliest of its table."""

WHOLE_CONTEXT = 0.97
"""The match of `type` in the table `area` with the table `area_type`."""

PART_OF_CONTEXT = 0.92
"""The match of `type` in the table `sales_area` with the table `area_type`."""

START_OF_CONTEXT = 0.85
"""The match of `type` in the table `sales_area` with the table `sales_type`."""

OF_ANOTHER_TABLE = 0.55
"""The match of `type` in the table `label` with the table `link_type` next to a table `link`."""

_KINDS = frozenset({"class", "state"})
"""The concepts of a column that says something about a row, which is read with the name of its table."""

ORDER_MATCH = 0.85
"""The match of `entity0` in the table `link_artist_work` with the table `artist`."""

MOST_COMPARED = 60
"""The maximum number of tables with a word of a name that are all compared with it."""

MOST_TABLES = 12
"""The maximum number of tables that one name may refer to."""


@dataclass(frozen=True, slots=True)
class NameMatch:
    """How well a column's name matches the name of a table and the name of its key, both from 0 to 1.

    `meaning`: whether column and table may mean the same in other words (`rep` and `employee`). `actor`: whether that
    is who wrote a row (`created_by`) and a table of users. `in_context`: whether the column only matches together with
    its own table's name (`type` in `area` and `area_type`).
    """

    table: float
    key: float
    meaning: bool = False
    actor: bool = False
    in_context: bool = False

    @property
    def best(self) -> float:
        """The stronger of the two."""
        return max(self.table, self.key)


@dataclass(frozen=True, slots=True)
class _Names:
    """What a column's name says: table number -> match, the tables it may mean, and those it matches in context.

    `actor`: whether those that it means are users, and the column says who wrote a row.
    """

    tables: Mapping[int, float]
    meant: Sequence[int]
    actor: bool
    context: Set[int]

    def match(self, number: int, key: float) -> NameMatch:
        """Return the match with a key of a table. `key`: that with the name of the key."""
        meaning = number in self.meant
        return NameMatch(self.tables.get(number, 0.0), key, meaning, meaning and self.actor, number in self.context)


class NameIndex:
    """The parents that a column's name refers to. `keys`: the columns that can be referred to."""

    def __init__(self, tables: Sequence[TableFacts], keys: Iterable[ColumnFacts]) -> None:
        self._by_word: dict[str, set[int]] = defaultdict(set)
        self._by_letter: dict[str, list[str]] = defaultdict(list)
        self._tables = tables
        self._sizes = [len(table.words) for table in tables]
        for table in tables:
            for word in {*table.words, "".join(table.words), "".join(each[:1] for each in table.words)} - {""}:
                self._by_word[word].add(table.number)
        self._by_start: dict[str, list[Lettered]] = defaultdict(list)
        for word in self._by_word:
            self._by_letter[word[0]].append(word)
            self._by_start[word[:SAME_LETTERS]].append(lettered(word))
        self._by_name: dict[str, list[int]] = defaultdict(list)
        self._whole: dict[str, int] = {}
        for table in tables:
            self._whole.setdefault(_stemmed(table.words), table.number)
            if len(table.words) > 1:
                self._by_name[_stemmed(table.words)].append(table.number)
        self._by_parts: dict[tuple[str, ...], list[ColumnFacts]] = defaultdict(list)
        self._by_spelling: dict[tuple[str, ...], list[ColumnFacts]] = defaultdict(list)
        self._keys: dict[int, list[ColumnFacts]] = defaultdict(list)
        for key in keys:
            self._keys[key.table.number].append(key)
            if key.base:
                self._by_parts[key.parts].append(key)
            if key.shortened:
                self._by_spelling[tokens(key.name)].append(key)
        by_concept: dict[str, list[TableFacts]] = defaultdict(list)
        for table in tables:
            for concept in concepts(table.words):
                by_concept[concept].append(table)
        self._by_concept = {concept: self._independent(group) for concept, group in by_concept.items()}
        self._users = self._independent([table for table in tables if _holds_users(table)])
        self._recent: tuple[ColumnFacts, _Names] | None = None
        self._words: dict[str, set[int]] = {}
        self._bases: dict[tuple[str, ...], dict[int, float]] = {}
        self._parents: dict[tuple[tuple[str, ...], tuple[str, ...], bool, Family], Mapping[ColumnFacts, NameMatch]] = {}

    def parents(self, child: ColumnFacts) -> Mapping[ColumnFacts, NameMatch]:
        """Return the keys that the column's name refers to, and how well it matches them."""
        alone = tokens(child.name) in self._by_spelling or self._in_context(child) or _may_name_own_table(child)
        alone = alone or not concepts(child.base).isdisjoint(_KINDS)
        if alone or _is_numbered(child) or child in self._keys.get(child.table.number, ()):
            return self._find_parents(child)
        spelling = (child.parts, child.base, child.keyed, child.family)
        known = self._parents.get(spelling)
        if known is None:
            known = self._parents[spelling] = self._find_parents(child)
        return known

    def _find_parents(self, child: ColumnFacts) -> dict[ColumnFacts, NameMatch]:
        found: dict[ColumnFacts, NameMatch] = {}
        names = self._names_of(child)
        for number in dict.fromkeys([*names.tables, *names.meant]):
            likeliest: set[str] = set()
            for key in self._keys.get(number, ()):
                alike_key = key_alike(child, key)
                if key is child or (key.family in likeliest and alike_key < MIN_OTHER_KEY_MATCH):
                    continue
                likeliest.add(key.family)
                found[key] = names.match(number, alike_key)
        for key in self._by_spelling.get(tokens(child.name), ()):
            if key is not child and key not in found and key.table is not child.table:
                found[key] = names.match(key.table.number, key_alike(child, key))
        for start in range(len(child.parts)):
            for key in self._by_parts.get(child.parts[start:], ()):
                if key is not child and key not in found:
                    found[key] = names.match(key.table.number, key_alike(child, key))
        return found

    def match(self, child: ColumnFacts, key: ColumnFacts) -> NameMatch:
        """Return how well the column's name matches one key."""
        return self._names_of(child).match(key.table.number, key_alike(child, key))

    def _names_of(self, child: ColumnFacts) -> _Names:
        """Return what a column's name says. Callers match one column with many keys in a row."""
        if self._recent is not None and self._recent[0] is child:
            return self._recent[1]
        meant = [] if _counts_things(child) else self.meant(child.base)
        context = {at for at, match in self._in_context(child).items() if match >= PART_OF_CONTEXT}
        names = _Names(self.tables_of(child), meant, bool(self._users) and self._names_actor(child.base), context)
        self._recent = (child, names)
        return names

    def meant(self, base: tuple[str, ...]) -> list[int]:
        """Return the tables for a concept that words may stand for, or none if there are many.

        Who wrote a row is a user of the application if there is a table of these, and a customer or a student is a
        person if nothing else is.
        """
        if self._users and self._names_actor(base):
            return self._users if len(self._users) <= MOST_TABLES else []
        known = concepts(base) | ({"person"} if self._is_doer(base) else set())
        numbers = {number for concept in known for number in self._by_concept.get(concept, ())}
        if not numbers and not known.isdisjoint(_PEOPLE):
            numbers = set(self._by_concept.get("person", ()))
        return sorted(numbers) if len(numbers) <= MOST_TABLES else []

    def _names_actor(self, base: tuple[str, ...]) -> bool:
        """Return whether words say who wrote a row: `created by`, `author`, or the `poster` of posts."""
        return names_actor(base) or self._is_doer(base)

    def _is_doer(self, base: tuple[str, ...]) -> bool:
        """Return whether a word is who does what a table holds."""
        if not base or base[-1] in self._by_word:
            return False
        things = {stem(base[-1]).removesuffix(end) for end in ("er", "or", "r")}
        return any(
            is_doer(base[-1], word) for thing in things for word in (thing, f"{thing}s") if word in self._by_word
        )

    def _independent(self, group: Sequence[TableFacts]) -> list[int]:
        """Return the numbers of tables without those that belong to another one by their names.

        `user_role` and `group_user` belong to `user`, and `site_user` is a table of its own. All of a large group.
        """
        if len(group) > MOST_COMPARED:
            return [table.number for table in group]
        names = {table: frozenset(map(stem, table.words)) for table in group}

        def belongs(one: TableFacts, other: TableFacts) -> bool:
            another_noun = stem(one.words[-1]) != stem(other.words[-1])
            return names[other] < names[one] and (another_noun or len(self.mentioned(one)) > 1)

        return [one.number for one in group if not any(belongs(one, other) for other in group)]

    def tables_of(self, child: ColumnFacts) -> dict[int, float]:
        """Return the tables that a column may refer to, including its own if it is named as a parent or manager.

        A column is also read with its table's words: `type` of the table `area` refers to `area_type`.
        """
        tables = self._without_kinds_of_others(child, self.tables(child.base))
        in_context = {**self._by_order(child), **self._in_context(child)}
        if in_context:
            tables = {**tables, **{at: max(match, tables.get(at, 0.0)) for at, match in in_context.items()}}
        if _counts_things(child):
            tables = {at: min(match, OF_ANOTHER_TABLE) for at, match in tables.items()}
        if not _may_name_own_table(child):
            return tables
        return {**tables, child.table.number: max(OWN_TABLE_MATCH, tables.get(child.table.number, 0.0))}

    def _without_kinds_of_others(self, child: ColumnFacts, tables: dict[int, float]) -> dict[int, float]:
        """Return matches, with a lower one for kinds and states of another table: `link_type`, of `type` in `label`."""
        if concepts(child.base).isdisjoint(_KINDS):
            return tables
        own, found = set(map(stem, child.table.words)), dict(tables)
        for number, match in tables.items():
            words = self._tables[number].words
            start = words[: len(words) - len(child.base)]
            owner = self._whole.get(_stemmed(start)) if start and words[len(start) :] == child.base else None
            if owner not in (None, number, child.table.number) and own.isdisjoint(map(stem, start)):
                found[number] = min(match, OF_ANOTHER_TABLE)
        return found

    def mentioned(self, table: TableFacts) -> list[int]:
        """Return the tables whose names are in a table's name, in order: `artist`, `work` for `link_artist_work`."""
        words, found, start = table.words, [], 0
        while start < len(words):
            ends = range(len(words), start, -1)
            numbers = ((end, self._whole.get(_stemmed(words[start:end]))) for end in ends)
            named = next(((end, at) for end, at in numbers if at is not None and at != table.number), None)
            if named is not None:
                found.append(named[1])
            start = named[0] if named is not None else start + 1
        return found

    def likeliest_keys(self, number: int) -> Sequence[ColumnFacts]:
        """Return the likeliest key of a table, or nothing."""
        return self._keys.get(number, [])[:1]

    def _by_order(self, child: ColumnFacts) -> dict[int, float]:
        """Return the table that one of two numbered columns refers to: the first or second that its table's name names.

        `entity0` and `entity1` of `link_artist_work` refer to `artist` and `work`.
        """
        if not _is_numbered(child):
            return {}
        numbered = [each for each in child.table.columns if _is_numbered(each) and each.base[:-1] == child.base[:-1]]
        tables = self.mentioned(child.table)
        if len(numbered) != 2 or len(tables) != 2:
            return {}
        numbered.sort(key=lambda column: int(column.base[-1]))
        return {tables[numbered.index(child)]: ORDER_MATCH}

    def _in_context(self, child: ColumnFacts) -> dict[int, float]:
        """Return table number -> how well its name matches the column's words after words of the column's own table."""
        if not child.base:
            return {}
        found: dict[int, float] = {}
        for match, name in _contexts(child.table.words, child.base):
            for number in self._by_name.get(name, ()):
                if number != child.table.number:
                    found[number] = max(match, found.get(number, 0.0))
        return found

    def tables(self, base: tuple[str, ...]) -> dict[int, float]:
        """Return table number -> how well words match its name, best matches only."""
        known = self._bases.get(base)
        if known is None:
            known = self._bases[base] = self._find(base)
        return known

    def _find(self, base: tuple[str, ...]) -> dict[int, float]:
        if not base:
            return {}
        shared: Counter[int] = Counter()
        for word in set(base):
            shared.update(self._matching(word))
        if len(base) > 1:
            shared.update(self._run_together("".join(base)))
        numbers = shared.keys() if len(shared) <= MOST_COMPARED else self._with_most_words(shared)
        scores = {number: _alike_table(base, self._tables[number]) for number in numbers}
        kept = sorted((each for each in scores.items() if each[1] >= MIN_MATCH), key=lambda each: (-each[1], each[0]))
        return dict(kept[:MOST_TABLES])

    def _with_most_words(self, shared: Counter[int]) -> list[int]:
        """Return the tables that share most words with a name, and those whose words are all in it.

        There are at least `MOST_TABLES` of them, and only these can be among the best matches.
        """
        least, sizes = sorted(shared.values(), reverse=True)[MOST_TABLES - 1], self._sizes
        return [number for number, count in shared.items() if count >= least or count >= sizes[number]]

    def _run_together(self, name: str) -> set[int]:
        """Return the tables with a word like several words without separators. Abbreviations match word by word."""
        near = alike_words(name, self._by_start.get(name[:SAME_LETTERS], ()))
        return {number for other in near for number in self._by_word[other]}

    def _matching(self, word: str) -> set[int]:
        known = self._words.get(word)
        if known is None:
            near = [other for other in self._by_letter.get(word[:1], ()) if alike(word, other) > 0]
            known = self._words[word] = {number for other in near for number in self._by_word[other]}
        return known


_PEOPLE = frozenset({"customer", "student"})
"""The concepts of people who may be in a table of persons."""


def _holds_users(table: TableFacts) -> bool:
    """Return whether a table is one of users by its name, with the noun last or, in Romance languages, first."""
    first, last = stem(table.words[0]), stem(table.words[-1])
    return last in words("user") or first in words("user_first")


@functools.lru_cache(maxsize=100_000)
def _contexts(table: tuple[str, ...], base: tuple[str, ...]) -> tuple[tuple[float, str], ...]:
    """Return the names that a column's words give with words of its table before them, and how well each matches.

    Words that both have count once: `concept_attribute` and `attribute_type` give `concept_attribute_type`.
    """
    shared = max(size for size in range(min(len(table), len(base)) + 1) if table[len(table) - size :] == base[:size])
    rest = base[shared:]
    if not rest:
        return ()
    found = [(WHOLE_CONTEXT, _stemmed(table + rest))]
    found += [(PART_OF_CONTEXT, _stemmed(table[start:] + rest)) for start in range(1, len(table) - shared)]
    found += [(START_OF_CONTEXT, _stemmed(table[:end] + base)) for end in range(1, len(table) - shared)]
    return tuple(found)


def _stemmed(name: Iterable[str]) -> str:
    return "".join(map(stem, name))


def _counts_things(child: ColumnFacts) -> bool:
    """Return whether a column is the number of some things by its name: `user_posts`."""
    base = child.base
    if child.keyed or child.family is not Family.INTEGER:
        return False
    return bool(base) and len(base[-1]) >= 4 and base[-1] not in _SINGULARS and stem(base[-1]) != base[-1]


_SINGULARS = frozenset({"series", "species", "news", "lens"})
"""Words that end as a plural does."""


def _is_numbered(child: ColumnFacts) -> bool:
    return len(child.base) > 1 and child.base[-1] in ("0", "1", "2")


def _may_name_own_table(child: ColumnFacts) -> bool:
    """Return whether the name is a role within the same table: a parent, or a manager in a table of people."""
    if child.names_self:
        return len(child.base) <= 2
    return child.has_word("boss") and "person" in concepts(child.table.words)


def _alike_table(base: tuple[str, ...], table: TableFacts) -> float:
    score = table_alike(base, table.words)
    if any(is_doer(base[-1], word) for word in table.words):
        return min(score, OF_ANOTHER_TABLE)
    return score if table.numbered == table.words else max(score, table_alike(base, table.numbered))


def table_alike(base: tuple[str, ...], name: tuple[str, ...]) -> float:
    """Return how well words match a table's name: all of them, those after a role (`billing address`), or the last."""
    if not base or not name:
        return 0.0
    # Words with different first letters are never alike, and comparing them here is faster than a call.
    best, first, first_of_table = 0.0, base[0][:1], name[0][:1]
    for weight, letter, part in _parts(base):
        if letter == first_of_table and weight > best:
            best = max(best, weight * phrase_alike(part, name))
    for weight, letter, part in _parts_of_table(name, len(base)):
        if letter == first and weight > best:
            best = max(best, weight * phrase_alike(base, part))
    if len(base) > 1 and len(name) > 1 and best < 0.72 and not base[-1].isdigit():
        best = max(best, 0.72 * phrase_alike(base[-1:], name[-1:]))
    return best


@functools.lru_cache(maxsize=100_000)
def _parts(base: tuple[str, ...]) -> tuple[tuple[float, str, tuple[str, ...]], ...]:
    """Return a column's words whole, their ends and their beginnings: weight, first letter, words."""
    sizes = range(1, len(base))
    parts = [(1.0, base), *((0.92, base[-size:]) for size in sizes), *((0.8, base[:size]) for size in sizes)]
    return tuple((weight, part[0][:1], part) for weight, part in parts)


@functools.lru_cache(maxsize=100_000)
def _parts_of_table(name: tuple[str, ...], size: int) -> tuple[tuple[float, str, tuple[str, ...]], ...]:
    """Return the parts of a table's name that `size` words may match: weight, first letter, words."""
    if len(name) == 1:
        return ()
    parts = [(0.82, name[-1:]), (0.7, name[:-1]), (0.5, name[:1])]
    if 1 < size < len(name):
        parts.append((0.85, name[-size:]))
    return tuple((weight, part[0][:1], part) for weight, part in parts)


def key_alike(child: ColumnFacts, key: ColumnFacts) -> float:
    """Return how well a column's name matches a key's. A generic name such as `id` or `code` matches nothing."""
    if key.shortened and child.table is not key.table and tokens(child.name) == tokens(key.name):
        return 1.0
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
    if child.base and child.keyed and key.keyed and not is_doer(child.base[-1], key.base[-1]):
        return 0.9 * phrase_alike(child.base, key.base)
    return 0.0


LONGEST_KEY = 80
"""Texts longer than this, in characters, are prose and not keys."""


class Family(StrEnum):
    """The comparable kinds of values. A column refers only to a column of its own family."""

    INTEGER = "integer"
    TEXT = "text"
    TIME = "time"
    OTHER = "other"


_OBSERVED = {ValueKind.INTEGER: Family.INTEGER, ValueKind.TEXT: Family.TEXT, ValueKind.TIME: Family.TIME}
_DECLARED = {SemanticType.NUMBER: Family.INTEGER, SemanticType.STRING: Family.TEXT, SemanticType.TIME: Family.TIME}


@functools.lru_cache(maxsize=100_000)
def _names_self(word: str) -> bool:
    known = words("self")
    return word in known or any(word in (each[:3], each[:4], skeleton(each)) for each in ("parent", "previous"))


@dataclass(slots=True, eq=False)
class ColumnFacts:
    """One column. `counts`: value -> rows of the sample, empty if the values cannot be compared.

    A blank text is not a value: it is missing from `counts`, and `blanks` is the number of rows with one. `parts`: the
    words of its name; `joined`: the same without separators. `base`: the words that do not mean a key; `keyed`: whether
    there is one that does (`id`, `code`).
    """

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
    blanks: int = 0

    @property
    def name(self) -> str:
        """The column's name."""
        return self.column.name

    @property
    def distinct(self) -> int:
        """The number of distinct values in the sample."""
        return len(self.counts)

    @property
    def empty(self) -> bool:
        """Whether the sample holds no value."""
        return not self.counts

    @property
    def filled(self) -> int:
        """The number of rows of the sample with a value."""
        return self.profile.filled - self.blanks

    @property
    def nulls(self) -> int:
        """The number of rows of the sample without a value: NULL or blank."""
        return self.profile.nulls + self.blanks

    @property
    def without_repeats(self) -> bool:
        """Whether the sample has values and none of them repeats."""
        return 0 < self.distinct == self.filled if self.blanks else self.profile.unique

    @property
    def unique(self) -> bool:
        """Whether every row of the sample has a different value."""
        return self.without_repeats and self.nulls == 0

    @property
    def shortened(self) -> bool:
        """Whether its words are only a part of its name, without those of its table (`cst_id` in `customer`)."""
        return len("".join(tokens(self.name))) > len(self.joined)

    @property
    def names_self(self) -> bool:
        """Whether its name has a word, or an abbreviation of one, for another row of its own table: `parent`."""
        return any(map(_names_self, self.parts))

    def has_word(self, kind: str) -> bool:
        """Return whether its name has a word of a kind (`measure`, `flag` ...)."""
        return not words(kind).isdisjoint(self.parts)

    def __str__(self) -> str:
        return f"{self.table.table.ref}.{self.name}"


@dataclass(slots=True, eq=False)
class TableFacts:
    """One table. `words`: its name without layers and common prefixes. `numbered`: the same with its last number."""

    table: Table
    sampled: SampledTable
    words: tuple[str, ...]
    number: int
    columns: list[ColumnFacts] = field(default_factory=list)
    numbered: tuple[str, ...] = ()
    peculiar: frozenset[str] = frozenset()
    """The names of columns, without separators, that few other tables have: `updated_at` is in most."""
    spread: Mapping[str, int] = field(default_factory=dict)
    """Column name without separators -> the number of tables that have such a column."""
    tables: int = 1
    """The number of tables of the database."""
    likeliest: ColumnFacts | None = None
    """The unique column that is its most plausible key, set by `find_unique_columns`."""
    known_keys: tuple[tuple[str, ...], ...] = ()
    """Sets of columns that a context source such as dbt declares to be unique."""
    known_filled: frozenset[str] = frozenset()
    """Columns that a context source declares to have no NULL."""

    @property
    def rows(self) -> int:
        """The number of rows of the table, or of the sample if it is unknown."""
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
    """All tables that take part in inference."""

    dialect: str
    tables: list[TableFacts]
    relations: tuple[Table, ...] = ()
    """All relations of the database, including views."""
    views: list[TableFacts] = field(default_factory=list)
    """The views next to the tables. Their columns may refer to tables, but nothing refers to them."""

    @cached_property
    def columns(self) -> list[ColumnFacts]:
        """All columns, table by table."""
        return [column for table in self.tables for column in table.columns]


def gather(
    dialect: str, tables: Iterable[Table], sampled: Iterable[SampledTable], failures: Failures = STRICT
) -> DatabaseFacts:
    """Return the facts of all tables. Views are kept apart if there are tables, because they only repeat their values.

    A table that fails unexpectedly is skipped and noted in `failures`; the strict default raises the error.
    """
    relations = [(table, sample) for table, sample in zip(tables, sampled, strict=True)]
    chosen = [relation for relation in relations if relation[0].kind is not TableKind.VIEW] or relations
    names = [table.ref.name for table, _ in chosen]
    firsts = _first_keys(chosen)
    words_of = table_words(names)
    local = _LocalKeys(local_key_words(firsts), local_key_phrases(firsts, words_of.values()))
    spelled = [" ".join(words_of[name]) for name in names]
    columns = [column.name for table, _ in chosen for column in table.columns]
    splitter = Splitter([*names, *spelled, *columns], tails=[words_of[name][-1] for name in names])
    views = [relation for relation in relations if relation[0].kind is TableKind.VIEW and relation not in chosen]
    words_of_views = table_words([*names, *(table.ref.name for table, _ in views)]) if views else {}
    found: list[TableFacts] = []
    beside: list[TableFacts] = []
    for group, known, name_words in ((chosen, found, words_of), (views, beside, words_of_views)):
        for table, sample in group:
            with failures.stage(Stage.RELATIONSHIPS, table.ref):
                number = len(found) + len(beside)
                known.append(_table(table, sample, splitter.split(name_words[table.ref.name]), number, splitter, local))
    _mark_peculiar(found)
    return DatabaseFacts(dialect, found, tuple(table for table, _ in relations), beside)


@dataclass(frozen=True, slots=True)
class _LocalKeys:
    """The words, and several words together, that mean a key only in one database."""

    words: frozenset[str]
    phrases: frozenset[tuple[str, ...]]


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
        table.spread, table.tables = counts, len(tables)
        table.peculiar = frozenset(column.joined for column in table.columns if counts[column.joined] <= most)


def _table(
    table: Table, sampled: SampledTable, name: tuple[str, ...], number: int, splitter: Splitter, local: _LocalKeys
) -> TableFacts:
    facts = TableFacts(table, sampled, name, number)
    last = tokens(table.ref.name)[-1]
    facts.numbered = (*name, last) if last.isdigit() and name[-1] != last else name
    prefix = own_prefix(column.name for column in table.columns)
    letters = string_prefix([column.name for column in table.columns])
    for position, (column, profile) in enumerate(zip(table.columns, sampled.profile.columns, strict=True)):
        parts = tokens(column.name)
        if len(parts) > len(prefix) and parts[: len(prefix)] == prefix:
            parts = parts[len(prefix) :]
        parts = splitter.split(without_prefix(parts, letters))
        base, keyed = key_base(parts, local.words, local.phrases)
        counts = sampled.counts.get(column.name, {})
        family = _family(column, profile)
        blanks = sum(count for value, count in counts.items() if is_blank(value)) if family is Family.TEXT else 0
        if blanks:
            counts = {value: count for value, count in counts.items() if not is_blank(value)}
        facts.columns.append(
            ColumnFacts(facts, column, profile, counts, position, family, parts, base, keyed, "".join(parts), blanks)
        )
    return facts


def is_blank(value: Any) -> bool:
    """Return whether a value is an empty text or one of spaces, which programs write for "no value"."""
    return isinstance(value, str) and not value.strip()


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
    """How many values of a column are in a key: the evidence for an inclusion dependency.

    `rows`: rows of the child's sample (or of the probed values) with a value. `missing`: those of them without a
    parent. `hits`: distinct values that are in the key. `exact`: both tables were read whole. `sentinel`: a value that
    counts as NULL. `sentinel_rows`: the rows of the child's sample that have it.
    """

    rows: int
    missing: int
    distinct: int
    hits: int
    exact: bool
    sentinel: Any = None
    sentinel_rows: int = 0

    @property
    def violations(self) -> float:
        """The share of rows without a parent."""
        return self.missing / self.rows if self.rows else 0.0


@dataclass(frozen=True, slots=True)
class Similar:
    """The numbers of similar joins that people accepted and rejected, and the change of the log-odds."""

    accepted: int = 0
    rejected: int = 0
    shift: float = 0.0

    @property
    def total(self) -> int:
        """The number of decisions."""
        return self.accepted + self.rejected


@dataclass(slots=True, eq=False)
class Candidate:
    """A column and a key that it may refer to. `overlap` is None if there are no values to compare, or they were not
    compared.

    `rivals`: the number of other keys that contain the column's values. `out_of_time`: the values were not compared
    because the time limit was reached. `features`: in the order of the ranker's `FEATURES`. `neighbours`: in the order
    of `NEIGHBOUR_FEATURES`, empty if the second pass skipped the candidate. `log_odds`: the score of the ranker's first
    pass. `similar`: the decisions of people about similar joins, if there are any.
    """

    child: ColumnFacts
    key: ColumnFacts
    name_match: NameMatch
    sources: set[str] = field(default_factory=set)
    overlap: Overlap | None = None
    features: Sequence[float] = ()
    probability: float = 0.0
    log_odds: float = 0.0
    rivals: int = 0
    out_of_time: bool = False
    similar: Similar | None = None
    neighbours: Sequence[float] = ()

    @property
    def empty(self) -> bool:
        """Whether one of the two has no values, so that rows are no evidence."""
        return self.child.empty or self.key.empty

    @property
    def only_orphans(self) -> bool:
        """Whether the column has values and the key has none, so that no row has a parent yet."""
        return self.key.empty and not self.child.empty


MIN_SHARED_COLUMNS = 0.8
"""The minimum share of columns that a table and its copy have in common."""


def core(table: TableFacts) -> tuple[str, ...]:
    """Return the words of a table's name without those that mark a copy (`backup`, a date)."""
    return _core(table.words)


@functools.lru_cache(maxsize=100_000)
def _core(name: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in name if not _is_mark(word)) or name


def marks(table: TableFacts) -> frozenset[str]:
    """Return the words of a table's name that mark a copy or a layer."""
    return _marks(table.table.ref.name)


@functools.lru_cache(maxsize=100_000)
def _marks(name: str) -> frozenset[str]:
    return frozenset(word for word in tokens(name) if _is_mark(word) or word in words("layer"))


def _is_mark(word: str) -> bool:
    return word in words("copy") or (word.isdigit() and len(word) >= 4)


def are_alike(one: TableFacts, other: TableFacts) -> bool:
    """Return whether two tables have nearly the same columns."""
    mine, theirs = ({column.name.lower() for column in table.columns} for table in (one, other))
    return len(mine & theirs) >= MIN_SHARED_COLUMNS * len(mine | theirs)


def originals(tables: Iterable[TableFacts]) -> Mapping[TableFacts, TableFacts]:
    """Return copy -> its original: the table whose name has the same words and the fewest marks of a copy."""
    groups: dict[tuple[str, ...], list[TableFacts]] = defaultdict(list)
    for table in tables:
        groups[core(table)].append(table)
    found: dict[TableFacts, TableFacts] = {}
    for group in groups.values():
        first = min(group, key=lambda table: (len(marks(table)), table.number))
        found |= {each: first for each in group if marks(first) < marks(each) and are_alike(each, first)}
    return found
