"""Runs the tests of semantic layers on their databases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ktx_cli.context.semantic.errors import unknown
from ktx_cli.context.semantic.metric_tests import TestResult, run_test
from ktx_cli.context.semantic.model import Model
from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import plural
from ktx_cli.jobs.semantic.guarded import guard_of
from ktx_cli.jobs.semantic.layers import load_layers, some_layers
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import Layout


@dataclass(slots=True)
class TestReport:
    """How the tests ended, each with its connection."""

    __test__ = False

    results: list[tuple[str, TestResult]] = field(default_factory=list)

    @property
    def failed(self) -> int:
        """How many failed."""
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
        return KtxError(
            f"{self.failed:,} of {plural(len(self.results), 'test')} failed",
            hint="compare expected and got; correct the definition, the data or the test",
            details={
                "failed": [f"{result.source}.{result.test.name}" for _, result in self.results if not result.passed]
            },
            code="tests_failed",
        )


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
    models = load_layers(layout, config, some_layers(layout, config, connection))
    known = {name for model in models for name in model.sources}
    for name in names:
        if name not in known:
            raise unknown("source", name, known)
    report = TestReport()
    for model in models:
        _run(report, layout, config, model, names, environ, attributes or {})
    return report


def _run(
    report: TestReport,
    layout: Layout,
    config: KtxConfig,
    model: Model,
    names: Sequence[str],
    environ: Mapping[str, str],
    attributes: Mapping[str, Any],
) -> None:
    sources = [source for source in model.sources.values() if source.tests and (not names or source.name in names)]
    if not sources:
        return
    guard = guard_of(layout, config, model.connection, model)
    with guard.open(config, layout=layout, environ=environ) as connector:
        for source in sources:
            for test in source.tests:
                result = run_test(model, source.name, test, connector, attributes=attributes)
                report.results.append((model.connection, result))
