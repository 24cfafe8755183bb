"""What a question asks for, as its form tells: which stored questions are alike, and which kinds come first."""

from __future__ import annotations

import pytest

from ktx_cli.search.corpus import KINDS, PHRASE, Document, Field
from ktx_cli.search.forms import forms, worth_of_kinds
from ktx_cli.search.ranking import Index
from ktx_cli.search.stems import folded


@pytest.mark.table(
    ("text", "found"),
    [
        ("How many orders were late?", ["number"]),
        ("Number of orders by channel", ["number"]),
        ("Can you tell me how many orders were late?", ["number"]),
        ("Wie viele Bestellungen gab es?", ["number"]),
        ("After how many days is an order late?", ["time"]),
        ("In which month does a refund count?", ["time"]),
        ("Ab wann ist ein Kunde verloren?", ["time"]),
        ("Why is the ship date empty?", ["reason"]),
        ("The total is off. Whom do I ask?", ["number", "person"]),
        ("To whom does the key belong?", ["person"]),
        ("Where do I find targets?", ["place"]),
        ("Wie rechne ich das?", ["way"]),
        ("What is net revenue?", ["thing"]),
        ("Do cancelled orders count, or not?", ["choice"]),
        ("Darf ich Adressen zeigen?", ["choice"]),
        ("net revenue by region", []),
        ("issue_count", []),
        ("", []),
    ],
)
def test_forms(text: str, found: list[str]) -> None:
    assert forms(folded(text)) == found


@pytest.mark.table(
    ("text", "first", "last"),
    [
        ("How many orders were late?", {"measure", "source"}, {"page", "passage", "column", "segment", "value"}),
        ("net revenue by region", {"measure", "source"}, {"page", "passage", "column", "segment", "value"}),
        ("Do cancelled orders count?", {"page", "passage"}, {"measure", "source", "column", "segment", "value"}),
        ("I want the count. How do I get it?", {"page", "passage"}, {"measure", "source", "column", "value"}),
        ("Is there a filter without test orders?", {"segment"}, {"measure", "source", "column", "value"}),
        ("Which table has the refunds?", {"source"}, {"measure", "page"}),
        ("A dashboard is wrong. Whom do I tell?", {"page", "passage"}, {"measure", "source"}),
        ("What is net revenue?", set(KINDS), set()),
        ("customer segment", set(KINDS), set()),
        ("dashboard", set(KINDS), set()),
    ],
)
def test_kinds_that_answer_a_form_come_first(text: str, first: set[str], last: set[str]) -> None:
    worth = {kind: worth_of_kinds(folded(text)).get(kind, 1.0) for kind in KINDS}
    assert {kind for kind in first if worth[kind] == max(worth.values())} == first
    assert not last or max(worth[kind] for kind in last) < min(worth[kind] for kind in first)


def page(id: str, *questions: str) -> Document:
    fields = (Field("key", id, 4.0), Field("questions", "\n".join(questions), PHRASE))
    return Document("page", id, "", id, fields, KINDS.index("page"))


def test_a_stored_question_of_the_same_form_fits_better() -> None:
    pages = [
        page("a", "When were the targets of the region set?"),
        page("b", "Who set the targets of the region?"),
        page("c", "Why do the targets of the region change?"),
    ]
    asked = {
        "and who is it that plans these regional targets": "b",
        "why would the targets for my region be other ones": "c",
        "since when are the targets for my region there": "a",
    }
    assert {query: Index(pages).search(query).hits[0].id for query in asked} == asked
    tied = Index(pages).search("targets of the region").hits
    assert [hit.id for hit in tied] == ["a", "b", "c"], "fewer words than a sentence ask for nothing"


def test_the_form_of_a_question_finds_nothing_by_itself() -> None:
    assert Index([page("a", "Who set the targets?")]).search("who would ever know about that zebra").hits == ()


def test_the_forms_of_stored_questions_are_no_words() -> None:
    index = Index([page("a", "Who set the targets?"), page("b", "persons")])
    assert [hit.id for hit in index.search("person").hits] == ["b"]
    assert "person" not in index.search("targets").hits[0].snippet
