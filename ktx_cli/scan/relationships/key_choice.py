"""Databases of several tenants: where most keys begin with the tenant, the others do too, whatever the rows ask for.

A number that counts within each tenant is unique in a small table by accident; its neighbours tell how it is meant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations

from ktx_cli.scan.failures import Failures, Stage
from ktx_cli.scan.relationships.facts import ColumnFacts, Family, TableFacts
from ktx_cli.scan.relationships.features import Pair
from ktx_cli.scan.relationships.keys import (
    composite_keys,
    counts_rows,
    expected_repeats,
    is_period,
    is_unique,
    key_score,
    numbers_within,
    own_name,
    set_score,
    unique_columns,
)
from ktx_cli.scan.relationships.matches import NameIndex
from ktx_cli.scan.relationships.model import KeyChoice
from ktx_cli.scan.relationships.names import phrase_alike
from ktx_cli.scan.relationships.pairs import originals

FEWEST = 3
"""So many keys have to begin with the tenant."""

MAJORITY = 0.5
"""And so large a share of the keys of the tables that name one; and so large a share of all tables has to name it."""


def with_tenants(
    chosen: Mapping[TableFacts, KeyChoice], refers: Mapping[TableFacts, Mapping[ColumnFacts, Pair]]
) -> dict[TableFacts, KeyChoice]:
    """Return the keys, those of one column that stands beside the tenant's with it where that is the convention."""
    holders: dict[ColumnFacts, dict[TableFacts, ColumnFacts]] = defaultdict(dict)
    for table, pairs in refers.items():
        for column, pair in pairs.items():
            holders[pair.key].setdefault(table, column)
    found = dict(chosen)
    for columns in holders.values():
        if len(columns) < MAJORITY * len(chosen):
            continue
        wide = [table for table, column in columns.items() if _begins_with(chosen.get(table), column)]
        narrow = [table for table, column in columns.items() if _stands_beside(table, column, chosen.get(table))]
        if len(wide) >= FEWEST and len(wide) >= MAJORITY * (len(wide) + len(narrow)):
            found |= {table: _widened(table, columns[table], chosen[table]) for table in narrow}
    return found


def _begins_with(choice: KeyChoice | None, column: ColumnFacts) -> bool:
    return choice is not None and len(choice.primary) > 1 and column.name in choice.primary and column.position <= 1


def _stands_beside(table: TableFacts, column: ColumnFacts, choice: KeyChoice | None) -> bool:
    """Whether a table's key is one column next to the tenant's, at the beginning of the table."""
    if choice is None or choice.declared or len(choice.primary) != 1 or column.profile.nulls:
        return False
    own = table.column(choice.primary[0])
    return own is not column and own.keyed and max(own.position, column.position) <= 1


def _widened(table: TableFacts, tenant: ColumnFacts, choice: KeyChoice) -> KeyChoice:
    own = table.column(choice.primary[0])
    first, second = sorted((tenant, own), key=lambda column: column.position)
    return replace(choice, primary=(first.name, second.name), alternates=(choice.primary, *choice.alternates))


PARENTS_A_TABLE = 3
"""How many unique columns of a table others may refer to: its likely key, and names of it such as codes."""

SURE_SCORE = 2.2
"""A single column with a higher score is the key, whatever sets are unique."""

OWN_NAMED = 0.9
"""From so clear a name on a column is called as its table's own number is."""

BY_NAME = 1.5
"""What a set gains by a column called as the table's own number is."""

BY_NUMBER = 1.2
"""What a set gains by a column that counts the rows of another's values."""

ACCIDENT = 1.0
"""What a set loses by a column that is no part of keys."""

FEWEST_REPEATS = 2.0
"""A set that chance would repeat less often is unique by accident."""

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


def find_uniques(tables: Iterable[TableFacts], confirm: Confirm, failures: Failures | None = None) -> Uniques:
    """Return the unique columns of every table; what only the sample says is confirmed on all rows.

    A table that fails unexpectedly has none and is noted in `failures`; None: the error is raised.
    """
    failed = failures or Failures(strict=True)
    found: dict[TableFacts, list[ColumnFacts]] = {}
    for table in tables:
        found[table] = []
        with failed.stage(Stage.RELATIONSHIPS, table.table.ref):
            found[table] = _uniques_of(table, confirm)
        table.likeliest = next(iter(found[table]), None)
    return Uniques(found)


def _uniques_of(table: TableFacts, confirm: Confirm) -> list[ColumnFacts]:
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
    return kept


def choose_keys(
    uniques: Uniques, accepted: Sequence[Pair], names: NameIndex, confirm: Confirm, failures: Failures | None = None
) -> dict[TableFacts, KeyChoice]:
    """Return the primary key of every table that has one.

    A table that fails unexpectedly has none and is noted in `failures`; None: the error is raised.
    """
    failed = failures or Failures(strict=True)
    outgoing: dict[TableFacts, dict[ColumnFacts, Pair]] = defaultdict(dict)
    incoming: dict[ColumnFacts, float] = defaultdict(float)
    for pair in accepted:
        outgoing[pair.child.table][pair.child] = pair
        if pair.child.table is not pair.key.table:
            incoming[pair.key] += pair.score
    chosen: dict[TableFacts, KeyChoice] = {}
    for table, columns in uniques.by_table.items():
        with failed.stage(Stage.KEYS, table.table.ref):
            choice = _choose(table, columns, outgoing.get(table, {}), incoming, names, confirm)
            if choice is not None:
                chosen[table] = choice
    chosen = with_tenants(chosen, outgoing)
    repeated = originals(chosen)
    return {
        table: _as_original(table, choice, chosen[repeated[table]] if table in repeated else None)
        for table, choice in chosen.items()
    }


