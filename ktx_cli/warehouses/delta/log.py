"""What the log of a Delta table in a folder makes deltalake open: only regular files of the table itself.

deltalake opens every location in a log, also absolute ones and pipes. So ktx reads the locations of deletion vectors
and of sidecars (parts of a checkpoint) before deltalake does. The live data files are checked by the connector.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib import import_module
from json import JSONDecodeError
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from uuid import UUID

from ktx_cli.core import one_line
from ktx_cli.warehouses.lake.tables import UnreadableTableError

LOG: Final = "_delta_log"
"""The folder of a table's log, which makes a folder a table."""

SIDECARS: Final = "_sidecars"
"""The folder of the parts of checkpoints in the log."""

_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_UUID_LENGTH: Final = 20
_SPACES: Final = " \t\r\n"


def require_plain_log(folder: Path) -> None:
    """Raise `UnreadableTableError` if the log of a table has links, pipes, or sidecars outside its folder."""
    log = folder / LOG
    for path in _files(log):
        is_checkpoint = ".checkpoint." in path.name
        if is_checkpoint and path.suffix in (".json", ".parquet"):
            for sidecar in _values(path, "sidecar", ("path",)):
                name = str(sidecar.get("path"))
                if name in (".", "..") or not name.isprintable() or any(each in unquote(name) for each in "/\\:"):
                    raise UnreadableTableError(f"has a checkpoint in a file outside its log: {one_line(name, 80)}")


def require_own_vectors(folder: Path) -> None:
    """Raise `UnreadableTableError` if a deletion vector in the log is outside the table's folder or no regular file."""
    for path in _files(folder / LOG):
        if path.suffix in (".json", ".parquet"):
            for vector in _values(path, "deletionVector", ("storageType", "pathOrInlineDv")):
                _require_own(folder, str(vector.get("storageType")), str(vector.get("pathOrInlineDv")))


def _require_own(folder: Path, kind: str, given: str) -> None:
    if kind == "i":
        return
    location = unquote(given)
    if kind == "u":
        prefix, code = given[:-_UUID_LENGTH], given[-_UUID_LENGTH:]
        location = "/".join([*([unquote(prefix)] if prefix else []), f"deletion_vector_{_uuid(code)}.bin"])
    # A URL parser takes a backslash for a slash, and skips control characters.
    is_plain = location.isprintable() and "\\" not in location and location == location.strip()
    parts = urlsplit(location)
    path = (folder / (parts.path if parts.scheme == "file" else location)).resolve()
    is_file = parts.scheme in ("", "file") and not parts.netloc
    if not is_plain or not is_file or not path.is_relative_to(folder.resolve()):
        raise UnreadableTableError(f"has a deletion vector outside its folder: {one_line(location, 80)}")
    if path.exists() and not path.is_file():
        raise UnreadableTableError(f"has a deletion vector that is not a regular file: {one_line(location, 80)}")


def _uuid(code: str) -> UUID:
    """Return the UUID of a Z85 text."""
    if len(code) != _UUID_LENGTH or not set(code) <= set(_Z85):
        raise UnreadableTableError("has a deletion vector without a valid name")
    found = b""
    for start in range(0, _UUID_LENGTH, 5):
        number = 0
        for character in code[start : start + 5]:
            number = number * 85 + _Z85.index(character)
        found += (number % 2**32).to_bytes(4, "big")
    return UUID(bytes=found)


def _files(log: Path) -> Iterator[Path]:
    """Yield the files of a log and its sidecars, sorted. Raises `UnreadableTableError` for links and pipes."""
    if log.is_symlink():
        raise UnreadableTableError("has a log that is a link")
    for path in sorted(log.iterdir()):
        if path.is_symlink():
            raise UnreadableTableError(f"has a link in its log: {one_line(path.name, 80)}")
        if path.is_dir():
            if path.name == SIDECARS:
                yield from _files(path)
        elif not path.is_file():
            raise UnreadableTableError(f"has a path in its log that is not a regular file: {one_line(path.name, 80)}")
        else:
            yield path


def _values(path: Path, key: str, names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yield every object with a key (`sidecar`, `deletionVector`) in the actions of a file. `names`: its fields."""
    return _json_values(path, key) if path.suffix == ".json" else _parquet_values(path, key, names)


def _json_values(path: Path, key: str) -> Iterator[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def collect(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        own = list(pairs)
        found.extend(value for name, value in own if name == key and isinstance(value, dict))
        if len(dict(own)) < len(own):
            raise UnreadableTableError(f"has the same key twice in its log: {one_line(path.name, 80)}")
        return dict(own)

    decoder = json.JSONDecoder(object_pairs_hook=collect)
    try:
        text = path.read_text("utf-8")
        at = len(text) - len(text.lstrip(_SPACES))
        while at < len(text):
            _, at = decoder.raw_decode(text, at)
            yield from found
            found.clear()
            while at < len(text) and text[at] in _SPACES:
                at += 1
    except (JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableTableError(f"has a log file that is not valid JSON: {one_line(path.name, 80)}") from error


def _parquet_values(path: Path, key: str, names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    parquet = import_module("pyarrow.parquet")
    with parquet.ParquetFile(path) as file:
        # The leaves of `add.deletionVector` and `remove.deletionVector`, or of `sidecar`.
        leaves = [file.schema.column(number).path for number in range(len(file.schema))]
        places = {leaf.rpartition(".")[0] for leaf in leaves if key in leaf.split(".")[:-1]}
        for place in sorted(places):
            columns = [f"{place}.{name}" for name in names if f"{place}.{name}" in leaves]
            for batch in file.iter_batches(columns=columns):
                for row in batch.to_pylist():
                    value: Any = row
                    for part in place.split("."):
                        value = (value or {}).get(part)
                    if value is not None:
                        yield value
