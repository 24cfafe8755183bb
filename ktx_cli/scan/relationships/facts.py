"""Tables and columns as the search for relationships sees them: names split, values counted, nothing declared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from ktx_cli.privacy import ValueKind
from ktx_cli.scan.failures import Failures, Stage
from ktx_cli.scan.profile.counts import ColumnProfile, SampledTable
from ktx_cli.scan.relationships.names import (
    Splitter,
    key_base,
    local_key_words,
    own_prefix,
    string_prefix,
    table_words,
    tokens,
    without_prefix,
    words,
)
from ktx_cli.warehouses import Column, SemanticType, Table, TableKind

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
    dialect: str, tables: Iterable[Table], sampled: Iterable[SampledTable], failures: Failures | None = None
) -> DatabaseFacts:
    """Return the facts of the tables that can take part; views only repeat what their tables hold.

    A table that fails unexpectedly takes no part and is noted in `failures`; None: the error is raised.
    """
    failed = failures or Failures(strict=True)
    pairs = [(table, sample) for table, sample in zip(tables, sampled, strict=True)]
    chosen = [pair for pair in pairs if pair[0].kind is not TableKind.VIEW] or pairs
    names = [table.ref.name for table, _ in chosen]
    local = local_key_words(_first_keys(chosen))
    splitter = Splitter([*names, *(column.name for table, _ in chosen for column in table.columns)])
    spoken = table_words(names)
    found: list[TableFacts] = []
    for table, sample in chosen:
        with failed.stage(Stage.RELATIONSHIPS, table.ref):
            found.append(_table(table, sample, splitter.split(spoken[table.ref.name]), len(found), splitter, local))
    _mark_peculiar(found)
    return DatabaseFacts(dialect, found, tuple(table for table, _ in pairs))


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
