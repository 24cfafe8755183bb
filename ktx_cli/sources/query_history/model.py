"""Observations of a query history, its scope, and the errors for an unreadable history."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from ktx_cli.core import NotReadyError, ResultWarning
from ktx_cli.project import QueryHistory
from ktx_cli.sources.query_history.tables import NamedTable, Tables

KIND = "query-history"
"""The query history's folder among the raw sources, and the `source` of its pages."""

MAX_ROWS = 20_000
"""The maximum number of rows read from a history, one per statement and user, most executed first."""


class Coverage(StrEnum):
    """The meaning of a statement's absence.

    `all`: nobody sent it in the window. `listed`: it is no longer among the listed statements. `part`: its absence
    means nothing.
    """

    ALL = "all"
    LISTED = "listed"
    PART = "part"


@dataclass(frozen=True, slots=True)
class Observation:
    """A statement as sent by one user. Its text contains what the user wrote, so it is never stored or shown.

    `failed`: executions that ended in an error. Times are in milliseconds, None if unknown.
    """

    text: str
    executions: int
    user: str | None = None
    failed: int = 0
    rows: int | None = None
    mean_ms: float | None = None
    slow_ms: float | None = None
    last_seen: datetime | None = None


@dataclass(frozen=True, slots=True)
class History:
    """The result of reading a query history. `origin`: a short name for its location. `unread`: rows without text."""

    observations: tuple[Observation, ...]
    origin: str
    coverage: Coverage = Coverage.ALL
    unread: int = 0
    warnings: tuple[ResultWarning, ...] = ()

    def __iter__(self) -> Iterator[Observation]:
        return iter(self.observations)


class HistoryUnavailableError(NotReadyError):
    """Raised if the database has no query history that this user may read; the hint says how to enable it."""


class HistoryExtensionError(HistoryUnavailableError):
    """Raised if the database component for the history is not installed or not loaded."""


class HistoryGrantError(HistoryUnavailableError):
    """Raised if the user may not see other users' statements."""


class HistoryVersionError(HistoryUnavailableError):
    """Raised if the server or its extension is too old."""


def unavailable(
    kind: type[HistoryUnavailableError], connection: str, message: str, *, hint: str
) -> HistoryUnavailableError:
    """Return the error for a connection's history; `message` continues "the query history of `id`"."""
    details = {"connection": connection}
    return kind(f"cannot read the query history of connection `{connection}`: {message}", hint=hint, details=details)


def cut_warning(rows: int) -> ResultWarning:
    """Return the warning for a history with more rows than ktx reads."""
    return ResultWarning(
        "query_history_cut",
        f"the query history has more than {rows:,} statements; the least frequent ones were not read",
        hint="raise context.queryHistory.minExecutions, or lower windowDays",
    )


EVERYTHING: Final = "*"


@dataclass(frozen=True, slots=True)
class HistoryScope:
    """The tables to include. `kind`: `tables`, `schemas`, `manifest` or `all`. `names`: lower-case table or schema
    names.
    """

    kind: str
    names: frozenset[str] = frozenset()

    def __contains__(self, table: NamedTable) -> bool:
        match self.kind:
            case "tables":
                return not self.names.isdisjoint(_endings(table))
            case "schemas":
                return len(table.parts) > 1 and table.parts[-2].lower() in self.names
            case "manifest":
                return table.source is not None
            case _:
                return True


def scope_of(settings: QueryHistory, enabled_tables: Iterable[str] | None, tables: Tables) -> HistoryScope:
    """Return a connection's scope. Without scanned or named tables, it includes everything.

    `enabled_tables`: the tables that the connection itself is limited to.
    """
    named = [*settings.enabled_tables] or [*(enabled_tables or ())]
    if named:
        return HistoryScope("tables", frozenset(name.replace('"', "").lower() for name in named))
    if EVERYTHING in settings.enabled_schemas:
        return HistoryScope("all")
    if settings.enabled_schemas:
        return HistoryScope("schemas", frozenset(name.lower() for name in settings.enabled_schemas))
    return HistoryScope("manifest" if tables.known else "all")


def _endings(table: NamedTable) -> set[str]:
    parts = [part.lower() for part in table.parts]
    return {".".join(parts[start:]) for start in range(len(parts))}


HIGH, MID, LOW, UNUSED = "high", "mid", "low", "unused"
TIERS: Final = (HIGH, MID, LOW)
"""Frequencies, highest first."""

_EXECUTIONS: Final = ((10, 100, 1_000, 5_000, 50_001), ("<10", "10-100", "100-1k", "1k-5k", "5k-50k", ">50k"))
EXECUTION_BUCKETS: Final = _EXECUTIONS[1]
"""The buckets of executions, lowest first."""

_USERS: Final = ((1, 2, 6, 11), ("0", "1", "2-5", "6-10", ">10"))
_RUNTIME: Final = ((100.0, 1_000.0, 10_000.0), ("<100ms", "100ms-1s", "1-10s", ">10s"))
_RECENCY: Final = ((8, 46), ("current", "recent", "stale"))


def executions(count: int) -> str:
    """Return the bucket for a number of executions: `<10` to `>50k`."""
    return _bucket(count, _EXECUTIONS)


def executions_rank(count: int) -> int:
    """Return the index of the bucket for a number of executions, or 0 for the lowest."""
    return bisect.bisect_right(_EXECUTIONS[0], count)


def users(count: int) -> str:
    """Return the bucket for a number of users: `0`, `1`, `2-5`, `6-10`, `>10`."""
    return _bucket(count, _USERS)


def runtime(milliseconds: float | None) -> str:
    """Return the bucket for a runtime: `<100ms` to `>10s`, or `unknown`."""
    return "unknown" if milliseconds is None else _bucket(milliseconds, _RUNTIME)


def errors(rate: float) -> str:
    """Return the bucket for a share of failed executions: `none`, `low` (below 0.1) or `high`."""
    return "none" if rate <= 0 else "low" if rate < 0.1 else HIGH


def recency(last_seen: datetime | None, now: datetime) -> str:
    """Return how long ago a statement was last seen: `current` (7 days), `recent` (45), `stale` or `unknown`."""
    return "unknown" if last_seen is None else _bucket((now - last_seen).days, _RECENCY)


def tier(count: int, whole: int) -> str:
    """Return a frequency relative to a total: `high` from one half, `mid` from one tenth, else `low`."""
    return HIGH if 2 * count >= whole else MID if 10 * count >= whole else LOW


def _bucket(value: float, buckets: tuple[Sequence[float], Sequence[str]]) -> str:
    limits, words = buckets
    return words[bisect.bisect_right(limits, value)]
