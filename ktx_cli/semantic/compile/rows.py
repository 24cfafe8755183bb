"""The rows of one fact with the joins that a part of the statement needs, and the conditions of the query, which
apply to the row itself or to joined rows."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from ktx_cli.core import Hint, listing
from ktx_cli.semantic.calendar import UTC_NAME, truncate, within
from ktx_cli.semantic.compile.build import Build, column, cte, identifier, join
from ktx_cli.semantic.expressions.fragments import percentile_of
from ktx_cli.semantic.expressions.names import METRIC_TIME, Expression, Name, placeholder
from ktx_cli.semantic.graph import Edge, Path
from ktx_cli.semantic.masks import mask_value
from ktx_cli.semantic.model import DAY, HOUR, MINUTE, SECOND, Column, SemanticError, SemiAdditive, Source, Visibility
from ktx_cli.semantic.plan.axis import TimeReader
from ktx_cli.semantic.plan.plan import Dimension, Plan, RowFilter, TimeRange
from ktx_cli.warehouses import SemanticType, StoredAs, TimeKind, dialect_named

_WITHOUT_OWN_VALUE: Final = (
    *(exp.Placeholder, exp.Literal, exp.Boolean, exp.Paren, exp.Cast, exp.DataType, exp.DataTypeParam),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE),
    *(exp.Extract, exp.Var, exp.Lower, exp.Upper),
)
"""Nodes that are null if one of their columns is null."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A join of the rows, with its alias and that of its starting side."""

    alias: str
    edge: Edge
    parent: str


