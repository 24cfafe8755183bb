"""The figures over many databases, on answers that are known."""

from __future__ import annotations

import pytest

from benchmarks.relationship_fixtures.report import Measured, calibration_error, report
from benchmarks.relationship_fixtures.scoring import Answer, Edge, score
from benchmarks.relationship_fixtures.truth import PrimaryKey, Reference, Truth

TRUE = Reference("a", ("b_id",), "b", ("id",))
SILENT = Reference("a", ("c_id",), "c", ("id",))
WRONG = Reference("a", ("d_id",), "d", ("id",))
KEYS = (PrimaryKey("a", ("id",)), PrimaryKey("b", ("id",)), PrimaryKey("c", ("id",)))


def measured() -> Measured:
    truth = Truth(KEYS, (TRUE, SILENT), unconfirmable=frozenset({SILENT}))
    edges = (Edge(TRUE, 0.9, 300), Edge(WRONG, 0.7, 12), Edge(SILENT, 0.4, 0))
    answer = Answer(frozenset(KEYS[:1]), frozenset({TRUE, WRONG}), edges=edges, few=frozenset({"c"}))
    return Measured(truth, answer, score(truth, answer), score(truth, answer, silent=truth.unconfirmable))


def figures(title: str) -> list[float]:
    (line,) = [line for line in report([measured()]) if line.startswith(f"  {title} ")]
    return [float(word) for word in line.removeprefix(f"  {title}").split()]


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("strict, micro", [0.5, 0.5, 0.5]),
        ("confirmable, micro", [0.5, 1.0, 0.667]),
        ("of tables with rows", [1.0, 0.5, 0.667]),
        ("guessed, at most one row", [1.0, 0.0, 0.0]),
        ("1 to 20 rows", [1, 0.7, 0.0, 0.7]),
        ("more rows", [1, 0.9, 1.0, 0.1]),
    ],
)
def test_figures(title: str, expected: list[float]) -> None:
    assert figures(title) == expected


def test_unlikely_edges_do_not_count() -> None:
    assert not [line for line in report([measured()]) if line.startswith("  no rows")]


def test_the_error_of_ten_bins() -> None:
    shown = [(0.8, place % 5 != 0) for place in range(100)]
    assert calibration_error(shown) == pytest.approx(0.0)
    assert calibration_error([(0.9, False)]) == pytest.approx(0.9)
    assert calibration_error([]) == 0
