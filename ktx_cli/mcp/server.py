"""The server of one project: what it offers over the protocol, on any transport."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from ktx_cli import __version__
from ktx_cli.core import KtxError, isoformat, monotonic, now, one_line
from ktx_cli.jobs.clients.targets import Profile
from ktx_cli.jobs.serve.daemon import RotatingLines
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.mcp import prompts
from ktx_cli.mcp.tool import Call, Options, ServerTool, ToolAnswer, call_tool, error_data
from ktx_cli.privacy import secrets
from ktx_cli.project import MASK, Layout, prepare_private_folder
from ktx_cli.runs import masked

AT_ONCE: Final = 8
"""Maximum number of concurrent calls; others wait for their turn."""

Context = ServerRequestContext[Any, Any]
Read = TypeVar("Read")

_PROTOCOL: Final[Mapping[str, int]] = {"storage": types.INTERNAL_ERROR, "config": types.INTERNAL_ERROR}
"""Error code -> protocol code; all other codes are about the request itself."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ProjectServer:
    """Serves one project. `server` is what a transport runs, with any number of concurrent sessions."""

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
        """Resume captures that are still waiting, if this server may write."""
        if not self.options.read_only:
            self.project.memories.resume()

    async def tools(self) -> Mapping[str, ServerTool]:
        """Return the tools of this server by name, loaded on first use, after the first handshake."""
        if self._tools is None:
            self._tools = await anyio.to_thread.run_sync(offered, self.options)
        return self._tools

    async def _list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        whole = self.options.profile is Profile.ADMIN
        found = await anyio.to_thread.run_sync(listed, self.options, await self.tools(), self.project)
        return types.ListToolsResult(tools=[_definition(each, answers=whole) for each in found.values()])

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        call = Call(self.project, self.options, _progress(context))
        try:
            answer = await call_tool(await self.tools(), params.name, params.arguments or {}, call, self._slots())
        finally:
            call.stopped.set()
        return _result(answer)

    async def _list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        cursor = None if params is None else params.cursor
        return await self._read(lambda: prompts.resource_page(self.project, cursor))

    async def _list_templates(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=list(prompts.TEMPLATES))

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri, privacy = str(params.uri), self.options.privacy
        return await self._read(lambda: prompts.resource_text(self.project, uri, privacy=privacy))

    async def _list_prompts(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=list(prompts.PROMPTS))

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return await self._read(lambda: prompts.filled(params.name, params.arguments or {}))

    async def _read(self, run: Callable[[], Read]) -> Read:
        """Return the result of `run` in a thread; raises its error in the protocol's form, with code and hint in
        `data`.
        """
        try:
            return await anyio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=self._slots())
        except KtxError as error:
            data = error_data(error)
            raise MCPError(_PROTOCOL.get(error.code, types.INVALID_PARAMS), data["message"], data) from None
        except Exception as problem:  # its message may contain anything; the log has it
            log.exception("could not read a resource or prompt")
            raise MCPError(types.INTERNAL_ERROR, f"failed unexpectedly: {type(problem).__name__}") from None

    def _slots(self) -> anyio.CapacityLimiter:
        if self._limit is None:
            self._limit = anyio.CapacityLimiter(AT_ONCE)
        return self._limit


def offered(options: Options) -> dict[str, ServerTool]:
    """Return the tools of a server by name, whether or not it lists them."""
    from ktx_cli.mcp.tools import TOOLS

    return {each.name: each for each in TOOLS if not (options.read_only and each.writes)}


def listed(
    options: Options, tools: Mapping[str, ServerTool], project: ServedProject | None = None
) -> dict[str, ServerTool]:
    """Return the tools that the profile of a server lists, in its order, without those that no connection needs."""
    from ktx_cli.mcp.tools import PROFILES

    known = (tools[name] for name in PROFILES[options.profile] if name in tools)
    return {
        each.name: each for each in known if not each.pipelines or (project is not None and project.runs_pipelines())
    }


