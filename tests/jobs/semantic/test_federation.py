"""One statement over several databases: what each of them is asked, and the same rows as one database would return."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktx_cli.core.errors import SourceError, UsageError
from ktx_cli.jobs.semantic import federation
from ktx_cli.jobs.semantic.federation import FEDERATED, member_tables
from ktx_cli.jobs.semantic.sql import run_sql
from ktx_cli.project.config.file import load_config
from ktx_cli.project.layout import Layout
from ktx_cli.testing.servers import MariaDBServer, PostgresServer
from ktx_cli.warehouses.guard.functions import StatementRefusedError

ORDERS = "CREATE TABLE orders (id INTEGER, customer_id INTEGER, amount {real}, status {text}, day DATE)"
CUSTOMERS = "CREATE TABLE customers (id INTEGER, name {text}, status {text})"
ROWS = {
    "orders": "(1, 1, 10.5, 'paid', '2024-01-01'), (2, 2, 5, 'open', '2024-01-02'), (3, 1, 7.25, 'paid', NULL), "
    "(4, 9, NULL, NULL, '2024-03-01')",
    "customers": "(1, 'Ann', 'old'), (2, 'Bo', 'new'), (3, NULL, NULL)",
}
SHARDS = {
    "shop": "tables:\n  orders:\n    table: {orders}\n    columns:\n"
    "    - {{name: id, type: number}}\n    - {{name: customer_id, type: number}}\n"
    "    - {{name: amount, type: number}}\n"
    "    - {{name: status, type: string}}\n    - {{name: day, type: time}}\n",
    "crm": "tables:\n  customers:\n    table: {customers}\n    columns:\n"
    "    - {{name: id, type: number}}\n    - {{name: name, type: string}}\n    - {{name: status, type: string}}\n",
}


def shards(folder: Path, **tables: str) -> None:
    for connection, text in SHARDS.items():
        place = folder / "semantic-layer" / connection / "_schema" / "main.yaml"
        place.parent.mkdir(parents=True)
        place.write_text(text.format(**tables))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with orders in SQLite and customers in DuckDB."""
    folder = tmp_path_factory.mktemp("federated")
    with sqlite3.connect(folder / "shop.sqlite") as shop:
        shop.execute(ORDERS.format(real="REAL", text="TEXT"))
        shop.execute(f"INSERT INTO orders VALUES {ROWS['orders']}")
    shop.close()
    with duckdb.connect(str(folder / "crm.duckdb")) as crm:
        crm.execute(CUSTOMERS.format(text="VARCHAR"))
        crm.execute(f"INSERT INTO customers VALUES {ROWS['customers']}")
    (folder / "ktx.yaml").write_text(
        "connections:\n  shop: {driver: sqlite, path: shop.sqlite}\n  crm: {driver: duckdb, path: crm.duckdb}\n"
    )
    shards(folder, orders="orders", customers="main.customers")
    return folder


def ask(folder: Path, sql: str, **options: Any) -> Any:
    layout = Layout(folder)
    config = load_config(layout.config).config
    return run_sql(layout, config, sql, environ={}, connection=FEDERATED, **options)


def asked(folder: Path, sql: str) -> dict[str, str]:
    layout = Layout(folder)
    return {each.connection: each.sql for each in member_tables(layout, load_config(layout.config).config, sql)}


ALL = 'SELECT "id", "customer_id", "amount", "status", "day" FROM "orders"'
BY_STATUS = 'SELECT "id", "status" FROM "orders"'
BETWEEN = (
    'SELECT "id", "amount", "status" FROM "orders" '
    """WHERE "status" = 'paid' AND "amount" BETWEEN 1 AND 2"""
)
BY_ID = 'SELECT "id", "customer_id" FROM "orders"'


