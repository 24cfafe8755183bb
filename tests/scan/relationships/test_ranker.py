"""Probabilities of references: trees, calibration, hints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from math import log10
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core.errors import KtxError
from ktx_cli.scan.relationships.ranker import (
    FEATURES,
    HINT_WEIGHTS,
    SECOND_FEATURES,
    Calibration,
    NameEvidence,
    Node,
    Ranker,
    load_ranker,
    read_ranker,
    with_hints,
)

SHARES = st.floats(0, 1, allow_nan=False)
NUMBERS = st.floats(-5, 15, allow_nan=False)
ONE = ((0.0, 0.7), (1.0, 0.7))
VECTORS = st.lists(NUMBERS, min_size=len(FEATURES), max_size=len(FEATURES))


@st.composite
def trees(draw: st.DrawFn) -> tuple[Node, ...]:
    nodes: list[Node] = []

    def grow(depth: int) -> int:
        at = len(nodes)
        if depth == 0 or draw(st.booleans()):
            nodes.append((-1, draw(st.floats(-2, 2)), 0, 0))
        else:
            nodes.append((0, 0.0, 0, 0))
            feature, threshold = draw(st.integers(0, len(FEATURES) - 1)), draw(NUMBERS)
            nodes[at] = (feature, threshold, grow(depth - 1), grow(depth - 1))
        return at

    grow(3)
    return tuple(nodes)


def leaf_of(tree: Sequence[Node], values: Sequence[float], at: int = 0) -> float:
    feature, number, low, high = tree[at]
    return number if feature < 0 else leaf_of(tree, values, low if values[feature] <= number else high)


@given(st.lists(trees(), max_size=4), st.floats(-3, 3), VECTORS)
def test_trees_add_up(forest: list[tuple[Node, ...]], base: float, values: list[float]) -> None:
    ranker = Ranker(base, tuple(forest), ())
    odds = base + sum(leaf_of(tree, values) for tree in forest)
    assert ranker.probability(values) == pytest.approx(1 / (1 + 2.718281828459045**-odds))


@given(VECTORS)
def test_a_probability_is_one(values: list[float]) -> None:
    assert 0.0 <= load_ranker().probability(values) <= 1.0


@pytest.mark.parametrize(
    ("feature", "sign"),
    [
        ("name_table", 1),
        ("name_key", 1),
        ("name_meaning", 1),
        ("clear_name", 1),
        ("coverage", 1),
        ("violations", -1),
        ("name_best_elsewhere", -1),
        ("measure_word", -1),
        ("tables_alike", -1),
    ],
)
@given(values=VECTORS, one=SHARES, other=SHARES)
def test_what_speaks_for_a_reference_never_lowers_it(
    feature: str, sign: int, values: list[float], one: float, other: float
) -> None:
    low, high = sorted((one, other))
    at = FEATURES.index(feature)
    below, above = (load_ranker().probability([*values[:at], value, *values[at + 1 :]]) for value in (low, high))
    assert (above - below) * sign >= 0


@pytest.mark.table("name", ["second", "rowless"])
def test_the_calibration_rises_from_0_to_1(name: str) -> None:
    second, rowless = load_ranker().second, load_ranker().rowless
    assert second is not None and rowless is not None
    ranker = second if name == "second" else rowless
    assert {each.evidence for each in ranker.calibrations if each.most is None} == set(NameEvidence)
    for steps in (each.points for each in ranker.calibrations):
        assert steps[0][0] == 0.0
        assert steps[-1][0] == 1.0
        assert all(x0 < x1 and y0 <= y1 for (x0, y0), (x1, y1) in pairwise(steps))


def features(**values: float) -> list[float]:
    return [values.get(name, 0.0) for name in FEATURES]


def places(names: Sequence[str]) -> tuple[int, ...]:
    return tuple(names.index(name) for name in ("distinct", "name_table", "name_key", "name_meaning"))


@given(SHARES)
def test_the_calibration_is_read_between_its_steps(raw: float) -> None:
    steps = ((0.2, 0.1), (0.4, 0.3), (0.4, 0.5), (0.8, 0.5))
    few, any_number = (Calibration(most, NameEvidence.NOTHING, points) for most, points in ((2, ONE), (None, steps)))
    ranker = Ranker(0.0, (), (few, any_number), places(FEATURES))
    found = ranker.calibrate(raw, features(distinct=log10(4)))
    assert ranker.calibrate(raw, features(distinct=log10(3))) == 0.7
    if raw <= 0.2:
        assert found == 0.1
    elif raw < 0.4:
        assert found == pytest.approx(0.1 + (raw - 0.2))
    else:
        assert found == 0.5


@pytest.mark.table(
    ("values", "distinct", "evidence"),
    [
        ({"name_table": 0.75}, 0, NameEvidence.CLEAR),
        ({"name_key": 1.0, "name_meaning": 1.0}, 7, NameEvidence.CLEAR),
        ({"name_table": 0.45}, 2, NameEvidence.HINT),
        ({"name_meaning": 1.0}, 2, NameEvidence.HINT),
        ({"name_table": 0.4, "name_key": 0.3}, 1000, NameEvidence.NOTHING),
    ],
)
def test_what_the_calibration_depends_on(values: dict[str, float], distinct: int, evidence: NameEvidence) -> None:
    ranker = Ranker(0.0, (), (), places(FEATURES))
    assert ranker.group(features(distinct=log10(1 + distinct), **values)) == (distinct, evidence)


def document(**changes: Any) -> dict[str, Any]:
    whole = {
        "features": list(FEATURES),
        "base": 0,
        "trees": [[[3, 0.5, 1, 2], [-1, -1, 0, 0], [-1, 1, 0, 0]]],
        "calibrations": [],
    }
    return json.loads(json.dumps(whole | changes))  # type: ignore[no-any-return]


def test_a_ranker_is_read() -> None:
    ranker = read_ranker(document())
    trees = (((3, 0.5, 1, 2), (-1, -1.0, 0, 0), (-1, 1.0, 0, 0)),)
    assert ranker == Ranker(0.0, trees, (), places(FEATURES))
    assert ranker.probability([0.0] * len(FEATURES)) < 0.5 < ranker.probability([1.0] * len(FEATURES))


def test_all_passes_are_read() -> None:
    node = {"base": 1, "trees": [], "calibrations": [[2, "hint", [[0, 0.5]]]]}
    second = {"features": list(SECOND_FEATURES), **node}
    ranker = read_ranker(document(second=second, blind={"features": list(FEATURES), **node}))
    read = (Calibration(2, NameEvidence.HINT, ((0.0, 0.5),)),)
    passes = [Ranker(1.0, (), read, places(names)) for names in (SECOND_FEATURES, FEATURES)]
    assert [ranker.second, ranker.rowless] == passes
    with pytest.raises(KtxError, match="different set of features"):
        read_ranker(document(second=second | {"features": list(FEATURES)}))


@pytest.mark.table("features", [[*FEATURES, "more"], [*FEATURES[1:], FEATURES[0]], []])
def test_a_ranker_for_other_features_is_refused(features: list[str]) -> None:
    with pytest.raises(KtxError) as caught:
        read_ranker(document(features=features))
    assert "different set of features" in caught.value.message
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("python benchmarks/train_ranker.py")


RAISING = {source for source, weight in HINT_WEIGHTS.items() if weight > 0}


@given(st.floats(0, 1), st.sets(st.sampled_from([*sorted(RAISING), "names", "of nobody"])))
def test_hints_raise_a_probability(probability: float, hints: set[str]) -> None:
    found = with_hints(probability, hints)
    assert 0.0 <= found <= 1.0
    if hints & HINT_WEIGHTS.keys() and probability < 0.999:
        assert found > probability
    else:
        assert found == pytest.approx(probability, abs=2e-6) or found >= probability


@given(st.floats(0, 1))
def test_a_model_that_rejects_a_join_lowers_its_probability_as_much_as_one_that_chooses_it_raises_it(
    probability: float,
) -> None:
    assert HINT_WEIGHTS.keys() - RAISING == {"model_rejected"}
    rejected = with_hints(probability, ["model_rejected"])
    assert 0.0 <= rejected <= probability or probability < 0.001
    assert with_hints(rejected, ["model"]) == pytest.approx(probability, abs=2e-5)


def test_a_hint_alone_does_not_make_a_join() -> None:
    """What no value and no name speak for is not accepted because a view or the model says so."""
    assert with_hints(0.01, ["model"]) < 0.4
    assert with_hints(0.01, ["view"]) < 0.4
    assert with_hints(0.5, ["dbt"]) > 0.95
