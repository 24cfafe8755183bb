"""Keeps the raw files of sources that are not on this disk, by content, in `.ktx/raw`: disposable, never committed."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Collection
from pathlib import Path
from typing import Final

from ktx_cli.context.sources.model import RawFile
from ktx_cli.core.errors import StorageError
from ktx_cli.project.files import read_bytes, storage_error

_GONE: Final = "the next `ktx ingest` fetches it again"


class RawStore:
    """Files by their sha256. Raises `StorageError` for a disk that does not work.

    Nothing waits for the disk: a content that a power cut broke is not the one its name says, and counts as gone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, path: str, content: bytes) -> RawFile:
        """Keep a content and return the file it is of."""
        digest = hashlib.sha256(content).hexdigest()
        place = self._place(digest)
        if self._content(digest) != content:
            self._write(place, content)
        return self._file(path, digest, len(content))

    def find(self, path: str, sha256: str) -> RawFile | None:
        """Return a file whose content is kept, None where it is not."""
        content = self._content(sha256)
        return None if content is None else self._file(path, sha256, len(content))

    def prune(self, used: Collection[str]) -> int:
        """Delete what nothing uses and return how many that were."""
        unused = [path for path in self._folder.glob("??/*") if path.name not in used]
        for path in unused:
            path.unlink(missing_ok=True)
        return len(unused)

    def _file(self, path: str, digest: str, size: int) -> RawFile:
        return RawFile(path, digest, size, lambda: self._read(path, digest))

    def _read(self, path: str, digest: str) -> bytes:
        content = self._content(digest)
        if content is None:
            raise StorageError(f"the copy of {path} in {self._folder} is gone", hint=_GONE)
        return content

    def _content(self, digest: str) -> bytes | None:
        content = read_bytes(self._place(digest))
        return content if content is not None and hashlib.sha256(content).hexdigest() == digest else None

    def _place(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest

    @staticmethod
    def _write(place: Path, content: bytes) -> None:
        temporary = place.with_name(f".{secrets.token_hex(8)}")
        try:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
            temporary.replace(place)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise storage_error(place, error) from error
