"""Carries out a call of a tool: arguments checked, run in a thread, the answer cut to its budget, errors told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import anyio
import anyio.to_thread
from pydantic import ValidationError

from ktx_cli.core.errors import KtxError, UsageError
from ktx_cli.core.text import did_you_mean, listing
from ktx_cli.mcp.paging import dumped, fitted
from ktx_cli.mcp.tool import Call, ServerTool, shown

log = logging.getLogger(__name__)

_LONGEST_TEXT: Final = 3_000
_LONGEST_DETAILS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call gave: `data` as its output schema has it, or the error."""

    data: Mapping[str, Any] | None = None
    error: KtxError | None = None

    @property
    def text(self) -> str:
        """The answer as the agent reads it."""
        return dumped(self.data if self.error is None else {"error": error_told(self.error)})


def error_told(error: KtxError) -> dict[str, Any]:
    """Return an error as JSON, nothing hidden in its texts, its details left out where they are long."""
    told: dict[str, Any] = shown(error.to_json())
    told["message"] = told["message"][:_LONGEST_TEXT]
    told["hint"] = told["hint"] and told["hint"][:_LONGEST_TEXT]
    if len(dumped(told["details"])) > _LONGEST_DETAILS:
        told["details"] = {}
    return told


async def called(
    tools: Mapping[str, ServerTool], name: str, arguments: Mapping[str, Any], call: Call, limit: anyio.CapacityLimiter
) -> Answer:
    """Return the answer of a call; whatever goes wrong is an answer too. Cancelling it ends the waiting at once."""
    try:
        tool = tools.get(name)
        if tool is None:
            raise _unknown(name, tools)
        value = _checked(tool, arguments)
        run: Callable[[], dict[str, Any]] = lambda: fitted(tool.run(call, value), getattr(value, "offset", 0))  # noqa: E731
        try:
            return Answer(await anyio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=limit))
        finally:
            call.stopped.set()
    except KtxError as error:
        return Answer(error=error)
    except Exception as problem:  # a bug must not end the session of the agent
        log.exception("the tool %s failed", name)
        return Answer(error=KtxError(f"{name} failed unexpectedly: {type(problem).__name__}", code="internal"))


def _unknown(name: str, tools: Mapping[str, ServerTool]) -> UsageError:
    near = did_you_mean(name[:100], tools)
    return UsageError(
        f"there is no tool `{name[:100]}`", hint=f"did you mean `{near}`?" if near else f"tools: {listing(tools, 30)}"
    )


def _checked(tool: ServerTool, arguments: Mapping[str, Any]) -> Any:
    try:
        return tool.input_model.model_validate(dict(arguments))
    except ValidationError as error:
        found = [f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}"[:300] for each in error.errors()]
        raise UsageError(
            f"the arguments of {tool.name} are wrong: {'; '.join(found[:10])}",
            hint=_hint(tool, error),
            details={"issues": found[:50]},
        ) from None


def _hint(tool: ServerTool, error: ValidationError) -> str:
    """Return the argument that was probably meant, else all there are."""
    unknown = [str(each["loc"][-1]) for each in error.errors() if each["type"] == "extra_forbidden"]
    near = [(each, found) for each in unknown if (found := did_you_mean(each[:100], tool.input_model.model_fields))]
    if near:
        return "; ".join(f"in place of `{each[:100]}` did you mean `{found}`?" for each, found in near[:5])
    return f"it takes: {listing(tool.input_model.model_fields, 40) or 'no arguments'}"
