"""The result of a scan of one connection, and its row in the state database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ktx_cli.core import ResultWarning, isoformat, now
from ktx_cli.project import transaction
from ktx_cli.scan.descriptions.port import DescriptionReport
from ktx_cli.scan.failures import StageFailure
from ktx_cli.scan.linked_files import LinkedFiles, RemovedTexts
from ktx_cli.scan.profile.counts import TableProfile
from ktx_cli.scan.relationships.record import RelationshipRecord
from ktx_cli.scan.removed_joins import GoneJoin, gone_warnings
from ktx_cli.scan.review import ReviewedEdge, counted
from ktx_cli.semantic import Shard
from ktx_cli.warehouses import ObjectProblem


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


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    """What a scan changes in the project. `files`: path -> new content, None for a file that goes."""

    relationships: RelationshipRecord
    files: Mapping[str, bytes | None] = field(default_factory=dict)
    shards: Mapping[str, Shard] = field(default_factory=dict)
    changes: TableChanges = field(default_factory=TableChanges)
    linked: LinkedFiles | None = None
    removed_texts: RemovedTexts = field(default_factory=RemovedTexts)
    reviewed: tuple[ReviewedEdge, ...] = ()
    """What holds for every edge after this scan."""
    gone: tuple[GoneJoin, ...] = ()
    warnings: tuple[ResultWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class ScanOutcome:
    """What a scan found and what it changes."""

    connection: str
    driver: str
    digest: str
    plan: ManifestPlan
    tables: int
    columns: int
    views: int = 0
    """How many of the tables are views."""
    declared: int = 0
    """How many foreign keys the database declares between the tables."""
    row_estimates: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[ObjectProblem, ...] = ()
    has_rows: bool = False
    """Whether rows were read; else the relationships are those an earlier scan found."""
    profiles: tuple[TableProfile, ...] = ()
    descriptions: DescriptionReport | None = None
    warnings: tuple[ResultWarning, ...] = ()
    failures: tuple[StageFailure, ...] = ()
    """The stages that failed; what the last scan knew of their part stays."""

    @property
    def files(self) -> Mapping[str, bytes | None]:
        """The files that change: path -> new content, None for a file that goes."""
        return self.plan.files

    @property
    def unchanged(self) -> bool:
        """Whether no file changes."""
        return not self.plan.files

    @property
    def standings(self) -> dict[str, int]:
        """How many edges there are by what holds for them."""
        return counted(self.plan.reviewed)

    def all_warnings(self) -> list[ResultWarning]:
        """Return the warnings, those of descriptions and of failed stages among them."""
        described = [] if self.descriptions is None else self.descriptions.warnings(self.connection)
        return [*described, *self.warnings, *(each.warning(self.connection) for each in self.failures)]

    def without(self, held: frozenset[str]) -> Mapping[str, bytes | None]:
        """Return the files that may change while the held paths keep their old content."""
        return self.files if self.plan.linked is None else self.plan.linked.without(self.files, held)

    def removals(self, held: frozenset[str], replaced: Mapping[str, str]) -> list[ResultWarning]:
        """Return the warnings of people's texts and of joins that are gone: none of shards that were held back.

        `replaced`: path -> where its old text is kept, of files that have no history.
        """
        removed = self.plan.removed_texts.warnings(self.connection, self.without(held), replaced)
        return [*removed, *gone_warnings(self.connection, self.plan.gone, held)]


@dataclass(frozen=True, slots=True)
class LastScan:
    """The facts `ktx status` shows of a connection's last scan."""

    connection: str
    run_id: str
    finished: str
    tables: int
    columns: int


def previous_scans(database: sqlite3.Connection, connections: Iterable[str]) -> dict[str, PreviousScan]:
    """Return connection -> what its last complete scan left; those that were never scanned are not in it."""
    wanted = set(connections)
    rows = database.execute("SELECT connection, digest, files FROM scans").fetchall()
    return {row[0]: PreviousScan(row[1], json.loads(row[2])) for row in rows if row[0] in wanted}


def record_scan(database: sqlite3.Connection, run_id: str, outcome: ScanOutcome, files: dict[str, str] | None) -> None:
    """Record a scan; `files` None: not all of it was committed, so the next run looks at everything again."""
    with transaction(database):
        database.execute(
            "INSERT OR REPLACE INTO scans VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                outcome.connection,
                run_id,
                isoformat(now()),
                outcome.digest if files is not None else "",
                json.dumps(files or {}),
                outcome.tables,
                outcome.columns,
                json.dumps(outcome.row_estimates),
            ),
        )


def last_scans(database: sqlite3.Connection) -> dict[str, LastScan]:
    """Return connection -> its last scan."""
    rows = database.execute("SELECT connection, run_id, finished, tables, columns FROM scans ORDER BY connection")
    return {row[0]: LastScan(*row) for row in rows}
