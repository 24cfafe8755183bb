"""The receipt of an answer: which rows, by which joins and conditions, and what a reader should know of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ktx_cli.context.semantic.compiling.build import Build, FactUse
from ktx_cli.context.semantic.graph import Path
from ktx_cli.context.semantic.probing import Probe


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
    leaves = [leaf for leaf in build.plan.leaves if leaf.fact == use.fact]
    conditions = {each.text: "measure" for leaf in leaves for each in leaf.conditions}
    filters = {**use.filters, **conditions}
    return {
        "fact": use.fact,
        "aggregates": list(dict.fromkeys(leaf.aggregate.text for leaf in leaves)),
        "paths": [{"path": str(path), "why": _why(build, path)} for path in _longest(use.paths)],
        "filters": [{"expr": expr, "how": how} for expr, how in filters.items()],
        "rows": None if probe is None else probe.rows,
        "unmatched": []
        if probe is None
        else [{"join": each.join, "null_keys": each.null_keys, "dangling": each.dangling} for each in probe.unmatched],
        "overlapping": use.overlapping,
    }


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
