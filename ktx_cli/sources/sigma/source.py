"""The Sigma source: read the API, write its texts, declare its relationships, and divide changes into units."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ktx_cli.core import ConfigError, Hint, SettingPath, one_line, plural
from ktx_cli.documents import Changes, Snapshot, WorkUnit
from ktx_cli.project import is_reference
from ktx_cli.project import resolve as resolve_secret
from ktx_cli.sources.http import HttpClient, Site
from ktx_cli.sources.port import FetchContext, ProjectContext, Projection, Source
from ktx_cli.sources.sigma import SigmaConnection
from ktx_cli.sources.sigma import fetch as fetching
from ktx_cli.sources.sigma.fetch import MODELS, WORKBOOKS, Sigma
from ktx_cli.sources.sigma.formulas import aggregate_of, columns_of
from ktx_cli.sources.table_texts import TableText, write_texts

if TYPE_CHECKING:
    from ktx_cli.scan import Declarations

Open = Callable[[Site, FetchContext], HttpClient]
_MOST_FORMULAS: Final = 40
"""The maximum number of formulas in the notes of a unit."""


def open_http(site: Site, context: FetchContext) -> HttpClient:
    """Return the client for a fetch."""
    return HttpClient(site, stopped=context.stopped, emit=context.emit)


class SigmaSource(Source):
    """A Sigma organization. `open_client` can be replaced in tests."""

    kind: ClassVar[str] = "sigma"
    declares_first: ClassVar[bool] = True
    skills: ClassVar[tuple[str, ...]] = ("sigma_ingest",)

    def __init__(self, open_client: Open = open_http) -> None:
        self._open = open_client

    def fetch(self, entry: SigmaConnection, context: FetchContext) -> Snapshot:
        """Read Sigma. Unchanged workbooks and data models come from the raw store."""
        with self._api(entry, context) as sigma:
            return fetching.fetch(entry, context, sigma, sigma.site.base_url)

    def check(self, entry: SigmaConnection, context: FetchContext) -> str:
        """Implements `Source`."""
        with self._api(entry, context) as sigma:
            sigma.login()
            return f"Sigma at {sigma.site.base_url}"

    @contextlib.contextmanager
    def _api(self, entry: SigmaConnection, context: FetchContext) -> Iterator[Sigma]:
        where = f"connections.{entry.id}"
        key = "client_secret" if entry.client_secret or not entry.client_secret_ref else "client_secret_ref"
        given = entry.client_secret or entry.client_secret_ref
        if not given:
            hint = Hint("set `{}` to env:SIGMA_CLIENT_SECRET", SettingPath(f"{where}.client_secret"))
            raise ConfigError(f"`{where}` has no client secret", hint=hint)

        def resolved(value: str, name: str) -> str:
            root, environ = context.layout.root, context.environ
            return resolve_secret(value, project_dir=root, environ=environ, where=f"{where}.{name}").strip()

        address = resolved(entry.api_url, "api_url") if is_reference(entry.api_url) else entry.api_url.strip()
        address = address.rstrip("/").removesuffix("/v2")
        site = Site("Sigma", where, address, credential=key, address="api_url")
        with self._open(site, context) as client:
            yield Sigma(client, resolved(entry.client_id, "client_id"), resolved(given, key))

    def declarations(self, entry: SigmaConnection, snapshot: Snapshot) -> Declarations:
        """Return the relationships between tables of data models."""
        from ktx_cli.scan import Declarations, DeclaredJoin, DeclaredTable

        tables: dict[str, DeclaredTable] = {}
        joins: dict[DeclaredJoin, None] = {}
        for path, document in _documents(snapshot, MODELS):
            ids = {each["id"]: f"{path}:{each['id']}" for each in document["elements"] if each.get("table")}
            for each in document["elements"]:
                if each.get("id") not in ids:
                    continue
                *outer, name = each["table"]
                mapped = _mapped(entry).get(each.get("connection", ""))
                databases = () if mapped is None else (mapped,)
                tables[ids[each["id"]]] = DeclaredTable(name, outer[-1] if outer else "", databases=databases)
                for relation in each.get("relationships", ()):
                    if relation["to"] in ids:
                        child, parent = ids[each["id"]], ids[relation["to"]]
                        columns, references = tuple(relation["columns"]), tuple(relation["references"])
                        joins[DeclaredJoin(child, columns, parent, references)] = None
        used = {id for each in joins for id in (each.child, each.parent)}
        return Declarations(self.kind, {id: each for id, each in tables.items() if id in used}, tuple(joins))

    def project(self, entry: SigmaConnection, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write the descriptions of tables and columns in data models."""
        return project(entry, snapshot, context)

    def units(
        self, entry: SigmaConnection, snapshot: Snapshot, changes: Changes, projection: Projection
    ) -> tuple[WorkUnit, ...]:
        """Return a unit for each workbook and data model that changed."""
        return units(entry, snapshot, changes)


