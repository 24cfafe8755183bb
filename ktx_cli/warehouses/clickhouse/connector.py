"""Read ClickHouse over HTTP with clickhouse-connect; a schema is a ClickHouse database."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar
from urllib.parse import urlsplit

from ktx_cli.core import Command, Hint, listing, one_line
from ktx_cli.warehouses import base, port, server
from ktx_cli.warehouses.base import ADDRESS, ANY, FLAG, TableDraft, leading_keyword, option_file, read_only_error
from ktx_cli.warehouses.clickhouse.dialect import DIALECT
from ktx_cli.warehouses.pool import Pool
from ktx_cli.warehouses.server import PartReader, Reader, ServerConnector, option_flag, tagged

TLS_PORT = 8443
"""The default port of a connection with TLS."""

LIMITS: Mapping[str, Any] = {
    # Level 1, not 2: with 2, a statement may still change its own limits, and read files and URLs by table functions.
    "readonly": 1,
    "timeout_overflow_mode": "throw",
    "max_result_bytes": 2 * base.MAX_RESULT_BYTES,
    "result_overflow_mode": "throw",
    "lock_acquire_timeout": base.LOCK_SECONDS,
    # As in standard SQL: an unmatched join and a sum of nothing are NULL, not 0 or an empty text.
    "join_use_nulls": 1,
    "aggregate_functions_null_for_empty": 1,
    "cancel_http_readonly_queries_on_client_close": 1,
}
"""The settings for every statement besides its time limit, as far as the user's profile allows."""

_TO_FILE = re.compile(r"\bINTO\s+OUTFILE\b", re.IGNORECASE)
_DESCRIBED = ("SELECT", "WITH")
_WHO = "SELECT version(), currentUser(), currentDatabase()"
_GRANTS = "SHOW GRANTS"
_GRANT = re.compile(r"GRANT (?P<rights>.+?) ON (?P<place>\S+) TO ")
_ROLE = re.compile(r"GRANT (?P<roles>(?:(?! ON ).)+) TO ")
_WRITING = re.compile(r"\b(ALL|INSERT|ALTER|CREATE|DROP|TRUNCATE|SYSTEM)\b")
_CODE = re.compile(r"Code:? (\d+)")
_DETAIL = re.compile(r"DB::Exception: (?P<text>.*?)(?:\s*\(version .*)?$", re.DOTALL)
_STOPPED = (159, 160, 209)
_WAITED = (473,)
_REFUSED = (164,)
_TOO_LARGE = (396,)
_LOG_IN = (192, 193, 194, 195, 516)


