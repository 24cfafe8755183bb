"""Chooses the primary key of each table: one, from its unique sets, what refers to it and what it refers to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ktx_cli.context.scan.relationships.facts import ColumnFacts, Family, TableFacts
from ktx_cli.context.scan.relationships.keys import (
    composite_keys,
    is_unique,
    key_score,
    own_name,
    set_score,
    unique_columns,
)
from ktx_cli.context.scan.relationships.matching import NameIndex
from ktx_cli.context.scan.relationships.model import KeyChoice
from ktx_cli.context.scan.relationships.names import phrase_alike
from ktx_cli.context.scan.relationships.pairs import Pair

PARENTS_A_TABLE = 3
"""How many unique columns of a table others may refer to: its likely key, and names of it such as codes."""

LEAST_PLAUSIBLE = 0.3
"""A unique column with a lower score is unique by accident."""

Confirm = Callable[[TableFacts, Sequence[ColumnFacts]], bool | None]
"""Says whether a set is unique in the whole table; None: could not be found out."""


@dataclass(frozen=True, slots=True)
class Uniques:
    """The unique columns of each table that others may refer to, the likely key first."""

    by_table: Mapping[TableFacts, list[ColumnFacts]]

    @property
    def keys(self) -> list[ColumnFacts]:
        """All of them, table by table."""
        return [column for columns in self.by_table.values() for column in columns]


def find_uniques(tables: Iterable[TableFacts], confirm: Confirm) -> Uniques:
    """Return the unique columns of every table; what only the sample says is confirmed on all rows."""
    found: dict[TableFacts, list[ColumnFacts]] = {}
    for table in tables:
        declared = _declared(table)
        ranked = unique_columns(table)
        if not ranked and table.sampled.profile.rows == 0:
            ranked = [column for column in table.columns[:1] if column.keyed]
        ranked = declared + [column for column in ranked if column not in declared]
        kept: list[ColumnFacts] = []
        for column in ranked:
            if len(kept) == PARENTS_A_TABLE or (kept and not _worth(column, kept[0])):
                break
            if column in declared or table.complete or confirm(table, [column]) is not False:
                kept.append(column)
        found[table] = kept
        table.likeliest = kept[0] if kept else None
    return Uniques(found)


def choose_keys(
    uniques: Uniques, accepted: Sequence[Pair], names: NameIndex, confirm: Confirm
) -> dict[TableFacts, KeyChoice]:
    """Return the primary key of every table that has one."""
    outgoing: dict[TableFacts, dict[ColumnFacts, Pair]] = defaultdict(dict)
    incoming: dict[ColumnFacts, float] = defaultdict(float)
    for pair in accepted:
        outgoing[pair.child.table][pair.child] = pair
        if pair.child.table is not pair.key.table:
            incoming[pair.key] += pair.score
    chosen = {}
    for table, columns in uniques.by_table.items():
        choice = _choose(table, columns, outgoing.get(table, {}), incoming, names, confirm)
        if choice is not None:
            chosen[table] = choice
    return chosen


def _choose(
    table: TableFacts,
    columns: Sequence[ColumnFacts],
    refers: Mapping[ColumnFacts, Pair],
    incoming: Mapping[ColumnFacts, float],
    names: NameIndex,
    confirm: Confirm,
) -> KeyChoice | None:
    if table.table.primary_key:
        alternates = tuple((column.name,) for column in columns if (column.name,) != table.table.primary_key)
        return KeyChoice(table.table.primary_key, declared=True, alternates=alternates)
    if table.sampled.profile.rows == 0:
        return _by_name(table, names)
    options = _options(table, columns, refers, incoming)
    options.sort(key=lambda option: -option[0])
    for score, group in options:
        if score < LEAST_PLAUSIBLE:
            break
        sure = table.complete or confirm(table, group)
        if sure is False:
            continue
        key = tuple(column.name for column in group)
        others = tuple(
            tuple(column.name for column in other) for _, other in options if other != group and len(other) == 1
        )
        return KeyChoice(key, False, _as_share(score), others, confirmed=bool(sure))
    return None


def _options(
    table: TableFacts,
    columns: Sequence[ColumnFacts],
    refers: Mapping[ColumnFacts, Pair],
    incoming: Mapping[ColumnFacts, float],
) -> list[tuple[float, tuple[ColumnFacts, ...]]]:
    options: list[tuple[float, tuple[ColumnFacts, ...]]] = []
    for column in columns:
        if column.profile.nulls:
            continue
        score = key_score(column) + 1.2 * min(2.0, incoming.get(column, 0.0))
        score -= 1.6 if column in refers else 0.0
        options.append((score, (column,)))
    junction = _junction(table, refers)
    if junction is not None and not any(
        column.name in {c.name for c in columns} and column not in refers for column in columns
    ):
        options.append((3.0, junction))
    if max((score for score, _ in options), default=-9.0) < 1.5:
        likely = {column.name for column in refers}
        options += [(0.6 * set_score(group, likely), group) for group in composite_keys(table, likely)[:3]]
    return options


def _junction(table: TableFacts, refers: Mapping[ColumnFacts, Pair]) -> tuple[ColumnFacts, ...] | None:
    """Return the columns of a table that only ties others together, where they identify its rows."""
    members = sorted(refers, key=lambda column: column.position)
    parents = {refers[column].key for column in members}
    others = [c for c in table.columns if c not in refers and c.family is not Family.OTHER and not c.says("time")]
    spoken = sum(
        any(phrase_alike((word,), (other,)) >= 0.7 for word in table.words for other in parent.table.words)
        for parent in parents
    )
    if not 2 <= len(members) <= 3 or len(parents) != len(members) or (len(others) > 1 and spoken < 2):
        return None
    rows = table.sampled.profile.rows
    if any(column.profile.nulls for column in members) or not is_unique(members, rows):
        return None
    return tuple(members)


def _by_name(table: TableFacts, names: NameIndex) -> KeyChoice | None:
    """Choose the key of a table without rows: the leading columns where several name other tables, else the first."""
    leading = []
    for column in table.columns:
        if not column.keyed:
            break
        leading.append(column)
    if not leading:
        return None
    if 2 <= len(leading) <= 3 and all(_speaks_of_others(column, names) for column in leading[:1]):
        return KeyChoice(tuple(column.name for column in leading), False, 0.5, confirmed=False)
    return KeyChoice((leading[0].name,), False, 0.6, confirmed=False)


def _speaks_of_others(column: ColumnFacts, names: NameIndex) -> bool:
    return any(number != column.table.number and score >= 0.6 for number, score in names.tables(column.base).items())


def _declared(table: TableFacts) -> list[ColumnFacts]:
    """Return the columns the database guarantees to be unique, the primary key's first."""
    single = [
        key for key in (table.table.primary_key, *(each.columns for each in table.table.unique_keys)) if len(key) == 1
    ]
    return [table.column(name) for name in dict.fromkeys(key[0] for key in single)]


def _worth(column: ColumnFacts, best: ColumnFacts) -> bool:
    return key_score(column) >= key_score(best) - 1.6 or own_name(column) >= 0.6


def _as_share(score: float) -> float:
    return round(min(0.99, 0.5 + score / 10), 2)
