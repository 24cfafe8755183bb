"""The scan of one connection: introspect, profile, infer keys and joins, describe, and plan the manifest files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ktx_cli.core import Emit, KtxError, ResultWarning, ignore_events, listing, monotonic, plural
from ktx_cli.project import Database, Scan
from ktx_cli.scan.committed import Base, Committed, Records
from ktx_cli.scan.decisions.proposals import propose_decisions
from ktx_cli.scan.decisions.record import DECISIONS, FoundPoints, carried, points_bytes, read_points
from ktx_cli.scan.decisions.record import restricted as restricted_points
from ktx_cli.scan.descriptions.facts import DESCRIPTIONS, DescriptionInput, ProposalInput, updated_record
from ktx_cli.scan.measures.proposals import propose_measures
from ktx_cli.scan.measures.record import MEASURES, Proposals, proposals_bytes, read_proposals
from ktx_cli.scan.measures.record import restricted as restricted_measures
from ktx_cli.scan.outcome import (
    PreviousScan,
    ScanOutcome,
    comment_warnings,
    decimal_comma_warnings,
    field_notes,
    plan_manifest,
    plan_record,
    problem_warnings,
    stored_warnings,
    unprofiled_warnings,
)
from ktx_cli.scan.profile.answers import AnswerStore, ProfileCounts, RecallingConnector
from ktx_cli.scan.profile.profiler import (
    Budget,
    Profiled,
    SampledTable,
    SparingConnector,
    TableProfile,
    Unsampled,
    forbids_answers,
    is_excluded,
    profile_tables,
    unsampled,
)
from ktx_cli.scan.profile.reuse import (
    DataEvidence,
    data_fingerprint,
    evidence_of,
    hints_digest,
    read_evidence,
    record_digest,
    relationships_from_json,
    relationships_to_json,
)
from ktx_cli.scan.profile.store import (
    ProfileStore,
    StoredResults,
    comes_back_equal,
    shown_to_models,
    with_restrictions,
    without_restricted,
)
from ktx_cli.scan.profile.values import DictionaryLimits, Recognition, build_dictionary, recognize_columns
from ktx_cli.scan.relationships.discovery import discover
from ktx_cli.scan.relationships.hints import FixedHints, HintSource, ViewJoins, recorded_hints, with_origin
from ktx_cli.scan.relationships.record import (
    Discovery,
    RelationshipRecord,
    restricted,
    steadied,
    with_earlier,
    with_failed_parts,
)
from ktx_cli.scan.removed_joins import DECIDED, CommittedJoins
from ktx_cli.scan.review import JoinStatus
from ktx_cli.scan.shards import is_joinable
from ktx_cli.scan.snapshot import (
    STORED_COLUMNS,
    SnapshotFile,
    StoredColumn,
    StoredColumns,
    carried_columns,
    read_stored_columns,
    restricted_columns,
    stored_columns_bytes,
    table_file,
)
from ktx_cli.scan.stages import Depth, Failures, ScanStep, Stage, connection_warning
from ktx_cli.semantic import ManifestLayout, ParsedCopies, physical_name, plain_on
from ktx_cli.warehouses import (
    Connector,
    DatabaseSchema,
    ObjectProblem,
    Scope,
    Table,
    TableKind,
    TableRef,
    dialect_named,
)

if TYPE_CHECKING:
    from ktx_cli.privacy import Refusal
    from ktx_cli.scan.descriptions.facts import Described, Describer, DescriptionReport
    from ktx_cli.scan.profile.choice import TableChoice
    from ktx_cli.scan.relationships.declarations import KnownSchema
    from ktx_cli.scan.relationships.hints import JoinHint
    from ktx_cli.scan.relationships.record import Evidence, Relationship
    from ktx_cli.scan.relationships.undecided import UndecidedColumn

GENERATOR = 6
"""Increase this number when the files for the same structure change, so that they are written again."""


@dataclass(frozen=True, slots=True)
class ScanJob:
    """What to scan, at what depth, and the last scan. `base`: the committed tree. `copies`: its shards."""

    connection: str
    driver: str
    base: Base
    copies: ParsedCopies
    previous: PreviousScan | None = None
    depth: Depth = Depth.STRUCTURAL
    settings: Scan = field(default_factory=Scan)
    layout: ManifestLayout = ManifestLayout.PER_SCHEMA
    entry: Database | None = None
    """The connection's entry in `ktx.yaml`, which hints refer to."""
    describer: Describer | None = None
    """Writes descriptions, and proposes parents for undecided columns, if configured."""
    store: ProfileStore | None = None
    """Stores profiles and value lists. None in a dry run, which lists no values and reuses no results."""
    declared: Mapping[str, bytes] = field(default_factory=dict)
    """Path -> the declarations of a context source about tables."""
    emit: Emit = ignore_events
    asked: tuple[str, ...] = ()
    """The names of tables to profile again, changed or not."""


