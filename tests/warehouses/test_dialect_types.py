"""Native types and the four types of the semantic layer."""

from __future__ import annotations

import pytest

from ktx_cli.warehouses.dialect import dialect_named
from ktx_cli.warehouses.port import SemanticType, postgres_type

NUMBERS = {
    "sqlite": ["INTEGER", "int", "BIGINT", "UNSIGNED BIG INT", "INT2", "REAL", "DOUBLE PRECISION", "FLOAT",
               "NUMERIC(10,2)", "decimal(10, 5)", "money"],
    "duckdb": ["TINYINT", "INTEGER", "HUGEINT", "UHUGEINT", "UBIGINT", "UTINYINT", "DECIMAL(10,2)", "FLOAT", "DOUBLE",
               "BIGNUM"],
    "mysql": ["int(11)", "int(10) unsigned", "tinyint(4)", "bigint(20)",
              "mediumint(9)", "decimal(10,2)", "float", "double", "year(4)"],
    "tsql": ["int", "tinyint", "smallmoney", "money", "decimal", "numeric(10,2)", "float", "real", "bigint"],
    "clickhouse": ["UInt64", "Int256", "Float32", "BFloat16", "Decimal(10, 2)", "Nullable(UInt64)",
                   "LowCardinality(Nullable(Int8))", "SimpleAggregateFunction(sum, Decimal(10, 2))",
                   "SimpleAggregateFunction(anyLast, Nullable(Int8))"],
    "redshift": ["smallint", "double precision", "numeric(18,0)", "decimal(10,2)"],
    "bigquery": ["INT64", "FLOAT64", "NUMERIC", "BIGNUMERIC(40, 10)", "BIGDECIMAL"],
}  # fmt: skip
TIMES = {
    "sqlite": ["DATE", "datetime", "TIMESTAMP", "time"],
    "duckdb": ["DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS", "TIME WITH TIME ZONE"],
    "mysql": ["date", "datetime(6)", "timestamp", "time"],
    "tsql": ["date", "datetime", "datetime2", "datetimeoffset", "smalldatetime", "time"],
    "clickhouse": ["Date32", "DateTime('UTC')", "Nullable(DateTime64(3, 'UTC'))", "Time64(6)", "LowCardinality(Date)"],
    "redshift": ["timestamp without time zone", "time with time zone", "date"],
}
BOOLEANS = {
    "sqlite": ["BOOLEAN", "bool"],
    "duckdb": ["BOOLEAN"],
    "mysql": ["tinyint(1)", "bit(1)"],
    "tsql": ["bit"],
    "clickhouse": ["Bool", "Nullable(Bool)"],
    "redshift": ["boolean"],
}
STRINGS = {
    "sqlite": ["", "TEXT", "VARCHAR(20)", "BLOB", "ANY", "JSON", "POINT", "CHARINT"],
    "duckdb": ["VARCHAR", "BLOB", "UUID", "INTEGER[]", "DECIMAL(3,1)[3]", "STRUCT(a INTEGER)", "MAP(VARCHAR, INTEGER)",
               "ENUM('a', 'int')", "UNION(a INTEGER)", "INTERVAL", "BIT", "JSON"],
    "mysql": ["varchar(20)", "enum('int')", "set('a')", "json", "longtext", "blob", "bit(8)", "point", "uuid"],
    "tsql": ["nvarchar", "timestamp", "uniqueidentifier", "xml", "geography", "hierarchyid", "sql_variant", "binary"],
    "clickhouse": ["String", "FixedString(3)", "Array(Int8)", "Array(Nullable(Int8))", "Map(String, Int8)",
                   "Tuple(a Int8)", "Enum8('a' = 1)", "UUID", "IPv4", "AggregateFunction(sum, Int8)", "JSON",
                   "Nullable(String)", "Variant(Int8, String)", "Nested(a Int8)", "IntervalDay",
                   "SimpleAggregateFunction(groupArrayArray(3), Array(Int8))"],
    "redshift": ["character varying(9)", "super", "geometry", "varbyte", "interval year to month", "hllsketch"],
}  # fmt: skip


@pytest.mark.table(
    ("dialect", "native", "expected"),
    [
        (dialect, native, expected)
        for expected, table in (
            (SemanticType.NUMBER, NUMBERS),
            (SemanticType.TIME, TIMES),
            (SemanticType.BOOLEAN, BOOLEANS),
            (SemanticType.STRING, STRINGS),
        )
        for dialect, natives in table.items()
        for native in natives
    ],
)
def test_semantic_type(dialect: str, native: str, expected: SemanticType) -> None:
    assert dialect_named(dialect).semantic_type(native) is expected


@pytest.mark.table(
    ("category", "expected"),
    [("N", "number"), ("B", "boolean"), ("D", "time"), ("S", "string"), ("A", "string"), ("E", "string"),
     ("T", "string"), ("U", "string"), ("", "string")],
)  # fmt: skip
def test_postgres_type(category: str, expected: str) -> None:
    assert postgres_type(category).value == expected
