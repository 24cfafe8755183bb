"""KTX234: two pages have the same text."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Command, Diagnostic, Hint, Location, Severity
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule
from ktx_cli.wiki import Page, body_line


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield the pages whose text, whitespace and letter case apart, is that of an earlier one in the same scope."""
    first: dict[tuple[str, str], Page] = {}
    for page in project.pages:
        text = " ".join(page.body.split()).casefold()
        other = first.setdefault((page.scope, text), page)
        if text and other is not page:
            remove = Command("rm", page.path, program="git")
            hint = Hint("keep one of them, and refer to it: {}", remove)
            yield RULE.diagnostic(f"the text is that of {other.path}", Location(page.path, body_line(page)), hint)


RULE = Rule(
    "KTX234",
    "duplicate-page",
    Severity.WARNING,
    "Two pages have the same text.",
    "Sooner or later somebody corrects only one of them. Keep one page and refer to it; a page of a user may repeat a "
    "global one.",
    check,
    bad={
        "wiki/global/margin.md": "---\nsummary: Margin\n---\n\nPrice less cost.\n",
        "wiki/global/profit.md": "---\nsummary: Profit\n---\n\nPrice  less\ncost.\n",
    },
    good={"wiki/global/margin.md": "---\nsummary: Margin\n---\n\nPrice less cost.\n"},
)
