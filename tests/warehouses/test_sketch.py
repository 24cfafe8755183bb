"""The SQL of sketches: the same hashes on every engine, which types have them, and equal texts in every collation."""

from __future__ import annotations

import hashlib
import json
import subprocess
import threading
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot

from ktx_cli.testing.spark_server import SparkServer
from ktx_cli.warehouses.dialect import DIALECTS, dialect_named
from ktx_cli.warehouses.port import Column, ConnectionSpec, Connector, Scope, SemanticType, Table, TableKind, TableRef
from ktx_cli.warehouses.registry import connect
from ktx_cli.warehouses.sketch import (
    HASHES,
    HashedKind,
    SketchedColumn,
    estimate_statement,
    hashed_kind,
    sketch_statement,
)
from ktx_cli.warehouses.sqlserver.connector import require_one_reading
from tests.warehouses.test_clickhouse import CANARY, ChServer

Open = Callable[..., Connector]


def digits(value: object) -> str:
    return hashlib.md5(str(value).encode(), usedforsecurity=False).hexdigest()[:15]


def column(name: str, native: str) -> Column:
    return Column(name, native, SemanticType.STRING if "char" in native.lower() else SemanticType.NUMBER)


ROWS = [(number, f"Größe {number % 40}") for number in range(300)]
VALUES = ", ".join(f"({number}, '{text}')" for number, text in ROWS)
SHARE = 0.25
WANTED = {
    (position, "" if digits(value) >= f"{int(SHARE * 16**15):015x}" else digits(value))
    for position, values in enumerate(zip(*ROWS, strict=True))
    for value in values
}


def parts(columns: Sequence[Column]) -> list[SketchedColumn]:
    return [SketchedColumn(each, SHARE) for each in columns]


def found_by(connector: Connector) -> set[tuple[int, Any]]:
    """Return the positions and hashes in the sketch of the only table, whose rows are all counted."""
    (table,) = (each for each in connector.introspect(Scope()).tables if each.ref.name == "things")
    rows = connector.query(sketch_statement(table, parts(table.columns), connector.dialect), max_rows=5000).rows
    for position in range(len(table.columns)):
        counts = [(int(count), int(filled)) for at, _, count, filled in rows if int(at) == position]
        assert {filled for _, filled in counts} == {300} == {sum(count for count, _ in counts)}
    return {(int(row[0]), row[1]) for row in rows}


@pytest.mark.mysql
def test_mysql_computes_the_same_hashes(opened: Open, mariadb_server: Any) -> None:
    made = ("CREATE TABLE things (id integer, name varchar(40))", f"INSERT INTO things VALUES {VALUES}")
    with opened("mysql", url=mariadb_server.create_database("sketched", *made)) as connector:
        assert found_by(connector) == WANTED


def test_engines_compute_their_own_hashes(engine: Any, opened: Open) -> None:
    if engine.driver not in ("duckdb", "postgres"):
        pytest.skip("it has MD5, or none")
    made = ("CREATE TABLE things (id integer, name varchar(40))", f"INSERT INTO things VALUES {VALUES}")
    with opened(engine.driver, **engine.make(*made)) as connector:
        found = found_by(connector)
        (table,) = connector.introspect(Scope()).tables
        syntax = dialect_named(connector.dialect)
        for at, each in enumerate(table.columns):
            hashed = f"SELECT DISTINCT {syntax.hashed(syntax.as_text(each.name))} FROM {syntax.path(table.ref)}"
            hashes = {int(row[0]) for row in connector.query(hashed).rows}
            assert len(hashes) == len(set(list(zip(*ROWS, strict=True))[at]))
            kept = {one for one in hashes if one < int(SHARE * HASHES)}
            assert {int(one) for position, one in found if position == at} == kept | {0}
            assert 0.5 < len(kept) / len(hashes) / SHARE < 2


def test_stored_hashes_of_duckdb_are_those_of_a_version() -> None:
    assert metadata.version("duckdb") in sketch_statement(THINGS, parts(THINGS.columns), "duckdb")


