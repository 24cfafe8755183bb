"""Three-way merges: what each side keeps, what is a conflict, and the laws a merge obeys."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktx_cli.core import yaml
from ktx_cli.project.merge import Conflict, MergeConflictError, merge_data, merge_file
from ktx_cli.project.yaml_splice import same_data

EXAMPLES = 3_000 if os.environ.get("KTX_TEST_FULL") else 20

BASE = """\
name: orders
# what a person wrote
measures:
  - name: revenue # gross
    expr: sum(amount)
  - name: count
    expr: count(*)
joins:
  - to: customers
    on: a = b
    relationship: many_to_one
tags: [sales]
"""


def merged(ours: str, theirs: str, base: str = BASE) -> str | Conflict:
    found = merge_file("s/o.yaml", base.encode(), ours.encode(), theirs.encode())
    return found if isinstance(found, Conflict) else (found or b"").decode()


def test_our_change_goes_into_their_text() -> None:
    ours = (
        BASE.replace("sum(amount)", "sum(net)")
        .replace("# gross", "")
        .replace("  - name: count\n    expr: count(*)\n", "")
    )
    theirs = (
        BASE.replace("[sales]", "[sales, core] # two").replace("# gross", "# before tax") + "description: All orders\n"
    )
    expected = theirs.replace("sum(amount)", "sum(net)").replace("  - name: count\n    expr: count(*)\n", "")
    assert merged(ours, theirs) == expected


def test_both_add_measures_and_joins() -> None:
    ours = BASE.replace("joins:\n", "  - name: margin\n    expr: 1\njoins:\n  - {to: customers, on: c = d}\n")
    theirs = BASE.replace("measures:\n", "measures:\n  - name: net\n    expr: 2\n").replace(
        "    relationship: many_to_one\n", ""
    )
    found = merged(ours, theirs)
    assert isinstance(found, str)
    value = yaml.load(found, where="t")
    assert [measure["name"] for measure in value["measures"]] == ["net", "revenue", "count", "margin"]
    assert value["joins"] == [{"to": "customers", "on": "c = d"}, {"to": "customers", "on": "a = b"}]
    assert "# what a person wrote" in found and "# gross" in found


CONFLICTS = [
    ("sum(amount)", "sum(a)", "sum(b)", "measures[revenue].expr", "both sides changed it differently"),
    ("tags: [sales]", "tags: [sales, a]", "tags: [sales, b]", "tags", "both sides changed it differently"),
    ("tags: [sales]\n", "", "tags: [b]\n", "tags", "one side deleted it, the other changed it"),
    (
        "  - name: count\n    expr: count(*)\n",
        "",
        "  - name: count\n    expr: 1\n",
        "measures[count]",
        "one side deleted it",
    ),
    (
        "relationship: many_to_one",
        "relationship: a",
        "relationship: b",
        "joins[customers on a = b].relationship",
        "both",
    ),
    ("tags: [sales]\n", "tags: [sales]\nx: 1\n", "tags: [sales]\nx: 2\n", "x", "both sides added it differently"),
    ("tags: [sales]", "tags: {a: 1}", "tags: x", "tags", "both sides changed it differently"),
]


@pytest.mark.table(("old", "ours", "theirs", "where", "reason"), CONFLICTS)
def test_conflicts_name_the_place(old: str, ours: str, theirs: str, where: str, reason: str) -> None:
    for one, other in ((ours, theirs), (theirs, ours)):
        found = merged(BASE.replace(old, one), BASE.replace(old, other))
        assert isinstance(found, Conflict)
        assert (found.path, found.where) == ("s/o.yaml", where)
        assert reason in found.reason
        assert str(found) == f"s/o.yaml: {where}: {found.reason}"


@pytest.mark.table(
    ("base", "ours", "theirs", "expected"),
    [
        (b"a: 1", None, b"a: 1", None),
        (b"a: 1", b"a: 1", None, None),
        (b"a: 1", None, None, None),
        (None, b"a: 1", None, b"a: 1"),
        (None, b"a: 1", b"a: 1", b"a: 1"),
        (None, b"a: 1\n", b"b: 2\n", b"b: 2\na: 1\n"),
        (None, b"a: 1\n", b"a: 2\n", "a"),
        (b"a: 1", None, b"a: 2", ""),
        (b"a: 1", b"a: 2", None, ""),
        (b"a: 1\n", b"a: 1 # c\n", b"a: 2\n", b"a: 2\n"),
        (b"a: 1\n", b"{a: 1, b: 3}\n", b"a: 2\n", b"a: 2\nb: 3\n"),
        (b"# c\n", b"a: 1\n", b"# d\n", b"# d\na: 1\n"),
    ],
)
def test_files_that_come_and_go(base: Any, ours: Any, theirs: Any, expected: Any) -> None:
    found = merge_file("o.yml", base, ours, theirs)
    assert (found.where if isinstance(found, Conflict) else found) == expected


def by_lines(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """A merge by lines for changes that keep the number of lines."""
    sides = [side.splitlines(keepends=True) for side in (base, ours, theirs)]
    if len({len(side) for side in sides}) != 1:
        return None
    lines = []
    for old, our, their in zip(*sides, strict=True):
        if our != their and old not in (our, their):
            return None
        lines.append(their if our == old else our)
    return b"".join(lines)


def test_other_files_merge_by_lines() -> None:
    assert merge_file("w/a.md", b"a\nb\n", b"x\nb\n", b"a\ny\n", text_merge=by_lines) == b"x\ny\n"
    for text_merge in (by_lines, None):
        found = merge_file("w/a.md", b"a\n", b"x\n", b"y\n", text_merge=text_merge)
        assert found == Conflict("w/a.md", "", "both sides changed the same lines")
        assert str(found) == "w/a.md: both sides changed the same lines"


def test_yaml_that_does_not_parse_merges_by_lines() -> None:
    assert merge_file("a.yaml", b"a: [\nb\n", b"a: [\nc\n", b"a: {\nb\n", text_merge=by_lines) == b"a: {\nc\n"
    assert isinstance(merge_file("a.yaml", b"a: [", b"a: 1", b"a: 2"), Conflict)


def test_a_merge_by_lines_that_says_the_same_keeps_the_comments_of_both() -> None:
    base, ours, theirs = b"a: 1\nb: 2\nc: 3\n", b"a: 1 # ours\nb: 2\nc: 4\n", b"a: 1\nb: 3 # theirs\nc: 3\n"
    assert merge_file("a.yaml", base, ours, theirs) == b"a: 1\nb: 3 # theirs\nc: 4\n"
    assert merge_file("a.yaml", base, ours, theirs, text_merge=by_lines) == b"a: 1 # ours\nb: 3 # theirs\nc: 4\n"


def test_a_merge_by_lines_that_says_something_else_is_not_taken() -> None:
    base, ours, theirs = b"a: 1\nb: 2\n", b"a: 1\nb: 3\n", b"a: 4\nb: 2\n"
    assert merge_file("a.yaml", base, ours, theirs, text_merge=lambda *_: b"a: 9\n") == b"a: 4\nb: 3\n"
    assert merge_file("a.yaml", base, ours, theirs, text_merge=lambda *_: b"a: [\n") == b"a: 4\nb: 3\n"


def test_what_cannot_be_edited_in_place_is_a_conflict() -> None:
    base, ours, theirs = b"a: &x {k: 1}\nb: *x\n", b"a: {k: 2}\nb: {k: 1}\n", b"a: &x {k: 1}\nb: *x\nc: 1\n"
    found = merge_file("a.yaml", base, ours, theirs)
    assert isinstance(found, Conflict) and "cannot be combined into one text" in found.reason


@pytest.mark.table(
    ("base", "ours", "theirs", "expected"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, {"a": 1, "c": 3}, {"a": 1, "c": 3, "b": 2}),
        ({"a": 1, "b": 2}, {"b": 2}, {"a": 1, "b": 3}, {"b": 3}),
        ({"a": {"x": 1}}, {"a": {"x": 1, "y": 2}}, {"a": {"x": 3}}, {"a": {"x": 3, "y": 2}}),
        ({}, {"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"y": 2, "x": 1}}),
        ({"a": 1}, {"a": True}, {"a": 1, "b": 1}, {"a": True, "b": 1}),
        ([1, 2], [1, 2], [2], [2]),
        (None, None, {"a": None}, {"a": None}),
    ],
)
def test_merge_data(base: Any, ours: Any, theirs: Any, expected: Any) -> None:
    assert same_data(merge_data(base, ours, theirs, on_conflict="raise"), expected)


def named(names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


@pytest.mark.table(
    ("base", "ours", "theirs", "expected"),
    [
        ("abc", "axbc", "abcy", "axbcy"),
        ("abc", "ab", "xabc", "xab"),
        ("abc", "cba", "abcx", "cxba"),
        ("abc", "abcx", "cba", "cxba"),
        ("abc", "cab", "bca", "bca"),
        ("", "ab", "ca", "cab"),
        ("abc", "xabc", "yabc", "xyabc"),
        ("abcd", "bd", "ac", ""),
    ],
)
def test_the_order_of_named_items(base: str, ours: str, theirs: str, expected: str) -> None:
    found = merge_data(named(base), named(ours), named(theirs), on_conflict="raise")
    assert "".join(item["name"] for item in found) == expected


def test_on_conflict() -> None:
    base, ours, theirs = {"a": 1, "b": 1, "c": 1}, {"a": 2, "c": 5}, {"a": 3, "b": 4, "c": 1}
    assert merge_data(base, ours, theirs, on_conflict="ours") == {"a": 2, "c": 5}
    assert merge_data(base, ours, theirs, on_conflict="theirs") == {"a": 3, "b": 4, "c": 5}
    with pytest.raises(MergeConflictError) as caught:
        merge_data(base, ours, theirs, on_conflict="raise")
    assert (caught.value.where, caught.value.code) == ("a", "conflict")


def test_lists_without_identity_are_one_value() -> None:
    twice = [{"name": "a"}, {"name": "a"}]
    with pytest.raises(MergeConflictError):
        merge_data({"l": twice}, {"l": [*twice, {"name": "b"}]}, {"l": [*twice, {"name": "c"}]}, on_conflict="raise")


# -- laws ------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.sampled_from(["x", "no", "p\nq\n"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(NAMES, inner, max_size=4),
        st.lists(NAMES, unique=True, max_size=4).flatmap(
            lambda names: st.tuples(*[inner.map(lambda v, n=name: {"name": n, "v": v}) for name in names]).map(list)
        ),
    ),
    max_leaves=10,
)


def variant(value: Any, rng: random.Random) -> Any:
    """The value with a few changes, so that three sides have something in common."""
    if isinstance(value, dict):
        changed = {
            k: v if k == "name" else variant(v, rng) for k, v in value.items() if k == "name" or rng.random() < 0.9
        }
        return {**changed, rng.choice("abcde"): rng.randint(0, 3)} if rng.random() < 0.15 else changed
    if isinstance(value, list) and value and all(isinstance(item, dict) and "name" in item for item in value):
        kept = [variant(item, rng) for item in value if rng.random() < 0.85]
        if rng.random() < 0.3:
            kept.insert(rng.randint(0, len(kept)), {"name": "new" + rng.choice("xy"), "v": 1})
        return kept
    return rng.randint(0, 3) if rng.random() < 0.1 else value


THREE = st.builds(
    lambda base, one, other: (base, variant(base, random.Random(one)), variant(base, random.Random(other))),
    VALUES.map(lambda value: {"name": "top", "v": value}),
    st.integers(0, 10_000),
    st.integers(0, 10_000),
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(VALUES, VALUES)
def test_one_sided_changes_are_taken(base: Any, side: Any) -> None:
    assert merge_data(base, base, side, on_conflict="raise") == side
    assert merge_data(base, side, base, on_conflict="raise") == side
    assert merge_data(base, side, side, on_conflict="raise") == side


@settings(max_examples=EXAMPLES, deadline=None)
@given(THREE)
def test_a_file_says_what_the_data_say(three: Any) -> None:
    base, ours, theirs = three
    texts = [yaml.dump(side).encode() for side in three]
    found = merge_file("f.yaml", *texts)
    try:
        expected = merge_data(base, ours, theirs, on_conflict="raise")
    except MergeConflictError as error:
        assert isinstance(found, Conflict) and found.where == error.where
    else:
        assert isinstance(found, bytes)
        assert same_data(yaml.load(found, where="t"), expected)


@settings(max_examples=EXAMPLES, deadline=None)
@given(THREE)
def test_sides_can_be_exchanged(three: Any) -> None:
    base, ours, theirs = three
    for here, there in (("raise", "raise"), ("ours", "theirs")):
        try:
            one = merge_data(base, ours, theirs, on_conflict=here)
        except MergeConflictError:
            with pytest.raises(MergeConflictError):
                merge_data(base, theirs, ours, on_conflict=there)
        else:
            assert same_data(unordered(one), unordered(merge_data(base, theirs, ours, on_conflict=there)))


@settings(max_examples=EXAMPLES, deadline=None)
@given(THREE)
def test_the_order_of_their_entries_stays(three: Any) -> None:
    base, ours, theirs = three
    found = merge_data(base, ours, theirs, on_conflict="theirs")
    if not same_data(theirs, base):
        assert [key for key in found if key in theirs] == [key for key in theirs if key in found]


@settings(max_examples=EXAMPLES, deadline=None)
@given(VALUES, VALUES, VALUES)
def test_disjoint_changes_commute(base: Any, one: Any, other: Any) -> None:
    start, left, right = ({"l": base, "r": base}, {"l": one, "r": base}, {"l": base, "r": other})
    for ours, theirs in ((left, right), (right, left)):
        assert same_data(merge_data(start, ours, theirs, on_conflict="raise"), {"l": one, "r": other})
        texts = [yaml.dump(side).encode() for side in (start, ours, theirs)]
        found = merge_file("f.yaml", *texts)
        assert isinstance(found, bytes) and same_data(yaml.load(found, where="t"), {"l": one, "r": other})


def unordered(value: Any) -> Any:
    """Named lists as mappings: which side leads decides only their order."""
    if isinstance(value, dict):
        return {key: unordered(item) for key, item in value.items()}
    if isinstance(value, list) and value and all(isinstance(item, dict) and "name" in item for item in value):
        return {item["name"]: unordered(item) for item in value}
    return [unordered(item) for item in value] if isinstance(value, list) else value


PAGE = "---\nsummary: Refunds # short\ntags: [money, returns]\nrefs: [orders]\n---\n\n# Refunds\n\nFirst.\n\nLast.\n"


def merged_page(ours: str, theirs: str) -> str | Conflict:
    def by_lines(base: bytes, our: bytes, their: bytes) -> bytes | None:
        return their.replace(b"First.", b"One.") if our == base.replace(b"First.", b"One.") else None

    found = merge_file("wiki/global/refunds.md", PAGE.encode(), ours.encode(), theirs.encode(), text_merge=by_lines)
    return found if isinstance(found, Conflict) else (found or b"").decode()


def test_lists_of_a_page_are_sets_and_its_body_is_lines() -> None:
    ours = PAGE.replace("[money, returns]", "[money, tax]").replace("First.", "One.")
    theirs = PAGE.replace("[money, returns]", "[returns, money, law]").replace("Last.", "End.")
    found = merged_page(ours, theirs)
    assert isinstance(found, str)
    _, head, body = found.split("---\n")
    assert yaml.load(head, where="p") == {"summary": "Refunds", "tags": ["money", "law", "tax"], "refs": ["orders"]}
    assert "# short" in head
    assert body == "\n# Refunds\n\nOne.\n\nEnd.\n"


def test_only_one_part_of_a_page_changed_on_each_side() -> None:
    ours, theirs = PAGE.replace("[orders]", "[orders, tax]"), PAGE.replace("Last.", "End.")
    assert merged_page(ours, theirs) == PAGE.replace("[orders]", "[orders, tax]").replace("Last.", "End.")
    assert merged_page(theirs, ours) == merged_page(ours, theirs)


@pytest.mark.table("field", ["Refunds # short", "Last."])
def test_the_same_place_of_a_page_is_a_conflict(field: str) -> None:
    assert isinstance(merged_page(PAGE.replace(field, "One"), PAGE.replace(field, "Two")), Conflict)
