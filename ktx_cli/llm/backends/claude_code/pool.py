"""A pool of connected Claude Code processes: each serves one call, while the next of its kind connects.

A process keeps the conversation of its call, so none is used twice, except with `reuse`: it is then cleared after its
call. The number of processes, busy and waiting, never exceeds `size`.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import logging
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from ktx_cli.llm.backends.claude.binary import Host, make_private_folder, remove_private_folder, write_system_file
from ktx_cli.llm.backends.claude.launcher import REPORT_PREFIX
from ktx_cli.llm.backends.claude_code.isolation import (
    SERVER,
    ProcessSpec,
    build_options,
    guard_hooks,
    needs_file,
    permission_callback,
)
from ktx_cli.llm.tools import MAX_RESULT, RuntimeTool
from ktx_cli.llm.types import ToolInvocation

log = logging.getLogger(__name__)

STDERR_LINES: Final = 50
CLOSE_SECONDS: Final = 10.0
SETTINGS_SECONDS: Final = 10.0
CLEAR_SECONDS: Final = 10.0
CLEAR: Final = "/clear"
MOST_CALLS: Final = 50
"""Maximum number of calls that one reused process serves."""

KINDS_REMEMBERED: Final = 64
"""Number of process kinds for which the pool remembers whether they were used before."""

Connect = Callable[[Any], Any]
"""Creates a client from options: the only place that uses the SDK."""


def sdk_client(options: Any) -> Any:
    """Return an SDK client with the given options."""
    from claude_agent_sdk import CanUseToolShadowedWarning, ClaudeSDKClient

    quieten()
    warnings.filterwarnings("ignore", category=CanUseToolShadowedWarning)
    return ClaudeSDKClient(options)


class ProcessStartError(Exception):
    """A process did not start; `stderr` is its output."""

    def __init__(self, cause: Exception, stderr: list[str]) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.stderr = stderr


class Process:
    """A connected process, before or during its one call. `again`: its kind had been used before."""

    def __init__(self, spec: ProcessSpec, host: Host, connect: Connect) -> None:
        self.spec = spec
        self.again = False
        self.calls = 0
        self.tools = ToolServer(spec.tools)
        self.stderr: collections.deque[str] = collections.deque(maxlen=STDERR_LINES)
        self.denied: list[str] = []
        self.dropped: list[str] = []
        self._system_file = _system_file(spec, host)
        self._folder = make_private_folder()
        options = build_options(
            spec,
            host,
            server=self.tools.make() if spec.tool_names else None,
            hooks=guard_hooks(spec.allowed, self._denied),
            can_use_tool=permission_callback(spec.allowed, self._denied),
            stderr=self._stderr,
            folder=self._folder,
            system_file=self._system_file,
        )
        self.client = connect(options)

    async def connect(self) -> None:
        """Start the process and wait until it is ready."""
        try:
            await self.client.connect()
        except Exception as error:
            self._forget_files()
            raise ProcessStartError(error, list(self.stderr)) from error
        except BaseException:
            self._forget_files()
            raise

    async def close(self) -> None:
        """End the process and remove its files."""
        try:
            await asyncio.wait_for(self.client.disconnect(), CLOSE_SECONDS)
        finally:
            self._forget_files()

    async def ask(self, prompt: str) -> None:
        """Send a prompt literally: nothing in it is read as a command or as the name of a file to read."""
        self.calls += 1
        await self.client.query(_as_written(prompt) if self.spec.reuse else prompt)

    async def clear(self) -> bool:
        """Clear the conversation; return whether the process confirmed it without a foreign hook being involved."""
        await self.client.query(CLEAR)
        kinds = {type(message).__name__ async for message in self.client.receive_response()}
        self.stderr.clear()
        self.denied.clear()
        return "ConversationResetMessage" in kinds and "HookEventMessage" not in kinds

    async def account(self) -> dict[str, Any]:
        """Return what the process reports about the account, without calling a model."""
        info = await self.client.get_server_info()
        return dict((info or {}).get("account") or {})

    async def settings(self) -> dict[str, Any]:
        """Return which settings apply in the process, and where each comes from.

        The SDK has no method for this request of the protocol. A process that refuses to answer returns nothing.
        """
        try:
            answer = await self.client._query._send_control_request({"subtype": "get_settings"}, SETTINGS_SECONDS)
        except Exception as error:
            if type(error) is not Exception:  # the SDK's plain exception: an answer that is an error, or none in time
                raise
            log.debug("no answer to get_settings: %s", error)
            return {}
        return dict(answer or {})

    def _stderr(self, line: str) -> None:
        if line.startswith(REPORT_PREFIX):
            self.dropped = json.loads(line.removeprefix(REPORT_PREFIX))
        else:
            self.stderr.append(line)

    def _denied(self, name: str, arguments: Any) -> None:
        log.warning("denied the tool %s, which this call does not have", name)
        self.denied.append(name)

    def _forget_files(self) -> None:
        remove_private_folder(self._folder)
        if self._system_file is not None:
            self._system_file.unlink(missing_ok=True)


class Pool:
    """The processes of one backend. Kinds of process that were used before are connected ahead."""

    def __init__(self, host: Host, *, size: int, connect: Connect = sdk_client) -> None:
        if size < 1:
            raise ValueError("a pool must have at least one process")
        self.size = size
        self.peak = 0
        self.alive = 0
        self._host = host
        self._connect = connect
        self._ready: dict[ProcessSpec, list[asyncio.Task[Process]]] = {}
        self._asked: dict[ProcessSpec, None] = {}
        self._busy: collections.Counter[ProcessSpec] = collections.Counter()
        self._ending: set[asyncio.Task[None]] = set()
        self._freed = asyncio.Condition()
        self._in_line = 0
        self._closed = False

    @contextlib.asynccontextmanager
    async def process(self, spec: ProcessSpec) -> AsyncIterator[Process]:
        """Provide a process for one call. It is ended afterwards: in the background, but before an error or an

        abort continues.
        """
        self._busy[spec] += 1
        try:
            process = await self._take(spec)
            try:
                yield process
            except BaseException:
                await self._aside(self._end(process))
                raise
            self._aside(self._renew(process) if spec.reuse else self._end_and_replace(process))
        finally:
            self._busy[spec] -= 1
            if not self._busy[spec]:
                del self._busy[spec]

    async def aclose(self) -> None:
        """End every waiting process, and wait for those that are ending."""
        self._closed = True
        waiting = [task for tasks in self._ready.values() for task in tasks]
        self._ready.clear()
        for task in waiting:
            self._aside(self._drop(task))
        while self._ending:
            await asyncio.wait(self._ending)

    async def _take(self, spec: ProcessSpec) -> Process:
        again = self._ask(spec)
        task = self._waiting(spec)
        while task is None:
            await self._room(spec)
            if self._closed:
                raise RuntimeError("the pool is closed")
            task = self._waiting(spec) or (self._begin(spec) if self.alive < self.size else None)
        if again and not spec.reuse:
            self._connect_ahead(spec)
        try:
            process = await asyncio.shield(task)
            process.again = again
            return process
        except asyncio.CancelledError:
            await self._aside(self._drop(task))
            raise

    def _ask(self, spec: ProcessSpec) -> bool:
        """Record that a kind was requested; return whether it had been requested before."""
        again = spec in self._asked
        self._asked.pop(spec, None)
        self._asked[spec] = None
        if len(self._asked) > KINDS_REMEMBERED:
            del self._asked[next(iter(self._asked))]
        return again

    def _waiting(self, spec: ProcessSpec) -> asyncio.Task[Process] | None:
        """Return the waiting process of a kind that connected first, or None if none is waiting."""
        tasks = self._ready.get(spec)
        if not tasks:
            return None
        task = tasks.pop(0)
        if not tasks:
            del self._ready[spec]
        return task

    def _begin(self, spec: ProcessSpec) -> asyncio.Task[Process]:
        self.alive += 1
        self.peak = max(self.peak, self.alive)
        return asyncio.create_task(self._connected(spec))

    async def _connected(self, spec: ProcessSpec) -> Process:
        try:
            process = Process(spec, self._host, self._connect)
            await process.connect()
        except OSError as error:
            await self._left()
            raise ProcessStartError(error, []) from error
        except BaseException:
            await self._left()
            raise
        return process

    def _connect_ahead(self, spec: ProcessSpec) -> None:
        """Connect the next processes of a kind that is requested repeatedly, if there is room: as many as
        there are calls of the kind at once."""
        wanted = max(1, self._busy[spec])
        while self.alive < self.size and not self._closed and len(self._ready.get(spec, ())) < wanted:
            task = self._begin(spec)
            self._ready.setdefault(spec, []).append(task)
            task.add_done_callback(lambda done: self._forget_failed(spec, done))

    def _forget_failed(self, spec: ProcessSpec, task: asyncio.Task[Process]) -> None:
        """Remove a process that did not connect from the waiting ones; the next call of its kind starts its own."""
        if not task.cancelled() and task.exception() is None:
            return
        tasks = self._ready.get(spec, [])
        if task in tasks:
            tasks.remove(task)
            log.debug("a process that was started in advance did not connect")

    async def _room(self, spec: ProcessSpec) -> None:
        """Wait until a process may start or one of this kind is free; a waiting process of another kind makes room."""
        self._in_line += 1
        try:
            await self._make_room(spec)
        finally:
            self._in_line -= 1

    async def _make_room(self, spec: ProcessSpec) -> None:
        while self.alive >= self.size and not self._ready.get(spec):
            oldest = next((each for each, tasks in self._ready.items() if tasks), None)
            task = None if oldest is None else self._waiting(oldest)
            if task is not None:
                await self._aside(self._drop(task))
                continue
            async with self._freed:
                if self.alive >= self.size and not self._ready.get(spec):
                    await self._freed.wait()

    def _aside(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        """Do work that continues if the caller is cancelled; `aclose` waits for it."""
        task = asyncio.create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return asyncio.shield(task)

    async def _drop(self, task: asyncio.Task[Process]) -> None:
        try:
            process = await task
        except Exception as error:  # noqa: BLE001 - it did not connect, and nobody waits for it any more
            log.debug("a process that was started in advance failed: %s", type(error).__name__)
            return
        await self._end(process)

    async def _end(self, process: Process) -> None:
        try:
            await process.close()
        except Exception as error:  # noqa: BLE001 - the call's outcome matters; the SDK kills what stays
            log.warning("a Claude Code process did not end cleanly: %s", type(error).__name__)
        finally:
            await self._left()

    async def _end_and_replace(self, process: Process) -> None:
        """End a process; this may make room for the next of its kind, unless another call is waiting."""
        await self._end(process)
        if process.again and not self._in_line:
            self._connect_ahead(process.spec)

    async def _renew(self, process: Process) -> None:
        """Clear a process for the next call of its kind; end it if it does not confirm."""
        try:
            async with asyncio.timeout(CLEAR_SECONDS):
                cleared = process.calls < MOST_CALLS and await process.clear()
        except Exception as error:  # noqa: BLE001 - the call's outcome stands; a fresh process serves the next
            log.debug("a process could not be cleared: %s", type(error).__name__)
            cleared = False
        if not cleared or self._closed:
            await self._end(process)
            return
        self._ready.setdefault(process.spec, []).append(asyncio.create_task(_itself(process)))
        async with self._freed:
            self._freed.notify_all()

    async def _left(self) -> None:
        self.alive -= 1
        async with self._freed:
            self._freed.notify_all()


async def _itself(process: Process) -> Process:
    return process


async def _as_written(prompt: str) -> AsyncIterator[dict[str, Any]]:
    """Yield a message that Claude Code takes literally, although it accepts commands."""
    message = {"role": "user", "content": prompt}
    yield {"type": "user", "message": message, "parent_tool_use_id": None, "client_composed": True}


def _system_file(spec: ProcessSpec, host: Host) -> Path | None:
    """Write a system prompt that is too long for a command line to a private file."""
    return write_system_file(host, spec.system) if needs_file(spec.system) else None


RunTool = Callable[[str, Mapping[str, Any], str | None], Awaitable[ToolInvocation]]
"""Executes a call: name, arguments, and Claude Code's id for the call, if any."""


