"""The points of a layer: which of them a question touches, and how far their readings are apart."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ktx_cli.semantic import (
    Alternative,
    DecisionAnswer,
    DecisionKind,
    DecisionPoint,
    Decisions,
    DecisionState,
    Effect,
    is_touched,
)

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
        (("100", None), 1.0),
        ((None, "0"), 0.0),
        (("100",), 0.0),
        (("3", "2"), 0.333),
    ],
)
def test_a_spread_is_relative_to_the_first_reading(values: tuple[str | None, ...], spread: float) -> None:
    numbers = {str(place): None if each is None else Decimal(each) for place, each in enumerate(values)}
    assert Effect("point", "orders.total", numbers).spread == pytest.approx(spread)


def test_unsettled_points_are_in_the_order_of_their_effects_and_those_without_any_are_left_out() -> None:
    points = Decisions(
        (
            _point("decided", state=DecisionState.DECIDED, spreads={"orders.total": 0.9}),
            _point("settled", state=DecisionState.SETTLED, spreads={"orders.total": 0.9}),
            _point("small", spreads={"orders.total": 0.01, "orders.count": 0.02}),
            _point("large", spreads={"orders.total": 0.2}),
            _point("stated", state=DecisionState.STATED, spreads={"orders.total": 0.1}),
            _point("no effect", spreads={"orders.total": 0.0}),
            _point("not computed"),
        )
    )
    assert [each.id for each in points.unsettled()] == ["large", "stated", "small", "not computed"]


@pytest.mark.parametrize(
    ("measure", "reached", "fields", "touched"),
    [
        ("orders.total", ["orders", "accounts"], {}, True),
        ("orders.total", ["orders"], {}, False),
        ("orders.total", ["orders", "accounts"], {"spreads": {"orders.total": 0.0}}, False),
        ("orders.total", ["orders", "accounts"], {"spreads": {"orders.count": 0.0}}, True),
        ("orders.total", [], {"spreads": {"orders.total": 0.1}}, True),
        ("orders.total", ["accounts"], {"measures": ("orders.count",)}, False),
        ("orders.count", [], {"measures": ("orders.count",)}, True),
    ],
)
def test_what_a_point_touches(measure: str, reached: list[str], fields: dict[str, object], touched: bool) -> None:
    assert is_touched(_point("point", **fields), measure, reached) is touched


@pytest.mark.parametrize(("alternative", "state"), [("external", "decided"), ("gone", "open")])
def test_an_answer_decides_a_point_if_the_point_still_has_its_reading(alternative: str, state: str) -> None:
    answer = DecisionAnswer("wh", "point", alternative, "External accounts", "Ada", "2026-01-31")
    answered = Decisions((_point("point"), _point("other")), answers=(answer,)).answered()
    assert [each.state.value for each in answered.points] == [state, "open"]
    assert [each.id for each, _, _ in answered.decided()] == (["point"] if state == "decided" else [])


def test_a_reading_is_known_by_its_id_or_its_label() -> None:
    point = _point("point")
    assert point.alternative("External") is point.alternatives[1] is point.alternative("external accounts")
    assert point.alternative("other") is None
    assert not point.alternatives[0].changes
    assert point.alternatives[1].changes
