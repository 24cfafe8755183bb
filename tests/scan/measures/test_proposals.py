"""Which measures a scan proposes for which tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ktx_cli.project.config.blocks import Relationships
from ktx_cli.scan.measures.proposals import propose_measures
from ktx_cli.scan.measures.record import ProposedMeasure, proposals_bytes, read_proposals, restricted, with_proposals
from ktx_cli.scan.profile.profiler import Budget, profile_tables
from ktx_cli.scan.relationships.discovery import discover
from ktx_cli.scan.relationships.record import RelationshipRecord
from ktx_cli.warehouses import Table, TableKind, TableRef, dialect_named
from ktx_cli.warehouses.port import ConnectionSpec, Scope
from ktx_cli.warehouses.registry import connect

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"
CUSTOMERS = (
    "CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, name TEXT, signed_up_on DATE, is_business BOOLEAN,"
    " account_balance DECIMAL(10,2), credit_limit INTEGER)",
    f"INSERT INTO customers {NUMBERS.format(rows=60)} SELECT i, 'c' || i, '2024-01-01', i % 2, i * 3.5, i FROM n",
)
ORDERS = (
    "CREATE TABLE orders (order_id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers, ordered_at TIMESTAMP,"
    " amount DECIMAL(10,2), discount_pct DECIMAL(4,2), is_first BOOLEAN, is_deleted BOOLEAN, qty INTEGER,"
    " unit_price DECIMAL(10,2))",
    f"INSERT INTO orders {NUMBERS.format(rows=200)} SELECT i, 1 + i % 60, '2024-05-01 10:00:00', i * 1.25, i % 20,"
    " i % 3 = 0, i % 7 = 0, i % 9, i * 0.5 FROM n",
)
Propose = Callable[..., dict[str, dict[str, str]]]


@contextmanager
def scanned(path: Path, statements: tuple[str, ...]) -> Iterator[dict[TableRef, tuple[ProposedMeasure, ...]]]:
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()
    with connect(ConnectionSpec("w", "sqlite", {"path": str(path)})) as connector:
        tables = connector.introspect(Scope()).tables
        profiled = profile_tables(connector, tables, Budget())
        found = discover(connector, tables, profiled.tables, Relationships())
        known = RelationshipRecord(found.keys, found.relationships)
        yield propose_measures(
            tables, known, [each.profile for each in profiled.tables], dialect_named(connector.dialect)
        )


@pytest.fixture
def propose(tmp_path: Path) -> Propose:
    """Return a function that scans a database made by statements: table -> measure -> its expr."""

    def run(*statements: str) -> dict[str, dict[str, str]]:
        with scanned(tmp_path / "data.sqlite", statements) as found:
            return {ref.name: {each.name: each.expr for each in measures} for ref, measures in found.items()}

    return run


def test_a_fact_table_gets_counts_sums_entities_and_rates(propose: Propose) -> None:
    found = propose(*CUSTOMERS, *ORDERS)
    assert found["orders"] == {
        "order_count": "count(*)",
        "total_order_amount": "sum(amount)",
        "total_order_quantity": "sum(qty)",
        "distinct_customers": "count(distinct customer_id)",
        "first_order_rate": "avg(case when is_first then 1.0 else 0.0 end)",
    }


def test_a_table_of_entities_is_counted_and_its_attributes_are_not_added_up(propose: Propose) -> None:
    assert set(propose(*CUSTOMERS)["customers"]) == {"customer_count", "business_customer_rate"}


def filled(create: str, values: str, rows: int = 200) -> tuple[str, str]:
    name = create.split()[2]
    return create, f"INSERT INTO {name} {NUMBERS.format(rows=rows)} SELECT {values} FROM n"


@pytest.mark.table(
    ("table", "columns", "values"),
    [
        ("order_statuses", "id INTEGER PRIMARY KEY, label TEXT, created_at TIMESTAMP", "i, 's' || i, '2024-01-01'"),
        ("countries", "id INTEGER PRIMARY KEY, name TEXT, updated_at TIMESTAMP", "i, 'c' || i, '2024-01-01'"),
        ("date_dim", "date_key INTEGER PRIMARY KEY, day DATE, amount INTEGER", "i, '2024-01-01', i"),
        ("price_history", "id INTEGER PRIMARY KEY, changed_on DATE, amount INTEGER", "i, '2024-01-01', i"),
        ("stock_snapshots", "id INTEGER PRIMARY KEY, taken_on DATE, quantity INTEGER", "i, '2024-01-01', i"),
        ("app_settings", "id INTEGER PRIMARY KEY, changed_on DATE, value INTEGER", "i, '2024-01-01', i"),
        ("memberships", "id INTEGER PRIMARY KEY, valid_from DATE, valid_to DATE, fee INTEGER",
         "i, '2024-01-01', '2025-01-01', i"),
        ("notes", "id INTEGER PRIMARY KEY, body TEXT", "i, 'text ' || i"),
        ("sales_targets", "id INTEGER PRIMARY KEY, month DATE, amount INTEGER", "i, '2024-01-01', i"),
        ("budgets", "id INTEGER PRIMARY KEY, month DATE, amount INTEGER", "i, '2024-01-01', i"),
        ("stock_levels", "id INTEGER PRIMARY KEY, counted_on DATE, quantity INTEGER", "i, '2024-01-01', i"),
    ],
)  # fmt: skip
def test_tables_without_proposals(table: str, columns: str, values: str, tmp_path: Path) -> None:
    path = tmp_path / f"{table}.sqlite"
    with scanned(path, filled(f"CREATE TABLE {table} ({columns})", values)) as found:
        assert found == {}


def test_a_small_table_gets_no_proposals(propose: Propose) -> None:
    assert propose(*filled("CREATE TABLE payments (id INTEGER PRIMARY KEY, paid_on DATE, amount INTEGER)",
                           "i, '2024-01-01', i", 49)) == {}  # fmt: skip


def test_amounts_of_several_currencies_are_not_added_up(propose: Propose) -> None:
    found = propose(*filled(
        "CREATE TABLE payments (id INTEGER PRIMARY KEY, paid_on DATE, amount INTEGER, amount_eur INTEGER, fee INTEGER,"
        " item_count INTEGER, currency TEXT)",
        "i, '2024-01-01', i, i + 1, i + 2, i % 4, CASE i % 2 WHEN 0 THEN 'EUR' ELSE 'USD' END",
    ))  # fmt: skip
    assert set(found["payments"]) == {"payment_count", "total_payment_amount_eur", "total_item_count"}


def test_raw_copies_beside_marts_get_none(propose: Propose) -> None:
    columns, values = "(id INTEGER PRIMARY KEY, ordered_on DATE, amount INTEGER)", "i, '2024-01-01', i"
    found = propose(
        *filled(f"CREATE TABLE raw_orders {columns}", values),
        *filled(f"CREATE TABLE stg_orders {columns}", values),
        *filled(f"CREATE TABLE fct_orders {columns}", values),
    )
    assert set(found) == {"fct_orders"}
    assert set(found["fct_orders"]) == {"order_count", "total_order_amount"}


def test_a_name_of_a_column_is_never_the_name_of_a_measure(propose: Propose) -> None:
    found = propose(*filled(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, ordered_on DATE, order_count INTEGER, total_amount INTEGER,"
        " amount INTEGER, total INTEGER)",
        "i, '2024-01-01', i % 5, i, i + 2, i + 3",
    ))["orders"]  # fmt: skip
    assert found == {
        "total_order_count": "sum(order_count)",
        "total_order_amount": "sum(total_amount)",
        "sum_of_amount": "sum(amount)",
        "order_total": 'sum("total")',
    }


@pytest.mark.table(
    ("table", "columns", "values", "expected"),
    [
        ("stock_movements", "id INTEGER PRIMARY KEY, moved_on DATE, quantity INTEGER", "i, '2024-01-01', i",
         {"stock_movement_count": "count(*)", "total_stock_movement_quantity": "sum(quantity)"}),
        ("time_entries", "id INTEGER PRIMARY KEY, worked_on DATE, hours INTEGER", "i, '2024-01-01', i",
         {"time_entry_count": "count(*)", "total_time_entry_hours": "sum(hours)"}),
        ("credit_notes", "id INTEGER PRIMARY KEY, issued_on DATE, amount INTEGER", "i, '2024-01-01', i",
         {"credit_note_count": "count(*)", "total_credit_note_amount": "sum(amount)"}),
        ("orders", "id INTEGER PRIMARY KEY, ordered_on DATE, order_total INTEGER", "i, '2024-01-01', i",
         {"order_count": "count(*)", "total_order_amount": "sum(order_total)"}),
    ],
)  # fmt: skip
def test_movements_and_entries_are_counted_and_added_up(
    table: str, columns: str, values: str, expected: dict[str, str], tmp_path: Path
) -> None:
    with scanned(tmp_path / f"{table}.sqlite", filled(f"CREATE TABLE {table} ({columns})", values)) as found:
        assert {each.name: each.expr for measures in found.values() for each in measures} == expected


def test_outcomes_of_declared_statuses_get_a_rate(propose: Propose) -> None:
    values = "'placed', 'paid', 'returned', 'cancelled', 'lost', 'failed', 'part-shipped'"
    columns = (
        "id INTEGER PRIMARY KEY, ordered_on DATE, free_status TEXT, payment_method TEXT CHECK (payment_method IN"
        f" ('returned', 'lost')), status TEXT CHECK (status IN ({values})), delivery_state TEXT CHECK (delivery_state ="
        " 'lost')"
    )
    rows = (
        "i, '2024-01-01', CASE i % 2 WHEN 0 THEN 'lost' ELSE 'won' END, CASE i % 2 WHEN 0 THEN 'lost' ELSE 'returned'"
        " END, CASE i % 3 WHEN 0 THEN 'paid' WHEN 1 THEN 'lost' ELSE 'cancelled' END, 'lost'"
    )
    found = propose(*filled(f"CREATE TABLE orders ({columns})", rows))["orders"]
    assert found == {
        "order_count": "count(*)",
        "cancelled_order_rate": "avg(case when status = 'cancelled' then 1.0 else 0.0 end)",
        "returned_order_rate": "avg(case when status = 'returned' then 1.0 else 0.0 end)",
        "failed_order_rate": "avg(case when status = 'failed' then 1.0 else 0.0 end)",
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            "'open', 'won', 'lost'",
            {
                "won_deal_rate": "avg(case when stage = 'won' then 1.0 when stage = 'lost' then 0.0 end)",
                "lost_deal_rate": "avg(case when stage = 'lost' then 1.0 when stage = 'won' then 0.0 end)",
            },
        ),
        ("'open', 'won'", {"won_deal_rate": "avg(case when stage = 'won' then 1.0 else 0.0 end)"}),
    ],
)
def test_rates_of_outcomes_that_exclude_each_other_are_of_closed_rows(
    values: str, expected: dict[str, str], tmp_path: Path
) -> None:
    columns = f"id INTEGER PRIMARY KEY, created_on DATE, stage TEXT CHECK (stage IN ({values}))"
    rows = "i, '2024-01-01', CASE i % 3 WHEN 0 THEN 'open' ELSE 'won' END"
    with scanned(tmp_path / "crm.sqlite", filled(f"CREATE TABLE deals ({columns})", rows)) as found:
        measures = {each.name: each for proposed in found.values() for each in proposed}
    assert {name: each.expr for name, each in measures.items() if name != "deal_count"} == expected
    says_closed = "whose stage is won or lost that are won" in measures["won_deal_rate"].description
    assert says_closed is ("lost_deal_rate" in expected)


def test_flags_of_shops_and_products_are_attributes(tmp_path: Path) -> None:
    columns = "id INTEGER PRIMARY KEY, opened_on DATE, is_flagship BOOLEAN"
    for name in ("shops", "products"):
        statements = filled(f"CREATE TABLE {name} ({columns})", "i, '2024-01-01', i % 2")
        with scanned(tmp_path / f"{name}.sqlite", statements) as found:
            assert [each.name for measures in found.values() for each in measures] == [f"{name[:-1]}_count"]


@pytest.mark.table(
    ("table", "columns", "values", "expected"),
    [
        # states of now, and an expiry that does not say when a row came to be
        ("contracts", "id INTEGER PRIMARY KEY, signed_on DATE, is_active BOOLEAN, is_renewed BOOLEAN, status TEXT CHECK"
         " (status IN ('past_due', 'cancelled'))",
         "i, '2024-01-01', i % 2, i % 3 = 0, CASE i % 2 WHEN 0 THEN 'past_due' ELSE 'cancelled' END",
         "contract_count renewed_contract_rate cancelled_contract_rate"),
        ("coupons", "id INTEGER PRIMARY KEY, expires_on DATE, is_personal BOOLEAN", "i, '2024-01-01', i % 2", ""),
        ("invoices", "id INTEGER PRIMARY KEY, due_date DATE, amount INTEGER", "i, '2024-01-01', i", ""),
        # names that say what a row is
        ("sessions", "id INTEGER PRIMARY KEY, started_at TIMESTAMP, bounce BOOLEAN, has_coupon BOOLEAN, has_converted"
         " BOOLEAN", "i, '2024-01-01 10:00:00', i % 2, i % 3 = 0, i % 5 = 0",
         "session_count session_bounce_rate session_with_coupon_rate converted_session_rate"),
        ("order_headers", "id INTEGER PRIMARY KEY, ordered_on DATE, grand_total INTEGER, tax_amount INTEGER, num_items"
         " INTEGER, is_gift_order BOOLEAN", "i, '2024-01-01', i, i * 3, i % 9, i % 2",
         "order_count total_order_amount total_order_tax_amount total_order_items gift_order_rate"),
        # sums that a word beside it allows
        ("subscription_events", "id INTEGER PRIMARY KEY, occurred_at TIMESTAMP, mrr_delta INTEGER, new_mrr INTEGER",
         "i, '2024-01-01 10:00:00', i - 50, i", "subscription_event_count total_mrr_delta"),
        ("absences", "id INTEGER PRIMARY KEY, start_date DATE, days INTEGER", "i, '2024-01-01', i % 9",
         "absence_count total_absence_days"),
        ("shipments", "id INTEGER PRIMARY KEY, sent_on DATE, days INTEGER", "i, '2024-01-01', i % 9", "shipment_count"),
        ("email_sends", "id INTEGER PRIMARY KEY, sent_on DATE, open_count INTEGER", "i, '2024-01-01', i % 9",
         "email_send_count total_open_count"),
        ("tickets", "id INTEGER PRIMARY KEY, opened_on DATE, open_count INTEGER", "i, '2024-01-01', i % 9",
         "ticket_count"),
        ("invoices", "id INTEGER PRIMARY KEY, issued_on DATE, amount_due INTEGER", "i, '2024-01-01', i",
         "invoice_count total_amount_due"),
        ("invoices", "id INTEGER PRIMARY KEY, issued_on DATE, amount_due INTEGER", "i, '2024-01-01', max(0, i - 50)",
         "invoice_count"),
    ],
)  # fmt: skip
def test_names_states_and_dates(table: str, columns: str, values: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.sqlite"
    with scanned(path, filled(f"CREATE TABLE {table} ({columns})", values)) as found:
        assert [each.name for measures in found.values() for each in measures] == expected.split()


def test_the_description_of_a_sum_names_its_unit(tmp_path: Path) -> None:
    columns = "id INTEGER PRIMARY KEY, paid_on DATE, amount_cents INTEGER"
    statements = filled(f"CREATE TABLE payments ({columns})", "i, '2024-01-01', i")
    with scanned(tmp_path / "data.sqlite", statements) as found:
        (total,) = (each for measures in found.values() for each in measures if each.unit)
    assert (total.name, total.unit) == ("total_payment_amount_cents", "cents")
    assert total.description.startswith("Sum of amount_cents, in cents, over the rows of payments")


def test_a_reference_by_a_bare_id_names_no_entity(propose: Propose) -> None:
    people = filled("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)", "i, 'p' || i", 60)
    columns = (
        "deal_id INTEGER PRIMARY KEY, id INTEGER REFERENCES people, person_id INTEGER REFERENCES people, won_on DATE"
    )
    found = propose(*people, *filled(f"CREATE TABLE deals ({columns})", "i, 1 + i % 60, 1 + i % 50, '2024-01-01'"))
    assert found["deals"] == {"deal_count": "count(*)", "distinct_people": "count(distinct person_id)"}


def test_rows_that_hold_numbers_of_events_are_not_counted(propose: Propose) -> None:
    columns = "id INTEGER PRIMARY KEY, day DATE, impressions INTEGER, clicks INTEGER, spend INTEGER"
    found = propose(*filled(f"CREATE TABLE ad_results ({columns})", "i, '2024-01-01', i * 9, i, i * 2"))
    assert set(found["ad_results"]) == {"total_impressions", "total_clicks", "total_spend"}


def test_lines_of_orders_that_occur_twice_are_added_up(propose: Propose) -> None:
    orders = filled("CREATE TABLE orders (id INTEGER, ordered_on DATE, status TEXT)", "i % 190, '2024-01-01', i % 2")
    products = filled("CREATE TABLE products (product_id INTEGER PRIMARY KEY, name TEXT)", "i, 'p' || i", 60)
    columns = "line_id INTEGER PRIMARY KEY, product_id INTEGER REFERENCES products, order_id INTEGER, quantity INTEGER"
    lines = filled(f"CREATE TABLE order_lines ({columns})", "i, 1 + i % 60, i % 190, i")
    assert "total_order_line_quantity" in propose(*orders, *products, *lines)["order_lines"]


def test_a_bridge_is_not_counted(propose: Propose) -> None:
    found = propose(
        *CUSTOMERS,
        *filled("CREATE TABLE products (product_id INTEGER PRIMARY KEY, name TEXT)", "i, 'p' || i", 60),
        "CREATE TABLE customer_products (customer_id INTEGER REFERENCES customers, product_id INTEGER REFERENCES"
        " products, updated_at TIMESTAMP, PRIMARY KEY (customer_id, product_id))",
        f"INSERT INTO customer_products {NUMBERS.format(rows=60)} SELECT i, 61 - i, '2024-01-01' FROM n",
    )
    assert "customer_products" not in found


def test_the_same_database_gives_the_same_bytes_and_they_are_read_back(tmp_path: Path) -> None:
    with scanned(tmp_path / "data.sqlite", (*CUSTOMERS, *ORDERS)) as found:
        text = proposals_bytes(found)
    assert read_proposals(text, "measures.json") == found
    assert proposals_bytes(read_proposals(text, "measures.json")) == text
    assert proposals_bytes({}) == b'{\n "format": 1,\n "tables": []\n}\n'


def test_a_measure_goes_with_its_column() -> None:
    ref = TableRef(None, "orders")
    measures = (
        ProposedMeasure("order_count", "count(*)", (), "reason", "text"),
        ProposedMeasure("total_amount", "sum(amount)", ("amount",), "reason", "text", unit="EUR"),
    )
    left = restricted({ref: measures, TableRef(None, "gone"): measures}, [Table(ref, TableKind.TABLE, ())])
    assert left == {ref: measures[:1]}
    entry = with_proposals({"table": "orders"}, measures[1:])
    assert entry["proposed_measures"] == [
        {"name": "total_amount", "expr": "sum(amount)", "status": "proposed", "reason": "reason", "unit": "EUR",
         "descriptions": {"ktx": "text"}},
    ]  # fmt: skip
