"""Signs of personal data, identifiers and free text: words in table and column names, and values.

The words are English, German, French, Spanish, Italian, Portuguese, Dutch and Polish without accents, some Russian,
Chinese, Japanese and Korean. `WORDS` must be a whole word of a name (`tel` of `work_tel`), `STEMS` may be part of one
(`telefon` of `Telefonnummer`), also in a name without separators (`phonenumber`).
"""

from __future__ import annotations

import functools
import ipaddress
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from importlib import resources
from types import MappingProxyType
from typing import Final

from ktx_cli.core import Spot
from ktx_cli.project import MASK, has_password, is_reference


class Sign(StrEnum):
    """What a column was recognized as, in the wording of reports."""

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
    URL = "web address"
    TEXT = "free text"
    DATE = "dates written as text"
    IDENTIFIER = "identifier"
    RESTRICTED = "classified as personal or restricted"


@functools.cache
def _sections() -> Mapping[str, frozenset[str]]:
    """Return the words in each section of `words.txt`."""
    text = resources.files(__package__).joinpath("words.txt").read_text(encoding="utf-8")
    return {head: frozenset(words.split()) for head, words in re.findall(r"^\[(.+)\]\n([^\[]*)", text, re.MULTILINE)}


def _by_sign(section: str) -> Mapping[Sign, frozenset[str]]:
    heads = (head.split() for head in _sections())
    return MappingProxyType(
        {Sign[sign]: _sections()[f"{name} {sign}"] for name, *signs in heads for sign in signs if name == section}
    )


def words_of(section: str) -> frozenset[str]:
    """Return the words in a section of `words.txt`."""
    return _sections()[section]


WORDS = _by_sign("WORDS")
STEMS = _by_sign("STEMS")
PERSONS = _sections()["PERSONS"]
"""Words for people: `customer_name` is a person's name, and so is `name` in the table `customers`."""

NAMES = _sections()["NAMES"]
"""Words for names of people or of anything else."""

FILLERS = _sections()["FILLERS"]
"""Small words in names."""

NAME_PARTS = _sections()["NAME_PARTS"]
"""Words that, followed by one of `NAMES`, are a person's name."""

DEEDS = _sections()["DEEDS"]
"""Words that, followed by `by` or `to`, refer to a person."""

FACTS = _sections()["FACTS"]
"""Head words in column names for a fact about something, not the thing itself: `email_status`, `card_type`."""

FACTS_FIRST = _sections()["FACTS_FIRST"]
"""Words with the same meaning as heads, but at the start: `tipo_telefono`, `has_email`."""

FACT_ENDINGS = tuple(_sections()["FACT_ENDINGS"])
"""Endings of compound words that denote facts: `Adressart`."""

GENERIC = _sections()["GENERIC"]
"""Words that may follow a head word without changing its meaning: `card_type_code`."""

GIVEN_NAMES = _sections()["GIVEN_NAMES"]
"""Common given names that are not in lookup tables of things, without accents."""

SURE = _by_sign("SURE")
"""Words that indicate a trait in any combination, except with `STATISTICS`, `HEADS` and `THINGS`."""

UNSURE = _by_sign("UNSURE")
"""Words that indicate a trait if the table or name refers to a person and the name contains only `FRAME` besides."""

ALONE = _sections()["ALONE"]
"""Unsure words that indicate a trait even without a person, if the name contains nothing else."""

FRAME = _sections()["FRAME"]
"""Words that may accompany an unsure word."""

STATISTICS = _sections()["STATISTICS"]
"""Words for statistics about many people: `avg_salary` of a department, `min_salary` of a job."""

HEADS = _sections()["HEADS"]
"""Head words for values that are not the trait itself: `age_group`, `salary_currency`."""

KEPT_HEADS = _sections()["KEPT_HEADS"]
"""Words after which a head word does denote the trait: `blood_group`."""

THINGS = _sections()["THINGS"]
"""Things that have an age, a gender or a health status but are not people."""

PEOPLE = PERSONS | _sections()["PEOPLE"]
"""Words for the people that the unsure words refer to."""


