"""Reads a question without the data: what it ranks or lists by which number, how many results it wants, its period.

A part of a question is only read if its words have a single meaning. Of the periods that depend on today's date, only
those are read that the query form itself counts back from today: the same files and question must give the same draft.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ktx_cli.search import FoundTable

_COUNTING: Final = re.compile(r"\b(?:how many|number of|count of|wie ?viele?|anzahl)\b")
AVERAGE: Final = re.compile(r"\b(?:average|mean|avg|durchschnitt\w*|mittlere\w*)\b")
_SHARE: Final = re.compile(r"\b(?:share|percentage|percent|rate|ratio|proportion|anteil|quote)\b")
_AMOUNT: Final = re.compile(
    r"\b(?:how much|amount|value|total|sum|revenue|cost|costs|price|sales|turnover|spend|umsatz)\b"
)
MONEY: Final = re.compile(
    r"\b(?:revenue|cost|costs|price|sales|turnover|spend|umsatz|amount|value|billed|paid|euros?|dollars?|expenses?|refunds?|money)\b"
)
PIECES: Final = re.compile(r"\b(?:units?|quantity|pieces|items sold|stueck|menge)\b")
_ADDED: Final = (MONEY, _AMOUNT, PIECES, _SHARE, re.compile(r"\bcount\b"))
"""Last words of the names of numbers."""
_VALUES: Final = re.compile(r"(?:number of|total|average)\b|(?:units|quantity|pieces|items) sold$")

_NUMBERS: Final = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "fifty": 50,
}  # fmt: skip
_NUMBER: Final = rf"(?:\d{{1,3}}(?:,\d{{3}})+|\d{{1,6}}|{'|'.join(_NUMBERS)})"
_UNIT: Final = r"(?:day|week|month|quarter|year)"

_HIGH: Final = r"(?:best[- ]selling|top|best|highest|largest|biggest|leading|meisten?|groesste\w*|(?<!at )most)"
_LOW: Final = r"(?:bottom|lowest|smallest|fewest|wenigsten|kleinste\w*|(?<!at )least)"
_WORST: Final = r"(?:worst|schlechteste\w*)"
_RANK: Final = rf"(?:{_HIGH}|first(?=[\s-]+{_NUMBER}\b)|{_LOW}|{_WORST})"
_RANKS: Final = "best selling top highest largest biggest leading most first bottom lowest smallest fewest least worst"
RANK_WORDS: Final = frozenset([*_RANKS.split(), *_NUMBERS])
"""Words about the order and the number of results."""
RANK_STEMS: Final = RANK_WORDS | {"sell", "lead", "thre", "fiv", "nin", "twelv"}
_REQUESTS: Final = (
    "many much show list give giv tell compar differ percentag percent share shar ratio proport often get come com in "
    "overall overal vs versus top"
)
REQUEST_STEMS: Final = frozenset(_REQUESTS.split())
"""Stems of words about the result that name nothing."""
_FILLERS: Final = "value valu total sum count number averag avg rate rat distinct the row of amount"
FILLER_STEMS: Final = frozenset(_FILLERS.split())
"""Stems of words in the names of many numbers."""

CUT: Final = re.compile(
    r"(?:,|\s)\s*(?:by|per|for each|in each|of each|for every|in every|each|broken down by|split by|grouped by"
    r"|je|pro|nach)\s+(.+)$"
)
"""The dimensions at the end of a question."""
_RANKED: Final = re.compile(
    rf"(?P<start>.*?)\b(?:(?:(?P<before>{_NUMBER})\s+)?(?P<rank>{_RANK})[\s-]+(?:(?P<count>{_NUMBER})\s+)?"
    rf"(?P<things>[^,]+?)|which\s+(?:(?P<few>{_NUMBER})\s+)?(?P<which>[^,]+?)"
    r"(?:\s+(?:sells?|sold|ranks?|ranked|performs?|performed|are|is))?"
    r"\s+(?:the\s+)?(?P<most>best|most|highest|top|lowest|least))\s+by\s+(?P<value>[^,]+)",
    re.IGNORECASE,
)
_DOING: Final = (
    r"(?:\w+ed|brings?|brought|has|have|had|gets?|got|makes?|made|sells?|sold|spends?|spent|earns?|generates?|buys?"
    r"|bought|sees?|saw|takes?|took|receives?|places?|causes?|creates?|handles?)"
)
_HAVING: Final = re.compile(
    rf"(?:(?P<start>(?:.*?\s)??)(?:(?:{_RANK}[\s-]+)?(?P<count>{_NUMBER})\s+)?(?P<things>[\w-]+)"
    rf"\s+(?:with|having|that have|who have)|(?:which|what)\s+(?:(?P<few>{_NUMBER})\s+)?"
    rf"(?P<which>[\w-]+(?:\s[\w-]+)??)\s+{_DOING}(?:\s[\w-]+){{0,2}}?)"
    rf"\s+the\s+(?P<most>{_RANK})\s+(?P<value>[^,]+)",
    re.IGNORECASE,
)
_LISTED: Final = re.compile(
    r"(?:(?:please\s+)?(?:show|list|give|rank|sort|order)\s+(?:me\s+)?)?(?:(?:all|our|the)\s+)*"
    r"(?P<things>[\w-]+(?:\s[\w-]+){0,2}?)(?:\s+(?:ranked|sorted|ordered))?\s+by\s+(?P<value>[^,]+)",
    re.IGNORECASE,
)
_ASKING: Final = re.compile(
    r"\b(?:what|which|who|how|when|where|is|are|was|were|did|does|do|per|each|of|in|with|daily|weekly|monthly"
    r"|quarterly|yearly|annual)\b"
)
"""Words that a plain list of things does not contain."""
_TAIL: Final = re.compile(
    r"\s+(?:in|for|from|within|among|at|on|per|by|with|without|and|during|where|who|that|over|excluding|through)\s.*$",
    re.IGNORECASE,
)
_GROUPS: Final = re.compile(r"\s+(?:per|by|for each|in each|of each|for every|in every)\s+", re.IGNORECASE)
_NO_THINGS: Final = re.compile(rf"^\s*\d*\s*(?:%|percent|per cent)|\b(?:{_HIGH}|{_LOW}|{_WORST})\b", re.IGNORECASE)
"""Shares of things and second ranks, which are not names of things."""
_LEAD: Final = re.compile(rf"\b(?:top|bottom|worst)\s+(?:{_NUMBER}\s+)?", re.IGNORECASE)
"""The start of the part that `by_value` puts first."""


def by_value(question: str) -> str:
    """Return a question for things ranked or listed by a number with the number first, as in other questions.

    `top 5 customers by net revenue` is `top 5 net revenue by customers`; `top 5 products by category` is unchanged.
    """
    found = _RANKED.match(question)
    if found is not None:
        count = found["before"] or found["count"] or found["few"] or ""
        return _number_first(found, found["rank"] or found["most"], count, found["things"] or found["which"])
    found = _HAVING.match(question)
    if found is not None and not _COUNTING.search((found["start"] or "").casefold()):
        count = found["count"] or found["few"] or ""
        return _number_first(found, found["most"], count, found["things"] or found["which"])
    found = _LISTED.fullmatch(question.strip(" ?.!"))
    if found is not None and not _is_number(found["things"]) and not _ASKING.search(found["things"].casefold()):
        ordered = _number_first(found, "top", "", found["things"])
        return question if ordered == found.string else ordered
    return question


def _number_first(found: re.Match[str], rank: str, count: str, things: str) -> str:
    """Return a question with the number first, or unchanged if it ranks by something else."""
    times = [each[0].strip() for part in (things, found["value"]) for each in TIMES.finditer(part)]
    value, rest = _with_tail(TIMES.sub(" ", found["value"]))
    if rank.casefold() in ("most", "fewest", "least") and value.endswith("s") and not _is_number(value):
        value = f"number of {value}"
    if not _is_number(value) or _NO_THINGS.search(things):
        return found.string
    groups = []
    for part in _GROUPS.split(TIMES.sub(" ", things)):
        group, tail = _with_tail(part)
        groups.append(group)
        rest += tail
    if _GROUPS.match(rest):
        groups, rest = [*groups, _GROUPS.sub("", rest, count=1)], ""
    word = "bottom" if re.fullmatch(_LOW, rank, re.I) else "worst" if re.fullmatch(_WORST, rank, re.I) else "top"
    start = found.groupdict().get("start") or ""
    number = " ".join(filter(None, (word, count, f"{value}{rest}")))
    return f"{start}{number} by {' and '.join(groups)} {' '.join(times)}{found.string[found.end() :]}".strip()


def _with_tail(text: str) -> tuple[str, str]:
    """Return the name at the start of a phrase, and the rest."""
    text = " ".join(text.strip(" ?.!").split())
    tail = _TAIL.search(text)
    return (text[: tail.start()], tail[0]) if tail else (text, "")


def _is_number(text: str) -> bool:
    """Return whether a text ends with the name of a number, such as `net revenue` or `number of orders`."""
    words = text.replace("_", " ").casefold().strip()
    return bool(_VALUES.search(words)) or any(kind.search(words.rpartition(" ")[2]) for kind in _ADDED)


def measured_part(question: str) -> str:
    """Return the part of a question about the measure: without dimensions, ranks, times and parentheses."""
    text = by_value(question)
    text = re.sub(r"\([^)]*\)", " ", text if text == question else _LEAD.sub(" ", text, count=1))
    cut = CUT.search(text)
    text = text[: cut.start()] if cut else text
    return TIMES.sub(" ", text).strip(" ?.!,") or question


_NUMBER_OF: Final = re.compile(rf"(?:{_AMOUNT.pattern}|{_SHARE.pattern}|{AVERAGE.pattern}|\bnumber\b)\s+of\b")
_WHICH: Final = re.compile(
    r"\b(?:which|what|welche[rsn]?)\s+(.+?)\s+(?:brings?|has|have|had|do|does|is|are|gets?|makes?|sells?)\b"
)
BESIDE: Final = re.compile(
    r",|&|\b(?:and|und|vs|versus|compared (?:to|with)|(?:along |together )?with(?: the| its)?)\b"
)
"""What separates several measures."""
BETWEEN: Final = re.compile(
    rf"{BESIDE.pattern}|\b(?:per|by|in each|of each|each|in every|for every|every|je|pro|nach)\b(?! cent)"
)
"""What separates several dimensions."""
_COUNTED: Final = re.compile(
    r"\b(?:how many|number of|count of|wie ?viele?|anzahl(?: der)?)\s+(.+?)"
    r"(?:\s+(?:did|do|does|have|has|had|were|was|are|is|came|began|joined|started|of our|haben|gibt|sind|wurden)\b|$)"
)
_OBJECT: Final = re.compile(
    r"\b(?:amount|value|costs?|total|sum|revenue|price|average|turnover|sales|spend|rate|share)\b[^,]*?"
    r"\b(?:of|from|for)\s+(?:the|our|all|an?)?\s*(.+?)(?:\s+(?:that|which|in|we)\b|$)"
)
_GRAIN: Final = re.compile(rf"\b({_UNIT}|tag|woche|monat|quartal|jahr)\b")
OFTEN: Final = re.compile(r"\b(?:daily|weekly|monthly|quarterly|yearly|annual(?:ly)?)\b")
"""Words about the length of the periods of a result."""
_GRAINS: Final = {
    "daily": "day", "weekly": "week", "monthly": "month", "quarterly": "quarter", "yearly": "year", "annual": "year",
    "annually": "year", "tag": "day", "woche": "week", "monat": "month", "quartal": "quarter", "jahr": "year",
}  # fmt: skip


def wanted_aggregate(text: str) -> str | None:
    """Return the aggregate that a folded question asks for: `count`, `avg`, `share`, `sum` or None."""
    if _COUNTING.search(text):
        return "sum" if re.search(r"\b(?:units|number of units|hours|minutes)\b", text) else "count"
    if AVERAGE.search(text):
        return "avg"
    if _SHARE.search(text):
        return "share"
    return "sum" if _AMOUNT.search(text) or PIECES.search(text) else None


def counted_noun(text: str) -> str:
    """Return the counted noun, such as `support tickets` in `how many support tickets were there`; empty if none is."""
    found = _COUNTED.search(text)
    return found[1] if found else ""


def amount_subject(text: str) -> str:
    """Return what an amount is of, such as `ads` in `the cost of our ads`; empty if nothing is named."""
    found = _OBJECT.search(text)
    return found[1] if found else ""


def which_things(text: str) -> str:
    """Return the things that a question selects from, such as `regions` in `which regions have`; empty if none."""
    found = _WHICH.search(text)
    return found[1] if found and not _NUMBER_OF.search(found[1]) and not _is_number(found[1]) else ""


def alike(word: str, asked: Iterable[str]) -> bool:
    """Whether a stem equals one of the others, or shares a prefix or suffix of at least four letters with it."""
    return any(
        word == each
        or (len(each) >= 4 and (word.startswith(each) or word.endswith(each)))
        or (len(word) >= 4 and (each.startswith(word) or each.endswith(word)))
        for each in asked
    )


def negated(text: str) -> str:
    """Return the words after a `not` or `<>` in a text, such as `cancelled` in `orders that were not cancelled`."""
    no = r"(?:\b(?:not|never|\w+n['\u2019]t|nicht)\b|<>|!=)"
    filled = r"(?:(?:yet|been|be|have|in|from|of|with|by|at|on|for|the|an?) )*"
    return " ".join(re.findall(rf"{no}\W*{filled}(\w+)", text.casefold()))


def conditions(text: str) -> list[str]:
    """Return the comparisons with numbers in a folded question, such as `more than 3`."""
    than = r"(?:more|less|fewer|greater|higher|lower|larger|smaller|older|longer) than"
    return re.findall(rf"\b(?:{than}|at least|at most|exactly|over|under|above|below)\s+\W?{_NUMBER}\b", text)


def how_often(text: str) -> str:
    """Return the word such as `monthly` in a question; empty if there is none."""
    found = OFTEN.search(text)
    return found[0] if found else ""


def grain_of(text: str) -> str:
    """Return the length of the periods that a phrase such as `month` or `monthly` names; empty if it names none."""
    found = OFTEN.search(text) or _GRAIN.search(text)
    return _GRAINS.get(found[0], found[0]) if found else ""


@dataclass(frozen=True, slots=True)
class Ranking:
    """How a question ranks results, and how many it wants.

    `descending` is None if it is unclear. `limit` is the text about the number of results, such as `top 5`, and `count`
    is the number, or None for a share of them.
    """

    descending: bool | None
    count: int | None = None
    limit: str = ""


_HIGHEST: Final = re.compile(rf"\b{_HIGH}\b")
_LOWEST: Final = re.compile(rf"\b{_LOW}\b")
_WORST_OF: Final = re.compile(rf"\b{_WORST}\b")
_WANTED: Final = re.compile(
    rf"\b{_RANK}[\s-]*(?P<after>{_NUMBER})\b(?P<part>\s*(?:%|percent\b|per cent\b))?(?!\s+{_UNIT}s?\b)"
    rf"|\b(?P<before>{_NUMBER})\s+{_RANK}\b|\b(?:which|what)\s+(?P<which>(?!one\b){_NUMBER})\s"
)
_YEAR: Final = re.compile(r"(?<!\d)((?:19|20)\d\d)(?!\d)")


def ranking(text: str) -> Ranking | None:
    """Return how a folded question ranks results, or None if it does not."""
    high, low, worst = (bool(each.search(text)) for each in (_HIGHEST, _LOWEST, _WORST_OF))
    if not (high or low or worst):
        return None
    descending = None if worst or high == low else high
    found = _WANTED.search(text)
    number = (found["after"] or found["before"] or found["which"]) if found else None
    if found is None or number is None or _YEAR.fullmatch(number):
        return Ranking(descending)
    return Ranking(descending, None if found["part"] else _count(number) or None, found[0].strip())


def _count(number: str) -> int:
    return _NUMBERS.get(number) or int(number.replace(",", ""))


_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
MONTHS: Final = frozenset(_MONTHS)
_YYYY: Final = r"(?:19|20)\d\d"
_SHORT: Final = r"(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b\.?"
_MONTH: Final = rf"(?:{'|'.join(_MONTHS)}|{_SHORT})"
_DAY: Final = r"(?:3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?"
_ORDINALS: Final = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4}
_PART: Final = rf"(?:q[1-4]|h[12]|(?:{'|'.join(_ORDINALS)})\s+(?:quarter|half))"
_DATED: Final = (
    rf"(?:(?:{_DAY}\s+(?:of\s+)?)?{_MONTH}(?:\s+{_DAY}\b,?)?\s+(?:of\s+|in\s+)?{_YYYY}"
    rf"|{_PART}[\s/-]*(?:of\s+|in\s+)?{_YYYY}|{_YYYY}(?:-\d\d(?:-\d\d)?|[\s/-]?q[1-4])"
    rf"|(?:(?:fiscal |financial |calendar )?year\s+|fy\s*)?{_YYYY})(?![\d/.-]*\d)"
)
"""Periods with a known year."""
_SPAN: Final = rf"(?:(?:last|past|previous|trailing)\s+{_NUMBER}[\s-]{_UNIT}s?|past\s+(?:week|month|quarter|year))\b"
"""Periods that the query form counts back from today."""
_CALENDAR: Final = (
    r"(?:(?:this|last|past|previous|current|next|coming|dieses?[rsnm]?|letzte[rns]?)\s+"
    rf"(?:(?:{_NUMBER}|few|couple of|several|completed?|full|whole|calendar|fiscal|financial|business)\s+){{0,2}}"
    rf"(?:{_UNIT}s?|hours?|minutes?|weekend|jahre?n?|monate?n?|quartale?n?|wochen?|tagen?)"
    r"|today|yesterday|tomorrow|(?:year|month|quarter|week) to date|[ymqw]td|heute|gestern)\b"
)
"""Periods that depend on today's date."""
_MONTHS_OF: Final = re.compile(
    rf"\b(?:(?:from|between)\s+)?({_MONTH})\s*(?:to|and|until|through|[-\u2013])\s*({_MONTH})\s+{_YYYY}\b"
)
_YEARS_OF: Final = re.compile(
    rf"\b(?:between\s+{_YYYY}\s+and|(?:from\s+)?{_YYYY}\s*(?:to|until|through|[-\u2013]))\s*{_YYYY}\b"
)
TIMES: Final = re.compile(
    r"\b(?:(?:(?:in|on|during|since|for|of|over|within|from|before|after|until)\s+)?(?:the\s+)?"
    rf"(?:{_MONTHS_OF.pattern}|{_YEARS_OF.pattern}|{_DATED}|{_SPAN}|{_CALENDAR})"
    rf"|(?:in|during|since|for|of)\s+{_MONTH}\b)",
    re.IGNORECASE,
)
"""Periods with the words before them."""
_OTHER: Final = re.compile(
    rf"\b(?:{_CALENDAR}|ago\b|between\b|until\b|before\b|after\b|{_PART}\b|(?:week|cw|kw)\s+\d|(?!may|mar){_MONTH}\b"
    r"|(?:in|since|during|of|until|by)\s+(?:may|march)\b)"
)
"""Periods without a year, and words that begin one."""
_BOUNDS: Final = re.compile(r"\b(?:between|until|till|before|after|through|up to|bis|vor|nach|from)\b")
"""Words that change the meaning of a period."""
_WITHOUT: Final = re.compile(
    r"\b(?:before|after|vor|nach)\s+(?:(?:all|the|any|they were)\s+)*"
    r"(?:refunds?|returns?|discounts?|tax(?:es)?|vat|cancellations?|costs?|fees?|shipping|due)\b"
    rf"|\bfrom\s+(?!(?:the\s+)?{_DATED}|{_MONTH})"
)
"""Phrases in which these words are about amounts, deadlines and origins."""
_VAGUE: Final = re.compile(
    rf"\b(?:early|mid|late|beginning|start|middle|end|week|weekend|cw|kw)[\s\d-]*(?:of\s+)?(?:the\s+)?(?:{_MONTH}\s+)?"
    rf"(?:year\s+)?{_YYYY}|(?<![qh\d])(?:\d\d?[/.])?\d\d?[/.]{_YYYY}|{_YYYY}[/.]\d"
)
"""Periods within a year that are not read."""
_SINCE: Final = re.compile(
    rf"\b(?:since|seit|ab|starting)\s+(?:(?:in|from|on)\s+)?(?:the\s+)?{_DATED}"
    rf"|\bfrom\s+(?:the\s+)?{_DATED}\s+(?:on|onwards?)\b"
)
_BOUND: Final = re.compile(rf"\b(before|after)\s+(?:the\s+)?{_DATED}")
_LONGEST_PHRASE: Final = 60


