"""What a reader of query history returns, and the errors of a history that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ktx_cli.core.errors import NotReadyError, ResultWarning

KIND = "query-history"
"""Its folder among the raw sources, and the `source` of the pages it leads to."""

MAX_ROWS = 20_000
"""Rows of a history that are read: a statement of one user each, the most executed first."""


class Coverage(StrEnum):
    """What the absence of a statement means.

    `all`: nobody sent it in the window. `listed`: it is no longer among those that were listed. `part`: nothing.
    """

    ALL = "all"
    LISTED = "listed"
    PART = "part"


@dataclass(frozen=True, slots=True)
class Observation:
    """A statement as one user sent it. Its text holds what the user wrote: it is never stored or shown.

    `failed`: executions that ended in an error. Times are in milliseconds; None: not known.
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
    """What a reader found. `origin`: where, in a few words. `unread`: rows whose text the database did not show."""

    observations: tuple[Observation, ...]
    origin: str
    coverage: Coverage = Coverage.ALL
    unread: int = 0
    warnings: tuple[ResultWarning, ...] = ()

    def __iter__(self) -> Iterator[Observation]:
        return iter(self.observations)


class HistoryUnavailableError(NotReadyError):
    """The database keeps no query history that this user may read; the hint is what makes it readable."""


class HistoryExtensionError(HistoryUnavailableError):
    """The part of the database that keeps the history is not installed or not loaded."""


class HistoryGrantError(HistoryUnavailableError):
    """The user may not see what others asked."""


class HistoryVersionError(HistoryUnavailableError):
    """The server, or its extension, is too old."""


def unavailable(
    kind: type[HistoryUnavailableError], connection: str, message: str, *, hint: str
) -> HistoryUnavailableError:
    """Return the error of a connection's history; `message` continues "the query history of `id`"."""
    return kind(
        f"the query history of connection `{connection}` cannot be read: {message}",
        hint=hint,
        details={"connection": connection},
    )


def cut_warning(rows: int) -> ResultWarning:
    """Return the warning for a history with more rows than are read."""
    return ResultWarning(
        "query_history_cut",
        f"the query history has more than {rows:,} statements; the rarest were not read",
        hint="raise context.queryHistory.minExecutions, or lower windowDays",
    )
