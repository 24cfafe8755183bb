"""Values of histories as drivers return them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def instant(value: Any) -> datetime | None:
    """Return a moment with its zone; one without is taken for UTC, what is no moment for none."""
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
