"""What reaches the wire: where requests go, what they contain, and what the environment cannot change."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from pydantic import BaseModel, Field

from ktx_cli.core.errors import ConfigError
from ktx_cli.llm.agent_loop import StoredStep
from ktx_cli.llm.backends.openai_api import is_effort_settable
from ktx_cli.llm.backends.openai_api.backend import make_client
from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.routing import RoutedRuntime
from ktx_cli.llm.settings import resolved_place
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.llm.types import LoopResult, PromptPart, Usage
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.testing.model_script import calls, gives, says
from ktx_cli.testing.model_server import ModelServer

Make = Callable[..., RoutedRuntime]
CANARY = "of-the-environment"


class Query(BaseModel):
    q: str


class City(BaseModel):
    name: str
    people: int = Field(ge=0, description="How many.")
    twins: list[str] = []


class Loose(BaseModel):
    facts: dict[str, Any]


def look(*, fails: bool = False) -> RuntimeTool:
    def handler(query: Query) -> str:
        if fails:
            raise KeyboardInterrupt
        return f"looked up {query.q}"

    return RuntimeTool("look", "Looks.", Query, handler, read_only=True)


def ask(runtime: RoutedRuntime, prompt: Any = "hello", **options: Any) -> str:
    async def work() -> str:
        async with runtime:
            return (await runtime.generate_text(prompt, **options)).text

    return asyncio.run(work())


def loop(runtime: RoutedRuntime, **options: Any) -> LoopResult:
    async def work() -> LoopResult:
        async with runtime:
            return await runtime.run_agent_loop("What?", system="Keep.", tools=[look()], step_budget=8, **options)

    return asyncio.run(work())


def give(runtime: RoutedRuntime, output: type[BaseModel] = City) -> Any:
    async def work() -> Any:
        async with runtime:
            return (await runtime.generate_object("Which city?", output, system="Be right.")).value

    return asyncio.run(work())


@pytest.mark.parametrize("api", ["responses", "chat"])
@pytest.mark.parametrize(
    ("backend", "settings", "headers"),
    [
        ("openai", {}, {"authorization": "Bearer sk-of-the-config", "api-key": None}),
        ("openai-compatible", {}, {"authorization": "Bearer sk-of-the-config", "api-key": None}),
        ("openai-compatible", {"auth": "key"}, {"authorization": None, "api-key": "sk-of-the-config"}),
        ("openai-compatible", {"api_key": None}, {"authorization": None, "api-key": None}),
    ],
    ids=["openai", "bearer", "key", "no key"],
)
def test_no_variable_of_the_process_reaches_the_wire(
    backend: str,
    settings: dict[str, Any],
    headers: dict[str, str | None],
    api: str,
    runtime: Make,
    server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login {CANARY} password {CANARY}\n")
    with ModelServer([says("from the trap")]) as trap:
        variables = {
            "NETRC": str(tmp_path / "netrc"),
            "OPENAI_BASE_URL": f"{trap.url}/v1",
            "AZURE_OPENAI_ENDPOINT": trap.url,
            "OPENAI_CUSTOM_HEADERS": f"x-{CANARY}: yes\nAuthorization: Bearer {CANARY}\napi-key: {CANARY}",
            "OPENAI_LOG": "debug",
        }
        named = (
            "API_KEY",
            "ADMIN_KEY",
            "ORG_ID",
            "PROJECT_ID",
            "WEBHOOK_SECRET",
            "API_VERSION",
            "ORGANIZATION",
            "MODEL",
        )
        variables |= {f"OPENAI_{name}": CANARY for name in named}
        variables |= {"AZURE_OPENAI_API_KEY": CANARY, "AZURE_OPENAI_AD_TOKEN": CANARY}
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        server.play([says("from the server")])
        provider = {**settings, **({"api": api} if backend != "openai" else {})}
        assert ask(runtime(backend, server.url, provider=provider)) == "from the server"
        assert trap.requests == []
    (request,) = server.requests
    assert CANARY not in f"{request.path} {request.headers} {json.dumps(request.sent)}"
    assert {name: request.headers.get(name) for name in headers} == headers
    assert not any(name.startswith("openai-") for name in request.headers)
    assert capfd.readouterr().err == ""


def test_a_variable_does_not_make_the_sdk_write_prompts_to_the_terminal() -> None:
    program = (
        "import os, logging; os.environ['OPENAI_LOG'] = 'debug'\n"
        "from ktx_cli.llm.backends.openai_api.backend import load_sdk\n"
        "load_sdk(); print(logging.getLogger().handlers, logging.getLogger('openai').level)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == f"[] {logging.NOTSET}"


@pytest.mark.parametrize(
    ("url", "used"),
    [
        ("http://127.0.0.1:11434", "http://127.0.0.1:11434/v1"),
        ("http://127.0.0.1:11434/", "http://127.0.0.1:11434/v1"),
        ("http://127.0.0.1:11434/v1/", "http://127.0.0.1:11434/v1"),
        ("https://openrouter.ai/api/v1/chat/completions", "https://openrouter.ai/api/v1"),
        ("https://x.openai.azure.com/openai/v1/responses", "https://x.openai.azure.com/openai/v1"),
    ],
)
def test_a_url_may_be_given_in_several_forms(url: str, used: str, tmp_path: Any) -> None:
    provider = {"backend": "openai-compatible", "openai_compatible": {"base_url": "env:URL"}}
    config = KtxConfig.model_validate({"llm": {"provider": provider}})
    place = resolved_place(config, "openai-compatible", project_dir=tmp_path, environ={"URL": url})
    assert place.base_url == used


def test_openai_has_its_own_url(tmp_path: Any) -> None:
    config = KtxConfig.model_validate({"llm": {"provider": {"backend": "openai", "openai": {"api_key": "env:K"}}}})
    client, _ = make_client("openai", config, project_dir=tmp_path, environ={"K": "k"})
    assert str(client.base_url) == "https://api.openai.com/v1/"


@pytest.mark.parametrize("backend", ["openai", "openai-compatible"])
def test_a_missing_package_is_an_error_with_the_command(
    backend: str, runtime: Make, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(LlmError, match="requires the package openai") as caught:
        ask(runtime(backend, server.url))
    assert caught.value.hint == "pip install 'ktx-cli[openai]'"
    assert caught.value.exit_code == ConfigError("").exit_code


@pytest.mark.table(
    ("model", "settable"),
    [
        ("gpt-6.2-sol", True), ("gpt-5.4-mini", True), ("openai/gpt-6-luna", True), ("gpt-oss:20b", True), ("o3", True),
        ("o4-mini", True), ("openai/o1", True), ("gpt-10", True), ("gpt-4.1", False), ("gpt-4o", False),
        ("gpt-5-chat-latest", False), ("qwen3:8b", False), ("my-deployment", False), ("gpt-50o", False),
        ("o1-mini", True), ("o1-preview", False), ("llama-o3", False),
    ],
)  # fmt: skip
def test_which_models_have_an_effort(model: str, settable: bool) -> None:
    assert is_effort_settable(model) is settable


def test_a_request_to_openai_stores_nothing_and_asks_for_sealed_reasoning(runtime: Make, server: ModelServer) -> None:
    server.play([says("hello")])
    parts = (PromptPart("On the shelf: jars.", cached=True), PromptPart("What is in the jars?"))
    ask(runtime("openai", server.url), parts, system="You keep the shelf.")
    (request,) = server.requests
    sent = dict(request.sent)
    assert request.path == "/v1/responses"
    assert len(sent.pop("prompt_cache_key")) == 32
    assert sent == {
        "model": "gpt-6.2-sol",
        "instructions": "You keep the shelf.",
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "On the shelf: jars."},
                    {"type": "input_text", "text": "What is in the jars?"},
                ],
            }
        ],
        "max_output_tokens": 32_000,
        "reasoning": {"effort": "medium"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
        "stream": True,
    }


def test_requests_that_begin_alike_share_a_key_for_the_cache(runtime: Make, server: ModelServer) -> None:
    server.play([says("a")] * 4)
    for prompt, options in (("one", {}), ("two", {}), ("two", {"system": "other"})):
        ask(runtime("openai", server.url), prompt, **options)
    ask(runtime("openai", server.url, promptCaching={"enabled": False}))
    keys = [request.sent.get("prompt_cache_key") for request in server.requests]
    assert keys[0] == keys[1] != keys[2] and keys[3] is None


def test_a_request_to_a_compatible_server(runtime: Make, server: ModelServer) -> None:
    server.play([says("hello")])
    ask(runtime("openai-compatible", server.url), system="You keep the shelf.")
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.sent == {
        "model": "qwen3:8b",
        "messages": [{"role": "system", "content": "You keep the shelf."}, {"role": "user", "content": "hello"}],
        "max_completion_tokens": 8_192,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_reasoning_is_carried_sealed_through_a_loop(runtime: Make, server: ModelServer) -> None:
    server.play([calls(("look", {"q": "a"}), text="Looking."), calls(("look", {"q": "b"})), says("done")])
    assert loop(runtime("openai", server.url)).text == "done"
    sealed = [
        [i.get("encrypted_content") for i in r.sent["input"] if i["type"] == "reasoning"] for r in server.requests
    ]
    assert sealed == [[], ["sealed-0001"], ["sealed-0001", "sealed-0002"]]
    kinds = [item["type"] for item in server.requests[-1].sent["input"]]
    one_turn = ["function_call", "function_call_output"]
    assert kinds == ["message", "reasoning", "message", *one_turn, "reasoning", *one_turn]


class Kept:
    """A journal in memory, as it comes back from a file."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str]] = []

    def load(self, key: str) -> Sequence[StoredStep]:
        return [json.loads(step) for own, step in self.steps if own == key]

    async def append(self, key: str, step: StoredStep) -> None:
        self.steps.append((key, json.dumps(step)))


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (("openai", {}), ("openai", {})),
        (("openai-compatible", {}), ("openai-compatible", {})),
        (("openai-compatible", {"api": "responses"}), ("openai-compatible", {"api": "chat"})),
        (("openai-compatible", {"api": "chat"}), ("openai-compatible", {"api": "responses"})),
    ],
    ids=["responses", "chat", "responses, then chat", "chat, then responses"],
)
def test_a_killed_loop_goes_on_after_its_last_stored_step(
    first: tuple[str, Mapping[str, Any]], then: tuple[str, Mapping[str, Any]], runtime: Make, server: ModelServer
) -> None:
    journal = Kept()
    server.play([calls(("look", {"q": "a"}), text="Looking."), calls(("look", {"q": "b"}))])
    cut = loop(runtime(first[0], server.url, provider=first[1]), journal=journal)
    assert cut.stop_reason == "error" and len(journal.steps) == 2
    before = server.requests[-1].body["messages"]
    server.play([says("done")])
    done = loop(runtime(then[0], server.url, provider=then[1]), journal=journal)
    assert (done.text, done.facts.steps, len(done.invocations)) == ("done", 3, 2)
    (request,) = server.requests
    plain = [[b for b in m["content"] if b["type"] != "redacted_thinking"] for m in request.body["messages"]]
    assert plain == [[b for b in m["content"] if b["type"] != "redacted_thinking"] for m in before]
    assert [result for result, _ in request.tool_results()] == ["looked up b"]


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_calls_without_unique_ids_get_some(api: str, runtime: Make, server: ModelServer) -> None:
    """Some servers count the calls of each answer anew."""

    def same_ids(request: Any) -> Any:
        return calls(("look", {"q": "a"})) if request.number < 3 else says("done")

    server.play(same_ids)
    record = server.record
    server.record = lambda *facts: _numbered(record(*facts))  # type: ignore[method-assign]
    done = loop(runtime("openai-compatible", server.url, provider={"api": api}))
    assert done.facts.tool_calls == 2
    assert len({one.call_id for one in done.invocations}) == 2


