"""Puts documents into an index and takes them out."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterable
from typing import Any, Final

from ktx_cli.context.search.index.schema import TIERS, set_meta, tier_of
from ktx_cli.context.search.model import Document
from ktx_cli.context.search.words import plain_words, stem

MARK: Final = "\ue000"
"""In front of every tag: a character no word has."""
OWNED: Final = f"{MARK}o"
"""The tag of what is not everybody's."""
INTERNAL: Final = f"{MARK}i"
"""The tag of what is for those who ask for it."""
_ALL_COLUMNS: Final = ("tag", *TIERS)


def digest_of(document: Document) -> bytes:
    """Return what tells one content of a document from another."""
    return hashlib.blake2b(_written(document).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def tag(letter: str, name: str) -> str:
    """Return the token that a filter looks for: `k` a kind, `c` a connection, `u` a user, `t` a tag of a page."""
    return f"{MARK}{letter}{name.encode('utf-8', 'surrogatepass').hex()}"


def add(database: sqlite3.Connection, unit: str, documents: Iterable[Document]) -> list[int]:
    """Store documents as parts of a unit; returns their numbers."""
    numbers = []
    spelled: dict[str, str] = {}
    for document in documents:
        texts = dict.fromkeys(_ALL_COLUMNS, "")
        length = 0.0
        for tier, weight in TIERS.items():
            found = [w for each in document.fields if tier_of(each.weight) == tier for w in plain_words(each.text)]
            spelled.update((word, stem(word)) for word in found if word not in spelled)
            texts[tier] = "  ".join(spelled[word] for word in found)
            length += weight * len(found)
        texts["tag"] = " ".join(_tags(document))
        numbers.append(_insert(database, unit, document, texts, length))
    database.executemany(
        "INSERT OR IGNORE INTO spellings VALUES (?, ?, ?)", ((word, word[::-1], to) for word, to in spelled.items())
    )
    return numbers


def remove(database: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Take documents out, their vectors too."""
    rows = [(number,) for number in numbers]
    for table, key in (("texts", "rowid"), ("vectors", "doc"), ("docs", "id")):
        database.executemany(f"DELETE FROM {table} WHERE {key} = ?", rows)


def count_up(database: sqlite3.Connection) -> None:
    """Store how many documents there are and how long they are together; call it when all is written."""
    number, length = database.execute("SELECT count(*), coalesce(sum(length), 0) FROM docs").fetchone()
    set_meta(database, "documents", str(number))
    set_meta(database, "length", repr(float(length)))


def unpacked(fields: bytes) -> list[tuple[str, float, str]]:
    """Return (name, weight, text) of the fields of a stored document."""
    return [(name, weight, text) for name, weight, text in json.loads(zlib.decompress(fields))]


def _insert(database: sqlite3.Connection, unit: str, document: Document, texts: dict[str, str], length: float) -> int:
    written = json.dumps([(each.name, each.weight, each.text) for each in document.fields])
    row: tuple[Any, ...] = (
        *(unit, document.kind, document.id, document.connection, document.owner, document.order, document.summary),
        *(length, digest_of(document), zlib.compress(written.encode(), 1)),
    )
    names = "unit, kind, name, connection, owner, place, summary, length, digest, fields"
    row = tuple(_storable(each) for each in row)
    number = database.execute(f"INSERT INTO docs ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row).lastrowid
    marks = ", ".join("?" for _ in _ALL_COLUMNS)
    database.execute(
        f"INSERT INTO texts (rowid, {', '.join(_ALL_COLUMNS)}) VALUES (?, {marks})", (number, *texts.values())
    )
    return number or 0


def _storable(value: Any) -> Any:
    """Return a text without lone surrogates, which SQLite cannot store."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _tags(document: Document) -> list[str]:
    tags = [tag("k", document.kind)]
    tags += [tag("c", document.connection)] if document.connection else [f"{MARK}n"]
    tags += [tag("t", each) for each in document.tags]
    tags += [INTERNAL] if document.internal else []
    return tags + ([OWNED, tag("u", document.owner)] if document.owner else [])


def _written(document: Document) -> str:
    fields = [(each.name, each.weight, each.text) for each in document.fields]
    facts = (document.kind, document.id, document.connection, document.summary, document.order, document.owner)
    return json.dumps([facts, fields, document.internal, document.tags], ensure_ascii=False)
