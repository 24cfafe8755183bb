"""What a scan of a connection found, and which files it changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ktx_cli.connectors.port import ObjectProblem
from ktx_cli.context.scan.failures import StageFailure
from ktx_cli.context.scan.gone import GoneJoin, gone_warnings
from ktx_cli.context.scan.knowledge import Knowledge
from ktx_cli.context.scan.losses import Losses
from ktx_cli.context.scan.profiling.model import TableProfile
from ktx_cli.context.scan.review import ReviewedEdge, counted
from ktx_cli.context.scan.shards import Shard
from ktx_cli.context.scan.ties import Ties
from ktx_cli.core.errors import ResultWarning


@dataclass(frozen=True, slots=True)
class PreviousScan:
    """What the state database remembers: the digest of the structure, and path -> blob id as committed then."""

    digest: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Physical names by what happened to them since the last snapshot."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """Known from before, unreadable now: kept as they were."""


@dataclass(slots=True)
class ScanOutcome:
    """What a scan found and which files change: path -> new content, None for a file that goes."""

    connection: str
    driver: str
    digest: str
    tables: int
    columns: int
    unchanged: bool = False
    difference: TableChanges = field(default_factory=TableChanges)
    problems: tuple[ObjectProblem, ...] = ()
    row_estimates: dict[str, int] = field(default_factory=dict)
    files: dict[str, bytes | None] = field(default_factory=dict)
    shards: dict[str, Shard] = field(default_factory=dict)
    warnings: tuple[ResultWarning, ...] = ()
    ties: Ties | None = None
    losses: Losses = field(default_factory=Losses)
    knowledge: Knowledge = field(default_factory=Knowledge)
    looked: bool = False
    """Whether the rows were looked at; else `knowledge` is what an earlier scan found."""
    profiles: tuple[TableProfile, ...] = ()
    views: int = 0
    """How many of the tables are views."""
    declared: int = 0
    """How many foreign keys the database declares between the tables."""
    reviewed: tuple[ReviewedEdge, ...] = ()
    """What holds for every edge after this scan; nothing where the rows were not looked at."""
    gone: tuple[GoneJoin, ...] = ()
    failures: tuple[StageFailure, ...] = ()
    """The stages that failed; what the last scan knew of their part stays."""

    @property
    def standings(self) -> dict[str, int]:
        """How many edges there are by what holds for them."""
        return counted(self.reviewed)

    def without(self, held: frozenset[str]) -> dict[str, bytes | None]:
        """Return the files that may change while the held paths keep their old content."""
        return self.files if self.ties is None else self.ties.without(self.files, held)

    def removals(self, held: frozenset[str], replaced: Mapping[str, str]) -> list[ResultWarning]:
        """Return what to say of people's words and of joins that are gone: nothing of shards that were held back.

        `replaced`: path -> where its old text is kept, of files that have no history.
        """
        losses = self.losses.warnings(self.connection, self.without(held), replaced)
        return [*losses, *gone_warnings(self.connection, self.gone, held)]
