"""Calendar arithmetic in Python and, with the same results, in SQL: periods, shifts, time zones and spans.

This module defines the period of a value; the dialects define the SQL syntax."""

from __future__ import annotations

import calendar
import functools
import re
import zoneinfo
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final, TypeVar
from zoneinfo import ZoneInfo

from ktx_cli.core import Command, ConfigError, Hint
from ktx_cli.faces import exp
from ktx_cli.project import KtxConfig
from ktx_cli.semantic.model import (
    DAY,
    FISCAL_QUARTER,
    FISCAL_YEAR,
    GRAINS,
    HOUR,
    MINUTE,
    MONTH,
    QUARTER,
    SECOND,
    WEEK,
    YEAR,
    CalendarSettings,
    SemanticError,
    Span,
    unknown,
)
from ktx_cli.warehouses import DateOrTimestamp, PeriodLength, TimeKind, dialect_named

Moment = TypeVar("Moment", date, datetime)

STEPS: Final = {
    SECOND: (1, SECOND), MINUTE: (60, SECOND), HOUR: (3600, SECOND), DAY: (1, DAY), WEEK: (7, DAY), MONTH: (1, MONTH),
    QUARTER: (3, MONTH), YEAR: (12, MONTH), FISCAL_QUARTER: (3, MONTH), FISCAL_YEAR: (12, MONTH),
}  # fmt: skip
"""The length of each grain in seconds, days or months."""

FINE: Final = (SECOND, MINUTE, HOUR)
"""Grains finer than a day. Their periods begin at a timestamp, all other periods on a date."""

_CLEARED: Final = {SECOND: 1, MINUTE: 2, HOUR: 3}


def period_of(value: date | datetime, grain: str, settings: CalendarSettings) -> date | datetime:
    """Return the start of the period of a value without time zone.

    The result is a `datetime` for grains finer than a day, otherwise a `date`. Raises `SemanticError` (code `grain`)
    for a date with a grain finer than a day.
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
    """Return the number of months in the same period that precede a month (1 to 12)."""
    return (month + 12 - first_month(grain, settings)) % STEPS[grain][0]


def first_month(grain: str, settings: CalendarSettings) -> int:
    """Return the first month (1 to 12) of the calendar or fiscal year of a grain."""
    return settings.fiscal_year_start if grain in (FISCAL_QUARTER, FISCAL_YEAR) else 1


def nests(fine: str, coarse: str, settings: CalendarSettings) -> bool:
    """Return whether each period of the fine grain is within one coarse period, as months in quarters but not weeks."""
    (size, base), (step, of) = STEPS[fine], STEPS[coarse]
    if base == MONTH or of == MONTH:
        if base != of:
            return base == SECOND or fine == DAY
        return step % size == 0 and (first_month(fine, settings) - first_month(coarse, settings)) % size == 0
    seconds = {SECOND: 1, DAY: 86_400}
    return step * seconds[of] % (size * seconds[base]) == 0


def later(value: Moment, count: int, unit: str) -> Moment:
    """Return a value shifted by calendar units, backwards for negative counts. Days beyond the end of a month become
    its last day.

    Raises `SemanticError` (code `grain`) for a date with a unit finer than a day, and `OverflowError` outside the years
    1 to 9999.
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


def too_fine(grain: str) -> SemanticError:
    """Return the error for truncating a date to a grain finer than a day."""
    return SemanticError(
        f"a date cannot be truncated to {grain}", hint=f"use the granularity {DAY} or coarser", code="grain"
    )


