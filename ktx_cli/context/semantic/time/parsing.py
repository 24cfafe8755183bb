"""Reads what people write about time: spans such as `28 days`, the ends of a range, the name of a grain."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final
from zoneinfo import ZoneInfo

from ktx_cli.context.semantic.errors import SemanticError, unknown
from ktx_cli.context.semantic.model import FISCAL_QUARTER, FISCAL_YEAR, GRAINS, Span

MAX_COUNT: Final = 100_000
"""The largest count of a span."""

UNITS: Final = tuple(grain for grain in GRAINS if grain not in (FISCAL_QUARTER, FISCAL_YEAR))
"""What a span may count."""

_MOMENT: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[Tt ](\d{2}:\d{2}(?::\d{2})?)(?:(?<=:\d{2}:\d{2})\.(\d+))? ?([Zz]|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)
_SPAN: Final = re.compile(r"(\d{1,9})\s*([A-Za-z]+)", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP: Final = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time as a literal says it: the clock as written, the clock of a zone, and the digits of the fraction."""

    written: datetime
    local: datetime
    fraction: str = ""

    def beside_dates(self) -> str:
        """Return the text to compare with texts `YYYY-MM-DD`: the day, with the time where it is not midnight."""
        day = self.written.date().isoformat()
        is_day = not self.fraction and self.written.time() == datetime.min.time()
        return day if is_day else f"{day} {self._clock(self.written)}"

    def beside_timestamps(self) -> str:
        """Return the text to compare with texts `YYYY-MM-DD HH:MM:SS`, with the fraction of the second if any."""
        return f"{self.local.date().isoformat()} {self._clock(self.local)}"

    def _clock(self, value: datetime) -> str:
        fraction = f".{self.fraction}" if self.fraction else ""
        return value.time().isoformat("seconds") + fraction


def parse_span(text: str) -> Span:
    """Return the span a text such as `28 days`, `1 year` or `12 months` means.

    Raises `SemanticError` for any other text, a count of 0 or above `MAX_COUNT`, and (code `unknown_name`) a unit that
    is none.
    """
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise _wrong(f"`{text}` is no length of time", "write a number and a unit, for example: 28 days")
    unit = found[2].lower().removesuffix("s")
    if unit not in UNITS:
        raise unknown("unit of time", found[2], UNITS)
    count = int(found[1])
    if not 1 <= count <= MAX_COUNT:
        raise _wrong(f"`{text}` is too {'short' if count < 1 else 'long'}", f"count from 1 to {MAX_COUNT:,} {unit}s")
    return Span(count, unit)


def parse_range_value(text: str) -> date | datetime:
    """Return one end of a range: a `date` for `2024-01-01`, a `datetime` for `2024-01-01T10:00[:00]` (a blank for T).

    Timestamps are in the question's zone, so they have no offset, and are of whole seconds. Raises `SemanticError`.
    """
    stripped = text.strip()
    try:
        if _DATE.fullmatch(stripped):
            return date.fromisoformat(stripped)
        if _TIMESTAMP.fullmatch(stripped):
            return datetime.fromisoformat(stripped)
    except ValueError as error:
        raise _wrong(f"`{text}` is not in the calendar: {error}", _END) from None
    raise _wrong(f"`{text}` is neither a date nor a timestamp of whole seconds without an offset", _END)


def parse_moment(text: str, zone: str) -> Moment | None:
    """Return the time that a literal of a condition says, None for a text that is none.

    Without an offset it is in the zone; with one (or `Z`) it is what the clocks of the zone show then.
    """
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        return None
    day, clock, fraction, offset = found.groups()
    try:
        written = datetime.fromisoformat(f"{day}T{clock or '00:00'}")
        if offset is None:
            return Moment(written, written, (fraction or "").rstrip("0"))
        at = datetime.fromisoformat(f"{written.isoformat()}{offset.upper()}").astimezone(ZoneInfo(zone))
    except (ValueError, OverflowError):  # not in the calendar
        return None
    return Moment(written, at.replace(tzinfo=None), (fraction or "").rstrip("0"))


def require_grain(grain: str) -> None:
    """Raise `SemanticError` (code `unknown_name`) unless there is such a grain."""
    if grain not in GRAINS:
        raise unknown("grain", grain, GRAINS)


_END: Final = "write it as 2024-01-31 or 2024-01-31T10:00:00, in the time zone of the question"


def _wrong(message: str, hint: str) -> SemanticError:
    return SemanticError(message, hint=hint)
