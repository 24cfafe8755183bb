"""The port of context sources: check, fetch, project, cut into units, and conclude once the units have landed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ktx_cli.core import Emit, KtxError, ResultWarning, ignore_events, plural
from ktx_cli.documents import Changes, Snapshot, WorkUnit
from ktx_cli.project import Layout, Workspace
from ktx_cli.semantic import Fidelity, Model
from ktx_cli.sources.deliveries import RawStore

Owned = Mapping[str, Mapping[str, str]]
"""Path of a file of the project -> what in it is the source's own, see `ktx_cli.sources.ownership`."""


@dataclass(frozen=True, slots=True)
class FetchContext:
    """What a fetch may use.

    `previous`: path -> sha256 of what the last fetch had and the raw store still holds; empty: fetch everything.
    `cursor`: what that fetch left to go on from. `stopped`: whether the run has been asked to end; a fetch of many
    requests looks at it between two of them and raises `CancelledError`. `cache`: where copies of repositories are;
    None: in the project's own, a dry run has another. `models`: the semantic layers of the databases, as the run has
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
        """Where copies of repositories are kept."""
        return self.cache or self.layout.cache


@dataclass(frozen=True, slots=True)
class ProjectContext:
    """What a projection may use: the overlay it writes to, and the semantic layer of each database as it is there."""

    connection: str
    workspace: Workspace
    models: Mapping[str, Model]
    owned: Owned = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Projection:
    """What a source wrote without a model.

    `artifacts`: path of a file written -> raw files it comes from. `owned`: what of those files is the source's, see
    `ktx_cli.sources.ownership`. `report`: every part of the input, kept, approximated or dropped. `handled`: raw
    files of which nothing is left for an agent. `left`: what a model would add, one line each. `notes`: raw file ->
    what its agent should know of it.
    """

    artifacts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    owned: Owned = field(default_factory=dict)
    report: tuple[Fidelity, ...] = ()
    handled: frozenset[str] = frozenset()
    left: tuple[str, ...] = ()
    warnings: tuple[ResultWarning, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvidenceForm:
    """The evidence that agents give of a source's files, where its units write nothing themselves.

    `tool`, `description`: of the tool that takes a piece of evidence. `shape`: a pydantic model, or a union of models
    told apart by `kind`; its `slug`, `table` or `name` tells one piece about a file from another, and a later piece
    of the same name replaces the earlier one. `about` describes it to the agent. `problems`: takes a piece, the raw
    file it is about and the file's content, and returns what is wrong with it, in words for the agent.
    """

    tool: str
    description: str
    shape: Any
    about: str
    problems: Callable[[Any, str, bytes], Iterable[str]]


@dataclass(frozen=True, slots=True)
class DigestForm:
    """Units that need no tools: a model writes a text about each, for many units in one call.

    `prompt`: the name of the packaged prompt. `applies`: whether a unit, of one file, is of this kind. `brief`: takes
    the file's content and returns what the model gets of it, with its name as `table`. `evidence`: takes that name and
    the text, and returns the evidence that an agent would give.
    """

    prompt: str
    applies: Callable[[WorkUnit], bool]
    brief: Callable[[bytes], Mapping[str, Any]]
    evidence: Callable[[str, str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class UnitEvidence:
    """A piece of evidence as JSON, the raw file it is about, and the key of the unit that gave it."""

    unit: str
    raw_path: str
    evidence: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a source wrote after its units had landed.

    `owned`: what of project files is the source's, None: as the projection left it. `pages`: key of a wiki page ->
    what became of it, such as `created` or `stale`. `artifacts`: artifact (`wiki:refunds`) -> the raw files it comes
    from. `units`: path of a file written -> the units whose evidence is in it. `summary`: for people, in a few words.
    `error`: why the step failed; then it wrote nothing, and the units that gave evidence are worked through again.
    """

    owned: Owned | None = None
    pages: Mapping[str, str] = field(default_factory=dict)
    artifacts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    units: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    summary: str = ""
    warnings: tuple[ResultWarning, ...] = ()
    error: KtxError | None = None


class Source(ABC):
    """One kind of context source; `entry` is its connection in `ktx.yaml`.

    `kind` names its folder among the raw sources. `documents`: its files are texts of people, which are triaged and
    kept as evidence. `skills`: packaged skills its agents load. `evidence`: what its agents give, where they write
    neither pages nor definitions. `digest`: which of its units are answered together, without an agent.
    """

    kind: ClassVar[str]
    documents: ClassVar[bool] = False
    skills: ClassVar[tuple[str, ...]] = ()
    evidence: ClassVar[EvidenceForm | None] = None
    digest: ClassVar[DigestForm | None] = None

    def check(self, entry: Any, context: FetchContext) -> str:
        """Return in one line what is there; raises `KtxError` as a fetch would.

        A source that can say it after one request overrides this: here the source is fetched.
        """
        snapshot = self.fetch(entry, context)
        return f"{snapshot.origin or self.kind}, with {plural(len(snapshot.files), 'file')}"

    @abstractmethod
    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read the source; raises `KtxError` when it cannot be read at all: then nothing of it changes."""

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write what needs no model into the overlay: always from the whole snapshot, the same for the same input.

        Here: the catalog of documents, since what they say takes a model to find out.
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
        """Return the work the changes make, in a stable order."""

    def skills_of(self, unit: WorkUnit) -> tuple[str, ...]:
        """Return the skills that the agent of a unit loads. Here: all of the source."""
        return self.skills

    def after_units(
        self, entry: Any, snapshot: Snapshot, context: ProjectContext, evidence: Sequence[UnitEvidence]
    ) -> Conclusion:
        """Write what follows from the evidence of the units that landed into the overlay. Here: nothing.

        Called in every run that could read the source, with or without a model, before the overlay is checked;
        `context.owned` is as the projection left it.
        """
        return Conclusion()

    def folders(self, entry: Any, root: Path) -> Iterable[Path]:
        """Return the folders on this disk whose files are read where they are, and not copied to the raw store.

        `root`: the project's folder.
        """
        return ()


def documents_left(count: int) -> tuple[str, ...]:
    """Return what a model would add to a source of documents, in words."""
    return (f"{plural(count, 'document')} could be read into wiki pages",) if count else ()