def _months_later(value: Moment, months: int) -> Moment:
    year, month = divmod(value.year * 12 + value.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise OverflowError(f"{value} shifted by {months} months is outside the years 1 to 9999")
    return value.replace(year=year, month=month + 1, day=min(value.day, calendar.monthrange(year, month + 1)[1]))


UTC_NAME: Final = "UTC"
_DEFAULT: Final = CalendarSettings()
_OF_ONE_MACHINE: Final = frozenset({"localtime", "posixrules", "Factory"})


@dataclass(frozen=True, slots=True)
class Clock:
    """The time zones for the values of one column: `zone` is the query's, `own_zone` the column's.

    Both are IANA names. `zone` defaults to that of the calendar, then UTC; `own_zone` defaults to UTC. Raises
    `SemanticError` (code `unknown_name`) for an unknown time zone.
    """

    dialect: str
    calendar: CalendarSettings = _DEFAULT
    zone: str | None = None
    own_zone: str | None = None

    def __post_init__(self) -> None:
        require_zone(self.target)
        require_zone(self.source)

    @property
    def target(self) -> str:
        """The time zone of results."""
        return self.zone or self.calendar.timezone or UTC_NAME

    @property
    def source(self) -> str:
        """The time zone of timestamps that do not specify one."""
        return self.own_zone or UTC_NAME


def require_zone(name: str) -> None:
    """Raise `SemanticError` for an unknown time zone."""
    if name not in _known():
        raise unknown("time zone", name, _known())


@functools.cache
def _known() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones() - _OF_ONE_MACHINE | {UTC_NAME})


MAX_COUNT: Final = 100_000
"""The maximum count in a span."""

UNITS: Final = tuple(grain for grain in GRAINS if grain not in (FISCAL_QUARTER, FISCAL_YEAR))
"""The units of spans."""

_SHORT_UNITS: Final = {"h": HOUR, "d": DAY, "w": WEEK, "mo": MONTH, "q": QUARTER, "y": YEAR}
"""Abbreviations of units; `m` may be a month or a minute."""

