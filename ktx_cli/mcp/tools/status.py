"""The tool that says whether the context is built and ready."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from ktx_cli.context.tools.untrusted import visible
from ktx_cli.mcp.tool import Call, Input, Paged, ServerTool, told


class AskStatus(Input):
    """No arguments."""


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


def _status(call: Call, value: AskStatus) -> ProjectStatus:
    from ktx_cli.jobs.readiness.status import project_status

    found = project_status(call.project.layout.root, call.project.environ)
    facts = found.to_json()
    checks = [{key: each.get(key) for key in ("check", "level", "message", "hint")} for each in facts["checks"]]
    return ProjectStatus(
        project_dir=facts["project_dir"],
        ready=facts["ready"],
        next=facts["next"],
        checks=[CheckFacts(**{key: _told(text) for key, text in each.items()}) for each in checks],
        connections=[
            ConnectionStatus(**{key: each[key] for key in ConnectionStatus.model_fields})
            for each in facts["connections"]
        ],
        last_run=facts["runs"][0] if facts["runs"] else None,
        read_only=call.options.read_only,
        privacy=call.options.privacy,
        warnings=told(found.warnings),
    )


def _told(text: Any) -> Any:
    return visible(text)[:600] if isinstance(text, str) else text


TOOLS: Final = (
    ServerTool(
        "context_status",
        "Status of the context",
        "Say whether this project is ready, when its databases and sources were read last, and which command helps. "
        "Use it when nothing is found, or when it matters how fresh the context is.",
        AskStatus,
        ProjectStatus,
        _status,
    ),
)
