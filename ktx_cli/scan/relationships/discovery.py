"""Infer the keys and relationships of a database: candidates, probabilities, checks on all rows, decisions."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ktx_cli.core import monotonic, plural
from ktx_cli.project import Relationships
from ktx_cli.scan.profile.profiler import SampledTable
from ktx_cli.scan.relationships.candidates import Prober, find_candidates, find_named_candidates, pool_namesakes
from ktx_cli.scan.relationships.columns import Family, NameIndex, gather
from ktx_cli.scan.relationships.composites import (
    CompositeCandidate,
    PartialReference,
    PolymorphicBranch,
    find_branches,
    find_composites,
    find_partitions,
)
from ktx_cli.scan.relationships.hints import HINT_TEXTS, FixedHints, HintSource, JoinHints, hints_of
from ktx_cli.scan.relationships.keys import (
    UniqueColumns,
    choose_keys,
    extends_table,
    find_unique_columns,
    is_dense,
    is_extension,
    own_name,
)
from ktx_cli.scan.relationships.ranker import (
    CLEAR_NAME,
    FAINT_NAME,
    Ranker,
    branch_probability,
    load_ranker,
    score_candidates,
    shared_words,
    with_hints,
)
from ktx_cli.scan.relationships.record import (
    MAX_VIOLATIONS,
    MODEL_REJECTED,
    MODEL_SOURCE,
    Cardinality,
    Check,
    Discovery,
    Doubt,
    KeyChoice,
    Relationship,
    Rule,
    Status,
    effective_doubts,
    is_answered,
    status_of,
)
from ktx_cli.scan.relationships.row_checks import RowChecks, sampled_check
from ktx_cli.scan.stages import STRICT, Failures, Stage
from ktx_cli.semantic import quoted
from ktx_cli.warehouses import Connector, Table, TableRef

if TYPE_CHECKING:
    from ktx_cli.scan.relationships.columns import Candidate, ColumnFacts, DatabaseFacts, TableFacts
    from ktx_cli.scan.relationships.declarations import Apart, Chosen, KnownSchema
    from ktx_cli.scan.relationships.evidence import ChildEvidence
    from ktx_cli.scan.relationships.undecided import Answers, Ask


def discover(
    connector: Connector,
    tables: Sequence[Table],
    sampled: Sequence[SampledTable],
    settings: Relationships,
    sources: Sequence[HintSource] = (),
    ranker: Ranker | None = None,
    *,
    known: KnownSchema | None = None,
    seconds: float | None = None,
    failures: Failures = STRICT,
    ask: Ask | None = None,
) -> Discovery:
    """Infer the keys and relationships of sampled tables. Declared keys are kept; declared joins are not returned.

    `known`: what context sources declare and people decided. `seconds`: the time for statements, at most
    `detectionBudgetMs`. A relationship that is not checked by then needs review, with that reason. If a statement
    fails, only its relationship is affected. Raises `SourceError` if the database is unreachable. `failures` notes
    stages that fail unexpectedly; the strict default raises their errors.
    """
    facts = gather(connector.dialect, tables, sampled, failures)
    own = settings.detection_budget_ms
    limits = [each for each in (seconds, None if own is None else own / 1000) if each is not None]
    deadline = monotonic() + min(limits) if limits else None
    row_checks = RowChecks(connector, settings, len(facts.columns), deadline)
    if known is not None:
        known.mark_keys((*facts.tables, *facts.views))
        sources = (*sources, FixedHints(known.hints))
    inference = Inference(facts, settings, row_checks, sources, ranker or load_ranker(), failures, ask, known)
    collects = gc.isenabled()
    gc.disable()  # A large database has millions of objects, and nearly all of them live until the end.
    try:
        return inference.run()
    finally:
        if collects:
            gc.enable()


@dataclass(slots=True)
class Inference:
    """The inference of one database: from facts to candidates, relationships and keys."""

    facts: DatabaseFacts
    settings: Relationships
    row_checks: RowChecks
    sources: Sequence[HintSource]
    ranker: Ranker
    failures: Failures
    ask: Ask | None = None
    known: KnownSchema | None = None
    of_views: tuple[list[Candidate], dict[Candidate, Check | None]] = ([], {})
    """The candidates of views, and the checks of those that won their columns."""

    def run(self) -> Discovery:
        """Return the keys and relationships."""
        uniques = find_unique_columns(self.facts.tables, self.row_checks.is_unique, self.failures)
        names = NameIndex(self.facts.tables, uniques.keys)
        hints = JoinHints()
        with self.failures.stage(Stage.HINTS):
            hints = hints_of(self.sources, self.facts, uniques.keys)
        candidates = self.ranked_candidates(uniques, names, hints)
        pool_namesakes(self.facts.columns, candidates)
        chosen, overruled = self._without_overruled(candidates)
        resolution = resolve(chosen, self.settings.accept_threshold)
        checks = self.row_checks.check_candidates(resolution.winners)
        found: list[PolymorphicBranch] = []
        with self.failures.stage(Stage.POLYMORPHIC):
            found = find_branches(self.facts.tables, uniques.keys, names, self.failures)
        split = {branch.child for branch in found}
        resolution = self._with_answers(chosen, resolution, checks, hints.answers, split)
        resolution.losers |= overruled
        resolution.barred |= overruled.keys()
        accepted = [
            candidate
            for candidate in resolution.winners
            if self._status(candidate, checks[candidate]) is Status.ACCEPTED
        ]
        keys: dict[TableFacts, KeyChoice] = {}
        with self.failures.stage(Stage.KEYS):
            keys = choose_keys(uniques, accepted, names, self.row_checks.is_unique, self.failures)
        composites: list[CompositeCandidate] = []
        with self.failures.stage(Stage.COMPOSITES):
            check_rows = self.row_checks.check_rows
            composites = find_composites(self.facts.tables, keys, accepted, names, check_rows, hints.several)
            composites = [each for each in composites if not self._apart(each.child[0], each.key[0], each.sources)]
        branches: list[PolymorphicBranch] = []
        with self.failures.stage(Stage.POLYMORPHIC):
            clear = {candidate.child for candidate in accepted if candidate.name_match.best >= CLEAR_NAME}
            branches = [
                branch for branch in found if branch.child not in clear and not self._apart(branch.child, branch.key)
            ]
        parts: list[PartialReference] = []
        with self.failures.stage(Stage.POLYMORPHIC):
            taken = {each.child for each in accepted} | {each.child for each in branches} | _declared(self.facts)
            parts = [
                each
                for each in find_partitions(self.facts.columns, uniques.keys, taken)
                if not self._apart(each.child, each.key)
            ]
        split = {branch.child for branch in branches} | {part.child for part in parts}
        relationships = self._relationships(candidates, resolution, checks, composites, split, set(uniques.keys))
        relationships += [relationship_of_branch(branch, self.settings) for branch in branches]
        relationships += map(relationship_of_part, parts)
        with self.failures.stage(Stage.RELATIONSHIPS):
            relationships += self._of_views(keys, names)
        by_ref = {table.table.ref: table for table in (*self.facts.tables, *self.facts.views)}
        relationships = [
            with_sure_cardinality(relationship, by_ref[relationship.child], keys.get(by_ref[relationship.child]))
            for relationship in relationships
        ]
        discovery = Discovery(
            keys={table.table.ref: choice for table, choice in keys.items()},
            relationships=tuple(sorted(relationships, key=sort_key)),
            queries=self.row_checks.queries,
            problems=self.row_checks.all_problems(),
        )
        evidence = self._evidence(candidates, resolution, checks, discovery, composites, branches, parts)
        return replace(discovery, evidence=evidence)

    def _evidence(
        self, candidates: Sequence[Candidate], resolution: Resolution, checks: Mapping[Candidate, Check | None],
        found: Discovery, composites: Sequence[CompositeCandidate],
        branches: Sequence[PolymorphicBranch], parts: Sequence[PartialReference],
    ) -> tuple[ChildEvidence, ...] | None:  # fmt: skip
        """Return what the recorded relationships are based on."""
        from ktx_cli.scan.relationships.evidence import EvidenceBase, Thresholds, collect_evidence

        with self.failures.stage(Stage.EXPLANATIONS):
            base = EvidenceBase(
                candidates=[*candidates, *self.of_views[0]],
                checks={**checks, **self.of_views[1]},
                doubts=self._doubts,
                lineage=self._lineage,
                lost=resolution.losers,
                barred=resolution.barred,
                rules=resolution.rules,
                thresholds=Thresholds.of(self.settings),
                composites=composites,
                branches=branches,
                parts=parts,
            )
            return tuple(collect_evidence(base, found.relationships))
        return None

    def _with_answers(
        self,
        candidates: Sequence[Candidate],
        resolution: Resolution,
        checks: dict[Candidate, Check | None],
        recorded: Answers,
        split: Set[ColumnFacts],
    ) -> Resolution:
        """Return the resolution with the model's answers about undecided columns, new ones and `recorded` ones.

        `split`: columns that may refer to several tables, which have no single parent. Checks of winners that the
        answers change are added to `checks`.
        """
        answers = dict(recorded)
        if self.ask is not None:
            from ktx_cli.scan.relationships.undecided import answers_of, find_undecided, questions_of, without_answered

            started = monotonic()
            open_winners = {
                winner: self._status(winner, checks[winner])
                for winner in resolution.winners
                if winner.child not in split and self._is_open(winner, checks[winner])
            }
            undecided = without_answered(find_undecided(open_winners, candidates, self.settings), recorded)
            questions = questions_of(undecided, lambda candidate: evidence_text(candidate, checks))
            answers |= answers_of(self.ask(questions), undecided)
            if self.row_checks.deadline is not None:
                self.row_checks.deadline += monotonic() - started
        decided = [candidate for candidate in candidates if (candidate.child, candidate.key) in answers]
        for candidate in decided:
            source = answers[candidate.child, candidate.key]
            candidate.sources.add(source)
            candidate.probability = with_hints(candidate.probability, (source,))
        if not decided:
            return resolution
        resolved = resolve(candidates, self.settings.accept_threshold)
        changed = [winner for winner in resolved.winners if winner not in checks or winner in set(decided)]
        checks.update(self.row_checks.check_candidates(changed))
        return resolved

    def _is_open(self, winner: Candidate, check: Check | None) -> bool:
        """Return whether a word for or against a relationship may decide about it, because no rows contradict it."""
        if self._is_unchecked(winner) or is_own_number(winner) or winner.only_orphans:
            return False
        if self._apart(winner.child, winner.key, winner.sources) is not None:
            return False
        if check is None or winner.empty:
            return not self.settings.validation_required_for_manifest
        return check.violations <= MAX_VIOLATIONS

    def _of_views(self, keys: Mapping[TableFacts, KeyChoice], names: NameIndex) -> list[Relationship]:
        """Return the joins of views to the tables whose key they have under its own name.

        The samples decide, because running a view again may be expensive. Joins that need review are dropped, since
        nobody asked for them. All are many-to-one: with a join to one row of a view, a question about a table would
        take a shortcut through the view.
        """
        columns = [column for view in self.facts.views for column in view.columns]
        single = {
            table.column(choice.primary[0])
            for table, choice in keys.items()
            if len(choice.primary) == 1 and choice.confirmed
        }
        if not columns or not single:
            return []
        prober = Prober(self.row_checks.connector, lambda: self.row_checks.is_out_of_time)
        candidates = find_named_candidates(columns, single, names, prober)
        if self.known is not None:
            self.known.mark_declared(candidates)
        candidates = [each for each in candidates if not self._apart(each.child, each.key, each.sources)]
        score_candidates(self.ranker, [*columns, *dict.fromkeys(each.key for each in candidates)], candidates)
        self.row_checks.queries += prober.statements
        self.row_checks.problems += prober.problems
        checks = {each: sampled_check(each) for each in resolve(candidates, self.settings.accept_threshold).winners}
        self.of_views = (candidates, checks)
        return [
            replace(relationship_of_candidate(candidate, Status.ACCEPTED, check), cardinality=Cardinality.MANY_TO_ONE)
            for candidate, check in checks.items()
            if check is not None and self._status(candidate, check) is Status.ACCEPTED
        ]

    def ranked_candidates(self, uniques: UniqueColumns, names: NameIndex, hints: JoinHints) -> list[Candidate]:
        """Return the candidates with their features and probabilities."""
        row_checks = self.row_checks
        prober = Prober(row_checks.connector, lambda: row_checks.is_out_of_time)
        most = self.settings.max_candidates_per_column
        candidates = find_candidates(
            self.facts, uniques.keys, names, hints.single, prober, most=most, declared=_declared(self.facts)
        )
        for candidate in candidates:
            candidate.sources.discard(MODEL_SOURCE)  # A recorded answer counts only after the first resolution.
        score_candidates(self.ranker, self.facts.columns, candidates)
        if self.known is not None:
            self.known.count(candidates)
        row_checks.queries += prober.statements
        row_checks.problems += prober.problems
        return candidates

    def _apart(self, child: ColumnFacts, key: ColumnFacts, sources: Iterable[str] = ()) -> Apart | None:
        return None if self.known is None else self.known.apart(child, key, sources)

    def _without_overruled(self, candidates: Sequence[Candidate]) -> tuple[list[Candidate], dict[Candidate, str]]:
        """Return the candidates that nothing known speaks against, and the others with the reason why they lose."""
        if self.known is None:
            return list(candidates), {}
        chosen, overruled = self.known.without_overruled(candidates, self.settings.review_threshold)
        return chosen, {each: f"{overruling_text(why)}." for each, why in overruled.items()}

    def _relationships(
        self,
        candidates: Sequence[Candidate],
        resolution: Resolution,
        checks: Mapping[Candidate, Check | None],
        composites: Sequence[CompositeCandidate],
        split: Set[ColumnFacts],
        identifying: Set[ColumnFacts],
    ) -> list[Relationship]:
        """Return the relationships of composites and candidates. `split`: columns that refer to several tables."""
        relationships = [
            relationship_of_composite(candidate, self.settings, unchecked=candidate.child in self.row_checks.unchecked)
            for candidate in composites
        ]
        implied = {
            single: f"Implied by the path through `{quoted(candidate.key[0].table.table.ref.name)}`."
            for candidate, relationship in zip(composites, relationships, strict=True)
            if relationship.status is Status.ACCEPTED
            for single in candidate.replaces
        }
        for candidate in resolution.winners:
            if candidate.child in split:
                continue
            check = checks[candidate]
            status = Status.REJECTED if candidate in implied else self._status(candidate, check)
            reason = implied.get(candidate) or (NOT_CHECKED if self._is_unchecked(candidate) else None)
            apart = self._apart(candidate.child, candidate.key, candidate.sources)
            if reason is None and apart is not None:
                reason = f"{reason_of(candidate, check, status).removesuffix('.')}, but {lineage_text(apart)}."
            relationships.append(
                relationship_of_candidate(candidate, status, check, reason, unique=candidate.child in identifying)
            )
        least = self.settings.review_threshold
        return relationships + [
            relationship_of_candidate(
                candidate, Status.REJECTED, sampled_check(candidate), resolution.losers[candidate]
            )
            for candidate in candidates
            if candidate in resolution.losers and candidate.child not in split
            if candidate.probability >= least or is_answered(candidate.sources)
        ]

    def _status(self, candidate: Candidate, check: Check | None) -> Status:
        if self._is_unchecked(candidate):
            return Status.REVIEW
        status = status_of(candidate.probability, check, self.settings, empty=candidate.empty)
        doubts = effective_doubts(self._doubts(candidate), candidate.probability)
        return Status.REVIEW if doubts and status is Status.ACCEPTED else status

    def _lineage(self, candidate: Candidate) -> str | None:
        """Return why lineage speaks against a candidate, if it does."""
        apart = self._apart(candidate.child, candidate.key, candidate.sources)
        return None if apart is None else lineage_text(apart)

    def _doubts(self, candidate: Candidate) -> tuple[Doubt, ...]:
        """Return why a candidate may need review although its probability is sufficient."""
        is_date = candidate.child.family is Family.TIME and candidate.key is not candidate.key.table.likeliest
        doubts = {
            Doubt.NOT_CHECKED: self._is_unchecked(candidate),
            Doubt.NO_PARENT_ROWS: candidate.only_orphans,
            Doubt.DATE_KEY: is_date,
            Doubt.FEW_VALUES: bool(candidate.rivals) and says_nothing(candidate),
            Doubt.LINEAGE: self._apart(candidate.child, candidate.key, candidate.sources) is not None,
            Doubt.OWN_NUMBER: is_own_number(candidate),
        }
        return tuple(doubt for doubt, applies in doubts.items() if applies)

    def _is_unchecked(self, candidate: Candidate) -> bool:
        return (candidate.child,) in self.row_checks.unchecked


def _declared(facts: DatabaseFacts) -> set[ColumnFacts]:
    """Return the columns whose references the database declares."""
    return {
        table.column(name)
        for table in facts.tables
        for key in table.table.foreign_keys
        if len(key.columns) == 1
        for name in key.columns
    }


MAX_ROOT_GAP = 0.5
"""The table whose key an extension shares wins over the extension if its probability is not lower by more than this."""

CLOSE_PROBABILITIES = 0.12
"""If the probabilities of parents differ by less, the nearest parent wins."""

PREFERRED_WITH_ROWS = 0.4
"""From this probability on, a key with rows wins over one without."""


@dataclass(slots=True)
class Resolution:
    """The winning candidate of each child, and the reason why each other candidate loses.

    `rules`: what decided, if the winner is not the most probable candidate. `barred`: those that lose whatever their
    probability.
    """

    winners: list[Candidate]
    losers: dict[Candidate, str] = field(default_factory=dict)
    rules: dict[ColumnFacts, Rule] = field(default_factory=dict)
    barred: set[Candidate] = field(default_factory=set)


def resolve(candidates: Sequence[Candidate], threshold: float) -> Resolution:
    """Choose one parent for each column. `threshold`: the minimum probability of a relationship in a cycle."""
    by_child: dict[ColumnFacts, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_child[candidate.child].append(candidate)
    resolution = Resolution([])
    for candidate in _to_extensions(by_child):
        by_child[candidate.child].remove(candidate)
        resolution.barred.add(candidate)
        owner = f"`{qualified_name(candidate.child)}`"
        resolution.losers[candidate] = f"`{qualified_name(candidate.key)}` extends {owner}, so the join leads there."
    by_child = {child: group for child, group in by_child.items() if group}
    top = {child: max(group, key=_rank) for child, group in by_child.items()}
    own = {child: _in_own_schema(top[child], group) for child, group in by_child.items()}
    best = {child: _root(own[child], group, own) for child, group in by_child.items()}
    for child, group in by_child.items():
        winner = _nearest(best[child], group, best)
        if winner is not top[child]:
            of_own = Rule.OWN_SCHEMA if best[child] is own[child] else Rule.ORIGINAL
            resolution.rules[child] = of_own if winner is best[child] else Rule.NEAREST
        resolution.winners.append(winner)
        for candidate in group:
            if candidate is not winner:
                resolution.losers[candidate] = f"`{quoted(child.name)}` matches `{qualified_name(winner.key)}` better."
    _break_cycles(resolution, by_child, threshold)
    return resolution


def _rank(candidate: Candidate) -> tuple[bool, float, float, float, int, int]:
    """Return the sort key of the candidates of a column: keys whose rows hold the values come first."""
    share = 0.0 if candidate.overlap is None else candidate.overlap.hits / max(1, candidate.key.distinct)
    has_rows = not candidate.only_orphans and candidate.probability >= PREFERRED_WITH_ROWS
    return (
        has_rows,
        round(candidate.probability, 3),
        candidate.name_match.best,
        share,
        -candidate.key.table.number,
        -candidate.key.position,
    )


def _in_own_schema(winner: Candidate, group: Sequence[Candidate]) -> Candidate:
    """Return the key of the same name in the child's own schema if it holds the values as well, else the winner."""
    schema = winner.child.table.table.ref.schema
    namesakes = [
        candidate
        for candidate in group
        if candidate.key.table.table.ref == TableRef(schema, winner.key.table.table.ref.name)
        and candidate.key.name == winner.key.name
        and _violations(candidate) <= _violations(winner) + 0.001
    ]
    return namesakes[0] if namesakes else winner


