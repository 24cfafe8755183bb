"""The Responses API of the scripted server: what it reads of a request, and what it writes for a turn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from ktx_cli.testing.model_script import (
    NO_CREDIT,
    NO_SUCH_MODEL,
    OVERLOADED,
    TOO_LONG,
    UNAUTHORIZED,
    Failure,
    Turn,
    calls,
    gives,
    rate_limited,
    says,
)
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.runtime_contract import SeenResult, seen_results

LOOK = {"type": "function", "name": "look", "description": "Looks.", "parameters": {"type": "object"}}
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"q": "a"}'}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def ask(server: ModelServer, **body: Any) -> Any:
    response = httpx2.post(f"{server.url}/v1/responses", json={"model": "gpt", "input": "Hi", **body})
    return response if response.status_code != 200 else response.json()


def events(server: ModelServer, **body: Any) -> list[Any]:
    body = {"model": "gpt", "input": "Hi", "stream": True, **body}
    text = httpx2.post(f"{server.url}/v1/responses", json=body).text
    return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]


def test_a_request_is_read_as_one_to_the_messages_api(server: ModelServer) -> None:
    server.play([says("done")])
    items: list[Any] = [
        {"role": "developer", "content": [{"type": "input_text", "text": "Be short."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What is there?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
        CALL,
        {**CALL, "call_id": "c2", "arguments": '{"q'},
        {"type": "function_call_output", "call_id": "c1", "output": "a jar"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "Error: no"}]},
    ]
    ask(server, instructions="You keep the shelf.", input=items, tools=[LOOK], reasoning={"effort": "high"})
    request = server.model_calls[0]
    assert request.system == "You keep the shelf.\nBe short."
    assert [message["role"] for message in request.body["messages"]] == ["user", "assistant", "user"]
    assert request.body["messages"][1]["content"] == [
        {"type": "redacted_thinking", "data": "sealed"},
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"q": "a"}},
        {"type": "tool_use", "id": "c2", "name": "look", "input": '{"q'},
    ]
    assert seen_results(request) == [SeenResult("look", "a jar"), SeenResult("look", "no", True)]
    assert request.tool_names == ["look"]
    assert request.body["output_config"] == {"effort": "high"}


def test_tools_of_a_namespace_are_read_and_called_by_their_full_names(server: ModelServer) -> None:
    server.play([calls(("look", {"q": "a"})), says("done")])
    tools = [{"type": "namespace", "name": "mcp__ktx__", "tools": [LOOK]}, {"type": "web_search"}]
    item = ask(server, tools=tools)["output"][0]
    assert server.model_calls[0].tool_names == ["mcp__ktx__look", "web_search"]
    assert (item["namespace"], item["name"]) == ("mcp__ktx__", "look")
    result = {"type": "function_call_output", "call_id": item["call_id"], "output": "a jar"}
    ask(server, input=[item, result], tools=tools)
    assert seen_results(server.model_calls[1]) == [SeenResult("look", "a jar")]


@pytest.mark.parametrize(
    ("turn", "part", "status"),
    [
        (says("hello"), {"type": "output_text", "text": "hello", "annotations": []}, "completed"),
        (gives({"n": 1}), {"type": "output_text", "text": '{"n": 1}', "annotations": []}, "completed"),
        (Turn("No.", stop_reason="refusal"), {"type": "refusal", "refusal": "No."}, "completed"),
        (
            says("cut", stop_reason="max_tokens"),
            {"type": "output_text", "text": "cut", "annotations": []},
            "incomplete",
        ),
    ],
    ids=["text", "object", "refusal", "cut"],
)
def test_an_answer_is_a_message_with_parts(server: ModelServer, turn: Turn, part: Any, status: str) -> None:
    server.play([turn, turn])
    response = ask(server)
    assert response["output"][0]["content"] == [part]
    assert response["status"] == status
    streamed = events(server)
    assert streamed[-1]["type"] == f"response.{status}"
    assert streamed[-1]["response"]["output"][0]["content"] == [part]
    deltas = [event["delta"] for event in streamed if event["type"].endswith(".delta")]
    assert "".join(deltas) == part.get("text", part.get("refusal"))


def test_calls_and_sealed_reasoning_come_in_order(server: ModelServer) -> None:
    server.play([calls(("look", {"q": "a"}), ("look", {"q": "b"}), text="Looking.")])
    streamed = events(server, tools=[LOOK], include=["reasoning.encrypted_content"])
    items = [event["item"] for event in streamed if event["type"] == "response.output_item.done"]
    assert [item["type"] for item in items] == ["reasoning", "message", "function_call", "function_call"]
    assert items[0]["encrypted_content"] and [json.loads(item["arguments"])["q"] for item in items[2:]] == ["a", "b"]
    assert [event["sequence_number"] for event in streamed] == list(range(len(streamed)))


def test_the_prompt_tokens_include_those_of_the_cache(server: ModelServer) -> None:
    server.play([says("hi", input_tokens=10, output_tokens=2, cache_read_tokens=30, cache_write_tokens=5)])
    assert ask(server)["usage"] == {
        "input_tokens": 45,
        "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 5},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 47,
    }


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (UNAUTHORIZED, 401, "invalid_api_key"),
        (NO_CREDIT, 429, "insufficient_quota"),
        (TOO_LONG, 400, "context_length_exceeded"),
        (NO_SUCH_MODEL, 404, "model_not_found"),
        (rate_limited(2), 429, "rate_limit_exceeded"),
        (OVERLOADED, 503, None),
        (Failure(500, "api_error", "broken"), 500, None),
    ],
    ids=lambda value: getattr(value, "kind", value),
)
def test_failures_have_the_codes_of_the_api(server: ModelServer, failure: Failure, status: int, code: str) -> None:
    server.play([failure])
    response = ask(server)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert response.headers.get("retry-after") == failure.headers.get("retry-after")
