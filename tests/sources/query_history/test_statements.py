"""What is read out of one statement, and that no literal stays in any text of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.sources.query_history.literals import texts_of
from ktx_cli.sources.query_history.statements import (
    MAX_CHARACTERS,
    UnreadableStatementError,
    read_statement,
    shown,
    without_literals,
)
from ktx_cli.sources.query_history.tables import Tables

ORDERS, CUSTOMERS = "orders", "customers"


def read(sql: str, tables: Tables, dialect: str = "postgres"):  # type: ignore[no-untyped-def]
    return read_statement(sql, dialect, tables, lambda text: text)


@pytest.mark.table(
    ("sql", "columns"),
    [
        ("SELECT total FROM orders WHERE status = 'paid'", {("select", "total"), ("where", "status")}),
        ("SELECT Total FROM Public.Orders o WHERE o.STATUS = 'x'", {("select", "total"), ("where", "status")}),
        ("SELECT status, count(*) FROM orders GROUP BY 1", {("select", "status"), ("groupBy", "status")}),
        ("SELECT x.t FROM (SELECT total AS t FROM orders) x WHERE x.t > 1", {("select", "total"), ("where", "total")}),
        ("WITH o AS (SELECT * FROM orders) SELECT o.id FROM o", {("select", c) for c in
         ("id", "customer_id", "region_id", "status", "total", "created_at")}),
        ("SELECT total FROM orders UNION ALL SELECT total FROM orders", {("select", "total")}),
        ("SELECT total + nothing FROM orders", {("select", "total")}),
    ],
)  # fmt: skip
def test_columns_are_found_by_clause(sql: str, columns: set[tuple[str, str]], tables: Tables) -> None:
    assert {(clause, column) for _, clause, column in read(sql, tables).columns} == columns


@pytest.mark.table(
    ("sql", "joins"),
    [
        ("SELECT 1 FROM orders o JOIN customers c ON c.id = o.customer_id",
         [(CUSTOMERS, ORDERS, (("id", "customer_id"),))]),
        ("SELECT 1 FROM orders o, customers c WHERE o.customer_id = c.id",
         [(CUSTOMERS, ORDERS, (("id", "customer_id"),))]),
        ("SELECT 1 FROM orders JOIN regions USING (region_id)", [(ORDERS, "regions", (("region_id", "region_id"),))]),
        ("SELECT 1 FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)",
         [(CUSTOMERS, ORDERS, (("id", "customer_id"),))]),
        ("WITH s AS (SELECT customer_id AS k, sum(total) AS t FROM orders GROUP BY 1) "
         "SELECT c.name, s.t FROM s JOIN customers c ON c.id = s.k", [(CUSTOMERS, ORDERS, (("id", "customer_id"),))]),
        ("SELECT 1 FROM orders o JOIN customers c ON c.id = o.customer_id AND c.country = o.status",
         [(CUSTOMERS, ORDERS, (("country", "status"), ("id", "customer_id")))]),
        ("SELECT 1 FROM orders a JOIN orders b ON a.id = b.region_id", [(ORDERS, ORDERS, (("id", "region_id"),))]),
        ("SELECT 1 FROM orders o JOIN customers c ON lower(c.name) = o.status", []),
        ("SELECT 1 FROM orders WHERE id = region_id", []),
        ("SELECT 1 FROM orders o JOIN (SELECT count(*) AS n FROM customers) c ON c.n = o.id", []),
    ],
)  # fmt: skip
def test_joins_are_found_through_subqueries(sql: str, joins: list[object], tables: Tables) -> None:
    assert [(join.left.name, join.right.name, join.pairs) for join in read(sql, tables).joins] == joins


@pytest.mark.table(
    ("sql", "filters", "groupings"),
    [
        ("SELECT 1 FROM orders WHERE status = 'paid' AND total > 5", {"status = ?", "total > ?"}, set()),
        ("SELECT 1 FROM orders WHERE status IN ('a', 'b', 'c')", {"status IN (?)"}, set()),
        ("SELECT 1 FROM orders o WHERE o.status = 'a' OR o.total > 1", {"status = ? OR total > 1"}, set()),
        ("SELECT 1 FROM orders o JOIN customers c ON true WHERE o.id = c.id", set(), set()),
        ("SELECT date_trunc('month', created_at), sum(total) FROM orders GROUP BY 1", set(),
         {"DATE_TRUNC('MONTH', created_at)"}),
        ("SELECT extract($1 from created_at), sum(total) FROM orders WHERE created_at > now() - interval $2 GROUP BY 1",
         {"created_at > CURRENT_TIMESTAMP - INTERVAL ?"}, {"EXTRACT(? FROM created_at)"}),
    ],
)  # fmt: skip
def test_conditions_are_told_without_what_was_looked_for(
    sql: str, filters: set[str], groupings: set[str], tables: Tables
) -> None:
    found = read(sql, tables)
    assert {shape.shown() for _, shape in found.filters} == filters
    assert {shape.shown() for _, shape in found.groupings} == groupings


@pytest.mark.table(
    ("sql", "trivial", "system"),
    [
        ("SELECT 1", True, False),
        ("SELECT now()", True, False),
        ("SELECT 1 FROM orders LIMIT 1", True, False),
        ("SELECT * FROM orders WHERE 1 = 0", True, False),
        ("SELECT * FROM orders WHERE false", True, False),
        ("SELECT * FROM orders LIMIT 0", True, False),
        ("SELECT count(1) FROM orders", False, False),
        ("SELECT count(*) FROM orders", False, False),
        ("SELECT * FROM orders WHERE 1 = 1", False, False),
        ("SELECT 1 FROM orders WHERE id = 5", False, False),
        ("SELECT * FROM pg_class", False, True),
        ("SELECT * FROM information_schema.columns c JOIN orders o ON true", False, True),
        ("SELECT * FROM pg_catalog.pg_class", False, True),
    ],
)
def test_probes_and_catalog_queries_are_told_apart(sql: str, trivial: bool, system: bool, tables: Tables) -> None:
    found = read(sql, tables)
    assert (found.trivial, found.system) == (trivial, system)


@pytest.mark.table(
    ("sql", "display", "source"),
    [
        ("SELECT 1 FROM orders", "public.orders", "orders"),
        ("SELECT 1 FROM archive.orders", "archive.orders", "old_orders"),
        ("SELECT 1 FROM db.archive.orders", "archive.orders", "old_orders"),
        ("SELECT 1 FROM other.orders", "other.orders", None),
        ("SELECT 1 FROM nowhere", "nowhere", None),
    ],
)
def test_a_table_is_found_by_the_name_it_has(sql: str, display: str, source: str | None, tables: Tables) -> None:
    assert [(table.display, table.source) for table in read(sql, tables).tables] == [(display, source)]


@pytest.mark.table(
    ("sql", "why"),
    [
        ("SELECT ((", "it cannot be parsed"),
        ("SELECT 'no end", "it cannot be parsed"),
        ("DELETE FROM orders", "it is not a query"),
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "it is nested too deeply"),
        ("SELECT '" + "x" * MAX_CHARACTERS + "'", "it has 100,009 characters"),
    ],
)
def test_an_unreadable_statement_is_named_without_its_words(sql: str, why: str, tables: Tables) -> None:
    with pytest.raises(UnreadableStatementError) as caught:
        read(sql, tables)
    assert str(caught.value) == why


def test_statements_that_differ_in_literals_and_comments_are_one(tables: Tables) -> None:
    texts = (
        "SELECT total FROM orders WHERE status IN ('a') AND id = 1",
        "select total\nfrom orders -- for Ada\nwhere status in ('b', 'c') and id = 22",
        "SELECT total FROM orders WHERE status IN ($1, $2) AND id = $3 /* x */",
    )
    assert len({read(text, tables).id for text in texts}) == 1


CANARY = "4111canary"
FORMS = {
    "postgres": ("'{0}'", "$${0}$$", "$t${0}$t$", "E'{0}'", "N'{0}'", "/* {0} */ 1", "payload ->> '{0}'",
                 "INTERVAL '{0}'", "DATE '{0}'", "CAST('{0}' AS text)", "lower('{0}')", "ARRAY['{0}']"),
    "snowflake": ("'{0}'", "$${0}$$", "PARSE_JSON('{0}')", "payload['{0}']"),
    "bigquery": ("'{0}'", '"{0}"', "r'{0}'", "b'{0}'", '"""{0}"""', "JSON_VALUE(payload, '$.{0}')"),
}  # fmt: skip


@pytest.mark.table(("dialect", "form"), [(dialect, form) for dialect, forms in FORMS.items() for form in forms])
def test_no_form_of_a_literal_is_shown(dialect: str, form: str, tables: Tables) -> None:
    sql = f"SELECT {form.format(CANARY)} AS a FROM orders WHERE total = 41114111 OR status = {form.format(CANARY)}"
    found = read(sql, tables, dialect)
    literals = texts_of(sql, dialect)
    shapes = (found.shape, *(shape for _, shape in (*found.filters, *found.groupings)))
    texts = [found.sql, *(text for each in shapes for text in (each.shown(literals), each.runnable(literals)))]
    assert not [text for text in texts if "canary" in text or "4111" in text]
    assert found.tables


@given(st.text(max_size=40), st.sampled_from(["postgres", "snowflake", "bigquery"]))
def test_blanking_a_literal_leaves_no_trace_of_it(text: str, dialect: str) -> None:
    quoted = text.replace("\\", "\\\\").replace("'", "\\'" if dialect == "bigquery" else "''").replace("\n", " ")
    if dialect == "postgres":
        quoted = quoted.replace("\\\\", "\\")
    sql = f"SELECT a FROM t WHERE b = '{quoted}'"
    if text.lower() not in ("day", "week", "hour", "month", "year"):
        assert shown(sql, dialect) == "SELECT a FROM t WHERE b = ?"
        assert without_literals(sql, dialect) == "SELECT a FROM t WHERE b = 'x'"
