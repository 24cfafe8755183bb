"""Members without facts, and questions of dimensions alone; executed on the shop in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ktx_cli.semantic.answer import ask, compile_query
from ktx_cli.semantic.caller import Caller
from ktx_cli.semantic.model import SemanticError
from ktx_cli.warehouses.port import Connector
from tests.semantic.golden.engines import opened
from tests.semantic.golden.world import ATTRIBUTES, NOW, TABLES, shop_model

REGIONS = {row[1] for row in TABLES["regions"][1]}
PRODUCTS = {row[1] for row in TABLES["products"][1]}
TIERS = {row[3] for row in TABLES["customers"][1]}
BILLED = {row[8] for row in TABLES["orders"][1]}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    with opened("duckdb", tmp_path_factory.mktemp("shop")) as connector:
        yield connector


def rows(shop: Connector, query: dict[str, Any]) -> list[tuple[Any, ...]]:
    return ask(shop_model(), query, shop, caller=Caller.of(ATTRIBUTES), now=NOW).rows


def by(*dimensions: Any, **more: Any) -> dict[str, Any]:
    return {"measures": ["orders.orders", "orders.revenue"], "dimensions": list(dimensions), **more}


def test_every_member_is_shown_with_nothing_where_there_is_nothing(shop: Connector) -> None:
    found = rows(shop, by("billed.name"))
    assert {row[0] for row in found} == REGIONS
    empty = [row for row in found if row[1] == 0]
    assert [row[2] for row in empty] == [None] * len(empty)
    assert len(empty) == len(REGIONS) - len(BILLED)


@pytest.mark.table(
    ("query", "count"),
    [
        (by("billed.name", include_empty=False), len(BILLED)),
        (by("billed.name", "sent.name", include_empty=True), len(REGIONS) ** 2),
        (by("customers.tier", "billed.name", include_empty=True), len(TIERS) * len(REGIONS)),
        (by("orders.status"), 5),
        (by("billed.name", having=["orders > 0"]), len(BILLED)),
    ],
)
def test_how_many_rows(query: dict[str, Any], count: int, shop: Connector) -> None:
    assert len(rows(shop, query)) == count


def test_conditions_on_members_restrict_them_and_those_on_facts_do_not(shop: Connector) -> None:
    named = rows(shop, by("billed.name", filters=["billed.name LIKE 'N%'"]))
    assert [row[0] for row in named] == ["North"]
    gifts = rows(shop, by("billed.name", filters=["orders.gift = TRUE"]))
    assert {row[0] for row in gifts} == REGIONS


def test_dimensions_alone_are_the_combinations_of_the_finest_source(shop: Connector) -> None:
    regions = {row[0]: row[1] for row in TABLES["regions"][1]}
    wanted = {(row[3], regions.get(row[2])) for row in TABLES["customers"][1]}
    assert set(rows(shop, {"dimensions": ["customers.tier", "customers.regions.name"]})) == wanted
    assert set(rows(shop, {"dimensions": ["products.name"]})) == {(name,) for name in PRODUCTS}


@pytest.mark.table(
    ("query", "code"),
    [
        ({"dimensions": ["products.name", "customers.tier"]}, None),
        ({"dimensions": ["stock.day", "tickets.grade"]}, "unreachable"),
        ({"dimensions": [{"field": "metric_time", "granularity": "day"}]}, "query"),
    ],
)
def test_combinations_nothing_has(query: dict[str, Any], code: str | None) -> None:
    if code is None:
        assert compile_query(shop_model(), query).compiled.build.sources.keys() >= {"lines", "orders"}
        return
    with pytest.raises(SemanticError) as caught:
        compile_query(shop_model(), query)
    assert caught.value.code == code
    assert caught.value.hint
