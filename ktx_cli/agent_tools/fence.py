"""Texts on their way to a model: those of others inside a fence they cannot close, and results cut to their size.

Prompts state that the content of a fence is data; this module makes sure that a text cannot leave its fence.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Final

from ktx_cli.core import one_line
from ktx_cli.privacy import personal_data, secrets
from ktx_cli.wiki import hidden_characters

LONGEST_ORIGIN: Final = 200
_LONGEST_RUN: Final = 8
"""So many hidden characters in a row are shown one by one; of a longer run the first, and how many there are."""

_SELECTORS: Final = "\ufe00-\ufe0f\U000e0100-\U000e01ef\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5"
"""Characters without a shape of their own that Unicode does not call format characters."""

_SUSPECT: Final = re.compile(rf"[^\n\t -~\u00a1-\u00ac\u00ae-\u02ff]|[{_SELECTORS}]")


def wrapped(text: str, origin: str) -> str:
    """Return a text of others as a model may see it: `<data id=… origin=…>`, the text, and the end with the same id.

    The id is derived from the text and does not occur in it, so the same text gives the same fence, and nothing in it
    can be its end. Hidden characters are shown as `⟨U+200B⟩`, line ends are `\\n`.
    """
    shown = visible(text)
    mark = _mark(shown)
    return f'<data id="{mark}" origin="{_plain(origin)}">\n{shown.rstrip()}\n</data id="{mark}">'


def visible(text: str) -> str:
    """Return a text whose hidden characters are shown: controls, zero-width and direction marks, tags, private use."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if _SUSPECT.search(text) is None:
        return text
    pieces: list[str] = []
    hidden: list[str] = []
    for character in text:
        if is_hidden(character):
            hidden.append(character)
            continue
        if hidden:
            pieces.append(_shown(hidden))
            hidden = []
        pieces.append(character)
    return "".join([*pieces, _shown(hidden)] if hidden else pieces)


def is_hidden(character: str) -> bool:
    """Whether a character is there without being seen; blanks, tabs and line ends are not."""
    if character in "\n\t" or (character.isascii() and character.isprintable()):
        return False
    category = unicodedata.category(character)
    return category in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") or re.match(f"[{_SELECTORS}]", character) is not None


def _shown(run: list[str]) -> str:
    if len(run) <= _LONGEST_RUN:
        return "".join(f"⟨U+{ord(character):04X}⟩" for character in run)
    return f"⟨U+{ord(run[0]):04X} and {len(run) - 1} more hidden characters⟩"


def _mark(text: str) -> str:
    """Return an id that does not stand in the text."""
    number = 0
    while True:
        mark = hashlib.sha256(f"{number}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
        if mark not in text:
            return mark
        number += 1


def _plain(origin: str) -> str:
    return re.sub(r'["<>]', "'", one_line(visible(origin), LONGEST_ORIGIN))


_COLUMN: Final = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*\b(?![\w.-])")
"""What a join compares a column called `token` with."""

_MOST_LINES: Final = 30


def unfit_lines(text: str, before: bytes | None) -> list[str]:
    """Return what of a text may not be saved, a line each; lines the file had `before` are not held against it."""
    known = frozenset() if before is None else frozenset(before.decode("utf-8", "replace").split("\n"))
    lines = text.split("\n")
    keys = (each for each in secrets(text) if not _COLUMN.match(text, each.at))
    unfit = []
    for spot in (*hidden_characters(text), *keys, *personal_data(text)):
        number = text.count("\n", 0, spot.at)
        if lines[number] not in known:
            unfit.append(f"- line {number + 1}: {spot.message}: {spot.hint}")
    return unfit[:_MOST_LINES]


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
        """Return the sentence about omitted text; it is empty if nothing was omitted."""
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