def _definition(tool: ServerTool, *, answers: bool) -> types.Tool:
    """Return a tool as a client lists it; `answers` adds the schema of its answer, which no model needs."""
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema(),
        output_schema=tool.output_schema() if answers else None,
        annotations=types.ToolAnnotations(
            read_only_hint=not tool.writes,
            destructive_hint=False if tool.writes else None,
            idempotent_hint=tool.idempotent if tool.writes else None,
            open_world_hint=tool.open_world,
        ),
    )


def _result(answer: ToolAnswer) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=answer.text)],
        structured_content=None if answer.data is None else dict(answer.data),
        is_error=answer.error is not None,
    )


def _progress(context: Context) -> Callable[[float, str], None]:
    """Return the function with which a tool's thread reports progress to the client."""

    def report(progress: float, message: str) -> None:
        anyio.from_thread.run(context.session.report_progress, progress, 1.0, message)

    return report


WAITING: Final = 10_000
"""Maximum number of buffered lines; further lines are counted, not stored."""

LONGEST_TEXT: Final = 200
LONGEST_SQL: Final = 2_000
"""Maximum number of characters of a stored statement: both ends of a statement contain names."""
MOST_ITEMS: Final = 20
DEEPEST: Final = 6

_NAMED: Final = {"tools/call": "name", "resources/read": "uri", "prompts/get": "name"}
_SUBJECTS: Final = {"tools/call": "tool", "resources/read": "resource", "prompts/get": "prompt"}


@dataclass(slots=True)
class AuditLog:
    """The audit log of one project. `privacy`: only the hash of arguments is stored."""

    layout: Layout
    transport: str
    privacy: bool = False
    session: str = field(default_factory=lambda: os.urandom(6).hex())
    """Distinguishes the sessions of servers that each have a single session without an id."""
    problem: str | None = None
    """The reason why the last line could not be written; None if it could."""
    _queue: queue.Queue[dict[str, Any] | None] = field(default_factory=lambda: queue.Queue(WAITING))
    _lost: int = 0
    _thread: threading.Thread | None = None

    def note(self, entry: Mapping[str, Any]) -> None:
        """Pass a line to the writer; returns at once, whatever happens to it."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="audit", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait({"at": isoformat(now()), "transport": self.transport, **entry})
        except queue.Full:
            self._lost += 1
            self.problem = f"{self._lost} lines were lost: they arrived faster than they could be written"

    def close(self, timeout: float = 2.0) -> None:
        """Write buffered lines within the allowed time."""
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                self._queue.put(None, timeout=timeout)
            except queue.Full:
                return
            thread.join(timeout)

    def _write_all(self) -> None:
        lines = RotatingLines(self.layout.mcp_audit)
        while (entry := self._queue.get()) is not None:
            try:
                if not self.layout.private.exists():
                    prepare_private_folder(self.layout)
                lines.write(self._line(entry))
                self.problem = None if not self._lost else self.problem
            except Exception as error:  # noqa: BLE001 - a log that fails is told, and stops no answer
                self.problem = (os.strerror(error.errno) if isinstance(error, OSError) and error.errno else None) or (
                    type(error).__name__
                )
        lines.close()

    def _line(self, entry: dict[str, Any]) -> bytes:
        result = entry.pop("result", None)
        if result is not None:
            entry["outcome"], entry["bytes"] = _outcome(result), _size(result)
            hits = _hits(result) if entry.get("tool") in _SEARCHES else None
            entry |= {} if hits is None else {"hits": hits}
        entry["session"] = entry.get("session") or self.session
        if "arguments" in entry:
            arguments = entry.pop("arguments")
            text = json.dumps(arguments, sort_keys=True, default=str)
            entry["arguments_sha256"] = hashlib.sha256(text.encode()).hexdigest()
            if not self.privacy:
                entry["arguments"] = _shortened(arguments)
        return json.dumps(masked(entry), default=str).encode("ascii") + b"\n"

    async def middleware(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Log every tool call, every access to a resource or a prompt, and every session that begins."""
        if ctx.request_id is None or (ctx.method not in _NAMED and ctx.method != "initialize"):
            return await call_next(ctx)
        started = monotonic()
        outcome: dict[str, Any] = {"outcome": "cancelled"}
        try:
            result = await call_next(ctx)
            outcome = {"result": result}
            return result
        except MCPError as error:
            outcome = {"outcome": f"protocol {error.error.code}"}
            raise
        except Exception as error:
            outcome = {"outcome": type(error).__name__}
            raise
        finally:
            self.note({**_asked(ctx), **outcome, "ms": round((monotonic() - started) * 1000, 1)})


