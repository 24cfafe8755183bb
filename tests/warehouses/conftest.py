"""Engines to test connectors against: files in a temporary folder, and servers that start when first asked for."""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.testing.servers import MariaDBServer, PostgresServer
from ktx_cli.warehouses.port import ConnectionSpec, Connector
from ktx_cli.warehouses.registry import connect
from tests.cli.conftest import forked_workers

__all__ = ["forked_workers"]

_NUMBERS = itertools.count(1)


class Engine:
    """Makes databases of one kind: `make(statements)` returns the options of a connection to a new one."""

    def __init__(self, driver: str, make: Callable[..., dict[str, Any]], quote: str = '"', schema: str | None = None):
        self.driver = driver
        self.make = make
        self.mark = quote
        self.schema = schema

    def quoted(self, name: str) -> str:
        return self.mark + name.replace(self.mark, self.mark * 2) + self.mark

    def at(self, sql: str) -> str:
        """Return a statement with the table `t` (or `u`, and the sequence `s`) as ktx takes them: Postgres wants their
        schema.
        """
        return (
            re.sub(r"(?<![.%\w])(?<!TEMPORARY TABLE )([tsu])\b", r"public.\1", sql)
            if self.driver == "postgres"
            else sql
        )


def _sqlite(folder: Path) -> Engine:
    def make(*statements: str) -> dict[str, Any]:
        path = folder / f"data {next(_NUMBERS)} %?#.sqlite"
        connection = sqlite3.connect(path)
        connection.executescript(";\n".join(("BEGIN", *statements, "COMMIT")))
        connection.close()
        return {"path": str(path)}

    return Engine("sqlite", make)


def _duckdb(folder: Path) -> Engine:
    def make(*statements: str) -> dict[str, Any]:
        path = folder / f"data {next(_NUMBERS)} %#.duckdb"  # a `?` breaks DuckDB itself
        with duckdb.connect(str(path)) as connection:
            connection.execute(";\n".join(("SELECT 1", *statements)))
        return {"path": str(path)}

    return Engine("duckdb", make, schema="main")


def _postgres(server: PostgresServer) -> Engine:
    def make(*statements: str) -> dict[str, Any]:
        script = (";\n".join(statements),) if statements else ()
        return {"url": server.create_database(f"db{next(_NUMBERS)}", *script)}

    return Engine("postgres", make, schema="public")


def _mysql(server: MariaDBServer) -> Engine:
    def make(*statements: str) -> dict[str, Any]:
        return {"url": server.create_database(f"db{next(_NUMBERS)}", *statements)}

    return Engine("mysql", make, quote="`")


@pytest.fixture(
    params=[
        "sqlite",
        "duckdb",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("mysql", marks=pytest.mark.mysql),
    ]
)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    """Every engine in turn."""
    return _engine(request.param, request, tmp_path)


def _engine(name: str, request: pytest.FixtureRequest, folder: Path) -> Engine:
    if name == "sqlite":
        return _sqlite(folder)
    if name == "duckdb":
        return _duckdb(folder)
    if name == "postgres":
        return _postgres(request.getfixturevalue("postgres_server"))
    return _mysql(request.getfixturevalue("mariadb_server"))


@pytest.fixture
def sqlite_engine(tmp_path: Path) -> Engine:
    return _sqlite(tmp_path)


@pytest.fixture
def duckdb_engine(tmp_path: Path) -> Engine:
    return _duckdb(tmp_path)


@pytest.fixture
def postgres_engine(postgres_server: PostgresServer) -> Engine:
    return _postgres(postgres_server)


@pytest.fixture
def mysql_engine(mariadb_server: MariaDBServer) -> Engine:
    return _mysql(mariadb_server)


@pytest.fixture
def opened() -> Iterator[Callable[..., Connector]]:
    """Open a connection named `shop` by driver and options; it is closed when the test is over."""
    connectors: list[Connector] = []

    def open_one(driver: str, **options: Any) -> Connector:
        connector = connect(ConnectionSpec("shop", driver, options))
        connectors.append(connector)
        return connector

    yield open_one
    for connector in connectors:
        connector.close()
