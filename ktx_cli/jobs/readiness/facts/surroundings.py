"""What people look at beside readiness: context in numbers, index, embeddings, git, agent clients, server."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ktx_cli.jobs.readiness.facts.clients import ClientFacts, client_facts
from ktx_cli.jobs.readiness.facts.connections import ConnectionStatus
from ktx_cli.jobs.readiness.facts.embeddings import EmbeddingFacts, embedding_facts
from ktx_cli.jobs.readiness.facts.git import GitFacts, git_facts
from ktx_cli.jobs.readiness.facts.index import FIX, IndexFacts, index_facts
from ktx_cli.jobs.readiness.model import CheckContext, Finding


@dataclass(frozen=True, slots=True)
class Surroundings:
    """All of it."""

    index: IndexFacts
    embeddings: EmbeddingFacts
    git: GitFacts
    clients: ClientFacts

    @property
    def findings(self) -> list[Finding]:
        """What stands among the checks."""
        return [self.embeddings.finding]

    @property
    def next_command(self) -> str | None:
        """The command that brings the index up to date, None where it is."""
        return None if self.index.state == "current" else FIX

    def to_json(self, connections: Iterable[ConnectionStatus]) -> dict[str, Any]:
        """Return the facts as they stand in the envelope."""
        return {
            "context": context_counts(connections, self.index.pages),
            "index": self.index.to_json(),
            "embeddings": self.embeddings.to_json(),
            "git": self.git.to_json(),
            **self.clients.to_json(),
        }


def context_counts(connections: Iterable[ConnectionStatus], pages: int) -> dict[str, int]:
    """Return how much context the project has in all."""
    counts = [each.counts for each in connections]
    return {
        "sources": sum(each.sources + each.own_sources for each in counts),
        "columns": sum(each.columns for each in counts),
        "measures": sum(each.measures for each in counts),
        "joins": sum(each.joins for each in counts),
        "wiki_pages": pages,
    }


def surroundings_of(context: CheckContext) -> Surroundings:
    """Look at all of it; nothing is written."""
    return Surroundings(
        index_facts(context.layout, context.loaded.config),
        embedding_facts(context),
        git_facts(lambda: context.repository),
        client_facts(context.layout, context.environ),
    )
