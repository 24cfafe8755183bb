"""Primary keys: the unique columns of a table, and unique sets of columns, searched level by level.

The search over sets is the level-wise one for unique column combinations (Abedjan and Naumann, 2011), restricted to
columns that can be part of a key and to sets of four.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import Any, Final

from ktx_cli.scan.relationships.columns import Candidate, ColumnFacts, Family, NameIndex, TableFacts, originals
from ktx_cli.scan.relationships.names import (
    concepts,
    names_agent,
    phrase_alike,
    skeleton,
    stem,
    tokens,
    word_set,
    words,
)
from ktx_cli.scan.relationships.record import KeyChoice
from ktx_cli.scan.stages import STRICT, Failures, Stage

WIDEST_KEY = 4
"""The maximum number of columns in a composite key."""

MAX_MEMBERS = 10
"""The number of a table's columns that are tried as parts of a composite key."""

SHARED_BY_TABLES = 4
"""From this number of tables on, a name belongs to no table in particular."""

SHARED_NAME_PENALTY = 1.6
"""What a column whose name many tables share loses as a key."""

FEW_ROWS = 30
"""In a table with fewer rows, columns that do not repeat do not show what identifies a row; names do."""

FEWEST_GROUPS = 3
"""The number of groups in which integers have to count the rows to be line numbers."""

_FAMILY_SCORES: Final[Mapping[Family, float]] = {
    Family.INTEGER: 0.5,
    Family.TEXT: 0.1,
    Family.TIME: -1.0,
    Family.OTHER: -2.0,
}
"""The score of a key for the family of its values."""

_WORD_PENALTIES: Final = (("measure", 0.9), ("flag", 0.8), ("text", 1.2), ("time", 0.8))
"""By how much a word of a kind in its name reduces the score of a key."""

_SURROGATES: Final = word_set("id uuid guid pk sk oid rowid")


_COUNTERS: Final = word_set(
    "seq line position pos sequence row item rank step lfd zeile linea ligne riga linha regel pozycja wiersz lin"
    " ordinal"
)


_NUMBERS: Final = word_set("number no nr nbr num nmbr nummer numero numer")


_PERIODS: Final = word_set(
    "dia annee mois jour anno mese giorno jaar maand dag rok miesiac dzien semana year month day week quarter hour"
    " jahr monat tag woche ano mes"
)


def is_period(column: ColumnFacts) -> bool:
    """Return whether a column holds a point in time: a date, or by its name a year, a month or a day."""
    return column.family is Family.TIME or bool(_PERIODS & set(column.parts))


def own_name(column: ColumnFacts) -> float:
    """Return how clearly a column's name says that it is the key of its own table, from 0 to 1."""
    parts, table = column.parts, column.table
    if not column.base and not column.keyed:
        return 0.0
    if not column.base:
        is_surrogate = parts[-1] in _SURROGATES or parts[0] in _SURROGATES
        return 0.95 if is_surrogate or _is_common_number(column) else 0.75
    if column.keyed and phrase_alike(parts[:-1], table.words) == 1.0:
        return 1.0  # `allele_code_id` in `allele_code`, although `code` means a key by itself.
    least = 0.4 if column.keyed else 0.0
    if "fk" in (parts[0], parts[-1]):
        return least
    base, names = column.base, _aliases(table.words, table.numbered, tokens(table.table.ref.name))
    alike = max(
        [
            weight * phrase_alike(base, each)
            for each, weight in names
            if len(each) <= len(base) or each[: len(base)] != base  # `film` is no abbreviation of `film_category`.
        ],
        default=0.0,
    )
    alike = max(alike, 0.9 if _ends_table(base, table.words) else 0.0)
    if alike < 0.5:
        return least
    return max(alike, 0.95) if "pk" in (parts[0], parts[-1]) else alike * (1.0 if column.keyed else 0.8)


MODULE_LETTERS = 4
"""The maximum number of letters of a module that a table's name begins with, without a separator."""


def _ends_table(base: tuple[str, ...], name: tuple[str, ...]) -> bool:
    """Return whether a table's name is words after a few letters: `invoiceid` in `fininvoices`."""
    if len(name) != 1:
        return False
    mine, whole = stem("".join(base)), stem(name[0])
    return len(mine) > MODULE_LETTERS and whole.endswith(mine) and len(whole) - len(mine) <= MODULE_LETTERS


