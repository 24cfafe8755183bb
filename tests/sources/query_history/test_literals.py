"""Which literals of a statement stay: what it computes and known values of columns, and nothing anybody looked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ktx_cli.jobs.demo.company import packaged_text
from ktx_cli.project.workspace import Workspace
from ktx_cli.semantic import ColumnValues
from ktx_cli.semantic.load.load import load_tree
from ktx_cli.sources.query_history.literals import texts_of
from ktx_cli.sources.query_history.statements import Statement, read_statement
from ktx_cli.sources.query_history.tables import Tables
from ktx_cli.warehouses import TableRef
from tests.sources.query_history.conftest import Tree

DECLARED = {
    ("orders", "status"): ["placed", "packed", "shipped", "delivered", "returned", "cancelled"],
    ("customers", "segment"): ["home", "business"],
    ("support_tickets", "status"): ["open", "waiting", "closed"],
    ("payments", "status"): ["settled", "failed", "voided"],
}
LISTED: list[tuple[str, str, str, list[Any]]] = [
    ("shop", "orders", "channel", ["web", "app", "phone", "fair"]),
    ("finance", "calendar", "fiscal_quarter", [1, 2, 3, 4]),
    ("finance", "payments", "method", ["card", "invoice"]),
    ("shop", "support_tickets", "topic", ["delivery", "plant health"]),
    ("shop", "employees", "full_name", ["Maria Huber", "Jonas Weber", "Anna Bauer"]),
]
TYPES = {"INTEGER": "number", "DECIMAL": "number", "DATE": "time", "TIMESTAMP": "time", "BOOLEAN": "boolean"}


@pytest.fixture(scope="module")
def warehouse() -> Iterator[duckdb.DuckDBPyConnection]:
    """The tables of the demo company, empty."""
    with duckdb.connect() as connection:
        connection.execute(packaged_text("schema.sql"))
        yield connection


@pytest.fixture(scope="module")
def shop(warehouse: duckdb.DuckDBPyConnection) -> Tables:
    """The same tables with the values that dbt declares and a scan lists."""
    found: dict[str, Any] = {}
    for schema, table, column, native in warehouse.execute(
        "SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns ORDER BY ALL"
    ).fetchall():
        entry = {"name": column, "type": TYPES.get(native.partition("(")[0], "string")}
        if (table, column) in DECLARED:
            entry["enum_values"] = {"dbt": DECLARED[table, column]}
        found.setdefault(table, {"table": f"{schema}.{table}", "columns": []})["columns"].append(entry)
    shard = json.dumps({"tables": found}).encode()
    model = load_tree(Workspace(Tree({"semantic-layer/shop/_schema/all.yaml": shard})), "shop", "duckdb")
    lists = [
        ColumnValues(TableRef(schema, table), column, tuple((value, 1) for value in values), complete=True)
        for schema, table, column, values in LISTED
    ]
    return Tables(model, str, lists)


def read(sql: str, tables: Tables) -> Statement:
    return read_statement(sql, "duckdb", tables, str)


def runnable(sql: str, tables: Tables) -> str:
    return read(sql, tables).shape.runnable(texts_of(sql, "duckdb"), "duckdb")


# A statement and what is kept of it, None: all.
STATEMENTS = [
    ("SELECT count(*) FROM shop.orders WHERE status <> 'cancelled'",
     "SELECT COUNT(*) FROM shop.orders WHERE status <> 'cancelled'"),
    ("SELECT count(*) FROM shop.orders WHERE status IN ('shipped', 'delivered')",
     "SELECT COUNT(*) FROM shop.orders WHERE status IN ('delivered', 'shipped')"),
    ("SELECT count(*) FROM shop.orders WHERE status IN ('shipped', 'Maria Huber')",
     "SELECT COUNT(*) FROM shop.orders WHERE status IN ('shipped', '?')"),
    ("SELECT count(*) FROM shop.orders WHERE status NOT IN ('cancelled', 'returned') AND channel = 'web'",
     "SELECT COUNT(*) FROM shop.orders WHERE NOT status IN ('cancelled', 'returned') AND channel = 'web'"),
    ("SELECT sum(CASE WHEN o.status = 'cancelled' THEN 1 ELSE 0 END) * 100.0 / count(*) FROM shop.orders "
     "AS o",
     "SELECT SUM(CASE WHEN o.status = 'cancelled' THEN 1 ELSE 0 END) * 100.0 / COUNT(*) FROM shop.orders "
     "AS o"),
    ("SELECT CASE o.status WHEN 'cancelled' THEN 'Storniert' ELSE 'Aktiv' END AS kind, count(*) FROM "
     "shop.orders o GROUP BY 1 ORDER BY 2 DESC LIMIT 10",
     "SELECT CASE o.status WHEN 'cancelled' THEN '?' ELSE '?' END AS kind, COUNT(*) FROM shop.orders AS o "
     "GROUP BY 1 ORDER BY 2 DESC LIMIT 10"),
    ("SELECT strftime(c.month_start, '%Y-%m') AS month, count(*) FROM shop.orders o JOIN finance.calendar "
     "c ON c.date_key = o.order_date_key WHERE o.status <> 'cancelled' GROUP BY 1 ORDER BY 1",
     "SELECT STRFTIME(c.month_start, '%Y-%m') AS month, COUNT(*) FROM shop.orders AS o JOIN "
     "finance.calendar AS c ON c.date_key = o.order_date_key WHERE o.status <> 'cancelled' GROUP BY 1 "
     "ORDER BY 1"),
    ("SELECT date_trunc('month', full_date), count(*) FROM finance.calendar GROUP BY 1",
     "SELECT DATE_TRUNC('MONTH', full_date), COUNT(*) FROM finance.calendar GROUP BY 1"),
    ("SELECT count(*) FROM finance.calendar WHERE full_date >= '2025-01-01' AND full_date < DATE "
     "'2025-02-01'",
     "SELECT COUNT(*) FROM finance.calendar WHERE full_date >= '2000-01-01' /* any date */ AND full_date < "
     "CAST('2000-01-01' /* any date */ AS DATE)"),
    ("SELECT count(*) FROM finance.calendar WHERE full_date BETWEEN '2025-01-01' AND '2025-12-31'",
     "SELECT COUNT(*) FROM finance.calendar WHERE full_date BETWEEN '2000-01-01' /* any date */ AND "
     "'2000-01-01' /* any date */"),
    ("SELECT count(*) FROM shop.support_tickets WHERE opened_at > TIMESTAMP '2025-01-01 10:00:00' AND "
     "status = 'closed'",
     "SELECT COUNT(*) FROM shop.support_tickets WHERE opened_at > CAST('2000-01-01' /* any date */ AS "
     "TIMESTAMP) AND status = 'closed'"),
    ("SELECT count(*) FROM shop.support_tickets WHERE closed_at - opened_at > INTERVAL '48 hours'",
     "SELECT COUNT(*) FROM shop.support_tickets WHERE closed_at - opened_at > INTERVAL '48 hours'"),
    ("SELECT count(*) FROM shop.support_tickets WHERE opened_at > now() - INTERVAL 90 DAY",
     "SELECT COUNT(*) FROM shop.support_tickets WHERE opened_at > NOW() - INTERVAL '90' DAY"),
    ("SELECT date_diff('day', opened_at, closed_at) FROM shop.support_tickets",
     "SELECT DATE_DIFF('DAY', opened_at, closed_at) FROM shop.support_tickets"),
    ("SELECT date_part('year', opened_at), extract(quarter FROM opened_at), count(*) FROM "
     "shop.support_tickets GROUP BY ALL",
     "SELECT DATE_PART('year', opened_at), EXTRACT(QUARTER FROM opened_at), COUNT(*) FROM "
     "shop.support_tickets GROUP BY ALL"),
    ("SELECT opened_at AT TIME ZONE 'Europe/Vienna' FROM shop.support_tickets",
     None),
    ("SELECT * FROM shop.customers WHERE full_name = 'Maria Huber'",
     "SELECT * FROM shop.customers WHERE full_name = '?'"),
    ("SELECT * FROM shop.customers WHERE full_name LIKE '%Huber%'",
     "SELECT * FROM shop.customers WHERE full_name LIKE '%'"),
    ("SELECT * FROM shop.customers WHERE email = 'maria@example.com' OR email ILIKE '%@example.com'",
     "SELECT * FROM shop.customers WHERE email = '?' OR email ILIKE '%'"),
    ("SELECT * FROM shop.employees WHERE full_name IN ('Maria Huber', 'Jonas Weber')",
     "SELECT * FROM shop.employees WHERE full_name IN ('?')"),
    ("SELECT * FROM shop.support_tickets WHERE message LIKE '%kaputt%'",
     "SELECT * FROM shop.support_tickets WHERE message LIKE '%'"),
    ("SELECT * FROM shop.support_tickets WHERE topic = 'delivery' AND message = '+43 664 1234567'",
     "SELECT * FROM shop.support_tickets WHERE topic = 'delivery' AND message = '?'"),
    ("SELECT * FROM shop.customers WHERE customer_id = 4711",
     "SELECT * FROM shop.customers WHERE customer_id = 1 /* any number */"),
    ("SELECT * FROM shop.customers WHERE customer_id IN (4711, 4712, 4713)",
     "SELECT * FROM shop.customers WHERE customer_id IN (1 /* any number */)"),
    ("SELECT * FROM shop.addresses WHERE street = 'Hauptstrasse 5' AND postal_code = '1010' AND "
     "region_code = 'NORTH'",
     "SELECT * FROM shop.addresses WHERE street = '?' AND postal_code = '?' AND region_code = '?'"),
    ("SELECT count(*) FROM shop.addresses WHERE left(postal_code, 1) = '1'",
     "SELECT COUNT(*) FROM shop.addresses WHERE LEFT(postal_code, 1) = '?'"),
    ("SELECT lower(town), count(*) FROM shop.addresses GROUP BY 1 HAVING count(*) > 5",
     "SELECT LOWER(town), COUNT(*) FROM shop.addresses GROUP BY 1 HAVING COUNT(*) > 1 /* any number */"),
    ("SELECT sum(quantity * unit_price - discount_amount) FROM shop.order_lines WHERE discount_amount > 0",
     "SELECT SUM(quantity * unit_price - discount_amount) FROM shop.order_lines WHERE discount_amount > 0"),
    ("SELECT round(sum(amount) / 1000, 2) FROM finance.payments WHERE status = 'settled' AND amount > 250",
     "SELECT ROUND(SUM(amount) / 1000, 2) FROM finance.payments WHERE status = 'settled' AND amount > 1 /* "
     "any number */"),
    ("SELECT avg(amount) * 1.2 FROM finance.refunds WHERE amount >= 123456",
     "SELECT AVG(amount) * 1.2 FROM finance.refunds WHERE amount >= 1 /* any number */"),
    ("SELECT region_code, sum(target_amount) FROM finance.sales_targets WHERE month_start_key >= 20250101 "
     "GROUP BY region_code",
     "SELECT region_code, SUM(target_amount) FROM finance.sales_targets WHERE month_start_key >= 1 /* any "
     "number */ GROUP BY region_code"),
    ("SELECT count(*) FROM finance.calendar WHERE fiscal_quarter = 2 AND fiscal_year = 2025 AND is_weekend "
     "= true",
     "SELECT COUNT(*) FROM finance.calendar WHERE fiscal_quarter = 2 AND fiscal_year = 1 /* any number */ "
     "AND is_weekend = TRUE"),
    ("SELECT count(*) FROM finance.calendar WHERE fiscal_quarter IN (1, 2) AND is_weekend = 1",
     "SELECT COUNT(*) FROM finance.calendar WHERE fiscal_quarter IN (1, 2) AND is_weekend = 1"),
    ("SELECT cast(amount AS DECIMAL(10, 2)) FROM finance.payments WHERE method = 'card'",
     "SELECT CAST(amount AS DECIMAL(10, 2)) FROM finance.payments WHERE method = 'card'"),
    ("SELECT coalesce(coupon_code, '') FROM shop.orders WHERE coupon_code <> '' AND coupon_code = "
     "'WELCOME10'",
     "SELECT COALESCE(coupon_code, '') FROM shop.orders WHERE coupon_code <> '' AND coupon_code = '?'"),
    ("SELECT * FROM (SELECT o.*, row_number() OVER (PARTITION BY customer_id ORDER BY order_date_key) AS "
     "rn FROM shop.orders o) x WHERE rn = 1",
     "SELECT * FROM (SELECT o.*, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY order_date_key) AS "
     "rn FROM shop.orders AS o) AS x WHERE rn = 1"),
    ("WITH paid AS (SELECT order_id, status AS pay FROM finance.payments) SELECT count(*) FROM paid WHERE "
     "pay = 'settled'",
     "WITH paid AS (SELECT order_id, status AS pay FROM finance.payments) SELECT COUNT(*) FROM paid WHERE "
     "pay = 'settled'"),
    ("SELECT count(*) FROM shop.orders o WHERE EXISTS (SELECT 1 FROM finance.payments p WHERE p.order_id = "
     "o.order_id AND p.status = 'failed')",
     "SELECT COUNT(*) FROM shop.orders AS o WHERE EXISTS(SELECT 1 FROM finance.payments AS p WHERE "
     "p.order_id = o.order_id AND p.status = 'failed')"),
    ("SELECT count(*) FROM shop.orders WHERE lower(status) = 'cancelled' AND upper(channel) = 'WEB'",
     "SELECT COUNT(*) FROM shop.orders WHERE LOWER(status) = 'cancelled' AND UPPER(channel) = 'WEB'"),
    ("SELECT count(*) FROM shop.orders WHERE status = 'huber'",
     "SELECT COUNT(*) FROM shop.orders WHERE status = '?'"),
    ("SELECT json_extract_string(preferences, '$.newsletter') FROM shop.customers",
     "SELECT preferences ->> '$.x' FROM shop.customers"),
    ("SELECT sku FROM shop.products WHERE sku LIKE 'PL-%' AND regexp_matches(product_name, '^Fern')",
     "SELECT sku FROM shop.products WHERE sku LIKE '%' AND REGEXP_MATCHES(product_name, '.*')"),
    ("SELECT string_agg(tag_name, ', ') FROM shop.tags",
     "SELECT LISTAGG(tag_name, '?') FROM shop.tags"),
    ("SELECT replace(sku, 'PL-', '') FROM shop.products",
     "SELECT REPLACE(sku, '?', '') FROM shop.products"),
    ("SELECT count(*) FILTER (WHERE status = 'returned') FROM shop.orders",
     "SELECT COUNT(*) FILTER(WHERE status = 'returned') FROM shop.orders"),
    ("SELECT count(*) FROM shop.orders o JOIN finance.payments p ON p.order_id = o.order_id AND p.status = "
     "'settled' WHERE o.channel IN ('web', 'app', 'unknown')",
     "SELECT COUNT(*) FROM shop.orders AS o JOIN finance.payments AS p ON p.order_id = o.order_id AND "
     "p.status = 'settled' WHERE o.channel IN ('app', 'web', '?')"),
    ("SELECT lag(amount, 1) OVER (ORDER BY payment_date_key), avg(amount) OVER (ORDER BY payment_date_key "
     "ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) FROM finance.payments",
     "SELECT LAG(amount, 1) OVER (ORDER BY payment_date_key), AVG(amount) OVER (ORDER BY payment_date_key "
     "ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) FROM finance.payments"),
    ("SELECT count(*) FROM shop.orders WHERE 'cancelled' <> status",
     "SELECT COUNT(*) FROM shop.orders WHERE 'cancelled' <> status"),
    ("SELECT count(*) FROM shop.orders WHERE status = ANY(['shipped', 'packed'])",
     "SELECT COUNT(*) FROM shop.orders WHERE status = ANY(['shipped', 'packed'])"),
    ("SELECT count(*) FROM shop.customers WHERE segment IS DISTINCT FROM 'business' AND newsletter IS TRUE",
     "SELECT COUNT(*) FROM shop.customers WHERE segment IS DISTINCT FROM 'business' AND newsletter IS TRUE"),
    ("SELECT 'Maria Huber' AS asked_by, count(*) FROM shop.orders",
     "SELECT '?' AS asked_by, COUNT(*) FROM shop.orders"),
    ("SELECT count(*) FROM shop.orders WHERE status = 'cancelled' UNION ALL SELECT count(*) FROM "
     "shop.orders WHERE status = 'Maria Huber'",
     "SELECT COUNT(*) FROM shop.orders WHERE status = 'cancelled' UNION ALL SELECT COUNT(*) FROM "
     "shop.orders WHERE status = '?'"),
    ("SELECT count(*) FROM shop.customers WHERE signed_up_on > current_date - 90",
     "SELECT COUNT(*) FROM shop.customers WHERE signed_up_on > CURRENT_DATE - 90"),
    ("SELECT strptime('2025-01-01', '%Y-%m-%d'), count(*) FROM shop.orders",
     "SELECT STRPTIME('2000-01-01' /* any date */, '%Y-%m-%d'), COUNT(*) FROM shop.orders"),
    ("SELECT count(*) FROM shop.orders WHERE ship_date_key IS NULL OR ship_date_key - due_date_key > 2",
     "SELECT COUNT(*) FROM shop.orders WHERE ship_date_key IS NULL OR ship_date_key - due_date_key > 1 /* "
     "any number */"),
    ("SELECT department, count(*) FROM shop.categories WHERE category_name = 'day' GROUP BY 1",
     "SELECT department, COUNT(*) FROM shop.categories WHERE category_name = '?' GROUP BY 1"),
    ("SELECT nullif(reserved, 0), on_hand / 100 FROM shop.inventory_snapshots LIMIT 50 OFFSET 20",
     "SELECT NULLIF(reserved, 0), on_hand / 100 FROM shop.inventory_snapshots LIMIT 50 OFFSET 20"),
    ("SELECT count(*) FROM shop.support_tickets WHERE topic = 'Frau Huber'",
     "SELECT COUNT(*) FROM shop.support_tickets WHERE topic = '?'"),
    ("SELECT concat(full_name, ' (', team, ')') FROM shop.employees",
     "SELECT CONCAT(full_name, '?', team, '?') FROM shop.employees"),
    ("SELECT count(*) FROM shop.orders WHERE status = $1 AND customer_id = $2 AND order_date_key > $3 "
     "LIMIT $4",
     "SELECT COUNT(*) FROM shop.orders WHERE status = '?' AND customer_id = 1 /* any number */ AND "
     "order_date_key > 1 /* any number */ LIMIT 100"),
    ("SELECT date_trunc($1, full_date), count(*) FROM finance.calendar WHERE full_date > $2 GROUP BY 1",
     "SELECT DATE_TRUNC('month', full_date), COUNT(*) FROM finance.calendar WHERE full_date > '2000-01-01' "
     "/* any date */ GROUP BY 1"),
    ("SELECT count(*) FROM shop.orders WHERE status = ? AND customer_id = ?",
     "SELECT COUNT(*) FROM shop.orders WHERE status = '?' AND customer_id = 1 /* any number */"),
    ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) FROM finance.payments",
     "SELECT QUANTILE_CONT(amount, 0.5 ORDER BY amount) FROM finance.payments"),
    ("SELECT count(*) FROM shop.orders TABLESAMPLE 10 PERCENT",
     "SELECT COUNT(*) FROM shop.orders TABLESAMPLE SYSTEM (10 PERCENT)"),
    ("SELECT * FROM shop.orders WHERE (status, channel) IN (('cancelled', 'web'))",
     "SELECT * FROM shop.orders WHERE (status, channel) IN (('?', '?'))"),
    ("SELECT count(*) FROM shop.orders WHERE if(status = 'cancelled', 1, 0) = 1",
     "SELECT COUNT(*) FROM shop.orders WHERE CASE WHEN status = 'cancelled' THEN 1 ELSE 0 END = 1"),
]  # fmt: skip


@pytest.mark.table(("sql", "kept"), STATEMENTS)
def test_what_stays_of_a_statement_and_that_it_runs(
    sql: str, kept: str | None, shop: Tables, warehouse: duckdb.DuckDBPyConnection
) -> None:
    found = runnable(sql, shop)
    assert found == (kept or sql)
    warehouse.execute(f"EXPLAIN {found}")


def test_there_are_enough_statements() -> None:
    assert len(STATEMENTS) >= 60


FORMS = [
    "SELECT count(*) FROM shop.orders WHERE status = {0}",
    "SELECT count(*) FROM shop.orders WHERE channel IN ({0}, 'web')",
    "SELECT count(*) FROM shop.orders WHERE lower(status) <> {0}",
    "SELECT CASE status WHEN {0} THEN {0} END FROM shop.orders",
    "SELECT full_name FROM shop.customers WHERE full_name = {0} OR email LIKE {0}",
    "SELECT full_name FROM shop.employees WHERE full_name IN ({0}, 'Jonas Weber')",
    "SELECT message FROM shop.support_tickets WHERE topic = {0} AND message >= {0}",
    "SELECT concat(street, {0}), replace(town, {0}, {0}) FROM shop.addresses GROUP BY {0} ORDER BY {0}",
    "SELECT strftime(full_date, {0}), date_trunc({0}, full_date) FROM finance.calendar WHERE full_date = {0}",
    "SELECT full_date AT TIME ZONE {0} FROM finance.calendar WHERE full_date > DATE {0} - INTERVAL {0}",
    "SELECT p.amount FROM finance.payments p JOIN shop.orders o ON o.order_id = 1 AND p.method = {0} LIMIT {0}",
]
PERSONAL = [
    "Maria Huber",
    "maria@example.com",
    "+43 664 1234567",
    "Hauptstrasse 5",
    "%Huber%",
    "AT61 1904 3002 3457 3201",
]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.mark.table(("form",), [(form,) for form in FORMS])
def test_a_text_like_a_person_never_stays(form: str, shop: Tables) -> None:
    without = _texts(form.format(quoted("kanarienvogel")), shop)
    for text in PERSONAL:
        assert _texts(form.format(quoted(text)), shop) == without, text


# No format, unit or time zone ends so, but for one word.
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0%"), max_size=30).map(lambda text: f"{text}k")


@given(form=st.sampled_from(FORMS), text=TEXTS)
def test_no_text_stays_that_is_not_a_known_value(form: str, text: str, shop: Tables) -> None:
    assume(text.casefold() != "week")
    assert _texts(form.format(quoted(text)), shop) == _texts(form.format(quoted("kanarienvogel")), shop)


def test_values_are_kept_by_column_not_by_word(shop: Tables) -> None:
    assert runnable("SELECT * FROM shop.orders WHERE coupon_code = 'cancelled'", shop).endswith("coupon_code = '?'")
    assert runnable("SELECT * FROM finance.payments WHERE status = 'cancelled'", shop).endswith("status = '?'")


def _texts(sql: str, tables: Tables) -> list[str]:
    """Return all that is told of a statement."""
    found, texts = read(sql, tables), texts_of(sql, "duckdb")
    shapes = [found.shape, *(shape for _, shape in (*found.filters, *found.groupings))]
    return sorted(text for each in shapes for text in (each.shown(texts, "duckdb"), each.runnable(texts, "duckdb")))
