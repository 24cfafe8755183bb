"""What a look at a text finds, before it is told with file and line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spot:
    """Something suspicious at a character of a text."""

    at: int
    code: str
    message: str
    hint: str


def line_start(text: str, line: int) -> int:
    """Return the character a line begins with, counted from 0."""
    place = 0
    for _ in range(line):
        place = text.find("\n", place) + 1
    return place
