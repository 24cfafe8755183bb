"""The numbers of one fact over time, worked out row by row: what the cases about time axes are held against.

It knows nothing of ktx and of no SQL. A case says itself what its axis is, how a moment is labelled in each column, and
which rows are asked about; this walks over the periods and adds up rows.
"""

from __future__ import annotations

import calendar as months
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

Row = Mapping[str, Any]
Range = tuple[datetime | None, datetime | None]
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "fiscal_quarter": 3, "fiscal_year": 12}
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}


@dataclass(frozen=True)
class Calendar:
    """When weeks and fiscal years begin."""

    sunday: bool = False
    fiscal: int = 1

    def start(self, at: datetime, grain: str) -> datetime:
        """Return when the period begins that a moment is in."""
        day = datetime(at.year, at.month, at.day)
        if grain == "week":
            return day - timedelta(days=(day.weekday() + 1) % 7 if self.sunday else day.weekday())
        if grain in _MONTHS:
            first = self.fiscal if grain.startswith("fiscal") else 1
            index = at.year * 12 + at.month - first
            index -= index % _MONTHS[grain]
            index += first - 1
            return datetime(index // 12, index % 12 + 1, 1)
        seconds = _SECONDS[grain]
        return datetime.min + timedelta(seconds=(at - datetime.min) // timedelta(seconds=seconds) * seconds)

    def label(self, at: datetime, grain: str) -> Any:
        """Return the start of a period as an answer shows it."""
        start = self.start(at, grain)
        return start if grain in ("second", "minute", "hour") else start.date()


def moved(at: datetime, count: int, unit: str) -> datetime:
    """Return the moment so many units later; a day the month has not is its last."""
    if unit in _SECONDS:
        return at + timedelta(seconds=count * _SECONDS[unit])
    index = at.year * 12 + at.month - 1 + count * _MONTHS[unit]
    year, month = index // 12, index % 12 + 1
    return at.replace(year=year, month=month, day=min(at.day, months.monthrange(year, month)[1]))


@dataclass(frozen=True)
class Label:
    """A column of the answer that says something of a moment: `of` a period's start."""

    asked: Any
    name: str
    of: Callable[[datetime], Any]


@dataclass(frozen=True)
class Category:
    """A column of the answer that is the row's own."""

    asked: Any
    name: str
    of: Callable[[Row], Any]


@dataclass(frozen=True)
class Number:
    """A measure: which rows count in a period. `asked` None: one that only others are made of.

    `window`: (count, unit) that end with the period. `to_date`: since this began. `earlier`: (count, unit) back.
    """

    asked: str
    name: str
    column: str | None = "n"
    running: bool = False
    window: tuple[int, str] | None = None
    to_date: str | None = None
    earlier: tuple[int, str] | None = None
    where: Callable[[Row], bool] = lambda row: True


@dataclass(frozen=True)
class Timeline:
    """A question about the rows of one fact."""

    rows: Sequence[Row]
    axis: str
    columns: Sequence[Label | Category]
    numbers: Sequence[Number]
    calendar: Calendar = Calendar()
    asked: Range = (None, None)
    kept: Callable[[Row], bool] = lambda row: True
    fill: bool = False
    time: str = "at"
    shown: Callable[[datetime], bool] = field(default=lambda at: True)

    def answer(self) -> list[tuple[Any, ...]]:
        """Return the rows of the answer."""
        cells: dict[tuple[Any, ...], dict[str, list[Row]]] = {}
        kept = [row for row in self.rows if self.kept(row)]
        periods = self._periods(kept)
        for number in self.numbers:
            if self._is_plain(number):
                found = self._plain(kept)
            else:
                found = [pair for period in periods for pair in self._in_period(kept, period, number)]
            for key, row in found:
                cells.setdefault(key, {}).setdefault(number.name, []).append(row)
        for key in self._empty(periods, cells):
            cells.setdefault(key, {})
        return [
            (*key, *(_value(number, own.get(number.name, ())) for number in self.numbers)) for key, own in cells.items()
        ]

    def _is_plain(self, number: Number) -> bool:
        return not (number.running or number.window or number.to_date or number.earlier)

    def _plain(self, kept: Iterable[Row]) -> list[tuple[tuple[Any, ...], Row]]:
        open_range = self.asked == (None, None)
        found = []
        for row in kept:
            at = row[self.time]
            if (open_range and (at is None or not self.shown(at))) or (at is not None and self._is_asked(at)):
                found.append((self._key(at if at is not None and self.shown(at) else None, row), row))
        return found

    def _key(self, at: datetime | None, row: Row) -> tuple[Any, ...]:
        return tuple(
            each.of(row) if isinstance(each, Category) else None if at is None else each.of(at) for each in self.columns
        )

    def _is_asked(self, at: datetime) -> bool:
        start, end = self.asked
        return (start is None or start <= at) and (end is None or at < end)

    def _periods(self, kept: Iterable[Row]) -> list[datetime]:
        moments = [row[self.time] for row in kept if row[self.time] is not None and self._is_asked(row[self.time])]
        found = sorted({self.calendar.start(at, self.axis) for at in moments if self.shown(at)})
        if not self.fill:
            return found
        start, end = self.asked
        first = self.calendar.start(start, self.axis) if start else min(found)
        last = self.calendar.start(end - timedelta(microseconds=1), self.axis) if end else max(found)
        every = [first]
        while every[-1] < last:
            every.append(moved(every[-1], 1, self.axis))
        return every

    def _in_period(self, kept: Iterable[Row], period: datetime, number: Number) -> list[tuple[tuple[Any, ...], Row]]:
        start, end = self._reach(period, number)
        inside = [
            r
            for r in kept
            if r[self.time] is not None and (start is None or start <= r[self.time]) and r[self.time] < end
        ]
        return [(self._key(period, row), row) for row in inside]

    def _reach(self, period: datetime, number: Number) -> tuple[datetime | None, datetime]:
        """Return from when to when rows count in a period, the time range having cut it."""
        begins, ends = period, moved(period, 1, self.axis)
        start = max(begins, self.asked[0]) if self.asked[0] else begins
        end = min(ends, self.asked[1]) if self.asked[1] else ends
        if number.earlier is not None:
            start, end = self._earlier(begins, ends, start, end, number.earlier)
        if number.running:
            return None, end
        if number.window is not None:
            return moved(end, -number.window[0], number.window[1]), end
        if number.to_date is not None:
            return self.calendar.start(end - timedelta(microseconds=1), number.to_date), end
        return start, end

    def _earlier(
        self, begins: datetime, ends: datetime, start: datetime, end: datetime, back: tuple[int, str]
    ) -> tuple[datetime, datetime]:
        count, unit = back
        if not self._meets(count, unit):  # no period lies there: its own days, so long before
            return moved(start, -count, unit), moved(end, -count, unit)
        there = self.calendar.start(moved(begins, -count, unit), self.axis)
        until = moved(there, 1, self.axis)
        cut = start != begins, end != ends
        return moved(start, -count, unit) if cut[0] else there, moved(end, -count, unit) if cut[1] else until

    def _meets(self, count: int, unit: str) -> bool:
        """Whether a period lies so long before each: weeks do not lie a year apart, months not 28 days."""
        if self.axis in _MONTHS:
            return unit in _MONTHS and count * _MONTHS[unit] % _MONTHS[self.axis] == 0
        return self.axis != "week" if unit in _MONTHS else count * _SECONDS[unit] % _SECONDS[self.axis] == 0

    def _empty(self, periods: Sequence[datetime], cells: Mapping[tuple[Any, ...], Any]) -> list[tuple[Any, ...]]:
        """Return the rows that `fill` adds: every period with every category there is."""
        if not self.fill:
            return []
        own = [index for index, each in enumerate(self.columns) if isinstance(each, Category)]
        groups = {tuple(key[index] for index in own) for key in cells} if own else {()}
        found = []
        for period in periods:
            for group in groups:
                values = iter(group)
                found.append(
                    tuple(next(values) if isinstance(each, Category) else each.of(period) for each in self.columns)
                )
        return found


def _value(number: Number, rows: Iterable[Row]) -> Any:
    kept = [row for row in rows if number.where(row)]
    if number.column is None:
        return len(kept)
    values = [row[number.column] for row in kept if row[number.column] is not None]
    return sum(values) if values else None
