"""Reads the structure of a Unity Catalog catalog from its information_schema, one statement for each kind of metadata.

Its primary and foreign keys are not enforced; it has no unique ones, and no row counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from ktx_cli.connectors.base import TableDraft
from ktx_cli.connectors.cloud_catalog import Rows, drafts_of, identifier, texts
from ktx_cli.connectors.port import TableKind, TableRef
from ktx_cli.connectors.reflect import PartReader, Reader

IDENTITY = "SELECT current_version().dbsql_version, current_version().dbr_version, current_user(), current_catalog()"

# EXTERNAL says who keeps the files; FOREIGN tables are in another database.
_KINDS = {
    "VIEW": TableKind.VIEW,
    "METRIC_VIEW": TableKind.VIEW,
    "MATERIALIZED_VIEW": TableKind.MATERIALIZED_VIEW,
    "FOREIGN": TableKind.FOREIGN,
}
_RELATIONS = """
SELECT table_schema, table_name, table_type, comment, CAST(NULL AS BIGINT)
FROM {catalog}.information_schema.tables WHERE table_schema <> 'information_schema'
"""
_COLUMNS = """
SELECT table_schema, table_name, column_name, full_data_type, is_nullable = 'YES', comment, column_default,
       is_generated IN ('YES', 'ALWAYS') OR generation_expression IS NOT NULL
FROM {catalog}.information_schema.columns WHERE table_schema IN ({schemas})
ORDER BY table_schema, table_name, ordinal_position
"""
_KEYS = """
SELECT c.table_schema, c.table_name, c.constraint_name, c.constraint_type, k.column_name
FROM {catalog}.information_schema.table_constraints AS c
JOIN {catalog}.information_schema.key_column_usage AS k
  ON k.constraint_schema = c.constraint_schema AND k.constraint_name = c.constraint_name
 AND k.table_name = c.table_name
WHERE c.table_schema IN ({schemas}) AND c.constraint_type IN ('PRIMARY KEY', 'UNIQUE')
ORDER BY c.table_schema, c.table_name, c.constraint_name, k.ordinal_position
"""
_FOREIGN_KEYS = """
SELECT k.table_schema, k.table_name, k.constraint_name, k.column_name,
       p.table_schema AS target_schema, p.table_name AS target_table, p.column_name AS target_column
FROM {catalog}.information_schema.referential_constraints AS r
JOIN {catalog}.information_schema.key_column_usage AS k
  ON k.constraint_schema = r.constraint_schema AND k.constraint_name = r.constraint_name
JOIN {catalog}.information_schema.key_column_usage AS p
  ON p.constraint_catalog = r.unique_constraint_catalog AND p.constraint_schema = r.unique_constraint_schema
 AND p.constraint_name = r.unique_constraint_name AND p.ordinal_position = k.position_in_unique_constraint
WHERE k.table_schema IN ({schemas})
ORDER BY k.table_schema, k.table_name, k.constraint_name, k.ordinal_position
"""
_VIEWS = """
SELECT table_schema, table_name, view_definition
FROM {catalog}.information_schema.views WHERE table_schema IN ({schemas})
"""
_GRANTS = """
SELECT DISTINCT grantee, privilege_type FROM {catalog}.information_schema.table_privileges
WHERE table_schema IN ({schemas})
UNION SELECT grantee, privilege_type FROM {catalog}.information_schema.schema_privileges
WHERE schema_name IN ({schemas})
UNION SELECT table_owner, 'OWNERSHIP' FROM {catalog}.information_schema.tables WHERE table_schema IN ({schemas})
"""


def grants_sql(catalog: str, schemas: Sequence[str]) -> str:
    """Return the statement for all grantees and what they may do in some schemas, owners included."""
    return _filled(_GRANTS, catalog, schemas)


def members_sql(groups: Sequence[str]) -> str:
    """Return the statement for one row that tells of each group whether the user is in it."""
    return "SELECT " + ", ".join(f"is_account_group_member({texts('databricks', [group])})" for group in groups)


class DatabricksCatalog:
    """One reading of a catalog of Unity Catalog."""

    def __init__(self, read: Reader, parts: PartReader, catalog: str) -> None:
        self._read = read
        self._parts = parts
        self._catalog = catalog

    def relations(self) -> dict[TableRef, TableDraft]:
        """Return all tables and views but those of information_schema."""
        return drafts_of(self._read(_filled(_RELATIONS, self._catalog, ())), _KINDS)

    def columns(self, schemas: Sequence[str]) -> Rows:
        """Return the columns."""
        return self._read(_filled(_COLUMNS, self._catalog, schemas))

    def keys(self, schemas: Sequence[str]) -> Rows:
        """Return the primary keys."""
        return self._parts("constraints", _filled(_KEYS, self._catalog, schemas))

    def foreign_keys(self, schemas: Sequence[str]) -> Rows:
        """Return the foreign keys within the catalog."""
        return self._parts("foreign keys", _filled(_FOREIGN_KEYS, self._catalog, schemas))

    def views(self, schemas: Sequence[str]) -> Rows:
        """Return the SQL of the views; Databricks shows it to their owners alone."""
        return self._parts("view definitions", _filled(_VIEWS, self._catalog, schemas))


def _filled(template: str, catalog: str, schemas: Sequence[str]) -> str:
    return template.format(catalog=identifier("databricks", catalog), schemas=texts("databricks", schemas))
