"""The text of a pack: within its budget, the lowest ranks first, and every line with its file."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.jobs.pack.pack import MORE, RULES, SECTIONS, SOURCES, PackLine, PackText, tokens_of

LINES = st.lists(
    st.builds(
        PackLine,
        section=st.sampled_from(SECTIONS),
        text=st.text("abcdefg ,", min_size=1, max_size=300),
        path=st.sampled_from(["a.yaml", "wiki/b.md", "dbt/c.sql", ""]),
        rank=st.integers(0, 9),
        group=st.sampled_from(["", "orders", "customers"]),
    ),
    max_size=60,
)


@given(LINES, st.integers(500, 3_000))
def test_it_is_never_larger_than_its_budget(lines: list[PackLine], budget: int) -> None:
    text = PackText.of(lines, budget)
    assert tokens_of(text.render()) <= budget
    assert len(text.kept) + text.left_out == len(lines)
    assert text.render() == PackText.of(lines, budget).render()


@given(LINES)
def test_every_line_has_the_number_of_its_file(lines: list[PackLine]) -> None:
    rendered = PackText.of(lines, 30_000).render()
    head, _, files = rendered.partition("## Files\n")
    paths = dict(re.findall(r"^\[(\d+)\] (.+)$", files, re.MULTILINE))
    assert set(paths.values()) == {each.path for each in lines if each.path}
    for each in lines:
        if each.path:
            number = next(number for number, path in paths.items() if path == each.path)
            assert f"{each.text} [{number}]" in head


def test_the_lowest_ranks_come_into_a_small_one() -> None:
    lines = [PackLine(MORE, f"table {number} " + "x" * 200, "a.yaml", 8) for number in range(50)]
    lines.append(PackLine(RULES, "what counts", "b.md", 1))
    text = PackText.of(lines, 500)
    assert [each.text for each in text.kept if each.section == RULES] == ["what counts"]
    assert 0 < text.left_out < 50
    assert f"({text.left_out} lines omitted" in text.render()


def test_lines_of_a_group_stand_together_in_the_order_of_sections() -> None:
    lines = [
        PackLine(RULES, "a rule", "r.md", 0),
        PackLine(SOURCES, "orders", "s.yaml", 1, "orders"),
        PackLine(SOURCES, "customers", "s.yaml", 1, "customers"),
        PackLine(SOURCES, "  columns of orders", "s.yaml", 2, "orders"),
    ]
    rendered = PackText.of(lines, 2_000).render()
    order = [
        "## Sources",
        "orders [1]",
        "  columns of orders [1]",
        "customers [1]",
        "## Rules",
        "a rule [2]",
        "## Files",
    ]
    assert [line for line in rendered.splitlines() if line in order] == order
