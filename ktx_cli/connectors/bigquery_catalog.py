"""Reads the structure of BigQuery datasets from their INFORMATION_SCHEMA, one statement for each kind of metadata.

A statement covers all datasets of one location: BigQuery runs a statement in one place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ktx_cli.connectors.base import TableDraft, reason
from ktx_cli.connectors.cloud import ClientError
from ktx_cli.connectors.cloud_catalog import Rows, drafts_of, identifier
from ktx_cli.connectors.port import ObjectProblem, TableKind, TableRef
from ktx_cli.connectors.reflect import PartReader, Reader

IDENTITY = "SELECT SESSION_USER()"

_KINDS = {
    "VIEW": TableKind.VIEW,
    "MATERIALIZED VIEW": TableKind.MATERIALIZED_VIEW,
    "EXTERNAL": TableKind.FOREIGN,
}
_RELATIONS = """
SELECT table_schema, table_name, table_type, IF(table_type = 'MATERIALIZED VIEW', ddl, NULL) AS ddl
FROM {dataset}.INFORMATION_SCHEMA.TABLES
"""
_COMMENTS = """
SELECT table_schema, table_name, option_value
FROM {dataset}.INFORMATION_SCHEMA.TABLE_OPTIONS WHERE option_name = 'description'
"""
# INFORMATION_SCHEMA knows counts by region alone, which needs rights on the whole project.
_COUNTS = """
SELECT dataset_id AS table_schema, table_id AS table_name, row_count FROM {dataset}.`__TABLES__` WHERE type = 1
"""
_COLUMNS = """
SELECT table_schema, table_name, column_name, data_type, is_nullable, column_default, is_generated, ordinal_position
FROM {dataset}.INFORMATION_SCHEMA.COLUMNS WHERE is_hidden = 'NO'
"""
_COLUMN_COMMENTS = """
SELECT table_schema, table_name, column_name, description
FROM {dataset}.INFORMATION_SCHEMA.COLUMN_FIELD_PATHS WHERE field_path = column_name AND description IS NOT NULL
"""
_KEYS = """
SELECT k.table_schema, k.table_name, k.constraint_name, k.column_name, k.ordinal_position
FROM {dataset}.INFORMATION_SCHEMA.KEY_COLUMN_USAGE AS k
JOIN {dataset}.INFORMATION_SCHEMA.TABLE_CONSTRAINTS AS c
  ON c.constraint_name = k.constraint_name AND c.table_name = k.table_name
WHERE c.constraint_type = 'PRIMARY KEY'
"""
# CONSTRAINT_COLUMN_USAGE names the columns a key refers to in no order: that is in the other table's primary key.
_FOREIGN_KEYS = """
SELECT k.table_schema, k.table_name, k.constraint_name, k.column_name, t.table_schema AS target_schema,
       t.table_name AS target_table, COALESCE(p.column_name, t.only_column) AS target_column, k.ordinal_position
FROM {dataset}.INFORMATION_SCHEMA.KEY_COLUMN_USAGE AS k
JOIN {dataset}.INFORMATION_SCHEMA.TABLE_CONSTRAINTS AS c
  ON c.constraint_name = k.constraint_name AND c.table_name = k.table_name
JOIN (SELECT constraint_name, table_schema, table_name,
             IF(COUNT(DISTINCT column_name) = 1, MIN(column_name), NULL) AS only_column
      FROM {dataset}.INFORMATION_SCHEMA.CONSTRAINT_COLUMN_USAGE
      GROUP BY constraint_name, table_schema, table_name) AS t ON t.constraint_name = k.constraint_name
LEFT JOIN {dataset}.INFORMATION_SCHEMA.KEY_COLUMN_USAGE AS p
  ON p.table_schema = t.table_schema AND p.table_name = t.table_name
 AND p.position_in_unique_constraint IS NULL AND p.ordinal_position = k.position_in_unique_constraint
