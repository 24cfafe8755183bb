"""What is found by which words, and in which order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.search.corpus import KINDS, Document, Field, Passage, passage_documents
from ktx_cli.search.ranking import Index


def document(id: str, description: str = "", *, kind: str = "measure", order: int = 1, **more: str) -> Document:
    name = id.rpartition(".")[2]
    fields = [Field("name", name, 4.0), *(Field(key, text, 2.0) for key, text in more.items())]
    fields += [Field("description", description)] if description else []
    return Document(kind, id, "shop", description or id, tuple(fields), order)


DOCUMENTS = [
    document("orders", "Every order of a customer", kind="source", order=0, measures="revenue order_count"),
    document("orders.revenue", "Paid turnover in euros", source="orders"),
    document("orders.order_count", "How many orders there are", source="orders"),
    document("tickets.resolution_hours", "Hours until a ticket was closed", source="tickets"),
    document("customers.country", "Where the customer lives", kind="column", order=3),
]


def ids(query: str, limit: int = 20) -> list[str]:
    return [hit.id for hit in Index(DOCUMENTS).search(query, limit).hits]


@pytest.mark.table(
    ("query", "first"),
    [
        ("revenue", "orders.revenue"),
        ("orders", "orders"),
        ("order", "orders"),
        ("orders.revenue", "orders.revenue"),
        ("turnover", "orders.revenue"),
        ("number of orders", "orders.order_count"),
        ("tickets closing", "tickets.resolution_hours"),
        ("resol", "tickets.resolution_hours"),
        ("COUNTRIES", "customers.country"),
    ],
)
def test_the_best_hit(query: str, first: str) -> None:
    assert ids(query)[0] == first


def test_a_name_counts_more_than_a_measure_and_that_more_than_a_description() -> None:
    found = Index(
        [
            document("a", "net sales of the year"),
            document("b", "another thing of the year", measures="sales"),
            document("sales", "another thing of the year"),
        ]
    ).search("sales")
    assert [hit.id for hit in found.hits] == ["sales", "b", "a"]
    assert [hit.matched_on for hit in found.hits] == [("name",), ("measures",), ("description",)]


def test_of_two_that_fit_as_well_the_governed_one_comes_first() -> None:
    kinds = ("column", "page", "measure", "source")
    found = Index([document(f"{kind}.income", kind=kind, order=KINDS.index(kind)) for kind in kinds]).search("income")
    assert len({hit.score for hit in found.hits if hit.kind != "column"}) == 1
    assert [hit.kind for hit in found.hits] == ["source", "measure", "page", "column"]


def test_what_is_raw_has_to_fit_better_to_come_first() -> None:
    told = "paid turnover of the last quarter, counted when the money has arrived, refunds taken off"
    governed = [document("orders.income", told), document("handbook", f"income: {told}", kind="page", order=3)]
    raw = [document(f"t.income_{number}", kind="column", order=4) for number in range(3)]
    (evidence,) = passage_documents([Passage("docs:a.md:income:1", "docs", "Handbook", f"income: {told}")])
    found = Index([*raw, evidence, *governed]).search("income").hits
    assert [hit.kind for hit in found] == ["measure", "column", "column", "column", "page", "passage"]
    assert Index([*raw, evidence, *governed]).search("refunds money").hits[0].kind in ("measure", "page")
    assert [hit.kind for hit in Index([*governed, evidence]).search("refunds arrived").hits][-1] == "passage"


def test_the_beginning_of_the_last_word_is_enough() -> None:
    assert ids("ticket resol")[0] == "tickets.resolution_hours"
    assert "tickets.resolution_hours" not in ids("resol country")


def test_a_word_most_documents_have_finds_them_where_there_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktx_cli.search.ranking._FREQUENT", 1)
    documents = [document(f"a.n{number}", f"common {'rare' if number == 3 else 'word'}") for number in range(20)]
    index = Index(documents)
    assert len(index.search("common").hits) == 20
    assert [hit.id for hit in index.search("common rare", 1).hits] == ["a.n3"]
    assert len(index.search("common rare", 20).hits) == 20


def test_more_words_that_fit_come_first() -> None:
    assert ids("customer country")[0] == "customers.country"


@pytest.mark.table(
    ("query", "corrected", "first"),
    [
        ("revenu", {}, "orders.revenue"),
        ("revenuee", {"revenuee": "revenue"}, "orders.revenue"),
        ("contry", {"contry": "country"}, "customers.country"),
        ("trunover", {"trunover": "turnover"}, "orders.revenue"),
    ],
)
def test_typing_errors(query: str, corrected: dict[str, str], first: str) -> None:
    found = Index(DOCUMENTS).search(query)
    assert dict(found.corrected) == corrected
    assert found.hits[0].id == first


def test_nothing_is_found_for_what_nothing_has() -> None:
    found = Index(DOCUMENTS).search("zzzzqqq")
    assert (found.hits, found.total, dict(found.corrected)) == ((), 0, {})
    assert Index([]).search("orders").hits == ()


def test_the_limit_keeps_the_total() -> None:
    found = Index(DOCUMENTS).search("orders", 1)
    assert len(found.hits) == 1
    assert found.total == 3


def test_the_snippet_is_the_part_the_word_stands_in() -> None:
    long = "before " * 60 + "the churned customers are counted here " + "after " * 60
    (hit,) = Index([document("x", long)]).search("churn").hits
    assert "churned customers" in hit.snippet
    assert hit.snippet.startswith("…")
    assert hit.snippet.endswith("…")
    assert len(hit.snippet) <= 162


def test_a_hit_as_json() -> None:
    hit = Index(DOCUMENTS).search("turnover").hits[0].to_json()
    assert hit.pop("score") > 0
    assert hit == {
        "kind": "measure",
        "id": "orders.revenue",
        "connection": "shop",
        "summary": "Paid turnover in euros",
        "snippet": "Paid turnover in euros",
        "matched_on": ["description"],
        "pages": [],
    }


@given(st.text(), st.integers(1, 5))
def test_any_query_gives_known_documents_best_first(query: str, limit: int) -> None:
    found = Index(DOCUMENTS).search(query, limit)
    scores = [hit.score for hit in found.hits]
    assert len(scores) <= limit
    assert scores == sorted(scores, reverse=True)
    assert all(score > 0 for score in scores)


def value(text: str, column: str = "products.name") -> Document:
    fields = (Field("value", text, 4.0), Field("column", column, 0.25))
    return Document("value", f"{column} = '{text}'", "shop", f"a value of {column}", fields, KINDS.index("value"))


def test_values_stand_behind_all_that_people_govern() -> None:
    values = [value("Trust fund"), value("Numbers, brass"), value("Yesterday's news")]
    page = document("data-caveats", "the numbers of yesterday come in the night", kind="page", order=3)
    found = Index([*values, page, *DOCUMENTS]).search("trust yesterday's numbers").hits
    assert [hit.kind for hit in found] == ["page", "value", "value", "value"]
    assert found[0].score > found[1].score
    assert Index([*values, page]).search("brass").hits[0].id == values[1].id


@pytest.mark.table("query", ["can I trust it", "Can we do what the plan says", "was kann ich tun"])
def test_stop_words_find_no_values(query: str) -> None:
    found = Index([value("Watering can, sage"), value("Kann, was, ich"), value("Do it"), document("plan trust")])
    assert [hit.kind for hit in found.search(query).hits if hit.kind == "value"] == []


@pytest.mark.table("query", ["can", "what can I do", "the"])
def test_a_query_of_stop_words_alone_is_asked_as_it_is(query: str) -> None:
    found = Index([value("Watering can, sage"), value("The plan")]).search(query)
    assert found.hits
    assert not found.corrected


def test_however_many_values_fit_they_crowd_no_page_out() -> None:
    values = [value(f"sage sage {number}") for number in range(400)]
    page = document("herbs", f"about sage {'and other plants that we sell ' * 20}", kind="page", order=3)
    assert Index([*values, page]).search("sage", 5).hits[0].id == "herbs"


@pytest.mark.table("word", ["what", "have", "does", "welche", "kann", "wieviel"])
def test_stop_words_are_never_corrected(word: str) -> None:
    near = {
        "what": "wheat",
        "have": "halve",
        "does": "doses",
        "welche": "welcher2",
        "kann": "kanne",
        "wieviel": "wieviele2",
    }
    assert Index([document(near[word])]).search(word).corrected == {}


def test_a_word_is_not_corrected_to_one_that_begins_otherwise() -> None:
    documents = [document("most"), document("west"), document("mean"), document("send")]
    found = Index(documents).search("lost rest earn sned")
    assert dict(found.corrected) == {"sned": "send"}


def test_a_text_is_not_long_because_it_is_longer_than_names() -> None:
    columns = [document(f"t.column_{number}", kind="column", order=4) for number in range(200)]
    columns += [document("t.carrier", kind="column", order=4), document("u.carrier", kind="column", order=4)]
    text = f"a carrier takes the parcel: {'then there is more to say of it ' * 10}"
    page = document("parcels", text, kind="page", order=3)
    assert "page" in [hit.kind for hit in Index([*columns, page]).search("carrier of a parcel").hits[:1]]


@pytest.mark.table(
    ("query", "first"),
    [("Umsatzziel", "umsatz"), ("lieferungsdatum", "datum_der_lieferung"), ("warehousestock", "warehouse")],
)
def test_a_word_put_together_of_two_finds_both(query: str, first: str) -> None:
    documents = [document("umsatz", "das ziel"), document("datum_der_lieferung"), document("warehouse", "stock")]
    found = Index(documents).search(query)
    assert ([hit.id for hit in found.hits], dict(found.corrected)) == ([first], {})


def test_a_value_of_several_words_that_are_all_asked_for_may_come_first() -> None:
    page = document("plants", "how plants are grown", kind="page", order=3)
    index = Index([value("pet safe", "tags.name"), value("Plants"), page])
    assert next(hit.id for hit in index.search("which plants are safe for pets").hits) == "tags.name = 'pet safe'"
    assert next(hit.kind for hit in index.search("safe plants").hits) == "page"
