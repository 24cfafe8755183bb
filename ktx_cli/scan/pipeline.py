"""The scan of one connection: introspect, profile, infer keys and joins, describe, and plan the manifest's files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ktx_cli.core import (
    Emit,
    ResultWarning,
    StepFinished,
    StepProgress,
    StepStarted,
    ignore_events,
    listing,
    monotonic,
    plural,
)
from ktx_cli.project import Database, Scan
from ktx_cli.scan.committed import Base, Committed, Records
from ktx_cli.scan.depth import Depth
from ktx_cli.scan.descriptions.facts import Described
from ktx_cli.scan.descriptions.port import Describer, DescriptionInput, DescriptionReport
from ktx_cli.scan.descriptions.record import DESCRIPTIONS, updated_record
from ktx_cli.scan.failures import Failures, Stage
from ktx_cli.scan.manifest import plan_manifest
from ktx_cli.scan.outcome import ManifestPlan, PreviousScan, ScanOutcome
from ktx_cli.scan.profile.counts import FAILED, NOT_READ, SampledTable, TableProfile, unsampled
from ktx_cli.scan.profile.profiler import Budget, Profiled, SparingConnector, profile_tables
from ktx_cli.scan.profile.reuse import data_fingerprint, hints_digest, relationships_from_json, relationships_to_json
from ktx_cli.scan.profile.store import ProfileStore, StoredResults, comes_back_equal, shown_to_models
from ktx_cli.scan.profile.values import Dictionary, DictionaryLimits, build_dictionary
from ktx_cli.scan.relationships.hints import GivenHints, HintSource, ViewJoins, recorded_hints, with_origin
from ktx_cli.scan.relationships.model import Discovery
from ktx_cli.scan.relationships.record import RelationshipRecord, restricted, steadied, with_earlier, with_failed_parts
from ktx_cli.scan.relationships.search import discover
from ktx_cli.scan.removed_joins import CommittedJoins
from ktx_cli.scan.shards import is_joinable
from ktx_cli.scan.snapshot import SnapshotFile, table_file
from ktx_cli.scan.warnings import comment_warnings, problem_warnings, unprofiled_warnings
from ktx_cli.semantic import ParsedCopies, physical_name
from ktx_cli.warehouses import Connector, DatabaseSchema, ObjectProblem, Scope, Table, TableKind, TableRef

GENERATOR = 3
"""Raised when the same structure would give other files, so that an unchanged database is written anew once."""


@dataclass(frozen=True, slots=True)
class ScanJob:
    """What to scan, how deep, and what the last scan left. `base`: the committed tree; `copies`: its parsed shards."""

    connection: str
    driver: str
    base: Base
    copies: ParsedCopies
    previous: PreviousScan | None = None
    depth: Depth = Depth.STRUCTURAL
    settings: Scan = field(default_factory=Scan)
    entry: Database | None = None
    """The connection's entry in `ktx.yaml`; hints name it."""
    describer: Describer | None = None
    """Proposes joins and writes descriptions; None where nobody does."""
    store: ProfileStore | None = None
    """Keeps profiles and value lists; None in a dry run, which lists no values and reuses nothing."""
    emit: Emit = ignore_events


@dataclass(frozen=True, slots=True)
class RowResults:
    """What the rows of a database say. `shown`: the profiles as a model may see them."""

    relationships: RelationshipRecord
    profiles: tuple[TableProfile, ...]
    shown: tuple[TableProfile, ...] = ()
    unseen: frozenset[TableRef] = frozenset()
    """Tables that could not be read: what an earlier scan found in them holds."""
    report: DescriptionReport | None = None
    warnings: tuple[ResultWarning, ...] = ()


def scan_connection(connector: Connector, scope: Scope, job: ScanJob) -> ScanOutcome:
    """Introspect, profile, infer keys and joins, describe, and plan the files that change.

    No file of the project is written, and no shard is parsed where nothing changed. A stage that fails unexpectedly
    leaves its part as the last scan had it, and is among the outcome's `failures`.

    Raises `SourceError` when the database cannot be read, `ConfigError` when a committed shard is broken.
    """
    failures = Failures()
    committed = Committed(job.base, job.connection, job.copies)
    schema = connector.introspect(scope)
    rows = _scan_rows(job, connector, schema.tables, committed.records.known, failures)
    records = _with_relationships(committed.records, rows, schema, failures)
    records, texts, report = _describe(job, committed, schema, records, rows, failures)
    contents = records.contents()
    digest = _digest(job.driver, map(table_file, schema.tables), schema.problems, contents)
    if job.previous is not None and (job.previous.digest, job.previous.files) == (digest, committed.files):
        plan = _unchanged(committed, schema, records, rows)
    else:
        plan = plan_manifest(job.connection, job.driver, schema, committed, records, texts, contents)
    warnings = [*committed.warnings, *(rows.warnings if rows else ()), *plan.warnings]
    if not schema.tables:
        warnings += _nothing_to_read(job, connector, scope)
    with failures.stage(Stage.DIAGNOSTICS):
        warnings += problem_warnings(job.connection, schema.problems)
        warnings += comment_warnings(job.connection, plan.shards, plan.changes)
    return ScanOutcome(
        job.connection,
        job.driver,
        digest,
        plan,
        tables=len(schema.tables),
        columns=sum(len(table.columns) for table in schema.tables),
        views=sum(table.kind is not TableKind.TABLE for table in schema.tables),
        declared=_declared_keys(schema.tables),
        row_estimates={physical_name(t.ref): t.row_estimate for t in schema.tables if t.row_estimate is not None},
        problems=schema.problems,
        has_rows=rows is not None,
        profiles=rows.profiles if rows else (),
        descriptions=report,
        warnings=tuple(warnings),
        failures=failures.found(),
    )


