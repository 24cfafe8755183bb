"""No table is left out of the search for joins, and tables that may be related are seen together."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktx_cli.scan.relationships.proposals import PARENTS_PER_COLUMN, likely_parents, plan_batches
from ktx_cli.warehouses.port import TableRef
from tests.scan.descriptions.conftest import make_table

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

REFS = [TableRef(None, f"t{number}") for number in range(9)]
SIZES = st.dictionaries(st.sampled_from(REFS), st.integers(1, 50), max_size=9)
PARENTS = st.dictionaries(st.sampled_from(REFS), st.lists(st.sampled_from(REFS), unique=True, max_size=6))


@UNHURRIED
@given(SIZES, PARENTS, st.integers(1, 6), st.integers(1, 150))
def test_every_table_and_every_likely_pair_is_in_a_batch(
    sizes: dict[TableRef, int], parents: dict[TableRef, list[TableRef]], tables: int, tokens: int
) -> None:
    parents = {ref: [parent for parent in found if parent != ref] for ref, found in parents.items()}
    batches = plan_batches(sizes, parents, tables=tables, tokens=tokens)
    assert {ref for batch in batches for ref in batch} == set(sizes)
    for batch in batches:
        assert len(set(batch)) == len(batch) <= tables
        assert sum(sizes[ref] for ref in batch) <= tokens or len(batch) <= 2
    wanted = {(ref, parent) for ref in sizes for parent in parents.get(ref, ()) if parent in sizes}
    if tables > 1:
        assert all(any(child in batch and parent in batch for batch in batches) for child, parent in wanted)


def test_what_fits_is_one_batch() -> None:
    sizes = dict.fromkeys(REFS, 10)
    chain = {child: [parent] for child, parent in pairwise(REFS)}
    assert plan_batches(sizes, chain, tables=9, tokens=90) == [tuple(REFS)]


def test_five_hundred_tables_need_few_batches_and_none_is_lost() -> None:
    refs = [TableRef(None, f"t{number:03}") for number in range(500)]
    parents = {ref: [refs[number // 10]] for number, ref in enumerate(refs) if number // 10 != number}
    batches = plan_batches(dict.fromkeys(refs, 300), parents, tables=40, tokens=40_000)
    assert len({ref for batch in batches for ref in batch}) == 500
    assert len(batches) <= 20


@pytest.mark.table(
    ("column", "parents"),
    [
        ("customer_id int", ["customers"]),
        ("CustomerID int", ["customers"]),
        ("buyer_id int", []),
        ("customer_group_id int", ["customer_groups"]),
        ("customer text", ["customers"]),
        ("customer_name text", []),
        ("customer_shipping_address_id int", []),
        ("order_customer_no int", ["customers", "orders"]),
        ("group_ref int", ["customer_groups"]),
        ("iso_code text", ["countries"]),
        ("id int", []),
        ("amount decimal", []),
    ],
)
def test_names_say_which_tables_a_column_may_mean(column: str, parents: list[str]) -> None:
    tables = [
        make_table("customers", "id int", key="id"),
        make_table("orders", "id int", key="id"),
        make_table("customer_groups", "id int", key="id"),
        make_table("countries", "iso_code text", key="iso_code"),
        make_table("facts", column),
    ]
    assert [ref.name for ref in likely_parents(tables)[TableRef(None, "facts")]] == parents


def test_one_column_points_to_few_tables_those_of_its_schema_first() -> None:
    tables = [make_table("customers", "id int", schema=f"s{number}") for number in range(9)]
    facts = make_table("facts", "customer_id int", schema="s8")
    found = likely_parents([*tables, facts])[facts.ref]
    assert [ref.schema for ref in found] == ["s8", "s0", "s1"]
    assert len(found) == PARENTS_PER_COLUMN
