"""BigQuery: its client against a small server on this machine that answers as the REST API does."""

from __future__ import annotations

import datetime
import json
import re
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import ConfigError, KtxError, SourceError
from ktx_cli.testing.servers import free_port
from ktx_cli.warehouses import base
from ktx_cli.warehouses.bigquery.connector import MAX_BYTES_BILLED, BigQueryConnector
from ktx_cli.warehouses.bigquery.dialect import DIALECT
from ktx_cli.warehouses.pool import ended_at
from ktx_cli.warehouses.port import ConnectionSpec, Scope, TableRef, bytes_read

pytestmark = pytest.mark.client("google.cloud.bigquery")

CANARY = "c4n4ry-hunter2"
Rows = tuple[list[str], list[list[Any]]]


class Server(ThreadingHTTPServer):
    """Answers jobs by the first of `answers` whose pattern is in the statement; keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.jobs: list[dict[str, Any]] = []
        self.answers: list[tuple[str, Rows | tuple[int, str, str]]] = []
        self.datasets: list[tuple[str, str]] = []
        self.shared: dict[str, list[tuple[str, str]]] = {}
        """The datasets of other projects."""
        self.kind: str | None = "SELECT"
        self.permissions = ["bigquery.tables.getData"]
        self.paths: list[str] = []
        self.cancelled: list[str] = []

    def answer(self, pattern: str, columns: list[str], *rows: list[Any]) -> None:
        self.answers.insert(0, (pattern, (columns, list(rows))))

    def fail(self, pattern: str, status: int, reason: str, message: str) -> None:
        self.answers.insert(0, (pattern, (status, reason, message)))

    def find(self, sql: str) -> Any:
        return next((given for pattern, given in self.answers if re.search(pattern, sql)), (["x STRING"], []))

    @property
    def statements(self) -> list[str]:
        return [job["query"]["query"] for job in self.jobs if not job.get("dryRun")]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        path = self.path.partition("?")[0]
        if path.endswith(":testIamPermissions"):
            self.server.paths.append(path)
            self._send(200, {"permissions": self.server.permissions})
            return
        if path.endswith("/cancel"):
            number = path.split("/")[-2]
            self.server.cancelled.append(number)
            reference = {"projectId": "p", "jobId": number, "location": "EU"}
            self._send(200, {"job": {"jobReference": reference, "configuration": {"query": {"query": ""}}}})
            return
        config = body["configuration"]
        self.server.jobs.append(config)
        given = self.server.find(config["query"]["query"])
        if len(given) == 3:
            self._fail(*given)
            return
        endless = "FROM endless" in config["query"]["query"] and not config.get("dryRun")
        done = {"state": "RUNNING" if endless else "DONE"}
        facts = {"totalBytesProcessed": "4096"} | ({"statementType": self.server.kind} if self.server.kind else {})
        statistics = {"query": facts}
        number = f"job-{len(self.server.jobs)}"
        reference = {"projectId": "p", "jobId": number, "location": "EU"}
        self._send(200, {"jobReference": reference, "configuration": config, "status": done, "statistics": statistics})

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path.endswith("/datasets"):
            project = path.split("/")[-2]
            if project not in ("p", *self.server.shared):
                self._fail(404, "notFound", f"Not found: Project {project}")
                return
            listed = [
                {"datasetReference": {"projectId": project, "datasetId": name}, "location": place}
                for name, place in (self.server.datasets if project == "p" else self.server.shared[project])
            ]
            self._send(200, {"datasets": listed})
            return
        body: dict[str, Any]
        number = int(path.rpartition("-")[2])
        sql = self.server.jobs[number - 1]["query"]["query"]
        if "FROM endless" in sql:
            time.sleep(0.01)
            reference = {"projectId": "p", "jobId": f"job-{number}", "location": "EU"}
            body = {"jobReference": reference, "jobComplete": False, "configuration": self.server.jobs[number - 1]}
            stopped = {"reason": "stopped", "message": "Job execution was cancelled: User requested cancellation"}
            ended = {"state": "DONE", "errorResult": stopped, "errors": [stopped]}
            self._send(200, {**body, "status": ended if self.server.cancelled else {"state": "RUNNING"}})
            return
        columns, rows = self.server.find(sql)
        limit = re.search(r"maxResults=(\d+)", query)
        fields = [dict(zip(("name", "type"), column.split(" "), strict=True)) for column in columns]
        shown = rows if limit is None else rows[: int(limit[1])]
        reference = {"projectId": "p", "jobId": f"job-{number}", "location": "EU"}
        body = {"jobReference": reference, "jobComplete": True, "totalRows": str(len(rows))}
        body["schema"] = {"fields": fields}
        if shown or not rows:
            body["rows"] = [{"f": [{"v": value} for value in row]} for row in shown]
        self._send(200, body)

    def _fail(self, status: int, reason: str, message: str) -> None:
        errors = [{"reason": reason, "message": message, "domain": "global"}]
        self._send(status, {"error": {"code": status, "message": message, "errors": errors}})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as running:
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", f"http://127.0.0.1:{running.server_port}")
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        running.answer(r"SESSION_USER\(\)", ["u STRING"], ["ann@example.com"])
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def anonymous(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log in as nobody, as no key and no tool of Google's is on this machine."""
    import google.auth
    from google.auth.credentials import AnonymousCredentials

    monkeypatch.setattr(google.auth, "default", lambda **options: (AnonymousCredentials(), None))


