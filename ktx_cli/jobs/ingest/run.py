"""`ktx ingest` and `ktx scan`: lease, scan of every connection, one commit (or none), report."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ktx_cli.context.scan.catalog import has_parsed_copies, write_parsed_copies
from ktx_cli.context.scan.scan import PreviousScan, ScanOutcome, folders
from ktx_cli.core.clock import monotonic, new_run_id
from ktx_cli.core.errors import KtxError, ResultWarning, StorageError
from ktx_cli.core.events import (
    Emit,
    Notice,
    RunFinished,
    RunStarted,
    StepFinished,
    StepProgress,
    StepStarted,
    ignore_events,
)
from ktx_cli.core.text import plural
from ktx_cli.jobs.ingest import ledger
from ktx_cli.jobs.ingest.base import ProjectBase
from ktx_cli.jobs.ingest.problems import problem_warnings
from ktx_cli.jobs.ingest.report import UNCHANGED, FileChanges, IngestReport
from ktx_cli.jobs.ingest.scanning import ScanContext, scan_target
from ktx_cli.jobs.ingest.targets import Target, choose_targets
from ktx_cli.jobs.models.probing import ProbeRun, distinct_models, require_models
from ktx_cli.project.config import KtxConfig, load_config
from ktx_cli.project.files import write_atomic
from ktx_cli.project.layout import Layout
from ktx_cli.project.leases import Lease, hold_lease
from ktx_cli.project.repository import EDITED_AFTER_KILL, EDITED_MEANWHILE, CommitResult, Held, HeldReason, Repository
from ktx_cli.project.state import read_state, translated
from ktx_cli.project.workspace import Workspace


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """What to do: which connections (none: all), how, and for how long to wait for another run (seconds)."""

    project_dir: Path
    environ: Mapping[str, str]
    connections: Sequence[str] = ()
    command: str = "ktx ingest"
    databases_only: bool = False
    no_llm: bool = False
    dry_run: bool = False
    wait_seconds: float = 0.0
    emit: Emit = ignore_events


@dataclass(slots=True)
class _Run:
    """The state of one run while it lasts."""

    request: IngestRequest
    layout: Layout
    config: KtxConfig
    targets: Sequence[Target]
    report: IngestReport
    warnings: list[ResultWarning]
    outcomes: list[ScanOutcome] = field(default_factory=list)


def ingest(request: IngestRequest) -> tuple[IngestReport, list[ResultWarning]]:
    """Scan the connections and commit what changed, once.

    A connection that fails does not stop the others; the report says so. Raises `KtxError` when nothing could be
    begun: broken configuration, a configured backend that cannot run, a busy lease, an unusable repository.
    """
    layout = Layout(request.project_dir)
    loaded = load_config(layout.config)
    targets = choose_targets(loaded.config, request.connections, databases_only=request.databases_only)
    report = IngestReport(new_run_id(), request.command, dry_run=request.dry_run, project_dir=layout.root)
    report.llm = "none" if request.no_llm else loaded.config.llm.provider.backend
    run = _Run(request, layout, loaded.config, targets, report, loaded.warnings())
    probes = ProbeRun() if request.no_llm else _require_models(run)
    started = monotonic()
    try:
        _dry_run(run) if request.dry_run else _work(run, probes)
    finally:
        report.seconds = monotonic() - started
        request.emit(RunFinished(report.run_id, report.status, report.seconds))
    return report, run.warnings


def _require_models(run: _Run) -> ProbeRun:
    """Stop before anything is written when a backend is configured that does not answer; a dry run asks none."""
    if run.request.dry_run:
        distinct_models(run.config)
        return ProbeRun()
    request = run.request
    return require_models(
        run.layout,
        run.config,
        request.environ,
        command=request.command,
        warn=run.warnings.append,
        emit=request.emit,
    )


def _dry_run(run: _Run) -> None:
    """Scan without a lease, a commit or a file."""
    repository = Repository.discover(run.layout.root)
    commit = None if repository is None else repository.head().commit
    ids = [target.connection for target in run.targets]
    previous = _previous_or_none(run, ids)
    base = ProjectBase(run.layout, repository, commit)
    _scan(run, base, previous)
    _report_files(run, _changes(run, base))
    if repository is not None:
        _name_absent(run, repository, base)
    run.warnings += [warning for outcome in run.outcomes for warning in outcome.removals(frozenset(), {})]


def _previous_or_none(run: _Run, connections: Sequence[str]) -> Mapping[str, PreviousScan]:
    """Return what the last scans left; a state database that cannot be read is named and counts as none."""
    try:
        return read_state(run.layout, lambda database: ledger.previous_scans(database, connections)) or {}
    except KtxError as error:
        run.warnings.append(ResultWarning("state_unreadable", error.message, hint=error.hint))
        return {}


def _work(run: _Run, probes: ProbeRun) -> None:
    request, layout, report = run.request, run.layout, run.report
    repository = Repository.discover(layout.root)
    if repository is not None:
        repository.check_writable()
    with hold_lease(
        layout,
        run_id=report.run_id,
        command=request.command,
        wait_seconds=request.wait_seconds,
        emit=request.emit,
        warn=run.warnings.append,
    ) as (lease, database):
        request.emit(RunStarted(report.run_id, request.command))
        with translated(layout.state):
            ledger.start_run(database, report.run_id, request.command)
        probes.store(layout)
        try:
            _scan_and_commit(run, repository or _created(run), lease, database)
        except BaseException as error:
            report.ended = "failed" if isinstance(error, Exception) else "interrupted"
            if isinstance(error, KtxError):  # the branch may have moved before the error
                report.commit = error.details.get("commit", report.commit)
            with contextlib.suppress(sqlite3.Error):  # the error itself matters more
                ledger.finish_run(database, report.run_id, report.status, report.commit)
            _write_report(run)
            raise
        with translated(layout.state):
            ledger.finish_run(database, report.run_id, report.status, report.commit)
        _write_report(run)


def _created(run: _Run) -> Repository:
    repository = Repository.create(run.layout.root)
    run.report.created_repository = True
    run.request.emit(Notice(f"created a git repository in {run.layout.root}"))
    return repository


def _scan_and_commit(run: _Run, repository: Repository, lease: Lease, database: sqlite3.Connection) -> None:
    _recover(run, repository)
    head = repository.head()
    run.report.branch = head.ref
    base = ProjectBase(run.layout, repository, head.commit)
    with translated(run.layout.state):
        previous = ledger.previous_scans(database, [target.connection for target in run.targets])
    _scan(run, base, previous)
    _name_absent(run, repository, base)
    _commit(run, repository, base, head.commit, lease)
    now = base if run.report.commit is None else ProjectBase(run.layout, repository, run.report.commit)
    _remember(run, now, database)


def _recover(run: _Run, repository: Repository) -> None:
    recovery = repository.recover()
    run.report.recovered = recovery.finished
    run.report.held = tuple((path, EDITED_AFTER_KILL) for path in recovery.left)
    if recovery.finished:
        count = plural(len(recovery.finished), "file")
        run.request.emit(Notice(f"finished what a killed run left: {count} brought to the last commit"))


def _scan(run: _Run, base: ProjectBase, previous: Mapping[str, PreviousScan]) -> None:
    request = run.request
    context = ScanContext(
        run.layout, run.config, request.environ, base, previous, request.emit, dry_run=request.dry_run
    )
    for done, target in enumerate(run.targets, start=1):
        report, outcome = scan_target(context, target)
        request.emit(StepProgress("scan", done, len(run.targets)))
        run.report.connections.append(report)
        if outcome is not None:
            run.outcomes.append(outcome)
            run.warnings.extend(outcome.warnings)
            run.warnings.extend(problem_warnings(outcome))


def _name_absent(run: _Run, repository: Repository, base: ProjectBase) -> None:
    """Name the committed files that nothing changes and that are not there to be read; a sparse checkout is meant."""
    absent: list[Held] = []
    for outcome in run.outcomes:
        known = (path for folder in folders(outcome.connection) for path in base.paths(f"{folder}/"))
        absent += repository.absent(path for path in known if path not in outcome.files)
    if absent and repository.head().commit != base.commit:  # the user went to another branch meanwhile
        return
    named = ((held.path, held.reason.value) for held in absent if held.reason is not HeldReason.SKIP_WORKTREE)
    run.report.held = tuple(dict.fromkeys((*run.report.held, *named)))


def _changes(run: _Run, base: ProjectBase) -> dict[str, bytes | None]:
    """Return what the scans change of the base, path -> content, None for a file that goes."""
    workspace = Workspace(base)
    for outcome in run.outcomes:
        for path, content in outcome.files.items():
            if content is None:
                workspace.delete(path)
            else:
                workspace.write(path, content)
    return workspace.changes()


def _report_files(run: _Run, changes: Mapping[str, bytes | None]) -> None:
    """Name at each connection those of the changes that are its own."""
    own = {outcome.connection: outcome.files for outcome in run.outcomes}
    for report in run.report.connections:
        files = own.get(report.connection, {})
        report.files = FileChanges.of({path: content for path, content in changes.items() if path in files})


def _commit(run: _Run, repository: Repository, base: ProjectBase, commit: str | None, lease: Lease) -> None:
    changes = _changes(run, base)
    if not changes:
        return
    run.request.emit(StepStarted("commit"))
    started = monotonic()
    result = repository.commit(
        changes,
        message=_message(run.report),
        base=commit,
        author=run.config.storage.git.author,
        before_publish=lease.check,
        adjust=lambda held: _without(run, changes, held),
        spared=[path for outcome in run.outcomes for path in outcome.losses.shards],
    )
    _report_commit(run, result)
    _report_files(run, {path: changes[path] for path in (*result.committed, *result.ignored) if path in changes})
    done = f"{plural(len(result.committed), 'file')} in {result.commit[:10]}" if result.commit else "nothing to commit"
    run.request.emit(StepFinished("commit", done, monotonic() - started))


def _without(run: _Run, changes: Mapping[str, bytes | None], held: frozenset[str]) -> dict[str, bytes | None]:
    """Return the changes that may be made while the held paths stay as they are."""
    allowed = {path: content for outcome in run.outcomes for path, content in outcome.without(held).items()}
    return {path: allowed[path] for path in changes if path in allowed}


def _report_commit(run: _Run, result: CommitResult) -> None:
    report = run.report
    report.commit, report.committed, report.ignored = result.commit, result.committed, result.ignored
    held = frozenset(held.path for held in result.held)
    run.warnings += [warning for o in run.outcomes for warning in o.removals(held, result.replaced)]
    edited = [(path, EDITED_MEANWHILE) for path in result.left]
    report.held = (*report.held, *((held.path, held.reason.value) for held in result.held), *edited)
    if result.ignored:
        run.warnings.append(
            ResultWarning(
                "ignored_paths",
                f"{plural(len(result.ignored), 'file')} written but not committed, because git ignores them",
                hint="take the folder out of .gitignore to keep its history",
                paths=list(result.ignored),
            )
        )


def _remember(run: _Run, now: ProjectBase, database: sqlite3.Connection) -> None:
    """Store what the next run compares with, and the parsed copies. `now`: what was read or has been committed."""
    held = {path for path, _ in run.report.held}
    for outcome in run.outcomes:
        files = None
        if not held.intersection(outcome.files):
            files = {path: blob for folder in folders(outcome.connection) for path, blob in now.blobs(folder).items()}
        with translated(run.layout.state):
            ledger.record_scan(database, run.report.run_id, outcome, files)
        if outcome.shards and (outcome.files or not has_parsed_copies(run.layout, outcome.connection)):
            write_parsed_copies(run.layout, outcome.connection, outcome.shards)


def _write_report(run: _Run) -> None:
    """Write the report of a run; that it cannot be written is a warning, for the run itself is over by then."""
    text = json.dumps(run.report.to_json(), indent=1, ensure_ascii=False) + "\n"
    try:
        write_atomic(run.layout.runs / f"{run.report.run_id}.json", text.encode("utf-8", "surrogatepass"))
    except StorageError as error:
        message = f"the report of the run is not written: {error.message}"
        run.warnings.append(ResultWarning("report_not_written", message, hint=error.hint))


def _message(report: IngestReport) -> str:
    scanned = [c for c in report.connections if c.status != UNCHANGED]
    lines = [f"{report.command}: {', '.join(c.connection for c in scanned)}", ""]
    lines += [f"{c.connection}: {c.summary}" for c in scanned]
    return "\n".join([*lines, "", f"Ktx-Run: {report.run_id}", ""])