@dataclass(frozen=True, slots=True)
class RowResults:
    """The results of reading a database's rows. `shown`: the profiles in the form that a model may see.

    `relationships`: the new record, which keeps old lines without important changes.
    """

    relationships: RelationshipRecord
    profiles: tuple[TableProfile, ...]
    shown: tuple[TableProfile, ...] = ()
    report: DescriptionReport | None = None
    warnings: tuple[ResultWarning, ...] = ()
    stored: StoredColumns | None = None
    """The columns that store another type; None if that could not be found out."""
    reused: StoredResults | None = None
    """The reused results of the last scan if no data has changed; the profiles then have no values."""
    reusable: StoredResults | None = None
    """The results to store for the next scan, without proposals. None if the next scan must read the rows again."""
    connector: RecallingConnector | None = None
    """The connector that has the answers of statements about unchanged tables."""
    counts: ProfileCounts | None = None
    unused: frozenset[TableRef] = frozenset()
    """The tables that `scan.profile` excludes."""
    is_complete: bool = False
    """Whether everything was asked that the results depend on."""


def scan_connection(connector: Connector, scope: Scope, job: ScanJob) -> ScanOutcome:
    """Introspect, profile, infer keys and joins, describe, and plan the files that change.

    No file of the project is written, and no shard is parsed if nothing changed. A stage that fails unexpectedly keeps
    its results of the last scan, and is listed in the outcome's `failures`.

    Raises `SourceError` if the database cannot be read, `ConfigError` if a committed shard is broken.
    """
    failures = Failures()
    committed = Committed(job.base, job.connection, job.copies)
    joins = CommittedJoins(committed)
    schema = connector.introspect(scope)
    rows: RowResults | None = None
    unreadable: list[ResultWarning] = []
    if job.depth is not Depth.STRUCTURAL:
        with failures.stage(Stage.RELATIONSHIPS):
            known = _known_schema(job, connector.dialect, joins, schema.tables, failures, unreadable)
            choice = _table_choice(job, committed, schema.tables)
            unreadable += choice.warnings
            row_scan = _RowScan(job, connector, schema.tables, committed.records.known, known, failures, choice)
            rows = row_scan.run(schema.server_version)
    asked = connector if rows is None or rows.connector is None else rows.connector
    records = committed.records if rows is None else replace(committed.records, relationships=rows.relationships)
    records = _with_stored_columns(records, rows, schema, failures)
    records, measures = _with_measures(job, records, rows, connector, schema, failures)
    records, decisions = _with_decisions(job, records, rows, asked, schema, failures)
    if rows is not None and rows.connector is not None:
        with failures.stage(Stage.STORE):
            rows.connector.finish(is_complete=rows.is_complete and not failures.noted)
    if rows is not None and rows.reusable is not None and records.broken.isdisjoint((MEASURES, DECISIONS)):
        stored = rows.stored or {}
        _keep_results(job, rows.reusable, stored, measures, decisions, connector, schema, rows.unused, failures)
    records, texts, report = _describe(job, committed, schema, records, rows, failures)
    contents = records.contents()
    files = list(map(table_file, schema.tables))
    digest = _digest(job, files, schema.problems, contents)
    written = _changed_record(job, committed, contents, lambda known: _digest(job, files, schema.problems, known))
    if written is not None:
        reviewed = () if rows is None else joins.relationships
        plan = plan_record(job.driver, committed, records.known, written, reviewed)
    else:
        plan = plan_manifest(job.driver, schema, committed, joins, records, texts, contents, job.layout)
    warnings = [*committed.warnings, *unreadable, *(rows.warnings if rows else ()), *plan.warnings]
    if not schema.tables:
        warnings += _nothing_to_read(job, connector, scope)
    with failures.stage(Stage.DIAGNOSTICS):
        warnings += problem_warnings(job.connection, schema.problems)
        warnings += field_notes(job.connection, schema.notes)
        warnings += comment_warnings(job.connection, plan.shards, plan.changes)
        warnings += decimal_comma_warnings(job.connection, rows.profiles if rows else ())
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
        reused=rows is not None and rows.reused is not None,
        counts=rows.counts if rows else None,
        profiles=rows.profiles if rows else (),
        descriptions=report,
        warnings=tuple(warnings),
        failures=failures.found(),
    )


