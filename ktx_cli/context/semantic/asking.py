"""Asks a question: compiles it, runs it read-only, tells what the numbers are made of."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from ktx_cli.connectors.port import Connector
from ktx_cli.context.semantic.compiling.build import Build
from ktx_cli.context.semantic.compiling.statement import Compiled, compile_plan
from ktx_cli.context.semantic.errors import SemanticError
from ktx_cli.context.semantic.graph import Graph
from ktx_cli.context.semantic.model import Model
from ktx_cli.context.semantic.planning.plan import Plan
from ktx_cli.context.semantic.planning.planner import Planner
from ktx_cli.context.semantic.probing import ProbePlan, plan_probe, require_periods
from ktx_cli.context.semantic.query import Query, parse_query
from ktx_cli.context.semantic.receipt import receipt
from ktx_cli.core.clock import monotonic


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows of a question; `totals`: the measures without any dimension, where asked for; `asked`: what was compiled."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    sql: str
    truncated: bool = False
    totals: tuple[Any, ...] | None = None
    receipt: dict[str, Any] = field(default_factory=dict)
    asked: Asked | None = None


@dataclass(frozen=True)
class Asked:
    """A compiled question: the plan, the statement, and that of its totals."""

    plan: Plan
    compiled: Compiled
    dialect: str
    totals: Asked | None = None

    @functools.cached_property
    def sql(self) -> str:
        """The statement as text."""
        return self.compiled.tree.sql(self.dialect, pretty=True, copy=False)


def compile_query(
    model: Model,
    query: Query | Mapping[str, Any],
    *,
    attributes: Mapping[str, Any] | None = None,
    now: datetime | None = None,
    graph: Graph | None = None,
) -> Asked:
    """Return the statement of a question; `SemanticError` where it has no right answer."""
    parsed = query if isinstance(query, Query) else parse_query(query)
    try:
        planner = Planner(model, graph or Graph(model), parsed, attributes or {}, now or datetime.now(UTC))
        plan = planner.plan()
        compiled = compile_plan(Build(planner.names, plan))
    except RecursionError:
        raise SemanticError("the question is nested too deep", hint="ask in several questions") from None
    except OverflowError as error:
        raise SemanticError(str(error), hint="ask for times within the years 1 to 9999") from None
    totals = None
    if parsed.totals and plan.outputs:
        totals = _totals(parsed, lambda bare: compile_query(model, bare, attributes=attributes, now=now, graph=graph))
    return Asked(plan, compiled, model.dialect, totals)


def _totals(query: Query, compiled: Callable[[Query], Asked]) -> Asked | None:
    """Return the question without dimensions, of those measures that mean something without a time to go by."""
    bare = replace(query, dimensions=(), having=(), order_by=(), offset=0, limit=1, fill=False, totals=False)
    try:
        return compiled(bare)
    except SemanticError:
        bare = replace(bare, comparison=None)
    kept = []
    for each in bare.measures:
        with contextlib.suppress(SemanticError):  # its column has no total; all others do
            compiled(replace(bare, measures=(each,)))
            kept.append(each)
    return compiled(replace(bare, measures=tuple(kept))) if kept else None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A question ready to be asked any number of times: compiled, with what looks at the joins of its facts.

    It holds for one model, the same query and attributes, and the day it was prepared on.
    """

    asked: Asked
    probes: tuple[ProbePlan, ...]


def prepare(
    model: Model,
    query: Query | Mapping[str, Any],
    *,
    attributes: Mapping[str, Any] | None = None,
    now: datetime | None = None,
    graph: Graph | None = None,
    probed: bool = True,
) -> Prepared:
    """Return a question ready to be asked, with `probed` False without a look at the joins.

    Raises `SemanticError` where it has no right answer.
    """
    asked = compile_query(model, query, attributes=attributes, now=now, graph=graph)
    build = asked.compiled.build
    facts = dict.fromkeys(leaf.fact for leaf in asked.plan.leaves)
    facts |= dict.fromkeys(name for name, use in build.uses.items() if use.by_key)
    return Prepared(asked, tuple(plan_probe(build.again(), fact) for fact in facts) if probed else ())


def ask(
    model: Model,
    query: Query | Mapping[str, Any],
    connector: Connector,
    *,
    attributes: Mapping[str, Any] | None = None,
    now: datetime | None = None,
    probed: bool = True,
) -> Answer:
    """Return the answer of a question from an open connection.

    `probed`: the joins are checked on the rows, and what they missed is counted, one statement a fact. Raises
    `SemanticError`, also (code `cardinality`) where a join would count rows twice; `SourceError` of the database.
    """
    started = monotonic()
    prepared = prepare(model, query, attributes=attributes, now=now, probed=probed)
    return ask_prepared(prepared, connector, compiled_in=monotonic() - started)


def ask_prepared(
    prepared: Prepared, connector: Connector, *, probing: Connector | None = None, compiled_in: float = 0.0
) -> Answer:
    """Return the answer of a question that was prepared, in `compiled_in` seconds; raises as `ask`.

    `probing`: the connection on which the joins are looked at, where it is another one.
    """
    started = monotonic()
    asked = prepared.asked
    build = asked.compiled.build
    require_periods(asked.compiled, connector)
    probes = [each.run(probing or connector) for each in prepared.probes]
    checked = monotonic()
    limit = asked.plan.query.limit
    found = connector.query(asked.sql, max_rows=limit + 1)
    rows = [tuple(row) for row in found.rows]
    totals = None if asked.totals is None else _total_row(asked, asked.totals, connector)
    timing = {"compile": compiled_in, "probe": checked - started, "execute": monotonic() - checked}
    told = receipt(build, asked.sql, probes, {name: seconds * 1000 for name, seconds in timing.items()})
    told["truncated"] = truncated = len(rows) > limit or found.truncated
    return Answer(list(asked.compiled.columns), rows[:limit], asked.sql, truncated, totals, told, asked)


def _total_row(asked: Asked, totals: Asked, connector: Connector) -> tuple[Any, ...] | None:
    """Return the total of every measure of the answer in its order, None for one that has none."""
    row = _only_row(connector, totals.sql)
    if row is None:
        return None
    found = dict(zip((each.asked for each in totals.plan.outputs), row, strict=True))
    return tuple(found.get(each.asked) for each in asked.plan.outputs)


def _only_row(connector: Connector, sql: str) -> tuple[Any, ...] | None:
    rows = connector.query(sql, max_rows=1).rows
    return tuple(rows[0]) if rows else None
