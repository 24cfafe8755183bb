"""The second look at pairs: what the first says of a column's namesakes, its naming convention and the key's children.

One pair seldom shows what a database shows: ten columns called `crtby` whose values all are among the users', or a last
word that only references have. Stacked classification over linked objects (Neville and Jensen, 2000): the first look's
log-odds of the neighbours are features of the second.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log2
from typing import Final

from ktx_cli.scan.relationships.facts import ColumnFacts
from ktx_cli.scan.relationships.features import FEATURES, Pair

NEIGHBOURS: Final = (
    "odds",
    "margin",
    "rank",
    "namesakes",
    "namesakes_mean",
    "namesakes_best",
    "namesakes_fit",
    "shared_rivals",
    "last_word_share",
    "last_word_count",
    "first_word_share",
    "first_word_count",
    "last_base_mean",
    "popular",
    "popular_by_role",
    "siblings",
    "group_span",
    "group_span_elsewhere",
    "group_coverage",
    "group_coverage_elsewhere",
)
"""What the second look knows besides `FEATURES`."""

SECOND_FEATURES: Final = (*NEIGHBOURS, *FEATURES)
"""The features of the second look, in the order of its trees."""

FAINTEST: Final = -3.0
"""Log-odds from which a pair is looked at again; those of a key that is no candidate."""

LAG: Final = 4.0
"""A pair so far behind the best of its column is not looked at again."""

SPAN: Final = FEATURES.index("span")
COVERAGE: Final = FEATURES.index("coverage")
STRONGEST: Final = 8.0
FITS: Final = 0.02
"""The share of rows that may find nothing where a key still holds a column's values."""

SPOKEN: Final = 0.5
"""A reference whose name speaks of its parent less clearly is one by role."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """A column's name: run together, its first and last word, and the last that means no key; `table`: its number."""

    table: int
    name: str
    first: str
    last: str
    last_base: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """A pair by the numbers of its column and its key. `named`: how clearly the column speaks of the key.

    `span`, `coverage`: how much of the key's range and of its values the column has, 0 where it does not fit.
    """

    child: int
    key: int
    named: float
    fits: bool
    span: float
    coverage: float


@dataclass(frozen=True, slots=True)
class Scene:
    """All columns of a database and all pairs of them, without rows: enough for the second look, and small."""

    columns: Sequence[Spelling]
    sightings: Sequence[Sighting]


def scene_of(columns: Sequence[ColumnFacts], pairs: Iterable[Pair]) -> Scene:
    """Return the scene of a database's columns and of pairs of them."""
    numbers = {column: number for number, column in enumerate(columns)}
    return Scene([_spelling(column) for column in columns], [_sighting(pair, numbers) for pair in pairs])


def _sighting(pair: Pair, numbers: Mapping[ColumnFacts, int]) -> Sighting:
    fits = pair.overlap is not None and pair.overlap.violations <= FITS
    span, coverage = (pair.values[SPAN], pair.values[COVERAGE]) if fits else (0.0, 0.0)
    return Sighting(numbers[pair.child], numbers[pair.key], pair.named.best, fits, span, coverage)


def _spelling(column: ColumnFacts) -> Spelling:
    parts, base = column.parts, column.base
    several = len(parts) > 1
    return Spelling(
        column.table.number,
        column.joined if base else "",
        parts[0] if several else "",
        parts[-1] if several else "",
        base[-1] if base else "",
    )


@dataclass(slots=True)
class _Tally:
    """Sums over a group of columns, from which any one of them can be taken out."""

    count: int = 0
    references: float = 0.0

    def share_without(self, reference: float) -> float:
        """Return the share of references among the others; a half where there are none."""
        return (self.references - reference + 0.5) / (self.count - 1 + 1.0)


def likely(scene: Scene, odds: Sequence[float]) -> list[int]:
    """Return the places of the sightings that are worth a second look."""
    best: dict[int, float] = {}
    for sighting, each in zip(scene.sightings, odds, strict=True):
        best[sighting.child] = max(each, best.get(sighting.child, -STRONGEST))
    return [
        at
        for at, (sighting, each) in enumerate(zip(scene.sightings, odds, strict=True))
        if each >= FAINTEST and each >= best[sighting.child] - LAG
    ]


def neighbours_of(scene: Scene, odds: Sequence[float], places: Iterable[int]) -> list[list[float]]:
    """Return the numbers of `NEIGHBOURS` for the sightings at some places; `odds`: of all, by the first look."""
    neighbourhood = _Neighbourhood(scene, [max(-STRONGEST, min(STRONGEST, each)) for each in odds])
    return [neighbourhood.of(at) for at in places]


