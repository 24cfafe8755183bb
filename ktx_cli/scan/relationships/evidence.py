"""The evidence of a scan's decisions about relationships, as the profile store keeps it, and how to score it again.

Explanations are computed from it when somebody asks for one: scoring every relationship of a large database again, with
one feature changed each time, would take longer than the scan.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from heapq import nlargest, nsmallest
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Record, plain_value
from ktx_cli.privacy import refusal
from ktx_cli.scan.relationships.columns import Family, NameMatch, Similar
from ktx_cli.scan.relationships.names import word_set
from ktx_cli.scan.relationships.ranker import (
    FEATURES,
    LOG_ODDS_LIMIT,
    MIN_LOG_ODDS,
    NEIGHBOUR_FEATURES,
    branch_probability,
    shifted,
    sigmoid,
    with_hints,
    without_rows,
)
from ktx_cli.scan.relationships.record import (
    LEAST_PROBABILITY,
    MAX_VIOLATIONS,
    VAGUE,
    Check,
    Doubt,
    Relationship,
    Rule,
    Status,
    effective_doubts,
    status_of,
)
from ktx_cli.warehouses import TableKind, TableRef

if TYPE_CHECKING:
    from ktx_cli.project import Relationships
    from ktx_cli.scan.relationships.columns import Candidate, ColumnFacts
    from ktx_cli.scan.relationships.composites import CompositeCandidate, PartialReference, PolymorphicBranch
    from ktx_cli.scan.relationships.ranker import Ranker

MOST_RIVALS: Final = 4
"""The number of candidates of a column that are kept in addition to its recorded relationships, most probable first."""

MOST_SCORED: Final = 2
"""The number of these whose features are kept, to compare them with the relationship."""

MOST_ORPHANS: Final = 3
"""The number of values without a parent that are kept as examples, most frequent first."""


NO_MATCH: Final = NameMatch(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The settings that turn a probability into a status, as the scan used them."""

    accept_threshold: float
    review_threshold: float
    validation_required_for_manifest: bool

    @classmethod
    def of(cls, settings: Relationships) -> Thresholds:
        """Return the thresholds of a project's settings."""
        needs_rows = settings.validation_required_for_manifest
        return cls(settings.accept_threshold, settings.review_threshold, needs_rows)


@dataclass(frozen=True, slots=True)
class ComparedValues:
    """How the values of a column compare with a key's: as `Overlap`, with a sentinel that JSON can hold."""

    rows: int
    missing: int
    distinct: int
    hits: int
    exact: bool
    sentinel: Any = None
    sentinel_rows: int = 0


class Precision(Enum):
    """How precise a coverage is. A lower bound is exact for the sample."""

    EXACT = "exact"
    ESTIMATE = "estimate"
    LOWER_BOUND = "lower bound"


@dataclass(frozen=True, slots=True)
class Coverage:
    """The number of a key's values that a column has: `hits` of `keys`."""

    hits: float
    keys: int
    precision: Precision


