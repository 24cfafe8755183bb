"""Databricks: what the connector asks of the client, and what it makes of its answers and errors."""

from __future__ import annotations

import logging
import re
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("databricks.sql")

from databricks import sql as client
from databricks.sql import exc

from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import ConfigError, KtxError, SourceError
from ktx_cli.testing.servers import free_port
from ktx_cli.warehouses import base, server
from ktx_cli.warehouses.databricks.connector import DatabricksConnector
from ktx_cli.warehouses.pool import ended_at
from ktx_cli.warehouses.port import ConnectionSpec, Scope, Table, TableKind, TableRef

CANARY = "c4n4ry-dapi123"
OPTIONS = {"host": "127.0.0.1", "http_path": "/sql/1.0/warehouses/w", "token": CANARY, "catalog": "main"}


class Cursor:
    def __init__(self, session: Session, arraysize: int | None) -> None:
        self.session = session
        self.arraysize = arraysize
        self.rows: list[tuple[Any, ...]] = []
        self.active_command_id: object = None
        self.description: list[tuple[str]] | None = None

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *exc: object) -> None:
        self.session.closed_cursors += 1

    def execute(self, statement: str, parameters: Any = None) -> None:
        self.session.asked.append((statement, parameters, self.arraysize))
        columns, given = next(
            (answer for pattern, answer in self.session.answers if re.search(pattern, statement)), (["x"], [])
        )
        if isinstance(given, Exception):
            raise given
        if "FROM endless" in statement:
            self.active_command_id = statement
            assert self.session.cancelled.wait(60)
            raise exc.ServerOperationError("Query was canceled")
        self.description = [(name,) for name in columns] or None
        self.rows = list(given)

    def cancel(self) -> None:
        self.session.cancels += 1
        self.session.cancelled.set()

    def fetchone(self) -> tuple[Any, ...] | None:
        return self.rows.pop(0) if self.rows else None

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.rows


