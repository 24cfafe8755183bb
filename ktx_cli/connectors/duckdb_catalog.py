"""Reads the structure of a DuckDB database from its catalog functions."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

from ktx_cli.connectors.base import TableDraft, reason
from ktx_cli.connectors.port import (
    Column,
    ForeignKey,
    Index,
    ObjectProblem,
    Scope,
    Table,
    TableKind,
    TableRef,
    UniqueKey,
)
from ktx_cli.connectors.scope import select
from ktx_cli.connectors.types import semantic_type
from ktx_cli.connectors.worker.process import EngineError
from ktx_cli.connectors.worker.session import TimedSession
from ktx_cli.core.text import one_line

_OUTSIDE = re.compile(r'Cannot access file "(.+)" - file system operations are disabled')
# A macro kept in the file goes before DuckDB's own function of its name, unless that is asked for by its full name.
_THIS = "database_name = system.main.current_database()"
_MINE = f"NOT internal AND {_THIS}"
_RELATIONS = f"""
SELECT schema_name, table_name, 'table', comment, estimated_size, NULL FROM system.main.duckdb_tables() WHERE {_MINE}
UNION ALL
SELECT schema_name, view_name, 'view', comment, NULL, sql FROM system.main.duckdb_views() WHERE {_MINE}
"""
_COLUMNS = f"""
SELECT schema_name, table_name, column_name, data_type, is_nullable, column_default, comment, is_generated
FROM system.main.duckdb_columns() WHERE {_MINE} ORDER BY schema_name, table_name, column_index
"""
_CONSTRAINTS = f"""
SELECT schema_name, table_name, constraint_type, constraint_name, constraint_column_names, referenced_table,
       referenced_column_names
FROM system.main.duckdb_constraints() WHERE {_THIS} ORDER BY constraint_index
"""
_INDEXES = f"""
SELECT schema_name, table_name, index_name, is_unique, expressions::VARCHAR[]
FROM system.main.duckdb_indexes() WHERE {_THIS} AND NOT is_primary ORDER BY index_oid
"""


def list_relations(session: TimedSession) -> list[TableDraft]:
    """Return all tables and views of the database but DuckDB's own."""
    return [
        TableDraft(
            TableRef(schema, name),
            TableKind(kind),
            comment=comment or None,
            row_estimate=size,
            view_sql=sql,
        )
        for schema, name, kind, comment, size, sql in session.execute(_RELATIONS).fetchall()
    ]


class DuckDbCatalog:
    """One reading of a database's structure; `problems` holds what could not be read."""

    def __init__(self, session: TimedSession) -> None:
        self.session = session
        self.problems: list[ObjectProblem] = []

    def read(self, scope: Scope, *, catalog: str) -> tuple[Table, ...]:
        """Return everything in scope, sorted; a view that errors becomes a problem."""
        drafts = {draft.ref: draft for draft in list_relations(self.session)}
        chosen = select(drafts, scope, catalog=catalog)
        self.problems += chosen.problems
        drafts = {ref: drafts[ref] for ref in chosen.refs}
        self._drop_broken_views(drafts, catalog)
        self._columns(drafts)
        self._constraints(drafts)
        self._indexes(drafts)
        return tuple(draft.finish() for _, draft in sorted(drafts.items()))

    def _drop_broken_views(self, drafts: dict[TableRef, TableDraft], catalog: str) -> None:
        # The catalog keeps the columns a view had when it was made; only binding it says whether it still works.
        for ref in [ref for ref, draft in drafts.items() if draft.kind is TableKind.VIEW]:
            name = ".".join(map(quoted, (catalog, ref.schema or "main", ref.name)))
            try:
                self.session.execute(f"EXPLAIN SELECT * FROM {name}")
            except EngineError as error:
                if error.interrupted:
                    raise
                del drafts[ref]
                self.problems.append(ObjectProblem(ref, "view", file_reason(error) or reason(error)))

    def _columns(self, drafts: dict[TableRef, TableDraft]) -> None:
        rows = self.session.execute(_COLUMNS).fetchall()
        for (schema, table), group in groupby(rows, key=lambda row: (row[0], row[1])):
            draft = drafts.get(TableRef(schema, table))
            if draft is not None:
                draft.columns = [_column(row[2:]) for row in group]

    def _constraints(self, drafts: dict[TableRef, TableDraft]) -> None:
        for schema, table, kind, name, columns, target, targets in self.session.execute(_CONSTRAINTS).fetchall():
            draft = drafts.get(TableRef(schema, table))
            if draft is None:
                continue
            if kind == "PRIMARY KEY":
                draft.primary_key = tuple(columns)
            elif kind == "UNIQUE":
                draft.unique_keys.append(UniqueKey(tuple(columns), name))
            elif kind == "FOREIGN KEY":
                # DuckDB has no foreign keys from one schema to another.
                ref = TableRef(schema, target)
                draft.foreign_keys.append(ForeignKey(tuple(columns), ref, tuple(targets), name))

    def _indexes(self, drafts: dict[TableRef, TableDraft]) -> None:
        for schema, table, name, unique, expressions in self.session.execute(_INDEXES).fetchall():
            draft = drafts.get(TableRef(schema, table))
            if draft is None:
                continue
            names = {spelling: each.name for each in draft.columns for spelling in (each.name, quoted(each.name))}
            columns = tuple(names[expression] for expression in expressions if expression in names)
            if unique and len(columns) == len(expressions):
                draft.unique_keys.append(UniqueKey(columns, name))
            elif columns and not unique:
                draft.indexes.append(Index(columns, name))


def file_reason(error: Exception) -> str | None:
    """Return what to say when DuckDB would have had to open another file, and None for any other error."""
    found = _OUTSIDE.search(str(error))
    if found is None:
        return None
    name = one_line(found[1], 60)
    return f"reads the file {name}, which ktx does not allow: use a `files` connection, or make it a table"


def quoted(name: str) -> str:
    """Return the name as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def _column(row: tuple[Any, ...]) -> Column:
    name, native, nullable, default, comment, generated = row
    return Column(
        name=name,
        native_type=native,
        type=semantic_type("duckdb", native),
        nullable=bool(nullable),
        comment=comment or None,
        default=None if generated else default,
        generated=bool(generated),
    )
