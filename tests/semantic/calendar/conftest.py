"""Five engines with one table of times, each read through a real read-only session of ktx."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from ktx_cli.testing.servers import MariaDBServer, PostgresServer
from ktx_cli.testing.spark_server import SparkServer
from ktx_cli.warehouses.guard.check import check
from ktx_cli.warehouses.port import ConnectionSpec
from ktx_cli.warehouses.registry import connect

_NUMBERS = itertools.count(1)

_CHANGES = (
    *("1980-04-05T23:00:00", "1990-03-25T01:00:00", "2024-03-31T01:00:00", "2024-10-27T01:00:00"),  # Berlin
    *("1974-01-06T07:00:00", "2006-04-02T07:00:00", "2024-03-10T07:00:00", "2024-11-03T06:00:00"),  # New York
    *("1985-03-02T15:00:00", "2007-03-24T15:00:00", "2024-04-06T15:00:00", "2024-10-05T15:30:00"),  # Lord Howe
    *("2010-09-26T11:00:00", "2011-04-02T14:00:00", "2011-12-30T10:00:00", "2021-04-03T14:00:00"),  # Apia
)
_EDGES = (
    *("1999-12-31T23:59:59.999999", "2000-02-29T12:00:00", "2001-01-01T00:00:00", "2023-12-31T18:30:00"),
    *("2024-02-28T23:59:59", "2024-02-29T00:00:00", "2024-02-29T23:59:59.999900", "2024-12-29T00:00:00"),
    *("2024-12-30T00:00:00", "2025-01-05T23:59:59", "2025-01-06T00:00:00", "2024-03-31T23:59:59.999999"),
    *("2024-04-01T00:00:00", "2024-06-30T23:59:59", "2024-07-01T00:00:00", "2036-02-29T06:00:00"),
)
_EARLY = (
    "1969-12-31T23:59:59",
    "1969-07-20T20:17:40",
    "1945-05-08T23:01:00",
    "1912-02-29T12:34:56",
    "1900-03-01T01:02:03",
)


def _all_moments() -> list[datetime]:
    around = (-90_000, -3600, -1800, -1, 0, 1, 1799, 1800, 3599, 3600, 5400)
    near = [datetime.fromisoformat(text) + timedelta(seconds=by) for text in _CHANGES for by in around]
    return sorted({*near, *map(datetime.fromisoformat, _EDGES + _EARLY)})


MOMENTS = _all_moments()
"""Timestamps without a zone; as instants they are meant in UTC."""

Rows = Callable[[exp.Query], list[tuple[Any, ...]]]


class Engine:
    """`rows` runs a query over the table `o` (`id`, `ts`, `inst`, `day`), through the guard, in a read-only session."""

    def __init__(self, dialect: str, driver: str, options: dict[str, Any], schema: str | None = None) -> None:
        self.dialect = dialect
        self.schema = schema
        self.connector = connect(ConnectionSpec("shop", driver, options))

    def rows(self, query: exp.Query) -> list[tuple[Any, ...]]:
        sent = check(query.sql(self.dialect, normalize_functions=False), self.dialect, max_rows=200_000).sql
        return list(self.connector.query(sent, max_rows=200_000).rows)

    def table(self, name: str = "o") -> exp.Table:
        return exp.to_table(f"{self.schema}.{name}" if self.schema else name).as_("o")

    def known(self, value: Any) -> date | datetime | None:
        """Return a value of the result as Python has it: SQLite's are texts."""
        if isinstance(value, str):
            return date.fromisoformat(value) if len(value) == 10 else datetime.fromisoformat(value)
        return value  # type: ignore[no-any-return]


def _create(timestamp: str, instant: str, *, stored: Callable[[datetime], str]) -> list[str]:
    rows = ", ".join(f"({i}, '{m}', {stored(m)}, '{m.date()}')" for i, m in enumerate(MOMENTS))
    return [f"CREATE TABLE o (id int, ts {timestamp}, inst {instant}, day date)", f"INSERT INTO o VALUES {rows}"]


