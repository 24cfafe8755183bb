"""Aggregates in groups that one query each answers; each of the fact's rows counted once."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from ktx_cli.semantic.answer import ask, compile_query
from ktx_cli.semantic.caller import Caller
from ktx_cli.semantic.compile.statement import branches
from ktx_cli.semantic.model import SemanticError
from ktx_cli.warehouses.port import Connector
from tests.semantic.golden.engines import opened
from tests.semantic.golden.world import ATTRIBUTES, NOW, TABLES, shop_model


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    with opened("duckdb", tmp_path_factory.mktemp("shop")) as connector:
        yield connector


@pytest.mark.table(
    ("measures", "groups"),
    [
        (["orders.revenue", "orders.orders", "orders.per_order", "orders.gifts"], [("orders", 3)]),
        (["orders.revenue", "tickets.tickets", "orders.orders"], [("orders", 2), ("tickets", 1)]),
        (["orders.revenue", "orders.typical", "orders.buyer_days"], [("orders", 1)] * 3),
        (["orders.revenue", "orders.share"], [("orders", 1)] * 2),
        (["orders.revenue", "orders.revenue_28", "orders.revenue_before"], [("orders", 1)] * 3),
        (["orders.mean_of_customers"], [("orders", 1)]),
        (["stock.on_hand", "stock.usual"], [("stock", 1)] * 2),
    ],
)
def test_what_one_query_answers(measures: list[str], groups: list[tuple[str, int]]) -> None:
    query = {"measures": measures, "dimensions": [{"field": "metric_time", "granularity": "month"}]}
    plan = compile_query(shop_model(), query, caller=Caller.of(ATTRIBUTES), now=NOW).plan
    assert [(each.fact, len(each.leaves)) for each in branches(plan)] == groups


def rows(shop: Connector, **query: Any) -> dict[Any, Any]:
    found = ask(shop_model(), query, shop, caller=Caller.of(ATTRIBUTES), now=NOW).rows
    return {row[0]: row[1] for row in found}


CUSTOMERS = {row[0]: dict(zip(TABLES["customers"][0], row, strict=True)) for row in TABLES["customers"][1]}
ORDERS = [dict(zip(TABLES["orders"][0], row, strict=True)) for row in TABLES["orders"][1]]


def by_status() -> dict[Any, set[int]]:
    """Return the customers with an order of each status; those without orders under None."""
    found: dict[Any, set[int]] = {}
    for each in ORDERS:
        if each["customer_id"] in CUSTOMERS:
            found.setdefault(each["status"], set()).add(each["customer_id"])
    found.setdefault(None, set()).update(CUSTOMERS.keys() - {each["customer_id"] for each in ORDERS})
    return found


@pytest.mark.table(
    ("measure", "value"),
    [
        ("customers.customers", len),
        ("customers.balance_total", lambda ids: sum((CUSTOMERS[each]["balance"] for each in ids), Decimal(0))),
        ("avg(customers.balance)", lambda ids: float(sum(CUSTOMERS[each]["balance"] for each in ids) / len(ids))),
        ("max(customers.balance)", lambda ids: max(CUSTOMERS[each]["balance"] for each in ids)),
        ("count(distinct customers.tier)", lambda ids: len({CUSTOMERS[each]["tier"] for each in ids} - {None})),
    ],
)
def test_a_row_counts_once_in_each_group_of_its_details(measure: str, value: Any, shop: Connector) -> None:
    found = rows(shop, measures=[measure], dimensions=["orders.status"])
    assert found == pytest.approx({status: value(ids) for status, ids in by_status().items()})


def test_pairs_with_nothing_in_them_are_not_counted(shop: Connector) -> None:
    wanted: dict[bool, set[tuple[Any, Any]]] = {True: set(), False: set()}
    for each in ORDERS:
        if each["customer_id"] is not None and each["shipped_on"] is not None:
            wanted[each["gift"]].add((each["customer_id"], each["shipped_on"]))
    found = rows(shop, measures=["orders.buyer_days"], dimensions=["orders.gift"])
    assert found == {gift: len(pairs) for gift, pairs in wanted.items()}


def test_the_last_day_is_that_of_the_month_and_not_of_the_product(shop: Connector) -> None:
    stock = [row for row in TABLES["stock"][1] if (row[1].year, row[1].month) == (2024, 1)]
    last = max(row[1] for row in stock)
    pieces = [row[2] for row in stock if row[1] == last and row[2] is not None]
    days = {"start": "2024-01-01", "end": "2024-02-01"}
    assert rows(
        shop, measures=["stock.on_hand"], dimensions=[{"field": "stock.day", "granularity": "month"}], time_range=days
    ) == {last.replace(day=1): sum(pieces)}


def test_an_average_over_time_is_the_mean_of_the_days(shop: Connector) -> None:
    days: dict[Any, int] = {}
    for _, day, pieces in TABLES["stock"][1]:
        days[day] = days.get(day, 0) + (pieces or 0)
    ((found,),) = ask(shop_model(), {"measures": ["stock.usual"]}, shop).rows
    assert float(found) == pytest.approx(sum(days.values()) / len(days))


def test_the_mean_of_customers_is_over_their_sums(shop: Connector) -> None:
    sums: dict[Any, Decimal] = {}
    for each in ORDERS:
        sums[each["customer_id"]] = sums.get(each["customer_id"], Decimal(0)) + each["amount"]
    ((found,),) = ask(shop_model(), {"measures": ["orders.mean_of_customers"]}, shop).rows
    assert float(found) == pytest.approx(float(sum(sums.values()) / len(sums)))


def test_an_average_over_time_has_no_groups_of_details() -> None:
    with pytest.raises(SemanticError) as caught:
        compile_query(shop_model(), {"measures": ["stock.usual"], "dimensions": ["products.lines.quantity"]})
    assert caught.value.code == "unreachable"
    assert caught.value.hint
