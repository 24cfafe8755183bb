"""Compile the whole statement: a branch for each group of aggregates over one fact, the combination of the branches,
empty dimension values and missing periods, formulas, order and limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING

from sqlglot import exp

from ktx_cli.core import Argument, Hint
from ktx_cli.semantic.compile.build import (
    Build,
    aliased,
    as_column,
    column,
    count_of,
    cte,
    identifier,
    is_present,
    join,
    subquery,
    without_booleans,
)
from ktx_cli.semantic.compile.dimension_values import dimension_rows, empty_values, labelled
from ktx_cli.semantic.compile.rows import (
    Rows,
    Stage,
    dimension_value,
    in_range,
    needs_ranks,
    note_of_rest,
    rank_query,
    row_conditions,
    split_by_time,
    weighed,
)
from ktx_cli.semantic.compile.windows import Periods, Window, filled_periods
from ktx_cli.semantic.expressions.fragments import COUNT, distinct_columns, percentile_of, with_condition
from ktx_cli.semantic.expressions.names import Expression, Name, filled, placeholders
from ktx_cli.semantic.model import DAY, SemanticError, SemiAdditive
from ktx_cli.semantic.plan.axis import TimeReader, filled_time, reader, with_axes
from ktx_cli.semantic.plan.plan import Dimension, Output, Plan, differs_in_length, earlier_range, instant
from ktx_cli.semantic.query import TIME_RANGE

if TYPE_CHECKING:
    from ktx_cli.semantic.plan.plan import Axis, Leaf, RowFilter, TimeRange, Treatment


@dataclass(frozen=True, slots=True)
class Branch:
    """Leaves that aggregate the same rows in the same way, by number. `kept` are the numbers of their dimensions."""

    fact: str
    treatment: Treatment
    leaves: dict[int, Leaf]
    kept: tuple[int, ...]


def branches(plan: Plan) -> list[Branch]:
    """Group the plan's leaves so that one query can answer each group."""
    groups: dict[tuple[object, ...], dict[int, Leaf]] = {}
    for number in plan.wanted:
        leaf = plan.leaves[number]
        alone: object = number if leaf.nested or needs_stage_alone(leaf) else None
        semi = leaf.treatment.semi_additive
        if semi is not None and semi.take != "average" and alone is None:
            alone = frozenset(condition.key for condition in leaf.conditions)  # may say at which moments is looked
        groups.setdefault((leaf.fact, leaf.treatment, alone), {})[number] = leaf
    every = tuple(range(len(plan.dimensions)))
    result = []
    for leaves in groups.values():
        first = next(iter(leaves.values()))
        kept = first.treatment.keep
        result.append(Branch(first.fact, first.treatment, leaves, every if kept is None else kept))
    return result


def needs_stage_alone(leaf: Leaf) -> bool:
    """Return whether an aggregate needs its own query."""
    return bool(distinct_columns(leaf.aggregate.tree)) or percentile_of(leaf.aggregate.tree) is not None


