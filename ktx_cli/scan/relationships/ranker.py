"""The probability of a relationship: the features of a candidate, boosted trees in two passes, calibration, hints."""

from __future__ import annotations

import functools
import json
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib.resources import files
from itertools import islice
from math import exp, log, log2, log10
from typing import Any, Final

from ktx_cli.core import KtxError
from ktx_cli.scan.relationships.columns import Candidate, ColumnFacts, Family, Overlap
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
"""The features of a candidate, in the order that the trees expect."""

ROWLESS_FEATURES: Final = word_set(
    "same_type parent_first parent_keyed name_spread tables_alike context clear_name name_table name_key"
    " name_meaning meaning_rank name_best_elsewhere name_rank owner keyed self_reference self_word measure_word"
    " flag_word time_word text_word child_own_name"
)
"""The features that can be computed without rows."""

WORD_KINDS: Final = ("measure", "flag", "time", "text")
"""The kinds of words behind the features `measure_word` to `text_word`."""


def without_rows(features: Sequence[float]) -> list[float]:
    """Return the features with those that need rows set to 0."""
    return [value if name in ROWLESS_FEATURES else 0.0 for name, value in zip(FEATURES, features, strict=True)]


@dataclass(frozen=True, slots=True)
class Competition:
    """How a candidate compares with the other candidates of the same child column."""

    best_name_elsewhere: float
    name_rank: int
    rivals: int
    coverage_rank: int
    meaning_rivals: int = 0
    other_references: int = 0


@dataclass(frozen=True, slots=True)
class ColumnFeatures:
    """The numbers that all candidates of a column share, computed once per column.

    `key_score`: how plausible it is as a primary key. `own_name`: how clearly its name says that it is the key of its
    own table. `width`, `mean`: of its integers. `text_weight`: the information in one of its texts. `word_kinds`: kind
    in `WORD_KINDS` -> 1 if its name has such a word, else 0. `may_name_own_table`: its name may refer to its own table.
    """

    key_score: float
    own_name: float
    dense: bool
    width: float
    mean: float
    rows: int
    text_weight: float
    word_kinds: Mapping[str, float]
    may_name_own_table: bool
    native_type: str

    @classmethod
    def of(cls, column: ColumnFacts) -> ColumnFeatures:
        """Return the features of a column."""
        width = mean = text_weight = 0.0
        if column.family is Family.INTEGER and not column.empty:
            width = float(column.profile.maximum) - float(column.profile.minimum) + 1
            mean = float(sum(column.counts)) / len(column.counts)
        elif not column.empty:
            few = list(islice(column.counts, 20))
            text_weight = min(1.5, 0.3 * sum(len(str(value)) for value in few) / len(few))
        rows = max(column.table.rows, column.distinct)
        return cls(
            key_score=key_score(column),
            own_name=own_name(column),
            dense=bool(width) and width <= 1.3 * rows + 2,
            width=width,
            mean=mean,
            rows=rows,
            text_weight=text_weight,
            word_kinds={kind: float(column.has_word(kind)) for kind in WORD_KINDS},
            may_name_own_table=column.names_self or column.has_word("boss"),
            native_type=column.column.native_type.lower(),
        )


