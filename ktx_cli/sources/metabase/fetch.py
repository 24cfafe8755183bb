"""Write Metabase's raw files, without volatile fields. Only cards that changed are requested."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.core import ConfigError, Hint, ResultWarning, SettingPath, SourceError, did_you_mean, listing, one_line
from ktx_cli.documents import Snapshot
from ktx_cli.sources.fetch import ApiFetch, Document, mappings, require_shallow
from ktx_cli.sources.http import RETRIED, HttpAuthError, HttpClient, HttpStatusError, Site
from ktx_cli.sources.metabase import MetabaseConnection, MetabaseMappings
from ktx_cli.sources.metabase.queries import (
    Query,
    Reason,
    Resolver,
    Sql,
    UnresolvedError,
    cards_used,
    id_of,
    read_query,
    stored_query,
)
from ktx_cli.sources.port import FetchContext

_COLUMN_KEYS = ("name", "display_name", "description", "base_type", "semantic_type", "id")
_FIELD_KEYS = ("id", "name", "description", "semantic_type")
_TEXT_KEYS = ("description", "points_of_interest", "caveats")
_TABLE_KEYS = ("id", "schema", "name", "description", "points_of_interest", "caveats")


DATABASES: Final = "databases/"
"""The folder of the databases' raw files."""


def card_path(card: int) -> str:
    """Return the raw file of a card."""
    return f"cards/{card}.json"


def collection_path(collection: int | None) -> str:
    """Return the raw file of a collection; None is Metabase's root."""
    return f"collections/{'root' if collection is None else collection}.json"


def database_path(database: int) -> str:
    """Return the raw file of a database."""
    return f"{DATABASES}{database}.json"


@dataclass(frozen=True, slots=True)
class Card:
    """A card on its own: `facts` without its SQL, which also depends on other cards."""

    id: int
    facts: Mapping[str, Any]
    query: Query

    @property
    def references(self) -> tuple[int, ...]:
        """The cards that it directly depends on."""
        return cards_used(self.query)

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> Card:
        """Return a card from its API form."""
        query = read_query(answer.get("dataset_query"))
        database = id_of(answer.get("database_id")) if query.database is None else query.database
        query = Query(database, query.text, query.tags, query.built)
        facts = {
            "id": answer["id"],
            "name": _text(answer.get("name")),
            "description": _text(answer.get("description")),
            "type": _type(answer),
            "display": _text(answer.get("display")),
            "collection_id": id_of(answer.get("collection_id")),
            "database_id": database,
            "columns": [_described(each, _COLUMN_KEYS) for each in mappings(answer.get("result_metadata"))],
        }
        return cls(answer["id"], facts, query)

    @classmethod
    def stored(cls, document: Mapping[str, Any]) -> Card:
        """Return a card from its raw file."""
        facts = {key: value for key, value in document.items() if key not in ("query", "sql", "url", "connection")}
        facts.pop("references", None)
        return cls(document["id"], facts, stored_query(document.get("database_id"), document.get("query")))

    def document(self, site: str, connection: str | None, sql: Sql | UnresolvedError) -> Document:
        """Return the document for the card's raw file."""
        found = sql.to_json() if isinstance(sql, Sql) else {"unresolved": sql.reason.value, "why": sql.message}
        return {
            **self.facts,
            "connection": connection,
            "query": self.query.to_json(),
            "references": list(self.references),
            "sql": found,
            "url": f"{site}/question/{self.id}",
        }


def collection_document(collection: Mapping[str, Any] | None) -> Document:
    """Return the raw document of a collection; None is Metabase's root."""
    if collection is None:
        return {"id": "root", "name": "Our analytics", "description": None, "parent_id": None}
    return {
        "id": collection["id"],
        "name": _text(collection.get("name")),
        "description": _text(collection.get("description")),
        "parent_id": collection.get("parent_id"),
        "personal": collection.get("personal_owner_id") is not None,
    }


def database_document(database: Mapping[str, Any], connection: str, tables: Sequence[Mapping[str, Any]]) -> Document:
    """Return the raw document of a database: its tables with Metabase's texts, without addresses or users."""
    active = [table for table in tables if table.get("active", True)]
    fields = {
        number: (table["id"], str(each.get("name")))
        for table in active
        for each in _fields(table)
        if (number := id_of(each.get("id"))) is not None
    }
    return {
        "id": database["id"],
        "name": _text(database.get("name")),
        "engine": _text(database.get("engine")),
        "description": _text(database.get("description")),
        "connection": connection,
        "tables": [_table(table, fields) for table in active],
    }


