"""The periods a statement shows, as a named query with one column `period`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sqlglot import exp

from ktx_cli.context.semantic.compiling.build import Build, column, identifier, named
from ktx_cli.context.semantic.compiling.filters import row_conditions
from ktx_cli.context.semantic.compiling.rows import Rows
from ktx_cli.context.semantic.compiling.times import counted_by, cut, in_range
from ktx_cli.context.semantic.expressions.names import Expression, Name
from ktx_cli.context.semantic.model import DAY
from ktx_cli.context.semantic.planning.axis import reader
from ktx_cli.context.semantic.planning.plan import Leaf
from ktx_cli.context.semantic.planning.ranges import instant
from ktx_cli.context.semantic.time import DateOrTimestamp, literal, overflow, period_of, spine


@dataclass(frozen=True, slots=True)
class Periods:
    """A named query of period starts of a grain."""

    name: str
    grain: str

    @property
    def counted_by(self) -> str:
        """The grain at which a row's time is held against the periods."""
        return counted_by(self.grain)

    @property
    def kind(self) -> DateOrTimestamp:
        """What a period's start is."""
        return "date" if self.counted_by == DAY else "timestamp"

    @classmethod
    def of(cls, build: Build, fact: str, over: Name, seen: Expression, grain: str) -> Periods:
        """Return the periods in which any fact of the question has rows at that time, read from `seen`."""
        names = {fact: seen_periods(build, fact, over, grain, seen)}
        for leaf in map(build.plan.leaves.__getitem__, build.plan.wanted):
            time = build.time_of(build.names.model.sources[leaf.fact], leaf.treatment.time)
            if leaf.fact not in names and time is not None and _shares(build, leaf, time, grain):
                names[leaf.fact] = seen_periods(build, leaf.fact, time, grain)
        queries = list(names.values())
        return cls(queries[0] if len(queries) == 1 else _union(build, queries), grain)


def seen_periods(build: Build, fact: str, over: Name, grain: str, seen: Expression | None = None) -> str:
    """Return the name of the query of a fact's periods: those with rows, or all from first to last with `fill`.

    `seen`: what they are read from where it is not the column itself.
    """
    key = f"{fact}.{over if seen is None else seen.key}.{grain}"
    if key not in build.periods:
        rows = Rows(build, fact, time=over)
        start = cut(rows, over if seen is None else seen, grain)
        where = row_conditions(rows, build.plan)
        if build.plan.time_range is not None:
            where.append(in_range(rows, build.plan.time_range))
        where.append(exp.Not(this=exp.Is(this=start.copy(), expression=exp.null())))
        query = rows.select([exp.Alias(this=start, alias=identifier("period"))]).distinct(copy=False)
        query = query.where(*where, copy=False)
        name = build.add(f"{fact}__periods", query)
        build.periods[key] = filled_periods(build, [name], grain) if build.plan.query.fill else name
    return build.periods[key]


def filled_periods(build: Build, seen: list[str], grain: str) -> str:
    """Return the name of the query of all periods from the first to the last, of the time range where it says so."""
    key = f"filled.{'.'.join(seen)}.{grain}"
    if key not in build.periods:
        source = seen[0] if len(seen) == 1 else _union(build, seen)
        kind: DateOrTimestamp = "date" if counted_by(grain) == DAY else "timestamp"
        ends = [_end(build, source, grain, kind, last=last) for last in (False, True)]
        build.limits.append((grain, overflow(ends[0], ends[1], grain, build.clock(None))))
        build.periods[key] = build.add("periods", spine(ends[0], ends[1], grain, build.clock(None)))
    return build.periods[key]


def _shares(build: Build, leaf: Leaf, time: Name, grain: str) -> bool:
    """Say whether the rows of another fact are in the same periods: its own time is cut to them."""
    times = reader(build.names, build.plan, leaf.fact, time, leaf.treatment.time)
    return any(each.grain == grain and times.is_itself(each.expression) for each in build.plan.dimensions)


def _union(build: Build, names: list[str]) -> str:
    key = "union." + ".".join(names)
    if key not in build.periods:
        query: exp.Expr = exp.select(column("period", names[0])).from_(named(names[0]))
        for name in names[1:]:
            other = exp.select(column("period", name)).from_(named(name))
            query = exp.union(query, other, distinct=True, copy=False)
        build.periods[key] = build.add("seen_periods", query)
    return build.periods[key]


def _end(build: Build, seen: str, grain: str, kind: DateOrTimestamp, *, last: bool) -> exp.Expr:
    """Return the first or the last period: of the time range where it has that end, else of those seen."""
    asked = build.plan.time_range
    if asked is not None:
        value = asked.end if last else asked.start
        if value is not None:
            moment = instant(value) - timedelta(microseconds=1) if last else instant(value)
            return literal(period_of(moment, grain, build.names.model.calendar), kind, build.dialect)
    pick = exp.Max if last else exp.Min
    query = exp.select(pick(this=column("period", seen))).from_(named(seen))
    return exp.Subquery(this=query)
