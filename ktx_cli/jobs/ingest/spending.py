"""What a run may spend on models, and whether it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ktx_cli.core.errors import KtxError
from ktx_cli.core.events import UsageSoFar
from ktx_cli.llm.usage import UsageFact

Exceeded = Callable[[KtxError], None]
"""Told once, in the thread of the model calls."""


@dataclass(slots=True)
class Spending:
    """Tokens and US dollars at list prices so far, and the most there may be (None: no limit).

    `unpriced` counts the calls without a price. Such a call uses a limit in dollars up: it could not be kept.
    """

    most_usd: float | None = None
    most_tokens: int | None = None
    usd: float = 0.0
    tokens: int = 0
    unpriced: int = 0
    exceeded: KtxError | None = None
    listeners: list[Exceeded] = field(default_factory=list)

    def add(self, fact: UsageFact) -> None:
        """Count what a call took."""
        self.usd += fact.cost.usd or 0.0
        self.tokens += fact.usage.total
        self.unpriced += fact.cost.usd is None
        said = self._over() or self._unpriced(fact)
        if said is not None and self.exceeded is None:
            self.exceeded = KtxError(
                f"the budget of this run is used up: {said}",
                code="budget",
                hint="run the same command again with a larger budget; finished work is kept",
                details={"usd": round(self.usd, 6), "tokens": self.tokens},
            )
            for listener in self.listeners:
                listener(self.exceeded)

    def so_far(self) -> UsageSoFar:
        """Return what models took until now."""
        return UsageSoFar(self.tokens, round(self.usd, 6), self.unpriced)

    def to_json(self) -> dict[str, Any]:
        """Return what models took, and what they were allowed to."""
        took = {"tokens": self.tokens, "usd": round(self.usd, 6), "unpriced": self.unpriced}
        return {**took, "most_usd": self.most_usd, "most_tokens": self.most_tokens}

    def _unpriced(self, fact: UsageFact) -> str | None:
        """Return why a limit in dollars cannot be kept."""
        if self.most_usd is None or fact.cost.usd is not None:
            return None
        return f"the model `{fact.model}` has no price, so --max-usd cannot be kept; --max-tokens can"

    def _over(self) -> str | None:
        if self.most_tokens is not None and self.tokens >= self.most_tokens:
            return f"{self.tokens:,} of {self.most_tokens:,} tokens"
        if self.most_usd is not None and self.usd >= self.most_usd:
            return f"${self.usd:.2f} of ${self.most_usd:.2f} at list prices"
        return None
