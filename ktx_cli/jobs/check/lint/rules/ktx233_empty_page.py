"""KTX233: a page has no text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ktx_cli.core import Command, Diagnostic, Hint, Location, Severity
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule
from ktx_cli.wiki import body_line

_NO_TEXT: Final = re.compile(r"^\s*(?:#.*|[-*_]{3,})?\s*$")
"""A line that is blank, a heading or a rule."""


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield the pages that contain only headings."""
    for page in project.pages:
        if all(_NO_TEXT.match(line) for line in page.body.splitlines()):
            hint = Hint("add text, or remove the page: {}", Command("rm", page.path, program="git"))
            yield RULE.diagnostic("the page has no text", Location(page.path, body_line(page)), hint)


RULE = Rule(
    "KTX233",
    "empty-page",
    Severity.WARNING,
    "A page has no text.",
    "A page that contains only headings answers no questions, but search still finds it.",
    check,
    bad={"wiki/global/margin.md": "---\nsummary: Margin\n---\n\n# Margin\n"},
    good={"wiki/global/margin.md": "---\nsummary: Margin\n---\n\n# Margin\n\nPrice less cost.\n"},
)
