"""Samples of what only one engine has: its types, its kinds of relations, its grants."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.warehouses.port import Connector, Scope, Table, TableKind
from ktx_cli.warehouses.sampling import Sample, SampleLimits, SampleMethod, read_sample

Open = Callable[..., Connector]
LIMITS = SampleLimits(rows=2000)


def tables_of(connector: Connector) -> dict[str, Table]:
    return {table.ref.name: table for table in connector.introspect(Scope()).tables}


def numbers(rows: int) -> str:
    """Return a SELECT of `i` from 1 to `rows`, in SQL that every engine takes."""
    digits = "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"  # noqa: E501
    places = [f"{digits} AS p{place}" for place in range(len(str(rows)))]
    value = " + ".join(f"p{place}.d * {10**place}" for place in range(len(places)))
    return f"SELECT {value} + 1 AS i FROM {' CROSS JOIN '.join(places)} WHERE {value} < {rows} ORDER BY 1"


def column_of(sample: Sample, name: str) -> list[Any]:
    return sample.values[sample.columns.index(name)]


# -- SQLite -----------------------------------------------------------------------------------------------------------


def test_sqlite_tables_without_row_numbers(sqlite_engine: Any, opened: Open) -> None:
    fill = f"INSERT INTO {{}} SELECT i, i, i FROM ({numbers(3000)}) AS n"
    options = sqlite_engine.make(
        "CREATE TABLE without (id text PRIMARY KEY, b int, c int) WITHOUT ROWID",
        "CREATE TABLE taken (rowid text, _rowid_ text, oid text)",
        "CREATE TABLE partly (rowid text, _rowid_ text, c text)",
        *map(fill.format, ("without", "taken", "partly")),
    )
    connector = opened("sqlite", **options)
    methods = {
        name: read_sample(connector, table, SampleLimits(rows=1500)).method
        for name, table in tables_of(connector).items()
    }
    assert methods == {"without": SampleMethod.HEAD, "taken": SampleMethod.HEAD, "partly": SampleMethod.BLOCKS}


def test_sqlite_texts_that_are_no_text(sqlite_engine: Any, opened: Open) -> None:
    options = sqlite_engine.make(
        "CREATE TABLE t (name text, thing, note varchar(5))",
        "INSERT INTO t VALUES (CAST(x'ff41' AS text), x'00ff', 7), ('Größe', 1.5, 'longer than five'), (NULL, 'x', '')",
    )
    connector = opened("sqlite", **options)
    sample = read_sample(connector, tables_of(connector)["t"], LIMITS)
    assert sample.failed == {}
    assert column_of(sample, "name") == ["�A", "Größe", None]
    assert column_of(sample, "thing") == ["00ff", 1.5, "x"]
    assert column_of(sample, "note") == ["7", "longer than five", ""]


# -- DuckDB and files -------------------------------------------------------------------------------------------------


def test_duckdb_types(duckdb_engine: Any, opened: Open) -> None:
    values = {
        "json_": "'[1]'::JSON",
        "list_": "[1, 2]",
        "struct_": "{'a': 1}",
        "map_": "MAP {'a': 1}",
        "union_": "union_value(a := 1)",
        "blob_": "'x'::BLOB",
        "enum_": "'a'::mood",
        "uuid_": "'b4a4e04f-38a1-45ba-8dcf-f8f8a47b7adf'::UUID",
        "long_ago": "DATE '0044-03-15 (BC)'",
        "far": "TIMESTAMP '20000-01-01'",
        "forever": "TIMESTAMPTZ 'infinity'",
        "span": "INTERVAL '1000000000 days'",
        "nan": "'nan'::DOUBLE",
        "huge": "170141183460469231731687303715884105727::HUGEINT",
        "midnight": "TIME '24:00:00'",
    }
    select = ", ".join(f"{value} AS {name}" for name, value in values.items())
    options = duckdb_engine.make("CREATE TYPE mood AS ENUM ('a', 'b')", f"CREATE TABLE t AS SELECT {select}")
    connector = opened("duckdb", **options)
    sample = read_sample(connector, tables_of(connector)["t"], LIMITS)
    assert sample.failed == {}
    assert set(sample.opaque) == {"json_", "list_", "struct_", "map_", "union_", "blob_"}
    assert all(each == [True] for each in sample.opaque.values())
    assert [column_of(sample, name) for name in ("long_ago", "far", "midnight")] == [[None]] * 3
    assert [column_of(sample, name) for name in ("enum_", "span")] == [["a"], ["1000000000 days"]]
    assert column_of(sample, "huge") == [2**127 - 1]


def test_duckdb_samples_although_a_macro_goes_by_the_name_of_a_function(duckdb_engine: Any, opened: Open) -> None:
    macro = "CREATE MACRO substr(a, b, c) AS error('mine')"
    connector = opened("duckdb", **duckdb_engine.make(macro, "CREATE TABLE t AS SELECT 'x' AS word"))
    sample = read_sample(connector, tables_of(connector)["t"], LIMITS)
    assert (sample.values, sample.failed) == ((["x"],), {})


def test_files_give_rows_at_random_and_the_same_every_time(tmp_path: Path, opened: Open) -> None:
    with duckdb.connect() as database:
        rows = "(SELECT i AS id, 'w' || i AS word FROM range(30000) AS r(i))"
        database.execute(f"COPY {rows} TO '{tmp_path}/plain.csv'; COPY {rows} TO '{tmp_path}/packed.parquet'")
    connector = opened("files", path=str(tmp_path))
    for table in tables_of(connector).values():
        sample = read_sample(connector, table, LIMITS, seed=3)
        ids = column_of(sample, "id")
        assert (sample.method, sample.rows, len(set(ids))) == (SampleMethod.RANDOM, 2000, 2000)
        assert (sample.row_count, sample.exact_count) == (30_000, True)
        assert max(ids) > 15_000
        assert read_sample(connector, table, LIMITS, seed=3).values == sample.values


def test_files_with_a_column_that_is_called_rowid(tmp_path: Path, opened: Open) -> None:
    (tmp_path / "t.csv").write_text("rowid,_rowid_\n" + "".join(f"{i},x\n" for i in range(3000)))
    connector = opened("files", path=str(tmp_path))
    sample = read_sample(connector, tables_of(connector)["t"], LIMITS)
    assert (sample.rows, sample.columns) == (2000, ("rowid", "_rowid_"))


# -- Postgres ---------------------------------------------------------------------------------------------------------

TYPES = {
    "a_json": "'{\"a\": 1}'::json",
    "a_jsonb": "'[1]'::jsonb",
    "an_xml": "'<a/>'::xml",
    "a_point": "'(1,2)'::point",
    "bytes": "'\\xff'::bytea",
    "list": "ARRAY[1, 2]",
    "bits": "B'101'",
    "mood": "'sad'::mood",
    "tall": "'x'::tall",
    "small": "'5'::small",
    "id": "'b4a4e04f-38a1-45ba-8dcf-f8f8a47b7adf'::uuid",
    "price": "'$1,234.50'::money",
    "host": "'10.0.0.1'::inet",
    "span": "'1000000000 days'::interval",
    "spell": "tsrange('2024-01-01', 'infinity')",
    "pair": "ROW(1, 'x')::pair",
    "nan": "'NaN'::numeric",
    "inf": "'-Infinity'::float8",
    "forever": "'infinity'::timestamp",
    "never": "'-infinity'::date",
    "zoned": "'infinity'::timestamptz",
    "ides": "'0044-03-15 BC'::date",
    "later": "'20000-01-01'::timestamptz",
    "midnight": "'24:00:00'::time",
    "midnight_there": "'24:00:00+02'::timetz",
    "last_day": "'9999-12-31'::date",
    "padded": "'a'::char(5)",
    "note": "repeat('x', 1000)::text",
    "tag": "'t'::\"char\"",
    "called": "'n'::name",
}
UNREAD = ["a_json", "a_jsonb", "an_xml", "a_point", "bytes", "list", "bits"]


def test_postgres_types(postgres_engine: Any, opened: Open) -> None:
    select = ", ".join(f"{value} AS {name}" for name, value in TYPES.items())
    options = postgres_engine.make(
        "CREATE TYPE mood AS ENUM ('sad')",
        "CREATE TYPE pair AS (a int, b text)",
        "CREATE DOMAIN tall AS text",
        "CREATE DOMAIN small AS int CHECK (VALUE < 10)",
        f"CREATE TABLE t AS SELECT {select}",
    )
    connector = opened("postgres", **options)
    sample = read_sample(connector, tables_of(connector)["t"], LIMITS)
    assert sample.failed == {}
    assert sorted(sample.opaque) == sorted(UNREAD)
    found = {name: str(values[0]) for name, values in zip(sample.columns, sample.values, strict=True)}
    nothing = ["forever", "never", "zoned", "ides", "later", "midnight", "midnight_there"]
    assert {name for name, value in found.items() if value == "None"} == set(nothing)
    expected = {
        "mood": "sad",
        "tall": "x",
        "small": "5",
        "price": "1234.50",
        "host": "10.0.0.1",
        "span": "1000000000 days",
        "pair": "(1,x)",
        "nan": "NaN",
        "inf": "-inf",
        "last_day": "9999-12-31",
        "padded": "a",
        "note": "x" * 256,
        "tag": "t",
        "called": "n",
    }
    assert {name: found[name] for name in expected} == expected


def test_postgres_relations_of_every_kind(postgres_engine: Any, opened: Open) -> None:
    rows = numbers(30_000)
    options = postgres_engine.make(
        "CREATE TABLE parted (id int, x text) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF parted FOR VALUES FROM (0) TO (10000)",
        "CREATE TABLE high PARTITION OF parted FOR VALUES FROM (10000) TO (99999)",
        f"INSERT INTO parted SELECT i, 'x' FROM ({rows}) AS n",
        "CREATE MATERIALIZED VIEW kept AS SELECT id, x FROM parted",
        "CREATE TABLE bare (id int)",
        f"INSERT INTO bare SELECT i FROM ({rows}) AS n",
        "CREATE TABLE empty (id int)",
    )
    connector = opened("postgres", **options)
    tables = tables_of(connector)
    assert {tables[name].row_estimate for name in ("parted", "bare", "kept")} == {None}
    for name in ("parted", "kept", "bare"):
        sample = read_sample(connector, tables[name], LIMITS, seed=2)
        ids = column_of(sample, "id")
        assert sample.method is SampleMethod.BLOCKS, name
        assert 500 <= len(ids) == len(set(ids)) <= 2000
        assert (sample.row_count, sample.exact_count) == (30_000, True)
        assert read_sample(connector, tables[name], LIMITS, seed=2).values == sample.values
    assert read_sample(connector, tables["empty"], LIMITS).complete


def test_postgres_foreign_tables_give_their_first_rows(postgres_engine: Any, opened: Open, tmp_path: Path) -> None:
    options = postgres_engine.make(
        "CREATE EXTENSION file_fdw",
        "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
        "CREATE FOREIGN TABLE f (i int) SERVER files OPTIONS (program 'seq 3000', format 'csv')",
    )
    connector = opened("postgres", **options)
    table = tables_of(connector)["f"]
    assert table.kind is TableKind.FOREIGN
    sample = read_sample(connector, table, LIMITS)
    assert (sample.rows, sample.method, sample.row_count) == (2000, SampleMethod.HEAD, 3000)


def test_postgres_gives_the_columns_a_role_may_read(postgres_engine: Any, opened: Open, postgres_server: Any) -> None:
    columns = ", ".join(f"c{at} int" for at in range(60))
    options = postgres_engine.make(
        "CREATE ROLE column_reader LOGIN PASSWORD 'secret'",
        f"CREATE TABLE t ({columns})",
        f"INSERT INTO t (c0) {numbers(1500)}",
        "CREATE TABLE closed (id int)",
        f"GRANT SELECT ({', '.join(f'c{at}' for at in range(0, 60, 2))}) ON t TO column_reader",
    )
    database = options["url"].rpartition("/")[2]
    connector = opened("postgres", url=postgres_server.url(database, "column_reader", "secret"))
    tables = tables_of(connector)
    sample = read_sample(connector, tables["t"], LIMITS)
    assert sample.columns == tuple(f"c{at}" for at in range(0, 60, 2))
    assert set(sample.failed) == {f"c{at}" for at in range(1, 60, 2)}
    assert {"permission denied" in each for each in sample.failed.values()} == {True}
    assert sample.complete
    with pytest.raises(SourceError) as caught:
        read_sample(connector, tables["closed"], LIMITS)
    assert caught.value.code == "query"


# -- MariaDB ----------------------------------------------------------------------------------------------------------


def test_mysql_types(mysql_engine: Any, opened: Open) -> None:
    options = mysql_engine.make(
        "SET SESSION sql_mode = ''",
        "CREATE TABLE t (zero date, partial date, moment datetime, flag tinyint(1), bits bit(1), mask bit(8), "
        "y year, span time, word enum('a', 'b'), many set('a', 'b'), doc json, place point, raw varbinary(9))",
        "INSERT INTO t VALUES ('0000-00-00', '2024-00-15', '0000-00-00 00:00:00', 1, b'1', b'11', 2024, '-30:00:00', "
        "'a', 'a,b', '{}', point(1, 2), 'x')",
        "INSERT INTO t VALUES ('2024-01-02', NULL, NULL, 0, b'0', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    )
    connector = opened("mysql", **options)
    sample = read_sample(connector, tables_of(connector)["t"], LIMITS)
    assert sample.failed == {}
    assert [str(each) for each in column_of(sample, "zero")] == ["None", "2024-01-02"]
    assert column_of(sample, "partial") == column_of(sample, "moment") == [None, None]
    assert [column_of(sample, name) for name in ("flag", "bits")] == [[1, 0], [1, 0]]
    assert [column_of(sample, name)[0] for name in ("y", "word", "many")] == [2024, "a", "a,b"]
    assert sample.opaque["mask"] == sample.opaque["place"] == sample.opaque["raw"] == [True, False]


def test_mysql_gives_the_columns_a_user_may_read(mysql_engine: Any, opened: Open, mariadb_server: Any) -> None:
    options = mysql_engine.make(
        "CREATE TABLE t (id int PRIMARY KEY, x int, word varchar(20))",
        f"INSERT INTO t SELECT i, i, 'w' FROM ({numbers(5000)}) AS n",
    )
    database = options["url"].rpartition("/")[2]
    mariadb_server.execute(
        "CREATE USER column_reader@'%' IDENTIFIED BY 'secret'",
        f"GRANT SELECT (x, word) ON `{database}`.t TO column_reader@'%'",
    )
    connector = opened("mysql", url=mariadb_server.url(database, "column_reader", "secret"))
    whole = tables_of(opened("mysql", **options))["t"]
    sample = read_sample(connector, whole, LIMITS)
    assert sample.columns == ("x", "word")
    assert set(sample.failed) == {"id"}
    assert (sample.rows, sample.method) == (2000, SampleMethod.HEAD)  # the key that numbers the rows is closed


def test_mysql_keys_beyond_signed_numbers(mysql_engine: Any, opened: Open) -> None:
    options = mysql_engine.make(
        "CREATE TABLE t (id bigint unsigned PRIMARY KEY)",
        f"INSERT INTO t SELECT 18446744073709551615 - i FROM ({numbers(3000)}) AS n",
    )
    connector = opened("mysql", **options)
    sample = read_sample(connector, tables_of(connector)["t"], LIMITS)
    assert (sample.rows, sample.method) == (2000, SampleMethod.BLOCKS)
    assert min(column_of(sample, "id")) > 2**63


def test_a_sqlite_file_that_goes_away(tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "data.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE t (x)")
    connector = opened("sqlite", path=str(path))
    table = tables_of(connector)["t"]
    path.unlink()
    with pytest.raises(SourceError) as caught:
        read_sample(connector, table, LIMITS)
    assert caught.value.code == "connection"
