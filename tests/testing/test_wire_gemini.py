"""The scripted Gemini API: what it reads of a request, and what it writes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ktx_cli.testing.model_script import (
    NO_CREDIT,
    NO_SUCH_MODEL,
    OVERLOADED,
    TOO_LONG,
    UNAUTHORIZED,
    Call,
    Failure,
    ModelRequest,
    Turn,
    calls,
    rate_limited,
    render,
    says,
)
from ktx_cli.testing.wire_gemini import GeminiWire, chunks_of

WIRE = GeminiWire()
STREAM = "/v1beta/models/gemini-3.8-flash:streamGenerateContent"


def request(sent: dict[str, Any] | None = None, path: str = STREAM) -> ModelRequest:
    return ModelRequest(7, "POST", path, {}, WIRE.body(path, sent or {}), 0.0, True, sent or {})


@pytest.mark.table(
    ("path", "served"),
    [(STREAM, True), (STREAM.replace("streamG", "g"), True), ("/v1beta/models/x:countTokens", False), ("/x", False)],
)
def test_which_paths_are_served(path: str, served: bool) -> None:
    assert WIRE.serves(path) is served


def test_a_request_is_read_as_a_messages_body() -> None:
    sent = {
        "systemInstruction": {"parts": [{"text": "Keep."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "hello"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"q": "a"}}}] * 2},
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "look", "response": {key: key}}} for key in ("output", "error")
                ],
            },
        ],
        "tools": [{"functionDeclarations": [{"name": "look", "parametersJsonSchema": {"type": "object"}}]}],
        "generationConfig": {"thinkingConfig": {"thinkingBudget": 8192}},
    }
    body = request(sent).body
    assert (body["model"], body["stream"], body["system"]) == ("gemini-3.8-flash", True, "Keep.")
    assert body["output_config"] == {"effort": "medium"}
    assert body["tools"] == [{"name": "look", "description": "", "input_schema": {"type": "object"}}]
    ids = [block["id"] for block in body["messages"][1]["content"]]
    assert len(set(ids)) == 2
    results = body["messages"][2]["content"]
    assert [(one["tool_use_id"], one["content"], one["is_error"]) for one in results] == [
        (ids[0], "output", False),
        (ids[1], "error", True),
    ]


@pytest.mark.parametrize(
    ("turn", "reason", "parts"),
    [
        (says("hello"), "STOP", 1),
        (says("part", stop_reason="max_tokens"), "MAX_TOKENS", 1),
        (Turn("no", stop_reason="refusal"), "SAFETY", 1),
        (calls(("look", {"q": "a"}), ("look", {"q": "b"}), text="Looking."), "STOP", 3),
        (calls(Call("look", "{")), "MALFORMED_FUNCTION_CALL", 0),
    ],
)
def test_a_message_is_written_as_chunks(turn: Turn, reason: str, parts: int) -> None:
    made = chunks_of(render(turn, request()), request())
    found = [part for chunk in made for part in chunk["candidates"][0]["content"]["parts"]]
    assert (made[-1]["candidates"][0]["finishReason"], len(found)) == (reason, parts)
    assert [("thoughtSignature" in part) for part in found] == [place == 0 for place in range(parts)]
    assert made[-1]["usageMetadata"]["totalTokenCount"] == 120


def test_without_streaming_a_message_is_one_object() -> None:
    asked = request(path=STREAM.replace("streamG", "g"))
    kind, data = WIRE.answer(render(calls(("look", {}), text="Looking."), asked), asked)
    assert kind == "application/json"
    assert len(json.loads(data)["candidates"][0]["content"]["parts"]) == 2


@pytest.mark.parametrize(
    ("failure", "code", "status"),
    [
        (UNAUTHORIZED, 400, "INVALID_ARGUMENT"),
        (NO_CREDIT, 429, "RESOURCE_EXHAUSTED"),
        (TOO_LONG, 400, "INVALID_ARGUMENT"),
        (NO_SUCH_MODEL, 404, "NOT_FOUND"),
        (OVERLOADED, 503, "UNAVAILABLE"),
        (rate_limited(2), 429, "RESOURCE_EXHAUSTED"),
        (Failure(500, "api_error", "oh"), 500, "INTERNAL"),
    ],
    ids=lambda value: str(getattr(value, "kind", value)),
)
def test_failures_have_the_status_of_the_api(failure: Failure, code: int, status: str) -> None:
    found, body = WIRE.failure(failure)
    assert (found, body["error"]["code"], body["error"]["status"]) == (code, code, status)