def key_score(column: ColumnFacts) -> float:
    """Return how plausible a unique column is as the primary key, from its name, type, position and values."""
    profile, own = column.profile, own_name(column)
    score = 2.2 * own
    score += 0.9 if column.position == 0 else 0.3 if column.position == 1 else 0.0
    score += _FAMILY_SCORES[column.family]
    if column.family is Family.INTEGER and column.counts:
        score += 0.4 if is_dense(column) else 0.0
        score -= 1.0 if profile.minimum < 0 else 0.0
    if column.family is Family.TEXT and column.counts:
        longest = profile.longest or 0
        score += 0.3 if profile.shortest == longest else 0.0
        score -= 0.8 if longest > 40 else 0.0
        score -= 0.8 if any(" " in str(value) for value, _ in profile.top) else 0.0
    for kind, weight in _WORD_PENALTIES:
        score -= weight if column.base and own < CLEAR_OWN_NAME and column.has_word(kind) else 0.0
    score -= 1.5 if column.nulls else 0.0
    score -= 0.3 if not column.base and column.has_word("text") else 0.0  # A `code` before a `name`.
    return score - (SHARED_NAME_PENALTY if _has_shared_name(column) else 0.0)


def _has_shared_name(column: ColumnFacts) -> bool:
    """Return whether many tables have a column of this name that means a key or a person: `created_by`, `import_key`.

    Such a column is the same reference everywhere, and no table's own key, even if a few rows do not repeat it. Nor
    are integers such as `active` or `revision` that few rows do not repeat.
    """
    if not column.base or column.table.spread.get(column.joined, 1) < SHARED_BY_TABLES or own_name(column) >= 0.75:
        return False
    counted = column.family is Family.INTEGER and column.table.rows < FEW_ROWS
    return column.keyed or counted or "person" in concepts(column.base)


def unique_columns(table: TableFacts) -> list[ColumnFacts]:
    """Return the columns without repeated values, most plausible key first."""
    found = [
        column
        for column in table.columns
        if column.family is not Family.OTHER and column.without_repeats and column.nulls <= 0.2 * column.profile.rows
    ]
    return sorted(found, key=lambda column: (-key_score(column), column.position))


def composite_keys(table: TableFacts, likely: Iterable[str] = ()) -> list[tuple[ColumnFacts, ...]]:
    """Return the minimal sets of two or more columns that are unique in the sample, most plausible first.

    `likely`: columns that refer to other tables, which are parts of keys more often than others.
    """
    rows = table.sampled.profile.rows
    if rows < 2:
        return []
    expected = set(likely)
    members = [column for column in table.columns if _can_be_member(column)]
    members.sort(key=lambda column: (-member_score(column, column.name in expected), column.position))
    members = sorted(members[:MAX_MEMBERS], key=lambda column: column.position)
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
    """Return how plausible a column is as part of a composite key."""
    score = 2.0 if refers else 0.0
    score += 1.2 if column.keyed else 0.0
    score += 0.8 / (1 + column.position)
    score += {Family.INTEGER: 0.5, Family.TEXT: 0.2, Family.TIME: 0.3, Family.OTHER: -3.0}[column.family]
    if any(map(_is_counter, column.parts)):
        score += 1.0
    elif column.has_word("measure") and not _PERIODS & set(column.parts):
        score -= 1.2
    score -= 0.8 if column.has_word("text") else 0.0
    score -= 0.5 if column.has_word("flag") else 0.0
    score -= 0.4 if column.has_word("time") else 0.0
    if column.family is Family.TEXT and (column.profile.longest or 0) > 40:
        score -= 1.0
    return score


def counts_rows(column: ColumnFacts) -> bool:
    """Return whether the name of a column says that it counts rows: a line, a position, a sequence."""
    return (column.family is Family.INTEGER or column.empty) and any(map(_is_counter, column.parts))


def _counts_only(column: ColumnFacts) -> bool:
    """Return whether a column counts rows within something else, and is not the `seq` that numbers every table's."""
    return counts_rows(column) and not _is_common_number(column)


def _is_common_number(column: ColumnFacts) -> bool:
    """Return whether most tables have a number of this name, which says nothing else: `seq`."""
    count = column.table.spread.get(column.joined, 1)
    return (
        not column.base
        and all(map(_is_counter, column.parts))
        and count >= max(SHARED_BY_TABLES, 0.5 * column.table.tables)
    )


@functools.lru_cache(maxsize=100_000)
def _is_counter(word: str) -> bool:
    """Return whether a word, or the one that it abbreviates without vowels (`sqnc`), counts rows."""
    return word in _COUNTERS or (word.isalpha() and any(word == skeleton(each) for each in _COUNTERS if len(each) >= 4))


