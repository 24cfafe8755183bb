"""Postgres databases whose authors gave their own functions, operators and types the names of the system's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.testing.servers import PostgresServer
from ktx_cli.warehouses.port import Connector, Scope
from ktx_cli.warehouses.postgres import catalog
from ktx_cli.warehouses.postgres import connector as postgres
from ktx_cli.warehouses.postgres.connector import PostgresConnector

Open = Callable[..., Connector]
STATEMENTS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": value
    for module in (postgres, catalog, catalog)
    for name, value in vars(module).items()
    if re.match("_[A-Z]", name) and isinstance(value, str) and "SELECT" in value and name != "_LOCK_HOLDERS"
}
FUNCTIONS = sorted({name for sql in STATEMENTS.values() for name in re.findall(r"pg_catalog\.(\w+)\(", sql)})
GRAMMAR = {
    "ANY",
    "IN",
    "AS",
    "EXISTS",
    "coalesce",
    "part",
    "server",
    "guarded",
    "written",
    "k",
    "own",
    "SELECT",
    "LATERAL",
    "JOIN",
    "FROM",
    "NOT",
    "AND",
    "OR",
    "THEN",
}
"""What may stand before a bracket and is no function: words of SQL's own, and aliases with their columns."""

TABLES = (
    "CREATE TYPE mood AS ENUM ('a', 'b')",
    "CREATE TABLE parent (id int GENERATED ALWAYS AS IDENTITY, k varchar(7) DEFAULT 'x', m mood, PRIMARY KEY (id, k))",
    "CREATE TABLE child (x int, y varchar(7), FOREIGN KEY (x, y) REFERENCES parent (id, k))",
    "CREATE INDEX plain ON parent (k, m)",
    "CREATE TABLE parted (a int) PARTITION BY RANGE (a)",
    "CREATE TABLE part_1 PARTITION OF parted FOR VALUES FROM (0) TO (5)",
    "CREATE VIEW v AS SELECT id FROM parent",
    "COMMENT ON TABLE parent IS 'about parent'",
    "ANALYZE parent, child, part_1",
)
# Every overload of every function, and every comparison, under its own name and with its own types.
SHADOWS = r"""
DO $do$
DECLARE f pg_catalog.record; n int := 0;
BEGIN
  FOR f IN SELECT p.proname AS name, pg_catalog.pg_get_function_identity_arguments(p.oid) AS arguments,
                  pg_catalog.pg_get_function_result(p.oid) AS result
           FROM pg_catalog.pg_proc AS p
           WHERE p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace AND p.proname = ANY('{FUNCTIONS}'::text[])
             AND 'internal' <> ALL (p.proargtypes::regtype[]::text[])
  LOOP
    EXECUTE pg_catalog.format($$CREATE FUNCTION SCHEMA.%I(%s) RETURNS %s LANGUAGE plpgsql AS
                                'BEGIN RAISE EXCEPTION ''shadowed''; END'$$, f.name, f.arguments, f.result);
  END LOOP;
  FOR f IN SELECT o.oprname AS name, o.oprleft::regtype AS l, o.oprright::regtype AS r FROM pg_catalog.pg_operator AS o
           WHERE o.oprname IN ('=', '<>', '>=', '<=', '<', '>') AND o.oprresult = 'bool'::regtype
             AND (o.oprleft, o.oprright) <> ('anyarray'::regtype, 'anyarray'::regtype)
  LOOP
    n := n + 1;
    EXECUTE pg_catalog.format($$CREATE FUNCTION SCHEMA.compare_%s(%s, %s) RETURNS bool LANGUAGE plpgsql AS
                                'BEGIN RAISE EXCEPTION ''shadowed''; END'$$, n, f.l, f.r);
    EXECUTE pg_catalog.format('CREATE OPERATOR SCHEMA.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = SCHEMA.compare_%s)',
                              f.name, f.l, f.r, n);
  END LOOP;
  -- what no built-in comparison fits exactly
  CREATE FUNCTION SCHEMA.compare(real, int) RETURNS bool LANGUAGE plpgsql AS
    'BEGIN RAISE EXCEPTION ''shadowed''; END';
  CREATE OPERATOR SCHEMA.>= (LEFTARG = real, RIGHTARG = int, FUNCTION = SCHEMA.compare);
  CREATE OPERATOR SCHEMA.= (LEFTARG = real, RIGHTARG = int, FUNCTION = SCHEMA.compare);
  FOR f IN SELECT c.relname AS name FROM pg_catalog.pg_class AS c
           WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind IN ('r', 'v')
  LOOP
    EXECUTE pg_catalog.format('CREATE VIEW SCHEMA.%I AS SELECT 1 AS nothing', f.name);
  END LOOP;
  FOR f IN SELECT pg_catalog.unnest(ARRAY['text', 'oid', 'regclass', 'float8', 'int2', 'int4', 'int8', 'name', 'bool'])
                  AS name
  LOOP
    EXECUTE pg_catalog.format('CREATE DOMAIN SCHEMA.%I AS varchar CHECK (false)', f.name);
  END LOOP;
END $do$
"""


def shadows(schema: str) -> str:
    return SHADOWS.replace("{FUNCTIONS}", "{" + ",".join(FUNCTIONS) + "}").replace("SCHEMA", schema)


@pytest.fixture(scope="module")
def honest(postgres_server: PostgresServer) -> str:
    return postgres_server.create_database("honest", *TABLES)


