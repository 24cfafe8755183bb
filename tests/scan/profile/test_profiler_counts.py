"""Counting the values of a sample: what they are, how many, which ends."""

from __future__ import annotations

import datetime
import decimal
import ipaddress
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.privacy.columns import ValueKind
from ktx_cli.scan.profile.profiler import (
    TOP_VALUES,
    ColumnProfile,
    Unsampled,
    comparable,
    count_sample,
    fold_of,
    unsampled,
)
from ktx_cli.warehouses.port import Column, SemanticType, Table, TableKind, TableRef
from ktx_cli.warehouses.sampling import Sample, SampleMethod

D = decimal.Decimal
ID = uuid.UUID("b4a4e04f-38a1-45ba-8dcf-f8f8a47b7adf")
DAY, MOMENT = datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2, 3)
ZONED = MOMENT.replace(tzinfo=datetime.UTC)


def table(*columns: str, kind: SemanticType = SemanticType.STRING) -> Table:
    return Table(TableRef(None, "t"), TableKind.TABLE, tuple(Column(name, "x", kind) for name in columns))


def sample(**columns: list[Any]) -> Sample:
    rows = len(next(iter(columns.values())))
    return Sample(tuple(columns), tuple(columns.values()), rows, SampleMethod.ALL, rows, True)


def profile(values: list[Any], dialect: str = "sqlite", kind: SemanticType = SemanticType.STRING) -> ColumnProfile:
    counted = count_sample(table("c", kind=kind), sample(c=values), dialect)
    return counted.profile.columns[0]


KINDS = [
    ([], ValueKind.EMPTY, None, None),
    ([None, None], ValueKind.EMPTY, None, None),
    ([3, 1, None], ValueKind.INTEGER, 1, 3),
    ([2.5, 1], ValueKind.NUMBER, 1, 2.5),
    ([2.0, 1.0], ValueKind.INTEGER, 1, 2),
    ([D("2.00"), D("1E+3")], ValueKind.INTEGER, 2, 1000),
    ([D("2.50"), 7], ValueKind.NUMBER, D("2.5"), 7),
    ([float("nan"), 1.5], ValueKind.NUMBER, 1.5, 1.5),
    ([D("NaN"), D("-Infinity"), D("1.5")], ValueKind.NUMBER, D("1.5"), D("1.5")),
    ([float("inf"), float("-inf")], ValueKind.EMPTY, None, None),
    ([D("1E+999"), 1.5], ValueKind.NUMBER, 1.5, D("1E+999")),
    ([1.5, "x", float("nan")], ValueKind.MIXED, None, None),
    (["b", "a", None], ValueKind.TEXT, "a", "b"),
    ([DAY, datetime.date(2023, 1, 1)], ValueKind.TIME, datetime.date(2023, 1, 1), DAY),
    ([MOMENT, ZONED], ValueKind.TIME, None, None),
    ([DAY, MOMENT], ValueKind.TIME, None, None),
    ([datetime.time(9), datetime.time(8)], ValueKind.TIME, datetime.time(8), datetime.time(9)),
    ([datetime.timedelta(1)], ValueKind.TIME, datetime.timedelta(1), datetime.timedelta(1)),
    ([True, False], ValueKind.BOOLEAN, None, None),
    ([1, "1"], ValueKind.MIXED, None, None),
    ([1.5, "x", None], ValueKind.MIXED, None, None),
    ([True, "x"], ValueKind.MIXED, None, None),
    ([ID], ValueKind.TEXT, str(ID), str(ID)),
    ([ipaddress.ip_address("10.0.0.1")], ValueKind.TEXT, "10.0.0.1", "10.0.0.1"),
    ([b"\x00\xff", memoryview(b"\x01")], ValueKind.TEXT, "00ff", "01"),
    ([[1], [2], None], ValueKind.OPAQUE, None, None),
    ([{"a": 1}, None, None], ValueKind.OPAQUE, None, None),
    ([10**400, 1.5], ValueKind.NUMBER, 1.5, 10**400),
]


@pytest.mark.table(("values", "kind", "low", "high"), KINDS)
def test_kinds_and_ends(values: list[Any], kind: ValueKind, low: Any, high: Any) -> None:
    found = profile(list(values))
    assert (found.kind, found.minimum, found.maximum) == (kind, low, high)
    assert found.rows == len(values)


BOOLEANS = [
    ([0, 1, None], ValueKind.BOOLEAN),
    ([1], ValueKind.BOOLEAN),
    ([True], ValueKind.BOOLEAN),
    ([0, 1, 2], ValueKind.INTEGER),
    (["true"], ValueKind.TEXT),
    ([None], ValueKind.EMPTY),
]


@pytest.mark.table(("values", "kind"), BOOLEANS)
def test_zeros_and_ones_of_a_declared_boolean_are_booleans(values: list[Any], kind: ValueKind) -> None:
    assert profile(values, kind=SemanticType.BOOLEAN).kind is kind


