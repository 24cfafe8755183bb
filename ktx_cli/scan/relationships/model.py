"""What the search for relationships returns: keys, edges and how sure each of them is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ktx_cli.warehouses import TableRef


class EdgeStatus(StrEnum):
    """What becomes of an edge: it is a join, a person has to look, or it is none."""

    ACCEPTED = "accepted"
    REVIEW = "review"
    REJECTED = "rejected"


class Cardinality(StrEnum):
    """How many rows of the child meet one of the parent."""

    MANY_TO_ONE = "many_to_one"
    ONE_TO_ONE = "one_to_one"


@dataclass(frozen=True, slots=True)
class Check:
    """What the rows say of an edge: of `rows` rows with a value, `missing` find none in the parent.

    `exact`: all rows were looked at, not only the sample.
    """

    rows: int
    missing: int
    exact: bool

    @property
    def violations(self) -> float:
        """The share of rows that find nothing, 0 to 1; 0 where there are no rows."""
        return self.missing / self.rows if self.rows else 0.0


@dataclass(frozen=True, slots=True)
class Edge:
    """A reference from columns of one table to a key of another.

    `score`: the probability that it is meant, 0 to 1. `reason`: one line for a person. `sources`: where it came from
    (`names`, `values`, `view`, `model` ...). `condition`: for a column that refers to several tables, the column and
    the value that make it refer to this one.
    """

    child: TableRef
    child_columns: tuple[str, ...]
    parent: TableRef
    parent_columns: tuple[str, ...]
    status: EdgeStatus
    score: float
    reason: str
    cardinality: Cardinality = Cardinality.MANY_TO_ONE
    sources: tuple[str, ...] = ()
    check: Check | None = None
    condition: tuple[str, Any] | None = None
    features: dict[str, float] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class KeyChoice:
    """A table's primary key, and its other unique sets. `declared`: the database says so; else `score` of it."""

    primary: tuple[str, ...]
    declared: bool
    score: float = 1.0
    alternates: tuple[tuple[str, ...], ...] = ()
    confirmed: bool = True
    """Whether all rows were looked at."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """All that was found. `queries`: statements sent, the samples' among them."""

    keys: dict[TableRef, KeyChoice]
    edges: tuple[Edge, ...]
    queries: int = 0
    problems: tuple[str, ...] = ()

    @property
    def primary_keys(self) -> dict[TableRef, tuple[str, ...]]:
        """Table -> its primary key, declared or predicted."""
        return {ref: choice.primary for ref, choice in self.keys.items() if choice.primary}

    def accepted(self) -> tuple[Edge, ...]:
        """Return the edges that are joins."""
        return tuple(edge for edge in self.edges if edge.status is EdgeStatus.ACCEPTED)
