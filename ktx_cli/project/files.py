"""Atomic whole-file writes, reads that name the path when they fail, and programs on PATH."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from ktx_cli.core import Command, Hint, Placeholder, StorageError, is_utf8

FULL_BYTES: Final = 65536


def storage_error(path: Path, error: OSError, doing: str = "write") -> StorageError:
    """Return the error for a failed file operation, with the path and a hint."""
    hints = {
        errno.ENOSPC: "free some space on that disk, then run the command again",
        errno.EDQUOT: "free some of your disk quota, then run the command again",
        errno.EROFS: "the file system is read-only: remount it writable, or copy the project elsewhere",
    }
    reason = error.strerror or str(error)
    if error.errno in (errno.EACCES, errno.EPERM):
        hint: str | None = _access_hint(path)
    elif error.errno == errno.EISDIR:
        hint = f"move that folder away, for example: {_moved(path)}"
    else:
        hint = hints.get(error.errno or 0)
    message = f"cannot {doing} {path}: {reason}"
    return StorageError(message, hint=hint, details={"path": str(path), "errno": errno.errorcode.get(error.errno or 0)})


def is_full(path: Path) -> bool:
    """Return whether the disk of a file or folder is nearly full: programs often only report that a write failed."""
    with contextlib.suppress(OSError):
        free = os.statvfs(path if path.exists() else path.parent)
        return free.f_bavail * free.f_frsize < FULL_BYTES
    return False


def _access_hint(path: Path) -> str:
    """Return the command that gives this user access to the file or folder that blocks `path`."""
    barred = _barred(path)
    try:
        found = barred.stat()
    except OSError:
        return Hint("see who may change it: {}", Command("-ld", barred, program="ls"))
    is_folder = stat.S_ISDIR(found.st_mode)
    wanted = 0o700 if is_folder else 0o600
    if os.geteuid() not in (0, found.st_uid):
        take = Command("chown", Placeholder('"$(id -un)"'), barred, program="sudo")
        return Hint("it belongs to another user; to take ownership: {}", take)
    if found.st_mode & wanted == wanted:
        return Hint("see what protects it: {}", Command("-d", barred, program="lsattr"))
    message = "give this user access, for example: {}"
    return Hint(message, Command("u+rwx" if is_folder else "u+rw", barred, program="chmod"))


def _barred(path: Path) -> Path:
    """Return what blocks access: the nearest existing ancestor, or its folder if that accepts no new file."""
    there = path
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if there == path and not path.is_dir() and can_read(path) and not can_write_in(path.parent):
        return path.parent
    return there


def found_program(environ: Mapping[str, str], name: str = "ktx") -> Path | None:
    """Return the path of a program on PATH, or None if there is none."""
    found = shutil.which(name, path=environ.get("PATH", os.defpath))
    return Path(os.path.abspath(found)) if found else None  # noqa: PTH100 - resolve() would follow links


def can_write_in(folder: Path) -> bool:
    """Return whether this user may create and remove files in an existing folder."""
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)


def can_read(path: Path) -> bool:
    """Return whether this user may read an existing file."""
    return os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids)


def _moved(path: Path) -> str:
    return Command(path, path.with_name(f"{path.name}.old"), program="mv")


def require_regular(path: Path, mode: int) -> None:
    """Raise `StorageError` if `path`, by its `st_mode`, is not a regular file; reading a pipe would block forever."""
    if stat.S_ISREG(mode):
        return
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a link"}
    kind = kinds.get(stat.S_IFMT(mode), "a device")
    message = f"{path} is {kind}, but ktx needs a file there"
    raise StorageError(message, hint=f"move it away, for example: {_moved(path)}", details={"path": str(path)})


def read_bytes(path: Path) -> bytes | None:
    """Return the file's bytes, or None if there is no such file.

    Raises `StorageError` if the file exists but cannot be read, or is not a regular file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            require_regular(path, os.fstat(descriptor).st_mode)
            with open(descriptor, "rb", closefd=False) as stream:
                return stream.read()
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise storage_error(path, error, "read") from error


