"""The company's three years, its date keys and its fiscal calendar (the fiscal year begins on 1 February)."""

from __future__ import annotations

import json
import random
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import accumulate
from typing import Any, Generic, TypeVar

FIRST_DAY = date(2023, 1, 1)
LAST_DAY = date(2025, 12, 31)
CALENDAR_END = date(2026, 1, 31)
"""Last day in the date table: the end of the fiscal year that contains `LAST_DAY`."""

DAY_COUNT = (LAST_DAY - FIRST_DAY).days + 1
FISCAL_YEAR_START_MONTH = 2

Row = tuple[Any, ...]
"""One row in the order of its table's columns; None is NULL."""


def day_at(offset: int) -> date:
    """Return the day `offset` days after `FIRST_DAY`."""
    return FIRST_DAY + timedelta(days=offset)


def date_key(day: date) -> int:
    """Return a day's key in the date table: 20250131."""
    return day.year * 10_000 + day.month * 100 + day.day


DATE_KEYS: tuple[int, ...] = tuple(date_key(day_at(offset)) for offset in range((CALENDAR_END - FIRST_DAY).days + 1))
"""Date keys by day offset, up to `CALENDAR_END`."""


def month_starts() -> list[date]:
    """Return the first day of every month from `FIRST_DAY` to `LAST_DAY`."""
    years = range(FIRST_DAY.year, LAST_DAY.year + 1)
    return [date(year, month, 1) for year in years for month in range(1, 13)]


def fiscal_month(day: date) -> int:
    """Return 1 (February) to 12 (January)."""
    return (day.month - FISCAL_YEAR_START_MONTH) % 12 + 1


def fiscal_year(day: date) -> int:
    """Return the fiscal year, named after the calendar year it begins in: January 2026 is in 2025."""
    return day.year if day.month >= FISCAL_YEAR_START_MONTH else day.year - 1


def calendar_rows() -> list[Row]:
    """Return the rows of `finance.calendar`, one per day."""
    return [_calendar_row(day_at(offset)) for offset in range(len(DATE_KEYS))]


def _calendar_row(day: date) -> Row:
    month = fiscal_month(day)
    return (
        date_key(day),
        day,
        day.year,
        (day.month + 2) // 3,
        day.month,
        day.replace(day=1),
        ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")[day.weekday()],
        day.weekday() >= 5,
        fiscal_year(day),
        (month + 2) // 3,
        month,
    )


T = TypeVar("T")


