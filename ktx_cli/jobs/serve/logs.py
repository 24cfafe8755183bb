"""Follows a log that grows, also when another file takes its place."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from ktx_cli.project import storage_error

POLL_SECONDS: Final = 0.2
_MOST: Final = 1_000_000


def followed(path: Path, last: int = 0, *, pause: Callable[[float], None] = time.sleep) -> Iterator[str]:
    """Yield the last whole lines of a file, then those that are added; never ends. A file that is not there may come.

    Raises `StorageError`.
    """
    stream = _opened(path)
    rest = b""
    if stream is not None:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - _MOST))
        *lines, rest = stream.read().split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in lines[len(lines) - min(last, len(lines)) :])
    while True:
        piece = stream.read(_MOST) if stream is not None else b""
        if piece:
            *lines, rest = (rest + piece).split(b"\n")
            yield from (line.decode("utf-8", "replace") for line in lines)
            continue
        if _is_another(path, stream):
            if rest:
                yield rest.decode("utf-8", "replace")
            stream, rest = _reopened(path, stream), b""
            continue
        pause(POLL_SECONDS)


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(path, error, "read") from error


def _reopened(path: Path, stream: BinaryIO | None) -> BinaryIO | None:
    if stream is not None:
        stream.close()
    return _opened(path)


def _is_another(path: Path, stream: BinaryIO | None) -> bool:
    """Say whether there is a file that is not the one being read, or the one being read was cut."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    if stream is None:
        return True
    ours = os.fstat(stream.fileno())
    return (found.st_dev, found.st_ino) != (ours.st_dev, ours.st_ino) or found.st_size < stream.tell()


LARGEST: Final = 5_000_000
KEPT: Final = 3


class RotatingLines:
    """Appends lines, each in one write, for this user alone. Several processes may append to one file.

    When the file has `largest` bytes it becomes `NAME.1`, that one `NAME.2`, and so on to `kept`.
    """

    def __init__(self, path: Path, *, largest: int = LARGEST, kept: int = KEPT) -> None:
        self.path = path
        self._largest = largest
        self._kept = kept
        self._descriptor: int | None = None

    def write(self, line: bytes) -> None:
        """Append a line; raises `OSError`."""
        descriptor = self._opened()
        if os.fstat(descriptor).st_size + len(line) > self._largest:
            self._rotate(descriptor)
            descriptor = self._opened()
        os.write(descriptor, line)

    def close(self) -> None:
        """Close the file; writing again opens it again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _opened(self) -> int:
        """Return the descriptor of the file that is there now: another process may have put a new one in its place."""
        if self._descriptor is not None and self._is_current(self._descriptor):
            return self._descriptor
        self.close()
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self.path, flags, 0o600)
        return self._descriptor

    def _is_current(self, descriptor: int) -> bool:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(descriptor))

    def _rotate(self, descriptor: int) -> None:
        """Move the files on, once: the lock is on the file that is moved, and whoever comes later sees another."""
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            if self._is_current(descriptor) and os.fstat(descriptor).st_size:
                for number in range(self._kept - 1, 0, -1):
                    if self._older(number).exists():
                        os.replace(self._older(number), self._older(number + 1))
                os.replace(self.path, self._older(1))
        finally:
            self.close()

    def _older(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")
