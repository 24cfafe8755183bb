"""Reads the structure of a SQL Server database from the sys views, one query for each kind of metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ktx_cli.warehouses.base import TableDraft
from ktx_cli.warehouses.port import (
    Column,
    ForeignKey,
    Index,
    ObjectProblem,
    Scope,
    Table,
    TableKind,
    TableRef,
    UniqueKey,
    at_home,
    in_schemas,
    select,
)
from ktx_cli.warehouses.server import PartReader, Reader
from ktx_cli.warehouses.sqlserver.dialect import DIALECT

HOME = "dbo"
"""The schema that is read when nothing names one."""

# A view with a clustered index is stored. The diagrams of a tool are no data of the user's.
RELATIONS = """
SELECT o.object_id, s.name, o.name,
       CASE WHEN t.is_external = 1 THEN 'X' WHEN o.type = 'V' AND i.object_id IS NOT NULL THEN 'M'
            ELSE RTRIM(o.type) END,
       CAST(e.value AS nvarchar(4000)), p.row_count,
       HAS_PERMS_BY_NAME(QUOTENAME(s.name) + '.' + QUOTENAME(o.name), 'OBJECT', 'SELECT'),
       HAS_PERMS_BY_NAME(QUOTENAME(s.name) + '.' + QUOTENAME(o.name), 'OBJECT', 'INSERT'),
       HAS_PERMS_BY_NAME(QUOTENAME(s.name) + '.' + QUOTENAME(o.name), 'OBJECT', 'UPDATE'),
       HAS_PERMS_BY_NAME(QUOTENAME(s.name) + '.' + QUOTENAME(o.name), 'OBJECT', 'DELETE')
FROM sys.objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id
LEFT JOIN sys.tables AS t ON t.object_id = o.object_id
LEFT JOIN sys.indexes AS i ON i.object_id = o.object_id AND i.index_id = 1
LEFT JOIN (SELECT object_id, SUM(rows) AS row_count FROM sys.partitions WHERE index_id IN (0, 1)
           GROUP BY object_id) AS p ON p.object_id = o.object_id
LEFT JOIN sys.extended_properties AS e
       ON e.class = 1 AND e.major_id = o.object_id AND e.minor_id = 0 AND e.name = 'MS_Description'
WHERE o.type IN ('U', 'V') AND o.is_ms_shipped = 0
  AND NOT EXISTS (SELECT 1 FROM sys.extended_properties AS m
                  WHERE m.class = 1 AND m.major_id = o.object_id AND m.minor_id = 0
                    AND m.name = 'microsoft_database_tools_support')
"""
COLUMNS = """
SELECT c.object_id, c.name, t.name, COALESCE(b.name, t.name), c.max_length, c.precision, c.scale, c.is_nullable,
       c.is_identity, c.is_computed, d.definition, CAST(e.value AS nvarchar(4000))
FROM sys.columns AS c JOIN sys.objects AS o ON o.object_id = c.object_id
JOIN sys.schemas AS s ON s.schema_id = o.schema_id
JOIN sys.types AS t ON t.user_type_id = c.user_type_id
LEFT JOIN sys.types AS b ON b.user_type_id = c.system_type_id AND t.is_user_defined = 1
LEFT JOIN sys.default_constraints AS d ON d.object_id = c.default_object_id
LEFT JOIN sys.extended_properties AS e
       ON e.class = 1 AND e.major_id = c.object_id AND e.minor_id = c.column_id AND e.name = 'MS_Description'
WHERE s.name IN ({schemas}) AND o.type IN ('U', 'V') AND c.is_hidden = 0
ORDER BY c.object_id, c.column_id
"""
INDEXES = """
SELECT i.object_id, i.name, i.is_primary_key, i.is_unique, i.has_filter, c.name
FROM sys.indexes AS i JOIN sys.objects AS o ON o.object_id = i.object_id
JOIN sys.schemas AS s ON s.schema_id = o.schema_id
JOIN sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id
JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
WHERE s.name IN ({schemas}) AND o.type IN ('U', 'V') AND k.key_ordinal > 0
  AND i.is_disabled = 0 AND i.is_hypothetical = 0
ORDER BY i.object_id, i.index_id, k.key_ordinal
"""
FOREIGN_KEYS = """
SELECT f.parent_object_id, f.name, rs.name, r.name, c.name, rc.name
FROM sys.foreign_keys AS f JOIN sys.schemas AS s ON s.schema_id = f.schema_id
JOIN sys.objects AS r ON r.object_id = f.referenced_object_id JOIN sys.schemas AS rs ON rs.schema_id = r.schema_id
JOIN sys.foreign_key_columns AS k ON k.constraint_object_id = f.object_id
JOIN sys.columns AS c ON c.object_id = k.parent_object_id AND c.column_id = k.parent_column_id
JOIN sys.columns AS rc ON rc.object_id = k.referenced_object_id AND rc.column_id = k.referenced_column_id
WHERE s.name IN ({schemas})
ORDER BY f.parent_object_id, f.object_id, k.constraint_column_id
"""
VIEWS = """
SELECT m.object_id, m.definition
FROM sys.sql_modules AS m JOIN sys.views AS v ON v.object_id = m.object_id
JOIN sys.schemas AS s ON s.schema_id = v.schema_id
WHERE s.name IN ({schemas})
"""

_KINDS = {
    "U": TableKind.TABLE,
    "V": TableKind.VIEW,
    "M": TableKind.MATERIALIZED_VIEW,
    "X": TableKind.FOREIGN,
}
_CHARACTERS = {"char": 1, "varchar": 1, "binary": 1, "varbinary": 1, "nchar": 2, "nvarchar": 2}
_DECIMALS = ("decimal", "numeric")
_FRACTIONS = ("datetime2", "datetimeoffset", "time")


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation as listed: its object_id, whether the user may SELECT from it and change it, and its draft."""

    id: int
    readable: bool
    writable: bool
    draft: TableDraft


