"""`ktx ingest` and `ktx scan`: plan, scan databases, read sources, let agents work, publish one commit, report.

A database that fails does not affect the others. A dry run takes the same steps without a lock, a commit or changed
files in the project, and estimates the rest.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ktx_cli.core import (
    CancelledError,
    Command,
    KtxError,
    Notice,
    ResultWarning,
    RunStopped,
    StepFinished,
    StepProgress,
    StepStarted,
    StorageError,
    internal_error,
    monotonic,
    plural,
)
from ktx_cli.engine import (
    FAILED,
    ChangeSet,
    ConnectionReport,
    IngestReport,
    PreflightFailed,
    ProjectBase,
    check_definitions,
    closing,
    under_lock,
    writable_repository,
)
from ktx_cli.jobs.ingest.plan import IngestRequest, plan_run
from ktx_cli.project import (
    DATABASE_SOURCE,
    RAW_NAME,
    SEMANTIC_NAME,
    Layout,
    Repository,
    StateDatabase,
    WorkingTree,
    Workspace,
    read_state,
    report_outages,
    translated,
)
from ktx_cli.scan import (
    DECISIONS,
    DECLARATIONS,
    Depth,
    PreviousScan,
    ProfileStore,
    ScanJob,
    previous_scans,
    scan_connection,
)
from ktx_cli.semantic import ManifestLayout, ParsedCopies
from ktx_cli.warehouses import open_connection

if TYPE_CHECKING:
    from ktx_cli.engine import (
        AgentResult,
        Kept,
        LockedRun,
        Models,
        Preflight,
        RunEstimate,
        RunPlan,
        SourceWork,
        Target,
        UnitOutcome,
    )
    from ktx_cli.jobs.decide.effects import Computed
    from ktx_cli.scan import Answers, Describer, ScanOutcome
    from ktx_cli.semantic import OpenDecision
    from ktx_cli.sources import Conclusion, FetchStates, SourceKey


__all__ = ["IngestRequest", "ingest"]


def ingest(request: IngestRequest) -> tuple[IngestReport, list[ResultWarning]]:
    """Scan the connections and commit what changed, in at most one commit.

    A connection that fails does not stop the others; the report lists it. Raises `KtxError` if the run could not begin:
    invalid configuration, a configured backend that cannot run, a busy lock, an unusable repository.
    """
    with report_outages(lambda message: request.emit(Notice(message))):
        return _run(plan_run(request))


def _run(plan: RunPlan) -> tuple[IngestReport, list[ResultWarning]]:
    """Do what was planned."""
    report = IngestReport.of(plan)
    preflight = _preflight(plan, report)
    with closing(plan, report):
        try:
            if plan.dry_run:
                _estimate(plan, report)
            else:
                repository = writable_repository(plan.layout, plan.destination)
                if preflight is not None and (plan.awaited or not _has_context(plan.layout)):
                    preflight.require()  # somebody waits for the result, or nothing exists yet that could be unchanged
                under_lock(plan, report, repository, preflight, lambda run: _ingest(run, report, preflight))
        except PreflightFailed as failed:
            raise failed.error from None
    return report, plan.recorder.warnings


def _preflight(plan: RunPlan, report: IngestReport) -> Preflight | None:
    """Return the check that the models respond, after checking its settings; None for a run without a model."""
    needed = plan.prompts is not None or not (plan.no_llm or plan.databases_only)
    if not needed and not (plan.asks_model and plan.reads_sources):
        return None
    from ktx_cli.engine import Preflight

    preflight = Preflight(plan, report.spending, needed=needed)
    preflight.check_settings()
    return preflight


def _has_context(layout: Layout) -> bool:
    """Return whether an earlier run stored anything."""
    return any((layout.root / folder).is_dir() for folder in (SEMANTIC_NAME, RAW_NAME))


def _ingest(run: LockedRun, report: IngestReport, preflight: Preflight | None) -> None:
    """Do all work under the lock; the result of each step is reported at once."""
    plan, base = run.plan, run.base
    plan.prepare_queue()
    with translated(plan.layout.state):
        previous = previous_scans(run.database, [target.connection for target in plan.targets])
    with contextlib.ExitStack() as stack:
        models = None
        if preflight is not None:
            from ktx_cli.engine import Models

            models = stack.enter_context(Models(preflight, run.database))
        repository = None if run.is_elsewhere else run.repository
        declaring = _Declaring(plan, base, _fetches(plan, run.database), repository)
        changes = declaring.scan(report, ScanState(previous, run.database, models))
        if plan.reads_sources:
            changes = _work_through_sources(run, report, changes, models, declaring)
        if models is not None:
            _write_questions(run, changes, models)
    computed = _compute_effects(run, changes)
    report.open_decisions = _open_decisions(computed)
    if not run.is_elsewhere:
        _report_absent(report, changes, base, run.repository)
    if preflight is not None and changes.workspace.changes():
        preflight.require()
    result = run.commit(changes, report.message(None if plan.begun is None else plan.begun.message))
    if result is not None:
        report.add_commit(result, changes.workspace.changes(), changes.scans)
        report.to_scan = _databases_to_scan(plan, report, base, changes.workspace)
    uncommitted = set(report.uncommitted).union(report.ignored if run.is_elsewhere else ())
    for connection, failure in run.remember(changes, report.commit, report.held_paths | uncommitted):
        plan.warn(failure.warning(connection))
        report.add_failure(connection, failure)
    report.broken = check_definitions(plan, base, changes.workspace)
    if run.is_elsewhere:  # what follows is about the working files
        return
    _keep_effects(run, computed)
    from ktx_cli.jobs.index import index_after_run

    index_after_run(plan, changed=report.commit is not None or bool(uncommitted))


Scanned = dict["Target", tuple[ConnectionReport, "ScanOutcome | None"]]
"""Target -> the report and the outcome of its scan, which is None if it failed."""


@dataclass(slots=True)
class _Declaring:
    """The sources whose declarations scans use, which are fetched before the others.

    `repository`: the one whose working files the run changes, if any. `works`: the sources that were fetched.
    `declared`: path -> what a source declares; a source that this run does not read counts with its committed
    declarations, as it does in a run that only scans.
    """

    plan: RunPlan
    base: ProjectBase
    fetches: FetchStates
    repository: Repository | None
    scratch: Path | None = None
    works: list[SourceWork] = field(default_factory=list)
    declared: dict[str, bytes] = field(default_factory=dict)

    def scan(self, report: IngestReport, state: ScanState) -> ChangeSet:
        """Return the changes from scans, and report each scan as soon as it is done."""
        self.declared = _committed_declarations(self.plan, self.base)
        self._fetch(None)
        scanned: Scanned = {}
        self._scan(self.plan.targets, scanned, report, state)
        changes, before = self._changes(scanned), dict(self.declared)
        self._fetch(changes.workspace)
        changed = {path.split("/")[1] for path, content in self.declared.items() if before.get(path) != content}
        again = [target for target in scanned if target.connection in changed]
        if again:
            self._scan(again, scanned, report, state)
            changes = self._changes(scanned)
        for scan in changes.scans:
            self.plan.recorder.warn_of(scan.all_warnings())
        return changes

    def _scan(self, wanted: Iterable[Target], scanned: Scanned, report: IngestReport, state: ScanState) -> None:
        for target, found in scan_databases(self.plan, self.base, replace(state, declared=dict(self.declared)), wanted):
            earlier = scanned.get(target, (None, None))[0]
            report.connections = [each for each in report.connections if each is not earlier] + [found[0]]
            scanned[target] = found

    def _changes(self, scanned: Scanned) -> ChangeSet:
        outcomes = [outcome for _, outcome in scanned.values() if outcome is not None]
        return ChangeSet.of_scans(self.base, outcomes, mark_raw=_has_files_per_table(self.plan))

    def _fetch(self, scanned: Workspace | None) -> None:
        if not self.plan.reads_sources:
            return
        from ktx_cli.engine import declarations, fetch_declaring

        works = fetch_declaring(self.plan, self.base, self.fetches, scanned=scanned, scratch=self.scratch)
        self.works += works
        declared = declarations(works)
        held = self._held(declared)
        self.declared |= {path: content for path, content in declared.items() if path not in held}

    def _held(self, declared: Mapping[str, bytes]) -> set[str]:
        """Return the files that this run cannot write because of uncommitted edits: the committed ones still count."""
        changed = {path: content for path, content in declared.items() if self.base.read(path) != content}
        if self.repository is None or not changed:
            return set()
        edited, files = self.repository.changes(changed).uncommitted, WorkingTree(self.plan.layout.root)

        def is_held(path: str) -> bool:
            # git names a new folder, with a slash at its end, instead of its files.
            if not any(path == each or (each.endswith("/") and path.startswith(each)) for each in edited):
                return False
            try:
                return files.read(path) != changed[path]
            except StorageError:  # the commit reports why ktx cannot write this file
                return True

        return {path for path in changed if is_held(path)}


def _fetches(plan: RunPlan, database: StateDatabase) -> FetchStates:
    if not plan.reads_sources:
        return {}
    from ktx_cli.sources import load_fetches

    with translated(plan.layout.state):
        return load_fetches(database)


def _committed_declarations(plan: RunPlan, base: ProjectBase) -> dict[str, bytes]:
    """Return the committed files, and those that git ignores."""
    kinds = ((id, kind) for id, entry in plan.config.connections.items() for kind in (entry.driver, "query-history"))
    folders = {plan.layout.raw_path(id, kind): None for id, kind in kinds}
    return base.read_many(f"{folder}/{DECLARATIONS}" for folder in folders if base.blobs(folder))


def _databases_to_scan(plan: RunPlan, report: IngestReport, base: ProjectBase, workspace: Workspace) -> tuple[str, ...]:
    """Return the databases that the run did not scan, with tables about which it has committed new declarations."""
    from ktx_cli.scan import read_declarations

    written = [path for path in (*report.committed, *report.ignored) if path.endswith(f"/{DECLARATIONS}")]
    names: set[str] = set()
    for path in written:
        new, old = read_declarations(workspace.read(path) or b"", path), None
        with contextlib.suppress(KtxError):  # the old file may be damaged
            old = read_declarations(base.read(path) or b"", path)
        if old is None or replace(old, made_from=new.made_from) != new:
            names |= {table.name.casefold() for table in new.tables.values()}
    read = {target.connection for target in plan.targets}
    models = plan.layers.models(workspace)
    return tuple(
        id
        for id in plan.config.databases()
        if names
        and id not in read
        and any(each.table and each.table[-1].casefold() in names for each in models[id].sources.values())
    )


def _compute_effects(run: LockedRun, changes: ChangeSet) -> dict[str, Computed]:
    """Compute the effects of decision points, and store them in their records.

    Only for databases that were scanned or whose definitions this run changed. If neither rows nor definitions have
    changed since effects were computed, they are kept.
    """
    plan = run.plan
    paths = (path.split("/") for path in changes.workspace.changes())
    changed = {names[1] for names in paths if names[0] in (SEMANTIC_NAME, RAW_NAME)}
    with translated(plan.layout.state):
        known = {each for (each,) in run.database.execute("SELECT DISTINCT connection FROM decision_effects")}
    scanned = {scan.connection for scan in changes.scans if not (scan.reused and scan.connection in known)}
    wanted = changed.union(scanned).intersection(plan.config.databases())
    found: dict[str, Computed] = {}
    for connection in sorted(wanted):
        path = plan.layout.raw_path(connection, DATABASE_SOURCE, DECISIONS)
        if changes.workspace.read(path) is None:
            continue
        from ktx_cli.jobs.decide.effects import Computed, computed_effects
        from ktx_cli.jobs.decide.points import load_decisions

        plan.emit(StepStarted("effects", connection))
        started = monotonic()
        model = plan.layers.model(changes.workspace, connection)
        record, computed = computed_effects(
            plan.layout, plan.config, changes.workspace, model, environ=plan.environ, opener=open_connection
        )
        plan.recorder.warn_of(computed.warnings)
        if record is not None:
            changes.workspace.write(path, record)
            found[connection] = Computed(computed.effects, decisions=load_decisions(changes.workspace, model).decisions)
        done = plural(len(computed.effects), "effect")
        plan.emit(StepFinished("effects", done, monotonic() - started, connection))
    return found


def _open_decisions(computed: Mapping[str, Computed]) -> tuple[OpenDecision, ...]:
    """Return the open decision points of the databases whose effects were computed, largest effect first."""
    from ktx_cli.semantic import open_decision

    found = [
        open_decision(replace(each.decisions, effects=each.effects), point)
        for each in computed.values()
        for point in each.decisions.unsettled()
    ]
    return tuple(sorted(found, key=lambda each: -each.point.spread))


def _keep_effects(run: LockedRun, computed: Mapping[str, Computed]) -> None:
    for connection, each in computed.items():
        from ktx_cli.jobs.decide.points import save_effects

        save_effects(run.plan.layout, run.database, connection, each.effects)


def _write_questions(run: LockedRun, changes: ChangeSet, models: Models) -> None:
    """Let the model write the questions for definitions that this run scanned or changed."""
    plan = run.plan
    layers = _layers_to_ask_about(plan, changes)
    if not layers:
        return
    from ktx_cli.engine import write_definition_questions
    from ktx_cli.project import StateEnrichmentStore

    store = StateEnrichmentStore(plan.layout, run.database)
    write_definition_questions(plan, changes.workspace, layers, models, store)


def _layers_to_ask_about(plan: RunPlan, changes: ChangeSet) -> set[str]:
    """Return the databases whose definitions get questions: those that were scanned or whose layer changed.

    None in a run whose scans use no model, nor in one that changes nothing.
    """
    changed = changes.workspace.changes()
    if plan.prompts is None or not changed:
        return set()
    scanned = {scan.connection for scan in changes.scans}
    folders = {path.split("/")[1] for path in changed if path.startswith(f"{SEMANTIC_NAME}/")}
    return plan.config.databases().keys() & (scanned | folders)


def _has_files_per_table(plan: RunPlan) -> bool:
    return ManifestLayout(plan.config.semantic.layout) is ManifestLayout.PER_TABLE


def _report_absent(report: IngestReport, changes: ChangeSet, base: ProjectBase, repository: Repository) -> None:
    report.held = tuple(dict.fromkeys((*report.held, *changes.absent(base, repository).items())))


def _work_through_sources(
    run: LockedRun, report: IngestReport, changes: ChangeSet, models: Models | None, declaring: _Declaring
) -> ChangeSet:
    """Return the changes, including those from sources, which are read and, if necessary, processed by agents."""
    from ktx_cli.engine import keep_contradictions, write_deliveries

    plan, workspace = run.plan, changes.workspace
    report.sources = _read_sources(plan, workspace, declaring)
    if models is not None:
        models.preflight.narrow(report.sources)
    if models is not None and plan.asks_model and _has_work(report.sources, run.database):
        models.begin()
        _announce(plan, changes, report.sources, run.database)
        result = _run_agents(plan, report.sources, workspace, models, run.database)
        report.sources = [result.documents.narrowed(work) for work in report.sources]
        _check_end(plan, result)
        _take_over(plan, report, workspace, result)
        curations = result.integration.consolidation.curations
        changes = replace(changes, curations=curations, questions=result.asked.documents)
    else:
        report.sources = _concluded_without_agents(plan, report.sources, workspace)
    write_deliveries(report.sources, workspace)
    problem = keep_contradictions(report.sources, workspace, report.contradictions)
    plan.recorder.warn_of([] if problem is None else [problem])
    return replace(changes, works=report.sources)


def _read_sources(plan: RunPlan, workspace: Workspace, declaring: _Declaring) -> list[SourceWork]:
    from ktx_cli.engine import ignored_deliveries, read_sources, source_warnings

    works = read_sources(
        plan, workspace, declaring.base, declaring.fetches, fetched=declaring.works, scratch=declaring.scratch
    )
    plan.recorder.warn_of(source_warnings(works))
    for warning in ignored_deliveries(plan.layout.root, works):
        plan.warn(warning)
        plan.emit(Notice(warning.message))
    return works


def _has_work(works: Sequence[SourceWork], database: StateDatabase) -> bool:
    from ktx_cli.engine import agents_needed

    return agents_needed(works, database)


def _announce(plan: RunPlan, changes: ChangeSet, works: Sequence[SourceWork], database: StateDatabase) -> None:
    """Report the work for agents, and its cost in earlier runs."""
    from ktx_cli.project import StateEnrichmentStore

    store = StateEnrichmentStore(plan.layout, database)
    ahead = _forecast(plan, changes, works, store.get_many)
    if ahead is not None:
        plan.emit(Notice(f"work for agents: {ahead.summary}"))


def _run_agents(
    plan: RunPlan, works: Sequence[SourceWork], workspace: Workspace, models: Models, database: StateDatabase
) -> AgentResult:
    from ktx_cli.engine import AgentWork, conclude, run_agents

    def after_units(tree: Workspace, outcomes: Sequence[UnitOutcome]) -> Mapping[SourceKey, Conclusion]:
        return conclude(works, tree, plan.layers, outcomes)

    return run_agents(AgentWork(plan, works, workspace, after_units=after_units), models, database)


def _check_end(plan: RunPlan, result: AgentResult) -> None:
    """Raise `CancelledError` if the user asked to stop: finished units are kept for the next run."""
    if result.is_interrupted:
        raise CancelledError("interrupted", hint=f"run `{plan.again}` again: finished work is kept")
    if plan.config.ingest.work_units.failure_mode == "abort" and result.failed is not None:
        raise result.failed


def _take_over(plan: RunPlan, report: IngestReport, workspace: Workspace, result: AgentResult) -> None:
    """Put the accepted part of the agents' work into the run's overlay, and report it."""
    from ktx_cli.engine import decided_evictions, page_warnings, reconciled_by, what_became

    integration, documents, warn_of = result.integration, result.documents, plan.recorder.warn_of
    reconciliation, curations = integration.consolidation.reconciliation, integration.consolidation.curations
    outcomes = [*integration.outcomes, *documents.outcomes(curations)]
    warn_of(page_warnings(report.sources, outcomes, workspace, integration.workspace))
    workspace.absorb(integration.workspace)
    report.documents = documents.to_json(curations)
    warn_of(documents.warnings(curations))
    became = what_became(outcomes, integration.workspace, reconciliation)
    works = []
    for work in report.sources:
        evicted, undecided = decided_evictions(work, reconciliation, became)
        warn_of(undecided)
        own = tuple(each for each in outcomes if each.source == work.key)
        made = reconciled_by(reconciliation, work)
        works.append(replace(work, outcomes=own, evicted=evicted, reconciled=made, became=became))
    report.sources = _concluded(plan, works, integration.conclusions)
    report.reconciled, report.repaired, report.stopped = reconciliation, integration.repaired, result.stopped
    report.contradictions = integration.contradictions


def _concluded_without_agents(plan: RunPlan, works: Sequence[SourceWork], workspace: Workspace) -> list[SourceWork]:
    """Let the sources write what follows without agents, such as that a question is no longer asked."""
    from ktx_cli.engine import conclude

    return _concluded(plan, works, conclude(works, workspace, plan.layers))


def _concluded(
    plan: RunPlan, works: Iterable[SourceWork], conclusions: Mapping[SourceKey, Conclusion]
) -> list[SourceWork]:
    plan.recorder.warn_of(warning for each in conclusions.values() for warning in each.warnings)
    return [replace(work, conclusion=conclusions.get(work.key, work.conclusion)) for work in works]


def _estimate(plan: RunPlan, report: IngestReport) -> None:
    """Report what a run would change, and its model calls."""
    import tempfile

    from ktx_cli.engine import write_deliveries

    repository = Repository.discover(plan.layout.root)
    start = None if repository is None else repository.start(plan.destination)
    base = ProjectBase(plan.layout, repository, None if start is None else start.commit)
    checked_out = repository if repository is not None and start == repository.head() else None
    state, fetches = _earlier_runs(plan)
    with tempfile.TemporaryDirectory(prefix="ktx-dry-run-") as folder:
        declaring = _Declaring(plan, base, fetches, checked_out, Path(folder))
        changes = declaring.scan(report, state)
        workspace = changes.workspace
        works = _read_sources(plan, workspace, declaring)
        works = _concluded_without_agents(plan, works, workspace)
        report.forecast = _forecast(
            plan, changes, works, lambda kind, keys: [key for key in keys if (kind, key) in state.answers]
        )
    report.sources = [replace(work, planned=True) for work in works]
    write_deliveries(report.sources, workspace)
    report.add_files(workspace.changes(), changes.scans)
    check_definitions(plan, base, workspace, write=False)
    if checked_out is not None:
        _report_absent(report, changes, base, checked_out)
    for outcome in changes.scans:
        plan.recorder.warn_of(outcome.removals(frozenset(), {}))


def _forecast(plan: RunPlan, changes: ChangeSet, works: Sequence[SourceWork], kept: Kept) -> RunEstimate | None:
    """Return the work for models; `kept`: the answers that an earlier run stored."""
    from ktx_cli.engine import definition_demand, estimate_run

    asked = _layers_to_ask_about(plan, changes)
    return estimate_run(plan, works, kept, definition_demand(plan, changes.workspace, asked, kept))


def _earlier_runs(plan: RunPlan) -> tuple[ScanState, FetchStates]:
    """Return what earlier runs stored; an unreadable state database is a warning and counts as empty."""
    from ktx_cli.scan import kept_answers
    from ktx_cli.sources import load_fetches

    ids = [target.connection for target in plan.targets]

    def read(database: StateDatabase) -> tuple[ScanState, FetchStates]:
        return ScanState(previous_scans(database, ids), answers=kept_answers(database)), load_fetches(database)

    try:
        earlier = read_state(plan.layout, read)
    except KtxError as error:
        plan.warn(ResultWarning("state_unreadable", error.message, hint=error.hint))
        earlier = None
    return earlier or (ScanState(), {})


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ScanState:
    """The stores in which scans keep results for later scans."""

    previous: Mapping[str, PreviousScan] = field(default_factory=dict)
    """Connection -> the results that its last scan stored."""
    database: StateDatabase | None = None
    """The open state database; None in a dry run, which stores nothing."""
    models: Models | None = None
    answers: Answers = field(default_factory=dict)
    """The models' answers in earlier runs, for a dry run."""
    declared: Mapping[str, bytes] = field(default_factory=dict)
    """Path -> the declarations of a context source."""


