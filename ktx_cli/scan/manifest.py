"""The outcome of a scan: the plan of its files (shards, snapshot, records), and its row in the state database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ktx_cli.core import ResultWarning, isoformat, now
from ktx_cli.project import transaction
from ktx_cli.scan.committed import LinkedFiles, RemovedTexts, carried_over, has_comments, require_some_tables
from ktx_cli.scan.descriptions.facts import TEXT_KEYS, Described, DescriptionReport, Source, mappings_in, updated_record
from ktx_cli.scan.profile.counts import TableProfile
from ktx_cli.scan.relationships.record import RelationshipRecord
from ktx_cli.scan.removed_joins import CommittedJoins, GoneJoin, JoinChanges, gone_joins, gone_warnings
from ktx_cli.scan.review import ReviewedEdge, counted
from ktx_cli.scan.shards import ManifestIndex, ShardPlan, plan_shards
from ktx_cli.scan.snapshot import MANIFEST, SnapshotFile, manifest_text, table_file, table_path
from ktx_cli.scan.stages import StageFailure
from ktx_cli.semantic import Entry, Shard, physical_name, source_names
from ktx_cli.warehouses import DatabaseSchema, ObjectProblem, Table, TableRef

if TYPE_CHECKING:
    from ktx_cli.scan.committed import Committed, Records, Snapshot


def plan_manifest(
    driver: str,
    schema: DatabaseSchema,
    committed: Committed,
    records: Records,
    texts: Sequence[Described],
    contents: Mapping[str, bytes],
) -> ManifestPlan:
    """Return the files that change. `texts`: the descriptions of this scan; `contents`: the bytes of the `records`.

    Raises `SourceError` where a database that had tables shows none, `ConfigError` where a committed shard is broken.
    """
    last, shards = committed.snapshot, committed.shards
    require_some_tables(committed.connection, schema, last.tables or ())
    tables, kept = carried_over(schema, last.tables or ())
    by_ref = {table.ref: table for table in tables}
    snapshot = {file.path: file for file in map(table_file, tables)}
    refs = list(dict.fromkeys([*by_ref, *(table.ref for table in last.tables or ())]))
    index = ManifestIndex.of(shards, refs)
    adopted = adopted_texts(refs, committed.records.texts, shards, index)
    joins = CommittedJoins(committed)

    # What the manifest shows: where no text of a scan takes their place, the texts of others too.
    described = updated_record({**adopted, **committed.records.texts}, texts, tables)
    shown = replace(records.restricted(tables), described=described)
    passing = JoinChanges.of(shown.known, committed.records.known, by_ref, joins)
    if shown.relationships is not None:
        shown = replace(shown, relationships=passing.record)

    reserved = [name for _, name in index.custom]
    names = source_names(list(by_ref), index.names, reserved)
    old = None
    if last.tables is not None:
        old_names = source_names([table.ref for table in last.tables], index.names, reserved)
        before = replace(committed.records, described={**adopted, **committed.records.texts})
        entries = before.restricted(last.tables).entries(last.tables, old_names)
        old = passing.without_leaving({physical_name(ref): entry for ref, entry in entries.items()})
    plan = plan_shards(
        committed.schema_folder, shards, index, shown.entries(tables, names, passing.returned), names, old
    )
    reviewed = joins.after(shown.known, plan.shards, by_ref)
    written = _recorded(shown, records)
    return ManifestPlan(
        relationships=shown.known,
        files={
            **plan.files,
            **_raw_files(driver, committed, snapshot),
            **_record_files(written.contents(records, contents), committed),
        },
        shards=plan.shards,
        changes=_changes(last, snapshot, tables, kept, plan.removed),
        linked=_linked_files(driver, plan, committed, snapshot, written),
        removed_texts=_removed_texts(plan, committed),
        reviewed=reviewed,
        gone=gone_joins(joins.edges, reviewed, by_ref, shards, plan.removed),
        warnings=last.warnings,
    )


def adopted_texts(
    refs: Iterable[TableRef], recorded: Mapping[TableRef, Described], shards: Mapping[str, Shard], index: ManifestIndex
) -> dict[TableRef, Described]:
    """Return the texts under the keys of scans that no scan of ours recorded: another program's, or of a lost record.

    They count as generated, and stay until there is a text to take their place. Their hash is empty.
    """
    adopted = {}
    for ref in refs:
        place = index.primary.get(physical_name(ref))
        if ref in recorded or place is None:
            continue
        path, name = place
        described = _described(ref, shards[path].tables[name])
        if described is not None:
            adopted[ref] = described
    return adopted


def _described(ref: TableRef, entry: Entry) -> Described | None:
    """Return the texts of an entry: the model's where there is one, else those of rules."""
    sources: tuple[Source, ...] = ("ai", "rules")
    for source in sources:
        key = TEXT_KEYS[source]
        text = _text(entry, key)
        texts = {str(column.get("name")): _text(column, key) for column in mappings_in(entry, "columns")}
        columns = {name: text for name, text in texts.items() if text is not None}
        if text is not None or columns:
            return Described(ref, "", source, text, columns)
    return None


