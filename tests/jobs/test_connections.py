"""Context sources that are looked at, and not read: one request each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.jobs.connections import SourceCheck, check_source
from ktx_cli.project.config.file import load_config
from ktx_cli.sources.http import HttpAuthError, HttpStatusError
from tests.sources.web_site import Asked, Reply, WebSite, serve_site

CONFIG = """\
connections:
  notes: {{driver: notion, auth_token: env:TOKEN, base_url: '{url}', crawl_mode: all_accessible}}
  pages: {{driver: confluence, api_token: env:TOKEN, base_url: '{url}', space_keys: [HR]}}
  issues: {{driver: jira, email: me@example.com, api_token: env:TOKEN, base_url: '{url}', projects: [DATA]}}
  books: {{driver: tableau, token_name: me, token_secret: env:TOKEN, server_url: '{url}', site: acme}}
  cards: {{driver: metabase, api_key: env:TOKEN, api_url: '{url}'}}
  looks: {{driver: looker, client_id: me, client_secret: env:TOKEN, base_url: '{url}'}}
"""
ANSWERS: dict[str, Any] = {
    "/v1/users/me": {"object": "user", "name": "ktx reader"},
    "/api/v2/spaces": {"results": [{"id": "1", "key": "HR"}]},
    "/rest/api/3/myself": {"displayName": "ktx reader"},
    "/api/3.15/auth/signin": {"credentials": {"token": "made-up", "site": {"id": "1"}}},
    "/api/database": {"data": [{"id": 1}, {"id": 2}]},
    "/api/4.0/login": {"access_token": "made-up"},
}
SAID = {
    "notes": ("/v1/users/me", "Notion, as ktx reader"),
    "pages": ("/api/v2/spaces", "Confluence at {url}, with space HR"),
    "issues": ("/rest/api/3/myself", "Jira at {url}, as ktx reader"),
    "books": ("/api/3.15/auth/signin", "Tableau at {url}, site acme"),
    "cards": ("/api/database", "Metabase at {url}, with 2 databases"),
    "looks": ("/api/4.0/login", "Looker at {url}"),
}


@pytest.fixture(scope="module")
def site() -> Iterator[WebSite]:
    with serve_site() as served:
        yield served


def look(site: WebSite, connection: str, folder: Path) -> SourceCheck:
    config = load_config(folder / "ktx.yaml", data=CONFIG.format(url=site.url).encode()).config
    return check_source(config, connection, project_dir=folder, environ={"TOKEN": "tok-made-up"})


@pytest.mark.parametrize("connection", SAID)
def test_a_service_is_asked_once(site: WebSite, tmp_path: Path, connection: str) -> None:
    site.forget()
    site.answers = lambda asked: Reply(ANSWERS[asked.path]) if asked.path in ANSWERS else None
    path, said = SAID[connection]
    assert look(site, connection, tmp_path).origin == said.format(url=site.url)
    assert site.paths() == [path]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("connection", SAID)
def test_a_token_that_is_refused_is_said(site: WebSite, tmp_path: Path, connection: str) -> None:
    site.forget()
    site.answers = _refuse
    with pytest.raises(HttpAuthError) as refused:
        look(site, connection, tmp_path)
    assert f"connections.{connection}" in (refused.value.hint or "")


def _refuse(asked: Asked) -> Reply:
    return Reply({"message": "no"}, 401)


def test_what_is_not_there_is_said(site: WebSite, tmp_path: Path) -> None:
    site.forget()
    with pytest.raises(HttpStatusError):
        look(site, "cards", tmp_path)
    site.answers = lambda asked: Reply({"results": []})
    with pytest.raises(SourceError, match="no space of HR"):
        look(site, "pages", tmp_path)
