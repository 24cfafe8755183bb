"""The content of a Tableau site over its REST API, and what only the Metadata API knows about it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from ktx_cli.core import (
    CancelledError,
    ConfigError,
    Hint,
    ResultWarning,
    SecretError,
    SettingPath,
    SourceError,
    listing,
    plural,
)
from ktx_cli.project import is_reference
from ktx_cli.project import resolve as resolve_secret
from ktx_cli.semantic import parse_document
from ktx_cli.sources.fetch import PageFetch, PageTokens, entries, mappings, render
from ktx_cli.sources.http import HttpAuthError, HttpClient, HttpStatusError, Site
from ktx_cli.sources.tableau.documents import plain_document

if TYPE_CHECKING:
    from ktx_cli.documents import Snapshot
    from ktx_cli.sources.port import FetchContext

VERSION: Final = "3.15"
"""The version of the REST API, of Tableau 2022.1; newer servers answer it too."""

CATALOG: Final = "catalog/"
"""The folder of the raw files about data sources and workbooks, as opposed to their own files."""

PAGE_SIZE: Final = 1000
CATALOG_PAGE: Final = 100
MAX_DENIED: Final = 200
"""The number of files without permission to download whose fields are read from the Metadata API instead."""

Kind = Literal["datasources", "workbooks"]
Thing = Mapping[str, Any]

_KINDS: Final[Mapping[Kind, str]] = {"datasources": "datasource", "workbooks": "workbook"}
_SUFFIXES: Final[Mapping[Kind, str]] = {"datasources": ".tds", "workbooks": ".twb"}
_FACTS: Final[Mapping[Kind, str]] = {
    "datasources": "downstreamWorkbooks { name }",
    "workbooks": "upstreamDatasources { name }",
}
_CONNECTIONS: Final[Mapping[Kind, str]] = {
    "datasources": "publishedDatasourcesConnection",
    "workbooks": "workbooksConnection",
}
_FIELDS: Final = "fields { name description isHidden ... on CalculatedField { formula } }"
_DENIED: Final = (403, 404)
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Item:
    """A published data source or a workbook in a list of the REST API. `stem`: the name of its raw files."""

    kind: Kind
    id: str
    name: str
    stem: str
    updated: str
    project: str
    facts: Thing = field(repr=False)

    @property
    def path(self) -> str:
        """The raw file with its document."""
        return f"{self.kind}/{self.stem}{_SUFFIXES[self.kind]}"

    @property
    def catalog_path(self) -> str:
        """The raw file with the facts about it."""
        return f"{CATALOG}{self.kind}/{self.stem}.json"


class TableauApi:
    """Requests to a site, read-only, as the owner of a personal access token."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self._site = ""

    def sign_in(self, name: str, secret: str, site: str) -> None:
        """Sign in to a site. Raises `HttpAuthError` for a token that the server rejects."""
        token = {"personalAccessTokenName": name, "personalAccessTokenSecret": secret, "site": {"contentUrl": site}}
        found = _mapping(self._client.post(f"api/{VERSION}/auth/signin", {"credentials": token})).get("credentials")
        inner = found if isinstance(found, Mapping) else {}
        session, place = inner.get("token"), inner.get("site")
        if not isinstance(session, str) or not isinstance(place, Mapping):
            raise SourceError("Tableau returned no session for the personal access token", hint="retry later")
        self._site = quote(str(place.get("id")), safe="")
        self._client.use_headers({"X-Tableau-Auth": session})

    def items(self, kind: Kind) -> tuple[list[Item], bool]:
        """Return the data sources or workbooks of the site, and whether the list is whole."""
        listed, is_whole = self._listed(kind, _KINDS[kind], {"sort": "createdAt:asc"})
        stems: set[str] = set()
        items = []
        for each in sorted(listed, key=lambda each: str(each.get("id"))):
            stem = re.sub(r"[^\w.-]", "_", str(each.get("contentUrl") or ""))[:150].strip(".")
            stem = str(each.get("id")) if not stem or stem.casefold() in stems else stem
            stems.add(stem.casefold())
            project = each.get("project")
            place = str(project.get("name") or "") if isinstance(project, Mapping) else ""
            name = " ".join(str(each.get("name") or "Untitled").split())
            items.append(Item(kind, str(each.get("id")), name, stem, str(each.get("updatedAt") or ""), place, each))
        return items, is_whole

    def views(self) -> dict[str, int]:
        """Return how often the views of each workbook were opened, by its ID; empty if the token may not know that."""
        counts: dict[str, int] = {}
        try:
            listed, _ = self._listed("views", "view", {"includeUsageStatistics": "true", "sort": "createdAt:asc"})
        except (HttpStatusError, HttpAuthError) as error:
            if error.status in _DENIED:
                return counts
            raise
        for each in listed:
            workbook, usage = each.get("workbook"), each.get("usage")
            if isinstance(workbook, Mapping) and isinstance(usage, Mapping):
                count = str(usage.get("totalViewCount") or "0")
                id = str(workbook.get("id"))
                counts[id] = counts.get(id, 0) + (int(count) if count.isdecimal() else 0)
        return counts

    def content(self, item: Item) -> bytes | None:
        """Return the file of a data source or a workbook without its extracts, or None if downloads are not allowed."""
        path = f"api/{VERSION}/sites/{self._site}/{item.kind}/{quote(item.id, safe='')}/content"
        try:
            return self._client.send("GET", path, params={"includeExtract": "false"}, headers={"Accept": "*/*"}).content
        except (HttpStatusError, HttpAuthError) as error:
            if error.status in _DENIED:
                return None
            raise

    def catalog(self, kind: Kind) -> tuple[dict[str, Thing], str]:
        """Return the facts of the Metadata API by the ID of the REST API, and their problems, or an empty text.

        Raises `HttpStatusError` or `HttpAuthError` if the API is not available.
        """
        found: dict[str, Thing] = {}
        problem, after, tokens = "", None, PageTokens("Tableau")
        facts = "luid description owner { name } upstreamTables { name schema description database { name } }"
        query = (
            f"query ktx($first: Int!, $after: String) {{ {_CONNECTIONS[kind]}(first: $first, after: $after) "
            f"{{ nodes {{ {facts} {_FACTS[kind]} }} pageInfo {{ hasNextPage endCursor }} }} }}"
        )
        while True:
            data, error = self._asked(query, {"first": CATALOG_PAGE, "after": after})
            problem = problem or error
            part = data.get(_CONNECTIONS[kind])
            part = part if isinstance(part, Mapping) else {}
            nodes = (
                mappings(part.get("nodes"))
                if problem
                else entries(part, "nodes", "Tableau", f"the metadata of {kind}", id="")
            )
            found |= {str(node.get("luid")): node for node in nodes}
            info = part.get("pageInfo")
            following = info.get("endCursor") if isinstance(info, Mapping) and info.get("hasNextPage") else None
            if following is None:
                return found, problem
            after = tokens.following(following)

    def fields(self, item: Item) -> list[Thing]:
        """Return the fields of a data source, or of the data sources in a workbook, with their formulas."""
        inner = _FIELDS if item.kind == "datasources" else f"embeddedDatasources {{ {_FIELDS} }}"
        name = "publishedDatasources" if item.kind == "datasources" else "workbooks"
        query = f"query ktx($luid: String!) {{ {name}(filter: {{luid: $luid}}) {{ {inner} }} }}"
        data, _ = self._asked(query, {"luid": item.id})
        sources = mappings(data.get(name))
        if item.kind == "workbooks":
            sources = [each for one in sources for each in mappings(one.get("embeddedDatasources"))]
        return [each for one in sources for each in mappings(one.get("fields"))]

    def _asked(self, query: str, variables: Thing) -> tuple[Thing, str]:
        """Return the data of a query, and the first error beside it. Raises `SourceError` if there is no data."""
        found = _mapping(self._client.post("api/metadata/graphql", {"query": query, "variables": variables}))
        errors = mappings(found.get("errors"))
        problem = str(errors[0].get("message") or "unknown error") if errors else ""
        data = found.get("data")
        if not isinstance(data, Mapping):
            raise SourceError(
                f"the Metadata API of Tableau failed: {problem or 'it returned no data'}", hint="retry later"
            )
        return data, problem

    def _listed(self, kind: str, noun: str, params: Thing) -> tuple[list[Thing], bool]:
        """Return the objects of a paged list, and whether it is whole. Raises `SourceError` for half a list."""
        found: dict[str, Thing] = {}
        tokens, number, seen = PageTokens("Tableau"), 0, 0
        while True:
            number += 1
            asked = {**params, "pageSize": PAGE_SIZE, "pageNumber": tokens.following(number)}
            page = _mapping(self._client.get(f"api/{VERSION}/sites/{self._site}/{kind}", asked))
            block = page.get(kind)
            part = (
                entries(block, noun, "Tableau", f"the list of {kind}")
                if isinstance(block, Mapping) and noun in block
                else []
            )
            found |= {str(each.get("id")): each for each in part}
            seen += len(part)
            paging = page.get("pagination")
            total = str(paging.get("totalAvailable")) if isinstance(paging, Mapping) else ""
            if not total.isdecimal() or (seen < int(total) and not part):
                raise SourceError(f"Tableau returned only a part of the list of {kind}", hint="retry later")
            if seen >= int(total):
                return list(found.values()), len(found) == int(total)


