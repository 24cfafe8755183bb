"""The tools about the project: its connections and status, ingest runs, and captured knowledge."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, Field

from ktx_cli.agent_tools import visible
from ktx_cli.core import KtxError, UsageError, one_line, plain
from ktx_cli.jobs.capture.records import CaptureRequest, MemoryRecord, SourceType, Status
from ktx_cli.jobs.serve.runs import IngestState, IngestWish, cancel_ingest, ingest_state, start_ingest
from ktx_cli.mcp.tool import LOGGED, Call, Connection, Input, Output, Paged, tool, warning_texts
from ktx_cli.project import SEMANTIC_NAME, Database, connection_of
from ktx_cli.semantic import layer_ids
from ktx_cli.warehouses import dialect_of

if TYPE_CHECKING:
    from ktx_cli.jobs.health.model import CheckResult

log = logging.getLogger(__name__)


class ListConnections(Input):
    """No arguments."""


class ConnectionFacts(BaseModel):
    """One connection of the project."""

    id: str
    driver: str
    kind: Literal["database", "source"]
    dialect: str | None = Field(description="Its SQL dialect; null for a source.")
    semantic_layer: bool = Field(description="Whether sl_query can query it.")


class Connections(Output):
    """The connections of the project, sorted by id."""

    connections: list[ConnectionFacts]


@tool("Connections", reach="all")
def connection_list(call: Call, value: ListConnections) -> Connections:
    """List the databases and context sources of this project. Call it first if a tool requires a connection."""
    found = []
    for each in call.each():
        layers = set(layer_ids(each.project.layout))
        for name, entry in sorted(each.project.config().usable().items()):
            database = isinstance(entry, Database)
            kind: Any = "database" if database else "source"
            facts = {"dialect": dialect_of(entry.driver), "semantic_layer": database and name in layers}
            found.append(ConnectionFacts(id=each.named(name), driver=entry.driver, kind=kind, **facts))
    return Connections(connections=found)


class AskStatus(Input):
    """The status to report."""

    capture: str | None = Field(
        None, max_length=200, description="Also report this capture: `run_id` of memory_ingest, or `latest`."
    )


class CheckFacts(BaseModel):
    """One diagnostic check."""

    check: str
    level: str = Field(description="ok, skip, warn or fail.")
    message: str
    hint: str | None = Field(None, description="The command that fixes the problem.")


class ConnectionStatus(BaseModel):
    """One connection and the state of its context."""

    id: str
    driver: str
    kind: Literal["database", "source", "disabled"]
    dialect: str | None = Field(None, description="SQL dialect of a database.")
    sources: int = Field(description="Scanned tables in the semantic layer.")
    columns: int
    last_scan: str | None = Field(None, description="Time of the last scan; null if never scanned.")
    last_fetch: dict[str, Any] | None = Field(None, description="Time of a source's last fetch; null if never fetched.")
    secrets: Literal["ok", "unverified", "unresolved"]


class ProjectStatus(Paged):
    """The readiness of the project and the age of its context."""

    part = "connections"

    project_dir: str | None = Field(description="Null over HTTP.")
    ready: bool
    next: str | None = Field(None, description="The command the user should run next, or null.")
    checks: list[CheckFacts]
    connections: list[ConnectionStatus]
    last_run: dict[str, str | None] | None = Field(None, description="The last run that wrote context.")
    read_only: bool = Field(description="This server has no tools that write.")
    privacy: bool = Field(description="This server returns no row values.")
    capture: MemoryRun | None = Field(None, description="The requested capture.")


_OF_THE_CONTEXT: Final = frozenset(
    ("databases", "context", "semantic", "contradictions", "decisions", "conventions", "profiles")
)
"""Checks whose messages are about what callers ask for, by name."""


@tool("Status of the context", reach="all")
def context_status(call: Call, value: AskStatus) -> ProjectStatus:
    """Report whether this project is ready, its connections, when each was last read, and the command that fixes a
    problem. Use it when a search finds nothing, or when the age of the context matters."""
    from ktx_cli.jobs.health.facts import connection_statuses
    from ktx_cli.jobs.health.model import CheckContext
    from ktx_cli.jobs.health.status import project_status

    capture = None if value.capture is None else _capture(call, value.capture)
    found = project_status(call.project.layout.root, call.project.environ)
    facts = found.to_json()
    connections = [each for each in facts["connections"] if call.project.layout.has(each["id"])]
    checks, warnings, last_run = found.findings, found.warnings, next(iter(facts["runs"]), None)
    if call.project.layout.connections is not None:  # the rest is about the whole project
        facts |= {"ready": any(each["secrets"] != "unresolved" for each in connections), "next": None}
        checks, warnings, last_run = (), (), None
    for each in call.each():
        if each.mount is not None:
            statuses, _ = connection_statuses(
                CheckContext(each.project.layout, each.mount.loaded, call.project.environ)
            )
            connections += [{**one.to_json(), "id": each.named(one.id)} for one in statuses]
    if call.is_remote:
        facts |= {"project_dir": None, "next": None}
    return ProjectStatus(
        **{key: facts[key] for key in ("project_dir", "ready", "next")},
        checks=[_check(call, each) for each in checks],
        connections=[
            ConnectionStatus(
                dialect=dialect_of(each["driver"]) if each["kind"] == "database" else None,
                **{key: each[key] for key in ConnectionStatus.model_fields if key != "dialect"},
            )
            for each in connections
        ],
        last_run=last_run,
        read_only=call.options.read_only,
        privacy=call.options.privacy,
        capture=None if capture is None else _memory_run(call, capture),
        warnings=warning_texts(call, warnings),
    )


def _check(call: Call, check: CheckResult) -> CheckFacts:
    """Return a check; over HTTP, without what only whoever runs the server can do.

    Checks of the machine, its settings and the databases that it uses name hosts, users and folders: their messages are
    not shown, and neither are those of errors of the server in other checks.
    """
    message, hint = check.message, check.hint
    if call.is_remote and check.check not in _OF_THE_CONTEXT:
        is_fine = check.level in ("ok", "skip")
        message = "no problems found" if is_fine else "there is a problem; the log of the server describes it"
        if not is_fine:
            LOGGED.warning(log, f"{check.check}: {check.message}" + (f" (hint: {hint})" if hint else ""))
    elif call.is_remote and check.cause is not None:
        shown = call.shown_error(check.cause).message
        message = message.replace(check.cause.message, shown) if check.cause.message in message else shown
    facts = check.to_json() | {"message": call.shown_text(message), "hint": call.shown_hint(hint, is_of_server=True)}
    return CheckFacts(**{key: _bounded(facts.get(key)) for key in CheckFacts.model_fields})


def _bounded(text: Any) -> Any:
    return visible(text)[:600] if isinstance(text, str) else text


class StartIngest(Input):
    """The options of an ingest run."""

    connections: list[str] | None = Field(
        None, max_length=200, description="Ids of the connections to read. Defaults to all."
    )
    no_llm: bool = Field(False, description="Skip all steps that need a model.")
    max_usd: float | None = Field(None, ge=0, description="Stop model work at this cost in USD, at list prices.")
    max_tokens: int | None = Field(None, ge=1, description="Stop model work at this number of tokens.")


class OfIngest(Input):
    """The run to report."""

    run_id: str = Field(max_length=200, description="`run_id` of ingest_start, or `latest` for the newest run.")


class CancelIngest(OfIngest):
    """The run to cancel."""

    now: bool = Field(False, description="Also stop the work in progress. By default, it is finished first.")


class IngestedSource(BaseModel):
    """The result of a connection."""

    connection: str | None = None
    kind: str | None = Field(None, description="Kind of a context source; null for a database.")
    status: str | None = None
    result: str | None = None


class IngestRun(Output):
    """The current state of a run."""

    run_id: str
    status: str = Field(description="running, done, unchanged, partial, failed, interrupted, killed.")
    over: bool = Field(description="True if the run has ended. If false, call ingest_status again later.")
    commit: str | None = Field(description="The run's commit; null if there is none (yet).")
    seconds: float | None
    steps: list[str] = Field(description="Completed steps, newest last.")
    units: dict[str, int] = Field(description="Number of agent work units by outcome.")
    sources: list[IngestedSource]
    error: dict[str, Any] | None = Field(description="code, message and hint if the run failed or is partial.")


@tool("Update the context", writes=True, idempotent=False, open_world=True)
def ingest_start(call: Call, value: StartIngest) -> IngestRun:
    """Scan databases and context sources again, with the model of this project, and commit all changes in one commit.
    Returns when the run has started; follow it with ingest_status. A run takes minutes and may cost tokens: start one
    only if the user asks for it. Fails with `auth` if the model is not signed in, and with `busy` if another run is in
    progress."""
    known, connections = call.project.config().connections, value.connections or []
    if call.project.layout.connections is not None:
        connections = connections or sorted(known)
        for each in connections:
            connection_of(call.project.config(), each)  # refuses what does not exist for the caller
    wish = IngestWish(tuple(connections), value.no_llm, value.max_usd, value.max_tokens)
    return _ingest_run(call, start_ingest(call.project.layout, call.project.environ, wish, report=call.report))


@tool("Status of a run")
def ingest_status(call: Call, value: OfIngest) -> IngestRun:
    """Report the progress and result of a run that ingest_start or another ktx process started."""
    return _ingest_run(call, ingest_state(call.project.layout, value.run_id))


@tool("Cancel a run", writes=True)
def ingest_cancel(call: Call, value: CancelIngest) -> IngestRun:
    """Cancel a run that ingest_start started. It commits nothing; finished work is kept for the next run."""
    return _ingest_run(call, cancel_ingest(call.project.layout, value.run_id, now=value.now))


def _ingest_run(call: Call, state: IngestState) -> IngestRun:
    layout = call.project.layout
    sources = [IngestedSource.model_validate(each) for each in state.sources if layout.has(str(each.get("connection")))]
    if layout.connections is not None:  # steps and errors may be about any connection
        error = None if state.error is None else {"code": state.error.get("code"), "message": "the run has an error"}
        state = replace(state, steps=(), units={}, error=error)
    return IngestRun(**plain(state) | {"sources": sources, "error": _error(call, state.error)}, over=state.is_over)


def _error(call: Call, error: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the error of a run; over HTTP, without what only whoever runs the server can do."""
    if error is None:
        return None
    hint = call.shown_hint(error.get("hint"), is_of_server=True)
    shown = call.shown_error(KtxError(str(error.get("message")), hint=error.get("hint"), code=error.get("code")))
    return {"code": error.get("code"), "message": call.shown_text(shown.message), "hint": hint}