@pytest.mark.table(
    ("sql", "shop"),
    [
        ("SELECT * FROM shop.orders", ALL),
        ("FROM shop.orders", ALL),
        ("SELECT o FROM shop.orders AS o", ALL),
        ("SELECT count(*) FROM shop.orders", 'SELECT "id" FROM "orders"'),
        ("SELECT amount FROM shop.orders WHERE amount > -1.5", 'SELECT "amount" FROM "orders" WHERE "amount" > -1.5'),
        (
            "SELECT o.id FROM shop.orders AS o JOIN crm.customers AS c ON c.id = o.customer_id WHERE o.id IN (1, 2)",
            BY_ID + ' WHERE "id" IN (1, 2)',
        ),
        ("SELECT id FROM shop.orders WHERE status = 'paid' AND (amount BETWEEN 1 AND 2)",
         BETWEEN),
        # What may mean something else in the other database, or keeps rows that the result needs, stays here.
        ("SELECT id FROM shop.orders WHERE status > 'a'", BY_STATUS),
        ("SELECT id FROM shop.orders WHERE status = 1", BY_STATUS),
        ("SELECT id FROM shop.orders WHERE day = '2024-01-01'", 'SELECT "id", "day" FROM "orders"'),
        ("SELECT id FROM shop.orders WHERE id = 1 OR id = 2", 'SELECT "id" FROM "orders"'),
        ("SELECT id FROM shop.orders WHERE NOT id = 1", 'SELECT "id" FROM "orders"'),
        ("SELECT id FROM shop.orders WHERE id = customer_id", BY_ID),
        ("SELECT id FROM shop.orders WHERE id IN (SELECT 1)", 'SELECT "id" FROM "orders"'),
        (
            "SELECT o.id FROM crm.customers AS c LEFT JOIN shop.orders AS o ON c.id = o.customer_id WHERE o.id = 1",
            BY_ID,
        ),
        (
            "SELECT o.id FROM shop.orders AS o JOIN crm.customers AS c ON c.id = o.customer_id WHERE id = 1",
            BY_ID,
        ),
        ("SELECT id FROM shop.orders WHERE id = 1 UNION ALL SELECT id FROM shop.orders", 'SELECT "id" FROM "orders"'),
        ("WITH orders AS (SELECT id FROM shop.orders) SELECT * FROM orders WHERE id = 1", ALL),
        ("SELECT o.id FROM (shop.orders AS o ANTI JOIN crm.customers AS c ON c.id = o.id) WHERE o.id = 1",
         'SELECT "id" FROM "orders"'),
        ("SELECT a FROM shop.orders AS o(a, id) WHERE id = 1", ALL),
        ("SELECT * FROM shop.orders UNPIVOT (v FOR k IN (amount, id)) WHERE v > 1", ALL),
        ("SELECT #2 FROM shop.orders", ALL),
        ("SELECT o.id FROM shop.orders AS o JOIN shop.ORDERS AS p USING (id) WHERE o.id = 1",
         'SELECT "id" FROM "orders"'),
        ("WITH x AS (SELECT id FROM shop.orders WHERE id = 1) SELECT id FROM x",
         'SELECT "id" FROM "orders" WHERE "id" = 1'),
    ],
)  # fmt: skip
def test_what_a_database_is_asked(sql: str, shop: str, project: Path) -> None:
    assert asked(project, sql)["shop"] == shop


@pytest.mark.table(
    ("sql", "problem"),
    [
        ("SELECT 1", "the statement reads no table"),
        ("SELECT * FROM orders", "`orders` does not begin with the id of a database"),
        ("SELECT * FROM shap.orders", "`shap.orders` does not begin with the id of a database"),
        ("SELECT * FROM shop.order", "no scan of `shop` found a table `order`"),
        ("SELECT * FROM shop.other.orders", "no scan of `shop` found a table `other.orders`"),
        ("SELECT o.amuont FROM shop.orders AS o", "no scan found a column `amuont` of `shop.orders`"),
        ("SELECT amuont FROM shop.orders", "no scan found a column `amuont` of `shop.orders`"),
        ("SELECT * FROM information_schema.tables", "`information_schema` is of one database"),
        ("SELECT rowid FROM shop.orders AS o, crm.customers AS c", "no scan found a column `rowid` of `crm.customers`"),
        ("EXPLAIN SELECT * FROM shop.orders", "the connection `_ktx_federated` only runs SELECT"),
    ],
)
def test_a_table_that_is_not_there(sql: str, problem: str, project: Path) -> None:
    with pytest.raises(UsageError) as caught:
        ask(project, sql)
    assert caught.value.message == problem


