"""Connections to documents: Notion, Confluence, a folder of files."""

from __future__ import annotations

from typing import Any, Literal

from ktx_cli.project.config.base import REQUIRED, setting
from ktx_cli.project.config.connections import Source
from ktx_cli.project.config.sources import WebAddress


def _creates() -> Any:
    return setting(25, "Most wiki pages a run may create from here; candidates beyond that wait.", ge=0, le=25)


def _updates() -> Any:
    return setting(20, "Most wiki pages a run may change from here; candidates beyond that wait.", ge=0, le=100)


def _older(limit: str, **limits: Any) -> Any:
    return setting(None, f"The same as `{limit}`, as the TypeScript ktx names it.", **limits)


class NotionSource(Source):
    """A Notion workspace."""

    driver: Literal["notion"] = setting(REQUIRED, "Notion.")
    auth_token: str | None = setting(None, "Token of the integration.", secret=True, example="env:NOTION_TOKEN")
    auth_token_ref: str | None = setting(
        None, "The same, as older versions name it.", secret=True, example="env:NOTION_TOKEN"
    )
    crawl_mode: Literal["selected_roots", "all_accessible"] = setting(
        "selected_roots", "What is read: the roots named here and what is below, or all the token sees."
    )
    base_url: WebAddress | None = setting(
        None, "Address of the API. Without it: Notion's own.", example="https://api.notion.com"
    )
    root_page_ids: list[str] = setting([], "Pages to begin with, by id.", example=["0123456789abcdef0123456789abcdef"])
    root_database_ids: list[str] = setting([], "Databases to begin with, by id.")
    root_data_source_ids: list[str] = setting([], "Data sources to begin with, by id.")
    max_pages: int = setting(1000, "Most pages of a run.", ge=1, le=10000)
    max_knowledge_creates: int = _creates()
    max_knowledge_updates: int = _updates()
    max_pages_per_run: int | None = _older("max_pages", ge=1, le=10000)
    max_knowledge_creates_per_run: int | None = _older("max_knowledge_creates", ge=0, le=25)
    max_knowledge_updates_per_run: int | None = _older("max_knowledge_updates", ge=0, le=100)


class ConfluenceSource(Source):
    """A Confluence site."""

    driver: Literal["confluence"] = setting(REQUIRED, "Confluence.")
    base_url: WebAddress = setting(REQUIRED, "Address of the site.", example="https://example.atlassian.net/wiki")
    email: str | None = setting(None, "Account of the API token.", example="ktx@example.com")
    api_token: str | None = setting(None, "API token.", secret=True, example="env:CONFLUENCE_TOKEN")
    space_keys: list[str] = setting([], "Spaces to read; empty: all the token sees.", example=["DATA"])
    max_pages: int = setting(1000, "Most pages of a run.", ge=1, le=10000)
    max_knowledge_creates: int = _creates()
    max_knowledge_updates: int = _updates()


class DocumentsSource(Source):
    """A folder of documents: Markdown, HTML, PDF, text and SQL files."""

    driver: Literal["documents"] = setting(REQUIRED, "A folder of documents.")
    path: str = setting(
        REQUIRED, "Folder, relative to the project; `~` works.", path=True, example="handbook", min_length=1
    )
    repo_url: str | None = setting(
        None,
        "Git URL, `git@host:org/repo.git` or a local path; `path` is then a folder in it, `.` its root.",
        path=True,
        example="https://git.example.com/docs/handbook.git",
    )
    branch: str | None = setting(None, "Branch. Without it: the repository's own.", example="main")
    auth_token_ref: str | None = setting(
        None, "Token for a private repository, as a secret reference.", secret=True, example="env:GIT_TOKEN"
    )
    max_knowledge_creates: int = _creates()
    max_knowledge_updates: int = _updates()