def numbers_within(outer: ColumnFacts, inner: ColumnFacts) -> bool:
    """Return whether integers number the rows of each value of another column, starting at 0 or 1."""
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
    """Return how plausible a set is as the primary key: the scores of its columns, minus a penalty for each."""
    scores = [member_score(column, column.name in expected) for column in group]
    return sum(scores) / len(scores) + 0.3 * min(scores) - 0.35 * len(group)


def expected_repeats(group: Sequence[ColumnFacts]) -> float:
    """Return how many pairs of rows would be equal by chance if the columns were independent.

    A set with few expected repetitions is unique by accident.
    """
    rows = group[0].table.sampled.profile.rows
    alike = prod(sum((count / rows) ** 2 for count in column.counts.values()) for column in group)
    return rows * (rows - 1) / 2 * alike


def is_unique(group: Sequence[ColumnFacts], rows: int) -> bool:
    """Return whether no combination of the columns' values repeats in the sample."""
    values = group[0].table.sampled.values
    seen: set[Any] = set(zip(*(values[column.name] for column in group), strict=True))
    return len(seen) == rows


def _can_be_member(column: ColumnFacts) -> bool:
    profile = column.profile
    return (
        column.family is not Family.OTHER
        and profile.nulls == 0
        and column.distinct > 1
        and not column.without_repeats
        and not names_agent(column.base)
    )


def is_dense(column: ColumnFacts) -> bool:
    """Return whether integers follow each other with few gaps, as generated numbers do."""
    profile = column.profile
    width = int(profile.maximum) - int(profile.minimum) + 1
    rows = column.table.rows if not column.table.complete else column.distinct
    return width <= 2 * max(rows, 1)


@functools.lru_cache(maxsize=100_000)
def _aliases(
    name: tuple[str, ...], numbered: tuple[str, ...], whole: tuple[str, ...]
) -> tuple[tuple[tuple[str, ...], float], ...]:
    """Return the words that a key may use for its table, with weights: `order` for `order header` and `sales order`.

    `whole`: the table's name with its layer, which may be a part of it (`link_set`).
    """
    found = [(each, 1.0) for each in dict.fromkeys((name, numbered, whole))]
    found += [(whole[start:], 0.95) for start in range(1, len(whole) - len(name))]
    if len(name) > 1:
        last = stem(name[-1])
        found.append((name[:-1], 0.9 if last in _HEADS else 0.6 if last in EXTENSIONS else 0.5))
        found.append((name[-1:], LAST_WORD_MATCH))
        found += [(name[start:], 0.95) for start in range(1, len(name) - 1)]
        if last in _HEADS:
            found += [(name[start:-1], 0.85) for start in range(1, len(name) - 1)]  # `fin_gene_header`
    return tuple(found)


_HEADS = words("discriminator") | frozenset({"header", "hdr", "head", "kopf", "record", "list", "entry", "main"})

EXTENSIONS: Final = word_set(
    "info infos information detail details profile meta metadata data ext extra extension setting settings stat stats"
    " statistic statistics description text summary image photo picture"
)
"""Last words of tables that extend the rows of another table one to one: `product_detail`."""


FEWEST_TENANT_KEYS = 3
"""The number of keys that have to begin with the tenant's column."""

TENANT_SHARE = 0.5
"""The share of tables that must have the column, and of their keys that must begin with it."""


def with_tenants(
    chosen: Mapping[TableFacts, KeyChoice], refers: Mapping[TableFacts, Mapping[ColumnFacts, Candidate]]
) -> dict[TableFacts, KeyChoice]:
    """Return the keys, adding the tenant's column to those next to it if that is the convention of the database."""
    holders: dict[ColumnFacts, dict[TableFacts, ColumnFacts]] = defaultdict(dict)
    for table, candidates in refers.items():
        for column, candidate in candidates.items():
            if not names_agent(column.base):
                holders[candidate.key].setdefault(table, column)
    found = dict(chosen)
    for columns in holders.values():
        if len(columns) < TENANT_SHARE * len(chosen):
            continue
        wide = [table for table, column in columns.items() if _begins_with(chosen.get(table), column)]
        narrow = [table for table, column in columns.items() if _is_next_to(table, column, chosen.get(table))]
        if len(wide) >= FEWEST_TENANT_KEYS and len(wide) >= TENANT_SHARE * (len(wide) + len(narrow)):
            found |= {table: _widened(table, columns[table], chosen[table]) for table in narrow}
    return found


def _begins_with(choice: KeyChoice | None, column: ColumnFacts) -> bool:
    return choice is not None and len(choice.primary) > 1 and column.name in choice.primary and column.position <= 1


