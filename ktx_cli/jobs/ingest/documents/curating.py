"""After units are merged and before the run is looked over: candidates of documents go into the wiki, pass by pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ktx_cli.context.documents.candidates import OVER_BUDGET, OVER_PASSES, RUN_ENDED, Candidate, unique
from ktx_cli.context.documents.curation import CREATES, UPDATES, CurationReport, Queue
from ktx_cli.context.documents.deduplication import deduplicate
from ktx_cli.context.documents.waiting import carry
from ktx_cli.context.sources.model import WorkUnit
from ktx_cli.context.tools.session import PageBudget
from ktx_cli.context.tools.stage import Stage
from ktx_cli.jobs.ingest.documents.passes import Passed, Passes
from ktx_cli.jobs.ingest.sources.work import SourceWork
from ktx_cli.jobs.ingest.units.outcome import UnitOutcome, UnitStatus, actions_of, wrote
from ktx_cli.llm.embeddings.port import Embedder
from ktx_cli.project.workspace import Workspace


@dataclass(slots=True)
class Curated:
    """What became of the candidates of one source. `outcomes`: its passes, as units that landed or did not."""

    work: SourceWork
    report: CurationReport = field(default_factory=CurationReport)
    outcomes: list[UnitOutcome] = field(default_factory=list)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """All candidates with their verdicts."""
        return self.report.candidates


@dataclass(frozen=True, slots=True)
class Curator:
    """Curates the candidates of one source after another. `embedder`: who makes vectors, None: words are compared."""

    passes: Passes
    embedder: Callable[[], Embedder | None]

    async def run(
        self,
        workspace: Workspace,
        work: SourceWork,
        candidates: Iterable[Candidate],
        earlier: Iterable[Candidate],
        merged: Sequence[UnitOutcome],
        stage: Stage,
    ) -> Curated:
        """Return the verdict on every candidate; what passes wrote is in the overlay.

        `earlier`: candidates that wait since earlier runs; `merged`: the units of the run, whose pages count too.
        """
        present = unique(candidates)
        carried = carry(earlier, {each.key for each in present}, self.passes.library)
        everything = [*present, *carried.candidates]
        pending = [each for each in everything if each.status == "pending"]
        found = await asyncio.to_thread(deduplicate, pending, self.embedder)
        settled = [*carried.gone, *found.merged, *(each for each in everything if each.status != "pending")]
        curated = Curated(work, CurationReport(carried=len(carried.candidates), warnings=found.warnings))
        curated.report.repeated = len(found.merged)
        queue, budget = Queue(found.left), _budget(work, merged)
        settled += await self._curate(workspace, curated, queue, budget, stage)
        curated.report.candidates = tuple(sorted(settled, key=lambda each: each.rank))
        return curated

    async def _curate(
        self, workspace: Workspace, curated: Curated, queue: Queue, budget: PageBudget, stage: Stage
    ) -> list[Candidate]:
        """Run the passes there are, and return all candidates of the queue with their verdicts."""
        judged: list[Candidate] = []
        report = curated.report
        while not self.passes.stop.is_set and not _is_empty(budget) and (task := queue.next(budget)) is not None:
            passed = await self.passes.run(workspace, curated.work, task, stage)
            self._note(curated, queue, passed)
            judged += passed.candidates
            budget = passed.budget
        report.passes, report.examined = queue.passes, queue.taken
        report.budget_exhausted = _is_empty(budget)
        if self.passes.stop.is_set:
            return judged + self._left(curated, queue)
        reason = OVER_BUDGET if report.budget_exhausted else OVER_PASSES
        return judged + [each.judged("rejected", reason) for each in queue.left]

    def _left(self, curated: Curated, queue: Queue) -> list[Candidate]:
        """Give up what the run had no time for; its documents count as new in the next run."""
        left, queue.left = queue.left, []
        if left:
            paths = tuple(sorted({path for each in left for path in each.paths}))
            unit = WorkUnit("curate:rest", "candidates of documents", paths)
            work = curated.work
            why = "the run ended before it"
            curated.outcomes.append(UnitOutcome(work.connection, work.kind, unit, UnitStatus.LEFT, why))
        return [each.judged("rejected", RUN_ENDED) for each in left]

    @staticmethod
    def _note(curated: Curated, queue: Queue, passed: Passed) -> None:
        curated.outcomes.append(passed.outcome)
        if passed.outcome.status is UnitStatus.DONE:
            written = (each.identity for each in wrote(passed.outcome) if each.kind != "removed")
            queue.promoted = list(dict.fromkeys((*queue.promoted, *written)))


def _is_empty(budget: PageBudget) -> bool:
    return max(budget.creates, budget.updates) <= 0


def _budget(work: SourceWork, merged: Iterable[UnitOutcome]) -> PageBudget:
    """Return how many pages the source's settings leave, without those its units wrote."""
    own = [each for each in merged if (each.connection, each.kind) == (work.connection, work.kind)]
    landed = [action for each in own if each.status is UnitStatus.DONE for action in actions_of(each)]
    wrote = [each.kind for each in landed if each.target == "wiki"]
    creates = int(getattr(work.entry, "max_knowledge_creates", CREATES))
    updates = int(getattr(work.entry, "max_knowledge_updates", UPDATES))
    older_creates = getattr(work.entry, "max_knowledge_creates_per_run", None)
    older_updates = getattr(work.entry, "max_knowledge_updates_per_run", None)
    creates, updates = _first(older_creates, creates), _first(older_updates, updates)
    return PageBudget(max(0, creates - wrote.count("created")), max(0, updates - wrote.count("updated")))


def _first(older: int | None, own: int) -> int:
    """Return a limit by the name the TypeScript ktx has for it, where the file has that; else the one of ours."""
    return own if older is None else older
