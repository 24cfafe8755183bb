"""Reads a catalog of a Trino server; every statement of the user's runs in a transaction that only reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from ktx_cli.connectors import base
from ktx_cli.connectors.cloud import CloudConnector, Identity, Rights, required
from ktx_cli.connectors.cloud_catalog import Catalog
from ktx_cli.connectors.port import ConnectionSpec, QueryResult, Scope, TableRef
from ktx_cli.connectors.reflect import PartReader, Reader, ServerAddress, option_flag, server_address
from ktx_cli.connectors.statements import read_only_error
from ktx_cli.connectors.tagging import tagged
from ktx_cli.connectors.trino_catalog import IDENTITY, TrinoCatalog, privileges_sql
from ktx_cli.connectors.url_parameters import ADDRESS, FLAG, require_known
from ktx_cli.core.errors import ConfigError

_ATTEMPTS = 3
_WRITING = ("INSERT", "UPDATE", "DELETE", "OWNERSHIP", "CREATE")
_STOPPED = ("EXCEEDED_TIME_LIMIT", "EXCEEDED_QUEUED_TIME_LIMIT", "EXCEEDED_CPU_LIMIT")
_REFUSED_WRITES = ("READ_ONLY_VIOLATION", "AUTOCOMMIT_WRITE_CONFLICT")
_LOGIN = ("error 401", "error 403")


class TrinoConnector(CloudConnector):
    """Sessions on a Trino server, each in one catalog of it; nothing is sent before the first statement."""

    dialect = "trino"
    url_parameters: ClassVar[Mapping[str, tuple[str, ...]]] = {**ADDRESS, "ssl": FLAG}
    reading = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "SHOW", "EXPLAIN", "DESCRIBE", "DESC"})

    def __init__(self, spec: ConnectionSpec) -> None:
        if not spec.options.get("url"):
            required(spec, "host", "trino.example.com")
        given = server_address(spec, 0)
        require_known(spec, given.parameters, self.url_parameters)
        tls = _wants_tls(spec, given)
        self.scheme = "https" if tls else "http"
        address = server_address(spec, 443 if tls else 8080)
        catalog, _, schema = address.database.partition("/")
        self.default_schemas = (schema,) if schema else ()
        self.catalog = str(spec.options.get("catalog") or catalog)
        if not self.catalog:
            required(spec, "catalog", "hive")
        if not address.user:
            required(spec, "user", "ktx_reader")
        super().__init__(spec, address, f"{address.host}:{address.port}/{self.catalog}")

    def _check(self, sql: str) -> None:
        super()._check(sql)
        # A read-only transaction does not look into the statement that such a function hands to another database.
        if _passes_through(sql, self.where):
            raise read_only_error(self.where, "a statement with `system.query` is")

    def _open(self) -> Any:
        import trino

        address = self.address
        connect: Any = trino.dbapi.connect
        return connect(
            host=address.host,
            port=address.port,
            user=address.user,
            catalog=self.catalog,
            source="ktx",
            client_tags=["ktx"],
            http_scheme=self.scheme,
            auth=self._authentication(),
            session_properties={"query_max_run_time": f"{self.statement_seconds:g}s"},
            max_attempts=_ATTEMPTS,
            request_timeout=(base.CONNECT_SECONDS / _ATTEMPTS, self.statement_seconds),
            # Rows then come from the server itself, not from a storage it names.
            encoding=None,
        )

    def _authentication(self) -> Any:
        import trino

        if not self.address.password:
            return None
        if self.scheme == "http":
            raise ConfigError(
                f"{self.where}: Trino takes a password over TLS alone",
                hint=f"ktx config set connections.{self.id}.ssl true",
                details={"connection": self.id},
            )
        return trino.auth.BasicAuthentication(self.address.user, self.address.password)

    def _fetch(self, session: Any, sql: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with session.cursor() as cursor:
            cursor.execute(tagged(sql.strip()), parameters)
            return [tuple(row) for row in cursor.fetchall()]

    def _run(self, session: Any, sql: str, parameters: tuple[Any, ...], max_rows: int) -> QueryResult:
        with _read_only(session), session.cursor() as cursor:
            cursor.execute(tagged(sql), parameters)
            rows, cut = base.capped(iter(cursor.fetchone, None), max_rows)
            columns = tuple(each.name for each in cursor.description or ())
        if not columns:
            raise read_only_error(self.where, "a statement that returns nothing is")
        return QueryResult(columns, rows, cut)

    def _reusable(self, session: Any) -> bool:
        # Without an identifier the client would start transactions of its own.
        return bool(session._client_session.transaction_id == "NONE")

    def _client_errors(self) -> tuple[type[Exception], ...]:
        import trino

        # The last two: whatever listens there does not answer as Trino does.
        return (trino.exceptions.Error, trino.exceptions.HttpError, ValueError, KeyError)

    def _text(self, error: Exception) -> str:
        if isinstance(error, ValueError | KeyError):
            return "what answers is no Trino server"
        return str(getattr(error, "message", error))

    def _explain(self, error: Exception, text: str) -> tuple[str, str | None, str]:
        name = str(getattr(error, "error_name", "") or "")
        if name in _STOPPED:
            return "", None, "timeout"
        if name in _REFUSED_WRITES:
            return f"{text}: ktx only reads", "write one SELECT statement", "read_only"
        if name == "CATALOG_NOT_FOUND":
            return text, f"ktx config set connections.{self.id}.catalog NAME", "connection"
        if name:
            return text, None, "query"
        if text.startswith(_LOGIN):
            return f"the server refuses the log-in ({text[:9]})", self._log_in_hint(), "connection"
        return text, f"check {self._settings('host', 'port')}", "connection"

    def _describe(self, error: Exception) -> tuple[str, str | None, str]:
        if isinstance(error, OSError):
            return _reason(error), f"start the server, or check {self._settings('host', 'port')}", "connection"
        return super()._describe(error)

    def _log_in_hint(self) -> str:
        if self.address.password:
            return f"check {self._settings('username', 'password')}"
        return f"ktx config set connections.{self.id}.password env:TRINO_PASSWORD"

    def _identity(self, read: Reader) -> Identity:
        ((version, user, catalog),) = read(IDENTITY)
        return Identity(f"Trino {version}", user, catalog or self.catalog)

    def _catalog(self, read: Reader, parts: PartReader, identity: Identity, scope: Scope) -> Catalog:
        return TrinoCatalog(read, parts, identity.database)

    def _rights(self, read: Reader, identity: Identity, found: Sequence[TableRef]) -> Rights:
        wanted = set(found)
        # Not every connector keeps privileges, and one that keeps none says nothing about anything.
        parts = PartReader(read, self._driver_error())
        granted = [
            (TableRef(schema, table), privilege)
            for schema, table, privilege in parts("privileges", privileges_sql(identity.database))
            if TableRef(schema, table) in wanted
        ]
        if not granted:
            return Rights(None, ("this catalog names no privileges",))
        readable = {ref for ref, privilege in granted if privilege == "SELECT"}
        writes = any(privilege in _WRITING for _, privilege in granted)
        return Rights(writes, (f"SELECT granted on {len(readable)} of {len(wanted)} tables",))


def _wants_tls(spec: ConnectionSpec, address: ServerAddress) -> bool:
    """Whether to speak TLS: as `ssl` says, else for a password, for port 443 and for a URL that begins with https."""
    for options in (spec.options, address.parameters):
        if (flag := option_flag(options, "ssl")) is not None:
            return flag
    https = str(spec.options.get("url") or "").lower().startswith("https:")
    return https or bool(address.password) or address.port == 443


@contextmanager
def _read_only(session: Any) -> Iterator[None]:
    """Run the block in a transaction that only reads, and roll it back.

    The client's own transactions may write. A session whose transaction cannot be ended is left in it, so that it is
    not used again; the server ends it when it was idle for long.
    """
    import trino

    request = session._create_request()
    request.transaction_id = _begun(request)
    try:
        yield
    except BaseException:
        with suppress(trino.exceptions.Error, trino.exceptions.HttpError, OSError):
            _roll_back(request)
        raise
    _roll_back(request)


def _begun(request: Any) -> str:
    """Start a transaction and return its identifier, which any of the server's answers may bring."""
    import trino

    response = request.post(tagged("START TRANSACTION READ ONLY"))
    while True:
        found = response.headers.get(trino.constants.HEADER_STARTED_TRANSACTION, "NONE")
        status = request.process(response)
        if found != "NONE" or not status.next_uri:
            break
        response = request.get(status.next_uri)
    if found == "NONE":
        raise trino.exceptions.OperationalError("the server started no transaction")
    while status.next_uri:
        status = request.process(request.get(status.next_uri))
    return str(found)


def _roll_back(request: Any) -> None:
    import trino

    list(trino.client.TrinoQuery(request, tagged("ROLLBACK")).execute())
    request.transaction_id = "NONE"


def _passes_through(sql: str, where: str) -> bool:
    """Whether a statement calls `system.query` or `system.raw_query` of a connector."""
    from sqlglot import tokenize
    from sqlglot.errors import SqlglotError

    try:
        words = [token.text.lower() for token in tokenize(sql, read="trino")]
    except SqlglotError:
        raise read_only_error(where, "a statement that ktx cannot parse is") from None
    calls = zip(words, words[1:], words[2:], words[3:], strict=False)
    return any(call[:2] == ("system", ".") and call[2].endswith("query") and call[3] == "(" for call in calls)


def _reason(error: OSError) -> str:
    """Return the innermost cause of a failed request, which the client wraps in several classes."""
    cause: BaseException = error
    while cause.__cause__ or cause.__context__:
        cause = cause.__cause__ or cause.__context__ or cause
    return str(cause)
