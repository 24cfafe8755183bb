"""Read Notion pages: those below the configured roots, or all that the token can read."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, ClassVar, Final

from ktx_cli.core import ConfigError, Hint, ResultWarning, SecretError, SettingPath, SourceError
from ktx_cli.documents import Changes, RawFile, Snapshot, WorkUnit
from ktx_cli.project import resolve as resolve_secret
from ktx_cli.sources.document_units import PAGES, DocumentSource, document_units
from ktx_cli.sources.fetch import PageFetch
from ktx_cli.sources.http import CHECKING, HttpAuthError, HttpClient, HttpStatusError, Site
from ktx_cli.sources.notion import pages
from ktx_cli.sources.port import FetchContext, Projection


class NotionSource(DocumentSource):
    """The driver `notion`. `sleep` and `clock` (Unix seconds) can be replaced in tests."""

    kind: ClassVar[str] = "notion"
    skills: ClassVar[tuple[str, ...]] = ("notion_synthesize", "wiki_capture")

    def __init__(
        self,
        address: str = pages.ADDRESS,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._address = address
        self._sleep, self._clock = sleep, clock

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read the changes since the last fetch. After a `SourceError` or `NotReadyError`, nothing has changed."""
        site = self._site(entry, context)
        with HttpClient(
            site, stopped=context.stopped, emit=context.emit, sleep=self._sleep, clock=self._clock
        ) as client:
            return Crawl(pages.NotionApi(client), entry, context, site.base_url, self._clock()).snapshot()

    def check(self, entry: Any, context: FetchContext) -> str:
        """Implements `Source`."""
        site = self._site(entry, context)
        with HttpClient(site, policy=CHECKING, emit=context.emit, sleep=self._sleep) as client:
            return f"Notion, as {pages.NotionApi(client).account()}"

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return one unit per page, with small pages under the same parent combined."""

        def depends(raw: RawFile) -> Iterable[str]:
            parent = pages.parent_in(raw.read())
            return [
                path for path in (pages.page_path(parent), pages.data_source_path(parent)) if path in snapshot.files
            ]

        return document_units(snapshot, changes, PAGES, lambda raw: pages.parent_in(raw.read()), depends)

    def _site(self, entry: Any, context: FetchContext) -> Site:
        where = f"connections.{context.connection}"
        key = "auth_token" if entry.auth_token else "auth_token_ref"
        given = entry.auth_token or entry.auth_token_ref
        if not given:
            hint = Hint("set `{}`, for example to env:NOTION_TOKEN", SettingPath(f"{where}.auth_token"))
            raise SecretError(f"{where} has no token", hint=hint)
        token = resolve_secret(given, project_dir=context.layout.root, environ=context.environ, where=f"{where}.{key}")
        headers = {"Authorization": f"Bearer {token.strip()}", "Notion-Version": pages.VERSION}
        address = getattr(entry, "base_url", None) or self._address
        return Site("Notion", where, address, headers, credential=key, address="driver")


_SETTLED_SECONDS: Final = 120.0
"""The age in seconds below which an edited page is read again, because Notion rounds edit times to the minute."""

_MOST_STEPS_UP: Final = 12
_UNSEEN: Final = "this token cannot read it in Notion"


class Crawl:
    """Reads pages; `started` is a Unix time. Raises the client's errors: a fetch is complete or it fails."""

    def __init__(self, api: pages.NotionApi, entry: Any, context: FetchContext, site: str, started: float) -> None:
        self._api, self._entry = api, entry
        self._pages = PageFetch(context, site, entry.max_pages_per_run or entry.max_pages)
        self._started = started
        self._seen: set[str] = set()
        self._waiting: deque[tuple[str, str, pages.Thing | None]] = deque()
        self._databases: deque[tuple[str, str]] = deque()
        self._sources: deque[tuple[str, str]] = deque()
        self._warnings: list[ResultWarning] = []

    def snapshot(self) -> Snapshot:
        """Read everything in scope."""
        if self._entry.crawl_mode == "all_accessible":
            self._all()
        else:
            self._roots()
        self._work()
        return self._pages.snapshot("Notion", self._warnings)

    def _all(self) -> None:
        for page in self._api.accessible("page"):
            self._waiting.append((pages.plain_id(page.get("id")), "", page))
        self._sources.extend((pages.plain_id(each.get("id")), "") for each in self._api.accessible("data_source"))

    def _roots(self) -> None:
        named = (
            [("page", each) for each in self._entry.root_page_ids]
            + [("database", each) for each in self._entry.root_database_ids]
            + [("data_source", each) for each in self._entry.root_data_source_ids]
        )
        if not named:
            where = f"connections.{self._pages.context.connection}"
            raise ConfigError(
                f"{where} has no page to start from",
                hint=Hint(
                    "set `{}`, or set `{}` to all_accessible",
                    SettingPath(f"{where}.root_page_ids"),
                    SettingPath(f"{where}.crawl_mode"),
                ),
            )
        seen = [self._root(kind, pages.plain_id(value), value) for kind, value in named]
        if not any(seen):
            message = "the token cannot read any of the configured Notion pages and databases"
            raise SourceError(message, hint="share them with the integration in Notion: ... > Connections")

    def _root(self, kind: str, root: str, written: str) -> bool:
        """Add a root to the queue for its kind. If it cannot be read, report it, and count nothing as deleted."""
        found = getattr(self._api, kind)(root) if root else None
        if found is None:
            self._pages.skip(f"{kind.replace('_', ' ')} {written}", _UNSEEN, missing=True)
            self._warnings.append(
                ResultWarning(
                    "root_not_seen", f"the token cannot read {written} in Notion", hint="share it with the integration"
                )
            )
        elif kind == "page":
            self._waiting.append((root, "", found))
        else:
            (self._databases if kind == "database" else self._sources).append((root, ""))
        return found is not None

    def _work(self) -> None:
        """Read pages, then databases, then data sources with their rows, until the queues are empty."""
        while True:
            if self._waiting:
                self._page(*self._waiting.popleft())
            elif self._databases:
                self._database(*self._databases.popleft())
            elif self._sources:
                self._data_source(*self._sources.popleft())
            else:
                return

    def _new(self, thing: str) -> bool:
        if not thing or thing in self._seen:
            return False
        self._seen.add(thing)
        return True

    def _page(self, page: str, under: str, known: pages.Thing | None) -> None:
        if not self._new(page):
            return
        found = known if known is not None else self._api.page(page)
        if found is None:
            self._pages.skip(f"page {page}", _UNSEEN)
        elif not _is_gone(found):
            self._visible_page(page, under, found)

    def _visible_page(self, page: str, under: str, found: pages.Thing) -> None:
        path, moment = pages.page_path(page), str(found.get("last_edited_time") or "")
        if self._pages.unchanged(path, moment) or not self._pages.may_read(path):
            self._queue(page, self._pages.below(path))
            return
        try:
            tree = pages.read_tree(self._api, page)
        except (HttpStatusError, HttpAuthError) as error:
            if error.status not in (400, 403, 404):
                raise
            self._pages.skip(f"page {page}", error.message)
            return
        below = [*(f"page:{each}" for each in tree.pages), *(f"database:{each}" for each in tree.databases)]
        settled = "" if tree.cut else self._settled(moment)
        self._pages.put(path, pages.page_file(found, self._parent(found, under), tree), settled, below)
        self._queue(page, below)
        if tree.cut:
            self._pages.skip(f"the rest of page {page}", tree.cut, missing=True, for_good=True)

    def _queue(self, page: str, below: Iterable[str]) -> None:
        """Continue with the children of a page."""
        for kind, _, each in (item.partition(":") for item in below):
            if kind == "page":
                self._waiting.append((each, page, None))
            else:
                self._databases.append((each, page))

    def _database(self, database: str, under: str) -> None:
        if not self._new(database):
            return
        found = self._api.database(database)
        if found is None:
            self._pages.skip(f"database {database}", _UNSEEN)
        elif not _is_gone(found):
            inside = under or self._parent(found, "")
            listed = found.get("data_sources") or ()
            self._sources.extend((pages.plain_id(each.get("id")), inside) for each in listed)

    def _data_source(self, source: str, under: str) -> None:
        if not self._new(source):
            return
        found = self._api.data_source(source)
        if found is None:
            self._pages.skip(f"data source {source}", _UNSEEN)
        elif not _is_gone(found):
            self._described(source, under, found)
            self._waiting.extend((pages.plain_id(row.get("id")), source, row) for row in self._api.rows(source))

    def _described(self, source: str, under: str, found: pages.Thing) -> None:
        path, moment = pages.data_source_path(source), str(found.get("last_edited_time") or "")
        if not self._pages.unchanged(path, moment) and self._pages.may_read(path):
            parent = under or self._owner(found.get("database_parent") or {})
            self._pages.put(path, pages.data_source_file(found, parent), self._settled(moment))

    def _parent(self, thing: pages.Thing, under: str) -> str:
        return under or self._owner(thing.get("parent") or {})

    def _owner(self, parent: pages.Thing) -> str:
        """Return the page or data source that a parent belongs to: a block is in a page, or in another block."""
        for _ in range(_MOST_STEPS_UP):
            kind = str(parent.get("type") or "")
            if kind != "block_id":
                return pages.plain_id(parent.get(kind)) if kind in ("page_id", "data_source_id") else ""
            block = self._api.block(pages.plain_id(parent.get("block_id")))
            parent = (block or {}).get("parent") or {}
        return ""

    def _settled(self, moment: str) -> str:
        """Return the time of an edit, or an empty string if a later edit in that minute would have the same time."""
        try:
            edited = datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
        except ValueError:
            return ""
        return moment if edited < self._started - _SETTLED_SECONDS else ""


def _is_gone(thing: pages.Thing) -> bool:
    return bool(thing.get("in_trash") or thing.get("archived"))
