"""Decision points: conventions that data cannot settle, their readings, and what each makes of a measure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Final


class DecisionKind(StrEnum):
    """What a decision point is about."""

    INTERNAL = "internal"
    """Whether rows of tests, demos or the company itself count."""
    DELETED = "deleted"
    """Whether rows that are marked as deleted count."""
    DUPLICATES = "duplicates"
    """Whether rows that repeat another one in its natural key count."""
    MERGED = "merged"
    """Whether rows that were merged into another row count."""
    STAFF = "staff"
    """Whether people with an address of the company's own domain count."""
    STATUS = "status"
    """Which statuses count."""
    ENTITY = "entity"
    """Which thing is counted: the entity or its parent."""
    AMOUNT = "amount"
    """Which amount is added up: gross or net, with or without tax and discount."""
    UNIT = "unit"
    """Whether amounts are in minor units."""
    CURRENCY = "currency"
    """Whether amounts in several currencies are added up."""
    DATE = "date"
    """Which of several dates a row belongs to."""
    FISCAL_START = "fiscal_start"
    """The month in which the fiscal year begins."""
    NULLS = "nulls"
    """Whether a missing value counts, and as what."""


class DecisionState(StrEnum):
    """How far a decision point is settled."""

    OPEN = "open"
    """Nothing settles it."""
    STATED = "stated"
    """A document, a dbt model or the query history states it, and the definitions do not follow."""
    SETTLED = "settled"
    """The definitions that it touches follow a statement."""
    DECIDED = "decided"
    """A person has answered it."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence or a piece of SQL that says how a convention is. `path`: the file, `line` from 1."""

    text: str
    path: str
    line: int = 1


@dataclass(frozen=True, slots=True)
class Alternative:
    """One reading of a decision point, and how it changes a measure of the point's source.

    `filter`: a condition on rows, in the names of the point's source, which a measure of another source has with the
    path of joins in front. `expr`: another aggregate; `time`: another time column; each for measures of the source
    alone. None of the three: measures stay as they are.
    """

    id: str
    label: str
    filter: str | None = None
    expr: str | None = None
    time: str | None = None

    @property
    def changes(self) -> bool:
        """Whether it changes a measure at all."""
        return not (self.filter is None and self.expr is None and self.time is None)


@dataclass(frozen=True, slots=True)
class DecisionPoint:
    """A convention that measures depend on.

    `id`: stable while the source, the kind and the columns stay. `measures`: references of the measures it is about
    (`source.measure`); empty: every measure of the source, and of sources that reach it by one path of joins.
    `evidence`: what makes it a question, a sentence each. `spreads`: measure -> the largest relative difference between
    two readings, where it was computed.
    """

    id: str
    kind: DecisionKind
    source: str
    columns: tuple[str, ...]
    question: str
    alternatives: tuple[Alternative, ...]
    evidence: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    statements: tuple[Statement, ...] = ()
    state: DecisionState = DecisionState.OPEN
    spreads: Mapping[str, float] = field(default_factory=dict)

    @property
    def spread(self) -> float:
        """The largest relative difference that it makes for a measure, 0 where none was computed."""
        return max(self.spreads.values(), default=0.0)

    def alternative(self, word: str) -> Alternative | None:
        """Return the alternative of an id or a label, None for another word."""
        wanted = word.casefold()
        return next((each for each in self.alternatives if wanted in (each.id.casefold(), each.label.casefold())), None)


@dataclass(frozen=True, slots=True)
class Effect:
    """What a measure is under each reading: alternative -> value, None where it has none.

    `period`: what was computed, such as `2025-06` (the last complete month of the data); None: all rows.
    """

    point: str
    measure: str
    values: Mapping[str, Decimal | None]
    period: str | None = None

    @property
    def spread(self) -> float | None:
        """The largest difference between two readings, relative to the first; None where one of them has no value."""
        known = [value for value in self.values.values() if value is not None]
        if len(known) < len(self.values) or len(known) < 2:
            return None
        base = abs(known[0]) or max(map(abs, known))
        return float((max(known) - min(known)) / base) if base else 0.0


_UNSETTLED: Final = (DecisionState.OPEN, DecisionState.STATED)


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decision points of a connection, in the order of their ids, and the effects that were computed."""

    points: tuple[DecisionPoint, ...] = ()
    effects: tuple[Effect, ...] = ()

    def unsettled(self) -> list[DecisionPoint]:
        """Return the points that nobody has decided and no definition follows, the largest effect first."""
        found = [each for each in self.points if each.state in _UNSETTLED]
        return sorted(found, key=lambda each: (-each.spread, each.id))

    def touching(
        self, measures: Iterable[str], columns: Iterable[tuple[str, str]] = (), reached: Collection[str] = ()
    ) -> list[DecisionPoint]:
        """Return the unsettled points that measures (`source.measure`) or columns (source, column) depend on.

        `reached`: the sources of the measures and those that their rows reach by one path of joins.
        """
        asked, read = set(measures), set(columns)
        homes = {ref.partition(".")[0] for ref in asked}
        return [
            point
            for point in self.unsettled()
            if asked.intersection(point.measures or point.spreads)
            or (not point.measures and not point.spreads and (point.source in homes or point.source in reached))
            or any((point.source, column) in read for column in point.columns)
        ]

    def effects_of(self, point: DecisionPoint) -> list[Effect]:
        """Return what was computed for a point, the largest difference first."""
        found = [each for each in self.effects if each.point == point.id]
        return sorted(found, key=lambda each: (-(each.spread or 0.0), each.measure))
