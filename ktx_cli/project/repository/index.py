"""Reads and edits index files with git's own commands."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import time
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ktx_cli.core import BusyError, StorageError
from ktx_cli.project.files import storage_error, sync_directory
from ktx_cli.project.git import Git, lock_error
from ktx_cli.project.repository.model import IndexEntry, RepositoryLayout, TreeEntry, decode, encode, joined
from ktx_cli.project.repository.working_files import Signature, names_in, naming, signature_of

_MANY = 500
"""Number of paths at which git inspects the whole project instead of a list of paths."""

_FEW = 50
"""Maximum number of paths for `git add --refresh`, which compares each path with each entry in the index."""


@dataclass(frozen=True)
class IndexView:
    """The project's part of an index: path (relative to the project) -> entry; `unmerged` entries are in conflict."""

    entries: Mapping[str, IndexEntry]
    unmerged: frozenset[str]

    def has_folder(self, path: str) -> bool:
        """Return whether anything exists below `path`."""
        start = path + "/"
        position = bisect_left(self._names, start)
        return position < len(self._names) and self._names[position].startswith(start)

    @cached_property
    def _names(self) -> list[str]:
        return sorted({*self.entries, *self.unmerged})


def read_index(git: Git, layout: RepositoryLayout) -> IndexView:
    """Read the project's part of the index."""
    where = ("--", layout.prefix) if layout.prefix else ()
    output = git.read("ls-files", "--stage", "-v", "-z", "--full-name", *where)
    entries: dict[str, IndexEntry] = {}
    unmerged = set()
    skipped = len(encode(layout.prefix))
    for record in output.out.split(b"\0"):
        if record:
            facts, _, path = record.partition(b"\t")
            entry = _entry(facts)
            name = decode(path[skipped:])
            if entry.stage:
                unmerged.add(name)
            else:
                entries[name] = entry
    return IndexView(entries, frozenset(unmerged))


def _entry(facts: bytes) -> IndexEntry:
    tag, mode, oid, stage = facts.decode("ascii").split(" ")
    return IndexEntry(mode, oid, int(stage), skip_worktree=tag in "Ss", assume_unchanged=tag.islower())


def modified_paths(git: Git, layout: RepositoryLayout, paths: Collection[str]) -> frozenset[str]:
    """Return which tracked paths differ on disk from the index (content, type, mode, or missing), as git sees it.

    Entries marked assume-unchanged or skip-worktree never count.
    """
    full = [layout.prefix + path for path in paths]
    wanted = [layout.prefix] if len(full) > _MANY else full
    if not full:
        return frozenset()
    output = git.read("ls-files", "--modified", "-z", "--full-name", "--", *(encode(p) for p in wanted if p))
    found = (decode(path[len(encode(layout.prefix)) :]) for path in output.out.split(b"\0") if path)
    return frozenset(found) & frozenset(paths)


def committable_paths(git: Git, layout: RepositoryLayout, folder: str) -> list[str]:
    """Return the files below a folder of the project that `git add --all` would add or keep, sorted."""
    where = encode(f"{layout.prefix}{folder}")
    output = git.read("ls-files", "--cached", "--others", "--exclude-standard", "-z", "--full-name", "--", where)
    return sorted({decode(path[len(encode(layout.prefix)) :]) for path in output.out.split(b"\0") if path})


def ignored_paths(git: Git, layout: RepositoryLayout, paths: Collection[str]) -> frozenset[str]:
    """Return which paths git ignores; tracked paths never count."""
    if not paths:
        return frozenset()
    start = f"./{layout.prefix}"
    # check-ignore rejects literal pathspecs; with a leading `./`, no path is read as pathspec magic.
    literal = {"GIT_LITERAL_PATHSPECS": "0"}
    questions = joined(start + path for path in paths)
    output = git.read("check-ignore", "-z", "--stdin", stdin=questions, ok=(0, 1), variables=literal)
    return frozenset(decode(path).removeprefix(start) for path in output.out.split(b"\0") if path)


def edit_index(
    git: Git,
    layout: RepositoryLayout,
    index: Path,
    changes: Mapping[str, TreeEntry | None],
    flags_of: Mapping[str, IndexEntry] | None = None,
) -> None:
    """Set or (None) remove entries in an index file; paths are full.

    git drops the skip-worktree and assume-unchanged flags of an entry that is set, so those in `flags_of` are set
    again; one command can only set one of the two.
    """
    if not changes:
        return
    git.write("update-index", "-z", "--index-info", stdin=_index_info(changes, layout.zeros), index=index)
    kept = [(path, flags) for path, flags in (flags_of or {}).items() if changes.get(path) is not None]
    skipped = [path for path, flags in kept if flags.skip_worktree]
    assumed = [path for path, flags in kept if flags.assume_unchanged]
    for option, paths in (("--skip-worktree", skipped), ("--assume-unchanged", assumed)):
        if paths:
            git.write("update-index", option, "-z", "--stdin", stdin=joined(paths), index=index)


