"""Brings together which columns may refer to which keys, from names, values and hints, and what the rows say of it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ktx_cli.context.scan.relationships.containment import Overlap, Prober, overlap_in_memory
from ktx_cli.context.scan.relationships.copies import without_copies
from ktx_cli.context.scan.relationships.facts import ColumnFacts, DatabaseFacts, Family, TableFacts
from ktx_cli.context.scan.relationships.features import Numbers, Standing, covered, features, numbers_of
from ktx_cli.context.scan.relationships.matching import Named, NameIndex
from ktx_cli.context.scan.relationships.values import ValueIndex

TOLERATED = 0.12
"""The share of rows that may find nothing for a pair to be looked at further when its name says little."""

TOLERATED_NAMED = 0.6
"""The same for a pair whose name is clear: a person should hear of it."""

CLEAR_NAME = 0.75
FAINT_NAME = 0.45


@dataclass(slots=True, eq=False)
class Pair:
    """A column and a key it may refer to. `overlap` None: no values to compare, or they were not compared.

    `late`: that was for want of time. `odds`: what the ranker's first look gives, as log-odds.
    """

    child: ColumnFacts
    key: ColumnFacts
    named: Named
    sources: set[str] = field(default_factory=set)
    overlap: Overlap | None = None
    values: list[float] = field(default_factory=list)
    score: float = 0.0
    odds: float = 0.0
    late: bool = False

    @property
    def empty(self) -> bool:
        """Whether one of the two has no values: no row can tell."""
        return self.child.empty or self.key.empty

    @property
    def only_orphans(self) -> bool:
        """Whether the column has values and the key none: no row finds its parent yet."""
        return self.key.empty and not self.child.empty


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
