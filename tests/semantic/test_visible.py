"""What of a semantic layer may be shown: names of hidden columns, measures and sources in texts of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.project.layout import Layout
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.store.layer import source_digests
from ktx_cli.semantic.visible import VisibleModel

ORDERS = """\
name: orders
table: orders
grain: [id]
columns:
  - {name: id, type: number}
  - {name: total, type: number}
  - {name: email, type: string}
  - {name: over, type: boolean, expr: reviews.score > 5}
joins:
  - {to: customers, on: id = customers.id, relationship: many_to_one, alias: buyer}
  - {to: reviews, on: id = reviews.id, relationship: many_to_one, alias: judged}
measures:
  - {name: order_count, expr: count(*)}
  - {name: fraud, expr: count(*), visibility: hidden}
"""
CUSTOMERS = """\
name: customers
table: customers
grain: [id]
columns:
  - {name: id, type: number}
  - {name: email, type: string, visibility: hidden}
  - {name: "pay grade", type: number, visibility: hidden}
  - {name: rank, type: number, visibility: internal}
"""
REVIEWS = """\
name: reviews
table: hr.appraisals
grain: [id]
visibility: hidden
columns:
  - {name: id, type: number}
  - {name: score, type: number}
  - {name: total, type: number}
  - {name: end, type: time}
measures:
  - {name: reviewed, expr: count(*)}
"""
LAYER = {"orders": ORDERS, "customers": CUSTOMERS, "reviews": REVIEWS}


def shown(folder: Path, *, internal: bool = False, **changed: str) -> VisibleModel:
    """Return what is shown of the small layer, with some files changed."""
    place = folder / "semantic-layer" / "shop"
    place.mkdir(parents=True, exist_ok=True)
    for name, text in {**LAYER, **changed}.items():
        (place / f"{name}.yaml").write_text(text)
    return VisibleModel(load_model(Layout(folder), "shop", "sqlite"), internal)


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("count(*)", True),
        ("sum(total)", True),
        ("count(email)", True),
        ("sum(case when total > 1 then 1 else 0 end)", True),
        ("order_count / 2", True),
        ("1 - fraud / order_count", False),
        ("count(over)", False),
        ("count(customers.id)", True),
        ("count(buyer.id)", True),
        ("count(customers.email)", False),
        ("count(buyer.EMAIL)", False),
        ('count("buyer" . "email")', False),
        ('sum(customers."pay grade")', False),
        ("sum(`pay grade`)", False),
        ("sum(rank)", False),
        ("avg(score)", False),
        ("avg(judged.id)", False),
        ("avg(reviews.id)", False),
        ("order_count / reviews.reviewed", False),
        ("order_count / reviewed", False),
        ("avg(unknown.score)", False),
        ("avg(unknown.email)", False),
        ("avg(unknown.total)", False),
        ("'it\\'s' || score || 'x'", False),
        ('max("end")', False),
    ],
)
def test_an_expression_is_shown_where_it_names_nothing_hidden(tmp_path: Path, text: str, may: bool) -> None:
    model = shown(tmp_path)
    assert model.can_show(model.model.sources["orders"], text) is may


@pytest.mark.parametrize(
    ("text", "hides"),
    [
        ("The total of every order.", False),
        ("The id of orders and customers.", False),
        ("The email of a customer.", True),
        ("reviews of the staff", True),
        ("rows of appraisals", True),
        ("Fraud is left out.", True),
        ("the Score", True),
        ("the `pay grade`", True),
    ],
)
def test_a_text_about_anything_hides_more(tmp_path: Path, text: str, hides: bool) -> None:
    assert shown(tmp_path).hides(text) is hides


def test_what_is_internal_is_shown_to_those_who_ask(tmp_path: Path) -> None:
    model = shown(tmp_path, internal=True)
    orders = model.model.sources["orders"]
    assert model.can_show(orders, "sum(rank)") and not model.can_show(orders, "count(customers.email)")


def test_joins_to_what_is_hidden_are_not_shown(tmp_path: Path) -> None:
    model = shown(tmp_path)
    assert [each.to for each in model.joins(model.model.sources["orders"])] == ["customers"]


def test_nothing_is_looked_for_where_all_is_public(tmp_path: Path) -> None:
    plain = "name: {}\ntable: {}\ngrain: [id]\ncolumns: [{{name: id, type: number}}]\n"
    model = shown(tmp_path, **{name: plain.format(name, name) for name in LAYER})
    assert not model.hides("email reviews fraud") and model.can_show(model.model.sources["orders"], "reviews.email")


TOTALS = """\
name: totals
table: totals
grain: [id]
columns: [{name: id, type: number}, {name: amount, type: number}]
joins: [{to: customers, on: id = customers.id, relationship: many_to_one}]
measures:
  - {name: amounts, expr: sum(amount)}
"""


@pytest.mark.parametrize(("expr", "is_another"), [("sum(amount)", False), ("sum(points)", True)])
def test_hiding_a_name_elsewhere_changes_the_digest_of_what_uses_it(
    tmp_path: Path, expr: str, is_another: bool
) -> None:
    text = TOTALS.replace("sum(amount)", expr)
    before = source_digests(shown(tmp_path, totals=text).model)["totals"]
    hidden = REVIEWS.replace("name: score", "name: points")
    after = source_digests(shown(tmp_path, totals=text, reviews=hidden).model)["totals"]
    assert (before != after) is is_another
