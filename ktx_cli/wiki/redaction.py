"""Redacts documents before they are shown: secrets, contact data, instructions for agents and hidden text."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Final

from ktx_cli.core import Spot
from ktx_cli.privacy import all_secrets, personal_data
from ktx_cli.wiki.injection import instructions
from ktx_cli.wiki.text import hidden_characters

REASONS: Final = {
    "secret": "it looks like a secret",
    "personal_data": "it contains personal data",
    "instruction": "it contains instructions for agents",
    "hidden_characters": "it contains invisible characters",
}
"""Diagnostic code of a text -> why that part is not shown."""

_PASSES: Final = 5
"""Number of searches for further instructions in a text before each of its lines is searched on its own."""
_BEGINNING: Final = re.compile(r"[ \t]*(?:#{1,6}[ \t]+|[-*+>][ \t]+|\d{1,9}[.)][ \t]+)*")
"""The markup that makes a line a heading or a list item."""


def screened(text: str) -> str:
    """Return a text as searches and agents may see it; its lines keep their numbers.

    Secrets and contact data are replaced by the reason for hiding them, and so are whole lines with instructions.
    """
    return _without_instructions(without_private(text))


def screened_line(text: str, what: str) -> str:
    """Return a title or a heading if it may be shown, or else only the reason for hiding it."""
    found = (*instructions(text), *hidden_characters(text), *all_secrets(text), *personal_data(text))
    return _not_shown(found[0].code, what) if found else text


@functools.lru_cache(maxsize=512)
def without_private(text: str) -> str:
    """Return a text with secrets and contact data replaced by the reason; its lines keep their numbers.

    A run screens the same text for its agents, for its forecast and for the index.
    """
    spots = _parts((*all_secrets(text), *personal_data(text)))
    pieces, position = [], 0
    for spot in spots:
        end = spot.at + spot.length
        lost = text.count("\n", spot.at, end)
        pieces += [text[position : spot.at], _not_shown(spot.code), "\n" * lost]
        position = end
    return "".join([*pieces, text[position:]])


def _not_shown(code: str, what: str = "") -> str:
    return f"({what} not shown: {REASONS[code]})" if what else f"(not shown: {REASONS[code]})"


def _parts(spots: Iterable[Spot]) -> Iterator[Spot]:
    """Yield spots in order, merging those that overlap."""
    last: Spot | None = None
    for each in sorted(spots, key=lambda spot: (spot.at, -spot.length)):
        if last is not None and each.at < last.at + last.length:
            end = max(last.at + last.length, each.at + each.length)
            last = Spot(last.at, last.code, last.message, last.hint, end - last.at)
            continue
        if last is not None:
            yield last
        last = each
    if last is not None:
        yield last


def _without_instructions(text: str) -> str:
    lines = text.split("\n")
    for _ in range(_PASSES):
        places = {text.count("\n", 0, spot.at) for spot in instructions(text)}
        if not places:
            return text
        text = _replaced(lines, places)
    text = _replaced(lines, (place for place, line in enumerate(lines) if any(instructions(line))))
    return _replaced(lines, range(len(lines))) if any(instructions(text)) else text


def _replaced(lines: list[str], places: Iterable[int]) -> str:
    """Remove lines from a text, and return the rest."""
    for place in places:
        begins = _BEGINNING.match(lines[place])
        lines[place] = f"{begins[0] if begins else ''}{_not_shown('instruction')}"
    return "\n".join(lines)