@dataclass(frozen=True, slots=True)
class CandidateEvidence:
    """What a scan knew about a column, or several, and one key.

    `features`, `neighbours`: in the order of the ranker's passes; empty for keys of several columns and for a column
    whose table depends on another one (`condition`), which the ranker does not score. `key_rows`, `key_distinct`: the
    rows of the key's table, and the key's values in its sample; `key_complete`: whether that is the whole table.
    `consecutive`: whether the key's values are numbers without gaps. `types`: the types in the database, if they differ
    in more than their length. `key_group`: the primary key of its table, if the key is only one of its columns.
    `rivals`: the number of other keys that contain the
    values. `lost`: why another candidate won; `barred`: whether it would have won whatever the probabilities.
    `orphans`: examples of values without a parent, with their rows in the sample. `lineage`: why lineage speaks against
    it. `similar`: the decisions of people about similar joins. `shared_with`: the table and the column of the key
    that has the other values, if two keys share them out.
    """

    parent: TableRef
    parent_columns: tuple[str, ...]
    probability: float
    sources: tuple[str, ...]
    name_match: NameMatch = NO_MATCH
    values: ComparedValues | None = None
    check: Check | None = None
    features: tuple[float, ...] = ()
    neighbours: tuple[float, ...] = ()
    key_rows: int = 0
    key_distinct: int = 0
    key_complete: bool = False
    consecutive: bool = False
    types: tuple[str, ...] = ()
    key_group: tuple[str, ...] = ()
    rivals: int = 0
    doubts: tuple[Doubt, ...] = ()
    lost: str | None = None
    barred: bool = False
    orphans: tuple[tuple[Any, int], ...] = ()
    condition: tuple[str, Any] | None = None
    lineage: str | None = None
    similar: Similar | None = None
    shared_with: tuple[str, str] | None = None

    @property
    def empty(self) -> bool:
        """Whether the column or the key had no values."""
        return bool(self.features) and not (self.features_named("distinct") and self.key_distinct)

    @property
    def keys(self) -> int:
        """The number of the key's values."""
        return self.key_distinct if self.key_complete else max(self.key_rows, self.key_distinct)

    def distinct_of(self, child: ChildEvidence) -> int:
        """Return the number of the column's distinct values, without a placeholder for a missing one."""
        return child.distinct - (self.values is not None and self.values.sentinel is not None)

    def looked_up_some(self, child: ChildEvidence) -> bool:
        """Return whether only some of the column's values were looked up in the key."""
        return self.values is not None and self.values.distinct < self.distinct_of(child)

    def coverage(self, child: ChildEvidence, *, counted: bool = False) -> Coverage | None:
        """Return how many of the keys the column has, or None if there are no keys to choose from, or no matches.

        The values of a sample are a lower bound. `counted`: whether the rows of the key's table were counted exactly.
        """
        values = self.values
        if self.keys <= 1 or values is None or not values.hits:
            return None
        if self.looked_up_some(child):
            found = values.hits / values.distinct * self.distinct_of(child)
            return Coverage(min(found, self.keys), self.keys, Precision.ESTIMATE)
        precision = Precision.EXACT if self.key_complete or counted else Precision.ESTIMATE
        precision = precision if child.complete else Precision.LOWER_BOUND
        return Coverage(min(values.hits, self.keys), self.keys, precision)

    def features_named(self, name: str) -> float:
        """Return the value of a feature of the ranker."""
        return self.features[FEATURES.index(name)]


@dataclass(frozen=True, slots=True)
class ChildEvidence:
    """What a scan knew about a column, or several that refer to a key together, and about their candidates.

    The candidates are in descending order of their probability. `rows`, `nulls`, `distinct`: of the sample. `complete`:
    whether the sample is the whole table, which has `table_rows`. `rule`: what decided between similar candidates.
    `is_view`: whether it is a view next to tables. `is_primary_key`: whether the columns are its primary key.
    """

    child: TableRef
    columns: tuple[str, ...]
    rows: int
    nulls: int
    distinct: int
    complete: bool
    table_rows: int
    thresholds: Thresholds
    candidates: tuple[CandidateEvidence, ...]
    rule: Rule | None = None
    is_view: bool = False
    is_primary_key: bool = False

    def candidate(
        self, parent: TableRef, columns: Sequence[str], condition: tuple[str, Any] | None = None
    ) -> CandidateEvidence | None:
        """Return the evidence about one key, or None if it was not kept."""
        wanted = (parent, tuple(columns), repr(condition))
        found = (each for each in self.candidates if (each.parent, each.parent_columns, repr(each.condition)) == wanted)
        return next(found, None)

    def to_json(self) -> str:
        """Return the evidence as JSON, without the names of the child, by which it is stored."""
        limits = self.thresholds
        fields = {
            "rows": self.rows, "nulls": self.nulls, "distinct": self.distinct, "complete": self.complete,
            "table_rows": self.table_rows, "rule": self.rule, "is_view": self.is_view,
            "is_primary_key": self.is_primary_key,
            "thresholds": [
                limits.accept_threshold, limits.review_threshold, limits.validation_required_for_manifest
            ],
            "candidates": list(map(_candidate_to_json, self.candidates)),
        }  # fmt: skip
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, child: TableRef, columns: Sequence[str], text: str) -> ChildEvidence:
        """Return the evidence that `to_json` wrote. Raises `ValueError`, `TypeError` or `KeyError` for other text."""
        fields = json.loads(text)
        rule, limits = fields.pop("rule"), Thresholds(*fields.pop("thresholds"))
        candidates = tuple(map(_candidate_from_json, fields.pop("candidates")))
        decided = None if rule is None else Rule(rule)
        return cls(child, tuple(columns), **fields, thresholds=limits, candidates=candidates, rule=decided)

    def without_values(self) -> ChildEvidence:
        """Return the evidence without examples of values."""
        return replace(self, candidates=tuple(replace(each, orphans=()) for each in self.candidates))


