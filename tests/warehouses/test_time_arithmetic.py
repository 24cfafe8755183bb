"""Periods as DuckDB computes them, and the changes of zones against Python's own tables, also of two zones at once."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import dialect_named
from ktx_cli.warehouses.time_arithmetic import PeriodLength, Stretch, YearlyChange, stretches

DUCKDB = dialect_named("duckdb")

ZONES = (
    *("UTC", "Europe/Berlin", "Europe/London", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"),
    *("Africa/Casablanca", "America/Sao_Paulo", "Africa/Monrovia", "Asia/Kolkata"),
)


def difference(stretch: Stretch, shown: datetime) -> int:
    """Return the difference at a time within a stretch."""
    found = stretch.before
    for change in stretch.listed:
        found = change.after if shown >= change.at else found
    for yearly in stretch.rule:
        found = yearly.after if shown >= moment_of(yearly, shown.year) else found
    return found


def moment_of(change: YearlyChange, year: int) -> datetime:
    day = datetime(year, change.month, change.day)
    while day.weekday() != change.weekday:
        day += timedelta(days=1)
    return day + timedelta(seconds=change.seconds)


@pytest.mark.slow
@pytest.mark.table("source", ZONES)
def test_every_day_and_every_change_is_as_python_has_it(source: str) -> None:
    targets = ZONES if source == "Europe/Berlin" else ("UTC",)
    for target in targets:
        require_right(source, target)
        require_right(target, source)


def require_right(source: str, target: str) -> None:
    here, there = ZoneInfo(source), ZoneInfo(target)
    for stretch in stretches(source, target):
        days = [
            datetime(stretch.first, 1, 1) + timedelta(days=n)
            for n in range(0, (stretch.last - stretch.first) * 365, 17)
        ]
        changes = [each.at for each in stretch.listed]
        changes += [moment_of(rule, year) for rule in stretch.rule for year in range(stretch.first, stretch.last + 1)]
        for shown in days + [at + timedelta(seconds=by) for at in changes for by in (-1800, -1, 0, 1800)]:
            if stretch.first <= shown.year <= stretch.last:
                other = shown.replace(tzinfo=here).astimezone(there).replace(tzinfo=None)
                assert (other - shown).total_seconds() == difference(stretch, shown), (source, target, shown)


@given(st.sampled_from(ZONES), st.sampled_from(ZONES), st.datetimes(datetime(1970, 1, 2), datetime(2060, 12, 30)))
def test_any_time_between_any_zones(source: str, target: str, shown: datetime) -> None:
    if shown.year > 2037 and "Africa/Casablanca" in (source, target):
        return  # its changes follow the moon and are listed to the end of 2037
    stretch = next(
        (each for each in stretches(source, target) if shown.year <= each.last), stretches(source, target)[-1]
    )
    other = shown.replace(tzinfo=ZoneInfo(source)).astimezone(ZoneInfo(target)).replace(tzinfo=None)
    assert (other - shown).total_seconds() == difference(stretch, shown)


def test_years_of_one_rule_are_one_stretch() -> None:
    last = stretches("UTC", "Europe/Berlin")[-1]
    march, october = YearlyChange(3, 25, 6, 3600, 7200), YearlyChange(10, 25, 6, 3600, 3600)
    assert last == Stretch(1996, 2037, 3600, (march, october))
    assert len(stretches("UTC", "America/New_York")) == 6


def computed(value: exp.Expr) -> list[date]:
    """Return what DuckDB makes of an expression, or the periods of a spine."""
    query = value if isinstance(value, exp.Select) else exp.select(value)
    return sorted(row[0] for row in duckdb.sql(query.sql("duckdb")).fetchall())


@pytest.mark.table(
    ("months", "first_month", "day", "first"),
    [
        (1, 1, date(2024, 2, 29), date(2024, 2, 1)),
        (3, 1, date(2024, 6, 30), date(2024, 4, 1)),
        (12, 1, date(2024, 12, 31), date(2024, 1, 1)),
        (3, 2, date(2024, 1, 31), date(2023, 11, 1)),
        (12, 4, date(2024, 3, 31), date(2023, 4, 1)),
        (12, 4, date(2024, 4, 1), date(2024, 4, 1)),
    ],
)
def test_the_first_day_of_a_period(months: int, first_month: int, day: date, first: date) -> None:
    period = DUCKDB.first_of_period(DUCKDB.literal(day, "date"), months, first_month)
    assert computed(DUCKDB.as_date(period)) == [first]


@pytest.mark.table(
    ("day", "monday", "sunday"),
    [(date(2024, 1, 1), date(2024, 1, 1), date(2023, 12, 31)), (date(2024, 1, 7), date(2024, 1, 1), date(2024, 1, 7))],
)
def test_the_first_day_of_a_week(day: date, monday: date, sunday: date) -> None:
    value = DUCKDB.literal(day, "date")
    assert computed(DUCKDB.as_date(DUCKDB.first_of_week(value, sunday=False))) == [monday]
    assert computed(DUCKDB.as_date(DUCKDB.first_of_week(value, sunday=True))) == [sunday]


@pytest.mark.table("days", [0, 1, 9, 10, 99, 100, 101])
def test_a_spine_has_every_period_up_to_the_end(days: int) -> None:
    start = date(2024, 1, 1)
    ends = DUCKDB.literal(start, "date"), DUCKDB.literal(start + timedelta(days=days), "date")
    spine = DUCKDB.spine(*ends, PeriodLength(1, "day", "date"), 1000)
    assert computed(spine) == [start + timedelta(days=number) for number in range(days + 1)]


def test_a_zone_that_shows_the_same_leaves_a_time_as_it_is() -> None:
    value = exp.column("at")
    assert DUCKDB.between_zones(value, "UTC", "Etc/UTC") is value
