"""What the clocks of a time zone show, in SQL.

From UTC to a zone, dialects that carry the IANA zones themselves are asked (`_OWN_ZONES`). SQLite has none, SQL Server
others, and MySQL and MariaDB only where somebody loaded them: there the zone's own changes are written into the
statement, as a CASE over yearly rules and single changes (`transitions`). From 1970 to 2037 that is exact, behind it
the last rule holds on; before 1970 the offset is the one of its first day, where other dialects know the history.

From a zone to UTC the CASE is used in every dialect: a wall-clock time that comes twice or is left out is read
differently by each of them, here as by Python (`fold=0`: the first of the two, the offset before the gap).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from ktx_cli.semantic.model import DAY, MONTH, QUARTER, SECOND, WEEK, YEAR, CalendarSettings
from ktx_cli.semantic.time.calendar import STEPS, UTC_NAME, first_month
from ktx_cli.semantic.time.expressions import (
    as_date,
    as_timestamp,
    call,
    cast,
    enclosed,
    extract,
    floored,
    literal,
    moved,
    negative,
    number,
    plus,
    remainder,
    text,
    word,
)

if TYPE_CHECKING:
    from sqlglot import exp


_OWN_ZONES: Final = frozenset(
    {"duckdb", "postgres", "snowflake", "bigquery", "clickhouse", "redshift", "databricks", "trino"}
)
_ALIAS: Final = "ktx_moment"


def between_zones(value: exp.Expr, source: str, target: str, dialect: str) -> exp.Expr:
    """Return what the clocks of `target` show when those of `source` show a value; both timestamps without a zone."""
    if _are_equal(source, target):
        return value
    if dialect not in _OWN_ZONES:
        return _by_changes(value, source, target, dialect)
    utc = value if _are_equal(source, UTC_NAME) else _by_changes(value, source, UTC_NAME, dialect)
    return utc if _are_equal(UTC_NAME, target) else _by_dialect(utc, target, dialect)


def of_instant(value: exp.Expr, zone: str, dialect: str) -> exp.Expr | None:
    """Return the wall clock of a zone at an instant where the dialect converts at once, else None."""
    if dialect in ("duckdb", "postgres", "redshift"):
        return _at_zone(value, zone)
    if dialect == "snowflake":
        return as_timestamp(call("CONVERT_TIMEZONE", text(zone), value), dialect)
    if dialect == "bigquery":
        return call("DATETIME", value, text(zone))
    if dialect == "trino":
        return as_timestamp(_at_zone(value, zone), dialect)
    return as_timestamp(value, dialect, zone) if dialect == "clickhouse" else None


def utc_of_instant(value: exp.Expr, dialect: str) -> exp.Expr:
    """Return the UTC of an instant, in the dialects `of_instant` has no answer for but SQLite; whole seconds."""
    epoch = literal(datetime(1970, 1, 1), "timestamp", dialect)
    if dialect == "mysql":  # of a TIMESTAMP column this is what is stored, whatever the zone of the session
        return moved(epoch, call("UNIX_TIMESTAMP", value), SECOND, "timestamp", dialect)
    if dialect == "databricks":
        return moved(epoch, call("UNIX_SECONDS", value), SECOND, "timestamp", dialect)
    return as_timestamp(call("SWITCHOFFSET", value, text("+00:00")), dialect)


def _are_equal(source: str, target: str) -> bool:
    found = stretches(source, target)
    return _is_constant(found) and not found[0].before


def _is_constant(found: tuple[Stretch, ...]) -> bool:
    return len(found) == 1 and not found[0].rule and not found[0].listed


def _by_dialect(value: exp.Expr, zone: str, dialect: str) -> exp.Expr:
    if dialect in ("snowflake", "redshift", "databricks"):
        return call("CONVERT_TIMEZONE", text(UTC_NAME), text(zone), value)
    if dialect == "bigquery":
        return call("DATETIME", call("TIMESTAMP", value, text(UTC_NAME)), text(zone))
    if dialect == "trino":
        return as_timestamp(_at_zone(call("WITH_TIMEZONE", value, text(UTC_NAME)), zone), dialect)
    if dialect == "clickhouse":
        return as_timestamp(value, dialect, zone)
    return _at_zone(_at_zone(value, UTC_NAME), zone)


def _at_zone(value: exp.Expr, zone: str) -> exp.Expr:
    from sqlglot import exp

    return exp.AtTimeZone(this=enclosed(value), zone=text(zone))


def _by_changes(value: exp.Expr, source: str, target: str, dialect: str) -> exp.Expr:
    """Return the value moved by the difference of two zones."""
    found = stretches(source, target)
    if dialect == "sqlite" and not _is_constant(found):
        return _named_once(value, found)
    start = as_timestamp(value, dialect) if dialect == "tsql" else value
    return moved(start, _difference(value, found, dialect), SECOND, "timestamp", dialect)


def _named_once(value: exp.Expr, found: tuple[Stretch, ...]) -> exp.Expr:
    """Return the moved value in SQLite, where reading a value is long: it is written once, in a query around it."""
    from sqlglot import exp

    moment = exp.column(_ALIAS)
    later = moved(moment, _difference(moment, found, "sqlite"), SECOND, "timestamp", "sqlite")
    inner = exp.select(exp.alias_(value.copy(), _ALIAS)).subquery(_ALIAS)
    return exp.select(later).from_(inner).subquery()


def _difference(value: exp.Expr, found: tuple[Stretch, ...], dialect: str) -> exp.Expr:
    """Return the seconds to add to a value, as a number or a CASE."""
    from sqlglot import exp

    cases: list[exp.If] = []
    if found[0].rule:
        cases.append(_when(value, _timestamp(datetime(FIRST_YEAR, 1, 1), dialect), number(found[0].before)))
    for stretch in found:
        before = stretch.before
        for change in stretch.listed:
            cases.append(_when(value, _timestamp(change.at, dialect), number(before)))
            before = change.after
        if stretch.rule and stretch.last < LAST_YEAR:
            end = _timestamp(datetime(stretch.last + 1, 1, 1), dialect)
            cases.append(_when(value, end, _of_rule(value, stretch, dialect)))
    last = _of_rule(value, found[-1], dialect) if found[-1].rule else number(before)
    return exp.Case(ifs=cases, default=last) if cases else last


def _of_rule(value: exp.Expr, stretch: Stretch, dialect: str) -> exp.Expr:
    from sqlglot import exp

    before, cases = stretch.before, []
    for change in stretch.rule:
        cases.append(_when(value, _yearly(value, change, dialect), number(before)))
        before = change.after
    return exp.Case(ifs=cases, default=number(before))


def _timestamp(value: datetime, dialect: str) -> exp.Expr:
    return literal(value, "timestamp", dialect)


def _when(value: exp.Expr, limit: exp.Expr, then: exp.Expr) -> exp.If:
    from sqlglot import exp

    return exp.If(this=exp.LT(this=value.copy(), expression=limit), true=then)


def _yearly(value: exp.Expr, change: YearlyChange, dialect: str) -> exp.Expr:
    """Return when the change is in the value's year: the Monday up to six days behind its day, moved to its weekday."""
    if dialect == "sqlite":
        return _yearly_in_sqlite(value, change)
    if dialect in ("mysql", "tsql"):
        return _yearly_by_weeks(value, change, dialect)
    first = first_day(as_date(value, dialect), YEAR, CalendarSettings(), dialect)
    month = moved(first, number(change.month - 1), MONTH, "date", dialect) if change.month > 1 else first
    day = moved(month, number(change.day - 1 + 6 - change.weekday), DAY, "date", dialect)
    monday = first_of_week(day, dialect, sunday=False)
    seconds = number(change.weekday * 86_400 + change.seconds)
    return moved(_midnight(monday, dialect), seconds, SECOND, "timestamp", dialect)


