"""Parts and truncations of dates on SQLite, against what Python says of the same moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from ktx_cli.semantic.expressions.dates import CUT, PART, operand, with_own_dates
from ktx_cli.semantic.model import SemanticError
from ktx_cli.warehouses.dialect import dialect_named

SQLITE = dialect_named("sqlite")
MOMENTS = st.datetimes(datetime(1, 1, 8), datetime(9999, 12, 1)).map(lambda at: at.replace(microsecond=0))

PARTS: dict[str, Callable[[datetime], int]] = {
    "year": lambda at: at.year,
    "quarter": lambda at: (at.month + 2) // 3,
    "month": lambda at: at.month,
    "week": lambda at: at.isocalendar().week,
    "isoweek": lambda at: at.isocalendar().week,
    "day": lambda at: at.day,
    "dow": lambda at: at.isoweekday() % 7,
    "doy": lambda at: at.timetuple().tm_yday,
    "hour": lambda at: at.hour,
    "minute": lambda at: at.minute,
    "second": lambda at: at.second,
}
CUTS: dict[str, Callable[[datetime], str]] = {
    "year": lambda at: f"{at.year:04}-01-01",
    "quarter": lambda at: f"{at.year:04}-{(at.month - 1) // 3 * 3 + 1:02}-01",
    "month": lambda at: f"{at.year:04}-{at.month:02}-01",
    "week": lambda at: (at - timedelta(days=at.weekday())).date().isoformat(),
    "day": lambda at: at.date().isoformat(),
    "hour": lambda at: at.replace(minute=0, second=0).isoformat(" "),
    "minute": lambda at: at.replace(second=0).isoformat(" "),
    "second": lambda at: at.isoformat(" "),
}


def extract(part: str) -> exp.Expr:
    return exp.Extract(this=exp.var(part), expression=exp.column("at"))


def cut(unit: str) -> exp.Expr:
    return exp.DateTrunc(this=exp.column("at"), unit=exp.Literal.string(unit))


def computed(node: exp.Expr, at: datetime) -> Any:
    with closing(sqlite3.connect(":memory:")) as connection:
        sql = f"SELECT {with_own_dates(node, SQLITE).sql('sqlite')} FROM (SELECT ? AS at)"
        return connection.execute(sql, (at.isoformat(" "),)).fetchone()[0]


@given(MOMENTS)
def test_parts_are_those_of_the_calendar(at: datetime) -> None:
    assert {name: computed(extract(name), at) for name in PARTS} == {name: of(at) for name, of in PARTS.items()}


@given(MOMENTS)
def test_cuts_are_the_first_moment_of_a_period(at: datetime) -> None:
    assert {unit: computed(cut(unit), at) for unit in CUTS} == {unit: of(at) for unit, of in CUTS.items()}


@pytest.mark.table(
    ("node", "key", "value"),
    [(extract(name), PART, name) for name in PARTS] + [(cut(unit), CUT, unit) for unit in CUTS],
)
def test_what_is_made_says_what_it_is(node: exp.Expr, key: str, value: str) -> None:
    made = with_own_dates(node, SQLITE)
    assert (made.meta[key], operand(made)) == (value, exp.column("at"))


@pytest.mark.table("node", [extract("century"), extract("epoch"), cut("decade"), cut("millisecond")])
def test_what_sqlite_cannot_compute_is_refused(node: exp.Expr) -> None:
    with pytest.raises(SemanticError, match=r"SQLite does not support (extract|date_trunc)"):
        with_own_dates(node, SQLITE)


def test_other_nodes_stay_as_they_are() -> None:
    node = exp.column("at")
    assert with_own_dates(node, SQLITE) is node
