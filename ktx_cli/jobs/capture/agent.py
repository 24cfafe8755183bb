"""Runs a capture as an agent task, and decides which parts of the result may be committed next to accepted context."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ktx_cli.agent_tools import MEMORY_PROMPTS, lost_in, memory_prompt, page_artifact, tools_for
from ktx_cli.core import file_stem, listing
from ktx_cli.documents import Changes, RawFile, Snapshot, WorkUnit
from ktx_cli.engine import (
    AgentTask,
    AgentWork,
    SourceWork,
    UnitStatus,
    judge_writes,
    page_warnings,
    run_agents,
    unit_key,
)
from ktx_cli.jobs.capture.records import BOUNDS, MemoryRecord
from ktx_cli.project import SEMANTIC_NAME, StateDatabase, Tree, Workspace
from ktx_cli.sources import Delivery, FileState, FileStatus, Source, delivery_path, parse_delivery
from ktx_cli.wiki import GLOBAL, Contradiction, page_path, place_of, user_scope

if TYPE_CHECKING:
    from ktx_cli.engine import AgentContext, AgentResult, Models, RunPlan, UnitOutcome
    from ktx_cli.sources import FetchContext, Projection

ROLE: Final = "writer"


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """The result of the agent part of a capture."""

    work: SourceWork
    """The only source, with the outcome of its only unit."""
    conflicts: tuple[Mapping[str, Any], ...]
    """The contradictions left for a person to decide."""
    agents: AgentResult

    @property
    def outcome(self) -> UnitOutcome:
        """The outcome of the unit."""
        return self.work.outcomes[0]


def run_capture(
    plan: RunPlan,
    record: MemoryRecord,
    work: SourceWork,
    workspace: Workspace,
    models: Models,
    database: StateDatabase,
    *,
    patient: bool,
) -> CaptureResult:
    """Let the agent work, and add what may be committed to the overlay of the run.

    `patient`: the first interrupt waits for the end of the loop; else the loop ends at once. Its steps are kept.
    """
    result = run_agents(capture_work(plan, record, work, workspace, patient=patient), models, database)
    (outcome,) = result.integration.outcomes
    after = result.integration.workspace
    conflicts: list[Mapping[str, Any]] = []
    if outcome.status is UnitStatus.DONE:
        conflicts = [_contradiction(each) for each in result.integration.contradictions]
        lost = {} if may_change(record) else lost_in(workspace, after, after.changes(), plan.layers)
        if lost:
            conflicts += [_as_conflict(path, lines) for path, lines in lost.items()]
            outcome = outcome.failed(UnitStatus.QUARANTINED, f"it would change accepted context: {listing(lost)}")
    if outcome.status is UnitStatus.DONE:
        plan.recorder.warn_of(page_warnings([work], [outcome], workspace, after))
        workspace.absorb(after)
    return CaptureResult(replace(work, outcomes=(outcome,)), tuple(conflicts), result)


def capture_work(
    plan: RunPlan, record: MemoryRecord, work: SourceWork, workspace: Workspace, *, patient: bool = True
) -> AgentWork:
    """Return the agent part of a capture."""
    return AgentWork(
        plan,
        [work],
        workspace,
        task=lambda context, work, unit: capture_task(context, record, work, unit),
        prompts=MEMORY_PROMPTS,
        is_ingest=False,
        is_patient=patient,
    )


def capture_task(context: AgentContext, record: MemoryRecord, work: SourceWork, unit: WorkUnit) -> AgentTask:
    """Return the task for a capture, on its own overlay; its prompt contains the text itself."""
    dialects, named = context.plan.dialects, record.connection
    session = context.open_session(
        context.base.child(),
        dialects if named is None else {name: dialect for name, dialect in dialects.items() if name == named},
        raw=work.snapshot.files,
        files=unit.files,
        source=work.connection,
        origin=work.snapshot.origin,
        semantic=unit.semantic,
        why_not=unit.why_not,
        scope=GLOBAL if record.user is None else user_scope(record.user),
        accepted=None if may_change(record) else context.base,
        refs_later=False,
    )
    return AgentTask(
        unit,
        ROLE,
        prompt=lambda: memory_prompt(session, context.prompts["memory"], record.content, _rules(record)),
        tools=lambda: tools_for(session, "memory"),
        step_budget=BOUNDS[record.source_type].steps,
        connection=work.connection,
        kind=work.kind,
        session=session,
        judge=lambda outcome, result: judge_writes(context, session, outcome, result),
        key=unit_key(context, work, unit),
        is_unit=True,
    )


def may_change(record: MemoryRecord) -> bool:
    """Return whether accepted content may be changed, because a person requested or will review the change."""
    return record.replace or record.propose


def _rules(record: MemoryRecord) -> str:
    rules = [BOUNDS[record.source_type].stance]
    if record.user is not None:
        rules.append(f"Pages that you write belong to the user `{record.user}`, and nobody else sees them.")
    if may_change(record):
        rules.append(
            "In this task, accepted context may be changed if the text plainly contradicts it: correct the "
            "page or definition that it contradicts, and leave the rest unchanged."
        )
    return " ".join(rules)


def _contradiction(found: Contradiction) -> Mapping[str, Any]:
    """Return a contradiction for the capture's record: the accepted content, and what the text says against it."""
    is_accepted = (each for each in found.statements if each.source.startswith(("wiki:", "sl:")))
    accepted = next(is_accepted, found.statements[0])
    captured = next((each for each in found.statements if each is not accepted), None)
    effects = "; ".join(f"{each.source}: {each.effect}" for each in found.statements)
    return {
        "kind": "definitional_contradiction",
        "artifact": accepted.source,
        "detail": f"{found.topic}: {found.evidence or effects}",
        "flagged": True,
        "accepted": accepted.text,
        "captured": None if captured is None else captured.text,
        "statements": [each.to_json() for each in found.statements],
    }


