"""Splits names that are written without any break: `createdbyno` is created, by, no."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence

from ktx_cli.context.scan.relationships.names import concept_words, tokens, words

SHORTEST_SPLIT = 6
"""Shorter words are left whole, in letters."""

_GLUE = frozenset({"by", "to", "of", "in", "at", "on", "de", "von", "por", "par", "da"})
_SHORT_KEYS = frozenset({"id", "no", "nr", "cd", "sk", "pk", "fk", "key", "code", "num", "ref", "uid", "wid"})
_KINDS = ("key", "layer", "measure", "flag", "time", "text", "discriminator", "self", "boss", "agent")


class Splitter:
    """Knows the words of a database and ours, and cuts run-together names into them."""

    def __init__(self, names: Iterable[str]) -> None:
        own = {part for name in names for part in tokens(name)}
        self._known = _our_words() | {word for word in own if 4 <= len(word) <= 12 and word.isalpha()}
        self._whole = _our_words()

    def split(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """Return the words, those of them cut that are several known ones written together."""
        found: list[str] = []
        for part in parts:
            found += self._cut(part)
        return tuple(found)

    def _cut(self, word: str) -> tuple[str, ...]:
        if len(word) < SHORTEST_SPLIT or not word.isalpha() or word in self._whole:
            return (word,)
        pieces = self._pieces(word)
        return pieces if pieces is not None and len(pieces) > 1 else (word,)

    def _pieces(self, word: str) -> tuple[str, ...] | None:
        """Return the fewest known words that make up a word; short ones only where they mean a key or are glue."""
        best: list[tuple[str, ...] | None] = [()] + [None] * len(word)
        for end in range(2, len(word) + 1):
            for start in range(max(0, end - 14), end - 1):
                before, piece = best[start], word[start:end]
                if before is None or piece == word or not self._fits(piece, start, end == len(word)):
                    continue
                if best[end] is None or len(before) + 1 < len(best[end] or ()):
                    best[end] = (*before, piece)
        return best[-1]

    def _fits(self, piece: str, start: int, last: bool) -> bool:
        if len(piece) <= 3:
            return (piece in _SHORT_KEYS and (start == 0 or last)) or (piece in _GLUE and start > 0)
        return piece in self._known


def string_prefix(names: Sequence[str]) -> str:
    """Return the two to four letters that nearly all unbroken names of a table begin with (`prdid`, `prdname`)."""
    split = [tokens(name) for name in names]
    flat = [parts[0] for parts in split if len(parts) == 1]
    if len(flat) < 4 or len(flat) < 0.9 * len(split):
        return ""
    for length in (4, 3, 2):
        counts = Counter(word[:length] for word in flat if len(word) >= length + 2)
        prefix, count = max(counts.items(), key=lambda each: each[1], default=("", 0))
        if count >= 0.9 * len(flat):
            return prefix
    return ""


@functools.cache
def _our_words() -> frozenset[str]:
    found = {word for kind in _KINDS for word in words(kind)} | set(concept_words())
    return frozenset(word for word in found if len(word) >= 4)


def without_prefix(parts: tuple[str, ...], prefix: str) -> tuple[str, ...]:
    """Return the words of an unbroken name without its table's letters."""
    if prefix and len(parts) == 1 and parts[0].startswith(prefix) and len(parts[0]) > len(prefix) + 1:
        return (parts[0][len(prefix) :],)
    return parts
