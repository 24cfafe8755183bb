from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.domains import all_domains, application_domains
from benchmarks.relationship_fixtures.kinds_of_values import kind_of
from benchmarks.relationship_fixtures.knobs import KINDS
from benchmarks.relationship_fixtures.namer import Namer, pattern_tokens, unique
from benchmarks.relationship_fixtures.scrambling import scrambled
from benchmarks.relationship_fixtures.shortening import initials, letters, shorten
from benchmarks.relationship_fixtures.styles import CASES, CONVENTIONS, Style, sample_style
from benchmarks.relationship_fixtures.words import LANGUAGES, dictionary, plain, translate


def namer(**changes: object) -> Namer:
    settings = {
        "language": "english",
        "table_case": "snake",
        "column_case": "snake",
        "plural": False,
        "convention": ("id", "{r} id"),
    }
    return Namer(Dice(1, "test"), KINDS["general"], Style(**(settings | changes)), "plain")  # type: ignore[arg-type]


@pytest.mark.table("language", LANGUAGES[1:])
def test_a_language_has_words_for_most_things(language: str) -> None:
    words = dictionary(language)
    assert len(words) >= 450
    assert sum(word != said for word, said in words.items()) > 0.8 * len(words)
    assert all(said and said == said.strip() for said in words.values())


@pytest.mark.table(
    ("words", "language", "said"),
    [
        ("order_line", "german", "auftrag zeile"),
        ("order_line", "spanish", "línea pedido"),
        ("approved_by", "french", "approuvé par"),
        ("birth_date", "polish", "data urodzenia"),
        ("zebra_customer", "dutch", "zebra klant"),
        ("order_line", "english", "order line"),
        ("custom_value_1", "italian", "valore custom 1"),
    ],
)
def test_phrases_are_said_in_the_order_of_the_language(words: str, language: str, said: str) -> None:
    assert translate(words, language) == tuple(said.split())


@pytest.mark.table(("text", "bare"), [("Straße", "Strasse"), ("año", "ano"), ("płeć", "plec"), ("Größe", "Groesse")])
def test_marks_are_dropped(text: str, bare: str) -> None:
    assert plain(text) == bare


@pytest.mark.table(
    ("token", "way", "short"),
    [
        ("customer", "vowels", "cstmr"),
        ("customer", "cut3", "cus"),
        ("customer", "cut4", "cust"),
        ("customer", "usual", "cust"),
        ("customer", "", "customer"),
        ("day", "vowels", "day"),
    ],
)
def test_tokens_are_shortened(token: str, way: str, short: str) -> None:
    assert shorten(token, way) == short


def test_initials_of_phrases_only() -> None:
    assert (initials(("purchase", "order")), initials(("order",))) == (("po",), ("order",))
    assert (letters("customer", 3), letters("purchase_order_line", 3)) == ("cst", "pol")


@pytest.mark.table(
    ("case", "name"),
    [
        ("snake", "customer_id"),
        ("upper_snake", "CUSTOMER_ID"),
        ("pascal", "CustomerID"),
        ("camel", "customerID"),
        ("flat", "customerid"),
        ("upper_flat", "CUSTOMERID"),
        ("pascal_snake", "Customer_ID"),
        ("spaced", "Customer ID"),
    ],
)
def test_cases(case: str, name: str) -> None:
    made = namer(upper_id=True)
    assert made.join(["customer", "id"], case, made.style) == name
    assert case in CASES


@pytest.mark.parametrize(
    ("pattern", "name"),
    [("{r} id", "billing_address_id"), ("fk {r}", "fk_billing_address"), ("{r} {p} id", "billing_address_id")],
)
def test_conventions(pattern: str, name: str) -> None:
    made = namer()
    assert "_".join(pattern_tokens(made, pattern, "", "billing_address", "address", made.style)) == name


def test_every_convention_names_keys_and_references() -> None:
    for key, reference in CONVENTIONS:
        assert key and ("{r}" in reference or reference == "{t} id")


def test_names_are_unique_whatever_their_case() -> None:
    taken: set[str] = set()
    assert [unique(name, taken) for name in ("Name", "NAME", "name", "")] == ["Name", "NAME2", "name3", "x2"]


@given(st.integers(0, 10**6))
def test_a_style_is_drawn_for_any_seed(seed: int) -> None:
    style = sample_style(Dice(seed, "style"), KINDS["abbreviated"], "plain")
    assert style.abbreviation and style.language in LANGUAGES


@given(
    st.dictionaries(
        st.text("abC_1", min_size=1, max_size=6), st.lists(st.text("xyZ_2", min_size=1), max_size=4), max_size=4
    ),
    st.sampled_from(["independent", "tokens"]),
)
def test_scrambled_names_are_unique(shape: dict[str, list[str]], way: str) -> None:
    shape = {table: list(dict.fromkeys(columns)) for table, columns in shape.items()}
    tables, columns = scrambled(Dice(1, "names"), shape, way)
    assert len({name.lower() for name in tables.values()}) == len(shape)
    for table, names in shape.items():
        assert len({columns[table, name].lower() for name in names}) == len(names)


@pytest.mark.table(
    ("name", "kind"),
    [
        ("unit_price", "money"),
        ("birth_date", "date"),
        ("created_at", "timestamp"),
        ("is_admin", "flag"),
        ("first_name", "first_name"),
        ("valid_from", "date"),
        ("order_number", "number"),
        ("grade", "small"),
        ("nonsense", "label"),
    ],
)
def test_values_fit_their_names(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_domains_are_many_and_whole() -> None:
    domains = all_domains()
    assert len(domains) >= 25
    assert all(8 <= len(domain.entities) <= 40 for domain in domains)
    applications = application_domains()
    assert len(applications) >= 6
    assert all(40 <= len(domain.entities) <= 100 for domain in applications)
