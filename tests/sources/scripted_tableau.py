"""A Tableau site for tests: answers in the shapes of the REST API and the Metadata API, on the scripted web site."""

from __future__ import annotations

import re
from typing import Any

from tests.sources.web_site import Asked, Reply

API = "/api/3.15"
SECRET = "tableau-token-secret"
SESSION = "session-of-tableau"
KINDS = {"datasources": "datasource", "workbooks": "workbook"}
ROOTS = {"publishedDatasourcesConnection": "datasources", "workbooksConnection": "workbooks"}


class FakeTableau:
    """A site with two projects; lists come in parts of two. `denied`: items that may not be downloaded."""

    def __init__(self) -> None:
        self.items: dict[str, dict[str, dict[str, Any]]] = {"datasources": {}, "workbooks": {}}
        self.contents: dict[str, bytes] = {}
        self.facts: dict[str, dict[str, Any]] = {}
        self.fields: dict[str, list[dict[str, Any]]] = {}
        self.opened: dict[str, int] = {}
        self.denied: set[str] = set()
        self.metadata: Reply | None = None

    def add(self, kind: str, name: str, text: str | bytes, *, project: str = "Finance", **fields: Any) -> str:
        id = f"luid-{name.lower()}"
        before = self.items[kind].get(id)
        edition = int(before["updatedAt"][5:7]) + 1 if before else 1
        common = {
            "id": id, "name": name, "contentUrl": name, "updatedAt": f"2026-{edition:02}-01T10:00:00Z",
            "project": {"id": f"project-{project}", "name": project}, "webpageUrl": f"https://bi.example.com/{name}",
        }  # fmt: skip
        self.items[kind][id] = {**common, **fields}
        self.contents[id] = text if isinstance(text, bytes) else text.encode()
        return id

    def answer(self, asked: Asked) -> Any:
        if asked.path == f"{API}/auth/signin":
            return self._sign_in(asked.body["credentials"])
        assert asked.headers["x-tableau-auth"] == SESSION
        if asked.path == "/api/metadata/graphql":
            return self.metadata or self._asked(asked.body["query"], asked.body["variables"])
        parts = asked.path.removeprefix(f"{API}/sites/site-1/").split("/")
        if parts == ["views"]:
            assert asked.query["includeUsageStatistics"] == "true"
            views = [
                {"id": f"view-{id}", "workbook": {"id": id}, "usage": {"totalViewCount": str(count)}}
                for id, count in self.opened.items()
            ]
            return self._page("views", "view", views, asked)
        if len(parts) == 1:
            return self._page(parts[0], KINDS[parts[0]], [*self.items[parts[0]].values()], asked)
        assert (parts[2], asked.query) == ("content", {"includeExtract": "false"})
        if parts[1] in self.denied:
            return Reply({"error": {"summary": "Forbidden", "detail": "no permission", "code": "403004"}}, 403)
        return Reply(self.contents[parts[1]])

    def _sign_in(self, given: dict[str, Any]) -> Any:
        if given["personalAccessTokenSecret"] != SECRET:
            error = {"summary": "Signin Error", "detail": "Error signing in to Tableau", "code": "401001"}
            return Reply({"error": error}, 401)
        site = {"id": "site-1", "contentUrl": given["site"]["contentUrl"]}
        return {"credentials": {"site": site, "user": {"id": "user-1"}, "token": SESSION}}

    @staticmethod
    def _page(kind: str, noun: str, listed: list[Any], asked: Asked) -> Any:
        start = 2 * (int(asked.query["pageNumber"]) - 1)
        paging = {"pageNumber": asked.query["pageNumber"], "pageSize": "2", "totalAvailable": str(len(listed))}
        return {"pagination": paging, kind: {noun: listed[start : start + 2]} if listed else {}}

    def _asked(self, query: str, variables: dict[str, Any]) -> Any:
        if "luid" in variables:
            id = variables["luid"]
            found = [{"fields": self.fields.get(id, [])}]
            is_workbook = "workbooks(" in query
            return {
                "data": {"workbooks": [{"embeddedDatasources": found}]}
                if is_workbook
                else {"publishedDatasources": found}
            }
        (root,) = [name for name in ROOTS if re.search(rf"\b{name}\(", query)]
        ids = [*self.items[ROOTS[root]]]
        start = int(variables["after"] or 0)
        nodes = [{"luid": id, **self.facts.get(id, {})} for id in ids[start : start + 2]]
        has_more = start + 2 < len(ids)
        info = {"hasNextPage": has_more, "endCursor": str(start + 2) if has_more else None}
        return {"data": {root: {"nodes": nodes, "pageInfo": info}}}


def replies(fake: FakeTableau) -> Any:
    """Return the answers of a site to every request."""

    def answers(asked: Asked) -> Reply | None:
        found = fake.answer(asked)
        return found if isinstance(found, Reply) or found is None else Reply(found)

    return answers
