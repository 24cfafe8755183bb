"""Native types and the four types of the semantic layer."""

from __future__ import annotations

import pytest

from ktx_cli.connectors.port import SemanticType
from ktx_cli.connectors.types import postgres_type, semantic_type

NUMBERS = {
    "sqlite": ["INTEGER", "int", "BIGINT", "UNSIGNED BIG INT", "INT2", "REAL", "DOUBLE PRECISION", "FLOAT",
               "NUMERIC(10,2)", "decimal(10, 5)", "money"],
    "duckdb": ["TINYINT", "INTEGER", "HUGEINT", "UHUGEINT", "UBIGINT", "UTINYINT", "DECIMAL(10,2)", "FLOAT", "DOUBLE",
               "BIGNUM"],
    "mysql": ["int(11)", "int(10) unsigned", "tinyint(4)", "bigint(20)",
              "mediumint(9)", "decimal(10,2)", "float", "double", "year(4)"],
}  # fmt: skip
TIMES = {
    "sqlite": ["DATE", "datetime", "TIMESTAMP", "time"],
    "duckdb": ["DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS", "TIME WITH TIME ZONE"],
    "mysql": ["date", "datetime(6)", "timestamp", "time"],
}
BOOLEANS = {"sqlite": ["BOOLEAN", "bool"], "duckdb": ["BOOLEAN"], "mysql": ["tinyint(1)", "bit(1)"]}
STRINGS = {
    "sqlite": ["", "TEXT", "VARCHAR(20)", "BLOB", "ANY", "JSON", "POINT", "CHARINT"],
    "duckdb": ["VARCHAR", "BLOB", "UUID", "INTEGER[]", "DECIMAL(3,1)[3]", "STRUCT(a INTEGER)", "MAP(VARCHAR, INTEGER)",
               "ENUM('a', 'int')", "UNION(a INTEGER)", "INTERVAL", "BIT", "JSON"],
    "mysql": ["varchar(20)", "enum('int')", "set('a')", "json", "longtext", "blob", "bit(8)", "point", "uuid"],
}  # fmt: skip


@pytest.mark.parametrize(
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
    assert semantic_type(dialect, native) is expected


@pytest.mark.parametrize(
    ("category", "expected"),
    [("N", "number"), ("B", "boolean"), ("D", "time"), ("S", "string"), ("A", "string"), ("E", "string"),
     ("T", "string"), ("U", "string"), ("", "string")],
)  # fmt: skip
def test_postgres_type(category: str, expected: str) -> None:
    assert postgres_type(category).value == expected
