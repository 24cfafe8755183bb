"""The profile of a table: facts about the values of each column, from a bounded sample."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ktx_cli.connectors.port import TableRef
from ktx_cli.connectors.sampling import SampleMethod

FAILED = "profiling failed unexpectedly"
"""The `problem` of a table whose profile a bug of ktx prevented."""

NOT_READ = "its rows are not read: scan.views"
"""The `problem` of a view or foreign table that nobody looked into on purpose."""


class ValueKind(StrEnum):
    """What the values of a column are, whatever its type says: SQLite stores anything anywhere."""

    EMPTY = "empty"
    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    TIME = "time"
    BOOLEAN = "boolean"
    MIXED = "mixed"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """One column of a sample of `rows` rows.

    `distinct` counts values without NULL, None where values cannot be compared. `minimum` and `maximum` are values,
    `shortest` and `longest` lengths of texts in characters. `top`: the most frequent values with their counts.
    `problem`: why the column could not be read; all else is then empty.
    """

    name: str
    kind: ValueKind
    rows: int
    nulls: int = 0
    distinct: int | None = None
    minimum: Any = None
    maximum: Any = None
    shortest: int | None = None
    longest: int | None = None
    top: tuple[tuple[Any, int], ...] = ()
    problem: str | None = None

    @property
    def filled(self) -> int:
        """How many rows of the sample have a value."""
        return self.rows - self.nulls

    @property
    def unique(self) -> bool:
        """Whether no value stands twice in the sample, which has some."""
        return self.distinct is not None and 0 < self.distinct == self.filled


@dataclass(frozen=True, slots=True)
class TableProfile:
    """One table: how it was sampled, and its columns in the table's order.

    `row_count`: rows of the whole table, exact where `exact_count`. `problem`: why there is no sample at all.
    """

    ref: TableRef
    method: SampleMethod
    rows: int
    row_count: int | None
    exact_count: bool
    columns: tuple[ColumnProfile, ...]
    cut_by_bytes: bool = False
    problem: str | None = None

    @property
    def complete(self) -> bool:
        """Whether every row was looked at."""
        return self.method is SampleMethod.ALL and self.problem is None


@dataclass(frozen=True, slots=True)
class SampledTable:
    """A profile with the values it was counted from, for as long as relationships are looked for.

    `counts`: column -> value -> how often; only columns whose values can be compared. `values`: column -> its values,
    row by row, NULL as None. `exact`: columns whose texts are compared letter by letter although others of the
    database are not.
    """

    profile: TableProfile
    counts: dict[str, dict[Any, int]] = field(default_factory=dict, repr=False)
    values: dict[str, list[Any]] = field(default_factory=dict, repr=False)
    exact: frozenset[str] = frozenset()