def _table_choice(job: ScanJob, committed: Committed, tables: Sequence[Table]) -> TableChoice:
    """Return which tables to profile first, anew, or not at all."""
    from ktx_cli.scan.profile.choice import choose_tables

    return choose_tables(committed, tables, job.settings.profile, job.asked, job.entry)


def _known_schema(
    job: ScanJob,
    dialect: str,
    joins: CommittedJoins,
    tables: Sequence[Table],
    failures: Failures,
    unreadable: list[ResultWarning],
) -> KnownSchema | None:
    """Return what context sources declare about the tables and what people decided about joins, or None if nothing.

    A file that cannot be read adds a warning to `unreadable`.
    """
    is_inferring = job.settings.relationships.enabled
    with failures.stage(Stage.HINTS):
        decided = tuple(_decided_joins(joins)) if is_inferring else ()
        if not job.declared and not decided:
            return None
        from ktx_cli.scan.relationships.declarations import DecidedJoin, KnownSchema, read_declarations, resolved

        declared = []
        for path, content in sorted(job.declared.items()):
            try:
                declared.append(read_declarations(content, path))
            except KtxError as error:
                unreadable.append(ResultWarning("broken_declarations", error.message, hint=error.hint, path=path))
        known = resolved(declared, tables, (), (job.connection, dialect))
        if not is_inferring:
            return KnownSchema(restricted=known.restricted)
        stated = {(each.child, each.child_columns, each.parent, each.parent_columns) for each in known.hints}
        by_people = (
            DecidedJoin(each.child, each.child_columns[0], each.parent, each.parent_columns[0], accepted, is_written)
            for each, accepted, is_written in decided
            if not accepted or each.id[:4] not in stated
        )
        return replace(known, decided=tuple(sorted(by_people, key=repr)))
    return None


def _repeated_key_warnings(
    connection: str, known: KnownSchema | None, profiles: Iterable[TableProfile]
) -> Iterator[ResultWarning]:
    """Yield a warning for each column that a context source declares unique and whose values repeat."""
    if known is None:
        return
    for profile in profiles if known.keys else ():
        declared = {key[0].casefold() for key in known.keys.get(profile.ref, ()) if len(key) == 1}
        for column in profile.columns:
            if column.name.casefold() in declared and column.distinct is not None and column.distinct < column.filled:
                name = f"{physical_name(profile.ref)}.{column.name}"
                message = f"a context source declares {name} unique, but values repeat, so it is not used as a key"
                yield connection_warning("declared_key_repeats", connection, message)


def _decided_joins(joins: CommittedJoins) -> Iterator[tuple[Relationship, bool, bool]]:
    """Yield the joins of single columns that people accepted or rejected, and whether they accepted them.

    The last value is whether the files state the decision, unlike that to remove a join from them.

    A join that people replaced with one of their own to the same table counts as neither.
    """
    for each in joins.relationships:
        if each.status not in DECIDED:
            continue
        found, join = each.relationship, each.joins[0].join
        overlays = joins.authored.overlays_of(each.joins[0].source)
        own = {to for overlay in overlays for to, on in overlay.joins if on != plain_on(join["on"])}
        is_accepted = each.status is JoinStatus.MANUAL
        is_written = is_accepted or any(each.joins[0].on in overlay.disabled for overlay in overlays)
        is_replaced = not is_accepted and str(join["to"]) in own
        if len(found.child_columns) == 1 and found.condition is None and not is_replaced:
            yield found, is_accepted, is_written


