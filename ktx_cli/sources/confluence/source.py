"""Read Confluence Cloud pages: those of the configured spaces, or all that the account can read."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import parse_qs, quote, urlsplit

from ktx_cli.core import Hint, ResultWarning, SecretError, SettingPath, SourceError, listing
from ktx_cli.documents import MAX_HTML, Token, markdown_of, text_token, tokens, visible, with_front_matter
from ktx_cli.project import is_reference
from ktx_cli.project import remember as remember_secret
from ktx_cli.project import resolve as resolve_secret
from ktx_cli.sources.document_units import PAGES, DocumentSource, document_units
from ktx_cli.sources.fetch import PageFetch, PageTokens, entries
from ktx_cli.sources.http import CHECKING, HttpAuthError, HttpClient, HttpStatusError, Site
from ktx_cli.sources.port import FetchContext, Projection

if TYPE_CHECKING:
    from ktx_cli.documents import Changes, RawFile, Snapshot, WorkUnit

_PARENT: Final = re.compile(rb"^parent: \"?([A-Za-z0-9]{1,40})\"?$", re.MULTILINE)
_HEAD_BYTES: Final = 4_000


class ConfluenceSource(DocumentSource):
    """The driver `confluence`. `sleep` can be replaced in tests."""

    kind: ClassVar[str] = "confluence"
    skills: ClassVar[tuple[str, ...]] = ("notion_synthesize", "wiki_capture")

    def __init__(self, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read the changes since the last fetch. After a `SourceError` or `NotReadyError`, nothing has changed."""
        site = _site(entry, context)
        with HttpClient(site, stopped=context.stopped, emit=context.emit, sleep=self._sleep) as client:
            return _read(ConfluenceApi(client), entry, PageFetch(context, site.base_url, entry.max_pages))

    def check(self, entry: Any, context: FetchContext) -> str:
        """Implements `Source`."""
        site = _site(entry, context)
        with HttpClient(site, policy=CHECKING, emit=context.emit, sleep=self._sleep) as client:
            space = next(ConfluenceApi(client).spaces(entry.space_keys), None)
        if space is None:
            what = f"of {listing(entry.space_keys)} " if entry.space_keys else ""
            message = f"Confluence has no space {what}that this account can read"
            raise SourceError(message, hint="check the keys and the permissions of the account")
        return f"Confluence at {site.base_url}, with space {space.get('key')}"

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return one unit per page, with small pages under the same parent combined."""

        def depends(raw: RawFile) -> Iterable[str]:
            path = _path(_parent_in(raw))
            return [path] if path in snapshot.files else []

        return document_units(snapshot, changes, PAGES, _parent_in, depends)


def _site(entry: Any, context: FetchContext) -> Site:
    where = f"connections.{context.connection}"
    if not entry.api_token:
        hint = Hint("set `{}`, for example to env:CONFLUENCE_TOKEN", SettingPath(f"{where}.api_token"))
        raise SecretError(f"{where} has no API token", hint=hint)
    token = _resolved(entry.api_token, f"{where}.api_token", context)
    address = _resolved(entry.base_url, f"{where}.base_url", context)
    headers = {"Authorization": f"Bearer {token}"}
    if entry.email:
        account = _resolved(entry.email, f"{where}.email", context)
        basic = base64.b64encode(f"{account}:{token}".encode()).decode()
        remember_secret(basic)
        headers = {"Authorization": f"Basic {basic}"}
    return Site("Confluence", where, address, headers, credential="api_token")


def _resolved(value: str, where: str, context: FetchContext) -> str:
    if not is_reference(value) and not where.endswith("api_token"):
        return value
    return resolve_secret(value, project_dir=context.layout.root, environ=context.environ, where=where).strip()


def _read(api: ConfluenceApi, entry: Any, pages: PageFetch) -> Snapshot:
    spaces = sorted(api.spaces(entry.space_keys), key=lambda space: str(space.get("key")))
    warnings = _unseen(entry.space_keys, spaces, pages)
    for space in spaces:
        for listed in api.pages(str(space.get("id"))):
            _read_page(api, listed, str(space.get("key")), pages)
    return pages.snapshot(f"Confluence, {listing(str(space.get('key')) for space in spaces)}", warnings)


def _unseen(keys: Iterable[str], spaces: Iterable[Thing], pages: PageFetch) -> list[ResultWarning]:
    """Record the spaces that cannot be read. Raises `SourceError` if there are no others."""
    seen = {str(space.get("key")) for space in spaces}
    missing = [key for key in keys if key not in seen]
    hint = "check the keys and the permissions of the account"
    if not seen:
        raise SourceError(
            f"this account cannot read any Confluence space{f' of {listing(missing)}' if missing else ''}", hint=hint
        )
    for key in missing:
        pages.skip(f"space {key}", "the account cannot read it in Confluence", missing=True)
    return [
        ResultWarning("space_not_seen", f"this account cannot read the Confluence space {key}", hint=hint)
        for key in missing
    ]


def _read_page(api: ConfluenceApi, listed: Thing, space: str, pages: PageFetch) -> None:
    page = str(listed.get("id"))
    path, moment = _path(page), _moment(listed)
    if pages.unchanged(path, moment) or not pages.may_read(path):
        return
    found = api.page(page)
    if found is None:
        pages.skip(f"page {page}", "the account cannot read it in Confluence")
        return
    storage = _storage(found)
    if is_cut(storage):
        pages.skip(f"the rest of page {page}", "it is too long to read in full")
    pages.put(path, _file(found, storage, space, pages.site), _moment(found) or moment)


def _moment(page: Thing) -> str:
    """Return the attributes that change whenever a page does: its version, name and location."""
    version = page.get("version")
    if not isinstance(version, Mapping):
        return ""
    parts = (version.get("number"), version.get("createdAt"), page.get("parentId"), page.get("title"))
    return " ".join(str(part) for part in parts if part)


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


_PAGE_SIZE: Final = 250
_NOT_SEEN: Final = (403, 404)

Thing = Mapping[str, Any]


class ConfluenceApi:
    """Confluence API objects."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    def spaces(self, keys: Sequence[str]) -> Iterator[Thing]:
        """Yield the spaces with these keys that the account can read, or all of them if no keys are given."""
        wanted = {"keys": ",".join(keys)} if keys else {"status": "current"}
        return self._listed("api/v2/spaces", wanted)

    def pages(self, space: str) -> Iterator[Thing]:
        """Yield the pages of a space, without their bodies."""
        return self._listed(f"api/v2/spaces/{quote(space, safe='')}/pages", {"status": "current"})

    def page(self, page: str) -> Thing | None:
        """Return a page with its body and labels, or None if the account cannot read it or it no longer exists."""
        asked = {"body-format": "storage", "include-labels": "true"}
        try:
            return _mapping(self._client.get(f"api/v2/pages/{quote(page, safe='')}", asked))
        except (HttpStatusError, HttpAuthError) as error:
            if error.status in _NOT_SEEN:
                return None
            raise

    def _listed(self, path: str, params: Mapping[str, str]) -> Iterator[Thing]:
        tokens, cursor = PageTokens("Confluence"), None
        while True:
            listed = _mapping(self._client.get(path, {**params, "limit": _PAGE_SIZE, "cursor": cursor}))
            yield from entries(listed, "results", "Confluence", f"GET /{path}")
            following = _cursor(listed)
            if following is None:
                return
            cursor = tokens.following(following)


