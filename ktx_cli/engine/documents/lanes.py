"""Sorts the documents of a run into lanes: for agents, for single facts, or skipped; then tracks their outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ktx_cli.agent_tools import DocumentId, Library
from ktx_cli.core import ResultWarning, StepFinished, StepProgress, StepStarted, ignore_events, monotonic, plural
from ktx_cli.documents import Document, UnreadableDocumentError, WorkUnit
from ktx_cli.engine.documents.candidates import PageCandidate, keep_waiting, waiting
from ktx_cli.engine.documents.curation import Curation, Curator
from ktx_cli.engine.documents.triage import Extraction, Lane, LaneChoice, Tally, Triage, extract, triage
from ktx_cli.engine.reconciliation import staged
from ktx_cli.engine.work import SourceWork, UnitOutcome, UnitStatus
from ktx_cli.project import StateDatabase, Workspace
from ktx_cli.sources import SourceKey

if TYPE_CHECKING:
    from ktx_cli.core import Emit, KtxError
    from ktx_cli.engine.documents.triage import DocumentPrompts, QuestionRunner


@dataclass(frozen=True, slots=True)
class DocumentLanes:
    """The changed documents of one source in their lanes."""

    work: SourceWork
    units: tuple[WorkUnit, ...] = ()
    """The remaining units, with only the files in the full lane."""
    skipped: dict[str, str] = field(default_factory=dict)
    """The path of each file that is not worth processing -> why."""
    light: tuple[str, ...] = ()
    full: tuple[str, ...] = ()
    candidates: tuple[PageCandidate, ...] = ()
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


@dataclass(slots=True)
class Documents:
    """The document sources of a run."""

    works: Sequence[SourceWork]
    earlier: Mapping[SourceKey, Sequence[PageCandidate]]
    """Waiting candidates from earlier runs."""
    library: Library
    lanes: dict[SourceKey, DocumentLanes] = field(default_factory=dict)

    @classmethod
    def of(cls, works: Iterable[SourceWork], database: StateDatabase) -> Documents:
        """Return the documents of a run's sources."""
        own = [work for work in works if work.error is None and work.source.documents]
        library = Library({work.connection: work.snapshot.files for work in own})
        return cls(own, {work.key: waiting(database, *work.key) for work in own}, library)

    async def sort(self, questions: QuestionRunner, prompts: DocumentPrompts, emit: Emit = ignore_events) -> None:
        """Triage the changed documents, one source after another."""
        for work in self.works:
            if work.units:
                self.lanes[work.key] = await _sort(work, self.library, questions, prompts, emit)

    def narrowed(self, work: SourceWork) -> SourceWork:
        """Return a source with the remaining units, and the files that are not worth processing."""
        lanes = self.lanes.get(work.key)
        return work if lanes is None else replace(work, units=lanes.units, skipped_files=lanes.skipped)

    async def curate(
        self, curator: Curator, workspace: Workspace, merged: Sequence[UnitOutcome]
    ) -> tuple[Curation, ...]:
        """Curate the candidates of every source that has any; the result is in the overlay."""
        curations: list[Curation] = []
        for work in self.works:
            own, earlier = self._candidates(work), self.earlier.get(work.key, ())
            if own or earlier:
                before = [*merged, *(outcome for curation in curations for outcome in curation.outcomes)]
                curations.append(await curator.curate(workspace, work, own, earlier, merged, staged(before, {})))
        return tuple(curations)

    def outcomes(self, curations: Iterable[Curation]) -> list[UnitOutcome]:
        """Return the passes as units of their sources.

        `curations`: the merged curations. If a source's curation was not merged, its documents with candidates count as
        new.
        """
        landed = {curation.work.key: curation.outcomes for curation in curations}
        outcomes = [outcome for passes in landed.values() for outcome in passes]
        return outcomes + [
            _left(work, own) for work in self.works if (own := self._candidates(work)) and work.key not in landed
        ]

    def warnings(self, curations: Iterable[Curation]) -> list[ResultWarning]:
        """Yield what went wrong without harm."""
        warnings = [warning for lanes in self.lanes.values() for warning in lanes.warnings]
        return warnings + [warning for curation in curations for warning in curation.report.warnings]

    def to_json(self, curations: Iterable[Curation]) -> list[dict[str, Any]]:
        """Return this part of the report: for each source its lanes and the outcome for its candidates."""
        reports = {curation.work.key: curation.report.to_json() for curation in curations}
        return [
            {
                "connection": work.connection,
                "kind": work.kind,
                "lanes": lanes.to_json() if (lanes := self.lanes.get(work.key)) else None,
                "curation": reports.get(work.key),
            }
            for work in self.works
        ]

    def _candidates(self, work: SourceWork) -> tuple[PageCandidate, ...]:
        lanes = self.lanes.get(work.key)
        return () if lanes is None else lanes.candidates


