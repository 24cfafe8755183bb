"""Texts of others on their way to a model: inside a fence they cannot close, with their origin, nothing hidden in them.

What stands in a fence is data. Prompts say so; here is made sure that a text cannot leave it.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Final

from ktx_cli.core import one_line
from ktx_cli.privacy import secrets
from ktx_cli.wiki import hidden_characters

LONGEST_ORIGIN: Final = 200
_LONGEST_RUN: Final = 8
"""So many hidden characters in a row are shown one by one; of a longer run the first, and how many there are."""

_SELECTORS: Final = "\ufe00-\ufe0f\U000e0100-\U000e01ef\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5"
"""Characters without a shape of their own that Unicode does not call format characters."""

_SUSPECT: Final = re.compile(rf"[^\n\t -~\u00a1-\u00ac\u00ae-\u02ff]|[{_SELECTORS}]")


def wrapped(text: str, origin: str) -> str:
    """Return a text of others as a model may see it: `<data id=… origin=…>`, the text, and the end with the same id.

    The id comes of the text and does not stand in it, so the same text gives the same fence, and nothing in it can be
    its end. Hidden characters are shown as `⟨U+200B⟩`, line ends are `\\n`.
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


def has_hidden(text: str) -> bool:
    """Whether hidden characters stand in a text; a byte order mark at its beginning and `\\r\\n` do not count."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    return _SUSPECT.search(text) is not None and any(map(is_hidden, text))


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

_MOST_TOLD: Final = 30


def unfit_lines(text: str, before: bytes | None) -> list[str]:
    """Return what of a text may not be saved, a line each; lines the file had `before` are not held against it."""
    known = frozenset() if before is None else frozenset(before.decode("utf-8", "replace").split("\n"))
    lines = text.split("\n")
    keys = (each for each in secrets(text) if not _COLUMN.match(text, each.at))
    told = []
    for spot in (*hidden_characters(text), *keys):
        number = text.count("\n", 0, spot.at)
        if lines[number] not in known:
            told.append(f"- line {number + 1}: {spot.message}: {spot.hint}")
    return told[:_MOST_TOLD]
