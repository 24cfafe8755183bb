"""Every hostile statement is stopped, by the guard or by the session; every honest one is let through."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import KtxError, SourceError
from ktx_cli.warehouses.dialect import DIALECTS
from ktx_cli.warehouses.guard.check import check
from ktx_cli.warehouses.guard.functions import EITHER
from tests.worlds.guard_corpus import Case, read_corpus, shape_of
from tests.worlds.guard_world import World

ENGINES = [
    "sqlite",
    "duckdb",
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("mysql", marks=pytest.mark.mysql),
]
CORPUS = Path(__file__).parent / "corpus"
HOSTILE = [case for path in sorted(CORPUS.glob("hostile*.jsonl")) for case in read_corpus(path)]
HONEST = [case for path in sorted(CORPUS.glob("honest*.jsonl")) for case in read_corpus(path)]
BOUNDED_BY_THE_SESSION = {"x034", "x048", "x049", "x050"}
"""What the guard lets through: their size shows only when they run, and the session's limits end them."""

EVERY = 1 if os.environ.get("KTX_TEST_FULL") else 16
"""Of how many hostile statements one is run without the guard: each takes up to the limit of its time."""

HELD_OUT_MISSES = 7
"""How many held-out statements the guard let through when it was finished, before they were looked at."""

TOO_LARGE_TO_RUN = {"h191"}
"""Postgres sends a value of a gigabyte as one piece; no setting of a session bounds it."""

ENDED_SESSIONS = {"f002"}
"""What ends another session of the same role, which no session that only reads is kept from."""

SUPERUSER_EFFECTS = {"h090", "h218", "h224"} | ENDED_SESSIONS
"""What a superuser of Postgres changes from a session that only reads: files, settings, statistics."""

HEADERS_OF_ANOTHER_NAME = {"g024", "g104", "g115", "g127", "g133"}
"""Columns without an alias that are named in another way: a comment in SQLite's text, what DuckDB spells out."""

SUPERUSER_READS = {"h071", "h072", "h073", "h074", "x012", "h168", "h169", "h172"}
"""What a superuser of Postgres reads besides tables: the server's files, password hashes, paths."""


def of(cases: Iterable[Case], dialect: str) -> list[Case]:
    return [case for case in cases if case.dialect == dialect]


def test_the_corpora_are_as_large_as_they_claim() -> None:
    design = [case for case in HOSTILE if case.id.startswith("h")]
    held_out = [case for case in HOSTILE if case.id.startswith("x")]
    assert len(design) >= 150
    assert len(held_out) >= 40
    assert len(HONEST) >= 150
    assert len({case.kind for case in HOSTILE}) >= 15
    assert {case.dialect for case in HOSTILE} == {case.dialect for case in HONEST} == set(DIALECTS)
    assert len({case.id for case in HOSTILE + HONEST}) == len(HOSTILE) + len(HONEST)


def test_no_two_hostile_statements_are_the_same_in_kind() -> None:
    shapes = defaultdict(list)
    for case in HOSTILE:
        shapes[shape_of(case.sql)].append(case.id)
    assert [ids for ids in shapes.values() if len(ids) > 1] == []


@pytest.mark.table("case", HOSTILE)
def test_the_guard_stops_a_hostile_statement(case: Case) -> None:
    if case.id in BOUNDED_BY_THE_SESSION:
        check(case.sql, case.dialect, max_rows=100)
        return
    with pytest.raises(SourceError) as caught:
        check(case.sql, case.dialect, max_rows=100, server=EITHER)
    assert caught.value.code in ("read_only", "query")
    assert caught.value.details["construct"]
    assert caught.value.hint


def test_what_the_guard_missed_of_the_held_out_part_is_counted() -> None:
    missed = [case for case in HOSTILE if case.missed]
    assert all(case.id.startswith("x") for case in missed)
    assert len(missed) == HELD_OUT_MISSES
    assert {case.id for case in missed} >= BOUNDED_BY_THE_SESSION


