"""What the search asks the database about all rows: counted, within a time budget, one refusal costing one answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from ktx_cli.core import SourceError, monotonic, plural
from ktx_cli.project import Relationships, Scan
from ktx_cli.scan.failures import Failures, Stage
from ktx_cli.scan.profile.counts import SampledTable
from ktx_cli.scan.profile.profiler import Budget, profile_tables
from ktx_cli.scan.relationships.composites import Branch, CompositePair, find_branches, find_composites
from ktx_cli.scan.relationships.containment import EXACT_ROWS, Prober, check_in_database, is_unique_in_database
from ktx_cli.scan.relationships.facts import ColumnFacts, DatabaseFacts, Family, TableFacts, gather
from ktx_cli.scan.relationships.features import Pair
from ktx_cli.scan.relationships.hints import Hints, HintSource, hints_of
from ktx_cli.scan.relationships.key_choice import Uniques, choose_keys, find_uniques
from ktx_cli.scan.relationships.matches import NameIndex
from ktx_cli.scan.relationships.model import Check, Discovery, Edge, EdgeStatus, KeyChoice
from ktx_cli.scan.relationships.pairs import find_pairs
from ktx_cli.scan.relationships.ranker import Ranker, load_ranker, score_pairs
from ktx_cli.scan.relationships.resolution import (
    NOT_CHECKED,
    Resolved,
    edge_of_branch,
    edge_of_composite,
    edge_of_pair,
    order,
    resolve,
    sampled_check,
    status_of,
    with_sure_cardinality,
)
from ktx_cli.semantic import quoted
from ktx_cli.warehouses import Connector, DatabaseSchema, Table

MOST_CHECKS = 1000
"""How many references are checked on all rows unless `validationBudget` says otherwise."""


@dataclass(slots=True)
class Questions:
    """Answers questions about all rows. `until`: the moment (of `monotonic`) from which nothing is asked any more.

    `late`: the columns of references that were not checked for that.
    """

    connector: Connector
    settings: Relationships
    columns: int
    until: float | None = None
    queries: int = 0
    problems: list[str] = field(default_factory=list)
    late: set[tuple[ColumnFacts, ...]] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.until is not None and monotonic() >= self.until

    def check_pairs(self, pairs: Sequence[Pair]) -> dict[int, Check | None]:
        """Return what all rows say of the pairs that may be accepted, the likeliest first, else what samples say."""
        checks = {id(pair): sampled_check(pair) for pair in pairs}
        self.late |= {(pair.child,) for pair in pairs if pair.late}
        open_ones = [pair for pair in pairs if self._worth_checking(pair, checks[id(pair)])]
        open_ones.sort(key=lambda pair: -pair.score)
        chosen = open_ones[: self._budget()]
        with ThreadPoolExecutor(self.settings.validation_concurrency, thread_name_prefix="ktx-check") as pool:
            checks.update(zip(map(id, chosen), pool.map(self._check_pair, chosen), strict=True))
        return checks

    def _worth_checking(self, pair: Pair, sampled: Check | None) -> bool:
        if pair.empty or pair.score < self.settings.accept_threshold or (sampled is not None and sampled.exact):
            return False
        return _is_small_enough(pair.child.table, pair.key.table)

    def _check_pair(self, pair: Pair) -> Check | None:
        blank = None if pair.overlap is None else pair.overlap.blank
        return self.check_rows([pair.child], [pair.key], blank)

    def _budget(self) -> int:
        budget = self.settings.validation_budget
        if budget is None:
            return MOST_CHECKS
        return self.columns if budget == "all" else budget

    def check_rows(
        self, columns: Sequence[ColumnFacts], keys: Sequence[ColumnFacts], blank: Any = None
    ) -> Check | None:
        """Return what all rows say of a reference; None where the database refuses, there are too many, or no time."""
        child, parent = columns[0].table, keys[0].table
        if not _is_small_enough(child, parent):
            return None
        with self.lock:
            if self.is_over:
                self.late.add(tuple(columns))
                return None
            self.queries += 1
        names, others = [column.name for column in columns], [key.name for key in keys]
        try:
            return check_in_database(self.connector, child.table, names, parent.table, others, blank=blank)
        except SourceError as error:
            self._note(f"{', '.join(map(str, columns))} -> {parent.table.ref} could not be checked", error)
            return None

    def is_unique(self, table: TableFacts, columns: Sequence[ColumnFacts]) -> bool | None:
        """Say whether columns are unique in all rows of a table; None when the database or the time does not tell."""
        if self.is_over:
            return None
        self.queries += 1
        try:
            return is_unique_in_database(self.connector, table.table, [column.name for column in columns])
        except SourceError as error:
            self._note(f"whether {', '.join(map(str, columns))} repeats could not be checked", error)
            return None

    def all_problems(self) -> tuple[str, ...]:
        """Return what went wrong, sorted; of what the time did not suffice for only how much it was."""
        late = [f"{plural(len(self.late), 'reference')} not checked: time budget"] if self.late else []
        return tuple(sorted([*self.problems, *late]))

    def _note(self, what: str, error: SourceError) -> None:
        if error.code == "connection":
            raise error
        self.problems.append(f"{what}: {error.message}")


def _is_small_enough(child: TableFacts, parent: TableFacts) -> bool:
    """Whether two tables may be joined whole."""
    return max(child.rows, parent.rows) <= EXACT_ROWS


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