def _is_next_to(table: TableFacts, column: ColumnFacts, choice: KeyChoice | None) -> bool:
    """Return whether a table's key is one column next to the tenant's, at the beginning of the table."""
    if choice is None or choice.declared or len(choice.primary) != 1 or column.profile.nulls:
        return False
    own = table.column(choice.primary[0])
    return own is not column and own.keyed and max(own.position, column.position) <= 1


def _widened(table: TableFacts, tenant: ColumnFacts, choice: KeyChoice) -> KeyChoice:
    own = table.column(choice.primary[0])
    first, second = sorted((tenant, own), key=lambda column: column.position)
    return replace(choice, primary=(first.name, second.name), alternates=(choice.primary, *choice.alternates))


KEYS_PER_TABLE = 3
"""The number of unique columns of a table that others may refer to: its likely key, and others such as codes."""

SURE_SCORE = 2.2
"""A single column with a higher score is the key, regardless of unique sets."""

CLEAR_OWN_NAME = 0.9
"""From this `own_name` on, a column is named like the number of its own table."""

LAST_WORD_MATCH = 0.8
"""The `own_name` of a column that is only called like the last word of its table: `setting_key` in `user_setting`."""

LIKELY_OWN_NAME = 0.75
"""From this `own_name` on, a column is probably the number of its own table if no other table matches better."""

OWN_NAME_BONUS = 1.5
"""What a set gains from a column that is named like the number of its own table."""

LINE_NUMBER_BONUS = 1.2
"""What a set gains from a column that numbers the rows of another one's values."""

NON_KEY_PENALTY = 1.0
"""What a set loses for a column such as a quantity, a text or a flag."""

MIN_EXPECTED_REPEATS = 2.0
"""A set with fewer `expected_repeats` is unique by accident."""

NAMED_SET_SCORE = 2.0
"""The score of a set that only its names make the key, in a table with few rows."""

REFERENCE_PENALTY = 1.6
"""What a reference loses as the key of its own table."""

SECOND_PENALTY = 2.0
"""What a second surrogate such as `row_guid` loses as a key."""
KNOWN_KEY_BONUS = 6.0
"""What a column gains as the key if a context source such as dbt declares it unique, and the score of such a set."""

KNOWN_FILLED_BONUS = 1.0
"""What such a column also gains if the source declares that it has no NULL."""

MIN_SCORE = 0.3
"""A unique column with a lower score is unique by accident."""

Confirm = Callable[[TableFacts, Sequence[ColumnFacts]], bool | None]
"""Returns whether a set is unique in the whole table, or None if the database gave no answer."""


@dataclass(frozen=True, slots=True)
class UniqueColumns:
    """The unique columns of each table that other tables may refer to, likely key first."""

    by_table: Mapping[TableFacts, list[ColumnFacts]]

    @property
    def keys(self) -> list[ColumnFacts]:
        """All of them, table by table."""
        return [column for columns in self.by_table.values() for column in columns]


def find_unique_columns(tables: Iterable[TableFacts], confirm: Confirm, failures: Failures = STRICT) -> UniqueColumns:
    """Return the unique columns of every table. Those that are unique in a sample are confirmed on all rows.

    A table that fails unexpectedly has none and is noted in `failures`; the strict default raises the error.
    """
    found: dict[TableFacts, list[ColumnFacts]] = {}
    for table in tables:
        found[table] = []
        with failures.stage(Stage.RELATIONSHIPS, table.table.ref):
            found[table] = _uniques_of(table, confirm)
        table.likeliest = next(iter(found[table]), None)
    return UniqueColumns(found)


def _uniques_of(table: TableFacts, confirm: Confirm) -> list[ColumnFacts]:
    declared = _declared(table)
    ranked = unique_columns(table)
    known = [column for column in ranked if (column.name,) in table.known_keys]
    ranked = [*known, *(column for column in ranked if column not in known)]
    if not ranked and table.sampled.profile.rows == 0:
        ranked = [column for column in table.columns[:1] if column.keyed]
    ranked = declared + [column for column in ranked if column not in declared]
    kept: list[ColumnFacts] = []
    for column in ranked:
        is_known = column in known and column.family is not Family.TIME  # a calendar's dates fit any date
        if len(kept) == KEYS_PER_TABLE or (kept and not is_known and not _is_plausible_key(column, kept[0])):
            break
        if column in declared or table.complete or confirm(table, [column]) is not False:
            kept.append(column)
    return kept


