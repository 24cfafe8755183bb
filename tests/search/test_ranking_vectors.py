"""Many vectors compared in few directions first: what is found is what comparing them all finds."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from ktx_cli.search import vectors
from ktx_cli.search.vectors import Matrix

ROWS, WIDTH = 6_000, 96


@pytest.fixture(scope="module")
def rows() -> Any:
    """Vectors that differ much in some directions and little in the others, as those of a model do."""
    chance = numpy.random.default_rng(3)
    spread = 1 / (1 + numpy.arange(WIDTH)) ** 0.7
    turned = numpy.linalg.qr(chance.standard_normal((WIDTH, WIDTH)))[0]
    made = (chance.standard_normal((ROWS, WIDTH)) * spread) @ turned
    return (made / numpy.linalg.norm(made, axis=1, keepdims=True)).astype("<f4")


@pytest.mark.parametrize("step", [1, 2, 40])
def test_the_nearest_of_many(rows: Any, step: int) -> None:
    worth = numpy.where(numpy.arange(ROWS) % 3 == 0, 0.8, 1.0).astype("<f4")
    matrix = Matrix(numpy, rows, worth)
    assert matrix._sketch is not None
    assert matrix._sketch.shape == (ROWS, vectors.SKETCH)
    places = numpy.arange(0, ROWS, step)
    found = 0
    for asked in rows[7:1000:50]:
        exact = numpy.argsort(-(rows[places] @ asked) * worth[places], kind="stable")[:10]
        nearest = matrix.nearest(asked, places, 10)
        assert [place for place, _ in nearest] == sorted(
            (place for place, _ in nearest), key=lambda place: -float(rows[place] @ asked * worth[place])
        )
        found += len({place for place, _ in nearest} & set(places[exact].tolist()))
    assert found >= 0.98 * 10 * len(rows[7:1000:50])


def test_few_are_compared_as_a_whole(rows: Any) -> None:
    few = Matrix(numpy, rows[:100], numpy.ones(100, "<f4"))
    assert few._sketch is None
    ((first, alike), *_) = few.nearest(rows[5], numpy.arange(100), 3)
    assert (first, round(alike, 5)) == (5, 1.0)
    assert len(few.nearest(rows[5], numpy.arange(2), 3)) == 2