WHERE c.constraint_type = 'FOREIGN KEY'
"""
_VIEWS = "SELECT table_schema, table_name, view_definition FROM {dataset}.INFORMATION_SCHEMA.VIEWS"
_CLOSED = (400, 403, 404)
_TOGETHER = 200
_DEFINITION = re.compile(r"^AS\s", re.MULTILINE)
_ESCAPE = re.compile(r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class BigQueryCatalog:
    """One reading of the datasets of a project; `datasets` are their names and locations."""

    def __init__(self, read: Reader, parts: PartReader, project: str, datasets: Mapping[str, str]) -> None:
        self._read = read
        self._parts = parts
        self._project = project
        self._datasets = datasets
        self._definitions: Rows = []

    def relations(self) -> dict[TableRef, TableDraft]:
        """Return all tables and views, with their comments and row counts; a dataset that is closed is a problem."""
        rows = self._rows("schema", _RELATIONS, self._datasets)
        self._definitions = [(schema, name, _definition(ddl)) for schema, name, _, ddl in rows if ddl]
        drafts = drafts_of([(schema, name, kind, None, None) for schema, name, kind, _ in rows], _KINDS)
        for schema, name, option in self._rows("table comments", _COMMENTS, self._datasets):
            if (draft := drafts.get(TableRef(schema, name))) is not None:
                draft.comment = unquoted(option) or None
        for schema, name, count in self._rows("row counts", _COUNTS, self._datasets):
            if (draft := drafts.get(TableRef(schema, name))) is not None:
                draft.row_estimate = int(count)
        return drafts

    def columns(self, schemas: Sequence[str]) -> Rows:
        """Return the columns but the pseudo ones of partitioned tables."""
        commented = self._rows("column comments", _COLUMN_COMMENTS, schemas)
        comments = {tuple(names): comment for *names, comment in commented}
        return [
            (schema, table, name, native, nullable == "YES", comments.get((schema, table, name)),
             None if default == "NULL" else default, generated != "NEVER")
            for schema, table, name, native, nullable, default, generated, _ in _ordered(
                self._rows("columns", _COLUMNS, schemas), 2
            )
        ]  # fmt: skip

    def keys(self, schemas: Sequence[str]) -> Rows:
        """Return the primary keys, which BigQuery does not enforce; it has no unique ones."""
        rows = _ordered(self._rows("constraints", _KEYS, schemas), 3)
        return [(schema, table, name, "PRIMARY KEY", column) for schema, table, name, column, _ in rows]

    def foreign_keys(self, schemas: Sequence[str]) -> Rows:
        """Return the foreign keys, which BigQuery does not enforce."""
        return [row[:-1] for row in _ordered(self._rows("foreign keys", _FOREIGN_KEYS, schemas), 3)]

    def views(self, schemas: Sequence[str]) -> Rows:
        """Return the SQL of views and of materialized views."""
        return [*self._rows("view definitions", _VIEWS, schemas), *self._definitions]

    def _rows(self, what: str, template: str, schemas: Sequence[str] | Mapping[str, str]) -> Rows:
        """Return the rows of all datasets; where one of them is closed, of each on its own."""
        rows: Rows = []
        for group in self._groups(schemas):
            try:
                rows += self._read(self._sql(template, group))
            except ClientError as error:
                if getattr(error.cause, "code", None) not in _CLOSED:
                    raise
                if len(group) == 1:
                    self._parts.problems.append(ObjectProblem(None, what, f"dataset `{group[0]}`: {reason(error)}"))
                    continue
                for each in group:
                    rows += self._rows(what, template, [each])
        return rows

    def _groups(self, schemas: Sequence[str] | Mapping[str, str]) -> list[list[str]]:
        by_location: dict[str, list[str]] = {}
        for schema in schemas:
            by_location.setdefault(self._datasets[schema], []).append(schema)
        return [
            group[start : start + _TOGETHER]
            for group in map(sorted, by_location.values())
            for start in range(0, len(group), _TOGETHER)
        ]

    def _sql(self, template: str, datasets: Sequence[str]) -> str:
        places = (identifier("bigquery", self._project, dataset) for dataset in datasets)
        return "\nUNION ALL\n".join(template.format(dataset=place).strip() for place in places)


def unquoted(literal: str) -> str:
    """Return the text of a string as GoogleSQL writes it: in quotes of either kind, with backslash escapes."""
    return _ESCAPE.sub(_character, literal.strip()[1:-1])


def _ordered(rows: Rows, width: int) -> Rows:
    """Sort rows by their first `width` values and, within those, by the position that comes last."""
    return sorted(rows, key=lambda row: (*row[:width], row[-1]))


def _character(match: re.Match[str]) -> str:
    two, four, eight, octal, other = match.groups()
    if digits := two or four or eight:
        return chr(int(digits, 16))
    return chr(int(octal, 8)) if octal else _LETTERS.get(other, other)


def _definition(ddl: str) -> str:
    """Return the query of a CREATE MATERIALIZED VIEW statement, which BigQuery writes behind an AS of its own line."""
    found = _DEFINITION.search(ddl)
    return ddl[found.end() :].strip() if found else ddl