class BranchBuilder:
    """Builds the query for one branch."""

    def __init__(self, build: Build, branch: Branch) -> None:
        self.build = build
        self.plan = build.plan
        self.branch = branch
        treatment = branch.treatment
        self.time = build.time_of(build.names.model.sources[branch.fact], treatment.time)
        self.rows = Rows(build, branch.fact, time=self.time)
        self.axis: Axis | None = self.plan.axes.get((branch.fact, treatment))
        self.over = self._over()
        self.periods: Periods | None = None

    @property
    def dimensions(self) -> list[tuple[int, Dimension]]:
        """The dimensions of the branch with their numbers."""
        return [(number, self.plan.dimensions[number]) for number in self.branch.kept]

    def query(self) -> exp.Select:
        """Return the branch's query."""
        treatment = self.branch.treatment
        values = self._dimension_values()
        ranged = self._ranged()
        semi = treatment.semi_additive
        if semi is not None and semi.take != "average":
            return self._at_moment(semi, values, ranged)
        where = [*row_conditions(self.rows, self.plan, self._filters()), *ranged]
        if semi is not None and semi.take == "average":
            return self._averaged(values, where)
        first = next(iter(self.branch.leaves.values()))
        if distinct_columns(first.aggregate.tree):
            return self._tuples(first, values, where)
        if self.rows.many or needs_ranks(first.aggregate.tree, self.build.dialect):
            return self._staged(values, where, [])
        selected = [*_dimension_columns(values), *self._aggregates()]
        return grouped(self._joined(self.rows.select(selected), where), list(values.values()))

    def _at_moment(self, semi: SemiAdditive, values: dict[int, exp.Expr], ranged: list[exp.Expr]) -> exp.Select:
        """Aggregate the rows at the last or first time, which is determined within the conditions on that time."""
        fact = self.branch.fact
        on_time, rest = split_by_time(self._filters(), self._times())
        where = row_conditions(self.rows, self.plan, rest)
        if rest and self.over is not None:
            self.build.note(note_of_rest(fact, semi.take, self.over, rest))
        return self._staged(values, where, [*row_conditions(self.rows, self.plan, on_time), *ranged])

    def _filters(self) -> list[RowFilter]:
        """Return the query's conditions on the rows, except those that are equivalent to a time range."""
        fact = self.branch.fact
        held = [condition for condition in self.plan.filters if condition.facts is None or fact in condition.facts]
        if self.axis is None:
            return held
        for condition in held:
            self.build.use(fact).filters.setdefault(condition.expression.text, "where")
        return list(self.axis.filters)

    def _over(self) -> Name | None:
        """Return the time column of the branch's periods, or None without periods."""
        if self.axis is not None:
            return self.axis.over
        if self.branch.treatment.semi_additive is not None:
            return self._own(self.branch.treatment.semi_additive.over)
        return self.time

    def _times(self) -> TimeReader:
        """Return the reader for expressions of the branch's time column."""
        assert self.over is not None
        return reader(self.build.names, self.plan, self.branch.fact, self.over, self.branch.treatment.time)

    def _own(self, name: str) -> Name:
        stored = self.rows.fact.column(name)
        if stored is None:
            message = f"`{self.branch.fact}` has no column `{name}`, which `over` of one of its measures names"
            raise SemanticError(message, hint="correct `over` in the definition of the measure", code="definition")
        return Name((), stored.name)

    def _dimension_values(self) -> dict[int, exp.Expr]:
        """Return the grouping values. The times of an axis are those of the period, not of the row."""
        of_period: dict[int, exp.Expr] = {}
        axis = self.axis
        if axis is not None and axis.grain is not None and axis.seen is not None:
            seen = Periods.of(self.build, self.branch.fact, axis.over, axis.seen, axis.grain)
            name, of_period = labelled(self.build, self.branch.fact, seen.name, axis.grain, axis.readings)
            self.periods = replace(seen, name=name)
        self._require_periods(self.branch.treatment)
        return {
            index: of_period[index] if index in of_period else dimension_value(self.rows, dimension)
            for index, dimension in self.dimensions
        }

    def _require_periods(self, treatment: Treatment) -> None:
        if self.periods is not None or self.axis is None:
            return
        cumulative = treatment.cumulative
        dimension = f"add `{self.branch.fact}.{self.over}:month` to the dimensions"
        if cumulative is not None and (cumulative.window is not None or cumulative.to_date is not None):
            raise SemanticError(
                f"a rolling or to-date measure of `{self.branch.fact}` requires its time as a dimension", hint=dimension
            )
        if treatment.offset is not None and self.axis.asked is None:
            message = (
                f"the offset of a measure of `{self.branch.fact}` requires its time as a dimension, or a time range"
            )
            month = Argument(TIME_RANGE, {"last": "1 month"})
            raise SemanticError(message, hint=Hint("{}; or a time range: `{}`", dimension, month))

    def _ranged(self) -> list[exp.Expr]:
        """Return the conditions that a row is in the time of the branch.

        If the time range cuts a period, the earlier period is cut as well.
        """
        if self.axis is None:
            asked = self.plan.time_range
            return [] if asked is None or (asked.start is None and asked.end is None) else [in_range(self.rows, asked)]
        window = self._window()
        moved = window.range() if window is not None else self._moved(self.axis.asked)
        return [in_range(self.rows, asked) for asked in (moved, self.axis.beside) if asked is not None]

    def _window(self) -> Window | None:
        """Return the window of rows for each period, or None without windows."""
        if self.periods is None or self.axis is None:
            return None
        return Window(self.periods, self.rows, self.axis.over, self.branch.treatment, self.axis.asked)

    def _moved(self, asked: TimeRange | None) -> TimeRange | None:
        """Return the time range of the branch's rows: earlier for an offset, unbounded for cumulative values."""
        if asked is None:
            return None
        treatment = self.branch.treatment
        start, end = asked.start, asked.end
        if treatment.offset is not None:
            start, end = earlier_range(start, end, treatment.offset)
            if (
                self.build.plan.query.comparison
                and differs_in_length(treatment.offset, DAY)
                and _is_longer(asked, start, end)
            ):
                self.build.note(
                    f"months differ in length: {asked.start} to {asked.end} is compared with {start} to {end}"
                )
        if treatment.cumulative is not None:
            start = None
        return None if start is None and end is None else replace(asked, start=start, end=end)

    def _joined(self, query: exp.Select, where: Sequence[exp.Expr]) -> exp.Select:
        """Return the query with its conditions and joined to the periods of its rows."""
        window = self._window()
        if window is not None:
            relation = aliased(exp.Table(this=identifier(window.periods.name)), window.periods.name)
            condition = window.condition()
            for note in window.notes():
                self.build.note(note)
            if not self.build.syntax.joins_by_any_condition:
                return join(query, relation, None).where(condition, *where, copy=False)
            join(query, relation, condition)
        return query.where(*where, copy=False)

    def _aggregates(self, value: Stage | None = None) -> list[exp.Expr]:
        result: list[exp.Expr] = []
        for number, leaf in self.branch.leaves.items():
            bind = self.rows.bind if value is None else value.bind
            tree = with_condition(bind(leaf.aggregate), self._condition(leaf, value), self.build.dialect)
            result.append(as_column(tree, f"m{number}"))
        return result

    def _condition(self, leaf: Leaf, stage: Stage | None = None) -> exp.Expr | None:
        for condition in leaf.conditions:
            if self.rows.many_prefixes(condition):
                message = (
                    f"the filter `{condition.text}` of a measure of `{leaf.fact}` reads a source with "
                    "several rows per row of the measure"
                )
                hint = "filter the query instead, or define the measure on the source that contains these rows"
                raise SemanticError(message, hint=hint, code="unreachable")
        bind = self.rows.bind if stage is None else stage.bind
        result: list[exp.Expr] = [exp.paren(bind(condition), copy=False) for condition in leaf.conditions]
        last = None if stage is None else stage.last()
        result += [] if last is None else [last]
        return exp.and_(*result, copy=False) if result else None

    def _staged(self, values: dict[int, exp.Expr], where: list[exp.Expr], ranged: list[exp.Expr]) -> exp.Select:
        """Aggregate over an inner query that deduplicates rows, selects the last day or ranks rows.

        `ranged` are the conditions for determining the last day.
        """
        many = self.rows.many
        if many:
            self.rows.require_key("a dimension of its details")
            self.build.use(self.branch.fact).overlapping = True
        semi = self.branch.treatment.semi_additive
        stage = Stage(self.rows, distinct=many)
        stage.dimensions(values)
        leaf = next(iter(self.branch.leaves.values()))
        percentile = (
            percentile_of(leaf.aggregate.tree) if needs_ranks(leaf.aggregate.tree, self.build.dialect) else None
        )
        if semi is not None and self.over is not None:
            times = self._times()
            on_time = [condition for condition in leaf.conditions if times.read(condition) is not None]
            among: list[exp.Expr] = [exp.paren(self.rows.bind(condition), copy=False) for condition in on_time]
            stage.only_last(semi, self.over, values, self._time_partition(), where, among)
            where = ranged
        outer = [] if percentile else self._aggregates(stage)
        ranked = stage.bind(replace(leaf.aggregate, tree=percentile[0])) if percentile else None
        condition = self._condition(leaf, stage) if percentile else None
        name = self.build.add(f"{self.branch.fact}__rows", self._joined(stage.inner(), where))
        conditions = stage.outer_conditions(name)
        keys = [f"d{number}" for number in values]
        if percentile is not None and ranked is not None:
            if condition is not None:
                ranked = exp.Case(ifs=[exp.If(this=condition, true=ranked)])
            name = self.build.add(f"{self.branch.fact}__ranks", rank_query(name, ranked, keys, conditions))
            conditions = []
            outer = [as_column(weighed(percentile[1], name, self.build.dialect), f"m{next(iter(self.branch.leaves))}")]
        selected = [as_column(column(key, name), key) for key in keys]
        query = exp.select(*selected, *outer, copy=False).from_(aliased_cte(name), copy=False)
        query = query.where(*conditions, copy=False)
        return grouped(query, [column(key, name) for key in keys])

    def _time_partition(self) -> list[int]:
        """Return the dimensions that are, or depend on, a semi-additive measure's time."""
        times = self._times()
        return [
            index
            for index, dimension in self.dimensions
            if times.read(dimension.expression, dimension.grain) is not None
        ]

    def _averaged(self, values: dict[int, exp.Expr], where: list[exp.Expr]) -> exp.Select:
        """Aggregate for each time value, then average the results."""
        assert self.over is not None
        over = self.rows.bind(Expression(exp.Placeholder(this="0"), (self.over,), None, str(self.over)))
        if self.rows.many:
            message = f"an average over time of `{self.branch.fact}` cannot be grouped by its details"
            raise SemanticError(message, hint="group by dimensions that have one value per row", code="unreachable")
        if any(needs_ranks(leaf.aggregate.tree, self.build.dialect) for leaf in self.branch.leaves.values()):
            message = f"{self.build.dialect} cannot average a percentile over time"
            hint = "use the last or the first value instead: semi_additive: {take: last}"
            raise SemanticError(message, hint=hint, code="definition")
        selected = [*_dimension_columns(values), as_column(over, "t"), *self._aggregates()]
        inner = grouped(self._joined(self.rows.select(selected), where), [*values.values(), over])
        name = self.build.add(f"{self.branch.fact}__by_time", inner)
        outer = [as_column(column(f"d{number}", name), f"d{number}") for number in values]
        for number in self.branch.leaves:
            mean = with_condition(exp.Avg(this=column(f"m{number}", name)), None, self.build.dialect)
            outer.append(as_column(mean, f"m{number}"))
        query = exp.select(*outer, copy=False).from_(aliased_cte(name), copy=False)
        return grouped(query, [column(f"d{number}", name) for number in values])

    def _tuples(self, leaf: Leaf, values: dict[int, exp.Expr], where: list[exp.Expr]) -> exp.Select:
        """Count the distinct non-null combinations of several columns."""
        if self.branch.treatment.semi_additive is not None:
            message = "a distinct count of several columns cannot be semi-additive"
            hint = "count one column, or combine them in a computed column"
            raise SemanticError(message, hint=hint, code="definition")
        parts = [
            self.rows.bind(replace(leaf.aggregate, tree=distinct_column))
            for distinct_column in distinct_columns(leaf.aggregate.tree)
        ]
        condition = self._condition(leaf)
        kept = [is_present(part.copy()) for part in parts]
        wanted = exp.and_(*kept, *([] if condition is None else [condition]), copy=False)
        selected = [
            as_column(exp.Case(ifs=[exp.If(this=wanted.copy(), true=part)]), f"c{n}") for n, part in enumerate(parts)
        ]
        inner = self.rows.select([*_dimension_columns(values), *selected]).distinct(copy=False)
        name = self.build.add(f"{self.branch.fact}__tuples", self._joined(inner, where))
        number = next(iter(self.branch.leaves))
        outer: list[exp.Expr] = [as_column(column(f"d{n}", name), f"d{n}") for n in values]
        outer.append(as_column(exp.Count(this=column("c0", name), big_int=True), f"m{number}"))
        query = exp.select(*outer, copy=False).from_(aliased_cte(name), copy=False)
        return grouped(query, [column(f"d{n}", name) for n in values])


