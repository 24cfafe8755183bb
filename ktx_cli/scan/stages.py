"""The depth of a scan, and its stages. If a stage fails, the results of the other stages are still committed."""

from __future__ import annotations

import errno
import logging
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktx_cli.core import (
    Command,
    Emit,
    Hint,
    KtxError,
    ResultWarning,
    RunStopped,
    SourceError,
    StepFinished,
    StepProgress,
    StepStarted,
    UsageError,
    monotonic,
)
from ktx_cli.project import KtxConfig
from ktx_cli.warehouses import TableRef

if TYPE_CHECKING:
    from ktx_cli.prompts import Prompt


log = logging.getLogger(__name__)

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EPIPE})


class Stage(StrEnum):
    """The stages of a scan, each of which may fail independently, with the names shown in reports."""

    REUSE = "comparing with the last profile"
    PROFILE = "profiling"
    PROPOSALS = "join proposals"
    HINTS = "join hints"
    RELATIONSHIPS = "join discovery"
    COMPOSITES = "multi-column joins"
    POLYMORPHIC = "polymorphic joins"
    KEYS = "key detection"
    EXPLANATIONS = "explanations of joins"
    TYPES = "types of stored values"
    VALUES = "value lists"
    STORE = "storing profiles"
    DIAGNOSTICS = "diagnostics"
    DESCRIPTIONS = "descriptions"
    MEASURES = "proposed measures"
    DECISIONS = "decision points"
    REMEMBER = "storing results for the next scan"


def connection_warning(
    code: str, connection: str, message: str, hint: str | None = None, **details: Any
) -> ResultWarning:
    """Return a warning about one connection, whose name begins the message."""
    text = f"connection `{connection}`: {message}"
    return ResultWarning(code, text, hint=hint, connection=connection, **details)


@dataclass(frozen=True, slots=True)
class StageFailure:
    """A stage that failed. `table` is None for all tables. `error`: the type of error; its text may contain values."""

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
        """Return the failure as a warning in the report."""
        message = f"{self} failed unexpectedly ({self.error}); the results of the last scan are kept"
        hint = Hint(
            "rerun with `{}` to see the traceback, and please report the bug", Command("scan", connection, "--debug")
        )
        return connection_warning("stage_failed", connection, message, hint, **self.to_json())


@dataclass(slots=True)
class Failures:
    """Collects failed stages from any thread. `strict`: catch no errors, for tests and benchmarks."""

    strict: bool = False
    noted: list[StageFailure] = field(default_factory=list)

    def stage(self, stage: Stage, table: TableRef | None = None) -> _StageContext:
        """Return a context that catches and records errors, except those that end more than this stage."""
        return _StageContext(self, stage, table)

    def found(self) -> tuple[StageFailure, ...]:
        """Return each failure once, ordered by stage and table."""
        stages = list(Stage)
        return tuple(
            sorted(set(self.noted), key=lambda each: (stages.index(each.stage), str(each.table or ""), each.error))
        )


STRICT = Failures(strict=True)
"""Does not catch anything."""


@dataclass(frozen=True, slots=True)
class _StageContext:
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


class ScanStep:
    """Emits the progress events for one step of a scan. A step that fails emits no end event."""

    def __init__(self, name: str, connection: str, emit: Emit) -> None:
        self._name, self._connection, self._emit = name, connection, emit
        self._started = monotonic()
        self.summary = ""

    def progress(self, done: int, total: int) -> None:
        """Emit the step's progress."""
        self._emit(StepProgress(self._name, done, total, self._connection))

    def __enter__(self) -> ScanStep:
        self._emit(StepStarted(self._name, self._connection))
        return self

    def __exit__(self, *exc: object) -> None:
        if exc[0] is None:
            seconds = monotonic() - self._started
            self._emit(StepFinished(self._name, self.summary, seconds, self._connection))


def unexpected(error: str) -> str:
    """Return the message for an internal error: only its type, because its text may contain row values."""
    return f"ktx failed unexpectedly ({error})"


def ends_more(error: Exception) -> bool:
    """Return whether an error ends more than the affected part of the scan.

    Every typed error does (a cancelled run, a lost lock, a full disk, a budget, an unreachable database), except for a
    single statement that a database refused.
    """
    if isinstance(error, SourceError):
        return error.code == "connection"
    return isinstance(error, KtxError | RunStopped) or (isinstance(error, OSError) and error.errno in _NO_ROOM)


class Depth(StrEnum):
    """The depth of a scan."""

    STRUCTURAL = "structural"
    PROFILE = "profile"
    ENRICHED = "enriched"


def choose_depth(config: KtxConfig, wanted: Depth | None, *, no_llm: bool) -> Depth:
    """Return a run's depth: the requested one, else `enriched` if `scan.enrichment.mode` and the backend allow it.

    Raises `UsageError` for a depth that the configuration does not support, `LlmError` (`no_backend`) for one that
    needs a model if none is configured.
    """
    from ktx_cli.llm import bindings, no_backend

    mode = config.scan.enrichment.mode
    has_model = mode == "llm" and bool(bindings(config)) and not no_llm
    if wanted is None:
        return Depth.ENRICHED if mode == "deterministic" or has_model else Depth.PROFILE
    if wanted is Depth.ENRICHED and mode == "none":
        message = "`--depth enriched` cannot write descriptions because `scan.enrichment.mode` is `none`"
        raise UsageError(message, hint=Command("config", "set", "scan.enrichment.mode", "deterministic"))
    if wanted is Depth.ENRICHED and mode == "llm" and not has_model:
        if no_llm:
            raise UsageError(
                "`--depth enriched` needs a model, but --no-llm forbids model calls",
                hint="use only one of the two options",
            )
        raise no_backend()
    return wanted


def needs_model(config: KtxConfig, depth: Depth, *, no_llm: bool) -> bool:
    """Return whether a scan at this depth calls the model."""
    return depth is Depth.ENRICHED and config.scan.enrichment.mode == "llm" and not no_llm


def not_enriched(config: KtxConfig) -> ResultWarning | None:
    """Return a warning if a model should write descriptions and none is configured."""
    from ktx_cli.llm import bindings

    if config.scan.enrichment.mode != "llm" or bindings(config):
        return None
    return ResultWarning(
        "not_enriched",
        "no descriptions are written: `scan.enrichment.mode` is `llm`, but no LLM backend is configured",
        hint=Hint(
            "{}; to describe by rules instead, run {}",
            Command("setup", "--llm-backend", "claude-code"),
            Command("config", "set", "scan.enrichment.mode", "deterministic"),
        ),
    )


@dataclass(frozen=True, slots=True)
class ScanPrompts:
    """The prompts for a scan."""

    describe: Prompt
    propose: Prompt

    @classmethod
    def load(cls, folder: Path) -> ScanPrompts:
        """Return the prompts, replaced by the project's own if they are in `folder`. Raises `ConfigError` for an
        invalid one.
        """
        from ktx_cli.prompts import load_prompt

        return cls(load_prompt("describe_tables", folder), load_prompt("propose_joins", folder))