def _numbered(request: Any) -> Any:
    """Let a scripted answer have the id of the first one."""
    object.__setattr__(request, "number", 1 if len(request.body["messages"]) < 5 else 3)
    return request


@pytest.mark.parametrize(("backend", "api"), [("openai", ""), ("openai-compatible", "chat")])
def test_an_object_is_asked_for_with_a_strict_schema(
    backend: str, api: str, runtime: Make, server: ModelServer
) -> None:
    server.play([gives({"name": "Ulm", "people": 7, "twins": []})])
    assert give(runtime(backend, server.url)).name == "Ulm"
    (request,) = server.requests
    form = request.sent["response_format"]["json_schema"] if api else request.sent["text"]["format"]
    assert form["strict"] is True
    assert form["schema"] == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "people": {"type": "integer", "description": 'How many. {"minimum": 0}'},
            "twins": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["name", "people", "twins"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("backend", ["openai", "openai-compatible"])
def test_an_object_that_a_strict_schema_cannot_carry_is_the_argument_of_a_tool(
    backend: str, runtime: Make, server: ModelServer
) -> None:
    server.play([gives({"facts": 3}), gives({"facts": {"a": 1}})])
    assert give(runtime(backend, server.url), Loose).facts == {"a": 1}
    first, second = server.requests
    assert first.tool_names == ["give_answer"] and first.sent["tool_choice"]["type"] == "function"
    ((text, failed),) = second.tool_results()
    assert failed and "facts" in text


def test_usage_and_cost_of_openai(runtime: Make, server: ModelServer) -> None:
    server.play([says("hello", input_tokens=1000, output_tokens=50, cache_read_tokens=500, cache_write_tokens=100)])

    async def work() -> Any:
        async with runtime("openai", server.url) as port:
            return (await port.generate_text("hello")).facts

    facts = asyncio.run(work())
    assert facts.usage == Usage(1000, 50, 500, 100)
    assert facts.cost.usd == pytest.approx((1000 * 2 + 50 * 10 + 500 * 0.1 + 100 * 2.5) / 1e6)
    assert facts.resolved_model == "gpt-6.2-sol"


def test_the_cost_of_a_compatible_server_is_unknown(runtime: Make, server: ModelServer) -> None:
    server.play([says("hello")])

    async def work() -> Any:
        async with runtime("openai-compatible", server.url) as port:
            return await port.probe(), port.backend("openai-compatible").versions()

    report, versions = asyncio.run(work())
    assert (report.facts.cost.usd, report.account) == (None, "API key (bearer)")
    assert versions["base_url"] == f"{server.url}/v1/"
