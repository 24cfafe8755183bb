"""The plan of a query: its dimensions, the aggregates over each fact, and its time range as dates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, TypeVar

from sqlglot import exp

from ktx_cli.core import Argument, Hint
from ktx_cli.semantic.calendar import STEPS, later, parse_range_value, parse_span
from ktx_cli.semantic.expressions.dates import DatePart
from ktx_cli.semantic.expressions.names import Expression, Name, placeholders
from ktx_cli.semantic.graph import Edge
from ktx_cli.semantic.model import DAY, MONTH, SECOND, WEEK, Cumulative, SemanticError, SemiAdditive, Span
from ktx_cli.semantic.query import TIME_RANGE, Query, QueryRange

Value = TypeVar("Value")
Bounds = tuple[date | datetime | None, date | datetime | None]
"""The start (included) and the end (excluded), or None where it is open."""


def asked_range(asked: QueryRange, now: datetime) -> Bounds:
    """Return the start and the end (excluded); `last` ends with the day of `now`.

    Raises `SemanticError` (`time_range`) for a time that cannot be parsed, or an end that is not after the start.
    """
    if asked.last is not None:
        span = _parsed(parse_span, asked.last, "last")
        end = later(now.date(), 1, "day")
        try:
            return later(end, -span.count, span.unit), end
        except OverflowError:
            message = f"the last {span} would begin before the year 1"
            raise SemanticError(message, hint="use a shorter period", code=TIME_RANGE) from None
    start = None if asked.start is None else _parsed(parse_range_value, asked.start, "start")
    stop = None if asked.end is None else _parsed(parse_range_value, asked.end, "end")
    if start is not None and stop is not None and instant(start) >= instant(stop):
        message = f"the time range ends at {stop}, which is not after its start {start}"
        year = Argument("time_range", {"start": "2024-01-01", "end": "2025-01-01"})
        hint = Hint("the end is exclusive, so all of 2024 is `{}`", year)
        raise SemanticError(message, hint=hint, code=TIME_RANGE)
    return start, stop


def _parsed(parse: Callable[[str], Value], text: str, key: str) -> Value:
    try:
        return parse(text)
    except SemanticError as error:
        part = {"last": "length"}.get(key, key)
        message = f"the {part} of the time range is invalid: {error.message}"
        raise SemanticError(message, hint=error.hint, code=TIME_RANGE, details=error.details) from None


def length(start: date | datetime, end: date | datetime) -> Span:
    """Return the length of a time range: in whole months if possible, else in days, else in seconds."""
    first, last = instant(start), instant(end)
    months = (last.year - first.year) * 12 + last.month - first.month
    if months > 0 and later(first, months, MONTH) == last:
        return Span(months, MONTH)
    seconds = int((last - first).total_seconds())
    return Span(seconds, SECOND) if seconds % 86_400 else Span(seconds // 86_400, DAY)


def added(one: Span, other: Span) -> Span | None:
    """Return the sum of two lengths, or None for days and months."""
    (size, base), (step, of) = STEPS[one.unit], STEPS[other.unit]
    if base == of:
        if one.unit == other.unit:
            return Span(one.count + other.count, one.unit)
        return Span(one.count * size + other.count * step, base)
    return None


def lines_up(span: Span, grain: str) -> bool:
    """Return whether each period of a grain has its own earlier period at this distance.

    A day has its own in the previous month: the day with the same number, or the last day of that month.
    """
    size, base = STEPS[span.unit]
    step, of = STEPS[grain]
    if base == of:
        return span.count * size % step == 0
    return of == SECOND or (grain == DAY and base == MONTH)


def differs_in_length(span: Span, grain: str) -> bool:
    """Return whether several periods of a grain may have the same earlier period, such as days with months."""
    return STEPS[span.unit][1] == MONTH and STEPS[grain][1] != MONTH and grain != WEEK


def earlier_range(start: date | datetime | None, end: date | datetime | None, back: Span) -> Bounds:
    """Return a time range shifted back by a length.

    The last days of a longer month would have no counterpart; all of them map to the last day of the shorter month.
    """
    first = None if start is None else later(start, -back.count, back.unit)
    last = None if end is None else later(end, -back.count, back.unit)
    if first is not None and last is not None and instant(first) >= instant(last):
        last = later(instant(first).date(), 1, DAY)
    return first, last


def instant(value: date | datetime) -> datetime:
    """Return the first moment of a date."""
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


@dataclass(frozen=True, slots=True)
class Dimension:
    """One column to group by.

    `name`: the name of the column in the answer. `grain`: the grain to which a time is truncated. `asked`: the
    dimension as written.
    """

    name: str
    expression: Expression
    asked: str
    grain: str | None = None

    @property
    def column(self) -> Name | None:
        """The dimension's column, or None for an expression over columns."""
        return self.expression.names[0] if isinstance(self.expression.tree, exp.Placeholder) else None


@dataclass(frozen=True, slots=True)
class Treatment:
    """An aggregate's treatment of rows besides its conditions: its time, window, snapshots, offset and grouping.

    `time`: the fact's column that counts as its time. `keep`: numbers of the dimensions it is grouped by, None for all.
    """

    time: str | None = None
    cumulative: Cumulative | None = None
    semi_additive: SemiAdditive | None = None
    offset: Span | None = None
    keep: tuple[int, ...] | None = None

    @property
    def is_windowed(self) -> bool:
        """Whether a period counts other rows than those within it."""
        return self.cumulative is not None or self.offset is not None


