"""KTX344: the SQL of a source reads data that is hidden elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Command, Diagnostic, Hint, Severity
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule
from ktx_cli.protection import Refused, check_protected, has_protected
from ktx_cli.semantic import Visibility


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield the sources whose SQL reads hidden columns or sources, or rows with a policy."""
    for layer in project.described_layers:
        if not has_protected(layer.model):
            continue
        for source in layer.sources():
            if source.sql is None or source.policies or source.visibility is Visibility.HIDDEN:
                continue
            try:
                check_protected(layer.model, source.sql)
            except Refused as error:
                message = f"the SQL of `{source.name}` reads data that is hidden elsewhere: {error.message}"
                hint = Hint("hide it here too, or, if a tool wrote this source: {}", Command("ingest"))
                yield RULE.diagnostic(message, layer.location(source, source), hint)


RULE = Rule(
    "KTX344",
    "query-of-hidden",
    Severity.WARNING,
    "The SQL of a source reads data that is hidden elsewhere.",
    "Queries of such a source show values of a hidden column, or rows that a policy hides. If the source comes from a "
    "dbt model, the next `ktx ingest` removes it; until then, queries show the hidden data.",
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
