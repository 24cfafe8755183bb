"""One scan of one connection: introspect, look at the rows, compare with the last snapshot, plan what changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ktx_cli.core import ResultWarning
from ktx_cli.scan.carry import Losses, Ties, adopted_texts, has_comments
from ktx_cli.scan.committed import (
    DESCRIPTIONS,
    MANIFEST,
    Base,
    Before,
    Committed,
    Records,
    SnapshotFile,
    carried_over,
    manifest_text,
    require_some_tables,
    table_file,
    table_path,
)
from ktx_cli.scan.descriptions.facts import Described, Join, KnownTexts, TableFacts, gather_facts
from ktx_cli.scan.descriptions.record import updated_record
from ktx_cli.scan.failures import Failures, Stage, StageFailure
from ktx_cli.scan.findings import Knowledge, restricted, steadied
from ktx_cli.scan.profile.counts import TableProfile
from ktx_cli.scan.relationships.hints import with_origin
from ktx_cli.scan.removed_joins import GoneJoin, Passage, Stood, gone_joins, gone_warnings
from ktx_cli.scan.review import ReviewedEdge, counted
from ktx_cli.scan.shards import Places, ShardPlan, is_joinable, plan_shards
from ktx_cli.semantic import ParsedCopies, Shard, physical_name, source_names
from ktx_cli.warehouses import Connector, DatabaseSchema, ObjectProblem, Scope, Table, TableKind, TableRef

GENERATOR = 3
"""Raised when the same structure would give other files, so that an unchanged database is written anew once."""


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
    describe: Describe | None = None,
) -> ScanOutcome:
    """Introspect, look at the rows (None: only at the structure), describe (None: not now), and plan.

    Nothing is written; nothing of the shards is parsed when nothing changed. A stage that fails unexpectedly leaves its
    part as the last scan had it, and is among the outcome's `failures`.

    Raises `SourceError` when the database cannot be read, `ConfigError` when a committed shard is broken.
    """
    committed = Committed(base, connection, copies)
    schema = connector.introspect(scope)
    snapshot = {file.path: file for file in map(table_file, schema.tables)}
    record, noted = committed.read_records
    failures, findings, learned = Failures(), None, Learned(record)
    if look is not None:
        with failures.stage(Stage.RELATIONSHIPS):
            findings = look(connector, schema.tables, record.known)
            learned = Learned.of(record, findings, schema)
            failures.noted += findings.failures
    if describe is not None and DESCRIPTIONS not in record.broken:
        with failures.stage(Stage.DESCRIPTIONS):
            learned = learned.described(describe, committed, schema, findings)
    contents = learned.records.contents()
    outcome = ScanOutcome(
        connection=connection,
        driver=driver,
        digest=_digest(driver, snapshot, schema.problems, contents),
        tables=len(schema.tables),
        columns=sum(len(table.columns) for table in schema.tables),
        problems=schema.problems,
        row_estimates=_row_estimates(schema.tables),
        knowledge=learned.records.known,
        looked=findings is not None,
        views=sum(table.kind is not TableKind.TABLE for table in schema.tables),
        declared=_declared_keys(schema.tables),
        profiles=findings.profiles if findings else (),
        warnings=(*noted, *(findings.warnings if findings else ())),
        failures=failures.found(),
    )
    if previous is not None and previous.digest == outcome.digest and previous.files == committed.files:
        outcome.unchanged = True
    else:
        _plan(outcome, schema, snapshot, committed, learned, contents)
    if outcome.looked and outcome.unchanged:
        now = {table.ref: table for table in schema.tables}
        outcome.reviewed = Stood(committed).after(record.known, committed.shards, now)
    return outcome


def _plan(
    outcome: ScanOutcome,
    schema: DatabaseSchema,
    snapshot: dict[str, SnapshotFile],
    committed: Committed,
    learned: Learned,
    contents: Mapping[str, bytes],
) -> None:
    before, shards = committed.before, committed.shards
    outcome.warnings += before.warnings
    require_some_tables(outcome.connection, schema, before.tables or ())
    tables, kept = carried_over(schema, before.tables or ())
    snapshot.update({file.path: file for file in map(table_file, tables)})
    refs = list(dict.fromkeys(table.ref for table in (*tables, *(before.tables or ()))))
    places = Places.find(shards, refs)
    foreign = adopted_texts(refs, committed.records.texts, shards, places)
    stood, by_ref = Stood(committed), {table.ref: table for table in tables}
    new = _shown(learned, foreign, committed.records.texts, tables)
    passage = Passage.of(new.known, committed.records.known, by_ref, stood)
    if new.knowledge is not None:
        new = replace(new, knowledge=passage.known)
    outcome.knowledge = new.known

    reserved = [name for _, name in places.own]
    names = source_names([table.ref for table in tables], places.used, reserved)
    old = None
    if before.tables is not None:
        old_names = source_names([table.ref for table in before.tables], places.used, reserved)
        last = _with_texts(committed.records, foreign).restricted(before.tables).entries(before.tables, old_names)
        old = passage.without_leaving({physical_name(ref): entry for ref, entry in last.items()})
    plan = plan_shards(
        committed.schema_folder, shards, places, new.entries(tables, names, passage.returned), names, old
    )
    outcome.shards = plan.shards
    outcome.losses = _losses(plan, committed)
    outcome.reviewed = stood.after(new.known, plan.shards, by_ref)
    outcome.gone = gone_joins(stood.edges, outcome.reviewed, by_ref, shards, plan.removed)
    written = _recorded(new, learned)
    outcome.ties = _ties(outcome, plan, committed, snapshot, written)
    raw = _raw_files(outcome, committed, snapshot)
    outcome.files = {**plan.files, **raw, **_record_files(written.contents(learned.records, contents), committed)}
    outcome.difference = _difference(before, snapshot, tables, kept, plan.removed)
    outcome.unchanged = not outcome.files


def _with_texts(records: Records, foreign: Mapping[TableRef, Described]) -> Records:
    return replace(records, described={**foreign, **records.texts})


def _shown(
    learned: Learned,
    foreign: Mapping[TableRef, Described],
    old: Mapping[TableRef, Described],
    tables: Sequence[Table],
) -> Records:
    """Return what the manifest shows: where no text takes their place, those of others too."""
    known = learned.records.restricted(tables)
    return replace(known, described=updated_record({**foreign, **old}, learned.texts, tables))


def _recorded(shown: Records, learned: Learned) -> Records:
    """Return what goes into the records: no texts of others, and no record where there was none and nothing is new."""
    if learned.records.described is None:
        return replace(shown, described=None)
    return replace(shown, described={ref: each for ref, each in shown.texts.items() if each.hash})


def _losses(plan: ShardPlan, committed: Committed) -> Losses:
    rewritten = committed.base.read_many(path for path in plan.files if path in committed.shards)
    comments = (path for path, content in rewritten.items() if has_comments(content, path))
    return Losses(plan.lost, tuple(sorted(comments)))


def _ties(
    outcome: ScanOutcome,
    plan: ShardPlan,
    committed: Committed,
    snapshot: Mapping[str, SnapshotFile],
    written: Records,
) -> Ties:
    folder, before = committed.raw_folder, committed.before
    shard_of = {f"{folder}/{table_path(ref)}": shard for ref, shard in plan.shard_of.items()}
    for table in before.tables or ():
        shard = plan.gone_from.get(physical_name(table.ref))
        if shard is not None:
            shard_of[f"{folder}/{table_path(table.ref)}"] = shard
    new = {path: file.sha256 for path, file in snapshot.items()}
    old_texts = committed.records.texts
    return Ties(outcome.connection, outcome.driver, folder, shard_of, before.hashes, new, old_texts, written.texts)


def _raw_files(
    outcome: ScanOutcome, committed: Committed, snapshot: Mapping[str, SnapshotFile]
) -> dict[str, bytes | None]:
    folder, hashes, there = committed.raw_folder, committed.before.hashes, committed.files
    files: dict[str, bytes | None] = {
        f"{folder}/{path}": file.content
        for path, file in snapshot.items()
        if hashes.get(path) != file.sha256 or f"{folder}/{path}" not in there
    }
    wanted = {f"{folder}/{path}" for path in snapshot}
    ours = (f"{folder}/{path}" for path in hashes)
    files.update({path: None for path in ours if path in there and path not in wanted})
    if files or f"{folder}/{MANIFEST}" not in there or set(hashes) != set(snapshot):
        text = manifest_text(outcome.connection, outcome.driver, {p: f.sha256 for p, f in snapshot.items()})
        files[f"{folder}/{MANIFEST}"] = text.encode()
    return files


def _record_files(contents: Mapping[str, bytes], committed: Committed) -> dict[str, bytes | None]:
    """Return the records that change."""
    files = {f"{committed.raw_folder}/{name}": content for name, content in contents.items()}
    before = committed.base.read_many(path for path in files if path in committed.files)
    return {path: content for path, content in files.items() if before.get(path) != content}


def _difference(
    before: Before,
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
    driver: str,
    snapshot: Mapping[str, SnapshotFile],
    problems: Sequence[ObjectProblem],
    contents: Mapping[str, bytes],
) -> str:
    facts: list[Any] = [GENERATOR, driver, sorted((path, file.sha256) for path, file in snapshot.items())]
    facts.append(sorted((str(problem.ref), problem.what) for problem in problems))
    facts.append(sorted((name, hashlib.sha256(content).hexdigest()) for name, content in contents.items()))
    return hashlib.sha256(json.dumps(facts).encode("utf-8", "surrogatepass")).hexdigest()


def _declared_keys(tables: Sequence[Table]) -> int:
    by_ref = {table.ref: table for table in tables}
    return sum(is_joinable(key, by_ref) for table in tables for key in table.foreign_keys)


def _row_estimates(tables: Sequence[Table]) -> dict[str, int]:
    return {physical_name(table.ref): table.row_estimate for table in tables if table.row_estimate is not None}


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


@dataclass(frozen=True, slots=True)
class Findings:
    """What a look at the rows found: keys and edges; `unseen`: tables that could not be looked at.

    `told`: the profiles as a model may be told them. `failures`: the stages that failed, whose part is as it was.
    """

    knowledge: Knowledge
    unseen: frozenset[TableRef] = frozenset()
    warnings: tuple[ResultWarning, ...] = ()
    profiles: tuple[TableProfile, ...] = ()
    told: tuple[TableProfile, ...] = ()
    failures: tuple[StageFailure, ...] = ()


class Look(Protocol):
    """Looks at the rows of tables."""

    def __call__(self, connector: Connector, tables: Sequence[Table], record: Knowledge) -> Findings:
        """Return what was found; `record`: what earlier scans did. Raises `SourceError` when the source is gone."""
        ...


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is to describe. `recorded`: texts of earlier scans; `texts`: people's, read when they are needed."""

    tables: Sequence[Table]
    knowledge: Knowledge
    profiles: Sequence[TableProfile]
    recorded: Mapping[TableRef, Described]
    texts: Callable[[], Mapping[TableRef, KnownTexts]]

    def facts(self, texts: Mapping[TableRef, KnownTexts] | None = None) -> list[TableFacts]:
        """Return the facts of every table, its accepted joins among them."""
        accepted = (
            Join(edge.child, edge.child_columns, edge.parent, edge.parent_columns) for edge in self.knowledge.accepted()
        )
        profiles = {profile.ref: profile for profile in self.profiles}
        return gather_facts(self.tables, profiles=profiles, accepted=accepted, texts=texts)


