"""Answers that are kept: for a while, within bounds, and only while what they were made with is the same."""

from __future__ import annotations

from ktx_cli.jobs.serve.project import KeptAnswers


def test_an_answer_is_given_while_its_proof_is_the_same_object() -> None:
    kept, proof, other = KeptAnswers(), object(), object()
    kept.put("a", (proof,), "answer", 10)
    assert kept.get("a", (proof,)) == "answer" and kept.get("b", (proof,)) is None
    assert kept.get("a", (other,)) is None
    assert kept.get("a", (proof,)) is None  # what is not the same once is forgotten


def test_an_answer_goes_when_its_time_is_up() -> None:
    now = [0.0]
    kept = KeptAnswers(seconds=10, clock=lambda: now[0])
    kept.put("a", (), "answer", 10)
    now[0] = 10.0
    assert kept.get("a", ()) == "answer"
    now[0] = 10.5
    assert kept.get("a", ()) is None and len(kept) == 0


def test_old_answers_go_with_the_next_one_too() -> None:
    now = [0.0]
    kept = KeptAnswers(seconds=10, clock=lambda: now[0])
    kept.put("a", (), "answer", 10)
    now[0] = 11.0
    kept.put("b", (), "answer", 10)
    assert len(kept) == 1


def test_the_one_used_least_goes_first_by_count_and_by_bytes() -> None:
    kept = KeptAnswers(most=2, most_bytes=100)
    kept.put("a", (), 1, 10)
    kept.put("b", (), 2, 10)
    assert kept.get("a", ()) == 1
    kept.put("c", (), 3, 10)
    assert kept.get("b", ()) is None and kept.get("a", ()) == 1
    kept.put("d", (), 4, 95)
    assert len(kept) == 1 and kept.get("d", ()) == 4


def test_an_answer_too_large_is_not_kept_and_replaces_the_old_one() -> None:
    kept = KeptAnswers(most_bytes=100)
    kept.put("a", (), 1, 10)
    kept.put("a", (), 2, 101)
    assert len(kept) == 0
