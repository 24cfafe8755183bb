"""A Looker for tests: answers in the shapes of API 4.0, on the scripted web site."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from ktx_cli.documents.raw import Snapshot
from ktx_cli.sources.http import HttpClient, Site
from ktx_cli.sources.looker import LookerConnection as Entry
from ktx_cli.sources.looker.source import LookerSource
from ktx_cli.sources.port import FetchContext

SECRET = "looker-secret-0123456789"
BASE = "/api/4.0"


def dimension(name: str, sql: str | None = None, **more: Any) -> dict[str, Any]:
    column = name.rpartition(".")[2]
    return {"name": name, "label": column, "type": "string", "sql": sql or f"${{TABLE}}.{column}", **more}


def measure(name: str, kind: str, sql: str | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "sql": sql, **more}


def explore(name: str, table: str | None = "public.orders", connection: str = "dwh", **more: Any) -> dict[str, Any]:
    return {
        "id": f"shop::{name}",
        "name": name,
        "view_name": name,
        "label": name.title(),
        "connection_name": connection,
        "sql_table_name": table,
        "joins": [],
        "fields": {"dimensions": [dimension(f"{name}.status")], "measures": [measure(f"{name}.count", "count")]},
        "can": {"index": True},
        **more,
    }


def query(view: str = "orders", **more: Any) -> dict[str, Any]:
    return {
        "id": 77,
        "client_id": "abcdef",
        "share_url": "https://looker.example.com/x/abcdef",
        "model": "shop",
        "view": view,
        "fields": [f"{view}.status", f"{view}.count"],
        "filters": {f"{view}.status": "paid"},
        **more,
    }


def dashboard(number: str, moment: str | None = "2026-01-01", **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "title": f"Dashboard {number}",
        "updated_at": moment,
        "folder": {"id": "3"},
        "view_count": 12,
        "dashboard_elements": [{"id": "1", "title": "Tile", "query": query()}],
        "dashboard_filters": [{"name": "Status", "dimension": "orders.status", "id": "9"}],
        **more,
    }


def look(number: str, moment: str = "2026-01-01", **more: Any) -> dict[str, Any]:
    title = f"Look {number}"
    return {"id": number, "title": title, "updated_at": moment, "folder": {"id": "3"}, "query": query(), **more}


class ScriptedLooker:
    """What is in it, and how it answers. `token`: the one that is good now."""

    def __init__(self, site: Any, reply: Any) -> None:
        self.site, self._reply = site, reply
        self.token, self.logins = "", 0
        self.explores: dict[str, dict[str, Any]] = {}
        self.dashboards: dict[str, dict[str, Any]] = {}
        self.looks: dict[str, dict[str, Any]] = {}
        self.usage: dict[str, list[dict[str, Any]]] = {"dashboard.id": [], "query.model": [], "look.id": []}
        site.answers = self.answer

    def add(self, *things: dict[str, Any]) -> None:
        for each in things:
            holder = self.explores if "view_name" in each else self.looks if "query" in each else self.dashboards
            holder[str(each["name"] if "view_name" in each else each["id"])] = each

    def answer(self, asked: Any) -> Any:
        path = asked.path.removeprefix(BASE)
        if path == "/login":
            return self._login(asked.body)
        if asked.headers.get("authorization") != f"token {self.token}":
            return self._reply({"message": "Requires authentication."}, 401)
        if path == "/queries/run/json":
            return self._reply(self.usage[asked.body["fields"][0]])
        if found := re.fullmatch(r"/lookml_models/shop/explores/(.+)", path):
            return self._one(self.explores, unquote(found[1]))
        if found := re.fullmatch(r"/(dashboards|looks)/(?!search)(.+)", path):
            return self._one(self.dashboards if found[1] == "dashboards" else self.looks, unquote(found[2]))
        return self._listed(path, asked.query)

    def _login(self, body: Any) -> Any:
        if f"client_secret={SECRET}" not in str(body):
            return self._reply({"message": "Not found"}, 404)
        self.logins += 1
        self.token = f"session-{self.logins}"
        return self._reply({"access_token": self.token, "token_type": "Bearer", "expires_in": 3600})

    def _one(self, holder: Mapping[str, Any], key: str) -> Any:
        return self._reply(holder[key]) if key in holder else None

    def _listed(self, path: str, asked: Mapping[str, str]) -> Any:
        names = [{"name": name, "hidden": False} for name in self.explores]
        keys = ("id", "title", "updated_at", "folder", "deleted")
        lists: dict[str, list[Any]] = {
            "/lookml_models": [{"name": "shop", "explores": names}, {"name": "empty", "explores": None}],
            "/folders/search": [{"id": "3", "name": "Team", "parent_id": "1"}],
            "/dashboards/search": [{key: each.get(key) for key in keys} for each in self.dashboards.values()],
            "/looks/search": [{key: each.get(key) for key in keys} for each in self.looks.values()],
        }
        if path not in lists:
            return None
        start = int(asked["offset"])
        return self._reply(lists[path][start : start + int(asked["limit"])])

    def asked(self, start: str) -> list[str]:
        paths = (path.removeprefix(BASE) for path in self.site.paths())
        return [path for path in paths if path.startswith(start) and not path.endswith("/search")]


def entry(url: str, **mappings: str | None) -> Entry:
    made = Entry.model_validate(
        {
            "driver": "looker",
            "base_url": f"{url}/api/4.0/",
            "client_id": "id-0123456789",
            "client_secret": "env:LOOKER_SECRET",
            "mappings": {"connectionMappings": mappings or {"dwh": "warehouse"}},
        }
    )
    made._id = "bi"
    return made


def source() -> LookerSource:
    """Return the source with a client that does not really wait."""

    def opened(site: Site, context: FetchContext) -> HttpClient:
        return HttpClient(site, stopped=context.stopped, sleep=lambda seconds: None)

    return LookerSource(opened)


def after(context: FetchContext, snapshot: Snapshot) -> FetchContext:
    """Return the context of the run after one that succeeded."""
    return replace(
        context, cursor=snapshot.cursor, previous={path: file.sha256 for path, file in snapshot.files.items()}
    )
