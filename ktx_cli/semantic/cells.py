"""Recompute the numbers of one result row with a simple statement over the raw rows of each fact.

The compiled statement of an answer joins, groups and applies windows over periods. This module instead filters the
rows of a fact that belong to one row of the result and aggregates them. Columns of other sources come from subqueries
for a single value, which fail if there are several, and the time range is computed in Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from ktx_cli.semantic import model
from ktx_cli.semantic.calendar import later, literal, period_of
from ktx_cli.semantic.compile.build import Build, as_column, column, count_of, is_present, subquery
from ktx_cli.semantic.compile.rows import Rows, dimension_value, in_range, needs_ranks, row_conditions
from ktx_cli.semantic.expressions.fragments import distinct_columns, with_condition
from ktx_cli.semantic.expressions.names import Expression, Name, filled, placeholder, placeholders
from ktx_cli.semantic.graph import Edge, Path
from ktx_cli.semantic.masks import mask_value
from ktx_cli.semantic.plan.axis import reader
from ktx_cli.semantic.plan.plan import Dimension, Leaf, Output, RowFilter, TimeRange, Treatment, instant
from ktx_cli.semantic.probes import is_over_time
from ktx_cli.warehouses import DateOrTimestamp, QueryResult, SemanticType

if TYPE_CHECKING:
    pass

Run = Callable[[str], QueryResult]
"""Runs a statement and returns its single row."""

Keyed = tuple[Dimension, Any]
"""A dimension and its value in the result row."""

Days = tuple[date | datetime, date | datetime]
"""The first and last day of a period."""

_PLAIN: Final = (str, int, float, Decimal, type(None))
_ORDERED: Final = (
    *(exp.ApproxQuantile, exp.ApproxTopK, exp.GroupConcat, exp.ArrayAgg, exp.ArrayConcatAgg, exp.ArrayUniqueAgg),
    *(exp.AnyValue, exp.First, exp.Last, exp.FirstValue, exp.LastValue, exp.ArgMax, exp.ArgMin, exp.Mode),
)
"""Aggregates whose value may depend on the order of the rows."""

_AGGREGATES: Final = "ktx_aggregates"
"""Alias of the subquery with the aggregates of one row."""


def unsupported(build: Build, formula: exp.Expr) -> str | None:
    """Return the reason why a formula cannot be recomputed, or None if it can."""
    for place in placeholders(formula):
        leaf = build.plan.leaves[int(place.name)]
        if needs_ranks(leaf.aggregate.tree, build.dialect):
            return "it is a percentile, and the database has no aggregate for it"
        if leaf.nested is not None:
            return "it aggregates a measure"
        if leaf.aggregate.tree.find(*_ORDERED):
            return "its value can depend on the order of the rows"
        if leaf.treatment.semi_additive is not None and is_over_time(leaf):
            return "it is a window or offset of a measure that is not additive over time"
    return None


def leaf_of(output: Output) -> int | None:
    """Return the number of an output's aggregate, or None if the output is computed from aggregates."""
    formula = output.formula.unnest()
    return int(formula.name) if isinstance(formula, exp.Placeholder) else None


