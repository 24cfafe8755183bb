"""What sessions bound by themselves: sizes, files beside the database, locks that outlive a statement."""

from __future__ import annotations

import datetime as dt
import time
import tracemalloc
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.testing.servers import MariaDBServer, PostgresServer
from ktx_cli.warehouses import base
from ktx_cli.warehouses.port import Connector, Scope
from ktx_cli.warehouses.worker import wire
from ktx_cli.warehouses.worker.wire import row_memory

Open = Callable[..., Connector]


def test_a_result_of_too_many_bytes_is_cut(engine: Any, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ", ".join(f"({number}, '{'x' * 100}')" for number in range(20))
    connector = opened(
        engine.driver, **engine.make("CREATE TABLE t (a int, b varchar(200))", f"INSERT INTO t VALUES {rows}")
    )
    monkeypatch.setattr(base, "MAX_RESULT_BYTES", 2700)  # a row of a number and 100 letters takes 285 in memory
    cut = connector.query(engine.at("SELECT a, b FROM t ORDER BY a"))
    assert [row[0] for row in cut.rows] == list(range(9))
    assert cut.truncated
    assert cut.columns == ("a", "b")
    none = connector.query(engine.at(f"SELECT {', '.join(16 * 'b')} FROM t"))
    assert (none.rows, none.truncated, len(none.columns)) == ((), True, 16)
    whole = connector.query(engine.at("SELECT a FROM t ORDER BY a"))
    assert (len(whole.rows), whole.truncated) == (20, False)


def test_capped_takes_one_row_more_than_wanted_and_no_further() -> None:
    taken = []
    rows = (taken.append(number) or (number,) for number in range(100))  # type: ignore[func-returns-value]
    assert base.capped(rows, 3) == (((0,), (1,), (2,)), True)
    assert taken == [0, 1, 2, 3]
    assert base.capped([(1,), (2,)], 2) == (((1,), (2,)), False)


@pytest.mark.table(
    ("value", "size"), [("abc", 3), (b"ab", 2), (5, 8), (None, 8), (["ab", {"k": "v"}], 4), (("a", ("b",)), 2)]
)
def test_the_size_of_a_value(value: Any, size: int) -> None:
    assert wire.value_size(value) == size


@pytest.mark.table(
    "row",
    [
        (1, "name", 0.5, None, True),
        ("",),
        ("\u732b" * 1000,),
        ("\U0001f408" * 1000,),
        (b"x" * 1000, bytearray(1000)),
        ([""] * 1000,),
        (list(range(1000, 2000)),),
        ([uuid.UUID(int=2**127 + each) for each in range(1000)],),
        ([Decimal(each) / 7 for each in range(1000)],),
        ([dt.datetime(2024, 1, 1) + dt.timedelta(each) for each in range(1000)],),
        ([{"a": each, "b": [str(each)]} for each in range(1000)],),
        ({f"key {each}": (each,) for each in range(1000)},),
        ([[[[each]]] for each in range(1000)],),
    ],
)
def test_the_memory_of_a_row_is_what_its_objects_cost(row: tuple[Any, ...]) -> None:
    message = wire.packed(row)[4:]
    wire.unpacked(message)  # so that nothing is imported below
    tracemalloc.start()
    kept = wire.unpacked(message)
    cost = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept == row
    counted = row_memory(row)
    assert 0.75 * cost <= counted
    assert counted <= 4 * cost + 200 or row == ([""] * 1000,)  # the empty text is there once, JSON of it is not
    nested = [each for each in row if isinstance(each, list | dict)]
    assert counted >= 50 * sum(map(len, nested))


@pytest.mark.table(
    "sql",
    [
        "SELECT list_transform(range(20000), lambda x: uuid())",
        "SELECT list_transform(range(20000), lambda x: '')",
        "SELECT [range(20000)]",
        "SELECT list_transform(range(8000), lambda x: {'a': x, 'b': [x]})",
        "SELECT map(range(10000), range(10000))",
    ],
)
def test_many_small_values_in_one_are_too_large(
    duckdb_engine: Any, opened: Open, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    monkeypatch.setattr(base, "MAX_RESULT_BYTES", 1_000_000)
    found = opened("duckdb", **duckdb_engine.make()).query(sql)
    assert (found.rows, found.truncated) == ((), True)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT length(zeroblob(900000000))",
        "SELECT replace(hex(zeroblob(1000000)), '0', hex(zeroblob(1000)))",
        "SELECT 'a' LIKE hex(zeroblob(1000))",
        "SELECT fts3_tokenizer('simple')",
        "SELECT sqlite_log(1, 'x')",
    ],
)
def test_sqlite_bounds_lengths_and_closes_functions(sqlite_engine: Any, opened: Open, sql: str) -> None:
    connector = opened("sqlite", **sqlite_engine.make("CREATE TABLE t (a int)"))
    with pytest.raises(SourceError) as caught:
        connector.query(sql)
    assert caught.value.code in ("query", "read_only")


def test_duckdb_sees_no_variable_of_the_program(duckdb_engine: Any, opened: Open) -> None:
    import duckdb

    rows_of_the_program = duckdb.sql("SELECT 1 AS a")
    connector = opened("duckdb", **duckdb_engine.make("CREATE TABLE t (a int)"))
    with pytest.raises(SourceError, match="does not exist"):
        connector.query("SELECT * FROM rows_of_the_program")
    rows_of_the_program.close()


