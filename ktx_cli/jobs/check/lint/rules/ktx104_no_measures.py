"""KTX104: a table has no measures."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Diagnostic, Severity
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield the tables without measures, most important first."""
    for layer in project.described_layers:
        for source in layer.sources():
            if not source.measures:
                message = f"table `{source.name}` has no measure{layer.facts(source)}"
                hint = f"add `measures:` in {layer.own_file(source)}"
                yield RULE.diagnostic(message, layer.location(source, source), hint)


RULE = Rule(
    "KTX104",
    "no-measures",
    Severity.INFO,
    "A table has no measure.",
    "Without measures, each agent writes its own aggregates, each a little different. Define what people count and sum "
    "in the file of the table or in its overlay.",
    check,
    bad={"semantic-layer/warehouse/orders.yaml": "name: orders\n"},
    good={},
)
