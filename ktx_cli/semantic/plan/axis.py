"""Determine the time axis of a fact's numbers from all dimensions in a query.

The axis is the finest grain of a measure's time among the dimensions. Every other dimension of that time must have a
single value in each period of the axis. Other dimensions are refused, because cumulative, windowed or earlier values
could not be assigned to their values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import Final

from sqlglot import exp

from ktx_cli.core import listing
from ktx_cli.semantic.calendar import UTC_NAME, later, nests, period_of
from ktx_cli.semantic.expressions.dates import RAW, DatePart, cut_to, date_part
from ktx_cli.semantic.expressions.names import Expression, Name, Names, placeholder
from ktx_cli.semantic.graph import Edge, Path
from ktx_cli.semantic.model import DAY, YEAR, CalendarSettings, SemanticError, Source
from ktx_cli.semantic.plan.plan import Axis, Bounds, Dimension, Leaf, Plan, Read, Reading, TimeRange, Treatment, instant
from ktx_cli.warehouses import SemanticType


class TimeReader:
    """Determines what expressions in a query compute from one time of a fact: `moment` is that column."""

    def __init__(self, names: Names, fact: str, moment: Read, zone: str | None, own_time: str | None) -> None:
        self._names = names
        self._fact = fact
        self._time = moment
        self._zone = zone
        self._own_time = own_time
        self._settings = names.model.calendar
        self._calendars: dict[Edge, bool] = {}

    def read(self, expression: Expression, grain: str | None = None) -> Reading | None:
        """Return the date part that an expression computes from the time, truncated to `grain`; None for others."""
        found = self.taken_apart(expression)
        if found is None or not found[1]:
            return None
        tree, reads = found
        looked_up = [read for read in reads if not read.is_time]
        if not all(self._is_of_calendar(each) for each in looked_up):
            return None
        if looked_up:
            edges = {each.edges[len(self._time.edges)] for each in looked_up}
            edge = edges.pop()
            plain = not edges and not edge.conditions and not self._is_shifted
            return Reading(tree, reads, DatePart(DAY) if plain else None, edge, grain)
        return Reading(tree, reads, self._part(tree, reads, grain), None, grain)

    def taken_apart(self, expression: Expression) -> tuple[exp.Expr, tuple[Read, ...]] | None:
        """Return an expression over columns that are not computed, or None if a name cannot be reached."""
        reads: list[Read] = []

        def value(name: Name) -> exp.Expr:
            if name.is_metric_time:
                if self._own_time is None:
                    raise LookupError
                return self._value(Path(self._fact), self._own_time, reads)
            way = name.hops, expression.via_to(name)
            path = self._names.graph.path(self._fact, *way) if name.hops else Path(self._fact)
            if path is None:
                raise LookupError
            return self._value(path, name.column, reads)

        try:
            tree = expression.bound(value)
        except LookupError:
            return None
        return tree, tuple(reads)

    def bounds(self, condition: Expression) -> Bounds | None:
        """Return the time range that a condition keeps, or None for any other condition."""
        found = self.taken_apart(condition)
        if found is None or not found[1] or not all(each.is_time for each in found[1]):
            return None
        tree, reads = found
        own = all(read.edges == self._time.edges for read in reads)
        bounds = bounds_of(tree, self._settings, is_date=self.is_date or not own)
        return None if self._is_shifted and bounds != (None, None) else bounds

    def reads_only_own(self, expression: Expression) -> bool:
        """Return whether an expression only reads the time's column, and no calendar."""
        found = self.taken_apart(expression)
        return found is not None and set(found[1]) == {self._time}

    def is_calendar(self, edge: Edge) -> bool:
        """Return whether a join leads to a calendar: a table joined on the day of the time."""
        if edge not in self._calendars:
            self._calendars[edge] = False  # a computed column that goes over the join itself
            self._calendars[edge] = self._joins_by_day(edge)
        return self._calendars[edge]

    def is_itself(self, expression: Expression) -> bool:
        """Return whether an expression is the unchanged time."""
        found = self.taken_apart(expression)
        return found is not None and found[1] == (self._time,) and isinstance(found[0], exp.Placeholder)

    def is_range(self, expression: Expression, *, whole_days: bool) -> bool:
        """Return whether a range on a column is a range on the time; `whole_days`: it starts and ends at midnight."""
        if self.is_itself(expression):
            return True
        reading = self.read(expression)
        if reading is None or reading.calendar is not None or reading.part is None:
            return False
        is_day = reading.is_plain or (reading.part.starts and reading.part.grain == DAY)
        return whole_days and is_day

    @property
    def is_date(self) -> bool:
        """Whether only the day of the time is known."""
        column = self._source(self._time.edges).column(self._time.column)
        return column is not None and column.natural_granularity == DAY

    @property
    def _is_shifted(self) -> bool:
        """Whether the time is read in a different zone than it is written in."""
        column = self._source(self._time.edges).column(self._time.column)
        if column is None or column.is_date:
            return False
        return (self._zone or UTC_NAME) != (column.zone or UTC_NAME)

    def _part(self, tree: exp.Expr, reads: Sequence[Read], grain: str | None) -> DatePart | None:
        own = all(read.edges == self._time.edges and read.column == self._time.column for read in reads)
        plain = isinstance(tree, exp.Placeholder)
        if self._is_shifted and not (plain and own):
            return None
        part = date_part(tree, self._settings)
        if part is None:
            return None
        if part.grain == RAW and (self.is_date or not own):
            part = replace(part, grain=DAY)
        if grain is not None:
            return cut_to(part, grain, self._settings)
        return None if part.grain == RAW else part

    def _value(self, path: Path, name: str, reads: list[Read]) -> exp.Expr:
        source = self._names.model.sources[path.end]
        found = source.column(name)
        name = name if found is None else found.name
        if (path.edges == self._time.edges and name == self._time.column) or self._is_key(path.edges, name):
            return _place(reads, Read(path.edges, name, is_time=True))
        if found is None or found.expr is None:
            return _place(reads, Read(path.edges, name))

        def value(of: Name) -> exp.Expr:
            onward = self._names.graph.path(source.name, of.hops) if of.hops else Path(source.name)
            if onward is None:
                raise LookupError
            return self._value(path.then(onward.edges), of.column, reads)

        return exp.paren(self._names.computed(source, found).bound(value), copy=False)

    def _is_of_calendar(self, read: Read) -> bool:
        """Return whether a column is read from a calendar: a table joined on the day of the time."""
        length = len(self._time.edges)
        if len(read.edges) <= length or read.edges[:length] != self._time.edges:
            return False
        return self.is_calendar(read.edges[length]) and all(edge.to_one for edge in read.edges[length:])

    def _is_key(self, edges: tuple[Edge, ...], name: str) -> bool:
        """Return whether a column is the date on which a calendar is joined to the time."""
        length = len(self._time.edges)
        if len(edges) != length + 1 or edges[:length] != self._time.edges or not self.is_calendar(edges[-1]):
            return False
        return edges[-1].pairs[0][1] == name

    def _joins_by_day(self, edge: Edge) -> bool:
        if len(edge.pairs) != 1 or not edge.to_one:
            return False
        own = edge.pairs[0][0]
        if own == self._time.column:
            return True
        column = self._source(self._time.edges).column(own)
        if column is None or column.expr is None:
            return False
        reads: list[Read] = []
        try:
            tree = self._value(Path(self._fact, self._time.edges), own, reads)
        except LookupError:
            return False
        part = date_part(tree, self._settings) if all(read.is_time for read in reads) and reads else None
        return part is not None and part.starts and (part.grain == DAY or (part.grain == RAW and self.is_date))

    def _source(self, edges: tuple[Edge, ...]) -> Source:
        return self._names.model.sources[edges[-1].target if edges else self._fact]


