"""Checks of candidates and keys on all rows of the database, within a number of checks and a time limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from ktx_cli.core import SourceError, monotonic, plural
from ktx_cli.project import Relationships
from ktx_cli.scan.profile.profiler import SparedTableError
from ktx_cli.scan.relationships.candidates import (
    EXACT_ROWS,
    check_in_database,
    check_statement,
    is_unique_in_database,
    repeats_statement,
)
from ktx_cli.scan.relationships.keys import unique_columns
from ktx_cli.scan.relationships.record import Check
from ktx_cli.scan.relationships.sketches import SketchReader
from ktx_cli.telemetry import in_this_operation
from ktx_cli.warehouses import Connector, may_ask

if TYPE_CHECKING:
    from ktx_cli.scan.relationships.columns import Candidate, ColumnFacts, TableFacts

MOST_CHECKS = 1000
"""The number of references that are checked on all rows, unless `validationBudget` sets another."""

MOST_ESTIMATED = 6
"""The number of a large table's likely keys whose distinct values are estimated before one is checked on all rows."""


@dataclass(slots=True)
class RowChecks:
    """Checks candidates and keys on all rows of the database.

    `deadline`: the time (of `monotonic`) after which no statement is sent. `unchecked`: the columns of references that
    were not checked for that reason. `unique`: whether columns repeat, as far as the database said so.
    """

    connector: Connector
    settings: Relationships
    columns: int
    deadline: float | None = None
    queries: int = 0
    problems: list[str] = field(default_factory=list)
    unchecked: set[tuple[ColumnFacts, ...]] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)
    unique: dict[tuple[ColumnFacts, ...], bool] = field(default_factory=dict)
    sketches: SketchReader = field(init=False)

    def __post_init__(self) -> None:
        """Read sketches through the same connection, within the same time limit."""
        concurrency = self.settings.validation_concurrency
        self.sketches = SketchReader(self.connector, concurrency, lambda: self.is_out_of_time, self._note)

    @property
    def is_out_of_time(self) -> bool:
        """Whether the time limit is reached."""
        return self.deadline is not None and monotonic() >= self.deadline

    def check_candidates(self, candidates: Sequence[Candidate]) -> dict[Candidate, Check | None]:
        """Check those that may be accepted on all rows, or by sketches of tables that are too large, likeliest first,
        and the others on the sample.
        """
        checks = {candidate: sampled_check(candidate) for candidate in candidates}
        self.unchecked |= {(candidate.child,) for candidate in candidates if candidate.out_of_time}
        unsure = [candidate for candidate in candidates if self._worth_checking(candidate, checks[candidate])]
        unsure.sort(key=lambda candidate: -candidate.probability)
        chosen = unsure[: self._budget()]
        with ThreadPoolExecutor(self.settings.validation_concurrency, thread_name_prefix="ktx-check") as pool:
            small = [each for each in chosen if _is_small_enough(each.child.table, each.key.table)]
            checks.update(zip(small, pool.map(in_this_operation(self._check_candidate), small), strict=True))
        checks.update(self._check_by_sketches([each for each in chosen if each not in set(small)], checks))
        return checks

    def _worth_checking(self, candidate: Candidate, sampled: Check | None) -> bool:
        if (
            candidate.empty
            or candidate.probability < self.settings.accept_threshold
            or (sampled is not None and sampled.exact)
        ):
            return False
        if _is_small_enough(candidate.child.table, candidate.key.table):
            return True
        return self.sketches.can_compare(candidate.child, candidate.key)

    def _check_candidate(self, candidate: Candidate) -> Check | None:
        return self.check_rows([candidate.child], [candidate.key], _sentinel_of(candidate))

    def _check_by_sketches(
        self, candidates: Sequence[Candidate], sampled: Mapping[Candidate, Check | None]
    ) -> dict[Candidate, Check | None]:
        """Return the checks of those whose sketches are comparable; those of all others stay as they are."""
        sent = self.sketches.statements
        children = [(candidate.child, _sentinel_of(candidate)) for candidate in candidates]
        self.sketches.read([*((candidate.key, None) for candidate in candidates), *children])
        self.queries += self.sketches.statements - sent
        checks: dict[Candidate, Check | None] = {}
        for candidate in candidates:
            if not self.sketches.late.isdisjoint((candidate.child, candidate.key)):
                self.unchecked.add((candidate.child,))
                continue
            found = self.sketches.containment(candidate.child, candidate.key, _sentinel_of(candidate))
            check = None if found is None else found.check(sampled[candidate])
            if check is not None:
                checks[candidate] = check
        return checks

    def _budget(self) -> int:
        budget = self.settings.validation_budget
        if budget is None:
            return MOST_CHECKS
        return self.columns if budget == "all" else budget

    def check_rows(
        self, columns: Sequence[ColumnFacts], keys: Sequence[ColumnFacts], sentinel: Any = None
    ) -> Check | None:
        """Check a reference on all rows. Returns None if the database refuses, rows are too many, or time is up."""
        child, parent = columns[0].table, keys[0].table
        if not _is_small_enough(child, parent):
            return None
        child_names, key_names = [column.name for column in columns], [key.name for key in keys]
        blank = [column.name for column in columns if column.blanks]
        asked = (child.table, child_names, parent.table, key_names, sentinel, blank)
        statement = check_statement(self.connector.dialect, *asked)
        with self.lock:
            if not self._may_ask(statement):
                self.unchecked.add(tuple(columns))
                return None
            self.queries += 1
        try:
            return check_in_database(self.connector, *asked)
        except SourceError as error:
            self._note(f"could not check {', '.join(map(str, columns))} -> {parent.table.ref}", error)
            return None

    def is_unique(self, table: TableFacts, columns: Sequence[ColumnFacts]) -> bool | None:
        """Return whether columns are unique in all rows of a table, or None if the database refuses or time is up."""
        group = tuple(columns)
        if group not in self.unique:
            answer = self._ask_whether_unique(table, group)
            if answer is None:
                return None
            self.unique[group] = answer
        return self.unique[group]

    def _ask_whether_unique(self, table: TableFacts, columns: Sequence[ColumnFacts]) -> bool | None:
        if table.rows > EXACT_ROWS and len(columns) == 1:
            sent = self.sketches.statements
            repeats = self.sketches.repeats(columns[0], unique_columns(table)[:MOST_ESTIMATED])
            self.queries += self.sketches.statements - sent
            if repeats:
                return False
        names = [column.name for column in columns]
        statement = repeats_statement(self.connector.dialect, table.table, names)
        if not self._may_ask(statement):
            return None
        self.queries += 1
        try:
            return is_unique_in_database(self.connector, table.table, names)
        except SourceError as error:
            self._note(f"could not check whether {', '.join(map(str, columns))} repeats", error)
            return None

    def _may_ask(self, statement: str) -> bool:
        return may_ask(self.connector, statement, max_rows=1, is_late=self.is_out_of_time)

    def all_problems(self) -> tuple[str, ...]:
        """Return the sorted problems; references that were not checked in time are only counted."""
        unchecked = (
            [f"{plural(len(self.unchecked), 'reference')} not checked within the time budget"] if self.unchecked else []
        )
        return tuple(sorted([*self.problems, *unchecked]))

    def _note(self, what: str, error: SourceError) -> None:
        if error.code == "connection":
            raise error
        if not isinstance(error, SparedTableError):  # One warning for all tables that are not read is enough.
            self.problems.append(f"{what}: {error.message}")


def _is_small_enough(child: TableFacts, parent: TableFacts) -> bool:
    """Return whether two tables are small enough to be joined completely."""
    return max(child.rows, parent.rows) <= EXACT_ROWS


def _sentinel_of(candidate: Candidate) -> Any:
    return None if candidate.overlap is None else candidate.overlap.sentinel


def sampled_check(candidate: Candidate) -> Check | None:
    """Return the check of a candidate on the samples, or None if there are no rows."""
    if candidate.overlap is None or not candidate.overlap.rows:
        return None
    return Check(candidate.overlap.rows, candidate.overlap.missing, candidate.overlap.exact)
