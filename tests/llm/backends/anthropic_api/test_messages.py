"""The body of a request: cache marks, structured output, history, and that it is always the same."""

from __future__ import annotations

import json
from dataclasses import replace
from enum import Enum
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, RootModel

from ktx_cli.llm.agent_loop import CallSpec, Conversation, Entry, ModelTurn
from ktx_cli.llm.backends.anthropic_api.messages import ANSWER_TOOL, is_lossless, request_body, strict_schema
from ktx_cli.llm.schemas import object_schema
from ktx_cli.llm.tools import RuntimeTool, check_tools
from ktx_cli.llm.types import Cost, PromptPart, ToolInvocation, Usage
from ktx_cli.project.config.blocks import PromptCaching


class Query(BaseModel):
    q: str


def nothing(arguments: Query) -> str:
    return ""


TOOLS = check_tools(RuntimeTool(name, f"The tool {name}.", Query, nothing) for name in ("zeta", "alpha", "mid"))


SOME_COMMON = check_tools(replace(tool, common=name == "zeta") for name, tool in TOOLS.items())


def call(kind: Any = "loop", backend: str = "anthropic", model: str = "claude-sonnet-5-5", **facts: Any) -> CallSpec:
    if kind == "loop":
        facts.setdefault("tools", TOOLS)
    return CallSpec(kind, backend, "default", model, "the prompt", "the system prompt", **facts)


def turn(*blocks: dict[str, Any]) -> Entry:
    return Entry("turn", turn=ModelTurn("", (), "tools", Usage(), Cost(), "msg_1", None, raw=list(blocks)))


def results(*texts: str) -> Entry:
    made = [ToolInvocation(f"toolu_{n}", "alpha", {}, text, n % 2 == 1) for n, text in enumerate(texts)]
    return Entry("results", results=tuple(made))


def body(spec: CallSpec, *history: Entry, **caching: Any) -> dict[str, Any]:
    conversation = Conversation(spec.system, [Entry("user", spec.prompt), *history])
    return request_body(spec, conversation, PromptCaching.model_validate(caching))


def marks(made: dict[str, Any]) -> dict[str, str]:
    """Every cache mark of a body by where it stands, in the order the API reads them."""
    places = {f"tool {tool['name']}": tool for tool in made.get("tools", ())}
    places |= {f"system {n}": one for n, one in enumerate(made.get("system", ()))}
    for m, message in enumerate(made["messages"]):
        places |= {f"message {m}.{n}": one for n, one in enumerate(message["content"])}
    found = {where: one["cache_control"] for where, one in places.items() if "cache_control" in one}
    assert all(mark["type"] == "ephemeral" and set(mark) == {"type", "ttl"} for mark in found.values())
    return {where: mark["ttl"] for where, mark in found.items()}


LONG = {"toolsTtl": "1h", "systemTtl": "1h", "historyTtl": "1h"}
DEFAULT_MARKS = {"tool zeta": "5m", "system 0": "5m", "message 0.0": "5m"}


@pytest.mark.table(
    ("caching", "backend", "expected"),
    [
        ({}, "anthropic", DEFAULT_MARKS),
        ({}, "gateway", DEFAULT_MARKS),
        ({}, "vertex", DEFAULT_MARKS),
        ({"enabled": False}, "anthropic", {}),
        ({"cacheSystem": False}, "anthropic", {"tool zeta": "5m", "message 0.0": "5m"}),
        ({"cacheTools": False}, "anthropic", {"system 0": "5m", "message 0.0": "5m"}),
        ({"cacheHistory": False}, "anthropic", {"tool zeta": "5m", "system 0": "5m"}),
        (LONG, "anthropic", dict.fromkeys(DEFAULT_MARKS, "1h")),
        ({**LONG, "vertexFallbackTo5m": True}, "vertex", DEFAULT_MARKS),
        ({**LONG, "vertexFallbackTo5m": True}, "anthropic", dict.fromkeys(DEFAULT_MARKS, "1h")),
        # a long-lived mark behind a short-lived one is refused by the API
        ({"systemTtl": "1h", "historyTtl": "1h"}, "anthropic", DEFAULT_MARKS),
        ({"toolsTtl": "1h", "historyTtl": "1h"}, "anthropic", {**DEFAULT_MARKS, "tool zeta": "1h"}),
        ({"systemTtl": "1h", "cacheTools": False}, "anthropic", {"system 0": "1h", "message 0.0": "5m"}),
    ],
)
def test_cache_marks(caching: dict[str, Any], backend: str, expected: dict[str, str]) -> None:
    assert marks(body(call(backend=backend), **caching)) == expected


