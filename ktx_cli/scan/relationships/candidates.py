"""Candidates for relationships: pairs of a column and a key, by their names and by the values they share."""

from __future__ import annotations

import functools
import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import SourceError
from ktx_cli.scan.profile.profiler import SparedTableError, comparable, fold_of
from ktx_cli.scan.relationships.columns import Candidate, Family, Overlap, are_alike, core, is_blank, marks
from ktx_cli.scan.relationships.keys import SHARED_BY_TABLES
from ktx_cli.scan.relationships.names import names_actor, names_agent
from ktx_cli.scan.relationships.ranker import (
    CLEAR_NAME,
    FAINT_NAME,
    FIT_TOLERANCE,
    NAMESAKES,
    ColumnFeatures,
    Competition,
    candidate_features,
    key_coverage,
    with_hints,
)
from ktx_cli.scan.relationships.record import Check
from ktx_cli.warehouses import (
    Connector,
    SampleLimits,
    Table,
    TableRef,
    attribute,
    column_list,
    may_ask,
    quote,
    table_path,
    value_list,
    value_of,
)

if TYPE_CHECKING:
    from ktx_cli.scan.relationships.columns import ColumnFacts, DatabaseFacts, NameIndex, NameMatch, TableFacts

PROBED_VALUES = 60
"""The number of values of a column that are looked up in a key that is larger than its sample."""

VALUES_PER_STATEMENT = 1500
"""The number of values that one statement looks up for all columns together."""

EXACT_ROWS = 5_000_000
"""Larger tables are not joined to confirm a relationship; the sample decides."""


SENTINELS: Final = frozenset(
    {0, -1, 999, 9999, 99999, 999999, 9999999, 99999999, 999999999, 2147483647}
    | {"", "0", "-1", "-", "?", "n/a", "none", "null", "unknown"}
)
"""Values that programs write for "no reference". One that no key has counts as NULL."""


SENTINEL_HITS = 2
"""A column needs as many values that are in the key for another one to mean "no reference": 0 and 1 are a flag."""


def overlap_in_memory(child: ColumnFacts, key: ColumnFacts, fewest: int = SENTINEL_HITS) -> Overlap:
    """Compare a column with a key whose rows are all in the sample. `fewest`: the values next to a sentinel."""
    mine, theirs = child.counts, key.counts
    rows = child.filled
    if mine.keys() <= theirs.keys():
        return Overlap(rows, 0, len(mine), len(mine), child.table.complete)
    lost = mine.keys() - theirs.keys()
    hits = len(mine) - len(lost)
    sentinel = _sentinel_of(lost) if hits >= fewest else None
    if sentinel is not None:
        rows -= mine[sentinel]
        lost = lost - {sentinel}
    missing = sum(mine[value] for value in lost)
    sentinel_rows = child.filled - rows
    return Overlap(rows, missing, hits + len(lost), hits, child.table.complete, sentinel, sentinel_rows)


def _sentinel_of(lost: Iterable[Any]) -> Any:
    """Return the sentinel among the missing values, or None if there is none, or several."""
    sentinels = [value for value in lost if _is_sentinel(value)]
    return sentinels[0] if len(sentinels) == 1 else None


def _is_sentinel(value: Any) -> bool:
    return (value.strip().lower() if isinstance(value, str) else value) in SENTINELS


class _LateError(Exception):
    """Raised by a lookup that would have to be sent although the time is up."""


