"""The look at the rows of one connection: profiles, keys, joins; what of it goes where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ktx_cli.connectors.port import Connector, Table
from ktx_cli.context.scan.knowledge import Knowledge
from ktx_cli.context.scan.looks import Findings
from ktx_cli.context.scan.profiling.model import SampledTable, TableProfile
from ktx_cli.context.scan.profiling.profiler import Budget, Profiled, profile_tables
from ktx_cli.context.scan.profiling.store import without_private, without_values
from ktx_cli.context.scan.proposed import GivenHints, recorded_hints
from ktx_cli.context.scan.relationships.discover import discover
from ktx_cli.context.scan.relationships.hints import HintSource
from ktx_cli.context.scan.relationships.model import Discovery
from ktx_cli.context.scan.relationships.sources import ViewJoins
from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.events import Emit, StepFinished, StepProgress, StepStarted
from ktx_cli.core.text import listing, plural
from ktx_cli.jobs.ingest.enriching import Enrichment
from ktx_cli.jobs.ingest.keeping import ValueKeeper
from ktx_cli.project.config.scan import Scan


@dataclass(frozen=True, slots=True)
class RowsLook:
    """Profiles the tables of a connection and finds its keys and joins, also those `enrichment` proposes.

    `keep` stores values; without it (a dry run) none are looked for.
    """

    connection: str
    scan: Scan
    emit: Emit
    enrichment: Enrichment | None = None
    keep: ValueKeeper | None = None

    def __call__(self, connector: Connector, tables: Sequence[Table], record: Knowledge) -> Findings:
        """Return what was found. Raises `SourceError` when the source is gone."""
        profiled = self._profile(connector, tables)
        told = tuple(self._told(profiled.tables)) if self.enrichment is not None else ()
        found = self._discover(connector, tables, profiled, self._hints(tables, told, record))
        kept = [] if self.keep is None else self.keep(connector, tables, profiled)
        problems = {each.profile.ref for each in profiled.tables if each.profile.problem is not None}
        return Findings(
            knowledge=Knowledge(found.keys, found.edges),
            unseen=frozenset(problems),
            warnings=(*_profile_warnings(self.connection, profiled), *_check_warnings(self.connection, found), *kept),
            profiles=tuple(each.profile for each in profiled.tables),
            told=told,
        )

    def _told(self, sampled: Iterable[SampledTable]) -> Iterable[TableProfile]:
        """Return the profiles as a model may see them: values of rows only where `scan.privacy` is `off`."""
        return map(without_private if self.scan.privacy == "off" else without_values, sampled)

    def _hints(self, tables: Sequence[Table], told: Sequence[TableProfile], record: Knowledge) -> GivenHints:
        if self.enrichment is None or not self.scan.relationships.enabled:
            return GivenHints(recorded_hints(record))
        return self.enrichment.propose(tables, told, record)

    def _profile(self, connector: Connector, tables: Sequence[Table]) -> Profiled:
        self.emit(StepStarted("profile", self.connection))
        started = monotonic()
        budget = Budget(
            rows=self.scan.relationships.profile_sample_rows,
            bytes=self.scan.budget.megabytes * 1024 * 1024,
            seconds=float(self.scan.budget.seconds),
            concurrency=self.scan.relationships.profile_concurrency,
        )
        profiled = profile_tables(
            connector,
            tables,
            budget,
            lambda done, total: self.emit(StepProgress("profile", done, total, self.connection)),
        )
        summary = f"{plural(len(tables), 'table')}, {plural(profiled.statements, 'statement')}"
        self.emit(StepFinished("profile", summary, monotonic() - started, self.connection))
        return profiled

    def _discover(
        self, connector: Connector, tables: Sequence[Table], profiled: Profiled, hints: GivenHints
    ) -> Discovery:
        if not self.scan.relationships.enabled:
            return Discovery({}, ())
        self.emit(StepStarted("relationships", self.connection))
        started = monotonic()
        sources: list[HintSource] = [ViewJoins(connector.dialect), hints]
        found = discover(connector, tables, profiled.tables, self.scan.relationships, sources)
        summary = f"{plural(len(found.accepted()), 'join')} among {plural(len(found.edges), 'candidate')}"
        self.emit(StepFinished("relationships", summary, monotonic() - started, self.connection))
        return found


def _profile_warnings(connection: str, profiled: Profiled) -> list[ResultWarning]:
    """Name what the budgets and failures cost: a table without a profile is not an empty one."""
    warnings = []
    if profiled.out_of_time:
        warnings.append(
            ResultWarning(
                "profile_out_of_time",
                f"connection `{connection}`: {plural(profiled.out_of_time, 'table')} not looked at, the time was up",
                hint="raise scan.budget.seconds, or narrow the connection by `include`",
                connection=connection,
            )
        )
    bad = [
        f"{each.profile.ref}: {each.profile.problem}" for each in profiled.tables if each.profile.problem is not None
    ][: None if not profiled.out_of_time else 0]
    columns = [
        f"{each.profile.ref}.{column.name}: {column.problem}"
        for each in profiled.tables
        for column in each.profile.columns
        if column.problem is not None
    ]
    if bad or columns:
        warnings.append(
            ResultWarning(
                "not_profiled",
                f"connection `{connection}`: the rows of some could not be read: {listing([*bad, *columns])}",
                connection=connection,
            )
        )
    return warnings


def _check_warnings(connection: str, found: Discovery) -> list[ResultWarning]:
    if not found.problems:
        return []
    message = f"connection `{connection}`: some joins could not be checked: {listing(found.problems)}"
    return [ResultWarning("not_checked", message, connection=connection)]
