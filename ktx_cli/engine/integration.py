"""Brings finished units together: merge in order, reconcile, check, and repair or quarantine what does not fit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ktx_cli.agent_tools import wrapped
from ktx_cli.core import Diagnostic
from ktx_cli.engine.gates import Gates, folder
from ktx_cli.engine.repair import CONFLICT_REPAIR, GATE_REPAIR, Repairer
from ktx_cli.engine.work import Conclusions, Reconciliation, UnitOutcome, UnitStatus, merge_outcome
from ktx_cli.project import SEMANTIC_NAME, Conflict, Workspace, merge_lines

if TYPE_CHECKING:
    from ktx_cli.engine.documents.curation import Curation


@dataclass(frozen=True, slots=True)
class Review:
    """What was decided over a whole run after its units were merged; what it wrote is in the overlay."""

    reconciliation: Reconciliation = field(default_factory=Reconciliation)
    curations: tuple[Curation, ...] = ()
    """What became of the candidates of documents."""


ReviewRun = Callable[[Workspace, Sequence[UnitOutcome]], Awaitable[Review]]
AfterUnits = Callable[[Workspace, Sequence[UnitOutcome]], Conclusions]
"""Lets the sources write what follows from their units."""


@dataclass(frozen=True, slots=True)
class Integration:
    """The agents' part of a run as it lands."""

    workspace: Workspace
    outcomes: list[UnitOutcome]
    review: Review = field(default_factory=Review)
    repaired: tuple[str, ...] = ()
    """What the last gates found wrong and the model corrected."""
    conclusions: Conclusions = field(default_factory=dict)
    """What the sources wrote after their units had landed."""


@dataclass(frozen=True, slots=True)
class Integrator:
    """Brings the units of a run together on one overlay."""

    gates: Gates
    repairer: Repairer
    review: ReviewRun
    after_units: AfterUnits

    async def integrate(self, base: Workspace, outcomes: Sequence[UnitOutcome]) -> Integration:
        """Merge, review and check; a unit that is to blame for what is wrong is quarantined, and the rest begins anew.

        `base` is not changed.
        """
        left, review_run = list(outcomes), self.review
        while True:
            workspace = base.child()
            merged = await self.merge(workspace, left)
            conclusions = self.after_units(workspace, merged)
            review = await review_run(workspace, merged)
            touched = frozenset(workspace.changes())
            found = self.gates.everything(workspace, touched)
            nobody = not review.curations and all(outcome.status is not UnitStatus.DONE for outcome in merged)
            if not found or nobody or await self._repaired(workspace, found, touched):
                return Integration(workspace, merged, review, tuple(map(str, found)), conclusions)
            blamed = _blame(merged, found, conclusions)
            if not blamed and review.reconciliation.problem:  # nobody who is left wrote it: nothing lands
                blamed = {outcome.unit.key: str(found[0]) for outcome in merged}
            elif not blamed:  # the reconciling loop alone brought it: the run lands without that loop
                review_run = _without_review(found)
            left = [
                outcome.failed(UnitStatus.QUARANTINED, f"it leads nowhere: {blamed[outcome.unit.key]}")
                if outcome.unit.key in blamed
                else outcome
                for outcome in merged
            ]

    async def merge(self, workspace: Workspace, outcomes: Iterable[UnitOutcome]) -> list[UnitOutcome]:
        """Return the outcomes as they landed; the overlay then holds those that did, in their order."""
        return [
            await self._land(workspace, outcome) if outcome.status is UnitStatus.DONE else outcome
            for outcome in outcomes
        ]

    async def _land(self, workspace: Workspace, outcome: UnitOutcome) -> UnitOutcome:
        trial = workspace.child()
        conflicts = merge_outcome(trial, outcome)
        problems = await self._resolve(trial, outcome, conflicts) if conflicts else ()
        if problems:
            return outcome.failed(UnitStatus.QUARANTINED, f"it conflicts with what others wrote: {problems[0]}")
        problems = await self._pass_gates(trial, outcome)
        if problems:
            return outcome.failed(UnitStatus.QUARANTINED, f"with what others wrote it is wrong: {problems[0]}")
        workspace.absorb(trial, text_merge=merge_lines)
        return outcome

    async def _resolve(self, trial: Workspace, outcome: UnitOutcome, conflicts: Sequence[Conflict]) -> Sequence[str]:
        """Let the model put both changes into the files; return why it could not."""
        contested = {conflict.path for conflict in conflicts}
        trial.apply({path: content for path, content in outcome.contents.items() if path not in contested})
        before = {path: trial.read(path) for path in contested}

        def unresolved(tree: Workspace) -> Sequence[str]:
            if all(tree.read(path) == content for path, content in before.items()):
                return [str(conflict) for conflict in conflicts]
            return [str(finding) for finding in self.gates.definitions(tree, contested)]

        wanted = "\n\n".join(_wanted(outcome, path) for path in sorted(contested))
        return await self.repairer.repair(trial, CONFLICT_REPAIR, wanted, contested, unresolved)

    async def _pass_gates(self, trial: Workspace, outcome: UnitOutcome) -> Sequence[str]:
        def wrong(tree: Workspace) -> Sequence[str]:
            return [str(finding) for finding in self.gates.definitions(tree, set(outcome.changes))]

        task = "Definitions this unit wrote are wrong beside what is there now."
        return await self.repairer.repair(trial, GATE_REPAIR, task, outcome.changes, wrong)

    async def _repaired(self, workspace: Workspace, found: Sequence[Diagnostic], touched: frozenset[str]) -> bool:
        allowed = {finding.path for finding in found} | {path for path in touched if path.startswith("wiki/")}

        def wrong(tree: Workspace) -> Sequence[str]:
            return [str(finding) for finding in self.gates.everything(tree, frozenset(tree.changes()) | touched)]

        task = "References and definitions of this run lead nowhere or are wrong."
        return not await self.repairer.repair(workspace, GATE_REPAIR, task, allowed, wrong)


