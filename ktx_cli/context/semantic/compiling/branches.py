"""One group of aggregates over the rows of one fact, as one query: `d0`, `d1`, ... and `m0`, `m3`, ..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from ktx_cli.context.semantic.compiling.build import Build, aliased, called, column, identifier, join
from ktx_cli.context.semantic.compiling.filters import row_conditions
from ktx_cli.context.semantic.compiling.moments import is_condition_on_time, is_of_time, note_of_rest, split_by_time
from ktx_cli.context.semantic.compiling.periods import Periods
from ktx_cli.context.semantic.compiling.ranked import needs_ranks, rank_query, weighed
from ktx_cli.context.semantic.compiling.rows import Rows
from ktx_cli.context.semantic.compiling.staged import Stage
from ktx_cli.context.semantic.compiling.times import dimension_value, in_range, is_range_of, is_time_of
from ktx_cli.context.semantic.compiling.windows import Window
from ktx_cli.context.semantic.errors import SemanticError
from ktx_cli.context.semantic.expressions.aggregates import distinct_columns, percentile_of, with_condition
from ktx_cli.context.semantic.expressions.names import Expression, Name
from ktx_cli.context.semantic.model import SemiAdditive
from ktx_cli.context.semantic.planning.plan import Dimension, Leaf, Plan, TimeRange, Treatment
from ktx_cli.context.semantic.time import later


@dataclass(frozen=True, slots=True)
class Branch:
    """Aggregates that see the same rows the same way: number of the leaf -> leaf; `kept`: its dimensions' numbers."""

    fact: str
    treatment: Treatment
    leaves: dict[int, Leaf]
    kept: tuple[int, ...]


def branches(plan: Plan) -> list[Branch]:
    """Return the plan's leaves in groups that one query can answer."""
    groups: dict[tuple[object, ...], dict[int, Leaf]] = {}
    for number in plan.wanted:
        leaf = plan.leaves[number]
        alone: object = number if leaf.nested or needs_stage_alone(leaf) else None
        semi = leaf.treatment.semi_additive
        if semi is not None and semi.take != "average" and alone is None:
            alone = frozenset(each.key for each in leaf.conditions)  # may say at which moments is looked
        groups.setdefault((leaf.fact, leaf.treatment, alone), {})[number] = leaf
    every = tuple(range(len(plan.dimensions)))
    found = []
    for leaves in groups.values():
        first = next(iter(leaves.values()))
        kept = first.treatment.keep
        found.append(Branch(first.fact, first.treatment, leaves, every if kept is None else kept))
    return found


def needs_stage_alone(leaf: Leaf) -> bool:
    """Say whether an aggregate is computed by a query of its own."""
    return bool(distinct_columns(leaf.aggregate.tree)) or percentile_of(leaf.aggregate.tree) is not None


