"""Reads an index: which documents have a word, how many, how words are spelled. Changes nothing."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.context.search.index.connection import Connection, connect
from ktx_cli.context.search.index.schema import FINDING, TIERS, create, get_meta
from ktx_cli.context.search.index.writing import INTERNAL, MARK, OWNED, add, count_up, tag
from ktx_cli.context.search.model import KINDS, Document, Scope

_MOST_SPELLINGS: Final = 64
"""How many words a beginning stands for, the shortest ones."""
_AT_ONCE: Final = 500
"""How many rows are asked for in one statement."""
_ROW: Final = "d.id, d.kind, d.name, d.connection, d.owner, d.place, d.length"
_FACTS: Final = 7
_SHOWN: Final = "d.id, d.summary, d.fields FROM docs AS d"
_TEXTS: Final = ", ".join(f"' ' || t.{tier} || ' '" for tier in TIERS)
_NAME: Final = list(TIERS).index("name")


@dataclass(frozen=True, slots=True)
class Row:
    """A stored document as it is ranked.

    `texts`: its stems, a text for each of `TIERS`, two blanks between and one around them; none where they were not
    asked for.
    """

    number: int
    kind: str
    name: str
    connection: str
    owner: str
    place: int
    length: float
    texts: tuple[str, ...] = ()

    @property
    def name_text(self) -> str:
        """The stems of its name."""
        return self.texts[_NAME]

    @property
    def tie(self) -> tuple[int, str, str]:
        """What decides between two that fit as well."""
        return self.place, self.connection, self.name


class Store:
    """An open index without the documents `removed`. It never changes, and several threads may read it."""

    def __init__(self, database: Connection, removed: Collection[int] = ()) -> None:
        self.database = database
        self.removed = frozenset(removed)
        self._having: dict[str, int] = {}

    @classmethod
    def of(cls, units: Mapping[str, Iterable[Document]]) -> Store:
        """Return an index in memory of units and their documents."""
        database = in_memory()
        for unit, documents in units.items():
            add(database, unit, documents)
        count_up(database)
        return cls(database)

    def without(self, removed: Collection[int]) -> Store:
        """Return the same index without some more documents."""
        return Store(self.database, self.removed.union(removed)) if removed else self

    def of_unit(self, unit: str) -> dict[bytes, int]:
        """Return digest -> number of the documents of a unit."""
        rows = self.database.ask("SELECT digest, id FROM docs WHERE unit = ?", (unit,))
        return {digest: number for digest, number in rows if number not in self.removed}

    @functools.cached_property
    def count(self) -> int:
        """How many documents there are."""
        return int(get_meta(self.database, "documents") or 0)

    @functools.cached_property
    def length(self) -> float:
        """How long all documents are together, in words by their weight."""
        return float(get_meta(self.database, "length") or 0)

    def having(self, term: str) -> int:
        """Return how many documents have a stem; what was removed counts too."""
        if term not in self._having:
            rows = self.database.ask("SELECT doc FROM terms WHERE term = ?", (term,))
            self._having[term] = int(rows[0][0]) if rows else 0
        return self._having[term]

    def begun(self, word: str) -> list[str]:
        """Return the stems of words that begin so, the shortest first."""
        rows = self.database.ask(
            "SELECT stem, min(length(word)) AS shortest FROM spellings WHERE word >= ? AND word < ?"
            " GROUP BY stem ORDER BY shortest, stem LIMIT ?",
            (word, word + "\U0010ffff", _MOST_SPELLINGS),
        )
        return [stem for stem, _ in rows]

    def alike(self, word: str) -> dict[str, str]:
        """Return word -> stem of words as long that begin or end as the third of a word does.

        One letter put in, left out, changed or swapped with the next leaves one of the two as it was.
        """
        third = max(1, len(word) // 3)
        found: dict[str, str] = {}
        for column, part in (("word", word[:third]), ("backwards", word[::-1][:third])):
            rows = self.database.ask(
                f"SELECT word, stem FROM spellings WHERE {column} >= ? AND {column} < ?"
                " AND length(word) BETWEEN ? AND ?",
                (part, part + "\U0010ffff", len(word) - 2, len(word) + 2),
            )
            found.update(rows)
        return found

    def best(self, terms: Iterable[str], scope: Scope, wanted: int) -> list[int]:
        """Return the documents that have one of some stems, at most `wanted`, the best first as FTS5 ranks them."""
        match = expression(terms, scope)
        weights = ", ".join(map(str, (0.0, *TIERS.values())))
        asked = wanted
        while match:
            rows = self.database.ask(
                f"SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY bm25(texts, {weights}), rowid LIMIT ?",
                (match, asked),
            )
            kept = [number for (number,) in rows if number not in self.removed]
            if len(kept) >= wanted or len(rows) < asked:
                return kept[:wanted]
            asked *= 4
        return []

    def total(self, terms: Iterable[str], scope: Scope) -> int:
        """Return how many documents have one of some stems."""
        match = expression(terms, scope)
        if not match:
            return 0
        if not self.removed:
            return int(self.database.ask("SELECT count(*) FROM texts WHERE texts MATCH ?", (match,))[0][0])
        return len(self._matching(match))

    def within(self, scope: Scope) -> list[int]:
        """Return all documents of a scope, sorted."""
        return self._matching(scoped(_any_kind(scope), scope))

    def _matching(self, match: str) -> list[int]:
        rows = self.database.ask("SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rowid", (match,))
        return [number for (number,) in rows if number not in self.removed]

    def rows(self, numbers: Sequence[int]) -> Iterator[Row]:
        """Yield documents to be ranked, in any order."""
        for facts in self._of(f"{_ROW}, {_TEXTS} FROM docs AS d JOIN texts AS t ON t.rowid = d.id", numbers):
            yield Row(*(*facts[:_FACTS], facts[_FACTS:]))

    def bare_rows(self, numbers: Sequence[int]) -> Iterator[Row]:
        """Yield documents without their texts, in any order."""
        for facts in self._of(f"{_ROW} FROM docs AS d", numbers):
            yield Row(*facts)

    def _of(self, what: str, numbers: Sequence[int]) -> Iterator[Any]:
        for start in range(0, len(numbers), _AT_ONCE):
            part = numbers[start : start + _AT_ONCE]
            marks = ", ".join("?" for _ in part)
            yield from self.database.ask(f"SELECT {what} WHERE d.id IN ({marks})", part)

    def shown(self, numbers: Sequence[int]) -> dict[int, tuple[str, bytes]]:
        """Return number -> summary and packed fields of documents."""
        return {number: (summary, fields) for number, summary, fields in self._of(_SHOWN, numbers)}

    def owned(self, user: str) -> set[str]:
        """Return the names of the pages of a user."""
        rows = self.database.ask("SELECT id, name FROM docs WHERE owner = ? AND kind = 'page'", (user,))
        return {name for number, name in rows if number not in self.removed}


def in_memory() -> Connection:
    """Return an empty index in memory."""
    database = connect(":memory:")
    create(database)
    return database


def expression(terms: Iterable[str], scope: Scope) -> str:
    """Return what FTS5 is asked: any of the terms in the columns that find, and the tags of the scope."""
    listed = " OR ".join(f'"{term}"' for term in terms)
    if not listed:
        return ""
    asked = f"{{{' '.join(FINDING)}}} : ({listed})"
    return scoped(f"({asked}) AND {_any_kind(scope)}" if scope.kinds else asked, scope)


def scoped(asked: str, scope: Scope) -> str:
    """Return a question to FTS5 within what a scope says beside kinds."""
    if scope.connection is not None:
        asked = f'({asked}) AND tag : ("{tag("c", scope.connection)}" OR "{MARK}n")'
    if scope.tag is not None:
        asked = f'({asked}) AND tag : "{tag("t", scope.tag)}"'
    if not scope.internal:
        asked = f'({asked}) NOT tag : "{INTERNAL}"'
    others = f'tag : "{OWNED}"'
    if scope.user:
        others = f'({others} NOT tag : "{tag("u", scope.user)}")'
    return f"({asked}) NOT {others}"


def _any_kind(scope: Scope) -> str:
    kinds = (tag("k", kind) for kind in sorted(scope.kinds or KINDS))
    return "tag : (" + " OR ".join(f'"{kind}"' for kind in kinds) + ")"
