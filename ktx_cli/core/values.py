"""Formats numbers for people: at their column's scale, as percentages, without float noise.

JSON keeps full precision and does not use this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

FLOAT_DIGITS: Final = 15
"""The significant decimal digits of a 64-bit float; further digits are noise."""

EXACT_INTEGER: Final = 2**53
"""The largest whole number that every JSON reader preserves exactly."""

_NOISE: Final = Decimal("1e-9")
"""Relative deviation of a sum of floats from its column's scale that still counts as rounding."""

_SUM_NOISE: Final = Decimal("1e-12")
"""Relative deviation of a sum of floats of unknown scale that is attributed to rounding."""

_NEAR: Final = 6
"""Number of digits beyond its column's after which a float near 0 is noise."""
_MOST_DECIMALS: Final = 12
_PADDED: Final = 6
_ROUNDING: Final = Context(prec=400, rounding=ROUND_HALF_UP)


@dataclass(frozen=True, slots=True)
class NumberStyle:
    """How a column's numbers should be printed, as far as its definition specifies.

    `decimals`: digits after the decimal point, None if unknown. `computed`: a quotient, an average or a rounding
    format, whose other digits are not wanted; if all numbers are below 1, the largest keeps `significant` ones, with 0
    only `decimals`. `percent`: the factor that makes a percentage of a value: 100 for a share, 1 for a value that is
    already a percentage; 0: it is not one. `grouped`: thousands are separated.
    """

    decimals: int | None = None
    computed: bool = False
    percent: int = 0
    significant: int = 4
    grouped: bool = False


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How the numbers in one column of an answer are printed, all with the same number of decimals.

    `decimals`: of the printed numbers, or None to print each number unchanged, without float noise. `percent`: see
    `NumberStyle`. `grouped`: thousands are separated for people, never for programs.
    """

    decimals: int | None = None
    percent: int = 0
    grouped: bool = False

    def text(self, value: float | str) -> str:
        """Return a number for people: `15.20`, `15.2%`; decimals may be passed as text."""
        exact = exact_number(value)
        if exact is None:
            return str(value)
        if self.decimals is None:
            return plain_number(value) + ("%" if self.percent else "")
        shown = _fixed(exact * (self.percent or 1), self.decimals, grouped=self.grouped)
        return shown + ("%" if self.percent else "")

    def machine_text(self, value: float | str) -> str:
        """Return a number for programs: the same digits without a percent sign; a share stays a fraction (`0.152`)."""
        exact = exact_number(value)
        if exact is None:
            return str(value)
        if self.decimals is None:
            return plain_number(value)
        return _fixed(exact, self.decimals + (2 if self.percent == 100 else 0))


def without_noise(value: float) -> float:
    """Return a float to 15 significant digits: `0.30000000000000004` is `0.3`."""
    rounded = float(f"{value:.{FLOAT_DIGITS}g}") if math.isfinite(value) else value
    return rounded if math.isfinite(rounded) else value  # the largest float of all would become infinite


def plain_number(value: float | str) -> str:
    """Return a number with all its digits except float noise: whole numbers and decimals are unchanged."""
    return repr(without_noise(value)) if isinstance(value, float) else str(value)


def exact_number(value: Any) -> Decimal | None:
    """Return a value as a number without float noise, or None for booleans, NaN and non-numeric values."""
    if isinstance(value, bool) or value is None:
        return None
    text = plain_number(value) if isinstance(value, int | float | str) else str(value)
    try:
        found = Decimal(text)
    except ArithmeticError:
        return None
    return found if found.is_finite() else None


def column_format(values: Iterable[Any], style: NumberStyle | None = None) -> NumberFormat | None:
    """Return how a column's numbers are printed, or None if its values are not numbers.

    A style never hides real digits: a column with more than its definition says is printed with them.
    """
    present = [value for value in values if value is not None]
    if not all(isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in present):
        return None
    wanted = style or NumberStyle()
    if not present:
        return NumberFormat(wanted.decimals, wanted.percent, wanted.grouped) if style is not None else None
    if style is None and not any(isinstance(value, Decimal) for value in present):
        return NumberFormat()
    numbers = [found for value in present if (found := exact_number(value)) is not None]
    if wanted.computed or wanted.percent:
        return NumberFormat(_computed_decimals(numbers, wanted), wanted.percent, wanted.grouped)
    if wanted.decimals is not None:
        return NumberFormat(_scale(numbers, wanted.decimals))
    if not any(isinstance(value, Decimal) for value in present) or any(isinstance(value, float) for value in present):
        return NumberFormat(None if style is None else _decimals_of_sums(numbers))
    return NumberFormat(_decimals_of(numbers))


def row_formats(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[NumberFormat | None, ...]:
    """Return how the numbers in each column of plain rows are printed, by the type that the driver returns."""
    return tuple(column_format(row[place] for row in rows) for place in range(len(columns)))


def _computed_decimals(numbers: list[Decimal], wanted: NumberStyle) -> int:
    """Return the decimals of averages, quotients and percentages, more if the largest number is below 1."""
    decimals = 2 if wanted.decimals is None else wanted.decimals
    largest = max((abs(each) for each in numbers), default=Decimal(0)) * (wanted.percent or 1)
    if not 0 < largest < 1 or not wanted.significant:
        return decimals
    first = -largest.adjusted()  # the position of its first digit after the decimal point
    return max(decimals, min(_MOST_DECIMALS, first + wanted.significant - 1))


def _scale(numbers: list[Decimal], decimals: int) -> int:
    """Return a column's scale, or the decimals of its numbers if they exceed it."""
    least = Decimal(1).scaleb(-decimals - _NEAR)  # amounts that cancel each other leave noise, not 0
    off = [each for each in numbers if abs(each - _rounded(each, decimals)) > max(_NOISE * abs(each), least)]
    return min(_MOST_DECIMALS, max(map(_own_decimals, off))) if off else decimals


