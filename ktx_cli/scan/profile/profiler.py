"""Profiles all tables of a database within its budgets; a table that fails costs only itself.

Views and foreign tables of servers are left alone unless `scan.views` asks for them: reading one runs functions with
its owner's rights, other servers, and statements of any length.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ktx_cli.core import Command, SourceError, monotonic
from ktx_cli.project import Scan, Views
from ktx_cli.scan.profile.counts import FAILED, NOT_READ, SampledTable, count_sample, unread, unsampled
from ktx_cli.scan.stages import STRICT, Failures, Stage
from ktx_cli.warehouses import (
    Connector,
    ForwardingConnector,
    QueryResult,
    SampleLimits,
    Table,
    TableKind,
    TableRef,
    dialect_named,
    exact_texts,
    read_sample,
    table_path,
    why,
)

CELLS = 8_000_000
"""How many values of rows are held at a time, over all tables: wide databases get smaller samples."""

FEWEST_ROWS = 500
"""No table's sample is made smaller than this because of `CELLS`."""

OUT_OF_TIME = "the time for profiling was up"
"""Why a table has no profile when `scan.budget.seconds` ended it."""

_RUN_WHEN_READ = (TableKind.VIEW, TableKind.FOREIGN)


@dataclass(frozen=True, slots=True)
class Budget:
    """What profiling a connection may take: rows a table, bytes of values a table, seconds in all, tables at once.

    `views`: whose views and foreign tables may be read.
    """

    rows: int = 10_000
    bytes: int = 64 * 1024 * 1024
    seconds: float = 900.0
    concurrency: int = 4
    views: Views = "local"

    @classmethod
    def of(cls, settings: Scan) -> Budget:
        """Return the budget that `scan` of `ktx.yaml` gives."""
        own, budget = settings.relationships, settings.budget
        size = budget.megabytes * 1024 * 1024
        return cls(own.profile_sample_rows, size, float(budget.seconds), own.profile_concurrency, settings.views)


@dataclass(frozen=True, slots=True)
class Profiled:
    """All tables with their samples, in the order asked for; `statements` sent, and what the budgets cut.

    `not_read`: views and foreign tables left alone because of `scan.views`.
    """

    tables: tuple[SampledTable, ...]
    statements: int
    rows_each: int
    out_of_time: int = 0
    not_read: int = 0

    @property
    def cut_by_bytes(self) -> int:
        """How many tables have a smaller sample because of their width."""
        return sum(each.profile.cut_by_bytes for each in self.tables)


def profile_tables(
    connector: Connector,
    tables: Sequence[Table],
    budget: Budget,
    progress: Callable[[int, int], None] = lambda done, total: None,
    last: Mapping[TableRef, str] | None = None,
    failures: Failures = STRICT,
) -> Profiled:
    """Sample and count every table. Raises `SourceError` only when the source itself is gone.

    `last`: table -> when it was profiled last, as sortable text. Those that never were come first, then the longest
    ago, so that what the time did not reach in one run it reaches in the next. `failures`: takes what fails
    unexpectedly; the strict default raises it.
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
        if ended.is_set():  # the source is gone: what other threads have not begun is not asked any more
            return unsampled(table, FAILED), 0
        try:
            with failures.stage(Stage.PROFILE, table.ref):
                return _profile(connector, table, limits, exact.get(table.ref, frozenset()))
        except BaseException:
            ended.set()
            raise
        return unsampled(table, FAILED), 0

    for done, (sampled, sent) in enumerate(_each(one, asked, connector, budget), start=1):
        found[sampled.profile.ref] = sampled
        statements += sent
        late += sampled.profile.problem == OUT_OF_TIME
        progress(done, len(asked))
    return Profiled(tuple(found[table.ref] for table in tables), statements, rows, late, len(left_alone))


def _may_read(table: Table, dialect: str, budget: Budget) -> bool:
    if table.kind not in _RUN_WHEN_READ:
        return True
    return budget.views == "always" or (budget.views == "local" and dialect_named(dialect).is_local)


def _each(
    one: Callable[[Table], tuple[SampledTable, int]], tables: Sequence[Table], connector: Connector, budget: Budget
) -> Iterator[tuple[SampledTable, int]]:
    if budget.concurrency < 2 or len(tables) < 2:
        yield from map(one, tables)
        return
    with ThreadPoolExecutor(budget.concurrency, thread_name_prefix="ktx-profile") as pool:
        yield from pool.map(one, tables)


def _profile(
    connector: Connector, table: Table, limits: SampleLimits, exact: frozenset[str]
) -> tuple[SampledTable, int]:
    """Return the profile of one table, and how many statements it took."""
    try:
        sample = read_sample(connector, table, limits, seed=_seed(table))
    except SourceError as error:
        if error.code == "connection":
            raise
        late = error.code == "timeout" and limits.deadline is not None and monotonic() >= limits.deadline
        return unsampled(table, OUT_OF_TIME if late else why(error)), error.details.get("statements", 0)
    return count_sample(table, sample, connector.dialect, exact), sample.statements


def _seed(table: Table) -> int:
    """Return a number that is the same for a table every time."""
    return int.from_bytes(hashlib.sha256(str(table.ref).encode("utf-8", "surrogatepass")).digest()[:3], "big")


class SparingConnector(ForwardingConnector):
    """Refuses every statement that names one of the tables as `table_path` writes it, which is how all of a scan do.

    Closing it does not close the connector it stands for.
    """

    def __init__(self, inner: Connector, spared: Iterable[TableRef]) -> None:
        super().__init__(inner)
        self._spared = tuple(table_path(ref, inner.dialect) for ref in spared)

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """Run one statement. Raises `SourceError` with `NOT_READ` for one that names a spared table."""
        if any(path in sql for path in self._spared):
            raise SourceError(NOT_READ, hint=Command("config", "set", "scan.views", "always"), code="query")
        return super().query(sql, parameters, max_rows=max_rows)

    def close(self) -> None:
        """Do nothing."""
