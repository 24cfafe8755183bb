"""Times, numbers and booleans that a table stores as text or as seconds since 1970."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.semantic_oracle.cases.base import Case, World, many, source, table


def _row(number: int) -> tuple[Any, ...]:
    moment = datetime(2024, 1, 29, 22, 15) + timedelta(hours=31 * number)
    missing = number % 7 == 3
    fee = None if number % 9 == 4 else Decimal(number % 5) + Decimal("0.25")
    return (
        number,
        None if missing else moment.date(),
        None if missing else moment,
        moment + timedelta(minutes=100),
        fee,
        None if number % 8 == 5 else number % 3 == 0,
        1 + number % 2,
    )


STORED = World(
    "stored",
    {
        "bills": table(
            "bill INTEGER, day VARCHAR, paid_at VARCHAR, created BIGINT, fee VARCHAR, settled VARCHAR, shop INTEGER",
            *map(_row, range(40)),
        ),
        "shops": table("shop INTEGER, opened VARCHAR", (1, date(2023, 12, 31)), (2, date(2024, 1, 1))),
    },
    [
        source(
            "bills",
            "bill number, shop number",
            "bill",
            more=[
                {"name": "day", "type": "time", "stored_as": "iso_date", "natural_granularity": "day"},
                {"name": "paid_at", "type": "time", "stored_as": "iso_timestamp"},
                {"name": "created", "type": "time", "stored_as": "epoch_seconds"},
                {"name": "fee", "type": "number", "stored_as": "number_text"},
                {"name": "settled", "type": "boolean", "stored_as": "boolean_text"},
            ],
            m=[
                "fees = sum(fee)",
                "bill_count = count(*)",
                "largest = max(fee)",
                "open_fees = sum(fee) WHERE NOT settled",
            ],
            joins=[many("shops", "shop = shops.shop")],
            default_time_dimension="day",
        ),
        source(
            "shops",
            "shop number",
            "shop",
            more=[{"name": "opened", "type": "time", "stored_as": "iso_date", "natural_granularity": "day"}],
        ),
    ],
)


def _ask(name: str, why: str, *dimensions: Any, **more: Any) -> Case:
    measures = [f"bills.{each}" for each in more.pop("measures", ("fees", "bill_count"))]
    return Case(f"stored-{name}", STORED, {"measures": measures, "dimensions": list(dimensions), **more}, why=why)


def _by(column: str, grain: str) -> dict[str, str]:
    return {"field": column, "granularity": grain}


CASES = [
    _ask("dates-by-month", "dates that are stored as text are truncated to months", _by("bills.day", "month")),
    _ask("timestamps-by-week", "so are timestamps, to weeks", _by("bills.paid_at", "week")),
    _ask("epochs-by-month", "and seconds since 1970", _by("bills.created", "month")),
    _ask(
        "timestamps-by-hour",
        "a timestamp keeps its time of day",
        _by("bills.paid_at", "hour"),
        filters=["bills.bill < 9"],
    ),
    _ask("dates-as-they-are", "without a grain each date is a group", "bills.day", filters=["bills.bill < 12"]),
    _ask(
        "dates-of-a-joined-table",
        "the conversion follows the join",
        _by("shops.opened", "year"),
        measures=("fees", "open_fees"),
    ),
    _ask(
        "booleans",
        "a boolean stored as text groups and filters as a boolean",
        "bills.settled",
        measures=("fees", "largest", "open_fees"),
    ),
    _ask("numbers", "a number stored as text is a number as a dimension", "bills.fee", measures=("bill_count",)),
    _ask(
        "dates-in-a-range",
        "a time range compares dates, not texts",
        time_range={"field": "bills.day", "start": "2024-02-03", "end": "2024-03-01"},
    ),
    _ask(
        "epochs-compared",
        "a condition compares a moment with seconds since 1970",
        filters=["bills.created >= '2024-02-10' and bills.created < '2024-02-20 12:00:00'"],
    ),
    _ask(
        "timestamps-compared",
        "a T between date and time makes no difference",
        filters=["bills.paid_at > '2024-02-10T09:30:00'"],
    ),
    _ask(
        "numbers-compared",
        "10.25 is more than 1.5, although its text is less",
        "bills.shop",
        filters=["bills.fee > 1.5"],
    ),
    _ask(
        "booleans-compared", "a condition compares booleans, not texts", "bills.shop", filters=["bills.settled = TRUE"]
    ),
    _ask("missing-dates", "NULL stays NULL", filters=["bills.day IS NULL"]),
]
