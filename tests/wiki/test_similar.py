"""Pages that say the same, or nearly."""

from __future__ import annotations

import random

import pytest

from ktx_cli.wiki.page import Page, new_page, parse, render, split
from ktx_cli.wiki.similar import SimilarPages, outlines
from tests.wiki.conftest import MakeTree

REVENUE = """\
Net revenue is what customers paid for goods after refunds, without tax. Orders with the status `cancelled` do
not count, nor do orders of test accounts. A refund comes off on the day of the order, not on the day it was
paid. Gift cards count when they are redeemed. Use `orders.net_revenue` for reports, and say which currency it
is in.
"""
OTHER = """\
Stock counts what can be sold today in every warehouse. Goods on their way between two warehouses belong to
the one they left. A count is taken each night after the last delivery, and corrections of it are booked in
the morning by the team of the warehouse, with a reason. Damaged goods are no stock, and returned ones only
when they were inspected.
"""
SUMMARY = "What customers paid, after refunds."


def page(key: str, body: str, summary: str = "S.", scope: str = "global") -> Page:
    return new_page(key, {"summary": summary}, body, scope)


@pytest.mark.table(
    ("body", "summary", "least", "most", "duplicate"),
    [
        (REVENUE, "S.", 1.0, 1.0, True),
        (REVENUE.upper().replace("\n", " \n\n"), "S.", 1.0, 1.0, True),
        (REVENUE.replace("customers", "buyers").replace("reports", "a report"), "S.", 0.8, 0.99, True),
        (REVENUE + OTHER, "S.", 1.0, 1.0, True),
        (REVENUE + "Vouchers count, too.\n", "S.", 1.0, 1.0, True),
        (" ".join(REVENUE.split()[:50]), "S.", 0.9, 1.0, True),
        (" ".join(REVENUE.split()[:40] + OTHER.split()[:25]), "S.", 0.5, 0.79, False),
        (OTHER, "What customers  paid -- after REFUNDS", 0.0, 0.2, True),
        ("Net revenue is what customers paid for goods after refunds.", "S.", 0.0, 0.79, False),
    ],
)
def test_how_much_two_pages_share(body: str, summary: str, least: float, most: float, duplicate: bool) -> None:
    known = SimilarPages.of([page("stock", OTHER.replace("Stock", "It")), page("net-revenue", REVENUE, SUMMARY)])
    found = [each for each in known.like(page("new", body, summary)) if each.page.key == "net-revenue"]
    assert (bool(found) and found[0].is_duplicate) is duplicate
    assert least <= (found[0].share if found else 0.0) <= most


def test_what_is_alike_of_none() -> None:
    known = SimilarPages.of([page("a", REVENUE, SUMMARY), page("mine", OTHER, "S.", "user/ada"), page("s", "Text.")])
    assert known.like(page("b", OTHER)) == []
    assert known.like(page("a", REVENUE, SUMMARY)) == [], "a page is not like itself"
    assert known.like(page("c", "Orders of at least 5.", "S.")) == []
    assert known.like(page("d", "")) == []
    assert [each.page.key for each in known.like(page("b", OTHER, "S.", "user/ada"))] == ["mine"]


def test_short_texts_are_the_same_only_to_the_letter() -> None:
    known = SimilarPages.of([page("a", "Orders of >= 5 items.")])
    (same,) = known.like(page("b", "Orders of  >= 5\nITEMS."))
    assert (same.share, same.words, same.is_duplicate) == (1.0, 4, False)
    (other,) = known.like(page("c", "Orders of < 5 items."))
    assert other.share < 0.8
    sentence = "A refund comes off in the month in which it is paid out."
    known = SimilarPages.of([page("a", sentence)])
    assert [each.is_duplicate for each in known.like(page("b", sentence))] == [True], "a whole sentence is too much"


def test_one_of_many_pages_is_found() -> None:
    words = [f"word{number}" for number in range(900)]
    chance = random.Random(1)
    pages = [page(f"page-{number}", " ".join(chance.choices(words, k=200))) for number in range(300)]
    known = SimilarPages.of(pages)
    for wanted in pages[::60]:
        text = wanted.body.split()
        text[7:9] = ["another"]
        assert [(each.page.key, each.is_duplicate) for each in known.like(page("new", " ".join(text)))] == [
            (wanted.key, True)
        ]
    assert sum(bool(known.like(each)) for each in pages) == 0


def test_outlines_have_what_is_compared(tree: MakeTree) -> None:
    texts = {
        "a": "---\ntags: [x]\nsummary: 'What it: says.'\n---\n\nText.\n",
        "b": "No front matter.\n",
        "c": "---\nsummary: [\n---\n\nBroken.\n",
        "wiki/user/ada/d.md": "---\nsummary: D\n---\n\nMine.\n",
    }
    found = [(each.key, each.summary, each.body) for each in outlines(tree(texts), "global")]
    assert found == [("a", "What it: says.", "Text.\n"), ("b", "", "No front matter.\n"), ("c", "[", "Broken.\n")]
    assert [each.key for each in outlines(tree(texts), "user/ada")] == ["d"]


def test_a_file_is_split_where_it_is_parsed() -> None:
    made = page("a", REVENUE, SUMMARY)
    whole = parse("global", "a", render(made))
    assert isinstance(whole, Page)
    assert split(made.text) == (whole.head, whole.body)