LONGEST_MEMORY: Final = 48_000
"""Maximum number of characters of a captured text, of any type."""

_PROPOSER: Final = "mcp"
_LONGEST_WORDS: Final = 500
_MOST: Final = 20
_MOST_NAMED: Final = 100


class IngestMemory(Input):
    """The text to remember."""

    content: str = Field(
        max_length=LONGEST_MEMORY,
        description="The fact, in clear sentences: what is true, since when, for which data, who said so. No secrets.",
    )
    connection: Connection | None = Field(None, description="Limit the definitions to this database. Defaults to all.")
    user: str | None = Field(
        None, max_length=200, description="Write only pages of this user, no definitions. Defaults to shared pages."
    )
    source_type: SourceType = Field(
        SourceType.EXTERNAL,
        description="external_ingest: a note or document to keep. backfill: an old conversation. research: results of"
        " research. For the last two, ktx keeps only what matters most, and the limit is 16,000 characters.",
    )
    propose: bool = Field(False, description="Commit the change to a separate branch for review.")


class OfMemory(Input):
    """The capture to report."""

    run_id: str = Field(max_length=200, description="`run_id` of memory_ingest, or `latest` for the newest capture.")


class Contradiction(BaseModel):
    """A statement of the text that contradicts accepted context. The accepted context stays unchanged."""

    artifact: str | None = None
    accepted: str | None = Field(None, description="The accepted text of a page. Read a definition with context_read.")
    captured: str | None = None
    detail: str | None = None


