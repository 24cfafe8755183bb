"""The value dictionary: what stands in columns of few values, so that a filter can be written without a look at rows.

A list comes from the type (native enums), from the sample where that is the whole table, else from one statement a
table; where that fails or takes too long, the values of the sample stand for it, and the list says it is not complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.connectors.port import Column, Connector, ObjectProblem, Table, TableRef
from ktx_cli.context.scan.failures import Failures, Stage
from ktx_cli.context.scan.profiling.dictionary_reading import ValueReader
from ktx_cli.context.scan.profiling.model import ColumnProfile, SampledTable, ValueKind
from ktx_cli.context.scan.profiling.plain import plain_value
from ktx_cli.context.scan.profiling.privacy import Refusal, refusal
from ktx_cli.project.config.scan import Privacy

_FOLDED: Final = frozenset({"mysql", "tsql"})
"""Dialects whose sampled texts are small letters only, because they compare so."""
_LISTED: Final = (ValueKind.TEXT, ValueKind.BOOLEAN, ValueKind.MIXED)
_WRAPPED: Final = re.compile(r"^(?:nullable|lowcardinality)\((.*)\)$", re.IGNORECASE | re.DOTALL)
_ENUM: Final = re.compile(r"enum(?:8|16)?\s*\((.*)\)", re.IGNORECASE | re.DOTALL)
_ENUM_VALUE: Final = re.compile(r"'((?:[^'\\]|''|\\.)*)'")
_ESCAPED: Final = re.compile(r"''|\\(.)")


@dataclass(frozen=True, slots=True)
class DictionaryLimits:
    """What is listed: columns of at most `distinct` values (whole numbers: `codes`), `length` characters of each.

    Tables of more than `rows` rows are not asked; the sample has to do.
    """

    distinct: int = 200
    codes: int = 50
    largest_code: int = 99_999
    length: int = 120
    rows: int = 10_000_000


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """The values of a column with the number of rows each was seen in (None: not counted), the most frequent first.

    `complete`: no other value stands in the column, at the time of the scan.
    """

    ref: TableRef
    column: str
    values: tuple[tuple[Any, int | None], ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class Dictionary:
    """The lists of a connection, the columns that are withheld with the reason, and what could not be read."""

    columns: tuple[ColumnValues, ...] = ()
    withheld: tuple[tuple[TableRef, str, Refusal], ...] = ()
    problems: tuple[ObjectProblem, ...] = ()
    statements: int = 0


def build_dictionary(
    connector: Connector,
    tables: Sequence[Table],
    sampled: Sequence[SampledTable],
    *,
    privacy: Privacy,
    limits: DictionaryLimits,
    deadline: float,
    failures: Failures | None = None,
) -> Dictionary:
    """Return the dictionary of a connection; nothing for `strict`. `deadline`: of `core.clock.monotonic`.

    A table or column that fails costs only itself; `SourceError` only when the source is gone. `failures`: takes what
    fails unexpectedly, a table each; None: it is raised.
    """
    if privacy == "strict":
        return Dictionary()
    samples = {each.profile.ref: each for each in sampled}
    reader = ValueReader(connector, limits.distinct, limits.length, deadline)
    columns: list[ColumnValues] = []
    withheld: list[tuple[TableRef, str, Refusal]] = []
    failed = failures or Failures(strict=True)
    for table in tables:
        if table.ref not in samples:
            continue
        with failed.stage(Stage.VALUES, table.ref):
            listed, refused = _of_table(table, samples[table.ref], reader, limits)
            columns += listed
            withheld += refused
    return Dictionary(tuple(columns), tuple(withheld), tuple(reader.problems), reader.statements)


def _of_table(
    table: Table, sample: SampledTable, reader: ValueReader, limits: DictionaryLimits
) -> tuple[list[ColumnValues], list[tuple[TableRef, str, Refusal]]]:
    """Return the lists of a table, and the columns whose values are withheld."""
    columns: list[ColumnValues] = []
    withheld: list[tuple[TableRef, str, Refusal]] = []
    for found in _lists(table, sample, reader, limits):
        refused = _refused(table, found)
        if refused is None:
            columns.append(_values(table, found, limits))
        else:
            withheld.append((table.ref, found.column, refused))
    return columns, withheld


def declared_values(column: Column) -> tuple[str, ...]:
    """Return the values of a native enum type whose spelling names them (MySQL, DuckDB, ClickHouse), else nothing."""
    spelled = _WRAPPED.sub(r"\1", column.native_type.strip())
    found = _ENUM.fullmatch(spelled)
    return tuple(_ESCAPED.sub(_meant, value) for value in _ENUM_VALUE.findall(found[1])) if found else ()


def _meant(escape: re.Match[str]) -> str:
    return escape[1] or "'"


@dataclass(frozen=True, slots=True)
class _Found:
    column: str
    kind: ValueKind
    counts: Mapping[Any, int | None]
    complete: bool


def _lists(table: Table, sample: SampledTable, reader: ValueReader, limits: DictionaryLimits) -> Iterator[_Found]:
    """Give the list of every column of a table that has few values."""
    profiles = {each.name: each for each in sample.profile.columns}
    lookups = []
    for column in table.columns:
        declared = declared_values(column)
        if declared:
            seen = sample.counts.get(column.name, {})
            yield _Found(column.name, ValueKind.TEXT, {value: seen.get(value) for value in declared}, complete=True)
        elif column.name in sample.counts and _is_lookup(profiles[column.name], sample, limits):
            lookups.append(column)
    asked = [column for column in lookups if not _suffices(sample, profiles[column.name], reader.connector.dialect)]
    affordable = (sample.profile.row_count or 0) <= limits.rows
    full = reader.read(table, asked) if asked and affordable else {}
    for column in lookups:
        name, kind = column.name, profiles[column.name].kind
        if column not in asked:
            yield _Found(name, kind, sample.counts[name], complete=True)
        elif name not in full:
            yield _Found(name, kind, sample.counts[name], complete=False)
        elif (counts := full[name]) is not None:
            yield _Found(name, kind, counts, complete=True)


def _is_lookup(profile: ColumnProfile, sample: SampledTable, limits: DictionaryLimits) -> bool:
    """Whether the sample speaks for few values: texts, booleans, and whole numbers that stand for something."""
    if not profile.distinct:
        return False
    if profile.kind is ValueKind.INTEGER:
        largest = max(abs(value) for value in sample.counts[profile.name])
        return profile.distinct <= limits.codes and largest <= limits.largest_code and not profile.unique
    return profile.kind in _LISTED and profile.distinct <= limits.distinct


def _suffices(sample: SampledTable, profile: ColumnProfile, dialect: str) -> bool:
    """Whether the sample has every value of a column as the database spells it."""
    return sample.profile.complete and not (dialect in _FOLDED and profile.kind is not ValueKind.INTEGER)


def _refused(table: Table, found: _Found) -> Refusal | None:
    return refusal(table.ref.name, found.column, found.kind, tuple(found.counts))


def _values(table: Table, found: _Found, limits: DictionaryLimits) -> ColumnValues:
    ordered = sorted(found.counts.items(), key=lambda each: (-(each[1] or 0), str(each[0])))
    values = tuple((_cut(plain_value(value), limits.length), count) for value, count in ordered)
    return ColumnValues(table.ref, found.column, values, found.complete)


def _cut(value: Any, length: int) -> Any:
    return value[:length] if isinstance(value, str) else value