def _cursor(listed: Thing) -> str | None:
    """Return the cursor of the next part, or None at the end."""
    links = listed.get("_links")
    following = links.get("next") if isinstance(links, Mapping) else None
    if not following:
        return None
    cursors = parse_qs(urlsplit(str(following)).query).get("cursor")
    if not cursors:
        raise SourceError("Confluence returned only a part of a list", hint="retry later")
    return cursors[0]


def _mapping(answer: Any) -> Thing:
    if not isinstance(answer, Mapping):
        raise SourceError("Confluence returned a response that is not a JSON object", hint="retry later")
    return answer


_RENAMED: Final = {
    "ac:plain-text-body": "pre",
    "ac:rich-text-body": "div",
    "ac:task-list": "ul",
    "ac:task": "li",
    "ac:layout-section": "div",
    "ac:layout-cell": "div",
}
_SILENT: Final = frozenset(
    ("ac:parameter", "ac:task-id", "ac:task-uuid", "ac:task-status", "ac:emoticon", "ac:placeholder")
)
"""Elements whose text belongs to the application, not the page."""

_PANELS: Final = {"info": "Info", "note": "Note", "warning": "Warning", "tip": "Tip"}


def body_markdown(storage: str) -> str:
    """Return the body of a page as Markdown, without content that a macro would compute."""
    return markdown_of(visible(_Converter().read(tokens(storage[:MAX_HTML]))))


