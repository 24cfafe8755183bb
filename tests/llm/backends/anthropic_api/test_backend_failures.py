"""Every way a Messages API can fail, on the wire, as one error of the tree."""

from __future__ import annotations

import asyncio
import email.utils
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.llm.backends.anthropic_api import backend as clients
from ktx_cli.llm.backends.anthropic_api.backend import rate_signal, retry_after
from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.governor import RateSignal
from ktx_cli.llm.routing import RoutedRuntime
from ktx_cli.testing.model_script import (
    FORBIDDEN,
    NO_CREDIT,
    NO_SUCH_MODEL,
    OVERLOADED,
    TOO_LONG,
    UNAUTHORIZED,
    Failure,
    Turn,
    rate_limited,
    says,
)
from ktx_cli.testing.model_server import ModelServer
from tests.worlds.raw_model_server import HEAD, RawServer, begin, block, finish, frames, text_answer, whole

Make = Callable[..., RoutedRuntime]
Start = Callable[..., RawServer]


def failed(port: RoutedRuntime) -> LlmError:
    """Ask once and return the error."""

    async def ask() -> None:
        async with port:
            await port.generate_text("hello")

    with pytest.raises(LlmError) as caught:
        asyncio.run(ask())
    return caught.value


def later(seconds: float) -> str:
    return email.utils.formatdate(time.time() + seconds, usegmt=True)


TABLE = [
    (UNAUTHORIZED, "auth", None),
    (FORBIDDEN, "auth", None),
    (Failure(402, "billing_error", "pay first"), "billing", None),
    (NO_CREDIT, "billing", None),
    (Failure(403, "permission_error", "Insufficient credits for this key"), "billing", None),
    (NO_SUCH_MODEL, "model", None),
    (TOO_LONG, "context", None),
    (Failure(400, "invalid_request_error", "maximum context length is 8192 tokens"), "context", None),
    (Failure(413, "request_too_large", "Request too large"), "context", None),
    (Failure(400, "invalid_request_error", "messages: something else"), "execution", None),
    (Failure(408, "timeout_error", "timeout"), "connection", None),
    (rate_limited(), "rate_limit", None),
    (rate_limited(7), "rate_limit", 7.0),
    (Failure(429, "rate_limit_error", "slow", {"retry-after-ms": "1500", "retry-after": "9"}), "rate_limit", 1.5),
    (Failure(500, "api_error", "oh"), "overloaded", None),
    (Failure(503, "api_error", "oh", {"retry-after": "3"}), "overloaded", 3.0),
    (OVERLOADED, "overloaded", None),
]


@pytest.mark.requirement("R52")
@pytest.mark.parametrize(("failure", "code", "wait"), TABLE, ids=lambda value: str(getattr(value, "status", value)))
@pytest.mark.parametrize("backend", ["anthropic", "gateway", "vertex"])
def test_error_answers(
    backend: str, failure: Failure, code: str, wait: float | None, runtime: Make, model_server: ModelServer
) -> None:
    model_server.play([failure])
    error = failed(runtime(backend, model_server.url))
    assert (error.code, error.retry_after) == (code, wait)
    assert error.details["status"] == failure.status
    assert len(model_server.model_calls) == 1, "the SDK tries nothing again by itself"
    assert failure.message in error.detail
    assert failure.message not in f"{error.message} {error.hint} {error.details}"


def test_a_retry_after_date_is_a_time_to_wait(runtime: Make, model_server: ModelServer) -> None:
    model_server.play([Failure(429, "rate_limit_error", "slow", {"retry-after": later(120)})])
    wait = failed(runtime("anthropic", model_server.url)).retry_after
    assert wait is not None
    assert 60 < wait <= 120