def _place(reads: list[Read], read: Read) -> exp.Placeholder:
    if read not in reads:
        reads.append(read)
    return placeholder(reads.index(read))


def time_of(source: Source, time_name: str | None) -> Name | None:
    """Return a source's time column: the given one, its default, or the only one."""
    wanted = time_name or source.time_column
    if wanted is not None:
        column = source.column(wanted)
        return None if column is None else Name((), column.name)
    times = [each for each in source.columns.values() if each.type is SemanticType.TIME]
    roles = [each for each in times if each.role == "time"] or times
    return Name((), roles[0].name) if len(roles) == 1 else None


def as_of_hint(source: Source, other: Source) -> str | None:
    """Return how a query can use the row of another source that is valid at the time of each row of a source.

    None if the other source's rows are not valid for a period.
    """
    period = other.validity
    if period is None:
        return None
    start, end = period
    own = time_of(source, None)
    moment = f"{source.name}.{own}" if own is not None else f"the time of {source.name}"
    condition = f"{moment} >= {other.name}.{start} AND ({other.name}.{end} IS NULL OR {moment} < {other.name}.{end})"
    return (
        f"if a row of `{other.name}` is valid from `{start}` to `{end}`, define a source whose `sql` joins the row "
        f"that is valid at the time of each row of `{source.name}` (`{condition}`), and query that source"
    )


