"""Statements: which run, what a model sees of the answer, and what they prove."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.agent_tools.sql import count_columns, error_text
from ktx_cli.agent_tools.toolset import unresolved_failures
from ktx_cli.core.errors import SourceError, UsageError
from ktx_cli.protection.relations import names_in

HIDDEN = {
    "semantic-layer/shop/customers.yaml": "name: customers\ncolumn_overrides: [{name: email, visibility: hidden}]\n"
}
POLICY = {"semantic-layer/shop/customers.yaml": "name: customers\npolicies: [{name: own, filter: \"region = 'EU'\"}]\n"}


class ConversionException(Exception):
    """What DuckDB raises of a value."""

    __module__ = "_duckdb"


class BinderException(Exception):
    """What DuckDB raises of a statement."""

    __module__ = "_duckdb"


def test_rows_are_shown_where_they_may_be(shop: Callable[..., Any]) -> None:
    made = shop(privacy="off")
    text = made.ok("sql_execution", sql="SELECT status, amount FROM orders ORDER BY id")
    assert "| status | amount |\n|---|---|\n| paid | 10.5 |\n| open | 4.0 |" in text
    assert "2 rows read; 2 shown." in text


def test_personal_values_are_never_shown(shop: Callable[..., Any]) -> None:
    text = shop(privacy="off").ok("sql_execution", sql="SELECT email, region FROM customers")
    assert "ada@" not in text
    assert "| (text) | EU |" in text
    assert "email: hidden, it looks like personal data" in text


@pytest.mark.table(
    ("sql", "shown"),
    [
        ("SELECT count(*) AS n FROM orders", "| 2 |"),
        ("SELECT status, count(*) AS n FROM orders GROUP BY status", "| (text) | 1 |"),
        ("SELECT count(*) - count(DISTINCT customer_id) AS d FROM orders", "| 1 |"),
        ("SELECT 1.0 * count(status) / count(*) AS d FROM orders", "| 1.0 |"),
        ("SELECT sum(amount) AS s FROM orders", "| (number) |"),
        ("SELECT sum(CASE WHEN amount > 0 THEN 1 ELSE 0 END) AS s FROM orders", "| 2 |"),
        ("SELECT avg(CASE WHEN amount > 0 THEN 1.0 ELSE 0.0 END) AS s FROM orders", "| 1.0 |"),
        ("SELECT sum(CASE WHEN amount > 0 THEN amount ELSE 0 END) AS s FROM orders", "| (number) |"),
        ("SELECT sum(CASE WHEN amount > 0 THEN 8 ELSE 0 END) AS s FROM orders", "| (integer) |"),
        ("SELECT max(CASE WHEN amount > 0 THEN 1 ELSE 0 END) AS s FROM orders", "| (integer) |"),
        ("SELECT min(email) AS m FROM customers", "| (text) |"),
        ("SELECT n FROM (SELECT email AS n FROM customers) AS t", "| (text) |"),
        ("SELECT count(*) AS n FROM orders UNION ALL SELECT id FROM customers", "| (integer) |"),
        ("SELECT count(*) + id AS n FROM customers GROUP BY id", "| (integer) |"),
    ],
)
def test_only_counts_are_shown_where_values_stay_here(sql: str, shown: str, shop: Callable[..., Any]) -> None:
    for privacy in ("local", "strict"):
        text = shop(privacy=privacy).ok("sql_execution", sql=sql)
        assert shown in text, text
        assert "ada" not in text


def test_the_limit_goes_to_the_database_and_twenty_rows_are_shown(shop: Callable[..., Any]) -> None:
    numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 500) SELECT x FROM n"
    text = shop(privacy="off").ok("sql_execution", sql=numbers, row_limit=50)
    assert "50 rows read; 20 shown." in text


def test_an_error_is_an_answer(shop: Callable[..., Any]) -> None:
    made = shop()
    text = made.ok("sql_execution", sql="SELECT nowhere FROM orders")
    assert "The statement failed" in text
    assert "no such column" in text
    assert made.session.ledger.to_json() == []
    assert unresolved_failures(made.session, made.calls) == ()


def test_a_refused_statement_is_an_answer(shop: Callable[..., Any]) -> None:
    def refuse(connection: str, sql: str, limit: int) -> Any:
        raise UsageError("the statement writes", hint="write a SELECT")

    text = shop(run_sql=refuse).ok("sql_execution", sql="DROP TABLE orders")
    assert "the statement writes\nhint: write a SELECT" in text


@pytest.mark.table(
    ("files", "sql", "told"),
    [
        (POLICY, "SELECT count(*) FROM customers", "has row policies"),
        (
            POLICY,
            "SELECT count(*) FROM orders WHERE customer_id IN (SELECT id FROM main.customers)",
            "has row policies",
        ),
        (HIDDEN, "SELECT email FROM customers", "hidden"),
        (HIDDEN, "SELECT * FROM customers", "hidden"),
        (HIDDEN, "SELECT c.* FROM orders o JOIN customers c ON c.id = o.customer_id", "hidden"),
        (HIDDEN, "SELECT count(*) FROM customers WHERE EMAIL LIKE 'a%'", "hidden"),
    ],
)
def test_what_people_hid_is_not_asked(files: dict[str, str], sql: str, told: str, shop: Callable[..., Any]) -> None:
    made = shop(files=files, privacy="off")
    assert told in made.refused("sql_execution", sql=sql)
    assert made.statements == []


def test_beside_what_is_hidden_can_be_asked(shop: Callable[..., Any]) -> None:
    assert "EU" in shop(files=HIDDEN, privacy="off").ok("sql_execution", sql="SELECT region FROM customers")


def test_there_may_be_no_database(shop: Callable[..., Any]) -> None:
    made = shop()
    made.session.run_sql = None
    assert "cannot be queried" in made.refused("sql_execution", sql="SELECT 1")


@pytest.mark.table(
    ("sql", "noted", "not_noted"),
    [
        ("SELECT count(amount) FROM orders", ["shop/orders", "shop/orders.amount"], ["shop/orders.status"]),
        ("SELECT count(note) FROM staging", ["shop/table:staging", "shop/table:staging.note"], []),
        ("SELECT count(s.note) FROM main.staging s", ["shop/table:main.staging.note", "shop/table:*.staging"], []),
        ("SELECT count(region) FROM orders, customers c", ["shop/customers.region"], ["shop/orders.region"]),
        ("WITH t AS (SELECT amount AS x FROM orders) SELECT count(x) FROM t", ["shop/orders.amount"], ["shop/table:t"]),
    ],
)
def test_what_ran_was_looked_up(sql: str, noted: list[str], not_noted: list[str], shop: Callable[..., Any]) -> None:
    made = shop()
    made.ok("sql_execution", sql=sql)
    assert all(each in made.session.ledger for each in noted), made.session.ledger.to_json()
    assert not any(each in made.session.ledger for each in not_noted)


@pytest.mark.table(
    ("sql", "tables", "columns"),
    [
        ("SELECT a FROM t", {("t",)}, {"a"}),
        ("SELECT x.a, y.b FROM s.t x JOIN u AS y ON x.id = y.id", {("s", "t"), ("u",)}, {"a", "b", "id"}),
        ("SELECT a AS z FROM t ORDER BY z", {("t",)}, {"a"}),
        ("SELECT (SELECT max(b) FROM u WHERE u.k = t.k) FROM t", {("t",), ("u",)}, {"b", "k"}),
        ("SELECT q.a FROM (SELECT a FROM t) q", {("t",)}, {"a"}),
        ("SELECT a FROM t WHERE day > {{ param.start }} {% if x %} AND b = 1 {% endif %}", {("t",)}, {"a", "day", "b"}),
        ("SELECT a AS a FROM t ORDER BY a", {("t",)}, {"a"}),
        ("SELECT 1", set(), set()),
    ],
)
def test_names_of_a_statement(sql: str, tables: set[tuple[str, ...]], columns: set[str]) -> None:
    found = names_in(sql, "sqlite", tags=True)
    assert found is not None
    assert found.tables == tables
    assert {column for _, column in found.columns} == columns


@pytest.mark.table("sql", ["SELEC", "SELECT FROM WHERE", "((((", "", ")" * 50, "SELECT 'a"])
def test_what_is_no_statement_names_nothing(sql: str) -> None:
    found = names_in(sql, "sqlite")
    assert found is None or found.tables == frozenset()


@pytest.mark.table(
    ("message", "privacy", "told"),
    [
        ("invalid input: 'ada@x.org' at 1", "local", "invalid input: … (the rest may contain row values"),
        (
            "invalid input: 'ada@x.org' at 1",
            "off",
            "invalid input: … (the rest may contain row values, including personal",
        ),
        ('column "ghost" does not exist', "local", 'column "ghost" does not exist'),
        ('no table "ORDERS" here', "strict", 'no table "ORDERS" here'),
        ("no such column: x", "strict", "no such column: x"),
    ],
)
def test_errors_tell_no_values(message: str, privacy: Any, told: str) -> None:
    assert error_text(message, "SELECT ghost FROM t", ["orders"], privacy).startswith(told)


def test_an_unreadable_statement_has_no_counts() -> None:
    assert count_columns("SELEC count(*)", "sqlite", 1) == frozenset()
    assert count_columns("SELECT count(*)", "sqlite", 2) == frozenset()


def test_an_error_of_the_tool_itself_is_no_secret(shop: Callable[..., Any]) -> None:
    def broken(connection: str, sql: str, limit: int) -> Any:
        raise RuntimeError("password=hunter2")

    made = shop(run_sql=broken)
    assert made.refused("sql_execution", sql="SELECT 1") == "Tool `sql_execution` failed: RuntimeError"
    assert [each.tool for each in unresolved_failures(made.session)] == ["sql_execution"]


def test_values_do_not_become_names_of_columns(shop: Callable[..., Any]) -> None:
    made = shop(connections={"shop": "duckdb"})
    assert "PIVOT" in made.refused("sql_execution", sql="SELECT * FROM (PIVOT customers ON email USING count(*))")
    assert made.statements == []


@pytest.mark.table(
    ("dialect", "driver", "told"),
    [
        (
            "duckdb",
            ConversionException("Could not convert string 'a'ada' to INT32"),
            "refused it with ConversionException",
        ),
        (
            "duckdb",
            ConversionException("Overflow in multiplication of INT64 (77 * 9)!"),
            "refused it with ConversionException",
        ),
        ("sqlite", sqlite3.OperationalError("bad JSON path: 'ada'"), "refused it with OperationalError"),
        ("sqlite", sqlite3.OperationalError("no such column: ada"), "refused it with OperationalError"),
        ("sqlite", sqlite3.OperationalError("no such column: nowhere"), "no such column: nowhere"),
        ("duckdb", BinderException('column "nowhere" not found'), 'connection `shop`: column "nowhere" not found'),
    ],
)
def test_what_a_database_says_of_rows_is_not_told(
    dialect: str, driver: Exception, told: str, shop: Callable[..., Any]
) -> None:
    """A statement can have it quote a value so that nobody can tell where the value ends."""

    def refuse(connection: str, sql: str, limit: int) -> Any:
        raise SourceError(f"connection `shop`: {driver}", code="query") from driver

    for privacy in ("off", "local", "strict"):
        made = shop(run_sql=refuse, privacy=privacy, connections={"shop": dialect})
        text = made.ok("sql_execution", sql="SELECT CAST('a''' || nowhere AS INTEGER) FROM orders")
        assert told in text
        assert not {"ada", "77"} & set(re.findall(r"\w+", text))


@pytest.mark.table(
    ("sql", "width"),
    [
        ("SELECT round(11111111, -id) FROM customers", 1),
        ("SELECT sum(CASE WHEN id > 1 THEN id END) FROM customers", 1),
        ("SELECT sum(CASE WHEN id > 1 THEN 1 ELSE id END) FROM customers", 1),
        ("SELECT sum(DISTINCT CASE WHEN id > 1 THEN 1 END) FROM customers", 1),
        ("SELECT sum(CASE WHEN id > 1 THEN 1 END) OVER (ORDER BY id) FROM customers", 1),
        ("SELECT sum(CASE WHEN id > 1 THEN CAST(email AS INT) END) FROM customers", 1),
        ("SELECT sum(CASE id WHEN 1 THEN (SELECT id FROM orders LIMIT 1) END) FROM customers", 1),
        ("SELECT sum(id) FROM customers", 1),
        ("SELECT z.*, 1, c.* FROM (SELECT) AS z, (SELECT email, id FROM customers) AS c", 3),
    ],
)
def test_what_is_computed_from_rows_is_no_count(sql: str, width: int) -> None:
    assert count_columns(sql, "postgres", width) == frozenset()
