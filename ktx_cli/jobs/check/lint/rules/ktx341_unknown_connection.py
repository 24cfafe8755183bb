"""KTX341: a semantic layer belongs to no connection in `ktx.yaml`."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Command, Diagnostic, Hint, Location, Severity
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule
from ktx_cli.project import SEMANTIC_NAME


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield the semantic layers of connections that are not in `ktx.yaml`."""
    for connection in project.linted_layers:
        if connection not in project.config.connections:
            message = f"there is a semantic layer for the connection `{connection}`, which is not in ktx.yaml"
            remove = Command("rm", "-r", f"{SEMANTIC_NAME}/{connection}", program="git")
            hint = Hint("add it to ktx.yaml, or remove the folder: {}", remove)
            yield RULE.diagnostic(message, Location(connection=connection), hint)


RULE = Rule(
    "KTX341",
    "unknown-connection",
    Severity.WARNING,
    "A semantic layer belongs to no connection in `ktx.yaml`.",
    "The layer cannot be queried, and no run keeps it up to date. Usually the connection was renamed or removed.",
    check,
    bad={"semantic-layer/archive/_schema/old.yaml": "tables: {}\n"},
    good={},
)
