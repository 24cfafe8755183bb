"""Read a folder of CSV, Parquet and JSON files as tables, through DuckDB."""

from __future__ import annotations

import gzip
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ktx_cli.core import Command, SourceError
from ktx_cli.warehouses import base
from ktx_cli.warehouses.base import source_path, unreadable
from ktx_cli.warehouses.duckdb.connector import CLOSED_SETTINGS, DuckDbSession
from ktx_cli.warehouses.duckdb.dialect import DIALECT
from ktx_cli.warehouses.port import (
    Column,
    ConnectionSpec,
    ConnectionTest,
    DatabaseSchema,
    ObjectProblem,
    Scope,
    Table,
    TableKind,
    TableRef,
    excluded,
    select,
)
from ktx_cli.warehouses.worker.process import EngineError
from ktx_cli.warehouses.worker.session import Session, TimedSession

READERS = {
    ".csv": "read_csv({})",
    ".csv.gz": "read_csv({})",
    ".tsv": "read_csv({}, delim = '\t')",
    ".tsv.gz": "read_csv({}, delim = '\t')",
    ".parquet": "read_parquet({})",
    ".json": "read_json({})",
    ".json.gz": "read_json({})",
    ".ndjson": "read_json({}, format = 'newline_delimited')",
    ".ndjson.gz": "read_json({}, format = 'newline_delimited')",
    ".jsonl": "read_json({}, format = 'newline_delimited')",
    ".jsonl.gz": "read_json({}, format = 'newline_delimited')",
}
"""How DuckDB reads a file, by extension (`{}` is the path)."""

