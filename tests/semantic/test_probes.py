"""Joins held against the rows: what they missed is counted, what they doubled is refused; on the shop in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ktx_cli.semantic.answer import ask, compile_query
from ktx_cli.semantic.caller import Caller
from ktx_cli.semantic.model import Column, Join, Model, Relationship, SemanticError
from ktx_cli.semantic.probes import Probe, Unmatched, plan_probe
from ktx_cli.warehouses.port import Connector, SemanticType
from tests.semantic.golden.engines import opened
from tests.semantic.golden.world import ATTRIBUTES, NOW, TABLES, shop_model

ORDERS = [dict(zip(TABLES["orders"][0], row, strict=True)) for row in TABLES["orders"][1]]
CUSTOMERS = {row[0]: row for row in TABLES["customers"][1]}
KEYS = [each["customer_id"] for each in ORDERS]
NO_CUSTOMER = Unmatched(
    "customers on orders.customer_id = customers.id",
    sum(key is None for key in KEYS),
    sum(key is not None and key not in CUSTOMERS for key in KEYS),
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    with opened("duckdb", tmp_path_factory.mktemp("shop")) as connector:
        yield connector


def probed(shop: Connector, query: dict[str, Any], fact: str = "orders", model: Model | None = None) -> Probe:
    asked = compile_query(model or shop_model(), query, caller=Caller.of(ATTRIBUTES), now=NOW)
    return plan_probe(asked.compiled.build.again(), fact).run(shop)


def by(*dimensions: str, **more: Any) -> dict[str, Any]:
    return {"measures": ["orders.orders"], "dimensions": list(dimensions)} | more


@pytest.mark.table(
    ("query", "rows"),
    [
        (by(), len(ORDERS)),
        (by(filters=["orders.status = 'paid'"]), sum(each["status"] == "paid" for each in ORDERS)),
        (by(filters=["customers.tier = 'gold'"]), sum(CUSTOMERS.get(key, [None] * 4)[3] == "gold" for key in KEYS)),
        (
            by(time_range={"start": "2024-01-01", "end": "2024-02-01"}),
            sum((each["placed_at"].year, each["placed_at"].month) == (2024, 1) for each in ORDERS),
        ),
        (
            by({"field": "metric_time", "granularity": "month"}) | {"measures": ["orders.revenue_so_far"]},  # type: ignore[arg-type]
            len(ORDERS),
        ),
        (by(filters=[{"expr": "tickets.grade > 1", "facts": ["tickets"]}]), len(ORDERS)),
    ],
)
def test_the_rows_of_a_fact_are_counted(query: dict[str, Any], rows: int, shop: Connector) -> None:
    assert probed(shop, query).rows == rows


def test_rows_that_find_nothing_are_told_from_those_without_a_key(shop: Connector) -> None:
    assert NO_CUSTOMER.null_keys > 0 < NO_CUSTOMER.dangling
    assert probed(shop, by("customers.tier")).unmatched == (NO_CUSTOMER,)


def test_each_join_on_the_way_is_counted(shop: Connector) -> None:
    found = probed(shop, by("customers.regions.name", "sent.name")).unmatched
    regions = [CUSTOMERS[key][2] if key in CUSTOMERS else None for key in KEYS]
    assert found[0] == NO_CUSTOMER
    assert found[1] == Unmatched("regions on customers.region_id = regions.id", regions.count(None), regions.count(9))
    assert found[2].null_keys == sum(each["sent_to"] is None for each in ORDERS)


def test_joins_where_every_row_finds_one_are_not_told(shop: Connector) -> None:
    assert probed(shop, by("billed.name")).unmatched == ()


def wrong(relationship: Relationship = Relationship.MANY_TO_ONE) -> Model:
    """Return the shop with a join that says a customer has one ticket."""
    model = shop_model()
    join = Join("tickets", "id = tickets.customer_id", (("id", "customer_id"),), relationship, "ticket")
    customers = model.sources["customers"]
    return replace(model, sources={**model.sources, "customers": replace(customers, joins=(*customers.joins, join))})


@pytest.mark.table(
    ("query", "fact"),
    [
        ({"measures": ["customers.customers"], "dimensions": ["ticket.grade"]}, "customers"),
        ({"measures": ["orders.orders"], "dimensions": ["customers.ticket.grade"]}, "orders"),
        ({"measures": ["orders.orders"], "filters": ["customers.ticket.grade = 1"]}, "orders"),
        ({"measures": ["sum(customers.balance * ticket.grade)"]}, "customers"),
    ],
)
def test_a_join_that_doubles_rows_is_refused(query: dict[str, Any], fact: str, shop: Connector) -> None:
    with pytest.raises(SemanticError) as caught:
        ask(wrong(), query, shop, caller=Caller.of(ATTRIBUTES), now=NOW)
    error = caught.value
    assert (error.code, error.details["fact"]) == ("cardinality", fact)
    assert error.details["joined"] > error.details["rows"]
    assert "customers.id = ticket.customer_id" in error.details["join"]
    assert error.hint is not None
    assert "declare it one_to_many" in error.hint


def test_a_join_to_rows_of_a_period_is_refused_with_how_to_take_the_one_that_held(shop: Connector) -> None:
    model = wrong()
    tickets = model.sources["tickets"]
    times = {name: Column(name, SemanticType.TIME) for name in ("valid_from", "valid_to")}
    others = {name: each for name, each in tickets.columns.items() if each.type is not SemanticType.TIME}
    sources = {**model.sources, "tickets": replace(tickets, columns={**others, **times}, time_column=None)}
    query = {"measures": ["customers.customers"], "dimensions": ["ticket.grade"]}
    with pytest.raises(SemanticError) as caught:
        ask(replace(model, sources=sources), query, shop, caller=Caller.of(ATTRIBUTES), now=NOW)
    assert caught.value.code == "cardinality"
    assert "tickets.valid_to IS NULL OR" in str(caught.value.hint)


def test_a_join_to_several_said_to_be_one_is_asked(shop: Connector) -> None:
    query = {"measures": ["customers.customers"], "dimensions": ["ticket.grade"]}
    assert ask(wrong(Relationship.ONE_TO_MANY), query, shop, caller=Caller.of(ATTRIBUTES), now=NOW).rows


def with_grain(*grain: str) -> Model:
    """Return the shop with customers told apart by other columns."""
    model = shop_model()
    return replace(model, sources={**model.sources, "customers": replace(model.sources["customers"], grain=grain)})


@pytest.mark.table(
    "query",
    [
        {"measures": ["customers.customers"], "dimensions": ["orders.status"]},
        {"measures": ["customers.customers"], "filters": ["orders.id IS NULL"]},
        {"dimensions": ["customers.name"], "filters": ["orders.status = 'paid'"]},
        {"measures": ["orders.orders", "customers.customers"], "dimensions": ["orders.status"]},
    ],
)
def test_a_grain_several_rows_have_is_refused_where_it_tells_them_apart(query: dict[str, Any], shop: Connector) -> None:
    tiers = [row[list(TABLES["customers"][0]).index("tier")] for row in CUSTOMERS.values()]
    with pytest.raises(SemanticError) as caught:
        ask(with_grain("tier"), query, shop, caller=Caller.of(ATTRIBUTES), now=NOW)
    error = caught.value
    repeated = sum(tiers.count(tier) > 1 for tier in set(tiers))
    assert (error.code, error.details) == (
        "cardinality",
        {"fact": "customers", "grain": ["tier"], "repeated": repeated},
    )
    assert ask(with_grain("tier", "id"), query, shop, caller=Caller.of(ATTRIBUTES), now=NOW).rows


def test_a_grain_that_is_not_needed_is_not_looked_at(shop: Connector) -> None:
    query = {"measures": ["customers.customers"], "dimensions": ["customers.tier"]}
    assert ask(with_grain("tier"), query, shop, caller=Caller.of(ATTRIBUTES), now=NOW).rows


def test_a_fact_a_policy_restricts_is_counted_with_it(shop: Connector) -> None:
    allowed = sum(row[3] <= ATTRIBUTES["grade"] for row in TABLES["tickets"][1])  # type: ignore[operator]
    assert probed(shop, {"measures": ["tickets.tickets"]}, "tickets").rows == allowed
