"""Looker's filter expressions as SQL, checked on values in DuckDB."""

from __future__ import annotations

import duckdb
import pytest

from ktx_cli.semantic.interchange.lookml.views import condition
from ktx_cli.semantic.interchange.report import UnresolvedError

TEXTS = ("north", "south", "northeast", "a,b", "50%", "", None)
NUMBERS = (1, 5, 10, 15, None)

CASES = [
    ("string", "north", ["north"]),
    ("string", "north, south", ["north", "south"]),
    ("string", '"a,b"', ["a,b"]),
    ("string", "north%", ["north", "northeast"]),
    ("string", "%th,a^,b", ["north", "south", "a,b"]),
    ("string", "50^%", ["50%"]),
    ("string", "-north", ["south", "northeast", "a,b", "50%", "", None]),
    ("string", "north%,-northeast", ["north"]),
    ("string", "NULL", [None]),
    ("string", "-NULL", ["north", "south", "northeast", "a,b", "50%", ""]),
    ("string", "EMPTY", ["", None]),
    ("number", "5", [5]),
    ("number", "1, 10", [1, 10]),
    ("number", ">5", [10, 15]),
    ("number", ">=5 AND <15", [5, 10]),
    ("number", "5 to 10", [5, 10]),
    ("number", "[5, 15)", [5, 10]),
    ("number", "(-inf, 5]", [1, 5]),
    ("number", "<5 OR >10", [1, 15]),
    ("number", "NOT 5", [1, 10, 15, None]),
    ("number", "<>5", [1, 10, 15]),
    ("number", "NULL", [None]),
    ("number", "NOT NULL", [1, 5, 10, 15]),
    ("boolean", "yes", [True]),
    ("boolean", "No", [False, None]),
]


@pytest.mark.table(("kind", "text", "expected"), CASES)
def test_condition_holds_for(kind: str, text: str, expected: list[object]) -> None:
    values = {"string": TEXTS, "number": NUMBERS, "boolean": (True, False, None)}[kind]
    rows = [(value,) for value in values]
    with duckdb.connect() as connection:
        connection.execute(
            f"CREATE TABLE t (x {kind.upper().replace('STRING', 'VARCHAR').replace('NUMBER', 'INTEGER')})"
        )
        connection.executemany("INSERT INTO t VALUES (?)", rows)
        found = connection.execute(f"SELECT x FROM t WHERE {condition('x', kind, text)}").fetchall()
    assert sorted(found, key=repr) == sorted([(value,) for value in expected], key=repr)


@pytest.mark.table(
    ("kind", "text"), [("time", "7 days"), ("number", "many"), ("boolean", "maybe"), ("string", " "), ("string", ",")]
)
def test_what_has_no_sql_is_refused(kind: str, text: str) -> None:
    with pytest.raises(UnresolvedError):
        condition("x", kind, text)