def site_of(entry: Any, context: FetchContext) -> tuple[Site, str, str]:
    """Return the site of a connection, and the name and the secret of its token. Raises `SecretError`."""
    where = f"connections.{context.connection}"
    for key in ("token_name", "token_secret"):
        if not getattr(entry, key):
            hint = Hint("set `{}` and `{}`", SettingPath(f"{where}.token_name"), SettingPath(f"{where}.token_secret"))
            raise SecretError(f"{where} has no personal access token", hint=hint)
    name, address, secret = (
        resolve_secret(value, project_dir=context.layout.root, environ=context.environ, where=f"{where}.{key}").strip()
        if key == "token_secret" or is_reference(value)
        else value
        for key, value in (
            ("token_name", entry.token_name), ("server_url", entry.server_url), ("token_secret", entry.token_secret)
        )
    )  # fmt: skip
    return Site("Tableau", where, address.rstrip("/"), credential="token_secret", address="server_url"), name, secret


def read_site(api: TableauApi, entry: Any, context: FetchContext, site: Site) -> Snapshot:
    """Read the changed files of a site, and the facts about all of them.

    Raises `SourceError` if the token can see nothing, because nothing may be deleted then.
    """
    pages = PageFetch(context, f"{site.base_url} {entry.site}", entry.max_files, noun="file")
    items: list[Item] = []
    for kind in _KINDS:
        listed, is_whole = api.items(kind)
        items += listed
        if not is_whole:
            pages.skip(f"some {kind}", "they changed while Tableau listed them", missing=True)
    chosen, warnings = _chosen(items, entry.projects, pages)
    reader = _Reader(api, pages, api.views())
    warnings += reader.read_catalogs()
    for item in chosen:
        if context.stopped():
            raise CancelledError("stopped while reading Tableau")
        reader.read(item)
    reader.report_denied()
    return pages.snapshot(f"Tableau at {site.base_url}{f', site {entry.site}' if entry.site else ''}", warnings)


