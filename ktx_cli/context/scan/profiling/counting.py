"""Counts the values of a sample, column by column."""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from ktx_cli.connectors.port import Table
from ktx_cli.connectors.sampling import Sample, SampleMethod
from ktx_cli.context.scan.profiling.model import ColumnProfile, SampledTable, TableProfile, ValueKind

TOP_VALUES = 10
"""How many of the most frequent values a profile holds."""

_KINDS: Final[Mapping[type, ValueKind]] = {
    bool: ValueKind.BOOLEAN,
    int: ValueKind.INTEGER,
    float: ValueKind.NUMBER,
    decimal.Decimal: ValueKind.NUMBER,
    str: ValueKind.TEXT,
    datetime.date: ValueKind.TIME,
    datetime.datetime: ValueKind.TIME,
    datetime.time: ValueKind.TIME,
    datetime.timedelta: ValueKind.TIME,
}
_ORDERED: Final = (ValueKind.INTEGER, ValueKind.NUMBER, ValueKind.TEXT, ValueKind.TIME)


def count_sample(table: Table, sample: Sample, fold: Callable[[str], str] | None = None) -> SampledTable:
    """Return the profile of a sample, with the counts and values it rests on.

    `fold`: how the database makes texts alike before it compares them, where it does (MySQL).
    """
    values = dict(zip(sample.columns, sample.values, strict=True))
    counts: dict[str, dict[Any, int]] = {}
    columns = []
    for column in table.columns:
        name = column.name
        if name in sample.failed:
            columns.append(ColumnProfile(name, ValueKind.OPAQUE, 0, problem=sample.failed[name]))
        elif name in sample.opaque:
            present = sample.opaque[name]
            columns.append(ColumnProfile(name, ValueKind.OPAQUE, len(present), nulls=present.count(False)))
        else:
            counted_profile, counted = _count(name, values[name], fold)
            columns.append(counted_profile)
            if counted is None:
                del values[name]
            else:
                counts[name] = counted
    profile = TableProfile(
        ref=table.ref,
        method=sample.method,
        rows=sample.rows,
        row_count=sample.row_count,
        exact_count=sample.exact_count,
        columns=tuple(columns),
        cut_by_bytes=sample.cut_by_bytes,
    )
    return SampledTable(profile, counts, values)


def unsampled(table: Table, problem: str) -> SampledTable:
    """Return the profile of a table that could not be sampled."""
    columns = tuple(ColumnProfile(column.name, ValueKind.OPAQUE, 0) for column in table.columns)
    return SampledTable(
        TableProfile(table.ref, SampleMethod.HEAD, 0, table.row_estimate, False, columns, problem=problem)
    )


def _count(
    name: str, values: list[Any], fold: Callable[[str], str] | None
) -> tuple[ColumnProfile, dict[Any, int] | None]:
    """Return the profile, and value -> count; None where the values cannot be compared. `values` is made uniform."""
    try:
        counted: Counter[Any] = Counter(values)
    except TypeError:  # lists and mappings of nested types
        return ColumnProfile(name, ValueKind.OPAQUE, len(values), nulls=values.count(None)), None
    types = set(map(type, counted))
    if not types <= _KINDS.keys() | {type(None)} or float in types or (fold and str in types):
        values[:] = [_plain(value, fold) for value in values]
        counted = Counter(values)
        types = set(map(type, counted))
    nulls = counted.pop(None, 0)
    kind = _kind(types - {type(None)}, counted)
    low, high = _ends(counted, kind)
    lengths = [len(value) for value in counted] if kind is ValueKind.TEXT else []
    return (
        ColumnProfile(
            name=name,
            kind=kind,
            rows=len(values),
            nulls=nulls,
            distinct=len(counted),
            minimum=low,
            maximum=high,
            shortest=min(lengths, default=None),
            longest=max(lengths, default=None),
            top=tuple(counted.most_common(TOP_VALUES)) if len(counted) < len(values) - nulls else _first(counted),
        ),
        counted,
    )


def _first(counted: Mapping[Any, int]) -> tuple[tuple[Any, int], ...]:
    return tuple((value, 1) for value, _ in zip(counted, range(TOP_VALUES), strict=False))


def _kind(types: set[type], counted: Mapping[Any, int]) -> ValueKind:
    if not types:
        return ValueKind.EMPTY
    kinds = {_KINDS.get(each, ValueKind.OPAQUE) for each in types}
    if kinds == {ValueKind.NUMBER} or kinds == {ValueKind.NUMBER, ValueKind.INTEGER}:
        whole = all(type(value) is int or value == int(value) for value in counted)
        return ValueKind.INTEGER if whole else ValueKind.NUMBER
    return kinds.pop() if len(kinds) == 1 else ValueKind.MIXED


def _ends(counted: Mapping[Any, int], kind: ValueKind) -> tuple[Any, Any]:
    if kind not in _ORDERED or not counted:
        return None, None
    try:
        return min(counted), max(counted)
    except TypeError:  # times with and without a zone, dates beside times
        return None, None


def _plain(value: Any, fold: Callable[[str], str] | None) -> Any:
    """Return the value as others that equal it in the database look; NaN and infinities count as no value."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, decimal.Decimal) and not value.is_finite():
        return None
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, str):
        return fold(value) if fold else str(value)
    return value if type(value) in _KINDS or value is None else str(value)
