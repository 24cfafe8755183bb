"""Values of databases as JSON takes them, each kind in one way whatever the database."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from ktx_cli.core.numbers import EXACT_INTEGER


def json_value(value: Any) -> Any:
    """Return the value for JSON.

    Numbers, texts, booleans and NULL stay. A decimal becomes its exact text, also one without a fraction, and so does a
    whole number beyond 2^53, which most readers of JSON would round; a date, time or timestamp ISO 8601; a duration
    ISO 8601 in seconds (`PT90S`); bytes lower-case hex; a float that is no number `NaN`, `Infinity` or `-Infinity`.
    Lists and mappings are kept, with values in the same way; anything else is its text.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= EXACT_INTEGER else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else _no_number(value)
    if isinstance(value, Decimal):
        return format(value, "f") if value.is_finite() else _no_number(float(value))
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"PT{_seconds(value)}S"
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, dict):
        return {_key(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_value(item) for item in value]
    return str(value)


def plain_value(value: Any) -> Any:
    """Return a value as `json_value` does, to be kept: NaN as None, nested values as text, any text UTF-8."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    known = json_value(value)
    if known is None or isinstance(known, bool | int | float):
        return known
    return str(known).encode("utf-8", "backslashreplace").decode()


def _key(value: Any) -> str:
    known = json_value(value)
    return known if isinstance(known, str) else str(known)


def _seconds(value: timedelta) -> str:
    """Return the seconds without a needless fraction."""
    seconds = Decimal(value.days * 86_400 + value.seconds) + Decimal(value.microseconds) / 1_000_000
    return format(seconds.normalize(), "f")


def _no_number(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
