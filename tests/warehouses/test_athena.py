"""Athena: the real client against a server on this machine that speaks its protocol, with DuckDB behind it."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import duckdb
import pytest
import sqlglot

from ktx_cli.core import monotonic
from ktx_cli.core.errors import ConfigError, SourceError
from ktx_cli.warehouses import base
from ktx_cli.warehouses.guard.check import check
from ktx_cli.warehouses.guard.functions import StatementRefusedError
from ktx_cli.warehouses.pool import ended_at
from ktx_cli.warehouses.port import ConnectionSpec, Connector, Index, Scope, TableKind, TableRef
from ktx_cli.warehouses.registry import connect

pytestmark = pytest.mark.client("pyathena")

KEY, SECRET, TOKEN = "AKIDKTXTESTS", "c4n4ry-secret-key", "c4n4ry-session-token"
_TYPES = {"INTEGER": "integer", "BIGINT": "bigint", "DOUBLE": "double", "DATE": "date", "BOOLEAN": "boolean"}
_HIVE = {"INTEGER": "int", "VARCHAR": "string"}


class AthenaServer(ThreadingHTTPServer):
    """Answers the calls that ktx makes as the service documents them; keeps each call with its headers.

    Statements run in DuckDB, except those with the word `endless`, which run until they are stopped.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.session = duckdb.connect()
        self.lock = threading.Lock()
        self.asked: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.queries: dict[str, dict[str, Any]] = {}
        self.numbers = itertools.count(1)
        self.scanned = 1_000
        self.partitions: dict[str, list[str]] = {}
        self.failures: dict[str, tuple[str, str]] = {}
        self.stubborn = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def calls(self, name: str) -> list[dict[str, Any]]:
        return [body for called, body, _ in self.asked if called == name]

    def options(self, **more: Any) -> dict[str, Any]:
        keys = {"access_key_id": KEY, "secret_access_key": SECRET, "session_token": TOKEN}
        return {
            "region": "eu-central-1",
            "endpoint_url": self.url,
            "s3_staging_dir": "s3://bucket/ktx/",
            **keys,
            **more,
        }

    def answer(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            answer: dict[str, Any] = getattr(self, f"_{name}")(body)
            return answer

    def _GetWorkGroup(self, body: dict[str, Any]) -> dict[str, Any]:
        engine = {"SelectedEngineVersion": "AUTO", "EffectiveEngineVersion": "Athena engine version 3"}
        configuration = {"EnforceWorkGroupConfiguration": False, "EngineVersion": engine}
        configuration["BytesScannedCutoffPerQuery"] = 20_000_000_000
        return {"WorkGroup": {"Name": body["WorkGroup"], "State": "ENABLED", "Configuration": configuration}}

    def _ListDatabases(self, body: dict[str, Any]) -> dict[str, Any]:
        rows = self.session.execute(
            "SELECT DISTINCT schema_name FROM information_schema.schemata WHERE catalog_name = 'memory' ORDER BY 1"
        ).fetchall()
        names = [name for (name,) in rows if name != "main"]
        start = int(body.get("NextToken") or 0)  # One database for each page.
        more = {"NextToken": str(start + 1)} if start + 1 < len(names) else {}
        return {"DatabaseList": [{"Name": name} for name in names[start : start + 1]], **more}

    def _ListTableMetadata(self, body: dict[str, Any]) -> dict[str, Any]:
        database, tables = body["DatabaseName"], []
        for name, kind in self.session.execute(
            "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = ? ORDER BY 1", [database]
        ).fetchall():
            columns = self.session.execute(
                "SELECT column_name, data_type FROM information_schema.columns "
                "WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position",
                [database, name],
            ).fetchall()
            keys = self.partitions.get(name, [])
            described = [{"Name": column, "Type": _HIVE.get(type_, type_.lower())} for column, type_ in columns]
            tables.append(
                {
                    "Name": name,
                    "TableType": "VIRTUAL_VIEW" if kind == "VIEW" else "EXTERNAL_TABLE",
                    "Columns": [each for each in described if each["Name"] not in keys],
                    "PartitionKeys": [each for each in described if each["Name"] in keys],
                    "Parameters": {"comment": f"about {name}", "recordCount": "7"},
                }
            )
        return {"TableMetadataList": tables}

    def _StartQueryExecution(self, body: dict[str, Any]) -> dict[str, Any]:
        query = f"00000000-0000-0000-0000-{next(self.numbers):012}"
        sql = body["QueryString"]
        state: dict[str, Any] = {"sql": sql, "state": "RUNNING", "columns": [], "rows": [], "reason": ""}
        self.queries[query] = state
        if "endless" not in sql:
            try:
                state.update(self._ran(sql, body.get("ExecutionParameters", [])), state="SUCCEEDED")
            except (duckdb.Error, sqlglot.errors.SqlglotError) as error:
                state.update(state="FAILED", reason=f"COLUMN_NOT_FOUND: line 1:8: {error}".splitlines()[0])
        return {"QueryExecutionId": query}

    def _ran(self, sql: str, parameters: list[str]) -> dict[str, Any]:
        if sql.startswith("SHOW CREATE VIEW"):
            database, name = sql.split()[-1].split(".")
            ((text,),) = self.session.execute(
                "SELECT sql FROM duckdb_views() WHERE schema_name = ? AND view_name = ?", [database, name]
            ).fetchall()
            return {"columns": [("Create View", "varchar")], "rows": text.splitlines()[:1], "header": False}
        word = sql.removeprefix("/* ktx */ ").split()[0]
        if word == "EXPLAIN":
            return {"columns": [("Query Plan", "varchar")], "rows": [["Fragment 0"], ["    Output"]], "header": False}
        tree = sqlglot.parse_one(sql, read="athena")
        for mark, literal in zip(list(tree.find_all(sqlglot.exp.Placeholder)), parameters, strict=True):
            mark.replace(sqlglot.parse_one(literal, read="athena"))
        for kind in tree.find_all(sqlglot.exp.DataType):
            if kind.this is sqlglot.exp.DType.TIMESTAMP:  # DuckDB's has no more than 9 digits.
                kind.set("expressions", [])
        cursor = self.session.execute(tree.sql("duckdb"))
        columns = [(each[0], _athena_type(str(each[1]))) for each in cursor.description or ()]
        return {"columns": columns, "rows": [list(map(_text, row)) for row in cursor.fetchall()], "header": True}

    def _GetQueryExecution(self, body: dict[str, Any]) -> dict[str, Any]:
        state = self.queries[body["QueryExecutionId"]]
        status = {"State": state["state"], "StateChangeReason": state["reason"], "SubmissionDateTime": 1.7e9}
        return {
            "QueryExecution": {
                "QueryExecutionId": body["QueryExecutionId"], "Query": state["sql"], "Status": status,
                "StatementType": "DML" if state.get("header") else "UTILITY", "WorkGroup": "primary",
                "Statistics": {"DataScannedInBytes": self.scanned},
                "ResultConfiguration": {"OutputLocation": f"s3://bucket/ktx/{body['QueryExecutionId']}.csv"},
            }
        }  # fmt: skip

    def _GetQueryResults(self, body: dict[str, Any]) -> dict[str, Any]:
        state = self.queries[body["QueryExecutionId"]]
        rows = [row if isinstance(row, list) else [row] for row in state["rows"]]
        if state["header"]:
            rows.insert(0, [name for name, _ in state["columns"]])
        start, size = int(body.get("NextToken") or 0), int(body["MaxResults"])
        data = [{"Data": [{} if text is None else {"VarCharValue": text} for text in row]} for row in rows]
        info = [
            {"Name": name, "Label": name, "Type": kind, "Precision": 38, "Scale": 2, "Nullable": "UNKNOWN"}
            for name, kind in state["columns"]
        ]
        more = {"NextToken": str(start + size)} if start + size < len(data) else {}
        results = {"Rows": data[start : start + size], "ResultSetMetadata": {"ColumnInfo": info}}
        return {"ResultSet": results, "UpdateCount": 0, **more}

    def _StopQueryExecution(self, body: dict[str, Any]) -> dict[str, Any]:
        if not self.stubborn:
            self.queries[body["QueryExecutionId"]].update(state="CANCELLED", reason="Query cancelled by user")
        return {}


class Handler(BaseHTTPRequestHandler):
    server: AthenaServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        name, body = self.headers["X-Amz-Target"].partition(".")[2], json.loads(raw)
        self.server.asked.append((name, body, {**dict(self.headers), "body": raw.decode()}))
        failure = self.server.failures.get(name)
        if failure is None:
            self._send(200, self.server.answer(name, body))
        else:
            self._send(400, {"__type": failure[0], "message": failure[1]})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


def _athena_type(kind: str) -> str:
    if kind.startswith("DECIMAL"):
        return "decimal"
    if kind.startswith("TIMESTAMP"):
        return "timestamp"
    return "bigint" if kind in ("HUGEINT", "UBIGINT") else _TYPES.get(kind, "varchar")


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat(" ", "milliseconds")
    return None if value is None else str(value)


@pytest.fixture
def server() -> Iterator[AthenaServer]:
    with AthenaServer() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        made.session.execute("CREATE SCHEMA shop")
        made.session.execute(
            "CREATE TABLE shop.orders (id INTEGER, amount DECIMAL(10, 2), placed_at TIMESTAMP, day DATE)"
        )
        made.session.execute("INSERT INTO shop.orders VALUES (1, 2.50, '2024-03-31 01:30:00.5', '2024-03-31')")
        made.session.execute("INSERT INTO shop.orders VALUES (2, NULL, NULL, '2024-04-01')")
        made.session.execute(
            "CREATE VIEW shop.totals AS SELECT day, sum(amount) AS total FROM shop.orders GROUP BY day"
        )
        made.partitions["orders"] = ["day"]
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def shop(server: AthenaServer) -> Iterator[Connector]:
    with connect(ConnectionSpec("shop", "athena", server.options())) as opened:
        server.asked.clear()
        yield opened


def test_the_structure_comes_from_metadata_calls(shop: Connector, server: AthenaServer) -> None:
    schema = shop.introspect(Scope())
    orders, totals = schema.tables
    assert (orders.ref, orders.kind, orders.comment) == (TableRef("shop", "orders"), TableKind.TABLE, "about orders")
    assert [column.name for column in orders.columns] == ["id", "amount", "placed_at", "day"]
    assert (orders.indexes, orders.row_estimate) == ((Index(("day",), "partition"),), 7)
    assert (totals.kind, totals.row_estimate) == (TableKind.VIEW, None)
    assert (totals.view_sql or "").startswith("CREATE VIEW")
    assert [body["QueryString"] for body in server.calls("StartQueryExecution")] == ["SHOW CREATE VIEW shop.totals"]
    assert server.calls("ListTableMetadata") == [
        {"CatalogName": "AwsDataCatalog", "DatabaseName": "shop", "MaxResults": 50, "WorkGroup": "primary"}
    ]


def test_databases_come_in_pages_and_only_those_in_scope_are_read(server: AthenaServer) -> None:
    server.session.execute("CREATE SCHEMA other; CREATE TABLE other.t (a INTEGER)")
    with connect(ConnectionSpec("shop", "athena", server.options(databases=["other"]))) as connector:
        assert [str(table.ref) for table in connector.introspect(Scope()).tables] == ["other.t"]
    assert len(server.calls("ListDatabases")) == 2
    assert [body["DatabaseName"] for body in server.calls("ListTableMetadata")] == ["other"]


def test_what_is_sent_for_a_statement(shop: Connector, server: AthenaServer) -> None:
    found = shop.query("SELECT id, amount, placed_at, day FROM shop.orders WHERE id < ? ORDER BY id", [3], max_rows=1)
    assert found.columns == ("id", "amount", "placed_at", "day")
    assert found.rows == ((1, Decimal("2.50"), datetime(2024, 3, 31, 1, 30, 0, 500_000), date(2024, 3, 31)),)
    assert found.truncated
    assert [name for name, _, _ in server.asked] == ["StartQueryExecution", "GetQueryExecution", "GetQueryResults"]
    (started,) = server.calls("StartQueryExecution")
    assert started.pop("ClientRequestToken")
    assert started == {
        "QueryString": "/* ktx */ SELECT id, amount, placed_at, day FROM shop.orders WHERE id < ? ORDER BY id",
        "QueryExecutionContext": {"Catalog": "AwsDataCatalog", "Database": "default"},
        "ResultConfiguration": {"OutputLocation": "s3://bucket/ktx/"},
        "WorkGroup": "primary",
        "ExecutionParameters": ["3"],
    }


def test_each_request_is_signed_by_the_client(shop: Connector, server: AthenaServer) -> None:
    shop.query("SELECT 1 AS one")
    for name, _, headers in server.asked:
        assert headers["X-Amz-Target"] == f"AmazonAthena.{name}"
        assert headers["Content-Type"] == "application/x-amz-json-1.1"
        assert headers["X-Amz-Security-Token"] == TOKEN
        assert "ktx" in headers["User-Agent"]
        assert headers["Authorization"] == _signed(headers)
        assert SECRET not in str(headers)


def _signed(headers: dict[str, str]) -> str:
    """Return the header `Authorization` that AWS documents for the request (Signature Version 4)."""
    names = headers["Authorization"].partition("SignedHeaders=")[2].partition(",")[0]
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    listed = "".join(f"{name}:{lower[name]}\n" for name in names.split(";"))
    hashed = hashlib.sha256(headers["body"].encode()).hexdigest()
    request = hashlib.sha256(f"POST\n/\n\n{listed}\n{names}\n{hashed}".encode()).hexdigest()
    moment = lower["x-amz-date"]
    scope = f"{moment[:8]}/eu-central-1/athena/aws4_request"
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{request}"
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, SignedHeaders={names}, Signature={signature}"


@pytest.mark.table(
    ("value", "literal"),
    [("it's", "'it''s'"), (3, "3"), (Decimal("1.50"), "1.50"), (date(2024, 1, 2), "CAST('2024-01-02' AS DATE)")],
)
def test_a_parameter_is_sent_as_a_literal(value: Any, literal: str) -> None:
    with AthenaServer() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with connect(ConnectionSpec("shop", "athena", server.options())) as connector:
            connector.query("SELECT ? AS value", [value])
        assert server.calls("StartQueryExecution")[0]["ExecutionParameters"] == [literal]
        server.shutdown()


def test_rows_come_in_pages(shop: Connector, server: AthenaServer) -> None:
    found = shop.query("SELECT x FROM UNNEST(SEQUENCE(1, 2500)) AS t (x)", max_rows=10_000)
    assert (len(found.rows), found.truncated) == (2500, False)
    assert len(server.calls("GetQueryResults")) == 3


def test_a_test_tells_the_version_and_the_limits(shop: Connector) -> None:
    found = shop.test(Scope())
    assert (found.server_version, found.database, found.tables) == ("Athena engine version 3", "AwsDataCatalog", 2)
    assert found.can_write is None
    assert found.privileges[:2] == (
        "stops a statement after 107,374,182,400 scanned bytes",
        "the workgroup stops it after 20,000,000,000 bytes",
    )


def test_a_statement_is_stopped_at_its_time_limit(server: AthenaServer) -> None:
    with connect(ConnectionSpec("shop", "athena", server.options(query_timeout_ms=300))) as connector:
        with pytest.raises(SourceError) as caught:
            connector.query("SELECT * FROM endless")
        assert (caught.value.code, "0.3 seconds" in caught.value.message) == ("timeout", True)
        assert len(server.calls("StopQueryExecution")) == 1
        assert connector.query("SELECT 1 AS one").rows == ((1,),)


def test_a_statement_is_stopped_at_its_bytes(server: AthenaServer) -> None:
    with connect(ConnectionSpec("shop", "athena", server.options(max_bytes_scanned=5_000))) as connector:
        server.scanned = 6_000
        with pytest.raises(SourceError, match="scanned more than 5,000 bytes") as caught:
            connector.query("SELECT * FROM endless")
    assert (caught.value.code, caught.value.hint) == (
        "query", "ktx config set connections.shop.max_bytes_scanned BYTES",
    )  # fmt: skip
    assert len(server.calls("StopQueryExecution")) == 1


def test_another_thread_interrupts_a_statement(shop: Connector, server: AthenaServer) -> None:
    with ended_at(shop, monotonic() + 0.1) as deadline, pytest.raises(SourceError) as caught:
        shop.query("SELECT * FROM endless")
    assert (deadline.passed, caught.value.code) == (True, "timeout")
    assert len(server.calls("StopQueryExecution")) == 1


def test_a_statement_that_does_not_stop_is_given_up(server: AthenaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "STOP_SECONDS", 0.2)
    server.stubborn = True
    spec = ConnectionSpec("shop", "athena", server.options(query_timeout_ms=100))
    with connect(spec) as connector, pytest.raises(SourceError) as caught:
        connector.query("SELECT * FROM endless")
    assert caught.value.code == "timeout"


REFUSED = [
    "CREATE TABLE shop.u AS SELECT 1 AS a",
    "CREATE TABLE shop.u WITH (format = 'PARQUET', external_location = 's3://b/p/') AS SELECT 1 AS a",
    "CREATE EXTERNAL TABLE u (a int) LOCATION 's3://b/p/'",
    "CREATE OR REPLACE VIEW shop.v AS SELECT 1 AS a",
    "INSERT INTO shop.orders SELECT * FROM shop.orders",
    "UNLOAD (SELECT * FROM shop.orders) TO 's3://b/p/' WITH (format = 'PARQUET')",
    "MSCK REPAIR TABLE shop.orders",
    "ALTER TABLE shop.orders ADD PARTITION (day = '2024-01-01')",
    "DROP TABLE shop.orders",
    "DELETE FROM shop.orders",
    "MERGE INTO shop.orders USING shop.u ON TRUE WHEN MATCHED THEN DELETE",
    "OPTIMIZE shop.orders REWRITE DATA USING BIN_PACK",
    "VACUUM shop.orders",
    "PREPARE p FROM SELECT 1",
    "EXECUTE p",
    "DEALLOCATE PREPARE p",
    "USING EXTERNAL FUNCTION f(a VARCHAR) RETURNS VARCHAR LAMBDA 'f' SELECT f('x')",
    "WITH a AS (SELECT 1) INSERT INTO shop.orders SELECT * FROM a",
    "SELECT 1; DROP TABLE shop.orders",
    "EXPLAIN ANALYZE INSERT INTO shop.orders SELECT * FROM shop.orders",
    "EXPLAIN DROP TABLE shop.orders",
    "SELECT * FROM TABLE(system.query(query => 'DELETE FROM t'))",
]


@pytest.mark.table("sql", REFUSED)
def test_nothing_but_queries_gets_past_the_guard(sql: str) -> None:
    with pytest.raises(StatementRefusedError):
        check(sql, "athena", max_rows=10)


def test_nothing_but_queries_is_sent(shop: Connector, server: AthenaServer) -> None:
    for sql in REFUSED:
        with pytest.raises(SourceError) as caught:
            shop.query(sql)
        assert caught.value.code == "read_only", sql
    assert server.asked == []


FAILURES = [
    ("StartQueryExecution", "InvalidRequestException", "line 1:8: mismatched input 'FORM'", "query", ""),
    ("StartQueryExecution", "InvalidRequestException", "No output location provided", "connection", "s3_staging_dir"),
    ("StartQueryExecution", "InvalidRequestException", "WorkGroup x is not found.", "connection", "workgroup"),
    ("StartQueryExecution", "AccessDeniedException", "not authorized", "connection", "secret_access_key"),
    (
        "ListDatabases",
        "UnrecognizedClientException",
        "The security token is invalid",
        "connection",
        "secret_access_key",
    ),
]


@pytest.mark.table(("call", "kind", "message", "code", "key"), FAILURES)
def test_an_error_of_the_service(call: str, kind: str, message: str, code: str, key: str) -> None:
    with AthenaServer() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with connect(ConnectionSpec("shop", "athena", server.options())) as connector:
            server.failures[call] = (kind, message)
            run: Callable[[], object] = (
                (lambda: connector.query("SELECT 1 AS one"))
                if call.startswith("Start")
                else lambda: connector.introspect(Scope())
            )
            with pytest.raises(SourceError) as caught:
                run()
        server.shutdown()
    assert (caught.value.code, message.rstrip(".") in caught.value.message) == (code, True)
    assert key in str(caught.value.hint or "")
    assert "An error occurred" not in caught.value.message
    assert "c4n4ry" not in f"{caught.value.message} {caught.value.hint}"


def test_a_statement_that_fails_says_why(shop: Connector) -> None:
    with pytest.raises(SourceError, match="COLUMN_NOT_FOUND") as caught:
        shop.query("SELECT nope FROM shop.orders")
    assert caught.value.code == "query"
    assert shop.query("SELECT 1 AS one").rows == ((1,),)


def test_a_user_that_may_not_read_the_workgroup_still_connects(server: AthenaServer) -> None:
    server.failures["GetWorkGroup"] = ("AccessDeniedException", "not authorized")
    with connect(ConnectionSpec("shop", "athena", server.options())) as connector:
        assert connector.test(Scope()).server_version == "Athena (version unknown)"


def test_a_region_is_needed() -> None:
    with pytest.raises(ConfigError, match="does not set `region`"):
        connect(ConnectionSpec("shop", "athena", {}))


def test_a_profile_that_is_not_there(server: AthenaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(SourceError, match="nowhere-profile") as caught:
        connect(ConnectionSpec("shop", "athena", {"region": "eu-central-1", "profile": "nowhere-profile"}))
    assert caught.value.code == "connection"
    assert "connections.shop.profile" in str(caught.value.hint)
