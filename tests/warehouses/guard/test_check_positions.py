"""A function that is on no list is found wherever it stands in a statement."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.core.errors import KtxError
from ktx_cli.warehouses.dialect import DIALECTS
from ktx_cli.warehouses.guard.check import check

POSITIONS = (Path(__file__).parent / "corpus" / "positions.txt").read_text(encoding="utf-8").splitlines()
NO_CALLS = {
    "SELECT CAST(a AS evil(9)) FROM t": "a type",
    "SELECT CONVERT(int, evil(9))": "a type, as the parser reads it",
    "SELECT a FROM t x (b evil(9))": "the type of a column",
    "WITH evil(9) AS (SELECT 1) SELECT 1": "a name of WITH and its column",
    "SELECT a FROM t USE INDEX (evil)": "an index",
    "SELECT DATEADD(evil(9), 1, a) FROM t": "a unit, without its brackets",
    "SELECT DATE_TRUNC(evil(9), a) FROM t": "a unit, without its brackets",
    "SELECT JSON_OBJECT('a': evil(9))": "a path, then a number in brackets",
    "SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A evil(9)) DEFINE A AS TRUE)": "a name in a row pattern",
    "SELECT ARRAY[evil(9)]": "a name in square brackets",
    "SELECT [evil(9)]": "a name in square brackets",
    "SELECT a[evil(9)] FROM t": "a name in square brackets",
    "SELECT a[evil(9):2] FROM t": "a name in square brackets",
}
"""Statements in which some dialect has no call at that place, and what it is there."""


@pytest.mark.table("dialect", DIALECTS)
def test_a_call_is_found_wherever_it_stands(dialect: str) -> None:
    through = [sql for sql in POSITIONS if "evil" in _written(sql, dialect)]
    assert set(through) <= NO_CALLS.keys()


def _written(sql: str, dialect: str) -> str:
    try:
        return check(sql, dialect, max_rows=3).sql
    except KtxError:
        return ""


def test_the_positions_are_many_and_different() -> None:
    assert len(set(POSITIONS)) == len(POSITIONS) > 150
    assert all("evil" in sql for sql in POSITIONS)
    assert [sql for sql in NO_CALLS if sql not in POSITIONS] == []


@pytest.mark.table(
    ("dialect", "pattern"), [("snowflake", "A */ , evil(9) /*"), ("trino", "A 'x'"), ("snowflake", "A -- x\n B")]
)
def test_a_row_pattern_is_of_names_and_quantifiers(dialect: str, pattern: str) -> None:
    statement = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY a PATTERN ({}) DEFINE A AS a > 1)"
    assert check(statement.format("^ A+ (B | C)*? D{2,3} $"), dialect, max_rows=3).sql
    with pytest.raises(KtxError):
        check(statement.format(pattern), dialect, max_rows=3)
