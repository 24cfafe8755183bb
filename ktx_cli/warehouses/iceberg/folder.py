"""Iceberg's files: which tables a folder contains, their current metadata, and what may be opened for a table.

Iceberg's metadata contains absolute locations. A folder may have been moved or downloaded, so a location below the
table's declared location is looked up below the folder in which the table is. Whoever writes metadata or a catalog
decides on locations, but no local file outside the table's folder or the catalog's warehouse is ever opened.
"""

from __future__ import annotations

import os
import re
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, load_file_io

from ktx_cli.core import one_line
from ktx_cli.warehouses.lake.settings import without_code
from ktx_cli.warehouses.lake.tables import UnreadableTableError

_NUMBERED: Final = re.compile(r"(v?)(\d+)(?:-.*)?(?:\.gz)?\.metadata\.json(?:\.gz)?")
_HINT: Final = "version-hint.text"
"""The file in which tables without a catalog keep their current version."""

MOST_METADATA: Final = 64 * 2**20
"""The maximum size of a metadata file in bytes, also after decompression."""

LOCAL_ROOT: Final = "ktx.local-root"
"""The property of `StoreIO` with the folder of local files, or an empty text if there may be none."""

_MOST_HINT: Final = 1024
_VERSION: Final = re.compile(r"[\w.-]{1,200}")
_GZIP: Final = b"\x1f\x8b"
_UNLIMITED: Final = (".avro", ".parquet", ".puffin")
"""The ends of names of files that are not metadata, which the library reads piece by piece."""


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
    hint = _hint(folder)
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


def _hint(folder: Path) -> str | None:
    """Return the version in the version hint of the table in a folder, or None if there is none."""
    path = folder / "metadata" / _HINT
    if not os.path.lexists(path):
        return None
    found = _require_inside(path.resolve(), folder, "has a version hint")
    try:
        with found.open("rb") as stream:
            content = stream.read(_MOST_HINT + 1)
    except OSError as error:
        raise UnreadableTableError(f"has a version hint that cannot be read: {error.strerror}") from error
    version = content.decode("utf-8", "replace").strip()
    if version and (len(content) > _MOST_HINT or not _VERSION.fullmatch(version)):
        raise UnreadableTableError("has a version hint that does not contain a version")
    return version or None


def _require_inside(path: Path, folder: Path, what: str) -> Path:
    """Return a resolved path. Raises `UnreadableTableError` unless it is a regular file in a folder, or missing."""
    if not path.is_relative_to(folder.resolve()):
        raise UnreadableTableError(f"{what} that is a link to a target outside the folder")
    if path.exists() and not path.is_file():
        raise UnreadableTableError(f"{what} that is not a regular file")
    return path


def is_local(location: str) -> bool:
    """Return whether a location is a local path or a `file:` URL, as the libraries of stores decide it."""
    return urlsplit(location).scheme in ("", "file")


def read_metadata(io: FileIO, location: str) -> str:
    """Return the text of a metadata file. Raises `UnreadableTableError` if it is too large."""
    with io.new_input(location).open() as stream:
        data = stream.read(MOST_METADATA + 1)
    return _decompressed(data).decode()


def _decompressed(data: bytes) -> bytes:
    """Return the content of a metadata file, decompressed. Raises `UnreadableTableError` if it is too large."""
    if data.startswith(_GZIP):
        engine = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            data = engine.decompress(data, MOST_METADATA + 1)
        except zlib.error as error:
            raise UnreadableTableError("has a compressed metadata file that is damaged") from error
        if not engine.eof and len(data) <= MOST_METADATA:
            raise UnreadableTableError("has a compressed metadata file that is damaged")
    if len(data) > MOST_METADATA:
        raise UnreadableTableError(f"has a metadata file of more than {MOST_METADATA // 2**20} MB")
    return data


