"""Cleans up after a killed run: if the branch has its commit, updates index and files; otherwise removes its traces."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import BusyError, Command, GitError, Hint
from ktx_cli.project.files import read_bytes, sync_directory, write_atomic
from ktx_cli.project.git import Git
from ktx_cli.project.layout import Layout
from ktx_cli.project.repository import index as locking
from ktx_cli.project.repository.history import Blob, Conversion, TreeView
from ktx_cli.project.repository.index import IndexLock, IndexView, edit_index, read_index, refresh_index
from ktx_cli.project.repository.model import (
    Recovery,
    TreeEntry,
    check_paths,
    commit_of,
    full_paths,
    is_ancestor,
    read_config,
)
from ktx_cli.project.repository.working_files import (
    STAGING_PREFIX,
    NewFile,
    Placement,
    Signature,
    Undo,
    digest_of,
    naming,
    obstacle,
    place_all,
    remove_staging,
    remove_temporaries,
    signature_of,
    stage,
)

if TYPE_CHECKING:
    from ktx_cli.project.repository.model import IndexEntry, RepositoryLayout

VERSION: Final = 1

_HEX: Final = re.compile(r"[0-9a-f]+")
_MODE: Final = re.compile(r"100644|100755")
_REF: Final = re.compile(r"refs/\S+")
_ANY: Final = re.compile(r".*", re.DOTALL)


@dataclass(frozen=True)
class PendingEntry:
    """One path: its index entry before and after, and the SHA-256 of its file before and after (None: no file).

    `index_only`: the path is outside a sparse checkout and has no file.
    """

    path: str
    before: TreeEntry | None
    after: TreeEntry | None
    file_before: str | None
    file_after: str | None
    index_only: bool = False


@dataclass(frozen=True)
class PendingCommit:
    """The record of a commit in progress: a move of `ref` from `old` (None: unborn) to `new`.

    `token`: that of the run's marker. `written`: all paths whose files the run may have been writing, including ignored
    ones.
    """

    ref: str
    old: str | None
    new: str
    token: str
    entries: tuple[PendingEntry, ...]
    written: tuple[str, ...]

    def save(self, path: Path) -> None:
        """Write the record durably; raises `StorageError` if that fails."""
        write_atomic(path, json.dumps({"version": VERSION, **vars(self)}, default=_plain).encode("ascii"))

    @classmethod
    def load(cls, path: Path) -> PendingCommit | None:
        """Return the record, or None if there is none. Raises `GitError` for an unreadable one."""
        text = read_bytes(path)
        if text is None:
            return None
        try:
            return _checked(json.loads(text))
        except (ValueError, LookupError, TypeError, GitError) as error:
            sentence = "check `{}`: its changes may be half of that run; then {}"
            hint = Hint(sentence, Command("status", program="git"), Command(path, program="rm"))
            details = {"path": str(path), "reason": f"{type(error).__name__}: {error}"}
            message = f"cannot read {path}, the record of a killed run"
            raise GitError(message, hint=hint, details=details) from error


def _plain(value: PendingEntry | TreeEntry) -> Any:
    return [value.mode, value.oid] if isinstance(value, TreeEntry) else vars(value)


def _checked(data: Mapping[str, Any]) -> PendingCommit:
    """Return the validated record: nothing in it may reach outside the project or be read as an option."""
    if data["version"] != VERSION:
        raise ValueError(f"version {data['version']}")
    pending = PendingCommit(
        ref=_matching(data["ref"], _REF),
        old=None if data["old"] is None else _matching(data["old"], _HEX),
        new=_matching(data["new"], _HEX),
        token=_matching(data["token"], _HEX),
        entries=tuple(_entry(item) for item in data["entries"]),
        written=tuple(_matching(path, _ANY) for path in data["written"]),
    )
    check_paths([*pending.written, *(entry.path for entry in pending.entries)])
    return pending


def _entry(data: Mapping[str, Any]) -> PendingEntry:
    before, after = (
        None if pair is None else TreeEntry(_matching(pair[0], _MODE), _matching(pair[1], _HEX))
        for pair in (data["before"], data["after"])
    )
    old, new = (None if data[key] is None else _matching(data[key], _ANY) for key in ("file_before", "file_after"))
    return PendingEntry(_matching(data["path"], _ANY), before, after, old, new, bool(data["index_only"]))


def _matching(value: object, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"{value!r} does not have the format that ktx writes")
    return value


@dataclass(frozen=True, slots=True)
class Finish:
    """What remains to be done once the branch has the commit.

    `index`: a copy with the new entries (None: the index stays). `refreshed`: project paths whose entries get the stat
    data of their files.
    """

    index: Path | None
    placements: tuple[Placement, ...]
    refreshed: Collection[str]


def carry_out(
    git: Git, layout: RepositoryLayout, lock: IndexLock, finish: Finish, undo: Undo | None = None
) -> tuple[str, ...]:
    """Put files and index in place; return the paths skipped because their files were touched meanwhile.

    `undo` keeps the old files.
    """
    left = place_all(layout, finish.placements, undo)
    if finish.index is not None:
        known = [path for path in finish.refreshed if path not in left]
        refresh_index(git, layout, finish.index, (layout.prefix + path for path in known))
        lock.swap(finish.index)
    return tuple(sorted(left))


def drop_pending(layout: RepositoryLayout) -> None:
    """Remove the record of the commit in progress, durably."""
    with naming(layout.pending, "remove"):
        layout.pending.unlink(missing_ok=True)
        if layout.private.is_dir():
            sync_directory(layout.private)


LOCK_AGE_SECONDS = 3.5
"""An empty ref lock from the time of the record counts as dead after this long; git holds one for milliseconds."""


def recover(git: Git, layout: RepositoryLayout, lock: IndexLock) -> Recovery:
    """Finish or drop the recorded commit. Requires the index lock; safe to be killed and run again.

    Raises `GitError` for an unreadable record; nothing is removed then.
    """
    pending = PendingCommit.load(layout.pending)
    if pending is not None:
        _await_death(layout, pending)
        pending = PendingCommit.load(layout.pending)
    removed = [*lock.removed, *remove_staging(layout.private, lock.living())]
    removed += remove_temporaries(layout.project_dir, [".ktx/journal.json"]) if layout.private.is_dir() else []
    if pending is None:
        return Recovery(removed=tuple(removed))
    removed += remove_temporaries(layout.project_dir, pending.written)
    removed += _remove_ref_locks(layout, pending)
    if not _is_published(git, pending):
        drop_pending(layout)
        return Recovery(dropped=True, removed=tuple(removed))
    work = _Work(git, layout, lock, pending)
    left = work.run()
    drop_pending(layout)
    return Recovery(tuple(sorted(work.finished)), tuple(sorted(left)), pending.new, removed=tuple(removed))


def _await_death(layout: RepositoryLayout, pending: PendingCommit) -> None:
    """Wait until no child of the killed run can move the branch any more."""
    marker = locking.index_path(layout).with_name(f"ktx-{pending.token}.marker")
    deadline = time.monotonic() + locking.WAIT_FOR_KTX_SECONDS
    while marker.exists():
        locking.clear_dead(layout)
        if time.monotonic() > deadline:
            message = f"an interrupted run is still active in {layout.top_level}"
            hint = "wait until it has finished, then run the command again"
            raise BusyError(message, hint=hint, details={"marker": str(marker)})
        time.sleep(0.02)


def _is_published(git: Git, pending: PendingCommit) -> bool:
    """Return whether the branch, or the current HEAD, contains the recorded commit."""
    if commit_of(git, pending.new) is None:
        return False
    tips = {tip for ref in (pending.ref, "HEAD") if (tip := commit_of(git, ref)) is not None}
    return any(is_ancestor(git, pending.new, tip) for tip in tips)


def _remove_ref_locks(layout: RepositoryLayout, pending: PendingCommit) -> list[str]:
    """Remove locks left by a child that was itself killed: those with our commit, and empty ones from its time."""
    removed = []
    with naming(layout.git_dir, "remove locks in"):
        since = layout.pending.lstat().st_mtime
        for lock in (layout.common_dir / f"{pending.ref}.lock", layout.git_dir / "HEAD.lock"):
            if _is_ours(lock, pending.new, since):
                lock.unlink(missing_ok=True)
                removed.append(lock.name)
    return removed


def _is_ours(lock: Path, commit: str, since: float) -> bool:
    try:
        found = lock.lstat()
        if not stat.S_ISREG(found.st_mode):
            return False
        if found.st_size:
            return lock.read_bytes().strip() == commit.encode("ascii")
        if not -0.1 <= found.st_mtime - since <= LOCK_AGE_SECONDS:
            return False
        while time.time() - found.st_mtime < LOCK_AGE_SECONDS:
            time.sleep(0.05)
            if not os.path.samestat(found, lock.lstat()):
                return False
        return lock.lstat().st_size == 0
    except FileNotFoundError:
        return False


@dataclass(slots=True)
class _Work:
    """What is updated: index entries, files, and entries with old stat data."""

    git: Git
    layout: RepositoryLayout
    lock: IndexLock
    pending: PendingCommit
    finished: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    entries: dict[str, TreeEntry | None] = field(default_factory=dict)
    flags: dict[str, IndexEntry] = field(default_factory=dict)
    files: dict[str, tuple[TreeEntry | None, Signature | None]] = field(default_factory=dict)
    refreshed: set[str] = field(default_factory=set)

    def run(self) -> set[str]:
        """Apply the updates; return the paths that now have the user's edits."""
        index = read_index(self.git, self.layout)
        for entry in self._current():
            self._judge(entry, index)
        if self.entries or self.files or self.refreshed:
            copy = self.lock.copy_index("index")
            edit_index(self.git, self.layout, copy, self.entries, self.flags)
            touched = carry_out(self.git, self.layout, self.lock, Finish(copy, self._placements(), self.refreshed))
            self.left.update(touched)
            remove_staging(self.layout.private, self.lock.living())
        return self.left

    def _current(self) -> Iterator[PendingEntry]:
        """Yield the entries that are unchanged in HEAD since the killed run committed them."""
        tip = TreeView(self.git, self.layout.prefix, commit_of(self.git, "HEAD"))
        return (entry for entry in self.pending.entries if tip.entries.get(entry.path) == entry.after)

    def _judge(self, entry: PendingEntry, index: IndexView) -> None:
        path = entry.path
        now = index.entries.get(path)
        known = now if now is None else TreeEntry(now.mode, now.oid)
        if path in index.unmerged or known not in (entry.before, entry.after):
            self.left.add(path)
            return
        if known != entry.after:
            self.entries[self.layout.prefix + path] = entry.after
            self.finished.add(path)
            if now is not None:
                self.flags[self.layout.prefix + path] = now
        skipped = now is not None and now.skip_worktree
        absent_on_purpose = skipped and signature_of(self.layout.project_dir / path) is None
        if not entry.index_only and not absent_on_purpose:
            self._judge_file(entry, advanced=known != entry.after, refreshed=not skipped)

    def _judge_file(self, entry: PendingEntry, *, advanced: bool, refreshed: bool) -> None:
        """Decide whether the file is already new, still old, or edited by the user.

        Once the index had the new entry, files were in place: the user has restored an old one.
        """
        path = entry.path
        target = self.layout.project_dir / path
        found = signature_of(target)
        digest = digest_of(target) if obstacle(self.layout.project_dir, path, found, {}) is None else "blocked"
        if digest != entry.file_after and not (advanced and digest == entry.file_before):
            self.left.add(path)
            return
        if entry.after is not None and refreshed:
            self.refreshed.add(path)
        if digest != entry.file_after or entry.after is None:  # repeat a removal, for folders that it left empty
            self.files[path] = (entry.after, found)
        if digest != entry.file_after:
            self.finished.add(path)

    def _placements(self) -> tuple[Placement, ...]:
        prefix = self.layout.prefix
        wanted = {prefix + path: Blob(new.oid, None) for path, (new, _) in self.files.items() if new is not None}
        config = read_config(self.git)
        conversion = Conversion(self.git, config, self.layout.object_format, full_paths("", wanted))
        contents = conversion.on_disk(wanted)
        files = {
            path: NewFile(contents[prefix + path], found, executable=new.mode == "100755")
            for path, (new, found) in self.files.items()
            if new is not None
        }
        staged = stage(Layout(self.layout.project_dir).private / f"{STAGING_PREFIX}{self.lock.token}", files)
        return tuple(Placement(path, staged.get(path), found) for path, (_, found) in self.files.items())
