"""ClickHouse: the real client over HTTP, to an embedded ClickHouse that runs every statement as sent."""

from __future__ import annotations

import base64
import re
import ssl
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import clickhouse_connect
import pytest
import trustme
from sqlglot import exp

from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import ConfigError, SourceError
from ktx_cli.warehouses import base
from ktx_cli.warehouses.clickhouse import connector as clickhouse
from ktx_cli.warehouses.clickhouse.connector import plain_columns
from ktx_cli.warehouses.clickhouse.dialect import DIALECT
from ktx_cli.warehouses.pool import ended_at
from ktx_cli.warehouses.port import (
    ConnectionSpec,
    Connector,
    Index,
    Scope,
    StoredAs,
    TableEvident,
    TableKind,
    reader_of,
)
from ktx_cli.warehouses.registry import connect
from tests.warehouses.test_dialect_stored_values import GOOD, TEXTS

Open = Callable[..., Connector]
CANARY = "c4n4ry-hunter2"
NO_SETTINGS = frozenset({"database", "query_id", "session_id", "client_protocol_version", "wait_end_of_query"})
SHOP = (
    "CREATE DATABASE shop",
    "CREATE DATABASE other",
    "CREATE TABLE shop.orders (id UInt64 COMMENT 'about id', customer Nullable(Int32),"
    " k LowCardinality(Nullable(String)), amount Decimal(10, 2) DEFAULT 1.5, at DateTime64(3, 'UTC'),"
    " day Date MATERIALIZED toDate(at), yes Bool,"
    " twice UInt64 ALIAS id * 2, gone String EPHEMERAL, tags Array(String), `a``b` Int8, u UUID,"
    " INDEX skip (customer) TYPE minmax, INDEX hashed cityHash64(k) TYPE minmax)"
    " ENGINE = MergeTree ORDER BY (toDate(at), id, `a``b`) COMMENT 'about orders'",
    "INSERT INTO shop.orders (id, customer, at, yes, `a``b`)"
    " SELECT number, number % 7, now64(3), 1, 0 FROM numbers(25)",
    "CREATE TABLE shop.noted (a String) ENGINE = Log",
    "CREATE VIEW shop.seen AS SELECT id FROM shop.orders WHERE id > 3",
    "CREATE MATERIALIZED VIEW shop.stored ENGINE = MergeTree ORDER BY id AS SELECT id FROM shop.orders",
    "CREATE TABLE shop.away (a String) ENGINE = URL('http://127.0.0.1:9/', CSV)",
    "CREATE TABLE other.orders (id UInt8) ENGINE = MergeTree PRIMARY KEY id ORDER BY id",
)  # fmt: skip


class ChServer(ThreadingHTTPServer):
    """Passes statements with their settings to an embedded ClickHouse, each in a session of its own."""

    def __init__(self, folder: Path) -> None:
        self.engine = pytest.importorskip("chdb", reason="no embedded ClickHouse: pip install --no-deps chdb-core")
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = str(folder)
        self.kept = self.engine.connect(self.folder)
        """The engine ends with its last session: without this one it would begin again for every statement."""
        self.turn = threading.Lock()
        self.statements: list[str] = []
        self.settings: dict[str, str] = {}
        self.killed = threading.Event()
        self.numbers: list[str] = []
        """The id of the statement that runs until it is killed, and those that were killed."""
        self.answers: list[tuple[int, str]] = []
        """What the next requests are answered with, instead of by ClickHouse: a code and a message."""

    def server_close(self) -> None:
        super().server_close()
        self.kept.close()

    def run(self, sql: str, settings: dict[str, str], database: str = "default") -> bytes:
        with self.turn:
            session = self.engine.connect(self.folder)
            try:
                session.query(f"USE {database}")
                if settings:
                    session.query("SET " + ", ".join(f"{key} = '{value}'" for key, value in settings.items()))
                return bytes(session.query(sql, "TabSeparated").bytes())
            finally:
                session.close()


