"""Compile and answer queries, with a receipt that lists an answer's facts, joins, conditions and notes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Argument, Command, Hint, listing, monotonic
from ktx_cli.semantic.calendar import UTC_NAME
from ktx_cli.semantic.caller import NOBODY, Caller
from ktx_cli.semantic.compile.build import Build, FactUse
from ktx_cli.semantic.compile.statement import Compiled, compile_plan
from ktx_cli.semantic.expressions.names import Expression
from ktx_cli.semantic.graph import Graph, Path, graph_of
from ktx_cli.semantic.lookup import lookup_of
from ktx_cli.semantic.model import Model, SemanticError
from ktx_cli.semantic.plan.plan import Leaf, Plan
from ktx_cli.semantic.plan.planner import Planner
from ktx_cli.semantic.query import Query, parse_query
from ktx_cli.telemetry import operation
from ktx_cli.warehouses import Connector, SemanticType, dialect_named

if TYPE_CHECKING:
    from ktx_cli.semantic.probes import ConversionProbe, Probe, ProbePlan

NO_ZONE: Final = Hint(
    "periods are in {}, because neither the query nor ktx.yaml sets a time zone; pass `timezone`; or set one for all "
    "queries, for example with `{}`",
    UTC_NAME,
    Command("config", "set", "semantic.timezone", "Europe/Berlin"),
)
"""The note of an answer whose periods depend on a time zone that nobody has chosen."""


def receipt(build: Build, sql: str, probes: Sequence[Probe], timing: Mapping[str, float]) -> dict[str, Any]:
    """Return the receipt as plain data. `timing` maps each step to its duration in milliseconds."""
    plan = build.plan
    counted = {probe.fact: probe for probe in probes}
    facts = list(dict.fromkeys(leaf.fact for leaf in plan.leaves))
    clock = build.clock(None)
    return {
        "sources": list(build.sources),
        "facts": [_fact(build, build.use(fact), counted.get(fact)) for fact in facts],
        "having": list(plan.having_texts),
        "notes": _notes(build, facts),
        "time": {"timezone": clock.target, "week_start": build.names.model.calendar.week_start},
        "policies": list(build.policies),
        "parameters": dict(plan.parameters),
        "sql": sql,
        "timing_ms": {name: round(value, 2) for name, value in timing.items()},
        "verified": None,
    }


def _fact(build: Build, use: FactUse, probe: Probe | None) -> dict[str, Any]:
    leaves = {number: leaf for number, leaf in enumerate(build.plan.leaves) if leaf.fact == use.fact}
    measures = [each for number, leaf in leaves.items() for each in _measures(build, number, leaf, probe)]
    filters = [{"expr": expr, "how": how, "measure": None} for expr, how in use.filters.items()]
    for measure in measures:
        for own in measure["filters"]:
            how = "measure" if own["measure"] else "segment"
            filters.append({"expr": own["expr"], "how": how, "measure": own["measure"]})
    return {
        "fact": use.fact,
        "aggregates": list(dict.fromkeys(leaf.aggregate.text for leaf in leaves.values())),
        "measures": measures,
        "paths": [{"path": str(path), "why": _why(build, path)} for path in _longest(use.paths)],
        "filters": [condition for index, condition in enumerate(filters) if condition not in filters[:index]],
        "rows": None if probe is None else probe.rows,
        "unmatched": []
        if probe is None
        else [{"join": each.join, "null_keys": each.null_keys, "dangling": each.dangling} for each in probe.unmatched],
        "overlapping": use.overlapping,
    }


def _measures(build: Build, number: int, leaf: Leaf, probe: Probe | None) -> Iterator[dict[str, Any]]:
    """Yield every measure that uses an aggregate, with its conditions.

    `measure` is None if the query itself defines the aggregate. `rows` is None if the rows are not counted, because
    they are groups or belong to other periods than those shown.
    """
    from ktx_cli.semantic.probes import is_over_time

    offset = leaf.treatment.offset
    plain = probe is not None and leaf.nested is None and not is_over_time(leaf)
    seen = set()
    for chain in build.plan.named_by.get(number, [()]):
        declared = [each for each in chain if "." in each]
        name = declared[-1] if declared else None
        if name in seen:
            continue
        seen.add(name)
        yield {
            "measure": name,
            "aggregate": leaf.aggregate.text,
            "earlier": None if offset is None else str(offset),
            "filters": [
                {"expr": condition.text, "measure": _declarer(build, condition, declared)}
                for condition in leaf.conditions
            ],
            "rows": None if probe is None or not plain else probe.counted.get(number, probe.rows),
        }


def _declarer(build: Build, condition: Expression, chain: Sequence[str]) -> str | None:
    """Return the innermost of these measures with the condition, or None for a segment in the query."""
    for ref in reversed(chain):
        source, _, name = ref.rpartition(".")
        owner = build.names.model.sources[source]
        measure = owner.measures[name]
        if condition.text in (measure.filter, *(owner.segments[segment].expr for segment in measure.segments)):
            return ref
    return None


def _longest(paths: Mapping[str, Path]) -> list[Path]:
    """Return the paths that are not prefixes of other paths."""
    found = list(paths.values())
    return [
        path
        for path in found
        if not any(len(o.edges) > len(path.edges) and o.edges[: len(path.edges)] == path.edges for o in found)
    ]


def _why(build: Build, path: Path) -> str:
    graph = build.names.graph
    asked = []
    for hops, via in build.names.required:
        with contextlib.suppress(SemanticError):  # only this fact's path is ambiguous, and the query does not use it
            chosen = graph.path(path.start, hops, via)
            if chosen is not None and chosen.edges and path.edges[: len(chosen.edges)] == chosen.edges:
                asked.append(".".join(via))
    if asked:
        return f"via {listing(dict.fromkeys(asked))}"
    others = graph.longer(path, (path.edges[-1].name,))
    return "the only path" if not others else f"the shortest path; also {', '.join(map(str, others[:3]))}"


def _notes(build: Build, facts: Sequence[str]) -> list[str]:
    notes = [*build.notes, *_conversions(build)]
    if build.reads_zone and build.plan.timezone is None:
        notes.append(NO_ZONE)
    if build.plan.query.totals and build.plan.having:
        notes.append("totals cover all rows, not only the groups that match the `having` conditions")
    notes += _unreviewed(build)
    for fact in facts:
        if build.use(fact).overlapping:
            notes.append(f"rows of {fact} can be in several groups, so its groups do not add up to the total")
    return notes


def _conversions(build: Build) -> Iterator[str]:
    """Yield a note for each column that the statement converts."""
    for (source, name), column in sorted(build.conversions.items()):
        if column.stored_as is not None:
            stored = "numbers" if column.stored_as.native is SemanticType.NUMBER else "text"
            yield f"{source}.{name} is stored as {stored} ({column.stored_as.noun}) and read as {column.type}"


def _unreviewed(build: Build) -> Iterator[str]:
    """Yield a note for each measure and segment in the query that ktx proposed."""
    sources = build.names.model.sources
    refs = dict.fromkeys(ref for chains in build.plan.named_by.values() for chain in chains for ref in chain)
    for ref in refs:
        source, dot, name = ref.rpartition(".")
        measure = sources[source].measures.get(name) if dot and source in sources else None
        if measure is not None and measure.is_proposed:
            yield f"{ref} was proposed by ktx and has not been reviewed: {measure.reason or measure.expr}"
    for ref in dict.fromkeys(build.plan.query.segments):
        source, _, name = ref.rpartition(".")
        owners = lookup_of(build.names.model).with_segment(name)
        found = [each.segments[name] for each in owners if source in ("", each.name)]
        segment = next((each for each in found if each.is_proposed), None)
        if segment is not None and all(each.is_proposed for each in found):
            yield f"the segment {ref} was proposed by ktx and has not been reviewed: {segment.expr}"


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows that answer a query. `totals` are the grand totals, if requested; `asked` is the compiled query."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    sql: str
    truncated: bool = False
    totals: tuple[Any, ...] | None = None
    receipt: dict[str, Any] = field(default_factory=dict)
    asked: CompiledQuery | None = None


@dataclass(frozen=True)
class CompiledQuery:
    """A compiled query: the plan, the statement, and the compiled query of its totals."""

    plan: Plan
    compiled: Compiled
    dialect: str
    totals: CompiledQuery | None = None

    @functools.cached_property
    def sql(self) -> str:
        """The formatted statement."""
        return self.compiled.tree.sql(self.dialect, pretty=True, copy=False)

    @functools.cached_property
    def sent(self) -> str:
        """The statement in the guard's format, so that the guard only has to check a single text."""
        return dialect_named(self.dialect).rendered(self.compiled.tree)


