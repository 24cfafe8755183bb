"""One statement on a connection: which one is asked, what names mean, what comes back."""

from __future__ import annotations

import re
import sqlite3
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import SourceError, UsageError
from ktx_cli.core.values import json_value
from ktx_cli.jobs.semantic.sql import SqlAnswer, run_sql
from ktx_cli.project.config.file import load_config
from ktx_cli.project.layout import Layout
from ktx_cli.testing.servers import MariaDBServer, PostgresServer
from ktx_cli.warehouses import base

SHARD = """\
tables:
  orders:
    table: sales.orders
    columns: [{name: id, type: number}]
  other_orders:
    table: archive.orders
    columns: [{name: id, type: number}]
  notes:
    table: archive.notes
    columns: [{name: id, type: number}]
"""


def ask(folder: Path, sql: str, connection: str | None = None, **options: Any) -> SqlAnswer:
    layout = Layout(folder)
    config = load_config(layout.config).config
    return run_sql(layout, config, sql, environ={}, connection=connection, **options)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "shop.sqlite") as database:
        database.executescript("CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, 'x'), (2, NULL), (3, 'yyyy')")
    database.close()
    (tmp_path / "ktx.yaml").write_text("connections:\n  shop:\n    driver: sqlite\n    path: shop.sqlite\n")
    return tmp_path


def add(folder: Path, text: str) -> None:
    with (folder / "ktx.yaml").open("a") as stream:
        stream.write(text)


def test_the_only_database_is_asked(shop: Path) -> None:
    answer = ask(shop, "select a, b from t order by a")
    assert answer.columns == ("a", "b")
    assert answer.rows == ((1, "x"), (2, None), (3, "yyyy"))
    assert answer.cut is None
    assert answer.to_json()["sql"] == "SELECT a, b FROM t ORDER BY a LIMIT 1001"


def test_of_two_databases_one_must_be_named(shop: Path) -> None:
    add(shop, "  other:\n    driver: sqlite\n    path: shop.sqlite\n")
    with pytest.raises(UsageError) as caught:
        ask(shop, "SELECT 1")
    assert "other, shop" in caught.value.message
    assert ask(shop, "SELECT 1", "shop").connection == "shop"


def test_a_source_of_documents_is_no_database(shop: Path) -> None:
    add(shop, "  docs:\n    driver: documents\n    path: docs\n")
    with pytest.raises(UsageError, match="not a database"):
        ask(shop, "SELECT 1", "docs")


def test_too_many_rows_are_cut(shop: Path) -> None:
    answer = ask(shop, "SELECT a FROM t ORDER BY a", max_rows=2)
    assert (len(answer.rows), answer.cut) == (2, "rows")
    assert ask(shop, "SELECT a FROM t", max_rows=3).cut is None


@pytest.mark.parametrize("max_rows", [0, -1, 100_001])
def test_a_number_of_rows_that_cannot_be_asked_for(shop: Path, max_rows: int) -> None:
    with pytest.raises(UsageError, match="the row limit cannot be"):
        ask(shop, "SELECT 1", max_rows=max_rows)


def test_rows_that_are_too_large_are_cut(shop: Path) -> None:
    answer = ask(shop, "SELECT b FROM t ORDER BY a", max_bytes=10)
    assert (len(answer.rows), answer.cut) == (2, "bytes")


def test_a_row_that_does_not_fit_is_an_error_that_names_its_column(shop: Path) -> None:
    with pytest.raises(SourceError, match="over 100 bytes: `big one` alone has 200") as raised:
        ask(shop, 'SELECT 1 AS a, hex(zeroblob(100)) AS "big one"', max_bytes=100)
    assert (raised.value.code, raised.value.exit_code) == ("query", 1)
    assert raised.value.hint == 'shorten the value in the query, for example: substr("big one", 1, 1000)'