def _to_extensions(by_child: Mapping[ColumnFacts, Sequence[Candidate]]) -> set[Candidate]:
    """Return the candidates that make a table refer to its own extension, of two tables with the same keys.

    The extension refers to the table whose number the key is, by its name, and not the other way around.
    """
    found = set()
    for group in by_child.values():
        for candidate in group:
            back = [each for each in by_child.get(candidate.key, ()) if each.key is candidate.child]
            equal = bool(back) and max(_violations(candidate), _violations(back[0])) == 0
            if equal and _is_extension(candidate.key, candidate.child):
                found.add(candidate)
    return found


def _is_extension(key: ColumnFacts, other: ColumnFacts) -> bool:
    """Return whether a key is less its own table's than the other is."""
    mine, theirs = own_name(key), own_name(other)
    tails = [is_extension(column.table) for column in (key, other)]
    return theirs > mine if tails[0] == tails[1] else tails[0]


def _root(winner: Candidate, group: Sequence[Candidate], best: Mapping[ColumnFacts, Candidate]) -> Candidate:
    """Return the table whose key an extension shares, unless the child names the extension or covers all of it."""
    for _ in range(len(group)):
        above = best.get(winner.key)
        if above is None or above.probability < 0.5 or above.child is above.key:
            return winner
        root = next((each for each in group if each.key is above.key), None)
        if root is None or root.probability < winner.probability - MAX_ROOT_GAP:
            return winner
        if _closeness(winner) > _closeness(root):
            return winner
        winner = root
    return winner


