"""Makes the values of keys: surrogates of many kinds, business codes, numbers within a parent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.tables import Column, Table

_LETTERS = "ABCDEFGHJKLMNPRSTUVWXYZ"
_CONSONANTS = "bcdfghjklmnprstvwz"
_VOWELS = "aeiou"
_FIRST = {1: 0.80, 0: 0.03, 100: 0.04, 1_000: 0.05, 10_001: 0.04, 500_000: 0.04}


@dataclass(slots=True)
class KeyMaker:
    """Makes key values for all tables of one database; `plain`: every surrogate counts 1..n without gaps."""

    dice: Dice
    plain: bool = False
    next_global: int = 1
    text_prefixes: set[str] = field(default_factory=set)

    def values(self, kind: str, table: Table, column: Column, count: int) -> list[Any]:
        """Return `count` different values of a kind (`serial`, `global`, `uuid`, `text`, `code`, `big`, `hash`...)."""
        if kind == "label":
            return words(self.dice, count)
        if kind == "serial":
            return self._serial(count)
        if kind == "global":
            self.next_global += count
            return list(range(self.next_global - count, self.next_global))
        if kind == "text":
            return self._text(table, count)
        makers: dict[str, Callable[[Dice, int], list[Any]]]
        makers = {"uuid": uuids, "code": codes, "big": _bigs, "hash": _hashes}
        return makers[kind](self.dice, count)

    def _serial(self, count: int) -> list[int]:
        if self.plain:
            return list(range(1, count + 1))
        first = self.dice.weighted(_FIRST)
        step = self.dice.weighted({1: 0.95, 10: 0.04, 5: 0.01})
        values = range(first, first + step * count * 2, step)
        if not self.dice.chance(0.3):
            return list(values[:count])
        kept = self.dice.uniform(0.6, 0.98)
        picked = [value for value in values if self.dice.unit() < kept]
        return picked[:count] if len(picked) >= count else list(values[:count])

    def _text(self, table: Table, count: int) -> list[str]:
        """Return numbers behind letters of the table's name, as `C-00017`; two tables may share the letters."""
        letters = table.words[: self.dice.between(1, 3)].upper()
        form = self.dice.pick(("{}-{:05d}", "{}{:06d}", "{}_{:04d}", "{:}{:d}"))
        return [form.format(letters, number) for number in range(1, count + 1)]


def codes(dice: Dice, count: int) -> list[str]:
    """Return different codes of one form: letters, letters and digits, or digits."""
    form = dice.weighted({"letters": 5, "mixed": 3, "digits": 2, "lower": 1})
    length = 2 if count <= 60 and form != "digits" else 3 if count <= 300 else 5 if count <= 20_000 else 8
    length += dice.weighted({0: 6, 1: 3, 2: 1})
    alphabet = {
        "letters": _LETTERS,
        "lower": _LETTERS.lower(),
        "mixed": _LETTERS + "0123456789",
        "digits": "0123456789",
    }
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(dice.many(alphabet[form], length if len(found) < 10**length / 2 else length + 3))] = None
    return dice.shuffled(list(found)) if dice.chance(0.5) else sorted(found)


def words(dice: Dice, count: int) -> list[str]:
    """Return different made-up words, capitalized."""
    found: dict[str, None] = {}
    while len(found) < count:
        syllables = zip(dice.many(_CONSONANTS, 3), dice.many(_VOWELS, 3), strict=True)
        word = "".join(a + b for a, b in syllables)
        found[word.capitalize() if word.capitalize() not in found else f"{word.capitalize()} {len(found)}"] = None
    return list(found)


def uuids(dice: Dice, count: int) -> list[str]:
    """Return random UUIDs in their usual spelling."""
    draw = dice.random.getrandbits
    texts = (f"{draw(128):032x}" for _ in range(count))
    return [f"{t[:8]}-{t[8:12]}-4{t[13:16]}-a{t[17:20]}-{t[20:]}" for t in texts]


def _hashes(dice: Dice, count: int) -> list[str]:
    bits = dice.pick((64, 128, 160))
    draw = dice.random.getrandbits
    return list(dict.fromkeys(f"{draw(bits):0{bits // 4}x}" for _ in range(count)))


def _bigs(dice: Dice, count: int) -> list[int]:
    """Return numbers that grow with time, as distributed generators make them."""
    draw = dice.random.getrandbits
    start = 10**15 * dice.between(1, 9)
    return [start + (number << 22) + draw(20) for number in range(count)]
