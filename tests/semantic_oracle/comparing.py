"""Whether two results are the same: as multisets or in order, numbers by value, texts as the dates they say."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

TOLERANCE = 1e-9
"""How far two numbers may be apart, of the larger one."""


def difference(expected: Sequence[Sequence[Any]], got: Sequence[Sequence[Any]], *, ordered: bool) -> str | None:
    """Return what differs between two lists of rows, or None."""
    left, right = [list(map(plain, row)) for row in expected], [list(map(plain, row)) for row in got]
    if len(left) != len(right):
        return f"{len(right)} rows, not {len(left)}"
    if ordered:
        bad = [at for at, pair in enumerate(zip(left, right, strict=True)) if not _same_row(*pair)]
        return f"row {bad[0]} differs" if bad else None
    rest = list(right)
    for row in left:
        found = next((each for each in rest if _same_row(row, each)), None)
        if found is None:
            return f"no row {row}"
        rest.remove(found)
    return None


def plain(value: Any) -> Any:
    """Return a value in the one form it is compared in."""
    if isinstance(value, str):
        return _dated(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, bool):
        return int(value)
    return Fraction(value) if isinstance(value, Decimal) else value


def _dated(text: str) -> Any:
    if len(text) < 10 or text[4:5] != "-":
        return text
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return text


def _same_row(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return len(left) == len(right) and all(map(_same, left, right))


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, int | float | Fraction) and isinstance(right, int | float | Fraction):
        if left == right:
            return True
        return abs(float(left) - float(right)) <= TOLERANCE * max(abs(float(left)), abs(float(right)))
    return type(left) is type(right) and bool(left == right)
