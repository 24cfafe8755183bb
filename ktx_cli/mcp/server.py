"""The server of one project: what it offers over the protocol, whatever carries it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import anyio.from_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from ktx_cli import __version__
from ktx_cli.jobs.serving.project import ServedProject
from ktx_cli.mcp.calling import Answer, called
from ktx_cli.mcp.tool import Call, Options, ServerTool
from ktx_cli.mcp.tools import TOOLS

AT_ONCE: Final = 8
"""Calls that run at the same time; the others wait their turn."""

Context = ServerRequestContext[Any, Any]


@dataclass(slots=True)
class ProjectServer:
    """Serves one project. `server` is what a transport runs; any number of sessions at once."""

    project: ServedProject
    options: Options
    tools: Mapping[str, ServerTool] = field(init=False)
    server: Server[Any] = field(init=False)
    _limit: anyio.CapacityLimiter | None = None

    def __post_init__(self) -> None:
        self.tools = offered(self.options)
        self.server = Server(
            "ktx",
            version=__version__,
            title="ktx",
            instructions="",
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    async def _list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_definition(each) for each in self.tools.values()])

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        call = Call(self.project, self.options, _progress(context))
        try:
            answer = await called(self.tools, params.name, params.arguments or {}, call, self._slots())
        finally:
            call.stopped.set()
        return _result(answer)

    def _slots(self) -> anyio.CapacityLimiter:
        if self._limit is None:
            self._limit = anyio.CapacityLimiter(AT_ONCE)
        return self._limit


def offered(options: Options, tools: Iterable[ServerTool] = TOOLS) -> dict[str, ServerTool]:
    """Return the tools a server has, by name."""
    return {each.name: each for each in tools if not (options.read_only and each.writes)}


def _definition(tool: ServerTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema(),
        output_schema=tool.output_schema(),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=not tool.writes,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=tool.open_world,
        ),
    )


def _result(answer: Answer) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=answer.text)],
        structured_content=None if answer.data is None else dict(answer.data),
        is_error=answer.error is not None,
    )


def _progress(context: Context) -> Callable[[float, str], None]:
    """Return what tells a client from a tool's thread how far a call is."""

    def said(progress: float, message: str) -> None:
        anyio.from_thread.run(context.session.report_progress, progress, 1.0, message)

    return said
