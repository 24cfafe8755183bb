"""Which columns identify the rows of a table: unique ones, and unique sets found level by level.

The search over sets is the level-wise one for unique column combinations (Abedjan and Naumann, 2011), bounded to the
columns that can be part of a key and to sets of four.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import prod
from typing import Any, Final

from ktx_cli.scan.relationships.facts import ColumnFacts, Family, TableFacts
from ktx_cli.scan.relationships.names import phrase_alike, words

WIDEST_KEY = 4
"""Columns in a composite key at most."""

MEMBERS = 10
"""How many of a table's columns are tried as members of a composite key."""

FEWEST_GROUPS = 3
"""In so many groups a number has to count the rows to be a line's number."""

_BY_FAMILY: Final[Mapping[Family, float]] = {
    Family.INTEGER: 0.5,
    Family.TEXT: 0.1,
    Family.TIME: -1.0,
    Family.OTHER: -2.0,
}
"""How plausible a key is by what its values are."""

_BY_WORD: Final = (("measure", 0.9), ("flag", 0.8), ("text", 1.2), ("time", 0.8))
"""What a key loses by a word of a kind in its name."""

_SURROGATES = frozenset({"id", "uuid", "guid", "pk", "sk", "oid", "rowid"})


_COUNTERS = frozenset(
    {
        "seq",
        "line",
        "position",
        "pos",
        "sequence",
        "row",
        "item",
        "rank",
        "step",
        "lfd",
        "zeile",
        "linea",
        "ligne",
        "riga",
    }
    | {"linha", "regel", "pozycja", "wiersz", "lin", "ordinal"}
)


_PERIODS = frozenset(
    {"year", "month", "day", "week", "quarter", "hour", "jahr", "monat", "tag", "woche", "ano", "mes"}
) | {
    "dia",
    "annee",
    "mois",
    "jour",
    "anno",
    "mese",
    "giorno",
    "jaar",
    "maand",
    "dag",
    "rok",
    "miesiac",
    "dzien",
    "semana",
}


def is_period(column: ColumnFacts) -> bool:
    """Whether a column says when: a date, or a year, a month, a day by name."""
    return column.family is Family.TIME or bool(_PERIODS & set(column.parts))


def own_name(column: ColumnFacts) -> float:
    """Return how far a column's name says that it is the key of its own table, 0 to 1."""
    parts, table = column.parts, column.table
    if not column.base and not column.keyed:
        return 0.0
    if not column.base:
        return 0.95 if parts[-1] in _SURROGATES or parts[0] in _SURROGATES else 0.75
    alike = max([weight * phrase_alike(column.base, each) for each, weight in _spellings(table.words, table.numbered)])
    if alike >= 0.5:
        return alike * (1.0 if column.keyed else 0.8)
    return 0.4 if column.keyed else 0.0


def key_score(column: ColumnFacts) -> float:
    """Return how plausible a unique column is as the primary key of its table, from name, type, place and values."""
    profile = column.profile
    score = 2.2 * own_name(column)
    score += 0.9 if column.position == 0 else 0.3 if column.position == 1 else 0.0
    score += _BY_FAMILY[column.family]
    if column.family is Family.INTEGER and column.counts:
        score += 0.4 if _dense(column) else 0.0
        score -= 1.0 if profile.minimum < 0 else 0.0
    if column.family is Family.TEXT and column.counts:
        longest = profile.longest or 0
        score += 0.3 if profile.shortest == longest else 0.0
        score -= 0.8 if longest > 40 else 0.0
        score -= 0.8 if any(" " in str(value) for value, _ in profile.top) else 0.0
    for kind, weight in _BY_WORD:
        score -= weight if column.base and column.says(kind) else 0.0
    score -= 1.5 if profile.nulls else 0.0
    return score


def unique_columns(table: TableFacts) -> list[ColumnFacts]:
    """Return the columns of which no value stands twice, the most plausible key first."""
    found = [
        column
        for column in table.columns
        if column.family is not Family.OTHER
        and column.profile.unique
        and column.profile.nulls <= 0.2 * column.profile.rows
    ]
    return sorted(found, key=lambda column: (-key_score(column), column.position))


def composite_keys(table: TableFacts, likely: Iterable[str] = ()) -> list[tuple[ColumnFacts, ...]]:
    """Return minimal sets of two and more columns that are unique in the sample, smaller and more plausible ones first.

    `likely`: columns that refer to other tables, which are members of keys more than others are.
    """
    rows = table.sampled.profile.rows
    if rows < 2:
        return []
    expected = set(likely)
    members = [column for column in table.columns if _can_be_member(column)]
    members.sort(key=lambda column: (-member_score(column, column.name in expected), column.position))
    members = sorted(members[:MEMBERS], key=lambda column: column.position)
    found: list[tuple[ColumnFacts, ...]] = []
    for size in range(2, WIDEST_KEY + 1):
        for group in combinations(members, size):
            if any(set(key) <= set(group) for key in found):
                continue
            if prod(column.distinct for column in group) >= rows and is_unique(group, rows):
                found.append(group)
        if found and size >= 3:
            break
    return sorted(found, key=lambda group: (-set_score(group, expected), len(group), [c.position for c in group]))