def candidate_features(
    candidate: Candidate, competition: Competition, of_child: ColumnFeatures, of_key: ColumnFeatures
) -> array[float]:
    """Return the features of a candidate in the order of `FEATURES`, in little memory."""
    child, key, name = candidate.child, candidate.key, candidate.name_match
    overlap = candidate.overlap or Overlap(0, 0, 0, 0, exact=False)
    same_table = child.table is key.table
    span, low_skew = _range_shares(child, key, of_child)
    values = {
        "name_table": name.table,
        "name_key": name.key,
        "name_meaning": float(name.meaning) + name.actor,
        "meaning_rank": float(min(competition.meaning_rivals, 5)),
        "name_best_elsewhere": competition.best_name_elsewhere,
        "name_rank": float(min(competition.name_rank, 9)),
        "owner": of_key.own_name,
        "keyed": float(child.keyed),
        "self_reference": float(same_table),
        "self_word": float(same_table and of_child.may_name_own_table),
        **{f"{kind}_word": value for kind, value in of_child.word_kinds.items()},
        "violations": min(1.0, overlap.violations),
        "coverage": key_coverage(child, overlap, of_key.rows),
        "span": span,
        "low_skew": low_skew,
        "distinct": log10(1 + child.distinct),
        "child_unique": float(child.without_repeats),
        "child_key": of_child.key_score if child.unique else -3.0,
        "child_own_name": of_child.own_name if of_child.own_name >= name.table else 0.0,
        "parent_dense": float(of_key.dense),
        "parent_text": float(key.family is Family.TEXT),
        "chance": _improbability(child, key, of_child, of_key),
        "rivals": log2(1 + competition.rivals),
        "coverage_rank": float(min(competition.coverage_rank, 9)),
        "nulls": child.nulls / max(1, child.profile.rows),
        "same_type": float(of_child.native_type == of_key.native_type),
        "rows_ratio": max(-3.0, min(5.0, log10((1 + child.table.rows) / (1 + of_key.rows)))),
        "parent_rows": log10(1 + of_key.rows),
        "parent_key": of_key.key_score,
        "parent_first": float(key.position == 0),
        "parent_keyed": float(key.keyed),
        "name_spread": log2(1 + child.table.spread.get(child.joined, 1)),
        "tables_alike": 0.0 if same_table else _shared_columns(child, key),
        "context": 0.0 if same_table else shared_words(child, key),
        "clear_name": min(name.best, of_key.own_name),
        "other_references": float(min(competition.other_references, 4)),
        "child_dense": float(of_child.dense),
        "distinct_share": child.distinct / max(1, child.filled),
    }
    return array("d", [values[name] for name in FEATURES])


def key_coverage(child: ColumnFacts, overlap: Overlap, rows: int) -> float:
    """Return the share of a key's values that a column has, from 0 to 1; an estimate if only some were looked up."""
    total = child.table.rows if child.without_repeats else child.distinct
    found = overlap.hits / max(1, overlap.distinct) * total if overlap.distinct < total else overlap.hits
    return min(1.0, found / max(1, rows))


def shared_words(child: ColumnFacts, key: ColumnFacts) -> float:
    """Return the share of the words in the parent's name that the child's table also has: `film` and `film_actor`."""
    return _share_alike(key.table.words, child.table.words)


@functools.lru_cache(maxsize=100_000)
def _share_alike(some: tuple[str, ...], others: tuple[str, ...]) -> float:
    return sum(any(alike(word, other) >= 0.8 for other in others) for word in some) / len(some)


def _shared_columns(child: ColumnFacts, key: ColumnFacts) -> float:
    """Return the share of the smaller table's other columns that the larger also has: a copy is not a child."""
    if child.joined != key.joined:
        return 0.0
    mine, theirs = child.table.peculiar - {child.joined}, key.table.peculiar - {key.joined}
    smaller = min(len(mine), len(theirs))
    return len(mine & theirs) / smaller if smaller else 0.0


def _range_shares(child: ColumnFacts, key: ColumnFacts, of_child: ColumnFeatures) -> tuple[float, float]:
    """Return how much of the key's range the child spans, and how far its mean is below the key's, both from 0 to 1.

    References fall anywhere among the keys; quantities and ranks crowd at the low end (Zhang and others, 2010).
    """
    if key.family is not Family.INTEGER or child.empty or key.empty:
        return 1.0, 0.0
    low, high = float(key.profile.minimum), float(key.profile.maximum)
    width = max(1.0, high - low)
    span = (of_child.width - 1) / width
    return min(1.0, span), max(0.0, min(1.0, 1 - 2 * (of_child.mean - low) / width)) if high > low else 0.0


def _improbability(child: ColumnFacts, key: ColumnFacts, of_child: ColumnFeatures, of_key: ColumnFeatures) -> float:
    """Return -log10 of the probability that all values are keys by chance, at most 10."""
    if child.empty:
        return 0.0
    if key.family is not Family.INTEGER:
        return min(10.0, child.distinct * of_child.text_weight)
    density = min(1.0, max(1, of_key.rows) / max(1.0, of_key.width))
    return min(10.0, -child.distinct * log10(density)) if density < 1 else 0.0


