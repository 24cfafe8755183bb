"""What was seen of the rows, in words that stay the same while a table grows a little."""

from __future__ import annotations

import re
from typing import Any, Final

from ktx_cli.context.scan.describe.facts import TableFacts
from ktx_cli.context.scan.profiling.model import ColumnProfile, ValueKind
from ktx_cli.core.text import one_line, plural

FEW_ROWS: Final = 10
"""Below so many, rows are not told apart."""

MOST_VALUES: Final = 10
LONGEST_VALUE: Final = 30
MOST_COUNTED: Final = 20
"""A column with more values is no code."""

ROWS_A_VALUE: Final = 5
"""So many rows have to stand behind each value of a code, on average."""

SAMPLED_ROWS: Final = 1000
"""A smaller sample says nothing of values."""

_YEAR: Final = re.compile(r"(\d{4})-\d\d-\d\d")
_EMPTY: Final = ((0.9, "nearly every row"), (0.5, "most rows"), (0.1, "some rows"))


def rows_text(facts: TableFacts) -> str:
    """Return `at least 2,000 rows` or `about 3,000 rows`, an empty text where the count is not known.

    A count is given by the next lower 1, 2 or 5 with zeros, an estimate by its first digit.
    """
    count = facts.profile.row_count if facts.profile else None
    if facts.profile is None or count is None or (not facts.profile.exact_count and count <= 0):
        return ""
    if not facts.profile.exact_count:
        return f"about {plural(round(count, 1 - len(str(count))), 'row')}"
    if count < FEW_ROWS:
        return f"fewer than {FEW_ROWS} rows" if count else "no rows"
    scale = 10 ** (len(str(count)) - 1)
    step = max(each for each in (1, 2, 5) if each * scale <= count)
    return f"at least {step * scale:,} rows"


def empty_text(facts: TableFacts, profile: ColumnProfile | None) -> str:
    """Return how much of a column is NULL, an empty text below a tenth."""
    if profile is None or not profile.rows:
        return ""
    sample = "" if _complete(facts) else " of a sample"
    if not profile.filled:
        return f"Empty in every row{sample}."
    share = profile.nulls / profile.rows
    return next((f"Empty in {words}{sample}." for least, words in _EMPTY if share >= least), "")


def years_text(facts: TableFacts, profile: ColumnProfile | None) -> str:
    """Return `2021 to 2024`, where every row was looked at and values may be told."""
    if profile is None or not _complete(facts):
        return ""
    first, last = _year(profile.minimum), _year(profile.maximum)
    if first is None or last is None:
        return ""
    return first if first == last else f"{first} to {last}"


def values_text(facts: TableFacts, profile: ColumnProfile | None) -> str:
    """Return `3 values: open, paid, void` of a column with few values, without them where they may not be told.

    Of a sample only the values that are at least a hundredth of it, and that it is one.
    """
    if profile is None or profile.kind not in (ValueKind.TEXT, ValueKind.INTEGER) or not _is_few(profile):
        return ""
    if _complete(facts):
        told = _told([value for value, _ in profile.top]) if len(profile.top) == profile.distinct else ""
        return plural(profile.distinct or 0, "value") + (f": {told}" if told else "")
    told = _told([value for value, count in profile.top if count * 100 >= profile.rows])
    return f"in a sample mostly {told}" if told and profile.rows >= SAMPLED_ROWS else ""


def _is_few(profile: ColumnProfile) -> bool:
    distinct = profile.distinct or 0
    return 0 < distinct <= MOST_COUNTED and profile.filled >= ROWS_A_VALUE * distinct


def _told(values: list[Any]) -> str:
    texts = sorted(map(str, values))
    plain = all(text and len(text) <= LONGEST_VALUE and one_line(text) == text for text in texts)
    return ", ".join(texts) if plain and len(texts) <= MOST_VALUES else ""


def _year(value: Any) -> str | None:
    found = _YEAR.match(str(value))
    return found[1] if found else None


def _complete(facts: TableFacts) -> bool:
    return facts.profile is not None and facts.profile.complete
