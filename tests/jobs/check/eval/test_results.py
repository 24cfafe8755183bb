"""When an answer is the expected one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.jobs.check.eval import results
from ktx_cli.jobs.check.eval.cases import Expectation
from ktx_cli.jobs.check.eval.results import CaseAnswer, Difference, comparison, difference, same_value

VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(["", "1", "1.0", "1.00", "x", "2025-01-01", "2025-01-01T00:00:00", "2025-01-01T00:00:00Z"]),
        st.sampled_from(["2025-01-01T01:00:00+01:00", "NaN", "0", "-0", "1e0"]),
        st.text(max_size=3),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)),
    max_leaves=4,
)

SAME = [
    (1, 1.0),
    (1, "1.00"),
    ("1.00", 1),
    (1361411.81, "1361411.81"),
    (0.1, 0.1),
    (0.3, 0.30000000000000004),
    (481.45, 481.45000000000033),
    ("0.3", 0.30000000000000004),
    (10**30, str(10**30)),
    (-0.0, 0),
    (1e3, "1000"),
    (True, 1),
    (False, 0),
    (True, True),
    (None, None),
    ("", ""),
    ("NaN", "NaN"),
    ("2025-01-01", "2025-01-01T00:00:00"),
    ("2025-01-01 12:30:00", "2025-01-01T12:30:00"),
    ("2025-01-01T12:00:00Z", "2025-01-01T13:00:00+01:00"),
    ([1, "a"], ["1.0", "a"]),
    ({"a": 1, "b": None}, {"b": None, "a": 1.0}),
]

DIFFERENT = [
    (1, 2),
    (0.3, 0.300000000000001),
    ("0.3", "0.30000000000000004"),
    (100_000_000.0, 100_000_000.01),
    ("12.5", "12.50"),
    ("01", "1"),
    ("a b", "aTb"),
    ("a", "A"),
    (None, 0),
    (None, ""),
    (0, None),
    ("null", None),
    ("x", 1),
    ("true", True),
    ("2025-01-01", "2025-01-02"),
    ("2025-13-01", "2025-13-01T00:00:00"),
    ("2025-01-01T00:00:00", "2025-01-01T00:00:00+00:00"),
    ([1], [1, 2]),
    ({"a": 1}, {"b": 1}),
    ([1], 1),
]


@pytest.mark.table(("expected", "got"), SAME)
def test_the_same(expected: Any, got: Any) -> None:
    assert same_value(expected, got)


@pytest.mark.table(("expected", "got"), DIFFERENT)
def test_not_the_same(expected: Any, got: Any) -> None:
    assert not same_value(expected, got)


@pytest.mark.table(
    ("expected", "got", "same"),
    [(10, 10.5, True), (10, "9.5", True), (10, 10.51, False), ("10", "10.5", False), (None, 0.1, False)],
)
def test_a_tolerance_is_about_numbers_alone(expected: Any, got: Any, same: bool) -> None:
    assert same_value(expected, got, Decimal("0.5")) is same


def found(expect: Any, columns: str, *rows: tuple[Any, ...], ordered: bool = False) -> Difference | None:
    return difference(Expectation.model_validate(expect), CaseAnswer(tuple(columns.split()), rows, ordered))


def test_one_value_is_that_of_one_row_of_one_column() -> None:
    assert found({"value": 5}, "n", (5,)) is None
    assert found({"value": None}, "n", (None,)) is None
    wrong = found({"value": 5}, "n", (6,))
    assert wrong is not None and wrong.message == "expected 5, got 6"
    assert (wrong.missing, wrong.unexpected) == (((5,),), ((6,),))
    for columns, rows in (("n m", [(5, 5)]), ("n", [(5,), (5,)]), ("n", [])):
        wrong = found({"value": 5}, columns, *rows)
        assert wrong is not None and wrong.message.startswith("expected one value, got ")


def test_a_number_of_rows() -> None:
    assert found({"rows": 2}, "a", (1,), (2,)) is None
    assert found({"rows": 0}, "a") is None
    assert found({"rows": []}, "a") is None
    wrong = found({"rows": 3}, "a", (1,))
    assert wrong is not None and wrong.message == "expected 3 rows, got 1"


ROWS = {"rows": [{"country": "NO", "orders": 2}, {"country": "SE", "orders": 1}]}


def test_rows_are_known_by_their_columns_in_any_order() -> None:
    assert found(ROWS, "country orders", ("SE", 1), ("NO", 2)) is None
    assert found(ROWS, "orders country", (1, "SE"), (2, "NO")) is None
    lists = {"columns": ["country", "orders"], "rows": [["NO", 2], ["SE", 1]]}
    assert found(lists, "orders country", (1, "SE"), (2, "NO")) is None


def test_the_order_counts_where_the_question_orders() -> None:
    assert found(ROWS, "country orders", ("NO", 2), ("SE", 1), ordered=True) is None
    wrong = found(ROWS, "country orders", ("SE", 1), ("NO", 2), ordered=True)
    assert wrong is not None and wrong.message == "the rows are in the wrong order"


def test_what_is_missing_and_what_is_too_much_is_named() -> None:
    wrong = found(ROWS, "country orders", ("NO", 2), ("SE", 2), ("DK", 1))
    assert wrong is not None and wrong.message == "1 row missing, 2 unexpected rows"
    assert [list(row) for row in wrong.missing] == [["SE", 1]]
    assert wrong.unexpected == (("SE", 2), ("DK", 1))


def test_a_row_counts_as_often_as_it_is_there() -> None:
    twice = {"rows": [{"a": 1}, {"a": 1}]}
    assert found(twice, "a", (1,), (1,)) is None
    wrong = found(twice, "a", (1,), (1,), (1,))
    assert wrong is not None and wrong.message == "1 unexpected row"


def test_other_columns_are_told() -> None:
    wrong = found(ROWS, "country revenue", ("NO", 2), ("SE", 1))
    assert wrong is not None and wrong.message == "expected the columns country, orders, got country, revenue"


def test_rows_within_the_tolerance_are_found_whatever_their_order() -> None:
    expect = {"rows": [{"a": 10}, {"a": 10.4}], "tolerance": 0.5}
    assert found(expect, "a", (10.3,), (9.8,)) is None
    assert found(expect, "a", (10.3,), (9.2,)) is not None


def test_moments_of_other_zones_are_found_whatever_their_order() -> None:
    expect = {"columns": ["at"], "rows": [["2025-01-01T12:00:00Z"], ["2025-01-01T12:30:00Z"]]}
    assert found(expect, "at", ("2025-01-01T13:30:00+01:00",), ("2025-01-01T11:00:00-01:00",)) is None


def test_an_answer_of_many_rows_too_many_is_told_by_its_size() -> None:
    rows = [(number, f"text {number}") for number in range(5_000)]
    wrong = found({"rows": [{"a": 1, "b": "text 1"}]}, "a b", *rows)
    assert wrong is not None and wrong.message == "expected 1 row, got 5,000"


@pytest.mark.parametrize("tolerance", [0, 0.25])
def test_long_answers_are_told_apart(tolerance: float) -> None:
    names = ["a", "b"]
    expected = [[number, f"text {number}"] for number in range(5_000)]
    got = [(number if number % 1000 else number + 1, f"text {number}") for number in reversed(range(5_000))]
    wrong = found({"columns": names, "rows": expected, "tolerance": tolerance}, "a b", *got)
    assert wrong is not None and wrong.message == "5 rows missing, 5 unexpected rows"


@given(st.lists(st.tuples(VALUES, VALUES), max_size=6), st.randoms())
def test_rows_are_the_same_in_any_order_and_missing_when_one_is_gone(rows: list[Any], chance: Any) -> None:
    expect = {"columns": ["a", "b"], "rows": [list(row) for row in rows]}
    shuffled = chance.sample(rows, len(rows))
    assert found(expect, "a b", *shuffled) is None
    if rows:
        wrong = found(expect, "a b", *shuffled[1:])
        assert wrong is not None and (len(wrong.missing), len(wrong.unexpected)) == (1, 0)


@given(VALUES, VALUES)
def test_values_that_are_the_same_sort_alike(one: Any, two: Any) -> None:
    if same_value(one, two):
        assert results._rank(one) == results._rank(two)


def test_columns_of_one_name_stay_where_they_are() -> None:
    lists = {"columns": ["a", "a"], "rows": [[1, 2]]}
    assert found(lists, "a a", (1, 2)) is None
    assert found(lists, "a a", (2, 1)) is not None


def test_values_of_all_kinds_stand_in_one_column() -> None:
    values = [None, 1, "1x", "2025-01-01", [1], {"a": 1}, True]
    expect = {"columns": ["v"], "rows": [[value] for value in values]}
    assert found(expect, "v", *[(value,) for value in reversed(values)]) is None


def _table(columns: str, *rows: tuple[Any, ...], ordered: bool = False) -> CaseAnswer:
    return CaseAnswer(tuple(columns.split()), rows, ordered)


@pytest.mark.table(
    ("sql", "query", "message"),
    [
        (_table("n", (3,)), _table("n", (3.0,)), None),
        (_table("COUNT(*)", (3,)), _table("orders", ("3",)), None),
        (_table("N C", (3, "x")), _table("c n", ("x", 3)), None),
        (_table("a b", (1, 2), (3, 4)), _table("a b", (3, 4), (1, 2)), None),
        (_table("a", (1,), (2,), ordered=True), _table("a", (2,), (1,)), None),
        (_table("a"), _table("b"), None),
        (_table("a", (1,), (1,)), _table("a", (1,)), "the query and the SQL differ: 1 row only in the SQL"),
        (_table("a"), _table("a", (1,)), "the query and the SQL differ: 1 row only in the query"),
        (_table("n", (3,)), _table("n", (4,)), "differ: 1 row only in the SQL, 1 row only in the query"),
        (_table("n", (None,)), _table("n", (0,)), "differ: 1 row only in the SQL, 1 row only in the query"),
        (
            _table("a", (1,), (2,), ordered=True),
            _table("a", (2,), (1,), ordered=True),
            "rows of the SQL in a different order",
        ),
        (_table("a b", (1, 2)), _table("a", (1,)), "the SQL has 2 columns, the query has 1: a, b and a"),
        (_table("a b", (1, 2)), _table("a c", (1, 2)), "have different names: a, b and a, c"),
        (_table("a"), _table("a", *((n,) for n in range(1_001))), "the SQL has 0 rows, the query has 1,001"),
    ],
)
def test_a_query_and_its_sql_are_compared_as_tables(sql: CaseAnswer, query: CaseAnswer, message: str | None) -> None:
    found = comparison(sql, query, 0.0)
    assert (found is None) is (message is None)
    if found is not None:
        assert message is not None and message in found.message
        assert found.sides == ("sql", "query")


def test_numbers_of_a_query_and_its_sql_may_differ_within_the_tolerance() -> None:
    assert comparison(_table("n", (3,)), _table("n", (3.4,)), 0.5) is None
    found = comparison(_table("n", (3,)), _table("n", (3.6,)), 0.5)
    assert found is not None and (found.missing, found.unexpected) == (((3,),), ((3.6,),))
