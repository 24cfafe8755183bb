"""Reads the structure of ClickHouse databases from the system tables, one query for each kind of metadata.

ClickHouse has no keys in the relational sense: what it calls a primary key sorts a table and is not unique. The
sorting key is reported as an index.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ktx_cli.connectors.base import TableDraft
from ktx_cli.connectors.home import at_home, in_schemas
from ktx_cli.connectors.port import Column, Index, ObjectProblem, Scope, Table, TableKind, TableRef
from ktx_cli.connectors.reflect import PartReader, Reader
from ktx_cli.connectors.scope import select
from ktx_cli.connectors.types import semantic_type

RELATIONS = """
SELECT database, name, engine, comment, total_rows, sorting_key FROM system.tables
WHERE database NOT IN ('system', 'INFORMATION_SCHEMA', 'information_schema') AND NOT is_temporary
  AND NOT startsWith(name, '.inner')
"""
# An ephemeral column cannot be read.
COLUMNS = """
SELECT database, table, name, type, default_kind, default_expression, comment FROM system.columns
WHERE database IN ({schemas}) AND default_kind <> 'EPHEMERAL' ORDER BY database, table, position
"""
SKIPPING_INDEXES = """
SELECT database, table, name, expr FROM system.data_skipping_indices
WHERE database IN ({schemas}) ORDER BY database, table, name
"""
VIEWS = """
SELECT database, name, as_select FROM system.tables WHERE database IN ({schemas}) AND as_select <> ''
"""

SORTING_KEY = "sorting key"
"""The name of the index that stands for a table's sorting key."""

_VIEWS = {
    "View": TableKind.VIEW,
    "MaterializedView": TableKind.MATERIALIZED_VIEW,
    "LiveView": TableKind.MATERIALIZED_VIEW,
    "WindowView": TableKind.MATERIALIZED_VIEW,
}
_ELSEWHERE = re.compile(
    r"MySQL|PostgreSQL|MaterializedPostgreSQL|MongoDB|Redis|SQLite|ODBC|JDBC|S3\w*|URL|File|HDFS|Hive|Kafka|RabbitMQ|"
    r"NATS|Azure\w+|GCS|OSS|COSN|DeltaLake\w*|Iceberg\w*|Hudi|ExternalDistributed|YTsaurus|ArrowFlight"
)
_NULLABLE = re.compile(r"(LowCardinality\()?Nullable\(|(Variant|Dynamic)\b")
_PLAIN = re.compile(r"(?P<name>[A-Za-z_]\w*)|`(?P<quoted>(?:[^`\\]|\\.)+)`")
_GENERATED = ("MATERIALIZED", "ALIAS")


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation as listed: its draft and the text of its sorting key."""

    draft: TableDraft
    sorting_key: str


def list_relations(read: Reader) -> dict[TableRef, Relation]:
    """Return all tables and views the user may see but the system's and a view's hidden store.

    A row count is exact where the engine keeps one, else None.
    """
    found: dict[TableRef, Relation] = {}
    for database, name, engine, comment, rows, sorting_key in read(RELATIONS):
        kind = _kind(engine)
        counted = kind in (TableKind.TABLE, TableKind.MATERIALIZED_VIEW) and rows is not None
        draft = TableDraft(
            TableRef(database, name), kind, comment=comment or None, row_estimate=int(rows) if counted else None
        )
        found[draft.ref] = Relation(draft, sorting_key)
    return found


class ClickHouseCatalog:
    """One reading of the structure of all databases in scope; `home` is the connection's own database."""

    def __init__(self, read: Reader, parts: PartReader, home: str | None) -> None:
        self._read = read
        self._parts = parts
        self._home = home

    def read(self, scope: Scope) -> tuple[tuple[Table, ...], tuple[ObjectProblem, ...]]:
        """Return everything in scope, sorted, and the scope's entries that matched nothing."""
        relations = at_home(list_relations(self._read), scope, self._home)
        chosen = select(relations, scope)
        drafts = {ref: relations[ref].draft for ref in chosen.refs}
        databases = tuple(sorted({ref.schema for ref in drafts if ref.schema is not None}))
        if databases:
            self._fill(drafts, databases)
            for ref, draft in drafts.items():
                _add_index(draft, SORTING_KEY, relations[ref].sorting_key)
        return tuple(draft.finish() for _, draft in sorted(drafts.items())), chosen.problems

    def _fill(self, drafts: dict[TableRef, TableDraft], databases: tuple[str, ...]) -> None:
        def each(what: str, sql: str, add: Callable[..., None]) -> None:
            _each(drafts, self._parts(what, in_schemas(sql, len(databases)), databases), add)

        _each(drafts, self._read(in_schemas(COLUMNS, len(databases)), databases), _add_column)
        each("indexes", SKIPPING_INDEXES, _add_index)
        each("view definitions", VIEWS, _set_view)


def plain_columns(expressions: str) -> tuple[str, ...]:
    """Return the plain columns in a list of expressions, in order: `a, toDate(b), c` has `a` and `c`."""
    matches = (_PLAIN.fullmatch(part.strip()) for part in _split(expressions))
    return tuple(found["name"] or _unescaped(found["quoted"]) for found in matches if found is not None)


def _kind(engine: str) -> TableKind:
    if engine in _VIEWS:
        return _VIEWS[engine]
    return TableKind.FOREIGN if _ELSEWHERE.fullmatch(engine) else TableKind.TABLE


def _each(drafts: dict[TableRef, TableDraft], rows: Iterable[tuple[Any, ...]], add: Callable[..., None]) -> None:
    for database, table, *rest in rows:
        draft = drafts.get(TableRef(database, table))
        if draft is not None:
            add(draft, *rest)


def _add_column(draft: TableDraft, name: str, native: str, kind: str, expression: str, comment: str) -> None:
    draft.columns.append(
        Column(
            name=name,
            native_type=native,
            type=semantic_type("clickhouse", native),
            nullable=_NULLABLE.match(native) is not None,
            comment=comment or None,
            default=expression if kind == "DEFAULT" else None,
            generated=kind in _GENERATED,
        )
    )


def _add_index(draft: TableDraft, name: str, expressions: str) -> None:
    known = {column.name for column in draft.columns}
    columns = tuple(column for column in plain_columns(expressions) if column in known)
    if columns:
        draft.indexes.append(Index(columns, name))


def _set_view(draft: TableDraft, definition: str) -> None:
    if draft.kind in _VIEWS.values():
        draft.view_sql = definition


def _split(expressions: str) -> list[str]:
    """Split at the commas outside of brackets and quotes; brackets around the whole are left out."""
    text = expressions.strip()
    marks = list(_outer_marks(text))
    if marks == [(0, "("), (len(text) - 1, ")")]:
        return _split(text[1:-1])
    commas = [position for position, mark in marks if mark == ","]
    return [text[start + 1 : end] for start, end in pairwise([-1, *commas, len(text)])]


def _outer_marks(text: str) -> Iterator[tuple[int, str]]:
    """Yield where the brackets and commas that are within no bracket and no quote are."""
    depth, quote, position = 0, "", 0
    while position < len(text):
        mark = text[position]
        if quote:
            position += mark == "\\"
            quote = "" if mark == quote else quote
        elif mark in "'`\"":
            quote = mark
        else:
            depth -= mark in ")]"
            if depth == 0 and mark in "(),":
                yield position, mark
            depth += mark in "(["
        position += 1


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)
