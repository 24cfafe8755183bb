"""A statement that another thread ends; the connection answers the next one."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import SourceError
from ktx_cli.testing.servers import PostgresServer
from ktx_cli.warehouses import base
from ktx_cli.warehouses.pool import ended_at, is_interruptible
from ktx_cli.warehouses.port import ConnectionSpec, Connector, Interruptible
from ktx_cli.warehouses.registry import connect

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def _sqlite(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (i INTEGER)")
    database.close()


def _duckdb(path: Path) -> None:
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE t (i INTEGER)")


@pytest.mark.parametrize(("driver", "make"), [("sqlite", _sqlite), ("duckdb", _duckdb)])
def test_a_statement_is_ended_and_the_connection_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str, make: Any
) -> None:
    monkeypatch.setattr(base, "STATEMENT_SECONDS", 3600.0)
    path = tmp_path / "data"
    make(path)
    failures: list[SourceError] = []

    def run() -> None:
        try:
            connector.query(ENDLESS)
        except SourceError as error:
            failures.append(error)

    with connect(ConnectionSpec("shop", driver, {"path": str(path), "project_dir": str(tmp_path)})) as connector:
        assert isinstance(connector, Interruptible)
        connector.interrupt()  # nothing is under way
        thread = threading.Thread(target=run)
        thread.start()
        while thread.is_alive():
            connector.interrupt()
            thread.join(0.01)
        assert [each.code for each in failures] == ["timeout"]
        assert connector.query("SELECT count(*) FROM t").rows == ((0,),)
    connector.interrupt()  # it is closed


def _opened(driver: str, path: Path, request: pytest.FixtureRequest) -> Connector:
    if driver == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        options = {"url": server.create_database("interrupted", "CREATE TABLE t (i INTEGER)")}
    else:
        {"sqlite": _sqlite, "duckdb": _duckdb}[driver](path)
        options = {"path": str(path), "project_dir": str(path.parent)}
    return connect(ConnectionSpec("shop", driver, options))


@pytest.mark.parametrize("driver", ["sqlite", "duckdb", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_statement_is_ended_at_its_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(base, "STATEMENT_SECONDS", 3600.0)
    table = "public.t" if driver == "postgres" else "t"
    with _opened(driver, tmp_path / "data", request) as connector:
        assert is_interruptible(connector)
        started = monotonic()
        with pytest.raises(SourceError) as caught, ended_at(connector, started + 0.05) as deadline:
            connector.query(ENDLESS)
        assert (caught.value.code, deadline.passed) == ("timeout", True)
        assert 0.05 <= monotonic() - started < 30.0
        with ended_at(connector, monotonic() + 3600.0) as deadline:
            assert connector.query(f"SELECT count(*) FROM {table}").rows == ((0,),)
        assert not deadline.passed


class _Around:
    """A connection around another one, that says itself whether it can be interrupted."""

    def __init__(self, *, interruptible: bool) -> None:
        self.interruptible = interruptible
        self.interrupted = threading.Event()

    def interrupt(self) -> None:
        self.interrupted.set()


@pytest.mark.table("interruptible", [True, False])
def test_a_connection_around_one_that_cannot_be_interrupted_is_left_alone(interruptible: bool) -> None:
    around: Any = _Around(interruptible=interruptible)
    assert is_interruptible(around) is interruptible
    with ended_at(around, monotonic()) as deadline:
        assert not interruptible or around.interrupted.wait(60)
    assert (around.interrupted.is_set(), deadline.passed) == (interruptible, interruptible)
