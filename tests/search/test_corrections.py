"""What a search does with words that nothing has: a trial set of ordinary words, and of typing errors of names.

Each ordinary word is near a name or a value of the made-up company below, and none of them was meant: several come from
agents that were sent astray by such a correction.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

import pytest

from ktx_cli.search.corpus import KINDS, Document, Field
from ktx_cli.search.ranking import Index, grouped_values, is_ordinary

NAMES = """
account address balance campaign carton catalog category channel commission company contract country customer delivery
department discount employee inventory invoice lost order payment personnel plant product project quantity receipt
receivable refund region return revenue salary shipment slate storage subscription supplier ticket territory turnover
warehouse both one prime angle trial diary quite stationery church stick store desert morale statute kisten mengen
lagern kunst bestellung lieferung rechnung umsatz kunden rabatten preise vertrag gutschein
"""
VALUES = "marlin sage coral amber cobalt willow salmon panther carrot pepper linen cotton"


def document(name: str, kind: str) -> Document:
    fields = (Field("name", name, 4.0),)
    return Document(kind, name, "shop", f"a {kind}", fields, KINDS.index(kind))


@pytest.fixture(scope="module")
def index() -> Iterator[Index]:
    kinds = ("measure", "source", "column", "page")
    named = [document(name, kinds[place % len(kinds)]) for place, name in enumerate(NAMES.split())]
    yield Index([*named, *(document(name, "value") for name in VALUES.split())])


ORDINARY = (
    # from trials: each of these found the second word
    *(("cost", "lost"), ("margin", "marlin"), ("headcount", "account"), ("late", "slate"), ("zone", "one")),
    *(("quality", "quantity"), ("bots", "both")),
    # English
    *(("county", "country"), ("contact", "contract"), ("invention", "inventory"), ("cartoon", "carton")),
    *(("price", "prime"), ("angel", "angle"), ("trail", "trial"), ("dairy", "diary"), ("quiet", "quite")),
    *(("stationary", "stationery"), ("churn", "church"), ("stock", "stick"), ("score", "store")),
    *(("dessert", "desert"), ("moral", "morale"), ("statue", "statute"), ("stage", "sage"), ("carol", "coral")),
    *(("planet", "plant"), ("produce", "product"), ("addition", "address"), ("personal", "personnel")),
    *(("customs", "customer"), ("storm", "store"), ("celery", "salary"), ("pilot", "plot"), ("lemon", "salmon")),
    *(("reason", "region"), ("object", "project"), ("parrot", "carrot"), ("paper", "pepper"), ("line", "linen")),
    *(("button", "cotton"), ("chapel", "channel"), ("trader", "territory"), ("planner", "panther")),
    # German
    *(("kosten", "kisten"), ("menge", "mengen"), ("lager", "lagern"), ("kunde", "kunst"), ("preis", "preise")),
    *(("marge", "large"), ("verlust", "vertrag"), ("anzahl", "angle"), ("filiale", "file"), ("gewinn", "gutschein")),
    *(("bestand", "bestellung"), ("umzug", "umsatz"), ("rechner", "rechnung"), ("liefern", "lieferung")),
)
TYPING_ERRORS = (
    *(("revnue", "revenue"), ("reveune", "revenue"), ("custmer", "customer"), ("cutsomer", "customer")),
    *(("contry", "country"), ("coutnry", "country"), ("quanity", "quantity"), ("inventry", "inventory")),
    *(("shipmnet", "shipment"), ("catgory", "category"), ("catagory", "category"), ("discuont", "discount")),
    *(("refudn", "refund"), ("warehosue", "warehouse"), ("acount", "account"), ("accuont", "account")),
    *(("prodcut", "product"), ("subscripton", "subscription"), ("turnovre", "turnover"), ("emplyoee", "employee")),
    *(("adress", "address"), ("payement", "payment"), ("recievable", "receivable"), ("chanel", "channel")),
    *(("comission", "commission"), ("supllier", "supplier"), ("delivrey", "delivery"), ("invocie", "invoice")),
    *(("campain", "campaign"), ("teritory", "territory"), ("bestelung", "bestellung"), ("liefrung", "lieferung")),
    *(("rechnugn", "rechnung"), ("umstaz", "umsatz"), ("vetrag", "vertrag")),
)


@pytest.mark.table(("word", "near"), ORDINARY)
def test_an_ordinary_word_is_never_corrected(index: Index, word: str, near: str) -> None:
    found = index.search(word)
    assert dict(found.corrected) == {}, near
    assert all(word in hit.id or hit.id.startswith(word) or word.startswith(hit.id) for hit in found.hits), found.hits


@pytest.mark.table(("word", "name"), TYPING_ERRORS)
def test_a_typing_error_of_a_name_is_corrected_and_says_so(index: Index, word: str, name: str) -> None:
    found = index.search(word)
    assert dict(found.corrected) == {word: name}
    assert found.hits[0].id == name


@pytest.mark.table(
    ("query", "suggested", "first"),
    [
        ("margin", {"margin": "marlin"}, None),
        ("county", {"county": "country"}, None),
        ("price", {"price": "prime"}, None),
        ("kosten", {"kosten": "kisten"}, None),
        ("margin by region", {"margin": "marlin"}, "region"),
        ("revnue by region", {"revnue": "revenue"}, "region"),
        ("custmer address", {"custmer": "customer"}, "address"),
        ("quality of a product", {}, "product"),
    ],
)
def test_what_may_be_meant_is_suggested_beside_the_hits(
    index: Index, query: str, suggested: dict[str, str], first: str | None
) -> None:
    found = index.search(query)
    assert (dict(found.corrected), dict(found.suggested)) == ({}, suggested)
    assert [hit.id for hit in found.hits] == ([] if first is None else [first])


def test_a_word_that_says_little_keeps_no_typing_error_from_being_corrected(index: Index) -> None:
    found = index.search("show me the last revnue")
    assert (dict(found.corrected), dict(found.suggested)) == ({"revnue": "revenue"}, {})


@pytest.mark.table("word", ["revenue", "shipments", "marlin", "refunded", "Straße", "coral"])
def test_a_word_that_a_text_or_a_value_has_is_never_corrected(word: str) -> None:
    near = [
        document(name, "measure") for name in ("revenues2", "shipmant", "margin", "refunder", "strasse2", "corals2")
    ]
    text = Document("page", "p", "", "a page", (Field("body", f"something about {word}"),), KINDS.index("page"))
    found = Index([*near, text]).search(word)
    assert (dict(found.corrected), dict(found.suggested)) == ({}, {}) and "p" in [hit.id for hit in found.hits]


def test_the_list_of_ordinary_words_is_what_it_says() -> None:
    text = files("ktx_cli.search").joinpath("ordinary_words.txt").read_text("utf-8")
    assert "Copyright 2000-2018 by Kevin Atkinson" in text and "this permission notice" in text
    listed = [word for line in text.splitlines() if not line.startswith("#") for word in line.split()]
    assert len(listed) > 15_000 and all(word.isascii() and word.islower() and word.isalpha() for word in listed)
    for word in ("margin", "quality", "churn", "kosten", "umsatz"):
        assert is_ordinary(word)
    assert not any(is_ordinary(word) for word, _ in TYPING_ERRORS)


def test_values_of_a_column_are_one_hit_in_lists() -> None:
    def value(column: str, text: str) -> Document:
        return Document("value", f"{column} = '{text}'", "shop", "a value", (Field("value", text, 4.0),), 6)

    values = [value("orders.status", f"paid {number}") for number in range(5)] + [value("payments.state", "paid")]
    grouped = grouped_values(Index([*values, document("paid", "measure")]).search("paid").hits)
    assert grouped[0][0].kind == "measure" and grouped[0][1] == ()
    shown = {hit.id.partition(" = ")[0]: found for hit, found in grouped[1:]}
    assert sorted(shown["orders.status"]) == [f"'paid {number}'" for number in range(5)]
    assert shown["payments.state"] == ("'paid'",) and len(grouped) == 3
