"""The server over stdio as a process: what comes out of it, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import anyio
import pytest

from ktx_cli.mcp.server import _progress
from ktx_cli.mcp.serving import LARGEST_MESSAGE
from tests.mcp.wire import KTX, made
from tests.worlds.forks import shared

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}
ASKED = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "sl_query", "arguments": {"measures": ["orders.revenue"]}},
}
PRINTS = """
import os, sys
from ktx_cli.mcp import tool
inner = tool.compact_json
def noisy(data):
    print("printed by a library")
    os.write(1, b"written below Python\\n")
    return inner(data)
tool.compact_json = noisy
sys.argv = ["ktx", "mcp", "stdio"]
from ktx_cli.cli.main import main
main()
"""


class Stdio:
    """A server, and what a client says to it."""

    def __init__(self, process: Any) -> None:
        self.process = process

    def ask(self, message: dict[str, Any]) -> Any:
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self, number: int | None = None) -> tuple[int, str, str]:
        """End it by a signal, or by closing its stdin; returns its exit code and what else it wrote."""
        if number is not None:
            self.process.send_signal(number)
            code = self.process.wait(timeout=30)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode if number is None else code, out, err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made(tmp_path)
    return tmp_path


def begun(folder: Path, *command: str | Path) -> Stdio:
    """Start a process of its own."""
    pipe = subprocess.PIPE
    environ = {**os.environ, "PYTHONUNBUFFERED": ""}
    return Stdio(subprocess.Popen(command, cwd=folder, env=environ, stdin=pipe, stdout=pipe, stderr=pipe, text=True))


@pytest.fixture
def server(folder: Path) -> Iterator[Stdio]:
    made = Stdio(shared().piped(("mcp", "stdio"), folder=folder, environ={**os.environ, "PYTHONUNBUFFERED": ""}))
    yield made
    made.process.kill()
    for each in (made.process.stdin, made.process.stdout, made.process.stderr):
        with contextlib.suppress(BrokenPipeError):
            each.close()


def test_the_installed_program_serves(folder: Path) -> None:
    server = begun(folder, KTX, "mcp", "stdio")
    with server.process:
        assert server.ask(INITIALIZE)["id"] == 1
        assert server.end(signal.SIGTERM) == (0, "", "")


@pytest.mark.parametrize(("number", "code"), [(None, 0), (signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_ends_cleanly_after_an_answer(server: Stdio, number: int | None, code: int) -> None:
    assert server.ask(INITIALIZE)["result"]["serverInfo"]["name"] == "ktx"
    assert "error" not in server.ask(ASKED)["result"]["content"][0]["text"]
    assert server.end(number) == (code, "", "")


@pytest.mark.slow
def test_a_print_does_not_break_the_protocol(folder: Path) -> None:
    server = begun(folder, sys.executable, "-c", PRINTS)
    with server.process:
        assert server.ask(INITIALIZE)["id"] == 1
        assert server.ask(ASKED)["id"] == 2
        code, out, err = server.end()
    assert (code, out) == (0, "")
    assert "printed by a library" in err and "written below Python" in err


NO_MESSAGES: list[tuple[bytes, int]] = [
    (b"no JSON", -32700),
    (b'{"jsonrpc": "2.0", "id": 7', -32700),
    (b"\xff\xfe", -32700),
    (b'{"jsonrpc": "2.0", "id": 7, "method": "caf\xe9"}', -32700),
    (b"[" * 100_000, -32700),
    (b"[]", -32600),
    (b'[{"jsonrpc": "2.0", "id": 7, "method": "ping"}]', -32600),
    (b"5", -32600),
    (b'{"id": 7, "method": "ping"}', -32600),
    (b'"' + b"x" * (LARGEST_MESSAGE + 1) + b'"', -32600),
]


def test_what_is_no_message_is_answered_and_passed_over(server: Stdio) -> None:
    for line, code in NO_MESSAGES:
        server.process.stdin.buffer.write(b"\n" + line + b"\n")
        server.process.stdin.buffer.flush()
        answer = json.loads(server.process.stdout.readline())
        assert (answer["id"], answer["error"]["code"]) == (None, code), (line[:60], answer)
    assert server.ask(INITIALIZE)["id"] == 1
    code, out, _ = server.end()
    assert (code, out) == (0, "")


def test_the_last_line_needs_no_end(server: Stdio) -> None:
    assert server.ask(INITIALIZE)["id"] == 1
    out, err = server.process.communicate(json.dumps(ASKED), timeout=30)
    assert server.process.returncode == 0 and err == ""
    assert out == "" or json.loads(out)["id"] == 2


@pytest.mark.parametrize("error", [anyio.ClosedResourceError, anyio.BrokenResourceError])
def test_a_call_does_not_fail_because_nobody_receives_its_progress(error: type[Exception]) -> None:
    report = _progress(
        cast("Any", SimpleNamespace(session=SimpleNamespace(report_progress=AsyncMock(side_effect=error))))
    )
    anyio.run(anyio.to_thread.run_sync, report, 0.0, "compiling")


def test_a_call_does_not_fail_because_the_server_has_ended() -> None:
    report = _progress(cast("Any", SimpleNamespace(session=SimpleNamespace(report_progress=AsyncMock()))))
    ended, reported = threading.Event(), threading.Event()

    def call() -> None:
        ended.wait(30)
        report(0.0, "compiling")
        reported.set()

    async def serve() -> None:
        with anyio.move_on_after(0.01):
            await anyio.to_thread.run_sync(call, abandon_on_cancel=True)

    anyio.run(serve)
    ended.set()
    assert reported.wait(30)


def test_calls_are_noted(server: Stdio, folder: Path) -> None:
    server.ask(INITIALIZE)
    server.ask(ASKED)
    secret = {
        "measures": ["orders.revenue"],
        "filters": ["orders.status = 'sk-ant-api03-R2D2x9Kq7LmZp4Vt8Wn1Yb6Hd3Jf5Gs0'"],
    }
    server.ask({**ASKED, "id": 3, "params": {"name": "sl_query", "arguments": secret}})
    search = {"query": "zzz", "kinds": ["page"]}
    server.ask({**ASKED, "id": 4, "params": {"name": "discover_data", "arguments": search}})
    assert server.end()[0] == 0
    path = folder / ".ktx" / "logs" / "mcp-audit.jsonl"
    begun, asked, hidden, searched = (json.loads(line) for line in path.read_text().splitlines())
    assert searched["hits"] == 0 and "hits" not in asked, "what was looked for in vain can be mended"
    assert len({each["session"] for each in (begun, asked, hidden, searched)}) == 1 and asked["session"]
    assert begun["method"] == "initialize" and begun["client"] == {"name": "x", "version": "1"}
    assert (asked["tool"], asked["outcome"], asked["transport"]) == ("sl_query", "ok", "stdio")
    assert asked["arguments"] == {"measures": ["orders.revenue"]} and len(asked["arguments_sha256"]) == 64
    assert asked["bytes"] > 100
    assert hidden["arguments"]["filters"] == ["***"]
    assert path.stat().st_mode & 0o777 == 0o600