class Rows:
    """A fact with LEFT JOINs to the columns that are read. It keeps every fact row exactly once unless `many` is true.

    `time` is the fact's column for `metric_time`.
    """

    def __init__(self, build: Build, fact: str, *, alias: str | None = None, time: Name | None = None) -> None:
        self.build = build
        self.names = build.names
        self.fact: Source = build.names.model.sources[fact]
        self.alias = alias or fact
        self.time = time
        self.joins: dict[tuple[Edge, ...], Joined] = {}
        self._aliases = {self.alias.casefold()}

    @property
    def many(self) -> bool:
        """Whether a fact row may occur several times."""
        return any(not joined.edge.to_one for joined in self.joins.values())

    def bind(self, expression: Expression) -> exp.Expr:
        """Return an expression over these rows, and add its joins. Raises `SemanticError` for unreachable names."""
        return self.bound(expression, lambda name: self.value(name, expression))

    def bound(self, expression: Expression, value: Callable[[Name], exp.Expr]) -> exp.Expr:
        """Return an expression over these rows with names replaced by `value`."""
        return self.build.bound(expression, value, lambda name: self.column_of(name, expression)[1])

    def value(self, name: Name, expression: Expression) -> exp.Expr:
        """Return the value for a name."""
        return self._value(self.path(name, expression), self._own_time(name).column)

    def at(self, path: Path, name: str) -> exp.Expr:
        """Return a column of the source at the end of a path from the fact."""
        return self._value(path, name)

    def path(self, name: Name, expression: Expression) -> Path:
        """Return the path from the fact to a name's source."""
        name = self._own_time(name)
        if expression.home not in (None, self.fact.name):
            raise AssertionError(f"{expression.text} belongs to {expression.home}, not to {self.fact.name}")
        path = self.names.graph.path(self.fact.name, name.hops, expression.via_to(name))
        if path is None or self.names.model.sources[path.end].column(name.column) is None:
            raise unreachable(self.fact.name, name, expression)  # a role led back to the source that declares it
        return path

    def column_of(self, name: Name, expression: Expression) -> tuple[Source, Column]:
        """Return the source and column for a name."""
        source = self.names.model.sources[self.path(name, expression).end]
        stored = source.column(self._own_time(name).column)
        if stored is None:
            raise AssertionError(f"{name} is not in {source.name}")
        return source, stored

    def many_prefixes(self, expression: Expression) -> set[tuple[Edge, ...]]:
        """Return the prefixes of the expression's paths up to the first to-many join."""
        prefixes = set()
        for name in expression.names:
            edges = self.path(name, expression).edges
            first = next((index for index, edge in enumerate(edges) if not edge.to_one), None)
            if first is not None:
                prefixes.add(edges[: first + 1])
        return prefixes

    def own(self, name: str) -> exp.Expr:
        """Return a column of the fact, without its joins."""
        return self._key(self.fact, name, self.alias, masked=True)

    def key(self, name: str) -> exp.Expr:
        """Return a column that identifies rows of the fact. Its value is real, so it must not be shown."""
        return self._key(self.fact, name, self.alias)

    def missed(self, joined: Joined) -> tuple[exp.Expr, exp.Expr]:
        """Return the conditions that the key of a join is null, and that no row matches it."""
        sources = self.names.model.sources
        near, far = sources[joined.edge.source], sources[joined.edge.target]
        own = [
            exp.Is(this=self._key(near, name, joined.parent), expression=exp.null()) for name, _ in joined.edge.pairs
        ]
        unmatched = exp.Is(this=self._key(far, joined.edge.pairs[0][1], joined.alias), expression=exp.null())
        return exp.or_(*own, copy=False), unmatched

    def reach(self, path: Path) -> None:
        """Add the joins of a path from the fact."""
        self._alias(path)

    def select(self, expressions: Sequence[exp.Expr]) -> exp.Select:
        """Return a query of these rows."""
        query = exp.select(*expressions, copy=False).from_(self.build.relation(self.fact, self.alias), copy=False)
        for joined in self.joins.values():
            relation = self.build.relation(self.names.model.sources[joined.edge.target], joined.alias)
            join(query, relation, self._on(joined), "LEFT")
        return query

    def same_row(self, other: Rows) -> exp.Expr:
        """Return the condition that a row here is the same fact row as in another set of rows."""
        self.require_key("a filter on its details")
        pairs = [(self.key(name), other.key(name)) for name in self.fact.grain]
        return exp.and_(*(self.build.syntax.null_safe(one, two) for one, two in pairs), copy=False)

    def require_key(self, what: str) -> None:
        """Raise `SemanticError` if the fact has no key to identify its rows. Otherwise record that the key is used.

        The probe verifies the uniqueness of the grain when the query runs.
        """
        self.build.use(self.fact.name).by_key = True
        if not self.fact.keyed:
            message = f"`{self.fact.name}` has no key, so {what} might count its rows more than once"
            hint = f"declare it as `grain: [...]` in an overlay of {self.fact.name}"
            raise SemanticError(message, hint=hint, code="grain")

    def _own_time(self, name: Name) -> Name:
        if not name.is_metric_time:
            return name
        if self.time is None:
            message = f"`{self.fact.name}` has no time column for `metric_time`"
            raise SemanticError(message, hint=self._other_times(), code="unreachable", details={"fact": self.fact.name})
        return self.time

    def _other_times(self) -> Hint:
        """Return a hint with alternatives to metric_time: the available times, those of joined sources last."""
        own, plan = self._public_times(self.fact), self.build.plan
        asked = plan.time_range is not None and _is_metric_time(plan.time_range.expression)
        grouped = any(_is_metric_time(dimension.expression) for dimension in plan.dimensions)
        place = "as `field` of the time range" if asked else ""
        place += " and " if asked and grouped else ""
        place += "as a dimension, instead of metric_time" if grouped else "" if asked else "instead of metric_time"
        default = f"; or set `default_time_dimension: COLUMN` in the definition of `{self.fact.name}`" if own else ""
        times = own or self._joined_times()
        hint = Hint(f"use a time column{f' ({listing(times)})' if times else ''} {place}")
        example = Hint(", for example `{}`", plan.query.time_range_with(field=times[0])) if asked and times else ""
        return hint + example + default

    def _joined_times(self) -> list[str]:
        """Return the times of the nearest sources over to-one joins."""
        near: dict[int, list[str]] = defaultdict(list)
        for name in sorted(self.names.graph.reached(self.fact.name) - {self.fact.name}):
            source = self.names.model.sources[name]
            times = self._public_times(source)
            if not times:
                continue
            with contextlib.suppress(SemanticError):  # ambiguous path without a short name
                path = self.names.graph.path(self.fact.name, (source.name,))
                near[0 if path is None else len(path.edges)] += times
        return near[min(near)] if near else []

    def _public_times(self, source: Source) -> list[str]:
        times = (time for time in source.columns.values() if time.type is SemanticType.TIME)
        public = (time.name for time in times if self.names.visibility(source, time) is Visibility.PUBLIC)
        return [f"{source.name}.{name}" for name in public]

    def _value(self, path: Path, name: str) -> exp.Expr:
        source = self.names.model.sources[path.end]
        stored = source.column(name)
        if stored is None or stored.expr is None:
            return column(name if stored is None else stored.name, self._alias(path))
        inner = self.names.computed(source, stored)

        def value(of: Name) -> exp.Expr:
            onward = self.names.graph.path(source.name, of.hops) if of.hops else Path(source.name)
            if onward is None:
                raise unreachable(source.name, of, inner)
            return self._value(path.then(onward.edges), of.column)

        bound: exp.Expr = exp.paren(self.build.bound(inner, value), copy=False)
        mask = self.names.masks(source).get(stored.name.casefold())
        if mask is not None:
            bound = mask_value(source, stored, mask, bound)
            return exp.Case(ifs=[exp.If(this=self._has_partner(path), true=bound)]) if path.edges else bound
        if not path.edges or not _can_be_known(inner.tree):
            return bound
        return exp.Case(ifs=[exp.If(this=self._has_partner(path), true=bound)])

    def _has_partner(self, path: Path) -> exp.Expr:
        """Return the condition that a row has a match at the end of a path."""
        alias, far = self._alias(path), self.names.model.sources[path.end]
        stored = [name for _, name in path.edges[-1].pairs if (known := far.column(name)) is None or known.expr is None]
        name = next(iter(stored), path.edges[-1].pairs[0][1])
        return exp.not_(exp.Is(this=self._key(far, name, alias), expression=exp.null()), copy=False)

    def _alias(self, path: Path) -> str:
        """Return the alias of the end of a path, and add the joins of the path."""
        alias = self.alias
        for length in range(1, len(path.edges) + 1):
            edges = path.edges[:length]
            if edges not in self.joins:
                self.joins[edges] = Joined(self._free(edges[-1].name), edges[-1], alias)
            alias = self.joins[edges].alias
        if path.edges:
            self.build.use(self.fact.name).paths.setdefault(str(path), path)
        return alias

    def _free(self, wanted: str) -> str:
        name, number = wanted, 1
        while name.casefold() in self._aliases:
            number += 1
            name = f"{wanted}_{number}"
        self._aliases.add(name.casefold())
        return name

    def _on(self, joined: Joined) -> exp.Expr:
        edge = joined.edge
        self.build.require_unmasked_conditions(edge)
        near, far = self.names.model.sources[edge.source], self.names.model.sources[edge.target]
        terms = [
            exp.EQ(this=self._key(near, own, joined.parent), expression=self._key(far, other, joined.alias))
            for own, other in edge.pairs
        ]
        for own_side, name, value in edge.conditions:
            place = self._key(near, name, joined.parent) if own_side else self._key(far, name, joined.alias)
            terms.append(exp.EQ(this=place, expression=exp.convert(value)))
        return exp.and_(*terms, copy=False)

    def _key(self, source: Source, name: str, alias: str, *, masked: bool = False) -> exp.Expr:
        """Return a column from a join. A computed column is an expression over its own source's columns.

        `masked`: show the masks of masked columns, instead of the values with which joins compare.
        """
        stored = source.column(name)
        if stored is None or stored.expr is None:
            own = name if stored is None else stored.name
            return column(own if masked or stored is None else self.build.key_name(source, own), alias)
        inner = self.names.computed(source, stored)
        value = exp.paren(
            self.build.bound(inner, lambda of: self._key(source, of.column, alias, masked=masked)), copy=False
        )
        mask = self.names.masks(source).get(stored.name.casefold()) if masked else None
        return value if mask is None else mask_value(source, stored, mask, value)