def _scan_rows(
    job: ScanJob, connector: Connector, tables: Sequence[Table], record: RelationshipRecord, failures: Failures
) -> RowResults | None:
    """Profile the tables, infer keys and joins, and list values; of a stage that failed the `record` holds.

    Where neither the data nor the hints changed since the last scan, its results are returned and no row is read.
    """
    if job.depth is Depth.STRUCTURAL:
        return None
    with failures.stage(Stage.RELATIONSHIPS):
        hints, report, fingerprint = None, None if job.describer is None else job.describer.report, None
        last: tuple[StoredResults, tuple[TableProfile, ...]] | None = None
        with failures.stage(Stage.REUSE):
            fingerprint = None if job.store is None else data_fingerprint(connector, tables, job.settings)
            last = None if job.store is None or fingerprint is None else job.store.last(fingerprint)
        if last is not None:
            hints, report = _hints(job, tables, last[1], record, report, failures)
            if hints_digest(hints) == last[0].hints:
                return replace(_reused(job, connector, *last, record, failures), report=report)
        until = monotonic() + job.settings.budget.seconds
        profiled = _profile(job, connector, tables, failures)
        shown = () if job.describer is None else shown_to_models(profiled.tables, job.settings.privacy)
        if hints is None:
            hints, report = _hints(job, tables, shown, record, report, failures)
        unread = [each.profile.ref for each in profiled.tables if each.profile.problem == NOT_READ]
        sparing: Connector = SparingConnector(connector, unread) if unread else connector
        discovery = _infer(job, sparing, tables, profiled, hints, record, until, failures)
        found = with_failed_parts(RelationshipRecord(discovery.keys, discovery.edges), record, failures.found())
        results = _row_results(job, connector, profiled, found, record, shown, failures)
        warnings = [*results.warnings, *_unchecked_warnings(job.connection, discovery)]
        if job.store is not None:
            reusable = None
            if fingerprint is not None and monotonic() < until and not discovery.problems and not failures.noted:
                with failures.stage(Stage.REUSE):
                    reusable = _reusable(fingerprint, hints, found, profiled)
            with failures.stage(Stage.STORE):
                warnings += _store_values(job, job.store, connector, sparing, tables, profiled, reusable, failures)
        return replace(results, report=report, warnings=tuple(warnings))
    return None


def _reused(
    job: ScanJob,
    connector: Connector,
    last: StoredResults,
    profiles: tuple[TableProfile, ...],
    record: RelationshipRecord,
    failures: Failures,
) -> RowResults:
    """Return the results of the last scan, which read the same data."""
    job.emit(StepStarted("profile", job.connection))
    summary = f"{plural(len(profiles), 'table')}, nothing changed since the last look"
    job.emit(StepFinished("profile", summary, 0.0, job.connection))
    not_read = sum(each.problem == NOT_READ for each in profiles)
    profiled = Profiled(tuple(map(SampledTable, profiles)), 0, 0, not_read=not_read)
    shown = () if job.describer is None else profiles
    return _row_results(job, connector, profiled, relationships_from_json(last.relationships), record, shown, failures)


def _row_results(
    job: ScanJob,
    connector: Connector,
    profiled: Profiled,
    found: RelationshipRecord,
    record: RelationshipRecord,
    shown: tuple[TableProfile, ...],
    failures: Failures,
) -> RowResults:
    profiles = tuple(each.profile for each in profiled.tables)
    warnings: tuple[ResultWarning, ...] = ()
    with failures.stage(Stage.DIAGNOSTICS):
        warnings = tuple(unprofiled_warnings(job.connection, connector, profiled))
    unread = frozenset(each.ref for each in profiles if each.problem == NOT_READ)
    # The tables that took no part in the inference of joins because of a failure.
    failed = frozenset(
        each.table for each in failures.found() if each.stage is Stage.RELATIONSHIPS and each.table is not None
    )
    return RowResults(
        relationships=with_earlier(found, record, unread),
        profiles=profiles,
        shown=shown,
        unseen=(frozenset(each.ref for each in profiles if each.problem is not None) - unread) | failed,
        warnings=warnings,
    )