@pytest.fixture
def opened() -> Iterator[Callable[..., BigQueryConnector]]:
    made: list[BigQueryConnector] = []

    def open_one(**options: Any) -> BigQueryConnector:
        made.append(BigQueryConnector(ConnectionSpec("x", "bigquery", {"project_id": "p", **options})))
        return made[-1]

    yield open_one
    for each in made:
        each.close()


Open = Callable[..., BigQueryConnector]


def test_a_query_is_first_tried_dry_and_has_limits(server: Server, opened: Open) -> None:
    server.answer("FROM orders", ["id INTEGER", "name STRING"], ["1", "a"], ["2", None])
    result = opened().query("SELECT * FROM orders")
    assert (result.columns, result.rows, result.truncated) == (("id", "name"), ((1, "a"), (2, None)), False)
    dry, real = server.jobs
    assert (dry["dryRun"], dry["query"]["query"]) == (True, "/* ktx */ SELECT * FROM orders")
    assert "dryRun" not in real or real["dryRun"] is False
    assert real["query"]["maximumBytesBilled"] == str(MAX_BYTES_BILLED)
    assert (real["jobTimeoutMs"], real["labels"]) == ("30000", {"application": "ktx"})


def test_a_statement_whose_bytes_are_known_is_not_tried_again(server: Server, opened: Open) -> None:
    connector = opened()
    server.answer("FROM orders", ["id INTEGER"], ["1"])
    for times in (1, 2):
        assert bytes_read(connector, "SELECT id FROM orders") == 4096
        assert bytes_read(connector, "SELECT id FROM orders") == 4096
        assert connector.query("SELECT id FROM orders").rows == ((1,),)
        assert [bool(job.get("dryRun")) for job in server.jobs] == [True, False] * times
    server.kind = "DELETE"
    bytes_read(connector, "SELECT 2")
    with pytest.raises(SourceError, match="`DELETE` statements"):
        connector.query("SELECT 2")


def test_limits_of_the_configuration(server: Server, opened: Open) -> None:
    opened(max_bytes_billed=10, job_timeout_ms=1500).query("SELECT 1")
    assert server.jobs[1]["query"]["maximumBytesBilled"] == "10"
    assert server.jobs[1]["jobTimeoutMs"] == "1500"


@pytest.mark.parametrize("kind", ["DELETE", "SCRIPT", "CREATE_TABLE_AS_SELECT", "EXPORT_DATA", "CALL", None])
def test_what_is_no_select_runs_only_dry(kind: str | None, server: Server, opened: Open) -> None:
    server.kind = kind
    with pytest.raises(SourceError, match="ktx only reads") as caught:
        opened().query("WITH x AS (SELECT 1) SELECT * FROM x")
    assert (caught.value.code, server.statements) == ("read_only", [])