def _is_longer(asked: TimeRange, start: date | datetime | None, end: date | datetime | None) -> bool:
    """Return whether a time range is compared with one of a different length, unless both are whole months."""
    if asked.start is None or asked.end is None or start is None or end is None:
        return False
    whole = instant(asked.start).day == instant(asked.end).day == 1
    return not whole and instant(asked.end) - instant(asked.start) != instant(end) - instant(start)


def grouped(query: exp.Select, keys: Sequence[exp.Expr]) -> exp.Select:
    """Group the query by its keys, except constants."""
    real = [key for key in keys if key.find(exp.Column)]
    if real:
        return query.group_by(*(key.copy() for key in real), copy=False)
    if keys:
        return query.having(exp.GT(this=count_of(), expression=exp.Literal.number(0)), copy=False)
    return query


def aliased_cte(name: str) -> exp.Expr:
    """Return a common table expression as a relation with its own name."""
    return aliased(cte(name), name)


def _dimension_columns(values: dict[int, exp.Expr]) -> list[exp.Expr]:
    return [as_column(value.copy(), f"d{number}") for number, value in values.items()]


@dataclass(frozen=True, slots=True)
class Compiled:
    """One compiled statement. The limit in `tree` is one row more than that of the query, to detect further rows."""

    tree: exp.Expr
    columns: tuple[str, ...]
    build: Build