class Dice:
    """A stream of random draws for one topic; the draws for one topic never shift those for another.

    Only `Random.random` is used: Python guarantees its sequence for a seed, but not that of `choice` and the other
    methods.
    """

    def __init__(self, seed: int, topic: str) -> None:
        self._random = random.Random(f"{seed}/{topic}")
        self.unit = self._random.random
        """Return a float in [0, 1)."""

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.unit() < probability

    def between(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`, both included."""
        return low + int(self.unit() * (high - low + 1))

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items, all equally likely."""
        return items[int(self.unit() * len(items))]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Return `count` different items in random order; `count` is at most `len(items)`."""
        left = list(items)
        return [left.pop(int(self.unit() * len(left))) for _ in range(count)]


class Weighted(Generic[T]):
    """Items with weights, drawn in proportion to them."""

    def __init__(self, weights: Sequence[tuple[T, float]]) -> None:
        self._items = [item for item, _ in weights]
        self._bounds = list(accumulate(weight for _, weight in weights))

    def draw(self, dice: Dice) -> T:
        """Return one item."""
        place = bisect_right(self._bounds, dice.unit() * self._bounds[-1])
        # The product can round up to the last bound.
        return self._items[min(place, len(self._items) - 1)]


_FIRST_NAMES = (
    "Ada Aino Amir Anouk Ben Bruno Carla Chidi Clara Dario Dina Edith Elif Emil Esme Felix Freya Gita Goran Hana "
    "Hugo Ida Imani Ines Ivo Jana Jonas Juno Kaito Karim Lena Leif Linus Lucía Mae Malik Mara Milo Nadia Nils "
    "Noor Olive Omar Orla Paula Pavel Priya Quinn Rafi Rosa Rune Sanne Selma Silas Tariq Thea Tove Uma Vera Yara"
)
_LAST_NAMES = (
    "Abara Åkerlund Aldana Amsel Barrow Bekele Birch Bramble Castell Cole Dahl Danso Devlin Drury Eklund Ellery "
    "Farrow Fenn Gale Garrido Greaves Hallam Haruki Hartog Ibsen Ilves Jarrow Joshi Kaplan Kestrel Kovac Lark "
    "Lindqvist Loomis Marsh Mbeki Merrow Moss Nair Núñez Oduya Okoro Pell Pine Quist Rahman Reeve Rowan Sable "
    "Santos Sedge Sorrel Tamm Thorne Ueda Vance Varga Wick Wren Yilmaz Zeman"
)
FIRST_NAMES = _FIRST_NAMES.split()
LAST_NAMES = _LAST_NAMES.split()
_STREETS = (
    "Bark Lane|Canal Row|Chapel Hill|Elder Street|Fern Close|Garden Road|Hazel Walk|Mill Lane|Orchard Way|Quay Street"
)
STREETS = _STREETS.split("|")

REGIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "NOR": ("North", ("Coldbeck Vale", "Harrowmere", "Stonewick Moor")),
    "SOU": ("South", ("Saltcombe Bay", "Marrowfield", "Sandrow")),
    "EAS": ("East", ("Fenmarket", "Reedholm", "Osierton")),
    "WES": ("West", ("Gorsehaven", "Wether Hill", "Larkmoor")),
    "CEN": ("Centre", ("Middle Alder", "Kingsbarrow Cross", "Twyfold")),
    "ISL": ("Islands", ("Gull Harbour", "Skerrow")),
}
"""Towns by region code."""

_REGION_WEIGHTS = (("NOR", 18.0), ("SOU", 26.0), ("EAS", 14.0), ("WES", 16.0), ("CEN", 21.0), ("ISL", 5.0))
_TEAMS = (("Sales", 9), ("Support", 8), ("Greenhouse", 10), ("Finance", 4), ("Web", 5))
_FIRST_CUSTOMER_ID = 10_001
_FIRST_ADDRESS_ID = 50_001


@dataclass(slots=True)
class Staff:
    """The employee rows, and the ids that the other tables refer to."""

    rows: list[Row] = field(default_factory=list)
    sales_ids: list[int] = field(default_factory=list)
    support_ids: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Customer:
    """The facts of a customer that the order generator needs.

    `signup` is a day offset, negative before the first day. `addresses` are ids; the first is the billing address.
    """

    id: int
    signup: int
    segment: str
    addresses: tuple[int, ...]


@dataclass(slots=True)
class Clientele:
    """The customers, with the rows of `shop.customers` and `shop.addresses`."""

    customers: list[Customer] = field(default_factory=list)
    customer_rows: list[Row] = field(default_factory=list)
    address_rows: list[Row] = field(default_factory=list)


def make_staff(seed: int) -> Staff:
    """Return the employees: one founder, a lead for every team, and the teams."""
    dice = Dice(seed, "staff")
    staff = Staff()
    _hire(staff, dice, "Management", "Founder", None)
    for team, size in _TEAMS:
        lead = _hire(staff, dice, team, f"{team} lead", 1)
        ids = [lead, *(_hire(staff, dice, team, f"{team} assistant", lead) for _ in range(size - 1))]
        if team == "Sales":
            staff.sales_ids = ids
        elif team == "Support":
            staff.support_ids = ids
    return staff


def region_rows(seed: int, staff: Staff) -> list[Row]:
    """Return the rows of `shop.regions`; every region has a lead from the sales team."""
    leads = Dice(seed, "regions").sample(staff.sales_ids, len(REGIONS))
    return [(code, name, lead) for (code, (name, _)), lead in zip(REGIONS.items(), leads, strict=True)]


def make_clientele(seed: int) -> Clientele:
    """Return 2,700 to 3,300 customers with one or two addresses each, in the order they signed up."""
    dice = Dice(seed, "customers")
    size = dice.between(2_700, 3_300)
    clientele = Clientele()
    days = (-dice.between(1, 700) if dice.chance(0.2) else int(DAY_COUNT * dice.unit() ** 0.8) for _ in range(size))
    for number, signup in enumerate(sorted(days)):
        _sign_up(clientele, dice, number, signup)
    return clientele


def _sign_up(clientele: Clientele, dice: Dice, number: int, signup: int) -> None:
    customer_id = _FIRST_CUSTOMER_ID + number
    addresses = tuple(_add_address(clientele, dice, customer_id) for _ in range(2 if dice.chance(0.28) else 1))
    segment = "business" if dice.chance(0.12) else "home"
    name = _name(dice)
    referrer = _FIRST_CUSTOMER_ID + dice.between(0, number - 1) if number and dice.chance(0.15) else None
    clientele.customers.append(Customer(customer_id, signup, segment, addresses))
    clientele.customer_rows.append(
        (
            customer_id,
            name,
            _email(name, number),
            segment,
            day_at(signup),
            referrer,
            dice.chance(0.55),
            _preferences(dice),
        )
    )


def _add_address(clientele: Clientele, dice: Dice, customer_id: int) -> int:
    address_id = _FIRST_ADDRESS_ID + len(clientele.address_rows)
    region = Weighted(_REGION_WEIGHTS).draw(dice)
    street = f"{dice.pick(STREETS)} {dice.between(1, 140)}"
    postal_code = f"{region[0]}{dice.between(100, 999)}"
    clientele.address_rows.append((address_id, customer_id, street, dice.pick(REGIONS[region][1]), postal_code, region))
    return address_id


def _preferences(dice: Dice) -> str | None:
    if dice.chance(0.35):
        return None
    wishes = {
        "light": dice.pick(("low", "medium", "bright")),
        "pets": dice.chance(0.4),
        "newsletter": dice.pick(("weekly", "monthly", "never")),
    }
    return json.dumps(wishes)


def _hire(staff: Staff, dice: Dice, team: str, title: str, manager: int | None) -> int:
    employee_id = len(staff.rows) + 1
    name = _name(dice)
    hired: date = FIRST_DAY - timedelta(days=dice.between(10, 1_500))
    staff.rows.append((employee_id, name, _email(name, employee_id, "staff."), team, title, manager, hired))
    return employee_id


def _name(dice: Dice) -> str:
    return f"{dice.pick(FIRST_NAMES)} {dice.pick(LAST_NAMES)}"


def _email(name: str, number: int, prefix: str = "") -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
    return f"{prefix}{plain.lower().replace(' ', '.')}.{number}@example.com"
