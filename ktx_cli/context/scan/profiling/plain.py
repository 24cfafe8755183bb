"""Values of rows as JSON has them."""

from __future__ import annotations

import datetime
import math
from typing import Any, Final

_EXACT: Final = 2**53
"""Up to here every reader of JSON keeps whole numbers exact."""


def plain_value(value: Any) -> Any:
    """Return a value as JSON has it: dates in ISO 8601, decimals and large whole numbers as text, NaN as None."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _EXACT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return str(value).encode("utf-8", "backslashreplace").decode()
