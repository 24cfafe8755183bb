"""Conditions held against the rows of a fact, or against the rows joined to it; executed on the shop in DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlglot import exp

from ktx_cli.semantic.answer import ask, compile_query
from ktx_cli.semantic.caller import Caller
from ktx_cli.semantic.model import SemanticError
from ktx_cli.warehouses.port import Connector
from tests.semantic.golden.engines import opened
from tests.semantic.golden.world import ATTRIBUTES, NOW, TABLES, shop_model

Row = dict[str, Any]


def table(name: str) -> list[Row]:
    return [dict(zip(TABLES[name][0], row, strict=True)) for row in TABLES[name][1]]


ORDERS, CUSTOMERS, LINES = table("orders"), table("customers"), table("lines")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    with opened("duckdb", tmp_path_factory.mktemp("shop")) as connector:
        yield connector


def count(shop: Connector, fact: str, *filters: Any) -> int:
    query = {"measures": [f"{fact}.{fact}"], "filters": list(filters)}
    ((found,),) = ask(shop_model(), query, shop, caller=Caller.of(ATTRIBUTES), now=NOW).rows
    return int(found)


def of(customer: Row) -> list[Row]:
    return [each for each in ORDERS if each["customer_id"] == customer["id"]]


def tier(order: Row) -> str | None:
    return next((each["tier"] for each in CUSTOMERS if each["id"] == order["customer_id"]), None)


@pytest.mark.table(
    ("filters", "holds"),
    [
        (["status = 'paid'"], lambda o: o["status"] == "paid"),
        (["status <> 'paid'"], lambda o: o["status"] not in ("paid", None)),
        (["NOT status = 'paid'"], lambda o: o["status"] not in ("paid", None)),
        (["status IS NULL OR gift = TRUE"], lambda o: o["status"] is None or o["gift"]),
        (["status = 'paid' AND gift = FALSE"], lambda o: o["status"] == "paid" and not o["gift"]),
        (["status = 'paid'", "gift = FALSE"], lambda o: o["status"] == "paid" and not o["gift"]),
        (["customers.tier = 'gold'"], lambda o: tier(o) == "gold"),
        (["customers.tier IS NULL"], lambda o: tier(o) is None),
        (["customers.tier = 'gold' OR status = 'paid'"], lambda o: tier(o) == "gold" or o["status"] == "paid"),
        (["big"], lambda o: o["amount"] > 30),
        (["lines.quantity > 4"], lambda o: any(e["order_id"] == o["id"] and e["quantity"] > 4 for e in LINES)),
        (["lines.line IS NULL"], lambda o: not any(e["order_id"] == o["id"] for e in LINES)),
    ],
)
def test_orders(filters: list[str], holds: Callable[[Row], bool], shop: Connector) -> None:
    assert count(shop, "orders", *filters) == sum(map(bool, map(holds, ORDERS)))


@pytest.mark.table(
    ("filters", "holds"),
    [
        (["orders.gift = TRUE"], lambda c: any(o["gift"] for o in of(c))),
        (["orders.id IS NULL"], lambda c: not of(c)),
        (
            ["orders.gift = TRUE AND orders.status = 'paid'"],
            lambda c: any(o["gift"] and o["status"] == "paid" for o in of(c)),
        ),
        (
            ["orders.gift = TRUE", "orders.status = 'paid'"],
            lambda c: any(o["gift"] and o["status"] == "paid" for o in of(c)),
        ),
        (
            ["orders.gift = TRUE OR customers.tier = 'gold'"],
            lambda c: c["tier"] == "gold" or any(o["gift"] for o in of(c)),
        ),
        (["NOT orders.gift = TRUE"], lambda c: any(not o["gift"] for o in of(c))),
        ([{"expr": "orders.gift = TRUE", "facts": ["orders"]}], lambda c: True),
    ],
)
def test_customers_over_their_orders(filters: list[Any], holds: Callable[[Row], bool], shop: Connector) -> None:
    assert count(shop, "customers", *filters) == sum(map(bool, map(holds, CUSTOMERS)))


def test_rows_joined_for_a_dimension_are_filtered_themselves() -> None:
    query = {
        "measures": ["customers.customers"],
        "dimensions": ["orders.status"],
        "filters": ["orders.gift = TRUE"],
        "include_empty": False,
    }
    tree = compile_query(shop_model(), query).compiled.tree
    assert not tree.find(exp.Exists)
    assert tree.find(exp.Where).sql() == 'WHERE ("orders"."gift" = TRUE)'


def test_clickhouse_has_no_query_that_looks_outside() -> None:
    query = {"measures": ["customers.customers"], "filters": ["orders.gift = TRUE"]}
    tree = compile_query(shop_model("clickhouse"), query).compiled.tree
    assert not tree.find(exp.Exists)
    assert tree.find(exp.In)


@pytest.mark.table(
    ("query", "code"),
    [
        ({"measures": ["stock.on_hand"], "filters": ["tickets.grade = 1"]}, None),
        ({"measures": ["orders.orders"], "filters": [{"expr": "gift = TRUE", "facts": ["nobody"]}]}, "unknown_name"),
        ({"measures": ["orders.orders"], "filters": ["regions.name = metric_time"]}, None),
    ],
)
def test_filters_that_reach_and_those_that_do_not(query: dict[str, Any], code: str | None) -> None:
    if code is None:
        assert compile_query(shop_model(), query, caller=Caller.of(ATTRIBUTES), now=NOW).sql
        return
    with pytest.raises(SemanticError) as caught:
        compile_query(shop_model(), query, caller=Caller.of(ATTRIBUTES), now=NOW)
    assert caught.value.code == code
