"""Texts and names as words to look up: folded, without marks and English endings."""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_VOWEL: Final = re.compile(r"[aeiouy]")
_STOP: Final = re.compile("an?|and|are|as|at|by|for|from|how|in|is|it|many|much|of|on|or|per|the|to|what|with")
"""Words that say nothing of what is looked for."""

_UNSPACED: Final = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]+")
"""Scripts that put no blanks between words: Thai and Lao, kana, Chinese characters."""


def words(text: str) -> list[str]:
    """Return the stems of the words of a text; `netRevenue` and `net_revenue` are two words each."""
    return [stem(word) for word in plain_words(text)]


def plain_words(text: str) -> list[str]:
    """Return the words of a text folded to lower case without accents, their endings kept.

    Where a script puts no blanks between words, every two letters that follow each other are one.
    """
    found = _WORD.findall(folded(_HUMP.sub(" ", text)))
    return found if text.isascii() else [part for word in found for part in _parts(word)]


def _parts(word: str) -> list[str]:
    parts, position = [], 0
    for run in _UNSPACED.finditer(word):
        parts.append(word[position : run.start()])
        pairs = [run[0][at : at + 2] for at in range(len(run[0]) - 1)]
        parts += pairs or [run[0]]
        position = run.end()
    return [part for part in (*parts, word[position:]) if part]


def asked_words(text: str) -> list[str]:
    """Return the words of a query once each, without those that say nothing unless there are no others."""
    plain = list(dict.fromkeys(plain_words(text)))
    telling = [word for word in plain if not _STOP.fullmatch(word)]
    return telling or plain


def folded(text: str) -> str:
    """Return a text in lower case with letters for their accented, wide or joined forms."""
    if text.isascii():
        return text.lower()
    # Letters for the joined and styled forms come first, for those may be capitals.
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(character for character in decomposed if not unicodedata.combining(character))


@functools.lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Return an English word without its plural and verb endings: `orders`, `ordered`, `ordering` are `order`.

    The S-stemmer of Harman (1991, How effective is suffixing?), then `-ing` and `-ed` where a vowel stays before them.
    """
    word = _singular(word)
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) > 2 and _VOWEL.search(rest):
            doubled = len(rest) > 3 and rest[-1] == rest[-2] and rest[-1] not in "lsz"
            return rest[:-1] if doubled else rest
    return word.removesuffix("e") if len(word) > 3 else word


def _singular(word: str) -> str:
    if len(word) < 4 or not word.endswith("s"):
        return word
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return word[:-3] + "y"
    if word.endswith("es") and not word.endswith(("aes", "ees", "oes")):
        return word[:-1]
    return word if word.endswith(("us", "ss", "is")) else word[:-1]
