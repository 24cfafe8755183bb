"""The tools about the project: its connections and their state, runs of ingest, texts that teach ktx."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from ktx_cli.agent_tools import visible
from ktx_cli.core import one_line, plain
from ktx_cli.jobs.capture.records import CaptureRequest, MemoryRecord, SourceType, Status
from ktx_cli.jobs.serve.runs import IngestState, IngestWish, cancel_ingest, ingest_state, start_ingest
from ktx_cli.mcp.tool import Call, Connection, Input, Output, Paged, tool, warning_texts
from ktx_cli.project import Database
from ktx_cli.semantic import layer_ids
from ktx_cli.warehouses import dialect_of


class ListConnections(Input):
    """No arguments."""


class ConnectionFacts(BaseModel):
    """One connection of the project."""

    id: str
    driver: str
    kind: Literal["database", "source"]
    dialect: str | None = Field(description="The SQL it speaks; null for a source.")
    semantic_layer: bool = Field(description="Whether sl_query can ask it.")


class Connections(Output):
    """The connections of the project, by id."""

    connections: list[ConnectionFacts]


@tool("Connections")
def connection_list(call: Call, value: ListConnections) -> Connections:
    """List the databases and context sources of this project. Call it first where a tool asks for a connection."""
    config = call.project.config()
    layers = set(layer_ids(call.project.layout))
    found = []
    for name, entry in sorted(config.usable().items()):
        database = isinstance(entry, Database)
        kind: Any = "database" if database else "source"
        facts = {"dialect": dialect_of(entry.driver), "semantic_layer": database and name in layers}
        found.append(ConnectionFacts(id=name, driver=entry.driver, kind=kind, **facts))
    return Connections(connections=found)


class AskStatus(Input):
    """What to look at."""

    capture: str | None = Field(
        None, max_length=200, description="Also say what became of this text: `run_id` of memory_ingest, or `latest`."
    )


class CheckFacts(BaseModel):
    """One check."""

    check: str
    level: str = Field(description="ok, skip, warn or fail.")
    message: str
    hint: str | None = Field(None, description="The command that helps.")


class ConnectionStatus(BaseModel):
    """One connection and what is built of it."""

    id: str
    driver: str
    kind: Literal["database", "source", "disabled"]
    dialect: str | None = Field(None, description="The SQL of a database.")
    sources: int = Field(description="Tables in the semantic layer that a scan found.")
    columns: int
    last_scan: str | None = Field(None, description="When it was scanned last; null: never.")
    last_fetch: dict[str, Any] | None = Field(None, description="When the source was read last; null: never.")
    secrets: Literal["ok", "unverified", "unresolved"]


class ProjectStatus(Paged):
    """Whether the project is ready, and how fresh its context is."""

    part = "connections"

    project_dir: str
    ready: bool
    next: str | None = Field(None, description="The command a person should type now; null: none.")
    checks: list[CheckFacts]
    connections: list[ConnectionStatus]
    last_run: dict[str, str | None] | None = Field(None, description="The last run that wrote context.")
    read_only: bool = Field(description="This server has no tools that write.")
    privacy: bool = Field(description="This server gives no values of rows.")
    capture: MemoryRun | None = Field(None, description="What became of the text that was asked for.")


@tool("Status of the context")
def context_status(call: Call, value: AskStatus) -> ProjectStatus:
    """Say whether this project is ready, which connections it has, when they were read last, and which command helps.
    Use it when nothing is found, or when it matters how fresh the context is."""
    from ktx_cli.jobs.health.status import project_status

    memories = call.project.memories
    capture = None if value.capture is None else memories.state(value.capture, go_on=not call.options.read_only)

    found = project_status(call.project.layout.root, call.project.environ)
    facts = found.to_json()
    return ProjectStatus(
        **{key: facts[key] for key in ("project_dir", "ready", "next")},
        checks=[
            CheckFacts(**{key: _bounded(each.get(key)) for key in CheckFacts.model_fields}) for each in facts["checks"]
        ],
        connections=[
            ConnectionStatus(
                dialect=dialect_of(each["driver"]) if each["kind"] == "database" else None,
                **{key: each[key] for key in ConnectionStatus.model_fields if key != "dialect"},
            )
            for each in facts["connections"]
        ],
        last_run=next(iter(facts["runs"]), None),
        read_only=call.options.read_only,
        privacy=call.options.privacy,
        capture=None if capture is None else _memory_run(capture),
        warnings=warning_texts(found.warnings),
    )


def _bounded(text: Any) -> Any:
    return visible(text)[:600] if isinstance(text, str) else text


class StartIngest(Input):
    """What to read."""

    connections: list[str] | None = Field(
        None, max_length=200, description="Connections to read, as connection_list names them; null: all."
    )
    no_llm: bool = Field(False, description="Only the part that needs no model, whatever backend is configured.")
    max_usd: float | None = Field(None, ge=0, description="End model work at this cost, at list prices.")
    max_tokens: int | None = Field(None, ge=1, description="End model work at so many tokens.")


class OfIngest(Input):
    """Which run."""

    run_id: str = Field(
        max_length=200, description="`run_id` of ingest_start; `latest` for the newest run of the project."
    )


class CancelIngest(OfIngest):
    """Which run, and how."""

    now: bool = Field(False, description="Stop what is under way too; without it what is under way may end.")


class IngestedSource(BaseModel):
    """What became of a connection or a source."""

    connection: str | None = None
    kind: str | None = Field(None, description="Of a context source; null for a database.")
    status: str | None = None
    result: str | None = None


class IngestRun(Output):
    """A run as it is now."""

    run_id: str
    status: str = Field(description="running, done, unchanged, partial, failed, interrupted, killed.")
    over: bool = Field(description="Nothing more will happen; else ask ingest_status again after a while.")
    commit: str | None = Field(description="The one commit of the run; null: none, or none yet.")
    seconds: float | None
    steps: list[str] = Field(description="What has been done, the newest last.")
    units: dict[str, int] = Field(description="How many work units of agents ended how.")
    sources: list[IngestedSource]
    error: dict[str, Any] | None = Field(description="code, message, hint of a run that failed or did a part.")


@tool("Bring the context up to date", writes=True, idempotent=False, open_world=True)
def ingest_start(call: Call, value: StartIngest) -> IngestRun:
    """Read databases and context sources again and commit what changed, once, on the model this project has configured.
    Returns when the model has been checked and the run is at work; watch it with ingest_status. Takes minutes and, with
    a model, costs tokens: only where the user asks for it. Answers `auth` where the model's session is missing, `busy`
    where another run is at work."""
    call.project.config()
    wish = IngestWish(tuple(value.connections or ()), value.no_llm, value.max_usd, value.max_tokens)
    return _ingest_run(start_ingest(call.project.layout, call.project.environ, wish, report=call.report))


@tool("How a run is going")
def ingest_status(call: Call, value: OfIngest) -> IngestRun:
    """Look how a run of ingest_start (or any other of the project) is going, and what came of it."""
    return _ingest_run(ingest_state(call.project.layout, value.run_id))


@tool("End a run", writes=True)
def ingest_cancel(call: Call, value: CancelIngest) -> IngestRun:
    """Interrupt a run that ingest_start began. Nothing of it is committed; finished work is kept for the next run."""
    return _ingest_run(cancel_ingest(call.project.layout, value.run_id, now=value.now))


def _ingest_run(state: IngestState) -> IngestRun:
    sources = [IngestedSource.model_validate(each) for each in state.sources]
    return IngestRun(**plain(state) | {"sources": sources, "error": _error(state.error)}, over=state.is_over)


def _error(error: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if error is None else {key: error.get(key) for key in ("code", "message", "hint")}


LONGEST_MEMORY: Final = 48_000
"""Characters of the longest text that may be captured, as any type."""

_PROPOSER: Final = "mcp"
_LONGEST_WORDS: Final = 500
_MOST: Final = 20
_MOST_NAMED: Final = 100


class IngestMemory(Input):
    """What to remember."""

    content: str = Field(
        max_length=LONGEST_MEMORY,
        description="The text, in clear sentences: what holds, since when, for which data, who says so. No secrets.",
    )
    connection: Connection | None = Field(
        None, description="The one database whose semantic layer it is about; null: any."
    )
    user: str | None = Field(
        None, max_length=200, description="Write pages of this user alone, and no definitions; null: everybody's."
    )
    source_type: SourceType = Field(
        SourceType.EXTERNAL,
        description="What kind of text it is: a note or document to keep (external_ingest), an old conversation"
        " (backfill), what came of research (research). The last two are taken sparingly, 16,000 characters at most.",
    )
    propose: bool = Field(
        False, description="Leave the change on a branch for a person to review; nothing else changes."
    )


class OfMemory(Input):
    """Which capture."""

    run_id: str = Field(max_length=200, description="`run_id` of memory_ingest; `latest` for the newest capture.")


class Contradiction(BaseModel):
    """What the text says against what is accepted, which stays as it is."""

    artifact: str | None = None
    accepted: str | None = Field(None, description="Of a page; a definition is read with context_read.")
    captured: str | None = None
    detail: str | None = None


class MemoryRun(Output):
    """A capture as it is now."""

    run_id: str
    status: Status
    over: bool = Field(description="Nothing more will happen; else ask again after a while.")
    reason: str = Field(description="Why nothing came of it, or what a person should know.")
    wrote: list[str] = Field(description="Pages and definitions that came of it, as `wiki:refunds`.")
    files: list[str]
    conflicts: list[Contradiction] = Field(description="What it contradicts: a person decides.")
    commit: str | None = Field(description="The newest commit of it; null: none, or none yet.")
    branch: str | None = Field(description="Where the change waits for review; null: nowhere.")
    duplicate_of: str | None = Field(description="The capture that said the same.")
    error: dict[str, Any] | None = Field(description="code, message, hint of one that failed or did a part.")


@tool("Teach ktx something", writes=True, open_world=True)
def memory_ingest(call: Call, value: IngestMemory) -> MemoryRun:
    """Hand over a text that is worth keeping: a fact, a rule, a definition that somebody stated or confirmed. An agent
    of the model this project has configured turns it into wiki pages, measures and segments, and commits them.
    Returns at once; context_status with `capture` tells what came of it. What is accepted is never overwritten: a
    contradiction is a `conflict`. Only where the user wants something kept; no guesses, single results or secrets.
    Answers `no_backend` where no model is configured."""
    call.user(value.user)
    fields = value.model_dump(exclude={"content"})
    return _memory_run(call.project.memories.remember(CaptureRequest(value.content, **fields, proposer=_PROPOSER)))


@tool("What became of a text")
def memory_ingest_status(call: Call, value: OfMemory) -> MemoryRun:
    """Look what became of a text that was handed to memory_ingest: what was written, what it contradicts, why nothing
    came of it. Captures are made one after another, and wait for other runs of the project."""
    return _memory_run(call.project.memories.state(value.run_id, go_on=not call.options.read_only))


def _memory_run(record: MemoryRecord) -> MemoryRun:
    return MemoryRun(
        **{key: getattr(record, key) for key in ("run_id", "status", "commit", "branch", "duplicate_of")},
        over=record.status not in (Status.QUEUED, Status.RUNNING),
        reason=one_line(record.reason, 2 * _LONGEST_WORDS),
        wrote=list(record.artifacts[:_MOST_NAMED]),
        files=list(record.files[:_MOST_NAMED]),
        conflicts=[_contradiction(each) for each in record.conflicts[:_MOST]],
        error=_error(record.error),
    )


def _contradiction(conflict: Any) -> Contradiction:
    """Return a conflict; the accepted lines of a definition may hold what is hidden from agents."""
    fields = {name: conflict.get(name) for name in Contradiction.model_fields}
    if not str(fields["artifact"]).startswith("wiki:"):
        fields["accepted"] = None
    return Contradiction(**{name: each and one_line(str(each), _LONGEST_WORDS) for name, each in fields.items()})
