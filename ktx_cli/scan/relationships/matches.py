"""Finds the tables and keys a column's name speaks of, through indexes of their words."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ktx_cli.scan.relationships.facts import ColumnFacts, TableFacts
from ktx_cli.scan.relationships.names import alike, concepts, phrase_alike

FAINTEST = 0.4
"""Below this a table is not what a name speaks of."""

OWN = 0.8
"""How clearly a column called `parent_id` or `reports_to` speaks of its own table."""

OTHER_KEY = 0.7
"""A key that is not its table's likeliest has to be called so much as the column is."""

MOST_TABLES = 12
"""How many tables a name may speak of."""


@dataclass(frozen=True, slots=True)
class Named:
    """How far a column's name speaks of a table, and of a key by the key's own name; both 0 to 1.

    `meaning`: whether column and table may stand for the same thing by other words (`rep` and `employee`).
    """

    table: float
    key: float
    meaning: bool = False

    @property
    def best(self) -> float:
        """The stronger of the two."""
        return max(self.table, self.key)


class NameIndex:
    """Answers which parents a column's name speaks of; `keys`: the columns that can be referred to."""

    def __init__(self, tables: Sequence[TableFacts], keys: Iterable[ColumnFacts]) -> None:
        self._by_word: dict[str, set[int]] = defaultdict(set)
        self._by_letter: dict[str, list[str]] = defaultdict(list)
        self._tables = tables
        for table in tables:
            for word in {*table.words, "".join(table.words), "".join(each[:1] for each in table.words)} - {""}:
                self._by_word[word].add(table.number)
        for word in self._by_word:
            self._by_letter[word[0]].append(word)
        self._by_parts: dict[tuple[str, ...], list[ColumnFacts]] = defaultdict(list)
        self._keys: dict[int, list[ColumnFacts]] = defaultdict(list)
        for key in keys:
            self._keys[key.table.number].append(key)
            if key.base:
                self._by_parts[key.parts].append(key)
        self._by_concept: dict[str, set[int]] = defaultdict(set)
        for table in tables:
            for concept in concepts(table.words):
                self._by_concept[concept].add(table.number)
        self._words: dict[str, set[int]] = {}
        self._bases: dict[tuple[str, ...], dict[int, float]] = {}
        self._parents: dict[tuple[tuple[str, ...], tuple[str, ...], bool], Mapping[ColumnFacts, Named]] = {}

    def parents(self, child: ColumnFacts) -> Mapping[ColumnFacts, Named]:
        """Return the keys the column's name speaks of, and how clearly."""
        if _speaks_of_own(child) or child in self._keys.get(child.table.number, ()):
            return self._find_parents(child)
        spelling = (child.parts, child.base, child.keyed)
        known = self._parents.get(spelling)
        if known is None:
            known = self._parents[spelling] = self._find_parents(child)
        return known

    def _find_parents(self, child: ColumnFacts) -> dict[ColumnFacts, Named]:
        found: dict[ColumnFacts, Named] = {}
        tables = self.tables_of(child)
        meant = self.meant(child.base)
        for number in dict.fromkeys([*tables, *meant]):
            likeliest: set[str] = set()
            for key in self._keys.get(number, ()):
                alike_key = key_alike(child, key)
                if key is child or (key.family in likeliest and alike_key < OTHER_KEY):
                    continue
                likeliest.add(key.family)
                found[key] = Named(tables.get(number, 0.0), alike_key, number in meant)
        for start in range(len(child.parts)):
            for key in self._by_parts.get(child.parts[start:], ()):
                if key is not child and key not in found:
                    found[key] = Named(tables.get(key.table.number, 0.0), key_alike(child, key))
        return found

    def meant(self, base: tuple[str, ...]) -> list[int]:
        """Return the tables that stand for what words may mean; none where there are many."""
        numbers = {number for concept in concepts(base) for number in self._by_concept.get(concept, ())}
        return sorted(numbers) if len(numbers) <= MOST_TABLES else []

    def named(self, child: ColumnFacts, key: ColumnFacts) -> Named:
        """Return how far the column's name speaks of one key."""
        meaning = key.table.number in self.meant(child.base)
        return Named(self.tables_of(child).get(key.table.number, 0.0), key_alike(child, key), meaning)

    def tables_of(self, child: ColumnFacts) -> dict[int, float]:
        """Return the tables a column speaks of: its own too, when it is called a parent or a manager."""
        tables = self.tables(child.base)
        if not _speaks_of_own(child):
            return tables
        return {**tables, child.table.number: max(OWN, tables.get(child.table.number, 0.0))}

    def tables(self, base: tuple[str, ...]) -> dict[int, float]:
        """Return number of table -> how far words speak of it, the clearest ones only."""
        known = self._bases.get(base)
        if known is None:
            known = self._bases[base] = self._find(base)
        return known

    def _find(self, base: tuple[str, ...]) -> dict[int, float]:
        if not base:
            return {}
        numbers: set[int] = set()
        for word in {*base, "".join(base)}:
            numbers |= self._matching(word)
        scores = {number: _alike_table(base, self._tables[number]) for number in numbers}
        kept = sorted((each for each in scores.items() if each[1] >= FAINTEST), key=lambda each: (-each[1], each[0]))
        return dict(kept[:MOST_TABLES])

    def _matching(self, word: str) -> set[int]:
        known = self._words.get(word)
        if known is None:
            near = [other for other in self._by_letter.get(word[:1], ()) if alike(word, other) > 0]
            known = self._words[word] = {number for other in near for number in self._by_word[other]}
        return known


