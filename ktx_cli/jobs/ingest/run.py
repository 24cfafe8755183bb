"""`ktx ingest` and `ktx scan`: plan, scan databases, read sources, let agents work, publish one commit, report."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

from ktx_cli.core import ResultWarning, RunFinished, monotonic
from ktx_cli.engine import IngestReport, PreflightFailed, ProjectBase, Run, begin_workspace, commit, remember
from ktx_cli.jobs.ingest.databases import ScanState, scan_databases
from ktx_cli.jobs.ingest.lifecycle import recover, refresh_search, report_absent, report_broken, under_run_lock
from ktx_cli.jobs.ingest.plan import IngestRequest, new_report, plan_run
from ktx_cli.project import RAW_NAME, SEMANTIC_NAME, Layout, Repository, RunLock, translated
from ktx_cli.scan import previous_scans

if TYPE_CHECKING:
    from ktx_cli.engine import Models, Preflight

__all__ = ["IngestRequest", "ingest"]


def ingest(request: IngestRequest) -> tuple[IngestReport, list[ResultWarning]]:
    """Scan the connections and commit what changed, once.

    A connection that fails does not stop the others; the report says so. Raises `KtxError` when nothing could be
    begun: broken configuration, a configured backend that cannot run, a busy run lock, an unusable repository.
    """
    plan = plan_run(request)
    run, started = Run(plan, new_report(plan)), monotonic()
    preflight = _preflight(run)
    try:
        if plan.dry_run:
            from ktx_cli.jobs.ingest.dry_run import estimate_run

            estimate_run(run)
        else:
            repository = _writable_repository(plan.layout)
            if preflight is not None and (plan.awaited or not _has_context(plan.layout)):
                preflight.require()  # somebody waits for its answer, or there is nothing this run could leave as it is
            under_run_lock(run, repository, preflight, lambda *held: _work(run, preflight, *held))
    except PreflightFailed as failed:
        raise failed.error from None
    finally:
        run.report.seconds = monotonic() - started
        plan.emit(RunFinished(plan.run_id, run.report.status, run.report.seconds))
        plan.recorder.close()
    return run.report, plan.recorder.warnings


def _preflight(run: Run) -> Preflight | None:
    """Return what asks whether the models answer, with its settings checked; None for a run that asks no model."""
    plan = run.plan
    needed = plan.prompts is not None or not (plan.no_llm or plan.databases_only)
    if not needed and not (plan.asks_model and plan.reads_sources):
        return None
    from ktx_cli.engine import Preflight

    preflight = Preflight(run, needed=needed)
    preflight.check_settings()
    return preflight


def _work(
    run: Run, preflight: Preflight | None, repository: Repository, lock: RunLock, database: sqlite3.Connection
) -> None:
    recover(run, repository)
    head = repository.head()
    run.report.branch = head.ref
    base = ProjectBase(run.plan.layout, repository, head.commit)
    with translated(run.plan.layout.state):
        previous = previous_scans(database, [target.connection for target in run.plan.targets])
    with contextlib.ExitStack() as stack:
        models = None if preflight is None else stack.enter_context(_models(run, database, preflight))
        scan_databases(run, base, ScanState(previous, database, models))
        begin_workspace(run, base)
        if run.plan.reads_sources:
            from ktx_cli.jobs.ingest.sources import work_through_sources

            work_through_sources(run, base, models, database)
    report_absent(run, repository, base)
    if preflight is not None and run.workspace.changes():
        preflight.require()
    commit(run, repository, head.commit, lock)
    committed = base if run.report.commit is None else ProjectBase(run.plan.layout, repository, run.report.commit)
    remember(run, committed, database)
    report_broken(run, base)
    refresh_search(run)


def _models(run: Run, database: sqlite3.Connection, preflight: Preflight) -> Models:
    from ktx_cli.engine import Models

    return Models(run, database, preflight)


def _writable_repository(layout: Layout) -> Repository | None:
    repository = Repository.discover(layout.root)
    if repository is not None:
        repository.check_writable()
    return repository


def _has_context(layout: Layout) -> bool:
    """Say whether an earlier run left anything."""
    return any((layout.root / folder).is_dir() for folder in (SEMANTIC_NAME, RAW_NAME))
