"""How many items or rows a series has: counted where its ends are written, else limited by its step."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ktx_cli.connectors.guard.errors import refused
from ktx_cli.connectors.guard.functions import FunctionList
from ktx_cli.connectors.guard.moments import (
    ASSUMED_SECONDS,
    MAX_SERIES,
    is_unmeasured,
    items,
    items_between,
    seconds_of_moment,
    seconds_of_span,
)

if TYPE_CHECKING:
    from sqlglot import exp

SERIES: Final = frozenset(
    {"GenerateSeries", "ExplodingGenerateSeries", "GenerateDateArray", "GenerateTimestampArray", "Generator", "Stack"}
    | {"numbers", "numbers_mt", "zeros", "zeros_mt", "range", "generate_series", "sequence", "arrayrange"}
)
"""Functions that make rows or items out of nothing: the parser's classes, and names in lower case."""

_GROWING: Final = ("Mul", "Pow", "BitwiseLeftShift", "Factorial", "Exp")
_NOW: Final = frozenset({"CurrentDate", "CurrentTimestamp", "CurrentDatetime", "Localtimestamp", "UtcTimestamp"})
_SAME_MOMENT: Final = frozenset(
    {"Cast", "TryCast", "Paren", "Date", "Timestamp", "TsOrDsToDate", "TsOrDsToTimestamp", "TimestampTrunc"}
    | {"DateTrunc", "DatetimeTrunc", "LastDay", "CastToStrType"}
)
_LARGEST_OF_A_DATE: Final = 9999
_DAY: Final = 86_400.0
_SEQUENCE: Final = re.compile(r"seq_(\d{1,20})_to_(\d{1,20})(?:_step_(\d{1,20}))?", re.IGNORECASE)


def require_series(function: exp.Func, functions: FunctionList) -> None:
    """Raise for a series of over `MAX_SERIES` items, or one whose length nothing in the statement bounds."""
    counts = _counts(function)
    if counts is None:
        how = _too_long(*_ends(function))
    elif not counts or None in counts:
        how = "makes rows without an end that is written as a number"
    else:
        how = f"makes over {MAX_SERIES:,} rows" if max(count or 0 for count in counts) > MAX_SERIES else ""
    if how:
        raise functions.refuse_size(function, how, MAX_SERIES)


def _counts(function: exp.Func) -> list[float | None] | None:
    """Return the numbers of rows that a function is given outright, None for one that has two ends instead."""
    kind = type(function).__name__
    if kind == "Generator":
        return [_number(function.args.get("rowcount"))]
    if kind == "Stack":
        return [_number(function.this)]
    if kind == "Anonymous" and (function.name.lower().startswith(("numbers", "zeros")) or not function.expressions):
        return [_number(each) for each in function.expressions]
    return None


def require_fill(fill: exp.Expr) -> None:
    """Raise for ClickHouse's WITH FILL of over `MAX_SERIES` rows."""
    how = _too_long(fill.args.get("from_"), fill.args.get("to"), fill.args.get("step"))
    if how:
        raise refused("size", "WITH FILL", how, hint="give it a FROM, a TO and a larger STEP")


def require_short_sequence(table: exp.Table) -> None:
    """Raise for a table of MariaDB's sequence engine (`seq_1_to_9`, `seq_1_to_9_step_2`) that is too long."""
    found = _SEQUENCE.fullmatch(table.name)
    if found is not None and items(float(found[1]), float(found[2]), float(found[3] or 1)) > MAX_SERIES:
        why = f"makes over {MAX_SERIES:,} rows"
        raise refused("size", f"`{table.name}`", why, hint="name a shorter sequence, as seq_1_to_1000")


def _ends(function: exp.Func) -> tuple[exp.Expr | None, exp.Expr | None, exp.Expr | None]:
    """Return the two ends and the step of a series; one argument alone is the end."""
    from sqlglot import exp

    if not isinstance(function, exp.Anonymous):
        known = function.args
        return known.get("start"), known.get("end"), known.get("step") or known.get("interval")
    listed = function.expressions
    if len(listed) == 1:
        return None, listed[0], None
    return listed[0], listed[1], listed[2] if len(listed) > 2 else None