def _index_info(changes: Mapping[str, TreeEntry | None], zeros: str) -> bytes:
    lines = []
    for path, entry in sorted(changes.items(), key=lambda change: change[1] is not None):
        mode, oid = ("0", zeros) if entry is None else (entry.mode, entry.oid)
        lines.append(f"{mode} {oid}\t".encode("ascii") + encode(path) + b"\0")
    return b"".join(lines)


def refresh_index(git: Git, layout: RepositoryLayout, index: Path, paths: Iterable[str]) -> None:
    """Update the entries of full paths with the stat data of their files, so that git need not read the files again."""
    wanted = list(paths)
    if not wanted:
        return
    if len(wanted) > _FEW:
        wanted = [layout.prefix or "."]
    sparse = ("--sparse",) if git.binary.number >= (2, 34) else ()
    git.write(
        "add", "--refresh", *sparse, "--pathspec-from-file=-", "--pathspec-file-nul", stdin=joined(wanted), index=index
    )


WAIT_SECONDS = 10.0
"""How long to wait for another git command to release the index."""

WAIT_FOR_KTX_SECONDS = 60.0
"""How long to wait if the holder is another ktx, or a git child of a killed one."""

_OWN = re.compile(r"ktx-([0-9a-f]{16})\.(.+)")


class IndexLock:
    """A run's marker, and git's index lock while it is held; created by `announced` and `hold_index`."""

    def __init__(self, layout: RepositoryLayout, token: str, descriptor: int) -> None:
        self._layout = layout
        self.token = token
        """A text contained in the names of all temporary files of this run."""
        self.descriptor = descriptor
        self.index = index_path(layout)
        self.lock = self.index.with_name(self.index.name + ".lock")
        self.removed: list[str] = []
        self._taken = False

    def scratch(self, name: str) -> Path:
        """Return the path of a temporary file in the git directory that is removed with the lock."""
        return self.index.with_name(f"ktx-{self.token}.{name}")

    def index_state(self) -> Signature | None:
        """Return what distinguishes this index from one that another git command writes; None if there is none."""
        return signature_of(self.index)

    def take(self) -> None:
        """Take `index.lock`, unless it is already held. Raises `BusyError` that names it, `StorageError`."""
        if not self._taken:
            _link(self)
            self._taken = True

    def give_back(self) -> None:
        """Release `index.lock` if it is held."""
        self._taken = False
        with naming(self.lock, "remove"):
            if _same_file(self.lock, self.scratch("marker")):
                self.lock.unlink()

    def living(self) -> frozenset[str]:
        """Return the tokens of other runs with a marker, after removing dead ones."""
        found = (_OWN.fullmatch(name) for name in names_in(self.index.parent) if name.endswith(".marker"))
        return frozenset(match.group(1) for match in found if match) - {self.token}

    def copy_index(self, name: str) -> Path:
        """Copy the index (nothing if there is none yet) and return the path of the copy.

        The copy keeps the modification time to the nanosecond: git compares it with the times of the files to know
        which of them it must read to detect a change. With a younger copy it would miss edits of other files.
        """
        copy = self.scratch(name)
        with naming(copy):
            copy.unlink(missing_ok=True)
            with contextlib.suppress(FileNotFoundError):
                shutil.copy2(self.index, copy)
        return copy

    def swap(self, copy: Path) -> None:
        """Make the copy the index, durably, and release the lock. Raises `BusyError` if the lock was taken away."""
        if not _same_file(self.lock, self.scratch("marker")):
            message = f"{self.lock} was removed while ktx held it"
            raise BusyError(message, hint="run the same command again to finish")
        with naming(self.index), copy.open("rb") as stream:
            os.fsync(stream.fileno())
            os.replace(copy, self.index)
            self.give_back()
            sync_directory(self.index.parent)

    def release(self) -> None:
        """Release the lock and remove everything temporary; the marker is removed last."""
        try:
            self.give_back()
            with naming(self.index.parent, "remove temporary files of"):
                _remove_scratch(self.index.parent, self.token)
                self.scratch("marker").unlink(missing_ok=True)
        finally:
            os.close(self.descriptor)


@contextlib.contextmanager
def announced(layout: RepositoryLayout) -> Iterator[IndexLock]:
    """Yield a lock that is not held yet, after removing what dead runs left and waiting for live ones.

    Raises `BusyError`, which names the marker of a run that takes too long, `StorageError` if the git directory is not
    writable.
    """
    removed = _await_others(layout)
    lock = _marked(layout)
    lock.removed += removed
    try:
        yield lock
    finally:
        lock.release()


@contextlib.contextmanager
def hold_index(layout: RepositoryLayout) -> Iterator[IndexLock]:
    """Hold `index.lock` for a block; raises the errors of `announced` and `IndexLock.take`."""
    with announced(layout) as lock:
        lock.take()
        yield lock


def leftover_lock(layout: RepositoryLayout) -> Path | None:
    """Return `index.lock` if left by a run that is dead with all its children; None otherwise. Writes nothing."""
    index = index_path(layout)
    lock = index.with_name(index.name + ".lock")
    if not lock.exists():
        return None
    for marker in _markers(index.parent):
        if _same_file(lock, marker):
            with _claimed(marker, fcntl.LOCK_SH) as dead:
                return lock if dead else None
    return None


