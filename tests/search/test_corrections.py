"""What a search does with words that nothing has: a trial set of ordinary words, and of typing errors of names.

Each ordinary word is near a name or a value of the made-up company below, and none of them was meant: several come from
agents that were sent astray by such a correction.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ktx_cli.search import KINDS, Index
from ktx_cli.search.corpus import Document, Field

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