class _Handler(BaseHTTPRequestHandler):
    server: ChServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        given = dict(parse_qsl(urlsplit(self.path).query))
        sql = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.statements.append(sql)
        self.server.settings = {key: value for key, value in given.items() if key not in NO_SETTINGS}
        expected = base64.b64encode(f"reader:{CANARY}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {expected}":
            return self._fail("Code: 516. DB::Exception: reader: Authentication failed. (AUTHENTICATION_FAILED)")
        if self.server.answers:
            code, text = self.server.answers.pop(0)
            return self._fail(f"Code: {code}. DB::Exception: {text} (version 26.9.2.1)")
        if "FROM endless" in sql:
            self.server.numbers.append(given["query_id"])
            assert self.server.killed.wait(5)
            return self._fail("Code: 394. DB::Exception: Query was cancelled (version 26.9.2.1)")
        if "KILL QUERY" in sql:
            self.server.numbers += re.findall("'(.+?)'", sql)
            self.server.killed.set()
            return self._answer(200, b"", {})
        try:
            body = self.server.run(sql, self.server.settings, given.get("database", "default"))
        except RuntimeError as error:
            return self._fail(str(error))
        return self._answer(200, body, {})

    do_GET = do_POST

    def _fail(self, text: str) -> None:
        code = re.findall(r"Code: (\d+)", text)[0]
        self._answer(500, text.encode(), {"X-ClickHouse-Exception-Code": code})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChServer]:
    """A server with two databases."""
    with ChServer(tmp_path_factory.mktemp("clickhouse")) as server:
        for statement in SHOP:
            server.run(statement, {})
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def options(server: ChServer) -> dict[str, Any]:
    server.answers.clear()
    return _options(server)


def _options(server: ChServer) -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": server.server_port, "user": "reader", "password": CANARY, "database": "shop"}


@pytest.fixture(scope="module")
def connector(server: ChServer) -> Iterator[Connector]:
    with connect(ConnectionSpec("shop", "clickhouse", _options(server))) as connector:
        yield connector


def test_the_structure(connector: Connector) -> None:
    schema = connector.introspect(Scope())
    assert schema.problems == ()
    assert (schema.server_version or "").startswith("ClickHouse ")
    tables = {table.ref.name: table for table in schema.tables}
    assert {name: table.kind for name, table in tables.items()} == {
        "away": TableKind.FOREIGN,
        "noted": TableKind.TABLE,
        "orders": TableKind.TABLE,
        "seen": TableKind.VIEW,
        "stored": TableKind.MATERIALIZED_VIEW,
    }
    assert {table.ref.schema for table in schema.tables} == {"shop"}
    orders = tables["orders"]
    assert (orders.comment, orders.row_estimate) == ("about orders", 25)
    assert orders.indexes == (Index(("customer",), "skip"), Index(("id", "a`b"), "sorting key"))
    assert "WHERE id > 3" in (tables["seen"].view_sql or "")
    assert tables["seen"].row_estimate is None
    assert tables["away"].row_estimate is None


def test_a_sorting_key_is_no_primary_key(connector: Connector) -> None:
    schema = connector.introspect(Scope(schemas=("shop", "other")))
    assert len(schema.tables) == 6
    assert {(table.primary_key, table.unique_keys, table.foreign_keys) for table in schema.tables} == {((), (), ())}


def test_columns(connector: Connector) -> None:
    (table,) = connector.introspect(Scope(enabled_tables=("orders",))).tables
    columns = {column.name: column for column in table.columns}
    assert {name: (column.native_type, column.type.value) for name, column in columns.items()} == {
        "id": ("UInt64", "number"),
        "customer": ("Nullable(Int32)", "number"),
        "k": ("LowCardinality(Nullable(String))", "string"),
        "amount": ("Decimal(10, 2)", "number"),
        "at": ("DateTime64(3, 'UTC')", "time"),
        "day": ("Date", "time"),
        "yes": ("Bool", "boolean"),
        "twice": ("UInt64", "number"),
        "tags": ("Array(String)", "string"),
        "a`b": ("Int8", "number"),
        "u": ("UUID", "string"),
    }
    assert [name for name, column in columns.items() if column.nullable] == ["customer", "k"]
    assert [name for name, column in columns.items() if column.generated] == ["day", "twice"]
    assert {name: column.default for name, column in columns.items() if column.default} == {"amount": "1.5"}
    assert columns["id"].comment == "about id"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("given", "scope", "found"),
    [
        ({}, Scope(enabled_tables=("orders",)), ["shop.orders"]),
        ({}, Scope(enabled_tables=("other.orders",)), ["other.orders"]),
        ({}, Scope(include=("othe?.*",)), ["other.orders"]),
        ({"databases": ["other"]}, Scope(), ["other.orders"]),
        ({"databases": ["other", "shop"]}, Scope(enabled_tables=("orders",)), ["other.orders", "shop.orders"]),
        ({"database": None}, Scope(include=("orders",)), ["other.orders", "shop.orders"]),
        ({}, Scope(schemas=("other",)), ["other.orders"]),
    ],
)
def test_scope(given: dict[str, Any], scope: Scope, found: list[str], options: dict[str, Any], opened: Open) -> None:
    connector = opened("clickhouse", **{**options, **given})
    schema = connector.introspect(scope)
    assert [str(table.ref) for table in schema.tables] == found
    assert schema.problems == ()
    assert connector.test(scope).tables == len(found)


