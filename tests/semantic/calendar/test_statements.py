"""The SQL of the dialects no server is here for, to look at; and what the guard says to that of every dialect."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date, datetime
from itertools import islice
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from ktx_cli.semantic.calendar import Clock, capacity, literal, localize, overflow, shift, spine, truncate, within
from ktx_cli.semantic.model import GRAINS, CalendarSettings, SemanticError
from ktx_cli.warehouses.dialect import DIALECTS
from ktx_cli.warehouses.guard.check import check

GOLDEN = Path(__file__).with_name("golden")
EXECUTED = ("duckdb", "sqlite", "postgres", "mysql", "spark")
VALUE = exp.column("at", "o")
SETTINGS = CalendarSettings(week_start="sunday", fiscal_year_start=4)


def statements(dialect: str) -> Iterator[tuple[str, exp.Query]]:
    """Yield some of everything, each with a name."""
    plain, shifted = Clock(dialect, SETTINGS), Clock(dialect, SETTINGS, zone="Asia/Tokyo")
    cells = {
        **{f"{grain} of a timestamp": truncate(VALUE, grain, "timestamp", plain) for grain in GRAINS},
        "week from monday of a date": truncate(VALUE, "week", "date", Clock(dialect)),
        "hour of a timestamp in a zone": truncate(VALUE, "hour", "timestamp", shifted),
        "day of an instant in a zone": truncate(VALUE, "day", "instant", shifted),
        "a zone's timestamp": localize(VALUE, "timestamp", Clock(dialect, own_zone="Asia/Tokyo")),
        "an instant in New York": localize(VALUE, "instant", Clock(dialect, zone="America/New_York")),
        "a timestamp of Apia": localize(VALUE, "timestamp", Clock(dialect, own_zone="Pacific/Apia")),
        "a date a month earlier": shift(VALUE, -1, "month", "date", dialect),
        "a date 30 days later": shift(VALUE, 30, "day", "date", dialect),
        "a timestamp a month later": shift(VALUE, 1, "month", "timestamp", dialect),
        "a timestamp an hour later": shift(VALUE, 1, "hour", "timestamp", dialect),
    }
    for name, cell in cells.items():
        yield name, exp.select(exp.alias_(cell, "v")).from_(exp.to_table("s.o").as_("o"))
    for kind in ("date", "timestamp", "instant"):
        condition = within(VALUE, date(2024, 2, 1), datetime(2024, 3, 1, 12), kind, shifted)  # type: ignore[arg-type]
        yield (
            f"a range of a {kind}",
            exp.select(exp.column("at", "o")).from_(exp.to_table("s.o").as_("o")).where(condition),
        )
    for grain in ("hour", "fiscal_quarter"):
        start = literal(datetime(2024, 1, 1), "timestamp" if grain == "hour" else "date", dialect)
        yield f"a spine of {grain}s", spine(start, start, grain, plain)
    over = exp.Case(ifs=[exp.If(this=overflow(start, start, "month", plain), true=exp.Literal.number(1))])
    yield "more than a spine holds", exp.select(exp.alias_(over, "v"))


@pytest.mark.table("dialect", [each for each in DIALECTS if each not in EXECUTED])
def test_the_statements_are_those_looked_at(dialect: str) -> None:
    written = "".join(
        f"-- {name}\n{query.sql(dialect, normalize_functions=False)};\n" for name, query in statements(dialect)
    )
    assert written == (GOLDEN / f"{dialect}.sql").read_text()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_guard_lets_them_through_and_keeps_them(dialect: str) -> None:
    """Every fifth statement of each dialect, other ones of each; all of them where KTX_TEST_FULL is set."""
    every = 1 if os.environ.get("KTX_TEST_FULL") else 5
    for name, query in islice(statements(dialect), list(DIALECTS).index(dialect) % every, None, every):
        sent = check(query.sql(dialect, normalize_functions=False), dialect, max_rows=10).sql
        assert check(sent, dialect, max_rows=10).sql == sent, name
        assert sqlglot.parse_one(sent, dialect=dialect).sql(dialect, normalize_functions=False) == sent, name


@pytest.mark.table("dialect", DIALECTS)
def test_a_column_in_a_zone_of_many_changes_leaves_room_in_a_statement(dialect: str) -> None:
    for own in (None, "Australia/Lord_Howe"):
        for kind in ("timestamp", "instant"):
            cell = truncate(VALUE, "week", kind, Clock(dialect, zone="America/New_York", own_zone=own))  # type: ignore[arg-type]
            assert len(cell.sql(dialect)) < 13_000


@pytest.mark.table("dialect", DIALECTS)
def test_a_date_has_no_hours(dialect: str) -> None:
    for refuse in (
        lambda: truncate(VALUE, "hour", "date", Clock(dialect)),
        lambda: shift(VALUE, 1, "hour", "date", dialect),
    ):
        with pytest.raises(SemanticError) as caught:
            refuse()
        assert caught.value.code == "grain"


@pytest.mark.table("dialect", DIALECTS)
def test_a_zone_always_behind_utc_by_nothing_shifts_nothing(dialect: str) -> None:
    clocks = Clock(dialect, zone="Etc/UTC"), Clock(dialect, zone="UTC", own_zone="Etc/GMT"), Clock(dialect)
    assert len({localize(VALUE, "timestamp", clock).sql(dialect) for clock in clocks}) == 1


def test_no_range_is_no_condition() -> None:
    assert within(VALUE, None, None, "date", Clock("duckdb")) is None


def test_how_long_a_spine_is() -> None:
    assert [capacity(grain) for grain in ("second", "week", "month", "quarter", "fiscal_year")] == [
        *(100_000, 100_000, 10_000, 10_000, 1_000)
    ]
