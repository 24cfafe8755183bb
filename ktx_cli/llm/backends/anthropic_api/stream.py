"""The server-sent events of one answer, put together; broken tool arguments stay as the text they are."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from ktx_cli.llm.own_loop import ToolCall
from ktx_cli.llm.types import Usage


@dataclass(slots=True)
class Answer:
    """An answer as it grows. `blocks` are the content blocks, ready to be sent back."""

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
        """The tokens written to a cache for an hour."""
        return self.usage.get("ephemeral_1h_input_tokens", 0)

    def as_usage(self) -> Usage:
        """Return the tokens of the answer."""
        return Usage(
            self.usage.get("input_tokens", 0),
            self.usage.get("output_tokens", 0),
            self.usage.get("cache_read_input_tokens", 0),
            self.usage.get("cache_creation_input_tokens", 0),
        )


async def read_answer(events: AsyncIterator[Any], answer: Answer, on_text: Callable[[str], None]) -> None:
    """Add to the answer what the events bring; `on_text` gets each piece of text as it comes.

    What came is in the answer also when this raises; `complete` says whether its end came.
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
    """A content block, and the pieces of its tool arguments so far."""

    content: dict[str, Any]
    pieces: list[str] = field(default_factory=list)


def _start(answer: Answer, message: dict[str, Any]) -> None:
    answer.message_id = message.get("id", "")
    answer.model = message.get("model")
    _take_usage(answer, message.get("usage"))


def _take_usage(answer: Answer, usage: dict[str, Any] | None) -> None:
    """Take the counts, which only grow: some gateways send zeros first, some last."""
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


def _finish_block(answer: Answer, block: _Block) -> None:
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
