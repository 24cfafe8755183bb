"""KTX106: fewer parts have a description than `--min-coverage` requires."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Command, Diagnostic, Location, Severity
from ktx_cli.jobs.check.lint.lint import Coverage, LintedProject, Rule


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield one diagnostic if the coverage of the whole project is too low."""
    share, wanted = sum(project.coverage.values(), Coverage()).all, project.min_coverage
    if wanted is not None and share.total and share.described * 100 < wanted * share.total:
        message = f"{share.text} of tables, columns and measures have a description, {wanted:g}% are required"
        hint = Command("lint", "--select", "KTX101,KTX102,KTX103", "--limit", "0")
        yield RULE.diagnostic(message, Location(), hint)


RULE = Rule(
    "KTX106",
    "low-coverage",
    Severity.ERROR,
    "Fewer tables, columns and measures have a description than `--min-coverage` requires.",
    "Missing descriptions alone have the severity `info`. With `--min-coverage PERCENT`, a CI job fails if too few "
    "parts are described. The option applies regardless of `--select` and `--ignore`.",
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
    on_demand=True,
)
