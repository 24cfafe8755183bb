"""SQL for dates, timestamps and time zones, with the defaults for all dialects.

For dialects without time zones, it computes the difference between two zones and when it changes. From 1970 to 2037 the
changes are exact; after 2037 the last yearly rule continues. Before 1970 the offset is that of the first day, whereas
databases with their own zones know the history.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Final, Literal
from zoneinfo import ZoneInfo

from ktx_cli.faces import exp
from ktx_cli.warehouses.trees import call, data_type, enclosed, multiple, negative, number, plus, remainder, text, word

FIRST_YEAR: Final = 1970
"""The year before which the offset on its first day applies."""

LAST_YEAR: Final = 2037
"""The last year with individually known changes; after it, the rule for the last years continues, if any."""

_FEWEST_YEARS: Final = 3
_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
_START, _END = datetime(FIRST_YEAR, 1, 1), datetime(LAST_YEAR + 1, 1, 1)


@dataclass(frozen=True, slots=True)
class Change:
    """A change: from the timestamp `at` on (without a zone), the difference is `after` seconds."""

    at: datetime
    after: int


@dataclass(frozen=True, slots=True)
class YearlyChange:
    """A yearly change: on the first `weekday` (0 is Monday) on or after `month`/`day`, `seconds` after midnight."""

    month: int
    day: int
    weekday: int
    seconds: int
    after: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """The years from `first` to `last`, whose changes follow a rule or are listed. `before`: the initial difference."""

    first: int
    last: int
    before: int
    rule: tuple[YearlyChange, ...] = ()
    listed: tuple[Change, ...] = ()


@functools.cache
def changes(source: str, target: str) -> tuple[int, tuple[Change, ...]]:
    """Return the difference between the local times of `target` and `source`, and its changes, in order.

    `at` is in the local time of `source`. A time that occurs twice is the first one, and a skipped time uses the offset
    before it, as in Python with `fold=0`.
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
    """Return the changes between two zones as a few ranges of years, chosen greedily from the earliest year on."""
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
    """Return how many seconds the target is ahead at a local time in the source zone."""
    other = shown.replace(tzinfo=source_zone).astimezone(target_zone).replace(tzinfo=None)
    return round((other - shown).total_seconds())


def _candidates(source_zone: ZoneInfo, source: str, target: str) -> set[datetime]:
    """Return the local times in the source zone, with the offsets before and after, at which either zone changes."""
    moments = {*_moments(source), *_moments(target)}
    offsets = {_offset(source_zone, moment + by) for moment in moments for by in (-_SECOND, timedelta())}
    return {moment + timedelta(seconds=offset) for moment in moments for offset in offsets}


@functools.cache
def _moments(zone: str) -> tuple[datetime, ...]:
    """Return the first second of each new offset in a zone, in UTC."""
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
    offset = utc.replace(tzinfo=ZoneInfo(UTC)).astimezone(where).utcoffset()
    assert offset is not None  # Zones of the list always have an offset.
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
    """Return the rules for the changes in all these years; empty if there are none, None if they differ."""
    if len({len(by_year[year]) for year in years}) > 1:
        return None
    columns = zip(*(by_year[year] for year in years), strict=True)
    rules = [_yearly_change(list(column)) for column in columns]
    return None if None in rules else tuple(rule for rule in rules if rule is not None)


def _yearly_change(column: list[Change]) -> YearlyChange | None:
    """Return the rule for one change per year: same weekday, time and offset, within seven days of the year."""
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


DateOrTimestamp = Literal["date", "timestamp"]
TimeKind = Literal["date", "timestamp", "instant"]
"""The kind of a value: a calendar date, a timestamp without a zone, or one with a zone (an instant)."""

SECOND, DAY, WEEK, MONTH = "second", "day", "week", "month"
UTC: Final = "UTC"
PERIOD: Final = "period"
"""The name of a spine's column."""

_UNITS: Final = {1: "month", 3: "quarter", 12: "year"}
FIRST, LAST, ENDS = "first_period", "last_period", "ends"
_DIGIT: Final = "digit"
_DAY_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True)
class PeriodLength:
    """A period's length in seconds, days or months. `kind`: the kind of its start."""

    size: int
    unit: str
    kind: DateOrTimestamp


