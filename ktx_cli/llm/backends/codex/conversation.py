"""One call on one Codex process: ktx's agent loop asks it for the model's turns and answers its tool calls.

Codex runs a loop of its own. Between two turns of the model it waits for the results of the tool calls, which are
requests to ktx; so each response of the model is one turn of ktx's loop, and its results are the answers to these
requests. A turn that failed, for example because of a rate limit, is continued by a turn of Codex without an input.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ktx_cli.llm.agent_loop import CallRecord, CallSpec, Conversation, Entry, ModelTurn, ToolCall
from ktx_cli.llm.backends.codex.binary import NAME
from ktx_cli.llm.backends.codex.isolation import check_notification, check_thread, isolation_error
from ktx_cli.llm.backends.codex.server import AppServer, Message, RequestFailed
from ktx_cli.llm.backends.openai_api.abilities import is_strict, schema_in_words, strict_schema
from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.llm.governor import RateSignal
from ktx_cli.llm.types import ToolInvocation, Usage
from ktx_cli.llm.usage import cost_of

STALL_SECONDS: Final = 300.0
"""How long the rest of an answer may take after one of its tool calls; Codex's own limit between parts of one."""

FAILED: Final = "Error: "
"""What the result of a failed tool call begins with, because the Responses API has no field for it."""


