"""Redshift: its statements on a Postgres server, with what only Redshift has put into its catalog."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.testing.servers import PostgresServer
from ktx_cli.warehouses.port import ConnectionSpec, Connector, ForeignKey, Scope, TableKind, TableRef, UniqueKey
from ktx_cli.warehouses.redshift import connector as redshift
from ktx_cli.warehouses.redshift import connector as redshift_catalog
from ktx_cli.warehouses.redshift.connector import _default

Open = Callable[..., Connector]
CANARY = "c4n4ry-hunter2"

# As in Redshift these stand in pg_catalog, where nothing else may add to Postgres.
REDSHIFT_ALONE = (
    "SET allow_system_table_mods = on",
    "CREATE TABLE pg_catalog.svv_mv_info (schema_name char(128), name char(128))",
    "CREATE TABLE pg_catalog.svv_external_tables (schemaname varchar, tablename varchar)",
    "CREATE TABLE pg_catalog.svv_external_columns (schemaname varchar, tablename varchar, columnname varchar, "
    "external_type varchar, columnnum int)",
    "CREATE FUNCTION pg_catalog.pg_get_late_binding_view_cols() RETURNS SETOF record LANGUAGE sql AS "
    "$$ SELECT 'mart'::name, 'late'::name, v.n::name, v.t::varchar, v.i FROM "
    "(VALUES ('b', 'integer', 2), ('a', 'timestamp without time zone', 1)) AS v (n, t, i) $$",
    "INSERT INTO pg_catalog.svv_mv_info VALUES ('mart', 'mat')",
    "INSERT INTO pg_catalog.svv_external_tables VALUES ('spectrum', 'clicks'), ('spectrum', 'other')",
    "INSERT INTO pg_catalog.svv_external_columns VALUES ('spectrum', 'clicks', 'at', 'timestamp', 2), "
    "('spectrum', 'clicks', 'id', 'bigint', 1), ('spectrum', 'other', 'tags', 'array<string>', 1)",
    "GRANT SELECT ON ALL TABLES IN SCHEMA pg_catalog TO public",
)
SHOP = (
    "CREATE SCHEMA mart",
    "CREATE TABLE mart.parent (id int GENERATED ALWAYS AS IDENTITY, k varchar(7) NOT NULL, "
    "v numeric(10,2) DEFAULT 1.5, ts timestamptz, d date, b boolean, gone int, PRIMARY KEY (k, id), UNIQUE (v, d))",
    "ALTER TABLE mart.parent DROP COLUMN gone",
    "COMMENT ON TABLE mart.parent IS 'about parent'",
    "COMMENT ON COLUMN mart.parent.k IS 'about k'",
    "INSERT INTO mart.parent (k) SELECT i::text FROM generate_series(1, 30) AS i",
    "CREATE TABLE public.child (x int, y varchar(7), "
    "CONSTRAINT pair FOREIGN KEY (y, x) REFERENCES mart.parent (k, id))",
    "CREATE VIEW mart.seen AS SELECT id FROM mart.parent WHERE id > 3",
    "CREATE VIEW mart.mat AS SELECT 1 AS one",
    "CREATE VIEW mart.late AS SELECT",
    "CREATE TABLE mart.mv_tbl__mat__0 (a int)",
    "CREATE TABLE mart.hidden (a int)",
    "ANALYZE",
    "CREATE TABLE mart.fresh (a int)",
    "CREATE ROLE shop_reader LOGIN PASSWORD 'reader'",
    "GRANT USAGE ON SCHEMA mart TO shop_reader",
    "GRANT SELECT ON ALL TABLES IN SCHEMA mart, public TO shop_reader",
    "REVOKE ALL ON mart.hidden FROM shop_reader",
    "REVOKE CREATE ON SCHEMA public FROM public",
)  # fmt: skip


@pytest.fixture(scope="module")
def shop(postgres_server: PostgresServer) -> dict[str, Any]:
    """A database with Redshift's views, as its owner sees it."""
    url = postgres_server.create_database("redshift_shop", *SHOP, *REDSHIFT_ALONE)
    return {"url": url, "sslmode": "disable"}


@pytest.fixture
def reader(shop: dict[str, Any], postgres_server: PostgresServer) -> dict[str, Any]:
    return {"url": postgres_server.url("redshift_shop", "shop_reader", "reader"), "sslmode": "disable"}


@pytest.fixture(params=["owner", "reader"])
def either(request: pytest.FixtureRequest, shop: dict[str, Any], reader: dict[str, Any]) -> dict[str, Any]:
    return shop if request.param == "owner" else reader


