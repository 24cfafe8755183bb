"""Read a catalog on a Trino server. Every user statement runs in a read-only transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ktx_cli.core import Command, ConfigError, Hint
from ktx_cli.warehouses import base, cloud
from ktx_cli.warehouses.base import ADDRESS, FLAG, TableDraft, read_only_error, require_known
from ktx_cli.warehouses.port import ConnectionSpec, QueryResult, Scope, Table, TableKind, TableRef
from ktx_cli.warehouses.server import PartReader, Reader, ServerAddress, option_flag, server_address, tagged

if TYPE_CHECKING:
    pass

_ATTEMPTS = 3
_WRITING = ("INSERT", "UPDATE", "DELETE", "OWNERSHIP", "CREATE")
_STOPPED = ("EXCEEDED_TIME_LIMIT", "EXCEEDED_QUEUED_TIME_LIMIT", "EXCEEDED_CPU_LIMIT")
_REFUSED_WRITES = ("READ_ONLY_VIOLATION", "AUTOCOMMIT_WRITE_CONFLICT")
_LOGIN = ("error 401", "error 403")


class TrinoConnector(cloud.CloudConnector):
    """Sessions on a Trino server, each in one of its catalogs; nothing is sent until the first statement."""

    dialect = "trino"
    url_parameters: ClassVar[Mapping[str, tuple[str, ...]]] = {**ADDRESS, "ssl": FLAG}
    reading = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "SHOW", "EXPLAIN", "DESCRIBE", "DESC"})

    def __init__(self, spec: ConnectionSpec) -> None:
        if not spec.options.get("url"):
            cloud.required(spec, "host", "trino.example.com")
        given = server_address(spec, 0)
        require_known(spec, given.parameters, self.url_parameters)
        tls = _wants_tls(spec, given)
        self.scheme = "https" if tls else "http"
        address = server_address(spec, 443 if tls else 8080)
        catalog, _, schema = address.database.partition("/")
        self.default_schemas = (schema,) if schema else ()
        self.catalog = str(spec.options.get("catalog") or catalog)
        if not self.catalog:
            cloud.required(spec, "catalog", "hive")
        if not address.user:
            cloud.required(spec, "user", "ktx_reader")
        super().__init__(spec, address, f"{address.host}:{address.port}/{self.catalog}")

    @property
    def own_catalog(self) -> str:
        """See `catalog_of`."""
        return self.catalog

    def _check(self, sql: str) -> None:
        super()._check(sql)
        # A read-only transaction does not check the statement that such a function passes to another database.
        if passes_through(sql, self.where):
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
            # Rows then come from the server itself, not from a storage that it names.
            encoding=None,
        )

    def _authentication(self) -> Any:
        import trino

        if not self.address.password:
            return None
        if self.scheme == "http":
            message = f"{self.where}: Trino accepts passwords only over TLS"
            hint = Command("config", "set", f"connections.{self.id}.ssl", "true")
            raise ConfigError(message, hint=hint, details={"connection": self.id})
        return trino.auth.BasicAuthentication(self.address.user, self.address.password)

    def _fetch(self, session: Any, sql: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with session.cursor() as cursor:
            cursor.execute(tagged(sql.strip()), parameters)
            return [tuple(row) for row in cursor.fetchall()]

    def _run(self, session: Any, sql: str, parameters: tuple[Any, ...], max_rows: int) -> QueryResult:
        with _read_only(session), session.cursor() as cursor, self._cancellable(lambda: _cancelled(cursor)):
            cursor.execute(tagged(sql), parameters)
            rows, cut = base.capped(iter(cursor.fetchone, None), max_rows)
            columns = tuple(each.name for each in cursor.description or ())
        if not columns:
            raise read_only_error(self.where, "a statement that returns nothing is")
        return QueryResult(columns, rows, cut)

    def _reusable(self, session: Any) -> bool:
        # Without an identifier, the client would start transactions of its own.
        return bool(session._client_session.transaction_id == "NONE")

    def _client_errors(self) -> tuple[type[Exception], ...]:
        import trino

        # The last two: the server at this address does not respond like Trino.
        return (trino.exceptions.Error, trino.exceptions.HttpError, ValueError, KeyError)

    def _text(self, error: Exception) -> str:
        if isinstance(error, ValueError | KeyError):
            return "the server at this address is not a Trino server"
        return str(getattr(error, "message", error))

    def _explain(self, error: Exception, text: str) -> tuple[str, str | None, str]:
        name = str(getattr(error, "error_name", "") or "")
        if name in _STOPPED:
            return "", None, "timeout"
        if name in _REFUSED_WRITES:
            return f"{text}: ktx only reads", "write a single SELECT statement", "read_only"
        if name == "CATALOG_NOT_FOUND":
            return text, Command("config", "set", f"connections.{self.id}.catalog", "NAME"), "connection"
        if name:
            return text, None, "query"
        if text.startswith(_LOGIN):
            return f"the server rejected the login ({text[:9]})", self._log_in_hint(), "connection"
        return text, f"check {self._settings('host', 'port')}", "connection"

    def _describe(self, error: Exception) -> tuple[str, str | None, str]:
        if isinstance(error, OSError):
            return _reason(error), Hint("start the server, or check {}", self._settings("host", "port")), "connection"
        return super()._describe(error)

    def _log_in_hint(self) -> str:
        if self.address.password:
            return Hint("check {}", self._settings("username", "password"))
        return Command("config", "set", f"connections.{self.id}.password", "env:TRINO_PASSWORD")

    def _identity(self, read: Reader) -> cloud.Identity:
        ((version, user, catalog),) = read(IDENTITY)
        return cloud.Identity(f"Trino {version}", user, catalog or self.catalog)

    def _session_facts(self, read: Reader) -> Sequence[Any]:
        parts = PartReader(read, cloud.ClientError)
        roles = (
            parts("roles", f"SHOW CURRENT ROLES{within}")
            for within in ("", f" FROM {cloud.identifier('trino', self.catalog)}")
        )
        return *super()._session_facts(read), *(sorted(map(repr, each)) for each in roles)

    def _catalog(self, read: Reader, parts: PartReader, identity: cloud.Identity, scope: Scope) -> cloud.Catalog:
        return TrinoCatalog(read, parts, identity.database)

    def _changes(self, read: Reader, parts: PartReader, tables: Sequence[Table]) -> cloud.Rows:
        """See `CloudConnector`. Only tables of the Iceberg and Delta Lake connectors have a log of their changes.

        A change of a Delta table by a program that writes no `commitInfo`, which is optional, is not in its history.
        """
        rows = parts("connector", CONNECTOR.format(name=cloud.texts("trino", [self.catalog])))
        log = _LOGS.get(str(rows[0][0])) if rows else None
        if log is None:
            return []
        refs = [table.ref for table in tables if table.kind is TableKind.TABLE and table.ref.schema is not None]
        return cloud.read_of_each(read, lambda ref: changes_sql(self.catalog, ref, *log), refs)

    def _rights(self, read: Reader, identity: cloud.Identity, found: Sequence[TableRef]) -> cloud.Rights:
        wanted = set(found)
        # Not every connector stores privileges, and one that stores none returns nothing.
        parts = PartReader(read, self._driver_error())
        granted = [
            (TableRef(schema, table), privilege)
            for schema, table, privilege in parts("privileges", privileges_sql(identity.database))
            if TableRef(schema, table) in wanted
        ]
        if not granted:
            return cloud.Rights(None, ("this catalog lists no privileges",))
        readable = {ref for ref, privilege in granted if privilege == "SELECT"}
        writes = any(privilege in _WRITING for _, privilege in granted)
        return cloud.Rights(writes, (f"SELECT granted on {len(readable)} of {len(wanted)} tables",))


def _wants_tls(spec: ConnectionSpec, address: ServerAddress) -> bool:
    """Return whether to use TLS: `ssl` if set, else whether there is a password, port 443 or an https URL."""
    for options in (spec.options, address.parameters):
        if (flag := option_flag(options, "ssl")) is not None:
            return flag
    https = str(spec.options.get("url") or "").lower().startswith("https:")
    return https or bool(address.password) or address.port == 443


@contextmanager
def _read_only(session: Any) -> Iterator[None]:
    """Run the block in a read-only transaction, and roll it back.

    The client's own transactions may write. A session whose transaction cannot be ended keeps it, so that it is not
    reused; the server ends it after a long idle time.
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