def _speaks_of_own(child: ColumnFacts) -> bool:
    """Whether a column is called something only rows of its own table can be: a parent, of people a manager."""
    if child.says("self"):
        return len(child.base) <= 2
    return child.says("boss") and "person" in concepts(child.table.words)


def _alike_table(base: tuple[str, ...], table: TableFacts) -> float:
    score = table_alike(base, table.words)
    return score if table.numbered == table.words else max(score, table_alike(base, table.numbered))


def table_alike(base: tuple[str, ...], spoken: tuple[str, ...]) -> float:
    """Return how far a column's words speak of a table: wholly, behind a role (`billing address`), or by its head."""
    if not base or not spoken:
        return 0.0
    # Words that begin with different letters are not alike, which is sooner seen here than by a call.
    best, first, first_spoken = 0.0, base[0][:1], spoken[0][:1]
    for weight, letter, words in _parts(base):
        if letter == first_spoken and weight > best:
            best = max(best, weight * phrase_alike(words, spoken))
    for weight, letter, words in _parts_of_table(spoken, len(base)):
        if letter == first and weight > best:
            best = max(best, weight * phrase_alike(base, words))
    if len(base) > 1 and len(spoken) > 1 and best < 0.72:
        best = max(best, 0.72 * phrase_alike(base[-1:], spoken[-1:]))
    return best


@functools.lru_cache(maxsize=100_000)
def _parts(base: tuple[str, ...]) -> tuple[tuple[float, str, tuple[str, ...]], ...]:
    """Return a column's words whole, their ends and their beginnings: weight, first letter, words."""
    sizes = range(1, len(base))
    parts = [(1.0, base), *((0.92, base[-size:]) for size in sizes), *((0.8, base[:size]) for size in sizes)]
    return tuple((weight, words[0][:1], words) for weight, words in parts)


@functools.lru_cache(maxsize=100_000)
def _parts_of_table(spoken: tuple[str, ...], size: int) -> tuple[tuple[float, str, tuple[str, ...]], ...]:
    """Return the parts of a table's name that `size` words may mean: weight, first letter, words."""
    if len(spoken) == 1:
        return ()
    parts = [(0.82, spoken[-1:]), (0.7, spoken[:-1]), (0.5, spoken[:1])]
    if 1 < size < len(spoken):
        parts.append((0.85, spoken[-size:]))
    return tuple((weight, words[0][:1], words) for weight, words in parts)


def key_alike(child: ColumnFacts, key: ColumnFacts) -> float:
    """Return how far a column is called as the key is: `id` and `code` say nothing, `customer_id` does."""
    if not key.base:
        return 0.0
    if child.parts == key.parts or child.joined == key.joined:
        return 1.0
    size = len(key.parts)
    if len(child.parts) > size and child.parts[-size:] == key.parts:
        return 0.9
    if len(key.joined) >= 5 and child.joined.endswith(key.joined):
        return 0.85
    if child.base == key.base:
        return 0.9 if child.keyed else 0.7
    if child.base and child.keyed and key.keyed:
        return 0.9 * phrase_alike(child.base, key.base)
    return 0.0
