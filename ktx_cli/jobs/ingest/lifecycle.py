"""What every run that writes does around its own work: lease, recovery, the rows and files that say how it ended."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Callable

from ktx_cli.core import Command, KtxError, Notice, ResultWarning, RunStarted, plural
from ktx_cli.engine import (
    BrokenDefinition,
    Preflight,
    PreflightFailed,
    ProjectBase,
    Run,
    broken_now,
    folder,
    keep_broken,
    newly_broken,
    said,
    way_out,
    write_report,
)
from ktx_cli.engine import base as ledger
from ktx_cli.jobs.index import refresh_index
from ktx_cli.project import EDITED_AFTER_KILL, Lease, Repository, hold_lease, prepare_private_folder, translated
from ktx_cli.scan import ends_more, unexpected

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
        problem = KtxError(f"the search index: {unexpected(type(error).__name__)}", hint=Command("index", "--debug"))
    if problem is not None:
        run.warnings.append(ResultWarning("not_indexed", problem.message, hint=problem.hint))


def _created(run: Run) -> Repository:
    repository = Repository.create(run.layout.root)
    run.report.created_repository = True
    run.request.emit(Notice(f"created a git repository in {run.layout.root}"))
    return repository


def report_broken(run: Run, base: ProjectBase, *, dry_run: bool = False) -> None:
    """Put what the run broke into its report, and warn of what does not compile for longer.

    Of a database whose definitions did not change nothing is read. That a check cannot be made is a warning.
    """
    try:
        fresh = _broken_by(run, base)
        now = broken_now(run.layout, run.config) if dry_run else keep_broken(run.layout, run.config, run.layers)
    except Exception as error:
        if ends_more(error) and not isinstance(error, KtxError):
            raise
        log.debug("the definitions could not be checked", exc_info=error)
        why = error.message if isinstance(error, KtxError) else unexpected(type(error).__name__)
        hint = error.hint if isinstance(error, KtxError) else Command("sl", "validate", "--no-data", "--debug")
        run.warn(ResultWarning("definitions_not_checked", f"the definitions were not checked: {why}", hint=hint))
        return
    known = {each.identity for each in fresh}
    if dry_run:
        _warn(run, fresh, "no longer compile")
    else:
        run.report.broken = fresh
    _warn(run, tuple(each for each in now if each.identity not in known), "do not compile")


def _broken_by(run: Run, base: ProjectBase) -> tuple[BrokenDefinition, ...]:
    layers, changed = run.layers, run.workspace.changes()
    touched = [each for each in layers.dialects if any(path.startswith(folder(each)) for path in changed)]
    return tuple(found for each in touched for found in newly_broken(layers, base, run.workspace, each))


def _warn(run: Run, broken: tuple[BrokenDefinition, ...], verb: str) -> None:
    if broken:
        definitions = [each.to_json() for each in broken]
        message, hint = said(broken, verb), way_out(broken)
        run.warn(ResultWarning("broken_definitions", message, hint=hint, definitions=definitions))
