"""What a source owns of a file: random edits of people against random changes of the source, and the table of rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError, UsageError
from ktx_cli.sources.deliveries import Delivery, join_step, render_delivery, text_of
from ktx_cli.sources.ownership import MISSING, apply, digest_of, drop, get, leftovers, put, steps_of
from tests.sources.projecting import MemoryTree

REVENUE = {"name": "revenue", "expr": "sum(amount)"}
COUNT = {"name": "order_count", "expr": "count(*)"}
JOIN = {"to": "customers", "on": "customer_id = customers.id", "relationship": "many_to_one"}
PEOPLES = b"""\
# ours, please keep
name: orders
measures:
  - name: tax   # by law
    expr: sum(tax)
"""


def data(text: bytes | None) -> Any:
    return None if text is None else yaml.load(text, where="orders.yaml")


def test_a_new_file_has_the_items_in_their_order() -> None:
    made = apply(None, {"name": "orders", "measures.revenue": REVENUE, "descriptions.dbt": "Orders."}, {})
    assert data(made.text) == {"name": "orders", "measures": [REVENUE], "descriptions": {"dbt": "Orders."}}
    assert list(data(made.text)) == ["name", "measures", "descriptions"]
    assert made.owned == {
        "name": digest_of("orders"), "measures.revenue": digest_of(REVENUE), "descriptions.dbt": digest_of("Orders.")
    }  # fmt: skip


def test_what_people_wrote_stays_to_the_character() -> None:
    wanted = {"name": "orders", "measures.revenue": REVENUE, f'joins."{join_step(JOIN)}"': JOIN}
    made = apply(PEOPLES, wanted, {})
    assert made.text is not None and made.text.startswith(PEOPLES)
    assert data(made.text)["joins"] == [JOIN]
    assert "name" not in made.owned
    assert apply(made.text, {}, made.owned).text == PEOPLES


CHANGED = {"name": "revenue", "expr": "sum(net)"}
MINE = {"name": "revenue", "expr": "sum(mine)"}


@pytest.mark.table(
    ("present", "known", "wanted", "left", "kept", "gone", "is_owned"),
    [
        (None, None, REVENUE, REVENUE, False, False, True),
        (REVENUE, REVENUE, CHANGED, CHANGED, False, False, True),
        (REVENUE, REVENUE, None, None, False, False, False),
        (MINE, REVENUE, CHANGED, MINE, True, False, True),
        (MINE, REVENUE, None, MINE, True, False, False),
        (CHANGED, REVENUE, CHANGED, CHANGED, False, False, True),
        (None, REVENUE, CHANGED, None, False, True, True),
        (None, REVENUE, None, None, False, False, False),
        (MINE, None, REVENUE, MINE, True, False, False),
        (REVENUE, None, REVENUE, REVENUE, False, False, False),
    ],
)  # fmt: skip
def test_whose_an_item_is(
    present: Any, known: Any, wanted: Any, left: Any, kept: bool, gone: bool, is_owned: bool
) -> None:
    pointer = "measures.revenue"
    text = yaml.dump({"name": "orders", "measures": [COUNT, *([present] if present else [])]}).encode()
    owned = {pointer: digest_of(known)} if known else {}
    made = apply(text, {pointer: wanted} if wanted else {}, owned)
    assert data(made.text)["measures"] == [COUNT, *([left] if left else [])]
    assert (made.kept == (pointer,), made.gone == (pointer,), pointer in made.owned) == (kept, gone, is_owned)


def test_a_deleted_item_stays_gone_for_ever() -> None:
    made = apply(None, {"name": "orders", "measures.revenue": REVENUE, "measures.order_count": COUNT}, {})
    text = yaml.dump({"name": "orders", "measures": [COUNT]}).encode()
    for expr in ("sum(a)", "sum(b)"):
        wanted = {"name": "orders", "measures.revenue": {**REVENUE, "expr": expr}, "measures.order_count": COUNT}
        made = apply(text, wanted, made.owned)
        assert made.text == text and made.gone == ("measures.revenue",)


def test_a_file_somebody_deleted_stays_deleted_with_what_the_source_adds_to_it() -> None:
    first = apply(None, {"name": "orders", "measures.revenue": REVENUE}, {})
    again = apply(None, {"name": "orders", "measures.revenue": REVENUE, "measures.order_count": COUNT}, first.owned)
    assert again.text is None and again.owned == first.owned
    assert apply(None, {"name": "orders", "measures.order_count": COUNT}, again.owned).text is None


def test_a_source_of_its_own_stays_whole_for_what_somebody_added() -> None:
    wanted = {"name": "spend", "table": "mart.spend", "measures.revenue": REVENUE}
    first = apply(None, wanted, {})
    text = (first.text or b"") + b"segments:\n  - name: big\n    expr: amount > 9\n"
    left = apply(text, {}, first.owned)
    assert (left.text, left.owned, left.kept) == (text, {}, ("segments",))
    assert apply(first.text, {}, first.owned).text is None


def test_an_override_of_a_column_is_shared() -> None:
    text = b"name: orders\ncolumn_overrides:\n  - name: amount\n    visibility: internal\n"
    wanted = {"column_overrides.amount.descriptions.dbt": "Net.", "column_overrides.tax.descriptions.dbt": "Tax."}
    made = apply(text, wanted, {})
    assert data(made.text)["column_overrides"] == [
        {"name": "amount", "visibility": "internal", "descriptions": {"dbt": "Net."}},
        {"name": "tax", "descriptions": {"dbt": "Tax."}},
    ]
    assert apply(made.text, {}, made.owned).text == text


def test_two_joins_to_one_source_are_two_items() -> None:
    ship = {"to": "days", "on": "shipped = days.day", "relationship": "many_to_one"}
    due = {"to": "days", "on": "due  =  days.day", "relationship": "many_to_one"}
    both = {("joins", join_step(each)): each for each in (ship, due)}
    made = apply(b"name: orders\n", both, {})
    assert data(made.text)["joins"] == [ship, due]
    one = apply(made.text, {("joins", join_step(due)): due}, made.owned)
    assert data(one.text)["joins"] == [due]
    assert get(data(made.text), ("joins", "days")) == ship


@pytest.mark.table("text", [b"- a list\n", b"a: [\n", b"text\n"])
def test_what_is_no_mapping_is_refused(text: bytes) -> None:
    with pytest.raises(ConfigError, match=r"orders\.yaml"):
        apply(text, {"measures.revenue": REVENUE}, {}, where="orders.yaml")


def test_a_text_as_ktx_writes_it_stays_one() -> None:
    text = b"# Generated by ktx.\n" + yaml.dump({"name": "orders", "grain": ["id"]}).encode()
    made = apply(text, {"measures.revenue": REVENUE}, {})
    assert made.text == text + yaml.dump({"measures": [REVENUE]}).encode()


def test_a_text_in_the_way_is_kept() -> None:
    made = apply(b"name: orders\ndescriptions: a text\n", {"descriptions.dbt": "Orders."}, {})
    assert made.text == b"name: orders\ndescriptions: a text\n" and made.kept == ("descriptions.dbt",)


def test_an_item_inside_another_one_cannot_be_owned_too() -> None:
    with pytest.raises(ValueError, match="own only one of them"):
        apply(None, {"columns.net": {}, "columns.net.expr": "a"}, {})


STEPS = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4).map(tuple)


@given(STEPS)
def test_a_pointer_is_read_as_it_was_written(steps: tuple[str, ...]) -> None:
    assert steps_of(text_of(steps)) == steps


@pytest.mark.table("text", ["", ".", "a..b", "a.", 'a"b', '"a', '"a"b'])
def test_what_is_no_pointer(text: str) -> None:
    with pytest.raises(UsageError):
        steps_of(text)


NAMES = st.sampled_from(["a", "b", "c.d", 'e"'])
VALUES = st.sampled_from(["1", 2, True, None, "on", "two\nlines", ["x", "y"], {"k": "v"}])
ITEMS = st.one_of(
    st.tuples(st.just("descriptions"), NAMES),
    st.tuples(st.just("column_overrides"), NAMES, st.just("descriptions"), st.sampled_from(["dbt", "user"])),
    st.tuples(st.just("tables"), NAMES, st.just("columns"), NAMES, st.sampled_from(["tests", "unit"])),
)
WANTED = st.dictionaries(ITEMS, VALUES, max_size=8)


@given(WANTED, WANTED, st.sampled_from([b"", b"# top\n", b"name: x # why\n", b"tables: {}\n"]))
def test_a_merge_gives_what_is_wanted_and_can_be_taken_back(first: Any, second: Any, text: bytes) -> None:
    one = apply(text, first, {})
    assert all(get(data(one.text), steps) == value for steps, value in first.items())
    assert apply(one.text, first, one.owned) == one
    two = apply(one.text, second, one.owned)
    if one.text is not None:
        assert all(get(data(two.text), steps) == value for steps, value in second.items())
        assert set(two.owned) == {text_of(steps) for steps in second}
        assert all(get(data(two.text), steps) is MISSING for steps in first.keys() - second.keys())
    back = apply(two.text, {}, two.owned)
    assert (data(back.text) or {}) in ((data(text) or {}), {})


@given(WANTED, WANTED, st.lists(st.tuples(ITEMS, st.one_of(st.just(MISSING), VALUES)), max_size=4))
def test_what_somebody_changed_is_never_touched(first: Any, second: Any, edits: Any) -> None:
    base = apply(b"name: x\n", first, {})
    document = data(base.text)
    for steps, value in edits:
        document = drop(document, steps) if value is MISSING else put(document, steps, value)
    edited = yaml.dump(document).encode()
    made = apply(edited, second, base.owned)
    for steps, _ in edits:
        present, before = get(document, steps), get(data(base.text), steps)
        if present is MISSING and before is not MISSING:
            assert get(data(made.text), steps) is MISSING
        elif present != before:
            assert get(data(made.text), steps) == present


def test_what_is_left_of_a_connection() -> None:
    shard, page, gone = "semantic-layer/shop/_schema/shop.yaml", "wiki/global/documents-docs.md", "wiki/global/gone.md"
    measures = "tables.orders.proposed_measures"
    owned = {shard: {f"{measures}.margin": "1", f"{measures}.deleted": "2"}, page: {"page": "3"}, gone: {"page": "4"}}
    tree = MemoryTree({
        "raw-sources/docs/files/manifest.yaml": render_delivery(Delivery({}, owned)),
        "raw-sources/docs/live-database/manifest.yaml": b"of a scan, which owns nothing",
        "raw-sources/other/files/manifest.yaml": render_delivery(Delivery({}, {page: {"page": "5"}})),
        shard: b"tables:\n  orders:\n    proposed_measures: [{name: margin, expr: sum(a)}]\n",
        page: b"# Documents\n",
    })  # fmt: skip
    assert leftovers(tree, "docs") == {shard: (f"{measures}.margin",), page: ("page",)}
    assert leftovers(tree, "nobody") == {}
