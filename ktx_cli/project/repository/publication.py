"""One attempt to publish a plan: all is prepared without git's index lock, so that under it only renames are left."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import BusyError, Command, GitError, Hint, KtxError
from ktx_cli.project.files import read_bytes, sync_directory, write_atomic
from ktx_cli.project.git import Git, failure
from ktx_cli.project.layout import Layout
from ktx_cli.project.repository.commit_plan import Change, Condition, Plan, Way
from ktx_cli.project.repository.discovery import commit_of
from ktx_cli.project.repository.index import IndexLock, edit_index, refresh_index
from ktx_cli.project.repository.model import (
    AdjustFunction,
    CommitResult,
    Head,
    MergeFunction,
    RepositoryLayout,
    TreeEntry,
    check_paths,
)
from ktx_cli.project.repository.trees import Conversion, store_blobs
from ktx_cli.project.repository.working_files import (
    NewFile,
    Placement,
    Signature,
    Undo,
    check_places,
    digest_of,
    naming,
    place_all,
    signature_of,
    stage,
)

TOUCHED = "touched"
"""Stands in the journal for the digest of a file that changed after it was judged: matches nothing."""


class Missed(Enum):
    """What another program changed before an attempt could publish."""

    INDEX = "index"
    BRANCH = "branch"


@dataclass(frozen=True, slots=True)
class Request:
    """What to commit, as `Repository.commit` takes it."""

    changes: Mapping[str, bytes | None]
    message: str
    base: str | None
    author: str | None
    merge: MergeFunction
    before_publish: Callable[[], None] | None
    adjust: AdjustFunction | None = None
    spared: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """What all attempts of a run share; `staging` is where its new files wait."""

    git: Git
    layout: RepositoryLayout
    lock: IndexLock
    request: Request
    identity: Mapping[str, str]
    conversion: Conversion
    staging: Path


class Attempt:
    """A plan for the tip `head`; `conditions` are what its paths were judged by, `index` the state it had then."""

    def __init__(
        self, run: Run, plan: Plan, conditions: Mapping[str, Condition], head: Head, index: Signature | None
    ) -> None:
        self._shared = run
        self._git = run.git
        self._layout = run.layout
        self._plan = plan
        self._conditions = conditions
        self._head = head
        self._index = index
        self._replaced: dict[str, str] = {}

    def run(self) -> CommitResult | Missed:
        """Return the result, or what had changed so that nothing was done."""
        plan, request, lock = self._plan, self._shared.request, self._shared.lock
        commit = self._commit_object() if plan.committed else None
        contents = self._contents()
        finish = self._prepare(contents)
        journal = None if commit is None else self._journal(commit, contents)
        if journal is not None:
            lock.take()
            if lock.index_state() != self._index:
                return Missed.INDEX
        if request.before_publish is not None:
            request.before_publish()
        if journal is not None and not self._publish(journal):
            return Missed.BRANCH
        return CommitResult(
            commit,
            committed=tuple(change.path for change in plan.committed),
            held=tuple(plan.held),
            ignored=plan.ignored,
            left=self._finish(finish, commit),
            merged=tuple(plan.merged),
            replaced=self._replaced,
        )

    def _commit_object(self) -> str:
        """Store blobs, tree and commit; return the commit's id."""
        changes = self._plan.committed
        fresh = [change.blob.data for change in changes if change.blob is not None and change.blob.data is not None]
        store_blobs(self._git, self._layout.git_dir, fresh)
        parent = self._head.commit
        scratch = self._shared.lock.scratch("tree")
        with naming(scratch):
            scratch.unlink(missing_ok=True)
        if parent is not None:
            self._git.write("-c", "core.splitIndex=false", "read-tree", parent, index=scratch)
        edit_index(self._git, self._layout, scratch, self._entries())
        tree = self._git.write("write-tree", index=scratch).out.decode("ascii").strip()
        message = self._shared.request.message.replace("\0", "").rstrip("\n").encode("utf-8", "replace") + b"\n"
        options = () if parent is None else ("-p", parent)
        output = self._git.write("commit-tree", tree, *options, stdin=message, variables=self._shared.identity)
        return output.out.decode("ascii").strip()

    def _contents(self) -> dict[str, bytes]:
        """Return path -> bytes on disk, for every file that is written."""
        prefix = self._layout.prefix
        blobs = {
            prefix + change.path: change.blob
            for change in self._plan.written
            if change.blob is not None and change.way is Way.WRITE
        }
        converted = self._shared.conversion.on_disk(blobs)
        contents = {path.removeprefix(prefix): content for path, content in converted.items()}
        for path in self._plan.ignored:
            content = self._shared.request.changes[path]
            if content is not None:
                contents[path] = content
        return contents

    def _prepare(self, contents: Mapping[str, bytes]) -> Finish:
        """Stage the files and edit a copy of the index."""
        from ktx_cli.project.state import prepare_private_folder

        prepare_private_folder(Layout(self._layout.project_dir))
        self._spare()
        written = self._plan.written
        files = {c.path: self._new_file(c, contents[c.path]) for c in written if c.path in contents}
        staged = stage(self._shared.staging, files)
        placements = tuple(Placement(c.path, staged.get(c.path), self._conditions[c.path].found) for c in written)
        check_places(self._layout.project_dir, placements)
        refreshed = (c.path for c in self._plan.committed if c.new is not None and not self._is_skipped(c.path))
        return Finish(self._index_copy(), placements, tuple(refreshed))

    def _spare(self) -> None:
        """Keep the old content of files without a history."""
        layout = Layout(self._layout.project_dir)
        for path in self._plan.ignored:
            old = read_bytes(layout.root / path) if path in self._shared.request.spared else None
            if old is not None:
                kept = layout.replaced / f"{hashlib.sha256(old).hexdigest()[:12]}-{path.rpartition('/')[2][-100:]}"
                write_atomic(kept, old)
                self._replaced[path] = kept.relative_to(layout.root).as_posix()

    def _is_skipped(self, path: str) -> bool:
        entry = self._conditions[path].entry
        return entry is not None and entry.skip_worktree

    def _new_file(self, change: Change, content: bytes) -> NewFile:
        executable = change.new is not None and change.new.mode == "100755"
        return NewFile(content, self._conditions[change.path].found, executable)

    def _index_copy(self) -> Path | None:
        changes = self._plan.committed
        if not changes:
            return None
        copy = self._shared.lock.copy_index("index")
        entries = {self._layout.prefix + change.path: self._conditions[change.path].entry for change in changes}
        flags = {path: entry for path, entry in entries.items() if entry is not None}
        edit_index(self._git, self._layout, copy, self._entries(), flags)
        return copy

    def _entries(self) -> dict[str, TreeEntry | None]:
        return {self._layout.prefix + change.path: change.new for change in self._plan.committed}

    def _publish(self, journal: Journal) -> bool:
        """Move the branch, with the journal on disk before; return False when the branch was not where it was.

        When it cannot be known whether the branch moved, the journal stays, and the next run finds out.
        """
        journal.save(self._layout.journal)
        old = self._head.commit or self._layout.zeros
        reason = self._shared.request.message.partition("\n")[0].replace("\0", "")
        output = self._git.write(
            "update-ref",
            "-m",
            f"commit (ktx): {reason}".encode("utf-8", "replace"),
            journal.ref,
            journal.new,
            old,
            ok=range(256),
            variables=self._shared.identity,
        )
        if output.code == 0:
            return True
        drop_journal(self._layout)
        if commit_of(self._git, journal.ref) == self._head.commit:
            raise failure("update-ref", output.code, output.err, self._layout.top_level)
        return False

    def _taken_back(self, undo: Undo, commit: str | None, error: KtxError) -> bool:
        """Put the old files back and the branch to where it was; say whether nothing of the run is left.

        Not once the index is the new one, nor while somebody else may be changing it. Where it does not succeed the
        journal stays, and the next run goes on.
        """
        if isinstance(error, BusyError) or self._shared.lock.index_state() != self._index:
            return False
        try:
            undo.take_back()
            if commit is None:
                return True
            assert self._head.ref is not None
            change = [self._head.ref, self._head.commit] if self._head.commit else ["-d", self._head.ref]
            reason = "ktx: taken back, because the files could not be written"
            words = ["update-ref", "-m", reason, *change, commit]
            if self._git.write(*words, ok=range(256), variables=self._shared.identity).code:
                return False
        except KtxError:  # the first error matters more
            return False
        with contextlib.suppress(KtxError):  # the next run drops a journal of a commit the branch does not have
            drop_journal(self._layout)
        return True

    def _journal(self, commit: str, contents: Mapping[str, bytes]) -> Journal:
        assert self._head.ref is not None
        entries = (self._journal_entry(change, contents.get(change.path)) for change in self._plan.committed)
        written: Iterable[str] = (change.path for change in self._plan.written)
        token = self._shared.lock.token
        return Journal(self._head.ref, self._head.commit, commit, token, tuple(entries), tuple(written))

    def _journal_entry(self, change: Change, content: bytes | None) -> JournalEntry:
        condition = self._conditions[change.path]
        before = None if condition.entry is None else TreeEntry(condition.entry.mode, condition.entry.oid)
        if change.way is Way.INDEX_ONLY:
            return JournalEntry(change.path, before, change.new, None, None, index_only=True)
        file = self._layout.project_dir / change.path
        digest = digest_of(file)
        if signature_of(file) != condition.found:
            digest = TOUCHED
        after = digest if change.way is Way.ADOPT else content_digest(content)
        return JournalEntry(change.path, before, change.new, digest, after)

    def _finish(self, finish: Finish, commit: str | None) -> tuple[str, ...]:
        undo = Undo(self._layout.project_dir, self._shared.staging)
        try:
            left = carry_out(self._git, self._layout, self._shared.lock, finish, undo)
            if commit is not None:
                drop_journal(self._layout)
        except KtxError as error:
            if not self._taken_back(undo, commit, error) and commit is not None:
                error.details["commit"] = commit
                note = f"the commit {commit[:10]} is made, and the next run brings the files to it"
                error.hint = note if error.hint is None else Hint("{}; {}", error.hint, note)
            raise
        return left


