"""The raw files of Metabase: JSON with sorted keys, without what changes by itself (times, counts, people)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ktx_cli.sources.fetch import Document
from ktx_cli.sources.metabase.queries import (
    Query,
    Sql,
    UnresolvedError,
    cards_used,
    id_of,
    mappings,
    read_query,
    stored_query,
)

_COLUMN_KEYS = ("name", "display_name", "description", "base_type", "semantic_type", "id")
_FIELD_KEYS = ("id", "name", "description", "semantic_type")
_TEXT_KEYS = ("description", "points_of_interest", "caveats")
_TABLE_KEYS = ("id", "schema", "name", "description", "points_of_interest", "caveats")


def card_path(card: int) -> str:
    """Return the raw file of a card."""
    return f"cards/{card}.json"


def collection_path(collection: int | None) -> str:
    """Return the raw file of a collection; None is the top of Metabase."""
    return f"collections/{'root' if collection is None else collection}.json"


def database_path(database: int) -> str:
    """Return the raw file of a database."""
    return f"databases/{database}.json"


@dataclass(frozen=True, slots=True)
class Card:
    """A card as it stands by itself: `facts` without its SQL, which hangs on others too."""

    id: int
    facts: Mapping[str, Any]
    query: Query

    @property
    def references(self) -> tuple[int, ...]:
        """The cards it stands on directly."""
        return cards_used(self.query)

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> Card:
        """Return a card as the API gives it."""
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
        """Return its raw file's document."""
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
    """Return the raw file's document of a collection; None is the top of Metabase."""
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
    """Return the raw file's document of a database: its tables with what Metabase says of them; no address, no user."""
    return {
        "id": database["id"],
        "name": _text(database.get("name")),
        "engine": _text(database.get("engine")),
        "description": _text(database.get("description")),
        "connection": connection,
        "tables": [_table(table) for table in tables if table.get("active", True)],
    }


def _table(table: Mapping[str, Any]) -> Document:
    """Return a table with those of its fields that have a description."""
    fields = (_described(each, _FIELD_KEYS) for each in mappings(table.get("fields")) if each.get("active", True))
    columns = sorted((each for each in fields if "description" in each), key=lambda each: str(each.get("name")))
    return {**_described(table, _TABLE_KEYS), "columns": columns}


def _described(value: Mapping[str, Any], keys: Sequence[str]) -> Document:
    """Return some of a mapping, its texts for people only where they are texts."""
    found = _some(value, keys)
    texts = {key: _text(found.pop(key)) for key in _TEXT_KEYS if key in found}
    return {**found, **{key: text for key, text in texts.items() if text}}


def _type(answer: Mapping[str, Any]) -> str:
    """Return `question`, `model` or `metric`; older versions say `dataset` alone."""
    return _text(answer.get("type")) or ("model" if answer.get("dataset") else "question")


def _some(value: Mapping[str, Any], keys: Sequence[str]) -> Document:
    return {key: value[key] for key in keys if value.get(key) not in (None, "")}


def _text(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) else None
