"""Times with hours, calendars joined by a computed day, two facts of which one is missing, roles without measures."""

from datetime import date, datetime

from tests.semantic_oracle.cases.base import Case, World, many, measure, source, table

DAYS = [date(2024, 1, 1 + number) for number in range(31)]
SHOP = World(
    "timed shop",
    {
        "orders": table(
            "id INTEGER, ordered_at TIMESTAMP, amount INTEGER, bill_to INTEGER, ship_to INTEGER",
            (1, datetime(2024, 1, 1, 8, 30), 10, 1, 2),
            (2, datetime(2024, 1, 1, 23, 59, 59), 20, 1, None),
            (3, datetime(2024, 1, 3), 40, 2, 2),
            (4, datetime(2024, 2, 2, 12), 80, 2, 3),
            (5, datetime(2025, 3, 1, 1), 160, None, 1),
            (6, None, 320, 1, 1),
        ),
        "payments": table(
            "id INTEGER, paid_on DATE, amount INTEGER", (1, date(2024, 1, 2), 7), (2, date(2026, 5, 5), 9)
        ),
        "people": table(
            'id INTEGER, name VARCHAR, "Select" VARCHAR',
            (1, "Ann", "x"),
            (2, "Bob", "y"),
            (3, "Cid", "x"),
            (4, "Dee", None),
        ),
        "cal": table(
            "d DATE, tag VARCHAR, half VARCHAR", *((day, "early" if day.day < 3 else "late", "H1") for day in DAYS)
        ),
    },
    [
        source(
            "orders",
            "id number, ordered_at time, amount number, bill_to number, ship_to number",
            "id",
            more=[
                {"name": "order_day", "type": "time", "natural_granularity": "day", "expr": "CAST(ordered_at AS DATE)"}
            ],
            joins=[
                many("cal", "order_day = cal.d"),
                many("people", "bill_to = billed.id", "billed"),
                many("people", "ship_to = shipped.id", "shipped"),
            ],
            default_time_dimension="ordered_at",
            m=[
                "Revenue = sum(amount)",
                measure("so_far = sum(amount)", cumulative={}),
                measure("day_long = sum(amount)", cumulative={"window": "24 hours"}),
                measure("mtd = sum(amount)", cumulative={"to_date": "month"}),
            ],
        ),
        source(
            "payments",
            "id number, amount number",
            "id",
            more=[{"name": "paid_on", "type": "time", "natural_granularity": "day"}],
            m=["paid = sum(amount)", measure("paid_so_far = sum(amount)", cumulative={}), "twice = paid * 2"],
        ),
        source("people", "id number, name string", "id", more=[{"name": "Select", "type": "string"}]),
        source(
            "cal", "tag string, half string", "d", more=[{"name": "d", "type": "time", "natural_granularity": "day"}]
        ),
    ],
)
YEARS = [(date(year, 1, 1),) for year in (2024, 2025, 2026)]
KNOWN = ["orders.ordered_at IS NOT NULL"]


def timed(name: str, why: str, query: dict[str, object], columns: str, rows: list[tuple[object, ...]]) -> Case:
    return Case(f"timed-{name}", SHOP, {"include_empty": False} | query, rows, why, columns=tuple(columns.split()))


