"""A column and a key it may refer to, with all that is known of the two."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import log2, log10
from typing import Final

from ktx_cli.scan.relationships.containment import Overlap
from ktx_cli.scan.relationships.facts import ColumnFacts, Family
from ktx_cli.scan.relationships.keys import key_score, own_name
from ktx_cli.scan.relationships.matches import Named
from ktx_cli.scan.relationships.names import alike


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


FEATURES: Final = (
    "name_table",
    "name_key",
    "name_meaning",
    "meaning_rank",
    "name_best_elsewhere",
    "name_rank",
    "owner",
    "keyed",
    "self_reference",
    "self_word",
    "measure_word",
    "flag_word",
    "time_word",
    "text_word",
    "violations",
    "coverage",
    "span",
    "low_skew",
    "distinct",
    "child_unique",
    "child_key",
    "child_own_name",
    "parent_dense",
    "parent_text",
    "chance",
    "rivals",
    "coverage_rank",
    "nulls",
    "same_type",
    "rows_ratio",
    "parent_rows",
    "parent_key",
    "parent_first",
    "parent_keyed",
    "name_spread",
    "tables_alike",
    "context",
    "clear_name",
    "other_references",
    "child_dense",
    "distinct_share",
)
"""The features, in the order of the ranker's coefficients."""

KINDS: Final = ("measure", "flag", "time", "text")
"""The kinds of words of the features `measure_word` to `text_word`, in their order."""

OF_NAMES: Final = frozenset(
    {"name_table", "name_key", "name_meaning", "meaning_rank", "name_best_elsewhere", "name_rank", "owner", "keyed"}
    | {"self_reference", "self_word", "measure_word", "flag_word", "time_word", "text_word", "child_own_name"}
    | {"same_type", "parent_first", "parent_keyed", "name_spread", "tables_alike", "context", "clear_name"}
)
"""The features that need no rows."""


def without_rows(values: Sequence[float]) -> list[float]:
    """Return the features with those that need rows at 0."""
    return [value if name in OF_NAMES else 0.0 for name, value in zip(FEATURES, values, strict=True)]


@dataclass(frozen=True, slots=True)
class Standing:
    """How a pair stands among the others of its child: the clearest name and the best coverage elsewhere."""

    best_name_elsewhere: float
    name_rank: int
    rivals: int
    coverage_rank: int
    meaning_rivals: int = 0
    other_references: int = 0


@dataclass(frozen=True, slots=True)
class Numbers:
    """What all pairs of a column have in common, computed once: its standing as a key, its range, its middle.

    `kinds`: whether its name says it is one of `KINDS`, as 0 or 1; `speaks_of_own`: whether it may speak of
    its own table; `type`: in lower case.
    """

    score: float
    own_name: float
    dense: bool
    width: float
    middle: float
    rows: int
    weight: float
    kinds: tuple[float, ...]
    speaks_of_own: bool
    type: str


def numbers_of(column: ColumnFacts) -> Numbers:
    """Return the numbers of a column."""
    width = middle = 0.0
    weight = 0.0
    if column.family is Family.INTEGER and not column.empty:
        width = float(column.profile.maximum) - float(column.profile.minimum) + 1
        middle = float(sum(column.counts)) / len(column.counts)
    elif not column.empty:
        few = list(islice(column.counts, 20))
        weight = min(1.5, 0.3 * sum(len(str(value)) for value in few) / len(few))
    rows = max(column.table.rows, column.distinct)
    dense = bool(width) and width <= 1.3 * rows + 2
    return Numbers(
        key_score(column),
        own_name(column),
        dense,
        width,
        middle,
        rows,
        weight,
        tuple(float(column.says(kind)) for kind in KINDS),
        column.says("self") or column.says("boss"),
        column.column.native_type.lower(),
    )


