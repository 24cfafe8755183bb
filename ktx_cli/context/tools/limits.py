"""How long the result of a tool may be, and how what is too long is cut: whole parts, and a word on the rest."""

from __future__ import annotations

from typing import Final

LONGEST: Final = 24_000
"""Characters of a result: about 6,000 tokens."""

LONGEST_RAW: Final = 48_000
"""Characters of a result that is part of a raw file."""

RESERVE: Final = 600
"""Characters kept free for headings, the fence, and the sentence on what was cut."""


class Parts:
    """The parts of a result, as many as there is room for; a part is never broken."""

    def __init__(self, limit: int = LONGEST - RESERVE) -> None:
        self._left = limit
        self._parts: list[str] = []
        self.shown = 0
        self.left_out = 0

    def add(self, part: str) -> bool:
        """Take a part; False where there is no room for it, nor for any that comes later."""
        if self.left_out or len(part) + 1 > self._left:
            self.left_out += 1
            return False
        self._parts.append(part)
        self._left -= len(part) + 1
        self.shown += 1
        return True

    @property
    def room(self) -> int:
        """How many characters there is room for."""
        return self._left

    def text(self) -> str:
        """Return the parts, a line end between two."""
        return "\n".join(self._parts)

    def more(self, noun: str, how: str) -> str:
        """Return the sentence on what was left out, empty where nothing was."""
        if not self.left_out:
            return ""
        return f"(cut: {self.shown} of {self.shown + self.left_out} {noun} shown; {how})"


def cut_lines(text: str, limit: int) -> tuple[str, int]:
    """Return as many whole lines of a text as fit, at least a part of the first, and how many lines that are."""
    if len(text) <= limit:
        return text, text.count("\n") + 1
    place = text.rfind("\n", 0, limit + 1)
    kept = text[:place] if place > 0 else text[:limit]
    return kept, kept.count("\n") + 1


def shortened(text: str, limit: int) -> str:
    """Return a text on at most `limit` characters, with a mark where it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def joined(*parts: str) -> str:
    """Return paragraphs, without the empty ones."""
    return "\n\n".join(part for part in parts if part)
