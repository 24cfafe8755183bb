"""The probability that a pair of columns is a reference: boosted trees over the features, calibrated.

The trees and the calibration are data (`ranker.json`), learned by `benchmarks/train_ranker.py` from generated databases
alone. How well the probabilities hold is in `docs/relationships.md`.
"""

from __future__ import annotations

import functools
import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import exp, log
from typing import Any, Final

from ktx_cli.context.scan.relationships.features import FEATURES
from ktx_cli.core.errors import KtxError

HINT_WEIGHTS: Final[Mapping[str, float]] = {"dbt": 4.0, "view": 3.0, "history": 2.5, "embedding": 1.0, "model": 1.5}
"""What each source of hints adds to the log-odds of an edge."""

Node = tuple[int, float, int, int]
"""Feature, threshold, the node to go to when the value is at most the threshold, or else; a leaf: (-1, value, 0, 0)."""


@dataclass(frozen=True, slots=True)
class Ranker:
    """`base`: the log-odds to begin with; `trees` add to it; `steps`: (raw probability, calibrated one), ascending."""

    base: float
    trees: tuple[tuple[Node, ...], ...]
    steps: tuple[tuple[float, float], ...]

    def probability(self, values: Sequence[float]) -> float:
        """Return the probability, 0 to 1, for the numbers of `FEATURES`."""
        odds = self.base
        for tree in self.trees:
            feature, limit, low, high = tree[0]
            while feature >= 0:
                feature, limit, low, high = tree[low if values[feature] <= limit else high]
            odds += limit
        return self._calibrated(1 / (1 + exp(-max(-30.0, min(30.0, odds)))))

    def _calibrated(self, raw: float) -> float:
        if not self.steps:
            return raw
        at = bisect_right(self.steps, raw, key=lambda step: step[0])
        if at == 0:
            return self.steps[0][1]
        if at == len(self.steps):
            return self.steps[-1][1]
        (x0, y0), (x1, y1) = self.steps[at - 1], self.steps[at]
        return y0 + (y1 - y0) * (raw - x0) / (x1 - x0) if x1 > x0 else y1


@functools.cache
def load_ranker() -> Ranker:
    """Return the ranker that is shipped. Raises `KtxError` when it was learned for other features."""
    text = files("ktx_cli.context.scan.relationships").joinpath("ranker.json").read_text("utf-8")
    return read_ranker(json.loads(text))


def read_ranker(document: Mapping[str, Any]) -> Ranker:
    """Return the ranker a document describes."""
    if tuple(document["features"]) != FEATURES:
        raise KtxError("ranker.json was learned for other features", hint="python benchmarks/train_ranker.py")
    return Ranker(
        base=float(document["base"]),
        trees=tuple(tuple((int(f), float(t), int(a), int(b)) for f, t, a, b in tree) for tree in document["trees"]),
        steps=tuple((float(x), float(y)) for x, y in document["calibration"]),
    )


def with_hints(probability: float, hints: Iterable[str]) -> float:
    """Return the probability of an edge that other sources name too."""
    added = sum(HINT_WEIGHTS.get(hint, 0.0) for hint in hints)
    return 1 / (1 + exp(-_odds(probability) - added))


def _odds(probability: float) -> float:
    kept = max(1e-6, min(1 - 1e-6, probability))
    return log(kept / (1 - kept))