def _mapped(entry: Any) -> dict[str, str | None]:
    """Return the connection of each mapped connection in Sigma."""
    return {**entry.connection_mappings, **entry.mappings.connection_mappings}


def _documents(snapshot: Snapshot, folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, file in snapshot.files.items():
        if path.startswith(folder):
            yield path, json.loads(file.read())


def project(entry: SigmaConnection, snapshot: Snapshot, context: ProjectContext) -> Projection:
    """Write the descriptions of tables and columns in data models, and describe what is left for agents."""
    databases = sorted(context.models)
    texts: dict[str, list[TableText]] = {}
    for path, document in _documents(snapshot, MODELS):
        for each in document["elements"]:
            connection = _connection(entry, each, databases)
            described = {
                column["column"]: column["description"]
                for column in each.get("columns", ())
                if "column" in column and "description" in column
            }
            if each.get("table") and connection in context.models and (described or each.get("description")):
                text = TableText(tuple(each["table"]), path, each.get("description"), described)
                texts.setdefault(connection, []).append(text)
    described_tables = write_texts(context, "sigma", texts)
    left = [
        f"{plural(count, noun)} with formulas and SQL that may define measures and segments"
        for folder, noun in ((MODELS, "data model"), (WORKBOOKS, "workbook"))
        if (count := sum(path.startswith(folder) for path in snapshot.files))
    ]
    artifacts, owned, report = described_tables.artifacts, described_tables.owned, described_tables.report
    return Projection(artifacts, owned, report, left=tuple(left))


def _connection(entry: SigmaConnection, element: Mapping[str, Any], databases: list[str]) -> str:
    """Return the connection of an element's table, or an empty text if it is unknown or skipped."""
    known = _mapped(entry)
    id = str(element.get("connection", ""))
    if id in known:
        return known[id] or ""
    return databases[0] if len(databases) == 1 else ""


def units(entry: SigmaConnection, snapshot: Snapshot, changes: Changes) -> tuple[WorkUnit, ...]:
    """Return the units, data models first, because workbooks build on them."""
    models = [path for path in snapshot.files if path.startswith(MODELS)]
    made = []
    for folder in (MODELS, WORKBOOKS):
        for path, document in _documents(snapshot, folder):
            if path not in changes.touched:
                continue
            label = one_line(f"{document['kind']} {document['name']}", 80)
            has_content = any(each.get("columns") or each.get("sql") for each in document["elements"])
            made.append(
                WorkUnit(
                    f"{document['kind'].replace(' ', '-')}-{document['id']}",
                    label,
                    (path,),
                    dependencies=tuple(each for each in models if each != path)[:20],
                    notes=_notes(entry, document),
                    semantic=has_content,
                    why_not="" if has_content else "it has no formula and no SQL",
                )
            )
    return tuple(made)


def _notes(entry: SigmaConnection, document: Mapping[str, Any]) -> str:
    """Return the notes for an agent: the tables and their connections, and the formulas with their descriptions."""
    lines = [f"Owner: {document['owner']}."] if document.get("owner") else []
    lines += [f"Tags: {', '.join(document['tags'])}."] if document.get("tags") else []
    for each in document["elements"]:
        if each.get("table"):
            connection = _mapped(entry).get(each.get("connection", ""))
            place = f" in the connection {connection}" if connection else ""
            lines.append(f"- `{each.get('name', each['table'][-1])}` is the table {'.'.join(each['table'])}{place}")
    formulas = [line for each in document["elements"] for line in _formulas(each)]
    if formulas:
        lines += ["Formulas:", *formulas[:_MOST_FORMULAS]]
    if len(formulas) > _MOST_FORMULAS:
        lines.append(f"- and {len(formulas) - _MOST_FORMULAS} more in the file")
    return "\n".join(lines)


def _formulas(element: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each metric and computed column of an element.

    Only an element that is a whole table has aggregates of its rows; others read joined or filtered ones.
    """
    is_table = bool(element.get("table")) and not element.get("filtered")
    known = columns_of(element.get("columns", ())) if is_table else {}
    computed = (each for each in element.get("columns", ()) if "column" not in each)
    for each in (*element.get("metrics", ()), *computed):
        if each.get("name") and each.get("formula"):
            exact = aggregate_of(each["formula"], known)
            meaning = f", exactly {exact}" if exact is not None else ""
            description = f" ({one_line(each['description'], 200)})" if each.get("description") else ""
            formula = one_line(each["formula"], 300)
            yield f"- {element.get('name', '?')}: {each['name']} = `{formula}`{meaning}{description}"
