"""The tables of a search index, in a file or in memory.

Texts are stored as stems of `context.search.words` with two blanks between them, one column for each weight, so that
FTS5 has nothing to fold; its tokenizer `ascii` takes every other character than ASCII for part of a word.
"""

from __future__ import annotations

import functools
import sqlite3
from typing import Final

VERSION: Final = 2
"""Counts changes of the tables, of the stems and of what stands in documents; an index of another one is rebuilt."""

TIERS: Final = {"name": 4.0, "strong": 2.0, "plain": 1.0, "weak": 0.5, "beside": 0.25}
"""Column -> the weight of the fields in it."""
FINDING: Final = ("name", "strong", "plain", "weak")
"""The columns a document is found by."""

_SCRIPT: Final = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE units (key TEXT PRIMARY KEY, signature TEXT NOT NULL, digest TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE docs (
    id INTEGER PRIMARY KEY, unit TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, connection TEXT NOT NULL,
    owner TEXT NOT NULL, place INTEGER NOT NULL, summary TEXT NOT NULL, length REAL NOT NULL, digest BLOB NOT NULL,
    fields BLOB NOT NULL
) STRICT;
CREATE INDEX docs_of_unit ON docs (unit);
CREATE INDEX docs_of_owner ON docs (owner) WHERE owner <> '';
CREATE TABLE spellings (word TEXT PRIMARY KEY, backwards TEXT NOT NULL, stem TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX spellings_backwards ON spellings (backwards);
CREATE TABLE vectors (doc INTEGER PRIMARY KEY, vector BLOB NOT NULL) STRICT;
CREATE VIRTUAL TABLE texts USING fts5 (tag, {", ".join(TIERS)}, tokenize = 'ascii');
CREATE VIRTUAL TABLE terms USING fts5vocab (texts, row);
PRAGMA user_version = {VERSION};
"""


def create(database: sqlite3.Connection) -> None:
    """Make the tables in an empty database."""
    database.executescript(_SCRIPT)


def is_current(database: sqlite3.Connection) -> bool:
    """Say whether a database has the tables this version reads; raises SQLite's error for a damaged one."""
    return bool(database.execute("PRAGMA user_version").fetchone()[0] == VERSION)


@functools.cache
def tier_of(weight: float) -> str:
    """Return the column for a field: the one whose weight is nearest by ratio."""
    return min(TIERS, key=lambda name: max(TIERS[name] / weight, weight / TIERS[name]))


def get_meta(database: sqlite3.Connection, key: str) -> str | None:
    """Return a fact stored about the index, None where there is none."""
    row = database.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def set_meta(database: sqlite3.Connection, key: str, value: str) -> None:
    """Store a fact about the index."""
    database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
