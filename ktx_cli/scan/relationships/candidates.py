"""Finds the candidates: columns and keys they may refer to, by their names and by the values they share."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import SourceError
from ktx_cli.scan.profile.profiler import comparable, fold_of
from ktx_cli.scan.relationships.columns import Candidate, Family, Overlap, are_alike, core, marks
from ktx_cli.scan.relationships.ranker import Numbers, Standing, covered, features, numbers_of
from ktx_cli.scan.relationships.record import Check
from ktx_cli.warehouses import Connector, SampleLimits, Table, column_list, quote, table_path, value_list, value_of

if TYPE_CHECKING:
    from ktx_cli.scan.relationships.columns import ColumnFacts, DatabaseFacts, NameIndex, TableFacts

PROBED_VALUES = 60
"""How many values of a column are looked up in a key that is larger than its sample."""

VALUES_A_STATEMENT = 1500
"""How many values one statement looks up, for all columns together."""

EXACT_ROWS = 5_000_000
"""Tables with more rows are not joined to confirm a relationship; what the sample says stands."""


SENTINELS: Final = frozenset(
    {0, -1, 999, 9999, 99999, 999999, 9999999, 99999999, 999999999, 2147483647}
    | {"", "0", "-1", "-", "?", "n/a", "none", "null", "unknown"}
)
"""What programs write where there is no reference; no orphan where no key has it."""


def overlap_in_memory(child: ColumnFacts, key: ColumnFacts) -> Overlap:
    """Compare a column with a key whose rows are all in the sample; a sentinel counts as NULL."""
    mine, theirs = child.counts, key.counts
    rows = child.profile.filled
    if mine.keys() <= theirs.keys():
        return Overlap(rows, 0, len(mine), len(mine), child.table.complete)
    lost = mine.keys() - theirs.keys()
    hits = len(mine) - len(lost)
    blank = _blank_of(lost) if hits else None
    if blank is not None:
        rows -= mine[blank]
        lost = lost - {blank}
    missing = sum(mine[value] for value in lost)
    blank_rows = child.profile.filled - rows
    return Overlap(rows, missing, hits + len(lost), hits, child.table.complete, blank, blank_rows)


def _blank_of(lost: Iterable[Any]) -> Any:
    """Return the value among those not found that stands for NULL; None where there is none, or several."""
    blanks = [value for value in lost if _is_sentinel(value)]
    return blanks[0] if len(blanks) == 1 else None


def _is_sentinel(value: Any) -> bool:
    return (value.strip().lower() if isinstance(value, str) else value) in SENTINELS


class Prober:
    """Looks up values of columns in keys that are larger than their samples; one statement for many columns.

    `is_over` says when nothing is looked up any more; `late`: the keys that was too late for.
    """

    def __init__(self, connector: Connector, is_over: Callable[[], bool] = lambda: False) -> None:
        self._connector = connector
        self._is_over = is_over
        self.late: set[ColumnFacts] = set()
        self.statements = 0
        self.problems: list[str] = []

    def overlaps(
        self, candidates: Iterable[tuple[ColumnFacts, ColumnFacts]]
    ) -> dict[tuple[ColumnFacts, ColumnFacts], Overlap]:
        """Return what was found out; a candidate whose lookup failed is left out, and `problems` says why."""
        by_key: dict[ColumnFacts, list[ColumnFacts]] = defaultdict(list)
        for child, key in candidates:
            by_key[key].append(child)
        found = {}
        for key, children in by_key.items():
            if self._is_over():
                self.late.add(key)
                continue
            for child, overlap in self._look_up(key, children).items():
                found[child, key] = overlap
        return found

    def _look_up(self, key: ColumnFacts, children: Sequence[ColumnFacts]) -> dict[ColumnFacts, Overlap]:
        wanted = {child: _spread(child.counts, PROBED_VALUES) for child in children}
        known = set(key.counts)
        unknown = sorted({value for values in wanted.values() for value in values} - known, key=repr)
        try:
            present = known | self._existing(key, unknown)
        except (SourceError, ValueError) as error:
            if isinstance(error, SourceError) and error.code == "connection":
                raise
            return self._one_by_one(key, children, error)
        return {child: _probed(child, values, present) for child, values in wanted.items()}

    def _one_by_one(
        self, key: ColumnFacts, children: Sequence[ColumnFacts], error: Exception
    ) -> dict[ColumnFacts, Overlap]:
        """Look up each column alone, because the values of one made the statement of all fail."""
        if len(children) == 1:
            self.problems.append(f"values of {children[0]} could not be looked up in {key}: {error}")
            return {}
        return {child: overlap for each in children for child, overlap in self._look_up(key, [each]).items()}

    def _existing(self, key: ColumnFacts, values: Sequence[Any]) -> set[Any]:
        """Return those of the values that the key has, spelled as the counts of samples are."""
        present: set[Any] = set()
        for start in range(0, len(values), VALUES_A_STATEMENT):
            present |= self._found(key, values[start : start + VALUES_A_STATEMENT])
        return present

    def _found(self, key: ColumnFacts, values: Sequence[Any]) -> set[Any]:
        dialect = self._connector.dialect
        read = value_of(key.column, dialect, SampleLimits().text)
        path = table_path(key.table.table.ref, dialect)
        listed = value_list(values, dialect)
        statement = f"SELECT DISTINCT {read} FROM {path} WHERE {quote(key.name, dialect)} IN ({listed})"
        self.statements += 1
        rows = self._connector.query(statement, max_rows=2 * len(values)).rows
        fold = fold_of(dialect, exact=key.name in key.table.sampled.exact)
        return {comparable(row[0], fold) for row in rows}


def check_in_database(
    connector: Connector, child: Table, columns: Sequence[str], parent: Table, keys: Sequence[str], *, blank: Any = None
) -> Check:
    """Count the child's rows with a value in all columns, and those that find no row of the parent.

    `blank`: a value that stands for NULL. Raises `SourceError`, also when the two cannot be compared.
    """
    dialect = connector.dialect
    own = [f"c.{quote(column, dialect)}" for column in columns]
    join = " AND ".join(f"{mine} = p.{quote(key, dialect)}" for mine, key in zip(own, keys, strict=True))
    given = " AND ".join(f"{mine} IS NOT NULL" for mine in own)
    if blank is not None:
        given += "".join(f" AND {mine} <> {value_list([blank], dialect)}" for mine in own)
    mark = _unused(keys)
    # ClickHouse fills a row that finds nothing with zeros, not with NULL: the mark tells either.
    statement = (
        f"SELECT count(*), sum(CASE WHEN p.{mark} = 1 THEN 0 ELSE 1 END) "
        f"FROM {table_path(child.ref, dialect)} AS c LEFT JOIN "
        f"(SELECT DISTINCT {column_list(keys, dialect)}, 1 AS {mark} FROM {table_path(parent.ref, dialect)}) AS p "
        f"ON {join} WHERE {given}"
    )
    ((rows, missing),) = connector.query(statement, max_rows=1).rows
    return Check(int(rows), int(missing or 0), exact=True)


def is_unique_in_database(connector: Connector, table: Table, columns: Sequence[str]) -> bool:
    """Whether no combination of values of these columns stands twice in the whole table. Raises `SourceError`."""
    dialect = connector.dialect
    listed = column_list(columns, dialect)
    given = " AND ".join(f"{quote(column, dialect)} IS NOT NULL" for column in columns)
    statement = (
        f"SELECT count(*) FROM (SELECT {listed} FROM {table_path(table.ref, dialect)} WHERE {given} "
        f"GROUP BY {listed} HAVING count(*) > 1) AS repeated"
    )
    ((repeated,),) = connector.query(statement, max_rows=1).rows
    return int(repeated) == 0


def _spread(counts: Mapping[Any, int], count: int) -> list[Any]:
    values = list(counts)
    return values[:: max(1, len(values) // count)][:count]


def _probed(child: ColumnFacts, values: Sequence[Any], present: set[Any]) -> Overlap:
    lost = [value for value in values if value not in present]
    hits = len(values) - len(lost)
    blank = _blank_of(lost) if hits else None
    kept = [value for value in values if value != blank or blank is None]
    missing = sum(child.counts[value] for value in lost if value != blank or blank is None)
    rows = sum(child.counts[value] for value in kept)
    blank_rows = 0 if blank is None else child.counts[blank]
    return Overlap(rows, missing, len(kept), hits, exact=False, blank=blank, blank_rows=blank_rows)


def _unused(names: Sequence[str]) -> str:
    """Return a name that is none of these."""
    taken, mark = {name.lower() for name in names}, "found"
    while mark in taken:
        mark += "_"
    return mark


SLACK = 0.02
"""So much larger a share of rows may find nothing in the table of one's own layer than in its copy."""


