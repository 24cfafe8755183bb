"""Time and run ids, in a module of their own so that tests can freeze them."""

from __future__ import annotations

import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar

RUN_ID: Final = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}")
"""The format of run ids."""


def now() -> datetime:
    """Return the current time as a timezone-aware UTC datetime, to the millisecond."""
    moment = datetime.now(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def isoformat(moment: datetime) -> str:
    """Return `2026-01-31T09:30:00.250Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def monotonic() -> float:
    """Return a monotonic time in seconds, for measuring durations."""
    return time.monotonic()


def age(seconds: int | None) -> str:
    """Return an age in the largest unit that gives at least 2."""
    if seconds is None:
        return "never"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


def new_run_id() -> str:
    """Return a run id that sorts by start time: `20260131T093000-5f3a9c`."""
    return f"{now():%Y%m%dT%H%M%S}-{os.urandom(3).hex()}"


_Kept = TypeVar("_Kept")


class Recent(Generic[_Kept]):
    """A cache of the most recently used values, by key. Concurrent requests for one key may each compute its value."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], _Kept]) -> _Kept:
        """Return the value for a key, computing it if it is missing."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        made = make()
        with self._lock:
            self._values[key] = made
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return made
