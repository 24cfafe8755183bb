"""KTX230: a definition that a page refers to has changed since the page was committed."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Diagnostic, Location, Severity, listing, one_line
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield the changed definitions for each page, each part of a semantic layer once."""
    for changed in project.changed_targets:
        if changed.changes:
            what = one_line(listing(changed.changes, 3), 400)
            message = f"`{changed.target.name}` was changed {changed.since}: {what}"
            location = Location(changed.page.path, changed.line, connection=changed.target.connection)
            yield RULE.diagnostic(message, location, changed.hint)


RULE = Rule(
    "KTX230",
    "stale-page",
    Severity.WARNING,
    "A definition that a page refers to has changed since the page was last committed.",
    "The page may describe a definition that no longer exists in this form. A measure changes with its expression, "
    "filter, segments and time; a column with its type, expression, unit and list of values; a segment with its "
    "expression; a source with its table or SQL, its grain, its policies, and columns that were removed or changed "
    "type. If the page is still correct, commit it with a line such as `reviewed: 2026-01-31`.",
    check,
    bad={
        "semantic-layer/warehouse/orders.yaml": """\
name: orders
measures:
  - {name: revenue, expr: sum(amount * 1.19), description: Sum of all prices paid}
"""
    },
    good={},
)