def test_a_row_too_large_to_read_is_an_error_too(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_RESULT_BYTES", 2)
    with pytest.raises(SourceError, match="too large to read: `a`, `b`"):
        ask(shop, "SELECT a, b FROM t")


def test_a_connection_of_semantic_queries_answers_no_sql(shop: Path) -> None:
    add(shop, "    query_policy: semantic-layer-only\n")
    with pytest.raises(UsageError) as caught:
        ask(shop, "SELECT 1")
    assert "semantic-layer-only" in caught.value.message


def test_a_refused_statement_opens_nothing(shop: Path) -> None:
    (shop / "shop.sqlite").unlink()
    with pytest.raises(SourceError) as caught:
        ask(shop, "SELECT load_extension('x')")
    assert caught.value.code == "read_only"
    assert caught.value.hint == "rewrite the statement without the function"


SHOP = """\
tables:
  t:
    table: t
    columns: [{name: a, type: number}, {name: amount, type: number}]
  customers:
    table: customers
    columns: []
"""


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT amonut FROM t", "did you mean `amount`?"),
        ("SELECT t.amonut FROM t", "did you mean `amount`?"),
        ("SELECT 1 FROM custmers", "did you mean `customers`?"),
        ("SELECT zzzzzz FROM t", "to list the columns of a table: SELECT name, type FROM pragma_table_info('TABLE')"),
        ("SELECT 1 FROM zzzzzz", "to list the tables: SELECT name, type FROM sqlite_schema"),
        ("SELECT max(a) OVER (PARTITION BY 1) FROM t WHERE max(a) > 1", "correct the statement for sqlite"),
    ],
)
def test_an_error_of_the_database_has_a_hint(shop: Path, sql: str, hint: str) -> None:
    shards = Layout(shop).schema_dir("shop")
    shards.mkdir(parents=True)
    (shards / "all.yaml").write_text(SHOP)
    with pytest.raises(SourceError) as caught:
        ask(shop, sql)
    assert (caught.value.code, caught.value.hint) == ("query", hint)


def test_a_suggestion_of_the_database_is_the_hint_and_is_said_once(tmp_path: Path) -> None:
    import duckdb

    with duckdb.connect(str(tmp_path / "shop.duckdb")) as database:
        database.execute("CREATE TABLE orders (amount int)")
    (tmp_path / "ktx.yaml").write_text("connections:\n  duck:\n    driver: duckdb\n    path: shop.duckdb\n")
    for sql, near in (("SELECT 1 FROM ordrs", "orders"), ("SELECT amnt FROM orders", "amount")):
        with pytest.raises(SourceError) as caught:
            ask(tmp_path, sql)
        assert caught.value.hint == f"did you mean `{near}`?"
        assert near not in caught.value.message


def test_columns_are_named_as_by_the_text_that_was_given(shop: Path) -> None:
    answer = ask(shop, "select count(*), Max( a ), 1+1, * from t group by a, b order by a")
    assert answer.columns == ("count(*)", "Max( a )", "1+1", "a", "b")


def test_a_plan_is_of_the_statement_without_a_limit(shop: Path) -> None:
    answer = ask(shop, "EXPLAIN QUERY PLAN SELECT a FROM t")
    assert (answer.sql, answer.explains) == ("EXPLAIN QUERY PLAN SELECT a FROM t", True)
    assert answer.columns[-1] == "detail"


@pytest.mark.mysql
def test_what_mariadb_has_built_in_decides_there(tmp_path: Path, mariadb_server: MariaDBServer) -> None:
    name = f"sql{uuid.uuid4().hex[:8]}"
    own = "CREATE FUNCTION any_value(x int) RETURNS int RETURN 4242"
    url = mariadb_server.create_database(name, "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1), (2)", own)
    (tmp_path / "ktx.yaml").write_text(f"connections:\n  shop:\n    driver: mysql\n    url: {url}\n")
    with pytest.raises(SourceError) as caught:
        ask(tmp_path, "SELECT any_value(1)")
    assert caught.value.code == "read_only"
    answer = ask(tmp_path, "SELECT json_compact('{}'), row_number() over (order by a) FROM t LIMIT 1")
    assert answer.rows == (("{}", 1),)
    assert answer.columns == ("json_compact('{}')", "row_number() over (order by a)")


def test_an_allowed_function_reaches_the_session_which_has_its_own_mind(shop: Path) -> None:
    add(shop, "    allowed_functions: [load_extension]\n")
    with pytest.raises(SourceError) as caught:
        ask(shop, "SELECT load_extension('x')")
    assert "shop.sqlite" in caught.value.message


