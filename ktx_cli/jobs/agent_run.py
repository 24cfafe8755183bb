"""Runs an agent for another program: its request, its tools, its events and its outcome."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ktx_cli.core import Command, Emit, Record, UsageError, did_you_mean, ignore_events, listing, new_run_id
from ktx_cli.jobs.llm import require_role
from ktx_cli.jobs.proof.agent import Toolbox
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.llm import (
    CallNames,
    LlmError,
    Message,
    RunFinal,
    RunRequest,
    Warn,
    check_tools,
    llm_error,
    model_for,
    project_runtime,
    run_async,
    settled,
)
from ktx_cli.project import Layout, load_config


class MessageForm(BaseModel):
    """One message in a request."""

    model_config = ConfigDict(extra="forbid")

    role: Literal["system", "user", "assistant"]
    content: str


class RequestForm(BaseModel):
    """A request to run an agent, as a program writes it; see `ktx_cli.llm.RunRequest`."""

    model_config = ConfigDict(extra="forbid")

    messages: list[MessageForm] = Field(min_length=1)
    tool_ids: list[str] = []
    model: str | None = Field(None, min_length=1)
    role: str = "default"
    step_budget: int = Field(20, ge=1, le=200)
    run_id: str | None = Field(None, min_length=1, max_length=200)
    request_id: str = Field("", max_length=200)
    trace_id: str | None = Field(None, max_length=200)

    def request(self) -> RunRequest:
        """Return the request; a run without an id gets a new one."""
        messages = tuple(Message(each.role, each.content) for each in self.messages)
        return RunRequest(
            self.run_id or new_run_id(),
            self.request_id,
            messages,
            tuple(self.tool_ids),
            self.model,
            self.role,
            self.step_budget,
            trace_id=self.trace_id,
        )


@dataclass(frozen=True, slots=True)
class AgentReport(Record):
    """The outcome of a run: the agent's answer, the used tokens, and the error of a run that failed."""

    final: RunFinal
    error: LlmError | None = None

    @property
    def content(self) -> str:
        """The agent's answer."""
        return self.final.content

    json_keys = (
        "ok=final.ok", "run_id=final.run_id", "request_id=final.request_id", "content", "usage=final.usage",
        "error_code=final.error_code",
    )  # fmt: skip


def run_request(
    project_dir: Path,
    environ: Mapping[str, str],
    *,
    request: Path | None,
    toolbox: Toolbox,
    privacy: bool,
    show: Emit,
    warn: Warn,
    emit: Emit = ignore_events,
) -> AgentReport:
    """Run a request from a file, or from stdin for None; `show` receives each event of the run as it happens.

    Raises `UsageError` for an invalid request. A run that fails is a report with its error.
    """
    layout = Layout(project_dir)
    config = load_config(layout.config).config
    asked = _request(request)
    require_role(asked.role)
    ref = model_for(config, asked.role, model=asked.model)
    project = ServedProject(layout, environ)
    given = toolbox.tools(project, privacy=privacy, attributes=config.mcp.user_attributes, keep=_keep_nothing)
    tools = check_tools(given)
    unknown = next((name for name in asked.tool_ids if name not in tools), None)
    if unknown is not None:
        near = did_you_mean(unknown, tools)
        hint = f"did you mean `{near}`?" if near else f"tools: {listing(tools, len(tools))}"
        raise UsageError(f"there is no tool `{unknown}`", hint=hint)

    async def work() -> AgentReport:
        async with project_runtime(
            layout, config, environ, command=Command("llm", "run"), warn=warn, emit=emit, run_id=asked.run_id
        ) as runtime:
            handle = runtime.run(asked, tools, watch=show)
            final = await settled(asked, handle)
            names = CallNames(backend=ref.backend, model=ref.model, role=asked.role)
            used_up = llm_error("max_turns", **names) if final.error_code == "timeout" else None
            return AgentReport(final, handle.error or used_up)

    try:
        return run_async(work())
    finally:
        project.close()


def _keep_nothing(*_: Any) -> None:
    """Keep no rows: the agent's program reads the answer alone."""


def _request(path: Path | None) -> RunRequest:
    where = "stdin" if path is None else str(path)
    try:
        text = sys.stdin.read() if path is None else path.read_text("utf-8")
        return RequestForm.model_validate_json(text).request()
    except OSError as error:
        raise UsageError(f"cannot read the request {where}: {error.strerror}", hint=_REQUEST) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the request {where} is not UTF-8", hint=_REQUEST) from error
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, found["loc"]))
        message = f"the request {where} is invalid: {place + ': ' if place else ''}{found['msg']}"
        raise UsageError(message, hint=_REQUEST) from None


_REQUEST: Final = (
    'for example {"messages": [{"role": "user", "content": "Reply with ok"}], "tool_ids": ["wiki_search"]}'
)
