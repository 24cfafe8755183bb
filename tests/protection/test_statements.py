"""Statements that mean to read what people hid: refused, or answered without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.protection.relations import Refused
from ktx_cli.protection.statements import check_protected, tables_read
from ktx_cli.semantic.model import Column, Model, Source, Visibility
from ktx_cli.warehouses.port import SemanticType

CUSTOMERS = "semantic-layer/shop/customers.yaml"
HIDDEN = {CUSTOMERS: "name: customers\ncolumn_overrides: [{name: email, visibility: hidden}]\n"}
MASK = {CUSTOMERS: "name: customers\ncolumn_overrides: [{name: email, mask: {unless: {role: [support]}}}]\n"}
POLICY = {CUSTOMERS: "name: customers\npolicies: [{name: own, filter: \"region = 'EU'\"}]\n"}


@pytest.mark.table(
    "sql",
    [
        "SELECT email AS email FROM customers",
        "SELECT max(email) AS email FROM customers",
        "SELECT /*{%*/ email, /*%}*/ region FROM customers",
        "SELECT email FROM customers, (SELECT 1 AS x) AS y",
        "SELECT customers FROM customers",
        "SELECT to_json(c) FROM customers AS c",
        "SELECT struct_extract(c, 'email') AS z FROM customers AS c",
        "SELECT b FROM customers AS c(a, b, d)",
        "SELECT COLUMNS('em.*') FROM customers",
        "SELECT #2 FROM customers",
        "SELECT count(*) FROM orders NATURAL JOIN customers",
        "SELECT count(*) FROM customers AS a JOIN customers AS b USING (email)",
        "SUMMARIZE customers",
        "EXPLAIN SELECT email FROM customers",
        "SELECT email FROM customers WHERE id IN (WITH customers AS (SELECT 1 AS id) SELECT id FROM customers)",
        "SELECT * FROM (PIVOT customers ON email USING count(*))",
        "SELECT stats FROM pragma_storage_info('customers')",
        "SELECT 1 FROM main.\"PRAGMA_storage_info\"('customers')",
        "SELECT * FROM duckdb_table_sample('customers')",
        "SELECT * FROM histogram_values('customers', region)",
        "SELECT count(*) FROM orders, LATERAL histogram_values('customers', region)",
    ],
)
def test_no_way_leads_to_what_people_hid(sql: str, shop: Callable[..., Any]) -> None:
    """The dialect has names for whole rows, for places of columns, and for columns that are like a pattern."""
    for files in (HIDDEN, POLICY, MASK):
        made = shop(files=files, privacy="off", connections={"shop": "duckdb"})
        made.refused("sql_execution", sql=sql)
        assert made.statements == []


@pytest.mark.table(
    ("dialect", "sql"),
    [
        ("duckdb", "SELECT j FROM (customers AS c JOIN orders AS o ON TRUE) AS j"),
        ("duckdb", "SELECT to_json(j) FROM (orders AS o JOIN customers AS c ON TRUE) AS j"),
        ("duckdb", "SELECT j FROM (customers) AS j"),
        ("duckdb", "SELECT j FROM ((customers AS c JOIN orders AS o ON TRUE)) AS j"),
        ("duckdb", "SELECT b FROM (customers AS c CROSS JOIN (SELECT 1) AS q) AS j(a, b, d, e)"),
        ("postgres", "SELECT j FROM (customers AS c JOIN orders AS o ON TRUE) AS j"),
        ("postgres", "SELECT b FROM (customers AS c CROSS JOIN (SELECT 1) AS q) AS j(a, b, d, e)"),
        ("postgres", "SELECT c.to_jsonb FROM customers AS c"),
        ("postgres", "SELECT customers.concat FROM customers"),
        ("postgres", "SELECT public.customers.array_agg FROM public.customers"),
        ("postgres", "SELECT j.to_json FROM (customers AS c JOIN orders AS o ON TRUE) AS j"),
        ("postgres", "SELECT o.id FROM orders AS o, LATERAL (SELECT c.any_value FROM customers AS c) AS q"),
        ("redshift", "SELECT c.json_serialize FROM customers AS c"),
    ],
)
def test_no_row_of_a_table_with_hidden_columns_is_taken_as_one_value(
    dialect: str, sql: str, shop: Callable[..., Any]
) -> None:
    """A join in brackets has a row too, and Postgres passes a row to a function that is named like a column of it."""
    for files in (HIDDEN, MASK):
        made = shop(files=files, privacy="off", connections={"shop": dialect})
        assert "without `*` or entire rows" in made.refused("sql_execution", sql=sql)
        assert made.statements == []


@pytest.mark.table(
    ("dialect", "sql"),
    [
        ("sqlite", "SELECT ('a', 1) IN customers"),
        ("sqlite", "SELECT id FROM orders WHERE ('a', 1) NOT IN main.\"Customers\""),
        ("sqlite", "SELECT ('a', 1) IN 'customers'"),
        ("sqlite", "SELECT ('a', 1) IN [customers] AS found"),
        ("clickhouse", "SELECT ('a', 1) IN customers"),
        ("clickhouse", "SELECT ('a', 1) GLOBAL IN default.customers"),
        ("clickhouse", "SELECT ('a', 1) IN ((customers))"),
    ],
)
def test_a_name_after_in_is_a_table_in_some_databases(dialect: str, sql: str, shop: Callable[..., Any]) -> None:
    """`x IN t` compares whole rows, so it would tell whether a row has certain values."""
    for files in (HIDDEN, POLICY, MASK):
        made = shop(files=files, privacy="off", connections={"shop": dialect})
        made.refused("sql_execution", sql=sql)
        assert made.statements == []
    read = tables_read(sql, dialect) or ()
    assert any(each[-1].casefold() == "customers" for each in read), "also for the views that say so"


def test_in_reads_no_table_where_it_reads_columns() -> None:
    for dialect, sql in (("duckdb", "SELECT 1 IN a FROM t"), ("sqlite", "SELECT 1 IN (a) FROM t")):
        assert tables_read(sql, dialect) == {("t",)}
    assert tables_read("SELECT 1 IN (1), 2 IN (a, b), 3 IN 'c' FROM t", "clickhouse") == {("t",)}


@pytest.mark.parametrize("name", ["rowid", "ROWID", "oid", '"_rowid_"', "c.rowid"])
def test_sqlite_has_other_names_for_a_key(name: str, shop: Callable[..., Any]) -> None:
    files = {CUSTOMERS: "name: customers\ncolumn_overrides: [{name: id, visibility: hidden}]\n"}
    made = shop(files=files, privacy="off", connections={"shop": "sqlite"})
    made.refused("sql_execution", sql=f"SELECT {name} FROM customers AS c")
    assert made.statements == []


def test_a_name_that_postgres_cuts_is_that_of_the_hidden_column() -> None:
    name = "s" * 63
    hidden = {name: Column(name, SemanticType.STRING, visibility=Visibility.HIDDEN)}
    model = Model("shop", "postgres", {"t": Source("t", hidden, (), table=("public", "t"))})
    for sql in (f"SELECT {name}1 FROM t", f'SELECT "{name}xy" FROM t'):
        with pytest.raises(Refused, match="hidden"):
            check_protected(model, sql)
    check_protected(model, "SELECT other FROM t")


def test_a_policy_holds_where_comments_look_like_templates(shop: Callable[..., Any]) -> None:
    made = shop(files=POLICY, privacy="off")
    made.refused("sql_execution", sql="SELECT 1 AS a /*{%*/, (SELECT max(email) FROM customers) AS b /*%}*/")
    assert made.statements == []


@pytest.mark.table(
    "sql",
    [
        "SELECT id /*{%*/, (SELECT max(email) FROM customers) AS e /*%}*/ FROM orders",
        "SELECT id, email AS e FROM customers WHERE id IN (WITH customers AS (SELECT 1 AS i) SELECT i FROM customers)",
    ],
)
def test_a_source_of_its_own_reads_nothing_protected(sql: str, shop: Callable[..., Any]) -> None:
    made = shop(files=HIDDEN)
    made.ok("entity_details", targets=["orders", "customers"])
    columns = "grain: [id]\ncolumns: [{name: id, type: number}, {name: e, type: string}]\n"
    told = made.refused("sl_write_source", source="round", yaml=f'name: round\nsql: "{sql}"\n{columns}')
    assert "which has policies or hidden columns" in told


def test_no_definition_reads_what_people_hid_by_another_name(shop: Callable[..., Any]) -> None:
    made = shop(files=HIDDEN)
    made.ok("entity_details", targets=["orders", "customers"])
    head = "name: customers\ncolumn_overrides: [{name: email, visibility: hidden}]\n"
    copied = f"{head}columns: [{{name: copy, type: string, expr: email}}]\n"
    made.ok("sl_write_source", source="customers", yaml=copied)  # hidden as what it reads
    for expr in ("max(copy)", "count(CASE WHEN email LIKE 'a%' THEN 1 END)"):
        yaml = f'{copied}measures: [{{name: m, expr: "{expr}"}}]\n'
        assert "reads a hidden column" in made.refused("sl_write_source", source="customers", yaml=yaml)
    far = "name: orders\nmeasures: [{name: m, expr: max(customers.email)}]\n"
    assert "reads a hidden column" in made.refused("sl_write_source", source="orders", yaml=far)
    counted = f"{copied}measures: [{{name: m, expr: count(DISTINCT email)}}]\n"
    made.ok("sl_write_source", source="customers", yaml=counted)
