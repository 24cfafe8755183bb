"""The stretch of time a number is about, worked out in Python: what `verifying` holds the SQL against.

The rules are those of docs/concepts/semantic-layer.md, written down a second time: nothing here asks the compiler how
it reads the periods of a question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

from sqlglot import exp

from ktx_cli.context.semantic.compiling.rows import Rows
from ktx_cli.context.semantic.expressions.names import Expression, Name
from ktx_cli.context.semantic.graph import Edge
from ktx_cli.context.semantic.model import (
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
    Column,
    Cumulative,
    Source,
    Span,
)
from ktx_cli.context.semantic.planning.plan import Dimension, TimeRange, Treatment
from ktx_cli.context.semantic.planning.ranges import instant
from ktx_cli.context.semantic.time import later, period_of

_MOMENT: Final = timedelta(microseconds=1)
_CUTS: Final = (exp.TimestampTrunc, exp.DateTrunc, exp.DatetimeTrunc)
_SECONDS: Final = {SECOND: 1, MINUTE: 60, HOUR: 3600, DAY: 86_400, WEEK: 604_800}
_MONTHS: Final = {MONTH: 1, QUARTER: 3, YEAR: 12, FISCAL_QUARTER: 3, FISCAL_YEAR: 12}


class NotPlacedError(Exception):
    """A number cannot be recomputed: nothing says which stretch of time it is about. The message is the reason."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Moments from `start` (None: always) to before `end` (None: for ever)."""

    start: datetime | None
    end: datetime | None

    @property
    def is_empty(self) -> bool:
        """Whether there is no moment in it."""
        return self.start is not None and self.end is not None and self.start >= self.end


@dataclass(frozen=True, slots=True)
class Period:
    """What the time dimensions of a row denote together: moments from `start` to before `end`; `grain` of a period."""

    start: datetime
    end: datetime
    grain: str | None

    @property
    def is_empty(self) -> bool:
        """Whether no moment is in all of the row's periods."""
        return self.start >= self.end


def stretch(
    period: Period,
    treatment: Treatment,
    asked: tuple[date | datetime | None, date | datetime | None],
    calendar: CalendarSettings,
) -> Stretch:
    """Return the moments whose rows make the number of a period.

    `asked`: the ends of the time range on that time; what it cuts off the period is cut off its window and off its
    earlier value too. Raises `NotPlacedError` for an earlier value of what is no period.
    """
    first, last = (None if each is None else instant(each) for each in asked)
    cut = (max(period.start, first) if first else period.start, min(period.end, last) if last else period.end)
    if cut[0] >= cut[1]:
        return Stretch(cut[0], cut[0])
    if treatment.offset is not None:
        cut = _earlier(period, cut, treatment.offset, calendar)
    if treatment.cumulative is None:
        return Stretch(*cut)
    return Stretch(_since(treatment.cumulative, cut[1], calendar), cut[1])


def whole_stretch(
    treatment: Treatment, asked: tuple[date | datetime | None, date | datetime | None], calendar: CalendarSettings
) -> Stretch:
    """Return the moments whose rows make a number without periods: those of the time range, or what it stands for."""
    start, end = (None if each is None else instant(each) for each in asked)
    if treatment.offset is not None:
        start, end = (None if each is None else _back(each, treatment.offset) for each in (start, end))
    if treatment.cumulative is None:
        return Stretch(start, end)
    if end is None and (treatment.cumulative.window or treatment.cumulative.to_date):
        raise NotPlacedError("nothing says where its window ends")
    return Stretch(None if end is None else _since(treatment.cumulative, end, calendar), end)


def _earlier(
    period: Period, cut: tuple[datetime, datetime], offset: Span, calendar: CalendarSettings
) -> tuple[datetime, datetime]:
    """Return what is left of the period that long before."""
    if period.grain is None:
        raise NotPlacedError("its earlier period is not known")
    moved = (_back(cut[0], offset), _back(cut[1], offset))
    if not _has_period_before(offset, period.grain):
        return moved
    start = instant(period_of(_back(period.start, offset), period.grain, calendar))
    return (
        start if cut[0] == period.start else moved[0],
        later(start, 1, period.grain) if cut[1] == period.end else moved[1],
    )


def _has_period_before(offset: Span, grain: str) -> bool:
    """Say whether a period of the grain lies that long before each, or a day (hour) that stands for it."""
    if grain in _MONTHS:
        return offset.unit in _MONTHS and offset.count * _MONTHS[offset.unit] % _MONTHS[grain] == 0
    if offset.unit in _MONTHS:
        return grain != WEEK
    return offset.count * _SECONDS[offset.unit] % _SECONDS[grain] == 0