@dataclass(frozen=True, slots=True)
class Period:
    """The period of a question.

    `range` is the `time_range` of the query form, or empty if the period has no single meaning there. `phrase` are its
    words. `last` is the nearest period that the query form counts back from today.
    """

    range: dict[str, str]
    phrase: str = ""
    last: str = ""


def period(text: str) -> Period | None:
    """Return the period of a folded question, or None if it has none."""
    text = _WITHOUT.sub(" ", text)
    phrase = _phrase(text)
    years = [int(each) for each in _YEAR.findall(text)]
    spans = re.findall(_SPAN, text)
    if spans:
        is_clear = len(spans) == 1 and not years and not _OTHER.search(re.sub(_SPAN, " ", text))
        return Period({"last": _last(spans[0])} if is_clear else {}, phrase)
    if years:
        return Period(_dated(text, years), phrase)
    found = _OTHER.search(text)
    unit = re.search(rf"\b(?:last|previous)\s+({_UNIT})\b", text)
    return Period({}, phrase or found[0], f"1 {unit[1]}" if unit else "") if found else None


def _phrase(text: str) -> str:
    """Return the words about the period, from the first to the last of them."""
    found = list(TIMES.finditer(text))
    vague = _VAGUE.search(text)
    if vague is not None or not found:
        return vague[0] if vague else ""
    words = text[found[0].start() : found[-1].end()]
    words = words if len(words) <= _LONGEST_PHRASE else found[0][0]
    return re.sub(r"^(?:in|on|during|for|of|over|within)\s+", "", words.strip())


