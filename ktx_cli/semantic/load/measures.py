"""Measures and segments as the files declare them; one with an error in it is left out, never half of it used."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, Final

from ktx_cli.semantic.load.columns import NATURAL, TYPES, best, read_descriptions, read_visibility
from ktx_cli.semantic.load.entries import Entry
from ktx_cli.semantic.model import (
    FISCAL_QUARTER,
    FISCAL_YEAR,
    MONTH,
    QUARTER,
    WEEK,
    YEAR,
    Cumulative,
    Measure,
    MetricTest,
    Parameter,
    Policy,
    Segment,
    SemiAdditive,
    Span,
    Visibility,
)
from ktx_cli.warehouses import SemanticType

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


EXPECTATIONS = ("expect", "expect_value", "invariant")


def read_policy(entry: Entry) -> Policy | None:
    """Return a policy, None where something in it is wrong; its source must then not be read at all."""
    entry.check_keys(("name", "filter", "description"))
    policy = Policy(entry.required("name"), entry.required("filter"), entry.text("description"), entry.place)
    return None if entry.failed else policy


def read_parameter(entry: Entry) -> Parameter | None:
    """Return a parameter; its default must be one of its values, and all must be of its type."""
    entry.check_keys(("name", "type", "default", "values"))
    name, word = entry.required("name"), entry.word("type", TYPES)
    if word is None and not entry.failed:
        entry.error("missing", f"{entry.what} has no `type`", hint=f"add type: {'|'.join(TYPES)}")
    if entry.failed or word is None:
        return None
    kind, default = SemanticType(word), entry.values.get("default")
    parameter = Parameter(name, kind, default, _values(entry, kind), entry.place)
    if default is not None and not is_of(default, kind):
        entry.error(
            "value", f"`default` of {entry.what} is no {kind.value}", "default", hint=f"write a {kind.value} there"
        )
    elif default is not None and parameter.values and default not in parameter.values:
        entry.error("value", f"`default` of {entry.what} is none of its `values`", "default", hint="add it to `values`")
    return None if entry.failed else parameter


def _values(entry: Entry, kind: SemanticType) -> tuple[Any, ...]:
    listed = entry.values.get("values")
    if listed is None:
        return ()
    if isinstance(listed, list) and listed and all(is_of(each, kind) for each in listed):
        return tuple(listed)
    what = f"`values` of {entry.what} must be a list of values, each a {kind.value}"
    entry.error("value", what, "values", hint="write values: [first, second], or remove it")
    return ()


def is_of(value: Any, kind: SemanticType) -> bool:
    """Say whether a value of a file or a question is of a type; a time is a date or timestamp in ISO 8601."""
    if kind is SemanticType.NUMBER:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is SemanticType.BOOLEAN:
        return isinstance(value, bool)
    return isinstance(value, str) and (kind is SemanticType.STRING or _is_time(value))


def _is_time(text: str) -> bool:
    try:
        dt.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def read_test(entry: Entry) -> MetricTest | None:
    """Return a test: a question and exactly one of the things that say what must come out."""
    entry.check_keys(("name", "query", "tolerance", *EXPECTATIONS))
    given = [key for key in EXPECTATIONS if key in entry.values]
    if len(given) != 1:
        what = f"{entry.what} must have one of {', '.join(EXPECTATIONS)}, and has {' and '.join(given) or 'none'}"
        entry.error("value", what, *given[1:], hint="keep or add one of them")
    query = entry.mapping("query")
    if query is None and not entry.failed:
        entry.error("missing", f"{entry.what} has no `query`", hint="add query: {measures: [...]}")
    test = MetricTest(
        entry.required("name"), {} if query is None else query.values, _rows(entry), entry.values.get("expect_value"),
        entry.text("invariant"), _tolerance(entry), entry.place,
    )  # fmt: skip
    return None if entry.failed else test


def _rows(entry: Entry) -> tuple[tuple[Any, ...], ...] | None:
    rows = entry.values.get("expect")
    if "expect" not in entry.values:
        return None
    if isinstance(rows, list) and all(isinstance(row, list) for row in rows):
        return tuple(tuple(row) for row in rows)
    entry.error(
        "shape", f"`expect` of {entry.what} must be a list of rows", "expect", hint="write expect: [[a, 1], [b, 2]]"
    )
    return None


def _tolerance(entry: Entry) -> float:
    value = entry.values.get("tolerance", 0)
    if is_of(value, SemanticType.NUMBER) and 0 <= value < 1e300:
        return float(value)
    entry.error(
        "value", f"`tolerance` of {entry.what} must be a number from 0", "tolerance", hint="write tolerance: 0.01"
    )
    return 0.0
