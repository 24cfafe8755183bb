"""A statement that another thread ends; the connection answers the next one."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.connectors import base
from ktx_cli.connectors.port import ConnectionSpec, Interruptible
from ktx_cli.connectors.registry import connect
from ktx_cli.core.errors import SourceError

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