def _as_conflict(path: str, lost: Sequence[str]) -> Mapping[str, Any]:
    """Return the conflict for a change that no tool allowed but a repair made."""
    place = place_of(path)
    parts = path.split("/")
    artifact = page_artifact(*place) if place else f"sl:{parts[1]}/{parts[-1].rpartition('.')[0]}"
    return {
        "kind": "accepted_changed",
        "artifact": artifact,
        "detail": "the captured text would change it",
        "flagged": True,
        "accepted": listing(lost, 10),
        "captured": None,
    }


CONNECTION: Final = "_memory"
KIND: Final = "memory"
MANIFEST: Final = delivery_path(CONNECTION, KIND)

_OF_A_USER: Final = "what one user wants to remember cannot change a definition for everybody"


class MemorySource(Source):
    """A source that exists only in the request."""

    kind: ClassVar[str] = KIND
    skills: ClassVar[tuple[str, ...]] = ("memory_capture",)

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Return nothing: the files came with the request."""
        return Snapshot({})

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return nothing: see `work_of`."""
        return ()


def work_of(record: MemoryRecord, base: Tree) -> SourceWork:
    """Return the only work of a capture; raises `ConfigError` if the committed manifest cannot be read."""
    path = raw_path(record)
    content = record.content.encode("utf-8", "surrogatepass")
    raw = RawFile(path, record.sha256, len(content), lambda: content)
    notes = json.dumps([record.source_type, record.connection, record.user, may_change(record)])
    semantic = record.user is None
    unit = WorkUnit("capture", record.label, (path,), notes=notes, semantic=semantic, why_not=_OF_A_USER)
    delivered = parse_delivery(base.read(MANIFEST), MANIFEST)
    found = Snapshot({path: raw}, complete=False, origin=f"captured {record.label}", fetched=1)
    added = Changes(added=(path,))
    return SourceWork(CONNECTION, None, MemorySource(), delivered, found, added, units=(unit,), asked=True)


def raw_path(record: MemoryRecord) -> str:
    """Return the manifest name for a captured text."""
    return f"{record.sha256}.md"


def path_of(artifact: str) -> str:
    """Return where an artifact is, or would be: a page's file, or the file in which ktx stores a source."""
    kind, _, name = artifact.partition(":")
    connection, _, source = name.partition("/")
    if kind == "sl":
        return f"{SEMANTIC_NAME}/{connection}/{file_stem(source)}.yaml"
    scope, _, key = name.rpartition("/")
    return page_path(scope or GLOBAL, key)


def state_of(delivery: Delivery, record: MemoryRecord) -> FileState | None:
    """Return the manifest entry for a captured text: `failed` if only a part of it was committed."""
    return delivery.files.get(raw_path(record))


def with_state(delivery: Delivery, record: MemoryRecord, artifacts: Iterable[str], *, whole: bool) -> Delivery:
    """Return the manifest with a committed capture; if not `whole`, the text may be captured again."""
    known = state_of(delivery, record)
    written = {*artifacts, *(() if known is None else known.artifacts)}
    status = FileStatus.DONE if whole else FileStatus.FAILED
    return Delivery({**delivery.files, raw_path(record): FileState(record.sha256, status, tuple(sorted(written)))})


def without_state(delivery: Delivery, record: MemoryRecord) -> Delivery:
    """Return the manifest without a capture, so that the same text may be captured again."""
    return Delivery({path: state for path, state in delivery.files.items() if path != raw_path(record)})
