"""Curates candidates: a curator makes passes over batches within a page budget, and reaches verdicts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ktx_cli.agent_tools import Library, PageBudget, StagedWork, ToolSession, reconcile_prompt, tools_for, wrapped
from ktx_cli.core import ResultWarning, listing, one_line, plural
from ktx_cli.documents import WorkUnit
from ktx_cli.engine.documents.candidates import (
    NO_VERDICT,
    OVER_BUDGET,
    OVER_PASSES,
    PASS_ERROR,
    RUN_ENDED,
    Book,
    Evidence,
    PageCandidate,
    budget_used,
    carry,
    deduplicate,
    mark_tool,
    unique,
)
from ktx_cli.engine.documents.evidence import evidence_tools
from ktx_cli.engine.task import AgentContext, AgentRunner, AgentTask
from ktx_cli.engine.work import SourceWork, UnitOutcome, UnitStatus, actions_of, merge_outcome, store_key, wrote
from ktx_cli.llm import Embedder, LoopResult
from ktx_cli.project import Workspace
from ktx_cli.prompts import Prompt

ROLE: Final = "curator"
BATCH: Final = 8
"""Maximum number of representatives per pass."""

PASSES: Final = 8
STEPS: Final = 60
"""Maximum number of model turns per pass."""

CREATES, UPDATES = 25, 20
"""Maximum number of pages that a run may create or change from one source, unless its settings specify otherwise."""

_MOST_EVIDENCE: Final = 10
_SHOWN_PASSAGES: Final = 2
_EXCERPT: Final = 600


@dataclass(frozen=True, slots=True)
class Pass:
    """One of at most `PASSES` loops over a batch."""

    number: int
    of: int
    batch: tuple[PageCandidate, ...]
    budget: PageBudget
    promoted: tuple[str, ...] = ()
    """The artifacts that earlier passes wrote."""

    @property
    def files(self) -> tuple[str, ...]:
        """The raw files of the pass's candidates, sorted."""
        return tuple(sorted({path for candidate in self.batch for path in candidate.paths}))

    @property
    def unit(self) -> WorkUnit:
        """The pass as a work unit."""
        return WorkUnit(f"curate:{self.number}", f"{plural(len(self.batch), 'candidate')} of documents", self.files)


