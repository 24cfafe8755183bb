"""What the parts of one statement share: names of queries, relations behind policies, sources that are queries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlglot import exp

from ktx_cli.semantic.answer import compile_query
from ktx_cli.semantic.caller import Caller
from ktx_cli.semantic.compile.build import Build, column, cte, identifier, table
from ktx_cli.semantic.model import Column, Model, Policy, SemanticError, Source
from ktx_cli.warehouses.port import SemanticType
from tests.semantic.golden.world import ATTRIBUTES, NOW, shop_model


def build(query: dict[str, Any] | None = None, model: Model | None = None) -> Build:
    found = compile_query(
        model or shop_model(), query or {"measures": ["orders.orders"]}, caller=Caller.of(ATTRIBUTES), now=NOW
    )
    return found.compiled.build.again()


@pytest.mark.table(
    ("parts", "dialect", "wanted"),
    [
        (("t",), "duckdb", '"t"'),
        (("s", "t"), "duckdb", '"s"."t"'),
        (("c", "s", "t"), "tsql", "[c].[s].[t]"),
        (('o"d', "t`t"), "duckdb", '"o""d"."t`t"'),
        (('o"d', "t`t"), "mysql", '`o"d`.`t``t`'),
        (("o]d", "t"), "tsql", "[o]]d].[t]"),
    ],
)
def test_tables_by_the_parts_of_their_names(parts: tuple[str, ...], dialect: str, wanted: str) -> None:
    assert table(*parts).sql(dialect) == wanted


def test_names_are_in_quotes() -> None:
    assert column("a b", "t").sql() == '"t"."a b"'
    assert column("a").sql() == '"a"'
    assert cte("x").sql() == identifier("x").sql() == '"x"'


def test_no_two_queries_have_one_name_nor_that_of_a_table() -> None:
    found = build()
    query = exp.select("1")
    assert [found.add(name, query) for name in ("a", "A", "a", "orders", "b c", "b-c", "x" * 99)] == [
        *("a", "A_2", "a_3", "orders_2", "b_c", "b_c_2", "x" * 48)
    ]


def test_queries_stand_in_front_in_their_order() -> None:
    found = build()
    first = found.add("one", exp.select("1"))
    second = found.add("two", exp.select("*").from_(first))
    assert found.with_queries(exp.select("*").from_(second)).sql() == (
        'WITH "one" AS (SELECT 1), "two" AS (SELECT * FROM one) SELECT * FROM two'
    )


def test_notes_are_told_once() -> None:
    found = build()
    for _ in range(2):
        found.note("x")
    assert found.notes == ["x"]


def test_each_use_of_a_source_with_a_policy_is_behind_it() -> None:
    query = {
        "measures": ["tickets.tickets", "customers.customers"],
        "dimensions": ["customers.name"],
        "filters": [{"expr": "tickets.grade > 0", "facts": ["customers"]}],
        "include_empty": True,
    }
    tree = compile_query(shop_model(), query, caller=Caller.of(ATTRIBUTES)).compiled.tree
    (read,) = [each for each in tree.find_all(exp.Table) if each.name == "tickets"]
    around = read.parent_select
    assert around is not None
    assert around.args["where"].sql() == 'WHERE ("tickets"."grade" <= 2)'


def with_policy(*filters: str) -> Model:
    model = shop_model()
    policies = tuple(Policy(f"p{number}", each) for number, each in enumerate(filters))
    return replace(
        model, sources={**model.sources, "customers": replace(model.sources["customers"], policies=policies)}
    )


def test_all_policies_hold_at_once_over_computed_columns_too() -> None:
    model = with_policy("tier = 'x' OR tier = 'y'", "label <> {{ user.team }}")
    tree = compile_query(model, {"measures": ["customers.customers"]}, caller=Caller.of({"team": "o'x"})).compiled.tree
    where = next(each for each in tree.find_all(exp.Where))
    assert where.sql("duckdb") == (
        """WHERE ("customers"."tier" = 'x' OR "customers"."tier" = 'y')"""
        """ AND ((COALESCE("customers"."tier", 'none')) <> 'o''x')"""
    )


@pytest.mark.table(
    ("text", "code"),
    [("regions.name = 'x'", "definition"), ("tier = {{ user.nobody }}", "policy"), ("1 = (SELECT 1)", "definition")],
)
def test_a_policy_that_cannot_hold_lets_nothing_through(text: str, code: str) -> None:
    with pytest.raises(SemanticError) as caught:
        compile_query(with_policy(text), {"measures": ["customers.customers"]}, caller=Caller.of({}))
    assert caught.value.code == code


def from_query(sql: str, dialect: str = "duckdb") -> str:
    source = Source("s", {"a": Column("a", SemanticType.NUMBER)}, ("a",), sql=sql)
    model = Model("c", dialect, {"s": source})
    return compile_query(model, {"measures": ["sum(s.a)"]}).compiled.tree.sql(dialect)


def test_the_queries_inside_of_a_source_stay_there_but_in_tsql() -> None:
    sql = "WITH b AS (SELECT 1 AS a) SELECT a FROM b AS c JOIN b ON b.a = c.a"
    assert "AS (WITH b AS (SELECT 1 AS a) SELECT" in from_query(sql)
    hoisted = from_query(sql, "tsql")
    assert hoisted.startswith(
        "WITH [s__b] AS (SELECT 1 AS a), [s__sql] AS (SELECT a FROM [s__b] AS [c] JOIN [s__b] AS [b]"
    )


@pytest.mark.table(
    "sql", ["DELETE FROM t", "SELECT 1; SELECT 2", "SELECT FROM WHERE", "", "{{ param.x }}", "SELECT '{{ user.a }}'"]
)
def test_a_source_that_is_no_query_is_refused(sql: str) -> None:
    with pytest.raises(SemanticError) as caught:
        from_query(sql)
    assert caught.value.hint


@pytest.mark.table(
    ("source", "said", "wanted"),
    [
        ("orders", None, "placed_at"),
        ("orders", "shipped_on", "shipped_on"),
        ("tickets", None, "opened_on"),
        ("products", None, None),
    ],
)
def test_the_time_of_a_fact(source: str, said: str | None, wanted: str | None) -> None:
    found = build().time_of(shop_model().sources[source], said)
    assert (None if found is None else found.column) == wanted
