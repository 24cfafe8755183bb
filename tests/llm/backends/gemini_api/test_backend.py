"""What reaches the wire of the Gemini API, what comes back from it, and what the environment cannot change."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from ktx_cli.core.errors import ConfigError
from ktx_cli.llm.agent_loop import StoredStep
from ktx_cli.llm.backends.gemini_api import is_effort_settable
from ktx_cli.llm.backends.gemini_api.backend import make_client
from ktx_cli.llm.backends.gemini_api.contents import json_schema
from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.routing import RoutedRuntime, create_runtime
from ktx_cli.llm.settings import resolved_place
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.llm.types import LoopResult, PromptPart, Usage
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.testing import wire_gemini
from ktx_cli.testing.model_script import Call, Failure, Turn, calls, gives, says
from ktx_cli.testing.model_server import ModelServer

Make = Callable[..., RoutedRuntime]
CANARY = "of-the-environment"


class Query(BaseModel):
    q: str


class City(BaseModel):
    name: str
    people: int = Field(ge=0, description="How many.")
    kind: Literal["town"] = "town"


class Loose(BaseModel):
    facts: dict[str, Any]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def runtime(tmp_path: Path, server: ModelServer) -> Make:
    def make(model: str = "gemini-3.8-flash", *, attempts: int = 1, **llm: Any) -> RoutedRuntime:
        provider = {"backend": "gemini", "gemini": {"api_key": "env:THE_KEY", "base_url": server.url}}
        retry = {"maxAttempts": attempts, "baseDelayMs": 1, "jitter": False}
        settings = {"provider": provider, "models": {"default": model}, **llm}
        config = KtxConfig.model_validate({"llm": settings, "ingest": {"rateLimit": {"retry": retry}}})
        return create_runtime(config, tmp_path, {"THE_KEY": "key-of-the-config"})

    return make


def ask(runtime: RoutedRuntime, prompt: Any = "hello", **options: Any) -> Any:
    async def work() -> Any:
        async with runtime:
            return await runtime.generate_text(prompt, **options)

    return asyncio.run(work())


def loop(runtime: RoutedRuntime, **options: Any) -> LoopResult:
    tool = RuntimeTool("look", "Looks.", Query, lambda query: f"looked up {query.q}", read_only=True)

    async def work() -> LoopResult:
        async with runtime:
            return await runtime.run_agent_loop("What?", system="Keep.", tools=[tool], step_budget=8, **options)

    return asyncio.run(work())


def give(runtime: RoutedRuntime, output: type[BaseModel]) -> Any:
    async def work() -> Any:
        async with runtime:
            return (await runtime.generate_object("Which city?", output)).value

    return asyncio.run(work())


def failed(runtime: RoutedRuntime) -> LlmError:
    with pytest.raises(LlmError) as caught:
        ask(runtime)
    return caught.value


def test_no_variable_of_the_process_reaches_the_wire(
    runtime: Make, server: ModelServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: Any
) -> None:
    (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login {CANARY} password {CANARY}\n")
    with ModelServer([says("from the trap")]) as trap:
        named = ("API_KEY", "CLOUD_PROJECT", "CLOUD_LOCATION", "CLOUD_QUOTA_PROJECT", "APPLICATION_CREDENTIALS")
        variables = {f"GOOGLE_{name}": CANARY for name in named}
        variables |= {
            "NETRC": str(tmp_path / "netrc"),
            "GEMINI_API_KEY": CANARY,
            "GOOGLE_GENAI_USE_VERTEXAI": "true",
            "GOOGLE_GENAI_USE_ENTERPRISE": "true",
            "GOOGLE_GENAI_API_VERSION": CANARY,
            "GOOGLE_API_USE_MTLS_ENDPOINT": "always",
            "GOOGLE_GEMINI_BASE_URL": trap.url,
            "GOOGLE_VERTEX_BASE_URL": trap.url,
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        server.play([says("from the server")])
        assert ask(runtime()).text == "from the server"
        assert trap.requests == []
    (request,) = server.requests
    assert CANARY not in f"{request.path} {request.headers} {json.dumps(request.sent)}"
    assert (request.headers["x-goog-api-key"], request.headers.get("authorization")) == ("key-of-the-config", None)
    assert request.path == "/v1beta/models/gemini-3.8-flash:streamGenerateContent"
    assert "".join(capfd.readouterr()) == ""


def test_what_a_request_contains(runtime: Make, server: ModelServer) -> None:
    server.play([says("hello")])
    parts = (PromptPart("On the shelf: jars.", cached=True), PromptPart("What is in the jars?"))
    ask(runtime(), parts, system="You keep the shelf.")
    (request,) = server.requests
    assert request.sent == {
        "contents": [{"role": "user", "parts": [{"text": "On the shelf: jars."}, {"text": "What is in the jars?"}]}],
        "systemInstruction": {"role": "user", "parts": [{"text": "You keep the shelf."}]},
        "generationConfig": {"maxOutputTokens": 65_536, "thinkingConfig": {"thinking_level": "MEDIUM"}},
    }


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("gemini-3.8-flash", "low", {"thinking_level": "LOW"}),
        ("gemini-2.5-pro", "high", {"thinking_budget": 24_576}),
        ("gemini-2.0-flash", "medium", None),
    ],
)
def test_the_effort_is_a_level_or_a_budget(
    model: str, effort: str, sent: Any, runtime: Make, server: ModelServer
) -> None:
    server.play([says("hello")])
    ask(runtime(model, effort={"default": effort}))
    (request,) = server.requests
    assert request.sent["generationConfig"].get("thinkingConfig") == sent
    assert (request.body.get("output_config") or {}).get("effort") == (effort if sent else None)


@pytest.mark.table(
    ("model", "settable"),
    [
        ("gemini-3.8-flash", True), ("gemini-2.5-flash-lite", True), ("gemini-3-pro-preview", True),
        ("gemini-flash-latest", True), ("gemini-2.0-flash", False), ("gemini-3-pro-image-preview", False),
        ("gemini-2.5-flash-preview-tts", False), ("gemma-4-31b-it", False), ("gemini-embedding-2", False),
    ],
)  # fmt: skip
def test_which_models_have_an_effort(model: str, settable: bool) -> None:
    assert is_effort_settable(model) is settable


class Kept:
    """A journal in memory, as it comes back from a file."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str]] = []

    def load(self, key: str) -> Sequence[StoredStep]:
        return [json.loads(step) for own, step in self.steps if own == key]

    async def append(self, key: str, step: StoredStep) -> None:
        self.steps.append((key, json.dumps(step)))


