"""One context source while a run works on it, and what the report says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.context.semantic.interchange.result import Fidelity
from ktx_cli.context.sources.files import documents_left
from ktx_cli.context.sources.manifest import FileStatus, Manifest, manifest_path
from ktx_cli.context.sources.model import Changes, Snapshot, WorkUnit
from ktx_cli.context.sources.port import Projection, Source
from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import plural
from ktx_cli.jobs.ingest.sources.told import Told
from ktx_cli.jobs.ingest.units.outcome import UnitOutcome, UnitStatus

_CHANGES: Final[Mapping[str, str]] = {
    "added": "added",
    "modified": "modified",
    "retried": "retried",
    "unread": "no model had read",
    "deleted": "deleted",
}
"""What may have become of a file -> the word for it."""


@dataclass(slots=True)
class SourceWork:
    """A source of a connection. `entry`: its settings. `error`: why nothing of it changes in this run.

    `manifest`: as it was committed. `projection` None: nothing the last one read has changed. `asked`: a model works in
    this run. `evicted`: deleted files of which it was decided what becomes of what came of them.
    `planned`: nothing is written, this is a dry run. `told`: what agents said of a query history, as it was written.
    `worthless`: files that are not worth work -> why.
    """

    connection: str
    entry: Any
    source: Source
    manifest: Manifest = field(default_factory=Manifest)
    snapshot: Snapshot = field(default_factory=lambda: Snapshot({}))
    changes: Changes = field(default_factory=Changes)
    projection: Projection | None = None
    units: tuple[WorkUnit, ...] = ()
    outcomes: tuple[UnitOutcome, ...] = ()
    asked: bool = False
    worthless: Mapping[str, str] = field(default_factory=dict)
    evicted: frozenset[str] = frozenset()
    planned: bool = False
    told: Told = field(default_factory=Told)
    seconds: float = 0.0
    error: KtxError | None = None

    @property
    def kind(self) -> str:
        """The kind of the source."""
        return self.source.kind

    @property
    def name(self) -> str:
        """What people call it: `docs (files)`."""
        return f"{self.connection} ({self.kind})"

    @property
    def manifest_path(self) -> str:
        """Where its manifest is."""
        return manifest_path(self.connection, self.kind)

    @property
    def fidelity(self) -> tuple[Fidelity, ...]:
        """What became of every part of the input that needs no model."""
        return () if self.projection is None else self.projection.report

    def produced(self) -> Mapping[str, tuple[str, ...]]:
        """Return artifact (`wiki:refunds`, `sl:shop/orders`) -> the raw files it came of, by units of this run."""
        found: dict[str, set[str]] = {artifact: set(paths) for artifact, paths in self.told.artifacts.items()}
        for outcome in self.landed():
            for artifact, paths in outcome.produced().items():
                found.setdefault(artifact, set()).update(paths)
        return {artifact: tuple(sorted(paths)) for artifact, paths in sorted(found.items())}

    def landed(self) -> list[UnitOutcome]:
        """Return the units whose work is in the overlay."""
        return [outcome for outcome in self.outcomes if outcome.status is UnitStatus.DONE]

    def unfinished(self) -> frozenset[str]:
        """Return the raw files whose units did not land."""
        return frozenset(p for each in self.outcomes if each.status is not UnitStatus.DONE for p in each.unit.files)

    def touched_paths(self) -> frozenset[str]:
        """Return the files of the project that this run writes for the source."""
        projected = () if self.projection is None else self.projection.artifacts
        by_units = (path for outcome in self.landed() for path in outcome.changes)
        return frozenset((*projected, *self.told.units, *by_units))

    @property
    def left_for_a_model(self) -> tuple[str, ...]:
        """What a model would add; nothing where one works in this run."""
        if self.projection is None or self.asked:
            return ()
        return documents_left(len(self._unread())) if self.source.documents else self.projection.left

    def _unread(self) -> set[str]:
        """Return the files no model has read as they are now."""
        read = (FileStatus.DONE, FileStatus.SKIPPED)
        done = {path for path, state in self.manifest.files.items() if state.status in read}
        return set(self.snapshot.files) - (done - set(self.changes.touched))

    @property
    def left_out(self) -> list[str]:
        """What of the source was not done, though it was read: what the next run may read, and units."""
        unread = [f"{each.what}: {each.reason}" for each in self.snapshot.skipped if each.retry]
        return unread + [
            f"unit `{each.unit.key}` {each.status.value}: {each.reason}"
            for each in self.outcomes
            if each.status is not UnitStatus.DONE
        ]

    @property
    def status(self) -> str:
        """`failed`, `unchanged`, `planned` (a dry run), `left` (no unit was worked through), `partial` or `done`."""
        if self.error is not None:
            return "failed"
        if not (self.changes.touched or self.changes.deleted or self.told.units) and self.projection is None:
            return "unchanged"
        if self.planned:
            return "planned"
        if self.units and not self.landed():
            return "left"
        return "partial" if self.left_out else "done"

    @property
    def result(self) -> str:
        """One line for a person."""
        if self.error is not None:
            return f"failed: {self.error.message}"
        counts = self.changes.to_json()
        changed = ", ".join(f"{counts[name]} {said}" for name, said in _CHANGES.items() if counts[name])
        said = Counter(item.kind.value for item in self.fidelity)
        parts = [plural(len(self.snapshot.files), "file"), changed or "nothing changed"]
        parts += [", ".join(f"{count} {kind}" for kind, count in sorted(said.items()))] if said else []
        parts += [self.told.result] if self.told.result else []
        units = Counter(outcome.status.value for outcome in self.outcomes)
        parts += (
            [f"units: {', '.join(f'{count} {status}' for status, count in sorted(units.items()))}"] if units else []
        )
        earlier = sum(outcome.replayed for outcome in self.outcomes)
        parts += [f"{plural(earlier, 'unit')} taken from an earlier run"] if earlier else []
        return "; ".join(parts)

    def to_json(self) -> Mapping[str, Any]:
        """Return the source's part of the report."""
        projection = self.projection
        return {
            "connection": self.connection,
            "kind": self.kind,
            "status": self.status,
            "result": self.result,
            "origin": self.snapshot.origin,
            "files": len(self.snapshot.files),
            "fetched": self.snapshot.fetched,
            "complete": self.snapshot.complete,
            "changes": self.changes.to_json(),
            "skipped": [each.to_json() for each in self.snapshot.skipped],
            "units": [outcome.to_json() for outcome in self.outcomes],
            "artifacts": {} if projection is None else {path: list(raw) for path, raw in projection.artifacts.items()},
            "pages": dict(self.told.pages),
            "produced": {artifact: list(raw) for artifact, raw in self.produced().items()},
            "planned_units": len(self.units),
            "fidelity": [item.to_json() for item in self.fidelity],
            "left_for_a_model": list(self.left_for_a_model),
            "seconds": round(self.seconds, 3),
            "error": None if self.error is None else self.error.to_json(),
        }
