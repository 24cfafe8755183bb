"""KTX347: the file with a semantic layer's questions cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Diagnostic, Location, Severity
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule
from ktx_cli.project import WorkingTree
from ktx_cli.scan import search_texts_path, search_texts_problem


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield the unreadable question files."""
    tree = WorkingTree(project.layout.root)
    for connection in project.linted_layers:
        problem = search_texts_problem(tree, connection)
        if problem is not None:
            location = Location(search_texts_path(connection), connection=connection)
            yield RULE.diagnostic(problem.message, location, str(problem.hint))


RULE = Rule(
    "KTX347",
    "unreadable-questions",
    Severity.WARNING,
    "The file with a semantic layer's questions cannot be read.",
    "Search uses questions that a model wrote for the definitions. While the file is damaged, search ignores all of "
    "them. Correct the file, or delete it; the next `ktx ingest` with a model writes it again.",
    check,
    bad={"raw-sources/warehouse/live-database/questions.yaml": "format: 1\nsources: [\n"},
    good={
        "raw-sources/warehouse/live-database/questions.yaml": """\
format: 1
sources:
  orders:
    hash: 5f1d
    questions: [What did people buy?]
"""
    },
)