def _last(span: str) -> str:
    found = re.search(rf"({_NUMBER})[\s-]({_UNIT})", span)
    return f"{_count(found[1])} {found[2]}s" if found else f"1 {span.split()[-1]}"


def _dated(text: str, years: list[int]) -> dict[str, str]:
    """Return the range of a folded question with these years, or nothing if its meaning is unclear."""
    if _VAGUE.search(text) or (len(years) > 1 and re.search(r"\b(?:compared?|versus|vs)\b", text)):
        return {}
    months, through = _MONTHS_OF.search(text), _YEARS_OF.search(text)
    found = months or through
    rest = text if found is None else text[: found.start()] + text[found.end() :]
    if months is not None and len(years) == 1 and not _OTHER.search(rest) and not _BOUNDS.search(rest):
        first, last = _month(months[1]), _month(months[2])
        return _months(years[0], first, last - first + 1) if first < last else {}
    if _OTHER.search(_BOUNDS.sub(" ", re.sub(_DATED, " ", text))):
        return {}
    if len(years) > 1:
        low, high = min(years), max(years)
        is_whole = found is not None or set(years) == set(range(low, high + 1))
        dates = re.findall(_DATED, text)
        is_plain = not _BOUNDS.search(rest) and all(re.fullmatch(rf"\D*{_YYYY}", each) for each in dates)
        is_plain = is_plain and not re.search(rf"\b(?:{_MONTH}|{_PART})\s", text)
        return {"start": f"{low}-01-01", "end": f"{high + 1}-01-01"} if is_whole and is_plain else {}
    return _bounded(text, years[0])


