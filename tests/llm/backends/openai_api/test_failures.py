"""Errors, broken answers and rate limits, of both APIs and of servers that write them in their own way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest

from ktx_cli.llm.backends.openai_api.chat import Chat
from ktx_cli.llm.backends.openai_api.failures import rate_signal, translate
from ktx_cli.llm.backends.openai_api.responses import Responses
from ktx_cli.llm.backends.openai_api.turns import StreamedAnswer
from ktx_cli.llm.errors import CallNames, LlmError
from ktx_cli.llm.routing import RoutedRuntime
from ktx_cli.llm.usage import UsageFact
from ktx_cli.testing.model_script import Cut, Failure, Turn, calls, says
from ktx_cli.testing.model_server import ModelServer
from tests.llm.backends.openai_api.test_backend import ask, loop
from tests.worlds.raw_model_server import RawServer, whole

Make = Callable[..., RoutedRuntime]
NAMES = CallNames(backend="openai-compatible", model="m", role="writer")
REQUEST = httpx2.Request("POST", "http://user:secret@host/v1/chat/completions?x=1")


def rejected(status: int, body: Any, **headers: str) -> LlmError:
    """Return ktx's error for a response, whose body the SDK hands on as it is."""
    text = body if isinstance(body, str) else json.dumps(body)
    response = httpx2.Response(status, text=text, headers=headers, request=REQUEST)
    inner = body.get("error", body) if isinstance(body, dict) else body
    error = openai.APIStatusError(f"Error code: {status} - {text}", response=response, body=inner)
    return translate(error, NAMES, Chat())


