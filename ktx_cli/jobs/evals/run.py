"""Runs evals: each case is asked, its answer compared with what is expected, and with how it ended the last time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ktx_cli.core.clock import isoformat, monotonic, now
from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.core.events import Emit, StepProgress, ignore_events
from ktx_cli.jobs.evals.accepting import accept
from ktx_cli.jobs.evals.asking import Asker, asking
from ktx_cli.jobs.evals.comparing import difference
from ktx_cli.jobs.evals.history import Past, read_history, write_history
from ktx_cli.jobs.evals.loading import Loaded, load_evals
from ktx_cli.jobs.evals.model import Case
from ktx_cli.jobs.evals.results import CaseResult, EvalReport, Status
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import EVALS_NAME, Layout

Warn = Callable[[ResultWarning], None]

STEP: Final = "evals"


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """What to run. `accept`: new answers become what is expected; `save`: how cases ended is kept for the next run."""

    layout: Layout
    config: KtxConfig
    environ: Mapping[str, str]
    names: Sequence[str] = ()
    accept: bool = False
    save: bool = True
    emit: Emit = ignore_events
    warn: Warn = lambda warning: None


def run_evals(request: EvalRequest) -> EvalReport:
    """Run the cases and return how they ended.

    Raises `ConfigError` for a file of evals that cannot be used, `UsageError` for a name that nothing has and, with
    `accept`, `StorageError`, `ConfigError` for a file that cannot be written.
    """
    started = monotonic()
    loaded = load_evals(request.layout)
    _told(loaded, request.warn)
    cases = loaded.named(request.names)
    history = _history(request)
    report = EvalReport()
    with asking(request.layout, request.config, request.environ, request.warn) as asker:
        for done, case in enumerate(cases, start=1):
            report.results.append(_run(case, asker, history.get(case.name)))
            request.emit(StepProgress(STEP, done, len(cases)))
    if request.accept:
        accept(request.layout, report.results, request.warn)
    if request.save and report.results:
        report.saved = _saved(request, report.results, loaded)
    report.seconds = monotonic() - started
    return report


def _told(loaded: Loaded, warn: Warn) -> None:
    for warning in loaded.warnings:
        warn(warning)
    if not loaded.cases:
        hint = f"write one into {EVALS_NAME}/first.yaml: cases: [{{id: orders, sql: SELECT count(*) FROM orders}}]"
        warn(ResultWarning("no_evals", f"there are no cases in {EVALS_NAME}/*.yaml", hint=hint))


def _history(request: EvalRequest) -> dict[str, Past]:
    """Return how cases ended before; what cannot be read is told, and is nothing."""
    try:
        return read_history(request.layout)
    except KtxError as error:
        request.warn(ResultWarning("eval_history", error.message, hint=error.hint))
        return {}


def _saved(request: EvalRequest, results: Sequence[CaseResult], loaded: Loaded) -> bool:
    """Keep how cases ended; where that cannot be, it is told."""
    finished = isoformat(now())
    ended = {each.case.name: _past(each, finished) for each in results if each.status not in ("new", "skip")}
    try:
        write_history(request.layout, ended, {case.name for case in loaded.cases}, request.warn)
    except KtxError as error:
        message = f"how the evals ended is not kept, so that the next run knows of no regressions: {error.message}"
        request.warn(ResultWarning("eval_history", message, hint=error.hint))
        return False
    return True


def _past(result: CaseResult, finished: str) -> Past:
    before = result.before.passed if result.before is not None else None
    passed = finished if result.status == "pass" else before
    return Past(result.case.digest, result.status, finished, passed, result.milliseconds)


def _run(case: Case, asker: Asker, before: Past | None) -> CaseResult:
    same = before if before is not None and before.digest == case.digest else None
    started = monotonic()
    result = CaseResult(case, "error", before=same)
    try:
        asker.ask(result)
        _judge(result)
    except KtxError as error:
        if error.code == "cancelled":
            raise
        result.error = error
    result.seconds = monotonic() - started
    return result


def _judge(result: CaseResult) -> None:
    expect, answer = result.case.asked.expect, result.answer
    if result.status == "skip":
        return
    if answer is None or expect is None:
        result.status = "new"
        return
    result.difference = difference(expect, answer)
    passed_once = result.before is not None and result.before.passed is not None
    wrong: Status = "regress" if passed_once else "fail"
    result.status = "pass" if result.difference is None else wrong