def features(
    child: ColumnFacts,
    key: ColumnFacts,
    named: Named,
    overlap: Overlap,
    standing: Standing,
    known: Numbers,
    own: Numbers,
) -> list[float]:
    """Return the numbers of `FEATURES` for a pair; `known`: of the key, `own`: of the child."""
    same_table = child.table is key.table
    span, low_skew = _spread(child, key, own)
    return [
        named.table,
        named.key,
        float(named.meaning),
        float(min(standing.meaning_rivals, 5)),
        standing.best_name_elsewhere,
        float(min(standing.name_rank, 9)),
        known.own_name,
        float(child.keyed),
        float(same_table),
        float(same_table and own.speaks_of_own),
        *own.kinds,
        min(1.0, overlap.violations),
        covered(child, overlap, known.rows),
        span,
        low_skew,
        log10(1 + child.distinct),
        float(child.profile.unique),
        own.score if child.unique else -3.0,
        own.own_name if own.own_name >= named.table else 0.0,
        float(known.dense),
        float(key.family is Family.TEXT),
        _chance(child, key, known, own),
        log2(1 + standing.rivals),
        float(min(standing.coverage_rank, 9)),
        child.profile.nulls / max(1, child.profile.rows),
        float(own.type == known.type),
        max(-3.0, min(5.0, log10((1 + child.table.rows) / (1 + known.rows)))),
        log10(1 + known.rows),
        known.score,
        float(key.position == 0),
        float(key.keyed),
        log2(1 + child.table.spread.get(child.joined, 1)),
        0.0 if same_table else _tables_alike(child, key),
        0.0 if same_table else context(child, key),
        min(named.best, known.own_name),
        float(min(standing.other_references, 4)),
        float(own.dense),
        child.distinct / max(1, child.profile.filled),
    ]


def covered(child: ColumnFacts, overlap: Overlap, rows: int) -> float:
    """Return the share of a key's values that a column has, 0 to 1, guessed where only some of them were looked up."""
    total = child.table.rows if child.profile.unique else child.distinct
    found = overlap.hits / max(1, overlap.distinct) * total if overlap.distinct < total else overlap.hits
    return min(1.0, found / max(1, rows))


def context(child: ColumnFacts, key: ColumnFacts) -> float:
    """Return the share of the parent's words that the child's table has too: `film actor` speaks of films."""
    return _share_alike(key.table.words, child.table.words)


@functools.lru_cache(maxsize=100_000)
def _share_alike(some: tuple[str, ...], others: tuple[str, ...]) -> float:
    return sum(any(alike(word, other) >= 0.8 for other in others) for word in some) / len(some)


def _tables_alike(child: ColumnFacts, key: ColumnFacts) -> float:
    """Return the share of the smaller table's other columns that the larger has too: copies are no children."""
    if child.joined != key.joined:
        return 0.0
    mine, theirs = child.table.peculiar - {child.joined}, key.table.peculiar - {key.joined}
    smaller = min(len(mine), len(theirs))
    return len(mine & theirs) / smaller if smaller else 0.0


def _spread(child: ColumnFacts, key: ColumnFacts, own: Numbers) -> tuple[float, float]:
    """Return how much of the key's range the child spans, and how far its middle lies below the key's, both 0 to 1.

    References fall anywhere among the keys; quantities and ranks crowd at the low end (Zhang and others, 2010).
    """
    if key.family is not Family.INTEGER or child.empty or key.empty:
        return 1.0, 0.0
    low, high = float(key.profile.minimum), float(key.profile.maximum)
    width = max(1.0, high - low)
    span = (own.width - 1) / width
    return min(1.0, span), max(0.0, min(1.0, 1 - 2 * (own.middle - low) / width)) if high > low else 0.0


def _chance(child: ColumnFacts, key: ColumnFacts, known: Numbers, own: Numbers) -> float:
    """Return how unlikely it is that values are keys by chance, as minus the decimal logarithm, at most 10."""
    if child.empty:
        return 0.0
    if key.family is not Family.INTEGER:
        return min(10.0, child.distinct * own.weight)
    density = min(1.0, max(1, known.rows) / max(1.0, known.width))
    return min(10.0, -child.distinct * log10(density)) if density < 1 else 0.0
