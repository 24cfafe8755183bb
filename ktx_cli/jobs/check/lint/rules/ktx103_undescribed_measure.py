"""KTX103: a measure has no description."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Diagnostic, Severity
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule, measures_of


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield the measures without a description."""
    for layer in project.described_layers:
        for source in layer.sources():
            for measure in measures_of(source):
                if not layer.is_described(source, measure):
                    message = f"measure `{source.name}.{measure.name}` has no description"
                    yield RULE.diagnostic(message, layer.location(source, measure), "add `description:` there")


RULE = Rule(
    "KTX103",
    "undescribed-measure",
    Severity.INFO,
    "A measure has no description.",
    "Measures often differ only in what they exclude. The description helps an agent choose the right one.",
    check,
    bad={
        "semantic-layer/warehouse/orders.yaml": """\
name: orders
measures:
  - {name: revenue, expr: sum(amount)}
"""
    },
    good={},
)
