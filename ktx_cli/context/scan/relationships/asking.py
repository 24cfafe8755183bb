"""What the search asks the database about all rows: counted, within a time budget, one refusal costing one answer."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from ktx_cli.connectors.port import Connector
from ktx_cli.context.scan.relationships.containment import (
    EXACT_ROWS,
    check_in_database,
    is_unique_in_database,
)
from ktx_cli.context.scan.relationships.edges import sampled_check
from ktx_cli.context.scan.relationships.facts import ColumnFacts, TableFacts
from ktx_cli.context.scan.relationships.model import Check
from ktx_cli.context.scan.relationships.pairs import Pair
from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import SourceError
from ktx_cli.core.text import plural
from ktx_cli.project.config.scan import Relationships

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
