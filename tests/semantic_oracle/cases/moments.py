"""Conditions on the time a semi-additive measure goes over: they say where its last or first moment is looked for."""

from datetime import date

from tests.semantic_oracle.cases.base import Case, World, many, measure, source, table
from tests.semantic_oracle.cases.stock import FEBRUARY, JANUARY, MONTH, STOCK, _ask

_LEVELS = next(each for each in STOCK.sources if each["name"] == "levels")
OPEN = World(
    "stock_with_calendar",
    {
        **STOCK.tables,
        "days": table(
            "day DATE, open VARCHAR, half INTEGER",
            (date(2024, 1, 1), "y", 1),
            (date(2024, 1, 30), "y", 1),
            (date(2024, 1, 31), "n", 1),
            (date(2024, 2, 10), "y", 1),
            (date(2024, 2, 20), "n", 1),
        ),
    },
    [
        *(each for each in STOCK.sources if each["name"] != "levels"),
        _LEVELS
        | {
            "joins": [*_LEVELS["joins"], many("days", "day = days.day")],
            "measures": [
                *_LEVELS["measures"],
                measure("january = sum(units) WHERE day < '2024-02-01'", semi_additive={"over": "day", "take": "last"}),
                measure("on_open = sum(units) WHERE days.open = 'y'", semi_additive={"over": "day", "take": "last"}),
            ],
        },
        source("days", "day time, open string, half number", "day"),
    ],
)

CASES = [
    Case(
        "moment-before-a-day",
        STOCK,
        _ask("last_units", "last_per_store", filters=["levels.day < '2024-02-01'"]),
        [(25, 65)],
        "as with time_range: the last day before February is the 31st, 20 + 5; store 2's is the 30th, 40",
    ),
    Case(
        "moment-after-a-day",
        STOCK,
        _ask("first_units", filters=["levels.day > '2024-01-01'"]),
        [(40,)],
        "the first day after 1 January is the 30th",
    ),
    Case(
        "moment-not-a-day-by-month",
        STOCK,
        _ask("last_units", dimensions=[MONTH], filters=["levels.day <> '2024-01-31'"]),
        [(JANUARY, 40), (FEBRUARY, 103)],
        "January's last day is then the 30th",
    ),
    Case(
        "moment-of-metric-time",
        STOCK,
        _ask("last_units", filters=["metric_time < '2024-02-01'"]),
        [(25,)],
        "metric_time is the same column",
    ),
    Case(
        "moment-and-another-filter",
        STOCK,
        _ask("last_units", filters=["levels.day < '2024-02-01' AND levels.kind = 'y'"]),
        [(5,)],
        "the day first, the kind on that day",
    ),
    Case(
        "moment-by-city",
        STOCK,
        _ask("last_units", dimensions=["stores.city"], filters=["levels.day < '2024-02-01'"]),
        [("Rome", 25), ("Oslo", None)],
        "Oslo has nothing on the 31st: groups add up to 25",
    ),
    Case(
        "moment-of-a-mixed-condition",
        STOCK,
        _ask("last_units", filters=["levels.day < '2024-02-01' OR levels.kind = 'y'"]),
        [(None,)],
        "a condition that reads other columns too comes after: of 20 February the y row is left",
    ),
    Case(
        "moment-with-a-range",
        STOCK,
        _ask(
            "last_units",
            filters=["levels.day <> '2024-02-20'"],
            time_range={"field": "levels.day", "start": "2024-02-01"},
        ),
        [(7,)],
        "both restrict it",
    ),
    Case(
        "moment-of-a-calendar",
        OPEN,
        _ask("last_units", filters=["days.open = 'y'"]),
        [(7,)],
        "the last open day is 10 February",
    ),
    Case(
        "moment-of-a-calendar-by-month",
        OPEN,
        _ask("last_units", dimensions=[MONTH], filters=["days.open = 'y'"]),
        [(JANUARY, 40), (FEBRUARY, 7)],
        "the last open day of each month",
    ),
    Case(
        "moment-of-the-measures-own-filter",
        OPEN,
        _ask("january", "on_open", "last_units"),
        [(25, 7, 103)],
        "each measure's conditions on the day restrict its own",
    ),
    Case(
        "moment-of-the-measures-own-filter-by-month",
        OPEN,
        _ask("january", "on_open", "last_units", dimensions=[MONTH]),
        [(JANUARY, 25, 40, 25), (FEBRUARY, None, 7, 103), (None, None, None, None)],
        "a measure's filter takes no group away",
    ),
]
