"""Measures and segments as the files declare them; one with an error in it is left out, never half of it used."""

from __future__ import annotations

import re
from typing import Final

from ktx_cli.context.semantic.loading.columns import NATURAL, read_visibility
from ktx_cli.context.semantic.loading.entry import Entry
from ktx_cli.context.semantic.loading.texts import best, read_descriptions
from ktx_cli.context.semantic.model import (
    FISCAL_QUARTER,
    FISCAL_YEAR,
    MONTH,
    QUARTER,
    WEEK,
    YEAR,
    Cumulative,
    Measure,
    Segment,
    SemiAdditive,
    Span,
    Visibility,
)

MEASURE_KEYS = frozenset((
    "name", "expr", "filter", "segments", "description", "descriptions", "visibility", "unit", "format", "time",
    "semi_additive", "cumulative", "offset", "percent_of", "per",
))  # fmt: skip
SEGMENT_KEYS = frozenset(("name", "expr", "description", "descriptions"))
TAKES = ("last", "first", "average")
TO_DATE = (WEEK, MONTH, QUARTER, YEAR, FISCAL_QUARTER, FISCAL_YEAR)
TOTAL: Final = "total"
_SPAN = re.compile(rf"\s*(\d{{1,6}})\s+({'|'.join(NATURAL)})s?\s*", re.IGNORECASE)


def read_measure(entry: Entry) -> Measure | None:
    """Return a measure, None where something in it is wrong."""
    entry.check_keys(MEASURE_KEYS)
    measure = Measure(
        name=entry.required("name"),
        expr=entry.required("expr"),
        filter=entry.text("filter"),
        segments=entry.names("segments") or (),
        description=best(read_descriptions(entry)),
        visibility=read_visibility(entry) or Visibility.PUBLIC,
        unit=entry.text("unit"),
        format=entry.text("format"),
        time=entry.text("time"),
        semi_additive=_semi_additive(entry),
        cumulative=_cumulative(entry),
        offset=read_span(entry, "offset"),
        percent_of=_percent_of(entry),
        per=entry.names("per") or (),
        place=entry.place,
    )
    return None if entry.failed else measure


def read_segment(entry: Entry) -> Segment | None:
    """Return a segment, None where something in it is wrong."""
    entry.check_keys(SEGMENT_KEYS)
    segment = Segment(entry.required("name"), entry.required("expr"), best(read_descriptions(entry)), entry.place)
    return None if entry.failed else segment


def read_span(entry: Entry, key: str) -> Span | None:
    """Return a length of time such as `28 days`."""
    text = entry.text(key)
    if text is None:
        return None
    found = _SPAN.fullmatch(text)
    if found is None or not int(found[1]):
        what = f"`{key}` of {entry.what} is `{text}`, which is no length of time"
        entry.error("value", what, key, hint=f'write {key}: "28 days"; the units are {", ".join(NATURAL)}')
        return None
    return Span(int(found[1]), found[2].lower())


def _semi_additive(entry: Entry) -> SemiAdditive | None:
    below = _stated(entry, "semi_additive", "{over: day, take: last}")
    if below is None:
        return None
    below.check_keys(("over", "take", "per"))
    return SemiAdditive(below.required("over"), below.word("take", TAKES) or TAKES[0], below.names("per") or ())


def _cumulative(entry: Entry) -> Cumulative | None:
    below = _stated(entry, "cumulative", "{}")
    if below is None:
        return None
    below.check_keys(("over", "window", "to_date"))
    found = Cumulative(below.text("over"), read_span(below, "window"), below.word("to_date", TO_DATE))
    if found.window and found.to_date:
        below.error("value", f"{below.what} has both `window` and `to_date`", "to_date", hint="keep one of the two")
    return found


def _stated(entry: Entry, key: str, example: str) -> Entry | None:
    """Return the mapping of a key; one without a value is an error, as it would otherwise mean nothing at all."""
    if key in entry.values and entry.values[key] is None:
        entry.error("shape", f"`{key}` of {entry.what} has no value", key, hint=f"write {key}: {example}, or remove it")
    return entry.mapping(key)


def _percent_of(entry: Entry) -> tuple[str, ...] | None:
    return () if entry.values.get("percent_of") == TOTAL else entry.names("percent_of")
