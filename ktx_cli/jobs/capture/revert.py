"""Reverts what a capture wrote, in a separate commit; either later work is kept or nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ktx_cli.core import Command, KtxError, ResultWarning, UsageError, isoformat, listing, new_run_id, now
from ktx_cli.engine import Gates, IngestReport, LockedRun, ProjectBase, RunPlan, closing, under_lock
from ktx_cli.jobs.capture.agent import MANIFEST, state_of, without_state
from ktx_cli.jobs.capture.capture import CaptureOptions
from ktx_cli.jobs.capture.records import MemoryRecord, save, settle_dead
from ktx_cli.jobs.index import index_after_run
from ktx_cli.project import Conflict, Layout, Repository, Workspace, load_config, merge_lines
from ktx_cli.project import merge_file as merge_files
from ktx_cli.runs import Recorder
from ktx_cli.sources import Delivery, parse_delivery, render_delivery

COMMAND: Final = Command("memory", "revert")


@dataclass(slots=True)
class Reverted:
    """The result of a revert: its run, its commit, and the restored files or files without the captured text."""

    record: MemoryRecord
    run_id: str
    commit: str | None = None
    files: tuple[str, ...] = ()
    warnings: list[ResultWarning] = field(default_factory=list)


def revert(record: MemoryRecord, options: CaptureOptions) -> Reverted:
    """Revert a capture that was committed on the current branch.

    Raises `UsageError` for one that wrote nothing, or waits on its branch; `KtxError` (`conflict`) if later work would
    be lost: nothing is changed then.
    """
    layout = Layout(options.project_dir)
    if record.reverted is not None:
        raise UsageError(f"capture {record.run_id} has already been reverted", hint=Command("memory", "list"))
    if record.commit is None:
        message = f"capture {record.run_id} wrote nothing that can be reverted"
        raise UsageError(message, hint=Command("memory", "list"))
    loaded = load_config(layout.config)
    recorder, wait = Recorder(layout, new_run_id(), options.emit, loaded.notices()), options.wait_seconds
    plan = RunPlan(COMMAND, layout, loaded.config, options.environ, recorder, no_llm=True, wait_seconds=wait)
    repository = Repository.discover(layout.root)
    if repository is None:
        message = "the project is not in a git repository, so there is nothing to revert"
        raise UsageError(message, hint=Command("memory", "list"))
    repository.check_writable()
    report = IngestReport.of(plan)
    made = _Revert(report, record, Reverted(record, plan.run_id, warnings=plan.recorder.warnings))
    with closing(plan, report):
        under_lock(plan, report, repository, None, made.work)
    return made.result


@dataclass(slots=True)
class _Revert:
    """A revert in progress."""

    report: IngestReport
    record: MemoryRecord
    result: Reverted

    def work(self, run: LockedRun) -> None:
        """Undo, check and commit; all or nothing."""
        settle_dead(run.plan.layout)
        self._check_landed(run.base)
        workspace = Workspace(run.base)
        self._undo(run.repository, workspace)
        self._check(run, workspace)
        self._commit(run, workspace.changes())
        index_after_run(run.plan, changed=self.report.commit is not None)
        reverted = {"run_id": self.result.run_id, "at": isoformat(now()), "commit": self.result.commit}
        self.result.record = save(run.plan.layout, replace(self.record, reverted=reverted))

    def _check_landed(self, base: ProjectBase) -> None:
        if state_of(parse_delivery(base.read(MANIFEST), MANIFEST), self.record) is not None:
            return
        branch = self.record.branch
        hint = Command("branch", "-D", branch, program="git") if branch else Command("memory", "list")
        raise UsageError(f"no changes from capture {self.record.run_id} are on this branch", hint=hint)

    def _undo(self, repository: Repository, workspace: Workspace) -> None:
        """Restore every file of the capture, with later changes merged in."""
        lost: dict[str, str] = {}
        for commit in reversed(self.record.commits):
            if repository.commit_at(commit) is None:
                message = f"the commit {commit[:10]} of the capture no longer exists"
                raise KtxError(message, hint=Command("fetch", program="git"), code="git")
            after, before = repository.tree(commit), repository.tree(repository.parent_of(commit))
            for path in sorted(dict(set(after.blobs().items()) ^ set(before.blobs().items())).keys() - {MANIFEST}):
                current = workspace.read(path)
                merged = merge_files(path, after.read(path), before.read(path), current, text_merge=merge_lines)
                if isinstance(merged, Conflict):
                    lost[path] = merged.reason
                else:
                    workspace.apply({path: merged})
        if lost:
            raise self._refusal(lost)
        left = without_state(parse_delivery(workspace.read(MANIFEST), MANIFEST), self.record)
        workspace.apply({MANIFEST: None if left == Delivery() else render_delivery(left)})

    def _check(self, run: LockedRun, workspace: Workspace) -> None:
        """Raise an error if later work depends on what would be removed."""
        gates = Gates(Workspace(run.base), run.plan.layers)
        found = gates.everything(workspace, frozenset(workspace.changes()))
        if found:
            raise self._refusal({each.path: each.message for each in found})

    def _refusal(self, lost: Mapping[str, str]) -> KtxError:
        left = listing(f"{path} ({reason})" for path, reason in lost.items())
        return KtxError(
            f"capture {self.record.run_id} cannot be reverted without losing later work: {left}; nothing was changed",
            code="conflict",
            hint="edit these files by hand, or revert the later captures first",
            details={"run_id": self.record.run_id, "files": dict(lost)},
        )

    def _commit(self, run: LockedRun, changes: Mapping[str, bytes | None]) -> None:
        message = f"{COMMAND}: {self.record.label}\n\nReverts: {self.record.run_id}\nKtx-Run: {self.result.run_id}\n"
        done = run.repository.commit(
            changes,
            message=message,
            base=run.base.commit,
            author=run.plan.config.storage.git.author,
            before_publish=run.lock.check,
            adjust=lambda held: {},
        )
        if done.held:
            raise self._refusal({each.path: f"it has uncommitted changes: {each.reason.value}" for each in done.held})
        report = self.report
        report.commit, report.committed, report.ignored = done.commit, done.committed, done.ignored
        report.add_files(changes)
        self.result.commit, self.result.files = done.commit, tuple(path for path in changes if path != MANIFEST)