class MemoryRun(Output):
    """The current state of a capture."""

    run_id: str
    status: Status
    over: bool = Field(description="True if the capture has ended. If false, ask again later.")
    reason: str = Field(description="Why nothing was written, or a note for the user.")
    wrote: list[str] = Field(description="Pages and definitions that were written, such as `wiki:refunds`.")
    files: list[str]
    conflicts: list[Contradiction] = Field(description="Contradictions with accepted context. A person decides.")
    commit: str | None = Field(description="The latest commit; null if there is none (yet).")
    branch: str | None = Field(description="The branch to review, or null.")
    duplicate_of: str | None = Field(description="The earlier capture with the same text.")
    error: dict[str, Any] | None = Field(description="code, message and hint if the capture failed or is partial.")


@tool("Teach ktx something", writes=True, open_world=True)
def memory_ingest(call: Call, value: IngestMemory) -> MemoryRun:
    """Save a fact, rule or definition that a user stated or confirmed. An agent with the model of this project turns it
    into wiki pages, measures and segments, and commits them. Returns at once; context_status with `capture` reports the
    result. Accepted context is never overwritten: a contradiction becomes a `conflict`. Use it only if the user wants
    something kept; never for guesses, query results or secrets. Fails with `no_backend` if no model is configured."""
    call.user(value.user)
    fields = value.model_dump(exclude={"content"}) | {"connection": _captured_for(call, value.connection)}
    request = CaptureRequest(value.content, **fields, proposer=_proposer(call))
    return _memory_run(call, call.project.memories.remember(request))


