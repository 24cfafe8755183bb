"""A run's changes become one commit: judged for one state of the index, planned anew when the branch moves."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ktx_cli.core import BusyError, Command, GitError, Hint, Placeholder, shell_words
from ktx_cli.project.git import Git
from ktx_cli.project.repository.commit_plan import Judge, Planner
from ktx_cli.project.repository.discovery import check_writable, commit_of, read_head
from ktx_cli.project.repository.index import IndexLock, edit_index
from ktx_cli.project.repository.model import (
    CommitResult,
    GitConfig,
    Head,
    HeldReason,
    RepositoryLayout,
    TreeEntry,
    full_paths,
    identity_variables,
    read_config,
)
from ktx_cli.project.repository.publication import Attempt, Missed, Request, Run
from ktx_cli.project.repository.trees import Conversion, TreeView, store_blobs
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


def propose_changes(
    git: Git,
    layout: RepositoryLayout,
    lock: IndexLock,
    changes: Mapping[str, bytes | None],
    *,
    ref: str,
    base: str | None,
    message: str,
    author: str | None,
    before_publish: Callable[[], None] | None,
) -> str:
    """Return the commit of `changes` on `base` that the new branch `ref` has; `GitError` where that branch is there."""
    config = read_config(git)
    identity = identity_variables(author, config, git.environ)
    conversion = Conversion(git, config, layout.object_format, full_paths(layout.prefix, changes))
    tree = _tree(git, layout, lock, changes, base, conversion)
    parent = () if base is None else ("-p", base)
    text = message.replace("\0", "").rstrip("\n").encode("utf-8", "replace") + b"\n"
    output = git.write("commit-tree", tree, *parent, stdin=text, variables=identity)
    commit = output.out.decode("ascii").strip()
    if before_publish is not None:
        before_publish()
    if commit_of(git, ref) is not None:
        raise GitError(f"{layout.top_level} has a branch {ref} already", hint="merge it or delete it first")
    git.write("update-ref", "-m", "ktx: proposed", ref, commit, layout.zeros, variables=identity)
    return commit


def _tree(
    git: Git,
    layout: RepositoryLayout,
    lock: IndexLock,
    changes: Mapping[str, bytes | None],
    base: str | None,
    conversion: Conversion,
) -> str:
    """Store the contents and return the id of the tree that has them."""
    existing = TreeView(git, layout.prefix, base).entries
    blobs = {path: conversion.blob(layout.prefix + path, text) for path, text in changes.items() if text is not None}
    store_blobs(git, layout.git_dir, [each.data for each in blobs.values() if each.data is not None])
    entries: dict[str, TreeEntry | None] = {}
    for path in changes:
        before = existing.get(path)
        mode = before.mode if before is not None and before.is_file else "100644"
        entries[layout.prefix + path] = TreeEntry(mode, blobs[path].oid) if path in blobs else None
    scratch = lock.scratch("tree")
    with naming(scratch):
        scratch.unlink(missing_ok=True)
    if base is not None:
        git.write("-c", "core.splitIndex=false", "read-tree", base, index=scratch)
    edit_index(git, layout, scratch, entries)
    return git.write("write-tree", index=scratch).out.decode("ascii").strip()


EDITED_MEANWHILE: Final = "edited meanwhile"
"""Said of a file that was edited while the commit was made (`CommitResult.left`)."""

EDITED_AFTER_KILL: Final = "edited after a killed run"
"""Said of a file that was edited before the rest of a killed run was finished (`Recovery.left`)."""

_HeldHint = Callable[[str, Sequence[str], Path], Hint]
"""Makes the hint for held paths: the first as a word of a shell, all of them, and the project's folder."""


def _git(sentence: str, *words: str) -> _HeldHint:
    """Return a hint that names the first path and, at the end, a git command on it."""
    return lambda first, paths, folder: Hint(
        sentence, *([first] * (sentence.count("{}") - 1)), Command(*words, "--", Placeholder(first), program="git")
    )


def _edit(sentence: str) -> _HeldHint:
    """Return a hint that names the first path and no command."""
    return lambda first, paths, folder: Hint(sentence, first)


def _overlooked(flag: str) -> _HeldHint:
    return _git("git was told to overlook your changes of {}: {}, then commit or undo them", "update-index", flag)


_EDITED: Final = _git("the commit has ktx's text of {}, the file yours: see {}, then commit or undo yours", "diff")

_HINTS: Final[Mapping[str, _HeldHint]] = {
    HeldReason.MODIFIED: _git("commit your changes of {}, or give them up: {}", "restore"),
    HeldReason.DELETED: lambda first, paths, folder: Command("restore", "--", *paths, program="git"),
    HeldReason.UNREADABLE: lambda first, paths, folder: Hint(
        "let this user read {}: {}", first, Command("u+r", *(folder / path for path in paths), program="chmod")
    ),
    HeldReason.STAGED: _git("commit what is staged of {}, or give it up: {}", *("restore", "--staged", "--worktree")),
    HeldReason.UNTRACKED: _git("add {} to git ({}) and commit it, or move it away", "add"),
    HeldReason.UNMERGED: _git("resolve the conflict in {}, then: {}", "add"),
    HeldReason.CONFLICT: _edit("somebody else committed a change of {} during the run: run the same command again"),
    HeldReason.ASSUME_UNCHANGED: _overlooked("--no-assume-unchanged"),
    HeldReason.SKIP_WORKTREE: _overlooked("--no-skip-worktree"),
    HeldReason.SYMLINK: _edit(
        "{}, or a folder above it, is a symbolic link, which ktx does not follow: put a plain file or folder there"
    ),
    HeldReason.NOT_A_DIRECTORY: _edit("a file stands where a folder above {} has to be: move that file away"),
    HeldReason.IS_A_DIRECTORY: _edit("a folder stands at {}: move it away"),
    HeldReason.NOT_A_FILE: _edit("{} is a pipe, socket or device: move it away"),
    HeldReason.NESTED_REPOSITORY: _edit(
        "{} is in a submodule or another repository, where ktx does not write: move that folder away"
    ),
    EDITED_MEANWHILE: _EDITED,
    EDITED_AFTER_KILL: _EDITED,
}


MOST_PATHS: Final = 20
"""How many paths stand in one command."""


def held_hint(held: Iterable[tuple[str, str]], project_dir: Path) -> Hint:
    """Return what to do about the held paths (path and reason): the first of each reason stands for the others."""
    by_hint: dict[_HeldHint, list[str]] = {}
    for path, reason in held:
        by_hint.setdefault(_HINTS[reason], []).append(path)
    hints = (hint(shell_words(paths[0]), paths[:MOST_PATHS], project_dir) for hint, paths in by_hint.items())
    return Hint.steps(*hints, between="; ")
