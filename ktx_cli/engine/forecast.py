"""The forecast of a run: how much work its agents would have, and what such work cost in earlier runs, by role."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import KtxError, Record, plural
from ktx_cli.engine.digests import ROLE as DIGEST_ROLE
from ktx_cli.engine.digests import Kept, digest_demand
from ktx_cli.engine.documents.questions import QuestionDemand, question_demand
from ktx_cli.engine.plan import usage_words
from ktx_cli.llm import Usage
from ktx_cli.project import read_state

if TYPE_CHECKING:
    from ktx_cli.engine.plan import RunPlan
    from ktx_cli.engine.work import SourceWork
    from ktx_cli.llm import UsageRow
    from ktx_cli.runs import EarlierUsage

_WRITER: Final = "writer"
_TRIAGE: Final = "triage"
_ONCE: Final = ("curator", "reconcile", "repair")
"""The roles that a run uses as much as the previous run: those that review what was written."""


@dataclass(frozen=True, slots=True)
class RoleEstimate(Record):
    """The expected usage of a role, based on earlier runs. `work`: what it would work on."""

    role: str
    work: str
    usage: Usage
    usd: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the forecast as it appears in a report."""
        return {"role": self.role, "work": self.work, **self.usage.to_json(), "cost_usd": _rounded(self.usd)}


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """The work that agents would have in a run, and its cost in earlier runs.

    `units`: an upper limit, because some documents may not be worth one; each has at most `steps` steps. `documents`
    are triaged first. `tables` get a text in `calls` calls, without an agent; document `sections` and semantic layer
    `sources` get questions. `roles`: empty if nothing is known; `by_units`: the number of units in earlier runs that
    they are based on.
    """

    units: int
    steps: int
    documents: int = 0
    tables: int = 0
    calls: int = 0
    roles: tuple[RoleEstimate, ...] = ()
    by_units: int = 0
    sections: QuestionDemand = field(default_factory=QuestionDemand)
    sources: QuestionDemand = field(default_factory=QuestionDemand)

    @property
    def most_steps(self) -> int:
        """The steps of all units if each used its maximum."""
        return self.units * self.steps

    @property
    def usage(self) -> Usage | None:
        """The tokens of all roles; None if nothing is known."""
        return sum((each.usage for each in self.roles), Usage()) if self.roles else None

    @property
    def usd(self) -> float | None:
        """US dollars at list prices; None if the price of some role is unknown."""
        known = [each.usd for each in self.roles if each.usd is not None]
        return sum(known) if known and len(known) == len(self.roles) else None

    @property
    def summary(self) -> str:
        """The forecast as one human-readable line."""
        parts = [f"{plural(self.units, 'unit')} at most, {plural(self.most_steps, 'step')} at most"]
        if self.tables:
            parts.append(f"texts about {plural(self.tables, 'table')} in {plural(self.calls, 'call')}")
        asked = (("section", "documents", self.sections), ("source", "the semantic layer", self.sources))
        for noun, of, demand in asked:
            if demand.count:
                calls = plural(demand.calls, "call")
                parts.append(f"questions for {plural(demand.count, noun)} of {of} in {calls}")
        bound = "; ".join(parts)
        usage = self.usage
        if usage is None:
            return f"{bound}; the cost is unknown, because no earlier run has processed units"
        usd = "" if self.usd is None else f" and ${self.usd:.2f} at list prices"
        words = usage_words(usage)
        return f"{bound}; about {words}{usd}, based on the average of {plural(self.by_units, 'earlier unit')}"

    def to_json(self) -> dict[str, Any]:
        """Return the forecast as it appears in a report."""
        usage = self.usage
        return {
            "units": self.units,
            "most_steps": self.most_steps,
            "documents": self.documents,
            "tables": self.tables,
            "table_calls": self.calls,
            "sections": self.sections.count,
            "section_calls": self.sections.calls,
            "sources": self.sources.count,
            "source_calls": self.sources.calls,
            "tokens": None if usage is None else usage.total,
            "usage": None if usage is None else usage.to_json(),
            "cost_usd": _rounded(self.usd),
            "by_units": self.by_units,
            "roles": [each.to_json() for each in self.roles],
        }


_NOTHING: Final = QuestionDemand()


def estimate_run(
    plan: RunPlan, works: Sequence[SourceWork], kept: Kept, sources: QuestionDemand = _NOTHING
) -> RunEstimate | None:
    """Return the work that agents would have; None if no model would be called.

    `kept`: which answers an earlier run stored, which costs nothing again. `sources`: the semantic layer sources
    that would get questions.
    """
    from ktx_cli.runs import earlier_usage

    usable = [work for work in works if work.error is None]
    demand = digest_demand(usable, kept, plan.layout.root)
    units = sum(len(work.units) for work in usable) - demand.units
    sections = _sections(plan, usable, kept) if plan.asks_model else QuestionDemand()
    if not plan.asks_model or not (units or demand.units or sections.count or sources.count):
        return None
    documents = sum(len(unit.files) for work in usable if work.source.documents for unit in work.units)
    earlier = earlier_usage(plan.layout)
    calls = demand.calls + sections.calls + sources.calls
    work = {_TRIAGE: (documents, "document"), DIGEST_ROLE: (calls, "call"), _WRITER: (units, "unit")}
    return RunEstimate(
        units,
        plan.config.ingest.work_units.step_budget,
        documents,
        demand.tables,
        demand.calls,
        () if earlier is None else tuple(_by_role(earlier, work, agents=units > 0)),
        0 if earlier is None else earlier.units,
        sections,
        sources,
    )


def _sections(plan: RunPlan, works: Sequence[SourceWork], kept: Kept) -> QuestionDemand:
    """Return the document sections that would get questions."""
    root = plan.layout.root
    try:
        known = read_state(plan.layout, lambda database: question_demand(works, database, kept, root))
    except KtxError:  # the run itself has already warned about it
        known = None
    return question_demand(works, None, kept, root) if known is None else known


def _by_role(earlier: EarlierUsage, work: Mapping[str, tuple[int, str]], *, agents: bool) -> Iterable[RoleEstimate]:
    for role, taken in earlier.roles.items():
        if role in work:
            count, noun = work[role]
            before = earlier.units if role == _WRITER else taken.units
            if count and before:
                yield _scaled(role, plural(count, noun), taken, count / before)
        elif role in _ONCE and agents:
            yield _scaled(role, "the whole run", taken, 1 / earlier.runs)


def _scaled(role: str, work: str, taken: UsageRow, factor: float) -> RoleEstimate:
    usage = taken.usage
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    usd = None if taken.full_usd is None else taken.full_usd * factor
    return RoleEstimate(role, work, Usage(*(round(each * factor) for each in counts)), usd)


def _rounded(usd: float | None) -> float | None:
    return None if usd is None else round(usd, 6)
