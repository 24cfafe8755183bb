"""Checks in the database, failures, what is declared, settings, hints."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.relationship_fixtures.discovering import discover_database
from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import SourceError
from ktx_cli.project.config.blocks import Relationships, Scan
from ktx_cli.scan.profile.profiler import Budget, profile_tables
from ktx_cli.scan.relationships import discovery as search
from ktx_cli.scan.relationships.discovery import discover
from ktx_cli.scan.relationships.hints import JoinHint
from ktx_cli.scan.relationships.record import Cardinality, Status
from ktx_cli.warehouses.port import Connector, DatabaseSchema, QueryResult, Scope


def rows(table: str, count: int, *values: str) -> str:
    """Return an INSERT of `count` rows; `values` are SQL over the row's number `n`, from 1."""
    numbers = f"WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count})"
    return f"INSERT INTO {table} {numbers} SELECT {', '.join(values)} FROM s"


def filled(table: str, columns: str, count: int, *values: str) -> tuple[str, ...]:
    """Return the statements of a table with `count` rows."""
    return (f"CREATE TABLE {table} ({columns})", *([rows(table, count, *values)] if count else []))


CUSTOMERS = filled("customers", "customer_id INTEGER, name TEXT, city TEXT", 80, "n", "'c' || n", "'t' || n % 9")
TO_CUSTOMER = "1 + n * 37 % 80"


def orders(customer: str = TO_CUSTOMER, count: int = 300) -> tuple[str, ...]:
    columns = "order_id INTEGER, customer_id INTEGER, total INTEGER"
    return filled("orders", columns, count, "n + 5000", customer, "n * 7 % 400 + 2")


ORDER = "orders(customer_id) -> customers(customer_id)"


# -- tables larger than their samples ---------------------------------------------------------------------------------

LARGE = filled("customers", "customer_id INTEGER, name TEXT", 15_000, "n", "'c' || n")


def large_orders(customer: str, count: int = 12_000) -> tuple[str, ...]:
    return filled("orders", "order_id INTEGER, customer_id INTEGER, note TEXT", count, "n + 90000", customer, "'x'")


@pytest.mark.parametrize(
    ("customer", "missing", "reason"),
    [
        ("1 + n * 7919 % 15000", 0, "Column name matches the key; all values exist in "),
        (
            "CASE WHEN n % 40 THEN 1 + n * 7919 % 15000 ELSE 16000 END",
            300,
            "Column name matches the key; 97.5% of rows have a match in ",
        ),
        (
            "CASE WHEN n % 40 THEN 1 + n * 7919 % 15000 ELSE 9000000 END",
            300,
            "Column name matches the key; 97.5% of rows have a match in ",
        ),
    ],
)
def test_large_tables_are_checked_in_the_database(shop: Any, customer: str, missing: int, reason: str) -> None:
    found = shop.search((*LARGE, *large_orders(customer)))
    assert found.accepted == {ORDER}
    relationship = found.inferred(ORDER)
    assert relationship.check is not None
    assert (relationship.check.rows, relationship.check.missing, relationship.check.exact) == (12_000, missing, True)
    assert relationship.reason.startswith(reason)
    assert all(choice.confirmed for choice in found.found.keys.values())


def test_zero_stands_for_none_in_a_large_table_too(shop: Any) -> None:
    found = shop.search((*CUSTOMERS, *large_orders(f"CASE WHEN n % 4 THEN {TO_CUSTOMER} ELSE 0 END")))
    relationship = found.inferred(ORDER)
    assert relationship.status is Status.ACCEPTED
    assert relationship.check is not None
    assert (relationship.check.rows, relationship.check.missing, relationship.check.exact) == (9000, 0, True)


def test_a_large_table_with_one_row_for_each_of_another(shop: Any) -> None:
    details = filled("customer_details", "customer_id INTEGER PRIMARY KEY, vat INTEGER", 14_000, "n", "n % 7")
    found = shop.search((*LARGE, *details))
    relationship = found.inferred("customer_details(customer_id) -> customers(customer_id)")
    assert (relationship.status, relationship.cardinality) == (Status.ACCEPTED, Cardinality.ONE_TO_ONE)


def test_a_key_that_repeats_outside_the_sample_is_none(shop: Any) -> None:
    statements = (*LARGE, "CREATE TABLE twice AS SELECT customer_id AS twice_id, name FROM customers")
    more = "INSERT INTO twice SELECT customer_id, name || '-' FROM customers WHERE customer_id IN (%s)"
    with shop.open(statements) as connector:
        schema = connector.introspect(Scope())
        sampled = profile_tables(connector, schema.tables, Budget()).tables
    seen = next(each for each in sampled if each.profile.ref.name == "twice").values["twice_id"]
    unseen = sorted(set(range(1, 15_001)) - set(seen))[:3]
    with contextlib.closing(sqlite3.connect(shop.folder / "shop.sqlite")) as database:
        database.execute(more % ", ".join(map(str, unseen)))
        database.commit()
    with shop.again() as connector:
        found = discover(connector, schema.tables, sampled, Relationships())
    keys = {ref.name: choice.primary for ref, choice in found.keys.items()}
    assert keys == {"customers": ("customer_id",), "twice": ("name",)}


