"""Held-out questions, and the comparison of answers before and after a change."""

from __future__ import annotations

import pytest

from ktx_cli.jobs.evolve.evolve import _judged
from ktx_cli.jobs.evolve.report import Verdict
from ktx_cli.jobs.evolve.trial import TrialResult, compare, split


def answers(**right: tuple[int, int]) -> dict[str, TrialResult]:
    """Return answers: question -> right runs of all runs; a name that begins with `w` is asked in words."""
    named = {(f"{name} in words" if name.startswith("w") else name): counts for name, counts in right.items()}
    return {name: TrialResult(name, *counts) for name, counts in named.items()}


def test_the_split_is_stable_and_has_both_sides() -> None:
    names = [f"board/q{number}" for number in range(40)]
    drafting, held = split(names)
    assert sorted([*drafting, *held]) == sorted(names) and not set(drafting) & set(held)
    assert split(reversed(names)) == (drafting, held)
    assert 10 < len(held) < 30
    fewer = split(names[:10])
    assert set(fewer[0]) <= set(drafting) and set(fewer[1]) <= set(held), "a question stays on its side"
    for count in range(2, 12):
        assert all(split(names[:count])), "both sides have a question"
    assert split(["one"]) == (["one"], []), "a single question cannot be held out"
    assert split([]) == ([], [])


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ({"a": (0, 1)}, {"a": (1, 1)}, Verdict.ACCEPTED),
        ({"a": (0, 1)}, {"a": (0, 1)}, Verdict.REJECTED),
        ({"a": (0, 1), "b": (1, 1)}, {"a": (1, 1), "b": (0, 1)}, Verdict.REJECTED),
        ({"w": (0, 4)}, {"w": (4, 4)}, Verdict.ACCEPTED),
        ({"w": (0, 3)}, {"w": (3, 3)}, Verdict.UNPROVEN),
        ({"w": (0, 3), "w2": (0, 3)}, {"w": (3, 3), "w2": (3, 3)}, Verdict.ACCEPTED),
        ({"w": (2, 4)}, {"w": (3, 4)}, Verdict.UNPROVEN),
        ({"w": (0, 4), "w2": (4, 4)}, {"w": (4, 4), "w2": (3, 4)}, Verdict.REJECTED),
        ({"w": (0, 4), "w2": (4, 4)}, {"w": (4, 4), "w2": (0, 0)}, Verdict.REJECTED),
        ({"w": (0, 4), "w2": (3, 4)}, {"w": (4, 4), "w2": (2, 4)}, Verdict.UNPROVEN),
        ({"w": (0, 8), "w2": (7, 8), "w3": (7, 8)}, {"w": (1, 8), "w2": (0, 8), "w3": (0, 8)}, Verdict.REJECTED),
        ({"a": (0, 1), "w": (7, 8)}, {"a": (1, 1), "w": (0, 8)}, Verdict.REJECTED),
    ],
)
def test_held_out_questions_judge_a_repair(
    before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]], verdict: Verdict
) -> None:
    first, second = answers(**before), answers(**after)
    found = compare(first, second, list(first))
    assert _judged(found, proven=False, held=list(first))[0] is verdict, found


def test_a_question_for_drafting_proves_nothing_and_must_stay_right() -> None:
    first, second = answers(a=(0, 1), b=(1, 1)), answers(a=(1, 1), b=(1, 1))
    assert _judged(compare(first, second, []), proven=False, held=[])[0] is Verdict.UNPROVEN
    assert _judged(compare(first, second, ["b"]), proven=False, held=["b"])[0] is Verdict.REJECTED
    assert _judged(compare(first, second, []), proven=True, held=[])[0] is Verdict.ACCEPTED
    worse = answers(a=(1, 1), b=(0, 1))
    assert _judged(compare(first, worse, ["a"]), proven=True, held=["a"])[0] is Verdict.REJECTED
