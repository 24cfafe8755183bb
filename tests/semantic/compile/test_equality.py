"""Equality under which nothing equals nothing."""

from __future__ import annotations

import sqlite3

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from ktx_cli.warehouses.dialect import DIALECTS, dialect_named

PAIRS = [("1", "1", True), ("1", "2", False), ("1", "NULL", False), ("NULL", "1", False), ("NULL", "NULL", True)]


@pytest.mark.table(("left", "right", "wanted"), PAIRS)
def test_executed(left: str, right: str, wanted: bool) -> None:
    for dialect in DIALECTS:
        condition = dialect_named(dialect).null_safe(sqlglot.parse_one(left), sqlglot.parse_one(right))
        written = sqlglot.parse_one(f"SELECT CASE WHEN {condition.sql(dialect)} THEN 1 ELSE 0 END", dialect=dialect)
        ((found,),) = duckdb.sql(written.sql("duckdb")).fetchall()
        assert bool(found) is wanted, dialect


@pytest.mark.table(("left", "right", "wanted"), PAIRS)
def test_executed_in_sqlite(left: str, right: str, wanted: bool) -> None:
    condition = dialect_named("sqlite").null_safe(sqlglot.parse_one(left), sqlglot.parse_one(right))
    with sqlite3.connect(":memory:") as session:
        assert bool(session.execute(f"SELECT {condition.sql('sqlite')}").fetchone()[0]) is wanted
    session.close()


@pytest.mark.table("dialect", DIALECTS)
def test_it_stands_beside_other_conditions(dialect: str) -> None:
    one = dialect_named(dialect).null_safe(exp.column("a"), exp.column("b"))
    both = exp.and_(one, exp.column("c").eq(1), copy=False)
    tree = sqlglot.parse_one(f"SELECT 1 FROM t WHERE {both.sql(dialect)}", dialect=dialect)
    assert isinstance(tree.args["where"].this, exp.And)
