"""Classifies column values."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from ktx_cli.privacy import signs


class ValueKind(StrEnum):
    """The kind of a column's values, regardless of its type, because SQLite stores any value in any column."""

    EMPTY = "empty"
    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    TIME = "time"
    BOOLEAN = "boolean"
    MIXED = "mixed"
    OPAQUE = "opaque"


MOST_WORDS_ON_AVERAGE = 6.0
"""Average number of words above which a column's text counts as free text."""

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LETTERS: Final = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "æ": "ae", "œ": "oe"})
_TEXTS: Final = (ValueKind.TEXT, ValueKind.MIXED)
_NUMBERS_ALIKE: Final = (9, 16)
"""Minimum and maximum number of digits of whole numbers that all have the same length and are not amounts."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a column's values are not stored: what they are, and what showed that: the name, a value, or a context source
    that classifies the column.
    """

    sign: signs.Sign
    by: str

    @property
    def personal(self) -> bool:
        """Whether nothing about the values may be stored, not even minimum and maximum; for dates, only the list is
        not.
        """
        return self.sign is not signs.Sign.DATE

    def __str__(self) -> str:
        return f"{self.sign.value} (by {self.by})"


def refusal(
    table: str,
    column: str,
    kind: ValueKind,
    values: Collection[Any],
    *,
    is_restricted: bool = False,
    is_impersonal: bool = False,
) -> Refusal | None:
    """Return why a column's values are not stored, or None if they may be.

    `values`: its known distinct values, without NULL. `is_restricted`: whether a context source such as a data contract
    classifies the column as personal or restricted. `is_impersonal`: whether it is known that these values show nothing
    personal, so that they only have to be compared with dates.
    """
    if is_restricted and values:
        return Refusal(signs.Sign.RESTRICTED, "a context source")
    if kind is ValueKind.BOOLEAN or not values:
        return None
    named = sign_of_name(table, column)
    if named is not None:
        return Refusal(named, "name")
    found = _sign_of_dates(kind, values) if is_impersonal else _sign_of_values(kind, values)
    return None if found is None else Refusal(found, "value")


@lru_cache(maxsize=1 << 17)
def sign_of_name(table: str, column: str) -> signs.Sign | None:
    """Return what a column's name indicates about its values, or None if nothing."""
    words = split_name(column)
    if not words:
        return None
    trait = signs.trait_of(split_name(table), words)
    if trait is not None:
        return trait
    found, may_name = _sign_of_words(words)
    return signs.Sign.NAME if may_name and _is_person(words, split_name(table)) else found


@lru_cache(maxsize=1 << 16)
def _sign_of_words(words: tuple[str, ...]) -> tuple[signs.Sign | None, bool]:
    """Return what the words of a column's name indicate in any table, and whether they may still name people."""
    is_identifier = words[-1] in signs.WORDS[signs.Sign.IDENTIFIER]
    if _is_fact(words):
        return signs.Sign.IDENTIFIER if is_identifier else None, False
    if signs.WORDS[signs.Sign.NETWORK] & set(words):
        return signs.Sign.NETWORK, False
    whole = "".join(words)
    for sign, stems in signs.STEMS.items():
        if any(stem in whole for stem in stems):
            return sign, False
    for sign, known in signs.WORDS.items():
        if sign is not signs.Sign.IDENTIFIER and known & set(words):
            return sign, False
    return signs.Sign.IDENTIFIER if is_identifier or words[0] == "id" else None, True


@lru_cache(maxsize=1 << 16)
def split_name(name: str) -> tuple[str, ...]:
    """Return the words in a name, in lower case and without accents: `Kunden-E-Mail` becomes `kunden`, `e`, `mail`."""
    plain = unicodedata.normalize("NFKD", _CAMEL.sub("_", name)).casefold().translate(_LETTERS)
    bare = "".join(character for character in plain if not unicodedata.combining(character))
    return tuple(word for word in re.split(r"[\W_]+", bare) if word)


def _is_fact(words: tuple[str, ...]) -> bool:
    """Return whether a name's head (its last word, or the first in some languages) is a fact about something."""
    head = words
    while len(head) > 1 and head[-1] in signs.GENERIC and (head[-2] in signs.FACTS or head[-2] in signs.GENERIC):
        head = head[:-1]
    last = head[-1]
    compound = len(last) > 6 and last.endswith(signs.FACT_ENDINGS)
    return last in signs.FACTS or compound or (len(words) > 1 and words[0] in signs.FACTS_FIRST)


def _is_person(words: tuple[str, ...], table: tuple[str, ...]) -> bool:
    last, before = words[-1], set(words[:-1])
    if last in ("by", "to") and before & signs.DEEDS:
        return True
    if last in signs.PERSONS:
        return True
    if not set(words) - signs.NAMES:
        return bool(set(table) & _plurals(signs.PERSONS))
    telling = [word for word in words if word not in signs.FILLERS]
    pairs = [{*pair} for pair in pairwise(telling)]
    return any(pair & signs.NAMES and pair & (signs.PERSONS | signs.NAME_PARTS) for pair in pairs)


@lru_cache(maxsize=8)
def _plurals(words: frozenset[str]) -> frozenset[str]:
    return words | {f"{word}s" for word in words}


def _sign_of_dates(kind: ValueKind, values: Collection[Any]) -> signs.Sign | None:
    texts = (value for value in values if isinstance(value, str)) if kind in _TEXTS else ()
    return signs.Sign.DATE if any(map(signs.is_written_date, texts)) else None


def _sign_of_values(kind: ValueKind, values: Collection[Any]) -> signs.Sign | None:
    if kind in _TEXTS:
        texts = [value for value in values if isinstance(value, str)]
        return _sign_of_texts(texts) if texts else None
    return signs.Sign.IDENTIFIER if kind is ValueKind.INTEGER and _alike(values) else None


def _sign_of_texts(texts: list[str]) -> signs.Sign | None:
    dated = False
    for text in texts:
        found = signs.sign_of(text)
        if found is not None and found is not signs.Sign.DATE:
            return found
        dated = dated or found is signs.Sign.DATE
    if dated:
        return signs.Sign.DATE
    if sum(text.count(" ") + 1 for text in texts) > MOST_WORDS_ON_AVERAGE * len(texts):
        return signs.Sign.TEXT
    return signs.Sign.NAME if _are_names(texts) else None


def _are_names(texts: Iterable[str]) -> bool:
    """Return whether texts look like personal names: a third are common given names, or a tenth begin with one."""
    alone = together = total = 0
    for text in texts:
        total += 1
        words = split_name(text)
        given = bool(words) and (words[0] in signs.GIVEN_NAMES or ("," in text and words[-1] in signs.GIVEN_NAMES))
        alone += given and len(words) == 1
        together += given and 2 <= len(words) <= 4 and (text.islower() or all(map(_is_capital, text.split())))
    return (together >= 2 and together * 10 >= total) or (alone >= 3 and (alone + together) * 3 >= total)


def _is_capital(word: str) -> bool:
    return word[:1].isupper() and not any(character.isdigit() for character in word)


def _alike(values: Collection[Any]) -> bool:
    lengths = {len(str(abs(value))) for value in values if isinstance(value, int)}
    low, high = _NUMBERS_ALIKE
    return len(values) > 1 and len(lengths) == 1 and low <= next(iter(lengths)) <= high
