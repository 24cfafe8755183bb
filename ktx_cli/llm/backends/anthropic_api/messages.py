"""Builds Messages API requests from a call: blocks, tools, cache marks, structured output."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.llm.agent_loop import CallSpec, Conversation, Entry, ModelTurn, ToolCall
from ktx_cli.llm.backends.anthropic_api import version_of
from ktx_cli.llm.schemas import ANSWER_TOOL, is_lossless
from ktx_cli.llm.settings import Part, ttl
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.llm.types import Usage, encodable
from ktx_cli.project import PromptCaching

MAX_TOKENS: Final = 32_000
MAX_TOKENS_GATEWAY: Final = 8_192
"""Maximum number of output tokens to request; unknown models behind a gateway often do not allow more."""

_CLAUDE: Final = re.compile(r"(?:^|[/.:])(?:claude-|anthropic/)")
"""Matches the ids of models that support cache marks, even behind a gateway."""


def request_body(spec: CallSpec, conversation: Conversation, caching: PromptCaching) -> dict[str, Any]:
    """Return the arguments for `messages.create`, identical for identical input."""
    body: dict[str, Any] = {
        "model": spec.model,
        "max_tokens": MAX_TOKENS_GATEWAY if spec.backend == "gateway" and spec.effort is None else MAX_TOKENS,
        "messages": [_message(entry) for entry in conversation.history],
        "stream": True,
    }
    tools = [_tool(tool) for tool in spec.tools.values()]
    if tools:
        body["tools"] = tools
    if conversation.system.strip():
        body["system"] = [{"type": "text", "text": conversation.system}]
    _mark(body, spec, caching)
    if spec.schema is not None:
        _ask_for_object(body, spec)
    if spec.effort is not None:
        body["output_config"] = {**body.get("output_config", {}), "effort": spec.effort}
        if "tool_choice" not in body:  # a model that must call a tool cannot think first
            body["thinking"] = {"type": "adaptive"}
    if spec.backend == "bedrock":
        body["extra_body"] = {"anthropic_version": API_VERSION}
    made: dict[str, Any] = encodable(body)
    return made


API_VERSION: Final = "bedrock-2023-05-31"
"""The version of the API that every Claude model on Bedrock accepts; the SDK would send a newer one."""

MOST_MARKS: Final = 4
"""Maximum number of cache marks that the API accepts per request."""


def _mark(body: dict[str, Any], spec: CallSpec, caching: PromptCaching) -> None:
    """Put cache marks on the blocks of a request: tools, system prompt, cached parts of the prompt, history.

    The mark of the tools is on the last one that other loops also have; that of the system prompt covers the others. A
    stored prefix is found at most 20 blocks before a mark. A turn of ten calls adds more than that, so the history has
    two marks: the first is where the previous request had its last. That makes one too many from the second request on,
    when the tools are already stored, so their mark is dropped.
    """
    wanted: list[tuple[list[dict[str, Any]], int, Part]] = []
    common = sum(tool.common for tool in spec.tools.values())
    if body.get("tools"):
        wanted.append((body["tools"], common - 1 if body.get("system") else -1, "tools"))
    if body.get("system"):
        wanted.append((body["system"], -1, "system"))
    shared = body["messages"][0]["content"]
    wanted += [(shared, number, "history") for number, part in enumerate(spec.parts) if part.cached]
    if spec.kind == "loop":
        from_outside = [message["content"] for message in body["messages"] if message["role"] == "user"]
        wanted += [(content, -1, "history") for content in from_outside[-2:]]
    marks = _Marks(caching, spec)
    wanted = [each for each in wanted if marks.lifetime(each[2]) is not None]
    del wanted[: max(0, len(wanted) - MOST_MARKS)]
    for blocks, number, part in wanted:
        blocks[number] = marks.on(blocks[number], part)


def is_newer_on_bedrock(model: str) -> bool:
    """Return whether a model supports schemas for answers, and caches of an hour, on Bedrock: Claude from 4.5 on."""
    version = version_of(model)
    return version is not None and version >= (4, 5)


class _Marks:
    """Puts cache marks on blocks, for models that support them, in the API's order: tools, system, history.

    A long-lived mark may not follow a short-lived one: after one of 5 minutes, all others are as short.
    """

    def __init__(self, caching: PromptCaching, spec: CallSpec) -> None:
        self._caching = caching
        self._backend = spec.backend
        self._known = _CLAUDE.search(spec.model.lower()) is not None
        self._short = spec.backend == "bedrock" and not is_newer_on_bedrock(spec.model)

    def lifetime(self, part: Part) -> str | None:
        return ttl(self._caching, part, backend=self._backend) if self._known else None

    def on(self, block: dict[str, Any], part: Part) -> dict[str, Any]:
        lifetime = self.lifetime(part)
        if lifetime is None:
            return block
        self._short = self._short or lifetime == "5m"
        mark = {"type": "ephemeral", "ttl": "5m" if self._short else lifetime}
        if self._backend == "bedrock" and self._short:
            del mark["ttl"]  # older models there do not accept it
        return {**block, "cache_control": mark}


def _message(entry: Entry) -> dict[str, Any]:
    if entry.kind == "turn":
        turn = _turn_of(entry)
        return {"role": "assistant", "content": list(turn.raw)}
    if entry.kind == "results":
        results = [
            {"type": "tool_result", "tool_use_id": one.call_id, "content": one.text, "is_error": one.is_error}
            for one in entry.results
        ]
        return {"role": "user", "content": results}
    texts = [part.text for part in entry.parts] or [entry.text]
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def _turn_of(entry: Entry) -> ModelTurn:
    if entry.turn is None:
        raise ValueError("an entry of kind `turn` must have a turn")
    return entry.turn


def _tool(tool: RuntimeTool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema()}


def _ask_for_object(body: dict[str, Any], spec: CallSpec) -> None:
    schema = dict(spec.schema or {})
    has_format = spec.backend != "gateway" and (spec.backend != "bedrock" or is_newer_on_bedrock(spec.model))
    if has_format and is_lossless(schema):
        body["output_config"] = {"format": {"type": "json_schema", "schema": strict_schema(schema)}}
        return
    body["tools"] = [{"name": ANSWER_TOOL, "description": "Give the answer.", "input_schema": schema}]
    body["tool_choice"] = {"type": "tool", "name": ANSWER_TOOL}


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema in the form that the response format requires: closed objects and no unsupported limits."""
    from anthropic import transform_schema

    return transform_schema(json.loads(json.dumps(schema)))


