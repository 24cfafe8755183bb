"""The shop's tables in the engines that run here, each read through ktx's own read-only connector."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from ktx_cli.testing.servers import MariaDBServer, PostgresServer, TestServer
from ktx_cli.testing.spark_server import SparkServer
from ktx_cli.warehouses.port import ConnectionSpec, Connector
from ktx_cli.warehouses.registry import connect
from tests.semantic.golden.world import SCHEMA, TABLES
from tests.warehouses.test_clickhouse import CANARY, ChServer

_SQLITE = {"DATE": "TEXT", "TIMESTAMP": "TEXT", "BOOLEAN": "INTEGER", "DOUBLE": "REAL"}
_CLICKHOUSE = {"TIMESTAMP": "DateTime64(0, 'UTC')", "DATE": "Date32", "DOUBLE": "Float64", "BOOLEAN": "Bool"}
_TYPES = {
    "postgres": {"DOUBLE": "DOUBLE PRECISION"},
    "mysql": {"TIMESTAMP": "DATETIME"},
    "sqlite": _SQLITE,
    "clickhouse": _CLICKHOUSE,
    "spark": {"TIMESTAMP": "TIMESTAMP_NTZ", "TEXT": "STRING"},
}
_DATABASE = "shop_of_the_golden_files"


def creating(engine: str) -> list[str]:
    """Return the statements that make and fill the tables."""
    found = []
    for name, (columns, rows) in TABLES.items():
        place = name if engine == "sqlite" else f"{SCHEMA}.{name}"
        types = _TYPES.get(engine, {})
        form, storage = ("Nullable({})", " ENGINE = Memory") if engine == "clickhouse" else ("{}", "")
        written = ", ".join(f"{column} {form.format(types.get(kind, kind))}" for column, kind in columns.items())
        values = ", ".join("(" + ", ".join(map(_literal, row)) + ")" for row in rows)
        found += [f"CREATE TABLE {place} ({written}){storage}", f"INSERT INTO {place} VALUES {values}"]
    return found


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(int(value) == 1).upper()
    if isinstance(value, int | float | Decimal):
        return str(value)
    text = value.isoformat(" ") if isinstance(value, datetime) else str(value)
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def opened(engine: str, folder: Path, server: TestServer | None = None) -> Iterator[Connector]:
    """Make the tables in an engine and open them; `server` is that of the engines with one."""
    if engine == "clickhouse":
        with _clickhouse(folder) as options, closing(connect(ConnectionSpec(SCHEMA, engine, options))) as connector:
            yield connector
        return
    connector = connect(ConnectionSpec(SCHEMA, engine, _options(engine, folder, server)))
    try:
        yield connector
    finally:
        connector.close()
        if isinstance(server, SparkServer):
            server.execute(f"DROP DATABASE {SCHEMA} CASCADE")
        elif isinstance(server, PostgresServer | MariaDBServer):
            server.execute(f"DROP DATABASE IF EXISTS {_DATABASE if engine == 'postgres' else SCHEMA}")


@contextmanager
def _clickhouse(folder: Path) -> Iterator[dict[str, Any]]:
    """Make the tables in an embedded ClickHouse, and yield the settings of a connection to it."""
    with ChServer(folder) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        for statement in (f"CREATE DATABASE {SCHEMA}", *creating("clickhouse")):
            server.run(statement, {})
        address = {"host": "127.0.0.1", "port": server.server_port, "username": "reader", "password": CANARY}
        yield {**address, "database": SCHEMA, "ssl": False}
        server.shutdown()


def _options(engine: str, folder: Path, server: TestServer | None) -> dict[str, Any]:
    path = folder / f"tables.{engine}"
    if engine == "sqlite":
        with sqlite3.connect(path) as session:
            session.executescript(";\n".join(creating(engine)))
        session.close()
    elif engine == "duckdb":
        with duckdb.connect(str(path)) as session:
            for statement in (f"CREATE SCHEMA {SCHEMA}", *creating(engine)):
                session.execute(statement)
    elif isinstance(server, PostgresServer):
        return {"url": server.create_database(_DATABASE, f"CREATE SCHEMA {SCHEMA}", *creating(engine))}
    elif isinstance(server, MariaDBServer):
        return {"url": server.create_database(SCHEMA, *creating(engine))}
    elif isinstance(server, SparkServer):
        server.create_database(SCHEMA, *creating(engine))
        return {"url": server.url}
    return {"path": str(path)}


def comparable(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return rows in which values that mean the same are the same: dates and their texts, numbers to 9 digits."""
    return [tuple(map(_comparable, row)) for row in rows]


def _comparable(value: Any) -> Any:
    if isinstance(value, bool | int | float | Decimal):
        return float(f"{float(value):.9g}")
    if isinstance(value, datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return value.isoformat() if isinstance(value, date) else value
