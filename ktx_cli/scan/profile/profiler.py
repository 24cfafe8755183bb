"""Profile all tables of a database within the budget, column by column. If a table fails, the others continue.

Views and foreign tables of servers are not read unless `scan.views` allows it: reading one runs functions with its
owner's rights, statements on other servers, and statements of any length.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ktx_cli.core import Command, SourceError, monotonic
from ktx_cli.privacy import ValueKind
from ktx_cli.project import Scan, Views
from ktx_cli.scan.stages import STRICT, Failures, Stage
from ktx_cli.warehouses import (
    Column,
    Connector,
    ForwardingConnector,
    QueryResult,
    Sample,
    SampleLimits,
    SampleMethod,
    SemanticType,
    Table,
    TableKind,
    TableRef,
    dialect_named,
    exact_texts,
    read_sample,
    table_path,
    why,
)

TOP_VALUES = 10
"""The number of most frequent values that a profile contains."""

_KINDS: Final[Mapping[type, ValueKind]] = {
    bool: ValueKind.BOOLEAN,
    int: ValueKind.INTEGER,
    float: ValueKind.NUMBER,
    decimal.Decimal: ValueKind.NUMBER,
    str: ValueKind.TEXT,
    datetime.date: ValueKind.TIME,
    datetime.datetime: ValueKind.TIME,
    datetime.time: ValueKind.TIME,
    datetime.timedelta: ValueKind.TIME,
}
_ORDERED: Final = (ValueKind.INTEGER, ValueKind.NUMBER, ValueKind.TEXT, ValueKind.TIME)
_FRACTIONS: Final = frozenset({float, decimal.Decimal})
_AS_THEY_ARE: Final = frozenset(_KINDS) - _FRACTIONS | {type(None)}
"""The types whose values Python compares as databases do."""

_LONGEST_BYTES: Final = 128
Fold = Callable[[str], str]
"""Normalizes text as a database does before comparisons."""


def fold_of(dialect: str, *, exact: bool = False) -> Fold | None:
    """Return how a dialect normalizes text, or None if it compares text unchanged.

    `exact`: whether a column compares letter case.
    """
    if not dialect_named(dialect).folds_texts:
        return None
    return _trimmed if exact else _folded


def count_sample(table: Table, sample: Sample, dialect: str = "", exact: frozenset[str] = frozenset()) -> SampledTable:
    """Return the profile of a sample, including its counts and values.

    If the dialect normalizes texts, counts and values are those of normalized texts, but the profile shows them as they
    are stored. `exact`: columns that compare letter case.
    """
    values = dict(zip(sample.columns, sample.values, strict=True))
    counts: dict[str, dict[Any, int]] = {}
    columns = []
    for column in table.columns:
        name = column.name
        if name in sample.failed:
            columns.append(ColumnProfile(name, ValueKind.OPAQUE, 0, problem=sample.failed[name]))
        elif name in sample.opaque:
            present = sample.opaque[name]
            columns.append(ColumnProfile(name, ValueKind.OPAQUE, len(present), nulls=present.count(False)))
        else:
            counted_profile, counted = _count(column, values[name], fold_of(dialect, exact=name in exact))
            columns.append(counted_profile)
            if counted is None:
                del values[name]
            else:
                counts[name] = counted
    counted_rows = (sample.method, sample.rows, sample.row_count, sample.exact_count)
    profile = TableProfile(table.ref, *counted_rows, tuple(columns), cut_by_bytes=sample.cut_by_bytes)
    return SampledTable(profile, counts, values, exact)


def unsampled(table: Table, why: Unsampled, problem: str = "", kind: ValueKind = ValueKind.OPAQUE) -> SampledTable:
    """Return the profile of a table that was not sampled. `problem`: the database error."""
    columns = tuple(ColumnProfile(column.name, kind, 0) for column in table.columns)
    counted = (SampleMethod.HEAD, 0, table.row_estimate, False)
    return SampledTable(TableProfile(table.ref, *counted, columns, problem=problem or PROBLEMS[why], unsampled=why))


def unread(table: Table) -> SampledTable:
    """Return the profile of a table that must not be read. Its columns count as empty, with their declared types."""
    return unsampled(table, Unsampled.NOT_READ, kind=ValueKind.EMPTY)


def comparable(value: Any, fold: Fold | None = None) -> Any:
    """Return a value in the form shared by all values equal to it in the database, or None for NaN and infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, decimal.Decimal):
        return value if value.is_finite() else None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value[:_LONGEST_BYTES]).hex()
    if isinstance(value, str):
        return fold(value) if fold else str(value)
    return value if value is None or type(value) in _KINDS else str(value)


