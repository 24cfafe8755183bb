"""What is shown of a document that was found: where the words stand in it."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from ktx_cli.context.search.index.schema import TIERS, tier_of
from ktx_cli.context.search.index.store import Row
from ktx_cli.context.search.index.writing import unpacked
from ktx_cli.context.search.model import Hit
from ktx_cli.context.search.words import words
from ktx_cli.core.text import one_line

MEANING: Final = "meaning"
"""Stands among `matched_on` where the vectors are alike."""
_SNIPPET: Final = 160
_FLAT: Final = 10_000
_PART: Final = re.compile(r"\S+")


def hit(row: Row, stored: tuple[str, bytes], score: float, terms: Collection[str], *, meant: bool = False) -> Hit:
    """Return a document as a hit.

    `stored`: its summary and packed fields; `terms`: the stems of the query it has; `meant`: its vector is alike.
    """
    summary, packed = stored
    fields = [(name, tier_of(weight), text) for name, weight, text in unpacked(packed)]
    having = _having(row, fields, terms)
    told = having[-1][1] if having else (fields[-1][2] if fields else "")
    names = tuple(dict.fromkeys([*(name for name, _ in having), *([MEANING] if meant else [])]))
    return Hit(row.kind, row.name, row.connection, score, summary, snippet(told, terms), names)


def snippet(text: str, terms: Collection[str]) -> str:
    """Return the part of a text around the first of the terms, on one line."""
    text = text[:_FLAT]
    at = _place(text, frozenset(terms))
    begun = max(0, at - _SNIPPET)
    before = len(one_line(text[begun:at] + "x", _FLAT)) - 1
    flat = one_line(text[begun : at + 2 * _SNIPPET], _FLAT)
    start = 0 if begun == 0 and before < _SNIPPET // 2 else flat.find(" ", max(0, before - _SNIPPET // 2)) + 1
    part = flat[start : start + _SNIPPET]
    more = start + _SNIPPET < len(flat) or bool(text[at + 2 * _SNIPPET :].strip())
    return ("…" if begun + start else "") + part.rstrip() + ("…" if more else "")


def _having(row: Row, fields: Sequence[tuple[str, str, str]], terms: Collection[str]) -> list[tuple[str, str]]:
    """Return (name, text) of the fields that have one of the terms; where one column has one field, it says so."""
    if not terms:
        return []
    columns = {tier for tier, text in zip(TIERS, row.texts, strict=True) if any(f" {term} " in text for term in terms)}
    shared = Counter(tier for _, tier, _ in fields)
    return [
        (name, text)
        for name, tier, text in fields
        if tier in columns and (shared[tier] == 1 or not set(terms).isdisjoint(words(text)))
    ]


def _place(text: str, terms: frozenset[str]) -> int:
    """Return where the first part with one of the terms begins, 0 where none does.

    In a text of plain letters only parts with the beginning of a term in them are looked into, which costs little.
    """
    if not terms:
        return 0
    parts: Iterable[re.Match[str]] = _PART.finditer(text)
    if text.isascii():
        lower = text.lower()
        found = _beginnings(terms).finditer(lower)
        starts = (max(lower.rfind(blank, 0, at.start()) for blank in " \n\t\r") for at in found)
        parts = filter(None, (_PART.match(text, start + 1) for start in starts))
    return next((part.start() for part in parts if not terms.isdisjoint(words(part[0]))), 0)


@functools.lru_cache(maxsize=256)
def _beginnings(terms: frozenset[str]) -> re.Pattern[str]:
    """Return what finds the beginnings of words whose stem may be one of some: a stem may have another last letter."""
    return re.compile("|".join(sorted({re.escape(term[: max(2, len(term) - 1)]) for term in terms})))
