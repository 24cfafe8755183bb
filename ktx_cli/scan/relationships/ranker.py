"""The probability that a pair of columns is a reference: boosted trees over the features, in two looks, calibrated.

The first look sees a pair alone, the second what the first says of its neighbours too (`collective`); pairs without
rows have trees of their own, which know names alone. Trees and calibration are data (`ranker.json`), learned by
`benchmarks/train_ranker.py` from generated databases alone. How well the probabilities hold is in
`docs/concepts/relationships.md`.
"""

from __future__ import annotations

import functools
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from math import exp, log
from typing import Any, Final

from ktx_cli.core import KtxError
from ktx_cli.scan.relationships.collective import FAINTEST, SECOND_FEATURES, likely, neighbours_of, scene_of
from ktx_cli.scan.relationships.facts import ColumnFacts
from ktx_cli.scan.relationships.features import FEATURES, Pair, without_rows

HINT_WEIGHTS: Final[Mapping[str, float]] = {"dbt": 4.0, "view": 3.0, "history": 2.5, "embedding": 1.0, "model": 1.5}
"""What each source of hints adds to the log-odds of an edge."""

Node = tuple[int, float, int, int]
"""Feature, threshold, the node to go to when the value is at most the threshold, or else; a leaf: (-1, value, 0, 0)."""


@dataclass(frozen=True, slots=True)
class Ranker:
    """`base`: the log-odds to begin with; `trees` add to it; `steps`: (raw probability, calibrated one), ascending.

    `second`: for the numbers of `SECOND_FEATURES`; `blind`: for those of `FEATURES` without rows. None: there is none.
    """

    base: float
    trees: tuple[tuple[Node, ...], ...]
    steps: tuple[tuple[float, float], ...]
    second: Ranker | None = None
    blind: Ranker | None = None

    def probability(self, values: Sequence[float]) -> float:
        """Return the probability, 0 to 1, for the numbers of the features the trees were learned for."""
        return self.calibrated(self.odds(values))

    def calibrated(self, odds: float) -> float:
        """Return the probability that log-odds stand for, 0 to 1."""
        return self._calibrated(1 / (1 + exp(-max(-30.0, min(30.0, odds)))))

    def odds(self, values: Sequence[float]) -> float:
        """Return the log-odds, not calibrated."""
        odds = self.base
        for tree in self.trees:
            feature, limit, low, high = tree[0]
            while feature >= 0:
                feature, limit, low, high = tree[low if values[feature] <= limit else high]
            odds += limit
        return odds

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
    text = files("ktx_cli.scan.relationships").joinpath("ranker.json").read_text("utf-8")
    return read_ranker(json.loads(text))


def read_ranker(document: Mapping[str, Any]) -> Ranker:
    """Return the ranker a document describes."""
    second, blind = document.get("second"), document.get("blind")
    return replace(
        read_look(document, FEATURES),
        second=None if second is None else read_look(second, SECOND_FEATURES),
        blind=None if blind is None else read_look(blind, FEATURES),
    )


def read_look(document: Mapping[str, Any], features: Sequence[str]) -> Ranker:
    """Return one look of a document. Raises `KtxError` when it was learned for other features."""
    if tuple(document["features"]) != tuple(features):
        raise KtxError("ranker.json was learned for other features", hint="python benchmarks/train_ranker.py")
    return Ranker(
        base=float(document["base"]),
        trees=tuple(tuple((int(f), float(t), int(a), int(b)) for f, t, a, b in tree) for tree in document["trees"]),
        steps=tuple((float(x), float(y)) for x, y in document["calibration"]),
    )


def score_pairs(ranker: Ranker, columns: Sequence[ColumnFacts], pairs: Sequence[Pair]) -> None:
    """Fill in the scores of all pairs of a database's columns; what hints say is added at the end."""
    blind = ranker.blind or ranker
    seen = [pair for pair in pairs if not pair.empty]
    unseen = [pair for pair in pairs if pair.empty]
    for pair, odds in zip(seen, _each(ranker.odds, (pair.values for pair in seen)), strict=True):
        pair.odds, pair.score = odds, ranker.calibrated(odds)
    for pair in unseen:
        values = without_rows(pair.values)
        pair.odds, pair.score = blind.odds(values), blind.probability(values)
    if ranker.second is not None:
        _look_again(ranker.second, columns, pairs)
    for pair in pairs:
        hints = pair.sources - {"names", "values"}
        pair.score = with_hints(pair.score, hints) if hints else pair.score


def _look_again(second: Ranker, columns: Sequence[ColumnFacts], pairs: Sequence[Pair]) -> None:
    """Score anew the pairs that have rows and some odds at first; those behind are as unlikely as can be."""
    scene, odds = scene_of(columns, pairs), [pair.odds for pair in pairs]
    places = [at for at in likely(scene, odds) if not pairs[at].empty]
    rows = (
        (*numbers, *pairs[at].values) for at, numbers in zip(places, neighbours_of(scene, odds, places), strict=True)
    )
    scores = dict(zip(places, _each(second.probability, rows), strict=True))
    unlikely = Ranker(0.0, (), ()).calibrated(FAINTEST)
    for at, pair in enumerate(pairs):
        if not pair.empty:
            pair.score = scores.get(at, min(pair.score, unlikely))


def _each(look: Callable[[Sequence[float]], float], rows: Iterable[Sequence[float]]) -> list[float]:
    """Return what a look says of each row of numbers; equal ones, of which large databases have many, once."""
    known: dict[tuple[float, ...], float] = {}
    found = []
    for row in map(tuple, rows):
        if row not in known:
            known[row] = look(row)
        found.append(known[row])
    return found


def with_hints(probability: float, hints: Iterable[str]) -> float:
    """Return the probability of an edge that other sources name too."""
    added = sum(HINT_WEIGHTS.get(hint, 0.0) for hint in hints)
    return 1 / (1 + exp(-_odds(probability) - added))


def _odds(probability: float) -> float:
    kept = max(1e-6, min(1 - 1e-6, probability))
    return log(kept / (1 - kept))