def compile_query(
    model: Model,
    query: Query | Mapping[str, Any],
    *,
    caller: Caller = NOBODY,
    now: datetime | None = None,
    graph: Graph | None = None,
) -> CompiledQuery:
    """Compile a query. Raises `SemanticError` if it has no correct answer."""
    parsed = query if isinstance(query, Query) else parse_query(query)
    found = functools.partial(_compiled, model, caller, now or datetime.now(UTC), graph or graph_of(model))
    compiled = found(parsed, is_part=False)
    if not parsed.totals or not compiled.plan.outputs:
        return compiled
    return replace(compiled, totals=_totals(parsed, functools.partial(found, is_part=True)))


def _compiled(
    model: Model, caller: Caller, now: datetime, graph: Graph, query: Query, *, is_part: bool
) -> CompiledQuery:
    try:
        planner = Planner(model, graph, query, caller, now)
        plan = planner.plan(is_part=is_part)
        compiled = compile_plan(Build(planner.names, plan))
    except RecursionError:
        raise SemanticError("the query is nested too deeply", hint="split it into several queries") from None
    except OverflowError as error:
        raise SemanticError(str(error), hint="use times in the years 1 to 9999") from None
    except SemanticError as error:
        error.hint = error.hint and error.hint.rewrite(functools.partial(_with_given_joins, query))
        raise
    return CompiledQuery(plan, compiled, model.dialect)


