"""Several dimensions of one time: the finest is the axis, the others follow from it, in whatever order they stand."""

from datetime import date, datetime
from itertools import permutations

from tests.semantic_oracle.cases.base import Case
from tests.semantic_oracle.cases.visits import SHOP, VISITS, case, cut
from tests.semantic_oracle.timelines import Calendar as Years
from tests.semantic_oracle.timelines import Label

RUNNING = "total ever two_months"
IN_2024 = (datetime(2024, 1, 1), datetime(2025, 1, 1))
TO_MAY = (datetime(2023, 11, 10), datetime(2024, 5, 20))
FISCAL = {"fiscal_year_start": 4}
FEBRUARY = {"fiscal_year_start": 2}
SUNDAY = {"week_start": "sunday"}


def both(name: str, why: str, axis: str, columns: list[Label], numbers: str, **rest: object) -> list[Case]:
    """Return the question with its dimensions in every order."""
    orders = permutations(columns) if len(columns) < 3 else (columns, columns[::-1])
    return [case(f"{name}-{number}", why, axis, [*order], numbers, **rest) for number, order in enumerate(orders)]  # type: ignore[arg-type]


def ask(*measures: str, **rest: object) -> dict[str, object]:
    return {"measures": [f"visits.{each}" for each in measures], "include_empty": False} | rest


def year_of(at: datetime) -> int:
    return at.year


