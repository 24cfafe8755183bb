"""Turns the messages of one Claude Code call into steps, tool calls, usage and an outcome."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.core import ResultWarning
from ktx_cli.llm.agent_loop import CallRecord
from ktx_cli.llm.backends.claude.session import allowing_policy
from ktx_cli.llm.backends.claude_code.isolation import (
    PREFIX,
    STRUCTURED_OUTPUT,
    check_init,
    check_result_route,
    foreign_hook,
    init_facts,
)
from ktx_cli.llm.errors import CallNames, LlmError, llm_error
from ktx_cli.llm.governor import RateSignal
from ktx_cli.llm.types import Cost, RateLimitWait, StopReason, ToolInvocation, Usage

log = logging.getLogger(__name__)

REFUSED: Final = "stopped by a safety classifier"
"""Part of the note that the binary writes when it retries after a refusal, which withdraws the model's earlier text."""


class MessageReader:
    """Reads the messages of one call, in order. A step begins with a new message id and ends with the next, or with

    the result; what the binary adds itself (continuations, its own notes) is not a step.
    """

    def __init__(
        self,
        record: CallRecord,
        allowed: frozenset[str],
        *,
        allow_managed: bool,
        observe: Callable[[RateSignal], None],
        warn: Callable[[ResultWarning], None],
    ) -> None:
        self.record = record
        self.ending: Ending | None = None
        self.structured: Any = None
        self.texts: list[str] = []
        self.init_seen = False
        self.session_id: str | None = None
        self._allowed = allowed
        self._allow_managed = allow_managed
        self._observe = observe
        self._warn = warn
        self._open: str | None = None
        self._open_tools: list[str] = []
        self._open_has_results = False
        self._word: str | None = None
        self._resets_at: float | None = None
        self._calls: dict[str, tuple[str, Any, float]] = {}
        self._done: set[str] = set()
        self._pieces = False
        self._waiting: str | None = None

    async def feed(self, message: Any) -> None:
        """Process one message; raises `LlmError` if the process is not isolated as required."""
        kind = type(message).__name__
        self._wait_is_over()
        if kind == "HookEventMessage":
            self._hook(message)
        elif kind == "SystemMessage":
            await self._system(message)
        elif kind == "AssistantMessage":
            await self._assistant(message)
        elif kind == "UserMessage":
            self._user(message)
        elif kind == "StreamEvent":
            await self._stream_event(message)
        elif kind == "RateLimitEvent":
            self._rate_limit(message.rate_limit_info)
        elif kind == "ResultMessage":
            await self._result(message)

    def note_tool(self, invocation: ToolInvocation) -> None:
        """Record a call that a ktx handler executed."""
        if invocation.call_id not in self._done:
            self._done.add(invocation.call_id)
            self.record.tool_finished(invocation)

    def _hook(self, message: Any) -> None:
        error = foreign_hook(message.data, backend=self.record.spec.backend)
        self.record.isolation.setdefault("foreign_hooks", []).append(error.details["hook_event"])
        with allowing_policy(self._allow_managed, self._warn):
            raise error

    async def _system(self, message: Any) -> None:
        if message.subtype == "init":
            self.init_seen = True
            self.session_id = message.data.get("session_id")
            self.record.resolved_model = message.data.get("model") or self.record.resolved_model
            with allowing_policy(self._allow_managed, self._warn):
                check_init(message.data, self._allowed, backend=self.record.spec.backend)
            self.record.isolation.update(init_facts(message.data))
        elif message.subtype == "api_retry":
            await self._retry(message.data)

    async def _retry(self, data: Mapping[str, Any]) -> None:
        """Record that the binary is asking the model again, so the previous step is over. A 401 only makes it look for
        its session.
        """
        await self.close_whole_step()
        self.record.retries += 1
        self.record.attempts += 0 if data.get("error_status") == 401 else 1
        if data.get("error") in ("rate_limit", "overloaded") or data.get("error_status") in (429, 529):
            delay = data.get("retry_delay_ms")
            seconds = delay / 1000 if isinstance(delay, int | float) else None
            self._waiting = "rate_limit" if data.get("error_status") == 429 else "overloaded"
            self.record.emit(RateLimitWait("started", seconds or 0.0, self._waiting))
            self._observe(RateSignal("warning", retry_after=seconds))

    def _wait_is_over(self) -> None:
        """End a wait that the binary began, because it sends messages again."""
        if self._waiting is not None:
            self.record.emit(RateLimitWait("finished", 0.0, self._waiting))
            self._waiting = None

    async def _assistant(self, message: Any) -> None:
        if message.parent_tool_use_id:
            return
        if message.error or message.model == "<synthetic>":
            self._word = message.error or self._word
            return
        await self._open_step(message.message_id or message.uuid)
        for block in message.content:
            name = type(block).__name__
            if name == "TextBlock":
                self._text(block.text)
            elif name == "ToolUseBlock":
                self._tool_use(block)

    async def _open_step(self, message_id: str) -> None:
        if self._open == message_id:
            return
        if self._open is not None and self._open_has_results:
            await self._close_step()
        if self._open is None or self._open_has_results:
            self.texts.clear()
        self._open, self._open_has_results = message_id, False

    async def close_whole_step(self) -> None:
        """Close the open step if every tool it called has answered, even if no further step has begun."""
        if self._open_has_results and self._called <= self._done:
            await self._close_step()

    @property
    def _called(self) -> set[str]:
        return {call_id for call_id, (name, _, _) in self._calls.items() if name != STRUCTURED_OUTPUT}

    async def _close_step(self) -> None:
        if self._open is None:
            return
        names, self._open, self._open_tools = tuple(self._open_tools), None, []
        self._open_has_results = False
        if self.record.steps < self.record.spec.step_budget or self.record.spec.kind != "loop":
            await self.record.step_finished(names)

    def _text(self, text: str) -> None:
        self.texts.append(text)
        if not self._pieces and self.record.spec.kind in ("text", "loop"):
            self.record.text_delta(text)

    def _tool_use(self, block: Any) -> None:
        if block.name == STRUCTURED_OUTPUT:
            self.record.attempts += 1 if self._calls.get(STRUCTURED_OUTPUT) else 0
            self._calls[STRUCTURED_OUTPUT] = (block.name, None, 0.0)
            self._calls[block.id] = (block.name, None, 0.0)
            return
        name = block.name.removeprefix(PREFIX)
        arguments = _arguments(block.input)
        if block.name not in self._allowed:
            log.warning("the model asked for the tool %s, which this call does not have", block.name)
        self._open_tools.append(name)
        self._calls[block.id] = (name, arguments, time.monotonic())
        self.record.tool_started(block.id, name, arguments)

    def _user(self, message: Any) -> None:
        if message.parent_tool_use_id or not isinstance(message.content, list):
            return
        for block in message.content:
            if type(block).__name__ == "ToolResultBlock":
                self._open_has_results = True
                self._tool_result(block)
            elif type(block).__name__ == "TextBlock" and REFUSED in block.text:
                self.texts.clear()

    def _tool_result(self, block: Any) -> None:
        name, arguments, started = self._calls.get(block.tool_use_id, ("unknown", {}, time.monotonic()))
        if name == STRUCTURED_OUTPUT or block.tool_use_id in self._done:
            return
        seconds = time.monotonic() - started
        text, failed = _result_text(block.content), bool(block.is_error)
        self.note_tool(ToolInvocation(block.tool_use_id, name, arguments, text, failed, seconds=seconds))

    async def _stream_event(self, message: Any) -> None:
        event = message.event
        delta = event.get("delta") or {}
        if message.parent_tool_use_id:
            return
        if event.get("type") == "message_start" and (started := (event.get("message") or {}).get("id")):
            await self._open_step(started)
        if event.get("type") != "content_block_delta":
            return
        self._pieces = True
        if delta.get("type") == "text_delta" and self.record.spec.kind in ("text", "loop"):
            self.record.text_delta(delta.get("text", ""))

    def _rate_limit(self, info: Any) -> None:
        windows = (info.raw or {}).get("unifiedWindows") or {}
        used = [window.get("utilization") for window in windows.values() if isinstance(window, Mapping)]
        shares = [float(share) for share in used if isinstance(share, int | float)]
        words = {info.status, *(window.get("status") for window in windows.values() if isinstance(window, Mapping))}
        resets = _seconds(info.resets_at)
        if "rejected" in words:
            self._resets_at = resets
            self._observe(RateSignal("rejected", resets_at=resets))
        else:
            status = "warning" if "allowed_warning" in words else "allowed"
            self._observe(RateSignal(status, utilization=max(shares) if shares else None))  # type: ignore[arg-type]

    async def _result(self, message: Any) -> None:
        await self._close_step()
        self.structured = message.structured_output
        reasons = (message.terminal_reason, message.stop_reason, message.api_error_status)
        self.ending = Ending(
            message.subtype, message.is_error, *reasons, self._word, message.result or "", self._resets_at
        )
        self.note_usage(message)
        if not message.is_error:
            with allowing_policy(self._allow_managed, self._warn):
                check_result_route(message.model_usage, backend=self.record.spec.backend)

    def note_usage(self, message: Any) -> None:
        """Report the call's usage, the only part of a stopped call's result that counts."""
        usage, cost = usage_of(message.model_usage, message.usage, message.total_cost_usd)
        unit = message.session_id or self.session_id or "unknown"
        self.record.unit(unit, usage, cost, raw={"model_usage": message.model_usage or {}})

    def lost(self) -> None:
        """Report the usage unit of a call whose process ended without a result, and the end of its waits."""
        self._wait_is_over()
        if self.session_id is not None:
            self.record.unit(self.session_id, Usage(), Cost(), complete=False)


