"""A Notion for tests: answers in the shapes of API version 2025-09-03, on the scripted web site."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

OLD, LATER = "2026-05-01T10:00:00.000Z", "2026-06-01T10:00:00.000Z"
A, B, C, R1, R2 = (letter * 32 for letter in "abcde")
DATABASE, ROWS = "1" * 32, "2" * 32


def dashed(plain: str) -> str:
    return "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))


def text(words: str, **marks: Any) -> dict[str, Any]:
    return {"type": "text", "plain_text": words, "annotations": marks, "href": marks.pop("href", None)}


def block(kind: str, words: str = "", *, id: str = "", children: Iterable[Any] = (), **content: Any) -> dict[str, Any]:
    return {
        "object": "block",
        "id": dashed(id or f"{abs(hash((kind, words, str(content)))):032x}"[-32:]),
        "type": kind,
        "has_children": bool(children),
        "children": list(children),
        kind: {"rich_text": [text(words)] if words else [], **content},
    }


class FakeNotion:
    """A workspace; lists come in parts of two."""

    def __init__(self) -> None:
        self.pages: dict[str, dict[str, Any]] = {}
        self.blocks: dict[str, list[dict[str, Any]]] = {}
        self.sources: dict[str, dict[str, Any]] = {}
        self.databases: dict[str, dict[str, Any]] = {}
        self.rows: dict[str, list[str]] = {}

    def page(self, id: str, title: str, parent: Mapping[str, str], *blocks: Any, **fields: Any) -> None:
        declared = {"Name": {"type": "title", "title": [text(title)]}, **fields.pop("properties", {})}
        self.pages[id] = {
            "object": "page", "id": dashed(id), "last_edited_time": OLD, "url": f"https://www.notion.so/{id}",
            "parent": dict(parent), "properties": declared, **fields,
        }  # fmt: skip
        self.blocks[id] = []
        self.add(id, *blocks)

    def add(self, parent: str, *blocks: Any) -> None:
        self.blocks.setdefault(parent, []).extend(blocks)
        for each in blocks:
            if each["children"]:
                self.add(each["id"].replace("-", ""), *each["children"])

    def answer(self, asked: Any) -> Any:
        parts = asked.path.strip("/").split("/")[1:]
        known = {"pages": self.pages, "data_sources": self.sources, "databases": self.databases}
        if parts == ["users", "me"]:
            return {"object": "user", "name": "ktx reader"}
        if parts == ["search"]:
            wanted = self.pages if asked.body["filter"]["value"] == "page" else self.sources
            return self.part(list(wanted.values()), asked.body)
        id = parts[1].replace("-", "")
        if parts[-1] == "query":
            return self.part([self.pages[row] for row in self.rows[id]], asked.body)
        if parts[-1] == "children":
            return self.part(self.blocks[id], asked.query) if id in self.blocks else None
        return known.get(parts[0], {}).get(id)

    @staticmethod
    def part(items: list[Any], asked: Mapping[str, Any]) -> dict[str, Any]:
        start = int(asked.get("start_cursor") or 0)
        more = start + 2 < len(items)
        return {
            "object": "list", "results": items[start : start + 2],
            "has_more": more, "next_cursor": str(start + 2) if more else None,
        }  # fmt: skip


def child(page: str, title: str) -> dict[str, Any]:
    return block("child_page", id=page, title=title)


def handbook() -> FakeNotion:
    """Return a workspace of three pages, one below the other, and a database of two rows."""
    fake = FakeNotion()
    root = {"type": "workspace", "workspace": True}
    fake.page(A, "Handbook", root, block("paragraph", "Welcome."), child(B, "Refunds"))
    fake.add(A, block("child_database", id=DATABASE, title="Metrics"))
    fake.page(
        B, "Refunds", {"type": "page_id", "page_id": dashed(A)}, block("paragraph", "Within 30 days."), child(C, "x")
    )
    fake.page(C, "Late refunds", {"type": "page_id", "page_id": dashed(B)}, block("paragraph", "After 30 days."))
    parent = {"type": "data_source_id", "data_source_id": dashed(ROWS), "database_id": dashed(DATABASE)}
    status = {"Status": {"type": "select", "select": {"name": "Live"}}}
    fake.page(R1, "Revenue", parent, block("paragraph", "Net of refunds."), properties=status)
    fake.page(R2, "Orders", parent, block("paragraph", "Placed, not shipped."), properties=status)
    fake.databases[DATABASE] = {"object": "database", "data_sources": [{"id": dashed(ROWS)}], "parent": {}}
    options = {"options": [{"name": "Live"}, {"name": "Draft"}]}
    fake.sources[ROWS] = {
        "object": "data_source", "id": dashed(ROWS), "title": [text("Metrics")], "last_edited_time": OLD,
        "properties": {"Status": {"type": "select", "select": options}, "Name": {"type": "title", "title": {}}},
    }  # fmt: skip
    fake.rows[ROWS] = [R1, R2]
    return fake