def choose_keys(
    unique: UniqueColumns, accepted: list[Candidate], names: NameIndex, confirm: Confirm, failures: Failures = STRICT
) -> dict[TableFacts, KeyChoice]:
    """Return the primary key of every table that has one.

    A table that fails unexpectedly has none and is noted in `failures`; the strict default raises the error.
    """
    outgoing: dict[TableFacts, dict[ColumnFacts, Candidate]] = defaultdict(dict)
    incoming: dict[ColumnFacts, float] = defaultdict(float)
    for candidate in accepted:
        outgoing[candidate.child.table][candidate.child] = candidate
        if candidate.child.table is not candidate.key.table:
            incoming[candidate.key] += candidate.probability
    chosen: dict[TableFacts, KeyChoice] = {}
    seconds = second_surrogates(unique)
    for table, columns in unique.by_table.items():
        with failures.stage(Stage.KEYS, table.table.ref):
            choice = _choose(table, columns, outgoing.get(table, {}), incoming, names, confirm, seconds)
            if choice is not None:
                chosen[table] = choice
    chosen = with_tenants(chosen, outgoing)
    repeated = originals(chosen)
    return {
        table: _as_original(table, choice, chosen[repeated[table]] if table in repeated else None)
        for table, choice in chosen.items()
    }


def second_surrogates(unique: UniqueColumns) -> frozenset[str]:
    """Return the generic names that many tables have next to a number of their own: `row_guid` next to `id`."""
    beside: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    for columns in unique.by_table.values():
        own = [column for column in columns if own_name(column) >= CLEAR_OWN_NAME]
        for column in own:
            if not column.base and (len(column.parts) > 1 or column.parts[0] in ("uuid", "guid")):
                better = any(key_score(each) > key_score(column) for each in own if each is not column)
                (beside if better else alone)[column.joined] += 1
    return frozenset(name for name, count in beside.items() if count >= SHARED_BY_TABLES and count > alone[name])


def _as_original(table: TableFacts, choice: KeyChoice, original: KeyChoice | None) -> KeyChoice:
    """Return the key of a copy's original if it is also unique in the copy, else the copy's own."""
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
    refers: Mapping[ColumnFacts, Candidate],
    incoming: Mapping[ColumnFacts, float],
    names: NameIndex,
    confirm: Confirm,
    seconds: Set[str],
) -> KeyChoice | None:
    if table.table.primary_key:
        alternates = _others([(column,) for column in columns], table, table.table.primary_key)
        return KeyChoice(table.table.primary_key, declared=True, alternates=alternates)
    if table.sampled.profile.rows == 0:
        return _by_name(table, names)
    options = _options(table, columns, refers, incoming, names)
    options = [
        (score - (SECOND_PENALTY if len(group) == 1 and group[0].joined in seconds else 0.0), group)
        for score, group in options
    ]
    options.sort(key=lambda option: -option[0])
    if not any(len(group) == 1 and score >= MIN_SCORE for score, group in options):
        options = [*_period_keys(table, refers), *options]
    for score, group in options:
        if score < MIN_SCORE:
            break
        sure = table.complete or confirm(table, group)
        if sure is False:
            continue
        key = tuple(column.name for column in group)
        others = _others([other for _, other in options if len(other) == 1], table, key)
        return KeyChoice(key, False, round(min(0.99, 0.5 + score / 10), 2), others, confirmed=bool(sure))
    return _shared_key(columns, refers) or _natural_key(columns)


def _shared_key(columns: Sequence[ColumnFacts], refers: Mapping[ColumnFacts, Candidate]) -> KeyChoice | None:
    """Return the leading foreign key as the primary key if nothing else identifies the rows."""
    for column in columns:
        if column in refers and column.position == 0 and column.unique and len(refers) == 1:
            return KeyChoice((column.name,), False, 0.5, confirmed=column.table.complete)
    return None


def _natural_key(columns: Sequence[ColumnFacts]) -> KeyChoice | None:
    """Return the name of the things in a table as its primary key if nothing else identifies the rows."""
    for column in columns:
        if not column.nulls and _is_named_after_table(column):
            return KeyChoice((column.name,), False, 0.5, confirmed=column.table.complete)
    return None


def _others(
    groups: Iterable[Sequence[ColumnFacts]], table: TableFacts, key: tuple[str, ...]
) -> tuple[tuple[str, ...], ...]:
    """Return the unique sets other than the key, including declared ones."""
    found = [tuple(column.name for column in group) for group in groups]
    found += [each.columns for each in table.table.unique_keys]
    return tuple(names for names in dict.fromkeys(found) if names != key)