@pytest.fixture(scope="module")
def hostile(postgres_server: PostgresServer) -> str:
    """The same tables, shadows of everything in the schema `evil`, and a path that has it first."""
    url = postgres_server.create_database(
        "hostile",
        *TABLES,
        "CREATE SCHEMA evil",
        shadows("evil"),
        "CREATE FUNCTION evil.lower(varchar) RETURNS text LANGUAGE sql AS 'SELECT ''shadowed''::pg_catalog.text'",
        "CREATE FUNCTION public.lower(varchar) RETURNS text LANGUAGE sql AS 'SELECT ''shadowed'''",
        "ALTER DATABASE hostile SET search_path = evil, public, pg_catalog",
        "ALTER ROLE postgres IN DATABASE hostile SET search_path = evil, public, pg_catalog",
    )
    with psycopg.connect(url, autocommit=True) as plain:
        assert plain.execute("SELECT lower('A'::varchar)").fetchone() == ("shadowed",)
        with pytest.raises(psycopg.errors.RaiseException, match="shadowed"):
            plain.execute("SELECT unnest('{1}'::smallint[])")
    return url


@pytest.fixture(params=["arrived", "dropped"])
def settings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether the settings of the log-in arrive, or a pooler in between drops them."""
    if request.param == "dropped":
        own = PostgresConnector._parameters
        monkeypatch.setattr(PostgresConnector, "_parameters", lambda self: {**own(self), "options": ""})
    return str(request.param)


SCOPE = Scope(schemas=("public",))


@pytest.mark.postgres
def test_shadows_change_nothing(settings: str, honest: str, hostile: str, opened: Open) -> None:
    expected = opened("postgres", url=honest).introspect(SCOPE)
    assert len(expected.tables) == 4
    found = opened("postgres", url=hostile).introspect(SCOPE)
    assert found.problems == expected.problems == ()
    assert found.tables == expected.tables


@pytest.mark.postgres
def test_a_connection_test_meets_no_shadow(settings: str, hostile: str, opened: Open) -> None:
    found = opened("postgres", url=hostile).test(SCOPE)
    assert (found.tables, found.database, found.user) == (4, "hostile", "postgres")


@pytest.mark.postgres
def test_the_path_is_the_same_from_the_first_statement_to_the_last(settings: str, hostile: str, opened: Open) -> None:
    connector = opened("postgres", url=f"{hostile}?options=-csearch_path%3Devil", maxConnections=1)
    path = "SELECT current_setting('search_path'), lower('A'::varchar)"
    assert connector.query(path).rows == (("pg_catalog, pg_temp", "a"),)
    assert connector.query("SELECT set_config('search_path', 'evil', false)").rows == (("evil",),)
    assert connector.query("SELECT 1 WHERE false").rows == ()
    with pytest.raises(SourceError):
        connector.query("SELECT set_config('search_path', 'evil', false), 1 / 0")
    assert connector.query(path).rows == (("pg_catalog, pg_temp", "a"),)
    assert connector.introspect(SCOPE).problems == ()


@pytest.mark.postgres
def test_a_session_without_its_settings_only_reads_too(
    honest: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = PostgresConnector._parameters
    monkeypatch.setattr(PostgresConnector, "_parameters", lambda self: {**own(self), "options": ""})
    connector: Any = opened("postgres", url=honest)
    assert connector.query("SHOW statement_timeout").rows == (("30s",),)
    with connector._rows() as read:
        assert read("SHOW transaction_read_only") == [("on",)]
        assert read("SHOW lock_timeout") == [("5s",)]


@pytest.mark.postgres
def test_a_function_of_public_is_not_called(postgres_server: PostgresServer, opened: Open) -> None:
    url = postgres_server.create_database("planted", *TABLES, shadows("public"))
    schema = opened("postgres", url=url).introspect(Scope(enabled_tables=("public.parent",)))
    assert schema.problems == ()
    assert schema.tables[0].primary_key == ("id", "k")


@pytest.mark.postgres
@pytest.mark.parametrize("sql", ["SELECT id FROM parent", "SELECT 'a'::mood", "SELECT own(1)"])
def test_a_name_without_a_schema_says_what_to_write(sql: str, honest: str, opened: Open) -> None:
    with pytest.raises(SourceError) as caught:
        opened("postgres", url=honest).query(sql)
    assert caught.value.code == "query"
    assert "public.orders" in (caught.value.hint or "")


@pytest.mark.table("name", STATEMENTS)
def test_every_name_in_a_statement_of_ours_is_qualified(name: str) -> None:
    sql = re.sub(r"'[^']*'", "''", STATEMENTS[name])
    called = set(re.findall(r"(?<![\w.])(\w+) ?\(", sql)) - GRAMMAR
    assert called == set(), "functions"
    assert set(re.findall(r"::(\w+)", sql)) <= {"pg_catalog", "varchar", "bigint", "int", "float", "smallint"}
    relations = set(re.findall(r"(?:FROM|JOIN) (\w+)\b(?!\.)", sql))
    assert relations <= {"part", "server", "guarded", "written", "pg_catalog", "LATERAL"}, "relations"


def test_the_statements_are_found() -> None:
    assert len(STATEMENTS) == 11
    assert {"unnest", "array_agg", "format_type", "min"} <= set(FUNCTIONS)
