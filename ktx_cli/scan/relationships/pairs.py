"""Tables that repeat others: staging, backups, archives. Nothing refers to a copy but what is of its own layer."""

from __future__ import annotations

import functools
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from ktx_cli.scan.relationships.containment import Overlap, Prober, overlap_in_memory
from ktx_cli.scan.relationships.facts import ColumnFacts, DatabaseFacts, Family, TableFacts
from ktx_cli.scan.relationships.features import Numbers, Pair, Standing, covered, features, numbers_of
from ktx_cli.scan.relationships.matches import NameIndex
from ktx_cli.scan.relationships.names import tokens, words

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


TOLERATED = 0.12
"""The share of rows that may find nothing for a pair to be looked at further when its name says little."""

TOLERATED_NAMED = 0.6
"""The same for a pair whose name is clear: a person should hear of it."""

CLEAR_NAME = 0.75
FAINT_NAME = 0.45


def find_pairs(
    facts: DatabaseFacts,
    keys: Sequence[ColumnFacts],
    names: NameIndex,
    hinted: Mapping[tuple[ColumnFacts, ColumnFacts], set[str]],
    prober: Prober,
    *,
    most: int,
    spoken_for: set[ColumnFacts],
) -> list[Pair]:
    """Return the pairs worth ranking, with their features; `spoken_for`: columns whose references are declared."""
    values = ValueIndex(keys)
    hints: dict[ColumnFacts, dict[ColumnFacts, set[str]]] = defaultdict(dict)
    for (child, key), sources in hinted.items():
        hints[child][key] = sources
    children = [child for child in facts.columns if child not in spoken_for and can_refer(child)]
    shared = _shared(children, values)
    pairs = [
        pair
        for child in children
        for pair in _of(child, names, [*values.parents(child), *shared.get(child, ())], hints.get(child, {}), most)
    ]
    _measure(pairs, prober)
    kept = _without_needless(without_copies(pair for pair in pairs if _plausible(pair)))
    _describe(pair for pair in kept if not pair.only_orphans)
    _describe(pair for pair in kept if pair.only_orphans)
    return [pair for pair in kept if pair.values]


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
) -> list[Pair]:
    found: dict[ColumnFacts, Pair] = {}
    for key, named in names.parents(child).items():
        if comparable(child, key):
            found[key] = Pair(child, key, named, {"names"})
    for key in holders:
        if key is child:
            continue
        if key not in found:
            found[key] = Pair(child, key, names.named(child, key))
        found[key].sources.add("values")
    for key, sources in hints.items():
        if comparable(child, key):
            found.setdefault(key, Pair(child, key, names.named(child, key))).sources |= sources
    if not found:
        return []
    ordered = sorted(
        found.values(),
        key=lambda pair: (-len(pair.sources & hints.get(pair.key, set())), -pair.named.best, pair.key.table.number),
    )
    spoken = [pair for pair in ordered if pair.sources == {"names"}]
    others = [pair for pair in ordered if pair.sources != {"names"}]
    by_name = spoken[: most // 2 or int(not others)]
    return [*by_name, *others[: most - len(by_name)]]


def comparable(child: ColumnFacts, key: ColumnFacts) -> bool:
    """Whether the values of both can be equal: the same family, or one has no values yet."""
    return child.family is key.family


def _measure(pairs: Sequence[Pair], prober: Prober) -> None:
    large = []
    for pair in pairs:
        if pair.empty:
            continue
        if pair.key.table.complete:
            pair.overlap = overlap_in_memory(pair.child, pair.key)
        elif _in_reach(pair):
            large.append(pair)
    probed = prober.overlaps((pair.child, pair.key) for pair in large)
    for pair in large:
        pair.overlap = probed.get((pair.child, pair.key))
        pair.late = pair.key in prober.late


def _in_reach(pair: Pair) -> bool:
    """Whether a key that is larger than its sample may hold the values at all, from the ends of both."""
    if pair.key.family is not Family.INTEGER:
        return True
    low, high = float(pair.key.profile.minimum), float(pair.key.profile.maximum)
    slack = 0.2 * (high - low) + 10
    own = pair.child.profile
    return low - slack <= float(own.minimum) and float(own.maximum) <= high + slack


def _plausible(pair: Pair) -> bool:
    if pair.only_orphans:
        return pair.named.best >= CLEAR_NAME
    if _repeats_key(pair) if pair.child.table is pair.key.table else _is_copy(pair):
        return False
    if pair.overlap is None:
        return pair.named.best >= CLEAR_NAME or bool(pair.sources - {"names", "values"})
    if pair.named.best >= CLEAR_NAME or pair.sources - {"names", "values"}:
        return pair.overlap.violations <= TOLERATED_NAMED
    return pair.overlap.violations <= TOLERATED


def _without_needless(pairs: Sequence[Pair]) -> list[Pair]:
    """Leave out keys without rows where a column finds its values by a clear name elsewhere."""
    settled = {pair.child for pair in pairs if not pair.empty and _is_clear(pair)}
    return [pair for pair in pairs if not (pair.only_orphans and pair.child in settled)]


def _repeats_key(pair: Pair) -> bool:
    """Whether a column holds the key of its own row nearly everywhere: a copy of the key refers to nothing."""
    values = pair.child.table.sampled.values
    mine, keys = values.get(pair.child.name), values.get(pair.key.name)
    if not mine or not keys:
        return False
    filled = [(value, key) for value, key in zip(mine, keys, strict=True) if value is not None]
    return bool(filled) and sum(value == key for value, key in filled) > 0.9 * len(filled)


def _is_copy(pair: Pair) -> bool:
    """Whether a column is the key of the same table in another schema: those of tenants do not refer to each other."""
    one, other = pair.child.table, pair.key.table
    if one.table.ref.name != other.table.ref.name or pair.child.name != pair.key.name or not pair.child.profile.unique:
        return False
    mine, theirs = ({column.name for column in table.columns} for table in (one, other))
    return 2 * len(mine & theirs) > min(len(mine), len(theirs))


def _describe(pairs: Iterable[Pair]) -> None:
    """Fill in the features of all pairs."""
    by_child: dict[ColumnFacts, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_child[pair.child].append(pair)
    cache: dict[ColumnFacts, Numbers] = {}

    def numbers(column: ColumnFacts) -> Numbers:
        if column not in cache:
            cache[column] = numbers_of(column)
        return cache[column]

    references: Counter[TableFacts] = Counter()
    for child, group in by_child.items():
        references[child.table] += any(_is_clear(pair) for pair in group)
    for child, group in by_child.items():
        _describe_group(child, group, references, numbers)


def _describe_group(
    child: ColumnFacts,
    group: Sequence[Pair],
    references: Mapping[TableFacts, int],
    numbers: Callable[[ColumnFacts], Numbers],
) -> None:
    """Fill in the features of one column's pairs; those a clear name leaves no chance keep none."""
    own = numbers(child)
    names = sorted(pair.named.best for pair in group)
    shares = [_share(pair, numbers(pair.key)) for pair in group]
    ascending = sorted(shares)
    rivals = sum(pair.overlap is not None and pair.overlap.violations <= 0.02 for pair in group)
    meant = sum(pair.named.meaning for pair in group)
    clear = any(_is_clear(pair) for pair in group)
    for pair, share in zip(group, shares, strict=True):
        if clear and _is_hopeless(pair):
            continue
        best = pair.named.best
        standing = Standing(
            best_name_elsewhere=names[-1] if best < names[-1] else names[-2] if len(names) > 1 else 0.0,
            name_rank=len(names) - bisect_right(names, best),
            rivals=rivals,
            coverage_rank=len(shares) - bisect_right(ascending, share),
            meaning_rivals=meant - pair.named.meaning,
            other_references=references[child.table] - clear,
        )
        overlap = pair.overlap or Overlap(0, 0, 0, 0, exact=False)
        pair.values = features(child, pair.key, pair.named, overlap, standing, numbers(pair.key), own)


def _is_hopeless(pair: Pair) -> bool:
    """Whether a pair has nothing but values to speak for it, beside another whose name and values are clear."""
    return pair.named.best < FAINT_NAME and not pair.named.meaning and not pair.sources - {"names", "values"}


def _is_clear(pair: Pair) -> bool:
    """Whether a pair is a reference by its name already: its table has others like it."""
    return (
        pair.named.best >= CLEAR_NAME
        and pair.child.table is not pair.key.table
        and (pair.overlap is None or pair.overlap.violations <= TOLERATED)
    )


def _share(pair: Pair, known: Numbers) -> float:
    return 0.0 if pair.overlap is None else covered(pair.child, pair.overlap, known.rows)


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