def error(message: str, code: Any = None, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


@pytest.mark.table(
    ("status", "body", "code"),
    [
        (401, error("Incorrect API key provided.", "invalid_api_key"), "auth"),
        (403, error("Country, region, or territory not supported", "unsupported_country_region_territory"), "auth"),
        (402, error("Insufficient credits", 402), "billing"),
        (429, error("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), "billing"),
        (429, error("Rate limit reached", "rate_limit_exceeded", "requests"), "rate_limit"),
        (429, "busy", "rate_limit"),
        (400, error("too many", "context_length_exceeded"), "context"),
        (400, error("This model's maximum context length is 8192 tokens."), "context"),
        (400, error("request exceeds the available context size", None, "exceed_context_size_error"), "context"),
        (400, {"error": "Trying to keep the first 9000 tokens when context the overflows."}, "context"),
        (413, "too large", "context"),
        (404, error("The model `m` does not exist", "model_not_found"), "model"),
        (404, error('model "m" not found, try pulling it first', None, "api_error"), "model"),
        (404, error("The API deployment for this resource does not exist.", "DeploymentNotFound"), "model"),
        (400, error("m is not a valid model ID", 400), "model"),
        (400, error("The prompt triggered the content management policy.", "content_filter"), "refusal"),
        (400, error("Your prompt was flagged as potentially violating our usage policy.", "invalid_prompt"), "refusal"),
        (500, error("The server had an error", None, "server_error"), "overloaded"),
        (503, "<html>", "overloaded"),
        (408, "", "connection"),
        (404, {"detail": "Not Found"}, "execution"),
        (405, "", "execution"),
        (400, error("something else"), "execution"),
        (418, "", "execution"),
    ],
)
def test_every_rejection_has_a_code(status: int, body: Any, code: str) -> None:
    found = rejected(status, body)
    assert (found.code, found.details["status"]) == (code, status)
    assert "secret" not in f"{found.message} {found.hint} {found.details}"


def test_an_address_without_the_api_is_named() -> None:
    found = rejected(404, {"detail": "Not Found"})
    assert found.message == "there is no Chat Completions API at http://host/v1/chat/completions"
    assert found.hint == "ktx config set llm.provider.openai_compatible.base_url URL, without `/chat/completions`"


@pytest.mark.table(
    ("headers", "seconds"),
    [({"retry-after": "7"}, 7), ({"retry-after-ms": "250", "retry-after": "1"}, 0.25), ({}, None)],
)
def test_a_rate_limit_says_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert rejected(429, "", **headers).retry_after == seconds


@pytest.mark.table(
    ("headers", "used"),
    [
        ({"x-ratelimit-limit-requests": "100", "x-ratelimit-remaining-requests": "25"}, 0.75),
        (
            {
                "x-ratelimit-limit-requests": "100", "x-ratelimit-remaining-requests": "99",
                "x-ratelimit-limit-tokens": "1000", "x-ratelimit-remaining-tokens": "100",
            },
            0.9,
        ),
        ({"x-ratelimit-limit-requests": "0", "x-ratelimit-remaining-requests": "0"}, None),
        ({"x-ratelimit-limit-tokens": "many", "x-ratelimit-remaining-tokens": "1"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_headers_report_the_most_exhausted_limit(headers: dict[str, str], used: float | None) -> None:
    assert rate_signal(headers).utilization == (pytest.approx(used) if used is not None else None)


def test_other_exceptions() -> None:
    assert translate(openai.APITimeoutError(REQUEST), NAMES, Chat()).code == "connection"
    assert translate(httpx2.ReadError("cut"), NAMES, Chat()).code == "connection"
    assert translate(ValueError("odd"), NAMES, Chat()).code == "execution"
    in_stream = openai.APIError("slow", REQUEST, body={"code": 429, "message": "slow"})
    assert translate(in_stream, NAMES, Chat()).code == "rate_limit"


@pytest.mark.parametrize(("backend", "api"), [("openai", "responses"), ("openai-compatible", "chat")])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_a_cut_answer_is_asked_for_again(
    backend: str, api: str, share: float, runtime: Make, server: ModelServer
) -> None:
    server.play([Cut(calls(("look", {"q": "cut"})), share), calls(("look", {"q": "a"})), says("done")])
    done = loop(runtime(backend, server.url, attempts=2))
    assert (done.text, done.facts.attempts, done.facts.tool_calls) == ("done", 2, 1)


def test_a_cut_answer_of_openai_is_billed_as_incomplete(runtime: Make, server: ModelServer) -> None:
    facts: list[UsageFact] = []
    server.play([Cut(says("hello " * 200), 0.9)])
    with pytest.raises(LlmError) as caught:
        ask(runtime("openai", server.url, options={"usage_sink": facts.append}))
    assert caught.value.code == "connection"
    assert [(fact.unit_id, fact.complete) for fact in facts] == [("resp_0001", False)]


@pytest.mark.parametrize(("backend"), ["openai", "openai-compatible"])
@pytest.mark.parametrize(
    ("turn", "code"),
    [(Turn("No.", stop_reason="refusal"), "refusal"), (Turn("part", stop_reason="max_tokens"), "execution")],
)
def test_answers_that_do_not_end_well(backend: str, turn: Turn, code: str, runtime: Make, server: ModelServer) -> None:
    server.play([turn])
    with pytest.raises(LlmError) as caught:
        ask(runtime(backend, server.url))
    assert caught.value.code == code


def test_a_full_context_window_in_the_middle_of_an_answer(runtime: Make, server: ModelServer) -> None:
    server.play([Turn("part", stop_reason="model_context_window_exceeded")])
    with pytest.raises(LlmError) as caught:
        ask(runtime("openai", server.url))
    assert caught.value.code == "context"


def read(api: Any, *events: Any) -> tuple[StreamedAnswer, str]:
    """Return what an API reads from events, and the text that a reader saw."""
    answer, seen = StreamedAnswer(), []

    async def stream() -> Any:
        for event in events:
            yield event

    asyncio.run(api.read(stream(), answer, seen.append))
    return answer, "".join(seen)


def chunk(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more}


def piece(index: int | None, call_id: str | None, name: str | None, arguments: Any) -> dict[str, Any]:
    call = {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}
    return chunk({"tool_calls": [{key: value for key, value in call.items() if value is not None}]})


@pytest.mark.table(
    "pieces",
    [
        [piece(0, "a", "look", '{"q": '), piece(0, None, None, '"1"}'), piece(1, "b", "look", '{"q": "2"}')],
        [piece(0, "a", "look", '{"q": "1"}'), piece(0, "b", "look", '{"q": "2"}')],
        [piece(None, "a", "look", '{"q": "1"}'), piece(None, "b", "look", '{"q": "2"}')],
        [piece(None, "a", "look", ""), piece(None, None, None, '{"q": "1"}'), piece(None, "b", "look", {"q": "2"})],
        [piece(0, "a", "look", '{"q": "1"}'), piece(1, "b", "look", '{"q"'), piece(1, "b", None, ': "2"}')],
    ],
)
def test_calls_in_every_known_form_of_chunks(pieces: list[Any]) -> None:
    answer, _ = read(Chat(), *pieces, chunk(finish="stop"))
    assert [(call.call_id, call.name, call.arguments) for call in answer.calls] == [
        ("a", "look", {"q": "1"}),
        ("b", "look", {"q": "2"}),
    ]
    assert answer.end == "tools", "some servers report `stop` even then"


@pytest.mark.table(
    ("finish", "end"),
    [("stop", "end"), ("length", "max_tokens"), ("content_filter", "refusal"), ("odd", None), (None, None)],
)
def test_the_ends_of_a_chat(finish: str | None, end: str | None) -> None:
    answer, text = read(Chat(), chunk({"content": "hi"}), chunk(finish=finish))
    assert (answer.end, text) == (end, "hi")


def test_reasoning_of_other_providers_goes_back_with_the_calls_alone() -> None:
    first, second = chunk({"reasoning_content": "Hm, "}), chunk({"reasoning_content": "look."})
    details = chunk({"reasoning_details": [{"type": "reasoning.text", "text": "x"}]})
    answer, _ = read(Chat(), first, second, details, piece(0, "a", "look", "{}"), chunk(finish="tool_calls"))
    message = Chat().echo(answer, answer.calls)
    assert (message["reasoning_content"], len(message["reasoning_details"])) == ("Hm, look.", 1)
    assert "reasoning_content" not in Chat().echo(answer, [])


@pytest.mark.table(
    ("pieces", "text"),
    [
        (["<think>Hm.</think>\n\nUlm"], "Ulm"),
        (["<th", "ink>", "Hm", ".</thi", "nk>", "\n\n", "Ulm", " is"], "Ulm is"),
        (["\n<think></think>Ulm"], "Ulm"),
        (["<", "b>Ulm"], "<b>Ulm"),
        (["  Ulm", " </think>"], "  Ulm </think>"),
        (["Ulm <think>"], "Ulm <think>"),
        (["<thi"], "<thi"),
        (["<think>never ends"], ""),
        (["<think>only</think> "], ""),
    ],
)
def test_reasoning_in_the_text_is_kept_out(pieces: list[str], text: str) -> None:
    answer, seen = read(Chat(), *(chunk({"content": piece}) for piece in pieces), chunk(finish="stop"))
    assert (answer.text, seen) == (text, text)


def test_a_response_without_events_for_its_items_is_read_at_its_end() -> None:
    part = {"type": "output_text", "text": "hello"}
    output = [{"type": "reasoning", "id": "r"}, {"type": "message", "role": "assistant", "content": [part]}]
    response = {"id": "r", "model": "m", "status": "completed", "output": output, "usage": {"input_tokens": 3}}
    answer, _ = read(Responses(), {"type": "response.completed", "response": response})
    assert (answer.text, answer.end, answer.usage.input_tokens) == ("hello", "end", 3)
    assert Responses().echo(answer, []) == output[1:], "reasoning without content cannot be sent back"


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_an_error_event_in_a_stream(api: str, runtime: Make) -> None:
    event = {"type": "error", "code": "server_error", "message": "broke"}
    data = event if api == "responses" else {"error": {"code": 502, "message": "broke"}}
    with RawServer(whole(f"data: {json.dumps(data)}\n\n".encode())) as raw, pytest.raises(LlmError) as caught:
        ask(runtime("openai-compatible", raw.url, provider={"api": api}))
    assert caught.value.code == "overloaded"


def test_a_web_page_is_not_the_api(runtime: Make) -> None:
    page = "<html>hello</html>"
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(page)}\r\n\r\n"
    with (
        RawServer([(head + page).encode()]) as raw,
        pytest.raises(LlmError, match="no Chat Completions API at") as caught,
    ):
        ask(runtime("openai-compatible", raw.url))
    assert caught.value.code == "execution"


@pytest.mark.parametrize("backend", ["openai", "openai-compatible"])
def test_nobody_listens(backend: str, runtime: Make) -> None:
    with pytest.raises(LlmError) as caught:
        ask(runtime(backend, "http://127.0.0.1:9"))
    assert caught.value.code == "connection"


def test_a_page_that_needs_a_wait(runtime: Make, server: ModelServer) -> None:
    server.play([Failure(429, "rate_limit_error", "wait", {"retry-after": "0.01"}), says("hello")])
    assert ask(runtime("openai", server.url, attempts=2)) == "hello"