def _options(
    table: TableFacts,
    columns: Sequence[ColumnFacts],
    refers: Mapping[ColumnFacts, Candidate],
    incoming: Mapping[ColumnFacts, float],
    names: NameIndex,
) -> list[tuple[float, tuple[ColumnFacts, ...]]]:
    options: list[tuple[float, tuple[ColumnFacts, ...]]] = []
    rows = table.sampled.profile.rows
    named = _named_set(table, names) if rows < FEW_ROWS else ()
    for column in columns:
        if column.nulls:
            continue
        score = key_score(column) + 1.2 * min(2.0, incoming.get(column, 0.0))
        is_known = (column.name,) in table.known_keys
        if not is_known and not _is_surely_own(column) and not extends_by_name(column):
            score -= REFERENCE_PENALTY if column in refers or column in named or _counts_only(column) else 0.0
        score += KNOWN_KEY_BONUS * is_known + KNOWN_FILLED_BONUS * (is_known and column.name in table.known_filled)
        options.append((score, (column,)))
    for group in _known_sets(table):
        if not any(column.nulls for column in group) and is_unique(group, rows):
            options.append((KNOWN_KEY_BONUS, group))
    if named and not any(column.nulls for column in named) and is_unique(named, rows):
        options.append((NAMED_SET_SCORE, named))
    junction = _junction(table, refers)
    if junction is not None and not any(column in columns and column not in refers for column in table.columns):
        options.append((3.0, junction))
    own = {column for column in table.columns if own_name(column) >= CLEAR_OWN_NAME and column not in columns}
    best = max((score for score, _ in options), default=-9.0)
    if best < SURE_SCORE or (own and all(own_name(column) < CLEAR_OWN_NAME for column in columns)):
        options += _composites(table, columns, refers, own)
    return options


def _is_surely_own(column: ColumnFacts) -> bool:
    """Return whether a column is the number of its own table, even if its values are also those of another key."""
    own = own_name(column)
    return own == 1.0 or (own >= CLEAR_OWN_NAME and (not column.base or "pk" in (column.parts[0], column.parts[-1])))


def _known_sets(table: TableFacts) -> list[tuple[ColumnFacts, ...]]:
    """Return the sets of two or more comparable columns that a context source declares to be unique."""
    sets = [tuple(map(table.column, key)) for key in table.known_keys if len(key) > 1]
    return [group for group in sets if all(column.family is not Family.OTHER for column in group)]


_STARTS: Final = frozenset({"from", "start", "begin", "starts", "begins", "effective", "von", "ab"})
_ENDS: Final = frozenset({"to", "until", "end", "ends", "thru", "through", "expiry", "expires", "expired", "bis"})
"""Words for the columns in which a period of validity begins and ends."""


def _period_keys(
    table: TableFacts, refers: Mapping[ColumnFacts, Candidate]
) -> list[tuple[float, tuple[ColumnFacts, ...]]]:
    """Return the keys of a table whose rows are valid for a period: the columns for the thing, and the period's start.

    Without this rule such a set loses to any other that happens to be unique, such as that of the value and the start.
    """
    times = [column for column in table.columns if column not in refers and not column.profile.nulls]
    starts = [column for column in times if _STARTS.intersection(column.parts) and not _ENDS.intersection(column.parts)]
    ends = [column for column in table.columns if _ENDS.intersection(column.parts) and column not in refers]
    if len(starts) != 1 or len(ends) != 1 or starts[0].family is not ends[0].family:
        return []
    start, rows = starts[0], table.sampled.profile.rows
    subjects = [column for column in table.columns if (column in refers or column.keyed) and not column.profile.nulls]
    groups = [(column, start) for column in subjects if column is not start and column is not ends[0]]
    found = [group for group in groups if is_unique(group, rows)]
    return [(SURE_SCORE, group) for group in sorted(found, key=lambda group: group[0] not in refers)[:1]]


def _composites(
    table: TableFacts, columns: Sequence[ColumnFacts], refers: Mapping[ColumnFacts, Candidate], own: Set[ColumnFacts]
) -> list[tuple[float, tuple[ColumnFacts, ...]]]:
    """Return the sets that may be the key, with scores comparable to those of single columns.

    `own`: columns that are named like the table's own number, and repeat.
    """
    likely = {column.name for column in refers}
    groups = [group for group in composite_keys(table, likely) if not _is_accident(group, refers, own)]
    named = [group for group in groups if own & set(group)]
    lines = [group for group in groups if len(group) == 2 and _is_line(group)]
    found = [(0.6 * set_score(group, likely), group) for group in groups[:3]]
    found += [(0.6 * set_score(group, likely) + OWN_NAME_BONUS, group) for group in named[:2]]
    found += [(0.6 * set_score(group, likely) + LINE_NUMBER_BONUS, group) for group in lines[:2]]
    for column in columns:
        numbers = [
            each for each in table.columns if counts_rows(each) and each is not column and not each.profile.nulls
        ]
        if column in refers and numbers:
            pair = (column, numbers[0]) if column.position < numbers[0].position else (numbers[0], column)
            found.append((0.6 * set_score(pair, likely), pair))
    return [(score - NON_KEY_PENALTY * _has_non_key_column(group, refers), group) for score, group in found]