@dataclass(slots=True)
class _Neighbourhood:
    scene: Scene
    odds: Sequence[float]
    by_child: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    best: dict[int, float] = field(default_factory=dict)
    namesakes: Counter[str] = field(default_factory=Counter)
    by_name: dict[tuple[str, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    fitting: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    last: dict[str, _Tally] = field(default_factory=lambda: defaultdict(_Tally))
    first: dict[str, _Tally] = field(default_factory=lambda: defaultdict(_Tally))
    by_base: dict[tuple[str, int], list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0]))
    reach: dict[tuple[str, int], list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0]))
    popular: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    by_role: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    by_table: dict[tuple[int, int], float] = field(default_factory=lambda: defaultdict(float))

    def __post_init__(self) -> None:
        columns = self.scene.columns
        for at, sighting in enumerate(self.scene.sightings):
            self.by_child[sighting.child][sighting.key] = at
            self.best[sighting.child] = max(self.best.get(sighting.child, -STRONGEST), self.odds[at])
        for number, column in enumerate(columns):
            if column.name:
                self.namesakes[column.name] += 1
            self._count(self.last[column.last], number)
            self._count(self.first[column.first], number)
        for at, sighting in enumerate(self.scene.sightings):
            self._add(at, sighting, columns[sighting.child])

    def _count(self, tally: _Tally, column: int) -> None:
        tally.count += 1
        tally.references += self._reference(column)

    def _reference(self, column: int) -> float:
        return _probability(self.best[column]) if column in self.best else 0.0

    def _add(self, at: int, sighting: Sighting, column: Spelling) -> None:
        chance = _probability(self.odds[at])
        if self.odds[at] >= self.best[sighting.child]:
            self.popular[sighting.key] += chance
            self.by_table[column.table, sighting.key] += chance
            if sighting.named < SPOKEN:
                self.by_role[sighting.key] += chance
        if column.name:
            self.by_name[column.name, sighting.key].append(max(FAINTEST, self.odds[at]))
            self.fitting[column.name][sighting.key] += sighting.fits
        if column.last_base:
            reach = self.reach[column.last_base, sighting.key]
            reach[:] = max(reach[0], sighting.span), max(reach[1], sighting.coverage)
            sums = self.by_base[column.last_base, sighting.key]
            sums[0] += max(FAINTEST, self.odds[at])
            sums[1] += 1

    def of(self, at: int) -> list[float]:
        """Return the numbers of one sighting."""
        sighting = self.scene.sightings[at]
        column, odds = self.scene.columns[sighting.child], self.odds[at]
        others = [self.odds[other] for other in self.by_child[sighting.child].values() if other != at]
        reference = self._reference(sighting.child)
        chance = _probability(odds) if odds >= self.best[sighting.child] else 0.0
        last, first = self.last[column.last], self.first[column.first]
        return [
            odds,
            odds - max(others, default=-STRONGEST),
            float(min(9, sum(other > odds for other in others))),
            *self._by_namesakes(sighting, column, max(FAINTEST, odds)),
            last.share_without(reference) if column.last else -1.0,
            log2(last.count) if column.last else 0.0,
            first.share_without(reference) if column.first else -1.0,
            log2(first.count) if column.first else 0.0,
            self._by_last_base(sighting, column, odds),
            log2(1 + self.popular[sighting.key] - chance),
            log2(1 + max(0.0, self.by_role[sighting.key] - (chance if sighting.named < SPOKEN else 0.0))),
            self.by_table[column.table, sighting.key] - chance,
            *self._reaches(sighting, column),
        ]

    def _reaches(self, sighting: Sighting, column: Spelling) -> list[float]:
        """Return how much of the key the columns with the same last word reach, and how much of another they do.

        What refers to a table reaches its ends sooner or later; in a larger one it leaves the top alone.
        """
        own = self.reach.get((column.last_base, sighting.key), (sighting.span, sighting.coverage))
        others = [
            self.reach.get((column.last_base, key), (0.0, 0.0))
            for key, at in self.by_child[sighting.child].items()
            if key != sighting.key and self.scene.sightings[at].fits
        ]
        spans, coverages = ([each[part] for each in others] for part in (0, 1))
        return [own[0], max(spans, default=0.0), own[1], max(coverages, default=0.0)]

    def _by_namesakes(self, sighting: Sighting, column: Spelling, odds: float) -> list[float]:
        """Return how many namesakes there are, what they say of the key (mean and best), and how many keys fit all."""
        others = self.namesakes[column.name] - 1 if column.name else 0
        if not others:
            return [0.0, 0.0, 0.0, -1.0, -1.0]
        alike = list(self.by_name[column.name, sighting.key])
        alike.remove(odds)
        silent = others - len(alike)
        fitting = self.fitting[column.name]
        most = max(fitting.values(), default=0)
        return [
            log2(1 + others),
            (sum(alike) + FAINTEST * silent) / others,
            max(alike, default=FAINTEST),
            (fitting[sighting.key] - sighting.fits) / others,
            log2(1 + sum(count == most for count in fitting.values())),
        ]

    def _by_last_base(self, sighting: Sighting, column: Spelling, odds: float) -> float:
        total, count = self.by_base.get((column.last_base, sighting.key), (0.0, 0.0))
        return (total - max(FAINTEST, odds)) / (count - 1) if count > 1 and column.last_base else 0.0


def _probability(odds: float) -> float:
    return 1 / (1 + exp(-odds))
