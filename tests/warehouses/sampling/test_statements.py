"""The SELECTs of samples: as written down for each dialect, one statement each, and no row twice in blocks.

`KTX_GOLDEN=1` writes the files anew; look at the difference before it is committed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from ktx_cli.warehouses.dialect import dialect_named
from ktx_cli.warehouses.port import Column, SemanticType, Table, TableKind, TableRef
from ktx_cli.warehouses.sampling import (
    BLOCKS,
    RowRange,
    SampleMethod,
    head,
    is_opaque,
    numbered,
    sampled,
    sampling_clause,
    stretches,
    value_of,
)

GOLDEN = Path(__file__).parent / "golden"
TYPES = {
    "tsql": (
        "int",
        "nvarchar(40)",
        "nvarchar(max)",
        "text",
        "xml",
        "datetime2",
        "bit",
        "uniqueidentifier",
        "timestamp",
    ),
    "snowflake": ("NUMBER(38,0)", "VARCHAR(40)", "TEXT", "VARIANT", "TIMESTAMP_NTZ(9)", "BOOLEAN", "BINARY"),
    "bigquery": ("INT64", "STRING(40)", "STRING", "ARRAY<INT64>", "TIMESTAMP", "JSON", "INTERVAL"),
    "clickhouse": ("UInt64", "FixedString(2)", "LowCardinality(Nullable(String))", "Array(String)", "DateTime", "UUID"),
    "redshift": (
        "integer",
        "character varying(40)",
        "character varying(65535)",
        "super",
        "timestamp without time zone",
    ),
    "databricks": ("int", "varchar(40)", "string", "map<string,int>", "timestamp", "interval day to second"),
    "spark": ("int", "varchar(40)", "string", "map<string,int>", "timestamp", "interval day to second", "date"),
    "athena": ("bigint", "varchar(40)", "string", "array<bigint>", "timestamp", "date", "decimal(10,2)"),
    "trino": ("bigint", "varchar(40)", "varchar", "array(bigint)", "timestamp(3)", "ipaddress", "char(3)"),
    "postgres": (
        "integer",
        "character varying(40)",
        "text",
        "jsonb",
        "date",
        "time without time zone",
        "mood",
        "money",
    ),
    "mysql": ("int(11)", "varchar(40)", "longtext", "json", "datetime", "bit(1)", "enum('a','b')"),
    "sqlite": ("INTEGER", "VARCHAR(40)", "TEXT", "JSON", "DATE", ""),
    "duckdb": ("BIGINT", "VARCHAR", "STRUCT(a INTEGER)", "DATE", "ENUM('a', 'b')", "INTERVAL"),
}
NAMES = ("id", 'say "hi"', "select", "a.b", "Größe", "back`tick", "]", "it's", "x\\y")


def column(native: str, dialect: str, name: str = "c") -> Column:
    return Column(name, native, dialect_named(dialect).semantic_type(native))


def table(dialect: str, kind: TableKind = TableKind.TABLE) -> Table:
    columns = tuple(column(native, dialect, name) for native, name in zip(TYPES[dialect], NAMES, strict=False))
    ref = TableRef(None if dialect == "sqlite" else "main", "Order Details")
    return Table(ref, kind, columns, primary_key=("id",))


def statements(dialect: str) -> Iterator[str]:
    wanted = table(dialect)
    yield head(wanted, wanted.columns, dialect, 256, 1001)
    yield head(wanted, (), dialect, 256, 1001)
    found = sampling_clause(wanted, dialect, 10_000, rows=3_000_000, seed=7)
    if found is not None:
        yield sampled(wanted, wanted.columns, dialect, 256, 10_000, found[0])
    number = numbered(wanted, dialect)
    if number is not None:
        within = RowRange(number, -5, 10**12)
        yield stretches(wanted, wanted.columns, dialect, 256, 3, within=within, seed=7)


@pytest.mark.table("dialect", TYPES)
def test_they_are_as_written_down(dialect: str) -> None:
    text = "".join(f"{statement};\n\n" for statement in statements(dialect))
    path = GOLDEN / f"{dialect}.sql"
    if os.environ.get("KTX_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.table("dialect", TYPES)
def test_each_is_one_select_of_as_many_columns(dialect: str) -> None:
    for number, statement in enumerate(statements(dialect)):
        (tree,) = sqlglot.parse(statement, read=dialect)
        assert isinstance(tree, exp.Select)
        assert len(tree.selects) == (1 if number == 1 else len(TYPES[dialect])), statement
        assert [each.name for each in tree.find_all(exp.Table) if each.name] or dialect == "sqlite"


METHODS = [
    ("postgres", SampleMethod.BLOCKS),
    ("tsql", SampleMethod.BLOCKS),
    ("snowflake", SampleMethod.BLOCKS),
    ("bigquery", SampleMethod.BLOCKS),
    ("databricks", SampleMethod.BLOCKS),
    ("spark", SampleMethod.RANDOM),
    ("athena", None),
    ("trino", SampleMethod.RANDOM),
    ("duckdb", SampleMethod.RANDOM),
    ("clickhouse", None),
    ("redshift", None),
    ("mysql", None),
    ("sqlite", None),
]


@pytest.mark.table(("dialect", "method"), METHODS)
def test_which_engine_samples_how(dialect: str, method: SampleMethod | None) -> None:
    found = sampling_clause(table(dialect), dialect, 100, rows=10_000, seed=1)
    assert (found and found[1]) == method
    assert sampling_clause(table(dialect, TableKind.VIEW), dialect, 100, rows=10_000, seed=1) is None
    assert sampling_clause(table(dialect, TableKind.FOREIGN), dialect, 100, rows=10_000, seed=1) is None


@pytest.mark.table(("rows", "percent"), [(0, "100.000000"), (50, "100.000000"), (10**12, "0.000100")])
def test_a_share_stays_within_what_engines_take(rows: int, percent: str) -> None:
    clause, _ = sampling_clause(table("postgres"), "postgres", 100, rows=rows, seed=0) or ("", None)
    assert percent in clause


OPAQUE = [
    *(
        ("postgres", each)
        for each in ("json", "jsonb", "xml", "bytea", "integer[]", "_int4", "point", "bit varying(3)")
    ),
    *(("postgres", each) for each in ("tsvector", "hstore", "geometry(Point,4326)", "vector(3)", "bit(3)")),
    *(("mysql", each) for each in ("json", "longblob", "varbinary(16)", "geometry", "multipoint", "bit(8)")),
    *(
        ("tsql", each)
        for each in ("xml", "geography", "hierarchyid", "sql_variant", "image", "timestamp", "rowversion")
    ),
    *(("clickhouse", each) for each in ("Array(String)", "Map(String, UInt8)", "Nullable(JSON)", "Tuple(a UInt8)")),
    *(("duckdb", each) for each in ("STRUCT(a INTEGER)", "INTEGER[]", "UNION(a INTEGER)", "JSON", "BLOB", "BIT")),
    *(("bigquery", each) for each in ("STRUCT<a INT64>", "ARRAY<STRING>", "BYTES", "GEOGRAPHY", "RANGE<DATE>")),
    *(("trino", each) for each in ("row(a bigint)", "map(varchar, bigint)", "varbinary", "HyperLogLog")),
    *(("snowflake", each) for each in ("VARIANT", "OBJECT", "GEOGRAPHY")),
    *(("redshift", each) for each in ("super", "varbyte(64)", "hllsketch")),
]
READ = [
    *(("postgres", each) for each in ("text", "uuid", "inet", "money", "interval", "mood", "numeric(10,2)", "citext")),
    *(("mysql", each) for each in ("bit(1)", "set('a','b')", "year(4)", "tinyint(1)", "enum('json','xml')")),
    *(("tsql", each) for each in ("bit", "uniqueidentifier", "datetimeoffset", "ntext")),
    *(("clickhouse", each) for each in ("LowCardinality(Nullable(String))", "Enum8('a' = 1)", "IPv4")),
    *(("sqlite", each) for each in ("", "TEXT", "timestamp", "VARCHAR(20)")),
    *(("duckdb", each) for each in ("UUID", "INTERVAL", "ENUM('json')", "TIMESTAMP WITH TIME ZONE", "HUGEINT")),
]


@pytest.mark.table(("dialect", "native"), OPAQUE)
def test_values_that_are_only_there_or_not(dialect: str, native: str) -> None:
    assert is_opaque(column(native, dialect))


@pytest.mark.table(("dialect", "native"), READ)
def test_values_that_are_read(dialect: str, native: str) -> None:
    assert not is_opaque(column(native, dialect))


VALUES = [
    ("postgres", "character varying(40)", '"c"'),
    ("postgres", "character varying", 'substr("c", 1, 256)'),
    ("postgres", "character varying(400)", 'substr("c", 1, 256)'),
    ("postgres", "character(3)", 'substr("c", 1, 256)'),
    ("postgres", "interval", 'substr("c"::text, 1, 256)'),
    ("postgres", "uuid", '"c"'),
    ("duckdb", "VARCHAR", 'system.main.substr("c", 1, 256)'),
    ("duckdb", "INTERVAL", 'system.main.substr(CAST("c" AS VARCHAR), 1, 256)'),
    ("mysql", "set('a','b')", "substr(`c`, 1, 256)"),
    ("mysql", "bit(1)", "`c` + 0"),
    ("tsql", "ntext", "SUBSTRING([c], 1, 256)"),
    ("tsql", "nvarchar(20)", "[c]"),
    ("clickhouse", "LowCardinality(Nullable(String))", "substr(`c`, 1, 256)"),
    ("clickhouse", "Enum8('a' = 1)", "`c`"),
    ("clickhouse", "Nullable(IPv6)", "`c`"),
    ("trino", "ipaddress", 'substr(CAST("c" AS varchar), 1, 256)'),
]


@pytest.mark.table(("dialect", "native", "expected"), VALUES)
def test_how_a_value_is_read(dialect: str, native: str, expected: str) -> None:
    assert value_of(column(native, dialect), dialect, 256) == expected


NUMBERED = [
    ("sqlite", (), TableKind.TABLE, "_rowid_"),
    ("sqlite", ("_ROWID_",), TableKind.TABLE, "rowid"),
    ("sqlite", ("_rowid_", "rowid"), TableKind.TABLE, "oid"),
    ("sqlite", ("_rowid_", "RowID", "oid"), TableKind.TABLE, None),
    ("sqlite", (), TableKind.VIEW, None),
    ("duckdb", (), TableKind.TABLE, "rowid"),
    ("duckdb", ("rowid",), TableKind.TABLE, None),
    ("mysql", (), TableKind.TABLE, "`id`"),
    ("postgres", (), TableKind.TABLE, None),
]


@pytest.mark.table(("dialect", "names", "kind", "expected"), NUMBERED)
def test_what_numbers_the_rows(dialect: str, names: tuple[str, ...], kind: TableKind, expected: str | None) -> None:
    columns = tuple(Column(name, "int", SemanticType.NUMBER) for name in ("id", *names))
    ref = TableRef(None if dialect == "sqlite" else "main", "t")
    assert numbered(Table(ref, kind, columns, primary_key=("id",)), dialect) == expected


@pytest.mark.table(("key", "native"), [((), "int"), (("id", "x"), "int"), (("id",), "char(36)")])
def test_without_one_integer_key_mysql_numbers_no_rows(key: tuple[str, ...], native: str) -> None:
    columns = tuple(column(native, "mysql", name) for name in ("id", "x"))
    assert numbered(Table(TableRef("shop", "t"), TableKind.TABLE, columns, primary_key=key), "mysql") is None


def read_blocks(numbers: list[int], count: int, seed: int) -> list[int]:
    wanted = Table(TableRef(None, "t"), TableKind.TABLE, (Column("id", "INTEGER", SemanticType.NUMBER),))
    within = RowRange("_rowid_", min(numbers), max(numbers))
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        database.executemany("INSERT INTO t VALUES (?)", [(number,) for number in numbers])
        statement = stretches(wanted, wanted.columns, "sqlite", 256, count, within=within, seed=seed)
        return [row[0] for row in database.execute(statement)]


INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)


@given(st.lists(INTEGERS, min_size=1, max_size=200, unique=True), st.integers(1, 300), st.integers(0, 2**24))
def test_blocks_hold_no_row_twice(numbers: list[int], count: int, seed: int) -> None:
    found = read_blocks(numbers, count, seed)
    assert len(found) == len(set(found)) <= count
    assert set(found) <= set(numbers)
    assert found == sorted(found) == read_blocks(numbers, count, seed)


@given(st.integers(-1000, 1000), st.integers(1, 400), st.integers(0, 400), st.integers(0, 2**24))
def test_without_gaps_blocks_hold_as_many_rows_as_are_wanted(low: int, count: int, more: int, seed: int) -> None:
    assert len(read_blocks(list(range(low, low + count + BLOCKS + more)), count, seed)) == count


def test_blocks_come_from_all_over_the_table_and_a_seed_moves_them() -> None:
    found = read_blocks(list(range(40_000)), 400, 1)
    assert {number // 1000 for number in found} == set(range(40))
    assert found != read_blocks(list(range(40_000)), 400, 2)
