"""Stages of a scan that failed: each costs what it touches, the report names it, and the rest is committed."""

from __future__ import annotations

import errno
import logging
from dataclasses import dataclass, field
from enum import StrEnum

from ktx_cli.core import Command, Hint, KtxError, ResultWarning, RunStopped, SourceError
from ktx_cli.warehouses import TableRef

log = logging.getLogger(__name__)

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EPIPE})


class Stage(StrEnum):
    """The stages of a scan that may fail without the others, as reports name them."""

    REUSE = "comparing with the last profile"
    PROFILE = "profiling"
    PROPOSALS = "join proposals"
    HINTS = "join hints"
    RELATIONSHIPS = "join discovery"
    COMPOSITES = "multi-column joins"
    POLYMORPHIC = "polymorphic joins"
    KEYS = "key detection"
    VALUES = "value lists"
    STORE = "storing profiles"
    DIAGNOSTICS = "diagnostics"
    DESCRIPTIONS = "descriptions"
    REMEMBER = "remembering the scan"


@dataclass(frozen=True, slots=True)
class StageFailure:
    """One stage that failed. `table` None: for all tables. `error`: the type of the error; its text may hold values."""

    stage: Stage
    error: str
    table: TableRef | None = None

    def __str__(self) -> str:
        return str(self.stage) if self.table is None else f"{self.stage} of {self.table}"

    def to_json(self) -> dict[str, str | None]:
        """Return the failure's entry in the report."""
        table = None if self.table is None else str(self.table)
        return {"stage": self.stage.name.lower(), "table": table, "error": self.error}

    def warning(self, connection: str) -> ResultWarning:
        """Return what the report says of it."""
        return ResultWarning(
            "stage_failed",
            f"connection `{connection}`: {self} failed unexpectedly ({self.error}); its earlier results are kept",
            hint=Hint("{} shows where; please report it", Command("scan", connection, "--debug")),
            connection=connection,
            **self.to_json(),
        )


@dataclass(slots=True)
class Failures:
    """Collects what failed; safe to use from several threads. `strict`: nothing is caught, for tests and benchmarks."""

    strict: bool = False
    noted: list[StageFailure] = field(default_factory=list)

    def stage(self, stage: Stage, table: TableRef | None = None) -> _Guard:
        """Return a context that catches and notes what fails inside, except for what ends more than this stage."""
        return _Guard(self, stage, table)

    def found(self) -> tuple[StageFailure, ...]:
        """Return each failure once, in the order of the stages and tables."""
        stages = list(Stage)
        return tuple(
            sorted(set(self.noted), key=lambda each: (stages.index(each.stage), str(each.table or ""), each.error))
        )


@dataclass(frozen=True, slots=True)
class _Guard:
    failures: Failures
    stage: Stage
    table: TableRef | None

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception) or self.failures.strict or ends_more(error):
            return False
        log.debug("%s failed%s", self.stage, "" if self.table is None else f" for {self.table}", exc_info=error)
        self.failures.noted.append(StageFailure(self.stage, type(error).__name__, self.table))
        return True


def unexpected(error: str) -> str:
    """Return what a report says of an error of ktx itself, by its type; its text may hold values of rows."""
    return f"ktx failed unexpectedly ({error})"


def ends_more(error: Exception) -> bool:
    """Whether an error is of more than the part it occurred in.

    So is every typed error (a cancelled run, a lost lock, a full disk, a budget, a source that is gone), except that a
    database refused a single statement.
    """
    if isinstance(error, SourceError):
        return error.code == "connection"
    return isinstance(error, KtxError | RunStopped) or (isinstance(error, OSError) and error.errno in _NO_ROOM)
