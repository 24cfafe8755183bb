"""A damaged state database is moved aside, unless a process has it open; the next writer starts a new one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import struct
import time
from pathlib import Path
from typing import Final

from ktx_cli.core.clock import now
from ktx_cli.core.errors import BusyError, ResultWarning
from ktx_cli.core.text import shell_words
from ktx_cli.project.files import storage_error, sync_directory

_PRIMARY: Final = 0xFF
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

LOCK_SECONDS = 2.0
"""How long to wait for those who look at the damaged file at the same moment; a run has it open for much longer."""

Identity = tuple[int, int]
"""Device and inode: tells the damaged file from the one another run has put in its place meanwhile."""


def is_damage(error: sqlite3.Error) -> bool:
    """Say whether the file itself is broken; busy, full, forbidden and unreadable disks are not."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & _PRIMARY in _DAMAGED


def is_unreadable(error: sqlite3.Error) -> bool:
    """Say whether the system failed to read or write: a bad disk, or a file that somebody moved meanwhile."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & _PRIMARY == sqlite3.SQLITE_IOERR


def is_out_of_space(error: sqlite3.Error) -> bool:
    """Say whether there was no room for what SQLite had to write."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & _PRIMARY == sqlite3.SQLITE_FULL


def identity_of(path: Path) -> Identity | None:
    """Return which file is at `path`, None when there is none."""
    with contextlib.suppress(FileNotFoundError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None


def move_aside(path: Path, damaged: Identity | None) -> ResultWarning | None:
    """Rename the damaged database with what SQLite keeps beside it; None when it is not there any more.

    Raises `BusyError` when another process has it open, `StorageError` when it cannot be renamed.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(path, error) from error
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while not _is_ours(descriptor):
            if identity_of(path) != damaged:
                return None
            if time.monotonic() > deadline:
                raise _in_use(path)
            time.sleep(0.02)
        return _renamed(path) if identity_of(path) == damaged else None
    except OSError as error:
        raise storage_error(path, error, "move aside") from error
    finally:
        os.close(descriptor)


def _is_ours(descriptor: int) -> bool:
    """Lock the whole file, on which every open connection in WAL mode holds a lock; say whether nobody else does."""
    try:
        if hasattr(fcntl, "F_OFD_SETLK"):  # sees other connections of this process too
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        else:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _in_use(path: Path) -> BusyError:
    return BusyError(
        f"the state database {path} is damaged, and another process has it open",
        hint="wait until the other run has ended, then run the command again",
        details={"path": str(path)},
    )


def _renamed(path: Path) -> ResultWarning:
    """Rename, the database last: what a kill leaves is the damaged database alone, or nothing."""
    aside = _free_name(path)
    for suffix in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    sync_directory(path.parent)
    return ResultWarning(
        "state_damaged",
        f"the state database was damaged; it is now {aside.name} in {path.parent}, and a new one was started",
        hint=f"nothing committed is lost; once you need it no more: rm {shell_words(aside)}*",
        path=str(aside),
    )


def _free_name(path: Path) -> Path:
    stamp = now().strftime("%Y%m%dT%H%M%SZ")
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{stamp}-{number}")
    return aside
