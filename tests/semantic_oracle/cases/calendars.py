"""Time grains: zones with daylight saving, week edges, fiscal years, ranges, finest grains (defect B12)."""

from datetime import date, datetime

from tests.semantic_oracle.cases.base import Case, World, grouped, source, table


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


CLOCK = World(
    "clock",
    {
        "pings": table(
            "ping_id INTEGER, at TIMESTAMP, local_at TIMESTAMP, day DATE, hits INTEGER",
            (1, instant("2024-03-30 23:30:00"), instant("2024-03-30 23:30:00"), date(2024, 3, 30), 1),
            (2, instant("2024-03-31 00:30:00"), instant("2024-03-31 00:30:00"), date(2024, 3, 31), 2),
            (3, instant("2024-03-31 01:30:00"), instant("2024-03-31 04:30:00"), date(2024, 3, 31), 4),
            (4, instant("2024-03-31 22:30:00"), instant("2024-03-31 22:30:00"), date(2024, 3, 31), 8),
            (5, instant("2024-04-01 00:00:00"), instant("2024-04-01 00:00:00"), date(2024, 4, 1), 16),
            (6, instant("2024-10-27 00:15:00"), instant("2024-10-27 00:15:00"), date(2024, 10, 27), 32),
            (7, instant("2024-10-27 01:45:00"), instant("2024-10-27 04:45:00"), date(2024, 10, 27), 64),
            (8, instant("2024-12-31 23:59:59"), instant("2024-12-31 23:59:59"), date(2024, 12, 31), 128),
            (9, instant("2024-01-01 00:00:00"), instant("2024-01-01 00:00:00"), date(2024, 1, 1), 256),
            (10, None, None, None, 512),
        )
    },
    [
        source(
            "pings",
            "ping_id number, at time, hits number",
            "ping_id",
            more=[
                {"name": "local_at", "type": "time", "timezone": "Europe/Berlin"},
                {"name": "day", "type": "time", "natural_granularity": "day"},
            ],
            default_time_dimension="at",
            m=["ping_count = count(*)", "hit_total = sum(hits)"],
        )
    ],
)
BERLIN = {"timezone": "Europe/Berlin"}
KNOWN = {"filters": ["pings.at IS NOT NULL"]}


def by(column: str, grain: str, **rest: object) -> dict[str, object]:
    return {"measures": ["pings.hit_total"], "dimensions": [grouped(f"pings.{column}", grain)]} | KNOWN | rest