class CodexConversation:
    """The turns of one call on a checked process. `work`: its folder; `observe` receives the state of the limits."""

    def __init__(self, server: AppServer, work: Path, spec: CallSpec, observe: Callable[[RateSignal], None]) -> None:
        self.server = server
        self.unparsed = False
        """Whether Codex answers a call of the last turn itself, because its arguments are not JSON."""

        self._work = str(work)
        self._observe = observe
        self._schema = strict_schema(spec.schema) if spec.schema and is_strict(spec.schema) else None
        asked = schema_in_words(spec.schema) if spec.schema and self._schema is None else ""
        self._system = "\n\n".join(filter(None, (spec.system, asked)))
        self._thread = ""
        self._model = spec.model
        self._given = 0
        self._texts: set[str] = set()
        self._is_open = False
        self._results: dict[str, ToolInvocation] = {}
        self._requested: dict[str, Any] = {}
        self._resets_at: float | None = None

    async def turn(self, spec: CallSpec, conversation: Conversation, record: CallRecord) -> ModelTurn:
        """Return the model's next turn; raises `LlmError`. After one, the same turn can be asked for again."""
        try:
            if not self._thread:
                await self._open_thread(spec)
            await self._give(spec, conversation.history)
            return await self._read(spec, record)
        except RequestFailed as error:
            raise turn_error({"message": error.message}, spec) from error

    async def _open_thread(self, spec: CallSpec) -> None:
        tools = [
            {"type": "function", "name": one.name, "description": one.description, "inputSchema": one.input_schema()}
            for one in spec.tools.values()
        ]
        started = await self.server.request(
            "thread/start",
            {
                "model": spec.model, "cwd": self._work, "approvalPolicy": "never", "sandbox": "read-only",
                "ephemeral": True, "environments": [], "baseInstructions": self._system, "dynamicTools": tools,
                "experimentalRawEvents": True,
            },
        )  # fmt: skip
        check_thread(started)
        self._thread = started["thread"]["id"]
        self._model = started.get("model") or spec.model
        if self._model != spec.model:
            raise isolation_error(f"Codex replaced the model `{spec.model}` by `{self._model}`", origin=self._model)

    async def _give(self, spec: CallSpec, history: Sequence[Entry]) -> None:
        """Pass on the entries that Codex does not have: results to its requests, texts as the input of a turn."""
        new, self._given = history[self._given :], len(history)
        for result in (result for entry in new for result in entry.results):
            self._results[result.call_id] = result
        self._texts |= {entry.text for entry in new if entry.kind == "user"}
        if self._is_open:
            for call_id in [one for one in self._requested if one in self._results]:
                await self._answer(self._requested.pop(call_id), call_id)
            return
        texts = [entry.text for entry in new if entry.kind == "user"]
        if any(entry.kind == "turn" for entry in new) and len(new) == len(history):  # resumed from a journal
            items = [item for entry in new for item in request_items(entry)]
            await self.server.request("thread/inject_items", {"threadId": self._thread, "items": items})
            texts = []
        await self.server.request(
            "turn/start",
            {
                "threadId": self._thread, "input": [{"type": "text", "text": text} for text in texts],
                "environments": [], "outputSchema": self._schema, **({"effort": spec.effort} if spec.effort else {}),
            },
        )  # fmt: skip
        self._is_open = True

    async def _answer(self, number: Any, call_id: str) -> None:
        result = self._results[call_id]
        text = f"{FAILED}{result.text}" if result.is_error else result.text
        content = [{"type": "inputText", "text": text}]
        await self.server.send({"id": number, "result": {"contentItems": content, "success": not result.is_error}})

    async def _read(self, spec: CallSpec, record: CallRecord) -> ModelTurn:
        """Read messages until the model's turn is complete."""
        items: list[dict[str, Any]] = []
        turn: ModelTurn | None = None
        while True:
            message = await self._receive(is_complete=turn is not None)
            method, params = message.get("method"), message.get("params") or {}
            if params.get("threadId", self._thread) != self._thread:
                raise isolation_error("Codex started a conversation of its own")
            check_notification(message, self._texts)
            if method == "item/tool/call":
                await self._asked(message)
            elif method == "turn/started":
                items.clear()  # those before are of a history that was passed on
            elif method == "item/agentMessage/delta" and spec.kind in ("text", "loop"):
                record.text_delta(str(params.get("delta", "")))
            elif method == "rawResponseItem/completed" and params["item"]["type"] != "function_call_output":
                items += [] if _is_prompt(params["item"]) else [_kept(params["item"])]
            elif method == "rawResponse/completed":
                turn = self._turn(params, items, spec)
                if turn.calls:
                    return turn
            elif method == "model/rerouted":
                raise isolation_error(f"Codex replaced the model `{spec.model}` by `{params.get('toModel')}`")
            elif method == "account/rateLimits/updated":
                self._limits(params.get("rateLimits") or {})
            elif method == "turn/completed":
                if items and (params.get("turn") or {}).get("status") != "completed":
                    await self.server.kill()  # its history has a part of an answer, which another process does not get
                return self._ended(params.get("turn") or {}, turn, spec)

    async def _receive(self, *, is_complete: bool) -> Message:
        """Return the next message; raises `LlmError` if the model's answer is not completed after its tool calls.

        If the connection to the model drops behind a tool call, Codex waits for the result before it says so. The
        process is then ended: the next turn gets the history in another one, and no tool has run.
        """
        if is_complete or not self._requested.keys() - self._results.keys():
            return await self.server.receive()
        try:
            async with asyncio.timeout(STALL_SECONDS):
                return await self.server.receive()
        except TimeoutError as error:
            broken = self.server.broken("the connection to the model dropped in the middle of an answer")
            await self.server.kill()
            raise broken from error

    async def _asked(self, message: Message) -> None:
        """Answer a tool call if its result is known, else once the loop has run it."""
        call_id = str(message["params"].get("callId"))
        if call_id in self._results:
            await self._answer(message["id"], call_id)
        else:
            self._requested[call_id] = message["id"]

    def _turn(self, params: Message, items: list[dict[str, Any]], spec: CallSpec) -> ModelTurn:
        calls = tuple(
            ToolCall(item["call_id"], item["name"], _arguments(item["arguments"]))
            for item in items
            if item["type"] == "function_call"
        )
        self.unparsed = any(isinstance(call.arguments, str) for call in calls)
        texts = (part.get("text", "") for item in items if item["type"] == "message" for part in item["content"])
        usage, text = usage_of(params.get("usage")), "".join(texts)
        cost = cost_of(NAME, self._model, usage)
        unit, end = str(params.get("responseId") or ""), "tools" if calls else "end"
        return ModelTurn(text, calls, end, usage, cost, unit, self._model, raw=items)  # type: ignore[arg-type]

    def _ended(self, turn: Message, answer: ModelTurn | None, spec: CallSpec) -> ModelTurn:
        """Return the answer with which a turn of Codex ended; raises `LlmError` if there is none."""
        self._is_open = False
        if turn.get("status") != "completed":
            raise turn_error(turn.get("error") or {}, spec, resets_at=self._resets_at)
        if answer is None:
            raise llm_error("execution", **spec.names, message="Codex ended the turn without an answer of the model")
        # Codex drops the parts of an answer that say that the model declines, so nothing is left of it.
        return answer if answer.text or self._results else replace(answer, end="refusal")

    def _limits(self, limits: Message) -> None:
        windows = [one for one in (limits.get("primary"), limits.get("secondary")) if isinstance(one, Mapping)]
        used = [one["usedPercent"] for one in windows if isinstance(one.get("usedPercent"), int | float)]
        resets = [one["resetsAt"] for one in windows if isinstance(one.get("resetsAt"), int | float)]
        self._resets_at = float(max(resets)) if resets else None
        if used:
            self._observe(RateSignal("allowed", utilization=max(used) / 100))