def test_only_people_are_told_similar_names(project: Path) -> None:
    hints = []
    for check in ({}, {"check": lambda connection, sql: None}):
        with pytest.raises(UsageError) as caught:
            ask(project, "SELECT * FROM shop.order", **check)
        hints.append(str(caught.value.hint))
    assert ["orders" in hint for hint in hints] == [True, False]


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM shop.orders",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM shop.orders; SELECT 1",
        "ATTACH 'x.duckdb' AS x",
        "COPY shop.orders TO 'orders.csv'",
    ],
)
def test_the_guard_comes_first(sql: str, project: Path) -> None:
    with pytest.raises(StatementRefusedError):
        ask(project, sql)


def test_each_part_is_checked_before_any_database_is_opened(project: Path) -> None:
    seen: list[tuple[str, str]] = []

    def check(connection: str, sql: str) -> None:
        seen.append((connection, sql))
        if connection == "shop":
            raise UsageError("no")

    def opener(*_: Any, **__: Any) -> Any:
        raise AssertionError("opened")

    with pytest.raises(UsageError, match="no"):
        ask(project, "SELECT o.id, c.name FROM shop.orders o, crm.customers c", check=check, opener=opener)
    assert [each for each, _ in seen] == ["crm", "shop"]


def test_a_connection_for_the_semantic_layer_alone_takes_no_part(project: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(project, tmp_path / "copy"))
    config = (copy / "ktx.yaml").read_text()
    (copy / "ktx.yaml").write_text(config.replace("shop.sqlite}", "shop.sqlite, query_policy: semantic-layer-only}"))
    with pytest.raises(UsageError, match="does not allow raw SQL"):
        ask(copy, "SELECT * FROM shop.orders")


def test_a_table_with_too_many_rows_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(federation, "MOST_TABLE_ROWS", 2)
    with pytest.raises(
        SourceError, match=r"`shop.orders` has too many rows to join here: more than the 2 that can be read"
    ):
        ask(project, "SELECT count(*) FROM shop.orders")
    assert ask(project, "SELECT count(*) FROM shop.orders WHERE status = 'paid'").rows == ((2,),)


CONDITIONS = st.sampled_from(
    [
        *(
            "o.id = 1",
            "o.id IN (1, 4)",
            "o.amount > 6",
            "o.amount BETWEEN 5 AND 8",
            "o.status = 'paid'",
            "o.amount IS NULL",
        ),
        *("c.name = 'Ann'", "c.id < 3", "c.status IN ('old', 'new')", "NOT c.id = 1", "o.status = 'paid' OR c.id = 2"),
        *("o.day = DATE '2024-01-02'", "c.name IS NULL", "o.id = c.id", "o.status <> c.status"),
    ]
)


def test_one_table_by_several_names_is_read_once(project: Path) -> None:
    sql = (
        "SELECT count(*) FROM crm.customers c JOIN crm.Main.Customers d USING (id) JOIN CRM.main.CUSTOMERS e USING (id)"
    )
    assert ask(project, sql).rows == ((3,),)
    layout = Layout(project)
    assert len(member_tables(layout, load_config(layout.config).config, sql)) == 1