@pytest.mark.spark
def test_spark_computes_the_same_hashes(spark_server: SparkServer) -> None:
    spark_server.create_database(
        "sketched", "CREATE TABLE things (id BIGINT, name STRING)", f"INSERT INTO things VALUES {VALUES}"
    )
    with connect(ConnectionSpec("shop", "spark", {"url": spark_server.url, "schemas": ["sketched"]})) as connector:
        assert found_by(connector) == WANTED


def test_clickhouse_computes_the_same_hashes(tmp_path: Path) -> None:
    with ChServer(tmp_path) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        server.run("CREATE DATABASE shop", {})
        made = "CREATE TABLE things (id Int64, name LowCardinality(String)) ENGINE = MergeTree ORDER BY id"
        for statement in (made, f"INSERT INTO things VALUES {VALUES}"):
            server.run(statement, {}, "shop")
        address = {"host": "127.0.0.1", "port": server.server_port, "username": "reader", "password": CANARY}
        with connect(ConnectionSpec("shop", "clickhouse", {**address, "database": "shop", "ssl": False})) as connector:
            assert found_by(connector) == WANTED
        server.shutdown()


THINGS = Table(TableRef("shop", "things"), TableKind.TABLE, (column("id", "BIGINT"), column("name", "VARCHAR(40)")))
MADE = (
    "CREATE SCHEMA shop",
    "CREATE TABLE shop.things (id BIGINT, name VARCHAR(40))",
    f"INSERT INTO shop.things VALUES {VALUES}",
)
ELSEWHERE = ("bigquery", "databricks", "redshift", "snowflake", "trino")


@pytest.mark.table("dialect", ELSEWHERE)
def test_statements_of_engines_elsewhere_mean_the_same(dialect: str) -> None:
    statement = sketch_statement(THINGS, parts(THINGS.columns), dialect)
    with duckdb.connect() as session:
        for each in MADE:
            session.execute(each)
        read = sqlglot.parse_one(statement, dialect=dialect).sql("duckdb")
        rows = session.execute(read.replace("ENCODE(", "(")).fetchall()
    assert {(row[0], row[1]) for row in rows} == WANTED


FAKESNOW = Path(__file__).parents[2] / ".venv" / "fakesnow" / "bin" / "python"


def test_an_emulator_of_snowflake_computes_the_same_hashes() -> None:
    if not FAKESNOW.exists():
        pytest.skip("fakesnow is not installed: make fakesnow")
    made = ('CREATE SCHEMA "shop"', 'CREATE TABLE "shop"."things" ("id" BIGINT, "name" VARCHAR(40))')
    asked = {
        "tables": [*made, f'INSERT INTO "shop"."things" VALUES {VALUES}'],
        "queries": {
            "sketch": sketch_statement(THINGS, parts(THINGS.columns), "snowflake"),
            "estimate": estimate_statement(THINGS, THINGS.columns, "snowflake"),
        },
    }
    script = Path(__file__).parents[1] / "semantic" / "golden" / "on_fakesnow.py"
    ran = subprocess.run([FAKESNOW, script], input=json.dumps(asked), capture_output=True, text=True, check=True)
    found = json.loads(ran.stdout)
    assert {(row[0], row[1]) for row in found["sketch"]} == WANTED
    ((filled, distinct, *_),) = found["estimate"]
    assert (filled, distinct) == (300, pytest.approx(300, rel=0.2))


GOLDEN = """\
SELECT 0 AS c, SUBSTRING(s0.h, 1, 15) AS h, s0.n, s0.filled FROM (SELECT TOP (2049) w.h AS h, count(*) AS n, \
sum(count(*)) OVER () AS filled FROM (SELECT CASE WHEN v.h < '200000000000000' THEN v.h ELSE '' END AS h FROM (SELECT \
lower(CONVERT(varchar(32), HASHBYTES('MD5', rtrim(lower(CAST([code] AS nvarchar(max))))), 2)) AS h FROM [dbo].[parts] \
WHERE [code] IS NOT NULL AND trim([code]) <> '' AND [code] <> N'n/a') AS v) AS w GROUP BY w.h ORDER BY h) AS s0"""