def _count(column: Column, values: list[Any], fold: Fold | None) -> tuple[ColumnProfile, dict[Any, int] | None]:
    """Return the profile, and counts by value (None if values cannot be compared). Normalizes `values` in place."""
    try:
        counted: Counter[Any] = Counter(values)
    except TypeError:  # lists and mappings of nested types
        return ColumnProfile(column.name, ValueKind.OPAQUE, len(values), nulls=values.count(None)), None
    types = set(map(type, counted))
    spelled: dict[str, str] = {}
    if (not types <= _AS_THEY_ARE and not _finite_numbers(types, counted)) or (fold and str in types):
        alike = {value: comparable(value, fold) for value in counted}
        spelled = _spellings(alike) if fold else {}
        values[:] = [alike[value] for value in values]
        counted = Counter(values)
    elif str in types and 2 * len(counted) < len(values):
        one = {value: value for value in counted}  # Store equal texts in memory once.
        values[:] = [one[value] for value in values]
    nulls = counted.pop(None, 0)
    return _column_profile(column, len(values), nulls, counted, spelled), counted


def _finite_numbers(types: set[type], counted: Iterable[Any]) -> bool:
    """Return whether all values have comparable types, and the numbers among them are finite."""
    if not types <= _AS_THEY_ARE | _FRACTIONS:
        return False
    return all(map(math.isfinite, (value for value in counted if type(value) in _FRACTIONS)))


def _spellings(alike: Mapping[Any, Any]) -> dict[str, str]:
    """Return folded text -> its first spelling in the sample."""
    spelled: dict[str, str] = {}
    for value, folded in alike.items():
        if isinstance(value, str):
            spelled.setdefault(folded, value)
    return spelled


def _column_profile(
    column: Column, rows: int, nulls: int, counted: Counter[Any], spelled: Mapping[str, str]
) -> ColumnProfile:
    kind = _kind(column, counted)
    low, high = _ends(counted, kind)
    lengths = [len(spelled.get(value, value)) for value in counted] if kind is ValueKind.TEXT else []
    top = counted.most_common(TOP_VALUES) if len(counted) < rows - nulls else _first(counted)
    return ColumnProfile(
        name=column.name,
        kind=kind,
        rows=rows,
        nulls=nulls,
        distinct=len(counted),
        minimum=spelled.get(low, low),
        maximum=spelled.get(high, high),
        shortest=min(lengths, default=None),
        longest=max(lengths, default=None),
        top=tuple((spelled.get(value, value), count) for value, count in top),
    )


def _first(counted: Iterable[Any]) -> list[tuple[Any, int]]:
    return [(value, 1) for value, _ in zip(counted, range(TOP_VALUES), strict=False)]


def _kind(column: Column, counted: Mapping[Any, int]) -> ValueKind:
    kinds = {_KINDS.get(each, ValueKind.OPAQUE) for each in set(map(type, counted))}
    if not kinds:
        return ValueKind.EMPTY
    if column.type is SemanticType.BOOLEAN and counted.keys() <= {0, 1}:  # Equal to False and True.
        return ValueKind.BOOLEAN
    if kinds in ({ValueKind.NUMBER}, {ValueKind.NUMBER, ValueKind.INTEGER}):
        whole = all(type(value) is int or value == int(value) for value in counted)
        return ValueKind.INTEGER if whole else ValueKind.NUMBER
    return kinds.pop() if len(kinds) == 1 else ValueKind.MIXED


def _ends(counted: Mapping[Any, int], kind: ValueKind) -> tuple[Any, Any]:
    if kind not in _ORDERED or not counted:
        return None, None
    try:
        return min(counted), max(counted)
    except TypeError:  # Times with and without a zone, dates next to times.
        return None, None


def _folded(text: str) -> str:
    # Not `casefold`: no server treats `ß` and `ss` as equal.
    return text.rstrip(" ").lower()


def _trimmed(text: str) -> str:
    return text.rstrip(" ")


class Unsampled(StrEnum):
    """The reason why a table has no sample.

    `failed`: a bug in ktx. `not_read`: a view or foreign table that `scan.views` excludes. `out_of_time`:
    `scan.budget.seconds` was used up. `error`: the database returned an error.
    """

    FAILED = "failed"
    NOT_READ = "not_read"
    OUT_OF_TIME = "out_of_time"
    ERROR = "error"


