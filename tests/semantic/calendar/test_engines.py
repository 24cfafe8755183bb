"""Executed on five engines against Python's own calendar and zones, through read-only sessions of ktx."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlglot import exp

from ktx_cli.semantic.calendar import (
    Clock,
    capacity,
    later,
    literal,
    localize,
    next_period,
    overflow,
    period_of,
    shift,
    spine,
    truncate,
    within,
)
from ktx_cli.semantic.model import GRAINS, CalendarSettings
from tests.semantic.calendar.reference import periods

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia")
pytestmark = pytest.mark.in_turns("engine")

FISCAL = CalendarSettings(week_start="sunday", fiscal_year_start=4)
FISCAL_FROM_NOVEMBER = CalendarSettings(fiscal_year_start=11)
TS, INST, DAY = exp.column("ts", "o"), exp.column("inst", "o"), exp.column("day", "o")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BY_CHANGES = ("sqlite", "mysql")
"""Engines whose zones are written into the statement, and begin in 1970."""


def wall(moment: datetime, zone: str, dialect: str) -> datetime:
    """Return what the clocks of a zone show at a moment of UTC."""
    instant = moment.replace(tzinfo=UTC)
    if instant < EPOCH and dialect in BY_CHANGES:
        offset = EPOCH.astimezone(ZoneInfo(zone)).utcoffset()
        assert offset is not None
        return moment + offset
    return instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def utc(moment: datetime, zone: str) -> datetime:
    """Return the UTC of what the clocks of a zone showed."""
    if moment.year < 1970:
        offset = EPOCH.astimezone(ZoneInfo(zone)).utcoffset()
        assert offset is not None
        return moment - offset
    return moment.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC).replace(tzinfo=None)


def differences(engine: Any, moments: list[datetime], select: exp.Select, wanted: Any) -> list[Any]:
    """Return (id, column, found, wanted) for each value that differs."""
    found = {row[0]: [engine.known(value) for value in row[1:]] for row in engine.rows(select)}
    assert found.keys() == set(range(len(moments)))
    return [
        (moments[index], place, found[index][place], value)
        for index, moment in enumerate(moments)
        for place, value in enumerate(wanted(moment))
        if found[index][place] != value
    ]


def cut(engine: Any, value: exp.Expr, kind: Any, clock: Clock, grains: tuple[str, ...] = GRAINS) -> exp.Select:
    columns = [exp.alias_(truncate(value, grain, kind, clock), grain) for grain in grains]
    return exp.select(exp.column("id", "o"), *columns).from_(engine.table())


@pytest.mark.parametrize("settings", [CalendarSettings(), FISCAL, FISCAL_FROM_NOVEMBER])
def test_every_grain_of_a_timestamp(engine: Any, moments: Any, settings: CalendarSettings) -> None:
    select = cut(engine, TS, "timestamp", Clock(engine.dialect, settings))
    assert differences(engine, moments, select, lambda m: [period_of(m, grain, settings) for grain in GRAINS]) == []


@pytest.mark.parametrize("zone", ZONES)
def test_every_length_of_grain_in_a_zone(engine: Any, moments: Any, zone: str) -> None:
    grains = ("second", "hour", "day", "week", "fiscal_quarter")
    found = differences(
        engine,
        moments,
        cut(engine, TS, "timestamp", Clock(engine.dialect, FISCAL, zone=zone), grains),
        lambda m: [period_of(wall(m, zone, engine.dialect), grain, FISCAL) for grain in grains],
    )
    assert found == []


@pytest.mark.parametrize("zone", ZONES)
def test_every_grain_of_an_instant(engine: Any, moments: Any, zone: str) -> None:
    settings = CalendarSettings(timezone=zone, fiscal_year_start=2)
    grains = ("second", "day", "fiscal_year") if zone != "UTC" else GRAINS
    known = [None if engine.dialect == "mysql" and m.year < 1970 else m for m in moments]
    by_moment = dict(zip(moments, known, strict=True))

    def wanted(moment: datetime) -> list[Any]:
        value = by_moment[moment]
        return [value and period_of(wall(value, zone, engine.dialect), grain, settings) for grain in grains]

    select = cut(engine, INST, "instant", Clock(engine.dialect, settings), grains)
    assert differences(engine, moments, select, wanted) == []


@pytest.mark.parametrize("own", ["Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kolkata"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_timestamp_is_read_in_the_zone_of_its_column(engine: Any, moments: Any, own: str, zone: str) -> None:
    clock = Clock(engine.dialect, zone=zone, own_zone=own)

    def wanted(moment: datetime) -> list[Any]:
        local = wall(utc(moment, own), zone, engine.dialect)
        return [period_of(local, grain, clock.calendar) for grain in ("second", "day")]

    assert differences(engine, moments, cut(engine, TS, "timestamp", clock, ("second", "day")), wanted) == []


def test_a_timestamp_in_the_zone_of_the_question_stays(engine: Any, moments: Any) -> None:
    clock = Clock(engine.dialect, zone="Europe/Berlin", own_zone="Europe/Berlin")
    found = differences(
        engine, moments, cut(engine, TS, "timestamp", clock, ("second",)), lambda m: [m.replace(microsecond=0)]
    )
    assert found == []


@pytest.mark.parametrize("column", [DAY, TS])
def test_a_date_is_never_shifted(engine: Any, moments: Any, column: exp.Expr) -> None:
    clock = Clock(engine.dialect, FISCAL, zone="Pacific/Apia", own_zone="America/New_York")
    grains = GRAINS[3:]
    found = differences(
        engine,
        moments,
        cut(engine, column, "date", clock, grains),
        lambda m: [period_of(m.date(), grain, FISCAL) for grain in grains],
    )
    assert found == []


SHIFTS = [
    (1, "month"),
    (-1, "month"),
    (12, "month"),
    (1, "quarter"),
    (-1, "year"),
    (4, "year"),
    (3, "week"),
    (-30, "day"),
]


@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_months_end_with_the_month(engine: Any, moments: Any, kind: Any) -> None:
    shifts = SHIFTS if kind == "date" else [*SHIFTS, (36, "hour"), (-90, "minute"), (86_400, "second")]
    local = localize(TS, kind, Clock(engine.dialect))
    columns = [shift(local, count, unit, kind, engine.dialect) for count, unit in shifts]
    select = exp.select(exp.column("id", "o")).from_(engine.table())
    for place, column in enumerate(columns):
        select = select.select(exp.alias_(column, f"c{place}"))

    def wanted(moment: datetime) -> list[Any]:
        kept = moment.replace(microsecond=0) if engine.dialect == "sqlite" else moment
        return [later(kept.date() if kind == "date" else kept, count, unit) for count, unit in shifts]

    assert differences(engine, moments, select, wanted) == []


@pytest.mark.parametrize("day", ["2024-01-31", "2023-01-31", "2024-02-29", "2023-02-28", "2023-12-31", "1968-02-29"])
def test_shifts_of_the_last_days(engine: Any, day: str) -> None:
    value = date.fromisoformat(day)
    steps = [(count, unit) for unit in ("month", "quarter", "year") for count in (-13, -4, -1, 1, 2, 5, 11, 48)]
    cells = [
        shift(literal(value, "date", engine.dialect), count, unit, "date", engine.dialect) for count, unit in steps
    ]
    select = exp.select(*(exp.alias_(cell, f"c{place}") for place, cell in enumerate(cells)))
    (row,) = engine.rows(select)
    assert [engine.known(cell) for cell in row] == [later(value, count, unit) for count, unit in steps]


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Apia"])
@pytest.mark.parametrize(
    ("start", "end"),
    [
        (date(2024, 3, 31), date(2024, 4, 1)),
        (datetime(2024, 3, 31, 1), datetime(2024, 10, 27, 2, 0, 1)),
        (date(2011, 12, 30), None),
        (None, datetime(1970, 1, 1)),
    ],
)
@pytest.mark.parametrize("kind", ["date", "timestamp", "instant"])
def test_ranges_are_half_open(engine: Any, moments: Any, start: Any, end: Any, kind: Any, zone: str) -> None:
    clock = Clock(engine.dialect, zone=zone)
    column = {"date": DAY, "timestamp": TS, "instant": INST}[kind]
    select = exp.select(exp.column("id", "o")).from_(engine.table())
    found = {row[0] for row in engine.rows(select.where(within(column, start, end, kind, clock)))}
    first, last = _midnight(start or date.min), _midnight(end or date.max)

    def is_in(moment: datetime) -> bool:
        if kind == "instant" and engine.dialect == "mysql" and moment.year < 1970:
            return False
        local = _midnight(moment.date()) if kind == "date" else wall(moment, zone, engine.dialect)
        return first <= local < last

    assert found == {index for index, moment in enumerate(moments) if is_in(moment)}


def _midnight(value: date | datetime) -> datetime:
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


@pytest.mark.parametrize("grain", GRAINS)
def test_a_spine_has_every_period(engine: Any, grain: str) -> None:
    settings = FISCAL
    length = {"second": timedelta(minutes=3), "minute": timedelta(hours=3), "hour": timedelta(days=9)}
    start = datetime(2023, 12, 30, 22, 59, 30)
    end = start + length.get(grain, timedelta(days=1200))
    clock = Clock(engine.dialect, settings)
    cells = [truncate(literal(each, "timestamp", engine.dialect), grain, "timestamp", clock) for each in (start, end)]
    rows = engine.rows(spine(cells[0], exp.select(cells[1]).subquery(), grain, clock))
    wanted = list(periods(start, end + timedelta(seconds=1), grain, settings))
    assert sorted(engine.known(row[0]) for row in rows) == wanted
    assert len(wanted) > 3


def test_a_spine_may_stand_in_a_query_and_have_no_ends(engine: Any) -> None:
    clock = Clock(engine.dialect)
    none = exp.select(exp.Max(this=truncate(TS, "day", "timestamp", clock))).from_(engine.table()).where("1 = 0")
    some = exp.select(exp.Max(this=truncate(TS, "day", "timestamp", clock))).from_(engine.table())
    count = exp.select(exp.Count(this=exp.Star()))
    nothing = count.from_(spine(none.subquery(), none.subquery(), "day", clock).subquery("s"))
    one = count.from_(spine(some.subquery(), some.subquery(), "day", clock).subquery("s"))
    assert (engine.rows(nothing), engine.rows(one)) == ([(0,)], [(1,)])


@pytest.mark.parametrize("grain", ["day", "year"])
def test_a_spine_says_what_it_leaves_out(engine: Any, grain: str) -> None:
    clock = Clock(engine.dialect)
    first = date(1990, 1, 1)
    start = literal(first, "date", engine.dialect)

    def count_and_overflow(last: Any) -> tuple[int, bool]:
        end = literal(last, "date", engine.dialect)
        rows = engine.rows(spine(start, end, grain, clock))
        flag = exp.Case(ifs=[exp.If(this=overflow(start, end, grain, clock), true=exp.Literal.number(1))])
        return len(rows), engine.rows(exp.select(exp.alias_(flag, "over")))[0][0] == 1

    most = capacity(grain)
    last = later(first, most - 1, grain)
    assert count_and_overflow(last) == (most, False)
    assert count_and_overflow(later(last, 1, grain)) == (most, True)


@pytest.mark.parametrize("grain", GRAINS)
def test_the_next_period(engine: Any, moments: Any, grain: str) -> None:
    clock = Clock(engine.dialect, FISCAL)
    column = next_period(truncate(TS, grain, "timestamp", clock), grain, engine.dialect)
    select = exp.select(exp.column("id", "o"), exp.alias_(column, "v")).from_(engine.table())
    assert differences(engine, moments, select, lambda m: [later(period_of(m, grain, FISCAL), 1, grain)]) == []