def compile_plan(build: Build) -> Compiled:
    """Compile a plan."""
    plan = build.plan
    relation, whole = combined(build)
    dimensions = enumerate(plan.dimensions)
    columns = [as_column(_dimension(relation, index), dimension.name) for index, dimension in dimensions]
    value = _Values(build, relation, whole)
    columns += [as_column(value.of(output.formula), output.name) for output in plan.outputs]
    query = value.joined(exp.select(*columns, copy=False).from_(aliased_cte(relation), copy=False))
    for condition in plan.having:
        query = query.where(exp.paren(value.of(condition), copy=False), copy=False)
    order = _order(plan, value)
    if order:
        query = query.order_by(*order, copy=False)
    query = query.limit(plan.query.limit + 1, copy=False)
    if plan.query.offset:
        query = query.offset(plan.query.offset, copy=False)
    names = (*(dimension.name for dimension in plan.dimensions), *(output.name for output in plan.outputs))
    tree = build.with_queries(query)
    return Compiled(tree if build.syntax.conditions_are_values else without_booleans(tree), names, build)


def combined(build: Build) -> tuple[str, dict[int, str]]:
    """Return the relation with all dimensions and leaves, and the relations of leaves with fewer dimensions."""
    plan = build.plan
    every = tuple(range(len(plan.dimensions)))
    parts: dict[str, tuple[int, ...]] = {}
    whole: dict[int, str] = {}
    for branch in branches(plan):
        name = build.add(
            f"{branch.fact}__totals" if branch.kept != every else branch.fact + "__1", _query(build, branch)
        )
        if branch.kept == every:
            parts[name] = tuple(branch.leaves)
        else:
            whole |= dict.fromkeys(branch.leaves, name)
    if not plan.wanted:
        parts[build.add("members", dimension_rows(build))] = ()
    extra = empty_values(build)
    if extra is not None:
        parts[build.add("members", extra)] = ()
    relation = _together(build, parts)
    if plan.query.fill:
        relation = _filled(build, relation, parts)
    return relation, whole


