"""git's own mutex on the index, taken so that a lock a killed run leaves is recognised as ours and dead.

A run makes a marker file `ktx-<token>.marker` in the git directory and locks it with `flock`. Children that write
inherit the descriptor. So as long as the run or one of its children lives, the marker is locked; when it can be locked
by another, whatever bears its token is a leftover. `index.lock` is a hard link to the marker, made only for the last
steps: everything is prepared without it, and what `index_state` says tells whether the index is still the one judged.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from ktx_cli.core.errors import BusyError, StorageError
from ktx_cli.project.files import storage_error, sync_directory
from ktx_cli.project.git import lock_error
from ktx_cli.project.repository.model import RepositoryLayout
from ktx_cli.project.repository.working_files import Signature, names_in, naming, signature_of

WAIT_SECONDS = 10.0
"""How long to wait for another git command to release the index."""

WAIT_FOR_KTX_SECONDS = 60.0
"""How long to wait when the holder is another ktx, or a git child of a killed one."""

_OWN = re.compile(r"ktx-([0-9a-f]{16})\.(.+)")


class IndexLock:
    """A run's marker, and git's lock on the index while it is taken; made by `announced` and `hold_index`."""

    def __init__(self, layout: RepositoryLayout, token: str, descriptor: int) -> None:
        self._layout = layout
        self._token = token
        self.descriptor = descriptor
        self.index = index_path(layout)
        self.lock = self.index.with_name(self.index.name + ".lock")
        self.removed: list[str] = []
        self._taken = False

    def scratch(self, name: str) -> Path:
        """Return the path of a temporary file in the git directory that is removed with the lock."""
        return self.index.with_name(f"ktx-{self._token}.{name}")

    @property
    def token(self) -> str:
        """What all names of this run's temporary files hold."""
        return self._token

    def index_state(self) -> Signature | None:
        """Return what tells this index from the one another git command writes; None when there is none."""
        return signature_of(self.index)

    def take(self) -> None:
        """Take `index.lock`, unless it is taken already. Raises `BusyError` that names it, `StorageError`."""
        if not self._taken:
            _link(self)
            self._taken = True

    def give_back(self) -> None:
        """Give `index.lock` back, if it is taken."""
        self._taken = False
        with naming(self.lock, "remove"):
            if _same_file(self.lock, self.scratch("marker")):
                self.lock.unlink()

    def living(self) -> frozenset[str]:
        """Return the tokens of the other runs whose marker is there; dead ones are cleared before."""
        found = (_OWN.fullmatch(name) for name in names_in(self.index.parent) if name.endswith(".marker"))
        return frozenset(match.group(1) for match in found if match) - {self._token}

    def copy_index(self, name: str) -> Path:
        """Copy the index (nothing, when there is none yet) and return the copy's path.

        The copy keeps the modification time to the nanosecond: git compares it with those of the files to know
        which of them it must read to see a change. A younger copy would make it miss edits of other files.
        """
        copy = self.scratch(name)
        with naming(copy):
            copy.unlink(missing_ok=True)
            with contextlib.suppress(FileNotFoundError):
                shutil.copy2(self.index, copy)
        return copy

    def swap(self, copy: Path) -> None:
        """Make the copy the index, durably, and give the lock back. `BusyError` when somebody took it away."""
        if not _same_file(self.lock, self.scratch("marker")):
            raise BusyError(
                f"{self.lock} was taken away while ktx held it", hint="run the same command again to finish"
            )
        with naming(self.index), copy.open("rb") as stream:
            os.fsync(stream.fileno())
            os.replace(copy, self.index)
            self.give_back()
            sync_directory(self.index.parent)

    def release(self) -> None:
        """Give the lock back and remove everything temporary; the marker goes last."""
        try:
            self.give_back()
            with naming(self.index.parent, "remove temporary files of"):
                _remove_scratch(self.index.parent, self._token)
                self.scratch("marker").unlink(missing_ok=True)
        finally:
            os.close(self.descriptor)