def _cancelled(cursor: Any) -> bool:
    query = cursor._query
    if query is None:
        return False
    query.cancel()
    return bool(query.cancelled)


def _begun(request: Any) -> str:
    """Start a transaction and return its identifier, which may be in any of the server's responses."""
    import trino

    response = request.post(tagged("START TRANSACTION READ ONLY"))
    while True:
        found = response.headers.get(trino.constants.HEADER_STARTED_TRANSACTION, "NONE")
        status = request.process(response)
        if found != "NONE" or not status.next_uri:
            break
        response = request.get(status.next_uri)
    if found == "NONE":
        raise trino.exceptions.OperationalError("the server did not start a transaction")
    while status.next_uri:
        status = request.process(request.get(status.next_uri))
    return str(found)


def _roll_back(request: Any) -> None:
    import trino

    list(trino.client.TrinoQuery(request, tagged("ROLLBACK")).execute())
    request.transaction_id = "NONE"


def passes_through(sql: str, where: str) -> bool:
    """Return whether a statement calls `system.query` or `system.raw_query` in a connector."""
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


IDENTITY = "SELECT version(), current_user, current_catalog"
CONNECTOR = "SELECT connector_name FROM system.metadata.catalogs WHERE catalog_name = {name}"
# Each change of an Iceberg table, of its structure too, has a metadata file. Versions of a Delta table count again from
# zero if it is dropped and created again, but at another time.
_LOGS: Final[Mapping[str, tuple[str, str]]] = {
    "iceberg": ("$metadata_log_entries", "concat(CAST(count(*) AS varchar), ' ', to_hex(checksum(file)))"),
    "delta_lake": (
        "$history",
        "concat(CAST(max(version) AS varchar), ' ', CAST(to_unixtime(max_by(timestamp, version)) AS varchar))",
    ),
}
"""Connector -> the end of the name of the table with the log of a table, and a text that changes with each entry."""

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
# Trino has this column, but omits it from `SELECT *`.
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
    """Return the statement that lists schema, table and privilege of grants to the user or their roles."""
    return _PRIVILEGES.format(catalog=cloud.identifier("trino", catalog))