class _ReadOnlyIO(FileIO):
    """What opens files for reading and refuses everything else."""

    def new_output(self, location: str) -> OutputFile:
        """See pyiceberg; ktx never writes."""
        raise PermissionError("ktx only reads")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """See pyiceberg; ktx never deletes."""
        raise PermissionError("ktx only reads")


class FolderIO(_ReadOnlyIO):
    """Reads the files of one table in its folder. `declared`: where the table says that it is."""

    def __init__(self, folder: Path, declared: str = "") -> None:
        super().__init__()
        self.folder = folder.resolve()
        self.declared = declared.rstrip("/")

    def path_of(self, location: str) -> Path:
        """Return the local path of a location. Raises `UnreadableTableError` for one outside the table's folder."""
        bare = _bare(location)
        declared = _bare(self.declared)
        if self.declared and bare.startswith(f"{declared}/"):
            path = Path(f"{self.folder}/{bare.removeprefix(f'{declared}/')}")
        else:
            path = Path(bare)
        found = path.resolve()
        if "://" in bare or not found.is_relative_to(self.folder):
            raise UnreadableTableError(f"refers to a file outside the folder: {one_line(location, 80)}")
        return found

    def new_input(self, location: str) -> InputFile:
        """See pyiceberg."""
        return _LocalFile(location, self.path_of(location))


class StoreIO(_ReadOnlyIO):
    """Reads the files of a catalog: through the library that knows their store, and local ones below its warehouse.

    `properties`: those of the catalog and of the table, with `LOCAL_ROOT`.
    """

    def __init__(self, properties: dict[str, Any]) -> None:
        kept = without_code(properties)
        self._root = str(kept.pop(LOCAL_ROOT, ""))
        self._stores: dict[str, FileIO] = {}
        super().__init__(kept)

    def path_of(self, location: str) -> Path:
        """Return the path of a local location. Raises `UnreadableTableError` for one outside the local warehouse."""
        shown = one_line(location, 80)
        if not self._root:
            raise UnreadableTableError(
                f"refers to the local file {shown}, but `warehouse` of the connection is not a local folder"
            )
        found = Path(_bare(location)).resolve()
        if not found.is_relative_to(self._root):
            raise UnreadableTableError(f"refers to a file outside the warehouse: {shown}")
        return found

    def new_input(self, location: str) -> InputFile:
        """See pyiceberg. Metadata files are limited to `MOST_METADATA` bytes."""
        scheme = urlsplit(location).scheme
        if is_local(location):
            found: InputFile = _LocalFile(location, self.path_of(location))
        else:
            if scheme not in self._stores:
                self._stores[scheme] = load_file_io(self.properties, location)
            found = self._stores[scheme].new_input(location)
        return found if location.lower().endswith(_UNLIMITED) else _Metadata(found)


class _LocalFile(InputFile):
    def __init__(self, location: str, path: Path) -> None:
        super().__init__(location)
        self._path = path

    def __len__(self) -> int:
        return self._path.stat().st_size

    def exists(self) -> bool:
        return self._path.is_file()

    def open(self, seekable: bool = True) -> InputStream:
        if self._path.exists() and not self._path.is_file():
            raise UnreadableTableError(f"refers to a path that is not a regular file: {one_line(self.location, 80)}")
        stream: Any = self._path.open("rb")
        return stream  # type: ignore[no-any-return]


class _Metadata(InputFile):
    """A metadata file that is read completely, and checked, before the library decompresses it."""

    def __init__(self, file: InputFile) -> None:
        super().__init__(file.location)
        self._file = file

    def __len__(self) -> int:
        return len(self._file)

    def exists(self) -> bool:
        return self._file.exists()

    def open(self, seekable: bool = True) -> InputStream:
        with self._file.open(seekable) as stream:
            data = stream.read(MOST_METADATA + 1)
        _decompressed(data)
        found: Any = BytesIO(data)
        return found  # type: ignore[no-any-return]


def _bare(location: str) -> str:
    """Return the path of a local location; other locations stay as they are."""
    if location[:5].lower() == "file:":
        return "/" + location[5:].lstrip("/")
    return location