def write_atomic(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace `path` with `data`: temporary file in the same folder, fsync, rename, fsync of the folder.

    `mode` sets the permissions of a new file; an existing file keeps its own unless `mode` is given, and keeps its
    owner if root writes. Raises `StorageError`; the old content is then still in place and no temporary file remains.
    """
    temporary = path.with_name(f".{path.name[:80]}.{secrets.token_hex(4)}.ktx-tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        before = _stat_of(path)
        wanted = mode if mode is not None or before is None else stat.S_IMODE(before.st_mode)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, wanted or 0o666)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                fcntl.flock(descriptor, fcntl.LOCK_EX)  # whoever finds it unlocked knows that its writer was killed
                if before is not None and os.geteuid() == 0:
                    os.fchown(descriptor, before.st_uid, before.st_gid)
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


@contextlib.contextmanager
def replacing(path: Path, *, mode: int) -> Iterator[Path]:
    """Yield the path of an empty temporary file, which replaces `path` when the block ends, as `write_atomic` does.

    If the block fails, the file at `path` is unchanged. Raises `StorageError`.
    """
    temporary = path.with_name(f".{path.name[:80]}.{secrets.token_hex(4)}.ktx-tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        before = _stat_of(path)
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if before is not None and os.geteuid() == 0:
                os.fchown(descriptor, before.st_uid, before.st_gid)
            os.fchmod(descriptor, mode)
            yield temporary
            os.fsync(descriptor)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        finally:
            os.close(descriptor)
        sync_directory(path.parent)
    except OSError as error:
        raise storage_error(path, error) from error


def remove_file(path: Path) -> None:
    """Remove a file, which need not exist. Raises `StorageError`."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise storage_error(path, error, "remove") from error


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of killed writers below `folder`; nobody else may be writing there."""
    for path in folder.rglob(".*.ktx-tmp"):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def remove_leftovers_of(path: Path) -> None:
    """Remove temporary files that killed writers of one file left next to it; nobody else may be writing it."""
    for leftover in path.parent.glob(f".{path.name}.*.ktx-tmp"):
        with contextlib.suppress(FileNotFoundError, PermissionError):
            leftover.unlink()


def remove_dead_leftovers_of(path: Path) -> None:
    """Remove temporary files that killed writers of one file left next to it, but not those of live writers."""
    for leftover in path.parent.glob(f".{glob.escape(path.name[:80])}.*.ktx-tmp"):
        with contextlib.suppress(OSError):  # it belongs to another user, was removed, or its writer is running
            descriptor = os.open(leftover, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                leftover.unlink()
            finally:
                os.close(descriptor)


def sync_directory(folder: Path) -> None:
    """Make a rename in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _stat_of(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def hash_of(parts: Iterable[str]) -> str:
    """Return one hash of several texts."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def signatures_below(
    root: Path | None, folder: str, endings: tuple[str, ...], *, irregular: bool = False
) -> dict[str, str]:
    """Return path -> `size mtime_ns` for the files with certain extensions in a folder and its subfolders.

    `irregular`: also include items that are not regular files, such as a folder or a broken link. Links to folders are
    not followed, and names that are not UTF-8 are skipped. Raises `StorageError` for a folder that cannot be read.
    """
    found: dict[str, str] = {}
    folders = [folder]
    while root is not None and folders:
        here = folders.pop()
        try:
            with os.scandir(root / here) as entries:
                for entry in entries:
                    if not is_utf8(entry.name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(f"{here}/{entry.name}")
                    if irregular and entry.name.endswith(endings) and not entry.is_file():
                        found[f"{here}/{entry.name}"] = "0 0"
                    elif entry.name.endswith(endings) and entry.is_file():
                        found[f"{here}/{entry.name}"] = _signature(entry)
        except (FileNotFoundError, NotADirectoryError):  # it does not exist
            continue
        except OSError as error:
            raise storage_error(root / here, error, "read") from error
    return {path: signature for path, signature in found.items() if signature}


Stamp = tuple[int, ...]
"""Inode, size, modification times and mode, which change if a file or its permissions change."""


def stamps_below(root: Path, folders: Iterable[str]) -> dict[str, Stamp]:
    """Return path -> stamp for all files and folders in some folders and their subfolders.

    A link has the stamp of its target, a broken link its own. Raises `StorageError` for a folder that cannot be listed;
    a missing folder is empty.
    """
    found: dict[str, Stamp] = {}
    waiting = list(folders)
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(root / here) as entries:
                for entry in entries:
                    path = f"{here}/{entry.name}"
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(path)
                    stamp = _stamp(entry)
                    if stamp is not None:
                        found[path] = stamp
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise storage_error(root / here, error, "read") from error
    return found


def stamp_of(path: Path) -> Stamp | None:
    """Return the stamp of a file or folder, or None if it does not exist."""
    try:
        return _facts(path.stat())
    except OSError:
        return None


def _stamp(entry: os.DirEntry[str]) -> Stamp | None:
    for follow in (True, False):
        with contextlib.suppress(OSError):
            return _facts(entry.stat(follow_symlinks=follow))
    return None


def _facts(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode


def _signature(entry: os.DirEntry[str]) -> str:
    try:
        state = entry.stat()
    except FileNotFoundError:  # it was removed while the folder was read
        return ""
    return f"{state.st_size} {state.st_mtime_ns}"
