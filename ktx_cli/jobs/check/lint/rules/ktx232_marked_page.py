"""KTX232: a page is marked as out of date."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Command, Diagnostic, Hint, Location, Severity
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule
from ktx_cli.wiki import field_line


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield the pages whose front matter gives the date since when they are out of date."""
    for page in project.pages:
        name = next((field for field in ("archived_since", "stale_since") if page.fields.get(field) is not None), None)
        if name is not None:
            message = f"the page is marked as outdated: {name} {page.fields[name]}"
            remove = Command("rm", page.path, program="git")
            hint = Hint(f"update the page and remove {name}, or remove the page: {{}}", remove)
            yield RULE.diagnostic(message, Location(page.path, field_line(page, name)), hint)


RULE = Rule(
    "KTX232",
    "marked-page",
    Severity.INFO,
    "A page is marked as outdated.",
    "`stale_since` and `archived_since` keep a page out of answers, but the page remains in the wiki. Update the page "
    "and remove the field, or remove the page.",
    check,
    bad={"wiki/global/revenue.md": "---\nsummary: Revenue\nstale_since: '2026-01-31'\n---\n\nIt excludes taxes.\n"},
    good={},
)
