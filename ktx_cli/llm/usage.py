"""Usage facts: the tokens and cost of each unit of model work, with a key that counts it once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.core import Record, isoformat, now
from ktx_cli.llm.types import Cost, Usage
from ktx_cli.project import Layout, StateDatabase, open_for_writing, translated


@dataclass(frozen=True, slots=True)
class UsageFact(Record):
    """The tokens and the cost of one unit: a session of Claude Code, a message of the API.

    `complete` is False if the unit ended before the provider reported its usage.
    """

    run_id: str
    attempt: int
    unit_id: str
    backend: str
    role: str
    command: str
    model: str | None
    usage: Usage
    cost: Cost
    complete: bool = True
    raw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The system that counted."""
        from ktx_cli.llm.registry import kind_of

        return kind_of(self.backend).source

    @property
    def executor_type(self) -> str:
        """What ran the unit."""
        from ktx_cli.llm.registry import kind_of

        return kind_of(self.backend).executor_type

    json_keys = (
        "run_id", "attempt", "usage_unit_id=unit_id", "source", "executor_type", "backend", "role", "command", "model",
        "input_tokens=usage.input_tokens", "output_tokens=usage.output_tokens",
        "cache_read_tokens=usage.cache_read_tokens", "cache_write_tokens=usage.cache_write_tokens",
        "total_tokens=usage.total",
        "cost_usd=cost.usd", "cost_basis=cost.basis", "complete", "raw",
    )  # fmt: skip

    @property
    def idempotency_key(self) -> str:
        """`run_id/attempt/unit_id`: equal for every report of the same unit."""
        return f"{self.run_id}/{self.attempt}/{self.unit_id}"


UsageSink = Callable[[UsageFact], None]


def ignore_usage(fact: UsageFact) -> None:
    """Drop the fact."""


DIMENSIONS: Final = ("day", "role", "model", "backend", "command", "run")
"""The dimensions that usage can be grouped by; `day` is in UTC."""

