"""Runs a capture from its record to its commit: probes the model, takes the lock, processes the text.

The committed manifest, and branches with pending changes, show whether the text was captured before.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.agent_tools import in_memory
from ktx_cli.core import (
    CancelledError,
    Command,
    Emit,
    Hint,
    KtxError,
    PartialError,
    Record,
    ResultWarning,
    StepFinished,
    StepStarted,
    ignore_events,
    isoformat,
    listing,
    monotonic,
    now,
    picked,
    plural,
)
from ktx_cli.engine import (
    ChangeSet,
    IngestReport,
    LockedRun,
    Models,
    Preflight,
    PreflightFailed,
    ProjectBase,
    RunPlan,
    UnitStatus,
    closing,
    forget_own_units,
    rewrite_deliveries,
    under_lock,
    what_became,
    writable_repository,
)
from ktx_cli.jobs.capture.agent import MANIFEST, ROLE, capture_work, path_of, run_capture, state_of, with_state, work_of
from ktx_cli.jobs.capture.records import BOUNDS, ENDED, Status, Worker, alike, find, load, save, settle_dead
from ktx_cli.jobs.index import index_after_run
from ktx_cli.llm import NO_BACKEND, no_backend
from ktx_cli.project import Layout, Repository, Tree, Workspace, held_hint, load_config
from ktx_cli.runs import Recorder
from ktx_cli.scan import estimated_tokens
from ktx_cli.sources import FileStatus, parse_delivery, render_delivery

if TYPE_CHECKING:
    from ktx_cli.jobs.capture.agent import CaptureResult
    from ktx_cli.jobs.capture.records import MemoryRecord


COMMAND: Final = Command("memory", "capture")
ROLES: Final = (ROLE, "repair")
"""The roles that a capture may use."""


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """The options for a capture. `wait_seconds`: for another run; `patient`: the first interrupt lets
    the loop finish.
    """

    project_dir: Path
    environ: Mapping[str, str]
    wait_seconds: float = 0.0
    max_usd: float | None = None
    max_tokens: int | None = None
    emit: Emit = ignore_events
    patient: bool = True


@dataclass(slots=True)
class Captured:
    """The outcome of a capture. `error`: that of the command, None if the text is captured or contains
    nothing to capture.
    """

    record: MemoryRecord
    error: KtxError | None = None
    warnings: list[ResultWarning] = field(default_factory=list)


def capture(record: MemoryRecord, options: CaptureOptions) -> Captured:
    """Process a capture and return its outcome.

    Raises `KtxError` for a capture that could not begin: nothing is stored for it, and a queued one stays queued.
    `KeyboardInterrupt` passes through once the record says that it was interrupted.
    """
    layout = Layout(options.project_dir)
    plan = capture_plan(layout, record, options)
    record.request.check(plan.config)
    report = IngestReport.of(plan)
    preflight = Preflight(plan, report.spending, needed=True, roles=ROLES)
    preflight.check_settings()
    repository = writable_repository(layout)
    base = ProjectBase.of_head(layout, repository)
    known = None if repository is None else earlier_capture(layout, repository, base, record)
    if known is not None:
        return Captured(save(layout, known.applied_to(record)), warnings=plan.recorder.warnings)
    with closing(plan, report):
        return _Capture(plan, report, record, preflight, options).run_through(repository)


def capture_plan(layout: Layout, record: MemoryRecord, options: CaptureOptions) -> RunPlan:
    """Return the plan for a capture; raises `LlmError` if no backend is configured."""
    loaded = load_config(layout.config)
    if loaded.config.llm.provider.backend == NO_BACKEND:
        raise no_backend()
    return RunPlan(
        COMMAND,
        layout,
        loaded.config,
        options.environ,
        Recorder(layout, record.run_id, options.emit, loaded.notices()),
        max_usd=options.max_usd,
        max_tokens=options.max_tokens,
        wait_seconds=options.wait_seconds,
    )


@dataclass(slots=True)
class _Capture:
    """A capture in progress."""

    plan: RunPlan
    report: IngestReport
    record: MemoryRecord
    preflight: Preflight
    options: CaptureOptions
    error: KtxError | None = None
    has_begun: bool = False

    def run_through(self, repository: Repository | None) -> Captured:
        """Do all work under the lock, and always record the outcome."""
        try:
            self.preflight.require()
            under_lock(self.plan, self.report, repository, self.preflight, self._work)
        except PreflightFailed as failed:
            self._ended_by(failed.error)
        except BaseException as error:  # noqa: BLE001 - it is raised again where it is none of ours
            self._ended_by(error)
        return Captured(self.record, self.error, self.plan.recorder.warnings)

    def _ended_by(self, error: BaseException) -> None:
        """Record what ended the capture; raises errors that also end the command."""
        if not self.has_begun:
            raise error
        asked = isinstance(error, CancelledError) or not isinstance(error, Exception)
        known = error if isinstance(error, KtxError) else None
        if known is not None and not asked:
            known.hint = known.hint or self._retry
        self._save(
            status=Status.INTERRUPTED if asked else Status.FAILED,
            reason="interrupted" if asked else str(known.message if known else type(error).__name__),
            error=None if known is None else known.to_json(),
            commits=self.record.with_commit(self.report.commit),
        )
        if known is None:
            raise error
        self.error = known

    def _work(self, run: LockedRun) -> None:
        layout, report = run.plan.layout, self.report
        settle_dead(layout)
        ended = load(layout, self.record.run_id)
        if ended is not None and ended.status in ENDED:  # another process worked on it meanwhile
            self.record = ended
            return
        known = earlier_capture(layout, run.repository, run.base, self.record)
        if known is not None:
            self.record = save(layout, known.applied_to(self.record))
            return
        report.sources = [work_of(self.record, run.base)]
        self._begin()
        workspace = Workspace(run.base)
        with Models(self.preflight, run.database) as models:
            result = run_capture(
                run.plan, self.record, report.sources[0], workspace, models, run.database, patient=self.options.patient
            )
        report.sources, report.stopped = [result.work], result.agents.stopped
        report.repaired = result.agents.integration.repaired
        if result.agents.is_interrupted:
            raise CancelledError("interrupted", hint=self._retry)
        self._publish(run, ChangeSet(workspace, works=report.sources), result)
        forget_own_units(run.database, layout.state, report.sources, report.held_paths)
        if not self.record.propose:
            index_after_run(run.plan, changed=report.commit is not None)
        self._end(result)

    def _begin(self) -> None:
        self.has_begun = True
        state = {"status": Status.RUNNING, "worker": Worker.this(), "started": isoformat(now())}
        self._save(**state, reason="", finished=None, error=None, conflicts=())

    def _publish(self, run: LockedRun, changes: ChangeSet, result: CaptureResult) -> None:
        """Commit what was written, if anything: on the current branch, or on a separate one."""
        workspace, work = changes.workspace, result.work
        if not workspace.changes():
            return
        outcomes = result.agents.integration.outcomes
        rewrite_deliveries(workspace, what_became(outcomes, workspace), {MANIFEST})
        made = with_state(work.delivered, self.record, work.produced(), whole=not result.conflicts)
        workspace.write(MANIFEST, render_delivery(made))
        if self.record.propose:
            self._propose(run, workspace.changes())
            return
        landed = run.commit(changes, self.message)
        if landed is not None:
            self.report.add_commit(landed, workspace.changes(), ())

    def _propose(self, run: LockedRun, changes: Mapping[str, bytes | None]) -> None:
        started, report = monotonic(), self.report
        run.plan.emit(StepStarted("commit"))
        ref = f"refs/heads/{branch_of(self.record)}"
        report.commit = run.repository.propose(
            changes,
            ref=ref,
            base=run.base.commit,
            message=self.message,
            author=run.plan.config.storage.git.author,
            before_publish=run.lock.check,
        )
        report.branch, report.committed = ref, tuple(sorted(changes))
        report.add_files(changes)
        run.plan.emit(StepFinished("commit", f"{plural(len(changes), 'file')} on {ref}", monotonic() - started))

    @property
    def message(self) -> str:
        """Return the commit message."""
        return f"{COMMAND}: {self.record.label}\n\nKtx-Run: {self.record.run_id}\n"

    def _end(self, result: CaptureResult) -> None:
        """Record the outcome according to the commit, not to the agent's report."""
        report = self.report
        files = {path for path in (*report.committed, *report.ignored) if path != MANIFEST}
        saved = {each for each in result.work.produced() if path_of(each) not in report.held_paths} if files else set()
        self.error = self._error(result, sorted(saved))
        self._save(
            status=_status(result, self.error, files),
            reason=self.error.message if self.error is not None else "" if files else _nothing(result),
            artifacts=tuple(sorted({*self.record.artifacts, *saved})),
            files=tuple(sorted({*self.record.files, *files})),
            conflicts=result.conflicts,
            commits=self.record.with_commit(report.commit),
            branch=branch_of(self.record) if self.record.propose and report.commit else None,
            error=None if self.error is None else self.error.to_json(),
        )

    def _error(self, result: CaptureResult, saved: Sequence[str]) -> KtxError | None:
        outcome, stopped, held = result.outcome, result.agents.stopped, self.report.held
        details = {"run_id": self.record.run_id}
        if result.conflicts:
            return _conflict(result, saved, self.record)
        if outcome.status is not UnitStatus.DONE:
            if stopped is not None:
                return stopped
            return KtxError(f"nothing was captured: {outcome.reason}", hint=self._retry, details=details)
        if held:
            left = [f"{path} ({reason})" for path, reason in held]
            hint = Hint("{}; then {}", held_hint(held, self.plan.layout.root), self._retry)
            return PartialError(f"captured in part; skipped: {listing(left)}", hint=hint, details=details)
        return None

    @property
    def _retry(self) -> Command:
        return Command("memory", "retry", self.record.run_id)

    def _save(self, **fields: object) -> None:
        is_running = fields.get("status") is Status.RUNNING
        finished = {} if is_running else {"worker": None, "finished": isoformat(now())}
        self.record = save(self.plan.layout, replace(self.record, **{**finished, **fields}))  # type: ignore[arg-type]


