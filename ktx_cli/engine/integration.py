"""Integrates finished units: merges them in order, reconciles, checks, and repairs or quarantines units that fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, Field

from ktx_cli.agent_tools import TaskPrompt, ToolSession, contradiction_tool, unfit_lines, wrapped
from ktx_cli.core import Diagnostic, listing
from ktx_cli.documents import WorkUnit
from ktx_cli.engine.gates import Gates, folder
from ktx_cli.engine.task import AgentRunner, AgentTask
from ktx_cli.engine.work import Conclusions, Reconciliation, UnitOutcome, UnitStatus, merge_outcome
from ktx_cli.llm import RuntimeTool, ToolError
from ktx_cli.project import SEMANTIC_NAME, Conflict, Workspace, merge_lines
from ktx_cli.prompts import Prompt
from ktx_cli.wiki import Contradiction
from ktx_cli.wiki import merged as merged_contradictions

if TYPE_CHECKING:
    from ktx_cli.engine.documents.curation import Curation

ATTEMPTS: Final = 2
CONFLICT_REPAIR: Final = "conflict_repair"
GATE_REPAIR: Final = "gate_repair"
_STEPS: Final[Mapping[str, int]] = {CONFLICT_REPAIR: 12, GATE_REPAIR: 16}
"""Repair prompt -> the maximum number of steps per attempt."""

LONGEST: Final = 200_000
"""Maximum number of characters in a file that a repair may write."""

Check = Callable[[Workspace], Sequence[str]]
"""Returns the remaining errors, one per line; empty if the repair worked."""


@dataclass(frozen=True, slots=True)
class Repairer:
    """Repairs overlays of a run with its model."""

    runner: AgentRunner
    prompts: Mapping[str, Prompt]
    open_session: Callable[[Workspace], ToolSession] | None = None
    """Opens the recorder of contradictions for the repair of a conflict; None: none can be recorded."""
    recorded: list[Contradiction] = field(default_factory=list)
    """The contradictions that repairs recorded."""

    async def repair(
        self, workspace: Workspace, kind: str, task: str, allowed: Collection[str], check: Check
    ) -> Sequence[str]:
        """Let the model change the allowed files until no errors remain, at most twice; return the remaining errors.

        `kind`: `conflict_repair` or `gate_repair`. A failed repair changes nothing in the overlay, and no repair is
        attempted if the run starts no new task.
        """
        problems = check(workspace)
        for _ in range(ATTEMPTS):
            if not problems or self.runner.cancellation.is_set:
                break
            trial = workspace.child()
            opens = self.open_session if kind == CONFLICT_REPAIR else None
            session = None if opens is None else opens(trial)
            outcome = await self.runner.run(repair_task(trial, self.prompts[kind], task, allowed, problems, session))
            if outcome.error is not None:
                return [outcome.reason]
            left = check(trial)
            if trial.changes() and not left:
                workspace.apply(trial.changes())
                self.recorded.extend(() if session is None else session.records.contradictions)
            problems = left if trial.changes() else problems
        return problems


def repair_task(
    trial: Workspace,
    prompt: Prompt,
    task: str,
    allowed: Collection[str],
    problems: Sequence[str],
    session: ToolSession | None = None,
) -> AgentTask:
    """Return the task for one repair attempt; `session`: where contradictions are recorded."""
    recording = [] if session is None else [contradiction_tool(session)]
    text = f"{task}\n\n" + "\n".join(f"- {problem}" for problem in problems)
    return AgentTask(
        WorkUnit(prompt.name, prompt.name, ()),
        "repair",
        prompt=lambda: TaskPrompt(prompt.text, text),
        tools=lambda: [*RepairTools(trial, frozenset(allowed)).tools(), *recording],
        step_budget=_STEPS[prompt.name],
    )


class ReadFile(BaseModel):
    """Which file to read."""

    path: str = Field(description="One of the files named in the task.")


class WriteFile(BaseModel):
    """A whole file."""

    path: str = Field(description="One of the files named in the task.")
    content: str = Field(description="The complete new content.", max_length=LONGEST)


class DeleteFile(BaseModel):
    """Which file to delete."""

    path: str = Field(description="One of the files named in the task.")


@dataclass(frozen=True, slots=True)
class RepairTools:
    """The repair tools, which can only access the allowed paths of the project."""

    workspace: Workspace
    allowed: frozenset[str]

    def tools(self) -> list[RuntimeTool]:
        """Return the tools for a loop."""
        return [
            RuntimeTool("read_repair_file", "Read one of the files to repair.", ReadFile, self._read, read_only=True),
            RuntimeTool("write_repair_file", "Replace one of the files to repair.", WriteFile, self._write),
            RuntimeTool("delete_repair_file", "Delete one of the files to repair.", DeleteFile, self._delete),
        ]

    async def _read(self, asked: ReadFile) -> str:
        text = self.workspace.read_text(self._checked(asked.path))
        return "The file does not exist." if text is None else wrapped(text, asked.path)

    async def _write(self, asked: WriteFile) -> str:
        path = self._checked(asked.path)
        unfit = unfit_lines(asked.content, self.workspace.read(path))
        if unfit:
            raise ToolError("a file must not contain this, so nothing was written:\n" + "\n".join(unfit))
        self.workspace.write(path, asked.content)
        return f"{asked.path} is written."

    async def _delete(self, asked: DeleteFile) -> str:
        self.workspace.delete(self._checked(asked.path))
        return f"{asked.path} is deleted."

    def _checked(self, path: str) -> str:
        if path not in self.allowed:
            raise ToolError(f"{path} is not one of the files of this task", hint=f"they are {listing(self.allowed)}")
        return path


@dataclass(frozen=True, slots=True)
class Consolidation:
    """The outcome of the run-wide tasks after the run's units were merged. What they wrote is in the overlay."""

    reconciliation: Reconciliation = field(default_factory=Reconciliation)
    curations: tuple[Curation, ...] = ()
    """The outcome for the candidates from documents."""