CLEAR_NAME: Final = 0.75
"""From this match on, a name clearly refers to a key."""

FAINT_NAME: Final = 0.45
"""From this match on, a name may refer to a key."""

NEIGHBOUR_FEATURES: Final = listed(
    "odds margin rank namesakes namesakes_mean namesakes_best namesakes_fit shared_rivals last_word_share"
    " last_word_count first_word_share first_word_count last_base_mean popular popular_by_role siblings group_span"
    " group_span_elsewhere group_coverage group_coverage_elsewhere"
)
"""The features that the second pass adds: the first pass's scores of a candidate and of its neighbours."""

SECOND_FEATURES: Final = (*NEIGHBOUR_FEATURES, *FEATURES)
"""The features of the second pass, in the order that its trees expect."""

MIN_LOG_ODDS: Final = -3.0
"""The second pass skips candidates with lower log-odds; a key that is not a candidate counts as having these."""

MAX_LOG_ODDS_GAP: Final = 4.0
"""The second pass skips candidates that are further behind the best one of their column."""

LOG_ODDS_LIMIT: Final = 8.0
"""Log-odds of the first pass are clipped to this on both sides."""

FIT_TOLERANCE: Final = 0.02
"""The maximum share of rows without a parent with which a column's values still fit a key."""

ROLE_NAME: Final = 0.5
"""A column whose name matches the parent less clearly refers to it by a role: `approved_by`."""

_SPAN: Final = FEATURES.index("span")
_COVERAGE: Final = FEATURES.index("coverage")


@dataclass(frozen=True, slots=True)
class ColumnName:
    """The name of a column: its words that mean no key, without separators, the first and the last word, and the last
    that means no key.

    `table`: the number of its table.
    """

    table: int
    name: str
    first: str
    last: str
    last_base: str


@dataclass(frozen=True, slots=True)
class CandidateSummary:
    """A candidate without its rows. `child`, `key`: the indexes of its columns in `DatabaseSummary.columns`.

    `name_match`: how clearly the column's name refers to the key. `span`, `coverage`: how much of the key's range and
    values the column has, 0 if it does not fit.
    """

    child: int
    key: int
    name_match: float
    fits: bool
    span: float
    coverage: float


@dataclass(frozen=True, slots=True)
class DatabaseSummary:
    """All columns and candidates of a database without rows: everything the second pass needs, in little memory."""

    columns: Sequence[ColumnName]
    candidates: Sequence[CandidateSummary]


def summarize(columns: Sequence[ColumnFacts], candidates: Iterable[Candidate]) -> DatabaseSummary:
    """Return the summary of a database's columns and of candidates of them."""
    indexes = {column: index for index, column in enumerate(columns)}
    candidates = list(candidates)
    summaries = [_candidate_summary(candidate, indexes) for candidate in candidates]
    in_context = {candidate.child for candidate in candidates if candidate.name_match.in_context}
    return DatabaseSummary([_column_name(column, column in in_context) for column in columns], summaries)


def _candidate_summary(candidate: Candidate, indexes: Mapping[ColumnFacts, int]) -> CandidateSummary:
    fits = candidate.overlap is not None and candidate.overlap.violations <= FIT_TOLERANCE
    span, coverage = (candidate.features[_SPAN], candidate.features[_COVERAGE]) if fits else (0.0, 0.0)
    child, key = indexes[candidate.child], indexes[candidate.key]
    return CandidateSummary(child, key, candidate.name_match.best, fits, span, coverage)


def _column_name(column: ColumnFacts, in_context: bool) -> ColumnName:
    """Return a column's name. `in_context`: it only means something with its table's name, `type` in `area`."""
    parts, base = column.parts, column.base
    if in_context:
        base = ("".join((*column.table.words, *base)),)
    several = len(parts) > 1
    ends = (parts[0], parts[-1]) if several else ("", "")
    return ColumnName(column.table.number, "".join(base), *ends, base[-1] if base else "")