def test_zeros_and_ones_of_a_number_are_numbers() -> None:
    assert profile([0, 1], kind=SemanticType.NUMBER).kind is ValueKind.INTEGER


def test_what_is_counted() -> None:
    found = profile(["b", "a", None, "b", "ccc", "", None])
    assert (found.rows, found.nulls, found.filled, found.distinct) == (7, 2, 5, 4)
    assert (found.shortest, found.longest) == (0, 3)
    assert found.top[0] == ("b", 2)
    assert not found.unique


def test_a_unique_column_shows_its_first_values() -> None:
    found = profile([*range(100), None])
    assert found.unique
    assert found.top == tuple((number, 1) for number in range(TOP_VALUES))
    assert not profile([None]).unique


def test_equal_texts_are_held_once() -> None:
    counted = count_sample(table("c"), sample(c=["".join(("a", "b")) for _ in range(9)] + [None]))
    assert len({id(value) for value in counted.values["c"]}) == 2
    assert counted.values["c"] == ["ab"] * 9 + [None]


def test_values_that_equal_each_other_are_one() -> None:
    counted = count_sample(table("c"), sample(c=[1, D("1.0"), 1.0, D("2")]))
    assert counted.profile.columns[0].distinct == 2
    assert counted.counts["c"] == {1: 3, 2: 1}


def test_folding_counts_alike_what_the_server_takes_for_equal_and_shows_what_is_there() -> None:
    counted = count_sample(table("c"), sample(c=["Paid", "PAID", "paid ", "Straße", None, " paid"]), "mysql")
    found = counted.profile.columns[0]
    assert counted.counts["c"] == {"paid": 3, "straße": 1, " paid": 1}
    assert counted.values["c"] == ["paid", "paid", "paid", "straße", None, " paid"]
    assert (found.distinct, found.nulls, found.minimum, found.maximum) == (3, 1, " paid", "Straße")
    assert found.top[0] == ("Paid", 3)
    assert found.longest == 6


def test_a_column_that_tells_letters_apart_is_folded_less() -> None:
    counted = count_sample(table("c"), sample(c=["Paid", "PAID", "paid ", "paid"]), "mysql", frozenset({"c"}))
    assert counted.counts["c"] == {"Paid": 1, "PAID": 1, "paid": 2}
    assert counted.exact == {"c"}


@pytest.mark.table("dialect", ["sqlite", "duckdb", "postgres", "snowflake"])
def test_other_dialects_fold_nothing(dialect: str) -> None:
    assert profile(["a", "A", "a "], dialect).distinct == 3


def test_columns_that_failed_or_are_opaque_have_no_values() -> None:
    read = Sample(
        ("c",),
        ([1, 2],),
        2,
        SampleMethod.ALL,
        2,
        True,
        opaque={"doc": [True, False]},
        failed={"bad": "division by zero"},
    )
    counted = count_sample(table("bad", "c", "doc"), read)
    bad, column, doc = counted.profile.columns
    assert (bad.problem, bad.kind, bad.rows, bad.distinct) == ("division by zero", ValueKind.OPAQUE, 0, None)
    assert (column.problem, column.distinct) == (None, 2)
    assert (doc.kind, doc.rows, doc.nulls, doc.filled, doc.distinct) == (ValueKind.OPAQUE, 2, 1, 1, None)
    assert set(counted.counts) == set(counted.values) == {"c"}


def test_what_cannot_be_compared_has_no_counts() -> None:
    counted = count_sample(table("c"), sample(c=[[1], None]))
    assert (counted.counts, counted.values) == ({}, {})
    assert counted.profile.columns[0].nulls == 1


def test_a_table_without_a_sample_says_why() -> None:
    found = unsampled(table("a", "b"), Unsampled.ERROR, "it is locked").profile
    assert (found.problem, found.rows, found.complete) == ("it is locked", 0, False)
    assert [each.name for each in found.columns] == ["a", "b"]


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.decimals() | st.text() | st.binary() | st.dates()
    | st.datetimes() | st.times() | st.timedeltas() | st.uuids() | st.ip_addresses()
)  # fmt: skip


@given(st.lists(SCALARS.filter(lambda each: not (isinstance(each, D) and each.is_snan())), max_size=30))
def test_any_values_can_be_counted(values: list[Any]) -> None:
    counted = count_sample(table("c"), sample(c=list(values)), "mysql")
    (found,) = counted.profile.columns
    assert found.rows == len(values)
    assert sum(counted.counts["c"].values()) == found.filled
    assert found.distinct == len(counted.counts["c"])
    assert len(counted.values["c"]) == len(values)
    assert counted.values["c"].count(None) == found.nulls


@given(SCALARS.filter(lambda each: not (isinstance(each, D) and each.is_snan())))
def test_what_is_comparable_stays_so(value: Any) -> None:
    fold = fold_of("mysql")
    once = comparable(value, fold)
    assert comparable(once, fold) == once
