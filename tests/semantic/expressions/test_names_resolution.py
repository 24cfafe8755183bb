"""Where names are looked up: those of definitions from their source, those of a question from anywhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ktx_cli.semantic.expressions.names import Names
from ktx_cli.semantic.graph import Graph
from ktx_cli.semantic.model import Column, Model, SemanticError, Visibility
from ktx_cli.warehouses.port import SemanticType
from tests.semantic.golden.world import shop_model


def names(*facts: str, model: Model | None = None) -> Names:
    found = Names(model or shop_model(), Graph(model or shop_model()), {"param.least": 1})
    found.facts = facts
    return found


@pytest.mark.table(
    ("parts", "facts", "wanted"),
    [
        (("orders", "status"), (), "orders.status"),
        (("ORDERS", "Status"), (), "orders.status"),
        (("billed", "name"), (), "billed.name"),
        (("customers", "regions", "name"), (), "customers.regions.name"),
        (("Customers", "billed", "name"), (), "customers.billed.name"),
        (("status",), (), "orders.status"),
        (("id",), ("orders",), "orders.id"),
        (("name",), ("customers",), "customers.name"),
        (("metric_time",), (), "metric_time"),
        (("METRIC_TIME",), (), "metric_time"),
        (("tier",), ("orders", "tickets"), "customers.tier"),
    ],
)
def test_names_of_a_question(parts: tuple[str, ...], facts: tuple[str, ...], wanted: str) -> None:
    assert str(names(*facts).asked_name(parts)) == wanted


@pytest.mark.table(
    ("parts", "code", "candidate"),
    [
        (("statsu",), "unknown_name", "status"),
        (("orders", "statsu"), "unknown_name", "status"),
        (("order", "status"), "unknown_name", "orders"),
        (("name",), "ambiguous_name", "products.name"),
        (("customers", "phone"), "hidden", None),
        (("nothing", "x", "y"), "unknown_name", "orders"),
    ],
)
def test_names_that_are_refused(parts: tuple[str, ...], code: str, candidate: str | None) -> None:
    with pytest.raises(SemanticError) as caught:
        names().asked_name(parts)
    assert caught.value.code == code
    assert caught.value.hint
    assert candidate is None or candidate in caught.value.details["candidates"]


@pytest.mark.table("parts", [("phne",), ("customers", "phne"), ("nothing", "phone")])
def test_hidden_names_are_not_offered(parts: tuple[str, ...]) -> None:
    with pytest.raises(SemanticError) as caught:
        names().asked_name(parts)
    assert "phone" not in caught.value.details["candidates"]
    assert "`phone`" not in (caught.value.hint or "")


@pytest.mark.table(
    ("text", "wanted"),
    [
        ("amount", ["amount"]),
        ("orders.amount", ["amount"]),
        ("AMOUNT > customers.balance", ["amount", "customers.balance"]),
        ("tier = 'gold'", ["customers.tier"]),
        ("customers.regions.team", ["customers.regions.team"]),
        ("billed.team = sent.team", ["billed.team", "sent.team"]),
        ("customers.phone", ["customers.phone"]),
    ],
)
def test_names_of_a_definition(text: str, wanted: list[str]) -> None:
    found = names()
    assert list(map(str, found.defined(found.source("orders"), text, "x").names)) == wanted


@pytest.mark.table(
    ("source", "text", "code"),
    [
        ("orders", "nothing", "unknown_name"),
        ("orders", "products.nothing", "unknown_name"),
        ("regions", "stock.pieces", None),
        ("orders", "regions.name", None),
        ("spenders", "name", "ambiguous_name"),
    ],
)
def test_definitions_that_are_refused(source: str, text: str, code: str | None) -> None:
    found = names()
    if code is None:
        assert found.defined(found.source(source), text, "x").names
        return
    with pytest.raises(SemanticError) as caught:
        found.defined(found.source(source), text, "the segment `x`")
    assert caught.value.code == code


def computed(expr: str, **more: object) -> Model:
    model = shop_model()
    orders = model.sources["orders"]
    column = Column("made", SemanticType.STRING, expr, **more)  # type: ignore[arg-type]
    orders = replace(
        orders, columns={**orders.columns, "made": column, "again": Column("again", SemanticType.STRING, "made")}
    )
    return replace(model, sources={**model.sources, "orders": orders})


@pytest.mark.table(
    ("expr", "visibility"),
    [
        ("status", Visibility.PUBLIC),
        ("customers.phone", Visibility.HIDDEN),
        ("billed.team || status", Visibility.INTERNAL),
        ("billed.team || customers.phone", Visibility.HIDDEN),
        ("customers.label", Visibility.PUBLIC),
    ],
)
def test_a_computed_column_is_as_visible_as_what_it_reads(expr: str, visibility: Visibility) -> None:
    found = names(model=computed(expr))
    orders = found.source("orders")
    assert [found.visibility(orders, orders.columns[name]) for name in ("made", "again")] == [visibility] * 2


def test_a_computed_column_may_say_its_visibility() -> None:
    found = names(model=computed("md5(customers.phone)", visibility=Visibility.PUBLIC))
    assert str(found.asked_name(("orders", "again"), grouped=True)) == "orders.again"


def test_internal_is_for_filters_but_not_for_groups() -> None:
    found = names()
    assert str(found.asked_name(("billed", "team"))) == "billed.team"
    with pytest.raises(SemanticError, match="it is internal"):
        found.asked_name(("billed", "team"), grouped=True)


def test_a_column_made_of_itself_is_refused() -> None:
    found = names(model=computed("upper(again)"))
    orders = found.source("orders")
    with pytest.raises(SemanticError, match=r"`orders\.made` refers to itself"):
        found.visibility(orders, orders.columns["made"])


def test_two_sources_with_one_alias_each_have_their_own() -> None:
    model = shop_model()
    tickets, orders = model.sources["tickets"], model.sources["orders"]
    to_products = replace(orders.joins[1], to="products", on="grade = products.id", pairs=(("grade", "id"),))
    model = replace(model, sources={**model.sources, "tickets": replace(tickets, joins=(*tickets.joins, to_products))})
    assert str(names("orders", model=model).asked_name(("billed", "name"))) == "billed.name"
    assert str(names("tickets", model=model).asked_name(("billed", "price"))) == "billed.price"
    with pytest.raises(SemanticError) as caught:
        names(model=model).asked_name(("billed", "name"))
    assert caught.value.code == "ambiguous_name"