def test_a_database_that_is_not_there(options: dict[str, Any], opened: Open) -> None:
    schema = opened("clickhouse", **options, databases=["shop", "shpo"]).introspect(Scope())
    assert [problem.what for problem in schema.problems] == ["schema"]
    assert "`shpo`" in schema.problems[0].message


def test_a_failing_kind_of_metadata_costs_only_itself(connector: Connector, server: ChServer) -> None:
    calls = iter([None, None, None, (497, "reader: Not enough privileges. (ACCESS_DENIED)")])

    def run(sql: str, settings: dict[str, str], database: str) -> bytes:
        answer = next(calls, None)
        if answer is not None:
            raise RuntimeError(f"Code: {answer[0]}. DB::Exception: {answer[1]}")
        return ChServer.run(server, sql, settings, database)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "run", run)
        schema = connector.introspect(Scope())
    assert len(schema.tables) == 5
    (problem,) = schema.problems
    assert (problem.ref, problem.what) == (None, "indexes")
    assert "Not enough privileges" in problem.message
    assert any(table.view_sql for table in schema.tables)


def test_privileges_are_told(connector: Connector, server: ChServer) -> None:
    found = connector.test(Scope())
    assert (found.database, found.tables, found.can_write) == ("shop", 5, True)
    assert found.latency_ms > 0
    assert any(" on *.*" in fact for fact in found.privileges)
    assert all(len(fact) < 200 for fact in found.privileges)


GRANTS = [
    (["GRANT SELECT ON *.* TO r"], False),
    (["GRANT SELECT, INSERT ON shop.* TO r"], True),
    (["GRANT INSERT ON other.* TO r"], False),
    (["GRANT SELECT ON shop.* TO r", "GRANT ALTER UPDATE ON `shop`.orders TO r"], True),
    (["GRANT ALL ON *.* TO r WITH GRANT OPTION"], True),
    (["GRANT SHOW, SELECT ON shop.* TO r", "GRANT analyst TO r"], None),
    ([], None),
]


@pytest.mark.table(("grants", "writes"), GRANTS)
def test_what_grants_say(grants: list[str], writes: bool | None) -> None:
    assert clickhouse._can_write(grants, {"shop"}) is writes


def test_every_statement_is_tagged_and_bound(connector: Connector, server: ChServer) -> None:
    server.statements.clear()
    connector.test(Scope())
    connector.introspect(Scope())
    connector.query("SELECT 1")
    assert len(server.statements) > 8
    assert [each for each in server.statements if not each.startswith("/* ktx */ ")] == []
    assert server.settings["readonly"] == "1"
    assert server.settings["max_execution_time"] == "30"
    assert server.settings["limit"] == "1001"
    assert server.settings["max_result_bytes"] == str(2 * base.MAX_RESULT_BYTES)


ROWS = "SELECT number, toString(number) AS s FROM numbers(10)"


def test_rows_are_capped(connector: Connector) -> None:
    whole = connector.query(ROWS)
    assert (whole.columns, len(whole.rows), whole.truncated) == (("number", "s"), 10, False)
    cut = connector.query(ROWS, max_rows=3)
    assert (cut.rows, cut.truncated) == (((0, "0"), (1, "1"), (2, "2")), True)
    assert connector.query(ROWS, max_rows=10).truncated is False
    empty = connector.query("SELECT id, k FROM shop.orders WHERE id > 99")
    assert (empty.columns, empty.rows) == (("id", "k"), ())


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT sum(number) FROM (SELECT number FROM numbers(5000))", ((12497500,),)),
        ("WITH 2 AS two SELECT two * 3", ((6,),)),
        ("SELECT 1 UNION ALL SELECT 1", ((1,), (1,))),
        ("EXISTS TABLE shop.orders", ((1,),)),
        ("SHOW TABLES FROM other", (("orders",),)),
        ("SELECT NULL, true, toDecimal64('1.50', 2) > 1", ((None, True, 1),)),
        ("SELECT 7;", ((7,),)),
    ],
)
def test_what_reads_is_run(sql: str, rows: tuple[Any, ...], connector: Connector) -> None:
    found = connector.query(sql, max_rows=2)
    assert [tuple(int(v) if isinstance(v, bool) else v for v in row) for row in found.rows] == [
        tuple(int(v) if isinstance(v, bool) else v for v in row) for row in rows
    ]