Consolidate = Callable[[Workspace, Sequence[UnitOutcome]], Awaitable[Consolidation]]
"""Runs the run-wide tasks on the run's overlay."""
AfterUnits = Callable[[Workspace, Sequence[UnitOutcome]], Conclusions]
"""Lets the sources write what follows from their units."""


@dataclass(frozen=True, slots=True)
class Integration:
    """The agent part of a run as it is committed."""

    workspace: Workspace
    outcomes: list[UnitOutcome]
    consolidation: Consolidation = field(default_factory=Consolidation)
    repaired: tuple[str, ...] = ()
    """The errors that the last gates rejected and the model corrected."""
    conclusions: Conclusions = field(default_factory=dict)
    """What the sources wrote after their units were merged."""
    contradictions: tuple[Contradiction, ...] = ()
    """The contradictions recorded by units, curator passes, repairs and reconciliation."""


@dataclass(frozen=True, slots=True)
class Integrator:
    """Integrates the units of a run in one overlay."""

    gates: Gates
    repairer: Repairer
    consolidate: Consolidate
    after_units: AfterUnits

    async def integrate(self, base: Workspace, outcomes: Sequence[UnitOutcome]) -> Integration:
        """Merge, consolidate and check; a unit that causes an error is quarantined, and the others are merged again.

        `base` is not changed.
        """
        remaining, consolidate = list(outcomes), self.consolidate
        while True:
            workspace = base.child()
            merged = await self.merge(workspace, remaining)
            by_units = frozenset(workspace.changes())
            conclusions = self.after_units(workspace, merged)
            concluded = dict(workspace.changes())
            consolidation = await consolidate(workspace, merged)
            touched = frozenset(workspace.changes())
            by_agents = by_units | _changed_since(concluded, workspace)
            wrong = self.gates.everything(workspace, touched, by_agents)
            has_landed = any(outcome.status is UnitStatus.DONE for outcome in merged) or consolidation.curations
            if not wrong or not has_landed or await self._repaired(workspace, wrong, touched, by_agents):
                found = recorded_contradictions(merged, consolidation, self.repairer.recorded)
                return Integration(workspace, merged, consolidation, tuple(map(str, wrong)), conclusions, found)
            blamed = _blame(merged, wrong, conclusions)
            if (
                not blamed and consolidation.reconciliation.problem
            ):  # no remaining task wrote it, so nothing is committed
                blamed = {outcome.unit.key: str(wrong[0]) for outcome in merged}
            elif not blamed:  # only reconciliation can have written it, so the run is committed without that task
                consolidate = _without_consolidation(wrong)
            remaining = [
                outcome.failed(UnitStatus.QUARANTINED, f"the final checks found an error: {blamed[outcome.unit.key]}")
                if outcome.unit.key in blamed
                else outcome
                for outcome in merged
            ]

    async def merge(self, workspace: Workspace, outcomes: Iterable[UnitOutcome]) -> list[UnitOutcome]:
        """Return the outcomes after merging; the overlay then contains the merged ones, in order."""
        merged: list[UnitOutcome] = []
        for outcome in outcomes:
            is_done = outcome.status is UnitStatus.DONE
            merged.append(await self._land(workspace, outcome, merged) if is_done else outcome)
        return merged

    async def _land(self, workspace: Workspace, outcome: UnitOutcome, before: Sequence[UnitOutcome]) -> UnitOutcome:
        trial = workspace.child()
        conflicts = merge_outcome(trial, outcome)
        problems = await self._resolve(trial, outcome, before, conflicts) if conflicts else ()
        if problems:
            return outcome.failed(
                UnitStatus.QUARANTINED, f"it conflicts with the changes of other units: {problems[0]}"
            )
        problems = await self._pass_gates(trial, outcome)
        if problems:
            return outcome.failed(
                UnitStatus.QUARANTINED, f"it is invalid together with the changes of other units: {problems[0]}"
            )
        workspace.absorb(trial, text_merge=merge_lines)
        return outcome

    async def _resolve(
        self, trial: Workspace, outcome: UnitOutcome, landed: Sequence[UnitOutcome], conflicts: Sequence[Conflict]
    ) -> Sequence[str]:
        """Let the model combine both changes in the files; return why it could not."""
        contested = {conflict.path for conflict in conflicts}
        trial.apply({path: content for path, content in outcome.contents.items() if path not in contested})
        before = {path: trial.read(path) for path in contested}

        def unresolved(tree: Workspace) -> Sequence[str]:
            if all(tree.read(path) == content for path, content in before.items()):
                return [str(conflict) for conflict in conflicts]
            sides = [
                (each.contents.get(path) or b"").decode("utf-8", "replace")
                for each in (outcome, *landed)
                for path in contested
            ]
            invented = self.gates.invented(trial, tree, contested, sides)
            return [str(finding) for finding in (*self.gates.definitions(tree, contested), *invented)]

        wanted = "\n\n".join(_wanted(outcome, landed, path) for path in sorted(contested))
        return await self.repairer.repair(trial, CONFLICT_REPAIR, wanted, contested, unresolved)

    async def _pass_gates(self, trial: Workspace, outcome: UnitOutcome) -> Sequence[str]:
        def wrong(tree: Workspace) -> Sequence[str]:
            written = set(outcome.changes)
            found = (*self.gates.definitions(tree, written), *self.gates.invented(trial, tree, written))
            return [str(finding) for finding in found]

        task = "Definitions that this unit wrote are invalid together with the current definitions."
        return await self.repairer.repair(trial, GATE_REPAIR, task, outcome.changes, wrong)

    async def _repaired(
        self, workspace: Workspace, found: Sequence[Diagnostic], touched: frozenset[str], by_agents: frozenset[str]
    ) -> bool:
        allowed = {finding.path for finding in found} | {path for path in touched if path.startswith("wiki/")}

        def wrong(tree: Workspace) -> Sequence[str]:
            repaired = frozenset(tree.changes())
            found = self.gates.everything(tree, repaired | touched, repaired | by_agents)
            return [str(each) for each in (*found, *self.gates.invented(workspace, tree, repaired))]

        task = "The final checks of this run found errors in references or definitions."
        return not await self.repairer.repair(workspace, GATE_REPAIR, task, allowed, wrong)


