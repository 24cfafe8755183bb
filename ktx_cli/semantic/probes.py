"""Probe a fact's joins: count unmatched rows, and detect joins that count rows twice.

This module also counts values that a conversion would turn into NULL without an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from ktx_cli.core import plural
from ktx_cli.semantic.calendar import capacity
from ktx_cli.semantic.compile.build import Build, as_column, column, count_of, is_present, subquery
from ktx_cli.semantic.compile.rows import Joined, Rows, in_range, row_conditions
from ktx_cli.semantic.compile.statement import Compiled
from ktx_cli.semantic.expressions.names import Expression
from ktx_cli.semantic.graph import Edge
from ktx_cli.semantic.model import Column, SemanticError, Source
from ktx_cli.semantic.plan.axis import as_of_hint
from ktx_cli.semantic.plan.plan import Leaf
from ktx_cli.warehouses import Connector, SemanticType


@dataclass(frozen=True, slots=True)
class Unmatched:
    """The numbers of fact rows that a join does not match, because the key is null or does not exist."""

    join: str
    null_keys: int
    dangling: int


@dataclass(frozen=True, slots=True)
class Probe:
    """The number of a fact's rows in the answer, and the rows that its joins do not match.

    `rows` are counted after row policies, filters, the time range and conditions of all measures. `counted` has the
    counts for aggregates with their own conditions, by number.
    """

    fact: str
    rows: int
    unmatched: tuple[Unmatched, ...]
    counted: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """The statement that probes a fact's joins, with the meaning of its counts. It can run any number of times."""

    fact: str
    sql: str
    build: Build
    rows: Rows
    by_key: bool
    counted: tuple[int, ...] = ()

    def run(self, connector: Connector) -> Probe:
        """Count the fact's rows, and the rows that its joins do not match.

        Raises `SemanticError` (code `cardinality`) if a to-one join matches several rows, so that the statement would
        count rows twice, or if the grain that identifies rows is not unique, so that it would lose rows.
        """
        joins = list(self.rows.joins.values())
        values = connector.query(self.sql, max_rows=1).rows[0]
        joined_rows, alone = int(values[0]), int(values[1])
        unmatched = [
            Unmatched(str(joined.edge), int(values[3 + 2 * number] or 0), int(values[4 + 2 * number] or 0))
            for number, joined in enumerate(joins)
        ]
        if joined_rows != alone:
            raise _doubled(self.build, self.rows, joins, connector, joined_rows, alone)
        if self.by_key and int(values[2]):
            raise _not_unique(self.rows.fact, int(values[2]))
        kept, *counted = values[3 + 2 * len(joins) :]
        return Probe(
            self.fact,
            int(kept or 0),
            tuple(each for each in unmatched if each.null_keys or each.dangling),
            {number: int(count or 0) for number, count in zip(self.counted, counted, strict=True)},
        )


def plan_probe(build: Build, fact: str) -> ProbePlan:
    """Plan a single statement that counts a fact's rows and the rows that its joins do not match."""
    rows = _joined_rows(build, fact)
    kept = _RowCounts(rows)
    where = kept.where
    of_leaves = kept.of_leaves()
    joins = list(rows.joins.values())
    counts: list[exp.Expr] = [as_column(count_of(), "joined")]
    counts.append(as_column(exp.Subquery(this=_count(build, fact, where)), "alone"))
    by_key = build.use(fact).by_key
    counts.append(as_column(exp.Subquery(this=_count_repeated(build, fact)) if by_key else exp.null(), "repeated"))
    for number, joined in enumerate(joins):
        missing, found = rows.missed(joined)
        counts.append(as_column(count_of(missing), f"null_{number}"))
        counts.append(as_column(count_of(exp.and_(exp.not_(exp.paren(missing.copy())), found)), f"dangling_{number}"))
    counts.append(as_column(kept.of_all(), "kept"))
    counts += [as_column(count, f"counted_{number}") for number, count in of_leaves.items()]
    query = rows.select(counts)
    for condition in where:
        query = query.where(condition.copy(), copy=False)
    return ProbePlan(fact, build.with_queries(query).sql(build.dialect), build, rows, by_key, tuple(of_leaves))


@dataclass(frozen=True, slots=True)
class ConversionProbe:
    """The statement that counts the values of converted columns in another form. It can run any number of times."""

    sql: str
    columns: tuple[tuple[str, Column], ...]
    """The source of each column, and the column."""

    def run(self, connector: Connector) -> None:
        """Raise `SemanticError` (code `conversion`) if a column has such values, which would be left out."""
        counts = connector.query(self.sql, max_rows=1).rows[0]
        for (source, stored), count in zip(self.columns, counts, strict=True):
            if count and stored.stored_as is not None:
                raise SemanticError(
                    f"{plural(int(count), 'value')} of `{source}.{stored.name}` cannot be read as {stored.type}: its "
                    f"`stored_as: {stored.stored_as}` stands for {stored.stored_as.noun}",
                    hint=f"correct the values in the database, or set `stored_as: none` for {stored.name} in an "
                    f"overlay of {source}",
                    code="conversion",
                    details={"source": source, "column": stored.name, "values": int(count)},
                )


