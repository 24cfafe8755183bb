"""A Sigma for tests: answers in the shapes of the REST API, version 2, on the scripted web site."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs

from tests.sources.web_site import Reply

SECRET = "sigma-secret-0123456789"
DAY = "2026-01-01T10:00:00.000Z"
COMMENT = '\n-- Sigma Σ {"request-id":"0198-REQUEST","email":"ada@acme.com"}'


def metric(name: str, formula: str, **more: Any) -> dict[str, Any]:
    return {"id": f"m-{name}", "name": name, "formula": formula, **more}


def native(table: str, name: str, **more: Any) -> dict[str, Any]:
    """Return a column of a data model that is a column of a table."""
    return {"id": f"inode-{table}/{name}", "formula": f"[{table.upper()}/{name.title()}]", **more}


def table(name: str, *columns: Any, **more: Any) -> dict[str, Any]:
    """Return an element of a data model that reads a table."""
    source = {"kind": "warehouse-table", "connectionId": "c1", "path": ["dwh", "shop", name]}
    return {
        "id": f"e-{name}",
        "kind": "table",
        "name": name.title(),
        "source": source,
        "columns": list(columns),
        **more,
    }


class FakeSigma:
    """What is in it, and how it answers. `size`: the most entries of a page. `token`: the one that is good now."""

    def __init__(self) -> None:
        self.size = 2
        self.token, self.logins = "", 0
        self.workbooks: dict[str, dict[str, Any]] = {}
        self.models: dict[str, dict[str, Any]] = {}
        self.datasets: list[dict[str, Any]] = []
        self.members: list[dict[str, Any]] | None = [
            {"memberId": "u1", "firstName": "Ada", "lastName": "Lovelace", "email": "ada@acme.com"}
        ]
        self.inner: dict[str, Any] = {}
        """Path below a workbook or data model -> its entries or its content; None: it is forbidden."""

    def workbook(self, id: str, moment: str = DAY, *, formula: str = "Sum([Amount])", **more: Any) -> str:
        self.workbooks[id] = {
            "workbookId": id, "name": f"Workbook {id}", "path": "Finance/Reports", "url": f"https://app/{id}",
            "ownerId": "u1", "updatedAt": moment, "latestVersion": 3, "isArchived": False,
            "tags": [{"versionTagId": "t", "name": "Production"}], **more,
        }  # fmt: skip
        element = {"elementId": "e1", "name": "Sales", "type": "visualization", "vizualizationType": "bar",
                   "columns": ["Month", "Revenue"]}  # fmt: skip
        self.inner[f"workbooks/{id}/elements"] = [element, {"elementId": "e2", "type": "text"}]
        self.inner[f"workbooks/{id}/columns"] = [
            {"elementId": "e1", "columnId": "a", "name": "Month", "formula": 'DateTrunc("month", [Ordered At])'},
            {"elementId": "e1", "columnId": "b", "label": "Revenue", "formula": formula},
        ]
        sql = f"select sum(amount) from shop.orders{COMMENT}"
        self.inner[f"workbooks/{id}/queries"] = [{"elementId": "e1", "elementName": "Sales", "sql": sql}]
        return f"workbooks/{id}.json"

    def model(self, id: str, *elements: Any, moment: str = DAY, **more: Any) -> str:
        self.models[id] = {
            "dataModelId": id, "name": f"Model {id}", "path": "Finance", "updatedAt": moment, "ownerId": "u1", **more
        }  # fmt: skip
        self.inner[f"dataModels/{id}/spec"] = {"name": id, "pages": [{"id": "p", "elements": list(elements)}]}
        return f"models/{id}.json"

    def answer(self, asked: Any) -> Any:
        path = asked.path.removeprefix("/v2/")
        if path == "auth/token":
            return self._login(asked.body)
        if asked.headers.get("authorization") != f"Bearer {self.token}":
            return self._refused(401)
        lists = {
            "workbooks": [*self.workbooks.values()], "dataModels": [*self.models.values()], "datasets": self.datasets,
            "members": self.members,
        }  # fmt: skip
        found = lists.get(path, self.inner.get(path, self))
        if found is self:
            return None
        if found is None:
            return self._refused(403)
        return self._page(found, asked.query) if isinstance(found, list) else found

    def _login(self, body: Any) -> Any:
        form = {name: values[0] for name, values in parse_qs(str(body)).items()}
        if form.get("client_secret") != SECRET or form.get("grant_type") != "client_credentials":
            return self._refused(401)
        self.logins += 1
        self.token = f"token-{self.logins}"
        return {"access_token": self.token, "token_type": "bearer", "expires_in": 3600}

    def _page(self, entries: list[Any], asked: dict[str, str]) -> dict[str, Any]:
        assert int(asked["limit"]) > 0
        start = int(re.sub(r"\D", "", asked.get("page", "")) or 0)
        end = start + self.size
        has_more = end < len(entries)
        return {
            "entries": entries[start:end],
            "hasMore": has_more,
            "total": len(entries),
            "nextPage": f"after-{end}" if has_more else None,
        }

    def reply(self, asked: Any) -> Reply | None:
        """Return the answer for a site."""
        found = self.answer(asked)
        return found if isinstance(found, Reply) or found is None else Reply(found)

    def _refused(self, status: int) -> Reply:
        return Reply({"code": "unauthorized", "message": "Unauthorized"}, status)
