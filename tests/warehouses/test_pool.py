"""Open connections are lent to one caller at a time, kept for the next one, and never used on another file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

from ktx_cli.core.errors import KtxError
from ktx_cli.project.config.file import load_config
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.warehouses import pool as pooling
from ktx_cli.warehouses.pool import ConnectorPool, Pool, PoolBusyError
from ktx_cli.warehouses.port import Connector

CONFIG = b"connections:\n  shop:\n    driver: duckdb\n    path: shop.duckdb\n"


def database(path: Path, value: int) -> None:
    with duckdb.connect(str(path)) as session:
        session.execute(f"CREATE TABLE t AS SELECT {value} AS v")


@pytest.fixture
def config(tmp_path: Path) -> KtxConfig:
    database(tmp_path / "shop.duckdb", 1)
    return load_config(tmp_path / "ktx.yaml", data=CONFIG).config


@pytest.fixture
def pool() -> Iterator[ConnectorPool]:
    made = ConnectorPool(idle_seconds=60)
    yield made
    made.close()


def opened(pool: ConnectorPool, config: KtxConfig, folder: Path) -> Connector:
    return pool.open(config, "shop", project_dir=folder, environ={})[0]


def value(pool: ConnectorPool, config: KtxConfig, folder: Path) -> int:
    with opened(pool, config, folder) as connector:
        return int(connector.query("SELECT v FROM t").rows[0][0])


@pytest.fixture
def opens(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    inner = pooling.open_connection

    def counted(config: KtxConfig, connection: str, **rest: object) -> object:
        found.append(connection)
        return inner(config, connection, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(pooling, "open_connection", counted)
    return found


def test_the_next_caller_gets_the_same_connection(
    pool: ConnectorPool, config: KtxConfig, tmp_path: Path, opens: list[str]
) -> None:
    assert [value(pool, config, tmp_path) for _ in range(3)] == [1, 1, 1]
    assert opens == ["shop"]


def test_two_callers_at_once_have_a_connection_each(
    pool: ConnectorPool, config: KtxConfig, tmp_path: Path, opens: list[str]
) -> None:
    with opened(pool, config, tmp_path) as one, opened(pool, config, tmp_path) as other:
        assert one.query("SELECT v FROM t").rows == other.query("SELECT v FROM t").rows
    assert opens == ["shop", "shop"]


def test_another_file_in_its_place_is_opened_anew(
    pool: ConnectorPool, config: KtxConfig, tmp_path: Path, opens: list[str]
) -> None:
    assert value(pool, config, tmp_path) == 1
    database(tmp_path / "new.duckdb", 2)
    os.replace(tmp_path / "new.duckdb", tmp_path / "shop.duckdb")
    assert value(pool, config, tmp_path) == 2
    assert opens == ["shop", "shop"]


def test_other_settings_get_another_connection(
    pool: ConnectorPool, config: KtxConfig, tmp_path: Path, opens: list[str]
) -> None:
    assert value(pool, config, tmp_path) == 1
    shutil.copy(tmp_path / "shop.duckdb", tmp_path / "copy.duckdb")
    other = load_config(tmp_path / "ktx.yaml", data=CONFIG.replace(b"shop.duckdb", b"copy.duckdb")).config
    assert value(pool, other, tmp_path) == 1
    assert opens == ["shop", "shop"]


def test_an_error_of_the_statement_keeps_the_connection_and_one_of_the_session_does_not(
    pool: ConnectorPool, config: KtxConfig, tmp_path: Path, opens: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(pool, config, tmp_path) as connector, pytest.raises(KtxError, match="nobody"):
        connector.query("SELECT v FROM nobody")
    assert value(pool, config, tmp_path) == 1
    assert opens == ["shop"]
    with opened(pool, config, tmp_path) as connector:
        connector.inner.close()  # type: ignore[attr-defined]
        with pytest.raises(KtxError, match="closed"):
            connector.query("SELECT v FROM t")
    assert value(pool, config, tmp_path) == 1
    assert opens == ["shop", "shop"]


def test_idle_connections_are_closed_so_that_the_file_can_be_written_to(config: KtxConfig, tmp_path: Path) -> None:
    pool = ConnectorPool(idle_seconds=0.0)
    connector = opened(pool, config, tmp_path)
    inner = connector.inner  # type: ignore[attr-defined]
    connector.close()
    sweeper = pool._pool._sweeper
    if sweeper is not None:
        sweeper.join()
    assert inner._connection is None
    assert pool._pool._idle == {}


def test_a_pool_that_is_closed_lets_go_of_all(config: KtxConfig, tmp_path: Path) -> None:
    pool = ConnectorPool(idle_seconds=60)
    connector = opened(pool, config, tmp_path)
    connector.close()
    connector.close()
    pool.close()
    assert connector.inner._connection is None  # type: ignore[attr-defined]


def test_no_more_are_kept_than_are_worth_it(config: KtxConfig, tmp_path: Path, pool: ConnectorPool) -> None:
    lent = [opened(pool, config, tmp_path) for _ in range(pooling.MOST_IDLE + 2)]
    for each in lent:
        each.close()
    assert [len(each) for each in pool._pool._idle.values()] == [pooling.MOST_IDLE]


def test_a_connection_used_often_enough_is_closed(
    config: KtxConfig, tmp_path: Path, opens: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooling, "MOST_USES", 2)
    pool = ConnectorPool(idle_seconds=60)
    assert [value(pool, config, tmp_path) for _ in range(5)] == [1] * 5
    assert len(opens) == 3
    pool.close()


class Sessions:
    """Makes numbered sessions and remembers which were closed."""

    def __init__(self, most_open: int | None = None) -> None:
        self.made = 0
        self.ended: list[int] = []
        self.pool: Pool[int] = Pool(self.ended.append, most_open=most_open)

    def make(self) -> int:
        self.made += 1
        return self.made


def test_no_more_are_open_than_may_be() -> None:
    sessions = Sessions(most_open=2)
    first, second = (sessions.pool.take(sessions.make) for _ in range(2))
    with pytest.raises(PoolBusyError):
        sessions.pool.take(sessions.make, wait=0.01)
    sessions.pool.give_back(second)
    assert sessions.pool.take(sessions.make).item == second.item
    sessions.pool.give_back(first, keep=False)
    assert (sessions.pool.take(sessions.make).item, sessions.ended) == (3, [1])


def test_a_caller_that_waits_gets_the_session_another_gives_back() -> None:
    sessions = Sessions(most_open=1)
    lent = sessions.pool.take(sessions.make)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(sessions.pool.take, sessions.make, wait=30)
        sessions.pool.give_back(lent)
        assert waiting.result().item == 1


def test_a_session_that_cannot_be_opened_takes_no_place() -> None:
    sessions = Sessions(most_open=1)

    def refuse() -> int:
        raise ConnectionRefusedError

    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            sessions.pool.take(refuse)
    assert sessions.pool.take(sessions.make).item == 1


def test_what_is_lent_when_the_pool_is_closed_is_closed_when_it_comes_back() -> None:
    sessions = Sessions()
    lent, idle = (sessions.pool.take(sessions.make) for _ in range(2))
    sessions.pool.give_back(idle)
    sessions.pool.close()
    assert sessions.ended == [idle.item]
    sessions.pool.give_back(lent)
    assert sessions.ended == [idle.item, lent.item]
