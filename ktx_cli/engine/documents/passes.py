"""One pass of a curator: its loop on an overlay of its own, kept when it is done, gone on with when it was cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ktx_cli.agent_tools import Library, PageBudget, StagedWork, ToolSession, tools_for
from ktx_cli.core import Emit, KtxError, WorkUnitFinished, WorkUnitStarted, WorkUnitStep, plural
from ktx_cli.documents import WorkUnit
from ktx_cli.engine.documents.candidates import (
    NO_VERDICT,
    OVER_BUDGET,
    OVER_PASSES,
    PASS_ERROR,
    RUN_ENDED,
    Book,
    Candidate,
    budget_used,
    carry,
    mark_tool,
    unique,
)
from ktx_cli.engine.documents.curation import CREATES, STEPS, UPDATES, CurationReport, Pass, Queue, curate_prompt
from ktx_cli.engine.documents.duplicates import deduplicate
from ktx_cli.engine.documents.evidence import evidence_tools
from ktx_cli.engine.gates import Gates
from ktx_cli.engine.journal import UnitJournal, UnitStore, store_key
from ktx_cli.engine.task import Stop
from ktx_cli.engine.work import Curated, SourceWork, UnitOutcome, UnitStatus, absorb, actions_of, changes_of, wrote
from ktx_cli.llm import Embedder, LlmRuntime, LoopResult, Step
from ktx_cli.project import TextMerge, Workspace
from ktx_cli.prompts import Prompt

OpenSession = Callable[[SourceWork, Workspace, StagedWork, tuple[str, ...]], ToolSession]
"""Takes a source, an overlay to write to, what the loop sees of the run, and the raw files its writes may name."""


@dataclass(frozen=True, slots=True)
class Passed:
    """A pass as it ended: `candidates` are those of its batch, each with a verdict; `budget`: what is left of it."""

    outcome: UnitOutcome
    candidates: tuple[Candidate, ...]
    budget: PageBudget

    def under(self, key: str) -> Passed:
        """Return the pass with the key it is stored under."""
        return replace(self, outcome=replace(self.outcome, kept_as=key))


@dataclass(frozen=True, slots=True)
class Passes:
    """What the passes of a run share. `version`: of prompts, skills and model, as units have it."""

    runtime: LlmRuntime
    store: UnitStore
    session: OpenSession
    library: Library
    prompt: Prompt
    gates: Gates
    text_merge: TextMerge
    stop: Stop
    version: str
    emit: Emit

    async def run(self, workspace: Workspace, work: SourceWork, task: Pass, stage: StagedWork) -> Passed:
        """Return how a pass ended; what it wrote is then in the overlay, all of it or nothing."""
        unit = _unit(task)
        key = self._key(work, task)
        kept = self.store.outcome(key)
        if kept is not None:
            replayed = _replayed(work, unit, kept).under(key)
            if not absorb(workspace, replayed.outcome, self.text_merge):
                self.emit(WorkUnitFinished(work.connection, unit.key, UnitStatus.DONE.value, "", replayed=True))
                return replayed
        self.emit(WorkUnitStarted(work.connection, unit.key, unit.label, len(unit.files)))
        passed = (await self._worked(workspace, work, task, stage, key)).under(key)
        if passed.outcome.status is UnitStatus.DONE:
            self.store.keep(key, work.connection, work.kind, unit.key, _kept(passed))
            absorb(workspace, passed.outcome, self.text_merge)
        elif passed.outcome.status is UnitStatus.FAILED:
            self.store.drop_steps(key)
        self.emit(WorkUnitFinished(work.connection, unit.key, passed.outcome.status.value, passed.outcome.reason))
        return passed

    async def _worked(self, workspace: Workspace, work: SourceWork, task: Pass, stage: StagedWork, key: str) -> Passed:
        session = self.session(work, workspace.child(), stage, task.files)
        book = Book.of(task.batch, task.promoted)
        session.budget = replace(task.budget)
        session.refs_later = False  # every page there will be is there, or is this loop's own to write first
        session.extra = (*session.extra, *evidence_tools(session, self.library), mark_tool(session, book))
        count = _Count(work.connection, _unit(task).key, self.emit)
        try:
            prompts = curate_prompt(session, self.prompt, task, self.library, work.source.skills)
            result = await self.runtime.run_agent_loop(
                prompts.prompt,
                system=prompts.system,
                tools=tools_for(session, "curate"),
                step_budget=STEPS,
                role="curator",
                on_step_finish=count.step,
                abort=self.stop.abort,
                journal=self._journal(key, session, book),
                label=f"{work.connection}:{_unit(task).key}",
            )
        except KtxError as error:
            return self._broken(work, task, error)
        if result.error is not None:
            return self._broken(work, task, result.error)
        return self._judged(workspace, work, task, (session, book), result)

    def _journal(self, key: str, session: ToolSession, book: Book) -> UnitJournal:
        def state() -> Mapping[str, Any]:
            return {"session": session.state(), "candidates": book.to_json()}

        def restore(stored: Mapping[str, Any]) -> None:
            session.restore(stored["session"])
            book.restore(stored["candidates"])

        return UnitJournal(self.store, key, state=state, restore=restore)

    def _broken(self, work: SourceWork, task: Pass, error: KtxError) -> Passed:
        """Return a pass that did not come to its end: left where the whole run cannot go on."""
        ends = self.stop.note(error) or error.code == "cancelled"
        return unfinished(work, task, UnitStatus.LEFT if ends else UnitStatus.FAILED, error.message)

    def _judged(
        self, workspace: Workspace, work: SourceWork, task: Pass, at: tuple[ToolSession, Book], result: LoopResult
    ) -> Passed:
        session, book = at
        changes = changes_of(session.workspace, workspace)
        wrong = self.gates.definitions(session.workspace, changes)
        if wrong:
            return unfinished(work, task, UnitStatus.FAILED, f"definitions it wrote are wrong: {wrong[0]}")
        left = session.budget or task.budget
        candidates = tuple(_with_verdict(each, left) for each in book.candidates.values())
        said = {name: value for name, value in session.state().items() if name in ("actions", "records")}
        outcome = replace(
            _outcome(work, _unit(task), UnitStatus.DONE),
            changes=changes,
            session={
                **said,
                "actions": _with_sources(said["actions"], candidates, task.files),
                "merged": _merged(candidates),
            },
            steps=result.facts.steps,
            tool_calls=result.facts.tool_calls,
            budget_used=result.stop_reason == "budget",
        )
        return Passed(outcome, candidates, left)

    def _key(self, work: SourceWork, task: Pass) -> str:
        parts = [
            "curate",
            self.version,
            self.prompt.version,
            task.number,
            [each.to_json() for each in task.batch],
            [task.budget.creates, task.budget.updates],
            list(task.promoted),
        ]
        return store_key(work.connection, work.kind, parts)


def unfinished(work: SourceWork, task: Pass, status: UnitStatus, reason: str) -> Passed:
    """Return a pass of which nothing landed: its documents count as new in the next run."""
    said = PASS_ERROR if status is UnitStatus.FAILED else RUN_ENDED
    candidates = tuple(each.judged("rejected", said) for each in task.batch)
    return Passed(_outcome(work, _unit(task), status, reason), candidates, task.budget)


def _unit(task: Pass) -> WorkUnit:
    label = f"{plural(len(task.batch), 'candidate')} of documents"
    return WorkUnit(f"curate:{task.number}", label, task.files)


def _outcome(work: SourceWork, unit: WorkUnit, status: UnitStatus, reason: str = "") -> UnitOutcome:
    return UnitOutcome(work.connection, work.kind, unit, status, reason)


def _with_verdict(candidate: Candidate, budget: PageBudget) -> Candidate:
    """Return a candidate the curator said nothing of with the verdict that is true of it."""
    if candidate.status != "pending":
        return candidate
    return candidate.judged("rejected", OVER_BUDGET if budget_used(budget) else NO_VERDICT)


def _with_sources(
    actions: Sequence[Mapping[str, Any]], candidates: Sequence[Candidate], files: tuple[str, ...]
) -> list[Mapping[str, Any]]:
    """Return actions with the raw files of the candidates that went into them, where the curator named no files."""
    made: list[Mapping[str, Any]] = []
    for each in actions:
        identity = f"wiki:{each['key']}" if each["target"] == "wiki" else f"sl:{each['connection']}/{each['key']}"
        paths = sorted({path for one in candidates if one.into == identity for path in one.paths})
        named = set(each["raw_paths"]) != set(files)
        made.append({**each, "raw_paths": sorted({*each["raw_paths"], *paths} if named else paths or files)})
    return made


def _merged(candidates: Sequence[Candidate]) -> dict[str, list[str]]:
    """Return artifacts that said it already -> the raw files that say it too."""
    found: dict[str, set[str]] = {}
    for each in candidates:
        if each.status == "merged":
            found.setdefault(each.into, set()).update(each.paths)
    return {artifact: sorted(paths) for artifact, paths in sorted(found.items())}


def _kept(passed: Passed) -> dict[str, Any]:
    budget = [passed.budget.creates, passed.budget.updates]
    return {
        **passed.outcome.kept(),
        "candidates": [each.to_json() for each in passed.candidates],
        "budget": budget,
    }


def _replayed(work: SourceWork, unit: WorkUnit, kept: Mapping[str, Any]) -> Passed:
    outcome = UnitOutcome.of_kept(work.connection, work.kind, unit, kept)
    candidates = tuple(Candidate.from_json(each) for each in kept["candidates"])
    return Passed(outcome, candidates, PageBudget(*kept["budget"]))


@dataclass(slots=True)
class _Count:
    """Tells the steps of a pass, with how many tools were called so far."""

    connection: str
    unit: str
    emit: Emit
    calls: int = 0

    def step(self, step: Step) -> None:
        self.calls += len(step.tool_names)
        self.emit(WorkUnitStep(self.connection, self.unit, step.index, step.budget, self.calls))


@dataclass(frozen=True, slots=True)
class Curator:
    """Curates the candidates of one source after another. `embedder`: who makes vectors, None: words are compared."""

    passes: Passes
    embedder: Callable[[], Embedder | None]

    async def run(
        self,
        workspace: Workspace,
        work: SourceWork,
        candidates: Iterable[Candidate],
        earlier: Iterable[Candidate],
        merged: Sequence[UnitOutcome],
        stage: StagedWork,
    ) -> Curated:
        """Return the verdict on every candidate; what passes wrote is in the overlay.

        `earlier`: candidates that wait since earlier runs; `merged`: the units of the run, whose pages count too.
        """
        present = unique(candidates)
        carried = carry(earlier, {each.key for each in present}, self.passes.library)
        everything = [*present, *carried.candidates]
        pending = [each for each in everything if each.status == "pending"]
        found = await asyncio.to_thread(deduplicate, pending, self.embedder)
        settled = [*carried.gone, *found.merged, *(each for each in everything if each.status != "pending")]
        curated = Curated(work, CurationReport(carried=len(carried.candidates), warnings=found.warnings))
        curated.report.repeated = len(found.merged)
        queue, budget = Queue(found.left), _budget(work, merged)
        settled += await self._curate(workspace, curated, queue, budget, stage)
        curated.report.candidates = tuple(sorted(settled, key=lambda each: each.rank))
        return curated

    async def _curate(
        self, workspace: Workspace, curated: Curated, queue: Queue, budget: PageBudget, stage: StagedWork
    ) -> list[Candidate]:
        """Run the passes there are, and return all candidates of the queue with their verdicts."""
        judged: list[Candidate] = []
        report = curated.report
        while not self.passes.stop.is_set and not _is_empty(budget) and (task := queue.next(budget)) is not None:
            passed = await self.passes.run(workspace, curated.work, task, stage)
            self._note(curated, queue, passed)
            judged += passed.candidates
            budget = passed.budget
        report.passes, report.examined = queue.passes, queue.taken
        report.budget_exhausted = _is_empty(budget)
        if self.passes.stop.is_set:
            return judged + self._left(curated, queue)
        reason = OVER_BUDGET if report.budget_exhausted else OVER_PASSES
        return judged + [each.judged("rejected", reason) for each in queue.left]

    def _left(self, curated: Curated, queue: Queue) -> list[Candidate]:
        """Give up what the run had no time for; its documents count as new in the next run."""
        left, queue.left = queue.left, []
        if left:
            paths = tuple(sorted({path for each in left for path in each.paths}))
            unit = WorkUnit("curate:rest", "candidates of documents", paths)
            work = curated.work
            why = "the run ended before it"
            curated.outcomes.append(UnitOutcome(work.connection, work.kind, unit, UnitStatus.LEFT, why))
        return [each.judged("rejected", RUN_ENDED) for each in left]

    @staticmethod
    def _note(curated: Curated, queue: Queue, passed: Passed) -> None:
        curated.outcomes.append(passed.outcome)
        if passed.outcome.status is UnitStatus.DONE:
            written = (each.identity for each in wrote(passed.outcome) if each.kind != "removed")
            queue.promoted = list(dict.fromkeys((*queue.promoted, *written)))


def _is_empty(budget: PageBudget) -> bool:
    return max(budget.creates, budget.updates) <= 0


def _budget(work: SourceWork, merged: Iterable[UnitOutcome]) -> PageBudget:
    """Return how many pages the source's settings leave, without those its units wrote."""
    own = [each for each in merged if (each.connection, each.kind) == (work.connection, work.kind)]
    landed = [action for each in own if each.status is UnitStatus.DONE for action in actions_of(each)]
    wrote = [each.kind for each in landed if each.target == "wiki"]
    creates = int(getattr(work.entry, "max_knowledge_creates", CREATES))
    updates = int(getattr(work.entry, "max_knowledge_updates", UPDATES))
    older_creates = getattr(work.entry, "max_knowledge_creates_per_run", None)
    older_updates = getattr(work.entry, "max_knowledge_updates_per_run", None)
    creates, updates = _first(older_creates, creates), _first(older_updates, updates)
    return PageBudget(max(0, creates - wrote.count("created")), max(0, updates - wrote.count("updated")))


def _first(older: int | None, own: int) -> int:
    """Return a limit by the name the TypeScript ktx has for it, where the file has that; else the one of ours."""
    return own if older is None else older
