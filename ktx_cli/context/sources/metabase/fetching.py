"""Reads Metabase: only cards that changed are asked for, the others come from what the last fetch kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ktx_cli.context.sources.gathering import Gathering
from ktx_cli.context.sources.http import HttpAuthError
from ktx_cli.context.sources.metabase import documents
from ktx_cli.context.sources.metabase.api import Listed, Metabase
from ktx_cli.context.sources.metabase.documents import Card, card_path, collection_path, database_path
from ktx_cli.context.sources.metabase.resolving import Resolver, UnresolvedError
from ktx_cli.context.sources.metabase.selection import mapped_databases, read_selection
from ktx_cli.context.sources.model import Snapshot
from ktx_cli.context.sources.port import FetchContext
from ktx_cli.core.errors import ResultWarning, SourceError
from ktx_cli.core.text import listing, one_line
from ktx_cli.project.config.sources import MetabaseSource

USAGE_PATH: Final = "usage.json"


def fetch(entry: MetabaseSource, context: FetchContext, api: Metabase, site: str) -> Snapshot:
    """Return what Metabase has now; `site` is its address."""
    return _Fetch(entry, context, api, site).snapshot()


class _Fetch:
    def __init__(self, entry: MetabaseSource, context: FetchContext, api: Metabase, site: str) -> None:
        self._entry, self._api, self._site = entry, api, site
        self._gathered = Gathering(context, site)
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
            self._gathered.put(path, documents.database_document(database, connection, tables))

    def _read_all(self, moments: Mapping[int, str | None], wanted: Sequence[int]) -> None:
        """Read the wanted cards and all they stand on."""
        queue, seen = list(reversed(wanted)), set(wanted)
        while queue:
            number = queue.pop()
            card = self._card(number, moments.get(number))
            self._gathered.tell(len(seen) - len(queue), len(seen))
            if card is not None:
                self._cards[number] = card
                new = [each for each in card.references if each not in seen]
                seen.update(new)
                queue += reversed(new)

    def _card(self, number: int, moment: str | None) -> Card | None:
        """Return a card: kept where it did not change, as it was where it cannot be read, None where there is none."""
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
        """Note the SQL Metabase made for a card before."""
        sql = kept.get("sql") if kept else None
        if isinstance(sql, dict) and sql.get("asked") and isinstance(sql.get("text"), str):
            self._known[sql["asked"]] = sql["text"]

    def _write(self, mapped: Mapping[int, str]) -> list[ResultWarning]:
        """Write the cards with their SQL; a warning names those whose SQL is not known."""
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
        """Write the collections the cards are in, with those above them."""
        by_id = {each["id"]: each for each in collections}
        for card in self._cards.values():
            place = card.facts.get("collection_id")
            while place in by_id and collection_path(place) not in self._gathered:
                self._gathered.put(collection_path(place), documents.collection_document(by_id[place]))
                place = by_id[place].get("parent_id")
        if any(card.facts.get("collection_id") is None for card in self._cards.values()):
            self._gathered.put(collection_path(None), documents.collection_document(None))

    def _usage(self, listed: Iterable[Listed]) -> None:
        """Write how often each card was looked at, in powers of ten, so that the file is mostly the same."""
        viewed = [card for card in listed if card.views and card.id in self._cards]
        views = {str(card.id): 10 ** (len(str(card.views)) - 1) for card in viewed}
        if views:
            self._gathered.put(USAGE_PATH, {"views_at_least": views})


def _unresolved(cards: Sequence[str]) -> ResultWarning:
    return ResultWarning(
        "unresolved_card",
        f"the SQL of {len(cards)} of Metabase's cards is not known: {listing(cards)}",
        hint="open them in Metabase and mend them there",
        cards=list(cards),
    )


def _unmapped(entry: MetabaseSource, databases: Iterable[Mapping[str, Any]]) -> list[ResultWarning]:
    """Return a warning of databases nothing is said about."""
    said = {int(key) for key in entry.mappings.database_mappings}
    left = [f"{each['id']} ({one_line(str(each.get('name')), 40)})" for each in databases if each["id"] not in said]
    if not left:
        return []
    where = f"connections.{entry.id}.mappings.databaseMappings"
    return [
        ResultWarning(
            "unmapped_database",
            f"databases of Metabase that belong to no connection are not read: {listing(left)}",
            hint=f"add each to `{where}`, with null where it is not wanted",
        )
    ]
