"""What ktx asks of Metabase's API, and the shapes of the answers that are relied on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ktx_cli.context.sources.gathering import require_shallow
from ktx_cli.context.sources.http import HttpAuthError, HttpClient, HttpStatusError, Site
from ktx_cli.context.sources.http_errors import RETRIED
from ktx_cli.context.sources.metabase.queries import id_of, mappings
from ktx_cli.context.sources.metabase.resolving import Reason, UnresolvedError
from ktx_cli.core.errors import SourceError


@dataclass(frozen=True, slots=True)
class Listed:
    """A card as the list has it. `moment`: when it changed last, as Metabase says it."""

    id: int
    collection: int | None
    database: int | None
    moment: str | None
    views: int


class Metabase:
    """A Metabase. `patient` sends what has to be answered, `brief` what may fail; errors as of `HttpClient`."""

    def __init__(self, patient: HttpClient, brief: HttpClient) -> None:
        self._client, self._brief = patient, brief

    def databases(self) -> list[dict[str, Any]]:
        """Return the databases, by id."""
        answer = self._client.get("api/database")
        return _with_ids(answer.get("data") if isinstance(answer, dict) else answer, "databases", self._client.site)

    def tables(self, database: int) -> list[dict[str, Any]]:
        """Return a database's tables with their fields, by id."""
        answer = self._client.get(f"api/database/{database}/metadata")
        require_shallow(answer, f"Metabase's database {database}")
        return _with_ids(answer.get("tables") if isinstance(answer, dict) else None, "tables", self._client.site)

    def collections(self) -> list[dict[str, Any]]:
        """Return all collections, by id, each with the `parent_id` it has (None: at the top)."""
        answer = self._client.get("api/collection/tree", {"exclude-archived": "true"})
        if not isinstance(answer, list):
            raise _odd(self._client.site, "collections")
        return sorted(_flat(answer), key=lambda each: int(each["id"]))

    def cards(self) -> list[Listed]:
        """Return the cards that are not archived, by id: enough of each to see whether it changed."""
        listed = _with_ids(self._client.get("api/card", {"f": "all"}), "cards", self._client.site)
        return [_listed(card) for card in listed if not card.get("archived")]

    def card(self, card: int) -> dict[str, Any] | None:
        """Return a card, None where there is none."""
        return self._one(f"api/card/{card}", card)

    def dashboard_cards(self, dashboard: int) -> list[int]:
        """Return the ids of the cards on a dashboard; none where there is no such dashboard."""
        found = self._one(f"api/dashboard/{dashboard}", dashboard) or {}
        placed = mappings(found.get("dashcards") or found.get("ordered_cards"))
        series = [each for item in placed for each in mappings(item.get("series"))]
        ids = [*(item.get("card_id") for item in placed), *(each.get("id") for each in series)]
        return sorted({number for each in ids if (number := id_of(each)) is not None})

    def snippets(self) -> dict[str, str]:
        """Return the text of each snippet by its name."""
        listed = _with_ids(self._client.get("api/native-query-snippet"), "snippets", self._client.site)
        return {
            str(each["name"]): str(each.get("content") or "")
            for each in listed
            if each.get("name") and not each.get("archived")
        }

    def compiled(self, query: Mapping[str, Any]) -> str:
        """Return the SQL of a query; `UnresolvedError` where Metabase has none, other errors where it is not there."""
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
            raise UnresolvedError(Reason.API, "Metabase gives no SQL for it")
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


def _listed(card: Mapping[str, Any]) -> Listed:
    moment, views = card.get("updated_at"), id_of(card.get("view_count"))
    place, database = id_of(card.get("collection_id")), id_of(card.get("database_id"))
    return Listed(card["id"], place, database, moment if isinstance(moment, str) else None, views or 0)


def _with_ids(answer: Any, what: str, site: Site) -> list[dict[str, Any]]:
    if not isinstance(answer, list):
        raise _odd(site, what)
    found = (each for each in answer if isinstance(each, dict) and id_of(each.get("id")) is not None)
    return sorted(found, key=lambda each: int(each["id"]))


def _flat(tree: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the collections of a tree; the root and the trash, which have no number, are none."""
    stack = [(each, None) for each in tree]
    while stack:
        each, parent = stack.pop()
        if isinstance(each, dict) and id_of(each.get("id")) is not None:
            yield {**each, "parent_id": parent}
            stack += [(child, each["id"]) for child in mappings(each.get("children"))]


def _odd(site: Site, what: str) -> SourceError:
    return SourceError(f"Metabase answered the question for {what} with something else", hint=site.hints["address"])
