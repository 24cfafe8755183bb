"""Detect what a document states about its own date and status, its validity period, and its replacement."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ktx_cli.core import one_line

MOST_LINES: Final = 60
"""The number of lines at the beginning of a document that may state its dates."""

_MOST: Final = 4
_LONGEST: Final = 80
_LONGEST_LINE: Final = 400


class Meaning(StrEnum):
    """The meaning of a document's statement about itself."""

    DATED = "dated"
    UPDATED = "updated"
    REVIEWED = "reviewed"
    PUBLISHED = "published"
    VALID_FROM = "valid from"
    VALID_UNTIL = "valid until"
    ENDED = "ended"
    """The document is superseded, archived, obsolete or similar. `value`: the word, or empty if a sentence states it.
    """
    DRAFT = "draft"
    REPLACED_BY = "replaced by"
    REPLACES = "replaces"
    MENTIONED = "mentioned"
    """A sentence contains such words but may refer to the document's subject matter."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A document's statement about itself. `place`: `front matter`, `title` or `text`. `words`: the quoted text."""

    meaning: Meaning
    place: str
    words: str
    value: str = ""


_KEYS: Final = {
    **dict.fromkeys(("date", "as_of", "asof", "stand"), Meaning.DATED),
    **dict.fromkeys(("updated", "last_updated", "lastupdated", "modified", "last_modified"), Meaning.UPDATED),
    **dict.fromkeys(("last_reviewed", "reviewed"), Meaning.REVIEWED),
    **dict.fromkeys(("effective", "effective_date", "effective_from", "valid_from"), Meaning.VALID_FROM),
    **dict.fromkeys(("valid_until", "valid_to", "validuntil", "expires"), Meaning.VALID_UNTIL),
    **dict.fromkeys(("superseded_by", "replaced_by"), Meaning.REPLACED_BY),
    **dict.fromkeys(("replaces", "supersedes"), Meaning.REPLACES),
}
_ENDED: Final = frozenset(("superseded", "deprecated", "archived", "obsolete", "outdated", "withdrawn", "replaced"))
_DRAFT: Final = frozenset(("draft", "entwurf"))

_MONTH_STARTS: Final = (
    ("jan",), ("feb",), ("mar", "mär"), ("apr",), ("may", "mai"), ("jun",), ("jul",), ("aug",), ("sep",),
    ("oct", "okt"), ("nov",), ("dec", "dez"),
)  # fmt: skip
_MONTH: Final = (
    "jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|märz|apr(?:il)?|may|mai|june?|juni|july?|juli|aug(?:ust)?|"
    "sept?(?:ember)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?"
)
_DATE: Final = (
    rf"(?:\d{{4}}-\d{{2}}(?:-\d{{2}})?|\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}}|(?:\d{{1,2}}\.? +)?(?:{_MONTH})\.? +"
    rf"(?:\d{{1,2}}, *)?(?:19|20)\d{{2}}|Q[1-4][ /]?(?:19|20)\d{{2}}|(?:19|20)\d{{2}})"
)
_WORDS: Final = {
    "stand|as of": Meaning.DATED,
    "last updated|last changed|updated(?: on)?|zuletzt geändert(?: am)?": Meaning.UPDATED,
    "last reviewed": Meaning.REVIEWED,
    "published(?: on)?": Meaning.PUBLISHED,
    "effective(?: from| since)?|in force since|valid (?:from|since)|gültig (?:ab|seit)": Meaning.VALID_FROM,
    "valid (?:until|through|to)|expires(?: on)?|gültig bis": Meaning.VALID_UNTIL,
    "superseded on": Meaning.ENDED,
}
_STATED: Final = re.compile(
    rf"(?<!\w)(?P<verb>{'|'.join(_WORDS)})\s*:?\s*\**\s*(?P<date>{_DATE})(?![\w-])", re.IGNORECASE
)
_DATE_LINE: Final = re.compile(
    rf"^\W{{0,6}}(?P<verb>date|datum)\W{{0,4}}:\W{{0,4}}(?P<date>{_DATE})(?![\w-])", re.IGNORECASE
)
_NAMED: Final = r"(?P<other>(?:[^.;|]|\.(?=\w)){2,60})"
_REPLACED: Final = re.compile(
    rf"(?<!\w)(?:superseded|replaced|ersetzt) (?:by|durch)\s*:?\s*{_NAMED}"
    r"|(?<!\w)this (?:page|document|policy) is (?:superseded|obsolete|outdated|deprecated)",
    re.IGNORECASE,
)
_REPLACES: Final = re.compile(
    r"(?:(?<!\w)(?:this (?:page|document|policy|version|guide)|dieses dokument) (?:replaces|supersedes|ersetzt)\s"
    rf"|^\W{{0,4}}(?:replaces|supersedes|ersetzt)\W{{0,4}}:\W{{0,4}}\s)\s*{_NAMED}",
    re.IGNORECASE,
)
_STATUS: Final = re.compile(
    rf"^\W{{0,6}}status\W{{0,6}}:\W{{0,6}}(?P<word>{'|'.join(sorted((*_ENDED, *_DRAFT)))})\b", re.IGNORECASE
)
_DRAFT_LINE: Final = re.compile(
    r"\W{0,6}(?:draft|entwurf)\W{0,6}|#{1,6}\s+(?:(?:draft|entwurf)\s*[:–-].*|.*[(\[](?:draft|entwurf)[)\]]\s*)"
    r"|\W{0,6}this (?:page|document|policy) is (?:still )?a draft\b.*",
    re.IGNORECASE,
)
_FIELD: Final = re.compile(r"""([A-Za-z][\w -]{1,30})\s*:\s*["']?([^"'#]{1,80})""")
_TITLE: Final = re.compile(rf"#\s.*?(?<![\w-])({_DATE})(?![\w-])", re.IGNORECASE)


