"""Finds the keys that hold a column's values, through indexes: ranges of integers, posting lists of texts."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from ktx_cli.context.scan.relationships.facts import ColumnFacts, Family

NEAREST = 8
"""How many keys whose range covers a column's integers are looked at: those with the least to spare."""

NEAREST_OF_FEW = 3
"""The same for columns of at most `FEW` different values, which say little."""

FEW = 3

LOOKED_AT = 200
"""By how many of a column's integers its range without outliers is told."""

OUTLIERS = 0.08
"""The share of a column's different integers that may lie beyond a key, as orphans and sentinels do."""

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

    def shared(self, namesakes: Sequence[ColumnFacts]) -> list[ColumnFacts]:
        """Return the keys that may hold the integers of all columns of one name: those with the least to spare."""
        ranges = [_range(each) for each in namesakes]
        return self._around(min(low for low, _ in ranges), max(high for _, high in ranges), NEAREST_OF_FEW)

    def _covering(self, child: ColumnFacts) -> list[ColumnFacts]:
        most = NEAREST if child.distinct > FEW else NEAREST_OF_FEW
        low, high = _range(child)
        found = self._around(low, high, most)
        inner_low, inner_high = _without_outliers(child)
        if inner_high < high or inner_low > low:
            found += self._around(inner_low, inner_high, NEAREST_OF_FEW)
        return [key for key in dict.fromkeys([*found, *self._own(child)]) if key is not child]

    def _around(self, low: int, high: int, most: int) -> list[ColumnFacts]:
        """Return the keys whose range covers another, the narrowest first."""
        covering = (key for _, _, lowest, key in self._ranges[bisect_left(self._highest, high) :] if lowest <= low)
        return list(islice(covering, most))

    def _own(self, child: ColumnFacts) -> list[ColumnFacts]:
        """Return the likely key of the column's own table, where its range holds the column's."""
        key = child.table.likeliest
        if key is None or key.family is not Family.INTEGER or key.empty:
            return []
        (low, high), (lowest, highest) = _without_outliers(child), _range(key)
        return [key] if lowest <= low and high <= highest else []

    def _holding(self, child: ColumnFacts) -> list[ColumnFacts]:
        values = list(child.counts)
        probes = values[:: max(1, len(values) // PROBES)][:PROBES]
        hits: dict[ColumnFacts, int] = defaultdict(int)
        for value in probes:
            holders = self._holders.get(value, ())
            for key in holders if len(holders) <= MOST_SHARED else ():
                hits[key] += 1
        wanted = max(1, len(probes) // 2)
        return [
            key
            for key, count in hits.items()
            if key is not child and (count >= wanted or (count and not key.table.complete))
        ]


def _range(column: ColumnFacts) -> tuple[int, int]:
    return int(column.profile.minimum), int(column.profile.maximum)


def _without_outliers(column: ColumnFacts) -> tuple[int, int]:
    """Return the range of a column's integers without the few at both ends that orphans and sentinels may be."""
    few = sorted(islice(column.counts, 0, None, max(1, column.distinct // LOOKED_AT)))
    cut = int(len(few) * OUTLIERS)
    rest = few[cut : len(few) - cut]
    return int(rest[0]), int(rest[-1])