def _can_be_known(tree: exp.Expr) -> bool:
    """Return whether an expression, such as `COALESCE(tier, 'none')`, can be non-null if all its columns are null."""
    return not all(isinstance(node, _WITHOUT_OWN_VALUE) for node in tree.walk()) or not tree.find(exp.Placeholder)


def _is_metric_time(expression: Expression) -> bool:
    return any(name.is_metric_time for name in expression.names)


def unreachable(fact: str, name: Name, expression: Expression) -> SemanticError:
    """Return the error for a name that no join reaches."""
    message = f"`{expression.text}` cannot be reached from `{fact}`: no join leads to `{'.'.join(name.hops) or name}`"
    hint = f"add a join to {listing(name.hops[-1:])} in the definition of `{fact}`, or remove `{expression.text}`"
    return SemanticError(message, hint=hint, code="unreachable", details={"fact": fact, "name": str(name)})


class Stage:
    """The inner query of two, with dimensions `d0`, ..., aggregated columns `c0`, ..., and row conditions."""

    def __init__(self, rows: Rows, *, distinct: bool) -> None:
        self.rows = rows
        self._distinct = distinct
        self._selected: dict[str, exp.Expr] = {}
        self._columns: dict[str, str] = {}
        self._last: SemiAdditive | None = None

    def dimensions(self, values: dict[int, exp.Expr]) -> None:
        """Select the grouping values."""
        for number, value in values.items():
            self._selected[f"d{number}"] = value

    def bind(self, expression: Expression) -> exp.Expr:
        """Return an expression for the outer query, and select the columns it reads in the inner query."""
        return self.rows.bound(expression, lambda name: self._outer(self.rows.value(name, expression)))

    def select(self, name: str, value: exp.Expr) -> None:
        """Select another column."""
        self._selected[name] = value

    def only_last(
        self,
        semi: SemiAdditive,
        over: Name,
        values: dict[int, exp.Expr],
        partition: list[int],
        where: list[exp.Expr],
        among: list[exp.Expr],
    ) -> None:
        """Determine the last or first time of each period (see `last`) before applying the conditions `where`.

        `among` are conditions of the measure on the candidate times.
        """
        self._last = semi
        moment = self._value(over)
        parts = [values[number].copy() for number in partition] + [self._value(Name((), name)) for name in semi.per]
        pick = exp.Min if semi.take == "first" else exp.Max
        self._selected["t"] = moment
        looked_at = moment.copy()
        if among:
            looked_at = exp.Case(ifs=[exp.If(this=exp.and_(*among, copy=False), true=looked_at)])
        self._selected["t_last"] = exp.Window(this=pick(this=looked_at), partition_by=parts)
        if where:
            one, zero = exp.Literal.number(1), exp.Literal.number(0)
            self._selected["kept"] = exp.Case(ifs=[exp.If(this=exp.and_(*where, copy=False), true=one)], default=zero)

    def inner(self) -> exp.Select:
        """Return the inner query."""
        selected = dict(self._selected)
        if self._distinct:
            for number, name in enumerate(self.rows.fact.grain):
                selected[f"g{number}"] = self.rows.key(name)
        aliased = [exp.Alias(this=value, alias=identifier(name)) for name, value in selected.items()]
        query = self.rows.select(aliased or [exp.Literal.number(1)])
        return query.distinct(copy=False) if self._distinct else query

    def outer_conditions(self, relation: str) -> list[exp.Expr]:
        """Return the conditions of the outer query."""
        if "kept" not in self._selected:
            return []
        return [exp.EQ(this=column("kept", relation), expression=exp.Literal.number(1))]

    def last(self) -> exp.Expr | None:
        """Return the condition that a row is at the last time. Groups without such rows stay with null values."""
        return None if self._last is None else exp.EQ(this=column("t"), expression=column("t_last"))

    def _outer(self, value: exp.Expr) -> exp.Expr:
        key = value.sql()
        if key not in self._columns:
            self._columns[key] = f"c{len(self._columns)}"
            self._selected[self._columns[key]] = value
        return column(self._columns[key])

    def _value(self, name: Name) -> exp.Expr:
        return self.rows.bind(Expression(placeholder(0), (name,), None, str(name)))


