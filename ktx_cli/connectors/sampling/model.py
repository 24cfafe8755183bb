"""What a sample is asked for and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class SampleMethod(StrEnum):
    """Which rows a sample holds."""

    ALL = "all"
    BLOCKS = "blocks"
    RANDOM = "random"
    HEAD = "head"


@dataclass(frozen=True, slots=True)
class SampleLimits:
    """At most so many rows, and bytes of values; texts are cut at `text` characters.

    `deadline`, of `core.clock.monotonic`: no statement begins after it.
    """

    rows: int = 10_000
    bytes: int = 64 * 1024 * 1024
    text: int = 256
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows of a table, column by column: `values[i]` are those of `columns[i]`, all lists as long as there are rows.

    `row_count`: the rows of the whole table, exact where `exact_count`, None when nobody knows. `opaque`: columns whose
    values are not read (JSON, geometry, bytes ...), with True for each row where there is a value. `failed`:
    column -> why the database would not give its values. `cut_by_bytes`: more rows would have taken too many bytes.
    """

    columns: tuple[str, ...]
    values: tuple[list[Any], ...]
    rows: int
    method: SampleMethod
    row_count: int | None
    exact_count: bool
    opaque: dict[str, list[bool]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    statements: int = 0
    cut_by_bytes: bool = False

    @property
    def complete(self) -> bool:
        """Whether the sample is the whole table."""
        return self.method is SampleMethod.ALL
