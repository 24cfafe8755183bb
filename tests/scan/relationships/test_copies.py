"""Tables that repeat others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ktx_cli.scan.relationships.candidates import without_copies
from ktx_cli.scan.relationships.columns import Candidate, DatabaseFacts, NameMatch, originals

Gathered = Callable[..., DatabaseFacts]
ROWS = {"customer_id": [1, 2, 3], "name": ["a", "b", "c"], "city": ["x", "y", "z"]}


def kept(facts: DatabaseFacts, child: str, *parents: str) -> list[str]:
    columns = {str(column): column for column in facts.columns}
    pairs = [Candidate(columns[child], columns[f"{parent}.customer_id"], NameMatch(1.0, 1.0)) for parent in parents]
    return [pair.key.table.table.ref.name for pair in without_copies(pairs)]


@pytest.mark.parametrize(
    ("child", "parents", "expected"),
    [
        ("orders", ("customers", "stg_customers"), ["customers"]),
        ("orders", ("customers_bak", "customers"), ["customers"]),
        ("stg_orders", ("customers", "stg_customers"), ["stg_customers"]),
        ("orders", ("customers", "customers_20240131"), ["customers"]),
        ("orders", ("customers", "clients"), ["customers", "clients"]),
    ],
)
def test_of_a_table_and_its_copy_the_one_of_the_own_layer_stays(
    gathered: Gathered, child: str, parents: tuple[str, ...], expected: list[str]
) -> None:
    facts = gathered({**dict.fromkeys(parents, ROWS), child: {"customer_id": [1, 1, 2]}})
    assert kept(facts, f"{child}.customer_id", *parents) == expected


def test_other_columns_are_no_copy(gathered: Gathered) -> None:
    facts = gathered({"customers": ROWS, "stg_customers": {"customer_id": [1, 2]}, "orders": {"customer_id": [1, 1]}})
    assert kept(facts, "orders.customer_id", "customers", "stg_customers") == ["customers", "stg_customers"]
    assert originals(facts.tables) == {}


def test_a_copy_knows_its_original(gathered: Gathered) -> None:
    facts = gathered({"customers_old": ROWS, "customers": ROWS, "tmp_customers": ROWS})
    found = {copy.table.ref.name: first.table.ref.name for copy, first in originals(facts.tables).items()}
    assert found == {"customers_old": "customers", "tmp_customers": "customers"}
