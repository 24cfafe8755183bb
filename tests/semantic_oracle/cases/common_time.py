"""Each fact's own time on one axis, and questions for dimensions alone."""

from datetime import date

from tests.semantic_oracle.cases.base import Case, grouped
from tests.semantic_oracle.cases.members import APR, FEB, JAN, MAR, MONTH, Q1
from tests.semantic_oracle.cases.shop import SHOP

CASES = [
    Case(
        "metric-time-two-facts",
        SHOP,
        {"measures": ["orders.order_count", "tickets.ticket_count"], "dimensions": [grouped("metric_time", "month")]},
        [(JAN, 2, 1), (FEB, 2, 2), (MAR, 2, 2), (APR, 1, 0)],
        "each fact's own time",
    ),
    Case(
        "metric-time-range",
        SHOP,
        {"measures": ["orders.order_count", "tickets.ticket_count"], "time_range": Q1},
        [(6, 5)],
        "each fact's own time within the quarter",
    ),
    Case(
        "metric-time-with-dimension",
        SHOP,
        {
            "measures": ["orders.revenue", "tickets.effort"],
            "dimensions": [grouped("metric_time", "quarter"), "customers.tier"],
            "time_range": Q1,
        },
        [(JAN, "gold", 175, 60), (JAN, "silver", 200, None), (JAN, None, 575, 45)],
        "quarter and tier over both",
    ),
    Case(
        "metric-time-fill",
        SHOP,
        {
            "measures": ["orders.order_count", "tickets.ticket_count"],
            "dimensions": [grouped("metric_time", "month")],
            "filters": ["customers.name = 'Cid'"],
            "time_range": {"start": "2024-01-01", "end": "2024-05-01"},
            "fill": True,
        },
        [(JAN, 0, 0), (FEB, 1, 1), (MAR, 0, 0), (APR, 0, 0)],
        "both facts over one row of months",
    ),
    Case(
        "metric-time-without-grain",
        SHOP,
        {"measures": ["orders.order_count"], "dimensions": ["metric_time"]},
        [(date(2024, m, d), 1) for m, d in ((1, 5), (1, 31), (2, 10), (2, 29), (3, 15), (3, 31), (4, 1))],
        "no grain is given and the column has none of its own: days",
        columns=("metric_time", "order_count"),
    ),
    Case(
        "dimensions-only-one-source",
        SHOP,
        {"dimensions": ["customers.tier", "customers.active"]},
        [("gold", True), ("gold", False), ("silver", True), (None, True)],
        "distinct combinations",
    ),
    Case(
        "dimensions-only-two-sources",
        SHOP,
        {"dimensions": ["customers.name", "regions.name"]},
        [("Ann", "North"), ("Bob", "South"), ("Cid", None), ("Dee", None)],
        "customers are the finest: Void is no customer's",
    ),
    Case(
        "dimensions-only-from-the-finest",
        SHOP,
        {"dimensions": ["orders.status", "customers.tier"], "filters": ["orders.amount >= 50"]},
        [("paid", "gold"), ("open", "gold"), ("paid", "silver"), ("paid", None), ("open", None)],
        "rows of orders",
    ),
    Case(
        "dimensions-only-months", SHOP, {"dimensions": [MONTH]}, [(JAN,), (FEB,), (MAR,), (APR,)], "months with orders"
    ),
    Case(
        "dimensions-only-with-a-measure-condition",
        SHOP,
        {"dimensions": ["customers.name"], "filters": ["orders.status = 'open'"]},
        [("Ann",)],
        "a semi-join on the rows of customers",
    ),
]
