"""Earlier values where periods do not line up: weeks and years, days and months."""

from datetime import date, datetime

from tests.semantic_oracle.cases.base import Case, World, grouped, measure, source, table


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


UNEVEN = World(
    "uneven",
    {
        "sales": table(
            "id INTEGER, day DATE, at TIMESTAMP, amount INTEGER",
            (1, date(2023, 1, 8), moment("2023-01-08 12:00:00"), 10),
            (2, date(2023, 1, 9), moment("2023-01-09 12:00:00"), 20),
            (3, date(2024, 1, 3), moment("2024-01-03 12:00:00"), 50),
            (4, date(2024, 1, 8), moment("2024-01-08 12:00:00"), 100),
            (5, date(2024, 2, 25), moment("2024-02-25 12:00:00"), 1),
            (6, date(2024, 2, 29), moment("2024-02-29 12:00:00"), 2),
            (7, date(2024, 2, 29), moment("2024-02-29 20:00:00"), 3),
            (8, date(2024, 3, 1), moment("2024-03-01 12:00:00"), 4),
            (9, date(2024, 3, 29), moment("2024-03-29 12:00:00"), 8),
            (10, date(2024, 3, 30), moment("2024-03-30 12:00:00"), 16),
            (11, date(2024, 4, 1), moment("2024-04-01 12:00:00"), 32),
        )
    },
    [
        source(
            "sales",
            "id number, at time, amount number",
            "id",
            more=[{"name": "day", "type": "time", "natural_granularity": "day"}],
            default_time_dimension="day",
            m=[
                "total = sum(amount)",
                measure("last_year = sum(amount)", offset="1 year"),
                measure("last_month = sum(amount)", offset="1 month"),
                measure("weeks_52 = sum(amount)", offset="52 weeks"),
                measure("days_28 = sum(amount)", offset="28 days"),
                measure("at_last_month = sum(amount)", time="at", offset="1 month"),
                measure("week_last_year = sum(amount)", offset="1 year", cumulative={"window": "7 days"}),
            ],
        )
    ],
)
WEEK, DAY = grouped("sales.day", "week"), grouped("sales.day", "day")
JANUARY = {"time_range": {"start": "2024-01-01", "end": "2024-01-15"}}
W1, W2 = date(2024, 1, 1), date(2024, 1, 8)


def ask(*measures: str, **rest: object) -> dict[str, object]:
    return {"measures": [f"sales.{each}" for each in measures], "dimensions": [WEEK]} | JANUARY | rest


CASES = [
    Case(
        "weeks-a-year-before",
        UNEVEN,
        ask("total", "last_year"),
        [(W1, 50, None), (W2, 100, 30)],
        "8 to 14 January are held against 8 to 14 January, not against the week 8 January 2023 ends",
    ),
    Case(
        "weeks-compared",
        UNEVEN,
        ask("total", comparison={"offset": "1 year"}, totals=True),
        [(W1, 50, None, None, None), (W2, 100, 30, 70, 700 / 3)],
        "rows of earlier values add up to their total",
        totals=[150, 30, 120, 400],
    ),
    Case(
        "weeks-from-sunday",
        UNEVEN,
        ask("last_year", "total", time_range={"start": "2024-01-07", "end": "2024-01-14"}),
        [(date(2024, 1, 7), 30, 100)],
        "7 to 13 January 2023 hold both",
        calendar={"week_start": "sunday"},
    ),
    Case(
        "weeks-52",
        UNEVEN,
        ask("total", "weeks_52"),
        [(W1, 50, 10), (W2, 100, 20)],
        "whole weeks: 2 to 8 January 2023 and 9 to 15 January 2023",
    ),
    Case(
        "weeks-cut",
        UNEVEN,
        ask("total", "last_year", time_range={"start": "2024-01-01", "end": "2024-01-09"}),
        [(W1, 50, None), (W2, 100, 10)],
        "of the second week one day is asked for: 8 January 2023",
    ),
    Case(
        "weeks-cut-at-their-start",
        UNEVEN,
        ask("last_year", fill=True, time_range={"start": "2024-01-09", "end": "2024-01-15"}),
        [(W2, 20)],
        "9 to 14 January 2023",
    ),
    Case(
        "weeks-a-month-before",
        UNEVEN,
        ask("last_month", "total", time_range={"start": "2024-03-25", "end": "2024-04-08"}),
        [(date(2024, 3, 25), 6, 24), (date(2024, 4, 1), 4, 32)],
        "25 to 29 February before the last week of March, 1 to 7 March before the first of April",
    ),
    Case(
        "weeks-window-a-year-before",
        UNEVEN,
        ask("week_last_year", "total"),
        [(W1, None, 50), (W2, 30, 100)],
        "the seven days before 15 January 2023",
    ),
    Case(
        "months-28-days-before",
        UNEVEN,
        ask(
            "days_28",
            "total",
            dimensions=[grouped("sales.day", "month")],
            time_range={"start": "2024-03-01", "end": "2024-05-01"},
        ),
        [(date(2024, 3, 1), 10, 28), (date(2024, 4, 1), 56, 32)],
        "2 February to 3 March: 1 + 2 + 3 + 4; 4 March to 2 April: 8 + 16 + 32",
    ),
    Case(
        "quarters-a-month-before",
        UNEVEN,
        ask(
            "last_month",
            "total",
            dimensions=[grouped("sales.day", "quarter")],
            time_range={"start": "2024-04-01", "end": "2024-07-01"},
        ),
        [(date(2024, 4, 1), 60, 32)],
        "March, April and May: 4 + 8 + 16 + 32",
    ),
    Case(
        "days-a-month-before",
        UNEVEN,
        ask("last_month", "total", dimensions=[DAY], time_range={"start": "2024-03-29", "end": "2024-03-31"}),
        [(date(2024, 3, 29), 5, 8), (date(2024, 3, 30), 5, 16)],
        "29 and 30 March have 29 February before them, also where the range ends with the 30th",
    ),
    Case(
        "days-a-month-before-to-the-months-end",
        UNEVEN,
        ask("last_month", dimensions=[DAY], fill=True, time_range={"start": "2024-03-28", "end": "2024-04-02"}),
        [
            (date(2024, 3, 28), None),
            (date(2024, 3, 29), 5),
            (date(2024, 3, 30), 5),
            (date(2024, 3, 31), 5),
            (date(2024, 4, 1), 4),
        ],
        "three days have the same one before them: rows do not add up to the total",
    ),
    Case(
        "days-a-month-before-cut",
        UNEVEN,
        ask(
            "at_last_month",
            dimensions=[grouped("sales.at", "day")],
            time_range={"field": "sales.at", "start": "2024-03-29", "end": "2024-03-30T18:00:00"},
        ),
        [(date(2024, 3, 29), 5), (date(2024, 3, 30), 2)],
        "the 30th is asked for until 18:00, so is the day before it; the 29th is whole",
    ),
    Case(
        "days-a-month-before-cut-at-their-start",
        UNEVEN,
        ask(
            "at_last_month",
            dimensions=[grouped("sales.at", "day")],
            fill=True,
            time_range={"field": "sales.at", "start": "2024-03-29T18:00:00", "end": "2024-03-31"},
        ),
        [(date(2024, 3, 29), 3), (date(2024, 3, 30), 5)],
        "the 29th is asked for from 18:00; the 30th is whole",
    ),
]
