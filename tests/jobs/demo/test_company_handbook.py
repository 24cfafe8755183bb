"""The handbook's links resolve, what it names exists, and its rules are true of the data."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.jobs.demo.company import copy_packaged, packaged_names, packaged_text
from ktx_cli.jobs.demo.sales import STATUSES

Ask = Callable[[str], list[tuple[Any, ...]]]

PAGES = packaged_names("handbook")


def text_of(page: str) -> str:
    return packaged_text(f"handbook/{page}")


def anchors(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: str) -> list[str]:
    return re.findall(r"\]\(([^)]+)\)", text_of(page))


def test_the_pages(tmp_path: Path) -> None:
    assert [path.name for path in copy_packaged("handbook", tmp_path / "handbook")] == PAGES
    assert 6 <= len(PAGES) <= 10
    assert sum("\n|---" in text_of(page) for page in PAGES) >= 3


@pytest.mark.table("page", PAGES)
def test_a_page_has_one_title_and_no_front_matter(page: str) -> None:
    assert text_of(page).startswith("# ")
    assert len(re.findall(r"^# ", text_of(page), re.MULTILINE)) == 1


@pytest.mark.table("page", PAGES)
def test_links_resolve(page: str) -> None:
    assert links(page)
    for link in links(page):
        target, _, anchor = link.partition("#")
        assert target in PAGES, link
        assert not anchor or anchor in anchors(target), link


def test_every_page_can_be_reached_from_the_first() -> None:
    assert {link.partition("#")[0] for link in links("README.md")} == set(PAGES) - {"README.md"}


@pytest.mark.table("page", PAGES)
def test_what_stands_in_code_marks_exists(page: str, ask: Ask) -> None:
    columns = {name for (name,) in ask("SELECT DISTINCT column_name FROM information_schema.columns")}
    tables = {name for (name,) in ask("SELECT table_schema || '.' || table_name FROM information_schema.tables")}
    values = {*STATUSES, "home", "business"}
    known = columns | tables | {f"{table}.{column}" for table in tables for column in columns} | {"shop", "finance"}
    for code in re.findall(r"`([^`]+)`", text_of(page)):
        for word in re.findall(r"[a-z_.]+", code):
            assert word in known | values, word
        if code.count(".") == 2:
            ask(f"SELECT {code.rpartition('.')[2]} FROM {code.rpartition('.')[0]} LIMIT 1")


REVENUE_BY_LINES = """
    WITH lines AS (
      SELECT o.order_id, sum(l.quantity * l.unit_price - l.discount_amount) AS gross
      FROM shop.orders o JOIN shop.order_lines l ON l.order_id = o.order_id
      WHERE o.status <> 'cancelled' GROUP BY o.order_id
    )
    SELECT o.order_date_key // 100 AS month, a.region_code,
           sum(lines.gross - coalesce((SELECT sum(r.amount) FROM finance.refunds r WHERE r.order_id = o.order_id), 0))
    FROM lines JOIN shop.orders o ON o.order_id = lines.order_id
    JOIN shop.addresses a ON a.address_id = o.shipping_address_id
    GROUP BY ALL ORDER BY ALL"""

REVENUE_BY_MONEY = """
    WITH money AS (
      SELECT order_id, amount FROM finance.payments WHERE status = 'settled'
      UNION ALL SELECT order_id, -amount FROM finance.refunds
    )
    SELECT o.order_date_key // 100 AS month, a.region_code, sum(money.amount)
    FROM money JOIN shop.orders o ON o.order_id = money.order_id
    JOIN shop.addresses a ON a.address_id = o.shipping_address_id
    GROUP BY ALL ORDER BY ALL"""

REVENUE_BY_VIEW = """
    SELECT order_date_key // 100 AS month, region_code, sum(net_revenue)
    FROM finance.order_revenue GROUP BY ALL ORDER BY ALL"""


def test_net_revenue_comes_out_the_same_three_ways(ask: Ask) -> None:
    by_lines = ask(REVENUE_BY_LINES)
    assert len(by_lines) > 200
    assert by_lines == ask(REVENUE_BY_MONEY) == ask(REVENUE_BY_VIEW)


def test_the_mistakes_the_handbook_names_change_the_number(ask: Ask) -> None:
    right = sum(row[2] for row in ask(REVENUE_BY_VIEW))
    joined = """
        SELECT sum(l.quantity * l.unit_price - l.discount_amount) - sum(coalesce(r.amount, 0))
        FROM shop.orders o JOIN shop.order_lines l USING (order_id)
        LEFT JOIN finance.refunds r USING (order_id, line_number) WHERE o.status <> 'cancelled'"""
    list_price = """
        SELECT sum(l.quantity * p.list_price - l.discount_amount) FROM shop.orders o
        JOIN shop.order_lines l USING (order_id) JOIN shop.products p USING (product_id)
        WHERE o.status <> 'cancelled'"""
    every_status = "SELECT sum(amount) FROM finance.payments"
    billing = """
        SELECT count(*) FROM shop.orders o JOIN shop.addresses b ON b.address_id = o.billing_address_id
        JOIN shop.addresses s ON s.address_id = o.shipping_address_id WHERE b.region_code <> s.region_code"""
    assert ask(joined)[0][0] > right
    assert ask(list_price)[0][0] > right + ask("SELECT sum(amount) FROM finance.refunds")[0][0]
    assert ask(every_status)[0][0] > right + ask("SELECT sum(amount) FROM finance.refunds")[0][0]
    assert ask(billing)[0][0] > 100


RULES = [
    (
        "an active customer ordered in the 90 days that end with the newest order",
        """SELECT customer_id FROM finance.customer_value v WHERE is_active <> EXISTS (
                 SELECT 1 FROM shop.orders o JOIN finance.calendar c ON c.date_key = o.order_date_key
                 WHERE o.customer_id = v.customer_id AND o.status <> 'cancelled'
                 AND c.full_date BETWEEN DATE '2025-12-31' - 89 AND DATE '2025-12-31')""",
    ),
    (
        "the ship date is empty exactly for placed, packed and cancelled orders",
        """SELECT order_id FROM shop.orders
               WHERE (ship_date_key IS NULL) <> (status IN ('placed', 'packed', 'cancelled'))""",
    ),
    (
        "placed orders came in on the last day",
        "SELECT order_id FROM shop.orders WHERE status = 'placed' AND order_date_key <> 20251231",
    ),
    (
        "every line of a returned order has a full refund",
        """SELECT l.order_id FROM shop.order_lines l JOIN shop.orders o USING (order_id)
               LEFT JOIN (SELECT order_id, line_number, sum(amount) AS back FROM finance.refunds GROUP BY ALL) r
               USING (order_id, line_number)
               WHERE o.status = 'returned' AND back IS DISTINCT FROM l.quantity * l.unit_price - l.discount_amount""",
    ),
    (
        "refunds are for returned and delivered orders, after the order",
        """SELECT refund_id FROM finance.refunds JOIN shop.orders o USING (order_id)
               WHERE o.status NOT IN ('returned', 'delivered') OR refund_date_key <= o.order_date_key OR amount <= 0""",
    ),
    (
        "no line is refunded more than it brought in",
        """SELECT order_id FROM shop.order_lines JOIN finance.refunds USING (order_id, line_number)
               GROUP BY order_id, line_number
               HAVING sum(amount) > any_value(quantity * unit_price - discount_amount)""",
    ),
    (
        "orders are due two days after the order day",
        """SELECT order_id FROM shop.orders JOIN finance.calendar o ON o.date_key = order_date_key
               JOIN finance.calendar d ON d.date_key = due_date_key WHERE d.full_date <> o.full_date + 2""",
    ),
    (
        "guest cards are used at fairs only, and are 900001 to 900060",
        """SELECT payment_id FROM finance.payments p JOIN shop.orders o USING (order_id)
               WHERE p.customer_id <> o.customer_id
               AND (o.channel <> 'fair' OR p.customer_id NOT BETWEEN 900001 AND 900060)""",
    ),
    (
        "web and app orders have no sales rep, phone and fair orders have one from the sales team",
        """SELECT order_id FROM shop.orders LEFT JOIN shop.employees e ON e.employee_id = sales_rep_id
               WHERE (channel IN ('phone', 'fair')) <> (e.team IS NOT DISTINCT FROM 'Sales')""",
    ),
    (
        "cancelled orders were never paid",
        """SELECT payment_id FROM finance.payments p JOIN shop.orders o USING (order_id)
               WHERE o.status = 'cancelled' AND p.status = 'settled'""",
    ),
    (
        "stock is counted on Sundays",
        """
            SELECT snapshot_date_key FROM shop.inventory_snapshots JOIN finance.calendar ON date_key = snapshot_date_key
            WHERE weekday_name <> 'Sunday'""",
    ),
    ("reserved is never larger than on hand", "SELECT 1 FROM shop.inventory_snapshots WHERE reserved > on_hand"),
    (
        "every product on sale is counted, and no other",
        """SELECT full_date, product_id FROM finance.calendar CROSS JOIN shop.products
               WHERE weekday_name = 'Sunday' AND full_date <= DATE '2025-12-31'
               AND full_date BETWEEN launched_on AND coalesce(withdrawn_on, full_date)
               EXCEPT SELECT full_date, product_id FROM shop.inventory_snapshots
               JOIN finance.calendar ON date_key = snapshot_date_key
               UNION ALL (SELECT full_date, product_id FROM shop.inventory_snapshots
               JOIN finance.calendar ON date_key = snapshot_date_key JOIN shop.products USING (product_id)
               WHERE full_date < launched_on OR full_date > withdrawn_on)""",
    ),
    (
        "targets are for the first day of a month",
        "SELECT 1 FROM finance.sales_targets WHERE month_start_key % 100 <> 1",
    ),
    (
        "a customer has one or two addresses",
        "SELECT customer_id FROM shop.addresses GROUP BY 1 HAVING count(*) > 2 UNION "
        "(SELECT customer_id FROM shop.customers EXCEPT SELECT customer_id FROM shop.addresses)",
    ),
    (
        "orders go to addresses of their customer",
        """SELECT order_id FROM shop.orders o JOIN shop.addresses b ON b.address_id = billing_address_id
               JOIN shop.addresses s ON s.address_id = shipping_address_id
               WHERE b.customer_id <> o.customer_id OR s.customer_id <> o.customer_id""",
    ),
    (
        "prices in the past were lower",
        """
            SELECT l.order_id FROM shop.order_lines l JOIN shop.orders o USING (order_id)
            JOIN shop.products p USING (product_id)
            WHERE o.order_date_key < 20250000 AND l.unit_price >= p.list_price""",
    ),
]
"""What the handbook says, and SQL that finds the rows that break it."""


@pytest.mark.parametrize(("rule", "sql"), [pytest.param(*rule, id=rule[0]) for rule in RULES])
def test_the_rules_have_no_exception(ask: Ask, rule: str, sql: str) -> None:
    assert ask(sql) == [], rule


def test_the_other_claims(ask: Ask) -> None:
    double = "SELECT count(*) FROM (FROM finance.refunds SELECT order_id, line_number GROUP BY ALL HAVING count(*) > 1)"
    assert ask(double)[0][0] > 0
    late = "SELECT avg(CAST(ship_date_key > due_date_key AS INTEGER)) FROM shop.orders"
    assert 0.03 < ask(late)[0][0] < 0.2
    before = "SELECT avg(CAST(signed_up_on < DATE '2023-01-01' AS INTEGER)) FROM shop.customers"
    assert 0.17 < ask(before)[0][0] < 0.23
    assert ask("SELECT min(order_date_key) FROM shop.orders")[0][0] == 20230101
    assert ask("SELECT count(*) FROM shop.regions") == [(6,)]
    lapsed = "SELECT count(*) FROM finance.customer_value WHERE NOT is_active AND order_count > 0"
    never = "SELECT count(*) FROM finance.customer_value WHERE order_count = 0 AND first_order_date IS NULL"
    assert ask(lapsed)[0][0] > 100 and ask(never)[0][0] > 100
