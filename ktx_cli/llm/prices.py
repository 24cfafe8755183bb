"""List prices of the Claude models, for an estimate of what a call of the Messages API cost.

Measured, not remembered: the binary bundled with claude-agent-sdk 0.2.186 (Claude Code 2.1.329) was run offline with
answers that claimed 1,000,000 tokens of one kind, and `costUSD` of its result was read, for the aliases `sonnet`,
`opus`, `haiku`, `fable` and for every full id it knows. An id it has no price for gets that of `claude-sonnet-5-5`
there, a retired one runs as another model; neither is in this table. `claude-haiku-5-5` has two prices: its prompt
tokens (new, read and written) decide, at 100,000 the lower one holds and at 100,001 the upper one.

The surcharge of some Vertex regions is not in these prices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ktx_cli.llm.types import Cost, Usage

MEASURED_WITH: Final = "2.1.329"
"""The version of the binary the prices were read from."""

PRICED_BACKENDS: Final = frozenset({"anthropic", "vertex"})
"""Backends that charge list prices; a gateway has its own, and Claude Code tells its cost itself."""

MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens. `write_5m` and `write_1h` are writes to a cache, by its lifetime."""

    input: float
    output: float
    read: float
    write_5m: float
    write_1h: float


@dataclass(frozen=True, slots=True)
class Tiers:
    """The price of a model, and that of a request with more than `limit` prompt tokens."""

    price: Price
    limit: int | None = None
    beyond: Price | None = None

    def of(self, usage: Usage) -> Price:
        """Return the price that holds for a request."""
        prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        if self.beyond is not None and self.limit is not None and prompt > self.limit:
            return self.beyond
        return self.price


_SONNET_4: Final = Tiers(Price(3, 15, 0.3, 3.75, 6))
_OPUS_4: Final = Tiers(Price(5, 25, 0.5, 6.25, 10))
_FIVE: Final = Tiers(Price(10, 50, 1, 12.5, 20))
_FIVE_1: Final = Tiers(Price(10, 50, 0.25, 12.5, 20))
_FIVE_2: Final = Tiers(Price(8, 40, 0.2, 10, 16))

PRICES: Final[Mapping[str, Tiers]] = {
    "claude-sonnet-5-5": Tiers(Price(2, 10, 0.1, 2.5, 4)),
    "claude-sonnet-5": Tiers(Price(2, 10, 0.2, 2.5, 4)),
    "claude-sonnet-4-6": _SONNET_4,
    "claude-sonnet-4-5": _SONNET_4,
    "claude-sonnet-4": _SONNET_4,
    "claude-3-7-sonnet": _SONNET_4,
    "claude-3-5-sonnet": _SONNET_4,
    "claude-opus-5-5": Tiers(Price(4, 20, 0.2, 5, 8)),
    "claude-opus-5": _OPUS_4,
    "claude-opus-4-8": _OPUS_4,
    "claude-opus-4-7": _OPUS_4,
    "claude-opus-4-6": _OPUS_4,
    "claude-opus-4-5": _OPUS_4,
    "claude-haiku-5-5": Tiers(Price(0.1, 0.5, 0.01, 0.125, 0.2), 100_000, Price(0.5, 2.5, 0.05, 0.625, 1)),
    "claude-haiku-4-5": Tiers(Price(1, 5, 0.1, 1.25, 2)),
    "claude-3-5-haiku": Tiers(Price(0.8, 4, 0.08, 1, 1.6)),
    "claude-fable-5-2": _FIVE_2,
    "claude-fable-5-1": _FIVE_1,
    "claude-fable-5": _FIVE,
    "claude-mythos-5-2": _FIVE_2,
    "claude-mythos-5-1": _FIVE_1,
    "claude-mythos-5": _FIVE,
}
"""Price by model id, without its date."""

_SUFFIX: Final = re.compile(r"(?:-0)?(?:-latest|[-@]\d{8})?(?:-v\d+)?(?:\[1m\])?")


def price_of(model: str) -> Tiers | None:
    """Return the price of a model id, dated or not, None for one without a known price."""
    for name in sorted(PRICES, key=len, reverse=True):
        if model.startswith(name) and _SUFFIX.fullmatch(model, len(name)):
            return PRICES[name]
    return None


def cost_of(backend: str, model: str | None, usage: Usage, *, long_writes: int = 0) -> Cost:
    """Return what one request cost at list prices; `long_writes` of its cache writes are kept for an hour.

    The cost is `unknown` on a backend without list prices, and for a model without a known one.
    """
    tiers = price_of(model or "") if backend in PRICED_BACKENDS else None
    if tiers is None:
        return Cost()
    price = tiers.of(usage)
    dollars = (
        usage.input_tokens * price.input
        + usage.output_tokens * price.output
        + usage.cache_read_tokens * price.read
        + (usage.cache_write_tokens - long_writes) * price.write_5m
        + long_writes * price.write_1h
    )
    return Cost(dollars / MILLION, "list_price")
