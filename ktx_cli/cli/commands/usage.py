"""`ktx usage`: what model calls took."""

from __future__ import annotations

from typing import Annotated

import typer

from ktx_cli.cli.blocks import Table
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.runs_view import USAGE_COLUMNS, usage_cells


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @command(app, "usage")
    def usage(
        session: Session,
        by: Annotated[
            list[str] | None,
            typer.Option("--by", help="Sum by day, role, model, backend, command or run; repeatable (day, model)."),
        ] = None,
        since: Annotated[str | None, typer.Option("--since", help="From this day on, as 2026-01-31 (UTC).")] = None,
        run: Annotated[
            str | None, typer.Option("--run", metavar="RUN", help="Of this run: its id, the id's beginning, `latest`.")
        ] = None,
    ) -> Result:
        """Show tokens and cost of model calls. Costs are list prices, also of calls in a local session."""
        from ktx_cli.jobs.llm import usage_report

        report = usage_report(session.require_project(), by=by or ["day", "model"], since=since, run=run)
        session.warn(*report.warnings)
        table = Table((*report.dimensions, *USAGE_COLUMNS), tuple(map(usage_cells, report.rows)))
        return Result(report.to_json(), [table])
