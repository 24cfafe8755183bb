"""Between planning and running units: which documents are worth an agent, and which facts the light ones have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ktx_cli.context.documents.asking import AT_ONCE, Asking, Tally
from ktx_cli.context.documents.candidates import Candidate
from ktx_cli.context.documents.extraction import Extraction, extract
from ktx_cli.context.documents.library import Library, Place
from ktx_cli.context.documents.model import Document
from ktx_cli.context.documents.model import UnreadableDocumentError as Unreadable
from ktx_cli.context.documents.prompts import DocumentPrompts
from ktx_cli.context.documents.triage import Lane, Sorted, Triage, triage
from ktx_cli.context.sources.model import WorkUnit
from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.core.events import Emit, StepFinished, StepProgress, StepStarted, ignore_events
from ktx_cli.core.text import plural
from ktx_cli.jobs.ingest.sources.work import SourceWork
from ktx_cli.jobs.ingest.units.driver import Stop
from ktx_cli.llm.runtime import LlmRuntime
from ktx_cli.project.enrichment_store import EnrichmentStore


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
