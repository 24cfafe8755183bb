"""What is shown of a document that was found: where the words stand in it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from ktx_cli.context.search.index.schema import tier_of
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
    fields = [(name, tier_of(weight), text) for name, weight, text in unpacked(packed)]
    having = _having(row, fields, terms)
    told = having[-1][1] if having else (fields[-1][2] if fields else "")
    names = tuple(dict.fromkeys([*(name for name, _ in having), *([MEANING] if meant else [])]))
    return Hit(row.kind, row.name, row.connection, score, summary, snippet(told, terms), names)


def snippet(text: str, terms: Collection[str]) -> str:
    """Return the part of a text around the first of the terms."""
    flat = one_line(text, _FLAT)
    wanted = frozenset(terms)
    at = next((found.start() for found in _PART.finditer(flat) if _may_have(found[0], wanted)), 0)
    start = 0 if at < _SNIPPET // 2 else flat.find(" ", at - _SNIPPET // 2) + 1
    part = flat[start : start + _SNIPPET]
    return ("…" if start else "") + part.rstrip() + ("…" if start + _SNIPPET < len(flat) else "")


def _having(row: Row, fields: Sequence[tuple[str, str, str]], terms: Collection[str]) -> list[tuple[str, str]]:
    """Return (name, text) of the fields that have one of the terms; where one column has one field, it says so."""
    columns = {tier for tier, text in row.texts.items() if any(f" {term} " in text for term in terms)}
    shared = Counter(tier for _, tier, _ in fields)
    return [
        (name, text)
        for name, tier, text in fields
        if tier in columns and (shared[tier] == 1 or not set(terms).isdisjoint(words(text)))
    ]


def _may_have(part: str, terms: frozenset[str]) -> bool:
    """Say whether a part of a text has one of the terms; the beginnings are compared first, which costs little."""
    if part.isascii():
        lower = part.lower()
        if not any(term[:3] in lower for term in terms):
            return False
    return not terms.isdisjoint(words(part))
