"""Databases that are files: SQLite and DuckDB by their first bytes, folders of CSV, Parquet and JSON files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ktx_cli.connectors.files import READERS
from ktx_cli.jobs.setup.detected.folders import Folder, folders_in, topmost

SQLITE: Final = b"SQLite format 3\0"
DUCKDB: Final = b"DUCK"
DUCKDB_AT: Final = 8
MOST_FILES: Final = 20
"""How many databases are offered: a folder with more of them is a cache of some program."""

SEVERAL: Final = 2
"""How many data files make a folder a database."""


@dataclass(frozen=True, slots=True)
class Found:
    """A database that was seen. `fields`: by `ktx.yaml` key. `name`: what its id should be like."""

    driver: str
    label: str
    fields: Mapping[str, Any]
    name: str


def file_databases(root: Path) -> list[Found]:
    """Return the databases in a folder, the nearest first, then the folders of data files."""
    folders = list(folders_in(root))
    single = [found for folder in folders for found in _single(root, folder)]
    return [*single[:MOST_FILES], *_of_data_files(root, folders)]


def _single(root: Path, folder: Folder) -> Iterator[Found]:
    for name in folder.files:
        path = folder.path / name
        kind = None if _is_data(name) else _kind(root / path)
        if kind is not None:
            yield Found(kind[0], f"{kind[1]} file {path}", {"path": str(path)}, path.stem)


def _kind(path: Path) -> tuple[str, str] | None:
    """Return driver and name of what a file is by its first bytes."""
    try:
        with path.open("rb") as stream:
            head = stream.read(len(SQLITE))
    except OSError:
        return None
    if head == SQLITE:
        return "sqlite", "SQLite"
    return ("duckdb", "DuckDB") if head[DUCKDB_AT:].startswith(DUCKDB) else None


def _of_data_files(root: Path, folders: list[Folder]) -> Iterator[Found]:
    counts = {folder.path: sum(map(_is_data, folder.files)) for folder in folders if _holds_data(folder)}
    for path in topmost(list(counts)):
        shown = "." if path == PurePosixPath(".") else f"{path}/"
        label = f"folder {shown} with {counts[path]} data files, each a table"
        yield Found("files", label, {"path": str(path)}, path.name or root.resolve().name)


def _holds_data(folder: Folder) -> bool:
    """Whether several files are data. JSON alone is not: settings of programs are JSON too."""
    found = [name for name in folder.files if _is_data(name)]
    return len(found) >= SEVERAL and any(".json" not in Path(name).suffixes for name in found)


def _is_data(name: str) -> bool:
    return name.lower().endswith(tuple(READERS))