# -- failures ---------------------------------------------------------------------------------------------------------


class Failing:
    """A connector whose statements about one table fail, once the rows were sampled."""

    def __init__(self, inner: Connector, table: str, code: str) -> None:
        self.inner, self.table, self.code, self.on = inner, table, code, False

    @property
    def dialect(self) -> str:
        return self.inner.dialect

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        if self.on and f'"{self.table}"' in sql:
            raise SourceError("the statement failed", hint="look at it", code=self.code)
        return self.inner.query(sql, parameters, max_rows=max_rows)


def discovered_with_failure(shop: Any, table: str, code: str) -> Any:
    statements = (
        *LARGE,
        *large_orders("1 + n * 7919 % 15000"),
        *filled("visits", "visit_id INTEGER, customer_id INTEGER", 11_000, "n + 70000", "1 + n * 7907 % 15000"),
    )
    with shop.open(statements) as connector:
        tables = connector.introspect(Scope()).tables
        sampled = profile_tables(connector, tables, Budget()).tables
        failing = Failing(connector, table, code)
        failing.on = True
        return shop.answer(discover(failing, tables, sampled, Relationships()))  # type: ignore[arg-type]


def test_a_statement_that_fails_costs_only_its_relationship(shop: Any) -> None:
    found = discovered_with_failure(shop, "orders", "query")
    assert found.accepted == {"visits(customer_id) -> customers(customer_id)"}
    assert found.inferred(ORDER).status is Status.REVIEW
    assert found.inferred(ORDER).reason.endswith("; the values could not be compared.")
    assert list(found.found.problems) == sorted(found.found.problems)
    assert all("orders" in problem and "the statement failed" in problem for problem in found.found.problems)
    assert len(found.found.problems) >= 2
    keys = {ref.name: choice.confirmed for ref, choice in found.found.keys.items()}
    assert keys == {"customers": True, "visits": True, "orders": False}


def test_a_source_that_is_gone_ends_the_search(shop: Any) -> None:
    with pytest.raises(SourceError) as caught:
        discovered_with_failure(shop, "orders", "connection")
    assert caught.value.code == "connection"


def test_a_table_that_cannot_be_sampled_costs_only_itself(shop: Any) -> None:
    with shop.open((*CUSTOMERS, *orders(), *filled("visits", "customer_id INTEGER", 0))) as connector:
        schema = connector.introspect(Scope())
        failing = Failing(connector, "visits", "query")
        failing.on = True
        found = shop.answer(discover_database(failing, schema, Scan()))  # type: ignore[arg-type]
    assert found.accepted == {ORDER}


# -- what the database declares ---------------------------------------------------------------------------------------


def hidden(schema: DatabaseSchema) -> DatabaseSchema:
    bare = (replace(t, primary_key=(), foreign_keys=(), unique_keys=(), indexes=()) for t in schema.tables)
    return replace(schema, tables=tuple(bare))


DECLARED = (
    "CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, name TEXT, city TEXT)",
    *CUSTOMERS[1:],
    "CREATE TABLE orders (order_id INTEGER, customer_id INTEGER REFERENCES customers, total INTEGER)",
    *orders()[1:],
    *filled("visits", "visit_id INTEGER, customer_id INTEGER", 200, "n + 9000", TO_CUSTOMER),
)


def test_declared_joins_are_left_out_and_declared_keys_taken(shop: Any) -> None:
    found = shop.search(DECLARED)
    assert found.accepted == {"visits(customer_id) -> customers(customer_id)"}
    assert not any(
        each.child.name == "orders" and "customer_id" in each.child_columns for each in found.found.relationships
    )
    keys = {ref.name: (choice.primary, choice.declared) for ref, choice in found.found.keys.items()}
    assert keys["customers"] == (("customer_id",), True)
    assert keys["visits"] == (("visit_id",), False)


def test_hidden_keys_are_not_read(shop: Any) -> None:
    """The file declares other keys than the true ones; with all of them hidden nothing changes."""
    bare = (*CUSTOMERS, *orders())
    wrong = (
        "CREATE TABLE customers (customer_id INTEGER, name TEXT PRIMARY KEY, city TEXT)",
        *CUSTOMERS[1:],
        "CREATE TABLE orders (order_id INTEGER REFERENCES customers (city), customer_id INTEGER, total INTEGER, "
        "PRIMARY KEY (total, order_id))",
        *orders()[1:],
    )
    with shop.open(wrong) as connector:
        found = shop.answer(discover_database(connector, hidden(connector.introspect(Scope())), Scan()))
    expected = shop.search(bare)
    assert (found.found.keys, found.accepted) == (expected.found.keys, expected.accepted)


# -- settings ---------------------------------------------------------------------------------------------------------


