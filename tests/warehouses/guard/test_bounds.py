"""Dates and spans that are written as text, and how many items a series of them has."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.warehouses.guard.bounds import (
    ASSUMED_SECONDS,
    is_unmeasured,
    items,
    items_between,
    seconds_of_moment,
    seconds_of_span,
)


@pytest.mark.table(
    ("text", "unit", "seconds"),
    [
        ("1 day", "", 86_400),
        ("1", "DAY", 86_400),
        ("-2", "hours", -7_200),
        ("1 year 2 days", "", 31_708_800),
        ("01:30", "", 5_400),
        ("1 day 00:00:01.5", "", 86_401.5),
        ("5 microseconds", "", 5e-6),
        ("1", "", None),
        ("", "", None),
        ("a day", "", None),
        ("1 fortnight", "", None),
    ],
)
def test_spans(text: str, unit: str, seconds: float | None) -> None:
    assert seconds_of_span(text, unit) == (seconds if seconds is None else pytest.approx(seconds))


@given(st.text(max_size=20), st.sampled_from(["", "day", "x"]))
def test_any_text_is_a_span_or_none(text: str, unit: str) -> None:
    found = seconds_of_span(text, unit)
    assert found is None or isinstance(found, float)
    assert seconds_of_moment(text) is None or text


@given(
    st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
    st.timedeltas(timedelta(0), timedelta(days=900)),
    st.data(),
)
def test_a_series_has_as_many_items_as_are_counted(start: datetime, span: timedelta, data: st.DataObject) -> None:
    step = timedelta(days=data.draw(st.integers(1, 30)))
    counted, moment = 0, start
    while moment <= start + span:
        counted, moment = counted + 1, moment + step
    first, last = seconds_of_moment(start.isoformat()), seconds_of_moment((start + span).isoformat())
    assert first is not None
    assert last is not None
    assert math.floor(items(first, last, step.total_seconds()) + 1e-6) == counted


def test_moments() -> None:
    assert seconds_of_moment("2024-01-01") == datetime(2024, 1, 1, tzinfo=UTC).timestamp()
    assert seconds_of_moment("2024-01-01 00:00:00+01:00") == datetime(2023, 12, 31, 23, tzinfo=UTC).timestamp()
    assert seconds_of_moment("today") is None
    assert [is_unmeasured(text) for text in ("infinity", "4713-01-01 BC", "12024-01-01", "2024-01-01")] == [
        *(True, True, True),
        False,
    ]


def test_items() -> None:
    assert items(1, 5, 2) == 3
    assert items(5, 1, -1) == 5
    assert items(5, 1, 1) == 0
    assert items(1, 5, 0) == math.inf
    assert items_between((), (), 86_400) == ASSUMED_SECONDS / 86_400 + 1
    assert items_between((0.0, ASSUMED_SECONDS * 2), (), ASSUMED_SECONDS) == 3