def needs_ranks(aggregate: exp.Expr, dialect: str) -> bool:
    """Return whether an aggregate is a percentile without an aggregate function in the dialect."""
    return not dialect_named(dialect).has_percentiles and percentile_of(aggregate) is not None


def rank_query(relation: str, value: exp.Expr, keys: Sequence[str], where: Sequence[exp.Expr]) -> exp.Select:
    """Return the rows of a relation with the value `x`, its rank `r` from 1, and the row count `n`."""
    selected = [exp.Alias(this=column(key, relation), alias=identifier(key)) for key in keys]
    parts = [column(key, relation) for key in keys]
    missing = exp.Case(
        ifs=[exp.If(this=exp.Is(this=value.copy(), expression=exp.null()), true=exp.Literal.number(1))],
        default=exp.Literal.number(0),
    )
    order = exp.Order(expressions=[_ascending(missing), _ascending(value.copy())])
    rank = exp.Window(this=exp.RowNumber(), partition_by=[part.copy() for part in parts], order=order)
    count = exp.Window(this=exp.Count(this=value.copy(), big_int=True), partition_by=[part.copy() for part in parts])
    columns = {"x": value, "r": rank, "n": count}
    selected += [exp.Alias(this=part, alias=identifier(name)) for name, part in columns.items()]
    return exp.select(*selected, copy=False).from_(cte(relation), copy=False).where(*where, copy=False)


