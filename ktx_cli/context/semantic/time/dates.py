"""The first day of a date's week, month, quarter or year in SQL, calendar or fiscal."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Final

from ktx_cli.context.semantic.model import DAY, MONTH, QUARTER, WEEK, YEAR, CalendarSettings
from ktx_cli.context.semantic.time.calendar import STEPS, first_month
from ktx_cli.context.semantic.time.expressions import (
    as_date,
    call,
    extract,
    floored,
    literal,
    negative,
    number,
    plus,
    remainder,
    text,
    word,
)
from ktx_cli.context.semantic.time.moving import moved

if TYPE_CHECKING:
    from sqlglot import exp

_COUNTING: Final = {"mysql": 1, "tsql": 1, "snowflake": 1, "clickhouse": 1900}
"""Dialects in which periods are counted from a year on, whose 1st of January is a Monday.

MySQL has no DATE_TRUNC, SQL Server only since 2022, Snowflake's week begins where a session says, and in ClickHouse it
gives dates from 1970 to 2149 alone. A period that began before that year is not right.
"""

_UNITS: Final = {1: MONTH, 3: QUARTER, 12: YEAR}


def first_day(value: exp.Expr, grain: str, settings: CalendarSettings, dialect: str) -> exp.Expr:
    """Return the first day of the period a date lies in, for grains from the day on; `value` is a date."""
    if grain == DAY:
        return value.copy()
    if grain == WEEK:
        return first_of_week(value, dialect, sunday=settings.week_start == "sunday")
    length, first = STEPS[grain][0], first_month(grain, settings)
    if dialect in _COUNTING:
        return _by_counting(value, date(_COUNTING[dialect], first, 1), MONTH, length, dialect)
    if dialect != "sqlite" and first == 1:
        return _truncated(value, _UNITS[length], dialect)
    month = call("DATE", value, text("start of month")) if dialect == "sqlite" else _truncated(value, MONTH, dialect)
    if length == 1:
        return month
    back = remainder(plus(extract("MONTH", value, dialect), number(12 - first)), length)
    return moved(month, negative(back), MONTH, "date", dialect)


def first_of_week(value: exp.Expr, dialect: str, *, sunday: bool) -> exp.Expr:
    """Return the Monday or Sunday on or before a date, whatever the session takes for the first day of a week."""
    if dialect == "sqlite":
        return call("DATE", value, text("-6 days"), text("weekday 0" if sunday else "weekday 1"))
    if dialect in _COUNTING:
        return _by_counting(value, date(_COUNTING[dialect], 1, 7 if sunday else 1), DAY, 7, dialect)
    if dialect == "bigquery":
        return call("DATE_TRUNC", value, call("WEEK", word("SUNDAY" if sunday else "MONDAY")))
    if not sunday:
        return _truncated(value, WEEK, dialect)
    monday = _truncated(moved(value, number(1), DAY, "date", dialect), WEEK, dialect)
    return moved(monday, number(-1), DAY, "date", dialect)


def units_between(unit: str, start: exp.Expr, end: exp.Expr, dialect: str) -> exp.Expr:
    """Return the days, or the months from a first of a month, between two dates in a dialect that counts periods."""
    if dialect == "clickhouse":
        return call("dateDiff", text(unit), start, end)
    if dialect == "mysql":
        days = unit == DAY
        return call("DATEDIFF", end, start) if days else call("TIMESTAMPDIFF", word(unit.upper()), start, end)
    return call("DATEDIFF", word(unit.upper()), start, end)


def _by_counting(value: exp.Expr, origin: date, unit: str, step: int, dialect: str) -> exp.Expr:
    """Return the last date in steps from an origin that is not after a date: the date stands in it once."""
    start = literal(origin, "date", dialect)
    passed = floored(units_between(unit, start, value, dialect), step, dialect)
    return moved(start, passed, unit, "date", dialect)


def _truncated(value: exp.Expr, unit: str, dialect: str) -> exp.Expr:
    if dialect == "bigquery":
        return call("DATE_TRUNC", value, word(unit.upper()))
    found = call("DATE_TRUNC", text(unit.upper()), value)
    return found if dialect == "trino" else as_date(found, dialect)  # of a date the others give a timestamp
