"""Refuse statements with unbounded time or memory use: long strings, long series, endless recursion."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from ktx_cli.faces import exp
from ktx_cli.warehouses.guard.functions import FunctionList, refused

MAX_TEXT: Final = 1_000_000
"""The maximum total length of the strings that a statement's functions build from literals."""

_BUILDERS: Final[dict[str, str | int]] = {
    # Class or name -> the position or the argument that determines the length of the text.
    "Repeat": "times",
    "Space": "this",
    "Pad": "expression",
    "Randstr": "this",
    **dict.fromkeys(("zeroblob", "randomblob", "random_bytes", "gen_random_bytes", "arraywithconstant"), 0),
    **dict.fromkeys(("randomstring", "randomprintableascii", "polygon"), 0),
    **dict.fromkeys(("array_fill", "array_repeat", "array_resize", "list_resize", "arrayresize"), 1),
    **dict.fromkeys(("leftpad", "rightpad", "leftpadutf8", "rightpadutf8", "bitstring", "bit", "bpchar"), 1),
    "reservoir_quantile": 2,
}
_MULTIPLYING: Final = frozenset({"Repeat", "Space", "array_fill", "array_repeat", "arraywithconstant"})
_REPLACING: Final = frozenset({"Replace", "RegexpReplace"})
_WIDTH: Final = re.compile(r"%[^%a-zA-Z]*?(\d{5,}|\*)|\{[^{}]*(\d{5,}|\{)")
"""A width in a template (`%99999s`, `{:>99999}`), or one set by another value (`%*s`, `{:>{}}`)."""

_FORMATS: Final = frozenset({"Format", "printf", "format", "sformat", "format_string"})


def require_bounded(tree: exp.Expr, functions: FunctionList) -> None:
    """Raise an error for a string, a series or a recursion without a size limit in the statement."""
    built = _Built(tree)
    nodes = list(tree.walk())
    for function in (node for node in nodes if isinstance(node, exp.Func) and not functions.allows(node)):
        if _key(function) in _BUILDERS or _key(function) in _REPLACING:
            built.add(function, functions)
        elif _key(function) in SERIES:
            require_series(function, functions)
        elif _key(function) in _FORMATS:
            _require_template(function, functions)
    for node in nodes:
        if isinstance(node, exp.DataType):
            _require_short_type(node, functions)
        elif isinstance(node, exp.Table) and functions.syntax.has_sequence_tables:
            require_short_sequence(node)
        elif isinstance(node, exp.WithFill):
            require_fill(node)
        elif isinstance(node, exp.With) and (node.args.get("recursive") or functions.syntax.recurses_without_word):
            _require_end(node)


def _key(function: exp.Func) -> str:
    kind = type(function).__name__
    return function.name.lower() if kind == "Anonymous" else kind


class _Built:
    """The length of the strings that a statement's functions build; they may be nested, even through a subquery."""

    def __init__(self, tree: exp.Expr) -> None:
        self._tree = tree
        self._times = 1
        self._padded = 0
        self._unknown = 0

    def add(self, function: exp.Func, functions: FunctionList) -> None:
        """Count a function. Raises an error if the functions counted so far may build too much."""
        if _key(function) in _REPLACING:
            growth = _growth(function)
            self._times *= growth or 1
            self._unknown += growth is None
        else:
            size = _length(function, functions)
            if _key(function) in _MULTIPLYING:
                self._times *= max(1, size)
            else:
                self._padded += size
        length = max(1, self._padded)
        if self._times > 1 and length > 1:
            length *= self._times
        elif self._times > 1:
            length = self._times * self._longest()
        if length * max(1, self._padded) ** self._unknown > MAX_TEXT:
            raise functions.refuse_size(function, f"builds strings of more than {MAX_TEXT:,} characters", MAX_TEXT)

    def _longest(self) -> int:
        """Return the length of the longest string literal in the statement."""
        return max((len(node.name) for node in self._tree.find_all(exp.Literal) if node.is_string), default=1) or 1


