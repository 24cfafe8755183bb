"""The database servers the tests share, and how many tests ran on each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from ktx_cli.testing.servers import MariaDBServer, PostgresServer, ServerMissingError, TestServer

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


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many tests ran on each server, so that a silent skip shows."""
    for mark, name in SERVERS.items():
        passed = [r for r in terminalreporter.getreports("passed") if r.when == "call" and mark in r.keywords]
        skipped = [r for r in terminalreporter.getreports("skipped") if mark in r.keywords]
        terminalreporter.write_line(f"{name}: {len(passed)} tests passed, {len(skipped)} skipped")
