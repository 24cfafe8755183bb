"""Calendar tables: their date is the time, their other columns stand beside days; dates they lack have no label."""

from datetime import datetime

from tests.semantic_oracle.cases.axes import IN_2024, ask, both
from tests.semantic_oracle.cases.base import Case
from tests.semantic_oracle.cases.visits import DATES, SHOP, VISITS, case, cut, of_calendar
from tests.semantic_oracle.timelines import Label


def known(at: datetime) -> bool:
    return at.date() in DATES


def by_date(grain: str) -> Label:
    return Label(f"dates.d:{grain}", f"d_{grain}", cut(grain).of)


YM_TEXT = Label({"field": "dates.ym", "name": "label"}, "label", of_calendar("ym").of)
JANUARY = (datetime(2024, 1, 25), datetime(2024, 2, 10))
CASES = [
    *both(
        "calendar-ym-day",
        "year and month as a text beside the day",
        "day",
        [of_calendar("ym"), cut("day")],
        "total ever mtd",
    ),
    *both(
        "calendar-fiscal-day",
        "the calendar's fiscal year beside the day",
        "day",
        [of_calendar("fiscal"), cut("day")],
        "ever",
    ),
    *both(
        "calendar-kind-day", "weekend or not beside the day", "day", [of_calendar("kind"), cut("day")], "ever week_long"
    ),
    *both(
        "calendar-three",
        "two columns of the calendar and the day",
        "day",
        [of_calendar("ym"), of_calendar("kind"), cut("day")],
        "total ever month_before",
    ),
    *both(
        "calendar-fill",
        "every day with its label, the one without too",
        "day",
        [of_calendar("ym"), cut("day")],
        "total ever",
        fill=True,
        asked=JANUARY,
    ),
    *both("calendar-shop-day", "a category too", "day", [YM_TEXT, cut("day")], "ever", asked=IN_2024),
    case(
        "calendar-shop",
        "days, their label, and shops",
        "day",
        [cut("day"), of_calendar("ym"), SHOP],
        "total ever",
        asked=IN_2024,
    ),
    case(
        "calendar-date-month",
        "the calendar's date is the time; what it lacks is not shown",
        "month",
        [by_date("month")],
        "total ever",
        shown=known,
    ),
    case(
        "calendar-date-year-own-month",
        "its year beside own months",
        "month",
        [by_date("year"), cut("month")],
        "ever",
        asked=IN_2024,
    ),
    case(
        "calendar-date-day-range",
        "its days within a range",
        "day",
        [by_date("day")],
        "ever week_long",
        asked=JANUARY,
        shown=known,
    ),
    case("calendar-date-quarter", "quarters of its date", "quarter", [by_date("quarter")], "ever ytd", shown=known),
    case(
        "calendar-date-range-on-it",
        "the range on the calendar's date is one on the time",
        "month",
        [by_date("month")],
        "ever month_before",
        asked=IN_2024,
        shown=known,
        query={"time_range": {"field": "dates.d", "start": "2024-01-01", "end": "2025-01-01"}},
    ),
    *[
        Case(
            f"calendar-refused-{name}",
            VISITS,
            ask(measure, dimensions=dimensions, **rest),
            error="grain",
            settled=True,
            why=why,
        )  # type: ignore[arg-type]
        for name, measure, dimensions, why, rest in (
            ("ym", "ever", ["dates.ym"], "nobody says that a text is a month", {}),
            ("ym-month", "ever", ["dates.ym", "visits.day:month"], "nor that it is the same all month", {}),
            (
                "fiscal-compared",
                "total",
                ["dates.fiscal"],
                "a comparison needs periods",
                {"comparison": {"offset": "1 month"}, "time_range": {"start": "2024-01-01", "end": "2024-04-01"}},
            ),
            ("kind", "week_long", ["dates.kind"], "weekends are no period", {}),
            ("first", "ever", ["dates.first_of_month"], "a date of the calendar that is not its key", {}),
            ("fill", "total", ["visits.day:month", "dates.ym"], "fill cannot say the label of a month", {"fill": True}),
        )
    ],
    Case(
        "calendar-plain",
        VISITS,
        ask(
            "visits_made", dimensions=["dates.ym"], filters=["visits.day >= '2024-01-29'", "visits.day < '2024-02-10'"]
        ),
        [("2024-01", 1), (None, 1), ("2024-02", 2)],
        "a plain count by a calendar's column: 31 January is not in it",
        columns=("ym", "visits_made"),
    ),
]
