"""Finds the keys that hold a column's values, through indexes: ranges of integers, posting lists of texts."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from ktx_cli.context.scan.relationships.facts import ColumnFacts, Family

NEAREST = 8
"""How many keys whose range covers a column's integers are looked at: those with the least to spare."""

NEAREST_OF_FEW = 3
"""The same for columns of at most `FEW` different values, which say little."""

FEW = 3

PROBES = 8
"""How many values of a text column are looked up."""

MOST_SHARED = 200
"""A value that stands in more keys than this tells none of them apart."""


class ValueIndex:
    """Answers which keys may hold the values of a column."""

    def __init__(self, keys: Iterable[ColumnFacts]) -> None:
        ranges: list[tuple[int, int, int, ColumnFacts]] = []
        self._holders: dict[Any, list[ColumnFacts]] = defaultdict(list)
        for number, key in enumerate(keys):
            if key.empty:
                continue
            if key.family is Family.INTEGER:
                ranges.append((int(key.profile.maximum), number, int(key.profile.minimum), key))
            elif key.family is not Family.OTHER:
                for value in key.counts:
                    self._holders[value].append(key)
        ranges.sort(key=lambda each: each[:2])
        self._ranges = ranges
        self._highest = [each[0] for each in ranges]

    def parents(self, child: ColumnFacts) -> list[ColumnFacts]:
        """Return the keys that may hold the column's values, without looking at each of them."""
        if child.empty:
            return []
        if child.family is Family.INTEGER:
            return self._covering(child)
        return self._holding(child) if child.family in (Family.TEXT, Family.TIME) else []

    def _covering(self, child: ColumnFacts) -> list[ColumnFacts]:
        found: list[ColumnFacts] = []
        most = NEAREST if child.distinct > FEW else NEAREST_OF_FEW
        low, high = int(child.profile.minimum), int(child.profile.maximum)
        for _, _, lowest, key in self._ranges[bisect_left(self._highest, high) :]:
            if lowest <= low and key is not child:
                found.append(key)
                if len(found) == most:
                    break
        return found

    def _holding(self, child: ColumnFacts) -> list[ColumnFacts]:
        values = list(child.counts)
        probes = values[:: max(1, len(values) // PROBES)][:PROBES]
        hits: Counter[ColumnFacts] = Counter()
        for value in probes:
            holders = self._holders.get(value, ())
            if len(holders) <= MOST_SHARED:
                hits.update(holders)
        wanted = max(1, len(probes) // 2)
        return [
            key
            for key, count in hits.items()
            if key is not child and (count >= wanted or (count and not key.table.complete))
        ]
