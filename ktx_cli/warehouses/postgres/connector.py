"""Read Postgres with psycopg; only the URL parameters listed here are passed to libpq."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from ktx_cli.core import Command, ConfigError, Hint, SettingPath
from ktx_cli.warehouses import base, server
from ktx_cli.warehouses.base import ADDRESS, ANY, FLAG, folded, option_file, require_choice
from ktx_cli.warehouses.port import ConnectionTest, DatabaseSchema, QueryResult, Scope, Table, TableRef, select
from ktx_cli.warehouses.postgres.catalog import LockedReader, PostgresCatalog, list_relations, read_changes
from ktx_cli.warehouses.server import PartReader, ServerConnector, is_local, option_flag, tagged, tagged_postgres_cursor

if TYPE_CHECKING:
    from ktx_cli.warehouses.server import Reader

SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full", "no-verify")
"""The values of `sslmode`: libpq's and node-postgres's `no-verify`."""

FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile")
"""Parameters that contain a file name."""

KEPT_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys((*FILES, "sslpassword", "ssl_min_protocol_version", "ssl_max_protocol_version"), ANY),
    **dict.fromkeys(("krbsrvname", "requirepeer", "require_auth", "service", "hostaddr"), ANY),
    **dict.fromkeys(("channel_binding", "gssencmode"), ("disable", "prefer", "require")),
    "sslmode": SSL_MODES,
    "sslnegotiation": ("postgres", "direct"),
    "target_session_attrs": ("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),
}
"""The parameters for libpq, with their allowed values."""

_WITHOUT_EFFECT = (
    *("application_name", "fallback_application_name", "client_encoding", "connect_timeout", "tcp_user_timeout"),
    *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
    *("pgbouncer", "connection_limit", "pool_timeout", "statement_cache_size", "uselibpqcompat"),
)
URL_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    **ADDRESS,
    **KEPT_PARAMETERS,
    **dict.fromkeys(_WITHOUT_EFFECT, ANY),
    "options": ANY,
    "ssl": FLAG,
}
"""Parameters without effect: ktx reads or sets them itself, or only other clients need them."""


PINNED = "pg_catalog, pg_temp"
"""The search_path of every statement.

Postgres calls the best match on the path, so a function that anybody can create in `public`, or a path set for a
database or role, would otherwise run with ktx's privileges.
"""

_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SAVEPOINT statement"
_CLEAR_TEXT = "server requested a cleartext password"
_LOCK_HOLDERS = (
    "SELECT pid, query FROM pg_stat_activity WHERE pid IN (SELECT pid FROM pg_locks WHERE mode = 'AccessExclusiveLock')"
)
_NOT_FOUND = ("42P01", "42883", "42704")
_UNQUALIFIED = (
    "qualify the name with its schema, for example public.orders: ktx looks up unqualified names only in pg_catalog"
)
_USER = """
SELECT current_user::varchar, rolsuper, pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'),
       pg_catalog.current_setting('server_version'), pg_catalog.current_database(),
       (SELECT pg_catalog.array_agg(r.rolname::varchar ORDER BY r.rolname) FROM pg_catalog.pg_roles AS r
        WHERE r.rolname IN ('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files')
          AND NOT roles.rolsuper AND pg_catalog.pg_has_role(roles.oid, r.oid, 'MEMBER'))
FROM pg_catalog.pg_roles AS roles WHERE rolname = current_user
"""
"""The session's user; the last column lists roles whose members can access programs and files on the server."""

_WRITES = """
SELECT coalesce(pg_catalog.bool_or(pg_catalog.has_table_privilege(oid, 'INSERT, UPDATE, DELETE, TRUNCATE')), false)
       OR coalesce((SELECT pg_catalog.bool_or(pg_catalog.has_schema_privilege(s.oid, 'CREATE'))
                    FROM pg_catalog.pg_namespace AS s
                    WHERE s.oid IN (SELECT relnamespace FROM pg_catalog.pg_class
                                    WHERE oid = ANY(%s::pg_catalog.oid[]))), false)
FROM pg_catalog.pg_class WHERE oid = ANY(%s::pg_catalog.oid[])
"""


