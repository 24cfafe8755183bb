"""Pages of Notion: those below the roots the connection names, or all its token sees."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from ktx_cli.context.sources.document_units import PAGES, document_units
from ktx_cli.context.sources.files import documents_left
from ktx_cli.context.sources.http import HttpClient, Site
from ktx_cli.context.sources.http_errors import CHECKING
from ktx_cli.context.sources.model import Changes, RawFile, Snapshot, WorkUnit
from ktx_cli.context.sources.notion_api import ADDRESS, VERSION, NotionApi
from ktx_cli.context.sources.notion_crawl import Crawl
from ktx_cli.context.sources.notion_pages import data_source_path, page_path, parent_in
from ktx_cli.context.sources.port import FetchContext, ProjectContext, Projection
from ktx_cli.core.errors import SecretError
from ktx_cli.project import secrets


class NotionSource:
    """The driver `notion`. `sleep` and `clock` (Unix seconds) can be replaced in tests."""

    kind: ClassVar[str] = "notion"
    documents: ClassVar[bool] = True
    skills: ClassVar[tuple[str, ...]] = ("notion_synthesize", "wiki_capture")

    def __init__(
        self,
        address: str = ADDRESS,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._address = address
        self._sleep, self._clock = sleep, clock

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read what changed since the last fetch; raises `SourceError` or `NotReadyError`, then nothing changes."""
        site = self._site(entry, context)
        with HttpClient(
            site, stopped=context.stopped, emit=context.emit, sleep=self._sleep, clock=self._clock
        ) as client:
            return Crawl(NotionApi(client), entry, context, site.base_url, self._clock()).snapshot()

    def check(self, entry: Any, context: FetchContext) -> str:
        """See `Checked`."""
        site = self._site(entry, context)
        with HttpClient(site, policy=CHECKING, emit=context.emit, sleep=self._sleep) as client:
            return f"Notion, as {NotionApi(client).account()}"

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write nothing: what a page says takes a model to find out."""
        return Projection(left=documents_left(len(snapshot.files)))

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return one unit a page, small pages below one parent together."""

        def depends(raw: RawFile) -> Iterable[str]:
            parent = parent_in(raw.read())
            return [path for path in (page_path(parent), data_source_path(parent)) if path in snapshot.files]

        return document_units(snapshot, changes, PAGES, lambda raw: parent_in(raw.read()), depends)

    def _site(self, entry: Any, context: FetchContext) -> Site:
        where = f"connections.{context.connection}"
        key = "auth_token" if entry.auth_token else "auth_token_ref"
        given = entry.auth_token or entry.auth_token_ref
        if not given:
            raise SecretError(
                f"{where} has no token", hint=f"set `{where}.auth_token`, for example to env:NOTION_TOKEN"
            )
        token = secrets.resolve(given, project_dir=context.layout.root, environ=context.environ, where=f"{where}.{key}")
        headers = {"Authorization": f"Bearer {token.strip()}", "Notion-Version": VERSION}
        address = getattr(entry, "base_url", None) or self._address
        return Site("Notion", where, address, headers, credential=key, address="driver")
