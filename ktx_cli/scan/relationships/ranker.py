"""The probability of a relationship: features of a candidate, trees over them in two passes, calibration, evidence."""

from __future__ import annotations

import functools
import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import islice
from math import exp, log, log2, log10
from typing import Any, Final

from ktx_cli.core import KtxError
from ktx_cli.scan.relationships.columns import Candidate, ColumnFacts, Family, Named, Overlap
from ktx_cli.scan.relationships.keys import key_score, own_name
from ktx_cli.scan.relationships.names import alike, listed, word_set
from ktx_cli.scan.relationships.record import Check

FEATURES: Final = listed(
    "name_table name_key name_meaning meaning_rank name_best_elsewhere name_rank owner keyed self_reference self_word"
    " measure_word flag_word time_word text_word violations coverage span low_skew distinct child_unique child_key"
    " child_own_name parent_dense parent_text chance rivals coverage_rank nulls same_type rows_ratio parent_rows"
    " parent_key parent_first parent_keyed name_spread tables_alike context clear_name other_references child_dense"
    " distinct_share"
)
"""The features, in the order of the ranker's coefficients."""

KINDS: Final = ("measure", "flag", "time", "text")
"""The kinds of words of the features `measure_word` to `text_word`, in their order."""

OF_NAMES: Final = word_set(
    "same_type parent_first parent_keyed name_spread tables_alike context clear_name name_table name_key"
    " name_meaning meaning_rank name_best_elsewhere name_rank owner keyed self_reference self_word measure_word"
    " flag_word time_word text_word child_own_name"
)
"""The features that need no rows."""


def without_rows(values: Sequence[float]) -> list[float]:
    """Return the features with those that need rows at 0."""
    return [value if name in OF_NAMES else 0.0 for name, value in zip(FEATURES, values, strict=True)]


@dataclass(frozen=True, slots=True)
class Standing:
    """How a candidate stands among the others of its child: the clearest name and the best coverage elsewhere."""

    best_name_elsewhere: float
    name_rank: int
    rivals: int
    coverage_rank: int
    meaning_rivals: int = 0
    other_references: int = 0


@dataclass(frozen=True, slots=True)
class Numbers:
    """What all candidates of a column have in common, computed once: its standing as a key, its range, its middle.

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
    width = middle = weight = 0.0
    if column.family is Family.INTEGER and not column.empty:
        width = float(column.profile.maximum) - float(column.profile.minimum) + 1
        middle = float(sum(column.counts)) / len(column.counts)
    elif not column.empty:
        few = list(islice(column.counts, 20))
        weight = min(1.5, 0.3 * sum(len(str(value)) for value in few) / len(few))
    rows = max(column.table.rows, column.distinct)
    dense = bool(width) and width <= 1.3 * rows + 2
    kinds = tuple(float(column.says(kind)) for kind in KINDS)
    own = column.says("self") or column.says("boss")
    measured = (key_score(column), own_name(column), dense, width, middle, rows, weight)
    return Numbers(*measured, kinds, own, column.column.native_type.lower())


def features(
    child: ColumnFacts,
    key: ColumnFacts,
    named: Named,
    overlap: Overlap,
    standing: Standing,
    known: Numbers,
    own: Numbers,
) -> list[float]:
    """Return the numbers of `FEATURES` for a candidate; `known`: of the key, `own`: of the child."""
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


NEIGHBOURS: Final = listed(
    "odds margin rank namesakes namesakes_mean namesakes_best namesakes_fit shared_rivals last_word_share"
    " last_word_count first_word_share first_word_count last_base_mean popular popular_by_role siblings group_span"
    " group_span_elsewhere group_coverage group_coverage_elsewhere"
)
"""What the second look knows besides `FEATURES`."""

SECOND_FEATURES: Final = (*NEIGHBOURS, *FEATURES)
"""The features of the second look, in the order of its trees."""

FAINTEST: Final = -3.0
"""Log-odds from which a candidate is looked at again; those of a key that is no candidate."""

LAG: Final = 4.0
"""A candidate so far behind the best of its column is not looked at again."""

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
    """A candidate by the numbers of its column and its key. `named`: how clearly the column speaks of the key.

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
    """All columns of a database and all candidates of them, without rows: enough for the second look, and small."""

    columns: Sequence[Spelling]
    sightings: Sequence[Sighting]