@dataclass(frozen=True, slots=True)
class Nested:
    """The inner part of a two-level aggregate: formulas, grouped by the dimensions and the keys."""

    keys: tuple[Expression, ...]
    formulas: tuple[exp.Expr, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """One aggregate over the rows of one fact.

    `aggregate`: its tree; in a nested one, columns refer to `nested.formulas`. `conditions`: the conditions on its
    rows. `kind`: `count`, `sum` or `other`. `home`: the source that declares it, or None for one in a query.
    """

    fact: str
    aggregate: Expression
    kind: str
    conditions: tuple[Expression, ...] = ()
    treatment: Treatment = Treatment()
    nested: Nested | None = None
    home: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """The key by which leaves are compared."""
        nested = None if self.nested is None else self.nested.formulas
        keys = () if self.nested is None else tuple(key.key for key in self.nested.keys)
        return (
            self.fact,
            self.aggregate.key,
            frozenset(condition.key for condition in self.conditions),
            self.treatment,
            nested,
            keys,
        )


@dataclass(frozen=True, slots=True)
class Output:
    """One measure in the answer: its formula, whose numbers are leaves; `ref` is its reference, as `source.name`."""

    name: str
    formula: exp.Expr
    asked: str
    ref: str | None = None
    description: str | None = None
    unit: str | None = None
    format: str | None = None


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A condition on rows; `facts`: the facts that it applies to, or None for all."""

    expression: Expression
    facts: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A time range on a dimension's column, with `start` included and `end` excluded."""

    expression: Expression
    start: date | datetime | None
    end: date | datetime | None


@dataclass(frozen=True, slots=True)
class Order:
    """A sort expression: a tree whose numbers are leaves, or dimensions (-1 is the first)."""

    tree: exp.Expr
    descending: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """A query with every name resolved.

    In `having` and `order` the numbers from 0 are leaves, those below are dimensions: -1 the first. `named_by`: by the
    number of a leaf, the measures that contain it, each with its enclosing measures, outermost first. `axes`: the times
    of cumulative and earlier aggregates, by fact and treatment. `notes`: notes for readers of the answer.
    """

    query: Query
    dimensions: tuple[Dimension, ...]
    outputs: tuple[Output, ...]
    leaves: tuple[Leaf, ...]
    filters: tuple[RowFilter, ...] = ()
    having: tuple[exp.Expr, ...] = ()
    order: tuple[Order, ...] = ()
    time_range: TimeRange | None = None
    timezone: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    having_texts: tuple[str, ...] = ()
    named_by: Mapping[int, Sequence[tuple[str, ...]]] = field(default_factory=dict)
    axes: Mapping[tuple[str, Treatment], Axis] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def composed(self) -> tuple[str, ...]:
        """The aggregates in the query itself: measures that no source defines, and aggregates in conditions."""
        own = {measure.expr for measure in self.query.measures}
        formulas = [output.asked for output in self.outputs if output.ref is None and output.asked in own]
        aggregates = [leaf.aggregate.text for leaf in self.leaves if leaf.home is None]
        return tuple(dict.fromkeys(formulas or aggregates))

    @property
    def wanted(self) -> list[int]:
        """The numbers of the answer's own leaves; the others are inside two-level ones."""
        trees = [*(output.formula for output in self.outputs), *self.having, *(each.tree for each in self.order)]
        numbers = {int(place.name) for tree in trees for place in placeholders(tree)}
        return sorted(number for number in numbers if number >= 0)


@dataclass(frozen=True, slots=True)
class Read:
    """A column that an expression reads, with computed columns expanded: the joins to it from a fact, and its name.

    `is_time`: it is the time itself, or the date of a calendar joined by it.
    """

    edges: tuple[Edge, ...]
    column: str
    is_time: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """A dimension computed from a time: its tree, whose placeholders refer to `reads`.

    `part` is None if unknown. `calendar`: the join by which its value is looked up for a day. `grain`: the grain to
    which the tree's value is also truncated.
    """

    tree: exp.Expr
    reads: tuple[Read, ...]
    part: DatePart | None
    calendar: Edge | None = None
    grain: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the dimension is the time itself, truncated to a grain or not."""
        return isinstance(self.tree, exp.Placeholder) and self.reads[0].is_time


@dataclass(frozen=True, slots=True)
class Axis:
    """The time of a fact's aggregates: `over` is the column with the time of a row.

    `grain` is None if no dimension uses that time. `seen`: the expression from which the periods are read. `readings`:
    the dimensions of that time by their numbers. `asked`: the time range on it, with equivalent filters. `filters`:
    those that apply to each row. `beside`: the time range if it is on something else.
    """

    over: Name
    grain: str | None = None
    seen: Expression | None = None
    readings: Mapping[int, Reading] = field(default_factory=dict)
    asked: TimeRange | None = None
    filters: tuple[RowFilter, ...] = ()
    beside: TimeRange | None = None
