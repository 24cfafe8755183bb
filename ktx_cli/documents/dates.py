"""The dates that a document states of itself: since when, until when, as of when, and whether something replaced it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ktx_cli.core import one_line

MOST_LINES: Final = 60
"""Lines from the beginning of a document in which it states its dates."""

_MOST: Final = 4
_LONGEST: Final = 80
_LONGEST_LINE: Final = 400

_KEYS: Final = frozenset((
    "date", "as_of", "asof", "stand", "updated", "last_updated", "lastupdated", "modified", "last_modified",
    "last_reviewed", "reviewed", "effective", "effective_date", "effective_from", "valid_from", "valid_until",
    "valid_to", "validuntil", "expires", "superseded_by", "replaced_by", "replaces",
))  # fmt: skip
_ENDED: Final = frozenset((
    "superseded", "deprecated", "archived", "obsolete", "outdated", "withdrawn", "replaced", "draft",
))  # fmt: skip

_MONTH: Final = (
    "jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|märz|apr(?:il)?|may|mai|june?|juni|july?|juli|aug(?:ust)?|"
    "sept?(?:ember)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?"
)
_DATE: Final = (
    rf"(?:\d{{4}}-\d{{2}}(?:-\d{{2}})?|\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}}|(?:\d{{1,2}}\.? +)?(?:{_MONTH})\.? +"
    rf"(?:\d{{1,2}}, *)?(?:19|20)\d{{2}}|Q[1-4][ /]?(?:19|20)\d{{2}}|(?:19|20)\d{{2}})"
)
_WORDS: Final = (
    "stand|as of|last updated|last reviewed|last changed|updated(?: on)?|published(?: on)?|effective(?: from| since)?|"
    "in force since|valid (?:from|since|until|through|to)|expires(?: on)?|gültig (?:ab|seit|bis)|"
    "zuletzt geändert(?: am)?|superseded on"
)
_STATED: Final = re.compile(rf"(?<!\w)((?:{_WORDS})\s*:?\s*\**\s*{_DATE})(?![\w-])", re.IGNORECASE)
_REPLACED: Final = re.compile(
    r"(?<!\w)((?:superseded|replaced|ersetzt) (?:by|durch)\s*:?\s*(?:[^.;|]|\.(?=\w)){2,60}|"
    r"(?:this (?:page|document|policy) is (?:superseded|obsolete|outdated|deprecated)))",
    re.IGNORECASE,
)
_FIELD: Final = re.compile(r"""([A-Za-z][\w -]{1,30})\s*:\s*["']?([^"'#]{1,80})""")
_TITLE: Final = re.compile(rf"#\s.*?(?<![\w-])({_DATE})(?![\w-])", re.IGNORECASE)


def stated_dates(text: str) -> tuple[str, ...]:
    """Return what a text says of its own date and validity, in its words and in their order; at most four.

    Looked at are the front matter, the title and the first lines: what a document says further down is of its contents.
    """
    found = dict.fromkeys(one_line(" ".join(each.replace("*", "").split()), _LONGEST) for each in _stated(text))
    return tuple(found)[:_MOST]


def _stated(text: str) -> Iterator[str]:
    lines = [line[:_LONGEST_LINE] for line in text.removeprefix("\ufeff").split("\n", MOST_LINES)[:MOST_LINES]]
    end = lines.index("---", 1) if lines[0].rstrip() == "---" and "---" in lines[1:] else 0
    for line in lines[1:end]:
        field = _FIELD.match(line)
        name, value = (field[1].strip(), field[2].strip()) if field else ("", "")
        key = name.lower().replace(" ", "_").replace("-", "_")
        if value and (key in _KEYS or (key == "status" and value.lower() in _ENDED)):
            yield f"{name}: {value}"
    for line in lines[end:]:
        title = _TITLE.match(line)
        if title:
            yield f"title: {title[1]}"
        yield from (each[1] for each in _STATED.finditer(line))
        yield from (each[1].strip() for each in _REPLACED.finditer(line))