def _nearest(winner: Candidate, group: Sequence[Candidate], best: Mapping[ColumnFacts, Candidate]) -> Candidate:
    """Return the nearest of the parents with a similar probability: one that itself refers to the winner's key."""
    current = winner
    for _ in range(len(group)):
        nearer = [
            candidate
            for candidate in group
            if candidate is not current
            and candidate.probability >= winner.probability - CLOSE_PROBABILITIES
            and _refers(candidate.key, current.key, best)
            and not _refers(current.key, candidate.key, best)
            and _violations(candidate) <= _violations(current) + 0.001
            and _closeness(candidate) >= _closeness(current)
        ]
        if not nearer:
            return current
        current = max(nearer, key=lambda candidate: (_closeness(candidate), _rank(candidate)))
    return current


def _closeness(candidate: Candidate) -> float:
    """Return how near a parent is to a child by their names and by how much of it the child covers.

    A child of a subtype names it, or covers all of it. Otherwise the parent is the table to which the key originally
    belongs.
    """
    filled = candidate.overlap is not None and candidate.overlap.hits >= 0.995 * max(candidate.key.table.rows, 1)
    return (
        candidate.name_match.best
        + 0.5 * shared_words(candidate.child, candidate.key)
        + 0.5 * own_name(candidate.key)
        + 0.4 * filled
    )


