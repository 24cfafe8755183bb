"""Finds people's contact and payment data in running text, which no wiki page needs.

It does not look for people's names, which no program can distinguish from the names of products, customers and places.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Final

from ktx_cli.core import Spot
from ktx_cli.privacy.signs import GIVEN_NAMES, is_card, is_iban, words_of

CODE: Final = "personal_data"
HINT: Final = "name the team or the role instead"


def personal_data(text: str) -> Iterator[Spot]:
    """Yield personal e-mail addresses, phone numbers, bank accounts, payment cards and street addresses.

    Team and role mailboxes (`finance@`), example domains, toll-free numbers, and numbers that only look
    similar (amounts, dates, versions, order numbers) do not count. In the order of the text; overlapping ones are
    merged.
    """
    found = sorted((spot for look in _LOOKS for spot in look(text)), key=lambda spot: (spot.at, -spot.length))
    end = 0
    for spot in found:
        if spot.at >= end:
            yield spot
            end = spot.at + spot.length


def _spot(found: re.Match[str], message: str, group: int | str = 0) -> Spot:
    return Spot(found.start(group), CODE, message, HINT, len(found[group]))


_EMAIL: Final = re.compile(
    r"(?<![\w.+/}>-])[^\W_][\w.+'-]{0,63}@(?P<host>[^\W_](?:[\w-]*\.)+[^\W\d_]{2,24})\b(?![@\w])"
)
_NOBODYS: Final = re.compile(
    r"(?:.*\.)?(?:example\.[a-z.]+|example|test|invalid|localhost|local|gserviceaccount\.com|amazonaws\.com)"
)
"""Domains used for examples and machines."""
_ROLES: Final = words_of("MAILBOXES")
"""Words before `@` that stand for a team, a role or a machine."""
_PLACEHOLDERS: Final = words_of("MAILBOX_PLACEHOLDERS")
_AROUND: Final = words_of("MAILBOX_REGIONS")
"""Words that may accompany a short team name such as `hr`: regions, and function words."""
_LOCAL_PART: Final = re.compile(r"[^\W_]+")


def _emails(text: str) -> Iterator[Spot]:
    if "@" not in text:
        return
    for found in _EMAIL.finditer(text):
        local, host = found[0].partition("@")[0].casefold(), found["host"].casefold()
        if not _NOBODYS.fullmatch(host) and not _is_role(local):
            yield _spot(found, "a person's e-mail address")


def _is_role(local: str) -> bool:
    words = [word for word in _LOCAL_PART.findall(local) if not word.isdigit()]
    if not words or all(word in _PLACEHOLDERS for word in words):
        return True
    if GIVEN_NAMES.intersection(words):
        return False
    is_plain = all(word in _ROLES or word in _AROUND for word in words)
    return is_plain or any(word in _ROLES and len(word) > 2 for word in words)


_IBAN: Final = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,32}")
_IBAN_LENGTHS: Final = {each[:2]: int(each[2:]) for each in words_of("IBAN_LENGTHS")}
"""Country -> characters of its IBANs (the registry of ISO 13616)."""


def _ibans(text: str) -> Iterator[Spot]:
    for found in _IBAN.finditer(text):
        length = _IBAN_LENGTHS.get(found[0][:2], 0)
        places = [place for place, letter in enumerate(found[0]) if letter.isalnum()]
        if not length or len(places) < length:
            continue
        end = places[length - 1] + 1
        follows = text[found.start() + end : found.start() + end + 1]
        if not follows.isalnum() and is_iban(found[0][:end].replace("-", "")):
            yield Spot(found.start(), CODE, "a bank account number (IBAN)", HINT, end)


_CARD: Final = re.compile(
    r"(?<![\w./#+-])(?<!\d[ ,])"
    r"(?:\d{4}(?P<mark>[ -]?)\d{4}(?P=mark)\d{4}(?P=mark)\d{4}"
    r"|3[47]\d{2}(?P<second>[ -]?)\d{6}(?P=second)\d{5}|3[0689]\d{2}(?P<third>[ -]?)\d{6}(?P=third)\d{4})"
    r"(?![\w-]|[ .,]\d)"
)
_ISSUERS: Final = re.compile(
    r"4|5[1-5]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)|3[47]|30[0-5]|3[689]|6(?:011|5|4[4-9])|35(?:2[89]|[3-8])"
)
"""Prefixes of payment card numbers (Visa, Mastercard, American Express, Diners Club, Discover, JCB)."""


def _cards(text: str) -> Iterator[Spot]:
    for found in _CARD.finditer(text):
        if _ISSUERS.match(found[0]) and is_card(found[0]) and len({*found[0]} - {*" -"}) > 1:
            yield _spot(found, "a payment card number")


_BEFORE: Final = r"(?<![\w./#+@&$€£-])(?<!\d[ ,])"
_BEHIND: Final = r"(?![\w%€£$-]|[.,:]\d| ?(?:%|€|EUR\b|USD\b|GBP\b|CHF\b))"
_CALLED: Final = (
    r"\b(?:(?:tel(?:efon(?:nummer)?|ephone|efono)?|téléphone|teléfono|fax|durchwahl)"
    r"(?:\.:?|:| no\.?:?| nr\.?:?|-nr\.?:?)?"
    r"|phone(?: number)?(?:\.:?|:| is\b))"
)
_FORMS: Final = (
    # +49 30 1234567, +44 (0)20 7946 0958, +1-415-555-0132, +491711234567
    (r"\+[1-9]\d{0,2}(?:[ ./-]?\(?\d{1,5}\)?){2,6}", 9, 15),
    # 0049 30 1234567
    (r"00[1-9]\d{0,2}[ /-]\(?\d{1,5}\)?(?:[ /-]?\d{2,8}){1,4}", 10, 17),
    # (415) 555-0132, 415-555-0132, 415.555.0132
    (r"(?:1[ .-])?(?:\([2-9]\d{2}\) ?|[2-9]\d{2}(?=[.-]))[ .-]?[2-9]\d{2}[ .-]\d{4}", 10, 11),
    # (030) 1234567, 0171/1234567, 030 / 123 45 67
    (r"(?:\(0[1-9]\d{0,4}\)[ /-]?|0[1-9]\d{1,4} ?/ ?)\d{2,8}(?:[ -]?\d{2,8}){0,4}", 8, 13),
    # 030 12345678, 020 7946 0958, 07700 900123, 01 42 68 53 00
    (r"0[1-9]\d{0,4}(?: \d{2,8})(?: \d{1,6}){0,4}", 9, 12),
    # 0171-1234567
    (r"0[1-9]\d{1,4}-\d{5,8}", 9, 12),
)
"""Phone number formats, with their minimum and maximum number of digits."""
_PHONES: Final = (
    *((re.compile(f"{_BEFORE}(?P<number>{form}){_BEHIND}"), least, most) for form, least, most in _FORMS),
    # Tel. 12345-67, phone: 555 0132
    (
        re.compile(
            rf"{_CALLED}[*`_]{{0,3}} ?[*`_]{{0,3}}(?P<number>\(?\d{{2,5}}\)?(?:[ /.-]?\d{{2,8}}){{1,4}}){_BEHIND}",
            re.IGNORECASE,
        ),
        6,
        15,
    ),
)
_TOLL_FREE: Final = re.compile(r"\+?1?8(?:00|33|44|55|66|77|88)\d{7}|(?:\+\d{2}|00\d{2})?0?800\d{5,9}")
_AMOUNT: Final = re.compile(r"\+?[1-9]\d{0,2}(?:[ .]\d{3})+")
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_PLAIN_INTERNATIONAL: Final = 10
"""The digits of an international phone number without separators."""


_MANY_DIGITS: Final = re.compile(r"^(?=(?:[^\d\n]*\d){6})[^\n]*", re.MULTILINE)
"""A line with enough digits for a phone number; other lines are not searched."""


def _phones(text: str) -> Iterator[Spot]:
    lines = list(_MANY_DIGITS.finditer(text))
    for (pattern, least, most), line in itertools.product(_PHONES, lines):
        for found in pattern.finditer(text, line.start(), line.end()):
            number = found["number"]
            digits = "".join(filter(str.isdigit, number))
            if least <= len(digits) <= most and _could_be_phone(number, digits):
                yield _spot(found, "a phone number", "number")


def _could_be_phone(number: str, digits: str) -> bool:
    """Return whether a number in a phone number format is not an amount, date, account or code."""
    if _TOLL_FREE.fullmatch(re.sub(r"\(0\)|[^\d+]", "", number)) or _AMOUNT.fullmatch(number):
        return False
    groups = re.findall(r"\d+", number)
    if number.startswith("+"):
        return len(groups) > 1 or len(digits) >= _PLAIN_INTERNATIONAL
    lengths = [len(group) for group in groups]
    is_date = lengths[:3] in ([4, 2, 2], [2, 2, 4]) and any(map(_YEAR.fullmatch, groups))
    is_list = len(groups) > 1 and len(set(lengths)) == 1 and lengths[0] > 3
    is_of_customs = lengths == [4, 2, 2, 2]
    return not (is_date or is_list or is_of_customs)


_CAPITAL: Final = r"[A-ZÄÖÜÉÈÀÅØÆÇÑ][\w'’.-]*"
_TOWN: Final = rf",? *\n? *(?:[A-Z]{{1,2}}-)?\d{{4,5}} {_CAPITAL}"
_PARTS_OF_PLANTS: Final = (
    r"(?:Fertigungs|Produktions|Montage|Verpackungs|Walz|Sortier|Transfer|Prüf|Daten|Fahr|Wasser|Milch)stra|Sackgasse"
    r"|(?:In|Ab|Regi|Illu|Demon|Admini)str\."
)
_NUMBER: Final = r"(?<![\w.,/#$€£-])(?!(?:19|20)\d\d )\d{1,5}"
_STREETS: Final = (
    # Bahnhofstraße 12, Hauptstr. 5a
    rf"\b(?!{_PARTS_OF_PLANTS})[A-ZÄÖÜ][\w-]*(?:stra(?:ß|ss)e|str\.|gasse|allee|chaussee) +\d{{1,4}} ?[a-z]?\b"
    r"(?![.,]\d| ?%)",
    # Lange Straße 5, Berliner Allee 12
    r"\b[A-ZÄÖÜ][\w-]*(?:e|er|en|em)[ -](?:Stra(?:ß|ss)e|Str\.|Gasse|Allee|Chaussee) +\d{1,4} ?[a-z]?\b(?![.,]\d| ?%)",
    # Marktplatz 4, 80331 München
    rf"\b[A-ZÄÖÜ][\w-]*(?:weg|platz|ufer|damm|ring|steig|[- ](?:Weg|Platz|Ufer|Damm|Ring)) +\d{{1,4}} ?[a-z]?{_TOWN}",
    # 221B Baker Street, 1600 Amphitheatre Parkway, 12 Main St.
    rf"{_NUMBER}[A-Z]?,? (?:[NSEW]\.? )?(?!(?:Google|Shared|Hard|Team|Food|Supreme) ){_CAPITAL}(?: {_CAPITAL}){{0,2}} "
    r"(?:(?:Street|Road|Avenue|Lane|Drive|Boulevard|Court|Terrace|Crescent|Parkway|Highway)(?!\w)"
    r"|(?:St|Rd|Ave|Ln|Blvd)(?:\.|(?=,|\n|$))|(?:Dr|Ct|Pkwy|Hwy)(?=,|\n|$))",
    # 12 rue de Rivoli, 5 bis avenue des Champs
    rf"{_NUMBER}(?: bis| ter)?,? (?:rue|avenue|boulevard|chemin|quai|impasse|allée) "
    rf"(?:d[eu]s? |la |le |les |l['’]|d['’]){{0,3}}{_CAPITAL}",
    # Calle Mayor 5, Viale Monza, 14
    rf"\b(?:Calle|Avenida|Paseo|Viale|Piazza|Corso|Rua) (?:d[eia]l? |de la |della )?{_CAPITAL}(?: {_CAPITAL})?"
    r",? \d{1,4}\b",
    # Damstraat 12, Prinsengracht 263
    r"\b[A-Z]\w+(?:straat|laan|plein|gracht|kade) \d{1,4}[a-z]?\b(?![.,]\d| ?%)",
)
"""Street address formats with a house number."""
_ANY_STREET: Final = tuple(re.compile(form) for form in _STREETS)
_STREET_WORD: Final = re.compile(
    r"stra(?:ß|ss|at)|str\.|gasse|allee|chaussee|weg|platz|ufer|damm|ring |steig|street|road|avenue|lane|drive"
    r"|boulevard|court|terrace|crescent|parkway|highway| (?:st|rd|ave|ln|blvd|dr|ct|pkwy|hwy)\b|rue |chemin|quai"
    r"|impasse|allée|calle|avenida|paseo|viale|piazza|corso|rua |laan|plein|gracht|kade",
    re.IGNORECASE,
)
"""A pattern that occurs in every street address."""


def _streets(text: str) -> Iterator[Spot]:
    if _STREET_WORD.search(text) is None:
        return
    found = itertools.chain.from_iterable(pattern.finditer(text) for pattern in _ANY_STREET)
    yield from (_spot(each, "a street address") for each in found)


_LOOKS: Final[tuple[Callable[[str], Iterator[Spot]], ...]] = (_emails, _ibans, _cards, _phones, _streets)
