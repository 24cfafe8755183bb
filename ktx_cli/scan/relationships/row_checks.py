"""Checks of candidates and keys on all rows of the database, within a number of checks and a time limit."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from ktx_cli.core import SourceError, monotonic, plural
from ktx_cli.project import Relationships
from ktx_cli.scan.profile.profiler import SparedTableError
from ktx_cli.scan.relationships.candidates import EXACT_ROWS, check_in_database, is_unique_in_database
from ktx_cli.scan.relationships.record import Check
from ktx_cli.warehouses import Connector

if TYPE_CHECKING:
    from ktx_cli.scan.relationships.columns import Candidate, ColumnFacts, TableFacts

MOST_CHECKS = 1000
"""The number of references that are checked on all rows, unless `validationBudget` sets another."""


@dataclass(slots=True)
class RowChecks:
    """Checks candidates and keys on all rows of the database.

    `deadline`: the time (of `monotonic`) after which no statement is sent. `unchecked`: the columns of references that
    were not checked for that reason.
    """

    connector: Connector
    settings: Relationships
    columns: int
    deadline: float | None = None
    queries: int = 0
    problems: list[str] = field(default_factory=list)
    unchecked: set[tuple[ColumnFacts, ...]] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)

    @property
    def is_out_of_time(self) -> bool:
        """Whether the time limit is reached."""
        return self.deadline is not None and monotonic() >= self.deadline

    def check_candidates(self, candidates: Sequence[Candidate]) -> dict[Candidate, Check | None]:
        """Check those that may be accepted on all rows, likeliest first, and the others on the sample."""
        checks = {candidate: sampled_check(candidate) for candidate in candidates}
        self.unchecked |= {(candidate.child,) for candidate in candidates if candidate.out_of_time}
        unsure = [candidate for candidate in candidates if self._worth_checking(candidate, checks[candidate])]
        unsure.sort(key=lambda candidate: -candidate.probability)
        chosen = unsure[: self._budget()]
        with ThreadPoolExecutor(self.settings.validation_concurrency, thread_name_prefix="ktx-check") as pool:
            checks.update(zip(chosen, pool.map(self._check_candidate, chosen), strict=True))
        return checks

    def _worth_checking(self, candidate: Candidate, sampled: Check | None) -> bool:
        if (
            candidate.empty
            or candidate.probability < self.settings.accept_threshold
            or (sampled is not None and sampled.exact)
        ):
            return False
        return _is_small_enough(candidate.child.table, candidate.key.table)

    def _check_candidate(self, candidate: Candidate) -> Check | None:
        sentinel = None if candidate.overlap is None else candidate.overlap.sentinel
        return self.check_rows([candidate.child], [candidate.key], sentinel)

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
        with self.lock:
            if self.is_out_of_time:
                self.unchecked.add(tuple(columns))
                return None
            self.queries += 1
        child_names, key_names = [column.name for column in columns], [key.name for key in keys]
        try:
            blank = [column.name for column in columns if column.blanks]
            return check_in_database(self.connector, child.table, child_names, parent.table, key_names, sentinel, blank)
        except SourceError as error:
            self._note(f"could not check {', '.join(map(str, columns))} -> {parent.table.ref}", error)
            return None

    def is_unique(self, table: TableFacts, columns: Sequence[ColumnFacts]) -> bool | None:
        """Return whether columns are unique in all rows of a table, or None if the database refuses or time is up."""
        if self.is_out_of_time:
            return None
        self.queries += 1
        try:
            return is_unique_in_database(self.connector, table.table, [column.name for column in columns])
        except SourceError as error:
            self._note(f"could not check whether {', '.join(map(str, columns))} repeats", error)
            return None

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


def sampled_check(candidate: Candidate) -> Check | None:
    """Return the check of a candidate on the samples, or None if there are no rows."""
    if candidate.overlap is None or not candidate.overlap.rows:
        return None
    return Check(candidate.overlap.rows, candidate.overlap.missing, candidate.overlap.exact)
