"""A table of files in a lake, and the view with which DuckDB reads exactly its live rows.

A library reads the metadata: which files are live, which of their rows are deleted, and where each column is in them.
DuckDB then reads the Parquet files themselves with `read_parquet`, whose `schema` finds a column by its field id or its
name in the file. A view selects from one such call for each group of files that need the same projection, so that
filters, projections and limits reach the files, and nothing is read that a statement does not need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.core import SourceError, one_line
from ktx_cli.warehouses import port
from ktx_cli.warehouses.duckdb.dialect import DIALECT

MOST_DELETED: Final = 5_000_000
"""The maximum number of deleted rows of a table that ktx keeps in memory."""

MOST_GROUPS: Final = 20_000
"""The maximum number of partitions of a table, because every statement contains the values of all of them."""

_UNIONS: Final = 16
"""The maximum number of groups of files with different constants that a view reads one by one."""

_BATCH: Final = 500_000
"""The maximum number of positions that are sent to the worker at once."""

INTERNAL: Final = "ktx_lake"
"""The schema of ktx's own tables in a session."""

RESERVED: Final = frozenset({INTERNAL, "memory", "system", "temp", "information_schema", "pg_catalog"})
"""Names of schemas that DuckDB or ktx uses itself."""


STORED: Final = "\0"
"""The stored column in the SQL of a value; no name contains this character."""


class UnreadableTableError(SourceError):
    """Raised for a table that ktx cannot read correctly; its problem is a sentence without its subject."""


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """How one column of the table is read from a group of files.

    `key`: its field id or its name in the files, or None for a constant. `stored`: the type as which DuckDB reads it.
    `value`: the SQL of the column's value, in which `STORED` is the stored column.
    """

    key: int | str | None
    stored: str = ""
    value: str = STORED


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files from which the columns of a table are read in the same way."""

    paths: tuple[str, ...]
    columns: tuple[ReadColumn, ...]


@dataclass(frozen=True, slots=True)
class Deletions:
    """The deleted rows of a table's files.

    `positions`: the row numbers by path. `files`: Parquet files of positions with the columns `file_path` and `pos`,
    each as its path, the name of a data file in it, and the path of that data file.
    """

    positions: Mapping[str, Sequence[int]] = field(default_factory=dict)
    files: tuple[tuple[str, str, str], ...] = ()

    @property
    def paths(self) -> frozenset[str]:
        """The data files with deleted rows."""
        return frozenset(self.positions) | {path for _, _, path in self.files}


@dataclass(frozen=True, slots=True)
class LakeTable:
    """One snapshot of a table: its structure and its live files.

    `columns`: with the types of DuckDB. `rows`: the exact number of rows, or None if only reading would tell.
    `partitions`: the columns by which files are partitioned, which speed up a filter as an index does. `remote`: the
    location and the size in bytes of files that are not local, by the path that DuckDB uses. `storage`: what opens
    them; see `ktx_cli.warehouses.lake.storage`.
    """

    ref: port.TableRef
    columns: tuple[port.Column, ...]
    comment: str | None = None
    primary_key: tuple[str, ...] = ()
    rows: int | None = None
    partitions: tuple[str, ...] = ()
    groups: tuple[FileGroup, ...] = ()
    deletions: Deletions = field(default_factory=Deletions)
    remote: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    storage: Mapping[str, Any] = field(default_factory=dict)

    @property
    def paths(self) -> Iterator[str]:
        """All files that DuckDB may open."""
        for group in self.groups:
            yield from group.paths
        yield from {path for path, _, _ in self.deletions.files}

    def described(self) -> port.Table:
        """Return the table as an introspection returns it."""
        return port.Table(
            self.ref,
            port.TableKind.TABLE,
            self.columns,
            self.comment,
            self.primary_key,
            indexes=(port.Index(self.partitions, "partition columns"),) if self.partitions else (),
            row_estimate=self.rows,
        )


def column(name: str, native: str, *, nullable: bool = True, comment: str | None = None) -> port.Column:
    """Return a column with a type of DuckDB."""
    return port.Column(name, native, DIALECT.semantic_type(native), nullable, comment or None)


def require_distinct(names: Iterable[str]) -> None:
    """Raise `UnreadableTableError` if names of columns differ only in case, which DuckDB ignores."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise UnreadableTableError(f"has the columns `{one_line(other, 60)}` and `{one_line(name, 60)}`, "
                                       "whose names differ only in case")  # fmt: skip


