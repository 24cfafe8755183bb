"""What an ingest of documents, dbt models and a history takes, and what its work units are shown of the models' SQL."""

from __future__ import annotations

import pytest

from benchmarks.bench_tokens import BEFORE, measure, total_of
from benchmarks.token_world import facts_of_sql


@pytest.mark.slow
def test_facts_that_stand_in_sql_alone_are_in_the_requests_of_units() -> None:
    measured = measure(sql=True)
    assert measured.status == "done"
    assert sorted(set(facts_of_sql()) - measured.facts_shown) == []
    before = total_of(BEFORE)
    assert measured.same_work.dollars < 0.72 * before.dollars, "the new input costs less than was saved"
    assert measured.total.dollars < 0.8 * before.dollars, "and so do the questions of sections"
    assert measured.tallies["questions"].requests == 2


@pytest.mark.slow
def test_the_same_input_costs_a_third_less_and_takes_a_turn_less_per_loop() -> None:
    measured = measure(sql=False)
    assert (measured.status, measured.facts_shown) == ("done", frozenset())
    before, now = total_of(BEFORE), measured.same_work
    assert now.dollars <= 0.65 * before.dollars
    assert now.usage.cache_write_tokens <= 0.65 * before.usage.cache_write_tokens
    assert now.usage.cache_read_tokens <= 0.65 * before.usage.cache_read_tokens
    for kind in ("curate", "dbt", "documents", "history", "reconcile"):
        one, other = BEFORE[kind], measured.tallies[kind]
        assert other.requests / other.loops <= one.requests / one.loops - 1, kind
