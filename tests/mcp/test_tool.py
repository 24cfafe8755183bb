"""How long an answer may be, and how a longer one is cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core.errors import KtxError
from ktx_cli.mcp.tool import LONGEST, Output, Paged, compact_json, fit_answer, page_of


class Items(Paged):
    part = "items"
    verbatim = frozenset({"items"})

    items: list[str]


class Text(Paged):
    part = "text"
    verbatim = frozenset({"text"})

    text: str


class Whole(Output):
    text: str


def pages(make: Any, part: str, whole: Any) -> list[dict[str, Any]]:
    found, offset = [], 0
    while True:
        page = fit_answer(make(whole[offset:]), offset)
        assert len(compact_json(page)) <= LONGEST
        found.append(page)
        if page["next_offset"] is None:
            assert not page["truncated"]
            return found
        assert page["next_offset"] == offset + len(page[part])
        offset = page["next_offset"]


@given(st.lists(st.text(max_size=3_000).map(lambda text: text * 3), max_size=60))
def test_pages_of_a_list_have_every_item_once(items: list[str]) -> None:
    found = pages(lambda left: Items(items=left), "items", items)
    assert [each for page in found for each in page["items"]] == items


@given(st.text(max_size=50).map(lambda text: text * 3_000))
def test_pages_of_a_text_are_the_text(text: str) -> None:
    found = pages(lambda left: Text(text=left), "text", text)
    assert "".join(page["text"] for page in found) == text


def test_a_page_ends_with_a_line_where_it_can() -> None:
    page = fit_answer(Text(text="a line of some words\n" * 5_000))
    assert page["text"].endswith("\n")


def test_what_cannot_be_cut_and_a_first_item_that_is_too_long_are_errors() -> None:
    for output in (Whole(text="x" * LONGEST), Items(items=["x" * LONGEST])):
        with pytest.raises(KtxError, match="characters") as caught:
            fit_answer(output)
        assert caught.value.hint


def test_hidden_characters_are_shown_but_in_values_of_rows() -> None:
    assert fit_answer(Whole(text="a\u200bb"))["text"] == "a⟨U+200B⟩b"
    assert fit_answer(Items(items=["a\u200bb"], warnings=["\u202e"])) | {"truncated": False} == {
        "items": ["a\u200bb"], "warnings": ["⟨U+202E⟩"], "truncated": False, "next_offset": None
    }  # fmt: skip


def test_many_warnings_leave_room_for_the_answer() -> None:
    page = fit_answer(Items(items=["a"], warnings=["w" * 500] * 100))
    assert page["items"] == ["a"] and page["warnings"][-1] == "and 96 more warnings"


def test_a_page_of_a_list_says_where_the_next_begins() -> None:
    assert page_of("items", "abc", 0, 2) == {"items": ["a", "b"], "truncated": True, "next_offset": 2}
    assert page_of("items", "abc", 2, 2) == {"items": ["c"], "truncated": False, "next_offset": None}
    assert page_of("items", "abc", 9, 2) == {"items": [], "truncated": False, "next_offset": None}
