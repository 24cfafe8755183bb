"""How much a client may take of the server over HTTP: limits small enough to be reached, on a real socket."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import uvicorn

from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.mcp import http as access
from ktx_cli.mcp import tool
from ktx_cli.mcp.http import AccessPolicy, HttpServer, Load, Served, Sessions
from ktx_cli.mcp.server import AuditLog, ProjectServer
from ktx_cli.mcp.serving import _config
from ktx_cli.project.layout import Layout
from tests.mcp.wire import ACCEPT, VERSION, Wire, made


class Quiet(uvicorn.Server):
    """uvicorn in a thread, which gets no signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def serving(folder: Path, load: Load, change: Callable[[Served], Any] = lambda served: None) -> Iterator[Wire]:
    """Serve the small company from a thread of this process."""
    made(folder)
    project = ServedProject(Layout(folder), {})
    served = Served("/mcp", ProjectServer(project, tool.Options()), AuditLog(Layout(folder), "http"))
    change(served)
    server = HttpServer((served,), AccessPolicy.of("127.0.0.1", token=None), "0123", load)
    bound = socket.create_server(("127.0.0.1", 0))
    runner = Quiet(_config(server))

    async def run() -> None:
        async with server.running():
            await runner.serve(sockets=[bound])

    thread = threading.Thread(target=anyio.run, args=(run,))
    thread.start()
    try:
        yield Wire(bound.getsockname()[1])
    finally:
        runner.should_exit = True
        thread.join()
        project.close()
        served.audit.close()
        bound.close()


def test_one_session_too_many(tmp_path: Path) -> None:
    def few(served: Served) -> None:
        served.sessions = Sessions(served.project.server, most=2)

    with serving(tmp_path, Load(), few) as wire:
        first, second, third, fourth = (Wire(wire.port) for _ in range(4))
        assert [each.initialize().status for each in (first, second)] == [200, 200]
        assert first.ask("tools/list", {}).status == 200
        assert third.initialize().status == 200
        assert second.ask("tools/list", {}).status == 404, "it was idle the longest"
        with listening(first), listening(third):
            assert fourth.initialize().status == 503, "all are in use"
            assert [each.ask("tools/list", {}).status for each in (first, third)] == [200, 200]
        assert third.send("DELETE").status == 200
        assert fourth.initialize().status == 200
        assert first.ask("tools/list", {}).status == 200


@contextmanager
def listening(wire: Wire) -> Iterator[None]:
    """Hold a session's stream open."""
    assert wire.session is not None
    with closing(http.client.HTTPConnection("127.0.0.1", wire.port, timeout=30)) as connection:
        headers = {**ACCEPT, "Mcp-Session-Id": wire.session, "Mcp-Protocol-Version": VERSION}
        connection.request("GET", wire.path, headers=headers)
        assert connection.getresponse().status == 200
        yield


def test_a_session_nobody_uses_ends(tmp_path: Path) -> None:
    def brief(served: Served) -> None:
        served.sessions = Sessions(served.project.server, idle_seconds=0.01)

    with serving(tmp_path, Load(), brief) as wire:
        assert wire.initialize().status == 200
        while wire.ask("ping", {}).status != 404:
            threading.Event().wait(0.05)


def test_more_requests_than_are_served_at_once(tmp_path: Path) -> None:
    with serving(tmp_path, Load(most=0)) as wire:
        got = wire.initialize()
        assert (got.status, got.reason, got.headers["retry-after"]) == (503, "load", "1")
        assert wire.send("GET", "/health").status == 200


def test_a_server_that_is_being_stopped_takes_no_more(tmp_path: Path) -> None:
    with serving(tmp_path, Load(closing=True)) as wire:
        assert wire.initialize().reason == "closing"


def test_a_body_that_does_not_arrive(tmp_path: Path) -> None:
    with serving(tmp_path, Load(body_seconds=0.1)) as wire, socket.create_connection(("127.0.0.1", wire.port)) as slow:
        head = f"POST /mcp HTTP/1.1\r\nHost: localhost:{wire.port}\r\nContent-Length: 100\r\n\r\n{{"
        slow.sendall(head.encode())
        slow.settimeout(30)
        answer = slow.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in answer


@pytest.mark.parametrize("sent", [b"", b"POST /mcp HTTP/1.1\r\nHost: loc"])
def test_headers_that_do_not_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(access.TimedProtocol, "header_seconds", 0.1)
    with serving(tmp_path, Load()) as wire, socket.create_connection(("127.0.0.1", wire.port)) as slow:
        slow.sendall(sent)
        slow.settimeout(30)
        assert slow.recv(100) == b""
