"""`ktx status`: facts and readiness of this project."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import typer

from ktx_cli.cli.blocks import Fields, Table
from ktx_cli.cli.contract import Result, Session, command

if TYPE_CHECKING:
    from ktx_cli.jobs.ingest.ledger import LastFetch


def _last_fetch(fetch: LastFetch | None) -> tuple[str, str, str]:
    return ("", "", "never") if fetch is None else (fetch.kind, f"{fetch.files:,}", fetch.finished)


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
        databases = [c for c in facts.connections if c.is_database]
        if databases:
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
                for c in databases
            ]
            blocks.append(Table(columns, tuple(cells)))
        fetched = [c for c in facts.connections if not c.is_database or c.last_fetch]
        if fetched:
            read = tuple((c.id, c.driver, *_last_fetch(c.last_fetch)) for c in fetched)
            blocks.append(Table(("source", "driver", "kind", "files", "last fetch"), read))
        if facts.runs:
            run = facts.runs[0]
            blocks.append(Fields((("last run", f"{run['run_id']} {run['command']}: {run['status']}"),)))
        steps = [] if facts.next_command is None else [facts.next_command]
        return Result(facts.to_json(), blocks, facts.error(), next_steps=steps)
