"""Validates semantic layers: what their files say, what the definitions mean, and whether the data agrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import (
    CancelledError,
    Diagnostic,
    KtxError,
    ResultWarning,
    Severity,
    isoformat,
    monotonic,
    now,
    plural,
    severity_counts,
)
from ktx_cli.jobs.semantic.layers import selected_layers
from ktx_cli.project import KtxConfig, Layout, WorkingTree, open_for_writing, translated
from ktx_cli.semantic import NO_CONNECTION, PROBLEM_KEYS, check_model, layer_ids, load_layer, load_layers, unknown
from ktx_cli.warehouses import Opener, open_connection

if TYPE_CHECKING:
    from ktx_cli.semantic import DataCheck, LoadLayer, Model, TestResult

DEFAULT_SECONDS: Final = 60.0
"""How long new checks on the data are begun, unless it is asked for more."""

USED_UP: Final = "the time of --budget is used up"


@dataclass(slots=True)
class Validation:
    """What was found. `unread`: why the data of a connection could not be looked at, by its id."""

    sources: list[tuple[str, str]] = field(default_factory=list)
    problems: list[tuple[str, Diagnostic]] = field(default_factory=list)
    checks: list[tuple[str, DataCheck]] = field(default_factory=list)
    unread: dict[str, KtxError] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in the envelope."""
        return {
            "sources": [{"connection": connection, "name": name} for connection, name in self.sources],
            "problems": [{"connection": connection, **each.select(PROBLEM_KEYS)} for connection, each in self.problems],
            "checks": [{"connection": connection, **each.to_json()} for connection, each in self.checks],
            "counts": self.counts(),
        }

    def counts(self) -> dict[str, int]:
        """Return how many problems there are of each severity."""
        return severity_counts(problem for _, problem in self.problems)

    def error(self, *, strict: bool) -> KtxError | None:
        """Return the error to end with: of the problems, else of a connection that could not be looked at.

        `strict`: warnings count as errors do.
        """
        counts = self.counts()
        bad = [severity for severity in (("error", "warning") if strict else ("error",)) if counts[severity]]
        if bad:
            counted = " and ".join(plural(counts[severity], severity) for severity in bad)
            message, hint = f"the semantic layer has {counted}", "fix the files at the listed locations"
            return KtxError(message, hint=hint, details={"counts": counts}, code="semantic_problems")
        return next(iter(self.unread.values()), None)

    def warnings(self) -> list[ResultWarning]:
        """Say which checks were not made for want of time."""
        late = [check for _, check in self.checks if check.reason == USED_UP]
        if not late:
            return []
        what = f"{plural(len(late), 'data check')} {'was' if len(late) == 1 else 'were'} skipped: {USED_UP}"
        return [
            ResultWarning("budget", what, hint="allow more seconds with --budget 600, or pass the sources to check")
        ]


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
) -> Validation:
    """Return what is wrong with the named sources (all when there are none), of one connection or of all.

    `data`: look at the rows too, where the connection is in `ktx.yaml`. Raises `UsageError` for a connection without a
    layer, `SemanticError` for a name no source has.
    """
    found = Validation()
    models = _models(layout, config, connection, load)
    problems = {model.connection: [*model.problems, *check_model(model)] for model in models}
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
            _check_data(found, layout, config, model, mine, environ, until, opener)
    return found


def _models(layout: Layout, config: KtxConfig, connection: str | None, load: LoadLayer) -> list[Model]:
    """Return the layers to look at; files of no connection close a database too that has no layer of its own."""
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
) -> None:
    """Add the checks on the rows of a model, and what they found."""
    from ktx_cli.semantic import DataChecks, guard_of

    try:
        guard = guard_of(layout, config, model.connection, model)
        with guard.open(config, layout=layout, environ=environ, opener=opener) as connector:
            checks = DataChecks(
                model,
                lambda sql, most: connector.query(sql, max_rows=most),
                lambda: USED_UP if monotonic() >= until else None,
            )
            for check in checks.run(names):
                found.checks.append((model.connection, check))
                found.problems += [(model.connection, each) for each in check.problems]
    except CancelledError:
        raise
    except KtxError as error:  # what the files say is told all the same; the command ends with this error
        found.unread[model.connection] = error


