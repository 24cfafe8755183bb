"""The port of context sources: check, fetch, project, divide into units, and conclude once units are merged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ktx_cli.core import Emit, KtxError, ResultWarning, ignore_events, plural
from ktx_cli.documents import Changes, Snapshot, WorkUnit
from ktx_cli.project import Layout, Workspace
from ktx_cli.semantic import Fidelity, Model
from ktx_cli.sources.deliveries import RawStore

if TYPE_CHECKING:
    from ktx_cli.scan import Declarations

Owned = Mapping[str, Mapping[str, str]]
"""Path of a project file -> the items that the source owns in it; see `ktx_cli.sources.ownership`."""


@dataclass(frozen=True, slots=True)
class FetchContext:
    """The inputs of a fetch.

    `previous`: path -> sha256 of files from the last fetch that are still in the raw store; empty to fetch everything.
    `cursor`: the last fetch's cursor. `stopped`: whether the run is cancelled; a fetch with many requests checks it
    between two of them and raises `CancelledError`. `cache`: the folder for copies of repositories; None for the
    project's own folder, which a dry run does not use. `models`: the semantic layers of the databases, as the run has
    them.
    """

    connection: str
    layout: Layout
    environ: Mapping[str, str]
    raw: RawStore
    cursor: str | None = None
    previous: Mapping[str, str] = field(default_factory=dict)
    cache: Path | None = None
    models: Mapping[str, Model] = field(default_factory=dict)
    emit: Emit = ignore_events
    stopped: Callable[[], bool] = lambda: False

    @property
    def cache_folder(self) -> Path:
        """The folder for copies of repositories."""
        return self.cache or self.layout.cache


@dataclass(frozen=True, slots=True)
class ProjectContext:
    """The inputs of a projection: the overlay to write to, and the current semantic layer of each database."""

    connection: str
    workspace: Workspace
    models: Mapping[str, Model]
    owned: Owned = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Projection:
    """The content that a source wrote without a model.

    `artifacts`: path of a written file -> the raw files that it comes from. `owned`: the items that the source owns in
    those files; see `ktx_cli.sources.ownership`. `report`: every part of the input, kept, approximated or dropped.
    `handled`: raw files with nothing left for an agent. `left`: content that a model would add, one line each. `notes`:
    raw file -> notes for its agent. `declared`: see `Delivery`.
    """

    artifacts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    owned: Owned = field(default_factory=dict)
    report: tuple[Fidelity, ...] = ()
    handled: frozenset[str] = frozenset()
    left: tuple[str, ...] = ()
    warnings: tuple[ResultWarning, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvidenceForm:
    """The evidence that agents provide about a source's files, if its units do not write anything themselves.

    `tool`, `description`: the tool that takes a piece of evidence. `shape`: a pydantic model, or a union of models with
    the discriminator `kind`; its `slug`, `table` or `name` identifies a piece within a file, and a later piece with the
    same name replaces the earlier one. `about` describes it to the agent. `problems`: takes a piece, its raw file and
    the file's content, and returns errors for the agent.
    """

    tool: str
    description: str
    shape: Any
    about: str
    problems: Callable[[Any, str, bytes], Iterable[str]]


@dataclass(frozen=True, slots=True)
class DigestForm:
    """Units that need no tools: in one call, a model writes a text about each of many units.

    `prompt`: the name of the packaged prompt. `applies`: whether a unit, with one file, is of this kind. `brief`: takes
    the file's content and returns the part for the model, with its name as `table`. `evidence`: takes that name and the
    text, and returns the evidence that an agent would provide.
    """

    prompt: str
    applies: Callable[[WorkUnit], bool]
    brief: Callable[[bytes], Mapping[str, Any]]
    evidence: Callable[[str, str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class UnitEvidence:
    """A piece of evidence as JSON, the raw file that it is about, and the key of the unit that provided it."""

    unit: str
    raw_path: str
    evidence: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The content that a source wrote after its units were merged.

    `owned`: the items that the source owns in project files; None keeps the result of the projection. `pages`: key of a
    wiki page -> its status, such as `created` or `stale`. `artifacts`: artifact (`wiki:refunds`) -> the raw files that
    it comes from. `units`: path of a written file -> the units whose evidence is in it. `summary`: a short text for
    people. `error`: why the step failed; it then wrote nothing, and the units that provided evidence are processed
    again.
    """

    owned: Owned | None = None
    pages: Mapping[str, str] = field(default_factory=dict)
    artifacts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    units: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    summary: str = ""
    warnings: tuple[ResultWarning, ...] = ()
    error: KtxError | None = None


