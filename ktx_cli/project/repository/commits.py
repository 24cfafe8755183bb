"""Turns a run's changes into one commit: judges them for one state of the index, and replans if the branch moves."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from ktx_cli.core import BusyError, GitError, Hint, KtxError
from ktx_cli.project.files import read_bytes, write_atomic
from ktx_cli.project.git import Git, failure
from ktx_cli.project.layout import Layout
from ktx_cli.project.repository.commit_plan import Change, Condition, Judge, Plan, Planner, Way
from ktx_cli.project.repository.history import (
    Blob,
    Conversion,
    Objects,
    TreeView,
    add_tree,
    changed_tree,
    store_objects,
)
from ktx_cli.project.repository.index import IndexLock, edit_index
from ktx_cli.project.repository.model import (
    CommitResult,
    TreeEntry,
    check_writable,
    commit_of,
    full_paths,
    identity_variables,
    read_config,
    read_head,
)
from ktx_cli.project.repository.recovery import Finish, PendingCommit, PendingEntry, carry_out, drop_pending
from ktx_cli.project.repository.working_files import (
    STAGING_PREFIX,
    NewFile,
    Placement,
    Signature,
    Undo,
    check_places,
    digest_of,
    names_in,
    naming,
    signature_of,
    stage,
)

if TYPE_CHECKING:
    from ktx_cli.project.repository.model import AdjustFunction, GitConfig, Head, MergeFunction, RepositoryLayout

TOUCHED = "touched"
"""Replaces the recorded digest of a file that changed after it was judged; it matches nothing."""


class Missed(Enum):
    """What another program changed before an attempt could publish."""

    INDEX = "index"
    BRANCH = "branch"


@dataclass(frozen=True, slots=True)
class Request:
    """What to commit, as in the arguments of `Repository.commit`."""

    changes: Mapping[str, bytes | None]
    message: str
    base: str | None
    author: str | None
    merge: MergeFunction
    before_publish: Callable[[], None] | None
    adjust: AdjustFunction | None = None
    spared: Collection[str] = ()
    commits: bool = True
    """False: only the working files change."""
    amends: str | None = None
    """The commit that the new one replaces while it is the tip: an earlier commit by the same command."""


@dataclass(frozen=True, slots=True)
class Run:
    """What all attempts in a run share; new files wait in `staging`."""

    git: Git
    layout: RepositoryLayout
    lock: IndexLock
    request: Request
    identity: Mapping[str, str]
    conversion: Conversion
    staging: Path


@dataclass(slots=True)
class Attempt:
    """A plan for the tip `head`; `conditions` are those of its paths, `index` is the index state they are for."""

    shared: Run
    plan: Plan
    conditions: Mapping[str, Condition]
    head: Head
    index: Signature | None
    replaced: dict[str, str] = field(default_factory=dict)

    def run(self) -> CommitResult | Missed:
        """Return the result, or what had changed so that nothing was done."""
        plan, shared, request, lock = self.plan, self.shared, self.shared.request, self.shared.lock
        commit = self._commit_object() if plan.committed and request.commits else None
        contents = self._contents()
        finish = self._prepare(contents)
        pending = None if commit is None else self._pending(commit, contents)
        if pending is not None:
            lock.take()
            if lock.index_state() != self.index:
                return Missed.INDEX
        if request.before_publish is not None:
            request.before_publish()
        if pending is not None and not publish(shared.git, shared.layout, pending, request.message, shared.identity):
            return Missed.BRANCH
        changed, left = tuple(change.path for change in plan.committed), self._finish(finish, commit)
        committed, uncommitted = (changed, ()) if request.commits else ((), changed)
        facts = (commit, committed, tuple(plan.held), plan.ignored, left, tuple(plan.merged))
        return CommitResult(*facts, replaced=self.replaced, uncommitted=uncommitted)

    def _commit_object(self) -> str:
        """Store blobs, tree and commit; return the commit's id."""
        blobs = [change.blob for change in self.plan.committed if change.blob is not None]
        message, identity = self.shared.request.message, self.shared.identity
        git, layout = self.shared.git, self.shared.layout
        amends = self.shared.request.amends
        return commit_object(git, layout, blobs, self._entries(), self.head.commit, message, identity, amends=amends)

    def _contents(self) -> dict[str, bytes]:
        """Return path -> bytes on disk, for every file that is written."""
        prefix, written = self.shared.layout.prefix, self.plan.written
        blobs = {prefix + c.path: c.blob for c in written if c.blob is not None and c.way is Way.WRITE}
        converted = self.shared.conversion.on_disk(blobs)
        contents = {path.removeprefix(prefix): content for path, content in converted.items()}
        for path in self.plan.ignored:
            content = self.shared.request.changes[path]
            if content is not None:
                contents[path] = content
        return contents

    def _prepare(self, contents: Mapping[str, bytes]) -> Finish:
        """Stage the files and edit a copy of the index."""
        from ktx_cli.project.state import prepare_private_folder

        prepare_private_folder(Layout(self.shared.layout.project_dir))
        self._spare()
        written = self.plan.written
        files = {c.path: self._new_file(c, contents[c.path]) for c in written if c.path in contents}
        staged = stage(self.shared.staging, files)
        placements = tuple(Placement(c.path, staged.get(c.path), self.conditions[c.path].found) for c in written)
        check_places(self.shared.layout.project_dir, placements)
        refreshed = (c.path for c in self.plan.committed if c.new is not None and not self._is_skipped(c.path))
        return Finish(self._index_copy(), placements, tuple(refreshed))

    def _spare(self) -> None:
        """Keep the old content of files without a history."""
        layout = Layout(self.shared.layout.project_dir)
        for path in self.plan.ignored:
            old = read_bytes(layout.root / path) if path in self.shared.request.spared else None
            if old is not None:
                kept = layout.replaced / f"{hashlib.sha256(old).hexdigest()[:12]}-{path.rpartition('/')[2][-100:]}"
                write_atomic(kept, old)
                self.replaced[path] = kept.relative_to(layout.root).as_posix()

    def _is_skipped(self, path: str) -> bool:
        entry = self.conditions[path].entry
        return entry is not None and entry.skip_worktree

    def _new_file(self, change: Change, content: bytes) -> NewFile:
        executable = change.new is not None and change.new.mode == "100755"
        return NewFile(content, self.conditions[change.path].found, executable)

    def _index_copy(self) -> Path | None:
        changes = self.plan.committed
        if not changes or not self.shared.request.commits:
            return None
        copy = self.shared.lock.copy_index("index")
        entries = {self.shared.layout.prefix + change.path: self.conditions[change.path].entry for change in changes}
        flags = {path: entry for path, entry in entries.items() if entry is not None}
        edit_index(self.shared.git, self.shared.layout, copy, self._entries(), flags)
        return copy

    def _entries(self) -> dict[str, TreeEntry | None]:
        return {self.shared.layout.prefix + change.path: change.new for change in self.plan.committed}

    def _taken_back(self, undo: Undo, commit: str | None, error: KtxError) -> bool:
        """Restore the old files and the branch; return whether nothing of the run remains.

        Does nothing once the index is replaced, or while another process may be changing it. If it fails, the record
        stays, and the next run continues.
        """
        if isinstance(error, BusyError) or self.shared.lock.index_state() != self.index:
            return False
        try:
            undo.take_back()
            if commit is None:
                return True
            assert self.head.ref is not None
            change = [self.head.ref, self.head.commit] if self.head.commit else ["-d", self.head.ref]
            reason = "ktx: undone, because the files could not be written"
            words = ["update-ref", "-m", reason, *change, commit]
            if self.shared.git.write(*words, ok=range(256), variables=self.shared.identity).code:
                return False
        except KtxError:  # the first error matters more
            return False
        with contextlib.suppress(KtxError):  # the next run drops the record of a commit that the branch does not have
            drop_pending(self.shared.layout)
        return True

    def _pending(self, commit: str, contents: Mapping[str, bytes]) -> PendingCommit:
        assert self.head.ref is not None
        entries = (self._pending_entry(change, contents.get(change.path)) for change in self.plan.committed)
        written: Iterable[str] = (change.path for change in self.plan.written)
        token = self.shared.lock.token
        return PendingCommit(self.head.ref, self.head.commit, commit, token, tuple(entries), tuple(written))

    def _pending_entry(self, change: Change, content: bytes | None) -> PendingEntry:
        condition = self.conditions[change.path]
        before = None if condition.entry is None else TreeEntry(condition.entry.mode, condition.entry.oid)
        if change.way is Way.INDEX_ONLY:
            return PendingEntry(change.path, before, change.new, None, None, index_only=True)
        file = self.shared.layout.project_dir / change.path
        digest = digest_of(file)
        if signature_of(file) != condition.found:
            digest = TOUCHED
        after = digest if change.way is Way.ADOPT else None if content is None else hashlib.sha256(content).hexdigest()
        return PendingEntry(change.path, before, change.new, digest, after)

    def _finish(self, finish: Finish, commit: str | None) -> tuple[str, ...]:
        undo = Undo(self.shared.layout.project_dir, self.shared.staging)
        try:
            left = carry_out(self.shared.git, self.shared.layout, self.shared.lock, finish, undo)
            if commit is not None:
                drop_pending(self.shared.layout)
        except KtxError as error:
            if not self._taken_back(undo, commit, error) and commit is not None:
                error.details["commit"] = commit
                note = f"the commit {commit[:10]} is done, and the next run updates the files to match"
                error.hint = note if error.hint is None else Hint("{}; {}", error.hint, note)
            raise
        return left