def plan_conversions(build: Build) -> ConversionProbe | None:
    """Plan a single statement for the converted columns of a query. None if there are none, or if casts are strict."""
    if build.syntax.casts_strictly:
        return None
    counts: list[exp.Expr] = []
    columns: list[tuple[str, Column]] = []
    for (source, name), stored in sorted(build.conversions.items()):
        if stored.stored_as is None or stored.stored_as.native is not SemanticType.STRING:
            continue
        misfit = build.syntax.misfit(column(name, source), stored.stored_as)
        assert misfit is not None  # A dialect without strict casts finds them.
        query = exp.select(count_of(misfit), copy=False)
        query = query.from_(build.relation(build.names.model.sources[source], source), copy=False)
        counts.append(as_column(exp.Subquery(this=query), f"misfits_{len(counts)}"))
        columns.append((source, stored))
    if not columns:
        return None
    return ConversionProbe(build.with_queries(exp.select(*counts, copy=False)).sql(build.dialect), tuple(columns))


class _RowCounts:
    """Counts the rows that meet a query's conditions, and those that also meet an aggregate's conditions.

    `where` are conditions on the fact's own columns, which apply to the whole statement.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._conditions: list[exp.Expr] = []
        self.where: list[exp.Expr] = []
        self._add_range()
        self._add_filters()

    def _add_range(self) -> None:
        """Add the time range, or only its end for cumulative values over it. Earlier values have another range."""
        rows, asked = self._rows, self._rows.build.plan.time_range
        axes = rows.build.plan.axes
        besides = {key for key, axis in axes.items() if axis.beside is not None}
        over_time = [is_over_time(leaf) and (leaf.fact, leaf.treatment) not in besides for leaf in _leaves(rows)]
        if asked is not None and over_time and all(over_time):
            asked = replace(asked, start=None)
            if asked.end is None or any(leaf.treatment.offset for leaf in _leaves(rows)):
                return
        if asked is None:
            return
        alone = Rows(rows.build, rows.fact.name, time=rows.time)
        try:
            condition = in_range(alone, asked)
            if alone.joins or any(over_time):
                self._conditions.append(in_range(rows, asked))
            else:
                self.where.append(condition)
        except SemanticError:  # the fact has no such time; the statement reports it or does not need it
            return

    def _add_filters(self) -> None:
        """Add the filters of the query."""
        rows, others = self._rows, []
        for condition in rows.build.plan.filters:
            if condition.facts is not None and rows.fact.name not in condition.facts:
                continue
            alone = Rows(rows.build, rows.fact.name, time=rows.time)
            bound = alone.bind(condition.expression)
            if alone.joins:
                others.append(condition)
            else:
                self.where.append(exp.paren(bound, copy=False))
        if others:
            use = rows.build.use(rows.fact.name)
            how = dict(use.filters)
            self._conditions += row_conditions(rows, rows.build.plan, others)
            use.filters = how  # as in the statement of the answer

    def count(self, *own: exp.Expr) -> exp.Expr:
        """Return the number of rows that meet the conditions."""
        conditions = [*(condition.copy() for condition in self._conditions), *own]
        if not conditions:
            return count_of()
        if not any(condition.find(exp.Query) for condition in conditions):
            return count_of(exp.and_(*conditions, copy=False))
        query = self._rows.select([count_of()])
        return exp.Subquery(this=query.where(*(each.copy() for each in self.where), *conditions, copy=False))

    def of_all(self) -> exp.Expr:
        """Return the number of rows that any aggregate uses."""
        leaves = [leaf for leaf in _leaves(self._rows) if leaf.nested is None]
        conditions = [own_conditions(leaf) for leaf in leaves]
        if not all(conditions) or not leaves:
            return self.count()
        own = {tuple(each.key for each in found): found for found in conditions}
        alternatives = [exp.and_(*self._bound(found), copy=False) for found in own.values()]
        return self.count(exp.paren(exp.or_(*alternatives, copy=False), copy=False))

    def _bound(self, conditions: Sequence[Expression]) -> list[exp.Expr]:
        return [exp.paren(self._rows.bind(condition), copy=False) for condition in conditions]

    def of_leaves(self) -> dict[int, exp.Expr]:
        """Return the counts for aggregates with their own conditions, by number."""
        rows = self._rows
        result = {}
        for number, leaf in enumerate(rows.build.plan.leaves):
            own = own_conditions(leaf)
            if leaf.fact == rows.fact.name and own and leaf.nested is None and not is_over_time(leaf):
                result[number] = self.count(*self._bound(own))
        return result


def is_over_time(leaf: Leaf) -> bool:
    """Return whether an aggregate counts rows outside its period, as windows and earlier values do."""
    return leaf.treatment.cumulative is not None or leaf.treatment.offset is not None


def own_conditions(leaf: Leaf) -> list[Expression]:
    """Return an aggregate's own conditions: those of its measures and its FILTER."""
    tree = leaf.aggregate.tree
    if not isinstance(tree, exp.Filter):
        return list(leaf.conditions)
    return [*leaf.conditions, replace(leaf.aggregate, tree=tree.expression.this)]