_MOMENT: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[Tt ](\d{2}:\d{2}(?::\d{2})?)(?:(?<=:\d{2}:\d{2})\.(\d+))? ?([Zz]|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)
_SPAN: Final = re.compile(r"(\d{1,9})\s*([A-Za-z]+)", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP: Final = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class WrittenMoment:
    """A time literal: the time as written, the time in the query's zone, and the number of fractional digits."""

    written: datetime
    local: datetime
    fraction: str = ""

    def beside_dates(self) -> str:
        """Return the text for comparison with `YYYY-MM-DD` texts: the day, and the time unless it is midnight."""
        day = self.written.date().isoformat()
        is_day = not self.fraction and self.written.time() == datetime.min.time()
        return day if is_day else f"{day} {self._clock(self.written)}"

    def beside_timestamps(self) -> str:
        """Return the text for comparison with `YYYY-MM-DD HH:MM:SS` texts, including fractions of a second."""
        return f"{self.local.date().isoformat()} {self._clock(self.local)}"

    def _clock(self, value: datetime) -> str:
        fraction = f".{self.fraction}" if self.fraction else ""
        return value.time().isoformat("seconds") + fraction


def parse_span(text: str) -> Span:
    """Parse a span such as `28 days`, `1 year`, `12 months` or `30d`.

    Raises `SemanticError` for invalid text, for a count of 0 or above `MAX_COUNT`, and with the code `unknown_name` for
    an unknown unit.
    """
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise _wrong(f"`{text}` is not a duration", "write a number and a unit, for example: 28 days")
    word = found[2].lower()
    unit = _SHORT_UNITS.get(word, word.removesuffix("s"))
    if unit not in UNITS:
        raise unknown("unit of time", found[2], UNITS)
    count = int(found[1])
    if not 1 <= count <= MAX_COUNT:
        raise _wrong(
            f"`{text}` is too {'short' if count < 1 else 'long'}", f"use a number from 1 to {MAX_COUNT:,} {unit}s"
        )
    return Span(count, unit)


def parse_range_value(text: str) -> date | datetime:
    """Parse one end of a range: a `date` for `2024-01-01`, a `datetime` for `2024-01-01T10:00[:00]` or with a space.

    Timestamps are in the time zone of the query, without an offset and in whole seconds. Raises `SemanticError`.
    """
    stripped = text.strip()
    try:
        if _DATE.fullmatch(stripped):
            return date.fromisoformat(stripped)
        if _TIMESTAMP.fullmatch(stripped):
            return datetime.fromisoformat(stripped)
    except ValueError as error:
        raise _wrong(f"`{text}` is not a valid date: {error}", _END) from None
    raise _wrong(f"`{text}` is not a date or a timestamp in whole seconds without an offset", _END)


def parse_moment(text: str, zone: str) -> WrittenMoment | None:
    """Parse a time literal of a condition. Returns None for other texts.

    A time without an offset is in the given zone; a time with an offset or `Z` is converted to the zone.
    """
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        return None
    day, clock, fraction, offset = found.groups()
    try:
        written = datetime.fromisoformat(f"{day}T{clock or '00:00'}")
        if offset is None:
            return WrittenMoment(written, written, (fraction or "").rstrip("0"))
        at = datetime.fromisoformat(f"{written.isoformat()}{offset.upper()}").astimezone(ZoneInfo(zone))
    except (ValueError, OverflowError):  # not in the calendar
        return None
    return WrittenMoment(written, at.replace(tzinfo=None), (fraction or "").rstrip("0"))


def require_grain(grain: str) -> None:
    """Raise `SemanticError` (code `unknown_name`) for an unknown grain."""
    if grain not in GRAINS:
        raise unknown("grain", grain, GRAINS)


_END: Final = "write it as 2024-01-31 or 2024-01-31T10:00:00, in the time zone of the query"


def _wrong(message: str, hint: str) -> SemanticError:
    return SemanticError(message, hint=hint)


def calendar_of(config: KtxConfig) -> CalendarSettings:
    """Return the calendar settings of the project. Raises `ConfigError` for an unknown time zone."""
    zone = config.semantic.timezone
    try:
        if zone is not None:
            require_zone(zone)
    except SemanticError as error:
        hint = Hint("{}, then: {}", error.hint, Command("config", "set", "semantic.timezone", "Europe/Berlin"))
        raise ConfigError(f"ktx.yaml: `semantic.timezone`: {error.message}", hint=hint) from error
    return CalendarSettings(config.semantic.week_start, config.semantic.fiscal_year_start, zone)


def literal(value: date | datetime, kind: DateOrTimestamp, dialect: str) -> exp.Expr:
    """Return a typed literal of a date or a timestamp without time zone, for comparison with results of this module.

    In SQLite it is the text `YYYY-MM-DD` or `YYYY-MM-DD HH:MM:SS`, the format of `localize` and `truncate`. Raw columns
    may have other formats (`T`, fractions, offsets), so compare with `localize(column)`. Microseconds are dropped:
    comparisons use whole seconds.
    """
    return dialect_named(dialect).literal(value, kind)


def localize(value: exp.Expr, kind: TimeKind, clock: Clock) -> exp.Expr:
    """Return a value ready for comparison and truncation: a date, or a timestamp in the query's time zone.

    Timestamps without a zone are in the column's zone, instants are converted, dates do not change. In SQLite the value
    is an ISO text or a number of seconds since 1970, and the result is a text in whole seconds.
    """
    return dialect_named(clock.dialect).localize(value, kind, clock.source, clock.target)


def truncate(value: exp.Expr, grain: str, kind: TimeKind, clock: Clock) -> exp.Expr:
    """Return the start of a value's period in the query's time zone.

    The result is a date, or for grains finer than a day a timestamp without time zone. In SQLite values and results are
    texts, see `localize`. Raises `SemanticError` with the code `unknown_name` for an unknown grain, and with the code
    `grain` for a date with a grain finer than a day.
    """
    require_grain(grain)
    if kind == "date" and grain in FINE:
        raise too_fine(grain)
    dialect, local = dialect_named(clock.dialect), localize(value, kind, clock)
    if grain in FINE:
        return dialect.truncated_time(local, grain)
    day = local if kind == "date" else dialect.as_date(local)
    if grain == DAY:
        return day.copy()
    if grain == WEEK:
        return dialect.first_of_week(day, sunday=clock.calendar.week_start == "sunday")
    return dialect.first_of_period(day, STEPS[grain][0], first_month(grain, clock.calendar))


def within(
    value: exp.Expr, start: date | datetime | None, end: date | datetime | None, kind: TimeKind, clock: Clock
) -> exp.Expr | None:
    """Return the condition that a value is in the half-open range from `start` to `end`, or None without either.

    Both are in the time zone of the query. A date is in the range if its midnight is, as in a comparison with a
    timestamp.
    """
    if start is None and end is None:
        return None
    local = localize(value, kind, clock)
    conditions: list[exp.Expr] = []
    if start is not None:
        conditions.append(exp.GTE(this=local.copy(), expression=_end(start, kind, clock.dialect)))
    if end is not None:
        conditions.append(exp.LT(this=local.copy(), expression=_end(end, kind, clock.dialect)))
    return exp.and_(*conditions)


def _end(value: date | datetime, kind: TimeKind, dialect: str) -> exp.Expr:
    if kind != "date":
        return literal(value, "timestamp", dialect)
    if isinstance(value, datetime) and value.time() != datetime.min.time():
        value = date.fromordinal(value.toordinal() + 1)  # the first midnight at or after it
    return literal(value, "date", dialect)


def shift(value: exp.Expr, count: int, unit: str, kind: DateOrTimestamp, dialect: str) -> exp.Expr:
    """Return a date or a timestamp without time zone shifted by calendar units, backwards for a negative count.

    One month after January 31 is the last day of February. The type does not change. Raises `SemanticError` (code
    `grain`) for a date with a unit finer than a day.
    """
    require_grain(unit)
    if kind == "date" and unit in FINE:
        raise too_fine(unit)
    size, base = STEPS[unit]
    by = exp.Literal.number(abs(count * size))
    return dialect_named(dialect).moved(value, exp.Neg(this=by) if count < 0 else by, base, kind)


def next_period(value: exp.Expr, grain: str, dialect: str) -> exp.Expr:
    """Return the start of the period after the one that begins at `value`, a result of `truncate` with that grain."""
    return shift(value, 1, grain, _step(grain).kind, dialect)


def _step(grain: str) -> PeriodLength:
    return PeriodLength(*STEPS[grain], "timestamp" if grain in FINE else "date")


def capacity(grain: str) -> int:
    """Return the maximum number of periods in a spine.

    It is 100,000, but 10,000 for months and quarters and 1,000 for years, because more would exceed the years that
    databases support.
    """
    require_grain(grain)
    size, base = STEPS[grain]
    return 100_000 if base != "month" else 1_000 if size == 12 else 10_000


def spine(start: exp.Expr, end: exp.Expr, grain: str, clock: Clock) -> exp.Select:
    """Return a query whose column `period` contains the start of every period from `start` to `end`, unordered.

    Both ends are included, and are results of `truncate` with the same grain, or queries of one such value; if one is
    NULL, there are no rows. The query has no WITH, so it can be used as a subquery anywhere. It ends after
    `capacity(grain)` periods: the caller must check `overflow` and refuse such a range. Periods finer than a day follow
    the wall clock and include hours that the clock skips.
    """
    return dialect_named(clock.dialect).spine(start, end, _step(grain), capacity(grain))


def overflow(start: exp.Expr, end: exp.Expr, grain: str, clock: Clock) -> exp.Expr:
    """Return the condition that a spine from `start` to `end` would exceed its capacity."""
    most = exp.Literal.number(capacity(grain) - 1)
    return exp.LT(this=dialect_named(clock.dialect).later(start, most, _step(grain)), expression=end.copy())
