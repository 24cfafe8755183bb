"""Whose a demo folder is: a locked marker while it is built, so that what a killed demo left is recognised."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ktx_cli.core.errors import BusyError, UsageError
from ktx_cli.project.files import storage_error

PREFIX: Final = ".ktx-demo-"
"""Begins the names of the marker and of the scratch folders beside it."""

SUFFIX: Final = ".marker"


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[bool]:
    """Claim a new or empty folder for a block, or one that a demo left half-built; yields whether it is the latter.

    The marker stays when the block fails, for the next demo to go on. Raises `UsageError` when the folder holds
    something else, `BusyError` while another demo is at work in it, `StorageError`.
    """
    names = _names(folder)
    old = [name for name in names if name.startswith(PREFIX) and name.endswith(SUFFIX)]
    if names and not old:
        raise UsageError(f"{folder} exists and is not empty", hint="ktx demo OTHER-FOLDER")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        marker = folder / (old[0] if old else f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}")
        descriptor = os.open(marker, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise storage_error(folder, error, "create") from error
    try:
        _lock(descriptor, folder)
        if old:
            _remove_scratch(folder)
        yield bool(old)
        marker.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise UsageError(f"{folder} exists and is no folder", hint="ktx demo OTHER-FOLDER") from None
    except OSError as error:
        raise storage_error(folder, error, "look into") from error


def _lock(descriptor: int, folder: Path) -> None:
    """Lock the marker; the system gives the lock of a killed process back."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BusyError(
            f"another `ktx demo` is at work in {folder}", hint="wait until it is done, or: ktx demo OTHER-FOLDER"
        ) from None
    if not os.fstat(descriptor).st_nlink:
        raise BusyError(f"another `ktx demo` has just ended in {folder}", hint="ktx demo OTHER-FOLDER")


def _remove_scratch(folder: Path) -> None:
    """Remove the scratch folders of the dead; whoever could be alive would hold the marker."""
    for path in folder.glob(f"{PREFIX}*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
