"""Requests and scripted answers match the types that OpenAI publishes in its package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from ktx_cli.llm.routing import RoutedRuntime
from ktx_cli.testing.model_script import ModelRequest, Turn, calls, gives, says
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.wire_chat import ChatWire, chunks
from ktx_cli.testing.wire_responses import ResponsesWire, response_events, response_of
from tests.llm.backends.openai_api.test_backend import City, Loose, give, loop

Make = Callable[..., RoutedRuntime]

TURNS = [
    says("hello"),
    calls(("look", {"q": "a"}), ("look", {"q": "b"}), text="Looking. "),
    Turn("one, ", more=("two",)),
    Turn("No.", stop_reason="refusal"),
    says("cut", stop_reason="max_tokens"),
]


def asked(url: str, sent: dict[str, Any]) -> ModelRequest:
    wire: Any = ResponsesWire() if url.endswith("responses") else ChatWire()
    return ModelRequest(1, "POST", url, {}, wire.body(url, sent), 0.0, True, sent)


@pytest.mark.parametrize("turn", TURNS, ids=["text", "calls", "several", "refusal", "cut"])
def test_scripted_answers_are_events_of_the_api(turn: Turn) -> None:
    from openai.types.chat import ChatCompletionChunk
    from openai.types.responses import ResponseStreamEvent

    from ktx_cli.testing.model_script import render

    request = asked("/v1/responses", {"model": "m", "include": ["reasoning.encrypted_content"]})
    events: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    for event in response_events(response_of(render(turn, request), request)):
        assert events.validate_python(event).type == event["type"]
    request = asked("/v1/chat/completions", {"model": "m", "stream_options": {"include_usage": True}})
    for chunk in chunks(render(turn, request), request):
        ChatCompletionChunk.model_validate(chunk)


@pytest.mark.parametrize(("backend", "api"), [("openai", "responses"), ("openai-compatible", "chat")])
def test_requests_have_only_fields_of_the_api(backend: str, api: str, runtime: Make, server: ModelServer) -> None:
    from openai.types.chat import completion_create_params
    from openai.types.responses import response_create_params

    server.play([*TURNS[1:2], says("done")])
    loop(runtime(backend, server.url, models={"default": "gpt-6.2-sol"}))
    bodies = [dict(request.sent) for request in server.requests]
    for output, value in ((City, {"name": "Ulm", "people": 7, "twins": []}), (Loose, {"facts": {}})):
        server.play([gives(value)])
        give(runtime(backend, server.url), output)
        bodies += [dict(request.sent) for request in server.requests]
    module: Any = response_create_params if api == "responses" else completion_create_params
    name = "ResponseCreateParamsStreaming" if api == "responses" else "CompletionCreateParamsStreaming"
    params: TypeAdapter[Any] = TypeAdapter(getattr(module, name))
    known = set(getattr(module, name).__annotations__) | set(
        getattr(module, name.replace("Streaming", "Base")).__annotations__
    )
    assert len(bodies) == 4
    for body in bodies:
        assert set(body) <= known
        params.validate_python(body)
    with pytest.raises(ValidationError):
        params.validate_python({**bodies[0], "model": 3, "stream": "no"})