def _as_original(table: TableFacts, choice: KeyChoice, original: KeyChoice | None) -> KeyChoice:
    """Return the key of the table this one is a copy of, where it is one here too."""
    if original is None or choice.declared or table.sampled.profile.rows == 0:
        return choice
    by_name = {column.name: column for column in table.columns}
    group = [by_name[name] for name in original.primary if name in by_name]
    if len(group) < len(original.primary) or any(column.profile.nulls for column in group):
        return choice
    return replace(choice, primary=original.primary) if is_unique(group, table.sampled.profile.rows) else choice


def _choose(
    table: TableFacts,
    columns: Sequence[ColumnFacts],
    refers: Mapping[ColumnFacts, Pair],
    incoming: Mapping[ColumnFacts, float],
    names: NameIndex,
    confirm: Confirm,
) -> KeyChoice | None:
    if table.table.primary_key:
        alternates = _others([(column,) for column in columns], table, table.table.primary_key)
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
        others = _others([other for _, other in options if len(other) == 1], table, key)
        return KeyChoice(key, False, _as_share(score), others, confirmed=bool(sure))
    return _shared_key(columns, refers)


def _shared_key(columns: Sequence[ColumnFacts], refers: Mapping[ColumnFacts, Pair]) -> KeyChoice | None:
    """Return the key a table has from another, where it begins with it and nothing else identifies its rows."""
    for column in columns:
        if column in refers and column.position == 0 and column.unique and len(refers) == 1:
            return KeyChoice((column.name,), False, 0.5, confirmed=column.table.complete)
    return None


def _others(
    groups: Iterable[Sequence[ColumnFacts]], table: TableFacts, key: tuple[str, ...]
) -> tuple[tuple[str, ...], ...]:
    """Return the unique sets besides the key, those that are declared among them."""
    found = [tuple(column.name for column in group) for group in groups]
    found += [each.columns for each in table.table.unique_keys]
    return tuple(names for names in dict.fromkeys(found) if names != key)


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
    if junction is not None and not any(column in columns and column not in refers for column in table.columns):
        options.append((3.0, junction))
    own = {column for column in table.columns if own_name(column) >= OWN_NAMED and column not in columns}
    best = max((score for score, _ in options), default=-9.0)
    if best < SURE_SCORE or (own and all(own_name(column) < OWN_NAMED for column in columns)):
        options += _composites(table, columns, refers, own)
    return options


def _composites(
    table: TableFacts, columns: Sequence[ColumnFacts], refers: Mapping[ColumnFacts, Pair], own: Set[ColumnFacts]
) -> list[tuple[float, tuple[ColumnFacts, ...]]]:
    """Return the sets that may be the key, with scores one can compare with those of single columns.

    `own`: columns called as the table's own number is, that repeat.
    """
    likely = {column.name for column in refers}
    groups = [group for group in composite_keys(table, likely) if not _is_accident(group, refers, own)]
    named = [group for group in groups if own & set(group)]
    lines = [group for group in groups if len(group) == 2 and _is_line(group)]
    found = [(0.6 * set_score(group, likely), group) for group in groups[:3]]
    found += [(0.6 * set_score(group, likely) + BY_NAME, group) for group in named[:2]]
    found += [(0.6 * set_score(group, likely) + BY_NUMBER, group) for group in lines[:2]]
    for column in columns:
        numbers = [
            each for each in table.columns if counts_rows(each) and each is not column and not each.profile.nulls
        ]
        if column in refers and numbers:
            pair = (column, numbers[0]) if column.position < numbers[0].position else (numbers[0], column)
            found.append((0.6 * set_score(pair, likely), pair))
    return [(score - ACCIDENT * _has_stranger(group, refers), group) for score, group in found]


def _is_line(group: Sequence[ColumnFacts]) -> bool:
    """Whether one of two columns counts the rows of the other's values, as the numbers of lines do."""
    one, other = group
    return numbers_within(one, other) or numbers_within(other, one)


def _is_accident(group: Sequence[ColumnFacts], refers: Mapping[ColumnFacts, Pair], own: Set[ColumnFacts]) -> bool:
    """Whether a set is unique because its columns are many or full of values, and none says what it counts."""
    tie = len(group) == 2 and all(column in refers for column in group)
    if tie or any(column in own or counts_rows(column) or is_period(column) for column in group):
        return False
    return expected_repeats(group) < FEWEST_REPEATS


def _has_stranger(group: Sequence[ColumnFacts], refers: Mapping[ColumnFacts, Pair]) -> bool:
    """Whether a column of a set is one by which nobody identifies rows: a quantity, a text, a flag."""
    return any(
        column not in refers
        and not column.keyed
        and not counts_rows(column)
        and not is_period(column)
        and any(column.says(kind) for kind in ("measure", "text", "flag"))
        for column in group
    )


def _junction(table: TableFacts, refers: Mapping[ColumnFacts, Pair]) -> tuple[ColumnFacts, ...] | None:
    """Return the columns of a table that only ties others together, as few as identify its rows."""
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
    if any(column.profile.nulls or (column.unique and others and spoken < 2) for column in members):
        return None
    sizes = range(2, len(members) + 1)
    groups = (group for size in sizes for group in combinations(members, size))
    return next((group for group in groups if is_unique(group, rows)), None)


def _by_name(table: TableFacts, names: NameIndex) -> KeyChoice | None:
    """Choose the key of a table without rows: the leading columns where several name other tables, else the first."""
    leading = []
    for column in table.columns:
        if not column.keyed or column.says("text"):
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
