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
    assert with_hint(error, "duckdb", ("employees",), COLUMNS).hint == hint


def test_a_column_of_another_table_leads_to_the_columns_of_this_one() -> None:
    error = SourceError(f"connection `shop` (x): {MISSING.format('customer_id')}", code="query")
    hint = with_hint(error, "duckdb", ("employees",), COLUMNS).hint
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
