"""Writes answers into the files of evals as what is expected from now on: of each file only those places change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.core import (
    Command,
    ConfigError,
    Emit,
    Hint,
    KtxError,
    ResultWarning,
    StepProgress,
    ignore_events,
    isoformat,
    monotonic,
    now,
    plural,
    without_noise,
    yaml,
)
from ktx_cli.jobs.check.eval.ask import Asker, asking
from ktx_cli.jobs.check.eval.cases import Case, Loaded, load_evals
from ktx_cli.jobs.check.eval.compare import Answer, difference
from ktx_cli.jobs.check.eval.results import CaseResult, EvalReport, Past, Status, read_history, write_history
from ktx_cli.project import EVALS_NAME, Edit, KtxConfig, Layout, apply, read_bytes, write_atomic

MOST_ACCEPTED: Final = 1_000
"""How many rows are written into a file: nobody reviews more."""


def accept(layout: Layout, results: Sequence[CaseResult], warn: Callable[[ResultWarning], object]) -> None:
    """Write the answers of new cases into their files; raises `ConfigError`, `StorageError`.

    An answer with more than `MOST_ACCEPTED` rows is left out, which `warn` is told.
    """
    by_file: dict[str, list[CaseResult]] = defaultdict(list)
    for result in results:
        if result.status == "new" and result.answer is not None and _is_small(result, result.answer, warn):
            by_file[result.case.path].append(result)
    for path, accepted in by_file.items():
        _write(layout, path, accepted)


def _is_small(result: CaseResult, answer: Answer, warn: Callable[[ResultWarning], object]) -> bool:
    if len(answer.rows) <= MOST_ACCEPTED:
        return True
    message = f"the answer of `{result.case.name}` has {plural(len(answer.rows), 'row')}: too many to accept"
    hint = f"narrow it, or write into {result.case.path}:{result.case.line}: expect: {{rows: {len(answer.rows)}}}"
    warn(ResultWarning("not_accepted", message, hint=hint))
    return False


def _write(layout: Layout, path: str, accepted: Sequence[CaseResult]) -> None:
    file = layout.root / path
    if layout.evals.is_symlink():
        raise ConfigError(
            f"{layout.evals} is a link, which ktx does not write through",
            hint=Hint("{} && {}", Command(layout.evals, program="rm"), Command(layout.evals, program="mkdir")),
        )
    if file.is_symlink():
        raise ConfigError(
            f"{path} is a link, which ktx does not write through",
            hint=Hint("remove the link: {}", Command(path, program="rm")),
        )
    text = read_bytes(file) or b""
    _require_unchanged(text, path, accepted)
    edits = [
        Edit("set", ("cases", result.case.index, "expect"), expectation_of(result.answer))
        for result in accepted
        if result.answer is not None
    ]
    write_atomic(file, apply(text, edits, where=path))
    for result in accepted:
        result.accepted = True


def _require_unchanged(text: bytes, path: str, accepted: Sequence[CaseResult]) -> None:
    """Raise `ConfigError` where the cases are not at their places any more: somebody edited the file meanwhile."""
    raw = yaml.load(text, where=path)
    cases = raw.get("cases") if isinstance(raw, dict) else None
    ids = [case.get("id") if isinstance(case, dict) else None for case in cases or ()]
    if any(result.case.asked.id not in ids[result.case.index : result.case.index + 1] for result in accepted):
        hint = Command("eval", *(result.case.name for result in accepted[:5]), "--accept")
        raise ConfigError(f"{path} was changed while the evals ran; nothing was written into it", hint=hint)


def expectation_of(answer: Answer) -> Any:
    """Return an answer as it is expected: one value, rows by the names of their columns, or lists under them.

    Floats are without noise, as they are compared.
    """
    rows = [[without_noise(value) if isinstance(value, float) else value for value in row] for row in answer.rows]
    if len(rows) == len(answer.columns) == 1:
        return {"value": rows[0][0]}
    if not rows:
        return {"rows": 0}
    if len(set(answer.columns)) < len(answer.columns):
        return {"columns": list(answer.columns), "rows": rows}
    return [dict(zip(answer.columns, row, strict=True)) for row in rows]


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
    _warn_of_cases(loaded, request.warn)
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


def _warn_of_cases(loaded: Loaded, warn: Warn) -> None:
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
    ended = {result.case.name: _past(result, finished) for result in results if result.status not in ("new", "skip")}
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