class Cells:
    """Recomputes rows of one answer. `unplaced` maps aggregates without a known time range to the reason."""

    def __init__(self, build: Build, run: Run) -> None:
        self._build = build
        self._run = run
        self._calendars: dict[tuple[str, str, str], Days | None] = {}
        self._ranges: dict[tuple[str, str, str], Ends | None] = {}
        self.unplaced: dict[int, str] = {}

    def row(self, keys: tuple[Any, ...], outputs: Sequence[Output]) -> tuple[dict[str, Any], dict[int, Any]]:
        """Return the values of outputs and aggregates for the row with these dimension values.

        Outputs without a known time range are omitted.
        """
        fresh = self._build.again()
        aggregates: dict[int, exp.Expr] = {}
        for number in sorted({int(place.name) for output in outputs for place in placeholders(output.formula)}):
            try:
                value = self._aggregate(fresh, self._build.plan.leaves[number], keys)
            except NotPlacedError as error:
                self.unplaced.setdefault(number, str(error))
            else:
                aggregates[number] = as_column(value, f"a{number}")
        kept = [output for output in outputs if self.reason(output) is None]
        if not kept:
            return {}, {}
        formulas = [each for each in kept if leaf_of(each) is None]
        selected = [
            as_column(filled(formula.formula, lambda number: column(f"a{number}", _AGGREGATES)), f"v{index}")
            for index, formula in enumerate(formulas)
        ]
        inner = exp.select(*aggregates.values(), copy=False)
        if formulas:
            of_leaves = [column(f"a{number}", _AGGREGATES) for number in aggregates]
            relation = subquery(inner, _AGGREGATES)
            inner = exp.select(*selected, *of_leaves, copy=False).from_(relation, copy=False)
        values = self._row(fresh, inner)
        leaves = dict(zip(aggregates, values[len(formulas) :], strict=True))
        found = dict(zip((formula.name for formula in formulas), values, strict=False))
        bare = {each.name: leaves[place] for each in kept if (place := leaf_of(each)) is not None}
        return found | bare, leaves

    def _row(self, build: Build, query: exp.Select) -> Sequence[Any]:
        """Return the single row of a query. With that row limit, the guard sends the statement unchanged."""
        (found,) = self._run(build.with_queries(query).limit(2, copy=False).sql(build.dialect)).rows
        return found

    def reason(self, output: Output) -> str | None:
        """Return the reason why an output has no known time range, or None if it has one."""
        numbers = (int(place.name) for place in placeholders(output.formula))
        return next((self.unplaced[number] for number in numbers if number in self.unplaced), None)

    def _aggregate(self, build: Build, leaf: Leaf, keys: tuple[Any, ...]) -> exp.Expr:
        found = exp.Subquery(this=self._query(build, leaf, keys))
        return exp.Coalesce(this=found, expressions=[exp.Literal.number(0)]) if leaf.kind == "count" else found

    def is_unseen(self, keys: tuple[Any, ...], output: Output) -> bool:
        """Return whether the period of a row has no rows, so that its cumulative and earlier values are not shown.

        With `fill`, every period is shown.
        """
        build = self._build.again()
        if build.plan.query.fill:
            return False
        leaves = [build.plan.leaves[int(place.name)] for place in placeholders(output.formula)]
        over_time = [leaf for leaf in leaves if is_over_time(leaf)]
        for leaf in over_time:
            treatment = replace(leaf.treatment, cumulative=None, offset=None)
            rows, axis, dimensions, _ = self._seen_from(build, leaf, keys)
            if axis is None or not any(axis.is_on(each.expression) for each, _ in dimensions):
                return False
            filters, asked = self._without_ranges(rows, treatment, axis, build.plan.filters)
            conditions = self._in_stretch(rows, treatment, axis, dimensions, asked)
            conditions += row_conditions(rows, build.plan, filters)
            count = rows.select([count_of()]).where(*conditions, copy=False)
            (found,) = self._row(build, count)
            if int(found):
                return False
        return bool(over_time)

    def _query(self, build: Build, leaf: Leaf, keys: tuple[Any, ...]) -> exp.Select:
        """Return the query for one aggregate over the rows that belong to a result row."""
        plan = build.plan
        rows, axis, others, details = self._seen_from(build, leaf, keys)
        filters = [condition for condition in plan.filters if condition.facts is None or leaf.fact in condition.facts]
        conditions: list[exp.Expr] = []
        if is_over_time(leaf):
            asked: Ends = (None, None)
            if axis is not None:
                filters, asked = self._without_ranges(rows, leaf.treatment, axis, filters)
            conditions += self._in_stretch(rows, leaf.treatment, axis, others, asked)
            others = [other for other in others if axis is None or not axis.is_on(other[0].expression)]
        elif plan.time_range is not None:
            conditions.append(in_range(rows, plan.time_range))
        conditions += [_has_value(rows, *other) for other in others]
        conditions += [_of_details(rows, details, filters)] if details else row_conditions(rows, plan, filters)
        if leaf.treatment.semi_additive is not None and axis is not None:
            return _at_moment(rows, leaf, leaf.treatment.semi_additive, axis, conditions, [*others, *details])
        return _aggregated(rows, leaf, conditions)

    def _seen_from(
        self, build: Build, leaf: Leaf, keys: tuple[Any, ...]
    ) -> tuple[Lookups, TimeAxis | None, list[Keyed], list[Keyed]]:
        """Return the rows of an aggregate, its time axis, and its dimensions with values, separated by detail joins."""
        plan, source = build.plan, build.names.model.sources[leaf.fact]
        rows = Lookups(build, leaf.fact, time=build.time_of(source, leaf.treatment.time))
        kept = range(len(plan.dimensions)) if leaf.treatment.keep is None else leaf.treatment.keep
        pairs = [(plan.dimensions[index], keys[index]) for index in kept]
        details = [pair for pair in pairs if rows.many_prefixes(pair[0].expression)]
        others = [pair for pair in pairs if pair not in details]
        return rows, self._axis(rows, leaf), others, details

    def _axis(self, rows: Lookups, leaf: Leaf) -> TimeAxis | None:
        """Return the time axis of an aggregate, or None if its fact has none."""
        treatment, over = leaf.treatment, rows.time
        time_spec = treatment.cumulative or treatment.semi_additive
        if time_spec is not None and time_spec.over is not None:
            found = rows.fact.column(time_spec.over)
            over = None if found is None else Name((), found.name)
        elif treatment.cumulative is None and treatment.time is None:
            over = _asked_time(rows, over)
        return None if over is None else TimeAxis(rows, over, self._find_days, self._has_value)

    def _in_stretch(
        self, rows: Rows, treatment: Treatment, axis: TimeAxis | None, dimensions: Sequence[Keyed], asked: Ends
    ) -> list[exp.Expr]:
        """Return the conditions that a row is within the time range of the result row.

        A time range on something else than the axis only excludes rows: it is the end of no window.
        """
        calendar, whole = rows.names.model.calendar, rows.build.plan.time_range
        period = None if axis is None else axis.period(dimensions)
        beside = [] if axis is None or whole is None or axis.is_on(whole.expression) else [in_range(rows, whole)]
        if period is not None and axis is not None:
            over = _of_column(axis.over)
            found = Stretch(None, None) if period.is_empty else stretch(period, treatment, asked, calendar)
            if period.is_empty or found.is_empty:
                return [exp.false()]
        elif axis is not None:
            over, found = _of_column(axis.over), whole_stretch(treatment, asked, calendar)
        elif whole is not None and not any(each.grain for each, _ in dimensions):
            over, found = whole.expression, whole_stretch(treatment, (whole.start, whole.end), calendar)
        else:
            raise NotPlacedError(f"the time column of `{rows.fact.name}` that it uses is unknown")
        if found.start is None and found.end is None:
            return beside
        return [in_range(rows, TimeRange(over, found.start, found.end)), *beside]

    def _without_ranges(
        self, rows: Lookups, treatment: Treatment, axis: TimeAxis, filters: Sequence[RowFilter]
    ) -> tuple[list[RowFilter], Ends]:
        """Return the row conditions, and the time range including conditions that are equivalent to a range.

        Time conditions that contradict each other stay row conditions.
        """
        kept: list[RowFilter] = []
        asked = ends = axis.ends(rows.build.plan.time_range)
        for condition in filters:
            found = self._ends_of(rows, treatment, axis, condition.expression)
            if found is None:
                kept.append(condition)
            else:
                ends = both(ends, found)
        first, last = (None if end is None else instant(end) for end in ends)
        return (list(filters), asked) if first and last and first >= last else (kept, ends)

    def _ends_of(self, rows: Lookups, treatment: Treatment, axis: TimeAxis, condition: Expression) -> Ends | None:
        """Return the range of a condition such as `time >= '2025-01-01'`, or None if it is not a time range.

        The result is checked against the data: the condition and the range must select the same rows.
        """
        key = (rows.fact.name, str(axis.over), condition.text)
        if key not in self._ranges:
            times = reader(rows.names, rows.build.plan, rows.fact.name, axis.over, treatment.time)
            found = times.bounds(condition)
            if found is not None and times.reads_only_own(condition):
                found = found if self._keeps_the_same(rows.fact.name, rows.time, axis, condition, found) else None
            self._ranges[key] = found
        return self._ranges[key]

    def _keeps_the_same(self, fact: str, time: Name | None, axis: TimeAxis, condition: Expression, ends: Ends) -> bool:
        """Return whether a condition selects exactly the rows in a time range."""
        rows, over = Rows(self._build.again(), fact, time=time), _of_column(axis.over)
        known = is_present(rows.bind(over))
        within = known if ends == (None, None) else in_range(rows, TimeRange(over, *ends))
        true = exp.paren(rows.bind(condition), copy=False)
        both_true = exp.and_(true.copy(), within.copy())
        counts = [count_of(each) for each in (true, within, both_true)]
        found = self._row(rows.build, rows.select(counts))
        return len({int(each) for each in found}) == 1

    def _find_days(self, edge: Edge, expression: Expression, value: Any) -> Days | None:
        """Return the first and last day with a value in a calendar, or None if the days are not contiguous."""
        key = (str(edge), expression.text, repr(value))
        if key not in self._calendars:
            self._calendars[key] = self._look_up_days(edge, expression, value)
        return self._calendars[key]

    def _has_value(self, edge: Edge, expression: Expression, value: Any, period: Period) -> bool:
        """Return whether a calendar has a value on any day of a period. Missing days have no value."""
        rows = Rows(self._build.again(), edge.target)
        days = TimeRange(_of_column(Name((), edge.pairs[0][1])), period.start, period.end)
        wanted = rows.build.syntax.null_safe(rows.bind(expression), _literal(value, None, rows.build.dialect))
        query = rows.select([count_of(), count_of(wanted)]).where(in_range(rows, days), copy=False)
        every, having = self._row(rows.build, query)
        return bool(int(having)) or (value is None and not int(every))

    def _look_up_days(self, edge: Edge, expression: Expression, value: Any) -> Days | None:
        rows = Rows(self._build.again(), edge.target)
        day = rows.bind(_of_column(Name((), edge.pairs[0][1])))
        wanted = rows.build.syntax.null_safe(rows.bind(expression), _literal(value, None, rows.build.dialect))
        ends = rows.select([as_column(exp.Min(this=day), "first"), as_column(exp.Max(this=day.copy()), "last")])
        found = self._row(rows.build, ends.where(wanted))
        first, last = _as_day(found[0]), _as_day(found[1])
        if first is None or last is None:
            return None
        rows = Rows(self._build.again(), edge.target)
        between = [
            exp.GTE(this=day.copy(), expression=_literal(found[0], None, rows.build.dialect)),
            exp.LTE(this=day.copy(), expression=_literal(found[1], None, rows.build.dialect)),
            exp.Not(this=exp.paren(wanted)),
        ]
        others = rows.select([count_of()]).where(*between, copy=False)
        (count,) = self._row(rows.build, others)
        return None if int(count) else (first, last)