@pytest.mark.parametrize("sql", ["DELETE FROM t WHERE true", "EXPORT DATA OPTIONS(uri='gs://x') AS SELECT 1", "BEGIN"])
def test_other_words_are_not_even_tried(sql: str, server: Server, opened: Open) -> None:
    with pytest.raises(SourceError) as caught:
        opened().query(sql)
    assert (caught.value.code, server.jobs) == ("read_only", [])


def test_rows_are_capped(server: Server, opened: Open) -> None:
    server.answer("FROM orders", ["id INTEGER"], *([str(number)] for number in range(5)))
    connector = opened()
    assert connector.query("SELECT id FROM orders", max_rows=2).rows == ((0,), (1,))
    assert connector.query("SELECT id FROM orders", max_rows=2).truncated is True
    assert connector.query("SELECT id FROM orders", max_rows=5).truncated is False


def test_parameters_are_bound_by_type(server: Server, opened: Open) -> None:
    utc = datetime.UTC
    values = [
        True, 1, 1.5, Decimal("1.5"), "it's", b"x", None, datetime.date(2024, 1, 2), datetime.time(1),
        datetime.datetime(2024, 1, 2), datetime.datetime(2024, 1, 2, tzinfo=utc),
    ]  # fmt: skip
    opened().query("SELECT " + ", ".join("?" * len(values)), values)
    query = server.jobs[-1]["query"]
    assert query["parameterMode"].upper() == "POSITIONAL"
    assert [each["parameterType"]["type"] for each in query["queryParameters"]] == [
        "BOOL", "INT64", "FLOAT64", "NUMERIC", "STRING", "BYTES", "STRING", "DATE", "TIME", "DATETIME", "TIMESTAMP",
    ]  # fmt: skip
    assert query["queryParameters"][4]["parameterValue"]["value"] == "it's"


@pytest.mark.parametrize(
    ("status", "reason", "code", "hint"),
    [
        (400, "invalidQuery", "query", None),
        (404, "notFound", "query", None),
        (403, "accessDenied", "query", "roles/bigquery.jobUser"),
        (400, "bytesBilledLimitExceeded", "query", "ktx config set connections.x.max_bytes_billed BYTES"),
        (400, "stopped", "timeout", "LIMIT"),
        (401, "authError", "connection", "ktx config set connections.x.credentials_json file:PATH"),
    ],
)
def test_errors(status: int, reason: str, code: str, hint: str | None, server: Server, opened: Open) -> None:
    server.fail("FROM orders", status, reason, "It went wrong at [1:8]\nline two")
    with pytest.raises(SourceError) as caught:
        opened().query("SELECT * FROM orders")
    assert caught.value.code == code
    assert (hint or "") in (caught.value.hint or "")
    # Nobody's credentials cannot be renewed, which the client tries for 401.
    assert code != "query" or caught.value.message.endswith("It went wrong at [1:8]")


def test_a_dataset_elsewhere_names_the_setting(server: Server, opened: Open) -> None:
    server.fail("FROM orders", 404, "notFound", "Dataset p:mart was not found in location US")
    with pytest.raises(SourceError) as caught:
        opened().query("SELECT * FROM orders")
    assert caught.value.hint == "ktx config set connections.x.location EU"


def catalog(server: Server) -> None:
    names = ["table_schema STRING", "table_name STRING"]
    server.datasets = [("mart", "EU"), ("raw", "EU"), ("us", "US")]
    server.answer("SCHEMA.TABLES", [*names, "k STRING", "d STRING"], ["mart", "orders", "BASE TABLE", None],
                  ["mart", "v", "VIEW", None])  # fmt: skip
    column = ["column_name STRING", "data_type STRING", "n STRING", "d STRING", "g STRING", "ordinal_position INTEGER"]
    server.answer("SCHEMA.COLUMNS", [*names, *column], ["mart", "orders", "id", "INT64", "NO", "NULL", "NEVER", "1"],
                  ["mart", "v", "place", "GEOGRAPHY", "YES", "NULL", "NEVER", "1"])  # fmt: skip
    server.answer("TABLE_OPTIONS", [*names, "o STRING"], ["mart", "orders", '"All orders"'])
    server.answer("__TABLES__", [*names, "c INTEGER"], ["mart", "orders", "12"])
    server.answer("SCHEMA.VIEWS", [*names, "d STRING"], ["mart", "v", "SELECT 1"])
    server.answer("PRIMARY KEY", [*names, "n STRING", "c STRING", "p INTEGER"], ["mart", "orders", "pk", "id", "1"])