def scene_of(columns: Sequence[ColumnFacts], candidates: Iterable[Candidate]) -> Scene:
    """Return the scene of a database's columns and of candidates of them."""
    numbers = {column: number for number, column in enumerate(columns)}
    return Scene([_spelling(column) for column in columns], [_sighting(candidate, numbers) for candidate in candidates])


def _sighting(candidate: Candidate, numbers: Mapping[ColumnFacts, int]) -> Sighting:
    fits = candidate.overlap is not None and candidate.overlap.violations <= FITS
    span, coverage = (candidate.values[SPAN], candidate.values[COVERAGE]) if fits else (0.0, 0.0)
    return Sighting(numbers[candidate.child], numbers[candidate.key], candidate.named.best, fits, span, coverage)


def _spelling(column: ColumnFacts) -> Spelling:
    parts, base = column.parts, column.base
    several = len(parts) > 1
    ends = (parts[0], parts[-1]) if several else ("", "")
    return Spelling(column.table.number, column.joined if base else "", *ends, base[-1] if base else "")


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


HINT_WEIGHTS: Final[Mapping[str, float]] = {"dbt": 4.0, "view": 3.0, "history": 2.5, "embedding": 1.0, "model": 1.5}
"""What each source of hints adds to the log-odds of a relationship."""

Node = tuple[int, float, int, int]
"""Feature, threshold, the node to go to when the value is at most the threshold, or else; a leaf: (-1, value, 0, 0)."""


@dataclass(frozen=True, slots=True)
class Ranker:
    """`base`: the log-odds to begin with; `trees` add to it; `steps`: (raw probability, calibrated one), ascending.

    `second`: for the numbers of `SECOND_FEATURES`; `blind`: for those of `FEATURES` without rows. None: there is none.
    """

    base: float
    trees: tuple[tuple[Node, ...], ...]
    steps: tuple[tuple[float, float], ...]
    second: Ranker | None = None
    blind: Ranker | None = None

    def probability(self, values: Sequence[float]) -> float:
        """Return the probability, 0 to 1, for the numbers of the features the trees were learned for."""
        return self.calibrated(self.odds(values))

    def calibrated(self, odds: float) -> float:
        """Return the probability that log-odds stand for, 0 to 1."""
        return self._calibrated(1 / (1 + exp(-max(-30.0, min(30.0, odds)))))

    def odds(self, values: Sequence[float]) -> float:
        """Return the log-odds, not calibrated."""
        odds = self.base
        for tree in self.trees:
            feature, limit, low, high = tree[0]
            while feature >= 0:
                feature, limit, low, high = tree[low if values[feature] <= limit else high]
            odds += limit
        return odds

    def _calibrated(self, raw: float) -> float:
        if not self.steps:
            return raw
        at = bisect_right(self.steps, raw, key=lambda step: step[0])
        if at == 0:
            return self.steps[0][1]
        if at == len(self.steps):
            return self.steps[-1][1]
        (x0, y0), (x1, y1) = self.steps[at - 1], self.steps[at]
        return y0 + (y1 - y0) * (raw - x0) / (x1 - x0) if x1 > x0 else y1


@functools.cache
def load_ranker() -> Ranker:
    """Return the ranker that is shipped. Raises `KtxError` when it was learned for other features."""
    text = files("ktx_cli.scan.relationships").joinpath("ranker.json").read_text("utf-8")
    return read_ranker(json.loads(text))


def read_ranker(document: Mapping[str, Any]) -> Ranker:
    """Return the ranker a document describes."""
    second, blind = document.get("second"), document.get("blind")
    return replace(
        read_pass(document, FEATURES),
        second=None if second is None else read_pass(second, SECOND_FEATURES),
        blind=None if blind is None else read_pass(blind, FEATURES),
    )


