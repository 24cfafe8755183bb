"""A Confluence for tests: answers in the shapes of version 2 of its API, on the scripted web site."""

from __future__ import annotations

from typing import Any


class FakeConfluence:
    """A site with two spaces; lists come in parts of two."""

    def __init__(self) -> None:
        self.spaces = [{"id": "1", "key": "DATA"}, {"id": "2", "key": "OPS"}]
        self.pages: dict[str, dict[str, Any]] = {}

    def page(self, id: str, title: str, body: str, *, space: str = "1", parent: str | None = None) -> None:
        number = self.pages[id]["version"]["number"] + 1 if id in self.pages else 1
        self.pages[id] = {
            "id": id, "title": title, "spaceId": space, "parentId": parent, "status": "current",
            "version": {"number": number, "createdAt": f"2026-05-0{number}T10:00:00.000Z"},
            "body": {"storage": {"value": body}}, "labels": {"results": [{"name": "metrics"}, {"name": "finance"}]},
            "_links": {"webui": f"/spaces/DATA/pages/{id}"},
        }  # fmt: skip

    def answer(self, asked: Any) -> Any:
        parts = asked.path.removeprefix("/wiki/api/v2/").split("/")
        if parts == ["spaces"]:
            keys = asked.query.get("keys")
            return self.part([s for s in self.spaces if not keys or s["key"] in keys.split(",")], asked)
        if parts[0] == "spaces":
            return self.part([self.bare(p) for p in self.pages.values() if p["spaceId"] == parts[1]], asked)
        return self.pages.get(parts[1])

    @staticmethod
    def bare(page: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in page.items() if key not in ("body", "labels")}

    @staticmethod
    def part(items: list[Any], asked: Any) -> dict[str, Any]:
        start = int(asked.query.get("cursor", 0))
        more = start + 2 < len(items)
        links = {"next": f"{asked.path}?limit=250&cursor={start + 2}"} if more else {}
        return {"results": items[start : start + 2], "_links": links}
