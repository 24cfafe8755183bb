"""KTX102: some columns of a table have no description."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Diagnostic, Severity, listing, plural
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule, columns_of


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield one diagnostic for each table that has columns without a description."""
    for layer in project.described_layers:
        for source in layer.sources():
            columns = columns_of(source)
            bare = [column for column in columns if not layer.is_described(source, column)]
            if bare:
                counts = f"{len(bare):,} of {plural(len(columns), 'column')} without a description"
                message = f"table `{source.name}`: {counts}: {listing(column.name for column in bare)}"
                yield RULE.diagnostic(message, layer.location(source, bare[0]), layer.way_to_describe(source))


RULE = Rule(
    "KTX102",
    "undescribed-columns",
    Severity.INFO,
    "Columns of a table have no description.",
    "Agents need column descriptions, for example to tell cents from euros. One diagnostic lists the "
    "columns of a table; hidden columns do not count.",
    check,
    bad={
        "semantic-layer/warehouse/_schema/shop.yaml": """\
tables:
  orders:
    table: shop.orders
    descriptions: {user: One row per order}
    columns: [{name: id, type: number, pk: true}]
"""
    },
    good={},
)
