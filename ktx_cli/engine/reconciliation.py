"""Reconciliation: an agent loop that reviews a whole run and decides what happens to pages of deleted raw files.

It is also told which pages and measures of the run resemble others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ktx_cli.agent_tools import Parts, StagedUnit, StagedWork, ToolSession, joined, reconcile_prompt, tools_for, wrapped
from ktx_cli.core import ReconcileStep, ResultWarning, listing
from ktx_cli.documents import RawFile, WorkUnit
from ktx_cli.engine.provenance import origins
from ktx_cli.engine.task import AgentContext, AgentRunner, AgentTask
from ktx_cli.engine.work import (
    RECONCILE,
    Became,
    Reconciliation,
    SourceWork,
    UnitOutcome,
    UnitStatus,
    actions_of,
    evicted,
    store_key,
    wrote,
)
from ktx_cli.llm import LoopResult
from ktx_cli.project import Workspace
from ktx_cli.semantic import Measure, VisibleModel
from ktx_cli.wiki import GLOBAL, Page, SimilarPages, merged, outlines, own_page

STEPS: Final = 60
"""Maximum number of steps in the loop."""


async def reconcile(
    context: AgentContext,
    runner: AgentRunner,
    workspace: Workspace,
    works: Sequence[SourceWork],
    outcomes: Sequence[UnitOutcome],
) -> Reconciliation:
    """Let the model review the outcomes of a run and change the overlay; invalid definitions discard its changes."""
    outcome = await runner.run(reconcile_task(context, workspace, works, outcomes))
    if outcome.status is not UnitStatus.DONE:
        return Reconciliation(steps=outcome.steps, problem=outcome.reason)
    workspace.apply(outcome.contents)
    return Reconciliation(outcome.changes, outcome.session, outcome.steps, budget_used=outcome.budget_used)


def reconcile_task(
    context: AgentContext, workspace: Workspace, works: Sequence[SourceWork], outcomes: Sequence[UnitOutcome]
) -> AgentTask:
    """Return the task for the loop, on its own overlay."""
    raw = raw_files(works)
    stage = replace(staged(outcomes, evicted_paths(works)), origins=origins(works, outcomes))
    session = context.open_session(workspace.child(), raw=raw, files=tuple(raw), stage=stage, whole_run=True)
    others = sorted({skill for work in works for skill in work.source.skills})

    def judge(outcome: UnitOutcome, result: LoopResult) -> UnitOutcome:
        wrong = context.gates.definitions(session.workspace, outcome.changes)
        return (
            outcome.failed(UnitStatus.FAILED, f"the definitions written are invalid: {wrong[0]}") if wrong else outcome
        )

    return AgentTask(
        WorkUnit(RECONCILE, RECONCILE, ()),
        RECONCILE,
        prompt=lambda: reconcile_prompt(
            session, context.prompts["reconcile"], others=others, notes=likeness_notes(session, outcomes)
        ),
        tools=lambda: tools_for(session, "reconcile"),
        step_budget=STEPS,
        kind=RECONCILE,
        session=session,
        judge=judge,
        key=_key(context, stage, outcomes),
        step_event=lambda step, calls: ReconcileStep(step.index, step.budget, calls),
    )


def _key(context: AgentContext, stage: StagedWork, outcomes: Sequence[UnitOutcome]) -> str:
    kept = [outcome.kept() for outcome in outcomes if outcome.status is UnitStatus.DONE]
    evictions = {path: list(artifacts) for path, artifacts in stage.evictions.items()}
    return store_key("", RECONCILE, [context.version(RECONCILE), kept, evictions])


def raw_files(works: Iterable[SourceWork]) -> dict[str, RawFile]:
    """Return the raw files of all sources of a run, each path prefixed with its source."""
    return {f"{work.connection}/{path}": file for work in works for path, file in work.snapshot.files.items()}


def staged(outcomes: Sequence[UnitOutcome], evictions: Mapping[str, tuple[str, ...]]) -> StagedWork:
    """Return the loop's view of the run: the units and how they ended, and the artifacts that lost a raw file."""
    units = [
        StagedUnit(
            outcome.unit.key,
            outcome.unit.label,
            "done" if outcome.status is UnitStatus.DONE else "failed",
            _named(outcome, outcome.unit.files),
            tuple(replace(each, raw_paths=_named(outcome, each.raw_paths)) for each in actions_of(outcome)),
            outcome.reason,
        )
        for outcome in outcomes
    ]
    recorded = (each for outcome in outcomes if outcome.status is UnitStatus.DONE for each in outcome.contradictions)
    return StagedWork(units, evictions, contradictions=tuple(merged(recorded)))


