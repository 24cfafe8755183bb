"""What goes into a search and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Field:
    """A text of a document: `weight` is how much more a word in it counts than one in a description (1)."""

    name: str
    text: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Document:
    """Something to find. `id` is how it is asked for, `summary` one sentence about it.

    `order`: which comes first of two that fit as well.
    """

    kind: str
    id: str
    connection: str
    summary: str
    fields: tuple[Field, ...]
    order: int = 0


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found. `score`: higher fits better, comparable within one search alone.

    `snippet`: the part of its text that the words stand in. `matched_on`: the names of the fields they stand in.
    """

    kind: str
    id: str
    connection: str
    score: float
    summary: str
    snippet: str
    matched_on: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the hit as it stands in an envelope."""
        return {
            "kind": self.kind,
            "id": self.id,
            "connection": self.connection,
            "score": round(self.score, 4),
            "summary": self.summary,
            "snippet": self.snippet,
            "matched_on": list(self.matched_on),
        }


@dataclass(frozen=True, slots=True)
class Found:
    """The hits of a search, best first; `corrected`: words nothing has, and what was looked for in place of them.

    `total`: how many there are, also beyond the limit.
    """

    hits: tuple[Hit, ...]
    total: int = 0
    corrected: Mapping[str, str] = field(default_factory=dict)
