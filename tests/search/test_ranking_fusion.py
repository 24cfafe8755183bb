"""Reciprocal rank fusion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.search.ranking import fuse


def test_the_sum_of_reciprocal_ranks() -> None:
    assert fuse([["a", "b"], ["b", "c"]]) == pytest.approx({"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 62})


def test_one_order_stays_as_it_is() -> None:
    scores = fuse([["c", "a", "b"]])
    assert sorted(scores, key=scores.__getitem__, reverse=True) == ["c", "a", "b"]


@given(st.lists(st.lists(st.integers(0, 9), unique=True)))
def test_first_in_all_orders_is_first(orders: list[list[int]]) -> None:
    scores = fuse([[99, *order] for order in orders])
    assert not orders or max(scores, key=scores.__getitem__) == 99
