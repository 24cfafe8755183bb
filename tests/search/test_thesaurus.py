"""Words that mean much the same: a query finds what is called otherwise, behind what is called so."""

from __future__ import annotations

from importlib.resources import files

import pytest

from ktx_cli.search.corpus import Document
from ktx_cli.search.ranking import Index, alternatives, phrases
from ktx_cli.search.stems import stem
from tests.search.test_ranking import document, value

TEXT = files("ktx_cli.search").joinpath("thesaurus.txt").read_text("utf-8")


def found(query: str, *documents: Document) -> list[str]:
    return [hit.id for hit in Index(documents).search(query).hits]


@pytest.mark.table(
    ("query", "name"),
    [
        ("how many buyers did we have", "customer_count"),
        ("Wie hoch war der Umsatz im Winter", "revenue"),
        ("how many parcels went to Oslo", "shipments"),
        ("is that with or without VAT", "sales_tax"),
        ("how much of it was called off", "cancelled_orders"),
    ],
)
def test_a_query_in_other_words_finds_it(query: str, name: str) -> None:
    assert found(query, document(name), document("weather"), document("moon")) == [name]


def test_what_is_called_so_comes_first() -> None:
    asked = "what was our turnover that month"
    assert found(asked, document("revenue"), document("turnover")) == ["turnover", "revenue"]


def test_a_query_of_a_few_words_means_those() -> None:
    assert found("turnover", document("revenue"), document("turnover")) == ["turnover"]


def test_no_value_is_meant_by_another_word() -> None:
    assert found("how many buyers did we have", value("Customer"), document("customers")) == ["customers"]


def test_each_entry_is_a_word_or_a_short_phrase_and_each_group_has_several() -> None:
    lines = [line for line in TEXT.splitlines() if line and not line.startswith("#")]
    groups = [[each.strip() for each in line.split(",")] for line in lines]
    assert all(len(group) > 1 and all(1 <= len(each.split()) <= 3 for each in group) for group in groups)
    assert all(each == each.lower() and len(set(group)) == len(group) for group in groups for each in group)


def test_groups_work_both_ways_and_no_word_is_its_own_alternative() -> None:
    assert stem("customer") in alternatives("Buyer".lower()) and stem("buyer") in alternatives("customers")
    assert stem("buyer") not in alternatives("buyers")
    assert list(phrases(["the", "order", "was", "called", "off"])) == [alternatives_of_phrase("called off")]
    assert list(phrases(["called"])) == []


def alternatives_of_phrase(phrase: str) -> tuple[str, ...]:
    (only,) = phrases(phrase.split())
    assert stem("cancel") in only
    return only