def reader(names: Names, plan: Plan, fact: str, over: Name, time_name: str | None = None) -> TimeReader:
    """Return the reader of a query's expressions for one column of a fact; `said`: its `metric_time`."""
    own = time_of(names.model.sources[fact], time_name)
    return TimeReader(
        names, fact, Read((), over.column, is_time=True), plan.timezone, None if own is None else own.column
    )


def with_axes(names: Names, plan: Plan, among: Collection[int] | None = None) -> Plan:
    """Return the plan with the axis of every cumulative or earlier aggregate; raises `SemanticError` if one has none.

    `among`: the numbers of the dimensions to consider, or None for all.
    """
    result: dict[tuple[str, Treatment], Axis] = {}
    for number in _wanted(plan):
        leaf = plan.leaves[number]
        key = leaf.fact, leaf.treatment
        if leaf.treatment.is_windowed and key not in result:
            axis = _AxisFinder(names, plan, leaf, number, among).axis()
            if axis is not None:
                result[key] = axis
    notes = [note for (fact, treatment), axis in result.items() for note in _notes(names, plan, fact, treatment, axis)]
    return replace(plan, axes=result, notes=tuple(dict.fromkeys((*plan.notes, *notes))))


def _notes(names: Names, plan: Plan, fact: str, treatment: Treatment, axis: Axis) -> Iterator[str]:
    """Yield notes about conditions and time ranges that exclude rows from cumulative and earlier values."""
    if axis.beside is not None:
        yield (
            f"the time range on `{axis.beside.expression.text}` excludes rows from cumulative and earlier values, "
            f"which are computed over `{fact}.{axis.over}`"
        )
    times = reader(names, plan, fact, axis.over, treatment.time)
    for condition in axis.filters:
        if times.read(condition.expression) is not None:
            yield (
                f"`{condition.expression.text}` also excludes rows from cumulative and earlier values; "
                f"a time range, or a condition such as {axis.over} >= '2025-01-01', would not"
            )


def _wanted(plan: Plan) -> list[int]:
    """Return the leaves with a query of their own; the inside of two-level leaves has its own plan."""
    return [number for number in plan.wanted if plan.leaves[number].nested is None]