@dataclass(slots=True)
class _JoinQuestions:
    """The questions about undecided columns in one scan. `shown`: the profiles in the form that a model may see.

    `seconds`: the time that the answers took, which is not that of the database.
    """

    job: ScanJob
    tables: Sequence[Table]
    failures: Failures
    shown: Sequence[TableProfile] = ()
    report: DescriptionReport | None = field(init=False)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.report = None if self.job.describer is None else self.job.describer.report

    @property
    def version(self) -> str | None:
        """The version of the questions, or None if nobody is asked."""
        proposer = None if self.job.describer is None else self.job.describer.proposer
        return None if proposer is None or not self.job.settings.relationships.enabled else proposer.version

    @property
    def is_unanswered(self) -> bool:
        """Whether calls failed, so that the next scan has to ask again."""
        return self.report is not None and bool(self.report.unproposed)

    def ask(self, undecided: Sequence[UndecidedColumn]) -> Sequence[JoinHint]:
        """Return hints of the answers about undecided columns, or none if this fails."""
        hints: Sequence[JoinHint] = ()
        started, describer = monotonic(), self.job.describer
        with self.failures.stage(Stage.PROPOSALS):
            if describer is not None and describer.proposer is not None and self.report is not None:
                given = ProposalInput(self.tables, self.shown, undecided)
                hints, self.report = describer.proposer.propose(given, self.report)
        self.seconds += monotonic() - started
        return hints


