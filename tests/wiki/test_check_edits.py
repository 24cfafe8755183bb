"""Replacements: exact, then by words, then by likeness; once each, all or none."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ktx_cli.core.errors import UsageError
from ktx_cli.wiki.check import Replacement, replaced, with_newlines
from ktx_cli.wiki.store import NEAR, likeness, nearest

TEXT = """\
# Revenue

Revenue counts orders that were paid, net of refunds.
It is recognised when the order ships,
not when it is placed.

## Exceptions

Test accounts are left out. Gift cards count when they are used.
"""


def one(old: str, new: str = "NEW") -> str:
    return replaced(TEXT, [Replacement(old, new)])


@pytest.mark.table(
    ("old", "passage"),
    [
        ("net of refunds", "net of refunds"),
        ("ships,\nnot when", "ships,\nnot when"),
        ("when the order ships, not when it is placed.", "when the order ships,\nnot when it is placed."),
        ("  ships,   \n\n not\twhen ", "ships,\nnot when"),
        (
            "Revenue counts orders which were paid, net of refunds.",
            "Revenue counts orders that were paid, net of refunds.",
        ),
        ("It is recognized when the order shipped,", "It is recognised when the order ships,"),
        ("Gift cards count when they're used.", "Gift cards count when they are used."),
        ("Revenue", None),
        ("were", "were"),
    ],
)
def test_a_passage_is_found(old: str, passage: str | None) -> None:
    if passage is None:
        with pytest.raises(UsageError, match="matches 2 passages"):
            one(old)
    else:
        assert one(old) == TEXT.replace(passage, "NEW")


@pytest.mark.table(
    "old", ["", "  \n", "Nothing like this stands anywhere in it.", "Orders are paid by customers, or not."]
)
def test_a_passage_is_not_found(old: str) -> None:
    with pytest.raises(UsageError) as caught:
        one(old)
    assert "nothing was changed" in caught.value.message
    assert caught.value.hint


def test_two_passages_that_are_as_much_alike() -> None:
    text = "Orders of January are counted twice.\n\nOrders of February are counted once.\n"
    assert replaced(text, [Replacement("Orders of January are countet twice.", "X")]).startswith("X\n")
    twice = "Sales of the north are net here.\n\nSales of the south are net here.\n"
    with pytest.raises(UsageError, match="is similar to 2 passages"):
        replaced(twice, [Replacement("Sales of the nouth are net here.", "X")])


def test_all_or_nothing_and_everything_that_failed_is_told() -> None:
    edits = [Replacement("net of refunds", "gross"), Replacement("xyz qwertz", ""), Replacement("Revenue", "")]
    with pytest.raises(UsageError) as caught:
        replaced(TEXT, edits)
    assert [each.split(" ")[1] for each in caught.value.details["problems"]] == ["2", "3"]
    assert replaced(TEXT, [edits[0], Replacement("gross", "all")]) == TEXT.replace("net of refunds", "all")
    assert replaced(TEXT, []) == TEXT


words = st.text(st.sampled_from("abcdefgh"), min_size=2, max_size=7)


@given(st.lists(st.text("abcd", min_size=4, max_size=4), min_size=1, max_size=30, unique=True), st.data())
def test_white_space_never_counts(parts: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(parts) - 1))
    end = data.draw(st.integers(start + 1, len(parts)))
    spaces = st.sampled_from([" ", "\n", "  ", "\n\n", "\t"])
    text = "".join(part + data.draw(spaces) for part in parts)
    old = data.draw(spaces) + "".join(part + data.draw(spaces) for part in parts[start:end])
    result = replaced(text, [Replacement(old, " XYZ ")])
    assert result.split() == [*parts[:start], "XYZ", *parts[end:]]


@given(
    st.lists(st.sampled_from(["aa", "b"]), min_size=1, max_size=8), st.lists(st.sampled_from(["aa", "b"]), min_size=1)
)
def test_what_stands_twice_is_refused_also_where_it_overlaps(parts: list[str], wanted: list[str]) -> None:
    text, old = " ".join(parts), " ".join(wanted)
    places = [at for at in range(len(text)) if text.startswith(old, at)]
    assume(places)
    if len(places) > 1:
        with pytest.raises(UsageError, match="matches"):
            replaced(text, [Replacement(old, "X")])
    else:
        assert replaced(text, [Replacement(old, "X")]) == text[: places[0]] + "X" + text[places[0] + len(old) :]


@given(st.text(), st.text(min_size=1), st.text())
def test_what_stands_once_is_replaced_as_it_is(before: str, old: str, after: str) -> None:
    text = before + old + after
    assume(old.strip() and all(text.find(old, at) in (-1, len(before)) for at in range(len(text)) if at <= len(before)))
    assume(text.find(old, len(before) + 1) < 0)
    assert replaced(text, [Replacement(old, "new")]) == before + "new" + after


@given(st.text(), st.text())
def test_whatever_is_near_is_near(text: str, wanted: str) -> None:
    found = nearest(text, wanted) if wanted.strip() else []
    for start, end in found:
        assert text[start:end].strip() == text[start:end] != ""
        assert likeness(text[start:end].split(), wanted.split()) >= NEAR
    assert all(one[1] <= two[0] or two[1] <= one[0] for one in found for two in found if one != two)


@given(st.lists(words, min_size=1, max_size=10), st.lists(words, min_size=1, max_size=10))
def test_likeness_is_a_share(one: list[str], other: list[str]) -> None:
    assert 0 <= likeness(one, other) <= 1
    assert likeness(one, one) == 1


@pytest.mark.table(
    ("body", "expected"),
    [
        ("# A\\n\\nText.\\n", "# A\n\nText.\n"),
        ("A\\r\\nB", "A\nB"),
        ("# A\nRows end in \\n here.", "# A\nRows end in \\n here."),
        ("Rows end in `\\n`.", "Rows end in `\\n`."),
        ("# A\\nRows end in `\\n`.", "# A\nRows end in `\\n`."),
        ("# A\\n```sql\\nselect 1\\n```\\n", "# A\n```sql\nselect 1\n```\n"),
        ("No ends at all", "No ends at all"),
        ("", ""),
    ],
)
def test_ends_of_lines_that_arrived_as_two_characters(body: str, expected: str) -> None:
    assert with_newlines(body) == expected
    assert with_newlines(expected) == expected


@given(st.text())
def test_repairing_twice_changes_nothing(body: str) -> None:
    assert with_newlines(with_newlines(body)) == with_newlines(body)
