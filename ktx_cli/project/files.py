"""Whole-file writes that are either done or not begun, and reads that name the path when they fail."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path

from ktx_cli.core.errors import StorageError


def storage_error(path: Path, error: OSError, doing: str = "write") -> StorageError:
    """Return the error for a failed file operation, with the path and what would help."""
    hints = {
        errno.ENOSPC: "free some space on that disk, then run the command again",
        errno.EDQUOT: "free some of your disk quota, then run the command again",
        errno.EROFS: "the file system is read-only: remount it writable, or copy the project elsewhere",
        errno.EACCES: f"give this user access, for example: chmod u+rw {path}",
        errno.EPERM: f"give this user access, for example: chmod u+rw {path}",
    }
    reason = error.strerror or str(error)
    hint = hints.get(error.errno) if error.errno is not None else None
    return StorageError(
        f"cannot {doing} {path}: {reason}",
        hint=hint,
        details={"path": str(path), "errno": errno.errorcode.get(error.errno or 0)},
    )


def read_bytes(path: Path) -> bytes | None:
    """Return the file's bytes, or None where there is no such file.

    Raises `StorageError` when the file is there and cannot be read.
    """
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise storage_error(path, error, "read") from error


def write_atomic(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace `path` by `data`: temporary file in the same folder, fsync, rename, fsync of the folder.

    `mode` sets the permissions of a new file; an existing file keeps its own unless `mode` is given.
    Raises `StorageError`; the old content is then still in place and no temporary file is left.
    """
    temporary = path.with_name(f".{path.name[:80]}.{secrets.token_hex(4)}.ktx-tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        wanted = mode if mode is not None else _mode_of(path)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, wanted or 0o666)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                if wanted is not None:
                    os.fchmod(stream.fileno(), wanted)
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        sync_directory(path.parent)
    except OSError as error:
        raise storage_error(path, error) from error


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that killed writers left below `folder`; nobody else may be writing there."""
    for path in folder.rglob(".*.ktx-tmp"):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def remove_leftovers_of(path: Path) -> None:
    """Remove the temporary files that killed writers of one file left beside it; nobody else may be writing it."""
    for leftover in path.parent.glob(f".{path.name}.*.ktx-tmp"):
        with contextlib.suppress(FileNotFoundError, PermissionError):
            leftover.unlink()


def sync_directory(folder: Path) -> None:
    """Make a rename in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mode_of(path: Path) -> int | None:
    try:
        return path.stat().st_mode & 0o7777
    except FileNotFoundError:
        return None
