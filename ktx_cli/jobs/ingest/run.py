"""`ktx ingest` and `ktx scan`: lease, scan of every connection, one commit (or none), report."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ktx_cli.core import KtxError, Notice, ResultWarning, RunFinished, StepProgress, monotonic, new_run_id
from ktx_cli.engine import (
    FAILED,
    ConnectionReport,
    Enrich,
    FetchStates,
    IngestReport,
    IngestRequest,
    Keep,
    Models,
    Preflight,
    PreflightFailed,
    ProjectBase,
    Prompts,
    Run,
    RunPlan,
    ScanContext,
    ValueKeeper,
    agents_needed,
    begin_workspace,
    choose_depth,
    commit,
    conclude,
    enriched,
    foretold,
    forget_units,
    ignored_manifests,
    load_fetches,
    needs_model,
    not_enriched,
    read_sources,
    remember,
    remember_sources,
    report_files,
    scan_target,
    source_warnings,
    take_conclusions,
    write_manifests,
)
from ktx_cli.engine import base as ledger
from ktx_cli.jobs.ingest.lifecycle import recover, refresh_search, report_broken, under_lease
from ktx_cli.jobs.ingest.targets import broken_targets, choose_targets
from ktx_cli.project import (
    RAW_NAME,
    SEMANTIC_NAME,
    Held,
    HeldReason,
    Layout,
    Lease,
    Repository,
    file_name_warnings,
    load_config,
    read_state,
    translated,
)
from ktx_cli.runs import Recorder
from ktx_cli.scan import PreviousScan, folders

if TYPE_CHECKING:
    from ktx_cli.engine import Answers


__all__ = ["IngestRequest", "ingest"]


def ingest(request: IngestRequest) -> tuple[IngestReport, list[ResultWarning]]:
    """Scan the connections and commit what changed, once.

    A connection that fails does not stop the others; the report says so. Raises `KtxError` when nothing could be
    begun: broken configuration, a configured backend that cannot run, a busy lease, an unusable repository.
    """
    layout = Layout(request.project_dir)
    loaded = load_config(layout.config)
    targets = choose_targets(layout, loaded.config, request.connections, databases_only=request.databases_only)
    run_id = request.run_id or new_run_id()
    report = IngestReport(run_id, request.command, dry_run=request.dry_run, project_dir=layout.root)
    report.llm = "none" if request.no_llm else loaded.config.llm.provider.backend
    depth = choose_depth(loaded.config, request.depth, no_llm=request.no_llm)
    report.depth = depth.value
    asks = needs_model(loaded.config, depth, no_llm=request.no_llm)
    prompts = Prompts.load(layout.prompts) if asks else None
    unserved = None if request.no_llm or request.depth is not None else not_enriched(loaded.config)
    warnings = [*loaded.notices(), *([] if unserved is None else [unserved]), *file_name_warnings(layout.root)]
    plan = RunPlan(
        request.command,
        layout,
        loaded.config,
        request.environ,
        Recorder(layout, run_id, request.emit, warnings),
        tuple(targets),
        depth,
        prompts,
        request.max_usd,
        request.max_tokens,
        databases_only=request.databases_only,
        no_llm=request.no_llm,
        dry_run=request.dry_run,
        awaited=request.run_id is not None,
        wait_seconds=request.wait_seconds,
    )
    broken = broken_targets(loaded.config, request.connections, databases_only=request.databases_only)
    report.connections += [
        ConnectionReport(target.connection, target.driver, FAILED, error=error) for target, error in broken.items()
    ]
    run = Run(plan, report)
    preflight = Preflight(run, needed=asks or not (request.no_llm or request.databases_only))
    preflight.check_settings()
    started = monotonic()
    try:
        _dry_run(run) if request.dry_run else _work(run, preflight)
    except PreflightFailed as failed:
        raise failed.error from None
    finally:
        report.seconds = monotonic() - started
        run.request.emit(RunFinished(report.run_id, report.status, report.seconds))
        run.recorder.close()
    return report, run.warnings


def _dry_run(run: Run) -> None:
    """Scan without a lease, a commit or a file."""
    from ktx_cli.engine import forecast

    repository = Repository.discover(run.layout.root)
    commit = None if repository is None else repository.head().commit
    ids = [target.connection for target in run.targets]
    previous, answers, fetches = _state_or_none(run, ids)
    base = ProjectBase(run.layout, repository, commit)
    _scan(run, base, previous, foretold(run, answers), lambda _: None)
    begin_workspace(run, base)
    with tempfile.TemporaryDirectory(prefix="ktx-dry-run-") as folder:
        _read_sources(run, base, fetches, scratch=Path(folder))
        _conclude(run)
    for work in run.works:
        work.planned = True
    write_manifests(run.works, run.workspace)
    report_files(run, run.workspace.changes())
    report_broken(run, base, dry_run=True)
    run.report.forecast = forecast(run)
    if repository is not None:
        _name_absent(run, repository, base)
    run.recorder.warn_of(warning for outcome in run.outcomes for warning in outcome.removals(frozenset(), {}))


def _state_or_none(run: Run, connections: Sequence[str]) -> tuple[Mapping[str, PreviousScan], Answers, FetchStates]:
    """Return what earlier runs left; a state database that cannot be read is named and counts as none."""
    from ktx_cli.engine import kept_answers

    try:
        found = read_state(
            run.layout,
            lambda database: (
                ledger.previous_scans(database, connections),
                kept_answers(database),
                load_fetches(database),
            ),
        )
    except KtxError as error:
        run.warnings.append(ResultWarning("state_unreadable", error.message, hint=error.hint))
        found = None
    return found or ({}, {}, {})


def _work(run: Run, preflight: Preflight) -> None:
    layout = run.layout
    repository = Repository.discover(layout.root)
    if repository is not None:
        repository.check_writable()
    if run.request.awaited or not _has_context(layout):
        preflight.require()  # somebody waits for its answer, or there is nothing this run could leave as it is
    under_lease(
        run,
        repository,
        preflight,
        lambda found, lease, database: _scan_and_commit(run, found, lease, database, preflight),
    )


def _has_context(layout: Layout) -> bool:
    """Say whether an earlier run left anything."""
    return any((layout.root / folder).is_dir() for folder in (SEMANTIC_NAME, RAW_NAME))


def _scan_and_commit(
    run: Run, repository: Repository, lease: Lease, database: sqlite3.Connection, preflight: Preflight
) -> None:
    recover(run, repository)
    head = repository.head()
    run.report.branch = head.ref
    base = ProjectBase(run.layout, repository, head.commit)
    with translated(run.layout.state):
        previous = ledger.previous_scans(database, [target.connection for target in run.targets])
        fetches = load_fetches(database)
    with Models(run, database, preflight) as models:
        _scan(run, base, previous, enriched(run, models, database), lambda id_: _keeper(run, database, id_))
        begin_workspace(run, base)
        _read_sources(run, base, fetches)
        _work_through(run, models, database)
    _name_absent(run, repository, base)
    write_manifests(run.works, run.workspace)
    if run.workspace.changes():
        preflight.require()
    commit(run, repository, head.commit, lease)
    now = base if run.report.commit is None else ProjectBase(run.layout, repository, run.report.commit)
    remember(run, now, database)
    remember_sources(run, database)
    held = {path for path, _ in run.report.held}
    forget_units(database, run.layout.state, run.works, held)
    report_broken(run, base)
    refresh_search(run)


def _read_sources(run: Run, base: ProjectBase, fetches: FetchStates, *, scratch: Path | None = None) -> None:
    """Read the sources, and take over what they warn of."""
    works = read_sources(run, base, fetches, scratch=scratch)
    run.works.extend(works)
    run.warnings.extend(source_warnings(works))
    for warning in ignored_manifests(run.layout.root, works):
        run.warn(warning)
        run.request.emit(Notice(warning.message))


def _work_through(run: Run, models: Models, database: sqlite3.Connection) -> None:
    """Let agents work through what the sources have for them."""
    if run.asks_model and agents_needed(run.works, database):
        models.begin()
        from ktx_cli.jobs.ingest.agents import work_through

        work_through(run, models, database)
    else:
        _conclude(run)


def _conclude(run: Run) -> None:
    """Let the sources write what follows without agents, such as that nobody asks a question any more."""
    take_conclusions(run, conclude(run.works, run.workspace, run.layers))


def _keeper(run: Run, database: sqlite3.Connection, connection: str) -> ValueKeeper:
    scan = run.config.scan
    seconds = float(scan.budget.seconds)
    return ValueKeeper(database, run.layout.state, connection, scan.privacy, seconds, run.request.emit)


def _scan(run: Run, base: ProjectBase, previous: Mapping[str, PreviousScan], enrich: Enrich, keep: Keep) -> None:
    request = run.request
    context = ScanContext(
        run.layout,
        run.config,
        request.environ,
        base,
        previous,
        request.emit,
        run.depth,
        enrich,
        keep,
        dry_run=request.dry_run,
    )
    databases = run.config.databases()
    targets = [target for target in run.targets if target.connection in databases]
    for done, target in enumerate(targets, start=1):
        report, outcome = scan_target(context, target)
        request.emit(StepProgress("scan", done, len(targets)))
        run.report.connections.append(report)
        if report.enriched is not None:
            run.warnings.extend(report.enriched.warnings(target.connection))
        if outcome is not None:
            run.outcomes.append(outcome)
            run.warnings.extend(outcome.warnings)
            run.warnings.extend(each.warning(outcome.connection) for each in outcome.failures)


def _name_absent(run: Run, repository: Repository, base: ProjectBase) -> None:
    """Name the committed files that nothing changes and that are not there to be read; a sparse checkout is meant."""
    absent: list[Held] = []
    for outcome in run.outcomes:
        known = (path for folder in folders(outcome.connection) for path in base.paths(f"{folder}/"))
        absent += repository.absent(path for path in known if path not in outcome.files)
    if absent and repository.head().commit != base.commit:  # the user went to another branch meanwhile
        return
    named = ((held.path, held.reason.value) for held in absent if held.reason is not HeldReason.SKIP_WORKTREE)
    run.report.held = tuple(dict.fromkeys((*run.report.held, *named)))
