"""`ktx ingest` and `ktx scan`: lease, scan of every connection, one commit (or none), report."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ktx_cli.context.scan.catalog import has_parsed_copies, write_parsed_copies
from ktx_cli.context.scan.scan import Base, EmptyBase, ScanOutcome, folders
from ktx_cli.core.clock import monotonic, new_run_id
from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.events import Emit, Notice, RunFinished, RunStarted, StepFinished, StepStarted, ignore_events
from ktx_cli.core.text import plural
from ktx_cli.jobs.ingest import ledger
from ktx_cli.jobs.ingest.report import UNCHANGED, IngestReport
from ktx_cli.jobs.ingest.scanning import ScanContext, scan_target
from ktx_cli.jobs.ingest.targets import Target, choose_targets
from ktx_cli.project.config import KtxConfig, llm_backend_problem, load_config
from ktx_cli.project.files import write_atomic
from ktx_cli.project.layout import Layout
from ktx_cli.project.leases import Lease, hold_lease
from ktx_cli.project.repository import CommitResult, Repository
from ktx_cli.project.state import open_for_reading


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
    _require_backend(loaded.config, request)
    report = IngestReport(new_run_id(), request.command, dry_run=request.dry_run)
    report.llm = "none" if request.no_llm else loaded.config.llm.provider.backend
    run = _Run(request, layout, loaded.config, targets, report, loaded.warnings())
    started = monotonic()
    if request.dry_run:
        _dry_run(run)
    else:
        _work(run)
    report.seconds = monotonic() - started
    request.emit(RunFinished(report.run_id, report.status, report.seconds))
    return report, run.warnings


def _require_backend(config: KtxConfig, request: IngestRequest) -> None:
    """Stop before anything is written when a backend is configured that cannot run."""
    problem = llm_backend_problem(config)
    if problem is not None and problem.code != "no_backend" and not request.no_llm:
        raise problem


def _dry_run(run: _Run) -> None:
    """Scan without a lease, a commit or a file."""
    repository = Repository.discover(run.layout.root)
    base: Base = EmptyBase() if repository is None else repository.tree(repository.head().commit)
    with open_for_reading(run.layout) as database:
        _scan(run, base, database)


def _work(run: _Run) -> None:
    request, layout, report = run.request, run.layout, run.report
    repository = Repository.discover(layout.root)
    if repository is not None:
        repository.check_writable()
    with hold_lease(
        layout, run_id=report.run_id, command=request.command, wait_seconds=request.wait_seconds, emit=request.emit
    ) as (lease, database):
        request.emit(RunStarted(report.run_id, request.command))
        ledger.start_run(database, report.run_id, request.command)
        if repository is None:
            repository = Repository.create(layout.root)
            report.created_repository = True
            request.emit(Notice(f"created a git repository in {layout.root}"))
        _recover(run, repository)
        head = repository.head()
        report.branch = head.ref
        _scan(run, repository.tree(head.commit), database)
        _commit(run, repository, head.commit, lease)
        _remember(run, repository, database)
        ledger.finish_run(database, report.run_id, report.status, report.commit)
        _write_report(run)


def _recover(run: _Run, repository: Repository) -> None:
    recovery = repository.recover()
    run.report.recovered = recovery.finished
    if recovery.finished:
        count = plural(len(recovery.finished), "file")
        run.request.emit(Notice(f"finished what a killed run left: {count} brought to the last commit"))


def _scan(run: _Run, base: Base, database: sqlite3.Connection | None) -> None:
    context = ScanContext(run.layout, run.config, run.request.environ, base, database, run.request.emit)
    for target in run.targets:
        report, outcome = scan_target(context, target)
        run.report.connections.append(report)
        if outcome is not None:
            run.outcomes.append(outcome)
            run.warnings.extend(outcome.warnings)


def _commit(run: _Run, repository: Repository, base: str | None, lease: Lease) -> None:
    changes = {path: content for outcome in run.outcomes for path, content in outcome.files.items()}
    if not changes:
        return
    run.request.emit(StepStarted("commit"))
    started = monotonic()
    result = repository.commit(
        changes,
        message=_message(run.report),
        base=base,
        author=run.config.storage.git.author,
        before_publish=lease.check,
    )
    _report_commit(run, result)
    done = f"{plural(len(result.committed), 'file')} in {result.commit[:10]}" if result.commit else "nothing to commit"
    run.request.emit(StepFinished("commit", done, monotonic() - started))


def _report_commit(run: _Run, result: CommitResult) -> None:
    report = run.report
    report.commit, report.committed, report.ignored = result.commit, result.committed, result.ignored
    report.held = tuple((held.path, held.reason.value) for held in result.held)
    if result.ignored:
        run.warnings.append(
            ResultWarning(
                "ignored_paths",
                f"{plural(len(result.ignored), 'file')} written but not committed, because git ignores them",
                hint="take the folder out of .gitignore to keep its history",
                paths=list(result.ignored),
            )
        )


def _remember(run: _Run, repository: Repository, database: sqlite3.Connection) -> None:
    """Store what the next run compares with, and the parsed copies."""
    left_out = {path for path, _ in run.report.held} | set(run.report.ignored)
    tree = repository.tree(repository.head().commit)
    for outcome in run.outcomes:
        files = None
        if not left_out.intersection(outcome.files):
            files = {path: blob for folder in folders(outcome.connection) for path, blob in tree.blobs(folder).items()}
        ledger.record_scan(database, run.report.run_id, outcome, files)
        if outcome.shards and (outcome.files or not has_parsed_copies(run.layout, outcome.connection)):
            write_parsed_copies(run.layout, outcome.connection, outcome.shards)


def _write_report(run: _Run) -> None:
    text = json.dumps(run.report.to_json(), indent=1, ensure_ascii=False) + "\n"
    write_atomic(run.layout.runs / f"{run.report.run_id}.json", text.encode("utf-8", "surrogatepass"))


def _message(report: IngestReport) -> str:
    scanned = [c for c in report.connections if c.status != UNCHANGED]
    lines = [f"{report.command}: {', '.join(c.connection for c in scanned)}", ""]
    lines += [f"{c.connection}: {c.summary}" for c in scanned]
    return "\n".join([*lines, "", f"Ktx-Run: {report.run_id}", ""])
