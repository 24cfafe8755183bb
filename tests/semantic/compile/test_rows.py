"""A fact's rows with what is joined to them: each join once, aliases of their own, conditions on its ends."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from ktx_cli.semantic.answer import compile_query
from ktx_cli.semantic.caller import Caller
from ktx_cli.semantic.compile.build import Build
from ktx_cli.semantic.compile.rows import Rows
from ktx_cli.semantic.expressions.names import Expression, Name, Names
from ktx_cli.semantic.graph import Graph
from ktx_cli.semantic.model import Column, Condition, Join, Model, Relationship, SemanticError, Source
from ktx_cli.warehouses.port import SemanticType
from tests.semantic.golden.world import shop_model


def rows(fact: str = "orders", model: Model | None = None) -> Rows:
    model = model or shop_model()
    first = next(iter(model.sources.values()))
    query = {"measures": [f"count({first.name}.{next(iter(first.columns))})"]}
    plan = compile_query(model, query, caller=Caller.of({"grade": 1})).plan
    return Rows(Build(Names(model, Graph(model), {}), plan), fact, time=Name((), "placed_at"))


def asked(found: Rows, text: str, *via: str) -> Expression:
    return found.names.asked(found.names.parse(text, "x"), text, via)


def joins(found: Rows) -> list[str]:
    """Return the joins of the rows' query as SQL."""
    return [each.sql().removeprefix("LEFT JOIN ") for each in found.select([]).args.get("joins") or []]


CUSTOMERS = '"shop"."customers" AS "customers" ON "orders"."customer_id" = "customers"."id"'
REGIONS = '"shop"."regions" AS "regions" ON "customers"."region_id" = "regions"."id"'
BILLED = '"shop"."regions" AS "billed" ON "orders"."billed_to" = "billed"."id"'


@pytest.mark.table(
    ("texts", "wanted", "sql"),
    [
        (["orders.status"], [], ['"orders"."status"']),
        (["customers.tier"], [CUSTOMERS], ['"customers"."tier"']),
        (["customers.tier", "customers.name"], [CUSTOMERS], ['"customers"."tier"', '"customers"."name"']),
        (["customers.regions.name"], [CUSTOMERS, REGIONS], ['"regions"."name"']),
        (
            ["customers.label"],
            [CUSTOMERS],
            ['CASE WHEN NOT "customers"."id" IS NULL THEN (COALESCE("customers"."tier", \'none\')) END'],
        ),
        (["billed.name = customers.name"], [BILLED, CUSTOMERS], ['"billed"."name" = "customers"."name"']),
        (["metric_time"], [], ['"orders"."placed_at"']),
    ],
)
def test_what_is_read_is_joined_once(texts: list[str], wanted: list[str], sql: list[str]) -> None:
    found = rows()
    assert [found.bind(asked(found, text)).sql("duckdb") for text in texts] == sql
    assert joins(found) == wanted
    assert not found.many


def test_a_path_by_via_and_the_shortest_are_two_joins() -> None:
    found = rows()
    assert found.bind(asked(found, "regions.name", "sent")).sql() == '"sent"."name"'
    assert found.bind(asked(found, "regions.name", "customers")).sql() == '"regions"."name"'
    assert len(joins(found)) == 3


def test_a_join_to_several_rows_is_known_by_its_beginning() -> None:
    found = rows("customers")
    (prefix,) = found.many_prefixes(asked(found, "orders.lines.quantity"))
    assert [str(edge) for edge in prefix] == ["orders on customers.id = orders.customer_id"]
    assert found.many_prefixes(asked(found, "regions.name")) == set()
    assert not found.many
    found.bind(asked(found, "orders.status"))
    assert found.many


def test_the_columns_of_a_key_may_be_computed_and_have_constants() -> None:
    text, number = SemanticType.STRING, SemanticType.NUMBER
    join = Join(
        "b",
        "code = b.key and kind = 'x'",
        (("code", "key"),),
        Relationship.MANY_TO_ONE,
        conditions=(Condition(True, "kind", "x'"), Condition(False, "live", 1)),
    )
    a = {each: Column(each, text) for each in ("kind", "raw")} | {"code": Column("code", text, "lower(raw)")}
    b = {"key": Column("key", text), "live": Column("live", number), "v": Column("v", number)}
    sources = {"a": Source("a", a, ("raw",), ("a",), joins=(join,)), "b": Source("b", b, ("key",), ("b",))}
    found = rows("a", Model("c", "duckdb", sources))
    found.bind(asked(found, "b.v"))
    assert joins(found) == [
        '"b" AS "b" ON (LOWER("a"."raw")) = "b"."key" AND "a"."kind" = \'x\'\'\' AND "b"."live" = 1'
    ]


def test_no_alias_is_that_of_the_fact() -> None:
    model = shop_model()
    boss = Join("customers", "region_id = customers.id", (("region_id", "id"),), Relationship.MANY_TO_ONE, "Customers")
    customers = replace(model.sources["customers"], joins=(boss,))
    found = rows("customers", replace(model, sources={**model.sources, "customers": customers}))
    assert found.bind(
        Expression(asked(found, "orders.status").tree, (Name(("Customers",), "tier"),), None, "x")
    ).sql() == ('"Customers_2"."tier"')


def test_what_cannot_be_reached_is_named() -> None:
    model = shop_model()
    lonely = Source("lonely", {"x": Column("x", SemanticType.NUMBER)}, ("x",), ("lonely",))
    found = rows("orders", replace(model, sources={**model.sources, "lonely": lonely}))
    with pytest.raises(SemanticError) as caught:
        found.bind(asked(found, "lonely.x"))
    assert (caught.value.code, caught.value.details) == ("unreachable", {"fact": "orders", "name": "lonely.x"})


def test_rows_without_a_key_cannot_be_told_apart() -> None:
    model = shop_model()
    orders = replace(model.sources["orders"], keyed=False)
    found = rows("orders", replace(model, sources={**model.sources, "orders": orders}))
    with pytest.raises(SemanticError) as caught:
        found.require_key("x")
    assert (caught.value.code, "grain: [...]" in (caught.value.hint or "")) == ("grain", True)


@pytest.mark.table(
    ("question", "hint"),
    [
        (
            {"measures": ["orders.orders"], "dimensions": ["metric_time"]},
            "use a time column (orders.placed_at, orders.shipped_on) as a dimension, instead of metric_time; or set"
            " `default_time_dimension: COLUMN` in the definition of `orders`",
        ),
        (
            {"measures": ["orders.orders"], "time_range": {"start": "2024-01-01"}},
            "use a time column (orders.placed_at, orders.shipped_on) as `field` of the time range, for example"
            ' `"time_range": {"field": "orders.placed_at", "start": "2024-01-01"}`; or set'
            " `default_time_dimension: COLUMN` in the definition of `orders`",
        ),
        (
            {"measures": ["lines.pieces"], "dimensions": ["metric_time"]},
            "use a time column (orders.placed_at, orders.shipped_on) as a dimension, instead of metric_time",
        ),
    ],
)
def test_a_fact_without_a_time_has_no_metric_time(question: dict[str, Any], hint: str) -> None:
    model = shop_model()
    orders = replace(model.sources["orders"], time_column=None)
    model = replace(model, sources={**model.sources, "orders": orders})
    with pytest.raises(SemanticError, match="no time column for `metric_time`") as caught:
        compile_query(model, question, now=datetime(2024, 5, 1))
    assert caught.value.hint == hint