def _too_long(start: exp.Expr | None, end: exp.Expr | None, step: exp.Expr | None) -> str:
    """Return why a series may be too long, as it follows the name; empty for one that is not."""
    ends = [each for each in (start, end) if each is not None]
    if any(type(node).__name__ in _GROWING for each in ends for node in each.walk()):
        return "makes a series whose length is a product or a power"
    number, span = (1.0, _DAY) if step is None else (_number(step), _span(step))
    if number is None and span is None:
        return "makes a series whose step is not written as a number or an interval"
    if number == 0 or span == 0:
        return "makes a series with a step of 0, which has no end"
    counted = _numbers(start, end, number) if number is not None else None
    if counted is None and (number is None or _has_times(ends)):
        counted = _times(start, end, span if span is not None else (number or 1) * _DAY)
    if counted is None:
        counted = _largest(ends) / min(1.0, abs(number or 1))
        if step is not None and abs(number or 1) < 1 and not _is_counted(ends):
            return "makes a series in parts of a whole between ends that are not written as numbers"
    return f"makes a series of over {MAX_SERIES:,} items" if counted > MAX_SERIES else ""


def _numbers(start: exp.Expr | None, end: exp.Expr | None, step: float) -> float | None:
    """Return how many items a series of written numbers has, None where an end is no written number."""
    first, last = 0.0 if start is None else _number(start), _number(end)
    return None if first is None or last is None else items(first, last, step)


def _times(start: exp.Expr | None, end: exp.Expr | None, step: float) -> float:
    """Return how many items a series of times has, at most where an end is no written one."""
    first, last = _moment(start), _moment(end)
    if first is not None and last is not None:
        return items(first, last, step)
    ends = [each for each in (start, end) if each is not None]
    texts = _texts(ends)
    if any(map(is_unmeasured, texts)) or _largest(ends) > _LARGEST_OF_A_DATE:
        return math.inf
    moments = [moment for text in texts if (moment := seconds_of_moment(text)) is not None]
    return items_between(moments, _spans(ends), step)


def _has_times(ends: list[exp.Expr]) -> bool:
    return any(_moment(each) is not None for each in ends)


def _is_counted(ends: list[exp.Expr]) -> bool:
    return all(_number(each) is not None for each in ends)


def _texts(ends: list[exp.Expr]) -> list[str]:
    from sqlglot import exp

    return [text.name for each in ends for text in each.find_all(exp.Literal) if text.is_string]


def _spans(ends: list[exp.Expr]) -> list[float]:
    from sqlglot import exp

    found = [_span(node) for each in ends for node in each.find_all(exp.Interval)]
    return [ASSUMED_SECONDS * MAX_SERIES if span is None else span for span in found]


def _largest(ends: list[exp.Expr]) -> float:
    from sqlglot import exp

    numbers = [_number(text) or 0 for each in ends for text in each.find_all(exp.Literal) if not text.is_string]
    return max(numbers, default=0.0)


def _number(node: exp.Expr | None) -> float | None:
    """Return a written number, a negative one, one in brackets or under a cast."""
    from sqlglot import exp

    if isinstance(node, exp.Neg):
        inner = _number(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Paren | exp.Cast):
        return _number(node.this)
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    try:
        return float(node.this)
    except ValueError:
        return None


def _span(node: exp.Expr | None) -> float | None:
    """Return the seconds of an interval that is written out."""
    from sqlglot import exp

    if isinstance(node, exp.Neg):
        inner = _span(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Paren | exp.Cast):
        return _span(node.this)
    if isinstance(node, exp.Interval):
        value = node.this
        sign = "-" if isinstance(value, exp.Neg) else ""
        literal = value.this if isinstance(value, exp.Neg) else value
        unit = node.args.get("unit")
        return seconds_of_span(f"{sign}{literal.name}", unit.name if isinstance(unit, exp.Var) else "")
    return seconds_of_span(node.name) if isinstance(node, exp.Literal) and node.is_string else None


def _moment(node: exp.Expr | None) -> float | None:
    """Return the seconds since 1970 of a moment that is written out or is near today."""
    from sqlglot import exp

    kind = type(node).__name__
    if kind in _NOW or (isinstance(node, exp.Anonymous) and node.name.lower() == "now"):
        return datetime.now(UTC).timestamp()
    if isinstance(node, exp.Literal):
        return seconds_of_moment(node.name) if node.is_string else None
    if isinstance(node, exp.Add | exp.Sub):
        return _moved(node)
    return _moment(node.this) if node is not None and kind in _SAME_MOMENT else None


def _moved(node: exp.Add | exp.Sub) -> float | None:
    """Return a moment with an interval, or a number of days, added or taken off."""
    from sqlglot import exp

    moment, days = _moment(node.this), _number(node.expression)
    by = _span(node.expression) if days is None else days * _DAY
    if moment is None or by is None:
        return None
    return moment - by if isinstance(node, exp.Sub) else moment + by