def _decimals_of(numbers: list[Decimal]) -> int:
    """Return the decimals of exact numbers: their scale, without the zeros that a database appends to quotients."""
    scale = max((-int(each.as_tuple().exponent) for each in numbers), default=0)
    return max(0, scale if scale <= _PADDED else max(map(_own_decimals, numbers)))


def _decimals_of_sums(numbers: list[Decimal]) -> int | None:
    """Return the digits of floats of unknown scale if one of them has noise from adding: `67416.5099999921` has two."""
    if all(len(each.normalize(_ROUNDING).as_tuple().digits) < FLOAT_DIGITS - 2 for each in numbers):
        return None
    near = (decimals for decimals in range(_PADDED + 1) if all(_is_near(each, decimals) for each in numbers))
    return next(near, None)


def _is_near(number: Decimal, decimals: int) -> bool:
    """Return whether a number differs from the rounded one by no more than sums of floats do."""
    return abs(number - _rounded(number, decimals)) <= _SUM_NOISE * abs(number)


def _own_decimals(number: Decimal) -> int:
    """Return the number of decimals in a number, without trailing zeros."""
    return max(0, -int(number.normalize(_ROUNDING).as_tuple().exponent))


def _rounded(number: Decimal, decimals: int) -> Decimal:
    return number.quantize(Decimal(1).scaleb(-decimals), context=_ROUNDING)


def _fixed(number: Decimal, decimals: int, *, grouped: bool = False) -> str:
    found = format(_rounded(number, decimals), ",f" if grouped else "f")
    return found.removeprefix("-") if not found.strip("-0.") else found


def json_value(value: Any) -> Any:
    """Return a value in a form that JSON can represent.

    Numbers, text, booleans and NULL are unchanged. A decimal becomes its exact text, even without a fraction, and so
    does a whole number beyond 2^53, which most readers of JSON would round; a date, time or timestamp ISO 8601; a
    duration ISO 8601 in seconds (`PT90S`); bytes lower-case hex; a float that is not a number `NaN`, `Infinity` or
    `-Infinity`. Lists and mappings are kept, with their values converted; anything else becomes its text.
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
    """Return a value as `json_value` does, but for storage: NaN as None, nested values as text, all text as UTF-8."""
    kind = type(value)
    if value is None or (kind is str and value.isascii()) or (kind is int and -EXACT_INTEGER <= value <= EXACT_INTEGER):
        return value  # as most are
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
    """Return a number of seconds without a needless fraction."""
    seconds = Decimal(value.days * 86_400 + value.seconds) + Decimal(value.microseconds) / 1_000_000
    return format(seconds.normalize(), "f")


def _no_number(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