@dataclass(slots=True)
class _Tally:
    """Sums over a group of columns, from which any one column can be excluded."""

    count: int = 0
    references: float = 0.0

    def share_without(self, reference: float) -> float:
        """Return the share of references among the other columns, or one half if there are none."""
        return (self.references - reference + 0.5) / (self.count - 1 + 1.0)


def worth_rescoring(summary: DatabaseSummary, log_odds: Sequence[float]) -> list[int]:
    """Return the indexes of the candidates that the second pass scores."""
    best: dict[int, float] = {}
    for candidate, own in zip(summary.candidates, log_odds, strict=True):
        best[candidate.child] = max(own, best.get(candidate.child, -LOG_ODDS_LIMIT))
    return [
        index
        for index, (candidate, own) in enumerate(zip(summary.candidates, log_odds, strict=True))
        if own >= MIN_LOG_ODDS and own >= best[candidate.child] - MAX_LOG_ODDS_GAP
    ]


def neighbour_features(summary: DatabaseSummary, log_odds: Sequence[float], chosen: Iterable[int]) -> list[list[float]]:
    """Return the `NEIGHBOUR_FEATURES` of the chosen candidates. `log_odds`: of all candidates, from the first pass."""
    neighbourhood = _Neighbourhood(summary, [max(-LOG_ODDS_LIMIT, min(LOG_ODDS_LIMIT, each)) for each in log_odds])
    return [neighbourhood.features(index) for index in chosen]


