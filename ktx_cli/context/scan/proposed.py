"""The joins a model proposed, as hints: those of now, or those an earlier scan found an edge for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ktx_cli.connectors.port import Table
from ktx_cli.context.scan.describe.joins import ProposedJoin
from ktx_cli.context.scan.knowledge import Knowledge
from ktx_cli.context.scan.relationships.hints import Hint
from ktx_cli.context.scan.relationships.model import Edge

SOURCE: Final = "model"
"""The source of these hints, also among the `sources` of an edge."""

SAID: Final = "proposed by the model"
"""What the reason of such an edge ends in."""


@dataclass(frozen=True, slots=True)
class GivenHints:
    """A source that says what it was given."""

    given: tuple[Hint, ...]

    def hints(self, tables: Sequence[Table]) -> tuple[Hint, ...]:
        """Return all of them."""
        return self.given


def proposed_hints(proposals: Iterable[ProposedJoin]) -> tuple[Hint, ...]:
    """Return a hint for each proposal."""
    return tuple(
        Hint(
            each.join.child, each.join.child_columns, each.join.parent, each.join.parent_columns, SOURCE, each.rationale
        )
        for each in proposals
    )


def recorded_hints(knowledge: Knowledge) -> tuple[Hint, ...]:
    """Return what the model proposed to earlier scans, so that a scan that does not ask it finds the same."""
    return tuple(
        Hint(edge.child, edge.child_columns, edge.parent, edge.parent_columns, SOURCE)
        for edge in (*knowledge.edges, *knowledge.gone)
        if SOURCE in edge.sources
    )


def with_origin(knowledge: Knowledge) -> Knowledge:
    """Return the same with reasons that say of which edges it was the model that proposed them."""
    return replace(knowledge, edges=tuple(map(_with_origin, knowledge.edges)))


def _with_origin(edge: Edge) -> Edge:
    if SOURCE not in edge.sources or SAID in edge.reason:
        return edge
    return replace(edge, reason=f"{edge.reason}; {SAID}" if edge.reason else SAID)
