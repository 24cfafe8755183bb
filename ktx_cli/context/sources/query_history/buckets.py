"""Counts and times as words, so that a file's hash moves when use really shifts and not with every execution."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from datetime import datetime
from typing import Final

HIGH, MID, LOW, UNUSED = "high", "mid", "low", "unused"
TIERS: Final = (HIGH, MID, LOW)
"""How often, the most often first."""

_EXECUTIONS: Final = ((10, 100, 1_000, 5_000, 50_001), ("<10", "10-100", "100-1k", "1k-5k", "5k-50k", ">50k"))
EXECUTION_BUCKETS: Final = _EXECUTIONS[1]
"""The buckets of executions, the least first."""

_USERS: Final = ((1, 2, 6, 11), ("0", "1", "2-5", "6-10", ">10"))
_RUNTIME: Final = ((100.0, 1_000.0, 10_000.0), ("<100ms", "100ms-1s", "1-10s", ">10s"))
_RECENCY: Final = ((8, 46), ("current", "recent", "stale"))


def executions(count: int) -> str:
    """Return the bucket of a number of executions: `<10` to `>50k`."""
    return _bucket(count, _EXECUTIONS)


def executions_rank(count: int) -> int:
    """Return the place of that bucket, 0 for the least."""
    return bisect.bisect_right(_EXECUTIONS[0], count)


def users(count: int) -> str:
    """Return the bucket of a number of users: `0`, `1`, `2-5`, `6-10`, `>10`."""
    return _bucket(count, _USERS)


def runtime(milliseconds: float | None) -> str:
    """Return the bucket of a runtime: `<100ms` to `>10s`, `unknown`."""
    return "unknown" if milliseconds is None else _bucket(milliseconds, _RUNTIME)


def errors(rate: float) -> str:
    """Return the bucket of a share of failed executions: `none`, `low` (below 0.1), `high`."""
    return "none" if rate <= 0 else "low" if rate < 0.1 else HIGH


def recency(last_seen: datetime | None, now: datetime) -> str:
    """Return how long ago a statement was last seen: `current` (7 days), `recent` (45), `stale`, `unknown`."""
    return "unknown" if last_seen is None else _bucket((now - last_seen).days, _RECENCY)


def tier(count: int, whole: int) -> str:
    """Return how often something is, as a share of a whole: `high` from a half, `mid` from a tenth, else `low`."""
    return HIGH if 2 * count >= whole else MID if 10 * count >= whole else LOW


def _bucket(value: float, buckets: tuple[Sequence[float], Sequence[str]]) -> str:
    limits, words = buckets
    return words[bisect.bisect_right(limits, value)]
