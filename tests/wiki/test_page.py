"""Pages are read and written without losing a byte, and changed only where that was asked for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ktx_cli.core.diagnostics import Diagnostic
from ktx_cli.core.errors import ConfigError, UsageError
from ktx_cli.wiki.page import FIELDS, Page, body_line, changed, field_line, new_page, parse, render

TYPESCRIPT = """\
---
summary: "Revenue: what counts, and when"
tags:
  - finance
  - revenue
refs:
  - net-revenue
sl_refs:
  - warehouse/orders.revenue
usage_mode: auto
sort_order: 0
tables:
  - shop.public.orders
representative_sql: |-
  SELECT sum(amount)
  FROM orders
  WHERE status = 'paid'
usage:
  executions: 1204
  distinct_users: 7
  first_seen: 2026-01-02T00:00:00.000Z
  last_seen: "2026-03-01"
  p50_runtime_ms: 120.5
  p95_runtime_ms: 900
  error_rate: 0
fingerprints:
  - 4f2a9c
stale_since: 2026-03-04T05:06:07.000Z
owner: {team: finance, since: 2024}   # somebody's own
---

# Revenue

Paid orders only, see [[net-revenue]].
"""
"""In the forms the TypeScript ktx writes, with a field and a comment it does not know."""

texts = st.text(st.characters(exclude_categories=["Cs"]))
lines = st.text(st.characters(exclude_categories=["Cs", "Cc"]))
values: st.SearchStrategy[Any] = st.one_of(
    lines, st.lists(lines, max_size=4), st.integers(), st.booleans(), st.dictionaries(lines, lines, max_size=3)
)
fields = st.dictionaries(st.one_of(st.sampled_from(list(FIELDS)), lines), values, max_size=8)


def read(text: str, key: str = "revenue") -> Page:
    page = parse("global", key, text.encode())
    assert isinstance(page, Page), page
    return page


@given(fields, texts)
def test_a_page_is_what_its_file_says(facts: dict[str, Any], body: str) -> None:
    page = new_page("revenue", facts, body)
    assert parse("global", "revenue", render(page)) == page
    assert dict(page.fields) == facts
    assert page.body.strip() == body.strip()


pieces = st.sampled_from(
    ["---", "---\n", "--- \r\n", "a: b\n", "a: [\n", "\n", "\r\n", " ", "\ufeff", "x", "- y\n", "# c\n"]
)


@given(st.one_of(texts, st.lists(pieces, max_size=12).map("".join)))
def test_any_text_comes_back(text: str) -> None:
    page = parse("global", "revenue", text.encode())
    assert not isinstance(page, Page) or render(page) == text.encode()


@given(st.binary())
def test_no_bytes_raise(content: bytes) -> None:
    found = parse("user/ada", "x", content)
    assert found.path == "wiki/user/ada/x.md"


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_the_fields_of_a_page_of_the_typescript_ktx(start: str, ending: str) -> None:
    text = start + TYPESCRIPT.replace("\n", ending)
    page = read(text)
    assert render(page) == text.encode()
    assert page.summary == "Revenue: what counts, and when"
    assert (page.tags, page.refs, page.sl_refs) == (
        ("finance", "revenue"),
        ("net-revenue",),
        ("warehouse/orders.revenue",),
    )
    assert page.is_stale
    assert page.fields["usage"]["error_rate"] == 0
    assert page.fields["representative_sql"].startswith("SELECT sum(amount)\nFROM orders")
    assert page.fields["owner"] == {"team": "finance", "since": 2024}
    assert page.body.startswith("# Revenue")


def test_a_change_leaves_the_rest_as_it_was() -> None:
    page = changed(read(TYPESCRIPT), {"tags": ["finance", "money"], "summary": "New."}, "Changed.")
    expected = TYPESCRIPT.replace("  - revenue\n", "  - money\n", 1)
    expected = expected.replace('"Revenue: what counts, and when"', "New.")
    assert page.text == expected[: expected.index("# Revenue")] + "Changed.\n"
    assert read(page.text) == page


def test_a_field_that_is_taken_away_and_one_that_comes() -> None:
    page = changed(read(TYPESCRIPT), {"stale_since": None, "intent": "How much?", "archived_since": None})
    expected = TYPESCRIPT.replace("stale_since: 2026-03-04T05:06:07.000Z\n", "")
    expected = expected.replace("# somebody's own\n", "# somebody's own\nintent: How much?\n")
    assert page.text == expected
    assert not page.is_stale


def test_the_ends_of_lines_stay() -> None:
    page = changed(read(TYPESCRIPT.replace("\n", "\r\n")), {"sort_order": 2}, "One.\nTwo.")
    assert "\n" not in page.text.replace("\r\n", "")
    assert page.body == "One.\r\nTwo.\r\n"
    assert page.fields["sort_order"] == 2


@given(fields, texts, fields, st.none() | texts)
def test_changes_are_what_the_file_then_says(
    facts: dict[str, Any], body: str, others: dict[str, Any], text: str | None
) -> None:
    before = new_page("revenue", facts, body)
    try:
        page = changed(before, others, text)
    except ConfigError:
        assume(False)
    assert parse("global", "revenue", render(page)) == page
    assert dict(page.fields) == {**facts, **others}
    assert page.body.strip() == (body if text is None else text).strip()


def test_a_new_page_has_known_fields_in_their_order_and_none_that_is_none() -> None:
    page = new_page("a", {"owner": "ada", "tags": ["x"], "summary": "S.", "intent": None}, "\n\nText.\n\n")
    assert page.text == "---\nsummary: S.\ntags:\n  - x\nowner: ada\n---\n\nText.\n"


def test_a_text_without_front_matter_is_a_page_and_can_get_fields() -> None:
    page = read("# Notes\n\nText.\n")
    assert (dict(page.fields), page.summary, page.tags) == ({}, "", ())
    assert changed(page, {"summary": "S."}).text == "---\nsummary: S.\n---\n\n# Notes\n\nText.\n"
    blank = changed(read("\n \nText.\n"), {"summary": "S."})
    assert read(blank.text) == blank
    ruled = changed(page, body="---\nText.\n")
    assert read(ruled.text) == ruled
    assert ruled.body == "---\nText.\n"


@pytest.mark.table(
    ("content", "line", "message"),
    [
        (b"---\nsummary: a\ntags: [b\n---\nx\n", 4, "cannot read"),
        (b"---\nsummary: a\nsummary: b\n---\nx\n", 3, "cannot read"),
        (b"---\n- a\n---\nx\n", 2, "not a mapping"),
        (b"---\nsummary: a\n\nx\n", 1, "not closed"),
        (b"ab\ncd\xff\n", 2, "not UTF-8"),
    ],
)
def test_what_is_wrong_with_front_matter_has_a_line(content: bytes, line: int, message: str) -> None:
    found = parse("global", "a", content)
    assert isinstance(found, Diagnostic)
    assert (found.path, found.line, found.code) == ("wiki/global/a.md", line, "front_matter")
    assert message in found.message
    assert "wiki/global/a.md" not in found.message
    assert found.hint


def test_lines_of_fields_and_body() -> None:
    page = read(TYPESCRIPT)
    text = TYPESCRIPT.splitlines()
    assert text[body_line(page) - 1] == "# Revenue"
    assert text[field_line(page, "sl_refs", 0) - 1] == "  - warehouse/orders.revenue"
    assert field_line(page, "nothing") == 1
    assert field_line(read("Text.\n"), "summary") == 1


def test_half_a_character_is_refused() -> None:
    for make in (lambda: new_page("a", {"summary": "\ud800"}, "x"), lambda: new_page("a", {}, "\udc00")):
        with pytest.raises(UsageError):
            make()


def test_lists_may_be_a_single_text() -> None:
    page = read("---\ntags: finance\nrefs: [a, 3, '']\n---\n")
    assert (page.tags, page.refs) == (("finance",), ("a",))


def test_questions_are_kept_byte_for_byte_and_the_intent_is_one_of_them() -> None:
    text = "---\nquestions: [  How much? ]  # people's\nintent: Why?\nsynonyms: sales\n---\n\nBody.\n"
    page = parse("global", "a", text.encode())
    assert isinstance(page, Page)
    assert (page.questions, page.synonyms) == (("How much?", "Why?"), ("sales",))
    assert changed(page, {"summary": "S."}).text.startswith(
        "---\nquestions: [  How much? ]  # people's\nintent: Why?\n"
    )
