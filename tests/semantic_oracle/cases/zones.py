"""Time zones: daylight saving, half hours, columns with a zone of their own, dates."""

from datetime import date

from tests.semantic_oracle.cases.base import Case
from tests.semantic_oracle.cases.calendars import BERLIN, CLOCK, by, instant

CASES = [
    Case(
        "zone-day",
        CLOCK,
        by("at", "day", filters=["pings.hits < 32"]) | BERLIN,
        [(date(2024, 3, 31), 7), (date(2024, 4, 1), 24)],
        "Berlin is one hour ahead, from 01:00 UTC on 31 March two: 22:30 UTC is 00:30 on 1 April",
    ),
    Case(
        "zone-hour-over-the-gap",
        CLOCK,
        by("at", "hour", filters=["pings.hits IN (1, 2, 4)"]) | BERLIN,
        [(instant("2024-03-31 00:00:00"), 1), (instant("2024-03-31 01:00:00"), 2), (instant("2024-03-31 03:00:00"), 4)],
        "01:30 UTC is 03:30: the hour from 2 to 3 does not exist",
    ),
    Case(
        "zone-hour-twice",
        CLOCK,
        by("at", "hour", filters=["pings.hits IN (32, 64)"]) | BERLIN,
        [(instant("2024-10-27 02:00:00"), 96)],
        "00:15 UTC is 02:15 summer time, 01:45 UTC is 02:45 winter time: one hour by name",
    ),
    Case(
        "zone-month-edge",
        CLOCK,
        by("at", "month", filters=["pings.hits IN (8, 128)"]) | BERLIN,
        [(date(2024, 4, 1), 8), (date(2025, 1, 1), 128)],
        "both are in the next month there",
    ),
    Case(
        "zone-behind",
        CLOCK,
        by("at", "day", filters=["pings.hits IN (16, 256)"], timezone="America/New_York"),
        [(date(2024, 3, 31), 16), (date(2023, 12, 31), 256)],
        "midnight UTC is the evening before in New York",
    ),
    Case(
        "zone-half-hour",
        CLOCK,
        by("at", "hour", filters=["pings.hits IN (8, 16)"], timezone="Asia/Kolkata"),
        [(instant("2024-04-01 04:00:00"), 8), (instant("2024-04-01 05:00:00"), 16)],
        "five and a half hours ahead: 22:30 is 04:00, 00:00 is 05:30",
    ),
    Case(
        "zone-of-the-project",
        CLOCK,
        by("at", "month", filters=["pings.hits IN (8, 128)"]),
        [(date(2024, 4, 1), 8), (date(2025, 1, 1), 128)],
        "the setting's zone",
        calendar={"timezone": "Europe/Berlin"},
    ),
    Case(
        "zone-column-of-its-own",
        CLOCK,
        by("local_at", "hour", filters=["pings.hits IN (4, 8)"], timezone="UTC"),
        [(instant("2024-03-31 02:00:00"), 4), (instant("2024-03-31 20:00:00"), 8)],
        "the column means Berlin: 04:30 summer time is 02:30 UTC",
    ),
    Case(
        "zone-column-in-its-zone",
        CLOCK,
        by("local_at", "day", filters=["pings.hits IN (4, 8)"]) | BERLIN,
        [(date(2024, 3, 31), 12)],
        "from Berlin to Berlin nothing moves",
    ),
    Case(
        "zone-leaves-dates",
        CLOCK,
        by("day", "month", filters=["pings.hits IN (8, 16, 256)"], timezone="America/New_York"),
        [(date(2024, 3, 1), 8), (date(2024, 4, 1), 16), (date(2024, 1, 1), 256)],
        "a calendar date has no zone",
    ),
    Case(
        "range-in-a-zone",
        CLOCK,
        {"measures": ["pings.hit_total"], "time_range": {"start": "2024-04-01", "end": "2024-05-01"}} | BERLIN,
        [(24,)],
        "April in Berlin begins at 22:00 UTC on 31 March",
    ),
    Case(
        "range-of-dates-in-a-zone",
        CLOCK,
        {
            "measures": ["pings.hit_total"],
            "time_range": {"field": "pings.day", "start": "2024-04-01", "end": "2024-05-01"},
        }
        | BERLIN,
        [(16,)],
        "dates are not moved",
    ),
]