def _wanted(outcome: UnitOutcome, path: str) -> str:
    content = outcome.contents[path]
    text = "(deleted)" if content is None else content.decode("utf-8", "replace")
    return f"{path} as the unit `{outcome.unit.key}` wants it:\n{wrapped(text, path)}"


def _without_review(found: Sequence[Diagnostic]) -> ReviewRun:
    async def review(workspace: Workspace, outcomes: Sequence[UnitOutcome]) -> Review:
        return Review(Reconciliation(problem=f"what it wrote leads nowhere: {found[0]}"))

    return review


def _blame(outcomes: Sequence[UnitOutcome], found: Sequence[Diagnostic], conclusions: Conclusions) -> dict[str, str]:
    """Return the units that wrote what is wrong -> the finding.

    Where none wrote it: those that changed the semantic layer of its connection, else those that removed anything.
    """
    landed = [outcome for outcome in outcomes if outcome.status is UnitStatus.DONE]
    blamed = {
        outcome.unit.key: str(finding) for finding in found for outcome in landed if finding.path in outcome.changes
    }
    blamed |= {
        unit: str(each)
        for each in found
        for written in conclusions.values()
        for unit in written.units.get(each.path, ())
    }
    blamed = blamed or _neighbours(landed, found)
    removed = (outcome for outcome in landed if None in outcome.contents.values())
    return blamed or {outcome.unit.key: str(found[0]) for outcome in removed}


def _neighbours(landed: Sequence[UnitOutcome], found: Sequence[Diagnostic]) -> dict[str, str]:
    """Return the units that changed definitions of the connection in which something is wrong -> the finding."""
    return {
        outcome.unit.key: str(finding)
        for finding in found
        if finding.path.startswith(f"{SEMANTIC_NAME}/")
        for outcome in landed
        if any(path.startswith(folder(finding.path.split("/")[1])) for path in outcome.changes)
    }
