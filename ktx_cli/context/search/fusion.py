"""Puts several orders of the same things into one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

K: Final = 60
"""Damps the first ranks, the value of the paper."""

Item = TypeVar("Item")


def fuse(orders: Iterable[Sequence[Item]]) -> dict[Item, float]:
    """Return what each item counts by its ranks, the sum of 1 / (60 + rank), in no order.

    Reciprocal rank fusion (Cormack, Clarke, Büttcher 2009, Reciprocal rank fusion outperforms Condorcet).
    """
    scores: dict[Item, float] = defaultdict(float)
    for order in orders:
        for rank, item in enumerate(order, start=1):
            scores[item] += 1 / (K + rank)
    return dict(scores)
