"""How deep a scan looks: at the structure, at the rows too, or also with descriptions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from ktx_cli.core import KtxError, ResultWarning, UsageError, UsageSoFar
from ktx_cli.llm import UsageFact, bindings, no_backend
from ktx_cli.project import KtxConfig
from ktx_cli.prompts import Prompt, load_prompt


class Depth(StrEnum):
    """How deep a scan looks."""

    STRUCTURAL = "structural"
    PROFILE = "profile"
    ENRICHED = "enriched"


def choose_depth(config: KtxConfig, wanted: Depth | None, *, no_llm: bool) -> Depth:
    """Return the depth of a run: the wanted one, else `enriched` where `scan.enrichment.mode` and the backend allow it.

    Raises `UsageError` for a depth that nothing in the configuration can serve, `LlmError` (`no_backend`) for one that
    needs a model where none is configured.
    """
    mode = config.scan.enrichment.mode
    has_model = mode == "llm" and bool(bindings(config)) and not no_llm
    if wanted is None:
        return Depth.ENRICHED if mode == "deterministic" or has_model else Depth.PROFILE
    if wanted is Depth.ENRICHED and mode == "none":
        raise UsageError(
            "--depth enriched has nobody to write descriptions: scan.enrichment.mode is `none`",
            hint="ktx config set scan.enrichment.mode deterministic",
        )
    if wanted is Depth.ENRICHED and mode == "llm" and not has_model:
        if no_llm:
            raise UsageError("--depth enriched asks the model, and --no-llm forbids it", hint="leave one of them out")
        raise no_backend()
    return wanted


def needs_model(config: KtxConfig, depth: Depth, *, no_llm: bool) -> bool:
    """Whether a scan of this depth asks the model."""
    return depth is Depth.ENRICHED and config.scan.enrichment.mode == "llm" and not no_llm


def not_enriched(config: KtxConfig) -> ResultWarning | None:
    """Return what to say where a model is to write descriptions and none is configured; None: nothing."""
    if config.scan.enrichment.mode != "llm" or bindings(config):
        return None
    return ResultWarning(
        "not_enriched",
        "nothing is described: scan.enrichment.mode is `llm` and no LLM backend is configured",
        hint="ktx setup --llm-backend claude-code; by rules instead: ktx config set scan.enrichment.mode deterministic",
    )


@dataclass(frozen=True, slots=True)
class Target:
    """A connection to work on."""

    connection: str
    driver: str


@dataclass(frozen=True, slots=True)
class Prompts:
    """What the model is told about its work."""

    describe: Prompt
    propose: Prompt

    @classmethod
    def load(cls, folder: Path) -> Prompts:
        """Return the project's own where `folder` has them; `ConfigError` for one that cannot serve."""
        return cls(load_prompt("describe_tables", folder), load_prompt("propose_joins", folder))


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
