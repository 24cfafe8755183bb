"""The judge tells right, wrong and needlessly refused apart; the shrinker makes a mismatch small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.semantic_oracle.cases.base import Case, Table
from tests.semantic_oracle.cases.shop import SHOP
from tests.semantic_oracle.judging import NEEDLESS, REFUSED, RIGHT, WRONG, Answered, judged
from tests.semantic_oracle.shrinking import reproduction, shrunk


@dataclass
class Told:
    """An answer made up for the test."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    totals: tuple[Any, ...] | None = None
    truncated: bool = False
    sql: str = "SELECT 1"
    code: str | None = None
    message: str = ""


class Fake:
    """An engine that gives one answer."""

    engine = "sqlite"

    def __init__(self, told: Told | Exception):
        self.told = told

    def answer(self, case: Case) -> Answered:
        if isinstance(self.told, Exception):
            raise self.told
        return self.told


COUNT = Case("count", SHOP, {"measures": ["orders.order_count"]}, [(7,)], "seven orders")
TOTAL = Case("total", SHOP, {"measures": ["orders.order_count"], "totals": True}, [(7,)], "seven", totals=[7])
UNKNOWN = Case("unknown", SHOP, {"measures": ["orders.x"]}, error="unknown_name", why="no such measure")
MAYBE = Case("maybe", SHOP, COUNT.query, [(7,)], "open", may_refuse="unreachable")
ELSEWHERE = Case("elsewhere", SHOP, COUNT.query, [(7,)], "not everywhere", refused_on={"sqlite": "it cannot"})


@pytest.mark.table(
    ("case", "told", "kind"),
    [
        (COUNT, Told(["order_count"], [(7,)]), RIGHT),
        (COUNT, Told(["order_count"], [(8,)]), WRONG),
        (COUNT, Told(["count"], [(7,)]), WRONG),
        (COUNT, Told(["order_count"], [(7,)], truncated=True), WRONG),
        (COUNT, Told([], [], code="grain"), NEEDLESS),
        (COUNT, ZeroDivisionError("a crash"), WRONG),
        (TOTAL, Told(["order_count"], [(7,)], totals=(7,)), RIGHT),
        (TOTAL, Told(["order_count"], [(7,)]), WRONG),
        (UNKNOWN, Told([], [], code="unknown_name"), REFUSED),
        (UNKNOWN, Told([], [], code="grain"), WRONG),
        (UNKNOWN, Told(["x"], [(1,)]), WRONG),
        (MAYBE, Told([], [], code="unreachable"), REFUSED),
        (MAYBE, Told([], [], code="grain"), NEEDLESS),
        (MAYBE, Told(["order_count"], [(9,)]), WRONG),
        (ELSEWHERE, Told([], [], code="query"), REFUSED),
        (ELSEWHERE, Told(["order_count"], [(9,)]), WRONG),
    ],
)
def test_verdicts(case: Case, told: Told | Exception, kind: str) -> None:
    verdict = judged(case, Fake(told))
    assert verdict.kind == kind
    assert bool(verdict.text) is (kind != RIGHT)


def test_a_wrong_number_is_told_with_everything_to_look_into_it() -> None:
    text = judged(COUNT, Fake(Told(["order_count"], [(8,)]))).text
    for part in ("count:", "orders.order_count", "SELECT 1", "seven orders", "expected order_count\n    7", "\n    8"):
        assert part in text


def test_a_mismatch_is_made_small() -> None:
    query = {
        "measures": ["orders.revenue", "orders.order_count"],
        "dimensions": ["customers.name", "orders.status"],
        "filters": ["orders.amount > 1", "orders.qty > 0"],
        "limit": 5,
    }
    case = Case("big", SHOP, query)

    def fails(smaller: Case) -> bool:
        orders = smaller.world.tables.get("orders", Table((), ()))
        return "orders.status" in smaller.query["dimensions"] and any(row[0] == 4 for row in orders.rows)

    small = shrunk(case, fails)
    assert small.query == {"measures": ["orders.order_count"], "dimensions": ["orders.status"]}
    assert {name: len(table.rows) for name, table in small.world.tables.items() if table.rows} == {"orders": 1}
    assert "'order_id': 4" in reproduction(small)