def _yearly_by_weeks(value: exp.Expr, change: YearlyChange, dialect: str) -> exp.Expr:
    """Return the change as the first one after 1900 and whole weeks: it is short, and it stands there many times."""
    if dialect == "mysql":
        month_and_day = text(f"-{change.month:02}-{change.day:02}")
        day = as_date(call("CONCAT", extract("YEAR", value, dialect), month_and_day), dialect)
    else:
        parts = extract("YEAR", value, dialect), number(change.month), number(change.day)
        day = call("DATEFROMPARTS", *parts)
    monday = date(1900, 1, 1)
    passed = units_between(DAY, literal(monday + timedelta(days=change.weekday - 6), "date", dialect), day, dialect)
    first = datetime(1900, 1, 1) + timedelta(days=change.weekday, seconds=change.seconds)
    return moved(literal(first, "timestamp", dialect), floored(passed, 7, dialect), DAY, "timestamp", dialect)


def _midnight(value: exp.Expr, dialect: str) -> exp.Expr:
    if dialect == "clickhouse":
        return call("toDateTime64", cast(value, "String", dialect), number(0), text(UTC_NAME))
    return as_timestamp(value, dialect)


def _yearly_in_sqlite(value: exp.Expr, change: YearlyChange) -> exp.Expr:
    time = str(timedelta(seconds=change.seconds)).zfill(8)
    modifiers = (f"+{change.month - 1} months", f"+{change.day - 1} days", f"weekday {(change.weekday + 1) % 7}")
    return call("STRFTIME", text(f"%Y-%m-%d {time}"), value, text("start of year"), *map(text, modifiers))


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
    here, there = ZoneInfo(source), ZoneInfo(target)
    before = start = _ahead(here, there, _START)
    found: list[Change] = []
    for at in sorted(_candidates(here, source, target)):
        after = _ahead(here, there, at)
        if after != before and _START < at < _END:
            found.append(Change(at, after))
            before = after
    return start, tuple(found)