TTL = st.sampled_from(["5m", "1h"])


@given(systemTtl=TTL, toolsTtl=TTL, historyTtl=TTL, cacheSystem=st.booleans(), cacheTools=st.booleans())
def test_no_long_lived_mark_follows_a_short_lived_one(**caching: Any) -> None:
    lifetimes = list(marks(body(call(), turn({"type": "text", "text": "x"}), results("a", "b"), **caching)).values())
    assert lifetimes == sorted(lifetimes), "`1h` sorts before `5m`"
    assert len(lifetimes) <= 4


def test_the_history_has_marks_on_its_last_two_messages_from_outside() -> None:
    spec = call()
    asked = turn({"type": "tool_use", "id": "toolu_0", "name": "alpha", "input": {}})
    once = body(spec, asked, results("one", "two"))
    assert marks(once) == {**DEFAULT_MARKS, "message 2.1": "5m"}
    twice = body(spec, asked, results("one", "two"), asked, results("three"))
    assert marks(twice) == {"tool zeta": "5m", "system 0": "5m", "message 2.1": "5m", "message 4.0": "5m"}
    assert asked.turn is not None
    assert "cache_control" not in json.dumps(asked.turn.raw), "the history itself stays as it was"


def test_a_thinking_block_is_never_marked() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    assert marks(body(call(), turn(thought))) == DEFAULT_MARKS


PARTS = (PromptPart("the index", cached=True), PromptPart("the task"))


def test_a_cached_part_of_the_prompt_has_a_mark_and_there_are_four_at_most() -> None:
    spec = call(parts=PARTS, tools=SOME_COMMON)
    first = request_body(spec, Conversation("s", [Entry("user", "", parts=PARTS)]), PromptCaching())
    assert [block["text"] for block in first["messages"][0]["content"]] == ["the index", "the task"]
    assert [tool["name"] for tool in first["tools"]] == ["zeta", "alpha", "mid"], "what other loops have comes first"
    assert [*marks(first)] == ["tool zeta", "system 0", "message 0.0", "message 0.1"]
    said = [turn({"type": "text", "text": "x"}), results("one")]
    second = request_body(spec, Conversation("s", [Entry("user", "", parts=PARTS), *said]), PromptCaching())
    assert [*marks(second)] == ["system 0", "message 0.0", "message 0.1", "message 2.0"]
    third = request_body(spec, Conversation("s", [Entry("user", "", parts=PARTS), *said, *said]), PromptCaching())
    assert [*marks(third)] == ["system 0", "message 0.0", "message 2.0", "message 4.0"]


@pytest.mark.table("kind", ["text", "object", "probe"])
def test_only_a_loop_marks_its_history(kind: str) -> None:
    facts = {"schema": {"type": "object", "properties": {"q": {"type": "string"}}}} if kind == "object" else {}
    assert marks(body(call(kind, **facts))) == {"system 0": "5m"}


@pytest.mark.table(
    ("model", "known"),
    [
        ("claude-sonnet-5-5", True),
        ("claude-haiku-4-5-20251001", True),
        ("anthropic/claude-sonnet-5-5", True),
        ("openrouter/anthropic/some-model", True),
        ("us.anthropic.claude-sonnet-5-5-v1:0", True),
        ("Claude-Sonnet-5-5", True),
        ("gpt-5.4", False),
        ("qwen3:8b", False),
        ("deepclaude-r1", False),
        ("my-anthropic-like", False),
    ],
)
def test_only_models_that_know_marks_get_them(model: str, known: bool) -> None:
    assert bool(marks(body(call(backend="gateway", model=model)))) is known


def test_an_empty_system_prompt_is_left_out() -> None:
    spec = call("text")
    made = request_body(spec, Conversation(" \n", [Entry("user", "hi")]), PromptCaching())
    assert "system" not in made


def test_tools_are_sorted_and_results_of_one_round_share_a_message() -> None:
    asked = turn({"type": "tool_use", "id": "toolu_0", "name": "alpha", "input": {}})
    made = body(call(), asked, results("one", "two"))
    assert [tool["name"] for tool in made["tools"]] == ["alpha", "mid", "zeta"]
    last = made["messages"][-1]
    assert last["role"] == "user"
    assert [(one["tool_use_id"], one["content"], one["is_error"]) for one in last["content"]] == [
        ("toolu_0", "one", False),
        ("toolu_1", "two", True),
    ]


