"""The limits of a repair: it may only change pages and definitions, and nothing that requires a person."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ktx_cli.agent_tools import Layers, unfit_lines, weakened
from ktx_cli.core import listing
from ktx_cli.engine import Gates
from ktx_cli.jobs.decide.points import load_decisions
from ktx_cli.project import SEMANTIC_NAME, Workspace
from ktx_cli.semantic import DecisionState, Measure, MetricTest, Model, Segment, Source, Status, load_answers
from ktx_cli.wiki import GLOBAL, place_of

_DEFINITION: Final = re.compile(rf"{SEMANTIC_NAME}/([^/]+)/[^_/][^/]*\.ya?ml")


def refusals(gates: Gates, before: Workspace, after: Workspace, *, renames: bool = False) -> list[str]:
    """Return the reasons why a repair is not allowed; empty if it is allowed.

    With `renames`, the repair may also replace removed names in tests and in measures that follow a decision.
    """
    changed = after.changes()
    foreign = [path for path in changed if not _is_context(path)]
    if foreign:
        return [f"it changes {listing(foreign)}, but a repair may only change pages and definitions"]
    found = [f"{path}: {line}" for path in changed for line in _unfit(path, before, after)]
    connections = {each[1] for path in changed if (each := _DEFINITION.fullmatch(path)) is not None}
    for connection in sorted(connections & set(gates.layers.dialects)):
        found += _of_layer(gates.layers, before, after, connection, renames=renames)
    return found or [str(each) for each in gates.everything(after, set(changed), set(changed))]


def _is_context(path: str) -> bool:
    place = place_of(path)
    return (place is not None and place[0] == GLOBAL) or _DEFINITION.fullmatch(path) is not None


def _unfit(path: str, before: Workspace, after: Workspace) -> list[str]:
    content = after.read(path)
    return [] if content is None else unfit_lines(content.decode("utf-8", "replace"), before.read(path))


def _of_layer(layers: Layers, before: Workspace, after: Workspace, connection: str, *, renames: bool) -> Iterator[str]:
    old, new = layers.model(before, connection), layers.model(after, connection)
    for name in sorted({*old.sources, *new.sources}):
        yield from weakened(old, new, name)
        yield from _approvals(old.sources.get(name), new.sources.get(name))
        if not renames:
            yield from _tests(old.sources.get(name), new.sources.get(name), name)
    if not renames:
        yield from _decisions(before, after, old, new)


def _approvals(old: Source | None, new: Source | None) -> Iterator[str]:
    """Yield the definitions whose status, owner or review date would change."""
    if new is None:
        return
    definitions: list[Measure | Segment] = [*new.measures.values(), *new.segments.values()]
    for each in definitions:
        known = None if old is None else (old.measures.get(each.name) or old.segments.get(each.name))
        claimed = (each.status, each.owner, each.review_by)
        had = (None, None, None) if known is None else (known.status, known.owner, known.review_by)
        if claimed != had and claimed not in ((None, None, None), (Status.PROPOSED, None, None)):
            yield f"`{new.name}.{each.name}` would change its status, owner or review date, which only people may do"


def _tests(old: Source | None, new: Source | None, name: str) -> Iterator[str]:
    """Yield the tests of a source that would be removed or changed."""
    kept = {} if new is None else {each.name: _placeless(each) for each in new.tests}
    for each in () if old is None else old.tests:
        if kept.get(each.name) != _placeless(each):
            yield f"the test `{each.name}` of `{name}` would change, but only people change tests"


def _placeless(definition: MetricTest) -> MetricTest:
    return replace(definition, place=None)


def _decisions(before: Workspace, after: Workspace, old: Model, new: Model) -> Iterator[str]:
    """Yield the open decisions that would be answered, and the measures that would stop following a decision."""
    states = {each.id: each.state for each in load_decisions(after, new).decisions.points}
    for point in load_decisions(before, old).decisions.points:
        if point.state is DecisionState.OPEN and states.get(point.id) in (DecisionState.SETTLED, DecisionState.STATED):
            yield f"it would answer the open decision `{point.id}`, but only people make decisions"
    for answer in load_answers(before, old.connection):
        for ref in answer.measures:
            if _definition(old, ref) != _definition(new, ref):
                yield f"`{ref}` would no longer follow the decision `{answer.point}`"


def _definition(model: Model, ref: str) -> Measure | Segment | None:
    source, _, name = ref.partition(".")
    found = model.sources[source].measures.get(name) if source in model.sources else None
    return (
        None if found is None else replace(found, place=None, description=None, label=None, questions=(), synonyms=())
    )
