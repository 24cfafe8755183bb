"""Words in the names of tables and columns that tell personal data, identifiers and free text.

English, German, French, Spanish, Italian, Portuguese, Dutch and Polish without accents, some Russian, Chinese, Japanese
and Korean. `WORDS` have to be a whole word of a name (`tel` of `work_tel`), `STEMS` may stand in one (`telefon` of
`Telefonnummer`), also where a name is written without separators (`phonenumber`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from enum import StrEnum
from importlib import resources
from types import MappingProxyType


class Sign(StrEnum):
    """What a column was recognised as, in the words of a report."""

    EMAIL = "e-mail address"
    PHONE = "phone number"
    NAME = "name of a person"
    ADDRESS = "postal address"
    BIRTH = "date of birth"
    AGE = "age"
    GENDER = "gender"
    HEALTH = "health"
    BELIEF = "religion or origin"
    PAY = "pay"
    BANK = "bank account or payment card"
    NATIONAL = "national, tax or social-security number"
    SECRET = "password, key or hash"
    NETWORK = "network address"
    PLACE = "coordinates"
    URL = "address on the web"
    TEXT = "free text"
    DATE = "dates written as text"
    IDENTIFIER = "identifier"


@functools.cache
def _sections() -> Mapping[str, frozenset[str]]:
    """Return the words of each section of `words.txt`."""
    text = resources.files(__package__).joinpath("words.txt").read_text(encoding="utf-8")
    return {head: frozenset(words.split()) for head, words in re.findall(r"^\[(.+)\]\n([^\[]*)", text, re.MULTILINE)}


def _by_sign(section: str) -> Mapping[Sign, frozenset[str]]:
    heads = (head.split() for head in _sections())
    return MappingProxyType(
        {Sign[sign]: _sections()[f"{name} {sign}"] for name, *signs in heads for sign in signs if name == section}
    )


WORDS = _by_sign("WORDS")
STEMS = _by_sign("STEMS")
PERSONS = _sections()["PERSONS"]
"""What persons are called: `customer_name` is a person's, and `name` of a table `customers`."""

NAMES = _sections()["NAMES"]
"""What a name is called, of a person or of anything else."""

FILLERS = _sections()["FILLERS"]
"""Small words in names."""

NAME_PARTS = _sections()["NAME_PARTS"]
"""With one of `NAMES` behind it a person's name."""

DEEDS = _sections()["DEEDS"]
"""With `by` or `to` behind it a person."""

FACTS = _sections()["FACTS"]
"""Head words of columns that hold a fact about something, not the thing: `email_status`, `card_type`."""

FACTS_FIRST = _sections()["FACTS_FIRST"]
"""The same where the head comes first: `tipo_telefono`, `has_email`."""

FACT_ENDINGS = tuple(_sections()["FACT_ENDINGS"])
"""Ends of compounds that are facts: `Adressart`."""

GENERIC = _sections()["GENERIC"]
"""What may stand behind a head word without changing it: `card_type_code`."""

GIVEN_NAMES = _sections()["GIVEN_NAMES"]
"""Given names that many people have, in no lookup of things; without accents."""

SURE = _by_sign("SURE")
"""Say it of whatever they stand with, but for `STATISTICS`, `HEADS` and `THINGS`."""

UNSURE = _by_sign("UNSURE")
"""Say it where the table or the name speaks of a person, and nothing else stands in the name but `FRAME`."""

ALONE = _sections()["ALONE"]
"""Of the unsure ones those that need no person, where the name says nothing else either."""

FRAME = _sections()["FRAME"]
"""May stand beside an unsure word."""

STATISTICS = _sections()["STATISTICS"]
"""Of many: `avg_salary` of a department, `min_salary` of a job."""

HEADS = _sections()["HEADS"]
"""What is told is not the trait: `age_group`, `salary_currency`."""

KEPT_HEADS = _sections()["KEPT_HEADS"]
"""With one of these a head tells the trait: `blood_group`."""

THINGS = _sections()["THINGS"]
"""What has an age, a gender or a health and is nobody."""

PEOPLE = PERSONS | _sections()["PEOPLE"]
"""Whom the unsure words speak of."""


def trait_of(table: tuple[str, ...], words: tuple[str, ...]) -> Sign | None:
    """Return the trait of persons the words of a column's name tell, None where they tell none; `table`: its words."""
    named = set(words)
    person = bool(PEOPLE & {*words, *table})
    if named & STATISTICS or (not person and THINGS & {*words, *table}):
        return None
    if _head(words) in HEADS and not named & KEPT_HEADS:
        return None
    sure = next((sign for sign, known in SURE.items() if known & named), None)
    return sure or _unsure(named, person=person)


def _unsure(named: set[str], *, person: bool) -> Sign | None:
    for sign, known in UNSURE.items():
        found = known & named
        rest = named - found - FRAME - GENERIC - PEOPLE
        if found and not rest and (person or found & ALONE):
            return sign
    return None


def _head(words: tuple[str, ...]) -> str:
    """Return the last word, without what may stand behind any head (`age_group_code`)."""
    head = list(words)
    while len(head) > 1 and head[-1] in GENERIC:
        head.pop()
    return head[-1]