def _query(build: Build, branch: Branch) -> exp.Expr:
    leaf = next(iter(branch.leaves.values()))
    if leaf.nested is not None:
        return _two_level(build, next(iter(branch.leaves)), leaf, branch)
    return BranchBuilder(build, branch).query()


def _two_level(build: Build, number: int, leaf: Leaf, branch: Branch) -> exp.Expr:
    """Return the outer aggregate over the inner formulas, which are grouped by dimensions and keys."""
    assert leaf.nested is not None
    plan = build.plan
    kept = [plan.dimensions[index] for index in branch.kept]
    keys = [Dimension(f"k{n}", key, key.text) for n, key in enumerate(leaf.nested.keys)]
    outputs = [Output(f"v{n}", formula, f"v{n}") for n, formula in enumerate(leaf.nested.formulas)]
    needed = sorted(
        {int(placeholder.name) for formula in leaf.nested.formulas for placeholder in placeholders(formula)}
    )
    renumbered = {old: new for new, old in enumerate(needed)}
    outputs = [
        replace(output, formula=filled(output.formula, lambda old: exp.Placeholder(this=str(renumbered[old]))))
        for output in outputs
    ]
    inner = Plan(
        replace(plan.query, fill=False, include_empty=False, limit=0, offset=0),
        (*kept, *(replace(key, expression=_loose(key.expression)) for key in keys)),
        tuple(outputs),
        tuple(
            replace(leaf, treatment=replace(leaf.treatment, keep=None)) for leaf in map(plan.leaves.__getitem__, needed)
        ),
        plan.filters,
        (),
        (),
        plan.time_range,
        plan.timezone,
    )
    inner = with_axes(build.names, inner, range(len(kept)))
    outer_plan, build.plan = build.plan, inner
    try:
        relation, whole = combined(build)
        value = _Values(build, relation, whole)
        columns = [as_column(_dimension(relation, index), f"d{number}") for index, number in enumerate(branch.kept)]
        columns += [as_column(value.of(output.formula), output.name) for output in outputs]
        query = value.joined(exp.select(*columns, copy=False).from_(aliased_cte(relation), copy=False))
    finally:
        build.plan = outer_plan
    name = build.add(f"{leaf.fact}__by_key", query)
    aggregate = filled(leaf.aggregate.tree, lambda place: column(f"v{leaf.aggregate.names[place].column}", name))
    groups = [f"d{index}" for index in branch.kept]
    percentile = percentile_of(aggregate) if needs_ranks(aggregate, build.dialect) else None
    if percentile is None:
        total = with_condition(aggregate, None, build.dialect)
    else:
        name = build.add(f"{leaf.fact}__ranks", rank_query(name, percentile[0], groups, ()))
        total = weighed(percentile[1], name, build.dialect)
    selected = [*(as_column(column(key, name), key) for key in groups), as_column(total, f"m{number}")]
    result = exp.select(*selected, copy=False).from_(aliased_cte(name), copy=False)
    if groups:
        result = result.group_by(*(column(key, name) for key in groups), copy=False)
    return result


