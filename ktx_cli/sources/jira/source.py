"""Jira as a context source: which issues are read, and each of them as a document."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ktx_cli.core import Hint, ResultWarning, SecretError, SettingPath, SourceError, listing
from ktx_cli.documents import markdown_of, read_document, tokens, visible, with_front_matter
from ktx_cli.project import is_reference
from ktx_cli.project import remember as remember_secret
from ktx_cli.project import resolve as resolve_secret
from ktx_cli.sources.document_units import PAGES, DocumentSource, document_units
from ktx_cli.sources.fetch import PageFetch
from ktx_cli.sources.http import CHECKING, HttpClient, Site
from ktx_cli.sources.jira.adf import adf_markdown
from ktx_cli.sources.jira.api import Issue, JiraApi
from ktx_cli.sources.port import FetchContext, Projection

if TYPE_CHECKING:
    from ktx_cli.documents import Changes, RawFile, Snapshot, WorkUnit

DEFAULT_JQL: Final = "statusCategory = Done AND issuetype in standardIssueTypes()"

MIN_LETTERS: Final = 40
"""The minimum number of letters and digits in description and comments; an issue with fewer contains no knowledge."""

MAX_DESCRIPTION: Final = 100_000
MAX_COMMENT: Final = 10_000
MAX_LINKS: Final = 30
MAX_HTML: Final = 500_000

_HINT: Final = "check the keys and the permissions of the account"


class JiraSource(DocumentSource):
    """The driver `jira`. `sleep` can be replaced in tests."""

    kind: ClassVar[str] = "jira"
    skills: ClassVar[tuple[str, ...]] = ("jira_ingest", "wiki_capture")

    def __init__(self, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read the changes since the last fetch. After a `SourceError` or `NotReadyError`, nothing has changed."""
        site = _site(entry, context)
        with HttpClient(site, stopped=context.stopped, emit=context.emit, sleep=self._sleep) as client:
            api = JiraApi(client, is_cloud=bool(entry.email))
            return _read(api, entry, PageFetch(context, site.base_url, entry.max_pages, noun="issue"))

    def check(self, entry: Any, context: FetchContext) -> str:
        """Implements `Source`."""
        site = _site(entry, context)
        with HttpClient(site, policy=CHECKING, emit=context.emit, sleep=self._sleep) as client:
            account = JiraApi(client, is_cloud=bool(entry.email)).account()
        return f"Jira at {site.base_url}, as {account}"

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return one unit per issue, with the small issues of an epic, or of a project without one, combined."""

        def depends(raw: RawFile) -> Iterable[str]:
            path = _path(read_document(raw).parent or "")
            return [path] if path in snapshot.files else []

        return document_units(snapshot, changes, PAGES, _group_of, depends)


def _group_of(raw: RawFile) -> str:
    """Return the epic of an issue, or its project."""
    issue = read_document(raw)
    return str(issue.properties.get("epic") or issue.properties.get("project") or "")


def _site(entry: Any, context: FetchContext) -> Site:
    where = f"connections.{context.connection}"
    key = "api_token" if entry.api_token or not entry.api_token_ref else "api_token_ref"
    if not getattr(entry, key):
        hint = Hint("set `{}`, for example to env:JIRA_TOKEN", SettingPath(f"{where}.api_token"))
        raise SecretError(f"{where} has no API token", hint=hint)

    def resolved(value: str, key: str) -> str:
        if key in ("email", "base_url") and not is_reference(value):
            return value
        place = f"{where}.{key}"
        return resolve_secret(value, project_dir=context.layout.root, environ=context.environ, where=place).strip()

    token = resolved(getattr(entry, key), key)
    headers = {"Authorization": f"Bearer {token}"}
    if entry.email:
        basic = base64.b64encode(f"{resolved(entry.email, 'email')}:{token}".encode()).decode()
        remember_secret(basic)
        headers = {"Authorization": f"Basic {basic}"}
    address = resolved(entry.base_url, "base_url").rstrip("/")
    return Site("Jira", where, address, headers, credential=key)


def jql_of(projects: Sequence[str], jql: str | None, *, labels: Sequence[str] = (), since: str | None = None) -> str:
    """Return the query for the issues of a connection. An order in the configured query is replaced."""
    parts = [f"project in ({', '.join(map(_quoted, projects))})"] if projects else []
    parts += [f"labels in ({', '.join(map(_quoted, labels))})"] if labels else []
    parts += [f"updated >= {_quoted(since)}"] if since else []
    wanted = _without_order(jql or ("" if labels else DEFAULT_JQL)).strip()
    parts += [f"({wanted})"] if wanted else []
    return " AND ".join(parts) + " ORDER BY key ASC"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


_QUOTED_OR_ORDER: Final = re.compile(
    r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(?P<order>\border\s+by\b)""", re.IGNORECASE | re.DOTALL
)


def _without_order(jql: str) -> str:
    order = next((found for found in _QUOTED_OR_ORDER.finditer(jql) if found["order"]), None)
    return jql[: order.start()] if order else jql


