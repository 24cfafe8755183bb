"""Snowflake: its client against a small server on this machine that answers as the warehouse does."""

from __future__ import annotations

import json
import os
import re
import threading
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import ConfigError, KtxError, SourceError
from ktx_cli.testing.servers import free_port
from ktx_cli.warehouses.pool import ended_at
from ktx_cli.warehouses.port import ConnectionSpec, Scope, TableRef
from ktx_cli.warehouses.snowflake.connector import SnowflakeConnector

pytestmark = pytest.mark.client("snowflake.connector")

CANARY = "c4n4ry-hunter2"
OPTIONS = {"account": "myorg-acc", "database": "SHOP", "username": "ANN", "password": CANARY}


class Server(ThreadingHTTPServer):
    """Answers statements by the first of `answers` whose pattern is in them; keeps log-ins and statements."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.log_ins: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[dict[str, Any]] = []
        self.answers: list[tuple[str, dict[str, Any]]] = []
        self.refusal: tuple[str, str] | None = None
        self.abort = threading.Event()

    @property
    def statements(self) -> list[str]:
        return [each["sqlText"] for each in self.asked]

    def answer(self, pattern: str, columns: list[str], *rows: list[str | None]) -> None:
        kinds = [
            {"name": column, "type": "text", "nullable": True, "length": 99, "byteLength": 99} for column in columns
        ]
        shown = {"rowtype": kinds, "rowset": list(rows), "total": len(rows), "returned": len(rows)}
        self.answers.insert(0, (pattern, {"data": shown, "success": True, "code": None, "message": None}))

    def fail(self, pattern: str, code: str, message: str, state: str) -> None:
        body = {"data": {"sqlState": state, "queryId": "q"}, "success": False, "code": code, "message": message}
        self.answers.insert(0, (pattern, body))


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"{}")
        if "login-request" in self.path:
            self.server.log_ins.append((self.path, body["data"]))
            self._send(self._log_in())
        elif "query-request" in self.path:
            self.server.asked.append(body)
            if "SYSTEM$CANCEL_ALL_QUERIES(1)" in body["sqlText"]:
                self.server.abort.set()
            if "FROM endless" in body["sqlText"]:
                assert self.server.abort.wait(60)
            self._send(self._query(body["sqlText"]))
        else:
            self._send({"data": None, "success": True, "code": None, "message": None})

    def _log_in(self) -> dict[str, Any]:
        if self.server.refusal is not None:
            code, message = self.server.refusal
            return {"data": {}, "success": False, "code": code, "message": message}
        session = {"databaseName": "SHOP", "schemaName": None, "warehouseName": "WH", "roleName": "READER"}
        data = {
            "token": "t", "masterToken": "m", "validityInSeconds": 3600, "masterValidityInSeconds": 14400,
            "serverVersion": "9", "sessionId": 1, "parameters": [], "sessionInfo": session,
        }  # fmt: skip
        return {"data": data, "success": True, "code": None, "message": None}

    def _query(self, sql: str) -> dict[str, Any]:
        found = next(body for pattern, body in self.server.answers if re.search(pattern, sql))
        data = {"parameters": [], "queryId": "q", "queryResultFormat": "json", "statementTypeId": 4096, **found["data"]}
        return {**found, "data": data}

    def _send(self, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""


def lead_to(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """Let the client find the account on this machine."""
    own = SnowflakeConnector._arguments
    place = {"host": "127.0.0.1", "port": port, "protocol": "http"}
    monkeypatch.setattr(SnowflakeConnector, "_arguments", lambda self: {**own(self), **place})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as running:
        lead_to(monkeypatch, running.server_port)
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        running.answer("SELECT", ["X"], ["1"])
        running.answer("CURRENT_VERSION", list("vudrw"), ["9.34", "ANN", "SHOP", "READER", "WH"])
        yield running
        running.shutdown()
        thread.join()


Open = Callable[..., SnowflakeConnector]


@pytest.fixture
def opened() -> Iterator[Open]:
    made: list[SnowflakeConnector] = []

    def open_one(**options: Any) -> SnowflakeConnector:
        made.append(SnowflakeConnector(ConnectionSpec("x", "snowflake", {**OPTIONS, **options})))
        return made[-1]

    yield open_one
    for each in made:
        each.close()


def test_a_session_has_limits_and_keeps_to_itself(server: Server, opened: Open) -> None:
    opened(warehouse="WH", role="READER", account="myorg-acc.snowflakecomputing.com")
    ((path, data),) = server.log_ins
    assert all(part in path for part in ("databaseName=SHOP", "warehouse=WH", "roleName=READER"))
    assert (data["ACCOUNT_NAME"], data["LOGIN_NAME"], data["PASSWORD"]) == ("myorg-acc", "ANN", CANARY)
    parameters = {name: str(value).lower() for name, value in data["SESSION_PARAMETERS"].items()}
    assert (parameters["QUERY_TAG"], parameters["STATEMENT_TIMEOUT_IN_SECONDS"]) == ("ktx", "30")
    assert (parameters["MULTI_STATEMENT_COUNT"], parameters["ABORT_DETACHED_QUERY"]) == ("1", "true")
    assert parameters["CLIENT_TELEMETRY_ENABLED"] == "false"
    assert parameters["CLIENT_VALIDATE_DEFAULT_PARAMETERS"] == "true"
    assert os.environ["SNOWFLAKE_DISABLE_PLATFORM_DETECTION"] == "true"


def test_a_query(server: Server, opened: Open) -> None:
    server.answer("FROM orders", ["ID"], ["1"], ["2"], [None])
    connector = opened()
    result = connector.query("SELECT id FROM orders WHERE name = ?", ("it's",), max_rows=2)
    assert (result.columns, result.rows, result.truncated) == (("ID",), (("1",), ("2",)), True)
    (asked,) = server.asked
    assert asked["sqlText"] == "/* ktx */ SELECT id FROM orders WHERE name = ?"
    assert asked["bindings"] == {"1": {"type": "TEXT", "value": "it's"}}
    assert asked["parameters"]["ROWS_PER_RESULTSET"] == 3
    assert connector.query("SELECT 100 % 3 AS x FROM orders", max_rows=3).truncated is False


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM t",
        "SELECT 1; DROP TABLE t",
        "SELECT 1 ->> DELETE FROM t",
        "SHOW TABLES ->> INSERT INTO t SELECT * FROM $1",
        "WITH p AS PROCEDURE () RETURNS INT LANGUAGE SQL AS $$ BEGIN RETURN 1; END $$ CALL p()",
        "CALL p()",
        "EXECUTE IMMEDIATE 'DROP TABLE t'",
        "SELECT SYSTEM$CANCEL_ALL_QUERIES(1)",
        "SELECT 1 INTO :x",
        "USE ROLE SYSADMIN",
        "ALTER SESSION SET STATEMENT_TIMEOUT_IN_SECONDS = 0",
        "COPY INTO @stage FROM t",
        "SELECT FROM WHERE",
    ],
)
def test_what_does_more_than_read_is_not_sent(sql: str, server: Server, opened: Open) -> None:
    with pytest.raises(SourceError) as caught:
        opened().query(sql)
    assert (caught.value.code, server.asked) == ("read_only", [])


@pytest.mark.parametrize(
    "sql",
    [
        'SHOW TABLES IN DATABASE "SHOP"', "DESCRIBE TABLE t", "EXPLAIN SELECT 1", "WITH a AS (SELECT 1) SELECT 2",
        "(SELECT 1) UNION ALL SELECT 2", "SELECT v:a.b::int FROM t QUALIFY ROW_NUMBER() OVER (ORDER BY 1) = 1;",
        "SELECT 'a ->> b; SYSTEM$X' FROM t",
    ],
)  # fmt: skip
def test_what_reads_is_sent(sql: str, server: Server, opened: Open) -> None:
    server.answer(".", ["A"], ["1"])
    assert opened().query(sql).rows == (("1",),)


@pytest.mark.parametrize(
    ("code", "state", "message", "expected", "hint"),
    [
        ("002003", "42S02", "Object 'X' does not exist or not authorized.", "query", None),
        ("000630", "57014", "Statement reached its timeout of 30 second(s)", "timeout", "LIMIT"),
        ("000604", "57014", "SQL execution canceled", "timeout", "LIMIT"),
        ("000606", "57P03", "No active warehouse selected", "query", "ktx config set connections.x.warehouse NAME"),
    ],
)
def test_errors(
    code: str, state: str, message: str, expected: str, hint: str | None, server: Server, opened: Open
) -> None:
    server.fail("FROM orders", code, message, state)
    with pytest.raises(SourceError) as caught:
        opened().query("SELECT * FROM orders")
    assert caught.value.code == expected
    assert (hint or "") in (caught.value.hint or "")
    assert expected == "timeout" or message.rstrip(".") in caught.value.message


def introspected(server: Server) -> None:
    server.answer(
        r"INFORMATION_SCHEMA\.TABLES", list("stkcn"),
        ["MART", "ORDERS", "BASE TABLE", None, "12"], ["RAW", "ORDERS", "BASE TABLE", None, None],
    )  # fmt: skip
    server.answer(
        r"INFORMATION_SCHEMA\.COLUMNS", list("stnyucdg"), ["MART", "ORDERS", "ID", "NUMBER(38,0)", "", None, None, ""]
    )
    key = ["created_on", "database_name", "schema_name", "table_name", "column_name", "key_sequence", "constraint_name"]
    server.answer("SHOW PRIMARY KEYS", key, ["now", "SHOP", "MART", "ORDERS", "ID", "1", "pk"])
    server.answer("SHOW UNIQUE KEYS", key)
    server.fail("SHOW IMPORTED KEYS", "003001", "Insufficient privileges", "42501")


def test_introspection_in_scope(server: Server, opened: Open) -> None:
    introspected(server)
    schema = opened(schema_names=["MART"]).introspect(Scope())
    (table,) = schema.tables
    assert (table.ref, table.primary_key, table.row_estimate) == (TableRef("MART", "ORDERS"), ("ID",), 12)
    assert schema.server_version == "Snowflake 9.34"
    assert [(each.what, each.message) for each in schema.problems] == [("foreign keys", "Insufficient privileges")]
    assert "IN ('MART')" in server.statements[2]
    assert 'SHOW PRIMARY KEYS IN DATABASE "SHOP"' in server.statements[3]


GRANT = ["created_on", "privilege", "granted_on", "name", "granted_to"]


@pytest.mark.parametrize(
    ("granted", "can_write", "facts"),
    [
        ([["SELECT", "TABLE", "SHOP.MART.ORDERS"], ["USAGE", "DATABASE", "SHOP"]], False, ()),
        ([["INSERT", "TABLE", "SHOP.MART.ORDERS"]], True, ("can write: INSERT on SHOP.MART.ORDERS",)),
        ([["CREATE TABLE", "SCHEMA", "SHOP.MART"]], True, ("can write: CREATE TABLE on SHOP.MART",)),
        ([["OWNERSHIP", "ROLE", "OTHER"], ["OPERATE", "WAREHOUSE", "WH"]], False, ()),
    ],
)
def test_a_connection_test_tells_of_rights(
    granted: list[list[str]], can_write: bool, facts: tuple[str, ...], server: Server, opened: Open
) -> None:
    introspected(server)
    server.answer("CURRENT_AVAILABLE_ROLES", ["r"], ["READER"], ['odd " role'])
    server.answer('SHOW GRANTS TO ROLE "READER"', GRANT, *(["now", *each, "ROLE"] for each in granted))
    server.answer('SHOW GRANTS TO ROLE "odd "" role"', GRANT)
    found = opened().test(Scope())
    assert (found.user, found.database, found.tables, found.can_write) == ("ANN", "SHOP", 2, can_write)
    assert found.privileges == ("role READER", "warehouse WH", *facts)


def test_rights_that_cannot_be_read_are_not_known(server: Server, opened: Open) -> None:
    introspected(server)
    server.fail("CURRENT_AVAILABLE_ROLES", "003001", "Insufficient privileges", "42501")
    assert opened().test(Scope()).can_write is None


def test_a_column_that_show_no_longer_has_costs_its_part(server: Server, opened: Open) -> None:
    introspected(server)
    server.answer("SHOW UNIQUE KEYS", ["schema_name", "table_name"], ["MART", "ORDERS"])
    problems = {each.what: each.message for each in opened().introspect(Scope(include=("MART.*",))).problems}
    assert problems["constraints"] == "Snowflake does not list column_name, constraint_name, key_sequence"


def test_a_database_the_role_does_not_see(server: Server, opened: Open) -> None:
    server.answer("CURRENT_VERSION", list("vudrw"), ["9.34", "ANN", None, "READER", None])
    with pytest.raises(SourceError, match="role `READER` cannot see the database `SHOP`") as caught:
        opened().test(Scope())
    assert caught.value.hint == "ktx config set connections.x.database NAME"


def assert_secret(error: KtxError) -> None:
    assert CANARY not in "".join(traceback.format_exception(error))
    assert CANARY not in str(error.to_json())


@pytest.mark.parametrize(
    ("code", "message", "hint"),
    [
        ("390100", f"Incorrect username or password was specified: {CANARY}", "connections.x.username and"),
        ("390144", "JWT token is invalid.", "check connections.x.privateKey"),
        ("390189", "Role 'X' specified in the connect string does not exist", "ktx config set connections.x.role NAME"),
        ("390201", "The requested database does not exist", "ktx config set connections.x.database NAME"),
    ],
)
def test_a_log_in_that_is_refused(code: str, message: str, hint: str, server: Server, opened: Open) -> None:
    server.refusal = (code, message)
    with pytest.raises(SourceError) as caught:
        opened()
    assert (caught.value.code, caught.value.exit_code) == ("connection", 4)
    assert "`x` (myorg-acc/SHOP)" in caught.value.message
    assert hint in (caught.value.hint or "")
    assert_secret(caught.value)


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch, opened: Open) -> None:
    lead_to(monkeypatch, free_port())
    monkeypatch.setattr("ktx_cli.warehouses.base.CONNECT_SECONDS", 1)
    with pytest.raises(SourceError) as caught:
        opened()
    assert (caught.value.code, caught.value.hint) == ("connection", "check connections.x.account")
    assert_secret(caught.value)


def private_key(passphrase: str | None = None) -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    proof = serialization.BestAvailableEncryption(passphrase.encode()) if passphrase else serialization.NoEncryption()
    key = rsa.generate_private_key(65537, 2048)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, proof).decode()


@pytest.mark.parametrize("passphrase", [None, "secret words"])
def test_a_private_key_logs_in(passphrase: str | None, server: Server, opened: Open) -> None:
    opened(authMethod="rsa", password=None, privateKey=private_key(passphrase), passphrase=passphrase)
    ((_, data),) = server.log_ins
    assert (data["AUTHENTICATOR"], data["TOKEN"].count(".")) == ("SNOWFLAKE_JWT", 2)
    assert not data.get("PASSWORD")


def test_a_url(server: Server) -> None:
    url = f"snowflake://ANN:{CANARY}@myorg-acc/SHOP/MART?warehouse=WH&role=READER"
    connector = SnowflakeConnector(ConnectionSpec("x", "snowflake", {"url": url}))
    connector.close()
    ((path, data),) = server.log_ins
    assert (data["ACCOUNT_NAME"], data["PASSWORD"], connector.default_schemas) == ("myorg-acc", CANARY, ("MART",))
    assert "warehouse=WH" in path
    assert "roleName=READER" in path


@pytest.mark.table(
    ("options", "hint"),
    [
        ({"account": ""}, "ktx config set connections.x.account myorg-myaccount"),
        ({"database": ""}, "ktx config set connections.x.database ANALYTICS"),
        ({"username": ""}, "ktx config set connections.x.username KTX_READER"),
        ({"password": ""}, "ktx config set connections.x.password env:SNOWFLAKE_PASSWORD"),
        ({"authMethod": "rsa"}, "ktx config set connections.x.privateKey file:.ktx/secrets/snowflake.p8"),
        ({"privateKey": CANARY}, "ktx config set connections.x.privateKey file:PATH"),
        ({"url": f"snowflake://ANN:12#{CANARY}@acc/SHOP"}, "set connections.x.url to snowflake://"),
        ({"url": f"snowflake://ANN:{CANARY}@acc/SHOP?warehose=WH"}, "write `warehouse` in connections.x.url"),
    ],
)  # fmt: skip
def test_settings_that_do_not_do(options: dict[str, Any], hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SnowflakeConnector(ConnectionSpec("x", "snowflake", {**OPTIONS, **options}))
    assert hint in (caught.value.hint or "")
    assert_secret(caught.value)


def test_a_passphrase_that_does_not_fit() -> None:
    options = {**OPTIONS, "privateKey": private_key("right"), "passphrase": CANARY}
    with pytest.raises(ConfigError, match="or `passphrase` does not match it") as caught:
        SnowflakeConnector(ConnectionSpec("x", "snowflake", options))
    assert_secret(caught.value)


def test_an_interrupted_statement_is_cancelled_in_the_warehouse(server: Server, opened: Open) -> None:
    connector = opened()
    server.fail("FROM endless", "000604", "SQL execution canceled", "57014")
    with pytest.raises(SourceError) as caught, ended_at(connector, monotonic() + 0.05):
        connector.query("SELECT id FROM endless")
    assert caught.value.code == "timeout"
    assert server.abort.is_set()
