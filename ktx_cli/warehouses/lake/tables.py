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

MOST_GROUPS: Final = 4_000
"""The maximum number of groups of files in a table's view, because DuckDB plans each of them for every statement."""

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


def deletes_table(number: int) -> str:
    """Return the name of the table with the deleted rows of the table with this number."""
    return f"{INTERNAL}.deleted_{number}"


def statements(table: LakeTable, number: int) -> Iterator[tuple[str, list[Any]]]:
    """Yield the statements, with their parameters, that create the view of a table, and what it needs before."""
    deletions = table.deletions
    if deletions.paths:
        own = deletes_table(number)
        yield f"CREATE OR REPLACE TABLE {own} (file VARCHAR, pos BIGINT)", []
        for path, positions in deletions.positions.items():
            yield f"INSERT INTO {own} SELECT ?, unnest(?::BIGINT[])", [path, list(positions)]
        if deletions.files:
            readers = ", ".join(text(pattern(path)) for path in dict.fromkeys(path for path, _, _ in deletions.files))
            pairs = ", ".join(f"({', '.join(map(text, each))})" for each in deletions.files)
            yield (
                f"INSERT INTO {own} SELECT pairs.data, deleted.pos FROM "
                f"read_parquet([{readers}], filename = 'ktx_file') AS deleted JOIN (VALUES {pairs}) AS "
                "pairs (holder, name, data) ON pairs.holder = deleted.ktx_file AND pairs.name = deleted.file_path",
                [],
            )
    schema = DIALECT.quote(table.ref.schema or "main")
    yield f"CREATE SCHEMA IF NOT EXISTS {schema}", []
    yield f"CREATE OR REPLACE VIEW {schema}.{DIALECT.quote(table.ref.name)} AS {_select(table, number)}", []


def _select(table: LakeTable, number: int) -> str:
    deleted = table.deletions.paths
    parts = []
    for group in table.groups:
        whole = [path for path in group.paths if path not in deleted]
        cut = [path for path in group.paths if path in deleted]
        parts += [_read(table, group, whole)] if whole else []
        parts += [_read(table, group, cut, deletes_table(number))] if cut else []
    if not parts:
        nothing = (f"CAST(NULL AS {each.native_type}) AS {DIALECT.quote(each.name)}" for each in table.columns)
        return f"SELECT {', '.join(nothing)} WHERE false"
    return " UNION ALL ".join(parts)


def _read(table: LakeTable, group: FileGroup, paths: Sequence[str], deletes: str | None = None) -> str:
    """Return the SELECT of one group of files."""
    values, schema = [], []
    for position, (own, read) in enumerate(zip(table.columns, group.columns, strict=True)):
        inner = f"data.c{position}"
        # The stored type may differ; without a cast, the types of a UNION would decide on the type of the column.
        value = f"CAST({read.value.replace(STORED, inner)} AS {own.native_type})" if read.value != STORED else inner
        values.append(f"{value} AS {DIALECT.quote(own.name)}")
        if read.key is not None:
            key = str(read.key) if isinstance(read.key, int) else text(read.key)
            schema.append(f"{key}: {{name: 'c{position}', type: {text(read.stored)}, default_value: NULL}}")
    named = isinstance(next((each.key for each in group.columns if each.key is not None), 0), str)
    if not schema:  # All columns are constants, of which each row of the files is one.
        schema.append(f"{text('') if named else -1}: {{name: 'c', type: 'INTEGER', default_value: NULL}}")
    options = f"schema = MAP {{{', '.join(schema)}}}"
    if deletes is not None:
        options += ", filename = 'ktx_file', file_row_number = true"
    files = ", ".join(text(pattern(path)) for path in paths)
    source = f"SELECT {', '.join(values)} FROM read_parquet([{files}], {options}) AS data"
    if deletes is None:
        return source
    return (
        f"{source} WHERE NOT EXISTS (SELECT 1 FROM {deletes} AS gone "
        "WHERE gone.file = data.ktx_file AND gone.pos = data.file_row_number)"
    )
