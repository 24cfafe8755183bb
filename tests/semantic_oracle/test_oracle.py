"""The oracle itself: it stands alone, it agrees with what people worked out, and the comparison can fail."""

from __future__ import annotations

import ast
import sys
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.semantic_oracle import oracle
from tests.semantic_oracle.cases.base import Case
from tests.semantic_oracle.cases.shop import SHOP
from tests.semantic_oracle.comparing import difference
from tests.semantic_oracle.generating import Maker
from tests.semantic_oracle.judging import TOPICS, by_oracle, cases_of
from tests.semantic_oracle.oracle.aggregates import aggregate
from tests.semantic_oracle.oracle.answer import Result
from tests.semantic_oracle.oracle.errors import OracleError
from tests.semantic_oracle.oracle.parsing import parse
from tests.semantic_oracle.oracle.times import Calendar, moved, shifted, truncate
from tests.semantic_oracle.oracle.values import evaluate

DEFECTS = {
    "B1": "ratio-precedence",
    "B2": "or-and-second-filter",
    "B3": "null-totals-reconcile",
    "B4": "null-count-star-of-an-empty-member",
    "B5": "null-two-facts-null-merge",
    "B6": "having-not-selected",
    "B7": "diamond-filter-does-not-inflate",
    "B8": "convergent-filter-does-not-flip",
    "B9": "one-to-one-other-order",
    "B10": "median-filtered",
    "B11": "count-distinct-pairs-filtered",
    "B12": "grain-week-monday",
    "B13": "composite-many-to-one",
    "B14": "role-computed-column",
    "B15": "refused-unknown-key",
    "B16": "unreachable-filter",
    "B19": "fan-two-facts-in-one-expression",
    "B20": "derived-filter-is-pushed-down",
    "B21": "hidden-filter-bare",
}
"""The known defects of numbers, by a case that would show each; the others (B17, B18, B22) are about other parts."""


def test_the_oracle_imports_nothing_but_python() -> None:
    (folder,) = oracle.__path__
    for path in Path(folder).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                own = name.startswith("tests.semantic_oracle.oracle.")
                assert own or name.split(".")[0] in sys.stdlib_module_names, f"{path.name} imports {name}"


@pytest.mark.table("topic", TOPICS)
def test_the_oracle_agrees_with_what_was_worked_out(topic: str) -> None:
    wrong = [f"{case.id}: {problem}" for case in cases_of(topic) if (problem := disagreement(case))]
    assert not wrong, "\n".join(wrong)


def disagreement(case: Case) -> str | None:
    """Return where the oracle and the case's author differ, or None."""
    found = by_oracle(case)
    if case.error:
        codes = case.error.split("|")
        return None if isinstance(found, OracleError) and found.code in codes else f"{found}, not {case.error}"
    if isinstance(found, OracleError):
        return str(found)
    if case.totals is not None and difference([case.totals], [found.totals or ()], ordered=True):
        return f"totals {found.totals}"
    if case.truncated not in (None, found.truncated):
        return f"truncated {found.truncated}"
    return None if case.rows is None else difference(case.rows, found.rows, ordered=case.is_ordered)


def all_cases() -> list[Case]:
    return [case for topic in TOPICS for case in cases_of(topic)]


def test_there_are_enough_cases_each_with_a_reason() -> None:
    cases = all_cases()
    assert len(cases) >= 170
    assert sum(case.rows is not None for case in cases) >= 60
    assert [case.id for case in cases if not case.why] == []
    assert len({case.id for case in cases}) == len(cases)


def test_worlds_of_one_name_are_one_world() -> None:
    worlds = {id(case.world): case.world for case in all_cases()}
    assert len({world.name for world in worlds.values()}) == len(worlds)


@pytest.mark.table("defect", DEFECTS)
def test_every_known_defect_has_a_case(defect: str) -> None:
    assert DEFECTS[defect] in {case.id for case in all_cases()}


@pytest.mark.table(
    ("text", "value"),
    [
        ("NULL AND 1 = 2", False),
        ("NULL OR 1 = 1", True),
        ("NULL AND 1 = 1", None),
        ("NOT NULL", None),
        ("1 IN (2, NULL)", None),
        ("1 NOT IN (2, NULL)", None),
        ("1 IN (1, NULL)", True),
        ("NULL IS NULL AND NOT 1 IS NULL", True),
        ("NULL BETWEEN 1 AND 2", None),
        ("5 NOT BETWEEN 1 AND NULL", None),
        ("1 + 2 * 3 - 4 / 8", Fraction(13, 2)),
        ("(1 + 2) * -3", -9),
        ("7 / 0", None),
        ("7 % 3", 1),
        ("'it''s' || 'x'", "it'sx"),
        ("'abc' LIKE 'a%' AND 'abc' NOT LIKE 'a_'", True),
        ("CASE WHEN NULL THEN 1 WHEN 2 > 1 THEN 2 ELSE 3 END", 2),
        ("CASE WHEN 1 > 2 THEN 1 END", None),
        ("COALESCE(NULL, NULLIF(1, 1), 3)", 3),
        ("UPPER('x') = 'X' AND LOWER('Ä') = 'ä'", True),
        ("DATE '2024-02-01' > '2024-01-31' AND TIMESTAMP '2024-01-01 10:00:00' < '2024-01-02'", True),
        ("CAST(3 AS DOUBLE) / 2", Fraction(3, 2)),
        ("1 = 1 AND 1 = 2 OR 1 = 1", True),
        ("1 = 1 OR 1 = 1 AND 1 = 2", True),
        ("0.1 + 0.2 = 0.3", True),
    ],
)
def test_expressions(text: str, value: Any) -> None:
    assert evaluate(parse(text), lambda node: pytest.fail(f"no names here: {node}")) == value