def _refers(key: ColumnFacts, other: ColumnFacts, best: Mapping[ColumnFacts, Candidate]) -> bool:
    candidate = best.get(key)
    return candidate is not None and candidate.key is other and candidate.probability >= 0.5


def _violations(candidate: Candidate) -> float:
    return 1.0 if candidate.overlap is None else candidate.overlap.violations


def _break_cycles(resolution: Resolution, by_child: Mapping[ColumnFacts, list[Candidate]], threshold: float) -> None:
    """Drop the weakest relationship of every cycle of keys, because keys cannot all descend from one another."""
    chosen = {
        candidate.child: candidate
        for candidate in resolution.winners
        if candidate.probability >= threshold and candidate.child is not candidate.key
    }
    for start in sorted(chosen, key=_position):
        while cycle := _cycle_from(start, chosen):
            weakest = min(cycle, key=_rank)
            del chosen[weakest.child]
            resolution.winners.remove(weakest)
            resolution.barred.add(weakest)
            resolution.losers[weakest] = (
                f"Would close a cycle: `{qualified_name(weakest.key)}` refers back to "
                f"`{qualified_name(weakest.child)}`."
            )
            _second_choice(resolution, by_child[weakest.child], chosen, threshold)


def _position(column: ColumnFacts) -> tuple[int, int]:
    return (column.table.number, column.position)


