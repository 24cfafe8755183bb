"""Dimension values with or without matching fact rows, and queries without measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from ktx_cli.core import listing
from ktx_cli.semantic.calendar import truncate, within
from ktx_cli.semantic.compile.build import Build, aliased, as_column, column, cte, identifier, join, subquery
from ktx_cli.semantic.compile.rows import (
    Rows,
    counted_by,
    cut,
    cut_value,
    dimension_value,
    in_range,
    kind_of,
    row_conditions,
    unreachable,
)
from ktx_cli.semantic.compile.windows import seen_periods
from ktx_cli.semantic.expressions.names import Expression, Name, filled
from ktx_cli.semantic.graph import Edge, Path
from ktx_cli.semantic.model import DAY, Column, SemanticError
from ktx_cli.semantic.plan.axis import TimeReader
from ktx_cli.semantic.plan.plan import Dimension, Read, Reading, RowFilter, TimeRange
from ktx_cli.warehouses import DateOrTimestamp, SemanticType


def dimension_rows(build: Build) -> exp.Expr:
    """Return the distinct combinations of the dimensions from the finest source with one value for each per row."""
    plan = build.plan
    root = finest(build, plan.dimensions)
    rows = Rows(build, root, time=build.time_of(build.names.model.sources[root], None))
    values = [dimension_value(rows, dimension) for dimension in plan.dimensions]
    where = row_conditions(rows, plan)
    if plan.time_range is not None:
        where.append(in_range(rows, plan.time_range))
    query = rows.select([as_column(value, f"d{index}") for index, value in enumerate(values)]).distinct(copy=False)
    return query.where(*where, copy=False)


def finest(build: Build, dimensions: tuple[Dimension, ...]) -> str:
    """Return the source that reaches all dimensions. Raises `SemanticError` if there are none or several."""
    graph, model = build.names.graph, build.names.model
    ends = list(dict.fromkeys(end for dimension in dimensions for end in _starts(build, dimension)))
    able = sorted(set.intersection(*map(graph.reaching, ends))) if ends else list(model.sources)
    own = [source for source in able if source in ends]
    chosen = own or able
    if len(chosen) == 1 or (own and all(graph.reaches(own[0], other) for other in own)):
        return chosen[0]
    if not chosen:
        message = f"no source joins to one row of each of {listing(ends)}"
        hint = "add a measure: its fact determines which combinations exist"
        raise SemanticError(message, hint=hint, code="unreachable", details={"sources": ends})
    message = f"the combinations of {listing(ends)} are ambiguous: they could come from {listing(chosen)}"
    hint = "add a measure: its fact determines which combinations to return"
    raise SemanticError(message, hint=hint, code="ambiguous_path", details={"candidates": chosen})


def sources_of(build: Build, dimension: Dimension) -> list[str]:
    """Return the sources of a dimension's columns."""
    result = []
    for name in dimension.expression.names:
        if name.is_metric_time:
            message = "`metric_time` requires a measure: it is the time of each measure's fact"
            raise SemanticError(message, hint="add a measure, or use the time column itself")
        result.append(build.names.target_of(name.hops))
    return result


def _starts(build: Build, dimension: Dimension) -> list[str]:
    """Return the sources whose rows a dimension needs. For a role, this is the source that declares the role."""
    ends = sources_of(build, dimension)
    result = []
    for name, end in zip(dimension.expression.names, ends, strict=True):
        first = name.hops[0]
        if first in build.names.model.sources:
            result.append(first if len(name.hops) > 1 else end)
            continue
        owners = sorted({edge.source for edge in build.names.graph if edge.alias == first and not edge.reverse})
        if len(owners) > 1:
            message = f"`{dimension.asked}` is ambiguous: {listing(owners)} each have a join named `{first}`"
            hint = f"write `{owners[0]}.{dimension.asked}`, or add a measure"
            raise SemanticError(message, hint=hint, code="ambiguous_path", details={"candidates": owners})
        result.append(owners[0])
    return result


