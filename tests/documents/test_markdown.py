"""Documents in passages: nothing is lost, nothing is too long, and a key is the same after an edit elsewhere."""

from __future__ import annotations

import re
import time
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.documents.markdown import LONGEST, Passage, passages
from ktx_cli.documents.raw import Document

KEY: Final = re.compile(r"docs:h/a\.md:[\w-]+:[0-9a-f]{16}")


def split(markdown: str, source: str = "docs", path: str = "h/a.md") -> tuple[Passage, ...]:
    return passages(Document(path, "A", markdown), source)


def headed(found: tuple[Passage, ...]) -> list[str]:
    return [each.heading for each in found]


def test_a_document_is_cut_at_headings_and_passages_say_what_they_stand_below() -> None:
    found = split("Before.\n\n# Refunds\n\nRule.\n\n## In the EU\n\nOther rule.\n# Rest\nx\n")
    assert headed(found) == ["", "Refunds", "Refunds > In the EU", "Rest"]
    assert [each.order for each in found] == [0, 1, 2, 3]
    assert found[2].text == "## In the EU\n\nOther rule.\n"
    assert all(KEY.fullmatch(each.key) for each in found)
    assert found[2].key.startswith("docs:h/a.md:in-the-eu:")


def test_a_heading_with_nothing_below_it_goes_into_the_next_passage() -> None:
    found = split("# Handbook\n\n## Refunds\n\nRule.\n\n## Empty\n")
    assert headed(found) == ["Handbook > Refunds", "Handbook > Empty"]
    assert found[0].text == "# Handbook\n\n## Refunds\n\nRule.\n\n"


def test_a_heading_in_code_is_none() -> None:
    (found,) = split("# SQL\n\n```sql\n# no heading\nselect 1\n```\n")
    assert found.heading == "SQL"


@pytest.mark.table("markdown", ["", "\n \n", "\t\n\n"])
def test_a_document_without_text_has_no_passages(markdown: str) -> None:
    assert split(markdown) == ()


def test_a_long_section_is_cut_between_paragraphs() -> None:
    paragraphs = [f"{number} " + "word " * 200 for number in range(12)]
    found = split("# Long\n\n" + "\n\n".join(paragraphs))
    assert len(found) == 3
    assert all(each.heading == "Long" for each in found)
    assert all(each.text.endswith("\n\n") for each in found[:-1])
    assert len({each.key for each in found}) == 3


def test_a_long_fence_is_not_cut_at_its_blank_lines_while_it_fits() -> None:
    code = "```sql\n" + "select 1;\n\n" * 300 + "```"
    found = split(f"{'word ' * 600}\n\n{code}\n")
    assert [each.text.count("```") for each in found] == [0, 2]


def test_sections_of_the_same_headings_have_keys_of_their_own() -> None:
    found = split("# A\n\n## Notes\none\n# A\n\n## Notes\ntwo\n")
    assert headed(found) == ["A > Notes", "A > Notes"]
    assert found[0].key != found[1].key


def test_the_second_section_of_the_same_headings_keeps_its_key_when_the_first_gets_long() -> None:
    short = split("## Notes\none\n## Notes\ntwo\n")
    long = split("## Notes\n" + "one\n\n" * 3000 + "## Notes\ntwo\n")
    assert len(long) > 2
    assert long[-1].key == short[-1].key


def test_the_same_text_in_another_source_or_file_has_another_key() -> None:
    keys = {split("x", source, path)[0].key for source in ("docs", "wiki") for path in ("a.md", "b.md")}
    assert len(keys) == 4


texts = st.text(st.characters(codec="utf-8", exclude_characters="#`~\r"), max_size=60)
lines = st.one_of(
    texts,
    st.builds(
        lambda level, text: f"{'#' * level} {text}", st.integers(1, 6), st.sampled_from(["A", "B", "Über C#", ""])
    ),
    st.sampled_from(["", "   ", "```", "```sql", "~~~", "word " * 1500, "x" * 11_000, "| a | b |"]),
)
documents = st.lists(lines, max_size=30).map("\n".join)


@given(documents)
def test_nothing_is_lost_and_nothing_is_too_long(markdown: str) -> None:
    found = split(markdown)
    kept = "".join(each.text for each in found)
    assert re.sub(r"\s", "", kept) == re.sub(r"\s", "", markdown)
    assert all(0 < len(each.text) <= LONGEST and each.text.strip() for each in found)
    assert len({each.key for each in found}) == len(found)
    assert [each.order for each in found] == list(range(len(found)))
    assert split(markdown) == found


bodies = st.lists(texts, min_size=1, max_size=4).map("\n".join)


@given(st.lists(bodies, min_size=2, max_size=6), st.data())
def test_an_edit_in_one_section_leaves_the_keys_of_the_others(sections: list[str], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(sections) - 1))
    edited = [*sections]
    edited[place] = data.draw(st.one_of(bodies, st.just("long\n\n" * 2000)))

    def keys(parts: list[str]) -> dict[str, list[str]]:
        found = split("\n".join(f"# S{number}\nbegun\n{body}" for number, body in enumerate(parts)))
        return {head: [each.key for each in found if each.heading == head] for head in headed(found)}

    before, after = keys(sections), keys(edited)
    others = [f"S{number}" for number in range(len(sections)) if number != place]
    assert {head: before[head] for head in others} == {head: after[head] for head in others}
    assert before[f"S{place}"][0] == after[f"S{place}"][0]


def test_headings_without_text_take_time_in_proportion() -> None:
    def seconds(count: int) -> float:
        text = "".join(f"## h{number}\n" for number in range(count))
        begun = time.process_time()
        assert len(passages(Document("a.md", "a", text), "docs")) > 1
        return time.process_time() - begun

    small = min(seconds(1_000) for _ in range(3))
    assert seconds(8_000) < 0.05 + 16 * small, "it grows no faster than the number of headings"
