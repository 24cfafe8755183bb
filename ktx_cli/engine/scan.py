"""One connection's part of a run: open it, scan it, report it; a failure costs only itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ktx_cli.core import (
    CancelledError,
    Command,
    Emit,
    KtxError,
    ResultWarning,
    RunStopped,
    StepFinished,
    StepStarted,
    monotonic,
)
from ktx_cli.engine.plan import Depth, Target
from ktx_cli.engine.profile import RowsLook, ValueKeeper, problem_warnings
from ktx_cli.engine.report import FAILED, ConnectionReport, Enrich, Enrichment
from ktx_cli.project import KtxConfig, Layout
from ktx_cli.scan import Base, Failures, Look, PreviousScan, ScanOutcome, Stage, scan_connection
from ktx_cli.semantic import ParsedCopies
from ktx_cli.warehouses import ConnectionTest, access_gap, open_connection

log = logging.getLogger(__name__)


Keep = Callable[[str], ValueKeeper | None]
"""Makes what keeps the values of a connection; None where nothing is stored."""


@dataclass(frozen=True, slots=True)
class ScanContext:
    """What all scans of a run share; `previous`: connection -> what its last scan left."""

    layout: Layout
    config: KtxConfig
    environ: Mapping[str, str]
    base: Base
    previous: Mapping[str, PreviousScan]
    emit: Emit
    depth: Depth
    enrich: Enrich
    keep: Keep
    dry_run: bool = False

    @property
    def project_dir(self) -> Path:
        """The project's folder."""
        return self.layout.root


def scan_target(context: ScanContext, target: Target) -> tuple[ConnectionReport, ScanOutcome | None]:
    """Scan one connection; the outcome is None when it failed, and the report says why."""
    context.emit(StepStarted("scan", target.connection))
    started = monotonic()
    outcome = None
    try:
        enrichment = context.enrich(target.connection)
        outcome = _scan(context, target, enrichment)
        enriched = None if enrichment is None else enrichment.report
        report = ConnectionReport.of(outcome, monotonic() - started, enriched=enriched, dry_run=context.dry_run)
    except (RunStopped, CancelledError):
        raise
    except Exception as problem:  # noqa: BLE001 - whatever is wrong with one connection, the others go on
        error = problem if isinstance(problem, KtxError) else _internal(target, problem)
        report = ConnectionReport(target.connection, target.driver, FAILED, seconds=monotonic() - started, error=error)
    context.emit(StepFinished("scan", report.summary, report.seconds, target.connection))
    return report, outcome


def _internal(target: Target, problem: Exception) -> KtxError:
    log.debug("the scan of %s failed", target.connection, exc_info=problem)
    return KtxError(
        f"connection `{target.connection}`: ktx failed unexpectedly: {type(problem).__name__}",
        code="internal",
        hint=Command("ingest", target.connection, "--debug"),
    )


def _scan(context: ScanContext, target: Target, enrichment: Enrichment | None) -> ScanOutcome:
    connector, scope = open_connection(
        context.config, target.connection, project_dir=context.project_dir, environ=context.environ
    )
    with connector:
        outcome = scan_connection(
            connector,
            scope,
            connection=target.connection,
            driver=target.driver,
            base=context.base,
            previous=context.previous.get(target.connection),
            copies=ParsedCopies(context.layout, target.connection),
            look=_look(context, target, enrichment),
            describe=None if enrichment is None else enrichment.describe,
        )
        if not outcome.tables:
            outcome.warnings += _nothing_to_read(context, target, connector.test(scope))
    failures = Failures()
    with failures.stage(Stage.DIAGNOSTICS):
        outcome.warnings += tuple(problem_warnings(outcome))
    outcome.failures += failures.found()
    return outcome


def _look(context: ScanContext, target: Target, enrichment: Enrichment | None) -> Look | None:
    if context.depth is Depth.STRUCTURAL:
        return None
    return RowsLook(target.connection, context.config.scan, context.emit, enrichment, context.keep(target.connection))


def _nothing_to_read(context: ScanContext, target: Target, test: ConnectionTest) -> tuple[ResultWarning, ...]:
    entry = context.config.databases().get(target.connection)
    gap = None if entry is None else access_gap(target.connection, entry, test)
    if gap is None:
        return ()
    message = f"connection `{target.connection}`: {gap.message}"
    return (ResultWarning("nothing_to_read", message, hint=gap.hint, connection=target.connection),)
