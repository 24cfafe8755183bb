"""Validates semantic layers: the files, the definitions, and the data behind them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import (
    Argument,
    CancelledError,
    Diagnostic,
    Hint,
    KtxError,
    Location,
    ResultWarning,
    Severity,
    isoformat,
    monotonic,
    now,
    one_line,
    plural,
    severity_counts,
)
from ktx_cli.jobs.semantic.layers import broken_files, selected_layers
from ktx_cli.project import KtxConfig, Layout, WorkingTree, has_state, open_for_writing, translated
from ktx_cli.semantic import (
    NO_CONNECTION,
    NOBODY,
    PROBLEM_KEYS,
    Caller,
    check_model,
    layer_ids,
    load_layer,
    load_layers,
    unknown,
)
from ktx_cli.warehouses import Opener, open_connection

if TYPE_CHECKING:
    from ktx_cli.semantic import DataCheck, LoadLayer, Model, TestResult

DEFAULT_SECONDS: Final = 60.0
"""The default time budget for data checks."""

USED_UP: Final = "the time for data checks is used up"

_MORE_SECONDS: Final = Argument("seconds", 600)


@dataclass(slots=True)
class Validation:
    """The result of a validation. `unread` maps connections whose data could not be checked to the error."""

    sources: list[tuple[str, str]] = field(default_factory=list)
    problems: list[tuple[str, Diagnostic]] = field(default_factory=list)
    checks: list[tuple[str, DataCheck]] = field(default_factory=list)
    unread: dict[str, KtxError] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the data for the envelope."""
        return {
            "sources": [{"connection": connection, "name": name} for connection, name in self.sources],
            "problems": [{"connection": connection, **each.select(PROBLEM_KEYS)} for connection, each in self.problems],
            "checks": [{"connection": connection, **each.to_json()} for connection, each in self.checks],
            "counts": self.counts(),
        }

    def counts(self) -> dict[str, int]:
        """Return the number of problems by severity."""
        return severity_counts(problem for _, problem in self.problems)

    def error(self, *, strict: bool) -> KtxError | None:
        """Return the command's error: for problems, or for a connection that could not be checked.

        With `strict`, warnings count as errors.
        """
        counts = self.counts()
        bad = [severity for severity in (("error", "warning") if strict else ("error",)) if counts[severity]]
        if bad:
            counted = " and ".join(plural(counts[severity], severity) for severity in bad)
            message, hint = f"the semantic layer has {counted}", "fix the files at the listed locations"
            return KtxError(message, hint=hint, details={"counts": counts}, code="semantic_problems")
        return next(iter(self.unread.values()), None)

    def warnings(self) -> list[ResultWarning]:
        """Return warnings about checks that were skipped for lack of time, or because of what is hidden."""
        from ktx_cli.semantic import PROTECTED

        hints = {
            USED_UP: ("budget", Hint("allow more seconds with `{}`, or pass the sources to check", _MORE_SECONDS)),
            PROTECTED: ("hidden", Hint("ask a person who may see all rows to validate the semantic layer")),
        }
        found = []
        for reason, (code, hint) in hints.items():
            count = sum(check.reason == reason for _, check in self.checks)
            if count:
                what = f"{plural(count, 'data check')} {'was' if count == 1 else 'were'} skipped: {reason}"
                found.append(ResultWarning(code, what, hint=hint))
        return found


def validate_layers(
    layout: Layout,
    config: KtxConfig,
    names: Sequence[str] = (),
    *,
    environ: Mapping[str, str],
    connection: str | None = None,
    data: bool = True,
    seconds: float = DEFAULT_SECONDS,
    load: LoadLayer = load_layer,
    opener: Opener = open_connection,
    caller: Caller | None = None,
) -> Validation:
    """Validate the named sources, or all, of one connection or of all.

    With `data`, also check the rows if the connection is in `ktx.yaml`. `caller`: who sees the result; checks of what
    is hidden from them are skipped. None: somebody who may see all rows. Raises `UsageError` for a connection without a
    layer, and `SemanticError` for an unknown source.
    """
    found = Validation()
    models = _models(layout, config, connection, load)
    problems = {model.connection: _without_consequences([*model.problems, *check_model(model)]) for model in models}
    _require_known(names, models, problems)
    of_none: set[Diagnostic] = set()
    until = monotonic() + seconds
    for model in models:
        mine = [name for name in model.sources if not names or name in names]
        found.sources += [(model.connection, name) for name in mine]
        kept = [each for each in problems[model.connection] if not names or each.location.object in names]
        kept = [each for each in kept if each not in of_none]
        of_none |= {each for each in kept if each.code == NO_CONNECTION}
        found.problems += [(model.connection, each) for each in kept]
        if data and mine and model.connection in config.databases():
            _check_data(found, layout, config, model, mine, environ, until, opener, caller)
    return found


