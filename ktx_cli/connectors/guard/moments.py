"""Reads dates, times and spans that are written as text, to tell how long a series of them is."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

ASSUMED_SECONDS: Final = 300 * 366 * 86_400
"""How far apart the two ends of a series of times are taken to be, where they come from columns."""

MAX_SERIES: Final = 10_000_000
"""How many items a series may have, and the largest number in its ends where they are not all written out."""

_SECONDS: Final = {
    "nanosecond": 1e-9,
    "microsecond": 1e-6,
    "millisecond": 1e-3,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86_400.0,
    "week": 604_800.0,
    "month": 2_592_000.0,
    "quarter": 7_776_000.0,
    "year": 31_536_000.0,
    "decade": 3.1536e8,
    "century": 3.1536e9,
    "centurie": 3.1536e9,
    "millennium": 3.1536e10,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "hr": 3600.0,
    "d": 86_400.0,
    "w": 604_800.0,
    "mon": 2_592_000.0,
    "y": 31_536_000.0,
    "yr": 31_536_000.0,
}
_PART: Final = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]+)\s*")
_CLOCK: Final = re.compile(r"\s*(\d{1,4}):(\d\d)(?::(\d\d(?:\.\d+)?))?\s*")
_UNMEASURED: Final = re.compile(r"infinity|\bbc\b|\d{5,}-\d", re.IGNORECASE)


def seconds_of_span(text: str, unit: str = "") -> float | None:
    """Return the seconds of `1 day`, `01:30`, `1 year 2 days`, or of `1` with a unit; None for any other text."""
    rest = f"{text} {unit}".strip().lower()
    if not rest:
        return None
    total, position = 0.0, 0
    while position < len(rest):
        part, clock = _PART.match(rest, position), _CLOCK.match(rest, position)
        if clock is not None:
            total += int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3] or 0)
        elif part is not None and (size := _unit(part[2])) is not None:
            total += float(part[1]) * size
        else:
            return None
        position = (clock or part).end()  # type: ignore[union-attr]
    return total


def _unit(word: str) -> float | None:
    return _SECONDS.get(word, _SECONDS.get(word.removesuffix("s")))


def seconds_of_moment(text: str) -> float | None:
    """Return the seconds since 1970 of a date or timestamp in ISO 8601, None for any other text."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def is_unmeasured(text: str) -> bool:
    """Whether a text names a moment that `seconds_of_moment` cannot measure: infinity, BC, a year of five digits."""
    return _UNMEASURED.search(text) is not None


def items(start: float, end: float, step: float) -> float:
    """Return how many items a series has; infinity for a step of 0."""
    if step == 0 or not math.isfinite(step):
        return math.inf
    return max(0.0, (end - start) / step + 1)


def items_between(moments: Iterable[float], spans: Iterable[float], step: float) -> float:
    """Return how many items a series of times has at most whose ends hold these moments and spans, and columns."""
    known = list(moments)
    apart = max(known) - min(known) if known else 0.0
    return items(0.0, max(ASSUMED_SECONDS, apart) + sum(map(abs, spans)), abs(step))