def scan_databases(
    plan: RunPlan, base: ProjectBase, state: ScanState, wanted: Iterable[Target]
) -> Iterator[tuple[Target, tuple[ConnectionReport, ScanOutcome | None]]]:
    """Scan the databases among the targets, one after the other; the outcome of a failed scan is None."""
    databases = plan.config.databases()
    targets = [target for target in wanted if target.connection in databases]
    for done, target in enumerate(targets, start=1):
        scanned = _scan(plan, target, base, state)
        plan.emit(StepProgress("scan", done, len(targets)))
        yield target, scanned


def _scan(
    plan: RunPlan, target: Target, base: ProjectBase, state: ScanState
) -> tuple[ConnectionReport, ScanOutcome | None]:
    plan.emit(StepStarted("scan", target.connection))
    started = monotonic()
    outcome = None
    try:
        connector, scope = open_connection(
            plan.config, target.connection, project_dir=plan.layout.root, environ=plan.environ
        )
        with connector:
            outcome = scan_connection(connector, scope, _job(plan, target, base, state))
        report = ConnectionReport.of(outcome, monotonic() - started, base, dry_run=plan.dry_run)
    except (RunStopped, CancelledError):
        raise
    except Exception as problem:  # noqa: BLE001 - whatever is wrong with one connection, the others go on
        error = problem if isinstance(problem, KtxError) else _internal(target, problem)
        report = ConnectionReport(target.connection, target.driver, FAILED, seconds=monotonic() - started, error=error)
    plan.emit(StepFinished("scan", report.summary, report.seconds, target.connection))
    return report, outcome


