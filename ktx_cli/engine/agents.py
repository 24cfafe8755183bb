"""The agents' part of a run: units side by side, merged, looked over, checked; nothing of it is on the disk before."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ktx_cli.agent_tools import (
    Find,
    TaskPrompt,
    ToolSession,
    finder,
    load_prompts,
    open_searcher,
    reconcile_prompt,
    unit_prompt,
)
from ktx_cli.core import (
    CancelledError,
    Hint,
    KtxError,
    Notice,
    StepFinished,
    StepStarted,
    UnitsPlanned,
    monotonic,
    plural,
)
from ktx_cli.engine.base import Run
from ktx_cli.engine.documents.passes import Curator, Passes
from ktx_cli.engine.documents.phase import Documents, Sorter
from ktx_cli.engine.documents.questions import AT_ONCE, load_document_prompts
from ktx_cli.engine.gates import Gates, MetricGate, page_warnings
from ktx_cli.engine.integration import Merger, Reconciler, Settled, decided, settle, stage_of
from ktx_cli.engine.journal import UnitStore
from ktx_cli.engine.models import ENDING_NOTICE, Models
from ktx_cli.engine.source_phase import conclude, take_conclusions
from ktx_cli.engine.task import Loops, Opener, Piece, Samples, Stop, evicted, run_units
from ktx_cli.engine.work import Conclusions, Reconciled, UnitOutcome, UnitStatus, wrote
from ktx_cli.llm import LlmRuntime, create_embedder, model_for
from ktx_cli.project import StateEnrichmentStore, Workspace, merge_lines
from ktx_cli.prompts import Prompt, Skill, load_skills

FORMAT: Final = "1"
"""Raised when the same unit would be worked on in another way."""


def run_agents(run: Run, models: Models, database: sqlite3.Connection) -> None:
    """Let agents work through the units of all sources, and put what lands into the overlay of the run.

    Raises `CancelledError` when the user asked to end: finished units are kept for the next run.
    """
    documents = Documents.of(run.works, database)
    evictions = {f"{work.connection}/{path}": found for work in run.works for path, found in evicted(work).items()}
    with contextlib.closing(open_searcher(run.layout, run.config, run.request.environ)) as searcher:
        find = finder(searcher, run.config)
        phase = _Phase(run, database, UnitStore(database, run.layout.state), documents, evictions, find)
        phase.stop.error = models.stopped  # what ended the questions about tables ends these too
        run.spending.listeners.append(phase.stop.now)
        settled = models.ask_patiently(phase.work, phase.interrupted)
    if phase.stop.asked:
        raise CancelledError("interrupted", hint=Hint("run `{}` again: finished work is kept", run.request.command))
    if run.config.ingest.work_units.failure_mode == "abort" and phase.failed is not None:
        raise phase.failed
    _take_over(run, settled, documents)
    run.report.stopped = phase.stop.error


def _take_over(run: Run, settled: Settled, documents: Documents) -> None:
    written = [*settled.outcomes, *documents.outcomes(settled.reconciled.curated)]
    run.warnings.extend(page_warnings(run.works, written, run.workspace, settled.workspace))
    run.workspace.absorb(settled.workspace)
    run.curated = settled.reconciled.curated
    run.report.documents = documents.to_json(run.curated)
    run.warnings.extend(documents.warnings(run.curated))
    for work in run.works:
        work.worthless = documents.skipped(work)
        own = [each for each in written if (each.connection, each.kind) == (work.connection, work.kind)]
        work.outcomes = tuple(own)
        work.evicted, undecided = decided(work, settled.reconciled, settled.workspace)
        run.warnings.extend(undecided)
    take_conclusions(run, settled.conclusions)
    run.report.reconciled = settled.reconciled
    run.report.repaired = settled.repaired


@dataclass(slots=True)
class _Phase:
    """The agents' part while it lasts."""

    run: Run
    database: sqlite3.Connection
    store: UnitStore
    documents: Documents
    evictions: Mapping[str, tuple[str, ...]]
    find: Find
    stop: Stop = field(default_factory=Stop)
    failed: KtxError | None = None
    base: Workspace = field(init=False)
    prompts: Mapping[str, Prompt] = field(init=False)
    skills: Mapping[str, Skill] = field(init=False)
    gates: Gates = field(init=False)

    def __post_init__(self) -> None:
        self.base = self.run.workspace.child()
        self.prompts = load_prompts(self.run.layout.root)
        self.skills = load_skills(self.run.layout.root)
        self.gates = Gates(self.base, self.run.layers, MetricGate(self.run))

    def interrupted(self) -> None:
        """Begin nothing new; what is under way may end."""
        self.stop.asked = True
        self.run.request.emit(Notice(ENDING_NOTICE))

    async def work(self, runtime: LlmRuntime) -> Settled:
        """Return the agents' part as it would land."""
        opener = Opener(
            self.run,
            self.base,
            self.skills,
            self.documents.library,
            self.gates.layers,
            Samples(self.database),
            self.find,
        )
        await self.documents.sort(self._sorter(runtime))
        outcomes = await self._units(runtime, opener)
        self.failed = self.stop.error
        if self.stop.asked or (self.stop.abort.thrown and not self._landing(outcomes)):
            return Settled(self.base.child(), outcomes, Reconciled())
        merger = Merger(
            self.gates, merge_lines, runtime, self.prompts["conflict_repair"], self.prompts["gate_repair"], self.stop
        )
        reconciler = Reconciler(
            runtime,
            self.store,
            opener.reconcile,
            self._reconcile_prompt,
            self.gates,
            self.stop,
            self._version("reconcile"),
            self.run.request.emit,
        )

        curator = self._curator(runtime, opener)

        async def reconcile(workspace: Workspace, merged: Sequence[UnitOutcome]) -> Reconciled:
            curated = () if self.stop.is_set else await self.documents.curate(curator, workspace, merged)
            if self.stop.is_set or not (self._landing(merged) or self.evictions):
                return Reconciled(curated=curated)
            everything = [*merged, *(outcome for each in curated for outcome in each.outcomes)]
            found = await reconciler.run(workspace, stage_of(everything, self.evictions), everything)
            return replace(found, curated=curated)

        return await settle(self.base, outcomes, merger, reconcile, self._conclude)

    def _conclude(self, workspace: Workspace, outcomes: Sequence[UnitOutcome]) -> Conclusions:
        return conclude(self.run.works, workspace, self.run.layers, outcomes)

    def _sorter(self, runtime: LlmRuntime) -> Sorter:
        run, settings = self.run, self.run.config.ingest.work_units
        return Sorter(
            runtime,
            StateEnrichmentStore(run.layout, self.database),
            self.documents.library,
            load_document_prompts(run.layout.root),
            self.stop,
            max(AT_ONCE, settings.max_concurrency),
            run.request.emit,
        )

    def _curator(self, runtime: LlmRuntime, opener: Opener) -> Curator:
        run = self.run
        passes = Passes(
            runtime,
            self.store,
            opener.curate,
            self.documents.library,
            load_document_prompts(run.layout.root).curate,
            self.gates,
            merge_lines,
            self.stop,
            self._version("curator"),
            run.request.emit,
        )
        return Curator(passes, lambda: create_embedder(run.config, run.layout.root, run.request.environ))

    async def _units(self, runtime: LlmRuntime, opener: Opener) -> list[UnitOutcome]:
        emit, settings = self.run.request.emit, self.run.config.ingest.work_units
        loops = Loops(
            runtime,
            self.store,
            opener.unit,
            self._unit_prompt,
            self.gates,
            self.base,
            self.stop,
            self._version("candidateExtraction"),
            settings.step_budget,
            emit,
            abort_on_failure=settings.failure_mode == "abort",
        )
        emit(StepStarted("units"))
        started = monotonic()
        for work in self.run.works:
            if work.units and work.error is None:
                emit(UnitsPlanned(work.connection, work.kind, len(work.units)))
        pieces = [Piece(work, unit) for work in self.run.works if work.error is None for unit in work.units]
        outcomes = await run_units(pieces, loops.run, at_once=settings.max_concurrency, stop=self.stop)
        done = sum(each.status is UnitStatus.DONE for each in outcomes)
        emit(StepFinished("units", f"{done} of {plural(len(outcomes), 'unit')} done", monotonic() - started))
        return outcomes

    def _unit_prompt(self, piece: Piece, session: ToolSession) -> TaskPrompt:
        skills, earlier = piece.work.source.skills, piece.work.manifest.files
        return unit_prompt(session, piece.unit, self.prompts["work_unit"], skills=skills, earlier=earlier)

    def _reconcile_prompt(self, session: ToolSession) -> TaskPrompt:
        return reconcile_prompt(session, self.prompts["reconcile"])

    def _version(self, role: str) -> str:
        texts = {name: prompt.version for name, prompt in self.prompts.items()}
        skills = {name: hashlib.sha256(skill.text.encode()).hexdigest() for name, skill in self.skills.items()}
        ref = model_for(self.run.config, role)
        parts = [FORMAT, texts, skills, ref.backend, ref.model]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @staticmethod
    def _landing(outcomes: Sequence[UnitOutcome]) -> bool:
        return any(each.status is UnitStatus.DONE and (each.changes or wrote(each)) for each in outcomes)