def _loose(expression: Expression) -> Expression:
    from ktx_cli.semantic.plan.measures import from_anywhere

    return replace(from_anywhere(expression), home=None)


def _together(build: Build, parts: dict[str, tuple[int, ...]]) -> str:
    """Combine several relations into one row for each combination of dimension values."""
    if len(parts) == 1:
        return next(iter(parts))
    dimensions = [f"d{number}" for number in range(len(build.plan.dimensions))]
    measures = [f"m{number}" for numbers in parts.values() for number in numbers]
    stacked: list[exp.Select] = []
    if build.syntax.requires_typed_nulls:
        stacked.append(_header(parts, dimensions))
    for name, numbers in parts.items():
        own = {f"m{number}" for number in numbers}
        columns = [as_column(column(key, name), key) for key in dimensions]
        columns += [as_column(column(key, name) if key in own else exp.null(), key) for key in measures]
        stacked.append(exp.select(*columns, copy=False).from_(aliased_cte(name), copy=False))
    query: exp.Expr = stacked[0]
    for other in stacked[1:]:
        query = exp.union(query, other, distinct=False, copy=False)
    rows = build.add("stacked", query)
    picked = [as_column(column(key, rows), key) for key in dimensions]
    picked += [as_column(_any(build, key, column(key, rows)), key) for key in measures]
    result = exp.select(*picked, copy=False).from_(aliased_cte(rows), copy=False)
    if dimensions:
        result = result.group_by(*(column(key, rows) for key in dimensions), copy=False)
    return build.add("combined", result)


def _any(build: Build, key: str, value: exp.Expr) -> exp.Expr:
    """Return the single non-null value in a group."""
    aggregate = build.plan.leaves[int(key[1:])].aggregate.tree
    return exp.LogicalOr(this=value) if isinstance(aggregate, exp.LogicalOr | exp.LogicalAnd) else exp.Max(this=value)