def _fields(table: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for each in mappings(table.get("fields")) if each.get("active", True)]


def _table(table: Mapping[str, Any], fields: Mapping[int, tuple[Any, str]]) -> Document:
    """Return a table with the fields that have a description, and those that refer to another field.

    `fields`: ID of a field -> the ID of its table, and its name.
    """
    described = (_described(each, _FIELD_KEYS) for each in _fields(table))
    columns = sorted((each for each in described if "description" in each), key=lambda each: str(each.get("name")))
    ends = ((each, id_of(each.get("fk_target_field_id"))) for each in _fields(table))
    references = [
        {"column": str(each.get("name")), "table": fields[target][0], "to": fields[target][1]}
        for each, target in ends
        if target is not None and target in fields
    ]
    found = {**_described(table, _TABLE_KEYS), "columns": columns}
    return {**found, "references": sorted(references, key=str)} if references else found


def _described(value: Mapping[str, Any], keys: Sequence[str]) -> Document:
    """Return some fields of a mapping; fields with people's texts only if they are text."""
    found = _some(value, keys)
    texts = {key: _text(found.pop(key)) for key in _TEXT_KEYS if key in found}
    return {**found, **{key: text for key, text in texts.items() if text}}


def _type(answer: Mapping[str, Any]) -> str:
    """Return `question`, `model` or `metric`; older versions only have `dataset`."""
    return _text(answer.get("type")) or ("model" if answer.get("dataset") else "question")


def _some(value: Mapping[str, Any], keys: Sequence[str]) -> Document:
    return {key: value[key] for key in keys if value.get(key) not in (None, "")}