@dataclass(slots=True)
class Queue:
    """Representatives that wait for a pass, best first."""

    left: list[PageCandidate]
    passes: int = 0
    taken: int = 0
    promoted: list[str] = field(default_factory=list)

    def next(self, budget: PageBudget) -> Pass | None:
        """Return the next pass, or None if there are no more candidates or passes."""
        if not self.left or self.passes == PASSES:
            return None
        batch, self.left = self.left[:BATCH], self.left[BATCH:]
        self.passes += 1
        self.taken += len(batch)
        of = min(PASSES, self.passes + -(-len(self.left) // BATCH))
        return Pass(self.passes, of, tuple(batch), replace(budget), tuple(self.promoted))


@dataclass(slots=True)
class CurationReport:
    """The outcome for the candidates of a source; each candidate has a verdict."""

    passes: int = 0
    examined: int = 0
    """Number of candidates shown to a pass."""
    carried: int = 0
    """Candidates of earlier runs."""
    repeated: int = 0
    """Number of candidates represented by another candidate of this run."""
    candidates: tuple[PageCandidate, ...] = ()
    budget_exhausted: bool = False
    warnings: tuple[ResultWarning, ...] = ()

    def rejections(self) -> dict[str, int]:
        """Return the number of rejected candidates by reason."""
        rejected = (candidate.reason for candidate in self.candidates if candidate.status == "rejected")
        return dict(sorted(Counter(rejected).items()))

    def to_json(self) -> dict[str, Any]:
        """Return the curation's part of a report; conflicts are for a person to decide."""
        return {
            "passes_run": self.passes,
            "topics_examined": self.examined,
            "carried": self.carried,
            "repeated": self.repeated,
            "topics_by_verdict": dict(sorted(Counter(candidate.status for candidate in self.candidates).items())),
            "topics_rejected_by_reason": self.rejections(),
            "budget_exhausted": self.budget_exhausted,
            "candidates": [
                {
                    **{name: getattr(candidate, name) for name in ("key", "topic", "assertion", "status")},
                    "reason": candidate.reason or None,
                    "into": candidate.into or None,
                    "files": list(candidate.paths),
                }
                for candidate in sorted(self.candidates, key=lambda candidate: candidate.rank)
            ],
        }


@dataclass(slots=True)
class Curation:
    """The outcome for the candidates of one source."""

    work: SourceWork
    report: CurationReport = field(default_factory=CurationReport)
    outcomes: list[UnitOutcome] = field(default_factory=list)
    """The curator's passes, as units that were merged or not."""

    @property
    def candidates(self) -> tuple[PageCandidate, ...]:
        """All candidates with their verdicts."""
        return self.report.candidates


@dataclass(frozen=True, slots=True)
class Curator:
    """Curates the candidates of one source after another."""

    context: AgentContext
    runner: AgentRunner
    prompt: Prompt
    embedder: Callable[[], Embedder | None]
    """Creates the comparison of candidates by vectors; None: words are compared."""

    async def curate(
        self,
        workspace: Workspace,
        work: SourceWork,
        candidates: Iterable[PageCandidate],
        earlier: Iterable[PageCandidate],
        merged: Sequence[UnitOutcome],
        stage: StagedWork,
    ) -> Curation:
        """Return the verdict on every candidate; what the passes wrote is in the overlay.

        `earlier`: waiting candidates of earlier runs; `merged`: the units of the run, whose pages count too.
        """
        present = unique(candidates)
        carried = carry(earlier, {candidate.key for candidate in present}, self.context.library)
        everything = [*present, *carried.candidates]
        pending = [candidate for candidate in everything if candidate.status == "pending"]
        distinct = await asyncio.to_thread(deduplicate, pending, self.embedder)
        settled = [*carried.gone, *distinct.merged, *(each for each in everything if each.status != "pending")]
        curation = Curation(work, CurationReport(carried=len(carried.candidates), warnings=distinct.warnings))
        curation.report.repeated = len(distinct.merged)
        settled += await self._passes(workspace, curation, Queue(distinct.left), page_budget(work, merged), stage)
        curation.report.candidates = tuple(sorted(settled, key=lambda candidate: candidate.rank))
        return curation

    async def _passes(
        self, workspace: Workspace, curation: Curation, queue: Queue, budget: PageBudget, stage: StagedWork
    ) -> list[PageCandidate]:
        """Run the passes, and return all candidates in the queue with their verdicts."""
        judged: list[PageCandidate] = []
        report, cancellation = curation.report, self.runner.cancellation
        while not cancellation.is_set and not _is_empty(budget) and (one := queue.next(budget)) is not None:
            outcome = await self.runner.run(self._task(workspace, curation.work, one, stage))
            curation.outcomes.append(outcome)
            if outcome.status is UnitStatus.DONE:
                merge_outcome(workspace, outcome)
                written = (action.identity for action in wrote(outcome) if action.kind != "removed")
                queue.promoted = list(dict.fromkeys((*queue.promoted, *written)))
                judged += (PageCandidate.from_json(stored) for stored in outcome.details["candidates"])
                budget = PageBudget(*outcome.details["budget"])
            else:
                reason = PASS_ERROR if outcome.status is UnitStatus.FAILED else RUN_ENDED
                judged += (candidate.judged("rejected", reason) for candidate in one.batch)
        report.passes, report.examined = queue.passes, queue.taken
        report.budget_exhausted = _is_empty(budget)
        if cancellation.is_set:
            if queue.left:
                curation.outcomes.append(_left(curation.work, queue.left))
            reason = RUN_ENDED
        else:
            reason = OVER_BUDGET if report.budget_exhausted else OVER_PASSES
        return judged + [candidate.judged("rejected", reason) for candidate in queue.left]

    def _task(self, workspace: Workspace, work: SourceWork, one: Pass, stage: StagedWork) -> AgentTask:
        """Return the task for a pass, on its own overlay."""
        library = self.context.library
        session = self.context.open_session(
            workspace.child(),
            raw=work.snapshot.files,
            files=one.files,
            source=work.connection,
            origin=work.name,
            stage=stage,
            citable=library.sources,
            whole_run=True,
        )
        book = Book.of(one.batch, one.promoted)
        session.budget = replace(one.budget)
        session.refs_later = False  # every page either exists already, or is this loop's own to write first
        session.extra = (*evidence_tools(session, library), mark_tool(session, book))

        def judge(outcome: UnitOutcome, result: LoopResult) -> UnitOutcome:
            wrong = self.context.gates.definitions(session.workspace, outcome.changes)
            if wrong:
                reason = f"the definitions written are invalid: {wrong[0]}"
                return UnitOutcome(work.connection, work.kind, one.unit, UnitStatus.FAILED, reason)
            budget = session.budget or one.budget
            candidates = [_with_verdict(candidate, budget) for candidate in book.candidates.values()]
            actions = _with_sources(outcome.actions, candidates, one.files)
            return replace(
                outcome,
                session={**outcome.session, "actions": actions, "merged": _merged(candidates)},
                details={
                    "candidates": [candidate.to_json() for candidate in candidates],
                    "budget": [budget.creates, budget.updates],
                },
            )

        return AgentTask(
            one.unit,
            ROLE,
            prompt=lambda: reconcile_prompt(
                session, self.prompt, stage="curate", skills=work.source.skills, notes=_notes(one, library)
            ),
            tools=lambda: tools_for(session, "curate"),
            step_budget=STEPS,
            connection=work.connection,
            kind=work.kind,
            session=session,
            judge=judge,
            key=self._key(work, one),
            state=_PassState(session, book),
            is_unit=True,
            is_replayable=lambda outcome: not merge_outcome(workspace.child(), outcome),
        )

    def _key(self, work: SourceWork, one: Pass) -> str:
        parts = [
            "curate",
            self.context.version(ROLE),
            self.prompt.version,
            one.number,
            [candidate.to_json() for candidate in one.batch],
            [one.budget.creates, one.budget.updates],
            list(one.promoted),
        ]
        return store_key(work.connection, work.kind, parts)


@dataclass(frozen=True, slots=True)
class _PassState:
    """What a pass has done so far: its session's records, and the verdicts."""

    session: ToolSession
    book: Book

    def state(self) -> dict[str, Any]:
        return {"session": self.session.state(), "candidates": self.book.to_json()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.session.restore(state["session"])
        self.book.restore(state["candidates"])


def _left(work: SourceWork, candidates: Iterable[PageCandidate]) -> UnitOutcome:
    """Return the outcome for candidates that the run had no time for; their documents count as new in the next run."""
    paths = tuple(sorted({path for candidate in candidates for path in candidate.paths}))
    unit = WorkUnit("curate:rest", "candidates of documents", paths)
    return UnitOutcome(work.connection, work.kind, unit, UnitStatus.LEFT, "the run ended before it started")


def _with_verdict(candidate: PageCandidate, budget: PageBudget) -> PageCandidate:
    """Return a candidate that the curator gave no verdict, with the verdict that applies to it."""
    if candidate.status != "pending":
        return candidate
    return candidate.judged("rejected", OVER_BUDGET if budget_used(budget) else NO_VERDICT)


def _with_sources(
    actions: Sequence[Mapping[str, Any]], candidates: Sequence[PageCandidate], files: tuple[str, ...]
) -> list[Mapping[str, Any]]:
    """Return actions with the raw files that the curator named, and those of the candidates that went into them.

    An action without either comes from all files of the pass, so that it is checked when one of them is removed.
    """
    with_paths: list[Mapping[str, Any]] = []
    for action in actions:
        prefix = "wiki:" if action["target"] == "wiki" else f"sl:{action['connection']}/"
        artifact = f"{prefix}{action['key']}"
        paths = {path for candidate in candidates if candidate.into == artifact for path in candidate.paths}
        with_paths.append({**action, "raw_paths": sorted({*action["raw_paths"], *paths}) or list(files)})
    return with_paths


def _merged(candidates: Sequence[PageCandidate]) -> dict[str, list[str]]:
    """Return the artifacts that already contained a candidate -> the raw files that also contain it."""
    paths: dict[str, set[str]] = {}
    for candidate in candidates:
        if candidate.status == "merged":
            paths.setdefault(candidate.into, set()).update(candidate.paths)
    return {artifact: sorted(paths[artifact]) for artifact in sorted(paths)}


def _is_empty(budget: PageBudget) -> bool:
    return max(budget.creates, budget.updates) <= 0


def page_budget(work: SourceWork, merged: Iterable[UnitOutcome]) -> PageBudget:
    """Return how many pages the source's settings still allow, after those that its units wrote.

    A limit under the TypeScript ktx's name takes precedence.
    """
    written = [
        action.kind
        for outcome in merged
        if outcome.source == work.key and outcome.status is UnitStatus.DONE
        for action in actions_of(outcome)
        if action.target == "wiki"
    ]

    creates, older_creates = (
        getattr(work.entry, "max_knowledge_creates", CREATES),
        getattr(work.entry, "max_knowledge_creates_per_run", None),
    )
    updates, older_updates = (
        getattr(work.entry, "max_knowledge_updates", UPDATES),
        getattr(work.entry, "max_knowledge_updates_per_run", None),
    )
    return PageBudget(
        max(0, int(creates if older_creates is None else older_creates) - written.count("created")),
        max(0, int(updates if older_updates is None else older_updates) - written.count("updated")),
    )


def _notes(one: Pass, library: Library) -> str:
    """Return the task for a pass: the state of the curation, what may still be written, and the candidates."""
    left = f"{plural(one.budget.creates, 'new page')} and {plural(one.budget.updates, 'change')} of pages"
    parts = [
        f"This is pass {one.number} of {one.of}. {left} are left in this run's budget: the tools refuse more.",
        f"Written by earlier passes: {listing(one.promoted, 50)}." if one.promoted else "",
        f"{plural(len(one.batch), 'candidate')}, each to be marked:",
        *(_candidate(candidate, library) for candidate in one.batch),
    ]
    return "\n\n".join(part for part in parts if part)


def _candidate(candidate: PageCandidate, library: Library) -> str:
    scores = candidate.scores
    lines = [
        f"topic: {candidate.topic}",
        f"assertion: {candidate.assertion}",
        f"rationale: {candidate.rationale}" if candidate.rationale else "",
        f"page: {candidate.page}" if candidate.page else "",
        f"hint: {candidate.hint}",
        f"score: {scores.promotion} (durability {scores.durability}, authority {scores.authority}, "
        f"reuse {scores.reuse}, novelty {scores.novelty}, risk {scores.risk})",
        *_evidence(candidate.evidence, library),
    ]
    text = "\n".join(line for line in lines if line)
    return f"candidate `{candidate.key}`:\n{wrapped(text, f'a candidate of {candidate.source}')}"


def _evidence(evidence: Sequence[Evidence], library: Library) -> Iterable[str]:
    """Yield a candidate's passages, the first of them with its opening text."""
    for number, each in enumerate(evidence[:_MOST_EVIDENCE]):
        yield f"evidence: {each.key} ({one_line(each.title, 200)}{f', {each.url}' if each.url else ''})"
        passage = library.passage(each.key) if number < _SHOWN_PASSAGES else None
        if passage is not None:
            yield f"  {one_line(passage.text, _EXCERPT)}"
    if len(evidence) > _MOST_EVIDENCE:
        yield f"and {plural(len(evidence) - _MOST_EVIDENCE, 'more passage')}"
