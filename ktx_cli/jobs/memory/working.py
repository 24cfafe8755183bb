"""The agent's part of a capture: one loop on an overlay, the gates with their repair, and what is accepted compared."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.context.documents.library import Library
from ktx_cli.context.prompts import Prompt
from ktx_cli.context.tools.accepting import lost_in
from ktx_cli.context.tools.finding import Find, in_memory
from ktx_cli.context.tools.prompting import MEMORY_PROMPTS, TaskPrompt, load_prompts, memory_prompt
from ktx_cli.context.tools.records import page_artifact
from ktx_cli.context.tools.session import ToolSession
from ktx_cli.context.tools.skills import Skill, load_skills
from ktx_cli.context.wiki.keys import GLOBAL, place_of, user_scope
from ktx_cli.core.events import Notice, UnitsPlanned
from ktx_cli.core.text import listing
from ktx_cli.jobs.ingest.gates import Gates
from ktx_cli.jobs.ingest.metric_gate import MetricGate
from ktx_cli.jobs.ingest.models import ENDING_NOTICE, Models
from ktx_cli.jobs.ingest.running import Run
from ktx_cli.jobs.ingest.sources.told import Tellings
from ktx_cli.jobs.ingest.units.driver import Piece, Stop
from ktx_cli.jobs.ingest.units.loop import Loops
from ktx_cli.jobs.ingest.units.merging import Merger
from ktx_cli.jobs.ingest.units.noting import page_warnings
from ktx_cli.jobs.ingest.units.opening import Opener, dialects
from ktx_cli.jobs.ingest.units.outcome import UnitOutcome, UnitStatus
from ktx_cli.jobs.ingest.units.reconciling import Reconciled
from ktx_cli.jobs.ingest.units.samples import Samples
from ktx_cli.jobs.ingest.units.settling import Settled, settle
from ktx_cli.jobs.ingest.units.store import UnitStore
from ktx_cli.jobs.memory.records import MemoryRecord
from ktx_cli.jobs.memory.request import BOUNDS
from ktx_cli.jobs.search import finder, open_searcher
from ktx_cli.llm.roles import model_for
from ktx_cli.llm.runtime import LlmRuntime
from ktx_cli.project.repository import merge_file
from ktx_cli.project.workspace import Workspace

FORMAT: Final = "1"
"""Raised when the same text would be worked on in another way."""

ROLE: Final = "candidateExtraction"


@dataclass(frozen=True, slots=True)
class Landed:
    """What the agent's part came to. `outcome`: of the one unit; `conflicts`: what it left as it is, for a person.

    `stop`: why the model was not asked any more.
    """

    outcome: UnitOutcome
    conflicts: tuple[Mapping[str, Any], ...]
    stop: Stop


def run_capture(
    run: Run, record: MemoryRecord, models: Models, database: sqlite3.Connection, *, patient: bool
) -> Landed:
    """Let the agent work, and put what may land into the overlay of the run.

    `patient`: the first interrupt waits for the end of the loop; else it ends at once. Its steps are kept.
    """
    with contextlib.closing(open_searcher(run.layout, run.config, run.request.environ)) as searcher:
        phase = Phase(
            run, record, UnitStore(database, run.layout.state), Samples(database), finder(searcher, run.config)
        )
        phase.stop.error = models.stopped
        run.spending.listeners.append(phase.stop.now)
        settled = models.ask_patiently(phase.work, phase.interrupted) if patient else models.ask(phase.work)
    run.report.stopped = phase.stop.error
    run.report.repaired = settled.repaired
    return phase.landed(settled)


@dataclass(slots=True)
class Phase:
    """The agent's part while it lasts."""

    run: Run
    record: MemoryRecord
    store: UnitStore | None
    samples: Samples
    find: Find | None = None
    stop: Stop = field(default_factory=Stop)
    base: Workspace = field(init=False)
    prompts: Mapping[str, Prompt] = field(init=False)
    skills: Mapping[str, Skill] = field(init=False)
    gates: Gates = field(init=False)

    def __post_init__(self) -> None:
        self.base = self.run.workspace.child()
        self.prompts = load_prompts(self.run.layout.root, MEMORY_PROMPTS)
        self.skills = load_skills(self.run.layout.root)
        self.gates = Gates(self.base, self.run.layers, MetricGate(self.run))

    @property
    def piece(self) -> Piece:
        """The one unit of the run."""
        (work,) = self.run.works
        return Piece(work, work.units[0])

    def interrupted(self) -> None:
        """Begin nothing new; what is under way may end."""
        self.stop.asked = True
        self.run.request.emit(Notice(ENDING_NOTICE))

    def session(self, piece: Piece) -> ToolSession:
        """Return the tools of the loop."""
        named, known = self.record.connection, dialects(self.run)
        opener = Opener(
            self.run,
            self.base,
            self.skills,
            Library({}),
            self.gates.layers,
            self.samples,
            self.find or in_memory(self.gates.layers),
        )
        return opener.capture(
            piece,
            scope=GLOBAL if self.record.user is None else user_scope(self.record.user),
            connections=known if named is None else {named: known[named]} if named in known else {},
            accepted=None if self.may_change else self.base,
        )

    def task(self, piece: Piece, session: ToolSession) -> TaskPrompt:
        """Return the prompts of the loop."""
        return memory_prompt(session, self.prompts["memory"], self.record.content, self._rules())

    async def work(self, runtime: LlmRuntime) -> Settled:
        """Return what the loop came to, merged and checked; the run's overlay is as it was."""
        assert self.store is not None
        piece, emit = self.piece, self.run.request.emit
        loops = Loops(
            runtime,
            self.store,
            self.session,
            self.task,
            self.gates,
            self.base,
            self.stop,
            self._version(),
            BOUNDS[self.record.source_type].steps,
            emit,
            stage="memory",
        )
        emit(UnitsPlanned(piece.work.connection, piece.work.kind, 1))
        outcome = await loops.run(piece)
        if self.stop.asked:
            return Settled(self.base.child(), [outcome], Reconciled())
        repairs = self.prompts["conflict_repair"], self.prompts["gate_repair"]
        merger = Merger(self.gates, merge_file, runtime, *repairs, self.stop)
        return await settle(self.base, [outcome], merger, _nothing_to_reconcile, _nothing_to_tell)

    def landed(self, settled: Settled) -> Landed:
        """Put what was settled into the overlay of the run, unless it would change what is accepted."""
        (outcome,) = settled.outcomes
        (work,) = self.run.works
        conflicts: list[Mapping[str, Any]] = []
        if outcome.status is UnitStatus.DONE:
            conflicts = list(outcome.session.get("records", {}).get("conflicts", ()))
            lost = {} if self.may_change else self._lost(settled.workspace)
            if lost:
                conflicts += [_as_conflict(path, lines) for path, lines in lost.items()]
                outcome = outcome.failed(UnitStatus.QUARANTINED, f"it would change what is accepted: {listing(lost)}")
        if outcome.status is UnitStatus.DONE:
            self.run.warnings.extend(page_warnings([work], [outcome], self.run.workspace, settled.workspace))
            self.run.workspace.absorb(settled.workspace)
        work.outcomes = (outcome,)
        return Landed(outcome, tuple(conflicts), self.stop)

    @property
    def may_change(self) -> bool:
        """Whether accepted content may be changed: a person said so, or will look at it."""
        return self.record.replace or self.record.propose

    def _lost(self, after: Workspace) -> Mapping[str, list[str]]:
        return lost_in(self.base, after, after.changes(), self.gates.layers)

    def _rules(self) -> str:
        record = self.record
        rules = [BOUNDS[record.source_type].stance]
        if record.user is not None:
            rules.append(f"Pages you write are the own pages of the user `{record.user}`, seen by nobody else.")
        if self.may_change:
            rules.append(
                "In this task accepted context may be changed where the text plainly contradicts it: correct the page "
                "or the definition it contradicts, and leave the rest of it as it is."
            )
        return " ".join(rules)

    def _version(self) -> str:
        texts = {name: prompt.version for name, prompt in self.prompts.items()}
        skills = {name: hashlib.sha256(skill.text.encode()).hexdigest() for name, skill in self.skills.items()}
        ref = model_for(self.run.config, ROLE)
        parts = [FORMAT, texts, skills, ref.backend, ref.model]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


async def _nothing_to_reconcile(workspace: Workspace, outcomes: Sequence[UnitOutcome]) -> Reconciled:
    return Reconciled()


def _nothing_to_tell(workspace: Workspace, outcomes: Sequence[UnitOutcome]) -> Tellings:
    return {}


def _as_conflict(path: str, lost: Sequence[str]) -> Mapping[str, Any]:
    """Return the conflict of a change that no tool let through and a repair made."""
    place = place_of(path)
    parts = path.split("/")
    artifact = page_artifact(*place) if place else f"sl:{parts[1]}/{parts[-1].rpartition('.')[0]}"
    return {
        "kind": "accepted_changed",
        "artifact": artifact,
        "detail": "what was captured would change it",
        "flagged": True,
        "accepted": listing(lost, 10),
        "captured": None,
    }