def weighed(fraction: exp.Expr, relation: str, dialect: str) -> exp.Expr:
    """Return a percentile as a sum over ranked rows."""
    last = exp.Sub(this=column("n", relation), expression=exp.Literal.number(1))
    position = exp.Mul(this=exp.paren(fraction.copy()), expression=exp.paren(last))
    below = dialect_named(dialect).floor(position)
    share = exp.paren(exp.Sub(this=position.copy(), expression=below.copy()))
    rest = exp.paren(exp.Sub(this=exp.Literal.number("1.0"), expression=share.copy()))
    value = column("x", relation)

    def at(step: int) -> exp.Expr:
        place = exp.Add(this=below.copy(), expression=exp.Literal.number(step))
        return exp.EQ(this=column("r", relation), expression=place)

    cases = [
        exp.If(this=at(1), true=exp.Mul(this=value, expression=rest)),
        exp.If(this=at(2), true=exp.Mul(this=value.copy(), expression=share)),
    ]
    return exp.Sum(this=exp.Case(ifs=cases))


def _ascending(value: exp.Expr) -> exp.Ordered:
    return exp.Ordered(this=value, desc=False, nulls_first=None)


def row_conditions(rows: Rows, plan: Plan, filters: Sequence[RowFilter] | None = None) -> list[exp.Expr]:
    """Return the conditions on fact rows. Raises `SemanticError` if a condition cannot be applied to the fact.

    A condition on to-many rows is met if one of these rows meets it, or if there are none and nulls meet it. Conditions
    over the same joins must be met by the same row. Rows that are already joined for a dimension are filtered directly.
    `filters` selects conditions of the plan, by default all.
    """
    result: list[exp.Expr] = []
    apart: list[tuple[set[tuple[Edge, ...]], list[Expression]]] = []
    uses = rows.build.use(rows.fact.name).filters
    for condition in plan.filters if filters is None else filters:
        if condition.facts is not None and rows.fact.name not in condition.facts:
            continue
        prefixes = {prefix for prefix in _prefixes(rows, condition) if prefix not in rows.joins}
        if not prefixes:
            result.append(exp.paren(rows.bind(condition.expression), copy=False))
            uses[condition.expression.text] = "where"
            continue
        uses[condition.expression.text] = "semi_join"
        _note_fan_out(rows, condition.expression)
        group = (prefixes, [condition.expression])
        for other in [other for other in apart if other[0] & prefixes]:
            group = (group[0] | other[0], [*other[1], *group[1]])
            apart.remove(other)
        apart.append(group)
    return result + [_exists(rows, conditions) for _, conditions in apart]


def _note_fan_out(rows: Rows, condition: Expression) -> None:
    """Add a note to the receipt if a condition is about rows that only share a parent with the fact row."""
    for name in condition.names:
        path = rows.path(name, condition)
        edge = rows.names.graph.fan_out(path)
        if edge is not None and not condition.via_to(name) and len(name.hops) == 1:
            rows.build.note(
                f"`{condition.text}` filters related rows that share a row of {edge.source}: it keeps each row of "
                f"{rows.fact.name} for which at least one of them matches ({path})"
            )


def _prefixes(rows: Rows, condition: RowFilter) -> set[tuple[Edge, ...]]:
    try:
        return rows.many_prefixes(condition.expression)
    except SemanticError as error:
        if error.code != "unreachable":
            raise
        text = condition.expression.text
        message = f"the filter `{text}` cannot reach `{rows.fact.name}`: {error.message}"
        hint = f'limit the filter to facts that it reaches: {{"expr": "{text}", "facts": [...]}}, or remove it'
        details = {"fact": rows.fact.name, "filter": text}
        raise SemanticError(message, hint=hint, code="unreachable_filter", details=details) from None