@dataclass(frozen=True, slots=True)
class _RowScan:
    """Profiles tables, infers keys and joins, and lists values. If a stage fails, its results come from `record`."""

    job: ScanJob
    connector: Connector
    tables: Sequence[Table]
    record: RelationshipRecord
    known: KnownSchema | None
    failures: Failures
    choice: TableChoice

    def run(self, version: str | None) -> RowResults:
        """Return the results. No row is read if data, hints and the record have not changed since the last scan.

        `version`: of the server.
        """
        job, store, settings = self.job, self.job.store, self.job.settings
        questions = _JoinQuestions(job, self.tables, self.failures)
        hints, fingerprint = FixedHints(()), None
        with self.failures.stage(Stage.PROPOSALS):
            hints = FixedHints(recorded_hints(self.record))
        last: tuple[StoredResults, tuple[TableProfile, ...]] | None = None
        evidence: DataEvidence | None = None
        with self.failures.stage(Stage.REUSE):
            if store is not None:
                evidence = read_evidence(self.connector, self.tables)
                dialect, unused = self.connector.dialect, self.choice.unused
                fingerprint = data_fingerprint(evidence, dialect, self.tables, settings, unused)
                last = None if fingerprint is None else store.last(fingerprint)
        if (
            last is not None
            and not self.choice.asked
            and last[0].hints == hints_digest(hints, questions.version, self.known)
        ):
            reused = self._reused(*last)
            if reused is not None:
                return replace(reused, report=questions.report)
        recalling = self._recalling(version, evidence)
        try:
            results = self._read(recalling, hints, fingerprint, questions)
        except BaseException:
            recalling.flush()  # A run that is stopped goes on from here.
            raise
        return replace(results, report=questions.report, connector=recalling)

    def _recalling(self, version: str | None, evidence: DataEvidence | None) -> RecallingConnector:
        """Return the connector that only sends statements about changed tables."""
        store, settings = self.job.store, self.job.settings
        restricted = {} if self.known is None else self.known.restricted
        return RecallingConnector(
            self.connector,
            self.tables,
            None if store is None else AnswerStore(store.database, store.state, store.connection),
            {} if store is None else evidence_of(self.connector, self.tables, version, evidence),
            unstored=[ref for ref, columns in restricted.items() if columns],
            anew=self.choice.asked,
            everything_private=settings.privacy == "strict",
            gigabytes=settings.budget.gigabytes,
        )

    def _read(
        self, recalling: RecallingConnector, hints: FixedHints, fingerprint: str | None, questions: _JoinQuestions
    ) -> RowResults:
        """Return the results from rows, and the answers of an earlier scan about unchanged tables."""
        job, store, settings = self.job, self.job.store, self.job.settings
        until = monotonic() + settings.budget.seconds
        profiled = self._profile(recalling)
        until += profiled.seconds_recalled
        questions.shown = shown = () if job.describer is None else shown_to_models(profiled.tables, settings.privacy)
        unread = [each.profile.ref for each in profiled.tables if is_excluded(each.profile)]
        sparing: Connector = SparingConnector(recalling, unread) if unread else recalling
        discovery = self._infer(sparing, profiled, hints, questions, until)
        until += questions.seconds
        found = with_failed_parts(
            RelationshipRecord(discovery.keys, discovery.relationships), self.record, self.failures.found()
        )
        results = self._results(profiled, found, shown)
        recognition = self._recognize(sparing, profiled, found, until)
        if recognition is not None:
            results = replace(results, stored=recognition.columns)
        warnings = [
            *results.warnings,
            *self._stored_warnings(recognition),
            *_incomplete(job, "not_checked", "joins could not be checked", discovery.problems),
        ]
        if store is not None:
            reusable = None
            complete = not discovery.problems and not self.failures.noted and not questions.is_unanswered
            if fingerprint is not None and monotonic() < until and complete and not recalling.is_over_budget:
                with self.failures.stage(Stage.REUSE):
                    answers = FixedHints(recorded_hints(results.relationships))
                    digest = hints_digest(answers, questions.version, self.known)
                    reusable = _reusable(fingerprint, digest, found, profiled)
            stored = False
            with self.failures.stage(Stage.STORE):
                unlisted, stored = self._store_values(store, recalling, sparing, profiled, until, discovery.evidence)
                warnings += _incomplete(job, "values_not_listed", "lists of values could not be read", unlisted)
            if stored and reusable is not None:
                results = replace(results, reusable=replace(reusable, known=self._known_digest(results)))
        is_complete = not profiled.out_of_time and not discovery.problems and monotonic() < until
        return replace(results, warnings=tuple(warnings), is_complete=is_complete and not recalling.is_over_budget)

    def _reused(self, last: StoredResults, profiles: tuple[TableProfile, ...]) -> RowResults | None:
        """Return the results of the last scan, if it read the same data and its proposals belong to this record.

        The record differs if people or other branches changed it.
        """
        not_read = sum(each.unsampled is Unsampled.NOT_READ for each in profiles)
        profiled = Profiled(tuple(map(SampledTable, profiles)), 0, 0, not_read=not_read)
        results = self._results(
            profiled, relationships_from_json(last.relationships), () if self.job.describer is None else profiles
        )
        if self._known_digest(results) != last.known:
            return None
        with ScanStep("profile", self.job.connection, self.job.emit) as step:
            step.summary = f"{plural(len(profiles), 'table')} unchanged since the last profile"
        stored = read_stored_columns(last.stored_columns.encode("utf-8", "surrogatepass"), STORED_COLUMNS)
        warnings = (*results.warnings, *stored_warnings(self.job.connection, stored, {}))
        return replace(results, reused=last, stored=stored, warnings=warnings)

    def _recognize(
        self, sparing: Connector, profiled: Profiled, found: RelationshipRecord, until: float
    ) -> Recognition | None:
        """Return the columns that store another type, or None if this fails."""
        keys = {(table.ref, name) for table in self.tables for name in found.key_of(table)}
        for each in found.accepted():
            keys |= {(each.child, name) for name in each.child_columns}
            keys |= {(each.parent, name) for name in each.parent_columns}
        with self.failures.stage(Stage.TYPES):
            return recognize_columns(
                sparing,
                self.tables,
                profiled.tables,
                privacy=self.job.settings.privacy,
                keys=keys,
                deadline=until,
                failures=self.failures,
            )
        return None

    def _stored_warnings(self, recognition: Recognition | None) -> list[ResultWarning]:
        if recognition is None:
            return []
        problems = [f"{problem.ref}: {problem.message}" for problem in recognition.problems]
        return [
            *stored_warnings(self.job.connection, recognition.columns, recognition.examples),
            *_incomplete(self.job, "types_not_checked", "columns were only checked in a sample of rows", problems),
        ]

    def _known_digest(self, results: RowResults) -> str:
        return record_digest(restricted(results.relationships, {table.ref: table for table in self.tables}))

    def _results(self, profiled: Profiled, found: RelationshipRecord, shown: tuple[TableProfile, ...]) -> RowResults:
        profiles = tuple(without_restricted(each.profile) for each in profiled.tables)
        warnings: tuple[ResultWarning, ...] = ()
        with self.failures.stage(Stage.DIAGNOSTICS):
            warnings = (
                *unprofiled_warnings(self.job.connection, self.connector, profiled),
                *_repeated_key_warnings(self.job.connection, self.known, profiles),
            )
        unread = frozenset(each.ref for each in profiles if is_excluded(each))
        # The tables that the inference of joins skipped because of a failure.
        failed = frozenset(
            each.table for each in self.failures.found() if each.stage is Stage.RELATIONSHIPS and each.table is not None
        )
        unseen = (frozenset(each.ref for each in profiles if each.problem is not None) - unread) | failed
        return RowResults(
            self._steadied(with_earlier(found, self.record, unread), unseen),
            profiles,
            shown,
            warnings=warnings,
            counts=profiled.counts(),
            unused=self.choice.unused,
        )

    def _steadied(self, found: RelationshipRecord, unseen: frozenset[TableRef]) -> RelationshipRecord:
        """Return the new record, with the old lines for tables that could not be read or no longer exist."""
        with self.failures.stage(Stage.RELATIONSHIPS):
            old, present = self.record, {table.ref for table in self.tables}
            missing = {ref for each in old.relationships for ref in each.tables} | set(old.keys)
            return steadied(with_origin(found), old, unseen | (missing - present))
        return self.record

    def _profile(self, recalling: RecallingConnector) -> Profiled:
        job, tables = self.job, self.tables
        last = {} if job.store is None else dict(job.store.profiled_at())
        last |= {ref: known.read for ref, known in recalling.known.items()}
        budget = Budget.of(job.settings)
        with ScanStep("profile", job.connection, job.emit) as step:
            profiled = Profiled(tuple(unsampled(table, Unsampled.FAILED) for table in tables), 0, 0)
            with self.failures.stage(Stage.PROFILE):
                profiled = profile_tables(
                    recalling,
                    tables,
                    budget,
                    step.progress,
                    last=last,
                    failures=self.failures,
                    preferred=self.choice.asked | self.choice.used,
                    unused=self.choice.unused,
                    rows_before=recalling.rows_before(budget.rows),
                )
            step.summary = f"{plural(len(tables), 'table')}, {plural(profiled.statements, 'statement')}"
        if self.known is None or not self.known.restricted:
            return profiled
        marked = (with_restrictions(each, self.known.restricted.get(each.profile.ref, ())) for each in profiled.tables)
        return replace(profiled, tables=tuple(marked))

    def _infer(
        self, connector: Connector, profiled: Profiled, hints: FixedHints, questions: _JoinQuestions, until: float
    ) -> Discovery:
        """Infer keys and joins. Candidates not checked `until` then need review. If this fails, return the recorded
        ones.
        """
        settings = self.job.settings.relationships
        with self.failures.stage(Stage.RELATIONSHIPS):
            if not settings.enabled:
                return Discovery({}, ())
            with ScanStep("relationships", self.job.connection, self.job.emit) as step:
                sources: list[HintSource] = [ViewJoins(connector.dialect), hints]
                seconds = max(0.0, until - monotonic())
                ask = None if questions.version is None else questions.ask
                discovery = discover(
                    connector, self.tables, profiled.tables, settings, sources, known=self.known, seconds=seconds,
                    failures=self.failures, ask=ask,
                )  # fmt: skip
                step.summary = _inferred(discovery, _declared_keys(self.tables))
            return discovery
        return Discovery(dict(self.record.keys), self.record.relationships)

    def _store_values(
        self,
        store: ProfileStore,
        recalling: RecallingConnector,
        sparing: Connector,
        profiled: Profiled,
        until: float,
        evidence: Sequence[Evidence] | None,
    ) -> tuple[list[str], bool]:
        """List the values of columns with few values, and store them with the profiles and the evidence.

        Return which lists failed, and whether the store has everything that the next scan needs. A table whose lists
        fail unexpectedly keeps its old ones.
        """
        job, failures = self.job, self.failures

        def checked(ref: TableRef, refused: Sequence[Refusal]) -> None:
            recalling.settle_lists(ref, may_store=not any(map(forbids_answers, refused)))

        with ScanStep("values", job.connection, job.emit) as step:
            recalling.begin_lists()
            dictionary = build_dictionary(
                sparing,
                self.tables,
                profiled.tables,
                privacy=job.settings.privacy,
                limits=DictionaryLimits(),
                deadline=until,
                failures=failures,
                checked=checked,
            )
            recalling.end_lists()
            failed = {each.table for each in failures.noted if each.stage is Stage.VALUES}
            failed |= {each.profile.ref for each in profiled.tables if each.profile.unsampled is Unsampled.FAILED}
            if failed:
                new = {(each.ref, each.column) for each in dictionary.columns}
                old = (each for each in store.lists() if each.ref in failed and (each.ref, each.column) not in new)
                dictionary = replace(dictionary, columns=(*dictionary.columns, *old))
            complete = monotonic() < until and not recalling.is_over_budget and not failed and not dictionary.problems
            stored = complete and all(map(comes_back_equal, shown_to_models(profiled.tables, job.settings.privacy)))
            store.save(profiled.tables, dictionary, evidence, profiled.waiting)
            step.summary = (
                f"{plural(len(dictionary.columns), 'list')}, {len(dictionary.hidden)} hidden (possible personal data)"
            )
        return [f"{problem.ref}: {problem.message}" for problem in dictionary.problems], stored