class PostgresConnector(ServerConnector):
    """Read-only sessions on a Postgres database. Statements must qualify every table with its schema (see `PINNED`)."""

    dialect = "postgres"
    default_port = 5432
    url_parameters = URL_PARAMETERS
    reading = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "SHOW", "EXPLAIN"})
    _dropped = False
    """Whether a session started without its login settings, so that each statement has to set them."""

    def _connect(self) -> Any:
        import psycopg

        parameters = self._parameters()
        failures: list[psycopg.Error] = []
        for place, seconds in server.shares(self._places(parameters), base.CONNECT_SECONDS):
            try:
                session = psycopg.connect(
                    "",
                    **self._guarded({**parameters, **({"hostaddr": place} if place else {})}),
                    connect_timeout=max(1, int(seconds / (self.address.host.count(",") + 1))),
                    autocommit=True,
                    prepare_threshold=None,
                    cursor_factory=tagged_postgres_cursor(),
                )
                return self._looked_at(session)
            except psycopg.Error as error:
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        raise type(failures[-1])("; ".join(dict.fromkeys(str(each) for each in failures)))

    def _looked_at(self, session: Any) -> Any:
        """Check whether the login settings arrived, because a pooler may drop them."""
        try:
            with session.cursor() as cursor:
                ((path,),) = cursor.execute("SHOW search_path").fetchall()
        except BaseException:
            session.close()
            raise
        self._dropped = self._dropped or _path(path) != _path(PINNED)
        return session

    def _places(self, parameters: Mapping[str, Any]) -> list[str]:
        """Return the addresses to try in order, or a single empty string to let libpq choose."""
        import psycopg

        host = self.address.host
        if "," in host or host.startswith(("/", "@")) or {"hostaddr", "target_session_attrs"} & parameters.keys():
            return [""]
        try:
            return server.addresses(host, self.address.port)
        except OSError as error:
            raise psycopg.OperationalError(f"failed to resolve host {host!r}: {error}") from None

    def _guarded(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Prevent a plaintext password from being sent over an unencrypted connection."""
        from psycopg import pq

        if is_encrypted(parameters) or reaches_this_machine(parameters):
            return parameters
        if pq.version() < 160000:
            raise ConfigError(
                (
                    f"{self.where}: this libpq ({pq.version() // 10000}) cannot be prevented from sending a "
                    "password in plaintext"
                ),
                hint=Hint(
                    "{}, or: {}",
                    Command("config", "set", f"connections.{self.id}.sslmode", "require"),
                    Command("install", "psycopg[binary]", program="pip"),
                ),
                details={"connection": self.id},
            )
        return {**parameters, "require_auth": without_clear_text(str(parameters.get("require_auth") or ""))}

    def _parameters(self) -> dict[str, Any]:
        address = self.address
        kept = {
            name: folded(value) if KEPT_PARAMETERS[name] else value
            for name, value in address.parameters.items()
            if value and name in KEPT_PARAMETERS
        }
        require_choice(self.spec, "sslmode", "sslmode", str(self.options.get("sslmode") or ""), SSL_MODES)
        kept.update(tls_parameters(self.options, address.parameters))
        for name in FILES:
            if kept.get(name, "system") != "system":
                kept[name] = option_file(self.spec, name, kept[name])
        limits = {"default_transaction_read_only": "on", **_limits(self.statement_seconds)}
        settings = " ".join(f"-c {name}={value.replace(' ', '')}" for name, value in limits.items())
        given = {"dbname": address.database, "user": address.user, "password": address.password}
        return {
            **kept,
            **{name: value for name, value in given.items() if value},
            "host": address.host,
            "port": address.port,
            # Detect a server that silently disappeared after 40 seconds instead of the system's two hours.
            "keepalives_idle": 10,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "application_name": "ktx",
            "client_encoding": "utf8",
            # The last value counts, and overrides settings of a database or role.
            "options": f"{address.parameters.get('options', '')} {settings}".strip(),
        }

    @contextmanager
    def _picture(self) -> Iterator[Reader]:
        """Yield a reader whose statements share one snapshot, which excludes later created, dropped or altered objects.

        The results of `pg_get_expr` and `pg_get_viewdef` are as of the call. Each statement releases its locks at once,
        and a failed one does not affect the snapshot.
        """
        with self._session(None) as session, self._transaction(session) as cursor:
            cursor.execute(_SNAPSHOT)

            def read(sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
                try:
                    cursor.execute(sql, tuple(parameters) or None)
                    return [tuple(row) for row in cursor.fetchall()]
                finally:
                    if not session.broken:
                        cursor.execute("ROLLBACK TO SAVEPOINT statement")

            yield read

    def _read(self, session: Any, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        if not self._dropped:
            return super()._read(session, sql, parameters)
        with self._transaction(session):
            return super()._read(session, sql, parameters)

    @contextmanager
    def _transaction(self, session: Any) -> Iterator[Any]:
        """Yield a cursor in a read-only transaction with its own limits and names, which is rolled back."""
        with session.cursor() as cursor:
            limits = _limits(self.statement_seconds)
            cursor.execute("; ".join(["BEGIN READ ONLY", *(f"SET LOCAL {k} = {v}" for k, v in limits.items())]))
            try:
                yield cursor
            finally:
                if not session.broken:
                    # Session locks outlive their transaction.
                    cursor.execute("ROLLBACK; SELECT pg_catalog.pg_advisory_unlock_all()")

    def _socket_of(self, session: Any) -> int | None:
        return int(session.fileno())

    def _reusable(self, session: Any) -> bool:
        from psycopg.pq import TransactionStatus

        return not session.closed and session.info.transaction_status == TransactionStatus.IDLE

    def _query(self, session: Any, sql: str, parameters: tuple[Any, ...] | None, max_rows: int) -> QueryResult:
        with self._cancellable(partial(_cancel, session), session), self._transaction(session) as cursor:
            # stream() uses the extended protocol, which accepts only one statement and stops the server early.
            rows = cursor.stream(sql, parameters)
            kept, more = base.capped(rows, max_rows)
            rows.close()
            columns = _columns(cursor) if kept or more else self._described(session, sql, parameters)
        return QueryResult(columns, kept, more)

    def _described(self, session: Any, sql: str, parameters: tuple[Any, ...] | None) -> tuple[str, ...]:
        """Return the columns of an empty result, which a streaming cursor does not provide."""
        import psycopg
        from psycopg.pq import ExecStatus

        with psycopg.ClientCursor(session) as cursor:
            text = sql if parameters is None else cursor.mogrify(sql, parameters)
        session.pgconn.prepare(b"", tagged(text).encode())
        result = session.pgconn.describe_prepared(b"")
        if result.status != ExecStatus.COMMAND_OK:
            raise self.failure(result.get_error_message(), code="query")
        return tuple((result.fname(position) or b"").decode() for position in range(result.nfields))

    def _test(self, read: Reader, scope: Scope, latency: float) -> ConnectionTest:
        ((user, superuser, creates, version, database, server_roles),) = read(_USER)
        relations = list_relations(read)
        found = select(relations, scope, catalog=database)
        chosen = [relations[ref] for ref in found.refs]
        oids = [relation.oid for relation in chosen]
        ((writes,),) = read(_WRITES, (oids, oids))
        return self._tested(
            (latency, _server_version(version), user, database),
            len(chosen),
            {relation.draft.ref: relation.readable for relation in chosen},
            can_write=bool(superuser or creates or writes),
            facts=[*(["superuser"] if superuser else []), *(server_roles or [])],
        )

    def _introspect(self, read: Reader, scope: Scope) -> DatabaseSchema:
        ((_, _, _, version, database, _),) = read(_USER)
        parts = PartReader(read, self._driver_error())
        catalog = PostgresCatalog(read, parts, LockedReader(read, _lock_error()))
        tables, problems = catalog.read(scope, catalog=database)
        return DatabaseSchema(tables, (*problems, *parts.problems), _server_version(version))

    session_facts = (
        "SELECT current_user::varchar, session_user::varchar, pg_catalog.current_database()::varchar",
        "SELECT rolname::varchar, rolsuper, rolbypassrls FROM pg_catalog.pg_roles"
        " WHERE pg_catalog.pg_has_role(oid, 'USAGE') ORDER BY 1",
    )

    def table_evidence(self, tables: Sequence[Table]) -> Mapping[TableRef, str]:
        """See `TableEvident` and `read_changes`."""
        with self._rows() as read:
            return PartReader(read, self._driver_error()).changes(read_changes)

    def _driver_error(self) -> type[Exception]:
        import psycopg

        return psycopg.Error

    def _describe(self, error: Exception) -> tuple[str, str | None, str]:
        import psycopg

        state = getattr(error, "sqlstate", None) or ""
        text = str(error).partition("\nLINE ")[0]
        if state == "57014":
            return "", None, "timeout"
        if state == "55P03":
            return _LOCK_HOLDERS, None, "locked"
        if _CLEAR_TEXT in text:
            hint = Command("config", "set", f"connections.{self.id}.sslmode", "require")
            return server.CLEAR_TEXT, hint, "connection"
        if state in ("25006", "2F002", "2F003"):
            return f"{text}: ktx only reads", "write a single SELECT statement", "read_only"
        if state and not state.startswith(("08", "57P", "28", "3D000")):
            return text, _UNQUALIFIED if state in _NOT_FOUND else None, "query"
        if text == "connection timeout expired":
            text = f"the server did not respond within {base.CONNECT_SECONDS} seconds (timeout)"
        if isinstance(error, psycopg.OperationalError) or state:
            return text, self._connection_hint(text), "connection"
        return text, None, "query"

    def _connection_hint(self, text: str) -> str:
        key = f"connections.{self.id}"
        hints = {
            "password authentication failed": Hint("check {}", self._settings("username", "password")),
            "no password supplied": Hint("set {}, for example to env:PGPASSWORD", SettingPath(f"{key}.password")),
            "does not exist": Hint("check {}", self._settings("database", "username")),
            "no pg_hba.conf entry": "ask the server's administrator to allow this host and user",
            "server does not support SSL": Hint(
                "set {} to false, or {} to prefer", SettingPath(f"{key}.ssl"), SettingPath(f"{key}.sslmode")
            ),
            "invalid require_auth": Hint("correct require_auth in {}", SettingPath(f"{key}.url")),
            "protocol_version": Hint(
                "correct ssl_min_protocol_version and ssl_max_protocol_version in {}", SettingPath(f"{key}.url")
            ),
            "weak sslmode": Hint("set {} to verify-full", SettingPath(f"{key}.sslmode")),
            "certificate": Hint(
                "set sslrootcert in {}, or {} to false",
                SettingPath(f"{key}.url"),
                SettingPath(f"{key}.rejectUnauthorized"),
            ),
            "unsupported startup parameter": "add `ignore_startup_parameters = options` to the pooler's configuration",
            "too many": Hint("lower {}", SettingPath(f"{key}.maxConnections")),
            **dict.fromkeys(("host name", "resolve host"), Hint("check {}", self._settings("host"))),
            "Connection refused": Hint("start the server, or check {}", self._settings("host", "port")),
            "timeout": Hint("check {} and the firewall", self._settings("host", "port")),
        }
        return next((hint for part, hint in hints.items() if part in text), Command("connection", "test", self.id))


SESSION = ("SET statement_timeout TO {milliseconds}", "SET search_path TO pg_catalog")
"""The initial settings of a session on a server that is only similar to Postgres: the limit for statements and locks,
and the names."""


class SimilarConnector(PostgresConnector):
    """Read-only sessions on a server with the protocol of Postgres but not all of its settings.

    It refuses a login with settings that only Postgres has, and has no savepoints, so that its catalog is read
    without a snapshot.
    """

    def _parameters(self) -> dict[str, Any]:
        options = self.address.parameters.get("options")
        kept = {name: value for name, value in super()._parameters().items() if name != "options"}
        return {**kept, **({"options": options} if options else {})}

    def _looked_at(self, session: Any) -> Any:
        """Set the limits of a new session."""
        try:
            with session.cursor() as cursor:
                for statement in SESSION:
                    cursor.execute(statement.format(milliseconds=int(self.statement_seconds * 1000)))
        except BaseException:
            session.close()
            raise
        return session

    def table_evidence(self, tables: Sequence[Table]) -> Mapping[TableRef, str]:
        """Return nothing: the counters of such a server do not mean what those of Postgres do."""
        return {}

    @contextmanager
    def _picture(self) -> Iterator[Reader]:
        with self._rows() as read:
            yield read


def _lock_error() -> type[Exception]:
    from psycopg.errors import LockNotAvailable

    return LockNotAvailable


def _server_version(text: str) -> str:
    """Return `PostgreSQL 15.8` for a version such as `15.8 (Debian 15.8-0+deb12u1)`."""
    return f"PostgreSQL {text.partition(' ')[0]}"


def _limits(seconds: float) -> dict[str, str]:
    return {
        "statement_timeout": str(int(seconds * 1000)),
        "lock_timeout": str(base.LOCK_SECONDS * 1000),
        "search_path": PINNED,
        # In a statement rewritten from its tree, backslashes have no other meaning.
        "standard_conforming_strings": "on",
        # A session that hangs between two statements releases its locks.
        "idle_in_transaction_session_timeout": str(int(seconds * 1000)),
    }


def _cancel(session: Any) -> bool:
    session.cancel_safe(timeout=base.CONNECT_SECONDS)
    return False  # the session may have been between two statements


def _path(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _columns(cursor: Any) -> tuple[str, ...]:
    return tuple(each.name for each in cursor.description or ())


def tls_parameters(options: dict[str, Any], parameters: dict[str, str]) -> dict[str, str]:
    """Return libpq's TLS parameters for `sslmode`, or for `ssl` and `rejectUnauthorized` as in node-postgres.

    `ssl` is a flag or the fields `ca` (a file) and `rejectUnauthorized`. Certificates are verified unless disabled.
    """
    mode = folded(str(options.get("sslmode") or parameters.get("sslmode") or ""))
    if mode == "no-verify":
        return {"sslmode": "require"}
    if mode:
        return {"sslmode": mode}
    given = options.get("ssl")
    fields = given if isinstance(given, dict) else {}
    ssl = True if fields else option_flag(options, "ssl")
    if ssl is None:
        ssl = option_flag(parameters, "ssl")
    if ssl is None:
        return {}
    if not ssl:
        return {"sslmode": "disable"}
    if False in (option_flag(fields, "rejectUnauthorized"), option_flag(options, "rejectUnauthorized")):
        return {"sslmode": "require"}
    authority = fields.get("ca") or parameters.get("sslrootcert") or "system"
    return {"sslmode": "verify-full", "sslrootcert": str(authority)}


def is_encrypted(parameters: Mapping[str, Any]) -> bool:
    """Return whether libpq waits for encryption before it sends anything."""
    strict = parameters.get("sslmode") in ("require", "verify-ca", "verify-full")
    return strict or parameters.get("gssencmode") == "require"


def reaches_this_machine(parameters: Mapping[str, Any]) -> bool:
    """Return whether libpq can only reach this machine; an explicit address overrides the host's name."""
    if parameters.get("hostaddr"):
        return is_local(str(parameters["hostaddr"]))
    # libpq also reads an address from its environment and from a service file.
    if any(os.environ.get(name) for name in ("PGHOSTADDR", "PGSERVICE")) or parameters.get("service"):
        return False
    return is_local(str(parameters["host"]))


def without_clear_text(required: str) -> str:
    """Return libpq's `require_auth` (methods, or methods after `!`) without plaintext passwords."""
    methods = [method for each in required.split(",") if (method := each.strip()) and method != "password"]
    if not methods or methods[0].startswith("!"):
        methods = [*dict.fromkeys([*methods, "!password"])]
    return ",".join(methods)
