"""What a server lacks is found by its rejections, remembered for the process, and worked around."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, create_model

from ktx_cli.llm.backends.openai_api.abilities import Abilities, Lack, lack_in, strict_schema
from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.routing import RoutedRuntime
from ktx_cli.llm.schemas import is_lossless, object_schema
from ktx_cli.testing.model_script import Failure, ModelRequest, Reply, calls, gives, says
from ktx_cli.testing.model_server import ModelServer
from tests.llm.backends.openai_api.test_backend import City, ask, give, loop

Make = Callable[..., RoutedRuntime]
ULM = {"name": "Ulm", "people": 7, "twins": []}


def rejecting(part: str, message: str, then: Reply, *, status: int = 400) -> Callable[[ModelRequest], Reply]:
    """Return the script of a server that rejects every request with a part."""

    def script(request: ModelRequest) -> Reply:
        return Failure(status, "invalid_request_error", message) if part in request.sent else then

    return script


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("stream_options", "Unrecognized request argument supplied: stream_options"),
        ("stream_options", "[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options', 'include_usage')}]"),
        ("reasoning_effort", "Unsupported parameter: 'reasoning_effort' is not supported with this version."),
        ("reasoning_effort", "This does not support thinking"),
        ("max_completion_tokens", "max_completion_tokens is too large: 32000. It supports at most 16384 tokens."),
        (
            "max_completion_tokens",
            "The maximum context length is 4096 tokens. However, you requested 8200 tokens (8 in the messages, 8192 in "
            "the completion).",
        ),
    ],
)
def test_a_rejected_part_is_left_out_from_then_on(part: str, message: str, runtime: Make, server: ModelServer) -> None:
    server.play(rejecting(part, message, says("hello")))
    port = runtime("openai-compatible", server.url, models={"default": "gpt-oss:20b"})

    async def work() -> list[str]:
        async with port:
            return [(await port.generate_text("hello")).text for _ in range(2)]

    assert asyncio.run(work()) == ["hello"] * 2
    assert [part in request.sent for request in server.requests] == [True, False, False]
    assert ask(runtime("openai-compatible", server.url, models={"default": "gpt-oss:20b"})) == "hello"
    assert part not in server.requests[-1].sent, "another client of the process knows it too"
    ask(runtime("openai-compatible", server.url, models={"default": "gpt-oss:120b"}))
    assert part in server.requests[-2].sent, "another model may support it"


def test_an_old_server_gets_the_old_name_of_the_limit(runtime: Make, server: ModelServer) -> None:
    message = "Extra inputs are not permitted: max_completion_tokens"
    server.play(rejecting("max_completion_tokens", message, says("hello")))
    assert ask(runtime("openai-compatible", server.url)) == "hello"
    assert server.requests[-1].sent["max_tokens"] == 8_192


@pytest.mark.parametrize("status", [400, 422, 501])
def test_several_lacks_are_found_one_after_the_other(status: int, runtime: Make, server: ModelServer) -> None:
    parts = {"stream_options": "stream_options: unknown field", "max_completion_tokens": "no max tokens here"}

    def script(request: ModelRequest) -> Reply:
        found = next((message for part, message in parts.items() if part in request.sent), None)
        return says("hello") if found is None else Failure(status, "invalid_request_error", found)

    server.play(script)
    assert ask(runtime("openai-compatible", server.url)) == "hello"
    assert len(server.requests) == 3
    assert set(server.requests[-1].sent) == {"model", "messages", "stream"}


def test_a_server_without_schemas_gets_a_tool(runtime: Make, server: ModelServer) -> None:
    message = "response_format type json_schema is unavailable"
    server.play(rejecting("response_format", message, gives(ULM)))
    assert give(runtime("openai-compatible", server.url)).name == "Ulm"
    assert [request.tool_names for request in server.requests] == [[], ["give_answer"]]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("tools", "registry.ollama.ai/library/gemma:2b does not support tools"),
        ("tool_choice", "tool_choice is not supported"),
    ],
)
def test_a_server_without_schemas_and_tools_reads_the_schema_in_the_prompt(
    part: str, message: str, runtime: Make, server: ModelServer
) -> None:
    def script(request: ModelRequest) -> Reply:
        if "response_format" in request.sent:
            return Failure(400, "invalid_request_error", "json_schema is not supported")
        return Failure(400, "invalid_request_error", message) if part in request.sent else gives(ULM)

    server.play(script)
    assert give(runtime("openai-compatible", server.url)).name == "Ulm"
    assert give(runtime("openai-compatible", server.url), City).people == 7
    last = server.requests[-1]
    assert len(server.requests) == 4 and last.tool_names == []
    assert last.system.startswith("Be right.\n\nAnswer with a single JSON object") and '"people"' in last.system


@pytest.mark.parametrize("ignored", [1, 2])
def test_a_server_that_ignores_a_part_is_noticed(ignored: int, runtime: Make, server: ModelServer) -> None:
    server.play([*[says("Ulm is a city.")] * ignored, gives(ULM), gives(ULM)])
    assert give(runtime("openai-compatible", server.url)).name == "Ulm"
    ways = [
        "format" if "response_format" in request.sent else "tool" if request.tool_names else "prompt"
        for request in server.requests
    ]
    assert ways == ["format", "tool", "prompt"][: ignored + 1]
    give(runtime("openai-compatible", server.url))
    assert ("response_format" in server.requests[-1].sent, bool(server.requests[-1].tool_names)) == (
        False,
        ignored == 1,
    )


def test_calls_at_the_same_time_notice_one_ignored_part_once(runtime: Make, server: ModelServer) -> None:
    server.play(lambda request: gives(ULM) if request.tool_names else says("Ulm is a city."))
    port = runtime("openai-compatible", server.url, options={"max_concurrency": 4})

    async def work() -> list[Any]:
        async with port:
            return await asyncio.gather(*(port.generate_object("Which?", City) for _ in range(4)))

    assert [each.value.name for each in asyncio.run(work())] == ["Ulm"] * 4
    base_url = f"{server.url}/v1/"
    assert Abilities(base_url, "chat").lacks("qwen3:8b") == {Lack.FORMAT}


def test_an_object_that_does_not_fit_is_not_taken_for_an_ignored_schema(runtime: Make, server: ModelServer) -> None:
    server.play([gives({"name": "Ulm"}), gives(ULM)])
    assert give(runtime("openai-compatible", server.url)).name == "Ulm"
    assert all("response_format" in request.sent for request in server.requests)


def test_a_schema_that_is_invalid_there_says_nothing_about_others(runtime: Make, server: ModelServer) -> None:
    message = "Invalid schema for response_format 'answer': 'minimum' is not permitted."
    server.play(rejecting("response_format", message, gives(ULM)))
    for _ in range(2):
        assert give(runtime("openai-compatible", server.url)).name == "Ulm"
    assert ["response_format" in request.sent for request in server.requests] == [True, False, True, False]


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("registry.ollama.ai/library/gemma:2b does not support tools", "use a model with tools: "),
        ("No endpoints found that support tool use", "use a model with tools: "),
        (
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
            "start vLLM with `--enable-auto-tool-choice` and `--tool-call-parser`, or ",
        ),
    ],
)
def test_a_loop_needs_tools(message: str, hint: str, runtime: Make, server: ModelServer) -> None:
    server.play(rejecting("tools", message, says("never"), status=404 if "endpoints" in message else 400))
    error = loop(runtime("openai-compatible", server.url)).error
    assert error is not None and error.code == "model" and len(server.requests) == 1
    assert error.message.startswith("the model `qwen3:8b` does not support tools on this server")
    assert error.hint == f"{hint}ktx config set llm.models.default MODEL"


def test_parallel_calls_are_repeated_one_by_one(runtime: Make, server: ModelServer) -> None:
    def script(request: ModelRequest) -> Reply:
        if any(len(message.get("tool_calls", ())) > 1 for message in request.sent["messages"]):
            return Failure(400, "invalid_request_error", "This model only supports single tool-calls at once!")
        return says("done") if request.number > 1 else calls(("look", {"q": "a"}), ("look", {"q": "b"}), text="Well. ")

    server.play(script)
    done = loop(runtime("openai-compatible", server.url))
    assert (done.text, done.facts.tool_calls, len(server.requests)) == ("done", 2, 3)
    roles = [message["role"] for message in server.requests[-1].sent["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool"]


def test_a_template_without_a_system_prompt_gets_it_before_the_first_message(
    runtime: Make, server: ModelServer
) -> None:
    def script(request: ModelRequest) -> Reply:
        system = request.sent["messages"][0]["role"] == "system"
        return Failure(500, "api_error", "System role not supported") if system else says("hello")

    server.play(script)
    assert ask(runtime("openai-compatible", server.url), system="Keep the shelf.") == "hello"
    assert server.requests[-1].sent["messages"] == [{"role": "user", "content": "Keep the shelf.\n\nhello"}]


@pytest.mark.parametrize("part", ["include", "prompt_cache_key", "max_output_tokens", "reasoning"])
def test_a_server_with_a_part_of_the_responses_api(part: str, runtime: Make, server: ModelServer) -> None:
    server.play(rejecting(part, f"Unknown parameter: '{part}'.", says("hello")))
    provider = {"api": "responses"}
    port = runtime("openai-compatible", server.url, provider=provider, models={"default": "gpt-oss:20b"})
    assert ask(port) == "hello"
    assert [part in request.sent for request in server.requests] == [True, False]


def test_a_part_that_ktx_cannot_do_without_is_an_error(runtime: Make, server: ModelServer) -> None:
    server.play([Failure(400, "invalid_request_error", "messages: roles must alternate")])
    with pytest.raises(LlmError) as caught:
        ask(runtime("openai-compatible", server.url))
    assert caught.value.code == "execution" and len(server.requests) == 1


@pytest.mark.table(
    ("status", "words", "body"),
    [
        (401, "tool_choice is not supported", {"tool_choice": {}}),
        (429, "max_tokens per minute", {"max_tokens": 1}),
        (400, "reasoning is not supported", {"messages": []}),
        (400, "the encrypted content of a reasoning item could not be verified", {"include": [], "reasoning": {}}),
        (500, "the server had an error: unsupported reasoning", {"reasoning": {}, "stream_options": {}}),
        (404, "unknown url; stream_options", {"stream_options": {}}),
        (400, "invalid schema for function 'look': in context=('properties',)", {"tools": []}),
        (400, "this model's maximum context length is 8192 tokens", {"max_completion_tokens": 1, "tools": []}),
        (400, "the response was filtered", {"response_format": {}, "stream_options": {}}),
    ],
)
def test_other_errors_show_no_lack(status: int, words: str, body: Mapping[str, Any]) -> None:
    assert lack_in(status, words, body, frozenset()) is None


@given(st.sampled_from(list(Lack)), st.sampled_from(list(Lack)))
def test_what_is_known_is_never_found_again(first: Lack, second: Lack) -> None:
    """So that a turn asks again at most once for each part."""
    known = Abilities("http://x", "chat").lacks("m") | {first, second}
    body = dict.fromkeys(("tools", "tool_choice", "response_format", "stream_options", "max_tokens", "include"), 1)
    words = "tool_choice tools are not supported json_schema stream_options max_tokens include reasoning"
    found = lack_in(400, words, body, known)
    assert found is None or found[0] not in known


TYPES = st.recursive(
    st.sampled_from([int, str, float, bool, int | None]),
    lambda inner: st.one_of(
        inner.map(lambda one: list[one]),  # type: ignore[valid-type]
        st.lists(inner, min_size=1, max_size=3).map(
            lambda types: create_model("Inner", **{f"f{n}": (one, ...) for n, one in enumerate(types)})  # type: ignore[call-overload]
        ),
    ),
    max_leaves=6,
)


@given(st.lists(TYPES, min_size=1, max_size=3))
def test_every_strict_schema_is_closed_and_complete(types: list[Any]) -> None:
    model: type[BaseModel] = create_model("Any", **{f"g{n}": (one, ...) for n, one in enumerate(types)})  # type: ignore[call-overload]
    schema, _ = object_schema(model)
    if not is_lossless(schema):
        return
    ahead: list[Any] = [strict_schema(schema)]
    while ahead:
        part = ahead.pop()
        if isinstance(part, dict):
            assert not {"title", "default", "minimum", "oneOf", "allOf", "pattern"} & set(part)
            if part.get("type") == "object":
                assert part["additionalProperties"] is False and part["required"] == list(part["properties"])
            assert "$ref" not in part or set(part) == {"$ref"}
            ahead += part.values()
        elif isinstance(part, list):
            ahead += part
