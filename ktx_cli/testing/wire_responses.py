"""The Responses API as a scripted model speaks it: requests read as Messages bodies, messages written as responses.

It needs no SDK, so that any client of the API can be tested with it, such as the `openai` package or a coding agent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ktx_cli.testing.model_script import Failure, ModelRequest

Body = dict[str, Any]

ERROR_MARK: Final = "Error: "
"""What a tool result begins with if it is an error: the API has no field for that."""

_TURNED_OFF: Final = "insufficient_quota"


class ResponsesWire:
    """The Responses API, with the reasoning items that a client must carry through a loop."""

    def serves(self, path: str) -> bool:
        """See `Wire`."""
        return path.rpartition("/")[2] == "responses"

    def body(self, path: str, sent: Body) -> Body:
        """See `Wire`."""
        system, messages = _conversation(sent.get("input"))
        read: Body = {
            "model": sent.get("model"),
            "stream": bool(sent.get("stream")),
            "system": "\n".join(text for text in (sent.get("instructions") or "", *system) if text),
            "messages": messages,
            "tools": [one for tool in sent.get("tools") or [] for one in _tools(tool)],
        }
        effort = (sent.get("reasoning") or {}).get("effort")
        return {**read, "output_config": {"effort": effort}} if effort else read

    def answer(self, message: Body, request: ModelRequest) -> tuple[str, bytes]:
        """See `Wire`."""
        response = response_of(message, request)
        if not request.sent.get("stream"):
            return "application/json", json.dumps(response).encode()
        return "text/event-stream", b"".join(
            f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in response_events(response)
        )

    def failure(self, failure: Failure) -> tuple[int, Body]:
        """See `Wire`."""
        return openai_failure(failure)


def openai_failure(failure: Failure) -> tuple[int, Body]:
    """Return the status and the JSON of a failure, as OpenAI's APIs write it."""
    status, kind, code, message = failure.status, "invalid_request_error", None, failure.message
    if "credit" in message:
        status, kind, code = 429, _TURNED_OFF, _TURNED_OFF
        message = "You exceeded your current quota, please check your plan and billing details."
    elif "too long" in message:
        code = "context_length_exceeded"
        message = "Your input exceeds the context window of this model. Please adjust your input and try again."
    elif failure.kind == "authentication_error":
        code, message = "invalid_api_key", "Incorrect API key provided."
    elif failure.kind == "not_found_error" and message.startswith("model"):
        code, message = "model_not_found", f"The model `{message.rpartition(' ')[2]}` does not exist."
    elif failure.kind == "rate_limit_error":
        kind, code, message = "requests", "rate_limit_exceeded", "Rate limit reached for requests."
    elif failure.kind == "overloaded_error":
        status, kind, message = 503, "server_error", "The engine is currently overloaded, please try again later."
    elif status >= 500:
        kind = "server_error"
    return status, {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _conversation(sent: Any) -> tuple[list[str], list[Body]]:
    """Return the system texts and the messages in the items of a request, neighbours of the same role joined."""
    items = [{"role": "user", "content": sent}] if isinstance(sent, str) else sent or []
    system: list[str] = []
    messages: list[Body] = []
    for item in items:
        role, blocks = _blocks_of(item)
        if role == "system":
            system += [block["text"] for block in blocks]
        elif messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        elif blocks:
            messages.append({"role": role, "content": blocks})
    return system, messages


def _blocks_of(item: Mapping[str, Any]) -> tuple[str, list[Body]]:
    """Return the role and the content blocks of an item."""
    kind = item.get("type", "message")
    if kind == "message":
        role = {"developer": "system", "system": "system", "assistant": "assistant"}.get(item.get("role", ""), "user")
        return role, [{"type": "text", "text": text} for text in _texts(item.get("content"))]
    if kind in ("function_call", "custom_tool_call"):
        arguments = item.get("arguments", item.get("input", ""))
        block = {"type": "tool_use", "id": item.get("call_id"), "name": _full_name(item), "input": _parsed(arguments)}
        return "assistant", [block]
    if kind.endswith("_output"):
        return "user", [tool_result(item.get("call_id"), "\n".join(_texts(item.get("output"))))]
    if kind == "reasoning":
        return "assistant", [{"type": "redacted_thinking", "data": item.get("encrypted_content")}]
    return "assistant", []


def tool_result(call_id: Any, text: str) -> Body:
    """Return the result of a tool call as a block of the Messages API."""
    marked = text.startswith(ERROR_MARK)
    return {"type": "tool_result", "tool_use_id": call_id, "content": text.removeprefix(ERROR_MARK), "is_error": marked}


def _full_name(item: Mapping[str, Any]) -> str:
    return f"{item.get('namespace') or ''}{item.get('name')}"


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [part.get("text", part.get("refusal", "")) for part in content or [] if isinstance(part, Mapping)]


def _parsed(arguments: Any) -> Any:
    try:
        return json.loads(arguments)
    except (TypeError, ValueError):
        return arguments


def _tools(tool: Mapping[str, Any]) -> Iterable[Body]:
    """Yield the tools of an entry: a function, each function of a namespace, or a built-in tool by its type."""
    if tool.get("type") == "namespace":
        for inner in tool.get("tools") or []:
            yield from ({**one, "name": f"{tool['name']}{one['name']}"} for one in _tools(inner))
        return
    name = tool.get("name") or tool.get("type")
    yield {"name": name, "description": tool.get("description", ""), "input_schema": tool.get("parameters") or {}}


def response_of(message: Body, request: ModelRequest) -> Body:
    """Return a message as a response.

    If the client asks for encrypted reasoning, the response begins with a reasoning item. A refusal is a refusal part,
    a cut answer is incomplete, and a full context window is a failed response.
    """
    reason, number = message["stop_reason"], request.number
    output: list[Body] = []
    if "reasoning.encrypted_content" in (request.sent.get("include") or ()):
        sealed = f"sealed-{number:04d}"
        output.append({"type": "reasoning", "id": f"rs_{number:04d}", "summary": [], "encrypted_content": sealed})
    parts = [_part(block["text"], reason) for block in message["content"] if block["type"] == "text" and block["text"]]
    status = {"max_tokens": "incomplete", "model_context_window_exceeded": "failed"}.get(reason, "completed")
    if parts:
        own = {"type": "message", "id": f"msg_{number:04d}", "role": "assistant", "status": "completed"}
        output.append({**own, "content": parts})
    for place, block in enumerate(block for block in message["content"] if block["type"] == "tool_use"):
        output.append(_call(block, f"fc_{number:04d}_{place}", request))
    full = {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}
    return {
        "id": f"resp_{number:04d}",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": message["model"],
        "status": status,
        "error": full if status == "failed" else None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "store": False,
        "usage": _usage(message["usage"]),
    }


def _part(text: str, reason: str) -> Body:
    if reason == "refusal":
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": []}


def _call(block: Body, item_id: str, request: ModelRequest) -> Body:
    """Return a tool call; a tool of a namespace is called by its short name and the namespace."""
    arguments = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
    name, spaces = block["name"], [t["name"] for t in request.sent.get("tools") or () if t.get("type") == "namespace"]
    space = next((one for one in spaces if name.startswith(one)), "")
    named = {"name": name.removeprefix(space), **({"namespace": space} if space else {})}
    common = {"id": item_id, "call_id": block["id"], "status": "completed"}
    return {"type": "function_call", **common, **named, "arguments": arguments}


def token_counts(usage: Mapping[str, Any]) -> tuple[int, int, int, int]:
    """Return the tokens of the whole prompt, of the answer, read from the cache, and written to it."""
    read, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
    return usage["input_tokens"] + read + written, usage["output_tokens"], read, written


def _usage(usage: Mapping[str, Any]) -> Body:
    prompt, answer, read, written = token_counts(usage)
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
        "output_tokens": answer,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + answer,
    }