def _cycle_from(start: ColumnFacts, chosen: Mapping[ColumnFacts, Candidate]) -> list[Candidate]:
    """Return the cycle that the relationships from a column lead into, or nothing."""
    path: list[Candidate] = []
    column = start
    while column in chosen:
        start_of_cycle = next((number for number, candidate in enumerate(path) if candidate.child is column), None)
        if start_of_cycle is not None:
            return path[start_of_cycle:]
        path.append(chosen[column])
        column = chosen[column].key
    return []


def _second_choice(
    resolution: Resolution, group: Sequence[Candidate], chosen: dict[ColumnFacts, Candidate], threshold: float
) -> None:
    """Give a column whose relationship was dropped its next best one that closes no cycle."""
    rest = [candidate for candidate in group if not _leads_back(candidate, chosen)]
    if not rest:
        return
    candidate = max(rest, key=_rank)
    resolution.winners.append(candidate)
    resolution.losers.pop(candidate, None)
    if candidate.probability >= threshold:
        chosen[candidate.child] = candidate


def _leads_back(candidate: Candidate, chosen: Mapping[ColumnFacts, Candidate]) -> bool:
    column = candidate.key
    for _ in range(len(chosen) + 1):
        if column is candidate.child:
            return True
        if column not in chosen:
            return False
        column = chosen[column].key
    return False


