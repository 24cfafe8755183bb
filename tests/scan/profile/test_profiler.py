"""Profiling all tables of a database: budgets, isolation, and what comes out on real engines."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.privacy.columns import ValueKind
from ktx_cli.scan.profile import profiler
from ktx_cli.scan.profile.profiler import Budget, ColumnProfile, Profiled, TableProfile, Unsampled, profile_tables
from ktx_cli.warehouses import base, server
from ktx_cli.warehouses.dialect import table_path
from ktx_cli.warehouses.port import (
    Column,
    ConnectionSpec,
    Connector,
    QueryResult,
    Scope,
    SemanticType,
    Table,
    TableKind,
    TableRef,
)
from ktx_cli.warehouses.registry import connect
from ktx_cli.warehouses.sampling import SampleMethod

NUMBERS = itertools.count()
Make = Callable[..., Connector]


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Return a function that runs statements in a new database of a driver, and connects to it."""
    with contextlib.ExitStack() as stack:

        def one(driver: str, *statements: str) -> Connector:
            options = _MAKERS[driver](request, tmp_path, statements)
            return stack.enter_context(connect(ConnectionSpec("shop", driver, options)))

        yield one


def _sqlite(request: pytest.FixtureRequest, folder: Path, statements: Sequence[str]) -> dict[str, Any]:
    path = folder / f"{next(NUMBERS)}.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript(";".join(["BEGIN", *statements, "COMMIT"]))
    return {"path": str(path)}


def _duckdb(request: pytest.FixtureRequest, folder: Path, statements: Sequence[str]) -> dict[str, Any]:
    path = folder / f"{next(NUMBERS)}.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute(";".join(["SELECT 1", *statements]))
    return {"path": str(path)}


def _postgres(request: pytest.FixtureRequest, folder: Path, statements: Sequence[str]) -> dict[str, Any]:
    server = request.getfixturevalue("postgres_server")
    return {"url": server.create_database(f"profiles{next(NUMBERS)}", ";".join([*statements, "ANALYZE"]))}


def _mysql(request: pytest.FixtureRequest, folder: Path, statements: Sequence[str]) -> dict[str, Any]:
    server = request.getfixturevalue("mariadb_server")
    return {"url": server.create_database(f"profiles{next(NUMBERS)}", *statements)}


_MAKERS = {"sqlite": _sqlite, "duckdb": _duckdb, "postgres": _postgres, "mysql": _mysql}
ENGINES = pytest.mark.parametrize(
    "driver",
    [
        *("sqlite", "duckdb"),
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("mysql", marks=pytest.mark.mysql),
    ],
)


def profiled(connector: Connector, **budget: Any) -> Profiled:
    return profile_tables(connector, connector.introspect(Scope()).tables, Budget(**budget))


def by_name(found: Profiled) -> dict[str, TableProfile]:
    return {str(each.profile.ref).rpartition(".")[2]: each.profile for each in found.tables}


def columns(profile: TableProfile) -> dict[str, ColumnProfile]:
    return {each.name: each for each in profile.columns}


ORDERS = (
    "CREATE TABLE orders (id int PRIMARY KEY, status varchar(20), amount decimal(10, 2), placed date, paid boolean)",
    "INSERT INTO orders VALUES (1, 'open', 2.50, '2024-01-02', true), (2, 'open', 4.00, '2024-03-04', false), "
    "(3, NULL, 4.00, NULL, NULL)",
    "CREATE TABLE empty (id int)",
)


@ENGINES
def test_a_profile_says_what_a_column_holds(make: Make, driver: str) -> None:
    found = profiled(make(driver, *ORDERS))
    orders = by_name(found)["orders"]
    assert (orders.rows, orders.row_count, orders.exact_count, orders.complete) == (3, 3, True, True)
    shown = columns(orders)
    assert [each.name for each in orders.columns] == ["id", "status", "amount", "placed", "paid"]
    assert shown["id"].unique
    assert (shown["id"].kind, shown["id"].minimum, shown["id"].maximum) == (ValueKind.INTEGER, 1, 3)
    status = shown["status"]
    assert (status.nulls, status.distinct, status.shortest, status.longest) == (1, 1, 4, 4)
    assert status.top == (("open", 2),)
    amount = shown["amount"]
    assert (amount.kind, float(amount.minimum), float(amount.maximum)) == (ValueKind.NUMBER, 2.5, 4.0)
    day = datetime.date(2024, 1, 2)
    assert shown["placed"].minimum == (day.isoformat() if driver == "sqlite" else day)
    assert (shown["paid"].kind, shown["paid"].distinct, shown["paid"].nulls) == (ValueKind.BOOLEAN, 2, 1)
    empty = by_name(found)["empty"]
    assert (empty.rows, empty.complete, columns(empty)["id"].kind) == (0, True, ValueKind.EMPTY)
    assert found.statements == (3 if driver == "mysql" else 2)  # one asks for collations


