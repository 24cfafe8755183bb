"""Every period between two ends, as a query of one column: what `fill` shows where no row is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktx_cli.context.semantic.time.calendar import FINE, STEPS
from ktx_cli.context.semantic.time.clock import Clock
from ktx_cli.context.semantic.time.expressions import DateOrTimestamp, call, number, text, times
from ktx_cli.context.semantic.time.moving import moved
from ktx_cli.context.semantic.time.parsing import require_grain

if TYPE_CHECKING:
    from sqlglot import exp

PERIOD: Final = "period"
"""The name of the spine's column."""

_FIRST, _LAST, _DIGIT, _ENDS = "first_period", "last_period", "digit", "ends"


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
    require_grain(grain)
    if clock.dialect == "clickhouse":
        return _in_clickhouse(start, end, grain)
    return _of_digits(start, end, grain, clock.dialect)


def overflow(start: exp.Expr, end: exp.Expr, grain: str, clock: Clock) -> exp.Expr:
    """Return the condition that a spine from `start` to `end` would leave periods out."""
    from sqlglot import exp

    last = _steps_later(start, number(capacity(grain) - 1), grain, clock.dialect)
    return exp.LT(this=last, expression=end.copy())


def _of_digits(start: exp.Expr, end: exp.Expr, grain: str, dialect: str) -> exp.Select:
    """Return the spine as a join of digits, the same in each dialect: recursion and series have other limits in each.

    A digit's rows are dropped as soon as the higher digits alone lead behind the end.
    """
    from sqlglot import exp

    first, last = exp.column(_FIRST, _ENDS), exp.column(_LAST, _ENDS)
    count: exp.Expr | None = None
    conditions: list[exp.Expr] = []
    names = [f"d{place}" for place in range(len(str(capacity(grain))) - 1, 0, -1)]
    for place, name in enumerate(names):
        weight = 10 ** (len(names) - 1 - place)
        digit = exp.column(_DIGIT, name)
        part = times(digit, number(weight)) if weight > 1 else digit
        count = part if count is None else exp.Add(this=count.copy(), expression=part)
        conditions.append(exp.LTE(this=_steps_later(first, count, grain, dialect), expression=last.copy()))
    assert count is not None  # there is more than one digit
    column = exp.alias_(_steps_later(first, count, grain, dialect), PERIOD, quoted=True)
    query = exp.select(column).from_(_ends(start, end))
    for name in names:
        query = query.join(_digits(name), join_type="cross")
    return query.where(*conditions)


def _in_clickhouse(start: exp.Expr, end: exp.Expr, grain: str) -> exp.Select:
    """Return the spine from the numbers table; how many there are is counted first, since dates end in 2299 there."""
    from sqlglot import exp

    size, base = STEPS[grain]
    first, last, index = exp.column(_FIRST, _ENDS), exp.column(_LAST, _ENDS), exp.column("number", "numbers")
    apart = call("dateDiff", text(base), first, last)
    numbers = exp.alias_(exp.Table(this=call("numbers", number(capacity(grain)))), "numbers", table=True)
    period = _steps_later(first, index, grain, "clickhouse")
    reached = exp.LTE(this=times(index, number(size)) if size > 1 else index, expression=apart)
    column = exp.alias_(period, PERIOD, quoted=True)
    query = exp.select(column).from_(_ends(start, end)).join(numbers, join_type="cross")
    return query.where(reached)


def _steps_later(value: exp.Expr, count: exp.Expr, grain: str, dialect: str) -> exp.Expr:
    size, base = STEPS[grain]
    kind: DateOrTimestamp = "timestamp" if grain in FINE else "date"
    return moved(value, times(count, number(size)) if size > 1 else count, base, kind, dialect)


def _ends(start: exp.Expr, end: exp.Expr) -> exp.Subquery:
    from sqlglot import exp

    return exp.select(exp.alias_(start.copy(), _FIRST), exp.alias_(end.copy(), _LAST)).subquery(_ENDS)


def _digits(name: str) -> exp.Subquery:
    from sqlglot import exp

    rows = exp.union(*(exp.select(exp.alias_(number(digit), _DIGIT)) for digit in range(10)), distinct=False)
    return rows.subquery(name)
