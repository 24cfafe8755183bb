"""The calendar in Python, which the SQL is compared with: a table by hand, and what must hold of every date."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.semantic.calendar import later, period_of
from ktx_cli.semantic.model import GRAINS, CalendarSettings, SemanticError
from tests.semantic.calendar.reference import periods

MONDAY, SUNDAY = CalendarSettings(), CalendarSettings(week_start="sunday")
MOMENTS = st.datetimes(datetime(1600, 1, 1), datetime(2400, 1, 1))
SETTINGS = st.builds(
    CalendarSettings, week_start=st.sampled_from(["monday", "sunday"]), fiscal_year_start=st.integers(1, 12)
)


@pytest.mark.table(
    ("grain", "settings", "value", "start"),
    [
        ("second", MONDAY, "2024-05-17T13:14:15.999999", "2024-05-17T13:14:15"),
        ("minute", MONDAY, "2024-05-17T13:14:15.999999", "2024-05-17T13:14:00"),
        ("hour", MONDAY, "2024-05-17T13:14:15.999999", "2024-05-17T13:00:00"),
        ("day", MONDAY, "2024-05-17T23:59:59.999999", "2024-05-17"),
        ("week", MONDAY, "2024-05-19", "2024-05-13"),
        ("week", SUNDAY, "2024-05-19", "2024-05-19"),
        ("week", SUNDAY, "2024-05-18", "2024-05-12"),
        ("week", MONDAY, "2025-01-01", "2024-12-30"),
        ("month", MONDAY, "2024-02-29", "2024-02-01"),
        ("quarter", MONDAY, "2024-06-30", "2024-04-01"),
        ("year", MONDAY, "2024-06-30", "2024-01-01"),
        ("fiscal_quarter", CalendarSettings(fiscal_year_start=2), "2024-01-31", "2023-11-01"),
        ("fiscal_quarter", CalendarSettings(fiscal_year_start=4), "2024-03-31", "2024-01-01"),
        ("fiscal_year", CalendarSettings(fiscal_year_start=4), "2024-03-31", "2023-04-01"),
        ("fiscal_year", CalendarSettings(fiscal_year_start=4), "2024-04-01", "2024-04-01"),
        ("fiscal_year", CalendarSettings(fiscal_year_start=11), "2024-11-01T00:00:00", "2024-11-01"),
    ],
)
def test_periods_by_hand(grain: str, settings: CalendarSettings, value: str, start: str) -> None:
    found = period_of(_read(value), grain, settings)
    assert (type(found), found) == (type(_read(start)), _read(start))


def _read(text: str) -> date | datetime:
    return datetime.fromisoformat(text) if "T" in text else date.fromisoformat(text)


@given(MOMENTS, st.sampled_from(GRAINS), SETTINGS)
def test_a_value_lies_in_its_period(moment: datetime, grain: str, settings: CalendarSettings) -> None:
    start = period_of(moment, grain, settings)
    end = later(start, 1, grain)
    assert _midnight(start) <= moment < _midnight(end)
    assert period_of(_midnight(start), grain, settings) == start
    assert period_of(_midnight(end) - timedelta(microseconds=1), grain, settings) == start


@given(MOMENTS, st.integers(0, 40), st.sampled_from(GRAINS), SETTINGS)
def test_periods_follow_each_other(moment: datetime, count: int, grain: str, settings: CalendarSettings) -> None:
    start = period_of(moment, grain, settings)
    found = list(periods(moment, later(start, count, grain), grain, settings))
    assert found == [later(start, index, grain) for index in range(count)]


def _midnight(value: date | datetime) -> datetime:
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


@pytest.mark.table(
    ("day", "count", "unit", "wanted"),
    [
        ("2024-01-31", 1, "month", "2024-02-29"),
        ("2023-01-31", 1, "month", "2023-02-28"),
        ("2024-02-29", 1, "year", "2025-02-28"),
        ("2024-03-31", -1, "month", "2024-02-29"),
        ("2024-05-31", -1, "quarter", "2024-02-29"),
        ("2024-01-15", -13, "month", "2022-12-15"),
        ("2024-02-28", 2, "day", "2024-03-01"),
        ("2024-01-31T10:00:00", 1, "month", "2024-02-29T10:00:00"),
        ("2024-01-31T23:30:00", 90, "minute", "2024-02-01T01:00:00"),
    ],
)
def test_later_by_hand(day: str, count: int, unit: str, wanted: str) -> None:
    assert later(_read(day), count, unit) == _read(wanted)


@pytest.mark.table("grain", ["second", "minute", "hour"])
def test_a_date_has_no_hours(grain: str) -> None:
    for refuse in (lambda: period_of(date(2024, 1, 1), grain, MONDAY), lambda: later(date(2024, 1, 1), 1, grain)):
        with pytest.raises(SemanticError) as caught:
            refuse()
        assert (caught.value.code, str(caught.value)) == ("grain", f"a date cannot be truncated to {grain}")


def test_an_unknown_grain_is_named_with_the_nearest() -> None:
    with pytest.raises(SemanticError) as caught:
        period_of(date(2024, 1, 1), "weeks", MONDAY)
    assert (caught.value.code, caught.value.hint) == ("unknown_name", "did you mean `week`?")


def test_the_calendar_ends() -> None:
    with pytest.raises(OverflowError):
        later(date(9999, 12, 1), 1, "month")