def trait_of(table: tuple[str, ...], words: tuple[str, ...]) -> Sign | None:
    """Return the personal trait that a column's name indicates, or None; `table` contains the words of its table."""
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
    """Return the last word, ignoring words that may follow any head (`age_group_code`)."""
    head = list(words)
    while len(head) > 1 and head[-1] in GENERIC:
        head.pop()
    return head[-1]


LONGEST = 100
"""Number of characters above which a text counts as free text."""

MOST_WORDS = 12
"""Number of words above which a text counts as free text."""

_DOCUMENT: Final = re.compile(r"\{.*[:\"].*\}|\[.*[,\"{].*\]|<.*>", re.DOTALL)
_SUSPECT: Final = re.compile(r"^\s*[{\[<]|@|//|www\.|\d\D{0,3}\d\D{0,3}\d\D{0,3}\d|:.*:|\w{16}|\d.*\s\w|\s\d|\n")
"""A pattern that matches every value that a check could match; most values need no other check."""

_EMAIL: Final = re.compile(r"[^\s@<>,;]+@[^\s@<>,;]+\.[^\W\d_]{2,}")
_URL: Final = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//\S+|www\.\S+", re.IGNORECASE)
_UUID: Final = re.compile(r"\{?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\}?", re.IGNORECASE)
_MAC: Final = re.compile(r"(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}", re.IGNORECASE)
_PLACE: Final = re.compile(r"\(?-?\d{1,3}\.\d{3,}\s*[,; ]\s*-?\d{1,3}\.\d{3,}\)?|POINT\s*\(.*", re.IGNORECASE)
_DATE: Final = re.compile(
    r"(?:\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2\d{4})(?:[T ]\d{1,2}:\d{2}.*)?"
    r"|(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])"
)
_PHONE: Final = re.compile(
    r"\+\d[\d ()./-]{5,}\d|\(\d{2,5}\)[ /-]?\d[\d ./-]{3,}\d|00?\d{1,4}[ /-]\d[\d ./-]{3,}\d"
    r"|\d{2,5}(?:[-. /]\d{2,5}){2,6}"
)
_LOCAL_PHONE: Final = re.compile(r"(\d{3})[-. ](\d{4})")
_PASSPORT: Final = re.compile(r"[A-Z]{1,3}\d{6,9}[A-Z]?|\d{8}[A-Z]|[XYZ]\d{7}[A-Z]")
_FISCAL: Final = re.compile(
    r"[A-Z]{6}\d{2}[A-Z]\d{2}[A-Z]\d{3}[A-Z]|[A-Z]{4}\d{6}[HM][A-Z]{5}[A-Z0-9]\d"
    r"|\d{3}-\d{2}-\d{4}|\d{3}\.\d{3}\.\d{3}-\d{2}|[A-CEGHJ-PR-TW-Z][A-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]"
)
_IBAN: Final = re.compile(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}")
_DIGITS: Final = re.compile(r"\d{7,}")
_KNOWN_KEY: Final = re.compile(
    r"eyJ[\w-]{8,}\.[\w-]+\.|(?:sk|pk|rk)[-_][\w-]{16,}|gh[opsu]_\w{20,}|glpat-\w{12,}"
    r"|xox[abprs]-\S{10,}|AKIA[0-9A-Z]{12,}|AIza[\w-]{20,}|\$2[aby]\$\d\d\$|\$argon2|-----BEGIN"
)
_RUN: Final = re.compile(r"[A-Za-z0-9+/_]{16,}={0,2}")
_HEX: Final = re.compile(r"(?:0x)?[0-9a-f]{16,}", re.IGNORECASE)
_STREET: Final = re.compile(
    r"\d+[a-z]?,? (?:[^\W\d]+\.? ){0,3}(?:street|st|road|rd|avenue|ave|lane|ln|drive|dr|boulevard|blvd|court|place)\b.*"
    r"|\d+[a-z]?(?: bis)?,? (?:rue|avenue|boulevard|chemin|place|quai|impasse|allee|all[ée]e) .*"
    r"|(?:calle|avenida|plaza|paseo|via|viale|corso|piazza|rua|travessa|ul\.|ulica|al\.|aleja|os\.) [^\d]+,? ?\d+.*"
    r"|[^\d,]*(?:stra(?:ss|ß)e|str\.|weg|gasse|allee|platz|ufer|damm|straat|laan|plein|gracht|kade) \d+ ?[a-z]?\b.*",
    re.IGNORECASE,
)


