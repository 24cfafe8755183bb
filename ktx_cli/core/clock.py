"""Time and run identity, in one place so that tests can hold them still."""

from __future__ import annotations

import re
import secrets
import time
from datetime import UTC, datetime
from typing import Final

RUN_ID: Final = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}")
"""The form of a run's id."""


def now() -> datetime:
    """Return the current time, aware, in UTC, to the millisecond."""
    moment = datetime.now(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def isoformat(moment: datetime) -> str:
    """Return `2026-01-31T09:30:00.250Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def monotonic() -> float:
    """Return seconds for measuring durations."""
    return time.monotonic()


def new_run_id() -> str:
    """Return a run id that sorts by start: `20260131T093000-5f3a9c`."""
    return f"{now():%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
