"""A run's changes become one commit: judged once, planned anew for every tip the branch moves to meanwhile."""

from __future__ import annotations

import shutil

from ktx_cli.core.errors import BusyError, GitError
from ktx_cli.project.git import Git
from ktx_cli.project.repository.config import read_config
from ktx_cli.project.repository.conversion import Conversion
from ktx_cli.project.repository.discovery import check_writable, read_head
from ktx_cli.project.repository.identity import identity_variables
from ktx_cli.project.repository.judging import Judge
from ktx_cli.project.repository.lock import IndexLock
from ktx_cli.project.repository.model import CommitResult, Head, RepositoryLayout
from ktx_cli.project.repository.paths import full_paths
from ktx_cli.project.repository.planning import Planner
from ktx_cli.project.repository.publishing import Attempt, Request, Run
from ktx_cli.project.repository.trees import TreeView
from ktx_cli.project.repository.working_files import STAGING_PREFIX, names_in, naming

ATTEMPTS = 5
"""How often a run merges with a branch that moves under it before it gives up."""


def commit_changes(git: Git, layout: RepositoryLayout, lock: IndexLock, request: Request) -> CommitResult:
    """Commit, or find that there is nothing to commit. For who holds the index lock and recovered before."""
    head = read_head(git, layout)
    check_writable(layout, head.ref)
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
    tip = TreeView(git, layout.prefix, head.commit)
    base = tip if request.base == head.commit else TreeView(git, layout.prefix, request.base)
    judge = Judge(git, layout, config, run.conversion, tip, request.changes)
    planner = Planner(request.changes, base, layout.prefix, run.conversion, judge, request.merge, request.adjust)
    fresh = not layout.private.exists()
    try:
        return _attempts(run, planner, judge, head, tip)
    except BaseException:
        if fresh:
            _remove_private(layout)
        raise
    finally:
        with naming(run.staging, "remove"):
            if run.staging.is_dir():
                shutil.rmtree(run.staging)


def _attempts(run: Run, planner: Planner, judge: Judge, head: Head, tip: TreeView) -> CommitResult:
    for _ in range(ATTEMPTS):
        plan = planner.plan(tip)
        if not plan.changes:
            return CommitResult(None, held=tuple(plan.held))
        result = Attempt(run, plan, judge.conditions, head).run()
        if result is not None:
            return result
        head = _moved(run, head)
        tip = TreeView(run.git, run.layout.prefix, head.commit)
    raise BusyError(
        f"{head.ref} of {run.layout.top_level} moved {ATTEMPTS} times while ktx was committing",
        hint="run the same command again when nothing else commits",
    )


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