def _named(outcome: UnitOutcome, paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{outcome.connection}/{path}" for path in paths)


def evicted_paths(works: Sequence[SourceWork]) -> dict[str, tuple[str, ...]]:
    """Return the loop's view for all sources of a run, each path prefixed with its connection."""
    return {f"{work.connection}/{path}": artifacts for work in works for path, artifacts in evicted(work).items()}


def decided_evictions(
    work: SourceWork, reconciliation: Reconciliation, became: Became
) -> tuple[dict[str, frozenset[str]], list[ResultWarning]]:
    """Return deleted raw file -> the artifacts decided on, and a warning if others are undecided.

    A removed artifact needs no decision, unless it was merged: then the artifact it went into needs one. If the loop
    did not finish, nothing is decided, and its problem is reported.
    """
    if reconciliation.problem or not reconciliation.steps:
        return {}, []
    records = reconciliation.session.get("records", {}).get("evictions", ())
    prefix = f"{work.connection}/"
    decided: dict[str, set[str]] = {}
    for record in records:
        if record["raw_path"].startswith(prefix):
            decided.setdefault(record["raw_path"].removeprefix(prefix), set()).add(record["artifact"])
    undecided: dict[str, list[str]] = {}
    for path, artifacts in evicted(work).items():
        done = decided.get(path, set())
        left = became.of(name for name in artifacts if name not in done) - done
        undecided |= {path: sorted(left)} if left else {}
    return {path: frozenset(names) for path, names in decided.items()}, [_warning(work, undecided)] if undecided else []


def _warning(work: SourceWork, undecided: Mapping[str, Sequence[str]]) -> ResultWarning:
    artifacts = sorted({name for names in undecided.values() for name in names})
    return ResultWarning(
        "undecided",
        f"{work.name}: the model did not decide what to do with {listing(artifacts)}, which came from deleted "
        f"files: {listing(sorted(undecided))}",
        hint="the next run with a model retries; if you delete a page, no decision is needed",
        connection=work.connection,
        files={path: list(names) for path, names in undecided.items()},
    )


_ROOM: Final = 8_000
"""Maximum number of characters in the list."""

_MOST_PAGES: Final = 200
"""Maximum number of a run's pages that are compared with the others."""


def likeness_notes(session: ToolSession, outcomes: Iterable[UnitOutcome]) -> str:
    """Return what the merged units wrote that resembles other content, for the reconciliation task."""
    landed = [each for each in outcomes if each.status is UnitStatus.DONE]
    written = dict.fromkeys(each.identity for outcome in landed for each in wrote(outcome) if each.kind != "removed")
    parts = Parts(_ROOM)
    for line in (*_pages(session, written), *_measures(session, written)):
        parts.add(f"- {line}")
    if not parts.shown:
        return ""
    heading = "This run wrote texts similar to existing ones. Check each pair: one may repeat or contradict the other."
    listed = wrapped(parts.text(), "similar pages and measures")
    return joined(f"{heading}\n{listed}", parts.more("pairs", "find the rest with discover_data"))


def _pages(session: ToolSession, written: Iterable[str]) -> Iterator[str]:
    keys = [each.removeprefix("wiki:") for each in written if each.startswith("wiki:")][:_MOST_PAGES]
    index = SimilarPages.of(outlines(session.workspace, GLOBAL)) if keys else SimilarPages()
    seen: set[frozenset[str]] = set()
    for key in keys:
        page = own_page(session.workspace, key, GLOBAL)
        for other in index.like(page) if isinstance(page, Page) else ():
            pair = frozenset((key, other.page.key))
            if pair not in seen:
                seen.add(pair)
                same = ", and the same summary" if other.same_summary else ""
                yield f"wiki:{key} and wiki:{other.page.key} share {other.share:.0%} of their text{same}"


def _measures(session: ToolSession, written: Iterable[str]) -> Iterator[str]:
    sources = [each.removeprefix("sl:").partition("/") for each in written if each.startswith("sl:")]
    for connection in sorted({connection for connection, _, _ in sources}.intersection(session.connections)):
        shown = session.shown(connection)
        own = {name for each, _, name in sources if each == connection}
        yield from _measures_of(shown, own)


def _measures_of(shown: VisibleModel, own: set[str]) -> Iterator[str]:
    found = [(source.name, measure) for source in shown.sources() for measure in shown.measures(source)]
    for number, (source, measure) in enumerate(found):
        for other_source, other in found[number + 1 :]:
            if not own.intersection((source, other_source)):
                continue
            one, two = f"`{source}.{measure.name}`", f"`{other_source}.{other.name}`"
            is_same = _meaning(measure) == _meaning(other)
            if source == other_source and is_same:
                yield f"{one} and {two} have the same expression and filter: {measure.expr}"
            elif measure.name == other.name and not is_same:
                yield f"{one} is `{measure.expr}`, and {two} is `{other.expr}`: one name, two definitions"


def _meaning(measure: Measure) -> tuple[object, ...]:
    """Return what two measures of one source have in common if they give the same number."""
    texts = (" ".join(each.casefold().split()) for each in (measure.expr, measure.filter or ""))
    special = (measure.semi_additive, measure.cumulative, measure.offset, measure.percent_of, measure.per)
    return (*texts, tuple(sorted(measure.segments)), *special)