@pytest.mark.table("text", ["1 +", "a b", "(SELECT 1)", "1; 2", "sum(x) OVER ()", "a NOT 1", "'open"])
def test_what_is_no_expression(text: str) -> None:
    with pytest.raises(OracleError) as caught:
        parse(text)
    assert caught.value.code == "query"


@pytest.mark.table(
    ("name", "values", "expected"),
    [
        ("count", [1, None, 1], 2),
        ("sum", [None, None], None),
        ("avg", [1, 2, None], Fraction(3, 2)),
        ("median", [4, 1, 3, 2], Fraction(5, 2)),
        ("min", [], None),
        ("stddev", [2, 4, 4, 4, 5, 5, 7, 9], (32 / 7) ** 0.5),
        ("variance", [1], None),
    ],
)
def test_aggregates(name: str, values: list[Any], expected: Any) -> None:
    assert aggregate(name, values) == expected


@pytest.mark.table(
    ("grain", "calendar", "start"),
    [
        ("minute", Calendar(), datetime(2024, 3, 31, 22, 30)),
        ("hour", Calendar(), datetime(2024, 3, 31, 22)),
        ("day", Calendar(), date(2024, 3, 31)),
        ("week", Calendar(), date(2024, 3, 25)),
        ("week", Calendar(week_start="sunday"), date(2024, 3, 31)),
        ("quarter", Calendar(), date(2024, 1, 1)),
        ("fiscal_year", Calendar(fiscal_year_start=4), date(2023, 4, 1)),
        ("fiscal_quarter", Calendar(fiscal_year_start=3), date(2024, 3, 1)),
    ],
)
def test_periods(grain: str, calendar: Calendar, start: Any) -> None:
    assert truncate(datetime(2024, 3, 31, 22, 30, 59), grain, calendar) == start


def test_zones_and_months_ends() -> None:
    assert shifted(datetime(2024, 3, 31, 1, 30), None, "Europe/Berlin", is_date=False) == datetime(2024, 3, 31, 3, 30)
    assert shifted(date(2024, 3, 31), None, "Europe/Berlin", is_date=False) == datetime(2024, 3, 31)
    assert moved(datetime(2024, 1, 31), 1, "month") == datetime(2024, 2, 29)
    assert moved(datetime(2024, 2, 29), -1, "year") == datetime(2023, 2, 28)


@pytest.mark.table(
    ("expected", "got", "ordered", "same"),
    [
        ([(1, "a")], [(Decimal("1.00"), "a")], False, True),
        ([(1,), (2,)], [(2,), (1,)], False, True),
        ([(1,), (2,)], [(2,), (1,)], True, False),
        ([(1,), (1,)], [(1,)], False, False),
        ([(1,), (1,), (2,)], [(1,), (2,), (2,)], False, False),
        ([(1 / 3,)], [(0.3333333333333,)], False, True),
        ([(1.0,)], [(1.00001,)], False, False),
        ([(None,)], [(0,)], False, False),
        ([(None,)], [("",)], False, False),
        ([(True,)], [(1,)], False, True),
        ([(date(2024, 1, 1),)], [("2024-01-01",)], False, True),
        ([(date(2024, 1, 1),)], [("2024-01-01T00:00:00",)], False, True),
        ([("1",)], [(1,)], False, False),
        ([(1, 2)], [(1,)], False, False),
    ],
)
def test_rows_are_compared(expected: list[Any], got: list[Any], ordered: bool, same: bool) -> None:
    assert (difference(expected, got, ordered=ordered) is None) is same


@pytest.mark.table("seed", range(8))
def test_groups_add_up_to_the_whole(seed: int) -> None:
    world = Maker(seed).world()
    name = world.sources[-1]["name"]
    target = world.sources[-1]["joins"][0]["to"]
    query = {"measures": [f"{name}.{name}_count"], "dimensions": [f"{target}.w"], "totals": True}
    found = by_oracle(Case("sum", world, query))
    assert isinstance(found, Result) and found.totals is not None
    assert sum(row[1] for row in found.rows) == found.totals[0] == len(world.tables[name].rows)


def test_a_query_of_the_shop_reads_every_row() -> None:
    found = by_oracle(Case("whole", SHOP, {"measures": ["orders.order_count"]}))
    assert isinstance(found, Result)
    assert found.rows == [(len(SHOP.tables["orders"].rows),)]