def test_sql_server_reads_one_statement() -> None:
    table = Table(TableRef("dbo", "parts"), TableKind.TABLE, (column("code", "nvarchar(20)"),))
    sketched = SketchedColumn(table.columns[0], 0.125, ignores_case=True, excluded="n/a")
    statement = sketch_statement(table, [sketched], "tsql")
    assert statement == GOLDEN
    require_one_reading(statement, "here")
    estimate = estimate_statement(table, table.columns, "tsql")
    assert estimate == "SELECT count([code]), approx_count_distinct([code]) FROM [dbo].[parts]"


@pytest.mark.mysql
def test_texts_that_a_collation_takes_for_equal_have_equal_hashes(opened: Open, mariadb_server: Any) -> None:
    url = mariadb_server.create_database(
        "sketch_folds",
        "CREATE TABLE things (a varchar(9) COLLATE utf8mb4_general_ci, b varchar(9) CHARACTER SET latin1, "
        "c char(9) COLLATE utf8mb4_bin)",
        "INSERT INTO things VALUES ('Ä1 ', 'ä1', 'Ä1'), ('ä1', 'Ä1  ', 'ä1'), ('  ', '', NULL)",
    )
    connector = opened("mysql", url=url)
    (table,) = connector.introspect(Scope()).tables
    wanted = [SketchedColumn(each, ignores_case=each.name != "c") for each in table.columns]
    rows = connector.query(sketch_statement(table, wanted, "mysql")).rows
    hashes = [{(row[1], int(row[2]), int(row[3])) for row in rows if int(row[0]) == at} for at in range(3)]
    assert hashes[:2] == [{(digits("ä1"), 2, 2)}] * 2
    assert hashes[2] == {(digits("Ä1"), 1, 2), (digits("ä1"), 1, 2)}


@pytest.mark.table(
    ("dialect", "native", "kind"),
    [
        ("postgres", "integer", HashedKind.INTEGER),
        ("postgres", "bigint", HashedKind.INTEGER),
        ("postgres", "numeric(12,0)", HashedKind.INTEGER),
        ("postgres", "numeric", None),  # 1 and 1.0 are equal.
        ("postgres", "numeric(12,2)", None),
        ("postgres", "double precision", None),
        ("postgres", "boolean", None),
        ("postgres", "uuid", HashedKind.UUID),
        ("postgres", "text", HashedKind.TEXT),
        ("postgres", "character(8)", HashedKind.TEXT),
        ("postgres", "character varying(20)", HashedKind.TEXT),
        ("postgres", "citext", None),
        ("postgres", "bytea", None),
        ("postgres", "date", None),
        ("mysql", "bigint(20) unsigned", HashedKind.INTEGER),
        ("mysql", "int(10) unsigned zerofill", None),  # Its text has leading zeros.
        ("mysql", "varchar(40)", HashedKind.TEXT),
        ("snowflake", "NUMBER(38,0)", HashedKind.INTEGER),
        ("snowflake", "NUMBER(38,2)", None),
        ("snowflake", "TEXT", HashedKind.TEXT),
        ("bigquery", "INT64", HashedKind.INTEGER),
        ("bigquery", "STRING", HashedKind.TEXT),
        ("databricks", "decimal(10,0)", HashedKind.INTEGER),
        ("clickhouse", "LowCardinality(Nullable(String))", HashedKind.TEXT),
        ("clickhouse", "UInt64", HashedKind.INTEGER),
        ("clickhouse", "FixedString(8)", None),
        ("tsql", "uniqueidentifier", HashedKind.UUID),
        ("duckdb", "UHUGEINT", HashedKind.INTEGER),
        ("sqlite", "INTEGER", None),
    ],
)
def test_kinds_of_hashes(dialect: str, native: str, kind: HashedKind | None) -> None:
    assert hashed_kind(column("x", native), dialect) is kind


def test_every_dialect_but_that_of_sqlite_has_hashes() -> None:
    assert [name for name in DIALECTS if not dialect_named(name).text_hash] == ["sqlite"]
    estimated = {name for name in DIALECTS if dialect_named(name).distinct_estimate}
    assert estimated == set(DIALECTS) - {"sqlite", "postgres", "mysql"}
    assert estimate_statement(THINGS, THINGS.columns, "postgres") is None
