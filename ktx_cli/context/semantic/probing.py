"""What joins did to the rows of a fact: how many found nothing, and whether one doubled any."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from ktx_cli.connectors.port import Connector
from ktx_cli.context.semantic.compiling.build import Build, called, column, identifier
from ktx_cli.context.semantic.compiling.rows import Joined, Rows
from ktx_cli.context.semantic.compiling.statement import Compiled
from ktx_cli.context.semantic.compiling.times import in_range
from ktx_cli.context.semantic.errors import SemanticError
from ktx_cli.context.semantic.graph import Edge
from ktx_cli.context.semantic.model import Source
from ktx_cli.context.semantic.time import capacity
from ktx_cli.core.text import plural


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Rows of a fact that a join found nothing for: the key was missing, or led nowhere."""

    join: str
    null_keys: int
    dangling: int


@dataclass(frozen=True, slots=True)
class Probe:
    """How many rows of a fact the answer is made of (before conditions on other sources), and what its joins missed."""

    fact: str
    rows: int
    unmatched: tuple[Unmatched, ...]


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """The statement that looks at the joins of a fact, and what its counts are of. May be run any number of times."""

    fact: str
    sql: str
    build: Build
    rows: Rows
    by_key: bool

    def run(self, connector: Connector) -> Probe:
        """Count the rows of the fact and those its joins found nothing for.

        Raises `SemanticError` (code `cardinality`) where a join to one row found several for some, so that the
        statement would count rows twice, or where several rows have the grain by which it tells them apart: it would
        lose some.
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
        return Probe(self.fact, alone, tuple(each for each in unmatched if each.null_keys or each.dangling))


def plan_probe(build: Build, fact: str) -> ProbePlan:
    """Return what counts the rows of a fact and those its joins find nothing for, in one statement."""
    rows = _joined_rows(build, fact)
    joins = list(rows.joins.values())
    where = _own_conditions(rows)
    counts: list[exp.Expr] = [called(exp.Count(this=exp.Star(), big_int=True), "joined")]
    counts.append(called(exp.Subquery(this=_count(build, fact, where)), "alone"))
    by_key = build.use(fact).by_key
    counts.append(called(exp.Subquery(this=_count_repeated(build, fact)) if by_key else exp.null(), "repeated"))
    for number, joined in enumerate(joins):
        missing, found = _ends(joined)
        counts.append(called(_count_if(missing), f"null_{number}"))
        counts.append(called(_count_if(exp.and_(exp.not_(exp.paren(missing.copy())), found)), f"dangling_{number}"))
    query = rows.select(counts)
    for condition in where:
        query = query.where(condition.copy(), copy=False)
    return ProbePlan(fact, build.with_queries(query).sql(build.dialect), build, rows, by_key)


def require_periods(compiled: Compiled, connector: Connector) -> None:
    """Raise `SemanticError` (code `grain`) where a question asks for more periods than a statement can have."""
    build = compiled.build
    for grain, condition in build.limits:
        too_many = exp.Case(ifs=[exp.If(this=condition.copy(), true=exp.Literal.number(1))])
        query = exp.select(called(too_many, "too_many"), copy=False)
        query.set("with_", compiled.tree.args["with_"].copy())
        if connector.query(query.sql(build.dialect), max_rows=1).rows[0][0] is not None:
            raise SemanticError(
                f"fill would show more than {capacity(grain):,} periods of a {grain}",
                hint='ask for a coarser granularity, or a shorter "time_range"',
                code="grain",
            )


def _joined_rows(build: Build, fact: str) -> Rows:
    """Return the fact with every join to one row that the statement takes from it."""
    rows = Rows(build, fact, time=build.time_of(build.names.model.sources[fact], None))
    for path in list(build.use(fact).paths.values()):
        if path.to_one:
            rows.reach(path)
    return rows


def _own_conditions(rows: Rows) -> list[exp.Expr]:
    """Return the question's conditions that read the fact's own columns alone."""
    build, plan = rows.build, rows.build.plan
    found = []
    if plan.time_range is not None and not _treated(build, rows.fact.name):
        alone = Rows(build, rows.fact.name, time=rows.time)
        try:
            condition = in_range(alone, plan.time_range)
        except SemanticError:  # the fact has no such time: the statement itself said so, or does not need it
            condition = None
        if condition is not None and not alone.joins:
            found.append(condition)
    for each in plan.filters:
        if each.facts is not None and rows.fact.name not in each.facts:
            continue
        alone = Rows(build, rows.fact.name, time=rows.time)
        bound = alone.bind(each.expression)
        if not alone.joins:
            found.append(exp.paren(bound, copy=False))
    return found


def _treated(build: Build, fact: str) -> bool:
    """Say whether rows outside the time range count too."""
    return any(leaf.fact == fact and (leaf.treatment.cumulative or leaf.treatment.offset) for leaf in build.plan.leaves)


def _count(build: Build, fact: str, where: list[exp.Expr]) -> exp.Select:
    query = Rows(build, fact).select([exp.Count(this=exp.Star(), big_int=True)])
    for condition in where:
        query = query.where(condition.copy(), copy=False)
    return query


def _count_repeated(build: Build, fact: str) -> exp.Select:
    """Return the query of how many values of the fact's grain several of its rows have."""
    rows = Rows(build, fact)
    keys = [rows.own(name) for name in rows.fact.grain]
    several = exp.GT(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Literal.number(1))
    query = rows.select([called(exp.Literal.number(1), "one")]).group_by(*keys, copy=False).having(several, copy=False)
    inner = exp.Subquery(this=query, alias=exp.TableAlias(this=identifier("repeated")))
    return exp.select(exp.Count(this=exp.Star(), big_int=True)).from_(inner, copy=False)


