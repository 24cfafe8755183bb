"""git's own mutex on the index, taken so that a lock a killed run leaves is recognised as ours and dead.

A run makes a marker file `ktx-<token>.marker` in the git directory, locks it with `flock`, and hard-links it to
`index.lock`. Children that write inherit the descriptor. So as long as the run or one of its children lives, the
marker is locked; when it can be locked by another, whatever bears its token is a leftover.
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
from ktx_cli.project.repository.working_files import names_in, naming

WAIT_SECONDS = 10.0
"""How long to wait for another git command to release the index."""

WAIT_FOR_KTX_SECONDS = 60.0
"""How long to wait when the holder is another ktx, or a git child of a killed one."""

_OWN = re.compile(r"ktx-([0-9a-f]{16})\.(.+)")


class IndexLock:
    """The held lock; made by `hold_index`."""

    def __init__(self, layout: RepositoryLayout, token: str, descriptor: int) -> None:
        self._layout = layout
        self._token = token
        self.descriptor = descriptor
        self.index = index_path(layout)
        self.lock = self.index.with_name(self.index.name + ".lock")
        self.removed: list[str] = []

    def scratch(self, name: str) -> Path:
        """Return the path of a temporary file in the git directory that is removed with the lock."""
        return self.index.with_name(f"ktx-{self._token}.{name}")

    @property
    def token(self) -> str:
        """What all names of this run's temporary files hold."""
        return self._token

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
        """Make the copy the index, durably. Raises `BusyError` when somebody took our lock away."""
        if not _same_file(self.lock, self.scratch("marker")):
            raise BusyError(
                f"{self.lock} was taken away while ktx held it", hint="run the same command again to finish"
            )
        with naming(self.index), copy.open("rb") as stream:
            os.fsync(stream.fileno())
            os.replace(copy, self.index)
            sync_directory(self.index.parent)

    def release(self) -> None:
        """Give the lock back and remove everything temporary; the marker goes last."""
        marker = self.scratch("marker")
        try:
            with naming(self.lock, "remove"):
                if _same_file(self.lock, marker):
                    self.lock.unlink()
                _remove_scratch(self.index.parent, self._token)
                marker.unlink(missing_ok=True)
        finally:
            os.close(self.descriptor)


@contextlib.contextmanager
def hold_index(layout: RepositoryLayout) -> Iterator[IndexLock]:
    """Hold `index.lock` for a block, after removing what dead runs left.

    Raises `BusyError` that names the lock when another holds it for too long, `StorageError` when the git
    directory cannot be written.
    """
    lock = _marked(layout)
    try:
        _link(lock)
    except BaseException:
        lock.release()
        raise
    try:
        yield lock
    finally:
        lock.release()


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
def _claimed(marker: Path) -> Iterator[bool]:
    """Yield whether the marker's run is dead; while the block lasts nobody else can claim it."""
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
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
