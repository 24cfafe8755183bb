"""The documents of a run from sorting to verdicts: what the agents' part of a run calls, and in which order."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ktx_cli.context.documents.candidates import Candidate
from ktx_cli.context.documents.library import Library
from ktx_cli.context.documents.waiting import keep_waiting, waiting
from ktx_cli.context.sources.model import WorkUnit
from ktx_cli.core.errors import ResultWarning
from ktx_cli.jobs.ingest.documents.curating import Curated, Curator
from ktx_cli.jobs.ingest.documents.lanes import DocumentLanes, Sorter, is_of_documents, library_of
from ktx_cli.jobs.ingest.sources.work import SourceWork
from ktx_cli.jobs.ingest.units.outcome import UnitOutcome, UnitStatus
from ktx_cli.jobs.ingest.units.reconciling import stage_of
from ktx_cli.project.workspace import Workspace

Of = tuple[str, str]
"""Connection and kind of a source."""


@dataclass(slots=True)
class Documents:
    """The sources of documents of a run. `earlier`: candidates that wait since earlier runs."""

    works: Sequence[SourceWork]
    earlier: Mapping[Of, Sequence[Candidate]]
    library: Library
    lanes: dict[Of, DocumentLanes] = field(default_factory=dict)

    @classmethod
    def of(cls, works: Iterable[SourceWork], database: sqlite3.Connection) -> Documents:
        """Return the documents of a run's sources."""
        own = [work for work in works if is_of_documents(work)]
        return cls(own, {_of(work): waiting(database, *_of(work)) for work in own}, library_of(own))

    async def sort(self, sorter: Sorter) -> None:
        """Sort what changed, and leave every source the units that stay."""
        for each in await sorter.sort(self.works):
            self.lanes[_of(each.work)] = each
            each.work.units = each.units

    async def curate(
        self, curator: Curator, workspace: Workspace, merged: Sequence[UnitOutcome]
    ) -> tuple[Curated, ...]:
        """Curate the candidates of every source that has any; what is written is in the overlay."""
        found: list[Curated] = []
        for work in self.works:
            own, earlier = self._candidates(work), self.earlier.get(_of(work), ())
            if own or earlier:
                before = [*merged, *(outcome for each in found for outcome in each.outcomes)]
                found.append(await curator.run(workspace, work, own, earlier, merged, stage_of(before, {})))
        return tuple(found)

    def outcomes(self, curated: Iterable[Curated]) -> list[UnitOutcome]:
        """Return the passes as units of their sources.

        `curated`: what landed. Where that of a source did not, its documents with candidates count as new.
        """
        landed = {_of(each.work): each for each in curated}
        found = [outcome for each in landed.values() for outcome in each.outcomes]
        return found + [self._left(work) for work in self.works if _of(work) not in landed and self._candidates(work)]

    def skipped(self, work: SourceWork) -> Mapping[str, str]:
        """Return the files of a source that were found not to be worth work -> why."""
        lanes = self.lanes.get(_of(work))
        return {} if lanes is None else lanes.skipped

    def warnings(self, curated: Iterable[Curated]) -> list[ResultWarning]:
        """Return what went wrong without harm."""
        found = [warning for each in self.lanes.values() for warning in each.warnings]
        return found + [warning for each in curated for warning in each.report.warnings]

    def to_json(self, curated: Iterable[Curated]) -> list[dict[str, Any]]:
        """Return the part of the report: for each source its lanes, and what became of its candidates."""
        reports = {_of(each.work): each.report.to_json() for each in curated}
        return [
            {
                "connection": work.connection,
                "kind": work.kind,
                "lanes": lanes.to_json() if (lanes := self.lanes.get(_of(work))) else None,
                "curation": reports.get(_of(work)),
            }
            for work in self.works
        ]

    def _candidates(self, work: SourceWork) -> tuple[Candidate, ...]:
        lanes = self.lanes.get(_of(work))
        return () if lanes is None else lanes.candidates

    def _left(self, work: SourceWork) -> UnitOutcome:
        paths = tuple(sorted({path for each in self._candidates(work) for path in each.paths}))
        unit = WorkUnit("curate", "candidates of documents", paths)
        return UnitOutcome(work.connection, work.kind, unit, UnitStatus.LEFT, "its candidates were not decided on")


def remember_waiting(database: sqlite3.Connection, curated: Iterable[Curated]) -> None:
    """Keep the candidates a landed run had no room for; the caller has a transaction."""
    for each in curated:
        keep_waiting(database, *_of(each.work), each.candidates)


def _of(work: SourceWork) -> Of:
    return work.connection, work.kind
