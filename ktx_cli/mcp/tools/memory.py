"""Tools that teach ktx: a text is handed over at once, and becomes context when its turn comes."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, Field

from ktx_cli.core import one_line
from ktx_cli.jobs.capture.records import CaptureRequest, MemoryRecord, SourceType, Status
from ktx_cli.mcp.tool import Call, Connection, Input, Output, ServerTool

LONGEST: Final = 48_000
"""Characters of the longest text that may be captured, as any type."""

_PROPOSER: Final = "mcp"
_LONGEST_WORDS: Final = 500
_MOST: Final = 20
_MOST_NAMED: Final = 100


class IngestMemory(Input):
    """What to remember."""

    content: str = Field(
        max_length=LONGEST,
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
    accepted: str | None = Field(None, description="Of a page; a definition is read with sl_read_source.")
    captured: str | None = None
    detail: str | None = None


class MemoryRun(Output):
    """A capture as it is now."""

    run_id: str
    status: Status
    over: bool = Field(description="Nothing more will happen; else ask memory_ingest_status again after a while.")
    reason: str = Field(description="Why nothing came of it, or what a person should know.")
    wrote: list[str] = Field(description="Pages and definitions that came of it, as `wiki:refunds`.")
    files: list[str]
    conflicts: list[Contradiction] = Field(description="What it contradicts: a person decides.")
    commit: str | None = Field(description="The newest commit of it; null: none, or none yet.")
    branch: str | None = Field(description="Where the change waits for review; null: nowhere.")
    duplicate_of: str | None = Field(description="The capture that said the same.")
    error: dict[str, Any] | None = Field(description="code, message, hint of one that failed or did a part.")


def _ingest(call: Call, value: IngestMemory) -> MemoryRun:
    wish = CaptureRequest(
        value.content,
        connection=value.connection,
        user=value.user,
        source_type=value.source_type,
        propose=value.propose,
        proposer=_PROPOSER,
    )
    return _memory_run(call.project.memories.remember(wish))


def _status(call: Call, value: OfMemory) -> MemoryRun:
    return _memory_run(call.project.memories.state(value.run_id, go_on=not call.options.read_only))


def _memory_run(record: MemoryRecord) -> MemoryRun:
    error = record.error
    return MemoryRun(
        run_id=record.run_id,
        status=record.status,
        over=record.status not in (Status.QUEUED, Status.RUNNING),
        reason=one_line(record.reason, 2 * _LONGEST_WORDS),
        wrote=list(record.artifacts[:_MOST_NAMED]),
        files=list(record.files[:_MOST_NAMED]),
        conflicts=[_contradiction(each) for each in record.conflicts[:_MOST]],
        commit=record.commit,
        branch=record.branch,
        duplicate_of=record.duplicate_of,
        error=None if error is None else {key: error.get(key) for key in ("code", "message", "hint")},
    )


def _contradiction(conflict: Any) -> Contradiction:
    """Return a conflict; the accepted lines of a definition may hold what is hidden from agents."""
    fields = {name: conflict.get(name) for name in Contradiction.model_fields}
    if not str(fields["artifact"]).startswith("wiki:"):
        fields["accepted"] = None
    return Contradiction(**{name: each and one_line(str(each), _LONGEST_WORDS) for name, each in fields.items()})


TOOLS: Final = (
    ServerTool(
        "memory_ingest",
        "Teach ktx something",
        "Hand over a text that is worth keeping: a fact, a rule, a definition that somebody stated or confirmed. An"
        " agent of the model this project has configured turns it into wiki pages, measures and segments, and commits"
        " them. Returns at once; memory_ingest_status tells what came of it. What is accepted already is never"
        " overwritten: a contradiction is a `conflict`. Only where the user wants something kept; no guesses, single"
        " results or secrets. Answers `no_backend` where no model is configured.",
        IngestMemory,
        MemoryRun,
        _ingest,
        writes=True,
        open_world=True,
    ),
    ServerTool(
        "memory_ingest_status",
        "What became of a text",
        "Look what became of a text that was handed to memory_ingest: what was written, what it contradicts, why"
        " nothing came of it. Captures are made one after another, and wait for other runs of the project.",
        OfMemory,
        MemoryRun,
        _status,
    ),
)