def describe_tools(tools: Mapping[str, RuntimeTool]) -> str:
    """Return tool definitions as one JSON text, identical for identical tools."""
    described = [
        {"name": tool.name, "description": tool.description, "schema": tool.input_schema(), "read_only": tool.read_only}
        for tool in sorted(tools.values(), key=lambda one: one.name)
    ]
    return json.dumps(described, sort_keys=True)


class ToolServer:
    """An MCP server for the tools of one process. The tool checks the arguments, so that the model reads

    the same errors on every backend.
    """

    def __init__(self, tools: str) -> None:
        self._run: RunTool | None = None
        self._definitions = json.loads(tools)

    def bind(self, run: RunTool) -> None:
        """Set the function that executes the calls."""
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
                raise RuntimeError("a tool was called before the process was assigned to a call")
            meta = getattr(params, "meta", None) or {}
            call_id = meta.get("claudecode/toolUseId") if isinstance(meta, Mapping) else None
            done = await self._run(params.name, params.arguments or {}, call_id)
            return CallToolResult.model_validate(
                {"content": [TextContent(type="text", text=done.text)], "isError": done.is_error}
            )

        return Server(SERVER, on_list_tools=list_tools, on_call_tool=call_tool)


SDK: Final = "claude_agent_sdk"


class _ToDebugLog(logging.Handler):
    """Turns the SDK's log messages into debug messages in ktx's log."""

    def emit(self, record: logging.LogRecord) -> None:
        log.debug("%s: %s", SDK, record.getMessage())


def quieten() -> None:
    """Redirect the SDK's log into ktx's; each failure it logs is also raised, and reported in ktx's words."""
    logger = logging.getLogger(SDK)
    logger.propagate = False
    if not any(isinstance(handler, _ToDebugLog) for handler in logger.handlers):
        logger.addHandler(_ToDebugLog())