def _length(function: exp.Func, functions: FunctionList) -> int:
    """Return the number that determines the length or repetitions of a string, or 0 if there is a default."""
    where = _BUILDERS[_key(function)]
    listed = function.expressions
    if (isinstance(where, int) and where >= len(listed)) or (_key(function) == "polygon" and len(listed) == 1):
        return 0
    size = _size(function.args.get(where) if isinstance(where, str) else listed[where])
    if size is None:
        raise functions.refuse_size(function, "builds strings whose length is not a literal number", MAX_TEXT)
    if size > MAX_TEXT:
        raise functions.refuse_size(function, f"builds strings of more than {MAX_TEXT:,} characters", MAX_TEXT)
    return int(size)


def _growth(function: exp.Func) -> int | None:
    """Return how much a string may grow if each match of a literal is replaced by a longer one.

    None if the replacement is not a literal.
    """
    match, new = function.args.get("expression"), function.args.get("replacement")
    if not isinstance(new, exp.Literal):
        return 1 if new is None else None
    length = len(match.name) if isinstance(match, exp.Literal) and _key(function) == "Replace" else 1
    return max(1, len(new.name) // max(1, length))


def _require_template(function: exp.Func, functions: FunctionList) -> None:
    """Raise an error for a template, in one string or in pieces, with a width that is too large or not a literal."""
    listed = function.expressions
    template = function.this if type(function).__name__ != "Anonymous" else listed[0] if listed else None
    if not functions.syntax.format_has_widths and _key(function) in ("Format", "format"):
        return
    text = _written(template)
    if text is None:
        why = "has a template that is not a string literal, so its widths are unknown"
        hint = "write the template as a single string literal"
        raise refused("size", f"the function `{functions.name_of(function)}`", why, hint=hint)
    if _WIDTH.search(text.replace("{{", "").replace("%%", "")):
        raise functions.refuse_size(
            function, "has a width of more than 9,999 in its format, or a width set by a value", 9999
        )


def _written(node: object) -> str | None:
    """Return a string literal, which may be concatenated from pieces, or None for other expressions."""
    if isinstance(node, exp.Literal | exp.National | exp.RawString | exp.Heredoc):
        return str(node.name)
    if isinstance(node, exp.Paren | exp.Cast):
        return _written(node.this)
    if isinstance(node, exp.DPipe):
        pieces = [_written(node.this), _written(node.expression)]
    elif isinstance(node, exp.Concat):
        pieces = [_written(expression) for expression in node.expressions]
    else:
        return None
    return None if None in pieces else "".join(map(str, pieces))


def _require_short_type(kind: exp.DataType, functions: FunctionList) -> None:
    """Raise an error for a type that pads every value to an excessive length."""
    own = kind.args.get("kind")  # Of a type that is written with its schema.
    name = getattr(kind.this, "name", "") if own is None else own.name.upper()
    if name not in functions.syntax.padded_types:
        return
    sizes = [_size(expression.this) for expression in kind.expressions]
    if any(size is not None and size > MAX_TEXT for size in sizes):
        why = f"pads a value to more than {MAX_TEXT:,} characters"
        raise refused("size", f"the type {name}", why, hint=f"use a length of at most {MAX_TEXT:,}")


def _size(node: object) -> float | None:
    """Return the value of a number, which may be negative, or of the largest number in an array."""
    if isinstance(node, exp.Array):
        sizes = [_size(expression) for expression in node.expressions]
        return None if None in sizes else float(math.prod(size or 0 for size in sizes))
    if isinstance(node, exp.Neg):
        return 0.0
    if isinstance(node, exp.Paren):
        return _size(node.this)
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    try:
        return float(node.this)
    except ValueError:
        return None


def _require_end(clause: exp.With) -> None:
    """Raise an error for an endless recursion: one without WHERE, join condition or LIMIT."""
    for part in clause.expressions:
        name = part.alias.lower()
        if part.this.args.get("limit") is not None:
            continue
        for select in part.this.find_all(exp.Select):
            own = {table.name.lower() for table in _tables(select)}
            if name in own and not _is_ended(select):
                raise refused(
                    "recursion",
                    f"the recursive part of `{part.alias}`",
                    "has no condition that ends the recursion",
                    hint="add a WHERE on one of its columns to the part after UNION",
                )


def _tables(select: exp.Select) -> Iterator[exp.Table]:
    sources = [select.args.get("from_"), *(select.args.get("joins") or ())]
    for source in sources:
        if source is not None and isinstance(source.this, exp.Table):
            yield source.this
            yield from (join.this for join in source.this.args.get("joins") or () if isinstance(join.this, exp.Table))


def _is_ended(select: exp.Select) -> bool:
    within = (join for table in _tables(select) for join in table.args.get("joins") or ())
    joins = [*(select.args.get("joins") or ()), *within]
    if any(join.args.get("using") for join in joins):
        return True
    conditions = [
        *(select.args.get(name) for name in ("where", "qualify", "limit")),
        *(j.args.get("on") for j in joins),
    ]
    return any(
        condition is not None and (isinstance(condition, exp.Limit) or condition.find(exp.Column))
        for condition in conditions
    )


SERIES: Final = frozenset(
    {"GenerateSeries", "ExplodingGenerateSeries", "GenerateDateArray", "GenerateTimestampArray", "Generator", "Stack"}
    | {"numbers", "numbers_mt", "zeros", "zeros_mt", "range", "generate_series", "sequence", "arrayrange"}
)
"""Functions that generate rows or items: the parser's classes, and names in lower case."""

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
    """Raise an error for a series of more than `MAX_SERIES` items, or of unknown length."""
    counts = _counts(function)
    if counts is None:
        how = _too_long(*_ends(function))
    elif not counts or None in counts:
        how = "generates rows without a literal number as the limit"
    else:
        how = f"generates more than {MAX_SERIES:,} rows" if max(count or 0 for count in counts) > MAX_SERIES else ""
    if how:
        raise functions.refuse_size(function, how, MAX_SERIES)


def _counts(function: exp.Func) -> list[float | None] | None:
    """Return the row counts in a function's arguments, or None if the function has two ends instead."""
    kind = type(function).__name__
    if kind == "Generator":
        return [_number(function.args.get("rowcount"))]
    if kind == "Stack":
        return [_number(function.this)]
    if kind == "Anonymous" and (function.name.lower().startswith(("numbers", "zeros")) or not function.expressions):
        return [_number(expression) for expression in function.expressions]
    return None


def require_fill(fill: exp.Expr) -> None:
    """Raise an error for ClickHouse's WITH FILL of more than `MAX_SERIES` rows."""
    how = _too_long(fill.args.get("from_"), fill.args.get("to"), fill.args.get("step"))
    if how:
        raise refused("size", "WITH FILL", how, hint="add a FROM, a TO and a larger STEP")


def require_short_sequence(table: exp.Table) -> None:
    """Raise an error for an overlong table of MariaDB's sequence engine (`seq_1_to_9`, `seq_1_to_9_step_2`)."""
    found = _SEQUENCE.fullmatch(table.name)
    if found is not None and items(float(found[1]), float(found[2]), float(found[3] or 1)) > MAX_SERIES:
        why = f"generates more than {MAX_SERIES:,} rows"
        raise refused("size", f"`{table.name}`", why, hint="use a shorter sequence, such as seq_1_to_1000")


def _ends(function: exp.Func) -> tuple[exp.Expr | None, exp.Expr | None, exp.Expr | None]:
    """Return a series' two ends and step; a single argument is the end."""
    if not isinstance(function, exp.Anonymous):
        known = function.args
        return known.get("start"), known.get("end"), known.get("step") or known.get("interval")
    listed = function.expressions
    if len(listed) == 1:
        return None, listed[0], None
    return listed[0], listed[1], listed[2] if len(listed) > 2 else None


def _too_long(start: exp.Expr | None, end: exp.Expr | None, step: exp.Expr | None) -> str:
    """Return why a series may be too long, as a continuation of its name, or an empty string."""
    ends = [each for each in (start, end) if each is not None]
    if any(type(node).__name__ in _GROWING for each in ends for node in each.walk()):
        return "generates a series whose length is a product or a power"
    number, span = (1.0, _DAY) if step is None else (_number(step), _span(step))
    if number is None and span is None:
        return "generates a series whose step is not a literal number or interval"
    if number == 0 or span == 0:
        return "generates a series with step 0, which never ends"
    counted = _numbers(start, end, number) if number is not None else None
    if counted is None and (number is None or _has_times(ends)):
        counted = _times(start, end, span if span is not None else (number or 1) * _DAY)
    if counted is None:
        counted = _largest(ends) / min(1.0, abs(number or 1))
        if step is not None and abs(number or 1) < 1 and not _is_counted(ends):
            return "generates a series with a fractional step between ends that are not literal numbers"
    return f"generates a series of more than {MAX_SERIES:,} items" if counted > MAX_SERIES else ""


def _numbers(start: exp.Expr | None, end: exp.Expr | None, step: float) -> float | None:
    """Return the number of items in a series of literal numbers, or None if either end is not a literal."""
    first, last = 0.0 if start is None else _number(start), _number(end)
    return None if first is None or last is None else items(first, last, step)


def _times(start: exp.Expr | None, end: exp.Expr | None, step: float) -> float:
    """Return the number of items in a series of times, or an upper limit if either end is not a literal."""
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
    """Return a number literal, possibly negative, in parentheses or in a cast."""
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
    """Return the seconds in a literal interval."""
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
    """Return the seconds since 1970 for a moment that is a literal or close to today."""
    kind = type(node).__name__
    if kind in _NOW or (isinstance(node, exp.Anonymous) and node.name.lower() == "now"):
        return datetime.now(UTC).timestamp()
    if isinstance(node, exp.Literal):
        return seconds_of_moment(node.name) if node.is_string else None
    if isinstance(node, exp.Add | exp.Sub):
        return _moved(node)
    return _moment(node.this) if node is not None and kind in _SAME_MOMENT else None


def _moved(node: exp.Add | exp.Sub) -> float | None:
    """Return a moment plus or minus an interval or a number of days."""
    moment, days = _moment(node.this), _number(node.expression)
    by = _span(node.expression) if days is None else days * _DAY
    if moment is None or by is None:
        return None
    return moment - by if isinstance(node, exp.Sub) else moment + by


ASSUMED_SECONDS: Final = 300 * 366 * 86_400
"""The assumed distance between the ends of a time series if they come from columns."""

MAX_SERIES: Final = 10_000_000
"""The maximum number of items in a series, and the maximum value of an end if not all ends are literals."""

_UNITS: Final = (
    (1e-9, "nanosecond"), (1e-6, "microsecond us"), (1e-3, "millisecond ms"), (1.0, "second s sec"),
    (60.0, "minute m min"), (3600.0, "hour h hr"), (86_400.0, "day d"), (604_800.0, "week w"),
    (2_592_000.0, "month mon"), (7_776_000.0, "quarter"), (31_536_000.0, "year y yr"),
    (3.1536e8, "decade"), (3.1536e9, "century centurie"), (3.1536e10, "millennium"),
)  # fmt: skip
_SECONDS: Final = {name: seconds for seconds, names in _UNITS for name in names.split()}
_PART: Final = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]+)\s*")
_CLOCK: Final = re.compile(r"\s*(\d{1,4}):(\d\d)(?::(\d\d(?:\.\d+)?))?\s*")
_UNMEASURED: Final = re.compile(r"infinity|\bbc\b|\d{5,}-\d", re.IGNORECASE)


def seconds_of_span(text: str, unit: str = "") -> float | None:
    """Return the seconds in `1 day`, `01:30`, `1 year 2 days`, or in `1` with a unit, or None for other texts."""
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
    """Return the seconds since 1970 for an ISO 8601 date or timestamp, or None for other texts."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def is_unmeasured(text: str) -> bool:
    """Return whether a text is a moment that `seconds_of_moment` cannot measure: infinity, BC, a five-digit year."""
    return _UNMEASURED.search(text) is not None


def items(start: float, end: float, step: float) -> float:
    """Return the number of items in a series, or infinity for step 0."""
    if step == 0 or not math.isfinite(step):
        return math.inf
    return max(0.0, (end - start) / step + 1)


def items_between(moments: Iterable[float], spans: Iterable[float], step: float) -> float:
    """Return the maximum number of items in a time series whose ends contain these moments, spans and columns."""
    known = list(moments)
    apart = max(known) - min(known) if known else 0.0
    return items(0.0, max(ASSUMED_SECONDS, apart) + sum(map(abs, spans)), abs(step))
