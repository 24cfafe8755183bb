"""Tools of a loop: descriptors, outputs, calls."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import functools
import threading
from typing import Any

import pytest
from pydantic import BaseModel, RootModel

from ktx_cli.llm.tools import (
    EMPTY_RESULT,
    MAX_DESCRIPTION,
    MAX_RESULT,
    RuntimeTool,
    ToolError,
    ToolOutput,
    check_tools,
    invoke,
    normalise_output,
    parse_arguments,
    shown_to_model,
)
from ktx_cli.llm.types import ToolInvocation


class Query(BaseModel):
    q: str
    limit: int = 3


class Names(RootModel[list[str]]):
    pass


class Node(BaseModel):
    name: str
    children: list[Node] = []


class Opaque(BaseModel):
    model_config = {"arbitrary_types_allowed": True}
    lock: threading.Event


def answer(query: Query) -> str:
    return f"{query.q} x{query.limit}"


def tool(**fields: Any) -> RuntimeTool:
    given = {"name": "look", "description": "Look up.", "input_model": Query, "handler": answer, **fields}
    return RuntimeTool(**given)


@pytest.mark.requirement("R43", "R47")
@pytest.mark.table(
    ("fields", "words"),
    [
        ({"name": ""}, "1 to 54"),
        ({"name": "a.b"}, "1 to 54"),
        ({"name": "a,b"}, "1 to 54"),
        ({"name": "a b"}, "1 to 54"),
        ({"name": "look\n"}, "1 to 54"),
        ({"name": "ü"}, "1 to 54"),
        ({"name": "x" * 55}, "1 to 54"),
        ({"description": "  "}, "description"),
        ({"description": "x" * MAX_DESCRIPTION}, "description"),
        ({"input_model": dict}, "pydantic model"),
        ({"input_model": Query(q="x")}, "pydantic model"),
        ({"input_model": Names}, "must describe an object"),
        ({"input_model": Opaque}, "has no JSON Schema"),
        ({"handler": None}, "not callable"),
    ],
)
def test_bad_descriptors_are_refused_when_built(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        tool(**fields)
    assert repr(fields.get("name", "look")) in str(caught.value)


@pytest.mark.requirement("R22", "R43")
def test_the_widest_descriptor_fits() -> None:
    widest = tool(name="x" * 54, description="x" * (MAX_DESCRIPTION - 1))
    assert len(f"mcp__ktx__{widest.name}") == 64
    assert widest.input_schema()["required"] == ["q"]


def test_an_input_that_refers_to_itself_is_an_object() -> None:
    schema = tool(input_model=Node).input_schema()
    assert (schema["type"], schema["required"]) == ("object", ["name"])
    assert "Node" in schema["$defs"]


def test_tools_are_sorted_and_unique() -> None:
    assert list(check_tools([tool(name="b"), tool(name="a")])) == ["a", "b"]
    with pytest.raises(ValueError, match="two tools are named 'a'"):
        check_tools([tool(name="a"), tool(name="a")])


class Page(BaseModel):
    name: str
    content: str


@dataclasses.dataclass
class Row:
    day: datetime.date
    tags: frozenset[str]


@pytest.mark.requirement("R46")
@pytest.mark.table(
    ("value", "markdown", "structured"),
    [
        ("text", "text", None),
        (None, "", None),
        (ToolOutput("md", 7), "md", 7),
        ({"markdown": "md"}, "md", None),
        ({"markdown": "md", "structured": [1]}, "md", [1]),
        ({"markdown": "md", "other": 1}, '```json\n{\n  "markdown": "md",\n  "other": 1\n}\n```', ...),
        ({"markdown": 5}, '```json\n{\n  "markdown": 5\n}\n```', ...),
        ({"name": "Orders", "content": "All of them."}, "# Orders\n\nAll of them.", ...),
        (Page(name="Orders", content="All."), "# Orders\n\nAll.", ...),
        ({"b": 1, "a": "ü"}, '```json\n{\n  "a": "ü",\n  "b": 1\n}\n```', ...),
        ([1, 2], "```json\n[\n  1,\n  2\n]\n```", ...),
        (7, "```json\n7\n```", ...),
        ({"s": {"b", "c", "a"}}, '```json\n{\n  "s": [\n    "a",\n    "b",\n    "c"\n  ]\n}\n```', ...),
        (
            Row(datetime.date(2026, 1, 2), frozenset({"x"})),
            '```json\n{\n  "day": "2026-01-02",\n  "tags": [\n    "x"\n  ]\n}\n```',
            ...,
        ),
    ],
)
def test_outputs_are_normalised(value: Any, markdown: str, structured: Any) -> None:
    output = normalise_output(value)
    assert output.markdown == markdown
    assert output.structured == (value if structured is ... else structured)


def run(wanted: RuntimeTool, arguments: Any = None, name: str = "look") -> ToolInvocation:
    given = {"q": "a"} if arguments is None else arguments
    return asyncio.run(invoke({wanted.name: wanted}, name, given, "id-1"))


@pytest.mark.requirement("R46")
def test_what_has_no_plain_form_is_a_failure_and_no_address_of_memory() -> None:
    done = run(tool(handler=lambda query: {"x": object()}))
    assert (done.is_error, "0x" in done.text) == (True, False)


@pytest.mark.requirement("R44")
def test_the_model_sees_text_that_is_never_empty_nor_endless() -> None:
    assert [shown_to_model(text) for text in ("", " \n", "x")] == [EMPTY_RESULT, EMPTY_RESULT, "x"]
    assert shown_to_model("x" * MAX_RESULT) == "x" * MAX_RESULT
    cut = shown_to_model("x" * (MAX_RESULT + 1))
    assert cut.startswith("x" * MAX_RESULT + "\n")
    assert f"{MAX_RESULT + 1:,} characters in total" in cut


@pytest.mark.requirement("R44", "R45")
def test_structured_stays_in_the_process() -> None:
    done = run(tool(handler=lambda query: ToolOutput("shown", {"secret": 1})))
    assert (done.text, done.structured, done.is_error) == ("shown", {"secret": 1}, False)
    assert (done.call_id, done.name, done.arguments) == ("id-1", "look", {"q": "a"})


class AsyncCallable:
    async def __call__(self, query: Query) -> str:
        return answer(query)


async def answer_async(query: Query) -> str:
    return answer(query)


@pytest.mark.table(
    "handler",
    [
        answer,
        answer_async,
        AsyncCallable(),
        functools.partial(answer_async),
        functools.partial(answer),
        lambda query: answer_async(query),
    ],
)
def test_handlers_of_every_kind(handler: Any) -> None:
    assert run(tool(handler=handler)).text == "a x3"


def test_a_plain_handler_leaves_the_loop_free() -> None:
    seen: list[str] = []
    run(tool(handler=lambda query: seen.append(threading.current_thread().name)))
    assert seen != [threading.main_thread().name]


def refuse(query: Query) -> str:
    raise ToolError("the shelf is empty", hint="ktx ingest")


def burst(query: Query) -> str:
    raise RuntimeError("password=hunter2")


class Odd(BaseException):
    """No `Exception`."""


def raises(error: BaseException) -> Any:
    def handler(query: Query) -> str:
        raise error

    return handler


def raises_later(error: BaseException) -> Any:
    async def handler(query: Query) -> str:
        raise error

    return handler


@pytest.mark.requirement("R48", "R51")
@pytest.mark.table(
    ("handler", "name", "arguments", "text"),
    [
        (refuse, "look", {"q": "a"}, "Tool `look` failed: the shelf is empty (ktx ingest)"),
        (burst, "look", {"q": "a"}, "Tool `look` failed: RuntimeError"),
        (raises(StopIteration("hunter2")), "look", {"q": "a"}, "Tool `look` failed: StopIteration"),
        (raises(Odd("hunter2")), "look", {"q": "a"}, "Tool `look` failed: Odd"),
        (raises(GeneratorExit()), "look", {"q": "a"}, "Tool `look` failed: GeneratorExit"),
        (raises(asyncio.CancelledError()), "look", {"q": "a"}, "Tool `look` failed: CancelledError"),
        (raises_later(Odd("hunter2")), "look", {"q": "a"}, "Tool `look` failed: Odd"),
        (raises_later(asyncio.CancelledError()), "look", {"q": "a"}, "Tool `look` failed: CancelledError"),
        (lambda query: ToolOutput(None), "look", {"q": "a"}, "Tool `look` failed: its result has no text"),  # type: ignore[arg-type]
        (lambda query: ToolOutput(b"abc"), "look", {"q": "a"}, "Tool `look` failed: its result has no text"),  # type: ignore[arg-type]
        (answer, "lock", {"q": "a"}, "There is no tool `lock`. Did you mean `look`? Tools: `look`."),
        (answer, "zzzzzz", {"q": "a"}, "There is no tool `zzzzzz`. Tools: `look`."),
        (answer, "look", {}, "Invalid arguments for `look`:\n- q: Field required"),
        (answer, "look", [], "Invalid arguments for `look`:\n- (the whole): Input should be a valid dictionary"),
        (
            answer,
            "look",
            '{"q": ',
            "Invalid arguments for `look`:\n- the arguments are not valid JSON: Expecting value at",
        ),
        (answer, "look", {"q": "hunter2", "limit": "hunter2"}, "Invalid arguments for `look`:\n- limit: Input should"),
    ],
)
def test_failures_are_texts_for_the_model(handler: Any, name: str, arguments: Any, text: str) -> None:
    done = run(tool(handler=handler), arguments, name)
    assert done.is_error
    assert done.text.startswith(text)
    assert "hunter2" not in done.text


def test_arguments_may_come_as_text() -> None:
    assert run(tool(), '{"q": "b"}').text == "b x3"
    assert parse_arguments("") == {}
    assert run(tool(), "").text == "Invalid arguments for `look`:\n- q: Field required"


def test_a_cancelled_call_is_no_failed_tool() -> None:
    async def wait(query: Query) -> str:
        await asyncio.Event().wait()
        return ""

    async def main() -> None:
        task = asyncio.create_task(invoke({"look": tool(handler=wait)}, "look", {"q": "a"}, "id"))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
