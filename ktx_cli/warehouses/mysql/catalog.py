"""Reads the structure of MySQL and MariaDB schemas from information_schema, one query for each kind of metadata.

No snapshot covers information_schema, whatever the transaction: each query sees its own moment. A table that is dropped
between two of them is left without columns, which none has, and becomes a problem; one that is altered can be torn
until the next scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ktx_cli.warehouses.base import TableDraft, reason
from ktx_cli.warehouses.mysql.dialect import DIALECT
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
    select,
)
from ktx_cli.warehouses.server import PartReader, Reader

_RELATIONS = """
SELECT table_schema, table_name, table_type, table_rows, table_comment FROM information_schema.tables
WHERE table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
  AND table_type IN ('BASE TABLE', 'VIEW', 'SYSTEM VERSIONED')
"""
_COLUMNS = """
SELECT table_schema, table_name, column_name, column_type, is_nullable = 'YES', column_default, column_comment,
       generation_expression, extra
FROM information_schema.columns WHERE table_schema IN %s ORDER BY table_schema, table_name, ordinal_position
"""
_INDEXES = """
SELECT table_schema, table_name, index_name, non_unique, column_name, sub_part
FROM information_schema.statistics WHERE table_schema IN %s
ORDER BY table_schema, table_name, index_name, seq_in_index
"""
# TABLE_CONSTRAINTS and REFERENTIAL_CONSTRAINTS are empty for a role that may only SELECT; this one is not.
_FOREIGN_KEYS = """
SELECT table_schema, table_name, constraint_name, column_name, referenced_table_schema, referenced_table_name,
       referenced_column_name
FROM information_schema.key_column_usage WHERE table_schema IN %s AND referenced_table_name IS NOT NULL
ORDER BY table_schema, table_name, constraint_name, ordinal_position
"""
_VIEWS = "SELECT table_schema, table_name, view_definition FROM information_schema.views WHERE table_schema IN %s"
_BROKEN = "references invalid table(s)"


def list_relations(read: Reader) -> dict[TableRef, TableDraft]:
    """Return all tables and views but the system's; sequences are none. A row estimate is InnoDB's own guess."""
    drafts: dict[TableRef, TableDraft] = {}
    for schema, name, kind, rows, comment in read(_RELATIONS):
        view = kind == "VIEW"
        ref = TableRef(schema, name)
        drafts[ref] = TableDraft(
            ref,
            TableKind.VIEW if view else TableKind.TABLE,
            comment=comment if comment and not (view and comment == "VIEW") else None,
            row_estimate=None if view or rows is None else int(rows),
        )
    return drafts


class MySqlCatalog:
    """One reading of the structure of all schemas in scope."""

    def __init__(self, read: Reader, parts: PartReader) -> None:
        self._read = read
        self._parts = parts

    def read(
        self, relations: dict[TableRef, TableDraft], scope: Scope
    ) -> tuple[tuple[Table, ...], tuple[ObjectProblem, ...]]:
        """Return those of the relations that are in scope, sorted.

        Scope entries that matched nothing and views that error are problems.
        """
        chosen = select(relations, scope)
        drafts = {ref: relations[ref] for ref in chosen.refs}
        problems = list(chosen.problems)
        schemas = tuple(sorted({ref.schema for ref in drafts if ref.schema is not None}))
        if schemas:
            _fill(drafts, self._read(_COLUMNS, (schemas,)), 2, _set_columns)
            problems += _drop_broken(drafts)
            _fill(drafts, self._parts("indexes", _INDEXES, (schemas,)), 3, _add_index)
            _fill(drafts, self._parts("foreign keys", _FOREIGN_KEYS, (schemas,)), 3, _add_foreign_key)
            _fill(drafts, self._parts("view definitions", _VIEWS, (schemas,)), 2, _set_view)
        tables = sorted((draft.finish() for draft in drafts.values()), key=lambda table: table.ref)
        return tuple(tables), tuple(problems)


def _fill(
    drafts: dict[TableRef, TableDraft],
    rows: Iterable[tuple[Any, ...]],
    width: int,
    add: Callable[[TableDraft, list[tuple[Any, ...]]], None],
) -> None:
    """Hand each draft its rows, grouped by their first `width` values (schema, table and maybe a name)."""
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    # The server sorts names that differ only in case as equal, so the rows of two tables may be mixed.
    for row in rows:
        groups.setdefault(row[:width], []).append(row[2:])
    for key, group in groups.items():
        draft = drafts.get(TableRef(key[0], key[1]))
        if draft is not None:
            add(draft, group)


def _drop_broken(drafts: dict[TableRef, TableDraft]) -> list[ObjectProblem]:
    """Take out views the server itself calls invalid (MariaDB shows no columns of them, MySQL still does).

    So too tables without columns: dropped meanwhile, or hidden from the role.
    """
    problems = []
    for ref, draft in list(drafts.items()):
        comment = draft.comment or ""
        broken = draft.kind is TableKind.VIEW and _BROKEN in comment
        if broken or not draft.columns:
            del drafts[ref]
            cause = comment if draft.kind is TableKind.VIEW else ""
            problems.append(ObjectProblem(ref, draft.kind.value, reason(cause or "the server shows no columns of it")))
    return problems


def _set_columns(draft: TableDraft, rows: list[tuple[Any, ...]]) -> None:
    for name, native, nullable, default, comment, expression, extra in rows:
        generated = bool(expression) or "GENERATED" in str(extra).upper().replace("DEFAULT_GENERATED", "")
        draft.columns.append(
            Column(
                name=name,
                native_type=_text(native),
                type=DIALECT.semantic_type(_text(native)),
                nullable=bool(nullable),
                comment=comment or None,
                # MariaDB spells "no default" of a nullable column as the word NULL.
                default=None if default is None or generated or default == "NULL" else _text(default),
                generated=generated,
            )
        )


def _add_index(draft: TableDraft, rows: list[tuple[Any, ...]]) -> None:
    name, non_unique = rows[0][:2]
    # An expression has no column; a prefix (`sub_part`) of a column does not make the column unique.
    columns = tuple(column for _, _, column, _ in rows if column is not None)
    whole = len(columns) == len(rows) and all(part is None for *_, part in rows)
    if name == "PRIMARY":
        draft.primary_key = columns
    elif not int(non_unique):
        if whole:
            draft.unique_keys.append(UniqueKey(columns, name))
    elif columns:
        draft.indexes.append(Index(columns, name))


def _add_foreign_key(draft: TableDraft, rows: list[tuple[Any, ...]]) -> None:
    name, _, schema, table, _ = rows[0]
    columns = tuple(row[1] for row in rows)
    targets = tuple(row[4] for row in rows)
    draft.foreign_keys.append(ForeignKey(columns, TableRef(schema, table), targets, name))


def _set_view(draft: TableDraft, rows: list[tuple[Any, ...]]) -> None:
    # The definition is empty for a role without SHOW VIEW.
    draft.view_sql = _text(rows[0][0]) or None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
