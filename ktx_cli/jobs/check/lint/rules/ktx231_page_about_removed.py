"""KTX231: a definition that a page is about was removed since the page was committed."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Diagnostic, Location, Severity
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield the removed definitions for each page, except those that the reference check reports as dangling."""
    for changed in project.changed_targets:
        if not changed.changes:
            message = f"`{changed.target.name}`, which the page is about, was removed {changed.since}"
            location = Location(changed.page.path, changed.line, connection=changed.target.connection)
            yield RULE.diagnostic(message, location, changed.hint)


RULE = Rule(
    "KTX231",
    "page-about-removed",
    Severity.WARNING,
    "A page refers to a definition that was removed after the page was last committed.",
    "Inline code such as `orders.amount` counts as a reference only while `orders` exists. The history shows that it "
    "existed when the page was written, so the page now describes something that cannot be queried.",
    check,
    bad={
        "semantic-layer/warehouse/_schema/shop.yaml": """\
tables:
  customers:
    table: shop.customers
    columns: [{name: id, type: number, pk: true}]
""",
        "semantic-layer/warehouse/orders.yaml": None,
    },
    good={"wiki/global/prices.md": "---\nsummary: Prices\n---\n\n`orders.amount` is the price paid.\n"},
)
