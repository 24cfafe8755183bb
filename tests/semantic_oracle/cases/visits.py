"""The world of the cases about time axes: visits with gaps, over year ends, on a leap day and in a week 53."""

from datetime import date, datetime, time, timedelta
from typing import Any

from tests.semantic_oracle.cases.base import Case, World, many, measure, source, table
from tests.semantic_oracle.timelines import Calendar as Years
from tests.semantic_oracle.timelines import Category, Label, Number, Timeline

_DAYS = (
    *(["2020-12-27", "2020-12-28", "2020-12-31", "2021-01-01", "2021-01-03", "2021-01-04"]),  # week 53 of 2020
    *(["2022-12-30", "2022-12-31", "2023-01-01", "2023-01-02", "2023-01-31", "2023-02-28", "2023-03-01", "2023-03-31"]),
    *(["2023-04-30", "2023-06-30", "2023-07-01", "2023-09-30", "2023-10-01", "2023-12-29", "2023-12-31"]),
    *(
        [
            "2024-01-01",
            "2024-01-01",
            "2024-01-07",
            "2024-01-08",
            "2024-01-29",
            "2024-01-31",
            "2024-02-01",
            "2024-02-04",
            "2024-02-28",
        ]
    ),
    *(
        [
            "2024-02-29",
            "2024-03-01",
            "2024-03-04",
            "2024-03-29",
            "2024-03-30",
            "2024-03-31",
            "2024-04-01",
            "2024-05-15",
            "2024-06-30",
        ]
    ),
    *(["2024-07-01", "2024-09-29", "2024-09-30", "2024-12-30", "2024-12-31", "2025-01-01", "2025-02-28", "2025-03-31"]),
)
"""Days with visits: ends and starts of months, quarters, years and weeks; none in August."""


def _rows() -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for number, text in enumerate(_DAYS):
        day = date.fromisoformat(text)
        clock = time((number * 7) % 24, (number * 13) % 60, (number * 29) % 60)
        moment = datetime.combine(day, clock if number % 3 else time())
        amount = None if number == 17 else number * number % 97 + 1
        found.append((number + 1, day, moment, "abc"[number * 5 % 3], amount, day - timedelta(days=number % 4)))
    found.append((90, None, None, "a", 5000, date(2024, 1, 5)))
    found.append((91, None, None, "b", 7000, None))
    return found


def _calendar() -> list[tuple[Any, ...]]:
    """Return the days from 2022-12-25 on: earlier visits lead to none of them; 31 January 2024 is forgotten."""
    days = [date(2022, 12, 25) + timedelta(days=number) for number in range(900)]
    return [
        (
            day,
            f"{day.year}-{day.month:02}",
            day.year + (day.month >= 4),
            day.year,
            day.month,
            "weekend" if day.weekday() > 4 else "weekday",
            day.replace(day=1),
        )
        for day in days
        if day != date(2024, 1, 31)
    ]


VISITS = World(
    "visits",
    {
        "visits": table("visit_id INTEGER, day DATE, at TIMESTAMP, shop VARCHAR, n INTEGER, booked DATE", *_rows()),
        "dates": table(
            "d DATE, ym VARCHAR, fiscal INTEGER, y INTEGER, m INTEGER, kind VARCHAR, first_of_month DATE", *_calendar()
        ),
    },
    [
        source(
            "visits",
            "visit_id number, shop string, n number",
            "visit_id",
            more=[
                {"name": "day", "type": "time", "natural_granularity": "day"},
                {"name": "at", "type": "time"},
                {"name": "booked", "type": "time", "natural_granularity": "day"},
                {"name": "at_day", "type": "time", "natural_granularity": "day", "expr": "CAST(at AS DATE)"},
                {"name": "y", "type": "number", "expr": "extract(year from day)"},
                {"name": "weekday", "type": "number", "expr": "extract(dow from day)"},
            ],
            joins=[many("dates", "day = dates.d")],
            default_time_dimension="day",
            m=[
                "total = sum(n)",
                "visits_made = count(*)",
                measure("ever = sum(n)", cumulative={}),
                measure("ever_made = count(*)", cumulative={}),
                measure("ever_a = sum(n) WHERE shop = 'a'", cumulative={}),
                measure("ever_at = sum(n)", cumulative={"over": "at"}),
                measure("week_long = sum(n)", cumulative={"window": "7 days"}),
                measure("two_months = sum(n)", cumulative={"window": "2 months"}),
                measure("mtd = sum(n)", cumulative={"to_date": "month"}),
                measure("wtd = sum(n)", cumulative={"to_date": "week"}),
                measure("qtd = sum(n)", cumulative={"to_date": "quarter"}),
                measure("ytd = sum(n)", cumulative={"to_date": "year"}),
                measure("fytd = sum(n)", cumulative={"to_date": "fiscal_year"}),
                measure("month_before = sum(n)", offset="1 month"),
                measure("year_before = sum(n)", offset="1 year"),
                measure("week_before = sum(n)", offset="1 week"),
                measure("two_before = month_before", offset="1 month"),
                measure("quarter_before = month_before", offset="2 months"),
                measure("three_weeks_before = week_before", offset="14 days"),
                measure("mixed_before = week_before", offset="1 month"),
                measure("mtd_before = mtd", offset="1 month"),
                measure("long_before = week_long", offset="1 year"),
                measure("ever_before = ever", offset="1 month"),
            ],
        ),
        source(
            "dates",
            "ym string, fiscal number, y number, m number, kind string",
            "d",
            more=[
                {"name": "d", "type": "time", "natural_granularity": "day"},
                {"name": "first_of_month", "type": "time", "natural_granularity": "day"},
            ],
        ),
    ],
)
ROWS = [row | {"at_time": row["at"]} for row in VISITS.tables["visits"].records()]
for _row in ROWS:
    _row["day_at"] = None if _row["day"] is None else datetime.combine(_row["day"], time())
