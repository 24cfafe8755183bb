"""The golden questions of the company: their answers are counted by hand, in SQL, to check the semantic layer with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ktx_cli.jobs.demo.company import WAREHOUSE, WAREHOUSE_ID
from ktx_cli.project.files import write_atomic
from ktx_cli.project.layout import Layout

_REVENUE: Final = "SELECT sum(net_revenue) FROM finance.order_revenue"

_LATE: Final = """
    SELECT c.month_start, count(*) FILTER (o.ship_date_key > o.due_date_key)
    FROM shop.orders o JOIN finance.calendar c ON c.date_key = o.ship_date_key
    WHERE o.status <> 'cancelled' AND c.calendar_year = 2025 GROUP BY 1 ORDER BY 1"""

_FILE: Final = """\
# Golden questions of the company. `ktx eval` asks them anew and compares. The answers were counted by hand, in SQL.
connection: {connection}
cases:
  - id: net-revenue
    question: What is the net revenue of all orders, in euros?
    query: {{measures: [order_lines.net_revenue]}}
    expect: {{value: {revenue}}}
  - id: late-orders
    question: How many orders were shipped late in 2025, by the month they were shipped in?
    query:
      measures: [orders.late_orders]
      dimensions: [{{field: shipped.month_start, name: month}}]
      filters: [shipped.calendar_year = 2025]
    expect:
      columns: [month, late_orders]
      rows:
{late}
  - id: lines-without-an-order
    question: Which lines belong to no order?
    sql: |
      SELECT lines.order_id, lines.line_number
      FROM shop.order_lines AS lines
      LEFT JOIN shop.orders ON orders.order_id = lines.order_id
      WHERE orders.order_id IS NULL
    expect: {{rows: 0}}
"""


def write_evals(folder: Path) -> Path:
    """Write the golden questions of the company in `folder`, whose warehouse is there; raises `StorageError`."""
    import duckdb

    with duckdb.connect(folder / WAREHOUSE, read_only=True) as warehouse:
        ((revenue,),) = warehouse.execute(_REVENUE).fetchall()
        late = warehouse.execute(_LATE).fetchall()
    rows = "\n".join(f'        - ["{month.isoformat()}", {count}]' for month, count in late)
    path = Layout(folder).evals / "company.yaml"
    write_atomic(path, _FILE.format(connection=WAREHOUSE_ID, revenue=revenue, late=rows).encode())
    return path