def _hints(
    job: ScanJob,
    tables: Sequence[Table],
    shown: Sequence[TableProfile],
    record: RelationshipRecord,
    report: DescriptionReport | None,
    failures: Failures,
) -> tuple[GivenHints, DescriptionReport | None]:
    """Return the joins that the record or the model propose."""
    if job.describer is not None and report is not None and job.settings.relationships.enabled:
        with failures.stage(Stage.PROPOSALS):
            return job.describer.propose(tables, shown, record, report)
    return GivenHints(recorded_hints(record)), report


def _profile(job: ScanJob, connector: Connector, tables: Sequence[Table], failures: Failures) -> Profiled:
    job.emit(StepStarted("profile", job.connection))
    started, relationships = monotonic(), job.settings.relationships
    profiled = Profiled(tuple(unsampled(table, FAILED) for table in tables), 0, 0)
    with failures.stage(Stage.PROFILE):
        profiled = profile_tables(
            connector,
            tables,
            Budget(
                rows=relationships.profile_sample_rows,
                bytes=job.settings.budget.megabytes * 1024 * 1024,
                seconds=float(job.settings.budget.seconds),
                concurrency=relationships.profile_concurrency,
                views=job.settings.views,
            ),
            lambda done, total: job.emit(StepProgress("profile", done, total, job.connection)),
            last=None if job.store is None else job.store.profiled_at(),
            failures=failures,
        )
    summary = f"{plural(len(tables), 'table')}, {plural(profiled.statements, 'statement')}"
    job.emit(StepFinished("profile", summary, monotonic() - started, job.connection))
    return profiled


def _infer(
    job: ScanJob,
    connector: Connector,
    tables: Sequence[Table],
    profiled: Profiled,
    hints: GivenHints,
    record: RelationshipRecord,
    until: float,
    failures: Failures,
) -> Discovery:
    """Infer keys and joins; what cannot be checked `until` then is put up for review; else the record holds."""
    with failures.stage(Stage.RELATIONSHIPS):
        if not job.settings.relationships.enabled:
            return Discovery({}, ())
        job.emit(StepStarted("relationships", job.connection))
        started = monotonic()
        sources: list[HintSource] = [ViewJoins(connector.dialect), hints]
        discovery = discover(
            connector,
            tables,
            profiled.tables,
            job.settings.relationships,
            sources,
            seconds=max(0.0, until - started),
            failures=failures,
        )
        summary = f"{plural(len(discovery.accepted()), 'join')} among {plural(len(discovery.edges), 'candidate')}"
        job.emit(StepFinished("relationships", summary, monotonic() - started, job.connection))
        # That a spared table was not asked is said once, for all of them.
        return replace(discovery, problems=tuple(each for each in discovery.problems if NOT_READ not in each))
    return Discovery(dict(record.keys), record.edges)


def _unchecked_warnings(connection: str, discovery: Discovery) -> list[ResultWarning]:
    if not discovery.problems:
        return []
    message = f"connection `{connection}`: some joins could not be checked: {listing(discovery.problems)}"
    return [ResultWarning("not_checked", message, connection=connection)]


def _reusable(
    fingerprint: str, hints: GivenHints, found: RelationshipRecord, profiled: Profiled
) -> StoredResults | None:
    """Return the results for the next scan; None where not everything was read, or not everything comes back equal."""
    profiles = [each.profile for each in profiled.tables]
    unread = (column.problem for each in profiles for column in each.columns)
    if any(each.problem not in (None, NOT_READ) for each in profiles) or any(unread):
        return None
    text = relationships_to_json(found)
    return None if text is None else StoredResults(fingerprint, hints_digest(hints), text)


