"""KTX101: a table has no description."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Diagnostic, Severity
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield the tables without a description, most important first."""
    for layer in project.described_layers:
        for source in layer.sources():
            if not layer.is_described(source, source):
                message = f"table `{source.name}` has no description{layer.facts(source)}"
                yield RULE.diagnostic(message, layer.location(source, source), layer.way_to_describe(source))


RULE = Rule(
    "KTX101",
    "undescribed-table",
    Severity.INFO,
    "A table has no description.",
    "Agents choose tables by their descriptions; without one, they guess from the name. Descriptions from people, dbt, "
    "database comments and models count; descriptions that `ktx scan` derives by rules do not. Frequently queried "
    "tables come first, then tables with many joins, then tables with many rows.",
    check,
    bad={
        "semantic-layer/warehouse/_schema/shop.yaml": """\
tables:
  orders:
    table: shop.orders
    columns: [{name: id, type: number, pk: true}]
"""
    },
    good={},
)
