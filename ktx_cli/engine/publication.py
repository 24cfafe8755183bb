"""What a run leaves behind: one commit or none, the facts the next run compares with, its report."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping

from ktx_cli.core import ResultWarning, StepFinished, StepStarted, StorageError, monotonic, plural
from ktx_cli.engine.base import ProjectBase, Run
from ktx_cli.engine.report import UNCHANGED, FileChanges, IngestReport
from ktx_cli.project import (
    EDITED_MEANWHILE,
    CommitResult,
    Repository,
    RunLock,
    Workspace,
    transaction,
    translated,
    write_atomic,
)
from ktx_cli.scan import Failures, ScanOutcome, Stage, folders, record_scan
from ktx_cli.semantic import has_parsed_copies, write_parsed_copies


def begin_workspace(run: Run, base: ProjectBase) -> None:
    """Make the overlay of the run: the base, and what the scans change of it."""
    run.workspace = Workspace(base)
    for outcome in run.outcomes:
        run.workspace.apply(outcome.files)


def report_files(run: Run, changes: Mapping[str, bytes | None]) -> None:
    """Name the changes, and at each connection those that are its own."""
    run.report.files = FileChanges.of(changes)
    own = {outcome.connection: outcome.files for outcome in run.outcomes}
    for report in run.report.connections:
        files = own.get(report.connection, {})
        report.files = FileChanges.of({path: content for path, content in changes.items() if path in files})


def commit(run: Run, repository: Repository, tip: str | None, lock: RunLock, message: str | None = None) -> None:
    """Commit what the run changes, once; nothing when nothing changes. `tip`: the commit the base was read from.

    `message`: of the commit, in place of one that names what was read.
    """
    changes = run.workspace.changes()
    if not changes:
        return
    run.plan.emit(StepStarted("commit"))
    started = monotonic()
    result = repository.commit(
        changes,
        message=message or _message(run.report),
        base=tip,
        author=run.plan.config.storage.git.author,
        before_publish=lock.check,
        adjust=lambda held: _without(run, changes, held),
        spared=[path for outcome in run.outcomes for path in outcome.plan.removed_texts.shards],
    )
    _report_commit(run, result)
    report_files(run, {path: changes[path] for path in (*result.committed, *result.ignored) if path in changes})
    done = plural(len(result.committed), "file") if result.commit else "nothing to commit"
    run.plan.emit(StepFinished("commit", done, monotonic() - started))


def _without(run: Run, changes: Mapping[str, bytes | None], held: frozenset[str]) -> dict[str, bytes | None]:
    """Return the changes that may be made while the held paths stay as they are.

    What a source wrote stays but where a scan may not write the file either; manifests do not claim what is held.
    """
    allowed = {path: content for outcome in run.outcomes for path, content in outcome.without(held).items()}
    asked = {path: content for outcome in run.outcomes for path, content in outcome.files.items()}
    own = {path for path, content in allowed.items() if asked[path] == content}
    kept = {path: changes[path] for path in changes if path not in held and (path in own or path not in asked)}
    manifests: dict[str, bytes] = {}
    if run.works:
        from ktx_cli.engine.source_phase import manifests_without

        manifests = {path: text for path, text in manifests_without(run.works, held).items() if path in changes}
    return {path: allowed[path] for path in changes if path in allowed} | kept | manifests


def _report_commit(run: Run, result: CommitResult) -> None:
    report = run.report
    report.commit, report.committed, report.ignored = result.commit, result.committed, result.ignored
    held = frozenset(held.path for held in result.held)
    run.plan.recorder.warn_of(warning for o in run.outcomes for warning in o.removals(held, result.replaced))
    edited = [(path, EDITED_MEANWHILE) for path in result.left]
    report.held = (*report.held, *((held.path, held.reason.value) for held in result.held), *edited)
    if result.ignored:
        run.plan.warn(
            ResultWarning(
                "ignored_paths",
                f"{plural(len(result.ignored), 'file')} written but not committed, because git ignores them",
                hint="take the folder out of .gitignore to keep its history",
                paths=list(result.ignored),
            )
        )


def remember(run: Run, now: ProjectBase, database: sqlite3.Connection) -> None:
    """Store what the next run compares with, and the parsed copies. `now`: what was read or has been committed."""
    held = {path for path, _ in run.report.held}
    for outcome in run.outcomes:
        failures = Failures()
        with failures.stage(Stage.REMEMBER):
            _remember_scan(run, outcome, now, database, held)
        run.note_failures(outcome.connection, failures.found())
    if run.works:
        from ktx_cli.engine.journal import forget_units

        remember_sources(run, database)
        forget_units(database, run.plan.layout.state, run.works, held)


def _remember_scan(
    run: Run, outcome: ScanOutcome, now: ProjectBase, database: sqlite3.Connection, held: Collection[str]
) -> None:
    files = None
    if not set(held).intersection(outcome.files):
        files = {path: blob for folder in folders(outcome.connection) for path, blob in now.blobs(folder).items()}
    with translated(run.plan.layout.state):
        record_scan(database, run.report.run_id, outcome, files)
    if outcome.plan.shards and (outcome.files or not has_parsed_copies(run.plan.layout, outcome.connection)):
        write_parsed_copies(run.plan.layout, outcome.connection, outcome.plan.shards)


def remember_sources(run: Run, database: sqlite3.Connection) -> None:
    """Store where the next fetches go on; a source of which something was held is looked at again as a whole."""
    from ktx_cli.engine.source_phase import save_fetches

    held = {path for path, _ in run.report.held}
    landed = [work for work in run.works if not held.intersection(work.touched_paths())]
    with translated(run.plan.layout.state):
        save_fetches(database, landed, run.workspace)
        if run.curations:
            from ktx_cli.engine.documents.lanes import remember_waiting

            with transaction(database):
                remember_waiting(database, run.curations)


def write_report(run: Run) -> None:
    """Write the report of a run; that it cannot be written is a warning, for the run itself is over by then."""
    text = json.dumps(run.report.to_json(), indent=1, ensure_ascii=False) + "\n"
    try:
        path = run.plan.layout.runs / f"{run.report.run_id}.json"
        write_atomic(path, text.encode("utf-8", "surrogatepass"), mode=0o600)
    except StorageError as error:
        message = f"the report of the run is not written: {error.message}"
        run.plan.warn(ResultWarning("report_not_written", message, hint=error.hint))


def _message(report: IngestReport) -> str:
    scanned = [c for c in report.connections if c.status != UNCHANGED]
    read = [work for work in report.sources if work.status != UNCHANGED]
    names = dict.fromkeys([*(c.connection for c in scanned), *(work.connection for work in read)])
    lines = [f"{report.command}: {', '.join(names)}", ""]
    lines += [f"{c.connection}: {c.result}" for c in scanned]
    lines += [f"{work.name}: {work.result}" for work in read]
    return "\n".join([*lines, "", f"Ktx-Run: {report.run_id}", ""])