def _inferred(discovery: Discovery, declared: int) -> str:
    """Return how many joins were inferred in addition to the `declared` foreign keys."""
    joins = plural(len(discovery.accepted()), "further join" if declared else "join")
    found = f"{joins} among {plural(len(discovery.relationships), 'candidate')}"
    if not discovery.accepted():
        found = "no further joins inferred" if declared else "no joins inferred"
    return f"{plural(declared, 'declared foreign key')}; {found}" if declared else found


def _incomplete(job: ScanJob, code: str, what: str, problems: Sequence[str]) -> list[ResultWarning]:
    return [connection_warning(code, job.connection, f"some {what}: {listing(problems)}")] if problems else []


def _reusable(fingerprint: str, hints: str, found: RelationshipRecord, profiled: Profiled) -> StoredResults | None:
    """Return the results for the next scan, or None if anything was not read or cannot be stored."""
    profiles = [each.profile for each in profiled.tables]
    unread = (column.problem for each in profiles for column in each.columns)
    if any(each.unsampled is not None and not is_excluded(each) for each in profiles) or any(unread):
        return None
    text = relationships_to_json(found)
    return None if text is None else StoredResults(fingerprint, hints, text, known="")


def _keep_results(
    job: ScanJob,
    results: StoredResults,
    stored: StoredColumns,
    measures: Proposals,
    decisions: FoundPoints,
    connector: Connector,
    schema: DatabaseSchema,
    unused: Collection[TableRef],
    failures: Failures,
) -> None:
    """Store the results for the next scan if nothing failed and all of them come from the same data."""
    unchanged = False
    with failures.stage(Stage.REUSE):
        evidence = read_evidence(connector, schema.tables)
        now = data_fingerprint(evidence, connector.dialect, schema.tables, job.settings, unused)
        unchanged = now == results.fingerprint
    if unchanged and job.store is not None and not failures.noted:
        with failures.stage(Stage.STORE):
            proposed = {"measures": proposals_bytes(measures), "decisions": points_bytes(decisions)}
            proposed["stored_columns"] = stored_columns_bytes(stored)
            texts = {name: content.decode("utf-8", "surrogatepass") for name, content in proposed.items()}
            job.store.keep(replace(results, **texts))


