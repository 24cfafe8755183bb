"""The stretch of time a number of one period is about, worked out in Python: what `verifying` holds the SQL against."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from ktx_cli.context.semantic.model import CalendarSettings, Cumulative, Span
from ktx_cli.context.semantic.planning.plan import Treatment
from ktx_cli.context.semantic.planning.ranges import instant, lines_up
from ktx_cli.context.semantic.time import later, period_of


@dataclass(frozen=True, slots=True)
class Stretch:
    """Moments from `start` (None: always) to before `end`."""

    start: datetime | None
    end: datetime


def stretch(
    period: date | datetime,
    grain: str,
    treatment: Treatment,
    asked: tuple[date | datetime | None, date | datetime | None],
    calendar: CalendarSettings,
) -> Stretch:
    """Return the moments whose rows make the number of a period (its first day, or moment) of a grain.

    `asked`: the ends of the time range on that time; what it cuts off the period is cut off its window and off its
    earlier value too.
    """
    start = instant(period)
    end = _next(start, grain)
    first, last = (None if each is None else instant(each) for each in asked)
    cut = (max(start, first) if first else start, min(end, last) if last else end)
    if treatment.offset is not None:
        start, cut = _earlier((start, end), cut, treatment.offset, grain, calendar)
    if treatment.cumulative is None:
        return Stretch(*cut)
    return Stretch(_since(treatment.cumulative, start, cut[1], calendar), cut[1])


def _earlier(
    whole: tuple[datetime, datetime],
    cut: tuple[datetime, datetime],
    offset: Span,
    grain: str,
    calendar: CalendarSettings,
) -> tuple[datetime, tuple[datetime, datetime]]:
    """Return the start of the earlier period, and what is left of it."""
    moved = [_back(each, offset) for each in (*whole, *cut)]
    if not lines_up(offset, grain):
        return moved[0], (moved[2], moved[3])
    start = instant(period_of(moved[0], grain, calendar))
    kept = (start if cut[0] == whole[0] else moved[2], _next(start, grain) if cut[1] == whole[1] else moved[3])
    return start, kept


def _since(cumulative: Cumulative, start: datetime, end: datetime, calendar: CalendarSettings) -> datetime | None:
    if cumulative.window is not None:
        return _back(end, cumulative.window)
    return None if cumulative.to_date is None else instant(period_of(start, cumulative.to_date, calendar))


def _back(value: datetime, span: Span) -> datetime:
    return later(value, -span.count, span.unit)


def _next(start: datetime, grain: str) -> datetime:
    return later(start, 1, grain)
