from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from ktx_cli.jobs.demo.company import Company, make_tables

Ask = Callable[[str], list[tuple[Any, ...]]]

SEEDS = [0, 1, -3] if not os.environ.get("KTX_TEST_FULL") else [*range(40), -3, 2**80]

ORPHANS = "SELECT count(*) FROM {child} c WHERE {filled} AND NOT EXISTS (SELECT 1 FROM {parent} p WHERE {match})"

REFERENCES = [
    ("shop.regions", "sales_lead_id", "shop.employees", "employee_id"),
    ("shop.employees", "manager_id", "shop.employees", "employee_id"),
    ("shop.customers", "referred_by_customer_id", "shop.customers", "customer_id"),
    ("shop.addresses", "customer_id", "shop.customers", "customer_id"),
    ("shop.addresses", "region_code", "shop.regions", "region_code"),
    ("shop.products", "category_id", "shop.categories", "category_id"),
    ("shop.product_tags", "product_id", "shop.products", "product_id"),
    ("shop.product_tags", "tag_id", "shop.tags", "tag_id"),
    ("shop.orders", "customer_id", "shop.customers", "customer_id"),
    ("shop.orders", "order_date_key", "finance.calendar", "date_key"),
    ("shop.orders", "due_date_key", "finance.calendar", "date_key"),
    ("shop.orders", "ship_date_key", "finance.calendar", "date_key"),
    ("shop.orders", "billing_address_id", "shop.addresses", "address_id"),
    ("shop.orders", "shipping_address_id", "shop.addresses", "address_id"),
    ("shop.orders", "sales_rep_id", "shop.employees", "employee_id"),
    ("shop.order_lines", "order_id", "shop.orders", "order_id"),
    ("shop.order_lines", "product_id", "shop.products", "product_id"),
    ("shop.inventory_snapshots", "snapshot_date_key", "finance.calendar", "date_key"),
    ("shop.inventory_snapshots", "product_id", "shop.products", "product_id"),
    ("shop.support_tickets", "customer_id", "shop.customers", "customer_id"),
    ("shop.support_tickets", "order_id", "shop.orders", "order_id"),
    ("shop.support_tickets", "agent_id", "shop.employees", "employee_id"),
    ("finance.payments", "order_id", "shop.orders", "order_id"),
    ("finance.payments", "payment_date_key", "finance.calendar", "date_key"),
    ("finance.refunds", "order_id, line_number", "shop.order_lines", "order_id, line_number"),
    ("finance.refunds", "refund_date_key", "finance.calendar", "date_key"),
    ("finance.sales_targets", "month_start_key", "finance.calendar", "date_key"),
    ("finance.sales_targets", "region_code", "shop.regions", "region_code"),
]

KEYS = [
    ("shop.regions", "region_code"),
    ("shop.employees", "employee_id"),
    ("shop.customers", "customer_id"),
    ("shop.customers", "email"),
    ("shop.addresses", "address_id"),
    ("shop.categories", "category_id"),
    ("shop.products", "product_id"),
    ("shop.products", "sku"),
    ("shop.tags", "tag_id"),
    ("shop.orders", "order_id"),
    ("shop.support_tickets", "ticket_id"),
    ("finance.calendar", "date_key"),
    ("finance.payments", "payment_id"),
    ("finance.refunds", "refund_id"),
    ("finance.order_revenue", "order_id"),
    ("finance.customer_value", "customer_id"),
    ("finance.days", "date_day"),
]

PAIR_KEYS = [
    ("shop.order_lines", "order_id", "line_number"),
    ("shop.inventory_snapshots", "snapshot_date_key", "product_id"),
    ("shop.product_tags", "product_id", "tag_id"),
    ("finance.sales_targets", "month_start_key", "region_code"),
]


def orphans(ask: Ask, child: str, columns: str, parent: str, targets: str) -> int:
    pairs = list(zip(columns.split(", "), targets.split(", "), strict=True))
    filled = " AND ".join(f"c.{column} IS NOT NULL" for column, _ in pairs)
    match = " AND ".join(f"c.{column} = p.{target}" for column, target in pairs)
    return int(ask(ORPHANS.format(child=child, filled=filled, parent=parent, match=match))[0][0])


