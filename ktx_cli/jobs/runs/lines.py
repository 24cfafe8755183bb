"""A file of JSON Lines that grows while something happens: whole lines, no secrets, an end to its size."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ktx_cli.core.clock import isoformat, now
from ktx_cli.core.errors import StorageError
from ktx_cli.project.files import storage_error
from ktx_cli.project.secrets import mask

CUT: Final = {"event": "cut"}
"""The last line of a file that came to its size."""


class LineFile:
    """Appends lines, each with the time in `at` and written at once, so that a killed process leaves what it did.

    `most`: bytes after which one line more says that the rest is missing. Not for use from several threads.
    """

    def __init__(self, path: Path, most: int) -> None:
        self.path = path
        self._most = most
        self._size = 0
        self._descriptor: int | None = None

    def write(self, document: Mapping[str, Any], *, at: str | None = None) -> int:
        """Append a document and return the bytes that took; raises `OSError`."""
        if self._size > self._most:
            return 0
        self._size += (size := self._append(document, at))
        if self._size > self._most:
            self._append(CUT, None)
        return size

    def close(self) -> None:
        """Close the file; writing again opens it again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _append(self, document: Mapping[str, Any], at: str | None) -> int:
        stamp = {"at": at or isoformat(now())}
        try:
            text = json.dumps({**stamp, **masked(document)}, default=str)
        except (ValueError, RecursionError):  # arguments a model made up may be nested as deep as it likes
            text = json.dumps({**stamp, "event": document.get("event"), "left_out": "nested too deeply"})
        line = text.encode("ascii") + b"\n"
        if self._descriptor is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(self.path, flags, 0o600)
        os.write(self._descriptor, line)
        return len(line)


def masked(value: Any) -> Any:
    """Return JSON-like data with every secret this process has resolved masked."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {mask(str(key)): masked(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [masked(each) for each in value]
    return value


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the documents of a file; nothing where there is none. Half a line, which a killed writer leaves, is none.

    Raises `StorageError`.
    """
    try:
        with path.open("rb") as stream:
            for line in stream:
                document = _document(line)
                if document is not None:
                    yield document
    except FileNotFoundError:
        return
    except OSError as error:
        raise storage_error(path, error, "read") from error


def last_line(path: Path, tail: int = 65_536) -> dict[str, Any] | None:
    """Return the last document of a file, looked for in its last `tail` bytes; None where there is none."""
    with suppress(OSError), path.open("rb") as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - tail))
        found = (_document(line) for line in reversed(stream.read().splitlines()))
        return next((document for document in found if document is not None), None)
    return None


def first_line(path: Path, wanted: Callable[[dict[str, Any]], bool] = lambda _: True) -> dict[str, Any] | None:
    """Return the first document that is wanted, None where there is none or the file cannot be read."""
    try:
        return next((document for document in read_lines(path) if wanted(document)), None)
    except StorageError:
        return None


def _document(line: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
