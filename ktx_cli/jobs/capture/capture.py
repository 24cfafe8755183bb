"""A capture from its record to its commit: model probed, run lock taken, text worked through, and the end told."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ktx_cli.agent_tools import in_memory
from ktx_cli.core import (
    CancelledError,
    Command,
    Emit,
    Hint,
    KtxError,
    PartialError,
    ResultWarning,
    RunFinished,
    StepFinished,
    StepStarted,
    ignore_events,
    isoformat,
    listing,
    monotonic,
    now,
    plural,
)
from ktx_cli.engine import (
    IngestReport,
    Models,
    Preflight,
    PreflightFailed,
    ProjectBase,
    Run,
    RunPlan,
    UnitStatus,
    begin_workspace,
    commit,
    forget_own_units,
    report_files,
)
from ktx_cli.jobs.capture.agent import (
    MANIFEST,
    ROLE,
    CaptureResult,
    capture_work,
    path_of,
    run_capture,
    with_state,
    work_of,
)
from ktx_cli.jobs.capture.history import Earlier, branch_of, earlier_capture
from ktx_cli.jobs.capture.records import BOUNDS, ENDED, MemoryRecord, Status, Worker, load, save, settle_dead
from ktx_cli.jobs.ingest.lifecycle import recover, refresh_search, under_run_lock
from ktx_cli.llm import NO_BACKEND, no_backend
from ktx_cli.project import Layout, Repository, RunLock, held_hint, load_config
from ktx_cli.runs import Recorder
from ktx_cli.scan import estimated_tokens
from ktx_cli.sources import render_manifest

COMMAND: Final = Command("memory", "capture")
ROLES: Final = (ROLE, "repair")
"""The roles a capture may use."""


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """How a capture is made. `wait_seconds`: for another run; `patient`: the first interrupt lets the loop end."""

    project_dir: Path
    environ: Mapping[str, str]
    wait_seconds: float = 0.0
    max_usd: float | None = None
    max_tokens: int | None = None
    emit: Emit = ignore_events
    patient: bool = True


@dataclass(slots=True)
class Captured:
    """How a capture ended. `error`: what the command ends with, None where the text is remembered or said nothing."""

    record: MemoryRecord
    error: KtxError | None = None
    warnings: list[ResultWarning] = field(default_factory=list)


def capture(record: MemoryRecord, options: CaptureOptions) -> Captured:
    """Work on a capture and return how it ended.

    Raises `KtxError` for one that could not begin: then nothing is stored of it, and one that was queued stays so.
    `KeyboardInterrupt` passes through when the record says that it was interrupted.
    """
    layout = Layout(options.project_dir)
    run = begun_run(layout, record, options)
    record.request.check(run.plan.config)
    preflight = Preflight(run, needed=True, roles=ROLES)
    preflight.check_settings()
    repository = Repository.discover(layout.root)
    if repository is not None:
        repository.check_writable()
    made = _Capture(run, record, preflight, options)
    known = _earlier(made, repository)
    if known is not None:
        return Captured(save(layout, known.applied_to(record)), warnings=run.plan.recorder.warnings)
    return made.run_through(repository)


def begun_run(layout: Layout, record: MemoryRecord, options: CaptureOptions) -> Run:
    """Return the run of a capture, of which nothing has happened; raises `LlmError` where no backend is configured."""
    loaded = load_config(layout.config)
    if loaded.config.llm.provider.backend == NO_BACKEND:
        raise no_backend()
    plan = RunPlan(
        COMMAND,
        layout,
        loaded.config,
        options.environ,
        Recorder(layout, record.run_id, options.emit, loaded.notices()),
        max_usd=options.max_usd,
        max_tokens=options.max_tokens,
        wait_seconds=options.wait_seconds,
    )
    backend = loaded.config.llm.provider.backend
    return Run(plan, IngestReport(record.run_id, COMMAND, project_dir=layout.root, llm=backend))


def _earlier(made: _Capture, repository: Repository | None) -> Earlier | None:
    """Return the capture that said the same, as the committed files say it now; nothing is written."""
    if repository is None:
        return None
    base = ProjectBase(made.run.plan.layout, repository, repository.head().commit)
    return earlier_capture(made.run.plan.layout, repository, base, made.record)


@dataclass(slots=True)
class _Capture:
    """A capture while it lasts."""

    run: Run
    record: MemoryRecord
    preflight: Preflight
    options: CaptureOptions
    error: KtxError | None = None
    has_begun: bool = False

    def run_through(self, repository: Repository | None) -> Captured:
        """Do everything under the run lock, and write into the record how it ended, whatever happens."""
        run, started = self.run, monotonic()
        try:
            self.preflight.require()
            under_run_lock(run, repository, self.preflight, self._work)
        except PreflightFailed as failed:
            self._ended_by(failed.error)
        except BaseException as error:  # noqa: BLE001 - it is raised again where it is none of ours
            self._ended_by(error)
        finally:
            run.report.seconds = monotonic() - started
            run.plan.emit(RunFinished(run.report.run_id, run.report.status, run.report.seconds))
            run.plan.recorder.close()
        return Captured(self.record, self.error, run.plan.recorder.warnings)

    def _ended_by(self, error: BaseException) -> None:
        """Take note of what ended it; raises what ends the command too."""
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
            commits=self.record.with_commit(self.run.report.commit),
        )
        if known is None:
            raise error
        self.error = known

    def _work(self, repository: Repository, lock: RunLock, database: sqlite3.Connection) -> None:
        run = self.run
        recover(run, repository)
        settle_dead(run.plan.layout)
        ended = load(run.plan.layout, self.record.run_id)
        if ended is not None and ended.status in ENDED:  # another process had it meanwhile
            self.record = ended
            return
        head = repository.head()
        run.report.branch = head.ref
        base = ProjectBase(run.plan.layout, repository, head.commit)
        known = earlier_capture(run.plan.layout, repository, base, self.record)
        if known is not None:
            self.record = save(run.plan.layout, known.applied_to(self.record))
            return
        run.works.append(work_of(self.record, base))
        self._begin()
        begin_workspace(run, base)
        with Models(run, database, self.preflight) as models:
            result = run_capture(run, self.record, models, database, patient=self.options.patient)
        if result.is_interrupted:
            raise CancelledError("interrupted", hint=self._retry)
        self._publish(repository, head.commit, lock, result)
        held = {path for path, _ in run.report.held}
        forget_own_units(database, run.plan.layout.state, run.works, held)
        if not self.record.propose:
            refresh_search(run)
        self._end(result)

    def _begin(self) -> None:
        self.has_begun = True
        self._save(
            status=Status.RUNNING,
            reason="",
            worker=Worker.this(),
            started=isoformat(now()),
            finished=None,
            error=None,
            conflicts=(),
        )

    def _publish(self, repository: Repository, tip: str | None, lock: RunLock, result: CaptureResult) -> None:
        """Commit what was written, if anything: on the current branch, or on one of its own."""
        run, (work,) = self.run, self.run.works
        if not run.workspace.changes():
            return
        made = with_state(work.manifest, self.record, work.produced(), whole=not result.conflicts)
        run.workspace.write(MANIFEST, render_manifest(made))
        if self.record.propose:
            self._propose(repository, tip, lock)
        else:
            commit(run, repository, tip, lock, self.message)

    def _propose(self, repository: Repository, tip: str | None, lock: RunLock) -> None:
        run, changes, started = self.run, self.run.workspace.changes(), monotonic()
        run.plan.emit(StepStarted("commit"))
        ref = f"refs/heads/{branch_of(self.record)}"
        run.report.commit = repository.propose(
            changes,
            ref=ref,
            base=tip,
            message=self.message,
            author=run.plan.config.storage.git.author,
            before_publish=lock.check,
        )
        run.report.branch, run.report.committed = ref, tuple(sorted(changes))
        report_files(run, changes)
        run.plan.emit(StepFinished("commit", f"{plural(len(changes), 'file')} on {ref}", monotonic() - started))

    @property
    def message(self) -> str:
        """The message of the commit."""
        return f"{COMMAND}: {self.record.label}\n\nKtx-Run: {self.record.run_id}\n"

    def _end(self, result: CaptureResult) -> None:
        """Write how it ended: by what is in the commit, not by what the agent said."""
        report, (work,) = self.run.report, self.run.works
        files = {path for path in (*report.committed, *report.ignored) if path != MANIFEST}
        held = {path for path, _ in report.held}
        came = {each for each in work.produced() if path_of(each) not in held} if files else set()
        self.error = self._error(result, sorted(came))
        self._save(
            status=_status(result, self.error, files),
            reason=self.error.message if self.error is not None else "" if files else _nothing(result),
            artifacts=tuple(sorted({*self.record.artifacts, *came})),
            files=tuple(sorted({*self.record.files, *files})),
            conflicts=result.conflicts,
            commits=self.record.with_commit(report.commit),
            branch=branch_of(self.record) if self.record.propose and report.commit else None,
            error=None if self.error is None else self.error.to_json(),
        )

    def _error(self, result: CaptureResult, came: Sequence[str]) -> KtxError | None:
        outcome, stopped, held = result.outcome, result.stopped, self.run.report.held
        details = {"run_id": self.record.run_id}
        if result.conflicts:
            return _conflict(result, came, self.record)
        if outcome.status is not UnitStatus.DONE:
            if stopped is not None:
                return stopped
            return KtxError(f"nothing was captured: {outcome.reason}", hint=self._retry, details=details)
        if held:
            left = [f"{path} ({reason})" for path, reason in held]
            hint = Hint("{}; then {}", held_hint(held, self.run.plan.layout.root), self._retry)
            return PartialError(f"captured in part; left alone: {listing(left)}", hint=hint, details=details)
        return None

    @property
    def _retry(self) -> Command:
        return Command("memory", "retry", self.record.run_id)

    def _save(self, **fields: object) -> None:
        finished = {} if fields.get("status") is Status.RUNNING else {"worker": None, "finished": isoformat(now())}
        self.record = save(self.run.plan.layout, replace(self.record, **{**finished, **fields}))  # type: ignore[arg-type]


def _status(result: CaptureResult, error: KtxError | None, files: Collection[str]) -> Status:
    if result.conflicts:
        return Status.CONFLICT
    if error is not None:
        return Status.FAILED
    return Status.DONE if files else Status.NOTHING


def _nothing(result: CaptureResult) -> str:
    is_known = any(each.get("kind") == "confirmed" for each in result.outcome.actions)
    return "everything in it is said already" if is_known else "the model found nothing in it worth keeping"


def _conflict(result: CaptureResult, came: Sequence[str], record: MemoryRecord) -> PartialError:
    about = listing(dict.fromkeys(str(each["artifact"]) for each in result.conflicts))
    rest = f"the rest is captured: {listing(came)}" if came else "nothing else was captured"
    return PartialError(
        f"the text contradicts what is accepted: {about}, which stays as it is; {rest}",
        code="conflict",
        hint=Hint("{}; to change it, capture the text with --replace", Command("memory", "show", record.run_id)),
        details={"run_id": record.run_id, "conflicts": [dict(each) for each in result.conflicts]},
    )


@dataclass(frozen=True, slots=True)
class CaptureEstimate:
    """`tokens`: of the first request, about; `steps`: at most so many requests. `reason`: why none would be made."""

    record: MemoryRecord
    tokens: int
    steps: int
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "label": self.record.label,
            "sha256": self.record.sha256,
            "characters": len(self.record.content),
            "first_request_tokens": self.tokens,
            "most_steps": self.steps,
            "reason": self.reason or None,
            "duplicate_of": self.record.duplicate_of,
        }


def estimate(record: MemoryRecord, options: CaptureOptions) -> tuple[CaptureEstimate, list[ResultWarning]]:
    """Return what a capture would ask; raises as `capture` for what could not begin."""
    layout = Layout(options.project_dir)
    run = begun_run(layout, record, options)
    record.request.check(run.plan.config)
    repository = Repository.discover(layout.root)
    base = ProjectBase(layout, repository, None if repository is None else repository.head().commit)
    known = None if repository is None else earlier_capture(layout, repository, base, record)
    if known is not None:
        earlier = known.applied_to(record)
        return CaptureEstimate(earlier, 0, 0, earlier.reason), run.plan.recorder.warnings
    run.works.append(work_of(record, base))
    begin_workspace(run, base)
    with contextlib.closing(sqlite3.connect(":memory:")) as no_values:
        agents = capture_work(run, record)
        (work,) = run.works
        task = agents.task(agents.context(no_values, in_memory(run.plan.layers)), work, work.units[0])
        prompt = task.prompt()
        tools = [[tool.name, tool.description, tool.input_schema()] for tool in task.tools()]
    asked = prompt.system + prompt.prompt + json.dumps(tools)
    return CaptureEstimate(
        record, estimated_tokens(asked), BOUNDS[record.source_type].steps
    ), run.plan.recorder.warnings