def member_score(column: ColumnFacts, refers: bool) -> float:
    """Return how plausible a column is as a member of a composite key."""
    score = 2.0 if refers else 0.0
    score += 1.2 if column.keyed else 0.0
    score += 0.8 / (1 + column.position)
    score += {Family.INTEGER: 0.5, Family.TEXT: 0.2, Family.TIME: 0.3, Family.OTHER: -3.0}[column.family]
    if _COUNTERS & set(column.parts):
        score += 1.0
    elif column.says("measure") and not _PERIODS & set(column.parts):
        score -= 1.2
    score -= 0.8 if column.says("text") else 0.0
    score -= 0.5 if column.says("flag") else 0.0
    score -= 0.4 if column.says("time") else 0.0
    if column.family is Family.TEXT and (column.profile.longest or 0) > 40:
        score -= 1.0
    return score


def counts_rows(column: ColumnFacts) -> bool:
    """Whether a column is called as a number is that counts rows within another's: a line, a position, a sequence."""
    return column.family is Family.INTEGER and bool(_COUNTERS & set(column.parts))


def numbers_within(outer: ColumnFacts, inner: ColumnFacts) -> bool:
    """Whether integers count the rows of each value of another column, from 0 or 1 on, and some value has several."""
    if inner.family is not Family.INTEGER or inner.empty or inner.profile.minimum not in (0, 1):
        return False
    groups: dict[Any, list[int]] = defaultdict(list)
    values = outer.table.sampled.values
    for key, number in zip(values[outer.name], values[inner.name], strict=True):
        if key is not None and number is not None:
            groups[key].append(int(number))
    several = [numbers for numbers in groups.values() if len(numbers) > 1]
    counted = sum(sorted(numbers) == list(range(min(numbers), min(numbers) + len(numbers))) for numbers in several)
    return len(several) >= FEWEST_GROUPS and counted >= 0.9 * len(several)


def set_score(group: Sequence[ColumnFacts], expected: set[str]) -> float:
    """Return how plausible a set is as the primary key: its members', less something for each of them."""
    scores = [member_score(column, column.name in expected) for column in group]
    return sum(scores) / len(scores) + 0.3 * min(scores) - 0.35 * len(group)


def expected_repeats(group: Sequence[ColumnFacts]) -> float:
    """Return how many pairs of rows would be alike by chance if the columns had nothing to do with each other.

    A set of few expected repetitions is unique by accident, and says nothing about the table.
    """
    rows = group[0].table.sampled.profile.rows
    alike = prod(sum((count / rows) ** 2 for count in column.counts.values()) for column in group)
    return rows * (rows - 1) / 2 * alike


def is_unique(group: Sequence[ColumnFacts], rows: int) -> bool:
    """Whether no combination of the columns' values stands twice in the sample."""
    values = group[0].table.sampled.values
    seen: set[Any] = set(zip(*(values[column.name] for column in group), strict=True))
    return len(seen) == rows


def _can_be_member(column: ColumnFacts) -> bool:
    profile = column.profile
    return column.family is not Family.OTHER and profile.nulls == 0 and column.distinct > 1 and not profile.unique


def _dense(column: ColumnFacts) -> bool:
    """Whether integers follow each other with few gaps, as numbers given in turn do."""
    profile = column.profile
    width = int(profile.maximum) - int(profile.minimum) + 1
    rows = column.table.rows if not column.table.complete else column.distinct
    return width <= 2 * max(rows, 1)


@functools.lru_cache(maxsize=100_000)
def _spellings(spoken: tuple[str, ...], numbered: tuple[str, ...]) -> tuple[tuple[tuple[str, ...], float], ...]:
    """Return the words of a table's name whole, and in part: `order header` is an order, `sales order` is one too."""
    found = [(each, 1.0) for each in dict.fromkeys((spoken, numbered))]
    if len(spoken) > 1:
        found.append((spoken[:-1], 0.9 if spoken[-1] in _HEADS else 0.5))
        found.append((spoken[-1:], 0.8))
    return tuple(found)


_HEADS = words("discriminator") | frozenset(
    {"header", "hdr", "head", "kopf", "info", "detail", "details", "record", "list", "entry", "profile", "main"}
)
