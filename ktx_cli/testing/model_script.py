"""The turns of a scripted model, and the form in which each kind of client receives a turn.

A test defines the model's output once; `render` shapes it for each client: the API backends see content blocks, Claude
Code sees its own tool names (`mcp__ktx__...`, `StructuredOutput`), `claude --print` sees the text protocol.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

STRUCTURED_TOOL = "StructuredOutput"
"""The tool that Claude Code adds for a call with a schema."""

ANSWER_TOOL = "give_answer"
"""The tool that ktx requests if the response format cannot carry an object."""

PROTOCOL_TAG = "<use_tools>"
"""A marker in the system prompt of the text protocol."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call: the plain tool name and its arguments, or a string for arguments that are invalid JSON."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Turn:
    """One response of the model: text, then tool calls, or an object for a call with a schema.

    `stop_reason` None: `tool_use` with calls, else `end_turn`. `long_cache_write_tokens` are those of
    `cache_write_tokens` that are cached for an hour. `delay` is the seconds before the response starts; `forever`
    delays the response until the client disconnects; `more` are text blocks after the first.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    object: Any = None
    stop_reason: str | None = None
    input_tokens: int = 100
    output_tokens: int = 20
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    long_cache_write_tokens: int = 0
    delay: float = 0.0
    forever: bool = False
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """An error response: HTTP status, the API's error type, a message and extra headers."""

    status: int
    kind: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Cut:
    """A truncated response: only the first `share` (0 to 1) of its bytes is sent before the connection drops."""

    turn: Turn
    share: float = 0.5
    delay: float = 0.0


Reply = Turn | Failure | Cut

