"""Numbers over time, recomputed from raw rows: right ones are confirmed, wrong ones named, whatever the compiler says.

Both sets of rows are written down here; no case rests on the SQL of the compiler.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.project.layout import Layout
from ktx_cli.semantic.answer import compile_query
from ktx_cli.semantic.compile.build import Build
from ktx_cli.semantic.expressions.names import Expression
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.model import CalendarSettings, Cumulative, Model
from ktx_cli.semantic.plan.axis import TimeReader
from ktx_cli.semantic.plan.plan import Bounds, Treatment
from ktx_cli.semantic.verification import Verified, verify
from ktx_cli.testing.servers import PostgresServer
from ktx_cli.warehouses.port import ConnectionSpec, Connector
from ktx_cli.warehouses.registry import connect

NOW = datetime(2024, 4, 2, 9, 30)
ROWS = [
    ("2023-12-30", 7, "b"),
    ("2024-01-02", 3, "a"),
    ("2024-01-04", 10, "b"),
    ("2024-01-05", 25, "a"),
    ("2024-02-03", 1, "b"),
    ("2024-03-04", 100, "a"),
]
BOOKED = ["2024-01-03", "2024-01-02", "2024-02-01", "2024-01-06", "2024-03-01", "2024-03-04"]
DAYS = [date.fromordinal(number) for number in range(date(2023, 12, 1).toordinal(), date(2024, 5, 1).toordinal())]
SCHEMAS = {"duckdb": "main.", "sqlite": "", "postgres": "public."}
TODAY = {"duckdb": "CAST(day AS DATE)", "postgres": "CAST(day AS DATE)", "sqlite": "date(day)"}


def tables(engine: str) -> list[str]:
    day = "TEXT" if engine == "sqlite" else "DATE"
    daily = ", ".join(
        f"('{when}', {count}, '{kind}', '{booked}')" for (when, count, kind), booked in zip(ROWS, BOOKED, strict=True)
    )
    calendar = ", ".join(f"('{each}', '{each:%Y-%m}', {each.month})" for each in DAYS)
    return [
        f"CREATE TABLE daily (day {day}, n INTEGER, kind VARCHAR(5), booked {day})",
        f"INSERT INTO daily VALUES {daily}",
        f"CREATE TABLE cal (d {day}, ym VARCHAR(7), mo INTEGER)",
        f"INSERT INTO cal VALUES {calendar}",
    ]


def model(folder: Path, engine: str) -> Model:
    def measure(name: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "expr": "sum(n)", **more}

    def column(name: str, kind: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "type": kind, **more}

    sources = [
        {
            "name": "daily",
            "table": f"{SCHEMAS[engine]}daily",
            "grain": ["day"],
            "default_time_dimension": "day",
            "columns": [
                column("day", "time", natural_granularity="day"),
                column("n", "number"),
                column("kind", "string"),
                column("booked", "time", natural_granularity="day"),
                column("again", "time", expr=TODAY[engine], natural_granularity="day"),
                column("day_year", "number", expr="extract(year FROM day)"),
            ],
            "joins": [{"to": "cal", "on": "day = cal.d", "relationship": "many_to_one"}],
            "measures": [
                measure("t"),
                measure("so_far", cumulative={}),
                measure("month_to_date", cumulative={"to_date": "month"}),
                measure("seven", cumulative={"window": "7 days"}),
                measure("before", offset="1 month"),
                {"name": "days", "expr": "count(*)", "cumulative": {}},
            ],
        },
        {
            "name": "moments",
            "table": f"{SCHEMAS[engine]}daily",
            "columns": [column("day", "time"), column("n", "number")],
            "measures": [measure("so_far", cumulative={})],
        },
        {
            "name": "cal",
            "table": f"{SCHEMAS[engine]}cal",
            "grain": ["d"],
            "columns": [column("d", "time", natural_granularity="day"), column("ym", "string"), column("mo", "number")],
        },
    ]
    place = folder / "semantic-layer" / "shop"
    place.mkdir(parents=True)
    for source in sources:
        (place / f"{source['name']}.yaml").write_text(json.dumps(source), encoding="utf-8")
    found = load_model(Layout(folder), "shop", engine, CalendarSettings())
    assert not [each for each in found.problems if each.severity == "error"]
    return found


@pytest.fixture(scope="module", params=["duckdb", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Model, Connector]]:
    engine, folder = request.param, tmp_path_factory.mktemp(request.param)
    if engine == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        options = {"url": server.create_database("verified_time", *tables(engine))}
    else:
        path = folder / "data"
        with sqlite3.connect(path) if engine == "sqlite" else duckdb.connect(str(path)) as database:
            for statement in tables(engine):
                database.execute(statement)
        database.close()
        options = {"path": str(path)}
    with connect(ConnectionSpec("shop", engine, options)) as connector:
        yield model(folder, engine), connector


def verified(world: tuple[Model, Connector], query: dict[str, Any], rows: list[tuple[Any, ...]]) -> Verified:
    asked = compile_query(world[0], query, now=NOW)
    return verify(asked.compiled.build, rows, world[1])


def by(field: str, granularity: str | None = None) -> Any:
    return field if granularity is None else {"field": field, "granularity": granularity}


def on(text: str) -> date:
    return date.fromisoformat(text)


def ask(measure: str, *dimensions: Any, **more: Any) -> dict[str, Any]:
    return {"measures": [f"daily.{measure}"], "dimensions": list(dimensions), **more}


def moments(condition: str) -> dict[str, Any]:
    """Ask for running values by month of the times that nothing says are dates."""
    by_month = [by("moments.day", "month")]
    return {"measures": ["moments.so_far"], "dimensions": by_month, "filters": [condition]}


YEAR, MONTH, QUARTER, WEEK, DAY = (by("daily.day", each) for each in ("year", "month", "quarter", "week", "day"))
SINCE = {"time_range": {"start": "2024-01-05", "field": "daily.day"}}
TWO_MONTHS = {"time_range": {"start": "2024-01-01", "end": "2024-03-01"}, "comparison": "1 month"}
BOOKINGS = {"start": "2024-01-03", "end": "2024-03-01", "field": "daily.booked"}
DECEMBER, JANUARY, FEBRUARY, MARCH = (on(each) for each in ("2023-12-01", "2024-01-01", "2024-02-01", "2024-03-01"))
BY_MONTH = [(DECEMBER, 7), (JANUARY, 45), (FEBRUARY, 46), (MARCH, 146)]
BY_DAY = [(on(day), value) for (day, _, _), value in zip(ROWS, (7, 10, 20, 45, 46, 146), strict=True)]
PLAIN = [(on(day), value) for day, value, _ in ROWS]

CASES: list[tuple[dict[str, Any], list[tuple[Any, ...]], list[tuple[Any, ...]]]] = [
    # A second grain of the time is taken for a category.
    (
        ask("so_far", YEAR, MONTH),
        [(on(f"{month.year}-01-01"), month, value) for month, value in BY_MONTH],
        [(on("2024-01-01"), DECEMBER, 7), (on("2024-01-01"), JANUARY, 38)],
    ),
    (
        ask("t", MONTH, YEAR, **TWO_MONTHS),
        [(JANUARY, JANUARY, 38, 7, 31, 3100 / 7), (FEBRUARY, JANUARY, 1, 38, -37, -3700 / 38)],
        [(FEBRUARY, JANUARY, 1, 1, 0, 0.0), (DECEMBER, DECEMBER, None, 7, None, None)],
    ),
    # A time without a grain, a calendar's, a computed one.
    (ask("so_far", "daily.day"), BY_DAY, PLAIN[1:]),
    (ask("so_far", "daily.day", **SINCE), BY_DAY[3:], [*PLAIN[1:3], (on("2024-01-05"), 25)]),
    (ask("so_far", by("cal.d", "month")), BY_MONTH, [(JANUARY, 38), (FEBRUARY, 1)]),
    (ask("so_far", by("daily.again", "month")), BY_MONTH, [(JANUARY, 38), (MARCH, 100)]),
    (
        ask("so_far", DAY, "cal.mo"),
        [(day, day.month, value) for day, value in BY_DAY],
        [(on("2024-02-03"), 1, 46), (on("2024-01-04"), None, 20)],
    ),
    # Since the start of the month in which the period ends.
    (ask("month_to_date", QUARTER), [(on("2023-10-01"), 7), (JANUARY, 100)], [(JANUARY, 139)]),
    (
        ask("month_to_date", WEEK),
        [(on("2023-12-25"), 7), (JANUARY, 38), (on("2024-01-29"), 1), (on("2024-03-04"), 100)],
        [(on("2024-01-29"), 39)],
    ),
    (ask("month_to_date", MONTH), [(JANUARY, 38), (FEBRUARY, 1)], [(FEBRUARY, 39)]),
    # A filter on the time is a time range: it limits what is shown, not what a running value includes.
    (ask("so_far", DAY, filters=["daily.day >= '2024-01-05'"]), BY_DAY[3:], [(on("2024-01-05"), 25)]),
    (
        ask("so_far", MONTH, filters=["daily.day < '2024-03-01' AND daily.day > '2024-01-02'"]),
        BY_MONTH[1:3],
        [(JANUARY, 35), (FEBRUARY, 36)],
    ),
    # So is a year or a month of it, and a literal in front.
    (
        ask("so_far", MONTH, filters=["extract(year FROM daily.day) = 2024"]),
        BY_MONTH[1:],
        [(JANUARY, 38), (MARCH, 139)],
    ),
    (ask("so_far", MONTH, filters=["daily.day_year >= 2024"]), BY_MONTH[1:], [(JANUARY, 38), (MARCH, 139)]),
    (ask("so_far", MONTH, filters=["date_trunc('month', daily.day) >= '2024-02-01'"]), BY_MONTH[2:], [(FEBRUARY, 1)]),
    (ask("so_far", DAY, filters=["'2024-01-05' <= daily.day"]), BY_DAY[3:], [(on("2024-01-05"), 25)]),
    (
        ask("so_far", MONTH, filters=["daily.day BETWEEN '2024-01-05' AND '2024-02-03'"]),
        BY_MONTH[1:3],
        [(FEBRUARY, 26)],
    ),
    (
        {**ask("t", MONTH, filters=["extract(year FROM daily.day) = 2024"]), "comparison": "1 month"},
        [(JANUARY, 38, 7, 31, 3100 / 7), (FEBRUARY, 1, 38, -37, -3700 / 38)],
        [(JANUARY, 38, None, None, None)],
    ),
    # Any other filter limits both; so do ends within a second, of times that may have parts of one.
    (moments("moments.day > '2024-01-02'"), [(JANUARY, 35), (MARCH, 136)], [(JANUARY, 45)]),
    (moments("moments.day <= '2024-01-04'"), [(DECEMBER, 7), (JANUARY, 20)], [(JANUARY, 13)]),
    (moments("moments.day BETWEEN '2024-01-04' AND '2024-02-03'"), [(JANUARY, 35), (FEBRUARY, 36)], [(JANUARY, 45)]),
    (moments("moments.day >= '2024-01-04T00:00:00'"), [(JANUARY, 45), (MARCH, 146)], [(JANUARY, 35)]),
    (moments("extract(month FROM moments.day) = 3"), [(MARCH, 100)], [(MARCH, 146)]),
    (moments("extract(year FROM moments.day) = 2024"), [(JANUARY, 45), (MARCH, 146)], [(JANUARY, 38)]),
    (ask("so_far", MONTH, filters=["daily.kind = 'a'"]), [(JANUARY, 28), (MARCH, 128)], [(JANUARY, 45), (MARCH, 146)]),
    (
        ask("so_far", MONTH, "daily.kind"),
        [(JANUARY, "a", 28), (FEBRUARY, "b", 18)],
        [(JANUARY, "a", 45), (FEBRUARY, "b", 46)],
    ),
    (ask("days", MONTH), [(DECEMBER, 1), (JANUARY, 4), (MARCH, 6)], [(JANUARY, 3), (MARCH, 1)]),
    (ask("seven", MONTH), [(DECEMBER, 7), (JANUARY, None)], [(DECEMBER, None), (JANUARY, 38)]),
    (ask("before", MONTH), [(JANUARY, 7), (FEBRUARY, 38), (MARCH, 1)], [(JANUARY, 38), (FEBRUARY, 1)]),
    (ask("so_far", time_range={"start": "2024-01-05", "end": "2024-02-04"}), [(46,)], [(26,)]),
    # A range of another time only excludes rows, also those before its start.
    (ask("so_far", time_range=BOOKINGS), [(42,)], [(45,)]),
    (ask("so_far", "daily.kind", time_range=BOOKINGS), [("a", 25), ("b", 17)], [("a", 28)]),
    (ask("so_far", MONTH, time_range=BOOKINGS), [(DECEMBER, 7), (JANUARY, 42)], [(JANUARY, 45)]),
    (ask("month_to_date", MONTH, time_range=BOOKINGS), [(DECEMBER, 7), (JANUARY, 35)], [(JANUARY, 38)]),
    (ask("before", MONTH, time_range={**BOOKINGS, "start": "2024-01-04"}), [(JANUARY, None)], [(JANUARY, 7)]),
]


@pytest.mark.one_in(3)
@pytest.mark.table(("query", "right", "wrong"), CASES)
def test_right_numbers_are_confirmed_and_wrong_ones_named(
    query: dict[str, Any], right: list[tuple[Any, ...]], wrong: list[tuple[Any, ...]], world: tuple[Model, Connector]
) -> None:
    found = verified(world, query, right)
    assert (found.mismatches, found.skipped, found.stopped) == ((), {}, None)
    assert (found.rows, found.numbers) == (len(right), sum(len(row) for row in right) - len(right) * dimensions(query))
    found = verified(world, query, wrong)
    assert {each.row for each in found.mismatches} == {row[: dimensions(query)] for row in wrong}


def dimensions(query: dict[str, Any]) -> int:
    return len(query["dimensions"])


def running_by(world: tuple[Model, Connector], dimension: str, rows: list[tuple[Any, ...]]) -> Verified:
    """Verify rows as if a compiler had made a running total of a plain sum, whatever it is grouped by."""
    asked = compile_query(world[0], ask("t", dimension), now=NOW)
    build = asked.compiled.build
    (leaf,) = asked.plan.leaves
    plan = replace(asked.plan, leaves=(replace(leaf, treatment=Treatment(cumulative=Cumulative())),))
    return verify(Build(build.names, plan), rows, world[1])


def test_a_calendar_says_when_its_periods_end(world: tuple[Model, Connector]) -> None:
    right = [(f"{month:%Y-%m}", value) for month, value in BY_MONTH]
    assert running_by(world, "cal.ym", right).mismatches == ()
    found = running_by(world, "cal.ym", [("2024-01", 38), ("2024-02", 1)])
    assert [(each.row, each.verified) for each in found.mismatches] == [(("2024-01",), 45), (("2024-02",), 46)]


def test_what_is_no_period_is_not_verified_and_said_so(world: tuple[Model, Connector]) -> None:
    asked = compile_query(world[0], ask("t", "daily.kind", "cal.mo"), now=NOW)
    assert verify(asked.compiled.build, [("a", 1, 28)], world[1]).mismatches == ()
    category = running_by(world, "cal.ym || kind", [("2024-01a", 28)])
    assert category.rows == 1  # it reads a column besides the time
    with_gaps = running_by(world, "cal.mo % 2", [(0, 1), (1, 2)])
    assert (with_gaps.rows, with_gaps.numbers, with_gaps.mismatches) == (0, 0, ())
    assert "does not define periods" in with_gaps.skipped["t"]


def test_a_stretch_that_keeps_other_rows_than_its_condition_is_no_time_range(
    world: tuple[Model, Connector], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = TimeReader.bounds

    def too_short(self: TimeReader, condition: Expression) -> Bounds | None:
        return None if right(self, condition) is None else (FEBRUARY, None)

    monkeypatch.setattr(TimeReader, "bounds", too_short)
    query = ask("so_far", MONTH, filters=["extract(year FROM daily.day) = 2024"])
    found = verified(world, query, BY_MONTH[2:])
    assert [(each.row, each.verified) for each in found.mismatches] == [((FEBRUARY,), 39), ((MARCH,), 139)]
