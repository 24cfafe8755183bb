"""Percentiles where a dialect has none: executed, against the interpolation of Python."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from ktx_cli.semantic.compile.build import column, identifier
from ktx_cli.semantic.compile.rows import needs_ranks, rank_query, weighed
from ktx_cli.semantic.expressions.fragments import parse
from ktx_cli.warehouses.dialect import DIALECTS


def percentile(values: Sequence[float | None], fraction: float) -> float | None:
    """Return the value at `fraction` of the way through the sorted values, between its neighbours."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    place = fraction * (len(known) - 1)
    below, above = known[math.floor(place)], known[math.ceil(place)]
    return below + (above - below) * (place - math.floor(place))


def computed(rows: Sequence[tuple[str | None, float | None]], fraction: float) -> dict[str | None, float | None]:
    """Return the percentile of each group as SQLite computes it."""
    ranks = rank_query("t", column("x"), ["d0"], [])
    total = exp.alias_(weighed(exp.Literal.number(fraction), "ranks", "sqlite"), "m")
    query = exp.select(column("d0", "ranks"), total).from_("ranks").group_by(column("d0", "ranks"))
    with sqlite3.connect(":memory:") as session:
        session.execute("CREATE TABLE t (d0 TEXT, x REAL)")
        session.executemany("INSERT INTO t VALUES (?, ?)", rows)
        found = session.execute(query.with_(identifier("ranks"), as_=ranks).sql("sqlite")).fetchall()
    session.close()
    return dict(found)


numbers = st.none() | st.integers(-1000, 1000).map(float)


@given(st.lists(st.tuples(st.sampled_from(("a", "b", None)), numbers), max_size=25), st.integers(0, 100))
def test_between_neighbours_by_group(rows: list[tuple[str | None, float | None]], hundredths: int) -> None:
    found = computed(rows, hundredths / 100)
    wanted = {key: percentile([x for group, x in rows if group == key], hundredths / 100) for key, _ in rows}
    assert found == pytest.approx(wanted)


@pytest.mark.table(
    ("values", "fraction", "wanted"),
    [([], 0.5, {}), ([1.0], 0.9, 1.0), ([1.0, 2.0], 0.5, 1.5), ([1.0, None, 9.0], 0.25, 3.0), ([None], 0.5, None)],
)
def test_by_hand(values: list[float | None], fraction: float, wanted: float | dict[str, float] | None) -> None:
    found = computed([("a", value) for value in values], fraction)
    assert found == (wanted if isinstance(wanted, dict) else {"a": wanted})


@pytest.mark.table("dialect", DIALECTS)
def test_no_other_aggregate_is_ranked(dialect: str) -> None:
    for text in ("count(*)", "sum(a)", "avg(a)", "max(a)"):
        assert not needs_ranks(parse(text, dialect, what="x"), dialect)


@pytest.mark.table("dialect", ["sqlite", "mysql", "tsql", "bigquery", "clickhouse", "trino"])
def test_dialects_without_an_exact_percentile(dialect: str) -> None:
    assert needs_ranks(parse("percentile(a, 0.5)", dialect, what="x"), dialect)
