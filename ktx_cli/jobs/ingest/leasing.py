"""What every run that writes does around its own work: lease, recovery, the rows and files that say how it ended."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Callable

from ktx_cli.context.scan.failures import ends_more, unexpected
from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.core.events import Notice, RunStarted
from ktx_cli.core.text import plural
from ktx_cli.jobs.ingest import ledger
from ktx_cli.jobs.ingest.preflight import Preflight, PreflightFailed
from ktx_cli.jobs.ingest.publishing import write_report
from ktx_cli.jobs.ingest.running import Run
from ktx_cli.jobs.search import refresh_index
from ktx_cli.project.leases import Lease, hold_lease
from ktx_cli.project.repository import EDITED_AFTER_KILL, Repository
from ktx_cli.project.state import prepare_private_folder, translated

log = logging.getLogger(__name__)

Work = Callable[[Repository, Lease, sqlite3.Connection], None]
"""What a run does while it holds the lease."""


def under_lease(run: Run, repository: Repository | None, preflight: Preflight, work: Work) -> None:
    """Do a run's work under the lease, and leave its report, whatever becomes of it.

    `repository` None: one is made. Raises `GitError` where git tracks files of `.ktx`, `BusyError` where another run
    holds the lease, and what `work` raises.
    """
    request, layout, report = run.request, run.layout, run.report
    prepare_private_folder(layout)
    if repository is not None:
        repository.require_hidden()
    with hold_lease(
        layout,
        run_id=report.run_id,
        command=request.command,
        wait_seconds=request.wait_seconds,
        emit=request.emit,
        warn=run.warnings.append,
    ) as (lease, database):
        request.emit(RunStarted(report.run_id, request.command))
        with translated(layout.state):
            ledger.start_run(database, report.run_id, request.command)
        try:
            work(repository or _created(run), lease, database)
        except BaseException as error:
            report.end(error.error if isinstance(error, PreflightFailed) else error)
            with contextlib.suppress(sqlite3.Error, KtxError):  # the error itself matters more
                preflight.store()
                ledger.finish_run(database, report.run_id, report.status, report.commit)
            write_report(run)
            raise
        preflight.store()
        with translated(layout.state):
            ledger.finish_run(database, report.run_id, report.status, report.commit)
        write_report(run)


def recover(run: Run, repository: Repository) -> None:
    """Finish what a killed run left, before anything is read."""
    recovery = repository.recover()
    run.report.recovered = recovery.finished
    run.report.held = tuple((path, EDITED_AFTER_KILL) for path in recovery.left)
    if recovery.finished:
        count = plural(len(recovery.finished), "file")
        run.request.emit(Notice(f"finished what a killed run left: {count} brought to the last commit"))


def refresh_search(run: Run) -> None:
    """Bring the search index up to date; what is wrong with it is a warning, for the commit stands.

    A run that changed nothing makes no index where there is none: that is for `ktx index`, after a fresh clone.
    """
    if run.report.commit is None and not run.layout.search_index.exists():
        return
    try:
        problem = refresh_index(run.layout, run.config, run.request.environ, emit=run.request.emit).error
    except KtxError as error:
        problem = error
    except Exception as error:
        if ends_more(error):
            raise
        log.debug("the search index could not be updated", exc_info=error)
        problem = KtxError(f"the search index: {unexpected(type(error).__name__)}", hint="ktx index --debug")
    if problem is not None:
        run.warnings.append(ResultWarning("not_indexed", problem.message, hint=problem.hint))


def _created(run: Run) -> Repository:
    repository = Repository.create(run.layout.root)
    run.report.created_repository = True
    run.request.emit(Notice(f"created a git repository in {run.layout.root}"))
    return repository