DATES = {row["d"]: row for row in VISITS.tables["dates"].records()}

NUMBERS = {
    each.name: each
    for each in (
        Number("visits.total", "total"),
        Number("visits.visits_made", "visits_made", None),
        Number("visits.ever", "ever", running=True),
        Number("visits.ever_made", "ever_made", None, running=True),
        Number("visits.ever_a", "ever_a", running=True, where=lambda row: row["shop"] == "a"),
        Number("visits.week_long", "week_long", window=(7, "day")),
        Number("visits.two_months", "two_months", window=(2, "month")),
        Number("visits.mtd", "mtd", to_date="month"),
        Number("visits.wtd", "wtd", to_date="week"),
        Number("visits.qtd", "qtd", to_date="quarter"),
        Number("visits.ytd", "ytd", to_date="year"),
        Number("visits.fytd", "fytd", to_date="fiscal_year"),
        Number("visits.month_before", "month_before", earlier=(1, "month")),
        Number("visits.year_before", "year_before", earlier=(1, "year")),
        Number("visits.week_before", "week_before", earlier=(1, "week")),
        Number("visits.two_before", "two_before", earlier=(2, "month")),
        Number("visits.quarter_before", "quarter_before", earlier=(3, "month")),
        Number("visits.three_weeks_before", "three_weeks_before", earlier=(21, "day")),
        Number("visits.mtd_before", "mtd_before", to_date="month", earlier=(1, "month")),
        Number("visits.long_before", "long_before", window=(7, "day"), earlier=(1, "year")),
        Number("visits.ever_before", "ever_before", running=True, earlier=(1, "month")),
    )
}
SHOP = Category("visits.shop", "shop", lambda row: row["shop"])


def cut(grain: str, years: Years | None = None, column: str = "day") -> Label:
    """Return a column of the time cut to a grain."""
    own = years or Years()
    return Label(f"visits.{column}:{grain}", f"{column}_{grain}", lambda at: own.label(at, grain))


def of_calendar(column: str) -> Label:
    """Return a column of the calendar, nothing where it has not the day."""
    return Label(f"dates.{column}", column, lambda at: DATES[at.date()][column] if at.date() in DATES else None)


def case(
    name: str,
    why: str,
    axis: str,
    columns: list[Label | Category],
    numbers: str,
    *,
    calendar: dict[str, Any] | None = None,
    query: dict[str, Any] | None = None,
    **timeline: Any,
) -> Case:
    """Return a case: the question, and its answer worked out row by row. `axis`: what its author says it is."""
    wanted = [NUMBERS[each] for each in numbers.split()]
    years = Years((calendar or {}).get("week_start") == "sunday", (calendar or {}).get("fiscal_year_start", 1))
    line = Timeline(ROWS, axis, columns, wanted, years, **{"time": "day_at"} | timeline)
    asked = timeline.get("asked", (None, None))
    ends = {key: end.isoformat(sep=" ") for key, end in zip(("start", "end"), asked, strict=True) if end is not None}
    made: dict[str, Any] = {"measures": [each.asked for each in wanted], "dimensions": [each.asked for each in columns]}
    made |= {"include_empty": False, "limit": 5000}
    made |= {"time_range": {"field": "visits.day"} | ends} if ends and "filters" not in (query or {}) else {}
    made |= {"fill": True} if timeline.get("fill") else {}
    names = (*(each.name for each in columns), *(each.name for each in wanted))
    return Case(name, VISITS, made | (query or {}), line.answer(), why, calendar=calendar or {}, columns=names)
