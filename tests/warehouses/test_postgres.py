"""Postgres: what pg_catalog says, also to a role that may only SELECT; errors; what the server is sent."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.testing.servers import PostgresServer
from ktx_cli.warehouses.port import Connector, ForeignKey, Index, Scope, TableKind, TableRef, UniqueKey

pytestmark = pytest.mark.postgres
Open = Callable[..., Connector]
CANARY = "c4n4ry-hunter2"


@pytest.fixture(scope="module")
def shop(postgres_server: PostgresServer) -> str:
    """A database with one of everything, and a role `reader` that may only SELECT, not from `hidden`."""
    return postgres_server.create_database(
        "shop",
        "CREATE TYPE mood AS ENUM ('a', 'b')",
        "CREATE DOMAIN positive AS int NOT NULL CHECK (value > 0)",
        "CREATE DOMAIN tiny AS positive",
        "CREATE SCHEMA other",
        "CREATE TABLE parent (id int GENERATED ALWAYS AS IDENTITY, k text, v numeric(10,2) DEFAULT 1.5, m mood, "
        "a int[], j json, jb jsonb, p positive, t tiny, ts timestamptz, d date, iv interval, u uuid, b boolean, "
        "pt point, ip inet, c char(3), vc varchar(7), g int GENERATED ALWAYS AS (5 + 1) STORED, gone int, "
        "PRIMARY KEY (id, k), UNIQUE (v))",
        "ALTER TABLE parent DROP COLUMN gone",
        "COMMENT ON TABLE parent IS 'about parent'",
        "COMMENT ON COLUMN parent.k IS 'about k'",
        "CREATE TABLE other.parent (x int, y text, z text, FOREIGN KEY (x, y) REFERENCES public.parent (id, k))",
        "CREATE INDEX plain ON parent (k, v)",
        "CREATE INDEX mixed ON parent (d, lower(k))",
        "CREATE INDEX partial ON parent (u) WHERE b",
        "CREATE UNIQUE INDEX partial_unique ON parent (u) WHERE b",
        "CREATE UNIQUE INDEX expr_unique ON parent (lower(k))",
        "CREATE UNIQUE INDEX sole ON parent (m) INCLUDE (k)",
        "CREATE MATERIALIZED VIEW mat AS SELECT 1 AS one",
        "CREATE VIEW fails AS SELECT 1 / 0 AS x",
        "COMMENT ON VIEW fails IS 'about fails'",
        "CREATE TABLE part (a int PRIMARY KEY, b int) PARTITION BY RANGE (a)",
        "CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (5)",
        "CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (5) TO (10)",
        "INSERT INTO part SELECT i, i FROM generate_series(0, 9) AS i",
        "CREATE TABLE to_part (a int REFERENCES part (a))",
        "ANALYZE",
        "CREATE TABLE hidden (id int PRIMARY KEY)",
        "CREATE TABLE nothing ()",
        "CREATE FOREIGN DATA WRAPPER nowhere",
        "CREATE SERVER far FOREIGN DATA WRAPPER nowhere",
        "CREATE FOREIGN TABLE away (a int) SERVER far",
        "CREATE ROLE reader LOGIN PASSWORD 'reader'",
        "GRANT USAGE ON SCHEMA other TO reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public, other TO reader",
        "REVOKE ALL ON hidden FROM reader",
    )


@pytest.fixture
def reader(shop: str, postgres_server: PostgresServer) -> dict[str, Any]:
    return {"url": postgres_server.url("shop", "reader", "reader")}


@pytest.fixture(params=["owner", "reader"])
def either(request: pytest.FixtureRequest, shop: str, reader: dict[str, Any]) -> dict[str, Any]:
    return {"url": shop} if request.param == "owner" else reader


def test_every_role_sees_the_whole_structure(either: dict[str, Any], opened: Open) -> None:
    schema = opened("postgres", **either).introspect(Scope())
    assert schema.problems == ()
    assert re.fullmatch(r"PostgreSQL [\w.]+", schema.server_version or "")
    tables = {str(table.ref): table for table in schema.tables}
    assert {name: table.kind for name, table in tables.items()} == {
        "other.parent": TableKind.TABLE,
        "public.away": TableKind.FOREIGN,
        "public.fails": TableKind.VIEW,
        "public.hidden": TableKind.TABLE,
        "public.mat": TableKind.MATERIALIZED_VIEW,
        "public.nothing": TableKind.TABLE,
        "public.parent": TableKind.TABLE,
        "public.part": TableKind.TABLE,
        "public.to_part": TableKind.TABLE,
    }
    parent, child = tables["public.parent"], tables["other.parent"]
    assert parent.primary_key == ("id", "k")
    assert parent.unique_keys == (UniqueKey(("v",), "parent_v_key"), UniqueKey(("m",), "sole"))
    assert parent.indexes == (Index(("k", "v"), "plain"), Index(("d",), "mixed"), Index(("u",), "partial"))
    assert child.foreign_keys == (ForeignKey(("x", "y"), TableRef("public", "parent"), ("id", "k"), "parent_x_y_fkey"),)
    assert (parent.comment, tables["public.fails"].comment) == ("about parent", "about fails")
    assert "1 / 0" in (tables["public.fails"].view_sql or "")
    assert tables["public.mat"].view_sql is not None
    assert tables["public.nothing"].columns == ()
    (key,) = tables["public.to_part"].foreign_keys
    assert key.target == TableRef("public", "part")


def test_types_are_spelled_as_postgres_does(shop: str, opened: Open) -> None:
    schema = opened("postgres", url=shop).introspect(Scope(enabled_tables=("public.parent",)))
    columns = {column.name: column for column in schema.tables[0].columns}
    assert {name: (column.native_type, column.type.value) for name, column in columns.items()} == {
        "id": ("integer", "number"),
        "k": ("text", "string"),
        "v": ("numeric(10,2)", "number"),
        "m": ("public.mood", "string"),
        "a": ("integer[]", "string"),
        "j": ("json", "string"),
        "jb": ("jsonb", "string"),
        "p": ("public.positive", "number"),
        "t": ("public.tiny", "number"),
        "ts": ("timestamp with time zone", "time"),
        "d": ("date", "time"),
        "iv": ("interval", "string"),
        "u": ("uuid", "string"),
        "b": ("boolean", "boolean"),
        "pt": ("point", "string"),
        "ip": ("inet", "string"),
        "c": ("character(3)", "string"),
        "vc": ("character varying(7)", "string"),
        "g": ("integer", "number"),
    }
    assert columns["k"].comment == "about k"
    assert columns["v"].default == "1.5"
    assert columns["id"].default == "GENERATED ALWAYS AS IDENTITY"
    assert (columns["g"].generated, columns["id"].generated) == (True, False)
    assert (columns["p"].nullable, columns["v"].nullable, columns["id"].nullable) == (False, True, False)


def test_row_estimates(shop: str, opened: Open) -> None:
    schema = opened("postgres", url=shop).introspect(Scope())
    found = {str(table.ref): table.row_estimate for table in schema.tables}
    assert found["public.part"] == 10
    assert found["public.mat"] == 1
    assert found["public.to_part"] == 0
    assert found["public.hidden"] is None, "never analysed"
    assert found["public.fails"] is None


def test_privileges_are_told(shop: str, reader: dict[str, Any], opened: Open) -> None:
    found = opened("postgres", **reader).test(Scope(schemas=("public",)))
    assert (found.user, found.can_write) == ("reader", False)
    assert found.privileges == ("SELECT on 7 of 8 tables", "no SELECT on public.hidden")
    owner = opened("postgres", url=shop).test(Scope())
    assert (owner.user, owner.can_write) == ("postgres", True)
    assert "superuser" in owner.privileges


@pytest.mark.parametrize(
    "grant",
    ["GRANT INSERT ON part TO writer", "GRANT UPDATE ON hidden TO writer", "GRANT CREATE ON SCHEMA other TO writer",
     "GRANT CREATE ON DATABASE shop TO writer"],
)  # fmt: skip
def test_any_way_to_write_counts(grant: str, shop: str, postgres_server: PostgresServer, opened: Open) -> None:
    run = postgres_server.execute
    run("CREATE ROLE writer LOGIN PASSWORD 'writer'", database="shop")
    try:
        options = {"url": postgres_server.url("shop", "writer", "writer")}
        assert opened("postgres", **options).test(Scope()).can_write is False
        run(grant, database="shop")
        assert opened("postgres", **options).test(Scope()).can_write is True
    finally:
        run("DROP OWNED BY writer", "DROP ROLE writer", database="shop")


def test_three_part_names_and_patterns(shop: str, opened: Open) -> None:
    connector = opened("postgres", url=shop)
    for scope in (Scope(enabled_tables=("shop.other.parent",)), Scope(include=("other.*",)), Scope(("other",))):
        schema = connector.introspect(scope)
        assert [str(table.ref) for table in schema.tables] == ["other.parent"]
        assert schema.problems == ()
    assert len(connector.introspect(Scope(enabled_tables=("else.other.parent",))).problems) == 1


def test_a_failing_kind_of_metadata_costs_only_itself(shop: str, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    from ktx_cli.warehouses.postgres import catalog

    monkeypatch.setattr(catalog, "_CONSTRAINTS", "SELECT 1 / 0 FROM unnest(%s::oid[])")
    schema = opened("postgres", url=shop).introspect(Scope())
    assert len(schema.tables) == 9
    assert [(problem.ref, problem.what, problem.message) for problem in schema.problems] == [
        (None, "constraints", "division by zero")
    ]
    assert any(table.indexes for table in schema.tables)


def sent(server: PostgresServer, offset: int) -> list[str]:
    """The statements ktx's sessions sent since the log was `offset` long."""
    pattern = re.compile(r"ktx\|LOG:  (?:statement|execute [^:]*): (.*)")
    return [found[1] for line in server.log[offset:].splitlines() if (found := pattern.match(line))]


