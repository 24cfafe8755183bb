"""Usage facts in the state database: each unit once, however often it is reported, and sums of them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.core.clock import isoformat, now
from ktx_cli.llm.types import Cost, Usage
from ktx_cli.llm.usage import UsageFact
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import open_for_writing, translated

DIMENSIONS: Final = ("day", "role", "model", "backend", "command", "run")
"""What usage can be summed by; `day` is that of UTC."""

_EXPRESSIONS: Final = {
    "day": "substr(reported, 1, 10)",
    "role": "role",
    "model": "coalesce(model, '')",
    "backend": "backend",
    "command": "command",
    "run": "run_id",
}


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The sum over the units of one group. `keys` are the values of the dimensions asked for; `unpriced` counts the
    units without a price: the cost leaves them out."""

    keys: tuple[str, ...]
    units: int
    usage: Usage
    cost: Cost
    unpriced: int
    incomplete: int

    def to_json(self, dimensions: Sequence[str]) -> dict[str, Any]:
        """Return the row as plain values."""
        return {
            **dict(zip(dimensions, self.keys, strict=True)),
            "calls": self.units,
            **self.usage.to_json(),
            "cost_usd": self.cost.usd,
            "cost_basis": self.cost.basis,
            "unpriced_calls": self.unpriced,
            "incomplete_calls": self.incomplete,
        }


class UsageStore:
    """Keeps facts in a project's state database; made for use as a `UsageSink`."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def __call__(self, fact: UsageFact) -> None:
        """Store a fact; the second report of a unit changes nothing."""
        with open_for_writing(self._layout) as database, translated(self._layout.state):
            record_usage(database, fact)


def record_usage(database: sqlite3.Connection, fact: UsageFact) -> None:
    """Store a fact by its idempotency key. A complete report replaces an incomplete one."""
    database.execute(
        """
        INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (key) DO UPDATE SET
            model = excluded.model, input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
            cache_read_tokens = excluded.cache_read_tokens, cache_write_tokens = excluded.cache_write_tokens,
            cost_usd = excluded.cost_usd, cost_basis = excluded.cost_basis, complete = 1, raw = excluded.raw
        WHERE usage.complete = 0 AND excluded.complete = 1
        """,
        (
            fact.idempotency_key,
            fact.run_id,
            fact.attempt,
            fact.unit_id,
            isoformat(now()),
            fact.source,
            fact.executor_type,
            fact.command,
            fact.backend,
            fact.role,
            fact.model,
            fact.usage.input_tokens,
            fact.usage.output_tokens,
            fact.usage.cache_read_tokens,
            fact.usage.cache_write_tokens,
            fact.cost.usd,
            fact.cost.basis,
            int(fact.complete),
            json.dumps(dict(fact.raw), sort_keys=True, default=str),
        ),
    )


def usage_by(
    database: sqlite3.Connection, dimensions: Sequence[str], *, since: str = "", run: str | None = None
) -> list[UsageRow]:
    """Return the sums by the dimensions, sorted by them.

    `since` is a date or time in ISO form, UTC; `run`: of this run alone. Raises `ValueError` for a
    dimension there is none of.
    """
    unknown = [name for name in dimensions if name not in _EXPRESSIONS]
    if unknown or not dimensions:
        raise ValueError(f"no such dimension: {', '.join(unknown) or '(none given)'}")
    columns = ", ".join(_EXPRESSIONS[name] for name in dimensions)
    rows = database.execute(
        f"""
        SELECT {columns}, count(*), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens),
               sum(cache_write_tokens), sum(cost_usd), sum(cost_usd IS NULL), sum(complete = 0)
        FROM usage WHERE reported >= ? AND (? IS NULL OR run_id = ?) GROUP BY {columns} ORDER BY {columns}
        """,
        (since, run, run),
    )
    return [_row(row, len(dimensions)) for row in rows]


def _row(row: Sequence[Any], keys: int) -> UsageRow:
    units, tokens, dollars, unpriced, incomplete = row[keys], row[keys + 1 : keys + 5], row[-3], row[-2], row[-1]
    cost = Cost() if dollars is None else Cost(round(dollars, 6), "partial" if unpriced else "list_price")
    return UsageRow(tuple(str(key) for key in row[:keys]), units, Usage(*tokens), cost, unpriced, incomplete)