class _AxisFinder:
    """Finds the axis of one aggregate."""

    def __init__(self, names: Names, plan: Plan, leaf: Leaf, number: int, among: Collection[int] | None) -> None:
        self._names = names
        self._plan = plan
        self._leaf = leaf
        self._number = number
        kept = leaf.treatment.keep
        numbers = range(len(plan.dimensions)) if kept is None else kept
        self._dimensions = {index: plan.dimensions[index] for index in numbers if among is None or index in among}
        self._source = names.model.sources[leaf.fact]

    def axis(self) -> Axis | None:
        """Return the axis; raises `SemanticError` if a dimension of the time does not fit on it.

        None for a cumulative total in a query without any time.
        """
        over = self._over()
        if over is None:
            if self._is_whole():
                return None
            raise self._without_time()
        times = reader(self._names, self._plan, self._leaf.fact, over, self._leaf.treatment.time)
        return self._with_range(self._placed(over, times), times)

    def _is_whole(self) -> bool:
        cumulative = self._leaf.treatment.cumulative
        plain = cumulative is not None and cumulative.window is None and cumulative.to_date is None
        return plain and self._leaf.treatment.offset is None and not self._dimensions and self._plan.time_range is None

    def _with_range(self, axis: Axis, times: TimeReader) -> Axis:
        """Return the axis with the query's time range, and the conditions that are not ranges."""
        fact, asked = self._leaf.fact, self._plan.time_range
        held = [condition for condition in self._plan.filters if condition.facts is None or fact in condition.facts]
        beside = None
        if asked is not None:
            whole = all(each is None or instant(each).time() == time.min for each in (asked.start, asked.end))
            if not times.is_range(asked.expression, whole_days=whole):
                beside, asked = asked, None
        over = Expression(placeholder(0), (axis.over,), None, str(axis.over))
        asked = None if asked is None else replace(asked, expression=over)
        found = {index: times.bounds(each.expression) for index, each in enumerate(held)}
        ranged = merged(over, asked, [each for each in found.values() if each is not None])
        if ranged is not None and _is_empty(ranged):
            return replace(axis, asked=asked, filters=tuple(held), beside=beside)
        rest = tuple(each for index, each in enumerate(held) if found[index] is None)
        return replace(axis, asked=ranged, filters=rest, beside=beside)

    def _placed(self, over: Name, times: TimeReader) -> Axis:
        readings = {}
        for index, dimension in self._dimensions.items():
            reading = times.read(dimension.expression, dimension.grain)
            if reading is not None:
                readings[index] = reading
        if not readings:
            self._require_no_other_time(over)
            return Axis(over)
        time, settings = f"{self._source.name}.{over}", self._names.model.calendar
        grain = _Placing(self._what, time, self._dimensions, readings, settings).finest()
        return Axis(over, grain, self._seen(over, readings), readings)

    def _over(self) -> Name | None:
        """Return the aggregate's time column: the given one, the fact's, or else the fact's time in the query."""
        treatment = self._leaf.treatment
        if treatment.cumulative is not None and treatment.cumulative.over is not None:
            return self._own(treatment.cumulative.over)
        if treatment.semi_additive is not None:
            return self._own(treatment.semi_additive.over)
        default = time_of(self._source, treatment.time)
        if default is not None and (treatment.time is not None or treatment.cumulative is not None):
            return default
        asked = self._own_times()
        if not asked or default in asked:
            return default
        if len(asked) > 1:
            message = (
                f"{self._what} could be computed over {listing(f'`{self._source.name}.{each}`' for each in asked)}"
            )
            hint = f"omit one of them, or set `time:` in the definition of `{self._source.name}`"
            raise SemanticError(message, hint=hint, code="grain")
        return asked[0]

    def _own_times(self) -> list[Name]:
        """Return the fact's own times that the query truncates to a grain or limits with its time range."""
        asked = [
            dimension.expression
            for dimension in self._dimensions.values()
            if dimension.grain is not None and dimension.column
        ]
        asked += [] if self._plan.time_range is None else [self._plan.time_range.expression]
        own = time_of(self._source, self._leaf.treatment.time)
        result: dict[Name, None] = {}
        for expression in asked:
            name = expression.names[0]
            if name.is_metric_time:
                result |= {} if own is None else {own: None}
                continue
            path = self._names.graph.path(self._leaf.fact, name.hops, expression.via_to(name))
            column = self._source.column(name.column) if path is not None and not path.edges else None
            if column is not None and column.type is SemanticType.TIME:
                result[Name((), column.name)] = None
        return list(result)

    def _own(self, name: str) -> Name:
        found = self._source.column(name)
        if found is None:
            message = f"`{self._source.name}` has no column `{name}`, which `over` of one of its measures names"
            raise SemanticError(message, hint="correct `over` in the definition of the measure", code="definition")
        return Name((), found.name)

    @property
    def _what(self) -> str:
        """The aggregate as the user wrote it."""
        for output in self._plan.outputs:
            if any(int(place.name) == self._number for place in output.formula.find_all(exp.Placeholder)):
                asked, _, added = output.asked.rpartition(" (")
                return f"the comparison of `{asked}`" if added == "previous)" else f"`{output.asked}`"
        return f"a measure of `{self._leaf.fact}`"

    def _without_time(self) -> SemanticError:
        return SemanticError(
            f"{self._what} needs a time column, and `{self._source.name}` does not say which of its columns to use",
            hint=f"set `default_time_dimension: COLUMN` in the definition of `{self._source.name}`",
            code="grain",
        )

    def _require_no_other_time(self, over: Name) -> None:
        """Raise `SemanticError` if another time of the fact would be mistaken for the aggregate's time."""
        for dimension in self._dimensions.values():
            name = dimension.column
            if name is None or name.is_metric_time:
                continue
            path = self._names.graph.path(self._leaf.fact, name.hops, dimension.expression.via_to(name))
            column = self._source.column(name.column) if path is not None and not path.edges else None
            if column is not None and column.type is SemanticType.TIME:
                raise SemanticError(
                    f"{self._what} is computed over `{self._source.name}.{over}`, but the query groups by "
                    f"`{shown(dimension)}`",
                    hint=f"group by `{self._source.name}.{over}{_suffix(dimension.grain)}`",
                    code="grain",
                )

    def _seen(self, over: Name, readings: Mapping[int, Reading]) -> Expression:
        """Return the origin of the periods: the time, or a calendar's date if no dimension contains the time."""
        cutting = [index for index, reading in readings.items() if reading.part is not None and reading.part.cuts]
        for index in cutting:
            if not all(read.edges for read in readings[index].reads):
                break
        else:
            expression = self._dimensions[cutting[0]].expression
            if readings[cutting[0]].is_plain:
                return expression
        return Expression(placeholder(0), (over,), None, str(over))