def test_introspection(server: Server, opened: Open) -> None:
    catalog(server)
    server.fail("FOREIGN KEY", 403, "accessDenied", "Access Denied: no tables.get")
    schema = opened(dataset_ids=["mart"]).introspect(Scope())
    orders, view = schema.tables
    assert (orders.ref, orders.comment, orders.row_estimate, orders.primary_key) == (
        TableRef("mart", "orders"), "All orders", 12, ("id",),
    )  # fmt: skip
    assert (view.view_sql, view.columns[0].native_type, view.columns[0].type.value) == (
        "SELECT 1", "GEOGRAPHY", "string",
    )  # fmt: skip
    (problem,) = schema.problems
    assert (problem.what, problem.message) == ("foreign keys", "dataset `mart`: Access Denied: no tables.get")
    assert all("`p`.`mart`." in sql for sql in server.statements[1:])


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, {"mart", "raw", "us"}),
        ({"dataset_ids": ["raw", "us"]}, {"raw", "us"}),
        ({"dataset_id": "mart"}, {"mart"}),
        ({"url": "bigquery://p/mart"}, {"mart"}),
        ({"dataset_ids": ["mart"], "dataset_id": "raw"}, {"mart"}),
    ],
)
def test_datasets(options: dict[str, Any], asked: set[str], server: Server, opened: Open) -> None:
    catalog(server)
    opened(**options).introspect(Scope())
    tables = [sql for sql in server.statements if "SCHEMA.TABLES" in sql]
    assert set(re.findall(r"`p`\.`(\w+)`", " ".join(tables))) == asked
    assert len(tables) == (2 if asked & {"mart", "raw"} and "us" in asked else 1)


def test_a_dataset_that_does_not_exist_is_a_problem(server: Server, opened: Open) -> None:
    catalog(server)
    schema = opened(dataset_ids=["mart", "gone"]).introspect(Scope())
    assert [(problem.what, "`gone`" in problem.message) for problem in schema.problems] == [("schema", True)]


def test_datasets_of_other_projects(server: Server, opened: Open) -> None:
    catalog(server)
    server.shared = {"other-p": [("lake", "EU"), ("closed", "EU")]}
    names = ["table_schema STRING", "table_name STRING"]
    server.answer(r"`other-p`\.`lake`\.INFORMATION_SCHEMA.TABLES", [*names, "t STRING", "d STRING"],
                  ["lake", "events", "BASE TABLE", None])  # fmt: skip
    column = ["c STRING", "d STRING", "n STRING", "f STRING", "g STRING", "p INTEGER"]
    server.answer(r"`other-p`\.`lake`\.INFORMATION_SCHEMA.COLUMNS", [*names, *column],
                  ["lake", "events", "id", "INT64", "NO", "NULL", "NEVER", "1"])  # fmt: skip
    target = ["c STRING", "k STRING", "ts STRING", "tt STRING", "tc STRING", "p INTEGER"]
    server.answer(r"`other-p`[^;]*FOREIGN KEY", [*names, *target],
                  ["lake", "events", "fk", "id", "lake", "events", "id", "1"])  # fmt: skip
    connector = opened(dataset_ids=["p.mart", "other-p.lake", "gone.x"])
    schema = connector.introspect(Scope())
    assert {table.ref.schema for table in schema.tables} == {"mart", "other-p.lake"}
    (events,) = [table for table in schema.tables if table.ref.name == "events"]
    assert events.foreign_keys[0].target == TableRef("other-p.lake", "events")
    assert not [sql for sql in server.statements if "`closed`" in sql]
    problems = [problem.message for problem in schema.problems]
    assert problems[0].startswith("the schema `gone.x` does not exist") or "`gone.x`" in problems[0]
    assert any("project `gone`: " in message for message in problems)
    connector.test(Scope())
    assert "/bigquery/v2/projects/other-p/datasets/lake/tables/events:testIamPermissions" in server.paths