@dataclass(slots=True)
class StreamedMessage:
    """An answer that is still being received. `blocks` are the content blocks, ready to be sent back."""

    message_id: str = ""
    model: str | None = None
    stop_reason: str | None = None
    blocks: list[dict[str, Any]] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)
    complete: bool = False

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return "".join(block.get("text", "") for block in self.blocks if block["type"] == "text")

    @property
    def long_writes(self) -> int:
        """The number of tokens written to the one-hour cache."""
        return self.usage.get("ephemeral_1h_input_tokens", 0)

    def as_usage(self) -> Usage:
        """Return the answer's token counts."""
        names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        return Usage(*(self.usage.get(name, 0) for name in names))


async def read_answer(events: AsyncIterator[Any], answer: StreamedMessage, on_text: Callable[[str], None]) -> None:
    """Add the content of events to the answer; `on_text` receives each chunk of text as it arrives.

    Received content is in the answer even if this raises; `complete` says whether the end was received.
    """
    blocks: dict[int, _Block] = {}
    async for event in events:
        data = event.model_dump(mode="json", exclude_unset=True, warnings=False)
        kind = data.get("type")
        if kind == "message_start":
            _start(answer, data["message"])
        elif kind == "content_block_start":
            answer.blocks.append(data["content_block"])
            blocks[data["index"]] = _Block(data["content_block"])
        elif kind == "content_block_delta":
            _delta(blocks[data["index"]], data["delta"], on_text)
        elif kind == "content_block_stop":
            _finish_block(answer, blocks[data["index"]])
        elif kind == "message_delta":
            answer.stop_reason = data["delta"].get("stop_reason") or answer.stop_reason
            answer.complete = answer.complete or answer.stop_reason is not None
            _take_usage(answer, data.get("usage"))
        elif kind == "message_stop":
            answer.complete = True


@dataclass(slots=True)
class _Block:
    """A content block, and the parts of its tool arguments received so far."""

    content: dict[str, Any]
    pieces: list[str] = field(default_factory=list)


def _start(answer: StreamedMessage, message: dict[str, Any]) -> None:
    answer.message_id = message.get("id", "")
    answer.model = message.get("model")
    _take_usage(answer, message.get("usage"))


def _take_usage(answer: StreamedMessage, usage: dict[str, Any] | None) -> None:
    """Record the highest counts: some gateways send zeros first, others last."""
    counts = usage or {}
    for name, count in (*counts.items(), *(counts.get("cache_creation") or {}).items()):
        if isinstance(count, int):
            answer.usage[name] = max(count, answer.usage.get(name, 0))


def _delta(block: _Block, delta: dict[str, Any], on_text: Callable[[str], None]) -> None:
    kind, content = delta["type"], block.content
    if kind == "text_delta":
        content["text"] = content.get("text", "") + delta["text"]
        on_text(delta["text"])
    elif kind == "input_json_delta":
        block.pieces.append(delta["partial_json"])
    elif kind == "thinking_delta":
        content["thinking"] = content.get("thinking", "") + delta["thinking"]
    elif kind == "signature_delta":
        content["signature"] = delta["signature"]


def _finish_block(answer: StreamedMessage, block: _Block) -> None:
    content, text = block.content, "".join(block.pieces)
    if content["type"] != "tool_use":
        return
    arguments: Any = content.get("input") or {}
    if text:
        try:
            arguments = json.loads(text)
        except (ValueError, RecursionError):
            arguments = text
    broken = not isinstance(arguments, dict)
    if broken:
        arguments = text or json.dumps(arguments)
    content["input"] = {"unparsed": arguments} if broken else arguments
    answer.calls.append(ToolCall(content["id"], content["name"], arguments))
