"""Brings finished units together, one after another; one that does not fit and cannot be repaired is quarantined."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ktx_cli.context.prompts import Prompt
from ktx_cli.context.tools.untrusted import wrapped
from ktx_cli.jobs.ingest.gates import Gates
from ktx_cli.jobs.ingest.units.driver import Stop
from ktx_cli.jobs.ingest.units.outcome import UnitOutcome, UnitStatus, absorb
from ktx_cli.jobs.ingest.units.repairing import CONFLICT_STEPS, GATE_STEPS, Check, repair
from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.runtime import LlmRuntime
from ktx_cli.project.merge import Conflict, TextMerge
from ktx_cli.project.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Merger:
    """What merging needs. `runtime` repairs; its prompts are those of conflicts and of gates."""

    gates: Gates
    text_merge: TextMerge
    runtime: LlmRuntime
    conflict_prompt: Prompt
    gate_prompt: Prompt
    stop: Stop

    async def merge(self, workspace: Workspace, outcomes: Iterable[UnitOutcome]) -> list[UnitOutcome]:
        """Return the outcomes as they landed; the overlay then holds those that did, in their order."""
        return [await self._land(workspace, each) if each.status is UnitStatus.DONE else each for each in outcomes]

    async def _land(self, workspace: Workspace, outcome: UnitOutcome) -> UnitOutcome:
        trial = workspace.child()
        conflicts = absorb(trial, outcome, self.text_merge)
        if conflicts:
            left = await self._resolve(trial, outcome, conflicts)
            if left:
                return outcome.failed(UnitStatus.QUARANTINED, f"it conflicts with what others wrote: {left[0]}")
        problems = await self._pass_gates(trial, outcome)
        if problems:
            return outcome.failed(UnitStatus.QUARANTINED, f"with what others wrote it is wrong: {problems[0]}")
        workspace.absorb(trial, text_merge=self.text_merge)
        return outcome

    async def _resolve(self, trial: Workspace, outcome: UnitOutcome, conflicts: Sequence[Conflict]) -> Sequence[str]:
        """Let the model put both changes into the files; return why it could not."""
        contested = {conflict.path for conflict in conflicts}
        for path, change in outcome.changes.items():
            if path not in contested:
                _put(trial, path, change.content)
        before = {path: trial.read(path) for path in contested}
        sides = "\n\n".join(_wanted(outcome, path) for path in sorted(contested))

        def unresolved(tree: Workspace) -> Sequence[str]:
            if all(tree.read(path) == content for path, content in before.items()):
                return [str(conflict) for conflict in conflicts]
            return [str(each) for each in self.gates.definitions(tree, contested)]

        return await self.tried(trial, self.conflict_prompt, sides, contested, unresolved, CONFLICT_STEPS)

    async def _pass_gates(self, trial: Workspace, outcome: UnitOutcome) -> Sequence[str]:
        touched = set(outcome.changes)

        def wrong(tree: Workspace) -> Sequence[str]:
            return [str(each) for each in self.gates.definitions(tree, touched)]

        task = "Definitions this unit wrote are wrong beside what is there now."
        return await self.tried(trial, self.gate_prompt, task, touched, wrong, GATE_STEPS)

    async def tried(
        self, trial: Workspace, prompt: Prompt, task: str, allowed: Iterable[str], check: Check, steps: int
    ) -> Sequence[str]:
        """Return what is wrong in an overlay after the model tried to repair the allowed files."""
        if self.stop.is_set:
            return check(trial)
        try:
            return await repair(
                self.runtime,
                trial,
                prompt=prompt,
                task=task,
                allowed=frozenset(allowed),
                check=check,
                steps=steps,
                abort=self.stop.abort,
            )
        except LlmError as error:
            self.stop.note(error)
            return [error.message]


def _wanted(outcome: UnitOutcome, path: str) -> str:
    content = outcome.changes[path].content
    text = "(deleted)" if content is None else content.decode("utf-8", "replace")
    return f"{path} as the unit `{outcome.unit.key}` wants it:\n{wrapped(text, path)}"


def _put(workspace: Workspace, path: str, content: bytes | None) -> None:
    if content is None:
        workspace.delete(path)
    else:
        workspace.write(path, content)