def test_a_table_of_another_project_has_three_quoted_parts() -> None:
    assert DIALECT.path(TableRef("other-p.lake", "events")) == "`other-p`.`lake`.`events`"
    assert DIALECT.path(TableRef("mart", "orders")) == "`mart`.`orders`"


@pytest.mark.parametrize("writes", [False, True])
def test_a_connection_test_asks_for_permissions(writes: bool, server: Server, opened: Open) -> None:
    catalog(server)
    server.permissions += ["bigquery.tables.updateData"] if writes else []
    found = opened().test(Scope())
    assert (found.server_version, found.user, found.database) == ("BigQuery", "ann@example.com", "p")
    assert (found.tables, found.can_write) == (2, writes)
    assert found.privileges == ("bigquery.tables.getData on 1 of 1 checked tables, one per dataset",)
    assert server.paths == ["/bigquery/v2/projects/p/datasets/mart/tables/orders:testIamPermissions"]


def assert_secret(error: KtxError) -> None:
    assert CANARY not in "".join(traceback.format_exception(error))
    assert CANARY not in str(error.to_json())


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch, opened: Open) -> None:
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setattr(base, "CONNECT_SECONDS", 0.2)
    with pytest.raises(SourceError) as caught:
        opened().query("SELECT 1")
    assert (caught.value.code, caught.value.exit_code) == ("connection", 4)
    assert "connection `x` (BigQuery project p)" in caught.value.message


def service_account(**fields: str) -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return json.dumps(
        {
            "type": "service_account", "project_id": "from-key", "private_key_id": CANARY, "private_key": key.decode(),
            "client_email": "ktx@p.iam.gserviceaccount.com", **fields,
        }
    )  # fmt: skip


def test_a_key_that_is_refused_is_not_shown(server: Server) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}/token"
    key = service_account(token_uri=endpoint)
    connector = BigQueryConnector(ConnectionSpec("x", "bigquery", {"credentials_json": key}))
    assert connector.project == "from-key"
    from google.auth.exceptions import RefreshError

    with pytest.raises(SourceError) as caught, connector._session(None), connector._as_client_error():
        raise RefreshError(f"invalid_grant: {key} {json.loads(key)['private_key'].splitlines()[1]}")
    connector.close()
    assert (caught.value.code, caught.value.hint) == ("connection", "check connections.x.credentials_json")
    assert json.loads(key)["private_key"].splitlines()[1] not in caught.value.message
    assert_secret(caught.value)


@pytest.mark.table(
    ("options", "hint"),
    [
        ({}, "ktx config set connections.x.project_id my-project"),
        ({"credentials_json": CANARY}, "ktx config set connections.x.credentials_json file:PATH"),
        ({"credentials_json": f'["{CANARY}"]'}, "ktx config set connections.x.credentials_json file:PATH"),
        ({"credentials_json": json.dumps({"project_id": "p", "private_key": CANARY})},
         "ktx config set connections.x.credentials_json file:PATH"),
    ],
)  # fmt: skip
def test_settings_that_do_not_do(options: dict[str, Any], hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BigQueryConnector(ConnectionSpec("x", "bigquery", options))
    assert caught.value.hint == hint
    assert_secret(caught.value)


def test_an_interrupted_statement_is_cancelled_in_the_warehouse(server: Server, opened: Open) -> None:
    connector = opened()
    with pytest.raises(SourceError) as caught, ended_at(connector, monotonic() + 0.05):
        connector.query("SELECT id FROM endless")
    assert caught.value.code == "timeout"
    assert server.cancelled == [f"job-{len(server.jobs)}"]