def _with_stored_columns(
    records: Records, rows: RowResults | None, schema: DatabaseSchema, failures: Failures
) -> Records:
    """Return the records with the recognized columns, and with the old ones of tables and columns without values."""
    if STORED_COLUMNS in records.broken or rows is None or rows.stored is None:
        return records
    with failures.stage(Stage.TYPES):
        old = restricted_columns(records.stored or {}, schema.tables)
        failed = {each.table for each in failures.noted if each.stage is Stage.TYPES}
        seen = {
            (profile.ref, column.name)
            for profile in rows.profiles
            if profile.unsampled is None and profile.ref not in failed
            for column in profile.columns
            if column.filled and column.problem is None
        }
        shown: dict[TableRef, tuple[StoredColumn, ...]] = {}
        for table in schema.tables:
            kept = [each for each in old.get(table.ref, ()) if (table.ref, each.name) not in seen]
            if columns := (*rows.stored.get(table.ref, ()), *kept):
                shown[table.ref] = columns
        if shown or records.stored is not None:
            return replace(records, stored=carried_columns(shown, records.stored or {}))
    return records


def _with_measures(
    job: ScanJob,
    records: Records,
    rows: RowResults | None,
    connector: Connector,
    schema: DatabaseSchema,
    failures: Failures,
) -> tuple[Records, Proposals]:
    """Return the records with the proposed measures, and the new proposals.

    The records also keep the old ones of tables whose rows were not read.
    """
    wanted = job.settings.propose_measures
    if MEASURES in records.broken or (rows is None and wanted) or (records.measures is None and not wanted):
        return records, {}
    with failures.stage(Stage.MEASURES):
        if rows is None or not wanted:
            return replace(records, measures={}), {}
        if rows.reused is not None:
            found = read_proposals(rows.reused.measures.encode("utf-8", "surrogatepass"), MEASURES)
        else:
            known = restricted(records.known, {table.ref: table for table in schema.tables})
            found = propose_measures(schema.tables, known, rows.profiles, dialect_named(connector.dialect))
        read = {each.ref for each in rows.profiles if each.unsampled is None}
        kept = restricted_measures(records.measures or {}, schema.tables)
        shown = found | {ref: measures for ref, measures in kept.items() if ref not in read}
        if shown or records.measures is not None:
            return replace(records, measures=shown), found
    return records, {}