def _asked_time(rows: Lookups, default: Name | None) -> Name | None:
    """Return the fact's time column that a query uses: the default, or that of the periods or the time range."""
    plan = rows.build.plan
    asked = [
        dimension.expression
        for dimension in plan.dimensions
        if dimension.grain is not None and dimension.column is not None
    ]
    asked += [] if plan.time_range is None else [plan.time_range.expression]
    times: list[Name] = []
    for each in asked:
        name = each.names[0]
        own = default if name.is_metric_time else None
        if not name.is_metric_time and not rows.path(name, each).edges:
            column = rows.fact.column(name.column)
            own = name if column is not None and column.type is SemanticType.TIME and column.expr is None else None
        if own is not None:
            times.append(Name((), own.column))
    return default if default in times or len(set(times)) != 1 else times[0]


def _has_value(rows: Rows, dimension: Dimension, value: Any) -> exp.Expr:
    wanted = _literal(value, dimension.grain, rows.build.dialect)
    return rows.build.syntax.null_safe(dimension_value(rows, dimension), wanted)


def _aggregated(rows: Rows, leaf: Leaf, conditions: Sequence[exp.Expr]) -> exp.Select:
    """Return the query for an aggregate over the rows that meet the given conditions and its own."""
    bound = [exp.paren(rows.bind(condition), copy=False) for condition in leaf.conditions]
    columns = distinct_columns(leaf.aggregate.tree)
    if columns:
        parts = [rows.bind(replace(leaf.aggregate, tree=each)) for each in columns]
        return _combinations(rows, parts, [*conditions, *bound])
    own = exp.and_(*bound, copy=False) if bound else None
    aggregate = with_condition(rows.bind(leaf.aggregate), own, rows.build.dialect)
    return rows.select([aggregate]).where(*conditions, copy=False)