def _read(api: JiraApi, entry: Any, pages: PageFetch) -> Snapshot:
    api.account()  # With a token that has expired, some sites answer searches as for anonymous users: with nothing.
    projects = [key for key in entry.projects if api.has_project(key)]
    warnings = _unseen(entry.projects, projects, pages)
    skipped = {name.casefold() for name in entry.skip_resolutions}
    found = api.listed(jql_of(projects, entry.jql, labels=entry.labels, since=entry.since))
    if not found.is_whole:
        pages.skip("some issues", "issues changed while Jira listed them", missing=True)
    ids = {issue.key: issue.id for issue in found.issues}
    for issue in found.issues:
        if issue.resolution.casefold() not in skipped and not issue.is_restricted:
            _read_issue(api, issue, ids, entry.max_comments, pages)
    return pages.snapshot(f"Jira, {listing(projects) if projects else 'selected issues'}", warnings)


def _unseen(keys: Sequence[str], seen: Sequence[str], pages: PageFetch) -> list[ResultWarning]:
    """Record the projects that cannot be read. Raises `SourceError` if there are no others."""
    missing = [key for key in keys if key not in seen]
    if missing and not seen:
        raise SourceError(f"this account cannot read any Jira project of {listing(missing)}", hint=_HINT)
    for key in missing:
        pages.skip(f"project {key}", "the account cannot read it in Jira", missing=True)
    return [
        ResultWarning("project_not_seen", f"this account cannot read the Jira project {key}", hint=_HINT)
        for key in missing
    ]


def _read_issue(api: JiraApi, listed: Issue, ids: Mapping[str, str], max_comments: int, pages: PageFetch) -> None:
    path = _path(listed.id)
    if pages.unchanged(path, listed.updated) or not pages.may_read(path):
        return
    found = api.issue(listed.id)
    if found is None:
        pages.skip(f"issue {listed.key}", "the account cannot read it in Jira")
        return
    description, comments = api.texts(found, max_comments)
    texts = [_markdown(description)[:MAX_DESCRIPTION]]
    texts += [f"### {day}\n\n{text}" for day, body in comments if (text := _markdown(body)[:MAX_COMMENT].strip())]
    if sum(map(str.isalnum, "".join(texts))) < MIN_LETTERS:
        pages.omit(path, listed.updated)
        return
    links = list(_links(found))
    body = [texts[0]]
    body += ["## Links\n\n" + "\n".join(f"- {link}" for link in links)] if links else []
    body += ["## Comments\n\n" + "\n\n".join(texts[1:])] if texts[1:] else []
    pages.put(path, with_front_matter(_front(found, listed, ids, pages.site), "\n\n".join(body)), listed.updated)


def _markdown(body: Any) -> str:
    """Return a text of Jira Cloud, which is a document, or of Jira Data Center, which is HTML, as Markdown."""
    return markdown_of(visible(tokens(body[:MAX_HTML]))).strip() if isinstance(body, str) else adf_markdown(body)


def _front(issue: Mapping[str, Any], listed: Issue, ids: Mapping[str, str], site: str) -> dict[str, Any]:
    fields = issue["fields"]
    parent = fields.get("parent") or {}
    properties = {
        "key": listed.key,
        "project": listed.key.rpartition("-")[0],
        "epic": parent.get("key"),
        "type": _name(fields.get("issuetype")),
        "status": _name(fields.get("status")),
        "resolution": listed.resolution,
        "components": sorted(filter(None, map(_name, _list(fields.get("components"))))),
        "labels": sorted(map(str, _list(fields.get("labels")))),
        "versions": sorted(filter(None, map(_name, _list(fields.get("fixVersions"))))),
    }
    front = {
        "id": listed.id,
        "title": f"{listed.key} {' '.join(str(fields.get('summary') or 'Untitled').split())}",
        "url": f"{site}/browse/{listed.key}",
        "parent": str(parent.get("id") or ids.get(str(parent.get("key")), "")),
        "date": str(fields.get("resolutiondate") or "")[:10],
        "properties": {key: value for key, value in properties.items() if value},
    }
    return {key: value for key, value in front.items() if value}


def _links(issue: Mapping[str, Any]) -> Iterator[str]:
    """Yield the links to other issues, such as `blocks DATA-3: Refunds`."""
    for link in _list(issue["fields"].get("issuelinks"))[:MAX_LINKS]:
        kind = link.get("type") or {}
        for end in ("outward", "inward"):
            other = link.get(f"{end}Issue")
            if isinstance(other, Mapping):
                summary = " ".join(str((other.get("fields") or {}).get("summary") or "").split())
                yield f"{kind.get(end) or 'relates to'} {other.get('key')}{f': {summary}' if summary else ''}"


def _name(value: Any) -> str:
    return str(value.get("name") or "") if isinstance(value, Mapping) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _path(issue: str) -> str:
    return f"pages/{re.sub(r'[^A-Za-z0-9_-]', '_', issue)}.md"