def read_pass(document: Mapping[str, Any], features: Sequence[str]) -> Ranker:
    """Return one look of a document. Raises `KtxError` when it was learned for other features."""
    if tuple(document["features"]) != tuple(features):
        raise KtxError("ranker.json was learned for other features", hint="python benchmarks/train_ranker.py")
    return Ranker(
        base=float(document["base"]),
        trees=tuple(tuple((int(f), float(t), int(a), int(b)) for f, t, a, b in tree) for tree in document["trees"]),
        steps=tuple((float(x), float(y)) for x, y in document["calibration"]),
    )


def rate_candidates(ranker: Ranker, columns: Sequence[ColumnFacts], candidates: Sequence[Candidate]) -> None:
    """Fill in the scores of all candidates of a database's columns; what hints say is added at the end."""
    blind = ranker.blind or ranker
    seen = [candidate for candidate in candidates if not candidate.empty]
    unseen = [candidate for candidate in candidates if candidate.empty]
    for candidate, odds in zip(seen, _each(ranker.odds, (candidate.values for candidate in seen)), strict=True):
        candidate.odds, candidate.probability = odds, ranker.calibrated(odds)
    for candidate in unseen:
        values = without_rows(candidate.values)
        candidate.odds, candidate.probability = blind.odds(values), blind.probability(values)
    if ranker.second is not None:
        _second_pass(ranker.second, columns, candidates)
    for candidate in candidates:
        hints = candidate.sources - {"names", "values"}
        candidate.probability = with_hints(candidate.probability, hints) if hints else candidate.probability


def _second_pass(second: Ranker, columns: Sequence[ColumnFacts], candidates: Sequence[Candidate]) -> None:
    """Score anew the candidates that have rows and some odds at first; those behind are as unlikely as can be."""
    scene, odds = scene_of(columns, candidates), [candidate.odds for candidate in candidates]
    places = [at for at in likely(scene, odds) if not candidates[at].empty]
    rows = (
        (*numbers, *candidates[at].values)
        for at, numbers in zip(places, neighbours_of(scene, odds, places), strict=True)
    )
    scores = dict(zip(places, _each(second.probability, rows), strict=True))
    unlikely = Ranker(0.0, (), ()).calibrated(FAINTEST)
    for at, candidate in enumerate(candidates):
        if not candidate.empty:
            candidate.probability = scores.get(at, min(candidate.probability, unlikely))


def _each(look: Callable[[Sequence[float]], float], rows: Iterable[Sequence[float]]) -> list[float]:
    """Return what a look says of each row of numbers; equal ones, of which large databases have many, once."""
    known: dict[tuple[float, ...], float] = {}
    found = []
    for row in map(tuple, rows):
        if row not in known:
            known[row] = look(row)
        found.append(known[row])
    return found


def with_hints(probability: float, hints: Iterable[str]) -> float:
    """Return the probability of a relationship that other sources name too."""
    added = sum(HINT_WEIGHTS.get(hint, 0.0) for hint in hints)
    return 1 / (1 + exp(-_odds(probability) - added))


def _odds(probability: float) -> float:
    kept = max(1e-6, min(1 - 1e-6, probability))
    return log(kept / (1 - kept))


SURE_CHANCE: Final = 3.0
"""From so unlikely a coincidence on (minus the decimal logarithm) the rows alone speak for a composite candidate."""


def composite_probability(
    check: Check | None, chance: float = 0.0, *, named: bool = False, weak: bool = False
) -> float:
    """Return the probability of several columns and a composite key: by its rows, else by its names.

    `check` None: rows say nothing for it. `chance`: how unlikely it is that the values meet by chance. `named`: the
    names alone say which key is meant; `weak`: a column is called alike by a word that says nothing.
    """
    if check is None:
        return 0.6
    sure = chance >= SURE_CHANCE
    if named:
        return 0.97 if sure and not check.missing else 0.9
    return 0.9 if sure and not (check.missing and weak) else 0.6


def branch_probability(named: float) -> float:
    """Return the probability of one value of a discriminator; `named`: how clearly it names the table, 0 to 1."""
    return 0.95 if named >= 0.75 else 0.8
