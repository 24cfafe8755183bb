"""The way through: profile, unique columns, pairs, probabilities, one choice for each column, keys, composites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from ktx_cli.connectors.port import Connector, DatabaseSchema, Table
from ktx_cli.context.scan.failures import Failures, Stage
from ktx_cli.context.scan.names import quoted
from ktx_cli.context.scan.profiling.model import SampledTable
from ktx_cli.context.scan.profiling.profiler import Budget, profile_tables
from ktx_cli.context.scan.relationships.asking import Questions
from ktx_cli.context.scan.relationships.choosing import Uniques, choose_keys, find_uniques
from ktx_cli.context.scan.relationships.composites import CompositePair, find_composites
from ktx_cli.context.scan.relationships.containment import Prober
from ktx_cli.context.scan.relationships.edges import (
    NOT_CHECKED,
    edge_of_branch,
    edge_of_composite,
    edge_of_pair,
    order,
    sampled_check,
    status_of,
    with_sure_cardinality,
)
from ktx_cli.context.scan.relationships.facts import ColumnFacts, DatabaseFacts, Family, TableFacts, gather
from ktx_cli.context.scan.relationships.hinted import Hints, hints_of
from ktx_cli.context.scan.relationships.hints import HintSource
from ktx_cli.context.scan.relationships.matching import NameIndex
from ktx_cli.context.scan.relationships.model import Check, Discovery, Edge, EdgeStatus, KeyChoice
from ktx_cli.context.scan.relationships.pairs import Pair, find_pairs
from ktx_cli.context.scan.relationships.polymorphic import Branch, find_branches
from ktx_cli.context.scan.relationships.ranker import Ranker, load_ranker, score_pairs
from ktx_cli.context.scan.relationships.resolving import Resolved, resolve
from ktx_cli.core.clock import monotonic
from ktx_cli.project.config.scan import Relationships, Scan


def discover_database(
    connector: Connector, schema: DatabaseSchema, settings: Scan, sources: Sequence[HintSource] = ()
) -> Discovery:
    """Profile a database and find its keys and joins; see `discover`. Both together keep `scan.budget.seconds`."""
    started = monotonic()
    relationships = settings.relationships
    budget = Budget(
        rows=relationships.profile_sample_rows,
        bytes=settings.budget.megabytes * 1024 * 1024,
        seconds=float(settings.budget.seconds),
        concurrency=relationships.profile_concurrency,
    )
    profiled = profile_tables(connector, schema.tables, budget)
    left = budget.seconds - (monotonic() - started)
    found = discover(connector, schema.tables, profiled.tables, relationships, sources, seconds=left)
    return replace(found, queries=found.queries + profiled.statements)


def discover(
    connector: Connector,
    tables: Sequence[Table],
    sampled: Sequence[SampledTable],
    settings: Relationships,
    sources: Sequence[HintSource] = (),
    ranker: Ranker | None = None,
    *,
    seconds: float | None = None,
    failures: Failures | None = None,
) -> Discovery:
    """Find the keys and joins of tables that were sampled. Declared keys are taken as given, declared joins left out.

    `seconds`: how long the database may be asked, at most `detectionBudgetMs`; what is not checked by then is put up
    for review, with that reason. A statement that fails costs only its edge. Raises `SourceError` when the database is
    gone. `failures`: takes what fails unexpectedly, as far as the rest does not need it; None: it is raised.
    """
    failed = failures or Failures(strict=True)
    facts = gather(connector.dialect, tables, sampled, failed)
    own = settings.detection_budget_ms
    limits = [each for each in (seconds, None if own is None else own / 1000) if each is not None]
    until = monotonic() + min(limits) if limits else None
    questions = _questions(connector, facts, settings, until)
    return _Search(facts, settings, questions, sources, ranker or load_ranker(), failed).run()


def candidate_pairs(
    connector: Connector, tables: Sequence[Table], sampled: Sequence[SampledTable], settings: Relationships
) -> tuple[list[ColumnFacts], list[Pair]]:
    """Return all columns, and the pairs a ranker has to judge, with their features; for learning one."""
    facts = gather(connector.dialect, tables, sampled)
    questions = _questions(connector, facts, settings, None)
    search = _Search(facts, settings, questions, (), Ranker(0.0, (), ()))
    uniques = find_uniques(facts.tables, questions.is_unique)
    return facts.columns, search.ranked_pairs(uniques, NameIndex(facts.tables, uniques.keys), Hints())


def _questions(connector: Connector, facts: DatabaseFacts, settings: Relationships, until: float | None) -> Questions:
    return Questions(connector, settings, len(facts.columns), until)


@dataclass(slots=True)
class _Search:
    facts: DatabaseFacts
    settings: Relationships
    questions: Questions
    sources: Sequence[HintSource]
    ranker: Ranker
    failures: Failures = field(default_factory=lambda: Failures(strict=True))

    def run(self) -> Discovery:
        uniques = find_uniques(self.facts.tables, self.questions.is_unique, self.failures)
        names = NameIndex(self.facts.tables, uniques.keys)
        hints = Hints()
        with self.failures.stage(Stage.HINTS):
            hints = hints_of(self.sources, self.facts, uniques.keys)
        pairs = self.ranked_pairs(uniques, names, hints)
        resolved = resolve(pairs, self.settings.accept_threshold)
        checks = self.questions.check_pairs(resolved.winners)
        accepted = [pair for pair in resolved.winners if self._status(pair, checks[id(pair)]) is EdgeStatus.ACCEPTED]
        keys: dict[TableFacts, KeyChoice] = {}
        with self.failures.stage(Stage.KEYS):
            keys = choose_keys(uniques, accepted, names, self.questions.is_unique, self.failures)
        composites: list[CompositePair] = []
        with self.failures.stage(Stage.COMPOSITES):
            composites = self._composites(keys, accepted, names, hints)
        branches: list[Branch] = []
        with self.failures.stage(Stage.POLYMORPHIC):
            branches = find_branches(self.facts.tables, uniques.keys, names, self.failures)
        edges = self._edges(pairs, resolved, checks, composites, branches, set(uniques.keys))
        by_ref = {table.table.ref: table for table in self.facts.tables}
        edges = [with_sure_cardinality(edge, by_ref[edge.child], keys.get(by_ref[edge.child])) for edge in edges]
        return Discovery(
            keys={table.table.ref: choice for table, choice in keys.items()},
            edges=tuple(sorted(edges, key=order)),
            queries=self.questions.queries,
            problems=self.questions.all_problems(),
        )

    def _composites(
        self, keys: Mapping[TableFacts, KeyChoice], accepted: Sequence[Pair], names: NameIndex, hints: Hints
    ) -> list[CompositePair]:
        return find_composites(self.facts.tables, keys, accepted, names, self.questions.check_rows, hints.several)

    def ranked_pairs(self, uniques: Uniques, names: NameIndex, hints: Hints) -> list[Pair]:
        """Return the pairs worth a look, with their scores."""
        questions = self.questions
        prober = Prober(questions.connector, lambda: questions.is_over)
        most = self.settings.max_candidates_per_column
        pairs = find_pairs(
            self.facts, uniques.keys, names, hints.single, prober, most=most, spoken_for=_declared(self.facts)
        )
        score_pairs(self.ranker, self.facts.columns, pairs)
        questions.queries += prober.statements
        questions.problems += prober.problems
        return pairs

    def _edges(
        self,
        pairs: Sequence[Pair],
        resolved: Resolved,
        checks: Mapping[int, Check | None],
        composites: Sequence[CompositePair],
        branches: Sequence[Branch],
        identifying: Set[ColumnFacts],
    ) -> list[Edge]:
        edges = [edge_of_composite(pair, self.settings, late=pair.child in self.questions.late) for pair in composites]
        implied = {
            id(single): f"reached through {quoted(pair.key[0].table.table.ref.name)}"
            for pair, edge in zip(composites, edges, strict=True)
            if edge.status is EdgeStatus.ACCEPTED
            for single in pair.replaces
        }
        split = {branch.child for branch in branches}
        edges += [edge_of_branch(branch, self.settings) for branch in branches]
        for pair in resolved.winners:
            if pair.child in split:
                continue
            check = checks[id(pair)]
            status = EdgeStatus.REJECTED if id(pair) in implied else self._status(pair, check)
            reason = implied.get(id(pair)) or (NOT_CHECKED if self._is_late(pair) else None)
            edges.append(edge_of_pair(pair, status, check, reason, unique=pair.child in identifying))
        return edges + [
            edge_of_pair(pair, EdgeStatus.REJECTED, sampled_check(pair), resolved.lost[id(pair)])
            for pair in pairs
            if id(pair) in resolved.lost and pair.score >= self.settings.review_threshold and pair.child not in split
        ]

    def _status(self, pair: Pair, check: Check | None) -> EdgeStatus:
        if self._is_late(pair):
            return EdgeStatus.REVIEW
        status = status_of(pair.score, check, self.settings, empty=pair.empty)
        # Any date is found in a calendar, and of a parent without rows the rows say nothing.
        doubtful = pair.only_orphans or (pair.child.family is Family.TIME and pair.key is not pair.key.table.likeliest)
        return EdgeStatus.REVIEW if doubtful and status is EdgeStatus.ACCEPTED else status

    def _is_late(self, pair: Pair) -> bool:
        return (pair.child,) in self.questions.late


def _declared(facts: DatabaseFacts) -> set[ColumnFacts]:
    """Return the columns whose references the database declares."""
    return {
        table.column(name)
        for table in facts.tables
        for key in table.table.foreign_keys
        if len(key.columns) == 1
        for name in key.columns
    }