def _candidate_to_json(each: CandidateEvidence) -> dict[str, Any]:
    values, check, match = each.values, each.check, each.name_match
    fields: dict[str, Any] = {
        "to": [each.parent.schema, each.parent.name],
        "columns": each.parent_columns,
        "score": each.probability,
        "sources": each.sources,
        "name": [match.table, match.key, match.meaning],
        "key": [each.key_rows, each.key_distinct, each.rivals],
    }
    if values is not None:
        fields["values"] = [
            values.rows, values.missing, values.distinct, values.hits, values.exact, values.sentinel,
            values.sentinel_rows,
        ]  # fmt: skip
    if check is not None:
        by_sketch = [check.compared, check.at_most] if check.compared else []
        fields["check"] = [check.rows, check.missing, check.exact, *by_sketch]
    if each.similar is not None:
        fields["similar"] = [each.similar.accepted, each.similar.rejected, each.similar.shift]
    optional = (
        *("features", "neighbours", "doubts", "lost", "barred", "orphans", "condition", "lineage"),
        *("key_complete", "consecutive", "types", "key_group", "shared_with"),
    )
    return fields | {name: value for name in optional if (value := getattr(each, name))}


def _candidate_from_json(fields: Mapping[str, Any]) -> CandidateEvidence:
    values, check, condition, similar = (fields.get(name) for name in ("values", "check", "condition", "similar"))
    rows, distinct, rivals = fields["key"]
    return CandidateEvidence(
        parent=TableRef(*fields["to"]),
        parent_columns=tuple(fields["columns"]),
        probability=float(fields["score"]),
        sources=tuple(fields["sources"]),
        name_match=NameMatch(*fields["name"]),
        values=None if values is None else ComparedValues(*values),
        check=None if check is None else Check(*check),
        features=tuple(fields.get("features", ())),
        neighbours=tuple(fields.get("neighbours", ())),
        key_rows=rows,
        key_distinct=distinct,
        key_complete=bool(fields.get("key_complete")),
        consecutive=bool(fields.get("consecutive")),
        types=tuple(fields.get("types", ())),
        key_group=tuple(fields.get("key_group", ())),
        rivals=rivals,
        doubts=tuple(map(Doubt, fields.get("doubts", ()))),
        lost=fields.get("lost"),
        barred=bool(fields.get("barred")),
        orphans=tuple((value, count) for value, count in fields.get("orphans", ())),
        condition=None if condition is None else (str(condition[0]), condition[1]),
        lineage=fields.get("lineage"),
        similar=None if similar is None else Similar(*similar),
        shared_with=None if (shared := fields.get("shared_with")) is None else (str(shared[0]), str(shared[1])),
    )


