"""Chat Completions as a scripted model speaks it: requests read as Messages bodies, messages written as chunks.

It needs no SDK, so that any client of the API can be tested with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.testing.model_script import Failure, ModelRequest
from ktx_cli.testing.wire_responses import openai_failure, token_counts, tool_result

Body = dict[str, Any]

_ENDS: Final = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}


class ChatWire:
    """Chat Completions, direct or behind any path."""

    def serves(self, path: str) -> bool:
        """See `Wire`."""
        return path.endswith("/chat/completions")

    def body(self, path: str, sent: Body) -> Body:
        """See `Wire`."""
        system, messages = _conversation(sent.get("messages") or [])
        read: Body = {
            "model": sent.get("model"),
            "stream": bool(sent.get("stream")),
            "system": "\n".join(system),
            "messages": messages,
            "tools": [_tool(tool["function"]) for tool in sent.get("tools") or []],
        }
        effort = sent.get("reasoning_effort")
        return {**read, "output_config": {"effort": effort}} if effort else read

    def answer(self, message: Body, request: ModelRequest) -> tuple[str, bytes]:
        """See `Wire`."""
        if not request.sent.get("stream"):
            return "application/json", json.dumps(_completion(message, request)).encode()
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks(message, request)]
        return "text/event-stream", "".join([*lines, "data: [DONE]\n\n"]).encode()

    def failure(self, failure: Failure) -> tuple[int, Body]:
        """See `Wire`."""
        return openai_failure(failure)


def _conversation(sent: list[Mapping[str, Any]]) -> tuple[list[str], list[Body]]:
    """Return the system texts and the messages, neighbours of the same role joined."""
    system: list[str] = []
    messages: list[Body] = []
    for one in sent:
        if one["role"] in ("system", "developer"):
            system += _texts(one)
            continue
        role, blocks = ("assistant" if one["role"] == "assistant" else "user"), _blocks(one)
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    return system, messages


def _blocks(message: Mapping[str, Any]) -> list[Body]:
    if message["role"] == "tool":
        return [tool_result(message.get("tool_call_id"), "\n".join(_texts(message)))]
    calls = [
        {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": _parsed(call["function"])}
        for call in message.get("tool_calls") or []
    ]
    return [*({"type": "text", "text": text} for text in _texts(message)), *calls]


def _texts(message: Mapping[str, Any]) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    return [part.get("text", "") for part in content or []]


def _parsed(function: Mapping[str, Any]) -> Any:
    try:
        return json.loads(function["arguments"])
    except ValueError:
        return function["arguments"]


def _tool(function: Mapping[str, Any]) -> Body:
    described = {"name": function["name"], "description": function.get("description", "")}
    return {**described, "input_schema": function.get("parameters") or {}}


def _usage(message: Body) -> Body:
    prompt, answer, read, written = token_counts(message["usage"])
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
        "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
    }


def _calls(message: Body) -> list[Body]:
    return [
        {
            "id": block["id"],
            "type": "function",
            "function": {
                "name": block["name"],
                "arguments": block["input"] if isinstance(block["input"], str) else json.dumps(block["input"]),
            },
        }
        for block in message["content"]
        if block["type"] == "tool_use"
    ]


def _completion(message: Body, request: ModelRequest) -> Body:
    text = "".join(block["text"] for block in message["content"] if block["type"] == "text")
    calls = _calls(message)
    spoken: Body = {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": spoken, "finish_reason": _ENDS[message["stop_reason"]]}
    return {**_head(message, request, "chat.completion"), "choices": [choice], "usage": _usage(message)}


def _head(message: Body, request: ModelRequest, kind: str) -> Body:
    answer_id = f"chatcmpl-{request.number:04d}"
    return {"id": answer_id, "object": kind, "created": 1_700_000_000, "model": message["model"]}


def chunks(message: Body, request: ModelRequest) -> list[Body]:
    """Return a message as chunks: each text in one, each call in three, the usage only on request."""
    deltas: list[Body] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": block["text"]} for block in message["content"] if block["type"] == "text" and block["text"]]
    for index, call in enumerate(_calls(message)):
        text, half = call["function"]["arguments"], len(call["function"]["arguments"]) // 2
        deltas.append({"tool_calls": [{**call, "index": index, "function": {**call["function"], "arguments": ""}}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in (text[:half], text[half:])
        ]
    choices: list[Body] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": _ENDS[message["stop_reason"]]})
    head: Body = _head(message, request, "chat.completion.chunk")
    made: list[Body] = [{**head, "choices": [choice], "usage": None} for choice in choices]
    if (request.sent.get("stream_options") or {}).get("include_usage"):
        made.append({**head, "choices": [], "usage": _usage(message)})
    return made
