"""What people hid is not read through views of the database, whatever they are called and however they nest."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from ktx_cli.protection.relations import Refused, Relations, is_query_name
from ktx_cli.protection.statements import check_protected
from ktx_cli.semantic.masks import same_table
from ktx_cli.warehouses.port import ConnectionSpec, Scope, Table, TableKind
from ktx_cli.warehouses.registry import connect
from tests.agent_tools.conftest import TABLES, relation, snapshot

CUSTOMERS = "semantic-layer/shop/customers.yaml"
HIDDEN = {CUSTOMERS: "name: customers\ncolumn_overrides: [{name: email, visibility: hidden}]\n"}
MASK = {CUSTOMERS: "name: customers\ncolumn_overrides: [{name: email, mask: {unless: {role: [support]}}}]\n"}
SECRET = {CUSTOMERS: "name: customers\nvisibility: hidden\n"}
POLICY = {CUSTOMERS: "name: customers\npolicies: [{name: own, filter: \"region = 'EU'\"}]\n"}
NOTHING: dict[str, str] = {CUSTOMERS: "name: customers\n"}


def view(name: str, sql: str | None, kind: TableKind = TableKind.VIEW) -> Table:
    return relation(name, kind, sql if sql is None else f"CREATE VIEW {name} AS {sql}")


VIEWS = (
    view("mails", "SELECT id, email AS m FROM customers"),
    view("whole", "SELECT * FROM customers"),
    view("rows_of", "SELECT c FROM customers AS c"),
    view("deep", "SELECT m FROM mails"),
    view("shadowed", "WITH mails AS (SELECT m FROM mails) SELECT m FROM mails"),
    view("sorted_by", "SELECT id FROM customers ORDER BY email"),
    view("calling", "SELECT mail_of(id) AS m FROM orders"),
    view("unsaid", None),
    view("broken", "SELEC m FROM"),
    view("stored", "SELECT email AS m FROM customers", TableKind.MATERIALIZED_VIEW),
    view("nowhere", "SELECT m FROM not_scanned"),
    view("in_circles", "SELECT m FROM in_circles UNION ALL SELECT m FROM mails"),
    relation("elsewhere", TableKind.FOREIGN),
    view("regions", "SELECT id, upper(region) AS r FROM customers WHERE region IS NOT NULL"),
    view("paid", "WITH p AS (SELECT id FROM orders WHERE status = 'paid') SELECT id FROM p"),
    view("both", "SELECT r.r, p.id FROM regions AS r JOIN paid AS p ON p.id = r.id"),
)
SCANNED = snapshot(*TABLES, *VIEWS)


@pytest.mark.table(
    ("name", "told"),
    [
        ("mails", "`mails` is a view that reads `customers`, which is hidden or has a hidden column"),
        ("whole", "reads `customers`"),
        ("rows_of", "reads `customers`"),
        ("deep", "`mails` is a view that reads `customers`"),
        ("shadowed", "`mails` is a view that reads `customers`"),
        ("sorted_by", "reads `customers`"),
        ("calling", "calls `mail_of`"),
        ("unsaid", "`unsaid` is a view with unknown content"),
        ("broken", "with unknown content"),
        ("stored", "`stored` is a view that reads `customers`"),
        ("nowhere", "the last scan did not find `not_scanned`"),
        ("in_circles", "`mails` is a view that reads `customers`"),
        ("elsewhere", "`elsewhere` is a table that is stored elsewhere with unknown content"),
        ("not_scanned", "not_scanned`, so it may be a view"),
    ],
)
def test_what_leads_to_a_hidden_column_is_not_read(name: str, told: str, shop: Callable[..., Any]) -> None:
    for sql in (f"SELECT m FROM {name}", f"SELECT count(*) FROM orders WHERE id IN (SELECT m FROM main.{name})"):
        for files in (HIDDEN, MASK):
            made = shop(files={**SCANNED, **files}, privacy="off")
            assert told in made.refused("sql_execution", sql=sql)
            assert made.statements == []


@pytest.mark.table("name", ["regions", "both", "whole", "deep"])
def test_no_row_under_a_policy_or_of_a_hidden_source_is_read(name: str, shop: Callable[..., Any]) -> None:
    for files, told in ((POLICY, "has row policies"), (SECRET, "is hidden")):
        made = shop(files={**SCANNED, **files}, privacy="off")
        assert told in made.refused("sql_execution", sql=f"SELECT count(*) FROM {name}")
        assert made.statements == []


@pytest.mark.table(
    "sql",
    [
        "SELECT r FROM regions",
        "SELECT id FROM paid",
        "SELECT id FROM both",
        "SELECT name FROM sqlite_schema",
        "WITH mine AS (SELECT id FROM orders) SELECT id FROM mine",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5) SELECT x FROM n",
    ],
)
def test_views_that_leave_it_alone_are_read(sql: str, shop: Callable[..., Any]) -> None:
    asked: list[str] = []

    def run(connection: str, sql: str, limit: int) -> Any:
        asked.append(sql)
        raise AssertionError("asked")

    shop(files={**SCANNED, **HIDDEN}, run_sql=run).refused("sql_execution", sql=sql)
    assert asked == [sql]


def test_where_nothing_is_hidden_no_scan_is_asked(shop: Callable[..., Any]) -> None:
    made = shop(files={**NOTHING, "raw-sources/shop/live-database/manifest.yaml": None})
    made.ok("sql_execution", sql="SELECT count(*) FROM orders")


@pytest.mark.parametrize("path", ["manifest.yaml", "tables/paid.json"])
@pytest.mark.parametrize("content", [None, "files: [", '{"name": "paid", "kind": "table"}'])
def test_a_scan_that_is_gone_or_was_changed_tells_nothing(
    path: str, content: str | None, shop: Callable[..., Any]
) -> None:
    mark = relation(f"of {path} {content}")  # what was read of one snapshot is kept for the process
    scanned = {**snapshot(*TABLES, *VIEWS, mark), f"raw-sources/shop/live-database/{path}": content}
    made = shop(files={**scanned, **HIDDEN}, privacy="off")
    assert "the last scan did not find" in made.refused("sql_execution", sql="SELECT id FROM paid")


@pytest.mark.table(
    ("sql", "are_queries"),
    [
        ("WITH t AS (SELECT 1) SELECT * FROM t", [True]),
        ("WITH t AS (SELECT 1) SELECT * FROM (SELECT * FROM t) AS q", [True]),
        ("WITH t AS (SELECT * FROM t) SELECT 1", [False]),
        ("WITH RECURSIVE t AS (SELECT * FROM t) SELECT 1", [False]),
        ("WITH RECURSIVE t AS (SELECT 1 UNION ALL SELECT * FROM t) SELECT 1", [True]),
        ("WITH RECURSIVE t AS (SELECT * FROM t UNION ALL SELECT 1) SELECT 1", [False]),
        ("WITH a AS (SELECT * FROM t), t AS (SELECT 1) SELECT 1", [False]),
        ("WITH t AS (SELECT 1), a AS (SELECT * FROM t) SELECT 1", [True]),
        ("WITH t AS (SELECT 1) SELECT * FROM s.t", [False]),
        ('WITH "T" AS (SELECT 1) SELECT * FROM t', [False]),
        ('WITH "t" AS (SELECT 1) SELECT * FROM t', [False]),
        ("SELECT * FROM t WHERE 1 IN (WITH t AS (SELECT 1) SELECT * FROM t)", [False, True]),
        ("SELECT (WITH t AS (SELECT 1) SELECT 2), (SELECT 1 FROM t)", [False]),
    ],
)
def test_which_names_are_those_of_queries(sql: str, are_queries: list[bool]) -> None:
    assert sorted(_found(sql)) == sorted(are_queries)


@pytest.mark.table(
    ("dialect", "sql", "refused"),
    [
        ("postgres", " SELECT c.id,\n    c.email AS m\n   FROM customers c;", "reads `customers`"),
        ("postgres", " SELECT c.id,\n    lower((c.region)::text) AS r\n   FROM public.customers c;", ""),
        ("postgres", " SELECT (c.id OPERATOR(mine.+) 1) AS m\n   FROM public.customers c;", "calls `mine.+`"),
        ("mysql", "select `shop`.`customers`.`email` AS `m` from `shop`.`customers`", "reads `customers`"),
        ("mysql", "select `c`.`id` AS `id`,upper(`c`.`region`) AS `r` from `shop`.`customers` `c`", ""),
        ("duckdb", "CREATE VIEW v (a, b) AS SELECT id, email FROM customers;", "reads `customers`"),
        ("duckdb", "CREATE VIEW v (a, b) AS SELECT id, region FROM customers;", ""),
        ("duckdb", "CREATE VIEW v AS FROM customers;", "reads `customers`"),
        (
            "tsql",
            "CREATE VIEW [dbo].[v] WITH SCHEMABINDING AS SELECT email AS m FROM dbo.customers",
            "reads `customers`",
        ),
        ("snowflake", "create or replace secure view v(a) as select region from customers", ""),
        ("bigquery", "SELECT email AS m FROM `p.d.customers`", "reads `customers`"),
        ("clickhouse", "SELECT region FROM shop.customers", ""),
        ("clickhouse", "WITH (SELECT 1) AS other SELECT m FROM other", "the last scan did not find `other`"),
        ("databricks", "SELECT region FROM cat.shop.customers", ""),
        ("athena", "CREATE VIEW shop.v AS SELECT email AS m FROM shop.customers", "reads `customers`"),
        ("spark", "SELECT email AS m FROM shop.customers", "reads `customers`"),
        ("trino", "SELECT email AS m FROM shop.customers", "reads `customers`"),
        ("redshift", "SELECT region FROM shop.customers", ""),
        ("postgres", "TABLE customers", "reads `customers`"),
        ("teradata", "SELECT region FROM customers", "that calls unknown functions"),
    ],
)
def test_definitions_as_databases_write_them(dialect: str, sql: str, refused: str, shop: Callable[..., Any]) -> None:
    model = shop(files=HIDDEN).session.model("shop")
    relations = Relations([*TABLES, relation("v", TableKind.VIEW, sql)])
    try:
        check_protected(replace(model, dialect=dialect), "SELECT count(*) AS n FROM v", relations)
    except Refused as error:
        assert refused, str(error)
        assert refused in str(error)
    else:
        assert not refused


def _found(sql: str) -> Iterator[bool]:
    for table in sqlglot.parse_one(sql, read="postgres").find_all(exp.Table):
        yield is_query_name(table)


ASKED = [("labels", "reads `people`"), ("nested", "reads `people`"), ("every", "reads `people`"), ("kept", "")]
MADE = """
CREATE TABLE people (id INTEGER, email TEXT, region TEXT);
CREATE VIEW labels AS SELECT id, email AS label FROM people;
CREATE VIEW nested AS SELECT label FROM labels;
CREATE VIEW every AS SELECT * FROM people;
CREATE VIEW kept AS SELECT id, upper(region) AS r FROM people;
"""
LAYER = {
    "semantic-layer/shop/_schema/main.yaml": "tables: {people: {table: people, columns: [{name: id, type: number}, "
    "{name: email, type: string}, {name: region, type: string}]}}\n",
    "semantic-layer/shop/people.yaml": "name: people\ncolumn_overrides: [{name: email, visibility: hidden}]\n",
    "semantic-layer/shop/orders.yaml": None,
    "wiki/global/revenue.md": None,
}


@pytest.mark.parametrize("driver", ["sqlite", "duckdb"])
def test_views_are_known_by_what_a_real_database_says_of_them(
    driver: str, tmp_path: Path, shop: Callable[..., Any]
) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path) if driver == "sqlite" else duckdb.connect(str(path))) as made:
        (made.executescript if driver == "sqlite" else made.execute)(MADE)
    with connect(ConnectionSpec("shop", driver, {"path": str(path)})) as connector:
        files = {**LAYER, **snapshot(*connector.introspect(Scope()).tables)}
        session = {"files": files, "connections": {"shop": driver}, "privacy": "off"}
        for name, told in ASKED:
            asked = shop(**session, run_sql=lambda _, sql, limit: connector.query(sql, max_rows=limit))
            sql = f"SELECT count(*) AS n FROM {name}"
            text = asked.refused("sql_execution", sql=sql) if told else asked.ok("sql_execution", sql=sql)
            assert told in text


@pytest.mark.table(
    ("one", "other", "same"),
    [
        (("lake", "events"), ("events",), True),
        (("lake", "events"), ("Lake", "Events"), True),
        (("lake", "events"), ("mart", "events"), False),
        # BigQuery's dataset of another project is one part of a scanned name and two parts of a statement's.
        (("p.lake", "events"), ("p", "lake", "events"), True),
        (("p.lake", "events"), ("lake", "events"), True),
        (("p.lake", "events"), ("q", "lake", "events"), False),
    ],
)
def test_two_names_of_one_table(one: tuple[str, ...], other: tuple[str, ...], same: bool) -> None:
    assert same_table(one, other) is same
    assert same_table(other, one) is same
