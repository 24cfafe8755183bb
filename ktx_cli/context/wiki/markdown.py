"""The little of Markdown a check needs: where code is, fenced and inline."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

_FENCE: Final = re.compile(r"^ {0,3}(?:>[ \t]?)*[ \t]*(?:[-*+] +)?(`{3,}(?=[^`\n]*$)|~{3,})", re.MULTILINE)
_RUN: Final = re.compile(r"`+")
_PARAGRAPH_END: Final = re.compile(r"\n[ \t]*\n")
_NOT_NEWLINE: Final = re.compile(r"[^\n]")


@dataclass(frozen=True, slots=True)
class Span:
    """Inline code: `start` and `end` are indexes of the text with its backticks, `text` is what stands between."""

    start: int
    end: int
    text: str


def without_fences(text: str) -> str:
    """Return a text with every fenced block blanked out; all other characters stay where they are.

    A fence that is never closed reaches to the end (CommonMark 4.5).
    """
    if "```" not in text and "~~~" not in text:
        return text
    pieces, position = [], 0
    opening = _FENCE.search(text)
    while opening is not None:
        fence = opening[1]
        closing = re.compile(rf"^[ \t>]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*\r?$", re.MULTILINE)
        found = closing.search(text, text.find("\n", opening.end()) + 1 or len(text))
        end = len(text) if found is None else found.end()
        pieces += [text[position : opening.start()], _NOT_NEWLINE.sub(" ", text[opening.start() : end])]
        position, opening = end, _FENCE.search(text, end)
    return "".join([*pieces, text[position:]])


def inline_code(text: str) -> Iterator[Span]:
    """Yield the inline code of a text without fences: what stands between two runs of as many backticks.

    Code does not reach from one paragraph into the next (CommonMark 6.1).
    """
    if "`" not in text:
        return
    runs = [(found.start(), found.end()) for found in _RUN.finditer(text)]
    ends = [found.start() for found in _PARAGRAPH_END.finditer(text)]
    starts: dict[int, list[int]] = defaultdict(list)
    for start, end in runs:
        starts[end - start].append(start)
    position = 0
    for start, end in runs:
        if start < position:
            continue
        same = starts[end - start]
        place = bisect_right(same, start)
        if place == len(same) or bisect_right(ends, start) != bisect_right(ends, same[place]):
            continue
        closing = same[place]
        yield Span(start, closing + end - start, " ".join(text[end:closing].split()))
        position = closing + end - start


def without(text: str, spans: Iterable[Span]) -> str:
    """Return a text with these spans blanked out; all other characters stay where they are."""
    pieces, position = [], 0
    for span in spans:
        pieces += [text[position : span.start], _NOT_NEWLINE.sub(" ", text[span.start : span.end])]
        position = span.end
    return "".join([*pieces, text[position:]])