def list_relations(read: Reader) -> dict[TableRef, Relation]:
    """Return all tables and views the user may see but the system's. Row counts are those of `sys.partitions`."""
    found: dict[TableRef, Relation] = {}
    for number, schema, name, kind, comment, rows, readable, *writing in read(RELATIONS):
        counted = kind in ("U", "M") and rows is not None
        draft = TableDraft(
            TableRef(schema, name), _KINDS[kind], comment=comment or None, row_estimate=int(rows) if counted else None
        )
        found[draft.ref] = Relation(number, bool(readable), any(writing), draft)
    return found


class SqlServerCatalog:
    """One reading of a database's structure."""

    def __init__(self, read: Reader, parts: PartReader) -> None:
        self._read = read
        self._parts = parts

    def read(self, scope: Scope, *, catalog: str) -> tuple[tuple[Table, ...], tuple[ObjectProblem, ...]]:
        """Return everything in scope, sorted, and the scope's entries that matched nothing."""
        relations = at_home(list_relations(self._read), scope, HOME)
        chosen = select(relations, scope, catalog=catalog)
        drafts = {relations[ref].id: relations[ref].draft for ref in chosen.refs}
        schemas = tuple(sorted({ref.schema for ref in chosen.refs if ref.schema is not None}))
        if schemas:
            _fill(drafts, self._read(in_schemas(COLUMNS, len(schemas)), schemas), 1, _add_columns)
            self._part(drafts, schemas, "indexes", INDEXES, 2, _add_index)
            self._part(drafts, schemas, "foreign keys", FOREIGN_KEYS, 2, _add_foreign_key)
            self._part(drafts, schemas, "view definitions", VIEWS, 1, _set_view)
        tables = sorted((draft.finish() for draft in drafts.values()), key=lambda table: table.ref)
        return tuple(tables), chosen.problems

    def _part(
        self,
        drafts: dict[int, TableDraft],
        schemas: tuple[str, ...],
        what: str,
        sql: str,
        width: int,
        add: Callable[[TableDraft, list[tuple[Any, ...]]], None],
    ) -> None:
        _fill(drafts, self._parts(what, in_schemas(sql, len(schemas)), schemas), width, add)


def native_type(name: str, length: int, precision: int, scale: int) -> str:
    """Return a type as T-SQL spells it; `length` is in bytes, -1 for `max`."""
    if name in _CHARACTERS:
        return f"{name}({'max' if length < 0 else length // _CHARACTERS[name]})"
    if name in _DECIMALS:
        return f"{name}({precision},{scale})"
    return f"{name}({scale})" if name in _FRACTIONS else name


def _fill(
    drafts: dict[int, TableDraft],
    rows: Iterable[tuple[Any, ...]],
    width: int,
    add: Callable[[TableDraft, list[tuple[Any, ...]]], None],
) -> None:
    """Hand each draft its rows, grouped by their first `width` values (an object and maybe a name)."""
    for key, group in groupby(rows, lambda row: row[:width]):
        if key[0] in drafts:
            add(drafts[key[0]], [row[1:] for row in group])


def _add_columns(draft: TableDraft, rows: list[tuple[Any, ...]]) -> None:
    for name, declared, stored, length, precision, scale, nullable, identity, computed, default, comment in rows:
        # A type of the user's own is spelled by its name; what it holds is its base type's.
        own = declared != stored
        draft.columns.append(
            Column(
                name=name,
                native_type=declared if own else native_type(declared, length, precision, scale),
                type=DIALECT.semantic_type(stored),
                nullable=bool(nullable),
                comment=comment or None,
                default="IDENTITY" if identity else default,
                generated=bool(computed),
            )
        )


def _add_index(draft: TableDraft, rows: list[tuple[Any, ...]]) -> None:
    name, primary, unique, filtered, _ = rows[0]
    columns = tuple(row[-1] for row in rows)
    if primary:
        draft.primary_key = columns
    elif not unique:
        draft.indexes.append(Index(columns, name))
    elif not filtered:
        draft.unique_keys.append(UniqueKey(columns, name))


def _add_foreign_key(draft: TableDraft, rows: list[tuple[Any, ...]]) -> None:
    name, schema, table = rows[0][:3]
    columns, targets = tuple(row[3] for row in rows), tuple(row[4] for row in rows)
    draft.foreign_keys.append(ForeignKey(columns, TableRef(schema, table), targets, name))


def _set_view(draft: TableDraft, rows: list[tuple[Any, ...]]) -> None:
    # The definition is NULL for a user without VIEW DEFINITION, and of an encrypted view.
    draft.view_sql = rows[0][0]