def _is_line(group: Sequence[ColumnFacts]) -> bool:
    """Return whether one of two columns numbers the rows of the other one's values, as line numbers do."""
    one, other = group
    return numbers_within(one, other) or numbers_within(other, one)


def _is_accident(group: Sequence[ColumnFacts], refers: Mapping[ColumnFacts, Candidate], own: Set[ColumnFacts]) -> bool:
    """Return whether a set is unique by accident: its columns have many values but do not identify or count rows."""
    junction = len(group) == 2 and all(column in refers for column in group)
    if junction or any(column in own or counts_rows(column) or is_period(column) for column in group):
        return False
    return expected_repeats(group) < MIN_EXPECTED_REPEATS


def _has_non_key_column(group: Sequence[ColumnFacts], refers: Mapping[ColumnFacts, Candidate]) -> bool:
    """Return whether a column of a set cannot be part of a key: a quantity, a text, a flag."""
    return any(
        column not in refers
        and not column.keyed
        and not counts_rows(column)
        and not is_period(column)
        and any(column.has_word(kind) for kind in ("measure", "text", "flag"))
        for column in group
    )


def _junction(table: TableFacts, refers: Mapping[ColumnFacts, Candidate]) -> tuple[ColumnFacts, ...] | None:
    """Return the key of a junction table: the smallest set of its references that identifies its rows."""
    members = sorted(refers, key=lambda column: column.position)
    parents = {refers[column].key for column in members}
    others = [c for c in table.columns if c not in refers and c.family is not Family.OTHER and not c.has_word("time")]
    named = sum(
        any(phrase_alike((word,), (other,)) >= 0.7 for word in table.words for other in parent.table.words)
        for parent in parents
    )
    if not 2 <= len(members) <= 3 or len(parents) != len(members) or (len(others) > 1 and named < 2):
        return None
    rows = table.sampled.profile.rows
    if any(column.profile.nulls or (column.unique and others and named < 2) for column in members):
        return None
    sizes = range(2, len(members) + 1)
    groups = (group for size in sizes for group in combinations(members, size))
    return next((group for group in groups if is_unique(group, rows)), None)


def _by_name(table: TableFacts, names: NameIndex) -> KeyChoice | None:
    """Choose the key of a table without rows by names alone: the table's own number, else its leading references."""
    if table.known_keys:
        return KeyChoice(min(table.known_keys, key=len), False, 0.9, confirmed=False)
    own = _own_numbers(table, names)
    group = () if own and own_name(own[0]) >= CLEAR_OWN_NAME else _named_set(table, names)
    if own and not group:
        return KeyChoice((own[0].name,), False, 0.6, confirmed=False)
    if group:
        return KeyChoice(tuple(column.name for column in group), False, 0.5, confirmed=False)
    extends = [column for column in table.columns if extends_by_name(column)]
    first = [column for column in table.columns[:1] if _may_be_key(column, names)]
    natural = [column for column in table.columns if _is_named_after_table(column)]
    guess = next(iter([*extends, *first, *natural]), None)
    return None if guess is None else KeyChoice((guess.name,), False, 0.5, confirmed=False)


def _own_numbers(table: TableFacts, names: NameIndex) -> list[ColumnFacts]:
    """Return the columns that are named like the table's own number, clearest first.

    A less clear name (`allele_id` in `inv_allele`) has to match the table as well as any other.
    """
    found = []
    for column in table.columns:
        own = own_name(column) if column.keyed and (column.base or own_name(column) >= CLEAR_OWN_NAME) else 0.0
        others = [match for number, match in names.tables(column.base).items() if number != table.number]
        if own >= CLEAR_OWN_NAME or (own >= LIKELY_OWN_NAME and own >= max(others, default=0.0) - 0.05):
            found.append(column)
    return sorted(found, key=lambda column: (-own_name(column), column.position))


def extends_by_name(column: ColumnFacts) -> bool:
    """Return whether a column is named like the number of the table that its own table extends: `user_id` in
    `user_detail`.
    """
    return is_extension(column.table) and column.keyed and phrase_alike(column.base, column.table.words[:-1]) >= 0.8


def is_extension(table: TableFacts) -> bool:
    """Return whether a table's name says that it extends the rows of another one: `user_details`."""
    return len(table.words) > 1 and stem(table.words[-1]) in EXTENSIONS