def is_own_number(candidate: Candidate) -> bool:
    """Return whether a column is the number of its own table by its name, and few or consecutive values say nothing
    else.

    Such numbers are in every larger key. A subtype's key has gaps, or the parent's name.
    """
    child, own = candidate.child, own_name(candidate.child)
    if own < 0.6 or not child.unique or candidate.sources - {"names", "values", MODEL_SOURCE, MODEL_REJECTED}:
        return False
    if extends_table(child.table, candidate.key.table):
        return False
    if candidate.name_match.table > own + 0.05 or own_name(candidate.key) > own + 0.15:
        return False
    return child.distinct < SURE_ROWS or (child.family is Family.INTEGER and is_dense(child))


FEW_VALUES = 2
"""A column with at most this many distinct values fits many keys, so that only its name can decide."""

NOT_CHECKED = "Not checked within the time budget."
"""The reason of a relationship that was not checked in time."""

SURE_ROWS = 30
"""From this number of rows on, a column without repeated values counts as unique."""


def relationship_of_candidate(
    candidate: Candidate, status: Status, check: Check | None, reason: str | None = None, *, unique: bool = False
) -> Relationship:
    """Return the relationship of one column. `unique`: whether the column is unique in all rows."""
    return replace(
        _relationship(
            (candidate.child,),
            (candidate.key,),
            candidate.probability,
            status,
            check,
            reason or reason_of(candidate, check, status),
        ),
        cardinality=Cardinality.ONE_TO_ONE if unique else _cardinality((candidate.child,)),
        sources=tuple(sorted(candidate.sources)),
    )


def relationship_of_composite(
    candidate: CompositeCandidate, settings: Relationships, *, unchecked: bool = False
) -> Relationship:
    """Return the relationship of several columns. `unchecked`: whether time was up before it was checked."""
    status = status_of(candidate.probability, candidate.check, settings)
    evidence = (
        "the values could not be compared" if candidate.check is None else match_text(candidate.check, candidate.key)
    )
    reason = NOT_CHECKED if unchecked else f"Column names match the composite key; {evidence}."
    status = Status.REVIEW if unchecked or candidate.check is None else status
    relationship = _relationship(candidate.child, candidate.key, candidate.probability, status, candidate.check, reason)
    sources = tuple(sorted({"names", "values"} | candidate.sources))
    return replace(relationship, cardinality=_cardinality(candidate.child), sources=sources)


