"""The statistics of paired arms: shares and lifts with intervals, exact tests, a correction for many comparisons.

Questions are the sample: runs of one question are not independent of each other, so every interval resamples or counts
questions, each with all of its runs. Everything is computed from the data and a fixed seed, so that the same runs
always give the same figures.
"""

from __future__ import annotations

import functools
import hashlib
import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import Final

from ktx_cli.core import Record

LEVEL: Final = 0.95
RESAMPLES: Final = 4_000
"""Resamples of a bootstrap interval."""

_NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True)
class Interval(Record):
    """An estimate with its confidence interval."""

    estimate: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside of the interval."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class PairedTest(Record):
    """An exact McNemar test: questions that one arm answers more often than the other, and how surprising that is.

    `p`: the probability, if the arms were the same, of a split at least as uneven.
    """

    better: int
    worse: int
    p: float


def wilson(successes: float, trials: float, *, level: float = LEVEL, quantile: float | None = None) -> Interval:
    """Return a share with its Wilson score interval; of no trials all is possible.

    `trials` need not be whole: a sample of clusters is worth fewer than it has. `quantile` replaces that of the level.
    """
    if trials <= 0:
        return Interval(0.0, 0.0, 1.0)
    z = _NORMAL.inv_cdf(0.5 + level / 2) if quantile is None else quantile
    share, square = successes / trials, z * z
    centre = (share + square / (2 * trials)) / (1 + square / trials)
    spread = z / (1 + square / trials) * math.sqrt(share * (1 - share) / trials + square / (4 * trials * trials))
    return Interval(share, max(0.0, centre - spread), min(1.0, centre + spread))


def clustered_share(clusters: Sequence[float], *, level: float = LEVEL) -> Interval:
    """Return the mean of the shares of clusters, with an interval for the share of all such clusters.

    It is the Wilson interval of a sample of so many independent trials as would be as exact as the clusters are.
    """
    count = len(clusters)
    if count < 2:
        return wilson(sum(clusters), count, level=level)
    share = fmean(clusters)
    variance = sum((each - share) ** 2 for each in clusters) / (count - 1) / count
    if not variance:
        return wilson(share * count, count, level=level)
    trials = share * (1 - share) / variance
    quantile = student_quantile(0.5 + level / 2, count - 1)
    return wilson(share * trials, trials, level=level, quantile=quantile)


def bootstrap_mean(values: Sequence[float], *, level: float = LEVEL, resamples: int = RESAMPLES) -> Interval:
    """Return the mean of differences between -1 and 1, with its bootstrap interval.

    `values`: one of each question, the mean over its runs. Percentiles are widened as Student's distribution is wider
    than the normal one, without which intervals of few questions are too narrow. Where all differences are the same,
    there is nothing to resample: the interval then holds what so many questions cannot rule out.
    """
    count = len(values)
    if not count:
        return Interval(0.0, -1.0, 1.0)
    mean = fmean(values)
    if min(values) == max(values):
        return _of_equal(mean, count, level)
    stretch = math.sqrt(count / (count - 1)) * student_quantile(0.5 + level / 2, count - 1)
    tail = _NORMAL.cdf(-stretch)
    means = sorted(_resampled(values, resamples))
    low, high = _percentile(means, tail), _percentile(means, 1 - tail)
    return Interval(mean, max(-1.0, min(low, mean)), min(1.0, max(high, mean)))


def _resampled(values: Sequence[float], resamples: int) -> Iterable[float]:
    """Yield the means of resamples; the seed is made of the values, so that their order does not matter."""
    ordered, count = sorted(values), len(values)
    seed = hashlib.sha256(repr([round(each, 12) for each in ordered]).encode()).digest()
    draw = random.Random(seed)
    return [sum(draw.choices(ordered, k=count)) / count for _ in range(resamples)]


def _of_equal(mean: float, count: int, level: float) -> Interval:
    unseen = wilson(0, count, level=level).high
    return Interval(mean, max(-1.0, mean - unseen), min(1.0, mean + unseen))


def _percentile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def mcnemar(differences: Iterable[float]) -> PairedTest:
    """Return the exact test on the signs of the differences; those of zero say nothing."""
    signs = Counter((each > 0) - (each < 0) for each in differences)
    better, worse = signs[1], signs[-1]
    return PairedTest(better, worse, sign_test(better, worse))


def sign_test(better: int, worse: int) -> float:
    """Return the two-sided binomial probability of a split at least as uneven as this one."""
    count = better + worse
    tail = sum(math.comb(count, each) for each in range(min(better, worse) + 1))
    return min(1.0, float(2 * tail / 2**count))


def stratified_test(strata: Iterable[tuple[int, int, int, int]]) -> float:
    """Return the exact two-sided probability that two arms answer each question equally well.

    A stratum is a question: runs that were right and all runs of one arm, then of the other. If the arms are the same,
    the right runs of a question fall on its arms by chance (Fisher's exact test, with the strata of Mantel and
    Haenszel). Questions keep to themselves, so that few questions with many runs are enough.
    """
    chances, observed = {0: 1.0}, 0
    for right, runs, other_right, other_runs in strata:
        total, drawn = right + other_right, runs + other_runs
        observed += right
        ways = math.comb(drawn, total)
        low, high = max(0, total - other_runs), min(runs, total)
        here = {
            each: math.comb(runs, each) * math.comb(other_runs, total - each) / ways for each in range(low, high + 1)
        }
        spread: dict[int, float] = {}
        for count, chance in chances.items():
            for each, part in here.items():
                spread[count + each] = spread.get(count + each, 0.0) + chance * part
        chances = spread
    limit = chances[observed] * (1 + 1e-9)
    return min(1.0, sum(chance for chance in chances.values() if chance <= limit))


def holm(probabilities: Sequence[float]) -> list[float]:
    """Return the probabilities corrected for their number, by the method of Holm."""
    order = sorted(range(len(probabilities)), key=probabilities.__getitem__)
    corrected, highest = [0.0] * len(probabilities), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(probabilities) - rank) * probabilities[place]))
        corrected[place] = highest
    return corrected


@functools.cache
def student_quantile(share: float, freedom: int) -> float:
    """Return the quantile of Student's distribution, by bisection of its distribution function."""
    if share < 0.5:
        return -student_quantile(1 - share, freedom)
    low, high = 0.0, 1.0
    while student_share(high, freedom) < share:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if student_share(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def student_share(value: float, freedom: int) -> float:
    """Return the share of Student's distribution below a value of 0 or more, by its finite series for whole degrees."""
    angle = math.atan2(value, math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 or not odd else 0.0
    for step in range(2 + odd, freedom - 1, 2):
        term *= cosine * cosine * (step - 1) / step
        total += term
    centre = 2 / math.pi * (angle + (sine * total if freedom > 1 else 0.0)) if odd else sine * total
    return 0.5 + centre / 2
