"""Notion over its API: what is read, what is not read again, and what a failure leaves as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ktx_cli.core.errors import CancelledError, ConfigError, SecretError, SourceError
from ktx_cli.documents.raw import Changes, Snapshot
from ktx_cli.documents.reader import read_document
from ktx_cli.sources.http import HttpAuthError, HttpStatusError
from ktx_cli.sources.notion import NotionConnection
from ktx_cli.sources.notion.source import NotionSource as Notion
from ktx_cli.sources.port import FetchContext, Projection
from tests.sources.projecting import overlay
from tests.sources.scripted_notion import (
    DATABASE,
    LATER,
    OLD,
    R1,
    R2,
    ROWS,
    A,
    B,
    C,
    FakeNotion,
    block,
    dashed,
    handbook,
)

NOW = 1_800_000_000.0


@pytest.fixture
def workspace(web_site: Any, reply: Any) -> FakeNotion:
    fake = handbook()

    def answers(asked: Any) -> Any:
        found = fake.answer(asked)
        return None if found is None else reply(found)

    web_site.answers = answers
    return fake


def entry(**fields: Any) -> NotionConnection:
    return NotionConnection.model_validate(
        {"driver": "notion", "auth_token": "env:TOKEN", "root_page_ids": [dashed(A)], **fields}
    )


Fetch = Callable[..., Snapshot]


@pytest.fixture
def fetch(web_site: Any, fetch_context: Callable[..., FetchContext]) -> Fetch:
    def run(last: Snapshot | None = None, **fields: Any) -> Snapshot:
        given = {"stopped": fields.pop("stopped", lambda: False)}
        if last is not None:
            given |= {"cursor": last.cursor, "previous": {path: raw.sha256 for path, raw in last.files.items()}}
        source = Notion(web_site.url, sleep=lambda seconds: None, clock=lambda: fields.pop("clock", NOW))
        web_site.asked.clear()
        return source.fetch(entry(**fields), fetch_context(**given))

    return run


def test_a_root_and_all_below_it_is_read(workspace: FakeNotion, fetch: Fetch, web_site: Any) -> None:
    found = fetch()
    pages = {f"pages/{page}.md" for page in (A, B, C, R1, R2)}
    assert set(found.files) == {f"data-sources/{ROWS}.md", *pages}
    assert list(found.files) == sorted(found.files)
    assert (found.complete, found.fetched, found.skipped) == (True, 6, ())
    assert {asked.headers["authorization"] for asked in web_site.asked} == {"Bearer tok-secret-value"}
    assert {asked.headers["notion-version"] for asked in web_site.asked} == {"2025-09-03"}


def test_a_page_is_a_document(workspace: FakeNotion, fetch: Fetch) -> None:
    found = fetch()
    page = read_document(found.files[f"pages/{R1}.md"])
    assert (page.title, page.url, page.parent) == ("Revenue", f"https://www.notion.so/{R1}", ROWS)
    assert page.markdown.strip() == "Net of refunds."
    assert page.properties == {"id": R1, "Status": "Live"}
    assert OLD not in found.files[f"pages/{R1}.md"].text()
    top = read_document(found.files[f"pages/{A}.md"])
    assert (top.parent, top.links) == (None, (f"https://www.notion.so/{B}", f"https://www.notion.so/{DATABASE}"))
    rows = read_document(found.files[f"data-sources/{ROWS}.md"])
    assert (rows.title, rows.parent) == ("Metrics", A)
    assert "| Status | select | Live, Draft |" in rows.markdown


def test_a_second_run_reads_no_block(workspace: FakeNotion, fetch: Fetch, web_site: Any) -> None:
    first = fetch()
    second = fetch(first)
    assert second.files == first.files
    assert (second.fetched, second.cursor, second.complete) == (0, first.cursor, True)
    assert not [path for path in web_site.paths() if path.endswith("/children")]


def test_a_second_run_reads_only_what_changed(workspace: FakeNotion, fetch: Fetch, web_site: Any) -> None:
    first = fetch()
    workspace.pages[R2]["last_edited_time"] = LATER
    workspace.blocks[R2] = [block("paragraph", "Shipped.")]
    second = fetch(first)
    assert [path for path in web_site.paths() if path.endswith("/children")] == [f"/v1/blocks/{R2}/children"]
    changed = [path for path in first.files if first.files[path] != second.files[path]]
    assert (changed, second.fetched) == ([f"pages/{R2}.md"], 1)


def test_an_edit_in_the_minute_of_the_fetch_is_not_missed(workspace: FakeNotion, fetch: Fetch) -> None:
    workspace.pages[C]["last_edited_time"] = "2027-01-15T08:00:00.000Z"  # the minute of NOW
    first = fetch()
    workspace.blocks[C] = [block("paragraph", "Edited within the same minute.")]
    second = fetch(first, clock=NOW + 3600)
    assert "same minute" in second.files[f"pages/{C}.md"].text()
    assert fetch(second, clock=NOW + 7200).fetched == 0


def test_a_page_that_is_gone_is_gone(workspace: FakeNotion, fetch: Fetch) -> None:
    first = fetch()
    workspace.blocks[B] = [block("paragraph", "Within 30 days.")]
    workspace.pages[B]["last_edited_time"] = LATER
    workspace.pages[R1]["in_trash"] = True
    second = fetch(first)
    assert set(first.files) - set(second.files) == {f"pages/{C}.md", f"pages/{R1}.md"}
    assert second.complete


def test_all_accessible_needs_no_root(workspace: FakeNotion, fetch: Fetch) -> None:
    found = fetch(crawl_mode="all_accessible", root_page_ids=[])
    assert len(found.files) == 6
    assert read_document(found.files[f"pages/{C}.md"]).parent == B


def test_a_page_in_a_block_belongs_to_the_page_of_the_block(workspace: FakeNotion, fetch: Fetch) -> None:
    column = "f" * 32
    workspace.pages[C]["parent"] = {"type": "block_id", "block_id": column}
    workspace_answer = workspace.answer

    def answer(asked: Any) -> Any:
        if asked.path == f"/v1/blocks/{column}":
            return {"parent": {"type": "page_id", "page_id": B}}
        return workspace_answer(asked)

    workspace.answer = answer  # type: ignore[method-assign]
    found = fetch(crawl_mode="all_accessible", root_page_ids=[])
    assert read_document(found.files[f"pages/{C}.md"]).parent == B


@pytest.mark.parametrize("limit", ["max_pages", "max_pages_per_run"])
def test_a_limit_leaves_the_rest_for_the_next_runs_and_deletes_nothing(
    limit: str, workspace: FakeNotion, fetch: Fetch
) -> None:
    first = fetch(**{limit: 2})
    assert (len(first.files), first.complete, first.fetched) == (2, False, 2)
    assert first.skipped[0].reason == "the limit of 2 pages per run was reached"
    second = fetch(first, max_pages=2)
    third = fetch(second, max_pages=2)
    assert (second.complete, third.complete, len(third.files)) == (False, True, 6)
    assert fetch(third, max_pages=2).fetched == 0


def test_a_limit_hides_no_change_from_the_next_run(workspace: FakeNotion, fetch: Fetch) -> None:
    first = fetch()
    for page in (A, B, C):
        workspace.pages[page]["last_edited_time"] = LATER
        workspace.add(page, block("paragraph", f"More of {page[:1]}."))
    second = fetch(first, max_pages=1)
    assert set(second.files) == set(first.files)
    third = fetch(fetch(second, max_pages=1), max_pages=1)
    assert all(f"More of {page[:1]}." in third.files[f"pages/{page}.md"].text() for page in (A, B, C))


def test_what_was_lost_from_the_store_is_read_again(
    workspace: FakeNotion, fetch: Fetch, fetch_context: Callable[..., FetchContext]
) -> None:
    first = fetch()
    for path, raw in first.files.items():
        if B in path:
            (fetch_context().layout.raw_store / raw.sha256[:2] / raw.sha256).unlink()
    second = fetch(first)
    assert (second.fetched, second.files) == (1, first.files)


def test_a_failure_in_the_middle_ends_the_fetch(workspace: FakeNotion, fetch: Fetch, web_site: Any, reply: Any) -> None:
    first = fetch()
    workspace.pages[B]["last_edited_time"] = LATER
    web_site.fail(f"/v1/blocks/{B}/children", *[reply({"message": "down"}, 500)] * 5)
    with pytest.raises(HttpStatusError, match=rf"Notion returned status 500 for GET /v1/blocks/{B}/children: down"):
        fetch(first)
    web_site.fail(f"/v1/blocks/{B}/children", *[reply({"results": []}, cut=5)] * 5)
    with pytest.raises(SourceError, match="cannot reach"):
        fetch(first)
    assert fetch(first).fetched == 1


def test_a_passing_failure_is_waited_for(workspace: FakeNotion, fetch: Fetch, web_site: Any, reply: Any) -> None:
    web_site.fail(f"/v1/pages/{B}", reply(status=429, headers={"Retry-After": "1"}), reply({"x": 1}, cut=3))
    assert fetch().fetched == 6


def test_a_page_that_is_not_shown_is_named(workspace: FakeNotion, fetch: Fetch, web_site: Any, reply: Any) -> None:
    web_site.fail(f"/v1/pages/{B}", reply({"message": "Could not find page"}, 404))
    found = fetch()
    assert [(each.what, each.retry) for each in found.skipped] == [(f"page {B}", False)]
    assert (found.complete, f"pages/{B}.md" in found.files) == (True, False)


def test_a_root_that_is_not_shown_deletes_nothing(workspace: FakeNotion, fetch: Fetch) -> None:
    found = fetch(root_page_ids=[A, "9" * 32])
    assert (found.complete, len(found.files)) == (False, 6)
    assert found.warnings[0].code == "root_not_seen"
    with pytest.raises(SourceError, match="cannot read any of the configured"):
        fetch(root_page_ids=["9" * 32, "no id"])


def test_credentials_that_are_refused(workspace: FakeNotion, fetch: Fetch, web_site: Any, reply: Any) -> None:
    web_site.answers = lambda asked: reply({"message": "API token is invalid."}, 401)
    with pytest.raises(HttpAuthError, match=r"rejected the credentials \(401\): API token is invalid"):
        fetch()
    with pytest.raises(SecretError, match=r"connections\.notes has no token"):
        fetch(auth_token=None)
    with pytest.raises(ConfigError, match="has no page to start from"):
        fetch(root_page_ids=[])


def test_a_run_that_is_asked_to_end_ends(workspace: FakeNotion, fetch: Fetch, web_site: Any) -> None:
    with pytest.raises(CancelledError):
        fetch(stopped=lambda: len(web_site.asked) > 4)


def test_a_page_of_too_many_blocks_is_cut_and_read_again_each_time(workspace: FakeNotion, fetch: Fetch) -> None:
    workspace.part = staticmethod(  # type: ignore[method-assign]
        lambda items, asked: {"results": items, "has_more": False, "next_cursor": None}
    )
    workspace.add(C, *(block("paragraph", f"line {number}") for number in range(2_100)))
    first = fetch()
    written = first.files[f"pages/{C}.md"].text()
    assert "line 1998" in written and "line 1999" not in written
    assert written.endswith("*The rest of the page was not read: it has more than 2,000 blocks.*\n")
    assert (first.complete, fetch(first).complete) == (False, False)


def test_nesting_is_bounded(workspace: FakeNotion, fetch: Fetch, web_site: Any) -> None:
    nested = block("toggle", "level 12")
    for level in range(11, 0, -1):
        nested = block("toggle", f"level {level}", children=[nested])
    workspace.blocks[C] = []
    workspace.add(C, nested)
    written = fetch().files[f"pages/{C}.md"].text()
    assert "level 10" in written and "level 11" not in written
    assert "nested more than 10 levels" in written


def test_lists_that_repeat_themselves_end(workspace: FakeNotion, fetch: Fetch, web_site: Any, reply: Any) -> None:
    circle = reply({"results": [], "has_more": True, "next_cursor": "0"})
    web_site.fail(f"/v1/blocks/{A}/children", circle, circle)
    with pytest.raises(SourceError, match="the same part of a list twice"):
        fetch()


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({}, "`results` is not a list"),
        ({"results": None}, "`results` is not a list"),
        ({"results": [{"type": "paragraph"}]}, "objects with an ID"),
        ({"results": [], "has_more": True, "next_cursor": None}, "only a part of a list"),
    ],
    ids=str,
)
def test_a_list_of_another_shape_deletes_nothing(
    workspace: FakeNotion, fetch: Fetch, web_site: Any, reply: Any, body: dict[str, Any], problem: str
) -> None:
    web_site.fail(f"/v1/blocks/{A}/children", reply(body))
    with pytest.raises(SourceError, match=problem):
        fetch()


def test_units_of_pages(workspace: FakeNotion, fetch: Fetch) -> None:
    found = fetch()
    source = Notion()
    changes = Changes(added=(f"pages/{R1}.md", f"pages/{C}.md"))
    units = source.units(None, found, changes, Projection())
    assert [(unit.key, unit.dependencies) for unit in units] == [
        (f"pages/{C}.md", (f"pages/{B}.md",)),
        (f"pages/{R1}.md", (f"data-sources/{ROWS}.md",)),
    ]
    assert source.project(None, found, overlay()).left == ("6 documents could be turned into wiki pages",)


def test_a_cursor_of_another_site_or_none_at_all_counts_for_nothing(workspace: FakeNotion, fetch: Fetch) -> None:
    first = fetch()
    stored = json.loads(first.cursor or "")
    for cursor in ("", "nonsense", "[]", '{"format": 99}', json.dumps({**stored, "site": "https://elsewhere.example"})):
        assert fetch(replace(first, cursor=cursor)).fetched == 6