def publish(
    git: Git, layout: RepositoryLayout, pending: PendingCommit, message: str, identity: Mapping[str, str]
) -> bool:
    """Move the branch, after writing the record of the move to disk; return False if the branch has moved.

    The record stays when the branch has moved, and when it cannot be known whether it has.
    """
    pending.save(layout.pending)
    reason = message.partition("\n")[0].replace("\0", "")
    words = ("update-ref", "-m", f"commit (ktx): {reason}".encode("utf-8", "replace"))
    move = (pending.ref, pending.new, pending.old or layout.zeros)
    output = git.write(*words, *move, ok=range(256), variables=identity)
    if output.code == 0:
        return True
    drop_pending(layout)
    if commit_of(git, pending.ref) == pending.old:
        raise failure("update-ref", output.code, output.err, layout.top_level)
    return False


ATTEMPTS = 5
"""Maximum number of times that a run merges with a moving branch before it gives up."""


def commit_changes(git: Git, layout: RepositoryLayout, lock: IndexLock, request: Request) -> CommitResult:
    """Commit, or return that there is nothing to commit. The caller has announced itself and recovered first."""
    config = read_config(git)
    identity = identity_variables(request.author, config, git.environ)
    conversion = Conversion(git, config, layout.object_format, full_paths(layout.prefix, request.changes))
    run = Run(git, layout, lock, request, identity, conversion, layout.private / f"{STAGING_PREFIX}{lock.token}")
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
    """Try until neither index nor branch changes meanwhile; after the first index change, keep the index locked."""
    head: Head | None = None
    judged: _Judged | None = None
    for _ in range(ATTEMPTS):
        if judged is None:
            judged, head = _judged(run, config, head)
        assert head is not None
        tip = judged.tip if judged.tip.commit == head.commit else TreeView(run.git, run.layout.prefix, head.commit)
        plan = judged.planner.plan(tip)
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
        hint="run the same command again when nothing else is committing",
    )