class Prober:
    """Looks up values of columns in keys that are larger than their samples, with one statement for many columns.

    `is_out_of_time` returns whether to stop. `skipped_keys`: keys that were not queried for that reason.
    """

    def __init__(self, connector: Connector, is_out_of_time: Callable[[], bool] = lambda: False) -> None:
        self._connector = connector
        self._is_out_of_time = is_out_of_time
        self.skipped_keys: set[ColumnFacts] = set()
        self.statements = 0
        self.problems: list[str] = []

    def overlaps(
        self, candidates: Iterable[tuple[ColumnFacts, ColumnFacts]]
    ) -> dict[tuple[ColumnFacts, ColumnFacts], Overlap]:
        """Return the overlaps. A candidate whose lookup failed is absent, and `problems` says why."""
        by_key: dict[ColumnFacts, list[ColumnFacts]] = defaultdict(list)
        for child, key in candidates:
            by_key[key].append(child)
        found = {}
        for key, children in by_key.items():
            try:
                for child, overlap in self._look_up(key, children).items():
                    found[child, key] = overlap
            except _LateError:
                self.skipped_keys.add(key)
        return found

    def _look_up(self, key: ColumnFacts, children: Sequence[ColumnFacts]) -> dict[ColumnFacts, Overlap]:
        wanted = {child: _spread(child.counts, PROBED_VALUES) for child in children}
        known = set(key.counts)
        unknown = sorted({value for values in wanted.values() for value in values} - known, key=repr)
        try:
            present = known | self._existing(key, unknown, wanted)
        except (SourceError, ValueError) as error:
            if isinstance(error, SourceError) and error.code == "connection":
                raise
            return self._one_by_one(key, children, error)
        return {child: _probed(child, values, present) for child, values in wanted.items()}

    def _one_by_one(
        self, key: ColumnFacts, children: Sequence[ColumnFacts], error: Exception
    ) -> dict[ColumnFacts, Overlap]:
        """Look up each column separately, because the values of one of them made the common statement fail."""
        if len(children) == 1:
            if not isinstance(error, SparedTableError):
                self.problems.append(f"could not look up values of {children[0]} in {key}: {error}")
            return {}
        return {child: overlap for each in children for child, overlap in self._look_up(key, [each]).items()}

    def _existing(
        self, key: ColumnFacts, values: Sequence[Any], wanted: Mapping[ColumnFacts, Sequence[Any]]
    ) -> set[Any]:
        """Return the values that the key has, in the spelling of the sample counts. `wanted`: whose they are."""
        present: set[Any] = set()
        for start in range(0, len(values), VALUES_PER_STATEMENT):
            listed = values[start : start + VALUES_PER_STATEMENT]
            asking = [child.table.table.ref for child, own in wanted.items() if not set(listed).isdisjoint(own)]
            present |= self._found(key, listed, asking)
        return present

    def _found(self, key: ColumnFacts, values: Sequence[Any], asking: Iterable[TableRef]) -> set[Any]:
        dialect = self._connector.dialect
        read = value_of(key.column, dialect, SampleLimits().text)
        path = table_path(key.table.table.ref, dialect)
        listed = value_list(values, dialect)
        statement = f"SELECT DISTINCT {read} FROM {path} WHERE {quote(key.name, dialect)} IN ({listed})"
        most = 2 * len(values)
        if not may_ask(self._connector, statement, max_rows=most, is_late=self._is_out_of_time()):
            raise _LateError
        self.statements += 1
        attribute(self._connector, statement, asking)
        rows = self._connector.query(statement, max_rows=most).rows
        fold = fold_of(dialect, exact=key.name in key.table.sampled.exact)
        return {comparable(row[0], fold) for row in rows}


def check_in_database(
    connector: Connector,
    child: Table,
    columns: Sequence[str],
    parent: Table,
    keys: Sequence[str],
    sentinel: Any = None,
    blank: Sequence[str] = (),
) -> Check:
    """Return the answer to a `check_statement`. Raises `SourceError`, also if the columns cannot be compared."""
    statement = check_statement(connector.dialect, child, columns, parent, keys, sentinel, blank)
    ((rows, missing),) = connector.query(statement, max_rows=1).rows
    return Check(int(rows), int(missing or 0), exact=True)


def check_statement(
    dialect: str,
    child: Table,
    columns: Sequence[str],
    parent: Table,
    keys: Sequence[str],
    sentinel: Any = None,
    blank: Sequence[str] = (),
) -> str:
    """Return the SELECT that counts the child's rows with a value in all columns, and those of them without a parent.

    `sentinel`: a value that counts as NULL. `blank`: the columns whose blank texts count as NULL.
    """
    own = [f"c.{quote(column, dialect)}" for column in columns]
    join = " AND ".join(f"{mine} = p.{quote(key, dialect)}" for mine, key in zip(own, keys, strict=True))
    given = " AND ".join(f"{mine} IS NOT NULL" for mine in own)
    if sentinel is not None:
        given += "".join(f" AND {mine} <> {value_list([sentinel], dialect)}" for mine in own)
    given += "".join(f" AND trim(c.{quote(column, dialect)}) <> ''" for column in blank)
    mark = _unused(keys)
    # ClickHouse fills a row without a match with zeros rather than NULL; the mark is 1 only in a match.
    return (
        f"SELECT count(*), sum(CASE WHEN p.{mark} = 1 THEN 0 ELSE 1 END) "
        f"FROM {table_path(child.ref, dialect)} AS c LEFT JOIN "
        f"(SELECT DISTINCT {column_list(keys, dialect)}, 1 AS {mark} FROM {table_path(parent.ref, dialect)}) AS p "
        f"ON {join} WHERE {given}"
    )


