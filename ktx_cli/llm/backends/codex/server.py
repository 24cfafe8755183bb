"""A `codex app-server` process, and JSON-RPC with it, one line per message, over its standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import json
import logging
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import Command
from ktx_cli.llm.backends.claude.binary import terminate
from ktx_cli.llm.backends.codex.binary import NAME
from ktx_cli.llm.errors import LlmError, llm_error

log = logging.getLogger(__name__)

Message = Mapping[str, Any]

MAX_LINE: Final = 64 * 2**20
"""Maximum length of a message in bytes; it contains whole tool results."""

START_SECONDS: Final = 60.0
"""Time limit for the answer to a request that calls no model."""

EXIT_SECONDS: Final = 2.0
KEPT_LINES: Final = 40
"""How many of the last lines of the process's log an error contains."""


class RequestFailed(Exception):
    """The process answered a request with an error; `message` is its own text."""

    def __init__(self, method: str, error: Message) -> None:
        super().__init__(f"{method}: {error.get('message')}")
        self.message = str(error.get("message") or "")


class AppServer:
    """A running process, used by one call. `stderr` holds the end of its log."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.stderr: deque[str] = deque(maxlen=KEPT_LINES)
        self._process = process
        self._unread: deque[Message] = deque()
        self._number = 0
        self._is_ended = False
        self._logging = asyncio.ensure_future(self._read_log())

    @classmethod
    async def start(cls, program: Path, *, environment: Mapping[str, str], work: Path) -> AppServer:
        """Start a process in a folder and greet it; raises `LlmError`."""
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                str(program),
                "app-server",
                "--strict-config",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=dict(environment),
                cwd=work,
                start_new_session=True,
                limit=MAX_LINE,
            )
        )
        try:
            process = await asyncio.shield(starting)
        except OSError as error:
            message = f"{program} cannot be started: {error.strerror or error}"
            raise llm_error("connection", backend=NAME, message=message, hint=Command("doctor")) from error
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                await terminate(await starting)
            raise
        server = cls(process)
        try:
            await server._greet()
        except BaseException:
            await server.kill()
            raise
        return server

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.returncode is None and not self._is_ended

    async def _greet(self) -> None:
        client = {"name": "ktx", "title": "ktx", "version": importlib.metadata.version("ktx-cli")}
        await self.request("initialize", {"clientInfo": client, "capabilities": {"experimentalApi": True}})
        await self.send({"method": "initialized"})

    async def request(self, method: str, params: Message) -> dict[str, Any]:
        """Return the result of a request; messages that come before it are kept for `receive`.

        Raises `RequestFailed` if the process refuses it, and `LlmError` if it ends or does not answer.
        """
        self._number += 1
        number = self._number
        await self.send({"id": number, "method": method, "params": params})
        try:
            async with asyncio.timeout(START_SECONDS):
                while True:
                    message = await self._read()
                    if message.get("id") == number and "method" not in message:
                        break
                    self._unread.append(message)
        except TimeoutError as error:
            raise self.broken(f"Codex did not answer `{method}`") from error
        if "error" in message:
            raise RequestFailed(method, message["error"])
        result = message.get("result")
        return result if isinstance(result, dict) else {}

    async def receive(self) -> Message:
        """Return the next notification, or request of the process; raises `LlmError` if the process ends."""
        return self._unread.popleft() if self._unread else await self._read()

    async def send(self, message: Message) -> None:
        """Send a message; raises `LlmError` if the process has ended."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(message).encode() + b"\n")
            await stdin.drain()
        except OSError as error:
            raise self.broken("Codex ended unexpectedly") from error

    async def _read(self) -> Message:
        stdout = self._process.stdout
        assert stdout is not None
        try:
            line = await stdout.readline()
        except ValueError as error:  # the reader's word for a line over its limit
            raise self.broken(f"Codex sent a message of more than {MAX_LINE // 2**20} MiB") from error
        if not line:
            raise self.broken("Codex ended unexpectedly")
        try:
            message = json.loads(line)
        except ValueError as error:
            raise self.broken("Codex sent a message that is not JSON") from error
        except RecursionError as error:
            raise self.broken("Codex sent JSON that is nested too deeply to be read") from error
        return message if isinstance(message, dict) else {}

    async def _read_log(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        with contextlib.suppress(ValueError):  # an endless line: the log is only for errors
            async for line in stderr:
                self.stderr.append(line.decode("utf-8", "replace").rstrip())

    def broken(self, message: str) -> LlmError:
        """Return the error for a process that does not work; `detail` is the end of its log."""
        detail = "\n".join(self.stderr)
        return llm_error("connection", backend=NAME, message=message, detail=detail, hint=Command("doctor"))

    async def close(self) -> None:
        """Let the process end by itself, so that a login it is writing is whole; then end it."""
        if self._is_ended:
            return
        stdin = self._process.stdin
        assert stdin is not None
        stdin.close()
        try:
            async with asyncio.timeout(EXIT_SECONDS):
                await self._process.wait()
        except TimeoutError:
            log.debug("the process %d of Codex did not end by itself", self._process.pid)
        finally:
            await self.kill()

    async def kill(self) -> None:
        """End the process and its children, however often the wait is cancelled; once is enough."""
        if self._is_ended:
            return
        self._is_ended = True
        ending = asyncio.ensure_future(terminate(self._process))
        cancelled = False
        while not ending.done():
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                cancelled = True
        self._logging.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._logging
        if cancelled:
            raise asyncio.CancelledError
