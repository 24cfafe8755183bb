"""The stretch of time a question asks for, as dates."""

from __future__ import annotations

from datetime import date, datetime

from ktx_cli.context.semantic.errors import SemanticError
from ktx_cli.context.semantic.model import DAY, MONTH, SECOND, WEEK, Span
from ktx_cli.context.semantic.query import AskedRange
from ktx_cli.context.semantic.time import later, parse_range_value, parse_span
from ktx_cli.context.semantic.time.calendar import STEPS

Bounds = tuple[date | datetime | None, date | datetime | None]
"""From when (included) to when (not), each None where it is open."""


def asked_range(asked: AskedRange, now: datetime) -> Bounds:
    """Return start and end (not included); of `last`: up to the end of the day of `now`."""
    if asked.last is not None:
        span = parse_span(asked.last)
        end = later(now.date(), 1, "day")
        try:
            return later(end, -span.count, span.unit), end
        except OverflowError as error:
            raise SemanticError(str(error), hint="ask for times within the years 1 to 9999") from None
    start = None if asked.start is None else parse_range_value(asked.start)
    stop = None if asked.end is None else parse_range_value(asked.end)
    if start is not None and stop is not None and instant(start) >= instant(stop):
        raise SemanticError(
            f"time_range ends at {stop}, not after its start {start}",
            hint="the end is not included: 2024-01-01 to 2025-01-01",
        )
    return start, stop


def length(start: date | datetime, end: date | datetime) -> Span:
    """Return the length of a stretch of time: in whole months where it is some, else in days, else in seconds."""
    first, last = instant(start), instant(end)
    months = (last.year - first.year) * 12 + last.month - first.month
    if months > 0 and later(first, months, MONTH) == last:
        return Span(months, MONTH)
    seconds = int((last - first).total_seconds())
    return Span(seconds, SECOND) if seconds % 86_400 else Span(seconds // 86_400, DAY)


def added(one: Span, other: Span) -> Span | None:
    """Return the length of both together, None of days and months."""
    (size, base), (step, of) = STEPS[one.unit], STEPS[other.unit]
    if base == of:
        if one.unit == other.unit:
            return Span(one.count + other.count, one.unit)
        return Span(one.count * size + other.count * step, base)
    return None


def lines_up(span: Span, grain: str) -> bool:
    """Say whether periods of a grain lie as far apart as a length is: a whole number of them, or each has its own.

    A day has its own a month before: the one of the same number, or the last of that month.
    """
    size, base = STEPS[span.unit]
    step, of = STEPS[grain]
    if base == of:
        return span.count * size % step == 0
    return of == SECOND or (grain == DAY and base == MONTH)


def differs_in_length(span: Span, grain: str) -> bool:
    """Say whether several periods of a grain may have the same one that long before: days, and months."""
    return STEPS[span.unit][1] == MONTH and STEPS[grain][1] != MONTH and grain != WEEK


def earlier_range(start: date | datetime | None, end: date | datetime | None, back: Span) -> Bounds:
    """Return the stretch of time a length before another one.

    Of the last days of a longer month nothing would be left; all of them have the last day of the shorter one.
    """
    first = None if start is None else later(start, -back.count, back.unit)
    last = None if end is None else later(end, -back.count, back.unit)
    if first is not None and last is not None and instant(first) >= instant(last):
        last = later(instant(first).date(), 1, DAY)
    return first, last


def instant(value: date | datetime) -> datetime:
    """Return a date as its first moment."""
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