def sign_of(value: str) -> Sign | None:
    """Return the kind of a text, or None if it is harmless. Personal names are only recognized in whole columns."""
    if len(value) > LONGEST or value.count(" ") >= MOST_WORDS:
        return Sign.TEXT
    if not _SUSPECT.search(value):
        return None
    text = value.strip()
    if _DOCUMENT.fullmatch(text):
        return Sign.TEXT
    found = _contact(text) or _number(text) or _secret(text)
    if found is None and _DIGITS.search(text):
        return Sign.IDENTIFIER
    return Sign.TEXT if found is None and "\n" in text else found


def is_written_date(value: str) -> bool:
    """Return whether a text is a date, with or without a time."""
    return _DATE.fullmatch(value.strip()) is not None


def _contact(text: str) -> Sign | None:
    if "@" in text and _EMAIL.search(text):
        return Sign.EMAIL
    if _URL.match(text):
        return Sign.URL
    if _STREET.fullmatch(text):
        return Sign.ADDRESS
    return Sign.NETWORK if _is_network(text) else None


def _number(text: str) -> Sign | None:
    if _UUID.fullmatch(text):
        return Sign.IDENTIFIER
    if _PLACE.fullmatch(text):
        return Sign.PLACE
    if _DATE.fullmatch(text):
        return Sign.DATE
    if is_card(text) or is_iban(text):
        return Sign.BANK
    if _FISCAL.fullmatch(text) or _PASSPORT.fullmatch(text):
        return Sign.NATIONAL
    return Sign.PHONE if _is_phone(text) else None


def _secret(text: str) -> Sign | None:
    if _KNOWN_KEY.match(text) or _HEX.fullmatch(text):
        return Sign.SECRET
    return Sign.SECRET if any(_is_random(run) for run in _RUN.findall(text)) else None


def is_card(text: str) -> bool:
    """Return whether a text is 13 to 19 digits, grouped or not, that pass the Luhn check (ISO/IEC 7812)."""
    digits = re.sub(r"[ -]", "", text)
    if not re.fullmatch(r"[0-9]{13,19}", digits):
        return False
    doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits)))
    return sum(number // 10 + number % 10 for number in doubled) % 10 == 0


def is_iban(text: str) -> bool:
    """Return whether a text is an IBAN: it has the format, and the remainder is 1 as in ISO 13616."""
    compact = re.sub(r"\s", "", text).upper()
    if not _IBAN.fullmatch(compact) or not compact.isascii():
        return False
    return int("".join(str(int(letter, 36)) for letter in compact[4:] + compact[:4])) % 97 == 1


def _is_phone(text: str) -> bool:
    local = _LOCAL_PHONE.fullmatch(text)
    if local is not None:
        low, high = map(int, local.groups())
        return low >= high or high % 10 not in (0, 9)  # `501-1000` is a range
    return bool(_PHONE.fullmatch(text)) and sum(map(str.isdigit, text)) >= 7


def _is_network(text: str) -> bool:
    if _MAC.fullmatch(text):
        return True
    host = text.partition("/")[0] if text.count(".") == 3 else text
    if text.count(".") != 3 and text.count(":") < 2:
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_random(run: str) -> bool:
    """Return whether letters and digits are mixed as in generated text, with several changes and little repetition."""
    changes = len(re.findall(r"[0-9](?=[A-Za-z])|[A-Za-z](?=[0-9])", run))
    return changes >= 4 and entropy(run) > 3.0


def entropy(text: str) -> float:
    """Return the Shannon entropy of a text, in bits per character."""
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts)


