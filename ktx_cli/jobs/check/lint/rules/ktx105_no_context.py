"""KTX105: a database in `ktx.yaml` has no context."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Command, Diagnostic, Location, Severity
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule
from ktx_cli.project import CONFIG_NAME
from ktx_cli.semantic import shard_files


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield the databases without a manifest."""
    for name, entry in project.config.databases().items():
        if project.connection in (None, name) and not shard_files(project.layout, name):
            message = f"connection `{name}` ({entry.driver}) has no context yet"
            location = Location(CONFIG_NAME, 1, connection=name)
            yield RULE.diagnostic(message, location, Command("ingest", name))


RULE = Rule(
    "KTX105",
    "no-context",
    Severity.WARNING,
    "A database in `ktx.yaml` has no context.",
    "The connection is configured, but it has not been scanned yet, so agents do not see any of its tables.",
    check,
    bad={
        "ktx.yaml": """\
connections:
  warehouse: {driver: sqlite, path: shop.sqlite}
  archive: {driver: sqlite, path: archive.sqlite}
"""
    },
    good={},
)