class TimeArithmetic:
    """The SQL for times in one dialect. Methods return sqlglot trees and copy their arguments.

    A date is a calendar date, a timestamp has no zone, and an instant has one. Units are `second`, `day` and `month`
    unless stated otherwise.
    """

    name: str = ""
    """sqlglot's name for this dialect."""

    timestamp_type: str = "TIMESTAMP"
    """The type of a timestamp without a zone."""

    has_zones: bool = True
    """Whether the database knows the IANA time zones. If not, the changes of a zone are written into the statement."""

    counted_from: int | None = None
    """The year from which weeks and months are counted if the database does not truncate dates correctly.

    Its January 1 is a Monday. Periods that began before that year are wrong.
    """

    casts_cost_indexes: bool = False
    """Whether casting a column to its own type prevents the use of its index."""

    def cast(self, value: exp.Expr, type_name: str) -> exp.Expr:
        """Return a value cast to one of the dialect's types."""
        return exp.Cast(this=value.copy(), to=data_type(type_name, self.name).copy())

    def as_date(self, value: exp.Expr) -> exp.Expr:
        """Return the date of a date or timestamp."""
        return self.cast(value, "DATE")

    def as_timestamp(self, value: exp.Expr) -> exp.Expr:
        """Return a value as a timestamp without a zone."""
        return self.cast(value, self.timestamp_type)

    def literal(self, value: date | datetime, kind: DateOrTimestamp) -> exp.Expr:
        """Return a date or timestamp as a literal in whole seconds, comparable with the results of these methods."""
        if kind == "date":
            return self._date_literal(value.date() if isinstance(value, datetime) else value)
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        return self._timestamp_literal(moment.replace(tzinfo=None).isoformat(" ", "seconds"))

    def _date_literal(self, day: date) -> exp.Expr:
        return self.as_date(text(day.isoformat()))

    def _timestamp_literal(self, moment: str) -> exp.Expr:
        return self.as_timestamp(text(moment))

    def extract(self, part: str, value: exp.Expr) -> exp.Expr:
        """Return part (`YEAR`, `MONTH` or `DAY`) of a date or timestamp as a whole number."""
        return exp.Extract(this=word(part), expression=value.copy())

    def floored(self, count: exp.Expr, step: int) -> exp.Expr:
        """Return the largest multiple of a step up to a non-negative whole number."""
        return count if step == 1 else exp.Mul(this=self._whole_quotient(count, step), expression=number(step))

    def _whole_quotient(self, count: exp.Expr, step: int) -> exp.Expr:
        return exp.Div(this=enclosed(count), expression=number(step), typed=False)

    # Moving

    def moved(self, value: exp.Expr, count: exp.Expr, unit: str, kind: DateOrTimestamp) -> exp.Expr:
        """Return a date or timestamp shifted by a whole number of units, which may be an expression.

        January 31 plus one month is the last day of February. The result is of the same kind.
        """
        later = plus(value, self._interval(count, unit))
        return self.as_date(later) if kind == "date" else later

    def later(self, value: exp.Expr, count: exp.Expr, step: PeriodLength) -> exp.Expr:
        """Return the start of a period shifted by a number of periods."""
        return self.moved(value, multiple(count, step.size), step.unit, step.kind)

    def _interval(self, count: exp.Expr, unit: str) -> exp.Interval:
        given = count.copy() if isinstance(count, exp.Literal) else exp.Paren(this=count.copy())
        return exp.Interval(this=given, unit=word(unit.upper()))

    def _dateadd(self, value: exp.Expr, count: exp.Expr, unit: str) -> exp.Expr:
        return call("DATEADD", word(unit.upper()), count, value)

    def units_between(self, unit: str, start: exp.Expr, end: exp.Expr) -> exp.Expr:
        """Return the days between two dates, or the months from the first day of a month, to count periods."""
        return call("DATEDIFF", word(unit.upper()), start, end)

    # Cutting

    def truncated(self, value: exp.Expr, unit: str) -> exp.Expr:
        """Return the first day of the `week` (from Monday), `month`, `quarter` or `year` that contains a date."""
        return self.as_date(call("DATE_TRUNC", text(unit.upper()), value))

    def truncated_time(self, value: exp.Expr, unit: str) -> exp.Expr:
        """Return a timestamp truncated to the `second`, `minute` or `hour`."""
        return call("DATE_TRUNC", text(unit.upper()), value)

    def first_of_period(self, value: exp.Expr, months: int, first_month: int) -> exp.Expr:
        """Return the first day of the period of 1, 3 or 12 months that contains a date. `first_month`: the first month
        of the year.
        """
        if self.counted_from is not None:
            return self._by_counting(value, date(self.counted_from, first_month, 1), MONTH, months)
        if first_month == 1:
            return self.truncated(value, _UNITS[months])
        return self._back_to(self.truncated(value, MONTH), value, months, first_month)

    def _back_to(self, month: exp.Expr, value: exp.Expr, months: int, first_month: int) -> exp.Expr:
        """Return the first day of a period, given the first day of a month in it."""
        back = remainder(plus(self.extract("MONTH", value), number(12 - first_month)), months)
        return self.moved(month, negative(back), MONTH, "date")

    def first_of_week(self, value: exp.Expr, *, sunday: bool) -> exp.Expr:
        """Return the Monday or Sunday on or before a date, independent of the session's first day of the week."""
        if self.counted_from is not None:
            return self._by_counting(value, date(self.counted_from, 1, 7 if sunday else 1), DAY, 7)
        if not sunday:
            return self.truncated(value, WEEK)
        monday = self.truncated(self.moved(value, number(1), DAY, "date"), WEEK)
        return self.moved(monday, number(-1), DAY, "date")

    def _by_counting(self, value: exp.Expr, origin: date, unit: str, size: int) -> exp.Expr:
        """Return the last date on or before a date, counted in steps from an origin; the date is written only once."""
        start = self.literal(origin, "date")
        passed = self.floored(self.units_between(unit, start, value), size)
        return self.moved(start, passed, unit, "date")

    # Zones

    def localize(self, value: exp.Expr, kind: TimeKind, source: str, target: str) -> exp.Expr:
        """Return a column's value in the form for comparisons: a date, or a timestamp in the local time of `target`.

        A timestamp is taken to be in the zone `source`, an instant is converted, and a date is unchanged.
        """
        if kind == "date":
            return self.as_date(value)
        if kind == "instant":
            return self.of_instant(value, target)
        return self.between_zones(value.copy() if self.casts_cost_indexes else self.as_timestamp(value), source, target)

    def of_instant(self, value: exp.Expr, zone: str) -> exp.Expr:
        """Return the local time in a zone at an instant."""
        return self._at_zone(value, zone)

    def from_utc(self, value: exp.Expr, zone: str) -> exp.Expr:
        """Return the local time in a zone at a UTC timestamp, if the database knows the zones."""
        return self._at_zone(self._at_zone(value, UTC), zone)

    def between_zones(self, value: exp.Expr, source: str, target: str) -> exp.Expr:
        """Return the local time in `target` for a local timestamp in `source`.

        From a zone to UTC, the changes are written out in every dialect, because each dialect handles ambiguous and
        skipped local times differently. Here they are handled as in Python (`fold=0`: the first of the two, the offset
        before the gap).
        """
        if _are_equal(source, target):
            return value
        if not self.has_zones:
            return self._by_changes(value, stretches(source, target))
        utc = value if _are_equal(source, UTC) else self._by_changes(value, stretches(source, UTC))
        return utc if _are_equal(UTC, target) else self.from_utc(utc, target)

    def _at_zone(self, value: exp.Expr, zone: str) -> exp.Expr:
        return exp.AtTimeZone(this=enclosed(value), zone=text(zone))

    def _since_epoch(self, seconds: exp.Expr, zone: str) -> exp.Expr:
        """Return the local time in a zone for seconds since 1970 in UTC."""
        utc = self.moved(self.literal(datetime(1970, 1, 1), "timestamp"), seconds, SECOND, "timestamp")
        return self.between_zones(utc, UTC, zone)

    def _by_changes(self, value: exp.Expr, changes: tuple[Stretch, ...]) -> exp.Expr:
        """Return a timestamp shifted by the difference between two zones."""
        return self.moved(value, self._difference(value, changes), SECOND, "timestamp")

    def _difference(self, value: exp.Expr, changes: tuple[Stretch, ...]) -> exp.Expr:
        """Return the seconds to add to a timestamp, as a number or a CASE."""
        cases: list[exp.If] = []
        if changes[0].rule:
            cases.append(self._when(value, datetime(FIRST_YEAR, 1, 1), number(changes[0].before)))
        for stretch in changes:
            before = stretch.before
            for change in stretch.listed:
                cases.append(self._when(value, change.at, number(before)))
                before = change.after
            if stretch.rule and stretch.last < LAST_YEAR:
                cases.append(self._when(value, datetime(stretch.last + 1, 1, 1), self._of_rule(value, stretch)))
        last = self._of_rule(value, changes[-1]) if changes[-1].rule else number(before)
        return exp.Case(ifs=cases, default=last) if cases else last

    def _of_rule(self, value: exp.Expr, stretch: Stretch) -> exp.Expr:
        before, cases = stretch.before, []
        for change in stretch.rule:
            earlier = exp.LT(this=value.copy(), expression=self._yearly(value, change))
            cases.append(exp.If(this=earlier, true=number(before)))
            before = change.after
        return exp.Case(ifs=cases, default=number(before))

    def _when(self, value: exp.Expr, limit: datetime, then: exp.Expr) -> exp.If:
        return exp.If(this=exp.LT(this=value.copy(), expression=self.literal(limit, "timestamp")), true=then)

    def _yearly(self, value: exp.Expr, change: YearlyChange) -> exp.Expr:
        """Return when a change happens in the value's year: a Monday up to six days earlier, moved to the weekday."""
        first = self.first_of_period(self.as_date(value), 12, 1)
        month = self.moved(first, number(change.month - 1), MONTH, "date") if change.month > 1 else first
        day = self.moved(month, number(change.day - 1 + 6 - change.weekday), DAY, "date")
        monday = self.first_of_week(day, sunday=False)
        seconds = number(change.weekday * _DAY_SECONDS + change.seconds)
        return self.moved(self._midnight(monday), seconds, SECOND, "timestamp")

    def _midnight(self, value: exp.Expr) -> exp.Expr:
        return self.as_timestamp(value)

    def _by_weeks(self, value: exp.Expr, change: YearlyChange, day: exp.Expr) -> exp.Expr:
        """Return a yearly change as the first change after 1900 plus whole weeks. `day`: the earliest possible day.

        This is short, because it occurs many times in a statement.
        """
        monday = date(1900, 1, 1)
        start = self.literal(monday + timedelta(days=change.weekday - 6), "date")
        weeks = self.floored(self.units_between(DAY, start, day), 7)
        first = datetime(1900, 1, 1) + timedelta(days=change.weekday, seconds=change.seconds)
        return self.moved(self.literal(first, "timestamp"), weeks, DAY, "timestamp")

    # Times as texts: what databases without time types need.

    times_are_texts: bool = False
    """Whether times are stored as text or numbers, which must be normalized for comparisons."""

    def comparable_time(self, value: exp.Expr, kind: DateOrTimestamp, zone: str) -> exp.Expr:
        """Return a time as a value with the same order as the time. `zone`: the column's own zone."""
        return value.copy()

    def is_number(self, value: exp.Expr) -> exp.Expr:
        """Return the condition that a time is a number (seconds since 1970) or NULL, for times stored as text."""
        raise NotImplementedError

    def date_part(self, part: str, value: exp.Expr) -> exp.Expr | None:
        """Return EXTRACT expressed in other functions, or None if the dialect cannot compute it, for times stored as
        text.
        """
        raise NotImplementedError

    def date_cut(self, unit: str, value: exp.Expr) -> exp.Expr | None:
        """Return DATE_TRUNC expressed in other functions, or None if the dialect cannot compute it, for times stored as
        text.
        """
        raise NotImplementedError

    def cut_operand(self, made: exp.Expr) -> exp.Expr:
        """Return the operand of an expression created by `date_part` or `date_cut`."""
        raise NotImplementedError

    # Spines

    def spine(self, start: exp.Expr, end: exp.Expr, step: PeriodLength, most: int) -> exp.Select:
        """Return a query with the start of every period from `start` to `end` in the column `period`, unordered.

        At most `most` periods, a power of ten; no row if an end is NULL. The query has no WITH, so it can be used
        anywhere. It is a join of digits, since recursion and series have different limits in each dialect. Rows of a
        digit are dropped as soon as the higher digits alone exceed the end.
        """
        first, last = exp.column(FIRST, ENDS), exp.column(LAST, ENDS)
        count: exp.Expr | None = None
        conditions: list[exp.Expr] = []
        names = [f"d{place}" for place in range(len(str(most)) - 1, 0, -1)]
        for place, name in enumerate(names):
            part = multiple(exp.column(_DIGIT, name), 10 ** (len(names) - 1 - place))
            count = part if count is None else exp.Add(this=count.copy(), expression=part)
            conditions.append(exp.LTE(this=self.later(first, count, step), expression=last.copy()))
        assert count is not None  # There is more than one digit.
        column = exp.alias_(self.later(first, count, step), PERIOD, quoted=True)
        query = exp.select(column).from_(ends(start, end))
        for name in names:
            query = query.join(_digits(name), join_type="cross")
        return query.where(*conditions)


def _are_equal(source: str, target: str) -> bool:
    changes = stretches(source, target)
    return is_constant(changes) and not changes[0].before


def is_constant(changes: tuple[Stretch, ...]) -> bool:
    """Return whether the difference between two zones never changes."""
    return len(changes) == 1 and not changes[0].rule and not changes[0].listed


def ends(start: exp.Expr, end: exp.Expr) -> exp.Subquery:
    """Return the query `ends` with one row: the first and last period of a spine."""
    return exp.select(exp.alias_(start.copy(), FIRST), exp.alias_(end.copy(), LAST)).subquery(ENDS)


def _digits(name: str) -> exp.Subquery:
    rows = exp.union(*(exp.select(exp.alias_(number(digit), _DIGIT)) for digit in range(10)), distinct=False)
    return rows.subquery(name)
