"""Takes back what a capture wrote, in a commit of its own; later work stays, or nothing is changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ktx_cli.core import (
    Command,
    KtxError,
    ResultWarning,
    RunFinished,
    UsageError,
    isoformat,
    listing,
    monotonic,
    new_run_id,
    now,
)
from ktx_cli.engine import Gates, IngestReport, Preflight, ProjectBase, Run, RunPlan, begin_workspace, report_files
from ktx_cli.jobs.capture.agent import MANIFEST, state_of, without_state
from ktx_cli.jobs.capture.capture import CaptureOptions
from ktx_cli.jobs.capture.records import MemoryRecord, save, settle_dead
from ktx_cli.jobs.ingest.lifecycle import recover, refresh_search, under_run_lock
from ktx_cli.project import Conflict, Layout, Repository, RunLock, Workspace, load_config, merge_lines
from ktx_cli.project import merge_file as merge_files
from ktx_cli.runs import Recorder
from ktx_cli.sources import Manifest, parse_manifest, render_manifest

COMMAND: Final = Command("memory", "revert")


@dataclass(slots=True)
class Reverted:
    """What a revert did: its run, its commit, and the files that are as they were, or without what was captured."""

    record: MemoryRecord
    run_id: str
    commit: str | None = None
    files: tuple[str, ...] = ()
    warnings: list[ResultWarning] = field(default_factory=list)


def revert(record: MemoryRecord, options: CaptureOptions) -> Reverted:
    """Undo a capture that landed on the current branch.

    Raises `UsageError` for one that wrote nothing, or waits on its branch; `KtxError` (`conflict`) where later work
    would be lost: then nothing is changed.
    """
    layout = Layout(options.project_dir)
    if record.reverted is not None:
        raise UsageError(f"capture {record.run_id} was taken back already", hint=Command("memory", "list"))
    if record.commit is None:
        raise UsageError(
            f"capture {record.run_id} wrote nothing that could be taken back", hint=Command("memory", "list")
        )
    loaded = load_config(layout.config)
    run_id = new_run_id()
    plan = RunPlan(
        COMMAND,
        layout,
        loaded.config,
        options.environ,
        Recorder(layout, run_id, options.emit, loaded.notices()),
        no_llm=True,
        wait_seconds=options.wait_seconds,
    )
    report = IngestReport(run_id, COMMAND, project_dir=layout.root)
    run = Run(plan, report)
    repository = Repository.discover(layout.root)
    if repository is None:
        raise UsageError(
            "the project is in no repository, so there is nothing to take back", hint=Command("memory", "list")
        )
    repository.check_writable()
    made = _Revert(run, record, Reverted(record, run_id, warnings=run.plan.recorder.warnings))
    started = monotonic()
    try:
        under_run_lock(run, repository, Preflight(run, needed=False), made.work)
    finally:
        report.seconds = monotonic() - started
        run.plan.emit(RunFinished(run_id, report.status, report.seconds))
        run.plan.recorder.close()
    return made.result


@dataclass(slots=True)
class _Revert:
    """A revert while it lasts."""

    run: Run
    record: MemoryRecord
    result: Reverted

    def work(self, repository: Repository, lock: RunLock, database: sqlite3.Connection) -> None:
        """Undo, check and commit, all or nothing."""
        run = self.run
        recover(run, repository)
        settle_dead(run.plan.layout)
        head = repository.head()
        run.report.branch = head.ref
        base = ProjectBase(run.plan.layout, repository, head.commit)
        begin_workspace(run, base)
        self._check_landed(base)
        self._undo(repository)
        self._check(base)
        self._commit(repository, head.commit, lock)
        refresh_search(run)
        self._remember()

    def _check_landed(self, base: ProjectBase) -> None:
        manifest = parse_manifest(base.read(MANIFEST), MANIFEST)
        if state_of(manifest, self.record) is not None:
            return
        branch = self.record.branch
        raise UsageError(
            f"nothing of capture {self.record.run_id} is on this branch",
            hint=Command("branch", "-D", branch, program="git") if branch else Command("memory", "list"),
        )

    def _undo(self, repository: Repository) -> None:
        """Put every file of the capture back, with what was changed since merged into it."""
        lost: dict[str, str] = {}
        for commit in reversed(self.record.commits):
            if repository.commit_at(commit) is None:
                raise KtxError(
                    f"the commit {commit[:10]} of the capture is gone", hint=Command("fetch", program="git"), code="git"
                )
            after, before = repository.tree(commit), repository.tree(repository.parent_of(commit))
            for path in sorted(dict(set(after.blobs().items()) ^ set(before.blobs().items()))):
                if path != MANIFEST:
                    self._undo_file(path, after.read(path), before.read(path), lost)
        if lost:
            raise self._refusal(lost)
        self._undo_manifest()

    def _undo_file(self, path: str, after: bytes | None, before: bytes | None, lost: dict[str, str]) -> None:
        workspace = self.run.workspace
        merged = merge_files(path, after, before, workspace.read(path), text_merge=merge_lines)
        if isinstance(merged, Conflict):
            lost[path] = merged.reason
        else:
            workspace.apply({path: merged})

    def _undo_manifest(self) -> None:
        workspace = self.run.workspace
        left = without_state(parse_manifest(workspace.read(MANIFEST), MANIFEST), self.record)
        workspace.apply({MANIFEST: None if left == Manifest() else render_manifest(left)})

    def _check(self, base: ProjectBase) -> None:
        """Raise where something later rests on what would go."""
        gates = Gates(Workspace(base), self.run.plan.layers)
        found = gates.everything(self.run.workspace, frozenset(self.run.workspace.changes()))
        if found:
            raise self._refusal({each.path: each.message for each in found})

    def _refusal(self, lost: Mapping[str, str]) -> KtxError:
        left = listing(f"{path} ({reason})" for path, reason in lost.items())
        return KtxError(
            f"capture {self.record.run_id} cannot be taken back without losing later work: {left}; nothing was changed",
            code="conflict",
            hint="change these files by hand, or take back what came later first",
            details={"run_id": self.record.run_id, "files": dict(lost)},
        )

    def _commit(self, repository: Repository, tip: str | None, lock: RunLock) -> None:
        changes = self.run.workspace.changes()
        message = f"{COMMAND}: {self.record.label}\n\nReverts: {self.record.run_id}\nKtx-Run: {self.result.run_id}\n"
        done = repository.commit(
            changes,
            message=message,
            base=tip,
            author=self.run.plan.config.storage.git.author,
            before_publish=lock.check,
            adjust=lambda held: {},
        )
        if done.held:
            raise self._refusal({each.path: f"it has work of yours: {each.reason.value}" for each in done.held})
        report = self.run.report
        report.commit, report.committed, report.ignored = done.commit, done.committed, done.ignored
        report_files(self.run, changes)
        self.result.commit, self.result.files = done.commit, tuple(path for path in changes if path != MANIFEST)

    def _remember(self) -> None:
        reverted = {"run_id": self.result.run_id, "at": isoformat(now()), "commit": self.result.commit}
        self.result.record = save(self.run.plan.layout, replace(self.record, reverted=reverted))
