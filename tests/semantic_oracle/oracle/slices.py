"""Parts of all groups: what a measure is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.semantic_oracle.oracle.frames import Cell


class _Everything:
    """Every value of a dimension."""


EVERYTHING = _Everything()


@dataclass(frozen=True)
class Window:
    """Moments from `start` (None: always) to before `end`; `origin`: where the period begins it is a part of."""

    start: datetime | None
    end: datetime | None
    origin: datetime | None = None

    def holds(self, value: datetime | None) -> bool:
        """Whether a moment is in it."""
        return (
            value is not None and (self.start is None or self.start <= value) and (self.end is None or value < self.end)
        )


@dataclass(frozen=True)
class Slice:
    """A part of all groups: for each dimension a value, `EVERYTHING` or a window; and the time range in force."""

    wanted: tuple[Any, ...]
    window: Window | None

    def takes(self, group: Sequence[Cell]) -> bool:
        """Whether a row's group (further keys behind the dimensions) is in it."""
        return all(fits(wanted, cell) for wanted, cell in zip(self.wanted, group, strict=True))

    def at(self, place: int, wanted: Any) -> Slice:
        """Return the slice with another wish for one dimension, no time range."""
        return Slice((*self.wanted[:place], wanted, *self.wanted[place + 1 :]), None)


def fits(wanted: Any, cell: Cell) -> bool:
    """Whether a dimension's value for a row is what is wanted of it."""
    if wanted is EVERYTHING:
        return True
    if isinstance(wanted, Window):
        return wanted.holds(cell.moment)
    return bool(wanted == cell.value) if wanted is not None else cell.value is None
