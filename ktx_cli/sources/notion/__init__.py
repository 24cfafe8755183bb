"""Notion, read through its API."""

from __future__ import annotations

from typing import Any, Literal

from ktx_cli.project import REQUIRED, Question, SourceConnection, setting
from ktx_cli.sources.registry import SourceKind, WebAddress, page_creates, page_updates


def _older(limit: str, **limits: Any) -> Any:
    return setting(None, f"Alias of `{limit}` from the TypeScript ktx.", **limits)


class NotionConnection(SourceConnection):
    """A Notion workspace."""

    driver: Literal["notion"] = setting(REQUIRED, "Notion.")
    auth_token: str | None = setting(None, "Token of the Notion integration.", secret=True, example="env:NOTION_TOKEN")
    auth_token_ref: str | None = setting(
        None, "Alias of `auth_token` from older versions.", secret=True, example="env:NOTION_TOKEN"
    )
    crawl_mode: Literal["selected_roots", "all_accessible"] = setting(
        "selected_roots", "Scope: the selected roots and everything below them, or everything that the token can read."
    )
    base_url: WebAddress | None = setting(
        None, "Address of the API. Defaults to Notion's own.", example="https://api.notion.com"
    )
    root_page_ids: list[str] = setting([], "IDs of pages to start from.", example=["0123456789abcdef0123456789abcdef"])
    root_database_ids: list[str] = setting([], "IDs of databases to start from.")
    root_data_source_ids: list[str] = setting([], "IDs of data sources to start from.")
    max_pages: int = setting(1000, "Maximum number of pages per run.", ge=1, le=10000)
    max_knowledge_creates: int = page_creates()
    max_knowledge_updates: int = page_updates()
    max_pages_per_run: int | None = _older("max_pages", ge=1, le=10000)
    max_knowledge_creates_per_run: int | None = _older("max_knowledge_creates", ge=0, le=25)
    max_knowledge_updates_per_run: int | None = _older("max_knowledge_updates", ge=0, le=100)

    def lack(self) -> tuple[str, str] | None:
        """Return an error if only selected roots are to be read but none are set."""
        if self.crawl_mode != "selected_roots" or (
            self.root_page_ids or self.root_database_ids or self.root_data_source_ids
        ):
            return None
        return (
            "reads only selected roots, but none are set",
            "add root_page_ids, root_database_ids or root_data_source_ids, or set crawl_mode: all_accessible",
        )


SOURCE = SourceKind(
    driver="notion",
    settings="ktx_cli.sources.notion:NotionConnection",
    source="ktx_cli.sources.notion.source:NotionSource",
    documents=True,
    questions=(Question("token", required=True), Question("crawl-mode", default="all_accessible"), Question("root")),
    variables={"auth_token": ("NOTION_TOKEN", "NOTION_API_KEY")},
    presets={"crawl_mode": "all_accessible"},
)
