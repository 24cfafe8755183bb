"""Statistics for paired arms: shares and lifts with intervals, exact tests, and a multiple-comparison correction.

The sample consists of questions. Runs of one question are not independent, so every interval resamples or counts
questions with all their runs. Nothing is drawn at random, so the same runs always give the same figures.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist, fmean
from typing import Final

from ktx_cli.core import Record

LEVEL: Final = 0.95
_NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True)
class Interval(Record):
    """An estimate with its confidence interval."""

    estimate: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether zero is outside the interval."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class PairedTest(Record):
    """An exact McNemar test of the questions that one arm answers correctly more often than the other.

    `p` is the probability of a split at least as uneven if the arms are the same.
    """

    better: int
    worse: int
    p: float


def wilson(successes: float, trials: float, *, level: float = LEVEL, quantile: float | None = None) -> Interval:
    """Return a share with its Wilson score interval. Without trials, the interval is 0 to 1.

    `trials` can be fractional, because clusters count as fewer trials. `quantile` replaces the quantile of the level.
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

    It is the Wilson interval for the effective number of independent trials.
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


def bootstrap_mean(values: Sequence[float], *, level: float = LEVEL) -> Interval:
    """Return the mean of differences between -1 and 1, with its bootstrap interval.

    `values` has one mean over runs for each question. The distribution of the means of all resamples is computed
    exactly. Its percentiles are widened by the ratio of Student's distribution to the normal one, because intervals of
    few questions would be too narrow otherwise. If all differences are equal, resampling is not possible: the interval
    then covers what the number of questions cannot rule out, that other questions differ by 1 or -1.
    """
    count = len(values)
    if not count:
        return Interval(0.0, -1.0, 1.0)
    mean = fmean(values)
    if min(values) == max(values):
        unseen = wilson(0, count, level=level).high
        return Interval(mean, mean - unseen * (1 + mean), mean + unseen * (1 - mean))
    stretch = math.sqrt(count / (count - 1)) * student_quantile(0.5 + level / 2, count - 1)
    tail = _NORMAL.cdf(-stretch)
    scale = min(_FINEST, math.lcm(*(Fraction(each).limit_denominator(1_000).denominator for each in values)))
    first, chances = _resampled_sums([round(each * scale) for each in values])
    low = first + _place(chances, tail) - 0.5
    high = first + len(chances) - 1 - _place(chances[::-1], tail) + 0.5
    return Interval(mean, max(-1.0, low / scale / count), min(1.0, high / scale / count))


_FINEST: Final = 60
"""The resolution of differences: exact for up to six runs, and a sixtieth for more."""

_NEGLIGIBLE: Final = 1e-10
"""The probability that is cut off at each end of a distribution during the computation."""

_Distribution = tuple[int, list[float]]
"""The probabilities of consecutive integers, and the first integer."""


def _resampled_sums(values: Sequence[int]) -> _Distribution:
    """Return the distribution of the sum of a resample of the values with replacement."""
    first, count = min(values), len(values)
    drawn = [0.0] * (max(values) - first + 1)
    for value in values:
        drawn[value - first] += 1 / count
    total: _Distribution = (0, [1.0])
    power: _Distribution = (first, drawn)
    while count:
        if count & 1:
            total = _sum_of(total, power)
        count >>= 1
        power = _sum_of(power, power) if count else power
    return total


def _sum_of(one: _Distribution, other: _Distribution) -> _Distribution:
    """Return the distribution of the sum of two independent numbers, without negligible tails."""
    (first, chances), (second, others) = one, other
    sums = [0.0] * (len(chances) + len(others) - 1)
    for place, chance in enumerate(chances):
        for step, part in enumerate(others):
            sums[place + step] += chance * part
    begin, end = _place(sums, _NEGLIGIBLE), _place(sums[::-1], _NEGLIGIBLE)
    return first + second + begin, sums[begin : len(sums) - end]


def _place(chances: Sequence[float], tail: float) -> int:
    """Return the first index at which the cumulative probability exceeds `tail`."""
    return next(place for place, below in enumerate(itertools.accumulate(chances)) if below > tail)


def mcnemar(differences: Iterable[float]) -> PairedTest:
    """Return the exact test on the signs of the differences. Zeros are ignored."""
    signs = Counter((each > 0) - (each < 0) for each in differences)
    better, worse = signs[1], signs[-1]
    return PairedTest(better, worse, sign_test(better, worse))


def sign_test(better: int, worse: int) -> float:
    """Return the two-sided binomial probability of a split at least as uneven as this one."""
    count = better + worse
    tail = sum(math.comb(count, each) for each in range(min(better, worse) + 1))
    return min(1.0, float(2 * tail / 2**count))


def stratified_test(strata: Iterable[tuple[int, int, int, int]]) -> float:
    """Return the exact two-sided probability of the data if two arms answer each question equally well.

    A stratum is a question: right runs and all runs of one arm, then of the other. If the arms are the same, the right
    runs of a question are distributed over its arms by chance (Fisher's exact test with Mantel-Haenszel strata). Each
    question is its own stratum, so a few questions with many runs are enough.
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
    """Return the probabilities with the Holm correction."""
    order = sorted(range(len(probabilities)), key=probabilities.__getitem__)
    corrected, highest = [0.0] * len(probabilities), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(probabilities) - rank) * probabilities[place]))
        corrected[place] = highest
    return corrected


@functools.cache
def student_quantile(share: float, freedom: int) -> float:
    """Return the quantile of Student's t-distribution, by bisection."""
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
    """Return the cumulative probability of Student's t-distribution for a value of at least 0 and integer degrees."""
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
