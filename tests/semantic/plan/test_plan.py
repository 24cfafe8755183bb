"""Stretches of time a question asks for, as dates, and how long they are."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from ktx_cli.semantic.model import SemanticError, Span
from ktx_cli.semantic.plan.plan import asked_range, differs_in_length, length, lines_up
from ktx_cli.semantic.query import QueryRange

NOW = datetime(2024, 3, 31, 23, 59)


@pytest.mark.table(
    ("asked", "start", "end"),
    [
        (QueryRange(start="2024-01-01"), date(2024, 1, 1), None),
        (QueryRange(end="2024-01-01"), None, date(2024, 1, 1)),
        (QueryRange(start="2024-01-01", end="2024-01-01T00:00:01"), date(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 1)),
        (QueryRange(last="1 day"), date(2024, 3, 31), date(2024, 4, 1)),
        (QueryRange(last="7 days"), date(2024, 3, 25), date(2024, 4, 1)),
        (QueryRange(last="1 month"), date(2024, 3, 1), date(2024, 4, 1)),
        (QueryRange(last="1 quarter"), date(2024, 1, 1), date(2024, 4, 1)),
        (QueryRange(last="2 weeks"), date(2024, 3, 18), date(2024, 4, 1)),
    ],
)
def test_start_and_end(asked: QueryRange, start: object, end: object) -> None:
    assert asked_range(asked, NOW) == (start, end)


@pytest.mark.table(
    "asked",
    [
        QueryRange(start="2024-01-02", end="2024-01-01"),
        QueryRange(start="2024-01-01", end="2024-01-01"),
        QueryRange(start="2024-01-01", end="2024-01-01T00:00:00"),
        QueryRange(start="2024-02-30"),
        QueryRange(start="yesterday"),
        QueryRange(last="7"),
        QueryRange(last="0 days"),
        QueryRange(last="9999 years"),
    ],
)
def test_what_is_no_stretch_of_time(asked: QueryRange) -> None:
    with pytest.raises(SemanticError) as caught:
        asked_range(asked, NOW)
    assert caught.value.hint


@pytest.mark.table(
    ("span", "grain", "wanted"),
    [
        (Span(1, "year"), "month", True),
        (Span(1, "year"), "fiscal_quarter", True),
        (Span(4, "quarter"), "year", True),
        (Span(1, "month"), "quarter", False),
        (Span(28, "day"), "month", False),
        (Span(1, "year"), "week", False),
        (Span(52, "week"), "week", True),
        (Span(14, "day"), "week", True),
        (Span(10, "day"), "week", False),
        (Span(1, "month"), "day", True),
        (Span(1, "month"), "hour", True),
        (Span(3, "day"), "hour", True),
        (Span(90, "minute"), "hour", False),
        (Span(7200, "second"), "hour", True),
        (Span(36, "hour"), "day", False),
    ],
)
def test_which_periods_lie_so_far_apart(span: Span, grain: str, wanted: bool) -> None:
    assert lines_up(span, grain) is wanted


@pytest.mark.table(
    ("span", "grain", "wanted"),
    [
        (Span(1, "month"), "day", True),
        (Span(1, "year"), "hour", True),
        (Span(1, "year"), "month", False),
        (Span(1, "year"), "week", False),
        (Span(30, "day"), "day", False),
    ],
)
def test_where_several_periods_have_the_same_before_them(span: Span, grain: str, wanted: bool) -> None:
    assert differs_in_length(span, grain) is wanted


@pytest.mark.table(
    ("start", "end", "wanted"),
    [
        (date(2024, 1, 1), date(2025, 1, 1), Span(12, "month")),
        (date(2024, 2, 1), date(2024, 3, 1), Span(1, "month")),
        (datetime(2024, 2, 1), date(2024, 3, 1), Span(1, "month")),
        (date(2024, 2, 1), date(2024, 2, 29), Span(28, "day")),
        (date(2024, 2, 2), date(2024, 3, 2), Span(1, "month")),
        (date(2024, 2, 2), date(2024, 3, 4), Span(31, "day")),
        (datetime(2024, 1, 1, 6), datetime(2024, 1, 1, 18), Span(43_200, "second")),
    ],
)
def test_how_long_it_is(start: date, end: date, wanted: Span) -> None:
    assert length(start, end) == wanted
