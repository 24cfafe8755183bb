from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.jobs.demo.people import Dice, Weighted

GOLDEN = [953, 366, 419, 736, 280, 520]
GOLDEN_SAMPLE = ["d", "b", "c"]

seeds = st.integers(-(2**70), 2**70)


def test_the_draws_of_a_seed_never_change() -> None:
    dice = Dice(7, "orders")
    assert [dice.between(1, 1000) for _ in range(6)] == GOLDEN
    assert dice.sample("abcdef", 3) == GOLDEN_SAMPLE


def test_topics_and_seeds_have_streams_of_their_own() -> None:
    streams = {tuple(Dice(seed, topic).between(0, 10**9) for _ in range(1)) for seed in (7, 8) for topic in "ab"}
    assert len(streams) == 4


@given(seeds, st.integers(-50, 50), st.integers(0, 20))
def test_between_stays_inside_its_bounds(seed: int, low: int, width: int) -> None:
    dice = Dice(seed, "t")
    drawn = [dice.between(low, low + width) for _ in range(50)]
    assert low <= min(drawn) <= max(drawn) <= low + width


def test_between_reaches_both_bounds() -> None:
    dice = Dice(1, "t")
    assert {dice.between(3, 5) for _ in range(100)} == {3, 4, 5}


@given(seeds, st.lists(st.integers(), unique=True), st.data())
def test_a_sample_holds_different_items(seed: int, items: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(items)))
    sample = Dice(seed, "t").sample(items, count)
    assert len(sample) == len(set(sample)) == count
    assert set(sample) <= set(items)


@pytest.mark.parametrize(("probability", "expected"), [(0.0, {False}), (1.0, {True})])
def test_certain_chances(probability: float, expected: set[bool]) -> None:
    dice = Dice(1, "t")
    assert {dice.chance(probability) for _ in range(200)} == expected


def test_weights_are_kept() -> None:
    dice, weighted = Dice(1, "t"), Weighted([("a", 70.0), ("never", 0.0), ("b", 30.0)])
    drawn = [weighted.draw(dice) for _ in range(5_000)]
    assert set(drawn) == {"a", "b"}
    assert 0.67 < drawn.count("a") / len(drawn) < 0.73


def test_a_draw_that_rounds_up_to_the_last_bound_is_the_last_item(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = Dice(1, "t")
    monkeypatch.setattr(dice, "unit", lambda: 1.0)
    assert Weighted([("a", 1.0), ("b", 2.0)]).draw(dice) == "b"