@functools.cache
def stretches(source: str, target: str) -> tuple[Stretch, ...]:
    """Return the changes between two zones as stretches of years, as few as a greedy look from the past on finds."""
    before, all_changes = changes(source, target)
    by_year: dict[int, list[Change]] = {year: [] for year in range(FIRST_YEAR, LAST_YEAR + 1)}
    for change in all_changes:
        by_year[change.at.year].append(change)
    found: list[Stretch] = []
    year = FIRST_YEAR
    while year <= LAST_YEAR:
        stretch = _longest(year, before, by_year)
        found.append(stretch)
        year = stretch.last + 1
        before = _last_offset(stretch)
    return tuple(found)


def _ahead(here: ZoneInfo, there: ZoneInfo, shown: datetime) -> int:
    """Return the seconds `there` is ahead when the clocks `here` show a time."""
    other = shown.replace(tzinfo=here).astimezone(there).replace(tzinfo=None)
    return round((other - shown).total_seconds())


def _candidates(here: ZoneInfo, source: str, target: str) -> set[datetime]:
    """Return what the clocks `here` show, by the offset before and behind, whenever one of the zones changes."""
    moments = {*_moments(source), *_moments(target)}
    seconds = {_offset(here, moment + by) for moment in moments for by in (-_SECOND, timedelta())}
    return {moment + timedelta(seconds=each) for moment in moments for each in seconds}


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
        listed = tuple(change for each in range(year, last + 1) for change in by_year[each])
        return Stretch(year, last, before, listed=listed)
    return Stretch(year, last, before, rule)


def _rule(years: list[int], by_year: dict[int, list[Change]]) -> tuple[YearlyChange, ...] | None:
    """Return what the changes of all these years follow; empty where none has any, None where they differ."""
    if len({len(by_year[year]) for year in years}) > 1:
        return None
    columns = zip(*(by_year[year] for year in years), strict=True)
    rules = [_transitions_yearly(list(column)) for column in columns]
    return None if None in rules else tuple(rule for rule in rules if rule is not None)


def _transitions_yearly(column: list[Change]) -> YearlyChange | None:
    """Return the rule one change of each year follows: same weekday, time and offset, within seven days of the year."""
    same = {(each.at.weekday(), each.at.time(), each.after) for each in column}
    if len(same) > 1:
        return None
    ((weekday, time, after),) = same
    for back in range(7):
        anchor = column[0].at.date() - _DAY * back
        if (anchor.month, anchor.day) != (2, 29) and all(_fits(anchor, each.at.date()) for each in column):
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
