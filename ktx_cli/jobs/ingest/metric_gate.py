"""The tests of sources as a gate: what agents change must leave every number that is tested as it was."""

from __future__ import annotations

from collections.abc import Sequence

from ktx_cli.context.semantic.metric_tests import TestResult, run_test
from ktx_cli.context.semantic.model import MetricTest, Model
from ktx_cli.context.wiki.model import Finding
from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.jobs.ingest.running import Run
from ktx_cli.jobs.semantic.guarded import guard_of


class MetricGate:
    """Runs the tests of a connection on its database, as two states of the semantic layer have them."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._warned: set[str] = set()

    def __call__(self, before: Model, after: Model) -> list[Finding]:
        """Return the tests that fail after and did not fail before; a new test counts.

        A database that cannot be asked is a warning of the run: its tests are not run.
        """
        tests = [(source.name, test) for source in after.sources.values() for test in source.tests]
        if not tests:
            return []
        try:
            return self._failing(before, after, tests)
        except KtxError as error:
            self._warn(after.connection, error)
            return []

    def _failing(self, before: Model, after: Model, tests: Sequence[tuple[str, MetricTest]]) -> list[Finding]:
        run = self._run
        guard = guard_of(run.layout, run.config, after.connection, after)
        found: list[Finding] = []
        with guard.open(run.config, layout=run.layout, environ=run.request.environ) as connector:
            for name, test in tests:
                result = run_test(after, name, test, connector)
                if result.passed:
                    continue
                known = _of(before, name, test.name)
                if known is None or run_test(before, name, known, connector).passed:
                    found.append(_finding(result))
        return found

    def _warn(self, connection: str, error: KtxError) -> None:
        if connection not in self._warned:
            self._warned.add(connection)
            message = f"connection `{connection}`: the tests of its sources were not run: {error.message}"
            self._run.warnings.append(ResultWarning("tests_not_run", message, hint=error.hint, connection=connection))


def _of(model: Model, source: str, name: str) -> MetricTest | None:
    tests = model.sources[source].tests if source in model.sources else ()
    return next((test for test in tests if test.name == name), None)


def _finding(result: TestResult) -> Finding:
    place = result.test.place
    got = result.error.message if result.error is not None else f"got {result.got!r}, expected {result.expected!r}"
    return Finding(
        "" if place is None else place.path,
        0 if place is None else place.line,
        "test_fails",
        f"the test `{result.test.name}` of `{result.source}` fails: {got}",
        "the definitions must leave what is tested as it was",
    )
