"""Find the wiki pages that mention a measure, segment or source, using the search index.

It is a separate module so that query commands can import it alone.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

MOST_PAGES: Final = 8
"""Maximum number of pages for one definition. A search finds the others."""

TABLES: Final = """
CREATE TABLE mentions (name TEXT NOT NULL, doc INTEGER NOT NULL, PRIMARY KEY (name, doc)) STRICT, WITHOUT ROWID;
CREATE INDEX mentions_of_doc ON mentions (doc);
"""
"""The lower-case semantic layer names in pages: `orders.revenue`, `warehouse/orders.revenue`."""

_FIND: Final = "SELECT m.name, d.name, d.owner, d.id FROM mentions AS m JOIN docs AS d ON d.id = m.doc WHERE m.name IN"


class Mentions(Protocol):
    """An index with the mentions in pages."""

    def naming(self, names: Collection[str]) -> Iterable[tuple[str, str, str]]:
        """Yield (name, page, owner) of the pages that mention one of the names."""
        ...


def mention(connection: str | None, name: str) -> str:
    """Return a name in the form used by the index."""
    return f"{connection}/{name}".casefold() if connection else name.casefold()


def find_mentions(ask: Any, names: Collection[str]) -> list[tuple[str, str, str, int]]:
    """Return (name, page, owner, document) of the pages that mention one of the names. `ask` runs a statement."""
    found: list[tuple[str, str, str, int]] = []
    listed = sorted(names)
    for start in range(0, len(listed), 500):
        part = listed[start : start + 500]
        found += ask(f"{_FIND} ({', '.join('?' for _ in part)})", part)
    return found


def explaining(
    indexes: Iterable[Mentions], ids: Collection[tuple[str, str]], user: str | None = None
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return (connection, name) -> sorted keys of the pages visible to everybody or `user`."""
    wanted: dict[str, list[tuple[str, str]]] = {}
    for connection, name in ids:
        for written in (mention(None, name), mention(connection, name)):
            wanted.setdefault(written, []).append((connection, name))
    found: dict[tuple[str, str], set[str]] = {}
    for index in indexes:
        for written, page, owner in index.naming(wanted.keys()) if wanted else ():
            if owner in ("", user):
                for each in wanted[written]:
                    found.setdefault(each, set()).add(page)
    return {each: tuple(sorted(pages)[:MOST_PAGES]) for each, pages in found.items()}


def explaining_in(path: Path, connection: str, names: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    """Return name -> keys of the shared pages that mention it, from the index file at `path`.

    Nothing if there is no readable index: `ktx doctor` reports its problems, answers do not.
    """
    if not names or not path.is_file():
        return {}
    uri = f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as database:
            found = explaining([_File(database)], [(connection, name) for name in names])
    except sqlite3.Error:
        return {}
    return {name: pages for (_, name), pages in found.items()}


class _File:
    """An index file on disk."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def naming(self, names: Collection[str]) -> Iterable[tuple[str, str, str]]:
        found = find_mentions(lambda sql, values: self._database.execute(sql, values).fetchall(), names)
        return [(name, page, owner) for name, page, owner, _ in found]
