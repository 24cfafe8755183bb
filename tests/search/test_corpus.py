"""The documents of a semantic layer: what is in them, and that nothing hidden is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ktx_cli.project.layout import Layout
from ktx_cli.search.corpus import documents, page_document
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.model import Model, Visibility
from ktx_cli.semantic.visible import VisibleModel

CUSTOMERS = """\
name: customers
table: customers
grain: [id]
columns:
  - {name: id, type: number}
  - {name: ssn, type: string, visibility: hidden}
  - {name: score, type: number, visibility: internal}
  - {name: ssn_tail, type: string, expr: "substr(ssn, 8)"}
  - {name: score_band, type: number, expr: "round(score)"}
  - {name: id_text, type: string, expr: "cast(id as text)"}
  - {name: shown_band, type: number, expr: "round(score)", visibility: public}
  - {name: broken, type: number, expr: "no_such_column + score"}
measures:
  - {name: people, expr: count(*)}
  - {name: secret_people, expr: count(*), visibility: hidden}
  - {name: inner_people, expr: count(*), visibility: internal}
segments:
  - {name: known, expr: ssn is not null}
"""
LEDGER = "name: ledger\ntable: ledger\nvisibility: hidden\ngrain: [id]\ncolumns: [{name: id, type: number}]\n"
AUDIT = "name: audit\ntable: audit\nvisibility: internal\ngrain: [id]\ncolumns: [{name: id, type: number}]\n"


@pytest.fixture
def model(tmp_path: Path) -> Model:
    folder = tmp_path / "semantic-layer" / "shop"
    folder.mkdir(parents=True)
    for name, text in {"customers": CUSTOMERS, "ledger": LEDGER, "audit": AUDIT}.items():
        (folder / f"{name}.yaml").write_text(text)
    return load_model(Layout(tmp_path), "shop", "sqlite")


def ids(model: Model, *, internal: bool) -> set[str]:
    return {each.id for each in documents(VisibleModel(model, internal))}


PUBLIC = {
    *("customers", "customers.people", "customers.known"),
    *("customers.id", "customers.id_text", "customers.shown_band"),
}


def test_hidden_and_internal_parts_are_no_documents(model: Model) -> None:
    assert ids(model, internal=False) == PUBLIC


def test_internal_parts_are_for_those_who_ask(model: Model) -> None:
    more = {"audit", "audit.id", "customers.score", "customers.score_band", "customers.inner_people"}
    assert ids(model, internal=True) == PUBLIC | more


def test_a_source_counts_by_how_often_queries_read_it(model: Model) -> None:
    worths = {}
    for tier in (None, "high", "mid", "low", "unused"):
        source = replace(model.sources["customers"], usage_tier=tier)
        shown = VisibleModel(replace(model, sources={**model.sources, "customers": source}))
        worths[tier] = next(each.worth for each in documents(shown) if (each.kind, each.id) == ("source", "customers"))
    assert worths["high"] > worths["mid"] > worths["low"] == worths[None] == 1.0 > worths["unused"]


def test_no_text_of_a_document_names_what_is_hidden(model: Model) -> None:
    texts = [field.text for each in documents(VisibleModel(model)) for field in each.fields]
    texts += [each.summary for each in documents(VisibleModel(model))]
    assert not [text for text in texts if "ssn" in text or "secret" in text or "score" in text.split()]


def test_a_computed_column_is_as_visible_as_what_it_reads(model: Model) -> None:
    shown, source = VisibleModel(model), model.sources["customers"]
    found = {name: shown.visibility(source, source.columns[name]) for name in ("ssn_tail", "score_band", "broken")}
    assert found == {"ssn_tail": Visibility.HIDDEN, "score_band": Visibility.INTERNAL, "broken": Visibility.HIDDEN}


def test_questions_and_synonyms_are_fields_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "semantic-layer" / "shop"
    folder.mkdir(parents=True)
    (folder / "orders.yaml").write_text(
        "name: orders\ntable: orders\ngrain: [id]\ncolumns: [{name: id, type: number}]\n"
        "descriptions: {synonyms: purchases}\n"
        "measures: [{name: n, expr: count(*), questions: [How many?], synonyms: [volume]}]\n"
    )
    found = {each.id: each for each in documents(VisibleModel(load_model(Layout(tmp_path), "shop", "sqlite")))}
    texts = {id: {field.name: field.text for field in each.fields} for id, each in found.items()}
    assert texts["orders"]["synonyms"] == "purchases"
    assert (texts["orders.n"]["questions"], texts["orders.n"]["synonyms"]) == ("How many?", "volume")
    assert "questions" not in texts["orders.id"]


def test_a_page_mentions_what_it_names_of_semantic_layers() -> None:
    page = (
        "---\nsl_refs: [Orders.Revenue, shop/orders]\nintent: How much?\nrefs: [churn]\n---\n"
        "See `orders.late` and `shop/source:staff`, [[churn]], `measure:orders.sum`, `measure:revenue`.\n"
        "```\n`orders.hidden`\n```\n"
    )
    document = page_document("wiki/global/a.md", page.encode())
    assert document is not None
    assert document.mentions == ("orders.revenue", "shop/orders", "orders.late", "shop/staff", "orders.sum")
    assert ("questions", "How much?") in [(each.name, each.text) for each in document.fields]


def test_labels_and_synonyms_of_columns_are_fields_and_those_of_hidden_ones_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "semantic-layer" / "shop"
    folder.mkdir(parents=True)
    (folder / "orders.yaml").write_text(
        "name: orders\ntable: orders\ngrain: [id]\nlabel: Purchases\n"
        "columns:\n"
        "  - {name: id, type: number, label: Order number, synonyms: [ordinal, po]}\n"
        "  - {name: ssn, type: string, visibility: hidden, label: Social security, synonyms: [tax number]}\n"
    )
    (folder / "ledger.yaml").write_text(
        LEDGER.replace("grain", "label: Secret books\nsynonyms: [black money]\ngrain", 1)
    )
    model = load_model(Layout(tmp_path), "shop", "sqlite")
    assert not model.problems
    found = {each.id: each for each in documents(VisibleModel(model))}
    texts = {id: {field.name: field.text for field in each.fields} for id, each in found.items()}
    assert texts.keys() == {"orders", "orders.id"}
    assert texts["orders"]["label"] == "Purchases"
    assert (texts["orders.id"]["label"], texts["orders.id"]["synonyms"]) == ("Order number", "ordinal\npo")
    assert found["orders"].summary.startswith("Purchases: ")
    assert found["orders.id"].summary == "Order number: number"
    shown = str(found).casefold()
    assert not any(word in shown for word in ("social", "tax number", "secret books", "black money"))
