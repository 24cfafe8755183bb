"""Connected Claude Code processes: each serves one call, and the next of its kind connects meanwhile.

A process that was asked once keeps the conversation, so none is used twice. The number of processes, at work and in
waiting, never passes `size`.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import logging
import warnings
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

from ktx_cli.llm.backends.claude.host import Host, write_system_file
from ktx_cli.llm.backends.claude.launcher import REPORT_PREFIX
from ktx_cli.llm.backends.claude_code.guard import guard_hooks, permission_callback
from ktx_cli.llm.backends.claude_code.options import MAX_ARGUMENT, ProcessSpec, build_options
from ktx_cli.llm.backends.claude_code.server import ToolServer

log = logging.getLogger(__name__)

STDERR_LINES: Final = 50
CLOSE_SECONDS: Final = 10.0

Connect = Callable[[Any], Any]
"""Makes a client from options: the one place where the SDK is entered."""


def sdk_client(options: Any) -> Any:
    """Return the SDK's client for options."""
    from claude_agent_sdk import CanUseToolShadowedWarning, ClaudeSDKClient

    warnings.filterwarnings("ignore", category=CanUseToolShadowedWarning)
    return ClaudeSDKClient(options)


class ProcessStartError(Exception):
    """A process did not start; `stderr` is what it said."""

    def __init__(self, cause: Exception, stderr: list[str]) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.stderr = stderr


class Process:
    """A connected process, before or during its one call."""

    def __init__(self, spec: ProcessSpec, host: Host, connect: Connect) -> None:
        self.spec = spec
        self.tools = ToolServer(spec.tools)
        self.stderr: collections.deque[str] = collections.deque(maxlen=STDERR_LINES)
        self.denied: list[str] = []
        self.dropped: list[str] = []
        self._system_file = _system_file(spec, host)
        options = build_options(
            spec,
            host,
            server=self.tools.make() if spec.tool_names else None,
            hooks=guard_hooks(spec.allowed, self._denied),
            can_use_tool=permission_callback(spec.allowed, self._denied),
            stderr=self._stderr,
            system_file=self._system_file,
        )
        self.client = connect(options)

    async def connect(self) -> None:
        """Start the process and wait until it listens."""
        try:
            await self.client.connect()
        except Exception as error:
            self._forget_system_file()
            raise ProcessStartError(error, list(self.stderr)) from error
        except BaseException:
            self._forget_system_file()
            raise

    async def close(self) -> None:
        """End the process; its files go with it."""
        try:
            await asyncio.wait_for(self.client.disconnect(), CLOSE_SECONDS)
        finally:
            self._forget_system_file()

    async def account(self) -> dict[str, Any]:
        """Return what the process says of the account, without asking a model."""
        info = await self.client.get_server_info()
        return dict((info or {}).get("account") or {})

    def _stderr(self, line: str) -> None:
        if line.startswith(REPORT_PREFIX):
            self.dropped = json.loads(line.removeprefix(REPORT_PREFIX))
        else:
            self.stderr.append(line)

    def _denied(self, name: str, arguments: Any) -> None:
        self.denied.append(name)

    def _forget_system_file(self) -> None:
        if self._system_file is not None:
            self._system_file.unlink(missing_ok=True)


class Pool:
    """The processes of one backend. Kinds of process that were asked for before are connected ahead."""

    def __init__(self, host: Host, *, size: int, connect: Connect = sdk_client) -> None:
        if size < 1:
            raise ValueError("a pool has at least one process")
        self.size = size
        self.peak = 0
        self._host = host
        self._connect = connect
        self._ready: collections.OrderedDict[ProcessSpec, list[asyncio.Task[Process]]] = collections.OrderedDict()
        self._asked: collections.Counter[ProcessSpec] = collections.Counter()
        self._alive = 0
        self._freed = asyncio.Condition()
        self._closed = False

    @contextlib.asynccontextmanager
    async def process(self, spec: ProcessSpec) -> AsyncIterator[Process]:
        """Lend a process for one call and end it afterwards."""
        process = await self._take(spec)
        try:
            yield process
        finally:
            await asyncio.shield(self._end(process))

    async def aclose(self) -> None:
        """End every process that waits."""
        self._closed = True
        waiting = [task for tasks in self._ready.values() for task in tasks]
        self._ready.clear()
        await asyncio.gather(*(self._drop(task) for task in waiting))

    async def _take(self, spec: ProcessSpec) -> Process:
        self._asked[spec] += 1
        ready = self._ready.get(spec)
        if ready:
            task = ready.pop()
        else:
            await self._room()
            task = self._begin(spec)
        self._connect_ahead(spec)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.shield(self._drop(task))
            raise

    def _begin(self, spec: ProcessSpec) -> asyncio.Task[Process]:
        self._alive += 1
        self.peak = max(self.peak, self._alive)
        return asyncio.create_task(self._connected(spec))

    async def _connected(self, spec: ProcessSpec) -> Process:
        try:
            process = Process(spec, self._host, self._connect)
            await process.connect()
        except BaseException:
            await self._left()
            raise
        return process

    def _connect_ahead(self, spec: ProcessSpec) -> None:
        """Connect the next process of a kind that is asked for again and again, where there is room."""
        if self._asked[spec] < 2 or self._alive >= self.size or self._closed:
            return
        task = self._begin(spec)
        task.add_done_callback(_look_at)
        self._ready.setdefault(spec, []).append(task)
        self._ready.move_to_end(spec)

    async def _room(self) -> None:
        """Wait until one more process may start; one that waits for another kind of call makes room."""
        while self._alive >= self.size:
            oldest = next((tasks for tasks in self._ready.values() if tasks), None)
            if oldest:
                await self._drop(oldest.pop(0))
                continue
            async with self._freed:
                if self._alive >= self.size:
                    await self._freed.wait()

    async def _drop(self, task: asyncio.Task[Process]) -> None:
        try:
            process = await task
        except Exception as error:  # noqa: BLE001 - it did not connect, and nobody waits for it any more
            log.debug("a process that was connected ahead failed: %s", type(error).__name__)
            return
        await self._end(process)

    async def _end(self, process: Process) -> None:
        try:
            await process.close()
        except Exception as error:  # noqa: BLE001 - the call's outcome matters; the SDK kills what stays
            log.warning("a Claude Code process did not end cleanly: %s", type(error).__name__)
        finally:
            await self._left()

    async def _left(self) -> None:
        self._alive -= 1
        async with self._freed:
            self._freed.notify_all()


def _look_at(task: asyncio.Task[Process]) -> None:
    """Mark the exception of a task nobody may ever await as seen."""
    if not task.cancelled():
        task.exception()


def _system_file(spec: ProcessSpec, host: Host) -> Path | None:
    """Write a system prompt that is too long for a command line to a private file."""
    return write_system_file(host, spec.system) if len(spec.system.encode()) > MAX_ARGUMENT else None
