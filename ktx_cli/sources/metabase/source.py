"""The Metabase source: read the API, write its texts, and divide changes into units."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ktx_cli.core import ConfigError, Hint, SettingPath, listing, one_line, plural
from ktx_cli.documents import Changes, Snapshot, WorkUnit
from ktx_cli.project import is_reference
from ktx_cli.project import resolve as resolve_secret
from ktx_cli.sources.http import CHECKING, HttpClient, RetryPolicy, Site
from ktx_cli.sources.metabase import MetabaseConnection
from ktx_cli.sources.metabase import fetch as fetching
from ktx_cli.sources.metabase.fetch import DATABASES, USAGE_PATH, Metabase, card_path, collection_path, database_path
from ktx_cli.sources.port import FetchContext, ProjectContext, Projection, Source
from ktx_cli.sources.table_texts import TableText, write_texts

if TYPE_CHECKING:
    from ktx_cli.scan import Declarations

Open = Callable[[Site, RetryPolicy, FetchContext], HttpClient]


def open_http(site: Site, policy: RetryPolicy, context: FetchContext) -> HttpClient:
    """Return the client for a fetch."""
    return HttpClient(site, policy=policy, stopped=context.stopped, emit=context.emit)


class MetabaseSource(Source):
    """A Metabase instance. `open_client` can be replaced in tests."""

    kind: ClassVar[str] = "metabase"
    declares_first: ClassVar[bool] = True
    skills: ClassVar[tuple[str, ...]] = ("metabase_ingest",)

    def __init__(self, open_client: Open = open_http) -> None:
        self._open = open_client

    def fetch(self, entry: MetabaseConnection, context: FetchContext) -> Snapshot:
        """Read Metabase. Unchanged cards come from the raw store."""
        site = _site(entry, context)
        # Metabase also returns 500 for a card without SQL, so frequent retries are useless.
        with (
            self._open(site, RetryPolicy(), context) as patient,
            self._open(site, RetryPolicy(tries=2), context) as brief,
        ):
            return fetching.fetch(entry, context, Metabase(patient, brief), site.base_url.rstrip("/"))

    def check(self, entry: MetabaseConnection, context: FetchContext) -> str:
        """Implements `Source`."""
        site = _site(entry, context)
        with self._open(site, CHECKING, context) as client:
            found = Metabase(client, client).databases()
        return f"Metabase at {site.base_url.rstrip('/')}, with {plural(len(found), 'database')}"

    def declarations(self, entry: Any, snapshot: Snapshot) -> Declarations:
        """Return the tables by Metabase's IDs, and the columns that refer to others in its table metadata."""
        from ktx_cli.scan import Declarations, DeclaredJoin, DeclaredTable

        tables: dict[str, DeclaredTable] = {}
        joins: list[DeclaredJoin] = []
        for path, file in snapshot.files.items():
            for table in json.loads(file.read())["tables"] if path.startswith(DATABASES) else ():
                id = str(table["id"])
                tables[id] = DeclaredTable(str(table["name"]), str(table.get("schema") or ""))
                joins += [
                    DeclaredJoin(id, (str(each["column"]),), str(each["table"]), (str(each["to"]),))
                    for each in table.get("references", ())
                ]
        return Declarations(self.kind, tables, tuple(joins))

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write Metabase's texts about tables and columns."""
        return project(snapshot, context)

    def units(
        self, entry: MetabaseConnection, snapshot: Snapshot, changes: Changes, projection: Projection
    ) -> tuple[WorkUnit, ...]:
        """Return a unit for each collection with cards that changed."""
        return units(entry, snapshot, changes)