VERSION: Final = 1

_HEX: Final = re.compile(r"[0-9a-f]+")
_MODE: Final = re.compile(r"100644|100755")
_REF: Final = re.compile(r"refs/\S+")
_ANY: Final = re.compile(r".*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One path: its index entry before and after, and the SHA-256 of its file before and after (None: no file).

    `index_only`: a sparse checkout has no file there.
    """

    path: str
    before: TreeEntry | None
    after: TreeEntry | None
    file_before: str | None
    file_after: str | None
    index_only: bool = False


@dataclass(frozen=True, slots=True)
class Journal:
    """A move of `ref` from `old` (None: unborn) to `new`, by the run whose marker bears `token`.

    `written` are all paths whose files it may have been writing, ignored ones included.
    """

    ref: str
    old: str | None
    new: str
    token: str
    entries: tuple[JournalEntry, ...]
    written: tuple[str, ...]

    def save(self, path: Path) -> None:
        """Write the journal durably; `StorageError` when that fails."""
        data = {
            "version": VERSION,
            "ref": self.ref,
            "old": self.old,
            "new": self.new,
            "token": self.token,
            "entries": [_entry_data(entry) for entry in self.entries],
            "written": self.written,
        }
        write_atomic(path, json.dumps(data).encode("ascii"))

    @classmethod
    def load(cls, path: Path) -> Journal | None:
        """Return the journal, or None when there is none. Raises `GitError` for one that cannot be read."""
        text = read_bytes(path)
        if text is None:
            return None
        try:
            return _journal(json.loads(text))
        except (ValueError, LookupError, TypeError, GitError) as error:
            raise GitError(
                f"{path}, the record of a run that was killed, cannot be read",
                hint=Hint(
                    "look at `{}`: what it shows as changed may be half of that run; then {}",
                    Command("status", program="git"),
                    Command(path, program="rm"),
                ),
                details={"path": str(path), "reason": f"{type(error).__name__}: {error}"},
            ) from error


def _journal(data: Mapping[str, Any]) -> Journal:
    """Return the checked journal: nothing in it may reach outside the project or be taken for an option."""
    if data["version"] != VERSION:
        raise ValueError(f"version {data['version']}")
    journal = Journal(
        ref=_matching(data["ref"], _REF),
        old=None if data["old"] is None else _matching(data["old"], _HEX),
        new=_matching(data["new"], _HEX),
        token=_matching(data["token"], _HEX),
        entries=tuple(_entry(item) for item in data["entries"]),
        written=tuple(_matching(path, _ANY) for path in data["written"]),
    )
    check_paths([*journal.written, *(entry.path for entry in journal.entries)])
    return journal


def _entry_data(entry: JournalEntry) -> dict[str, Any]:
    return {
        "path": entry.path,
        "before": entry.before and [entry.before.mode, entry.before.oid],
        "after": entry.after and [entry.after.mode, entry.after.oid],
        "file_before": entry.file_before,
        "file_after": entry.file_after,
        "index_only": entry.index_only,
    }


def _entry(data: Mapping[str, Any]) -> JournalEntry:
    return JournalEntry(
        path=_matching(data["path"], _ANY),
        before=_tree_entry(data["before"]),
        after=_tree_entry(data["after"]),
        file_before=None if data["file_before"] is None else _matching(data["file_before"], _ANY),
        file_after=None if data["file_after"] is None else _matching(data["file_after"], _ANY),
        index_only=bool(data["index_only"]),
    )


def _tree_entry(data: Any) -> TreeEntry | None:
    return None if data is None else TreeEntry(_matching(data[0], _MODE), _matching(data[1], _HEX))


def _matching(value: object, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"{value!r} is not as ktx writes it")
    return value


@dataclass(frozen=True, slots=True)
class Finish:
    """What is left to do once the branch has the commit.

    `index`: a copy with the new entries (None: the index stays). `refreshed`: project paths whose entries get the
    stat data of their files.
    """

    index: Path | None
    placements: tuple[Placement, ...]
    refreshed: Collection[str]


def carry_out(
    git: Git, layout: RepositoryLayout, lock: IndexLock, finish: Finish, undo: Undo | None = None
) -> tuple[str, ...]:
    """Put files and index in place; return the paths whose files were touched meanwhile and left alone.

    `undo` keeps the old files.
    """
    left = place_all(layout, finish.placements, undo)
    if finish.index is not None:
        known = [path for path in finish.refreshed if path not in left]
        refresh_index(git, layout, finish.index, (layout.prefix + path for path in known))
        lock.swap(finish.index)
    return tuple(sorted(left))


def drop_journal(layout: RepositoryLayout) -> None:
    """Remove the journal, durably."""
    with naming(layout.journal, "remove"):
        layout.journal.unlink(missing_ok=True)
        if layout.private.is_dir():
            sync_directory(layout.private)


def content_digest(content: bytes | None) -> str | None:
    """Return the SHA-256 of a content, None for no file."""
    return None if content is None else hashlib.sha256(content).hexdigest()
