"""Rows made of values: their number would tell a value where only counts are shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.agent_tools.sql import SETS, rows_of_values
from ktx_cli.testing.servers import PostgresServer
from ktx_cli.warehouses.guard.functions import listed

SECRET = "(SELECT max(secret) FROM people)"
EVERY = ("duckdb", "postgres", "sqlite")


@pytest.mark.table(
    ("dialect", "sql"),
    [
        ("duckdb", f"SELECT count(*) FROM range({SECRET})"),
        ("duckdb", "SELECT count(*) FROM range((SELECT ascii(ssn[1]) FROM people LIMIT 1))"),
        ("duckdb", f"SELECT count(*) FROM generate_series(1, {SECRET})"),
        ("duckdb", "SELECT count(*) FROM people, range(people.secret)"),
        ("duckdb", "SELECT count(*) FROM people p, LATERAL (SELECT unnest(range(p.secret)))"),
        ("duckdb", "SELECT count(*) FROM people, unnest(range(secret)) AS t(i)"),
        ("duckdb", "SELECT count(*) FROM (SELECT unnest(range(secret)) FROM people)"),
        ("duckdb", "WITH t AS (SELECT unnest(string_split(ssn, '')) FROM people) SELECT count(*) FROM t"),
        ("duckdb", f"SELECT count(*) FROM (SELECT 1 FROM big LIMIT {SECRET})"),
        ("duckdb", f"SELECT count(*) FROM (SELECT 1 FROM big OFFSET {SECRET})"),
        ("duckdb", f"SELECT count(*) FROM (SELECT 1 FROM big LIMIT {SECRET} %)"),
        ("duckdb", f"SELECT count(*) FROM repeat_row(1, num_rows := {SECRET})"),
        ("duckdb", f"SELECT count(*) FROM repeat(1, {SECRET})"),
        ("duckdb", "SELECT count(*) FROM json_each((SELECT doc FROM people LIMIT 1))"),
        ("duckdb", "SELECT generate_subscripts(string_split(ssn, ''), 1) FROM people"),
        ("duckdb", f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {SECRET}) FROM n"),
        ("duckdb", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n, people WHERE i < secret)"
                   " SELECT count(*) FROM n"),
        ("duckdb", "SELECT count(*) FROM people, LATERAL (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL"
                   " SELECT i + 1 FROM n WHERE i < secret) SELECT i FROM n)"),
        ("duckdb", f"WITH s AS (SELECT {SECRET} AS v), r AS (SELECT * FROM s, range(v)) SELECT count(*) FROM r"),
        ("duckdb", f"SELECT 1 FROM range({SECRET})"),
        ("postgres", f"SELECT count(*) FROM generate_series(1, {SECRET})"),
        ("postgres", "SELECT count(*) FROM (SELECT generate_series(1, secret) FROM people) t"),
        ("postgres", "SELECT count(*) FROM people p CROSS JOIN LATERAL generate_series(1, p.secret)"),
        ("postgres", "SELECT count(*) FROM people p, unnest(string_to_array(p.ssn, NULL))"),
        ("postgres", "SELECT count(*) FROM (SELECT regexp_matches(ssn, '.', 'g') FROM people) t"),
        ("postgres", "SELECT count(*) FROM (SELECT regexp_split_to_table(ssn, '') FROM people) t"),
        ("postgres", "SELECT count(*) FROM ROWS FROM (generate_series(1, (SELECT max(secret) FROM people))) AS t"),
        ("postgres", "SELECT count(*) FROM (SELECT jsonb_array_elements(doc) FROM people) t"),
        ("postgres", f"SELECT count(*) FROM (SELECT 1 FROM big FETCH FIRST {SECRET} ROWS ONLY) t"),
        ("postgres", "SELECT count(*) FROM (SELECT (string_to_array(ssn, NULL)).unnest FROM people) t"),
        ("postgres", "SELECT count(*) FROM (SELECT d.jsonb_array_elements FROM people p, to_jsonb(p.doc) AS d) t"),
        ("redshift", "SELECT count(*) FROM (SELECT (string_to_array(ssn, NULL)).unnest FROM people) t"),
        ("postgres", f"SELECT count(*) FROM big TABLESAMPLE BERNOULLI ({SECRET})"),
        ("sqlite", f"SELECT count(*) FROM generate_series(1, {SECRET})"),
        ("sqlite", "SELECT count(*) FROM people, json_each(people.doc)"),
        ("sqlite", "SELECT count(*) FROM people, json_tree('[' || substr(replace(hex(zeroblob(secret)), '0', '0,'), 2)"
                   " || ']')"),
        ("sqlite", "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n, people WHERE i < secret)"
                   " SELECT count(*) FROM n"),
        ("mysql", "SELECT count(*) FROM people, JSON_TABLE(doc, '$[*]' COLUMNS (a INT PATH '$')) AS t"),
        ("mysql", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n JOIN people WHERE i < secret)"
                  " SELECT count(*) FROM n"),
        ("tsql", f"SELECT count(*) FROM (SELECT TOP ({SECRET}) 1 AS a FROM big) t"),
        ("tsql", "SELECT count(*) FROM people CROSS APPLY string_split(ssn, '-')"),
        ("snowflake", "SELECT count(*) FROM people, LATERAL FLATTEN(input => split(ssn, ''))"),
        ("snowflake", "SELECT count(*) FROM people, TABLE(SPLIT_TO_TABLE(people.ssn, ''))"),
        ("bigquery", "SELECT count(*) FROM people, UNNEST(GENERATE_ARRAY(1, secret))"),
        ("bigquery", "SELECT count(*) FROM (SELECT GENERATE_ARRAY(1, secret) AS l FROM people) AS t, t.l"),
        ("clickhouse", f"SELECT count() FROM numbers({SECRET})"),
        ("clickhouse", "SELECT count() FROM (SELECT arrayJoin(range(secret)) FROM people)"),
        ("clickhouse", "SELECT count() FROM people ARRAY JOIN range(secret) AS i"),
        ("databricks", "SELECT count(*) FROM people LATERAL VIEW explode(sequence(1, secret)) t AS i"),
        ("databricks", "SELECT count(*) FROM (SELECT explode(sequence(1, secret)) FROM people)"),
        ("spark", "SELECT count(*) FROM people LATERAL VIEW explode(sequence(1, secret)) t AS i"),
        ("spark", "SELECT count(*) FROM (SELECT explode(sequence(1, secret)) FROM people)"),
        ("trino", "SELECT count(*) FROM people CROSS JOIN UNNEST(sequence(1, secret)) AS t(i)"),
        ("redshift", "SELECT count(*) FROM (SELECT generate_series(1, secret) FROM people) t"),
    ],
)  # fmt: skip
def test_rows_made_of_values_are_seen(dialect: str, sql: str) -> None:
    assert rows_of_values(sql, dialect) is not None


@pytest.mark.table(
    "sql",
    [
        "SELECT count(*) FROM orders",
        "SELECT status, count(*) AS n FROM orders GROUP BY status ORDER BY n DESC LIMIT 10 OFFSET 2",
        "SELECT count(*) FROM orders o JOIN people p ON p.id = o.person WHERE o.amount > 10",
        "SELECT count(*) FROM (SELECT DISTINCT person FROM orders LIMIT 100) t",
        "WITH paid AS (SELECT * FROM orders WHERE status = 'paid') SELECT count(*) FROM paid",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12) SELECT count(*) FROM n",
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT n.i + 1 FROM n WHERE n.i < 12) SELECT count(*) FROM n",
        "SELECT count(*) FROM generate_series(1, 12) AS m(i) LEFT JOIN orders ON orders.id = m.i",
        "SELECT count(*) FROM (VALUES (1), (2)) AS v(a)",
        "SELECT count(*) FROM orders AS o WHERE EXISTS (SELECT 1 FROM people p WHERE p.id = o.person LIMIT 1)",
        "SELECT count(CASE WHEN amount > 1 THEN 1 END) FROM orders",
    ],
)
def test_honest_counts_pass(sql: str) -> None:
    assert [rows_of_values(sql, dialect) for dialect in EVERY] == [None] * len(EVERY)


def test_the_tool_refuses_them_unless_values_may_be_told(shop: Callable[..., Any]) -> None:
    sql = "SELECT count(*) FROM (SELECT 1 FROM orders LIMIT (SELECT max(id) FROM customers))"
    for privacy in ("local", "strict"):
        made = shop(privacy=privacy)
        assert "generates rows from values" in made.refused("sql_execution", sql=sql)
        assert made.statements == []
    assert "| 1 |" in shop(privacy="off").ok("sql_execution", sql=sql)


def test_every_function_of_postgres_that_gives_rows_is_known(postgres_server: PostgresServer) -> None:
    """Of those a statement may call, as the server itself has them."""
    import psycopg

    with psycopg.connect(postgres_server.url()) as session:
        asked = "SELECT DISTINCT proname FROM pg_catalog.pg_proc WHERE proretset AND pronargs > 0"
        rows = session.execute(asked).fetchall()
    found = {str(name) for (name,) in rows}
    assert len(found) > 20
    assert (found & listed("postgres")) - SETS == set()