def _status(result: CaptureResult, error: KtxError | None, files: Collection[str]) -> Status:
    if result.conflicts:
        return Status.CONFLICT
    if error is not None:
        return Status.FAILED
    return Status.DONE if files else Status.NOTHING


def _nothing(result: CaptureResult) -> str:
    is_known = any(each.get("kind") == "confirmed" for each in result.outcome.actions)
    return (
        "the context already contains everything in the text"
        if is_known
        else "the model found nothing in the text worth keeping"
    )


def _conflict(result: CaptureResult, saved: Sequence[str], record: MemoryRecord) -> PartialError:
    about = listing(dict.fromkeys(str(each["artifact"]) for each in result.conflicts))
    rest = f"the rest is captured: {listing(saved)}" if saved else "nothing else was captured"
    message = f"the text contradicts accepted context: {about}, which is unchanged; {rest}"
    hint = Hint("{}; to change it, capture the text with --replace", Command("memory", "show", record.run_id))
    details = {"run_id": record.run_id, "conflicts": [dict(each) for each in result.conflicts]}
    return PartialError(message, code="conflict", hint=hint, details=details)


@dataclass(frozen=True, slots=True)
class CaptureEstimate(Record):
    """The estimate for a capture.

    `tokens`: tokens of the first request; `steps`: maximum number of requests. `reason`: why none is needed.
    """

    record: MemoryRecord
    tokens: int
    steps: int
    reason: str = ""

    json_keys = (
        "label=record.label", "sha256=record.sha256", "characters=record.characters", "first_request_tokens=tokens",
        "most_steps=steps", "reason=_reason", "duplicate_of=record.duplicate_of",
    )  # fmt: skip

    def _reason(self) -> str | None:
        return self.reason or None


