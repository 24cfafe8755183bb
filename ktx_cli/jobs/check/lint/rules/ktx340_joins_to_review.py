"""KTX340: inferred joins wait for a decision."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Command, Diagnostic, Location, Severity, plural
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule
from ktx_cli.jobs.review import join_status_counts
from ktx_cli.project import DATABASE_SOURCE, Layout
from ktx_cli.scan import RELATIONSHIPS, JoinStatus


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield how many inferred joins of each connection wait for a decision; an unreadable record is a warning."""
    for connection in project.linted_layers:
        waiting = (join_status_counts(project.layout, connection, project.warn) or {}).get(JoinStatus.REVIEW, 0)
        if waiting:
            verb = "waits" if waiting == 1 else "wait"
            message = f"{plural(waiting, 'inferred join')} of `{connection}` {verb} for a decision"
            location = Location(Layout.raw_path(connection, DATABASE_SOURCE, RELATIONSHIPS), 1, connection=connection)
            hint = Command("scan", "relationships", connection, "--review")
            yield RULE.diagnostic(message, location, hint)


RULE = Rule(
    "KTX340",
    "joins-to-review",
    Severity.INFO,
    "Inferred joins wait for a decision.",
    "A scan inferred joins whose evidence is too weak to use them automatically. Queries do not use them "
    "until they are accepted.",
    check,
    bad={
        "raw-sources/warehouse/live-database/relationships.json": """\
{"format": 1, "keys": [], "edges": [
  {"from": ["shop", "orders"], "columns": ["amount"], "to": ["shop", "customers"], "to_columns": ["id"],
   "status": "review", "score": 0.6, "reason": "names alike", "relationship": "many_to_one", "sources": []}
]}
"""
    },
    good={},
)
