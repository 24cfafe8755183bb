"""Prepares texts for a model: puts foreign texts inside a fence that they cannot close, and cuts results to size.

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
"""Maximum number of consecutive hidden characters shown one by one; a longer run shows the first one and a count."""

_SELECTORS: Final = "\ufe00-\ufe0f\U000e0100-\U000e01ef\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5"
"""Invisible characters that Unicode does not classify as format characters."""

_SUSPECT: Final = re.compile(rf"[^\n\t -~\u00a1-\u00ac\u00ae-\u02ff]|[{_SELECTORS}]")


def wrapped(text: str, origin: str) -> str:
    """Return a foreign text as a model may see it, between `<data id=… origin=…>` and an end tag with the same id.

    The id is derived from the text and does not occur in it, so the same text gives the same fence, and nothing in it
    can be its end. Hidden characters are shown as `⟨U+200B⟩`, line ends are `\\n`.
    """
    shown = visible(text)
    mark = _mark(shown)
    return f'<data id="{mark}" origin="{_plain(origin)}">\n{shown.rstrip()}\n</data id="{mark}">'


def visible(text: str) -> str:
    """Return a text with its hidden characters made visible: controls, zero-width and direction marks, tags, private
    use.
    """
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
    """Whether a character is invisible; spaces, tabs and line breaks do not count."""
    if character in "\n\t" or (character.isascii() and character.isprintable()):
        return False
    category = unicodedata.category(character)
    return category in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") or re.match(f"[{_SELECTORS}]", character) is not None


def _shown(run: list[str]) -> str:
    if len(run) <= _LONGEST_RUN:
        return "".join(f"⟨U+{ord(character):04X}⟩" for character in run)
    return f"⟨U+{ord(run[0]):04X} and {len(run) - 1} more hidden characters⟩"


def _mark(text: str) -> str:
    """Return an id that does not occur in the text."""
    number = 0
    while True:
        mark = hashlib.sha256(f"{number}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
        if mark not in text:
            return mark
        number += 1


def _plain(origin: str) -> str:
    return re.sub(r'["<>]', "'", one_line(visible(origin), LONGEST_ORIGIN))


_COLUMN: Final = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*\b(?![\w.-])")
"""The column that a join compares a column called `token` with."""

_MOST_LINES: Final = 30


def unfit_lines(text: str, before: bytes | None) -> list[str]:
    """Return the parts of a text that must not be saved, one line each; lines that were in the file `before` are
    allowed.
    """
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
"""Maximum number of characters in a result: about 6,000 tokens."""

LONGEST_RAW: Final = 48_000
"""Maximum number of characters in a result that is part of a raw file."""

RESERVE: Final = 600
"""Characters reserved for headings, the fence, and the sentence about omitted text."""


class Parts:
    """The parts of a result, as many as fit; a part is never broken."""

    def __init__(self, limit: int = LONGEST - RESERVE) -> None:
        self._left = limit
        self._parts: list[str] = []
        self.shown = 0
        self.left_out = 0

    def add(self, part: str) -> bool:
        """Add a part; return False if it does not fit, after which no later part is added either."""
        if self.left_out or len(part) + 1 > self._left:
            self.left_out += 1
            return False
        self._parts.append(part)
        self._left -= len(part) + 1
        self.shown += 1
        return True

    @property
    def room(self) -> int:
        """The number of characters that still fit."""
        return self._left

    def text(self) -> str:
        """Return the parts, separated by line breaks."""
        return "\n".join(self._parts)

    def more(self, noun: str, how: str) -> str:
        """Return the sentence about omitted text; it is empty if nothing was omitted."""
        if not self.left_out:
            return ""
        return f"(cut: {self.shown} of {self.shown + self.left_out} {noun} shown; {how})"


def cut_lines(text: str, limit: int) -> tuple[str, int]:
    """Return as many whole lines of a text as fit, or at least part of the first line, and the number of lines."""
    if len(text) <= limit:
        return text, text.count("\n") + 1
    place = text.rfind("\n", 0, limit + 1)
    kept = text[:place] if place > 0 else text[:limit]
    return kept, kept.count("\n") + 1


def shortened(text: str, limit: int) -> str:
    """Return a text cut to at most `limit` characters, with a mark where it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def joined(*parts: str) -> str:
    """Return paragraphs, without the empty ones."""
    return "\n\n".join(part for part in parts if part)