@dataclass(frozen=True, slots=True)
class EvidenceBase:
    """The results of an inference from which evidence is collected.

    `checks`: of the candidates that won their columns. `doubts` returns why one of them may need review, and `lineage`
    why lineage speaks against it. `lost`: why the others did not win; `barred`: those that cannot, whatever their
    probability. `rules`: what decided between similar candidates of a column.
    """

    candidates: Sequence[Candidate]
    checks: Mapping[Candidate, Check | None]
    doubts: Callable[[Candidate], tuple[Doubt, ...]]
    lineage: Callable[[Candidate], str | None]
    lost: Mapping[Candidate, str]
    barred: Set[Candidate]
    rules: Mapping[ColumnFacts, Rule]
    thresholds: Thresholds
    composites: Sequence[CompositeCandidate] = ()
    branches: Sequence[PolymorphicBranch] = ()
    parts: Sequence[PartialReference] = ()


def collect_evidence(base: EvidenceBase, relationships: Iterable[Relationship]) -> list[ChildEvidence]:
    """Return the evidence about the columns of those relationships that are recorded."""
    keys: dict[tuple[TableRef, tuple[str, ...]], set[tuple[TableRef, tuple[str, ...]]]] = defaultdict(set)
    for each in relationships:
        if each.status is not Status.REJECTED or each.probability >= LEAST_PROBABILITY:
            keys[each.child, each.child_columns].add((each.parent, each.parent_columns))
    by_child: dict[ColumnFacts, list[Candidate]] = defaultdict(list)
    for candidate in base.candidates:
        by_child[candidate.child].append(candidate)
    branches: dict[ColumnFacts, list[CandidateEvidence]] = defaultdict(list)
    for branch in base.branches:
        branches[branch.child].append(_of_branch(branch))
    for part in base.parts:
        branches[part.child].append(_of_part(part))
    found = []
    for column in dict.fromkeys((*by_child, *branches)):
        wanted, group = keys.get((column.table.table.ref, (column.name,))), by_child.get(column, [])
        if wanted is None:
            continue
        kept = {c: True for c in group if (c.key.table.table.ref, (c.key.name,)) in wanted}
        likeliest = nlargest(MOST_RIVALS, group, key=lambda candidate: candidate.probability)
        kept |= {c: c in kept or place < MOST_SCORED for place, c in enumerate(likeliest)}
        candidates = [_of_candidate(c, base, with_features=is_recorded) for c, is_recorded in kept.items()]
        found.append(_of_child((column,), [*branches.get(column, ()), *candidates], base))
    several: dict[tuple[ColumnFacts, ...], list[CandidateEvidence]] = defaultdict(list)
    for composite in base.composites:
        several[composite.child].append(_of_composite(composite))
    return found + [_of_child(columns, candidates, base) for columns, candidates in several.items()]


def _of_child(
    columns: Sequence[ColumnFacts], candidates: Iterable[CandidateEvidence], base: EvidenceBase
) -> ChildEvidence:
    table, first = columns[0].table, columns[0]
    return ChildEvidence(
        table.table.ref,
        tuple(column.name for column in columns),
        rows=first.profile.rows,
        nulls=max(column.nulls for column in columns),
        distinct=first.distinct if len(columns) == 1 else 0,
        complete=table.complete,
        table_rows=table.rows,
        thresholds=base.thresholds,
        candidates=tuple(sorted(candidates, key=lambda each: -each.probability)),
        rule=base.rules.get(first) if len(columns) == 1 else None,
        is_view=table.table.kind is TableKind.VIEW,
        is_primary_key=table.table.primary_key == tuple(column.name for column in columns),
    )


