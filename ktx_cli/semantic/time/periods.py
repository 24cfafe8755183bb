"""Cuts values into periods, and into a range: what is grouped by and what is filtered by, read by the same clock.

Which period a value lies in is decided here; the dialect says how it is written.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING

from ktx_cli.semantic.model import DAY, WEEK
from ktx_cli.semantic.time.calendar import FINE, STEPS, Clock, first_month, require_grain, too_fine
from ktx_cli.warehouses import DateOrTimestamp, Step, TimeKind, dialect_named

if TYPE_CHECKING:
    from sqlglot import exp


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
    from sqlglot import exp

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
    from sqlglot import exp

    require_grain(unit)
    if kind == "date" and unit in FINE:
        raise too_fine(unit)
    size, base = STEPS[unit]
    by = exp.Literal.number(abs(count * size))
    return dialect_named(dialect).moved(value, exp.Neg(this=by) if count < 0 else by, base, kind)


def next_period(value: exp.Expr, grain: str, dialect: str) -> exp.Expr:
    """Return the start of the period behind the one that begins at `value`, a result of `truncate` of that grain."""
    return shift(value, 1, grain, _step(grain).kind, dialect)


def _step(grain: str) -> Step:
    return Step(*STEPS[grain], "timestamp" if grain in FINE else "date")


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
    from sqlglot import exp

    most = exp.Literal.number(capacity(grain) - 1)
    return exp.LT(this=dialect_named(clock.dialect).later(start, most, _step(grain)), expression=end.copy())
