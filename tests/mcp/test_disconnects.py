"""Statements of a client that went away: its database no longer runs them, and answers the next client."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from ktx_cli.project.shared_state import close_readers
from ktx_cli.testing.servers import MariaDBServer, PostgresServer
from tests.mcp.test_replicas import NGINX, git, nginx
from tests.mcp.wire import ACCEPT, VERSION, Wire, ktx, started

pytestmark = pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="sets the state of its projects itself")

MOST_SECONDS = 2.0
NUMBERS = ("CREATE TABLE numbers (i INTEGER)", "INSERT INTO numbers VALUES " + ", ".join(f"({i})" for i in range(500)))
Running = Callable[[], int]


def _postgres(request: pytest.FixtureRequest, name: str) -> tuple[str, str, Running]:
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = server.create_database(name, *NUMBERS)

    def running() -> int:
        with psycopg.connect(server.url()) as database:
            found = database.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND state = 'active' AND query ~ 'numbers'",
                (name,),
            ).fetchone()
        assert found is not None
        return int(found[0])

    return url, "public.numbers", running


def _mariadb(request: pytest.FixtureRequest, name: str) -> tuple[str, str, Running]:
    server: MariaDBServer = request.getfixturevalue("mariadb_server")
    url = server.create_database(name, *NUMBERS)

    def running() -> int:
        with (
            contextlib.closing(
                pymysql.connect(host=server.host, port=server.port, user=server.user, password=server.password)
            ) as database,
            database.cursor() as cursor,
        ):
            cursor.execute(
                "SELECT count(*) FROM information_schema.processlist WHERE db = %s AND info LIKE '%%numbers%%'", (name,)
            )
            (count,) = cursor.fetchone() or (0,)
        return int(count)

    return url, "numbers", running


DATABASES = {"postgres": _postgres, "mysql": _mariadb}


@contextlib.contextmanager
def served(folder: Path, driver: str, url: str, server: PostgresServer | None) -> Iterator[Wire]:
    """Serve a project with one database; with a server for its state, from a replica."""
    folder.mkdir()
    config = f"connections:\n  shop: {{driver: {driver}, url: '{url}'}}\n"
    if server is None:
        (folder / "ktx.yaml").write_text(config)
        with started(folder) as wire:
            wire.initialize()
            assert wire.session
            yield wire
        return
    schema = f"ktx_gone_{os.getpid()}_{time.monotonic_ns()}"
    state = f"storage:\n  state: postgres\n  postgres: {{url: env:KTX_STATE_URL, schema: {schema}}}\n"
    (folder / "ktx.yaml").write_text(config + state)
    (folder / ".gitignore").write_text(".ktx\n")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "the context")):
        git(folder, *words)
    try:
        assert ktx("mcp", "publish", folder=folder).returncode == 0
        with started(folder, "--replica") as wire:
            yield wire
    finally:
        close_readers()
        server.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


def request_of(wire: Wire, sql: str) -> bytes:
    """Return a call as it goes over the wire."""
    params = {"name": "sql_execution", "arguments": {"sql": sql}}
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
    headers = {**ACCEPT, "Host": "localhost", "Mcp-Protocol-Version": VERSION, "Content-Length": str(len(body))}
    headers |= {"Mcp-Session-Id": wire.session} if wire.session else {}
    lines = [f"POST {wire.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", body]
    return "\r\n".join(lines).encode()


def until(what: Callable[[], bool], seconds: float) -> None:
    """Wait until something is so, which must not take longer."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < seconds
        time.sleep(0.02)


CLIENT = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as client:
    client.sendall(sys.stdin.buffer.read())
    client.recv(1 << 20)
    client.recv(1 << 20)
"""


def _cancels(wire: Wire, sent: bytes, wait: Callable[[], Any], gone: Callable[[], Any], folder: Path) -> None:
    with socket.create_connection(("127.0.0.1", wire.port)) as client:
        client.sendall(sent)
        wait()
        notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        assert wire.send(body=notice).status == 202
        gone()


def _closes(wire: Wire, sent: bytes, wait: Callable[[], Any], gone: Callable[[], Any], folder: Path) -> None:
    with socket.create_connection(("127.0.0.1", wire.port)) as client:
        client.sendall(sent)
        wait()
    gone()


def _is_killed_behind_a_proxy(
    wire: Wire, sent: bytes, wait: Callable[[], Any], gone: Callable[[], Any], folder: Path
) -> None:
    if NGINX is None and "CI" not in os.environ:
        pytest.skip("nginx is not installed")
    with nginx(folder / "nginx", [wire.port]) as port:
        client = subprocess.Popen([sys.executable, "-c", CLIENT, str(port)], stdin=subprocess.PIPE)
        assert client.stdin is not None
        client.stdin.write(sent)
        client.stdin.close()
        wait()
        os.kill(client.pid, signal.SIGKILL)
        client.wait()
        gone()


@pytest.mark.parametrize(
    ("driver", "replica", "leaves"),
    [
        pytest.param("postgres", False, _cancels, marks=pytest.mark.postgres),
        pytest.param("postgres", False, _closes, marks=pytest.mark.postgres),
        pytest.param("postgres", True, _closes, marks=pytest.mark.postgres),
        pytest.param("postgres", True, _is_killed_behind_a_proxy, marks=pytest.mark.postgres),
        pytest.param("mysql", False, _cancels, marks=pytest.mark.mysql),
        pytest.param("mysql", False, _closes, marks=pytest.mark.mysql),
    ],
)
def test_the_statement_of_a_client_that_went_away_is_cancelled_in_the_database(
    driver: str,
    replica: bool,
    leaves: Any,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, table, running = DATABASES[driver](request, f"gone_{driver}_{replica}_{leaves.__name__}".lower())
    state: PostgresServer | None = request.getfixturevalue("postgres_server") if replica else None
    if state is not None:
        monkeypatch.setenv("KTX_STATE_URL", state.url())
    slow = f"SELECT count(*) FROM {table} AS a, {table} AS b, {table} AS c, {table} AS d"
    with served(tmp_path / "served", driver, url, state) as wire:
        begun, gone = (lambda: until(lambda: running() == 1, 20)), (lambda: until(lambda: running() == 0, MOST_SECONDS))
        leaves(wire, request_of(wire, slow), begun, gone, tmp_path)
        _, error, text = wire.call("sql_execution", {"sql": f"SELECT count(*) FROM {table}"})
        assert error is None and json.loads(text)["rows"] == [[500]]


@pytest.mark.postgres
def test_the_same_statement_of_another_client_goes_on(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url, table, running = _postgres(request, "gone_other")
    slow = f"SELECT count(*) FROM {table} AS a, {table} AS b, {table} AS c, {table} AS d"
    with served(tmp_path / "served", "postgres", url, None) as wire:
        with socket.create_connection(("127.0.0.1", wire.port)) as stays:
            stays.sendall(request_of(wire, slow).replace(b'"id": 7', b'"id": 8'))
            until(lambda: running() == 1, 20)
            with socket.create_connection(("127.0.0.1", wire.port)) as leaves:
                leaves.sendall(request_of(wire, slow))
                until(lambda: running() == 2, 20)
            until(lambda: running() == 1, MOST_SECONDS)
            time.sleep(0.5)
            assert running() == 1
        until(lambda: running() == 0, MOST_SECONDS)
