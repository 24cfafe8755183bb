"""What every context source offers: fetch, projection without a model, units of work."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, cast

from ktx_cli.core import Emit, NotSupportedError, ResultWarning, did_you_mean, ignore_events
from ktx_cli.documents import Changes, Snapshot, WorkUnit
from ktx_cli.project import Layout, Workspace
from ktx_cli.semantic import Fidelity, Model
from ktx_cli.sources.manifest import RawStore


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
    `ktx_cli.sources.ownership`. `report`: every part of the input, kept, approximated or dropped. `handled`: raw
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


_PACKAGE: Final = "ktx_cli.sources"
_SOURCES: Final = {
    "dbt": f"{_PACKAGE}.dbt.source:DbtSource",
    "metricflow": f"{_PACKAGE}.metricflow:MetricFlowSource",
    "lookml": f"{_PACKAGE}.lookml.source:LookMlSource",
    "metabase": f"{_PACKAGE}.metabase.source:MetabaseSource",
    "looker": f"{_PACKAGE}.looker.source:LookerSource",
    "notion": f"{_PACKAGE}.notion.source:NotionSource",
    "confluence": f"{_PACKAGE}.confluence.source:ConfluenceSource",
    "documents": f"{_PACKAGE}.documents:FilesSource",
}
DRIVERS: Final = tuple(_SOURCES)
"""The drivers of context sources."""

QUERY_HISTORY: Final = "query-history"
"""The source a database has of its own: what people asked it. No driver: it belongs to the database's connection."""

_ALL: Final = {**_SOURCES, QUERY_HISTORY: f"{_PACKAGE}.query_history.source:QueryHistorySource"}


def checked_source(driver: str) -> Checked:
    """Return the source of a driver for a check; raises as `source_for`."""
    return cast(Checked, source_for(driver))


def source_for(driver: str) -> Source:
    """Return the source of a driver, or of the query history; raises `NotSupportedError` for one that has no code."""
    place = _ALL.get(driver)
    if place is None:
        near = did_you_mean(driver, DRIVERS)
        raise NotSupportedError(
            f"`{driver}` is no context source this version reads", hint=f"use {near or ', '.join(DRIVERS)}"
        )
    module, _, name = place.partition(":")
    return cast(Source, getattr(importlib.import_module(module), name)())
