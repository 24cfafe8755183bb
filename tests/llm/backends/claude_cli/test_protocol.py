"""Tool calls as text: every edge of the parser, and that any calls survive being written and read."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from ktx_cli.llm.agent_loop import Entry, ModelTurn, ToolCall
from ktx_cli.llm.backends.claude_cli import CLOSE, ID_PREFIX, OPEN, parse, render, schema_rules, system_prompt
from ktx_cli.llm.schemas import tool_schema
from ktx_cli.llm.tools import RuntimeTool, check_tools
from ktx_cli.llm.types import Cost, ToolInvocation, Usage
from ktx_cli.testing.model_script import Call, protocol_text

ONE = '[{"name": "look", "input": {"q": "a"}}]'
LOOK = [("look", {"q": "a"})]


def block(inside: str) -> str:
    return f"{OPEN}\n{inside}\n{CLOSE}"


TABLE: dict[str, tuple[str, list[tuple[str, Any]], str, bool]] = {
    "no block": ("just prose", [], "just prose", False),
    "empty": ("", [], "", False),
    "one call": (block(ONE), LOOK, "", False),
    "on one line": (f"{OPEN}{ONE}{CLOSE}", LOOK, "", False),
    "two calls": (
        block('[{"name": "a", "input": {"x": 1}}, {"name": "b", "input": {"y": [2]}}]'),
        [("a", {"x": 1}), ("b", {"y": [2]})],
        "",
        False,
    ),
    "prose around": (f"Before.\n{block(ONE)}\nAfter.", LOOK, "Before.\n\nAfter.", False),
    "a json fence": (block(f"```json\n{ONE}\n```"), LOOK, "", False),
    "a bare fence": (block(f"```\n{ONE}\n```"), LOOK, "", False),
    "a fence on one line": (block(f"```json {ONE} ```"), LOOK, "", False),
    "a fence of another language": (block(f"```javascript\n{ONE}\n```"), LOOK, "", False),
    "an empty array": (f"Nothing to do.{block('[]')}", [], "Nothing to do.", False),
    "ids of the model": (block('[{"id": "toolu_1", "name": "look", "input": {"q": "a"}}]'), LOOK, "", False),
    "input absent, arguments beside the name": (block('[{"name": "look", "q": "a"}]'), LOOK, "", False),
    "the flat form with what is reserved": (
        block('[{"type": "tool_use", "id": "toolu_9", "name": "look", "q": "a"}]'),
        LOOK,
        "",
        False,
    ),
    "the flat form with arguments that only look reserved": (
        block('[{"type": "table", "id": "42", "name": "look"}]'),
        [("look", {"type": "table", "id": "42"})],
        "",
        False,
    ),
    "input wins over what is beside it": (block('[{"name": "look", "input": {"q": "a"}, "q": "b"}]'), LOOK, "", False),
    "input null": (block('[{"name": "look", "input": null}]'), [("look", {})], "", False),
    "input a string": (block('[{"name": "look", "input": "{\\"q\\": 1}"}]'), [("look", '{"q": 1}')], "", False),
    "input an array": (block('[{"name": "look", "input": [1]}]'), [("look", "[1]")], "", False),
    "no name": (block('[{"input": {}}]'), [], "", True),
    "a name that is none": (block('[{"name": 5, "input": {}}]'), [], "", True),
    "one entry of two is none": (block('[7, {"name": "look", "input": {"q": "a"}}]'), LOOK, "", True),
    "a line break inside a string": (
        block('[{"name": "look", "input": {"q": "select 1\nfrom t"}}]'),
        [("look", {"q": "select 1\nfrom t"})],
        "",
        False,
    ),
    "malformed": (block('[{"name": "look"'), [], block('[{"name": "look"'), True),
    "malformed in a fence": (block("```json\n[oops]\n```"), [], block("```json\n[oops]\n```"), True),
    "an object": (block('{"name": "look"}'), [], block('{"name": "look"}'), True),
    "a string": (block('"look"'), [], block('"look"'), True),
    "nested without end": (block("[" * 100_000), [], block("[" * 100_000), True),
    "unterminated": (f"{OPEN}\n{ONE}", [], f"{OPEN}\n{ONE}", False),
    "only a closing tag": (f"{ONE}{CLOSE}", [], f"{ONE}{CLOSE}", False),
    "tags the wrong way round": (f"{CLOSE}{ONE}{OPEN}", [], f"{CLOSE}{ONE}{OPEN}", False),
    "prose that mentions the opening tag": (
        f"I will write a {OPEN} block.\n{block(ONE)}",
        LOOK,
        f"I will write a {OPEN} block.",
        False,
    ),
    "prose that mentions both tags": (
        f"The tags are {OPEN} and {CLOSE}.\n{block(ONE)}",
        LOOK,
        f"The tags are {OPEN} and {CLOSE}.",
        False,
    ),
    "prose that mentions the closing tag behind": (
        f"{block(ONE)}\nI closed it with {CLOSE}.",
        LOOK,
        f"I closed it with {CLOSE}.",
        False,
    ),
    "prose alone that mentions both": (f"Write {OPEN}...{CLOSE}.", [], f"Write {OPEN}...{CLOSE}.", True),
    "tags inside a string": (
        block(json.dumps([{"name": "look", "input": {"q": f"{OPEN}[1]{CLOSE} and {CLOSE}{OPEN}"}}])),
        [("look", {"q": f"{OPEN}[1]{CLOSE} and {CLOSE}{OPEN}"})],
        "",
        False,
    ),
    "a second block is not run": (f"{block(ONE)}\n{block(ONE)}", LOOK, block(ONE), True),
    "a broken block before a good one": (f"{block('[oops]')}{block(ONE)}", LOOK, block("[oops]"), False),
}


@pytest.mark.requirement("G5", "G6", "G7", "G8")
@pytest.mark.table("case", TABLE)
def test_how_an_answer_is_read(case: str) -> None:
    answer, expected, text, lost = TABLE[case]
    found = parse(answer)
    assert [(call.name, call.arguments) for call in found.calls] == expected
    assert (found.text, found.lost) == (text, lost)


@pytest.mark.requirement("G6")
def test_ids_are_always_minted_and_never_twice() -> None:
    entry = '{"id": "toolu_same", "name": "look", "input": {}}'
    found = [call.call_id for _ in range(3) for call in parse(block(f"[{entry}, {entry}]")).calls]
    assert len(set(found)) == 6
    assert all(re.fullmatch(rf"{ID_PREFIX}[0-9a-f]{{32}}", one) for one in found)


TAGGED = st.lists(
    st.sampled_from([OPEN, CLOSE, "[", "]", "{}", '"', "\\", "```json\n", "```", "\n", "prose ", "ä🌍", "/context"])
    | st.characters(codec="utf-8"),
    max_size=6,
).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TAGGED,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TAGGED, inner, max_size=2),
    max_leaves=4,
)
NAMES = st.sampled_from(["look", "run-sql", "A_1", "x" * 54])
CALLS = st.lists(st.tuples(NAMES, st.dictionaries(TAGGED, VALUES, max_size=3)), min_size=1, max_size=3)
QUICK = settings()
PROSE = st.lists(
    st.sampled_from(["I think", "the tag ", OPEN, CLOSE, "\n\n", "use ", "`", "{", "}", "(", "/context", "ä🌍", "."]),
    max_size=6,
).map("".join)


@pytest.mark.requirement("G5")
@QUICK
@given(wanted=CALLS, before=PROSE, after=PROSE, ascii_only=st.booleans(), indent=st.none() | st.just(2))
def test_any_calls_survive_with_prose_that_speaks_of_the_tags(
    wanted: list[tuple[str, dict[str, Any]]], before: str, after: str, ascii_only: bool, indent: int | None
) -> None:
    array = [{"name": name, "input": arguments} for name, arguments in wanted]
    text = json.dumps(array, ensure_ascii=ascii_only, indent=indent)
    found = parse(f"{before}\n{OPEN}\n{text}\n{CLOSE}\n{after}")
    assert [(call.name, call.arguments) for call in found.calls] == wanted
    assert found.text == "\n\n".join(part for part in (before.strip(), after.strip()) if part)


@QUICK
@given(wanted=CALLS)
def test_what_the_scripted_model_writes_is_what_is_read(wanted: list[tuple[str, dict[str, Any]]]) -> None:
    found = parse(protocol_text(Call(name, arguments) for name, arguments in wanted))
    assert [(call.name, call.arguments) for call in found.calls] == wanted


@QUICK
@given(st.text() | TAGGED)
def test_no_answer_breaks_the_parser(answer: str) -> None:
    found = parse(answer)
    assert isinstance(found.text, str)
    if not found.calls and OPEN not in answer:
        assert found.text == answer


@pytest.mark.timeout(60)
def test_a_flood_of_tags_is_read_to_its_end() -> None:
    assert parse(f"{OPEN}[" * 5_000 + f"]{CLOSE}" * 5_000).lost
    assert parse(f"{OPEN}[oops" * 5_000 + f"]{CLOSE}" * 5_000).lost


def turn(text: str, *called: ToolCall) -> Entry:
    return Entry("turn", turn=ModelTurn(text, called, "tools", Usage(), Cost(), "u", None))


def test_a_conversation_as_text() -> None:
    history = [
        Entry("user", "What is a?"),
        turn("Let me look.", ToolCall("1", "look", {"q": "ä"}), ToolCall("2", "look", '{"q": half')),
        Entry(
            "results",
            results=(
                ToolInvocation("1", "look", {}, "found ä", False, structured={"secret": 1}),
                ToolInvocation("2", "look", {}, "no JSON", True),
            ),
        ),
        Entry("user", "Go on."),
    ]
    assert render(history) == (
        "User: What is a?\n\n"
        'Assistant: Let me look.\n[tool_use look({"q": "ä"})]\n[tool_use look({"q": half)]\n\n'
        "User: The results of your calls, in order:\n"
        "[tool_result look]\nfound ä\n[/tool_result]\n"
        "[tool_result look failed]\nno JSON\n[/tool_result]\n\n"
        "User: Go on."
    )


@pytest.mark.table("prompt", ["/context", "/compact now", "@/etc/passwd", "!ls", "#memory", " \n/help"])
def test_no_prompt_begins_like_a_command(prompt: str) -> None:
    assert render([Entry("user", prompt)]) == f"User: {prompt}"


class Query(BaseModel):
    q: str


TOOLS = check_tools(
    [RuntimeTool("zeta", "Last.", Query, lambda a: ""), RuntimeTool("alpha", "Erste – ä.", Query, lambda a: "")]
)


def test_the_rules_come_with_the_tools_alone() -> None:
    assert system_prompt("Be exact.", {}) == "Be exact."
    made = system_prompt("Be exact.", TOOLS)
    assert made.startswith("Be exact.\n\nYou have tools.")
    described = json.loads(made[made.index('[{"description"') :])
    assert [one["name"] for one in described] == ["alpha", "zeta"]
    assert described[0] == {"name": "alpha", "description": "Erste – ä.", "input_schema": tool_schema(Query)}
    assert system_prompt("", TOOLS).startswith("You have tools.")
    assert system_prompt("", TOOLS) == system_prompt("", dict(TOOLS)), "the same bytes every time"


def test_a_schema_that_is_too_long_is_told() -> None:
    assert schema_rules('{"type": "object"}').endswith('{"type": "object"}')