def empty_values(build: Build) -> exp.Expr | None:
    """Return the dimension values to add to those of the facts, or None."""
    plan = build.plan
    wanted = plan.query.include_empty
    if not plan.wanted or not plan.dimensions or wanted is False:
        return None
    if wanted is None and any(axis.seen is not None and axis.seen.names[0].hops for axis in plan.axes.values()):
        return None  # cumulative and earlier values are shown for periods with rows
    groups = grouped_values(build, own=wanted is True)
    if groups is None:
        return None
    if wanted is None and len(groups) > 1:
        build.note(
            "dimension values that have no matching rows are omitted, because the dimensions come from several "
            "sources; include_empty adds them"
        )
        return None
    parts = [_values(build, group) for group in groups]
    if len(parts) == 1:
        return parts[0]
    relations = [subquery(part, f"members_{place}") for place, part in enumerate(parts)]
    order = [exp.column(identifier(f"d{index}")) for index in range(len(plan.dimensions))]
    query = exp.select(*order).from_(relations[0], copy=False)
    for relation in relations[1:]:
        join(query, relation, None)
    return query


@dataclass(slots=True)
class Group:
    """Dimensions with values from one source. `root` is the path to it from each fact, or None for metric_time."""

    root: dict[str, Path] | None
    numbers: list[int]

    def holds(self, paths: Mapping[str, Path]) -> bool:
        """Return whether other paths go through this source on every fact and continue in the same way."""
        if self.root is None:
            return False
        if any(not path.edges for path in self.root.values()):
            return all(paths[fact].edges == path.edges for fact, path in self.root.items())
        return self.covers(paths)

    def covers(self, paths: Mapping[str, Path]) -> bool:
        """Return whether all paths go through this source and continue over the same to-one joins."""
        return self.leads(paths) and all(
            edge.to_one for fact, path in (self.root or {}).items() for edge in paths[fact].edges[len(path.edges) :]
        )

    def leads(self, paths: Mapping[str, Path]) -> bool:
        """Return whether all paths go through this source and continue over the same joins."""
        root = self.root or {}
        rests = {paths[fact].edges[len(path.edges) :] for fact, path in root.items()}
        return len(rests) == 1 and all(
            paths[fact].edges[: len(path.edges)] == path.edges for fact, path in root.items()
        )


def grouped_values(build: Build, *, own: bool) -> list[Group] | None:
    """Group the dimensions by the source of their values. Returns None if that source is ambiguous.

    `own` includes values of the facts' own columns.
    """
    plan = build.plan
    facts = list(dict.fromkeys(plan.leaves[number].fact for number in plan.wanted))
    groups: list[Group] = []
    for index, dimension in enumerate(plan.dimensions):
        names = dimension.expression.names
        if not names:
            return None
        if any(name.is_metric_time for name in names):
            if not own:
                return None
            _with_times(groups, index)
            continue
        paths = [paths_of(build, facts, name, dimension.expression) for name in names]
        if not own and any(not path.edges for path in paths[0].values()):
            return None
        _put(groups, Group(paths[0], [index]), paths)
    return groups


def _with_times(groups: list[Group], index: int) -> None:
    """Merge metric_time dimensions with different grains, so that a year goes with its own months."""
    for group in groups:
        if group.root is None:
            group.numbers.append(index)
            return
    groups.append(Group(None, [index]))


def paths_of(build: Build, facts: Sequence[str], name: Name, expression: Expression) -> dict[str, Path]:
    """Return the path from each fact to the source of a name. Raises `SemanticError` if there is none."""
    result = {}
    for fact in facts:
        path = build.names.graph.path(fact, name.hops, expression.via_to(name))
        if path is None:
            raise unreachable(fact, name, expression)
        result[fact] = path
    return result


def _put(groups: list[Group], new: Group, paths: Sequence[Mapping[str, Path]]) -> None:
    """Add a dimension to a group that reaches it, or create a group that reaches existing ones."""
    for group in groups:
        if all(group.holds(path) for path in paths):
            group.numbers = sorted([*group.numbers, *new.numbers])
            return
    for group in [known for known in groups if known.root is not None and new.holds(known.root)]:
        new.numbers = sorted([*new.numbers, *group.numbers])
        groups.remove(group)
    groups.append(new)