def _captured_for(call: Call, connection: str | None) -> str | None:
    """Return the database whose definitions a capture may change; raises `UsageError` for one outside the rights."""
    config = call.project.config()
    if call.project.layout.connections is None:
        return connection
    if connection is not None:
        connection_of(config, connection)
        return connection
    if len(config.databases()) != 1:
        raise UsageError("the capture must be limited to one database", hint="pass the connection")
    return next(iter(config.databases()))


def _proposer(call: Call) -> str:
    """Return who captures a text: a name that tells people and agents apart and does not reveal them."""
    if call.identity.is_anybody:
        return _PROPOSER
    who = json.dumps(call.identity.key)
    return f"{_PROPOSER}:{hashlib.sha256(who.encode()).hexdigest()[:12]}"


def _capture(call: Call, run_id: str) -> MemoryRecord:
    """Return the current state of a capture: of a known person or agent, only one of their own."""
    go_on = not call.options.read_only
    if call.identity.is_anybody:
        return call.project.memories.state(run_id, go_on=go_on)
    from ktx_cli.jobs.capture.queue import listed

    own = [each for each in listed(call.project.layout)[0] if each.proposer == _proposer(call)]
    found = own[:1] if run_id == "latest" else [each for each in own if each.run_id == run_id]
    if not found:
        raise UsageError(f"you have no capture `{one_line(run_id, 100)}`", hint="copy `run_id` of memory_ingest")
    return call.project.memories.state(found[0].run_id, go_on=go_on)


@tool("Status of a capture")
def memory_ingest_status(call: Call, value: OfMemory) -> MemoryRun:
    """Report the result of memory_ingest: what was written, what it contradicts, or why nothing was written. Captures
    run one after another and wait for other runs of the project."""
    return _memory_run(call, _capture(call, value.run_id))


def _memory_run(call: Call, record: MemoryRecord) -> MemoryRun:
    if call.project.layout.connections is not None:
        record = _shown_capture(call, record)
    return MemoryRun(
        **{key: getattr(record, key) for key in ("run_id", "status", "commit", "branch", "duplicate_of")},
        over=record.status not in (Status.QUEUED, Status.RUNNING),
        reason=one_line(record.reason, 2 * _LONGEST_WORDS),
        wrote=list(record.artifacts[:_MOST_NAMED]),
        files=list(record.files[:_MOST_NAMED]),
        conflicts=[_contradiction(each) for each in record.conflicts[:_MOST]],
        error=_error(call, record.error),
    )


def _shown_capture(call: Call, record: MemoryRecord) -> MemoryRecord:
    """Return a capture without what is about connections that do not exist for the caller.

    A model with access to the whole project wrote its texts, so they may be about any connection.
    """
    from ktx_cli.jobs.capture.agent import path_of
    from ktx_cli.jobs.wiki import read_wiki

    pages = {page.path for page in read_wiki(call.project.layout).pages.values()}

    def exists(path: str) -> bool:
        folder, _, rest = path.partition("/")
        return path in pages or (folder == SEMANTIC_NAME and call.project.layout.has(rest.partition("/")[0]))

    return replace(
        record,
        reason="the reason may be about other connections" if record.reason else "",
        artifacts=tuple(each for each in record.artifacts if exists(path_of(each))),
        files=tuple(filter(exists, record.files)),
        conflicts=tuple(
            {"artifact": each["artifact"], "captured": each.get("captured")}
            for each in record.conflicts
            if exists(path_of(str(each.get("artifact"))))
        ),
        error=None if record.error is None else {"code": record.error.get("code"), "message": "the capture failed"},
    )


def _contradiction(conflict: Any) -> Contradiction:
    """Return a conflict, without a definition's accepted lines, which may contain content hidden from agents."""
    fields = {name: conflict.get(name) for name in Contradiction.model_fields}
    if not str(fields["artifact"]).startswith("wiki:"):
        fields["accepted"] = None
    return Contradiction(**{name: each and one_line(str(each), _LONGEST_WORDS) for name, each in fields.items()})
