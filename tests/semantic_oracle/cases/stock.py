"""Measures that do not add up over time: last, first, average (semi-additive)."""

from datetime import date

from tests.semantic_oracle.cases.base import Case, World, grouped, many, measure, source, table

STOCK = World(
    "stock",
    {
        "stores": table("store_id INTEGER, city VARCHAR", (1, "Rome"), (2, "Oslo"), (3, "Bonn")),
        "levels": table(
            "level_id INTEGER, store_id INTEGER, day DATE, kind VARCHAR, units INTEGER",
            (1, 1, date(2024, 1, 1), "x", 10),
            (2, 1, date(2024, 1, 31), "x", 20),
            (3, 1, date(2024, 1, 31), "y", 5),
            (4, 2, date(2024, 1, 30), "x", 40),
            (5, 1, date(2024, 2, 10), "x", 7),
            (6, 2, date(2024, 2, 20), "x", 3),
            (7, 2, date(2024, 2, 20), "y", None),
            (8, None, date(2024, 2, 20), "x", 100),
            (9, 1, None, "x", 1000),
        ),
    },
    [
        source("stores", "store_id number, city string", "store_id"),
        source(
            "levels",
            "level_id number, store_id number, day time, kind string, units number",
            "level_id",
            joins=[many("stores", "store_id = stores.store_id")],
            default_time_dimension="day",
            m=[
                measure("last_units = sum(units)", semi_additive={"over": "day", "take": "last"}),
                measure("first_units = sum(units)", semi_additive={"over": "day", "take": "first"}),
                measure("mean_units = sum(units)", semi_additive={"over": "day", "take": "average"}),
                measure(
                    "last_per_store = sum(units)", semi_additive={"over": "day", "take": "last", "per": ["store_id"]}
                ),
                measure(
                    "last_x = sum(units) WHERE kind = 'x'",
                    semi_additive={"over": "day", "take": "last", "per": ["store_id"]},
                ),
                measure("last_rows = count(*)", semi_additive={"over": "day", "take": "last"}),
                "all_units = sum(units)",
                "last_share = last_per_store / all_units",
            ],
        ),
    ],
)
MONTH = grouped("levels.day", "month")
JANUARY, FEBRUARY = date(2024, 1, 1), date(2024, 2, 1)


def _ask(*measures: str, **rest: object) -> dict[str, object]:
    return {"measures": [f"levels.{each}" for each in measures], "include_empty": False} | rest


CASES = [
    Case("stock-last-of-all", STOCK, _ask("last_units"), [(103,)], "the last day is 20 February: 3 + NULL + 100"),
    Case("stock-first-of-all", STOCK, _ask("first_units"), [(10,)], "1 January"),
    Case(
        "stock-last-per-store",
        STOCK,
        _ask("last_per_store"),
        [(110,)],
        "store 1 on 10 February 7, store 2 on the 20th 3, no store 100",
    ),
    Case(
        "stock-last-per-month",
        STOCK,
        _ask("last_units", dimensions=[MONTH]),
        [(JANUARY, 25), (FEBRUARY, 103), (None, None)],
        "31 January: 20 + 5; store 2's 30 January is not the last; a row without a day is in no last",
    ),
    Case(
        "stock-last-per-store-and-month",
        STOCK,
        _ask("last_per_store", dimensions=[MONTH]),
        [(JANUARY, 65), (FEBRUARY, 110), (None, None)],
        "January: store 1 20 + 5, store 2 40",
    ),
    Case(
        "stock-last-by-city",
        STOCK,
        _ask("last_units", dimensions=["stores.city"]),
        [("Rome", None), ("Oslo", 3), (None, 100)],
        "the last day is that of all rows: Rome has none on it",
    ),
    Case(
        "stock-last-with-a-filter",
        STOCK,
        _ask("last_units", filters=["stores.city = 'Rome'"]),
        [(None,)],
        "the last day is that of all rows, whatever the filter leaves: Rome has none on it",
    ),
    Case(
        "stock-last-per-store-by-city",
        STOCK,
        _ask("last_per_store", dimensions=["stores.city"]),
        [("Rome", 7), ("Oslo", 3), (None, 100)],
        "each store's own last day",
    ),
    Case(
        "stock-by-city-and-month",
        STOCK,
        _ask("last_per_store", dimensions=["stores.city", MONTH]),
        [
            ("Rome", JANUARY, 25),
            ("Oslo", JANUARY, 40),
            ("Rome", FEBRUARY, 7),
            ("Oslo", FEBRUARY, 3),
            (None, FEBRUARY, 100),
            ("Rome", None, None),
        ],
        "the last day per store within the month",
    ),
    Case(
        "stock-filter-comes-after",
        STOCK,
        _ask("last_units", filters=["levels.kind = 'y'"]),
        [(None,)],
        "the last day is looked for before the filter; its y row has no units",
    ),
    Case(
        "stock-filter-month",
        STOCK,
        _ask("last_units", filters=["levels.kind = 'y'"], dimensions=[MONTH]),
        [(JANUARY, 5), (FEBRUARY, None)],
        "31 January has 5 of y",
    ),
    Case(
        "stock-measure-filter",
        STOCK,
        _ask("last_x", dimensions=[MONTH]),
        [(JANUARY, 60), (FEBRUARY, 110), (None, None)],
        "January: 20 + 40 of x",
    ),
    Case(
        "stock-time-range",
        STOCK,
        _ask("last_units", "last_per_store", time_range={"field": "levels.day", "end": "2024-02-01"}),
        [(25, 65)],
        "the last day within the range",
    ),
    Case(
        "stock-average-by-day",
        STOCK,
        _ask("mean_units", filters=["levels.day < '2024-02-01'"]),
        [(25,)],
        "days 10, 40, 25: their mean",
    ),
    Case(
        "stock-average-by-month",
        STOCK,
        _ask("mean_units", dimensions=[MONTH], filters=["levels.day IS NOT NULL"]),
        [(JANUARY, 25), (FEBRUARY, 55)],
        "February: 7 and 103",
    ),
    Case("stock-count", STOCK, _ask("last_rows"), [(3,)], "rows of 20 February"),
    Case(
        "stock-beside-additive",
        STOCK,
        _ask("last_units", "all_units", dimensions=[MONTH]),
        [(JANUARY, 25, 75), (FEBRUARY, 103, 110), (None, None, 1000)],
        "the additive one has all rows",
    ),
    Case(
        "stock-in-a-ratio",
        STOCK,
        _ask("last_share", dimensions=[MONTH], filters=["levels.day IS NOT NULL"]),
        [(JANUARY, 65 / 75), (FEBRUARY, 1)],
        "a semi-additive part of a derived measure",
    ),
    Case(
        "stock-totals",
        STOCK,
        _ask("last_units", dimensions=[MONTH], filters=["levels.day IS NOT NULL"], totals=True),
        [(JANUARY, 25), (FEBRUARY, 103)],
        "the total is the last of all, not the sum of the months",
        totals=[103],
    ),
    Case(
        "stock-empty-city",
        STOCK,
        {"measures": ["levels.last_per_store"], "dimensions": ["stores.city"]},
        [("Rome", 7), ("Oslo", 3), ("Bonn", None), (None, 100)],
        "Bonn has no levels",
    ),
]
