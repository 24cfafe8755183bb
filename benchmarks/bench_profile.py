"""Profiles: a large DuckDB table against one query a column, wide SQLite databases, a large Postgres table.

Prints the seconds, the ratio to the naive way and the growth from size to size. The naive way counts the different
values of one column after the other, over all rows. Exit 1 when 2 million rows x 30 columns take 1 s on DuckDB, or
when twenty times the columns take more than forty times as long.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ktx_cli.scan.profile.profiler import Budget, Profiled, profile_tables
from ktx_cli.testing.servers import PostgresServer, ServerMissingError
from ktx_cli.warehouses.dialect import quote, table_path
from ktx_cli.warehouses.port import ConnectionSpec, Connector, Scope, Table
from ktx_cli.warehouses.registry import connect

ROWS = 2_000_000
COLUMNS = 30
POSTGRES_ROWS = 500_000
SIZES = (20, 100, 400)
"""Tables of 50 columns."""

ROWS_A_TABLE = 1200
TYPES = (
    "(i * 31 + {at}) % 1000003",
    "concat('value ', (i * 31 + {at}) % 5000)",
    "(i * 17 + {at}) % 100000 / 7.0",
    "DATE '2020-01-01' + CAST((i + {at}) % 1500 AS int)",
    "(i + {at}) % 50",
)


def seconds(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def large_table(rows: str) -> str:
    """Return the statement that makes one table; `rows`: the source of `i`."""
    columns = ", ".join(f"{TYPES[at % len(TYPES)].format(at=at)} AS c{at}" for at in range(COLUMNS))
    return f"CREATE TABLE large AS SELECT {columns} FROM {rows}"


def naive(connector: Connector, table: Table) -> None:
    path = table_path(table.ref, connector.dialect)
    for column in table.columns:
        connector.query(f"SELECT count(DISTINCT {quote(column.name, connector.dialect)}) FROM {path}")


def compare(name: str, connector: Connector, rows: int) -> float:
    """Print the profile of a large table against the naive way, the best of two each; return its seconds."""
    (table,) = connector.introspect(Scope()).tables
    sampled = min(seconds(lambda: profile_tables(connector, [table], Budget())) for _ in range(2))
    slow = min(seconds(lambda: naive(connector, table)) for _ in range(2))
    print(
        f"{name:<10}{rows:>10} rows x {COLUMNS} columns: {sampled:6.2f} s, one query a column {slow:6.2f} s, "
        f"{slow / sampled:5.1f} x"
    )
    return sampled


def duckdb_table(folder: Path) -> float:
    import duckdb

    path = folder / "large.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute(large_table(f"range({ROWS}) AS r(i)"))
    with connect(ConnectionSpec("b", "duckdb", {"path": str(path)})) as connector:
        return compare("DuckDB", connector, ROWS)


def postgres_table() -> None:
    server = PostgresServer()
    try:
        with server:
            statements = (large_table(f"generate_series(1, {POSTGRES_ROWS}) AS r(i)"), "ANALYZE")
            url = server.create_database("profiles", *statements)
            with connect(ConnectionSpec("b", "postgres", {"url": url})) as connector:
                compare("Postgres", connector, POSTGRES_ROWS)
    except ServerMissingError as error:
        print(f"Postgres: left out, {error}")


def wide_database(path: Path, tables: int) -> None:
    database = sqlite3.connect(path)
    kinds = ("INTEGER", "TEXT", "DATE", "REAL")
    for number in range(tables):
        names = ", ".join(f"column_{c} {kinds[c % 4]}" for c in range(49))
        database.execute(f"CREATE TABLE table_{number} (id INTEGER PRIMARY KEY, {names})")
        rows = (
            (
                row,
                *((row * c % 97, f"text {row % 50}", f"2024-01-{row % 28 + 1:02}", row / 7)[c % 4] for c in range(49)),
            )
            for row in range(ROWS_A_TABLE)
        )
        database.executemany(f"INSERT INTO table_{number} VALUES ({', '.join('?' * 50)})", rows)
    database.commit()
    database.close()


def wide(folder: Path, tables: int) -> tuple[float, Profiled]:
    path = folder / f"{tables}.sqlite"
    wide_database(path, tables)
    with connect(ConnectionSpec("b", "sqlite", {"path": str(path)})) as connector:
        schema = connector.introspect(Scope())
        started = time.perf_counter()
        found = profile_tables(connector, schema.tables, Budget())
        return time.perf_counter() - started, found


def growth(folder: Path) -> float:
    """Print the seconds of growing databases; return how much longer the largest takes than the smallest."""
    took: list[float] = []
    for tables in SIZES:
        spent, found = wide(folder, tables)
        grown = f"{spent / took[-1]:5.1f} x" if took else "      -"
        took.append(spent)
        print(
            f"SQLite    {tables * 50:>10} columns: {spent:6.2f} s, {found.statements / tables:.1f} statements and "
            f"{found.rows_each} rows a table at most, growth {grown}"
        )
    return took[-1] / took[0]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        large = duckdb_table(folder)
        grown = growth(folder)
        postgres_table()
    if large > 1 or grown > 40:
        sys.exit("slower than promised")


if __name__ == "__main__":
    main()
