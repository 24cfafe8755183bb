"""A run's changes become one commit: judged for one state of the index, planned anew when the branch moves."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from ktx_cli.core.errors import BusyError, GitError
from ktx_cli.project.git import Git
from ktx_cli.project.repository.config import GitConfig, read_config
from ktx_cli.project.repository.conversion import Conversion
from ktx_cli.project.repository.discovery import check_writable, read_head
from ktx_cli.project.repository.identity import identity_variables
from ktx_cli.project.repository.judging import Judge
from ktx_cli.project.repository.lock import IndexLock
from ktx_cli.project.repository.model import CommitResult, Head, RepositoryLayout
from ktx_cli.project.repository.paths import full_paths
from ktx_cli.project.repository.planning import Planner
from ktx_cli.project.repository.publishing import Attempt, Missed, Request, Run
from ktx_cli.project.repository.trees import TreeView
from ktx_cli.project.repository.working_files import STAGING_PREFIX, Signature, names_in, naming

ATTEMPTS = 5
"""How often a run merges with a branch that moves under it before it gives up."""


def commit_changes(git: Git, layout: RepositoryLayout, lock: IndexLock, request: Request) -> CommitResult:
    """Commit, or find that there is nothing to commit. For who announced itself and recovered before."""
    config = read_config(git)
    run = Run(
        git=git,
        layout=layout,
        lock=lock,
        request=request,
        identity=identity_variables(request.author, config, git.environ),
        conversion=Conversion(git, config, layout.object_format, full_paths(layout.prefix, request.changes)),
        staging=layout.private / f"{STAGING_PREFIX}{lock.token}",
    )
    fresh = not layout.private.exists()
    try:
        return _attempts(run, config)
    except BaseException:
        if fresh:
            _remove_private(layout)
        raise
    finally:
        with naming(run.staging, "remove"):
            if run.staging.is_dir():
                shutil.rmtree(run.staging)


def _attempts(run: Run, config: GitConfig) -> CommitResult:
    """Try until neither index nor branch change meanwhile; after the first change of the index, it is kept locked."""
    head: Head | None = None
    judged: _Judged | None = None
    for _ in range(ATTEMPTS):
        if judged is None:
            judged, head = _judged(run, config, head)
        assert head is not None
        plan = judged.planner.plan(TreeView(run.git, run.layout.prefix, head.commit))
        if not plan.changes:
            return CommitResult(None, held=tuple(plan.held))
        outcome = Attempt(run, plan, judged.judge.conditions, head, judged.index).run()
        if isinstance(outcome, CommitResult):
            return outcome
        if outcome is Missed.INDEX:
            judged = None
        else:
            head = _moved(run, head)
    raise BusyError(
        f"{head.ref if head else 'HEAD'} of {run.layout.top_level} moved {ATTEMPTS} times while ktx was committing",
        hint="run the same command again when nothing else commits",
    )


@dataclass(frozen=True, slots=True)
class _Judged:
    """What was judged, and the state of the index it was judged by."""

    judge: Judge
    planner: Planner
    index: Signature | None


def _judged(run: Run, config: GitConfig, before: Head | None) -> tuple[_Judged, Head]:
    """Judge all paths: the state of the index first, then HEAD, so that a change of either is seen later."""
    git, layout, request = run.git, run.layout, run.request
    index = run.lock.index_state()
    head = read_head(git, layout) if before is None else _moved(run, before)
    check_writable(layout, head.ref)
    tip = TreeView(git, layout.prefix, head.commit)
    base = tip if request.base == head.commit else TreeView(git, layout.prefix, request.base)
    judge = Judge(git, layout, config, run.conversion, tip, request.changes)
    planner = Planner(request.changes, base, layout.prefix, run.conversion, judge, request.merge, request.adjust)
    return _Judged(judge, planner, index), head


def _moved(run: Run, head: Head) -> Head:
    """Return where the branch is now; `GitError` when HEAD is on another one."""
    now = read_head(run.git, run.layout)
    check_writable(run.layout, now.ref)
    if now.ref != head.ref:
        raise GitError(
            f"{run.layout.top_level} went from {head.ref} to {now.ref} while ktx was committing",
            hint="run the same command again",
        )
    return now


def _remove_private(layout: RepositoryLayout) -> None:
    """Remove a `.ktx` that a failed run made, unless the journal is in it."""
    with naming(layout.private, "remove"):
        if layout.private.is_dir() and layout.journal.name not in names_in(layout.private):
            shutil.rmtree(layout.private)
