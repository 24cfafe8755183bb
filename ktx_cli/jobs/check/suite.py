"""Runs lint, validate, diff, tests and evals on a project, and reports their diagnostics as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ktx_cli.core import (
    CancelledError,
    Diagnostic,
    Emit,
    KtxError,
    PartialError,
    Record,
    ResultWarning,
    Severity,
    StepProgress,
    UsageError,
    did_you_mean,
    ignore_events,
    listing,
    monotonic,
    plural,
    severity_counts,
)
from ktx_cli.jobs.check.diff import find_drift
from ktx_cli.jobs.check.eval.cases import load_evals
from ktx_cli.jobs.check.eval.run import EvalRequest, run_evals
from ktx_cli.jobs.check.lint.lint import lint_project
from ktx_cli.jobs.semantic.validate import run_tests, validate_layers
from ktx_cli.project import KtxConfig, Layout


class Status(StrEnum):
    """How one check ended."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """The project to check. `connection`: check this one alone; `strict`: warnings of every check count as failures."""

    layout: Layout
    config: KtxConfig
    environ: Mapping[str, str]
    connection: str | None = None
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    strict: bool = False
    emit: Emit = ignore_events
    warn: Callable[[ResultWarning], None] = lambda warning: None


@dataclass(frozen=True, slots=True)
class Finding(Record):
    """A diagnostic from a check, and whether it makes the check fail."""

    check: str
    diagnostic: Diagnostic
    fails: bool

    json_keys = (
        *("check", "code=diagnostic.code", "level=diagnostic.severity", "message=diagnostic.message"),
        *("hint=diagnostic.hint", "path=diagnostic.location.path", "line=diagnostic.location.line", "fails"),
    )


@dataclass(slots=True)
class CheckOutcome(Record):
    """The outcome of one check. `summary`: one line about it; `error`: why it could not be run."""

    check: str
    status: Status
    summary: str
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0
    error: KtxError | None = None

    json_keys = ("check", "status", "summary", "seconds", "error")


@dataclass(slots=True)
class CheckReport(Record):
    """The outcomes of all checks, in the order in which they ran."""

    checks: list[CheckOutcome] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        """The findings of all checks, those that make a check fail first."""
        return sorted((each for check in self.checks for each in check.findings), key=lambda each: not each.fails)

    def counts(self) -> dict[str, int]:
        """Return the number of findings of each severity."""
        return severity_counts(each.diagnostic for each in self.findings)

    json_keys = ("checks", "findings", "counts")

    def error(self) -> KtxError | None:
        """Return the error with which the command ends: for findings that fail a check, else for failed checks."""
        failed = [check.check for check in self.checks if check.status is Status.FAIL]
        broken = [check for check in self.checks if check.status is Status.ERROR]
        details = {"failed": failed, "not_run": [check.check for check in broken], "counts": self.counts()}
        if failed:
            message = f"{plural(len(failed), 'check')} failed: {listing(failed)}"
            hint = f"fix what is listed above, then run `ktx {_SINGLE[failed[0]] if len(failed) == 1 else 'check'}`"
            return KtxError(message, hint=hint, details=details, code="check_failed")
        errors = [check.error for check in broken if check.error is not None]
        if not errors:
            return None
        if len({(error.code, error.message) for error in errors}) == 1 and len(errors) == len(self._ran()):
            return errors[0]
        message = f"{listing(check.check for check in broken)} could not be run: {errors[0].message}"
        return PartialError(message, hint=errors[0].hint, details=details)

    def _ran(self) -> list[CheckOutcome]:
        return [check for check in self.checks if check.status is not Status.SKIP]


_SINGLE: Final = {"lint": "lint", "validate": "sl validate", "diff": "diff", "tests": "sl test", "evals": "eval"}
"""Check -> the command that runs only this check."""

CHECKS: Final = tuple(_SINGLE)
"""The checks, in the order in which they run."""


def run_checks(request: CheckRequest) -> CheckReport:
    """Run the chosen checks, and return their findings.

    A check that cannot be run (a database that cannot be reached) does not keep the others from running. A diagnostic
    that two checks share is reported by the first one. Raises `UsageError` for a check that does not exist.
    """
    chosen = _chosen(request.only, request.skip)
    report = CheckReport()
    seen: set[tuple[str | None, str]] = set()
    for number, name in enumerate(chosen):
        request.emit(StepProgress("checks", number, len(chosen)))
        started = monotonic()
        try:
            outcome = _RUNNERS[name](request)
        except CancelledError:
            raise
        except KtxError as error:
            outcome = CheckOutcome(name, Status.ERROR, f"could not be run: {error.message}", error=error)
        outcome.findings = tuple(each for each in outcome.findings if _is_new(seen, each.diagnostic))
        outcome.seconds = round(monotonic() - started, 3)
        report.checks.append(outcome)
    request.emit(StepProgress("checks", len(chosen), len(chosen)))
    return report


def _chosen(only: Sequence[str], skip: Sequence[str]) -> list[str]:
    for name in (*only, *skip):
        if name not in CHECKS:
            near = did_you_mean(name, CHECKS)
            raise UsageError(
                f"there is no check `{name}`",
                hint=f"did you mean `{near}`?" if near else f"the checks are {listing(CHECKS)}",
            )
    return [name for name in CHECKS if (not only or name in only) and name not in skip]


def _is_new(seen: set[tuple[str | None, str]], diagnostic: Diagnostic) -> bool:
    """Return whether no check has reported this finding yet; `sl validate` and `lint` share definition checks."""
    key = (diagnostic.location.path, diagnostic.message)
    known = key in seen
    seen.add(key)
    return not known


def _outcome(
    name: str, findings: Iterable[tuple[Diagnostic, bool]], summary: str, error: KtxError | None = None
) -> CheckOutcome:
    found = tuple(Finding(name, diagnostic, fails) for diagnostic, fails in findings)
    status = Status.FAIL if any(each.fails for each in found) else Status.PASS if error is None else Status.ERROR
    return CheckOutcome(name, status, summary, found, error=error)


def _lint(request: CheckRequest) -> CheckOutcome:
    report, warnings = lint_project(request.layout, request.config, connection=request.connection)
    for warning in warnings:
        request.warn(warning)
    found = [each for each in report.diagnostics if each.severity is not Severity.INFO]
    return _outcome("lint", ((each, True) for each in found), _counted(found))


def _counted(diagnostics: Iterable[Diagnostic]) -> str:
    counts = severity_counts(diagnostics)
    return listing(plural(count, severity) for severity, count in counts.items() if count) or "no diagnostics"


def _validate(request: CheckRequest) -> CheckOutcome:
    found = validate_layers(request.layout, request.config, environ=request.environ, connection=request.connection)
    for warning in found.warnings():
        request.warn(warning)
    error = next(iter(found.unread.values()), None)
    problems = [each for _, each in found.problems if each.severity is not Severity.INFO]
    least = Severity.WARNING if request.strict else Severity.ERROR
    findings = ((each, each.severity.weight >= least.weight) for each in problems)
    checks = f"{plural(len(found.sources), 'source')}, {plural(len(found.checks), 'data check')}"
    return _outcome("validate", findings, f"{checks}: {_counted(problems)}", error)


def _diff(request: CheckRequest) -> CheckOutcome:
    wanted = () if request.connection is None else (request.connection,)
    drift, warnings = find_drift(request.layout, request.config, wanted, environ=request.environ)
    for warning in warnings:
        request.warn(warning)
    if not drift.connections:
        return CheckOutcome("diff", Status.SKIP, "no databases")
    changes = [diagnostic for diagnostic, _ in drift.diagnostics()]
    failed = next((each.error for each in drift.connections if each.error is not None), None)
    summary = f"{plural(len(changes), 'change')} since the last scan" if changes else "no changes since the last scan"
    summary = summary if failed is None else f"could not be run: {failed.message}"
    return _outcome("diff", ((each, True) for each in changes), summary, failed)


def _tests(request: CheckRequest) -> CheckOutcome:
    report = run_tests(request.layout, request.config, environ=request.environ, connection=request.connection)
    if not report.results:
        return CheckOutcome("tests", Status.SKIP, "no tests")
    summary = f"{len(report.results) - report.failed:,} passed, {report.failed:,} failed"
    return _outcome("tests", ((each, True) for each in report.diagnostics()), summary)


def _evals(request: CheckRequest) -> CheckOutcome:
    loaded = load_evals(request.layout)
    names = [case.name for case in loaded.cases if request.connection in (None, case.connection)]
    if not names:
        return CheckOutcome("evals", Status.SKIP, "no golden questions")
    report = run_evals(
        EvalRequest(request.layout, request.config, request.environ, names, emit=request.emit, warn=request.warn)
    )
    error = report.error()
    if error is not None and error.code != "evals_failed":
        raise error
    summary = report.summary
    diagnostics = [diagnostic for each in report.results if (diagnostic := each.diagnostic) is not None]
    return _outcome("evals", ((each, each.severity is Severity.ERROR) for each in diagnostics), summary)


_RUNNERS: Final[Mapping[str, Callable[[CheckRequest], CheckOutcome]]] = {
    "lint": _lint,
    "validate": _validate,
    "diff": _diff,
    "tests": _tests,
    "evals": _evals,
}
