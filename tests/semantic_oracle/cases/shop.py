"""The world most cases ask: a small shop with everything that goes wrong in real data."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal as D

from tests.semantic_oracle.cases.base import Table, World, many, measure, source, table


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


TABLES: dict[str, Table] = {
    "regions": table("region_id INTEGER, name VARCHAR", (1, "North"), (2, "South"), (3, "Void")),
    "customers": table(
        "customer_id INTEGER, name VARCHAR, tier VARCHAR, region_id INTEGER, balance DECIMAL(18,2), active BOOLEAN,"
        " signup DATE",
        (1, "Ann", "gold", 1, D("100.00"), True, date(2024, 1, 10)),
        (2, "Bob", "silver", 2, D("200.00"), True, date(2024, 1, 20)),
        (3, "Cid", "gold", None, D("300.00"), False, date(2024, 2, 5)),
        (4, "Dee", None, 9, D("400.00"), True, date(2024, 3, 1)),
    ),
    "orders": table(
        "order_id INTEGER, customer_id INTEGER, status VARCHAR, amount DECIMAL(18,2), qty INTEGER,"
        " ordered_at TIMESTAMP",
        (1, 1, "paid", D("100.00"), 2, at("2024-01-05 10:00:00")),
        (2, 1, "open", D("50.00"), 1, at("2024-01-31 23:30:00")),
        (3, 2, "paid", D("200.00"), 4, at("2024-02-10 12:00:00")),
        (4, 3, "void", D("25.00"), None, at("2024-02-29 08:00:00")),
        (5, None, "paid", D("75.00"), 1, at("2024-03-15 09:00:00")),
        (6, 99, "open", D("500.00"), 5, at("2024-03-31 21:00:00")),
        (7, 2, None, None, 3, at("2024-04-01 00:00:00")),
    ),
    "items": table(
        "order_id INTEGER, line INTEGER, product_id INTEGER, price DECIMAL(18,2), pieces INTEGER",
        (1, 1, 1, D("60.00"), 1),
        (1, 2, 2, D("40.00"), 2),
        (2, 1, 1, D("50.00"), 1),
        (3, 1, 2, D("150.00"), 3),
        (3, 2, 3, D("50.00"), 1),
        (4, 1, None, D("25.00"), 1),
        (6, 1, 1, D("500.00"), 5),
        (8, 1, 2, D("10.00"), 1),
    ),
    "products": table(
        "product_id INTEGER, name VARCHAR, category VARCHAR",
        (1, "Pen", "office"),
        (2, "Mug", "kitchen"),
        (3, "Cup", "kitchen"),
        (4, "Hat", None),
    ),
    "tickets": table(
        "ticket_id INTEGER, customer_id INTEGER, priority VARCHAR, minutes INTEGER, opened_at TIMESTAMP",
        (1, 1, "high", 30, at("2024-01-07 09:00:00")),
        (2, 1, "low", 10, at("2024-02-01 00:00:00")),
        (3, 3, "high", 20, at("2024-02-15 15:00:00")),
        (4, None, "low", 5, at("2024-03-02 11:00:00")),
        (5, 4, "high", 40, at("2024-03-20 16:00:00")),
    ),
}

REGIONS = source("regions", "region_id number, name string", "region_id", m=["region_count = count(*)"])
CUSTOMERS = source(
    "customers",
    "customer_id number, name string, tier string, region_id number, balance number, active boolean, signup time",
    "customer_id",
    joins=[many("regions", "region_id = regions.region_id")],
    m=[
        "customer_count = count(*)",
        "total_balance = sum(balance)",
        "top_balance = max(balance)",
        "avg_balance = avg(balance)",
    ],
    segments=[{"name": "golden", "expr": "tier = 'gold'"}],
)
ORDERS = source(
    "orders",
    "order_id number, customer_id number, status string, amount number, qty number, ordered_at time",
    "order_id",
    joins=[many("customers", "customer_id = customers.customer_id")],
    m=[
        "revenue = sum(amount)",
        "order_count = count(*)",
        "amounts = count(amount)",
        "avg_amount = avg(amount)",
        "units = sum(qty)",
        "buyers = count(distinct customer_id)",
        "paid_revenue = sum(amount) WHERE status = 'paid'",
        "paid_count = count(*) WHERE status = 'paid'",
        "aov = revenue / order_count",
        "paid_share = paid_revenue / revenue",
        "unpaid = revenue - paid_revenue",
        "unpaid_share = unpaid / revenue",
        "gold_revenue = sum(amount) WHERE customers.tier = 'gold'",
        measure("segment_revenue = sum(amount)", segments=["paid"]),
        measure("paid_aov = revenue / order_count WHERE status = 'paid'"),
    ],
    segments=[{"name": "paid", "expr": "status = 'paid'"}, {"name": "big", "expr": "amount >= 100"}],
)
ITEMS = source(
    "items",
    "order_id number, line number, product_id number, price number, pieces number",
    ["order_id", "line"],
    joins=[many("orders", "order_id = orders.order_id"), many("products", "product_id = products.product_id")],
    m=["sales = sum(price)", "line_count = count(*)", "pieces_sold = sum(pieces)"],
)
PRODUCTS = source("products", "product_id number, name string, category string", "product_id")
TICKETS = source(
    "tickets",
    "ticket_id number, customer_id number, priority string, minutes number, opened_at time",
    "ticket_id",
    joins=[many("customers", "customer_id = customers.customer_id")],
    m=["ticket_count = count(*)", "effort = sum(minutes)", "avg_minutes = avg(minutes)"],
)

SHOP = World("shop", TABLES, [REGIONS, CUSTOMERS, ORDERS, ITEMS, PRODUCTS, TICKETS])
