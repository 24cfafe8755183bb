"""Cumulative, rolling and to-date measures, earlier periods, comparisons."""

from datetime import date

from tests.semantic_oracle.cases.base import Case, World, grouped, measure, source, table

SALES = World(
    "sales",
    {
        "sales": table(
            "sale_id INTEGER, day DATE, shop VARCHAR, amount INTEGER, buyer INTEGER",
            (1, date(2023, 1, 15), "a", 10, 1),
            (2, date(2023, 2, 10), "b", 20, 2),
            (3, date(2023, 3, 5), "a", 30, 1),
            (4, date(2024, 1, 20), "a", 100, 1),
            (5, date(2024, 1, 31), "b", 50, 3),
            (6, date(2024, 2, 29), "a", 70, 2),
            (7, date(2024, 4, 1), "b", 40, 3),
            (8, date(2024, 4, 2), "c", 5, None),
            (9, None, "a", 900, 1),
        )
    },
    [
        source(
            "sales",
            "sale_id number, day time, shop string, amount number, buyer number",
            "sale_id",
            m=[
                "total = sum(amount)",
                "sale_count = count(*)",
                measure("ever = sum(amount)", cumulative={}),
                measure("ever_count = count(*)", cumulative={"over": "day"}),
                measure("buyers_so_far = count(distinct buyer)", cumulative={}),
                measure("rolling = sum(amount)", cumulative={"window": "2 months"}),
                measure("rolling_days = sum(amount)", cumulative={"window": "31 days"}),
                measure("ytd = sum(amount)", cumulative={"to_date": "year"}),
                measure("qtd = sum(amount)", cumulative={"to_date": "quarter"}),
                measure("fytd = sum(amount)", cumulative={"to_date": "fiscal_year"}),
                measure("ytd_a = sum(amount) WHERE shop = 'a'", cumulative={"to_date": "year"}),
                measure("last_year = sum(amount)", offset="1 year"),
                measure("last_month = sum(amount)", offset="1 month"),
                "growth = total / last_year",
            ],
        )
    ],
)
MONTH = grouped("sales.day", "month")
QUARTER = grouped("sales.day", "quarter")
M = {(y, m): date(y, m, 1) for y in (2023, 2024) for m in range(1, 13)}
IN_2024 = {"time_range": {"start": "2024-01-01", "end": "2025-01-01"}}


def ask(*measures: str, **rest: object) -> dict[str, object]:
    return {"measures": [f"sales.{each}" for each in measures], "include_empty": False} | rest


