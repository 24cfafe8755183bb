"""Columns named by their table on Postgres and Redshift: what is no column may be a call, and is refused."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import KtxError, SourceError
from ktx_cli.testing.servers import PostgresServer
from ktx_cli.warehouses.dialect import words_in
from ktx_cli.warehouses.guard.check import check
from ktx_cli.warehouses.guard.columns import is_row_function
from ktx_cli.warehouses.guard.functions import StatementRefusedError, listed
from tests.worlds.guard_corpus import read_corpus
from tests.worlds.guard_world import PostgresWorld, World

FULL = bool(os.environ.get("KTX_TEST_FULL"))
CORPUS = Path(__file__).parent / "corpus"
HOSTILE = [case for path in sorted(CORPUS.glob("hostile*.jsonl")) for case in read_corpus(path)]
FUNCTIONAL = [case for case in HOSTILE if case.kind == "functional notation"]
POSITIONS = (CORPUS / "positions.txt").read_text(encoding="utf-8").splitlines()
TABLES = {
    "SELECT * FROM evil(9)",
    "SELECT * FROM evil(9) AS t(a)",
    "SELECT * FROM t, evil(9)",
    "SELECT * FROM t JOIN evil(9) ON TRUE",
    "SELECT * FROM ROWS FROM (evil(9))",
    "SELECT * FROM s.evil(9)",
    "SELECT * FROM t ARRAY JOIN evil(9) AS x",
}
"""Where `x.f` names a table."""

ONE_ARGUMENT = """
SELECT DISTINCT proname,
       provolatile = 'v' AS acts,
       proargtypes::oid[] && ARRAY['record', 'anyelement', '"any"', 'anynonarray', 'anycompatible',
                                   'anycompatiblenonarray']::regtype[]::oid[] AS takes_a_row
FROM pg_proc
WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind <> 'w'
  AND (1 BETWEEN pronargs - pronargdefaults AND pronargs OR provariadic <> 0 AND pronargs - pronargdefaults <= 2)
  AND NOT proargtypes::oid[] && ARRAY['internal', 'cstring']::regtype[]::oid[]
