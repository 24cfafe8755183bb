"""The calendar: to which period a value belongs and what comes next, in Python and, the same, in SQL.

Which period a value lies in is decided here; the dialect says how it is written."""

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


def too_fine(grain: str) -> SemanticError:
    """Return the error for a grain under a day of what has no time of day."""
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
    """The zones in which values of one column are read: `zone` is the question's time zone, `own_zone` the column's.

    Names are of the IANA list. Without `zone` the calendar's counts, then UTC; without `own_zone` timestamps without a
    zone mean UTC. Raises `SemanticError` (code `unknown_name`) for a zone that is not on the list.
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
        """The zone results are in."""
        return self.zone or self.calendar.timezone or UTC_NAME

    @property
    def source(self) -> str:
        """The zone in which a timestamp without one is meant."""
        return self.own_zone or UTC_NAME


def require_zone(name: str) -> None:
    """Raise `SemanticError` unless there is a time zone of that name."""
    if name not in _known():
        raise unknown("time zone", name, _known())


@functools.cache
def _known() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones() - _OF_ONE_MACHINE | {UTC_NAME})


MAX_COUNT: Final = 100_000
"""The largest count of a span."""

UNITS: Final = tuple(grain for grain in GRAINS if grain not in (FISCAL_QUARTER, FISCAL_YEAR))
"""The units that a span may count."""

_MOMENT: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[Tt ](\d{2}:\d{2}(?::\d{2})?)(?:(?<=:\d{2}:\d{2})\.(\d+))? ?([Zz]|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)
_SPAN: Final = re.compile(r"(\d{1,9})\s*([A-Za-z]+)", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP: Final = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class WrittenMoment:
    """A time as a literal says it: the clock as written, the clock of a zone, and the digits of the fraction."""

    written: datetime
    local: datetime
    fraction: str = ""

    def beside_dates(self) -> str:
        """Return the text to compare with texts `YYYY-MM-DD`: the day, with the time where it is not midnight."""
        day = self.written.date().isoformat()
        is_day = not self.fraction and self.written.time() == datetime.min.time()
        return day if is_day else f"{day} {self._clock(self.written)}"

    def beside_timestamps(self) -> str:
        """Return the text to compare with texts `YYYY-MM-DD HH:MM:SS`, with the fraction of the second if any."""
        return f"{self.local.date().isoformat()} {self._clock(self.local)}"

    def _clock(self, value: datetime) -> str:
        fraction = f".{self.fraction}" if self.fraction else ""
        return value.time().isoformat("seconds") + fraction


def parse_span(text: str) -> Span:
    """Return the span a text such as `28 days`, `1 year` or `12 months` means.

    Raises `SemanticError` for any other text, a count of 0 or above `MAX_COUNT`, and (code `unknown_name`) a unit that
    is none.
    """
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise _wrong(f"`{text}` is not a duration", "write a number and a unit, for example: 28 days")
    unit = found[2].lower().removesuffix("s")
    if unit not in UNITS:
        raise unknown("unit of time", found[2], UNITS)
    count = int(found[1])
    if not 1 <= count <= MAX_COUNT:
        raise _wrong(
            f"`{text}` is too {'short' if count < 1 else 'long'}", f"use a number from 1 to {MAX_COUNT:,} {unit}s"
        )
    return Span(count, unit)


def parse_range_value(text: str) -> date | datetime:
    """Return one end of a range: a `date` for `2024-01-01`, a `datetime` for `2024-01-01T10:00[:00]` (a blank for T).

    Timestamps are in the question's zone, so they have no offset, and are of whole seconds. Raises `SemanticError`.
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
    """Return the time that a literal of a condition says, None for a text that is none.

    Without an offset it is in the zone; with one (or `Z`) it is what the clocks of the zone show then.
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
    """Raise `SemanticError` (code `unknown_name`) unless there is such a grain."""
    if grain not in GRAINS:
        raise unknown("grain", grain, GRAINS)


_END: Final = "write it as 2024-01-31 or 2024-01-31T10:00:00, in the time zone of the question"


def _wrong(message: str, hint: str) -> SemanticError:
    return SemanticError(message, hint=hint)


def calendar_of(config: KtxConfig) -> CalendarSettings:
    """Return how the project cuts time; `ConfigError` for a time zone that is none."""
    zone = config.semantic.timezone
    try:
        if zone is not None:
            require_zone(zone)
    except SemanticError as error:
        hint = Hint("{}, then: {}", error.hint, Command("config", "set", "semantic.timezone", "Europe/Berlin"))
        raise ConfigError(f"ktx.yaml: `semantic.timezone`: {error.message}", hint=hint) from error
    return CalendarSettings(config.semantic.week_start, config.semantic.fiscal_year_start, zone)


def literal(value: date | datetime, kind: DateOrTimestamp, dialect: str) -> exp.Expr:
    """Return a typed literal of a date or of a timestamp without a zone, to compare with results of this module.

    In SQLite it is the text `YYYY-MM-DD` or `YYYY-MM-DD HH:MM:SS`, as `localize` and `truncate` give it; a column as it
    is may have other forms (`T`, fractions, offsets), so compare `localize(column)`. Microseconds are left out:
    results are compared by whole seconds.
    """
    return dialect_named(dialect).literal(value, kind)


def localize(value: exp.Expr, kind: TimeKind, clock: Clock) -> exp.Expr:
    """Return a value as it is compared and cut: a date, or a timestamp without a zone in the zone of the question.

    A timestamp is taken to be in the column's zone, an instant is what it is, a date stays the date. In SQLite the
    value is an ISO text or a number of seconds since 1970, and the result a text of whole seconds.
    """
    return dialect_named(clock.dialect).localize(value, kind, clock.source, clock.target)


def truncate(value: exp.Expr, grain: str, kind: TimeKind, clock: Clock) -> exp.Expr:
    """Return the start of the period a value lies in, read by the clock.

    From the day on it is a date, for finer grains a timestamp without a zone, in the zone of the question. Values and
    results of SQLite are texts, see `localize`. Raises `SemanticError`: code `unknown_name` for an unknown grain, code
    `grain` for one under a day of a date.
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
    """Return the condition that a value lies in the half-open range from `start` to `end`; None without both.

    Ends are in the zone of the question. A date is in the range when its midnight is, which is what comparing it with
    a timestamp means.
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
        value = date.fromordinal(value.toordinal() + 1)  # the first midnight not before it
    return literal(value, "date", dialect)


def shift(value: exp.Expr, count: int, unit: str, kind: DateOrTimestamp, dialect: str) -> exp.Expr:
    """Return a date or a timestamp without a zone moved by calendar units; a negative count goes back.

    The 31st of January and one month is the last day of February. The result is of the same kind. Raises
    `SemanticError` (code `grain`) for a unit under a day of a date.
    """
    require_grain(unit)
    if kind == "date" and unit in FINE:
        raise too_fine(unit)
    size, base = STEPS[unit]
    by = exp.Literal.number(abs(count * size))
    return dialect_named(dialect).moved(value, exp.Neg(this=by) if count < 0 else by, base, kind)


def next_period(value: exp.Expr, grain: str, dialect: str) -> exp.Expr:
    """Return the start of the period behind the one that begins at `value`, a result of `truncate` of that grain."""
    return shift(value, 1, grain, _step(grain).kind, dialect)


def _step(grain: str) -> PeriodLength:
    return PeriodLength(*STEPS[grain], "timestamp" if grain in FINE else "date")


def capacity(grain: str) -> int:
    """Return how many periods a spine of the grain has at most.

    100,000, but 10,000 months or quarters and 1,000 years: more would leave the years that dialects know.
    """
    require_grain(grain)
    size, base = STEPS[grain]
    return 100_000 if base != "month" else 1_000 if size == 12 else 10_000


def spine(start: exp.Expr, end: exp.Expr, grain: str, clock: Clock) -> exp.Select:
    """Return a query whose column `period` has every period's start from `start` to `end`, both included, in no order.

    Both are results of `truncate` of the same grain, or queries of one such value; no row where one is NULL. It has no
    WITH, so it may stand anywhere. Behind `capacity(grain)` periods it ends: `overflow` tells, and the caller must
    refuse such a range. Periods under a day go by the wall clock: an hour the clocks skip is one of them.
    """
    return dialect_named(clock.dialect).spine(start, end, _step(grain), capacity(grain))


def overflow(start: exp.Expr, end: exp.Expr, grain: str, clock: Clock) -> exp.Expr:
    """Return the condition that a spine from `start` to `end` would leave periods out."""
    most = exp.Literal.number(capacity(grain) - 1)
    return exp.LT(this=dialect_named(clock.dialect).later(start, most, _step(grain)), expression=end.copy())
