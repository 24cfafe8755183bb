"""What agents would have to do: how many units, at most how many steps, and what that cost before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ktx_cli.core.text import plural
from ktx_cli.jobs.runs.averages import UnitAverage, unit_average

if TYPE_CHECKING:
    from ktx_cli.jobs.ingest.running import Run


@dataclass(frozen=True, slots=True)
class Forecast:
    """`units`: at most so many, for documents may be found not to be worth one; each of at most `steps` steps.

    `average`: of the units of earlier runs, None where there are none.
    """

    units: int
    steps: int
    average: UnitAverage | None = None

    @property
    def most_steps(self) -> int:
        """The steps of all units, if each took all it may."""
        return self.units * self.steps

    @property
    def summary(self) -> str:
        """One line for a person."""
        said = f"{plural(self.units, 'unit')} at most, {plural(self.most_steps, 'step')} at most"
        if self.average is None:
            return f"{said}; what that costs is not known, for agents worked on none before"
        usd = "" if self.average.usd is None else f" and ${self.units * self.average.usd:.2f} at list prices"
        tokens = f"about {round(self.units * self.average.tokens):,} tokens{usd}"
        return f"{said}; {tokens}, as {plural(self.average.units, 'unit')} before took on average"

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in a report."""
        known = self.average
        usd = None if known is None or known.usd is None else round(self.units * known.usd, 6)
        return {
            "units": self.units,
            "most_steps": self.most_steps,
            "tokens": None if known is None else round(self.units * known.tokens),
            "cost_usd": usd,
            "by_units": 0 if known is None else known.units,
        }


def forecast(run: Run) -> Forecast | None:
    """Return what agents would have to do in a run whose sources were read; None where no model would be asked."""
    units = sum(len(work.units) for work in run.works if work.error is None)
    if not run.asks_model or not units:
        return None
    return Forecast(units, run.config.ingest.work_units.step_budget, unit_average(run.layout))
