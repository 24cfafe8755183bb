"""The databases of a run: each is opened and scanned, and one that fails costs only itself."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ktx_cli.core import (
    CancelledError,
    Command,
    KtxError,
    RunStopped,
    StepFinished,
    StepProgress,
    StepStarted,
    monotonic,
)
from ktx_cli.engine import FAILED, ConnectionReport, ProjectBase, RunPlan, Target
from ktx_cli.scan import Depth, PreviousScan, ProfileStore, ScanJob, ScanOutcome, scan_connection
from ktx_cli.semantic import ParsedCopies
from ktx_cli.warehouses import open_connection

if TYPE_CHECKING:
    from ktx_cli.engine import Models
    from ktx_cli.scan import Answers, Describer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ScanState:
    """What scans take from earlier runs, and where they keep what the next ones take."""

    previous: Mapping[str, PreviousScan] = field(default_factory=dict)
    """Connection -> what its last scan left."""
    database: sqlite3.Connection | None = None
    """The open state database; None in a dry run, which keeps nothing."""
    models: Models | None = None
    answers: Answers = field(default_factory=dict)
    """The answers of models to earlier runs, for a dry run."""


def scan_databases(
    plan: RunPlan, base: ProjectBase, state: ScanState
) -> Iterator[tuple[ConnectionReport, ScanOutcome | None]]:
    """Scan the databases of a run, one after the other; the outcome of one that failed is None."""
    databases = plan.config.databases()
    targets = [target for target in plan.targets if target.connection in databases]
    for done, target in enumerate(targets, start=1):
        scanned = _scan(plan, target, base, state)
        plan.emit(StepProgress("scan", done, len(targets)))
        yield scanned


def _scan(
    plan: RunPlan, target: Target, base: ProjectBase, state: ScanState
) -> tuple[ConnectionReport, ScanOutcome | None]:
    plan.emit(StepStarted("scan", target.connection))
    started = monotonic()
    outcome = None
    try:
        connector, scope = open_connection(
            plan.config, target.connection, project_dir=plan.layout.root, environ=plan.environ
        )
        with connector:
            outcome = scan_connection(connector, scope, _job(plan, target, base, state))
        report = ConnectionReport.of(outcome, monotonic() - started, dry_run=plan.dry_run)
    except (RunStopped, CancelledError):
        raise
    except Exception as problem:  # noqa: BLE001 - whatever is wrong with one connection, the others go on
        error = problem if isinstance(problem, KtxError) else _internal(target, problem)
        report = ConnectionReport(target.connection, target.driver, FAILED, seconds=monotonic() - started, error=error)
    plan.emit(StepFinished("scan", report.summary, report.seconds, target.connection))
    return report, outcome


def _job(plan: RunPlan, target: Target, base: ProjectBase, state: ScanState) -> ScanJob:
    settings, store = plan.config.scan, None
    if state.database is not None and plan.depth is not Depth.STRUCTURAL:
        store = ProfileStore(state.database, plan.layout.state, target.connection, settings.privacy)
    return ScanJob(
        target.connection,
        target.driver,
        base,
        ParsedCopies(plan.layout, target.connection),
        previous=state.previous.get(target.connection),
        depth=plan.depth,
        settings=settings,
        entry=plan.config.databases().get(target.connection),
        describer=_describer(plan, target, state),
        store=store,
        emit=plan.emit,
    )


def _describer(plan: RunPlan, target: Target, state: ScanState) -> Describer | None:
    if plan.prompts is None and plan.depth is not Depth.ENRICHED:
        return None
    from ktx_cli.project import StateEnrichmentStore
    from ktx_cli.scan import Estimator, ModelDescriber, RuleDescriber

    if plan.prompts is None:
        return RuleDescriber()
    if state.database is None or state.models is None:
        return Estimator(plan.layout, plan.config, plan.prompts, state.answers)
    store = StateEnrichmentStore(plan.layout, state.database)
    return ModelDescriber(target.connection, plan.config, plan.prompts, store, state.models, plan.emit)


def _internal(target: Target, problem: Exception) -> KtxError:
    log.debug("the scan of %s failed", target.connection, exc_info=problem)
    message = f"connection `{target.connection}`: ktx failed unexpectedly: {type(problem).__name__}"
    return KtxError(message, code="internal", hint=Command("ingest", target.connection, "--debug"))