def _values(build: Build, group: Group) -> exp.Select:
    if group.root is None:
        return _seen_times(build, group.numbers)
    plan = build.plan
    fact, root = next(iter(group.root.items()))
    rows = Rows(build, root.end)

    def bound(expression: Expression) -> exp.Expr:
        def path(name: Name) -> Path:
            return build.names.graph.path(fact, name.hops, expression.via_to(name)) or root

        def value(name: Name) -> exp.Expr:
            return rows.at(Path(root.end, path(name).edges[len(root.edges) :]), name.column)

        return build.bound(
            expression, value, lambda name: build.names.model.sources[path(name).end].column(name.column)
        )

    selected = []
    for number in group.numbers:
        dimension = plan.dimensions[number]
        read = build.names.model.sources[sources_of(build, dimension)[0]].column(dimension.expression.names[0].column)
        selected.append(as_column(cut_value(rows, dimension, bound(dimension.expression), read), f"d{number}"))
    conditions = [bound(condition.expression) for condition in plan.filters if _inside(build, group, condition)]
    query = rows.select(selected).distinct(copy=False)
    for condition in conditions:
        query = query.where(exp.paren(condition, copy=False), copy=False)
    within_range = _asked_range(build, group, rows)
    return query if within_range is None else query.where(within_range, copy=False)


def _asked_range(build: Build, group: Group, rows: Rows) -> exp.Expr | None:
    """Return the condition that values are in the query's time range, or None if it does not apply to them.

    It applies to values on the way to its column and to a calendar joined on it, but not to values of the facts' own
    columns.
    """
    asked = build.plan.time_range
    if asked is None or not group.root:
        return None
    reads = {_on_values(build, fact, root, asked) for fact, root in group.root.items()}
    read = reads.pop()
    if reads or read is None:
        return None
    path = Path(rows.fact.name, read[0])
    column = build.names.model.sources[path.end].column(read[1])
    value = build.typed_column(rows.at(path, read[1]), column)
    return within(value, asked.start, asked.end, kind_of(column), build.clock(column))


def _on_values(build: Build, fact: str, root: Path, asked: TimeRange) -> tuple[tuple[Edge, ...], str] | None:
    """Return the joins from values to the column of a time range, and the column's name."""
    name = asked.expression.names[0]
    own = build.time_of(build.names.model.sources[fact], None) if name.is_metric_time else name
    path = None if own is None else build.names.graph.path(fact, own.hops, asked.expression.via_to(own))
    if own is None or path is None or not root.edges:
        return None
    if path.edges[: len(root.edges)] == root.edges:
        return path.edges[len(root.edges) :], own.column
    last, moment = root.edges[-1], Read(path.edges, own.column, is_time=True)
    times = TimeReader(build.names, fact, moment, build.plan.timezone, None)
    is_by_it = path.edges == root.edges[:-1] and not last.conditions and times.is_calendar(last)
    return ((), last.pairs[0][1]) if is_by_it else None


def _seen_times(build: Build, numbers: Sequence[int]) -> exp.Select:
    """Return the periods of metric_time in which any fact has rows."""
    plan = build.plan
    grains = {number: plan.dimensions[number].grain or DAY for number in numbers}
    queries: list[exp.Select] = []
    for fact in dict.fromkeys(plan.leaves[number].fact for number in plan.wanted):
        time = build.time_of(build.names.model.sources[fact], None)
        if time is None:
            continue
        if len(numbers) == 1:
            name = seen_periods(build, fact, time, grains[numbers[0]])
            queries.append(exp.select(as_column(column("period", name), f"d{numbers[0]}")).from_(cte(name)))
        else:
            queries.append(_seen_together(build, fact, time, grains))
    query: exp.Expr = queries[0]
    for other in queries[1:]:
        query = exp.union(query, other, distinct=True, copy=False)
    if len(queries) == 1:
        return queries[0]
    relation = subquery(query, "times")
    return exp.select(*(column(f"d{number}", "times") for number in numbers)).from_(relation)


def _seen_together(build: Build, fact: str, time: Name, grains: Mapping[int, str]) -> exp.Select:
    """Return the periods of several grains with rows of a fact."""
    rows = Rows(build, fact, time=time)
    starts = {number: cut(rows, time, grain) for number, grain in grains.items()}
    where = row_conditions(rows, build.plan)
    if build.plan.time_range is not None:
        where.append(in_range(rows, build.plan.time_range))
    where.append(exp.Not(this=exp.Is(this=next(iter(starts.values())).copy(), expression=exp.null())))
    query = rows.select([as_column(start, f"d{number}") for number, start in starts.items()]).distinct(copy=False)
    return query.where(*where, copy=False)


