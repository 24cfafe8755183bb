"""Calendar time: zones, grains, lengths."""

from __future__ import annotations

import calendar as months
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from tests.semantic_oracle.oracle.errors import OracleError
from tests.semantic_oracle.oracle.values import moment

GRAINS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year", "fiscal_quarter", "fiscal_year")
_SPAN = re.compile(r"(\d+) (second|minute|hour|day|week|month|quarter|year)s?")
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "fiscal_quarter": 3, "fiscal_year": 12}


@dataclass(frozen=True)
class Calendar:
    """How time is cut: `week_start` monday or sunday, the fiscal year's first month, the zone of the answer."""

    week_start: str = "monday"
    fiscal_year_start: int = 1
    timezone: str | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any], zone: str | None) -> Calendar:
        """Read the project's settings; the query's zone goes first."""
        return cls(
            settings.get("week_start", "monday"), settings.get("fiscal_year_start", 1), zone or settings.get("timezone")
        )


def shifted(value: Any, column_zone: str | None, target: str | None, *, is_date: bool) -> datetime | None:
    """Return a column's value as a naive moment of the target zone; dates stay where they are."""
    if value is None:
        return None
    naive = moment(value)
    if is_date or not isinstance(value, datetime) or (target is None and column_zone is None):
        return naive
    aware = naive.replace(tzinfo=ZoneInfo(column_zone) if column_zone else UTC)
    return aware.astimezone(ZoneInfo(target) if target else UTC).replace(tzinfo=None)


def truncate(value: datetime | None, grain: str, calendar: Calendar) -> Any:
    """Return the start of the period: a date for day and coarser, else a timestamp."""
    if value is None:
        return None
    if grain in ("second", "minute", "hour"):
        second = value.second if grain == "second" else 0
        return value.replace(minute=0 if grain == "hour" else value.minute, second=second, microsecond=0)
    day = value.date()
    if grain == "day":
        return day
    if grain == "week":
        first = 0 if calendar.week_start == "monday" else 6
        return day - timedelta(days=(day.weekday() - first) % 7)
    return _first_of(day, _MONTHS[grain], calendar.fiscal_year_start if grain.startswith("fiscal") else 1)


def _first_of(day: date, length: int, start: int) -> date:
    index = day.year * 12 + day.month - start
    index -= index % length
    index += start - 1
    return date(index // 12, index % 12 + 1, 1)


def parse_span(text: str) -> tuple[int, str]:
    """Read `28 days`."""
    match = _SPAN.fullmatch(text)
    if match is None:
        raise OracleError("query", f"`{text}` is no length of time")
    return int(match[1]), match[2]


def moved(value: datetime, count: int, unit: str) -> datetime:
    """Return the moment `count` units later; a day the month does not have becomes its last."""
    if unit in _SECONDS:
        return value + timedelta(seconds=count * _SECONDS[unit])
    index = value.year * 12 + value.month - 1 + count * _MONTHS[unit]
    year, month = index // 12, index % 12 + 1
    return value.replace(year=year, month=month, day=min(value.day, months.monthrange(year, month)[1]))


def meets_periods(count: int, unit: str, grain: str) -> bool:
    """Whether a length leads from one period of a grain to another: a day has one a month before, a week has not."""
    if grain in _MONTHS:
        return unit in _MONTHS and count * _MONTHS[unit] % _MONTHS[grain] == 0
    if unit in _SECONDS:
        return count * _SECONDS[unit] % _SECONDS[grain] == 0
    return grain != "week"


def following(period: Any, grain: str) -> datetime:
    """Return the moment a period ends."""
    return moved(moment(period), 1, grain)


def periods(first: Any, last: Any, grain: str, calendar: Calendar) -> list[Any]:
    """Return every period from the first to the last, both shown."""
    found = [first]
    while moment(found[-1]) < moment(last):
        found.append(truncate(following(found[-1], grain), grain, calendar))
    return found