def _header(parts: dict[str, tuple[int, ...]], dimensions: Sequence[str]) -> exp.Select:
    """Return a query without rows that determines the types of columns."""
    names = list(parts)
    columns = [as_column(column(key, names[0]), key) for key in dimensions]
    columns += [
        as_column(column(f"m{number}", name), f"m{number}") for name, numbers in parts.items() for number in numbers
    ]
    query = exp.select(*columns, copy=False).from_(aliased_cte(names[0]), copy=False)
    for name in names[1:]:
        join(query, aliased_cte(name), None)
    return query.where(exp.false(), copy=False)


def _filled(build: Build, relation: str, parts: dict[str, tuple[int, ...]]) -> str:
    """Add missing periods for every combination of the other dimensions."""
    plan = build.plan
    filled = filled_time(build.names, plan)
    time, grain = filled.number, filled.grain
    seen = exp.select(as_column(column(f"d{time}", relation), "period")).from_(aliased_cte(relation))
    seen = seen.where(is_present(column(f"d{time}", relation)))
    periods = filled_periods(build, [build.add("shown_periods", seen)], grain)
    fact = plan.leaves[plan.wanted[0]].fact if plan.wanted else ""
    periods, values = labelled(build, fact, periods, grain, filled.readings)
    others = [f"d{index}" for index in range(len(plan.dimensions)) if index not in values]
    combinations = exp.select(*(as_column(column(key, relation), key) for key in others)).from_(aliased_cte(relation))
    grid = exp.select(
        *(
            as_column(values[index] if index in values else column(f"d{index}", "others"), f"d{index}")
            for index in range(len(plan.dimensions))
        )
    ).from_(cte(periods))
    if others:
        join(grid, subquery(combinations.distinct(), "others"), None)
    numbers = tuple(number for own in parts.values() for number in own)
    return _together(build, {relation: numbers, build.add("every_period", grid): ()})


class _Values:
    """Computes formulas over the combined relation, with joins to totals over fewer dimensions."""

    def __init__(self, build: Build, relation: str, whole: dict[int, str]) -> None:
        self._build = build
        self._relation = relation
        self._whole = whole

    def of(self, formula: exp.Expr) -> exp.Expr:
        """Return a formula over the columns of the relation."""
        return filled(formula, self._value)

    def joined(self, query: exp.Select) -> exp.Select:
        """Join the totals to the query."""
        plan = self._build.plan
        for name in dict.fromkeys(self._whole.values()):
            number = next(number for number, of in self._whole.items() if of == name)
            kept = plan.leaves[number].treatment.keep or ()
            pairs = [(column(f"d{index}", self._relation), column(f"d{index}", name)) for index in kept]
            equal = [self._build.syntax.null_safe_join(one, two) for one, two in pairs]
            join(query, aliased_cte(name), exp.and_(*equal, copy=False) if equal else None, "LEFT")
        return query

    def _value(self, number: int) -> exp.Expr:
        if number < 0:
            return _dimension(self._relation, -1 - number)
        value = column(f"m{number}", self._whole.get(number, self._relation))
        if self._build.plan.leaves[number].kind == COUNT:
            return exp.Coalesce(this=value, expressions=[exp.Literal.number(0)])
        return value


def _dimension(relation: str, index: int) -> exp.Column:
    return column(f"d{index}", relation)


def _order(plan: Plan, value: _Values) -> list[exp.Expr]:
    """Return the sort keys: those of the query, then the dimensions for a deterministic order."""
    result: list[exp.Expr] = [_ordered(value.of(key.tree), key.descending) for key in plan.order]
    asked = {key.tree for key in plan.order}
    for index in range(len(plan.dimensions)):
        place = exp.Placeholder(this=str(-1 - index))
        if place not in asked:
            result.append(_ordered(value.of(place), descending=False))
    return result


def _ordered(value: exp.Expr, descending: bool) -> exp.Ordered:
    return exp.Ordered(this=value, desc=descending, nulls_first=False)
