"""The way through, on small databases: which joins and keys are found, and which are not."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.connectors.port import ConnectionSpec, Connector, DatabaseSchema, QueryResult, Scope
from ktx_cli.connectors.registry import connect
from ktx_cli.context.scan.profiling.profiler import Budget, profile_tables
from ktx_cli.context.scan.relationships.discover import discover, discover_database
from ktx_cli.context.scan.relationships.hints import Hint
from ktx_cli.context.scan.relationships.model import Cardinality, Discovery, Edge, EdgeStatus
from ktx_cli.context.scan.relationships.sources import ViewJoins
from ktx_cli.core.errors import SourceError
from ktx_cli.project.config.scan import Relationships, Scan


def rows(table: str, count: int, *values: str) -> str:
    """Return an INSERT of `count` rows; `values` are SQL over the row's number `n`, from 1."""
    numbers = f"WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count})"
    return f"INSERT INTO {table} {numbers} SELECT {', '.join(values)} FROM s"


def filled(table: str, columns: str, count: int, *values: str) -> tuple[str, ...]:
    """Return the statements of a table with `count` rows."""
    return (f"CREATE TABLE {table} ({columns})", *([rows(table, count, *values)] if count else []))


def open_database(folder: Path, statements: Sequence[str], driver: str = "sqlite") -> Connector:
    path = folder / f"shop.{driver}"
    path.unlink(missing_ok=True)
    if driver == "sqlite":
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.executescript(";".join(["BEGIN", *statements, "COMMIT"]))
    else:
        with duckdb.connect(str(path)) as other:
            other.execute(";".join(statements))
    return connect(ConnectionSpec("shop", driver, {"path": str(path)}))


def found_in(folder: Path, statements: Sequence[str], driver: str = "sqlite", **settings: Any) -> Discovery:
    with open_database(folder, statements, driver) as connector:
        scan = Scan(relationships=Relationships.model_validate(settings))
        return discover_database(connector, connector.introspect(Scope()), scan, [ViewJoins(connector.dialect)])


def name_of(edge: Edge) -> str:
    """Return `child(a, b) -> parent(c, d)`, with the condition of a polymorphic reference behind it."""
    text = f"{edge.child}({', '.join(edge.child_columns)}) -> {edge.parent}({', '.join(edge.parent_columns)})"
    return f"{text} if {edge.condition[0]} = {edge.condition[1]}" if edge.condition else text


def with_status(found: Discovery, status: EdgeStatus) -> set[str]:
    return {name_of(edge) for edge in found.edges if edge.status is status}


def accepted(found: Discovery) -> set[str]:
    return with_status(found, EdgeStatus.ACCEPTED)


def edge_of(found: Discovery, name: str) -> Edge:
    return next(edge for edge in found.edges if name_of(edge) == name)


CUSTOMERS = filled("customers", "customer_id INTEGER, name TEXT, city TEXT", 80, "n", "'c' || n", "'t' || n % 9")
TO_CUSTOMER = "1 + n * 37 % 80"


def orders(customer: str = TO_CUSTOMER, count: int = 300) -> tuple[str, ...]:
    columns = "order_id INTEGER, customer_id INTEGER, total INTEGER"
    return filled("orders", columns, count, "n + 5000", customer, "n * 7 % 400 + 2")


ORDER = "orders(customer_id) -> customers(customer_id)"


@dataclass(frozen=True)
class Case:
    """Statements, the joins that are accepted and no others, and the keys of some tables (`t: a, b`)."""

    statements: tuple[str, ...]
    joins: tuple[str, ...]
    keys: tuple[str, ...] = ()


def two(parent: str, key: str, child: str, reference: str, *, start: int = 1000) -> tuple[str, ...]:
    """Return two tables: a parent with a key and a name, a child with a key, a reference and a quantity."""
    first, child_key = key.split()[0], child.split()[1]
    return (
        *filled(parent, f"{first} INTEGER, {key.split()[1]} TEXT", 80, f"n + {start}", "'x' || n"),
        *filled(
            child.split()[0],
            f"{child_key} INTEGER, {reference} INTEGER, {child.split()[2]} INTEGER",
            300,
            "n",
            f"{start + 1} + n * 37 % 80",
            "n * 11 % 70",
        ),
    )