def _of_candidate(candidate: Candidate, base: EvidenceBase, *, with_features: bool) -> CandidateEvidence:
    key, overlap, primary = candidate.key, candidate.overlap, candidate.key.table.table.primary_key
    values, check = None, base.checks.get(candidate)
    if overlap is not None:
        counts = (overlap.rows, overlap.missing, overlap.distinct, overlap.hits, overlap.exact)
        values = ComparedValues(*counts, plain_value(overlap.sentinel), overlap.sentinel_rows)
        if check is None and candidate not in base.checks and overlap.rows:
            check = Check(overlap.rows, overlap.missing, overlap.exact)
    return CandidateEvidence(
        key.table.table.ref,
        (key.name,),
        candidate.probability,
        tuple(sorted(candidate.sources)),
        name_match=candidate.name_match,
        values=values,
        check=check,
        features=tuple(candidate.features) if with_features else (),
        neighbours=tuple(candidate.neighbours) if with_features else (),
        key_rows=key.table.rows,
        key_distinct=key.distinct,
        key_complete=key.table.complete,
        consecutive=_is_consecutive(key),
        types=_differing_types(candidate),
        key_group=primary if len(primary) > 1 and key.name in primary else (),
        rivals=candidate.rivals,
        doubts=base.doubts(candidate) if candidate in base.checks else (),
        lost=base.lost.get(candidate),
        barred=candidate in base.barred,
        orphans=_orphans(candidate) if with_features else (),
        lineage=base.lineage(candidate),
        similar=candidate.similar,
    )


def _changed(features: Sequence[float], changes: Mapping[str, float]) -> list[float]:
    return [changes.get(name, value) for name, value in zip(FEATURES, features, strict=True)]


def _is_consecutive(key: ColumnFacts) -> bool:
    """Return whether a key's values are numbers without gaps."""
    if key.family is not Family.INTEGER or key.empty:
        return False
    width = int(key.profile.maximum) - int(key.profile.minimum) + 1
    return width == (key.distinct if key.table.complete else key.table.rows)


def _differing_types(candidate: Candidate) -> tuple[str, ...]:
    """Return the types of the column and the key, or nothing if they differ at most in their length or sign."""
    types = tuple(each.column.native_type for each in (candidate.child, candidate.key))
    one, other = (re.sub(r"\(.*?\)|\bunsigned\b", "", each.lower()).split() for each in types)
    return () if one == other else types


def _orphans(candidate: Candidate) -> tuple[tuple[Any, int], ...]:
    """Return the most frequent values without a parent, unless the column's values are private or were looked up."""
    child, overlap = candidate.child, candidate.overlap
    if overlap is None or not overlap.missing or not candidate.key.table.complete:
        return ()
    lost = [(value, child.counts[value]) for value in child.counts.keys() - candidate.key.counts.keys()]
    lost = nsmallest(MOST_ORPHANS + 1, lost, key=lambda each: (-each[1], str(each[0])))
    lost = [each for each in lost if overlap.sentinel is None or each[0] != overlap.sentinel][:MOST_ORPHANS]
    profile = child.profile
    is_restricted = profile.is_restricted or candidate.key.profile.is_restricted
    refused = refusal(child.table.table.ref.name, child.name, profile.kind, child.counts, is_restricted=is_restricted)
    if refused is not None and refused.personal:
        return ()
    return tuple((plain_value(value), count) for value, count in lost)


def _of_composite(composite: CompositeCandidate) -> CandidateEvidence:
    key = composite.key
    return CandidateEvidence(
        key[0].table.table.ref,
        tuple(column.name for column in key),
        composite.probability,
        tuple(sorted({"names", "values"} | composite.sources)),
        check=composite.check,
        key_rows=key[0].table.rows,
        key_distinct=key[0].table.rows,
    )


def _of_part(part: PartialReference) -> CandidateEvidence:
    key = part.key
    return CandidateEvidence(
        key.table.table.ref,
        (key.name,),
        part.probability,
        ("values",),
        check=part.check,
        key_rows=key.table.rows,
        key_distinct=key.distinct,
        key_complete=key.table.complete,
        shared_with=(str(part.other.table.table.ref), part.other.name),
    )


