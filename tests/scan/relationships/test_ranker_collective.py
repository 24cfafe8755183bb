"""The features a candidate gets from its neighbours: the first pass scores them all, the second some of them again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.scan.relationships.ranker import (
    MAX_LOG_ODDS_GAP,
    MIN_LOG_ODDS,
    NEIGHBOUR_FEATURES,
    CandidateSummary,
    ColumnName,
    DatabaseSummary,
    neighbour_features,
    worth_rescoring,
)


def column(table: int, name: str) -> ColumnName:
    words = name.split("_")
    several = len(words) > 1
    last = words[-2] if several and words[-1] == "id" else words[-1]
    return ColumnName(table, "".join(words), words[0] if several else "", words[-1] if several else "", last)


def seen(child: int, key: int, *, fits: bool = True, span: float = 1.0, name_match: float = 0.0) -> CandidateSummary:
    return CandidateSummary(child, key, name_match, fits, span if fits else 0.0, span if fits else 0.0)


COLUMNS = [column(0, "id"), column(1, "id"), column(2, "made_by"), column(3, "made_by"), column(4, "made_by")]


def numbers(summary: DatabaseSummary, odds: list[float], at: int) -> dict[str, float]:
    (found,) = neighbour_features(summary, odds, [at])
    return dict(zip(NEIGHBOUR_FEATURES, found, strict=True))


def test_namesakes_speak_for_the_same_key() -> None:
    summary = DatabaseSummary(COLUMNS, [seen(2, 0), seen(2, 1), seen(3, 0), seen(4, 0)])
    found = numbers(summary, [0.0, 0.1, 3.0, 1.0], 0)
    assert found["namesakes"] == pytest.approx(1.585, abs=0.001)
    assert (found["namesakes_mean"], found["namesakes_best"], found["namesakes_fit"]) == (2.0, 3.0, 1.0)
    assert found["shared_rivals"] == 1.0
    other = numbers(summary, [0.0, 0.1, 3.0, 1.0], 1)
    assert (other["namesakes_mean"], other["namesakes_fit"]) == (MIN_LOG_ODDS, 0.0)


def test_a_column_stands_among_its_keys() -> None:
    summary = DatabaseSummary(COLUMNS, [seen(2, 0), seen(2, 1)])
    assert [numbers(summary, [2.0, -1.0], at)["margin"] for at in (0, 1)] == [3.0, -3.0]
    assert [numbers(summary, [2.0, -1.0], at)["rank"] for at in (0, 1)] == [0.0, 1.0]


def test_a_key_others_refer_to_is_popular() -> None:
    summary = DatabaseSummary(COLUMNS, [seen(2, 0), seen(3, 0, name_match=0.9), seen(4, 1)])
    alone, popular = (numbers(summary, [0.0, 8.0, 8.0], at) for at in (2, 0))
    assert alone["popular"] == pytest.approx(0.0)
    assert popular["popular"] == pytest.approx(1.0, abs=0.01)
    assert popular["popular_by_role"] == pytest.approx(0.0)


def test_the_words_of_a_name_reach_the_ends_of_the_right_key() -> None:
    summary = DatabaseSummary(
        COLUMNS, [seen(2, 0, span=0.4), seen(2, 1, span=0.2), seen(3, 0, span=1.0), seen(3, 1, span=0.5)]
    )
    found = numbers(summary, [0.0] * 4, 0)
    assert (found["group_span"], found["group_span_elsewhere"]) == (1.0, 0.5)


def test_a_convention_is_the_share_of_references_among_columns_with_a_word() -> None:
    summary = DatabaseSummary([*COLUMNS, column(5, "paid_by")], [seen(2, 0), seen(3, 0), seen(4, 0)])
    found = numbers(summary, [-8.0, 8.0, 8.0], 0)
    assert found["last_word_share"] == pytest.approx((2 + 0.5) / 4, abs=0.01)


def test_what_the_second_pass_scores() -> None:
    summary = DatabaseSummary(COLUMNS, [seen(2, 0), seen(2, 1), seen(3, 0), seen(4, 0)])
    assert worth_rescoring(summary, [5.0, 5.0 - MAX_LOG_ODDS_GAP - 0.1, MIN_LOG_ODDS - 0.1, MIN_LOG_ODDS]) == [0, 3]


PAIRS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans(), st.floats(-12, 12)),
    min_size=1,
    max_size=12,
    unique_by=lambda each: each[:2],
)


@given(PAIRS)
def test_numbers_are_there_for_every_pair_and_do_not_depend_on_the_order(
    pairs: list[tuple[int, int, bool, float]],
) -> None:
    def all_numbers(chosen: list[tuple[int, int, bool, float]]) -> dict[tuple[int, int], list[float]]:
        summary = DatabaseSummary(COLUMNS, [seen(child, key, fits=fits) for child, key, fits, _ in chosen])
        found = neighbour_features(summary, [odds for *_, odds in chosen], range(len(chosen)))
        return {(child, key): row for (child, key, *_), row in zip(chosen, found, strict=True)}

    forward, backward = all_numbers(pairs), all_numbers(pairs[::-1])
    for ends, row in forward.items():
        assert len(row) == len(NEIGHBOUR_FEATURES)
        assert row == pytest.approx(backward[ends])
