"""Computes answers a second way: no joins, no groups, each number of a row by a query of its own.

Where the statement joins a fact to its dimensions and groups, this looks each dimension up with a query for one value
(which fails where there are several), keeps the fact's rows that have the row's values, and aggregates what is left.
Windows of time are computed in Python. Only the finding of names and of paths is shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from sqlglot import exp

from ktx_cli.connectors.port import Connector
from ktx_cli.context.semantic.compiling.build import Build, column, identifier
from ktx_cli.context.semantic.compiling.equality import null_safe
from ktx_cli.context.semantic.compiling.filters import row_conditions
from ktx_cli.context.semantic.compiling.ranked import needs_ranks
from ktx_cli.context.semantic.compiling.rows import Rows
from ktx_cli.context.semantic.compiling.times import dimension_value, in_range, is_range_of, is_time_of
from ktx_cli.context.semantic.expressions.aggregates import distinct_columns, with_condition
from ktx_cli.context.semantic.expressions.names import Expression, Name, filled, placeholder
from ktx_cli.context.semantic.graph import Edge, Path
from ktx_cli.context.semantic.model import Span
from ktx_cli.context.semantic.planning.plan import Leaf, TimeRange
from ktx_cli.context.semantic.stretches import stretch
from ktx_cli.context.semantic.time import DateOrTimestamp, later, literal
from ktx_cli.core.clock import monotonic

SAMPLE: Final = 25
"""How many rows of an answer are computed again, spread over all of it."""

SECONDS: Final = 30.0
"""How long computing again may take before it stops with what it has."""

_TOLERANCE: Final = 1e-9
_AGGREGATES: Final = "ktx_aggregates"
"""Alias of the query that holds the aggregates of one row."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One number that came out differently: the row's dimensions, the column, both values."""

    row: tuple[Any, ...]
    column: str
    answered: Any
    verified: Any