def changes_sql(catalog: str, ref: TableRef, log: str, text: str) -> str:
    """Return the query for one row with schema, table and a text that changes with the log of a table."""
    names = cloud.texts("trino", [str(ref.schema), ref.name])
    return f"SELECT {names}, {text} FROM {cloud.identifier('trino', catalog, str(ref.schema), ref.name + log)}"


class TrinoCatalog:
    """A single read of a Trino catalog."""

    def __init__(self, read: Reader, parts: PartReader, catalog: str) -> None:
        self._read = read
        self._parts = parts
        self._catalog = catalog
        self._materialized: dict[TableRef, str] = {}

    def relations(self) -> dict[TableRef, TableDraft]:
        """Return all tables, views and materialized views, except those in information_schema."""
        drafts = cloud.drafts_of(self._read(self._sql(_RELATIONS)), {"VIEW": TableKind.VIEW})
        rows = self._parts("materialized views", self._sql(_MATERIALIZED))
        self._materialized = {TableRef(schema, name): definition for schema, name, definition in rows}
        for ref in self._materialized.keys() & drafts.keys():
            drafts[ref].kind = TableKind.MATERIALIZED_VIEW
        self._drafts = drafts
        return drafts

    def columns(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return the columns. Table and column comments are read separately, because not all connectors have them."""
        for schema, table, comment in self._parts("table comments", self._sql(_COMMENTS, schemas)):
            if (draft := self._drafts.get(TableRef(schema, table))) is not None:
                draft.comment = comment
        commented = self._parts("column comments", self._sql(_COLUMN_COMMENTS, schemas))
        comments = {tuple(names): comment for *names, comment in commented}
        return [
            (schema, table, name, native, nullable, comments.get((schema, table, name)), default, False)
            for schema, table, name, native, nullable, default in self._read(self._sql(_COLUMNS, schemas))
        ]

    def keys(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return none: Trino has no keys."""
        return []

    def foreign_keys(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return none: Trino has no foreign keys."""
        return []

    def views(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return the SQL of views and materialized views."""
        own = [(ref.schema, ref.name, definition) for ref, definition in self._materialized.items()]
        return [*self._parts("view definitions", self._sql(_VIEWS, schemas)), *own]

    def _sql(self, template: str, schemas: Sequence[str] = ()) -> str:
        return template.format(
            catalog=cloud.identifier("trino", self._catalog),
            name=cloud.texts("trino", [self._catalog]),
            schemas=cloud.texts("trino", schemas),
        )