def _asked(context: ServerRequestContext[Any, Any]) -> dict[str, Any]:
    params = context.params or {}
    entry: dict[str, Any] = {"method": context.method, "session": _session(context), "client": _client(context)}
    if context.method in _NAMED:
        entry[_SUBJECTS[context.method]] = one_line(str(params.get(_NAMED[context.method], "")), LONGEST_TEXT)
        entry["arguments"] = params.get("arguments") or {}
    return entry


def _session(context: ServerRequestContext[Any, Any]) -> str | None:
    """Return a value that distinguishes sessions, but not the id itself, which is as good as a key to the session."""
    headers = getattr(context.request, "headers", None)
    given = None if headers is None else headers.get("mcp-session-id")
    return None if given is None else hashlib.sha256(given.encode()).hexdigest()[:12]


def _client(context: ServerRequestContext[Any, Any]) -> dict[str, str] | None:
    params = context.session.client_params
    if params is not None:
        given: Any = {"name": params.client_info.name, "version": params.client_info.version}
    else:
        given = (context.params or {}).get("clientInfo")
    if not isinstance(given, Mapping):
        return None
    return {name: one_line(str(given.get(name, "")), LONGEST_TEXT) for name in ("name", "version")}


def _outcome(result: Any) -> str:
    """Return `ok`, or the code of the error in an answer."""
    data = result if isinstance(result, Mapping) else result.model_dump(mode="json", by_alias=True)
    if not data.get("isError"):
        return "ok"
    try:
        return str(json.loads(data["content"][0]["text"])["error"]["code"])
    except (LookupError, TypeError, ValueError):
        return "error"


_SEARCHES: Final = frozenset(("discover_data", "wiki_search"))


def _hits(result: Any) -> int | None:
    """Return the number of results of a search, or None if its answer does not say."""
    data = result if isinstance(result, Mapping) else result.model_dump(mode="json", by_alias=True)
    found = (data.get("structuredContent") or {}).get("total")
    return found if isinstance(found, int) else None


def _size(result: Any) -> int:
    data = result if isinstance(result, Mapping) else result.model_dump(mode="json", by_alias=True)
    parts = [*(data.get("content") or ()), *(data.get("contents") or ())]
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts if isinstance(text, str))


def _shortened(value: Any, name: str = "value", depth: int = 0) -> Any:
    """Return arguments with long text and lists truncated, and likely secrets masked."""
    if isinstance(value, str):
        if any(secrets(f"{name}: {value[:10_000]}")):
            return MASK
        most = LONGEST_SQL if name == "sql" else LONGEST_TEXT
        return value if len(value) <= most else value[:most] + "…"
    if depth >= DEEPEST and isinstance(value, Mapping | list):
        return "…"
    if isinstance(value, Mapping):
        kept = list(value.items())[:MOST_ITEMS]
        return {str(key)[:LONGEST_TEXT]: _shortened(each, str(key)[:LONGEST_TEXT], depth + 1) for key, each in kept}
    if isinstance(value, list):
        return [_shortened(each, name, depth + 1) for each in value[:MOST_ITEMS]]
    return value
