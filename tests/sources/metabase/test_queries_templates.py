"""The template language: blocks that go, text that stays, hostile input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.sources.metabase.queries import filled, names, without_optional


@pytest.mark.table(
    ("text", "wanted"),
    [
        ("select 1 [[where a = {{a}}]] limit 1", "select 1  limit 1"),
        ("[[and a = {{a}}]][[and b = {{b}}]]x", "x"),
        ("select array[[1, 2], [3, 4]]", "select array[[1, 2], [3, 4]]"),
        ("a[[ b {{x}} [[c {{y}}]] d ]]e", "ae"),
        ("a[[ [[c {{y}}]] d ]]e", "ae"),
        ("x[y[1]] [[and {{z}}]]", "x[y[1]] "),
        ("[[ unclosed {{x}}", "[[ unclosed {{x}}"),
        ("-- [[ {{x}} ]]\nselect 1", "-- [[ {{x}} ]]\nselect 1"),
        ("/* [[ */ [[a {{x}}]] /* ]] */", "/* [[ */  /* ]] */"),
        ("select '--' [[and {{x}}]] -- '[[\n", "select '--'  -- '[[\n"),
        ("select 'it''s -- ' [[and {{x}}]]", "select 'it''s -- ' "),
        ('select "a--b" [[and {{x}}]]', 'select "a--b" '),
        ("/* never closed [[a {{x}}]]", "/* never closed [[a {{x}}]]"),
    ],
)
def test_optional_blocks_go_and_all_else_stays(text: str, wanted: str) -> None:
    assert without_optional(text) == wanted


@pytest.mark.table(
    ("text", "wanted"),
    [
        ("{{ a }} {{a}} {{#12-x}} {{snippet: p q}}", ("a", "#12-x", "snippet: p q")),
        ("'%{{a}}%' -- {{b}}", ("a",)),
        ("{{a} {{}} { {b}} {{c\n}}", ("c",)),
    ],
)
def test_names(text: str, wanted: tuple[str, ...]) -> None:
    assert names(text) == wanted


def test_filled_puts_values_in_once_and_leaves_what_has_none() -> None:
    assert filled("{{a}} {{b}} -- {{a}}", lambda name: "{{b}}" if name == "a" else None) == "{{b}} {{b}} -- {{a}}"


@given(st.text("[]{}'-/*a \n"))
def test_any_text_is_read_and_nothing_is_left_that_a_second_pass_would_take(text: str) -> None:
    once = without_optional(text)
    assert filled(text, lambda name: None) == text
    assert len(once) <= len(text)
    if "{{" not in text:
        assert once == text


def test_a_text_full_of_brackets_takes_linear_time() -> None:
    text = "[[" * 50_000 + "{{x}}" + "]]" * 50_000 + "{{" * 50_000 + "/*" * 50_000
    assert without_optional(text).startswith("{{{{")
