"""What the calendar must give, by its own steps one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime

from ktx_cli.semantic.calendar import later, period_of
from ktx_cli.semantic.model import CalendarSettings


def periods(
    start: date | datetime, end: date | datetime, grain: str, settings: CalendarSettings
) -> Iterator[date | datetime]:
    """Yield the start of every period that has a part in the half-open range from `start` to `end`."""
    period = period_of(start, grain, settings)
    while as_datetime(period) < as_datetime(end):
        yield period
        period = later(period, 1, grain)


def as_datetime(value: date | datetime) -> datetime:
    """Return the first moment of a day, a moment as it is."""
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