_PEM: Final = "-----BEGIN"
_TOKEN: Final = re.compile(rf"[^\s\"'`<>|,;()\[\]{{}}]{{14,}}|{_PEM}[A-Z ]*PRIVATE KEY")
_DIGEST: Final = re.compile(r"(?:[a-z0-9]+[:=])?(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})", re.IGNORECASE)
_PATH: Final = re.compile(r"(?:[\w.@+-]*/)+[\w.@+-]*")
_QUERY_ID: Final = re.compile(r"(?:\S+:\S+:[\w-]+:)?[0-9a-f]{16}")
"""The ktx id of a query history statement or a document passage."""
_OF_QUERIES: Final = re.compile(
    r"^[ \t]*-[ \t]+[\"'`]?$|\b(?:quer(?:y|ies)|statements?|patterns?|fingerprints?)\b", re.IGNORECASE
)
"""The text before a ktx id on a line: nothing, in a list, or a word that says what the id is."""
_FRONT: Final = 2000
"""Maximum number of characters in a line to search for a word that introduces an id."""
_SECRET_NAME: Final = (
    r"password|passwd|passwort|kennwort|passcode|pwd|passphrase|mot[ ]de[ ]passe|contraseña|secret"
    r"|(?:api|access|private|signing|encryption)[ _-]?key|auth[ _-]?token|token|credentials?"
)
_VALUE: Final = r"[\"'`*]*(?P<value>[^\s\"'`<>,;|]{6,})"
_ASSIGNED: Final = re.compile(
    rf"\b(?P<name>[\w-]{{0,40}}(?:{_SECRET_NAME}))[\"'`*]*\s*(?:[:=]|\bis\b)\s*{_VALUE}", re.IGNORECASE
)
_IN_SENTENCE: Final = re.compile(
    rf"\b(?P<name>(?:{_SECRET_NAME}))\b[\"'`*]*"
    r"(?:[ \t]+(?:for|of|to|on|in|at|by|from|used|für|von|des|der)\b(?:[ \t]+[^\s:=|.!?;]{1,40}){1,8}?)?"
    r"(?:[ \t]*[:=][ \t]+|[ \t]+(?:-|–|—|->|→|is|are|was|reads|ist|lautet|est|es)[ \t]+(?:(?:now|still)[ \t]+)?"
    r"|[ \t]+(?:\w+[ \t]+){0,3}?(?:set|changed|reset|rotated|geändert)[ \t]+(?:to|auf)[ \t]+)"
    rf"(?:the[ \t]+)?{_VALUE}",
    re.IGNORECASE,
)
"""A secret in a sentence: `the password for the replica is ...`, `token - ...`."""
_PASSWORD: Final = re.compile(r"pass|pwd|kennwort|contraseña", re.IGNORECASE)
_BEARER: Final = re.compile(r"\b(?P<name>bearer)[ \t]+(?P<value>[\w.~+/=-]{12,})", re.IGNORECASE)
_COLUMN_NAME: Final = re.compile(r"[a-z]+(?:[_.][a-z]+)+[_.]?\d{1,4}", re.IGNORECASE)
_NO_VALUE: Final = re.compile(
    r"[a-z]+(?:[_.][a-z0-9]+)+|[a-z]+(?:-[a-z]+)*-?v?\d{1,4}(?:\.\d+)*(?:-[a-z]+)*|(?:\S+:)+[0-9a-f]{16}", re.IGNORECASE
)
"""Words in sentences about keys and tokens that are not secret: column and version names, passage ids."""
_TIME: Final = re.compile(
    r"(?:fy|cy|q|kw|w)?-?(?:(?:19|20)\d\d|[1-4])(?:[-/.](?:q|w|kw)?\d+)*\S?|\d+(?:st|nd|rd|th)\S*", re.IGNORECASE
)
_ABOUT_SECRETS: Final = re.compile(
    r"(?:sha-?|aes-?|rsa-?|hs|rs|es|md|hmac-?|base|utf-?|pbkdf|argon|oauth-?|x\.?|iso-?|rfc-?|uuidv?|varchar|char|int"
    r"|ed|pkcs#?|fips-?)\d\S*|bcrypt\S*|scrypt\S*|arn:aws\S*"
    r"|\d+-?(?:bits?|bytes?|chars?|characters?|digits?|letters?|signs?|days?|hours?|minutes?|months?|weeks?|years?|h|x)(?:-\S*)?",
    re.IGNORECASE,
)
"""Algorithms, types, lengths and resource names."""
_NAMES: Final = ("pass", "pwd", "secret", "key", "token", "kennwort", "contraseña", "credential", "bearer")
_HINT: Final = "delete it here and at its source, and rotate the secret, because it has been read"


