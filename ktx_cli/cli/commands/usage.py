"""`ktx usage`: what model calls took."""

from __future__ import annotations

from typing import Annotated

import typer

from ktx_cli.cli.blocks import Table
from ktx_cli.cli.contract import Result, Session, command


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @command(app, "usage")
    def usage(
        session: Session,
        by: Annotated[
            list[str] | None,
            typer.Option("--by", help="Sum by day, role, model, backend or command; repeatable (day, model)."),
        ] = None,
        since: Annotated[str | None, typer.Option("--since", help="From this day on, as 2026-01-31 (UTC).")] = None,
    ) -> Result:
        """Show tokens and cost of model calls. Costs are list prices, also where a subscription pays."""
        from ktx_cli.jobs.models.usage import usage_report

        report = usage_report(session.require_project(), by=by or ["day", "model"], since=since)
        columns = (*report.dimensions, "units", "input", "output", "cached", "cost")
        rows = tuple(
            (
                *row.keys,
                str(row.units),
                f"{row.usage.input_tokens + row.usage.cache_write_tokens:,}",
                f"{row.usage.output_tokens:,}",
                f"{row.usage.cache_read_tokens:,}",
                "unknown" if row.cost.usd is None else f"${row.cost.usd:.4f}{' +?' if row.unpriced else ''}",
            )
            for row in report.rows
        )
        return Result(report.to_json(), [Table(columns, rows)])