@dataclass(slots=True)
class _Neighbourhood:
    """Sums over the candidates of a database by column, name, key and table, for their features."""

    summary: DatabaseSummary
    log_odds: Sequence[float]
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
        columns = self.summary.columns
        for index, candidate in enumerate(self.summary.candidates):
            self.by_child[candidate.child][candidate.key] = index
            self.best[candidate.child] = max(self.best.get(candidate.child, -LOG_ODDS_LIMIT), self.log_odds[index])
        for index, column in enumerate(columns):
            if column.name:
                self.namesakes[column.name] += 1
            self._count(self.last[column.last], index)
            self._count(self.first[column.first], index)
        for index, candidate in enumerate(self.summary.candidates):
            self._add(index, candidate, columns[candidate.child])

    def _count(self, tally: _Tally, column: int) -> None:
        tally.count += 1
        tally.references += self._reference(column)

    def _reference(self, column: int) -> float:
        """Return the probability that a column refers to anything."""
        return sigmoid(self.best[column]) if column in self.best else 0.0

    def _add(self, index: int, candidate: CandidateSummary, column: ColumnName) -> None:
        own = self.log_odds[index]
        if own >= self.best[candidate.child]:
            probability = sigmoid(own)
            self.popular[candidate.key] += probability
            self.by_table[column.table, candidate.key] += probability
            if candidate.name_match < ROLE_NAME:
                self.by_role[candidate.key] += probability
        if column.name:
            self.by_name[column.name, candidate.key].append(max(MIN_LOG_ODDS, own))
            self.fitting[column.name][candidate.key] += candidate.fits
        if column.last_base:
            reach = self.reach[column.last_base, candidate.key]
            reach[:] = max(reach[0], candidate.span), max(reach[1], candidate.coverage)
            sums = self.by_base[column.last_base, candidate.key]
            sums[0] += max(MIN_LOG_ODDS, own)
            sums[1] += 1

    def features(self, index: int) -> list[float]:
        """Return the features of one candidate in the order of `NEIGHBOUR_FEATURES`."""
        candidate = self.summary.candidates[index]
        column, own = self.summary.columns[candidate.child], self.log_odds[index]
        others = [self.log_odds[other] for other in self.by_child[candidate.child].values() if other != index]
        reference = self._reference(candidate.child)
        probability = sigmoid(own) if own >= self.best[candidate.child] else 0.0
        last, first = self.last[column.last], self.first[column.first]
        by_role = self.by_role[candidate.key] - (probability if candidate.name_match < ROLE_NAME else 0.0)
        values = {
            "odds": own,
            "margin": own - max(others, default=-LOG_ODDS_LIMIT),
            "rank": float(min(9, sum(other > own for other in others))),
            **self._of_namesakes(candidate, column, max(MIN_LOG_ODDS, own)),
            "last_word_share": last.share_without(reference) if column.last else -1.0,
            "last_word_count": log2(last.count) if column.last else 0.0,
            "first_word_share": first.share_without(reference) if column.first else -1.0,
            "first_word_count": log2(first.count) if column.first else 0.0,
            "last_base_mean": self._mean_of_last_base(candidate, column, own),
            "popular": log2(1 + self.popular[candidate.key] - probability),
            "popular_by_role": log2(1 + max(0.0, by_role)),
            "siblings": self.by_table[column.table, candidate.key] - probability,
            **self._reach(candidate, column),
        }
        return [values[name] for name in NEIGHBOUR_FEATURES]

    def _reach(self, candidate: CandidateSummary, column: ColumnName) -> dict[str, float]:
        """Return how much of the key, and of any other key, the columns with the same last word cover.

        Columns that refer to a table eventually reach both ends of its key, and not the top of a larger one.
        """
        own = self.reach.get((column.last_base, candidate.key), (candidate.span, candidate.coverage))
        others = [
            self.reach.get((column.last_base, key), (0.0, 0.0))
            for key, index in self.by_child[candidate.child].items()
            if key != candidate.key and self.summary.candidates[index].fits
        ]
        return {
            "group_span": own[0],
            "group_span_elsewhere": max((span for span, _ in others), default=0.0),
            "group_coverage": own[1],
            "group_coverage_elsewhere": max((coverage for _, coverage in others), default=0.0),
        }

    def _of_namesakes(self, candidate: CandidateSummary, column: ColumnName, own: float) -> dict[str, float]:
        """Return how many other columns have the name, how likely they refer to the key, and how many keys fit all."""
        others = self.namesakes[column.name] - 1 if column.name else 0
        names = ("namesakes", "namesakes_mean", "namesakes_best", "namesakes_fit", "shared_rivals")
        if not others:
            return dict(zip(names, (0.0, 0.0, 0.0, -1.0, -1.0), strict=True))
        alike = list(self.by_name[column.name, candidate.key])
        alike.remove(own)
        fitting = self.fitting[column.name]
        most = max(fitting.values(), default=0)
        values = (
            log2(1 + others),
            (sum(alike) + MIN_LOG_ODDS * (others - len(alike))) / others,
            max(alike, default=MIN_LOG_ODDS),
            (fitting[candidate.key] - candidate.fits) / others,
            log2(1 + sum(count == most for count in fitting.values())),
        )
        return dict(zip(names, values, strict=True))

    def _mean_of_last_base(self, candidate: CandidateSummary, column: ColumnName, own: float) -> float:
        total, count = self.by_base.get((column.last_base, candidate.key), (0.0, 0.0))
        return (total - max(MIN_LOG_ODDS, own)) / (count - 1) if count > 1 and column.last_base else 0.0


def sigmoid(log_odds: float) -> float:
    """Return the probability for log-odds."""
    return 1 / (1 + exp(-max(-30.0, min(30.0, log_odds))))


NAMESAKES: Final = "namesakes"
"""The source of hints that other columns of the same name are: they refer to the key, and it contains their values."""

HINT_WEIGHTS: Final[Mapping[str, float]] = {
    "dbt": 4.0,
    NAMESAKES: 4.0,
    "datahub": 3.5,
    "lookml": 3.5,
    "metabase": 3.5,
    "odcs": 3.5,
    "openmetadata": 3.5,
    "powerbi": 3.5,
    "sigma": 3.5,
    "tableau": 3.5,
    "view": 3.0,
    "lineage": 2.5,
    "history": 2.5,
    "model": 1.5,
    "model_rejected": -1.5,
    "embedding": 1.0,
}
"""What each source of hints adds to the log-odds of a relationship."""

Node = tuple[int, float, int, int]
"""A node of a decision tree: feature, threshold, and the nodes for values up to the threshold and above it.

A leaf has the feature -1, and its value in place of the threshold.
"""


Points = tuple[tuple[float, float], ...]
"""Raw probability -> calibrated one, ascending."""


