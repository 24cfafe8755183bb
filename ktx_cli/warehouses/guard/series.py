"""How many items or rows a series has: counted where its ends are written, else limited by its step."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from ktx_cli.faces import exp
from ktx_cli.warehouses.guard.errors import refused
from ktx_cli.warehouses.guard.functions import FunctionList

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
        return [_number(expression) for expression in function.expressions]
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
    return any(_moment(end) is not None for end in ends)


def _is_counted(ends: list[exp.Expr]) -> bool:
    return all(_number(end) is not None for end in ends)


def _texts(ends: list[exp.Expr]) -> list[str]:
    return [text.name for end in ends for text in end.find_all(exp.Literal) if text.is_string]


def _spans(ends: list[exp.Expr]) -> list[float]:
    result = [_span(node) for end in ends for node in end.find_all(exp.Interval)]
    return [ASSUMED_SECONDS * MAX_SERIES if span is None else span for span in result]


def _largest(ends: list[exp.Expr]) -> float:
    numbers = [_number(text) or 0 for end in ends for text in end.find_all(exp.Literal) if not text.is_string]
    return max(numbers, default=0.0)


def _number(node: exp.Expr | None) -> float | None:
    """Return a written number, a negative one, one in brackets or under a cast."""
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
    moment, days = _moment(node.this), _number(node.expression)
    by = _span(node.expression) if days is None else days * _DAY
    if moment is None or by is None:
        return None
    return moment - by if isinstance(node, exp.Sub) else moment + by


ASSUMED_SECONDS: Final = 300 * 366 * 86_400
"""How far apart the two ends of a series of times are taken to be, where they come from columns."""

MAX_SERIES: Final = 10_000_000
"""How many items a series may have, and the largest number in its ends where they are not all written out."""

_SECONDS: Final = {
    "nanosecond": 1e-9,
    "microsecond": 1e-6,
    "millisecond": 1e-3,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86_400.0,
    "week": 604_800.0,
    "month": 2_592_000.0,
    "quarter": 7_776_000.0,
    "year": 31_536_000.0,
    "decade": 3.1536e8,
    "century": 3.1536e9,
    "centurie": 3.1536e9,
    "millennium": 3.1536e10,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "hr": 3600.0,
    "d": 86_400.0,
    "w": 604_800.0,
    "mon": 2_592_000.0,
    "y": 31_536_000.0,
    "yr": 31_536_000.0,
}
_PART: Final = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]+)\s*")
_CLOCK: Final = re.compile(r"\s*(\d{1,4}):(\d\d)(?::(\d\d(?:\.\d+)?))?\s*")
_UNMEASURED: Final = re.compile(r"infinity|\bbc\b|\d{5,}-\d", re.IGNORECASE)


def seconds_of_span(text: str, unit: str = "") -> float | None:
    """Return the seconds of `1 day`, `01:30`, `1 year 2 days`, or of `1` with a unit; None for any other text."""
    rest = f"{text} {unit}".strip().lower()
    if not rest:
        return None
    total, position = 0.0, 0
    while position < len(rest):
        part, clock = _PART.match(rest, position), _CLOCK.match(rest, position)
        if clock is not None:
            total += int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3] or 0)
        elif part is not None and (size := _unit(part[2])) is not None:
            total += float(part[1]) * size
        else:
            return None
        position = (clock or part).end()  # type: ignore[union-attr]
    return total


def _unit(word: str) -> float | None:
    return _SECONDS.get(word, _SECONDS.get(word.removesuffix("s")))


def seconds_of_moment(text: str) -> float | None:
    """Return the seconds since 1970 of a date or timestamp in ISO 8601, None for any other text."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def is_unmeasured(text: str) -> bool:
    """Whether a text names a moment that `seconds_of_moment` cannot measure: infinity, BC, a year of five digits."""
    return _UNMEASURED.search(text) is not None


def items(start: float, end: float, step: float) -> float:
    """Return how many items a series has; infinity for a step of 0."""
    if step == 0 or not math.isfinite(step):
        return math.inf
    return max(0.0, (end - start) / step + 1)


def items_between(moments: Iterable[float], spans: Iterable[float], step: float) -> float:
    """Return how many items a series of times has at most whose ends hold these moments and spans, and columns."""
    known = list(moments)
    apart = max(known) - min(known) if known else 0.0
    return items(0.0, max(ASSUMED_SECONDS, apart) + sum(map(abs, spans)), abs(step))