def _combinations(rows: Rows, parts: Sequence[exp.Expr], conditions: Sequence[exp.Expr]) -> exp.Select:
    """Return the query for the number of distinct combinations of non-null values."""
    selected = [as_column(part, f"c{number}") for number, part in enumerate(parts)]
    there = [is_present(part.copy()) for part in parts]
    query = rows.select(selected).distinct(copy=False).where(*there, *conditions, copy=False)
    return exp.select(count_of(), copy=False).from_(subquery(query, "combinations"), copy=False)


def _at_moment(
    rows: Rows,
    leaf: Leaf,
    semi: model.SemiAdditive,
    axis: TimeAxis,
    conditions: Sequence[exp.Expr],
    dimensions: Sequence[Keyed],
) -> exp.Select:
    """Return the query for a semi-additive value: the last or first value, or the average."""
    over = _of_column(axis.over)
    if semi.take == "average":
        each = _aggregated(rows, leaf, conditions)
        each.expressions[0].replace(as_column(each.expressions[0].copy(), "value"))
        inner = subquery(each.group_by(rows.bind(over), copy=False), "moments")
        return exp.select(exp.Avg(this=column("value", "moments")), copy=False).from_(inner, copy=False)
    build, plan = rows.build, rows.build.plan
    among = Lookups(build, leaf.fact, alias=f"{rows.alias}__at", time=rows.time)
    pick = exp.Min if semi.take == "first" else exp.Max
    query = among.select([pick(this=among.bind(over))])
    held = [condition for condition in plan.filters if axis.is_on(condition.expression)]
    where = row_conditions(among, plan, held)
    where += [exp.paren(among.bind(condition), copy=False) for condition in leaf.conditions if axis.is_on(condition)]
    where += [_has_value(among, *pair) for pair in dimensions if axis.is_on(pair[0].expression)]
    where += [build.syntax.null_safe(among.own(name), rows.own(name)) for name in semi.per]
    if plan.time_range is not None:
        where.append(in_range(among, plan.time_range))
    moment = exp.Subquery(this=query.where(*where, copy=False))
    return _aggregated(rows, leaf, [*conditions, exp.EQ(this=rows.bind(over), expression=moment)])