def _changed_since(before: Mapping[str, bytes | None], workspace: Workspace) -> frozenset[str]:
    """Return the files changed by an overlay."""
    changes = workspace.changes()
    return frozenset(path for path in changes if path not in before or before[path] != changes[path])


def _wanted(outcome: UnitOutcome, landed: Sequence[UnitOutcome], path: str) -> str:
    content = outcome.contents[path]
    text = "(deleted)" if content is None else content.decode("utf-8", "replace")
    sides = [f"- later change: {_side(outcome)}"]
    sides += [f"- earlier change: {_side(each)}" for each in landed if path in each.contents]
    who = wrapped("\n".join(sides), "the units and their files")
    return f"{path} as the unit `{outcome.unit.key}` wants it:\n{wrapped(text, path)}\nOrigin of the changes:\n{who}"


def _side(outcome: UnitOutcome) -> str:
    files = listing((f"{outcome.connection}/{path}" for path in outcome.unit.files), 20)
    return f"unit {outcome.unit.key}, from {files}"


def recorded_contradictions(
    outcomes: Iterable[UnitOutcome], consolidation: Consolidation, repaired: Iterable[Contradiction] = ()
) -> tuple[Contradiction, ...]:
    """Return the contradictions in the merged outcomes, each once, in task order."""
    passes = [outcome for curation in consolidation.curations for outcome in curation.outcomes]
    landed = [each for each in (*outcomes, *passes) if each.status is UnitStatus.DONE]
    found = [contradiction for outcome in landed for contradiction in outcome.contradictions]
    return tuple(merged_contradictions([*found, *repaired, *consolidation.reconciliation.contradictions]))