@pytest.mark.table("case", HONEST)
def test_an_honest_statement_is_let_through(case: Case) -> None:
    assert check(case.sql, case.dialect, max_rows=100, server=EITHER).sql


@pytest.mark.parametrize("dialect", ENGINES)
def test_sessions_alone_leave_no_effect(dialect: str, make_world: Callable[..., World], short_limits: None) -> None:
    world = make_world(dialect)
    with world.open() as connector:
        found = effects(world, connector.query, dialect, ENDED_SESSIONS)
    assert set(found) == (ENDED_SESSIONS if dialect == "postgres" else set())


@pytest.mark.parametrize("dialect", ENGINES)
def test_what_the_guard_lets_through_ends_within_the_limits(
    dialect: str, make_world: Callable[..., World], short_limits: None
) -> None:
    world = make_world(dialect)
    before = world.state()
    with world.open() as connector:
        for case in of(HOSTILE, dialect):
            if case.id in BOUNDED_BY_THE_SESSION:
                _run(connector.query, check(case.sql, dialect, max_rows=100).sql)
    assert world.state() == before


@pytest.mark.slow
@pytest.mark.postgres
def test_a_superuser_of_postgres_can_leave_the_session(make_world: Callable[..., World], short_limits: None) -> None:
    world = make_world("postgres", superuser=True)
    with world.open() as connector:
        assert set(effects(world, connector.query, "postgres", SUPERUSER_EFFECTS)) == SUPERUSER_EFFECTS
        for case in HOSTILE:
            if case.id in SUPERUSER_READS:
                connector.query(case.sql, max_rows=1)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dialect", ENGINES)
def test_an_honest_statement_means_the_same_when_it_is_written_anew(
    dialect: str, make_world: Callable[..., World]
) -> None:
    world = make_world(dialect)
    cases = of(HONEST, dialect)
    with world.open() as connector:
        for case in cases:
            schema_of = _schema if dialect == "postgres" else None
            checked = check(case.sql, dialect, max_rows=100, schema_of=schema_of, server=EITHER)
            own = connector.query(checked.sql, max_rows=100)
            if case.kind == "explain":
                assert own.rows
                continue
            there = _raw(connector.query, case.sql, dialect)
            assert Counter(map(repr, own.rows)) == Counter(map(repr, there.rows)), case.id
            assert len(own.columns) == len(there.columns), case.id
            if case.id not in HEADERS_OF_ANOTHER_NAME:
                assert checked.columns(own.columns) == there.columns, case.id
    assert len(cases) >= 15


def effects(world: World, query: Callable[..., object], dialect: str, known: Collection[str] = ()) -> list[str]:
    """Run hostile statements of a dialect without the guard; return those that changed something.

    `known`: those of which it is expected; they run in any case, of the others every `EVERY`th.
    """
    changed = []
    before = world.state()
    for number, case in enumerate(of(HOSTILE, dialect)):
        if case.id not in TOO_LARGE_TO_RUN and (number % EVERY == 0 or case.id in known):
            _run(query, world.here(case.sql))
            after = world.state()
            if after != before:
                changed.append(case.id)
                after = world.state()  # with another session in place of one that was ended
            before = after
    return changed


def _run(query: Callable[..., object], sql: str) -> None:
    try:
        query(sql, max_rows=100)
    except KtxError:
        pass


def _schema(table: str) -> str | None:
    return None if table.startswith("pg_") or table == "current_user" else "public"


def _raw(query: Callable[..., Any], sql: str, dialect: str) -> Any:
    """Run a statement as it was written, but for what the session wants of Postgres and DuckDB."""
    if dialect == "postgres":
        names = re.compile(r"(?<![\w.\"])((?:FROM|JOIN|TABLE|,) \(?)(customers|orders|categories|visits)\b")
        sql = names.sub(r"\1public.\2", sql, count=1 if sql.startswith("WITH orders") else 0)
    if dialect == "duckdb":
        sql = sql.replace("x -> x", "lambda x: x")
    return query(sql.rstrip("; "), max_rows=100)