def _chosen(items: list[Item], projects: list[str], pages: PageFetch) -> tuple[list[Item], list[ResultWarning]]:
    """Return the items of the configured projects. A project without any may not be visible, so nothing is deleted."""
    wanted = {name.casefold() for name in projects}
    chosen = [item for item in items if not wanted or item.project.casefold() in wanted]
    seen = {item.project.casefold() for item in chosen}
    missing = [name for name in projects if name.casefold() not in seen]
    if not chosen:
        what = f" in the projects {listing(projects)}" if projects else ""
        message = f"the token cannot see any data source or workbook{what} in Tableau"
        raise SourceError(message, hint="check the permissions of its owner and the names of the projects")
    for name in missing:
        pages.skip(f"project {name}", "the token cannot see any content in it", missing=True)
    hint = "check the name of the project and the permissions of the owner of the token"
    return chosen, [
        ResultWarning("project_not_seen", f"the token cannot see any content in the Tableau project {name}", hint=hint)
        for name in missing
    ]


class _Reader:
    """Reads the files and the facts of items."""

    def __init__(self, api: TableauApi, pages: PageFetch, views: Mapping[str, int]) -> None:
        self._api, self._pages, self._views = api, pages, views
        self._catalogs: dict[Kind, dict[str, Thing]] = {}
        self._denied: list[str] = []
        self._has_catalog = True

    def read_catalogs(self) -> list[ResultWarning]:
        """Ask the Metadata API about everything. Returns a warning if it is not available, or knows only a part."""
        try:
            found = {kind: self._api.catalog(kind) for kind in _KINDS}
        except (HttpStatusError, HttpAuthError) as error:
            if error.status not in (400, 403, 404):
                raise
            self._has_catalog = False
            message = "the Metadata API of Tableau is not available, so lineage and owners are missing"
            hint = "enable the Metadata API on the server, for example with `tsm maintenance metadata-services enable`"
            return [ResultWarning("metadata_missing", message, hint=hint)]
        self._catalogs = {kind: catalog for kind, (catalog, _) in found.items()}
        problems = [problem for _, problem in found.values() if problem]
        message = (
            f"the Metadata API of Tableau returned only a part of what it knows: {problems[0]}" if problems else ""
        )
        return [ResultWarning("metadata_partial", message, hint="the next run asks again")] if problems else []

    def read(self, item: Item) -> None:
        """Add the file of an item if it changed, and the facts about it."""
        fields = self._file(item)
        content = render(self._facts(item, fields))
        moment = hashlib.sha256(content).hexdigest()
        if not self._pages.unchanged(item.catalog_path, moment):
            self._pages.put(item.catalog_path, content, moment, was_requested=False)

    def report_denied(self) -> None:
        """Report the files that the token may not download, in one line."""
        if self._denied:
            names = listing(sorted(self._denied), _MOST_NAMED)
            what = f"{plural(len(self._denied), 'file')} ({names})"
            self._pages.skip(what, "the owner of the token may not download them; ktx reads only their metadata")

    def _file(self, item: Item) -> list[Thing]:
        """Add the file of an item, and return its fields if it may not be downloaded."""
        moment = f"{item.updated} {item.name}" if item.updated else ""
        if self._pages.unchanged(item.path, moment) or not self._pages.may_read(item.path):
            return []
        content = self._api.content(item)
        if content is None:
            self._denied.append(f"{item.project}/{item.name}")
            readable = self._has_catalog and len(self._denied) <= MAX_DENIED
            return self._api.fields(item) if readable else []
        try:
            packed = f"{item.path}x" if content.startswith(b"PK") else item.path
            text = _without_refreshes(plain_document(packed, content))
            parse_document(text, item.path)
        except ConfigError as error:
            self._pages.keep(item.path)
            self._pages.skip(item.path, str(error.details.get("reason", error.message)))
            return []
        self._pages.put(item.path, text.encode(), moment)
        return []

    def _facts(self, item: Item, fields: list[Thing]) -> dict[str, Any]:
        """Return the facts about an item that are not in its file. Counts are rounded, so that they change rarely."""
        known, listed = self._catalogs.get(item.kind, {}).get(item.id, {}), item.facts
        owner = known.get("owner")
        facts = {
            "kind": "data source" if item.kind == "datasources" else "workbook",
            "name": item.name,
            "project": item.project,
            "url": listed.get("webpageUrl"),
            "description": str(listed.get("description") or known.get("description") or "").strip(),
            "owner": owner.get("name") if isinstance(owner, Mapping) else None,
            "certified": listed.get("isCertified") is True,
            "certification_note": str(listed.get("certificationNote") or "").strip(),
            "tables": sorted(_tables(known), key=lambda each: each["table"]),
            "data_sources": _names(known.get("upstreamDatasources")),
            "workbooks": _names(known.get("downstreamWorkbooks")),
            "opened": _rounded(self._views.get(item.id, 0)) if item.kind == "workbooks" else "",
            "fields": sorted(map(_field, fields), key=lambda each: (each["name"], each.get("formula", ""))),
        }
        return {key: value for key, value in facts.items() if value}


