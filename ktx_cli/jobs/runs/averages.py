"""What a work unit took on average in earlier runs: all that a cost can honestly be foretold from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ktx_cli.core.errors import KtxError
from ktx_cli.jobs.runs.records import read_report, units_of
from ktx_cli.llm.usage_store import UsageRow, usage_by
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import read_state

ROLE: Final = "candidateExtraction"
"""The role of the agents that work on units."""

MOST_RUNS: Final = 20
"""How many runs back is looked, from the newest."""


@dataclass(frozen=True, slots=True)
class UnitAverage:
    """The average over `units` work units; `usd` at list prices, None where some call has no price."""

    units: int
    tokens: float
    usd: float | None


def unit_average(layout: Layout) -> UnitAverage | None:
    """Return what a unit took in the newest runs that agents worked in; None where nothing is known."""
    try:
        rows = read_state(layout, lambda database: usage_by(database, ("run", "role"))) or []
    except KtxError:  # the run itself has warned of it
        return None
    taken = {row.keys[0]: row for row in rows if row.keys[1] == ROLE}
    worked = {run_id: _worked(layout, run_id) for run_id in sorted(taken, reverse=True)[:MOST_RUNS]}
    return _average([(taken[run_id], units) for run_id, units in worked.items() if units])


def _worked(layout: Layout, run_id: str) -> int:
    """Return how many units a run worked on; those it took from an earlier one cost nothing."""
    units = units_of(read_report(layout, run_id) or {})
    return sum(bool(unit.get("steps")) and not unit.get("replayed") for unit in units)


def _average(runs: list[tuple[UsageRow, int]]) -> UnitAverage | None:
    units = sum(count for _, count in runs)
    if not units:
        return None
    costs = [row.cost.usd for row, _ in runs if row.cost.usd is not None and not row.unpriced]
    usd = sum(costs) / units if len(costs) == len(runs) else None
    return UnitAverage(units, sum(row.usage.total for row, _ in runs) / units, usd)