def _bounded(text: str, year: int) -> dict[str, str]:
    """Return the range of a folded question with one date, and maybe a word such as `since` before it."""
    written = re.search(_DATED, text)
    found = _one(written[0], year) if written else {}
    if not found:
        return {}
    bound = _BOUND.search(text)
    others = _BOUNDS.sub(" ", text, count=1) if bound or re.search(r"\bfrom\b", text) else text
    if _BOUNDS.search(others):
        return {}
    if _SINCE.search(text):
        return {"start": found["start"]}
    if bound is not None:
        return {"end": found["start"]} if bound[1] == "before" else {"start": found["end"]}
    return {} if _BOUNDS.search(text) else found


def _one(written: str, year: int) -> dict[str, str]:
    """Return the range of one day, month, quarter, half or year; empty for a day that does not exist."""
    from datetime import date, timedelta

    iso = re.search(rf"{_YYYY}-(\d\d)(?:-(\d\d))?", written)
    part = re.search(rf"\b(?:([qh])([1-4])\b|({'|'.join(_ORDINALS)})\s+(quarter|half))", written)
    part = part or re.search(r"(q)([1-4])$", written)
    month = re.search(_MONTH, written)
    day = re.search(rf"\b({_DAY})\b", re.sub(_YYYY, " ", written)) if month and not iso else None
    try:
        if (iso and iso[2]) or (month and day):
            number, at = (int(iso[1]), iso[2]) if iso else (_month(month[0]) if month else 0, day[1] if day else "")
            start = date(year, number, int(re.sub(r"\D", "", at or "")))
            return {"start": start.isoformat(), "end": (start + timedelta(days=1)).isoformat()}
        if iso:
            return _months(year, date(year, int(iso[1]), 1).month, 1)
    except ValueError:
        return {}
    if month:
        return _months(year, _month(month[0]), 1)
    if part:
        number = int(part[2]) if part.lastindex and part[2] else _ORDINALS[part[3]]
        length = 3 if (part[1] or part[4]) in ("q", "quarter") else 6
        return _months(year, length * (number - 1) + 1, length) if length * number <= 12 else {}
    return {"start": f"{year}-01-01", "end": f"{year + 1}-01-01"}