class Source(ABC):
    """A kind of context source. `entry` is its connection in `ktx.yaml`.

    `kind` names its folder among the raw sources. `declares_first`: it is fetched before databases are scanned, because
    scans use its `declarations` and its fetch needs no semantic layer. `declares_later`: its fetch needs one, so that a
    database is scanned again if its declarations changed. `documents`: its files are texts by people,
    which are triaged and kept as evidence. `skills`: packaged skills that its agents load. `evidence`: what its agents
    provide if they write neither pages nor definitions. `digest`: the units that are answered together, without an
    agent.
    """

    kind: ClassVar[str]
    declares_first: ClassVar[bool] = False
    declares_later: ClassVar[bool] = False
    documents: ClassVar[bool] = False
    skills: ClassVar[tuple[str, ...]] = ()
    evidence: ClassVar[EvidenceForm | None] = None
    digest: ClassVar[DigestForm | None] = None

    def check(self, entry: Any, context: FetchContext) -> str:
        """Return a one-line description of the available content. Raises the same `KtxError`s as a fetch.

        The default implementation fetches the source; a source that can answer after one request overrides it.
        """
        snapshot = self.fetch(entry, context)
        return f"{snapshot.origin or self.kind}, with {plural(len(snapshot.files), 'file')}"

    @abstractmethod
    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read the source. Raises `KtxError` if it cannot be read at all, in which case nothing changes."""

    def declarations(self, entry: Any, snapshot: Snapshot) -> Declarations | None:
        """Return what the source declares about the tables of databases, or None for a source that never does."""
        return None

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write content that needs no model into the overlay, always from the whole snapshot; equal input gives equal
        output.

        The default implementation writes the catalog of documents, because their content needs a model.
        """
        if not self.documents:
            return Projection()
        from ktx_cli.documents import is_current
        from ktx_cli.sources.catalog import write_catalog
        from ktx_cli.sources.conventions import StatedConvention, convention_warnings, record_conventions
        from ktx_cli.sources.statements import record_statements, statements_of_documents

        find = statements_of_documents(snapshot)
        record_statements(context.workspace, context.connection, context.models, lambda _, points: find(points))
        catalog = write_catalog(context.workspace, context.connection, snapshot, context.owned)
        current = [each for each in catalog.outlines if is_current(each)]
        stated = [StatedConvention(each.path, found) for each in current for found in each.conventions]
        record_conventions(context.workspace, context.connection, self.kind, snapshot, stated)
        proposals = convention_warnings(context.connection, stated, context.models)
        left = documents_left(len(snapshot.files))
        return Projection(catalog.pages, catalog.owned, left=left, warnings=(*proposals, *catalog.warnings))

    @abstractmethod
    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return the work units for the changes, in a stable order."""

    def skills_of(self, unit: WorkUnit) -> tuple[str, ...]:
        """Return the skills that a unit's agent loads. Defaults to all of the source's skills."""
        return self.skills

    def after_units(
        self, entry: Any, snapshot: Snapshot, context: ProjectContext, evidence: Sequence[UnitEvidence]
    ) -> Conclusion:
        """Write conclusions from the merged units' evidence into the overlay. The default implementation writes
        nothing.

        Called in every run that could read the source, with or without a model, before the overlay is checked;
        `context.owned` is the result of the projection.
        """
        return Conclusion()

    def folders(self, entry: Any, root: Path) -> Iterable[Path]:
        """Return the local folders whose files are read in place and not copied to the raw store.

        `root`: the project's folder.
        """
        return ()


def documents_left(count: int) -> tuple[str, ...]:
    """Return a description of what a model would add to a document source."""
    return (f"{plural(count, 'document')} could be turned into wiki pages",) if count else ()