def _tables(known: Thing) -> Iterator[dict[str, Any]]:
    for each in mappings(known.get("upstreamTables")):
        database = each.get("database")
        parts = (database.get("name") if isinstance(database, Mapping) else None, each.get("schema"), each.get("name"))
        named = [str(part) for part in parts if part]
        if named:
            yield {"table": ".".join(named), "parts": named, "description": str(each.get("description") or "").strip()}


def _names(value: Any) -> list[str]:
    return sorted({str(each.get("name")) for each in mappings(value) if each.get("name")})


def _field(found: Thing) -> dict[str, str]:
    facts = {key: str(found.get(key) or "").strip() for key in ("name", "description", "formula")}
    return {key: value for key, value in facts.items() if value or key == "name"}


def _rounded(count: int) -> str:
    """Return a count of views as a power of ten: `100 times or more`."""
    return f"{10 ** (len(str(count)) - 1):,} times or more" if count > 0 else ""


_REFRESH: Final = re.compile(r"<refresh-event\b[^>]*/>")


def _without_refreshes(text: str) -> str:
    """Return a document without the times at which extracts were refreshed; lines keep their numbers."""
    return _REFRESH.sub(lambda found: "\n" * found[0].count("\n"), text)


def _mapping(answer: Any) -> Thing:
    if not isinstance(answer, Mapping):
        raise SourceError("Tableau returned a response that is not a JSON object", hint="retry later")
    return answer