CASES = [
    Case(
        "grain-week-monday",
        CLOCK,
        by("at", "week"),
        [
            (date(2024, 3, 25), 15),
            (date(2024, 4, 1), 16),
            (date(2024, 10, 21), 96),
            (date(2024, 12, 30), 128),
            (date(2024, 1, 1), 256),
        ],
        "1 January and 1 April 2024 are Mondays and start their own weeks",
    ),
    Case(
        "grain-week-sunday",
        CLOCK,
        by("at", "week"),
        [
            (date(2024, 3, 24), 1),
            (date(2024, 3, 31), 30),
            (date(2024, 10, 27), 96),
            (date(2024, 12, 29), 128),
            (date(2023, 12, 31), 256),
        ],
        "weeks start on Sunday: 31 March starts one",
        calendar={"week_start": "sunday"},
    ),
    Case(
        "grain-hour",
        CLOCK,
        by("at", "hour", filters=["pings.hits IN (2, 4, 8)"]),
        [(instant("2024-03-31 00:00:00"), 2), (instant("2024-03-31 01:00:00"), 4), (instant("2024-03-31 22:00:00"), 8)],
        "an hour stays an hour, not a day",
    ),
    Case(
        "grain-minute",
        CLOCK,
        by("at", "minute", filters=["pings.hits >= 64", "pings.hits < 256"]),
        [(instant("2024-10-27 01:45:00"), 64), (instant("2024-12-31 23:59:00"), 128)],
        "seconds are cut",
    ),
    Case(
        "grain-second",
        CLOCK,
        by("at", "second", filters=["pings.hits = 128"]),
        [(instant("2024-12-31 23:59:59"), 128)],
        "nothing to cut",
    ),
    Case(
        "grain-day",
        CLOCK,
        by("at", "day", filters=["pings.hits < 32"]),
        [(date(2024, 3, 30), 1), (date(2024, 3, 31), 14), (date(2024, 4, 1), 16)],
        "days of UTC",
    ),
    Case(
        "grain-month-quarter-year",
        CLOCK,
        {
            "measures": ["pings.hit_total"],
            "dimensions": [
                grouped("pings.at", "year", "year"),
                grouped("pings.at", "quarter", "quarter"),
                grouped("pings.at", "month", "month"),
            ],
        }
        | KNOWN,
        [
            (date(2024, 1, 1), date(2024, 1, 1), date(2024, 1, 1), 256),
            (date(2024, 1, 1), date(2024, 1, 1), date(2024, 3, 1), 15),
            (date(2024, 1, 1), date(2024, 4, 1), date(2024, 4, 1), 16),
            (date(2024, 1, 1), date(2024, 10, 1), date(2024, 10, 1), 96),
            (date(2024, 1, 1), date(2024, 10, 1), date(2024, 12, 1), 128),
        ],
        "first days of the periods, three grains of one column",
    ),
    Case(
        "grain-null",
        CLOCK,
        by("at", "year", filters=[]),
        [(date(2024, 1, 1), 511), (None, 512)],
        "no time is a group of its own",
    ),
    Case(
        "fiscal-year",
        CLOCK,
        by("day", "fiscal_year", filters=["pings.day IS NOT NULL"]),
        [(date(2023, 4, 1), 271), (date(2024, 4, 1), 240)],
        "the year begins in April",
        calendar={"fiscal_year_start": 4},
    ),
    Case(
        "fiscal-quarter",
        CLOCK,
        by("day", "fiscal_quarter", filters=["pings.day IS NOT NULL"]),
        [(date(2023, 11, 1), 256), (date(2024, 2, 1), 31), (date(2024, 8, 1), 96), (date(2024, 11, 1), 128)],
        "quarters begin in February, May, August, November",
        calendar={"fiscal_year_start": 2},
    ),
    Case("grain-finer-than-natural", CLOCK, by("day", "hour"), error="grain", why="a date has no hours"),
    Case("grain-unknown", CLOCK, by("at", "fortnight"), error="query|grain|unknown_name", why="no such grain (B15)"),
    Case("grain-of-a-number", CLOCK, by("hits", "month"), error="grain|query", why="a number has no months"),
    Case(
        "range-half-open",
        CLOCK,
        {
            "measures": ["pings.ping_count"],
            "time_range": {"field": "pings.at", "start": "2024-03-31", "end": "2024-04-01"},
        },
        [(3,)],
        "midnight of 1 April is outside, midnight of 31 March would be inside",
    ),
    Case(
        "range-start-included",
        CLOCK,
        {"measures": ["pings.hit_total"], "time_range": {"start": "2024-04-01T00:00:00", "end": "2024-05-01"}},
        [(16,)],
        "the first moment belongs to it; the fact's own time column",
    ),
    Case(
        "range-open-end",
        CLOCK,
        {"measures": ["pings.hit_total"], "time_range": {"start": "2024-10-01"}},
        [(224,)],
        "no end; a missing time is in no range",
    ),
    Case(
        "range-last-days",
        CLOCK,
        {"measures": ["pings.hit_total"], "time_range": {"last": "30 days"}},
        [(31,)],
        "from 12 March to 11 April, edges far from any row",
        now=instant("2024-04-11 12:00:00"),
    ),
    Case(
        "range-unreadable",
        CLOCK,
        {"measures": ["pings.hit_total"], "time_range": {"start": "yesterday"}},
        error="time_range",
        why="neither a date nor a timestamp",
    ),
]