_BLANK_BYTES = 4096


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file and its table: `sales/2024.csv` is the table `sales/2024`."""

    ref: TableRef
    path: Path
    suffix: str


class FilesConnector(DuckDbSession):
    """A folder of data files, each of which is a table in an in-memory DuckDB that may only read these files.

    The folder is listed when the connection opens, and the files are read at the first introspection or query. A file
    that takes too much time or memory is reported and does not become a table.
    """

    def __init__(self, spec: ConnectionSpec) -> None:
        self.folder = source_path(spec)
        super().__init__(spec, str(self.folder))
        self._require_folder(spec)
        self._files, self._problems = find_data_files(self.folder)
        self._broken: dict[TableRef, ObjectProblem] = {}
        self._connection = Session("duckdb", str(self.folder), self._settings, self._prepare)
        self._opened_session()

    def test(self, scope: Scope) -> ConnectionTest:
        """Return the number of files in scope; latency is measured with one `SELECT 1`."""
        with self._catalog_session() as session:
            latency = base.milliseconds(lambda: session.execute("SELECT 1"))
            version = self._version(session)
        found = select((file.ref for file in self._files), scope)
        return ConnectionTest(latency, version, len(found.refs), False, privileges=("ktx only reads the files",))

    def introspect(self, scope: Scope) -> DatabaseSchema:
        """Read the columns of every file in scope.

        A file that cannot be read is a problem instead of a table. Row counts are exact for Parquet, None otherwise.
        """
        with self._translating():
            self._opened_session().prepare()
        broken = self._broken
        files = {file.ref: file for file in self._files}
        found = select(files, scope)
        left_out = [problem for problem in self._problems if problem.ref is None or not excluded(problem.ref, scope)]
        problems = [*left_out, *found.problems, *(broken[ref] for ref in found.refs if ref in broken)]
        with self._catalog_session() as session:
            columns = _columns(session)
            tables = tuple(
                Table(ref, TableKind.TABLE, columns.get(ref.name, ()), row_estimate=_row_count(session, files[ref]))
                for ref in found.refs
                if ref not in broken
            )
            return DatabaseSchema(tables, tuple(problems), self._version(session))

    def evidence(self) -> str | None:
        """Return a string that changes with any file or the number of files."""
        found = base.file_evidence(file.path for file in self._files)
        return None if found is None else f"DuckDB {self._opened_session().version} {found}"

    def table_evidence(self, tables: Sequence[Table]) -> Mapping[TableRef, str]:
        """See `TableEvident`: nothing can be missed, because no program can set the change time of a file back."""
        version = self._opened_session().version
        found = ((file.ref, base.file_evidence([file.path])) for file in self._files)
        return {ref: f"DuckDB {version} {text}" for ref, text in found if text is not None}

    def _prepare(self, session: Session) -> None:
        """Create a view for every readable file."""
        for file in self._files:
            if file.ref not in self._broken:
                self._make_view(session, file)

    def _make_view(self, session: Session, file: DataFile) -> None:
        if _is_empty(file):
            self._broken[file.ref] = ObjectProblem(file.ref, "file", "the file is empty")
            return
        statement = f"CREATE OR REPLACE VIEW {DIALECT.quote(file.ref.name)} AS SELECT * FROM {_reader(file)}"
        try:
            session.execute(statement, seconds=self.statement_seconds)
        except EngineError as error:
            over = self._over_a_limit(error, of_the_user=False)
            why = str(error) if over is None else over.problem.removeprefix("reading the catalog ")
            self._broken[file.ref] = ObjectProblem(file.ref, "file", base.reason(why))

    def _settings(self) -> Mapping[str, Any]:
        settings: dict[str, Any] = dict(CLOSED_SETTINGS)
        # The paths must be set before external access and the configuration are locked.
        closing = {name: settings.pop(name) for name in ("enable_external_access", "lock_configuration")}
        paths = [str(file.path) for file in self._files]
        statements: list[tuple[str, list[Any]]] = [("SET allowed_paths = ?", [paths])]
        statements += [(f"SET {name} = {value}", []) for name, value in closing.items()]
        return {"path": ":memory:", "read_only": False, "config": settings, "statements": statements}

    def _require_folder(self, spec: ConnectionSpec) -> None:
        hint = Command("config", "set", f"connections.{spec.id}.path", "FOLDER")
        details = {"path": str(self.folder)}
        try:
            if not self.folder.is_dir():
                missing = "is not a folder" if self.folder.exists() else "does not exist"
                message = f"connection `{spec.id}`: {self.folder} {missing}"
                raise SourceError(message, hint=hint, details=details)
            os.scandir(self.folder).close()
        except OSError as error:
            raise unreadable(spec, self.folder, error) from error

    @staticmethod
    def _version(session: TimedSession) -> str:
        row = session.execute("SELECT system.main.version()").fetchone()
        return f"DuckDB {row[0] if row else ''}"


def find_data_files(folder: Path) -> tuple[list[DataFile], list[ObjectProblem]]:
    """Return the data files below a folder, and problems with other files.

    Hidden files and folders are ignored. A table is named by its path without the extension; if two files would get the
    same name, both keep their extension. Links out of the folder, unreadable subfolders and names that DuckDB
    interprets as patterns are problems.
    """
    problems: list[ObjectProblem] = []
    found: list[tuple[PurePosixPath, Path, str]] = []
    inside = folder.resolve()

    def unreadable_folder(error: OSError) -> None:
        problems.append(ObjectProblem(None, "folder", base.reason(f"cannot read {error.filename}: {error.strerror}")))

    for where, folders, names in os.walk(folder, onerror=unreadable_folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        here = Path(where)
        for name in folders:
            if (here / name).is_symlink() and not (here / name).resolve().is_relative_to(inside):
                problems.append(_left_out(folder, here / name, "is a link to a target outside the folder"))
        for name in sorted(names):
            suffix = _suffix(name)
            path = here / name
            if name.startswith(".") or suffix is None:
                continue
            reason = _unusable(path, inside)
            if reason is None:
                found.append((PurePosixPath(path.relative_to(folder).as_posix()), path.resolve(), suffix))
            else:
                problems.append(_left_out(folder, path, reason))
    return _named(found), problems


def _named(found: Iterable[tuple[PurePosixPath, Path, str]]) -> list[DataFile]:
    entries = [(str(name), str(name)[: -len(suffix)], path, suffix) for name, path, suffix in found]
    used = Counter(stem for _, stem, _, _ in entries)
    return [
        DataFile(TableRef(None, stem if used[stem] == 1 else whole), path, suffix)
        for whole, stem, path, suffix in entries
    ]


def _suffix(name: str) -> str | None:
    ends = [suffix for suffix in READERS if name.lower().endswith(suffix) and len(name) > len(suffix)]
    return max(ends, key=len, default=None)


def _unusable(path: Path, inside: Path) -> str | None:
    target = path.resolve()
    if not target.is_relative_to(inside):
        return "is a link to a target outside the folder"
    if not target.is_file():
        return "is not a file"
    try:
        str(target).encode()
    except UnicodeEncodeError:
        return "has a name that is not UTF-8"
    # DuckDB would interpret such a name as a pattern and read every file that matches.
    return (
        "contains one of * ? [ in its path, which DuckDB interprets as a pattern"
        if set("*?[") & set(str(target))
        else None
    )


def _left_out(folder: Path, path: Path, why: str) -> ObjectProblem:
    name = path.relative_to(folder).as_posix().encode(errors="replace").decode()
    return ObjectProblem(TableRef(None, name), "file", base.reason(f"{name} {why}"))


def _is_empty(file: DataFile) -> bool:
    """Return whether a file contains only blanks or an empty JSON list, for which DuckDB would invent a column."""
    if file.suffix == ".parquet":
        return False
    opener = gzip.open if file.suffix.endswith(".gz") else open
    try:
        with opener(file.path, "rb") as stream:
            begin = stream.read(_BLANK_BYTES)
    except (OSError, EOFError, zlib.error):
        return False  # DuckDB reports what is wrong with it.
    if len(begin) == _BLANK_BYTES:
        return False
    content = b"".join(begin.removeprefix(b"\xef\xbb\xbf").split())
    return not content or (content == b"[]" and file.suffix.startswith(".json"))


def _reader(file: DataFile) -> str:
    literal = "'" + str(file.path).replace("'", "''") + "'"
    return READERS[file.suffix].format(literal)


def _columns(session: TimedSession) -> dict[str, tuple[Column, ...]]:
    rows = session.execute(
        "SELECT table_name, column_name, data_type FROM system.main.duckdb_columns() WHERE NOT internal "
        "ORDER BY table_name, column_index"
    ).fetchall()
    found: dict[str, list[Column]] = {}
    for table, name, native in rows:
        found.setdefault(table, []).append(Column(name, native, DIALECT.semantic_type(native)))
    return {table: tuple(columns) for table, columns in found.items()}


def _row_count(session: TimedSession, file: DataFile) -> int | None:
    if file.suffix != ".parquet":
        return None
    row = session.execute("SELECT num_rows FROM system.main.parquet_file_metadata(?)", [str(file.path)]).fetchone()
    return int(row[0]) if row else None
