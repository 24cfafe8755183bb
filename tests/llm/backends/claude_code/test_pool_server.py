"""The MCP server that carries a call's tools."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel

from ktx_cli.llm.backends.claude_code.pool import ToolServer, describe_tools
from ktx_cli.llm.schemas import tool_schema
from ktx_cli.llm.tools import MAX_RESULT, RuntimeTool, ToolError, ToolOutput, check_tools, invoke
from ktx_cli.llm.types import ToolInvocation


class Query(BaseModel):
    q: str
    rows: int = 3


def fails(query: Query) -> str:
    raise ToolError("the shelf is empty", hint="fill it")


TOOLS = check_tools(
    [
        RuntimeTool("look", "Look up.", Query, lambda query: f"found {query.q}", read_only=True),
        RuntimeTool("write", "Write.", Query, lambda query: ToolOutput("# Wrote", {"secret": 1})),
        RuntimeTool("nothing", "Say nothing.", Query, lambda query: ""),
        RuntimeTool("much", "Say much.", Query, lambda query: "x" * (MAX_RESULT + 5)),
        RuntimeTool("fails", "Fail.", Query, fails),
    ]
)


class Params:
    def __init__(self, name: str, arguments: Any, call_id: str | None) -> None:
        self.name, self.arguments = name, arguments
        self.meta = {"claudecode/toolUseId": call_id} if call_id else None


def ask(name: str, arguments: Any, call_id: str | None = "toolu_1") -> tuple[Any, list[ToolInvocation]]:
    done: list[ToolInvocation] = []

    async def run(tool: str, given: Any, identity: str | None) -> ToolInvocation:
        invocation = await invoke(TOOLS, tool, given, identity or "made-up")
        done.append(invocation)
        return invocation

    async def serve() -> Any:
        server = ToolServer(describe_tools(TOOLS))
        server.bind(run)
        return await handlers(server)["tools/call"](None, Params(name, arguments, call_id))

    return asyncio.run(serve()), done


def handlers(server: ToolServer) -> dict[str, Any]:
    """Return the functions the server registers, without a connection."""
    found: dict[str, Any] = {}

    def catch(name: str, *, on_list_tools: Any, on_call_tool: Any) -> None:
        found.update({"name": name, "tools/list": on_list_tools, "tools/call": on_call_tool})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mcp.server.Server", catch)
        server.make()
    return found


CALLS: list[tuple[str, Any]] = [
    ("look", {"q": "a"}),
    ("write", {"q": "a"}),
    ("nothing", {"q": "a"}),
    ("much", {"q": "a"}),
    ("fails", {"q": "a"}),
    ("look", {}),
    ("look", {"q": 3}),
    ("nope", {}),
]


@pytest.mark.requirement("R44", "R45", "R48", "C4")
@pytest.mark.table(("name", "arguments"), CALLS)
def test_the_model_reads_what_every_other_backend_says(name: str, arguments: Any) -> None:
    answer, [done] = ask(name, arguments)
    direct = asyncio.run(invoke(TOOLS, name, arguments, "x"))
    assert [part.text for part in answer.content] == [direct.text]
    assert answer.is_error == direct.is_error
    assert done.structured == direct.structured
    assert "secret" not in answer.model_dump_json()


@pytest.mark.requirement("R45")
def test_claude_codes_id_of_a_call_is_kept() -> None:
    assert ask("look", {"q": "a"}, "toolu_9")[1][0].call_id == "toolu_9"
    assert ask("look", {"q": "a"}, None)[1][0].call_id == "made-up"


@pytest.mark.requirement("R43")
def test_what_is_listed() -> None:
    server = ToolServer(describe_tools(TOOLS))
    [look] = [tool for tool in asyncio.run(handlers(server)["tools/list"](None, None)).tools if tool.name == "look"]
    said = look.model_dump(mode="json", by_alias=True)
    assert said["inputSchema"] == tool_schema(Query)
    assert said["annotations"]["readOnlyHint"] is True
    assert said["_meta"]["anthropic/maxResultSizeChars"] > MAX_RESULT


def test_the_same_tools_are_described_by_the_same_text() -> None:
    backwards = check_tools(reversed(TOOLS.values()))
    assert describe_tools(TOOLS) == describe_tools(backwards)
    assert [one["name"] for one in json.loads(describe_tools(TOOLS))] == sorted(TOOLS)


def test_a_call_before_the_process_was_taken_is_an_error() -> None:
    calling = handlers(ToolServer(describe_tools(TOOLS)))["tools/call"]
    with pytest.raises(RuntimeError, match="before the process was assigned"):
        asyncio.run(calling(None, Params("look", {"q": "a"}, None)))
