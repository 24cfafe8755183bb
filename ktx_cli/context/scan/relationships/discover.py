"""The way through: profile, unique columns, pairs, probabilities, one choice for each column, keys, composites."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from ktx_cli.connectors.port import Connector, DatabaseSchema, Table
from ktx_cli.context.scan.profiling.model import SampledTable
from ktx_cli.context.scan.profiling.profiler import Budget, profile_tables
from ktx_cli.context.scan.relationships.choosing import Uniques, choose_keys, find_uniques
from ktx_cli.context.scan.relationships.composites import find_composites
from ktx_cli.context.scan.relationships.containment import (
    EXACT_ROWS,
    Prober,
    check_in_database,
    is_unique_in_database,
)
from ktx_cli.context.scan.relationships.edges import (
    edge_of_branch,
    edge_of_composite,
    edge_of_pair,
    order,
    sampled_check,
    status_of,
    with_sure_cardinality,
)
from ktx_cli.context.scan.relationships.facts import ColumnFacts, DatabaseFacts, Family, TableFacts, gather
from ktx_cli.context.scan.relationships.hints import HintSource
from ktx_cli.context.scan.relationships.matching import NameIndex
from ktx_cli.context.scan.relationships.model import Check, Discovery, Edge, EdgeStatus, KeyChoice
from ktx_cli.context.scan.relationships.pairs import Pair, find_pairs
from ktx_cli.context.scan.relationships.polymorphic import find_branches
from ktx_cli.context.scan.relationships.ranker import Ranker, load_ranker, with_hints
from ktx_cli.context.scan.relationships.resolving import Resolved, resolve
from ktx_cli.core.errors import SourceError
from ktx_cli.project.config.scan import Relationships, Scan

MOST_CHECKS = 1000
"""How many references are checked on all rows unless `validationBudget` says otherwise."""


def discover_database(
    connector: Connector, schema: DatabaseSchema, settings: Scan, sources: Sequence[HintSource] = ()
) -> Discovery:
    """Profile a database and find its keys and joins; see `discover`."""
    relationships = settings.relationships
    budget = Budget(
        rows=relationships.profile_sample_rows,
        bytes=settings.budget.megabytes * 1024 * 1024,
        seconds=float(settings.budget.seconds),
        concurrency=relationships.profile_concurrency,
    )
    profiled = profile_tables(connector, schema.tables, budget)
    found = discover(connector, schema.tables, profiled.tables, relationships, sources)
    return replace(found, queries=found.queries + profiled.statements)


def discover(
    connector: Connector,
    tables: Sequence[Table],
    sampled: Sequence[SampledTable],
    settings: Relationships,
    sources: Sequence[HintSource] = (),
    ranker: Ranker | None = None,
) -> Discovery:
    """Find the keys and joins of tables that were sampled. Declared keys are taken as given, declared joins left out.

    A statement that fails costs only its edge. Raises `SourceError` when the database is gone.
    """
    facts = gather(connector.dialect, tables, sampled)
    return _Search(connector, facts, settings, sources, ranker or load_ranker()).run()


def candidate_pairs(
    connector: Connector, tables: Sequence[Table], sampled: Sequence[SampledTable], settings: Relationships
) -> list[Pair]:
    """Return the pairs a ranker has to judge, with their features and no score; for learning one."""
    facts = gather(connector.dialect, tables, sampled)
    search = _Search(connector, facts, settings, (), Ranker(0.0, (), ()))
    uniques = find_uniques(facts.tables, search._confirm)
    return search._ranked_pairs(uniques, NameIndex(facts.tables, uniques.keys))


@dataclass(slots=True)
class _Search:
    connector: Connector
    facts: DatabaseFacts
    settings: Relationships
    sources: Sequence[HintSource]
    ranker: Ranker
    queries: int = 0
    problems: list[str] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def run(self) -> Discovery:
        uniques = find_uniques(self.facts.tables, self._confirm)
        names = NameIndex(self.facts.tables, uniques.keys)
        pairs = self._ranked_pairs(uniques, names)
        resolved = resolve(pairs, self.settings.accept_threshold)
        checks = self._checks(resolved.winners)
        accepted = [pair for pair in resolved.winners if self._status(pair, checks[id(pair)]) is EdgeStatus.ACCEPTED]
        keys = choose_keys(uniques, accepted, names, self._confirm)
        edges = self._edges(pairs, resolved, checks, accepted, keys, uniques, names)
        by_ref = {table.table.ref: table for table in self.facts.tables}
        edges = [with_sure_cardinality(edge, by_ref[edge.child], keys.get(by_ref[edge.child])) for edge in edges]
        return Discovery(
            keys={table.table.ref: choice for table, choice in keys.items()},
            edges=tuple(sorted(edges, key=order)),
            queries=self.queries,
            problems=tuple(sorted(self.problems)),
        )

    def _ranked_pairs(self, uniques: Uniques, names: NameIndex) -> list[Pair]:
        prober = Prober(self.connector)
        pairs = find_pairs(
            self.facts,
            uniques.keys,
            names,
            self._hints(uniques),
            prober,
            most=self.settings.max_candidates_per_column,
            spoken_for=self._declared(),
        )
        known: dict[tuple[float, ...], float] = {}
        for pair in pairs:
            facts = tuple(pair.values)
            score = known.get(facts)
            if score is None:
                score = known[facts] = self.ranker.probability(facts)
            hints = pair.sources - {"names", "values"}
            pair.score = with_hints(score, hints) if hints else score
        self.queries += prober.statements
        self.problems += prober.problems
        return pairs

    def _edges(
        self,
        pairs: Sequence[Pair],
        resolved: Resolved,
        checks: Mapping[int, Check | None],
        accepted: Sequence[Pair],
        keys: Mapping[TableFacts, KeyChoice],
        uniques: Uniques,
        names: NameIndex,
    ) -> list[Edge]:
        composites = find_composites(self.facts.tables, keys, accepted, self._check_rows)
        edges = [edge_of_composite(pair, self.settings) for pair in composites]
        implied = {
            id(single): f"reached through {pair.key[0].table.table.ref}"
            for pair, edge in zip(composites, edges, strict=True)
            if edge.status is EdgeStatus.ACCEPTED
            for single in pair.replaces
        }
        branches = find_branches(self.facts.tables, uniques.keys, names)
        split = {branch.child for branch in branches}
        identifying = set(uniques.keys)
        edges += [edge_of_branch(branch, self.settings) for branch in branches]
        for pair in resolved.winners:
            if pair.child in split:
                continue
            check = checks[id(pair)]
            status = EdgeStatus.REJECTED if id(pair) in implied else self._status(pair, check)
            unique = pair.child in identifying
            edges.append(edge_of_pair(pair, status, check, implied.get(id(pair)), unique=unique))
        return edges + [
            edge_of_pair(pair, EdgeStatus.REJECTED, sampled_check(pair), resolved.lost[id(pair)])
            for pair in pairs
            if id(pair) in resolved.lost and pair.score >= self.settings.review_threshold and pair.child not in split
        ]

    def _status(self, pair: Pair, check: Check | None) -> EdgeStatus:
        status = status_of(pair.score, check, self.settings, empty=pair.empty)
        if (
            status is EdgeStatus.ACCEPTED
            and pair.child.family is Family.TIME
            and pair.key is not pair.key.table.likeliest
        ):
            return EdgeStatus.REVIEW  # any date is found in a calendar
        return status

    def _checks(self, pairs: Sequence[Pair]) -> dict[int, Check | None]:
        """Return what all rows say of the pairs that may be accepted, the likeliest first, else what samples say."""
        checks = {id(pair): sampled_check(pair) for pair in pairs}
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
        return self._check_rows([pair.child], [pair.key], blank)

    def _budget(self) -> int:
        budget = self.settings.validation_budget
        if budget is None:
            return MOST_CHECKS
        return len(self.facts.columns) if budget == "all" else budget

    def _check_rows(
        self, columns: Sequence[ColumnFacts], keys: Sequence[ColumnFacts], blank: Any = None
    ) -> Check | None:
        """Return what all rows say of a reference; None where the database refuses, or there are too many."""
        child, parent = columns[0].table, keys[0].table
        if not _is_small_enough(child, parent):
            return None
        with self.lock:
            self.queries += 1
        names, others = [column.name for column in columns], [key.name for key in keys]
        try:
            return check_in_database(self.connector, child.table, names, parent.table, others, blank=blank)
        except SourceError as error:
            self._note(f"{', '.join(map(str, columns))} -> {parent.table.ref} could not be checked", error)
            return None

    def _confirm(self, table: TableFacts, columns: Sequence[ColumnFacts]) -> bool | None:
        """Say whether columns are unique in all rows of a table; None when the database does not tell."""
        self.queries += 1
        try:
            return is_unique_in_database(self.connector, table.table, [column.name for column in columns])
        except SourceError as error:
            self._note(f"whether {', '.join(map(str, columns))} repeats could not be checked", error)
            return None

    def _note(self, what: str, error: SourceError) -> None:
        if error.code == "connection":
            raise error
        self.problems.append(f"{what}: {error.message}")

    def _hints(self, uniques: Uniques) -> dict[tuple[ColumnFacts, ColumnFacts], set[str]]:
        """Return the pairs that sources name, each with the sources; those whose ends are not known are left out."""
        found: dict[tuple[ColumnFacts, ColumnFacts], set[str]] = defaultdict(set)
        keys = {(key.table.table.ref, key.name): key for key in uniques.keys}
        columns = {(column.table.table.ref, column.name): column for column in self.facts.columns}
        for hint in (hint for source in self.sources for hint in source.hints(self.facts.relations)):
            if len(hint.child_columns) != 1 or len(hint.parent_columns) != 1:
                continue
            child = columns.get((hint.child, hint.child_columns[0]))
            key = keys.get((hint.parent, hint.parent_columns[0]))
            if child is not None and key is not None and child is not key:
                found[child, key].add(hint.source)
        return found

    def _declared(self) -> set[ColumnFacts]:
        return {
            table.column(name)
            for table in self.facts.tables
            for key in table.table.foreign_keys
            if len(key.columns) == 1
            for name in key.columns
        }


def _is_small_enough(child: TableFacts, parent: TableFacts) -> bool:
    """Whether two tables may be joined whole."""
    return max(child.rows, parent.rows) <= EXACT_ROWS