def response_events(response: Body) -> list[Body]:
    """Return the events of a streamed response, in order."""
    begun = {**response, "status": "in_progress", "output": [], "usage": None, "error": None}
    events: list[Body] = [{"type": f"response.{name}", "response": begun} for name in ("created", "in_progress")]
    for place, item in enumerate(response["output"]):
        events += _item_events(item, place)
    events.append({"type": f"response.{response['status']}", "response": response})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _item_events(item: Body, place: int) -> list[Body]:
    at = {"item_id": item["id"], "output_index": place}
    empty, middle = dict(item), []
    if item["type"] == "message":
        empty = {**item, "content": [], "status": "in_progress"}
        for number, part in enumerate(item["content"]):
            middle += _part_events(part, {**at, "content_index": number})
    elif item["type"] == "function_call":
        empty = {**item, "arguments": "", "status": "in_progress"}
        name = "response.function_call_arguments"
        middle = [
            {"type": f"{name}.delta", **at, "delta": item["arguments"]},
            {"type": f"{name}.done", **at, "arguments": item["arguments"], "name": item["name"]},
        ]
    return [
        {"type": "response.output_item.added", "output_index": place, "item": empty},
        *middle,
        {"type": "response.output_item.done", "output_index": place, "item": item},
    ]


def _part_events(part: Body, at: Body) -> list[Body]:
    """Return the events of a text or a refusal, whose text comes in two pieces."""
    field, name = ("refusal", "refusal") if part["type"] == "refusal" else ("text", "output_text")
    text, half = part[field], (len(part[field]) + 1) // 2
    pieces = [piece for piece in (text[:half], text[half:]) if piece]
    extra: Body = {"logprobs": []} if name == "output_text" else {}
    return [
        {"type": "response.content_part.added", **at, "part": {**part, field: ""}},
        *({"type": f"response.{name}.delta", **at, "delta": piece, **extra} for piece in pieces),
        {"type": f"response.{name}.done", **at, field: text, **extra},
        {"type": "response.content_part.done", **at, "part": part},
    ]
