"""Profile all tables of a database within the budget, column by column. If a table fails, the others continue.

Views and foreign tables of servers are not read unless `scan.views` allows it: reading one runs functions with its
owner's rights, statements on other servers, and statements of any length.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import hashlib
import math
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from ktx_cli.core import Command, SourceError, monotonic
from ktx_cli.privacy import Refusal, Sign, ValueKind, refusal, sign_of_name
from ktx_cli.project import Scan, Views
from ktx_cli.scan.profile.answers import NotStoredError, ProfileCounts, RecallingConnector, StoredOnlyConnector
from ktx_cli.scan.stages import STRICT, Failures, Stage
from ktx_cli.telemetry import in_this_operation
from ktx_cli.warehouses import (
    Column,
    Connector,
    ForwardingConnector,
    OverBudgetError,
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


def unread(table: Table, why: Unsampled) -> SampledTable:
    """Return the profile of a table that must not be read. Its columns count as empty, with their declared types."""
    return unsampled(table, why, kind=ValueKind.EMPTY)


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

    `failed`: a bug in ktx. `not_read`: a view or foreign table that `scan.views` excludes. `not_used`: a table that
    `scan.profile` excludes. `out_of_time`: `scan.budget.seconds` was used up. `over_budget`: reading it would exceed
    `scan.budget.gigabytes`. `error`: the database returned an error.
    """

    FAILED = "failed"
    NOT_READ = "not_read"
    NOT_USED = "not_used"
    OUT_OF_TIME = "out_of_time"
    OVER_BUDGET = "over_budget"
    ERROR = "error"

    @property
    def is_beyond_limits(self) -> bool:
        """Whether the table was not reached within the limits of the scan, and the next one starts with it."""
        return self in (Unsampled.OUT_OF_TIME, Unsampled.OVER_BUDGET)

    @property
    def is_excluded_by_setting(self) -> bool:
        """Whether a setting excludes the table, so that nothing about its rows is asked."""
        return self in (Unsampled.NOT_READ, Unsampled.NOT_USED)


PROBLEMS: Final[Mapping[Unsampled, str]] = {
    Unsampled.FAILED: "profiling failed unexpectedly",
    Unsampled.NOT_READ: "its rows are not read because of `scan.views`",
    Unsampled.NOT_USED: "its rows are not read because of `scan.profile`",
    Unsampled.OUT_OF_TIME: "the time limit `scan.budget.seconds` was reached",
    Unsampled.OVER_BUDGET: "the limit `scan.budget.gigabytes` was reached",
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
    is_storable: bool = False
    """Whether it is known that no column has values that must not be stored."""


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
    over_budget: int = 0
    not_read: int = 0
    waiting: frozenset[TableRef] = frozenset()
    """Changed tables that have the profile of an earlier scan, because this one had no time or budget to read them."""

    sent: frozenset[TableRef] | None = None
    """The tables about which statements were sent; None if that was not counted."""
    changed: frozenset[TableRef] | None = None
    """The tables that may have changed since they were last read; None if that was not compared."""
    seconds_recalled: float = 0.0
    """The seconds spent on counting stored samples, which are not part of the budget."""

    def counts(self) -> ProfileCounts:
        """Return how many tables were profiled, and how many have the results of an earlier scan."""
        sampled = [each.profile.ref for each in self.tables if each.profile.unsampled is None]
        sent = frozenset() if self.sent is None else self.sent - self.waiting
        profiled = sum(ref in sent for ref in sampled)
        not_read = {each.profile.ref for each in self.tables if is_excluded(each.profile)}
        return ProfileCounts(
            tables=len(self.tables),
            changed=len((self.changed or frozenset()) - not_read),
            profiled=profiled,
            reused=sum(ref not in sent and ref not in self.waiting for ref in sampled),
            waiting=self.out_of_time + self.over_budget + len(self.waiting),
            skipped=len(not_read),
        )

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
    *,
    preferred: Collection[TableRef] = (),
    unused: Collection[TableRef] = (),
    rows_before: int | None = None,
) -> Profiled:
    """Sample and count every table. Raises `SourceError` only if the database is unreachable.

    `last`: table -> when it was last profiled, as sortable text. The `preferred` tables come first, and then the
    oldest, so that the next run reaches what this one has no time for. `unused`: tables that are not read.
    `rows_before`: the rows of each sample in the last scan with the same setting, which are kept if they differ little.
    `failures` notes unexpected errors; the strict default raises them.
    """
    left_alone = {
        table.ref: unread(table, Unsampled.NOT_READ)
        for table in tables
        if not may_read(table, connector.dialect, budget.views)
    }
    not_read, skipped = len(left_alone), frozenset(unused)
    left_alone |= {
        table.ref: unread(table, Unsampled.NOT_USED)
        for table in tables
        if table.ref in skipped and table.ref not in left_alone
    }
    asked = [table for table in tables if table.ref not in left_alone]
    first = frozenset(preferred)
    asked.sort(key=lambda table: (table.ref not in first, (last or {}).get(table.ref, "")))
    rows = _rows_each(budget, asked, rows_before)
    limits = SampleLimits(rows=rows, bytes=budget.bytes)
    exact: Mapping[TableRef, frozenset[str]] = {}
    statements = 0
    if budget.seconds > 0:
        with failures.stage(Stage.PROFILE):
            exact, statements = exact_texts(connector, asked)
    late: Counter[Unsampled | None] = Counter()
    found = left_alone.copy()
    sampling = _Sampling(connector, budget, limits, exact, failures)
    for done, (sampled, sent) in enumerate(sampling.each(asked), start=1):
        found[sampled.profile.ref] = _settled(connector, sampled, rows, budget.rows)
        statements += sent
        late[sampled.profile.unsampled] += 1
        progress(done, len(asked))
    unreached = (late[Unsampled.OUT_OF_TIME], late[Unsampled.OVER_BUDGET])
    profiled = Profiled(tuple(found[table.ref] for table in tables), statements, rows, *unreached, not_read)
    if not isinstance(connector, RecallingConnector):
        return profiled
    connector.end_sampling()
    return replace(
        profiled,
        statements=statements + sampling.in_vain - connector.recalled,
        waiting=frozenset(connector.pinned),
        sent=frozenset(connector.sent),
        changed=connector.changed,
        seconds_recalled=sampling.seconds_recalled,
    )


