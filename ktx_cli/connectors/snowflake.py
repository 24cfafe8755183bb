"""Reads a database of a Snowflake account; its sessions can all write, so statements of the user's are looked at."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

from ktx_cli.connectors import base
from ktx_cli.connectors.cloud import ClientError, CloudConnector, Identity, Rights, require_query, required
from ktx_cli.connectors.cloud_catalog import Catalog
from ktx_cli.connectors.port import ConnectionSpec, QueryResult, Scope, TableRef
from ktx_cli.connectors.reflect import PartReader, Reader, ServerAddress
from ktx_cli.connectors.snowflake_catalog import IDENTITY, ROLES, SnowflakeCatalog, grants_sql, shown
from ktx_cli.connectors.statements import read_only_error
from ktx_cli.connectors.tagging import tagged
from ktx_cli.connectors.url_parameters import ANY, require_known
from ktx_cli.core.errors import ConfigError
from ktx_cli.core.text import listing

_STOPPED = (604, 630)
_NO_WAREHOUSE = (606, 57014)
_READING = ("SELECT", "USAGE", "REFERENCES", "MONITOR", "READ", "OPERATE", "IMPORTED PRIVILEGES", "VIEW LINEAGE")
_DATA = ("TABLE", "VIEW", "SCHEMA", "DATABASE", "MATERIALIZED_VIEW", "EXTERNAL_TABLE", "DYNAMIC_TABLE", "ACCOUNT")
_ROLES = 20


class SnowflakeConnector(CloudConnector):
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
        account = required(merged, "account", "myorg-myaccount").removesuffix(".snowflakecomputing.com")
        database = required(merged, "database", "ANALYTICS")
        user = required(merged, "username", "KTX_READER")
        self._key = _private_key(merged)
        password = "" if self._key else required(merged, "password", "env:SNOWFLAKE_PASSWORD")
        super().__init__(spec, ServerAddress(account, 443, database, user, password), f"{account}/{database}")

    def _check(self, sql: str) -> None:
        super()._check(sql)
        require_query(sql, self.dialect, self.where)

    def _open(self) -> Any:
        # The client would ask this network's metadata service on what machine it runs.
        os.environ.setdefault("SNOWFLAKE_DISABLE_PLATFORM_DETECTION", "true")
        from snowflake import connector

        return connector.connect(**self._arguments())

    def _arguments(self) -> dict[str, Any]:
        """Return the client's arguments; what it would keep on this machine or tell others is off."""
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
            raise ClientError(f"Snowflake shows no {listing(sorted(missing))}", LookupError(sql))
        places = [names.index(name) for name in wanted]
        return [tuple(row[place] for place in places) for row in rows]

    def _run(self, session: Any, sql: str, parameters: tuple[Any, ...], max_rows: int) -> QueryResult:
        with session.cursor() as cursor:
            self._execute(cursor, sql, parameters, max_rows + 1)
            columns = tuple(each[0] for each in cursor.description or ())
            rows, cut = base.capped(iter(cursor.fetchone, None), max_rows)
        if not columns:
            raise read_only_error(self.where, "a statement that returns nothing is")
        return QueryResult(columns, rows, cut)

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
            return text, f"ktx config set connections.{self.id}.warehouse NAME", "query"
        if isinstance(error, OperationalError | InterfaceError) or state.startswith(("08", "28")):
            return text, self._connection_hint(text), "connection"
        if number // 1000 in (250, 251, 390):
            return text, self._connection_hint(text), "connection"
        return text, None, "query"

    def _connection_hint(self, text: str) -> str:
        key = f"connections.{self.id}"
        lower = text.lower()
        hints = {
            "jwt": f"check {key}.privateKey and that the user has its public key",
            "password": f"check {self._settings('username', 'password')}",
            "role": f"ktx config set {key}.role NAME",
            "warehouse": f"ktx config set {key}.warehouse NAME",
            "database": f"ktx config set {key}.database NAME",
        }
        return next((hint for part, hint in hints.items() if part in lower), f"check {key}.account")

    def _identity(self, read: Reader) -> Identity:
        ((version, user, database, role, warehouse),) = read(IDENTITY)
        if not database:
            raise self.failure(
                f"the role `{role}` sees no database `{self.address.database}`",
                hint=f"ktx config set connections.{self.id}.database NAME",
            )
        facts = (f"role {role}", f"warehouse {warehouse}" if warehouse else "no warehouse")
        return Identity(f"Snowflake {version}", user, database, facts)

    def _catalog(self, read: Reader, parts: PartReader, identity: Identity, scope: Scope) -> Catalog:
        return SnowflakeCatalog(read, parts, identity.database)

    def _rights(self, read: Reader, identity: Identity, found: Sequence[TableRef]) -> Rights:
        parts = PartReader(read, self._driver_error())
        roles = [str(role) for (role,) in parts("roles", ROLES)]
        grants = [row for role in roles[:_ROLES] for row in parts("grants", grants_sql(role))]
        writing = sorted({f"{privilege} on {name}" for privilege, kind, name in grants if _writes(privilege, kind)})
        if writing:
            return Rights(True, (f"may write: {listing(writing, 3)}",))
        return Rights(None if parts.problems or len(roles) > _ROLES else False)


def _writes(privilege: str, granted_on: str) -> bool:
    return granted_on.replace(" ", "_") in _DATA and privilege not in _READING


def _from_url(spec: ConnectionSpec) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings in snowflake://USER:PASSWORD@ACCOUNT/DATABASE/SCHEMA, and what stands behind its `?`."""
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
        hint=f"set connections.{spec.id}.url to snowflake://USER:PASSWORD@ACCOUNT/DATABASE, reserved characters "
        "in the password percent-encoded",
        details={"connection": spec.id},
    )


def _private_key(spec: ConnectionSpec) -> bytes | None:
    """Return the key of `privateKey` as the client takes it; None for a log-in by password.

    Raises `ConfigError` for `authMethod: rsa` without a key, and for a key or a passphrase that does not fit.
    """
    if spec.options.get("authMethod") != "rsa" and not spec.options.get("privateKey"):
        return None
    from cryptography.hazmat.primitives import serialization

    text = required(spec, "privateKey", "file:.ktx/secrets/snowflake.p8")
    passphrase = str(spec.options.get("passphrase") or "")
    try:
        key = serialization.load_pem_private_key(text.encode(), passphrase.encode() or None)
    except (ValueError, TypeError):
        raise ConfigError(
            f"connection `{spec.id}`: `privateKey` is no PEM key, or `passphrase` is not its own",
            hint=f"ktx config set connections.{spec.id}.privateKey file:PATH",
            details={"connection": spec.id},
        ) from None
    return key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