def _text(fields: Mapping[str, Any], key: str) -> str | None:
    texts = fields.get("descriptions")
    text = texts.get(key) if isinstance(texts, dict) else None
    return text if isinstance(text, str) else None


def _recorded(shown: Records, records: Records) -> Records:
    """Return what goes into the records: no texts of others, and no record where there was none and nothing is new."""
    if records.described is None:
        return replace(shown, described=None)
    return replace(shown, described={ref: each for ref, each in shown.texts.items() if each.hash})


def _removed_texts(plan: ShardPlan, committed: Committed) -> RemovedTexts:
    rewritten = committed.base.read_many(path for path in plan.files if path in committed.shards)
    comments = (path for path, content in rewritten.items() if has_comments(content, path))
    return RemovedTexts(plan.lost, tuple(sorted(comments)))


def _linked_files(
    driver: str, plan: ShardPlan, committed: Committed, snapshot: Mapping[str, SnapshotFile], written: Records
) -> LinkedFiles:
    folder, last = committed.raw_folder, committed.snapshot
    shard_of = {f"{folder}/{table_path(ref)}": shard for ref, shard in plan.shard_of.items()}
    for table in last.tables or ():
        shard = plan.gone_from.get(physical_name(table.ref))
        if shard is not None:
            shard_of[f"{folder}/{table_path(table.ref)}"] = shard
    new = {path: file.sha256 for path, file in snapshot.items()}
    old_texts = committed.records.texts
    return LinkedFiles(committed.connection, driver, folder, shard_of, last.hashes, new, old_texts, written.texts)


def _raw_files(driver: str, committed: Committed, snapshot: Mapping[str, SnapshotFile]) -> dict[str, bytes | None]:
    folder, hashes, existing = committed.raw_folder, committed.snapshot.hashes, committed.files
    files: dict[str, bytes | None] = {
        f"{folder}/{path}": file.content
        for path, file in snapshot.items()
        if hashes.get(path) != file.sha256 or f"{folder}/{path}" not in existing
    }
    wanted = {f"{folder}/{path}" for path in snapshot}
    ours = (f"{folder}/{path}" for path in hashes)
    files.update({path: None for path in ours if path in existing and path not in wanted})
    if files or f"{folder}/{MANIFEST}" not in existing or set(hashes) != set(snapshot):
        text = manifest_text(committed.connection, driver, {p: f.sha256 for p, f in snapshot.items()})
        files[f"{folder}/{MANIFEST}"] = text.encode()
    return files


def _record_files(contents: Mapping[str, bytes], committed: Committed) -> dict[str, bytes | None]:
    """Return the records that change."""
    files = {f"{committed.raw_folder}/{name}": content for name, content in contents.items()}
    last = committed.base.read_many(path for path in files if path in committed.files)
    return {path: content for path, content in files.items() if last.get(path) != content}


def _changes(
    last: Snapshot,
    snapshot: Mapping[str, SnapshotFile],
    tables: Sequence[Table],
    kept: Sequence[Table],
    removed: tuple[str, ...],
) -> TableChanges:
    old = {table.ref: last.hashes[table_path(table.ref)] for table in last.tables or ()}
    new = {table.ref: snapshot[table_path(table.ref)].sha256 for table in tables}
    gone = {physical_name(ref) for ref in old if ref not in new} | set(removed)
    return TableChanges(
        added=_names(ref for ref in new if ref not in old),
        changed=_names(ref for ref in new if ref in old and old[ref] != new[ref]),
        removed=tuple(sorted(gone)),
        kept=_names(table.ref for table in kept),
    )


def _names(refs: Iterable[TableRef]) -> tuple[str, ...]:
    return tuple(sorted(physical_name(ref) for ref in refs))


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
    digest = outcome.digest if files is not None else ""
    counts = (outcome.tables, outcome.columns, json.dumps(outcome.row_estimates))
    row = (outcome.connection, run_id, isoformat(now()), digest, json.dumps(files or {}), *counts)
    with transaction(database):
        database.execute("INSERT OR REPLACE INTO scans VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


def last_scans(database: sqlite3.Connection) -> dict[str, LastScan]:
    """Return connection -> its last scan."""
    rows = database.execute("SELECT connection, run_id, finished, tables, columns FROM scans ORDER BY connection")
    return {row[0]: LastScan(*row) for row in rows}