def without_copies(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates without those to a copy where the same column may refer to the original, or the reverse.

    A copy's own key refers to nothing. Of several parents the one of the child's own layer stays, else the one with the
    fewest marks in its name; of two schemas the child's own.
    """
    groups: dict[tuple[ColumnFacts, tuple[str, ...], str], list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        if _repeats(candidate):
            continue
        groups[candidate.child, core(candidate.key.table), candidate.key.joined].append(candidate)
    return [candidate for group in groups.values() for candidate in _without_copies(group)]


def _repeats(candidate: Candidate) -> bool:
    """Whether a column is in a copy, or in the original, what the key is in the other."""
    mine, theirs = candidate.child.table, candidate.key.table
    same = mine is not theirs and candidate.child.joined == candidate.key.joined and core(mine) == core(theirs)
    return same and marks(mine) != marks(theirs) and are_alike(mine, theirs)


def _without_copies(group: Sequence[Candidate]) -> list[Candidate]:
    if len(group) == 1:
        return list(group)
    nearest = min(group, key=_distance)
    return [candidate for candidate in group if candidate is nearest or not _is_needless(candidate, nearest)]


def _distance(candidate: Candidate) -> tuple[int, int, bool]:
    """Return how far a parent is from a child's layer: by the marks only one of them has, by its own, by schema."""
    mine, theirs = marks(candidate.child.table), marks(candidate.key.table)
    away = candidate.child.table.table.ref.schema != candidate.key.table.table.ref.schema
    return len(mine ^ theirs), len(theirs), away


def _is_needless(candidate: Candidate, nearest: Candidate) -> bool:
    if _distance(candidate) == _distance(nearest) or candidate.key.table is candidate.child.table:
        return False
    if not are_alike(candidate.key.table, nearest.key.table):
        return False
    if candidate.overlap is None or nearest.overlap is None:
        return nearest.overlap is not None or candidate.overlap is None
    return nearest.overlap.violations <= candidate.overlap.violations + SLACK


TOLERATED = 0.12
"""The share of rows that may find nothing for a candidate to be looked at further when its name says little."""

TOLERATED_NAMED = 0.6
"""The same for a candidate whose name is clear: a person should hear of it."""

CLEAR_NAME = 0.75
FAINT_NAME = 0.45


def find_candidates(
    facts: DatabaseFacts,
    keys: Sequence[ColumnFacts],
    names: NameIndex,
    hinted: Mapping[tuple[ColumnFacts, ColumnFacts], set[str]],
    prober: Prober,
    *,
    most: int,
    spoken_for: set[ColumnFacts],
) -> list[Candidate]:
    """Return the candidates worth ranking, with their features; `spoken_for`: columns whose references are declared."""
    values = ValueIndex(keys)
    hints: dict[ColumnFacts, dict[ColumnFacts, set[str]]] = defaultdict(dict)
    for (child, key), sources in hinted.items():
        hints[child][key] = sources
    children = [child for child in facts.columns if child not in spoken_for and can_refer(child)]
    shared = _shared(children, values)
    candidates = [
        candidate
        for child in children
        for candidate in _of(child, names, [*values.parents(child), *shared.get(child, ())], hints.get(child, {}), most)
    ]
    _measure(candidates, prober)
    kept = _without_needless(without_copies(candidate for candidate in candidates if _plausible(candidate)))
    _describe(candidate for candidate in kept if not candidate.only_orphans)
    _describe(candidate for candidate in kept if candidate.only_orphans)
    return [candidate for candidate in kept if candidate.values]


def can_refer(column: ColumnFacts) -> bool:
    """Whether a column's values could be references at all."""
    return column.family is not Family.OTHER and not (column.distinct <= 2 and column.says("flag") and not column.keyed)


def _shared(children: Iterable[ColumnFacts], values: ValueIndex) -> dict[ColumnFacts, list[ColumnFacts]]:
    """Return for columns that have namesakes in other tables the keys that may hold the values of them all."""
    groups: dict[str, list[ColumnFacts]] = defaultdict(list)
    for child in children:
        if child.base and child.family is Family.INTEGER and not child.empty:
            groups[child.joined].append(child)
    return {child: values.shared(group) for group in groups.values() if len(group) > 1 for child in group}


def _of(
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
            found[key] = Candidate(child, key, names.named(child, key))
        found[key].sources.add("values")
    for key, sources in hints.items():
        if same_family(child, key):
            found.setdefault(key, Candidate(child, key, names.named(child, key))).sources |= sources
    if not found:
        return []
    ordered = sorted(
        found.values(),
        key=lambda candidate: (
            -len(candidate.sources & hints.get(candidate.key, set())),
            -candidate.named.best,
            candidate.key.table.number,
        ),
    )
    spoken = [candidate for candidate in ordered if candidate.sources == {"names"}]
    others = [candidate for candidate in ordered if candidate.sources != {"names"}]
    by_name = spoken[: most // 2 or int(not others)]
    return [*by_name, *others[: most - len(by_name)]]


def same_family(child: ColumnFacts, key: ColumnFacts) -> bool:
    """Whether the values of both can be equal: the same family, or one has no values yet."""
    return child.family is key.family


def _measure(candidates: Sequence[Candidate], prober: Prober) -> None:
    large = []
    for candidate in candidates:
        if candidate.empty:
            continue
        if candidate.key.table.complete:
            candidate.overlap = overlap_in_memory(candidate.child, candidate.key)
        elif _in_reach(candidate):
            large.append(candidate)
    probed = prober.overlaps((candidate.child, candidate.key) for candidate in large)
    for candidate in large:
        candidate.overlap = probed.get((candidate.child, candidate.key))
        candidate.late = candidate.key in prober.late


def _in_reach(candidate: Candidate) -> bool:
    """Whether a key that is larger than its sample may hold the values at all, from the ends of both."""
    if candidate.key.family is not Family.INTEGER:
        return True
    low, high = float(candidate.key.profile.minimum), float(candidate.key.profile.maximum)
    slack = 0.2 * (high - low) + 10
    own = candidate.child.profile
    return low - slack <= float(own.minimum) and float(own.maximum) <= high + slack


def _plausible(candidate: Candidate) -> bool:
    if candidate.only_orphans:
        return candidate.named.best >= CLEAR_NAME
    if _repeats_key(candidate) if candidate.child.table is candidate.key.table else _is_copy(candidate):
        return False
    if candidate.overlap is None:
        return candidate.named.best >= CLEAR_NAME or bool(candidate.sources - {"names", "values"})
    if candidate.named.best >= CLEAR_NAME or candidate.sources - {"names", "values"}:
        return candidate.overlap.violations <= TOLERATED_NAMED
    return candidate.overlap.violations <= TOLERATED


def _without_needless(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Leave out keys without rows where a column finds its values by a clear name elsewhere."""
    settled = {candidate.child for candidate in candidates if not candidate.empty and _is_clear(candidate)}
    return [candidate for candidate in candidates if not (candidate.only_orphans and candidate.child in settled)]


def _repeats_key(candidate: Candidate) -> bool:
    """Whether a column holds the key of its own row nearly everywhere: a copy of the key refers to nothing."""
    values = candidate.child.table.sampled.values
    mine, keys = values.get(candidate.child.name), values.get(candidate.key.name)
    if not mine or not keys:
        return False
    filled = [(value, key) for value, key in zip(mine, keys, strict=True) if value is not None]
    return bool(filled) and sum(value == key for value, key in filled) > 0.9 * len(filled)


def _is_copy(candidate: Candidate) -> bool:
    """Whether a column is the key of the same table in another schema: those of tenants do not refer to each other."""
    one, other = candidate.child.table, candidate.key.table
    if (
        one.table.ref.name != other.table.ref.name
        or candidate.child.name != candidate.key.name
        or not candidate.child.profile.unique
    ):
        return False
    mine, theirs = ({column.name for column in table.columns} for table in (one, other))
    return 2 * len(mine & theirs) > min(len(mine), len(theirs))


def _describe(candidates: Iterable[Candidate]) -> None:
    """Fill in the features of all candidates."""
    by_child: dict[ColumnFacts, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_child[candidate.child].append(candidate)
    cache: dict[ColumnFacts, Numbers] = {}

    def numbers(column: ColumnFacts) -> Numbers:
        if column not in cache:
            cache[column] = numbers_of(column)
        return cache[column]

    references: Counter[TableFacts] = Counter()
    for child, group in by_child.items():
        references[child.table] += any(_is_clear(candidate) for candidate in group)
    for child, group in by_child.items():
        _describe_group(child, group, references, numbers)


def _describe_group(
    child: ColumnFacts,
    group: Sequence[Candidate],
    references: Mapping[TableFacts, int],
    numbers: Callable[[ColumnFacts], Numbers],
) -> None:
    """Fill in the features of one column's candidates; those a clear name leaves no chance keep none."""
    own = numbers(child)
    names = sorted(candidate.named.best for candidate in group)
    shares = [_share(candidate, numbers(candidate.key)) for candidate in group]
    ascending = sorted(shares)
    rivals = sum(candidate.overlap is not None and candidate.overlap.violations <= 0.02 for candidate in group)
    meant = sum(candidate.named.meaning for candidate in group)
    clear = any(_is_clear(candidate) for candidate in group)
    for candidate, share in zip(group, shares, strict=True):
        if clear and _is_hopeless(candidate):
            continue
        best = candidate.named.best
        standing = Standing(
            best_name_elsewhere=names[-1] if best < names[-1] else names[-2] if len(names) > 1 else 0.0,
            name_rank=len(names) - bisect_right(names, best),
            rivals=rivals,
            coverage_rank=len(shares) - bisect_right(ascending, share),
            meaning_rivals=meant - candidate.named.meaning,
            other_references=references[child.table] - clear,
        )
        overlap = candidate.overlap or Overlap(0, 0, 0, 0, exact=False)
        candidate.values = features(
            child, candidate.key, candidate.named, overlap, standing, numbers(candidate.key), own
        )


def _is_hopeless(candidate: Candidate) -> bool:
    """Whether a candidate has nothing but values to speak for it, beside another whose name and values are clear."""
    return (
        candidate.named.best < FAINT_NAME
        and not candidate.named.meaning
        and not candidate.sources - {"names", "values"}
    )


def _is_clear(candidate: Candidate) -> bool:
    """Whether a candidate is a reference by its name already: its table has others like it."""
    return (
        candidate.named.best >= CLEAR_NAME
        and candidate.child.table is not candidate.key.table
        and (candidate.overlap is None or candidate.overlap.violations <= TOLERATED)
    )


def _share(candidate: Candidate, known: Numbers) -> float:
    return 0.0 if candidate.overlap is None else covered(candidate.child, candidate.overlap, known.rows)


NEAREST = 8
"""How many keys whose range covers a column's integers are looked at: those with the least to spare."""

NEAREST_OF_FEW = 3
"""The same for columns of at most `FEW` different values, which say little."""

FEW = 3

LOOKED_AT = 200
"""By how many of a column's integers its range without outliers is told."""

OUTLIERS = 0.08
"""The share of a column's different integers that may lie beyond a key, as orphans and sentinels do."""

PROBES = 8
"""How many values of a text column are looked up."""

MOST_SHARED = 200
"""A value that stands in more keys than this tells none of them apart."""


class ValueIndex:
    """Answers which keys may hold the values of a column."""

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

    def parents(self, child: ColumnFacts) -> list[ColumnFacts]:
        """Return the keys that may hold the column's values, without looking at each of them."""
        if child.empty:
            return []
        if child.family is Family.INTEGER:
            return self._covering(child)
        return self._holding(child) if child.family in (Family.TEXT, Family.TIME) else []

    def shared(self, namesakes: Sequence[ColumnFacts]) -> list[ColumnFacts]:
        """Return the keys that may hold the integers of all columns of one name: those with the least to spare."""
        ranges = [_range(each) for each in namesakes]
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
        """Return the keys whose range covers another, the narrowest first."""
        covering = (key for _, _, lowest, key in self._ranges[bisect_left(self._highest, high) :] if lowest <= low)
        return list(islice(covering, most))

    def _own(self, child: ColumnFacts) -> list[ColumnFacts]:
        """Return the likely key of the column's own table, where its range holds the column's."""
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


def _without_outliers(column: ColumnFacts) -> tuple[int, int]:
    """Return the range of a column's integers without the few at both ends that orphans and sentinels may be."""
    few = sorted(islice(column.counts, 0, None, max(1, column.distinct // LOOKED_AT)))
    cut = int(len(few) * OUTLIERS)
    rest = few[cut : len(few) - cut]
    return int(rest[0]), int(rest[-1])
