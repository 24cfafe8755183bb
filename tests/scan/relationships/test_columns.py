"""Which tables and keys a column's name speaks of."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ktx_cli.scan.relationships.columns import ColumnFacts, DatabaseFacts, NameIndex, NameMatch, key_alike, table_alike
from ktx_cli.scan.relationships.keys import unique_columns

Gathered = Callable[..., DatabaseFacts]
TEN = list(range(1, 11))
TABLES = {
    "customers": {"id": TEN, "name": ["x"] * 10},
    "sales_orders": {"id": TEN, "customer_id": [1] * 10, "parent_id": [1] * 10, "ship_to_address": [1] * 10},
    "addresses": {"address_id": TEN},
    "employees": {"id": TEN, "reports_to": [1] * 10, "approved_by": [1] * 10},
    "currencies": {"code": [f"c{n}" for n in TEN], "number": [1] * 10},
    "notes": {
        "customer": [1] * 10,
        "rep": [1] * 10,
        "currency_code": ["c1"] * 10,
        "so_id": [1] * 10,
        "amount": [1] * 10,
    },
}


@pytest.fixture
def facts(gathered: Gathered) -> DatabaseFacts:
    return gathered(TABLES)


def column(facts: DatabaseFacts, name: str) -> ColumnFacts:
    return next(each for each in facts.columns if str(each) == name)


def index_of(facts: DatabaseFacts) -> NameIndex:
    return NameIndex(facts.tables, [key for table in facts.tables for key in unique_columns(table)])


@pytest.mark.parametrize(
    ("child", "parent"),
    [
        ("sales_orders.customer_id", "customers.id"),
        ("notes.customer", "customers.id"),
        ("notes.so_id", "sales_orders.id"),
        ("notes.currency_code", "currencies.code"),
        ("sales_orders.ship_to_address", "addresses.address_id"),
        ("sales_orders.parent_id", "sales_orders.id"),
        ("employees.reports_to", "employees.id"),
    ],
)
def test_the_clearest_parent(facts: DatabaseFacts, child: str, parent: str) -> None:
    found = index_of(facts).parents(column(facts, child))
    best = max(found, key=lambda key: found[key].best)
    assert str(best) == parent
    assert found[best].best >= 0.7
    assert found[best] == index_of(facts).match(column(facts, child), best)


def test_other_words_for_the_same(facts: DatabaseFacts) -> None:
    for child in ("notes.rep", "employees.approved_by"):
        found = index_of(facts).parents(column(facts, child))
        assert found[column(facts, "employees.id")].meaning
        assert not found[column(facts, "employees.id")].table


def test_words_that_speak_of_nothing(facts: DatabaseFacts) -> None:
    assert index_of(facts).parents(column(facts, "notes.amount")) == {}


def test_a_column_is_no_parent_of_itself(facts: DatabaseFacts) -> None:
    index = index_of(facts)
    assert all(each not in index.parents(each) for each in facts.columns)


@pytest.mark.table(
    ("base", "table", "least", "most"),
    [
        ("customer", "customer", 1, 1),
        ("billing address", "address", 0.9, 0.95),
        ("address line", "address", 0.7, 0.85),
        ("order", "sales order", 0.8, 0.85),
        ("order", "order header", 0.7, 0.85),
        ("price", "customer", 0, 0),
    ],
)
def test_how_far_words_speak_of_a_table(base: str, table: str, least: float, most: float) -> None:
    assert least <= table_alike(tuple(base.split()), tuple(table.split())) <= most


def test_a_key_s_own_name(facts: DatabaseFacts, gathered: Gathered) -> None:
    more = gathered(
        {"addresses": {"address_id": TEN}, "visits": {"address_id": TEN, "home_address_id": TEN, "id": TEN}}
    )
    key = column(more, "addresses.address_id")
    assert key_alike(column(more, "visits.address_id"), key) == 1.0
    assert key_alike(column(more, "visits.home_address_id"), key) == 0.9
    assert key_alike(column(more, "visits.id"), key) == 0.0
    assert key_alike(column(more, "visits.address_id"), column(facts, "customers.id")) == 0.0


def test_the_stronger_of_two_names_counts() -> None:
    assert NameMatch(0.3, 0.8).best == NameMatch(0.8, 0.3).best == 0.8
