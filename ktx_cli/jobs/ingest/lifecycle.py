"""The lifecycle of a run that writes: run lock, recovery, the rows and files that record how it ended."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING

from ktx_cli.core import Command, KtxError, Notice, ResultWarning, RunStarted, plural
from ktx_cli.engine import PreflightFailed, ProjectBase, Run, write_report
from ktx_cli.project import (
    EDITED_AFTER_KILL,
    SEMANTIC_NAME,
    Held,
    HeldReason,
    Repository,
    RunLock,
    hold_run_lock,
    prepare_private_folder,
    translated,
)
from ktx_cli.runs import finish_run, start_run
from ktx_cli.scan import ends_more, folders, unexpected

if TYPE_CHECKING:
    from ktx_cli.engine import BrokenDefinition, Preflight

log = logging.getLogger(__name__)

Work = Callable[[Repository, RunLock, sqlite3.Connection], None]
"""What a run does while it holds the run lock."""


def under_run_lock(run: Run, repository: Repository | None, preflight: Preflight | None, work: Work) -> None:
    """Do a run's work under the run lock, and leave its report, whatever becomes of it.

    `repository` None: one is made; `preflight` None: the run asks no model. Raises `GitError` where git tracks files of
    `.ktx`, `BusyError` where another run holds the run lock, and what `work` raises.
    """
    plan, layout, report = run.plan, run.plan.layout, run.report
    prepare_private_folder(layout)
    if repository is not None:
        repository.require_hidden()
    with hold_run_lock(
        layout,
        run_id=report.run_id,
        command=plan.command,
        wait_seconds=plan.wait_seconds,
        emit=plan.emit,
        warn=run.plan.warn,
    ) as (lock, database):
        plan.emit(RunStarted(report.run_id, plan.command))
        with translated(layout.state):
            start_run(database, report.run_id, plan.command)
        try:
            work(repository or _created(run), lock, database)
        except BaseException as error:
            report.end(error.error if isinstance(error, PreflightFailed) else error)
            with contextlib.suppress(sqlite3.Error, KtxError):  # the error itself matters more
                _store(preflight)
                finish_run(database, report.run_id, report.status, report.commit)
            write_report(run)
            raise
        _store(preflight)
        with translated(layout.state):
            finish_run(database, report.run_id, report.status, report.commit)
        write_report(run)


def _store(preflight: Preflight | None) -> None:
    if preflight is not None:
        preflight.store()


def recover(run: Run, repository: Repository) -> None:
    """Finish what a killed run left, before anything is read."""
    recovery = repository.recover()
    run.report.recovered = recovery.finished
    run.report.held = tuple((path, EDITED_AFTER_KILL) for path in recovery.left)
    if recovery.finished:
        count = plural(len(recovery.finished), "file")
        run.plan.emit(Notice(f"finished what a killed run left: {count} brought to the last commit"))


def refresh_search(run: Run) -> None:
    """Bring the search index up to date; what is wrong with it is a warning, for the commit stands.

    A run that changed nothing makes no index where there is none: that is for `ktx index`, after a fresh clone.
    """
    if run.report.commit is None and not run.plan.layout.search_index.exists():
        return
    from ktx_cli.jobs.index import refresh_index

    try:
        problem = refresh_index(run.plan.layout, run.plan.config, run.plan.environ, emit=run.plan.emit).error
    except KtxError as error:
        problem = error
    except Exception as error:
        if ends_more(error):
            raise
        log.debug("the search index could not be updated", exc_info=error)
        problem = KtxError(f"the search index: {unexpected(type(error).__name__)}", hint=Command("index", "--debug"))
    if problem is not None:
        run.plan.warn(ResultWarning("not_indexed", problem.message, hint=problem.hint))


def _created(run: Run) -> Repository:
    repository = Repository.create(run.plan.layout.root)
    run.report.created_repository = True
    run.plan.emit(Notice(f"created a git repository in {run.plan.layout.root}"))
    return repository


def report_absent(run: Run, repository: Repository, base: ProjectBase) -> None:
    """Name the committed files that nothing changes and that are not there to be read; a sparse checkout is meant."""
    absent: list[Held] = []
    for outcome in run.outcomes:
        known = (path for folder in folders(outcome.connection) for path in base.paths(f"{folder}/"))
        absent += repository.absent(path for path in known if path not in outcome.files)
    if absent and repository.head().commit != base.commit:  # the user went to another branch meanwhile
        return
    named = ((held.path, held.reason.value) for held in absent if held.reason is not HeldReason.SKIP_WORKTREE)
    run.report.held = tuple(dict.fromkeys((*run.report.held, *named)))


def report_broken(run: Run, base: ProjectBase, *, dry_run: bool = False) -> None:
    """Put what the run broke into its report, and warn of what does not compile for longer.

    Of a database whose definitions did not change nothing is read. That a check cannot be made is a warning.
    """
    from ktx_cli.engine import broken_now, keep_broken

    try:
        fresh = _broken_by(run, base)
        now = (
            broken_now(run.plan.layout, run.plan.config)
            if dry_run
            else keep_broken(run.plan.layout, run.plan.config, lambda: run.plan.layers)
        )
    except Exception as error:
        if ends_more(error) and not isinstance(error, KtxError):
            raise
        log.debug("the definitions could not be checked", exc_info=error)
        why = error.message if isinstance(error, KtxError) else unexpected(type(error).__name__)
        hint = error.hint if isinstance(error, KtxError) else Command("sl", "validate", "--no-data", "--debug")
        run.plan.warn(ResultWarning("definitions_not_checked", f"the definitions were not checked: {why}", hint=hint))
        return
    known = {each.identity for each in fresh}
    if dry_run:
        _warn(run, fresh, "no longer compile")
    else:
        run.report.broken = fresh
    _warn(run, tuple(each for each in now if each.identity not in known), "do not compile")


def _broken_by(run: Run, base: ProjectBase) -> tuple[BrokenDefinition, ...]:
    changed = run.workspace.changes()
    folder_of = {each: f"{SEMANTIC_NAME}/{each}/" for each in run.plan.config.databases()}
    touched = [each for each, folder in folder_of.items() if any(path.startswith(folder) for path in changed)]
    if not touched:
        return ()
    from ktx_cli.engine import newly_broken

    layers = run.plan.layers
    return tuple(broken for each in touched for broken in newly_broken(layers, base, run.workspace, each))


def _warn(run: Run, broken: tuple[BrokenDefinition, ...], verb: str) -> None:
    if broken:
        from ktx_cli.engine import broken_sentence, way_out

        definitions = [each.to_json() for each in broken]
        message, hint = broken_sentence(broken, verb), way_out(broken)
        run.plan.warn(ResultWarning("broken_definitions", message, hint=hint, definitions=definitions))