def require_periods(compiled: Compiled, connector: Connector) -> None:
    """Raise `SemanticError` (code `grain`) if a query needs more periods than a statement supports."""
    build = compiled.build
    for grain, condition in build.limits:
        too_many = exp.Case(ifs=[exp.If(this=condition.copy(), true=exp.Literal.number(1))])
        query = exp.select(as_column(too_many, "too_many"), copy=False)
        query.set("with_", compiled.tree.args["with_"].copy())
        if connector.query(query.sql(build.dialect), max_rows=1).rows[0][0] is not None:
            message = f"`fill` would return more than {capacity(grain):,} periods of one {grain}"
            raise SemanticError(message, hint='use a coarser granularity, or a shorter "time_range"', code="grain")


def _joined_rows(build: Build, fact: str) -> Rows:
    """Return the fact with all to-one joins in the statement."""
    rows = Rows(build, fact, time=build.time_of(build.names.model.sources[fact], None))
    for path in list(build.use(fact).paths.values()):
        if path.to_one:
            rows.reach(path)
    return rows


def _leaves(rows: Rows) -> list[Leaf]:
    return [leaf for leaf in rows.build.plan.leaves if leaf.fact == rows.fact.name]


def _count(build: Build, fact: str, where: list[exp.Expr]) -> exp.Select:
    query = Rows(build, fact).select([count_of()])
    for condition in where:
        query = query.where(condition.copy(), copy=False)
    return query


def _count_repeated(build: Build, fact: str) -> exp.Select:
    """Return the query that counts duplicate values in the fact's grain."""
    rows = Rows(build, fact)
    keys = [rows.key(name) for name in rows.fact.grain]
    several = exp.GT(this=count_of(), expression=exp.Literal.number(1))
    ones = rows.select([as_column(exp.Literal.number(1), "one")])
    query = ones.group_by(*keys, copy=False).having(several, copy=False)
    inner = subquery(query, "repeated")
    return exp.select(count_of()).from_(inner, copy=False)


def _not_unique(fact: Source, repeated: int) -> SemanticError:
    """Return the error for a grain that is not unique."""
    return SemanticError(
        f"the grain of `{fact.name}` ({', '.join(fact.grain)}) is declared as unique but is not: "
        f"{plural(repeated, 'value')} occur in more than one row",
        hint=f"list the columns that make a row unique as `grain: [...]` in the definition of `{fact.name}`",
        code="cardinality",
        details={"fact": fact.name, "grain": list(fact.grain), "repeated": repeated},
    )


def _doubled(
    build: Build, rows: Rows, joins: list[Joined], connector: Connector, joined_rows: int, alone: int
) -> SemanticError:
    """Return the error for the first to-one join that matches several rows."""
    fact = rows.fact.name
    worst = next((joined for joined in joins if _has_twice(build, joined.edge, connector)), joins[-1])
    to = build.names.model.sources[worst.edge.target]
    as_of = as_of_hint(build.names.model.sources[worst.edge.source], to)
    return SemanticError(
        f"the join from `{worst.edge.source}` to {worst.edge} is declared as joining to one row but matches several: "
        f"{plural(alone, 'row')} of `{fact}` became {joined_rows:,}",
        hint=f"declare it one_to_many, or make {', '.join(other for _, other in worst.edge.pairs)} of {to.name} unique"
        + ("" if as_of is None else f"; {as_of}"),
        code="cardinality",
        details={"fact": fact, "join": str(worst.edge), "rows": alone, "joined": joined_rows},
    )


def _has_twice(build: Build, edge: Edge, connector: Connector) -> bool:
    rows = Rows(build, edge.target)
    keys = [rows.key(other) for _, other in edge.pairs]
    query = rows.select([exp.Literal.number(1)])
    for condition in (is_present(key.copy()) for key in keys):
        query = query.where(condition, copy=False)
    several = exp.GT(this=count_of(), expression=exp.Literal.number(1))
    query = query.group_by(*keys, copy=False).having(several, copy=False).limit(1, copy=False)
    return bool(connector.query(build.with_queries(query).sql(build.dialect), max_rows=1).rows)