def relationship_of_branch(branch: PolymorphicBranch, settings: Relationships) -> Relationship:
    """Return the relationship of one value of a discriminator."""
    probability = branch_probability(branch.name_match, named=branch.named)
    status = status_of(probability, branch.check, settings)
    discriminator = f"`{quoted(branch.discriminator.name)}`"
    relation = f"{discriminator} names the table" if branch.name_match else f"Only this table fits the {discriminator}"
    reason = f"{relation}; {match_text(branch.check, (branch.key,))}."
    relationship = _relationship((branch.child,), (branch.key,), probability, status, branch.check, reason)
    return replace(relationship, sources=("values",), condition=(branch.discriminator.name, branch.value))


def relationship_of_part(part: PartialReference) -> Relationship:
    """Return the relationship of the rows of a column that refer to one of two tables."""
    reason = f"{match_text(part.check, (part.key,))}, and those of all others are in `{qualified_name(part.other)}`."
    relationship = _relationship((part.child,), (part.key,), part.probability, Status.ACCEPTED, part.check, reason)
    return replace(relationship, sources=("values",))


def _relationship(
    child: Sequence[ColumnFacts],
    key: Sequence[ColumnFacts],
    probability: float,
    status: Status,
    check: Check | None,
    reason: str,
) -> Relationship:
    child_columns, key_columns = (tuple(column.name for column in columns) for columns in (child, key))
    ends = (child[0].table.table.ref, child_columns, key[0].table.table.ref, key_columns)
    return Relationship(*ends, status, round(probability, 3), reason, check=check)


def with_sure_cardinality(relationship: Relationship, child: TableFacts, choice: KeyChoice | None) -> Relationship:
    """Return the relationship, as many-to-one unless it is certain that the child's columns never repeat.

    It is certain if they are a declared or chosen key, or if they are unique in enough rows and not part of a key: a
    junction table repeats either of its references sooner or later.
    """
    if relationship.cardinality is not Cardinality.ONE_TO_ONE:
        return relationship
    columns = set(relationship.child_columns)
    primary = set(child.table.primary_key or (choice.primary if choice is not None else ()))
    declared = any(set(key.columns) <= columns for key in child.table.unique_keys)
    if columns == primary or declared or (child.rows >= SURE_ROWS and not columns & primary):
        return relationship
    return replace(relationship, cardinality=Cardinality.MANY_TO_ONE)


def sort_key(relationship: Relationship) -> tuple[object, ...]:
    """Return the sort key of relationships: their tables and columns."""
    child, parent = relationship.child, relationship.parent
    return (
        child.schema or "",
        child.name,
        relationship.child_columns,
        parent.schema or "",
        parent.name,
        relationship.parent_columns,
        str(relationship.condition),
    )


def _cardinality(columns: tuple[ColumnFacts, ...]) -> Cardinality:
    table = columns[0].table
    if not table.complete:
        return Cardinality.MANY_TO_ONE
    values = [table.sampled.values[column.name] for column in columns]
    rows = [row for row in zip(*values, strict=True) if None not in row]
    return Cardinality.ONE_TO_ONE if len(rows) > 1 and len(set(rows)) == len(rows) else Cardinality.MANY_TO_ONE


def reason_of(candidate: Candidate, check: Check | None, status: Status) -> str:
    """Return the reason of a relationship: the evidence for it and against it."""
    unproven = ", so rows cannot confirm the join" if status is Status.REVIEW and candidate.empty else ""
    if status is Status.REVIEW and candidate.rivals and says_nothing(candidate):
        values = "value" if candidate.child.distinct == 1 else "different values"
        unproven = f", but {candidate.child.distinct} {values} also fit {plural(candidate.rivals, 'other key')}"
    return f"{_name_text(candidate)}; {_values_text(candidate, check)}{_hint_texts(candidate)}{unproven}."


def _hint_texts(candidate: Candidate) -> str:
    """Return what sources beyond names and values say about a relationship: `; declared by a dbt test`."""
    texts = [text.reason for source, text in HINT_TEXTS.items() if text.reason and source in candidate.sources]
    if candidate.similar is not None:
        counts = ((candidate.similar.accepted, "accepted"), (candidate.similar.rejected, "rejected"))
        texts += [
            f"{plural(count, 'similar join was', 'similar joins were')} {what}" for count, what in counts if count
        ]
    return "".join(f"; {text}" for text in texts)


