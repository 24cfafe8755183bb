"""Measures of earlier periods, comparisons."""

from tests.semantic_oracle.cases.base import Case
from tests.semantic_oracle.cases.running import IN_2024, MONTH, QUARTER, SALES, M, ask

CASES = [
    Case(
        "offset-year",
        SALES,
        ask("total", "last_year", dimensions=[MONTH], **IN_2024),
        [(M[2024, 1], 150, 10), (M[2024, 2], 70, 20), (M[2024, 4], 45, None)],
        "the same month of 2023",
    ),
    Case(
        "offset-by-shop",
        SALES,
        ask("total", "last_year", dimensions=[MONTH, "sales.shop"], **IN_2024),
        [
            (M[2024, 1], "a", 100, 10),
            (M[2024, 1], "b", 50, None),
            (M[2024, 2], "a", 70, None),
            (M[2024, 2], "b", None, 20),
            (M[2024, 4], "b", 40, None),
            (M[2024, 4], "c", 5, None),
        ],
        "b sold in February 2023 alone: its row is there too",
    ),
    Case(
        "offset-month",
        SALES,
        ask("total", "last_month", dimensions=[MONTH], **IN_2024),
        [(M[2024, 1], 150, None), (M[2024, 2], 70, 150), (M[2024, 4], 45, None)],
        "March has no row: April's month before is empty",
    ),
    Case(
        "offset-quarter-grain",
        SALES,
        ask("total", "last_year", dimensions=[QUARTER], **IN_2024),
        [(M[2024, 1], 220, 60), (M[2024, 4], 45, None)],
        "the quarter a year before",
    ),
    Case(
        "offset-growth",
        SALES,
        ask("growth", "total", dimensions=[MONTH], **IN_2024),
        [(M[2024, 1], 15, 150), (M[2024, 2], 3.5, 70), (M[2024, 4], None, 45)],
        "divided by the year before; nothing there: NULL",
    ),
    Case(
        "offset-no-time-dimension",
        SALES,
        ask("total", "last_year", time_range={"start": "2024-01-01", "end": "2024-03-01"}),
        [(220, 30)],
        "the range a year earlier",
    ),
    Case("offset-nothing-to-move", SALES, ask("last_year"), error="query|grain", why="neither periods nor a range"),
    Case(
        "comparison-year",
        SALES,
        ask("sale_count", dimensions=[MONTH], comparison={"offset": "1 year"}, **IN_2024),
        [(M[2024, 1], 2, 1, 1, 100), (M[2024, 2], 1, 1, 0, 0), (M[2024, 4], 2, 0, 2, None)],
        "2 against 1 is 100 %; nothing before: no percentage",
    ),
    Case(
        "comparison-previous-period",
        SALES,
        ask(
            "sale_count",
            dimensions=[QUARTER],
            comparison={"offset": "previous_period"},
            filters=["sales.day IS NOT NULL"],
        ),
        [(M[2023, 1], 3, 0, 3, None), (M[2024, 1], 3, 0, 3, None), (M[2024, 4], 2, 3, -1, -100 / 3)],
        "the quarter before; the last of 2022 and of 2023 have no row",
        may_refuse="time_range",
    ),
    Case(
        "comparison-previous-range",
        SALES,
        ask("total", comparison={"offset": "previous_period"}, time_range={"start": "2024-02-01", "end": "2024-03-01"}),
        [(70, 150, -80, -80 / 1.5)],
        "the 29 days before 1 February hold January 20 and 31",
    ),
    Case(
        "comparison-two-measures",
        SALES,
        ask(
            "total",
            "sale_count",
            comparison={"offset": "1 year"},
            time_range={"start": "2024-01-01", "end": "2024-03-01"},
        ),
        [(220, 30, 190, 190 / 0.3, 3, 2, 1, 50)],
        "three more columns for each",
    ),
]
