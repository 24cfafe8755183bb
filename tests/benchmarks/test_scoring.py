from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.relationship_fixtures.scoring import Answer, Rates, rates, score, silent_links
from benchmarks.relationship_fixtures.truth import PrimaryKey, Reference, Truth

A = Reference("child", ("a",), "parent", ("id",))
B = Reference("child", ("b",), "parent", ("id",))
C = Reference("child", ("c", "d"), "other", ("x", "y"))
KEYS = (PrimaryKey("child", ("id",)), PrimaryKey("other", ("x", "y")))


def answer(
    accepted: set[Reference], review: frozenset[Reference] = frozenset(), keys: tuple[PrimaryKey, ...] = ()
) -> Answer:
    return Answer(frozenset(keys), frozenset(accepted), review)


@pytest.mark.parametrize(
    ("accepted", "precision", "recall"),
    [
        ({A, B, C}, 1.0, 1.0),
        ({A, C}, 1.0, 2 / 3),
        ({A, B._replace(child_columns=("B",))}, 0.5, 1 / 3),
        ({C._replace(child_columns=("d", "c"))}, 0.0, 0.0),
        ({C._replace(child_columns=("d", "c"), parent_columns=("y", "x"))}, 0.0, 0.0),
        (set(), 1.0, 0.0),
    ],
    ids=["all", "one missed", "case counts", "order counts", "order counts on both sides", "nothing claimed"],
)
def test_links_are_compared_exactly(accepted: set[Reference], precision: float, recall: float) -> None:
    found = score(Truth((), (A, B, C)), answer(accepted)).links
    assert (found.precision, found.recall) == (precision, recall)


def test_one_key_a_table_a_composite_as_one() -> None:
    found = score(Truth(KEYS, ()), answer(set(), keys=(KEYS[0], PrimaryKey("other", ("x",)))))
    assert (found.keys.precision, found.keys.recall) == (0.5, 0.5)
    assert (found.wrong_keys, found.missed_keys) == ((PrimaryKey("other", ("x",)),), (KEYS[1],))


def test_review_recall_counts_what_was_put_up_for_review() -> None:
    found = score(Truth((), (A, B)), answer({A}, frozenset({B, C})))
    assert (found.links.recall, found.review_recall, found.links.precision) == (0.5, 1.0, 1.0)


def test_silent_links_count_on_neither_side() -> None:
    truth = Truth((), (A, B))
    assert score(truth, answer({A}), silent=frozenset({B})).links == Rates(1, 1, 1)
    assert score(truth, answer({A, B}), silent=frozenset({B})).links == Rates(1, 1, 1)
    assert score(truth, answer({A, B})).links == Rates(2, 2, 2)


def test_optional_links_count_on_neither_side() -> None:
    assert score(Truth((), (A,), optional=frozenset({B})), answer({A, B, C})).links == Rates(1, 2, 1)


def test_mistakes_are_named() -> None:
    found = score(Truth((), (A, B)), answer({A, C}))
    assert (found.wrong_links, found.missed_links) == ((C,), (B,))


@pytest.mark.parametrize(("found", "f1"), [(Rates(0, 0, 0), 1.0), (Rates(0, 2, 3), 0.0), (Rates(1, 2, 2), 0.5)])
def test_f1(found: Rates, f1: float) -> None:
    assert found.f1 == f1


@given(st.frozensets(st.integers(0, 9)), st.frozensets(st.integers(0, 9)))
def test_rates_are_shares(claimed: frozenset[int], wanted: frozenset[int]) -> None:
    found = rates(claimed, wanted)
    assert 0 <= found.precision <= 1 and 0 <= found.recall <= 1
    assert (found.f1 == 1) == (claimed == wanted)


def test_links_without_a_row_are_silent(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "data.sqlite")) as database:
        database.execute("CREATE TABLE child (a, b, c, d)")
        database.executemany("INSERT INTO child VALUES (?, ?, ?, ?)", [(1, None, 2, None), (2, None, None, 3)])
        database.commit()
    marked = A._replace(parent="marked")
    truth = Truth((), (A, B, C, marked), frozenset({marked}))
    assert silent_links(tmp_path, truth) == {B, C, marked}