def _site(entry: MetabaseConnection, context: FetchContext) -> Site:
    where = f"connections.{entry.id}"

    def resolved(value: str, key: str) -> str:
        return resolve_secret(
            value, project_dir=context.layout.root, environ=context.environ, where=f"{where}.{key}"
        ).strip()

    key = "api_key" if entry.api_key or not entry.api_key_ref else "api_key_ref"
    given = entry.api_key or entry.api_key_ref
    if not given:
        message = f"`{where}` has no API key"
        raise ConfigError(message, hint=Hint("set `{}` to env:METABASE_API_KEY", SettingPath(f"{where}.api_key")))
    return Site(
        name="Metabase",
        where=where,
        base_url=resolved(entry.api_url, "api_url") if is_reference(entry.api_url) else entry.api_url.strip(),
        headers={"x-api-key": resolved(given, key)},
        credential=key,
        address="api_url",
        proxy=entry.network_proxy,
    )


CARDS_PER_UNIT: Final = 25
"""The maximum number of cards per unit. Larger collections are split by id, so that new cards do not move others."""

_Cards = Mapping[str, Mapping[str, Any]]


def units(entry: MetabaseConnection, snapshot: Snapshot, changes: Changes) -> tuple[WorkUnit, ...]:
    """Return the units, ordered by collection ID."""
    touched = frozenset(path for path in changes.touched if path.startswith("cards/"))
    if not touched:
        return ()
    cards = {p: json.loads(file.read()) for p, file in snapshot.files.items() if p.startswith("cards/")}
    by_place: dict[int | None, list[str]] = {}
    for path in sorted(cards, key=lambda path: int(cards[path]["id"])):
        by_place.setdefault(cards[path].get("collection_id"), []).append(path)
    made = (
        _unit(entry, place, number, paths, [path for path in part if path in touched], cards, snapshot)
        for place, paths in sorted(by_place.items(), key=lambda item: (item[0] is not None, item[0] or 0))
        for number, part in enumerate(_parts(paths), start=1)
        if not touched.isdisjoint(part)
    )
    return tuple(made)


def _parts(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(paths), CARDS_PER_UNIT):
        yield paths[start : start + CARDS_PER_UNIT]


def _unit(
    entry: MetabaseConnection,
    place: int | None,
    number: int,
    paths: Sequence[str],
    files: Sequence[str],
    cards: _Cards,
    snapshot: Snapshot,
) -> WorkUnit:
    own = collection_path(place)
    document = json.loads(snapshot.files[own].read()) if own in snapshot.files else {}
    label = one_line(str(document.get("name") or f"collection {place}"), 80)
    key = f"collection-{'root' if place is None else place}"
    known = [path for path in files if "text" in cards[path]["sql"]]
    return WorkUnit(
        key=key if number == 1 else f"{key}-part-{number}",
        label=label if number == 1 else f"{label} ({number})",
        files=tuple(files),
        dependencies=tuple(_dependencies(own, files, cards, snapshot)),
        peers=tuple(path for path in paths if path not in files),
        notes=_notes(entry, files, cards),
        semantic=bool(known),
        why_not="" if known else f"the SQL of {plural(len(files), 'card')} is unknown",
    )


def _dependencies(own: str, files: Iterable[str], cards: _Cards, snapshot: Snapshot) -> Iterator[str]:
    """Yield files that may also be read: the collection, the databases, usage, and cards that the files depend on."""
    databases = {database_path(cards[path]["database_id"]) for path in files if cards[path].get("database_id")}
    control = [own, *sorted(databases), USAGE_PATH]
    yield from (path for path in control if path in snapshot.files)
    yield from _references(files, cards)


def _references(files: Iterable[str], cards: _Cards) -> list[str]:
    first = list(files)
    seen, stack = set(first), first
    while stack:
        named = map(card_path, cards[stack.pop()]["references"])
        new = [path for path in named if path in cards and path not in seen]
        seen.update(new)
        stack = [*stack, *new]
    return sorted(seen - set(files), key=lambda path: int(cards[path]["id"]))


def _notes(entry: MetabaseConnection, files: Iterable[str], cards: _Cards) -> str:
    connections = sorted({cards[path]["connection"] for path in files if cards[path].get("connection")})
    unknown = [f"{cards[path]['id']} ({cards[path]['sql']['why']})" for path in files if "why" in cards[path]["sql"]]
    lines = [f"Their tables are in: {', '.join(connections)}." if connections else ""]
    if unknown:
        lines.append(f"The SQL of these cards is unknown; do not guess it: {listing(unknown, 10)}.")
    if entry.mappings.default_tag_names:
        lines.append(f"Give pages these tags: {', '.join(entry.mappings.default_tag_names)}.")
    return "\n".join(line for line in lines if line)


