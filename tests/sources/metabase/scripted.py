"""A Metabase for tests: answers in the shapes of version 50 and later, on the scripted web site."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ktx_cli.documents.raw import Snapshot
from ktx_cli.sources.http import HttpClient, RetryPolicy, Site
from ktx_cli.sources.metabase import MetabaseConnection as Entry
from ktx_cli.sources.metabase.source import MetabaseSource
from ktx_cli.sources.port import FetchContext

KEY = "mb_key-0123456789"


def native(text: str, tags: Mapping[str, Any] | None = None, database: int = 1) -> dict[str, Any]:
    return {"type": "native", "database": database, "native": {"query": text, "template-tags": dict(tags or {})}}


def built(table: int | str, **more: Any) -> dict[str, Any]:
    return {"type": "query", "database": 1, "query": {"source-table": table, **more}}


def card(number: int, query: Mapping[str, Any], moment: str = "2026-01-01", **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"Card {number}",
        "description": None,
        "type": "question",
        "archived": False,
        "collection_id": 5,
        "database_id": query.get("database", 1),
        "dataset_query": dict(query),
        "updated_at": moment,
        "view_count": 0,
        "creator": {"email": "someone@example.com"},
        "result_metadata": [{"name": "id", "base_type": "type/Integer", "fingerprint": {"global": {"nil%": 0.5}}}],
        **more,
    }


class ScriptedMetabase:
    """What is in it, and how it answers; `compiled`: what `dataset/native` makes of a query."""

    def __init__(self, site: Any, reply: Any) -> None:
        self.site, self._reply = site, reply
        self.cards: dict[int, dict[str, Any]] = {}
        self.snippets: list[dict[str, Any]] = []
        self.databases = [{"id": 1, "name": "Shop", "engine": "postgres", "details": {"password": "hunter2-secret"}}]
        self.tables: list[dict[str, Any]] = []
        self.collections: list[dict[str, Any]] = [{"id": 5, "name": "Sales", "description": "d", "children": []}]
        self.dashboards: dict[int, dict[str, Any]] = {}
        self.compiled: Callable[[Mapping[str, Any]], Any] = lambda query: {"query": "SELECT 1", "params": None}
        site.answers = self.answer

    def add(self, *cards: dict[str, Any]) -> None:
        self.cards.update({each["id"]: each for each in cards})

    def answer(self, asked: Any) -> Any:
        if asked.headers.get("x-api-key") != KEY:
            return self._reply({"message": "Unauthenticated"}, 401)
        if asked.path == "/api/dataset/native":
            made = self.compiled(asked.body)
            return made if isinstance(made, self._reply) else self._reply(made)
        found = re.fullmatch(r"/api/(card|dashboard)/(\d+)", asked.path)
        if found:
            holder = self.cards if found[1] == "card" else self.dashboards
            thing = holder.get(int(found[2]))
            return None if thing is None else self._reply(thing)
        lists: dict[str, Any] = {
            "/api/database": {"data": self.databases, "total": len(self.databases)},
            "/api/database/1/metadata": {"id": 1, "tables": self.tables},
            "/api/collection/tree": self.collections,
            "/api/card": list(self.cards.values()),
            "/api/native-query-snippet": self.snippets,
        }
        return self._reply(lists[asked.path]) if asked.path in lists else None

    def asked_cards(self) -> list[int]:
        found = (re.fullmatch(r"/api/card/(\d+)", path) for path in self.site.paths())
        return [int(each[1]) for each in found if each]

    def asked_sql(self) -> list[Any]:
        return [asked.body for asked in self.site.asked if asked.path == "/api/dataset/native"]


def entry(url: str, **mappings: Any) -> Entry:
    given = {"databaseMappings": {"1": "warehouse"}, **mappings}
    made = Entry.model_validate(
        {"driver": "metabase", "api_url": url + "/", "api_key": "env:METABASE_KEY", "mappings": given}
    )
    made._id = "bi"
    return made


def source(slept: list[float] | None = None) -> MetabaseSource:
    """Return the source with a client that does not really wait."""
    waited = [] if slept is None else slept

    def opened(site: Site, policy: RetryPolicy, context: FetchContext) -> HttpClient:
        return HttpClient(site, policy=policy, stopped=context.stopped, sleep=waited.append)

    return MetabaseSource(opened)


def after(context: FetchContext, snapshot: Snapshot) -> FetchContext:
    """Return the context of the run after one that succeeded."""
    return replace(
        context, cursor=snapshot.cursor, previous={path: file.sha256 for path, file in snapshot.files.items()}
    )