def _not_unique(fact: Source, repeated: int) -> SemanticError:
    """Return the error for a grain that several rows have."""
    return SemanticError(
        f"the grain of `{fact.name}` ({', '.join(fact.grain)}) is declared unique but is not: "
        f"{plural(repeated, 'value')} of it in several rows each",
        hint=f"declare the columns that make a row unique: grain: [...] in the file of {fact.name}",
        code="cardinality",
        details={"fact": fact.name, "grain": list(fact.grain), "repeated": repeated},
    )


def _ends(joined: Joined) -> tuple[exp.Expr, exp.Expr]:
    """Return the conditions that a key is missing, and that it led nowhere."""
    own = [exp.Is(this=column(name, joined.parent), expression=exp.null()) for name, _ in joined.edge.pairs]
    far = exp.Is(this=column(joined.edge.pairs[0][1], joined.alias), expression=exp.null())
    return exp.or_(*own), far


def _count_if(condition: exp.Expr) -> exp.Expr:
    return exp.Count(this=exp.Case(ifs=[exp.If(this=condition, true=exp.Literal.number(1))]), big_int=True)


def _doubled(
    build: Build, rows: Rows, joins: list[Joined], connector: Connector, joined_rows: int, alone: int
) -> SemanticError:
    """Return the error that names the first join that has several rows for one."""
    fact = rows.fact.name
    worst = next((joined for joined in joins if _has_twice(build, joined.edge, connector)), joins[-1])
    to = build.names.model.sources[worst.edge.target]
    return SemanticError(
        f"the join from `{worst.edge.source}` to {worst.edge} is declared to one row but finds several: "
        f"{plural(alone, 'row')} of `{fact}` became {joined_rows:,}",
        hint=f"declare it one_to_many, or make {', '.join(other for _, other in worst.edge.pairs)} of {to.name} unique",
        code="cardinality",
        details={"fact": fact, "join": str(worst.edge), "rows": alone, "joined": joined_rows},
    )


def _has_twice(build: Build, edge: Edge, connector: Connector) -> bool:
    rows = Rows(build, edge.target)
    keys = [rows.own(other) for _, other in edge.pairs]
    query = rows.select([exp.Literal.number(1)])
    for condition in (exp.Not(this=exp.Is(this=key.copy(), expression=exp.null())) for key in keys):
        query = query.where(condition, copy=False)
    several = exp.GT(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Literal.number(1))
    query = query.group_by(*keys, copy=False).having(several, copy=False).limit(1, copy=False)
    tree = build.with_queries(query)
    return bool(connector.query(tree.sql(build.dialect), max_rows=1).rows)
