"""What every context source offers: fetch, projection without a model, units of work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from ktx_cli.context.semantic.interchange.result import Fidelity
from ktx_cli.context.semantic.model import Model
from ktx_cli.context.sources.model import Changes, Snapshot, WorkUnit
from ktx_cli.context.sources.raw_store import RawStore
from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.events import Emit, ignore_events
from ktx_cli.project.layout import Layout
from ktx_cli.project.workspace import Workspace


@dataclass(frozen=True, slots=True)
class FetchContext:
    """What a fetch may use.

    `previous`: path -> sha256 of what the last fetch had and the raw store still holds; empty: fetch everything.
    `cursor`: what that fetch left to go on from. `stopped`: whether the run has been asked to end; a fetch of many
    requests looks at it between two of them and raises `CancelledError`. `cache`: where copies of repositories are;
    None: in the project's own, a dry run has another. `models`: the semantic layers of databases whose history is read,
    as the run has them.
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
    owned: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Projection:
    """What was said without a model.

    `artifacts`: path of a file written -> raw files it comes from. `owned`: what of those files is the source's, see
    `ktx_cli.context.sources.owned`. `report`: every part of the input, kept, approximated or dropped. `handled`: raw
    files of which nothing is left for an agent. `left`: what a model would add, one line each.
    """

    artifacts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    owned: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    report: tuple[Fidelity, ...] = ()
    handled: frozenset[str] = frozenset()
    left: tuple[str, ...] = ()
    warnings: tuple[ResultWarning, ...] = ()


class Checked(Protocol):
    """A source that has a connection of its own, and can say without reading it that it could be read."""

    def check(self, entry: Any, context: FetchContext) -> str:
        """Return in one line what is there, after one request or a look; raises `KtxError` as a fetch would."""
        ...


class Source(Protocol):
    """One kind of context source; `entry` is its connection in `ktx.yaml`.

    `kind` names its folder among the raw sources. `documents`: its files are texts of people, which are triaged and
    kept as evidence. `skills`: packaged skills its agents load.
    """

    kind: ClassVar[str]
    documents: ClassVar[bool]
    skills: ClassVar[tuple[str, ...]]

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read the source; raises `KtxError` when it cannot be read at all: then nothing of it changes."""
        ...

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write what needs no model into the overlay: always from the whole snapshot, the same for the same input."""
        ...

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return the work the changes make, in a stable order."""
        ...