def _is_prompt(item: Mapping[str, Any]) -> bool:
    return item["type"] == "message" and item.get("role") != "assistant"


def _kept(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item as the model wrote it, without Codex's own notes."""
    return {name: value for name, value in item.items() if not name.startswith("internal_")}


def _arguments(written: str) -> Mapping[str, Any] | str:
    """Return parsed arguments; those that are not an object as they are, because Codex answers such a call itself."""
    try:
        value = json.loads(written)
    except (ValueError, RecursionError):
        return written
    return value if isinstance(value, dict) else written


def request_items(entry: Entry) -> list[dict[str, Any]]:
    """Return an entry of a history as items of a request to the model."""
    if entry.kind == "user":
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": entry.text}]}]
    if entry.turn is not None:
        return list(entry.turn.raw)
    return [
        {
            "type": "function_call_output",
            "call_id": result.call_id,
            "output": f"{FAILED}{result.text}" if result.is_error else result.text,
        }
        for result in entry.results
    ]


def usage_of(tokens: Mapping[str, Any] | None) -> Usage:
    """Return the tokens of a response; Codex counts cached tokens as part of the input."""
    counts = {name: int(value or 0) for name, value in (tokens or {}).items() if isinstance(value, int | float)}
    read, written = counts.get("cachedInputTokens", 0), counts.get("cacheWriteInputTokens", 0)
    return Usage(max(0, counts.get("inputTokens", 0) - read - written), counts.get("outputTokens", 0), read, written)


_CODES: Final[Mapping[str, str]] = {
    "contextWindowExceeded": "context",
    "usageLimitExceeded": "rate_limit",
    "rateLimitExceeded": "rate_limit",
    "sessionBudgetExceeded": "rate_limit",
    "flexUnavailable": "overloaded",
    "serverOverloaded": "overloaded",
    "internalServerError": "overloaded",
    "policyCapacityUnavailable": "overloaded",
    "modelNotFound": "model",
    "unauthorized": "auth",
    "cyberPolicy": "refusal",
    "misalignmentPolicyViolation": "refusal",
}
"""The error code for Codex's own word for a failure."""

QUOTA: Final = "Quota exceeded"
"""What a failure says if an account has no credit; its word is the same as for a plan's limit."""

_STATUSES: Final[Mapping[int, str]] = {
    401: "auth", 402: "billing", 403: "auth", 404: "model", 408: "connection", 413: "context", 429: "rate_limit",
}  # fmt: skip

_SIGNS: Final = (
    ("stream disconnected", "connection"),
    ("error sending request", "connection"),
    ("workspace routing discovery unauthorized", "auth"),
    ("workspace routing discovery", "connection"),
    ("refresh token", "auth"),
    ("Incomplete response returned", "execution"),
)
"""Texts of failures for which Codex has no word, in the order in which they count."""


def turn_error(error: Message, spec: CallSpec, *, resets_at: float | None = None) -> LlmError:
    """Return the error for a failed turn of Codex."""
    info, words = error.get("codexErrorInfo"), str(error.get("message") or "")
    status: int | None = None
    code = _CODES.get(info, "") if isinstance(info, str) else ""
    if code == "rate_limit" and words.startswith(QUOTA):
        code = "billing"
    if isinstance(info, Mapping):
        status = next((one.get("httpStatusCode") for one in info.values() if isinstance(one, Mapping)), None)
        code = "connection" if status is None else _STATUSES.get(status, "overloaded" if status >= 500 else "execution")
    code = code or next((code for sign, code in _SIGNS if sign.lower() in words.lower()), "execution")
    detail = "\n".join(filter(None, (words, str(error.get("additionalDetails") or ""))))
    resets = resets_at if code == "rate_limit" else None
    if code == "execution" and words.startswith("Incomplete response"):
        message = f"the answer from the model `{spec.model}` was cut off at its limit"
        return llm_error(code, **spec.names, message=message, detail=detail)
    return llm_error(code, **spec.names, detail=detail, status=status, resets_at=resets)