def test_signed_thoughts_are_carried_through_a_loop_and_its_journal(runtime: Make, server: ModelServer) -> None:
    journal = Kept()
    server.play([calls(("look", {"q": "a"}), ("look", {"q": "b"}), text="Looking."), calls(("look", {"q": "c"}))])
    assert loop(runtime(), journal=journal).stop_reason == "error"
    server.play([says("done")])
    done = loop(runtime(), journal=journal)
    assert (done.text, done.facts.steps, len(done.invocations)) == ("done", 3, 3)
    (request,) = server.requests
    sent = [[(sorted(part), part.get("thoughtSignature")) for part in one["parts"]] for one in request.sent["contents"]]
    assert sent == [
        [(["text"], None)],
        [(["text", "thoughtSignature"], "c2lnbmVkLTAwMDE="), (["functionCall"], None), (["functionCall"], None)],
        [(["functionResponse"], None), (["functionResponse"], None)],
        [(["functionCall", "thoughtSignature"], "c2lnbmVkLTAwMDI=")],
        [(["functionResponse"], None)],
    ]
    (tools,) = request.sent["tools"]
    (look,) = tools["functionDeclarations"]
    assert look["parameters_json_schema"]["properties"]["q"] == {"type": "string"}
    answers = [part["functionResponse"]["response"] for part in request.sent["contents"][2]["parts"]]
    assert answers == [{"output": "looked up a"}, {"output": "looked up b"}]