class NameEvidence(StrEnum):
    """What a column's name says about a key. A score means something else for each."""

    CLEAR = "clear"
    HINT = "hint"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Calibration:
    """The calibration of candidates whose columns have at most `most` distinct values and whose names say `evidence`.

    `most` is None for any number of values.
    """

    most: int | None
    evidence: NameEvidence
    points: Points

    def covers(self, values: int, evidence: NameEvidence) -> bool:
        """Return whether it is that of a candidate."""
        return self.evidence is evidence and (self.most is None or values <= self.most)


@dataclass(frozen=True, slots=True)
class Ranker:
    """A gradient-boosted classifier of candidates, as trained by `benchmarks/train_ranker.py`.

    `base`: the log-odds to which the `trees` add. `calibrations`: by the number of distinct values and by what the name
    says, narrowest first; raw probability -> calibrated one, interpolated between the points. `places`: the indexes of
    the features that choose one. `second`: the second pass, over `SECOND_FEATURES`. `rowless`: for candidates without
    rows.
    """

    base: float
    trees: tuple[tuple[Node, ...], ...]
    calibrations: tuple[Calibration, ...] = ()
    places: tuple[int, ...] = ()
    second: Ranker | None = None
    rowless: Ranker | None = None

    def log_odds(self, features: Sequence[float]) -> float:
        """Return the log-odds before calibration."""
        total = self.base
        for tree in self.trees:
            feature, number, left, right = tree[0]
            while feature >= 0:
                feature, number, left, right = tree[left if features[feature] <= number else right]
            total += number  # Of the leaf.
        return total

    def probability(self, features: Sequence[float]) -> float:
        """Return the calibrated probability, 0 to 1."""
        return self.calibrate(sigmoid(self.log_odds(features)), features)

    def group(self, features: Sequence[float]) -> tuple[int, NameEvidence]:
        """Return the number of distinct values of the candidate's column, and what its name says."""
        distinct, table, key, meaning = (features[place] for place in self.places)
        evidence = NameEvidence.NOTHING
        if max(table, key) >= CLEAR_NAME:
            evidence = NameEvidence.CLEAR
        elif meaning or max(table, key) >= FAINT_NAME:
            evidence = NameEvidence.HINT
        return round(10**distinct - 1), evidence

    def calibrate(self, raw: float, features: Sequence[float]) -> float:
        """Return the calibrated probability for a raw one of a candidate."""
        if not self.calibrations:
            return raw
        group = self.group(features)
        points = next((each.points for each in self.calibrations if each.covers(*group)), ())
        if not points:
            return raw
        at = bisect_right(points, raw, key=lambda point: point[0])
        if at in (0, len(points)):
            return points[max(0, at - 1)][1]
        (x0, y0), (x1, y1) = points[at - 1], points[at]
        return y0 + (y1 - y0) * (raw - x0) / (x1 - x0) if x1 > x0 else y1


@functools.cache
def load_ranker() -> Ranker:
    """Return the ranker that ships with ktx. Raises `KtxError` if it was trained for other features."""
    text = files("ktx_cli.scan.relationships").joinpath("ranker.json").read_text("utf-8")
    return read_ranker(json.loads(text))


def read_ranker(document: Mapping[str, Any]) -> Ranker:
    """Return the ranker that a document describes."""
    second, rowless = document.get("second"), document.get("blind")
    return replace(
        read_pass(document, FEATURES),
        second=None if second is None else read_pass(second, SECOND_FEATURES),
        rowless=None if rowless is None else read_pass(rowless, FEATURES),
    )


def read_pass(document: Mapping[str, Any], features: Sequence[str]) -> Ranker:
    """Return one pass of a document. Raises `KtxError` if it was trained for other features."""
    if tuple(document["features"]) != tuple(features):
        raise KtxError(
            "ranker.json was trained for a different set of features", hint="python benchmarks/train_ranker.py"
        )
    return Ranker(
        base=float(document["base"]),
        trees=tuple(tuple((int(f), float(t), int(a), int(b)) for f, t, a, b in tree) for tree in document["trees"]),
        calibrations=tuple(
            Calibration(most, NameEvidence(evidence), tuple((float(x), float(y)) for x, y in points))
            for most, evidence, points in document["calibrations"]
        ),
        places=tuple(list(features).index(name) for name in ("distinct", "name_table", "name_key", "name_meaning")),
    )


