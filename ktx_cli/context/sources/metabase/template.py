"""The template language of Metabase's native queries: `{{name}}`, and `[[...]]` that only counts with a value.

Marks in SQL comments are text. An array literal (`[[1, 2]]`) has no `{{name}}` in it, and is text too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

_MARK: Final = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)|['\"`]|\[\[|\]\]|\{\{[^{}]{1,300}\}\}", re.DOTALL)


class _Mark(NamedTuple):
    kind: str
    start: int
    end: int
    name: str = ""


def without_optional(text: str) -> str:
    """Return a query without its optional blocks: what runs when nobody fills in anything."""
    kept: list[str] = []
    opened: list[tuple[int, bool]] = []
    position = 0
    for mark in _marks(text):
        kept.append(text[position : mark.start])
        position = mark.end
        if mark.kind == "[[":
            opened.append((len(kept), False))
        elif mark.kind == "{{" and opened:
            opened[-1] = (opened[-1][0], True)
        if mark.kind == "]]" and opened:
            _close(kept, opened)
        else:
            kept.append(text[mark.start : mark.end])
    return "".join([*kept, text[position:]])


def _close(kept: list[str], opened: list[tuple[int, bool]]) -> None:
    """End the innermost block: its text goes where it has a parameter, and stays as it is where it has none."""
    start, has_parameter = opened.pop()
    if not has_parameter:
        kept.append("]]")
        return
    del kept[start:]
    if opened:
        opened[-1] = (opened[-1][0], True)


def filled(text: str, value: Callable[[str], str | None]) -> str:
    """Return a query with each `{{name}}` as `value(name)`, as it is where that is None."""
    pieces: list[str] = []
    position = 0
    for mark in _marks(text):
        found = value(mark.name) if mark.kind == "{{" else None
        pieces += [text[position : mark.start], text[mark.start : mark.end] if found is None else found]
        position = mark.end
    return "".join([*pieces, text[position:]])


def names(text: str) -> tuple[str, ...]:
    """Return the names in `{{...}}`, each once, in their order."""
    return tuple(dict.fromkeys(mark.name for mark in _marks(text) if mark.kind == "{{"))


def _marks(text: str) -> Iterator[_Mark]:
    """Yield `[[`, `]]` and `{{` outside comments; what looks like a comment inside quotes is none."""
    quote = ""
    position = 0
    while found := _MARK.search(text, position):
        position = found.end()
        shown = found[0]
        if shown in ("'", '"', "`"):
            quote = "" if quote == shown else quote or shown
        elif shown.startswith(("--", "/*")):
            position = found.start() + 2 if quote else position
        elif shown in ("[[", "]]"):
            yield _Mark(shown, found.start(), found.end())
        else:
            yield _Mark("{{", found.start(), found.end(), shown[2:-2].strip())