def _month(name: str) -> int:
    return next(number for number, each in enumerate(_MONTHS, 1) if each.startswith(name[:3]))


def _months(year: int, first: int, count: int) -> dict[str, str]:
    after = first + count
    return {"start": f"{year}-{first:02}-01", "end": f"{year + (after > 12)}-{(after - 1) % 12 + 1:02}-01"}


_COUNTRIES: Final = """
argentina argentinien AR ARG|australia australien AU AUS|austria osterreich AT AUT|belgium belgien BE BEL
brazil brasilien BR BRA|bulgaria bulgarien BG BGR|canada kanada CA CAN|chile CL CHL|china CN CHN
colombia kolumbien CO COL
croatia kroatien HR HRV|czechia tschechien CZ CZE|denmark danemark DK DNK|egypt agypten EG EGY|estonia estland EE EST
finland finnland FI FIN|france frankreich FR FRA|germany deutschland DE DEU|greece griechenland GR GRC
hungary ungarn HU HUN|iceland island IS ISL|india indien IN IND|indonesia indonesien ID IDN|ireland irland IE IRL
israel IL ISR|italy italien IT ITA|japan JP JPN|kenya kenia KE KEN|latvia lettland LV LVA|lithuania litauen LT LTU
luxembourg luxemburg LU LUX|malaysia MY MYS|malta MT MLT|mexico mexiko MX MEX|morocco marokko MA MAR
netherlands holland niederlande NL NLD|nigeria NG NGA|norway norwegen NO NOR|pakistan PK PAK|peru PE PER
philippines philippinen PH PHL|poland polen PL POL|portugal PT PRT|romania rumanien RO ROU|serbia serbien RS SRB
singapore singapur SG SGP|slovakia slowakei SK SVK|slovenia slowenien SI SVN|spain spanien ES ESP
sweden schweden SE SWE|switzerland schweiz CH CHE|taiwan TW TWN|thailand TH THA|turkey turkei TR TUR|ukraine UA UKR
vietnam VN VNM|usa america amerika US USA|britain uk england GB GBR
"""
"""Country names in English and German in lower case without accents, followed by their ISO 3166 codes."""

