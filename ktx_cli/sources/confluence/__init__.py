"""Confluence Cloud, read through its API."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Question, SourceConnection, setting
from ktx_cli.sources.registry import SourceKind, WebAddress, page_creates, page_updates


class ConfluenceConnection(SourceConnection):
    """A Confluence site."""

    driver: Literal["confluence"] = setting(REQUIRED, "Confluence.")
    base_url: WebAddress = setting(
        REQUIRED,
        "Address of the site, for example https://acme.atlassian.net/wiki.",
        example="https://example.atlassian.net/wiki",
    )
    email: str | None = setting(None, "Account that owns the API token.", example="ktx@example.com")
    api_token: str | None = setting(None, "API token.", secret=True, example="env:CONFLUENCE_TOKEN")
    space_keys: list[str] = setting(
        [], "Keys of the spaces to read. Defaults to all spaces that the account can read.", example=["DATA"]
    )
    max_pages: int = setting(1000, "Maximum number of pages per run.", ge=1, le=10000)
    max_knowledge_creates: int = page_creates()
    max_knowledge_updates: int = page_updates()


SOURCE = SourceKind(
    driver="confluence",
    settings="ktx_cli.sources.confluence:ConfluenceConnection",
    source="ktx_cli.sources.confluence.source:ConfluenceSource",
    documents=True,
    questions=(Question("url", required=True), Question("user"), Question("token", required=True), Question("space")),
)
