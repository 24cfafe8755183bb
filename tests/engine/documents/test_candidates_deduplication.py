"""Candidates that say the same: one stands for them, and what contradicts stays apart."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from ktx_cli.core.errors import KtxError
from ktx_cli.engine.documents import candidates
from ktx_cli.engine.documents.candidates import Deduplicated, PageCandidate, Scores, deduplicate

Make = Callable[..., PageCandidate]


def by_words(candidates: Sequence[PageCandidate]) -> Deduplicated:
    return deduplicate(candidates, lambda: None)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Refunds count in the month they are paid.", "refunds  count in the MONTH they are paid", True),
        ("Refunds count in the month they are paid.", "A refund counts in the month it was decided on.", False),
        ("Refunds are paid within 14 days of the order.", "Refunds are paid within 30 days of the order.", False),
        (
            "Gift cards count as revenue when they are sold.",
            "Gift cards do not count as revenue when they are sold.",
            False,
        ),
        ("Tax is part of net revenue in the EU.", "Tax is never part of net revenue in the EU.", False),
        ("退款在付款当月入账", "退款在付款当月入账", True),
    ],
)
def test_the_same_words_are_the_same_but_for_numbers_and_nots(
    candidate: Make, one: str, other: str, same: bool
) -> None:
    found = by_words([candidate("Refunds", one, key="a"), candidate("Refunds", other, key="b", path="b.md")])
    assert len(found.left) == (1 if same else 2)
    assert len(found.merged) == (1 if same else 0)


def test_the_best_stands_for_the_others_with_all_evidence_and_the_highest_scores(candidate: Make) -> None:
    text = "Refunds count when paid."
    low = candidate("Refunds", text, key="low", path="low.md", score=1)
    high = candidate("Refunds", text, key="high", path="high.md", score=3)
    low = replace(low, scores=Scores(1, 2, 0, 0, 3))
    found = by_words([low, high])
    (left,), (merged,) = found.left, found.merged
    assert (left.key, left.paths) == ("high", ("high.md", "low.md"))
    assert left.scores == Scores(3, 2, 0, 0, 3)
    assert (merged.key, merged.status, merged.into) == ("low", "merged", "high")


def test_the_order_they_come_in_changes_nothing(candidate: Make) -> None:
    candidates = [
        candidate(
            f"Topic {number % 7}",
            f"Fact {number % 5} of topic.",
            key=f"k{number}",
            path=f"{number}.md",
            score=number % 3,
        )
        for number in range(60)
    ]
    shuffled = [*candidates]
    random.Random(7).shuffle(shuffled)
    assert by_words(shuffled) == by_words(candidates)
    assert len(by_words(candidates).left) < len(candidates)


class Vectors:
    """An embedder that knows some texts."""

    model, dimensions, batch_size = "made up", 2, 2

    def __init__(self, angles: dict[str, float]) -> None:
        self._angles = angles
        self.batches: list[int] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.batches.append(len(texts))
        angles = [next(each for name, each in self._angles.items() if text.startswith(name)) for text in texts]
        return [[3 * math.cos(angle), 3 * math.sin(angle)] for angle in angles]


@pytest.mark.parametrize("numpy", [True, False])
def test_vectors_bring_other_words_together(candidate: Make, monkeypatch: pytest.MonkeyPatch, numpy: bool) -> None:
    if not numpy:
        monkeypatch.setattr(candidates, "_numpy", lambda: None)
    made = [candidate(topic, f"{topic} text.", score=score) for topic, score in (("A", 3), ("B", 2), ("C", 1))]
    near, far = math.acos(0.87), math.acos(0.85)
    embedder = Vectors({"A": 0.0, "B": near, "C": far + math.pi})
    found = deduplicate(made, lambda: embedder)
    assert [each.key for each in found.left] == ["A", "C"]
    assert [each.key for each in found.merged] == ["B"]
    assert embedder.batches == [2, 1]


def test_vectors_that_are_not_near_enough_stay_apart(candidate: Make) -> None:
    made = [candidate("A", "A text."), candidate("B", "B text.")]
    found = deduplicate(made, lambda: Vectors({"A": 0.0, "B": math.acos(0.85)}))
    assert len(found.left) == 2


def test_an_embedder_that_fails_leaves_the_words_and_a_warning(candidate: Make) -> None:
    def broken() -> None:
        raise KtxError("the server of vectors is away", hint="start it")

    made = [candidate("A", "Same text here.", key="a"), candidate("A", "Same text here.", key="b")]
    found = deduplicate(made, broken)
    assert len(found.left) == 1
    assert "the server of vectors is away" in found.warnings[0].message
