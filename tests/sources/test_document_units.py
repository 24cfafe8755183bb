"""How documents become units: small neighbours together, long ones in spans, the same each time."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.documents.raw import Changes, RawFile, Snapshot, WorkUnit
from ktx_cli.sources.document_units import (
    GROUP_CHARACTERS,
    NEIGHBOURS,
    PAGES,
    SPAN_CHARACTERS,
    Grouping,
    document_units,
)


def raw(path: str, content: str = "x") -> RawFile:
    data = content.encode()
    return RawFile(path, f"sha-{path}", len(data), lambda: data)


def units(files: dict[str, str], grouping: Grouping = NEIGHBOURS, **changes: Any) -> tuple[WorkUnit, ...]:
    snapshot = Snapshot({path: raw(path, text) for path, text in sorted(files.items())})
    given = Changes(**changes) if changes else Changes(added=tuple(sorted(files)))
    return document_units(snapshot, given, grouping, lambda file: file.path.rpartition("/")[0])


def spans(unit_notes: list[str]) -> list[tuple[int, int]]:
    found = [re.search(r"lines (\d+) to (\d+)", notes) for notes in unit_notes]
    return [(int(each[1]), int(each[2])) for each in found if each]


def test_small_neighbours_share_a_unit() -> None:
    made = units({"a/1.md": "x", "a/2.md": "x", "b/1.md": "x", "a/3.md": "x" * 10_001})
    assert [unit.files for unit in made] == [("a/1.md", "a/2.md"), ("a/3.md",), ("b/1.md",)]
    assert (made[0].label, made[1].key, made[0].peers) == ("2 documents of a", "a/3.md", ("a/3.md",))
    assert re.fullmatch(r"a/2-documents-[0-9a-f]{8}", made[0].key)


def test_a_unit_of_neighbours_is_bounded() -> None:
    made = units({f"a/{number:02}.md": "x" * 6_000 for number in range(10)})
    assert [len(unit.files) for unit in made] == [3, 3, 3, 1]


def test_few_small_pages_are_units_of_their_own() -> None:
    assert len(units({f"a/{number}.md": "x" for number in range(4)}, PAGES)) == 4
    assert len(units({f"a/{number}.md": "x" for number in range(5)}, PAGES)) == 1
    assert len(units({f"a/{number}.md": "x" * 4_001 for number in range(5)}, PAGES)) == 5


def test_only_what_changed_is_work() -> None:
    files = {f"a/{number}.md": "x" for number in range(5)}
    made = units(files, modified=("a/3.md",), deleted=("a/9.md",), unchanged=("a/0.md",))
    assert [(unit.key, unit.files) for unit in made] == [("a/3.md", ("a/3.md",))]
    assert made[0].peers == ("a/0.md", "a/1.md", "a/2.md", "a/4.md")
    assert units(files, unchanged=tuple(files)) == ()


def test_a_long_document_is_cut_at_headings() -> None:
    section = "x" * 99 + "\n"
    text = "".join(f"# Part {number}\n\n" + section * 150 for number in range(8))
    made = units({"long.md": text})
    lines = text.split("\n")
    assert [unit.key for unit in made] == [f"long.md:{number}-of-{len(made)}" for number in range(1, len(made) + 1)]
    assert {unit.files for unit in made} == {("long.md",)}
    found = spans([unit.notes for unit in made])
    assert all(lines[first - 1].startswith("# Part") for first, _ in found)
    assert made[0].notes.startswith(f"This is part 1 of {len(made)} of long.md: work through its lines 1 to ")


LINES = {"empty": "", "heading": "# h", "short": "x" * 50, "long": "y" * 9_000, "fence": "```", "endless": "z" * 50_000}


@given(st.lists(st.sampled_from(sorted(LINES)), min_size=1, max_size=40))
def test_spans_cover_every_line_once_and_are_bounded(kinds: list[str]) -> None:
    lines = [LINES[kind] for kind in kinds]
    text = "\n".join(lines) + "\n"
    made = units({"a.md": text})
    found = spans([unit.notes for unit in made])
    if not found:
        assert len(text) <= SPAN_CHARACTERS or len(lines) == 1
        return
    assert [first for first, _ in found] == [1, *(last + 1 for _, last in found[:-1])]
    assert found[-1][1] == len(lines)
    for first, last in found:
        length = sum(len(line) + 1 for line in lines[first - 1 : last])
        assert length <= SPAN_CHARACTERS or first == last


@given(st.dictionaries(st.from_regex(r"[ab]/[0-9]{1,3}\.md", fullmatch=True), st.integers(0, 15_000), min_size=1))
def test_every_document_is_in_one_unit_with_a_key_of_its_own(sizes: dict[str, int]) -> None:
    made = units({path: "x" * size for path, size in sizes.items()})
    assert sorted(path for unit in made for path in unit.files) == sorted(sizes)
    assert len({unit.key for unit in made}) == len(made)
    assert all(sum(sizes[path] for path in unit.files) <= GROUP_CHARACTERS for unit in made)
    assert made == units({path: "x" * sizes[path] for path in sorted(sizes, reverse=True)})


def test_a_document_that_cannot_be_read_is_one_unit() -> None:
    assert [unit.key for unit in units({"a.pdf": "no pdf" * 10_000})] == ["a.pdf"]
