"""Read a catalog in a Databricks workspace through one of its SQL warehouses."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any
from urllib.request import getproxies

from ktx_cli.core import Command, Hint, SettingPath
from ktx_cli.warehouses import base, cloud, server
from ktx_cli.warehouses.base import TableDraft, read_only_error
from ktx_cli.warehouses.port import ConnectionSpec, QueryResult, Scope, Table, TableKind, TableRef
from ktx_cli.warehouses.server import PartReader, Reader, ServerAddress, tagged

_PORT = 443
_WAKE_SECONDS = 300
"""The time that the first request waits for a stopped warehouse to start."""
_ATTEMPTS = 5
_GROUPS = 100
_READING = ("SELECT", "BROWSE", "EXECUTE", "READ_VOLUME", "READ VOLUME", "USE_SCHEMA", "USE SCHEMA", "REFERENCES")
_STOPPED = ("STATEMENT_TIMEOUT", "has timed out", "exceeded the timeout")
_LOG_IN = ("Invalid access token", "401", "403", "Unauthorized", "Forbidden")


class DatabricksConnector(cloud.CloudConnector):
    """Sessions in a SQL warehouse, each in one catalog."""

    dialect = "databricks"
    secret_keys = ("token",)
    reading = frozenset({"SELECT", "WITH", "FROM", "VALUES", "SHOW", "EXPLAIN", "DESCRIBE", "DESC"})

    def __init__(self, spec: ConnectionSpec) -> None:
        # Without a token, the client would open a browser.
        host, _, token = (
            cloud.required(spec, "host", "dbc-1234.cloud.databricks.com").removeprefix("https://").rstrip("/"),
            cloud.required(spec, "http_path", "/sql/1.0/warehouses/ID"),
            cloud.required(spec, "token", "env:DATABRICKS_TOKEN"),
        )
        catalog = str(spec.options.get("catalog") or "")
        place = f"{host}/{catalog}" if catalog else host
        super().__init__(spec, ServerAddress(host, _PORT, catalog, "", token), place)

    def _check(self, sql: str) -> None:
        super()._check(sql)
        cloud.require_query(sql, self.dialect, self.where)

    def _open(self) -> Any:
        # The client logs a library that ktx does not use, and every request it retries.
        logging.getLogger("databricks.sql").setLevel(logging.CRITICAL)
        from databricks import sql

        self._reach()
        return sql.connect(
            server_hostname=self.address.host,
            http_path=str(self.options["http_path"]),
            access_token=self.address.password,
            catalog=self.address.database or None,
            session_configuration={"STATEMENT_TIMEOUT": str(self.whole_seconds)},
            user_agent_entry="ktx",
            # Rows then come from the workspace itself, not from a storage that it names.
            use_cloud_fetch=False,
            enable_telemetry=False,
            _socket_timeout=self.statement_seconds + base.CONNECT_SECONDS,
            _retry_stop_after_attempts_count=_ATTEMPTS,
            _retry_stop_after_attempts_duration=_WAKE_SECONDS,
        )

    def _reach(self) -> None:
        """Raise `OSError` for an unreachable workspace; the client would retry for a minute."""
        if not {"https", "all"} & getproxies().keys():
            server.open_socket(self.address.host, self.address.port, base.CONNECT_SECONDS).close()

    def _fetch(self, session: Any, sql: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with session.cursor() as cursor:
            cursor.execute(tagged(sql.strip()), list(parameters) or None)
            return [tuple(row) for row in cursor.fetchall()]

    def _run(self, session: Any, sql: str, parameters: tuple[Any, ...], max_rows: int) -> QueryResult:
        with session.cursor(arraysize=max_rows + 1) as cursor, self._cancellable(lambda: _cancelled(cursor)):
            cursor.execute(tagged(sql), list(parameters) or None)
            columns = tuple(each[0] for each in cursor.description or ())
            rows, cut = base.capped(iter(cursor.fetchone, None), max_rows)
        if not columns:
            raise read_only_error(self.where, "a statement that returns nothing is")
        return QueryResult(columns, rows, cut)

    def _reusable(self, session: Any) -> bool:
        return bool(session.open)

    def _client_errors(self) -> tuple[type[Exception], ...]:
        from databricks.sql.exc import Error
        from urllib3.exceptions import HTTPError

        return (Error, HTTPError)

    def _text(self, error: Exception) -> str:
        # The lines after the first one are frames of the server's own code.
        return str(getattr(error, "message", None) or error).partition("\n")[0]

    def _describe(self, error: Exception) -> tuple[str, str | None, str]:
        if isinstance(error, OSError):
            return str(error), self._connection_hint(""), "connection"
        return super()._describe(error)

    def _explain(self, error: Exception, text: str) -> tuple[str, str | None, str]:
        from databricks.sql.exc import DatabaseError, RequestError

        if any(mark in text for mark in _STOPPED):
            return "", None, "timeout"
        if isinstance(error, RequestError) or not isinstance(error, DatabaseError):
            return text, self._connection_hint(text), "connection"
        if "CATALOG" in text and "NOT_FOUND" in text:
            return text, Command("config", "set", f"connections.{self.id}.catalog", "NAME"), "connection"
        return text, None, "query"

    def _connection_hint(self, text: str) -> str:
        if any(mark in text for mark in _LOG_IN):
            return Command("config", "set", f"connections.{self.id}.token", "env:DATABRICKS_TOKEN")
        return Hint(
            "check {} and {}",
            SettingPath(f"connections.{self.id}.host"),
            SettingPath(f"connections.{self.id}.http_path"),
        )

    def _identity(self, read: Reader) -> cloud.Identity:
        ((sql_version, runtime, user, catalog),) = read(IDENTITY)
        return cloud.Identity(
            f"Databricks {sql_version or runtime or ''}".strip(), user, self.address.database or catalog
        )

    def _session_facts(self, read: Reader) -> Sequence[Any]:
        identity = self._identity(read)
        user = cloud.identifier("databricks", str(identity.user))
        groups = PartReader(read, self._driver_error())("groups", f"SHOW GROUPS WITH USER {user}")
        return identity.user, identity.database, identity.facts, sorted(map(repr, groups))

    def _catalog(self, read: Reader, parts: PartReader, identity: cloud.Identity, scope: Scope) -> cloud.Catalog:
        return DatabricksCatalog(read, parts, identity.database)

    def _changes(self, read: Reader, parts: PartReader, tables: Sequence[Table]) -> cloud.Rows:
        """See `CloudConnector`. Only Delta tables have versions, and nothing is missed: every change makes a new one.

        `last_altered` in the catalog does not change with the rows.
        """
        catalog, schemas = self._identity(read).database, cloud.schemas_of(tables)
        named = parts("formats", _filled(_DELTA_TABLES, catalog, schemas)) if schemas else []
        versioned = {TableRef(schema, name) for schema, name in named}
        refs = [table.ref for table in tables if table.ref in versioned]
        return cloud.read_of_each(read, lambda ref: version_sql(catalog, ref), refs)

    def _rights(self, read: Reader, identity: cloud.Identity, found: Sequence[TableRef]) -> cloud.Rights:
        schemas = sorted({ref.schema for ref in found if ref.schema is not None})
        parts = PartReader(read, self._driver_error())
        granted = parts("privileges", grants_sql(identity.database, schemas)) if schemas else []
        others = sorted({grantee for grantee, _ in granted if grantee and grantee != identity.user})[:_GROUPS]
        ((*inside,),) = parts("groups", members_sql(others)) or [()] if others else [()]
        own = {identity.user, *(group for group, member in zip(others, inside, strict=False) if member)}
        held = sorted({str(privilege) for grantee, privilege in granted if grantee in own})
        if parts.problems or not held:
            return cloud.Rights(None, tuple(f"{each.what}: {each.message}" for each in parts.problems))
        return cloud.Rights(any(each not in _READING for each in held), (f"holds {', '.join(held)}",))


def _cancelled(cursor: Any) -> bool:
    if cursor.active_command_id is None:
        return False
    cursor.cancel()
    return True


IDENTITY = "SELECT current_version().dbsql_version, current_version().dbr_version, current_user(), current_catalog()"

# EXTERNAL describes where the files are stored; FOREIGN tables are in another database.
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
_DELTA_TABLES = """
SELECT table_schema, table_name FROM {catalog}.information_schema.tables
WHERE table_schema IN ({schemas}) AND table_type IN ('MANAGED', 'EXTERNAL') AND upper(data_source_format) = 'DELTA'
"""
_GRANTS = """
SELECT DISTINCT grantee, privilege_type FROM {catalog}.information_schema.table_privileges
WHERE table_schema IN ({schemas})
UNION SELECT grantee, privilege_type FROM {catalog}.information_schema.schema_privileges
WHERE schema_name IN ({schemas})
UNION SELECT table_owner, 'OWNERSHIP' FROM {catalog}.information_schema.tables WHERE table_schema IN ({schemas})
"""


def grants_sql(catalog: str, schemas: Sequence[str]) -> str:
    """Return the statement that lists all grantees, including owners, and their privileges in some schemas."""
    return _filled(_GRANTS, catalog, schemas)


def version_sql(catalog: str, ref: TableRef) -> str:
    """Return the query for one row with schema, table and the current version of a Delta table.

    Versions count again from zero if the table is dropped and created again, but at another time.
    """
    schema = str(ref.schema)
    return (
        f"SELECT {cloud.texts('databricks', [schema, ref.name])}, concat(version, ' ', unix_micros(timestamp)) "
        f"FROM (DESCRIBE HISTORY {cloud.identifier('databricks', catalog, schema, ref.name)} LIMIT 1)"
    )


def members_sql(groups: Sequence[str]) -> str:
    """Return the statement for one row with the user's membership in each group."""
    return "SELECT " + ", ".join(f"is_account_group_member({cloud.texts('databricks', [group])})" for group in groups)


class DatabricksCatalog:
    """A single read of a Unity Catalog catalog."""

    def __init__(self, read: Reader, parts: PartReader, catalog: str) -> None:
        self._read = read
        self._parts = parts
        self._catalog = catalog

    def relations(self) -> dict[TableRef, TableDraft]:
        """Return all tables and views, except those in information_schema."""
        return cloud.drafts_of(self._read(_filled(_RELATIONS, self._catalog, ())), _KINDS)

    def columns(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return the columns."""
        return self._read(_filled(_COLUMNS, self._catalog, schemas))

    def keys(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return the primary keys."""
        return self._parts("constraints", _filled(_KEYS, self._catalog, schemas))

    def foreign_keys(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return the foreign keys within the catalog."""
        return self._parts("foreign keys", _filled(_FOREIGN_KEYS, self._catalog, schemas))

    def views(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return the SQL of the views, which Databricks shows only to their owners."""
        return self._parts("view definitions", _filled(_VIEWS, self._catalog, schemas))


def _filled(template: str, catalog: str, schemas: Sequence[str]) -> str:
    return template.format(catalog=cloud.identifier("databricks", catalog), schemas=cloud.texts("databricks", schemas))