def _without_consolidation(wrong: Sequence[Diagnostic]) -> Consolidate:
    async def consolidate(workspace: Workspace, outcomes: Sequence[UnitOutcome]) -> Consolidation:
        return Consolidation(Reconciliation(problem=f"the final checks found an error in its changes: {wrong[0]}"))

    return consolidate


def _blame(outcomes: Sequence[UnitOutcome], found: Sequence[Diagnostic], conclusions: Conclusions) -> dict[str, str]:
    """Return the units that caused errors -> the diagnostic.

    If no unit wrote the error: the units that changed the semantic layer of its connection, else those that removed
    anything.
    """
    landed = [outcome for outcome in outcomes if outcome.status is UnitStatus.DONE]
    blamed = {
        outcome.unit.key: str(finding) for finding in found for outcome in landed if finding.path in outcome.changes
    }
    blamed |= {
        unit: str(each)
        for each in found
        for written in conclusions.values()
        for unit in written.units.get(each.path, ())
    }
    blamed = blamed or _neighbours(landed, found)
    removed = (outcome for outcome in landed if None in outcome.contents.values())
    return blamed or {outcome.unit.key: str(found[0]) for outcome in removed}


def _neighbours(landed: Sequence[UnitOutcome], found: Sequence[Diagnostic]) -> dict[str, str]:
    """Return the units that changed definitions of a connection with an error -> the diagnostic."""
    return {
        outcome.unit.key: str(finding)
        for finding in found
        if finding.path.startswith(f"{SEMANTIC_NAME}/")
        for outcome in landed
        if any(path.startswith(folder(finding.path.split("/")[1])) for path in outcome.changes)
    }
