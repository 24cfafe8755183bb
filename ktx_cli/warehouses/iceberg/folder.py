"""Iceberg tables in a folder without a catalog: which there are, their current metadata, and their files in the folder.

Iceberg's metadata contains absolute locations. A folder may have been moved or downloaded, so a location below the
table's declared location is looked up below the folder in which the table is. No file outside the connection's folder
is ever opened.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile

from ktx_cli.core import one_line
from ktx_cli.warehouses.lake.tables import UnreadableTableError

_NUMBERED: Final = re.compile(r"(v?)(\d+)(?:-.*)?(?:\.gz)?\.metadata\.json(?:\.gz)?")
_HINT: Final = "version-hint.text"
"""The file in which tables without a catalog keep their current version."""


def metadata_files(folder: Path) -> list[str]:
    """Return the names of the metadata files of the table in a folder."""
    try:
        with os.scandir(folder / "metadata") as entries:
            return sorted(each.name for each in entries if _NUMBERED.fullmatch(each.name))
    except OSError:
        return []


def current_metadata(folder: Path) -> Path:
    """Return the current metadata file of the table in a folder. Raises `UnreadableTableError`.

    A table without a catalog has a version hint, after which later versions may have been written (`v3`, `v4`). Other
    tables have a catalog that knows the current file; without it, the file with the highest number is the current one.
    """
    names = metadata_files(folder)
    place = folder / "metadata"
    numbers: dict[int, list[str]] = {}
    for name in names:
        found = _NUMBERED.fullmatch(name)
        assert found is not None
        numbers.setdefault(int(found[2]), []).append(name)
    hint = _hint(place / _HINT)
    if hint is not None and not hint.isdecimal():
        name = hint if hint.endswith(".metadata.json") else f"{hint}.metadata.json"
        if name not in names:
            raise UnreadableTableError(f"has a version hint for {one_line(name, 80)}, which does not exist")
        return place / name
    version = max(numbers) if hint is None else int(hint)
    if version not in numbers:
        raise UnreadableTableError(f"has a version hint for version {version}, which does not exist")
    while hint is not None and version + 1 in numbers:
        version += 1
    if len(numbers[version]) > 1:
        listed = " and ".join(numbers[version][:2])
        raise UnreadableTableError(f"has the metadata files {listed}, and only a catalog knows which one is current")
    return place / numbers[version][0]


def _hint(path: Path) -> str | None:
    try:
        return path.read_text("utf-8").strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableTableError(f"has a version hint that cannot be read: {error}") from error


class FolderIO(FileIO):
    """Reads files of one table in a folder. `root`: the connection's folder. `declared`: where the table says it is."""

    def __init__(self, root: Path, folder: Path, declared: str = "") -> None:
        super().__init__()
        self.root = root.resolve()
        self.folder = folder
        self.declared = declared.rstrip("/")

    def path_of(self, location: str) -> Path:
        """Return the local path of a location. Raises `UnreadableTableError` for one outside the folder."""
        bare = _bare(location)
        declared = _bare(self.declared)
        if self.declared and bare.startswith(f"{declared}/"):
            path = Path(f"{self.folder}/{bare.removeprefix(f'{declared}/')}")
        else:
            path = Path(bare)
        found = path.resolve()
        if "://" in bare or not found.is_relative_to(self.root):
            raise UnreadableTableError(f"refers to a file outside the folder: {one_line(location, 80)}")
        return found

    def new_input(self, location: str) -> InputFile:
        """See pyiceberg."""
        return _LocalFile(location, self.path_of(location))

    def new_output(self, location: str) -> OutputFile:
        """See pyiceberg; ktx never writes."""
        raise PermissionError("ktx only reads")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """See pyiceberg; ktx never deletes."""
        raise PermissionError("ktx only reads")


class _LocalFile(InputFile):
    def __init__(self, location: str, path: Path) -> None:
        super().__init__(location)
        self._path = path

    def __len__(self) -> int:
        return self._path.stat().st_size

    def exists(self) -> bool:
        return self._path.is_file()

    def open(self, seekable: bool = True) -> InputStream:
        stream: Any = self._path.open("rb")
        return stream  # type: ignore[no-any-return]


def _bare(location: str) -> str:
    """Return the path of a local location; other locations stay as they are."""
    for scheme in ("file://", "file:"):
        if location.startswith(scheme):
            return "/" + location.removeprefix(scheme).lstrip("/")
    return location