def estimate(record: MemoryRecord, options: CaptureOptions) -> tuple[CaptureEstimate, list[ResultWarning]]:
    """Return the estimate for a capture; raises the errors of `capture` for one that could not begin."""
    layout = Layout(options.project_dir)
    plan = capture_plan(layout, record, options)
    record.request.check(plan.config)
    repository = Repository.discover(layout.root)
    base = ProjectBase.of_head(layout, repository)
    known = None if repository is None else earlier_capture(layout, repository, base, record)
    if known is not None:
        earlier = known.applied_to(record)
        return CaptureEstimate(earlier, 0, 0, earlier.reason), plan.recorder.warnings
    work = work_of(record, base)
    with contextlib.closing(sqlite3.connect(":memory:")) as no_values:
        agents = capture_work(plan, record, work, Workspace(base))
        task = agents.task(agents.context(no_values, in_memory(plan.layers)), work, work.units[0])
        prompt = task.prompt()
        tools = [[tool.name, tool.description, tool.input_schema()] for tool in task.tools()]
    asked = prompt.system + prompt.shared + prompt.prompt + json.dumps(tools)
    steps = BOUNDS[record.source_type].steps
    return CaptureEstimate(record, estimated_tokens(asked), steps), plan.recorder.warnings


@dataclass(frozen=True, slots=True)
class Earlier:
    """The capture of the same text. `run_id` None: from another clone, or deleted.

    `commit`: set if the record itself is the one, and was interrupted after its commit. `branch`: with the pending
    change.
    """

    run_id: str | None
    artifacts: tuple[str, ...]
    commit: str | None = None
    branch: str | None = None

    def applied_to(self, record: MemoryRecord) -> MemoryRecord:
        """Return the record of the text with what is known about it."""
        ended = replace(record, worker=None, finished=isoformat(now()), error=None, conflicts=())
        if self.run_id == record.run_id:
            commits = record.with_commit(self.commit)
            files = tuple(sorted({*record.files, *map(path_of, self.artifacts)}))
            own = replace(ended, status=Status.DONE, reason="", commits=commits, branch=self.branch)
            return replace(own, artifacts=self.artifacts or record.artifacts, files=files)
        where = f", and waits on the branch {self.branch}" if self.branch else ""
        by = f"capture {self.run_id}" if self.run_id else "an earlier capture"
        reason = f"{by} contains the same text{where}"
        return replace(ended, status=Status.NOTHING, reason=reason, duplicate_of=self.run_id, branch=None)