def usage_of(by_model: Any, totals: Any, dollars: Any) -> tuple[Usage, Cost]:
    """Return a result's tokens and cost: the sums by model, which count every request, or else the totals."""
    models = [usage for usage in (by_model or {}).values() if isinstance(usage, Mapping)]
    if models:
        usage = Usage(*(sum(int(one.get(key) or 0) for one in models) for key in _MODEL_COUNTS))
    else:
        usage = Usage(*(int((totals or {}).get(key) or 0) for key in _TOTAL_COUNTS))
    return usage, Cost(float(dollars), "list_price") if isinstance(dollars, int | float) else Cost()


_MODEL_COUNTS: Final = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
_TOTAL_COUNTS: Final = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def _arguments(value: Any) -> Mapping[str, Any] | str:
    """Return tool arguments, or the text that the model wrote if the binary could not parse it."""
    if isinstance(value, Mapping) and set(value) == {"__unparsedToolInput"}:
        inside = value["__unparsedToolInput"]
        return str(inside.get("raw", "")) if isinstance(inside, Mapping) else str(inside)
    return value if isinstance(value, Mapping) else str(value)


def _result_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [] if isinstance(part, Mapping))


def _seconds(value: Any) -> float | None:
    """Return Unix seconds from seconds or milliseconds."""
    if not isinstance(value, int | float):
        return None
    return value / 1000 if value > 1e11 else float(value)


