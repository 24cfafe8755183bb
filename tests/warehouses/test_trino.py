"""Trino: its client against a small server on this machine that speaks the protocol and keeps what it was asked."""

from __future__ import annotations

import json
import re
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import ConfigError, KtxError, SourceError
from ktx_cli.testing.servers import free_port
from ktx_cli.warehouses.cloud import require_query
from ktx_cli.warehouses.pool import ended_at
from ktx_cli.warehouses.port import ConnectionSpec, Scope, Table, TableKind, TableRef
from ktx_cli.warehouses.trino.connector import TrinoConnector

pytestmark = pytest.mark.client("trino")

CANARY = "c4n4ry-hunter2"
PAGE = 3
Answer = tuple[list[str], list[list[Any]]]


class Server(ThreadingHTTPServer):
    """Answers statements by the first of `answers` whose pattern is in them; keeps statement and headers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.cancelled: list[str] = []
        self.endless: str | None = None
        """Statements that contain it run until they are cancelled."""
        self.answers: list[tuple[str, Answer | dict[str, Any] | int]] = []
        self.pending: dict[str, dict[str, Any]] = {}

    @property
    def statements(self) -> list[str]:
        return [sql for sql, _ in self.asked]

    def answer(self, pattern: str, columns: list[str], *rows: list[Any]) -> None:
        self.answers.insert(0, (pattern, (columns, list(rows))))

    def fail(self, pattern: str, name: str, message: str, kind: str = "USER_ERROR") -> None:
        error = {"message": message, "errorCode": 1, "errorName": name, "errorType": kind}
        self.answers.insert(0, (pattern, error))

    def find(self, sql: str) -> Answer | dict[str, Any] | int:
        found = next((given for pattern, given in self.answers if re.search(pattern, sql)), None)
        return ([], []) if found is None else found


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        sql = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append((sql, dict(self.headers)))
        given = self.server.find(sql)
        if isinstance(given, int):
            self.send_response(given)
            self.end_headers()
            return
        number = str(len(self.server.asked))
        body: dict[str, Any] = {"id": number, "infoUri": "http://x", "stats": {"state": "RUNNING"}}
        self.server.pending[number] = {**body, **self._result(given)}
        self._send({**body, "nextUri": self._page(number, 0)})

    def do_GET(self) -> None:
        number, page = self.path.split("/")[-2:]
        sql = self.server.asked[int(number) - 1][0]
        headers = {}
        if "START TRANSACTION" in sql:
            headers["X-Trino-Started-Transaction-Id"] = "tx-1"
        if "ROLLBACK" in sql:
            headers["X-Trino-Clear-Transaction-Id"] = "true"
        answer = dict(self.server.pending[number])
        if self.server.endless is not None and self.server.endless in sql:
            if f"/v1/statement/{number}/{page}" in self.server.cancelled:
                name = "USER_CANCELED"
                error = {"message": "canceled", "errorCode": 1, "errorName": name, "errorType": "USER_ERROR"}
                answer = {**answer, "error": error}
            else:
                time.sleep(0.01)
                answer = {key: answer[key] for key in ("id", "infoUri", "stats")} | {"nextUri": self._page(number, 0)}
        if rows := answer.get("data"):
            start = int(page) * PAGE
            answer["data"] = rows[start : start + PAGE]
            if len(rows) > start + PAGE:
                answer["nextUri"] = self._page(number, int(page) + 1)
        self._send(answer, headers)

    def _page(self, number: str, page: int) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1/statement/{number}/{page}"

    def do_DELETE(self) -> None:
        self.server.cancelled.append(self.path)
        self.send_response(204)
        self.end_headers()

    def _result(self, given: Answer | dict[str, Any]) -> dict[str, Any]:
        if isinstance(given, dict):
            return {"error": given}
        columns, rows = given
        described = [
            {
                "name": name,
                "type": kind,
                "typeSignature": {"rawType": kind, "arguments": [{"kind": "LONG", "value": 9}]},
            }
            for name, kind in (each.split(" ") for each in columns)
        ]
        return {"columns": described or None, "data": rows}

    def _send(self, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        self.send_response(200)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        running.answer("current_user, current_catalog", ["v varchar", "u varchar", "c varchar"], ["480", "ann", "shop"])
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def opened(server: Server) -> Iterator[Callable[..., TrinoConnector]]:
    made: list[TrinoConnector] = []

    def open_one(**options: Any) -> TrinoConnector:
        given = {"host": "127.0.0.1", "port": server.server_port, "user": "ann", "catalog": "shop", **options}
        made.append(TrinoConnector(ConnectionSpec("x", "trino", given)))
        return made[-1]

    yield open_one
    for each in made:
        each.close()


def test_a_query_runs_in_a_transaction_that_only_reads(server: Server, opened: Callable[..., TrinoConnector]) -> None:
    server.answer("FROM orders", ["id bigint", "name varchar"], [1, "a"], [2, None])
    result = opened().query("SELECT * FROM orders")
    assert (result.columns, result.rows, result.truncated) == (("id", "name"), ((1, "a"), (2, None)), False)
    begun, select, rolled_back = server.asked
    assert begun[0] == "/* ktx */ START TRANSACTION READ ONLY"
    assert select[0] == "/* ktx */ SELECT * FROM orders"
    assert rolled_back[0] == "/* ktx */ ROLLBACK"
    assert [headers["X-Trino-Transaction-Id"] for _, headers in server.asked] == ["NONE", "tx-1", "tx-1"]


def test_a_session_has_limits_and_names_itself(server: Server, opened: Callable[..., TrinoConnector]) -> None:
    opened().test(Scope())
    _, headers = server.asked[0]
    assert headers["X-Trino-Session"] == "query_max_run_time=30s"
    assert (headers["X-Trino-Source"], headers["X-Trino-Client-Tags"]) == ("ktx", "ktx")
    assert (headers["X-Trino-User"], headers["X-Trino-Catalog"]) == ("ann", "shop")
    assert "X-Trino-Query-Data-Encoding" not in headers


def test_rows_are_capped_and_the_rest_is_cancelled(server: Server, opened: Callable[..., TrinoConnector]) -> None:
    server.answer("FROM orders", ["id bigint"], *([number] for number in range(10)))
    connector = opened()
    result = connector.query("SELECT id FROM orders", max_rows=2)
    assert (result.rows, result.truncated) == (((0,), (1,)), True)
    assert len(server.cancelled) == 1
    assert connector.query("SELECT id FROM orders", max_rows=10).truncated is False
    assert len(server.cancelled) == 1


def test_parameters_are_bound(server: Server, opened: Callable[..., TrinoConnector]) -> None:
    server.answer("EXECUTE IMMEDIATE", ["id bigint"], [1])
    opened().query("SELECT id FROM orders WHERE name = ?", ("it's",))
    bound = next(sql for sql in server.statements if "USING" in sql)
    assert bound == "EXECUTE IMMEDIATE '/* ktx */ SELECT id FROM orders WHERE name = ?' USING 'it''s'"


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM t",
        "CALL system.runtime.kill_query('x')",
        "SET SESSION query_max_run_time = '1d'",
        "COMMIT",
        "SELECT * FROM TABLE(pg.system.query(query => 'DELETE FROM t'))",
        'SELECT * FROM TABLE(pg."system"/* */."query"(query => 1))',
        "SELECT * FROM TABLE(es.system.raw_query(schema => 'x'))",
        "SELECT 'open",
    ],
)
def test_what_does_more_than_read_is_not_sent(sql: str, server: Server, opened: Callable[..., TrinoConnector]) -> None:
    with pytest.raises(SourceError) as caught:
        opened().query(sql)
    assert caught.value.code == "read_only"
    assert server.asked == []


def test_the_server_refuses_a_write(server: Server, opened: Callable[..., TrinoConnector]) -> None:
    server.fail("EXPLAIN ANALYZE", "READ_ONLY_VIOLATION", "Cannot execute write in a read-only transaction")
    with pytest.raises(SourceError, match="ktx only reads") as caught:
        opened().query("EXPLAIN ANALYZE DELETE FROM t")
    assert caught.value.code == "read_only"
    assert server.statements[-1] == "/* ktx */ ROLLBACK"


@pytest.mark.parametrize(
    ("name", "kind", "code", "hint"),
    [
        ("EXCEEDED_TIME_LIMIT", "INSUFFICIENT_RESOURCES", "timeout", "LIMIT"),
        ("TABLE_NOT_FOUND", "USER_ERROR", "query", None),
        ("CATALOG_NOT_FOUND", "USER_ERROR", "connection", "ktx config set connections.x.catalog NAME"),
        ("REMOTE_TASK_ERROR", "EXTERNAL", "query", None),
    ],
)
def test_errors(
    name: str, kind: str, code: str, hint: str | None, server: Server, opened: Callable[..., TrinoConnector]
) -> None:
    server.fail("FROM orders", name, "line 1:15: it went wrong", kind)
    server.answer("FROM good", ["id bigint"], [1])
    connector = opened()
    with pytest.raises(SourceError) as caught:
        connector.query("SELECT * FROM orders")
    assert caught.value.code == code
    assert (hint or "") in (caught.value.hint or "")
    assert code == "timeout" or "it went wrong" in caught.value.message
    assert connector.query("SELECT id FROM good").rows == ((1,),)


@pytest.mark.parametrize(("fails", "sessions"), [(False, 1), (True, 2)])
def test_a_session_is_used_again_unless_its_transaction_goes_on(
    fails: bool, sessions: int, server: Server, opened: Callable[..., TrinoConnector], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    own = TrinoConnector._open
    monkeypatch.setattr(TrinoConnector, "_open", lambda self: made.append(1) or own(self))
    server.answer("FROM orders", ["id bigint"], [1])
    if fails:
        server.fail("FROM orders|ROLLBACK", "GENERIC_INTERNAL_ERROR", "no", "INTERNAL_ERROR")
    connector = opened()
    for _ in range(2):
        with suppress(SourceError):
            connector.query("SELECT id FROM orders")
    assert len(made) == sessions


def test_a_session_whose_transaction_cannot_be_ended_is_not_used_again(
    server: Server, opened: Callable[..., TrinoConnector]
) -> None:
    server.answer("FROM orders", ["id bigint"], [1])
    server.fail("ROLLBACK", "GENERIC_INTERNAL_ERROR", "no", "INTERNAL_ERROR")
    connector = opened()
    with pytest.raises(SourceError):
        connector.query("SELECT id FROM orders")
    server.answer("ROLLBACK", [])
    assert connector.query("SELECT id FROM orders").rows == ((1,),)
    assert server.asked[3][1]["X-Trino-Transaction-Id"] == "NONE"


def test_introspection_and_scope(server: Server, opened: Callable[..., TrinoConnector]) -> None:
    text = "s varchar", "t varchar"
    server.answer(
        "information_schema.tables",
        [*text, "k varchar", "c varchar", "n bigint"],
        ["mart", "orders", "BASE TABLE", None, None],
        ["raw", "orders", "BASE TABLE", None, None],
        ["mart", "v", "VIEW", None, None],
    )
    server.answer(
        r"information_schema\.columns WHERE table_schema IN \('mart'\)\s+ORDER",
        [*text, "n varchar", "d varchar", "y boolean", "f varchar"],
        ["mart", "orders", "id", "bigint", False, None],
        ["mart", "v", "id", "varchar", True, None],
    )
    server.answer("comment IS NOT NULL", [*text, "n varchar", "c varchar"], ["mart", "orders", "id", "The id"])
    server.answer("table_comments", [*text, "c varchar"], ["mart", "orders", "Orders"])
    server.fail("materialized_views", "PERMISSION_DENIED", "Access Denied: Cannot select")
    server.answer("information_schema.views", [*text, "d varchar"], ["mart", "v", "SELECT 1"])
    schema = opened(schemas=["mart"]).introspect(Scope(exclude=("raw.*",)))
    assert schema.server_version == "Trino 480"
    assert [table.ref for table in schema.tables] == [TableRef("mart", "orders"), TableRef("mart", "v")]
    orders, view = schema.tables
    assert (orders.comment, orders.columns[0].comment, view.view_sql) == ("Orders", "The id", "SELECT 1")
    (problem,) = schema.problems
    assert (problem.what, problem.message) == ("materialized views", "Access Denied: Cannot select")


@pytest.mark.parametrize(
    ("granted", "can_write", "fact"),
    [
        ([], None, "this catalog lists no privileges"),
        ([["mart", "orders", "SELECT"]], False, "SELECT granted on 1 of 1 tables"),
        ([["mart", "orders", "INSERT"]], True, "SELECT granted on 0 of 1 tables"),
    ],
)
def test_a_connection_test_tells_of_rights(
    granted: list[list[str]], can_write: bool | None, fact: str, server: Server, opened: Callable[..., TrinoConnector]
) -> None:
    columns = ["s varchar", "t varchar", "p varchar"]
    server.answer("information_schema.tables", [*columns, "c varchar", "n bigint"],
                  ["mart", "orders", "BASE TABLE", None, None])  # fmt: skip
    server.answer("table_privileges", columns, *granted, ["mart", "other", "DELETE"])
    found = opened().test(Scope())
    assert (found.server_version, found.user, found.database, found.tables) == ("Trino 480", "ann", "shop", 1)
    assert (found.can_write, found.privileges) == (can_write, (fact,))


def test_a_password_goes_over_tls() -> None:
    from trino.auth import BasicAuthentication

    options = {"host": "db", "user": "ann", "catalog": "shop", "password": CANARY}
    connector = TrinoConnector(ConnectionSpec("x", "trino", options))
    session = connector._open()
    connector.close()
    assert (session.http_scheme, session.port, session.auth) == ("https", 443, BasicAuthentication("ann", CANARY))


def assert_secret(error: KtxError) -> None:
    assert CANARY not in "".join(traceback.format_exception(error))
    assert CANARY not in str(error.to_json())


def test_nobody_listens() -> None:
    port = free_port()
    with pytest.raises(SourceError) as caught:
        options = {"host": "127.0.0.1", "port": port, "user": "ann", "catalog": "shop", "password": CANARY}
        TrinoConnector(ConnectionSpec("x", "trino", options)).test(Scope())
    assert (caught.value.code, caught.value.exit_code) == ("connection", 4)
    assert f"`x` (127.0.0.1:{port}/shop)" in caught.value.message
    assert "refused" in caught.value.message
    assert "connections.x.host and connections.x.port" in (caught.value.hint or "")
    assert_secret(caught.value)


@pytest.mark.parametrize("status", [401, 403])
def test_a_log_in_that_is_refused(status: int, server: Server, opened: Callable[..., TrinoConnector]) -> None:
    server.answers.insert(0, (".", status))
    with pytest.raises(SourceError, match=str(status)) as caught:
        opened().test(Scope())
    assert (caught.value.code, caught.value.hint) == (
        "connection",
        "ktx config set connections.x.password env:TRINO_PASSWORD",
    )


def test_something_else_listens(
    server: Server, opened: Callable[..., TrinoConnector], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Handler, "_send", lambda self, body, headers=None: (self.send_response(200), self.end_headers(),
                                                                           self.wfile.write(b"<html>")))  # fmt: skip
    with pytest.raises(SourceError, match="not a Trino server") as caught:
        opened().query("SELECT 1")
    assert caught.value.code == "connection"


@pytest.mark.table(
    ("options", "scheme", "port"),
    [
        ({}, "http", 8080),
        ({"ssl": True}, "https", 443),
        ({"password": "p"}, "https", 443),
        ({"port": 443}, "https", 443),
        ({"port": 9000, "ssl": "true"}, "https", 9000),
        ({"url": "trino://ann:p@db/shop"}, "https", 443),
        ({"url": "https://ann@db:8443/shop"}, "https", 8443),
        ({"url": "trino://ann@db/shop?ssl=true"}, "https", 443),
        ({"url": "trino://ann@db:8080/shop/mart"}, "http", 8080),
    ],
)
def test_tls_and_port(options: dict[str, Any], scheme: str, port: int) -> None:
    given = options if "url" in options else {"host": "db", "user": "ann", "catalog": "shop", **options}
    connector = TrinoConnector(ConnectionSpec("x", "trino", given))
    connector.close()
    assert (connector.scheme, connector.address.port, connector.catalog) == (scheme, port, "shop")
    assert connector.default_schemas == (("mart",) if "mart" in str(options) else ())


@pytest.mark.table(
    ("options", "hint"),
    [
        ({}, "ktx config set connections.x.host trino.example.com"),
        ({"host": "db", "user": "ann"}, "ktx config set connections.x.catalog hive"),
        ({"host": "db", "catalog": "shop"}, "ktx config set connections.x.user ktx_reader"),
        ({"url": f"trino://ann:12#{CANARY}@db/shop"}, "connections.x.url"),
        ({"url": f"trino://ann:{CANARY}@db/shop?sll=true"}, "connections.x.url"),
        ({"host": "db", "user": "ann", "catalog": "shop", "password": CANARY, "ssl": False},
         "ktx config set connections.x.ssl true"),
    ],
)  # fmt: skip
def test_settings_that_do_not_do(options: dict[str, Any], hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TrinoConnector(ConnectionSpec("x", "trino", options))
    assert hint in (caught.value.hint or "")
    assert_secret(caught.value)


def test_reading_words_are_words() -> None:
    assert "SELECT" in TrinoConnector.reading
    assert not {"INSERT", "SET", "CALL", "START", "COMMIT", "EXECUTE", "PREPARE"} & TrinoConnector.reading
    assert TrinoConnector.dialect == "trino"


def test_an_interrupted_statement_is_cancelled_in_the_warehouse(
    server: Server, opened: Callable[..., TrinoConnector]
) -> None:
    connector, server.endless = opened(), "FROM endless"
    with pytest.raises(SourceError) as caught, ended_at(connector, monotonic() + 0.05):
        connector.query("SELECT id FROM endless")
    assert caught.value.code == "timeout"
    assert set(server.cancelled) == {"/v1/statement/2/0"}


def tables(*names: str, kind: TableKind = TableKind.TABLE) -> list[Table]:
    return [Table(TableRef("mart", name), kind, ()) for name in names]


@pytest.mark.parametrize(
    ("connector", "log"), [("iceberg", r"$metadata_log_entries"), ("delta_lake", r"$history"), ("hive", None)]
)
def test_the_logs_of_lakes_are_evidence(
    connector: str, log: str | None, server: Server, opened: Callable[..., TrinoConnector]
) -> None:
    row = ["s varchar", "t varchar", "e varchar"]
    server.answer("system.metadata.catalogs", ["c varchar"], [connector])
    server.answer("UNION ALL", row, ["mart", "orders", "7 A1"], ["mart", "it's", "1 B2"], ["mart", "empty", None])
    asked = tables("orders", "it's", "empty") + tables("v", kind=TableKind.VIEW)
    found = opened().table_evidence(asked)
    if log is None:
        assert found == {}
        assert len(server.statements) == 1
        return
    assert found == {TableRef("mart", "orders"): "7 A1", TableRef("mart", "it's"): "1 B2"}
    (statement,) = server.statements[1:]
    assert f'FROM "shop"."mart"."orders{log}"' in statement
    assert "'mart', 'it''s'," in statement
    assert '"v$' not in statement
    require_query(statement, "trino", "here")


def test_a_table_without_a_log_costs_only_itself(server: Server, opened: Callable[..., TrinoConnector]) -> None:
    names = [f"t{number}" for number in range(5)]
    server.answer("system.metadata.catalogs", ["c varchar"], ["iceberg"])
    for name in names:
        row = ["s varchar", "t varchar", "e varchar"]
        server.answer(rf"^(?!.*UNION).*{name}\$", row, ["mart", name, "1 A"])
    server.fail("t3\\$|UNION", "TABLE_NOT_FOUND", "no such table")
    found = opened().table_evidence(tables(*names))
    assert {ref.name for ref in found} == {"t0", "t1", "t2", "t4"}


def test_a_server_that_fails_is_not_asked_for_each_table(server: Server, opened: Callable[..., TrinoConnector]) -> None:
    server.answer("system.metadata.catalogs", ["c varchar"], ["iceberg"])
    server.fail("metadata_log_entries", "PERMISSION_DENIED", "Access Denied")
    assert opened().table_evidence(tables(*(f"t{number}" for number in range(200)))) == {}
    assert len(server.statements) < 12


def test_the_reader_is_told_by_the_roles(server: Server, opened: Callable[..., TrinoConnector]) -> None:
    found = [opened().reader()]
    server.fail("SHOW CURRENT ROLES FROM", "NOT_SUPPORTED", "This connector does not support roles")
    found.append(opened().reader())
    for roles in (["analyst"], ["admin"]):
        server.answer("SHOW CURRENT ROLES$", ["Role varchar"], roles)
        found.append(opened().reader())
    assert 'SHOW CURRENT ROLES FROM "shop"' in " ".join(server.statements)
    server.fail("SHOW CURRENT ROLES", "NOT_SUPPORTED", "unknown")
    found.append(opened().reader())
    assert [each == found[0] for each in found] == [True, True, False, False, True]
    assert found[2] != found[3]
