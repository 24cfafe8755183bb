"""Hints for names a database does not know."""

from __future__ import annotations

import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.warehouses.guard.check import names_are_missing, with_hint

COLUMNS = ("customer_id", "employee_id", "full_name")
MISSING = 'Binder Error: Referenced column "{}" not found in FROM clause!'

TO_LIST = (
    "to list the columns of a table: SELECT column_name, data_type FROM information_schema.columns "
    "WHERE table_name = 'TABLE'"
)


TO_LIST_TABLES = "to list the tables: SELECT table_schema, table_name FROM information_schema.tables"


@pytest.mark.table(
    ("text", "hint"),
    [
        (MISSING.format("custmer_id"), "did you mean `customer_id`?"),
        ('Binder Error: Table "orders" does not have a column named "custmer_id"', "did you mean `customer_id`?"),
        (
            'Binder Error: Table "orders" does not have a column named "price"\n\nCandidate bindings: : "unit_price"',
            "did you mean `unit_price`?",
        ),
        (MISSING.format("customer_id") + '\nCandidate bindings: "employee_id"', "did you mean `employee_id`?"),
        (MISSING.format("nam") + '\nCandidate bindings: "billing_address"', TO_LIST),
    ],
)
def test_the_name_that_is_missing_is_not_suggested_again(text: str, hint: str) -> None:
    error = SourceError(f"connection `shop` (x): {text}", code="query")
    assert with_hint(error, "duckdb", [("employees",)], COLUMNS).hint == hint


def test_a_column_of_another_table_leads_to_the_columns_of_this_one() -> None:
    error = SourceError(f"connection `shop` (x): {MISSING.format('customer_id')}", code="query")
    hint = with_hint(error, "duckdb", [("employees",)], COLUMNS).hint
    assert hint is not None and hint.startswith("to list the columns of a table:")


@pytest.mark.table(
    ("text", "missing"),
    [
        (MISSING.format("total"), True),
        ('Binder Error: Table "orders" does not have a column named "total"', True),
        ("no such table: orders", True),
        ("Binder Error: No function matches the given name and argument types 'sum(VARCHAR)'", False),
    ],
)
def test_what_a_changed_database_says_is_told_from_a_wrong_statement(text: str, missing: bool) -> None:
    assert names_are_missing(SourceError(f"connection `shop` (x): {text}", code="query")) is missing


TABLES = [("shop", "orders"), ("shop", "Order Lines"), ("shop", "select"), ("staff", "teams"), ("old", "teams")]
DUCKDB = "Catalog Error: Table with name {} does not exist!"
POSTGRES = 'relation "{}" does not exist'


@pytest.mark.table(
    ("dialect", "text", "hint"),
    [
        ("duckdb", DUCKDB.format("orderz"), "did you mean `shop.orders`?"),
        ("duckdb", DUCKDB.format("Orders_Lines"), 'did you mean `shop."Order Lines"`?'),
        ("duckdb", DUCKDB.format("selects"), 'did you mean `shop."select"`?'),
        ("duckdb", DUCKDB.format("team"), "similar names: staff.teams, old.teams"),
        ("duckdb", DUCKDB.format("orders") + '\nDid you mean "shop.orders"?', "did you mean `shop.orders`?"),
        (
            "duckdb",
            'Table with name "shopp.orders" does not exist because schema "shopp" does not exist',
            "did you mean `shop.orders`?",
        ),
        ("postgres", POSTGRES.format("public.orderz"), "did you mean `shop.orders`?"),
        ("postgres", POSTGRES.format("old.team"), "did you mean `old.teams`?"),
        ("postgres", POSTGRES.format("shop.order_lines"), 'did you mean `shop."Order Lines"`?'),
        ("mysql", "Table 'shop.order_lines' doesn't exist", "did you mean shop.`Order Lines`?"),
        ("postgres", POSTGRES.format("shop.orders"), TO_LIST_TABLES),  # it is known, but the database has it no more
        ("duckdb", DUCKDB.format("orders"), TO_LIST_TABLES),
        ("duckdb", DUCKDB.format("payroll"), TO_LIST_TABLES),
    ],
)
def test_a_suggested_table_can_be_pasted_into_the_statement(dialect: str, text: str, hint: str) -> None:
    error = SourceError(f"connection `shop` (x): {text}", code="query")
    assert with_hint(error, dialect, TABLES, COLUMNS).hint == hint


def test_a_suggested_column_is_quoted_if_it_must_be() -> None:
    error = SourceError(f"connection `shop` (x): {MISSING.format('full_nam')}", code="query")
    assert with_hint(error, "duckdb", TABLES, ["Full Name"]).hint == 'did you mean `"Full Name"`?'
