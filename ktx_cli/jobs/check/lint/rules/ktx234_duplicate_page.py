"""KTX234: two pages have the same or nearly the same text."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Command, Diagnostic, Hint, Location, Severity
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule
from ktx_cli.wiki import DUPLICATE, SimilarPages, body_line


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield the pages whose text is the same or nearly the same as that of an earlier page in the same scope."""
    earlier = SimilarPages()
    for page in (each for each in project.pages if not each.is_catalog):
        other = next((each for each in earlier.like(page) if each.share >= DUPLICATE), None)
        if other is not None:
            path = other.page.path
            message = (
                f"the text is the same as {path}" if other.share == 1 else f"{other.share:.0%} of the text is in {path}"
            )
            hint = Hint("keep one of them, and refer to it: {}", Command("rm", page.path, program="git"))
            yield RULE.diagnostic(message, Location(page.path, body_line(page)), hint)
        earlier.add(page)


RULE = Rule(
    "KTX234",
    "duplicate-page",
    Severity.WARNING,
    "Two pages have the same or nearly the same text.",
    "Sooner or later, only one of them is corrected. Keep one page and refer to it; a user's page may repeat a "
    "global one. ktx reports pages of at least 40 words if 80% of the three-word groups in the shorter page also occur "
    "in the other. Agents cannot write a new page that repeats another.",
    check,
    bad={
        "wiki/global/margin.md": "---\nsummary: Margin\n---\n\nPrice less cost.\n",
        "wiki/global/profit.md": "---\nsummary: Profit\n---\n\nPrice  less\ncost.\n",
    },
    good={"wiki/global/margin.md": "---\nsummary: Margin\n---\n\nPrice less cost.\n"},
)