def _markers(folder: Path) -> list[Path]:
    """Return the run markers in a git directory."""
    return [folder / name for name in names_in(folder) if name.endswith(".marker") and _OWN.fullmatch(name)]


def index_path(layout: RepositoryLayout) -> Path:
    """Return the index file, following symbolic links, as git does when it locks it."""
    return Path(os.path.realpath(layout.git_dir / "index"))


def has_leftovers(layout: RepositoryLayout) -> bool:
    """Return whether any temporary file of a run exists, dead or alive."""
    return any(_OWN.fullmatch(name) for name in names_in(index_path(layout).parent))


def clear_dead(layout: RepositoryLayout) -> list[str]:
    """Remove index locks and temporary files whose run and children are all dead; return their names."""
    index = index_path(layout)
    removed: list[str] = []
    with naming(index.parent):
        tokens = {match.group(1) for name in names_in(index.parent) if (match := _OWN.fullmatch(name))}
        for token in sorted(tokens):
            removed += _clear_token(index, token)
    return removed


def _clear_token(index: Path, token: str) -> list[str]:
    marker = index.with_name(f"ktx-{token}.marker")
    lock = index.with_name(index.name + ".lock")
    removed: list[str] = []
    with _claimed(marker) as dead:
        if not dead:
            return []
        # Nobody else removes this lock: that requires the marker's flock, which we hold.
        if _same_file(lock, marker):
            lock.unlink()
            removed.append(lock.name)
        removed += _remove_scratch(index.parent, token)
        with contextlib.suppress(FileNotFoundError):
            marker.unlink()
            removed.append(marker.name)
    return removed


def _await_others(layout: RepositoryLayout) -> list[str]:
    """Remove what dead runs left and wait until no other run is active; return the names of removed files.

    Two runs that start at the same moment may both find nobody: the index lock and the branch's old value then decide.
    """
    deadline = time.monotonic() + WAIT_FOR_KTX_SECONDS
    removed: list[str] = []
    while has_leftovers(layout):
        removed += clear_dead(layout)
        # A marker that cannot be read belongs to another user, so its state is unknown.
        markers = [marker for marker in _markers(index_path(layout).parent) if os.access(marker, os.R_OK)]
        if not markers:
            break
        if time.monotonic() > deadline:
            raise BusyError(
                f"another ktx, or a git command of an interrupted one, is still running in {layout.top_level}",
                hint="wait until it has finished, then run the command again",
                details={"marker": str(markers[0])},
            )
        time.sleep(0.02)
    return removed


def _marked(layout: RepositoryLayout) -> IndexLock:
    """Return a lock whose marker exists and is locked, but is not linked yet."""
    while True:
        token = secrets.token_hex(8)
        marker = index_path(layout).parent / f"ktx-{token}.marker"
        try:
            descriptor = os.open(marker, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise storage_error(marker, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            os.close(descriptor)
            marker.unlink(missing_ok=True)
            raise storage_error(marker, error, "lock") from error
        # Another run may have considered the unlocked marker dead and removed it.
        if os.fstat(descriptor).st_nlink:
            return IndexLock(layout, token, descriptor)
        os.close(descriptor)


def _link(held: IndexLock) -> None:
    start = time.monotonic()
    while True:
        try:
            os.link(held.scratch("marker"), held.lock)
            return
        except FileExistsError:
            held.removed += clear_dead(held._layout)
        except OSError as error:
            raise _link_error(held.lock, error) from error
        if not os.path.lexists(held.lock):
            continue
        patience = WAIT_FOR_KTX_SECONDS if _is_ktx(held.lock) else WAIT_SECONDS
        if time.monotonic() - start > patience:
            raise lock_error(held.lock)
        time.sleep(0.02)


def _link_error(lock: Path, error: OSError) -> StorageError:
    if error.errno in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
        message = f"the file system of {lock.parent} has no hard links, which ktx needs to lock the index safely"
        return StorageError(message, hint="move the repository to another file system", details={"path": str(lock)})
    return storage_error(lock, error)


def _is_ktx(lock: Path) -> bool:
    return any(_same_file(lock, marker) for marker in _markers(lock.parent))


@contextlib.contextmanager
def _claimed(marker: Path, kind: int = fcntl.LOCK_EX) -> Iterator[bool]:
    """Yield whether the marker's run is dead; during the block nobody else can claim it (`LOCK_SH`: only check)."""
    try:
        descriptor = os.open(marker, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:  # temporary files without a marker: the marker is created first and removed last
        yield True
        return
    except PermissionError:  # another user's, which we cannot judge
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def _remove_scratch(folder: Path, token: str) -> list[str]:
    """Remove all files with a token except the marker."""
    removed = []
    for name in names_in(folder):
        if name.startswith(f"ktx-{token}.") and not name.endswith(".marker"):
            with contextlib.suppress(FileNotFoundError):
                (folder / name).unlink()
                removed.append(name)
    return removed


def _same_file(one: Path, other: Path) -> bool:
    try:
        return os.path.samestat(one.lstat(), other.lstat())
    except FileNotFoundError:
        return False