def branch_of(record: MemoryRecord) -> str:
    """Return the branch on which a capture's change waits for review, if any."""
    return f"ktx/memory/{record.run_id}"


def earlier_capture(layout: Layout, repository: Repository, base: Tree, record: MemoryRecord) -> Earlier | None:
    """Return the committed or waiting capture of the same text and scope, or None if there is none.

    Failed, interrupted and reverted captures, and those with a conflict, do not count. Raises `ConfigError` for a
    manifest that cannot be read.
    """
    state = state_of(parse_delivery(base.read(MANIFEST), MANIFEST), record)
    if state is not None and state.status is FileStatus.DONE:
        own = repository.commit_of_run(record.run_id)
        if own is not None:
            return Earlier(record.run_id, state.artifacts, own)
        known = next((each for each in alike(layout, record) if each.status is Status.DONE), None)
        return Earlier(None if known is None else known.run_id, state.artifacts)
    own_branch = branch_of(record)
    waiting = repository.commit_at(f"refs/heads/{own_branch}") if record.propose else None
    if waiting is not None:
        return Earlier(record.run_id, record.artifacts, waiting, own_branch)
    for each in alike(layout, record):
        if each.status is Status.DONE and each.branch and repository.commit_at(f"refs/heads/{each.branch}"):
            return Earlier(each.run_id, each.artifacts, None, each.branch)
    return None


@dataclass(frozen=True, slots=True)
class CaptureDetails:
    """A capture in full. `diff`: what it wrote, line by line; `transcripts`: of its agent, relative to the project."""

    record: MemoryRecord
    diff: str = ""
    transcripts: tuple[str, ...] = ()
    report: str | None = None

    @property
    def review(self) -> list[str]:
        """The commands to review and merge a change that waits on a branch."""
        branch = self.record.branch
        if branch is None:
            return []
        return [Command("diff", f"HEAD...{branch}", program="git"), Command("merge", branch, program="git")]

    def to_json(self) -> dict[str, Any]:
        """Return the capture as plain values, with its text."""
        facts = picked(self, ("diff", "transcripts", "report", "review"))
        return {**self.record.to_json(content=True), **facts}


def show(layout: Layout, text: str) -> CaptureDetails:
    """Return the capture for a text; raises the same errors as `find`."""
    record = find(layout, text)
    folder, report = layout.run_transcripts(record.run_id), layout.run_report(record.run_id)
    there = sorted(folder.iterdir()) if folder.is_dir() else []
    return CaptureDetails(
        record,
        "".join(_diff(layout, record)),
        tuple(path.relative_to(layout.root).as_posix() for path in there),
        report.relative_to(layout.root).as_posix() if report.is_file() else None,
    )


def _diff(layout: Layout, record: MemoryRecord) -> Iterator[str]:
    """Yield the unified diffs of a capture's commits, without the manifest; empty for a missing commit."""
    repository = Repository.discover(layout.root) if record.commits else None
    for commit in record.commits if repository is not None else ():
        if repository is None or repository.commit_at(commit) is None:
            continue
        after, before = repository.tree(commit), repository.tree(repository.parent_of(commit))
        for path in record.files:
            old, new = (_lines(tree.read(path)) for tree in (before, after))
            yield from difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")


def _lines(content: bytes | None) -> list[str]:
    text = "" if content is None else content.decode("utf-8", "replace")
    return [line if line.endswith("\n") else f"{line}\n" for line in text.splitlines(keepends=True)]