CASES: dict[str, Case] = {
    "plain names": Case((*CUSTOMERS, *orders()), (ORDER,), ("customers: customer_id", "orders: order_id")),
    "a role before the name": Case(
        (
            *filled("addresses", "id INTEGER, street TEXT", 90, "n + 100", "'s' || n"),
            *filled(
                "shipments",
                "id INTEGER, billing_address_id INTEGER, shipping_address_id INTEGER",
                200,
                "n",
                "101 + n * 7 % 90",
                "101 + n * 11 % 90",
            ),
        ),
        (
            "shipments(billing_address_id) -> addresses(id)",
            "shipments(shipping_address_id) -> addresses(id)",
        ),
        ("addresses: id", "shipments: id"),
    ),
    "its own table": Case(
        filled(
            "employees",
            "id INTEGER, name TEXT, manager_id INTEGER",
            60,
            "n",
            "'e' || n",
            "CASE WHEN n > 1 THEN 1 + n / 4 END",
        ),
        ("employees(manager_id) -> employees(id)",),
        ("employees: id",),
    ),
    "a chain of subtypes": Case(
        (
            *filled("people", "person_id INTEGER, name TEXT", 100, "n + 300", "'p' || n"),
            *filled("employees", "employee_id INTEGER, salary INTEGER, name TEXT", 60, "n + 300", "n * 31", "'e' || n"),
            *filled("sales_employees", "employee_id INTEGER, quota INTEGER", 30, "n * 2 + 300", "n * 17 % 9"),
            *filled("bonuses", "bonus_id INTEGER, sales_employee_id INTEGER", 90, "n", "302 + n * 7 % 30 * 2"),
        ),
        (
            "sales_employees(employee_id) -> employees(employee_id)",
            "bonuses(sales_employee_id) -> sales_employees(employee_id)",
        ),
        ("sales_employees: employee_id",),
    ),
    "a table between two": Case(
        (
            *filled("students", "id INTEGER, name TEXT", 70, "n", "'s' || n"),
            *filled("courses", "id INTEGER, title TEXT", 40, "n", "'k' || n"),
            *filled(
                "enrolments",
                "student_id INTEGER, course_id INTEGER, grade INTEGER",
                280,
                "1 + (n - 1) % 70",
                "1 + (n * 13 + (n - 1) / 70) % 40",
                "n % 6",
            ),
        ),
        ("enrolments(student_id) -> students(id)", "enrolments(course_id) -> courses(id)"),
        ("enrolments: student_id, course_id",),
    ),
    "two columns at once": Case(
        (
            *filled("order_lines", "order_id INTEGER, line_no INTEGER, sku TEXT", 240, "n / 3 + 1", "n % 3 + 1", "'k'"),
            *filled(
                "returns",
                "return_id INTEGER, order_id INTEGER, line_no INTEGER, reason TEXT",
                90,
                "n + 700",
                "n * 7 % 78 + 2",
                "n % 3 + 1",
                "'r' || n % 5",
            ),
            "DELETE FROM order_lines WHERE line_no > 1 + order_id % 3",
            "DELETE FROM returns WHERE line_no > 1 + order_id % 3",
        ),
        ("returns(order_id, line_no) -> order_lines(order_id, line_no)",),
        ("order_lines: order_id, line_no", "returns: return_id"),
    ),
    "codes": Case(
        (
            "CREATE TABLE currencies (code TEXT, name TEXT)",
            "INSERT INTO currencies VALUES ('EUR', 'Euro'), ('USD', 'Dollar'), ('CHF', 'Franc'), ('GBP', 'Pound')",
            *filled(
                "prices",
                "id INTEGER, currency_code TEXT, amount INTEGER",
                90,
                "n",
                "substr('EURUSDCHFGBP', 1 + 3 * (n % 4), 3)",
                "n * 7",
            ),
        ),
        ("prices(currency_code) -> currencies(code)",),
        ("currencies: code",),
    ),
    "zero for none": Case((*CUSTOMERS, *orders(f"CASE WHEN n % 4 THEN {TO_CUSTOMER} ELSE 0 END")), (ORDER,)),
    "German": Case(
        two("kunden", "kunden_nr bezeichnung", "auftraege auftrag_nr menge", "kunden_nr"),
        ("auftraege(kunden_nr) -> kunden(kunden_nr)",),
        ("kunden: kunden_nr", "auftraege: auftrag_nr"),
    ),
    "Spanish": Case(
        two("clientes", "id nombre", "pedidos id cantidad", "cliente_id"), ("pedidos(cliente_id) -> clientes(id)",)
    ),
    "French": Case(
        two("produits", "id_produit libelle", "lignes id_ligne quantite", "id_produit"),
        ("lignes(id_produit) -> produits(id_produit)",),
        ("produits: id_produit", "lignes: id_ligne"),
    ),
    "Polish": Case(
        two("klienci", "klient_id nazwa", "zamowienia zamowienie_id ilosc", "klient_id"),
        ("zamowienia(klient_id) -> klienci(klient_id)",),
    ),
    "written together": Case(
        two("customer", "customerid customername", "purchaseorder orderid ordertotal", "customerid"),
        ("purchaseorder(customerid) -> customer(customerid)",),
        ("customer: customerid", "purchaseorder: orderid"),
    ),
    "prefixes of their own": Case(
        two("customers", "cst_id cst_name", "orders ord_id ord_total", "ord_cst_id"),
        ("orders(ord_cst_id) -> customers(cst_id)",),
    ),
    "abbreviations": Case(
        two("departments", "id title", "employees id grade", "dept_id"), ("employees(dept_id) -> departments(id)",)
    ),
    "numbers that refer to nothing": Case(
        (
            *CUSTOMERS,
            *filled(
                "parcels",
                "parcel_id INTEGER, customer_id INTEGER, tracking_id INTEGER, session_key TEXT, external_ref INTEGER",
                300,
                "n",
                TO_CUSTOMER,
                "900000 + n * 17 % 7919",
                "'s' || n * 13 % 997",
                "n * 7919 % 100003",
            ),
        ),
        ("parcels(customer_id) -> customers(customer_id)",),
        ("parcels: parcel_id",),
    ),
    "quantities from 1": Case(
        (
            *CUSTOMERS,
            *filled(
                "reviews",
                "review_id INTEGER, customer_id INTEGER, rating INTEGER, position INTEGER, quantity INTEGER",
                300,
                "n",
                TO_CUSTOMER,
                "1 + n % 5",
                "1 + n % 40",
                "1 + n % 12",
            ),
        ),
        ("reviews(customer_id) -> customers(customer_id)",),
    ),
    "views": Case(
        (
            *CUSTOMERS,
            *orders(),
            "CREATE VIEW good_customers AS SELECT * FROM customers",
            "CREATE VIEW sales AS SELECT o.order_id, c.name FROM orders o JOIN customers c USING (customer_id)",
        ),
        (ORDER,),
    ),
    "a copy of a table": Case(
        (*CUSTOMERS, *orders(), "CREATE TABLE stg_customers AS SELECT * FROM customers"),
        (ORDER,),
        ("stg_customers: customer_id",),
    ),
    "what several tables hold": Case(
        (
            *filled("photos", "id INTEGER, url TEXT", 50, "n", "'u' || n"),
            *filled("articles", "id INTEGER, title TEXT", 90, "n", "'t' || n"),
            *filled(
                "comments",
                "id INTEGER, commentable_id INTEGER, commentable_type TEXT, body TEXT",
                200,
                "n",
                "CASE WHEN n % 2 THEN 1 + n * 7 % 50 ELSE 1 + n * 13 % 90 END",
                "CASE WHEN n % 2 THEN 'Photo' ELSE 'Article' END",
                "'b' || n",
            ),
        ),
        (
            "comments(commentable_id) -> articles(id) if commentable_type = Article",
            "comments(commentable_id) -> photos(id) if commentable_type = Photo",
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_joins_and_keys_are_found(tmp_path: Path, case: str) -> None:
    found = found_in(tmp_path, CASES[case].statements)
    assert accepted(found) == set(CASES[case].joins)
    keys = {f"{ref}: {', '.join(columns)}" for ref, columns in found.primary_keys.items()}
    assert set(CASES[case].keys) <= keys
    assert found.problems == ()


def test_few_rows_without_a_parent_are_counted_in_the_reason(tmp_path: Path) -> None:
    found = found_in(tmp_path, (*CUSTOMERS, *orders(f"CASE WHEN n % 33 THEN {TO_CUSTOMER} ELSE 7000 + n END", 330)))
    assert accepted(found) == {ORDER}
    edge = edge_of(found, ORDER)
    assert edge.reason == "96.9 % of rows are found; named as the key is"
    assert edge.check is not None
    assert (edge.check.rows, edge.check.missing, edge.check.exact) == (330, 10, True)


def test_many_rows_without_a_parent_are_for_a_person(tmp_path: Path) -> None:
    found = found_in(tmp_path, (*CUSTOMERS, *orders(f"CASE WHEN n % 5 < 2 THEN 7000 + n ELSE {TO_CUSTOMER} END")))
    assert edge_of(found, ORDER).status is not EdgeStatus.ACCEPTED
    assert "60 % of rows are found" in edge_of(found, ORDER).reason


@pytest.mark.parametrize(("customer", "count"), [("NULL", 300), (TO_CUSTOMER, 0)])
def test_what_no_row_can_tell_is_for_a_person(tmp_path: Path, customer: str, count: int) -> None:
    found = found_in(tmp_path, (*CUSTOMERS, *orders(customer, count)))
    edge = edge_of(found, ORDER)
    assert edge.status is EdgeStatus.REVIEW
    assert edge.reason == "no values to compare; named as the key is; the rows cannot tell"
    assert edge.check is None
    high = found_in(tmp_path, (*CUSTOMERS, *orders(customer, count)), acceptThreshold=1.0, reviewThreshold=1.0)
    assert edge_of(high, ORDER).status is EdgeStatus.REVIEW
    trusting = found_in(
        tmp_path, (*CUSTOMERS, *orders(customer, count)), validationRequiredForManifest=False, acceptThreshold=0.5
    )
    assert edge_of(trusting, ORDER).status is EdgeStatus.ACCEPTED


def test_an_empty_parent_is_never_accepted(tmp_path: Path) -> None:
    found = found_in(tmp_path, (*filled("customers", "customer_id INTEGER, name TEXT", 0), *orders()))
    assert accepted(found) == set()
    assert not any(edge.status is EdgeStatus.REJECTED and edge.parent.name == "customers" for edge in found.edges)
    key = next(choice for ref, choice in found.keys.items() if ref.name == "customers")
    assert (key.primary, key.confirmed) == (("customer_id",), False)


@pytest.mark.parametrize("south", [60, 80])
def test_tables_of_one_name_in_two_schemas_keep_to_their_own(tmp_path: Path, south: int) -> None:
    statements = ["CREATE SCHEMA north", "CREATE SCHEMA south"]
    for schema, count in (("north", 80), ("south", south)):
        customers = f"SELECT range + 1 AS customer_id, 'c' || range AS name FROM range({count})"
        placed = "SELECT range AS order_id, 1 + range * 37 % 60 AS customer_id FROM range(300)"
        statements += [f"CREATE TABLE {schema}.customers AS {customers}", f"CREATE TABLE {schema}.orders AS {placed}"]
    found = found_in(tmp_path, statements, "duckdb")
    assert accepted(found) == {
        f"{schema}.orders(customer_id) -> {schema}.customers(customer_id)" for schema in ("north", "south")
    }
    assert with_status(found, EdgeStatus.REVIEW) == set()


# -- tables larger than their samples ---------------------------------------------------------------------------------

LARGE = filled("customers", "customer_id INTEGER, name TEXT", 15_000, "n", "'c' || n")


def large_orders(customer: str, count: int = 12_000) -> tuple[str, ...]:
    return filled("orders", "order_id INTEGER, customer_id INTEGER, note TEXT", count, "n + 90000", customer, "'x'")


@pytest.mark.parametrize(
    ("customer", "missing", "reason"),
    [
        ("1 + n * 7919 % 15000", 0, "every value is found; named as the key is"),
        ("CASE WHEN n % 40 THEN 1 + n * 7919 % 15000 ELSE 16000 END", 300, "97.5 % of rows are found"),
        ("CASE WHEN n % 40 THEN 1 + n * 7919 % 15000 ELSE 9000000 END", 300, "97.5 % of rows are found"),
    ],
)
def test_large_tables_are_checked_in_the_database(tmp_path: Path, customer: str, missing: int, reason: str) -> None:
    found = found_in(tmp_path, (*LARGE, *large_orders(customer)))
    assert accepted(found) == {ORDER}
    edge = edge_of(found, ORDER)
    assert edge.check is not None
    assert (edge.check.rows, edge.check.missing, edge.check.exact) == (12_000, missing, True)
    assert edge.reason.startswith(reason)
    assert all(choice.confirmed for choice in found.keys.values())


def test_zero_stands_for_none_in_a_large_table_too(tmp_path: Path) -> None:
    found = found_in(tmp_path, (*CUSTOMERS, *large_orders(f"CASE WHEN n % 4 THEN {TO_CUSTOMER} ELSE 0 END")))
    edge = edge_of(found, ORDER)
    assert edge.status is EdgeStatus.ACCEPTED
    assert edge.check is not None
    assert (edge.check.rows, edge.check.missing, edge.check.exact) == (9000, 0, True)


def test_a_large_table_with_one_row_for_each_of_another(tmp_path: Path) -> None:
    details = filled("customer_details", "customer_id INTEGER PRIMARY KEY, vat INTEGER", 14_000, "n", "n % 7")
    found = found_in(tmp_path, (*LARGE, *details))
    edge = edge_of(found, "customer_details(customer_id) -> customers(customer_id)")
    assert (edge.status, edge.cardinality) == (EdgeStatus.ACCEPTED, Cardinality.ONE_TO_ONE)


def test_a_key_that_repeats_outside_the_sample_is_none(tmp_path: Path) -> None:
    statements = (*LARGE, "CREATE TABLE twice AS SELECT customer_id AS twice_id, name FROM customers")
    more = "INSERT INTO twice SELECT customer_id, name || '-' FROM customers WHERE customer_id IN (%s)"
    with open_database(tmp_path, statements) as connector:
        schema = connector.introspect(Scope())
        sampled = profile_tables(connector, schema.tables, Budget()).tables
    seen = next(each for each in sampled if each.profile.ref.name == "twice").values["twice_id"]
    unseen = sorted(set(range(1, 15_001)) - set(seen))[:3]
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.sqlite")) as database:
        database.execute(more % ", ".join(map(str, unseen)))
        database.commit()
    with connect(ConnectionSpec("shop", "sqlite", {"path": str(tmp_path / "shop.sqlite")})) as connector:
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


def discovered_with_failure(folder: Path, table: str, code: str, **settings: Any) -> Discovery:
    statements = (
        *LARGE,
        *large_orders("1 + n * 7919 % 15000"),
        *filled("visits", "visit_id INTEGER, customer_id INTEGER", 11_000, "n + 70000", "1 + n * 7907 % 15000"),
    )
    with open_database(folder, statements) as connector:
        tables = connector.introspect(Scope()).tables
        sampled = profile_tables(connector, tables, Budget()).tables
        failing = Failing(connector, table, code)
        failing.on = True
        return discover(failing, tables, sampled, Relationships.model_validate(settings))  # type: ignore[arg-type]


def test_a_statement_that_fails_costs_only_its_edge(tmp_path: Path) -> None:
    found = discovered_with_failure(tmp_path, "orders", "query")
    assert accepted(found) == {"visits(customer_id) -> customers(customer_id)"}
    assert edge_of(found, ORDER).status is EdgeStatus.REVIEW
    assert edge_of(found, ORDER).reason.startswith("the values could not be compared; ")
    assert list(found.problems) == sorted(found.problems)
    assert all("orders" in problem and "the statement failed" in problem for problem in found.problems)
    assert len(found.problems) >= 2
    keys = {ref.name: choice.confirmed for ref, choice in found.keys.items()}
    assert keys == {"customers": True, "visits": True, "orders": False}


def test_a_source_that_is_gone_ends_the_search(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        discovered_with_failure(tmp_path, "orders", "connection")
    assert caught.value.code == "connection"


def test_a_table_that_cannot_be_sampled_costs_only_itself(tmp_path: Path) -> None:
    with open_database(tmp_path, (*CUSTOMERS, *orders(), *filled("visits", "customer_id INTEGER", 0))) as connector:
        schema = connector.introspect(Scope())
        failing = Failing(connector, "visits", "query")
        failing.on = True
        found = discover_database(failing, schema, Scan())  # type: ignore[arg-type]
    assert accepted(found) == {ORDER}


# -- what the database declares ---------------------------------------------------------------------------------------


def schema_of(folder: Path, statements: Sequence[str]) -> tuple[Connector, DatabaseSchema]:
    connector = open_database(folder, statements)
    return connector, connector.introspect(Scope())


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


def test_declared_joins_are_left_out_and_declared_keys_taken(tmp_path: Path) -> None:
    found = found_in(tmp_path, DECLARED)
    assert accepted(found) == {"visits(customer_id) -> customers(customer_id)"}
    assert not any(edge.child.name == "orders" and "customer_id" in edge.child_columns for edge in found.edges)
    keys = {ref.name: (choice.primary, choice.declared) for ref, choice in found.keys.items()}
    assert keys["customers"] == (("customer_id",), True)
    assert keys["visits"] == (("visit_id",), False)


def test_hidden_keys_are_not_read(tmp_path: Path) -> None:
    """The file declares other keys than the true ones; with all of them hidden nothing changes."""
    bare = (*CUSTOMERS, *orders())
    wrong = (
        "CREATE TABLE customers (customer_id INTEGER, name TEXT PRIMARY KEY, city TEXT)",
        *CUSTOMERS[1:],
        "CREATE TABLE orders (order_id INTEGER REFERENCES customers (city), customer_id INTEGER, total INTEGER, "
        "PRIMARY KEY (total, order_id))",
        *orders()[1:],
    )
    (tmp_path / "wrong").mkdir()
    connector, schema = schema_of(tmp_path / "wrong", wrong)
    with connector:
        found = discover_database(connector, hidden(schema), Scan())
    expected = found_in(tmp_path, bare)
    assert (found.keys, accepted(found)) == (expected.keys, accepted(expected))


def test_keys_that_are_given_never_cost_a_join(tmp_path: Path) -> None:
    for name, case in CASES.items():
        given = {key.partition(": ")[0]: tuple(key.partition(": ")[2].split(", ")) for key in case.keys}
        connector, schema = schema_of(tmp_path, case.statements)
        tables = [replace(table, primary_key=given.get(table.ref.name, ())) for table in schema.tables]
        with connector:
            found = discover_database(connector, replace(schema, tables=tuple(tables)), Scan())
        assert accepted(found) >= set(case.joins), name


# -- settings ---------------------------------------------------------------------------------------------------------


def test_the_thresholds_decide(tmp_path: Path) -> None:
    statements = CASES["abbreviations"].statements
    (name,) = CASES["abbreviations"].joins
    score = edge_of(found_in(tmp_path, statements), name).score
    for accept, review, status in (
        (score - 0.001, 0.1, EdgeStatus.ACCEPTED),
        (score + 0.001, 0.1, EdgeStatus.REVIEW),
        (score + 0.001, score + 0.001, EdgeStatus.REJECTED),
    ):
        found = found_in(tmp_path, statements, acceptThreshold=accept, reviewThreshold=review)
        assert edge_of(found, name).status is status


def test_without_a_budget_the_sample_has_to_do(tmp_path: Path) -> None:
    statements = (*LARGE, *large_orders("1 + n * 7919 % 15000"))
    found, usual = (found_in(tmp_path, statements, validationBudget=budget) for budget in (0, "all"))
    assert accepted(found) == accepted(usual) == {ORDER}
    assert edge_of(found, ORDER).reason == "every value is found (sample); named as the key is"
    assert edge_of(usual, ORDER).reason == "every value is found; named as the key is"
    assert found.queries == usual.queries - 1


def test_one_candidate_a_column(tmp_path: Path) -> None:
    statements = (*CUSTOMERS, *orders(), *filled("clients", "client_id INTEGER, name TEXT", 90, "n", "'k' || n"))
    found = found_in(tmp_path, statements, maxCandidatesPerColumn=1, acceptThreshold=0, reviewThreshold=0)
    columns = [(edge.child, edge.child_columns) for edge in found.edges if len(edge.child_columns) == 1]
    assert len(set(columns)) == len(columns)
    assert ORDER in accepted(found_in(tmp_path, statements, maxCandidatesPerColumn=1))


class Said:
    """A source of one hint."""

    def __init__(self, hint: Hint) -> None:
        self.hint = hint

    def hints(self, tables: Sequence[Any]) -> list[Hint]:
        return [self.hint]


def test_a_hint_raises_the_score_and_is_named(tmp_path: Path) -> None:
    statements = two("departments", "id title", "employees id grade", "belongs")
    with open_database(tmp_path, statements) as connector:
        schema = connector.introspect(Scope())
        refs = {table.ref.name: table.ref for table in schema.tables}
        hint = Hint(refs["employees"], ("belongs",), refs["departments"], ("id",), "dbt")
        plain = discover_database(connector, schema, Scan())
        hinted = discover_database(connector, schema, Scan(), [Said(hint)])
    name = "employees(belongs) -> departments(id)"
    assert edge_of(hinted, name).score > edge_of(plain, name).score
    assert edge_of(hinted, name).sources == ("dbt", "values")


@pytest.mark.parametrize(
    ("columns", "key"),
    [(("note",), ("customer_id",)), (("customer_id", "order_id"), ("customer_id", "name")), (("nothing",), ("none",))],
)
def test_a_hint_that_cannot_be_is_left_out(tmp_path: Path, columns: tuple[str, ...], key: tuple[str, ...]) -> None:
    statements = (*LARGE, *large_orders("1 + n * 7919 % 15000", 500))
    with open_database(tmp_path, statements) as connector:
        schema = connector.introspect(Scope())
        refs = {table.ref.name: table.ref for table in schema.tables}
        source = Said(Hint(refs["orders"], columns, refs["customers"], key, "model"))
        found = discover_database(connector, schema, Scan(), [source])
    assert accepted(found) == {ORDER}


# -- the same every time ----------------------------------------------------------------------------------------------


def test_the_same_rows_give_the_same_answer(tmp_path: Path) -> None:
    statements = (*CASES["what several tables hold"].statements, *CUSTOMERS, *orders())
    first = found_in(tmp_path, statements)
    assert found_in(tmp_path, statements) == first
    shuffled = list(statements)
    creates = [each for each in shuffled if each.startswith("CREATE")]
    random.Random(3).shuffle(creates)
    again = found_in(tmp_path, [*creates, *(each for each in shuffled if not each.startswith("CREATE"))])
    assert (again.edges, again.keys) == (first.edges, first.keys)


def test_nothing_to_look_at(tmp_path: Path) -> None:
    assert found_in(tmp_path, ()) == Discovery({}, (), queries=0)
    assert found_in(tmp_path, ("CREATE TABLE a (b BLOB)", "INSERT INTO a VALUES (x'00')")).edges == ()