def test_every_statement_names_ktx(shop: str, postgres_server: PostgresServer, opened: Open) -> None:
    offset = len(postgres_server.log)
    connector = opened("postgres", url=shop)
    connector.test(Scope())
    connector.introspect(Scope())
    connector.query("SELECT 1")
    connector.query("SELECT %s::int", [1])
    connector.query("SELECT * FROM generate_series(1, 100000)", max_rows=1)
    connector.query("SELECT 1 WHERE false")
    with pytest.raises(SourceError):
        connector.query("SELECT nope")
    connector.close()
    statements = sent(postgres_server, offset)
    assert len(statements) > 15
    assert [each for each in statements if not each.startswith("/* ktx */ ")] == []


def test_introspection_is_in_bulk(shop: str, postgres_server: PostgresServer, opened: Open) -> None:
    connector = opened("postgres", url=shop)
    offset = len(postgres_server.log)
    connector.introspect(Scope())
    statements = [each for each in sent(postgres_server, offset) if "SAVEPOINT" not in each]
    assert 4 <= len(statements) <= 9


def test_nothing_is_left_on_the_session(shop: str, opened: Open) -> None:
    connector = opened("postgres", url=shop, maxConnections=1)
    connector.query("SELECT set_config('default_transaction_read_only', 'off', false)")
    connector.query("SELECT set_config('search_path', 'other', false)")
    found = connector.query(
        "SELECT current_setting('default_transaction_read_only'), current_setting('transaction_read_only'), "
        "current_setting('search_path'), current_setting('statement_timeout'), current_setting('application_name')"
    )
    assert found.rows == (("on", "on", "pg_catalog, pg_temp", "30s", "ktx"),)


