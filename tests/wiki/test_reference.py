"""What counts as a reference, and which references are wrong."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.semantic.model import Model, Source
from ktx_cli.wiki.page import Page
from ktx_cli.wiki.reference import Kind, Resolver, line_of, references
from ktx_cli.wiki.text import inline_code, without_fences

PAGE, SOURCE, TABLE, ENTITY = Kind.PAGE, Kind.SOURCE, Kind.TABLE, Kind.ENTITY
MEASURE, SEGMENT, COLUMN = Kind.MEASURE, Kind.SEGMENT, Kind.COLUMN


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
        ("`measure:orders.revenue`", [(MEASURE, None, "orders.revenue")]),
        ("`crm/measure:revenue` `measure:crm/revenue`", [(MEASURE, "crm", "revenue")] * 2),
        ("`segment:orders.paid`", [(SEGMENT, None, "orders.paid")]),
        ("`column:shop.orders.amount`", [(COLUMN, None, "shop.orders.amount")]),
        ("`measure:` `measure:<name>` `measure:a b` `measure:orders.*` `column:3` `measure: x`", []),
        ("`public.orders.amount`", [(ENTITY, None, "public.orders.amount")]),
        ("`a.b.c.d.e` `v1.2.3` `1.5` `e.g.` `...` `10.0.0.1` `$.a.b` `a.b[0].c` `a..b`", []),
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
        ("orders.com", None),
        ("orders.log", None),
        ("measure:orders.revenue", None),
        ("measure:revenue", None),
        ("warehouse/measure:revenue", None),
        ("crm/measure:orders.revenue", "dangling_source"),
        ("nowhere/measure:orders.revenue", "dangling_connection"),
        ("measure:order_lines.margin", "dangling_source"),
        ("measure:orders.margin", "dangling_entity"),
        ("measure:orders.amount", "dangling_entity"),
        ("measure:lines.anything", None),
        ("segment:orders.paid", None),
        ("segment:orders.revenue", "dangling_entity"),
        ("column:orders.status", None),
        ("column:public.orders.amount", None),
        ("column:orders.revenue", "dangling_entity"),
        ("column:odd.name.id", None),
        ("column:nothing.id", "dangling_source"),
        ("crm/column:vip", None),
        ("crm/column:amount", "dangling_entity"),
        ("public.orders.amount", None),
        ("shop.public.orders.amount", None),
        ("public.orders.ghost", "dangling_entity"),
        ("other.orders.ghost", None),
        ("orders.amount.currency", None),
        ("ORDERS.amount", None),
        ("ORDERS.ghost", "dangling_entity"),
        ("Orders.Ghost", None),
        ("odd.name.ghost", "dangling_entity"),
    ],
)
def test_inline_code_is_wrong_only_by_the_rules(code: str, expected: str | None, models: dict[str, Model]) -> None:
    (found,) = references(Page("a", body=f"See `{code}`."))
    missing = Resolver(models).missing(found)
    assert (None if missing is None else missing.code) == expected


@pytest.mark.table(
    ("code", "message", "hint"),
    [
        ("measure:orders.revenu", "`orders` has no measure `revenu`", "did you mean `measure:orders.revenue`?"),
        ("measure:orders.amount", "`orders` has no measure `amount`", "is a column: write `orders.amount`"),
        ("column:orders.amout", "`orders` has no column `amout`", "did you mean `column:orders.amount`?"),
        ("segment:orders.x", "`orders` has no segment `x`", "ktx sl read orders"),
        ("crm/measure:revenue", "no source has a measure `revenue`", "`measure:SOURCE.NAME`"),
        ("crm/column:nam", "no source has a column `nam`", "`column:SOURCE.NAME`"),
        ("crm/column:vips", "no source has a column `vips`", "did you mean `column:customers.vip`?"),
        ("measure:order.revenue", "has no source `order`", "did you mean `orders`?"),
        ("public.orders.amout", "`orders` has no column, measure or segment `amout`", "`orders.amount`"),
    ],
)
def test_the_nearest_real_name_is_suggested(code: str, message: str, hint: str, models: dict[str, Model]) -> None:
    (found,) = references(Page("a", body=f"See `{code}`."))
    missing = Resolver(models).missing(found)
    assert missing is not None
    assert message in missing.message
    assert hint in missing.hint


def test_a_measure_of_a_broken_source_may_be_any(models: dict[str, Model]) -> None:
    (found,) = references(Page("a", body="`measure:ghost`"))
    assert Resolver(models).missing(found) is None
    whole = Model("warehouse", "duckdb", models["warehouse"].sources)
    missing = Resolver({"warehouse": whole}).missing(found)
    assert missing is not None
    assert missing.code == "dangling_entity"


@pytest.mark.table(
    ("code", "unknown"),
    [
        ("product_margin.margin", True),
        ("np.array", True),
        ("orders.ghost", False),
        ("public.orders", False),
        ("public.ghost", True),
        ("amount.currency", False),
        ("orders.amount.currency", False),
        ("config.yaml", False),
        ("measure:ghost", False),
    ],
)
def test_what_begins_with_no_name_of_the_layer(code: str, unknown: bool, models: dict[str, Model]) -> None:
    whole = {"warehouse": Model("warehouse", "duckdb", models["warehouse"].sources)}
    (found,) = references(Page("a", body=f"`{code}`"))
    assert Resolver(whole).is_unknown(found) is unknown


@given(st.text(alphabet=st.sampled_from('ab.:/_-"$#@1 *ordesmaucl'), max_size=40) | st.text(max_size=40))
def test_any_code_can_be_judged(code: str) -> None:
    sources = {"orders": Source("orders", {}, ("id",), table=("public", "orders"))}
    resolver = Resolver({"w": Model("w", "duckdb", sources)})
    page = Page("a", fields={"sl_refs": [code]}, body=f"`{code}` `measure:{code}` `column:{code}` `orders.{code}`")
    for each in references(page):
        missing = resolver.missing(each)
        assert missing is None or (missing.message and missing.hint)
        resolver.is_unknown(each)


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
