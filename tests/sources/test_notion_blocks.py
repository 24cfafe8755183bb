"""Blocks and properties of Notion as Markdown and front matter, without what changes by itself."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.documents.markdown import front_matter
from ktx_cli.sources.notion.pages import Block, Tree, markdown, page_file, rich_text
from ktx_cli.sources.registry import source_for

ID = "a" * 32


def words(text: str, **marks: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "plain_text": text, "annotations": marks}]


def block(kind: str, text: str = "", children: list[Block] | None = None, **content: Any) -> Block:
    return Block(kind, {"rich_text": words(text), **content}, ID, children or [])


@pytest.mark.table(
    ("blocks", "expected"),
    [
        ([], ""),
        ([block("paragraph", "a"), block("paragraph"), block("paragraph", "b")], "a\n\nb"),
        ([block("heading_2", "Two\nlines", [block("paragraph", "in")])], "## Two lines\n\nin"),
        (
            [block("bulleted_list_item", "a", [block("bulleted_list_item", "b")]), block("bulleted_list_item", "c")],
            "- a\n  - b\n- c",
        ),
        ([block("numbered_list_item", "a", [block("paragraph", "b")])], "1. a\n   b"),
        ([block("to_do", "a", checked=True), block("to_do", "b")], "- [x] a\n- [ ] b"),
        ([block("quote", "a\nb", [block("paragraph", "c")])], "> a\n> b\n>\n> c"),
        ([block("code", "select '```'", language="sql")], "````sql\nselect '```'\n````"),
        ([block("code", "x", language="plain text")], "```\nx\n```"),
        ([block("divider")], "---"),
        ([Block("equation", {"expression": "x^2"})], "$$\nx^2\n$$"),
        ([Block("image", {"type": "external", "external": {"url": "https://e.com/a.png"}})], "[image](https://e.com/a.png)"),
        ([Block("file", {"type": "file", "name": "a.xlsx", "file": {"url": "https://s3/signed?x=1"}})], "[a.xlsx]"),
        ([Block("bookmark", {"url": "https://e.com"})], "[https://e.com](https://e.com)"),
        ([Block("link_to_page", {"type": "page_id", "page_id": ID})], f"[Page](https://www.notion.so/{ID})"),
        ([Block("child_page", {"title": "T"}, ID)], f"[T](https://www.notion.so/{ID})"),
        (
            [Block("table", {}, "", [Block("table_row", {"cells": [words("a|b"), words("c")]}),
                                     Block("table_row", {"cells": [words("1")]})])],
            "| a\\|b | c |\n| --- | --- |\n| 1 |  |",
        ),
        ([Block("column_list", {}, "", [Block("column", {}, "", [block("paragraph", "in")])])], "in"),
        ([Block("unsupported", {}), Block("table_of_contents", {})], ""),
    ],
)  # fmt: skip
def test_blocks(blocks: list[Block], expected: str) -> None:
    assert markdown(blocks) == expected


@pytest.mark.table(
    ("pieces", "expected"),
    [
        (None, ""),
        ("no list", ""),
        (words(" bold ", bold=True), " **bold** "),
        (words("x", code=True, italic=True), "*`x`*"),
        (words("  ", bold=True), "  "),
        ([{"type": "equation", "plain_text": "x"}], "$x$"),
        ([{"type": "mention", "plain_text": "P", "href": f"/{ID}"}], f"[P](https://www.notion.so/{ID})"),
        ([{"type": "text", "plain_text": "t", "href": "https://e.com"}, 5], "[t](https://e.com)"),
    ],
)
def test_rich_text(pieces: Any, expected: str) -> None:
    assert rich_text(pieces) == expected


@pytest.mark.table(
    ("value", "expected"),
    [
        ({"type": "number", "number": 0}, 0),
        ({"type": "checkbox", "checkbox": False}, False),
        ({"type": "rich_text", "rich_text": words("a")}, "a"),
        ({"type": "select", "select": {"name": "Live"}}, "Live"),
        ({"type": "multi_select", "multi_select": [{"name": "a"}, {"name": "b"}]}, ["a", "b"]),
        ({"type": "date", "date": {"start": "2026-01-01", "end": "2026-02-01"}}, "2026-01-01 to 2026-02-01"),
        ({"type": "people", "people": [{"object": "user", "type": "person", "person": {}, "name": "Ada"}]}, ["Ada"]),
        ({"type": "relation", "relation": [{"id": ID}]}, [ID]),
        ({"type": "files", "files": [{"type": "file", "name": "a.pdf", "file": {"url": "https://signed"}}]}, ["a.pdf"]),
        ({"type": "formula", "formula": {"type": "number", "number": 3}}, 3),
        ({"type": "rollup", "rollup": {"type": "array", "array": [{"type": "number", "number": 3}]}}, [3]),
        ({"type": "unique_id", "unique_id": {"prefix": "T", "number": 7}}, "T-7"),
        ({"type": "url", "url": "https://e.com"}, "https://e.com"),
        ({"type": "last_edited_time", "last_edited_time": "2026-01-01"}, None),
        ({"type": "last_edited_by", "last_edited_by": {"name": "Ada"}}, None),
        ({"type": "select", "select": None}, None),
    ],
)
def test_properties(value: Any, expected: Any) -> None:
    title = {"type": "title", "title": words("T")}
    page = {"id": ID, "properties": {"Name": title, "Value": value}, "last_edited_time": "2026-09-09"}
    written = page_file(page, "", Tree())
    front, _ = front_matter(written.decode())
    assert front.get("properties", {}).get("Value") == expected
    assert b"2026-09" not in written and b"signed" not in written


def test_the_registry_finds_the_sources_of_documents() -> None:
    assert {source_for(driver).kind for driver in ("notion", "confluence", "documents")} == {
        "notion", "confluence", "files",
    }  # fmt: skip
    assert all(source_for(driver).documents for driver in ("notion", "confluence", "documents"))