def test_options_of_the_url_are_kept(shop: str, opened: Open) -> None:
    connector = opened("postgres", url=f"{shop}?options=-c%20search_path%3Dother%20-c%20geqo%3Doff&pgbouncer=true")
    assert connector.query("SHOW geqo").rows == (("off",),)
    assert connector.query("SHOW search_path").rows == (("pg_catalog, pg_temp",),)
    assert connector.query("SHOW default_transaction_read_only").rows == (("on",),)


def test_single_fields(shop: str, postgres_server: PostgresServer, opened: Open) -> None:
    connector = opened(
        "postgres", host="127.0.0.1", port=postgres_server.port, database="shop", username="reader", password="reader"
    )
    assert connector.query("SELECT current_user").rows == (("reader",),)


def test_queries_from_several_threads(shop: str, opened: Open) -> None:
    connector = opened("postgres", url=shop, maxConnections=2)
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda number: connector.query("SELECT %s::int", [number]).rows, range(30)))
    assert results == [((number,),) for number in range(30)]


def test_a_session_the_server_ended_is_replaced(shop: str, postgres_server: PostgresServer, opened: Open) -> None:
    connector = opened("postgres", url=shop, maxConnections=1)
    postgres_server.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ktx'", database="shop"
    )
    with pytest.raises(SourceError) as caught:
        connector.query("SELECT 1")
    assert caught.value.code == "query"
    assert connector.query("SELECT 1").rows == ((1,),)


