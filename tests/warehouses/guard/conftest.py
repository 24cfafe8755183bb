"""The four shops that statements are run against."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from ktx_cli.warehouses import base
from ktx_cli.warehouses.duckdb import connector
from tests.worlds.guard_world import DuckDbWorld, MySqlWorld, PostgresWorld, SqliteWorld, World


@pytest.fixture(autouse=True)
def forked_workers() -> None:
    """Have the processes that run statements started as ktx does."""


@pytest.fixture
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits so low that what runs on or grows ends at once."""
    monkeypatch.setattr(base, "STATEMENT_SECONDS", 0.3)
    monkeypatch.setattr(base, "LOCK_SECONDS", 1)
    monkeypatch.setattr(base, "MAX_RESULT_BYTES", 8_000_000)
    monkeypatch.setitem(connector.CLOSED_SETTINGS, "memory_limit", "256MiB")


@pytest.fixture
def make_world(request: pytest.FixtureRequest) -> Iterator[Callable[..., World]]:
    """Make the shop of an engine; it is removed when the test is over."""
    with ExitStack() as stack:

        def make(dialect: str, *, superuser: bool = False) -> World:
            if dialect == "sqlite":
                world: World = SqliteWorld()
            elif dialect == "duckdb":
                world = DuckDbWorld()
            elif dialect == "postgres":
                world = PostgresWorld(request.getfixturevalue("postgres_server"), superuser=superuser)
            else:
                world = MySqlWorld(request.getfixturevalue("mariadb_server"))
            return stack.enter_context(world)

        yield make