@dataclass(frozen=True, slots=True)
class _Placing:
    """Finds the grain in which all dimensions of a time have one value; `what` and `time` are names for errors."""

    what: str
    time: str
    dimensions: Mapping[int, Dimension]
    readings: Mapping[int, Reading]
    settings: CalendarSettings

    def finest(self) -> str:
        """Return the finest grain of the dimensions; raises `SemanticError` if one does not fit into its periods."""
        parts: dict[int, DatePart] = {}
        for index, reading in self.readings.items():
            if reading.part is None:
                raise self._no_period(index)
            parts[index] = reading.part
        cuts = list(dict.fromkeys(part.grain for part in parts.values() if part.cuts))
        if YEAR in cuts:
            cuts += [part.grain for part in parts.values() if part.of_year and part.grain not in cuts]
        if not cuts:
            raise self._no_period(next(iter(self.readings)))
        finest = next((cut for cut in cuts if all(nests(cut, other, self.settings) for other in cuts)), None)
        if finest is None:
            raise self._overlapping([index for index, part in parts.items() if part.cuts], cuts)
        for index, part in parts.items():
            if not nests(finest, part.grain, self.settings):
                raise self._changing(index, finest, part.grain)
        return finest

    def _no_period(self, index: int) -> SemanticError:
        asked = self.dimensions[index]
        return SemanticError(
            f"{self.what} is computed over `{self.time}`, and `{shown(asked)}` is derived from it but is not a period",
            hint=f"group by `{self.time}:month` (or another granularity) instead of `{asked.asked}`; "
            f"calendar columns can be combined with `{self.time}:day`",
            code="grain",
        )

    def _overlapping(self, numbers: Sequence[int], grains: Sequence[str]) -> SemanticError:
        names = listing(f"`{shown(self.dimensions[index])}`" for index in numbers)
        message = f"{self.what} cannot be grouped by {names} together, because their periods overlap"
        hint = f"keep one of them, or add `{self.time}:day`"
        return SemanticError(message, hint=hint, code="grain", details={"candidates": list(grains)})

    def _changing(self, index: int, finest: str, needed: str) -> SemanticError:
        asked = self.dimensions[index]
        return SemanticError(
            f"{self.what} has one value per {finest.replace('_', ' ')} of `{self.time}`, and within that period "
            f"`{shown(asked)}` can change",
            hint=f"add `{self.time}:{needed}`, or remove `{asked.asked}`",
            code="grain",
        )


@dataclass(frozen=True, slots=True)
class FilledTime:
    """The time for which `fill` shows every period: a dimension's, its grain, and all dimensions of that time."""

    number: int
    grain: str
    readings: Mapping[int, Reading]


