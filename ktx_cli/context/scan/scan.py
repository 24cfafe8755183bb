"""One scan of one connection: introspect, look at the rows, compare with the last snapshot, plan what changes."""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ktx_cli.connectors.port import Connector, DatabaseSchema, ObjectProblem, Scope, Table, TableRef
from ktx_cli.context.scan.carry import carried_over, require_some_tables
from ktx_cli.context.scan.catalog import ParsedCopies
from ktx_cli.context.scan.knowledge import FILE as RECORD
from ktx_cli.context.scan.knowledge import Knowledge, read_record, record_text, restricted, steadied
from ktx_cli.context.scan.losses import Losses, has_comments
from ktx_cli.context.scan.manifest import Entry, entries
from ktx_cli.context.scan.names import physical_name, source_names
from ktx_cli.context.scan.profiling.model import TableProfile
from ktx_cli.context.scan.shards import SUFFIXES, Places, Shard, ShardPlan, plan_shards
from ktx_cli.context.scan.snapshot import (
    MANIFEST,
    SnapshotFile,
    manifest_hashes,
    manifest_text,
    read_table,
    table_file,
    table_path,
)
from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.project.layout import DATABASE_SOURCE, Layout

GENERATOR = 2
"""Raised when the same structure would give other files, so that an unchanged database is written anew once."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What a look at the rows found: keys and edges; `unseen`: tables that could not be looked at."""

    knowledge: Knowledge
    unseen: frozenset[TableRef] = frozenset()
    warnings: tuple[ResultWarning, ...] = ()
    profiles: tuple[TableProfile, ...] = ()


class Look(Protocol):
    """Looks at the rows of tables."""

    def __call__(self, connector: Connector, tables: Sequence[Table]) -> Findings:
        """Return what was found. Raises `SourceError` when the source is gone."""
        ...


class Base(Protocol):
    """The committed tree a scan compares with."""

    def read_many(self, paths: Iterable[str]) -> Mapping[str, bytes]:
        """Return the contents of those paths that exist."""
        ...

    def blobs(self, prefix: str) -> Mapping[str, str]:
        """Return path -> blob id of everything below a folder."""
        ...


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
class Ties:
    """What ties a table's snapshot file to its shard: the next scan tells people's values from generated ones by both.

    So they change together or not at all, and so does the record of what was found, which tells for all tables.
    `shard_of`: snapshot path -> shard path. `old`, `new`: path below `folder` -> sha256, before and after.
    """

    connection: str
    driver: str
    folder: str
    shard_of: Mapping[str, str]
    old: Mapping[str, str]
    new: Mapping[str, str]

    def without(self, files: Mapping[str, bytes | None], held: frozenset[str]) -> dict[str, bytes | None]:
        """Return `files` less what is tied to a held path, with a manifest that says so."""
        manifest, record = f"{self.folder}/{MANIFEST}", f"{self.folder}/{RECORD}"
        if manifest in held or record in held:
            return {}
        shards = {shard for raw, shard in self.shard_of.items() if raw in held} | held
        tied = {raw for raw, shard in self.shard_of.items() if shard in shards}
        kept = {path: content for path, content in files.items() if path not in shards and path not in tied}
        hashes = {path: value for path, value in self.new.items() if f"{self.folder}/{path}" not in tied}
        hashes |= {path: value for path, value in self.old.items() if f"{self.folder}/{path}" in tied}
        if held & set(self.shard_of.values()):
            kept.pop(record, None)
        if manifest in files:
            kept[manifest] = manifest_text(self.connection, self.driver, hashes).encode()
        return kept


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

    def without(self, held: frozenset[str]) -> dict[str, bytes | None]:
        """Return the files that may change while the held paths keep their old content."""
        return self.files if self.ties is None else self.ties.without(self.files, held)

    def removals(self, held: frozenset[str], replaced: Mapping[str, str]) -> list[ResultWarning]:
        """Return what to say of people's words that are gone: nothing of shards that were held back.

        `replaced`: path -> where its old text is kept, of files that have no history.
        """
        return list(self.losses.warnings(self.connection, self.without(held), replaced))


def folders(connection: str) -> tuple[str, str]:
    """Return the two folders a scan writes: the shards and the snapshot."""
    return Layout.schema_path(connection), Layout.raw_path(connection, DATABASE_SOURCE)