@dataclass(frozen=True, slots=True)
class _Judged:
    """The conditions, and the index state they are for."""

    judge: Judge
    planner: Planner
    tip: TreeView
    index: Signature | None


def _judged(run: Run, config: GitConfig, before: Head | None) -> tuple[_Judged, Head]:
    """Judge all paths: read the state of the index first, then HEAD, so that a later change of either is detected."""
    git, layout, request = run.git, run.layout, run.request
    index = run.lock.index_state()
    head = read_head(git, layout) if before is None else _moved(run, before)
    check_writable(layout, head.ref, detached=not request.commits)
    tip = TreeView(git, layout.prefix, head.commit)
    base = tip if request.base == head.commit else TreeView(git, layout.prefix, request.base)
    judge = Judge(git, layout, config, run.conversion, tip, request.changes, index_stays=not request.commits)
    planner = Planner(request.changes, base, layout.prefix, run.conversion, judge, request.merge, request.adjust)
    return _Judged(judge, planner, tip, index), head


def _moved(run: Run, head: Head) -> Head:
    """Return the current tip of the branch; raises `GitError` if HEAD is on another branch."""
    now = read_head(run.git, run.layout)
    check_writable(run.layout, now.ref, detached=not run.request.commits)
    if now.ref != head.ref:
        message = f"{run.layout.top_level} switched from {head.ref} to {now.ref} while ktx was committing"
        raise GitError(message, hint="run the same command again")
    return now


