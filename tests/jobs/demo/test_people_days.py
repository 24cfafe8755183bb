from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.jobs.demo.people import (
    CALENDAR_END,
    DATE_KEYS,
    DAY_COUNT,
    FIRST_DAY,
    LAST_DAY,
    calendar_rows,
    date_key,
    day_at,
    fiscal_month,
    fiscal_year,
    month_starts,
)


@pytest.mark.table(
    ("day", "year", "month"),
    [
        (date(2025, 2, 1), 2025, 1),
        (date(2025, 7, 31), 2025, 6),
        (date(2025, 12, 31), 2025, 11),
        (date(2026, 1, 31), 2025, 12),
        (date(2025, 1, 1), 2024, 12),
    ],
)
def test_the_fiscal_year_begins_in_february(day: date, year: int, month: int) -> None:
    assert (fiscal_year(day), fiscal_month(day)) == (year, month)


@given(st.dates(date(1990, 1, 1), date(2060, 1, 1)))
def test_fiscal_months_follow_one_another(day: date) -> None:
    position = fiscal_year(day) * 12 + fiscal_month(day)
    following = day + timedelta(days=1)
    step = 1 if following.day == 1 else 0
    assert fiscal_year(following) * 12 + fiscal_month(following) == position + step


def test_keys_are_the_days_in_order() -> None:
    assert DATE_KEYS[0] == date_key(FIRST_DAY) == 20230101
    assert DATE_KEYS[DAY_COUNT - 1] == date_key(LAST_DAY) == 20251231
    assert DATE_KEYS[-1] == date_key(CALENDAR_END) == 20260131
    assert list(DATE_KEYS) == sorted(set(DATE_KEYS))
    assert day_at(-1) == date(2022, 12, 31)


def test_the_calendar_has_every_day_once_with_its_quarters() -> None:
    rows = calendar_rows()
    assert [row[0] for row in rows] == list(DATE_KEYS)
    by_key = {row[0]: row for row in rows}
    assert by_key[20250430] == (
        20250430,
        date(2025, 4, 30),
        2025,
        2,
        4,
        date(2025, 4, 1),
        "Wednesday",
        False,
        2025,
        1,
        3,
    )
    assert by_key[20260131][6:] == ("Saturday", True, 2025, 4, 12)


def test_month_starts() -> None:
    starts = month_starts()
    assert (len(starts), starts[0], starts[-1]) == (36, date(2023, 1, 1), date(2025, 12, 1))