def stated_dates(text: str) -> tuple[str, ...]:
    """Return up to four statements in a text about its own date and validity, quoted and in order.

    Only the front matter, the title and the first lines are searched: later statements concern the content.
    """
    return tuple(dict.fromkeys(each.words for each in statements(text)))[:_MOST]


def statements(text: str) -> tuple[Statement, ...]:
    """Return a text's statements about its own date and status, in order; only its first lines are read."""
    lines = [line[:_LONGEST_LINE] for line in text.removeprefix("\ufeff").split("\n", MOST_LINES)[:MOST_LINES]]
    end = lines.index("---", 1) if lines[0].rstrip() == "---" and "---" in lines[1:] else 0
    front = (each for field in _fields(lines[1:end]) for each in _of_field(field))
    below = (each for line in lines[end:] for each in _of_line(line))
    return tuple(dict.fromkeys((*front, *below)))


_LIST_KEY: Final = re.compile(r"([A-Za-z][\w -]{1,30}?)\s*:\s*(?:\[(.*)\]\s*)?")
_ITEM: Final = re.compile(r"\s*-\s+(\S.*)")


def _fields(lines: Iterable[str]) -> Iterator[str]:
    """Yield the fields of front matter as `key: value`, with one entry per list item."""
    key = ""
    for line in lines:
        found, item = _LIST_KEY.fullmatch(line), _ITEM.fullmatch(line)
        if found:
            key = found[1]
            yield from (f"{key}: {each.strip()}" for each in (found[2] or "").split(",") if each.strip())
        elif item and key:
            yield f"{key}: {item[1]}"
        else:
            key = ""
            yield line


def _of_field(line: str) -> Iterator[Statement]:
    found = _FIELD.match(line)
    name, value = (found[1].strip(), found[2].strip()) if found else ("", "")
    key = name.lower().replace(" ", "_").replace("-", "_")
    meaning = _KEYS.get(key)
    if key == "status":
        word = value.lower()
        meaning = Meaning.ENDED if word in _ENDED else Meaning.DRAFT if word in _DRAFT else None
    if value and meaning is not None and (meaning not in _DATES or is_possible(value)):
        yield Statement(meaning, "front matter", _plain(f"{name}: {value}"), value)


def _of_line(line: str) -> Iterator[Statement]:
    title = _TITLE.match(line)
    if title and is_possible(title[1]):
        yield Statement(Meaning.DATED, "title", _plain(f"title: {title[1]}"), title[1])
    rest = _STATED.sub("", line)
    dated = _DATE_LINE.match(line)
    if dated and is_possible(dated["date"]):
        yield Statement(Meaning.DATED, "text", _plain(dated[0].lstrip("-*>#+ ")), dated["date"])
    for each in _STATED.finditer(line):
        if not is_possible(each["date"]):
            continue
        is_own = not re.search(r"\w", rest) or _is_own(line, each)
        yield Statement(_meaning(each["verb"]) if is_own else Meaning.MENTIONED, "text", _plain(each[0]), each["date"])
    for each in _REPLACED.finditer(line):
        other = (each["other"] or "").strip()
        meaning = Meaning.ENDED if not other else Meaning.REPLACED_BY if _is_own(line, each) else Meaning.MENTIONED
        yield Statement(meaning, "text", _plain(each[0]), other)
    for each in _REPLACES.finditer(line):
        yield Statement(Meaning.REPLACES, "text", _plain(each[0]), each["other"].strip())
    status = _STATUS.match(line)
    if status:
        word = status["word"].lower()
        yield Statement(Meaning.DRAFT if word in _DRAFT else Meaning.ENDED, "text", _plain(status[0]), word)
    elif _DRAFT_LINE.fullmatch(line):
        yield Statement(Meaning.DRAFT, "text", _plain(line.lstrip("# ")))


