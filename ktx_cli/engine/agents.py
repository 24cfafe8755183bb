"""The agent part of a run: processes work units concurrently as agent tasks, then integrates their results.

It writes nothing to the project before the commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from ktx_cli.agent_tools import (
    PROMPTS,
    Find,
    Library,
    ToolSession,
    finder,
    load_prompts,
    open_searcher,
    tools_for,
    unit_prompt,
    unresolved_failures,
)
from ktx_cli.core import KtxError, Notice, StepFinished, StepStarted, UnitsPlanned, listing, monotonic, plural
from ktx_cli.documents import RawFile, WorkUnit
from ktx_cli.engine.digests import Digests, write_digests
from ktx_cli.engine.documents.curation import Curator
from ktx_cli.engine.documents.evidence import evidence_tools
from ktx_cli.engine.documents.lanes import Documents
from ktx_cli.engine.documents.questions import DocumentsAsked, write_questions
from ktx_cli.engine.documents.triage import AT_ONCE, QuestionRunner, load_document_prompts
from ktx_cli.engine.gates import Gates, MetricGate
from ktx_cli.engine.integration import AfterUnits, Consolidation, Integration, Integrator, Repairer
from ktx_cli.engine.models import ENDING_NOTICE, Models
from ktx_cli.engine.plan import RunPlan, Spending
from ktx_cli.engine.provenance import earlier_texts, with_shared_files
from ktx_cli.engine.reconciliation import raw_files, reconcile
from ktx_cli.engine.task import AgentContext, AgentRunner, AgentTask, Cancellation, ValueSamples
from ktx_cli.engine.work import Conclusions, SourceWork, TaskStore, UnitOutcome, UnitStatus, evicted, store_key, wrote
from ktx_cli.llm import LlmRuntime, LoopResult, ToolInvocation, create_embedder
from ktx_cli.project import StateDatabase, StateEnrichmentStore, Workspace
from ktx_cli.prompts import load_skills
from ktx_cli.sources import RawStore

ROLE: Final = "writer"


def unit_task(context: AgentContext, work: SourceWork, unit: WorkUnit) -> AgentTask:
    """Return the task for a unit, on its own overlay."""
    files = {**work.beside, **work.snapshot.files}
    session = context.open_session(
        context.base.child(),
        raw={path: files[path] for path in unit.readable if path in files},
        files=unit.files,
        foreign=frozenset(work.beside) - frozenset(work.snapshot.files),
        beside=work.shared,
        source=work.connection,
        origin=work.name,
        semantic=unit.semantic,
        why_not=unit.why_not,
        evidence=work.source.evidence,
    )
    if work.source.documents:
        session.citable = context.library.sources
        session.extra = evidence_tools(session, context.library)

    def judge(outcome: UnitOutcome, result: LoopResult) -> UnitOutcome:
        if not outcome.tool_calls:
            return outcome.failed(UnitStatus.FAILED, "the model ended without calling a tool")
        judged = judge_writes(context, session, outcome, result)
        ignored = [] if outcome.did_something else unread(unit.files, result.invocations, work.connection)
        if judged.status is UnitStatus.DONE and ignored:
            return outcome.failed(UnitStatus.FAILED, f"the model ended without reading {listing(ignored)}")
        return judged

    return AgentTask(
        unit,
        ROLE,
        prompt=lambda: unit_prompt(
            session,
            unit,
            context.prompts["work_unit"],
            skills=work.source.skills_of(unit),
            earlier=work.delivered.files,
            before=earlier_texts(RawStore(context.plan.layout.raw_store), work, unit),
        ),
        tools=lambda: tools_for(session, "unit"),
        step_budget=context.plan.config.ingest.work_units.step_budget,
        connection=work.connection,
        kind=work.kind,
        session=session,
        judge=judge,
        key=unit_key(context, work, unit),
        is_unit=True,
    )


def judge_writes(context: AgentContext, session: ToolSession, outcome: UnitOutcome, result: LoopResult) -> UnitOutcome:
    """Return an outcome as failed if a failed tool call was not repeated successfully or definitions are invalid."""
    failures = unresolved_failures(session, result.invocations)
    if failures:
        messages = listing(f"{failure.target}: {failure.message}" for failure in failures)
        return outcome.failed(UnitStatus.FAILED, f"tool calls failed and were not repeated successfully: {messages}")
    wrong = context.gates.definitions(session.workspace, outcome.changes)
    if wrong:
        return outcome.failed(UnitStatus.FAILED, f"the definitions written are invalid: {listing(map(str, wrong))}")
    return outcome


def unit_key(context: AgentContext, work: SourceWork, unit: WorkUnit) -> str:
    """Return the key under which a unit is stored; the same key means the same work."""
    files = {**work.beside, **work.snapshot.files}
    hashes = (_hashes(unit.files, files), _hashes(unit.dependencies, files))
    return store_key(work.connection, work.kind, [context.version(ROLE), unit.key, unit.notes, unit.semantic, *hashes])


def _hashes(paths: Sequence[str], files: Mapping[str, RawFile]) -> list[list[str]]:
    return [[path, files[path].sha256] for path in paths if path in files]


_READERS: Final = frozenset(("read_raw_file", "read_raw_span"))
_EVIDENCE_READER: Final = "context_evidence_read"
"""The tool that names passages instead of files: calling it counts as reading the documents."""


def unread(files: Sequence[str], invocations: Iterable[ToolInvocation], source: str = "") -> list[str]:
    """Return the files of a unit that no call requested; a refused call counts as a request.

    `source`: the connection of the files, which may prefix their paths.
    """
    asked: set[str] = set()
    for call in invocations:
        if call.name == _EVIDENCE_READER:
            return []
        if call.name in _READERS and not isinstance(call.arguments, str):
            path = PurePosixPath(str(call.arguments.get("path"))).as_posix()
            asked |= {path, path.removeprefix(f"{source}/")}
    return [path for path in files if path not in asked]


async def run_units(
    works: Iterable[SourceWork],
    run: Callable[[SourceWork, WorkUnit], Awaitable[UnitOutcome]],
    *,
    at_once: int,
    cancellation: Cancellation,
) -> list[UnitOutcome]:
    """Run the units of all sources concurrently and return their outcomes in order; a unit that did not start is
    `left`.
    """
    slots = asyncio.Semaphore(at_once)

    async def run_one(work: SourceWork, unit: WorkUnit) -> UnitOutcome:
        async with slots:
            if cancellation.is_set:
                return UnitOutcome(work.connection, work.kind, unit, UnitStatus.LEFT, "the run ended before it started")
            return await run(work, unit)

    units = [(work, unit) for work in works if work.error is None for unit in work.units]
    return list(await asyncio.gather(*(run_one(work, unit) for work, unit in units)))


def _no_conclusions(workspace: Workspace, outcomes: Sequence[UnitOutcome]) -> Conclusions:
    return {}


@dataclass(frozen=True, slots=True)
class AgentWork:
    """The work for the agents of a run."""

    plan: RunPlan
    works: Sequence[SourceWork]
    """The sources whose units are processed."""
    workspace: Workspace
    """The overlay of the run, which the agents start from."""
    task: Callable[[AgentContext, SourceWork, WorkUnit], AgentTask] = unit_task
    """Creates the task for a unit."""
    prompts: Sequence[str] = PROMPTS
    """The prompt names."""
    after_units: AfterUnits = _no_conclusions
    """Lets the sources write what follows from their units."""
    is_ingest: bool = True
    """Whether the units are consolidated at the end, and announced as a step."""
    is_patient: bool = True
    """Whether tasks in progress may finish after the first interrupt."""

    def context(self, database: StateDatabase, find: Find, library: Library | None = None) -> AgentContext:
        """Return what the tasks share; `database`: where column values are read."""
        from ktx_cli.semantic import ChangeChecks

        plan, base = self.plan, self.workspace.child()
        return AgentContext(
            plan,
            base,
            gates=Gates(
                base,
                plan.layers,
                MetricGate(plan.layout, plan.config, plan.environ, plan.warn),
                ChangeChecks(plan.layout, plan.config, plan.environ),
                plan.warn,
            ),
            prompts=load_prompts(plan.layout.root, self.prompts),
            skills=load_skills(plan.layout.root),
            library=library or Library({}),
            values=ValueSamples(database, codes=plan.config.scan.privacy == "local"),
            find=find,
        )


@dataclass(frozen=True, slots=True)
class AgentResult:
    """The result of the agents of a run, not yet in the run's overlay."""

    integration: Integration
    documents: Documents
    is_interrupted: bool
    """Whether the user asked to stop; finished work is kept for the next run."""
    stopped: KtxError | None
    """Why the model is no longer called."""
    failed: KtxError | None
    """What ended the units."""
    asked: DocumentsAsked = field(default_factory=DocumentsAsked)
    """The questions that document passages answer."""


