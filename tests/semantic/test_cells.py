"""The stretch of time a period's number is about, without a database."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from ktx_cli.semantic.calendar import later
from ktx_cli.semantic.cells import NotPlacedError, Period, Stretch, stretch, whole_stretch
from ktx_cli.semantic.model import CalendarSettings, Cumulative, Span
from ktx_cli.semantic.plan.plan import Treatment

CALENDAR = CalendarSettings()
MARCH_ON = (date(2024, 3, 20), date(2024, 5, 4))
OPEN = (None, None)
SEVEN = Treatment(cumulative=Cumulative(window=Span(7, "day")))
MONTH_BEFORE = Treatment(offset=Span(1, "month"))
YEAR_BEFORE = Treatment(offset=Span(1, "year"))
BOTH = Treatment(cumulative=Cumulative(window=Span(7, "day")), offset=Span(1, "month"))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.table(
    ("period", "grain", "treatment", "asked", "start", "end"),
    [
        ("2024-05-01", "month", SEVEN, OPEN, "2024-05-25", "2024-06-01"),
        ("2024-05-01", "month", SEVEN, MARCH_ON, "2024-04-27", "2024-05-04"),
        ("2024-03-01", "month", SEVEN, MARCH_ON, "2024-03-25", "2024-04-01"),
        ("2024-05-01", "month", MONTH_BEFORE, MARCH_ON, "2024-04-01", "2024-04-04"),
        ("2024-03-01", "month", MONTH_BEFORE, MARCH_ON, "2024-02-20", "2024-03-01"),
        ("2024-05-01", "month", BOTH, MARCH_ON, "2024-03-28", "2024-04-04"),
        ("2024-01-08", "week", YEAR_BEFORE, OPEN, "2023-01-08", "2023-01-15"),
        ("2024-01-08", "week", YEAR_BEFORE, (None, date(2024, 1, 10)), "2023-01-08", "2023-01-10"),
        ("2024-03-30", "day", MONTH_BEFORE, (None, date(2024, 3, 31)), "2024-02-29", "2024-03-01"),
        ("2024-03-30", "day", MONTH_BEFORE, (None, at("2024-03-30T18:00")), "2024-02-29", "2024-02-29T18:00"),
    ],
)
def test_from_when_to_when(
    period: str, grain: str, treatment: Treatment, asked: tuple[date | None, date | None], start: str, end: str
) -> None:
    assert stretch(whole(period, grain), treatment, asked, CALENDAR) == Stretch(at(start), at(end))


def whole(period: str, grain: str) -> Period:
    return Period(at(period), later(at(period), 1, grain), grain)


@pytest.mark.table(
    ("to_date", "period", "grain", "asked", "start", "end"),
    [
        ("year", "2024-05-01", "month", OPEN, "2024-01-01", "2024-06-01"),
        ("year", "2024-05-01", "month", MARCH_ON, "2024-01-01", "2024-05-04"),
        ("month", "2024-01-01", "quarter", OPEN, "2024-03-01", "2024-04-01"),
        ("month", "2024-01-01", "quarter", (None, date(2024, 2, 10)), "2024-02-01", "2024-02-10"),
        ("month", "2024-01-29", "week", OPEN, "2024-02-01", "2024-02-05"),
        ("month", "2024-02-26", "week", OPEN, "2024-03-01", "2024-03-04"),
        ("week", "2024-01-01", "month", OPEN, "2024-01-29", "2024-02-01"),
        ("fiscal_year", "2024-01-01", "year", OPEN, "2024-10-01", "2025-01-01"),
    ],
)
def test_to_date_counts_to_the_end_of_the_period(
    to_date: str, period: str, grain: str, asked: tuple[date | None, date | None], start: str, end: str
) -> None:
    treatment = Treatment(cumulative=Cumulative(to_date=to_date))
    calendar = CalendarSettings(fiscal_year_start=10)
    assert stretch(whole(period, grain), treatment, asked, calendar) == Stretch(at(start), at(end))


def test_all_time_has_no_start() -> None:
    treatment = Treatment(cumulative=Cumulative())
    assert stretch(whole("2024-05-01", "month"), treatment, OPEN, CALENDAR) == Stretch(None, at("2024-06-01"))


@pytest.mark.table("treatment", [SEVEN, MONTH_BEFORE, BOTH, Treatment(cumulative=Cumulative())])
def test_a_period_outside_of_the_time_range_has_no_rows(treatment: Treatment) -> None:
    assert stretch(whole("2024-02-01", "month"), treatment, MARCH_ON, CALENDAR).is_empty


def test_a_period_of_no_known_grain_has_none_before_it() -> None:
    odd = Period(at("2024-01-03"), at("2024-01-20"), None)
    assert stretch(odd, SEVEN, OPEN, CALENDAR) == Stretch(at("2024-01-13"), at("2024-01-20"))
    with pytest.raises(NotPlacedError):
        stretch(odd, MONTH_BEFORE, OPEN, CALENDAR)


@pytest.mark.table(
    ("treatment", "asked", "start", "end"),
    [
        (Treatment(cumulative=Cumulative()), MARCH_ON, None, "2024-05-04"),
        (Treatment(cumulative=Cumulative()), OPEN, None, None),
        (SEVEN, MARCH_ON, "2024-04-27", "2024-05-04"),
        (MONTH_BEFORE, MARCH_ON, "2024-02-20", "2024-04-04"),
        (Treatment(cumulative=Cumulative(to_date="month")), MARCH_ON, "2024-05-01", "2024-05-04"),
    ],
)
def test_without_periods_the_time_range_says_from_when_to_when(
    treatment: Treatment, asked: tuple[date | None, date | None], start: str | None, end: str | None
) -> None:
    found = whole_stretch(treatment, asked, CALENDAR)
    assert found == Stretch(start and at(start), end and at(end))  # type: ignore[arg-type]


def test_a_window_without_an_end_has_no_place() -> None:
    with pytest.raises(NotPlacedError):
        whole_stretch(SEVEN, OPEN, CALENDAR)