def _of_details(rows: Rows, dimensions: Sequence[Keyed], filters: Sequence[RowFilter]) -> exp.Expr:
    """Return the condition that a row joined to the fact's row has the given values and meets the conditions."""
    inner = Rows(rows.build, rows.fact.name, alias=f"{rows.alias}__any", time=rows.time)
    conditions = [_has_value(inner, *pair) for pair in dimensions]
    conditions += row_conditions(inner, rows.build.plan, filters)
    query = inner.select([exp.Literal.number(1)])
    for condition in (inner.same_row(rows), *conditions):
        query = query.where(condition, copy=False)
    return exp.Exists(this=query)


class Lookups(Rows):
    """The rows of a fact without joins. Columns of other sources come from subqueries for a single value."""

    def select(self, expressions: Sequence[exp.Expr]) -> exp.Select:
        """Return a query over the fact without joins."""
        relation = self.build.relation(self.fact, self.alias)
        return exp.select(*expressions, copy=False).from_(relation, copy=False)

    def _value(self, path: Path, name: str) -> exp.Expr:
        if not path.edges:
            return super()._value(path, name)
        return self._looked_up(path.edges, name, self.alias)

    def _looked_up(self, edges: tuple[Edge, ...], name: str, parent: str) -> exp.Expr:
        """Return the subquery for a column that is reached over joins from `parent`."""
        edge, alias = edges[0], self._free(f"{edges[0].name}__look")
        source = self.names.model.sources[edge.target]
        onward = edges[1:]
        value = self._looked_up(onward, name, alias) if onward else self._column_of(edge.target, name, alias)
        query = exp.select(value, copy=False).from_(self.build.relation(source, alias), copy=False)
        self.build.require_unmasked_conditions(edge)
        near, far = self.names.model.sources[edge.source], source
        for own, other in edge.pairs:
            query = query.where(
                exp.EQ(this=self._key(near, own, parent), expression=self._key(far, other, alias)), copy=False
            )
        for own_side, key, constant in edge.conditions:
            place = self._key(near, key, parent) if own_side else self._key(far, key, alias)
            query = query.where(exp.EQ(this=place, expression=exp.convert(constant)), copy=False)
        return exp.Subquery(this=query)

    def _column_of(self, source: str, name: str, alias: str) -> exp.Expr:
        found = self.names.model.sources[source].column(name)
        if found is None or found.expr is None:
            return column(name if found is None else found.name, alias)
        inner = self.names.computed(self.names.model.sources[source], found)

        def value(of: Name) -> exp.Expr:
            onward = self.names.graph.path(source, of.hops) if of.hops else Path(source)
            if onward is None:
                raise AssertionError(f"no path from {source} to {of}")
            if onward.edges:
                return self._looked_up(onward.edges, of.column, alias)
            return self._column_of(source, of.column, alias)

        bound = exp.paren(self.build.bound(inner, value), copy=False)
        mask = self.names.masks(self.names.model.sources[source]).get(found.name.casefold())
        return bound if mask is None else mask_value(self.names.model.sources[source], found, mask, bound)


