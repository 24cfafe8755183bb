"""KTX344: the SQL of a source reads data that is hidden elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Command, Diagnostic, Hint, Severity
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule
from ktx_cli.protection import Refused, check_source


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield the sources whose SQL reads hidden or masked columns, hidden sources, or rows with a policy."""
    for layer in project.described_layers:
        for source in layer.sources():
            try:
                check_source(layer.model, source)
            except Refused as error:
                hint = Hint("also hide it here, or, if a tool wrote this source: {}", Command("ingest"))
                yield RULE.diagnostic(error.message, layer.location(source, source), hint)


RULE = Rule(
    "KTX344",
    "query-of-hidden",
    Severity.WARNING,
    "The SQL of a source reads data that is hidden elsewhere.",
    "Such a source would show values of a hidden or masked column, or rows that a policy hides, so `ktx sl query` and "
    "the MCP server refuse questions that read it. A caller who sees a masked column can query a source that reads it. "
    "If the source comes from a dbt model, the next `ktx ingest` removes it.",
    check,
    bad={
        "semantic-layer/warehouse/customers.yaml": """\
name: customers
measures:
  - {name: buyers, expr: count(id), description: Number of customers}
column_overrides:
  - {name: country, visibility: hidden}
""",
        "semantic-layer/warehouse/places.yaml": """\
name: places
sql: SELECT id, country FROM shop.customers
description: Where customers live
grain: [id]
columns:
  - {name: id, type: number, description: Number of the customer}
  - {name: country, type: string, description: Country of the billing address}
measures:
  - {name: places, expr: count(id), description: Number of customers}
""",
    },
    good={
        "semantic-layer/warehouse/places.yaml": """\
name: places
sql: SELECT id FROM shop.customers
description: Where customers live
grain: [id]
columns:
  - {name: id, type: number, description: Number of the customer}
measures:
  - {name: places, expr: count(id), description: Number of customers}
"""
    },
)