def overruling_text(why: Apart | Chosen) -> str:
    """Return why a candidate loses to what people, sources or lineage say."""
    from ktx_cli.scan.relationships.declarations import DECLARING, Chosen

    if not isinstance(why, Chosen):
        return lineage_text(why)
    if why.candidate is None:
        return "A person rejected this join"
    name = f"`{qualified_name(why.candidate.key)}`"
    if why.by_person:
        return f"A person chose {name} for this column"
    declared = [HINT_TEXTS[each].reason for each in sorted(why.candidate.sources & DECLARING)]
    return f"The join to {name} is {declared[0]}"


def lineage_text(apart: Apart) -> str:
    """Return why lineage speaks against a join: `orders` is built from `raw_orders`."""
    table, other = (f"`{quoted(ref.name)}`" for ref in (apart.table, apart.other))
    if apart.derived:
        return f"{table} is built from {other}"
    return f"{other} is in another layer of the dbt project ({apart.layer})"


def says_nothing(candidate: Candidate) -> bool:
    """Return whether neither the name nor the values of a column tell one key from others: at most two values."""
    named = candidate.name_match.best >= FAINT_NAME or candidate.name_match.meaning
    return (
        not named
        and candidate.child.distinct <= FEW_VALUES
        and not candidate.sources - {"names", "values", MODEL_REJECTED}
    )


def qualified_name(column: ColumnFacts) -> str:
    """Return a column with its table, `orders.id`. Names that are not plain words are in double quotes."""
    ref = column.table.table.ref
    parts = (ref.name, column.name) if ref.schema is None else (ref.schema, ref.name, column.name)
    return ".".join(map(quoted, parts))


def _values_text(candidate: Candidate, check: Check | None) -> str:
    if check is None:
        return "there are no values to compare" if candidate.empty else "the values could not be compared"
    return match_text(check, (candidate.key,)) + _sentinel_text(candidate)


def _sentinel_text(candidate: Candidate) -> str:
    """Return the value that counts as NULL and how many rows have it: ` except 99999 (1,000 rows)`."""
    if candidate.overlap is None or candidate.overlap.sentinel is None:
        return ""
    sentinel, rows, sample = candidate.overlap.sentinel, candidate.overlap.sentinel_rows, candidate.child.filled
    value = f'"{sentinel.strip().lower()}"' if isinstance(sentinel, str) else f"{sentinel}"
    share = f"{rows * 1000 // sample / 10:g}% of the sample"
    many = f"{rows:,} {'row' if rows == 1 else 'rows'}" if candidate.child.table.complete else share
    return f" except {value} ({many})"


def _name_text(candidate: Candidate) -> str:
    if candidate.name_match.key >= 0.85:
        return "Column name matches the key"
    if candidate.name_match.table >= 0.75:
        return "Column name matches the table"
    if candidate.name_match.best >= 0.4:
        return "Column name is similar"
    return "Column name may refer to this table" if candidate.name_match.meaning else "Column name gives no indication"


def evidence_text(candidate: Candidate, checks: Mapping[Candidate, Check | None]) -> str:
    """Return the evidence for a candidate in words, without names and values."""
    check = checks.get(candidate) or sampled_check(candidate)
    parts = [_name_text(candidate)]
    if check is None:
        parts.append("the values could not be compared")
    else:
        share = f"{_share(check)} of the {_compared(check)}" if check.missing else f"all {_scope(check)}values"
        parts.append(f"{share} exist in the key")
        parts.append(f"{plural(candidate.child.distinct, 'distinct value')} in the sample")
    if candidate.rivals:
        parts.append(f"{plural(candidate.rivals, 'other key')} also contain the values")
    return "; ".join(parts) + _hint_texts(candidate)


def match_text(check: Check, key: Sequence[ColumnFacts]) -> str:
    """Return how many rows have a parent, in words."""
    if check.missing:
        return f"{_share(check)} of {_compared(check)} have a match in `{_key_name(key)}`"
    return f"all {_scope(check)}values exist in `{_key_name(key)}`"


def _scope(check: Check) -> str:
    return "" if check.exact else "sketched " if check.compared else "sampled "


def _compared(check: Check) -> str:
    """Return what was compared: `sampled rows`."""
    return f"{_scope(check)}{'values' if check.compared == check.rows else 'rows'}"


def _key_name(key: Sequence[ColumnFacts]) -> str:
    if len(key) == 1:
        return qualified_name(key[0])
    ref = key[0].table.table.ref
    table = ".".join(map(quoted, (ref.name,) if ref.schema is None else (ref.schema, ref.name)))
    return f"{table} ({', '.join(quoted(column.name) for column in key)})"


def _share(check: Check) -> str:
    """Return the percentage of rows with a parent; not 100% unless all have one: `99.9%`."""
    share = round((check.rows - check.missing) * 100 / check.rows, 1)
    return f"{min(share, 99.9) if check.missing else 100:g}%"