_EXPRESSIONS: Final = {
    "day": "substr(reported, 1, 10)", "role": "role", "model": "coalesce(model, '')", "backend": "backend",
    "command": "command", "run": "run_id",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The sum over the units of one group. `keys` are the values of the requested dimensions; `unpriced` counts the

    units without a price, which the cost omits.
    """

    keys: tuple[str, ...]
    units: int
    usage: Usage
    cost: Cost
    unpriced: int
    incomplete: int

    @classmethod
    def of(cls, fact: UsageFact, *keys: str) -> UsageRow:
        """Return the row for one unit."""
        return cls(keys, 1, fact.usage, fact.cost, int(fact.cost.usd is None), int(not fact.complete))

    def __add__(self, other: UsageRow) -> UsageRow:
        """Return the sum of two rows with the same keys."""
        known = [each.cost.usd for each in (self, other) if each.cost.usd is not None]
        unpriced = self.unpriced + other.unpriced
        cost = Cost(sum(known), "partial" if unpriced else "list_price") if known else Cost()
        units, incomplete = self.units + other.units, self.incomplete + other.incomplete
        return UsageRow(self.keys, units, self.usage + other.usage, cost, unpriced, incomplete)

    @property
    def full_usd(self) -> float | None:
        """US dollars at list prices; None if some unit has no price."""
        return None if self.unpriced else self.cost.usd

    def to_json(self, dimensions: Sequence[str]) -> dict[str, Any]:
        """Return the row as plain values."""
        return {
            **dict(zip(dimensions, self.keys, strict=True)),
            "calls": self.units,
            **self.usage.to_json(),
            "cost_usd": None if self.cost.usd is None else round(self.cost.usd, 6),
            "cost_basis": self.cost.basis,
            "unpriced_calls": self.unpriced,
            "incomplete_calls": self.incomplete,
        }


class UsageStore:
    """Stores facts in a project's state database; used as a `UsageSink`."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def __call__(self, fact: UsageFact) -> None:
        """Store a fact; a second report of a unit changes nothing."""
        with open_for_writing(self._layout) as database, translated(self._layout.state):
            record_usage(database, fact)


def record_usage(database: StateDatabase, fact: UsageFact) -> None:
    """Store a fact by its idempotency key. A complete report replaces an incomplete one."""
    database.execute(
        """
        INSERT INTO usage VALUES (
            :key, :run_id, :attempt, :usage_unit_id, :reported, :source, :executor_type, :command, :backend, :role,
            :model, :input_tokens, :output_tokens, :cache_read_tokens, :cache_write_tokens, :cost_usd, :cost_basis,
            :complete, :raw
        )
        ON CONFLICT (key) DO UPDATE SET
            model = excluded.model, input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
            cache_read_tokens = excluded.cache_read_tokens, cache_write_tokens = excluded.cache_write_tokens,
            cost_usd = excluded.cost_usd, cost_basis = excluded.cost_basis, complete = 1, raw = excluded.raw
        WHERE usage.complete = 0 AND excluded.complete = 1
        """,
        {
            **fact.to_json(),
            "key": fact.idempotency_key,
            "reported": isoformat(now()),
            "raw": json.dumps(dict(fact.raw), sort_keys=True, default=str),
        },
    )


def usage_by(
    database: StateDatabase, dimensions: Sequence[str], *, since: str = "", run: str | None = None
) -> list[UsageRow]:
    """Return usage summed and sorted by the dimensions.

    `since` is a date or time in ISO format, UTC; `run`: only this run. Raises `ValueError` for an unknown dimension.
    """
    unknown = [name for name in dimensions if name not in _EXPRESSIONS]
    if unknown or not dimensions:
        raise ValueError(f"no such dimension: {', '.join(unknown) or '(none given)'}")
    columns = ", ".join(_EXPRESSIONS[name] for name in dimensions)
    of_run, runs = ("", ()) if run is None else (" AND run_id = ?", (run,))  # as one condition, it would use no index
    rows = database.execute(
        f"""
        SELECT {columns}, count(*), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens),
               sum(cache_write_tokens), sum(cost_usd), count(*) - count(cost_usd), count(*) - sum(complete)
        FROM usage WHERE reported >= ?{of_run} GROUP BY {columns} ORDER BY {columns}
        """,
        (since, *runs),
    )
    return [_row(row, len(dimensions)) for row in rows]


def _row(row: Sequence[Any], keys: int) -> UsageRow:
    units, tokens, dollars, unpriced, incomplete = row[keys], row[keys + 1 : keys + 5], row[-3], row[-2], row[-1]
    cost = Cost() if dollars is None else Cost(round(dollars, 6), "partial" if unpriced else "list_price")
    return UsageRow(tuple(str(key) for key in row[:keys]), units, Usage(*tokens), cost, unpriced, incomplete)


MEASURED_WITH: Final = "2.1.329"
"""The version of the binary that the prices of Claude were read from."""

OPENAI_PRICES_OF: Final = "2026-11-18"
"""The day of the newest publication from which the prices of OpenAI's models were taken: standard processing, caches of
30 minutes. A model whose current price was not found there has none, such as `gpt-5.6-sol` after its promotion.
"""

MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens. `write_5m` and `write_1h` are writes to a cache, by its lifetime."""

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
        """Return the price that applies to a request."""
        prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        if self.beyond is not None and self.limit is not None and prompt > self.limit:
            return self.beyond
        return self.price


def _openai(price: float, output: float, read: float, *, write: float | None = None, long: bool = True) -> Tiers:
    """Return the price of a model of OpenAI; `write`: that of a cache, if it differs from the input's.

    `long`: a request with more than 272,000 prompt tokens costs twice as much, and 1.5 times for the answer.
    """
    written = price if write is None else write
    short = Price(price, output, read, written, written)
    beyond = Price(2 * price, 1.5 * output, 2 * read, 2 * written, 2 * written)
    return Tiers(short, 272_000, beyond) if long else Tiers(short)


_OPENAI: Final[Mapping[str, Tiers]] = {
    "gpt-6.2-sol": _openai(2, 10, 0.1, write=2.5),
    "gpt-6.2-astra": _openai(8, 40, 0.4, write=10),
    "gpt-6.1-sol": _openai(2, 10, 0.1, write=2.5),
    "gpt-6-astra": _openai(10, 50, 1, write=12.5),
    "gpt-6-sol": _openai(2, 10, 0.2, write=2.5),
    "gpt-6-luna": _openai(0.1, 0.5, 0.01, write=0.125),
    "gpt-5.6-terra": _openai(2, 12, 0.2, write=2.5),
    "gpt-5.6-luna": _openai(0.2, 1.2, 0.02, write=0.25),
    "gpt-5.4": _openai(2.5, 15, 0.25),
    "gpt-5.4-mini": _openai(0.75, 4.5, 0.075, long=False),
    "gpt-5.4-nano": _openai(0.2, 1.25, 0.02, long=False),
}

_CLAUDE: Final[Mapping[str, Tiers]] = {
    f"claude-{model}": tiers
    for models, tiers in (
        ("sonnet-5-5", Tiers(Price(2, 10, 0.1, 2.5, 4))),
        ("sonnet-5", Tiers(Price(2, 10, 0.2, 2.5, 4))),
        ("sonnet-4-6 sonnet-4-5 sonnet-4 3-7-sonnet 3-5-sonnet", Tiers(Price(3, 15, 0.3, 3.75, 6))),
        ("opus-5-5", Tiers(Price(4, 20, 0.2, 5, 8))),
        ("opus-5 opus-4-8 opus-4-7 opus-4-6 opus-4-5", Tiers(Price(5, 25, 0.5, 6.25, 10))),
        ("haiku-5-5", Tiers(Price(0.1, 0.5, 0.01, 0.125, 0.2), 100_000, Price(0.5, 2.5, 0.05, 0.625, 1))),
        ("haiku-4-5", Tiers(Price(1, 5, 0.1, 1.25, 2))),
        ("3-5-haiku", Tiers(Price(0.8, 4, 0.08, 1, 1.6))),
        ("fable-5-2 mythos-5-2", Tiers(Price(8, 40, 0.2, 10, 16))),
        ("fable-5-1 mythos-5-1", Tiers(Price(10, 50, 0.25, 12.5, 20))),
        ("fable-5 mythos-5", Tiers(Price(10, 50, 1, 12.5, 20))),
    )
    for model in models.split()
}

GEMINI_PRICES_OF: Final = "2026-10-07"
"""The day of the publication from which the prices of Gemini's models were taken: the paid tier of the Gemini API, text
only. A read from the cache costs a tenth. The prices of `gemini-3.8-flash` hold until 2026-12-31.
"""


def _gemini(price: float, output: float, *, long: float | None = None, long_output: float = 0) -> Tiers:
    """Return the price of a Gemini model; `long`: that of a request with more than 200,000 prompt tokens."""
    short = Price(price, output, price / 10, price, price)
    return Tiers(short) if long is None else Tiers(short, 200_000, Price(long, long_output, long / 10, long, long))


_GEMINI: Final[Mapping[str, Tiers]] = {
    "gemini-3.8-flash": _gemini(0.75, 3.75),
    "gemini-3.5-flash": _gemini(1.5, 9),
    "gemini-3.5-flash-lite": _gemini(0.3, 2.5),
    "gemini-3.1-pro-preview": _gemini(2, 12, long=4, long_output=18),
    "gemini-2.5-pro": _gemini(1.25, 10, long=2.5, long_output=15),
    "gemini-2.5-flash": _gemini(0.3, 2.5),
    "gemini-2.5-flash-lite": _gemini(0.1, 0.4),
}

PRICES: Final[Mapping[str, Tiers]] = {**_CLAUDE, **_OPENAI, **_GEMINI}
"""Price by model id, without its date."""

_SUFFIX: Final = re.compile(r"(?:-0)?(?:-latest|[-@]\d{8}|-\d{4}-\d{2}-\d{2})?(?:-v\d+(?::\d+)?)?(?:\[1m\])?")


def price_of(model: str) -> Tiers | None:
    """Return the price of a model id, dated or not, or None for one without a known price."""
    for name in sorted(PRICES, key=len, reverse=True):
        if model.startswith(name) and _SUFFIX.fullmatch(model, len(name)):
            return PRICES[name]
    return None


def cost_of(backend: str, model: str | None, usage: Usage, *, long_writes: int = 0) -> Cost:
    """Return the cost of one request at list prices; `long_writes` is the number of cache writes kept for an hour.

    The cost is `unknown` on a backend without list prices, and for a model without a known one.
    """
    from ktx_cli.llm.registry import kind_of

    tiers = price_of(model or "") if kind_of(backend).charges_list_prices else None
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
