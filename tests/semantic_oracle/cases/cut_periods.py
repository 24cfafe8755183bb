"""Periods a time range cuts: windows hang on the earlier of the period's and the range's end, earlier values too."""

from datetime import date, datetime, timedelta

from tests.semantic_oracle.cases.base import Case, World, grouped, measure, source, table

FIRST = date(2024, 1, 1)
DAYS = [FIRST + timedelta(days=number) for number in range(182)]


def noon(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 12)


DAILY = World(
    "daily",
    {
        "daily": table(
            "id INTEGER, day DATE, at TIMESTAMP, v INTEGER, who INTEGER, half INTEGER",
            *((number, day, noon(day), 1, number % 5, number % 2) for number, day in enumerate(DAYS)),
        ),
        "pulses": table(
            "id INTEGER, at TIMESTAMP, v INTEGER",
            (1, datetime(2024, 1, 1, 9, 10), 1),
            (2, datetime(2024, 1, 1, 9, 40), 2),
            (3, datetime(2024, 1, 1, 10, 20), 4),
            (4, datetime(2024, 1, 1, 11, 5), 8),
        ),
    },
    [
        source(
            "daily",
            "id number, at time, v number, who number, half number",
            "id",
            more=[{"name": "day", "type": "time", "natural_granularity": "day"}],
            default_time_dimension="day",
            m=[
                "total = sum(v)",
                measure("r7 = sum(v)", cumulative={"window": "7 days"}),
                measure("who3 = count(distinct who)", cumulative={"window": "3 days"}),
                measure("pairs3 = count(distinct who, half)", cumulative={"window": "3 days"}),
                measure("r7_before = sum(v)", cumulative={"window": "7 days"}, offset="1 month"),
                measure("ytd = sum(v)", cumulative={"to_date": "year"}),
                measure("last_month = sum(v)", offset="1 month"),
                measure("day_at = sum(v)", time="at", cumulative={"window": "1 day"}),
            ],
        ),
        source(
            "pulses",
            "id number, at time, v number",
            "id",
            m=[
                "volume = sum(v)",
                measure("r90 = sum(v)", cumulative={"window": "90 minutes"}),
                measure("before90 = sum(v)", offset="90 minutes"),
            ],
        ),
    ],
)
MONTH = grouped("daily.day", "month")
MAR, APR, MAY = date(2024, 3, 1), date(2024, 4, 1), date(2024, 5, 1)
CUT = {"time_range": {"start": "2024-03-01", "end": "2024-05-04"}}


def ask(*measures: str, **rest: object) -> dict[str, object]:
    return {"measures": [f"daily.{each}" for each in measures], "dimensions": [MONTH]} | CUT | rest


def hours(*measures: str, **rest: object) -> dict[str, object]:
    found = {"measures": [f"pulses.{each}" for each in measures], "dimensions": [grouped("pulses.at", "hour")]}
    return found | rest