def test_a_file_is_asked_by_the_name_the_manifest_knows(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("x\n1\n")
    (tmp_path / "data" / "a.json").write_text('[{"x": 2}]')
    (tmp_path / "ktx.yaml").write_text("connections:\n  data:\n    driver: files\n    path: data\n")
    with pytest.raises(SourceError, match="is a file"):
        ask(tmp_path, 'SELECT x FROM "a.csv"')
    shards = Layout(tmp_path).schema_dir("data")
    shards.mkdir(parents=True)
    (shards / "all.yaml").write_text("tables:\n  a_csv:\n    table: '\"a.csv\"'\n    columns: []\n")
    assert ask(tmp_path, 'SELECT x FROM "a.csv"').rows == ((1,),)


@pytest.mark.postgres
def test_names_without_a_schema_on_postgres(tmp_path: Path, postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database(
        f"sql{uuid.uuid4().hex[:8]}",
        "CREATE SCHEMA sales; CREATE TABLE sales.orders (id int); INSERT INTO sales.orders VALUES (1)",
        "CREATE SCHEMA archive; CREATE TABLE archive.orders (id int); CREATE TABLE archive.notes (id int)",
        "CREATE TABLE fresh (id int); INSERT INTO fresh VALUES (7)",
    )
    (tmp_path / "ktx.yaml").write_text(f"connections:\n  pg:\n    driver: postgres\n    url: {url}\n")
    shards = Layout(tmp_path).schema_dir("pg")
    shards.mkdir(parents=True)
    (shards / "all.yaml").write_text(SHARD)
    assert ask(tmp_path, "SELECT id FROM fresh").rows == ((7,),)
    assert ask(tmp_path, "SELECT * FROM notes").columns == ("id",)
    assert ask(tmp_path, "SELECT count(*) FROM pg_class WHERE relname = 'fresh'").rows == ((1,),)
    with pytest.raises(UsageError) as caught:
        ask(tmp_path, "SELECT * FROM orders")
    assert caught.value.hint == "include the schema, for example: archive.orders"
    add(tmp_path, "    schemas: [sales, archive]\n")
    assert ask(tmp_path, "SELECT id FROM orders").rows == ((1,),)


@pytest.mark.postgres
def test_a_comparison_of_citext_minds_the_case(tmp_path: Path, postgres_server: PostgresServer) -> None:
    try:
        url = postgres_server.create_database(f"ci{uuid.uuid4().hex[:8]}", "CREATE EXTENSION citext")
    except Exception as error:  # noqa: BLE001 - the extension comes in a package of its own
        pytest.skip(str(error))
    database = url.rsplit("/", 1)[1]
    postgres_server.execute("CREATE TABLE u (n citext)", "INSERT INTO u VALUES ('Ada')", database=database)
    (tmp_path / "ktx.yaml").write_text(
        f"connections:\n  pg:\n    driver: postgres\n    url: {url}\n    allowed_functions: ['public.=']\n"
    )
    assert ask(tmp_path, "SELECT n FROM u WHERE n = 'ada'").rows == ()
    assert ask(tmp_path, "SELECT n FROM u WHERE lower(n) = 'ada'").rows == (("Ada",),)
    assert ask(tmp_path, "SELECT n FROM u WHERE n OPERATOR(public.=) 'ada'").rows == (("Ada",),)


@pytest.mark.table(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        (2**53, 2**53),
        (-(2**53), -(2**53)),
        (2**53 + 1, "9007199254740993"),
        (-(2**53) - 1, "-9007199254740993"),
        (2**70, "1180591620717411303424"),
        (1.5, 1.5),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (Decimal("1.50"), "1.50"),
        (Decimal("1E+3"), "1000"),
        (Decimal("NaN"), "NaN"),
        (date(2024, 1, 2), "2024-01-02"),
        (datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), "2024-01-02T03:04:05+00:00"),
        (timedelta(minutes=1.5), "PT90S"),
        (timedelta(microseconds=-1), "PT-0.000001S"),
        (b"\x00\xff", "00ff"),
        (memoryview(b"a"), "61"),
        ([Decimal("1"), {"a": b"b", 1: None}], ["1", {"a": "62", "1": None}]),
        (uuid.UUID(int=0), "00000000-0000-0000-0000-000000000000"),
    ],
)
def test_values_as_json_takes_them(value: Any, shown: Any) -> None:
    assert json_value(value) == shown


@pytest.mark.parametrize(
    "written", ["orderz", "shop.orderz", "shopp.orders", "orders", "order_lines", "shop.order_lines"]
)
def test_a_suggested_table_in_a_schema_can_be_pasted(tmp_path: Path, written: str) -> None:
    import duckdb

    with duckdb.connect(str(tmp_path / "db.duckdb")) as database:
        database.execute("CREATE SCHEMA shop; CREATE TABLE shop.orders (a int)")
        database.execute('CREATE TABLE shop."Order Lines" (a int)')
    (tmp_path / "ktx.yaml").write_text("connections:\n  duck:\n    driver: duckdb\n    path: db.duckdb\n")
    shards = Layout(tmp_path).schema_dir("duck")
    shards.mkdir(parents=True)
    (shards / "all.yaml").write_text(
        "tables: {orders: {table: shop.orders, columns: []}, lines: {table: 'shop.\"Order Lines\"', columns: []}}\n"
    )
    with pytest.raises(SourceError) as caught:
        ask(tmp_path, f"SELECT 1 FROM {written}")
    suggested = re.fullmatch(r"did you mean `(.*)`\?", caught.value.hint or "")
    assert suggested is not None, caught.value.hint
    assert ask(tmp_path, f"SELECT count(*) FROM {suggested[1]}").rows == ((0,),)