def _inside(build: Build, group: Group, condition: RowFilter) -> bool:
    """Return whether a condition is about the values or their to-many rows, rather than about the facts.

    Values are distinct, so joins to several rows do not duplicate them.
    """
    if condition.facts is not None or group.root is None or not condition.expression.names:
        return False
    if any(name.is_metric_time for name in condition.expression.names):
        return False
    facts = list(group.root)
    try:
        paths = [paths_of(build, facts, name, condition.expression) for name in condition.expression.names]
    except SemanticError:  # the queries of the facts report it if necessary
        return False
    return all(group.leads(path) for path in paths)


_KEY = "day"


def labelled(
    build: Build, fact: str, periods: str, grain: str, readings: Mapping[int, Reading]
) -> tuple[str, dict[int, exp.Expr]]:
    """Return the name of a query with `period` and the columns its dimensions need, and the value of each dimension.

    `periods` is the name of the query with only the periods of a grain.
    """
    if all(reading.is_plain and reading.grain in (grain, None) for reading in readings.values()):
        return periods, {index: column("period", periods) for index in readings}
    query = exp.select(as_column(column("period", periods), "period"), copy=False).from_(cte(periods), copy=False)
    kind: DateOrTimestamp = "date" if counted_by(grain) == DAY else "timestamp"
    period = column("period", periods)
    of_period = Column("period", SemanticType.TIME, natural_granularity=DAY if kind == "date" else None)
    looked_up: dict[Edge, dict[int, Reading]] = {}
    selected: dict[int, exp.Expr] = {}
    for index, reading in readings.items():
        if reading.calendar is not None:
            looked_up.setdefault(reading.calendar, {})[index] = reading
            continue
        value = filled(build.typed(reading.tree, lambda _: of_period), lambda _: period.copy())
        if reading.grain is not None and reading.grain != grain:
            value = truncate(value, reading.grain, kind, build.clock(None))
        selected[index] = value
    for edge, own in looked_up.items():
        name = _of_calendar(build, fact, edge, own)
        day = truncate(period.copy(), DAY, kind, build.clock(None))
        on = exp.EQ(this=column(_KEY, name), expression=day)
        join(query, aliased(exp.Table(this=identifier(name)), name), on, "LEFT")
        selected |= {index: column(f"d{index}", name) for index in own}
    query = query.select(*(as_column(selected[index], f"d{index}") for index in sorted(selected)), copy=False)
    name = build.add(f"{fact}__axis", query)
    return name, {index: column(f"d{index}", name) for index in readings}


def _of_calendar(build: Build, fact: str, edge: Edge, readings: Mapping[int, Reading]) -> str:
    """Return the name of the query for calendar days with dimension values."""
    rows = Rows(build, edge.target)
    key = build.names.model.sources[edge.target].column(edge.pairs[0][1])
    day = build.typed_column(rows.own(edge.pairs[0][1]), key)
    selected = [as_column(truncate(day, DAY, kind_of(key), build.clock(key)), _KEY)]
    for index, reading in readings.items():
        selected.append(as_column(_value(build, fact, rows, edge, reading), f"d{index}"))
    return build.add(f"{edge.target}__days", rows.select(selected))


def _value(build: Build, fact: str, rows: Rows, edge: Edge, reading: Reading) -> exp.Expr:
    def value(number: int) -> exp.Expr:
        read = reading.reads[number]
        if read.is_time:
            return rows.own(edge.pairs[0][1])
        behind = read.edges[read.edges.index(edge) + 1 :]
        way = Path(fact, read.edges)
        build.use(fact).paths.setdefault(str(way), way)
        return rows.at(Path(edge.target, behind), read.column)

    def column_of(number: int) -> Column | None:
        read = reading.reads[number]
        source, name = (edge.target, edge.pairs[0][1]) if read.is_time else (read.edges[-1].target, read.column)
        return build.names.model.sources[source].column(name)

    bound_value = filled(build.typed(reading.tree, column_of), value)
    if reading.grain is None:
        return bound_value
    last = next(read for read in reading.reads if not read.is_time)
    read_from = build.names.model.sources[last.edges[-1].target].column(last.column)
    return truncate(bound_value, reading.grain, kind_of(read_from), build.clock(read_from))