class BranchBuilder:
    """Builds the query of one branch."""

    def __init__(self, build: Build, branch: Branch) -> None:
        self.build = build
        self.plan = build.plan
        self.branch = branch
        treatment = branch.treatment
        fact = build.names.model.sources[branch.fact]
        self.time = build.time_of(fact, treatment.time)
        self.rows = Rows(build, branch.fact, time=self.time)
        self.over = self._over()
        self.periods: Periods | None = None

    @property
    def dimensions(self) -> list[tuple[int, Dimension]]:
        """The branch's dimensions and their numbers."""
        return [(number, self.plan.dimensions[number]) for number in self.branch.kept]

    def query(self) -> exp.Select:
        """Return the branch's query."""
        treatment = self.branch.treatment
        values = self._dimension_values()
        ranged = self._ranged()
        semi = treatment.semi_additive
        if semi is not None and semi.take != "average":
            return self._at_moment(semi, values, ranged)
        where = [*row_conditions(self.rows, self.plan), *ranged]
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
        """Aggregate the rows of the last (first) moment; conditions on that time say where it is looked for."""
        fact = self.branch.fact
        held = [each for each in self.plan.filters if each.facts is None or fact in each.facts]
        on_time, rest = split_by_time(self.rows, held, self.over)
        where = row_conditions(self.rows, self.plan, rest)
        if rest and self.over is not None:
            self.build.note(note_of_rest(fact, semi.take, self.over, rest))
        return self._staged(values, where, [*row_conditions(self.rows, self.plan, on_time), *ranged])

    def _over(self) -> Name | None:
        """Return the column whose periods the branch's rows are seen by, None for rows as they are."""
        treatment = self.branch.treatment
        if treatment.cumulative is not None and treatment.cumulative.over is not None:
            return self._own(treatment.cumulative.over)
        if treatment.semi_additive is not None:
            return self._own(treatment.semi_additive.over)
        return self.time

    def _own(self, name: str) -> Name:
        found = self.rows.fact.column(name)
        if found is None:
            raise SemanticError(
                f"`{self.branch.fact}` has no column `{name}`, over which a measure of it goes",
                hint="correct `over` in the file of the measure",
                code="definition",
            )
        return Name((), found.name)

    def _time_dimension(self) -> int | None:
        for number, dimension in self.dimensions:
            if self.over is not None and is_time_of(self.rows, dimension, self.over):
                return number
        return None

    def _dimension_values(self) -> dict[int, exp.Expr]:
        """Return what the rows are grouped by; the time of a window is the period, not the row's own."""
        treatment = self.branch.treatment
        number = self._time_dimension() if self._windowed else None
        values: dict[int, exp.Expr] = {}
        for index, dimension in self.dimensions:
            if index == number and self.over is not None and dimension.grain is not None:
                self.periods = Periods.of(self.build, self.branch.fact, self.over, dimension.grain)
                values[index] = column("period", self.periods.name)
            else:
                values[index] = dimension_value(self.rows, dimension)
        self._require_periods(treatment)
        return values

    @property
    def _windowed(self) -> bool:
        return self.branch.treatment.cumulative is not None or self.branch.treatment.offset is not None

    def _require_periods(self, treatment: Treatment) -> None:
        if self.periods is not None:
            return
        cumulative = treatment.cumulative
        if cumulative is not None and (cumulative.window is not None or cumulative.to_date is not None):
            raise SemanticError(
                f"a rolling or to-date measure of `{self.branch.fact}` needs its time as a dimension",
                hint=f'add {{"field": "{self.branch.fact}.{self.over}", "granularity": "month"}}',
            )
        if treatment.offset is not None and self.plan.time_range is None:
            raise SemanticError(
                f"the offset of a measure of `{self.branch.fact}` needs its time as a dimension, or a time_range",
                hint=f'add {{"field": "{self.branch.fact}.{self.over}", "granularity": "month"}}',
            )

    def _ranged(self) -> list[exp.Expr]:
        """Return the condition that a row is in the time the branch is about.

        A period that the question's range cuts is cut for an earlier value too.
        """
        window, asked = self._window(), self.plan.time_range
        moved = window.range() if window is not None else None if asked is None else self._moved(asked)
        return [] if moved is None else [in_range(self.rows, moved)]

    def _window(self) -> Window | None:
        """Return which rows count in each period, None for rows as they are."""
        if self.periods is None or self.over is None:
            return None
        asked = self.plan.time_range
        on_it = asked is not None and is_range_of(self.rows, asked, self.over)
        return Window(self.periods, self.rows, self.over, self.branch.treatment, asked if on_it else None)

    def _moved(self, asked: TimeRange) -> TimeRange | None:
        """Return the stretch of time the branch's rows are from: earlier for an offset, open for what accumulates."""
        treatment = self.branch.treatment
        if treatment.cumulative is not None:
            asked = replace(asked, start=None)
        if treatment.offset is not None:
            back = treatment.offset
            start = None if asked.start is None else later(asked.start, -back.count, back.unit)
            end = None if asked.end is None else later(asked.end, -back.count, back.unit)
            return replace(asked, start=start, end=end)
        return asked if asked.start is not None or asked.end is not None else None

    def _joined(self, query: exp.Select, where: Sequence[exp.Expr]) -> exp.Select:
        """Return the query with its conditions, and with the periods its rows are counted in."""
        window = self._window()
        if window is not None:
            relation = aliased(exp.Table(this=identifier(window.periods.name)), window.periods.name)
            condition = window.condition()
            for note in window.notes():
                self.build.note(note)
            if self.build.dialect == "clickhouse":  # refuses a join without an equality
                return join(query, relation, None).where(condition, *where, copy=False)
            join(query, relation, condition)
        return query.where(*where, copy=False)

    def _aggregates(self, value: Stage | None = None) -> list[exp.Expr]:
        found: list[exp.Expr] = []
        for number, leaf in self.branch.leaves.items():
            bind = self.rows.bind if value is None else value.bind
            tree = bind(leaf.aggregate)
            condition = self._condition(leaf, value)
            found.append(called(with_condition(tree, condition, self.build.dialect), f"m{number}"))
        return found

    def _condition(self, leaf: Leaf, stage: Stage | None = None) -> exp.Expr | None:
        for each in leaf.conditions:
            if self.rows.many_prefixes(each):
                raise SemanticError(
                    f"the filter `{each.text}` of a measure of `{leaf.fact}` reads rows it has several of",
                    hint="filter the question instead, or declare the measure where these rows are",
                    code="unreachable",
                )
        bind = self.rows.bind if stage is None else stage.bind
        found: list[exp.Expr] = [exp.paren(bind(each), copy=False) for each in leaf.conditions]
        last = None if stage is None else stage.last()
        found += [] if last is None else [last]
        return exp.and_(*found, copy=False) if found else None

    def _staged(self, values: dict[int, exp.Expr], where: list[exp.Expr], ranged: list[exp.Expr]) -> exp.Select:
        """Aggregate over rows picked first: each once, or those of the last day alone, or in their order.

        `ranged`: the conditions under which the last day is looked for.
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
            on_time = [each for each in leaf.conditions if is_condition_on_time(self.rows, each, self.over)]
            among: list[exp.Expr] = [exp.paren(self.rows.bind(each), copy=False) for each in on_time]
            stage.only_last(semi, self.over, values, self._time_partition(), where, among)
            where = ranged
        outer = [] if percentile else self._aggregates(stage)
        ranked = stage.bind(replace(leaf.aggregate, tree=percentile[0])) if percentile else None
        condition = self._condition(leaf, stage) if percentile else None
        inner = self._joined(stage.inner(), where)
        name = self.build.add(f"{self.branch.fact}__rows", inner)
        conditions = stage.outer_conditions(name)
        keys = [f"d{number}" for number in values]
        if percentile is not None and ranked is not None:
            if condition is not None:
                ranked = exp.Case(ifs=[exp.If(this=condition, true=ranked)])
            name = self.build.add(f"{self.branch.fact}__ranks", rank_query(name, ranked, keys, conditions))
            conditions = []
            total = weighed(percentile[1], name, self.build.dialect)
            outer = [called(total, f"m{next(iter(self.branch.leaves))}")]
        selected = [called(column(key, name), key) for key in keys]
        query = exp.select(*selected, *outer, copy=False).from_(named_query(name), copy=False)
        query = query.where(*conditions, copy=False)
        return grouped(query, [column(key, name) for key in keys])

    def _time_partition(self) -> list[int]:
        """Return the dimensions that are times of a semi-additive measure, or reached by its time."""
        found = []
        for number, dimension in self.dimensions:
            if self.over is None or dimension.column is None:
                continue
            if is_of_time(self.rows, dimension.column, dimension.expression, self.over):
                found.append(number)
        return found

    def _averaged(self, values: dict[int, exp.Expr], where: list[exp.Expr]) -> exp.Select:
        """Aggregate per value of the time, then take the mean of these."""
        assert self.over is not None
        over = self.rows.bind(Expression(exp.Placeholder(this="0"), (self.over,), None, str(self.over)))
        if self.rows.many:
            raise SemanticError(
                f"an average over time of `{self.branch.fact}` cannot be grouped by its details",
                hint="group by dimensions it has one of",
                code="unreachable",
            )
        if any(needs_ranks(leaf.aggregate.tree, self.build.dialect) for leaf in self.branch.leaves.values()):
            raise SemanticError(
                f"{self.build.dialect} has no percentile that could be averaged over time",
                hint="take the last or the first value instead: semi_additive: {take: last}",
                code="definition",
            )
        selected = [*_dimension_columns(values), called(over, "t"), *self._aggregates()]
        inner = grouped(self._joined(self.rows.select(selected), where), [*values.values(), over])
        name = self.build.add(f"{self.branch.fact}__by_time", inner)
        outer = [called(column(f"d{number}", name), f"d{number}") for number in values]
        for number in self.branch.leaves:
            mean = with_condition(exp.Avg(this=column(f"m{number}", name)), None, self.build.dialect)
            outer.append(called(mean, f"m{number}"))
        query = exp.select(*outer, copy=False).from_(named_query(name), copy=False)
        return grouped(query, [column(f"d{number}", name) for number in values])

    def _tuples(self, leaf: Leaf, values: dict[int, exp.Expr], where: list[exp.Expr]) -> exp.Select:
        """Count the distinct combinations of several columns, none of them missing."""
        if self.branch.treatment.semi_additive is not None:
            raise SemanticError(
                "a distinct count of several columns cannot be semi-additive",
                hint="count one column, or combine them in a computed column",
                code="definition",
            )
        parts = [self.rows.bind(replace(leaf.aggregate, tree=each)) for each in distinct_columns(leaf.aggregate.tree)]
        condition = self._condition(leaf)
        kept = [exp.Not(this=exp.Is(this=part.copy(), expression=exp.null())) for part in parts]
        wanted = exp.and_(*kept, *([] if condition is None else [condition]), copy=False)
        selected = [
            called(exp.Case(ifs=[exp.If(this=wanted.copy(), true=part)]), f"c{n}") for n, part in enumerate(parts)
        ]
        inner = self.rows.select([*_dimension_columns(values), *selected]).distinct(copy=False)
        name = self.build.add(f"{self.branch.fact}__tuples", self._joined(inner, where))
        number = next(iter(self.branch.leaves))
        outer: list[exp.Expr] = [called(column(f"d{n}", name), f"d{n}") for n in values]
        outer.append(called(exp.Count(this=column("c0", name), big_int=True), f"m{number}"))
        query = exp.select(*outer, copy=False).from_(named_query(name), copy=False)
        return grouped(query, [column(f"d{n}", name) for n in values])


def grouped(query: exp.Select, keys: Sequence[exp.Expr]) -> exp.Select:
    """Return the query grouped by its keys; constants need no grouping."""
    real = [key for key in keys if key.find(exp.Column)]
    if real:
        return query.group_by(*(key.copy() for key in real), copy=False)
    if keys:
        some = exp.GT(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Literal.number(0))
        return query.having(some, copy=False)
    return query


def named_query(name: str) -> exp.Expr:
    """Return a named query as a relation under its own name."""
    return aliased(exp.Table(this=identifier(name)), name)


def _dimension_columns(values: dict[int, exp.Expr]) -> list[exp.Expr]:
    return [called(value.copy(), f"d{number}") for number, value in values.items()]
