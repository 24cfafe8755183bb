"""The axis of a question: which dimension's periods it has, what is refused, in the user's own words."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.semantic.answer import compile_query
from ktx_cli.semantic.caller import Caller
from ktx_cli.semantic.model import Cumulative, Measure, SemanticError, Span
from tests.semantic.golden.world import NOW
from tests.semantic.plan.test_measures import with_measures

MEASURES = (
    Measure("running", "sum(amount)", cumulative=Cumulative()),
    Measure("again", "running", cumulative=Cumulative(window=Span(7, "day"))),
    Measure("month_before", "sum(amount)", offset=Span(1, "month")),
    Measure("year_before_that", "month_before", offset=Span(1, "year")),
    Measure("day_before_that", "month_before", offset=Span(1, "day")),
)


def asked(measure: str, *dimensions: str, **rest: Any) -> Any:
    query = {"measures": [f"orders.{measure}"], "dimensions": [*dimensions], **rest}
    return compile_query(with_measures(*MEASURES), query, caller=Caller.of({"grade": 1}), now=NOW)


@pytest.mark.table(
    ("dimensions", "grain"),
    [
        (("orders.placed_at:year", "orders.placed_at:month"), "month"),
        (("metric_time:quarter", "orders.placed_at:month", "orders.placed_at:week", "orders.placed_at:day"), "day"),
        (("orders.placed_at",), "day"),
        (("metric_time",), "day"),
        (("extract(year from orders.placed_at)",), "year"),
        (("customers.tier",), None),
    ],
)
def test_the_finest_grain_is_the_axis_in_any_order(dimensions: tuple[str, ...], grain: str | None) -> None:
    for order in (dimensions, dimensions[::-1]):
        (axis,) = asked("running", *order).plan.axes.values()
        assert axis.grain == grain


@pytest.mark.table(
    ("measure", "dimensions", "code", "message", "hint"),
    [
        (
            "running",
            ("orders.placed_at:week", "orders.placed_at:month"),
            "grain",
            "orders.placed_at:week",
            "orders.placed_at:day",
        ),
        ("running", ("extract(month from orders.placed_at)",), "grain", "extract(month from", "orders.placed_at:month"),
        ("running", ("orders.shipped_on:month",), "grain", "orders.shipped_on:month", "orders.placed_at:month"),
        ("again", ("orders.placed_at:month",), "definition", "cumulative", "cumulative"),
        ("day_before_that", ("orders.placed_at:month",), "query", "1 month", "both in months"),
        ("orders", ("orders.placed_at:decade",), "query", "orders.placed_at:decade", "granularity"),
    ],
)
def test_what_has_no_place_is_refused_in_the_words_of_the_question(
    measure: str, dimensions: tuple[str, ...], code: str, message: str, hint: str
) -> None:
    with pytest.raises(SemanticError) as caught:
        asked(measure, *dimensions)
    assert caught.value.code == code
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_offsets_add_up() -> None:
    plan = asked("year_before_that", "orders.placed_at:month").plan
    assert [leaf.treatment.offset for leaf in plan.leaves] == [Span(13, "month")]


def test_a_condition_that_is_no_stretch_of_time_is_told_of() -> None:
    found = asked("running", "orders.placed_at:month", filters=["extract(month from orders.placed_at) = 5"])
    assert [each for each in found.compiled.build.notes if "excludes rows" in each]
    plain = asked("running", "orders.placed_at:month", filters=["orders.placed_at >= '2024-05-01'"])
    assert not [each for each in plain.compiled.build.notes if "excludes rows" in each]


def test_a_range_without_a_field_does_not_depend_on_the_order_of_two_times() -> None:
    dates = {"time_range": {"start": "2024-01-01"}}
    times = ("orders.shipped_on:month", "orders.placed_at:month")
    ranges = [asked("orders", *order, **dates).plan.time_range for order in (times, times[::-1])]
    assert [str(each.expression.names[0]) for each in ranges] == ["metric_time", "metric_time"]


def test_a_role_without_a_measure_is_that_of_the_rows_that_have_it() -> None:
    query = {"measures": [], "dimensions": ["billed.name"]}
    sql = compile_query(with_measures(), query, caller=Caller.of({"grade": 1}), now=NOW).sql
    assert '"orders"' in sql
    with pytest.raises(SemanticError) as caught:
        compile_query(with_measures(), {"dimensions": ["regions.name"], "filters": ["billed.name = 'x'"]}, now=NOW)
    assert caught.value.hint


def test_a_comparison_is_refused_by_what_was_asked() -> None:
    rest = {"comparison": {"offset": "1 month"}, "time_range": {"start": "2024-01-01", "end": "2024-02-01"}}
    with pytest.raises(SemanticError, match=r"the comparison of `orders\.revenue` is computed over"):
        asked("revenue", "extract(month from orders.placed_at)", **rest)
