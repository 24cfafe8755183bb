"""Read a database in a Snowflake account. Its sessions can write, so user statements are checked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

from ktx_cli.core import Command, ConfigError, Hint, SettingPath, listing
from ktx_cli.warehouses import base, cloud
from ktx_cli.warehouses.base import ANY, TableDraft, read_only_error, require_known
from ktx_cli.warehouses.port import ConnectionSpec, ObjectProblem, QueryResult, Scope, Table, TableKind, TableRef
from ktx_cli.warehouses.server import PartReader, Reader, ServerAddress, tagged

_STOPPED = (604, 630)
_NO_WAREHOUSE = (606, 57014)
_READING = ("SELECT", "USAGE", "REFERENCES", "MONITOR", "READ", "OPERATE", "IMPORTED PRIVILEGES", "VIEW LINEAGE")
_DATA = ("TABLE", "VIEW", "SCHEMA", "DATABASE", "MATERIALIZED_VIEW", "EXTERNAL_TABLE", "DYNAMIC_TABLE", "ACCOUNT")
_ROLES = 20


class SnowflakeConnector(cloud.CloudConnector):
    """Sessions of one user in one database."""

    dialect = "snowflake"
    url_parameters: ClassVar[Mapping[str, tuple[str, ...]]] = {"warehouse": ANY, "role": ANY}
    sessions = 4
    schema_keys = ("schema_names", "schema_name")
    secret_keys = ("password", "privateKey", "passphrase")
    reading = frozenset({"SELECT", "WITH", "VALUES", "SHOW", "EXPLAIN", "DESCRIBE", "DESC"})

    def __init__(self, spec: ConnectionSpec) -> None:
        in_url, parameters = _from_url(spec)
        require_known(spec, parameters, self.url_parameters)
        self.default_schemas = tuple(in_url.pop("schemas"))
        self._given = {**parameters, **in_url, **{key: value for key, value in spec.options.items() if value}}
        merged = ConnectionSpec(spec.id, spec.driver, self._given)
        account = cloud.required(merged, "account", "myorg-myaccount").removesuffix(".snowflakecomputing.com")
        database = cloud.required(merged, "database", "ANALYTICS")
        user = cloud.required(merged, "username", "KTX_READER")
        self._key = _private_key(merged)
        password = "" if self._key else cloud.required(merged, "password", "env:SNOWFLAKE_PASSWORD")
        super().__init__(spec, ServerAddress(account, 443, database, user, password), f"{account}/{database}")

    def _check(self, sql: str) -> None:
        super()._check(sql)
        cloud.require_query(sql, self.dialect, self.where)

    def _open(self) -> Any:
        # The client would query this network's metadata service to identify the machine.
        os.environ.setdefault("SNOWFLAKE_DISABLE_PLATFORM_DETECTION", "true")
        from snowflake import connector

        return connector.connect(**self._arguments())

    def _arguments(self) -> dict[str, Any]:
        """Return the client's arguments; local storage and telemetry are disabled."""
        proof: dict[str, Any] = {"password": self.address.password}
        if self._key:
            proof = {"authenticator": "SNOWFLAKE_JWT", "private_key": self._key}
        chosen = {name: str(self._given[name]) for name in ("warehouse", "role") if self._given.get(name)}
        return {
            **proof,
            **chosen,
            "account": self.address.host,
            "user": self.address.user,
            "database": self.address.database,
            "application": "ktx",
            "paramstyle": "qmark",
            "login_timeout": base.CONNECT_SECONDS,
            "validate_default_parameters": True,
            "client_session_keep_alive": False,
            "client_store_temporary_credential": False,
            "server_session_keep_alive": False,
            "enable_server_session_keep_alive_auto_detection": False,
            "session_parameters": {
                "QUERY_TAG": "ktx",
                "STATEMENT_TIMEOUT_IN_SECONDS": self.whole_seconds,
                "LOCK_TIMEOUT": base.LOCK_SECONDS,
                "MULTI_STATEMENT_COUNT": 1,
                "ABORT_DETACHED_QUERY": True,
                "CLIENT_TELEMETRY_ENABLED": False,
            },
        }

    def _fetch(self, session: Any, sql: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with session.cursor() as cursor:
            self._execute(cursor, sql.strip(), parameters)
            rows = cursor.fetchall()
            wanted = shown(sql)
            if wanted is None:
                return [tuple(row) for row in rows]
            names = [each[0] for each in cursor.description or ()]
        if missing := set(wanted) - set(names):
            raise cloud.ClientError(f"Snowflake does not list {listing(sorted(missing))}", LookupError(sql))
        places = [names.index(name) for name in wanted]
        return [tuple(row[place] for place in places) for row in rows]

    def _run(self, session: Any, sql: str, parameters: tuple[Any, ...], max_rows: int) -> QueryResult:
        with session.cursor() as cursor, self._cancellable(lambda: self._cancelled(session)):
            self._execute(cursor, sql, parameters, max_rows + 1)
            columns = tuple(each[0] for each in cursor.description or ())
            rows, cut = base.capped(iter(cursor.fetchone, None), max_rows)
        if not columns:
            raise read_only_error(self.where, "a statement that returns nothing is")
        return QueryResult(columns, rows, cut)

    def _cancelled(self, session: Any) -> bool:
        """Cancel the statement of a session, which runs one at a time, from a second one: no client tells its id."""
        other = self._connect()
        try:
            self._fetch(other, f"SELECT SYSTEM$CANCEL_ALL_QUERIES({int(session.session_id)})", ())
        finally:
            self._end(other)
        return False  # the statement may not have arrived

    def _execute(self, cursor: Any, sql: str, parameters: tuple[Any, ...], max_rows: int | None = None) -> None:
        seconds = self.whole_seconds + base.CONNECT_SECONDS
        limits = {} if max_rows is None else {"ROWS_PER_RESULTSET": max_rows}
        cursor.execute(tagged(sql), parameters or None, timeout=seconds, _statement_params=limits)

    def _reusable(self, session: Any) -> bool:
        return not session.is_closed()

    def _client_errors(self) -> tuple[type[Exception], ...]:
        from snowflake.connector.errors import Error

        return (Error,)

    def _text(self, error: Exception) -> str:
        return str(getattr(error, "raw_msg", None) or error)

    def _explain(self, error: Exception, text: str) -> tuple[str, str | None, str]:
        from snowflake.connector.errors import InterfaceError, OperationalError

        number = int(getattr(error, "errno", None) or 0)
        state = str(getattr(error, "sqlstate", None) or "")
        if number in _STOPPED:
            return "", None, "timeout"
        if number in _NO_WAREHOUSE:
            return text, Command("config", "set", f"connections.{self.id}.warehouse", "NAME"), "query"
        if isinstance(error, OperationalError | InterfaceError) or state.startswith(("08", "28")):
            return text, self._connection_hint(text), "connection"
        if number // 1000 in (250, 251, 390):
            return text, self._connection_hint(text), "connection"
        return text, None, "query"

    def _connection_hint(self, text: str) -> str:
        key = f"connections.{self.id}"
        lower = text.lower()
        hints = {
            "jwt": Hint("check {} and that the user's public key is set", SettingPath(f"{key}.privateKey")),
            "password": Hint("check {}", self._settings("username", "password")),
            "role": Command("config", "set", f"{key}.role", "NAME"),
            "warehouse": Command("config", "set", f"{key}.warehouse", "NAME"),
            "database": Command("config", "set", f"{key}.database", "NAME"),
        }
        return next(
            (hint for part, hint in hints.items() if part in lower), Hint("check {}", SettingPath(f"{key}.account"))
        )

    def _identity(self, read: Reader) -> cloud.Identity:
        ((version, user, database, role, warehouse),) = read(IDENTITY)
        if not database:
            message = f"the role `{role}` cannot see the database `{self.address.database}`"
            raise self.failure(message, hint=Command("config", "set", f"connections.{self.id}.database", "NAME"))
        facts = (f"role {role}", f"warehouse {warehouse}" if warehouse else "no warehouse")
        return cloud.Identity(f"Snowflake {version}", user, database, facts)

    def _catalog(self, read: Reader, parts: PartReader, identity: cloud.Identity, scope: Scope) -> cloud.Catalog:
        return SnowflakeCatalog(read, parts, identity.database)

    def _changes(self, read: Reader, parts: PartReader, tables: Sequence[Table]) -> cloud.Rows:
        """See `CloudConnector`. Nothing is missed: `LAST_ALTERED` changes with every statement that changes a table.

        Reclustering changes it too. External tables are absent, because their files change unnoticed.
        """
        return SnowflakeCatalog(read, parts, self._identity(read).database).changes()

    def _rights(self, read: Reader, identity: cloud.Identity, found: Sequence[TableRef]) -> cloud.Rights:
        parts = PartReader(read, self._driver_error())
        roles = [str(role) for (role,) in parts("roles", ROLES)]
        grants = [row for role in roles[:_ROLES] for row in parts("grants", grants_sql(role))]
        writing = sorted({f"{privilege} on {name}" for privilege, kind, name in grants if _writes(privilege, kind)})
        if writing:
            return cloud.Rights(True, (f"can write: {listing(writing, 3)}",))
        return cloud.Rights(None if parts.problems or len(roles) > _ROLES else False)


def _writes(privilege: str, granted_on: str) -> bool:
    return granted_on.replace(" ", "_") in _DATA and privilege not in _READING


def _from_url(spec: ConnectionSpec) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings in snowflake://USER:PASSWORD@ACCOUNT/DATABASE/SCHEMA, and the part after the `?`."""
    try:
        parts = urlsplit(str(spec.options.get("url") or ""))
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        raise _bad_url(spec) from None
    if parts.fragment or "@" in parts.path + parts.query or (spec.options.get("url") and not parts.netloc):
        raise _bad_url(spec)
    database, *schemas = [unquote(part) for part in parts.path.split("/") if part] or [""]
    settings = {
        "account": unquote(parts.hostname or ""),
        "username": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": database,
        "schemas": schemas,
    }
    return settings, parameters


def _bad_url(spec: ConnectionSpec) -> ConfigError:
    return ConfigError(
        f"connection `{spec.id}`: its `url` cannot be read",
        hint=Hint(
            (
                "set {} to snowflake://USER:PASSWORD@ACCOUNT/DATABASE with reserved characters in the "
                "password percent-encoded"
            ),
            SettingPath(f"connections.{spec.id}.url"),
        ),
        details={"connection": spec.id},
    )


def _private_key(spec: ConnectionSpec) -> bytes | None:
    """Return the key in `privateKey` in the client's format, or None for a login with a password.

    Raises `ConfigError` for `authMethod: rsa` without a key, and for an invalid key or passphrase.
    """
    if spec.options.get("authMethod") != "rsa" and not spec.options.get("privateKey"):
        return None
    from cryptography.hazmat.primitives import serialization

    text = cloud.required(spec, "privateKey", "file:.ktx/secrets/snowflake.p8")
    passphrase = str(spec.options.get("passphrase") or "")
    try:
        key = serialization.load_pem_private_key(text.encode(), passphrase.encode() or None)
    except (ValueError, TypeError):
        message = f"connection `{spec.id}`: `privateKey` is not a PEM key, or `passphrase` does not match it"
        hint = Command("config", "set", f"connections.{spec.id}.privateKey", "file:PATH")
        raise ConfigError(message, hint=hint, details={"connection": spec.id}) from None
    return key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


IDENTITY = "SELECT CURRENT_VERSION(), CURRENT_USER(), CURRENT_DATABASE(), CURRENT_ROLE(), CURRENT_WAREHOUSE()"
ROLES = """
SELECT value::VARCHAR FROM TABLE(FLATTEN(INPUT => PARSE_JSON(CURRENT_AVAILABLE_ROLES())))
WHERE IS_ROLE_IN_SESSION(value::VARCHAR)
"""

SHOWN_ROWS = 10_000
"""The maximum number of rows that SHOW returns."""

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
"""The required columns of a SHOW result. Snowflake sometimes adds columns, so they are selected by name."""

_KINDS = {"VIEW": TableKind.VIEW, "MATERIALIZED VIEW": TableKind.MATERIALIZED_VIEW, "EXTERNAL TABLE": TableKind.FOREIGN}
_RELATIONS = """
SELECT table_schema, table_name, table_type, comment, row_count
FROM {database}.INFORMATION_SCHEMA.TABLES WHERE table_schema <> 'INFORMATION_SCHEMA'
"""
# The text of a time has the form that a parameter of the account sets, which may be that of a date alone.
_CHANGES = """
SELECT table_schema, table_name,
       CAST(DATE_PART(EPOCH_NANOSECOND, created) AS VARCHAR) || ' ' ||
       CAST(DATE_PART(EPOCH_NANOSECOND, last_altered) AS VARCHAR) || ' ' || CAST(row_count AS VARCHAR)
FROM {database}.INFORMATION_SCHEMA.TABLES WHERE table_type = 'BASE TABLE'
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
    """Return the required columns of a SHOW statement's result, or None for other statements."""
    return next((columns for start, columns in SHOWN.items() if sql.lstrip().startswith(start)), None)


def grants_sql(role: str) -> str:
    """Return the statement that lists a role's privileges."""
    return f"SHOW GRANTS TO ROLE {cloud.identifier('snowflake', role)}"


class SnowflakeCatalog:
    """A single read of a database."""

    def __init__(self, read: Reader, parts: PartReader, database: str) -> None:
        self._read = read
        self._parts = parts
        self._database = database
        self._materialized = False

    def relations(self) -> dict[TableRef, TableDraft]:
        """Return all tables and views with their row counts, except those in INFORMATION_SCHEMA."""
        drafts = cloud.drafts_of(self._read(self._sql(_RELATIONS)), _KINDS)
        self._materialized = any(draft.kind is TableKind.MATERIALIZED_VIEW for draft in drafts.values())
        return drafts

    def changes(self) -> cloud.Rows:
        """Return the tables with a text that changes with their rows."""
        return self._parts("changes", self._sql(_CHANGES))

    def columns(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return the columns."""
        return self._read(self._sql(_COLUMNS, schemas))

    def keys(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return the primary and unique keys."""
        primary = self._shown("constraints", "SHOW PRIMARY KEYS", schemas)
        unique = self._shown("constraints", "SHOW UNIQUE KEYS", schemas)
        return [
            (schema, table, name, kind, column)
            for kind, rows in (("PRIMARY KEY", primary), ("UNIQUE", unique))
            for schema, table, name, column, _ in _ordered(rows)
        ]

    def foreign_keys(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return the foreign keys within the database."""
        rows = _ordered(self._shown("foreign keys", "SHOW IMPORTED KEYS", schemas))
        return [(*row[:4], *row[5:8]) for row in rows if row[4] == self._database]

    def views(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return the SQL of views and materialized views, which Snowflake shows only to their owners."""
        rows = self._parts("view definitions", self._sql(_VIEWS, schemas))
        if not self._materialized:
            return rows
        return [*rows, *self._shown("view definitions", "SHOW MATERIALIZED VIEWS", schemas)]

    def _shown(self, what: str, show: str, schemas: Sequence[str]) -> cloud.Rows:
        """Return the SHOW result for the whole database, or for each schema if the result is truncated."""
        rows = self._parts(what, f"{show} IN DATABASE {cloud.identifier('snowflake', self._database)}")
        if len(rows) < SHOWN_ROWS:
            return rows
        return [row for schema in schemas for row in self._shown_schema(what, show, schema)]

    def _shown_schema(self, what: str, show: str, schema: str) -> cloud.Rows:
        rows = self._parts(what, f"{show} IN SCHEMA {cloud.identifier('snowflake', self._database, schema)}")
        if len(rows) >= SHOWN_ROWS:
            message = f"Snowflake returns at most {SHOWN_ROWS:,} rows, and schema `{schema}` has more"
            self._parts.problems.append(ObjectProblem(None, what, message))
        return rows

    def _sql(self, template: str, schemas: Sequence[str] = ()) -> str:
        database = cloud.identifier("snowflake", self._database)
        return template.format(database=database, schemas=cloud.texts("snowflake", schemas))


def _ordered(rows: cloud.Rows) -> cloud.Rows:
    return sorted(rows, key=lambda row: (row[0], row[1], str(row[2]), int(row[-1])))
