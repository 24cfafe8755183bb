"""The way through, on small databases: which joins and keys are found, and which are not."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import pytest

from benchmarks.relationship_fixtures.discovering import discover_database
from ktx_cli.project.config.blocks import Scan
from ktx_cli.scan.relationships.record import Cardinality, Discovery, Status
from ktx_cli.warehouses.port import Scope


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
        ("shipments(billing_address_id) -> addresses(id)", "shipments(shipping_address_id) -> addresses(id)"),
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
        (ORDER, "sales(order_id) -> orders(order_id)"),
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
def test_joins_and_keys_are_found(shop: Any, case: str) -> None:
    found = shop.search(CASES[case].statements)
    assert found.accepted == set(CASES[case].joins)
    keys = {f"{ref}: {', '.join(columns)}" for ref, columns in found.found.primary_keys.items()}
    assert set(CASES[case].keys) <= keys
    assert found.found.problems == ()


def test_keys_that_are_given_never_cost_a_join(shop: Any) -> None:
    for name, case in CASES.items():
        given = {key.partition(": ")[0]: tuple(key.partition(": ")[2].split(", ")) for key in case.keys}
        with shop.open(case.statements) as connector:
            schema = connector.introspect(Scope())
            tables = [replace(table, primary_key=given.get(table.ref.name, ())) for table in schema.tables]
            found = shop.answer(discover_database(connector, replace(schema, tables=tuple(tables)), Scan()))
        assert found.accepted >= set(case.joins), name


@pytest.mark.table(
    ("view", "joins"),
    [
        ("SELECT order_id, customer_id, total * 2 AS doubled FROM orders",
         ("order_id) -> orders(order_id)", "customer_id) -> customers(customer_id)")),
        ("SELECT customer_id, count(*) AS many FROM orders GROUP BY 1",
         ("customer_id) -> customers(customer_id)",)),
        ("SELECT id AS product_id, name FROM products", ("product_id) -> products(id)",)),
        ("SELECT id, name || 'x' AS label FROM products", ()),
        ("SELECT order_id + 90000 AS order_id, total FROM orders", ()),
        ("SELECT total AS order_total, total AS customer FROM orders", ()),
        ("SELECT order_id, customer_id, total FROM orders WHERE total > 9",
         ("customer_id) -> customers(customer_id)",)),
    ],
)  # fmt: skip
def test_views_join_the_tables_whose_key_they_have(view: str, joins: tuple[str, ...], shop: Any) -> None:
    products = filled("products", "id INTEGER, name TEXT", 60, "n + 700", "'p' || n")
    tables = (*CUSTOMERS, *orders(), *products)
    alone = shop.search(tables)
    found = shop.search((*tables, f"CREATE VIEW shown AS {view}"))
    of_view = [each for each in found.found.relationships if each.child.name == "shown"]
    assert {found.name_of(each) for each in of_view} == {f"shown({each}" for each in joins}
    assert {(each.status, each.cardinality) for each in of_view} <= {(Status.ACCEPTED, Cardinality.MANY_TO_ONE)}
    assert [each for each in found.found.relationships if each not in of_view] == list(alone.found.relationships)
    assert found.found.keys == alone.found.keys
    assert found.found.queries == alone.found.queries + 1, "its profile, and nothing else"


def test_a_column_that_is_split_has_no_other_relationships(shop: Any) -> None:
    relationships = shop.search(CASES["what several tables hold"].statements).found.relationships
    of_column = [each for each in relationships if each.child_columns == ("commentable_id",)]
    assert len(of_column) == 2
    assert all(each.condition is not None for each in of_column)


def test_few_rows_without_a_parent_are_counted_in_the_reason(shop: Any) -> None:
    found = shop.search((*CUSTOMERS, *orders(f"CASE WHEN n % 33 THEN {TO_CUSTOMER} ELSE 7000 + n END", 330)))
    assert found.accepted == {ORDER}
    relationship = found.inferred(ORDER)
    assert relationship.reason == "Column name matches the key; 97% of rows have a match in `customers.customer_id`."
    assert relationship.check is not None
    assert (relationship.check.rows, relationship.check.missing, relationship.check.exact) == (330, 10, True)


def test_many_rows_without_a_parent_are_for_a_person(shop: Any) -> None:
    found = shop.search((*CUSTOMERS, *orders(f"CASE WHEN n % 5 < 2 THEN 7000 + n ELSE {TO_CUSTOMER} END")))
    assert found.inferred(ORDER).status is not Status.ACCEPTED
    assert "60% of rows have a match" in found.inferred(ORDER).reason


@pytest.mark.parametrize(("customer", "count"), [("NULL", 300), (TO_CUSTOMER, 0)])
def test_what_no_row_can_tell_is_for_a_person(shop: Any, customer: str, count: int) -> None:
    found = shop.search((*CUSTOMERS, *orders(customer, count)))
    relationship = found.inferred(ORDER)
    assert relationship.status is Status.REVIEW
    assert relationship.reason == (
        "Column name matches the key; there are no values to compare, so rows cannot confirm the join."
    )
    assert relationship.check is None
    high = shop.search((*CUSTOMERS, *orders(customer, count)), acceptThreshold=1.0, reviewThreshold=1.0)
    assert high.inferred(ORDER).status is Status.REVIEW
    trusting = shop.search((*CUSTOMERS, *orders(customer, count)), validationRequiredForManifest=False)
    assert trusting.inferred(ORDER).status is Status.ACCEPTED


def test_an_empty_parent_is_never_accepted(shop: Any) -> None:
    found = shop.search((*filled("customers", "customer_id INTEGER, name TEXT", 0), *orders()))
    assert found.accepted == set()
    assert not any(
        each.status is Status.REJECTED and each.parent.name == "customers" for each in found.found.relationships
    )
    key = next(choice for ref, choice in found.found.keys.items() if ref.name == "customers")
    assert (key.primary, key.confirmed) == (("customer_id",), False)


@pytest.mark.parametrize("south", [60, 80])
def test_tables_of_one_name_in_two_schemas_keep_to_their_own(shop: Any, south: int) -> None:
    statements = ["CREATE SCHEMA north", "CREATE SCHEMA south"]
    for schema, count in (("north", 80), ("south", south)):
        customers = f"SELECT range + 1 AS customer_id, 'c' || range AS name FROM range({count})"
        placed = "SELECT range AS order_id, 1 + range * 37 % 60 AS customer_id FROM range(300)"
        statements += [f"CREATE TABLE {schema}.customers AS {customers}", f"CREATE TABLE {schema}.orders AS {placed}"]
    found = shop.search(statements, "duckdb")
    assert found.accepted == {
        f"{schema}.orders(customer_id) -> {schema}.customers(customer_id)" for schema in ("north", "south")
    }
    assert found.with_status(Status.REVIEW) == set()


# -- the same every time ----------------------------------------------------------------------------------------------


def test_the_same_rows_give_the_same_answer(shop: Any) -> None:
    statements = (*CASES["what several tables hold"].statements, *CUSTOMERS, *orders())
    first = shop.search(statements)
    assert shop.search(statements).found == first.found
    shuffled = list(statements)
    creates = [each for each in shuffled if each.startswith("CREATE")]
    random.Random(3).shuffle(creates)
    again = shop.search([*creates, *(each for each in shuffled if not each.startswith("CREATE"))])
    assert (again.found.relationships, again.found.keys) == (first.found.relationships, first.found.keys)


def test_nothing_to_look_at(shop: Any) -> None:
    assert shop.search(()).found == Discovery({}, (), queries=0)
    assert shop.search(("CREATE TABLE a (b BLOB)", "INSERT INTO a VALUES (x'00')")).found.relationships == ()
