"""The server of one project: what it offers over the protocol, whatever carries it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from ktx_cli import __version__
from ktx_cli.core import KtxError
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.mcp import prompts
from ktx_cli.mcp.tool import Answer, Call, Options, ServerTool, called, error_data

AT_ONCE: Final = 8
"""Calls that run at the same time; the others wait their turn."""

Context = ServerRequestContext[Any, Any]
Read = TypeVar("Read")

_PROTOCOL: Final[Mapping[str, int]] = {"storage": types.INTERNAL_ERROR, "config": types.INTERNAL_ERROR}
"""Error code -> code of the protocol; the others are about what was asked for."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ProjectServer:
    """Serves one project. `server` is what a transport runs; any number of sessions at once."""

    project: ServedProject
    options: Options
    server: Server[Any] = field(init=False)
    _limit: anyio.CapacityLimiter | None = None
    _tools: Mapping[str, ServerTool] | None = None

    def __post_init__(self) -> None:
        self.server = Server(
            "ktx",
            version=__version__,
            title="ktx",
            instructions=prompts.instructions(self.options),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )

    def resume(self) -> None:
        """Go on with captures that wait from before, where this server may write."""
        if not self.options.read_only:
            self.project.memories.resume()

    async def tools(self) -> Mapping[str, ServerTool]:
        """Return the tools of this server, by name: loaded when they are first wanted, after the first handshake."""
        if self._tools is None:
            self._tools = await anyio.to_thread.run_sync(offered, self.options)
        return self._tools

    async def _list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_definition(each) for each in (await self.tools()).values()])

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        call = Call(self.project, self.options, _progress(context))
        try:
            answer = await called(await self.tools(), params.name, params.arguments or {}, call, self._slots())
        finally:
            call.stopped.set()
        return _result(answer)

    async def _list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        cursor = None if params is None else params.cursor
        return await self._read(lambda: _resources().resource_page(self.project, cursor))

    async def _list_templates(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=list(_resources().TEMPLATES))

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri, privacy = str(params.uri), self.options.privacy
        return await self._read(lambda: _resources().resource_text(self.project, uri, privacy=privacy))

    async def _list_prompts(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=prompts.definitions())

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return await self._read(lambda: prompts.filled(params.name, params.arguments or {}))

    async def _read(self, run: Callable[[], Read]) -> Read:
        """Return what `run` gives in a thread; its error as the protocol has it, with code and hint in `data`."""
        try:
            return await anyio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=self._slots())
        except KtxError as error:
            data = error_data(error)
            raise MCPError(_PROTOCOL.get(error.code, types.INVALID_PARAMS), data["message"], data) from None
        except Exception as problem:  # its words may hold anything; the log has them
            log.exception("a resource or prompt could not be read")
            raise MCPError(types.INTERNAL_ERROR, f"failed unexpectedly: {type(problem).__name__}") from None

    def _slots(self) -> anyio.CapacityLimiter:
        if self._limit is None:
            self._limit = anyio.CapacityLimiter(AT_ONCE)
        return self._limit


def offered(options: Options) -> dict[str, ServerTool]:
    """Return the tools a server has, by name."""
    from ktx_cli.mcp.tools import TOOLS

    return {each.name: each for each in TOOLS if not (options.read_only and each.writes)}


def _resources() -> ModuleType:
    from ktx_cli.mcp import prompts

    return prompts


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

    def report(progress: float, message: str) -> None:
        anyio.from_thread.run(context.session.report_progress, progress, 1.0, message)

    return report
