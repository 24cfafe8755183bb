"""How much a client may take of the server over HTTP: limits small enough to be reached, on a real socket."""

from __future__ import annotations

import http.client
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
import uvicorn

from ktx_cli.core import KtxError, NotReadyError
from ktx_cli.jobs.serve.audit import audit_lines
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.mcp import http as access
from ktx_cli.mcp import tool
from ktx_cli.mcp.access import AccessPolicy
from ktx_cli.mcp.audit import AuditLog
from ktx_cli.mcp.http import HttpServer, Load, Served, Sessions
from ktx_cli.mcp.server import ProjectServer
from ktx_cli.mcp.serving import _config
from ktx_cli.mcp.tools.project import connection_list
from ktx_cli.project.layout import Layout
from tests.mcp.wire import ACCEPT, VERSION, Wire, made


class Quiet(uvicorn.Server):
    """uvicorn in a thread, which gets no signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def serving(
    folder: Path,
    load: Load,
    change: Callable[[Served], Any] = lambda served: None,
    *,
    config: str | None = None,
    token: str | None = None,
    host: str = "127.0.0.1",
    exists: bool = False,
    **options: Any,
) -> Iterator[Wire]:
    """Serve the small company from a thread of this process. `host`: where the server believes that it listens.
    `exists`: the project is in the folder already.
    """
    if not exists:
        company = made(folder)
        if config is not None:
            company.write("ktx.yaml", config)
    project = ServedProject(Layout(folder), {})
    served = Served("/mcp", ProjectServer(project, tool.Options(**options)), AuditLog(Layout(folder), "http"))
    change(served)
    server = HttpServer((served,), AccessPolicy.of(host, token=token), "0123", load)
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


def test_a_slow_check_for_readiness_does_not_delay_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released, checks = threading.Event(), 0

    def unready(served: Served) -> KtxError | None:
        nonlocal checks
        checks += 1
        return NotReadyError("the database is down") if checks > 1 and released.wait(30) else None

    monkeypatch.setattr(Served, "unready", unready)
    monkeypatch.setattr(access, "READY_SECONDS", 0.0)
    with serving(tmp_path, Load()) as wire:
        statuses = [wire.send("GET", "/readyz").status for _ in range(3)]
        assert statuses == [200] * 3 and checks == 2, "the last result, while one check is in progress"
        released.set()
        deadline = time.monotonic() + 30
        while wire.send("GET", "/readyz").status != 503:
            assert time.monotonic() < deadline


@pytest.mark.parametrize("first", ["POST /mcp", "OPTIONS /mcp", "POST /health", "POST /elsewhere"])
def test_requests_that_are_not_admitted_take_nobodys_place(tmp_path: Path, first: str) -> None:
    with serving(tmp_path, Load(most=2), token="secret") as wire, ExitStack() as stack:
        head = f"{first} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Length: 9\r\n\r\n"
        waiting = [socket.create_connection(("127.0.0.1", wire.port)) for _ in range(40)]
        for each in waiting:
            stack.enter_context(each).sendall(head.encode())
            each.settimeout(30)
        asker = Wire(wire.port, token="secret")
        assert [asker.initialize().status for _ in range(5)] == [200] * 5
        for each in waiting:
            assert b"connection: close" in each.makefile("rb").read()


def test_few_bodies_of_requests_that_are_not_admitted_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are answered at once, so that no number of them keeps the server busy."""
    monkeypatch.setattr(access, "DRAIN_SECONDS", 5.0)
    monkeypatch.setattr(access, "MOST_DRAINED", 3)
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
    with serving(tmp_path, Load(), token="secret") as wire, ExitStack() as stack:
        waiting = [stack.enter_context(socket.create_connection(("127.0.0.1", wire.port))) for _ in range(20)]
        for each in waiting:
            each.sendall(head)
        read: set[socket.socket] = set()
        until = time.monotonic() + 3.0
        while len(read) < 17 and time.monotonic() < until:
            ready, _, _ = select.select(set(waiting) - read, [], [], 0.1)
            read |= set(ready)
        assert len(read) == 17 and all(each.recv(100).startswith(b"HTTP/1.1 401 ") for each in read)
        for each in set(waiting) - read:
            each.sendall(b"123456789")
            each.settimeout(3)
            assert each.recv(100).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(("method", "status"), [("OPTIONS", 405), ("PUT", 405), ("HEAD", 405), ("GET", 400)])
def test_only_a_post_opens_a_session(tmp_path: Path, method: str, status: int) -> None:
    def few(served: Served) -> None:
        served.sessions = Sessions(served.project.server, most=1)

    with serving(tmp_path, Load(), few) as wire:
        assert wire.initialize().status == 200
        for _ in range(2):
            assert Wire(wire.port).send(method, headers={"Origin": "http://localhost"}).status == status
        assert wire.ask("tools/list", {}).status == 200, "its session is not closed to make room"


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


@pytest.mark.parametrize("again", [7, "7"])
def test_an_id_that_is_in_use_in_a_session(tmp_path: Path, again: int | str) -> None:
    """Both requests would otherwise wait for one answer; other ids and other sessions are served meanwhile."""
    finish, running = threading.Event(), threading.Event()

    def slow(call: Any, value: Any) -> Any:
        running.set()
        assert finish.wait(30)
        return connection_list.run(call, value)

    def change(served: Served) -> None:
        served.project._tools = {"connection_list": replace(connection_list, run=slow)}

    with serving(tmp_path, Load(), change) as wire, ThreadPoolExecutor() as pool:
        other = Wire(wire.port)
        assert (wire.initialize().status, other.initialize().status) == (200, 200)
        first = pool.submit(wire.call, "connection_list", {})
        try:
            assert running.wait(30)
            second = wire.send(body={"jsonrpc": "2.0", "id": again, "method": "tools/list"})
            assert (second.status, second.reason) == (409, "id")
            assert wire.send(body={"jsonrpc": "2.0", "id": 8, "method": "tools/list"}).status == 200
            assert other.ask("tools/list", {}).status == 200
        finally:
            finish.set()
        assert first.result(30)[:2] == (200, None)
        assert wire.ask("tools/list", {}).status == 200, "the id is free again"
    (line,) = (each for each in audit_lines(Layout(tmp_path)) if "refused" in each)
    assert (line["refused"], line["status"]) == ("id", 409)


@pytest.mark.parametrize("sent", [b"", b"POST /mcp HTTP/1.1\r\nHost: loc"])
def test_headers_that_do_not_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(access.TimedProtocol, "header_seconds", 0.1)
    with serving(tmp_path, Load()) as wire, socket.create_connection(("127.0.0.1", wire.port)) as slow:
        slow.sendall(sent)
        slow.settimeout(30)
        assert slow.recv(100) == b""