def _job(plan: RunPlan, target: Target, base: ProjectBase, state: ScanState) -> ScanJob:
    settings, store = plan.config.scan, None
    if state.database is not None and plan.depth is not Depth.STRUCTURAL:
        store = ProfileStore(state.database, plan.layout.state, target.connection, settings.privacy)
    return ScanJob(
        target.connection,
        target.driver,
        base,
        ParsedCopies(plan.layout, target.connection),
        previous=state.previous.get(target.connection),
        depth=plan.depth,
        settings=settings,
        layout=ManifestLayout(plan.config.semantic.layout),
        entry=plan.config.databases().get(target.connection),
        describer=_describer(plan, target, state),
        store=store,
        declared=_declared_for(plan, target.connection, state.declared),
        emit=plan.emit,
        asked=plan.tables,
    )


def _declared_for(plan: RunPlan, connection: str, declared: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the declarations about a connection: those of all context sources, and of its own query history."""
    others = plan.config.databases().keys() - {connection}
    return {path: content for path, content in declared.items() if path.split("/")[1] not in others}


def _describer(plan: RunPlan, target: Target, state: ScanState) -> Describer | None:
    if plan.prompts is None and plan.depth is not Depth.ENRICHED:
        return None
    from ktx_cli.project import StateEnrichmentStore
    from ktx_cli.scan import Estimator, ModelDescriber, RuleDescriber

    if plan.prompts is None:
        return RuleDescriber()
    if state.database is None or state.models is None:
        return Estimator(plan.config, plan.prompts, state.answers)
    store = StateEnrichmentStore(plan.layout, state.database)
    return ModelDescriber(target.connection, plan.config, plan.prompts, store, state.models, plan.emit)


def _internal(target: Target, problem: Exception) -> KtxError:
    log.debug("the scan of %s failed", target.connection, exc_info=problem)
    where, hint = f"connection `{target.connection}`", Command("ingest", target.connection, "--debug")
    return internal_error(problem, where=where, hint=hint)
