"""Says a phrase of English words in another language, in that language's word order."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import cache

from benchmarks.relationship_fixtures.words.properties import PROPERTIES
from benchmarks.relationship_fixtures.words.things import THINGS
from benchmarks.relationship_fixtures.words.trades import TRADES

LANGUAGES = ("english", "german", "spanish", "french", "portuguese", "italian", "dutch", "polish")
_HEAD_FIRST = {"spanish", "french", "portuguese", "italian", "polish"}
_KEEP_ORDER = {"is", "has", "by", "from", "to", "of", "since", "until", "on", "at"}
_LONGEST = 3
_UMLAUTS = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ł": "l", "œ": "oe"}
)


@cache
def dictionary(language: str) -> Mapping[str, str]:
    """Return the words of a language by their English ones (joined by `_`, as the answers are)."""
    place = LANGUAGES.index(language)
    rows = (line.split("|") for line in (THINGS + PROPERTIES + TRADES).splitlines() if line)
    return {row[0]: row[place].lower().replace("-", "_") for row in rows}


@cache
def translate(words: str, language: str) -> tuple[str, ...]:
    """Return the tokens of a phrase; what the dictionary lacks stays English, as it does in real databases."""
    if language == "english":
        return tuple(words.split("_"))
    parts = _phrases(words.split("_"), dictionary(language))
    if language in _HEAD_FIRST and not _KEEP_ORDER & set(words.split("_")):
        parts = [part for part in reversed(parts) if not part.isdigit()] + [part for part in parts if part.isdigit()]
    return tuple(token for part in parts for token in part.split("_"))


def plain(text: str) -> str:
    """Return the text without marks: `Straße` as `Strasse`, `año` as `ano`."""
    spelled = unicodedata.normalize("NFKD", text.translate(_UMLAUTS))
    return "".join(letter for letter in spelled if not unicodedata.combining(letter))


def _phrases(tokens: list[str], known: Mapping[str, str]) -> list[str]:
    """Return the translations of the longest known phrases, from the left."""
    out: list[str] = []
    while tokens:
        for length in range(min(_LONGEST, len(tokens)), 0, -1):
            phrase = "_".join(tokens[:length])
            if phrase in known or length == 1:
                out.append(known.get(phrase, phrase))
                del tokens[:length]
                break
    return out