def is_unique_in_database(connector: Connector, table: Table, columns: Sequence[str]) -> bool:
    """Return whether no combination of values of these columns repeats in the whole table. Raises `SourceError`."""
    statement = repeats_statement(connector.dialect, table, columns)
    ((repeated,),) = connector.query(statement, max_rows=1).rows
    return int(repeated) == 0


def repeats_statement(dialect: str, table: Table, columns: Sequence[str]) -> str:
    """Return the SELECT that counts the combinations of values of these columns that repeat in the whole table."""
    listed = column_list(columns, dialect)
    given = " AND ".join(f"{quote(column, dialect)} IS NOT NULL" for column in columns)
    return (
        f"SELECT count(*) FROM (SELECT {listed} FROM {table_path(table.ref, dialect)} WHERE {given} "
        f"GROUP BY {listed} HAVING count(*) > 1) AS repeated"
    )


def _spread(counts: Mapping[Any, int], count: int) -> list[Any]:
    values = list(counts)
    return values[:: max(1, len(values) // count)][:count]


def _probed(child: ColumnFacts, values: Sequence[Any], present: set[Any]) -> Overlap:
    lost = [value for value in values if value not in present]
    hits = len(values) - len(lost)
    sentinel = _sentinel_of(lost) if hits >= SENTINEL_HITS else None
    kept = [value for value in values if value != sentinel or sentinel is None]
    missing = sum(child.counts[value] for value in lost if value != sentinel or sentinel is None)
    rows = sum(child.counts[value] for value in kept)
    sentinel_rows = 0 if sentinel is None else child.counts[sentinel]
    return Overlap(rows, missing, len(kept), hits, exact=False, sentinel=sentinel, sentinel_rows=sentinel_rows)


def _unused(names: Sequence[str]) -> str:
    """Return a name that is not among these."""
    taken, mark = {name.lower() for name in names}, "found"
    while mark in taken:
        mark += "_"
    return mark


COPY_TOLERANCE = 0.02
"""By how much the share of rows without a parent in the nearest copy may exceed that in another copy."""


def without_copies(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates, with only the nearest of a parent and its copies. The key of a copy itself has none.

    The nearest is the one in the child's own layer, else the one whose name has the fewest marks of a copy; of two
    schemas, the child's own.
    """
    groups: dict[tuple[ColumnFacts, tuple[str, ...], str], list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        if _is_key_of_copy(candidate):
            continue
        groups[candidate.child, core(candidate.key.table), candidate.key.joined].append(candidate)
    return [candidate for group in groups.values() for candidate in _without_copies(group)]


def _is_key_of_copy(candidate: Candidate) -> bool:
    """Return whether a column is the same key in a copy of the parent, or in its original."""
    mine, theirs = candidate.child.table, candidate.key.table
    same = mine is not theirs and candidate.child.joined == candidate.key.joined and core(mine) == core(theirs)
    return same and marks(mine) != marks(theirs) and are_alike(mine, theirs)


def _without_copies(group: Sequence[Candidate]) -> list[Candidate]:
    if len(group) == 1:
        return list(group)
    nearest = min(group, key=_distance)
    return [candidate for candidate in group if candidate is nearest or not _is_needless(candidate, nearest)]


def _distance(candidate: Candidate) -> tuple[int, int, bool]:
    """Return how far a parent is from a child's layer: marks that only one has, marks of the parent, another schema."""
    mine, theirs = marks(candidate.child.table), marks(candidate.key.table)
    away = candidate.child.table.table.ref.schema != candidate.key.table.table.ref.schema
    return len(mine ^ theirs), len(theirs), away


def _is_needless(candidate: Candidate, nearest: Candidate) -> bool:
    if candidate.sources - {"names", "values"}:
        return False
    if _distance(candidate) == _distance(nearest) or candidate.key.table is candidate.child.table:
        return False
    if not are_alike(candidate.key.table, nearest.key.table):
        return False
    if candidate.overlap is None or nearest.overlap is None:
        return nearest.overlap is not None or candidate.overlap is None
    return nearest.overlap.violations <= candidate.overlap.violations + COPY_TOLERANCE


TOLERATED = 0.12
"""The maximum share of rows without a parent for a candidate whose name does not match clearly."""

TOLERATED_NAMED = 0.6
"""The same limit for a candidate whose name matches clearly, which a person should see."""


def find_candidates(
    facts: DatabaseFacts,
    keys: Sequence[ColumnFacts],
    names: NameIndex,
    hinted: Mapping[tuple[ColumnFacts, ColumnFacts], set[str]],
    prober: Prober,
    *,
    most: int,
    declared: set[ColumnFacts],
) -> list[Candidate]:
    """Return the candidates worth ranking, with their features. `declared`: columns with a declared foreign key."""
    values = ValueIndex(keys)
    hints: dict[ColumnFacts, dict[ColumnFacts, set[str]]] = defaultdict(dict)
    for (child, key), sources in hinted.items():
        hints[child][key] = sources
    children = [child for child in facts.columns if child not in declared and can_refer(child)]
    shared = _shared(children, values)
    candidates: list[Candidate] = []
    for child in children:
        holders = [*values.parents(child), *shared.get(child, ()), *_mentioned(child, names)]
        candidates += _candidates_of(child, names, holders, hints.get(child, {}), most)
    return _worth_ranking(candidates, prober)


def find_named_candidates(
    columns: Iterable[ColumnFacts], keys: Set[ColumnFacts], names: NameIndex, prober: Prober
) -> list[Candidate]:
    """Return the candidates of columns that are named like a key, or after the table of a key such as `id`.

    A table with nearly the same columns is ignored, because it holds nothing that a row does not have itself.
    """
    found = [
        Candidate(child, key, match, {"names"})
        for child in columns
        if can_refer(child) and not child.empty
        for key, match in names.parents(child).items()
        if key in keys and same_family(child, key) and _is_called_alike(child, key, match)
        if not are_alike(child.table, key.table)
    ]
    return _worth_ranking(found, prober)


def _is_called_alike(child: ColumnFacts, key: ColumnFacts, match: NameMatch) -> bool:
    if key.base:
        return child.joined == key.joined
    return child.keyed and match.table == 1


def _worth_ranking(candidates: Sequence[Candidate], prober: Prober) -> list[Candidate]:
    """Compare the values of candidates, and return those worth ranking, with their features."""
    _compare_values(candidates, prober)
    kept = _without_needless(without_copies(candidate for candidate in candidates if _plausible(candidate)))
    _set_features(candidate for candidate in kept if not candidate.only_orphans)
    _set_features(candidate for candidate in kept if candidate.only_orphans)
    return [candidate for candidate in kept if candidate.features]


def can_refer(column: ColumnFacts) -> bool:
    """Return whether a column's values can be references at all."""
    is_flag = column.distinct <= 2 and (column.has_word("flag") or _is_state(column)) and not names_agent(column.base)
    return column.family is not Family.OTHER and (column.keyed or not is_flag)


def _is_state(column: ColumnFacts) -> bool:
    """Return whether a column says by its name and values whether something happened: `approved`, 0 or 1."""
    base = column.base
    is_actor = len(base) > 1 and names_actor(base)  # `user_created` is who created something.
    return bool(base) and base[-1].endswith("ed") and not is_actor and column.counts.keys() <= {0, 1}


def _mentioned(child: ColumnFacts, names: NameIndex) -> list[ColumnFacts]:
    """Return the keys of the tables that a table's name names, for a column such as `new_id` in `work_redirect`."""
    if not child.keyed or child.empty or not child.base or names.tables(child.base):
        return []
    keys = [key for number in names.mentioned(child.table) for key in names.likeliest_keys(number)]
    return [key for key in dict.fromkeys(keys) if key is not child and same_family(child, key)]


def _shared(children: Iterable[ColumnFacts], values: ValueIndex) -> dict[ColumnFacts, list[ColumnFacts]]:
    """Return column -> the keys that may hold the values of all columns with the same name in other tables."""
    groups: dict[str, list[ColumnFacts]] = defaultdict(list)
    for child in children:
        if child.base and child.family is Family.INTEGER and not child.empty:
            groups[child.joined].append(child)
    return {
        child: keys
        for group in groups.values()
        if len(group) > 1
        for keys in [values.shared(group)]  # Once for each group: there may be thousands of columns of a name.
        for child in group
    }


def _candidates_of(
    child: ColumnFacts,
    names: NameIndex,
    holders: Sequence[ColumnFacts],
    hints: Mapping[ColumnFacts, set[str]],
    most: int,
) -> list[Candidate]:
    found: dict[ColumnFacts, Candidate] = {}
    for key, named in names.parents(child).items():
        if same_family(child, key):
            found[key] = Candidate(child, key, named, {"names"})
    for key in holders:
        if key is child:
            continue
        if key not in found:
            found[key] = Candidate(child, key, names.match(child, key))
        found[key].sources.add("values")
    for key, sources in hints.items():
        if same_family(child, key):
            found.setdefault(key, Candidate(child, key, names.match(child, key))).sources |= sources
    if not found:
        return []
    ordered = sorted(
        found.values(),
        key=lambda candidate: (
            -len(candidate.sources & hints.get(candidate.key, set())),
            -candidate.name_match.best,
            candidate.key.table.number,
        ),
    )
    name_only = [candidate for candidate in ordered if candidate.sources == {"names"}]
    others = [candidate for candidate in ordered if candidate.sources != {"names"}]
    by_name = name_only[: most // 2 or int(not others)]
    return [*by_name, *others[: most - len(by_name)]]


def same_family(child: ColumnFacts, key: ColumnFacts) -> bool:
    """Return whether the values of both can be equal: they are of the same family, or one has no values yet."""
    return child.family is key.family


def _compare_values(candidates: Sequence[Candidate], prober: Prober) -> None:
    large = []
    for candidate in candidates:
        if candidate.empty:
            continue
        if candidate.key.table.complete:
            # The root of a hierarchy has the parent 0, even if a few rows have only one other parent.
            fewest = 1 if candidate.child.table is candidate.key.table and candidate.child.names_self else SENTINEL_HITS
            candidate.overlap = overlap_in_memory(candidate.child, candidate.key, fewest)
        elif _in_reach(candidate):
            large.append(candidate)
    probed = prober.overlaps((candidate.child, candidate.key) for candidate in large)
    for candidate in large:
        candidate.overlap = probed.get((candidate.child, candidate.key))
        candidate.out_of_time = candidate.key in prober.skipped_keys


def _in_reach(candidate: Candidate) -> bool:
    """Return whether a key that is larger than its sample may hold the values, judging by both ranges."""
    if candidate.key.family is not Family.INTEGER:
        return True
    low, high = float(candidate.key.profile.minimum), float(candidate.key.profile.maximum)
    slack = 0.2 * (high - low) + 10
    own = candidate.child.profile
    return low - slack <= float(own.minimum) and float(own.maximum) <= high + slack


def _plausible(candidate: Candidate) -> bool:
    if candidate.only_orphans:
        return candidate.name_match.best >= CLEAR_NAME
    if _repeats_key(candidate) if candidate.child.table is candidate.key.table else _is_copy(candidate):
        return False
    if candidate.overlap is None:
        return candidate.name_match.best >= CLEAR_NAME or bool(candidate.sources - {"names", "values"})
    if candidate.name_match.best >= CLEAR_NAME or candidate.sources - {"names", "values"}:
        return candidate.overlap.violations <= TOLERATED_NAMED
    return candidate.overlap.violations <= TOLERATED


def _without_needless(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Drop keys without rows for columns that have a clear candidate with rows."""
    settled = {candidate.child for candidate in candidates if not candidate.empty and _is_clear(candidate)}
    return [candidate for candidate in candidates if not (candidate.only_orphans and candidate.child in settled)]


def _repeats_key(candidate: Candidate) -> bool:
    """Return whether a column holds the key of its own row nearly everywhere. A copy of the key is not a reference."""
    values = candidate.child.table.sampled.values
    mine, keys = values.get(candidate.child.name), values.get(candidate.key.name)
    if not mine or not keys:
        return False
    filled = [(value, key) for value, key in zip(mine, keys, strict=True) if value is not None and not is_blank(value)]
    return bool(filled) and sum(value == key for value, key in filled) > 0.9 * len(filled)


def _is_copy(candidate: Candidate) -> bool:
    """Return whether a column is the key of the same table in another schema, as in schemas per tenant."""
    one, other = candidate.child.table, candidate.key.table
    if (
        one.table.ref.name != other.table.ref.name
        or candidate.child.name != candidate.key.name
        or not candidate.child.without_repeats
    ):
        return False
    mine, theirs = ({column.name for column in table.columns} for table in (one, other))
    return 2 * len(mine & theirs) > min(len(mine), len(theirs))


def _set_features(candidates: Iterable[Candidate]) -> None:
    """Set the features of all candidates."""
    by_child: dict[ColumnFacts, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_child[candidate.child].append(candidate)
    features_of = functools.cache(ColumnFeatures.of)
    references: Counter[TableFacts] = Counter()
    for child, group in by_child.items():
        references[child.table] += any(_is_clear(candidate) for candidate in group)
    for group in by_child.values():
        _set_group_features(group, references, features_of)
    _pool_rivals(by_child)


def _pool_rivals(by_child: Mapping[ColumnFacts, Sequence[Candidate]]) -> None:
    """Count as rivals of a shared name's candidates only the keys that contain as many of the columns with the name.

    One value of `created_by` is in many keys, those of forty tables together in few.
    """
    fitting: dict[str, Counter[ColumnFacts]] = defaultdict(Counter)
    for child, group in by_child.items():
        if child.base and child.table.spread.get(child.joined, 1) >= SHARED_BY_TABLES:
            fitting[child.joined].update(candidate.key for candidate in group if _fits(candidate))
    ordered = {name: sorted(counts.values()) for name, counts in fitting.items()}
    for child, group in by_child.items():
        counts = fitting.get(child.joined, Counter())
        ascending = ordered.get(child.joined, [])
        for candidate in group if counts else ():
            fewer = bisect_left(ascending, counts[candidate.key])
            candidate.rivals = len(ascending) - fewer - _fits(candidate)


def _fits(candidate: Candidate) -> bool:
    return candidate.overlap is not None and candidate.overlap.violations <= FIT_TOLERANCE


def _set_group_features(
    group: Sequence[Candidate],
    references: Mapping[TableFacts, int],
    features_of: Callable[[ColumnFacts], ColumnFeatures],
) -> None:
    """Set the features of one column's candidates, except for those that cannot win against a clear name."""
    names = sorted(candidate.name_match.best for candidate in group)
    shares = [_coverage(candidate, features_of(candidate.key)) for candidate in group]
    ascending = sorted(shares)
    rivals = sum(map(_fits, group))
    meant = sum(candidate.name_match.meaning for candidate in group)
    clear = [candidate.name_match.best for candidate in group if _is_clear(candidate)]
    least = CLEAR_NAME if max(clear, default=0.0) == 1.0 else FAINT_NAME
    for candidate, share in zip(group, shares, strict=True):
        candidate.rivals = rivals - _fits(candidate)
        if clear and _is_hopeless(candidate, least):
            continue
        best = candidate.name_match.best
        competition = Competition(
            best_name_elsewhere=names[-1] if best < names[-1] else names[-2] if len(names) > 1 else 0.0,
            name_rank=len(names) - bisect_right(names, best),
            rivals=rivals,
            coverage_rank=len(shares) - bisect_right(ascending, share),
            meaning_rivals=meant - candidate.name_match.meaning,
            other_references=references[candidate.child.table] - bool(clear),
        )
        of_child, of_key = features_of(candidate.child), features_of(candidate.key)
        candidate.features = candidate_features(candidate, competition, of_child, of_key)


def _is_hopeless(candidate: Candidate, least: float) -> bool:
    """Return whether a candidate loses against a clear one: only values support it, or a name that matches less."""
    return (
        candidate.name_match.best < least
        and not candidate.name_match.meaning
        and not candidate.sources - {"names", "values"}
    )


def _is_clear(candidate: Candidate) -> bool:
    """Return whether name and values match so well that the candidate is certainly a reference."""
    return (
        candidate.name_match.best >= CLEAR_NAME
        and candidate.child.table is not candidate.key.table
        and (candidate.overlap is None or candidate.overlap.violations <= TOLERATED)
    )


def _coverage(candidate: Candidate, key: ColumnFeatures) -> float:
    return 0.0 if candidate.overlap is None else key_coverage(candidate.child, candidate.overlap, key.rows)


NEAREST = 8
"""The number of candidate keys by range: those that cover a column's integers most narrowly."""

NEAREST_OF_FEW = 3
"""The same limit for columns with at most `FEW` distinct values, which are weak evidence."""

FEW = 3

RANGE_SAMPLE = 200
"""The number of a column's integers from which its range without outliers is estimated."""

OUTLIERS = 0.08
"""The share of a column's distinct integers that may lie outside a key's range, as orphans and sentinels do."""

PROBES = 8
"""The number of values of a text column that are looked up in the index."""

MOST_SHARED = 200
"""A value that is in more keys than this does not distinguish them."""


class _Minima:
    """Numbers in a tree of minima, which finds the next number below a limit without visiting those between."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._leaves = 1 << max(0, len(numbers) - 1).bit_length()
        padding = self._leaves - len(numbers)
        self._tree: list[float] = [math.inf] * self._leaves + [*numbers] + [math.inf] * padding
        for node in range(self._leaves - 1, 0, -1):
            self._tree[node] = min(self._tree[2 * node], self._tree[2 * node + 1])

    def at_most(self, limit: int, start: int) -> Iterator[int]:
        """Yield the places, from `start` on, whose numbers are at most `limit`."""
        place = start
        while place < self._leaves and (found := self._next(limit, place)) is not None:
            yield found
            place = found + 1

    def _next(self, limit: int, place: int) -> int | None:
        tree, node = self._tree, self._leaves + place
        while tree[node] > limit:
            while node & 1:  # The last of its parent: what follows is to the right of the parent.
                node >>= 1
            if node == 0:
                return None
            node += 1
        while node < self._leaves:
            node = 2 * node if tree[2 * node] <= limit else 2 * node + 1
        return node - self._leaves


class ValueIndex:
    """The keys that may hold the values of a column."""

    def __init__(self, keys: Iterable[ColumnFacts]) -> None:
        ranges: list[tuple[int, int, int, ColumnFacts]] = []
        self._holders: dict[Any, list[ColumnFacts]] = defaultdict(list)
        for number, key in enumerate(keys):
            if key.empty:
                continue
            if key.family is Family.INTEGER:
                ranges.append((int(key.profile.maximum), number, int(key.profile.minimum), key))
            elif key.family is not Family.OTHER:
                for value in key.counts:
                    self._holders[value].append(key)
        ranges.sort(key=lambda each: each[:2])
        self._ranges = ranges
        self._highest = [each[0] for each in ranges]
        self._lowest = _Minima([each[2] for each in ranges])

    def parents(self, child: ColumnFacts) -> list[ColumnFacts]:
        """Return the keys that may hold the column's values."""
        if child.empty:
            return []
        if child.family is Family.INTEGER:
            return self._covering(child)
        return self._holding(child) if child.family in (Family.TEXT, Family.TIME) else []

    def shared(self, namesakes: Sequence[ColumnFacts]) -> list[ColumnFacts]:
        """Return the keys that may hold the integers of all columns with one name, narrowest first."""
        ranges = [each for each in map(_range_without_sentinels, namesakes) if each is not None]
        if not ranges:
            return []
        return self._around(min(low for low, _ in ranges), max(high for _, high in ranges), NEAREST_OF_FEW)

    def _covering(self, child: ColumnFacts) -> list[ColumnFacts]:
        most = NEAREST if child.distinct > FEW else NEAREST_OF_FEW
        low, high = _range(child)
        found = self._around(low, high, most)
        inner_low, inner_high = _without_outliers(child)
        if inner_high < high or inner_low > low:
            found += self._around(inner_low, inner_high, NEAREST_OF_FEW)
        return [key for key in dict.fromkeys([*found, *self._own(child)]) if key is not child]

    def _around(self, low: int, high: int, most: int) -> list[ColumnFacts]:
        """Return the keys whose range covers another, narrowest first."""
        covering = self._lowest.at_most(low, bisect_left(self._highest, high))
        return [self._ranges[place][3] for place in islice(covering, most)]

    def _own(self, child: ColumnFacts) -> list[ColumnFacts]:
        """Return the likely key of the column's own table, if its range covers the column's."""
        key = child.table.likeliest
        if key is None or key.family is not Family.INTEGER or key.empty:
            return []
        (low, high), (lowest, highest) = _without_outliers(child), _range(key)
        return [key] if lowest <= low and high <= highest else []

    def _holding(self, child: ColumnFacts) -> list[ColumnFacts]:
        values = list(child.counts)
        probes = values[:: max(1, len(values) // PROBES)][:PROBES]
        hits: dict[ColumnFacts, int] = defaultdict(int)
        for value in probes:
            holders = self._holders.get(value, ())
            for key in holders if len(holders) <= MOST_SHARED else ():
                hits[key] += 1
        wanted = max(1, len(probes) // 2)
        return [
            key
            for key, count in hits.items()
            if key is not child and (count >= wanted or (count and not key.table.complete))
        ]


def _range(column: ColumnFacts) -> tuple[int, int]:
    return int(column.profile.minimum), int(column.profile.maximum)


def _range_without_sentinels(column: ColumnFacts) -> tuple[int, int] | None:
    """Return the range of a column's integers other than sentinels, or None if there are no others."""
    low, high = _range(column)
    if low not in SENTINELS and high not in SENTINELS:
        return low, high
    rest = [value for value in column.counts if value not in SENTINELS]
    return (int(min(rest)), int(max(rest))) if rest else None


def _without_outliers(column: ColumnFacts) -> tuple[int, int]:
    """Return the range of a column's integers without the few at both ends that may be orphans and sentinels."""
    few = sorted(islice(column.counts, 0, None, max(1, column.distinct // RANGE_SAMPLE)))
    cut = int(len(few) * OUTLIERS)
    rest = few[cut : len(few) - cut]
    return int(rest[0]), int(rest[-1])


FEWEST_NAMESAKES: Final = 3
"""Fewer columns of a name are decided one by one."""

LEAST_MEAN: Final = -1.0
"""The least mean log-odds of the columns with which a key is that of all of them."""

LEAST_LEAD: Final = 1.0
"""By how much this mean has to exceed that of any other key."""

UNSUPPORTED: Final = 0.05
"""The probability that counts for a column that fits a key but does not have it as a candidate."""

FITTING_SHARE: Final = 0.9
"""The share of the columns of a name whose values a key has to contain."""

ORPHANS: Final = 0.08
"""The largest share of rows without a parent with which a column fits a key."""


def pool_namesakes(columns: Iterable[ColumnFacts], candidates: Iterable[Candidate]) -> None:
    """Add a hint to the candidates of one key for all columns of a name, if names alone decide for none of them.

    One or two values are in many keys. All values of a name are in few, and neighbours support one of these.
    """
    by_child: dict[ColumnFacts, dict[ColumnFacts, Candidate]] = defaultdict(dict)
    for candidate in candidates:
        by_child[candidate.child][candidate.key] = candidate
    for group in _groups(columns):
        known = [by_child.get(child, {}) for child in group]
        if any(each.name_match.best >= CLEAR_NAME for of_child in known for each in of_child.values()):
            continue
        few = (
            all(child.distinct <= FEW for child in group)
            and len({value for child in group for value in child.counts}) <= FEW
        )
        if few and not names_actor(group[0].base):
            continue  # Many keys contain a few values.
        for child, key in _decided(group, known):
            if key in by_child[child]:
                candidate = by_child[child][key]
                candidate.sources.add(NAMESAKES)
                candidate.probability = with_hints(candidate.probability, [NAMESAKES])


def _groups(columns: Iterable[ColumnFacts]) -> list[list[ColumnFacts]]:
    """Return the columns with values that have one name in several tables."""
    groups: dict[tuple[str, Family], list[ColumnFacts]] = defaultdict(list)
    for column in columns:
        if column.base and not column.empty and column.family is not Family.TIME and can_refer(column):
            groups["".join(column.base), column.family].append(column)
    return [group for group in groups.values() if len({column.table for column in group}) >= FEWEST_NAMESAKES]


def _decided(
    group: Sequence[ColumnFacts], known: Sequence[Mapping[ColumnFacts, Candidate]]
) -> list[tuple[ColumnFacts, ColumnFacts]]:
    """Return each column with the key of all of them, or nothing if no key is far enough ahead."""
    scores: list[tuple[float, ColumnFacts, list[ColumnFacts]]] = []
    for key in dict.fromkeys(key for of_child in known for key in of_child):
        fitting = _fitting(group, known, key)
        if len(fitting) >= FITTING_SHARE * len(group):
            odds = [_log_odds(of_child[key].probability if key in of_child else UNSUPPORTED) for of_child in known]
            scores.append((sum(odds) / len(odds), key, fitting))
    scores.sort(key=lambda score: -score[0])
    if not scores or scores[0][0] < LEAST_MEAN or (len(scores) > 1 and scores[0][0] - scores[1][0] < LEAST_LEAD):
        return []
    _, key, fitting = scores[0]
    if any(other is not key and other.joined == key.joined and key.base for of_child in known for other in of_child):
        return []  # Subtypes share the key, and nothing tells which of them is meant.
    return [(child, key) for child in fitting if child is not key]


def _fitting(
    group: Sequence[ColumnFacts], known: Sequence[Mapping[ColumnFacts, Candidate]], key: ColumnFacts
) -> list[ColumnFacts]:
    """Return the columns that fit a key, or nothing as soon as too many do not."""
    found: list[ColumnFacts] = []
    for number, (child, of_child) in enumerate(zip(group, known, strict=True)):
        overlap = of_child[key].overlap if key in of_child else None
        if overlap is None and key.table.complete and not key.empty:
            overlap = overlap_in_memory(child, key)
        if overlap is not None and overlap.violations <= ORPHANS:
            found.append(child)
        if number - len(found) >= (1 - FITTING_SHARE) * len(group):
            return []
    return found


def _log_odds(probability: float) -> float:
    clipped = max(0.005, min(0.995, probability))
    return math.log(clipped / (1 - clipped))