def scan_connection(
    connector: Connector,
    scope: Scope,
    *,
    connection: str,
    driver: str,
    base: Base,
    previous: PreviousScan | None,
    copies: ParsedCopies,
    look: Look | None = None,
) -> ScanOutcome:
    """Introspect, look at the rows (None: only at the structure) and plan.

    Nothing is written; nothing of the shards is parsed when nothing changed.

    Raises `SourceError` when the database cannot be read, `ConfigError` when a committed shard is broken.
    """
    schema = connector.introspect(scope)
    snapshot = {file.path: file for file in map(table_file, schema.tables)}
    committed = {path: blob for folder in folders(connection) for path, blob in base.blobs(folder).items()}
    record, noted = _record(base, connection, committed)
    findings = None if look is None else look(connector, schema.tables)
    knowledge = _known(record, findings, schema)
    outcome = ScanOutcome(
        connection=connection,
        driver=driver,
        digest=_digest(driver, snapshot, schema.problems, knowledge),
        tables=len(schema.tables),
        columns=sum(len(table.columns) for table in schema.tables),
        problems=schema.problems,
        row_estimates=_row_estimates(schema.tables),
        knowledge=knowledge,
        looked=findings is not None,
        profiles=findings.profiles if findings else (),
        warnings=(*noted, *(findings.warnings if findings else ())),
    )
    if previous is not None and previous.digest == outcome.digest and previous.files == committed:
        outcome.unchanged = True
        return outcome
    _plan(outcome, schema, snapshot, base, committed, copies, record)
    return outcome


def _record(base: Base, connection: str, committed: Mapping[str, str]) -> tuple[Knowledge, tuple[ResultWarning, ...]]:
    """Return what earlier scans found; a damaged record is named and counts as none."""
    path = f"{folders(connection)[1]}/{RECORD}"
    if path not in committed:
        return Knowledge(), ()
    try:
        return read_record(base.read_many([path])[path], path), ()
    except KtxError as error:
        return Knowledge(), (ResultWarning("broken_record", error.message, hint=error.hint, path=path),)


def _known(record: Knowledge, findings: Findings | None, schema: DatabaseSchema) -> Knowledge:
    """Return what is known now: what was found, and the record's words on tables that nobody could look at."""
    if findings is None:
        return record
    seen = {table.ref for table in schema.tables}
    missing = {ref for edge in record.edges for ref in (edge.child, edge.parent)} | set(record.keys)
    return steadied(findings.knowledge, record, findings.unseen | (missing - seen))


def _plan(
    outcome: ScanOutcome,
    schema: DatabaseSchema,
    snapshot: dict[str, SnapshotFile],
    base: Base,
    committed: Mapping[str, str],
    copies: ParsedCopies,
    record: Knowledge,
) -> None:
    schema_folder, raw_folder = folders(outcome.connection)
    before = _Before.read(base, raw_folder, committed, record)
    outcome.warnings += before.warnings
    require_some_tables(outcome.connection, schema, before.tables or ())
    tables, kept = carried_over(schema, before.tables or ())
    snapshot.update({file.path: file for file in map(table_file, tables)})
    outcome.knowledge = restricted(outcome.knowledge, {table.ref: table for table in tables})

    shards = _read_shards(base, committed, schema_folder, copies)
    places = Places.find(shards, [table.ref for table in (*tables, *(before.tables or ()))])
    reserved = [name for _, name in places.own]
    names = source_names([table.ref for table in tables], places.used, reserved)
    generated = entries(tables, names, outcome.knowledge)
    plan = plan_shards(schema_folder, shards, places, generated, names, before.generated(places.used, reserved))
    outcome.shards = plan.shards
    rewritten = base.read_many(path for path in plan.files if path in shards)
    comments = (path for path, content in rewritten.items() if has_comments(content, path))
    outcome.losses = Losses(plan.lost, tuple(sorted(comments)))
    outcome.ties = _ties(outcome, raw_folder, plan, before, snapshot)
    raw = _raw_files(outcome, raw_folder, snapshot, before.hashes, committed)
    outcome.files = {**plan.files, **raw, **_record_file(outcome, raw_folder, base)}
    outcome.difference = _difference(before, snapshot, tables, kept, plan.removed)
    outcome.unchanged = not outcome.files