def _text(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


USAGE_PATH: Final = "usage.json"


def fetch(entry: MetabaseConnection, context: FetchContext, api: Metabase, site: str) -> Snapshot:
    """Return the current content of Metabase. `site` is its address."""
    return _Fetch(entry, context, api, site).snapshot()


class _Fetch:
    def __init__(self, entry: MetabaseConnection, context: FetchContext, api: Metabase, site: str) -> None:
        self._entry, self._api, self._site = entry, api, site
        self._gathered = ApiFetch(context, site)
        self._cards: dict[int, Card] = {}
        self._known: dict[str, str] = {}

    def snapshot(self) -> Snapshot:
        databases = self._api.databases()
        mapped = mapped_databases(self._entry, databases)
        for database in databases:
            if database["id"] in mapped:
                self._database(database, mapped[database["id"]])
        collections = self._api.collections()
        selection = read_selection(self._entry, collections, self._api.dashboard_cards)
        listed = self._api.cards()
        wanted = [card.id for card in listed if card.database in mapped and selection.wants(card)]
        self._read_all({card.id: card.moment for card in listed}, wanted)
        warnings = [*self._write(mapped), *_unmapped(self._entry, databases)]
        self._collections(collections)
        self._usage(listed)
        return self._gathered.snapshot(f"Metabase at {self._site}", warnings)

    def _database(self, database: Mapping[str, Any], connection: str) -> None:
        path = database_path(database["id"])
        try:
            tables = self._api.tables(database["id"])
        except (SourceError, HttpAuthError) as error:
            self._gathered.skip(path, error)
        else:
            self._gathered.put(path, database_document(database, connection, tables))

    def _read_all(self, moments: Mapping[int, str | None], wanted: Sequence[int]) -> None:
        """Read the selected cards and the cards that they depend on."""
        queue, seen = list(reversed(wanted)), set(wanted)
        while queue:
            number = queue.pop()
            card = self._card(number, moments.get(number))
            self._gathered.report(len(seen) - len(queue), len(seen))
            if card is not None:
                self._cards[number] = card
                new = [each for each in card.references if each not in seen]
                seen.update(new)
                queue += reversed(new)

    def _card(self, number: int, moment: str | None) -> Card | None:
        """Return a card: reused if unchanged, its old version if unreadable, or None if it does not exist."""
        path = card_path(number)
        kept = self._gathered.kept(path)
        self._remember(kept)
        same = self._gathered.unchanged(path, moment)
        if same is not None:
            return Card.stored(same)
        try:
            answer = self._api.card(number)
        except (SourceError, HttpAuthError) as error:
            self._gathered.skip(path, error)
            return None if kept is None else Card.stored(kept)
        self._gathered.read(path, moment)
        return None if answer is None else Card.read(answer)

    def _remember(self, kept: Mapping[str, Any] | None) -> None:
        """Record the SQL that Metabase previously generated for a card."""
        sql = kept.get("sql") if kept else None
        if isinstance(sql, dict) and sql.get("asked") and isinstance(sql.get("text"), str):
            self._known[sql["asked"]] = sql["text"]

    def _write(self, mapped: Mapping[int, str]) -> list[ResultWarning]:
        """Write the cards with their SQL. A warning lists cards whose SQL is unknown."""
        queries = {number: card.query for number, card in self._cards.items()}
        resolver = Resolver(queries, self._api.snippets() if queries else {}, self._api.compiled, self._known)
        unresolved = []
        for number in sorted(self._cards):
            card, sql = self._cards[number], resolver.resolve(number)
            connection = mapped.get(card.facts.get("database_id") or 0)
            self._gathered.put(card_path(number), card.document(self._site, connection, sql))
            if isinstance(sql, UnresolvedError):
                unresolved.append(f"{number} ({sql.reason.value}: {one_line(sql.message, 120)})")
        return [_unresolved(unresolved)] if unresolved else []

    def _collections(self, collections: Iterable[Mapping[str, Any]]) -> None:
        """Write the collections of the cards and their parents."""
        by_id = {each["id"]: each for each in collections}
        for card in self._cards.values():
            place = card.facts.get("collection_id")
            while place in by_id and collection_path(place) not in self._gathered:
                self._gathered.put(collection_path(place), collection_document(by_id[place]))
                place = by_id[place].get("parent_id")
        if any(card.facts.get("collection_id") is None for card in self._cards.values()):
            self._gathered.put(collection_path(None), collection_document(None))

    def _usage(self, listed: Iterable[ListedCard]) -> None:
        """Write how often each card was viewed, in powers of ten, so that the file rarely changes."""
        viewed = [card for card in listed if card.views and card.id in self._cards]
        views = {str(card.id): 10 ** (len(str(card.views)) - 1) for card in viewed}
        if views:
            self._gathered.put(USAGE_PATH, {"views_at_least": views})


def _unresolved(cards: Sequence[str]) -> ResultWarning:
    return ResultWarning(
        "unresolved_card",
        f"the SQL of {len(cards)} Metabase cards is unknown: {listing(cards)}",
        hint="open them in Metabase and fix them there",
        cards=list(cards),
    )


def _unmapped(entry: MetabaseConnection, databases: Iterable[Mapping[str, Any]]) -> list[ResultWarning]:
    """Return a warning about databases that are not mapped."""
    mapped = {int(key) for key in entry.mappings.database_mappings}
    left = [f"{each['id']} ({one_line(str(each.get('name')), 40)})" for each in databases if each["id"] not in mapped]
    if not left:
        return []
    where = f"connections.{entry.id}.mappings.databaseMappings"
    return [
        ResultWarning(
            "unmapped_database",
            f"Metabase databases without a connection are not read: {listing(left)}",
            hint=Hint("add each one to `{}`, with null to skip it", SettingPath(where)),
        )
    ]


MODES: Final = ("ALL", "ONLY", "EXCEPT")


@dataclass(frozen=True, slots=True)
class Selection:
    """The content of `mappings.selections`. `collections` includes nested ones; `root`: the root is selected."""

    mode: str
    collections: frozenset[int]
    root: bool
    cards: frozenset[int]

    def wants(self, card: ListedCard) -> bool:
        """Return whether a card is selected."""
        placed = self.root if card.collection is None else card.collection in self.collections
        return self.mode == "ALL" or (card.id in self.cards or placed) == (self.mode == "ONLY")


def mapped_databases(entry: MetabaseConnection, databases: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Return database ID -> connection for the databases to read. Raises `ConfigError` if there are none."""
    wanted = {
        int(key): connection
        for key, connection in entry.mappings.database_mappings.items()
        if connection and _is_enabled(entry.mappings, key)
    }
    found = {each["id"]: wanted[each["id"]] for each in databases if each["id"] in wanted}
    if found:
        return found
    known = listing([f"{each['id']} ({one_line(str(each.get('name')), 40)})" for each in databases], 10)
    example = databases[0]["id"] if databases else 1
    raise ConfigError(
        f"`connections.{entry.id}.mappings` selects no database in this Metabase; available: {known or 'none'}",
        hint=Hint(
            "set `{}` to {}",
            SettingPath(f"connections.{entry.id}.mappings.databaseMappings"),
            f'{{"{example}": "warehouse"}}',
        ),
    )


def _is_enabled(mappings: MetabaseMappings, key: str) -> bool:
    """Return whether a mapped database is read, which is the case unless `syncEnabled` is false."""
    enabled = mappings.sync_enabled
    if isinstance(enabled, Mapping):
        enabled = enabled.get(key, enabled.get(int(key), True))
    return enabled is not False


def read_selection(
    entry: MetabaseConnection, collections: Sequence[Mapping[str, Any]], on_dashboard: Callable[[int], Iterable[int]]
) -> Selection:
    """Return the selected content. `on_dashboard` returns the cards of a dashboard. Raises `ConfigError` for unknown
    targets.
    """
    mode = _mode(entry)
    chosen = entry.mappings.selections
    if mode == "ONLY" and not (chosen.collections or chosen.items):
        where = f"connections.{entry.id}.mappings"
        hint = Hint("set `{}` to the ids of the collections to read", SettingPath(f"{where}.selections.collections"))
        raise ConfigError(f"`{where}.syncMode` is ONLY, but `{where}.selections` is empty", hint=hint)
    if mode == "ALL":
        return Selection(mode, frozenset(), False, frozenset())
    named = [_item(entry, each, "collections", ("collection",)) for each in chosen.collections]
    items = [_item(entry, each, "items", ("card", "dashboard")) for each in chosen.items]
    cards = {number for kind, number in items if kind == "card"}
    cards.update(card for kind, number in items if kind == "dashboard" for card in on_dashboard(number))
    ids = {number for _, number in named}
    return Selection(mode, _with_children(ids, collections), 0 in ids, frozenset(cards))


def _mode(entry: MetabaseConnection) -> str:
    mode = entry.mappings.sync_mode.upper()
    if mode in MODES:
        return mode
    near = did_you_mean(mode, MODES) or "ALL"
    message = f"`connections.{entry.id}.mappings.syncMode` is `{one_line(mode, 40)}`, not one of {', '.join(MODES)}"
    raise ConfigError(message, hint=f"set it to {near}")


def _item(entry: MetabaseConnection, value: Any, key: str, kinds: tuple[str, ...]) -> tuple[str, int]:
    """Return the kind and number in `12`, `"12"`, `"dashboard:12"` or `{type: dashboard, id: 12}`; `root` is 0."""
    kind, number = kinds[0], value
    if isinstance(value, Mapping):
        kind, number = str(value.get("type") or value.get("model") or kinds[0]), value.get("id")
    elif isinstance(value, str) and ":" in value:
        kind, _, number = value.partition(":")
    if key == "collections" and number == "root":
        return kind, 0
    if kind in kinds and not isinstance(number, bool) and str(number).strip().isdecimal():
        return kind, int(str(number))
    shown = one_line(str(value), 60)
    message = f"`connections.{entry.id}.mappings.selections.{key}` contains `{shown}`, which is not a Metabase ID"
    hint = "use the number in its address, for example 12" + (
        ', or "dashboard:12"' if key == "items" else ', or "root"'
    )
    raise ConfigError(message, hint=hint)


def _with_children(ids: set[int], collections: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """Return the IDs, including those of all nested collections."""
    below: dict[Any, list[int]] = {}
    for each in collections:
        below.setdefault(each.get("parent_id"), []).append(each["id"])
    found, stack = set(ids), list(ids)
    while stack:
        children = [child for child in below.get(stack.pop(), []) if child not in found]
        found.update(children)
        stack += children
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class ListedCard:
    """An entry in the list of cards. `moment`: when it was last changed, according to Metabase."""

    id: int
    collection: int | None
    database: int | None
    moment: str | None
    views: int


class Metabase:
    """A Metabase client. `patient` is for required requests, `brief` for others. Raises the errors of `HttpClient`."""

    def __init__(self, patient: HttpClient, brief: HttpClient) -> None:
        self._client, self._brief = patient, brief

    def databases(self) -> list[dict[str, Any]]:
        """Return the databases, by ID."""
        answer = self._client.get("api/database")
        return _with_ids(answer.get("data") if isinstance(answer, dict) else answer, "databases", self._client.site)

    def tables(self, database: int) -> list[dict[str, Any]]:
        """Return a database's tables with their fields, by id."""
        answer = self._client.get(f"api/database/{database}/metadata")
        require_shallow(answer, f"Metabase's database {database}")
        return _with_ids(answer.get("tables") if isinstance(answer, dict) else None, "tables", self._client.site)

    def collections(self) -> list[dict[str, Any]]:
        """Return all collections by id, each with its `parent_id` (None at the root)."""
        answer = self._client.get("api/collection/tree", {"exclude-archived": "true"})
        if not isinstance(answer, list):
            raise _odd(self._client.site, "collections")
        return sorted(_flat(answer), key=lambda each: int(each["id"]))

    def cards(self) -> list[ListedCard]:
        """Return the cards that are not archived, by id, with enough fields to detect changes."""
        listed = _with_ids(self._client.get("api/card", {"f": "all"}), "cards", self._client.site)
        return [_listed(card) for card in listed if not card.get("archived")]

    def card(self, card: int) -> dict[str, Any] | None:
        """Return a card, or None if it does not exist."""
        return self._one(f"api/card/{card}", card)

    def dashboard_cards(self, dashboard: int) -> list[int]:
        """Return the ids of the cards on a dashboard, or none if the dashboard does not exist."""
        found = self._one(f"api/dashboard/{dashboard}", dashboard) or {}
        placed = mappings(found.get("dashcards") or found.get("ordered_cards"))
        series = [each for item in placed for each in mappings(item.get("series"))]
        ids = [*(item.get("card_id") for item in placed), *(each.get("id") for each in series)]
        return sorted({number for each in ids if (number := id_of(each)) is not None})

    def snippets(self) -> dict[str, str]:
        """Return each snippet's text, by name."""
        listed = _with_ids(self._client.get("api/native-query-snippet"), "snippets", self._client.site)
        return {
            str(each["name"]): str(each.get("content") or "")
            for each in listed
            if each.get("name") and not each.get("archived")
        }

    def compiled(self, query: Mapping[str, Any]) -> str:
        """Return the SQL of a query. Raises `UnresolvedError` if there is none, others if Metabase is unreachable."""
        path, body = "api/dataset/native", dict(query)
        try:
            answer = self._brief.post(path, body)
        except HttpAuthError as error:
            if error.status == 401:
                raise
            raise UnresolvedError(Reason.API, error.message) from error
        except HttpStatusError as error:
            if error.status not in RETRIED - {500} and error.status != 0:
                raise UnresolvedError(Reason.API, error.message) from error
            answer = self._client.post(path, body)
        text = answer.get("query") if isinstance(answer, dict) else None
        if not isinstance(text, str):
            raise UnresolvedError(Reason.API, "Metabase returned no SQL for it")
        return text

    def _one(self, path: str, wanted: int) -> dict[str, Any] | None:
        try:
            answer = self._client.get(path)
        except HttpStatusError as error:
            if error.status == 404:
                return None
            raise
        if not isinstance(answer, dict) or answer.get("id") != wanted:
            raise _odd(self._client.site, f"/{path}")
        require_shallow(answer, f"Metabase's /{path}")
        return answer


def _listed(card: Mapping[str, Any]) -> ListedCard:
    moment, views = card.get("updated_at"), id_of(card.get("view_count"))
    place, database = id_of(card.get("collection_id")), id_of(card.get("database_id"))
    return ListedCard(card["id"], place, database, moment if isinstance(moment, str) else None, views or 0)


def _with_ids(answer: Any, what: str, site: Site) -> list[dict[str, Any]]:
    if not isinstance(answer, list) or any(not isinstance(each, dict) or each.get("id") is None for each in answer):
        raise _odd(site, what)
    found = (each for each in answer if id_of(each.get("id")) is not None)
    return sorted(found, key=lambda each: int(each["id"]))


def _flat(tree: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the collections in a tree, except the root and the trash, which have no number."""
    stack = [(each, None) for each in tree]
    while stack:
        each, parent = stack.pop()
        if isinstance(each, dict) and id_of(each.get("id")) is not None:
            yield {**each, "parent_id": parent}
            stack += [(child, each["id"]) for child in mappings(each.get("children"))]


def _odd(site: Site, what: str) -> SourceError:
    return SourceError(f"Metabase returned an unexpected response for {what}", hint=site.hints["address"])
