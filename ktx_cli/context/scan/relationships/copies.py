"""Tables that repeat others: staging, backups, archives. Nothing refers to a copy but what is of its own layer."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ktx_cli.context.scan.relationships.facts import ColumnFacts, TableFacts
from ktx_cli.context.scan.relationships.names import tokens, words

if TYPE_CHECKING:
    from ktx_cli.context.scan.relationships.pairs import Pair

ALIKE = 0.8
"""The share of columns two tables have in common from which one may be the other's copy."""

SLACK = 0.02
"""So much larger a share of rows may find nothing in the table of one's own layer than in its copy."""


def without_copies(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the pairs without those to a copy where the same column may refer to the original, or the reverse.

    A copy's own key refers to nothing. Of several parents the one of the child's own layer stays, else the one with the
    fewest marks in its name; of two schemas the child's own.
    """
    groups: dict[tuple[ColumnFacts, tuple[str, ...], str], list[Pair]] = defaultdict(list)
    for pair in pairs:
        if _repeats(pair):
            continue
        groups[pair.child, core(pair.key.table), pair.key.joined].append(pair)
    return [pair for group in groups.values() for pair in _without_copies(group)]


def _repeats(pair: Pair) -> bool:
    """Whether a column is in a copy, or in the original, what the key is in the other."""
    mine, theirs = pair.child.table, pair.key.table
    same = mine is not theirs and pair.child.joined == pair.key.joined and core(mine) == core(theirs)
    return same and marks(mine) != marks(theirs) and are_alike(mine, theirs)


def _without_copies(group: Sequence[Pair]) -> list[Pair]:
    if len(group) == 1:
        return list(group)
    nearest = min(group, key=_distance)
    return [pair for pair in group if pair is nearest or not _is_needless(pair, nearest)]


def _distance(pair: Pair) -> tuple[int, int, bool]:
    """Return how far a parent is from a child's layer: by the marks only one of them has, by its own, by schema."""
    mine, theirs = marks(pair.child.table), marks(pair.key.table)
    away = pair.child.table.table.ref.schema != pair.key.table.table.ref.schema
    return len(mine ^ theirs), len(theirs), away


def _is_needless(pair: Pair, nearest: Pair) -> bool:
    if _distance(pair) == _distance(nearest) or pair.key.table is pair.child.table:
        return False
    if not are_alike(pair.key.table, nearest.key.table):
        return False
    if pair.overlap is None or nearest.overlap is None:
        return nearest.overlap is not None or pair.overlap is None
    return nearest.overlap.violations <= pair.overlap.violations + SLACK


def core(table: TableFacts) -> tuple[str, ...]:
    """Return the words of a table's name that say what it holds, without those that mark a copy."""
    return _core(table.words)


@functools.lru_cache(maxsize=100_000)
def _core(spoken: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in spoken if not _is_mark(word)) or spoken


def marks(table: TableFacts) -> frozenset[str]:
    """Return the words of a table's name that mark a copy or a layer."""
    return _marks(table.table.ref.name)


@functools.lru_cache(maxsize=100_000)
def _marks(name: str) -> frozenset[str]:
    return frozenset(word for word in tokens(name) if _is_mark(word) or word in words("layer"))


def _is_mark(word: str) -> bool:
    return word in words("copy") or (word.isdigit() and len(word) >= 4)


def are_alike(one: TableFacts, other: TableFacts) -> bool:
    """Whether two tables have nearly the same columns."""
    mine, theirs = ({column.name.lower() for column in table.columns} for table in (one, other))
    return len(mine & theirs) >= ALIKE * len(mine | theirs)


def originals(tables: Iterable[TableFacts]) -> Mapping[TableFacts, TableFacts]:
    """Return copy -> the table it repeats: the one of the same words with the fewest marks."""
    groups: dict[tuple[str, ...], list[TableFacts]] = defaultdict(list)
    for table in tables:
        groups[core(table)].append(table)
    found: dict[TableFacts, TableFacts] = {}
    for group in groups.values():
        first = min(group, key=lambda table: (len(marks(table)), table.number))
        found |= {each: first for each in group if marks(first) < marks(each) and are_alike(each, first)}
    return found