EXTRACTED = Label({"field": "extract(year from visits.day)", "name": "y"}, "y", year_of)
MONTH_OF = Label({"field": "extract(month from visits.day)", "name": "m"}, "m", lambda at: at.month)
QUARTER_OF = Label({"field": "extract(quarter from visits.day)", "name": "q"}, "q", lambda at: (at.month + 2) // 3)
TRUNCATED = Label({"field": "date_trunc('year', visits.day)", "name": "year"}, "year", lambda at: date(at.year, 1, 1))
OWN_YEAR = Label("visits.y", "y", year_of)
WEEKDAY = Label("visits.weekday", "weekday", lambda at: (at.weekday() + 1) % 7)

CASES = [
    *both("axis-year-month", "months are the axis, years follow", "month", [cut("year"), cut("month")], RUNNING),
    *both("axis-quarter-month", "quarters follow from months", "month", [cut("quarter"), cut("month")], RUNNING),
    *both("axis-year-quarter", "quarters are the axis", "quarter", [cut("year"), cut("quarter")], RUNNING),
    *both("axis-year-week-day", "a day lies in one week", "day", [cut("year"), cut("week"), cut("day")], RUNNING),
    *both(
        "axis-week-month-day",
        "by day also weeks and months",
        "day",
        [cut("week"), cut("month"), cut("day")],
        "ever mtd",
    ),
    *both(
        "axis-year-quarter-month",
        "three grains, the range cuts the first and the last month",
        "month",
        [cut("year"), cut("quarter"), cut("month")],
        "total ever month_before year_before",
        asked=TO_MAY,
    ),
    *both(
        "axis-fiscal-year-month",
        "fiscal years from April hold whole months",
        "month",
        [cut("fiscal_year", Years(fiscal=4)), cut("month")],
        "ever fytd",
        calendar=FISCAL,
    ),
    *both(
        "axis-fiscal-quarter-year",
        "fiscal quarters from April are calendar quarters",
        "fiscal_quarter",
        [cut("fiscal_quarter", Years(fiscal=4)), cut("year")],
        "ever year_before",
        calendar=FISCAL,
    ),
    *both(
        "axis-fiscal-both-months",
        "years and fiscal years from February, told apart by month",
        "month",
        [cut("year"), cut("fiscal_year", Years(fiscal=2)), cut("month")],
        "ever fytd ytd",
        calendar=FEBRUARY,
    ),
    *both(
        "axis-week-day-sunday",
        "weeks from Sunday",
        "day",
        [cut("week", Years(sunday=True)), cut("day")],
        "ever wtd",
        calendar=SUNDAY,
    ),
    *both(
        "axis-year-month-fill",
        "every month between, with its year",
        "month",
        [cut("year"), cut("month")],
        RUNNING,
        fill=True,
        asked=IN_2024,
    ),
    *both(
        "axis-quarter-day-range",
        "days cut by a range, in their quarters",
        "day",
        [cut("quarter"), cut("day")],
        "ever week_long month_before",
        asked=TO_MAY,
    ),
    *both("axis-extract-month", "the year as a number beside months", "month", [EXTRACTED, cut("month")], RUNNING),
    *both(
        "axis-own-column-month",
        "a computed column of the time beside months",
        "month",
        [OWN_YEAR, cut("month")],
        "total ever year_before",
    ),
    *both("axis-trunc-month", "date_trunc of the time beside months", "month", [TRUNCATED, cut("month")], "total ever"),
    *both(
        "axis-year-and-month-numbers",
        "year and month as numbers are a month",
        "month",
        [EXTRACTED, MONTH_OF],
        "total ever month_before",
    ),
    *both(
        "axis-year-and-quarter-numbers",
        "year and quarter as numbers are a quarter",
        "quarter",
        [EXTRACTED, QUARTER_OF],
        "total ever",
    ),
    *both("axis-weekday-day", "a weekday beside the day", "day", [WEEKDAY, cut("day")], "ever mtd"),
    case("axis-extract-alone", "the year as a number is a year", "year", [EXTRACTED], "total ever year_before"),
    case("axis-trunc-alone", "a truncated time is its period", "year", [TRUNCATED], "total ever ytd"),
    case("axis-own-column-alone", "a computed year is a year", "year", [OWN_YEAR], "total ever"),
    case(
        "axis-shop-year-month",
        "a category beside two grains",
        "month",
        [cut("year"), SHOP, cut("month")],
        "total ever mtd",
    ),
    case(
        "axis-shop-year-month-range",
        "the same with a range",
        "month",
        [SHOP, cut("month"), cut("year")],
        "total ever year_before",
        asked=IN_2024,
    ),
    case(
        "axis-own-day",
        "a date without a granularity is a day",
        "day",
        [Label("visits.day", "day", lambda at: at.date())],
        "total ever week_long mtd month_before",
    ),
    case(
        "axis-own-day-range",
        "the same with a range: what is before it counts, and is not shown",
        "day",
        [Label("visits.day", "day", lambda at: at.date())],
        "ever week_long year_before",
        asked=TO_MAY,
    ),
    case(
        "axis-own-day-fill",
        "fill goes by the day",
        "day",
        [Label("visits.day", "day", lambda at: at.date())],
        "total ever",
        asked=(datetime(2024, 2, 25), datetime(2024, 3, 6)),
        fill=True,
    ),
    case(
        "axis-metric-time-day",
        "metric_time without a granularity is a day",
        "day",
        [Label("metric_time", "metric_time", lambda at: at.date())],
        "total ever",
    ),
    case(
        "axis-metric-time-year-month",
        "metric_time in two grains is the same time",
        "month",
        [Label("metric_time:year", "metric_time_year", lambda at: date(at.year, 1, 1)), cut("month")],
        "total ever month_before",
    ),
    *[
        Case(
            f"axis-refused-{name}",
            VISITS,
            ask("ever", dimensions=dimensions, **rest),
            error="grain",
            settled=True,
            why=why,
        )  # type: ignore[arg-type]
        for name, dimensions, why, rest in (
            ("week-month", ["visits.day:week", "visits.day:month"], "a week lies in two months", {}),
            ("month-week", ["visits.day:month", "visits.day:week"], "in this order too", {}),
            ("week-year", ["visits.day:week", "visits.day:year"], "the week of New Year lies in two years", {}),
            ("month-alone", ["extract(month from visits.day)"], "months of all years are no period", {}),
            ("weekday-month", ["visits.weekday", "visits.day:month"], "a month has all weekdays", {}),
            ("other-time", ["visits.booked:month"], "the measure goes over day, not booked", {}),
            ("half", ["CASE WHEN visits.day < '2024-01-01' THEN 'old' ELSE 'new' END"], "no period", {}),
        )
    ],
    Case(
        "axis-refused-fiscal-quarter",
        VISITS,
        ask("ever", dimensions=["visits.day:fiscal_year", "visits.day:quarter"]),
        error="grain",
        settled=True,
        why="from February fiscal years hold no whole calendar quarters",
        calendar=FEBRUARY,
    ),
    Case(
        "axis-refused-offset-offset",
        VISITS,
        ask("mixed_before", dimensions=["visits.day:month"]),
        error="query",
        settled=True,
        why="a month and a week have no length together",
    ),
    Case(
        "axis-week-month-plain",
        VISITS,
        ask(
            "visits_made",
            dimensions=["visits.day:week", "visits.day:month"],
            filters=["visits.day >= '2024-01-29'", "visits.day < '2024-02-10'"],
        ),
        [(date(2024, 1, 29), date(2024, 1, 1), 2), (date(2024, 1, 29), date(2024, 2, 1), 2)],
        "a plain count has no axis: 29 and 31 January, 1 and 4 February",
        columns=("day_week", "day_month", "visits_made"),
    ),
]