@pytest.mark.postgres
def test_every_user_sees_the_whole_structure(either: dict[str, Any], opened: Open) -> None:
    schema = opened("redshift", **either).introspect(Scope())
    assert schema.problems == ()
    tables = {str(table.ref): table for table in schema.tables}
    assert list(tables) == sorted(tables)
    assert {name: table.kind for name, table in tables.items()} == {
        "mart.fresh": TableKind.TABLE,
        "mart.hidden": TableKind.TABLE,
        "mart.late": TableKind.VIEW,
        "mart.mat": TableKind.MATERIALIZED_VIEW,
        "mart.parent": TableKind.TABLE,
        "mart.seen": TableKind.VIEW,
        "public.child": TableKind.TABLE,
        "spectrum.clicks": TableKind.FOREIGN,
        "spectrum.other": TableKind.FOREIGN,
    }
    parent = tables["mart.parent"]
    assert parent.primary_key == ("k", "id")
    assert parent.unique_keys == (UniqueKey(("v", "d"), "parent_v_d_key"),)
    assert parent.indexes == ()
    assert parent.comment == "about parent"
    assert tables["public.child"].foreign_keys == (
        ForeignKey(("y", "x"), TableRef("mart", "parent"), ("k", "id"), "pair"),
    )
    assert "id > 3" in (tables["mart.seen"].view_sql or "")
    assert (parent.row_estimate, tables["mart.fresh"].row_estimate, tables["mart.seen"].row_estimate) == (
        30,
        None,
        None,
    )


@pytest.mark.postgres
def test_columns(shop: dict[str, Any], opened: Open) -> None:
    schema = opened("redshift", **shop).introspect(Scope(exclude=("fresh", "hidden", "mat", "seen")))
    found = {
        str(table.ref): [(column.name, column.native_type, column.type.value) for column in table.columns]
        for table in schema.tables
    }
    assert found == {
        "mart.late": [("a", "timestamp without time zone", "time"), ("b", "integer", "number")],
        "mart.parent": [
            ("id", "integer", "number"),
            ("k", "character varying(7)", "string"),
            ("v", "numeric(10,2)", "number"),
            ("ts", "timestamp with time zone", "time"),
            ("d", "date", "time"),
            ("b", "boolean", "boolean"),
        ],
        "public.child": [("x", "integer", "number"), ("y", "character varying(7)", "string")],
        "spectrum.clicks": [("id", "bigint", "number"), ("at", "timestamp", "time")],
        "spectrum.other": [("tags", "array<string>", "string")],
    }
    columns = {column.name: column for table in schema.tables for column in table.columns}
    assert (columns["k"].comment, columns["k"].nullable, columns["v"].nullable) == ("about k", False, True)
    assert columns["v"].default == "1.5"


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("scope", "found"),
    [
        (Scope(schemas=("public",)), ["public.child"]),
        (Scope(schemas=("spectrum",), include=("cl*",)), ["spectrum.clicks"]),
        (Scope(enabled_tables=("redshift_shop.mart.parent",)), ["mart.parent"]),
        (Scope(include=("mart.*",), exclude=("*e*", "mart.mat", "hidden")), []),
    ],
)
def test_scope(scope: Scope, found: list[str], shop: dict[str, Any], opened: Open) -> None:
    schema = opened("redshift", **shop).introspect(scope)
    assert [str(table.ref) for table in schema.tables] == found
    assert schema.problems == ()


@pytest.mark.postgres
def test_a_key_to_a_table_out_of_scope_has_its_names(shop: dict[str, Any], opened: Open) -> None:
    (table,) = opened("redshift", **shop).introspect(Scope(enabled_tables=("child",))).tables
    assert table.foreign_keys[0].target_columns == ("k", "id")


@pytest.mark.postgres
def test_privileges_are_told(shop: dict[str, Any], reader: dict[str, Any], opened: Open) -> None:
    found = opened("redshift", **reader).test(Scope(schemas=("mart", "spectrum")))
    assert (found.user, found.can_write, found.database) == ("shop_reader", False, "redshift_shop")
    assert found.privileges == ("SELECT on 7 of 8 tables", "no SELECT on mart.hidden")
    assert found.closed == (TableRef("mart", "hidden"),)
    owner = opened("redshift", **shop).test(Scope())
    assert (owner.can_write, "superuser" in owner.privileges) == (True, True)


