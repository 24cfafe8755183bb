"""The questions whose SQL is kept: name -> query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _by(field: str, granularity: str, **more: Any) -> dict[str, Any]:
    return {"field": field, "granularity": granularity, **more}


_MONTH = _by("orders.placed_at", "month")

QUESTIONS: Mapping[str, Mapping[str, Any]] = {
    "total": {"measures": ["orders.revenue", "orders.orders"]},
    "by_column": {"measures": ["orders.revenue"], "dimensions": ["orders.status"], "order_by": ["revenue desc"]},
    "by_boolean": {"measures": ["orders.revenue", "orders.gifts"], "dimensions": ["orders.gift", "orders.big"]},
    "by_far_column": {
        "measures": ["orders.revenue", "orders.buyers"],
        "dimensions": ["customers.label", "customers.regions.name"],
    },
    "role_playing": {"measures": ["orders.orders"], "dimensions": ["billed.name", "sent.name"]},
    "formulas": {
        "measures": ["orders.per_order", "orders.paid_share", {"expr": "orders / buyers / 2", "name": "odd"}],
        "dimensions": ["customers.tier"],
    },
    "percentiles": {
        "measures": ["orders.typical", {"expr": "percentile(amount, 0.9)", "name": "p90"}, "orders.mean_customer"],
        "dimensions": ["orders.status"],
    },
    "distinct_pairs": {"measures": ["orders.buyer_days"], "dimensions": ["orders.gift"]},
    "two_facts": {
        "measures": ["orders.revenue", "tickets.tickets"],
        "dimensions": ["customers.tier"],
        "order_by": ["tickets desc"],
    },
    "two_facts_by_month": {
        "measures": ["orders.revenue", "tickets.tickets"],
        "dimensions": [_by("metric_time", "month")],
        "time_range": {"start": "2023-12-01", "end": "2024-04-01"},
    },
    "details_of_a_measure": {
        "measures": ["customers.balance_total", "customers.customers"],
        "dimensions": ["orders.status"],
    },
    "semi_join": {
        "measures": ["customers.balance_total", "customers.customers"],
        "filters": ["orders.amount > 30 AND orders.status = 'paid'"],
    },
    "without_details": {"measures": ["customers.customers"], "filters": ["orders.id IS NULL"]},
    "many_filters": {
        "measures": ["orders.revenue"],
        "dimensions": ["orders.status"],
        "filters": [
            "customers.tier = 'gold' OR customers.tier IS NULL",
            "orders.status LIKE 'p%' OR orders.gift = FALSE",
            "orders.discount BETWEEN 0.25 AND 1.5",
        ],
        "segments": ["orders.done"],
    },
    "having": {
        "measures": ["orders.revenue"],
        "dimensions": ["customers.name"],
        "having": ["orders > 2", "revenue >= 50"],
        "order_by": ["revenue desc"],
        "limit": 5,
        "offset": 1,
    },
    "week_in_a_zone": {
        "measures": ["orders.revenue"],
        "dimensions": [_by("orders.placed_at", "week")],
        "timezone": "America/New_York",
        "time_range": {"start": "2024-03-01", "end": "2024-03-31"},
    },
    "fiscal_quarters": {
        "measures": ["tickets.tickets"],
        "dimensions": [_by("tickets.opened_on", "fiscal_quarter"), _by("tickets.opened_on", "fiscal_year")],
    },
    "filled_days": {
        "measures": ["orders.orders"],
        "dimensions": [_by("orders.placed_at", "day")],
        "time_range": {"start": "2024-01-01", "end": "2024-01-15"},
        "fill": True,
    },
    "running": {
        "measures": ["orders.revenue_so_far", "orders.revenue_28", "orders.revenue_fytd"],
        "dimensions": [_MONTH],
    },
    "month_before": {
        "measures": ["orders.revenue", "orders.revenue_before"],
        "dimensions": [_MONTH, "orders.gift"],
        "time_range": {"start": "2024-01-01", "end": "2024-04-01"},
    },
    "cut_months": {
        "measures": ["orders.revenue_28", "orders.revenue_before"],
        "dimensions": [_MONTH],
        "time_range": {"start": "2024-01-10", "end": "2024-02-20T12:00:00"},
    },
    "days_compared": {
        "measures": ["orders.revenue"],
        "dimensions": [_by("orders.placed_at", "day")],
        "time_range": {"start": "2024-03-28", "end": "2024-03-31T18:00:00"},
        "comparison": {"offset": "1 month"},
    },
    "weeks_compared": {
        "measures": ["orders.revenue"],
        "dimensions": [_by("orders.placed_at", "week")],
        "time_range": {"start": "2024-02-26", "end": "2024-03-20"},
        "comparison": {"offset": "1 month"},
    },
    "compared": {
        "measures": ["orders.revenue"],
        "time_range": {"start": "2024-02-01", "end": "2024-03-01"},
        "comparison": {"offset": "previous_period"},
    },
    "shares": {
        "measures": ["orders.share", "orders.share_of_status"],
        "dimensions": ["orders.status", "customers.tier"],
    },
    "two_levels": {"measures": ["orders.mean_of_customers"], "dimensions": [_MONTH]},
    "last_of_month": {
        "measures": ["stock.on_hand", "stock.usual"],
        "dimensions": [_by("stock.day", "month"), "products.name"],
        "filters": ["products.price < 20"],
    },
    "last_before_a_day": {
        "measures": ["stock.on_hand"],
        "dimensions": ["products.name"],
        "filters": ["stock.day < '2024-02-01'", "stock.pieces > 1"],
    },
    "members_without_details": {
        "measures": ["orders.orders"],
        "dimensions": ["customers.name"],
        "filters": ["tickets.id IS NULL"],
    },
    "all_members": {
        "measures": ["orders.orders", "orders.revenue"],
        "dimensions": ["regions.name"],
        "via": {"regions": "billed"},
    },
    "empty_members": {
        "measures": ["lines.pieces", "lines.value"],
        "dimensions": ["products.name", "orders.status"],
        "include_empty": True,
    },
    "distinct_members": {"dimensions": ["customers.label", "customers.regions.name"], "filters": ["balance > 20"]},
    "from_a_query": {
        "measures": ["spenders.spent", "spenders.spenders"],
        "dimensions": ["customers.tier"],
        "parameters": {"least": 20},
        "totals": True,
    },
    "rows_of_sources": {
        "measures": [
            "count(orders) as orders",
            "count(Customers) as customers",
            "count(orders) filter (where customers.tier = 'gold') as gold",
            "sum(orders.amount) / count(orders) as mean",
        ],
        "dimensions": ["customers.regions.name as region"],
        "order_by": ["3 desc", 1],
    },
}
