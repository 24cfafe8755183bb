"""Samples of tables of every size and shape, on every engine there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import SourceError
from ktx_cli.warehouses.base import LockedError
from ktx_cli.warehouses.port import Connector, QueryResult, Scope, Table
from ktx_cli.warehouses.sampling import Sample, SampleLimits, SampleMethod, read_sample, why

Open = Callable[..., Connector]
LIMITS = SampleLimits(rows=2000)
ODD = ["Order Details", "select", "a.b", 'say "hi"', "back`tick", "it's", "Größe", "naïve%name", "CamelCase", "%s ?"]


def tables_of(connector: Connector) -> dict[str, Table]:
    return {table.ref.name: table for table in connector.introspect(Scope()).tables}


pytestmark = pytest.mark.in_turns("engine")


def numbers(rows: int) -> str:
    """Return a SELECT of `i` from 1 to `rows`, in SQL that every engine takes."""
    digits = "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"  # noqa: E501
    places = [f"{digits} AS p{place}" for place in range(len(str(rows)))]
    value = " + ".join(f"p{place}.d * {10**place}" for place in range(len(places)))
    return f"SELECT {value} + 1 AS i FROM {' CROSS JOIN '.join(places)} WHERE {value} < {rows} ORDER BY 1"


def filled(rows: int, name: str = "t") -> tuple[str, ...]:
    return (
        f"CREATE TABLE {name} (id int PRIMARY KEY, x int, word varchar(20))",
        f"INSERT INTO {name} SELECT i, i % 7, concat('w', i) FROM ({numbers(rows)}) AS n"
        if rows
        else f"DELETE FROM {name}",
    )


def made(engine: Any, *statements: str) -> dict[str, Any]:
    """Make a database; SQLite of some years ago has no `concat`."""
    if engine.driver == "sqlite":
        statements = tuple(each.replace("concat('w', i)", "'w' || i") for each in statements)
    if engine.driver == "postgres":
        statements = (*statements, "ANALYZE")
    options: dict[str, Any] = engine.make(*statements)
    return options


def column_of(sample: Sample, name: str) -> list[Any]:
    return sample.values[sample.columns.index(name)]


class Watched:
    """A connector that notes its statements, and refuses or changes what a test wants."""

    def __init__(self, connector: Connector, change: Callable[[str], QueryResult | None] = lambda sql: None) -> None:
        self.connector = connector
        self.dialect = connector.dialect
        self.change = change
        self.sent: list[str] = []

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        self.sent.append(sql)
        return self.change(sql) or self.connector.query(sql, parameters, max_rows=max_rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connector, name)


# -- how many rows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "statements"), [(0, 1), (1, 1), (999, 1), (1000, 1), (1001, 3), (1999, 3), (2000, 3)])
def test_a_table_of_at_most_as_many_rows_as_wanted_is_read_whole(
    engine: Any, opened: Open, rows: int, statements: int
) -> None:
    connector = opened(engine.driver, **made(engine, *filled(rows)))
    sample = read_sample(connector, tables_of(connector)["t"], LIMITS)
    assert sample.method is SampleMethod.ALL
    assert sample.complete
    assert (sample.row_count, sample.exact_count, sample.rows) == (rows, True, rows)
    assert sorted(column_of(sample, "id")) == list(range(1, rows + 1))
    assert sample.statements <= statements
    assert not sample.cut_by_bytes


def test_a_larger_table_gives_rows_from_all_over_the_same_every_time(engine: Any, opened: Open) -> None:
    connector = opened(engine.driver, **made(engine, *filled(30_000)))
    table = tables_of(connector)["t"]
    sample = read_sample(connector, table, LIMITS, seed=3)
    ids = column_of(sample, "id")
    assert sample.method is SampleMethod.BLOCKS
    assert 500 <= sample.rows == len(ids) == len(set(ids)) <= 2000
    assert max(ids) > 15_000
    assert [column_of(sample, "x"), column_of(sample, "word")] == [[i % 7 for i in ids], [f"w{i}" for i in ids]]
    assert read_sample(connector, table, LIMITS, seed=3).values == sample.values
    assert read_sample(connector, table, LIMITS, seed=4).values != sample.values
    assert sample.row_count is not None
    assert 25_000 < sample.row_count < 35_000
    assert sample.exact_count is (engine.driver == "duckdb")


def test_fewer_rows_than_the_first_ones_may_be_wanted(engine: Any, opened: Open) -> None:
    connector = opened(engine.driver, **made(engine, *filled(3000)))
    sample = read_sample(connector, tables_of(connector)["t"], SampleLimits(rows=5))
    assert sample.rows == 5
    assert not sample.complete


def test_a_lock_is_waited_for_once(sqlite_engine: Any, opened: Open) -> None:
    connector = opened("sqlite", **made(sqlite_engine, *filled(3000)))

    def locked(sql: str) -> QueryResult | None:
        raise LockedError("what the statement reads is locked", where="connection `shop` (there)", code="timeout")

    for estimate in (None, 1000, 3000):
        watched = Watched(connector, locked)
        with pytest.raises(LockedError):
            read_sample(watched, replace(tables_of(connector)["t"], row_estimate=estimate), LIMITS)
        assert len(watched.sent) == 1


def test_what_the_catalog_says_of_the_rows_may_be_wrong(engine: Any, opened: Open) -> None:
    connector = opened(engine.driver, **made(engine, *filled(1500), *filled(30_000, "u")))
    tables = tables_of(connector)
    for estimate in (None, 3, 1999, 5_000_000):
        small = read_sample(connector, replace(tables["t"], row_estimate=estimate), LIMITS)
        assert (small.rows, small.row_count, small.method) == (1500, 1500, SampleMethod.ALL), estimate
        large = read_sample(connector, replace(tables["u"], row_estimate=estimate), LIMITS)
        assert 500 <= large.rows <= 2000, estimate
        assert not large.complete, estimate


def test_a_table_with_holes_falls_back_to_what_gives_enough_rows(engine: Any, opened: Open) -> None:
    far = "INSERT INTO t VALUES (2000000000, 1, 'far')"
    connector = opened(engine.driver, **made(engine, *filled(5000), far))
    sample = read_sample(connector, tables_of(connector)["t"], LIMITS)
    assert 500 <= sample.rows == len(set(column_of(sample, "id"))) <= 2000


def test_deleted_rows_are_not_counted(engine: Any, opened: Open) -> None:
    connector = opened(engine.driver, **made(engine, *filled(6000), "DELETE FROM t WHERE id % 2 = 0"))
    sample = read_sample(connector, tables_of(connector)["t"], LIMITS)
    assert 500 <= sample.rows <= 2000
    assert all(each % 2 for each in column_of(sample, "id"))
    assert sample.row_count == 3000 or not sample.exact_count


def test_a_view_gives_its_first_rows(engine: Any, opened: Open) -> None:
    connector = opened(engine.driver, **made(engine, *filled(5000), "CREATE VIEW v AS SELECT id, x + 1 AS y FROM t"))
    sample = read_sample(connector, tables_of(connector)["v"], LIMITS)
    assert (sample.rows, sample.method, sample.row_count) == (2000, SampleMethod.HEAD, 5000)


# -- names and columns ------------------------------------------------------------------------------------------------


def test_names_of_any_kind(engine: Any, opened: Open) -> None:
    names = ODD if engine.driver == "mysql" else [*ODD, "🛒"]
    columns = ", ".join(f"{engine.quoted(name)} varchar(400)" for name in names)
    fill = f"INSERT INTO {{}} SELECT {', '.join(['concat(%s, i)'] * len(names))} FROM ({numbers(2500)}) AS n"
    fill = fill.replace("concat(%s, i)", "'w' || i" if engine.driver != "mysql" else "concat('w', i)")
    tables = [engine.quoted(name) for name in names]
    options = made(engine, *(f"CREATE TABLE {each} ({columns})" for each in tables), fill.format(tables[-1]))
    connector = opened(engine.driver, **options)
    for name, table in tables_of(connector).items():
        sample = read_sample(connector, table, SampleLimits(rows=1200))
        assert sample.columns == tuple(names)
        assert sample.rows == (1200 if name == names[-1] else 0)


def test_six_hundred_columns(engine: Any, opened: Open) -> None:
    kinds = ("int", "varchar(2)") if engine.driver == "mysql" else ("int", "text")
    columns = ", ".join(f"c{at} {kinds[at % 2]}" for at in range(600))
    values = ", ".join("i" if at % 2 == 0 else "'x'" for at in range(600))
    fill = f"INSERT INTO wide SELECT {values} FROM ({numbers(400)}) AS n"
    connector = opened(engine.driver, **made(engine, f"CREATE TABLE wide ({columns})", fill))
    sample = read_sample(connector, tables_of(connector)["wide"], SampleLimits(rows=300))
    assert (sample.rows, len(sample.values), sample.failed) == (300, 600, {})
    assert {type(each[0]) for each in sample.values} == {int, str}


def test_one_column_that_cannot_be_read_costs_only_itself(engine: Any, opened: Open) -> None:
    view = f"CREATE VIEW v AS SELECT id, x, {failing(engine, 'id - 1700')} AS bad, word FROM t"
    connector = opened(engine.driver, **made(engine, *filled(5000), view))
    sample = read_sample(connector, tables_of(connector)["v"], LIMITS)
    assert set(sample.failed) == {"bad"}
    assert "connection `shop`" not in sample.failed["bad"]
    assert sample.columns == ("id", "x", "word")
    assert sample.rows == 2000


def failing(engine: Any, zero: str) -> str:
    """Return an expression that fails where `zero` is 0: behind the first thousand rows, most likely."""
    return {
        "sqlite": f"CASE WHEN {zero} = 0 THEN json_extract('{{', '$') ELSE 1 END",
        "duckdb": f"CASE WHEN {zero} = 0 THEN error('no such day') ELSE 1 END",
        "postgres": f"1 / ({zero})",
        "mysql": f"CASE WHEN {zero} = 0 THEN 9223372036854775807 + id ELSE 1 END",
    }[str(engine.driver)]


@pytest.mark.parametrize("driver", ["sqlite", "duckdb", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_view_of_one_bad_column_still_counts_its_rows(
    driver: str, request: pytest.FixtureRequest, opened: Open
) -> None:
    engine = request.getfixturevalue(f"{driver}_engine")
    view = f"CREATE VIEW v AS SELECT {failing(engine, 'id - 3')} AS bad FROM t"
    connector = opened(driver, **made(engine, *filled(20), view))
    sample = read_sample(connector, tables_of(connector)["v"], LIMITS)
    assert (sample.rows, sample.columns, set(sample.failed)) == (20, (), {"bad"})


@pytest.mark.parametrize("driver", ["duckdb", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_view_whose_rows_fail_is_not_tried_column_by_column(
    driver: str, request: pytest.FixtureRequest, opened: Open
) -> None:
    engine = request.getfixturevalue(f"{driver}_engine")
    view = f"CREATE VIEW v AS SELECT * FROM t WHERE {failing(engine, 'id - 3')} > 5"
    connector = opened(driver, **made(engine, *filled(20), view))
    with pytest.raises(SourceError) as caught:
        read_sample(connector, tables_of(connector)["v"], LIMITS)
    assert caught.value.code == "query"
    assert caught.value.details["statements"] == 2


# -- budgets ----------------------------------------------------------------------------------------------------------


def test_long_texts_are_cut_and_cost_rows(engine: Any, opened: Open) -> None:
    long = "text" if engine.driver != "mysql" else "mediumtext"
    create = (f"CREATE TABLE t (id int PRIMARY KEY, body {long})",)
    body = {"sqlite": "hex(zeroblob(20000))", "duckdb": "repeat('x', 40000)"}.get(engine.driver, "repeat('x', 40000)")
    connector = opened(
        engine.driver, **made(engine, *create, f"INSERT INTO t SELECT i, {body} FROM ({numbers(1200)}) AS n")
    )
    table = tables_of(connector)["t"]
    sample = read_sample(connector, table, SampleLimits(rows=10_000, bytes=100_000))
    assert {len(each) for each in column_of(sample, "body")} == {256}
    assert 100 < sample.rows < 300
    assert sample.cut_by_bytes
    assert not sample.complete
    whole = read_sample(connector, table, SampleLimits(rows=10_000))
    assert (whole.rows, whole.cut_by_bytes) == (1200, False)


def test_a_small_table_is_not_cut(engine: Any, opened: Open) -> None:
    connector = opened(engine.driver, **made(engine, *filled(50)))
    sample = read_sample(connector, tables_of(connector)["t"], SampleLimits(bytes=20_000))
    assert (sample.rows, sample.cut_by_bytes, sample.complete) == (50, False, True)


@pytest.mark.parametrize("estimate", [None, 700])
def test_a_result_that_the_connector_cuts_is_not_the_whole_table(
    sqlite_engine: Any, opened: Open, estimate: int | None
) -> None:
    connector = opened("sqlite", **made(sqlite_engine, *filled(700)))
    table = replace(tables_of(connector)["t"], row_estimate=estimate)
    watched = Watched(connector, lambda sql: connector.query(sql, max_rows=400) if "LIMIT" in sql else None)
    sample = read_sample(watched, table, SampleLimits(rows=10_000))
    assert (sample.rows, sample.row_count) == (400, 700)
    assert sample.cut_by_bytes
    assert not sample.complete


def test_nothing_is_asked_after_the_deadline(sqlite_engine: Any, opened: Open) -> None:
    connector = Watched(opened("sqlite", **made(sqlite_engine, *filled(10))))
    table = tables_of(connector)["t"]
    with pytest.raises(SourceError) as caught:
        read_sample(connector, table, replace(LIMITS, deadline=monotonic()))
    assert caught.value.code == "timeout"
    assert connector.sent == []
    assert read_sample(connector, table, replace(LIMITS, deadline=monotonic() + 600)).rows == 10


# -- what fails on the way --------------------------------------------------------------------------------------------


def test_what_the_catalog_knows_saves_statements(engine: Any, opened: Open) -> None:
    connector = Watched(opened(engine.driver, **made(engine, *filled(1500), *filled(30_000, "u"))))
    tables = tables_of(connector)
    assert read_sample(connector, replace(tables["t"], row_estimate=1400), LIMITS).statements == 1
    assert read_sample(connector, replace(tables["t"], row_estimate=None), LIMITS).statements == 3
    connector.sent.clear()
    read_sample(connector, replace(tables["u"], row_estimate=30_000), LIMITS)
    assert len(connector.sent) <= 3
    assert not [sql for sql in connector.sent if sql.endswith("LIMIT 1001")]


def refusing(connector: Connector, part: str, code: str) -> Watched:
    def refuse(sql: str) -> QueryResult | None:
        if part in sql:
            raise SourceError(f"connection `shop` (there): no {part}", code=code)
        return None

    return Watched(connector, refuse)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("code", ["query", "timeout", "read_only"])
@pytest.mark.parametrize("part", ["UNION ALL", "count(*)", "min(", "UNION ALL TABLESAMPLE"])
def test_a_way_to_spread_that_is_refused_leaves_another(duckdb_engine: Any, opened: Open, part: str, code: str) -> None:
    connector = opened("duckdb", **made(duckdb_engine, *filled(5000)))
    parts = part.split(" TABLE")
    watched = refusing(connector, parts[0], code)
    if len(parts) > 1:
        watched = refusing(watched, "TABLESAMPLE", code)
    sample = read_sample(watched, tables_of(connector)["t"], LIMITS)
    assert sample.rows == 2000
    assert sample.failed == {}
    assert sample.method is not SampleMethod.ALL
    assert (sample.method is SampleMethod.HEAD) is (len(parts) > 1)


@pytest.mark.parametrize("part", ["LIMIT 1001", "UNION ALL", "count(*)", "min(", "TABLESAMPLE"])
def test_a_source_that_is_gone_is_an_error_at_every_step(duckdb_engine: Any, opened: Open, part: str) -> None:
    connector = opened("duckdb", **made(duckdb_engine, *filled(5000)))
    table = replace(tables_of(connector)["t"], row_estimate=None)
    watched = refusing(connector, part, "connection")
    if part == "TABLESAMPLE":
        watched = refusing(watched, "UNION ALL", "query")
    with pytest.raises(SourceError) as caught:
        read_sample(watched, table, LIMITS)
    assert caught.value.code == "connection"


def test_a_column_that_is_slow_is_not_looked_for(sqlite_engine: Any, opened: Open) -> None:
    connector = refusing(opened("sqlite", **made(sqlite_engine, *filled(10))), '"x"', "timeout")
    with pytest.raises(SourceError) as caught:
        read_sample(connector, tables_of(connector)["t"], LIMITS)
    assert caught.value.code == "timeout"
    assert len(connector.sent) == 1


@pytest.mark.parametrize("where", ["connection `shop` (host:5432/db)", "connection `shop` (/tmp/a (b)/x.sqlite)", ""])
@pytest.mark.parametrize("message", ["division by zero", "no (such): thing"])
def test_reasons_do_not_repeat_the_connection(where: str, message: str) -> None:
    assert why(SourceError(message, where=where)) == message
