"""Server-sent events put together: text as it comes, thinking, tool arguments, usage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from ktx_cli.llm.routing import RoutedRuntime
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.llm.types import LoopResult, TextDelta
from tests.worlds.raw_model_server import RawServer, begin, block, finish, frames, text_answer, whole

Make = Callable[..., RoutedRuntime]
Start = Callable[..., RawServer]


class Query(BaseModel):
    q: str


LOOK = RuntimeTool("look", "Look something up.", Query, lambda arguments: f"found {arguments.q}", read_only=True)


def loop(port: RoutedRuntime, budget: int = 4) -> LoopResult:
    async def ask() -> LoopResult:
        async with port:
            return await port.run_agent_loop("go", system="S", tools=[LOOK], step_budget=budget)

    return asyncio.run(ask())


def tool_call(index: int, *pieces: str, name: str = "look", given: Any = None) -> list[dict[str, Any]]:
    content = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": given or {}}
    return block(index, content, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


@pytest.mark.requirement("C5")
def test_text_arrives_in_the_pieces_the_server_sends(runtime: Make, raw_server: Start) -> None:
    server = raw_server(whole(text_answer("Hel", "lo, ", "", "wörld 🌍")))

    async def ask() -> tuple[list[str], str]:
        async with runtime("anthropic", server.url) as port:
            handle = port.start_text("hello")
            deltas = [event.delta async for event in handle if isinstance(event, TextDelta)]
            return deltas, (await handle.final()).text

    assert asyncio.run(ask()) == (["Hel", "lo, ", "wörld 🌍"], "Hello, wörld 🌍")


def test_blocks_of_text_are_joined_and_unknown_events_passed_over(runtime: Make, raw_server: Start) -> None:
    events = [
        begin(),
        {"type": "ping"},
        *block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "one "}),
        *block(1, {"type": "a_block_of_tomorrow", "data": {"x": [1]}}),
        {"type": "an_event_of_tomorrow", "index": 7},
        *block(2, {"type": "text", "text": ""}, {"type": "text_delta", "text": "two"}),
        *finish(),
    ]
    server = raw_server(whole(frames(*events)))

    async def ask() -> str:
        async with runtime("gateway", server.url) as port:
            return (await port.generate_text("hello")).text

    assert asyncio.run(ask()) == "one two"


def test_thinking_goes_back_exactly_as_it_came(runtime: Make, raw_server: Start) -> None:
    thinking = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "First "},
        {"type": "thinking_delta", "thinking": "this."},
        {"type": "signature_delta", "signature": "c2lnbmVk"},
    )
    hidden = block(1, {"type": "redacted_thinking", "data": "b3BhcXVl"})
    blank = block(2, {"type": "text", "text": ""}, {"type": "text_delta", "text": "\n\n"})
    called = tool_call(3, '{"q"', ': "x"}')
    server = raw_server(
        whole(frames(begin(), *thinking, *hidden, *blank, *called, *finish("tool_use"))), whole(text_answer("done"))
    )
    assert loop(runtime("anthropic", server.url)).text == "done"
    assert server.bodies[1]["messages"][1] == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "First this.", "signature": "c2lnbmVk"},
            {"type": "redacted_thinking", "data": "b3BhcXVl"},
            {"type": "tool_use", "id": "toolu_3", "name": "look", "input": {"q": "x"}},
        ],
    }, "unchanged, without the blank text the API would refuse"


@pytest.mark.parametrize(
    ("pieces", "given", "arguments", "fits"),
    [
        (('{"q": "a', 'b"}'), None, {"q": "ab"}, True),
        ((), {"q": "at once"}, {"q": "at once"}, True),
        ((), None, {}, False),
        (('{"q": "half',), None, '{"q": "half', False),
        (("[1, 2]",), None, "[1, 2]", False),
        (("[" * 3000,), None, "[" * 3000, False),
    ],
)
def test_tool_arguments_are_an_object_or_the_text_that_came(
    pieces: tuple[str, ...], given: Any, arguments: Any, fits: bool, runtime: Make, raw_server: Start
) -> None:
    called = whole(frames(begin(), *tool_call(0, *pieces, given=given), *finish("tool_use")))
    no_help = whole(text_answer("I cannot repair that"))
    server = raw_server(called, *([] if fits else [no_help]), whole(text_answer("done")))
    result = loop(runtime("anthropic", server.url))
    (invocation,) = result.invocations
    assert invocation.arguments == arguments
    assert (result.error, result.text, result.facts.tool_failures) == (None, "done", 0 if fits else 1)
    (echoed,) = server.bodies[-1]["messages"][1]["content"]
    assert echoed["input"] == (arguments if isinstance(arguments, dict) else {"unparsed": arguments})


def test_a_call_that_never_finished_is_not_run(runtime: Make, raw_server: Start) -> None:
    cut = tool_call(0, '{"q": "x"')[:-1]
    server = raw_server(whole(frames(begin(), *cut, *finish("max_tokens"))))
    result = loop(runtime("anthropic", server.url))
    assert (result.stop_reason, result.invocations) == ("error", ())
    assert result.error is not None
    assert result.error.code == "execution"


def test_a_complete_call_of_an_answer_cut_at_its_limit_is_not_run(runtime: Make, raw_server: Start) -> None:
    server = raw_server(whole(frames(begin(), *tool_call(0, '{"q": "x"}'), *finish("max_tokens"))))
    assert loop(runtime("anthropic", server.url)).invocations == ()


def test_a_gateway_that_says_end_turn_still_gets_its_tool_run(runtime: Make, raw_server: Start) -> None:
    server = raw_server(
        whole(frames(begin(), *tool_call(0, '{"q": "x"}'), *finish("end_turn"))), whole(text_answer("done"))
    )
    result = loop(runtime("gateway", server.url))
    assert ([one.text for one in result.invocations], result.text) == (["found x"], "done")


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ({"input_tokens": 11, "output_tokens": 1}, {"output_tokens": 7}, (11, 7, 0, 0)),
        ({"input_tokens": 0, "output_tokens": 0}, {"input_tokens": 9, "output_tokens": 7}, (9, 7, 0, 0)),
        ({"input_tokens": 11, "output_tokens": 1}, {"input_tokens": 0, "output_tokens": 7}, (11, 7, 0, 0)),
        (
            {"input_tokens": 1, "output_tokens": 1, "cache_read_input_tokens": 50, "cache_creation_input_tokens": 60},
            {"output_tokens": 2},
            (1, 2, 50, 60),
        ),
    ],
)
def test_usage_of_one_answer(
    first: dict[str, int], last: dict[str, int], expected: tuple[int, ...], runtime: Make, raw_server: Start
) -> None:
    ending = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": last}
    text = block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "x"})
    server = raw_server(whole(frames(begin(usage=first), *text, ending, {"type": "message_stop"})))

    async def ask() -> tuple[int, ...]:
        async with runtime("gateway", server.url) as port:
            usage = (await port.generate_text("hello")).facts.usage
            return usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens

    assert asyncio.run(ask()) == expected
