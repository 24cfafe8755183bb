"""The points of a layer: which of them a question touches, and how far their readings are apart."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ktx_cli.semantic import Alternative, DecisionKind, DecisionPoint, Decisions, DecisionState, Effect

_READINGS = (Alternative("all", "all accounts"), Alternative("external", "external accounts", "NOT is_internal"))


def _point(name: str, **fields: object) -> DecisionPoint:
    given = {
        "kind": DecisionKind.INTERNAL,
        "source": "accounts",
        "columns": ("is_internal",),
        "question": "Do internal accounts count?",
        "alternatives": _READINGS,
        **fields,
    }
    return DecisionPoint(name, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "spread"),
    [
        (("100", "90"), 0.1),
        (("0", "90"), 1.0),
        (("0", "0"), 0.0),
        (("-100", "50"), 1.5),
        (("100", "90", "120"), 0.3),
        (("100", None), None),
        (("100",), None),
    ],
)
def test_a_spread_is_relative_to_the_first_reading(values: tuple[str | None, ...], spread: float | None) -> None:
    numbers = {str(place): None if each is None else Decimal(each) for place, each in enumerate(values)}
    found = Effect("point", "orders.total", numbers).spread
    assert found == (None if spread is None else pytest.approx(spread))


def test_only_unsettled_points_that_a_question_touches_are_shown_and_the_largest_first() -> None:
    points = Decisions(
        (
            _point("decided", state=DecisionState.DECIDED, spreads={"orders.total": 0.9}),
            _point("settled", state=DecisionState.SETTLED, spreads={"orders.total": 0.9}),
            _point("small", spreads={"orders.total": 0.01, "orders.count": 0.02}),
            _point("large", spreads={"orders.total": 0.2}),
            _point("stated", state=DecisionState.STATED, spreads={"orders.total": 0.1}),
            _point("elsewhere", spreads={"tickets.count": 0.5}),
            _point("not computed"),
        )
    )
    assert [each.id for each in points.touching(["orders.total"])] == ["large", "stated", "small"]
    assert [each.id for each in points.touching(["orders.total"], reached=["accounts"])][-1] == "not computed"
    assert [each.id for each in points.touching([], [("accounts", "is_internal")])][:2] == ["elsewhere", "large"]
    assert points.touching(["leads.count"]) == []


def test_a_reading_is_known_by_its_id_or_its_label() -> None:
    point = _point("point")
    assert point.alternative("External") is point.alternatives[1] is point.alternative("external accounts")
    assert point.alternative("other") is None
    assert not point.alternatives[0].changes
    assert point.alternatives[1].changes
