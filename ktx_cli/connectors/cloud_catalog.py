"""Puts a warehouse's catalog together from rows of one form, and writes the names and texts in catalog statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from ktx_cli.connectors.base import TableDraft
from ktx_cli.connectors.port import (
    Column,
    ForeignKey,
    ObjectProblem,
    TableKind,
    TableRef,
    UniqueKey,
)
from ktx_cli.connectors.types import semantic_type

Rows = list[tuple[Any, ...]]


class Catalog(Protocol):
    """One reading of a warehouse's catalog.

    Rows begin with schema and table; those of one table, and of one key, come in the order of their positions.
    """

    def relations(self) -> dict[TableRef, TableDraft]:
        """Return all tables and views that may be meant, without their columns."""
        ...

    def columns(self, schemas: Sequence[str]) -> Rows:
        """Return schema, table, name, type, nullable, comment, default, generated."""
        ...

    def keys(self, schemas: Sequence[str]) -> Rows:
        """Return schema, table, constraint, `PRIMARY KEY` or `UNIQUE`, column."""
        ...

    def foreign_keys(self, schemas: Sequence[str]) -> Rows:
        """Return schema, table, constraint, column, the target's schema, table and column (None: not known)."""
        ...

    def views(self, schemas: Sequence[str]) -> Rows:
        """Return schema, table and the SQL of a view (None: not shown to this user)."""
        ...


def assemble(drafts: dict[TableRef, TableDraft], dialect: str, catalog: Catalog) -> list[ObjectProblem]:
    """Fill the drafts with what the catalog tells of their schemas.

    Takes out what has no columns, such as a view that errors, and returns a problem for each, and for every foreign
    key whose target columns are not known.
    """
    schemas = sorted({ref.schema for ref in drafts if ref.schema is not None})
    if not schemas:
        return []
    _fill(drafts, catalog.columns(schemas), 2, lambda draft, rows: _add_columns(dialect, draft, rows))
    problems = _drop_empty(drafts)
    _fill(drafts, catalog.keys(schemas), 3, _add_key)
    _fill(drafts, catalog.foreign_keys(schemas), 3, lambda draft, rows: problems.extend(_add_foreign_key(draft, rows)))
    if any(draft.kind in (TableKind.VIEW, TableKind.MATERIALIZED_VIEW) for draft in drafts.values()):
        _fill(drafts, catalog.views(schemas), 2, _set_view)
    return problems


def drafts_of(rows: Iterable[tuple[Any, ...]], kinds: Mapping[str, TableKind]) -> dict[TableRef, TableDraft]:
    """Return a draft for each row of schema, table, type, comment and row count; a type not in `kinds` is a table."""
    found: dict[TableRef, TableDraft] = {}
    for schema, name, kind, comment, count in rows:
        ref = TableRef(schema, name)
        found[ref] = TableDraft(
            ref,
            kinds.get(str(kind), TableKind.TABLE),
            comment=comment or None,
            row_estimate=None if count is None else int(count),
        )
    return found


def identifier(dialect: str, *names: str) -> str:
    """Return a name, or names with dots between, quoted as the dialect wants it."""
    from sqlglot import exp

    return ".".join(exp.to_identifier(name, quoted=True).sql(dialect) for name in names)


def texts(dialect: str, values: Iterable[str]) -> str:
    """Return texts as the dialect writes them, with commas between."""
    from sqlglot import exp

    return ", ".join(exp.Literal.string(value).sql(dialect) for value in values)


def _fill(drafts: dict[TableRef, TableDraft], rows: Rows, width: int, add: Callable[[TableDraft, Rows], None]) -> None:
    """Hand each draft its rows, grouped by their first `width` values (schema, table and maybe a constraint)."""
    groups: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        groups.setdefault(row[:width], []).append(row[2:])
    for key, group in groups.items():
        draft = drafts.get(TableRef(key[0], key[1]))
        if draft is not None:
            add(draft, group)


def _drop_empty(drafts: dict[TableRef, TableDraft]) -> list[ObjectProblem]:
    empty = [ref for ref, draft in drafts.items() if not draft.columns]
    return [ObjectProblem(ref, drafts.pop(ref).kind.value, "the warehouse shows no columns of it") for ref in empty]


def _add_columns(dialect: str, draft: TableDraft, rows: Rows) -> None:
    for name, native, nullable, comment, default, generated in rows:
        draft.columns.append(
            Column(
                name=name,
                native_type=str(native),
                type=semantic_type(dialect, str(native)),
                nullable=bool(nullable),
                comment=comment or None,
                default=None if generated else default,
                generated=bool(generated),
            )
        )


def _add_key(draft: TableDraft, rows: Rows) -> None:
    name, kind, _ = rows[0]
    columns = tuple(column for _, _, column in rows)
    if kind == "PRIMARY KEY":
        draft.primary_key = columns
    else:
        draft.unique_keys.append(UniqueKey(columns, name))


def _add_foreign_key(draft: TableDraft, rows: Rows) -> list[ObjectProblem]:
    name, _, schema, table, _ = rows[0]
    columns = tuple(row[1] for row in rows)
    targets = tuple(row[4] for row in rows)
    if None in targets:
        message = f"foreign key `{name}` refers to columns of `{TableRef(schema, table)}` that are not known"
        return [ObjectProblem(draft.ref, "foreign key", message)]
    draft.foreign_keys.append(ForeignKey(columns, TableRef(schema, table), targets, name))
    return []


def _set_view(draft: TableDraft, rows: Rows) -> None:
    draft.view_sql = rows[0][0] or None