CASES = [
    Case(
        "cumulative-by-month",
        SALES,
        ask("ever", dimensions=[MONTH], **IN_2024),
        [(M[2024, 1], 210), (M[2024, 2], 280), (M[2024, 4], 325)],
        "rows before the range count; March has no row",
    ),
    Case(
        "cumulative-all-periods",
        SALES,
        ask("ever", "total", dimensions=[MONTH], filters=["sales.day IS NOT NULL"]),
        [
            (M[2023, 1], 10, 10),
            (M[2023, 2], 30, 20),
            (M[2023, 3], 60, 30),
            (M[2024, 1], 210, 150),
            (M[2024, 2], 280, 70),
            (M[2024, 4], 325, 45),
        ],
        "the running total beside the month's own",
    ),
    Case(
        "cumulative-fill",
        SALES,
        ask(
            "ever",
            "total",
            dimensions=[MONTH],
            fill=True,
            **IN_2024 | {"time_range": {"start": "2024-01-01", "end": "2024-05-01"}},
        ),
        [(M[2024, 1], 210, 150), (M[2024, 2], 280, 70), (M[2024, 3], 280, None), (M[2024, 4], 325, 45)],
        "March carries on, its own total is NULL",
    ),
    Case(
        "cumulative-by-shop",
        SALES,
        ask("ever", dimensions=[MONTH, "sales.shop"], **IN_2024),
        [
            (M[2024, 1], "a", 140),
            (M[2024, 1], "b", 70),
            (M[2024, 2], "a", 210),
            (M[2024, 2], "b", 70),
            (M[2024, 4], "a", 210),
            (M[2024, 4], "b", 110),
            (M[2024, 4], "c", 5),
        ],
        "b is shown in February because it sold before; c only from April",
    ),
    Case("cumulative-no-time", SALES, ask("ever"), [(1225,)], "everything"),
    Case(
        "cumulative-no-time-with-range",
        SALES,
        ask("ever", **IN_2024 | {"time_range": {"start": "2024-01-01", "end": "2024-02-01"}}),
        [(210,)],
        "everything before the range's end",
    ),
    Case(
        "cumulative-distinct",
        SALES,
        ask("buyers_so_far", dimensions=[MONTH], **IN_2024),
        [(M[2024, 1], 3), (M[2024, 2], 3), (M[2024, 4], 3)],
        "buyers 1, 2 and 3 are there from January; NULL is none",
    ),
    Case(
        "cumulative-count-over",
        SALES,
        ask("ever_count", dimensions=[QUARTER], filters=["sales.day IS NOT NULL"]),
        [(M[2023, 1], 3), (M[2024, 1], 6), (M[2024, 4], 8)],
        "by quarter",
    ),
    Case(
        "cumulative-metric-time",
        SALES,
        ask("ever", dimensions=[grouped("metric_time", "year")], **IN_2024),
        [(M[2024, 1], 325)],
        "metric_time is the same column",
    ),
    Case(
        "rolling-months",
        SALES,
        ask("rolling", dimensions=[MONTH], **IN_2024),
        [(M[2024, 1], 150), (M[2024, 2], 220), (M[2024, 4], 45)],
        "two months: December and January, January and February, March and April",
    ),
    Case(
        "rolling-fill",
        SALES,
        ask("rolling", dimensions=[MONTH], fill=True, time_range={"start": "2024-01-01", "end": "2024-07-01"}),
        [
            (M[2024, 1], 150),
            (M[2024, 2], 220),
            (M[2024, 3], 70),
            (M[2024, 4], 45),
            (M[2024, 5], 45),
            (M[2024, 6], None),
        ],
        "June: May and June have no row",
    ),
    Case(
        "rolling-days",
        SALES,
        ask("rolling_days", dimensions=[grouped("sales.day", "day")], **IN_2024),
        [
            (date(2024, 1, 20), 100),
            (date(2024, 1, 31), 150),
            (date(2024, 2, 29), 120),
            (date(2024, 4, 1), 40),
            (date(2024, 4, 2), 45),
        ],
        "31 days up to and with the day: 30 January to 29 February holds 31 January",
    ),
    Case("rolling-without-time", SALES, ask("rolling"), error="query|grain", why="a window needs periods"),
    Case("to-date-without-time", SALES, ask("ytd"), error="query|grain", why="to date needs periods"),
    Case(
        "to-date-year",
        SALES,
        ask("ytd", dimensions=[MONTH], filters=["sales.day IS NOT NULL"]),
        [(M[2023, 1], 10), (M[2023, 2], 30), (M[2023, 3], 60), (M[2024, 1], 150), (M[2024, 2], 220), (M[2024, 4], 265)],
        "starts again in January",
    ),
    Case(
        "to-date-quarter",
        SALES,
        ask("qtd", dimensions=[MONTH], **IN_2024),
        [(M[2024, 1], 150), (M[2024, 2], 220), (M[2024, 4], 45)],
        "April starts a quarter",
    ),
    Case(
        "to-date-fiscal-year",
        SALES,
        ask("fytd", dimensions=[MONTH], **IN_2024),
        [(M[2024, 1], 200), (M[2024, 2], 70), (M[2024, 4], 115)],
        "the year begins in February: January holds February 2023 on: 20 + 30 + 150",
        calendar={"fiscal_year_start": 2},
    ),
    Case(
        "to-date-with-filter",
        SALES,
        ask("ytd_a", dimensions=[MONTH], **IN_2024),
        [(M[2024, 1], 100), (M[2024, 2], 170), (M[2024, 4], 170)],
        "the measure's filter is inside",
    ),
]
