"""Conditions on the result: selected, not selected, mixed with dimensions (defect B6)."""

from tests.semantic_oracle.cases.base import Case
from tests.semantic_oracle.cases.shop import SHOP

BY_NAME = {"measures": ["orders.revenue"], "dimensions": ["customers.name"], "include_empty": False}

CASES = [
    Case(
        "having-selected",
        SHOP,
        BY_NAME | {"having": ["orders.revenue > 100"]},
        [("Ann", 150), ("Bob", 200), (None, 575)],
        "Cid has 25",
    ),
    Case(
        "having-as-filter",
        SHOP,
        BY_NAME | {"filters": ["orders.revenue > 100"]},
        [("Ann", 150), ("Bob", 200), (None, 575)],
        "a filter with a measure's name is one on the result",
    ),
    Case(
        "having-not-selected",
        SHOP,
        BY_NAME | {"having": ["orders.order_count >= 2"]},
        [("Ann", 150), ("Bob", 200), (None, 575)],
        "Cid has one order",
    ),
    Case(
        "having-aggregate-not-selected",
        SHOP,
        BY_NAME | {"filters": ["max(orders.amount) >= 200"]},
        [("Bob", 200), (None, 575)],
        "the largest order",
    ),
    Case(
        "having-null-does-not-pass",
        SHOP,
        {"measures": ["orders.revenue"], "dimensions": ["orders.status"], "having": ["orders.revenue < 1000"]},
        [("paid", 375), ("open", 550), ("void", 25)],
        "the group of order 7 has no revenue",
    ),
    Case(
        "having-is-null",
        SHOP,
        {"measures": ["orders.order_count"], "dimensions": ["orders.status"], "having": ["orders.revenue IS NULL"]},
        [(None, 1)],
        "only order 7's group",
    ),
    Case(
        "having-other-fact",
        SHOP,
        BY_NAME | {"having": ["tickets.ticket_count = 0"]},
        [("Bob", 200)],
        "Bob has no ticket: the missing count is 0",
    ),
    Case(
        "having-or-precedence",
        SHOP,
        BY_NAME | {"having": ["orders.revenue > 500 OR orders.revenue < 100", "orders.order_count = 1"]},
        [("Cid", 25)],
        "(above 500 or below 100) and one order",
    ),
    Case(
        "having-with-a-dimension",
        SHOP,
        BY_NAME | {"having": ["orders.revenue > 180 OR customers.name = 'Cid'"]},
        [("Bob", 200), ("Cid", 25), (None, 575)],
        "a selected dimension may be named",
    ),
    Case(
        "having-ratio",
        SHOP,
        BY_NAME | {"having": ["orders.paid_share > 0.5"]},
        [("Ann", 150), ("Bob", 200)],
        "100/150 and 200/200; 75/575 is less; Cid 0/25",
    ),
    Case(
        "having-empty-member-counts-zero",
        SHOP,
        {"measures": ["tickets.ticket_count"], "dimensions": ["customers.name"], "having": ["ticket_count = 0"]},
        [("Bob", 0)],
        "empty members are there before the condition",
    ),
    Case(
        "having-no-dimension",
        SHOP,
        {"measures": ["orders.revenue"], "having": ["orders.revenue > 1000"]},
        [],
        "950 is not above 1000",
    ),
    Case(
        "having-and-filter",
        SHOP,
        BY_NAME | {"filters": ["orders.status = 'paid'", "orders.revenue >= 100"]},
        [("Ann", 100), ("Bob", 200)],
        "paid orders, then the groups of at least 100",
    ),
    Case(
        "having-ad-hoc-by-name",
        SHOP,
        {
            "measures": [{"expr": "sum(orders.amount)", "name": "money"}],
            "dimensions": ["orders.status"],
            "having": ["money > 100"],
        },
        [("paid", 375), ("open", 550)],
        "the name the query gave",
    ),
    Case(
        "having-totals-are-not-restricted",
        SHOP,
        BY_NAME | {"having": ["orders.revenue > 100"], "totals": True},
        [("Ann", 150), ("Bob", 200), (None, 575)],
        "the total is of all groups",
        totals=[950],
    ),
]
