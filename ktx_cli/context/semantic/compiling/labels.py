"""What the dimensions of a time are in each period of its axis: coarser periods, date parts, columns of a calendar."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from ktx_cli.connectors.port import SemanticType
from ktx_cli.context.semantic.compiling.build import Build, aliased, called, column, identifier, join, named
from ktx_cli.context.semantic.compiling.rows import Rows
from ktx_cli.context.semantic.compiling.times import counted_by, kind_of
from ktx_cli.context.semantic.expressions.names import filled
from ktx_cli.context.semantic.graph import Edge, Path
from ktx_cli.context.semantic.model import DAY, Column
from ktx_cli.context.semantic.planning.axis import Reading
from ktx_cli.context.semantic.time import DateOrTimestamp, truncate

_KEY = "day"


def labelled(
    build: Build, fact: str, periods: str, grain: str, readings: Mapping[int, Reading]
) -> tuple[str, dict[int, exp.Expr]]:
    """Return the name of a query of `period` and what else its dimensions need, and the value of each over it.

    `periods`: the name of the query of the periods alone, of a grain.
    """
    if all(each.is_plain and each.grain in (grain, None) for each in readings.values()):
        return periods, {index: column("period", periods) for index in readings}
    query = exp.select(called(column("period", periods), "period"), copy=False).from_(named(periods), copy=False)
    kind: DateOrTimestamp = "date" if counted_by(grain) == DAY else "timestamp"
    period = column("period", periods)
    of_period = Column("period", SemanticType.TIME, natural_granularity=DAY if kind == "date" else None)
    looked_up: dict[Edge, dict[int, Reading]] = {}
    selected: dict[int, exp.Expr] = {}
    for index, reading in readings.items():
        if reading.calendar is not None:
            looked_up.setdefault(reading.calendar, {})[index] = reading
            continue
        value = filled(build.with_compared_times(reading.tree, lambda _: of_period), lambda _: period.copy())
        if reading.grain is not None and reading.grain != grain:
            value = truncate(value, reading.grain, kind, build.clock(None))
        selected[index] = value
    for edge, own in looked_up.items():
        name = _of_calendar(build, fact, edge, own)
        day = truncate(period.copy(), DAY, kind, build.clock(None))
        on = exp.EQ(this=column(_KEY, name), expression=day)
        join(query, aliased(exp.Table(this=identifier(name)), name), on, "LEFT")
        selected |= {index: column(f"d{index}", name) for index in own}
    query = query.select(*(called(selected[index], f"d{index}") for index in sorted(selected)), copy=False)
    name = build.add(f"{fact}__axis", query)
    return name, {index: column(f"d{index}", name) for index in readings}


def _of_calendar(build: Build, fact: str, edge: Edge, readings: Mapping[int, Reading]) -> str:
    """Return the name of the query of a calendar's days with the values of dimensions."""
    rows = Rows(build, edge.target)
    source = build.names.model.sources[edge.target]
    key = source.column(edge.pairs[0][1])
    own = rows.own(edge.pairs[0][1])
    selected = [called(truncate(own, DAY, kind_of(key), build.clock(key)), _KEY)]
    for index, reading in readings.items():
        selected.append(called(_value(build, fact, rows, edge, reading), f"d{index}"))
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

    found = filled(build.with_compared_times(reading.tree, column_of), value)
    if reading.grain is None:
        return found
    last = next(each for each in reading.reads if not each.is_time)
    read_from = build.names.model.sources[last.edges[-1].target].column(last.column)
    return truncate(found, reading.grain, kind_of(read_from), build.clock(read_from))
