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

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return "".join(block["text"] for block in self.blocks if block["type"] == "text")

    def as_usage(self) -> Usage:
        """Return the tokens of the answer."""
        return Usage(
            self.usage.get("input_tokens", 0),
            self.usage.get("output_tokens", 0),
            self.usage.get("cache_read_input_tokens", 0),
            self.usage.get("cache_creation_input_tokens", 0),
        )


async def read_answer(events: AsyncIterator[Any], on_text: Callable[[str], None]) -> Answer:
    """Return the answer the events make; `on_text` gets each piece of text as it comes."""
    answer = Answer()
    pieces: dict[int, list[str]] = {}
    async for event in events:
        data = event.model_dump(mode="json", exclude_unset=True)
        kind = data.get("type")
        if kind == "message_start":
            _start(answer, data["message"])
        elif kind == "content_block_start":
            answer.blocks.append(data["content_block"])
            pieces[data["index"]] = []
        elif kind == "content_block_delta":
            _delta(answer, data, pieces, on_text)
        elif kind == "content_block_stop":
            _finish_block(answer, answer.blocks[data["index"]], "".join(pieces.get(data["index"], [])))
        elif kind == "message_delta":
            answer.stop_reason = data["delta"].get("stop_reason") or answer.stop_reason
            _take_usage(answer, data.get("usage"))
    return answer


def _start(answer: Answer, message: dict[str, Any]) -> None:
    answer.message_id = message.get("id", "")
    answer.model = message.get("model")
    _take_usage(answer, message.get("usage"))


def _take_usage(answer: Answer, usage: dict[str, Any] | None) -> None:
    for name, count in (usage or {}).items():
        if isinstance(count, int):
            answer.usage[name] = count


def _delta(answer: Answer, data: dict[str, Any], pieces: dict[int, list[str]], on_text: Callable[[str], None]) -> None:
    block, delta = answer.blocks[data["index"]], data["delta"]
    kind = delta["type"]
    if kind == "text_delta":
        block["text"] = block.get("text", "") + delta["text"]
        on_text(delta["text"])
    elif kind == "input_json_delta":
        pieces[data["index"]].append(delta["partial_json"])
    elif kind == "thinking_delta":
        block["thinking"] = block.get("thinking", "") + delta["thinking"]
    elif kind == "signature_delta":
        block["signature"] = delta["signature"]


def _finish_block(answer: Answer, block: dict[str, Any], text: str) -> None:
    if block["type"] != "tool_use":
        return
    arguments: Any = block.get("input") or {}
    if text:
        try:
            arguments = json.loads(text)
        except ValueError:
            arguments = text
    broken = not isinstance(arguments, dict)
    if broken:
        arguments = text or json.dumps(arguments)
    block["input"] = {"unparsed": arguments} if broken else arguments
    answer.calls.append(ToolCall(block["id"], block["name"], arguments))
