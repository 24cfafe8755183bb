"""What names say: words, keys, likeness."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ktx_cli.scan.relationships.columns import DatabaseFacts
from ktx_cli.scan.relationships.names import (
    alike,
    alike_words,
    concept_words,
    concepts,
    is_doer,
    key_base,
    lettered,
    local_key_words,
    names_actor,
    own_prefix,
    phrase_alike,
    stem,
    table_words,
    tokens,
    words,
)

LETTERS = st.text(alphabet="abcdeistz", min_size=1, max_size=9)
PHRASES = st.lists(LETTERS, min_size=1, max_size=3).map(tuple)


@pytest.mark.table(
    ("name", "expected"),
    [
        ("customer_id", "customer id"),
        ("CustomerID2", "customer id 2"),
        ("customerIDs", "customer ids"),
        ("HTTPServerURLs", "http server urls"),
        ("ORDER-DATE", "order date"),
        ("order date", "order date"),
        ("kundenNr", "kunden nr"),
        ("Größe", "grosse"),
        ("łączna_cena", "laczna cena"),
        ("Año", "ano"),
        ("客户编号", "客户编号"),
        ("_", "_"),
        ("123", "123"),
    ],
)
def test_a_name_is_split_into_words(name: str, expected: str) -> None:
    assert " ".join(tokens(name)) == expected


@given(st.text(max_size=20))
def test_any_name_has_words_in_small_letters(name: str) -> None:
    found = tokens(name)
    assert found
    assert all(word == word.lower() for word in found)


@pytest.mark.table(
    ("word", "expected"),
    [
        ("customers", "customer"),
        ("categories", "category"),
        ("addresses", "address"),
        ("boxes", "box"),
        ("branches", "branch"),
        ("statuses", "status"),
        ("status", "status"),
        ("analysis", "analysis"),
        ("people", "person"),
        ("children", "child"),
        ("bus", "bus"),
        ("größen", "größen"),
    ],
)
def test_the_singular_of_english_nouns(word: str, expected: str) -> None:
    assert stem(word) == expected


@pytest.mark.table(
    ("one", "other", "least", "most"),
    [
        ("customer", "customers", 1, 1),
        ("kunde", "kunden", 0.9, 1),
        ("cust", "customer", 0.8, 0.9),
        ("cst", "customer", 0.7, 0.9),
        ("emp", "employee", 0.7, 0.9),
        ("dept", "department", 0.4, 0.7),
        ("qty", "quantity", 0.4, 0.7),
        ("order", "border", 0, 0),
        ("product", "price", 0, 0),
        ("1", "10", 0, 0),
        ("a", "address", 0, 0),
    ],
)
def test_how_alike_two_words_are(one: str, other: str, least: float, most: float) -> None:
    assert least <= alike(one, other) <= most
    assert alike(other, one) == alike(one, other)


@given(LETTERS, LETTERS)
def test_likeness_is_symmetric_and_a_share(one: str, other: str) -> None:
    assert 0.0 <= alike(one, other) <= 1.0
    assert alike(one, other) == alike(other, one)
    assert alike(one, one) == 1.0


@given(PHRASES, PHRASES)
def test_likeness_of_phrases_is_a_share(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert 0.0 <= phrase_alike(one, other) <= 1.0
    assert phrase_alike(one, one) == 1.0
    assert phrase_alike(one, ()) == 0.0


@pytest.mark.table(
    ("one", "other", "least", "most"),
    [
        ("sales order", "sales orders", 1, 1),
        ("salesorder", "sales order", 1, 1),
        ("so", "sales order", 0.7, 0.8),
        ("custord", "customer order", 0.4, 0.9),
        ("sales price", "sales order", 0, 0),
        ("order", "sales order", 0, 0),
    ],
)
def test_how_alike_two_phrases_are(one: str, other: str, least: float, most: float) -> None:
    assert least <= phrase_alike(tuple(one.split()), tuple(other.split())) <= most


@pytest.mark.table(
    ("name", "base", "keyed"),
    [
        ("customer_id", "customer", True),
        ("cust_no", "cust", True),
        ("id_client", "client", True),
        ("KundenNr", "kunden", True),
        ("kod_towaru", "towaru", True),
        ("customerid", "customer", True),
        ("fk_customer", "customer", True),
        ("fkcustomer", "customer", True),
        ("contact_id_2", "contact", True),
        ("billing_address_id", "billing address", True),
        ("id", "", True),
        ("code", "", True),
        ("c1", "", False),
        ("col_07", "", False),
        ("order_date", "order date", False),
        ("paid", "paid", False),
    ],
)
def test_the_words_that_mean_a_key_are_taken_off(name: str, base: str, keyed: bool) -> None:
    assert key_base(tokens(name)) == (tuple(base.split()), keyed)


def test_a_word_may_mean_a_key_in_one_database_alone() -> None:
    firsts = [tokens(f"{name}_tunniste") for name in ("asiakas", "tilaus", "tuote")]
    local = local_key_words([*firsts, tokens("maa_nimi")])
    assert local == {"tunniste"}
    assert key_base(firsts[0], local) == (("asiakas",), True)
    assert local_key_words([tokens(f"{name}_id") for name in "abcde"]) == frozenset()
    assert local_key_words([tokens("same_tunniste")] * 5) == frozenset()


@pytest.mark.table(
    ("names", "expected"),
    [
        ("dim_customer fct_sales stg_orders", "customer | sales | orders"),
        ("app_users app_orders app_items app_lines other", "users | orders | items | lines | other"),
        ("dimcustomer dimproduct sales", "customer | product | sales"),
        ("sensor_1 sensor_2 note_2020", "sensor 1 | sensor 2 | note"),
        ("tblCustomers", "customers"),
        ("dim", "dim"),
        (
            "wbarticle wbarticlerevision wbban wbbadge wbcourse wbforum wbpoll wbvote",
            "article | articlerevision | ban | badge | course | forum | poll | vote",
        ),
        ("orders orderlines orderkinds", "orders | orderlines | orderkinds"),
        ("hr3_bill hr3_line hr3_item hr3_user a27_allele", "bill | line | item | user | allele"),
        ("link link_type fact_sale", "link | link type | sale"),
        ("uom_uom uom_category user_user user", "uom | uom category | user user | user"),
        ("Sales_SalesPerson Sales_Store Person_Person", "sales person | sales store | person"),
    ],
)
def test_layers_and_shared_prefixes_are_no_part_of_a_table_s_name(names: str, expected: str) -> None:
    found = table_words(names.split())
    assert " | ".join(" ".join(found[name]) for name in names.split()) == expected


@pytest.mark.table(
    ("names", "prefix"),
    [
        ("cst_id cst_name cst_city", "cst"),
        ("cst_id cst_name city", ""),
        ("id_a id_b id_c", ""),
        ("cst_id cst_name", ""),
        ("order_item_id order_item_name order_item_kind order_id", "order_item"),
        ("order_item_id order_item_name order_note order_id", "order"),
    ],
)
def test_what_nearly_all_columns_begin_with(names: str, prefix: str) -> None:
    assert "_".join(own_prefix(names.split())) == prefix


@pytest.mark.table(
    ("name", "concept"),
    [
        ("sales_rep", "person"),
        ("approved_by", "person"),
        ("erstellt_von", "person"),
        ("vendor", "supplier"),
        ("profesores", "person"),
        ("changed_on", "calendar"),
        ("assigned_to", "person"),
        ("ship_to", "carrier"),
    ],
)
def test_words_may_stand_for_a_concept(name: str, concept: str) -> None:
    assert concept in concepts(tokens(name))


@pytest.mark.table(
    ("word", "noun", "expected"),
    [
        ("poster", "posts", True),
        ("editor", "edit", True),
        ("invitors", "invite", False),
        ("border", "bord", True),
        ("poster", "user", False),
        ("inner", "inn", False),
    ],
)
def test_who_does_what_a_noun_is(word: str, noun: str, expected: bool) -> None:
    assert is_doer(word, noun) is expected


@pytest.mark.table(
    ("name", "expected"), [("created_by", True), ("author", True), ("user_modified", True), ("customer", False)]
)
def test_who_wrote_a_row(name: str, expected: bool) -> None:
    assert names_actor(tokens(name)) is expected


def test_words_nobody_knows_stand_for_nothing() -> None:
    assert concepts(("xyzzy",)) == frozenset()


def test_the_vocabulary_is_in_the_form_that_names_are_split_into() -> None:
    """A word that `tokens` never gives would never be found; some have an underscore for a person to read."""
    kinds = ("key", "generic_key", "layer", "measure", "flag", "time", "text", "discriminator", "self", "boss", "agent")
    kinds += ("actor", "user", "user_first", "moment")
    listed = [word for kind in kinds for word in words(kind)] + list(concept_words())
    assert [word for word in listed if tokens(word) != (word,) and "_" not in word] == []


@pytest.mark.table(("word", "expected"), [("crtby", True), ("updby", True), ("hobby", False), ("by", False)])
def test_what_was_done_by_somebody_may_be_run_together(word: str, expected: bool) -> None:
    assert ("person" in concepts((word,))) is expected


def test_a_word_that_is_most_tables_key_means_one(gathered: Callable[..., DatabaseFacts]) -> None:
    tables = {f"t{n}": {"dogo": [1, 2, 3], "pet": ["a", "b", "c"]} for n in range(5)}
    facts = gathered({**tables, "child": {"pez_dogo": [1, 1, 2]}})
    assert {(column.base, column.keyed) for column in facts.columns if column.name == "dogo"} == {((), True)}
    assert next(column.base for column in facts.columns if column.name == "pez_dogo") == ("pez",)


STARTS = st.sampled_from(("ord", "hae", "wom", "ind"))
ENDS = st.sampled_from(("order", "ord", "rs", "s", "er", "en", "ies", "y", "us", "um", "ae", "oe", "auf", "line"))


@given(st.lists(st.lists(ENDS, max_size=4), max_size=12), STARTS)
@example([["en"], ["an"], ["ices"], ["ex"]], "wom")
@example([["ices"], ["ex"]], "ind")
def test_words_that_are_alike_are_found_among_many(ends: list[list[str]], start: str) -> None:
    """What is left out early is what would not have been alike."""
    names = sorted({start + "".join(each) for each in ends})
    for name in names:
        wanted = [other for other in names if alike(name, other) > 0]
        assert alike_words(name, [lettered(other) for other in names]) == wanted
