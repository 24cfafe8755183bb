"""What is shown of a document that was found: where the words stand in it."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from ktx_cli.context.search.index.store import Row, Store
from ktx_cli.context.search.index.writing import unpacked
from ktx_cli.context.search.model import Hit
from ktx_cli.context.search.words import words
from ktx_cli.core.text import one_line

MEANING: Final = "meaning"
"""Stands among `matched_on` where the vectors are alike."""
_SNIPPET: Final = 160
_FLAT: Final = 10_000
_PART: Final = re.compile(r"\S+")


def hit(store: Store, row: Row, score: float, terms: Collection[str], *, meant: bool = False) -> Hit:
    """Return a document as a hit. `terms`: the stems of the query it has; `meant`: its vector is alike."""
    summary, packed = store.shown(row.number)
    fields = unpacked(packed)
    having = [(name, text) for name, _, text in fields if not set(terms).isdisjoint(words(text))]
    told = having[-1][1] if having else (fields[-1][2] if fields else "")
    names = tuple(dict.fromkeys([*(name for name, _ in having), *([MEANING] if meant else [])]))
    return Hit(row.kind, row.name, row.connection, score, summary, snippet(told, set(terms)), names)


def snippet(text: str, terms: Collection[str]) -> str:
    """Return the part of a text around the first of the terms."""
    flat = one_line(text, _FLAT)
    at = next((found.start() for found in _PART.finditer(flat) if not set(terms).isdisjoint(words(found[0]))), 0)
    start = 0 if at < _SNIPPET // 2 else flat.find(" ", at - _SNIPPET // 2) + 1
    part = flat[start : start + _SNIPPET]
    return ("…" if start else "") + part.rstrip() + ("…" if start + _SNIPPET < len(flat) else "")