class Session:
    """A scripted double of the client's connection."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any, int | None]] = []
        self.answers: list[tuple[str, tuple[list[str], Any]]] = [
            ("current_version", (["a", "b", "c", "d"], [("2026.10", None, "ann@x", "main")]))
        ]
        self.arguments: dict[str, Any] = {}
        self.open = True
        self.opened = 0
        self.closed_cursors = 0
        self.cancels, self.cancelled = 0, threading.Event()

    def answer(self, pattern: str, columns: list[str], *rows: tuple[Any, ...]) -> None:
        self.answers.insert(0, (pattern, (columns, rows)))

    def fail(self, pattern: str, error: Exception) -> None:
        self.answers.insert(0, (pattern, ([], error)))

    def cursor(self, arraysize: int | None = None) -> Cursor:
        return Cursor(self, arraysize)

    def close(self) -> None:
        self.open = False


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    found = Session()

    def connect(**arguments: Any) -> Session:
        found.arguments, found.open = arguments, True
        found.opened += 1
        return found

    monkeypatch.setattr(client, "connect", connect)
    monkeypatch.setattr(DatabricksConnector, "_reach", lambda self: None)
    return found


@pytest.fixture
def opened(session: Session) -> Iterator[Callable[..., DatabricksConnector]]:
    made: list[DatabricksConnector] = []

    def open_one(**options: Any) -> DatabricksConnector:
        made.append(DatabricksConnector(ConnectionSpec("x", "databricks", {**OPTIONS, **options})))
        return made[-1]

    yield open_one
    for each in made:
        each.close()


Open = Callable[..., DatabricksConnector]


def test_a_session_has_limits_and_keeps_to_itself(session: Session, opened: Open) -> None:
    opened(host="https://dbc.example.com/")
    given = session.arguments
    assert (given["server_hostname"], given["http_path"], given["catalog"]) == (
        "dbc.example.com", "/sql/1.0/warehouses/w", "main",
    )  # fmt: skip
    assert given["session_configuration"] == {"STATEMENT_TIMEOUT": "30"}
    assert (given["enable_telemetry"], given["use_cloud_fetch"], given["user_agent_entry"]) == (False, False, "ktx")
    assert logging.getLogger("databricks.sql").level == logging.CRITICAL


def test_bytes_are_capped(session: Session, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_RESULT_BYTES", 150)  # of memory: a row takes 127
    session.answer("FROM orders", ["id"], ("four",), ("four",))
    result = opened().query("SELECT id FROM orders")
    assert (result.rows, result.truncated) == ((("four",),), True)


def test_a_query(session: Session, opened: Open) -> None:
    session.answer("FROM orders", ["id"], (1,), (2,), (3,))
    connector = opened()
    result = connector.query("SELECT id FROM orders WHERE a = ?", ["it's"], max_rows=2)
    assert (result.columns, result.rows, result.truncated) == (("id",), ((1,), (2,)), True)
    assert session.asked == [("/* ktx */ SELECT id FROM orders WHERE a = ?", ["it's"], 3)]
    assert session.closed_cursors == 1
    assert connector.query("SELECT id FROM orders", max_rows=3).truncated is False


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM t",
        "WITH x AS (SELECT 1 AS a) INSERT INTO t SELECT a FROM x",
        "FROM x INSERT INTO y SELECT *",
        "SELECT 1; DROP TABLE t",
        "OPTIMIZE t",
        "SET STATEMENT_TIMEOUT = 0",
        "CALL p()",
        "COPY INTO t FROM 's3://x'",
    ],
)
def test_what_does_more_than_read_is_not_sent(sql: str, session: Session, opened: Open) -> None:
    with pytest.raises(SourceError) as caught:
        opened().query(sql)
    assert (caught.value.code, session.asked) == ("read_only", [])


@pytest.mark.parametrize("sql", ["SHOW TABLES IN main.mart", "DESCRIBE TABLE EXTENDED t", "EXPLAIN SELECT 1"])
def test_what_reads_is_sent(sql: str, session: Session, opened: Open) -> None:
    assert opened().query(sql).columns == ("x",)


@pytest.mark.parametrize(
    ("error", "code", "hint"),
    [
        (exc.ServerOperationError("[TABLE_OR_VIEW_NOT_FOUND] no `x`\n\tat org.apache.spark"), "query", None),
        (exc.ServerOperationError("Query has timed out after 30 seconds"), "timeout", "LIMIT"),
        (exc.ServerOperationError("[CATALOG_NOT_FOUND] no `x`"), "connection", "ktx config set connections.x.catalog"),
        (exc.RequestError("Error during request to server: 403 Forbidden"), "connection", "connections.x.token"),
        (exc.RequestError("Error during request to server"), "connection", "connections.x.http_path"),
        (exc.SessionAlreadyClosedError("gone"), "connection", "connections.x.host"),
        (OSError("broken pipe"), "connection", "connections.x.host"),
    ],
)
def test_errors(error: Exception, code: str, hint: str | None, session: Session, opened: Open) -> None:
    session.fail("FROM orders", error)
    with pytest.raises(SourceError) as caught:
        opened().query("SELECT * FROM orders")
    assert caught.value.code == code
    assert (hint or "") in (caught.value.hint or "")
    assert "apache" not in caught.value.message


def test_a_session_that_is_gone_is_replaced(session: Session, opened: Open) -> None:
    connector = opened()
    session.open = False
    connector.query("SELECT 1")
    connector.query("SELECT 1")
    assert session.opened == 2


def test_introspection_in_scope(session: Session, opened: Open) -> None:
    session.answer(
        "information_schema.tables", ["s", "t", "k", "c", "n"],
        ("mart", "orders", "MANAGED", None, None), ("raw", "orders", "MANAGED", None, None),
    )  # fmt: skip
    session.answer(
        "information_schema.columns", list("stnyucdg"), ("mart", "orders", "id", "bigint", False, None, None, False)
    )
    session.fail("'UNIQUE'", exc.ServerOperationError("[INSUFFICIENT_PERMISSIONS] no"))
    schema = opened(schemas=["mart"]).introspect(Scope())
    assert [table.ref for table in schema.tables] == [TableRef("mart", "orders")]
    assert schema.server_version == "Databricks 2026.10"
    assert [(each.what, each.message) for each in schema.problems] == [("constraints", "[INSUFFICIENT_PERMISSIONS] no")]
    assert "IN ('mart')" in session.asked[2][0]


@pytest.mark.parametrize(
    ("granted", "member", "can_write", "facts"),
    [
        ([("ann@x", "SELECT"), ("bob@x", "MODIFY")], False, False, ("holds SELECT",)),
        ([("ann@x", "SELECT"), ("editors", "MODIFY")], True, True, ("holds MODIFY, SELECT",)),
        ([("ann@x", "SELECT"), ("editors", "MODIFY")], False, False, ("holds SELECT",)),
        ([("ann@x", "OWNERSHIP")], False, True, ("holds OWNERSHIP",)),
        ([], False, None, ()),
    ],
)
def test_a_connection_test_tells_of_rights(
    granted: list[tuple[str, str]],
    member: bool,
    can_write: bool | None,
    facts: tuple[str, ...],
    session: Session,
    opened: Open,
) -> None:
    session.answer("information_schema.tables", list("stkcn"), ("mart", "orders", "MANAGED", None, None))
    session.answer("table_privileges", ["g", "p"], *granted)
    session.answer("is_account_group_member", ["m"], (member,))
    found = opened().test(Scope())
    assert (found.user, found.database, found.tables) == ("ann@x", "main", 1)
    assert (found.can_write, found.privileges) == (can_write, facts)


def assert_secret(error: KtxError) -> None:
    assert CANARY not in "".join(traceback.format_exception(error))
    assert CANARY not in str(error.to_json())


def test_a_token_is_not_shown(session: Session, opened: Open) -> None:
    session.fail("SELECT", exc.RequestError(f"Bearer {CANARY} was refused"))
    with pytest.raises(SourceError) as caught:
        opened().query("SELECT 1")
    assert_secret(caught.value)


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktx_cli.warehouses.databricks.connector.getproxies", dict)
    monkeypatch.setattr("ktx_cli.warehouses.databricks.connector._PORT", free_port())
    with pytest.raises(SourceError, match="refused") as caught:
        DatabricksConnector(ConnectionSpec("x", "databricks", OPTIONS))
    assert (caught.value.code, caught.value.exit_code) == ("connection", 4)
    assert caught.value.hint == "check connections.x.host and connections.x.http_path"
    assert_secret(caught.value)


@pytest.mark.parametrize("proxies", [{}, {"https": "http://proxy"}, {"no": "x"}])
def test_behind_a_proxy_only_the_client_knows_the_way(
    proxies: dict[str, str], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    tried: list[str] = []
    monkeypatch.setattr(client, "connect", lambda **arguments: session)
    monkeypatch.setattr("ktx_cli.warehouses.databricks.connector.getproxies", lambda: proxies)
    monkeypatch.setattr(server, "open_socket", lambda host, port, seconds: Opened(tried, host))
    DatabricksConnector(ConnectionSpec("x", "databricks", OPTIONS)).close()
    assert tried == ([] if "https" in proxies else ["127.0.0.1"])


class Opened:
    def __init__(self, tried: list[str], host: str) -> None:
        tried.append(host)

    def close(self) -> None: ...


@pytest.mark.table(
    ("missing", "hint"),
    [
        ("host", "ktx config set connections.x.host dbc-1234.cloud.databricks.com"),
        ("http_path", "ktx config set connections.x.http_path /sql/1.0/warehouses/ID"),
        ("token", "ktx config set connections.x.token env:DATABRICKS_TOKEN"),
    ],
)
def test_settings_that_are_missing(missing: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        DatabricksConnector(ConnectionSpec("x", "databricks", {**OPTIONS, missing: ""}))
    assert caught.value.hint == hint
    assert_secret(caught.value)


def test_an_interrupted_statement_is_cancelled_in_the_warehouse(session: Session, opened: Open) -> None:
    connector = opened()
    with pytest.raises(SourceError) as caught, ended_at(connector, monotonic() + 0.05):
        connector.query("SELECT id FROM endless")
    assert caught.value.code == "timeout"
    assert session.cancels == 1


def test_the_versions_of_delta_tables_are_evidence(session: Session, opened: Open) -> None:
    session.answer("information_schema.tables", ["s", "t"], ("mart", "orders"), ("mart", "it's"), ("mart", "other"))
    session.answer("DESCRIBE HISTORY", ["s", "t", "e"], ("mart", "orders", "7 1700"), ("mart", "it's", "0 1800"))
    asked = [Table(TableRef("mart", name), TableKind.TABLE, ()) for name in ("orders", "it's", "files")]
    assert opened().table_evidence(asked) == {TableRef("mart", "orders"): "7 1700", TableRef("mart", "it's"): "0 1800"}
    _, formats, versions = (statement for statement, _, _ in session.asked)
    assert "table_schema IN ('mart')" in formats
    assert versions.count("UNION ALL") == 1
    assert "FROM (DESCRIBE HISTORY `main`.`mart`.`orders` LIMIT 1)" in versions
    assert "SELECT 'mart', 'it\\'s', concat(version, ' ', unix_micros(timestamp))" in versions


@pytest.mark.parametrize("pattern", ["information_schema.tables", "DESCRIBE HISTORY"])
def test_without_rights_nothing_is_evident(pattern: str, session: Session, opened: Open) -> None:
    session.answer("information_schema.tables", ["s", "t"], ("mart", "orders"))
    session.fail(pattern, exc.ServerOperationError("[INSUFFICIENT_PERMISSIONS]"))
    assert opened().table_evidence([Table(TableRef("mart", "orders"), TableKind.TABLE, ())]) == {}


def test_the_reader_is_told_by_the_groups(session: Session, opened: Open) -> None:
    found = [opened().reader()]
    for groups in ([("sales", True), ("all", True)], [("all", True), ("sales", True)], [("all", True)]):
        session.answer("SHOW GROUPS WITH USER `ann@x`", ["name", "directGroup"], *groups)
        found.append(opened().reader())
    session.fail("SHOW GROUPS", exc.ServerOperationError("not allowed"))
    found.append(opened().reader())
    assert found[1] == found[2]
    assert found[4] == found[0]
    assert len(set(found)) == 3