def _with_given_joins(query: Query, part: str) -> str:
    """Return a value of `via` in a hint with what the query gives for other sources, so that it can replace that."""
    if not isinstance(part, Argument) or part.name != "via":
        return part
    return Argument("via", {target: ".".join(path) for target, path in query.via.items()} | part.value)


def _totals(query: Query, compiled: Callable[[Query], CompiledQuery]) -> CompiledQuery | None:
    """Compile the totals query: without dimensions, and with the measures that do not require a time."""
    bare = replace(query, dimensions=(), having=(), order_by=(), offset=0, limit=1, fill=False, totals=False)
    try:
        return compiled(bare)
    except SemanticError:
        bare = replace(bare, comparison=None)
    kept = []
    for measure in bare.measures:
        with contextlib.suppress(SemanticError):  # only this column has no total
            compiled(replace(bare, measures=(measure,)))
            kept.append(measure)
    return compiled(replace(bare, measures=tuple(kept))) if kept else None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A compiled query with the probes of its joins and conversions. It can run any number of times.

    It is valid for one model, the same query and caller, and the day on which it was prepared.
    """

    asked: CompiledQuery
    probes: tuple[ProbePlan, ...]
    conversions: ConversionProbe | None = None


def prepare(
    model: Model,
    query: Query | Mapping[str, Any],
    *,
    caller: Caller = NOBODY,
    now: datetime | None = None,
    graph: Graph | None = None,
    probed: bool = True,
) -> Prepared:
    """Prepare a query. If `probed` is false, its joins and conversions are not probed.

    Raises `SemanticError` if it has no correct answer.
    """
    with operation("compile"):
        return _prepared(model, query, caller=caller, now=now, graph=graph, probed=probed)


def _prepared(
    model: Model,
    query: Query | Mapping[str, Any],
    *,
    caller: Caller,
    now: datetime | None,
    graph: Graph | None,
    probed: bool,
) -> Prepared:
    from ktx_cli.semantic.probes import plan_conversions, plan_probe

    asked = compile_query(model, query, caller=caller, now=now, graph=graph)
    build = asked.compiled.build
    facts = dict.fromkeys(leaf.fact for leaf in asked.plan.leaves)
    facts |= dict.fromkeys(name for name, use in build.uses.items() if use.by_key)
    if not probed:
        return Prepared(asked, ())
    return Prepared(asked, tuple(plan_probe(build.again(), fact) for fact in facts), plan_conversions(build.again()))


def ask(
    model: Model,
    query: Query | Mapping[str, Any],
    connector: Connector,
    *,
    caller: Caller = NOBODY,
    now: datetime | None = None,
    probed: bool = True,
) -> Answer:
    """Answer a query on an open connection.

    If `probed` is true, the joins are checked and unmatched rows are counted, with one statement for each fact. Raises
    `SemanticError`, with the code `cardinality` if a join would count rows twice, and `SourceError` from the database.
    """
    started = monotonic()
    prepared = prepare(model, query, caller=caller, now=now, probed=probed)
    return ask_prepared(prepared, connector, compiled_in=monotonic() - started)


def ask_prepared(
    prepared: Prepared, connector: Connector, *, probing: Connector | None = None, compiled_in: float = 0.0
) -> Answer:
    """Answer a prepared query. Raises the same errors as `ask`.

    `compiled_in` is the duration of the preparation in seconds. `probing` is a separate connection for the probes.
    """
    from ktx_cli.semantic.probes import require_periods

    started = monotonic()
    asked = prepared.asked
    build = asked.compiled.build
    require_periods(asked.compiled, connector)
    if prepared.conversions is not None:
        prepared.conversions.run(probing or connector)
    probes = [probe.run(probing or connector) for probe in prepared.probes]
    checked = monotonic()
    limit = asked.plan.query.limit
    found = connector.query(asked.sent, max_rows=limit + 1)
    rows = [tuple(row) for row in found.rows]
    totals = None if asked.totals is None else _total_row(asked, asked.totals, connector)
    timing = {"compile": compiled_in, "probe": checked - started, "execute": monotonic() - checked}
    receipt_facts = receipt(build, asked.sql, probes, {name: seconds * 1000 for name, seconds in timing.items()})
    receipt_facts["truncated"] = truncated = len(rows) > limit or found.truncated
    return Answer(list(asked.compiled.columns), rows[:limit], asked.sql, truncated, totals, receipt_facts, asked)


def _total_row(asked: CompiledQuery, totals: CompiledQuery, connector: Connector) -> tuple[Any, ...] | None:
    """Return the total of every measure, in the order of the answer's columns. Measures without a total are None."""
    rows = connector.query(totals.sent, max_rows=1).rows
    if not rows:
        return None
    values = dict(zip((output.asked for output in totals.plan.outputs), rows[0], strict=True))
    return tuple(values.get(output.asked) for output in asked.plan.outputs)
