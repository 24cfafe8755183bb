"""The questions the demo answers with plain read-only SQL on its warehouse."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Question:
    """A question in words and the DuckDB query that answers it, at most 12 rows."""

    title: str
    sql: str
    connection: str = "warehouse"


QUESTIONS: tuple[Question, ...] = (
    Question(
        "Net revenue by region in 2025, in euros",
        """\
SELECT regions.region_name AS region, count(*) AS orders, sum(revenue.net_revenue) AS net_revenue
FROM finance.order_revenue AS revenue
JOIN shop.regions AS regions ON regions.region_code = revenue.region_code
JOIN finance.calendar AS calendar ON calendar.date_key = revenue.order_date_key
WHERE calendar.calendar_year = 2025
GROUP BY regions.region_name
ORDER BY net_revenue DESC, region""",
    ),
    Question(
        "Active customers at the end of each quarter of 2025",
        """\
WITH quarter_ends AS (
  SELECT calendar_quarter AS quarter, max(full_date) AS last_day
  FROM finance.calendar
  WHERE calendar_year = 2025
  GROUP BY calendar_quarter
)
SELECT quarter_ends.quarter, count(DISTINCT revenue.customer_id) AS active_customers
FROM quarter_ends
JOIN finance.order_revenue AS revenue
  ON revenue.order_date <= quarter_ends.last_day AND revenue.order_date > quarter_ends.last_day - 90
GROUP BY quarter_ends.quarter
ORDER BY quarter_ends.quarter""",
    ),
    Question(
        "Stock by category at the last count",
        """\
SELECT categories.category_name AS category, count(*) AS products, sum(stock.on_hand)::BIGINT AS pieces
FROM shop.inventory_snapshots AS stock
JOIN shop.products AS products ON products.product_id = stock.product_id
JOIN shop.categories AS categories ON categories.category_id = products.category_id
WHERE stock.snapshot_date_key = (SELECT max(snapshot_date_key) FROM shop.inventory_snapshots)
GROUP BY categories.category_name
ORDER BY pieces DESC, category""",
    ),
)
"""The first one is the demo's closing answer: at most eight rows."""