class ClickHouseConnector(ServerConnector):
    """Statements in read-only mode on a ClickHouse server."""

    dialect = "clickhouse"
    own_catalog = None
    default_port = 8123
    url_parameters: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **ADDRESS,
        "database": ANY,
        "secure": FLAG,
        "ssl": FLAG,
        "verify": FLAG,
    }
    reading = frozenset({"SELECT", "WITH", "SHOW", "EXPLAIN", "DESCRIBE", "DESC", "EXISTS"})

    def __init__(self, spec: port.ConnectionSpec) -> None:
        self._secure = _is_secure(spec)
        super().__init__(_with_port(spec) if self._secure else spec)

    def _check(self, sql: str) -> None:
        super()._check(sql)
        if _TO_FILE.search(sql):
            raise read_only_error(self.where, "a statement with INTO OUTFILE is")

    def _comes_back(self, pool: Pool[Any]) -> bool:
        """Return False: each statement is a separate request, so it cannot end a session."""
        return False

    def _connect(self) -> Any:
        from clickhouse_connect import get_client

        self._require_private()
        address = self.address
        client = get_client(
            interface="https" if self._secure else "http",
            host=address.host,
            port=address.port,
            username=address.user or "default",
            password=address.password,
            database=address.database or address.parameters.get("database") or "__default__",
            connect_timeout=base.CONNECT_SECONDS,
            send_receive_timeout=self.whole_seconds + base.CONNECT_SECONDS,
            query_retries=0,
            client_name="ktx",
            verify=self._verified(),
            ca_cert=option_file(self.spec, "ca", str(given)) if (given := self.options.get("ca")) else None,
            autogenerate_session_id=False,
            dedicated_pool=True,
        )
        for name, value in _settable(client, {**LIMITS, "max_execution_time": self.whole_seconds}).items():
            client.set_client_setting(name, value)
        return client

    def _require_private(self) -> None:
        """Raise `SourceError` if a password would be sent in plaintext without explicit permission."""
        accepted = option_flag(self.options, "ssl") is False
        if self.address.password and not (self._secure or accepted or server.is_local(self.address.host)):
            raise self.failure(
                "the password would be sent in plaintext because the connection does not use TLS",
                hint=Hint(
                    "{}, or to false in a trusted network",
                    Command("config", "set", f"connections.{self.id}.ssl", "true"),
                ),
            )

    def _verified(self) -> bool:
        """Return whether to verify the server's certificate. If not, suppress urllib3's warning at every request."""
        given = option_flag(self.options, "rejectUnauthorized")
        if given is None:
            given = option_flag(self.address.parameters, "verify")
        if given is False:
            import urllib3

            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        return given is not False

    def _read(self, session: Any, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        with session.query_rows_stream(tagged(self._bound(sql, tuple(parameters)))) as stream:
            return [tuple(row) for row in stream]

    def _bound(self, sql: str, parameters: tuple[Any, ...]) -> str:
        """Return the statement with its parameters inserted."""
        from clickhouse_connect.driver.binding import finalize_query

        try:
            return finalize_query(sql, parameters)
        except (TypeError, ValueError) as error:
            raise self.failure(f"the parameters do not match the statement: {error}", code="query") from error

    def _query(self, session: Any, sql: str, parameters: tuple[Any, ...] | None, max_rows: int) -> port.QueryResult:
        number = str(uuid.uuid4())
        settings = {**_settable(session, {"limit": max_rows + 1}), "query_id": number}
        text = tagged(self._bound(sql, parameters or ()))
        with (
            self._cancellable(lambda: _cancelled(session, number)),
            session.query_rows_stream(text, settings=settings) as stream,
        ):
            columns = tuple(stream.source.column_names)
            rows, more = base.capped(stream, max_rows)
        if not columns and leading_keyword(sql)[0] in _DESCRIBED:
            columns = self._described(session, sql, parameters)
        return port.QueryResult(columns, rows, more)

    def _described(self, session: Any, sql: str, parameters: tuple[Any, ...] | None) -> tuple[str, ...]:
        """Return the columns of an empty result, for which the server does not send anything."""
        return tuple(
            row[0] for row in self._read(session, f"DESCRIBE TABLE (\n{sql.rstrip().rstrip(';')}\n)", parameters or ())
        )

    def _reusable(self, session: Any) -> bool:
        return True

    def _test(self, read: Reader, scope: port.Scope, latency: float) -> port.ConnectionTest:
        ((version, user, database),) = read(_WHO)
        scope = self._scoped(scope)
        found = port.select(port.at_home(list_relations(read), scope, *self._home(database)), scope)
        parts = PartReader(read, self._driver_error())
        lines = [str(line) for (line,) in parts("grants", _GRANTS)]
        return port.ConnectionTest(
            latency_ms=latency,
            server_version=f"ClickHouse {version}",
            tables=len(found.refs),
            can_write=_can_write(lines, {ref.schema for ref in found.refs}),
            user=user,
            privileges=tuple(_fact(line) for line in lines),
            database=database,
        )

    session_facts = ("SELECT currentUser(), currentDatabase()", "SELECT arraySort(enabledRoles())")

    def table_evidence(self, tables: Sequence[port.Table]) -> Mapping[port.TableRef, str]:
        """See `TableEvident`. Nothing is missed in tables of the MergeTree engines; others are absent.

        Merges in the background look like changes.
        """
        with self._rows() as read:
            return PartReader(read, self._driver_error()).changes(
                lambda ask: {port.TableRef(schema, name): str(text) for schema, name, text in ask(CHANGES)}
            )

    def _introspect(self, read: Reader, scope: port.Scope) -> port.DatabaseSchema:
        ((version, _, database),) = read(_WHO)
        parts = PartReader(read, self._driver_error())
        tables, problems = ClickHouseCatalog(read, parts, self._home(database)).read(self._scoped(scope))
        return port.DatabaseSchema(tables, (*problems, *parts.problems), f"ClickHouse {version}")

    def _scoped(self, scope: port.Scope) -> port.Scope:
        """Return the scope with the option `databases`, which corresponds to `schemas` in other drivers."""
        databases = self.options.get("databases")
        if scope.schemas is not None or not databases:
            return scope
        return replace(scope, schemas=(databases,) if isinstance(databases, str) else tuple(databases))

    def _home(self, current: str) -> tuple[str, ...]:
        return (current,) if self.address.database or self.address.parameters.get("database") else ()

    def _driver_error(self) -> type[Exception]:
        from clickhouse_connect.driver.exceptions import ClickHouseError

        return ClickHouseError

    def _describe(self, error: Exception) -> tuple[str, str | None, str]:
        text = str(error)
        found = _CODE.search(text)
        code = int(found[1]) if found else 0
        detail = _DETAIL.search(text)
        message = one_line(detail["text"] if detail else text, 500)
        if code in _STOPPED or "Read timed out" in text:
            return "", None, "timeout"
        if code in _WAITED:
            return "SELECT query_id, query FROM system.processes", None, "locked"
        if code in _REFUSED:
            return f"{message}: ktx only reads", "write a single SELECT statement", "read_only"
        if code in _TOO_LARGE:
            return message, "narrow the statement with fewer columns, a WHERE clause or a LIMIT", "query"
        if code in _LOG_IN:
            return message, Hint("check {}", self._settings("username", "password")), "connection"
        if code == 81:
            return message, Hint("check {}", self._settings("database")), "connection"
        return (message, None, "query") if code else (message, self._connection_hint(text), "connection")

    def _connection_hint(self, text: str) -> str:
        key = f"connections.{self.id}"
        hints = {
            "CERTIFICATE_VERIFY_FAILED": Hint(
                "{}, or .rejectUnauthorized false", Command("config", "set", f"{key}.ca", "FILE")
            ),
            "WRONG_VERSION_NUMBER": Hint("{}, or set the HTTPS port", Command("config", "set", f"{key}.ssl", "false")),
            "SSL": Hint("{}, or set the HTTPS port", Command("config", "set", f"{key}.ssl", "false")),
            "Connection refused": Hint("start the server, or check {}", self._settings("host", "port")),
            "Name or service not known": Hint("check {}", self._settings("host")),
            "getaddrinfo": Hint("check {}", self._settings("host")),
            "resolve": Hint("check {}", self._settings("host")),
            "RemoteDisconnected": Hint("{}, or set the HTTP port", Command("config", "set", f"{key}.ssl", "true")),
            "timed out": Hint("check {} and the firewall", self._settings("host", "port")),
        }
        return next((hint for part, hint in hints.items() if part in text), Command("connection", "test", self.id))


def _cancelled(session: Any, number: str) -> bool:
    """Cancel a statement by its id, which a user may do with his own."""
    with session.query_rows_stream(tagged(f"KILL QUERY WHERE query_id = '{number}' ASYNC")) as stream:
        return bool(list(stream))


def _is_secure(spec: port.ConnectionSpec) -> bool:
    """Return whether to use TLS, based on `ssl`, else the URL's parameters, scheme or HTTPS port."""
    parts = urlsplit(str(spec.options.get("url") or ""))
    query = dict(each.partition("=")[::2] for each in parts.query.split("&"))
    for given in (option_flag(spec.options, "ssl"), option_flag(query, "secure"), option_flag(query, "ssl")):
        if given is not None:
            return given
    return parts.scheme.lower() in ("https", "clickhouses") or str(spec.options.get("port")) == str(TLS_PORT)


def _with_port(spec: port.ConnectionSpec) -> port.ConnectionSpec:
    authority = urlsplit(str(spec.options.get("url") or "")).netloc.rpartition("@")[2]
    if spec.options.get("port") or re.search(r":\d+$", authority):
        return spec
    return replace(spec, options={**spec.options, "port": TLS_PORT})


def _settable(client: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that the user may change. A read-only profile allows none, and already restricts the user."""
    known = client.server_settings
    if "readonly" in known and known["readonly"].readonly:
        return {}
    return {name: value for name, value in settings.items() if name not in known or not known[name].readonly}


def _can_write(grants: Sequence[str], databases: set[str | None]) -> bool | None:
    """Return whether a grant allows writes to one of the databases, or None if a role may have other grants."""
    for line in grants:
        grant = _GRANT.match(line)
        if grant is not None and _WRITING.search(grant["rights"]):
            database = grant["place"].partition(".")[0].strip("`")
            if database in ("*", *databases):
                return True
    return None if not grants or any(_ROLE.fullmatch(line.partition(" TO ")[0] + " TO ") for line in grants) else False


def _fact(grant: str) -> str:
    found = _GRANT.match(grant)
    if found is None:
        return one_line(grant.partition(" TO ")[0], 80)
    return f"{listing(found['rights'].split(', '))} on {found['place']}"


# The parts of a table are never changed: inserts, mutations and merges write others.
CHANGES = """
SELECT t.database, t.name, concat(toString(t.uuid), ' ', toString(t.metadata_modification_time), ' ', p.parts)
FROM system.tables AS t
JOIN (SELECT database, table,
             concat(toString(count()), ' ', toString(sum(rows)), ' ', toString(groupBitXor(cityHash64(
                 partition_id, name, hash_of_all_files)))) AS parts
      FROM system.parts WHERE active GROUP BY database, table) AS p ON p.database = t.database AND p.table = t.name
WHERE t.engine LIKE '%MergeTree' AND t.database NOT IN ('system', 'INFORMATION_SCHEMA', 'information_schema')
"""
RELATIONS = """
SELECT database, name, engine, comment, total_rows, sorting_key FROM system.tables
WHERE database NOT IN ('system', 'INFORMATION_SCHEMA', 'information_schema') AND NOT is_temporary
  AND NOT startsWith(name, '.inner')
"""
# An ephemeral column cannot be read.
COLUMNS = """
SELECT database, table, name, type, default_kind, default_expression, comment FROM system.columns
WHERE database IN ({schemas}) AND default_kind <> 'EPHEMERAL' ORDER BY database, table, position
"""
SKIPPING_INDEXES = """
SELECT database, table, name, expr FROM system.data_skipping_indices
WHERE database IN ({schemas}) ORDER BY database, table, name
"""
VIEWS = """
SELECT database, name, as_select FROM system.tables WHERE database IN ({schemas}) AND as_select <> ''
"""

SORTING_KEY = "sorting key"
"""The name of the index for a table's sorting key."""

_VIEWS = {
    "View": port.TableKind.VIEW,
    "MaterializedView": port.TableKind.MATERIALIZED_VIEW,
    "LiveView": port.TableKind.MATERIALIZED_VIEW,
    "WindowView": port.TableKind.MATERIALIZED_VIEW,
}
_ELSEWHERE = re.compile(
    r"MySQL|PostgreSQL|MaterializedPostgreSQL|MongoDB|Redis|SQLite|ODBC|JDBC|S3\w*|URL|File|HDFS|Hive|Kafka|RabbitMQ|"
    r"NATS|Azure\w+|GCS|OSS|COSN|DeltaLake\w*|Iceberg\w*|Hudi|ExternalDistributed|YTsaurus|ArrowFlight"
)
_NULLABLE = re.compile(r"(LowCardinality\()?Nullable\(|(Variant|Dynamic)\b")
_PLAIN = re.compile(r"(?P<name>[A-Za-z_]\w*)|`(?P<quoted>(?:[^`\\]|\\.)+)`")
_GENERATED = ("MATERIALIZED", "ALIAS")


@dataclass(frozen=True, slots=True)
class Relation:
    """A listed relation: its draft and the SQL of its sorting key."""

    draft: TableDraft
    sorting_key: str


def list_relations(read: Reader) -> dict[port.TableRef, Relation]:
    """Return all tables and views visible to the user, except system tables and the hidden storage of views.

    A row count is exact if the engine keeps one, else None.
    """
    found: dict[port.TableRef, Relation] = {}
    for database, name, engine, comment, rows, sorting_key in read(RELATIONS):
        kind = _kind(engine)
        counted = kind in (port.TableKind.TABLE, port.TableKind.MATERIALIZED_VIEW) and rows is not None
        draft = TableDraft(
            port.TableRef(database, name), kind, comment=comment or None, row_estimate=int(rows) if counted else None
        )
        found[draft.ref] = Relation(draft, sorting_key)
    return found


class ClickHouseCatalog:
    """A single read of the structure of all databases in scope. `home` has the connection's own database, if any."""

    def __init__(self, read: Reader, parts: PartReader, home: Sequence[str]) -> None:
        self._read = read
        self._parts = parts
        self._home = home

    def read(self, scope: port.Scope) -> tuple[tuple[port.Table, ...], tuple[port.ObjectProblem, ...]]:
        """Return everything in scope, sorted, and the scope entries that did not match anything."""
        relations = port.at_home(list_relations(self._read), scope, *self._home)
        chosen = port.select(relations, scope)
        drafts = {ref: relations[ref].draft for ref in chosen.refs}
        databases = tuple(sorted({ref.schema for ref in drafts if ref.schema is not None}))
        if databases:
            self._fill(drafts, databases)
            for ref, draft in drafts.items():
                _add_index(draft, SORTING_KEY, relations[ref].sorting_key)
        return tuple(draft.finish() for _, draft in sorted(drafts.items())), chosen.problems

    def _fill(self, drafts: dict[port.TableRef, TableDraft], databases: tuple[str, ...]) -> None:
        def each(what: str, sql: str, add: Callable[..., None]) -> None:
            _each(drafts, self._parts(what, port.in_schemas(sql, len(databases)), databases), add)

        _each(drafts, self._read(port.in_schemas(COLUMNS, len(databases)), databases), _add_column)
        each("indexes", SKIPPING_INDEXES, _add_index)
        each("view definitions", VIEWS, _set_view)


def plain_columns(expressions: str) -> tuple[str, ...]:
    """Return the plain columns in a list of expressions, in order: `a` and `c` for `a, toDate(b), c`."""
    matches = (_PLAIN.fullmatch(part.strip()) for part in _split(expressions))
    return tuple(found["name"] or _unescaped(found["quoted"]) for found in matches if found is not None)


def _kind(engine: str) -> port.TableKind:
    if engine in _VIEWS:
        return _VIEWS[engine]
    return port.TableKind.FOREIGN if _ELSEWHERE.fullmatch(engine) else port.TableKind.TABLE


def _each(drafts: dict[port.TableRef, TableDraft], rows: Iterable[tuple[Any, ...]], add: Callable[..., None]) -> None:
    for database, table, *rest in rows:
        draft = drafts.get(port.TableRef(database, table))
        if draft is not None:
            add(draft, *rest)


def _add_column(draft: TableDraft, name: str, native: str, kind: str, expression: str, comment: str) -> None:
    default, nullable = expression if kind == "DEFAULT" else None, _NULLABLE.match(native)
    draft.add_column(name, native, DIALECT.semantic_type(native), nullable, comment, default, kind in _GENERATED)


def _add_index(draft: TableDraft, name: str, expressions: str) -> None:
    known = {column.name for column in draft.columns}
    columns = tuple(column for column in plain_columns(expressions) if column in known)
    if columns:
        draft.indexes.append(port.Index(columns, name))


def _set_view(draft: TableDraft, definition: str) -> None:
    if draft.kind in _VIEWS.values():
        draft.view_sql = definition


def _split(expressions: str) -> list[str]:
    """Split at the commas outside parentheses and quotes; outer parentheses are removed."""
    text = expressions.strip()
    marks = list(_outer_marks(text))
    if marks == [(0, "("), (len(text) - 1, ")")]:
        return _split(text[1:-1])
    commas = [position for position, mark in marks if mark == ","]
    return [text[start + 1 : end] for start, end in pairwise([-1, *commas, len(text)])]


def _outer_marks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the positions of parentheses and commas at the outermost level, outside quotes."""
    depth, quote, position = 0, "", 0
    while position < len(text):
        mark = text[position]
        if quote:
            position += mark == "\\"
            quote = "" if mark == quote else quote
        elif mark in "'`\"":
            quote = mark
        else:
            depth -= mark in ")]"
            if depth == 0 and mark in "(),":
                yield position, mark
            depth += mark in "(["
        position += 1


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)
