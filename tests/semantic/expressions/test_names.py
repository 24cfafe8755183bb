"""Trees whose columns are numbers, and what the numbers stand for."""

from __future__ import annotations

import pytest
from sqlglot import exp

from ktx_cli.semantic.expressions.fragments import parse
from ktx_cli.semantic.expressions.names import (
    Expression,
    Name,
    column_parts,
    conjuncts,
    filled,
    placeholder,
    placeholders,
    with_names,
)


def tree(text: str) -> exp.Expr:
    return parse(text, "duckdb", what="x")


def named(text: str) -> Expression:
    return with_names(tree(text), "s", text, lambda column: Name(column_parts(column)[:-1], column.name))


@pytest.mark.table(
    ("text", "names", "numbers"),
    [
        ("a", ["a"], [0]),
        ("a + b", ["a", "b"], [0, 1]),
        ("a + x.a + a", ["a", "x.a"], [0, 1, 0]),
        ("upper(x.y.z) = 'q'", ["x.y.z"], [0]),
        ("1 = 1", [], []),
    ],
)
def test_columns_become_numbers(text: str, names: list[str], numbers: list[int]) -> None:
    found = named(text)
    assert list(map(str, found.names)) == names
    assert sorted(int(each.name) for each in placeholders(found.tree)) == sorted(numbers)
    assert found.bound(lambda name: exp.column(name.column, *reversed(name.hops))).sql() == tree(text).sql()


def test_the_tree_given_stays_as_it_is() -> None:
    given = tree("a + b")
    with_names(given, None, "", lambda column: Name((), column.name))
    assert given.sql() == "a + b"


def test_filling_leaves_the_formula_as_it_is() -> None:
    formula = exp.Add(this=placeholder(0), expression=placeholder(1))
    assert filled(formula, lambda number: exp.column(f"m{number}")).sql() == "m0 + m1"
    assert [each.name for each in placeholders(formula)] == ["0", "1"]
    assert filled(placeholder(-1), lambda number: exp.column(f"d{-1 - number}")).sql() == "d0"


@pytest.mark.table(
    ("text", "parts"),
    [
        ("a", ["a"]),
        ("a and b", ["a", "b"]),
        ("(a and (b and c))", ["a", "b", "c"]),
        ("a or b", ["a OR b"]),
        ("a and (b or c) and not d", ["a", "b OR c", "NOT d"]),
        ("not (a and b)", ["NOT (a AND b)"]),
        (" and ".join(["a"] * 1500), ["a"] * 1500),
    ],
)
def test_conditions_are_split_at_their_top(text: str, parts: list[str]) -> None:
    assert [each.sql() for each in conjuncts(tree(text))] == parts


@pytest.mark.table(
    ("one", "other", "same"),
    [("a + b", "A + B", False), ("a + b", "a+b", True), ("sum(a)", "SUM(a)", True), ("a + b", "b + a", False)],
)
def test_expressions_that_are_the_same(one: str, other: str, same: bool) -> None:
    assert (named(one).key == named(other).key) is same


def test_metric_time_is_no_column() -> None:
    assert Name((), "metric_time").is_metric_time
    assert not Name(("orders",), "metric_time").is_metric_time
    assert str(Name(("a", "b"), "c")) == "a.b.c"
