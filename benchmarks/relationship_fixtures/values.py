"""Makes the values of attributes, a column at a time: names, money, dates, codes, ratings, texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.relationship_fixtures.concepts import Form
from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.keys import codes, uuids, words
from benchmarks.relationship_fixtures.knobs import Knobs
from benchmarks.relationship_fixtures.pools import FIRST_NAMES, FLAGS, LAST_NAMES, STATES, STREETS, TEXT, TOWNS
from benchmarks.relationship_fixtures.tables import Column, Table

_WHOLE = {
    "quantity": ((1, 10), (1, 100), (0, 1_000), (1, 20_000)),
    "count": ((0, 50), (0, 5_000), (0, 1_000_000)),
    "small": ((1, 5), (1, 10), (0, 3), (1, 31)),
    "rating": ((1, 5), (1, 10), (0, 100)),
    "score": ((0, 10), (0, 100), (1, 1_000)),
    "year": ((1990, 2024), (1950, 2010), (2018, 2024)),
    "month": ((1, 12), (1, 12), (202_001, 202_012)),
    "duration": ((1, 24), (5, 180), (0, 86_400)),
    "big": ((1_000, 10**9), (10**6, 10**12)),
    "zip": ((10_000, 99_999), (1_000, 9_999)),
    "stray_number": ((1, 9), (1, 40), (1, 3_000), (100_000, 999_999), (1, 200)),
}
"""The ranges whole numbers are drawn from, one range a column; many fall into those of surrogate keys."""


class ValueMaker:
    """Makes attribute values in the formats of one database (dates, flags, phone numbers)."""

    def __init__(self, dice: Dice, knobs: Knobs) -> None:
        self.dice, self.knobs = dice, knobs
        self._flags = dice.pick(FLAGS)
        first = dice.between(1995, 2020)
        years = range(first, first + dice.between(1, 8))
        day = dice.pick(("{}-{:02d}-{:02d}", "{}-{:02d}-{:02d}", "{}-{:02d}-{:02d}", "{}{:02d}{:02d}"))
        self._days = [day.format(y, m, d) for y in years for m in range(1, 13) for d in range(1, 29)]
        self._times = [f"{h:02d}:{m:02d}:{s:02d}" for h in range(24) for m in range(0, 60, 3) for s in (0, 17, 41)]
        self._between = dice.pick((" ", " ", "T"))
        self._texts = [" ".join(dice.many(TEXT, dice.between(2, 12))).capitalize() for _ in range(200)]
        self._phone_form = dice.pick(("+{}", "0{}", "555-{}", "{}"))
        self._makers: dict[str, Callable[[Table, int], list[Any]]] = {
            "label": self._label,
            "first_name": lambda _, count: dice.many(FIRST_NAMES, count),
            "last_name": lambda _, count: dice.many(LAST_NAMES, count),
            "person": lambda _, count: self._joined(FIRST_NAMES, " ", LAST_NAMES, count),
            "email": self._email,
            "phone": lambda _, count: [self._phone_form.format(n) for n in self._numbers(count, 10**6, 10**9)],
            "url": lambda _, count: [f"https://example.org/{n:x}" for n in self._numbers(count, 1, 10**7)],
            "street": lambda _, count: [
                f"{n} {s} St" for n, s in zip(self._numbers(count, 1, 200), dice.many(STREETS, count), strict=True)
            ],
            "city": lambda _, count: dice.many(TOWNS, count),
            "money": self._money,
            "percent": lambda _, count: dice.many(
                dice.pick(((0, 5, 10, 15), (0.0, 0.07, 0.19), tuple(range(101)))), count
            ),
            "float": lambda _, count: [round(dice.unit() * 1_000, 2) for _ in range(count)],
            "coordinate": lambda _, count: [round(dice.unit() * 180 - 90, 6) for _ in range(count)],
            "date": self._date,
            "timestamp": self._timestamp,
            "time": lambda _, count: dice.many(self._times, count),
            "flag": lambda _, count: dice.skewed(self._flags, count, dice.pick((0.0, 2.0, 4.0))),
            "status": lambda _, count: dice.skewed(dice.pick(STATES), count, dice.pick((0.0, 1.0))),
            "text": lambda _, count: dice.many(self._texts, count),
            "code": self._code,
            "docno": self._document_number,
            "number": self._document_number,
            "sequence": self._sequence,
            "position": self._sequence,
            "json": lambda _, count: [f'{{"v": {n}}}' for n in self._numbers(count, 0, 99)],
            "hash": lambda _, count: [f"{dice.random.getrandbits(128):032x}" for _ in range(count)],
            "ip": lambda _, count: [f"10.0.{n >> 8}.{n & 255}" for n in self._numbers(count, 0, 65_535)],
            "stray": self._stray,
            "guid": lambda _, count: list(uuids(dice, count)),
            "counter": lambda _, count: list(range(1, count + 1)),
        }

    def fill(self, table: Table, filled: set[Column]) -> None:
        """Fill the columns of a table that have no values yet; optional ones get NULLs, a few nothing else."""
        for column in table.columns:
            if column not in filled:
                self.fill_column(table, column, filled)
                if self.dice.chance(self.knobs.constant_share * (3 if column.kind == "flag" else 1)):
                    column.values = column.values[:1] * len(column.values)
                if column.optional:
                    self._blank(column)

    def fill_column(self, table: Table, column: Column, filled: set[Column]) -> None:
        """Fill one column, without NULLs."""
        column.values = self._values(table, column.kind)
        filled.add(column)

    def _blank(self, column: Column) -> None:
        blank = self.dice.chance(self.knobs.blank_share) and any(isinstance(value, str) for value in column.values)
        rare = self.knobs.null_column_share if not blank else max(0.3, self.knobs.null_column_share)
        share = 1.0 if self.dice.chance(rare) else self.dice.pick((0.0, 0.1, 0.3, 0.7))
        draw, absent = self.dice.unit, "" if blank else None
        column.values = [absent if draw() < share else value for value in column.values]

    def _values(self, table: Table, kind: str) -> list[Any]:
        if kind in _WHOLE:
            low, high = self.dice.pick(_WHOLE[kind])
            numbers = self._numbers(table.size, low, high)
            return [str(number) for number in numbers] if kind == "zip" else numbers
        return self._makers[kind](table, table.size)

    def _numbers(self, count: int, low: int, high: int) -> list[int]:
        span, draw = high - low + 1, self.dice.unit
        return [low + int(draw() * span) for _ in range(count)]

    def _joined(self, left: list[str], between: str, right: list[str], count: int) -> list[Any]:
        pairs = zip(self.dice.many(left, count), self.dice.many(right, count), strict=True)
        return [f"{one}{between}{other}" for one, other in pairs]

    def _label(self, table: Table, count: int) -> list[Any]:
        made = words(self.dice, min(count, 2_000))
        if table.form in (Form.LOOKUP, Form.MASTER) and count <= 2_000 and self.dice.chance(0.8):
            return list(made)
        return self.dice.many(made, count)

    def _email(self, table: Table, count: int) -> list[Any]:
        names = zip(self.dice.many(FIRST_NAMES, count), range(count), strict=True)
        return [f"{name.lower()}{number}@example.org" for name, number in names]

    def _money(self, table: Table, count: int) -> list[Any]:
        top, whole = self.dice.pick((20, 100, 1_000, 50_000)), self.dice.chance(0.25)
        draw = self.dice.unit
        return [int(draw() ** 2 * top) + 1 if whole else round(draw() ** 2 * top, 2) for _ in range(count)]

    def _date(self, table: Table, count: int) -> list[Any]:
        days = self.dice.many(self._days, count)
        return sorted(days) if table.form in (Form.DOC, Form.LOG) and self.dice.chance(0.5) else days

    def _timestamp(self, table: Table, count: int) -> list[Any]:
        if self.dice.chance(0.12):
            return [f"{self._days[-1]}{self._between}00:00:00"] * count
        made = self._joined(self._days, self._between, self._times, count)
        return sorted(made) if table.form in (Form.DOC, Form.LOG) and self.dice.chance(0.6) else made

    def _code(self, table: Table, count: int) -> list[Any]:
        if table.form in (Form.LOOKUP, Form.MASTER):
            return list(codes(self.dice, count))
        return self.dice.many(codes(self.dice, max(3, count // 20)), count)

    def _document_number(self, table: Table, count: int) -> list[Any]:
        """Return different numbers a person reads: plain, in the range of the ids, or with a year before them."""
        form = self.dice.pick(("plain", "ids", "text", "text"))
        if form == "ids":
            return self.dice.shuffled(range(1, count + 1)) if self.dice.chance(0.5) else list(range(1, count + 1))
        if form == "plain":
            first = self.dice.pick((1_000, 10_000, 4_500_000))
            return list(range(first, first + count))
        letters = self.dice.pick(("", "DOC-", "R", "2023/"))
        return [f"{letters}{number:06d}" for number in range(1, count + 1)]

    def _sequence(self, table: Table, count: int) -> list[Any]:
        top = self.dice.pick((5, 10, 50, count or 1))
        return [row % top + 1 for row in range(count)]

    def _stray(self, table: Table, count: int) -> list[Any]:
        """Return what a reference to a table of another system looks like."""
        form = self.dice.pick(("small", "wide", "sparse", "text"))
        if form == "text":
            return self.dice.many(codes(self.dice, max(3, count // 5)), count)
        low, high = {"small": (1, 40), "wide": (1, 5_000), "sparse": (100_000, 9_999_999)}[form]
        return list(self._numbers(count, low, high))