@pytest.mark.table(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Thu, 01 Jan 2015 00:00:00 GMT"}, 0.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "4"}, 4.0),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def limits(prefix: str, **pairs: tuple[str, str]) -> dict[str, str]:
    found = {}
    for kind, (limit, remaining) in pairs.items():
        name = kind.replace("_", "-")
        found |= {f"{prefix}{name}-limit": limit, f"{prefix}{name}-remaining": remaining}
    return found


@pytest.mark.table(
    ("headers", "used"),
    [
        ({}, None),
        (limits("anthropic-ratelimit-", requests=("100", "75")), 0.25),
        (limits("x-ratelimit-", tokens=("1000", "100")), 0.9),
        (limits("anthropic-ratelimit-", requests=("10", "9"), input_tokens=("10", "2")), 0.8),
        (limits("anthropic-ratelimit-", output_tokens=("0", "0")), None),
        (limits("anthropic-ratelimit-", tokens=("many", "few")), None),
        ({"anthropic-ratelimit-tokens-limit": "10"}, None),
    ],
)
def test_what_headers_say_of_the_limits(headers: dict[str, str], used: float | None) -> None:
    signal = rate_signal(headers)
    assert signal.status == "allowed"
    assert signal.utilization == (used if used is None else pytest.approx(used))


def test_the_limits_of_an_answer_reach_the_governor(
    runtime: Make, raw_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = ("anthropic-ratelimit-tokens-limit: 100", "anthropic-ratelimit-tokens-remaining: 5")
    server = raw_server(whole(text_answer("hello"), *headers))
    port = runtime("anthropic", server.url)
    seen: list[RateSignal] = []
    monkeypatch.setattr(port.governor, "observe", seen.append)

    async def ask() -> None:
        async with port:
            await port.generate_text("hello")

    asyncio.run(ask())
    assert [signal.utilization for signal in seen if signal.utilization is not None] == [pytest.approx(0.95)]


def error_event(kind: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": "words of the provider"}}


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("overloaded_error", "overloaded"),
        ("api_error", "overloaded"),
        ("rate_limit_error", "rate_limit"),
        ("authentication_error", "auth"),
        ("billing_error", "billing"),
        ("request_too_large", "context"),
        ("something_new", "execution"),
    ],
)
def test_an_error_in_the_middle_of_a_stream(kind: str, code: str, runtime: Make, raw_server: Start) -> None:
    begun = block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "half"})[:-1]
    server = raw_server(whole(frames(begin(), *begun, error_event(kind))))
    facts: list[Any] = []
    error = failed(runtime("anthropic", server.url, options={"usage_sink": facts.append}))
    assert error.code == code
    assert "words of the provider" in error.detail
    assert "words of the provider" not in f"{error.message} {error.hint} {error.details}"
    assert [(fact.unit_id, fact.complete, fact.usage.input_tokens) for fact in facts] == [("msg_raw", False, 11)]


BROKEN = {
    "cut before the end": [HEAD + b"content-length: 99999\r\n\r\n" + frames(begin())],
    "ends without its last events": whole(
        frames(begin(), *block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "half"}))
    ),
    "nothing at all": whole(b""),
    "events that are no JSON": whole(b"event: message_start\ndata: {oops\n\n"),
    "hangs up at once": [],
    "speaks no HTTP": [b"220 smtp.example.com ESMTP\r\n"],
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN.keys())
def test_answers_that_break_off_are_connection_errors(answer: list[Any], runtime: Make, raw_server: Start) -> None:
    server = raw_server(answer)
    error = failed(runtime("anthropic", server.url))
    assert error.code == "connection"
    assert error.retryable


def test_a_page_instead_of_an_api_names_the_address_and_the_edit(runtime: Make, raw_server: Start) -> None:
    page = b"<html>nothing here</html>"
    server = raw_server([b"HTTP/1.1 404 Not Found\r\ncontent-length: %d\r\n\r\n" % len(page) + page])
    error = failed(runtime("gateway", server.url + "/claude"))
    assert error.code == "execution"
    assert error.message == f"there is no Messages API at {server.url}/claude/v1/messages"
    assert error.hint == "ktx config set llm.provider.gateway.base_url URL, without the trailing `/v1/messages`"


def test_nobody_listens(runtime: Make) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        error = failed(runtime("gateway", f"http://127.0.0.1:{port}"))
    assert error.code == "connection"
    assert error.message == "the gateway cannot be reached"


@pytest.mark.parametrize(
    "answer", [[], [HEAD + b"content-length: 99999\r\n\r\n" + frames(begin())]], ids=["before", "in the middle"]
)
def test_an_answer_that_takes_too_long(
    answer: list[Any], runtime: Make, raw_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.worlds.raw_model_server import HOLD

    monkeypatch.setattr(clients, "TIMEOUT_SECONDS", 0.3)
    server = raw_server([*answer, HOLD])
    assert failed(runtime("anthropic", server.url)).code == "connection"
    assert server.gone.wait(5)


@pytest.mark.requirement("R49")
@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("max_tokens", "execution"),
        ("refusal", "refusal"),
        ("model_context_window_exceeded", "context"),
        ("something_new", "execution"),
    ],
)
def test_endings_that_are_no_answer(reason: str, code: str, runtime: Make, model_server: ModelServer) -> None:
    model_server.play([Turn(text="half", stop_reason=reason)])
    facts: list[Any] = []
    error = failed(runtime("anthropic", model_server.url, options={"usage_sink": facts.append}))
    assert error.code == code
    assert [fact.usage.output_tokens for fact in facts] == [20], "what a failed call took is counted"


def test_an_ending_ktx_does_not_know_is_named(runtime: Make, model_server: ModelServer) -> None:
    model_server.play([says("hello", stop_reason="something_new")])
    message = failed(runtime("anthropic", model_server.url)).message
    assert message == "the answer from the model `claude-sonnet-5-5` ended with `something_new`, which is not supported"


def test_a_natural_end_without_message_stop_is_an_answer(runtime: Make, raw_server: Start) -> None:
    text = block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "whole"})
    server = raw_server(whole(frames(begin(), *text, finish()[0])))

    async def ask() -> str:
        async with runtime("gateway", server.url) as port:
            return (await port.generate_text("hello")).text

    assert asyncio.run(ask()) == "whole"