def _of_column(name: Name) -> Expression:
    return Expression(placeholder(0), (name,), None, str(name))


def _literal(value: Any, grain: str | None, dialect: str) -> exp.Expr:
    if grain is not None and value is not None:
        kind: DateOrTimestamp = "timestamp" if grain in ("second", "minute", "hour") else "date"
        moment = value if isinstance(value, date) else datetime.fromisoformat(str(value))
        return literal(moment, kind, dialect)
    if isinstance(value, date) and getattr(value, "tzinfo", None) is None:
        return literal(value, "timestamp" if isinstance(value, datetime) else "date", dialect)
    if not isinstance(value, _PLAIN) or (isinstance(value, float | Decimal) and not math.isfinite(value)):
        raise NotPlacedError(f"the database has no literal for a value of type {type(value).__name__}")
    return exp.convert(value)


def _as_day(value: Any) -> date | datetime | None:
    """Return the day for a calendar key, or None if it is not a date."""
    try:
        found = value if isinstance(value, date) else datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return None if isinstance(found, datetime) and found.time() != datetime.min.time() else found


_MOMENT: Final = timedelta(microseconds=1)
_CUTS: Final = (exp.TimestampTrunc, exp.DateTrunc, exp.DatetimeTrunc)
_SECONDS: Final = {model.SECOND: 1, model.MINUTE: 60, model.HOUR: 3600, model.DAY: 86_400, model.WEEK: 604_800}
_MONTHS: Final = {model.MONTH: 1, model.QUARTER: 3, model.YEAR: 12, model.FISCAL_QUARTER: 3, model.FISCAL_YEAR: 12}


class NotPlacedError(Exception):
    """A number cannot be recomputed because its time range is unknown. The message is the reason."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A half-open time range from `start` to `end`. None means unbounded."""

    start: datetime | None
    end: datetime | None

    @property
    def is_empty(self) -> bool:
        """Whether the range is empty."""
        return self.start is not None and self.end is not None and self.start >= self.end


@dataclass(frozen=True, slots=True)
class Period:
    """The intersection of a row's time dimensions, from `start` to before `end`, with the grain of a period."""

    start: datetime
    end: datetime
    grain: str | None

    @property
    def is_empty(self) -> bool:
        """Whether the intersection is empty."""
        return self.start >= self.end