def filled_time(names: Names, plan: Plan) -> FilledTime:
    """Return the time for which `fill` adds periods; raises `SemanticError` if there is none, or several."""
    times = [index for index, dimension in enumerate(plan.dimensions) if dimension.grain is not None]
    facts = dict.fromkeys((plan.leaves[number].fact, plan.leaves[number].treatment.time) for number in plan.wanted)
    dimensions = dict(enumerate(plan.dimensions))
    result: list[FilledTime] = []
    for fact, time_name in facts:
        for index in times:
            readings = _readings_by(names, plan, fact, time_name, dimensions[index])
            if not all(each in readings for each in times):
                continue
            what, asked = "`fill`", dimensions[index].asked
            grain = _Placing(what, asked, dimensions, readings, names.model.calendar).finest()
            period = DatePart(grain, cuts=True, starts=True)
            number = next(index for index, reading in readings.items() if reading.part == period)
            result.append(FilledTime(number, grain, readings))
            break
    if result and all(
        each.number == result[0].number and set(each.readings) == set(result[0].readings) for each in result
    ):
        return result[0]
    if len(times) == 1:
        grain = plan.dimensions[times[0]].grain or DAY
        return FilledTime(
            times[0], grain, {times[0]: Reading(placeholder(0), (Read((), "", True),), None, None, grain)}
        )
    asked = listing(f"`{shown(plan.dimensions[index])}`" for index in times)
    hint = f"keep only one of {asked}" if times else f"add `{_some_time(names, plan)}:month` to the dimensions"
    raise SemanticError(f"`fill` needs exactly one time dimension; the query has {asked or 'none'}", hint=hint)


def _readings_by(
    names: Names, plan: Plan, fact: str, time_name: str | None, dimension: Dimension
) -> dict[int, Reading]:
    """Return what the dimensions compute from the time of one of them, resolved from a fact."""
    own = time_of(names.model.sources[fact], time_name)
    column = None if own is None else own.column
    anywhere = TimeReader(names, fact, Read((), ""), plan.timezone, column).taken_apart(dimension.expression)
    if anywhere is None or len(anywhere[1]) != 1 or not isinstance(anywhere[0], exp.Placeholder):
        return {}
    times = TimeReader(names, fact, replace(anywhere[1][0], is_time=True), plan.timezone, column)
    found = {index: times.read(each.expression, each.grain) for index, each in enumerate(plan.dimensions)}
    return {index: reading for index, reading in found.items() if reading is not None}


def _some_time(names: Names, plan: Plan) -> str:
    """Return a time that a query may name, for a hint."""
    for number in plan.wanted:
        fact = plan.leaves[number].fact
        own = time_of(names.model.sources[fact], plan.leaves[number].treatment.time)
        if own is not None:
            return f"{fact}.{own}"
    return "metric_time"


def _is_empty(asked: TimeRange) -> bool:
    return asked.start is not None and asked.end is not None and instant(asked.start) >= instant(asked.end)


def shown(dimension: Dimension) -> str:
    """Return a dimension in the syntax of queries."""
    return f"{dimension.asked}{_suffix(dimension.grain)}"


def _suffix(grain: str | None) -> str:
    return "" if grain is None else f":{grain}"


_MIRRORED: Final[Mapping[type[exp.Expr], type[exp.Expr]]] = {
    exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ,
}  # fmt: skip
_PLAIN_TIMES: Final = exp.DataType.TEMPORAL_TYPES - {
    exp.DataType.Type.TIME,
    exp.DataType.Type.TIMETZ,
    exp.DataType.Type.TIMESTAMPTZ,
    exp.DataType.Type.TIMESTAMPLTZ,
}
_OPEN: Final[Bounds] = (None, None)


def bounds_of(tree: exp.Expr, settings: CalendarSettings, *, is_date: bool) -> Bounds | None:
    """Return the time range that a condition keeps of the one time in all its placeholders, or None for any other.

    `is_date`: only the day of the time is known.
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
    """Return the intersection of a time range and all bounds, or None if it is unbounded."""
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
    """Return the time range of a comparison with the first day, or moment, of a period."""
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
    """Return the date or timestamp without a zone that a literal contains."""
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