def _exists(rows: Rows, conditions: list[Expression]) -> exp.Expr:
    """Return the condition that a joined row of a fact row meets all conditions."""
    rows.require_key("a filter on its details")
    inner = Rows(rows.build, rows.fact.name, alias=f"{rows.alias}__any", time=rows.time)
    bound = [exp.paren(inner.bind(condition), copy=False) for condition in conditions]
    if not rows.build.syntax.correlates_queries:
        return _in(rows, inner, bound)
    query = inner.select([exp.Literal.number(1)])
    for condition in (inner.same_row(rows), *bound):
        query = query.where(condition, copy=False)
    return exp.Exists(this=query)


def _in(rows: Rows, inner: Rows, bound: Sequence[exp.Expr]) -> exp.Expr:
    """Return the condition on joined rows for a dialect without correlated subqueries."""
    query = inner.select([inner.key(name) for name in inner.fact.grain])
    query = query.where(*bound, copy=False)
    key = [rows.key(name) for name in rows.fact.grain]
    left = key[0] if len(key) == 1 else exp.Tuple(expressions=key)
    return exp.In(this=left, query=exp.Subquery(this=query))


_BELOW_DAY = (SECOND, MINUTE, HOUR)


def kind_of(column: Column | None) -> TimeKind:
    """Return the kind of values in a time column."""
    return "date" if column is not None and column.is_date else "timestamp"


def dimension_value(rows: Rows, dimension: Dimension) -> exp.Expr:
    """Return the grouping value of a dimension."""
    return cut_value(rows, dimension, rows.bind(dimension.expression), _column(rows, dimension.expression))


def cut_value(rows: Rows, dimension: Dimension, value: exp.Expr, column: Column | None) -> exp.Expr:
    """Return the value of a dimension truncated to its grain. `column` is its source column."""
    if dimension.grain is None:
        if column is not None and column.stored_as is not None and rows.build.syntax.times_are_texts:
            return _one_form(rows, value, column)
        return value
    return truncate(value, dimension.grain, kind_of(column), rows.build.clock(column))


def _one_form(rows: Rows, value: exp.Expr, column: Column) -> exp.Expr:
    """Return a time as text in one form, because equal times may be stored as different texts."""
    if column.type is not SemanticType.TIME or column.stored_as is StoredAs.ISO_DATE:
        return value
    return rows.build.syntax.comparable_time(value, "timestamp", column.zone or UTC_NAME)


def cut(rows: Rows, time: Name | Expression, grain: str) -> exp.Expr:
    """Return a column truncated to a grain."""
    expression = time if isinstance(time, Expression) else Expression(placeholder(0), (time,), None, str(time))
    column = _column(rows, expression)
    return truncate(rows.bind(expression), grain, kind_of(column), rows.build.clock(column))


def in_range(rows: Rows, asked: TimeRange) -> exp.Expr:
    """Return the condition that a row is in a time range."""
    if rows.many_prefixes(asked.expression):
        own = rows.build.plan.query.time_range_with(field=METRIC_TIME)
        raise SemanticError(
            f"the time range on `{asked.expression.text}` cannot be applied to `{rows.fact.name}`, "
            "whose rows have several of these times",
            hint=Hint("to filter each fact by its own time, use `{}`", own),
            code="unreachable_filter",
            details={"fact": rows.fact.name},
        )
    column = _column(rows, asked.expression)
    condition = within(rows.bind(asked.expression), asked.start, asked.end, kind_of(column), rows.build.clock(column))
    if condition is None:
        raise AssertionError("a time range without ends")
    return condition


def counted_by(grain: str) -> str:
    """Return the grain for comparing rows with periods: day, or the grain itself if it is finer."""
    return grain if grain in _BELOW_DAY else DAY


def _column(rows: Rows, expression: Expression) -> Column | None:
    """Return the column of an expression, or the first column it reads."""
    if not expression.names:
        return None
    return rows.column_of(expression.names[0], expression)[1]


def split_by_time(filters: Sequence[RowFilter], times: TimeReader) -> tuple[list[RowFilter], list[RowFilter]]:
    """Split conditions into those on this time only and all others."""
    on_time = [condition for condition in filters if times.read(condition.expression) is not None]
    return on_time, [condition for condition in filters if condition not in on_time]


def note_of_rest(fact: str, take: str, over: Name, rest: Sequence[RowFilter]) -> str:
    """Return the note about conditions that apply after the time was determined."""
    texts = ", ".join(f"`{condition.expression.text}`" for condition in rest)
    return (
        f"the {take} {over} is determined from all rows of {fact} before {texts} is applied; "
        f"conditions on {over} alone and the time_range are applied first"
    )
