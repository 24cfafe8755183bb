"""Intervals, exact tests and corrections against known values, and how often intervals hold the truth."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.jobs.proof.statistics import (
    _place,
    _resampled_sums,
    bootstrap_mean,
    clustered_share,
    holm,
    mcnemar,
    sign_test,
    stratified_test,
    student_quantile,
    wilson,
)

QUANTILES = [(1, 12.7062), (2, 4.30265), (3, 3.18245), (5, 2.57058), (10, 2.22814), (29, 2.04523), (60, 2.00030)]
"""Degrees of freedom -> the 97.5 % quantile of Student's distribution, from a printed table."""


@pytest.mark.parametrize(("freedom", "expected"), QUANTILES)
def test_quantiles_of_student(freedom: int, expected: float) -> None:
    assert student_quantile(0.975, freedom) == pytest.approx(expected, abs=1e-4)
    assert student_quantile(0.025, freedom) == pytest.approx(-expected, abs=1e-4)


SCORES = [(9, 10, 0.5958, 0.9821), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (15, 148, 0.0624, 0.1605)]
"""Successes and trials -> the Wilson interval; the last is Newcombe's example (1998) without correction."""


@pytest.mark.parametrize(("successes", "trials", "low", "high"), SCORES)
def test_score_intervals(successes: int, trials: int, low: float, high: float) -> None:
    found = wilson(successes, trials)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_an_exact_test_of_signs() -> None:
    assert sign_test(8, 1) == pytest.approx(0.0390625)
    assert sign_test(5, 5) == 1.0
    assert sign_test(0, 0) == 1.0
    found = mcnemar([0.5, 1, -0.2, 0, 0, 1 / 3])
    assert (found.better, found.worse, found.p) == (3, 1, pytest.approx(0.625))


def test_the_stratified_test_is_fishers_where_there_is_one_question() -> None:
    assert stratified_test([(3, 4, 1, 4)]) == pytest.approx(0.485714, abs=1e-6), "the lady tasting tea, two-sided"
    assert stratified_test([]) == 1.0
    assert stratified_test([(2, 2, 2, 2), (0, 3, 0, 3)]) == 1.0, "a question that all answer alike says nothing"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=3))
def test_the_stratified_test_counts_every_way_to_deal_the_right_runs(strata: list[tuple[int, int]]) -> None:
    """Three runs an arm: a brute-force count over all assignments of right runs to the arms."""
    ways: dict[int, int] = {}
    for dealt in product(*(range(4) for _ in strata)):
        parts = [
            comb(3, mine) * comb(3, one + other - mine)
            for mine, (one, other) in zip(dealt, strata, strict=True)
            if one + other >= mine
        ]
        if len(parts) == len(strata):
            count = 1
            for part in parts:
                count *= part
            ways[sum(dealt)] = ways.get(sum(dealt), 0) + count
    seen = ways[sum(one for one, _ in strata)]
    expected = sum(count for count in ways.values() if count <= seen) / sum(ways.values())
    assert stratified_test([(one, 3, other, 3) for one, other in strata]) == pytest.approx(expected)


def test_holms_correction() -> None:
    assert holm([0.01, 0.04, 0.03]) == [pytest.approx(0.03), pytest.approx(0.06), pytest.approx(0.06)]
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_the_same_values_give_the_same_interval_in_any_order() -> None:
    values = [0, 1, 1, 0, -1, 1, 0.5, 0.25]
    assert bootstrap_mean(values) == bootstrap_mean(values[::-1])
    found = bootstrap_mean(values)
    assert found.low < found.estimate < found.high


def test_what_nobody_has_seen_is_not_ruled_out() -> None:
    assert (bootstrap_mean([]).low, bootstrap_mean([]).high) == (-1, 1)
    alike = bootstrap_mean([0.0] * 20)
    assert alike.low == -alike.high == pytest.approx(-0.161, abs=1e-3), "twenty questions without a difference"
    assert not bootstrap_mean([1.0]).excludes_zero, "one question shows no lift of others"
    always = bootstrap_mean([1.0] * 20)
    assert (always.low, always.high) == (pytest.approx(1 - 2 * 0.161, abs=1e-3), 1), "others may differ by -1"
    assert clustered_share([1.0] * 20).low == pytest.approx(0.839, abs=1e-3)
    assert clustered_share([1.0]).low == pytest.approx(0.207, abs=1e-3)
    assert (clustered_share([]).low, clustered_share([]).high) == (0, 1)


def draw(dice: random.Random, questions: int, runs: int) -> tuple[list[float], list[float]]:
    """Return, by question, the lift and the share of right runs with the context."""
    lifts, shares = [], []
    for _ in range(questions):
        without = dice.betavariate(1.5, 1.0)
        chance = without + 0.2 * (1 - without) - 0.05 * without
        with_it = sum(dice.random() < chance for _ in range(runs)) / runs
        lifts.append(with_it - sum(dice.random() < without for _ in range(runs)) / runs)
        shares.append(with_it)
    return lifts, shares


TRUE_WITHOUT = 0.6
TRUE_LIFT = 0.2 * (1 - TRUE_WITHOUT) - 0.05 * TRUE_WITHOUT


def coverage(seed: int, simulations: int, questions: int, runs: int) -> Sequence[float]:
    """Return how often the intervals of the lift and of the share hold the truth."""
    dice, lifts, shares = random.Random(seed), 0, 0
    for _ in range(simulations):
        differences, right = draw(dice, questions, runs)
        lift, share = bootstrap_mean(differences), clustered_share(right)
        lifts += lift.low <= TRUE_LIFT <= lift.high
        shares += share.low <= TRUE_WITHOUT + TRUE_LIFT <= share.high
    return lifts / simulations, shares / simulations


def test_intervals_hold_the_truth() -> None:
    lift, share = coverage(7, 1_000, questions=20, runs=2)
    assert 0.93 <= lift <= 0.97, lift
    assert 0.93 <= share <= 0.97, share


@pytest.mark.slow
@pytest.mark.parametrize(("questions", "runs"), [(12, 3), (20, 5), (40, 3), (60, 3), (100, 1)])
def test_intervals_hold_the_truth_at_every_size(questions: int, runs: int) -> None:
    found = coverage(11, 1_000, questions, runs)
    assert all(0.93 <= each <= 0.97 for each in found), found


def test_the_bootstrap_is_that_of_drawn_resamples() -> None:
    values = [0, 1, 1, 0, -1, 1, 0.5, 0.25, 0, 1 / 3, -0.5, 1]
    dice = random.Random(3)
    means = sorted(sum(dice.choices(values, k=len(values))) / len(values) for _ in range(20_000))
    first, chances = _resampled_sums([round(each * 12) for each in values])
    assert sum(chances) == pytest.approx(1)
    for share in (0.05, 0.5, 0.95):
        exact = (first + _place(chances, share)) / 12 / len(values)
        assert exact == pytest.approx(means[int(share * len(means))], abs=0.02)