def run_agents(work: AgentWork, models: Models, database: StateDatabase) -> AgentResult:
    """Let agents process the units of all sources, and integrate the results."""
    documents, cancellation = Documents.of(work.works, database), Cancellation()
    models.cancels(cancellation)
    with contextlib.closing(open_searcher(work.plan.layout, work.plan.config, work.plan.environ)) as searcher:
        context = work.context(
            database, finder(searcher, work.plan.config, ValueSamples(database, codes=True)), documents.library
        )
        phase = _Phase(work, context, documents, database, cancellation, models.spending)
        integration = models.ask_patiently(phase.run, phase.interrupt) if work.is_patient else models.ask(phase.run)
    return AgentResult(integration, documents, cancellation.requested, cancellation.error, phase.failed, phase.asked)


@dataclass(slots=True)
class _Phase:
    """The agent part of a run in progress."""

    work: AgentWork
    context: AgentContext
    documents: Documents
    database: StateDatabase
    cancellation: Cancellation
    spending: Spending
    failed: KtxError | None = None
    digests: Digests = field(default_factory=Digests)
    asked: DocumentsAsked = field(default_factory=DocumentsAsked)
    runner: AgentRunner = field(init=False)

    def interrupt(self) -> None:
        """Start no new tasks; work in progress may finish."""
        self.cancellation.requested = True
        self.work.plan.emit(Notice(ENDING_NOTICE))

    async def run(self, runtime: LlmRuntime) -> Integration:
        """Return the agent part as it would be committed."""
        work, context = self.work, self.context
        store = TaskStore(self.database, work.plan.layout.state)
        self.runner = AgentRunner(runtime, self.cancellation, store, work.plan.emit)
        await self._sort_documents(runtime)
        await self._write_digests(runtime)
        await self._write_questions(runtime)
        outcomes = await self._units()
        self.failed = self.cancellation.error
        if self.cancellation.requested or (self.cancellation.abort.thrown and not _has_changes(outcomes)):
            return Integration(context.base.child(), outcomes)
        repairer = Repairer(self.runner, context.prompts, self._repair_session)
        integrator = Integrator(context.gates, repairer, self._consolidate, work.after_units)
        return await integrator.integrate(context.base, outcomes)

    def _questions(self, runtime: LlmRuntime) -> QuestionRunner:
        plan = self.work.plan
        at_once = max(AT_ONCE, plan.config.ingest.work_units.max_concurrency)
        return QuestionRunner(runtime, StateEnrichmentStore(plan.layout, self.database), self.cancellation, at_once)

    def _repair_session(self, trial: Workspace) -> ToolSession:
        """Return the recorder for contradictions found by a repair; any raw file of the run may be a source of one."""
        raw = raw_files(self.work.works)
        return self.context.open_session(trial, raw=raw, files=tuple(raw), whole_run=True)

    async def _sort_documents(self, runtime: LlmRuntime) -> None:
        if self.documents.works:
            plan = self.work.plan
            await self.documents.sort(self._questions(runtime), load_document_prompts(plan.layout.root), plan.emit)

    async def _write_digests(self, runtime: LlmRuntime) -> None:
        plan = self.work.plan
        self.digests = await write_digests(self.work.works, self._questions(runtime), plan.layout.root, plan.emit)
        for warning in self.digests.warnings():
            plan.warn(warning)

    async def _write_questions(self, runtime: LlmRuntime) -> None:
        plan, documents = self.work.plan, self.documents
        questions, root = self._questions(runtime), plan.layout.root
        self.asked = await write_questions(
            documents.works, documents.library, questions, self.database, root, plan.emit
        )
        for warning in self.asked.warnings():
            plan.warn(warning)

    async def _units(self) -> list[UnitOutcome]:
        work, started = self.work, monotonic()
        if work.is_ingest:
            work.plan.emit(StepStarted("units"))
        narrowed = (self.digests.narrowed(self.documents.narrowed(source)) for source in work.works)
        works = with_shared_files(list(narrowed))
        for source in works:
            if source.units and source.error is None:
                work.plan.emit(UnitsPlanned(source.connection, source.kind, len(source.units)))
        left = await self._run_units(works)
        outcomes = [*self.digests.outcomes.values(), *left]
        if work.is_ingest:
            done = sum(outcome.status is UnitStatus.DONE for outcome in outcomes)
            summary = f"{done} of {plural(len(outcomes), 'unit')} done"
            work.plan.emit(StepFinished("units", summary, monotonic() - started))
        return outcomes

    async def _run_units(self, works: Sequence[SourceWork]) -> list[UnitOutcome]:
        """Run the units in this process, or on workers."""
        work = self.work
        at_once = work.plan.config.ingest.work_units.max_concurrency
        has_units = any(source.units for source in works if source.error is None)
        if not (work.is_ingest and has_units and work.plan.is_distributed):
            return await run_units(works, self._unit, at_once=at_once, cancellation=self.cancellation)
        from ktx_cli.engine.coordinator import coordinating

        make = functools.partial(work.task, self.context)
        async with coordinating(work.plan, self.context, self.runner, make, works, self.spending) as run:

            async def run_one(source: SourceWork, unit: WorkUnit) -> UnitOutcome:
                return self._judged(unit, await run(source, unit))

            count = sum(len(source.units) for source in works)
            return await run_units(works, run_one, at_once=max(1, count), cancellation=self.cancellation)

    async def _unit(self, source: SourceWork, unit: WorkUnit) -> UnitOutcome:
        return self._judged(unit, await self.runner.run(self.work.task(self.context, source, unit)))

    def _judged(self, unit: WorkUnit, outcome: UnitOutcome) -> UnitOutcome:
        """End the run after a failed unit, if the settings say so."""
        aborts = self.work.is_ingest and self.work.plan.config.ingest.work_units.failure_mode == "abort"
        if outcome.status is UnitStatus.FAILED and aborts:
            self.cancellation.record(KtxError(f"the work unit `{unit.key}` failed: {outcome.reason}"), always=True)
        return outcome

    async def _consolidate(self, workspace: Workspace, merged: Sequence[UnitOutcome]) -> Consolidation:
        if not self.work.is_ingest:
            return Consolidation()
        curator = self._curator()
        curations = () if self.cancellation.is_set else await self.documents.curate(curator, workspace, merged)
        has_work = _has_changes(merged) or any(map(evicted, self.work.works))
        if self.cancellation.is_set or not has_work:
            return Consolidation(curations=curations)
        outcomes = [*merged, *(outcome for curation in curations for outcome in curation.outcomes)]
        reconciliation = await reconcile(self.context, self.runner, workspace, self.work.works, outcomes)
        return Consolidation(reconciliation, curations)

    def _curator(self) -> Curator:
        work = self.work
        prompt = load_document_prompts(work.plan.layout.root).curate
        return Curator(
            self.context,
            self.runner,
            prompt,
            lambda: create_embedder(work.plan.config, work.plan.layout.root, work.plan.environ),
        )


def _has_changes(outcomes: Sequence[UnitOutcome]) -> bool:
    """Whether a finished unit wrote anything."""
    return any(outcome.status is UnitStatus.DONE and (outcome.changes or wrote(outcome)) for outcome in outcomes)