_STEADY_ROWS: Final = 0.2
"""By how much the rows of each sample may differ from those of the last scan before all tables are sampled again."""


def _rows_each(budget: Budget, tables: Sequence[Table], before: int | None) -> int:
    """Return the number of rows to sample from each table.

    It depends on the number of columns of all tables. A new column alone must not make every sample another one.
    """
    columns = sum(len(table.columns) for table in tables)
    rows = min(budget.rows, max(FEWEST_ROWS, CELLS // max(columns, 1)))
    if before is not None and abs(before - rows) <= _STEADY_ROWS * rows:
        return before
    return rows


def _settled(connector: Connector, sampled: SampledTable, rows: int, setting: int) -> SampledTable:
    """Let a connector store the answers about a sample, unless it has values that must not be stored."""
    if not isinstance(connector, RecallingConnector):
        return sampled
    ref = sampled.profile.ref
    # What was stored before has no such values: nothing of the sample is stored if it does.
    may_store = not connector.sent[ref] and sampled.profile.unsampled is None and ref not in connector.unstored
    may_store = may_store or (ref not in connector.unstored and not has_private_values(sampled))
    if sampled.profile.unsampled is None:
        connector.settle(ref, rows, setting, may_store=may_store)
    return replace(sampled, is_storable=may_store)


@dataclass(slots=True)
class _Sampling:
    """Samples and counts tables. `limits` have no deadline, and `exact` are the columns with exact texts.

    `in_vain`: the number of stored answers that did not suffice for a table, and are used once more.
    `seconds_recalled`: see `Profiled`.
    """

    connector: Connector
    budget: Budget
    limits: SampleLimits
    exact: Mapping[TableRef, frozenset[str]]
    failures: Failures
    in_vain: int = 0
    seconds_recalled: float = 0.0
    _ended: threading.Event = field(default_factory=threading.Event)

    def each(self, tables: Iterable[Table]) -> Iterator[tuple[SampledTable, int]]:
        """Yield the tables with the number of statements for each: first those whose answers are stored.

        These are only counted, which threads cannot do at once, and take no time of the budget.
        """
        left, recalled, started = [], 0, monotonic()
        for table in tables:
            found, answered = self._from_answers(table)
            recalled += answered
            if found is None:
                left.append(table)
                self.in_vain += answered
            else:
                yield found, answered
        self.seconds_recalled = monotonic() - started if recalled else 0.0
        timed = replace(self.limits, deadline=monotonic() + self.budget.seconds)
        yield from _each(functools.partial(self._one, timed), left, self.budget)

    def _from_answers(self, table: Table) -> tuple[SampledTable | None, int]:
        """Return the profile from stored answers alone, or None if they do not suffice, and how many were used."""
        if not isinstance(self.connector, RecallingConnector) or table.ref in self.connector.changed:
            return None, 0
        stored = StoredOnlyConnector(self.connector)
        with self.failures.stage(Stage.PROFILE, table.ref):
            try:
                found, _ = self._profile(stored, table, self.limits)
            except NotStoredError:
                return None, stored.answered
            return (found if found.profile.unsampled is None else None), stored.answered
        return unsampled(table, Unsampled.FAILED), stored.answered

    def _one(self, limits: SampleLimits, table: Table) -> tuple[SampledTable, int]:
        if self._ended.is_set():  # The database is unreachable: skip tables that other threads have not started.
            return unsampled(table, Unsampled.FAILED), 0
        try:
            with self.failures.stage(Stage.PROFILE, table.ref):
                found, sent = self._profile(self.connector, table, limits)
                why_not = found.profile.unsampled
                if why_not is not None and why_not.is_beyond_limits:
                    before, more = self._as_before(limits, table)
                    return before or found, sent + more
                return found, sent
        except BaseException:
            self._ended.set()
            raise
        return unsampled(table, Unsampled.FAILED), 0

    def _as_before(self, limits: SampleLimits, table: Table) -> tuple[SampledTable | None, int]:
        """Return the profile that a table had in the scan that last read it, or None if it is not stored.

        The number is that of the statements, as `_one` returns it.
        """
        if not isinstance(self.connector, RecallingConnector):
            return None, 0
        known = self.connector.pin(table.ref)
        if known is None:
            return None, 0
        found, asked = self._profile(self.connector, known, limits)
        if found.profile.unsampled is None:
            return found, asked
        self.connector.unpin(table.ref)
        return None, asked

    def _profile(self, connector: Connector, table: Table, limits: SampleLimits) -> tuple[SampledTable, int]:
        return _profile(connector, table, limits, self.exact.get(table.ref, frozenset()))


def has_private_values(sampled: SampledTable) -> bool:
    """Return whether a table has values that not even answers that only scans read may have.

    Numbers of rows, in columns that are named as ids, are not among them: without those, no join can be compared.
    """
    found = (_refused(sampled, column) for column in sampled.profile.columns)
    return any(each is not None and forbids_answers(each) for each in found)


def forbids_answers(refused: Refusal) -> bool:
    """Return whether not even answers that only scans read may have the refused values."""
    return refused.personal and not (refused.sign is Sign.IDENTIFIER and refused.by == "name")


def is_private(sampled: SampledTable, column: ColumnProfile) -> bool:
    """Return whether a column's values must not be stored with its profile."""
    if sampled.is_storable and not column.is_restricted:  # Only its name can speak against them.
        values = sampled.counts.get(column.name)
        named = sign_of_name(sampled.profile.ref.name, column.name)
        return bool(values) and column.kind is not ValueKind.BOOLEAN and named is not None
    refused = _refused(sampled, column)
    return refused is not None and refused.personal


def _refused(sampled: SampledTable, column: ColumnProfile) -> Refusal | None:
    values = sampled.counts.get(column.name, {})
    return refusal(sampled.profile.ref.name, column.name, column.kind, values, is_restricted=column.is_restricted)


def may_read(table: Table, dialect: str, views: Views) -> bool:
    """Return whether a scan may read a relation's rows. `views`: the setting `scan.views`."""
    if table.kind not in _EXECUTED_KINDS:
        return True
    return views == "always" or (views == "local" and dialect_named(dialect).is_local)


def _each(
    one: Callable[[Table], tuple[SampledTable, int]], tables: Sequence[Table], budget: Budget
) -> Iterator[tuple[SampledTable, int]]:
    if budget.concurrency < 2 or len(tables) < 2:
        yield from map(one, tables)
        return
    with ThreadPoolExecutor(budget.concurrency, thread_name_prefix="ktx-profile") as pool:
        yield from pool.map(in_this_operation(one), tables)


def _profile(
    connector: Connector, table: Table, limits: SampleLimits, exact: frozenset[str]
) -> tuple[SampledTable, int]:
    """Return the profile of one table, and the number of statements."""
    try:
        sample = read_sample(connector, table, limits, seed=_seed(table))
    except SourceError as error:
        if error.code == "connection":
            raise
        is_over = limits.deadline is not None and monotonic() >= limits.deadline
        statements = error.details.get("statements", 0)
        if isinstance(error, OverBudgetError):
            return unsampled(table, Unsampled.OVER_BUDGET), statements
        if error.code == "timeout" and is_over:
            return unsampled(table, Unsampled.OUT_OF_TIME), statements
        return unsampled(table, Unsampled.ERROR, why(error)), statements
    return count_sample(table, sample, connector.dialect, exact), sample.statements


def _seed(table: Table) -> int:
    """Return a number that is always the same for a table."""
    return int.from_bytes(hashlib.sha256(str(table.ref).encode("utf-8", "surrogatepass")).digest()[:3], "big")


def is_excluded(profile: TableProfile) -> bool:
    """Return whether a setting excludes a table from profiling."""
    return profile.unsampled is not None and profile.unsampled.is_excluded_by_setting


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