def _left(work: SourceWork, candidates: Iterable[PageCandidate]) -> UnitOutcome:
    paths = tuple(sorted({path for candidate in candidates for path in candidate.paths}))
    unit = WorkUnit("curate", "candidates of documents", paths)
    return UnitOutcome(work.connection, work.kind, unit, UnitStatus.LEFT, "no decision was made about its candidates")


def remember_waiting(database: StateDatabase, curations: Iterable[Curation]) -> None:
    """Store the candidates that a committed run had no room for; the caller has a transaction."""
    for curation in curations:
        keep_waiting(database, *curation.work.key, curation.candidates)


async def _sort(
    work: SourceWork, library: Library, questions: QuestionRunner, prompts: DocumentPrompts, emit: Emit
) -> DocumentLanes:
    progress, end = _step("triage", work.connection, emit)
    documents, problems = await asyncio.to_thread(_read, work, library)
    sorted_ = await triage(documents, questions, prompts.triage, progress)
    unreadable = {path: each.message for path, each in problems.items() if isinstance(each, UnreadableDocumentError)}
    for path in problems.keys() - unreadable.keys():  # removed meanwhile: its unit will report it
        sorted_.lanes[path] = LaneChoice(path, Lane.FULL, problems[path].message)
    counts = ((lane, len(sorted_.of(lane))) for lane in Lane)
    end(", ".join(f"{count} {lane.value}" for lane, count in counts if count) or "nothing to triage")
    light, extraction = [DocumentId(work.connection, path) for path in sorted_.of(Lane.LIGHT)], Extraction()
    if light:
        progress, end = _step("extract", work.connection, emit)
        extraction = await extract(library, light, questions, prompts.extraction, progress)
        end(plural(len(extraction.candidates), "candidate"))
    return _lanes(work, sorted_, extraction, unreadable)


def _read(work: SourceWork, library: Library) -> tuple[list[Document], dict[str, KtxError]]:
    """Return the documents in a source's units, and path -> why a document cannot be read."""
    documents: list[Document] = []
    problems: dict[str, KtxError] = {}
    for path in sorted({path for unit in work.units for path in unit.files}):
        place = DocumentId(work.connection, path)
        document, problem = library.document(place), library.problem(place)
        if document is not None:
            documents.append(document)
        elif problem is not None:
            problems[path] = problem
    return documents, problems


def _step(name: str, connection: str, emit: Emit) -> tuple[Callable[[int, int], None], Callable[[str], None]]:
    """Announce a step, and return one function that reports its progress and another that reports its end."""
    emit(StepStarted(name, connection))
    started = monotonic()
    return (
        lambda done, total: emit(StepProgress(name, done, total, connection)),
        lambda summary: emit(StepFinished(name, summary, monotonic() - started, connection)),
    )


def _lanes(work: SourceWork, sorted_: Triage, extraction: Extraction, unreadable: dict[str, str]) -> DocumentLanes:
    promoted = {path: LaneChoice(path, Lane.FULL, reason) for path, reason in extraction.promoted.items()}
    final = Triage({**sorted_.lanes, **promoted})
    full = final.of(Lane.FULL)
    return DocumentLanes(
        work,
        units_of(work.units, frozenset(full)),
        {**{path: final.lanes[path].reason for path in final.of(Lane.SKIP)}, **unreadable},
        tuple(final.of(Lane.LIGHT)),
        tuple(full),
        extraction.candidates,
        sorted_.tally,
        extraction.tally,
        tuple(_warnings(work, sorted_.tally, extraction.tally, unreadable)),
    )


def units_of(units: Iterable[WorkUnit], full: frozenset[str]) -> tuple[WorkUnit, ...]:
    """Return the units with a file in the full lane, without their other files."""
    narrowed = (_narrowed(unit, tuple(path for path in unit.files if path in full)) for unit in units)
    return tuple(unit for unit in narrowed if unit.files)


def _narrowed(unit: WorkUnit, files: tuple[str, ...]) -> WorkUnit:
    if files == unit.files:
        return unit
    return replace(unit, files=files, label=f"{plural(len(files), 'document')}, of {unit.label}")


def _warnings(work: SourceWork, sorting: Tally, taking: Tally, unreadable: dict[str, str]) -> Iterable[ResultWarning]:
    for tally, what in ((sorting, "sorted"), (taking, "searched for single facts")):
        if tally.failures:
            count = plural(tally.failures, "document")
            message = f"connection `{work.connection}`: {count} could not be {what}, so agents read them in full: "
            yield ResultWarning("triage_failed", message + tally.problem)
    for path, problem in sorted(unreadable.items()):
        yield ResultWarning("document_unreadable", f"connection `{work.connection}`: {problem}", hint=f"check {path}")
