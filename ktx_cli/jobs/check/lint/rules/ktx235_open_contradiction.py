"""KTX235: sources contradict each other, and nobody has decided which one is correct."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Diagnostic, Hint, KtxError, Location, Severity, one_line
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule
from ktx_cli.jobs.contradictions import COMMAND, list_contradictions
from ktx_cli.project import CONTRADICTIONS_NAME


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield the contradictions that wait for a decision; an unreadable file is an error."""
    try:
        recorded = list_contradictions(project.layout)
    except KtxError as error:
        hint = error.hint or Hint(f"correct {CONTRADICTIONS_NAME}")
        line = int(error.details.get("line", 1))
        message = str(error.details.get("problem", error.message))
        yield RULE.diagnostic(message, Location(CONTRADICTIONS_NAME, line), hint, Severity.ERROR)
        return
    for each in recorded:
        found = each.contradiction
        if not found.is_decided:
            message = f"sources disagree about {one_line(found.topic, 120)}: {one_line(found.summary, 600)}"
            hint = Hint("decide: {}", COMMAND.with_words(found.topic, "--holds", "1"))
            yield RULE.diagnostic(message, Location(CONTRADICTIONS_NAME, each.line), hint)


RULE = Rule(
    "KTX235",
    "open-contradiction",
    Severity.WARNING,
    "Sources contradict each other, and nobody has decided which one is correct.",
    "Agents do not prefer one source over another, so pages give both statements until a person decides. Run "
    "`ktx wiki contradictions --review` to decide them one by one. A `contradictions.yaml` that "
    "cannot be read is reported as an error.",
    check,
    bad={
        "contradictions.yaml": """\
contradictions:
  - topic: return window
    statements:
      - {text: Customers have 30 days., source: handbook/returns.md, effect: The page on returns.}
      - {text: Customers have 14 days., source: handbook/policy.md, effect: The page on returns.}
"""
    },
    good={
        "contradictions.yaml": """\
contradictions:
  - topic: return window
    statements:
      - {text: Customers have 30 days., source: handbook/returns.md, effect: The page on returns.}
      - {text: Customers have 14 days., source: handbook/policy.md, effect: The page on returns.}
    decision: Customers have 30 days.
"""
    },
)
