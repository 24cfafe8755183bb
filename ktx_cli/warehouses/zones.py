"""Computes by how much the clocks of two time zones differ, and when that changes, for dialects without zones.

From 1970 to 2037 the changes are exact, behind 2037 the last yearly rule holds on; before 1970 the offset is the one of
its first day, where databases with zones of their own know the history.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

FIRST_YEAR: Final = 1970
"""Before its first day clocks differ as they did then."""

LAST_YEAR: Final = 2037
"""To its end changes are known one by one; the rule of the last years, where there is one, holds on behind it."""

_FEWEST_YEARS: Final = 3
_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
_START, _END = datetime(FIRST_YEAR, 1, 1), datetime(LAST_YEAR + 1, 1, 1)


@dataclass(frozen=True, slots=True)
class Change:
    """A change: from the timestamp `at` (without a zone) on the difference is `after` seconds."""

    at: datetime
    after: int


@dataclass(frozen=True, slots=True)
class YearlyChange:
    """A change of every year: the first `weekday` (0: Monday) on or after `month`/`day`, `seconds` after midnight."""

    month: int
    day: int
    weekday: int
    seconds: int
    after: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Years from `first` to `last` whose changes follow a rule or are listed; `before`: the difference at the start."""

    first: int
    last: int
    before: int
    rule: tuple[YearlyChange, ...] = ()
    listed: tuple[Change, ...] = ()


@functools.cache
def changes(source: str, target: str) -> tuple[int, tuple[Change, ...]]:
    """Return by how much the clocks of `target` are ahead of those of `source`, and when that changes, in order.

    `at` is what the clocks of `source` show. A time they show twice is the first one, a time they skip is read by the
    offset before it, as Python does with `fold=0`.
    """
    source_zone, target_zone = ZoneInfo(source), ZoneInfo(target)
    before = start = _ahead(source_zone, target_zone, _START)
    result: list[Change] = []
    for at in sorted(_candidates(source_zone, source, target)):
        after = _ahead(source_zone, target_zone, at)
        if after != before and _START < at < _END:
            result.append(Change(at, after))
            before = after
    return start, tuple(result)


@functools.cache
def stretches(source: str, target: str) -> tuple[Stretch, ...]:
    """Return the changes between two zones as stretches of years, as few as a greedy look from the past on finds."""
    before, all_changes = changes(source, target)
    by_year: dict[int, list[Change]] = {year: [] for year in range(FIRST_YEAR, LAST_YEAR + 1)}
    for change in all_changes:
        by_year[change.at.year].append(change)
    result: list[Stretch] = []
    year = FIRST_YEAR
    while year <= LAST_YEAR:
        stretch = _longest(year, before, by_year)
        result.append(stretch)
        year = stretch.last + 1
        before = _last_offset(stretch)
    return tuple(result)


def _ahead(source_zone: ZoneInfo, target_zone: ZoneInfo, shown: datetime) -> int:
    """Return the seconds the target is ahead when the clocks of the source show a time."""
    other = shown.replace(tzinfo=source_zone).astimezone(target_zone).replace(tzinfo=None)
    return round((other - shown).total_seconds())


def _candidates(source_zone: ZoneInfo, source: str, target: str) -> set[datetime]:
    """Return what the clocks of the source show, by the offset before and behind, whenever one of the zones changes."""
    moments = {*_moments(source), *_moments(target)}
    offsets = {_offset(source_zone, moment + by) for moment in moments for by in (-_SECOND, timedelta())}
    return {moment + timedelta(seconds=offset) for moment in moments for offset in offsets}


@functools.cache
def _moments(zone: str) -> tuple[datetime, ...]:
    """Return the first second of every other offset of a zone, in UTC."""
    where = ZoneInfo(zone)
    days = [_START + _DAY * number for number in range(-1, (_END - _START).days + 2)]
    offsets = [(day, _offset(where, day)) for day in days]
    return tuple(
        _border(where, low, high, before) for (low, before), (high, after) in pairwise(offsets) if after != before
    )


def _border(where: ZoneInfo, low: datetime, high: datetime, before: int) -> datetime:
    while high - low > _SECOND:
        middle = low + timedelta(seconds=(high - low) // (2 * _SECOND))
        low, high = (middle, high) if _offset(where, middle) == before else (low, middle)
    return high


def _offset(where: ZoneInfo, utc: datetime) -> int:
    offset = utc.replace(tzinfo=UTC).astimezone(where).utcoffset()
    assert offset is not None  # zones of the list always know it
    return round(offset.total_seconds())


def _longest(year: int, before: int, by_year: dict[int, list[Change]]) -> Stretch:
    last, rule = year, _rule([year], by_year)
    while rule is not None and last < LAST_YEAR and (not by_year[year] or by_year[year][-1].after == before):
        longer = _rule([*range(year, last + 2)], by_year)
        if longer is None:
            break
        last, rule = last + 1, longer
    if not rule or last - year + 1 < _FEWEST_YEARS:
        last = last if not by_year[year] else year
        listed = tuple(change for own in range(year, last + 1) for change in by_year[own])
        return Stretch(year, last, before, listed=listed)
    return Stretch(year, last, before, rule)


def _rule(years: list[int], by_year: dict[int, list[Change]]) -> tuple[YearlyChange, ...] | None:
    """Return what the changes of all these years follow; empty where none has any, None where they differ."""
    if len({len(by_year[year]) for year in years}) > 1:
        return None
    columns = zip(*(by_year[year] for year in years), strict=True)
    rules = [_yearly_change(list(column)) for column in columns]
    return None if None in rules else tuple(rule for rule in rules if rule is not None)


def _yearly_change(column: list[Change]) -> YearlyChange | None:
    """Return the rule one change of each year follows: same weekday, time and offset, within seven days of the year."""
    same = {(change.at.weekday(), change.at.time(), change.after) for change in column}
    if len(same) > 1:
        return None
    ((weekday, time, after),) = same
    for back in range(7):
        anchor = column[0].at.date() - _DAY * back
        if (anchor.month, anchor.day) != (2, 29) and all(_fits(anchor, change.at.date()) for change in column):
            return YearlyChange(
                anchor.month, anchor.day, weekday, time.hour * 3600 + time.minute * 60 + time.second, after
            )
    return None


def _fits(anchor: date, day: date) -> bool:
    return 0 <= (day - date(day.year, anchor.month, anchor.day)).days <= 6


def _last_offset(stretch: Stretch) -> int:
    if stretch.rule:
        return stretch.rule[-1].after
    return stretch.listed[-1].after if stretch.listed else stretch.before
