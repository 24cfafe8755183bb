"""`ktx status`: facts and readiness of this project."""

from __future__ import annotations

import os

import typer

from ktx_cli.cli.blocks import Fields, Table
from ktx_cli.cli.contract import Result, Session, command


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @command(app, "status")
    def status(session: Session) -> Result:
        """Show facts and readiness of this project; changes nothing. Exit 3 when not ready."""
        from ktx_cli.jobs.readiness.status import project_status

        facts = project_status(session.require_project(), os.environ)
        session.warn(*facts.warnings)
        ready = "yes" if facts.ready else "no"
        rows = [("project", str(facts.project_dir)), ("ready", ready)]
        rows += [(f.check, f"{f.level.value}: {f.message}") for f in facts.findings if f.check != "config"]
        blocks: list[Fields | Table] = [Fields(tuple(rows))]
        if facts.connections:
            columns = ("connection", "driver", "sources", "columns", "joins found", "to review", "last scan")
            cells = [
                (
                    c.id,
                    c.driver,
                    str(c.sources),
                    str(c.columns),
                    "not looked for" if c.relationships is None else str(c.joins),
                    "" if c.relationships is None else str(c.to_review),
                    c.last_scan.finished if c.last_scan else "never",
                )
                for c in facts.connections
            ]
            blocks.append(Table(columns, tuple(cells)))
        steps = [] if facts.next_command is None else [facts.next_command]
        return Result(facts.to_json(), blocks, facts.error(), next_steps=steps)
