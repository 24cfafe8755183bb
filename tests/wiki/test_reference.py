"""What counts as a reference, and which references are wrong."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.semantic.model import Model
from ktx_cli.wiki.page import Page
from ktx_cli.wiki.reference import Kind, Resolver, line_of, references
from ktx_cli.wiki.text import inline_code, without_fences

PAGE, SOURCE, TABLE, ENTITY = Kind.PAGE, Kind.SOURCE, Kind.TABLE, Kind.ENTITY


def body(text: str) -> list[tuple[Kind, str | None, str]]:
    return [(each.kind, each.connection, each.name) for each in references(Page("a", body=text))]


@pytest.mark.table(
    ("text", "found"),
    [
        ("`source:orders`", [(SOURCE, None, "orders")]),
        ("`crm/source:orders.x`", [(SOURCE, "crm", "orders.x")]),
        ("`source:crm/orders`", [(SOURCE, "crm", "orders")]),
        ("`table:shop.public.orders`", [(TABLE, None, "shop.public.orders")]),
        ("`crm/table:orders`", [(TABLE, "crm", "orders")]),
        ("`orders.revenue` and ``orders.amount``", [(ENTITY, None, "orders.revenue"), (ENTITY, None, "orders.amount")]),
        ("`crm/orders.revenue`", [(ENTITY, "crm", "orders.revenue")]),
        ("`orders.revenue\n`", [(ENTITY, None, "orders.revenue")]),
        ("orders.revenue source:orders", []),
        ("`orders`", []),
        ("`orders.*` `source:order*` `orders.%` `table:stg_*`", []),
        ("`orders.status = 'paid'` `orders.amount>0` `orders.count()` `sum(orders.amount)`", []),
        ("`source:<name>` `table:{schema}.orders` `source:` `source:orders where x`", []),
        ("`a.b.c` `v1.2` `1.5` `e.g.` `...`", []),
        ("`orders.a`b` no `orders.c", [(ENTITY, None, "orders.a")]),
        ("```\n`orders.x`\n```\n`orders.y`", [(ENTITY, None, "orders.y")]),
        ("~~~sql\nselect `orders.x`\n~~~~\n`orders.y`", [(ENTITY, None, "orders.y")]),
        ("- ```sql\n  `orders.x`\n  ```\n- `orders.y`", [(ENTITY, None, "orders.y")]),
        ("````\n```\n`orders.x`\n````\n`orders.y`", [(ENTITY, None, "orders.y")]),
        ("```\n`orders.x`\n", []),
        ("`orders\n\n.x and `orders.y`", [(ENTITY, None, "orders.y")]),
        ("[[net-revenue]] [[net-revenue|the net]] [[a#part]]", [(PAGE, None, "net-revenue")] * 2 + [(PAGE, None, "a")]),
        ("`[[a]]` ```[[b]]``` \\[[c]]\n\n```\n[[d]]\n```\n", []),
        ("[[a b]] [[a/b]] [[]] [a](b.md) [[a]", []),
    ],
)
def test_what_counts_in_a_body(text: str, found: list[tuple[Kind, str | None, str]]) -> None:
    assert body(text) == found


def test_what_counts_in_front_matter() -> None:
    page = Page("a", fields={"refs": ["b", 3, " c "], "sl_refs": ["w/orders.revenue", "orders"], "tags": ["d"]})
    assert [(each.kind, each.connection, each.name, each.at) for each in references(page)] == [
        (PAGE, None, "b", 0),
        (PAGE, None, "c", 2),
        (SOURCE, "w", "orders.revenue", 0),
        (SOURCE, None, "orders", 1),
    ]


def test_references_know_their_line() -> None:
    head = "---\nsummary: S.\nsl_refs:\n  - orders\n  - nothing\n---\n\n"
    page = Page("a", fields={"sl_refs": ["orders", "nothing"]}, body="One.\n\nTwo `source:x`.\n", head=head)
    assert [line_of(page, each) for each in references(page)] == [4, 5, 10]


@pytest.mark.table(
    "ref",
    [
        "orders",
        "warehouse/orders",
        "orders.revenue",
        "orders.amount",
        "orders.status",
        "warehouse/orders.paid",
        "odd.name",
        "odd.name.id",
        "customers.vip",
        "crm/customers.vip",
        "customers.name",
        "lines",
        "lines.anything",
        "payroll",
    ],
)
def test_references_that_lead_somewhere(ref: str, models: dict[str, Model]) -> None:
    (found,) = references(Page("a", fields={"sl_refs": [ref]}))
    assert Resolver(models).missing(found) is None


@pytest.mark.table(
    ("ref", "code", "hint"),
    [
        ("order", "dangling_source", "`orders`"),
        ("orders.revenu", "dangling_entity", "`orders.revenue`"),
        ("crm/orders", "dangling_source", "ktx sl list"),
        ("warehouse/customers.vip", "dangling_entity", "ktx sl read customers"),
        ("warehous/orders", "dangling_connection", "`warehouse`"),
        ("shop.public.orders", "dangling_source", None),
        ("odd.nam", "dangling_source", "`odd.name`"),
        ("payrol", "dangling_source", "ktx sl list"),
        ("orders.amount.x", "dangling_entity", None),
    ],
)
def test_references_that_do_not(ref: str, code: str, hint: str | None, models: dict[str, Model]) -> None:
    (found,) = references(Page("a", fields={"sl_refs": [ref]}))
    missing = Resolver(models).missing(found)
    assert missing is not None
    assert missing.code == code
    assert hint is None or hint in missing.hint
    assert "payroll" not in missing.hint + missing.message


@pytest.mark.table(
    ("code", "expected"),
    [
        ("source:orders", None),
        ("source:nothing", "dangling_source"),
        ("nowhere/source:orders", "dangling_connection"),
        ("source:orders.nothing", "dangling_entity"),
        ("table:orders", None),
        ("table:PUBLIC.Orders", None),
        ("table:shop.public.orders", None),
        ("table:other.orders", "dangling_table"),
        ("table:crm/customers", None),
        ("table:nothing", "dangling_table"),
        ("orders.revenue", None),
        ("orders.nothing", "dangling_entity"),
        ("warehouse/orders.nothing", "dangling_entity"),
        ("crm/orders.nothing", None),
        ("nowhere/orders.nothing", None),
        ("unknown.nothing", None),
        ("public.orders", None),
        ("customers.vip", None),
        ("warehouse/customers.vip", "dangling_entity"),
        ("lines.anything", None),
        ("orders.sql", None),
    ],
)
def test_inline_code_is_wrong_only_by_the_rules(code: str, expected: str | None, models: dict[str, Model]) -> None:
    (found,) = references(Page("a", body=f"See `{code}`."))
    missing = Resolver(models).missing(found)
    assert (None if missing is None else missing.code) == expected


@given(st.lists(st.sampled_from(["`", "``", "```", "~~~", "\n", "\n\n", "a", " ", "[[b]]", "orders.x", "- ", "> "])))
def test_any_markdown_can_be_read(pieces: list[str]) -> None:
    text = "".join(pieces)
    plain = without_fences(text)
    assert len(plain) == len(text)
    assert plain.count("\n") == text.count("\n")
    spans = list(inline_code(plain))
    assert all(plain[span.start] == plain[span.end - 1] == "`" for span in spans)
    assert all(one.end <= other.start for one, other in itertools.pairwise(spans))
    for each in references(Page("a", body=text)):
        assert text.startswith(each.written, each.at) or "`" in text[each.at]