class Describe(Protocol):
    """Describes tables and columns."""

    def __call__(self, seen: Seen) -> Sequence[Described]:
        """Return the texts there are now, of earlier answers too; a table without one keeps its old text."""
        ...


@dataclass(frozen=True, slots=True)
class Learned:
    """What is known now. `texts`: what was said of tables in this scan."""

    records: Records
    texts: tuple[Described, ...] = ()

    @classmethod
    def of(cls, record: Records, findings: Findings | None, schema: DatabaseSchema) -> Learned:
        """Take what was found, and the record's words on tables that nobody could look at."""
        if findings is None:
            return cls(record)
        seen = {table.ref for table in schema.tables}
        old = record.known
        missing = {ref for edge in old.edges for ref in (edge.child, edge.parent)} | set(old.keys)
        known = steadied(with_origin(findings.knowledge), old, findings.unseen | (missing - seen))
        return cls(replace(record, knowledge=known))

    def described(
        self, describe: Describe, committed: Committed, schema: DatabaseSchema, findings: Findings | None
    ) -> Learned:
        """Have the tables described; a table of which nothing new is said keeps its old text."""
        tables, old = committed.all_tables(schema), self.records.texts
        known = restricted(self.records.known, {table.ref: table for table in tables})
        told = findings.told if findings else ()
        texts = tuple(describe(Seen(tables, known, told, old, lambda: committed.texts(tables))))
        updated = updated_record(old, texts, tables)
        return Learned(replace(self.records, described=updated or self.records.described), texts)
