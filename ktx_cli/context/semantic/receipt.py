"""The receipt of an answer: which rows, by which joins and conditions, and what a reader should know of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ktx_cli.context.semantic.compiling.build import Build, FactUse
from ktx_cli.context.semantic.expressions.names import Expression
from ktx_cli.context.semantic.graph import Path
from ktx_cli.context.semantic.planning.plan import Leaf
from ktx_cli.context.semantic.probing import Probe, is_over_time


def receipt(build: Build, sql: str, probes: Sequence[Probe], timing: Mapping[str, float]) -> dict[str, Any]:
    """Return the receipt as plain data. `timing`: milliseconds by what took them."""
    plan = build.plan
    counted = {each.fact: each for each in probes}
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
        "filters": [each for index, each in enumerate(filters) if each not in filters[:index]],
        "rows": None if probe is None else probe.rows,
        "unmatched": []
        if probe is None
        else [{"join": each.join, "null_keys": each.null_keys, "dangling": each.dangling} for each in probe.unmatched],
        "overlapping": use.overlapping,
    }


def _measures(build: Build, number: int, leaf: Leaf, probe: Probe | None) -> Iterator[dict[str, Any]]:
    """Yield every measure that is made of an aggregate, with the conditions it counts under.

    `measure` None: the question itself wrote the aggregate. `rows` None: they are not counted, because they are groups
    or of another time than the periods that are shown.
    """
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
            "filters": [{"expr": each.text, "measure": _declarer(build, each, declared)} for each in leaf.conditions],
            "rows": None if probe is None or not plain else probe.counted.get(number, probe.rows),
        }


def _declarer(build: Build, condition: Expression, chain: Sequence[str]) -> str | None:
    """Return the innermost of these measures that has the condition, None for one of the question's segments."""
    for ref in reversed(chain):
        source, _, name = ref.rpartition(".")
        owner = build.names.model.sources[source]
        measure = owner.measures[name]
        if condition.text in (measure.filter, *(owner.segments[each].expr for each in measure.segments)):
            return ref
    return None


def _longest(paths: Mapping[str, Path]) -> list[Path]:
    """Return the paths that are no beginning of another one."""
    found = list(paths.values())
    return [
        path
        for path in found
        if not any(len(o.edges) > len(path.edges) and o.edges[: len(path.edges)] == path.edges for o in found)
    ]


def _why(build: Build, path: Path) -> str:
    last = path.edges[-1]
    others = build.names.graph.longer(path, (last.name,))
    asked = [via for each in build.plan.dimensions for via in each.expression.via]
    if any(label in asked for edge in path.edges for label in edge.labels):
        return f"via {'.'.join(dict.fromkeys(asked))}"
    return "the only one" if not others else f"the shortest; also {', '.join(map(str, others[:3]))}"


def _notes(build: Build, facts: Sequence[str]) -> list[str]:
    notes = list(build.notes)
    if build.plan.query.totals and build.plan.having:
        notes.append("totals are of all rows, not of the groups that met the conditions on results")
    for fact in facts:
        if build.use(fact).overlapping:
            notes.append(f"rows of {fact} can be in several groups: its groups do not add up to the total")
    return notes