def _require_known(names: Sequence[str], models: Sequence[Model], problems: Mapping[str, Sequence[Diagnostic]]) -> None:
    known = {name for model in models for name in model.sources}
    known |= {each.location.object for found in problems.values() for each in found if each.location.object}
    for name in names:
        if name not in known:
            raise unknown("source", name, known)


@dataclass(slots=True)
class TestReport:
    """How the tests ended, each with its connection."""

    __test__ = False

    results: list[tuple[str, TestResult]] = field(default_factory=list)

    @property
    def failed(self) -> int:
        """The number of checks that failed."""
        return sum(not result.passed for _, result in self.results)

    def to_json(self) -> dict[str, Any]:
        """Return the report as it stands in the envelope."""
        return {
            "tests": [{"connection": connection, **result.to_json()} for connection, result in self.results],
            "passed": len(self.results) - self.failed,
            "failed": self.failed,
        }

    def error(self) -> KtxError | None:
        """Return the error to end with where a test failed."""
        if not self.failed:
            return None
        failed = [f"{result.source}.{result.test.name}" for _, result in self.results if not result.passed]
        message = f"{self.failed:,} of {plural(len(self.results), 'test')} failed"
        hint = "compare the expected and actual values, then fix the definition, the data or the test"
        return KtxError(message, hint=hint, details={"failed": failed}, code="tests_failed")


def run_tests(
    layout: Layout,
    config: KtxConfig,
    names: Sequence[str] = (),
    *,
    environ: Mapping[str, str],
    connection: str | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> TestReport:
    """Run the tests of the named sources (all when there are none), of one connection or of all.

    Raises `UsageError`, `SemanticError` for a name no source has, and what opening a connection raises; a connection
    without tests is not opened.
    """
    from ktx_cli.protection import source_guard
    from ktx_cli.semantic import guard_of, run_test

    models = load_layers(layout, config, selected_layers(layout, config, connection))
    _require_known(names, models, {})
    report = TestReport()
    for model in models:
        sources = [source for source in model.sources.values() if source.tests and (not names or source.name in names)]
        if not sources:
            _keep(layout, model, [])
            continue
        guard = guard_of(layout, config, model.connection, model)
        shown = source_guard(model, WorkingTree(layout.root))
        with guard.open(config, layout=layout, environ=environ) as connector:
            found = [
                run_test(model, source.name, test, connector, guard=shown, attributes=attributes or {})
                for source in sources
                for test in source.tests
            ]
        report.results += [(model.connection, each) for each in found]
        _keep(layout, model, found)
    return report


def _keep(layout: Layout, model: Model, results: Sequence[TestResult]) -> None:
    """Keep how tests ended: a definition whose test failed counts as proposed until the test passes, or is gone.

    Only in a state database that is there: where no run has looked up who accepted what, all of it is proposed. While
    a file of the layer has an error, the results of its tests are kept: nobody has removed them.
    """
    from ktx_cli.semantic import record_tests

    if not layout.state.exists():
        return
    rows = [(each.source, each.test.name, _measures_of(each), each.passed) for each in results]
    readable = all(each.severity is not Severity.ERROR for each in model.problems)
    tests = [(source.name, test.name) for source in model.sources.values() for test in source.tests]
    with open_for_writing(layout) as database, translated(layout.state):
        record_tests(database, model.connection, rows, isoformat(now())[:10], tests if readable else None)


def _measures_of(result: TestResult) -> list[str]:
    """Return the references of the measures that a test asks for."""
    asked = result.test.query.get("measures")
    names = [each for each in asked if isinstance(each, str)] if isinstance(asked, list) else []
    return [each if "." in each else f"{result.source}.{each}" for each in names]