def is_cut(storage: str) -> bool:
    """Return whether a body is too long to be read completely."""
    return len(storage) > MAX_HTML


class _Converter:
    def __init__(self) -> None:
        self._silent = ""
        self._parameter = ""
        self._status = ""
        self._target = ""
        self._languages: list[str] = []
        self._linked = False

    def read(self, stream: Iterable[Token]) -> Iterator[Token]:
        for token in stream:
            if self._silent:
                self._listen(token)
            elif token.name.startswith(("ac:", "ri:")):
                yield from self._special(token)
            else:
                self._linked = self._linked or (token.kind == "text" and bool(token.value.strip()))
                yield token

    def _listen(self, token: Token) -> None:
        """Keep the relevant content of a hidden element: a code block's language or a task's status."""
        if token.kind == "end" and token.name == self._silent:
            self._silent = self._parameter = ""
        elif token.kind == "text" and self._parameter == "language" and self._languages:
            self._languages[-1] = token.value.strip()
        elif token.kind == "text" and self._silent == "ac:task-status":
            self._status = token.value.strip()

    def _special(self, token: Token) -> Iterator[Token]:
        name, starts = token.name, token.kind == "start"
        if name in _SILENT:
            if starts and not token.empty:
                self._silent, self._parameter = name, token.attributes.get("ac:name", "")
        elif name in ("ac:structured-macro", "ac:macro"):
            yield from self._macro(token)
        elif name in ("ac:link", "ac:image"):
            yield from self._link(token)
        elif name.startswith("ri:") and starts:
            self._target = _named(token)
        elif name == "ac:task-body" and starts:
            yield text_token("[x] " if self._status == "complete" else "[ ] ")
        elif name in _RENAMED and not token.empty:
            yield self._renamed(token)

    def _renamed(self, token: Token) -> Token:
        name = _RENAMED[token.name]
        language = self._languages[-1] if self._languages and name == "pre" else ""
        attributes = {"class": f"language-{language}"} if language and token.kind == "start" else {}
        return Token(token.kind, name, attributes=attributes)

    def _macro(self, token: Token) -> Iterator[Token]:
        if token.empty:
            return
        if token.kind == "end":
            if self._languages:
                self._languages.pop()
            yield Token("end", "section")
            return
        self._languages.append("")
        yield Token("start", "section")
        label = _PANELS.get(token.attributes.get("ac:name", ""))
        if label:
            yield from (Token("start", "p"), Token("start", "strong"), text_token(f"{label}:"))
            yield from (Token("end", "strong"), Token("end", "p"))

    def _link(self, token: Token) -> Iterator[Token]:
        """Write the target of a link that does not have its own text."""
        if token.kind == "start":
            self._target, self._linked = "", False
        if (token.kind == "end" or token.empty) and self._target and not self._linked:
            yield text_token(self._target)


def _named(token: Token) -> str:
    """Return the name of a referenced page, file or address."""
    for key in ("ri:content-title", "ri:filename", "ri:value", "ri:space-key"):
        if token.attributes.get(key):
            return token.attributes[key]
    return ""
