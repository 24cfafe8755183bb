"""To-date, rolling and earlier values at the end of periods, of ranges, of years; and conditions on the axis."""

from collections import Counter
from datetime import date, datetime
from typing import Any

from tests.semantic_oracle.cases.axes import FISCAL, IN_2024, SUNDAY, TO_MAY, ask
from tests.semantic_oracle.cases.base import Case
from tests.semantic_oracle.cases.visits import ROWS, SHOP, VISITS, case, cut
from tests.semantic_oracle.timelines import Calendar as Years

LEAP = (datetime(2024, 2, 1), datetime(2024, 3, 31))
MID_QUARTER = (datetime(2023, 10, 1), datetime(2024, 2, 5))
YEAR_END = (datetime(2022, 12, 31), datetime(2023, 3, 1))


def by(grain: str, **calendar: Any) -> Any:
    return cut(grain, Years(calendar.get("week_start") == "sunday", calendar.get("fiscal_year_start", 1)))


def filtered(name: str, why: str, grain: str, numbers: str, asked: tuple[Any, Any], *filters: str, **rest: Any) -> Case:
    """Return a question whose filters say from when to when, as a time range would."""
    return case(f"filter-{name}", why, grain, [by(grain)], numbers, asked=asked, query={"filters": [*filters]}, **rest)


