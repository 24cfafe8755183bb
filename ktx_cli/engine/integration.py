"""Brings finished units together, one after another; one that does not fit and cannot be repaired is quarantined."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, Field

from ktx_cli.agent_tools import StagedUnit, StagedWork, TaskPrompt, ToolSession, tools_for, unfit_lines, wrapped
from ktx_cli.core import Diagnostic, Emit, KtxError, ReconcileStep, ResultWarning, listing
from ktx_cli.engine.gates import Gates, folder
from ktx_cli.engine.journal import RECONCILE, UnitJournal, UnitStore, store_key
from ktx_cli.engine.task import Stop, evicted
from ktx_cli.engine.work import (
    Conclusions,
    FileChange,
    Reconciled,
    SourceWork,
    UnitOutcome,
    UnitStatus,
    absorb,
    actions_of,
    changes_of,
)
from ktx_cli.llm import Abort, LlmError, LlmRuntime, RuntimeTool, Step, ToolError
from ktx_cli.project import SEMANTIC_NAME, Conflict, TextMerge, Tree, Workspace
from ktx_cli.prompts import Prompt
from ktx_cli.wiki import GLOBAL, page_path


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


Reconcile = Callable[[Workspace, Sequence[UnitOutcome]], Awaitable[Reconciled]]
Conclude = Callable[[Workspace, Sequence[UnitOutcome]], Conclusions]


@dataclass(frozen=True, slots=True)
class Settled:
    """The agents' part of a run as it lands. `repaired`: what the last gates found and the model set right.

    `conclusions`: what the sources wrote after their units had landed.
    """

    workspace: Workspace
    outcomes: list[UnitOutcome]
    reconciled: Reconciled
    repaired: tuple[str, ...] = ()
    conclusions: Conclusions = field(default_factory=dict)


async def settle(
    base: Workspace, outcomes: Sequence[UnitOutcome], merger: Merger, reconcile: Reconcile, conclude: Conclude
) -> Settled:
    """Merge, reconcile and check; a unit whose work leads nowhere is quarantined, and the rest is put together anew.

    `base` is not changed.
    """
    left = list(outcomes)
    while True:
        workspace = base.child()
        merged = await merger.merge(workspace, left)
        conclusions = conclude(workspace, merged)
        reconciled = await reconcile(workspace, merged)
        touched = frozenset(workspace.changes())
        found = merger.gates.everything(workspace, touched)
        nobody = not reconciled.curated and all(each.status is not UnitStatus.DONE for each in merged)
        if not found or nobody or await _repaired(workspace, merger, found, touched):
            said = tuple(str(each) for each in found)
            return Settled(workspace, merged, reconciled, said, conclusions)
        blamed = _blame(merged, found, conclusions)
        if not blamed and reconciled.problem:  # nobody who is left wrote it: nothing of the agents lands
            blamed = {each.unit.key: str(found[0]) for each in merged}
        elif not blamed:  # the reconciling loop alone brought it: the run lands without that loop
            reconcile = _nothing(found)
        left = [
            each.failed(UnitStatus.QUARANTINED, f"it leads nowhere: {blamed[each.unit.key]}")
            if each.unit.key in blamed
            else each
            for each in merged
        ]


async def _repaired(workspace: Workspace, merger: Merger, found: Sequence[Diagnostic], touched: frozenset[str]) -> bool:
    allowed = {finding.path for finding in found} | {path for path in touched if path.startswith("wiki/")}

    def wrong(tree: Workspace) -> Sequence[str]:
        return [str(each) for each in merger.gates.everything(tree, frozenset(tree.changes()) | touched)]

    task = "References and definitions of this run lead nowhere or are wrong."
    return not await merger.tried(workspace, merger.gate_prompt, task, allowed, wrong, GATE_STEPS)


def _blame(outcomes: Sequence[UnitOutcome], found: Sequence[Diagnostic], conclusions: Conclusions) -> dict[str, str]:
    """Return the units that wrote what is wrong -> the finding.

    Where none wrote it: those that changed the semantic layer of its connection, else those that removed anything.
    """
    landed = [each for each in outcomes if each.status is UnitStatus.DONE]
    blamed = {each.unit.key: str(finding) for finding in found for each in landed if finding.path in each.changes}
    blamed |= {
        unit: str(each) for each in found for made in conclusions.values() for unit in made.units.get(each.path, ())
    }
    blamed |= {} if blamed else _neighbours(landed, found)
    if blamed:
        return blamed
    gone = [each for each in landed if any(change.content is None for change in each.changes.values())]
    return {each.unit.key: str(found[0]) for each in gone}


def _neighbours(landed: Sequence[UnitOutcome], found: Sequence[Diagnostic]) -> dict[str, str]:
    """Return the units that changed definitions of the connection in which something is wrong -> the finding."""
    return {
        each.unit.key: str(finding)
        for finding in found
        for each in landed
        if finding.path.startswith(f"{SEMANTIC_NAME}/")
        and any(path.startswith(folder(finding.path.split("/")[1])) for path in each.changes)
    }


def _nothing(found: Sequence[Diagnostic]) -> Reconcile:
    async def reconcile(workspace: Workspace, outcomes: Sequence[UnitOutcome]) -> Reconciled:
        return Reconciled(problem=f"what it wrote leads nowhere: {found[0]}")

    return reconcile


ATTEMPTS: Final = 2
CONFLICT_STEPS: Final = 12
GATE_STEPS: Final = 16
LONGEST: Final = 200_000
"""Characters of a file that a repair may write."""

Check = Callable[[Workspace], Sequence[str]]
"""Returns what is wrong, one line each; nothing when the repair worked."""


class ReadFile(BaseModel):
    """Which file to read."""

    path: str = Field(description="One of the files named in the task.")


class WriteFile(BaseModel):
    """A whole file."""

    path: str = Field(description="One of the files named in the task.")
    content: str = Field(description="The whole new content.", max_length=LONGEST)


class DeleteFile(BaseModel):
    """Which file to delete."""

    path: str = Field(description="One of the files named in the task.")


@dataclass(frozen=True, slots=True)
class RepairTools:
    """The tools of a repair: of the whole project they reach the allowed paths alone."""

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
        return "There is no such file now." if text is None else wrapped(text, asked.path)

    async def _write(self, asked: WriteFile) -> str:
        path = self._checked(asked.path)
        told = unfit_lines(asked.content, self.workspace.read(path))
        if told:
            raise ToolError("this may not be in a file, so nothing was written:\n" + "\n".join(told))
        self.workspace.write(path, asked.content)
        return f"{asked.path} is written."

    async def _delete(self, asked: DeleteFile) -> str:
        self.workspace.delete(self._checked(asked.path))
        return f"{asked.path} is deleted."

    def _checked(self, path: str) -> str:
        if path not in self.allowed:
            raise ToolError(f"{path} is not among the files of this task", hint=f"they are {listing(self.allowed)}")
        return path


async def repair(
    runtime: LlmRuntime,
    workspace: Workspace,
    *,
    prompt: Prompt,
    task: str,
    allowed: Collection[str],
    check: Check,
    steps: int,
    abort: Abort | None = None,
) -> Sequence[str]:
    """Let the model change the allowed files until nothing is wrong, at most twice; return what still is.

    Nothing of a repair that failed stays in the overlay. Raises `LlmError` when the model failed.
    """
    problems = check(workspace)
    for _ in range(ATTEMPTS):
        if not problems:
            break
        trial = workspace.child()
        result = await runtime.run_agent_loop(
            f"{task}\n\n" + "\n".join(f"- {problem}" for problem in problems),
            system=prompt.text,
            tools=RepairTools(trial, frozenset(allowed)).tools(),
            step_budget=steps,
            role="repair",
            abort=abort,
            label=prompt.name,
        )
        if result.error is not None:
            raise result.error
        left = check(trial)
        if trial.changes() and not left:
            for path, content in trial.changes().items():
                if content is None:
                    workspace.delete(path)
                else:
                    workspace.write(path, content)
        problems = left if trial.changes() else problems
    return problems


if TYPE_CHECKING:
    pass

STEPS: Final = 60


@dataclass(frozen=True, slots=True)
class Reconciler:
    """What the loop needs; `session` opens its tools on an overlay, with what they show of the run."""

    runtime: LlmRuntime
    store: UnitStore
    session: Callable[[Workspace, StagedWork], ToolSession]
    prompt: Callable[[ToolSession], TaskPrompt]
    gates: Gates
    stop: Stop
    version: str
    emit: Emit

    async def run(self, workspace: Workspace, stage: StagedWork, outcomes: Sequence[UnitOutcome]) -> Reconciled:
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

    def _key(self, stage: StagedWork, outcomes: Sequence[UnitOutcome]) -> str:
        kept = [outcome.kept() for outcome in outcomes if outcome.status is UnitStatus.DONE]
        parts = [self.version, kept, {path: list(found) for path, found in stage.evictions.items()}]
        return store_key("", RECONCILE, parts)


def stage_of(outcomes: Sequence[UnitOutcome], evictions: Mapping[str, tuple[str, ...]]) -> StagedWork:
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
    return StagedWork(units, evictions)


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


def decided(work: SourceWork, reconciled: Reconciled, tree: Tree) -> tuple[frozenset[str], list[ResultWarning]]:
    """Return the deleted raw files of which nothing is left to decide, and a warning where there are others.

    A page that is not in `tree` needs no decision. Where the loop did not come to its end nothing is decided, and its
    problem says so.
    """
    if reconciled.problem or not reconciled.steps:
        return frozenset(), []
    records = reconciled.session.get("records", {}).get("evictions", ())
    begun = f"{work.connection}/"
    own = [each for each in records if each["raw_path"].startswith(begun)]
    said = {(each["raw_path"].removeprefix(begun), each["artifact"]) for each in own}
    left = {
        path: [each for each in artifacts if (path, each) not in said and not _is_gone(each, tree)]
        for path, artifacts in evicted(work).items()
    }
    undecided = {path: artifacts for path, artifacts in left.items() if artifacts}
    return frozenset(left) - frozenset(undecided), [_warning(work, undecided)] if undecided else []


def _is_gone(artifact: str, tree: Tree) -> bool:
    kind, _, name = artifact.partition(":")
    return kind == "wiki" and tree.read(page_path(GLOBAL, name)) is None


def _warning(work: SourceWork, undecided: Mapping[str, Sequence[str]]) -> ResultWarning:
    artifacts = sorted({each for found in undecided.values() for each in found})
    return ResultWarning(
        "undecided",
        f"{work.name}: the model left undecided what becomes of {listing(artifacts)}, "
        f"which came of files that are gone: {listing(sorted(undecided))}",
        hint="the next run with a model asks again; a page you delete needs no decision",
        connection=work.connection,
        files={path: list(found) for path, found in undecided.items()},
    )
