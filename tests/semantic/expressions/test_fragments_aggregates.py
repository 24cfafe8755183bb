"""Aggregates in a tree: which they are, what they give for nothing, and how a condition gets into them."""

from __future__ import annotations

import duckdb
import pytest

from ktx_cli.semantic.expressions.fragments import (
    COUNT,
    OTHER,
    SUM,
    counts_rows,
    distinct_columns,
    has_aggregate,
    is_aggregate,
    kind_of,
    parse,
    percentile_of,
    with_condition,
)
from ktx_cli.semantic.model import SemanticError


@pytest.mark.table(
    ("text", "kind", "rows", "columns", "percentile"),
    [
        ("count(*)", COUNT, True, 0, False),
        ("count(1)", COUNT, True, 0, False),
        ("count(a)", COUNT, False, 0, False),
        ("count(distinct a)", COUNT, False, 0, False),
        ("count(distinct a, b)", COUNT, False, 2, False),
        ("count(distinct (a, b, c))", COUNT, False, 3, False),
        ("count_if(a)", COUNT, False, 0, False),
        ("approx_count_distinct(a)", COUNT, False, 0, False),
        ("count(*) filter (where a)", COUNT, False, 0, False),
        ("sum(a)", SUM, False, 0, False),
        ("sum(a) filter (where b)", SUM, False, 0, False),
        ("avg(a)", OTHER, False, 0, False),
        ("max(a)", OTHER, False, 0, False),
        ("median(a)", OTHER, False, 0, True),
        ("percentile(a, 0.9)", OTHER, False, 0, True),
        ("percentile_cont(0.9) within group (order by a)", OTHER, False, 0, True),
        ("percentile_cont(0.9) within group (order by a desc)", OTHER, False, 0, False),
        ("percentile_disc(0.9) within group (order by a)", OTHER, False, 0, False),
    ],
)
def test_what_an_aggregate_is(text: str, kind: str, rows: bool, columns: int, percentile: bool) -> None:
    tree = parse(text, "duckdb", what="x")
    assert is_aggregate(tree)
    assert (kind_of(tree), counts_rows(tree), len(distinct_columns(tree))) == (kind, rows, columns)
    assert (percentile_of(tree) is not None) is percentile


@pytest.mark.table(
    ("text", "wanted"),
    [("a + 1", False), ("sum(a) + 1", True), ("coalesce(max(a), 0)", True), ("upper(a)", False), ("a.b", False)],
)
def test_whether_there_is_one(text: str, wanted: bool) -> None:
    assert has_aggregate(parse(text, "duckdb", what="x")) is wanted


@pytest.mark.table(
    "text",
    [
        *(
            "count(*)",
            "count(1)",
            "count(a)",
            "count(distinct a)",
            "sum(a)",
            "sum(distinct a)",
            "avg(a)",
            "min(a)",
            "max(a)",
        ),
        *(
            "stddev(a)",
            "var_pop(a)",
            "median(a)",
            "percentile(a, 0.3)",
            "percentile_cont(0.3) within group (order by a)",
        ),
        *("quantile_disc(a, 0.5)", "count_if(a > 2)", "bool_or(a > 2)", "bool_and(a > 2)", "approx_count_distinct(a)"),
        *(
            "string_agg(a, ',' order by a)",
            "string_agg(a, '-')",
            "arg_max(a, b)",
            "list(a order by a)",
            "corr(a, b)",
            "first(a order by b)",
        ),
        *("sum(a) filter (where b > 1)", "count(*) filter (where b > 1)", "sum(case when b > 1 then a end)"),
        *(
            "sum(a * 2)",
            "mode(a)",
            "sum(case when b is null then 1 else 0 end)",
            "count(case when b is null then 1 end)",
        ),
    ],
)
def test_a_condition_inside_is_a_condition_on_the_rows(text: str) -> None:
    """Executed: over rows with missing values, the condition missing for some."""
    rows = (
        "(VALUES (1, 1, 1), (2, 2, 1), (3, NULL, 1), (NULL, 4, 1), (5, 5, 0), (6, NULL, NULL), (1, 7, 1)) AS t(a, b, c)"
    )
    condition = parse("c = 1", "duckdb", what="x")
    inside = with_condition(parse(text, "duckdb", what="x").copy(), condition, "duckdb").sql("duckdb")
    plain = with_condition(parse(text, "duckdb", what="x").copy(), None, "duckdb").sql("duckdb")
    (found,) = duckdb.sql(f"SELECT {inside} FROM {rows}").fetchall()
    assert [found] == duckdb.sql(f"SELECT {plain} FROM {rows} WHERE c = 1").fetchall(), inside


@pytest.mark.table(
    ("text", "dialect", "wanted"),
    [
        ("count(*)", "mysql", "COUNT(CASE WHEN c THEN 1 END)"),
        ("count(*)", "tsql", "COUNT_BIG(CASE WHEN c <> 0 THEN 1 END)"),
        ("count_if(a)", "bigquery", "COUNTIF(c AND a)"),
        ("sum(a) filter (where b)", "snowflake", "SUM(CASE WHEN c AND b THEN a END)"),
        ("count(distinct a)", "clickhouse", "COUNT(DISTINCT CASE WHEN c THEN a END)"),
    ],
)
def test_the_condition_in_dialects_without_filter(text: str, dialect: str, wanted: str) -> None:
    tree = parse(text, dialect if "filter" not in text else "duckdb", what="x").copy()
    found = with_condition(tree, parse("c", dialect, what="x").copy(), dialect)
    assert found.sql(dialect).replace("count(", "COUNT(") == wanted


@pytest.mark.table("dialect", ["mysql", "bigquery", "snowflake", "tsql", "redshift"])
def test_an_aggregate_that_may_count_missing_values_is_refused(dialect: str) -> None:
    tree = parse("some_agg(a)", dialect, what="x")
    with pytest.raises(SemanticError, match="cannot be filtered"):
        with_condition(tree.copy(), parse("c", dialect, what="x"), dialect)


MEANS = "(VALUES (CAST(1.00 AS DECIMAL(18, 2))), (1.01), (1.01), (NULL)) AS t(a)"


@pytest.mark.table(
    ("text", "wanted"),
    [("avg(a)", 3.02 / 3), ("median(a)", 1.01), ("percentile(a, 0.25)", 1.005), ("percentile(a, 0.9)", 1.01)],
)
def test_numbers_are_not_rounded_to_the_digits_of_a_column(text: str, wanted: float) -> None:
    tree = with_condition(parse(text, "duckdb", what="x").copy(), None, "duckdb")
    ((found,),) = duckdb.sql(f"SELECT {tree.sql('duckdb')} FROM {MEANS}").fetchall()
    assert float(found) == pytest.approx(wanted, rel=1e-12)
