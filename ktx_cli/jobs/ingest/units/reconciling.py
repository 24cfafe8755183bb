"""One loop that looks over what all units wrote: duplicates, contradictions, artifacts whose raw file is gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.context.tools.prompting import TaskPrompt
from ktx_cli.context.tools.session import ToolSession
from ktx_cli.context.tools.stage import Stage, StagedUnit
from ktx_cli.context.tools.toolset import tools_for
from ktx_cli.core.errors import KtxError
from ktx_cli.core.events import Emit, ReconcileStep
from ktx_cli.jobs.ingest.gates import Gates
from ktx_cli.jobs.ingest.units.driver import Stop
from ktx_cli.jobs.ingest.units.outcome import FileChange, UnitOutcome, UnitStatus, actions_of, changes_of
from ktx_cli.jobs.ingest.units.store import RECONCILE, UnitJournal, UnitStore, store_key
from ktx_cli.llm.runtime import LlmRuntime
from ktx_cli.llm.types import Step
from ktx_cli.project.workspace import Workspace

if TYPE_CHECKING:
    from ktx_cli.jobs.ingest.documents.curating import Curated

STEPS: Final = 60


@dataclass(frozen=True, slots=True)
class Reconciled:
    """How the loop ended. `problem`: why nothing of it landed; empty where it did.

    `curated`: what became of the candidates of documents before it.
    """

    changes: Mapping[str, FileChange] = field(default_factory=dict)
    session: Mapping[str, Any] = field(default_factory=dict)
    steps: int = 0
    problem: str = ""
    budget_used: bool = False
    curated: tuple[Curated, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return its part of the report."""
        records = self.session.get("records", {})
        return {
            "steps": self.steps,
            "budget_used": self.budget_used,
            "problem": self.problem or None,
            "actions": list(self.session.get("actions", ())),
            **{name: list(found) for name, found in sorted(records.items())},
        }


@dataclass(frozen=True, slots=True)
class Reconciler:
    """What the loop needs; `session` opens its tools on an overlay, with what they show of the run."""

    runtime: LlmRuntime
    store: UnitStore
    session: Callable[[Workspace, Stage], ToolSession]
    prompt: Callable[[ToolSession], TaskPrompt]
    gates: Gates
    stop: Stop
    version: str
    emit: Emit

    async def run(self, workspace: Workspace, stage: Stage, outcomes: Sequence[UnitOutcome]) -> Reconciled:
        """Let the model look over the stage and change the overlay; with wrong definitions nothing changes."""
        base = workspace.child()
        session = self.session(workspace.child(), stage)
        count = _Count(self.emit)
        key = self._key(stage, outcomes)
        try:
            task = self.prompt(session)
            result = await self.runtime.run_agent_loop(
                task.prompt,
                system=task.system,
                tools=tools_for(session, "reconcile"),
                step_budget=STEPS,
                role="reconcile",
                on_step_finish=count.step,
                abort=self.stop.abort,
                journal=UnitJournal(self.store, key, state=session.state, restore=session.restore),
                label="reconcile",
            )
            if result.error is not None:
                raise result.error
        except KtxError as error:
            self.stop.note(error)
            return Reconciled(problem=error.message)
        wrong = self.gates.definitions(session.workspace, session.workspace.changes())
        if wrong:
            return Reconciled(steps=result.facts.steps, problem=f"definitions it wrote are wrong: {wrong[0]}")
        changes = changes_of(session.workspace, base)
        _take_over(workspace, changes)
        said = {name: value for name, value in session.state().items() if name in ("actions", "records")}
        return Reconciled(changes, said, result.facts.steps, budget_used=result.stop_reason == "budget")

    def _key(self, stage: Stage, outcomes: Sequence[UnitOutcome]) -> str:
        kept = [outcome.kept() for outcome in outcomes if outcome.status is UnitStatus.DONE]
        parts = [self.version, kept, {path: list(found) for path, found in stage.evictions.items()}]
        return store_key("", RECONCILE, parts)


def stage_of(outcomes: Sequence[UnitOutcome], evictions: Mapping[str, tuple[str, ...]]) -> Stage:
    """Return what the loop sees of the run: the units as they ended, and the artifacts that lost a raw file."""
    units = [
        StagedUnit(
            each.unit.key,
            each.unit.label,
            "done" if each.status is UnitStatus.DONE else "failed",
            each.unit.files,
            actions_of(each),
            each.reason,
        )
        for each in outcomes
    ]
    return Stage(units, evictions)


def _take_over(workspace: Workspace, changes: Mapping[str, FileChange]) -> None:
    for path, change in changes.items():
        if change.content is None:
            workspace.delete(path)
        else:
            workspace.write(path, change.content)


@dataclass(slots=True)
class _Count:
    emit: Emit
    calls: int = 0

    def step(self, step: Step) -> None:
        self.calls += len(step.tool_names)
        self.emit(ReconcileStep(step.index, step.budget, self.calls))
