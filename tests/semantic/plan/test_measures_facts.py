"""Which source's rows an aggregate counts, and expressions seen from there."""

from __future__ import annotations

import pytest

from ktx_cli.semantic.expressions.names import Name, Names
from ktx_cli.semantic.graph import Graph
from ktx_cli.semantic.model import SemanticError
from ktx_cli.semantic.plan.measures import fact_of, from_anywhere, from_fact, path_from
from tests.semantic.golden.world import shop_model


def names() -> Names:
    return Names(shop_model(), Graph(shop_model()), {})


@pytest.mark.table(
    ("source", "text", "fact"),
    [
        ("orders", "count(*)", "orders"),
        ("orders", "sum(amount)", "orders"),
        ("orders", "sum(customers.balance)", "orders"),
        ("lines", "sum(quantity * products.price)", "lines"),
        ("lines", "sum(orders.amount)", "lines"),
        ("customers", "sum(orders.amount)", "orders"),
        ("customers", "sum(orders.amount * balance)", "orders"),
        ("regions", "count(customers.id)", "customers"),
    ],
)
def test_the_finest_source_of_a_definition(source: str, text: str, fact: str) -> None:
    known = names()
    declared = known.source(source)
    found, seen = fact_of(known, known.defined(declared, text, "m"), declared, "m")
    assert (found, seen.home) == (fact, fact)


@pytest.mark.table(
    ("text", "fact"),
    [
        ("sum(orders.amount)", "orders"),
        ("sum(orders.amount + customers.balance)", "orders"),
        ("sum(lines.quantity * orders.amount * products.price)", "lines"),
        ("sum(orders.amount * length(billed.name))", "orders"),
    ],
)
def test_the_finest_source_of_a_question(text: str, fact: str) -> None:
    known = names()
    assert fact_of(known, known.asked(known.parse(text, "m"), text), None, "m")[0] == fact


@pytest.mark.table(
    ("text", "code"),
    [
        ("count(*)", "query"),
        ("sum(1)", "query"),
        ("sum(orders.amount * tickets.grade)", "unreachable"),
        ("max(billed.name)", "unreachable"),
    ],
)
def test_what_counts_no_rows_of_one_source(text: str, code: str) -> None:
    known = names()
    with pytest.raises(SemanticError) as caught:
        fact_of(known, known.asked(known.parse(text, "m"), text), None, "the measure")
    assert caught.value.code == code
    assert caught.value.hint


def test_a_definition_seen_from_another_fact_keeps_its_source() -> None:
    known = names()
    segment = known.defined(known.source("orders"), "status = billed.name", "s")
    assert from_fact(segment, "orders") is segment
    assert from_anywhere(segment).names == (Name(("orders",), "status"), Name(("billed",), "name"))
    assert from_fact(segment, "lines").home == "lines"


def test_paths_of_names() -> None:
    known = names()
    assert str(path_from(known, "orders", Name((), "status"))) == "orders"
    assert str(path_from(known, "lines", Name(("customers",), "tier"))) == "lines -> orders -> customers"
    assert path_from(known, "orders", Name(("stock",), "day")) is not None
