"""What a terminal shows: nothing wider than it is, no word broken that fits, numbers below one another."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.cli import blocks
from ktx_cli.cli.blocks import Block, Fields, Lines, Styled, Table, cells, render_plain, render_pretty, wrapped

WORDS = st.text("abc_.>日", min_size=1, max_size=14)
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)


def drawn(*shown: Block, width: int, colour: bool = False) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "terminal_width", lambda: width)
        return render_pretty(shown, colour=colour).splitlines()


@given(TEXTS, st.integers(1, 40))
def test_text_is_wrapped_between_words_and_nothing_is_lost(text: str, width: int) -> None:
    lines = wrapped(text, max(width, 2))
    assert all(cells(line) <= max(width, 2) for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())
    if all(cells(word) <= width for word in text.split()):
        assert " ".join(lines).split() == text.split(), "no word is broken that fits"


def test_a_number_and_its_unit_stay_together_where_they_fit() -> None:
    text = "relationships: 1 declared foreign key (1,024 MB, 0.1 s)"
    for width in range(10, 60):
        lines = wrapped(text, width)
        assert any("1,024 MB" in line for line in lines) and any("0.1 s)" in line for line in lines), width
    assert wrapped("12 ms", 4) == ["12", "ms"]


def test_commands_are_never_broken() -> None:
    text = "choose a path: `ktx sl query -m orders.revenue --via regions=bill_to` or another"
    assert "`ktx sl query -m orders.revenue --via regions=bill_to`" in "|".join(wrapped(text, 30, commands=True))


@given(
    st.integers(1, 7).flatmap(lambda count: st.lists(st.lists(TEXTS, min_size=count, max_size=count), max_size=4)),
    st.integers(40, 130),
    st.booleans(),
)
def test_no_line_of_a_table_is_wider_than_the_terminal(rows: list[list[str]], width: int, data: bool) -> None:
    count = len(rows[0]) if rows else 3
    columns = tuple(f"column_{place}" for place in range(count))
    table = Table(columns, tuple(map(tuple, rows)), right=frozenset() if data else None)
    lines = drawn(table, width=width)
    assert max(map(cells, lines)) <= width
    shown = "".join("".join(lines).split())
    for row in rows:
        for cell in row:
            assert all(word.rstrip(".") in shown for word in cell.split())


def test_a_table_that_fits_has_its_columns_side_by_side() -> None:
    table = Table(("name", "amount"), (("a", "5.00"), ("b", "1,234.50")))
    assert drawn(table, width=80) == ["name    amount", "────  ────────", "a         5.00", "b     1,234.50"]


def test_wide_rows_of_a_database_are_records() -> None:
    table = Table(tuple(f"column_{place}" for place in range(30)), (("x" * 9,) * 30,) * 2, right=frozenset())
    lines = drawn(table, width=80)
    assert len(lines) == 62
    assert lines[:2] == ["── row 1 ───────────────────────────────", "column_0   xxxxxxxxx"]
    few = Table(("a", "b"), (("1", "2"),), expanded=True)
    assert drawn(few, width=80)[1:] == ["a  1", "b  2"]


def test_an_optional_column_is_left_out_where_it_does_not_fit() -> None:
    row = ("a" * 5, "b" * 25, "c" * 10)
    table = Table(("name", "summary", "matched on"), (row,), optional=frozenset({"matched on"}))
    assert drawn(table, width=60)[-1].split() == list(row)
    assert drawn(table, width=40)[-1].split() == list(row[:2])
    assert render_plain([table]).splitlines() == ["name\tsummary\tmatched on", "\t".join(row)]


def test_a_report_puts_what_does_not_fit_below_its_row() -> None:
    edge = "film_category.category_id->category.category_id"
    table = Table(("join", "status", "reason"), ((edge, "accepted", "every value is in the key, and the names match"),))
    assert drawn(table, width=60) == [
        f"{'join':<{len(edge)}}  status",
        f"{'─' * len(edge)}  ────────",
        f"{edge}  accepted",
        "  every value is in the key, and the names match",
    ]


def test_a_list_of_lines_shows_where_each_begins() -> None:
    lines = (
        "a.yaml:3: KTX312 error: there is no column `weight_in_kg`",
        "  fix: use one of tag_id, tag_name and others",
    )
    assert drawn(Lines(lines, hanging=True), width=40) == [
        "a.yaml:3: KTX312 error: there is no",
        "    column `weight_in_kg`",
        "  fix: use one of tag_id, tag_name and",
        "      others",
    ]


def test_styles_are_colours_on_a_terminal_and_nothing_elsewhere() -> None:
    shown: list[Block] = [
        Lines((("a.yaml:3: KTX330 ", Styled("warning", "warning"), ": no grain"),)),
        Fields((("git", Styled("fail: no commit", "error")),)),
        Table(("check", "state"), (("git", Styled("ok", "ok")),)),
    ]
    coloured = "\n".join(drawn(*shown, width=80, colour=True))
    assert "\x1b[33mwarning\x1b[0m" in coloured and "\x1b[31mfail: no commit\x1b[0m" in coloured
    assert "\x1b[32mok\x1b[0m" in coloured
    bare = "\n".join(drawn(*shown, width=80))
    assert "\x1b" not in bare and re.sub(r"\x1b\[\d+m", "", coloured) == bare
    assert render_plain(shown) == "a.yaml:3: KTX330 warning: no grain\ngit: fail: no commit\ncheck\tstate\ngit\tok\n"