def _store_values(
    job: ScanJob,
    store: ProfileStore,
    connector: Connector,
    sparing: Connector,
    tables: Sequence[Table],
    profiled: Profiled,
    reusable: StoredResults | None,
    failures: Failures,
) -> list[ResultWarning]:
    """List the values of columns of few values, store them with the profiles, and warn of lists that failed.

    The results are kept for the next scan where all was read, within the time and from the same data. A table whose
    lists fail unexpectedly keeps those it has.
    """
    job.emit(StepStarted("values", job.connection))
    started = monotonic()
    until = started + job.settings.budget.seconds
    dictionary = build_dictionary(
        sparing,
        tables,
        profiled.tables,
        privacy=job.settings.privacy,
        limits=DictionaryLimits(),
        deadline=until,
        failures=failures,
    )
    failed = {each.table for each in failures.noted if each.stage is Stage.VALUES}
    failed |= {each.profile.ref for each in profiled.tables if each.profile.problem == FAILED}
    if failed:
        kept = tuple(each for each in store.lists() if each.ref in failed)
        dictionary = replace(dictionary, columns=(*dictionary.columns, *kept))
    complete = monotonic() < until and not failed and not dictionary.problems
    if reusable is not None and not (complete and _comes_back(job, profiled)):
        reusable = None
    if reusable is not None and data_fingerprint(connector, tables, job.settings) != reusable.fingerprint:
        reusable = None
    store.save(profiled.tables, dictionary, reusable)
    summary = f"{plural(len(dictionary.columns), 'list')}, {len(dictionary.hidden)} withheld"
    job.emit(StepFinished("values", summary, monotonic() - started, job.connection))
    return _unlisted_warnings(job.connection, dictionary)


def _comes_back(job: ScanJob, profiled: Profiled) -> bool:
    """Whether the profiles as a model may see them can be read back as they are."""
    return all(map(comes_back_equal, shown_to_models(profiled.tables, job.settings.privacy)))


def _unlisted_warnings(connection: str, dictionary: Dictionary) -> list[ResultWarning]:
    if not dictionary.problems:
        return []
    unread = listing(f"{problem.ref}: {problem.message}" for problem in dictionary.problems)
    message = f"connection `{connection}`: some lists of values could not be read: {unread}"
    return [ResultWarning("values_not_listed", message, connection=connection)]


def _with_relationships(
    records: Records, rows: RowResults | None, schema: DatabaseSchema, failures: Failures
) -> Records:
    """Return the records with the keys and joins that were found, and the old ones of tables that nobody could read."""
    if rows is not None:
        with failures.stage(Stage.RELATIONSHIPS):
            old, present = records.known, {table.ref for table in schema.tables}
            missing = {ref for edge in old.edges for ref in (edge.child, edge.parent)} | set(old.keys)
            found = steadied(with_origin(rows.relationships), old, rows.unseen | (missing - present))
            return replace(records, relationships=found)
    return records


def _describe(
    job: ScanJob,
    committed: Committed,
    schema: DatabaseSchema,
    records: Records,
    rows: RowResults | None,
    failures: Failures,
) -> tuple[Records, tuple[Described, ...], DescriptionReport | None]:
    """Return the records with the texts there are now, and the texts; a table without a new one keeps its old text."""
    describer = job.describer
    if describer is None:
        return records, (), None
    report = (rows.report if rows else None) or describer.report
    if DESCRIPTIONS not in records.broken:
        with failures.stage(Stage.DESCRIPTIONS):
            tables = committed.all_tables(schema)
            known = restricted(records.known, {table.ref: table for table in tables})
            shown = rows.shown if rows else ()
            wanted = DescriptionInput(tables, known, shown, records.texts, lambda: committed.texts(tables))
            texts, done = describer.describe(wanted, report)
            described = updated_record(records.texts, texts, tables) or records.described
            return replace(records, described=described), tuple(texts), done
    return records, (), report


def _unchanged(committed: Committed, schema: DatabaseSchema, records: Records, rows: RowResults | None) -> ManifestPlan:
    """Return the plan of a scan that changes no file; the edges are reviewed where rows were read."""
    if rows is None:
        return ManifestPlan(records.known)
    tables = {table.ref: table for table in schema.tables}
    reviewed = CommittedJoins(committed).after(committed.records.known, committed.shards, tables)
    return ManifestPlan(records.known, reviewed=reviewed)


def _nothing_to_read(job: ScanJob, connector: Connector, scope: Scope) -> list[ResultWarning]:
    from ktx_cli.warehouses import access_gap

    gap = None if job.entry is None else access_gap(job.connection, job.entry, connector.test(scope))
    if gap is None:
        return []
    message = f"connection `{job.connection}`: {gap.message}"
    return [ResultWarning("nothing_to_read", message, hint=gap.hint, connection=job.connection)]


def _digest(
    driver: str, files: Iterable[SnapshotFile], problems: Sequence[ObjectProblem], contents: Mapping[str, bytes]
) -> str:
    facts: list[Any] = [GENERATOR, driver, sorted((file.path, file.sha256) for file in files)]
    facts.append(sorted((str(problem.ref), problem.what) for problem in problems))
    facts.append(sorted((name, hashlib.sha256(content).hexdigest()) for name, content in contents.items()))
    return hashlib.sha256(json.dumps(facts).encode("utf-8", "surrogatepass")).hexdigest()


def _declared_keys(tables: Sequence[Table]) -> int:
    by_ref = {table.ref: table for table in tables}
    return sum(is_joinable(key, by_ref) for table in tables for key in table.foreign_keys)