def stretch(
    period: Period,
    treatment: Treatment,
    asked: tuple[date | datetime | None, date | datetime | None],
    calendar: model.CalendarSettings,
) -> Stretch:
    """Return the time range of the rows behind a period's number.

    `asked` is the time range of the query. If it cuts off a part of the period, it also shortens the window and the
    earlier period. Raises `NotPlacedError` if the earlier period is unknown.
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
    treatment: Treatment, asked: tuple[date | datetime | None, date | datetime | None], calendar: model.CalendarSettings
) -> Stretch:
    """Return the time range of the rows behind a number without periods."""
    start, end = (None if each is None else instant(each) for each in asked)
    if treatment.offset is not None:
        start, end = (None if each is None else _back(each, treatment.offset) for each in (start, end))
    if treatment.cumulative is None:
        return Stretch(start, end)
    if end is None and (treatment.cumulative.window or treatment.cumulative.to_date):
        raise NotPlacedError("the end of its window is unknown")
    return Stretch(None if end is None else _since(treatment.cumulative, end, calendar), end)


def _earlier(
    period: Period, cut: tuple[datetime, datetime], offset: model.Span, calendar: model.CalendarSettings
) -> tuple[datetime, datetime]:
    """Return the part of the earlier period within the time range."""
    if period.grain is None:
        raise NotPlacedError("its earlier period is unknown")
    moved = (_back(cut[0], offset), _back(cut[1], offset))
    if not _has_period_before(offset, period.grain):
        return moved
    start = instant(period_of(_back(period.start, offset), period.grain, calendar))
    return (
        start if cut[0] == period.start else moved[0],
        later(start, 1, period.grain) if cut[1] == period.end else moved[1],
    )


def _has_period_before(offset: model.Span, grain: str) -> bool:
    """Return whether every period of the grain has an earlier period at this offset."""
    if grain in _MONTHS:
        return offset.unit in _MONTHS and offset.count * _MONTHS[offset.unit] % _MONTHS[grain] == 0
    if offset.unit in _MONTHS:
        return grain != model.WEEK
    return offset.count * _SECONDS[offset.unit] % _SECONDS[grain] == 0


def _since(cumulative: model.Cumulative, end: datetime, calendar: model.CalendarSettings) -> datetime | None:
    """Return the start of a cumulative value that ends at `end`. `to_date` refers to the last day before `end`."""
    if cumulative.window is not None:
        return _back(end, cumulative.window)
    if cumulative.to_date is None:
        return None
    return instant(period_of(end - _MOMENT, cumulative.to_date, calendar))


def _back(value: datetime, span: model.Span) -> datetime:
    return later(value, -span.count, span.unit)


Ends = tuple[date | datetime | None, date | datetime | None]
"""A half-open time range: its start and end, each None if it is unbounded."""

FindDays = Callable[[Edge, Expression, Any], tuple[date | datetime, date | datetime] | None]
"""Takes a join to a calendar, an expression over its columns and a value; returns the first and last day."""


HasValue = Callable[[Edge, Expression, Any, Period], bool]
"""Takes a join, expression, value and period; returns whether the calendar has the value on any day of the period."""


class TimeAxis:
    """The time of a fact for windows, offsets and comparisons. `over` is its column."""

    def __init__(self, rows: Rows, over: Name, find_days: FindDays, has_value: HasValue) -> None:
        self.over = over
        self._rows = rows
        self._find_days = find_days
        self._has_value = has_value
        self._source: model.Source = rows.fact
        self._calendar = rows.names.model.calendar

    def is_on(self, expression: Expression) -> bool:
        """Return whether an expression only reads this time: the column, columns computed from it, or its calendar."""
        return bool(expression.names) and all(self._is_of(name, expression) for name in expression.names)

    def is_exactly(self, expression: Expression) -> bool:
        """Return whether an expression is the time column, or the key of a calendar that is joined on that column."""
        plain = isinstance(expression.tree, exp.Placeholder)
        return plain and self.is_on(expression) and self._is_time(expression.names[0], expression)

    def _is_time(self, name: Name, expression: Expression) -> bool:
        """Return whether a name is the time column, or the key of a calendar that is joined on that column."""
        own = self._own_time(name)
        edge = None if own is None else self._edge(own, expression)
        if own is None or edge is None:
            return own is not None and own.column == self.over.column
        return (self.over.column, own.column) in edge.pairs

    def ends(self, asked: TimeRange | None) -> Ends:
        """Return the query's time range, which must be on this time."""
        if asked is None or not self.is_on(asked.expression):
            return None, None
        if not self.is_exactly(asked.expression):
            raise NotPlacedError(f"the time range is on `{asked.expression.text}`, not on `{self.over}`")
        return asked.start, asked.end

    def period(self, dimensions: Sequence[tuple[Dimension, Any]]) -> Period | None:
        """Return the intersection of a row's time dimensions, or None if there are none.

        The finest one determines the period. Each other one must contain it, or the row belongs to no period.
        """
        on_it = [(each, value) for each, value in dimensions if self.is_on(each.expression)]
        result: list[Period] = []
        attributes: list[tuple[Dimension, Any, NotPlacedError]] = []
        for each, value in on_it:
            try:
                result.append(self._bounds(each, value))
            except NotPlacedError as error:
                attributes.append((each, value, error))
        if not result:
            if attributes:
                raise attributes[0][2]
            return None
        result.sort(key=lambda each: each.end - each.start)
        finest = result[0]
        empty = Period(finest.start, finest.start, finest.grain)
        for other in result[1:]:
            if other.end <= finest.start or finest.end <= other.start:
                return empty
            if finest.start < other.start or other.end < finest.end:
                raise NotPlacedError(f"periods of {other.grain} and {finest.grain} overlap")
        return finest if all(self._has(finest, *attribute) for attribute in attributes) else empty

    def _has(self, period: Period, dimension: Dimension, value: Any, error: NotPlacedError) -> bool:
        """Return whether a calendar has a value in a period, such as the name of a month or a holiday flag."""
        edge = self._calendar_of(dimension.expression)
        if edge is None:
            raise error
        return period.is_empty or self._has_value(edge, _of_far_side(dimension.expression), value, period)

    def _calendar_of(self, expression: Expression) -> Edge | None:
        """Return the single join to a calendar that an expression uses, or None."""
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
            grain = model.DAY
        if grain is not None:
            start = _moment(value, dimension)
            return Period(start, later(start, 1, grain), grain)
        if edge is not None:
            return self._of_calendar(edge, dimension, value)
        raise NotPlacedError(f"the periods of `{dimension.asked}` are unknown")

    def _of_calendar(self, edge: Edge, dimension: Dimension, value: Any) -> Period:
        """Return the days on which a calendar has a value, as a period."""
        ends = self._find_days(edge, _of_far_side(dimension.expression), value)
        if ends is None:
            raise NotPlacedError(f"`{dimension.asked}` does not define periods: its values are not contiguous in time")
        start, end = instant(ends[0]), later(instant(ends[1]), 1, model.DAY)
        for grain in reversed(model.GRAINS[model.GRAINS.index(model.DAY) :]):
            if instant(period_of(start, grain, self._calendar)) == start and later(start, 1, grain) == end:
                return Period(start, end, grain)
        return Period(start, end, None)

    def _grain(self, expression: Expression) -> str | None:
        """Return the grain of an untruncated expression over this time, or None if it is unknown."""
        tree = _bare(expression.tree)
        if isinstance(tree, _CUTS) and isinstance(_bare(tree.this), exp.Placeholder):
            grain = str(getattr(tree.args.get("unit"), "name", "")).casefold()
            return grain if grain in model.GRAINS else None
        if not isinstance(tree, exp.Placeholder):
            return None
        source, column = self._column(expression)
        if column is None:
            return None
        if column.natural_granularity is not None:
            return column.natural_granularity
        if column.expr is not None:
            return self._grain(self._rows.names.computed(source, column)) if source is self._source else None
        return model.DAY if isinstance(expression.tree, exp.TsOrDsToDate) or expression.tree.is_type("date") else None

    def _column(self, expression: Expression) -> tuple[model.Source, model.Column | None]:
        name = self._own_time(expression.names[0])
        assert name is not None
        edge = self._edge(name, expression)
        source = self._source if edge is None else self._rows.names.model.sources[edge.target]
        return source, source.column(name.column)

    def _own_time(self, name: Name) -> Name | None:
        return self._rows.time if name.is_metric_time else name

    def _edge(self, name: Name, expression: Expression) -> Edge | None:
        """Return the join to a calendar that a name uses, or None for a column of the fact."""
        if expression.home:
            return None
        path = self._rows.names.graph.path(self._source.name, name.hops, expression.via_to(name))
        return path.edges[0] if path is not None and path.edges else None

    def _is_of(self, name: Name, expression: Expression) -> bool:
        own = self._own_time(name)
        if own is None:
            return False
        path = self._rows.names.graph.path(self._source.name, own.hops, expression.via_to(own))
        if path is None or len(path.edges) > 1:
            return False
        if not path.edges:
            return self._is_own(own.column, frozenset())
        (edge,) = path.edges
        return edge.to_one and all(self._is_own(key, frozenset()) for key, _ in edge.pairs)

    def _is_own(self, name: str, seen: frozenset[str]) -> bool:
        """Return whether a fact's column is the time column or computed only from it."""
        if name == self.over.column:
            return True
        column = self._source.column(name)
        if column is None or column.expr is None or name in seen:
            return False
        names = self._rows.names.computed(self._source, column).names
        return bool(names) and all(not each.hops and self._is_own(each.column, seen | {name}) for each in names)


def both(one: Ends, other: Ends) -> Ends:
    """Return the intersection of two time ranges."""
    starts = [each for each in (one[0], other[0]) if each is not None]
    stops = [each for each in (one[1], other[1]) if each is not None]
    return max(starts, key=instant, default=None), min(stops, key=instant, default=None)


def _of_far_side(expression: Expression) -> Expression:
    """Return an expression over joined calendar columns as an expression of the calendar source."""
    return Expression(expression.tree, tuple(Name((), name.column) for name in expression.names), None, expression.text)


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
