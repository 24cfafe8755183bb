"""The stretch of time a period's number is about, without a database."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from ktx_cli.context.semantic.model import CalendarSettings, Cumulative, Span
from ktx_cli.context.semantic.planning.plan import Treatment
from ktx_cli.context.semantic.stretches import NotPlacedError, Period, Stretch, stretch, whole_stretch
from ktx_cli.context.semantic.time import later

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
    found = stretch(date.fromisoformat(period), grain, treatment, asked, CALENDAR)
    assert found == Stretch(at(start), at(end))


def test_to_date_begins_with_the_whole_period() -> None:
    treatment = Treatment(cumulative=Cumulative(to_date="year"))
    assert stretch(date(2024, 5, 1), "month", treatment, MARCH_ON, CALENDAR) == Stretch(
        at("2024-01-01"), at("2024-05-04")
    )


def test_all_time_has_no_start() -> None:
    treatment = Treatment(cumulative=Cumulative())
    assert stretch(date(2024, 5, 1), "month", treatment, OPEN, CALENDAR) == Stretch(None, at("2024-06-01"))
