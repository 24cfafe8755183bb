"""The look at the rows of one connection: profiles, keys, joins; what of it goes where."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ktx_cli.connectors.port import Connector, Table, TableRef
from ktx_cli.context.scan.failures import Failures, Stage, with_failed_parts
from ktx_cli.context.scan.knowledge import Knowledge
from ktx_cli.context.scan.looks import Findings
from ktx_cli.context.scan.profiling.counting import unsampled
from ktx_cli.context.scan.profiling.model import FAILED, NOT_READ, SampledTable, TableProfile
from ktx_cli.context.scan.profiling.profiler import Budget, Profiled, profile_tables
from ktx_cli.context.scan.profiling.sparing import SparingConnector
from ktx_cli.context.scan.profiling.store import StoredLook, without_private, without_values
from ktx_cli.context.scan.proposed import GivenHints, recorded_hints
from ktx_cli.context.scan.relationships.discover import discover
from ktx_cli.context.scan.relationships.hints import HintSource
from ktx_cli.context.scan.relationships.model import Discovery, Edge, EdgeStatus
from ktx_cli.context.scan.relationships.sources import ViewJoins
from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.events import Emit, StepFinished, StepProgress, StepStarted
from ktx_cli.core.text import listing, plural
from ktx_cli.jobs.ingest.enriched import Enrichment
from ktx_cli.jobs.ingest.keeping import Candidate, ValueKeeper
from ktx_cli.jobs.ingest.reusing import EarlierLook, digest_of_hints, found_to_json, proof_of
from ktx_cli.jobs.ingest.unprofiled import left_out_warnings
from ktx_cli.project.config.scan import Scan


@dataclass(frozen=True, slots=True)
class RowsLook:
    """Profiles the tables of a connection and finds its keys and joins, also those `enrichment` proposes.

    `keep` stores values, and what was found for a second look at the same data; without it (a dry run) no values are
    looked for, and every look begins anew.
    """

    connection: str
    scan: Scan
    emit: Emit
    enrichment: Enrichment | None = None
    keep: ValueKeeper | None = None
    failures: Failures = field(default_factory=Failures)

    def __call__(self, connector: Connector, tables: Sequence[Table], record: Knowledge) -> Findings:
        """Return what was found, of a stage that failed what `record` has. Raises `SourceError`: the source is gone."""
        proof, earlier = None, None
        with self.failures.stage(Stage.REUSE):
            proof = None if self.keep is None else proof_of(connector, tables, self.scan)
            earlier = None if self.keep is None or proof is None else self.keep.earlier(proof)
        findings, hints = None, None
        if earlier is not None:
            told = earlier.profiles if self.enrichment is not None else ()
            hints = self._hints(tables, told, record)
            if digest_of_hints(hints) == earlier.hints:
                findings = self._again(earlier, told, connector, record)
        findings = findings or self._anew(connector, tables, record, proof, hints)
        return replace(findings, failures=self.failures.found())

    def _again(
        self, earlier: EarlierLook, told: tuple[TableProfile, ...], connector: Connector, record: Knowledge
    ) -> Findings:
        """Return what the last look found in the same data."""
        self.emit(StepStarted("profile", self.connection))
        count = plural(len(earlier.profiles), "table")
        self.emit(StepFinished("profile", f"{count}, nothing changed since the last look", 0.0, self.connection))
        profiled = Profiled(tuple(map(SampledTable, earlier.profiles)), 0, 0, not_read=_not_read(earlier.profiles))
        return self._findings(connector, profiled, earlier.knowledge, record, told)

    def _anew(
        self,
        connector: Connector,
        tables: Sequence[Table],
        record: Knowledge,
        proof: str | None,
        hints: GivenHints | None,
    ) -> Findings:
        until = monotonic() + self.scan.budget.seconds
        profiled = self._profile(connector, tables)
        told = tuple(self._told(profiled.tables)) if self.enrichment is not None else ()
        hints = hints or self._hints(tables, told, record)
        unread = [each.profile.ref for each in profiled.tables if each.profile.problem == NOT_READ]
        sparing: Connector = SparingConnector(connector, unread) if unread else connector
        found = Discovery(dict(record.keys), record.edges)
        with self.failures.stage(Stage.RELATIONSHIPS):
            found = self._discover(sparing, tables, profiled, hints, until)
        in_time = monotonic() < until
        knowledge = with_failed_parts(Knowledge(found.keys, found.edges), record, self.failures.found())
        findings = self._findings(connector, profiled, knowledge, record, told)
        checks = _check_warnings(self.connection, found)
        kept: list[ResultWarning] = []
        if self.keep is not None:
            candidate = None
            if proof is not None and in_time and not checks and not self.failures.noted and _is_whole(profiled):
                with self.failures.stage(Stage.REUSE):
                    candidate = self._candidate(connector, tables, proof, hints, knowledge)
            with self.failures.stage(Stage.STORE):
                kept = self.keep(sparing, tables, profiled, candidate, self.failures)
        return replace(findings, warnings=(*findings.warnings, *checks, *kept))

    def _candidate(
        self, connector: Connector, tables: Sequence[Table], proof: str, hints: GivenHints, knowledge: Knowledge
    ) -> Candidate | None:
        """Return what the next look may take as it is."""
        found = found_to_json(knowledge)
        if found is None:
            return None
        look = StoredLook(proof, digest_of_hints(hints), found)
        return Candidate(look, lambda: proof_of(connector, tables, self.scan) == proof)

    def _findings(
        self,
        connector: Connector,
        profiled: Profiled,
        knowledge: Knowledge,
        record: Knowledge,
        told: tuple[TableProfile, ...],
    ) -> Findings:
        profiles = tuple(each.profile for each in profiled.tables)
        warnings: tuple[ResultWarning, ...] = ()
        with self.failures.stage(Stage.DIAGNOSTICS):
            warnings = tuple(left_out_warnings(self.connection, connector, profiled))
        unread = frozenset(each.ref for each in profiles if each.problem == NOT_READ)
        return Findings(
            knowledge=with_earlier(knowledge, record, unread),
            unseen=(frozenset(each.ref for each in profiles if each.problem is not None) - unread) | self._undiscovered,
            warnings=warnings,
            profiles=profiles,
            told=told,
        )

    @property
    def _undiscovered(self) -> frozenset[TableRef]:
        """The tables that took no part in the discovery of joins because of a failure."""
        failed = (each.table for each in self.failures.found() if each.stage is Stage.RELATIONSHIPS)
        return frozenset(ref for ref in failed if ref is not None)

    def _told(self, sampled: Iterable[SampledTable]) -> Iterable[TableProfile]:
        """Return the profiles as a model may see them: values of rows only where `scan.privacy` is `off`."""
        return map(without_private if self.scan.privacy == "off" else without_values, sampled)

    def _hints(self, tables: Sequence[Table], told: Sequence[TableProfile], record: Knowledge) -> GivenHints:
        if self.enrichment is None or not self.scan.relationships.enabled:
            return GivenHints(recorded_hints(record))
        with self.failures.stage(Stage.PROPOSALS):
            return self.enrichment.propose(tables, told, record)
        return GivenHints(recorded_hints(record))

    def _profile(self, connector: Connector, tables: Sequence[Table]) -> Profiled:
        self.emit(StepStarted("profile", self.connection))
        started = monotonic()
        profiled = Profiled(tuple(unsampled(table, FAILED) for table in tables), 0, 0)
        with self.failures.stage(Stage.PROFILE):
            profiled = profile_tables(
                connector,
                tables,
                self._budget(),
                lambda done, total: self.emit(StepProgress("profile", done, total, self.connection)),
                last=None if self.keep is None else self.keep.turns(),
                failures=self.failures,
            )
        summary = f"{plural(len(tables), 'table')}, {plural(profiled.statements, 'statement')}"
        self.emit(StepFinished("profile", summary, monotonic() - started, self.connection))
        return profiled

    def _budget(self) -> Budget:
        return Budget(
            rows=self.scan.relationships.profile_sample_rows,
            bytes=self.scan.budget.megabytes * 1024 * 1024,
            seconds=float(self.scan.budget.seconds),
            concurrency=self.scan.relationships.profile_concurrency,
            views=self.scan.views,
        )

    def _discover(
        self, connector: Connector, tables: Sequence[Table], profiled: Profiled, hints: GivenHints, until: float
    ) -> Discovery:
        """Find keys and joins; what cannot be checked `until` then is put up for review."""
        if not self.scan.relationships.enabled:
            return Discovery({}, ())
        self.emit(StepStarted("relationships", self.connection))
        started = monotonic()
        sources: list[HintSource] = [ViewJoins(connector.dialect), hints]
        left = max(0.0, until - started)
        settings = self.scan.relationships
        found = discover(connector, tables, profiled.tables, settings, sources, seconds=left, failures=self.failures)
        summary = f"{plural(len(found.accepted()), 'join')} among {plural(len(found.edges), 'candidate')}"
        self.emit(StepFinished("relationships", summary, monotonic() - started, self.connection))
        # That a spared table was not asked is said once, for all of them.
        return replace(found, problems=tuple(each for each in found.problems if NOT_READ not in each))


def with_earlier(new: Knowledge, old: Knowledge, unread: Collection[TableRef]) -> Knowledge:
    """Return what is new, with what rows said of tables that are not read any more.

    An edge that was accepted or rejected, and a key that was confirmed, rest on rows.
    """
    if not unread:
        return new
    decided = {
        _ends(edge): edge
        for edge in old.edges
        if {edge.child, edge.parent} & set(unread) and edge.status is not EdgeStatus.REVIEW
    }
    edges = (*(edge for edge in new.edges if _ends(edge) not in decided), *decided.values())
    keys = {ref: choice for ref, choice in old.keys.items() if ref in unread and choice.confirmed}
    return Knowledge({**new.keys, **keys}, edges)


def _ends(edge: Edge) -> tuple[object, ...]:
    return edge.child, edge.child_columns, edge.parent, edge.parent_columns, edge.condition


def _is_whole(profiled: Profiled) -> bool:
    """Whether all was read that was to be read."""
    profiles = [each.profile for each in profiled.tables]
    columns = (column.problem for each in profiles for column in each.columns)
    return all(each.problem in (None, NOT_READ) for each in profiles) and not any(columns)


def _not_read(profiles: Iterable[TableProfile]) -> int:
    return sum(each.problem == NOT_READ for each in profiles)


def _check_warnings(connection: str, found: Discovery) -> list[ResultWarning]:
    if not found.problems:
        return []
    message = f"connection `{connection}`: some joins could not be checked: {listing(found.problems)}"
    return [ResultWarning("not_checked", message, connection=connection)]