def test_parameters(connector: Connector) -> None:
    value = 'it\'s 100% \\ "x"'
    assert connector.query("SELECT %s, %s, '100%%'", [value, 5]).rows == ((value, 5, "100%"),)
    assert connector.query("SELECT '100%'").rows == (("100%",),)


@pytest.mark.parametrize(("sql", "parameters"), [("SELECT 1", [5]), ("SELECT %s, %s", [5]), ("SELECT '5%', %s", [5])])
def test_parameters_that_do_not_fit(sql: str, parameters: list[int], connector: Connector) -> None:
    with pytest.raises(SourceError, match="do not match the statement") as caught:
        connector.query(sql, parameters)
    assert caught.value.code == "query"


WRITES = [
    "INSERT INTO shop.noted VALUES ('x')",
    "/* c */ DROP TABLE shop.noted",
    "SYSTEM SHUTDOWN",
    "SET readonly = 0",
    "SELECT 1 SETTINGS readonly = 0",
    "SELECT 1 SETTINGS max_execution_time = 0",
    "SELECT * FROM file('/etc/hostname', 'CSV', 'a String')",
    "SELECT * FROM url('http://127.0.0.1:9/', 'CSV', 'a String')",
    "SELECT * FROM remote('127.0.0.1:9', 'shop', 'orders')",
    "SELECT 1; DROP TABLE shop.noted",
    "EXPLAIN AST DROP TABLE shop.noted; DROP TABLE shop.noted",
    "WITH x AS (SELECT 1) INSERT INTO shop.noted SELECT '1'",
    "SELECT 1 INTO OUTFILE 'x.csv'",
]


@pytest.mark.parametrize("sql", WRITES)
def test_nothing_writes_reads_files_or_lifts_its_limits(sql: str, connector: Connector) -> None:
    with pytest.raises(SourceError) as caught:
        connector.query(sql)
    assert caught.value.code in ("read_only", "query")
    assert caught.value.hint or caught.value.code == "query"
    assert connector.query("SELECT count() FROM shop.noted").rows == ((0,),)


def test_a_user_whose_profile_is_read_only_is_sent_no_settings(
    options: dict[str, Any], server: ChServer, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(sql: str, settings: dict[str, str], database: str) -> bytes:
        return ChServer.run(server, sql, {**settings, "readonly": "1"}, database)

    monkeypatch.setattr(server, "run", run)
    connector = opened("clickhouse", **options)
    assert connector.query("SELECT number FROM numbers(9)", max_rows=2).rows == ((0,), (1,))
    assert not {"readonly", "max_execution_time", "limit"} & server.settings.keys()


ERRORS = [
    ((60, "Unknown table expression identifier 'nope'. (UNKNOWN_TABLE)"), "query", "Unknown table", None),
    ((159, "Timeout exceeded: elapsed 30 s. (TIMEOUT_EXCEEDED)"), "timeout", "stopped after 30 seconds", "narrow"),
    ((164, "Cannot execute query in readonly mode. (READONLY)"), "read_only", "ktx only reads", "SELECT"),
    ((396, "Limit for result exceeded. (TOO_MANY_ROWS_OR_BYTES)"), "query", "Limit for result", "narrow the statement"),
    ((81, "Database shpo does not exist. (UNKNOWN_DATABASE)"), "connection", "shpo", "connections.shop.database"),
    ((473, "Locking attempt timed out. (DEADLOCK_AVOIDED)"), "timeout", "locked by another", "system.processes"),
]


@pytest.mark.parametrize(("answer", "code", "text", "hint"), ERRORS)
def test_errors(
    answer: tuple[int, str], code: str, text: str, hint: str | None, connector: Connector, server: ChServer
) -> None:
    server.answers.append(answer)
    with pytest.raises(SourceError, match="connection `shop`") as caught:
        connector.query("SELECT 1")
    assert caught.value.code == code
    assert text in caught.value.message
    assert "version 26" not in caught.value.message
    assert (hint or "") in (caught.value.hint or "")
    assert connector.query("SELECT 1").rows == ((1,),)


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"password": f"{CANARY}x"}, "connections.shop.user and connections.shop.password"),
        ({"port": 9}, "check connections.shop.host and connections.shop.port"),
        ({"ssl": True}, "ktx config set connections.shop.ssl false"),
    ],
)
def test_what_cannot_be_reached_says_where_and_how(
    wrong: dict[str, Any], hint: str, options: dict[str, Any], opened: Open
) -> None:
    with pytest.raises(SourceError) as caught:
        opened("clickhouse", **{**options, **wrong})
    assert caught.value.code == "connection"
    assert hint in (caught.value.hint or "")
    assert CANARY not in "".join(traceback.format_exception(caught.value)) + str(caught.value.to_json())


