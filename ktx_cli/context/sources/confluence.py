"""Pages of Confluence Cloud: those of the spaces the connection names, or of all its account sees."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final

from ktx_cli.context.documents.markdown_text import with_front_matter
from ktx_cli.context.sources.confluence_api import ConfluenceApi, Thing
from ktx_cli.context.sources.confluence_body import body_markdown, is_cut
from ktx_cli.context.sources.document_pages import Pages
from ktx_cli.context.sources.document_units import PAGES, document_units
from ktx_cli.context.sources.files import documents_left
from ktx_cli.context.sources.http import HttpClient, Site
from ktx_cli.context.sources.http_errors import CHECKING
from ktx_cli.context.sources.model import Changes, RawFile, Snapshot, WorkUnit
from ktx_cli.context.sources.port import FetchContext, ProjectContext, Projection
from ktx_cli.core.errors import ResultWarning, SecretError, SourceError
from ktx_cli.core.text import listing
from ktx_cli.project import secrets

_PARENT: Final = re.compile(rb"^parent: \"?([A-Za-z0-9]{1,40})\"?$", re.MULTILINE)
_HEAD_BYTES: Final = 4_000


class ConfluenceSource:
    """The driver `confluence`. `sleep` can be replaced in tests."""

    kind: ClassVar[str] = "confluence"
    documents: ClassVar[bool] = True
    skills: ClassVar[tuple[str, ...]] = ("notion_synthesize", "wiki_capture")

    def __init__(self, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read what changed since the last fetch; raises `SourceError` or `NotReadyError`, then nothing changes."""
        site = _site(entry, context)
        with HttpClient(site, stopped=context.stopped, emit=context.emit, sleep=self._sleep) as client:
            return _read(ConfluenceApi(client), entry, Pages(context, site.base_url, entry.max_pages))

    def check(self, entry: Any, context: FetchContext) -> str:
        """See `Checked`."""
        site = _site(entry, context)
        with HttpClient(site, policy=CHECKING, emit=context.emit, sleep=self._sleep) as client:
            space = next(ConfluenceApi(client).spaces(entry.space_keys), None)
        if space is None:
            what = f"of {listing(entry.space_keys)} " if entry.space_keys else ""
            raise SourceError(
                f"Confluence shows no space {what}to this account", hint="check the keys, and what the account may read"
            )
        return f"Confluence at {site.base_url}, with the space {space.get('key')}"

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write nothing: what a page says takes a model to find out."""
        return Projection(left=documents_left(len(snapshot.files)))

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return one unit a page, small pages below one parent together."""

        def depends(raw: RawFile) -> Iterable[str]:
            path = _path(_parent_in(raw))
            return [path] if path in snapshot.files else []

        return document_units(snapshot, changes, PAGES, _parent_in, depends)


def _site(entry: Any, context: FetchContext) -> Site:
    where = f"connections.{context.connection}"
    if not entry.api_token:
        raise SecretError(f"{where} has no token", hint=f"set `{where}.api_token`, for example to env:CONFLUENCE_TOKEN")
    token = _resolved(entry.api_token, f"{where}.api_token", context)
    address = _resolved(entry.base_url, f"{where}.base_url", context)
    headers = {"Authorization": f"Bearer {token}"}
    if entry.email:
        account = _resolved(entry.email, f"{where}.email", context)
        basic = base64.b64encode(f"{account}:{token}".encode()).decode()
        secrets.remember(basic)
        headers = {"Authorization": f"Basic {basic}"}
    return Site("Confluence", where, address, headers, credential="api_token")


def _resolved(value: str, where: str, context: FetchContext) -> str:
    if not secrets.is_reference(value) and not where.endswith("api_token"):
        return value
    return secrets.resolve(value, project_dir=context.layout.root, environ=context.environ, where=where).strip()


def _read(api: ConfluenceApi, entry: Any, pages: Pages) -> Snapshot:
    spaces = sorted(api.spaces(entry.space_keys), key=lambda space: str(space.get("key")))
    warnings = _unseen(entry.space_keys, spaces, pages)
    for space in spaces:
        for listed in api.pages(str(space.get("id"))):
            _read_page(api, listed, str(space.get("key")), pages)
    return pages.snapshot(f"Confluence, {listing(str(space.get('key')) for space in spaces)}", warnings)


def _unseen(keys: Iterable[str], spaces: Iterable[Thing], pages: Pages) -> list[ResultWarning]:
    """Name the spaces that are not shown; raises `SourceError` where that is all."""
    seen = {str(space.get("key")) for space in spaces}
    missing = [key for key in keys if key not in seen]
    hint = "check the keys, and what the account may read"
    if not seen:
        raise SourceError(f"Confluence shows no space{f' of {listing(missing)}' if missing else ''}", hint=hint)
    for key in missing:
        pages.skip(f"space {key}", "Confluence does not show it to this account", missing=True)
    return [ResultWarning("space_not_seen", f"Confluence does not show the space {key}", hint=hint) for key in missing]


def _read_page(api: ConfluenceApi, listed: Thing, space: str, pages: Pages) -> None:
    page = str(listed.get("id"))
    path, moment = _path(page), _moment(listed)
    if pages.unchanged(path, moment) or not pages.may_read(path):
        return
    found = api.page(page)
    if found is None:
        pages.skip(f"page {page}", "Confluence does not show it to this account")
        return
    storage = _storage(found)
    if is_cut(storage):
        pages.skip(f"the rest of page {page}", "it is too long to be read whole")
    pages.put(path, _file(found, storage, space, pages.site), _moment(found) or moment)


def _moment(page: Thing) -> str:
    """Return what changes whenever a page does: its version, its name, its place."""
    version = page.get("version")
    if not isinstance(version, Mapping):
        return ""
    told = (version.get("number"), version.get("createdAt"), page.get("parentId"), page.get("title"))
    return " ".join(str(part) for part in told if part)


def _file(page: Thing, storage: str, space: str, site: str) -> bytes:
    front = {
        "id": str(page.get("id")),
        "title": " ".join(str(page.get("title") or "Untitled").split()),
        "url": _address(page, site),
        "parent": str(page["parentId"]) if page.get("parentId") else None,
        "properties": {"space": space, "labels": _labels(page)},
    }
    return with_front_matter({key: value for key, value in front.items() if value}, body_markdown(storage))


def _storage(page: Thing) -> str:
    body: Any = page.get("body")
    storage = body.get("storage") if isinstance(body, Mapping) else None
    return str(storage.get("value") or "") if isinstance(storage, Mapping) else ""


def _labels(page: Thing) -> list[str]:
    labels: Any = page.get("labels")
    listed = labels.get("results") if isinstance(labels, Mapping) else None
    return sorted(str(label.get("name")) for label in listed or () if isinstance(label, Mapping))


def _address(page: Thing, site: str) -> str | None:
    links: Any = page.get("_links")
    shown = links.get("webui") if isinstance(links, Mapping) else None
    return f"{site}{shown}" if isinstance(shown, str) and shown.startswith("/") else None


def _path(page: str) -> str:
    return f"pages/{re.sub(r'[^A-Za-z0-9_-]', '_', page)}.md"


def _parent_in(raw: RawFile) -> str:
    found = _PARENT.search(raw.read()[:_HEAD_BYTES])
    return found[1].decode() if found else ""
