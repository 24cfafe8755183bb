"""What describing would take, without a question: tables, calls, tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ktx_cli.connectors.port import TableRef
from ktx_cli.context.prompts import Prompt
from ktx_cli.context.scan.describe.describe import open_works
from ktx_cli.context.scan.describe.facts import Described, TableFacts
from ktx_cli.context.scan.describe.packing import Limits, plan_calls
from ktx_cli.context.scan.describe.rendering import estimated_tokens
from ktx_cli.project.config.scan import Privacy


@dataclass(frozen=True, slots=True)
class Estimate:
    """`tables` to describe; `calls` of the model, with about so many `tokens` in the questions."""

    tables: int = 0
    calls: int = 0
    tokens: int = 0

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(self.tables + other.tables, self.calls + other.calls, self.tokens + other.tokens)


def estimate(
    facts: Sequence[TableFacts],
    known: Mapping[TableRef, Described],
    *,
    prompt: Prompt,
    privacy: Privacy,
    limits: Limits | None = None,
) -> Estimate:
    """Return what asking about the tables that are not `known` would take, when every answer is complete."""
    works = open_works(facts, prompt, known, privacy)
    calls = plan_calls([work.sized() for work in works.values()], limits or Limits())
    tokens = sum(piece.tokens for call in calls for piece in call) + len(calls) * estimated_tokens(prompt.text)
    return Estimate(len(works), len(calls), tokens)
