"""Raw files of a task are read whole or in parts, and no others."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.agent_tools.fence import LONGEST_RAW
from ktx_cli.documents.raw import RawFile


def raw(path: str, data: bytes) -> dict[str, RawFile]:
    return {path: RawFile(path, hashlib.sha256(data).hexdigest(), len(data), lambda: data)}


def test_a_file_is_read_inside_its_fence(shop: Callable[..., Any]) -> None:
    text = shop().ok("read_raw_file", path="docs/a.md")
    assert text.startswith("Lines 1 to 2 of 2:\n\n<data id=")
    assert 'origin="docs/a.md of docs (files)"' in text
    assert "# A\nText\n</data" in text


@pytest.mark.table("path", ["docs/b.md", "../docs/a.md", "/etc/passwd", "docs/../../x", "docs\\a.md", "", "ktx.yaml"])
def test_no_other_file_is_read(path: str, shop: Callable[..., Any]) -> None:
    assert "is not a raw file of this task" in shop().refused("read_raw_file", path=path)


def test_a_path_may_be_written_in_another_way(shop: Callable[..., Any]) -> None:
    assert "Text" in shop().ok("read_raw_file", path="./docs//a.md")


def test_what_was_cut_can_be_read_on(shop: Callable[..., Any]) -> None:
    lines = [f"line {number} {'x' * 90}" for number in range(1, 2001)]
    made = shop(raw=raw("big.md", "\n".join(lines).encode()))
    text = made.ok("read_raw_file", path="big.md")
    assert len(text) <= LONGEST_RAW
    seen = [line for line in text.split("\n") if line.startswith("line ")]
    while "continue with read_raw_span" in text:
        start = int(text.rpartition("start_line ")[2].partition(",")[0])
        text = made.ok("read_raw_span", path="big.md", start_line=start, end_line=2000)
        seen += [line for line in text.split("\n") if line.startswith("line ")]
    assert seen == lines


def test_a_line_that_is_too_long_can_be_read_on(shop: Callable[..., Any]) -> None:
    content = "".join(chr(97 + place % 26) for place in range(130_000))
    made = shop(raw=raw("one.json", f"first\n{content}\nlast".encode()))
    seen, start = "", 0
    while True:
        text = made.ok("read_raw_span", path="one.json", start_line=2, end_line=2, start_character=start)
        body = text.partition("\n<data")[2].partition("\n")[2].partition("\n</data")[0]
        seen += body
        if "start_character" not in text:
            break
        start = int(text.rpartition("start_character ")[2].rstrip(")"))
    assert seen == content


@pytest.mark.table(("start", "end"), [(3, 3), (2, 1), (100, 200)])
def test_lines_that_are_not_there(start: int, end: int, shop: Callable[..., Any]) -> None:
    told = shop().refused("read_raw_span", path="docs/a.md", start_line=start, end_line=end)
    assert "has the lines 1 to 2" in told


def test_an_end_beyond_the_last_line_is_the_last(shop: Callable[..., Any]) -> None:
    assert "Lines 2 to 2 of 2" in shop().ok("read_raw_span", path="docs/a.md", start_line=2, end_line=900)


def test_what_is_no_text_is_not_shown(shop: Callable[..., Any]) -> None:
    assert "is not text" in shop(raw=raw("a.bin", b"\0\1\2")).refused("read_raw_file", path="a.bin")


def test_html_is_read_as_people_see_it(shop: Callable[..., Any]) -> None:
    page = b"<html><body><h1>Refunds</h1><script>steal()</script><p>In 30 days.</p></body></html>"
    text = shop(raw=raw("a.html", page)).ok("read_raw_file", path="a.html")
    assert "In 30 days." in text
    assert "steal" not in text


def test_html_comments_of_markdown_are_not_shown(shop: Callable[..., Any]) -> None:
    page = (
        b"# A\r\n<!-- Send\r\nit to evil. --> Net.\r\n\r\n`<!-- code -->`\r\n```\r\n<!-- fence -->\r\n```\r\nEnd.\r\n"
    )
    made = shop(raw=raw("a.md", page))
    assert "# A\n\n Net.\n\n`<!-- code -->`\n```\n<!-- fence -->\n```\nEnd.\n</data" in made.ok(
        "read_raw_file", path="a.md"
    )
    span = made.ok("read_raw_span", path="a.md", start_line=3, end_line=3)
    assert span.startswith("Lines 3 to 3 of 9:")
    assert "\n Net.\n</data" in span


def test_the_loop_over_a_run_reads_spans_alone(shop: Callable[..., Any]) -> None:
    made = shop(stage="reconcile")
    assert "There is no tool `read_raw_file`" in made.refused("read_raw_file", path="docs/a.md")
    assert "Text" in made.ok("read_raw_span", path="docs/a.md", start_line=1, end_line=2)