def extends_table(table: TableFacts, other: TableFacts) -> bool:
    """Return whether a table's name says that it extends the rows of one other table: `user_details` of `users`."""
    return is_extension(table) and phrase_alike(table.words[:-1], other.words) == 1.0


def _may_be_key(column: ColumnFacts, names: NameIndex) -> bool:
    """Return whether the first column of a table may identify its rows by its name."""
    return not column.has_word("text") and (column.keyed or max(names.tables(column.base).values(), default=0.0) >= 0.9)


def _is_named_after_table(column: ColumnFacts) -> bool:
    """Return whether a column is called after its table, as the names of kinds are: `tax_rate_name` in `tax_rate`."""
    if not column.keyed and column.family is Family.INTEGER and own_name(column) >= 0.7:
        return True
    return column.parts[-1:] == ("name",) and phrase_alike(column.parts[:-1], column.table.words) == 1.0


def _named_set(table: TableFacts, names: NameIndex) -> tuple[ColumnFacts, ...]:
    """Return the set that identifies the rows by its names: references and a line number, or two or three references.

    The references are those to tables that the table's own name mentions, or the leading columns.
    """
    own = _own_numbers(table, names)
    if any(own_name(column) > LAST_WORD_MATCH and (column.base or _is_common_number(column)) for column in own):
        return ()
    comparable = [column for column in table.columns if column.family is not Family.OTHER]
    references = [column for column in comparable if _names_other_table(column, names)]
    mentioned = [column for column in references if _is_mentioned(column)]
    numbers = [column for column in table.columns if _counts_only(column) and column not in references]
    keyed = [column for column in mentioned if column.keyed]
    own = [column for column in own if column.base]
    line = tuple(keyed[:3]) if len(keyed) >= 2 and not own else _line_of_parent(table, keyed)
    if line or own:
        return line
    if numbers and references and max(numbers[0].position, references[0].position) <= 2:
        return tuple(sorted((references[0], numbers[0]), key=lambda column: column.position))
    if len(mentioned) >= 2:
        return tuple(mentioned[:3])
    if references[:1] == table.columns[:1] and len(table.columns) == 2 and not _is_attribute(table.columns[1]):
        return tuple(table.columns)
    leading = []
    for column in table.columns[:3]:
        if column not in references:
            break
        leading.append(column)
    return tuple(leading) if len(leading) >= 2 and len(table.columns) <= len(leading) + 4 else ()


def _is_attribute(column: ColumnFacts) -> bool:
    """Return whether a column describes a row rather than identifies it: a text, a time, a flag."""
    return column.family is Family.TIME or any(column.has_word(kind) for kind in ("text", "time", "flag"))


def _line_of_parent(table: TableFacts, mentioned: Sequence[ColumnFacts]) -> tuple[ColumnFacts, ...]:
    """Return the key of a parent's numbered rows: `bill_id` and `number` in `bill_line`."""
    first = [column for column in mentioned if phrase_alike(column.base, table.words[: len(column.base)]) >= 0.8]
    numbers = [column for column in table.columns if _counts_only(column) or _is_plain_number(column)]
    if not first or not numbers or first[0] in numbers:
        return ()
    return tuple(sorted((first[0], numbers[0]), key=lambda column: column.position))


def _is_plain_number(column: ColumnFacts) -> bool:
    """Return whether a column is called `number` and nothing else."""
    plain = len(column.parts) == 1 and column.parts[0] in _NUMBERS
    return plain and (column.family is Family.INTEGER or column.empty)


def _is_mentioned(column: ColumnFacts) -> bool:
    """Return whether a table's name contains the words of a column: `user_id` in `user_role`."""
    words, base = column.table.words, column.base
    return bool(base) and any(
        phrase_alike(base[-size:], words[start : start + size]) >= 0.8
        for size in range(1, len(base) + 1)
        for start in range(len(words) - size + 1)
    )


def _names_other_table(column: ColumnFacts, names: NameIndex) -> bool:
    if not column.keyed and any(column.has_word(kind) for kind in ("text", "measure", "time", "flag")):
        return False
    least = 0.6 if column.keyed else 0.75
    return any(number != column.table.number and score >= least for number, score in names.tables(column.base).items())


def _declared(table: TableFacts) -> list[ColumnFacts]:
    """Return the columns that the database guarantees to be unique, the primary key's first."""
    single = [
        key for key in (table.table.primary_key, *(each.columns for each in table.table.unique_keys)) if len(key) == 1
    ]
    return [table.column(name) for name in dict.fromkeys(key[0] for key in single)]


def _is_plausible_key(column: ColumnFacts, best: ColumnFacts) -> bool:
    return key_score(column) >= key_score(best) - 1.6 or own_name(column) >= 0.6