_SUBJECT: Final = re.compile(
    r"(?:^|.*\W)(?:this (?:page|document|policy|version|guide)|dieses dokument) "
    r"(?:(?:is|was|has been|wird|wurde|ist) )?(?:now |only |nur )?",
    re.IGNORECASE,
)


def _is_own(line: str, found: re.Match[str]) -> bool:
    """Return whether words in a line concern the document, as a field or with the document as their subject."""
    front = line[: found.start()]
    if found.re is _STATED and ":" in found[0]:
        return True
    if not re.search(r"\w", front):
        return found.re is _REPLACED
    return _SUBJECT.fullmatch(front) is not None


def _meaning(verb: str) -> Meaning:
    return next(meaning for words, meaning in _WORDS.items() if re.fullmatch(words, verb, re.IGNORECASE))


def _plain(words: str) -> str:
    return one_line(" ".join(words.replace("*", "").split()), _LONGEST)


Day = tuple[int, ...]
"""A year, with month and day if known."""

_NUMBERS: Final = re.compile(r"\d+")
_ISO: Final = re.compile(r"(\d{4})-(\d{2})(?:-(\d{2}))?")
_GERMAN: Final = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")
_YEAR: Final = re.compile(r"(?<!\d)(?:19|20)\d{2}(?!\d)")
_MONTH_NAME: Final = re.compile(rf"(?<![^\W\d_])({_MONTH})\b", re.IGNORECASE)


def day_of(value: str) -> Day | None:
    """Return the date that a text begins with or names, or None.

    Only the year of `3/4/2025` is known, because countries read the rest differently.
    """
    iso, german = _ISO.match(value), _GERMAN.match(value)
    if iso:
        return tuple(int(part) for part in iso.groups() if part)
    if german:
        return int(german[3]), int(german[2]), int(german[1])
    year, month = _YEAR.search(value), _MONTH_NAME.search(value)
    if year is None:
        return None
    if month is None:
        return (int(year[0]),)
    begins = month[1].lower()[:3]
    number = next(place for place, names in enumerate(_MONTH_STARTS, start=1) if begins in names)
    days = [int(each) for each in _NUMBERS.findall(value.replace(year[0], "", 1))]
    return (int(year[0]), number, *days[:1])


def is_possible(value: str) -> bool:
    """Return whether a text can be a date; a day must exist in the calendar."""
    day = day_of(value)
    if day is None or len(day) == 1:
        return True
    try:
        datetime.date(day[0], day[1], day[2] if len(day) > 2 else 1)
    except ValueError:
        return False
    return True


def conflicts(stated: tuple[Statement, ...]) -> tuple[tuple[Statement, Statement], ...]:
    """Return the pairs of a document's statements that contradict each other.

    These are statements with the same meaning but different dates in front matter and text, and validity periods that
    end before they begin. Dates are compared as far as both are known.
    """
    dated = [
        (each, day)
        for each in stated
        if each.place != "title" and is_possible(each.value) and (day := day_of(each.value)) is not None
    ]
    found = []
    for place, (one, first) in enumerate(dated):
        for other, second in dated[place + 1 :]:
            known = min(len(first), len(second))
            differs = one.meaning is other.meaning and one.place != other.place and first[:known] != second[:known]
            begins = {one.meaning: first[:known], other.meaning: second[:known]}
            is_reversed = begins.keys() == {Meaning.VALID_FROM, Meaning.VALID_UNTIL} and (
                begins[Meaning.VALID_UNTIL] < begins[Meaning.VALID_FROM]
            )
            if (differs and one.meaning in _DATES) or is_reversed:
                found.append((one, other))
    return tuple(found)


_DATES: Final = frozenset((
    Meaning.DATED, Meaning.UPDATED, Meaning.REVIEWED, Meaning.PUBLISHED, Meaning.VALID_FROM, Meaning.VALID_UNTIL,
))  # fmt: skip
"""Meanings that can have only one date per document."""