@pytest.mark.parametrize(
    ("options", "secure", "port"),
    [
        ({"url": "http://u:p@h/shop"}, False, 8123),
        ({"url": "https://u:p@h/shop"}, True, 8443),
        ({"url": "https://h:9440"}, True, 9440),
        ({"url": "clickhouse://h/shop?secure=true"}, True, 8443),
        ({"url": "https://h", "ssl": False}, False, 8123),
        ({"host": "h"}, False, 8123),
        ({"host": "h", "ssl": True}, True, 8443),
        ({"host": "h", "port": 8443}, True, 8443),
        ({"host": "h", "port": "8443", "ssl": False}, False, 8443),
        ({"url": "http://u@h:1", "port": 5}, False, 5),
    ],
)
def test_addresses(options: dict[str, Any], secure: bool, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clickhouse.ClickHouseConnector, "_connect", lambda self: _Idle())
    connector = clickhouse.ClickHouseConnector(ConnectionSpec("shop", "clickhouse", options))
    assert (connector._secure, connector.address.port) == (secure, port)
    connector.close()


class _Refusing(BaseHTTPRequestHandler):
    """Refuses whoever asks; `asked` holds what was told."""

    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.asked.append(self.headers.get("Authorization", ""))
        body = b"Code: 516. DB::Exception: u: Authentication failed."
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    """The port of a server with TLS, and the file of its authority."""
    authority = trustme.CA()
    path = tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port, str(path)
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("given", "told", "hint"),
    [
        ({"ca": True}, True, "check connections.shop.username and connections.shop.password"),
        ({"rejectUnauthorized": False}, True, "check connections.shop.username"),
        ({}, False, "ktx config set connections.shop.ca FILE"),
        ({"ca": True, "host": "127.0.0.1"}, False, "ktx config set connections.shop.ca FILE"),
    ],
)
def test_no_password_for_a_server_that_was_not_checked(
    given: dict[str, Any], told: bool, hint: str, tls: tuple[int, str], opened: Open
) -> None:
    _Refusing.asked.clear()
    port, authority = tls
    options = {"host": "localhost", "port": port, "ssl": True, "username": "u", "password": CANARY, **given}
    if "ca" in given:
        options["ca"] = authority
    with pytest.raises(SourceError) as caught:
        opened("clickhouse", **options)
    assert caught.value.code == "connection"
    assert bool(_Refusing.asked) is told
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    "given", [{"host": "db.example.com", "password": CANARY}, {"url": f"http://u:{CANARY}@db.example.com"}]
)
def test_no_password_in_clear_text_unless_told_so(
    given: dict[str, Any], opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SourceError, match="plaintext") as caught:
        opened("clickhouse", **given)
    assert "ktx config set connections.shop.ssl true" in (caught.value.hint or "")
    assert CANARY not in str(caught.value.to_json())
    asked: list[dict[str, Any]] = []

    def get_client(**arguments: Any) -> Any:
        asked.append(arguments)
        raise OSError("far away")

    monkeypatch.setattr(clickhouse_connect, "get_client", get_client)
    with pytest.raises(SourceError, match="far away"):
        opened("clickhouse", **given, ssl=False)
    assert (asked[0]["interface"], asked[0]["password"]) == ("http", CANARY)


class _Idle:
    def close(self) -> None:
        """Nothing is open."""