@dataclass(frozen=True, slots=True)
class _Before:
    """The last snapshot; `tables` None when there is none that can be read."""

    hashes: dict[str, str]
    tables: tuple[Table, ...] | None
    warnings: tuple[ResultWarning, ...] = ()
    record: Knowledge = field(default_factory=Knowledge)

    @classmethod
    def read(cls, base: Base, folder: str, committed: Mapping[str, str], record: Knowledge) -> _Before:
        where = f"{folder}/{MANIFEST}"
        if where not in committed:
            return cls({}, None)
        try:
            hashes = manifest_hashes(base.read_many([where])[where], where)
            hashes = {path: value for path, value in hashes.items() if f"{folder}/{path}" in committed}
            contents = base.read_many([f"{folder}/{path}" for path in hashes])
            tables = tuple(read_table(content, path) for path, content in contents.items())
            return cls(hashes, tables, record=restricted(record, {table.ref: table for table in tables}))
        except KtxError as error:
            note = ResultWarning("broken_snapshot", f"{error.message}; it is written anew", path=folder)
            return cls({}, None, (note,))

    def generated(self, used: Mapping[str, str], reserved: Iterable[str]) -> dict[str, Entry] | None:
        """Return physical name -> what the last scan generated, with the source names of today."""
        if self.tables is None:
            return None
        names = source_names([table.ref for table in self.tables], used, reserved)
        return {physical_name(ref): entry for ref, entry in entries(self.tables, names, self.record).items()}


def _ties(
    outcome: ScanOutcome, folder: str, plan: ShardPlan, before: _Before, snapshot: Mapping[str, SnapshotFile]
) -> Ties:
    shard_of = {f"{folder}/{table_path(ref)}": shard for ref, shard in plan.shard_of.items()}
    for table in before.tables or ():
        shard = plan.gone_from.get(physical_name(table.ref))
        if shard is not None:
            shard_of[f"{folder}/{table_path(table.ref)}"] = shard
    new = {path: file.sha256 for path, file in snapshot.items()}
    return Ties(outcome.connection, outcome.driver, folder, shard_of, before.hashes, new)


def _read_shards(base: Base, committed: Mapping[str, str], folder: str, copies: ParsedCopies) -> dict[str, Shard]:
    paths = [path for path in committed if posixpath.dirname(path) == folder and path.endswith(SUFFIXES)]
    return {path: copies.parse(content, path) for path, content in base.read_many(paths).items()}


def _raw_files(
    outcome: ScanOutcome,
    folder: str,
    snapshot: Mapping[str, SnapshotFile],
    hashes: Mapping[str, str],
    committed: Mapping[str, str],
) -> dict[str, bytes | None]:
    files: dict[str, bytes | None] = {
        f"{folder}/{path}": file.content
        for path, file in snapshot.items()
        if hashes.get(path) != file.sha256 or f"{folder}/{path}" not in committed
    }
    wanted = {f"{folder}/{path}" for path in snapshot}
    ours = (f"{folder}/{path}" for path in hashes)
    files.update({path: None for path in ours if path in committed and path not in wanted})
    if files or f"{folder}/{MANIFEST}" not in committed or set(hashes) != set(snapshot):
        text = manifest_text(outcome.connection, outcome.driver, {p: f.sha256 for p, f in snapshot.items()})
        files[f"{folder}/{MANIFEST}"] = text.encode()
    return files


def _record_file(outcome: ScanOutcome, folder: str, base: Base) -> dict[str, bytes | None]:
    """Return the record when it changes; a project whose rows nobody looked at has none."""
    path, text = f"{folder}/{RECORD}", record_text(outcome.knowledge)
    before = base.read_many([path]).get(path)
    if before == text or (before is None and not outcome.looked):
        return {}
    return {path: text}


def _difference(
    before: _Before,
    snapshot: Mapping[str, SnapshotFile],
    tables: Sequence[Table],
    kept: Sequence[Table],
    removed: tuple[str, ...],
) -> TableChanges:
    old = {table.ref: before.hashes[table_path(table.ref)] for table in before.tables or ()}
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


def _digest(
    driver: str, snapshot: Mapping[str, SnapshotFile], problems: Sequence[ObjectProblem], knowledge: Knowledge
) -> str:
    facts: list[Any] = [GENERATOR, driver, sorted((path, file.sha256) for path, file in snapshot.items())]
    facts.append(sorted((str(problem.ref), problem.what) for problem in problems))
    facts.append(hashlib.sha256(record_text(knowledge)).hexdigest())
    return hashlib.sha256(json.dumps(facts).encode("utf-8", "surrogatepass")).hexdigest()


def _row_estimates(tables: Sequence[Table]) -> dict[str, int]:
    return {physical_name(table.ref): table.row_estimate for table in tables if table.row_estimate is not None}
