"""A statement that takes its session with it costs itself, is not sent again, and the next one gets a new session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.scan.profile.profiler import Budget, profile_tables
from ktx_cli.testing.servers import PostgresServer
from ktx_cli.warehouses import server
from ktx_cli.warehouses.base import lost_its_session
from ktx_cli.warehouses.port import Connector, Scope

pytestmark = pytest.mark.postgres
Open = Callable[..., Connector]
DEADLY = (
    "CREATE FUNCTION die() RETURNS int LANGUAGE plpgsql AS"
    " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN 1; END $$",
    "CREATE TABLE a (id int PRIMARY KEY, word text)",
    "CREATE VIEW b AS SELECT 1 AS one, public.die() AS two, 3 AS three",
    "CREATE TABLE c (id int PRIMARY KEY)",
    "INSERT INTO a VALUES (1, 'x')",
)


@pytest.fixture(scope="module")
def shop(postgres_server: PostgresServer) -> str:
    return postgres_server.create_database("deadly", *DEADLY)


def test_it_costs_itself(shop: str, opened: Open) -> None:
    connector = opened("postgres", url=shop)
    with pytest.raises(SourceError, match="the server ended the session, but accepts new ones") as caught:
        connector.query("SELECT two FROM public.b")
    assert (caught.value.code, lost_its_session(caught.value)) == ("query", True)
    assert "exclude" in str(caught.value.hint)
    assert connector.query("SELECT 1").rows == ((1,),)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_scan_goes_on_with_the_next_table_and_does_not_try_column_by_column(
    shop: str, concurrency: int, postgres_server: PostgresServer, opened: Open
) -> None:
    connector = opened("postgres", url=shop)
    tables = connector.introspect(Scope()).tables
    offset = len(postgres_server.log)
    found = profile_tables(connector, tables, Budget(views="always", concurrency=concurrency))
    problems = {each.profile.ref.name: each.profile.problem for each in found.tables}
    assert "ended the session" in str(problems.pop("b"))
    assert problems == {"a": None, "c": None}
    assert postgres_server.log[offset:].count('FROM "public"."b"') <= 2, "the statement, and the log's words on its end"


def test_a_server_that_is_gone_ends_the_scan(shop: str, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    connector: Any = opened("postgres", url=shop)
    tables = connector.introspect(Scope()).tables
    monkeypatch.setattr(server, "RETURN_SECONDS", 0.0)

    def refused() -> None:
        raise psycopg.OperationalError("connection failed: Connection refused")

    monkeypatch.setattr(connector, "_connect", refused)
    connector._pool, lost = connector._make_pool(1), connector._pool
    lost.close()
    with pytest.raises(SourceError) as caught:
        profile_tables(connector, tables, Budget(views="always"))
    assert caught.value.code == "connection"


def test_a_session_lost_on_a_server_that_does_not_come_back_is_a_lost_connection(
    shop: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector: Any = opened("postgres", url=shop)
    monkeypatch.setattr(connector, "_comes_back", lambda pool: False)
    with pytest.raises(SourceError) as caught:
        connector.query("SELECT two FROM public.b")
    assert caught.value.code == "connection"
    assert not lost_its_session(caught.value)