def test_the_rows_of_all_tables_together_are_limited(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(federation, "MOST_TABLE_ROWS", 5)
    with pytest.raises(SourceError, match="has too many rows to join here"):
        ask(project, "SELECT count(*) FROM shop.orders, crm.customers")
    monkeypatch.setattr(federation, "MOST_TABLE_ROWS", 7)
    assert ask(project, "SELECT count(*) FROM shop.orders, crm.customers").rows == ((12,),)
    monkeypatch.setattr(federation, "MOST_BYTES", 10)
    with pytest.raises(SourceError, match="the rows read are larger"):
        ask(project, "SELECT count(*) FROM shop.orders, crm.customers")
    monkeypatch.setattr(federation, "MOST_TABLES", 1)
    with pytest.raises(UsageError, match="the statement reads 2 tables; the most is 1"):
        ask(project, "SELECT count(*) FROM shop.orders, crm.customers")


JOINS = st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "SEMI JOIN", "ANTI JOIN"])


@pytest.fixture(scope="module")
def alone() -> Callable[[str], list[tuple[Any, ...]]]:
    """Return a function that runs the statement on one DuckDB with both tables."""
    session = duckdb.connect()
    for database, table, statement in (("shop", "orders", ORDERS), ("crm", "customers", CUSTOMERS)):
        session.execute(f"ATTACH ':memory:' AS {database}")
        session.execute(f"USE {database}")
        session.execute(statement.format(real="DOUBLE", text="VARCHAR"))
        session.execute(f"INSERT INTO {table} VALUES {ROWS[table]}")
    return lambda sql: session.execute(sql).fetchall()


@settings(max_examples=25, deadline=None)
@given(join=JOINS, conditions=st.lists(CONDITIONS, max_size=3), flipped=st.booleans())
def test_the_same_rows_as_in_one_database(
    join: str, conditions: list[str], flipped: bool, project: Path, alone: Callable[[str], list[tuple[Any, ...]]]
) -> None:
    first, second = ("crm.customers c", "shop.orders o") if flipped else ("shop.orders o", "crm.customers c")
    gone = {"SEMI JOIN": second[-1], "ANTI JOIN": second[-1]}.get(join, "-")
    kept = [each for each in conditions if f"{gone}." not in each]
    shown = ["o.id", "o.amount", "c.name"] if gone == "-" else [f"{first[-1]}.id"]
    on = "" if join == "CROSS JOIN" else "ON c.id = o.customer_id"
    where = f"WHERE {' AND '.join(f'({each})' for each in kept)}" if kept else ""
    sql = f"SELECT {', '.join(shown)} FROM {first} {join} {second} {on} {where} ORDER BY ALL"
    assert [tuple(row) for row in ask(project, sql).rows] == alone(sql)


@pytest.mark.postgres
@pytest.mark.mysql
def test_tables_of_two_servers(postgres_server: PostgresServer, mariadb_server: MariaDBServer, tmp_path: Path) -> None:
    orders = postgres_server.create_database(
        "federated_orders",
        ORDERS.format(real="NUMERIC(10, 2)", text="TEXT"),
        f"INSERT INTO orders VALUES {ROWS['orders']}",
    )
    customers = mariadb_server.create_database(
        "federated_customers", CUSTOMERS.format(text="VARCHAR(9)"), f"INSERT INTO customers VALUES {ROWS['customers']}"
    )
    (tmp_path / "ktx.yaml").write_text(
        f"connections:\n  shop: {{driver: postgres, url: '{orders}'}}\n  crm: {{driver: mysql, url: '{customers}'}}\n"
    )
    shards(tmp_path, orders="public.orders", customers="federated_customers.customers")
    sql = (
        "SELECT c.name, sum(o.amount) AS total, min(o.day) AS first_day FROM shop.public.orders AS o "
        "JOIN crm.customers AS c ON c.id = o.customer_id WHERE o.status = 'paid' GROUP BY ALL"
    )
    assert ask(tmp_path, sql).rows == (("Ann", "17.75", "2024-01-01"),)
