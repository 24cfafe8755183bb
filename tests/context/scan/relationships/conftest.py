"""Facts of tables that are given as lists of values, without a database."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from ktx_cli.connectors.port import Column, SemanticType, Table, TableKind, TableRef, UniqueKey
from ktx_cli.connectors.sampling import Sample, SampleMethod
from ktx_cli.context.scan.profiling.counting import count_sample
from ktx_cli.context.scan.relationships.facts import DatabaseFacts, gather

Columns = Mapping[str, Sequence[Any]]
Gathered = Callable[..., DatabaseFacts]

_TYPES = {
    int: ("INTEGER", SemanticType.NUMBER),
    str: ("TEXT", SemanticType.STRING),
    datetime.date: ("DATE", SemanticType.TIME),
    float: ("REAL", SemanticType.NUMBER),
}


@pytest.fixture
def gathered() -> Gathered:
    """Return a function: table -> column -> values, to facts; see `_gathered`."""
    return _gathered


def _gathered(
    tables: Mapping[str, Columns],
    *,
    keys: Mapping[str, tuple[str, ...]] | None = None,
    uniques: Mapping[str, Sequence[tuple[str, ...]]] | None = None,
    rows: Mapping[str, int] | None = None,
    views: Sequence[str] = (),
) -> DatabaseFacts:
    """Return the facts. `keys`, `uniques`: what is declared; `rows`: those of a table that is larger than its sample.

    A column without any value is of the type of its name: `INTEGER` where it ends in `id`, else `TEXT`.
    """
    made, sampled = [], []
    for name, columns in tables.items():
        table = Table(
            TableRef(None, name),
            TableKind.VIEW if name in views else TableKind.TABLE,
            tuple(_column(column, values) for column, values in columns.items()),
            primary_key=(keys or {}).get(name, ()),
            unique_keys=tuple(UniqueKey(each) for each in (uniques or {}).get(name, ())),
        )
        made.append(table)
        sampled.append(count_sample(table, _sample(columns, (rows or {}).get(name))))
    return gather("sqlite", made, sampled)


def _column(name: str, values: Sequence[Any]) -> Column:
    kinds = {type(value) for value in values if value is not None} or {int if name.lower().endswith("id") else str}
    native, kind = _TYPES[kinds.pop()]
    return Column(name, native, kind)


def _sample(columns: Columns, larger: int | None) -> Sample:
    rows = len(next(iter(columns.values())))
    return Sample(
        columns=tuple(columns),
        values=tuple(list(values) for values in columns.values()),
        rows=rows,
        method=SampleMethod.ALL if larger is None else SampleMethod.BLOCKS,
        row_count=rows if larger is None else larger,
        exact_count=True,
    )