def _of_branch(branch: PolymorphicBranch) -> CandidateEvidence:
    key = branch.key
    return CandidateEvidence(
        key.table.table.ref,
        (key.name,),
        branch_probability(branch.name_match, named=branch.named),
        ("values",),
        name_match=NameMatch(branch.name_match, 0.0),
        check=branch.check,
        key_rows=key.table.rows,
        key_distinct=key.distinct,
        condition=(branch.discriminator.name, plain_value(branch.value)),
    )


NO_HINTS: Final = frozenset({"names", "values", "decisions"})
"""The sources of a relationship that are no hints. Decisions about similar joins have their own weight."""

COMMON_HINTS: Final = ("model", "history", "view", "dbt")
"""The hints that people can add, weakest first."""

NO_NAME: Final = dict.fromkeys(
    ("name_table", "name_key", "name_meaning", "meaning_rank", "clear_name", "self_word"), 0.0
)
"""The features of a column whose name gives no indication."""

NO_NEIGHBOURS: Final = {
    "namesakes": 0.0, "namesakes_mean": 0.0, "namesakes_best": 0.0, "namesakes_fit": -1.0, "shared_rivals": -1.0,
}  # fmt: skip
"""The features of a column whose name no other column has."""

NAMES: Final = word_set(
    "name_table name_key name_meaning meaning_rank name_best_elsewhere name_rank owner clear_name context tables_alike"
    " self_reference self_word parent_keyed"
)
VALUES: Final = word_set(
    "violations coverage span low_skew chance rivals coverage_rank same_type rows_ratio parent_rows parent_dense"
    " parent_text group_span group_span_elsewhere group_coverage group_coverage_elsewhere"
)
KEYS: Final = word_set("parent_key parent_first")
COLUMNS: Final = word_set("namesakes_mean namesakes_best namesakes_fit last_base_mean popular popular_by_role siblings")
"""The features in which two candidates of a column may differ, by the kind of evidence."""

ORPHAN_SHARES: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, MAX_VIOLATIONS)
"""The shares of rows without a parent with which an accepted relationship is scored again."""

SAME_PROBABILITY: Final = 1e-6
"""By how much a probability that is computed again may differ; more means that ktx scores differently now."""


SMALL_EFFECT: Final = 0.03
"""Evidence that changes a score by less does not explain it."""

LOWERING: Final[Mapping[str, tuple[tuple[str, Mapping[str, float]], ...]]] = {
    "values": (
        ("rows without a match", {"violations": 0.0}),
        ("other keys that match as well", {"rivals": 0.0, "coverage_rank": 0.0}),
        ("the part of the key range in which the values lie", {"span": 1.0, "low_skew": 0.0}),
        ("the small number of distinct values", {"distinct": 2.0, "distinct_share": 0.1, "child_unique": 0.0}),
    ),
    "columns": (
        ("columns with the same name", NO_NEIGHBOURS),
        ("columns whose names end in the same word", {"last_word_share": 1.0}),
        ("the other candidates of the column", {"margin": LOG_ODDS_LIMIT, "rank": 0.0, "shared_rivals": 0.0}),
    ),
}
"""Step -> what may have lowered the score, and the features without it."""

RAISING: Final[Mapping[str, tuple[tuple[str, Mapping[str, float]], ...]]] = {
    "values": (
        ("the share of rows that match", {"violations": 1.0}),
        ("a match that chance does not explain", {"chance": 0.0}),
        ("the part of the keys that match", {"coverage": 0.0, "span": 0.0}),
    ),
    "columns": (
        ("columns with the same name", NO_NEIGHBOURS),
        ("other columns that reference the key", {"popular": 0.0, "popular_by_role": 0.0}),
        ("the lack of other likely candidates", {"margin": 0.0, "rank": 1.0}),
    ),
}
"""Step -> what may have raised the score, and the features without it."""