TO_DATE = [
    case(f"to-date-{name}", why, grain, [by(grain, **calendar)], numbers, calendar=calendar, **rest)
    for name, why, grain, numbers, calendar, rest in (
        ("month-by-quarter", "the last month of each quarter", "quarter", "mtd", {}, {}),
        ("month-by-year", "December of each year", "year", "mtd", {}, {}),
        ("quarter-by-year", "the last quarter of each year", "year", "qtd mtd", {}, {}),
        ("month-by-week", "from the first of the month in which the week ends", "week", "mtd", {}, {}),
        ("year-by-week", "the week of New Year counts from 1 January on", "week", "ytd", {}, {}),
        ("week-by-month", "the week in which the month ends, to its end", "month", "wtd", {}, {}),
        ("week-by-month-sunday", "weeks from Sunday", "month", "wtd", SUNDAY, {}),
        ("month-by-week-sunday", "weeks from Sunday to Saturday", "week", "mtd", SUNDAY, {}),
        ("fiscal-by-year", "from April of the year", "year", "fytd", FISCAL, {}),
        ("fiscal-by-month", "a fiscal year from April", "month", "fytd", FISCAL, {}),
        (
            "year-by-fiscal-year",
            "from January of the year in which the fiscal one ends",
            "fiscal_year",
            "ytd",
            FISCAL,
            {},
        ),
        ("fiscal-by-fiscal-quarter", "quarters in their fiscal year", "fiscal_quarter", "fytd", FISCAL, {}),
        (
            "month-by-quarter-range",
            "the range ends on 4 February: since the 1st",
            "quarter",
            "mtd",
            {},
            {"asked": MID_QUARTER},
        ),
        ("month-by-year-range", "the last year ends on 19 May", "year", "mtd qtd", {}, {"asked": TO_MAY}),
        ("month-by-week-range", "the last week is cut on the same day", "week", "mtd wtd", {}, {"asked": MID_QUARTER}),
        ("week-by-quarter-range", "the week the range ends in", "quarter", "wtd", {}, {"asked": MID_QUARTER}),
        (
            "month-earlier-by-quarter",
            "a month before the quarter's end does not lie in quarters",
            "quarter",
            "mtd_before",
            {},
            {},
        ),
        ("month-earlier", "the same of the month before", "month", "mtd_before mtd", {}, {"asked": TO_MAY}),
        (
            "fill",
            "months without visits begin at nothing",
            "month",
            "mtd ytd ever",
            {},
            {"asked": IN_2024, "fill": True},
        ),
    )
]
EARLIER = [
    case(f"earlier-{name}", why, grain, [by(grain)], numbers, **rest)
    for name, why, grain, numbers, rest in (
        ("of-earlier-month", "a month before the month before", "month", "month_before two_before", {}),
        ("of-earlier-quarter", "two months and one are a quarter", "quarter", "quarter_before", {}),
        ("of-earlier-week", "a week and 14 days are three weeks", "week", "three_weeks_before", {}),
        (
            "of-earlier-day",
            "31 March and 29 January lie two months apart, and 31 January",
            "day",
            "two_before",
            {"asked": LEAP},
        ),
        ("of-earlier-range", "cut as the range cuts", "month", "two_before three_weeks_before", {"asked": TO_MAY}),
        (
            "week-53",
            "the last week of 2020 against the one before",
            "week",
            "week_before wtd",
            {"asked": (datetime(2020, 12, 28), datetime(2021, 1, 11))},
        ),
        (
            "week-53-year",
            "weeks do not lie a year apart",
            "week",
            "year_before",
            {"asked": (datetime(2021, 12, 27), datetime(2024, 1, 9))},
        ),
        (
            "leap-day",
            "29 February against 28 February",
            "day",
            "year_before",
            {"asked": (datetime(2024, 2, 28), datetime(2024, 3, 2))},
        ),
        (
            "leap-day-after",
            "28 February 2025 against that of 2024",
            "day",
            "year_before total",
            {"asked": (datetime(2025, 2, 1), datetime(2025, 4, 1))},
        ),
        ("rolling", "seven days that end a year before", "month", "long_before week_long", {"asked": TO_MAY}),
        ("running", "what had been gathered a month before", "month", "ever_before ever", {"asked": TO_MAY}),
        ("running-week", "a month before a week", "week", "ever_before", {"asked": MID_QUARTER}),
        (
            "partial-year",
            "the year to 19 May against the same of the year before",
            "year",
            "year_before total",
            {"asked": TO_MAY},
        ),
        ("partial-quarter", "quarters cut at both ends", "quarter", "year_before quarter_before", {"asked": TO_MAY}),
        ("year-end", "January against December, both cut", "month", "month_before", {"asked": YEAR_END}),
    )
]
ROLLING = [
    case(f"rolling-{name}", why, grain, [by(grain), *more], numbers, **rest)
    for name, why, grain, more, numbers, rest in (
        ("by-quarter", "the last two months of a quarter", "quarter", [], "two_months week_long", {}),
        ("by-year", "the last week of a year", "year", [], "week_long", {}),
        ("by-week", "two months back from a Monday", "week", [], "two_months", {}),
        (
            "by-quarter-range",
            "the window hangs on the range's end",
            "quarter",
            [],
            "two_months week_long",
            {"asked": MID_QUARTER},
        ),
        ("by-shop", "each shop's window", "quarter", [SHOP], "two_months ever_a", {"asked": TO_MAY}),
        ("leap", "a window over 29 February", "day", [], "week_long two_months", {"asked": LEAP}),
    )
]
FILTERS = [
    filtered(
        "from",
        "earlier days count, and are not shown",
        "day",
        "ever week_long",
        (datetime(2024, 3, 1), None),
        "visits.day >= '2024-03-01'",
    ),
    filtered(
        "from-month",
        "the first month is cut for its own sum alone",
        "month",
        "ever month_before two_months",
        (datetime(2024, 2, 10), None),
        "visits.day >= '2024-02-10'",
    ),
    filtered(
        "until",
        "the last month is cut",
        "month",
        "ever mtd two_months",
        (None, datetime(2024, 2, 5)),
        "visits.day < '2024-02-05'",
    ),
    filtered(
        "up-to",
        "the last day is in it",
        "month",
        "ever mtd week_long",
        (None, datetime(2024, 2, 5)),
        "visits.day <= '2024-02-04'",
    ),
    filtered(
        "after",
        "the day itself is not in it",
        "day",
        "ever year_before",
        (datetime(2024, 3, 30), None),
        "visits.day > '2024-03-29'",
    ),
    filtered(
        "between",
        "both ends are in it",
        "quarter",
        "ever mtd year_before",
        (datetime(2024, 1, 1), datetime(2024, 5, 16)),
        "visits.day BETWEEN '2024-01-01' AND '2024-05-15'",
    ),
    filtered(
        "equal",
        "one day",
        "day",
        "ever week_long month_before",
        (datetime(2024, 2, 29), datetime(2024, 3, 1)),
        "visits.day = '2024-02-29'",
    ),
    filtered(
        "typed",
        "a typed date on the left",
        "month",
        "ever",
        (datetime(2024, 1, 8), None),
        "DATE '2024-01-08' <= visits.day",
    ),
    filtered(
        "two",
        "two conditions",
        "month",
        "ever total month_before",
        (datetime(2024, 1, 8), datetime(2024, 3, 30)),
        "visits.day >= '2024-01-08'",
        "visits.day < '2024-03-30'",
    ),
    filtered(
        "and",
        "one condition made of two",
        "month",
        "ever total",
        (datetime(2024, 1, 8), datetime(2024, 3, 30)),
        "visits.day >= '2024-01-08' AND visits.day < '2024-03-30'",
    ),
    filtered(
        "year",
        "a year as a number",
        "month",
        "ever ytd year_before",
        (datetime(2024, 1, 1), datetime(2025, 1, 1)),
        "extract(year from visits.day) = 2024",
    ),
    filtered(
        "own-year", "a computed year", "month", "ever month_before", (datetime(2024, 1, 1), None), "visits.y >= 2024"
    ),
    filtered(
        "truncated",
        "a truncated time",
        "week",
        "ever week_before",
        (datetime(2024, 2, 1), datetime(2024, 3, 1)),
        "date_trunc('month', visits.day) = '2024-02-01'",
    ),
    filtered(
        "metric-time",
        "metric_time is the same",
        "month",
        "ever",
        (datetime(2024, 2, 1), None),
        "metric_time >= '2024-02-01'",
    ),
    filtered(
        "calendar-date",
        "the calendar's date is the same",
        "month",
        "ever month_before",
        (datetime(2024, 2, 1), None),
        "dates.d >= '2024-02-01'",
    ),
    filtered(
        "known",
        "no row without a day counts anyway",
        "month",
        "ever month_before",
        (None, None),
        "visits.day IS NOT NULL",
        shown=lambda at: True,
        kept=lambda row: row["day"] is not None,
    ),
    filtered(
        "and-shop",
        "a condition on shops stays one on rows",
        "month",
        "ever total",
        (datetime(2024, 1, 8), None),
        "visits.day >= '2024-01-08'",
        "visits.shop <> 'b'",
        kept=lambda row: row["shop"] != "b",
    ),
    case(
        "filter-beside-range",
        "the range goes on at both ends",
        "month",
        [by("month")],
        "ever week_long",
        asked=(datetime(2024, 1, 8), datetime(2024, 3, 30)),
        query={"filters": ["visits.day >= '2024-01-08'"], "time_range": {"start": "2023-01-01", "end": "2024-03-30"}},
    ),
    case(
        "filter-months-of-years",
        "a condition that is no stretch of time holds for each row",
        "month",
        [by("month")],
        "ever month_before",
        kept=lambda row: row["day"] is not None and row["day"].month in (1, 2),
        query={"filters": ["extract(month from visits.day) IN (1, 2)"]},
    ),
    case(
        "filter-either",
        "nor is a choice of two",
        "month",
        [by("month")],
        "ever",
        kept=lambda row: row["day"] is not None and (row["day"] < date(2023, 2, 1) or row["day"] >= date(2024, 2, 1)),
        query={"filters": ["visits.day < '2023-02-01' OR visits.day >= '2024-02-01'"]},
    ),
    case(
        "filter-other-time",
        "a range on another time holds for each row, whatever is running",
        "month",
        [by("month")],
        "total ever month_before",
        kept=lambda row: row["booked"] is not None and date(2024, 1, 1) <= row["booked"] < date(2024, 4, 1),
        query={"time_range": {"field": "visits.booked", "start": "2024-01-01", "end": "2024-04-01"}},
    ),
]
BOOKED = Counter(row["booked"].year for row in ROWS if row["booked"] is not None)
_CHANGE = BOOKED[2024] - BOOKED[2023]
MADE = ("visits_made", "visits_made_previous", "visits_made_change", "visits_made_change_pct")
CASES = [
    *TO_DATE,
    *EARLIER,
    *ROLLING,
    *FILTERS,
    Case(
        "compare-two-grains",
        VISITS,
        ask(
            "visits_made",
            dimensions=["visits.day:year", "visits.day:month"],
            time_range={"start": "2023-12-01", "end": "2024-03-01"},
            comparison={"offset": "1 month"},
        ),
        [
            (date(2023, 1, 1), date(2023, 12, 1), 2, 0, 2, None),
            (date(2024, 1, 1), date(2024, 1, 1), 6, 2, 4, 200),
            (date(2024, 1, 1), date(2024, 2, 1), 4, 6, -2, -100 / 3),
        ],
        "December 2023 stands before January 2024, and nothing outside of the range is shown",
        columns=("day_year", "day_month", *MADE),
    ),
    Case(
        "compare-partial",
        VISITS,
        ask(
            "visits_made",
            dimensions=["visits.day:month", "visits.day:year"],
            time_range={"start": "2024-02-01", "end": "2024-03-05"},
            comparison={"offset": "1 month"},
        ),
        [(date(2024, 2, 1), date(2024, 1, 1), 4, 6, -2, -100 / 3), (date(2024, 3, 1), date(2024, 1, 1), 2, 2, 0, 0)],
        "1 to 4 March against 1 to 4 February",
        columns=("day_month", "day_year", *MADE),
    ),
    Case(
        "compare-by-filter",
        VISITS,
        ask(
            "visits_made",
            dimensions=["visits.day:month"],
            filters=["visits.day >= '2024-02-01'", "visits.day < '2024-03-05'"],
            comparison={"offset": "1 month"},
        ),
        [(date(2024, 2, 1), 4, 6, -2, -100 / 3), (date(2024, 3, 1), 2, 2, 0, 0)],
        "the filter cuts as the range does",
        columns=("day_month", *MADE),
    ),
    Case(
        "compare-empty-days",
        VISITS,
        ask("visits_made", time_range={"start": "2024-03-29", "end": "2024-03-31"}, comparison={"offset": "1 month"}),
        [(2, 1, 1, 100)],
        "29 and 30 March both have 29 February before them",
        columns=MADE,
    ),
    Case(
        "compare-other-time",
        VISITS,
        {
            "measures": ["visits.visits_made"],
            "dimensions": ["visits.booked:year"],
            "time_range": {"start": "2024-01-01", "end": "2025-01-01"},
            "comparison": {"offset": "1 year"},
            "include_empty": False,
        },
        [(date(2024, 1, 1), BOOKED[2024], BOOKED[2023], _CHANGE, 100 * _CHANGE / BOOKED[2023])],
        "the time the question groups by is the one compared along",
        columns=("booked_year", *MADE),
    ),
    Case(
        "filter-running-alone",
        VISITS,
        ask("ever", filters=["visits.day >= '2024-03-30'", "visits.day < '2024-05-01'"]),
        [(sum(row["n"] or 0 for row in ROWS if row["day"] is not None and row["day"] < date(2024, 5, 1)),)],
        "everything up to the last day",
        columns=("ever",),
    ),
]
