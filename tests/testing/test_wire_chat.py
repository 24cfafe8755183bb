"""Chat Completions of the scripted server: what it reads of a request, and what it writes for a turn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from ktx_cli.testing.model_script import NO_CREDIT, TOO_LONG, Turn, calls, gives, says
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.runtime_contract import SeenResult, seen_results

LOOK = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def post(server: ModelServer, **body: Any) -> httpx2.Response:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **body}
    return httpx2.post(f"{server.url}/openai/v1/chat/completions", json=body)


def chunks(server: ModelServer, **body: Any) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in post(server, stream=True, **body).text.splitlines() if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def call(call_id: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "look", "arguments": arguments}}


def test_a_request_is_read_as_one_to_the_messages_api(server: ModelServer) -> None:
    server.play([says("done")])
    messages: list[Any] = [
        {"role": "system", "content": "You keep the shelf."},
        {"role": "user", "content": [{"type": "text", "text": "What is there?"}]},
        {"role": "assistant", "content": "Looking.", "tool_calls": [call("c1", '{"q": "a"}'), call("c2", '{"q')]},
        {"role": "tool", "tool_call_id": "c1", "content": "a jar"},
        {"role": "tool", "tool_call_id": "c2", "content": "Error: no"},
    ]
    post(server, messages=messages, tools=[LOOK], reasoning_effort="high")
    (request,) = server.model_calls
    assert request.system == "You keep the shelf."
    assert [message["role"] for message in request.body["messages"]] == ["user", "assistant", "user"]
    assert request.body["messages"][1]["content"] == [
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"q": "a"}},
        {"type": "tool_use", "id": "c2", "name": "look", "input": '{"q'},
    ]
    assert seen_results(request) == [SeenResult("look", "a jar"), SeenResult("look", "no", True)]
    assert request.tool_names == ["look"]
    assert request.body["output_config"] == {"effort": "high"}


@pytest.mark.parametrize(
    ("turn", "text", "finish"),
    [
        (says("hello"), "hello", "stop"),
        (Turn("one, ", more=("two",)), "one, two", "stop"),
        (gives({"n": 1}), '{"n": 1}', "stop"),
        (Turn("No.", stop_reason="refusal"), "No.", "content_filter"),
        (says("cut", stop_reason="max_tokens"), "cut", "length"),
    ],
    ids=["text", "several", "object", "refusal", "cut"],
)
def test_an_answer_with_text(server: ModelServer, turn: Turn, text: str, finish: str) -> None:
    server.play([turn, turn])
    choice = post(server).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (text, finish)
    choices = [chunk["choices"][0] for chunk in chunks(server)]
    assert "".join(choice["delta"].get("content", "") for choice in choices) == text
    assert choices[-1]["finish_reason"] == finish


def test_calls_come_in_pieces(server: ModelServer) -> None:
    server.play([calls(("look", {"q": "a"}), ("look", {"q": "b"}))])
    pieces = [part for chunk in chunks(server) for part in chunk["choices"][0]["delta"].get("tool_calls", ())]
    assert [piece["id"] for piece in pieces if "id" in piece] == ["toolu_script_0001_0", "toolu_script_0001_1"]
    for index, q in enumerate("ab"):
        text = "".join(piece["function"]["arguments"] for piece in pieces if piece["index"] == index)
        assert json.loads(text) == {"q": q}


def test_a_stream_has_the_usage_only_if_the_client_asks(server: ModelServer) -> None:
    turn = says("hi", input_tokens=10, output_tokens=2, cache_read_tokens=30, cache_write_tokens=5)
    server.play([turn, turn])
    assert not any(chunk["usage"] for chunk in chunks(server))
    assert chunks(server, stream_options={"include_usage": True})[-1]["usage"] == {
        "prompt_tokens": 45,
        "completion_tokens": 2,
        "total_tokens": 47,
        "prompt_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 5},
    }


def test_failures_have_the_codes_of_openai(server: ModelServer) -> None:
    server.play([NO_CREDIT, TOO_LONG])
    found = [(response.status_code, response.json()["error"]["code"]) for response in (post(server), post(server))]
    assert found == [(429, "insufficient_quota"), (400, "context_length_exceeded")]
