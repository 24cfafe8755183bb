"""Windows of time and filled periods; executed on the shop in DuckDB against plain loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest

from ktx_cli.semantic.answer import ask, compile_query
from ktx_cli.semantic.model import SemanticError
from ktx_cli.warehouses.port import Connector
from tests.semantic.golden.engines import opened
from tests.semantic.golden.world import NOW, TABLES, shop_model

ORDERS = [dict(zip(TABLES["orders"][0], row, strict=True)) for row in TABLES["orders"][1]]
MONTH = {"field": "orders.placed_at", "granularity": "month"}
DAY = {"field": "orders.placed_at", "granularity": "day"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    with opened("duckdb", tmp_path_factory.mktemp("shop")) as connector:
        yield connector


def rows(shop: Connector, **query: Any) -> list[tuple[Any, ...]]:
    return ask(shop_model(), query, shop, now=NOW).rows


def revenue(holds: Callable[[date], bool]) -> Decimal | None:
    amounts = [each["amount"] for each in ORDERS if holds(each["placed_at"].date())]
    return sum(amounts, Decimal(0)) if amounts else None


def following(month: date) -> date:
    return (month + timedelta(days=32)).replace(day=1)


MONTHS = sorted({each["placed_at"].date().replace(day=1) for each in ORDERS})


@pytest.mark.table(
    ("measure", "window"),
    [
        ("revenue_so_far", lambda p: lambda d: d < following(p)),
        ("revenue_28", lambda p: lambda d: following(p) - timedelta(days=28) <= d < following(p)),
        ("revenue_fytd", lambda p: lambda d: date(p.year - (p.month < 4), 4, 1) <= d < following(p)),
        ("revenue_before", lambda p: lambda d: following(d.replace(day=1)) == p),
    ],
)
def test_each_period_has_the_rows_of_its_window(
    measure: str, window: Callable[[date], Callable[[date], bool]], shop: Connector
) -> None:
    found = rows(shop, measures=[f"orders.{measure}"], dimensions=[MONTH])
    wanted = {month: revenue(window(month)) for month in MONTHS}
    assert {row[0]: row[1] for row in found if row[1] is not None} == {k: v for k, v in wanted.items() if v is not None}


def test_a_range_restricts_the_periods_and_not_the_rows(shop: Connector) -> None:
    days = {"start": "2024-02-01", "end": "2024-04-01"}
    found = rows(shop, measures=["orders.revenue_so_far"], dimensions=[MONTH], time_range=days)
    wanted = [(month, revenue(lambda d, m=month: d < following(m))) for month in (date(2024, 2, 1), date(2024, 3, 1))]  # type: ignore[misc]
    assert found == wanted


@pytest.mark.table(
    ("days", "first", "count"),
    [
        ({"start": "2024-01-01", "end": "2024-03-01"}, date(2024, 1, 1), 60),
        ({"start": "2024-02-28T12:00:00", "end": "2024-03-02"}, date(2024, 2, 28), 3),
        ({"start": "2030-01-01", "end": "2030-01-04"}, date(2030, 1, 1), 3),
    ],
)
def test_every_day_of_a_range_is_filled(days: dict[str, str], first: date, count: int, shop: Connector) -> None:
    found = rows(shop, measures=["orders.orders"], dimensions=[DAY], time_range=days, fill=True)
    assert [row[0] for row in found] == [first + timedelta(days=number) for number in range(count)]


def test_every_combination_is_filled(shop: Connector) -> None:
    found = rows(shop, measures=["orders.orders"], dimensions=[MONTH, "orders.gift"], fill=True)
    assert [row[:2] for row in found] == [(month, gift) for month in MONTHS for gift in (False, True)]
    assert sum(row[2] for row in found) == len(ORDERS)


@pytest.mark.table(
    "query",
    [
        {"measures": ["orders.revenue_28"]},
        {"measures": ["orders.revenue_fytd"], "dimensions": ["orders.status"]},
        {"measures": ["orders.revenue_before"]},
        {"measures": ["orders.orders"], "dimensions": ["orders.status"], "fill": True},
        {"measures": ["orders.orders"], "dimensions": [MONTH, "orders.shipped_on:day"], "fill": True},
    ],
)
def test_windows_need_a_time(query: dict[str, Any]) -> None:
    with pytest.raises(SemanticError) as caught:
        compile_query(shop_model(), query, now=NOW)
    assert caught.value.hint


def test_more_periods_than_there_can_be_are_refused(shop: Connector) -> None:
    second = {"field": "orders.placed_at", "granularity": "second"}
    with pytest.raises(SemanticError, match="periods"):
        rows(shop, measures=["orders.orders"], dimensions=[second], fill=True)