JAN, FEB, MAR = date(2024, 1, 1), date(2024, 2, 1), date(2025, 3, 1)
CASES = [
    timed(
        "computed-day-year",
        "a computed day cut to years is the time itself",
        {"measures": ["orders.so_far"], "dimensions": ["orders.order_day:year"], "filters": KNOWN},
        "order_day_year so_far",
        [(JAN, 150), (date(2025, 1, 1), 310)],
    ),
    timed(
        "computed-join",
        "a calendar joined by a computed day: what it did is looked at, and its date is the time",
        {"measures": ["orders.so_far"], "dimensions": ["cal.d:month"], "filters": KNOWN},
        "d_month so_far",
        [(JAN, 70)],
    ),
    timed(
        "computed-join-tag",
        "its columns beside the day",
        {"measures": ["orders.so_far"], "dimensions": ["cal.tag", "orders.ordered_at:day"], "filters": KNOWN},
        "tag ordered_at_day so_far",
        [("early", JAN, 30), ("late", date(2024, 1, 3), 70), (None, date(2024, 2, 2), 150), (None, MAR, 310)],
    ),
    timed(
        "plain-tag",
        "a plain sum by it, rows in no calendar too",
        {"measures": ["orders.revenue"], "dimensions": ["cal.tag"]},
        "tag Revenue",
        [("early", 30), ("late", 40), (None, 560)],
    ),
    timed(
        "hours-and-days",
        "hours are the axis, days follow",
        {
            "measures": ["orders.so_far", "orders.day_long"],
            "dimensions": ["orders.ordered_at:day", "orders.ordered_at:hour"],
            "time_range": {"end": "2024-01-04"},
        },
        "ordered_at_day ordered_at_hour so_far day_long",
        [
            (JAN, datetime(2024, 1, 1, 8), 10, 10),
            (JAN, datetime(2024, 1, 1, 23), 30, 30),
            (date(2024, 1, 3), datetime(2024, 1, 3), 70, 40),
        ],
    ),
    timed(
        "hours-and-tag",
        "a calendar's column beside hours",
        {
            "measures": ["orders.so_far"],
            "dimensions": ["cal.tag", "orders.ordered_at:hour"],
            "time_range": {"end": "2024-01-04"},
        },
        "tag ordered_at_hour so_far",
        [
            ("early", datetime(2024, 1, 1, 8), 10),
            ("early", datetime(2024, 1, 1, 23), 30),
            ("late", datetime(2024, 1, 3), 70),
        ],
    ),
    timed(
        "no-granularity",
        "a timestamp without a granularity is cut to days for what is running, and for the sum beside it",
        {"measures": ["orders.so_far", "orders.revenue"], "dimensions": ["orders.ordered_at"], "filters": KNOWN},
        "ordered_at so_far Revenue",
        [(JAN, 30, 30), (date(2024, 1, 3), 70, 40), (date(2024, 2, 2), 150, 80), (MAR, 310, 160)],
    ),
    timed(
        "moment-filter",
        "a moment within a day cuts the day for its own sum, not for what came before",
        {
            "measures": ["orders.so_far", "orders.revenue"],
            "dimensions": ["orders.ordered_at:day"],
            "filters": ["orders.ordered_at >= '2024-01-01 12:00:00'", "orders.ordered_at < '2024-02-02 12:00:01'"],
        },
        "ordered_at_day so_far Revenue",
        [(JAN, 30, 20), (date(2024, 1, 3), 70, 40), (date(2024, 2, 2), 150, 80)],
    ),
    timed(
        "moment-up-to",
        "up to a moment is no half-open stretch: it holds for each row",
        {
            "measures": ["orders.so_far"],
            "dimensions": ["orders.ordered_at:day"],
            "filters": ["orders.ordered_at <= '2024-01-01 23:59:59'"],
        },
        "ordered_at_day so_far",
        [(JAN, 30)],
    ),
    timed(
        "month-of-a-week",
        "since the start of the month, to the range's end",
        {
            "measures": ["orders.mtd"],
            "dimensions": ["orders.ordered_at:week"],
            "time_range": {"start": "2024-01-01", "end": "2024-01-04"},
        },
        "ordered_at_week mtd",
        [(JAN, 70)],
    ),
    timed(
        "missing-sums",
        "a sum that is missing counts as 0, of a measure and of an aggregate alike",
        {
            "measures": [
                {"expr": "sum(payments.amount) - sum(orders.amount)", "name": "a"},
                {"expr": "payments.paid - orders.revenue", "name": "b"},
                {"expr": "payments.paid - sum(orders.amount)", "name": "c"},
                {"expr": "CAST(sum(payments.amount) AS DOUBLE) - ROUND(sum(orders.amount), 0)", "name": "d"},
            ],
            "dimensions": ["metric_time:year"],
            "time_range": {"start": "2024-01-01"},
        },
        "metric_time_year a b c d",
        [(YEARS[0][0], *[-143] * 4), (YEARS[1][0], *[-160] * 4), (YEARS[2][0], *[9] * 4)],
    ),
    timed(
        "missing-ratio",
        "of a division too; a missing divisor still gives nothing",
        {
            "measures": [{"expr": "sum(payments.amount) / sum(orders.amount)", "name": "share"}],
            "dimensions": ["metric_time:year"],
            "time_range": {"start": "2025-01-01"},
        },
        "metric_time_year share",
        [(YEARS[1][0], 0), (YEARS[2][0], None)],
    ),
    timed(
        "missing-alone",
        "a sum alone stays missing",
        {
            "measures": ["sum(payments.amount)", "orders.revenue"],
            "dimensions": ["metric_time:year"],
            "time_range": {"start": "2025-01-01"},
        },
        "metric_time_year sum_payments_amount Revenue",
        [(YEARS[1][0], None, 160), (YEARS[2][0], 9, None)],
    ),
    timed(
        "case-of-names",
        "measures are found whatever their case, as columns are; a keyword is a name where it is one",
        {"measures": ["ORDERS.REVENUE"], "dimensions": ["billed.select"], "filters": KNOWN},
        "Select Revenue",
        [("x", 30), ("y", 120), (None, 160)],
    ),
    timed(
        "two-times",
        "the running sums of two facts, each along its own time",
        {
            "measures": ["orders.so_far", "payments.paid_so_far"],
            "dimensions": ["metric_time:year"],
            "filters": [{"expr": "orders.ordered_at IS NOT NULL", "facts": ["orders"]}],
        },
        "metric_time_year so_far paid_so_far",
        [(YEARS[0][0], 150, 7), (YEARS[1][0], 310, 7), (YEARS[2][0], 310, 16)],
    ),
    timed(
        "role-alone",
        "a role without a measure: of the rows that have it",
        {"dimensions": ["billed.name"]},
        "name",
        [("Ann",), ("Bob",), (None,)],
    ),
    timed(
        "two-roles-alone",
        "two roles: the combinations there are",
        {"dimensions": ["billed.name", "shipped.name"]},
        "billed_name shipped_name",
        [("Ann", "Bob"), ("Ann", None), ("Bob", "Bob"), ("Bob", "Cid"), (None, "Ann"), ("Ann", "Ann")],
    ),
    Case(
        "timed-refused-tag",
        SHOP,
        {"measures": ["orders.so_far"], "dimensions": ["cal.tag"]},
        error="grain",
        settled=True,
        why="what the calendar calls a day is no period",
    ),
    Case(
        "timed-refused-zone",
        SHOP,
        {"measures": ["orders.so_far"], "dimensions": ["orders.order_day:month"], "timezone": "Europe/Berlin"},
        error="grain",
        settled=True,
        why="the computed day is of another zone than the periods",
    ),
]
