"""The database servers the tests share, how many tests ran on each, and the wall around every model."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from ktx_cli.llm.backends.claude.environment import KEPT, dropped_names
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.servers import MariaDBServer, PostgresServer, ServerMissingError, TestServer

DEAD_PROXY = "http://127.0.0.1:9"
"""Where a program goes that was given no scripted model: nothing listens on the discard port."""


@pytest.fixture(scope="session", autouse=True)
def no_model_but_scripted_ones() -> Iterator[None]:
    """Make every other model call impossible: no credentials, no way out of this machine.

    Programs that are started get a proxy nobody answers; sockets of this process connect to loopback alone.
    """
    connect = socket.socket.connect

    def connect_here(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
            raise AssertionError(f"a test tried to leave the machine: {address}")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        for name in (*dropped_names(os.environ), *KEPT, "CLAUDE_CONFIG_DIR"):
            patch.delenv(name, raising=False)
        for name in ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "ALL_PROXY", "all_proxy"):
            patch.setenv(name, DEAD_PROXY)
        for name in ("NO_PROXY", "no_proxy"):
            patch.setenv(name, "127.0.0.1,localhost")
        patch.setattr(socket.socket, "connect", connect_here)
        yield


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


SERVERS = {"postgres": "Postgres", "mysql": "MariaDB (for MySQL)"}


def _running(server: TestServer) -> Iterator[Any]:
    """Start a server for the session; a missing one skips, except where `CI` is set."""
    try:
        server.start()
    except ServerMissingError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A Postgres server on a free loopback port."""
    yield from _running(PostgresServer())


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDBServer]:
    """A MariaDB server on a free loopback port."""
    yield from _running(MariaDBServer())


@pytest.fixture(scope="session")
def _one_model_server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def model_server(_one_model_server: ModelServer) -> ModelServer:
    """A scripted model server, its script and its requests forgotten before each test."""
    _one_model_server.play(())
    return _one_model_server


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many tests ran on each server, so that a silent skip shows."""
    for mark, name in SERVERS.items():
        passed = [r for r in terminalreporter.getreports("passed") if r.when == "call" and mark in r.keywords]
        skipped = [r for r in terminalreporter.getreports("skipped") if mark in r.keywords]
        terminalreporter.write_line(f"{name}: {len(passed)} tests passed, {len(skipped)} skipped")