def text(value: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def pattern(path: str) -> str:
    """Return a path as DuckDB's pattern that matches only this path."""
    return "".join(f"[{each}]" if each in "*?[" else each for each in path)


def struct_type(fields: Iterable[tuple[str, str]]) -> str:
    """Return the type of a struct with these names and types."""
    return f"STRUCT({', '.join(f'{DIALECT.quote(name)} {kind}' for name, kind in fields)})"


def statements(table: LakeTable, number: int) -> Iterator[tuple[str, list[Any]]]:
    """Yield the statements, with their parameters, that create the view of a table, and what it needs before."""
    view = _View(table, number)
    yield from view.before()
    schema = DIALECT.quote(table.ref.schema or "main")
    yield f"CREATE SCHEMA IF NOT EXISTS {schema}", []
    yield f"CREATE OR REPLACE VIEW {schema}.{DIALECT.quote(table.ref.name)} AS {view.select()}", []


class _View:
    """The view of one table. Files that differ by their path have the values of an ENUM."""

    def __init__(self, table: LakeTable, number: int) -> None:
        self._table = table
        self._kind = f"{INTERNAL}.file_{number}"
        self._deleted = f"{INTERNAL}.deleted_{number}"
        self._groups = _merged(table.groups)
        named = {path for group, constants in self._groups if constants for path in group.paths}
        self._named = sorted(named | table.deletions.paths)

    def before(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield the statements before the view."""
        deletions = self._table.deletions
        if self._named:
            yield f"CREATE TYPE {self._kind} AS ENUM ({', '.join(map(text, self._named))})", []
        if not deletions.paths:
            return
        # As a text, the path would take far more memory than the position, and repeat for each of them.
        yield f"CREATE TABLE {self._deleted} (file {self._kind}, pos BIGINT)", []
        for path, positions in deletions.positions.items():
            for start in range(0, len(positions), _BATCH):
                batch = list(positions[start : start + _BATCH])
                yield f"INSERT INTO {self._deleted} SELECT ?, unnest(?::BIGINT[])", [path, batch]
        if deletions.files:
            readers = ", ".join(text(pattern(path)) for path in dict.fromkeys(path for path, _, _ in deletions.files))
            pairs = ", ".join(f"({', '.join(map(text, each))})" for each in deletions.files)
            yield (
                f"INSERT INTO {self._deleted} SELECT pairs.data, deleted.pos FROM "
                f"read_parquet([{readers}], filename = 'ktx_file') AS deleted JOIN (VALUES {pairs}) AS "
                "pairs (holder, name, data) ON pairs.holder = deleted.ktx_file AND pairs.name = deleted.file_path",
                [],
            )

    def select(self) -> str:
        """Return the SELECT of the view."""
        deleted = self._table.deletions.paths
        parts = []
        for group, constants in self._groups:
            whole = [path for path in group.paths if path not in deleted]
            cut = [path for path in group.paths if path in deleted]
            parts += [self._read(group, constants, whole)] if whole else []
            parts += [self._read(group, constants, cut, deleted=True)] if cut else []
        if not parts:
            columns = self._table.columns
            nothing = (f"CAST(NULL AS {each.native_type}) AS {DIALECT.quote(each.name)}" for each in columns)
            return f"SELECT {', '.join(nothing)} WHERE false"
        return " UNION ALL ".join(parts)

    def _read(self, group: FileGroup, constants: _Constants, paths: Sequence[str], *, deleted: bool = False) -> str:
        """Return the SELECT of one group of files."""
        values, schema = [], []
        for position, (own, read) in enumerate(zip(self._table.columns, group.columns, strict=True)):
            inner = f"data.c{position}"
            value = read.value.replace(STORED, inner)
            if position in constants:
                # DuckDB computes this for each file before it opens it, so a filter also omits files.
                listed = ", ".join(constants[position].get(path, "NULL") for path in self._named)
                value = f"([{listed}])[enum_code(CAST(data.ktx_file AS {self._kind})) + 1]"
            if value != inner:
                # Without a cast, the types of a UNION would decide on the type of the column.
                value = f"CAST({value} AS {own.native_type})"
            values.append(f"{value} AS {DIALECT.quote(own.name)}")
            if read.key is not None:
                key = str(read.key) if isinstance(read.key, int) else text(read.key)
                schema.append(f"{key}: {{name: 'c{position}', type: {text(read.stored)}, default_value: NULL}}")
        if not schema:  # All columns are constants, and each row of the files is one.
            schema.append(f"{text('')}: {{name: 'c', type: 'INTEGER', default_value: NULL}}")
        options = [f"schema = MAP {{{', '.join(schema)}}}"]
        options += ["filename = 'ktx_file'"] if constants or deleted else []
        options += ["file_row_number = true"] if deleted else []
        files = ", ".join(text(pattern(path)) for path in paths)
        source = f"SELECT {', '.join(values)} FROM read_parquet([{files}], {', '.join(options)}) AS data"
        if not deleted:
            return source
        # Unlike NOT EXISTS, NOT IN always hashes the deleted rows and never those of the files.
        row = f"(CAST(data.ktx_file AS {self._kind}), data.file_row_number)"
        return f"{source} WHERE {row} NOT IN (SELECT (file, pos) FROM {self._deleted})"


_Constants = Mapping[int, Mapping[str, str]]
"""The SQL of constants by the position of the column, then by path."""


def _merged(groups: Sequence[FileGroup]) -> list[tuple[FileGroup, _Constants]]:
    """Join groups that only differ in constants, if there are many: DuckDB plans each group for every statement."""
    alike: dict[tuple[ReadColumn, ...], list[FileGroup]] = {}
    for group in groups:
        shape = tuple(ReadColumn(None) if each.key is None else each for each in group.columns)
        alike.setdefault(shape, []).append(group)
    found: list[tuple[FileGroup, _Constants]] = []
    for shape, own in alike.items():
        if len(own) <= _UNIONS:
            found += [(group, {}) for group in own]
            continue
        constants = {
            position: {path: group.columns[position].value for group in own for path in group.paths}
            for position, read in enumerate(shape)
            if read.key is None
        }
        found.append((FileGroup(tuple(path for group in own for path in group.paths), shape), constants))
    return found