@contextlib.contextmanager
def announced(layout: RepositoryLayout) -> Iterator[IndexLock]:
    """Yield a lock that is not taken yet, after removing what dead runs left and waiting for living ones.

    Raises `BusyError` that names the marker of a run that goes on for too long, `StorageError` when the git
    directory cannot be written.
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
    """Hold `index.lock` for a block; raises as `announced` and `IndexLock.take` do."""
    with announced(layout) as lock:
        lock.take()
        yield lock


def leftover_lock(layout: RepositoryLayout) -> Path | None:
    """Return `index.lock` when a run that is dead, with all its children, left it; None otherwise. Writes nothing."""
    index = index_path(layout)
    lock = index.with_name(index.name + ".lock")
    if not lock.exists():
        return None
    for name in names_in(index.parent):
        marker = index.with_name(name)
        if name.endswith(".marker") and _OWN.fullmatch(name) and _same_file(lock, marker):
            with _claimed(marker, fcntl.LOCK_SH) as dead:
                return lock if dead else None
    return None


def index_path(layout: RepositoryLayout) -> Path:
    """Return the index file, seen through symbolic links, as git does when it locks it."""
    return Path(os.path.realpath(layout.git_dir / "index"))


def has_leftovers(layout: RepositoryLayout) -> bool:
    """Say whether there is any temporary file of a run, dead or alive."""
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
        # Nobody else removes this lock: that takes the marker's flock, which is ours now.
        if _same_file(lock, marker):
            lock.unlink()
            removed.append(lock.name)
        removed += _remove_scratch(index.parent, token)
        with contextlib.suppress(FileNotFoundError):
            marker.unlink()
            removed.append(marker.name)
    return removed


def _await_others(layout: RepositoryLayout) -> list[str]:
    """Remove what dead runs left and wait until no other is at work; return the names of what was removed.

    Two runs that begin at the same moment may both find nobody: the index lock and the branch's old value decide then.
    """
    deadline = time.monotonic() + WAIT_FOR_KTX_SECONDS
    removed: list[str] = []
    while has_leftovers(layout):
        removed += clear_dead(layout)
        folder = index_path(layout).parent
        markers = [name for name in names_in(folder) if name.endswith(".marker") and _OWN.fullmatch(name)]
        markers = [name for name in markers if os.access(folder / name, os.R_OK)]  # else another user's: no telling
        if not markers:
            break
        if time.monotonic() > deadline:
            raise BusyError(
                f"another ktx, or a git command of one that was interrupted, is still at work in {layout.top_level}",
                hint="wait until it is done, then run the command again",
                details={"marker": str(folder / markers[0])},
            )
        time.sleep(0.02)
    return removed


def _marked(layout: RepositoryLayout) -> IndexLock:
    """Return a lock whose marker is there and locked, not linked yet."""
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
        # Another run may have taken the unlocked marker for a dead one and removed it.
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
        return StorageError(
            f"the file system of {lock.parent} has no hard links, which ktx needs to lock the index safely",
            hint="move the repository to another file system",
            details={"path": str(lock)},
        )
    return storage_error(lock, error)


def _is_ktx(lock: Path) -> bool:
    return any(
        _same_file(lock, lock.parent / name)
        for name in names_in(lock.parent)
        if name.endswith(".marker") and _OWN.fullmatch(name)
    )


@contextlib.contextmanager
def _claimed(marker: Path, kind: int = fcntl.LOCK_EX) -> Iterator[bool]:
    """Yield whether the marker's run is dead; while the block lasts nobody else can claim it (`LOCK_SH`: look only)."""
    try:
        descriptor = os.open(marker, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:  # temporary files without a marker: the marker is made first and removed last
        yield True
        return
    except PermissionError:  # another user's: not ours to judge
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
    """Remove all files with a token but the marker."""
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