def test_the_thresholds_decide(shop: Any) -> None:
    name = "employees(dept_id) -> departments(id)"
    statements = (
        *filled("departments", "id INTEGER, title TEXT", 80, "n + 1000", "'x' || n"),
        *filled("employees", "id INTEGER, dept_id INTEGER", 300, "n", "1001 + n * 37 % 80"),
    )
    score = shop.search(statements).inferred(name).probability
    for accept, review, status in (
        (score - 0.001, 0.1, Status.ACCEPTED),
        (score + 0.001, 0.1, Status.REVIEW),
        (score + 0.001, score + 0.001, Status.REJECTED),
    ):
        found = shop.search(statements, acceptThreshold=accept, reviewThreshold=review)
        assert found.inferred(name).status is status


def test_without_a_budget_the_sample_has_to_do(shop: Any) -> None:
    statements = (*LARGE, *large_orders("1 + n * 7919 % 15000"))
    found, usual = (shop.search(statements, validationBudget=budget) for budget in (0, "all"))
    assert found.accepted == usual.accepted == {ORDER}
    assert (
        found.inferred(ORDER).reason
        == "Column name matches the key; all sampled values exist in `customers.customer_id`."
    )
    assert usual.inferred(ORDER).reason == "Column name matches the key; all values exist in `customers.customer_id`."
    assert found.found.queries == usual.found.queries - 1


def test_one_candidate_a_column(shop: Any) -> None:
    statements = (*CUSTOMERS, *orders(), *filled("clients", "client_id INTEGER, name TEXT", 90, "n", "'k' || n"))
    found = shop.search(statements, maxCandidatesPerColumn=1, acceptThreshold=0, reviewThreshold=0)
    columns = [(each.child, each.child_columns) for each in found.found.relationships if len(each.child_columns) == 1]
    assert len(set(columns)) == len(columns)
    assert ORDER in shop.search(statements, maxCandidatesPerColumn=1).accepted


class Said:
    """A source of one hint."""

    def __init__(self, hint: JoinHint) -> None:
        self.hint = hint

    def hints(self, tables: Sequence[Any]) -> list[JoinHint]:
        return [self.hint]


def test_a_hint_raises_the_score_and_is_named(shop: Any) -> None:
    statements = (
        *filled("departments", "id INTEGER, title TEXT", 80, "n + 1000", "'x' || n"),
        *filled("employees", "id INTEGER, belongs INTEGER", 300, "n", "1001 + n * 37 % 80"),
    )
    with shop.open(statements) as connector:
        schema = connector.introspect(Scope())
        refs = {table.ref.name: table.ref for table in schema.tables}
        hint = JoinHint(refs["employees"], ("belongs",), refs["departments"], ("id",), "dbt")
        plain = shop.answer(discover_database(connector, schema, Scan()))
        hinted = shop.answer(discover_database(connector, schema, Scan(), [Said(hint)]))
    name = "employees(belongs) -> departments(id)"
    assert hinted.inferred(name).probability > plain.inferred(name).probability
    assert hinted.inferred(name).sources == ("dbt", "values")


@pytest.mark.parametrize(
    ("columns", "key"),
    [(("note",), ("customer_id",)), (("customer_id", "order_id"), ("customer_id", "name")), (("nothing",), ("none",))],
)
def test_a_hint_that_cannot_be_is_left_out(shop: Any, columns: tuple[str, ...], key: tuple[str, ...]) -> None:
    statements = (*LARGE, *large_orders("1 + n * 7919 % 15000", 500))
    with shop.open(statements) as connector:
        schema = connector.introspect(Scope())
        refs = {table.ref.name: table.ref for table in schema.tables}
        source = Said(JoinHint(refs["orders"], columns, refs["customers"], key, "model"))
        found = shop.answer(discover_database(connector, schema, Scan(), [source]))
    assert found.accepted == {ORDER}


# -- a time budget ----------------------------------------------------------------------------------------------------


def test_what_is_not_checked_in_time_is_put_up_for_review(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    statements = (*LARGE, *large_orders("1 + n * 7919 % 15000"))
    with shop.open(statements) as connector:
        tables = connector.introspect(Scope()).tables
        sampled = profile_tables(connector, tables, Budget(rows=2000)).tables
        late = discover(connector, tables, sampled, Relationships(), seconds=0.0)
        whole = discover(connector, tables, sampled, Relationships())
        with monkeypatch.context() as patch:  # the budget began a long time ago
            begun = [-1e9]
            patch.setattr(search, "monotonic", lambda: begun.pop() if begun else monotonic())
            own = discover(connector, tables, sampled, Relationships(detectionBudgetMs=600_000))
    (relationship,) = [
        each for each in late.relationships if each.child_columns == ("customer_id",) and each.child.name == "orders"
    ]
    assert (relationship.status, relationship.reason) == (Status.REVIEW, "Not checked within the time budget.")
    assert late.queries == 0
    assert [each for each in late.problems if "time budget" in each] == [
        "1 reference not checked within the time budget"
    ]
    assert own.relationships == late.relationships
    assert ORDER in shop.answer(whole).accepted
    assert not whole.problems
