"""Spark, on a real Spark Connect server: what its catalog, types, zones, settings and interrupts do to ktx."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import ConfigError, SourceError
from ktx_cli.testing.spark_server import SparkServer
from ktx_cli.warehouses import base
from ktx_cli.warehouses.guard.check import check
from ktx_cli.warehouses.pool import ended_at
from ktx_cli.warehouses.port import (
    ConnectionSpec,
    Connector,
    Index,
    Scope,
    SemanticType,
    TableKind,
    TableRef,
    table_evidence,
)
from ktx_cli.warehouses.registry import connect
from ktx_cli.warehouses.sampling import SampleLimits, read_sample
from ktx_cli.warehouses.spark.connector import SparkConnector, enclosed, log_sql, require_no_program, sections
from ktx_cli.warehouses.spark.session import Session, SparkAddress, spark_address

CORPUS = Path(__file__).parent / "guard" / "corpus"
ENDLESS = "SELECT count(*) FROM range(100000000000000)"
WIDE = "STRUCT<" + ", ".join(f"field_{number}: INT" for number in range(40)) + ">"

SHOP = (
    "CREATE TABLE orders (id BIGINT COMMENT 'key of the order', customer_id INT, amount DECIMAL(38, 9) DEFAULT 1.5, "
    "status STRING, name VARCHAR(20), note STRING, country STRING, paid BOOLEAN, items ARRAY<INT>, placed_on DATE, "
    "placed_at TIMESTAMP, local_at TIMESTAMP_NTZ, day DATE) USING parquet PARTITIONED BY (country, day) "
    "COMMENT 'every order''s row'",
    "INSERT INTO orders VALUES (1, 1, 12345678901234567890123456789.123456789, 'paid', 'a', '{\"a\": 1}', true, "
    "array(1, 2), DATE'2024-03-31', TIMESTAMP'2024-03-31 01:30:00+00:00', TIMESTAMP_NTZ'2024-03-31 02:30:00', 'DE', "
    "DATE'2024-03-31')",
    "CREATE TABLE customers (id INT, name STRING)",
    "CREATE TABLE t (a INT, b INT)",
    f"CREATE TABLE nested (wide {WIDE}, tags MAP<STRING, DATE>, `a.b` INT, `it's` INT, far DATE, `# Heading` INT)",
    "INSERT INTO nested (tags, far, `# Heading`) VALUES (map('x', DATE'2024-01-01'), DATE'+12024-01-01', 7)",
    "CREATE VIEW totals COMMENT 'by status' AS SELECT status, sum(amount) AS total FROM orders GROUP BY status",
    "CREATE TABLE gone (a INT)",
    "CREATE VIEW broken AS SELECT a FROM gone",
    "DROP TABLE gone",
    "CREATE TEMPORARY VIEW passing AS SELECT 1",
    "ANALYZE TABLE orders COMPUTE STATISTICS",
)


@pytest.fixture(scope="module")
def server(spark_server: SparkServer) -> SparkServer:
    """The server with the tables of the shop, made once."""
    spark_server.create_database("shop", *SHOP)
    return spark_server


@pytest.fixture(scope="module")
def shop(server: SparkServer) -> Iterator[Connector]:
    """A connection that tests only read through."""
    with connect(ConnectionSpec("shop", "spark", {"url": server.url, "schemas": ["shop"]})) as opened:
        yield opened


Open = Callable[..., Connector]


@pytest.mark.spark
def test_what_the_catalog_says_of_a_table(shop: Connector) -> None:
    schema = shop.introspect(Scope(schemas=("shop",)))
    tables = {table.ref.name: table for table in schema.tables}
    assert set(tables) == {"orders", "customers", "t", "nested", "totals", "broken"}
    assert schema.problems == ()
    orders = tables["orders"]
    assert (orders.kind, orders.comment, orders.row_estimate) == (TableKind.TABLE, "every order's row", 1)
    assert orders.indexes == (Index(("country", "day"), "partition"),)
    columns = {column.name: column for column in orders.columns}
    assert columns["id"].comment == "key of the order"
    assert (columns["amount"].native_type, columns["amount"].default) == ("decimal(38,9)", "1.5")
    assert columns["name"].native_type == "varchar(20)"
    assert [columns[name].type for name in ("placed_on", "placed_at", "local_at")] == [SemanticType.TIME] * 3
    assert list(columns)[-2:] == ["country", "day"]


@pytest.mark.spark
def test_a_view_brings_its_sql_and_a_broken_one_costs_only_itself(shop: Connector) -> None:
    schema = shop.introspect(Scope(schemas=("shop",)))
    (totals,) = (table for table in schema.tables if table.ref.name == "totals")
    assert (totals.kind, totals.comment) == (TableKind.VIEW, "by status")
    assert (totals.view_sql or "").startswith("SELECT status, sum(amount)")
    assert [column.native_type for column in totals.columns] == ["string", "decimal(38,9)"]
    (broken,) = (table for table in schema.tables if table.ref.name == "broken")
    assert (broken.kind, [column.name for column in broken.columns]) == (TableKind.VIEW, ["a"])  # as when it was made
    with pytest.raises(SourceError, match="`gone`") as caught:
        read_sample(shop, broken, SampleLimits())
    assert caught.value.code == "query"


@pytest.mark.spark
def test_a_struct_of_many_fields_keeps_its_type(shop: Connector) -> None:
    schema = shop.introspect(Scope(schemas=("shop",), enabled_tables=("nested",)))
    wide, tags, dotted, quoted, far, heading = schema.tables[0].columns
    assert wide.native_type.count("field_") == 40
    assert (tags.native_type, dotted.name, quoted.name, far.name) == ("map<string,date>", "a.b", "it's", "far")
    assert (heading.name, heading.type) == ("# Heading", SemanticType.NUMBER)


@pytest.mark.spark
def test_values_are_what_is_stored(shop: Connector) -> None:
    ((amount, items, instant, local, day),) = shop.query(
        "SELECT amount, items, placed_at, local_at, day FROM shop.orders"
    ).rows
    assert amount == Decimal("12345678901234567890123456789.123456789")
    assert items == [1, 2]
    assert (instant, instant.tzinfo) == (datetime(2024, 3, 31, 1, 30, tzinfo=UTC), UTC)
    assert (local, day) == (datetime(2024, 3, 31, 2, 30), date(2024, 3, 31))


VALUES = [
    ("INTERVAL '1 02' DAY TO HOUR", timedelta(days=1, hours=2)),
    ("map('a', 1)", {"a": 1}),
    ("named_struct('x', 1, 'y', array('z'))", {"x": 1, "y": ["z"]}),
    ("DATE'0001-01-01'", date(1, 1, 1)),
    ("DATE'+12024-01-01'", "12024-01-01"),
    ("X'00FF'", b"\x00\xff"),
    ("CAST(NULL AS INT)", None),
    ("1 / 2", Decimal("0.5")),
    ("5 div 2", 2),
    ("'a\\'b'", "a'b"),
    ('"text"', "text"),
    ("TIMESTAMP'2024-07-01 00:00:00 Asia/Tokyo'", datetime(2024, 6, 30, 15, tzinfo=UTC)),
    ("CAST(TIMESTAMP'2024-07-01 00:00:00' AS STRING)", "2024-07-01 00:00:00"),
    ("TIMESTAMP'2024-07-01 00:00:00'", datetime(2024, 7, 1, tzinfo=UTC)),
]


@pytest.mark.spark
@pytest.mark.table(("sql", "expected"), VALUES)
def test_a_value_in_python(sql: str, expected: Any, shop: Connector) -> None:
    ((found,),) = shop.query(f"SELECT {sql} AS value").rows
    assert found == expected


@pytest.mark.spark
def test_the_zone_of_this_machine_does_not_matter(shop: Connector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        moment = datetime(2024, 7, 1, 12, 30, 0, 123456)
        ((local, instant, now),) = shop.query(
            "SELECT ? AS a, ? AS b, abs(unix_seconds(now()) - ?) AS c", [moment, moment.replace(tzinfo=UTC), 0]
        ).rows
        assert (local, instant) == (moment, moment.replace(tzinfo=UTC))
        assert now > 0
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.spark
@pytest.mark.table(
    ("sql", "mark"),
    [
        ("SELECT 1 / 0 AS x", "Division by zero"),
        ("SELECT CAST('x' AS INT) AS x", "cannot be cast"),
        ("SELECT 2147483647 + 1 AS x", "overflow"),
        ("SELECT INTERVAL '1' YEAR AS x", "cannot read a value of this type"),
        ("SELECT array(1)[5] AS x", "out of bounds"),
    ],
)
def test_what_ansi_mode_and_the_client_refuse(sql: str, mark: str, shop: Connector) -> None:
    with pytest.raises(SourceError) as caught:
        shop.query(sql)
    assert caught.value.code == "query"
    assert mark in caught.value.message
    assert "SQLSTATE" not in caught.value.message


@pytest.mark.spark
def test_a_date_beyond_python_is_sampled_as_missing(shop: Connector) -> None:
    (nested,) = shop.introspect(Scope(schemas=("shop",), enabled_tables=("nested",))).tables
    sample = read_sample(shop, nested, SampleLimits())
    assert dict(zip(sample.columns, sample.values, strict=True))["far"] == [None]
    assert sample.failed == {}
    assert set(sample.opaque) == {"wide", "tags"}


@pytest.mark.spark
def test_a_session_reads_no_file_and_no_variable_of_the_server(shop: Connector) -> None:
    ((found,),) = shop.query("SELECT concat('${env:PATH}', '${spark.master}', '${system:user.dir}') AS x").rows
    assert found == "${env:PATH}${spark.master}${system:user.dir}"
    for sql in ("SELECT * FROM text.`/etc/hostname`", "SELECT * FROM csv.`/etc/passwd`"):
        with pytest.raises(SourceError) as caught:
            shop.query(sql)
        assert "cannot be found" in caught.value.message


@pytest.mark.spark
def test_no_hostile_statement_changes_anything_without_the_guard(shop: Connector, tmp_path: Path) -> None:
    before = shop.introspect(Scope())
    allowed = []
    for case in map(json.loads, (CORPUS / "hostile_spark.jsonl").read_text().splitlines()):
        if case["class"] not in ("resource",):
            try:
                shop.query(case["sql"].replace("/tmp/x", f"{tmp_path}/x"), max_rows=1)
                allowed.append(case["sql"])
            except SourceError as error:
                assert error.code in ("query", "read_only"), case
    assert shop.introspect(Scope()) == before
    assert not [*tmp_path.iterdir()]
    # What is left to the guard reads the names of files and the catalog, and neither files nor the environment.
    assert sorted(allowed) == [
        "DESCRIBE EXTENDED shop.orders", "EXPLAIN DROP TABLE shop.orders", "SELECT input_file_name() FROM shop.orders",
        "SHOW TABLES",
    ]  # fmt: skip


@pytest.mark.spark
def test_every_honest_statement_that_the_guard_lets_through_runs(shop: Connector) -> None:
    for case in map(json.loads, (CORPUS / "honest_spark.jsonl").read_text().splitlines()):
        checked = check(case["sql"], "spark", max_rows=5)
        if case["class"] == "travel" or "odd name" in case["sql"]:
            continue
        plan = checked.sql if checked.explains else f"EXPLAIN {checked.sql}"
        text = "\n".join(row[0] for row in shop.query(plan).rows)
        assert not text.startswith("Error"), (case["sql"], text)


SAME = [
    ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id) AS p FROM range(4)", [(1.5,)]),
    ("SELECT id % 2 AS k, id FROM range(9) QUALIFY row_number() OVER (PARTITION BY id % 2 ORDER BY id DESC) = 1 "
     "ORDER BY k LIMIT 1", [(0, 8)]),
    ("SELECT variant_get(parse_json('{\"a\": 7}'), '$.a', 'int') AS a", [(7,)]),
    ("SELECT id FROM range(5) ORDER BY id DESC LIMIT 2", [(4,), (3,)]),
    ("SELECT 1 AS a, 2 AS a", [(1, 2)]),
    ("SELECT datediff(DATE'2024-02-01', DATE'2024-01-01') AS d, dateadd(MONTH, 1, DATE'2024-01-31') AS m",
     [(31, datetime(2024, 2, 29, tzinfo=UTC))]),
    ("SELECT size(array(1)) AS a, sort_array(collect_list(id), false) AS b FROM range(3)", [(1, [2, 1, 0])]),
    ("SELECT 'it\\'s' AS a, \"it's\" AS b, r'\\n' AS c, '\\\\' AS d, 'a' 'b' AS e",
     [("it's", "it's", "\\n", "\\", "ab")]),
]  # fmt: skip


@pytest.mark.spark
@pytest.mark.table(("sql", "rows"), SAME)
def test_the_guard_does_not_change_what_a_statement_means(sql: str, rows: list[Any], shop: Connector) -> None:
    asked = list(shop.query(sql).rows)
    assert asked == list(shop.query(check(sql, "spark", max_rows=100).sql, max_rows=100).rows)
    assert asked == rows


@pytest.mark.spark
def test_every_function_on_the_list_is_built_in(shop: Connector) -> None:
    from ktx_cli.warehouses.spark.dialect import DIALECT

    known = {row[0] for row in shop.query("SHOW SYSTEM FUNCTIONS", max_rows=1000).rows}
    syntax = {"try_cast", "timestampadd", "timestampdiff"}
    assert DIALECT.functions() - known - syntax == set()
    assert known - DIALECT.functions() >= {"reflect", "java_method", "try_reflect", "from_protobuf", "input_file_name"}


@pytest.mark.spark
def test_another_thread_interrupts_a_statement_and_the_session_goes_on(shop: Connector) -> None:
    from ktx_cli.core import monotonic

    with ended_at(shop, monotonic() + 0.3) as deadline, pytest.raises(SourceError) as caught:
        shop.query(ENDLESS)
    assert deadline.passed
    assert caught.value.code == "timeout"
    assert shop.query("SELECT 1 AS one").rows == ((1,),)


@pytest.mark.spark
def test_a_statement_that_the_server_does_not_stop_costs_its_session(
    server: SparkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "STOP_SECONDS", 0.3)
    with connect(ConnectionSpec("shop", "spark", {"url": server.url, "query_timeout_ms": 200})) as connector:
        interrupt = Session.interrupt
        monkeypatch.setattr(Session, "interrupt", lambda self: None)
        with pytest.raises(SourceError) as caught:
            connector.query(ENDLESS)
        assert caught.value.code == "timeout"
        assert "closed its session" in caught.value.message
        monkeypatch.setattr(Session, "interrupt", interrupt)
        assert connector.query("SELECT 1 AS one").rows == ((1,),)


@pytest.mark.spark
def test_several_statements_at_once(shop: Connector) -> None:
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(shop.query(f"SELECT {n} AS n").rows[0][0])) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 2, 3]


@pytest.mark.spark
def test_a_large_result_is_cut_and_the_rest_is_not_read(shop: Connector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_RESULT_BYTES", 100_000)
    found = shop.query("SELECT id, repeat('x', 100) AS text FROM range(50000)", max_rows=1_000_000)
    assert found.truncated
    assert 100 < len(found.rows) < 10_000
    assert shop.query("SELECT 1 AS one").rows == ((1,),)


@pytest.mark.spark
def test_another_catalog(server: SparkServer) -> None:
    server.execute("CREATE NAMESPACE other.mart", "CREATE TABLE other.mart.`Order Details` (`a b` INT, name STRING)")
    options = {"url": server.url, "catalog": "other", "schemas": ["mart"]}
    with connect(ConnectionSpec("shop", "spark", options)) as connector:
        (table,) = connector.introspect(Scope()).tables
        assert table.ref == TableRef("mart", "Order Details")
        assert [column.name for column in table.columns] == ["a b", "name"]
        assert connector.query("SELECT `a b` FROM `mart`.`Order Details`").rows == ()
        assert connector.test(Scope()).database == "other"


@pytest.mark.spark
def test_a_catalog_that_is_not_there(server: SparkServer) -> None:
    with pytest.raises(SourceError) as caught:
        connect(ConnectionSpec("shop", "spark", {"url": server.url, "catalog": "missing"}))
    assert (caught.value.code, caught.value.exit_code) == ("connection", 4)
    assert caught.value.hint == "ktx config set connections.shop.catalog NAME"


@pytest.mark.spark
def test_nothing_is_taken_from_the_environment(server: SparkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", "canary")  # The client would send it, over TLS.
    with connect(ConnectionSpec("shop", "spark", {"url": server.url, "user": "ada"})) as connector:
        assert connector.test(Scope(schemas=("shop",))).user == os.environ.get("SPARK_USER", "ktx")


ADDRESSES = [
    ({"url": "sc://spark.example.com"}, SparkAddress("spark.example.com", 15002)),
    ({"url": "sc://db:1/;user_id=ada;use_ssl=true"}, SparkAddress("db", 1, "ada", "", True)),
    ({"url": "sc://db/;token=a%3Bb"}, SparkAddress("db", 15002, "", "a;b", True)),
    ({"url": "sc://db:1", "port": 2, "host": "other"}, SparkAddress("other", 2)),
    ({"host": "db", "token": "t"}, SparkAddress("db", 15002, "", "t", True)),
    ({"host": "localhost", "token": "t", "ssl": False}, SparkAddress("localhost", 15002, "", "t", False)),
    ({"host": "::1"}, SparkAddress("::1", 15002)),
]


@pytest.mark.table(("options", "expected"), ADDRESSES)
def test_the_address_of_a_server(options: dict[str, Any], expected: SparkAddress) -> None:
    assert spark_address(ConnectionSpec("shop", "spark", options)) == expected
    assert "token" not in repr(expected)


@pytest.mark.spark
def test_tables_of_files_prove_nothing(shop: Connector) -> None:
    assert table_evidence(shop, shop.introspect(Scope()).tables) == {}


@pytest.mark.spark
def test_a_log_is_summed_up_in_one_row(server: SparkServer) -> None:
    ref = TableRef("logs", "orders")
    sql = log_sql("spark_catalog", ref).replace("`orders`.", "")
    server.create_database("logs", "CREATE TABLE metadata_log_entries (file STRING)")
    seen: list[tuple[Any, ...]] = []
    for name in ("a", "b"):
        server.execute(f"INSERT INTO logs.metadata_log_entries VALUES ('{name}')")
        with connect(ConnectionSpec("logs", "spark", {"url": server.url})) as connector:
            seen += connector.query(f"{sql} UNION ALL {sql}").rows
    assert {row[:2] for row in seen} == {("logs", "orders")}
    assert seen[0] == seen[1] != seen[2] == seen[3]
    assert [row[2].split()[0] for row in seen] == ["1", "1", "2", "2"]


class ScriptedSession:
    """Answers the statements about a catalog with tables of Iceberg, Delta and Parquet as their documentation says."""

    broken = False

    def __init__(self) -> None:
        self.asked: list[str] = []

    def rows(self, sql: str, parameters: Any = ()) -> Iterator[tuple[tuple[str, ...], list[tuple[Any, ...]]]]:
        self.asked.append(sql)
        yield (), self._answer(sql)

    def _answer(self, sql: str) -> list[tuple[Any, ...]]:
        name = next((each for each in ("ice", "delta", "plain", "old") if f"`{each}`" in sql), "")
        if "version()" in sql:
            return [("4.0.0 x", "ann", "lake")]
        if "SHOW NAMESPACES" in sql:
            return [("mart",)]
        if "SHOW TABLES" in sql:
            return [("mart", each, False) for each in ("ice", "delta", "plain", "old")]
        if "DESCRIBE TABLE" in sql:
            provider = {"ice": "iceberg", "delta": "delta", "plain": "parquet", "old": "delta"}[name]
            return [("id", "int", None), ("# Detailed Table Information", "", ""), ("Provider", provider, "")]
        if "DESCRIBE HISTORY" in sql and name == "delta":
            return [(7, datetime(2024, 1, 2, tzinfo=UTC), "ann")]
        if "metadata_log_entries" in sql:
            return [("mart", "ice", "3 -12")]
        raise ValueError("DELTA_TABLE_NOT_FOUND")

    def interrupt(self) -> None:
        """Nothing is running."""

    def close(self) -> None:
        """Nothing is open."""


def test_the_logs_of_lakes_are_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    session = ScriptedSession()
    monkeypatch.setattr(SparkConnector, "_open", lambda self: session)
    with connect(ConnectionSpec("shop", "spark", {"url": "sc://localhost:1"})) as connector:
        tables = connector.introspect(Scope()).tables
        assert len(tables) == 4
        session.asked.clear()
        assert table_evidence(connector, tables) == {
            TableRef("mart", "ice"): "3 -12",
            TableRef("mart", "delta"): "7 2024-01-02 00:00:00+00:00",
        }
    assert [sql.removeprefix("/* ktx */ ") for sql in session.asked[1:]] == [
        "SELECT 'mart', 'ice', concat(count(*), ' ', bit_xor(xxhash64(file))) "
        "FROM `lake`.`mart`.`ice`.`metadata_log_entries`",
        "DESCRIBE HISTORY `lake`.`mart`.`delta` LIMIT 1",
        "DESCRIBE HISTORY `lake`.`mart`.`old` LIMIT 1",
    ]


@pytest.mark.table(
    ("options", "mark"),
    [
        ({}, "contains no host"),
        ({"url": "http://db"}, "cannot be read"),
        ({"url": "sc://user:canary@db"}, "cannot be read"),
        ({"url": "sc://db/path"}, "cannot be read"),
        ({"url": "sc://db:port"}, "cannot be read"),
        ({"url": "sc://db/;token"}, "cannot be read"),
        ({"url": "sc://db/;x-header=canary"}, "unknown parameter `x-header`"),
        ({"url": "sc://db/;use_ssl=canary"}, "invalid value"),
        ({"url": "sc://db/;token=canary;use_ssl=false"}, "accepts tokens only over TLS"),
        ({"host": "db", "token": "canary", "ssl": False}, "accepts tokens only over TLS"),
    ],
)
def test_an_address_that_cannot_be_used(options: dict[str, Any], mark: str) -> None:
    with pytest.raises(ConfigError) as caught:
        spark_address(ConnectionSpec("shop", "spark", options))
    assert mark in caught.value.message
    assert "canary" not in f"{caught.value.message} {caught.value.hint}"


def test_a_comment_at_the_end_does_not_close_the_query_around_it() -> None:
    assert enclosed("SELECT 1 -- one;", 3) == "/* ktx */ SELECT * FROM (\nSELECT 1 -- one\n) LIMIT 3"


@pytest.mark.table("sql", ["SELECT 'reflect(1)'", "SELECT a FROM t JOIN u USING (a)", "SELECT 'x USING ''cat'''"])
def test_words_in_texts_run_no_program(sql: str) -> None:
    require_no_program(sql, "here")


def test_the_sections_of_a_description() -> None:
    rows = [("a", "int", None), ("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
    rows += [("a", "int", None), ("", "", ""), ("# Detailed Table Information", "", ""), ("Comment", "", "")]
    found = sections(rows)
    assert found[""] == [("a", "int", None)]
    assert ("a", "int", None) in found["# Partition Information"]
    assert found["# Detailed Table Information"] == [("Comment", "", "")]
