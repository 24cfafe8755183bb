"""Sources that are queries, several sources over one table, and a larger question of everything at once."""

from datetime import date
from decimal import Decimal as D

from tests.semantic_oracle.cases.base import Case, World, grouped, many, source
from tests.semantic_oracle.cases.shop import CUSTOMERS, ITEMS, ORDERS, PRODUCTS, REGIONS, SHOP, TABLES, TICKETS

PAID_ROWS = [row for row in TABLES["orders"].records() if row["status"] == "paid"]
VIEWS = World(
    "views",
    TABLES,
    [
        REGIONS,
        CUSTOMERS,
        ORDERS,
        ITEMS,
        PRODUCTS,
        TICKETS,
        source(
            "paid_orders",
            "order_id number, customer_id number, net number",
            "order_id",
            sql="WITH p AS (SELECT * FROM {orders} WHERE status = 'paid')"
            " SELECT order_id, customer_id, amount * 0.5 AS net FROM p",
            joins=[many("customers", "customer_id = customers.customer_id")],
            m=["net_total = sum(net)", "paid_orders_count = count(*)"],
        ),
        source(
            "buyers_again", "customer_id number, name string", "customer_id", table="customers", m=["again = count(*)"]
        ),
    ],
    {"paid_orders": [{**{k: r[k] for k in ("order_id", "customer_id")}, "net": r["amount"] / 2} for r in PAID_ROWS]},
)

CASES = [
    Case(
        "view-by-dimension",
        VIEWS,
        {"measures": ["paid_orders.net_total"], "dimensions": ["customers.name"], "include_empty": False},
        [("Ann", 50), ("Bob", 100), (None, D("37.5"))],
        "half of each paid order",
    ),
    Case(
        "view-beside-its-table",
        VIEWS,
        {"measures": ["paid_orders.paid_orders_count", "orders.order_count"], "dimensions": ["customers.tier"]},
        [("gold", 1, 3), ("silver", 1, 2), (None, 1, 2)],
        "two facts",
    ),
    Case(
        "view-in-a-semi-join",
        VIEWS,
        {"measures": ["customers.customer_count"], "filters": ["paid_orders.net > 60"]},
        [(1,)],
        "Bob",
    ),
    Case(
        "same-table-twice",
        VIEWS,
        {"measures": ["buyers_again.again", "customers.customer_count"]},
        [(4, 4)],
        "one table",
    ),
    Case(
        "everything-at-once",
        SHOP,
        {
            "measures": [
                "orders.revenue",
                "orders.paid_share",
                "tickets.ticket_count",
                {"expr": "orders.revenue / tickets.ticket_count", "name": "per_ticket"},
            ],
            "dimensions": ["customers.tier", grouped("metric_time", "quarter")],
            "filters": ["customers.balance < 400 OR customers.balance IS NULL", "customers.active OR tier = 'gold'"],
            "time_range": {"start": "2024-01-01", "end": "2024-07-01"},
            "having": ["orders.order_count > 0"],
            "order_by": ["orders.revenue desc"],
            "limit": 2,
            "totals": True,
        },
        [("silver", date(2024, 1, 1), 200, 1, 0, None), ("gold", date(2024, 1, 1), 175, 100 / 175, 3, 175 / 3)],
        "silver's second quarter has an order without amount: NULL is last and cut by the limit",
        totals=[375, 300 / 375, 3, 125],
        truncated=True,
    ),
]
