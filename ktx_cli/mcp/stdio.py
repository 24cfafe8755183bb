"""The server over stdin and stdout, for a client that starts it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import fcntl
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import anyio
import anyio.abc
import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from ktx_cli.mcp.access import LARGEST_BODY
from ktx_cli.mcp.audit import AuditLog
from ktx_cli.mcp.server import ProjectServer
from ktx_cli.mcp.serving import plain_log

_PIECE: Final = 65_536
LARGEST_MESSAGE: Final = 8 * LARGEST_BODY


def serve_stdio(server: ProjectServer) -> int:
    """Serve until the client closes stdin or a signal comes, and return the exit code.

    Stdout carries the protocol alone: what else is printed, by Python or below it, comes out on stderr.
    """
    audit = AuditLog(server.project.layout, "stdio", server.options.privacy)
    server.server.middleware.append(audit.middleware)
    server.resume()
    with plain_log(), contextlib.closing(audit):
        return anyio.run(_serve, server)


async def _serve(server: ProjectServer) -> int:
    ended: list[int] = []
    async with anyio.create_task_group() as tasks:
        await tasks.start(_end_on_signal, tasks.cancel_scope, ended)
        lines = _Lines()
        # the class it names is what it takes from a file; only its lines are read
        async with stdio_server(stdin=lines) as (read, write):  # type: ignore[arg-type]
            lines.answer = write.send
            with contextlib.redirect_stdout(sys.stderr):  # after the SDK took stdout, so that it took the right one
                await server.server.run(read, write, server.server.create_initialization_options())
        tasks.cancel_scope.cancel()
    return 130 if signal.SIGINT in ended else 0


async def _end_on_signal(
    scope: anyio.CancelScope, ended: list[int], *, task_status: anyio.abc.TaskStatus[None]
) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        task_status.started()
        async for number in signals:
            ended.append(number)
            scope.cancel()


class _Lines:
    """The lines of stdin, read by a thread that the end of the process does not wait for.

    A thread that waits for a line cannot be called back, and the SDK's own would keep the process until one came.
    Meanwhile descriptor 0 is the null device: a child must not read what is meant for the server.
    """

    def __init__(self) -> None:
        self.answer: Callable[[SessionMessage], Awaitable[None]] = _dropped
        """Sends the answer to what is no message; the SDK itself passes over such lines in silence."""
        send, self._lines = anyio.create_memory_object_stream[bytes](16)
        descriptor = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        arguments = (descriptor, send, asyncio.get_running_loop())
        threading.Thread(target=_read, args=arguments, name="stdin", daemon=True).start()

    def __aiter__(self) -> AsyncIterator[str]:
        return self._each()

    async def _each(self) -> AsyncIterator[str]:
        async with self._lines as lines:
            async for line in lines:
                error = _fault(line)
                if error is not None:
                    await self.answer(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=None, error=error)))
                elif line.strip():
                    yield line.decode()


async def _dropped(message: SessionMessage) -> None:
    """Drop an answer nobody would get."""


def _fault(line: bytes) -> types.ErrorData | None:
    """Return what is wrong with a line that is no message, as JSON-RPC says it; None for a message or an empty line."""
    if not line.strip():
        return None
    if len(line) > LARGEST_MESSAGE:
        return types.ErrorData(code=types.INVALID_REQUEST, message=f"a message has at most {LARGEST_MESSAGE:,} bytes")
    try:
        types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        line.decode()
        return None
    except ValueError:  # pydantic's errors are such, too
        pass
    try:
        json.loads(line.decode())
    except (ValueError, RecursionError):
        return types.ErrorData(code=types.PARSE_ERROR, message="the line is not JSON in UTF-8")
    return types.ErrorData(
        code=types.INVALID_REQUEST, message="the line is not one JSON-RPC message; batches are not served"
    )


def _read(descriptor: int, send: Any, loop: asyncio.AbstractEventLoop) -> None:
    """Hand lines over until there are no more, or nobody takes them."""
    rest, taken = b"", True
    while taken and (piece := os.read(descriptor, _PIECE)):
        *lines, rest = (rest + piece).split(b"\n")
        taken = all(_handed_over(send, line, loop) for line in lines)
        rest = rest[: LARGEST_MESSAGE + 1]  # of a line that is too long no more is kept than says so
    if rest and taken:
        _handed_over(send, rest, loop)
    with contextlib.suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(send.close)


def _handed_over(send: Any, line: bytes, loop: asyncio.AbstractEventLoop) -> bool:
    """Hand a line over, and say whether it was taken."""
    sending = send.send(line)
    try:
        asyncio.run_coroutine_threadsafe(sending, loop).result()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, concurrent.futures.CancelledError, RuntimeError):
        sending.close()
        return False
    return True