def test_use_after_close(shop: str, opened: Open) -> None:
    connector = opened("postgres", url=shop)
    connector.close()
    with pytest.raises(SourceError, match="closed"):
        connector.query("SELECT 1")


def test_a_result_without_rows_has_columns_with_parameters_too(shop: str, opened: Open) -> None:
    result = opened("postgres", url=shop).query("SELECT %s::int AS a, '%%' AS b WHERE false", [1])
    assert (result.columns, result.rows) == (("a", "b"), ())


def failures(server: PostgresServer) -> Iterator[tuple[dict[str, Any], str, str]]:
    base = {"host": server.host, "port": server.port, "database": "shop", "username": "reader", "password": "reader"}
    yield {**base, "password": CANARY}, "password authentication failed", "connections.shop.password"
    yield {**base, "username": "nobody", "password": CANARY}, "password authentication failed", "username"
    yield {**base, "username": "postgres", "password": CANARY}, "password", "password"
    yield {**base, "database": "nowhere"}, '"nowhere" does not exist', "connections.shop.database"
    yield {**base, "ssl": True}, "SSL", "connections.shop.ssl"
    yield {**base, "sslmode": "require"}, "SSL", "sslmode"
    yield {"url": f"postgres://reader:{CANARY}@{server.host}:{server.port}/shop"}, "password", "password"


@pytest.mark.parametrize("number", range(7))
def test_a_connection_that_fails(number: int, shop: str, postgres_server: PostgresServer, opened: Open) -> None:
    options, message, hint = list(failures(postgres_server))[number]
    with pytest.raises(SourceError) as caught:
        opened("postgres", **options)
    error = caught.value
    assert (error.code, error.exit_code) == ("connection", 4)
    assert f"`shop` (127.0.0.1:{postgres_server.port}/" in error.message
    assert message in error.message
    assert hint in (error.hint or "")
    assert CANARY not in "".join(traceback.format_exception(error))


def test_a_password_in_a_failing_statement_is_the_users_own_but_ours_is_hidden(
    shop: str, postgres_server: PostgresServer, opened: Open
) -> None:
    postgres_server.execute(f"ALTER ROLE reader PASSWORD '{CANARY}'")
    try:
        connector = opened("postgres", url=postgres_server.url("shop", "reader", CANARY))
        literal = f"SELECT '{CANARY}'::int"
        for statement in ("SELECT nope", literal, "INSERT INTO part VALUES (1)", "SELECT id FROM hidden"):
            with pytest.raises(SourceError) as caught:
                connector.query(statement)
            assert CANARY not in "".join(traceback.format_exception(caught.value))
    finally:
        postgres_server.execute("ALTER ROLE reader PASSWORD 'reader'")


def test_enums_and_constraints_say_which_values_a_column_may_have(
    postgres_server: PostgresServer, opened: Open
) -> None:
    url = postgres_server.create_database(
        "allowed",
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TABLE orders (id int, m mood, status text CHECK (status IN ('open', 'paid')), kind varchar(9) CHECK"
        " (kind IN ('web', 'shop') OR kind IS NULL), amount int CHECK (amount > 0), CHECK (id < amount))",
    )
    (table,) = opened("postgres", url=url).introspect(Scope()).tables
    found = {column.name: column.values for column in table.columns if column.values}
    assert found == {"m": ("sad", "ok"), "status": ("open", "paid"), "kind": ("web", "shop")}