"""
"""What one value can be passed to: the functions that act, and those that take a row."""

INPUT_OR_OUTPUT = ("_recv", "recv", "_out", "_send")

COLUMNS = """
SELECT proname, array_agg(DISTINCT name ORDER BY name)
FROM pg_proc, unnest(proargnames, proargmodes) AS a(name, mode)
WHERE pronamespace = 'pg_catalog'::regnamespace AND mode IN ('o', 'b', 't') AND name <> ''
GROUP BY proname
"""


@contextmanager
def session_of(server: PostgresServer, database: str = "postgres") -> Iterator[Any]:
    import psycopg

    with psycopg.connect(server.url(database), autocommit=True) as session:
        yield session


@pytest.mark.table("case", FUNCTIONAL)
def test_functional_notation_is_refused_as_such(case: Any) -> None:
    with pytest.raises(StatementRefusedError) as caught:
        check(case.sql, case.dialect, max_rows=10)
    assert caught.value.details["rule"] == "attribute"
    assert caught.value.hint


def test_there_are_many_forms_of_it() -> None:
    assert len(FUNCTIONAL) >= 45
    assert len([case for case in HOSTILE if case.kind == "memory and time"]) >= 25


@pytest.mark.table(
    ("sql", "message", "hint"),
    [
        (
            "SELECT x.pg_sleep FROM unnest(ARRAY[1]) AS x",
            "`x.pg_sleep` is not a column of `x`, so the database would call the function `pg_sleep`",
            "write `pg_sleep` without a table, or name the columns in FROM: ... AS x(a, b)",
        ),
        ("SELECT x.totl FROM (SELECT 1 AS total) AS x", "`x.totl` is not a column of `x`", "did you mean `x.total`?"),
        ("SELECT x.b FROM (SELECT 1 AS amount) AS x", "`x.b` is not a column", "the columns of `x` are amount"),
        ("SELECT o.pg_f FROM orders AS o", "`o.pg_f` may call the function `pg_f`", "write it without its table: pg_f"),
        ("SELECT y.a FROM unnest(ARRAY[1]) AS x", "`y.a` may call the function `a`", "write it without its table: a"),
    ],
)
def test_a_refusal_says_what_would_be_called_and_what_to_write(sql: str, message: str, hint: str) -> None:
    with pytest.raises(StatementRefusedError) as caught:
        check(sql, "postgres", max_rows=10)
    assert message in caught.value.message
    assert hint in caught.value.hint if caught.value.hint else False


@pytest.mark.table("dialect", ["postgres", "redshift"])
def test_a_column_that_is_a_call_is_found_wherever_it_stands(dialect: str) -> None:
    through, stopped = set(), 0
    for position in POSITIONS:
        sql = f"SELECT (SELECT 1 FROM ({position.replace('evil(9)', 'x.pg_sleep')}) AS q) FROM abs(1.0) AS x"
        try:
            written = check(sql, dialect, max_rows=3).sql
        except KtxError as error:
            stopped += error.details["rule"] == "attribute"
            continue
        through |= {position} if "pg_sleep" in written.lower() else set()
    assert through == TABLES
    assert stopped > 50


LONG = "a" * 63
SLEEP = "(SELECT 1 AS pg_sleep)"
VALUE = "unnest(ARRAY[1.5::float8])"


@pytest.mark.table(
    ("name", "item", "outer"),
    [
        (f"{LONG}1", f"{VALUE} AS {LONG}2", f"{SLEEP} AS {LONG}1"),
        ("\u00c9", f"{SLEEP} AS \u00e9", f"{VALUE} AS \u00c9"),
        ("\u212a", f"{SLEEP} AS k", f"{VALUE} AS \u212a"),
        ("x", f"((SELECT 1) AS q CROSS JOIN {VALUE} AS x)", f"{SLEEP} AS x"),
        ("x", f"(((SELECT 1) AS q CROSS JOIN {VALUE} AS x))", f"{SLEEP} AS x"),
        ("x", f"(((SELECT 1) AS q CROSS JOIN {VALUE} AS x) CROSS JOIN orders AS o)", f"{SLEEP} AS x"),
        ("btrim", "trim(' 1 ')", f"{SLEEP} AS btrim"),
        ("ltrim", "trim(LEADING ' ' FROM ' 1 ')", f"{SLEEP} AS ltrim"),
        ("float8", "CAST(1.5 AS float8)", f"{SLEEP} AS float8"),
        ("date_part", "extract(second FROM interval '1.5 seconds')", f"{SLEEP} AS date_part"),
        ("strpos", "position('a' IN 'a')", f"{SLEEP} AS strpos"),
        ("unnest", f"ROWS FROM ({VALUE}, {VALUE})", f"{SLEEP} AS unnest"),
    ],
)
def test_a_name_that_the_server_may_take_for_another_is_no_column(name: str, item: str, outer: str) -> None:
    """It cuts names at 63 bytes, folds letters of ASCII alone, and names some functions in its own way."""
    with pytest.raises(StatementRefusedError) as caught:
        check(f"SELECT (SELECT {name}.pg_sleep FROM {item}) FROM {outer}", "postgres", max_rows=3)
    assert caught.value.details["rule"] == "attribute"


@pytest.mark.table(
    "sql",
    [
        "SELECT \u00c9.b FROM (SELECT 1 AS b) AS \u00c9",
        f"SELECT {LONG}1.b FROM (SELECT 1 AS b) AS {LONG}1",
        "SELECT o.id, trim FROM orders AS o, trim(o.note)",
        "SELECT x.b, o.id FROM ((SELECT 1 AS b) AS x CROSS JOIN orders AS o)",
        "SELECT (SELECT max(g) FROM generate_series(1, o.id) AS g) FROM orders AS o",
        "SELECT o.id, (SELECT max(generate_series) + o.id FROM generate_series(1, 3)) FROM orders AS o",
    ],
)
def test_names_that_are_sure_are_columns(sql: str) -> None:
    assert check(sql, "postgres", max_rows=3).sql


def test_other_dialects_have_no_such_notation() -> None:
    for dialect in ("duckdb", "sqlite", "mysql", "snowflake"):
        assert check("SELECT x.pg_total FROM (SELECT 1 AS a) AS x", dialect, max_rows=3).sql


@pytest.mark.postgres
def test_every_function_of_postgres_that_a_row_could_reach_is_refused(postgres_server: PostgresServer) -> None:
    with session_of(postgres_server) as session:
        rows = session.execute(ONE_ARGUMENT).fetchall()
    off = [row for row in rows if row[0] not in listed("postgres")]
    assert len(off) > 100
    through = [name for name, acts, takes_a_row in off if (acts or takes_a_row) and not is_row_function(name)]
    assert [name for name in through if not name.endswith(INPUT_OR_OUTPUT)] == []
    assert {name for name, _, takes_a_row in off if takes_a_row} <= {name for name, *_ in off if is_row_function(name)}


@pytest.mark.postgres
def test_the_columns_of_functions_are_those_of_the_server(postgres_server: PostgresServer) -> None:
    known = {name: set(columns.split(",")) for name, _, columns in _pairs()}
    with session_of(postgres_server) as session:
        there = {name: set(columns) for name, columns in session.execute(COLUMNS).fetchall()}
        functions = {name for (name,) in session.execute("SELECT proname FROM pg_catalog.pg_proc").fetchall()}
    assert known == {name: columns for name, columns in there.items() if name in listed("postgres")}
    assert {name for columns in known.values() for name in columns} & functions <= listed("postgres")


def _pairs() -> Iterator[tuple[str, str, str]]:
    return (word.partition(":") for word in words_in("ktx_cli.warehouses.postgres", "columns.txt"))


@pytest.mark.postgres
def test_functions_of_the_databases_own_are_not_reached_by_a_row(make_world: Callable[..., World]) -> None:
    world = make_world("postgres")
    with world.open() as connector:
        sql = check("SELECT v.visitor FROM public.visits AS v", "postgres", max_rows=3).sql
        with pytest.raises(SourceError, match=r"column v\.visitor does not"):
            connector.query(sql)
        assert connector.query("SELECT public.visitor(v) FROM public.visits AS v").rows == (("n",),)


@pytest.mark.postgres
@pytest.mark.parametrize("superuser", [False, True])
def test_with_the_guard_no_hostile_statement_has_an_effect(
    make_world: Callable[..., World], short_limits: None, superuser: bool
) -> None:
    world = make_world("postgres", superuser=superuser)
    before = world.state()
    with world.open() as connector:
        for case in HOSTILE:
            if case.dialect != "postgres":
                continue
            try:
                connector.query(check(world.here(case.sql), "postgres", max_rows=10).sql, max_rows=10)
            except KtxError:
                continue
    assert world.state() == before


@pytest.mark.slow
@pytest.mark.postgres
def test_no_statement_of_nested_scopes_calls_a_function_nobody_knows(postgres_server: PostgresServer) -> None:
    world = PostgresWorld(postgres_server, superuser=True)
    with world, session_of(postgres_server, world.name) as session:
        session.execute("CREATE SEQUENCE public.calls")
        for kind in ("float8", "text"):
            body = f"SELECT nextval(''public.calls'')::{kind}"
            session.execute(f"CREATE FUNCTION pg_catalog.unheard({kind}) RETURNS {kind} LANGUAGE sql AS '{body}'")
        session.execute("SET search_path = pg_catalog, pg_temp")
        session.execute("SET statement_timeout = 2000")
        statements = [*_nested(random.Random(17), 1500), *_renamed()]
        ran = [sql for sql in statements[:: 1 if FULL else 5] if _runs(session, sql)]
        assert session.execute("SELECT is_called FROM public.calls").fetchone() == (False,)
        assert len(ran) > (50 if FULL else 10)
        session.execute("SELECT x.unheard FROM unnest(ARRAY[1.0::float8]) AS x")  # it would have been noticed
        assert session.execute("SELECT is_called FROM public.calls").fetchone() == (True,)


def _renamed() -> Iterator[str]:
    """Yield statements in which a function behind FROM may have the name of what stands further out."""
    functions = {
        "trim(' 1 ')": "btrim", "trim(LEADING 'x' FROM '1')": "ltrim", "CAST(1.5 AS float8)": "float8",
        "extract(second FROM interval '1 s')": "extract", "coalesce(1.0::float8)": "coalesce",
        "substring('a' FROM 1)": "substring", "ceiling(1.0::float8)": "ceiling", "log10(10.0::float8)": "log10",
        "nullif('a', 'b')": "nullif", "abs(1.0::float8)": "abs", "ROWS FROM (lower('q'), upper('q'))": "lower",
    }  # fmt: skip
    places = (
        "{0}", "((SELECT 1) AS z CROSS JOIN {0})", "(((SELECT 1) AS z CROSS JOIN {0}))",
        "public.orders AS z LEFT JOIN {0} ON TRUE", "LATERAL {0}",
    )  # fmt: skip
    for function, own in functions.items():
        aliases = (("", f'"{own}"'), (" AS x", "x"), (" AS \u00c9", "\u00e9"), (f" AS {LONG}1", f"{LONG}2"))
        for place in places:
            for alias, name in aliases:
                item, outer = place.format(function + alias), f"(SELECT 1.0::float8 AS unheard) AS {name}"
                yield f"SELECT (SELECT {name}.unheard FROM {item} LIMIT 1) FROM {outer}"
                yield f"SELECT 1 FROM {outer} WHERE EXISTS (SELECT 1 FROM {item} WHERE {name}.unheard IS NOT NULL)"


def _runs(session: Any, sql: str) -> bool:
    """Whether a statement gets through the guard and is then run without an error."""
    import psycopg

    try:
        session.execute(check(sql, "postgres", max_rows=5).sql)
    except (KtxError, psycopg.Error):
        return False
    return True


def _nested(chosen: random.Random, count: int) -> Iterator[str]:
    """Yield statements whose aliases hide each other in all the ways there are."""
    names = ("a", "unheard")

    def column() -> str:
        return f"{chosen.choice('xxy')}.{chosen.choice(names)}"

    def function(depth: int) -> str:
        value = chosen.choice(["1.0::float8", "1.0::float8", f"{column()}::float8", f"({query(depth - 1)})::float8"])
        forms = (f"unnest(ARRAY[{value}])", f"abs({value})", "lower('q')", f"ROWS FROM (abs({value}))")
        return chosen.choice([*forms, "json_array_elements_text('[1]')", "current_user"])

    def alias(name: str) -> str:
        return chosen.choice([f" AS {name}", f" AS {name}", f" AS {name}({chosen.choice(names)})"])

    def item(depth: int, name: str) -> str:
        kind = chosen.random()
        if kind < 0.4 or depth <= 0:
            return function(min(depth, 0)) + alias(name) if depth <= 0 else function(depth) + alias(name)
        if kind < 0.6:
            return chosen.choice([f"public.orders AS {name}", f"w AS {name}", f"(VALUES (1.0::float8)){alias(name)}"])
        if kind < 0.7:
            inner = item(depth - 1, "y")
            return f"(public.orders AS x JOIN {inner} ON {chosen.choice(['TRUE', column() + ' IS NULL'])}) AS {name}"
        return f"{chosen.choice(['', 'LATERAL '])}({query(depth - 1)}){alias(name)}"

    def query(depth: int) -> str:
        if depth < 0:
            return f"SELECT {column()}"
        first, other = chosen.sample(["x", "y"], 2)
        tail = chosen.choice(["", "", f", {item(depth, other)}", f" JOIN {item(depth, other)} ON {column()} IS NULL"])
        output = chosen.choice([column(), f"1.0::float8 AS {chosen.choice(names)}", f"({query(depth - 1)}) AS a"])
        with_ = f"WITH w AS ({query(depth - 1)}) " if depth and chosen.random() < 0.3 else ""
        where = chosen.choice(["", "", f" WHERE {column()} IS NULL OR TRUE", f" ORDER BY {column()}"])
        return f"{with_}SELECT {output} FROM {item(depth, first)}{tail}{where}"

    return (query(chosen.randint(0, 2)) for _ in range(count))
