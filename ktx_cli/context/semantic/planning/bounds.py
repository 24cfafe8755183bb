"""Conditions of a question on a time that say from when to when, as a time range does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Final

from sqlglot import exp

from ktx_cli.context.semantic.expressions.date_parts import RAW, DatePart, date_part
from ktx_cli.context.semantic.expressions.names import Expression
from ktx_cli.context.semantic.model import DAY, YEAR, CalendarSettings
from ktx_cli.context.semantic.planning.plan import TimeRange
from ktx_cli.context.semantic.planning.ranges import Bounds, instant
from ktx_cli.context.semantic.time.calendar import later, period_of

_MIRRORED: Final[Mapping[type[exp.Expr], type[exp.Expr]]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
}
_PLAIN_TIMES: Final = exp.DataType.TEMPORAL_TYPES - {
    exp.DataType.Type.TIME,
    exp.DataType.Type.TIMETZ,
    exp.DataType.Type.TIMESTAMPTZ,
    exp.DataType.Type.TIMESTAMPLTZ,
}
_OPEN: Final[Bounds] = (None, None)


def bounds_of(tree: exp.Expr, settings: CalendarSettings, *, is_date: bool) -> Bounds | None:
    """Return the stretch a condition keeps of the one time that all its numbered places stand for, None for any other.

    `is_date`: the time is known by its day alone.
    """
    tree = tree.unnest()
    if isinstance(tree, exp.Not) and isinstance(tree.this.unnest(), exp.Is):
        test = tree.this.unnest()
        known = isinstance(test.this.unnest(), exp.Placeholder) and isinstance(test.expression, exp.Null)
        return _OPEN if known else None
    if isinstance(tree, exp.Between):
        low = _compared(exp.GTE, tree.this, tree.args["low"], settings, is_date=is_date)
        high = _compared(exp.LTE, tree.this, tree.args["high"], settings, is_date=is_date)
        return None if low is None or high is None else (low[0], high[1])
    if type(tree) not in _MIRRORED:
        return None
    if tree.this.find(exp.Placeholder):
        return _compared(type(tree), tree.this, tree.expression, settings, is_date=is_date)
    return _compared(_MIRRORED[type(tree)], tree.expression, tree.this, settings, is_date=is_date)


def merged(expression: Expression, asked: TimeRange | None, found: Sequence[Bounds]) -> TimeRange | None:
    """Return the time range that is within another one and all bounds; None without any end."""
    every = [*found, *([] if asked is None else [(asked.start, asked.end)])]
    starts = [start for start, _ in every if start is not None]
    ends = [end for _, end in every if end is not None]
    if not starts and not ends:
        return None
    start, end = max(starts, key=instant, default=None), min(ends, key=instant, default=None)
    return TimeRange(expression, start, end) if asked is None else replace(asked, start=start, end=end)


def _compared(
    kind: type[exp.Expr], side: exp.Expr, other: exp.Expr, settings: CalendarSettings, *, is_date: bool
) -> Bounds | None:
    if other.find(exp.Placeholder):
        return None
    part = date_part(side, settings)
    if part is None or not part.cuts:
        return None
    if part.grain == YEAR and not part.starts:
        return _by_period(kind, _year(other), part, settings)
    value = _moment(other)
    if value is None or not part.starts:
        return None
    if part.grain == RAW and not is_date:
        plain: dict[type[exp.Expr], Bounds] = {exp.GTE: (value, None), exp.LT: (None, value)}
        return plain.get(kind)
    return _by_period(kind, value, replace(part, grain=part.grain or DAY), settings)


def _by_period(
    kind: type[exp.Expr], value: date | datetime | None, part: DatePart, settings: CalendarSettings
) -> Bounds | None:
    """Return the stretch of a comparison with the first day, or moment, of a period."""
    if value is None:
        return None
    start = period_of(instant(value), part.grain, settings)
    if instant(start) != instant(value):
        return None
    end = later(start, 1, part.grain)
    stretches: dict[type[exp.Expr], Bounds] = {
        exp.GTE: (start, None),
        exp.GT: (end, None),
        exp.LT: (None, start),
        exp.LTE: (None, end),
        exp.EQ: (start, end),
    }
    return stretches[kind]


def _year(tree: exp.Expr) -> date | None:
    tree = tree.unnest()
    if not isinstance(tree, exp.Literal) or not tree.name.isdigit() or not 1 <= int(tree.name) <= 9998:
        return None
    return date(int(tree.name), 1, 1)


def _moment(tree: exp.Expr) -> date | datetime | None:
    """Return the date or timestamp without a zone that a literal says."""
    tree = tree.unnest()
    if (isinstance(tree, exp.Cast) and tree.to.is_type(*_PLAIN_TIMES)) or (
        isinstance(tree, exp.Date | exp.TsOrDsToDate) and not tree.expressions
    ):
        tree = tree.this
    if not isinstance(tree, exp.Literal) or not tree.is_string:
        return None
    try:
        value = datetime.fromisoformat(tree.name)
    except ValueError:
        return None
    if value.tzinfo is not None or value.microsecond or value > datetime.max - timedelta(days=400):
        return None
    return value.date() if value.time() == datetime.min.time() else value