def test_a_parameter_that_is_not_known() -> None:
    with pytest.raises(ConfigError, match="`secur`"):
        clickhouse.ClickHouseConnector(ConnectionSpec("x", "clickhouse", {"url": "http://h/d?secur=true"}))


@pytest.mark.table(
    ("expressions", "columns"),
    [
        ("", ()),
        ("a", ("a",)),
        ("a, toDate(b, 'x,y'), c", ("a", "c")),
        ("`a\\`b`, `c, d`, -e", ("a`b", "c, d")),
        ("f(a, (b, c)), d", ("d",)),
        ("tuple()", ()),
        ("(a)", ("a",)),
        ("((a, b))", ("a", "b")),
        ("(a), (b)", ()),
        ("(a + 1) * (b)", ()),
    ],
)
def test_plain_columns(expressions: str, columns: tuple[str, ...]) -> None:
    assert plain_columns(expressions) == columns


def array_of(values: Iterable[Any]) -> str:
    """Return a subquery with texts, which may be NULL, in the column `v`."""
    texts = ", ".join(f"CAST({'NULL' if each is None else repr(each)} AS Nullable(String))" for each in values)
    return f"(SELECT arrayJoin([{texts}]) AS v)"


@pytest.mark.parametrize("stored_as", TEXTS)
def test_missing_texts_are_missing_values(stored_as: StoredAs, connector: Connector) -> None:
    value = DIALECT.typed_value(exp.column("v"), stored_as).sql("clickhouse")
    for given, wanted in ([*GOOD[stored_as], None, ""], [*GOOD[stored_as].values(), None, None]), ([None], [None]):
        rows = connector.query(f"SELECT {value} FROM {array_of(given)}").rows
        assert [row[0] for row in rows] == wanted
    with pytest.raises(SourceError, match=r"arse|unexpected word"):
        connector.query(f"SELECT {value} FROM {array_of(['2024-01-31x', None])}")


LOCAL = DIALECT.from_utc(exp.column("v"), "Asia/Tokyo")


@pytest.mark.parametrize(
    "period",
    [
        LOCAL,
        DIALECT.truncated_time(LOCAL, "hour"),
        DIALECT.first_of_week(DIALECT.as_date(LOCAL), sunday=False),
        DIALECT.first_of_period(DIALECT.as_date(LOCAL), 1, 1),
        DIALECT.between_zones(exp.column("v"), "Asia/Tokyo", "America/New_York"),
    ],
)
def test_the_periods_of_missing_times_are_missing(period: exp.Expr, connector: Connector) -> None:
    times = "(SELECT materialize(CAST(NULL AS Nullable(DateTime64(3, 'UTC')))) AS v FROM numbers(2))"
    assert connector.query(f"SELECT {period.sql('clickhouse')} FROM {times}").rows == ((None,), (None,))


def test_which_tables_have_changed(connector: Connector, server: ChServer) -> None:
    assert isinstance(connector, TableEvident)
    tables = connector.introspect(Scope()).tables
    before = connector.table_evidence(tables)
    assert {str(ref) for ref in before} >= {"shop.orders"}
    assert not {"shop.noted", "shop.seen", "shop.away"} & {str(ref) for ref in before}
    assert connector.table_evidence(tables) == before
    server.kept.query("INSERT INTO shop.orders (id, customer, at, yes, `a``b`) VALUES (99, 1, now64(3), 1, 0)")
    after = connector.table_evidence(tables)
    assert {str(ref) for ref in before if before[ref] != after[ref]} == {"shop.orders"}


def test_an_interrupted_statement_is_cancelled_in_the_warehouse(connector: Connector, server: ChServer) -> None:
    server.answers.clear()
    with pytest.raises(SourceError) as caught, ended_at(connector, monotonic() + 0.05):
        connector.query("SELECT id FROM endless")
    assert caught.value.code == "timeout"
    assert len(server.numbers) >= 2 and len(set(server.numbers)) == 1


def test_the_reader_is_told_by_the_roles(
    server: ChServer, connector: Connector, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers.clear()
    run, found = server.run, []
    for roles in ("enabledRoles()", "['guest', 'admin']", "['admin', 'guest']", "['admin']", "noSuchFunction()"):
        monkeypatch.setattr(server, "run", lambda sql, *rest, to=roles: run(sql.replace("enabledRoles()", to), *rest))
        found.append(reader_of(connector))
    assert found[1] == found[2]
    assert len(set(found)) == 4