_CODES: Final = {
    name: tuple(codes)
    for entry in _COUNTRIES.replace("\n", "|").split("|")
    if entry
    for *names, short, long in [entry.split()]
    for codes in [(short, long)]
    for name in names
}

FindValues = Callable[[str], Sequence[str]]
"""Takes a text and returns conditions for values that contain it, such as `customers.country = 'NO'`."""


def bindings(
    words: Collection[str], stems: Collection[str], tables: Sequence[FoundTable], reached: Collection[str],
    stems_of: Callable[[str], list[str]], find: FindValues,
) -> Iterator[str]:  # fmt: skip
    """Yield conditions for the values in a question, in sources that its fact reaches.

    `words` are the folded words of the question, and `stems` their stems. A value matches if the question contains it
    in full, or if it is the code of a country in the question.
    """
    for table in tables:
        if table.name not in reached:
            continue
        for condition in sorted(table.values, key=lambda each: (-table.values[each], each)):
            column, _, value = condition.partition(" = ")
            own = stems_of(value)
            if own and set(own) <= set(stems) and not set(own) <= set(stems_of(column)):
                yield condition
                break
    for word in words:
        for code in _CODES.get(word, ()):
            conditions = (each for each in find(code) if _is_of(each, code, reached))
            bound = next(conditions, None)
            if bound is not None:
                yield bound
                break


def _is_of(condition: str, code: str, reached: Collection[str]) -> bool:
    column, _, value = condition.partition(" = ")
    return value.strip("'").upper() == code and column.rpartition(".")[0] in reached
