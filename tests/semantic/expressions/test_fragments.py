"""One piece of SQL as a tree: what is an expression, what is more than one, and what templates stand for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from ktx_cli.semantic.expressions.fragments import marked, parse, template_names
from ktx_cli.semantic.model import SemanticError
from ktx_cli.warehouses.dialect import DIALECTS

VALUES = {"param.least": 5, "user.team": "o'north", "param.flag": True, "user.none": None}


def sql(text: str, dialect: str = "duckdb") -> str:
    return parse(text, dialect, what="x", values=VALUES).sql(dialect)


@pytest.mark.table(
    ("text", "wanted"),
    [
        ("amount > 10", "amount > 10"),
        (" amount>10 -- more", "amount > 10 /* more */"),
        ("sum(a) / nullif(count(*), 0)", "SUM(a) / NULLIF(COUNT(*), 0)"),
        ("count_distinct(a)", "COUNT(DISTINCT a)"),
        ("percentile(a, 0.9)", "QUANTILE(a, 0.9)"),
        ("safe_divide(a + 1, b)", "(a + 1) / (b)"),
        ("a = {{ param.least }}", "a = 5"),
        ("{{param.least}}", "5"),
        ("t = {{ user.team }} or t = {{ user.team }}", "t = 'o''north' OR t = 'o''north'"),
        ("{{ param.flag }} and a < {{ param.least }}", "TRUE AND a < 5"),
        ("a = {{ user.none }}", "a = NULL"),
        ("case when a then 'x' end", "CASE WHEN a THEN 'x' END"),
    ],
)
def test_what_a_text_is(text: str, wanted: str) -> None:
    assert sql(text) == wanted


@pytest.mark.table("dialect", DIALECTS)
def test_ktx_own_functions_mean_the_same_in_every_dialect(dialect: str) -> None:
    assert isinstance(parse("percentile(a, 0.5)", dialect, what="x"), exp.Quantile)
    assert isinstance(parse("safe_divide(a, b)", dialect, what="x"), exp.Div)
    count = parse("count_distinct(a, b)", dialect, what="x")
    assert isinstance(count, exp.Count)
    assert len(count.this.expressions) == 2


@pytest.mark.table(
    "text",
    [
        *("", "   ", "a >", "a b c", "(a", "a)", "a; b", "a = 'x", "select 1; drop table x", "a = 1 limit 1"),
        *("columns('em.*') = 'a'", "max(columns(*))", "#2 = 'a'", "hash(*)", "hash(t.*)", "* like 'a%'"),
        *("count(* exclude (a))", "count(distinct *)", "count(*) filter (where columns(*) is null)"),
        *("(select 1)", "a in (select 1)", "exists(select 1)", "a in (table t)", "sum(a) over ()", "(values (1))"),
        *(
            "a as b",
            "$1",
            ":name",
            "?",
            "list_transform(l, x -> x + 1)",
            "drop table x",
            "delete from x",
            "insert into x values (1)",
        ),
        *("'{{ param.least }}'", '"{{ param.least }}"', "a_{{ param.least }}", "x.{{ param.least }}"),
        *("{{ param.other }}", "{{ user.other }}", "{{ env.HOME }}", "{{ param.least", "{{ 1 }}", "{% if a %}"),
        *("(" * 3000 + "a" + ")" * 3000, "not " * 5000 + "a"),
    ],
)
def test_what_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(SemanticError) as caught:
        parse(text, "duckdb", what="the filter", values=VALUES)
    assert "the filter" in caught.value.message
    assert caught.value.hint
    assert "sqlglot" not in f"{caught.value.hint}{caught.value.message}"


@pytest.mark.table(
    ("text", "code", "details"),
    [
        ("a = {{ user.other }}", "policy", {"attribute": "other"}),
        ("a = {{ param.other }}", "parameter", {"parameter": "other"}),
        ("a = {{ env.HOME }}", "definition", {}),
        ("a = (select 1)", "definition", {}),
    ],
)
def test_the_code_says_who_can_help(text: str, code: str, details: dict[str, Any]) -> None:
    with pytest.raises(SemanticError) as caught:
        sql(text)
    assert (caught.value.code, caught.value.details) == (code, details)


def test_the_same_text_with_other_values_is_another_tree() -> None:
    found = [parse("a = {{ user.team }}", "duckdb", what="x", values={"user.team": team}).sql() for team in "xyx"]
    assert found == ["a = 'x'", "a = 'y'", "a = 'x'"]


def test_names_of_templates() -> None:
    text = "{{ param.a }} + {{user.b}} + {{ param.a }} + {{ c }}"
    assert template_names(text) == [("param", "a"), ("user", "b")]
    filled, values = marked("{{ param.a }} = {{ user.b }}", "x", {"param.a": 1, "user.b": 2})
    assert "{{" not in filled
    assert values.values == (1, 2)


@given(st.text(max_size=40), st.sampled_from(DIALECTS))
def test_any_text_is_a_tree_or_an_error_with_a_hint(text: str, dialect: str) -> None:
    try:
        tree = parse(text, dialect, what="x")
    except SemanticError as error:
        assert error.hint
        return
    assert not list(tree.find_all(exp.Query, exp.Window, exp.Command, exp.Placeholder))
