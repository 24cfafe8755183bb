"""The server over stdin and stdout, for a client that starts it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import fcntl
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any, Final

import anyio
import anyio.abc
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.server.stdio import stdio_server

from ktx_cli.mcp.audit import AuditLog
from ktx_cli.mcp.logs import plain_log
from ktx_cli.mcp.server import ProjectServer

_PIECE: Final = 65_536


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
        # the class it names is what it takes from a file; only its lines are read
        async with stdio_server(stdin=_Lines()) as (read, write):  # type: ignore[arg-type]
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
        send, self._lines = anyio.create_memory_object_stream[str](16)
        descriptor = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        arguments = (descriptor, send, asyncio.get_running_loop())
        threading.Thread(target=_read, args=arguments, name="stdin", daemon=True).start()

    def __aiter__(self) -> AsyncIterator[str]:
        return _each(self._lines)


async def _each(lines: MemoryObjectReceiveStream[str]) -> AsyncIterator[str]:
    async with lines:
        async for line in lines:
            yield line


def _read(descriptor: int, send: Any, loop: asyncio.AbstractEventLoop) -> None:
    """Hand lines over until there are no more, or nobody takes them."""
    rest, taken = b"", True
    while taken and (piece := os.read(descriptor, _PIECE)):
        *lines, rest = (rest + piece).split(b"\n")
        taken = all(_handed_over(send, line, loop) for line in lines)
    if rest and taken:
        _handed_over(send, rest, loop)
    with contextlib.suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(send.close)


def _handed_over(send: Any, line: bytes, loop: asyncio.AbstractEventLoop) -> bool:
    """Hand a line over, and say whether it was taken."""
    sending = send.send(line.decode("utf-8", "replace"))
    try:
        asyncio.run_coroutine_threadsafe(sending, loop).result()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, concurrent.futures.CancelledError, RuntimeError):
        sending.close()
        return False
    return True