def _without_consequences(problems: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return the problems without those that may only exist because a file cannot be read."""
    broken = {"broken_shard", "broken_source"} & {each.code for each in problems}
    left_out = {"disconnected"} if broken else set()
    left_out |= {"unknown_source"} if "broken_shard" in broken else set()
    return [each for each in problems if each.code not in left_out]


def _models(layout: Layout, config: KtxConfig, connection: str | None, load: LoadLayer) -> list[Model]:
    """Return the layers to validate. Files outside all connections also affect databases without a layer."""
    known = layer_ids(layout)
    candidates = [each for each in config.databases() if connection in (None, each) and each not in known]
    bare = [model for each in candidates if (model := load(layout, config, each)).sealed is not None]
    if connection is not None and bare:
        return bare
    found = [load(layout, config, each) for each in selected_layers(layout, config, connection)]
    return found if any(model.connection in config.connections for model in found) else [*found, *bare[:1]]


def _check_data(
    found: Validation,
    layout: Layout,
    config: KtxConfig,
    model: Model,
    names: Sequence[str],
    environ: Mapping[str, str],
    until: float,
    opener: Opener,
    caller: Caller | None,
) -> None:
    """Add the data checks of a model and their diagnostics."""
    from ktx_cli.protection import rows_countable
    from ktx_cli.semantic import DataChecks, guard_of

    try:
        guard = guard_of(layout, config, model.connection, model)
        with guard.open(config, layout=layout, environ=environ, opener=opener) as connector:
            checks = DataChecks(
                model,
                lambda sql, most: connector.query(sql, max_rows=most),
                lambda: USED_UP if monotonic() >= until else None,
            )
            if caller is not None:
                checks.countable = rows_countable(model, WorkingTree(layout.root), caller)
            for check in checks.run(names):
                found.checks.append((model.connection, check))
                found.problems += [(model.connection, each) for each in check.problems]
    except CancelledError:
        raise
    except KtxError as error:  # report the file diagnostics anyway; the command ends with this error
        found.unread[model.connection] = error


def _require_known(names: Sequence[str], models: Sequence[Model], problems: Mapping[str, Sequence[Diagnostic]]) -> None:
    known = {name for model in models for name in model.sources}
    known |= {each.location.object for found in problems.values() for each in found if each.location.object}
    for name in names:
        if name not in known:
            raise unknown("source", name, known)


@dataclass(slots=True)
class TestReport:
    """The results of tests with their connections."""

    __test__ = False

    results: list[tuple[str, TestResult]] = field(default_factory=list)
    warnings: list[ResultWarning] = field(default_factory=list)
    """A warning for each connection whose files have errors: a test that cannot be read does not run."""

    @property
    def failed(self) -> int:
        """The number of failed tests."""
        return sum(not result.passed for _, result in self.results)

    def to_json(self) -> dict[str, Any]:
        """Return the data for the envelope."""
        return {
            "tests": [{"connection": connection, **result.to_json()} for connection, result in self.results],
            "passed": len(self.results) - self.failed,
            "failed": self.failed,
        }

    def diagnostics(self) -> list[Diagnostic]:
        """Return the failed tests as diagnostics."""
        return [_of_test(result) for _, result in self.results if not result.passed]

    def error(self) -> KtxError | None:
        """Return the command's error if a test failed."""
        if not self.failed:
            return None
        failed = [f"{result.source}.{result.test.name}" for _, result in self.results if not result.passed]
        message = f"{self.failed:,} of {plural(len(self.results), 'test')} failed"
        hint = "compare the expected and actual values, then fix the definition, the data or the test"
        return KtxError(message, hint=hint, details={"failed": failed}, code="tests_failed")


def _of_test(result: TestResult) -> Diagnostic:
    name, place = f"{result.source}.{result.test.name}", result.test.place or Location()
    if result.error is not None:
        message = f"{name}: {result.error.message}"
        return Diagnostic("test_failed", Severity.ERROR, message, place, result.error.hint)
    expected, got = (
        one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str), _LONGEST)
        for value in (result.expected, result.got)
    )
    return Diagnostic("test_failed", Severity.ERROR, f"{name}: expected {expected}, got {got}", place)


_LONGEST: Final = 200
"""Maximum number of characters of an expected or actual value in a diagnostic."""


def run_tests(
    layout: Layout,
    config: KtxConfig,
    names: Sequence[str] = (),
    *,
    environ: Mapping[str, str],
    connection: str | None = None,
    caller: Caller = NOBODY,
) -> TestReport:
    """Run the tests of the named sources, or all, of one connection or of all.

    Raises `UsageError`, `SemanticError` for an unknown source, and errors from opening a connection. Connections
    without tests are not opened.
    """
    from ktx_cli.protection import source_guard
    from ktx_cli.semantic import guard_of, run_test

    models = load_layers(layout, config, selected_layers(layout, config, connection))
    _require_known(names, models, {})
    report = TestReport()
    for model in models:
        if (broken := broken_files(model)) is not None:
            report.warnings.append(replace(broken, message=f"{broken.message}; tests with errors did not run"))
        sources = [source for source in model.sources.values() if source.tests and (not names or source.name in names)]
        if not sources:
            _keep(layout, model, [])
            continue
        guard = guard_of(layout, config, model.connection, model)
        shown = source_guard(model, WorkingTree(layout.root), caller)
        with guard.open(config, layout=layout, environ=environ) as connector:
            found = [
                run_test(model, source.name, test, connector, guard=shown, caller=caller)
                for source in sources
                for test in source.tests
            ]
        report.results += [(model.connection, each) for each in found]
        _keep(layout, model, found)
    return report


def _keep(layout: Layout, model: Model, results: Sequence[TestResult]) -> None:
    """Store the test results. A definition with a failed test counts as proposed until the test passes or is removed.

    Results are stored only in an existing state database: without one, everything is proposed anyway. While a file of
    the layer has an error, the results of its tests are kept.
    """
    from ktx_cli.semantic import record_tests

    if not has_state(layout):
        return
    rows = [(each.source, each.test.name, _measures_of(each), each.passed) for each in results]
    readable = all(each.severity is not Severity.ERROR for each in model.problems)
    tests = [(source.name, test.name) for source in model.sources.values() for test in source.tests]
    with open_for_writing(layout) as database, translated(layout.state):
        record_tests(database, model.connection, rows, isoformat(now())[:10], tests if readable else None)


def _measures_of(result: TestResult) -> list[str]:
    """Return the references to measures in a test's query."""
    asked = result.test.query.get("measures")
    names = [each for each in asked if isinstance(each, str)] if isinstance(asked, list) else []
    return [each if "." in each else f"{result.source}.{each}" for each in names]