PROBLEMS: Final[Mapping[Unsampled, str]] = {
    Unsampled.FAILED: "profiling failed unexpectedly",
    Unsampled.NOT_READ: "its rows are not read because of `scan.views`",
    Unsampled.OUT_OF_TIME: "the time limit for profiling was reached",
}
"""The reason that reports give for a table without a sample if there is no error to quote."""


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """One column in a sample of `rows` rows.

    `distinct` counts values other than NULL; it is None if values cannot be compared. `minimum` and `maximum` are
    values, `shortest` and `longest` are text lengths in characters. `top`: the most frequent values with their counts.
    `problem`: why the column could not be read; everything else is then empty. `is_restricted`: whether a context
    source classifies the column as personal or restricted, so that no value is stored or shown.
    """

    name: str
    kind: ValueKind
    rows: int
    nulls: int = 0
    distinct: int | None = None
    minimum: Any = None
    maximum: Any = None
    shortest: int | None = None
    longest: int | None = None
    top: tuple[tuple[Any, int], ...] = ()
    problem: str | None = None
    is_restricted: bool = False

    @property
    def filled(self) -> int:
        """The number of rows in the sample with a value."""
        return self.rows - self.nulls

    @property
    def unique(self) -> bool:
        """Whether the sample has values and none of them is repeated."""
        return self.distinct is not None and 0 < self.distinct == self.filled


@dataclass(frozen=True, slots=True)
class TableProfile:
    """The profile of one table: how it was sampled, and its columns in table order.

    `row_count`: rows of the whole table, exact if `exact_count` is true. `problem`: why there is no sample;
    `unsampled`: the kind of this reason.
    """

    ref: TableRef
    method: SampleMethod
    rows: int
    row_count: int | None
    exact_count: bool
    columns: tuple[ColumnProfile, ...]
    cut_by_bytes: bool = False
    problem: str | None = None
    unsampled: Unsampled | None = None

    @property
    def complete(self) -> bool:
        """Whether all rows were read."""
        return self.method is SampleMethod.ALL and self.problem is None


@dataclass(frozen=True, slots=True)
class SampledTable:
    """A profile with its sample's values, which relationship inference needs.

    `counts`: column -> value -> number of rows, for columns with comparable values. `values`: column -> values row by
    row, NULL as None. `exact`: columns that compare letter case, unlike others of the database.
    """

    profile: TableProfile
    counts: dict[str, dict[Any, int]] = field(default_factory=dict, repr=False)
    values: dict[str, list[Any]] = field(default_factory=dict, repr=False)
    exact: frozenset[str] = frozenset()


CELLS = 8_000_000
"""The maximum number of values in memory across all tables. Wide databases get smaller samples."""

FEWEST_ROWS = 500
"""The minimum number of rows in a sample, regardless of `CELLS`."""