def _since(cumulative: Cumulative, end: datetime, calendar: CalendarSettings) -> datetime | None:
    """Return from when on a running value counts that ends at `end`: `to_date` is of the last day (moment) in it."""
    if cumulative.window is not None:
        return _back(end, cumulative.window)
    if cumulative.to_date is None:
        return None
    return instant(period_of(end - _MOMENT, cumulative.to_date, calendar))


def _back(value: datetime, span: Span) -> datetime:
    return later(value, -span.count, span.unit)


Ends = tuple[date | datetime | None, date | datetime | None]
"""The ends of a time range: the first moment in it, the first behind it; None where it is open."""

FindDays = Callable[[Edge, Expression, Any], tuple[date | datetime, date | datetime] | None]
"""Takes a join to a calendar, an expression over its columns, and its value; returns the first and the last day."""


HasValue = Callable[[Edge, Expression, Any, Period], bool]
"""Takes the same and a period; says whether the calendar has the value on any day in it."""


class TimeAxis:
    """The time of a fact, by which the values of a window, an offset or a comparison go; `over` is its column."""

    def __init__(self, rows: Rows, over: Name, find_days: FindDays, has_value: HasValue) -> None:
        self.over = over
        self._rows = rows
        self._find_days = find_days
        self._has_value = has_value
        self._source: Source = rows.fact
        self._calendar = rows.names.model.calendar

    def is_on(self, expression: Expression) -> bool:
        """Say whether an expression reads this time alone: the column, what is computed of it, or its calendar."""
        return bool(expression.names) and all(self._is_of(name, expression) for name in expression.names)

    def is_exactly(self, expression: Expression) -> bool:
        """Say whether an expression is the time itself: the column, or the key of a calendar joined by it."""
        plain = isinstance(expression.tree, exp.Placeholder)
        return plain and self.is_on(expression) and self._is_time(expression.names[0], expression)

    def _is_time(self, name: Name, expression: Expression) -> bool:
        """Say whether a name on this time is the time itself, or the key of a calendar joined by it."""
        own = self._own_time(name)
        edge = None if own is None else self._edge(own, expression)
        if own is None or edge is None:
            return own is not None and own.column == self.over.column
        return (self.over.column, own.column) in edge.pairs

    def ends(self, asked: TimeRange | None) -> Ends:
        """Return the ends of the question's time range where it is about this time; it cuts no other one."""
        if asked is None or not self.is_on(asked.expression):
            return None, None
        if not self.is_exactly(asked.expression):
            raise NotPlacedError(f"the time range is on `{asked.expression.text}`, not on `{self.over}`")
        return asked.start, asked.end

    def period(self, dimensions: Sequence[tuple[Dimension, Any]]) -> Period | None:
        """Return what the time dimensions of a row denote together, None where there are none.

        The finest is the axis. Every other one must hold all of it, or it is of another time and the row of none.
        """
        on_it = [(each, value) for each, value in dimensions if self.is_on(each.expression)]
        found: list[Period] = []
        attributes: list[tuple[Dimension, Any, NotPlacedError]] = []
        for each, value in on_it:
            try:
                found.append(self._bounds(each, value))
            except NotPlacedError as error:
                attributes.append((each, value, error))
        if not found:
            if attributes:
                raise attributes[0][2]
            return None
        found.sort(key=lambda each: each.end - each.start)
        finest = found[0]
        empty = Period(finest.start, finest.start, finest.grain)
        for other in found[1:]:
            if other.end <= finest.start or finest.end <= other.start:
                return empty
            if finest.start < other.start or other.end < finest.end:
                raise NotPlacedError(f"periods of {other.grain} and {finest.grain} overlap")
        return finest if all(self._has(finest, *each) for each in attributes) else empty

    def _has(self, period: Period, dimension: Dimension, value: Any, error: NotPlacedError) -> bool:
        """Say whether a calendar has a value in a period: the name of a month, whether it is a holiday."""
        edge = self._calendar_of(dimension.expression)
        if edge is None:
            raise error
        return period.is_empty or self._has_value(edge, _of_far_side(dimension.expression), value, period)

    def _calendar_of(self, expression: Expression) -> Edge | None:
        """Return the one join to a calendar behind which all of an expression is, None where there is no such."""
        edges = {self._edge(name, expression) for name in expression.names}
        return edges.pop() if len(edges) == 1 else None

    def _bounds(self, dimension: Dimension, value: Any) -> Period:
        edge = self._calendar_of(dimension.expression)
        if value is None:
            if edge is not None:
                raise NotPlacedError(f"`{dimension.asked}` has no value")
            return Period(datetime.min, datetime.min, None)
        grain = dimension.grain or self._grain(dimension.expression)
        if grain is None and self.is_exactly(dimension.expression) and _is_date(value):
            grain = DAY
        if grain is not None:
            start = _moment(value, dimension)
            return Period(start, later(start, 1, grain), grain)
        if edge is not None:
            return self._of_calendar(edge, dimension, value)
        raise NotPlacedError(f"the periods of `{dimension.asked}` are not known")

    def _of_calendar(self, edge: Edge, dimension: Dimension, value: Any) -> Period:
        """Return the days of a calendar that have a value, as a period of the grain it has."""
        ends = self._find_days(edge, _of_far_side(dimension.expression), value)
        if ends is None:
            raise NotPlacedError(f"`{dimension.asked}` does not say periods: its values come and go")
        start, end = instant(ends[0]), later(instant(ends[1]), 1, DAY)
        for grain in reversed(GRAINS[GRAINS.index(DAY) :]):
            if instant(period_of(start, grain, self._calendar)) == start and later(start, 1, grain) == end:
                return Period(start, end, grain)
        return Period(start, end, None)

    def _grain(self, expression: Expression) -> str | None:
        """Return the grain of the values of an expression of this time that is not cut, None where nothing says it."""
        tree = _bare(expression.tree)
        if isinstance(tree, _CUTS) and isinstance(_bare(tree.this), exp.Placeholder):
            grain = str(getattr(tree.args.get("unit"), "name", "")).casefold()
            return grain if grain in GRAINS else None
        if not isinstance(tree, exp.Placeholder):
            return None
        source, column = self._column(expression)
        if column is None:
            return None
        if column.natural_granularity is not None:
            return column.natural_granularity
        if column.expr is not None:
            return self._grain(self._rows.names.computed(source, column)) if source is self._source else None
        return DAY if isinstance(expression.tree, exp.TsOrDsToDate) or expression.tree.is_type("date") else None

    def _column(self, expression: Expression) -> tuple[Source, Column | None]:
        name = self._own_time(expression.names[0])
        assert name is not None
        edge = self._edge(name, expression)
        source = self._source if edge is None else self._rows.names.model.sources[edge.target]
        return source, source.column(name.column)

    def _own_time(self, name: Name) -> Name | None:
        return self._rows.time if name.is_metric_time else name

    def _edge(self, name: Name, expression: Expression) -> Edge | None:
        """Return the join to a calendar that a name is behind, None for a column of the fact itself."""
        path = None if expression.home else self._rows.names.graph.path(self._source.name, name.hops, expression.via)
        return path.edges[0] if path is not None and path.edges else None

    def _is_of(self, name: Name, expression: Expression) -> bool:
        own = self._own_time(name)
        if own is None:
            return False
        path = self._rows.names.graph.path(self._source.name, own.hops, expression.via)
        if path is None or len(path.edges) > 1:
            return False
        if not path.edges:
            return self._is_own(own.column, frozenset())
        (edge,) = path.edges
        return edge.to_one and all(self._is_own(key, frozenset()) for key, _ in edge.pairs)

    def _is_own(self, name: str, seen: frozenset[str]) -> bool:
        """Say whether a column of the fact is the time, or computed of nothing else."""
        if name == self.over.column:
            return True
        column = self._source.column(name)
        if column is None or column.expr is None or name in seen:
            return False
        names = self._rows.names.computed(self._source, column).names
        return bool(names) and all(not each.hops and self._is_own(each.column, seen | {name}) for each in names)


def both(one: Ends, other: Ends) -> Ends:
    """Return the ends of what is in two ranges."""
    starts = [each for each in (one[0], other[0]) if each is not None]
    stops = [each for each in (one[1], other[1]) if each is not None]
    return max(starts, key=instant, default=None), min(stops, key=instant, default=None)


def _of_far_side(expression: Expression) -> Expression:
    """Return an expression over the columns of a calendar as one of the calendar itself."""
    names = tuple(Name((), each.column) for each in expression.names)
    return Expression(expression.tree, names, None, expression.text)


def _bare(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, exp.Paren | exp.Cast | exp.TsOrDsToDate | exp.Date):
        tree = tree.this
    return tree


def _is_date(value: Any) -> bool:
    return (isinstance(value, date) and not isinstance(value, datetime)) or (
        isinstance(value, str) and len(value) == 10
    )


def _moment(value: Any, dimension: Dimension) -> datetime:
    try:
        return instant(value if isinstance(value, date) else datetime.fromisoformat(str(value)))
    except ValueError:
        raise NotPlacedError(f"`{dimension.asked}` has a value that is not a time") from None
