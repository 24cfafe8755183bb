"""Between planning and running units: which documents are worth an agent, and which facts the light ones have."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ktx_cli.agent_tools import Library, Place
from ktx_cli.core import (
    Emit,
    KtxError,
    ResultWarning,
    StepFinished,
    StepProgress,
    StepStarted,
    ignore_events,
    monotonic,
    plural,
)
from ktx_cli.documents import Document, WorkUnit
from ktx_cli.documents import UnreadableDocumentError as Unreadable
from ktx_cli.engine.documents.candidates import Candidate, keep_waiting, waiting
from ktx_cli.engine.documents.passes import Curator
from ktx_cli.engine.documents.questions import AT_ONCE, Asking, DocumentPrompts, Tally
from ktx_cli.engine.documents.triage import Extraction, Lane, Sorted, Triage, extract, triage
from ktx_cli.engine.integration import stage_of
from ktx_cli.engine.task import Stop
from ktx_cli.engine.work import Curated, SourceWork, UnitOutcome, UnitStatus
from ktx_cli.llm import LlmRuntime
from ktx_cli.project import EnrichmentStore, Workspace


@dataclass(frozen=True, slots=True)
class DocumentLanes:
    """The changed documents of one source in their lanes.

    `units`: those that stay, with the files of the full lane alone. `skipped`: path -> why it is not worth work.
    """

    work: SourceWork
    units: tuple[WorkUnit, ...] = ()
    skipped: dict[str, str] = field(default_factory=dict)
    light: tuple[str, ...] = ()
    full: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    triage: Tally = field(default_factory=Tally)
    extraction: Tally = field(default_factory=Tally)
    warnings: tuple[ResultWarning, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the source's part of a report."""
        return {
            "skipped": [{"path": path, "reason": reason} for path, reason in sorted(self.skipped.items())],
            "light": list(self.light),
            "full": list(self.full),
            "candidates": len(self.candidates),
            "triage": self.triage.to_json(),
            "extraction": self.extraction.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Sorter:
    """What sorting documents needs. `at_once`: questions at the same time."""

    runtime: LlmRuntime
    store: EnrichmentStore
    library: Library
    prompts: DocumentPrompts
    stop: Stop
    at_once: int = AT_ONCE
    emit: Emit = ignore_events

    async def sort(self, works: Iterable[SourceWork]) -> list[DocumentLanes]:
        """Return the lanes of every source of documents that has units, one source after another."""
        return [await self._sort(work) for work in works if is_of_documents(work) and work.units]

    async def _sort(self, work: SourceWork) -> DocumentLanes:
        step = _Step("triage", work.connection, self.emit)
        documents, problems = await asyncio.to_thread(self._read, work)
        found = await triage(documents, self._asking(), self.prompts.triage, step.progress)
        unreadable = {path: each.message for path, each in problems.items() if isinstance(each, Unreadable)}
        for path in problems.keys() - unreadable.keys():  # it is gone meanwhile: its unit will say so
            found.lanes[path] = Sorted(path, Lane.FULL, problems[path].message)
        step.ended(_counts(found))
        light = [Place(work.connection, path) for path in found.of(Lane.LIGHT)]
        extraction = await self._extract(work, light)
        return _lanes(work, found, extraction, unreadable)

    def _read(self, work: SourceWork) -> tuple[list[Document], dict[str, KtxError]]:
        """Return the documents of a source's units, and path -> why one cannot be read."""
        documents: list[Document] = []
        problems: dict[str, KtxError] = {}
        for path in sorted({path for unit in work.units for path in unit.files}):
            place = Place(work.connection, path)
            document, problem = self.library.document(place), self.library.problem(place)
            if document is not None:
                documents.append(document)
            elif problem is not None:
                problems[path] = problem
        return documents, problems

    async def _extract(self, work: SourceWork, light: Sequence[Place]) -> Extraction:
        if not light:
            return Extraction()
        step = _Step("extract", work.connection, self.emit)
        found = await extract(self.library, light, self._asking(), self.prompts.extraction, step.progress)
        step.ended(plural(len(found.candidates), "candidate"))
        return found

    def _asking(self) -> Asking:
        stop = self.stop
        return Asking(self.runtime, self.store, stop.abort, lambda: stop.is_set, stop.note, self.at_once)


def is_of_documents(work: SourceWork) -> bool:
    """Whether the files of a source are texts of people, and it could be read."""
    return work.error is None and work.source.documents


def library_of(works: Iterable[SourceWork]) -> Library:
    """Return the documents of a run's sources, by connection."""
    return Library({work.connection: work.snapshot.files for work in works if is_of_documents(work)})


def _lanes(work: SourceWork, found: Triage, extraction: Extraction, unreadable: dict[str, str]) -> DocumentLanes:
    lanes = {**found.lanes}
    for path, reason in extraction.promoted.items():
        lanes[path] = Sorted(path, Lane.FULL, reason)
    final = Triage(lanes)
    full = final.of(Lane.FULL)
    return DocumentLanes(
        work,
        units_of(work.units, frozenset(full)),
        {**{path: lanes[path].reason for path in final.of(Lane.SKIP)}, **unreadable},
        tuple(final.of(Lane.LIGHT)),
        tuple(full),
        extraction.candidates,
        found.tally,
        extraction.tally,
        tuple(_warnings(work, found.tally, extraction.tally, unreadable)),
    )


def units_of(units: Iterable[WorkUnit], full: frozenset[str]) -> tuple[WorkUnit, ...]:
    """Return the units with a file in the full lane, without their other files."""
    kept = (_narrowed(unit, tuple(path for path in unit.files if path in full)) for unit in units)
    return tuple(unit for unit in kept if unit.files)


def _narrowed(unit: WorkUnit, files: tuple[str, ...]) -> WorkUnit:
    if files == unit.files:
        return unit
    return replace(unit, files=files, label=f"{plural(len(files), 'document')}, of {unit.label}")


def _warnings(work: SourceWork, sorting: Tally, taking: Tally, unreadable: dict[str, str]) -> Iterable[ResultWarning]:
    for tally, what in ((sorting, "sorted"), (taking, "read for single facts")):
        if tally.failures:
            count = plural(tally.failures, "document")
            said = f"connection `{work.connection}`: {count} could not be {what}, so agents read them whole: "
            yield ResultWarning("triage_failed", said + tally.problem)
    for path, problem in sorted(unreadable.items()):
        yield ResultWarning("document_unreadable", f"connection `{work.connection}`: {problem}", hint=f"look at {path}")


def _counts(found: Triage) -> str:
    counts = ((lane, len(found.of(lane))) for lane in Lane)
    return ", ".join(f"{count} {lane.value}" for lane, count in counts if count) or "nothing to sort"


class _Step:
    """The events of one step."""

    def __init__(self, name: str, connection: str, emit: Emit) -> None:
        self._name, self._connection, self._emit = name, connection, emit
        self._started = monotonic()
        emit(StepStarted(name, connection))

    def progress(self, done: int, total: int) -> None:
        self._emit(StepProgress(self._name, done, total, self._connection))

    def ended(self, summary: str) -> None:
        self._emit(StepFinished(self._name, summary, monotonic() - self._started, self._connection))


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
