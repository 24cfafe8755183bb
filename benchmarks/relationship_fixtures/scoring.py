"""Scores an answer against the truth of a fixture, exactly: case and column order count, a composite key is one.

precision = |accepted ∩ truth| / |accepted|, recall = |accepted ∩ truth| / |truth|, 1 where nothing could be wrong
(0/0); F1 is their harmonic mean. Review recall counts what was accepted or put up for review.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks.relationship_fixtures.rewriting import open_read_only
from benchmarks.relationship_fixtures.truth import PrimaryKey, Reference, Truth
from benchmarks.relationship_fixtures.writing import quoted


@dataclass(frozen=True, slots=True)
class Edge:
    """A link that is shown, accepted or for review, with its probability and the child's rows it rests on."""

    link: Reference
    probability: float
    rows: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What discovery found in one database; `reasons` says why, for the links it names.

    `few`: the tables with at most one row, whose keys are guesses.
    """

    primary_keys: frozenset[PrimaryKey]
    accepted: frozenset[Reference]
    review: frozenset[Reference] = frozenset()
    reasons: tuple[tuple[Reference, str], ...] = ()
    queries: int = 0
    seconds: float = 0.0
    edges: tuple[Edge, ...] = ()
    few: frozenset[str] = frozenset()
    calls: int = 0
    """The number of calls in which a model would be asked about the undecided columns."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Counts of one comparison and the rates they give."""

    found: int
    claimed: int
    wanted: int

    @property
    def precision(self) -> float:
        """The share of what was claimed that is true; 1 when nothing was claimed."""
        return self.found / self.claimed if self.claimed else 1.0

    @property
    def recall(self) -> float:
        """The share of the truth that was claimed; 1 when there is none."""
        return self.found / self.wanted if self.wanted else 1.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both; 0 when both are 0."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    def __add__(self, other: Rates) -> Rates:
        return Rates(self.found + other.found, self.claimed + other.claimed, self.wanted + other.wanted)


@dataclass(frozen=True, slots=True)
class Score:
    """How an answer did; the sets name what was wrong and what was missed."""

    links: Rates
    keys: Rates
    review_recall: float
    wrong_links: tuple[Reference, ...]
    missed_links: tuple[Reference, ...]
    wrong_keys: tuple[PrimaryKey, ...]
    missed_keys: tuple[PrimaryKey, ...]


def score(truth: Truth, answer: Answer, *, silent: frozenset[Reference] = frozenset()) -> Score:
    """Compare an answer with the truth; links in `silent` and optional ones count on neither side."""
    ignored = silent | (truth.optional - frozenset(truth.links))
    wanted = frozenset(truth.links) - silent
    accepted, review = answer.accepted - ignored, answer.review - ignored
    keys = frozenset(truth.primary_keys)
    links = rates(accepted, wanted)
    return Score(
        links,
        rates(answer.primary_keys, keys),
        rates(accepted | review, wanted).recall,
        tuple(sorted(accepted - wanted)),
        tuple(sorted(wanted - accepted)),
        tuple(sorted(answer.primary_keys - keys)),
        tuple(sorted(keys - answer.primary_keys)),
    )


def rates(claimed: frozenset[Hashable], wanted: frozenset[Hashable]) -> Rates:
    """Compare two sets."""
    return Rates(len(claimed & wanted), len(claimed), len(wanted))


def silent_links(fixture: Path, truth: Truth) -> frozenset[Reference]:
    """Return the true links whose rows cannot show them: marked so, or no row of the child has all its columns."""
    with closing(open_read_only(fixture)) as connection:
        empty = {link for link in truth.links if not _has_values(connection, link)}
    return truth.unconfirmable | empty


def _has_values(connection: sqlite3.Connection, link: Reference) -> bool:
    present = " AND ".join(f"{quoted(column)} IS NOT NULL" for column in link.child_columns)
    found = connection.execute(f"SELECT 1 FROM {quoted(link.child)} WHERE {present} LIMIT 1").fetchone()
    return found is not None
