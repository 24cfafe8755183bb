"""The agent's part of a capture: one loop on an overlay, the gates with their repair, and what is accepted compared."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from ktx_cli.agent_tools import (
    MEMORY_PROMPTS,
    Find,
    Library,
    TaskPrompt,
    ToolSession,
    finder,
    in_memory,
    load_prompts,
    lost_in,
    memory_prompt,
    open_searcher,
    page_artifact,
)
from ktx_cli.core import Notice, UnitsPlanned, file_stem, listing
from ktx_cli.documents import Changes, RawFile, Snapshot, WorkUnit
from ktx_cli.engine import (
    ENDING_NOTICE,
    Conclusions,
    Gates,
    Loops,
    Merger,
    MetricGate,
    Models,
    Opener,
    Piece,
    Reconciled,
    Run,
    Samples,
    Settled,
    SourceWork,
    Stop,
    UnitOutcome,
    UnitStatus,
    UnitStore,
    dialects,
    page_warnings,
    settle,
)
from ktx_cli.jobs.capture.records import BOUNDS, MemoryRecord
from ktx_cli.llm import LlmRuntime, model_for
from ktx_cli.project import SEMANTIC_NAME, Tree, Workspace, merge_lines
from ktx_cli.prompts import Prompt, Skill, load_skills
from ktx_cli.sources import (
    FetchContext,
    FileState,
    FileStatus,
    Manifest,
    Projection,
    Source,
    manifest_path,
    parse_manifest,
)
from ktx_cli.wiki import GLOBAL, page_path, place_of, user_scope

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
        merger = Merger(self.gates, merge_lines, runtime, *repairs, self.stop)
        return await settle(self.base, [outcome], merger, _nothing_to_reconcile, _nothing_to_conclude)

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


def _nothing_to_conclude(workspace: Workspace, outcomes: Sequence[UnitOutcome]) -> Conclusions:
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


CONNECTION: Final = "_memory"
KIND: Final = "memory"
MANIFEST: Final = manifest_path(CONNECTION, KIND)

_OF_A_USER: Final = "what one user wants remembered is no definition for everybody"


class MemorySource(Source):
    """A source that is nowhere but in the request."""

    kind: ClassVar[str] = KIND
    skills: ClassVar[tuple[str, ...]] = ("memory_capture",)

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Return nothing: what there is came with the request."""
        return Snapshot({})

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return nothing: see `work_of`."""
        return ()


def work_of(record: MemoryRecord, base: Tree) -> SourceWork:
    """Return the one work of a capture; raises `ConfigError` where the committed manifest cannot be read."""
    path = raw_path(record)
    content = record.content.encode("utf-8", "surrogatepass")
    raw = RawFile(path, record.sha256, len(content), lambda: content)
    unit = WorkUnit(
        "capture",
        record.label,
        (path,),
        notes=json.dumps([record.source_type, record.connection, record.user, record.replace or record.propose]),
        semantic=record.user is None,
        why_not=_OF_A_USER,
    )
    work = SourceWork(CONNECTION, None, MemorySource(), parse_manifest(base.read(MANIFEST), MANIFEST), asked=True)
    work.snapshot = Snapshot({path: raw}, complete=False, origin=f"captured {record.label}", fetched=1)
    work.changes = Changes(added=(path,))
    work.units = (unit,)
    return work


def raw_path(record: MemoryRecord) -> str:
    """Return the name of a capture's text in the manifest."""
    return f"{record.sha256}.md"


def path_of(artifact: str) -> str:
    """Return where an artifact is, or would be: the file of a page, the one ktx gives a source."""
    kind, _, name = artifact.partition(":")
    connection, _, source = name.partition("/")
    if kind == "sl":
        return f"{SEMANTIC_NAME}/{connection}/{file_stem(source)}.yaml"
    scope, _, key = name.rpartition("/")
    return page_path(scope or GLOBAL, key)


def state_of(manifest: Manifest, record: MemoryRecord) -> FileState | None:
    """Return what the manifest says of a capture's text: `failed` where only a part of it landed."""
    return manifest.files.get(raw_path(record))


def with_state(manifest: Manifest, record: MemoryRecord, artifacts: Iterable[str], *, whole: bool) -> Manifest:
    """Return the manifest with a capture that landed; not `whole`: it may be captured again."""
    known = state_of(manifest, record)
    came = {*artifacts, *(() if known is None else known.artifacts)}
    status = FileStatus.DONE if whole else FileStatus.FAILED
    return Manifest({**manifest.files, raw_path(record): FileState(record.sha256, status, tuple(sorted(came)))})


def without_state(manifest: Manifest, record: MemoryRecord) -> Manifest:
    """Return the manifest without a capture, so that the same text may be captured again."""
    return Manifest({path: state for path, state in manifest.files.items() if path != raw_path(record)})
