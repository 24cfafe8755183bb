"""The rows a receipt counts, held against counts written by hand over the raw rows, on several engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ktx_cli.jobs.semantic.explain import fact_lines
from ktx_cli.semantic.answer import ask
from ktx_cli.semantic.caller import Caller
from ktx_cli.testing.servers import PostgresServer
from ktx_cli.warehouses.port import Connector
from tests.semantic.golden.engines import opened
from tests.semantic.golden.world import ATTRIBUTES, NOW, shop_model

ENGINES = ["duckdb", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Connector]]:
    server: PostgresServer | None = request.getfixturevalue("postgres_server") if request.param == "postgres" else None
    with opened(request.param, tmp_path_factory.mktemp("shop"), server) as connector:
        yield request.param, connector


def counted(engine: tuple[str, Connector], sql: str) -> int:
    """Return a count; `@` stands before the names of tables."""
    schema = "" if engine[0] == "sqlite" else "shop."
    text = sql.replace("@", schema).replace("TRUE", "1" if engine[0] == "sqlite" else "TRUE")
    return int(engine[1].query(text).rows[0][0])


def facts(engine: tuple[str, Connector], query: dict[str, Any]) -> list[dict[str, Any]]:
    answer = ask(shop_model(engine[0]), query, engine[1], caller=Caller.of(ATTRIBUTES), now=NOW)
    found: list[dict[str, Any]] = answer.receipt["facts"]
    return found


def of(*measures: str, **more: Any) -> dict[str, Any]:
    return {"measures": list(measures), **more}


ALL = "SELECT count(*) FROM @orders AS o"
GOLD = f"{ALL} JOIN @customers AS c ON c.id = o.customer_id WHERE c.tier = 'gold'"
JANUARY = {"start": "2024-01-01", "end": "2024-02-01"}
IN_JANUARY = f"{ALL} WHERE o.placed_at >= '2024-01-01' AND o.placed_at < '2024-02-01'"


@pytest.mark.table(
    ("query", "sql"),
    [
        (of("orders.revenue"), ALL),
        (of("orders.revenue", filters=["orders.status = 'paid'"]), f"{ALL} WHERE o.status = 'paid'"),
        (of("orders.revenue", filters=["customers.tier = 'gold'"]), GOLD),
        (of("orders.revenue", filters=["customers.tier = 'golden'"]), f"{ALL} WHERE 1 = 0"),
        (of("orders.revenue", filters=["customers.tier = 'gold'"], dimensions=["customers.regions.name"]), GOLD),
        (
            of("orders.revenue", filters=["lines.quantity > 4"]),
            f"{ALL} WHERE o.id IN (SELECT order_id FROM @lines WHERE quantity > 4)",
        ),
        (
            of("orders.gifts", filters=["lines.quantity > 4", "customers.tier = 'gold'"]),
            f"{GOLD} AND o.gift = TRUE AND o.id IN (SELECT order_id FROM @lines WHERE quantity > 4)",
        ),
        (of("orders.revenue", time_range=JANUARY), IN_JANUARY),
        (
            of("orders.revenue", time_range=JANUARY, filters=["customers.tier = 'gold'"]),
            f"{GOLD} AND o.placed_at >= '2024-01-01' AND o.placed_at < '2024-02-01'",
        ),
        (of("orders.revenue", time_range=JANUARY, comparison="1 month"), IN_JANUARY),
        (of("orders.revenue_so_far", time_range=JANUARY), f"{ALL} WHERE o.placed_at < '2024-02-01'"),
        (
            of("orders.revenue_so_far", time_range={**JANUARY, "field": "orders.shipped_on"}),
            f"{ALL} WHERE o.shipped_on >= '2024-01-01' AND o.shipped_on < '2024-02-01'",
        ),
        (of("orders.gifts"), f"{ALL} WHERE o.gift = TRUE"),
        (of("orders.gifts", "orders.paid_revenue"), f"{ALL} WHERE o.gift = TRUE OR o.status IN ('paid', 'sent')"),
        (of("orders.revenue", "orders.gifts"), ALL),
        (of("orders.revenue", segments=["orders.done"]), f"{ALL} WHERE o.status IN ('paid', 'sent')"),
        (of("tickets.tickets"), "SELECT count(*) FROM @tickets WHERE grade <= 2"),
        (
            of("tickets.tickets", filters=["customers.tier = 'gold'"]),
            "SELECT count(*) FROM @tickets AS t JOIN @customers AS c ON c.id = t.customer_id "
            "WHERE t.grade <= 2 AND c.tier = 'gold'",
        ),
    ],
)
def test_rows_are_counted_after_all_filters(query: dict[str, Any], sql: str, engine: tuple[str, Connector]) -> None:
    (fact,) = facts(engine, query)
    assert fact["rows"] == counted(engine, sql)


@pytest.mark.table(
    ("query", "measure", "filters", "sql"),
    [
        (of("orders.gifts", "orders.revenue"), "orders.gifts", ["gift = TRUE"], f"{ALL} WHERE o.gift = TRUE"),
        (of("orders.gifts", "orders.revenue"), "orders.revenue", [], ALL),
        (
            of("orders.paid_share"),
            "orders.paid_revenue",
            ["status IN ('paid', 'sent')"],
            f"{ALL} WHERE o.status IN ('paid', 'sent')",
        ),
        (of("orders.paid_share"), "orders.revenue", [], ALL),
        (
            of("orders.gifts", "orders.revenue", filters=["customers.tier = 'gold'"]),
            "orders.gifts",
            ["gift = TRUE"],
            f"{GOLD} AND o.gift = TRUE",
        ),
    ],
)
def test_a_measure_has_its_own_filters_and_rows(
    query: dict[str, Any], measure: str, filters: list[str], sql: str, engine: tuple[str, Connector]
) -> None:
    (fact,) = facts(engine, query)
    (found,) = [each for each in fact["measures"] if each["measure"] == measure]
    assert [each["expr"] for each in found["filters"]] == filters
    assert all(each["measure"] == measure for each in found["filters"])
    assert found["rows"] == counted(engine, sql)
    own = [each["expr"] for each in fact["filters"] if each["measure"] == measure]
    assert own == filters


def test_the_filter_of_one_measure_is_told_below_it(engine: tuple[str, Connector]) -> None:
    query = of("orders.paid_share", filters=["customers.tier = 'gold'"])
    told = list(fact_lines({"facts": facts(engine, query)}))
    gold, paid = counted(engine, GOLD), counted(engine, f"{GOLD} AND o.status IN ('paid', 'sent')")
    assert told[0] == f"fact orders, {gold} rows: SUM(amount)"
    at = told.index(f"  measure paid_revenue, {paid} rows: SUM(amount)")
    assert told[at + 1] == "    filter status IN ('paid', 'sent')"
    assert told.index("  filter customers.tier = 'gold' (keeps rows)") < at
    assert sum("filter status" in each for each in told) == 1


def test_numbers_of_other_times_have_no_count(engine: tuple[str, Connector]) -> None:
    (fact,) = facts(engine, of("orders.gifts", time_range=JANUARY, comparison="1 month"))
    assert [(each["earlier"], each["rows"] is None) for each in fact["measures"]] == [(None, False), ("1 month", True)]
