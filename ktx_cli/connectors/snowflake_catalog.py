"""Reads the structure of a Snowflake database, one statement for each kind of metadata.

Keys are in no view of INFORMATION_SCHEMA with their columns, but in SHOW PRIMARY, UNIQUE and IMPORTED KEYS. Apart from
those of hybrid tables they are not enforced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ktx_cli.connectors.base import TableDraft
from ktx_cli.connectors.cloud_catalog import Rows, drafts_of, identifier, texts
from ktx_cli.connectors.port import ObjectProblem, TableKind, TableRef
from ktx_cli.connectors.reflect import PartReader, Reader

IDENTITY = "SELECT CURRENT_VERSION(), CURRENT_USER(), CURRENT_DATABASE(), CURRENT_ROLE(), CURRENT_WAREHOUSE()"
ROLES = """
SELECT value::VARCHAR FROM TABLE(FLATTEN(INPUT => PARSE_JSON(CURRENT_AVAILABLE_ROLES())))
WHERE IS_ROLE_IN_SESSION(value::VARCHAR)
"""

SHOWN_ROWS = 10_000
"""What SHOW returns at most."""

SHOWN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "SHOW PRIMARY KEYS": ("schema_name", "table_name", "constraint_name", "column_name", "key_sequence"),
        "SHOW UNIQUE KEYS": ("schema_name", "table_name", "constraint_name", "column_name", "key_sequence"),
        "SHOW IMPORTED KEYS": (
            *("fk_schema_name", "fk_table_name", "fk_name", "fk_column_name"),
            *("pk_database_name", "pk_schema_name", "pk_table_name", "pk_column_name", "key_sequence"),
        ),
        "SHOW MATERIALIZED VIEWS": ("schema_name", "name", "text"),
        "SHOW GRANTS": ("privilege", "granted_on", "name"),
    }
)
"""Which columns of an answer to SHOW are wanted: Snowflake adds some now and then, so they are taken by name."""

_KINDS = {
    "VIEW": TableKind.VIEW,
    "MATERIALIZED VIEW": TableKind.MATERIALIZED_VIEW,
    "EXTERNAL TABLE": TableKind.FOREIGN,
}
_RELATIONS = """
SELECT table_schema, table_name, table_type, comment, row_count
FROM {database}.INFORMATION_SCHEMA.TABLES WHERE table_schema <> 'INFORMATION_SCHEMA'
"""
_COLUMNS = """
SELECT table_schema, table_name, column_name,
       CASE WHEN data_type = 'NUMBER' THEN 'NUMBER(' || numeric_precision || ',' || numeric_scale || ')'
            ELSE data_type END,
       is_nullable = 'YES', comment, column_default, FALSE
FROM {database}.INFORMATION_SCHEMA.COLUMNS WHERE table_schema IN ({schemas})
ORDER BY table_schema, table_name, ordinal_position
"""
_VIEWS = """
SELECT table_schema, table_name, view_definition
FROM {database}.INFORMATION_SCHEMA.VIEWS WHERE table_schema IN ({schemas})
"""


def shown(sql: str) -> tuple[str, ...] | None:
    """Return the columns wanted of a SHOW statement's answer; None for another statement."""
    return next((columns for start, columns in SHOWN.items() if sql.lstrip().startswith(start)), None)


def grants_sql(role: str) -> str:
    """Return the statement for what a role may do."""
    return f"SHOW GRANTS TO ROLE {identifier('snowflake', role)}"


class SnowflakeCatalog:
    """One reading of a database."""

    def __init__(self, read: Reader, parts: PartReader, database: str) -> None:
        self._read = read
        self._parts = parts
        self._database = database
        self._materialized = False

    def relations(self) -> dict[TableRef, TableDraft]:
        """Return all tables and views but those of INFORMATION_SCHEMA, with their row counts."""
        drafts = drafts_of(self._read(self._sql(_RELATIONS)), _KINDS)
        self._materialized = any(draft.kind is TableKind.MATERIALIZED_VIEW for draft in drafts.values())
        return drafts

    def columns(self, schemas: Sequence[str]) -> Rows:
        """Return the columns."""
        return self._read(self._sql(_COLUMNS, schemas))

    def keys(self, schemas: Sequence[str]) -> Rows:
        """Return the primary and the unique keys."""
        primary = self._shown("constraints", "SHOW PRIMARY KEYS", schemas)
        unique = self._shown("constraints", "SHOW UNIQUE KEYS", schemas)
        return [
            (schema, table, name, kind, column)
            for kind, rows in (("PRIMARY KEY", primary), ("UNIQUE", unique))
            for schema, table, name, column, _ in _ordered(rows)
        ]

    def foreign_keys(self, schemas: Sequence[str]) -> Rows:
        """Return the foreign keys within the database."""
        rows = _ordered(self._shown("foreign keys", "SHOW IMPORTED KEYS", schemas))
        return [(*row[:4], *row[5:8]) for row in rows if row[4] == self._database]

    def views(self, schemas: Sequence[str]) -> Rows:
        """Return the SQL of views and of materialized views; Snowflake shows it to their owners alone."""
        rows = self._parts("view definitions", self._sql(_VIEWS, schemas))
        if not self._materialized:
            return rows
        return [*rows, *self._shown("view definitions", "SHOW MATERIALIZED VIEWS", schemas)]

    def _shown(self, what: str, show: str, schemas: Sequence[str]) -> Rows:
        """Return what SHOW tells of the whole database, or of each schema where that is cut off."""
        rows = self._parts(what, f"{show} IN DATABASE {identifier('snowflake', self._database)}")
        if len(rows) < SHOWN_ROWS:
            return rows
        return [row for schema in schemas for row in self._shown_schema(what, show, schema)]

    def _shown_schema(self, what: str, show: str, schema: str) -> Rows:
        rows = self._parts(what, f"{show} IN SCHEMA {identifier('snowflake', self._database, schema)}")
        if len(rows) >= SHOWN_ROWS:
            message = f"Snowflake shows {SHOWN_ROWS:,} rows at most, and schema `{schema}` has more"
            self._parts.problems.append(ObjectProblem(None, what, message))
        return rows

    def _sql(self, template: str, schemas: Sequence[str] = ()) -> str:
        database = identifier("snowflake", self._database)
        return template.format(database=database, schemas=texts("snowflake", schemas))


def _ordered(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (row[0], row[1], str(row[2]), int(row[-1])))
