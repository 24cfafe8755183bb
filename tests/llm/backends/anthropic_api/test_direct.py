"""The client that speaks without the SDK: what it sends is what the SDK would send."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import pytest

from ktx_cli.llm.backends.anthropic_api.direct import DirectClient, StatusError
from ktx_cli.testing.model_script import OVERLOADED, ModelRequest, says
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.raw_model_server import RawServer

OWN = ("user-agent", "x-stainless-", "content-length")
"""Headers in which both may differ."""

BODY: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 100,
    "stream": True,
    "messages": [{"role": "user", "content": [{"type": "text", "text": "Grüße 🌍\u2028"}]}],
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
    "tools": [{"name": "look", "description": "Look.", "input_schema": {"type": "object", "properties": {}}}],
    "output_config": {"format": {"type": "json_schema", "schema": {"type": "object", "properties": {}}}},
}


def direct(url: str) -> DirectClient:
    return DirectClient(url, {"authorization": "Bearer sk"}, timeout_seconds=5, connect_seconds=5)


def ask(url: str, body: dict[str, Any] = BODY) -> list[dict[str, Any]]:
    async def asked() -> list[dict[str, Any]]:
        async with direct(url) as client, client.answering(body) as (_, events):
            return [event async for event in events]

    return asyncio.run(asked())


def ask_by_sdk(url: str) -> list[dict[str, Any]]:
    async def asked() -> list[dict[str, Any]]:
        async with anthropic.AsyncAnthropic(api_key="sk", base_url=url, max_retries=0) as client:
            stream = await client.messages.create(**BODY)
            return [event.model_dump(mode="json", exclude_unset=True, warnings=False) async for event in stream]

    return asyncio.run(asked())


def sent(request: ModelRequest) -> tuple[str, str, Any, dict[str, str]]:
    headers = {name.lower(): value for name, value in request.headers.items()}
    same = {name: value for name, value in headers.items() if not name.startswith(OWN)}
    return request.method, request.path, request.body, same


@pytest.mark.parametrize("end", ["", "/", "/deep/er", "/deep/er/"])
def test_a_request_and_its_answer_are_those_of_the_sdk(end: str, model_server: ModelServer) -> None:
    model_server.play(lambda _: says("hello"))
    ours, theirs = ask(model_server.url + end), ask_by_sdk(model_server.url + end)
    mine, other = model_server.requests
    assert sent(mine) == sent(other)
    assert mine.body == BODY
    assert [each["type"] for each in ours] == [each["type"] for each in theirs]
    assert ours[1:] == theirs[1:], "the first has the id of the message"


def test_a_refusal_has_the_status_the_words_and_the_body_as_the_sdk_gives_them(model_server: ModelServer) -> None:
    model_server.play([OVERLOADED, OVERLOADED])
    with pytest.raises(StatusError) as ours:
        ask(model_server.url)
    with pytest.raises(anthropic.APIStatusError) as theirs:
        ask_by_sdk(model_server.url)
    assert (ours.value.status_code, ours.value.body) == (theirs.value.status_code, theirs.value.body)
    assert OVERLOADED.message in str(ours.value)


def test_an_answer_that_is_no_stream_of_events_is_an_error(raw_server: Callable[..., RawServer]) -> None:
    server = raw_server([b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 5\r\n\r\nhello"])
    with pytest.raises(httpx2.TransportError, match="text/event-stream"):
        ask(server.url)


def test_a_number_json_has_not_is_not_sent(model_server: ModelServer) -> None:
    with pytest.raises(ValueError, match="Out of range"):
        ask(model_server.url, {**BODY, "temperature": float("nan")})
    assert model_server.requests == []


PROGRAM = """
import asyncio, pathlib, sys
from ktx_cli.llm.factory import create_runtime
from ktx_cli.project.config import KtxConfig
provider = {"backend": "anthropic", "anthropic": {"api_key": "env:K", "base_url": sys.argv[1]}}
config = KtxConfig.model_validate({"llm": {"provider": provider, "models": {"default": "m"}}})
async def ask():
    async with create_runtime(config, pathlib.Path("/"), {"K": "k"}) as runtime:
        return (await runtime.generate_text("hello")).text
print(asyncio.run(ask()), sorted(name for name in sys.modules if name.partition(".")[0] == "anthropic"))
"""


def test_a_call_loads_no_module_of_the_sdk(model_server: ModelServer) -> None:
    model_server.play([says("hello")])
    done = subprocess.run([sys.executable, "-c", PROGRAM, model_server.url], capture_output=True, text=True, check=True)
    assert done.stdout == "hello []\n"
