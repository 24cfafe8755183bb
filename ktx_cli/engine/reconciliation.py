"""The loop that looks over a whole run: what it is shown, what it decided, and what became of deleted raw files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ktx_cli.agent_tools import StagedUnit, StagedWork, reconcile_prompt, tools_for
from ktx_cli.core import ReconcileStep, ResultWarning, listing
from ktx_cli.documents import WorkUnit
from ktx_cli.engine.task import AgentContext, AgentRunner, AgentTask
from ktx_cli.engine.work import (
    RECONCILE,
    Reconciliation,
    SourceWork,
    UnitOutcome,
    UnitStatus,
    actions_of,
    evicted,
    store_key,
)
from ktx_cli.llm import LoopResult
from ktx_cli.project import Tree, Workspace
from ktx_cli.wiki import GLOBAL, page_path

STEPS: Final = 60
"""Steps of the loop."""


async def reconcile(
    context: AgentContext,
    runner: AgentRunner,
    workspace: Workspace,
    works: Sequence[SourceWork],
    outcomes: Sequence[UnitOutcome],
) -> Reconciliation:
    """Let the model look over the outcomes of a run and change the overlay; with wrong definitions nothing changes."""
    outcome = await runner.run(reconcile_task(context, workspace, works, outcomes))
    if outcome.status is not UnitStatus.DONE:
        return Reconciliation(steps=outcome.steps, problem=outcome.reason)
    workspace.apply(outcome.contents)
    return Reconciliation(outcome.changes, outcome.session, outcome.steps, budget_used=outcome.budget_used)


def reconcile_task(
    context: AgentContext, workspace: Workspace, works: Sequence[SourceWork], outcomes: Sequence[UnitOutcome]
) -> AgentTask:
    """Return the task of the loop, on an overlay of its own."""
    raw = {f"{work.connection}/{path}": file for work in works for path, file in work.snapshot.files.items()}
    stage = staged(outcomes, evicted_paths(works))
    session = context.open_session(workspace.child(), raw=raw, files=tuple(raw), stage=stage)
    others = sorted({skill for work in works for skill in work.source.skills})

    def judge(outcome: UnitOutcome, result: LoopResult) -> UnitOutcome:
        wrong = context.gates.definitions(session.workspace, outcome.changes)
        return outcome.failed(UnitStatus.FAILED, f"definitions it wrote are wrong: {wrong[0]}") if wrong else outcome

    return AgentTask(
        WorkUnit(RECONCILE, RECONCILE, ()),
        RECONCILE,
        prompt=lambda: reconcile_prompt(session, context.prompts["reconcile"], others=others),
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


def staged(outcomes: Sequence[UnitOutcome], evictions: Mapping[str, tuple[str, ...]]) -> StagedWork:
    """Return what a loop sees of the run: the units as they ended, and the artifacts that lost a raw file."""
    units = [
        StagedUnit(
            outcome.unit.key,
            outcome.unit.label,
            "done" if outcome.status is UnitStatus.DONE else "failed",
            outcome.unit.files,
            actions_of(outcome),
            outcome.reason,
        )
        for outcome in outcomes
    ]
    return StagedWork(units, evictions)


def evicted_paths(works: Sequence[SourceWork]) -> dict[str, tuple[str, ...]]:
    """Return the same of all sources of a run, each path with its connection in front."""
    return {f"{work.connection}/{path}": artifacts for work in works for path, artifacts in evicted(work).items()}


def decided_evictions(
    work: SourceWork, reconciliation: Reconciliation, tree: Tree
) -> tuple[frozenset[str], list[ResultWarning]]:
    """Return the deleted raw files of which nothing is left to decide, and a warning where there are others.

    A page that is not in `tree` needs no decision. Where the loop did not come to its end nothing is decided, and its
    problem says so.
    """
    if reconciliation.problem or not reconciliation.steps:
        return frozenset(), []
    records = reconciliation.session.get("records", {}).get("evictions", ())
    prefix = f"{work.connection}/"
    decisions = {
        (record["raw_path"].removeprefix(prefix), record["artifact"])
        for record in records
        if record["raw_path"].startswith(prefix)
    }
    open_ = {
        path: [name for name in artifacts if (path, name) not in decisions and not _is_gone(name, tree)]
        for path, artifacts in evicted(work).items()
    }
    undecided = {path: artifacts for path, artifacts in open_.items() if artifacts}
    return frozenset(open_) - frozenset(undecided), [_warning(work, undecided)] if undecided else []


def _is_gone(artifact: str, tree: Tree) -> bool:
    kind, _, name = artifact.partition(":")
    return kind == "wiki" and tree.read(page_path(GLOBAL, name)) is None


def _warning(work: SourceWork, undecided: Mapping[str, Sequence[str]]) -> ResultWarning:
    artifacts = sorted({name for names in undecided.values() for name in names})
    return ResultWarning(
        "undecided",
        f"{work.name}: the model left undecided what becomes of {listing(artifacts)}, "
        f"which came of files that are gone: {listing(sorted(undecided))}",
        hint="the next run with a model asks again; a page you delete needs no decision",
        connection=work.connection,
        files={path: list(names) for path, names in undecided.items()},
    )
