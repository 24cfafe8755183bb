"""Names that are written without any break."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.scan.relationships.names import Splitter, string_prefix, without_prefix

NAMES = ("customer", "order", "warehouse", "qwertz_zuiop", "financialkind", "plans")


@pytest.mark.table(
    ("name", "expected"),
    [
        ("createdbyno", "created by no"),
        ("customerid", "customer id"),
        ("orderdate", "order date"),
        ("customerorderno", "customer order no"),
        ("warehouseqwertz", "warehouse qwertz"),
        ("idwarehouse", "id warehouse"),
        ("idfinancialkind", "id financialkind"),
        ("idplan", "id plan"),
        ("paid", "paid"),
        ("ordering", "ordering"),
        ("xorder", "xorder"),
        ("orderx2", "orderx2"),
        ("customer", "customer"),
    ],
)
def test_run_together_words_are_cut(name: str, expected: str) -> None:
    assert " ".join(Splitter(NAMES).split((name,))) == expected


def test_only_words_that_are_run_together_are_cut() -> None:
    assert Splitter(NAMES).split(("customerid", "name")) == ("customer", "id", "name")
    assert Splitter(()).split(("warehousezuiop",)) == ("warehousezuiop",)


@pytest.mark.table(
    ("name", "expected"),
    [
        ("hauptlieferant", "haupt lieferant"),
        ("basecurrency", "base currency"),
        ("lieferanten", "lieferanten"),
        ("xlieferant", "xlieferant"),
        ("outpost", "outpost"),
    ],
)
def test_a_compound_ends_with_the_noun_of_a_table(name: str, expected: str) -> None:
    assert " ".join(Splitter(NAMES, tails=["lieferanten", "posts", "currencies"]).split((name,))) == expected


@given(st.lists(st.text(alphabet="abcdeorid", min_size=1, max_size=20), min_size=1, max_size=3))
def test_no_letter_is_lost(parts: list[str]) -> None:
    assert "".join(Splitter(NAMES).split(tuple(parts))) == "".join(parts)


@pytest.mark.table(
    ("names", "prefix"),
    [
        ("prdid prdname prdprice prdkind", "prd"),
        ("prid prname prprice prkind", "pr"),
        ("id name price kind", ""),
        ("prdid prdname prdprice", ""),
        ("prd_id prd_name prd_price prd_kind", ""),
    ],
)
def test_letters_that_all_columns_begin_with(names: str, prefix: str) -> None:
    assert string_prefix(names.split()) == prefix


def test_the_letters_are_taken_off() -> None:
    assert without_prefix(("prdname",), "prd") == ("name",)
    assert without_prefix(("prdx",), "prd") == ("prdx",)
    assert without_prefix(("prd", "name"), "prd") == ("prd", "name")
    assert without_prefix(("name",), "") == ("name",)
