"""The joins in view definitions."""

from __future__ import annotations

import pytest

from ktx_cli.scan.relationships.hints import LONGEST_VIEW, JoinHint, ViewJoins
from ktx_cli.warehouses.port import Column, SemanticType, Table, TableKind, TableRef

TABLES = {
    "orders": "order_id customer_id placed_on",
    "customers": "id name region_id",
    "regions": "region_id name",
    "order_lines": "order_id line product",
    "shipments": "order_id sent_on",
}


def table(name: str, columns: str, schema: str | None = None) -> Table:
    made = tuple(Column(each, "INTEGER", SemanticType.NUMBER) for each in columns.split())
    return Table(TableRef(schema, name), TableKind.TABLE, made)


def view(name: str, sql: str, schema: str | None = None) -> Table:
    return Table(TableRef(schema, name), TableKind.VIEW, (), view_sql=sql)


def pairs(hints: list[JoinHint]) -> set[str]:
    """Return `a.x=b.y` for the hints, each of which has to be there in both directions."""
    ends = {(f"{h.child}.{h.child_columns[0]}", f"{h.parent}.{h.parent_columns[0]}") for h in hints}
    assert ends == {(parent, child) for child, parent in ends}
    return {"=".join(sorted(each)) for each in ends}


def joins_of(sql: str) -> set[str]:
    tables = [table(name, columns) for name, columns in TABLES.items()]
    joins = ViewJoins("sqlite")
    found = pairs(list(joins.hints([*tables, view("v", sql)])))
    assert joins.unread == []
    return found


CASES = {
    "names": "SELECT * FROM orders JOIN customers ON orders.customer_id = customers.id",
    "aliases": "SELECT * FROM orders AS o LEFT JOIN customers c ON (o.customer_id) = c.id",
    "create": "CREATE VIEW v AS SELECT * FROM orders o JOIN customers c ON o.customer_id = c.id",
    "capitals": 'SELECT * FROM ORDERS O JOIN "Customers" C ON o.CUSTOMER_ID = C.Id',
    "other way": "SELECT * FROM customers c JOIN orders o ON c.id = o.customer_id AND o.placed_on = 3",
    "where": "SELECT * FROM orders o, customers c WHERE o.customer_id = c.id AND o.placed_on > 3",
    "no prefix": "SELECT * FROM orders JOIN customers ON customer_id = id",
    "subquery": "SELECT * FROM (SELECT o.* FROM orders o JOIN customers c ON o.customer_id = c.id) AS both",
    "in where": "SELECT 1 FROM regions WHERE EXISTS (SELECT 1 FROM orders o, customers c WHERE o.customer_id = c.id)",
    "with": "WITH both AS (SELECT c.name FROM orders o JOIN customers c ON o.customer_id = c.id) SELECT * FROM both",
    "union": "SELECT 1 FROM regions UNION SELECT 2 FROM orders o JOIN customers c ON o.customer_id = c.id",
    "brackets": "SELECT c.name FROM (orders o JOIN customers c ON ((o.customer_id = c.id)))",
    "more brackets": "SELECT 1 FROM ((orders o JOIN customers c ON ((o.customer_id = c.id))) JOIN regions r ON (true))",
}


@pytest.mark.table("case", CASES)
def test_a_join_is_found(case: str) -> None:
    assert joins_of(CASES[case]) == {"customers.id=orders.customer_id"}


NOTHING = {
    "one table": "SELECT * FROM orders WHERE order_id = customer_id",
    "not equal": "SELECT * FROM orders o JOIN customers c ON o.customer_id < c.id",
    "a number": "SELECT * FROM orders o JOIN customers c ON o.customer_id = 3",
    "an expression": "SELECT * FROM orders o JOIN customers c ON o.customer_id + 1 = c.id",
    "a column of two tables": "SELECT * FROM orders o JOIN customers c JOIN regions r ON name = customer_id",
    "an unknown table": "SELECT * FROM orders o JOIN elsewhere e ON o.customer_id = e.id",
    "an unknown column": "SELECT * FROM orders o JOIN customers c ON o.customer = c.id",
    "a name of WITH": "WITH customers AS (SELECT 1 AS id) SELECT 1 FROM orders JOIN customers c ON c.id = customer_id",
    "inside a subquery": "SELECT * FROM (SELECT id AS x FROM customers) s JOIN orders o ON o.customer_id = id",
}


@pytest.mark.table("case", NOTHING)
def test_nothing_is_found(case: str) -> None:
    assert joins_of(NOTHING[case]) == set()


def test_using_joins_one_table_after_the_other() -> None:
    assert joins_of("SELECT * FROM orders JOIN order_lines USING (order_id)") == {
        "order_lines.order_id=orders.order_id"
    }
    three = "SELECT * FROM order_lines JOIN orders USING (order_id) JOIN shipments USING (order_id)"
    assert joins_of(three) == {"order_lines.order_id=orders.order_id", "orders.order_id=shipments.order_id"}


def test_several_joins() -> None:
    sql = "SELECT * FROM orders o JOIN customers c ON o.customer_id = c.id JOIN regions r ON r.region_id = c.region_id"
    assert joins_of(sql) == {"customers.id=orders.customer_id", "customers.region_id=regions.region_id"}


def test_a_view_means_the_tables_of_its_own_schema() -> None:
    tables = [table(name, TABLES[name], schema) for schema in ("north", "south") for name in ("orders", "customers")]
    join = "SELECT * FROM {0}orders o JOIN {1}customers c ON o.customer_id = c.id"

    def found(sql: str, schema: str) -> set[str]:
        return pairs(list(ViewJoins("postgres").hints([*tables, view("v", sql, schema)])))

    south = {"south.customers.id=south.orders.customer_id"}
    assert found(join.format("", ""), "south") == south
    assert found(join.format("south.", "south."), "north") == south
    assert found(join.format("north.", "south."), "east") == {"north.orders.customer_id=south.customers.id"}
    assert found(join.format("", ""), "east") == set()
    assert found(join.format("west.", "south."), "south") == set()


@pytest.mark.table("sql", ["SELECT FROM WHERE (", "SELECT 1 -- " + "x" * LONGEST_VIEW, "SELECT '", "(" * 3000])
def test_a_view_that_cannot_be_read_costs_only_itself(sql: str) -> None:
    tables = [table(name, columns) for name, columns in TABLES.items()]
    joins = ViewJoins("sqlite")
    views = [view("bad", sql), view("good", CASES["names"])]
    assert pairs(list(joins.hints([*tables, *views]))) == {"customers.id=orders.customer_id"}
    assert joins.unread == [TableRef(None, "bad")]


def test_a_hint_says_where_it_is_from() -> None:
    tables = [table(name, columns) for name, columns in TABLES.items()]
    hint = next(iter(ViewJoins("sqlite").hints([*tables, view("sales", CASES["names"])])))
    assert hint.source == "view"
    assert list(ViewJoins("sqlite").hints(tables)) == []
