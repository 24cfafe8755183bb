"""Which conditions on a time are a stretch of it."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from ktx_cli.semantic.expressions.fragments import parse
from ktx_cli.semantic.expressions.names import Expression, Name, placeholder, with_names
from ktx_cli.semantic.model import CalendarSettings
from ktx_cli.semantic.plan.axis import bounds_of, merged
from ktx_cli.semantic.plan.plan import Bounds, TimeRange

MAY, JUNE = date(2024, 5, 1), date(2024, 6, 1)
NOON = datetime(2024, 5, 1, 12)


def bounds(text: str, *, is_date: bool) -> Bounds | None:
    tree = with_names(parse(text, "duckdb", what="x"), None, text, lambda column: Name((), column.name)).tree
    return bounds_of(tree, CalendarSettings(), is_date=is_date)


@pytest.mark.table(
    ("text", "of_days", "of_moments"),
    [
        ("x >= '2024-05-01'", (MAY, None), (MAY, None)),
        ("x < DATE '2024-05-01'", (None, MAY), (None, MAY)),
        ("'2024-05-01' <= x", (MAY, None), (MAY, None)),
        ("x <= '2024-05-31'", (None, JUNE), None),
        ("x > '2024-05-31'", (JUNE, None), None),
        ("x = '2024-05-31'", (date(2024, 5, 31), JUNE), None),
        ("x BETWEEN '2024-05-01' AND '2024-05-31'", (MAY, JUNE), None),
        ("x >= TIMESTAMP '2024-05-01 12:00:00'", None, (NOON, None)),
        ("x::date <= '2024-05-31'", (None, JUNE), (None, JUNE)),
        ("date_trunc('month', x) = '2024-05-01'", (MAY, JUNE), (MAY, JUNE)),
        ("date_trunc('month', x) = '2024-05-02'", None, None),
        (
            "extract(year from x) BETWEEN 2023 AND 2024",
            (date(2023, 1, 1), date(2025, 1, 1)),
            (date(2023, 1, 1), date(2025, 1, 1)),
        ),
        ("year(x) > 2023", (date(2024, 1, 1), None), (date(2024, 1, 1), None)),
        ("(x IS NOT NULL)", (None, None), (None, None)),
        ("x IS NULL", None, None),
        ("month(x) = 5", None, None),
        ("x <> '2024-05-01'", None, None),
        ("x >= 'soon'", None, None),
        ("x >= '2024-05-01T00:00:00+02:00'", None, None),
        ("x >= '2024-05-01' OR x < '2023-01-01'", None, None),
        ("x > x", None, None),
    ],
)
def test_conditions_on_a_day_and_on_a_moment(text: str, of_days: Bounds | None, of_moments: Bounds | None) -> None:
    assert bounds(text, is_date=True) == of_days
    assert bounds(text, is_date=False) == of_moments


def test_the_shortest_of_all_stretches_counts() -> None:
    time = Expression(placeholder(0), (Name((), "x"),), None, "x")
    asked = TimeRange(time, date(2024, 1, 1), None)
    assert merged(time, asked, [(MAY, None), (None, JUNE), (None, None)]) == TimeRange(time, MAY, JUNE)
    assert merged(time, None, [(None, None)]) is None
