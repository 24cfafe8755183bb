"""What the receipt of an answer tells: facts, paths and why, conditions and how they hold, what to know; in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ktx_cli.semantic.answer import ask
from ktx_cli.semantic.caller import Caller
from ktx_cli.warehouses.port import Connector
from tests.semantic.golden.engines import opened
from tests.semantic.golden.world import ATTRIBUTES, NOW, shop_model


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    with opened("duckdb", tmp_path_factory.mktemp("shop")) as connector:
        yield connector


def told(shop: Connector, query: dict[str, Any]) -> dict[str, Any]:
    return ask(shop_model(), query, shop, caller=Caller.of(ATTRIBUTES), now=NOW).receipt


ORDERS = {"measures": ["orders.orders"]}
ROLE = "orders -> regions (billed)"


@pytest.mark.table(
    ("query", "paths"),
    [
        (ORDERS, []),
        (ORDERS | {"dimensions": ["customers.tier"]}, [("orders -> customers", "the only path")]),
        (
            ORDERS | {"dimensions": ["customers.tier", "customers.regions.name"]},
            [("orders -> customers -> regions", "the only path")],
        ),
        (ORDERS | {"dimensions": ["billed.name"]}, [(ROLE, "the only path")]),
        (ORDERS | {"dimensions": ["regions.name"], "via": {"regions": "billed"}}, [(ROLE, "via billed")]),
        (ORDERS | {"dimensions": [{"field": "regions.name", "via": "billed"}]}, [(ROLE, "via billed")]),
        (ORDERS | {"filters": [{"expr": "regions.name = 'x'", "via": "billed"}]}, [(ROLE, "via billed")]),
        (
            {"measures": ["count(orders.id) filter (where regions.name = 'x')"], "via": {"regions": "billed"}},
            [(ROLE, "via billed")],
        ),
        (
            ORDERS | {"dimensions": ["regions.name", "customers.tier"], "via": {"regions": "billed"}},
            [(ROLE, "via billed"), ("orders -> customers", "the only path")],
        ),
    ],
)
def test_paths_and_why(query: dict[str, Any], paths: list[tuple[str, str]], shop: Connector) -> None:
    (fact,) = told(shop, query)["facts"]
    assert [(each["path"], each["why"]) for each in fact["paths"]] == paths


@pytest.mark.table(
    ("query", "filters", "having"),
    [
        (ORDERS | {"filters": ["orders.gift = TRUE"]}, [("orders.gift = TRUE", "where")], []),
        (
            ORDERS | {"filters": ["orders.gift = TRUE AND customers.tier = 'gold'"]},
            [("orders.gift = TRUE", "where"), ("customers.tier = 'gold'", "where")],
            [],
        ),
        (ORDERS | {"filters": ["lines.quantity > 1"]}, [("lines.quantity > 1", "semi_join")], []),
        (ORDERS | {"filters": ["orders > 1"]}, [], ["orders > 1"]),
        (ORDERS | {"having": ["orders > 1"]}, [], ["orders > 1"]),
        (ORDERS | {"segments": ["orders.done"]}, [("orders.done", "segment")], []),
        ({"measures": ["orders.gifts"]}, [("gift = TRUE", "measure")], []),
    ],
)
def test_conditions_and_how_they_hold(
    query: dict[str, Any], filters: list[tuple[str, str]], having: list[str], shop: Connector
) -> None:
    receipt = told(shop, query)
    (fact,) = receipt["facts"]
    assert [(each["expr"], each["how"]) for each in fact["filters"]] == filters
    assert receipt["having"] == having


def test_each_fact_stands_by_itself(shop: Connector) -> None:
    receipt = told(
        shop, {"measures": ["orders.revenue", "orders.gifts", "tickets.tickets"], "dimensions": ["customers.tier"]}
    )
    assert [each["fact"] for each in receipt["facts"]] == ["orders", "tickets"]
    assert [each["aggregates"] for each in receipt["facts"]] == [["SUM(amount)", "COUNT(*)"], ["COUNT(*)"]]
    assert set(receipt["sources"]) == {"orders", "tickets", "customers"}
    assert receipt["policies"] == ["tickets.graded"]


def test_groups_that_overlap_are_told(shop: Connector) -> None:
    receipt = told(shop, {"measures": ["customers.customers"], "dimensions": ["orders.status"]})
    (fact,) = receipt["facts"]
    assert fact["overlapping"] is True
    assert receipt["notes"] == ["rows of customers can be in several groups, so its groups do not add up to the total"]


def test_conditions_on_other_rows_with_the_same_parent_are_told(shop: Connector) -> None:
    query = {"measures": ["tickets.tickets"], "filters": ["orders.status = 'paid'"]}
    (note,) = told(shop, query)["notes"]
    assert "`orders.status = 'paid'` filters related rows that share a row of customers" in note
    assert "(tickets -> customers -> orders)" in note
    assert told(shop, query | {"filters": ["customers.orders.status = 'paid'"]})["notes"] == []
    assert told(shop, query | {"measures": ["customers.customers"]})["notes"] == []


def test_members_that_are_left_out_are_told(shop: Connector) -> None:
    receipt = told(shop, {"measures": ["lines.pieces"], "dimensions": ["products.name", "customers.tier"]})
    assert len(receipt["notes"]) == 1
    assert "include_empty" in receipt["notes"][0]


@pytest.mark.table(
    ("grain", "offset", "said"),
    [
        ("day", "1 month", ["months differ in length: by day, values 1 month earlier"]),
        ("hour", "1 year", ["months differ in length: by hour, values 1 year earlier"]),
        ("week", "1 year", ["periods of a week are not 1 year apart", "52 weeks"]),
        ("month", "28 days", ["periods of a month are not 28 days apart"]),
        ("month", "1 year", []),
        ("day", "7 days", []),
        ("week", "52 weeks", []),
    ],
)
def test_what_does_not_line_up_is_told(grain: str, offset: str, said: list[str], shop: Connector) -> None:
    query = {
        "measures": ["orders.revenue"],
        "dimensions": [{"field": "orders.placed_at", "granularity": grain}],
        "time_range": {"start": "2024-02-01", "end": "2024-03-01"},
        "comparison": {"offset": offset},
        "timezone": "UTC",
    }
    notes = [each for each in told(shop, query)["notes"] if "see fill" not in each]
    assert len(notes) == min(1, len(said))
    assert all(part in notes[0] for part in said)


@pytest.mark.table(
    ("filters", "said"),
    [
        ([], []),
        (["stock.day < '2024-02-01'"], []),
        (
            ["stock.day < '2024-02-01'", "stock.pieces > 1"],
            ["the last day", "before `stock.pieces > 1` is applied", "conditions on day alone"],
        ),
    ],
)
def test_what_holds_after_the_last_day_is_told(filters: list[str], said: list[str], shop: Connector) -> None:
    notes = told(shop, {"measures": ["stock.on_hand"], "filters": filters})["notes"]
    assert len(notes) == min(1, len(said))
    assert all(part in notes[0] for part in said)


def test_the_values_and_the_clock_are_told(shop: Connector) -> None:
    query = {"measures": ["spenders.spent"], "parameters": {"least": 20}, "timezone": "Asia/Tokyo"}
    receipt = told(shop, query)
    assert receipt["parameters"] == {"least": 20}
    assert receipt["time"] == {"timezone": "Asia/Tokyo", "week_start": "monday"}
    assert receipt["verified"] is None


BY_MONTH = ORDERS | {"dimensions": [{"field": "orders.placed_at", "granularity": "month"}]}
IN_MAY = {"time_range": {"field": "orders.placed_at", "start": "2024-05-01", "end": "2024-06-01"}}
STOCK = {"measures": ["stock.on_hand"], "dimensions": [{"field": "stock.day", "granularity": "month"}]}


@pytest.mark.table(
    ("query", "zone", "notes"),
    [
        (BY_MONTH, None, 1),
        (ORDERS | IN_MAY, None, 1),
        (BY_MONTH | IN_MAY | {"comparison": {"offset": "1 year"}}, None, 1),
        (BY_MONTH | {"timezone": "Asia/Tokyo"}, None, 0),
        (BY_MONTH, "Europe/Berlin", 0),
        (STOCK, None, 0),
        (ORDERS, None, 0),
    ],
)
def test_periods_of_timestamps_say_that_nobody_set_a_time_zone(
    query: dict[str, Any], zone: str | None, notes: int, shop: Connector
) -> None:
    model = shop_model()
    model = replace(model, calendar=replace(model.calendar, timezone=zone))
    receipt = ask(model, query, shop, caller=Caller.of(ATTRIBUTES), now=NOW).receipt
    found = [each for each in receipt["notes"] if "periods are in" in each]
    assert len(found) == notes
    assert all("periods are in UTC" in each and "ktx config set semantic.timezone" in each for each in found)