@pytest.mark.postgres
def test_a_lock_of_a_statement_is_given_back(postgres_engine: Any, opened: Open) -> None:
    options = postgres_engine.make("CREATE TABLE t (a int)")
    connector = opened("postgres", **options)
    connector.query("SELECT pg_catalog.pg_advisory_lock(42)")
    held = connector.query("SELECT count(*) FROM pg_catalog.pg_locks WHERE locktype = 'advisory'")
    assert held.rows == ((0,),)


@pytest.mark.postgres
def test_a_backslash_is_a_backslash_whatever_the_database_says(postgres_server: PostgresServer, opened: Open) -> None:
    name = f"scs{uuid.uuid4().hex[:8]}"
    url = postgres_server.create_database(name, f'ALTER DATABASE "{name}" SET standard_conforming_strings = off')
    assert opened("postgres", url=url).query(r"SELECT 'a\' AS a").rows == (("a\\",),)


@pytest.mark.postgres
@pytest.mark.parametrize("role", ["pg_execute_server_program", "pg_write_server_files"])
def test_a_member_of_a_role_of_the_server_is_named(postgres_server: PostgresServer, opened: Open, role: str) -> None:
    name = f"member{uuid.uuid4().hex[:8]}"
    postgres_server.create_database(name)
    postgres_server.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x'", f"GRANT {role} TO {name}")
    url = postgres_server.url(name, user=name, password="x")
    assert opened("postgres", url=url).test(Scope()).privileges[-1] == role
    root = opened("postgres", url=postgres_server.url(name)).test(Scope()).privileges
    assert "superuser" in root
    assert role not in root


@pytest.mark.mysql
def test_a_lock_or_variable_does_not_reach_the_next_statement(mariadb_server: MariaDBServer, opened: Open) -> None:
    name = f"locks{uuid.uuid4().hex[:8]}"
    connector = opened("mysql", url=mariadb_server.create_database(name))
    assert connector.query(f"SELECT GET_LOCK('{name}', 0)").rows == ((1,),)
    assert connector.query("SELECT @a := 5").rows == ((5,),)
    assert connector.query("SELECT @a").rows == ((None,),)
    # The server gives the lock back when it notices that the session's socket is closed.
    assert any(connector.query(f"SELECT IS_FREE_LOCK('{name}')").rows == ((1,),) for _ in range(500))


UNINTERRUPTED = """
WITH p AS (
  SELECT ('[' || repeat('(1,1),', 6000) || '(1,2)]')::path AS a, ('[' || repeat('(5,1),', 6000) || '(5,2)]')::path AS b
)
SELECT a <-> b FROM p
"""
"""The distance of two long paths, which Postgres computes for seconds without looking whether its time is up."""


@pytest.mark.postgres
def test_a_statement_that_postgres_does_not_stop_costs_its_session(
    postgres_server: PostgresServer, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "STATEMENT_SECONDS", 0.2)
    monkeypatch.setattr(base, "STOP_SECONDS", 0.3)
    connector = opened("postgres", url=postgres_server.url())
    began = time.monotonic()
    with pytest.raises(SourceError, match=r"did not stop the statement after 0\.2 seconds") as caught:
        connector.query(UNINTERRUPTED)
    assert (caught.value.code, time.monotonic() - began < 3) == ("timeout", True)
    assert connector.query("SELECT 1").rows == ((1,),)


@pytest.mark.postgres
def test_a_longer_limit_of_a_connection_keeps_its_session(
    postgres_server: PostgresServer, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "STATEMENT_SECONDS", 0.2)
    monkeypatch.setattr(base, "STOP_SECONDS", 0.1)
    connector = opened("postgres", url=postgres_server.url(), query_timeout_ms=20_000)
    assert connector.query("SELECT 1 FROM pg_sleep(0.6)").rows == ((1,),)


@pytest.mark.mysql
def test_a_statement_that_mariadb_does_not_stop_costs_its_session(
    mariadb_server: MariaDBServer, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = opened("mysql", url=mariadb_server.url("mysql"))
    monkeypatch.setattr(base, "STATEMENT_SECONDS", 0.2)  # the server has 30 seconds already
    monkeypatch.setattr(base, "STOP_SECONDS", 0.3)
    with pytest.raises(SourceError, match="did not stop the statement") as caught:
        connector.query("SELECT SLEEP(4)")
    assert caught.value.code == "timeout"
    assert connector.query("SELECT 1").rows == ((1,),)


@pytest.mark.parametrize(
    "driver", [pytest.param("postgres", marks=pytest.mark.postgres), pytest.param("mysql", marks=pytest.mark.mysql)]
)
def test_a_large_value_arrives_as_fast_as_before(
    request: pytest.FixtureRequest, opened: Open, monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    monkeypatch.setattr(base, "STATEMENT_SECONDS", 5)
    fixture, database = {"postgres": ("postgres_server", "postgres"), "mysql": ("mariadb_server", "mysql")}[driver]
    connector = opened(driver, url=request.getfixturevalue(fixture).url(database))
    for _ in range(3):
        ((value,),) = connector.query("SELECT repeat('x', 9000000) AS a").rows
        assert len(value) == 9_000_000
