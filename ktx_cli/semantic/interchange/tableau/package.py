"""Read the document in a packaged Tableau file, a ZIP archive that may come from anywhere.

Only one entry is read, up to a limit, and nothing is written: an archive cannot fill the disk or leave its folder.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import PurePosixPath
from typing import Final

from ktx_cli.core import ConfigError
from ktx_cli.semantic.interchange.tableau.document import MAX_CHARACTERS

MAX_PACKAGE: Final = 100_000_000
"""Maximum size of a packaged file, in bytes; it can contain extracts of data and images."""

_INNER: Final = {".twbx": ".twb", ".tdsx": ".tds"}
_MOST: Final = 10_000
_DIRECTORY: Final = 4_000_000
"""Maximum size of the archive's list of entries, in bytes."""

_ENCRYPTED: Final = 0x1
_END: Final = b"PK\x05\x06"
_LARGE_END: Final = b"PK\x06\x07"
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def is_package(path: str) -> bool:
    """Return whether a path is that of a packaged file."""
    return PurePosixPath(path).suffix.lower() in _INNER


def document_in(path: str, content: bytes) -> bytes:
    """Return the XML document of a Tableau file; other files than packages are returned unchanged.

    Raises `ConfigError` for an archive that is damaged, too large or unsafe, or has no single document.
    """
    if not is_package(path):
        return content
    if len(content) > MAX_PACKAGE:
        raise _refused(path, f"it has {len(content):,} bytes, more than the limit of {MAX_PACKAGE:,}")
    _check_directory(path, content)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entry = _entry(path, archive)
            with archive.open(entry) as opened:
                found = opened.read(MAX_CHARACTERS + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError) as error:
        raise _refused(path, f"the archive is damaged: {error}") from None
    if len(found) > MAX_CHARACTERS:
        raise _refused(path, f"`{entry.filename}` expands to more than {MAX_CHARACTERS:,} bytes")
    return found


def _refused(path: str, why: str) -> ConfigError:
    return ConfigError(
        f"{path} cannot be read: {why}",
        hint="export it again with Tableau",
        details={"path": path, "line": 1, "reason": why},
    )


def _check_directory(path: str, content: bytes) -> None:
    """Refuse an archive whose list of entries is too long, before it is read into memory."""
    end = content.rfind(_END, max(0, len(content) - 66_000))
    if end < 0 or len(content) < end + 22:
        raise _refused(path, "it is not a ZIP archive")
    size = int.from_bytes(content[end + 12 : end + 16], "little")
    if size > _DIRECTORY or content[max(0, end - 20) : end].startswith(_LARGE_END):
        raise _refused(path, "its list of entries is too long")


def _entry(path: str, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """Return the entry with the document."""
    entries = archive.infolist()
    if len(entries) > _MOST:
        raise _refused(path, f"it has {len(entries):,} entries, more than the limit of {_MOST:,}")
    for each in entries:
        name = PurePosixPath(each.filename.replace("\\", "/"))
        if name.is_absolute() or ".." in name.parts or ":" in name.parts[0] if name.parts else True:
            raise _refused(path, f"the entry `{each.filename[:80]}` is outside the archive's folder")
    suffix = _INNER[PurePosixPath(path).suffix.lower()]
    documents = [each for each in entries if each.filename.lower().endswith(suffix)]
    least = min((each.filename.count("/") for each in documents), default=0)
    documents = [each for each in documents if each.filename.count("/") == least]
    if len(documents) != 1:
        found = f"{len(documents)} of them" if documents else "none"
        raise _refused(path, f"it must contain a single {suffix} file, but contains {found}")
    entry = documents[0]
    if entry.flag_bits & _ENCRYPTED:
        raise _refused(path, "it is encrypted")
    if entry.compress_type not in _METHODS:
        raise _refused(path, "it is compressed with a method that ktx does not support")
    if entry.file_size > MAX_CHARACTERS:
        raise _refused(path, f"`{entry.filename}` expands to more than {MAX_CHARACTERS:,} bytes")
    return entry