CASES = [
    Case(
        "cut-rolling-beside-a-sum",
        DAILY,
        ask("r7", "total"),
        [(MAR, 7, 31), (APR, 7, 30), (MAY, 7, 3)],
        "one row a day: the seven days before 4 May are 27 April to 3 May",
    ),
    Case(
        "cut-rolling-alone",
        DAILY,
        ask("r7"),
        [(MAR, 7), (APR, 7), (MAY, 7)],
        "May is there without a measure that has rows in it",
    ),
    Case("cut-rolling-filled", DAILY, ask("r7", fill=True), [(MAR, 7), (APR, 7), (MAY, 7)], "the same with fill"),
    Case(
        "cut-rolling-filled-behind-the-data",
        DAILY,
        ask("r7", fill=True, time_range={"start": "2024-06-01", "end": "2024-07-04"}),
        [(date(2024, 6, 1), 7), (date(2024, 7, 1), 4)],
        "the data end with June: of 27 June to 3 July four days have a row",
    ),
    Case(
        "cut-filled-to-a-moment",
        DAILY,
        ask(
            "r7",
            "total",
            fill=True,
            time_range={"field": "daily.day", "start": "2024-05-30", "end": "2024-07-01T12:00:00"},
        ),
        [(MAY, 7, 2), (date(2024, 6, 1), 7, 30), (date(2024, 7, 1), 6, None)],
        "half a day of July is asked for, so July is shown; 25 to 30 June are in its window, no day of July is",
    ),
    Case(
        "cut-hours-filled-to-a-moment",
        DAILY,
        hours("volume", fill=True, time_range={"start": "2024-01-01T09:30:00", "end": "2024-01-01T11:01:00"}),
        [(datetime(2024, 1, 1, 9), 2), (datetime(2024, 1, 1, 10), 4), (datetime(2024, 1, 1, 11), None)],
        "a minute of the hour from 11:00 is asked for",
    ),
    Case(
        "cut-distinct",
        DAILY,
        ask("who3", "pairs3"),
        [(MAR, 3, 3), (APR, 3, 3), (MAY, 3, 3)],
        "three days in a row have three of the five",
    ),
    Case("cut-distinct-filled", DAILY, ask("who3", fill=True), [(MAR, 3), (APR, 3), (MAY, 3)], "the same with fill"),
    Case(
        "cut-by-weeks",
        DAILY,
        ask("r7", dimensions=[grouped("daily.day", "week")], time_range={"start": "2024-04-22", "end": "2024-05-02"}),
        [(date(2024, 4, 22), 7), (date(2024, 4, 29), 7)],
        "the second week is cut after three days",
    ),
    Case(
        "cut-before-a-start-in-a-period",
        DAILY,
        ask("r7", "total", time_range={"start": "2024-03-30", "end": "2024-05-04"}),
        [(MAR, 7, 2), (APR, 7, 30), (MAY, 7, 3)],
        "a window goes back behind the start",
    ),
    Case(
        "cut-in-a-day",
        DAILY,
        ask(
            "day_at",
            dimensions=[grouped("daily.at", "month")],
            time_range={"field": "daily.at", "start": "2024-04-01", "end": "2024-05-03T18:00:00"},
        ),
        [(APR, 1), (MAY, 1)],
        "from 2 May 18:00 to 3 May 18:00 lies one noon; a day of dates would hold none or two",
    ),
    Case(
        "cut-earlier-window",
        DAILY,
        ask("r7_before", "total"),
        [(MAR, 7, 31), (APR, 7, 30), (MAY, 7, 3)],
        "a month before 4 May is 4 April, the seven days before it are there",
    ),
    Case(
        "cut-earlier",
        DAILY,
        ask("total", "last_month"),
        [(MAR, 31, 29), (APR, 30, 31), (MAY, 3, 3)],
        "three days of May, three days of April",
    ),
    Case(
        "cut-earlier-start",
        DAILY,
        ask("total", "last_month", time_range={"start": "2024-03-20", "end": "2024-05-01"}, totals=True),
        [(MAR, 12, 10), (APR, 30, 31)],
        "20 to 31 March, 20 to 29 February; the rows add up to 20 February to 31 March",
        totals=[42, 41],
    ),
    Case("cut-to-date", DAILY, ask("ytd"), [(MAR, 91), (APR, 121), (MAY, 124)], "since January, to the range's end"),
    Case(
        "window-of-parts-of-an-hour",
        DAILY,
        hours("r90"),
        [(datetime(2024, 1, 1, 9), 3), (datetime(2024, 1, 1, 10), 6), (datetime(2024, 1, 1, 11), 8)],
        "8:30 to 10:00, 9:30 to 11:00, 10:30 to 12:00",
    ),
    Case(
        "earlier-by-parts-of-an-hour",
        DAILY,
        hours("before90", "volume"),
        [(datetime(2024, 1, 1, 9), None, 3), (datetime(2024, 1, 1, 10), 1, 4), (datetime(2024, 1, 1, 11), 6, 8)],
        "8:30 to 9:30 before the hour from 10:00, 9:30 to 10:30 before that from 11:00",
    ),
]
