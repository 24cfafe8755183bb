"""The Gemini API as a scripted model speaks it: requests read as Messages bodies, messages written as chunks.

It needs no SDK, so that any client of the API can be tested with it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.testing.model_script import Failure, ModelRequest

Body = dict[str, Any]

_PATH: Final = re.compile(r"/models/([^/:]+):(streamGenerateContent|generateContent)$")
_ENDS: Final = {"end_turn": "STOP", "tool_use": "STOP", "max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}
_BUDGETS: Final = {1_024: "low", 8_192: "medium", 24_576: "high"}


class GeminiWire:
    """`generateContent`, streamed or not. The model is part of the path.

    The first part of each answer is signed, as the thinking models sign it. This API has no calls
    whose arguments are not JSON: the answer is empty then, and its finish reason is `MALFORMED_FUNCTION_CALL`.
    """

    def serves(self, path: str) -> bool:
        """See `Wire`."""
        return _PATH.search(path) is not None

    def body(self, path: str, sent: Body) -> Body:
        """See `Wire`."""
        found = _PATH.search(path)
        assert found is not None
        declared = [one for tool in sent.get("tools") or [] for one in tool.get("functionDeclarations") or []]
        read: Body = {
            "model": found[1],
            "stream": found[2] != "generateContent",
            "system": "\n".join(_texts(sent.get("systemInstruction") or {})),
            "messages": _messages(sent.get("contents") or []),
            "tools": [_tool(one) for one in declared],
        }
        effort = _effort((sent.get("generationConfig") or {}).get("thinkingConfig") or {})
        return {**read, "output_config": {"effort": effort}} if effort else read

    def answer(self, message: Body, request: ModelRequest) -> tuple[str, bytes]:
        """See `Wire`."""
        chunks = chunks_of(message, request)
        if not request.body["stream"]:
            parts = [part for one in chunks for part in one["candidates"][0]["content"]["parts"]]
            whole = {**chunks[-1]["candidates"][0], "content": {"role": "model", "parts": parts}}
            return "application/json", json.dumps({**chunks[-1], "candidates": [whole]}).encode()
        return "text/event-stream", "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks).encode()

    def failure(self, failure: Failure) -> tuple[int, Body]:
        """See `Wire`. A delay is also in the details of the error."""
        code, status, message = failure.status, "INVALID_ARGUMENT", failure.message
        details: list[Body] = []
        if "credit" in message:
            code, status, message = 429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."
        elif "too long" in message:
            message = "The input token count (1250000) exceeds the maximum number of tokens allowed (1048576)."
        elif failure.kind == "authentication_error":
            code, message = 400, "API key not valid. Please pass a valid API key."
            details.append({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"})
        elif failure.kind == "permission_error":
            status = "PERMISSION_DENIED"
        elif failure.kind == "not_found_error":
            status = "NOT_FOUND"
            if message.startswith("model"):
                name = message.rpartition(" ")[2]
                message = f"models/{name} is not found for API version v1beta, or is not supported."
        elif failure.kind == "rate_limit_error":
            status = "RESOURCE_EXHAUSTED"
            message = "You exceeded your current quota, please check your plan and billing details."
            delay = failure.headers.get("retry-after")
            if delay is not None:
                details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{delay}s"})
        elif failure.kind == "overloaded_error":
            code, status, message = 503, "UNAVAILABLE", "The model is overloaded. Please try again later."
        elif code >= 500:
            status = "INTERNAL"
        error = {"code": code, "message": message, "status": status, **({"details": details} if details else {})}
        return code, {"error": error}


def _effort(thinking: Mapping[str, Any]) -> str:
    """Return the effort of a thinking level or budget; the API accepts both spellings of a field."""
    level = thinking.get("thinkingLevel") or thinking.get("thinking_level")
    budget = thinking.get("thinkingBudget") or thinking.get("thinking_budget")
    return str(level or _BUDGETS.get(budget or 0, "")).lower()


def _texts(content: Mapping[str, Any]) -> list[str]:
    return [part["text"] for part in content.get("parts") or [] if "text" in part]


def _messages(contents: list[Mapping[str, Any]]) -> list[Body]:
    """Return the messages. A result without an id belongs to the first open call with its name."""
    messages: list[Body] = []
    open_calls: list[tuple[str, str]] = []
    for number, content in enumerate(contents):
        blocks: list[Body] = []
        for place, part in enumerate(content.get("parts") or []):
            if "functionCall" in part:
                call = part["functionCall"]
                call_id = call.get("id") or f"unnamed_{number}_{place}"
                open_calls.append((call_id, call["name"]))
                blocks.append(
                    {"type": "tool_use", "id": call_id, "name": call["name"], "input": call.get("args") or {}}
                )
            elif "functionResponse" in part:
                blocks.append(_result(part["functionResponse"], open_calls))
            elif "text" in part:
                blocks.append({"type": "text", "text": part["text"]})
        messages.append({"role": "assistant" if content.get("role") == "model" else "user", "content": blocks})
    return messages


def _result(response: Mapping[str, Any], open_calls: list[tuple[str, str]]) -> Body:
    given, name, answer = response.get("id"), response["name"], response["response"]
    call_id, _ = next(one for one in open_calls if (one[0] == given if given else one[1] == name))
    open_calls[:] = [one for one in open_calls if one[0] != call_id]
    text = answer.get("error", answer.get("output"))
    return {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": "error" in answer}


def _tool(declared: Mapping[str, Any]) -> Body:
    schema = declared.get("parametersJsonSchema") or declared.get("parameters_json_schema") or {}
    return {"name": declared["name"], "description": declared.get("description", ""), "input_schema": schema}


def chunks_of(message: Body, request: ModelRequest) -> list[Body]:
    """Return a message as chunks: each part in one, and the end in the last, with the usage."""
    signature = base64.b64encode(f"signed-{request.number:04d}".encode()).decode()
    blocks = message["content"]
    malformed = any(block["type"] == "tool_use" and isinstance(block["input"], str) for block in blocks)
    parts = [] if malformed else [_part(block) for block in blocks if block["type"] != "text" or block["text"]]
    if parts:
        parts[0] = {**parts[0], "thoughtSignature": signature}
    reason = "MALFORMED_FUNCTION_CALL" if malformed else _ENDS[message["stop_reason"]]
    candidates: list[Body] = [{"content": {"role": "model", "parts": [part]}, "index": 0} for part in parts]
    candidates.append({"content": {"role": "model", "parts": []}, "finishReason": reason, "index": 0})
    head = {"modelVersion": message["model"], "responseId": f"answer-{request.number:04d}"}
    made: list[Body] = [{"candidates": [one], **head} for one in candidates]
    made[-1]["usageMetadata"] = _usage(message["usage"])
    return made


def _part(block: Body) -> Body:
    if block["type"] == "text":
        return {"text": block["text"]}
    return {"functionCall": {"id": block["id"], "name": block["name"], "args": block["input"]}}


def _usage(usage: Mapping[str, Any]) -> Body:
    """Return the token counts; what a cache stores is part of the prompt. Half of the output are thoughts."""
    read = usage["cache_read_input_tokens"]
    prompt = usage["input_tokens"] + usage["cache_creation_input_tokens"] + read
    thoughts = usage["output_tokens"] // 2
    return {
        "promptTokenCount": prompt,
        "cachedContentTokenCount": read,
        "candidatesTokenCount": usage["output_tokens"] - thoughts,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": prompt + usage["output_tokens"],
    }