@pytest.mark.requirement("R14")
def test_the_same_call_makes_the_same_bytes() -> None:
    one, other = TOOLS, check_tools(reversed(list(TOOLS.values())))
    assert json.dumps(body(call(tools=one), results("x"))) == json.dumps(body(call(tools=other), results("x")))


@pytest.mark.table(("backend", "limit"), [("anthropic", 32_000), ("vertex", 32_000), ("gateway", 8_192)])
def test_every_request_streams_and_names_a_limit(backend: str, limit: int) -> None:
    made = body(call("text", backend=backend))
    assert (made["stream"], made["max_tokens"]) == (True, limit)
    assert not {"temperature", "top_p", "top_k"} & set(made)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Plain(BaseModel):
    name: str
    count: int = Field(ge=1)
    colour: Colour
    maybe: str | None = None
    rows: list[str] = []


class Nested(BaseModel):
    plain: Plain
    more: list[Plain]


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Pet(BaseModel):
    pet: Cat | Dog


class Tagged(RootModel[Cat | Dog]):
    pass


class Names(RootModel[list[str]]):
    pass


class Counts(BaseModel):
    counts: dict[str, int]


class AnyCounts(RootModel[dict[str, int]]):
    pass


class Free(BaseModel):
    value: Any


class FreeRows(BaseModel):
    rows: list[Any]


class BareRows(BaseModel):
    rows: list  # type: ignore[type-arg]


class MaybeFree(BaseModel):
    value: list[Any] | None


class Pair(BaseModel):
    pair: tuple[str, int]


class Node(BaseModel):
    name: str
    children: list[Node]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Empty(BaseModel):
    pass


LOSSLESS = (Plain, Nested, Pet, Tagged, Names)
LOSSY = (Counts, AnyCounts, Free, FreeRows, BareRows, MaybeFree, Pair, Node, Open, Empty)


@pytest.mark.table("output", [*LOSSLESS, *LOSSY])
@pytest.mark.parametrize("backend", ["anthropic", "vertex", "gateway"])
def test_how_an_object_is_asked_for(output: type[BaseModel], backend: str) -> None:
    schema, _ = object_schema(output)
    made = body(call("object", backend=backend, schema=schema))
    if output in LOSSLESS and backend != "gateway":
        assert made["output_config"] == {"format": {"type": "json_schema", "schema": strict_schema(schema)}}
        assert "tools" not in made
    else:
        assert made["tools"] == [{"name": ANSWER_TOOL, "description": "Give the answer.", "input_schema": schema}]
        assert made["tool_choice"] == {"type": "tool", "name": ANSWER_TOOL}
        assert "output_config" not in made
    json.dumps(made)


def test_a_schema_for_the_response_format_is_closed_and_the_original_stays() -> None:
    schema, _ = object_schema(Nested)
    before = json.dumps(schema)
    strict = strict_schema(schema)
    assert json.dumps(schema) == before
    objects = [strict, *strict["$defs"].values()]
    assert all(one.get("additionalProperties", False) is False for one in objects)
    assert strict["properties"]["plain"] == {"$ref": "#/$defs/Plain"}


@pytest.mark.table(
    ("schema", "carried"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}}, True),
        ({"type": "object", "properties": {"a": {"enum": [1, "two", None]}}}, True),
        ({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}, False),
        ({"type": "object", "properties": {"a": {"enum": [["x"]]}}}, False),
        ({"type": "object", "properties": {"a": True}}, False),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, False),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "patternProperties": {"x": {}}}, False),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "allOf": [{"type": "object"}]}, False),
        ({"type": "object", "properties": {"a": {"not": {"type": "string"}}}}, False),
        ({"type": "object"}, False),
    ],
)
def test_which_schemas_a_person_wrote_the_response_format_can_carry(schema: dict[str, Any], carried: bool) -> None:
    assert is_lossless(schema) is carried
    if carried:
        strict_schema(schema)


def test_an_effort_comes_with_adaptive_thinking() -> None:
    assert "thinking" not in body(call())
    made = body(call(effort="high"))
    assert (made["thinking"], made["output_config"]) == ({"type": "adaptive"}, {"effort": "high"})
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    made = body(call("object", effort="low", schema=schema))
    assert set(made["output_config"]) == {"format", "effort"}
    forced = body(call("object", backend="gateway", effort="low", schema=schema))
    assert "thinking" not in forced, "a forced tool call excludes it"
    assert forced["output_config"] == {"effort": "low"}