@ENGINES
def test_texts_are_alike_where_the_server_says_so(make: Make, driver: str) -> None:
    kinds = ("general_ci", "bin") if driver == "mysql" else ()
    collations = [f" COLLATE utf8mb4_{each}" for each in kinds] or ["", ""]
    connector = make(
        driver,
        f"CREATE TABLE t (word varchar(20){collations[0]}, code varchar(20){collations[1]})",
        f"INSERT INTO t VALUES {', '.join(f'({each!r}, {each!r})' for each in ('Paid', 'paid', 'paid ', 'open'))}",
    )
    schema = {"sqlite": "", "duckdb": "main.", "postgres": "public."}.get(driver, "")
    asked = connector.query(f"SELECT count(DISTINCT word), count(DISTINCT code) FROM {schema}t").rows
    (profile,) = by_name(profiled(connector)).values()
    shown = columns(profile)
    assert [(shown["word"].distinct, shown["code"].distinct)] == list(asked) == [(2, 3) if kinds else (4, 4)]
    assert "Paid" in [value for value, _ in shown["word"].top]


@ENGINES
def test_a_table_that_fails_leaves_the_others_in_place(make: Make, driver: str) -> None:
    connector = make(driver, *ORDERS, "CREATE TABLE gone (id int)", "CREATE TABLE last_one (id int)")
    tables = list(connector.introspect(Scope()).tables)
    at = next(number for number, table in enumerate(tables) if table.ref.name == "gone")
    tables[at] = Table(TableRef(tables[at].ref.schema, "never_was"), TableKind.TABLE, tables[at].columns)
    found = profile_tables(connector, tables, Budget())
    assert [each.profile.ref for each in found.tables] == [table.ref for table in tables]
    assert [each.profile.problem is not None for each in found.tables] == [
        number == at for number in range(len(tables))
    ]
    assert "never_was" in str(found.tables[at].profile.problem)
    assert found.tables[at].counts == {}
    assert found.statements == len(tables) + (2 if driver == "mysql" else 1)