@pytest.mark.postgres
@pytest.mark.parametrize("grant", ["DELETE ON mart.parent", "UPDATE ON mart.hidden", "CREATE ON SCHEMA mart"])
def test_any_way_to_write_counts(
    grant: str, shop: dict[str, Any], reader: dict[str, Any], postgres_server: PostgresServer, opened: Open
) -> None:
    postgres_server.execute(f"GRANT {grant} TO shop_reader", database="redshift_shop")
    try:
        assert opened("redshift", **reader).test(Scope()).can_write is True
    finally:
        postgres_server.execute(f"REVOKE {grant} FROM shop_reader", database="redshift_shop")


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("MATERIALIZED_VIEWS", "materialized views"),
        ("EXTERNAL_TABLES", "external tables"),
        ("CONSTRAINTS", "constraints"),
        ("KEY_COLUMNS", "constraints"),
        ("VIEWS", "view definitions"),
        ("LATE_COLUMNS", "columns of late-binding views"),
        ("EXTERNAL_COLUMNS", "columns of external tables"),
    ],
)
def test_a_failing_kind_of_metadata_costs_only_itself(
    name: str, what: str, shop: dict[str, Any], opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = opened("redshift", **shop).introspect(Scope(schemas=("mart", "public")))
    monkeypatch.setattr(redshift_catalog, name, "SELECT 1 / 0 WHERE 'x' IN ({schemas}) OR true")
    if name in ("KEY_COLUMNS", "MATERIALIZED_VIEWS", "EXTERNAL_TABLES"):
        monkeypatch.setattr(redshift_catalog, name, "SELECT 1 / 0")
    schema = opened("redshift", **shop).introspect(Scope(exclude=("spectrum.other",)))
    assert [(problem.ref, problem.what, problem.message) for problem in schema.problems] == [
        (None, what, "division by zero")
    ]
    assert {table.ref for table in whole.tables} <= {table.ref for table in schema.tables}


@pytest.mark.postgres
def test_a_session_is_limited_and_reads(shop: dict[str, Any], opened: Open) -> None:
    connector = opened("redshift", **shop)
    assert connector.query("SHOW statement_timeout").rows == (("30s",),)
    assert connector.query("SHOW transaction_read_only").rows == (("on",),)
    assert connector.query("SHOW search_path").rows == (("pg_catalog",),)
    rows = connector.query("SELECT id FROM mart.parent WHERE id > %s ORDER BY id", [5], max_rows=2)
    assert (rows.columns, rows.rows, rows.truncated) == (("id",), ((6,), (7,)), True)
    assert connector.query("SELECT id, k FROM mart.parent WHERE id > 99").columns == ("id", "k")


@pytest.mark.postgres
@pytest.mark.parametrize(
    "sql",
    ["INSERT INTO mart.fresh VALUES (1)", "WITH x AS (DELETE FROM mart.parent RETURNING 1) SELECT * FROM x",
     "SELECT 1; DROP TABLE mart.fresh", "SELECT 1 INTO mart.made"],
)  # fmt: skip
def test_nothing_writes(sql: str, shop: dict[str, Any], opened: Open) -> None:
    connector = opened("redshift", **shop)
    with pytest.raises(SourceError):
        connector.query(sql)
    assert connector.query("SELECT count(*) FROM mart.parent").rows == ((30,),)


@pytest.mark.postgres
def test_without_a_mode_tls_is_wanted(shop: dict[str, Any], opened: Open) -> None:
    with pytest.raises(SourceError) as caught:
        opened("redshift", url=shop["url"])
    assert caught.value.code == "connection"
    assert "SSL" in caught.value.message
    assert "connections.shop.sslmode" in (caught.value.hint or "")


@pytest.mark.postgres
def test_no_password_in_an_error(shop: dict[str, Any], postgres_server: PostgresServer, opened: Open) -> None:
    with pytest.raises(SourceError) as caught:
        opened("redshift", url=postgres_server.url("redshift_shop", "shop_reader", CANARY), sslmode="disable")
    assert caught.value.code == "connection"
    assert CANARY not in "".join(traceback.format_exception(caught.value)) + str(caught.value.to_json())


def test_what_redshift_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redshift.RedshiftConnector, "_connect", lambda self: _Idle())
    spec = ConnectionSpec("x", "redshift", {"url": "redshift://u:p@cluster.example.com/dev"})
    parameters = redshift.RedshiftConnector(spec)._parameters()
    assert parameters["sslmode"] == "require"
    assert (parameters["port"], parameters["dbname"], parameters["client_encoding"]) == (5439, "dev", "utf8")
    assert "options" not in parameters


class _Idle:
    closed = True

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.table(
    ("text", "version"),
    [
        ("PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC 3.4.2, Redshift 1.0.125476", "Redshift 1.0.125476"),
        ("PostgreSQL 15.3 on x86_64", "PostgreSQL 15.3"),
        ("Redshift ", "Redshift "),
    ],
)  # fmt: skip
def test_the_version(text: str, version: str) -> None:
    assert redshift._server_version(text) == version


@pytest.mark.table(
    ("expression", "default"),
    [
        (None, None),
        ("1.5", "1.5"),
        ("\"identity\"(108, 0, '1,1'::text)", "IDENTITY"),
        ("default_identity(108, 0, '1,1'::text)", "GENERATED BY DEFAULT AS IDENTITY"),
    ],
)
def test_defaults(expression: str | None, default: str | None) -> None:
    assert _default(expression) == default