def secrets(text: str, known: Collection[str] = ()) -> Iterator[Spot]:
    """Yield texts that look like secrets, one per line.

    Known forms of keys, random text, URLs with a password, and values after names such as `password`, in assignments
    and in sentences. Digests and commits (32, 40 or 64 hexadecimal digits) do not count unless such a name precedes
    them, nor do ktx's own ids of statements and passages (16) in a list or after a word such as `query`. `known`:
    further ids that do not count.
    """
    found = {text.rfind("\n", 0, spot.at): spot for spot in all_secrets(text, known)}
    yield from (found[line] for line in sorted(found))


def all_secrets(text: str, known: Collection[str] = ()) -> Iterator[Spot]:
    """Yield every text that `secrets` looks for, in no particular order; they may overlap."""
    yield from _assigned(text)
    yield from _tokens(text, known)


def _key_end(text: str, begun: int) -> int:
    """Return the end of a private key whose first line ends at a position; an unclosed key ends
    with its paragraph.
    """
    ending = text.find("-----END", begun)
    if ending >= 0:
        line = text.find("\n", ending)
        return len(text) if line < 0 else line
    paragraph = text.find("\n\n", begun)
    return len(text) if paragraph < 0 else paragraph


def _tokens(text: str, known: Collection[str]) -> Iterator[Spot]:
    for token in _TOKEN.finditer(text):
        value = token[0]
        if _is_own_id(text, token.start(), value.rstrip(".:!?*_"), known):
            continue
        if value.startswith(_PEM):
            yield Spot(token.start(), "secret", "a private key", _HINT, _key_end(text, token.end()) - token.start())
        elif "://" in value:
            if has_password(value) and MASK not in value:
                yield Spot(token.start(), "secret", "a URL that contains a secret", _HINT, len(value))
        elif not _DIGEST.fullmatch(value) and not _PATH.fullmatch(value) and _is_secret(value):
            yield Spot(token.start(), "secret", "text that looks like a key or a token", _HINT, len(value))


def _is_own_id(text: str, at: int, value: str, known: Collection[str]) -> bool:
    """Return whether a word is an id that ktx generated."""
    if value in known:
        return True
    if _QUERY_ID.fullmatch(value) is None:
        return False
    front = text[text.rfind("\n", 0, at) + 1 : at]
    return ":" in value or _OF_QUERIES.search(front[-_FRONT:]) is not None


def _assigned(text: str) -> Iterator[Spot]:
    folded = text.casefold()
    if not any(name in folded for name in _NAMES):
        return
    for pattern in (_ASSIGNED, _IN_SENTENCE, _BEARER):
        for found in pattern.finditer(text):
            value = found["value"].rstrip(".:!?*)]}")
            if _could_be_secret(value) and not _is_name(found["name"], value, is_sentence=pattern is _IN_SENTENCE):
                message = f"what looks like the value of `{found['name'][:40]}`"
                yield Spot(found.start("value"), "secret", message, _HINT, len(value))


def _is_name(name: str, value: str, *, is_sentence: bool) -> bool:
    """Return whether a value after a key or token name is itself a name, or after any name a time."""
    if _TIME.fullmatch(value):
        return True
    if _PASSWORD.search(name):
        return False
    return (_NO_VALUE if is_sentence else _COLUMN_NAME).fullmatch(value) is not None


def _could_be_secret(value: str) -> bool:
    """Return whether a value is more than a word or a placeholder: letters with digits or symbols, and
    not a reference.
    """
    if (
        len(value) < 6
        or is_reference(value)
        or _ABOUT_SECRETS.fullmatch(value)
        or re.search(r"[$<>{}()\[\]…]|\*\*\*|\.\.\.|xxx|://", value, re.IGNORECASE)
    ):
        return False
    return bool(re.search(r"\d", value)) and bool(re.search(r"[^\W\d_]", value))


def _is_secret(value: str) -> bool:
    """Return whether part of a text is a secret according to the rules for column values."""
    parts = re.split(r"[=:](?=[^=:])", value)
    pieces = (part[start : start + LONGEST] for part in parts for start in range(0, len(part), LONGEST))
    return any(sign_of(piece) is Sign.SECRET for piece in pieces)