def distinct(ask: Ask, table: str, *columns: str) -> tuple[int, int]:
    row = ask(f"SELECT count(*), count(DISTINCT ({', '.join(columns)})) FROM {table}")[0]
    return (row[0], row[1])


def test_two_schemas_sixteen_tables_three_views(ask: Ask) -> None:
    rows = ask("SELECT table_schema, table_type, count(*) FROM information_schema.tables GROUP BY ALL ORDER BY ALL")
    assert rows == [("finance", "BASE TABLE", 4), ("finance", "VIEW", 3), ("shop", "BASE TABLE", 12)]


def test_nothing_is_declared(ask: Ask) -> None:
    assert ask("SELECT * FROM duckdb_constraints() WHERE constraint_type <> 'NOT NULL'") == []
    assert ask("SELECT * FROM duckdb_indexes()") == []


def test_a_believable_size(company: Company) -> None:
    assert 40_000 <= sum(company.rows.values()) <= 80_000
    assert min(company.rows.values()) > 0


@pytest.mark.table(("child", "columns", "parent", "targets"), REFERENCES)
def test_references_hold(ask: Ask, child: str, columns: str, parent: str, targets: str) -> None:
    assert orphans(ask, child, columns, parent, targets) == 0


@pytest.mark.table(("table", "column"), KEYS)
def test_single_column_keys(ask: Ask, table: str, column: str) -> None:
    total, different = distinct(ask, table, column)
    assert total == different
    assert ask(f"SELECT count(*) FROM {table} WHERE {column} IS NULL") == [(0,)]


@pytest.mark.table(("table", "first", "second"), PAIR_KEYS)
def test_tables_keyed_by_two_columns(ask: Ask, table: str, first: str, second: str) -> None:
    total, pairs = distinct(ask, table, first, second)
    assert total == pairs
    assert distinct(ask, table, first)[1] < total
    assert distinct(ask, table, second)[1] < total


def test_the_customer_of_payments_is_a_dirty_reference(ask: Ask) -> None:
    total = ask("SELECT count(*) FROM finance.payments")[0][0]
    dirty = orphans(ask, "finance.payments", "customer_id", "shop.customers", "customer_id")
    assert 0.01 < dirty / total < 0.05


@pytest.mark.table(
    ("table", "column"),
    [
        ("shop.orders", "ship_date_key"),
        ("shop.orders", "sales_rep_id"),
        ("shop.support_tickets", "order_id"),
        ("shop.customers", "referred_by_customer_id"),
        ("shop.employees", "manager_id"),
    ],
)
def test_references_that_can_be_empty(ask: Ask, table: str, column: str) -> None:
    total, filled = ask(f"SELECT count(*), count({column}) FROM {table}")[0]
    assert 0 < filled < total


def test_the_roles_of_dates_and_addresses_differ(ask: Ask) -> None:
    differ = """
        SELECT count(*) FILTER (ship_date_key <> order_date_key), count(*) FILTER (due_date_key <> ship_date_key),
               count(*) FILTER (billing_address_id <> shipping_address_id),
               count(*) FILTER (billing_address_id = shipping_address_id)
        FROM shop.orders"""
    assert min(ask(differ)[0]) > 500


def test_the_bridge_is_many_to_many(ask: Ask) -> None:
    assert ask("SELECT max(n) > 1 FROM (SELECT count(*) n FROM shop.product_tags GROUP BY product_id)") == [(True,)]
    assert ask("SELECT max(n) > 1 FROM (SELECT count(*) n FROM shop.product_tags GROUP BY tag_id)") == [(True,)]


