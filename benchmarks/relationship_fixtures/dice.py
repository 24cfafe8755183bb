"""Seeded draws: one stream a topic, so that a change in one part of the generator leaves the others as they were."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """The draws of one topic."""

    def __init__(self, seed: int | str, topic: str) -> None:
        self.random = random.Random(f"{seed}/{topic}")
        self.unit = self.random.random
        """Return a float in [0, 1)."""

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.unit() < probability

    def between(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`, both included."""
        return low + int(self.unit() * (high - low + 1))

    def uniform(self, low: float, high: float) -> float:
        """Return a float from `low` to `high`."""
        return low + self.unit() * (high - low)

    def around(self, low: float, high: float) -> int:
        """Return a whole number from `low` to `high`, each order of magnitude equally likely; both are above 0."""
        return int(low * (high / low) ** self.unit() + 0.5)

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items, all equally likely."""
        return items[int(self.unit() * len(items))]

    def weighted(self, weights: Mapping[T, float]) -> T:
        """Return one of the keys, in proportion to its weight."""
        return self.random.choices(list(weights), list(weights.values()))[0]

    def many(self, items: Sequence[T], count: int) -> list[T]:
        """Return `count` draws with replacement."""
        return self.random.choices(items, k=count) if count else []

    def skewed(self, items: Sequence[T], count: int, exponent: float) -> list[T]:
        """Return `count` draws where the i-th item weighs 1/(i+1)^exponent (Zipf's law; 0 is uniform)."""
        if not exponent or not count:
            return self.many(items, count)
        bounds = list(accumulate((place + 1) ** -exponent for place in range(len(items))))
        return self.random.choices(items, cum_weights=bounds, k=count)

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Return `count` different items in random order, all of them when there are fewer."""
        return self.random.sample(items, min(count, len(items)))

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order."""
        return self.sample(items, len(items))
