"""After a killed run: if the branch has its commit, index and files are brought to it; else its traces are removed."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ktx_cli.core import BusyError
from ktx_cli.project.git import Git
from ktx_cli.project.layout import Layout
from ktx_cli.project.repository import index as locking
from ktx_cli.project.repository.discovery import commit_of
from ktx_cli.project.repository.index import IndexLock, IndexView, edit_index, read_index
from ktx_cli.project.repository.model import IndexEntry, Recovery, RepositoryLayout, TreeEntry, full_paths, read_config
from ktx_cli.project.repository.publication import Finish, Journal, JournalEntry, carry_out, drop_journal
from ktx_cli.project.repository.trees import Blob, Conversion, TreeView
from ktx_cli.project.repository.working_files import (
    STAGING_PREFIX,
    NewFile,
    Placement,
    Signature,
    digest_of,
    names_in,
    naming,
    obstacle,
    remove_staging,
    remove_temporaries,
    signature_of,
    stage,
)

LOCK_AGE_SECONDS = 3.5
"""An empty ref lock from the moment of the journal counts as dead after this long; git holds one for milliseconds."""


def needs_recovery(layout: RepositoryLayout) -> bool:
    """Say whether there is a journal or a leftover of a run. Writes nothing."""
    if not layout.private.is_dir():
        return False
    names = names_in(layout.private)
    return any(name == layout.journal.name or _is_leftover(layout, name) for name in names)


def _is_leftover(layout: RepositoryLayout, name: str) -> bool:
    temporary = name.startswith(f".{layout.journal.name}.") and name.endswith(".ktx-tmp")
    return temporary or name.startswith(STAGING_PREFIX)


def recover(git: Git, layout: RepositoryLayout, lock: IndexLock) -> Recovery:
    """Finish or drop what the journal tells. For who holds the index lock; may be killed and run again.

    Raises `GitError` for a journal that cannot be read; nothing is removed then.
    """
    journal = Journal.load(layout.journal)
    if journal is not None:
        _await_death(layout, journal)
        journal = Journal.load(layout.journal)
    removed = [*lock.removed, *remove_staging(layout.private, lock.living())]
    removed += remove_temporaries(layout.project_dir, [".ktx/journal.json"]) if layout.private.is_dir() else []
    if journal is None:
        return Recovery(removed=tuple(removed))
    removed += remove_temporaries(layout.project_dir, journal.written)
    removed += _remove_ref_locks(layout, journal)
    if not _is_published(git, journal):
        drop_journal(layout)
        return Recovery(dropped=True, removed=tuple(removed))
    work = _Work(git, layout, lock, journal)
    left = work.run()
    drop_journal(layout)
    return Recovery(tuple(sorted(work.finished)), tuple(sorted(left)), journal.new, removed=tuple(removed))


def _await_death(layout: RepositoryLayout, journal: Journal) -> None:
    """Wait until no child of the killed run can move the branch any more."""
    marker = locking.index_path(layout).with_name(f"ktx-{journal.token}.marker")
    deadline = time.monotonic() + locking.WAIT_FOR_KTX_SECONDS
    while marker.exists():
        locking.clear_dead(layout)
        if time.monotonic() > deadline:
            raise BusyError(
                f"a run that was interrupted is still at work in {layout.top_level}",
                hint="wait until it is done, then run the command again",
                details={"marker": str(marker)},
            )
        time.sleep(0.02)


def _is_published(git: Git, journal: Journal) -> bool:
    """Say whether the branch, or where HEAD is now, contains the journal's commit."""
    if commit_of(git, journal.new) is None:
        return False
    tips = {tip for ref in (journal.ref, "HEAD") if (tip := commit_of(git, ref)) is not None}
    return any(git.read("merge-base", "--is-ancestor", journal.new, tip, ok=(0, 1)).code == 0 for tip in tips)


def _remove_ref_locks(layout: RepositoryLayout, journal: Journal) -> list[str]:
    """Remove locks that a child left which was itself killed: those with our commit, and empty ones of its time."""
    removed = []
    with naming(layout.git_dir, "remove locks in"):
        since = layout.journal.lstat().st_mtime
        for lock in (layout.common_dir / f"{journal.ref}.lock", layout.git_dir / "HEAD.lock"):
            if _is_ours(lock, journal.new, since):
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
    """What is brought forward: index entries, files, and entries whose stat data is old."""

    git: Git
    layout: RepositoryLayout
    lock: IndexLock
    journal: Journal
    finished: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    entries: dict[str, TreeEntry | None] = field(default_factory=dict)
    flags: dict[str, IndexEntry] = field(default_factory=dict)
    files: dict[str, tuple[TreeEntry | None, Signature | None]] = field(default_factory=dict)
    refreshed: set[str] = field(default_factory=set)

    def run(self) -> set[str]:
        """Do it; return the paths that are the user's now."""
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

    def _current(self) -> Iterator[JournalEntry]:
        """Yield the entries that HEAD still has as the killed run committed them."""
        tip = TreeView(self.git, self.layout.prefix, commit_of(self.git, "HEAD"))
        return (entry for entry in self.journal.entries if tip.entries.get(entry.path) == entry.after)

    def _judge(self, entry: JournalEntry, index: IndexView) -> None:
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

    def _judge_file(self, entry: JournalEntry, *, advanced: bool, refreshed: bool) -> None:
        """Decide about the file: already new, still old, or the user's.

        Once the index had the new entry, files were in place: an old one was put back by the user.
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
        if digest != entry.file_after or entry.after is None:  # a removal again, for folders it left empty
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
