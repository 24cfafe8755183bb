"""A Jira for tests: Jira Cloud (v3, page tokens) and Jira Data Center (v2, offsets), on the scripted web site."""

from __future__ import annotations

from typing import Any

from tests.sources.web_site import Asked, Reply

EPIC_FIELD = "customfield_10008"
WORDS = "An order counts as revenue on the day on which it is paid, and refunds reduce the day of the order. "


def adf(*texts: str) -> dict[str, Any]:
    """Return a document with paragraphs."""
    content = [{"type": "paragraph", "content": [{"type": "text", "text": text}]} for text in texts]
    return {"type": "doc", "version": 1, "content": content}


class FakeJira:
    """A site with two projects; lists come in parts of two. `jql`: the queries that were asked."""

    def __init__(self, *, is_cloud: bool = True) -> None:
        self.is_cloud = is_cloud
        self.projects = {"DATA", "OPS"}
        self.issues: dict[str, dict[str, Any]] = {}
        self.jql: list[str] = []
        self.embedded = 100

    def issue(self, id: str, summary: str, text: str = WORDS, *, key: str = "", **fields: Any) -> None:
        edition = int(self.issues[id]["fields"]["updated"][5:7]) + 1 if id in self.issues else 1
        comments = fields.pop("comments", ())
        common = {
            "summary": summary, "description": adf(text) if self.is_cloud else text, "status": {"name": "Done"},
            "updated": f"2026-{edition:02}-01T10:00:00.000+0200", "resolution": {"name": "Done"}, "labels": ["metrics"],
            "resolutiondate": "2026-04-30T09:00:00.000+0200", "issuetype": {"name": "Story"}, "issuelinks": [],
            "components": [{"name": "Billing"}], "fixVersions": [], "security": None,
        }  # fmt: skip
        made = [self.comment(number, each) for number, each in enumerate(comments)]
        self.issues[id] = {"id": id, "key": key or f"DATA-{id}", "fields": {**common, **fields}, "comments": made}

    def comment(self, number: int, given: Any) -> dict[str, Any]:
        fields = given if isinstance(given, dict) else {"text": given}
        text = fields.pop("text")
        created = f"2026-03-{number + 1:02}T08:00:00.000+0200"
        author = {"accountType": "atlassian", "displayName": "Ada"}
        return {"id": str(900 + number), "created": created, "author": author, "body": adf(text)} | fields

    def answer(self, asked: Asked) -> Any:
        version = "3" if self.is_cloud else "2"
        assert asked.path.startswith(f"/rest/api/{version}/"), asked.path
        parts = asked.path.removeprefix(f"/rest/api/{version}/").split("/")
        if parts == ["myself"]:
            return {"displayName": "ktx reader", "emailAddress": "ktx@example.com"}
        if parts == ["field"]:
            return [
                {"id": EPIC_FIELD, "schema": {"custom": "com.pyxis.greenhopper.jira:gh-epic-link"}},
                {"id": "summary"},
            ]
        if parts[0] == "project":
            return {"key": parts[1]} if parts[1] in self.projects else None
        if parts[0] == "search":
            return self._search(asked.body)
        issue = self.issues.get(parts[1])
        if issue is None:
            return None
        return self._comments(issue, asked) if parts[2:] == ["comment"] else self._whole(issue, asked)

    def _search(self, body: dict[str, Any]) -> Any:
        self.jql.append(body["jql"])
        keys = [each["key"] for each in self.issues.values()]
        found = [self.issues[id] for id in self.issues if self.issues[id]["key"] in keys]
        start = int(body.get("nextPageToken", 0)) if self.is_cloud else body["startAt"]
        listed = [{**each, "fields": {name: each["fields"].get(name) for name in body["fields"]}} for each in found]
        part = [{key: each[key] for key in ("id", "key", "fields")} for each in listed[start : start + 2]]
        if not self.is_cloud:
            return {"startAt": start, "maxResults": 2, "total": len(found), "issues": part}
        is_last = start + 2 >= len(found)
        return {"issues": part, "isLast": is_last} | ({} if is_last else {"nextPageToken": str(start + 2)})

    def _whole(self, issue: dict[str, Any], asked: Asked) -> Any:
        wanted = asked.query["fields"].split(",")
        fields = {name: value for name, value in issue["fields"].items() if name in wanted}
        comments = issue["comments"][: self.embedded]
        whole: dict[str, Any] = {"id": issue["id"], "key": issue["key"], "fields": fields}
        fields["comment"] = {"comments": comments, "total": len(issue["comments"]), "maxResults": self.embedded}
        if not self.is_cloud:
            assert asked.query["expand"] == "renderedFields"
            rendered = [{"id": each["id"], "body": f"<p>{_text(each['body'])}</p>"} for each in comments]
            html = f"<p>{fields['description']}</p>"
            whole["renderedFields"] = {"description": html, "comment": {"comments": rendered}}
        return whole

    def _comments(self, issue: dict[str, Any], asked: Asked) -> Any:
        assert asked.query["orderBy"] == "-created"
        latest = issue["comments"][::-1][: int(asked.query["maxResults"])]
        if not self.is_cloud:
            assert asked.query["expand"] == "renderedBody"
            latest = [{**each, "renderedBody": f"<p>{_text(each['body'])}</p>"} for each in latest]
        return {"comments": latest, "total": len(issue["comments"])}


def _text(body: dict[str, Any]) -> str:
    return str(body["content"][0]["content"][0]["text"])


def replies(fake: FakeJira) -> Any:
    """Return the answers of a site to every request."""

    def answers(asked: Asked) -> Reply | None:
        found = fake.answer(asked)
        return found if isinstance(found, Reply) or found is None else Reply(found)

    return answers
