"""The API of Jira: version 3 of Jira Cloud, with its search by page tokens, and version 2 of Jira Data Center."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote

from ktx_cli.core import SourceError
from ktx_cli.sources.fetch import PageTokens, entries, mappings, require_shallow
from ktx_cli.sources.http import HttpAuthError, HttpClient, HttpStatusError

PAGE_SIZE: Final = 1000
MAX_ISSUES: Final = 200_000

_LISTED: Final = ("updated", "resolution", "security")
_FIELDS: Final = ",".join((
    "summary", "description", "status", "resolution", "resolutiondate", "labels", "components", "fixVersions",
    "issuetype", "parent", "issuelinks", "comment",
))  # fmt: skip
_NOT_SEEN: Final = (403, 404)
_EPIC_LINK: Final = "com.pyxis.greenhopper.jira:gh-epic-link"

Thing = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue in a list. `is_restricted`: only some users of its project can see it."""

    id: str
    key: str
    updated: str
    resolution: str
    is_restricted: bool


@dataclass(frozen=True, slots=True)
class Listed:
    """The issues that a query selects, by ID. `is_whole`: none can be missing."""

    issues: tuple[Issue, ...]
    is_whole: bool = True


class JiraApi:
    """Jira API objects. `is_cloud`: Jira Cloud; otherwise Jira Data Center."""

    def __init__(self, client: HttpClient, *, is_cloud: bool) -> None:
        self._client, self._is_cloud = client, is_cloud
        self._base = "rest/api/3" if is_cloud else "rest/api/2"

    def account(self) -> str:
        """Return the name of the account. Raises `HttpAuthError` if nobody is logged in."""
        found = _mapping(self._client.get(f"{self._base}/myself"))
        return str(found.get("displayName") or found.get("name") or "an account without a name")

    def has_project(self, key: str) -> bool:
        """Return whether the account can see a project."""
        return self._seen(f"{self._base}/project/{quote(key, safe='')}", {}) is not None

    def listed(self, jql: str) -> Listed:
        """Return all issues that a query selects, without their texts. Raises `SourceError` for half a list."""
        issues: dict[str, Issue] = {}
        tokens, token = PageTokens("Jira"), None
        start, is_whole = 0, True
        while True:
            page = self._page(jql, token, start)
            found = entries(page, "issues", "Jira", f"POST /{self._base}/search")
            issues.update((issue.id, issue) for issue in map(_issue, found))
            start += len(found)
            if len(issues) > MAX_ISSUES:
                message = f"the query selects more than {MAX_ISSUES:,} issues in Jira"
                raise SourceError(message, hint="select fewer issues with `projects` or `jql`")
            following = page.get("nextPageToken")
            if self._is_cloud:
                is_last = page.get("isLast") is True or not following
                is_cut = is_last and page.get("isLast") is False
            else:
                total = page.get("total")
                following, is_last = start, isinstance(total, int) and start >= total
                is_cut = not isinstance(total, int) or (not is_last and not found)
                is_whole = not is_last or len(issues) == total
            if is_cut:
                raise SourceError("Jira returned only a part of the list of issues", hint="retry later")
            if is_last:
                return Listed(tuple(issues[id] for id in sorted(issues, key=_number)), is_whole)
            token = tokens.following(following)

    def _page(self, jql: str, token: str | None, start: int) -> Thing:
        asked: dict[str, Any] = {"jql": jql, "maxResults": PAGE_SIZE, "fields": list(_LISTED)}
        if not self._is_cloud:
            return _mapping(self._client.post("rest/api/2/search", {**asked, "startAt": start}))
        return _mapping(self._client.post("rest/api/3/search/jql", asked | ({"nextPageToken": token} if token else {})))

    def issue(self, id: str) -> Thing | None:
        """Return an issue with its texts, or None if the account cannot read it or it no longer exists.

        Its `fields.parent` is the epic, if it has one, with `id` and `key`; Jira Data Center returns the key alone.
        """
        params = {"fields": f"{_FIELDS},{self._epic}" if self._epic else _FIELDS}
        found = self._seen(f"{self._base}/issue/{quote(id, safe='')}", params | self._rendered)
        if found is None:
            return None
        require_shallow(found, f"issue {id} in Jira")
        fields = found.get("fields")
        if not isinstance(fields, Mapping):
            raise SourceError(f"Jira returned issue {id} without its fields", hint="retry later")
        epic = fields.get(self._epic) if self._epic else None
        return {**found, "fields": {**fields, "parent": {"key": epic}}} if isinstance(epic, str) and epic else found

    def texts(self, issue: Thing, most: int) -> tuple[Any, list[tuple[str, Any]]]:
        """Return the description of an issue, and the day and text of its latest comments, oldest first.

        Comments by apps, and comments that only some users can see, are omitted.
        """
        shown = _shown(issue)
        block = issue["fields"].get("comment")
        comments, bodies = mappings(block.get("comments")) if isinstance(block, Mapping) else [], _comments(shown)
        total = block.get("total") if isinstance(block, Mapping) else 0
        if isinstance(total, int) and total > len(comments) and most:
            comments, bodies = self._latest(str(issue.get("id")), most)
        by_id = {str(each.get("id")): each.get("body") for each in bodies}
        people = [each for each in comments if not each.get("visibility") and not _is_app(each.get("author"))]
        latest = (
            sorted(people, key=lambda each: (str(each.get("created")), _number(str(each.get("id")))))[-most:]
            if most
            else []
        )
        texts = [(str(each.get("created"))[:10], by_id.get(str(each.get("id")), each.get("body"))) for each in latest]
        description = shown.get("description") if shown else issue["fields"].get("description")
        return description, texts

    def _latest(self, id: str, most: int) -> tuple[list[Thing], list[Thing]]:
        """Return the latest comments of an issue, and the same with rendered texts on Jira Data Center."""
        params = {"orderBy": "-created", "maxResults": most}
        params |= {} if self._is_cloud else {"expand": "renderedBody"}
        page = _mapping(self._client.get(f"{self._base}/issue/{quote(id, safe='')}/comment", params))
        found = mappings(page.get("comments"))
        require_shallow(found, f"the comments of issue {id} in Jira")
        return found, [{**each, "body": each["renderedBody"]} for each in found if "renderedBody" in each]

    @property
    def _rendered(self) -> dict[str, str]:
        """Return the parameter with which Jira Data Center returns HTML beside its own markup."""
        return {} if self._is_cloud else {"expand": "renderedFields"}

    @cached_property
    def _epic(self) -> str:
        """Return the field of Jira Data Center with the epic of an issue, or an empty string. Cloud calls it parent."""
        if self._is_cloud:
            return ""
        fields = mappings(self._client.get("rest/api/2/field"))
        found = (each for each in fields if (each.get("schema") or {}).get("custom") == _EPIC_LINK)
        return next((str(each.get("id")) for each in found), "")

    def _seen(self, path: str, params: Mapping[str, str]) -> Thing | None:
        try:
            return _mapping(self._client.get(path, params))
        except (HttpStatusError, HttpAuthError) as error:
            if error.status in _NOT_SEEN:
                return None
            raise


def _shown(issue: Thing) -> Thing:
    """Return the texts of Jira Data Center as HTML, by field; empty for Jira Cloud."""
    found = issue.get("renderedFields")
    return found if isinstance(found, Mapping) else {}


def _comments(shown: Thing) -> list[Thing]:
    block = shown.get("comment")
    return mappings(block.get("comments")) if isinstance(block, Mapping) else []


def _is_app(author: Any) -> bool:
    return isinstance(author, Mapping) and author.get("accountType") == "app"


def _issue(found: Thing) -> Issue:
    fields = found.get("fields") or {}
    resolution = fields.get("resolution") or {}
    return Issue(
        str(found.get("id")),
        str(found.get("key")),
        str(fields.get("updated") or ""),
        str(resolution.get("name") or ""),
        bool(fields.get("security")),
    )


def _number(id: str) -> tuple[int, str]:
    """Return the order of an ID: by its number."""
    return (int(id), "") if id.isdecimal() and len(id) < 30 else (0, id)


def _mapping(answer: Any) -> Thing:
    if not isinstance(answer, Mapping):
        raise SourceError("Jira returned a response that is not a JSON object", hint="retry later")
    return answer