def _sqlite(folder: Path) -> Engine:
    path = folder / "times.sqlite"
    with sqlite3.connect(path) as session:
        session.execute("CREATE TABLE o (id int, ts, inst, day)")
        for index, moment in enumerate(MOMENTS):
            naive = (moment.isoformat(" "), moment.isoformat("T"), f"{moment:%Y-%m-%dT%H:%M:%S.%f}")[index % 3]
            session.execute(
                "INSERT INTO o VALUES (?, ?, ?, ?)", (index, naive, _written(index, moment), f"{moment:%F}")
            )
    session.close()
    return Engine("sqlite", "sqlite", {"path": str(path)})


def _written(index: int, moment: datetime) -> str | int:
    """Return an instant in one of the forms SQLite files have."""
    instant = moment.replace(tzinfo=UTC)
    if index % 4 == 0:
        return f"{moment.isoformat('T')}Z"
    if index % 4 == 1:
        return instant.astimezone(timezone(timedelta(hours=5, minutes=30))).isoformat(" ")
    if index % 4 == 2:
        return instant.astimezone(timezone(-timedelta(hours=9))).isoformat("T")
    return moment.isoformat(" ") if moment.microsecond else int(instant.timestamp())


def _duckdb(folder: Path) -> Engine:
    path = folder / "times.duckdb"
    with duckdb.connect(str(path)) as session:
        for statement in _create("timestamp", "timestamptz", stored=lambda m: f"'{m}+00'"):
            session.execute(statement)
    return Engine("duckdb", "duckdb", {"path": str(path)})


def _postgres(server: PostgresServer) -> Engine:
    name = f"times{next(_NUMBERS)}"
    url = server.create_database(name, *_create("timestamp", "timestamptz", stored=lambda m: f"'{m}+00'"))
    server.execute(f"ALTER DATABASE {name} SET timezone = 'Asia/Tokyo'")  # what the session has must not matter
    return Engine("postgres", "postgres", {"url": url}, "public")


def _mysql(server: MariaDBServer) -> Engine:
    # A TIMESTAMP begins in 1970.
    statements = _create("datetime(6)", "timestamp(6) NULL", stored=lambda m: f"'{m}'" if m.year > 1969 else "NULL")
    url = server.create_database(f"times{next(_NUMBERS)}")
    server.execute("SET time_zone = '+00:00'", *statements, database=url.rpartition("/")[2])
    return Engine("mysql", "mysql", {"url": url})


def _spark(server: SparkServer) -> Engine:
    name = f"times{next(_NUMBERS)}"
    server.create_database(name, *_create("timestamp_ntz", "timestamp", stored=lambda m: f"timestamp '{m}+00:00'"))
    return Engine("spark", "spark", {"url": server.url}, name)


@pytest.fixture(
    scope="module",
    params=[
        "sqlite",
        "duckdb",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("mysql", marks=pytest.mark.mysql),
        pytest.param("spark", marks=pytest.mark.spark),
    ],
)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Every engine in turn."""
    folder = tmp_path_factory.mktemp("times")
    if request.param == "postgres":
        made = _postgres(request.getfixturevalue("postgres_server"))
    elif request.param == "spark":
        made = _spark(request.getfixturevalue("spark_server"))
    elif request.param == "mysql":
        server = request.getfixturevalue("mariadb_server")
        made = _mysql(server)
        server.execute("SET GLOBAL time_zone = '+05:00'")  # what the session has must not matter
    else:
        made = _sqlite(folder) if request.param == "sqlite" else _duckdb(folder)
    try:
        yield made
    finally:
        made.connector.close()
        if request.param == "mysql":
            server.execute("SET GLOBAL time_zone = 'SYSTEM'")


@pytest.fixture
def moments() -> list[datetime]:
    return MOMENTS