def _with_decisions(
    job: ScanJob,
    records: Records,
    rows: RowResults | None,
    connector: Connector,
    schema: DatabaseSchema,
    failures: Failures,
) -> tuple[Records, FoundPoints]:
    """Return the records with the decision points, and the new points.

    The records also keep the old ones of tables whose rows were not read.
    """
    wanted, old = job.settings.propose_decisions, records.decisions
    if DECISIONS in records.broken or (rows is None and wanted) or (old is None and not wanted):
        return records, ()
    with failures.stage(Stage.DECISIONS):
        if rows is None or not wanted:
            return replace(records, decisions=()), ()
        if rows.reused is not None:
            found = read_points(rows.reused.decisions.encode("utf-8", "surrogatepass"), DECISIONS)
        else:
            known = restricted(records.known, {table.ref: table for table in schema.tables})
            unread = [each.ref for each in rows.profiles if is_excluded(each)]
            sparing: Connector = SparingConnector(connector, unread) if unread else connector
            with ScanStep("decisions", job.connection, job.emit) as step:
                found, counter = propose_decisions(
                    schema.tables, known, rows.profiles, records.measures or {}, sparing,
                    shows_values=job.settings.privacy != "strict",
                )  # fmt: skip
                step.summary = f"{plural(len(found), 'decision point')}, {plural(counter.statements, 'statement')}"
        read = {each.ref for each in rows.profiles if each.unsampled is None}
        kept = [each for each in restricted_points(old or (), schema.tables) if each.table not in read]
        if found or kept or old is not None:
            return replace(records, decisions=carried([*found, *kept], old or ())), found
    return records, ()


def _describe(
    job: ScanJob,
    committed: Committed,
    schema: DatabaseSchema,
    records: Records,
    rows: RowResults | None,
    failures: Failures,
) -> tuple[Records, tuple[Described, ...], DescriptionReport | None]:
    """Return the records with the new descriptions, these descriptions, and the report. A table without a new one keeps
    its old one.
    """
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


def _changed_record(
    job: ScanJob, committed: Committed, contents: Mapping[str, bytes], digest: Callable[[Mapping[str, bytes]], str]
) -> dict[str, bytes | None] | None:
    """Return the record of decision points if only it has changed, {} if nothing has, or else None.

    Compared with the last scan. No other file depends on that record. `digest` is that of a scan with the given
    contents of records.
    """
    if job.previous is None or job.previous.files != committed.files:
        return None
    if job.previous.digest == digest(contents):
        return {}
    if DECISIONS not in contents:  # It was dropped by a setting, or cannot be read and is kept.
        return None
    path = f"{committed.raw_folder}/{DECISIONS}"
    last = committed.base.read_many([path] if path in committed.files else []).get(path)
    others = {name: content for name, content in contents.items() if name != DECISIONS}
    if job.previous.digest != digest(others if last is None else {**others, DECISIONS: last}):
        return None
    return {path: contents[DECISIONS]}


def _nothing_to_read(job: ScanJob, connector: Connector, scope: Scope) -> list[ResultWarning]:
    from ktx_cli.warehouses import access_gap

    gap = None if job.entry is None else access_gap(job.connection, job.entry, connector.test(scope))
    if gap is None:
        return []
    return [connection_warning("nothing_to_read", job.connection, gap.message, gap.hint)]


def _digest(
    job: ScanJob, files: Iterable[SnapshotFile], problems: Sequence[ObjectProblem], contents: Mapping[str, bytes]
) -> str:
    facts: list[Any] = [GENERATOR, job.driver, sorted((file.path, file.sha256) for file in files)]
    facts.append(sorted((str(problem.ref), problem.what) for problem in problems))
    facts.append(sorted((name, hashlib.sha256(content).hexdigest()) for name, content in contents.items()))
    if job.layout is not ManifestLayout.PER_SCHEMA:  # so that a change of the setting is one of the manifest
        facts.append(job.layout)
    return hashlib.sha256(json.dumps(facts).encode("utf-8", "surrogatepass")).hexdigest()


def _declared_keys(tables: Sequence[Table]) -> int:
    by_ref = {table.ref: table for table in tables}
    return sum(is_joinable(key, by_ref) for table in tables for key in table.foreign_keys)