def test_calls_without_ids_get_own_ones_that_are_not_sent(
    runtime: Make, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_id(block: Mapping[str, Any]) -> dict[str, Any]:
        return {"functionCall": {"name": block["name"], "args": block["input"]}} if "name" in block else {"text": "x"}

    monkeypatch.setattr(wire_gemini, "_part", without_id)
    server.play([calls(("look", {"q": "a"}), ("look", {"q": "b"})), calls(("look", {"q": "c"})), says("done")])
    done = loop(runtime())
    assert [one.call_id for one in done.invocations] == ["ktx_call_1", "ktx_call_2", "ktx_call_3"]
    assert [text for text, _ in server.requests[1].tool_results()] == ["looked up a", "looked up b"]
    assert "ktx_call" not in json.dumps([request.sent for request in server.requests])


def test_an_object_is_asked_for_with_a_schema_the_api_supports(runtime: Make, server: ModelServer) -> None:
    server.play([gives({"name": "Ulm", "people": 7})])
    assert give(runtime(), City).name == "Ulm"
    (request,) = server.requests
    config = request.sent["generationConfig"]
    assert config["responseMimeType"] == "application/json"
    schema = config["responseJsonSchema"]
    assert schema["properties"]["people"] == {"type": "integer", "minimum": 0, "description": "How many."}
    assert schema["properties"]["kind"]["enum"] == ["town"]
    assert schema["required"] == ["name", "people"]


def test_an_object_that_no_schema_carries_is_the_argument_of_a_tool(runtime: Make, server: ModelServer) -> None:
    server.play([gives({"facts": 3}), gives({"facts": {"a": 1}})])
    assert give(runtime(), Loose).facts == {"a": 1}
    first, second = server.requests
    assert first.tool_names == ["give_answer"]
    assert first.sent["toolConfig"]["functionCallingConfig"] == {"mode": "ANY", "allowedFunctionNames": ["give_answer"]}
    ((text, is_error),) = second.tool_results()
    assert is_error and "facts" in text


@pytest.mark.table(
    ("schema", "sent"),
    [
        ({"const": 1, "type": "integer"}, {"enum": [1], "type": "integer"}),
        ({"type": "string", "pattern": "x", "default": "y"}, {"type": "string"}),
        ({"allOf": [{"$ref": "#/$defs/A"}], "description": "d"}, {"$ref": "#/$defs/A", "description": "d"}),
        (
            {"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}},
            {"type": "object", "additionalProperties": {"type": "string"}},
        ),
        ({"$defs": {"A": {"anyOf": [{"const": "a"}]}}}, {"$defs": {"A": {"anyOf": [{"enum": ["a"]}]}}}),
    ],
)
def test_keywords_that_the_api_does_not_support_are_left_out(schema: Any, sent: Any) -> None:
    assert json_schema(schema) == sent


def test_thoughts_count_as_output_and_a_read_of_the_cache_costs_a_tenth(runtime: Make, server: ModelServer) -> None:
    server.play([says("hello", input_tokens=1000, output_tokens=50, cache_read_tokens=500)])
    facts = ask(runtime()).facts
    assert facts.usage == Usage(1000, 50, 500)
    assert facts.cost.usd == pytest.approx((1000 * 0.75 + 50 * 3.75 + 500 * 0.075) / 1e6)
    assert facts.resolved_model == "gemini-3.8-flash"


def test_a_call_that_stays_unreadable_is_an_error(runtime: Make, server: ModelServer) -> None:
    server.play([calls(Call("look", "{"))] * 9)
    done = loop(runtime())
    assert done.error is not None and done.error.code == "execution"
    assert "3 times" in done.error.message
    assert (len(server.requests), done.facts.usage) == (3, Usage(300, 60))


def test_an_empty_answer_is_repeated_with_a_text(runtime: Make, server: ModelServer) -> None:
    server.play([gives("")] * 2 + [gives({"name": "Ulm", "people": 1})])
    assert give(runtime(), City).people == 1
    assert server.requests[-1].sent["contents"][1]["parts"] == [{"text": "(empty)"}]


def error(code: int, status: str, message: str = "no", **details: Any) -> Any:
    inside = {"code": code, "status": status, "message": message, "details": [details] if details else []}
    return code, {"error": inside}


@pytest.mark.parametrize(
    ("answer", "code", "delay"),
    [
        (error(429, "RESOURCE_EXHAUSTED", "quota, check your billing details", retryDelay="34.5s"), "rate_limit", 34.5),
        (error(429, "RESOURCE_EXHAUSTED"), "rate_limit", None),
        (error(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."), "billing", None),
        (error(503, "UNAVAILABLE"), "overloaded", None),
        (error(500, "INTERNAL"), "overloaded", None),
        (error(504, "DEADLINE_EXCEEDED"), "overloaded", None),
        (error(401, "UNAUTHENTICATED"), "auth", None),
        (error(403, "PERMISSION_DENIED"), "auth", None),
        (error(403, "PERMISSION_DENIED", "This API method requires billing: BILLING_DISABLED"), "billing", None),
        (error(400, "INVALID_ARGUMENT", "API key not valid.", reason="API_KEY_INVALID"), "auth", None),
        (error(400, "INVALID_ARGUMENT", "API key expired. Please renew the API key."), "auth", None),
        (error(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number (8)"), "context", None),
        (error(400, "INVALID_ARGUMENT", "something else"), "execution", None),
        (error(400, "FAILED_PRECONDITION", "Please enable billing on your project"), "billing", None),
        (error(404, "NOT_FOUND", "models/x is not found for API version v1beta"), "model", None),
        ((404, {"detail": "Not Found"}), "execution", None),
    ],
)
def test_the_errors_of_the_api(
    answer: tuple[int, Any],
    code: str,
    delay: float | None,
    runtime: Make,
    server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire_gemini.GeminiWire, "failure", lambda self, failure: answer)
    server.play([Failure(answer[0], "", "")])
    found = failed(runtime())
    assert (found.code, found.retry_after) == (code, delay)
    if code == "execution" and answer[0] == 404:
        assert f"there is no Gemini API at {server.url}/v1beta/models/" in found.message


@pytest.mark.parametrize(
    ("chunk", "code"),
    [
        ({"candidates": [{"finishReason": "RECITATION"}]}, "refusal"),
        ({"promptFeedback": {"blockReason": "SAFETY"}}, "refusal"),
        ({"candidates": [{"finishReason": "TOO_MANY_TOOL_CALLS"}]}, "execution"),
        ({"candidates": [{"content": {"role": "model", "parts": [{"text": "h"}]}}]}, "connection"),
        ({"error": {"code": 503, "status": "UNAVAILABLE", "message": "later"}}, "overloaded"),
    ],
    ids=["recitation", "blocked prompt", "unknown end", "no end", "an error in the middle"],
)
def test_other_ends_of_an_answer(
    chunk: dict[str, Any], code: str, runtime: Make, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire_gemini, "chunks_of", lambda message, request: [chunk])
    server.play([Turn("x")])
    assert failed(runtime()).code == code


@pytest.mark.parametrize(
    ("url", "used"),
    [
        ("https://gemini.example.com/v1beta/", "https://gemini.example.com"),
        ("https://gemini.example.com/v1", "https://gemini.example.com"),
        ("https://gemini.example.com/google", "https://gemini.example.com/google"),
    ],
)
def test_a_url_may_be_given_in_several_forms(url: str, used: str, tmp_path: Path) -> None:
    provider = {"backend": "gemini", "gemini": {"base_url": "env:URL"}}
    config = KtxConfig.model_validate({"llm": {"provider": provider}})
    assert resolved_place(config, "gemini", project_dir=tmp_path, environ={"URL": url}).base_url == used


def test_google_has_its_own_url(tmp_path: Path) -> None:
    config = KtxConfig.model_validate({"llm": {"provider": {"backend": "gemini", "gemini": {"api_key": "env:K"}}}})
    made = make_client("gemini", config, project_dir=tmp_path, environ={"K": "k"})
    assert (made.client.vertexai, made.base_url) == (False, "https://generativelanguage.googleapis.com")
    asyncio.run(made.aclose())
    assert made.http_client.is_closed and made.async_http_client.is_closed


def test_another_http_client_than_the_installed_one_is_an_error(
    runtime: Make, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_HTTP_CLIENT", "httpx")
    monkeypatch.setattr("google.genai._api_client.httpx", None)
    found = failed(runtime())
    assert (found.hint, server.requests) == ("unset GOOGLE_GENAI_HTTP_CLIENT", [])


def test_a_missing_package_is_an_error_with_the_command(runtime: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.genai", None)
    found = failed(runtime())
    assert found.message == "the backend `gemini` requires the package google-genai"
    assert found.hint == "pip install 'ktx-cli[gemini]'"
    assert found.exit_code == ConfigError("").exit_code
