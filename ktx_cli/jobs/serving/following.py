"""Follows a log that grows, also when another file takes its place."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from ktx_cli.project.files import storage_error

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