@dataclass(frozen=True, slots=True)
class Step(Record):
    """The probability after one more kind of evidence: `names`, `values`, `columns` or `hints`.

    `because`: what changed it most, or None if nothing stands out; of `hints`, their sources.
    """

    evidence: str
    probability: float
    because: str | None = None

    json_keys = ("evidence", "score=rounded", "because")

    @property
    def rounded(self) -> float:
        """The probability as in lists."""
        return round(self.probability, 3)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The probability of a relationship with changed evidence, and the status that a scan would give it."""

    probability: float
    status: Status


@dataclass(frozen=True, slots=True)
class Scorer:
    """Computes the probability of one candidate again, with changes."""

    evidence: CandidateEvidence
    thresholds: Thresholds
    ranker: Ranker

    @property
    def hints(self) -> frozenset[str]:
        """The hints that name the relationship."""
        return frozenset(self.evidence.sources) - NO_HINTS

    @property
    def is_current(self) -> bool:
        """Whether ktx still scores the candidate as the scan did. An updated ranker does not."""
        if len(self.evidence.features) != len(FEATURES):
            return False
        if self.evidence.neighbours and len(self.evidence.neighbours) != len(NEIGHBOUR_FEATURES):
            return False
        return abs(self.probability() - self.evidence.probability) < SAME_PROBABILITY

    def probability(self, changes: Mapping[str, float] | None = None, hints: Iterable[str] | None = None) -> float:
        """Return the probability with some features changed. `hints`: instead of the known ones."""
        changed = changes or {}
        features = _changed(self.evidence.features, changed)
        chosen = self.hints if hints is None else frozenset(hints)
        probability, similar = self._without_hints(features, changed), self.evidence.similar
        probability = with_hints(probability, chosen) if chosen else probability
        return probability if similar is None else shifted(probability, similar.shift)

    def steps(self) -> list[Step]:
        """Return the probability from the names alone, then with each further kind of evidence."""
        features, evidence = list(self.evidence.features), self.evidence
        rowless = self.ranker.rowless or self.ranker
        steps = [Step("names", rowless.probability(without_rows(features)))]
        if not evidence.empty:
            self._add_step(steps, "values", lambda changes: self._first_pass(_changed(features, changes)))
            if self.ranker.second is not None:
                self._add_step(steps, "columns", lambda changes: self._without_hints(features, changes))
        if self.hints or self.evidence.similar is not None:
            sources = [*sorted(self.hints), *(["people"] if self.evidence.similar is not None else [])]
            steps.append(Step("hints", self.probability(), ", ".join(sources)))
        return steps

    def _add_step(self, steps: list[Step], name: str, score: Callable[[Mapping[str, float]], float]) -> None:
        """Add a step with what changed the score most, if it is responsible for much of the change."""
        probability = score({})
        change = probability - steps[-1].probability
        causes = (LOWERING if change < 0 else RAISING)[name] if abs(change) >= SMALL_EFFECT else ()
        effects = {cause: probability - score(without) for cause, without in causes}
        cause = max(effects, key=lambda each: effects[each] * change, default="")
        found = effects and effects[cause] * change > 0 and abs(effects[cause]) >= abs(change) / 3
        steps.append(Step(name, probability, cause if found else None))

    def outcome(
        self,
        changes: Mapping[str, float] | None = None,
        *,
        hints: Iterable[str] | None = None,
        check: Check | None = None,
        lifted: Iterable[Doubt] = (),
    ) -> Outcome:
        """Return the probability and status with changed evidence. `lifted`: the doubts that no longer apply."""
        probability = self.probability(changes, hints)
        doubts = effective_doubts(set(self.evidence.doubts) - set(lifted), probability)
        return Outcome(probability, self._status(probability, check or self.evidence.check, doubts))

    def without_name(self, better_named: int) -> Outcome:
        """Return the outcome if the name gave no indication. `better_named`: other candidates whose name would fit
        better.
        """
        return self.outcome({**NO_NAME, "name_rank": float(min(9, better_named))})

    def without_namesakes(self) -> Outcome:
        """Return the outcome if no other column had the name."""
        return self.outcome(NO_NEIGHBOURS)

    def with_all_matches(self) -> Outcome:
        """Return the outcome if every row had a parent."""
        check = self.evidence.check
        return self.outcome({"violations": 0.0}, check=None if check is None else replace(check, missing=0))

    def without_rivals(self) -> Outcome:
        """Return the outcome if no other key contained the values."""
        changes = {"rivals": 0.0, **({"shared_rivals": 0.0} if self._neighbour("namesakes") else {})}
        return self.outcome(changes, lifted=(Doubt.FEW_VALUES,))

    def with_hint(self, hint: str) -> Outcome:
        """Return the outcome if one more source named the relationship."""
        return self.outcome(hints={*self.hints, hint}, lifted=VAGUE)

    def without_hints(self) -> Outcome:
        """Return the outcome if no hint named the relationship."""
        return self.outcome(hints=())

    def without_decisions(self) -> Outcome:
        """Return the outcome if people had not decided about similar joins."""
        return replace(self, evidence=replace(self.evidence, similar=None)).outcome()

    def tolerated_orphans(self) -> float:
        """Return the largest share of rows without a parent with which the score would suffice to accept it.

        At least the present share, if that is accepted.
        """
        check, tolerated = self.evidence.check, 0.0
        if check is not None and self.outcome().status is Status.ACCEPTED:
            tolerated = check.violations
        for share in ORPHAN_SHARES:
            if share <= tolerated:
                continue
            if self.probability({"violations": share}) < self.thresholds.accept_threshold:
                break
            tolerated = share
        return tolerated

    def needed_hint(self) -> str | None:
        """Return the weakest further hint with which the relationship would be accepted, or None."""
        found = (hint for hint in COMMON_HINTS if hint not in self.hints)
        return next((hint for hint in found if self.with_hint(hint).status is Status.ACCEPTED), None)

    def _status(self, probability: float, check: Check | None, doubts: Sequence[Doubt]) -> Status:
        if Doubt.NOT_CHECKED in doubts:
            return Status.REVIEW
        status = status_of(probability, check, self.thresholds, empty=self.evidence.empty)
        return Status.REVIEW if doubts and status is Status.ACCEPTED else status

    def _first_pass(self, features: list[float]) -> float:
        return self.ranker.probability(features)

    def _without_hints(self, features: list[float], changes: Mapping[str, float]) -> float:
        if self.evidence.empty:
            return (self.ranker.rowless or self.ranker).probability(without_rows(features))
        second = self.ranker.second
        if second is None:
            return self._first_pass(features)
        if not self.evidence.neighbours:
            return min(self._first_pass(features), sigmoid(MIN_LOG_ODDS))
        return second.probability((*self._neighbours(self.ranker.log_odds(features), changes), *features))

    def _neighbours(self, log_odds: float, changes: Mapping[str, float]) -> list[float]:
        """Return the second pass's features for other log-odds of the first, with further changes."""
        values = dict(zip(NEIGHBOUR_FEATURES, self.evidence.neighbours, strict=True))
        own = max(-LOG_ODDS_LIMIT, min(LOG_ODDS_LIMIT, log_odds))
        if abs(own - values["odds"]) > SAME_PROBABILITY:
            margin = values["margin"] + own - values["odds"]
            rank = max(1.0, values["rank"]) if margin < 0 else 0.0
            values |= {"odds": own, "margin": margin, "rank": rank}
        return [changes.get(name, value) for name, value in values.items()]

    def _neighbour(self, name: str) -> float:
        if not self.evidence.neighbours:
            return 0.0
        return self.evidence.neighbours[NEIGHBOUR_FEATURES.index(name)]
