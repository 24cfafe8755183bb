"""The whole statement: what is put together, sorted and limited."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from ktx_cli.project.layout import Layout
from ktx_cli.semantic.answer import ask, compile_query
from ktx_cli.semantic.caller import Caller
from ktx_cli.semantic.compile.statement import Compiled
from ktx_cli.semantic.load.load import load_model
from ktx_cli.warehouses.dialect import DIALECTS
from ktx_cli.warehouses.port import Connector
from tests.semantic.golden.engines import opened
from tests.semantic.golden.questions import QUESTIONS
from tests.semantic.golden.world import ATTRIBUTES, NOW, shop_model


def compiled(query: dict[str, Any], dialect: str = "duckdb") -> Compiled:
    return compile_query(shop_model(dialect), query, caller=Caller.of(ATTRIBUTES), now=NOW).compiled


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    with opened("duckdb", tmp_path_factory.mktemp("shop")) as connector:
        yield connector


def by_status(**more: Any) -> dict[str, Any]:
    return {"measures": ["orders.orders"], "dimensions": ["orders.status", "orders.gift"]} | more


@pytest.mark.table("name", QUESTIONS)
def test_the_columns_are_those_selected(name: str) -> None:
    found = compiled(dict(QUESTIONS[name]))
    assert isinstance(found.tree, exp.Select)
    assert tuple(each.alias for each in found.tree.selects) == found.columns


@pytest.mark.table(
    ("order", "wanted"),
    [
        ([], ["0", "1"]),
        (["orders desc"], ["2 desc", "0", "1"]),
        (["gift desc"], ["1 desc", "0"]),
        (["status", "orders"], ["0", "2", "1"]),
    ],
)
def test_ties_are_broken_by_the_dimensions(order: list[str], wanted: list[str]) -> None:
    found = compiled(by_status(order_by=order)).tree
    places = {each.this.sql(): str(number) for number, each in enumerate(found.selects)}
    keys = [
        places[each.this.sql()] + (" desc" if each.args.get("desc") else "") for each in found.args["order"].expressions
    ]
    assert keys == wanted


def test_what_is_missing_comes_last_both_ways(shop: Connector) -> None:
    for order in ("status", "status desc", "billed_to", "sent_to desc"):
        field = order.split()[0]
        query = {"measures": ["orders.orders"], "dimensions": [f"orders.{field}"], "order_by": [order]}
        values = [row[0] for row in ask(shop_model(), query, shop).rows]
        known = [value for value in values if value is not None]
        assert values[: len(known)] == sorted(known, reverse=order.endswith("desc"))
        assert len(values) - len(known) in (0, 1)


@pytest.mark.table("dialect", DIALECTS)
def test_one_row_more_than_the_limit_is_asked_for(dialect: str) -> None:
    tree = compiled(by_status(limit=7, offset=2), dialect).tree
    limits = [each.this if isinstance(each, exp.Literal) else each for each in (tree.args["limit"].expression,)]
    assert (limits[0], tree.args["offset"].expression.this) == ("8", "2")


def test_a_share_keeps_the_rows_that_have_it(shop: Connector) -> None:
    query = {"measures": ["orders.share", "orders.share_of_status"], "dimensions": ["orders.status", "customers.tier"]}
    rows = ask(shop_model(), query, shop).rows
    assert sum(row[2] for row in rows) == pytest.approx(100)
    for status in {row[0] for row in rows}:
        assert sum(row[3] for row in rows if row[0] == status) == pytest.approx(100)


def test_two_facts_are_combined_and_not_joined(shop: Connector) -> None:
    both = {"measures": ["orders.revenue", "tickets.tickets"], "dimensions": ["customers.name"]}
    rows = ask(shop_model(), both, shop, caller=Caller.of(ATTRIBUTES)).rows
    for number, measure in enumerate(both["measures"], 1):
        alone = ask(shop_model(), both | {"measures": [measure]}, shop, caller=Caller.of(ATTRIBUTES)).rows
        values = {row[0]: row[1] for row in alone}
        assert {row[0]: row[number] for row in rows if row[0] in values} == values


@pytest.mark.table(
    ("dialect", "named"), [("bigquery", "`other-p`.`lake`.`events`"), ("postgres", '"other-p.lake"."events"')]
)
def test_a_schema_with_a_dot(dialect: str, named: str, tmp_path: Path) -> None:
    file = tmp_path / "semantic-layer" / "lake" / "events.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        "name: events\ntable: '\"other-p.lake\".events'\ngrain: [id]\ncolumns: [{name: id, type: number}]\n"
        "measures: [{name: n, expr: count(*)}]\n"
    )
    model = load_model(Layout(tmp_path), "lake", dialect)
    sql = compile_query(model, {"measures": ["events.n"]}, now=NOW).compiled.tree.sql(dialect)
    assert f"FROM {named} AS" in sql


@pytest.mark.table("dialect", ["tsql", "mysql", "sqlite", "bigquery"])
def test_no_query_is_sorted_but_the_last(dialect: str) -> None:
    for name, query in QUESTIONS.items():
        orders = list(compiled(dict(query), dialect).tree.find_all(exp.Order))
        assert all(isinstance(each.parent, exp.Select | exp.Window | exp.WithinGroup) for each in orders), name
        assert sum(isinstance(each.parent, exp.Select) for each in orders) <= 1, name


CONDITIONS = (exp.Predicate, exp.Connector, exp.Not)


@pytest.mark.table(
    "query",
    [
        *QUESTIONS.values(),
        {"measures": ["orders.orders"], "dimensions": ["orders.big"]},
        {"measures": ["orders.orders"], "filters": ["orders.gift"]},
        {"measures": ["orders.orders"], "filters": ["orders.big = TRUE"]},
        {"measures": ["orders.orders"], "filters": ["orders.gift OR NOT orders.big"]},
        {"measures": ["orders.revenue > 10"]},
        {"measures": ["max(orders.big)"]},
        {"measures": ["orders.orders"], "dimensions": ["orders.amount > 10 AND orders.gift"]},
    ],
)
def test_tsql_has_no_conditions_as_values(query: dict[str, Any]) -> None:
    sql = compile_query(shop_model("tsql"), query, caller=Caller.of(ATTRIBUTES), now=NOW).sql
    for node in sqlglot.parse_one(sql, dialect="tsql").walk():
        if not isinstance(node, exp.Paren):
            assert isinstance(node, CONDITIONS) is _stands_for_a_condition(node), node.sql("tsql")


def _stands_for_a_condition(node: exp.Expr) -> bool:
    """Say whether a node is where T-SQL takes a condition, and nothing else."""
    child, around = node, node.parent
    while isinstance(around, exp.Paren):
        child, around = around, around.parent
    if isinstance(around, exp.If):
        return child.arg_key == "this" and not (isinstance(around.parent, exp.Case) and around.parent.this)
    if isinstance(around, exp.Join):
        return child.arg_key == "on"
    return isinstance(around, exp.Where | exp.Having | exp.Connector | exp.Not)
