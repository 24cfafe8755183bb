"""Jira over its API: which issues are read, what is not read again, and how their texts become Markdown."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.core.errors import SecretError, SourceError
from ktx_cli.documents.raw import Changes, Snapshot
from ktx_cli.documents.reader import read_document
from ktx_cli.sources.http import HttpAuthError, HttpStatusError
from ktx_cli.sources.jira import JiraConnection
from ktx_cli.sources.jira.adf import MAX_DEPTH, adf_markdown
from ktx_cli.sources.jira.source import JiraSource, jql_of
from ktx_cli.sources.port import FetchContext, Projection
from tests.sources.scripted_jira import EPIC_FIELD, WORDS, FakeJira, replies
from tests.sources.web_site import Reply

Fetch = Callable[..., Snapshot]
DONE = 'project in ("DATA") AND (statusCategory = Done AND issuetype in standardIssueTypes()) ORDER BY key ASC'


@pytest.fixture(params=["cloud", "data center"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def jira(web_site: Any, kind: str) -> FakeJira:
    fake = FakeJira(is_cloud=kind == "cloud")
    fake.issue("10", "Revenue", issuetype={"name": "Epic"})
    parent: dict[str, Any] = {"parent": {"id": "10", "key": "DATA-10"}} if fake.is_cloud else {EPIC_FIELD: "DATA-10"}
    fake.issue("11", "Refunds", comments=["Within 30 days.", "No: within 60 days."], **parent)
    fake.issue("12", "Taxes")
    web_site.answers = replies(fake)
    return fake


@pytest.fixture
def fetch(web_site: Any, kind: str, fetch_context: Callable[..., FetchContext]) -> Fetch:
    def run(last: Snapshot | None = None, **fields: Any) -> Snapshot:
        given: dict[str, Any] = {}
        if last is not None:
            given = {"cursor": last.cursor, "previous": {path: raw.sha256 for path, raw in last.files.items()}}
        common = {"driver": "jira", "base_url": web_site.url, "api_token": "env:TOKEN", "projects": ["DATA"]}
        common |= {"email": "ktx@example.com"} if kind == "cloud" else {}
        web_site.asked.clear()
        entry = JiraConnection.model_validate({**common, **fields})
        return JiraSource(sleep=lambda seconds: None).fetch(entry, fetch_context(**given))

    return run


def read(web_site: Any) -> list[str]:
    return [path.rpartition("/")[2] for path in web_site.paths() if "/issue/" in path]


def test_finished_issues_are_read(jira: FakeJira, fetch: Fetch, web_site: Any) -> None:
    found = fetch()
    assert list(found.files) == [f"pages/{number}.md" for number in (10, 11, 12)]
    assert (found.complete, found.fetched, found.origin, set(jira.jql)) == (True, 3, "Jira, DATA", {DONE})
    sent = {asked.headers["authorization"] for asked in web_site.asked}
    basic = base64.b64encode(b"ktx@example.com:tok-secret-value").decode()
    assert sent == {f"Basic {basic}" if jira.is_cloud else "Bearer tok-secret-value"}


def test_an_issue_is_a_document(jira: FakeJira, fetch: Fetch, web_site: Any) -> None:
    jira.issues["11"]["fields"]["issuelinks"] = [
        {
            "type": {"inward": "is blocked by", "outward": "blocks"},
            "outwardIssue": {"key": "OPS-1", "fields": {"summary": "Tax"}},
        },
        {"type": {"inward": "is blocked by", "outward": "blocks"}, "inwardIssue": {"key": "OPS-2"}},
    ]
    issue = read_document(fetch().files["pages/11.md"])
    assert (issue.title, issue.parent, issue.url) == ("DATA-11 Refunds", "10", f"{web_site.url}/browse/DATA-11")
    assert issue.markdown.strip() == (
        f"{WORDS.strip()}\n\n## Links\n\n- blocks OPS-1: Tax\n- is blocked by OPS-2\n\n"
        "## Comments\n\n### 2026-03-01\n\nWithin 30 days.\n\n### 2026-03-02\n\nNo: within 60 days."
    )
    assert issue.properties == {
        "id": "11", "date": "2026-04-30", "key": "DATA-11", "project": "DATA", "epic": "DATA-10", "type": "Story",
        "status": "Done", "resolution": "Done", "components": ["Billing"], "labels": ["metrics"],
    }  # fmt: skip
    assert "Ada" not in fetch().files["pages/11.md"].text()


def test_a_second_run_reads_only_what_changed(jira: FakeJira, fetch: Fetch, web_site: Any) -> None:
    first = fetch()
    second = fetch(first)
    assert (read(web_site), second.files, second.cursor) == ([], first.files, first.cursor)
    assert len(web_site.asked) == 4, "the account, the project, and two parts of the list"
    jira.issue("12", "Taxes", "Never. " * 30)
    del jira.issues["10"]
    third = fetch(second)
    assert (read(web_site), third.complete, third.fetched) == (["12"], True, 1)
    assert set(second.files) - set(third.files) == {"pages/10.md"}


def test_a_failure_in_the_middle_ends_the_fetch(jira: FakeJira, fetch: Fetch, web_site: Any) -> None:
    first = fetch()
    jira.issue("11", "Refunds", WORDS * 2)
    path = f"/rest/api/{3 if jira.is_cloud else 2}/issue/11"
    web_site.fail(path, *[Reply({"errorMessages": ["down"]}, 500)] * 5)
    with pytest.raises(HttpStatusError, match=r"status 500 for GET /rest/api/\d/issue/11: down"):
        fetch(first)
    web_site.fail(path, *[Reply({"id": "11"}, cut=3)] * 5)
    with pytest.raises(SourceError, match="cannot reach"):
        fetch(first)
    web_site.fail(path, Reply({}, 429, {"Retry-After": "2"}))
    assert fetch(first).fetched == 1


def test_half_a_list_deletes_nothing(jira: FakeJira, fetch: Fetch, web_site: Any) -> None:
    path = "/rest/api/3/search/jql" if jira.is_cloud else "/rest/api/2/search"
    half: dict[str, Any] = {"issues": [], "isLast": False} if jira.is_cloud else {"issues": [], "total": 3}
    web_site.fail(path, Reply(half))
    with pytest.raises(SourceError, match="only a part of the list of issues"):
        fetch()
    if not jira.is_cloud:
        answers = web_site.answers

        def moving(asked: Any) -> Reply | None:
            reply: Reply | None = answers(asked)
            if asked.path == path and asked.body["startAt"]:
                assert reply is not None
                reply.body["issues"] = [{"id": "10", "key": "DATA-10", "fields": {"updated": "2026"}}]
            return reply

        web_site.answers = moving
        found = fetch()
        assert (found.complete, found.skipped[0].reason) == (False, "issues changed while Jira listed them")


@pytest.mark.parametrize(
    "body",
    [
        {}, {"warningMessages": ["The value is unknown."]}, {"issues": None}, {"issues": {}, "total": 0},
        {"issues": [None], "total": 1}, {"issues": [{"key": "DATA-1"}], "total": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_list_of_another_shape_deletes_nothing(jira: FakeJira, fetch: Fetch, web_site: Any, body: Any) -> None:
    first = fetch()
    web_site.fail("/rest/api/3/search/jql" if jira.is_cloud else "/rest/api/2/search", Reply(body))
    with pytest.raises(SourceError, match="`issues` is not a list of objects with an ID"):
        fetch(first)


@pytest.mark.parametrize("total", [None, "0", {}])
def test_a_data_center_must_count(jira: FakeJira, fetch: Fetch, web_site: Any, total: Any) -> None:
    first = fetch()
    web_site.fail("/rest/api/2/search", Reply({"issues": [], "total": total}))
    if not jira.is_cloud:
        with pytest.raises(SourceError, match="only a part of the list of issues"):
            fetch(first)


def test_page_tokens_that_go_round_end(jira: FakeJira, fetch: Fetch, web_site: Any) -> None:
    path = "/rest/api/3/search/jql" if jira.is_cloud else "/rest/api/2/search"
    again = [{"id": "10", "key": "DATA-10", "fields": {"updated": "2026"}}]
    circle = [
        Reply({"issues": again, "total": 10**9, "isLast": False, "nextPageToken": token}) for token in "ABABABABABAB"
    ]
    web_site.fail(path, *circle)
    if jira.is_cloud:
        with pytest.raises(SourceError, match="Jira returned the same part of a list twice"):
            fetch()
        assert web_site.paths().count(path) == 3


def test_an_account_that_is_nobody(jira: FakeJira, fetch: Fetch, web_site: Any) -> None:
    web_site.fail(f"/rest/api/{3 if jira.is_cloud else 2}/myself", Reply({"message": "Log in"}, 401))
    with pytest.raises(HttpAuthError) as error:
        fetch()
    assert error.value.message == "Jira rejected the credentials (401): Log in"
    assert "connections.notes.api_token" in (error.value.hint or "")
    with pytest.raises(SecretError, match="has no API token"):
        fetch(api_token=None)


def test_a_limit_leaves_the_rest_for_the_next_runs(jira: FakeJira, fetch: Fetch) -> None:
    first = fetch(max_pages=2)
    assert (first.complete, len(first.files), first.skipped[0].what) == (False, 2, "1 more issue")
    second = fetch(first, max_pages=2)
    assert (second.complete, len(second.files), second.fetched) == (True, 3, 1)


def test_noise_is_left_out(jira: FakeJira, fetch: Fetch, web_site: Any) -> None:
    jira.issue("20", "Twice", resolution={"name": "Duplicate"})
    jira.issue("21", "Secret", security={"name": "Board only"})
    jira.issue("22", "Deploy", "Done.")
    jira.issue(
        "23",
        "Discussed",
        "See below.",
        comments=[
            {"text": "Deployed to production by the pipeline." * 9, "author": {"accountType": "app"}},
            {"text": "Only for the board. " * 20, "visibility": {"type": "role", "value": "Board"}},
            "Orders of employees do not count, because they are paid by the company; decided by finance for 2026.",
        ]
        if jira.is_cloud
        else ["Orders of employees do not count, because they are paid by the company; decided in 2026."],
    )
    found = fetch()
    assert [*found.files][3:] == ["pages/23.md"] and found.complete
    text = found.files["pages/23.md"].text()
    assert "employees" in text and "pipeline" not in text and "board" not in text
    fetch(found)
    assert read(web_site) == [], "an issue without knowledge is not read again"


def test_only_the_latest_comments_are_read(jira: FakeJira, fetch: Fetch, web_site: Any) -> None:
    jira.issue("12", "Taxes", comments=[f"Opinion {number}." for number in range(9)])
    text = fetch(max_comments=2).files["pages/12.md"].text()
    assert "Opinion 6" not in text and text.index("Opinion 7") < text.index("Opinion 8")
    jira.embedded = 3
    assert fetch(max_comments=2).files["pages/12.md"].text() == text
    assert f"/rest/api/{3 if jira.is_cloud else 2}/issue/12/comment" in web_site.paths()
    assert "Comments" not in fetch(max_comments=0).files["pages/12.md"].text()


def test_a_project_that_is_not_shown_deletes_nothing(jira: FakeJira, fetch: Fetch) -> None:
    found = fetch(projects=["DATA", "SECRET"])
    assert (found.complete, [warning.code for warning in found.warnings]) == (False, ["project_not_seen"])
    assert jira.jql[0] == DONE
    with pytest.raises(SourceError, match="cannot read any Jira project of SECRET"):
        fetch(projects=["SECRET"])


def test_an_issue_that_may_not_be_read_is_named(jira: FakeJira, fetch: Fetch, web_site: Any) -> None:
    web_site.fail(f"/rest/api/{3 if jira.is_cloud else 2}/issue/11", Reply({}, 403))
    found = fetch()
    assert ([each.what for each in found.skipped], found.complete) == (["issue DATA-11"], True)


def test_units_of_issues(jira: FakeJira, fetch: Fetch) -> None:
    parent: dict[str, Any] = {"parent": {"id": "10", "key": "DATA-10"}} if jira.is_cloud else {EPIC_FIELD: "DATA-10"}
    for number in range(30, 36):
        jira.issue(str(number), f"Small {number}", **parent)
    found = fetch()
    units = JiraSource().units(None, found, Changes(added=tuple(found.files)), Projection())
    small = tuple(f"pages/{number}.md" for number in (11, *range(30, 36)))
    assert [(unit.files, unit.dependencies) for unit in units] == [
        (("pages/10.md",), ()),
        (small, ("pages/10.md",)),
        (("pages/12.md",), ()),
    ]
    assert units[1].label == "7 documents of DATA-10"


@pytest.mark.table(
    ("projects", "jql", "query"),
    [
        (["DATA", 'X"Y'], None, DONE.replace('"DATA"', '"DATA", "X\\"Y"')),
        ([], "labels = metric ORDER  BY created DESC", "(labels = metric) ORDER BY key ASC"),
        ([], 'summary ~ "order by" or a = b', '(summary ~ "order by" or a = b) ORDER BY key ASC'),
        (["A"], "order by rank", 'project in ("A") ORDER BY key ASC'),
    ],
)
def test_queries(projects: list[str], jql: str | None, query: str) -> None:
    assert jql_of(projects, jql) == query


def node(kind: str, *content: Any, **attributes: Any) -> dict[str, Any]:
    return {"type": kind, "content": list(content), "attrs": attributes}


def words(text: str, *marks: Any) -> dict[str, Any]:
    return {
        "type": "text",
        "text": text,
        "marks": [each if isinstance(each, dict) else {"type": each} for each in marks],
    }


def item(text: str, kind: str = "listItem", **attributes: Any) -> dict[str, Any]:
    inner = words(text) if kind != "listItem" else node("paragraph", words(text))
    return node(kind, inner, **attributes)


def cell(text: str, kind: str = "tableCell") -> dict[str, Any]:
    return node(kind, node("paragraph", words(text)))


LINK = {"type": "link", "attrs": {"href": "https://example.com"}}


@pytest.mark.table(
    ("content", "markdown"),
    [
        ([], ""),
        ([node("heading", words("Rules"), level=2), node("paragraph", words("Net.", "strong"))],
         "## Rules\n\n**Net.**"),
        ([node("paragraph", words("a "), words("here", LINK, "em"), {"type": "hardBreak"}, words("x", "code"))],
         "a [*here*](https://example.com)  \n`x`"),
        ([node("bulletList", item("one"), item("two"))], "- one\n- two"),
        ([node("orderedList", item("one"), item("two"))], "1. one\n2. two"),
        ([node("taskList", item("Ship", "taskItem", state="DONE"), item("Sell", "taskItem", state="TODO"))],
         "- [x] Ship\n- [ ] Sell"),
        ([node("decisionList", item("Net of tax", "decisionItem", state="DECIDED"))], "- Decision: Net of tax"),
        ([node("codeBlock", words("select 1 -- a < b\nfrom t"), language="sql")],
         "```sql\nselect 1 -- a < b\nfrom t\n```"),
        ([node("panel", node("paragraph", words("Since May.")), panelType="warning")], "**Warning:**\n\nSince May."),
        ([node("expand", node("paragraph", words("More.")), title="Details")], "**Details**\n\nMore."),
        ([node("table", node("tableRow", cell("a", "tableHeader"), cell("b", "tableHeader")),
               node("tableRow", cell("1"), cell("x|y")))], "| a | b |\n| --- | --- |\n| 1 | x\\|y |"),
        ([node("paragraph", node("mention", text="@Ada Lovelace", id="5"), words(" since "),
               node("date", timestamp="1767225600000"), node("status", text="DONE"))], "@user since 2026-01-01DONE"),
        ([node("paragraph", node("inlineCard", url="https://example.com/x"))], "<https://example.com/x>"),
        ([node("mediaSingle", node("media", alt="chart.png"))], "chart.png"),
        ([node("unknown", node("paragraph", words("Kept.")))], "Kept."),
        ([{"type": "rule"}, "x", None, node("date", timestamp="soon")], "---"),
        ([node("paragraph", words("<script>alert(1)</script> & <b>"))], "<script>alert(1)</script> & <b>"),
    ],
)  # fmt: skip
def test_the_document_format_becomes_markdown(content: list[Any], markdown: str) -> None:
    assert adf_markdown({"type": "doc", "version": 1, "content": content}) == markdown


def test_a_document_of_any_depth_is_read() -> None:
    document = node("paragraph", words("deep"))
    for _ in range(MAX_DEPTH * 20):
        document = node("blockquote", document)
    assert adf_markdown(document) == ""
    assert adf_markdown("text") == adf_markdown(None) == ""


def test_labels_and_a_date_narrow_the_query() -> None:
    assert jql_of(["DOCS"], None, labels=["kb", 'a"b'], since="2024-01-01") == (
        'project in ("DOCS") AND labels in ("kb", "a\\"b") AND updated >= "2024-01-01" ORDER BY key ASC'
    )
    assert jql_of([], "status = Open ORDER BY rank", labels=["kb"]) == (
        'labels in ("kb") AND (status = Open) ORDER BY key ASC'
    )
