"""The last gates of a run: what leads nowhere is repaired, else the units it comes from do not land."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from ktx_cli.context.wiki.model import Finding
from ktx_cli.jobs.ingest.gates import folder
from ktx_cli.jobs.ingest.sources.told import Tellings
from ktx_cli.jobs.ingest.units.merging import Merger
from ktx_cli.jobs.ingest.units.outcome import UnitOutcome, UnitStatus
from ktx_cli.jobs.ingest.units.reconciling import Reconciled
from ktx_cli.jobs.ingest.units.repairing import GATE_STEPS
from ktx_cli.project.layout import SEMANTIC_NAME
from ktx_cli.project.workspace import Workspace

Reconcile = Callable[[Workspace, Sequence[UnitOutcome]], Awaitable[Reconciled]]
Tell = Callable[[Workspace, Sequence[UnitOutcome]], Tellings]


@dataclass(frozen=True, slots=True)
class Settled:
    """The agents' part of a run as it lands. `repaired`: what the last gates found and the model set right.

    `told`: what was written of query histories from what their units said.
    """

    workspace: Workspace
    outcomes: list[UnitOutcome]
    reconciled: Reconciled
    repaired: tuple[str, ...] = ()
    told: Tellings = field(default_factory=dict)


async def settle(
    base: Workspace, outcomes: Sequence[UnitOutcome], merger: Merger, reconcile: Reconcile, tell: Tell
) -> Settled:
    """Merge, reconcile and check; a unit whose work leads nowhere is quarantined, and the rest is put together anew.

    `base` is not changed.
    """
    left = list(outcomes)
    while True:
        workspace = base.child()
        merged = await merger.merge(workspace, left)
        told = tell(workspace, merged)
        reconciled = await reconcile(workspace, merged)
        touched = frozenset(workspace.changes())
        found = merger.gates.everything(workspace, touched)
        nobody = not reconciled.curated and all(each.status is not UnitStatus.DONE for each in merged)
        if not found or nobody or await _repaired(workspace, merger, found, touched):
            said = tuple(str(each) for each in found)
            return Settled(workspace, merged, reconciled, said, told)
        blamed = _blame(merged, found, told)
        if not blamed and reconciled.problem:  # nobody who is left wrote it: nothing of the agents lands
            blamed = {each.unit.key: str(found[0]) for each in merged}
        elif not blamed:  # the reconciling loop alone brought it: the run lands without that loop
            reconcile = _nothing(found)
        left = [
            each.failed(UnitStatus.QUARANTINED, f"it leads nowhere: {blamed[each.unit.key]}")
            if each.unit.key in blamed
            else each
            for each in merged
        ]


async def _repaired(workspace: Workspace, merger: Merger, found: Sequence[Finding], touched: frozenset[str]) -> bool:
    allowed = {finding.path for finding in found} | {path for path in touched if path.startswith("wiki/")}

    def wrong(tree: Workspace) -> Sequence[str]:
        return [str(each) for each in merger.gates.everything(tree, frozenset(tree.changes()) | touched)]

    task = "References and definitions of this run lead nowhere or are wrong."
    return not await merger.tried(workspace, merger.gate_prompt, task, allowed, wrong, GATE_STEPS)


def _blame(outcomes: Sequence[UnitOutcome], found: Sequence[Finding], told: Tellings) -> dict[str, str]:
    """Return the units that wrote what is wrong -> the finding.

    Where none wrote it: those that changed the semantic layer of its connection, else those that removed anything.
    """
    landed = [each for each in outcomes if each.status is UnitStatus.DONE]
    blamed = {each.unit.key: str(finding) for finding in found for each in landed if finding.path in each.changes}
    blamed |= {unit: str(each) for each in found for said in told.values() for unit in said.units.get(each.path, ())}
    blamed |= {} if blamed else _neighbours(landed, found)
    if blamed:
        return blamed
    gone = [each for each in landed if any(change.content is None for change in each.changes.values())]
    return {each.unit.key: str(found[0]) for each in gone}


def _neighbours(landed: Sequence[UnitOutcome], found: Sequence[Finding]) -> dict[str, str]:
    """Return the units that changed definitions of the connection in which something is wrong -> the finding."""
    return {
        each.unit.key: str(finding)
        for finding in found
        for each in landed
        if finding.path.startswith(f"{SEMANTIC_NAME}/")
        and any(path.startswith(folder(finding.path.split("/")[1])) for path in each.changes)
    }


def _nothing(found: Sequence[Finding]) -> Reconcile:
    async def reconcile(workspace: Workspace, outcomes: Sequence[UnitOutcome]) -> Reconciled:
        return Reconciled(problem=f"what it wrote leads nowhere: {found[0]}")

    return reconcile
