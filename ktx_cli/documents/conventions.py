"""Detect conventions that a document states for a whole project: time zone, fiscal year, first day of the week."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ktx_cli.core import one_line
from ktx_cli.documents.markdown import outside_fences

TIMEZONE: Final = "semantic.timezone"
FISCAL_YEAR_START: Final = "semantic.fiscal_year_start"
WEEK_START: Final = "semantic.week_start"
"""The settings of `ktx.yaml` that documents and dbt variables can state."""

_MOST_LINES: Final = 2_000
_LONGEST: Final = 160

_MONTHS: Final = (
    "jan(?:uary|uar)?", "feb(?:ruary|ruar)?", "mar(?:ch)?|märz", "apr(?:il)?", "may|mai", "june?|juni", "july?|juli",
    "aug(?:ust)?", "sept?(?:ember)?", "o[ck]t(?:ober)?", "nov(?:ember)?", "de[cz](?:ember)?",
)  # fmt: skip
_FISCAL: Final = re.compile(
    r"(?<!\w)(?:(?:fiscal|financial|business) years? (?:begins?|starts?|runs? from)"
    r"|gesch[äa]ftsjahr (?:beginnt|startet))"
    rf" (?:(?:on|in|at|am|im) )?(?:the )?(?:(?:1st|1\.?|first)(?: day)? (?:of )?)?(?P<month>{'|'.join(_MONTHS)})"
    r"(?: 1(?:st)?)?(?![\w-]| \d)",
    re.IGNORECASE,
)
_WEEK_DAYS: Final = {"monday": "monday", "montag": "monday", "sunday": "sunday", "sonntag": "sunday"}
_WEEK: Final = re.compile(
    r"(?<!\w)(?:weeks? (?:begins?|starts?|runs? from)|wochen? (?:beginnt|beginnen|startet|starten))"
    rf" (?:(?:on|am) )?(?:a )?(?P<day>{'|'.join(_WEEK_DAYS)})s?(?!\w)",
    re.IGNORECASE,
)
_ZONE: Final = re.compile(r"(?<![\w/])[A-Z][A-Za-z]+(?:/[A-Z][A-Za-z_-]+){1,2}(?![\w/])")
_OF_TIMES: Final = re.compile(
    r"(?<!\w)(?:time ?zones?|zeitzonen?|times?|timestamps?|days?|dates?|reports?|reporting|zeiten|tage)(?!\w)",
    re.IGNORECASE,
)
_OF_SOMETHING_ELSE: Final = re.compile(
    r"(?<!\w)(?:stored?|servers?|logs?|raw|customers?['’]?s?|users?['’]?s?|not|never|except|unless|formerly|was|were"
    r"|gespeichert|nicht)(?!\w)",
    re.IGNORECASE,
)
"""Words in sentences about how times are stored or whose times they are, or in negations."""
_SENTENCE: Final = re.compile(r"[^.!?;|]+(?:(?:\.(?=\w)|(?<=\d)\.(?= [^\W\d]))[^.!?;|]+)*[.!?;]?")
_MARKUP: Final = re.compile(r"[*`_#>]+(?!\w)|(?<!\w)[*`_#>]+")


@dataclass(frozen=True, slots=True)
class Convention:
    """A statement about a setting. `value`: in the setting's format. `words`: the quoted text."""

    setting: str
    value: str
    words: str


def stated_conventions(markdown: str) -> tuple[Convention, ...]:
    """Return a text's statements about its project's conventions, without duplicates, in text order."""
    found: dict[tuple[str, str], Convention] = {}
    for number, line in outside_fences(markdown):
        if number > _MOST_LINES:
            break
        for each in _of_line(line[:2_000]):
            found.setdefault((each.setting, each.value), each)
    return tuple(found.values())


def _of_line(line: str) -> Iterator[Convention]:
    plain = " ".join(_MARKUP.sub("", line).split())
    for sentence in _SENTENCE.findall(plain):
        words = one_line(sentence, _LONGEST)
        year = _FISCAL.search(sentence)
        if year is not None:
            yield Convention(FISCAL_YEAR_START, str(month_number(year["month"])), words)
        week = _WEEK.search(sentence)
        if week is not None and not _OF_SOMETHING_ELSE.search(sentence):
            yield Convention(WEEK_START, _WEEK_DAYS[week["day"].lower()], words)
        if _OF_TIMES.search(sentence) and not _OF_SOMETHING_ELSE.search(sentence):
            zones = {each for each in _ZONE.findall(sentence) if is_zone(each)}
            yield from (Convention(TIMEZONE, each, words) for each in sorted(zones) if len(zones) == 1)


def month_number(text: str) -> int | None:
    """Return the number of the month that a text names, or None."""
    if text.isdigit():
        return int(text) if 1 <= int(text) <= 12 else None
    found = (number for number, names in enumerate(_MONTHS, start=1) if re.fullmatch(names, text, re.IGNORECASE))
    return next(found, None)


def week_day(text: str) -> str | None:
    """Return the first day of the week that a text names, in the setting's format, or None."""
    return _WEEK_DAYS.get(text.strip().lower())


def is_convention(setting: str, value: str) -> bool:
    """Return whether a setting is a convention and accepts a value."""
    if setting == FISCAL_YEAR_START:
        return value.isascii() and value.isdigit() and month_number(value) is not None
    return is_zone(value) if setting == TIMEZONE else setting == WEEK_START and value in _WEEK_DAYS.values()


def is_zone(name: str) -> bool:
    """Return whether a text is the name of a regional time zone, such as `Europe/Berlin`."""
    return "/" in name and name in zoneinfo.available_timezones()
