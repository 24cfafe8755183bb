"""Reads the structure of a Trino catalog from its information_schema, one statement for each kind of metadata.

Trino has no keys. What it knows of materialized views and of comments on tables is in the catalog `system`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ktx_cli.connectors.base import TableDraft
from ktx_cli.connectors.cloud_catalog import Rows, drafts_of, identifier, texts
from ktx_cli.connectors.port import TableKind, TableRef
from ktx_cli.connectors.reflect import PartReader, Reader

IDENTITY = "SELECT version(), current_user, current_catalog"

# Trino lists a materialized view as a base table.
_RELATIONS = """
SELECT table_schema, table_name, table_type, CAST(NULL AS varchar), CAST(NULL AS bigint)
FROM {catalog}.information_schema.tables WHERE table_schema <> 'information_schema'
"""
_MATERIALIZED = """
SELECT schema_name, name, definition FROM system.metadata.materialized_views WHERE catalog_name = {name}
"""
_COMMENTS = """
SELECT schema_name, table_name, comment FROM system.metadata.table_comments
WHERE catalog_name = {name} AND schema_name IN ({schemas}) AND comment IS NOT NULL
"""
_COLUMNS = """
SELECT table_schema, table_name, column_name, data_type, is_nullable = 'YES', column_default
FROM {catalog}.information_schema.columns WHERE table_schema IN ({schemas})
ORDER BY table_schema, table_name, ordinal_position
"""
# Trino has this column, but leaves it out of `SELECT *`.
_COLUMN_COMMENTS = """
SELECT table_schema, table_name, column_name, comment
FROM {catalog}.information_schema.columns WHERE table_schema IN ({schemas}) AND comment IS NOT NULL
"""
_VIEWS = """
SELECT table_schema, table_name, view_definition
FROM {catalog}.information_schema.views WHERE table_schema IN ({schemas})
"""
_PRIVILEGES = """
SELECT table_schema, table_name, privilege_type FROM {catalog}.information_schema.table_privileges
WHERE (grantee_type = 'USER' AND grantee = current_user)
   OR (grantee_type = 'ROLE' AND grantee IN (SELECT role_name FROM {catalog}.information_schema.enabled_roles))
"""


def privileges_sql(catalog: str) -> str:
    """Return the statement for schema, table and privilege of what was granted to the user or a role of theirs."""
    return _PRIVILEGES.format(catalog=identifier("trino", catalog))


class TrinoCatalog:
    """One reading of a Trino catalog."""

    def __init__(self, read: Reader, parts: PartReader, catalog: str) -> None:
        self._read = read
        self._parts = parts
        self._catalog = catalog
        self._materialized: dict[TableRef, str] = {}

    def relations(self) -> dict[TableRef, TableDraft]:
        """Return all tables, views and materialized views but those of information_schema."""
        drafts = drafts_of(self._read(self._sql(_RELATIONS)), {"VIEW": TableKind.VIEW})
        rows = self._parts("materialized views", self._sql(_MATERIALIZED))
        self._materialized = {TableRef(schema, name): definition for schema, name, definition in rows}
        for ref in self._materialized.keys() & drafts.keys():
            drafts[ref].kind = TableKind.MATERIALIZED_VIEW
        self._drafts = drafts
        return drafts

    def columns(self, schemas: Sequence[str]) -> Rows:
        """Return the columns; comments on tables and on columns are parts of their own, as not every connector has
        them.
        """
        for schema, table, comment in self._parts("table comments", self._sql(_COMMENTS, schemas)):
            if (draft := self._drafts.get(TableRef(schema, table))) is not None:
                draft.comment = comment
        commented = self._parts("column comments", self._sql(_COLUMN_COMMENTS, schemas))
        comments = {tuple(names): comment for *names, comment in commented}
        return [
            (schema, table, name, native, nullable, comments.get((schema, table, name)), default, False)
            for schema, table, name, native, nullable, default in self._read(self._sql(_COLUMNS, schemas))
        ]

    def keys(self, schemas: Sequence[str]) -> Rows:
        """Return none: Trino has no keys."""
        return []

    def foreign_keys(self, schemas: Sequence[str]) -> Rows:
        """Return none: Trino has no foreign keys."""
        return []

    def views(self, schemas: Sequence[str]) -> Rows:
        """Return the SQL of views and of materialized views."""
        own = [(ref.schema, ref.name, definition) for ref, definition in self._materialized.items()]
        return [*self._parts("view definitions", self._sql(_VIEWS, schemas)), *own]

    def _sql(self, template: str, schemas: Sequence[str] = ()) -> str:
        return template.format(
            catalog=identifier("trino", self._catalog),
            name=texts("trino", [self._catalog]),
            schemas=texts("trino", schemas),
        )
