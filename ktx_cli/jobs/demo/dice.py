"""Seeded draws that come out the same with every Python version and on every machine."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Generic, TypeVar

T = TypeVar("T")


class Dice:
    """A stream of draws for one topic; the draws of one topic never shift those of another.

    Only `Random.random` is used: Python promises its sequence for a seed, and does not for `choice` and the rest.
    """

    def __init__(self, seed: int, topic: str) -> None:
        self._random = random.Random(f"{seed}/{topic}")
        self.unit = self._random.random
        """Return a float in [0, 1)."""

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.unit() < probability

    def between(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`, both included."""
        return low + int(self.unit() * (high - low + 1))

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items, all equally likely."""
        return items[int(self.unit() * len(items))]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Return `count` different items in random order; `count` is at most `len(items)`."""
        left = list(items)
        return [left.pop(int(self.unit() * len(left))) for _ in range(count)]


class Weighted(Generic[T]):
    """Items with weights, drawn in proportion to them."""

    def __init__(self, weights: Sequence[tuple[T, float]]) -> None:
        self._items = [item for item, _ in weights]
        self._bounds = list(accumulate(weight for _, weight in weights))

    def draw(self, dice: Dice) -> T:
        """Return one item."""
        place = bisect_right(self._bounds, dice.unit() * self._bounds[-1])
        # The product can round up to the last bound.
        return self._items[min(place, len(self._items) - 1)]
