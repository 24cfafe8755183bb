"""What a tool is before a session gives it its place, and how a call of one is carried out and remembered."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from ktx_cli.context.tools.failures import Refused
from ktx_cli.context.tools.limits import LONGEST, RESERVE, shortened
from ktx_cli.context.tools.session import ToolSession
from ktx_cli.context.tools.untrusted import visible
from ktx_cli.core.errors import KtxError
from ktx_cli.llm.tools import RuntimeTool, ToolOutput

log = logging.getLogger(__name__)


class Input(BaseModel):
    """The arguments of a tool: a key it does not have is an error, which the model reads."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of every session. `run` returns its result, and raises `Refused` for a call that changes nothing.

    `target`: what a call of a writer is about; None for a tool whose failures harm nothing. `longest`: characters of
    its result. `alone`: its calls wait for each other; a tool that waits for a database does not.
    """

    name: str
    description: str
    input_model: type[Input]
    run: Callable[[ToolSession, Any], ToolOutput | str]
    target: Callable[[ToolSession, Any], str] | None = None
    longest: int = LONGEST
    reads: bool = True
    alone: bool = True

    def on(self, session: ToolSession) -> RuntimeTool:
        """Return the tool as the loop of a session calls it."""

        def handler(value: Any) -> ToolOutput:
            return _called(self, session, value)

        return RuntimeTool(self.name, self.description, self.input_model, handler, read_only=self.reads)


def _called(tool: Tool, session: ToolSession, value: Any) -> ToolOutput:
    """Run a call and remember whether it failed; a failure nobody foresaw counts for every tool."""
    target = f"calls of {tool.name}" if tool.target is None else tool.target(session, value)
    try:
        output = _locked(tool, session, value)
    except KtxError as error:
        if error.code == "cancelled":
            raise
        told = _told(error)
        if tool.target is not None:
            session.pending.failed(target, tool.name, told)
        raise Refused(told) from error
    except Exception as error:
        session.pending.failed(target, tool.name, type(error).__name__)
        raise
    session.pending.made_good(target)
    given = output if isinstance(output, ToolOutput) else ToolOutput(output, {"success": True})
    if len(given.markdown) > tool.longest:
        log.warning("the result of %s had %s characters", tool.name, len(given.markdown))
        return ToolOutput(f"{given.markdown[: tool.longest - 100]}\n\n(cut: ask for less at once)", given.structured)
    return given


def _told(error: KtxError) -> str:
    """Return what a model reads of a refusal; names in it may be anybody's."""
    return shortened(visible(error.message + (f" ({error.hint})" if error.hint else "")), LONGEST - RESERVE)


def _locked(tool: Tool, session: ToolSession, value: Any) -> ToolOutput | str:
    if not tool.alone:
        return tool.run(session, value)
    with session.lock:
        return tool.run(session, value)
