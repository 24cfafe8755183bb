"""The shops notice what a statement changes, and two statements of one shape are found."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import duckdb
import pytest

from tests.worlds.guard_corpus import shape_of
from tests.worlds.guard_world import MySqlWorld, PostgresWorld, World

Make = Callable[..., World]


@pytest.mark.table(
    ("one", "other", "same"),
    [
        ("DROP TABLE a", "drop table  b", True),
        ("SELECT f(1, 'x')", "SELECT f(22, 'y''z')", True),
        ('SELECT "a" FROM `b`', "SELECT c FROM d", True),
        ("SELECT f(1)", "SELECT g(1)", False),
        ("SELECT @a", "SELECT a", False),
        ("SELECT a", "SELECT a, b", False),
        ("DROP TABLE a", "DROP VIEW a", False),
    ],
)
def test_shapes(one: str, other: str, same: bool) -> None:
    assert (shape_of(one) == shape_of(other)) is same


def test_a_file_in_the_folder_is_noticed(make_world: Make) -> None:
    world = make_world("sqlite")
    before = world.state()
    (world.folder / "stolen.csv").write_text("x")
    assert world.state() != before
    assert world.here("COPY t TO '/tmp/x'") == f"COPY t TO '{world.folder}/x'"


def test_a_change_of_a_sqlite_file_is_noticed(make_world: Make) -> None:
    world = make_world("sqlite")
    before = world.state()
    with sqlite3.connect(world.folder / "shop.sqlite") as database:
        database.execute("UPDATE orders SET amount = 0 WHERE id = 1")
    database.close()
    assert world.state() != before


def test_a_change_of_a_duckdb_file_is_noticed(make_world: Make) -> None:
    world = make_world("duckdb")
    before = world.state()
    with duckdb.connect(str(world.folder / "shop.duckdb")) as database:
        database.execute("UPDATE orders SET amount = 0 WHERE id = 1")
    assert world.state() != before


@pytest.mark.one_in(4)
@pytest.mark.postgres
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE orders SET amount = 0 WHERE id = 1",
        "SELECT nextval('order_numbers')",
        "SELECT do_it(1)",
        "CREATE TEMP TABLE x (a int); SELECT lo_create(0)",
        "GRANT INSERT ON orders TO PUBLIC",
        "SELECT pg_reload_conf()",
        "SELECT pg_stat_reset()",
        "COMMENT ON TABLE orders IS 'x'",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'bystander'",
        "SELECT pg_stat_reset_shared('bgwriter')",
    ],
)
def test_a_change_of_a_postgres_database_is_noticed(make_world: Make, sql: str) -> None:
    world = make_world("postgres")
    assert isinstance(world, PostgresWorld)
    before = world.state()
    world.server.execute(sql, database=world.name)
    assert any(world.state() != before for _ in range(500))  # reloading the settings takes the server a moment


@pytest.mark.mysql
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE orders SET amount = 0 WHERE id = 1",
        "SELECT NEXT VALUE FOR order_numbers",
        "CREATE TABLE x (a int)",
        "CREATE USER noticed IDENTIFIED BY 'x'",
    ],
)
def test_a_change_of_a_mariadb_database_is_noticed(make_world: Make, sql: str) -> None:
    world = make_world("mysql")
    assert isinstance(world, MySqlWorld)
    before = world.state()
    world.server.execute(sql, database=world.name)
    assert world.state() != before
    world.server.execute("DROP USER IF EXISTS noticed")
