"""Members without facts, periods without rows, questions for dimensions alone (defect B4)."""

from datetime import date

from tests.semantic_oracle.cases.base import Case, grouped
from tests.semantic_oracle.cases.shop import SHOP

MONTH = grouped("orders.ordered_at", "month")
JAN, FEB, MAR, APR = (date(2024, month, 1) for month in range(1, 5))
Q1 = {"start": "2024-01-01", "end": "2024-04-01"}

CASES = [
    Case(
        "empty-default",
        SHOP,
        {"measures": ["orders.revenue", "orders.order_count"], "dimensions": ["regions.name"]},
        [("North", 150, 2), ("South", 200, 2), ("Void", None, 0), (None, 600, 3)],
        "all dimensions lie in regions, which is no fact",
    ),
    Case(
        "empty-default-reached-dimension",
        SHOP,
        {"measures": ["orders.order_count"], "dimensions": ["customers.name", "regions.name"]},
        [("Ann", "North", 2), ("Bob", "South", 2), ("Cid", None, 1), ("Dee", None, 0), (None, None, 2)],
        "customers reach regions: their rows are the members; Void belongs to nobody",
    ),
    Case(
        "empty-default-two-sources",
        SHOP,
        {"measures": ["items.sales"], "dimensions": ["customers.tier", "products.category"]},
        [
            ("gold", "office", 110),
            ("gold", "kitchen", 40),
            ("gold", None, 25),
            ("silver", "kitchen", 200),
            (None, "office", 500),
            (None, "kitchen", 10),
        ],
        "two groups of sources: nothing is added",
    ),
    Case(
        "empty-default-own-column",
        SHOP,
        {"measures": ["orders.order_count"], "dimensions": ["orders.status"], "filters": ["orders.amount > 60"]},
        [("paid", 3), ("open", 1)],
        "the fact's own column has no members of its own",
    ),
    Case(
        "empty-default-fact-is-the-dimension",
        SHOP,
        {
            "measures": ["orders.order_count", "customers.total_balance"],
            "dimensions": ["customers.name"],
            "filters": ["customers.balance > 150"],
        },
        [("Bob", 2, 200), ("Cid", 1, 300), ("Dee", 0, 400)],
        "customers are a fact of the query; its groups are its rows'",
    ),
    Case(
        "empty-filter-on-the-fact",
        SHOP,
        {"measures": ["orders.order_count"], "dimensions": ["customers.name"], "filters": ["orders.status = 'paid'"]},
        [("Ann", 1), ("Bob", 1), ("Cid", 0), ("Dee", 0), (None, 1)],
        "a filter of the fact does not remove members",
    ),
    Case(
        "empty-filter-on-the-members",
        SHOP,
        {"measures": ["orders.order_count"], "dimensions": ["customers.name"], "filters": ["customers.balance >= 300"]},
        [("Cid", 1), ("Dee", 0)],
        "a filter of the dimension's source does",
    ),
    Case(
        "empty-filter-behind-the-members",
        SHOP,
        {
            "measures": ["orders.order_count"],
            "dimensions": ["customers.name"],
            "filters": ["regions.name IS NULL", "orders.status = 'paid'"],
        },
        [("Cid", 0), ("Dee", 0), (None, 1)],
        "customers reach regions: Cid and Dee have none; so has order 5",
    ),
    Case(
        "empty-false",
        SHOP,
        {"measures": ["orders.order_count"], "dimensions": ["regions.name"], "include_empty": False},
        [("North", 2), ("South", 2), (None, 3)],
        "Void is left out",
    ),
    Case(
        "empty-true-cross-product",
        SHOP,
        {
            "measures": ["items.line_count"],
            "dimensions": ["regions.name", "products.category"],
            "include_empty": True,
            "filters": ["products.category IS NOT NULL"],
        },
        [
            ("North", "office", 2),
            ("North", "kitchen", 1),
            ("South", "office", 0),
            ("South", "kitchen", 2),
            ("Void", "office", 0),
            ("Void", "kitchen", 0),
            (None, "office", 1),
            (None, "kitchen", 1),
        ],
        "3 regions by 2 categories, and the groups of items without region",
    ),
    Case(
        "empty-true-with-time",
        SHOP,
        {
            "measures": ["orders.order_count"],
            "dimensions": ["regions.name", MONTH],
            "include_empty": True,
            "filters": ["orders.ordered_at < '2024-03-01'"],
        },
        [
            ("North", JAN, 2),
            ("South", JAN, 0),
            ("Void", JAN, 0),
            ("North", FEB, 0),
            ("South", FEB, 1),
            ("Void", FEB, 0),
            (None, FEB, 1),
        ],
        "months seen by all regions",
    ),
    Case(
        "empty-true-with-metric-time",
        SHOP,
        {
            "measures": ["orders.order_count"],
            "dimensions": ["regions.name", grouped("metric_time", "quarter")],
            "include_empty": True,
            "filters": ["orders.order_id < 4"],
        },
        [("North", JAN, 2), ("South", JAN, 1), ("Void", JAN, 0)],
        "quarters seen by all regions",
    ),
    Case(
        "empty-derived",
        SHOP,
        {"measures": ["orders.unpaid", "orders.aov", "orders.avg_amount"], "dimensions": ["regions.name"]},
        [("North", 50, 75, 75), ("South", 0, 100, 200), ("Void", 0, None, None), (None, 525, 200, 200)],
        "missing sums count as 0 in a formula, averages stay NULL",
    ),
    Case(
        "fill-months",
        SHOP,
        {
            "measures": ["orders.order_count", "orders.revenue"],
            "dimensions": [MONTH],
            "filters": ["orders.status = 'paid' OR orders.order_id = 7"],
            "fill": True,
        },
        [(JAN, 1, 100), (FEB, 1, 200), (MAR, 1, 75), (APR, 1, None)],
        "nothing to fill",
    ),
    Case(
        "fill-gap",
        SHOP,
        {
            "measures": ["orders.order_count", "orders.revenue"],
            "dimensions": [MONTH],
            "filters": ["orders.order_id IN (1, 5)"],
            "fill": True,
        },
        [(JAN, 1, 100), (FEB, 0, None), (MAR, 1, 75)],
        "February is between",
    ),
    Case(
        "fill-range",
        SHOP,
        {
            "measures": ["tickets.ticket_count"],
            "dimensions": [grouped("tickets.opened_at", "month")],
            "filters": ["tickets.priority = 'low'"],
            "time_range": {"start": "2023-12-01", "end": "2024-05-01"},
            "fill": True,
        },
        [(date(2023, 12, 1), 0), (JAN, 0), (FEB, 1), (MAR, 1), (APR, 0)],
        "all months of the range",
    ),
    Case(
        "fill-every-combination",
        SHOP,
        {
            "measures": ["orders.order_count"],
            "dimensions": [MONTH, "orders.status"],
            "filters": ["orders.status IN ('paid', 'void')"],
            "fill": True,
        },
        [(JAN, "paid", 1), (FEB, "paid", 1), (MAR, "paid", 1), (JAN, "void", 0), (FEB, "void", 1), (MAR, "void", 0)],
        "every month for every status of the result",
    ),
]
