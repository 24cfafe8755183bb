"""One work unit: its loop on an overlay of its own, what it may be gone on with, and whether it ended well."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ktx_cli.context.sources.model import RawFile
from ktx_cli.context.tools.prompting import TaskPrompt
from ktx_cli.context.tools.session import ToolSession
from ktx_cli.context.tools.toolset import Stage, tools_for
from ktx_cli.core.errors import KtxError
from ktx_cli.core.events import Emit, WorkUnitFinished, WorkUnitStarted, WorkUnitStep
from ktx_cli.core.text import listing
from ktx_cli.jobs.ingest.gates import Gates
from ktx_cli.jobs.ingest.units.driver import Piece, Stop
from ktx_cli.jobs.ingest.units.outcome import UnitOutcome, UnitStatus, changes_of
from ktx_cli.jobs.ingest.units.store import UnitJournal, UnitStore, store_key
from ktx_cli.jobs.ingest.units.unread import unread
from ktx_cli.llm.runtime import LlmRuntime
from ktx_cli.llm.types import LoopResult, Step
from ktx_cli.project.tree import Tree


@dataclass(frozen=True, slots=True)
class Loops:
    """What the loops of a run share. `session` opens the tools of a unit on an overlay of its own.

    `version`: of the prompts, the skills and the model: another one makes every stored unit worthless. `stage`: whose
    tools they have; in the stage `memory` the task holds the text itself, and nothing in it may be worth a tool call.
    """

    runtime: LlmRuntime
    store: UnitStore
    session: Callable[[Piece], ToolSession]
    prompt: Callable[[Piece, ToolSession], TaskPrompt]
    gates: Gates
    base: Tree
    stop: Stop
    version: str
    steps: int
    emit: Emit
    abort_on_failure: bool = False
    stage: Stage = "unit"

    async def run(self, piece: Piece) -> UnitOutcome:
        """Return how a unit ended: replayed from an earlier run, gone on with, or begun."""
        key = unit_key(piece, self.version)
        kept = self.store.outcome(key)
        if kept is not None:
            found = UnitOutcome.of_kept(piece.work.connection, piece.work.kind, piece.unit, kept)
            self.emit(WorkUnitFinished(found.connection, piece.unit.key, found.status.value, "", replayed=True))
            return replace(found, kept_as=key)
        self.emit(WorkUnitStarted(piece.work.connection, piece.unit.key, piece.unit.label, len(piece.unit.files)))
        outcome = replace(await self._worked(piece, key), kept_as=key)
        if outcome.status is UnitStatus.DONE:
            self.store.keep(key, outcome.connection, outcome.kind, piece.unit.key, outcome.kept())
        elif outcome.status is UnitStatus.FAILED:
            self.store.drop_steps(key)
            if self.abort_on_failure:
                self.stop.note(KtxError(f"the work unit `{piece.unit.key}` failed: {outcome.reason}"), always=True)
        self.emit(WorkUnitFinished(outcome.connection, piece.unit.key, outcome.status.value, outcome.reason))
        return outcome

    async def _worked(self, piece: Piece, key: str) -> UnitOutcome:
        session = self.session(piece)
        count = _Count(piece, self.emit)
        try:
            task = self.prompt(piece, session)
            result = await self.runtime.run_agent_loop(
                task.prompt,
                system=task.system,
                tools=tools_for(session, self.stage),
                step_budget=self.steps,
                role="candidateExtraction",
                on_step_finish=count.step,
                abort=self.stop.abort,
                journal=UnitJournal(self.store, key, state=session.state, restore=session.restore),
                label=f"{piece.work.connection}:{piece.unit.key}",
            )
        except KtxError as error:
            return self._broken(piece, error)
        if result.error is not None:
            return self._broken(piece, result.error)
        return self._judged(piece, session, result)

    def _broken(self, piece: Piece, error: KtxError) -> UnitOutcome:
        """Return the outcome of a loop that did not come to its end: left where the whole run cannot go on."""
        ends = self.stop.note(error) or error.code == "cancelled"
        return piece.outcome(UnitStatus.LEFT if ends else UnitStatus.FAILED, error.message)

    def _judged(self, piece: Piece, session: ToolSession, result: LoopResult) -> UnitOutcome:
        outcome = replace(
            piece.outcome(UnitStatus.DONE),
            changes=changes_of(session.workspace, self.base),
            session={key: value for key, value in session.state().items() if key in ("actions", "records")},
            steps=result.facts.steps,
            tool_calls=result.facts.tool_calls,
            budget_used=result.stop_reason == "budget",
        )
        if not outcome.tool_calls and self.stage == "unit":
            return outcome.failed(UnitStatus.FAILED, "the model ended without having called a tool")
        failures = session.failures(result.invocations)
        if failures:
            said = listing(f"{each.target}: {each.message}" for each in failures)
            return outcome.failed(UnitStatus.FAILED, f"tool failures nothing made good: {said}")
        has_read = outcome.did_something or self.stage != "unit"
        ignored = [] if has_read else unread(piece.unit.files, result.invocations)
        if ignored:
            return outcome.failed(UnitStatus.FAILED, f"the model ended without having read {listing(ignored)}")
        wrong = self.gates.definitions(session.workspace, outcome.changes)
        if wrong:
            return outcome.failed(UnitStatus.FAILED, f"definitions it wrote are wrong: {listing(map(str, wrong))}")
        return outcome


@dataclass(slots=True)
class _Count:
    """Tells the steps of a unit, with how many tools were called so far."""

    piece: Piece
    emit: Emit
    calls: int = 0

    def step(self, step: Step) -> None:
        self.calls += len(step.tool_names)
        work, unit = self.piece.work, self.piece.unit
        self.emit(WorkUnitStep(work.connection, unit.key, step.index, step.budget, self.calls))


def unit_key(piece: Piece, version: str) -> str:
    """Return what a unit is made from: the same key is the same work."""
    work, unit = piece.work, piece.unit
    parts = [
        version,
        unit.key,
        unit.notes,
        unit.semantic,
        _shas(unit.files, work.snapshot.files),
        _shas(unit.dependencies, work.snapshot.files),
    ]
    return store_key(work.connection, work.kind, parts)


def _shas(paths: Sequence[str], files: Mapping[str, RawFile]) -> list[list[str]]:
    return [[path, files[path].sha256] for path in paths if path in files]
