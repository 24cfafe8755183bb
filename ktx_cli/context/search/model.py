"""What goes into a search and what comes out of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

KINDS: Final = ("source", "measure", "segment", "page", "column", "passage", "value")
"""What can be found. Of two that fit as well the one that is further in front comes first: what people govern."""

WORTH: Final = {"column": 0.8, "passage": 0.6, "value": 0.8}
"""What a kind counts beside what people govern (1): it has to fit better to come before it."""

BESIDE: Final = 0.25
"""The weight of a text that adds to what is found otherwise, and finds nothing by itself."""


@dataclass(frozen=True, slots=True)
class Field:
    """A text of a document: `weight` is how much more a word in it counts than one in a description (1)."""

    name: str
    text: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Document:
    """Something to find. `id` is how it is asked for, `summary` one sentence about it.

    `order`: which comes first of two that fit as well. `owner`: the user it is for, empty: everybody. `internal`: it is
    for those who ask for it alone. `tags`: those of a page.
    """

    kind: str
    id: str
    connection: str
    summary: str
    fields: tuple[Field, ...]
    order: int = 0
    owner: str = ""
    internal: bool = False
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scope:
    """What is looked among: kinds (none: all), a connection (None: all), what is of everybody and of one `user`.

    A page that belongs to no connection is in the scope of each. A page of the user stands in for everybody's page of
    that name. `internal`: what is internal too. `tag`: only pages that have it.
    """

    kinds: Collection[str] = ()
    connection: str | None = None
    user: str | None = None
    internal: bool = False
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found. `score`: higher fits better, comparable within one search alone.

    `snippet`: the part of its text that the words stand in. `matched_on`: the names of the fields they stand in, and
    `meaning` where its vector is near that of the query.
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
