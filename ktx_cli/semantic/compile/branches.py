"""One group of aggregates over the rows of one fact, as one query: `d0`, `d1`, ... and `m0`, `m3`, ..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from sqlglot import exp

from ktx_cli.semantic.compile.build import Build, aliased, called, column, identifier, join
from ktx_cli.semantic.compile.filters import dimension_value, in_range, note_of_rest, row_conditions, split_by_time
from ktx_cli.semantic.compile.members import labelled
from ktx_cli.semantic.compile.rows import Rows, Stage, needs_ranks, rank_query, weighed
from ktx_cli.semantic.compile.windows import Periods, Window
from ktx_cli.semantic.expressions.aggregates import distinct_columns, percentile_of, with_condition
from ktx_cli.semantic.expressions.names import Expression, Name
from ktx_cli.semantic.model import DAY, SemanticError, SemiAdditive
from ktx_cli.semantic.plan.axis import TimeReader, reader
from ktx_cli.semantic.plan.plan import (
    Axis,
    Dimension,
    Leaf,
    Plan,
    RowFilter,
    TimeRange,
    Treatment,
    differs_in_length,
    earlier_range,
    instant,
)


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
        self.axis: Axis | None = self.plan.axes.get((branch.fact, treatment))
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
        """Aggregate the rows of the last (first) moment; conditions on that time say where it is looked for."""
        fact = self.branch.fact
        on_time, rest = split_by_time(self._filters(), self._times())
        where = row_conditions(self.rows, self.plan, rest)
        if rest and self.over is not None:
            self.build.note(note_of_rest(fact, semi.take, self.over, rest))
        return self._staged(values, where, [*row_conditions(self.rows, self.plan, on_time), *ranged])

    def _filters(self) -> list[RowFilter]:
        """Return the question's conditions on the branch's rows, but those that say the same as a time range."""
        fact = self.branch.fact
        held = [condition for condition in self.plan.filters if condition.facts is None or fact in condition.facts]
        if self.axis is None:
            return held
        for condition in held:
            self.build.use(fact).filters.setdefault(condition.expression.text, "where")
        return list(self.axis.filters)

    def _over(self) -> Name | None:
        """Return the column whose periods the branch's rows are seen by, None for rows as they are."""
        if self.axis is not None:
            return self.axis.over
        if self.branch.treatment.semi_additive is not None:
            return self._own(self.branch.treatment.semi_additive.over)
        return self.time

    def _times(self) -> TimeReader:
        """Return what reads expressions for the column the branch goes over."""
        assert self.over is not None
        return reader(self.build.names, self.plan, self.branch.fact, self.over, self.branch.treatment.time)

    def _own(self, name: str) -> Name:
        stored = self.rows.fact.column(name)
        if stored is None:
            raise SemanticError(
                f"`{self.branch.fact}` has no column `{name}`, over which a measure of it goes",
                hint="correct `over` in the file of the measure",
                code="definition",
            )
        return Name((), stored.name)

    def _dimension_values(self) -> dict[int, exp.Expr]:
        """Return what the rows are grouped by; the times of an axis are those of the period, not the row's own."""
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
        hint = f"add `{self.branch.fact}.{self.over}:month` to the dimensions"
        if cumulative is not None and (cumulative.window is not None or cumulative.to_date is not None):
            raise SemanticError(
                f"a rolling or to-date measure of `{self.branch.fact}` needs its time as a dimension", hint=hint
            )
        if treatment.offset is not None and self.axis.asked is None:
            raise SemanticError(
                f"the offset of a measure of `{self.branch.fact}` needs its time as a dimension, or a time_range",
                hint=hint,
            )

    def _ranged(self) -> list[exp.Expr]:
        """Return the conditions that a row is in the time the branch is about.

        A period that the question's range cuts is cut for an earlier value too.
        """
        if self.axis is None:
            asked = self.plan.time_range
            return [] if asked is None or (asked.start is None and asked.end is None) else [in_range(self.rows, asked)]
        window = self._window()
        moved = window.range() if window is not None else self._moved(self.axis.asked)
        return [in_range(self.rows, asked) for asked in (moved, self.axis.beside) if asked is not None]

    def _window(self) -> Window | None:
        """Return which rows count in each period, None for rows as they are."""
        if self.periods is None or self.axis is None:
            return None
        return Window(self.periods, self.rows, self.axis.over, self.branch.treatment, self.axis.asked)

    def _moved(self, asked: TimeRange | None) -> TimeRange | None:
        """Return the stretch of time the branch's rows are from: earlier for an offset, open for what accumulates."""
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
        """Return the query with its conditions, and with the periods its rows are counted in."""
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
            tree = bind(leaf.aggregate)
            condition = self._condition(leaf, value)
            result.append(called(with_condition(tree, condition, self.build.dialect), f"m{number}"))
        return result

    def _condition(self, leaf: Leaf, stage: Stage | None = None) -> exp.Expr | None:
        for condition in leaf.conditions:
            if self.rows.many_prefixes(condition):
                raise SemanticError(
                    f"the filter `{condition.text}` of a measure of `{leaf.fact}` reads rows it has several of",
                    hint="filter the question instead, or declare the measure where these rows are",
                    code="unreachable",
                )
        bind = self.rows.bind if stage is None else stage.bind
        result: list[exp.Expr] = [exp.paren(bind(condition), copy=False) for condition in leaf.conditions]
        last = None if stage is None else stage.last()
        result += [] if last is None else [last]
        return exp.and_(*result, copy=False) if result else None

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
            times = self._times()
            on_time = [condition for condition in leaf.conditions if times.read(condition) is not None]
            among: list[exp.Expr] = [exp.paren(self.rows.bind(condition), copy=False) for condition in on_time]
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
        times = self._times()
        return [
            index
            for index, dimension in self.dimensions
            if times.read(dimension.expression, dimension.grain) is not None
        ]

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
        parts = [
            self.rows.bind(replace(leaf.aggregate, tree=distinct_column))
            for distinct_column in distinct_columns(leaf.aggregate.tree)
        ]
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


def _is_longer(asked: TimeRange, start: date | datetime | None, end: date | datetime | None) -> bool:
    """Say whether a stretch of days is compared with one of another length, and is not one of whole months."""
    if asked.start is None or asked.end is None or start is None or end is None:
        return False
    whole = instant(asked.start).day == instant(asked.end).day == 1
    return not whole and instant(asked.end) - instant(asked.start) != instant(end) - instant(start)


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