_PLAIN: Final = frozenset(("source-table", "fields", "lib/type"))
"""Parts of a query that shows a table unchanged."""

_Tables = Mapping[tuple[int, int], tuple[str, tuple[str, ...]]]
"""Database and table ID -> connection, and the parts of the table's name."""


def project(snapshot: Snapshot, context: ProjectContext) -> Projection:
    """Write the texts. A model handles what the cards compute."""
    parsed = {path: json.loads(file.read()) for path, file in snapshot.files.items()}
    databases = {path: document for path, document in parsed.items() if path.startswith("databases/")}
    cards = {path: document for path, document in parsed.items() if path.startswith("cards/")}
    texts: dict[str, list[TableText]] = {}
    tables: dict[tuple[int, int], tuple[str, tuple[str, ...]]] = {}
    for path, database in databases.items():
        for table in database["tables"]:
            parts = tuple(str(table[key]) for key in ("schema", "name") if table.get(key))
            tables[database["id"], table["id"]] = database["connection"], parts
            if text := _text(table, parts, path):
                texts.setdefault(database["connection"], []).append(text)
    for connection, text in _models(cards, tables):
        texts.setdefault(connection, []).append(text)
    described = write_texts(context, "metabase", texts)
    control = (path for path in parsed if not path.startswith("cards/"))
    return Projection(
        artifacts=described.artifacts,
        owned=described.owned,
        report=described.report,
        handled=frozenset((*control, USAGE_PATH)) & frozenset(parsed),
        left=tuple(_left(cards, parsed)),
    )


def _text(table: Mapping[str, Any], parts: tuple[str, ...], raw: str) -> TableText | None:
    texts = (table.get(key) for key in ("description", "points_of_interest", "caveats"))
    description, columns = "\n\n".join(filter(None, texts)), _columns(table)
    return TableText(parts, raw, description or None, columns) if parts and (description or columns) else None


def _columns(document: Mapping[str, Any]) -> dict[str, str]:
    columns = document["columns"]
    return {str(each["name"]): each["description"] for each in columns if each.get("name") and each.get("description")}


def _models(cards: Mapping[str, Any], tables: _Tables) -> Iterator[tuple[str, TableText]]:
    """Yield the texts by models about the single table that they show, by ID."""
    for path, card in sorted(cards.items(), key=lambda item: item[1]["id"]):
        shown = _table_of(card)
        if card["type"] != "model" or shown is None or shown not in tables:
            continue
        connection, parts = tables[shown]
        columns = _columns(card)
        if card.get("description") or columns:
            yield connection, TableText(parts, path, card.get("description"), columns)


def _table_of(card: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the database and table of a card that only shows all rows of one table."""
    query = card["query"].get("query")
    if not isinstance(query, Mapping):
        return None
    stages = query.get("stages")
    asked = stages[0] if isinstance(stages, list) and len(stages) == 1 else query.get("query")
    if not isinstance(asked, Mapping) or not _PLAIN.issuperset(asked):
        return None
    table = asked.get("source-table")
    return (card["database_id"], table) if isinstance(table, int) else None


def _left(cards: Mapping[str, Any], parsed: Mapping[str, Any]) -> Iterator[str]:
    counted = Counter(collection_path(card.get("collection_id")) for card in cards.values())
    for path, count in sorted(counted.items()):
        name = one_line(str(parsed.get(path, {}).get("name") or path), 80)
        yield f"Metabase, {name}: what {plural(count, 'card')} compute, as measures and pages"
    metrics = [card for card in cards.values() if card["type"] == "metric"]
    if metrics:
        yield f"Metabase: {plural(len(metrics), 'metric')} as measures"