UNAUTHORIZED = Failure(401, "authentication_error", "invalid x-api-key")
FORBIDDEN = Failure(403, "permission_error", "your organization may not use this model")
OVERLOADED = Failure(529, "overloaded_error", "Overloaded")
NO_CREDIT = Failure(400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API")
TOO_LONG = Failure(400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum")
NO_SUCH_MODEL = Failure(404, "not_found_error", "model: no-such-model")


def rate_limited(retry_after: float | None = None) -> Failure:
    """Return a 429, with a `retry-after` header in seconds if one is given."""
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    return Failure(429, "rate_limit_error", "This request would exceed your rate limit", headers)


def says(text: str, **facts: Any) -> Turn:
    """Return a turn that ends the conversation with text."""
    return Turn(text=text, **facts)


def calls(*wanted: Call | tuple[str, Mapping[str, Any]], text: str = "", **facts: Any) -> Turn:
    """Return a turn with parallel tool calls."""
    made = tuple(one if isinstance(one, Call) else Call(*one) for one in wanted)
    return Turn(text=text, calls=made, **facts)


def gives(value: Any, **facts: Any) -> Turn:
    """Return a turn that answers a call with a schema."""
    return Turn(object=value, **facts)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request that reached the scripted server. `body` is the parsed JSON, or {} if there was none.

    For a model call through another API, `body` is the same request to the Messages API, and `sent` is what the client
    sent.
    """

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    started: float
    is_model_call: bool = False
    sent: Mapping[str, Any] = field(default_factory=dict)

    @property
    def system(self) -> str:
        """The system prompt as one text."""
        return _text(self.body.get("system"))

    @property
    def tool_names(self) -> list[str]:
        """The client's names for the offered tools."""
        return [tool["name"] for tool in self.body.get("tools") or []]

    @property
    def words(self) -> str:
        """The entire content of the request as one text: system prompt, messages and tools."""
        return json.dumps(self.body, ensure_ascii=False)

    def tool_results(self) -> list[tuple[str, bool]]:
        """Return the text and error flag of every tool result in the last message."""
        messages = self.body.get("messages") or [{}]
        content = messages[-1].get("content")
        blocks = content if isinstance(content, list) else []
        return [
            (_text(block.get("content")), bool(block.get("is_error")))
            for block in blocks
            if block.get("type") == "tool_result"
        ]


Script = Callable[[ModelRequest], Reply]
"""Decides how the model responds to a request; must be safe to call from several threads."""


class InOrder:
    """A script that plays replies one after another. After the last one, it responds with a descriptive 500."""

    def __init__(self, replies: Iterable[Reply]) -> None:
        self._replies = list(replies)
        self._lock = threading.Lock()
        self.played = 0

    def __call__(self, request: ModelRequest) -> Reply:
        """Return the next reply."""
        with self._lock:
            self.played += 1
            if self.played > len(self._replies):
                return Failure(
                    500, "api_error", f"the script has only {len(self._replies)} replies, but another one was requested"
                )
            return self._replies[self.played - 1]


def render(turn: Turn, request: ModelRequest) -> dict[str, Any]:
    """Return the Messages API response for a turn, in the shape that the request's client understands."""
    blocks = _blocks(turn, request)
    has_calls = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": f"msg_script_{request.number:04d}",
        "type": "message",
        "role": "assistant",
        "model": request.body.get("model", "scripted"),
        "content": blocks,
        "stop_reason": turn.stop_reason or ("tool_use" if has_calls else "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": turn.input_tokens,
            "output_tokens": turn.output_tokens,
            "cache_read_input_tokens": turn.cache_read_tokens,
            "cache_creation_input_tokens": turn.cache_write_tokens,
            "cache_creation": {
                "ephemeral_5m_input_tokens": turn.cache_write_tokens - turn.long_cache_write_tokens,
                "ephemeral_1h_input_tokens": turn.long_cache_write_tokens,
            },
        },
    }


def _blocks(turn: Turn, request: ModelRequest) -> list[dict[str, Any]]:
    names = {name.removeprefix("mcp__ktx__"): name for name in request.tool_names}
    if turn.object is not None:
        return _object_blocks(turn.object, request)
    if turn.calls and PROTOCOL_TAG in request.system:
        return [{"type": "text", "text": turn.text + protocol_text(turn.calls)}]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text or not turn.calls else []
    blocks += [{"type": "text", "text": text} for text in turn.more]
    for place, call in enumerate(turn.calls):
        blocks.append(
            {
                "type": "tool_use",
                "id": f"toolu_script_{request.number:04d}_{place}",
                "name": names.get(call.name, call.name),
                "input": call.arguments if isinstance(call.arguments, str) else dict(call.arguments),
            }
        )
    return blocks


def _object_blocks(value: Any, request: ModelRequest) -> list[dict[str, Any]]:
    carrier = next((name for name in request.tool_names if name in (STRUCTURED_TOOL, ANSWER_TOOL)), None)
    if carrier is None:
        return [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]
    call_id = f"toolu_script_{request.number:04d}_0"
    return [{"type": "tool_use", "id": call_id, "name": carrier, "input": value}]


def protocol_text(wanted: Iterable[Call]) -> str:
    """Return tool calls in the text protocol of `claude --print`."""
    entries = [
        f'{{"name": {json.dumps(call.name)}, "input": {call.arguments}}}'
        if isinstance(call.arguments, str)
        else json.dumps({"name": call.name, "input": dict(call.arguments)})
        for call in wanted
    ]
    return f"{PROTOCOL_TAG}\n[{', '.join(entries)}]\n</use_tools>"


def stream_events(message: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return a response as the server-sent events of the Messages API, in order."""
    usage = message["usage"]
    start = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events: list[tuple[str, dict[str, Any]]] = [("message_start", {"message": start})]
    for index, block in enumerate(message["content"]):
        empty, delta = _block_events(block)
        events.append(("content_block_start", {"index": index, "content_block": empty}))
        events.append(("content_block_delta", {"index": index, "delta": delta}))
        events.append(("content_block_stop", {"index": index}))
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events.append(("message_delta", {"delta": ending, "usage": {"output_tokens": usage["output_tokens"]}}))
    events.append(("message_stop", {}))
    return [(name, {"type": name, **data}) for name, data in events]


def _block_events(block: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    if block["type"] == "text":
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    arguments = block["input"]
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {**block, "input": {}}, {"type": "input_json_delta", "partial_json": text}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content or [] if isinstance(block, dict))
