"""The questions the demo answers through its semantic layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Question:
    """A question in words and as a query of the semantic layer; at most 12 rows."""

    title: str
    query: Mapping[str, Any]
    connection: str = "warehouse"


QUESTIONS: tuple[Question, ...] = (
    Question(
        "Net revenue and refunds by month of the order and region it was shipped to, in euros",
        {
            "measures": ["order_lines.net_revenue", "refunds.refunded", "order_lines.refund_rate"],
            "dimensions": [
                {"field": "ordered.month_start", "name": "month"},
                {"field": "ship_to.regions.region_name", "name": "region"},
            ],
            "filters": ["ordered.month_start >= DATE '2025-10-01'", "ordered.month_start < DATE '2025-12-01'"],
        },
    ),
    Question(
        "Orders of 2025 shipped late, by the month they were shipped in",
        {
            "measures": ["orders.order_count", "orders.late_orders", "orders.late_share"],
            "dimensions": [{"field": "shipped.month_start", "name": "month"}],
            "filters": ["shipped.calendar_year = 2025"],
        },
    ),
    Question(
        "Stock by category at the last count",
        {
            "measures": ["inventory_snapshots.pieces_on_hand"],
            "dimensions": [{"field": "categories.category_name", "name": "category"}],
            "order_by": ["pieces_on_hand desc"],
        },
    ),
)
"""The first is the closing answer: two facts that a plain join would multiply, a date in its role, a ratio."""

FROM_DBT = Question(
    "Active customers and their share of all accounts, by segment",
    {
        "measures": ["customer_value.accounts", "customer_value.active_customers", "customer_value.active_share"],
        "dimensions": ["customer_value.segment"],
    },
)
"""Its measures are metrics of the dbt project: nobody can ask it before that is read."""