@pytest.mark.parametrize("driver", ["duckdb", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_two_schemas_with_the_same_table(make: Make, driver: str) -> None:
    connector = make(
        driver,
        "CREATE SCHEMA north",
        "CREATE SCHEMA south",
        *(f"CREATE TABLE {schema}.t (id int, {schema} int)" for schema in ("north", "south")),
        "INSERT INTO north.t VALUES (1, 1)",
        "INSERT INTO south.t VALUES (7, 1), (8, 1)",
    )
    found = profiled(connector)
    shown = {str(each.profile.ref): each for each in found.tables}
    assert {name: each.profile.rows for name, each in shown.items()} == {"north.t": 1, "south.t": 2}
    assert shown["south.t"].values == {"id": [7, 8], "south": [1, 1]}
    assert shown["north.t"].counts["id"] == {1: 1}


@ENGINES
def test_a_scan_without_time_looks_at_nothing(make: Make, driver: str) -> None:
    found = profiled(make(driver, *ORDERS), seconds=0.0)
    assert {each.profile.unsampled for each in found.tables} == {Unsampled.OUT_OF_TIME}
    assert (found.out_of_time, found.statements) == (len(found.tables), 0)


def test_wide_databases_get_smaller_samples_and_say_so(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "CELLS", 1800)
    connector = make("sqlite", "CREATE TABLE t (a, b)", f"INSERT INTO t VALUES {', '.join(['(1, 2)'] * 1200)}")
    found = profiled(connector)
    assert found.rows_each == found.tables[0].profile.rows == 900
    monkeypatch.setattr(profiler, "CELLS", 2)
    assert profiled(connector).rows_each == profiler.FEWEST_ROWS
    assert profiled(connector, rows=20).rows_each == 20


def test_bytes_that_cut_a_sample_are_counted(make: Make) -> None:
    rows = ", ".join(f"('{'x' * 200}')" for _ in range(1200))
    connector = make("sqlite", "CREATE TABLE t (a text)", f"INSERT INTO t VALUES {rows}", "CREATE TABLE u (a text)")
    found = profiled(connector, bytes=100_000)
    assert found.cut_by_bytes == 1
    assert by_name(found)["t"].cut_by_bytes
    assert not by_name(found)["t"].complete
    assert profiled(connector).cut_by_bytes == 0


# -- concurrency and lost sources -------------------------------------------------------------------------------------


class Scripted:
    """A source of tables that answers as a test says."""

    dialect = "postgres"

    def __init__(self, answer: Callable[[str], Any]) -> None:
        self.answer = answer
        self.sent: list[str] = []

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        self.sent.append(sql)
        return QueryResult(("x",), tuple((value,) for value in self.answer(sql)))

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"nobody asks for {name}")


def simple_tables(count: int) -> list[Table]:
    column = Column("x", "integer", SemanticType.NUMBER)
    return [Table(TableRef("s", f"t{number:03}"), TableKind.TABLE, (column,)) for number in range(count)]


def test_several_tables_are_read_at_once_and_come_in_order() -> None:
    together = threading.Barrier(3, timeout=20)

    def answer(sql: str) -> list[int]:
        together.wait()
        return [int(sql.partition('"t')[2][:3])]

    seen: list[tuple[int, int]] = []
    tables = simple_tables(6)
    found = profile_tables(Scripted(answer), tables, Budget(concurrency=3), lambda *step: seen.append(step))
    assert [each.values["x"] for each in found.tables] == [[number] for number in range(6)]
    assert seen == [(number, 6) for number in range(1, 7)]


@pytest.mark.table("concurrency", [1, 4])
def test_a_source_that_goes_away_ends_the_scan_soon(concurrency: int) -> None:
    def answer(sql: str) -> list[int]:
        if '"t003"' in sql:
            raise SourceError("connection `shop` (there): the server is gone")
        return [1]

    source = Scripted(answer)
    with pytest.raises(SourceError) as caught:
        profile_tables(source, simple_tables(2_000), Budget(concurrency=concurrency))
    assert caught.value.code == "connection"
    assert len(source.sent) < 1_500


def test_time_that_runs_out_on_the_way_costs_the_tables_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    for module in ("ktx_cli.scan.profile.profiler", "ktx_cli.warehouses.sampling"):
        monkeypatch.setattr(f"{module}.monotonic", lambda: float(next(clock)))
    found = profile_tables(Scripted(lambda sql: [1]), simple_tables(4), Budget(seconds=2.5, concurrency=1))
    assert [each.profile.unsampled for each in found.tables] == [None, None, *2 * [Unsampled.OUT_OF_TIME]]
    assert found.out_of_time == 2


# -- Postgres ---------------------------------------------------------------------------------------------------------


@pytest.mark.postgres
def test_a_locked_table_costs_itself(make: Make, postgres_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    monkeypatch.setattr(base, "LOCK_SECONDS", 0.2)
    connector = make("postgres", "CREATE TABLE busy (a int, b int, c int)", "CREATE TABLE free (a int)")
    tables = connector.introspect(Scope()).tables
    database = connector.place.rpartition("/")[2]  # type: ignore[attr-defined]
    with psycopg.connect(postgres_server.url(database)) as holder:
        holder.execute("LOCK TABLE busy IN ACCESS EXCLUSIVE MODE")
        found = profile_tables(connector, tables, Budget())
    shown = by_name(found)
    assert base.LOCKED in str(shown["busy"].problem)
    assert shown["free"].problem is None
    assert found.statements == 2


@pytest.mark.postgres
def test_a_role_that_may_only_select_profiles_json_wide_tables_and_columns_it_may_not_see(
    make: Make, postgres_server: Any
) -> None:
    wide = ", ".join(f"c{number} int DEFAULT {number}" for number in range(600))
    owner = make(
        "postgres",
        "CREATE ROLE profile_reader LOGIN PASSWORD 'secret'",
        "CREATE TABLE docs (id int PRIMARY KEY, doc json, docb jsonb, secret text, word text)",
        "INSERT INTO docs VALUES (1, '{}', '[]', 's', 'w'), (2, NULL, NULL, 's', 'v')",
        f"CREATE TABLE wide ({wide})",
        "INSERT INTO wide SELECT FROM generate_series(1, 1500)",
        "CREATE TABLE closed (id int)",
        "GRANT SELECT ON wide TO profile_reader",
        "GRANT SELECT (id, doc, docb, word) ON docs TO profile_reader",
    )
    database = owner.place.rpartition("/")[2]  # type: ignore[attr-defined]
    url = postgres_server.url(database, "profile_reader", "secret")
    with connect(ConnectionSpec("shop", "postgres", {"url": url})) as connector:
        found = by_name(profile_tables(connector, owner.introspect(Scope()).tables, Budget()))
    docs = columns(found["docs"])
    assert (docs["doc"].kind, docs["doc"].nulls, docs["docb"].nulls) == (ValueKind.OPAQUE, 1, 1)
    assert (docs["word"].distinct, docs["secret"].distinct) == (2, None)
    assert "permission denied" in str(docs["secret"].problem)
    assert {docs[name].problem for name in ("id", "doc", "docb", "word")} == {None}
    assert found["wide"].rows == 1500
    assert [(each.minimum, each.distinct) for each in found["wide"].columns] == [(at, 1) for at in range(600)]
    assert "permission denied" in str(found["closed"].problem)


@pytest.mark.postgres
def test_a_server_that_loses_the_session_is_a_lost_source(
    make: Make, postgres_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "RETURN_SECONDS", 0.5)
    connector = make("postgres", *(f"CREATE TABLE t{number} (id int)" for number in range(8)))
    tables = connector.introspect(Scope()).tables
    database = connector.place.rpartition("/")[2]  # type: ignore[attr-defined]
    postgres_server.execute(
        f"ALTER DATABASE {database} ALLOW_CONNECTIONS false",
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'",
    )
    with pytest.raises(SourceError) as caught:
        profile_tables(connector, tables, Budget())
    assert caught.value.code == "connection"


# -- SQLite and DuckDB ------------------------------------------------------------------------------------------------


def test_sqlite_columns_hold_what_they_like(make: Make) -> None:
    connector = make(
        "sqlite",
        "CREATE TABLE t (any, number integer, flag boolean, day date, body blob)",
        "INSERT INTO t VALUES ('{', 1, 1, '2024-01-01', x'00'), (2, 'two', 0, 7, NULL), "
        "(x'ff', 3.0, NULL, NULL, x'01')",
        "ALTER TABLE t ADD COLUMN bad AS (json_extract(any, '$'))",
    )
    (profile,) = by_name(profiled(connector)).values()
    shown = columns(profile)
    assert shown["any"].kind is ValueKind.MIXED
    assert shown["number"].kind is ValueKind.MIXED
    assert shown["flag"].kind is ValueKind.BOOLEAN
    assert shown["day"].kind is ValueKind.MIXED
    assert (shown["body"].kind, shown["body"].nulls) == (ValueKind.OPAQUE, 1)
    assert "malformed JSON" in str(shown["bad"].problem)
    assert [each.problem for name, each in shown.items() if name != "bad"] == [None] * 5


def test_a_macro_that_fails_in_a_view_costs_its_column(make: Make) -> None:
    connector = make(
        "duckdb",
        "CREATE MACRO broken(x) AS CASE WHEN x = 4000 THEN error('no') ELSE x END",
        "CREATE TABLE t AS SELECT i AS id FROM range(6000) AS r(i)",
        "CREATE VIEW v AS SELECT id, broken(id) AS bad, id % 3 AS third FROM t",
    )
    found = by_name(profiled(connector))
    view = columns(found["v"])
    assert found["v"].problem is None
    assert (found["v"].rows, found["v"].row_count) == (6000, 6000)
    assert view["third"].distinct == 3
    assert view["bad"].problem is not None
    assert found["t"].method is SampleMethod.ALL


def test_the_same_database_gives_the_same_profile(make: Make) -> None:
    connector = make(
        "duckdb", "CREATE TABLE t AS SELECT i, i % 100 AS x, 'w' || (i % 7) AS w FROM range(90000) AS r(i)"
    )
    first, second = (profiled(connector, rows=1500) for _ in range(2))
    assert first == second
    assert first.tables[0].values == second.tables[0].values
    assert (first.tables[0].profile.method, first.tables[0].profile.rows) == (SampleMethod.BLOCKS, 1500)


# -- what is read, and in which order ---------------------------------------------------------------------------------


READ = {
    ("never", "postgres"): set(),
    ("never", "duckdb"): set(),
    ("local", "postgres"): set(),
    ("local", "mysql"): set(),
    ("local", "tsql"): set(),
    ("local", "snowflake"): set(),
    ("local", "sqlite"): {"view", "foreign"},
    ("local", "duckdb"): {"view", "foreign"},
    ("always", "postgres"): {"view", "foreign"},
    ("always", "sqlite"): {"view", "foreign"},
}


@pytest.mark.table(("views", "dialect"), READ)
def test_views_and_foreign_tables_are_read_where_the_settings_say_so(views: Any, dialect: str) -> None:
    column = Column("id", "integer", SemanticType.NUMBER)
    tables = [Table(TableRef("s", kind.value), kind, (column,)) for kind in TableKind]
    source = Scripted(lambda sql: [] if "COLLATION" in sql else [1])
    source.dialect = dialect
    found = profile_tables(source, tables, Budget(views=views))
    wanted = READ[views, dialect] | {"table", "materialized_view"}
    read = {
        name for name in map(str, TableKind) if any(table_path(TableRef("s", name), dialect) in s for s in source.sent)
    }
    assert read == wanted
    unread = [each for each in found.tables if each.profile.unsampled is Unsampled.NOT_READ]
    assert {each.profile.ref.name for each in found.tables if each not in unread} == wanted
    assert found.not_read == 4 - len(wanted)
    assert [each.profile.ref for each in found.tables] == [table.ref for table in tables]
    columns = [column for each in unread for column in each.profile.columns]
    assert {(column.kind, column.rows) for column in columns} <= {(ValueKind.EMPTY, 0)}


def test_what_was_not_reached_comes_first_and_then_the_longest_ago() -> None:
    tables = simple_tables(5)
    last = {tables[0].ref: "2026-03", tables[1].ref: "2026-01", tables[3].ref: "2026-02", tables[4].ref: "2026-01"}
    source = Scripted(lambda sql: [1])
    found = profile_tables(source, tables, Budget(concurrency=1), last=last)
    assert [sql.partition('"t')[2][:3] for sql in source.sent] == ["002", "001", "004", "003", "000"]
    assert [each.profile.ref for each in found.tables] == [table.ref for table in tables]


def test_every_table_has_its_turn_in_some_run(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = simple_tables(7)
    last: dict[TableRef, str] = {}
    seen: list[TableRef] = []
    for run in range(4):
        clock = iter(range(100))
        for module in ("ktx_cli.scan.profile.profiler", "ktx_cli.warehouses.sampling"):
            monkeypatch.setattr(f"{module}.monotonic", lambda ticks=clock: float(next(ticks)))
        found = profile_tables(Scripted(lambda sql: [1]), tables, Budget(seconds=2.5, concurrency=1), last=last)
        reached = [each.profile.ref for each in found.tables if each.profile.problem is None]
        last.update(dict.fromkeys(reached, f"run {run}"))
        seen += reached
    assert set(seen) == {table.ref for table in tables}
    assert len(seen) == 8


# -- damage -----------------------------------------------------------------------------------------------------------


def test_a_damaged_page_costs_its_table_or_its_column(tmp_path: Path) -> None:
    path = tmp_path / "shop.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript(
            "PRAGMA page_size = 1024; CREATE TABLE a (id INTEGER PRIMARY KEY, x TEXT);"
            "CREATE TABLE b (id INTEGER PRIMARY KEY, x TEXT);"
            "CREATE TABLE c (id INTEGER PRIMARY KEY, short TEXT, long TEXT)"
        )
        for name in "ab":
            database.executemany(f"INSERT INTO {name} VALUES (?, ?)", [(i, "word" * 20) for i in range(100)])
        database.execute("INSERT INTO c VALUES (1, 's', ?)", ("long " * 2000,))
        database.commit()
        leaf = database.execute("SELECT max(pageno) FROM dbstat WHERE name = 'a' AND pagetype = 'leaf'").fetchone()[0]
        far = database.execute("SELECT min(pageno) FROM dbstat WHERE name = 'c' AND pagetype = 'overflow'").fetchone()[
            0
        ]
    with path.open("r+b") as file:
        for page in (leaf, far):
            file.seek((page - 1) * 1024)
            file.write(b"\xff" * 64)
    with connect(ConnectionSpec("shop", "sqlite", {"path": str(path)})) as connector:
        found = by_name(profiled(connector))
    assert found["a"].problem == "the file is damaged"
    assert (found["b"].problem, found["b"].rows) == (None, 100)
    assert {name: column.problem for name, column in columns(found["c"]).items()} == {
        "id": None, "short": None, "long": "the file is damaged",
    }  # fmt: skip
