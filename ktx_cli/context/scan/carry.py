"""What could not be looked at is not gone: it is carried over from the last snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ktx_cli.connectors.port import DatabaseSchema, ObjectProblem, Table
from ktx_cli.core.errors import SourceError

WHOLESALE = frozenset({"schema", "folder"})
"""Problems of no single table that hide tables: nothing that is missing now counts as dropped."""


def require_some_tables(connection: str, schema: DatabaseSchema, before: Sequence[Table]) -> None:
    """Raise `SourceError` when a database that had tables shows none: far more often a lost privilege than a drop."""
    if before and not schema.tables and not schema.problems:
        raise SourceError(
            f"connection `{connection}` shows no table; at the last scan it had {len(before)}",
            hint="check the role's privileges, `include` and the path; to start anew, delete its folders in "
            "semantic-layer/ and raw-sources/",
        )


def carried_over(schema: DatabaseSchema, before: Sequence[Table]) -> tuple[list[Table], list[Table]]:
    """Return all tables to describe, and those of them that are as the last scan saw them.

    A table that could not be read now, or shows no column any more, is carried over whole; where one kind of metadata
    could not be read for any table (`foreign keys`, `indexes`), that part of each table is.
    """
    found = {table.ref: table for table in schema.tables}
    unreadable = {problem.ref for problem in schema.problems if problem.ref is not None}
    hidden = any(problem.ref is None and problem.what in WHOLESALE for problem in schema.problems)
    kept = [table for table in before if table.ref not in found and (hidden or table.ref in unreadable)]
    missing = _missing_parts(schema.problems)
    old = {table.ref: table for table in before}
    # A table that is dropped and made again while the catalog is read keeps its name and shows no column.
    bare = {table.ref for table in schema.tables if not table.columns and table.ref in old and old[table.ref].columns}
    kept += [old[ref] for ref in sorted(bare, key=str)]
    tables = [_completed(table, old.get(table.ref), missing) for table in schema.tables if table.ref not in bare]
    return [*tables, *kept], kept


def _missing_parts(problems: Iterable[ObjectProblem]) -> frozenset[str]:
    return frozenset(problem.what for problem in problems if problem.ref is None)


def _completed(table: Table, old: Table | None, missing: frozenset[str]) -> Table:
    if old is None or not missing:
        return table
    if missing & {"constraints", "foreign keys"}:
        table = replace(table, foreign_keys=old.foreign_keys)
    if missing & {"constraints", "indexes"}:
        table = replace(table, primary_key=old.primary_key, unique_keys=old.unique_keys, indexes=old.indexes)
    if "view definitions" in missing:
        table = replace(table, view_sql=old.view_sql)
    if "materialized views" in missing:
        table = replace(table, kind=old.kind, view_sql=table.view_sql or old.view_sql)
    if "row counts" in missing and table.row_estimate is None:
        table = replace(table, row_estimate=old.row_estimate)
    return _with_comments(table, old, missing)


def _with_comments(table: Table, old: Table, missing: frozenset[str]) -> Table:
    if "table comments" in missing:
        table = replace(table, comment=table.comment or old.comment)
    if "column comments" in missing:
        known = {column.name: column.comment for column in old.columns}
        columns = (replace(each, comment=each.comment or known.get(each.name)) for each in table.columns)
        table = replace(table, columns=tuple(columns))
    return table
