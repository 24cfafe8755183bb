"""The tools that bring context up to date: a run of `ktx ingest` is started, watched, ended."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, Field

from ktx_cli.jobs.serving.ingests import IngestState, IngestWish, cancel_ingest, ingest_state, start_ingest
from ktx_cli.mcp.tool import Call, Input, Output, ServerTool

_ID: Final = Field(max_length=200, description="`run_id` of ingest_start; `latest` for the newest run of the project.")


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

    run_id: str = _ID


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


def _start(call: Call, value: StartIngest) -> IngestRun:
    project = call.project
    project.config()
    wish = IngestWish(tuple(value.connections or ()), value.no_llm, value.max_usd, value.max_tokens)
    return _told(start_ingest(project.layout, project.environ, wish, said=call.said))


def _status(call: Call, value: OfIngest) -> IngestRun:
    return _told(ingest_state(call.project.layout, value.run_id))


def _cancel(call: Call, value: CancelIngest) -> IngestRun:
    return _told(cancel_ingest(call.project.layout, value.run_id, now=value.now))


def _told(state: IngestState) -> IngestRun:
    return IngestRun(
        run_id=state.run_id,
        status=state.status,
        over=state.is_over,
        commit=state.commit,
        seconds=state.seconds,
        steps=list(state.steps),
        units=dict(state.units),
        sources=[IngestedSource.model_validate(each) for each in state.sources],
        error=None if state.error is None else {key: state.error.get(key) for key in ("code", "message", "hint")},
    )


TOOLS: Final = (
    ServerTool(
        "ingest_start",
        "Bring the context up to date",
        "Read databases and context sources again and commit what changed, once, on the model this project has"
        " configured. Returns when the model has been checked and the run is at work; watch it with ingest_status."
        " Takes minutes and, with a model, costs tokens: only where the user asks for it. Answers `auth` where the"
        " model's session is missing, `busy` where another run is at work.",
        StartIngest,
        IngestRun,
        _start,
        writes=True,
        idempotent=False,
        open_world=True,
    ),
    ServerTool(
        "ingest_status",
        "How a run is going",
        "Look how a run of ingest_start (or any other of the project) is going, and what came of it.",
        OfIngest,
        IngestRun,
        _status,
    ),
    ServerTool(
        "ingest_cancel",
        "End a run",
        "Interrupt a run that ingest_start began. Nothing of it is committed; finished work is kept for the next run.",
        CancelIngest,
        IngestRun,
        _cancel,
        writes=True,
    ),
)
