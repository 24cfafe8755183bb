"""What is sent to the model and what failures mean: schemas, histories, usage, errors."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.llm.agent_loop import CallSpec, Entry, ModelTurn
from ktx_cli.llm.backends.codex.conversation import request_items, turn_error, usage_of
from ktx_cli.llm.types import Cost, ToolInvocation, Usage

SPEC = CallSpec("text", "codex", "writer", "gpt-x", "hello")


@pytest.mark.table(
    ("tokens", "usage"),
    [
        (None, Usage()),
        ({"inputTokens": 10, "outputTokens": 3}, Usage(10, 3)),
        ({"inputTokens": 10, "cachedInputTokens": 4, "cacheWriteInputTokens": 5, "outputTokens": 3}, Usage(1, 3, 4, 5)),
        ({"inputTokens": 1, "cachedInputTokens": 4, "outputTokens": None}, Usage(0, 0, 4)),
    ],
)
def test_usage(tokens: dict[str, Any] | None, usage: Usage) -> None:
    assert usage_of(tokens) == usage


def failed(status: int | None) -> dict[str, Any]:
    return {"httpConnectionFailed": {"httpStatusCode": status}}


@pytest.mark.table(
    ("info", "message", "code"),
    [
        ("contextWindowExceeded", "Codex ran out of room", "context"),
        ("usageLimitExceeded", "You've hit your usage limit. Try again later.", "rate_limit"),
        ("usageLimitExceeded", "Quota exceeded. Check your plan and billing details.", "billing"),
        ("serverOverloaded", "busy", "overloaded"),
        ("internalServerError", "busy", "overloaded"),
        ("modelNotFound", "The model does not exist.", "model"),
        ("unauthorized", "no", "auth"),
        ("cyberPolicy", "no", "refusal"),
        (failed(401), "no", "auth"),
        (failed(402), "no", "billing"),
        (failed(403), "no", "auth"),
        (failed(404), "no", "model"),
        (failed(413), "no", "context"),
        (failed(418), "no", "execution"),
        (failed(429), "no", "rate_limit"),
        (failed(503), "no", "overloaded"),
        (failed(None), "no", "connection"),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "no", "rate_limit"),
        ("other", "stream disconnected before completion: Transport error", "connection"),
        ("other", "workspace routing discovery failed", "connection"),
        ("other", "workspace routing discovery unauthorized (401)", "auth"),
        ("other", "Incomplete response returned, reason: max_output_tokens", "execution"),
        ("a word of a later version", "what", "execution"),
        (None, "", "execution"),
    ],
)
def test_failures(info: Any, message: str, code: str) -> None:
    error = turn_error({"message": message, "codexErrorInfo": info}, SPEC, resets_at=1_900_000_000.0)
    assert error.code == code
    assert error.details["backend"] == "codex" and error.details["model"] == "gpt-x"
    assert error.resets_at == (1_900_000_000.0 if code == "rate_limit" else None)
    assert message not in error.message or not message or len(message) < 3
    if code == "auth":
        assert error.hint == "codex login"


def test_a_history_as_items_of_a_request() -> None:
    raw = [{"type": "reasoning", "encrypted_content": "x"}, {"type": "function_call", "call_id": "1", "name": "look"}]
    turn = ModelTurn("", (), "tools", Usage(), Cost(), "u", None, raw=raw)
    found = [ToolInvocation("1", "look", {}, "found", False), ToolInvocation("2", "look", {}, "none", True)]
    history = [Entry("user", "hello"), Entry("turn", turn=turn), Entry("results", results=tuple(found))]
    assert [item for entry in history for item in request_items(entry)] == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
        *raw,
        {"type": "function_call_output", "call_id": "1", "output": "found"},
        {"type": "function_call_output", "call_id": "2", "output": "Error: none"},
    ]
