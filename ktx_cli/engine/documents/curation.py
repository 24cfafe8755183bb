"""What a curator is shown of candidates, in which batches, and what is told of its verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ktx_cli.agent_tools import Library, PageBudget, TaskPrompt, ToolSession, reconcile_prompt, wrapped
from ktx_cli.core import ResultWarning, listing, one_line, plural
from ktx_cli.engine.documents.candidates import Candidate, Evidence
from ktx_cli.prompts import Prompt, for_stage

BATCH: Final = 8
"""Representatives of a pass."""

PASSES: Final = 8
STEPS: Final = 60
"""Model turns of a pass."""

CREATES, UPDATES = 25, 20
"""Pages a run may create and change from one source, where its settings say nothing else."""

_MOST_EVIDENCE: Final = 10
_SHOWN_PASSAGES: Final = 2
_EXCERPT: Final = 600


@dataclass(frozen=True, slots=True)
class Pass:
    """One of at most `PASSES` loops over a batch. `promoted`: artifacts that passes before it wrote."""

    number: int
    of: int
    batch: tuple[Candidate, ...]
    budget: PageBudget
    promoted: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The raw files its candidates stand in, sorted."""
        return tuple(sorted({path for each in self.batch for path in each.paths}))


@dataclass(slots=True)
class CurationReport:
    """What became of the candidates of a source; each has a verdict.

    `carried`: candidates of earlier runs among them. `examined`: those a pass was shown. `repeated`: those another one
    of this run stood for.
    """

    passes: int = 0
    examined: int = 0
    carried: int = 0
    repeated: int = 0
    candidates: tuple[Candidate, ...] = ()
    budget_exhausted: bool = False
    warnings: tuple[ResultWarning, ...] = ()

    def verdicts(self) -> dict[str, int]:
        """Return verdict -> how many candidates have it."""
        return dict(sorted(Counter(each.status for each in self.candidates).items()))

    def rejections(self) -> dict[str, int]:
        """Return reason -> how many candidates were rejected for it."""
        return dict(sorted(Counter(each.reason for each in self.candidates if each.status == "rejected").items()))

    def to_json(self) -> dict[str, Any]:
        """Return its part of a report; conflicts are for a person to decide."""
        return {
            "passes_run": self.passes,
            "topics_examined": self.examined,
            "carried": self.carried,
            "repeated": self.repeated,
            "topics_by_verdict": self.verdicts(),
            "topics_rejected_by_reason": self.rejections(),
            "budget_exhausted": self.budget_exhausted,
            "candidates": [_told(each) for each in sorted(self.candidates, key=lambda each: each.rank)],
        }


def _told(candidate: Candidate) -> dict[str, Any]:
    return {
        "key": candidate.key,
        "topic": candidate.topic,
        "assertion": candidate.assertion,
        "status": candidate.status,
        "reason": candidate.reason or None,
        "into": candidate.into or None,
        "files": list(candidate.paths),
    }


def curate_prompt(
    session: ToolSession, prompt: Prompt, task: Pass, library: Library, skills: Sequence[str] = ()
) -> TaskPrompt:
    """Return the prompts of a pass; raises as `reconcile_prompt`."""
    listed = (f"- `{each.name}`: {each.description}" for each in for_stage(session.skills.values(), "curate"))
    filled = replace(prompt, text=prompt.text.replace("{{skills}}", "\n".join(listed) or "- none"))
    return reconcile_prompt(session, filled, skills=skills, notes=notes(task, library))


def notes(task: Pass, library: Library) -> str:
    """Return what a pass is about: how far the curation is, what may still be written, its candidates."""
    left = f"{plural(task.budget.creates, 'new page')} and {plural(task.budget.updates, 'change')} of pages"
    parts = [
        f"This is pass {task.number} of {task.of}. {left} are left of the budget of this run: the tools refuse more.",
        f"Written by passes before it: {listing(task.promoted, 50)}." if task.promoted else "",
        f"{plural(len(task.batch), 'candidate')}, each to be marked:",
        *(_candidate(each, library) for each in task.batch),
    ]
    return "\n\n".join(part for part in parts if part)


def _candidate(candidate: Candidate, library: Library) -> str:
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
    """Yield the passages a candidate stands in, the first of them with how they begin."""
    for number, each in enumerate(evidence[:_MOST_EVIDENCE]):
        yield f"evidence: {each.key} ({one_line(each.title, 200)}{f', {each.url}' if each.url else ''})"
        passage = library.passage(each.key) if number < _SHOWN_PASSAGES else None
        if passage is not None:
            yield f"  {one_line(passage.text, _EXCERPT)}"
    if len(evidence) > _MOST_EVIDENCE:
        yield f"and {plural(len(evidence) - _MOST_EVIDENCE, 'more passage')}"


@dataclass(slots=True)
class Queue:
    """Representatives that wait for a pass, best first."""

    left: list[Candidate]
    passes: int = 0
    taken: int = 0
    promoted: list[str] = field(default_factory=list)

    def next(self, budget: PageBudget) -> Pass | None:
        """Return the next pass; None where there is nothing left, or no pass."""
        if not self.left or self.passes == PASSES:
            return None
        batch, self.left = self.left[:BATCH], self.left[BATCH:]
        self.passes += 1
        self.taken += len(batch)
        of = min(PASSES, self.passes + -(-len(self.left) // BATCH))
        return Pass(self.passes, of, tuple(batch), replace(budget), tuple(self.promoted))