def score_candidates(ranker: Ranker, columns: Sequence[ColumnFacts], candidates: Sequence[Candidate]) -> None:
    """Set the probability of all candidates of a database's columns. Hints are added at the end."""
    rowless = ranker.rowless or ranker
    with_rows = [candidate for candidate in candidates if not candidate.empty]
    scores = _evaluated(ranker.log_odds, (candidate.features for candidate in with_rows))
    for candidate, log_odds in zip(with_rows, scores, strict=True):
        candidate.log_odds = log_odds
        candidate.probability = ranker.calibrate(sigmoid(log_odds), candidate.features)
    for candidate in candidates:
        if candidate.empty:
            features = without_rows(candidate.features)
            candidate.log_odds, candidate.probability = rowless.log_odds(features), rowless.probability(features)
    if ranker.second is not None:
        _rescore(ranker.second, columns, candidates)
    for candidate in candidates:
        hints = candidate.sources - {"names", "values"}
        candidate.probability = with_hints(candidate.probability, hints) if hints else candidate.probability


def _rescore(second: Ranker, columns: Sequence[ColumnFacts], candidates: Sequence[Candidate]) -> None:
    """Run the second pass. A candidate with rows that it skips becomes at most as likely as `MIN_LOG_ODDS`."""
    summary, log_odds = summarize(columns, candidates), [candidate.log_odds for candidate in candidates]
    indexes = [index for index in worth_rescoring(summary, log_odds) if not candidates[index].empty]
    for index, neighbours in zip(indexes, neighbour_features(summary, log_odds, indexes), strict=True):
        candidates[index].neighbours = neighbours
    rows = ((*candidates[index].neighbours, *candidates[index].features) for index in indexes)
    scores = dict(zip(indexes, _evaluated(second.probability, rows), strict=True))
    unlikely = sigmoid(MIN_LOG_ODDS)
    for index, candidate in enumerate(candidates):
        if not candidate.empty:
            candidate.probability = scores.get(index, min(candidate.probability, unlikely))


def _evaluated(score: Callable[[Sequence[float]], float], rows: Iterable[Sequence[float]]) -> list[float]:
    """Return the score of each row of features. Large databases have many equal rows, which are scored once."""
    known: dict[tuple[float, ...], float] = {}
    return [known[row] if row in known else known.setdefault(row, score(row)) for row in map(tuple, rows)]


def with_hints(probability: float, hints: Iterable[str]) -> float:
    """Return the probability of a relationship that sources of hints also name."""
    return shifted(probability, sum(HINT_WEIGHTS.get(hint, 0.0) for hint in hints))


def shifted(probability: float, shift: float) -> float:
    """Return the probability after a change of its log-odds."""
    clipped = max(1e-6, min(1 - 1e-6, probability))
    return sigmoid(log(clipped / (1 - clipped)) + shift)


SURE_IMPROBABILITY: Final = 3.0
"""If a match by chance is at least this unlikely (-log10), the rows alone are enough for a composite candidate."""


def composite_probability(
    check: Check | None, improbability: float = 0.0, *, named: bool = False, weak: bool = False
) -> float:
    """Return the probability of a composite candidate, from its rows, else from its names.

    `check` is None if the rows do not support it. `improbability`: -log10 of the probability that the values match by
    chance. `named`: the names alone determine the key. `weak`: a column only shares a generic word with the key.
    """
    if check is None:
        return 0.6
    sure = improbability >= SURE_IMPROBABILITY
    if named:
        return 0.97 if sure and not check.missing else 0.9
    return 0.9 if sure and not (check.missing and weak) else 0.6


def branch_probability(name_match: float, *, named: bool) -> float:
    """Return the probability of one value of a discriminator. `name_match`: how clearly it names the table, from 0 to
    1. `named`: whether this value or another one names a table.
    """
    return 0.95 if name_match >= 0.75 else 0.8 if named else 0.5