_EXECUTED_KINDS = (TableKind.VIEW, TableKind.FOREIGN)


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of profiling: rows and value bytes per table, total seconds, and concurrent tables.

    `views`: which views and foreign tables may be read.
    """

    rows: int = 10_000
    bytes: int = 64 * 1024 * 1024
    seconds: float = 900.0
    concurrency: int = 4
    views: Views = "local"

    @classmethod
    def of(cls, settings: Scan) -> Budget:
        """Return the budget from `scan` in `ktx.yaml`."""
        own, budget = settings.relationships, settings.budget
        size = budget.megabytes * 1024 * 1024
        return cls(own.profile_sample_rows, size, float(budget.seconds), own.profile_concurrency, settings.views)


@dataclass(frozen=True, slots=True)
class Profiled:
    """All tables with their samples, in order, the number of `statements`, and the limits that were reached.

    `not_read`: the number of views and foreign tables that `scan.views` excludes.
    """

    tables: tuple[SampledTable, ...]
    statements: int
    rows_each: int
    out_of_time: int = 0
    not_read: int = 0

    @property
    def cut_by_bytes(self) -> int:
        """The number of tables with a smaller sample because they are wide."""
        return sum(each.profile.cut_by_bytes for each in self.tables)


def profile_tables(
    connector: Connector,
    tables: Sequence[Table],
    budget: Budget,
    progress: Callable[[int, int], None] = lambda done, total: None,
    last: Mapping[TableRef, str] | None = None,
    failures: Failures = STRICT,
) -> Profiled:
    """Sample and count every table. Raises `SourceError` only if the database is unreachable.

    `last`: table -> when it was last profiled, as sortable text. The oldest come first, so that the next run reaches
    what this one has no time for. `failures` notes unexpected errors; the strict default raises them.
    """
    left_alone = {table.ref: unread(table) for table in tables if not _may_read(table, connector.dialect, budget)}
    asked = [table for table in tables if table.ref not in left_alone]
    asked.sort(key=lambda table: (last or {}).get(table.ref, ""))
    columns = sum(len(table.columns) for table in asked)
    rows = min(budget.rows, max(FEWEST_ROWS, CELLS // max(columns, 1)))
    limits = SampleLimits(rows=rows, bytes=budget.bytes, deadline=monotonic() + budget.seconds)
    exact: Mapping[TableRef, frozenset[str]] = {}
    statements = 0
    if budget.seconds > 0:
        with failures.stage(Stage.PROFILE):
            exact, statements = exact_texts(connector, asked)
    late = 0
    found = left_alone.copy()
    ended = threading.Event()

    def one(table: Table) -> tuple[SampledTable, int]:
        if ended.is_set():  # The database is unreachable: skip tables that other threads have not started.
            return unsampled(table, Unsampled.FAILED), 0
        try:
            with failures.stage(Stage.PROFILE, table.ref):
                return _profile(connector, table, limits, exact.get(table.ref, frozenset()))
        except BaseException:
            ended.set()
            raise
        return unsampled(table, Unsampled.FAILED), 0

    for done, (sampled, sent) in enumerate(_each(one, asked, budget), start=1):
        found[sampled.profile.ref] = sampled
        statements += sent
        late += sampled.profile.unsampled is Unsampled.OUT_OF_TIME
        progress(done, len(asked))
    return Profiled(tuple(found[table.ref] for table in tables), statements, rows, late, len(left_alone))


def _may_read(table: Table, dialect: str, budget: Budget) -> bool:
    if table.kind not in _EXECUTED_KINDS:
        return True
    return budget.views == "always" or (budget.views == "local" and dialect_named(dialect).is_local)


def _each(
    one: Callable[[Table], tuple[SampledTable, int]], tables: Sequence[Table], budget: Budget
) -> Iterator[tuple[SampledTable, int]]:
    if budget.concurrency < 2 or len(tables) < 2:
        yield from map(one, tables)
        return
    with ThreadPoolExecutor(budget.concurrency, thread_name_prefix="ktx-profile") as pool:
        yield from pool.map(one, tables)


def _profile(
    connector: Connector, table: Table, limits: SampleLimits, exact: frozenset[str]
) -> tuple[SampledTable, int]:
    """Return the profile of one table, and the number of statements."""
    try:
        sample = read_sample(connector, table, limits, seed=_seed(table))
    except SourceError as error:
        if error.code == "connection":
            raise
        late = error.code == "timeout" and limits.deadline is not None and monotonic() >= limits.deadline
        found = unsampled(table, Unsampled.OUT_OF_TIME) if late else unsampled(table, Unsampled.ERROR, why(error))
        return found, error.details.get("statements", 0)
    return count_sample(table, sample, connector.dialect, exact), sample.statements


def _seed(table: Table) -> int:
    """Return a number that is always the same for a table."""
    return int.from_bytes(hashlib.sha256(str(table.ref).encode("utf-8", "surrogatepass")).digest()[:3], "big")


class SparedTableError(SourceError):
    """Raised for a statement that names a table whose rows must not be read."""


class SparingConnector(ForwardingConnector):
    """Refuses every statement that names a given table as `table_path` writes it, like all scan statements.

    Closing it does not close the inner connector.
    """

    def __init__(self, inner: Connector, spared: Iterable[TableRef]) -> None:
        super().__init__(inner)
        self._spared = tuple(table_path(ref, inner.dialect) for ref in spared)

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """Run one statement. Raises `SparedTableError` for one that names a spared table."""
        if any(path in sql for path in self._spared):
            always = Command("config", "set", "scan.views", "always")
            raise SparedTableError(PROBLEMS[Unsampled.NOT_READ], hint=always, code="query")
        return super().query(sql, parameters, max_rows=max_rows)

    def close(self) -> None:
        """Do nothing."""