def test_managers_form_one_tree(ask: Ask) -> None:
    reached = """
        WITH RECURSIVE below AS (
          SELECT employee_id, 0 AS depth FROM shop.employees WHERE manager_id IS NULL
          UNION ALL
          SELECT e.employee_id, depth + 1 FROM shop.employees e JOIN below ON e.manager_id = below.employee_id
        )
        SELECT count(*), count(*) FILTER (depth = 0), max(depth) FROM below"""
    assert ask(reached) == [(*ask("SELECT count(*) FROM shop.employees")[0], 1, 2)]


def test_personal_data_is_made_up(ask: Ask) -> None:
    for table in ("shop.customers", "shop.employees"):
        bad = f"SELECT email FROM {table} WHERE NOT regexp_full_match(email, '[a-z0-9.]+@example\\.com')"
        assert ask(bad) == []
    assert ask("SELECT count(*) > 50 FROM shop.customers WHERE full_name <> strip_accents(full_name)") == [(True,)]


@pytest.mark.parametrize(("table", "column"), [("shop.customers", "preferences"), ("shop.products", "attributes")])
def test_json_text_parses(ask: Ask, table: str, column: str) -> None:
    values = [value for (value,) in ask(f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL")]
    assert values and all(type(json.loads(value)) is dict for value in values)


def test_some_objects_have_comments_and_some_do_not(ask: Ask) -> None:
    tables = ask("SELECT count(*), count(comment) FROM duckdb_tables()")[0]
    columns = ask("SELECT count(*), count(comment) FROM duckdb_columns() WHERE schema_name IN ('shop', 'finance')")[0]
    assert 5 <= tables[1] < tables[0]
    assert 8 <= columns[1] < columns[0]


def test_events_come_in_order(ask: Ask) -> None:
    assert ask("SELECT count(*) FROM shop.orders WHERE ship_date_key < order_date_key") == [(0,)]
    assert ask("SELECT count(*) FROM shop.support_tickets WHERE closed_at < opened_at") == [(0,)]
    early = """
        SELECT count(*) FROM shop.orders JOIN shop.customers USING (customer_id)
        JOIN finance.calendar ON date_key = order_date_key WHERE full_date < signed_up_on"""
    assert ask(early) == [(0,)]
    unsold = """
        SELECT count(*) FROM shop.order_lines JOIN shop.orders USING (order_id) JOIN shop.products USING (product_id)
        JOIN finance.calendar ON date_key = order_date_key
        WHERE full_date < launched_on OR full_date > withdrawn_on"""
    assert ask(unsold) == [(0,)]
    assert ask("SELECT count(*) FROM finance.refunds WHERE refund_date_key > 20251231") == [(0,)]
    assert ask("SELECT max(opened_at) < TIMESTAMP '2026-01-01' FROM shop.support_tickets") == [(True,)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_seed_keeps_the_promises(seed: int) -> None:
    tables = make_tables(seed)
    customers = {row[0] for row in tables["shop.customers"]}
    payments = tables["finance.payments"]
    assert 0.01 < sum(row[2] not in customers for row in payments) / len(payments) < 0.05
    assert 40_000 <= sum(map(len, tables.values())) <= 80_000
    assert max(row[2] for row in tables["shop.orders"]) == 20251231
    assert {row[9] for row in tables["shop.orders"]} >= {"shipped", "delivered", "returned", "cancelled"}
    assert gross_by_order(tables) == settled_by_order(tables)


def gross_by_order(tables: Any) -> dict[int, Decimal]:
    cancelled = {row[0] for row in tables["shop.orders"] if row[9] == "cancelled"}
    totals: dict[int, Decimal] = defaultdict(Decimal)
    for order, _, _, quantity, price, discount in tables["shop.order_lines"]:
        if order not in cancelled:
            totals[order] += quantity * Decimal(price) - Decimal(discount)
    return dict(totals)


def settled_by_order(tables: Any) -> dict[int, Decimal]:
    totals: dict[int, Decimal] = defaultdict(Decimal)
    for _, order, _, _, _, status, amount in tables["finance.payments"]:
        if status == "settled":
            totals[order] += Decimal(amount)
    return dict(totals)