def _remove_private(layout: RepositoryLayout) -> None:
    """Remove the `.ktx` folder of a failed run, unless it contains the record of a commit."""
    with naming(layout.private, "remove"):
        if layout.private.is_dir() and layout.pending.name not in names_in(layout.private):
            shutil.rmtree(layout.private)


def propose_changes(git: Git, layout: RepositoryLayout, requests: Sequence[Request], ref: str) -> list[str]:
    """Return the commits of the new branch `ref`, one for each request, each based on the previous one.

    Raises `GitError` if the branch already exists.
    """
    identity = identity_variables(requests[0].author, read_config(git), git.environ)
    commits: list[str] = []
    for request in requests:
        base = commits[-1] if commits else request.base
        commits.append(_proposed(git, layout, replace(request, base=base), identity))
    before_publish = requests[0].before_publish
    if before_publish is not None:
        before_publish()
    if commit_of(git, ref) is not None:
        raise GitError(f"the branch {ref} already exists in {layout.top_level}", hint="merge it or delete it first")
    git.write("update-ref", "-m", "ktx: proposed", ref, commits[-1], layout.zeros, variables=identity)
    return commits


def _proposed(git: Git, layout: RepositoryLayout, request: Request, identity: Mapping[str, str]) -> str:
    """Store the commit for a request, without a branch, and return it."""
    changes, base = request.changes, request.base
    conversion = Conversion(git, read_config(git), layout.object_format, full_paths(layout.prefix, changes))
    existing = TreeView(git, layout.prefix, base).entries
    blobs = {path: conversion.blob(layout.prefix + path, text) for path, text in changes.items() if text is not None}
    entries: dict[str, TreeEntry | None] = {}
    for path in changes:
        before = existing.get(path)
        mode = before.mode if before is not None and before.is_file else "100644"
        entries[layout.prefix + path] = TreeEntry(mode, blobs[path].oid) if path in blobs else None
    return commit_object(git, layout, blobs.values(), entries, base, request.message, identity)


def commit_object(
    git: Git,
    layout: RepositoryLayout,
    blobs: Iterable[Blob],
    entries: Mapping[str, TreeEntry | None],
    parent: str | None,
    message: str,
    identity: Mapping[str, str],
    *,
    amends: str | None = None,
) -> str:
    """Store blobs, and a commit whose tree is the parent's with some entries changed; return the commit's id.

    A parent that is the commit to amend is replaced: the new commit is based on its parent.
    """
    objects: Objects = {blob.oid: ("blob", blob.data) for blob in blobs if blob.data is not None}
    tree = changed_tree(git, layout.object_format, parent and f"{parent}^{{tree}}", entries, objects)
    tree = tree or add_tree(layout.object_format, {}, objects)
    store_objects(git, layout, objects)
    text = message.replace("\0", "").rstrip("\n").encode("utf-8", "replace") + b"\n"
    if parent is not None and parent == amends:
        parent = commit_of(git, f"{parent}^")
    options = () if parent is None else ("-p", parent)
    return git.write("commit-tree", tree, *options, stdin=text, variables=identity).out.decode("ascii").strip()
