"""Finds the passages of a text that are most like another text."""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from typing import Final

NEAR: Final = 0.85
"""How alike two texts must be to be taken for one: twice the characters they share, of all they have together."""

_CANDIDATES: Final = 8
"""How many passages are compared letter by letter."""
_SLACK: Final = 2
"""By how many words more or less a passage may differ in length."""
_WORD: Final = re.compile(r"\S+")


def nearest(text: str, wanted: str) -> list[tuple[int, int]]:
    """Return where the passages stand that are like `wanted` by `NEAR` or more: the best of each place, best first.

    A passage begins and ends with a word.
    """
    spans = [found.span() for found in _WORD.finditer(text)]
    if not spans:
        return []
    words = [text[start:end] for start, end in spans]
    asked = wanted.split()
    scored: list[tuple[float, int, int]] = []
    for first in _candidates(text, spans, " ".join(asked)):
        for count in range(max(1, len(asked) - _SLACK), len(asked) + _SLACK + 1):
            if first + count <= len(words):
                scored.append((likeness(words[first : first + count], asked), first, first + count))
    chosen: list[tuple[int, int]] = []
    for score, first, end in sorted(scored, key=lambda each: (-each[0], each[1], each[2])):
        if score >= NEAR and all(end <= other or first >= last for other, last in chosen):
            chosen.append((first, end))
    return [(spans[first][0], spans[end - 1][1]) for first, end in chosen]


def likeness(one: list[str], other: list[str]) -> float:
    """Return how alike two texts of words are, 0 to 1; words are compared first, letters where they differ.

    The measure of Ratcliff and Obershelp (1988), taken in two steps.
    """
    total = sum(map(len, one)) + sum(map(len, other)) + len(one) + len(other) - 2
    shared = 0
    for tag, start, end, begin, stop in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if tag == "equal":
            shared += sum(map(len, one[start:end])) + end - start
        elif tag == "replace":
            left, right = " ".join(one[start:end]) + " ", " ".join(other[begin:stop]) + " "
            blocks = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
            shared += sum(block.size for block in blocks)
    return 1.0 if total <= 0 else min(1.0, 2 * max(shared - 1, 0) / total)


def _candidates(text: str, spans: list[tuple[int, int]], wanted: str) -> list[int]:
    """Return the words where passages begin that share most triples of letters with `wanted`, one of each place."""
    size = len(wanted)
    triples = Counter(wanted[place : place + 3] for place in range(max(size - 2, 1)))
    counts = _shared(text, triples, size)
    best = sorted(range(len(spans)), key=lambda each: (-counts[spans[each][0]], each))
    chosen: list[int] = []
    for each in best:
        if counts[spans[each][0]] <= 0 or len(chosen) == _CANDIDATES:
            break
        if all(abs(spans[each][0] - spans[other][0]) > min(size // 4, 40) or each == other for other in chosen):
            chosen.append(each)
    near = {each + step for each in chosen for step in (-1, 0, 1)}
    return sorted(each for each in near if 0 <= each < len(spans))


def _shared(text: str, triples: Counter[str], size: int) -> list[int]:
    """Return, for each character, how many triples a passage of `size` characters from there has in common."""
    window: Counter[str] = Counter()
    counts = [0] * len(text)
    shared = 0
    for end in range(len(text) - 1, -1, -1):
        added = text[end : end + 3]
        window[added] += 1
        shared += window[added] <= triples[added]
        gone = end + max(size - 2, 1)
        if gone < len(text):
            removed = text[gone : gone + 3]
            shared -= window[removed] <= triples[removed]
            window[removed] -= 1
        counts[end] = shared
    return counts
