"""The dry run: the same steps without a run lock, a commit or a file of the project, and an estimate of the rest."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ktx_cli.core import KtxError, ResultWarning
from ktx_cli.engine import Forecast, ProjectBase, Run, begin_workspace, load_fetches, report_files, write_manifests
from ktx_cli.jobs.ingest.databases import ScanState, scan_databases
from ktx_cli.jobs.ingest.lifecycle import report_absent, report_broken
from ktx_cli.jobs.ingest.sources import conclude_all, read_all
from ktx_cli.project import Repository, read_state
from ktx_cli.runs import unit_average
from ktx_cli.scan import kept_answers, previous_scans

if TYPE_CHECKING:
    from ktx_cli.engine import FetchStates


def estimate_run(run: Run) -> None:
    """Report what a run would change, and what its models would be asked."""
    repository = Repository.discover(run.plan.layout.root)
    base = ProjectBase(run.plan.layout, repository, None if repository is None else repository.head().commit)
    state, fetches = _earlier_runs(run)
    scan_databases(run, base, state)
    begin_workspace(run, base)
    with tempfile.TemporaryDirectory(prefix="ktx-dry-run-") as folder:
        read_all(run, base, fetches, scratch=Path(folder))
        conclude_all(run)
    for work in run.works:
        work.planned = True
    write_manifests(run.works, run.workspace)
    report_files(run, run.workspace.changes())
    report_broken(run, base, dry_run=True)
    run.report.forecast = _forecast(run)
    if repository is not None:
        report_absent(run, repository, base)
    for outcome in run.outcomes:
        run.plan.recorder.warn_of(outcome.removals(frozenset(), {}))


def _earlier_runs(run: Run) -> tuple[ScanState, FetchStates]:
    """Return what earlier runs left; a state database that cannot be read is a warning and counts as none."""
    ids = [target.connection for target in run.plan.targets]

    def read(database: sqlite3.Connection) -> tuple[ScanState, FetchStates]:
        state = ScanState(previous_scans(database, ids), answers=kept_answers(database))
        return state, load_fetches(database)

    try:
        earlier = read_state(run.plan.layout, read)
    except KtxError as error:
        run.plan.warn(ResultWarning("state_unreadable", error.message, hint=error.hint))
        earlier = None
    return earlier or (ScanState(), {})


def _forecast(run: Run) -> Forecast | None:
    """Return what agents would have to do; None where no model would be asked."""
    units = sum(len(work.units) for work in run.works if work.error is None)
    if not run.plan.asks_model or not units:
        return None
    return Forecast(units, run.plan.config.ingest.work_units.step_budget, unit_average(run.plan.layout))
