"""Words of texts and names: folding, parts of names, English endings."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ktx_cli.search.stems import asked_words, folded, plain_words, stem, words


@pytest.mark.table(
    ("text", "found"),
    [
        ("order_items", ["order", "items"]),
        ("netRevenue2024", ["net", "revenue2024"]),
        ("HTTPStatus", ["http", "status"]),
        ("orders.ordered_at", ["orders", "ordered", "at"]),
        ("Größe der Fläche", ["grosse", "der", "flache"]),
        ("café Ｃａｆｅ́", ["cafe", "cafe"]),
        ("売上 高", ["売上", "高"]),
        ("", []),
        ("--- !", []),
    ],
)
def test_plain_words(text: str, found: list[str]) -> None:
    assert plain_words(text) == found


@pytest.mark.table(
    "alike",
    [
        ["order", "orders", "ordered", "ordering"],
        ["country", "countries"],
        ["price", "prices", "pricing"],
        ["box", "boxed"],
        ["ship", "shipped", "shipping"],
        ["status", "statuses"],
        ["bill", "billing", "billed"],
        ["address", "addresses"],
        ["cancel", "cancels", "canceled", "cancelled", "cancelling"],
        ["install", "installs", "installed"],
        ["sell", "sells", "selling", "sold"],
        ["pay", "pays", "paying", "paid"],
    ],
)
def test_forms_of_a_word_have_one_stem(alike: list[str]) -> None:
    assert len({stem(word) for word in alike}) == 1


@pytest.mark.table(("one", "two"), [("string", "str"), ("bus", "bu"), ("analysis", "analysi")])
def test_other_words_keep_theirs(one: str, two: str) -> None:
    assert stem(one) != stem(two)


def test_words_that_say_nothing_are_left_out_unless_there_are_no_others() -> None:
    assert asked_words("the revenue by country of the revenue") == ["revenue", "country"]
    assert asked_words("of the") == ["of", "the"]


@given(st.text())
@example("𝕬")
def test_any_text_has_words_in_lower_case(text: str) -> None:
    for word in plain_words(text):
        assert word
        assert folded(word) == word
    assert len(words(text)) == len(plain_words(text))
