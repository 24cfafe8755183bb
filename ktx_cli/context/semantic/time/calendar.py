"""The calendar in Python: to which period a value belongs, what comes next; the SQL must give the same."""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Final, TypeVar

from ktx_cli.context.semantic.errors import SemanticError
from ktx_cli.context.semantic.model import (
    DAY,
    FISCAL_QUARTER,
    FISCAL_YEAR,
    HOUR,
    MINUTE,
    MONTH,
    QUARTER,
    SECOND,
    WEEK,
    YEAR,
    CalendarSettings,
)
from ktx_cli.context.semantic.time.parsing import require_grain

Moment = TypeVar("Moment", date, datetime)

STEPS: Final = {
    SECOND: (1, SECOND),
    MINUTE: (60, SECOND),
    HOUR: (3600, SECOND),
    DAY: (1, DAY),
    WEEK: (7, DAY),
    MONTH: (1, MONTH),
    QUARTER: (3, MONTH),
    YEAR: (12, MONTH),
    FISCAL_QUARTER: (3, MONTH),
    FISCAL_YEAR: (12, MONTH),
}
"""The length of each grain, as a count of seconds, days or months."""

FINE: Final = (SECOND, MINUTE, HOUR)
"""Grains finer than a day: their periods begin at a timestamp, those of all others on a date."""

_CLEARED: Final = {SECOND: 1, MINUTE: 2, HOUR: 3}


def period_of(value: date | datetime, grain: str, settings: CalendarSettings) -> date | datetime:
    """Return the start of the period a value without a zone lies in: a `datetime` under a day, else a `date`.

    Raises `SemanticError` (code `grain`) for such a grain of a plain date.
    """
    require_grain(grain)
    if grain in FINE:
        if not isinstance(value, datetime):
            raise too_fine(grain)
        kept = value.replace(microsecond=0)
        return kept.replace(**dict.fromkeys(("second", "minute")[: _CLEARED[grain] - 1], 0))  # type: ignore[arg-type]
    day = value.date() if isinstance(value, datetime) else value
    if grain == WEEK:
        return day - timedelta(days=(day.weekday() + (settings.week_start == "sunday")) % 7)
    if grain == DAY:
        return day
    return later(day.replace(day=1), -(months_into(day.month, grain, settings)), MONTH)


def months_into(month: int, grain: str, settings: CalendarSettings) -> int:
    """Return how many whole months of its period lie before a month (1 to 12)."""
    return (month + 12 - first_month(grain, settings)) % STEPS[grain][0]


def first_month(grain: str, settings: CalendarSettings) -> int:
    """Return the month in which a year of the grain's kind begins, 1 to 12."""
    return settings.fiscal_year_start if grain in (FISCAL_QUARTER, FISCAL_YEAR) else 1


def nests(fine: str, coarse: str, settings: CalendarSettings) -> bool:
    """Say whether every period of a grain lies in one period of another: a month in a quarter, a week in no month."""
    (size, base), (step, of) = STEPS[fine], STEPS[coarse]
    if base == MONTH or of == MONTH:
        if base != of:
            return base == SECOND or fine == DAY
        return step % size == 0 and (first_month(fine, settings) - first_month(coarse, settings)) % size == 0
    seconds = {SECOND: 1, DAY: 86_400}
    return step * seconds[of] % (size * seconds[base]) == 0


def later(value: Moment, count: int, unit: str) -> Moment:
    """Return a value moved by calendar units; a day the month has not becomes its last. A negative count goes back.

    Raises `SemanticError` (code `grain`) for a unit under a day of a plain date, `OverflowError` beyond year 9999.
    """
    require_grain(unit)
    size, base = STEPS[unit]
    if base == MONTH:
        return _months_later(value, count * size)
    if base == DAY:
        return value + timedelta(days=count * size)
    if not isinstance(value, datetime):
        raise too_fine(unit)
    return value + timedelta(seconds=count * size)


def periods(
    start: date | datetime, end: date | datetime, grain: str, settings: CalendarSettings
) -> Iterator[date | datetime]:
    """Yield the start of every period that has a part in the half-open range from `start` to `end`."""
    period = period_of(start, grain, settings)
    while _is_before(period, end):
        yield period
        period = later(period, 1, grain)


def too_fine(grain: str) -> SemanticError:
    """Return the error for a grain under a day of what has no time of day."""
    return SemanticError(f"a date has no {grain}", hint=f"use the granularity {DAY} or a coarser one", code="grain")


def _months_later(value: Moment, months: int) -> Moment:
    index = value.year * 12 + value.month - 1 + months
    year, month = divmod(index, 12)
    if not 1 <= year <= 9999:
        raise OverflowError(f"{value} moved by {months} months leaves the years 1 to 9999")
    return value.replace(year=year, month=month + 1, day=min(value.day, calendar.monthrange(year, month + 1)[1]))


def _is_before(period: date | datetime, end: date | datetime) -> bool:
    return _as_datetime(period) < _as_datetime(end)


def _as_datetime(value: date | datetime) -> datetime:
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