_UNSUCCESSFUL_STOPS: Final = (None, "end_turn", "tool_use", "stop_sequence")

_SIGNS: Final[Mapping[str, tuple[object, ...]]] = {
    "auth": (
        "authentication_failed", "oauth_org_not_allowed", "account_on_hold", "verification_required",
        "cloud_credential_error", 401, 403,
    ),
    "billing": ("billing_error", 402),
    "rate_limit": ("rate_limit", 429),
    "overloaded": ("overloaded", 500, 502, 503, 529),
    "model": ("model_not_found", 404),
    "context": ("prompt_too_long", "blocking_limit", "rapid_refill_breaker", 413),
    "structured_output": ("structured_output_retry_exhausted",),
}  # fmt: skip
"""Signs of a failed call, by error code: terminal reasons, error words and API statuses."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The last frame of a call, reduced to what matters. `word` is the last error word of an assistant message."""

    subtype: str
    is_error: bool
    terminal_reason: str | None = None
    stop_reason: str | None = None
    api_status: int | None = None
    word: str | None = None
    text: str = ""
    resets_at: float | None = None


def stop_reason(ending: Ending | None) -> StopReason:
    """Return how a call ended. Any sign of used-up turns wins; an API failure has `success` but is an error."""
    if ending is None:
        return "error"
    if "max_turns" in (ending.subtype.removeprefix("error_"), ending.terminal_reason, ending.stop_reason):
        return "budget"
    if ending.is_error or ending.subtype != "success":
        return "error"
    if ending.terminal_reason not in (None, "completed"):
        return "error"
    if ending.terminal_reason is None and ending.stop_reason not in _UNSUCCESSFUL_STOPS:
        return "error"
    return "natural"


def ending_error(ending: Ending | None, *, backend: str, model: str, role: str) -> LlmError:
    """Return the error for a call that did not end naturally."""
    names = CallNames(backend=backend, model=model, role=role)
    if ending is None:
        return llm_error("execution", **names, message="Claude Code ended without a result")
    facts = {"subtype": ending.subtype, "terminal_reason": ending.terminal_reason}
    code = error_code(ending)
    resets = ending.resets_at if code == "rate_limit" else None
    return llm_error(code, **names, detail=ending.text, status=ending.api_status, resets_at=resets, **_given(facts))


def error_code(ending: Ending) -> str:
    """Return the error code for an ending, based on the most specific sign."""
    if stop_reason(ending) == "budget":
        return "max_turns"
    if ending.subtype == "error_max_structured_output_retries":
        return "structured_output"
    for sign in (ending.terminal_reason, ending.word, ending.api_status):
        for code, signs in _SIGNS.items():
            if sign in signs:
                return code
    if ending.word == "server_error":
        return "connection" if ending.api_status is None else "overloaded"
    if ending.stop_reason == "refusal":
        return "refusal"
    if ending.stop_reason == "model_context_window_exceeded":
        return "context"
    return "execution"


def _given(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}
