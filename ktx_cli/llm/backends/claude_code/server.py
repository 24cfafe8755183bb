"""The MCP server inside ktx that carries a process's tools; the handlers are bound when a call takes the process."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ktx_cli.llm.backends.claude_code.options import SERVER
from ktx_cli.llm.tools import MAX_RESULT, RuntimeTool
from ktx_cli.llm.types import ToolInvocation

RunTool = Callable[[str, Mapping[str, Any], str | None], Awaitable[ToolInvocation]]
"""Carries out a call: name, arguments, and Claude Code's id of the call where it says it."""


def describe_tools(tools: Mapping[str, RuntimeTool]) -> str:
    """Return the definitions of tools as one JSON text, the same for the same tools."""
    described = [
        {
            "name": tool.name,
            "description": tool.description,
            "schema": tool.input_schema(),
            "read_only": tool.read_only,
        }
        for tool in sorted(tools.values(), key=lambda one: one.name)
    ]
    return json.dumps(described, sort_keys=True)


class ToolServer:
    """An MCP server for the tools of one process. Arguments are checked by the tool, not here: the model then reads
    the same words on every backend."""

    def __init__(self, tools: str) -> None:
        self._run: RunTool | None = None
        self._definitions = json.loads(tools)

    def bind(self, run: RunTool) -> None:
        """Say who carries out the calls."""
        self._run = run

    def make(self) -> Any:
        """Return the `mcp.server.Server`."""
        from mcp.server import Server
        from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations

        tools = [
            Tool.model_validate(
                {
                    "name": one["name"],
                    "description": one["description"],
                    "inputSchema": one["schema"],
                    "annotations": ToolAnnotations.model_validate({"readOnlyHint": one["read_only"]}),
                    "_meta": {"anthropic/maxResultSizeChars": MAX_RESULT + 1_000},
                }
            )
            for one in self._definitions
        ]

        async def list_tools(context: Any, params: Any) -> ListToolsResult:
            return ListToolsResult(tools=tools)

        async def call_tool(context: Any, params: Any) -> CallToolResult:
            if self._run is None:
                raise RuntimeError("a tool was called before the process was taken for a call")
            meta = getattr(params, "meta", None) or {}
            call_id = meta.get("claudecode/toolUseId") if isinstance(meta, Mapping) else None
            done = await self._run(params.name, params.arguments or {}, call_id)
            return CallToolResult.model_validate(
                {"content": [TextContent(type="text", text=done.text)], "isError": done.is_error}
            )

        return Server(SERVER, on_list_tools=list_tools, on_call_tool=call_tool)
