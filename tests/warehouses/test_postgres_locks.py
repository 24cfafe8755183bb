"""Postgres tables that another session has locked: they are named, and all else is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.testing.servers import PostgresServer
from ktx_cli.warehouses import base
from ktx_cli.warehouses.base import LOCKED
from ktx_cli.warehouses.port import Connector, Scope
from ktx_cli.warehouses.postgres.catalog import ROUNDS, LockedReader

Open = Callable[..., Connector]


@pytest.fixture(scope="module")
def database(postgres_server: PostgresServer) -> str:
    return postgres_server.create_database(
        "locks",
        "CREATE TABLE plain (a int PRIMARY KEY)",
        "CREATE TABLE defaulted (a int DEFAULT 3, b int GENERATED ALWAYS AS IDENTITY)",
        "CREATE TABLE other (a int DEFAULT 5)",
        "CREATE VIEW over_plain AS SELECT a FROM plain",
        "CREATE VIEW over_view AS SELECT a FROM over_plain",
        "CREATE MATERIALIZED VIEW stored AS SELECT a FROM defaulted",
        "CREATE TABLE parted (a int) PARTITION BY RANGE (a)",
        "CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (5)",
        "CREATE ROLE locks_reader LOGIN PASSWORD 'reader'",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO locks_reader",
    )


@pytest.fixture
def lock(database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Lock a relation as ALTER TABLE does (a materialized view as REFRESH does), until the test is over."""
    monkeypatch.setattr(base, "LOCK_SECONDS", 0.2)
    with psycopg.connect(database) as holder:

        def take(name: str) -> None:
            statement = f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE"
            holder.execute((f"REFRESH MATERIALIZED VIEW {name}" if name == "stored" else statement).encode())

        yield take
        holder.rollback()


ALL = ("defaulted", "other", "over_plain", "over_view", "parted", "plain", "stored")


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("locked", "left_out"),
    [
        ("plain", ["over_plain"]),
        ("defaulted", ["defaulted", "stored"]),
        ("over_plain", ["over_plain", "over_view"]),
        ("stored", ["stored"]),
        ("part", []),
        ("parted", []),
    ],
)
@pytest.mark.parametrize("role", ["postgres", "locks_reader"])
def test_only_what_is_locked_is_left_out(
    locked: str,
    left_out: list[str],
    role: str,
    lock: Callable[[str], None],
    database: str,
    postgres_server: PostgresServer,
    opened: Open,
) -> None:
    lock(locked)
    password = "postgres" if role == "postgres" else "reader"
    connector = opened("postgres", url=postgres_server.url("locks", role, password))
    assert connector.test(Scope()).tables == len(ALL)
    schema = connector.introspect(Scope())
    assert [table.ref.name for table in schema.tables] == [name for name in ALL if name not in left_out]
    assert [problem.ref.name for problem in schema.problems if problem.ref] == left_out
    assert all(problem.message.startswith("locked by another session (pid ") for problem in schema.problems)
    defaults = {column.default for table in schema.tables if table.ref.name == "other" for column in table.columns}
    assert defaults == {"5"}


@pytest.mark.postgres
def test_nothing_is_missing_when_the_lock_is_gone(lock: Callable[[str], None], database: str, opened: Open) -> None:
    schema = opened("postgres", url=database).introspect(Scope())
    assert [table.ref.name for table in schema.tables] == list(ALL)
    assert schema.problems == ()
    defaults = {c.name: c.default for t in schema.tables if t.ref.name == "defaulted" for c in t.columns}
    assert defaults == {"a": "3", "b": "GENERATED ALWAYS AS IDENTITY"}


@pytest.mark.postgres
def test_a_query_that_meets_a_lock(lock: Callable[[str], None], database: str, opened: Open) -> None:
    connector = opened("postgres", url=database)
    lock("plain")
    with pytest.raises(SourceError, match="locked by another session") as caught:
        connector.query("SELECT a FROM public.plain")
    assert caught.value.code == "timeout"
    hint = caught.value.hint or ""
    assert "WHERE clause" not in hint
    holders = hint.partition("to find it: ")[2]
    assert [query for _, query in connector.query(holders).rows] == ["LOCK TABLE plain IN ACCESS EXCLUSIVE MODE"]


@pytest.mark.postgres
def test_a_catalog_that_is_locked(lock: Callable[[str], None], database: str, opened: Open) -> None:
    connector = opened("postgres", url=database)
    lock("pg_catalog.pg_attrdef")
    with pytest.raises(SourceError, match="locked by another session") as caught:
        connector.introspect(Scope())
    assert (caught.value.code, caught.value.exit_code) == ("timeout", 1)


class LockError(Exception):
    pass


class FakeReader:
    """Fails while one of the given relations is asked for; `holders` are the answers to who holds what."""

    def __init__(self, locked: set[int], holders: list[list[tuple[int, int | None]]]) -> None:
        self.locked = locked
        self.holders = holders
        self.asked: list[list[int]] = []

    def __call__(self, sql: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        if sql != "SQL":
            return list(self.holders.pop(0))
        self.asked.append(list(parameters[0]))
        if self.locked & set(parameters[0]):
            raise LockError
        return [(oid,) for oid in parameters[0]]


@pytest.mark.table(
    ("locked", "holders", "asked", "reasons"),
    [
        (set(), [], [[1, 2, 3]], {}),
        ({2}, [[(2, 77), (9, 77)]], [[1, 2, 3], [1, 3]], {2: f"{LOCKED} (pid 77)"}),
        ({2}, [[], [(2, None)]], [[1, 2, 3], [1, 2, 3], [1, 3]], {2: LOCKED}),
        ({1, 2, 3}, [[(1, None), (2, None), (3, None)]], [[1, 2, 3]], dict.fromkeys([1, 2, 3], LOCKED)),
    ],
)  # fmt: skip
def test_rounds(
    locked: set[int], holders: list[list[tuple[int, int | None]]], asked: list[list[int]], reasons: dict[int, str]
) -> None:
    reader = FakeReader(locked, holders)
    locks = LockedReader(reader, LockError)
    assert locks("SQL", [1, 2, 3], [1, 2, 3, 9]) == [(oid,) for oid in (1, 2, 3) if oid not in reasons]
    assert (reader.asked, locks.reasons) == (asked, reasons)


def test_what_is_known_to_be_locked_is_not_waited_for_again() -> None:
    reader = FakeReader({2, 9}, [[(2, 77), (9, 77)]])
    locks = LockedReader(reader, LockError)
    locks("SQL", [1, 2], [1, 2, 9])
    assert set(locks.reasons) == {2}
    assert locks("SQL", [9], [1, 2, 9]) == []
    assert set(locks.reasons) == {2, 9}
    assert reader.asked == [[1, 2], [1]]


def test_locks_that_keep_coming() -> None:
    reader = FakeReader({1}, [[]] * ROUNDS)
    with pytest.raises(LockError):
        LockedReader(reader, LockError)("SQL", [1], [1])
    assert len(reader.asked) == ROUNDS