@dataclass(frozen=True, slots=True)
class Verified:
    """What was computed again: `rows` of the answer, `skipped` columns with the reason, what differed."""

    rows: int
    of: int
    skipped: dict[str, str]
    mismatches: tuple[Mismatch, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in the receipt."""
        return {
            "rows": self.rows,
            "of": self.of,
            "skipped": dict(self.skipped),
            "mismatches": [
                {"row": list(map(_plain, each.row)), "column": each.column}
                | {"answered": _plain(each.answered), "verified": _plain(each.verified)}
                for each in self.mismatches
            ],
        }


def verify(build: Build, rows: Sequence[Sequence[Any]], connector: Connector, *, sample: int = SAMPLE) -> Verified:
    """Compute up to `sample` rows of an answer again and compare; numbers may differ by 1e-9 of their size."""
    plan = build.plan
    skipped = {each.name: why for each in plan.outputs if (why := _skipped(build, each.formula)) is not None}
    outputs = [(index, each) for index, each in enumerate(plan.outputs) if each.name not in skipped]
    chosen = _spread(rows, sample) if outputs else []
    started, done, wrong = monotonic(), 0, []
    for row in chosen:
        if done and monotonic() - started > SECONDS:
            break
        keys = tuple(row[: len(plan.dimensions)])
        again = _again(build, keys, [each.formula for _, each in outputs], connector)
        for (index, each), value in zip(outputs, again, strict=True):
            answered = row[len(plan.dimensions) + index]
            if not _equal(answered, value):
                wrong.append(Mismatch(keys, each.name, answered, value))
        done += 1
    return Verified(done, len(rows), skipped, tuple(wrong))


def _skipped(build: Build, formula: exp.Expr) -> str | None:
    """Return why a formula is not computed again, None where it is."""
    for place in formula.find_all(exp.Placeholder):
        leaf = build.plan.leaves[int(place.name)]
        if needs_ranks(leaf.aggregate.tree, build.dialect):
            return "a percentile, which the database has no aggregate for"
        if leaf.nested is not None:
            return "an aggregate of a measure"
        if leaf.treatment.semi_additive is not None:
            return "not additive over time"
    return None


def _spread(rows: Sequence[Sequence[Any]], count: int) -> list[Sequence[Any]]:
    step = max(1, len(rows) // count)
    return list(rows[::step])[:count]


def _again(build: Build, keys: tuple[Any, ...], formulas: list[exp.Expr], connector: Connector) -> tuple[Any, ...]:
    """Return the values of formulas for one row of the answer; an aggregate that several name is computed once."""
    fresh = build.again()
    aggregates: dict[int, exp.Expr] = {}

    def value(number: int) -> exp.Expr:
        name = f"a{number}"
        if number not in aggregates:
            found = _aggregate(fresh, build.plan.leaves[number], keys)
            aggregates[number] = exp.Alias(this=found, alias=identifier(name))
        return column(name, _AGGREGATES)

    selected = [exp.Alias(this=filled(each, value), alias=identifier(f"v{n}")) for n, each in enumerate(formulas)]
    tree = exp.select(*selected, copy=False)
    if aggregates:
        inner = exp.select(*aggregates.values(), copy=False)
        tree = tree.from_(exp.Subquery(this=inner, alias=exp.TableAlias(this=identifier(_AGGREGATES))), copy=False)
    return connector.query(fresh.with_queries(tree).sql(build.dialect), max_rows=1).rows[0]


def _aggregate(build: Build, leaf: Leaf, keys: tuple[Any, ...]) -> exp.Expr:
    found = exp.Subquery(this=_leaf_query(build, leaf, keys))
    return exp.Coalesce(this=found, expressions=[exp.Literal.number(0)]) if leaf.kind == "count" else found


def _leaf_query(build: Build, leaf: Leaf, keys: tuple[Any, ...]) -> exp.Select:
    """Return the query of one aggregate over the rows that belong to one row of the answer."""
    plan = build.plan
    treatment = leaf.treatment
    rows = Lookups(build, leaf.fact, time=build.time_of(build.names.model.sources[leaf.fact], treatment.time))
    kept = range(len(plan.dimensions)) if treatment.keep is None else treatment.keep
    over = rows.time
    if treatment.cumulative is not None and treatment.cumulative.over is not None:
        over = Name((), treatment.cumulative.over)
    windowed = treatment.cumulative is not None or treatment.offset is not None
    details = [index for index in kept if rows.many_prefixes(plan.dimensions[index].expression)]
    conditions = [_of_details(rows, details, keys)] if details else row_conditions(rows, plan)
    in_window = False
    for index in kept:
        dimension = plan.dimensions[index]
        if index in details:
            continue
        if windowed and over is not None and is_time_of(rows, dimension, over) and dimension.grain is not None:
            conditions.append(_window(rows, over, leaf, keys[index], dimension.grain))
            in_window = True
        else:
            value = dimension_value(rows, dimension)
            wanted = _literal(keys[index], dimension.grain, build.dialect)
            conditions.append(null_safe(value, wanted, build.dialect))
    if plan.time_range is not None and not in_window:
        moved = _moved(plan.time_range, leaf)
        if moved is not None:
            conditions.append(in_range(rows, moved))
    bound = [exp.paren(rows.bind(each), copy=False) for each in leaf.conditions]
    condition = exp.and_(*bound, copy=False) if bound else None
    columns = distinct_columns(leaf.aggregate.tree)
    if columns:
        parts = [rows.bind(replace(leaf.aggregate, tree=each)) for each in columns]
        return _combinations(rows, parts, [*conditions, *bound])
    aggregate = with_condition(rows.bind(leaf.aggregate), condition, build.dialect)
    query = rows.select([aggregate])
    return query.where(*conditions, copy=False)


def _combinations(rows: Rows, parts: Sequence[exp.Expr], conditions: Sequence[exp.Expr]) -> exp.Select:
    """Return the query of how many combinations of values rows have, none of the values missing."""
    selected = [exp.Alias(this=part, alias=identifier(f"c{number}")) for number, part in enumerate(parts)]
    present = [exp.Not(this=exp.Is(this=part.copy(), expression=exp.null())) for part in parts]
    query = rows.select(selected).distinct(copy=False).where(*present, *conditions, copy=False)
    relation = exp.Subquery(this=query, alias=exp.TableAlias(this=identifier("combinations")))
    return exp.select(exp.Count(this=exp.Star(), big_int=True), copy=False).from_(relation, copy=False)


def _of_details(rows: Rows, dimensions: Sequence[int], keys: tuple[Any, ...]) -> exp.Expr:
    """Return the condition that one of the rows joined to a fact's row has the values, and meets the conditions."""
    build, plan = rows.build, rows.build.plan
    inner = Rows(build, rows.fact.name, alias=f"{rows.alias}__any", time=rows.time)
    conditions = []
    for index in dimensions:
        dimension = plan.dimensions[index]
        wanted = _literal(keys[index], dimension.grain, build.dialect)
        conditions.append(null_safe(dimension_value(inner, dimension), wanted, build.dialect))
    conditions += row_conditions(inner, plan)
    query = inner.select([exp.Literal.number(1)])
    for condition in (inner.same_row(rows), *conditions):
        query = query.where(condition, copy=False)
    return exp.Exists(this=query)


class Lookups(Rows):
    """The rows of a fact by themselves: what other sources say of a row is looked up, one value a query."""

    def select(self, expressions: Sequence[exp.Expr]) -> exp.Select:
        """Return a query of the fact alone."""
        relation = self.build.relation(self.fact, self.alias)
        return exp.select(*expressions, copy=False).from_(relation, copy=False)

    def _value(self, path: Path, name: str) -> exp.Expr:
        if not path.edges:
            return super()._value(path, name)
        return self._looked_up(path.edges, name, self.alias)

    def _looked_up(self, edges: tuple[Edge, ...], name: str, parent: str) -> exp.Expr:
        """Return the query for a column behind joins, whose first starts at `parent`."""
        edge, alias = edges[0], self._free(f"{edges[0].name}__look")
        source = self.names.model.sources[edge.target]
        onward = edges[1:]
        value = self._looked_up(onward, name, alias) if onward else self._column_of(edge.target, name, alias)
        query = exp.select(value, copy=False).from_(self.build.relation(source, alias), copy=False)
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

        return exp.paren(inner.bound(value), copy=False)


def _window(rows: Rows, over: Name, leaf: Leaf, period: Any, grain: str) -> exp.Expr:
    """Return the condition that a row is in the window of a period, its ends computed in Python."""
    if period is None:
        return exp.false()
    start = period if isinstance(period, date) else datetime.fromisoformat(str(period))
    asked = rows.build.plan.time_range
    on_it = asked is not None and is_range_of(rows, asked, over)
    ends = (asked.start, asked.end) if asked is not None and on_it else (None, None)
    found = stretch(start, grain, leaf.treatment, ends, rows.names.model.calendar)
    time = Expression(placeholder(0), (over,), None, str(over))
    return in_range(rows, TimeRange(time, found.start, found.end))


def _by_day(grain: str) -> bool:
    return grain not in ("second", "minute", "hour")


def _moved(asked: TimeRange, leaf: Leaf) -> TimeRange | None:
    treatment = leaf.treatment
    if treatment.cumulative is not None:
        asked = replace(asked, start=None)
    if treatment.offset is not None:
        return replace(asked, start=_back(asked.start, treatment.offset), end=_back(asked.end, treatment.offset))
    return asked if asked.start is not None or asked.end is not None else None


def _back(value: date | datetime | None, offset: Span) -> date | datetime | None:
    return None if value is None else later(value, -offset.count, offset.unit)


def _literal(value: Any, grain: str | None, dialect: str) -> exp.Expr:
    if grain is not None and value is not None:
        kind: DateOrTimestamp = "date" if _by_day(grain) else "timestamp"
        moment = value if isinstance(value, date) else datetime.fromisoformat(str(value))
        return literal(moment, kind, dialect)
    if isinstance(value, datetime):
        return literal(value, "timestamp", dialect)
    if isinstance(value, date):
        return literal(value, "date", dialect)
    return exp.convert(value)


def _equal(one: Any, two: Any) -> bool:
    if one is None or two is None:
        return one is two
    if isinstance(one, int | float | Decimal) and isinstance(two, int | float | Decimal):
        return abs(float(one) - float(two)) <= _TOLERANCE * max(1.0, abs(float(one)), abs(float(two)))
    return bool(one == two)


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)
