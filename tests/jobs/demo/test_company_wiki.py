"""The five wiki pages of the demo say what they are about, and are true of the data."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.core import load
from ktx_cli.jobs.demo.company import packaged_names, packaged_text
from ktx_cli.jobs.demo.sales import STATUSES

Ask = Callable[[str], list[tuple[Any, ...]]]

PAGES = packaged_names("wiki")


def text_of(page: str) -> str:
    return packaged_text(f"wiki/{page}")


def test_there_are_five_pages_and_each_has_a_summary_references_questions_and_an_owner() -> None:
    assert PAGES == ["customers.md", "data-quality.md", "fiscal-calendar.md", "orders-and-returns.md", "revenue.md"]
    for page in PAGES:
        front, _, body = text_of(page).removeprefix("---\n").partition("\n---\n")
        facts = load(front, where=page)
        assert {"summary", "tags", "sl_refs", "questions", "owner"} <= facts.keys(), page
        assert re.match(r"\n# \S", body) and len(body) < 4_000, page
        assert all(line == line.rstrip() and len(line) <= 120 for line in body.splitlines()), page


CLAIMS = {
    "one account in four has no order that counts": """
        SELECT avg((NOT EXISTS (
          SELECT 1 FROM shop.orders o WHERE o.customer_id = c.customer_id AND o.status <> 'cancelled'
        ))::INT) BETWEEN 0.2 AND 0.3 FROM shop.customers c""",
    "one account in eight is a business": """
        SELECT avg((segment = 'business')::INT) BETWEEN 0.1 AND 0.15 FROM shop.customers""",
    "one account in five is older than 2023": """
        SELECT avg((signed_up_on < DATE '2023-01-01')::INT) BETWEEN 0.15 AND 0.25 FROM shop.customers""",
    "one payment in four at fairs names a guest card": """
        SELECT avg((customer_id BETWEEN 900001 AND 900060)::INT) BETWEEN 0.2 AND 0.3
        FROM finance.payments WHERE order_id IN (SELECT order_id FROM shop.orders WHERE channel = 'fair')""",
    "guest cards are paid with at fairs only": """
        SELECT count(*) = 0 FROM finance.payments p JOIN shop.orders o ON o.order_id = p.order_id
        WHERE p.customer_id >= 900001 AND o.channel <> 'fair'""",
    "settled payments minus refunds equal net revenue": """
        SELECT (SELECT sum(amount) FROM finance.payments WHERE status = 'settled')
             - (SELECT sum(amount) FROM finance.refunds) = sum(net_revenue) FROM finance.order_revenue""",
    "an order is due two days after it was placed": """
        SELECT bool_and(d.full_date - p.full_date = 2) FROM shop.orders o
        JOIN finance.calendar p ON p.date_key = o.order_date_key
        JOIN finance.calendar d ON d.date_key = o.due_date_key""",
    "a returned order has a full refund for every line": """
        SELECT bool_and(coalesce(back.amount, 0) = l.quantity * l.unit_price - l.discount_amount)
        FROM shop.order_lines l JOIN shop.orders o ON o.order_id = l.order_id
        LEFT JOIN (SELECT order_id, line_number, sum(amount) AS amount FROM finance.refunds GROUP BY ALL) back
          ON back.order_id = l.order_id AND back.line_number = l.line_number
        WHERE o.status = 'returned'""",
    "a line can have more than one refund": """
        SELECT max(n) > 1 FROM (SELECT count(*) AS n FROM finance.refunds GROUP BY order_id, line_number)""",
    "cancelled orders have no ship date, and neither have those that have not left": """
        SELECT bool_and((ship_date_key IS NULL) = (status IN ('placed', 'packed', 'cancelled'))) FROM shop.orders""",
    "no sales representative on the web and in the app": """
        SELECT bool_and((sales_rep_id IS NULL) = (channel IN ('web', 'app'))) FROM shop.orders""",
    "the fiscal year begins in February and has the name of the year it begins in": """
        SELECT bool_and(fiscal_year = year(full_date - INTERVAL 1 MONTH)
          AND fiscal_quarter = quarter(full_date - INTERVAL 1 MONTH)) FROM finance.calendar""",
    "targets are set for calendar months": """
        SELECT bool_and(month_start_key % 100 = 1) AND count(*) = 12 * 3 * 6 FROM finance.sales_targets""",
    "orders begin in 2023": "SELECT min(order_date) >= DATE '2023-01-01' FROM finance.order_revenue",
    "stock is counted on Sundays": """
        SELECT bool_and(weekday_name = 'Sunday') FROM shop.inventory_snapshots s
        JOIN finance.calendar c ON c.date_key = s.snapshot_date_key""",
}


@pytest.mark.table(("claim", "sql"), list(CLAIMS.items()))
def test_what_the_pages_claim_is_true_of_the_data(claim: str, sql: str, ask: Ask) -> None:
    assert ask(sql) == [(True,)], claim


def test_the_table_of_statuses_has_all_of_them() -> None:
    assert re.findall(r"^\| `([a-z]+)` \|", text_of("orders-and-returns.md"), re.MULTILINE) == list(STATUSES)
