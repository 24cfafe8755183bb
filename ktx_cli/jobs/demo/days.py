"""The company's three years, its date keys and its fiscal calendar (the fiscal year begins on 1 February)."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

FIRST_DAY = date(2023, 1, 1)
LAST_DAY = date(2025, 12, 31)
CALENDAR_END = date(2026, 1, 31)
"""Last day of the date table: the end of the fiscal year that `LAST_DAY` lies in."""

DAY_COUNT = (LAST_DAY - FIRST_DAY).days + 1
FISCAL_YEAR_START_MONTH = 2

Row = tuple[Any, ...]
"""One row in the order of its table's columns; None is NULL."""


def day_at(offset: int) -> date:
    """Return the day `offset` days after `FIRST_DAY`."""
    return FIRST_DAY + timedelta(days=offset)


def date_key(day: date) -> int:
    """Return the key of a day in the date table: 20250131."""
    return day.year * 10_000 + day.month * 100 + day.day


DATE_KEYS: tuple[int, ...] = tuple(date_key(day_at(offset)) for offset in range((CALENDAR_END - FIRST_DAY).days + 1))
"""Date keys by day offset, up to `CALENDAR_END`."""


def month_starts() -> list[date]:
    """Return the first day of every month from `FIRST_DAY` to `LAST_DAY`."""
    years = range(FIRST_DAY.year, LAST_DAY.year + 1)
    return [date(year, month, 1) for year in years for month in range(1, 13)]


def fiscal_month(day: date) -> int:
    """Return 1 (February) to 12 (January)."""
    return (day.month - FISCAL_YEAR_START_MONTH) % 12 + 1


def fiscal_year(day: date) -> int:
    """Return the fiscal year, named after the calendar year it begins in: January 2026 is in 2025."""
    return day.year if day.month >= FISCAL_YEAR_START_MONTH else day.year - 1


def calendar_rows() -> list[Row]:
    """Return the rows of `finance.calendar`, one a day."""
    return [_calendar_row(day_at(offset)) for offset in range(len(DATE_KEYS))]


def _calendar_row(day: date) -> Row:
    month = fiscal_month(day)
    return (
        date_key(day),
        day,
        day.year,
        (day.month + 2) // 3,
        day.month,
        day.replace(day=1),
        ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")[day.weekday()],
        day.weekday() >= 5,
        fiscal_year(day),
        (month + 2) // 3,
        month,
    )
